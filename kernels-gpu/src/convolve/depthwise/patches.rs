// SPDX-License-Identifier: MIT OR Apache-2.0
//! Depthwise convolutions of pictures of 16-bit numbers, by way of shared memory.
//!
//! A tile is a box of places of the output of one image, with some units of 8 channels side by side. What its taps read, its *patch*, the
//! block copies into shared memory by 16 bytes, with zeros beyond the input's ends, while it computes the tile before it: what is under way
//! takes no registers, so that memory is kept busy by few threads, and edges alone are read twice. Weights stay in shared memory.
//!
//! An *item* is a thread's: two channels of [`STRIP`] places one after another along the last axis, with stride 1 of two lines, so that
//! what a line of the input has is loaded and converted once for both.

use cuda_std::async_copy;
use cuda_std::half::{self, bf16, f16};
use cuda_std::prelude::*;

use super::super::mma::{Input, WIDE};
use super::super::{ConvolveShape, divide};
use super::STRIP;
use super::strips::quotient;
use crate::matmul::unroll;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Channels of an item.
const CHANNELS: usize = 2;

/// The taps of a line for which there are kernels.
pub const TAPS: [usize; 3] = [3, 5, 7];

/// Blocks that ptxas makes room for on a multiprocessor: with three, it keeps registers of 3 taps in memory, and 56² with 128 channels took
/// 37 µs for 29 on an H100.
pub const BLOCKS: usize = 2;

/// Lines of an item with this stride.
pub const fn lines(stride: u32) -> u32 {
    if stride == 1 { 2 } else { 1 }
}

/// How places fall to blocks, and what these have in shared memory. Of axes, the lines and the last.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct PatchesPlan {
    /// Units of 8 channels that a block has.
    pub units: u32,
    /// Blocks that all channels take.
    pub chunks: u32,
    /// Items of a tile along the axes.
    pub items: [u32; 2],
    /// Tiles of an image along the axes.
    pub tiles: [u32; 2],
    /// Patches of a block, 1 or 2: of two, one is copied while the other is computed with.
    pub stages: u32,
}

impl PatchesPlan {
    /// Channels of a block.
    #[inline(always)]
    pub fn channels(&self) -> u32 {
        self.units * WIDE as u32
    }

    /// Places of a tile along the axes.
    #[inline(always)]
    pub fn tile(&self, stride: u32) -> [u32; 2] {
        [self.items[0] * lines(stride), self.items[1] * STRIP as u32]
    }

    /// Places of the input that a tile reads, along the axes.
    #[inline(always)]
    pub fn patch(&self, window: [u32; 2], stride: u32) -> [u32; 2] {
        let [a, b] = self.tile(stride);
        [(a - 1) * stride + window[0], (b - 1) * stride + window[1]]
    }

    /// Elements from line to line of a patch of so many places: so that items one below the other, which lanes of a warp have if a block has
    /// few units, meet in no bank.
    #[inline(always)]
    fn line(&self, places: u32) -> u32 {
        places * self.channels() + (self.channels() / 2).next_multiple_of(WIDE as u32)
    }

    /// Bytes of the weights and of a patch.
    #[inline(always)]
    fn bytes(&self, window: [u32; 2], stride: u32) -> [u32; 2] {
        let [a, b] = self.patch(window, stride);
        [2 * window[0] * window[1] * self.channels(), 2 * a * self.line(b)]
    }

    /// Bytes of shared memory.
    #[inline(always)]
    pub fn memory(&self, window: [u32; 2], stride: u32) -> u32 {
        let [weights, patch] = self.bytes(window, stride);
        weights + self.stages * patch
    }
}

