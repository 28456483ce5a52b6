// SPDX-License-Identifier: MIT OR Apache-2.0
//! The producer: the warp that has the stages filled.

use cuda_std::prelude::*;

use super::{
    BIAS_FREE, BIAS_FULL, Block, CONSUMERS, FREE, FULL, Half, LINES, Place, THERE, TILE_BYTES, in_registers, own_bytes,
    parts, queries,
};
use crate::matmul::unroll;

impl<T: Half, const R: usize, const FORMS: bool> Block<'_, T, R, FORMS> {
    /// Has all tiles copied, and stores what is known of queries. For a warp.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn produce(&self) {
        let walk = &self.walk;
        let (leads, lane) = (thread::thread_idx_x() == 0, thread::thread_idx_x());
        if leads {
            self.copy_own();
        }
        let mut place = Place::FIRST;
        let [mut head, mut line] = walk.begin(queries(R) as u32);
        for _ in 0..walk.tiles() {
            let known = cuda_std::array::map([0, 1, 2, 3], |i| match i < queries(R) as u32 / 32 {
                true => self.known.of([walk.batch, head], &walk.sequence, line + lane + 32 * i),
                false => [0.0; 2],
            });
            self.barrier(FREE + place.stage as usize).wait(place.round ^ 1);
            if leads {
                self.copy_tile(place.stage, head, line);
            }
            let to = self.queries(place.stage);
            unroll!(4, i => {
                if i < queries(R) / 32 {
                    let [log_sum, delta] = known[i];
                    // SAFETY (of both): there are both for each query.
                    unsafe { to.set_unchecked(32 * i + lane as usize, log_sum) };
                    unsafe { to.set_unchecked(queries(R) + 32 * i + lane as usize, delta) };
                }
            });
            self.barrier(FULL + place.stage as usize).arrive();
            if leads && self.has_bias() {
                self.copy_bias(place, head, line);
            }
            place = place.next();
            [head, line] = walk.next([head, line], queries(R) as u32);
        }
    }

    /// Has keys and values copied. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn copy_own(&self) {
        let (walk, there) = (&self.walk, self.barrier(THERE));
        there.arrive_expect_tx((2 * CONSUMERS * own_bytes(R)) as u32);
        unroll!(2, operand => {
            unroll!(2, consumer => {
                let line = walk.sequence.first_key + walk.row + (consumer * LINES) as u32;
                let at = [0, line as i32, 0, walk.head as i32, walk.batch as i32];
                // SAFETY: a box of the map is as large as the memory, which is at a multiple of 1024 bytes. Who reads it waits for the barrier, and
                // nobody else writes there before. The block ends when the consumers have read it.
                unsafe { self.own[operand].load(self.own(operand, consumer), at, there) };
            });
        });
    }

    /// Has a tile of queries and their gradients copied to a stage that is free: those of a head from `line` on. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn copy_tile(&self, stage: u32, head: u32, line: u32) {
        let full = self.barrier(FULL + stage as usize);
        full.arrive_expect_tx(2 * TILE_BYTES as u32);
        unroll!(2, operand => {
            unroll!(2, part => {
                if part < parts(R) {
                    let line = self.walk.sequence.first_query + line + (part * LINES) as u32;
                    let at = [0, line as i32, 0, head as i32, self.walk.batch as i32];
                    // SAFETY: as in `copy_own`, and the consumers are done with the stage.
                    unsafe { self.others[operand].load(self.tile(operand, stage, part), at, full) };
                }
            });
        });
    }

    /// Has what is added to the scores of a tile copied, for both consumers, when they are done with what was there. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn copy_bias(&self, of_queries: Place, head: u32, line: u32) {
        unroll!(2, part => {
            if part < parts(R) {
                let place = Self::place_of_bias(of_queries, part);
                // The stage where values were is first free when consumers have them in registers: a phase later.
                let taken = u32::from(in_registers(R)) & place.stage;
                self.barrier(BIAS_FREE + place.stage as usize).wait(place.round ^ 1 ^ taken);
                let full = self.barrier(BIAS_FULL + place.stage as usize);
                full.arrive_expect_tx(CONSUMERS as u32 * self.bias.bytes());
                unroll!(2, consumer => {
                    let (query, key) = (line + (part * LINES) as u32, self.walk.row + (consumer * LINES) as u32);
                    // SAFETY: there is a bias, its box is a part of the stage, and the rest is as in `copy_own`.
                    unsafe {
                        self.bias
                            .load(self.of_bias(place.stage, consumer), [self.walk.batch, head, query, key], full);
                    }
                });
            }
        });
    }
}
