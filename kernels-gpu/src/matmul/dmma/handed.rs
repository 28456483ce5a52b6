// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums that one block hands over to another.

use cuda_std::atomic::{self, Atomic};
use cuda_std::prelude::*;

use super::super::unroll;
use super::{Sums, TILE_N, WARPS, groups};

/// The sums of tiles that one block begins and the next one ends: of each block those of one tile, by warps, which hand
/// them over one by one, as a lane of the other block has the same places.
pub(super) struct Handed<'a> {
    pub(super) partials: SliceMut<'a, f64>,
    /// For each warp of each block, whether its sums are there.
    pub(super) flags: SliceMut<'a, u32>,
}

impl Handed<'_> {
    /// A lane's first sum, of those that are 32 apart.
    #[inline(always)]
    fn place<const ROWS: usize>(block: u32, warp: u32) -> usize {
        let lane = thread::thread_idx_x() % 32;
        let len = ROWS * TILE_N / WARPS;
        (block as usize * WARPS + warp as usize) * len + lane as usize
    }

    /// Leaves the sums for the next block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn leave<const ROWS: usize>(&self, warp: u32, sums: &Sums) {
        let block = thread::block_idx_x();
        let first = Self::place::<ROWS>(block, warp);
        unroll!(4, i => {
            if i < groups(ROWS) {
                unroll!(4, j => {
                    unroll!(4, of => {
                        self.sum(first + 32 * (16 * i + 4 * j + of)).store(sums[i][j][of]);
                    });
                });
            }
        });
        warp::sync_warp(warp::FULL_MASK);
        if thread::thread_idx_x().is_multiple_of(32) {
            self.flag(block, warp).store_release(1);
        }
    }

    /// Takes the sums that the block before has left. That block began with them, and blocks begin in the order of their
    /// numbers, so that they come.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn take<const ROWS: usize>(&self, warp: u32, sums: &mut Sums) {
        let block = thread::block_idx_x() - 1;
        let flag = self.flag(block, warp);
        while flag.load_acquire() == 0 {
            thread::nanosleep(100);
        }
        warp::sync_warp(warp::FULL_MASK);
        if thread::thread_idx_x().is_multiple_of(32) {
            flag.store(0);
        }
        let first = Self::place::<ROWS>(block, warp);
        unroll!(4, i => {
            if i < groups(ROWS) {
                unroll!(4, j => {
                    unroll!(4, of => {
                        sums[i][j][of] = self.sum(first + 32 * (16 * i + 4 * j + of)).load();
                    });
                });
            }
        });
    }

    /// A sum. Another block accesses it too, so it is atomic; and a number by itself, not two, has registers where the
    /// products want it.
    #[inline(always)]
    fn sum(&self, at: usize) -> Atomic<'_, f64, atomic::Global, atomic::Device> {
        // SAFETY: the kernel's contract.
        unsafe { self.partials.atomic_unchecked(at) }
    }

    /// The flag of a warp of a block.
    #[inline(always)]
    fn flag(&self, block: u32, warp: u32) -> Atomic<'_, u32, atomic::Global, atomic::Device> {
        // SAFETY: the kernel's contract.
        unsafe { self.flags.atomic_unchecked(block as usize * WARPS + warp as usize) }
    }
}
