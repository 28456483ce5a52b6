// SPDX-License-Identifier: MIT OR Apache-2.0
//! How warps of one block tell those of another that their sums of a tile are in memory.

use cuda_std::atomic::{self, Atomic};
use cuda_std::prelude::*;

/// For each warp of each block, whether its sums are there: 0, or 1. All are 0 at a launch's start and at its end.
pub(super) struct Flags<'a> {
    flags: SliceMut<'a, u32>,
    /// Warps of a block that have sums.
    warps: usize,
}

impl<'a> Flags<'a> {
    /// Those of blocks of so many warps: there is one for each warp of each block that hands sums over.
    #[inline(always)]
    pub(super) fn new(flags: SliceMut<'a, u32>, warps: usize) -> Self {
        Self { flags, warps }
    }

    /// Says that the sums of a warp of that block are there, which all of its lanes have stored. For all of them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn say(&self, block: u32, warp: u32) {
        warp::sync_warp(warp::FULL_MASK);
        if thread::thread_idx_x().is_multiple_of(32) {
            self.flag(block, warp).store_release(1);
        }
    }

    /// Waits for the sums of a warp of that block, and sets its flag back. For all lanes of the warp that takes them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn wait(&self, block: u32, warp: u32) {
        let flag = self.flag(block, warp);
        while flag.load_acquire() == 0 {
            thread::nanosleep(100);
        }
        warp::sync_warp(warp::FULL_MASK);
        if thread::thread_idx_x().is_multiple_of(32) {
            flag.store(0);
        }
    }

    /// The flag of a warp of a block.
    #[inline(always)]
    fn flag(&self, block: u32, warp: u32) -> Atomic<'_, u32, atomic::Global, atomic::Device> {
        // SAFETY: blocks and warps that hand sums over have one, as who made this promises by its contract.
        unsafe { self.flags.atomic_unchecked(block as usize * self.warps + warp as usize) }
    }
}
