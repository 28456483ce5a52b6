// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradient of the weights of depthwise convolutions on the tensor cores of Ampere and later.
//!
//! Tiles and patches are those of [`convolve_mma`](super::convolve_mma()), and 8 channels are a *unit*, which a warp has. A product over 16
//! places has two taps of the unit's channels as its 16 lines, and its 8 outputs as columns; of the 128 sums 16 are kept, those of a
//! channel with its own output. As many are computed in vain, and it is still less work than on ordinary cores: an instruction for what
//! takes a lane 8 multiplications and additions, and no conversion of what `ldmatrix` takes as it lies.
//!
//! Taps fall into *panels*, of some lines of some taps each, whose sums a warp has in registers over all tiles of its part. It
//! takes four lines of places at a time, so that what a line of the input has is loaded once for all of them.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::mma;
use cuda_std::prelude::*;
use cuda_std::{async_copy, hint, matrix};

use super::super::{ConvolveShape, divide};
use super::patch::{Patch, Tile};
use super::{Input, MmaPlan, PLACES, STEP, THREADS, WARPS, WIDE};
use crate::matmul::unroll;

/// Units of a block, at most.
pub const UNITS: usize = WARPS;

/// Elements from place to place of the gradient in shared memory: eight places are in different banks.
const PITCH: u32 = (UNITS * WIDE + 8) as u32;

/// Words of a tile's gradient.
const OF_TILE: u32 = PLACES as u32 * PITCH / 2;

/// Blocks that ptxas makes room for on a multiprocessor.
pub const BLOCKS: usize = 3;

/// Lines of taps of a panel, for which there is code.
pub const LINES: [usize; 4] = [1, 3, 5, 7];

/// Pairs of taps of a line of a panel of so many lines.
pub const fn pairs(lines: usize) -> usize {
    match lines {
        3 => 2,
        5 => 3,
        _ => 4,
    }
}

/// Places of a tile along the axes, as powers of 2: with several lines of taps, lines of as many places as a product has.
pub const fn log_tile(lines: usize) -> [u32; 3] {
    let log = PLACES.trailing_zeros();
    let along = STEP.trailing_zeros();
    if lines == 1 {
        [0, 0, log]
    } else {
        [0, log - along, along]
    }
}

/// How the products fall to warps.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct DepthwiseMmaPlan {
    /// The tiles, and the patch of a panel; in `groups` how many units a block has, of 8 channels each.
    pub of: MmaPlan,
    /// Lines of taps of a panel: one of [`LINES`].
    pub lines: u32,
    /// Panels along the axes.
    pub panels: [u32; 3],
    /// Lines and taps of a line that a panel's patch has, which are as many as the panel has, or the window.
    pub taps: [u32; 2],
}

impl DepthwiseMmaPlan {
    /// Where the patch's table, the gradients and the patches begin in shared memory, and all its bytes.
    #[inline(always)]
    pub fn memory(&self) -> [u32; 4] {
        let [of_table, of_patch] = self.of.bytes();
        let stages = self.of.stages;
        let table = 2 * 4 * PLACES as u32;
        let gradient = table + of_table;
        let patch = gradient + stages * OF_TILE * 4;
        [table, gradient, patch, patch + stages * of_patch]
    }
}