/// The convolution: `weights` has outputs and taps, in C order.
///
/// Sums are in the order of taps, by fused multiply-add in f32, and rounded once; what lies beyond the input's ends is multiplied as zeros.
/// Blocks of a chunk of channels are `chunks` apart, and take turns with the tiles.
///
/// # Safety
///
/// A block has [`THREADS`] threads and the bytes of dynamic shared memory that [`PatchesPlan::memory`] says; the grid has one axis, of a
/// multiple of `chunks` blocks. The operands lie within their arrays, and there is an image and a place. Groups have one channel and one
/// output each, and are a multiple of [`WIDE`]; `chunks` times so many units have them all. Along the first of three axes input, output
/// and window have one place, with nothing beyond the input's ends; along the others the stride is the same, 1 or 2, and the dilation 1.
/// The window has `K` taps along the last axis. Tiles cover the output; there are less than 2^31 of them. `x` is aligned to 16 bytes, and
/// its distances but the last are multiples of [`WIDE`]; `out` to 4 bytes, with distances that are even; the last are 1.
#[kernel(T = [bf16, f16], K = [3, 5, 7], arch = "sm_80", max_threads = THREADS, min_blocks = BLOCKS)]
pub unsafe fn convolve_depthwise_patches<T: Input, const K: usize>(
    x: &[T],
    weights: &[T],
    out: SliceMut<'_, T>,
    shape: ConvolveShape,
    plan: PatchesPlan,
) {
    let (first, chunk) = divide(thread::block_idx_x() as usize, plan.chunks);
    let apart = divide(thread::grid_dim_x() as usize, plan.chunks).0;
    let memory = cuda_std::shared::dynamic::<u8>();
    let window = [shape.window[1], shape.window[2]];
    let stride = shape.stride[2];
    let [of_weights, of_patch] = plan.bytes(window, stride);
    // SAFETY (of both): parts of the memory, by the kernel's contract.
    let taps = unsafe { memory.subarray_unchecked(0, of_weights as usize) };
    let patches = unsafe { memory.subarray_unchecked(of_weights as usize, (plan.stages * of_patch) as usize) };
    let [rows, columns] = plan.patch(window, stride);
    let block = Block::<T, K> {
        x,
        weights,
        out,
        channel: chunk as u32 * plan.channels(),
        patch: [rows, columns],
        tile: plan.tile(stride),
        line: plan.line(columns),
        stage: of_patch / 2,
        taps: taps.cast(),
        patches: patches.cast(),
        shape,
        plan,
    };
    // SAFETY (of both): the kernel's contract.
    match stride {
        1 => unsafe { block.run::<1, 2>(first as u32, apart as u32) },
        _ => unsafe { block.run::<2, 1>(first as u32, apart as u32) },
    }
}

/// A tile.
#[derive(Clone, Copy)]
struct Tile {
    image: u32,
    /// The first place of the output, of its line and in it.
    place: [u32; 2],
}

/// What a thread copies of each patch: a unit of some places, `on` lines and columns apart.
struct Copies {
    /// The line and column of the first, or the end of all lines.
    at: [u32; 2],
    on: [u32; 2],
    /// Where it is from a patch's first place on in the input, in bytes, and from one to the next, and what is to be added where a line ends.
    from: usize,
    from_on: usize,
    from_wrap: usize,
    /// The same in shared memory.
    to: u32,
    to_on: u32,
    to_wrap: u32,
    /// Lines of the input; of channels that are not there none.
    lines: u32,
}

/// What a thread computes of each tile: two channels of some items, `on` lines of items and strips apart.
struct Items {
    /// The line and the strip of the first, or the end of all strips.
    at: [u32; 2],
    on: [u32; 2],
    /// The first channel, of the block's.
    channel: u32,
}

struct Block<'a, T, const K: usize> {
    x: &'a [T],
    weights: &'a [T],
    out: SliceMut<'a, T>,
    shape: ConvolveShape,
    plan: PatchesPlan,
    /// The first channel.
    channel: u32,
    /// Places of a patch along the axes, and of a tile.
    patch: [u32; 2],
    tile: [u32; 2],
    /// Elements from line to line of a patch, and from patch to patch.
    line: u32,
    stage: u32,
    /// The weights, of each tap those of all channels.
    taps: Shared<T>,
    patches: Shared<T>,
}

/// Elements of a line that an item's places read, at most.
const MOST: usize = 2 * (STRIP - 1) + TAPS[TAPS.len() - 1];

/// What an item's places read of a line of the input.
type Line = [[f32; CHANNELS]; MOST];

