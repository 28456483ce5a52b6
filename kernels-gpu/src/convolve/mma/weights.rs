// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradient of the weights of convolutions of few channels: products over places, of the gradient of the result with what the taps
//! read, by the patches of [`convolve_mma`](super::convolve_mma()).
//!
//! The lines of a product are outputs, its columns taps and their channels. A block has a *part* of the tiles of all images, and its
//! sums in registers. Of each tile it copies the gradient of its outputs into shared memory, from which `ldmatrix` takes it transposed,
//! and the patch. A column's elements of neighbouring places are a stride apart there: of channels in units of 8 `ldmatrix` takes two units
//! of 16 places transposed as well; of others a lane reads a word of a fragment as two elements.
//!
//! Groups of fewer than 16 channels and outputs are several to a warp, as if they were one; of its products those of an output with the
//! channels of another group are left out in the end, and so is what is infinite there.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::mma;
use cuda_std::prelude::*;
use cuda_std::{async_copy, matrix};

use super::super::{ConvolveShape, divide};
use super::patch::{Patch, Tile, pack};
use super::{Input, MmaPlan, PLACES, STEP, THREADS, WARPS, WIDE};
use crate::matmul::unroll;

/// Outputs of a block, at most.
pub const OUTPUTS: usize = 64;

/// Elements from place to place of the gradient in shared memory: eight places are in different banks.
const PITCH: u32 = OUTPUTS as u32 + 8;

/// Words of a tile's gradient.
const OF_TILE: u32 = PLACES as u32 * PITCH / 2;

/// Columns of a warp, in units of 8, at most, which has `m` times 16 outputs.
pub const fn columns(m: usize) -> usize {
    match m {
        1 => 18,
        2 => 14,
        _ => 7,
    }
}

/// What the table has for tap and channel of a pair of columns that is not there: there are less than 2^12 of either.
const NONE: u32 = u32::MAX;

/// Units that are skipped together, where a warp has fewer.
const TOGETHER: usize = 4;

/// How the products fall to warps.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct WeightsMmaPlan {
    /// The tiles and the patch, and in `groups` how many a block has: 1, or one for each warp. `slices` are the blocks that all groups
    /// take, `columns` those that the columns of a group do.
    pub of: MmaPlan,
    /// Blocks that the outputs of a group take.
    pub rows: u32,
    /// Units of 8 columns that a warp has.
    pub units: u32,
    /// Whether the gradient is copied by 16 bytes.
    pub wide: u32,
    /// Groups that the shape has as one.
    pub merged: u32,
    /// The channels of each of them, an even number where there are several.
    pub channels: u32,
}

impl WeightsMmaPlan {
    /// Pairs of columns of a block.
    #[inline(always)]
    fn pairs(&self) -> u32 {
        let warps = if self.of.groups == 1 { WARPS as u32 } else { 1 };
        4 * self.units * warps
    }

    /// Where the patch's table, the gradients and the patches begin in shared memory, and all its bytes.
    #[inline(always)]
    pub fn memory(&self) -> [u32; 4] {
        let [of_table, of_patch] = self.of.bytes();
        let stages = self.of.stages;
        let table = 3 * 4 * PLACES as u32 + 8 * self.pairs();
        let gradient = table + of_table;
        let patch = gradient + stages * OF_TILE * 4;
        [table, gradient, patch, patch + stages * of_patch]
    }
}

