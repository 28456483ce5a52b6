// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of small groups on the tensor cores of Ampere and later: 4, 8 or 16 channels, and as many outputs.
//!
//! Tiles and patches are those of [`convolve_mma`](super::convolve_mma()). A warp has 32 places, and of a block's channels 16 at a time, an
//! *item*: four groups of 4, two of 8, or one of 16. A step along k is a tap's 16 channels, or 8 of two taps, a *unit*, which `ldmatrix` takes
//! out of the patch as they lie. Weights lie in shared memory in the order of fragments, so that a lane loads those of a step at once. What
//! is beyond the last tap are a place of zeros, and weights that are zeros.
//!
//! Two groups of 4 are one unit, with zeros for weights between them. By these, what is infinite or NaN in one group makes NaN of the other's
//! sums: where a warp has NaN, it computes the item once more, group by group.

use cuda_std::half::{self, bf16, f16};
use cuda_std::mma::mma;
use cuda_std::prelude::*;
use cuda_std::{matrix, warp};

use super::super::{ConvolveShape, divide};
use super::patch::{Patch, Tile, pack};
use super::{Input, MmaPlan, THREADS, WARPS, WIDE};
use crate::matmul::unroll;

/// Channels of an item.
pub const ITEM: usize = 16;

/// Bytes that the lanes of a warp load at once.
const OF_WARP: u32 = 32 * 16;

/// Blocks that ptxas makes room for on a multiprocessor.
pub const BLOCKS: usize = 5;

/// Taps of a step, of groups of so many channels.
const fn taps_of_step(channels: u32) -> u32 {
    if channels == ITEM as u32 { 1 } else { 2 }
}

impl MmaPlan {
    /// Steps along k of so many taps.
    #[inline(always)]
    fn steps(&self, taps: u32) -> u32 {
        taps.div_ceil(taps_of_step(self.channels))
    }

    /// Items of a block.
    #[inline(always)]
    fn items(&self) -> u32 {
        self.groups * self.channels / ITEM as u32
    }

    /// Where the places' table, the weights, the patch and its place of zeros begin in shared memory, and all its bytes, of groups of so many
    /// channels.
    #[inline(always)]
    pub fn memory_of_groups(&self, taps: u32) -> [u32; 5] {
        let [of_table, of_patch] = self.bytes();
        let steps = self.steps(taps);
        let table = (steps * taps_of_step(self.channels) * 8).next_multiple_of(16);
        let weights = table + of_table;
        let patch = weights + self.items() * steps * OF_WARP;
        let zeros = patch + self.stages * of_patch;
        [table, weights, patch, zeros, zeros + self.pitch * 2]
    }
}

/// The convolution: `weights` has outputs of all groups, taps and channels of a group, in C order.
///
/// Blocks of a slice of groups are `slices` apart, and take turns with the tiles.
///
/// # Safety
///
/// As [`convolve_mma`](super::convolve_mma()) has it, but for this: the bytes of dynamic shared memory are what
/// [`MmaPlan::memory_of_groups`] says; groups have 4, 8 or 16 channels and as many outputs, those of a block a multiple of [`ITEM`];
/// `columns` is 1; `wide` is not 0; `out` is aligned to 8 bytes and `weights` to 4; the distances of `out` are multiples of 4, but the last,
/// which is 1.
#[kernel(T = [bf16, f16], arch = "sm_80", max_threads = THREADS, min_blocks = BLOCKS)]
pub unsafe fn convolve_groups_mma<T: Input>(
    x: &[T],
    weights: &[T],
    out: SliceMut<'_, T>,
    shape: ConvolveShape,
    plan: MmaPlan,
) {
    let (first, slice) = divide(thread::block_idx_x() as usize, plan.slices);
    let memory = cuda_std::shared::dynamic::<u8>();
    let taps = shape.taps() as u32;
    let [of_table, of_weights, of_patch, zeros, end] = plan.memory_of_groups(taps);
    let part = |from: u32, to: u32| {
        // SAFETY: a part of the memory, by the kernel's contract.
        unsafe { memory.subarray_unchecked(from as usize, (to - from) as usize) }
    };
    let block = Block::<T> {
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
        steps: plan.steps(taps),
        zeros: zeros - of_patch,
        table: part(0, of_table).cast(),
        fragments: part(of_weights, of_patch).cast(),
    };
    let apart = divide(thread::grid_dim_x() as usize, plan.slices).0 as u32;
    let first = first as u32;
    // SAFETY (of all): the kernel's contract.
    match plan.channels {
        4 => unsafe { block.run::<4>(first, apart) },
        8 => unsafe { block.run::<8>(first, apart) },
        _ => unsafe { block.run::<ITEM>(first, apart) },
    }
}