/// The sums of a line of an item.
type Sums = [[f32; CHANNELS]; STRIP];

impl<T: Input, const K: usize> Block<'_, T, K> {
    /// Computes tiles `first`, and every `apart`th after it, by items of `R` lines, with stride `S`.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn run<const S: usize, const R: usize>(&self, first: u32, apart: u32) {
        let [lines, columns] = self.plan.tiles;
        let tiles = self.shape.images * lines * columns;
        self.fill_taps();
        let (copies, items) = (self.copies(), self.items());
        let ahead = if self.plan.stages == 2 { apart } else { 0 };
        let (mut coming, mut stage) = (first, 0);
        let mut last = Tile {
            image: 0,
            place: [0; 2],
        };
        while coming < tiles + ahead {
            let mut tile = last;
            if coming < tiles {
                last = self.tile(coming);
                // SAFETY: the kernel's contract; all are behind a barrier after what they read of the stage.
                unsafe { self.fill(&copies, &last, stage) };
            }
            async_copy::commit();
            if ahead > 0 {
                stage ^= 1;
                async_copy::wait::<1>();
            } else {
                tile = last;
                async_copy::wait::<0>();
            }
            // With two stages there is nothing to compute in the first round.
            if ahead == 0 || coming != first {
                thread::sync_threads();
                // SAFETY: the kernel's contract.
                unsafe { self.compute::<S, R>(&items, &tile, stage) };
                thread::sync_threads();
            }
            coming += apart;
        }
    }

    /// The tile of a number.
    #[inline(always)]
    fn tile(&self, number: u32) -> Tile {
        let (rest, column) = quotient(number, self.plan.tiles[1]);
        let (image, line) = quotient(rest, self.plan.tiles[0]);
        let [lines, columns] = self.tile;
        Tile {
            image,
            place: [line * lines, column * columns],
        }
    }

    /// The copies of this thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn copies(&self) -> Copies {
        let shape = &self.shape;
        let units = self.plan.units;
        let (place, unit) = quotient(thread::thread_idx_x(), units);
        let at_once = quotient(THREADS as u32, units).0;
        let [lines, columns] = self.patch;
        let (line, column) = quotient(place, columns);
        let (lines_on, columns_on) = quotient(at_once, columns);
        let far = |line: u32, column: u32| {
            let along = (line as usize).wrapping_mul(shape.x[2]);
            along.wrapping_add((column as usize).wrapping_mul(shape.x[3]))
        };
        let to = |line: u32, column: u32| line * self.line + column * self.plan.channels();
        let channel = self.channel + unit * WIDE as u32;
        Copies {
            // Those who have no place have one behind the last.
            at: [if place < at_once { line } else { lines }, column],
            on: [lines_on, columns_on],
            from: far(line, column).wrapping_add(channel as usize).wrapping_mul(2),
            from_on: far(lines_on, columns_on).wrapping_mul(2),
            from_wrap: shape.x[2].wrapping_sub(far(0, columns)).wrapping_mul(2),
            to: 2 * (to(line, column) + unit * WIDE as u32),
            to_on: 2 * to(lines_on, columns_on),
            to_wrap: 2 * self.line.wrapping_sub(to(0, columns)),
            lines: if channel < shape.groups { shape.input[1] } else { 0 },
        }
    }

    /// The items of this thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn items(&self) -> Items {
        let pairs = self.plan.channels() / CHANNELS as u32;
        let (item, pair) = quotient(thread::thread_idx_x(), pairs);
        let at_once = quotient(THREADS as u32, pairs).0;
        let [lines, strips] = self.plan.items;
        let (strip, line) = quotient(item, lines);
        let (strips_on, lines_on) = quotient(at_once, lines);
        let channel = pair * CHANNELS as u32;
        let has_some = item < at_once && self.channel + channel < self.shape.groups;
        Items {
            at: [line, if has_some { strip } else { strips }],
            on: [lines_on, strips_on],
            channel,
        }
    }

    /// Copies the weights, with zeros for channels that are not there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill_taps(&self) {
        let taps = self.shape.window[1] * K as u32;
        let channels = self.plan.channels();
        let mut number = thread::thread_idx_x();
        while number < channels * taps {
            let (channel, tap) = quotient(number, taps);
            let is_there = self.channel + channel < self.shape.groups;
            let from = self.channel as usize * taps as usize + number as usize;
            // SAFETY (of both): a weight of a channel that there is; memory has room for all of the block's.
            let weight = if is_there {
                unsafe { self.weights.load_vec_unchecked::<1>(from)[0] }
            } else {
                T::ZERO
            };
            unsafe { self.taps.set_unchecked((tap * channels + channel) as usize, weight) };
            number += THREADS as u32;
        }
    }

    /// Has a stage filled with what a tile reads.
    ///
    /// # Safety
    ///
    /// The kernel's contract. Nobody accesses the stage until the thread has waited for its copies, and a barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn fill(&self, copies: &Copies, tile: &Tile, stage: u32) {
        let shape = &self.shape;
        let [lines, columns] = self.patch;
        let [a, b]: [u32; 2] = cuda_std::array::from_fn(|axis: usize| {
            tile.place[axis]
                .wrapping_mul(shape.stride[2])
                .wrapping_add(shape.first[axis + 1])
        });
        // Before the input they are large numbers.
        let place = |axis: usize, at: u32| (at as i32 as usize).wrapping_mul(shape.x[axis]);
        let first = place(0, tile.image).wrapping_add(place(2, a)).wrapping_add(place(3, b));
        let mut from = self.x.as_ptr().wrapping_add(first).wrapping_byte_add(copies.from);
        let mut to = copies.to + 2 * stage * self.stage;
        let [mut line, mut column] = copies.at;
        while line < lines {
            let is_inside = a.wrapping_add(line) < copies.lines && b.wrapping_add(column) < shape.input[2];
            // SAFETY: eight channels of a place of the input, at a multiple of 16 bytes by the kernel's contract, or none; the patch has
            // room for its places.
            unsafe { async_copy::copy_16(self.patches, to, from.cast(), if is_inside { 16 } else { 0 }) };
            line += copies.on[0];
            column += copies.on[1];
            from = from.wrapping_byte_add(copies.from_on);
            to += copies.to_on;
            if column >= columns {
                column -= columns;
                line += 1;
                from = from.wrapping_byte_add(copies.from_wrap);
                to = to.wrapping_add(copies.to_wrap);
            }
        }
    }

    /// Computes a tile.
    ///
    /// # Safety
    ///
    /// The kernel's contract; the stage has the tile's patch.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn compute<const S: usize, const R: usize>(&self, items: &Items, tile: &Tile, stage: u32) {
        let shape = &self.shape;
        let [lines, strips] = self.plan.items;
        let [mut line, mut strip] = items.at;
        while strip < strips {
            let [a, b] = [line * R as u32, strip * STRIP as u32];
            let at = [tile.place[0] + a, tile.place[1] + b];
            if at[0] < shape.output[1] && at[1] < shape.output[2] {
                let from = stage * self.stage + (a * self.line + b * self.plan.channels()) * S as u32;
                // SAFETY (of both): an item of the tile, and of the output.
                let sums = unsafe { self.sums::<S, R>(from + items.channel, items.channel) };
                unsafe { self.store::<R>(tile.image, at, self.channel + items.channel, &sums) };
            }
            line += items.on[0];
            strip += items.on[1];
            if line >= lines {
                line -= lines;
                strip += 1;
            }
        }
    }

    /// The sums of an item that reads from this element on, with weights from that one on.
    ///
    /// # Safety
    ///
    /// The kernel's contract; an item's elements.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn sums<const S: usize, const R: usize>(&self, mut from: u32, mut tap: u32) -> [Sums; R] {
        let of_line = K as u32 * self.plan.channels();
        let mut sums = [[[0.0; CHANNELS]; STRIP]; R];
        // SAFETY (of all): lines that the item's places read, and as many lines of taps.
        let mut taps = unsafe { self.taps_of(tap) };
        let x = unsafe { self.line_of::<S>(from) };
        add::<K, S>(&mut sums[0], &x, &taps);
        let mut left = self.shape.window[1];
        while left > 1 {
            from += self.line;
            tap += of_line;
            let x = unsafe { self.line_of::<S>(from) };
            if R == 2 {
                add::<K, S>(&mut sums[1 % R], &x, &taps);
            }
            taps = unsafe { self.taps_of(tap) };
            add::<K, S>(&mut sums[0], &x, &taps);
            left -= 1;
        }
        if R == 2 {
            let x = unsafe { self.line_of::<S>(from + self.line) };
            add::<K, S>(&mut sums[1 % R], &x, &taps);
        }
        sums
    }

    /// What a line's places have from this element on.
    ///
    /// # Safety
    ///
    /// The patches have those elements.
    #[inline(always)]
    unsafe fn line_of<const S: usize>(&self, from: u32) -> Line {
        let mut x = [[0.0; CHANNELS]; MOST];
        unroll!(3, eight => {
            unroll!(8, one => {
                let i = 8 * eight + one;
                if i < (STRIP - 1) * S + K {
                    let at = from + i as u32 * self.plan.channels();
                    // SAFETY: the caller's promise; two of them at a multiple of as many.
                    let pair: [T; CHANNELS] = unsafe { self.patches.get_vec_unchecked(at as usize) };
                    x[i % MOST] = cuda_std::array::map(pair, T::widen);
                }
            });
        });
        x
    }

    /// The weights of a line of taps from this element on.
    ///
    /// # Safety
    ///
    /// There are those.
    #[inline(always)]
    unsafe fn taps_of(&self, from: u32) -> [[f32; CHANNELS]; K] {
        cuda_std::array::from_fn(|k: usize| {
            let at = from + k as u32 * self.plan.channels();
            // SAFETY: the caller's promise; two of them at a multiple of as many.
            let pair: [T; CHANNELS] = unsafe { self.taps.get_vec_unchecked(at as usize) };
            cuda_std::array::map(pair, T::widen)
        })
    }

    /// Stores an item's sums, from a place of the output on, as far as there are such.
    ///
    /// # Safety
    ///
    /// The kernel's contract; a place and a channel of the output.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store<const R: usize>(&self, image: u32, [a, b]: [u32; 2], channel: u32, sums: &[Sums; R]) {
        let shape = &self.shape;
        let place = |axis: usize, at: u32| (at as usize).wrapping_mul(shape.out[axis]);
        let first = place(0, image)
            .wrapping_add(place(2, a))
            .wrapping_add(place(3, b))
            .wrapping_add(channel as usize);
        let places = shape.output[2] - b;
        unroll!(2, r => {
            if r < R && a + (r as u32) < shape.output[1] {
                let line = first.wrapping_add(r.wrapping_mul(shape.out[2]));
                let put = |p: usize| {
                    let [low, high] = sums[r % R][p];
                    let values = bytemuck::cast::<u32, [T; CHANNELS]>(half::pack::<T>(low, high));
                    // SAFETY: two channels of a place of the output, at a multiple of as many.
                    unsafe { self.out.set_vec_unchecked(line.wrapping_add(p.wrapping_mul(shape.out[3])), values) };
                };
                // Most strips are whole, and need not ask for each place.
                if places >= STRIP as u32 {
                    unroll!(8, p => { put(p) });
                } else {
                    unroll!(8, p => {
                        if (p as u32) < places {
                            put(p);
                        }
                    });
                }
            }
        });
    }
}

/// Adds the products of a line of taps to a line of an item.
#[inline(always)]
fn add<const K: usize, const S: usize>(sums: &mut Sums, x: &Line, taps: &[[f32; CHANNELS]; K]) {
    const { assert!((STRIP - 1) * S + K <= MOST && STRIP == 8 && CHANNELS == 2) };
    unroll!(8, k => {
        if k < K {
            unroll!(8, p => {
                unroll!(2, c => {
                    let of = &mut sums[p][c];
                    *of = x[(p * S + k) % MOST][c].mul_add(taps[k % K][c], *of);
                });
            });
        }
    });
}
