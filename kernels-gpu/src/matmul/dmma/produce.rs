// SPDX-License-Identifier: MIT OR Apache-2.0
//! The producer: one thread, which has the stages filled.

use super::{B_LEN, Block, LINES, Side, TILE_K, a_len};
use crate::matmul::tiles::Tile;

impl<A: Side, B: Side, const ROWS: usize> Block<'_, A, B, ROWS> {
    /// Has the stages filled, one after another. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn produce(&self) {
        self.a.prefetch();
        self.b.prefetch();
        let mut step = 0;
        for part in self.parts() {
            for at in part.from..part.to {
                self.free(step).wait((step / Self::STAGES % 2) ^ 1);
                self.fill(step, part.tile, at * TILE_K as u32);
                step += 1;
            }
        }
    }

    /// Has the tiles at `k` copied to the stage of a step, with which the other warps are done.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill(&self, step: u32, tile: Tile, k: u32) {
        let full = self.full(step);
        let b_len = self.tile_n() as usize * TILE_K;
        full.arrive_expect_tx(8 * (a_len(ROWS) + b_len) as u32);
        let stage = (step % Self::STAGES) as usize;
        let (to_a, to_b) = (stage * a_len(ROWS), Self::B_START + stage * B_LEN);
        let (row, column, k) = (tile.row as i32, tile.column as i32, k as i32);
        // SAFETY (of the four): boxes of the maps are, by the kernel's contract, as large as the stage has room for
        // them, at multiples of 1024 bytes. Nobody reads the stage before its barrier says that it is full.
        let product = (tile.product * self.shape.a_step) as i32;
        if A::ALONG_K {
            unsafe { self.a.load(self.operand(to_a, a_len(ROWS)), [k, row, product], full) };
        } else if self.shape.a_in_one != 0 {
            unsafe {
                self.a
                    .load(self.operand(to_a, a_len(ROWS)), [0, k, row / 16, product], full)
            };
        } else {
            for i in 0..ROWS / 16 {
                let at = [row + 16 * i as i32, k, 0, product];
                unsafe { self.a.load(self.operand(to_a + i * LINES, LINES), at, full) };
            }
        }
        let product = (tile.product * self.shape.b_step) as i32;
        if B::ALONG_K {
            unsafe { self.b.load(self.operand(to_b, b_len), [k, column, product], full) };
        } else if self.shape.b_in_one != 0 {
            unsafe {
                self.b
                    .load(self.operand(to_b, b_len), [0, k, column / 16, product], full)
            };
        } else {
            for i in 0..b_len / LINES {
                let at = [column + 16 * i as i32, k, 0, product];
                unsafe { self.b.load(self.operand(to_b + i * LINES, LINES), at, full) };
            }
        }
    }
}
