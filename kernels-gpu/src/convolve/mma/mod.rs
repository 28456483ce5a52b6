// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of numbers of 16 bits on the tensor cores of Ampere and later, for few channels or outputs: those of which a step along
//! k of the kernels for products would be zeros for the most part.
//!
//! A tile is a box of [`PLACES`] places of the output of one image. What all its taps read, its *patch*, is a box of the input, which the
//! block copies into shared memory, with zeros beyond the input's ends and an even number of channels; so it comes from memory once, but
//! for its edges. The product's left matrix, of a line for each place with what its taps read, is in no memory ("implicit GEMM"): k goes
//! through taps and pairs of channels, and a table says where in the patch a pair is, from the place's first tap on. That sum is all that
//! a lane computes for a word of a fragment. k has no gap but at its end, whatever the number of channels.
//!
//! The weights of a block's outputs lie in shared memory as long as the block runs, which takes tile after tile. Of several small groups,
//! a block has some side by side, so that it reads whole lines of memory; [`groups`] has those of 4, 8 or 16 channels and outputs.

pub mod depthwise;
pub mod groups;
mod patch;
pub mod weights;

use cuda_std::half::{self, Packed, bf16, f16};
use cuda_std::matrix;
use cuda_std::mma::{Mma, mma};
use cuda_std::prelude::*;

use self::patch::{Patch, Tile, pack};
use super::{ConvolveShape, divide};
use crate::matmul::unroll;
use crate::num::Num;

/// Places of a tile.
pub const PLACES: usize = WARPS * 32;

/// Warps of a block, each of which has 32 places.
pub const WARPS: usize = 4;

/// Threads of a block.
pub const THREADS: usize = 32 * WARPS;

/// Elements along k that an instruction multiplies.
pub const STEP: usize = 16;

/// Elements of 16 bytes.
pub const WIDE: usize = 8;

/// Blocks that ptxas makes room for on a multiprocessor.
pub const fn blocks(n: usize) -> usize {
    match n {
        8 | 4 => 4,
        _ => 6,
    }
}

/// How a convolution falls to blocks, and what they have in shared memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct MmaPlan {
    /// Places of a tile along the axes, as powers of 2, whose product is [`PLACES`].
    pub log_tile: [u32; 3],
    /// Tiles of an image along the axes.
    pub tiles: [u32; 3],
    /// Places of the input that a tile reads, along the axes.
    pub patch: [u32; 3],
    /// `2³²` over the lengths of the patch along the two last axes, the accesses of a place, and the pairs of channels of a group, rounded
    /// up, and 0 for 1.
    pub reciprocals: [u32; 4],
    /// Groups that a block has.
    pub groups: u32,
    /// Blocks that all groups take.
    pub slices: u32,
    /// Blocks that the outputs of a group take.
    pub columns: u32,
    /// Elements from place to place of the patch.
    pub pitch: u32,
    /// Channels of a group in the patch, an even number.
    pub channels: u32,
    /// Elements from output to output of the weights in shared memory: a multiple of [`WIDE`].
    pub line: u32,
    /// Whether the patch is copied by 16 bytes.
    pub wide: u32,
    /// Patches that there is room for, 1 or 2: of two, one is copied while the other is multiplied.
    pub stages: u32,
}

impl MmaPlan {
    /// Words of the table, of a pair of channels each.
    #[inline(always)]
    pub fn pairs(&self, taps: u32) -> u32 {
        (taps * self.channels / 2).next_multiple_of(STEP as u32 / 2)
    }

    /// Tiles of so many images.
    #[inline(always)]
    pub fn tiles_of(&self, images: usize) -> usize {
        let [a, b, c] = self.tiles;
        images * a as usize * b as usize * c as usize
    }

    /// Places of the patch.
    #[inline(always)]
    pub fn places(&self) -> u32 {
        self.patch[0] * self.patch[1] * self.patch[2]
    }

    /// Whether a step's pairs are two whole accesses of 16 bytes.
    #[inline(always)]
    fn is_in_units(&self) -> bool {
        self.wide != 0 && self.channels.is_multiple_of(WIDE as u32)
    }

    /// Bytes of the places' table, and of a patch.
    #[inline(always)]
    fn bytes(&self) -> [u32; 2] {
        [self.places() * 8, self.places() * self.pitch * 2].map(|bytes| bytes.next_multiple_of(16))
    }