/// The sums of the products of the gradient `gradient` of the result and the input, for each part of the tiles: parts, outputs, and taps, in
/// C order.
///
/// The groups of the shape are units, of 8 channels and as many outputs, each of which is of its own channel.
///
/// # Safety
///
/// A block has [`THREADS`] threads and the bytes of dynamic shared memory that [`DepthwiseMmaPlan::memory`] says; the grid has one axis, of
/// `of.slices` blocks for each panel and each part, of which there are no more than tiles. `x` and `gradient` lie within their arrays,
/// at multiples of 16 bytes, with distances that are multiples of [`WIDE`] but the last, which is 1; and there is an image, a place, a tap
/// and a unit; `sums` has the sums of all parts. Tiles are those of [`log_tile`], and patches those of a panel, as
/// [`convolve_mma`](super::convolve_mma()) says, with `wide`. `of.groups` is at most [`UNITS`]. With several lines, the stride along the
/// second axis is 1 or 2, and the dilation 1. A tile is over less than 2^32 elements of the gradient.
#[kernel(T = [bf16, f16], arch = "sm_80", max_threads = THREADS, min_blocks = BLOCKS)]
pub unsafe fn convolve_depthwise_weights_mma<T: Input>(
    x: &[T],
    gradient: &[T],
    sums: SliceMut<'_, f32>,
    shape: ConvolveShape,
    plan: DepthwiseMmaPlan,
) {
    let of = &plan.of;
    let [planes, lines, columns] = plan.panels;
    let (rest, slice) = divide(thread::block_idx_x() as usize, of.slices);
    let (rest, c) = divide(rest, columns);
    let (rest, b) = divide(rest, lines);
    let (part, a) = divide(rest, planes);
    let parts = divide(thread::grid_dim_x() as usize, of.slices * columns * lines * planes).0;
    let of_line = 2 * pairs(plan.lines as usize) as u32;
    let tap = [a as u32, b as u32 * plan.lines, c as u32 * of_line];
    let first = cuda_std::array::from_fn(|axis: usize| {
        shape.first[axis].wrapping_add(tap[axis].wrapping_mul(shape.dilation[axis]))
    });
    let memory = cuda_std::shared::dynamic::<u8>();
    let [of_table, of_gradient, of_patch, end] = plan.memory();
    let cut = |from: u32, to: u32| {
        // SAFETY: a part of the memory, by the kernel's contract.
        unsafe { memory.subarray_unchecked(from as usize, (to - from) as usize) }
    };
    let block = Block::<T> {
        gradient,
        sums,
        taps: plan.taps,
        tap,
        targets: cut(0, of_table).cast(),
        tile: cut(of_gradient, of_patch).cast(),
        patch: Patch {
            x,
            shape: ConvolveShape { first, ..shape },
            plan: plan.of,
            group: slice as u32 * of.groups,
            table: cut(of_table, of_gradient).cast(),
            memory: cut(of_patch, end).cast(),
        },
    };
    // SAFETY (of all): the kernel's contract.
    match (plan.lines, shape.stride[1]) {
        (3, 1) => unsafe { block.run::<3, { pairs(3) }, 1, 4>(part, parts) },
        (3, _) => unsafe { block.run::<3, { pairs(3) }, 2, 4>(part, parts) },
        (5, 1) => unsafe { block.run::<5, { pairs(5) }, 1, 4>(part, parts) },
        (5, _) => unsafe { block.run::<5, { pairs(5) }, 2, 4>(part, parts) },
        (7, 1) => unsafe { block.run::<7, { pairs(7) }, 1, 4>(part, parts) },
        (7, _) => unsafe { block.run::<7, { pairs(7) }, 2, 4>(part, parts) },
        _ => unsafe { block.run::<1, { pairs(1) }, 1, 1>(part, parts) },
    }
}

/// Sums of a lane: of lines of taps, and pairs of these.
type Sums<const K: usize, const P: usize> = [[[f32; 4]; P]; K];

struct Block<'a, T> {
    gradient: &'a [T],
    sums: SliceMut<'a, f32>,
    /// Lines of taps that the patch has, and taps of a line.
    taps: [u32; 2],
    /// The first tap of the panel.
    tap: [u32; 3],
    /// Where places are in the gradient.
    targets: Shared<u32>,
    /// The gradient: of each stage places, and of each place the outputs of all units.
    tile: Shared<u32>,
    patch: Patch<'a, T>,
}