/// The sums of the products of the gradient `gradient` of the result, in C order, and the input, for each part of the tiles: parts, outputs
/// of all groups, taps and channels of a group, in C order. The groups of the shape may be several each.
///
/// A warp has `M` times 16 outputs of a group, and up to [`columns`] times 8 of its taps' channels.
///
/// # Safety
///
/// A block has [`THREADS`] threads and the bytes of dynamic shared memory that [`WeightsMmaPlan::memory`] says; the grid has one axis, of
/// `of.slices · of.columns · rows` blocks for each part, of which there are no more than tiles. `x` and `gradient` lie within their arrays,
/// and there is an image, a place, a tap, a channel and an output; `sums` has the sums of all parts. Tiles and patches are of the shape, as
/// [`convolve_mma`](super::convolve_mma()) says. `of.groups` is 1, or, where `M` is, as many as a block has warps; then `of.columns` and
/// `rows` are 1, and groups have no more outputs and columns than a warp. `units` is at most [`columns`]`(M)`. `merged` divides the outputs of a group of the shape, whose
/// channels are as many times `channels`. Where `wide` is not 0, `gradient` is aligned to 16
/// bytes, and so is each block's part of a place's outputs. A tile is over less than 2^32 elements of the gradient.
#[kernel(T = [bf16, f16], M = [1, 2, 4], arch = "sm_80", max_threads = THREADS, min_blocks = 2)]
pub unsafe fn convolve_weights_mma<T: Input, const M: usize>(
    x: &[T],
    gradient: &[T],
    sums: SliceMut<'_, f32>,
    shape: ConvolveShape,
    plan: WeightsMmaPlan,
) {
    let of = &plan.of;
    let (rest, row) = divide(thread::block_idx_x() as usize, plan.rows);
    let (rest, column) = divide(rest, of.columns);
    let (part, slice) = divide(rest, of.slices);
    let beside = plan.rows * of.columns * of.slices;
    let parts = divide(thread::grid_dim_x() as usize, beside).0;
    let warp = thread::thread_idx_x() / 32;
    let group = slice as u32 * of.groups;
    let (of_warp, first) = match of.groups {
        1 => (group, 4 * plan.units * warp),
        _ => (group + warp, 0),
    };
    let memory = cuda_std::shared::dynamic::<u8>();
    let [of_table, of_gradient, of_patch, end] = plan.memory();
    let cut = |from: u32, to: u32| {
        // SAFETY: a part of the memory, by the kernel's contract.
        unsafe { memory.subarray_unchecked(from as usize, (to - from) as usize) }
    };
    let block = Block::<T, M> {
        gradient,
        sums,
        wide: plan.wide != 0,
        merged: plan.merged,
        channels: plan.channels,
        row: row as u32 * 16 * M as u32,
        units: plan.units,
        all_pairs: plan.pairs(),
        group: of_warp,
        first,
        column: column as u32 * plan.pairs(),
        pairs: cut(3 * 4 * PLACES as u32, of_table).cast(),
        places: cut(0, 4 * PLACES as u32).cast(),
        targets: cut(4 * PLACES as u32, 3 * 4 * PLACES as u32).cast(),
        tile: cut(of_gradient, of_patch).cast(),
        patch: Patch {
            x,
            shape,
            plan: plan.of,
            group,
            table: cut(of_table, of_gradient).cast(),
            memory: cut(of_patch, end).cast(),
        },
    };
    // SAFETY: the kernel's contract.
    unsafe {
        match M {
            1 => block.run::<{ columns(1) }>(part, parts),
            2 => block.run::<{ columns(2) }>(part, parts),
            _ => block.run::<{ columns(4) }>(part, parts),
        }
    };
}

struct Block<'a, T, const M: usize> {
    gradient: &'a [T],
    sums: SliceMut<'a, f32>,
    wide: bool,
    merged: u32,
    channels: u32,
    /// The first output of the block, in its first group.
    row: u32,
    /// Units of columns of a warp.
    units: u32,
    /// Pairs of columns of the block.
    all_pairs: u32,
    /// The warp's group, and its first pair of columns among those of the block.
    group: u32,
    first: u32,
    /// The block's first pair of columns.
    column: u32,
    /// Of each pair of columns of the block, where it is in the patch, in words from a place's first tap on, and tap and channel, of 16 bits
    /// each, or [`NONE`]: each warp needs them all, and they take divisions.
    pairs: Shared<u32>,
    /// Where the first tap of each place of a tile is in the patch, in words.
    places: Shared<u32>,
    /// Where places are in the gradient.
    targets: Shared<u32>,
    /// The gradient: of each stage places, and of each place [`OUTPUTS`].
    tile: Shared<u32>,
    patch: Patch<'a, T>,
}