    /// Where the places' table, the weights and the patches begin in shared memory, and all its bytes, of tiles of `n` times 8 outputs.
    #[inline(always)]
    pub fn memory(&self, taps: u32, n: usize) -> [u32; 4] {
        let [of_table, of_patch] = self.bytes();
        let table = self.pairs(taps) * 4;
        let weights = table + of_table;
        let patch = weights + self.groups * 8 * n as u32 * self.line * 2;
        [table, weights, patch, patch + self.stages * of_patch]
    }
}

/// An element type, as `mma.sync` takes it.
pub trait Input: Num<Wide = f32> + Packed + Mma<A = [u32; 4], B = [u32; 2], C = [f32; 4]> {}

impl Input for bf16 {}
impl Input for f16 {}

/// The convolution: `weights` has outputs of all groups, taps and channels of a group, in C order.
///
/// A block computes tiles of [`PLACES`] places and `N` times 8 outputs of each of its groups. Blocks of a slice of groups and the same outputs
/// are `columns · slices` apart, and take turns with the tiles.
///
/// # Safety
///
/// A block has [`THREADS`] threads and the bytes of dynamic shared memory that [`MmaPlan::memory`] says; the grid has one axis, of a
/// multiple of `slices · columns` blocks. The operands lie within their arrays, and there is an image, a place, a tap, a channel and an
/// output. `plan` is of the shape: tiles cover the output, the patch is what taps of a tile read, of at most 128, 1024 and 4096 places along
/// the axes and 2^16 elements, over less than 2^32 elements of the input; there are less than 2^31 tiles and blocks; `groups · slices` are the groups, and `columns` tiles have the
/// outputs of a group. `line` is odd in units of [`WIDE`] and as long as [`MmaPlan::pairs`] pairs. Where `wide` is not 0, `x` is aligned to
/// 16 bytes, its distances but the last are multiples of [`WIDE`], and so are the channels of `groups` and `pitch`; the last is 1, and
/// `channels` those of a group.
#[kernel(T = [bf16, f16], N = [1, 4, 8], arch = "sm_80", max_threads = THREADS, min_blocks = blocks(N))]
pub unsafe fn convolve_mma<T: Input, const N: usize>(
    x: &[T],
    weights: &[T],
    out: SliceMut<'_, T>,
    shape: ConvolveShape,
    plan: MmaPlan,
) {
    let (rest, column) = divide(thread::block_idx_x() as usize, plan.columns);
    let (first, slice) = divide(rest, plan.slices);
    let memory = cuda_std::shared::dynamic::<u8>();
    let taps = shape.taps() as u32;
    let [of_table, of_weights, of_patch, end] = plan.memory(taps, N);
    let part = |from: u32, to: u32| {
        // SAFETY: a part of the memory, by the kernel's contract.
        unsafe { memory.subarray_unchecked(from as usize, (to - from) as usize) }
    };
    let block = Block::<T, N> {
        patch: Patch {
            x,
            shape,
            plan,
            group: slice as u32 * plan.groups,
            table: part(of_table, of_weights).cast(),
            memory: part(of_patch, end).cast(),
        },
        weights,
        out,
        column: column as u32 * 8 * N as u32,
        pairs: plan.pairs(taps),
        table: part(0, of_table).cast(),
        lines: part(of_weights, of_patch).cast(),
    };
    let apart = divide(thread::grid_dim_x() as usize, plan.columns * plan.slices).0;
    // SAFETY: the kernel's contract.
    unsafe { block.run(first as u32, apart as u32) };
}

struct Block<'a, T, const N: usize> {
    patch: Patch<'a, T>,
    weights: &'a [T],
    out: SliceMut<'a, T>,
    /// The first output of a group.
    column: u32,
    /// Pairs along k, with those at the end that are not there.
    pairs: u32,
    /// Where pairs are in the patch, in words from a place's first tap: of each step, the first and the fifth, the second and the sixth,
    /// and so on. Where a step is two units of 8 channels, those of units.
    table: Shared<u32>,
    /// The weights of each output, as words.
    lines: Shared<u32>,
}

/// Where a lane reads its places of a tile.
#[derive(Clone, Copy)]
enum From {
    /// By units of 8 channels, in bytes.
    Units([u32; 2]),
    /// By pairs, in words.
    Pairs([[u32; 2]; 2]),
}