impl<T: Input> Block<'_, T> {
    /// Adds up the tiles of a part, by `K` lines of `P` pairs of taps and `G` lines of places at a time, which are `S` lines of the input
    /// apart, and stores the sums.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn run<const K: usize, const P: usize, const S: usize, const G: usize>(&self, part: usize, parts: usize) {
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        self.patch.fill_table();
        self.patch.fill_places(self.targets);
        let shape = &self.patch.shape;
        let of_place = 2 * self.patch.plan.pitch;
        // Of four matrices, of the first tap and the second one, of eight places and of the next eight, lanes say where rows are, in bytes
        // from a line's first place on. What is beyond the last tap is that of the last.
        let place = (lane % 8 + lane / 16 * 8) * shape.stride[2];
        let from: [u32; P] = cuda_std::array::from_fn(|pair: usize| {
            let tap = Ord::min(2 * pair as u32 + lane / 8 % 2, self.taps[1] - 1);
            (place + tap * shape.dilation[2]) * of_place + warp * 2 * WIDE as u32
        });
        // The same of the gradient: of a line's eight places, the next eight, and of the next line's.
        let of_gradient = (lane % (G * STEP) as u32 * PITCH + warp * WIDE as u32) * 2;
        let mut sums = [[[0.0; 4]; P]; K];
        // SAFETY: the kernel's contract; all threads are behind a barrier.
        let fill = |tile: &Tile, stage: u32| unsafe {
            self.fill(tile, stage);
            self.patch.fill::<1>(tile, stage);
        };
        let is_there = warp < self.patch.plan.groups;
        self.patch
            .each_tile::<false>(part as u32, parts as u32, fill, |_, stage| {
                if is_there {
                    self.add::<K, P, S, G>(stage, &from, of_gradient, &mut sums);
                }
            });
        if is_there {
            // SAFETY: the kernel's contract.
            unsafe { self.store(part, &sums) };
        }
    }

    /// Has the gradient of a tile copied into a stage, with zeros beyond the output's ends.
    ///
    /// # Safety
    ///
    /// The kernel's contract. Nobody accesses the memory until a barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn fill(&self, tile: &Tile, stage: u32) {
        let thread = thread::thread_idx_x();
        let unit = thread % UNITS as u32;
        let target = self.patch.target(tile);
        let begin = target.element.wrapping_add((self.patch.group + unit) as usize * WIDE);
        let begin = self.gradient.as_ptr().wrapping_add(begin);
        let mut line = thread / UNITS as u32;
        while line < PLACES as u32 && unit < self.patch.plan.groups {
            // SAFETY: one of the places of a tile.
            let (far, is_inside) = unsafe { target.source(self.targets, line) };
            let from = begin.wrapping_add(far as usize);
            let to = 4 * stage * OF_TILE + (line * PITCH + unit * WIDE as u32) * 2;
            // SAFETY: outputs of a place, at a multiple of 16 bytes by the kernel's contract, or none, and room for them.
            unsafe { async_copy::copy_16(self.tile, to, from.cast(), if is_inside { 16 } else { 0 }) };
            line += (THREADS / UNITS) as u32;
        }
    }

    /// Adds the products of a tile, of which lanes read rows from there on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add<const K: usize, const P: usize, const S: usize, const G: usize>(
        &self,
        stage: u32,
        from: &[u32; P],
        of_gradient: u32,
        sums: &mut Sums<K, P>,
    ) {
        const { assert!(G <= 4 && K <= 7 && P <= 4 && (G - 1) * S + K <= 16) };
        let [_, lines, columns] = self.patch.plan.patch;
        let of_line = columns * 2 * self.patch.plan.pitch;
        let mut gradient = 4 * stage * OF_TILE + of_gradient;
        let mut segment = 0;
        // Not written out: the products of `G` lines are enough of them.
        let segments = hint::opaque((PLACES / STEP) as u32);
        while segment < segments {
            // SAFETY (of both): eight outputs of places of the tile, and eight channels of places of the patch, at multiples of 16 bytes.
            let mut of_lines = [[0; 2]; 4];
            unroll!(2, two => {
                if 2 * two < G {
                    let at = gradient + (2 * two * STEP) as u32 * PITCH * 2;
                    let [p, q, r, s] = unsafe { matrix::ldmatrix_x4_trans(self.tile, at) };
                    of_lines[2 * two] = [p, q];
                    of_lines[2 * two + 1] = [r, s];
                }
            });
            let first = self.patch.line(segment * STEP as u32);
            let base = 4 * (self.patch.stage(stage) + self.patch.first(first));
            let left = lines - 1 - first[1] * self.patch.shape.stride[1];
            unroll!(4, four => {
                unroll!(4, one => {
                    let i = 4 * four + one;
                    if i < (G - 1) * S + K {
                        // Lines beyond the patch are those of taps that are not there.
                        let at = base + Ord::min(i as u32, left) * of_line;
                        unroll!(4, pair => {
                            if pair < P {
                                let a = unsafe { matrix::ldmatrix_x4_trans(self.patch.memory, at + from[pair % P]) };
                                unroll!(4, line => {
                                    if line < G && i >= line * S && i - line * S < K {
                                        let of_tap = &mut sums[(i - line * S) % K][pair % P];
                                        *of_tap = mma::<T>(a, of_lines[line], *of_tap);
                                    }
                                });
                            }
                        });
                    }
                });
            });
            gradient += (G * STEP) as u32 * PITCH * 2;
            segment += G as u32;
        }
    }

    /// Stores the sums of channels with their own outputs.
    ///
    /// # Safety
    ///
    /// The kernel's contract; the warp has a unit.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store<const K: usize, const P: usize>(&self, part: usize, sums: &Sums<K, P>) {
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        let shape = &self.patch.shape;
        let channel = lane / 4;
        // A lane has two outputs, and the second channel eight lines below the first, which is the other tap's.
        if lane % 4 != channel / 2 {
            return;
        }
        let outputs = shape.groups as usize * WIDE;
        let output = part * outputs + (self.patch.group + warp) as usize * WIDE + channel as usize;
        let [a, b, c] = self.tap;
        let first = output * shape.taps();
        // By bits: of a choice between two sums the compiler makes one of an address, and keeps them in memory.
        let odd = 0u32.wrapping_sub(channel % 2);
        let choose = |even: f32, other: f32| f32::from_bits(even.to_bits() & !odd | other.to_bits() & odd);
        unroll!(7, i => {
            let line = b + i as u32;
            if i < K && line < shape.window[1] {
                let first = first + (a * shape.window[1] + line) as usize * shape.window[2] as usize;
                unroll!(4, pair => {
                    unroll!(2, second => {
                        let tap = c + (2 * pair + second) as u32;
                        if pair < P && tap < shape.window[2] {
                            let of = sums[i % K][pair % P];
                            let sum = choose(of[2 * second], of[2 * second + 1]);
                            // SAFETY: a weight of the part.
                            unsafe { self.sums.set_vec_unchecked(first + tap as usize, [sum]) };
                        }
                    });
                });
            }
        });
    }
}
