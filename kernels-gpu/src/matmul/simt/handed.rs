// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of a tile that one block begins and the next one ends.

use cuda_std::atomic::{self, Atomic};
use cuda_std::prelude::*;

use super::{MOST_ROWS, handed_len, rows, warps};
use crate::matmul::handed::Flags;
use crate::matmul::unroll;

/// Of each block those of one tile, by warps, which hand them over one by one, as a lane of the other block has the same places.
pub(super) struct Handed<'a, const C: usize> {
    pub(super) partials: SliceMut<'a, f32>,
    pub(super) flags: Flags<'a>,
}

/// Does it for each of a lane's sums: of a row, four columns, and one of them.
macro_rules! each_sum {
    ($columns:ident, [$i:ident, $chunk:ident, $j:ident] => $body:block) => {
        unroll!(8, $i => {
            if $i < rows($columns) {
                unroll!(4, $chunk => {
                    if $chunk < $columns / 4 {
                        unroll!(4, $j => $body);
                    }
                });
            }
        });
    };
}

impl<const C: usize> Handed<'_, C> {
    /// Leaves the sums for the next block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn leave(&self, warp: u32, sums: &[[f32; C]; MOST_ROWS]) {
        let block = thread::block_idx_x();
        let first = Self::place(block, warp);
        each_sum!(C, [i, chunk, j] => {
            self.sum(first + 32 * (C * i + 4 * chunk + j)).store(sums[i][4 * chunk + j]);
        });
        self.flags.say(block, warp);
    }

    /// Takes the sums that the block before has left. That block began with them, and blocks begin in the order of their
    /// numbers, so that they come.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn take(&self, warp: u32, sums: &mut [[f32; C]; MOST_ROWS]) {
        let block = thread::block_idx_x() - 1;
        self.flags.wait(block, warp);
        let first = Self::place(block, warp);
        each_sum!(C, [i, chunk, j] => {
            sums[i][4 * chunk + j] = self.sum(first + 32 * (C * i + 4 * chunk + j)).load();
        });
    }

    /// A lane's first sum, of those that are 32 apart.
    #[inline(always)]
    fn place(block: u32, warp: u32) -> usize {
        let lane = thread::thread_idx_x() % 32;
        block as usize * handed_len(C) + warp as usize * (handed_len(C) / warps(C)) + lane as usize
    }

    /// A sum. Another block accesses it too, so it is atomic.
    #[inline(always)]
    fn sum(&self, at: usize) -> Atomic<'_, f32, atomic::Global, atomic::Device> {
        // SAFETY: there is one for each sum of each block's tile, by the kernel's contract.
        unsafe { self.partials.atomic_unchecked(at) }
    }
}