/// Where a lane's places begin in the output, if they are there.
type Targets = [[Option<usize>; 2]; 2];

/// Sums of a lane: of each 16 places and 8 outputs.
type Sums<const N: usize> = [[[f32; 4]; N]; 2];

impl<T: Input, const N: usize> Block<'_, T, N> {
    /// Computes tiles `first`, and every `apart`th after it.
    ///
    /// # Safety
    ///
    /// The kernel's contract, of as many tiles.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn run(&self, first: u32, apart: u32) {
        self.fill_table();
        self.patch.fill_table();
        // SAFETY (of all): the kernel's contract.
        unsafe { self.fill_lines() };
        // SAFETY: the kernel's contract.
        let fill = |tile: &Tile, stage: u32| unsafe { self.patch.fill::<1>(tile, stage) };
        self.patch.each_tile::<false>(first, apart, fill, |tile, stage| {
            let mut group = 0;
            while group < self.patch.plan.groups {
                // Where the lane reads and writes is found for each group anew: kept, it would take the registers of sums.
                let sums = match self.from(stage) {
                    From::Units(from) => self.multiply_units(group, from),
                    From::Pairs(from) => self.multiply_pairs(group, from),
                };
                unsafe { self.store(&self.targets(tile), group, &sums) };
                group += 1;
            }
        });
    }

    /// Writes the table: where pairs are in the patch, or the first pair of each unit.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill_table(&self) {
        let units = self.patch.plan.is_in_units();
        let mut number = thread::thread_idx_x();
        while number < self.pairs {
            let at = self.patch.pair(number).map_or(0, |pair| pair.word);
            let to = match units {
                true => number / 4,
                false => number / 8 * 8 + number % 4 * 2 + number / 4 % 2,
            };
            if !units || number.is_multiple_of(4) {
                // SAFETY: less than the pairs, of which there is a multiple of 8.
                unsafe { self.table.set_unchecked(to as usize, at) };
            }
            number += THREADS as u32;
        }
    }

    /// The output, of those of a tile, that line `line` is of: so that a lane has neighbouring ones.
    #[inline(always)]
    fn output(line: u32) -> u32 {
        match N {
            1 => line,
            _ => line / 32 * 32 + line % 8 / 2 * 8 + line / 8 % 4 * 2 + line % 2,
        }
    }

    /// Writes the weights, and zeros where there are none.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn fill_lines(&self) {
        let (shape, plan) = (&self.patch.shape, &self.patch.plan);
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        let taps = shape.taps() as u32;
        let mut line = warp;
        while line < plan.groups * 8 * N as u32 {
            let (group, output) = (line / (8 * N as u32), self.column + Self::output(line % (8 * N as u32)));
            let is_there = output < shape.outputs;
            let of_group = (self.patch.group + group) as usize * shape.outputs as usize;
            let from = (of_group + if is_there { output as usize } else { 0 }) * shape.depth();
            let to = line * (plan.line / 2);
            let mut first = lane;
            while first < self.pairs {
                let mut values = [[T::ZERO; 2]; 4];
                unroll!(4, i => {
                    let (tap, channel) = self.patch.tap(first + 32 * i as u32);
                    unroll!(2, j => {
                        if is_there && tap < taps && channel + (j as u32) < shape.channels {
                            let at = from + (tap * shape.channels + channel) as usize + j;
                            // SAFETY: a weight of the shape, which has as many.
                            [values[i][j]] = unsafe { self.weights.load_vec_unchecked::<1>(at) };
                        }
                    });
                });
                unroll!(4, i => {
                    let number = first + 32 * i as u32;
                    if number < self.pairs {
                        // SAFETY: a line is as long as the pairs, and there is room for as many.
                        unsafe { self.lines.set_unchecked((to + number) as usize, pack(values[i])) };
                    }
                });
                first += 128;
            }
            line += WARPS as u32;
        }
    }

    /// The places of the tile's lines that this lane has: those of each 16, the upper and the lower.
    #[inline(always)]
    fn places(&self) -> [[[u32; 3]; 2]; 2] {
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        cuda_std::array::from_fn(|i: usize| {
            cuda_std::array::from_fn(|h: usize| {
                let line = warp * 32 + (16 * i + 8 * h) as u32 + lane / 4;
                self.patch.line(line)
            })
        })
    }

    /// Where the lane reads the first tap of its places of a tile, in the first group of a stage's patch.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn from(&self, stage: u32) -> From {
        let patch = self.patch.stage(stage);
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        if self.patch.plan.is_in_units() {
            // Of four matrices, the upper and the lower one of the first unit, and of the second, lanes say where rows are.
            return From::Units(cuda_std::array::from_fn(|i: usize| {
                4 * (patch + self.patch.first(self.patch.line(warp * 32 + 16 * i as u32 + lane % 16)))
            }));
        }
        From::Pairs(
            self.places()
                .map(|places| places.map(|place| patch + self.patch.first(place))),
        )
    }

    /// Where the lane's places of a tile begin in the output, if they are there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn targets(&self, tile: &Tile) -> Targets {
        self.places()
            .map(|places| places.map(|place| self.patch.output(tile, place)))
    }

    /// Where the lane reads the weights of the first step: of each 16 lines the row of a matrix that it says, or of 8 its own, in bytes.
    #[inline(always)]
    fn first_weights(&self, group: u32) -> u32 {
        let lane = thread::thread_idx_x() % 32;
        let (line, byte) = match N {
            1 => (lane / 4, lane % 4 * 4),
            _ => (lane % 8 + lane / 16 * 8, lane / 8 % 2 * 16),
        };
        (group * 8 * N as u32 + line) * self.patch.plan.line * 2 + byte
    }

    /// The sums of this lane for a group of the block, pair by pair.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply_pairs(&self, group: u32, from: [[u32; 2]; 2]) -> Sums<N> {
        let lane = thread::thread_idx_x() % 32;
        let (shape, plan) = (&self.patch.shape, &self.patch.plan);
        let of_group = group * (plan.channels / 2);
        let from = from.map(|from| from.map(|at| at + of_group));
        // Pairs of the last step that are there, as words that keep them.
        let there = shape.taps() as u32 * (plan.channels / 2);
        let keep = |pair: u32| if self.pairs - 8 + pair < there { u32::MAX } else { 0 };
        let keep = [keep(lane % 4), keep(lane % 4 + 4)];
        let mut weights = self.first_weights(group);
        let mut sums = [[[0.0; 4]; N]; 2];
        let mut step = 0;
        while step < self.pairs {
            // SAFETY (of both): of the table, whose pairs are in the patch from each place of the tile on.
            let [low, high] = unsafe { self.table.get_vec_unchecked::<2>((step + lane % 4 * 2) as usize) };
            let mut a = from.map(|[upper, lower]| {
                let word = |at: u32| unsafe { self.patch.memory.get_unchecked(at as usize) };
                [
                    word(upper + low),
                    word(lower + low),
                    word(upper + high),
                    word(lower + high),
                ]
            });
            step += 8;
            if step == self.pairs {
                a = a.map(|[p, q, r, s]| [p & keep[0], q & keep[0], r & keep[1], s & keep[1]]);
            }
            self.add(&mut sums, a, weights);
            weights += 32;
        }
        sums
    }

    /// The same, where 8 channels side by side are of a tap: `ldmatrix` takes fragments out of them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply_units(&self, group: u32, from: [u32; 2]) -> Sums<N> {
        let lane = thread::thread_idx_x() % 32;
        let (shape, plan) = (&self.patch.shape, &self.patch.plan);
        let of_group = group * (2 * plan.channels);
        let from = from.map(|at| at + of_group);
        let has_both = (shape.taps() as u32 * (plan.channels / WIDE as u32)).is_multiple_of(2);
        let mut weights = self.first_weights(group);
        let mut sums = [[[0.0; 4]; N]; 2];
        let mut step = 0;
        while step < self.pairs {
            // SAFETY (of both): of the table, whose units are in the patch from each place of the tile on, at multiples of 16 bytes.
            let unit = unsafe { self.table.get_unchecked((step / 4 + lane / 16) as usize) };
            let mut a = from.map(|from| unsafe { matrix::ldmatrix_x4(self.patch.memory, from + 4 * unit) });
            step += 8;
            if step == self.pairs && !has_both {
                a = a.map(|[p, q, _, _]| [p, q, 0, 0]);
            }
            self.add(&mut sums, a, weights);
            weights += 32;
        }
        sums
    }

    /// Adds the products of a step, whose weights the lane reads from that byte of the lines on.
    #[inline(always)]
    fn add(&self, sums: &mut Sums<N>, a: [[u32; 4]; 2], weights: u32) {
        if N == 1 {
            let at = (weights / 4) as usize;
            // SAFETY (of all): of lines that are as long as the steps.
            let b = unsafe { [self.lines.get_unchecked(at), self.lines.get_unchecked(at + 4)] };
            unroll!(2, i => {
                sums[i][0] = mma::<T>(a[i], b, sums[i][0]);
            });
        } else {
            let apart = self.patch.plan.line * 2 * 16;
            unroll!(4, pair => {
                if 2 * pair < N {
                    let [p, q, r, s] = unsafe { matrix::ldmatrix_x4(self.lines, weights + pair as u32 * apart) };
                    unroll!(2, i => {
                        sums[i][2 * pair % N] = mma::<T>(a[i], [p, q], sums[i][2 * pair % N]);
                        sums[i][(2 * pair + 1) % N] = mma::<T>(a[i], [r, s], sums[i][(2 * pair + 1) % N]);
                    });
                }
            });
        }
    }

    /// Stores the sums of a group of the block.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store(&self, targets: &Targets, group: u32, sums: &Sums<N>) {
        let shape = &self.patch.shape;
        let lane = thread::thread_idx_x() % 32;
        let first = (self.patch.group + group) as usize * shape.outputs as usize;
        let is_whole = |n: usize| {
            let all = shape.out[0] | shape.out[1] | shape.out[2] | shape.out[3] | shape.outputs as usize;
            shape.out[4] == 1 && all.is_multiple_of(n)
        };
        let wide = if N == 1 {
            is_whole(2) && self.out.is_vec_aligned::<2>()
        } else {
            is_whole(8) && self.out.is_vec_aligned::<8>()
        };
        unroll!(2, i => {
            unroll!(2, h => {
                if let Some(to) = targets[i][h] {
                    if N == 1 {
                        let column = self.column + lane % 4 * 2;
                        let values = [sums[i][0][2 * h], sums[i][0][2 * h + 1]];
                        // SAFETY: the outputs of a place of the shape, as all below.
                        unsafe { self.put(to, first, column, values, wide) };
                    } else {
                        unroll!(2, part => {
                            if 4 * part < N {
                                let column = self.column + part as u32 * 32 + lane % 4 * 8;
                                let values: [f32; 8] = cuda_std::array::from_fn(|j: usize| {
                                    sums[i][(4 * part + j / 2) % N][2 * h + j % 2]
                                });
                                unsafe { self.put(to, first, column, values, wide) };
                            }
                        });
                    }
                }
            });
        });
    }

    /// Stores sums of outputs from `column` on of the group whose first is `first`, of the place at `to`.
    ///
    /// # Safety
    ///
    /// The place is one of the output, which is in vectors of `V` if that is said, an even number.
    #[inline(always)]
    unsafe fn put<const V: usize>(&self, to: usize, first: usize, column: u32, sums: [f32; V], wide: bool) {
        let (outputs, apart) = (self.patch.shape.outputs, self.patch.shape.out[4]);
        // In pairs, by an instruction each.
        let mut values = [T::ZERO; V];
        unroll!(4, pair => {
            if 2 * pair < V {
                let word = half::pack::<T>(sums[2 * pair % V], sums[(2 * pair + 1) % V]);
                [values[2 * pair % V], values[(2 * pair + 1) % V]] = bytemuck::cast::<u32, [T; 2]>(word);
            }
        });
        if wide {
            if column < outputs {
                // SAFETY: outputs of the group, of which there is a multiple of `V`.
                unsafe {
                    self.out
                        .set_vec_unchecked::<V>(to.wrapping_add(first + column as usize), values)
                };
            }
        } else {
            unroll!(8, j => {
                if j < V && column + (j as u32) < outputs {
                    let at = to.wrapping_add((first + column as usize + j).wrapping_mul(apart));
                    // SAFETY: an output of the group.
                    unsafe { self.out.set_vec_unchecked::<1>(at, [values[j % V]]) };
                }
            });
        }
    }
}