impl<T: Input, const M: usize> Block<'_, T, M> {
    /// Outputs of a warp, or room for them.
    const OF_WARP: u32 = 16 * M as u32;

    /// Adds up the tiles of a part, and stores the sums.
    ///
    /// # Safety
    ///
    /// The kernel's contract; `C` is [`columns`]`(M)`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn run<const C: usize>(&self, part: usize, parts: usize) {
        let lane = thread::thread_idx_x() % 32;
        let thread = thread::thread_idx_x();
        // SAFETY: one of the places of a tile, of which there are as many as threads.
        unsafe {
            self.places
                .set_unchecked(thread as usize, self.patch.first(self.patch.line(thread)))
        };
        self.patch.fill_table();
        self.patch.fill_places(self.targets);
        // Where outputs are not copied by 16 bytes, those that are not there stay zeros.
        let mut word = thread;
        while !self.wide && word < self.patch.plan.stages * OF_TILE {
            // SAFETY: a word of the gradient's.
            unsafe { self.tile.set_unchecked(word as usize, 0) };
            word += THREADS as u32;
        }
        let mut pair = thread;
        while pair < self.all_pairs {
            let entry = match self.patch.pair(self.column + pair) {
                Some(pair) => [pair.word, pair.tap << 16 | pair.channel],
                None => [0, NONE],
            };
            // SAFETY: one of the block's pairs.
            unsafe { self.pairs.set_vec_unchecked(2 * pair as usize, entry) };
            pair += THREADS as u32;
        }
        thread::sync_threads();
        // Elements of the patch from the first tap of a place on, of each column of the lane; what is not there is that of the first. In
        // units, of every second unit and the next one, as lanes say where rows of matrices are.
        let units = self.patch.plan.is_in_units();
        let of_group = (self.group - self.patch.group) * self.patch.plan.channels;
        let from: [u32; C] = cuda_std::array::from_fn(|i: usize| {
            let column = 8 * i as u32 + if units { lane / 16 * 8 } else { lane / 4 };
            let [word, _] = self.pair(if column < 8 * self.units { column / 2 } else { 0 });
            of_group + 2 * word + column % 2
        });
        let mut sums = [[[0.0; 4]; C]; M];
        // SAFETY: the kernel's contract; all threads are behind a barrier.
        let fill = |tile: &Tile, stage: u32| unsafe {
            self.fill(tile, stage);
            self.patch.fill::<4>(tile, stage);
        };
        self.patch
            .each_tile::<true>(part as u32, parts as u32, fill, |_, stage| {
                if units {
                    self.add_units(&from, stage, &mut sums);
                } else {
                    self.add(&from, stage, &mut sums);
                }
            });
        // SAFETY: the kernel's contract.
        unsafe { self.store(part, &sums) };
    }

    /// Has the gradient of a tile copied into a stage, with zeros beyond the output's ends, and between the outputs of groups.
    ///
    /// # Safety
    ///
    /// The kernel's contract. Nobody accesses the memory until a barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn fill(&self, tile: &Tile, stage: u32) {
        let of_stage = stage * OF_TILE;
        let shape = &self.patch.shape;
        let thread = thread::thread_idx_x();
        let first = (self.patch.group * shape.outputs + self.row) as usize;
        // From which of those of the block, if there is such an output.
        let of_block = |output: u32| {
            let (group, output) = (output / Self::OF_WARP, output % Self::OF_WARP);
            let is_there = group < self.patch.plan.groups && self.row + output < shape.outputs;
            is_there.then_some((group * shape.outputs + output) as usize)
        };
        let target = self.patch.target(tile);
        // SAFETY (of both): one of the places of a tile.
        let source = |line: u32| unsafe { target.source(self.targets, line) };
        const ACROSS: u32 = (OUTPUTS / WIDE) as u32;
        if self.wide {
            let output = thread % ACROSS * WIDE as u32;
            let of_block = of_block(output);
            let begin = target.element.wrapping_add(first).wrapping_add(of_block.unwrap_or(0));
            let begin = self.gradient.as_ptr().wrapping_add(begin);
            unroll!(8, i => {
                let line = thread / ACROSS + (i * (PLACES / 8)) as u32;
                let (far, is_inside) = source(line);
                let from = begin.wrapping_add(far as usize);
                let to = 4 * of_stage + (line * PITCH + output) * 2;
                let bytes = if is_inside && of_block.is_some() { 16 } else { 0 };
                // SAFETY: outputs of a place, at a multiple of 16 bytes by the kernel's contract, or none, and room for them.
                unsafe { async_copy::copy_16(self.tile, to, from.cast(), bytes) };
            });
        } else {
            let (far, is_inside) = source(thread);
            let source = is_inside.then(|| target.element.wrapping_add(first).wrapping_add(far as usize));
            let groups = self.patch.plan.groups;
            let there = Ord::min(shape.outputs - self.row, Self::OF_WARP);
            let mut group = 0;
            while group < groups {
                let mut first = 0;
                while first < there {
                    let mut values = [[T::ZERO; 2]; 4];
                    if let Some(source) = source {
                        let from = source + (group * shape.outputs + first) as usize;
                        unroll!(4, i => {
                            unroll!(2, j => {
                                if first + ((2 * i + j) as u32) < there {
                                    // SAFETY: an output of a place.
                                    [values[i][j]] = unsafe { self.gradient.load_vec_unchecked::<1>(from + 2 * i + j) };
                                }
                            });
                        });
                    }
                    unroll!(4, i => {
                        if first + (2 * i as u32) < there {
                            let to = thread * PITCH + group * Self::OF_WARP + first + 2 * i as u32;
                            // SAFETY: room for a place's outputs.
                            unsafe { self.tile.set_unchecked((of_stage + to / 2) as usize, pack(values[i])) };
                        }
                    });
                    first += 8;
                }
                group += 1;
            }
        }
    }

    /// The entry of a pair of the warp's columns.
    #[inline(always)]
    fn pair(&self, number: u32) -> [u32; 2] {
        // SAFETY: one of the warp's pairs, and so of the block's.
        unsafe { self.pairs.get_vec_unchecked::<2>(2 * (self.first + number) as usize) }
    }

    /// Whether a warp has a unit of that number.
    #[inline(always)]
    fn has<const C: usize>(&self, unit: usize) -> bool {
        unit < C && (unit == 0 || (unit as u32) < self.units)
    }

    /// The fragments of a stage's gradient for the 16 places from `step` on.
    #[inline(always)]
    fn gradients(&self, stage: u32, step: u32) -> [[u32; 4]; M] {
        let lane = thread::thread_idx_x() % 32;
        let of_group = (self.group - self.patch.group) * Self::OF_WARP;
        let mut a = [[0; 4]; M];
        unroll!(4, i => {
            if i < M {
                // Of the transposed matrices lanes say where rows of eight outputs are, of places: upper left, lower left, and so on.
                let place = step + lane % 8 + lane / 16 * 8;
                let output = 16 * i as u32 + lane / 8 % 2 * 8;
                let at = 4 * stage * OF_TILE + (place * PITCH + of_group + output) * 2;
                // SAFETY: eight outputs of a place, at a multiple of 8.
                a[i % M] = unsafe { matrix::ldmatrix_x4_trans(self.tile, at) };
            }
        });
        a
    }

    /// Adds the products of a tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add<const C: usize>(&self, from: &[u32; C], stage: u32, sums: &mut [[[f32; 4]; C]; M]) {
        let lane = thread::thread_idx_x() % 32;
        let patch = self.patch.memory.cast::<u16>();
        let of_stage = 2 * self.patch.stage(stage);
        let mut step = 0;
        while step < PLACES as u32 {
            let a = self.gradients(stage, step);
            // SAFETY (of all): of the places of a tile, and what taps read from them on, which the patch has.
            let [p, q] = unsafe { self.places.get_vec_unchecked::<2>((step + lane % 4 * 2) as usize) };
            let [r, s] = unsafe { self.places.get_vec_unchecked::<2>((step + lane % 4 * 2 + 8) as usize) };
            unroll!(5, first => {
                if self.has::<C>(TOGETHER * first) {
                    unroll!(4, one => {
                        if TOGETHER * first + one < C {
                            let j = (TOGETHER * first + one) % C;
                            let element =
                                |place: u32| u32::from(unsafe { patch.get_unchecked((of_stage + 2 * place + from[j]) as usize) });
                            let b = [element(p) | element(q) << 16, element(r) | element(s) << 16];
                            unroll!(4, i => {
                                if i < M {
                                    sums[i % M][j] = mma::<T>(a[i % M], b, sums[i % M][j]);
                                }
                            });
                        }
                    });
                }
            });
            step += STEP as u32;
        }
    }

    /// The same, where 8 channels side by side are of a tap, two units at a time.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_units<const C: usize>(&self, from: &[u32; C], stage: u32, sums: &mut [[[f32; 4]; C]; M]) {
        let lane = thread::thread_idx_x() % 32;
        let of_stage = self.patch.stage(stage);
        let mut step = 0;
        while step < PLACES as u32 {
            let a = self.gradients(stage, step);
            // SAFETY (of both): a place of the tile, and eight channels of what a tap reads from it on, at a multiple of 16 bytes.
            let place = of_stage + unsafe { self.places.get_unchecked((step + lane % 16) as usize) };
            unroll!(5, first => {
                if self.has::<C>(TOGETHER * first) {
                    unroll!(2, two => {
                        if TOGETHER * first + 2 * two < C {
                            let j = (TOGETHER * first + 2 * two) % C;
                            let at = 4 * place + 2 * from[j];
                            let [p, q, r, s] = unsafe { matrix::ldmatrix_x4_trans(self.patch.memory, at) };
                            unroll!(4, i => {
                                if i < M {
                                    sums[i % M][j] = mma::<T>(a[i % M], [p, q], sums[i % M][j]);
                                    if j + 1 < C {
                                        sums[i % M][(j + 1) % C] = mma::<T>(a[i % M], [r, s], sums[i % M][(j + 1) % C]);
                                    }
                                }
                            });
                        }
                    });
                }
            });
            step += STEP as u32;
        }
    }

    /// Stores the sums.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store<const C: usize>(&self, part: usize, sums: &[[[f32; 4]; C]; M]) {
        let shape = &self.patch.shape;
        let lane = thread::thread_idx_x() % 32;
        let (channels, outputs) = (self.channels as usize, shape.groups as usize * shape.outputs as usize);
        let depth = shape.taps() * channels;
        let of_one = divide(shape.outputs as usize, self.merged).0;
        let are_pairs = self.channels.is_multiple_of(2);
        // The first weight of each line's output, of its own group, and that group's first channel.
        let lines: [[(usize, u32); 2]; M] = cuda_std::array::from_fn(|i: usize| {
            cuda_std::array::from_fn(|h: usize| {
                let output = self.row as usize + 16 * i + 8 * h + lane as usize / 4;
                let group = match self.merged {
                    1 => 0,
                    _ => divide(output, of_one as u32).0 as u32,
                };
                let line = part * outputs + self.group as usize * shape.outputs as usize + output;
                (line * depth, group * self.channels)
            })
        });
        unroll!(3, eight => {
            unroll!(8, one => {
                let j = (8 * eight + one) % C;
                let is_of_warp = 8 * eight + one < C && (j as u32) < self.units;
                let [_, at] = if is_of_warp { self.pair(4 * j as u32 + lane % 4) } else { [0, NONE] };
                if at != NONE {
                    let (tap, channel) = (at >> 16, at & 0xffff);
                    let two = channel + 1 < shape.channels;
                    unroll!(4, i => {
                        unroll!(2, h => {
                            let output = self.row + (16 * i + 8 * h) as u32 + lane / 4;
                            let (line, first) = lines[i % M][h];
                            let channel = channel.wrapping_sub(first);
                            if i < M && output < shape.outputs && channel < self.channels {
                                let to = line + tap as usize * channels + channel as usize;
                                let sums = sums[i % M][j];
                                // SAFETY (of all): a weight of the part, or two; of an even number of channels the first is even, too.
                                if are_pairs {
                                    let pair = [sums[2 * h], sums[2 * h + 1]];
                                    unsafe { self.sums.set_vec_unchecked::<2>(to, pair) };
                                } else {
                                    unsafe { self.sums.set_vec_unchecked(to, [sums[2 * h]]) };
                                    if two {
                                        unsafe { self.sums.set_vec_unchecked(to + 1, [sums[2 * h + 1]]) };
                                    }
                                }
                            }
                        });
                    });
                }
            });
        });
    }
}
