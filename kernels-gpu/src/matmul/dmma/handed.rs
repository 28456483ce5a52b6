// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums that one block hands over to another.

use cuda_std::atomic::{self, Atomic};
use cuda_std::prelude::*;

use super::slices::Pieces;
use super::{PARTED_ROWS, Sums, WARPS, groups, sums_of_warp};
use crate::matmul::handed::Flags;
use crate::matmul::unroll;

/// Does it for each of a lane's sums: of a group of 16 columns, one of rows, and four.
macro_rules! each_sum {
    ($rows:ident, [$i:ident, $j:ident, $of:ident] => $body:block) => {
        unroll!(4, $i => {
            if $i < groups($rows) {
                unroll!(4, $j => {
                    unroll!(4, $of => $body);
                });
            }
        });
    };
}

/// Does it for each sum of so many parts and pieces, those pieces that there are.
macro_rules! each_of_parts {
    ($parts:ident, $pieces:ident, $count:ident, [$part:ident, $piece:ident, $of:ident] => $body:block) => {
        unroll!(4, $part => {
            if $part < $parts {
                unroll!(4, $piece => {
                    if $piece < $pieces && ($piece as u32) < $count {
                        unroll!(4, $of => $body);
                    }
                });
            }
        });
    };
}

/// Parts whose sums are asked for at once, of one piece each.
const AT_ONCE: usize = 4;

/// The sums of tiles that one block begins and the next one ends, or of which blocks have parts of k side by side: of each block
/// those of one tile, by warps, which hand them over one by one, as a lane of the other block has the same places.
pub(super) struct Handed<'a> {
    pub(super) partials: SliceMut<'a, f64>,
    pub(super) flags: Flags<'a>,
}

impl Handed<'_> {
    /// A lane's first sum, of those that are 32 apart.
    #[inline(always)]
    fn place<const ROWS: usize>(block: u32, warp: u32) -> usize {
        let lane = thread::thread_idx_x() % 32;
        (block as usize * WARPS + warp as usize) * sums_of_warp(ROWS) + lane as usize
    }

    /// The number of the block, and that of the one whose part of k is the first of the same tile's.
    #[inline(always)]
    fn blocks() -> [u32; 2] {
        let (x, y) = (thread::block_idx_x(), thread::block_idx_y());
        [x + y * thread::grid_dim_x(), x]
    }

    /// Leaves the sums for the next block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn leave<const ROWS: usize>(&self, warp: u32, sums: &Sums) {
        let block = thread::block_idx_x();
        let first = Self::place::<ROWS>(block, warp);
        each_sum!(ROWS, [i, j, of] => {
            self.sum(first + 32 * (16 * i + 4 * j + of)).store(sums[i][j][of]);
        });
        self.flags.say(block, warp);
    }

    /// Takes the sums that the block before has left. That block began with them, and blocks begin in the order of their
    /// numbers, so that they come.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn take<const ROWS: usize>(&self, warp: u32, sums: &mut Sums) {
        let block = thread::block_idx_x() - 1;
        self.flags.wait(block, warp);
        let first = Self::place::<ROWS>(block, warp);
        each_sum!(ROWS, [i, j, of] => {
            sums[i][j][of] = self.sum(first + 32 * (16 * i + 4 * j + of)).load();
        });
    }

    /// Leaves the sums of pieces for the block with the last part of k, which sees by each that it is there: it is not 0. Of one that
    /// is, −0 is left. So nobody waits for a fence, and then for a flag.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn leave_part(&self, warp: u32, pieces: &Pieces, count: u32) {
        let [block, _] = Self::blocks();
        let first = Self::place::<PARTED_ROWS>(block, warp);
        unroll!(4, piece => {
            if (piece as u32) < count {
                unroll!(4, of => {
                    let sum = pieces[piece][of];
                    let left = if sum.to_bits() == 0 { -0.0 } else { sum };
                    self.sum(first + 32 * (4 * piece + of)).store(left);
                });
            }
        });
    }

    /// Adds the sums that the blocks with the parts of k ahead leave, in their order, and leaves zeros. Blocks begin in the order of
    /// their numbers, so that they come.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn add(&self, warp: u32, pieces: &mut Pieces, count: u32) {
        // Of one piece there are registers for several parts, so that nobody waits for one after the other. If one alone is left by
        // another block, the loads of more would be in vain.
        if count == 1 && thread::grid_dim_y() > 2 {
            self.add_parts::<1, AT_ONCE>(warp, pieces, count);
        } else {
            self.add_parts::<4, 1>(warp, pieces, count);
        }
    }

    /// [`add`](Self::add), where there are up to `PIECES` pieces; so many parts are asked for at once.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_parts<const PIECES: usize, const PARTS: usize>(&self, warp: u32, pieces: &mut Pieces, count: u32) {
        let [last, block] = Self::blocks();
        let step = thread::grid_dim_x();
        let mut of_block = block;
        while of_block < last {
            let mut parts = [[[0.0f64; 4]; PIECES]; PARTS];
            loop {
                let mut is_there = true;
                // All are asked for ahead of the first look at one.
                each_of_parts!(PARTS, PIECES, count, [part, piece, of] => {
                    let from = Ord::min(of_block + part as u32 * step, last - step);
                    let first = Self::place::<PARTED_ROWS>(from, warp);
                    parts[part][piece][of] = self.sum(first + 32 * (4 * piece + of)).load();
                });
                each_of_parts!(PARTS, PIECES, count, [part, piece, of] => {
                    is_there &= parts[part][piece][of].to_bits() != 0;
                });
                if is_there {
                    break;
                }
                thread::nanosleep(20);
            }
            each_of_parts!(PARTS, PIECES, count, [part, piece, of] => {
                let from = of_block + part as u32 * step;
                if from < last {
                    let first = Self::place::<PARTED_ROWS>(from, warp);
                    self.sum(first + 32 * (4 * piece + of)).store(0.0);
                    pieces[piece][of] += parts[part][piece][of];
                }
            });
            of_block += PARTS as u32 * step;
        }
    }

    /// A sum. Another block accesses it too, so it is atomic; and a number by itself, not two, has registers where the
    /// products want it.
    #[inline(always)]
    fn sum(&self, at: usize) -> Atomic<'_, f64, atomic::Global, atomic::Device> {
        // SAFETY: the kernel's contract.
        unsafe { self.partials.atomic_unchecked(at) }
    }
}