struct Block<'a, T> {
    patch: Patch<'a, T>,
    weights: &'a [T],
    out: SliceMut<'a, T>,
    steps: u32,
    /// Where the place of zeros is, in bytes of the patch.
    zeros: u32,
    /// Of each tap, how many bytes from a place's first tap on it is in the patch, and 1; where there is none, the place of zeros, and 0.
    table: Shared<u32>,
    /// The weights: items, steps, lanes, of each a fragment's words for 8 outputs and for 8 others.
    fragments: Shared<u32>,
}

/// Sums of a lane: of each 16 places and 8 outputs.
type Sums = [[[f32; 4]; 2]; 2];

impl<T: Input> Block<'_, T> {
    /// Computes tiles `first`, and every `apart`th after it.
    ///
    /// # Safety
    ///
    /// The kernel's contract, of as many tiles, and groups of `C` channels.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn run<const C: usize>(&self, first: u32, apart: u32) {
        self.fill_table();
        self.patch.fill_table();
        // SAFETY (of all): the kernel's contract.
        unsafe { self.fill_fragments::<C>() };
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        // Of four matrices, the upper and the lower one of a unit or a tap, and of the next one, lanes say where rows are.
        let from = cuda_std::array::from_fn(|i: usize| {
            let first = self.patch.first(self.patch.line(warp * 32 + 16 * i as u32 + lane % 16));
            4 * first + if C == ITEM { lane / 16 * 16 } else { 0 }
        });
        let fill = |tile: &Tile, stage: u32| unsafe { self.patch.copy_tile(tile, stage) };
        self.patch.each_tile::<false>(first, apart, fill, |tile, stage| {
            let targets = self.targets(tile);
            let of_stage = 4 * self.patch.stage(stage);
            let from = cuda_std::array::map(from, |from| from + of_stage);
            let mut item = 0;
            while item < self.patch.plan.items() {
                let mut sums = self.multiply::<C>(item, from, u32::MAX);
                if C < WIDE && warp::any(u32::MAX, has_nan(&sums)) {
                    sums = self.multiply_apart::<C>(item, from);
                }
                unsafe { self.store::<C>(item, targets, &sums) };
                item += 1;
            }
        });
    }

    /// Writes the table, and the place of zeros.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill_table(&self) {
        let channels = self.patch.plan.channels;
        let mut tap = thread::thread_idx_x();
        while tap < self.steps * taps_of_step(channels) {
            let of_tap = self.patch.pair(tap * (channels / 2)).map(|pair| 4 * pair.word);
            let entry = match of_tap {
                Some(bytes) => [bytes, 1],
                None => [self.zeros, 0],
            };
            // SAFETY: one of the taps that steps have.
            unsafe { self.table.set_vec_unchecked(2 * tap as usize, entry) };
            tap += THREADS as u32;
        }
        let mut word = thread::thread_idx_x();
        while word < self.patch.plan.pitch / 2 {
            // SAFETY: a word of a place, behind those of the patch.
            unsafe { self.patch.memory.set_unchecked((self.zeros / 4 + word) as usize, 0) };
            word += THREADS as u32;
        }
    }

    /// Writes the weights.
    ///
    /// # Safety
    ///
    /// The kernel's contract, and groups of `C` channels.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn fill_fragments<const C: usize>(&self) {
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        let all = self.patch.plan.items() * self.steps;
        let mut first = warp;
        while first < all {
            let mut words = [[0; 4]; 4];
            // So many loads at once.
            unroll!(4, i => {
                let number = first + (i * WARPS) as u32;
                if number < all {
                    // SAFETY: the kernel's contract.
                    words[i] = unsafe { self.fragment::<C>(number, lane) };
                }
            });
            unroll!(4, i => {
                let number = first + (i * WARPS) as u32;
                if number < all {
                    // SAFETY: one of the fragments.
                    unsafe { self.fragments.set_vec_unchecked(4 * (number * 32 + lane) as usize, words[i]) };
                }
            });
            first += 4 * WARPS as u32;
        }
    }

    /// The words of a lane for step `number` of those of all items.
    ///
    /// # Safety
    ///
    /// The kernel's contract, and groups of `C` channels.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn fragment<const C: usize>(&self, number: u32, lane: u32) -> [u32; 4] {
        let taps = self.patch.shape.taps() as u32;
        let (item, step) = divide(number as usize, self.steps);
        let (column, channel) = (lane / 4, lane % 4 * 2);
        let first = (self.patch.group * C as u32) as usize + item * ITEM;
        cuda_std::array::from_fn(|word: usize| {
            let (eight, half) = (word as u32 / 2, word as u32 % 2);
            let (tap, output, channel, is_of_group) = if C == ITEM {
                // So that a lane has four outputs side by side.
                (
                    step as u32,
                    column / 2 * 4 + eight * 2 + column % 2,
                    half * 8 + channel,
                    true,
                )
            } else {
                let is_of_group = column / C as u32 == channel / C as u32;
                (
                    step as u32 * 2 + half,
                    eight * 8 + column,
                    channel % C as u32,
                    is_of_group,
                )
            };
            if tap < taps && is_of_group {
                let at = ((first + output as usize) * taps as usize + tap as usize) * C + channel as usize;
                // SAFETY: two channels of a tap of an output.
                pack(unsafe { self.weights.load_vec_unchecked::<2>(at) })
            } else {
                0
            }
        })
    }

    /// Where the lane's places of a tile begin in the output, in the first group of the block, if they are there: those of each 16, the upper
    /// and the lower.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn targets(&self, tile: &Tile) -> [Option<usize>; 4] {
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        let first = (self.patch.group * self.patch.shape.outputs) as usize;
        cuda_std::array::from_fn(|row: usize| {
            let place = self.patch.line(warp * 32 + 8 * row as u32 + lane / 4);
            self.patch.output(tile, place).map(|at| at.wrapping_add(first))
        })
    }

    /// The sums of this lane for an item, of the bits of its channels that are in `keep`, where matrices' rows are `from` bytes from the
    /// patch's beginning.
    #[inline(always)]
    fn multiply<const C: usize>(&self, item: u32, from: [u32; 2], keep: u32) -> Sums {
        let lane = thread::thread_idx_x() % 32;
        let mut sums = [[[0.0; 4]; 2]; 2];
        let mut weights = (item * self.steps * 32 + lane) * 4;
        let mut tap = if C == ITEM { 0 } else { lane / 16 };
        let mut step = 0;
        while step < self.steps {
            // SAFETY (of all): a tap of the table; eight channels of places of the patch, at multiples of 16 bytes; a fragment.
            let [bytes, is_there] = unsafe { self.table.get_vec_unchecked::<2>(2 * tap as usize) };
            let [p, q, r, s] = unsafe { self.fragments.get_vec_unchecked::<4>(weights as usize) };
            let b = [[p, q], [r, s]];
            unroll!(2, i => {
                let at = from[i].wrapping_mul(is_there).wrapping_add(bytes) + item * (2 * ITEM as u32);
                let of_unit = |unit: u32| {
                    let words = unsafe { matrix::ldmatrix_x4(self.patch.memory, at + 16 * unit) };
                    words.map(|word| word & keep)
                };
                let a = of_unit(0);
                sums[i][0] = mma::<T>(a, b[0], sums[i][0]);
                let a = if C == ITEM { a } else { of_unit(1) };
                sums[i][1] = mma::<T>(a, b[1], sums[i][1]);
            });
            tap += taps_of_step(C as u32);
            weights += 128;
            step += 1;
        }
        sums
    }

    /// The same, each group of a unit by itself.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply_apart<const C: usize>(&self, item: u32, from: [u32; 2]) -> Sums {
        let channel = thread::thread_idx_x() % 4 * 2;
        let mut sums = [[[0.0; 4]; 2]; 2];
        let mut group = 0;
        while group < (WIDE / C) as u32 {
            let is_of_group = channel / C as u32 == group;
            let of_group = self.multiply::<C>(item, from, if is_of_group { u32::MAX } else { 0 });
            // A lane has outputs of the group that its channels are of.
            if is_of_group {
                sums = of_group;
            }
            group += 1;
        }
        sums
    }

    /// Stores the sums of an item, of places that begin there.
    ///
    /// # Safety
    ///
    /// The kernel's contract, and groups of `C` channels.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store<const C: usize>(&self, item: u32, targets: [Option<usize>; 4], sums: &Sums) {
        let column = thread::thread_idx_x() as usize % 4 * 2;
        let first = item as usize * ITEM;
        unroll!(4, row => {
            if let Some(to) = targets[row] {
                let to = to.wrapping_add(first);
                let words: [u32; 2] = cuda_std::array::from_fn(|t: usize| {
                    let of = sums[row / 2][t];
                    half::pack::<T>(of[row % 2 * 2], of[row % 2 * 2 + 1])
                });
                // SAFETY (of all): outputs of the item, at a multiple of as many.
                if C == ITEM {
                    let values = bytemuck::cast::<[u32; 2], [T; 4]>(words);
                    unsafe { self.out.set_vec_unchecked(to.wrapping_add(2 * column), values) };
                } else {
                    unroll!(2, t => {
                        let values = bytemuck::cast::<u32, [T; 2]>(words[t]);
                        unsafe { self.out.set_vec_unchecked(to.wrapping_add(8 * t + column), values) };
                    });
                }
            }
        });
    }
}

/// Whether a sum may be NaN.
#[inline(always)]
fn has_nan(sums: &Sums) -> bool {
    let mut all = 0.0;
    unroll!(2, i => {
        unroll!(2, t => {
            unroll!(4, j => {
                all += sums[i][t][j];
            });
        });
    });
    all.is_nan()
}
