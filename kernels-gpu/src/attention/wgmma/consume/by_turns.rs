// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumers of long lines without forms, which finish a tile before they begin the next: the code that is made of this is faster there by a
//! tenth, though the loop over keys has the same instructions; why is not known.

use cuda_std::float::approximate;
use cuda_std::matrix;
use cuda_std::prelude::*;
use cuda_std::wgmma::{Accumulator, Fragment, MatrixDescriptor, Registers};

use super::{Queries, Sums, Weights, have_read, store_line};
use crate::attention::wgmma::{Block, CONSUMER_ROWS, Half, KEYS, LINE, Place, Ring};
use crate::attention::{Sequence, Tile};
use crate::matmul::unroll;

impl<T: Half, const R: usize, const FORMS: bool> Block<'_, T, R, FORMS>
where
    [f32; R]: Registers,
{
    /// Computes the results of one tile after another. For the warps of the consumers, each of which has 16 queries.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(in crate::attention::wgmma) fn consume_by_turns(
        &self,
        warp: u32,
        factor: f32,
        out: SliceMut<'_, T>,
        log_sums: SliceMut<'_, f32>,
    ) {
        let consumer = warp / 4;
        let (mut of_q, mut of_k, mut of_v) = (Place::FIRST, Place::FIRST, Place::FIRST);
        let ring = Ring::Queries(consumer);
        loop {
            self.full(ring, of_q.stage).wait(of_q.round);
            let Some((sequence, tile)) = self.said_by_turns(of_q.stage, consumer) else {
                return;
            };
            let row = tile.row + consumer * CONSUMER_ROWS as u32;
            let [first, tiles] = Self::key_tiles(&sequence, tile.row);
            let mut sums = Sums::NONE;
            // As all lanes have the same, products have the descriptors of queries in registers of the warp: ptxas would not know it otherwise.
            let queries = self.queries_by_turns(self.stage(ring, warp::uniform(of_q.stage)));
            let free = self.free(ring, of_q.stage);
            if Self::FROM_REGISTERS {
                have_read();
                free.arrive();
            }
            let values = match tiles {
                0 => Accumulator::zero(),
                _ => self.values_by_turns(
                    &queries,
                    (&sequence, row),
                    (first, tiles),
                    factor,
                    (&mut of_k, &mut of_v),
                    &mut sums,
                ),
            };
            free.arrive_if(!Self::FROM_REGISTERS);
            of_q = of_q.next();
            self.store_by_turns(
                &values,
                &sums,
                &sequence,
                Tile {
                    row: row + warp % 4 * 16,
                    ..tile
                },
                (out, log_sums),
            );
        }
    }

    /// What is said of the queries in a stage: their tile, and its sequence; `None` behind the last tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn said_by_turns(&self, stage: u32, consumer: u32) -> Option<(Sequence, Tile)> {
        let at = Self::place_of_said(stage, consumer);
        // SAFETY (of all): there are as many for each consumer in each stage.
        let word = |i: usize| warp::uniform(unsafe { self.said.get_unchecked(at + i) });
        let tile = self.tile(word(0))?;
        if !FORMS {
            return Some((self.shape.whole(), tile));
        }
        let sequence = Sequence {
            first_query: word(2),
            queries: word(3),
            first_key: word(4),
            keys: word(5),
            from: word(6) as i32,
            reach: word(7) as i32,
        };
        Some((sequence, Tile { row: word(1), ..tile }))
    }

    /// The sums of weighted values of this consumer's queries over so many tiles of keys, at least one, from the first one on.
    ///
    /// When it comes back, nothing is under way that reads the queries.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn values_by_turns(
        &self,
        queries: &Queries<T>,
        (sequence, row): (&Sequence, u32),
        (first, tiles): (u32, u32),
        factor: f32,
        (of_k, of_v): (&mut Place, &mut Place),
        sums: &mut Sums,
    ) -> Accumulator<R> {
        let leads = thread::thread_idx_x().is_multiple_of(128);
        let mut left = tiles - 1;
        self.full(Ring::Keys, of_k.stage).wait(of_k.round);
        let mut scores = self.scores(queries, of_k.stage).wait();
        queries.keep();
        // All four warps have gone through the instructions together: what one has waited for has been read for all.
        self.free(Ring::Keys, of_k.stage).arrive_if(leads);
        self.add_bias(&mut scores, *of_k);
        *of_k = of_k.next();
        self.hide(&mut scores, sequence, row, first + left);
        match R {
            32 => sums.weigh_first::<true>(&mut scores, factor),
            _ => sums.weigh_first::<false>(&mut scores, factor),
        }
        let mut weights = Weights::<T>::new(&scores);
        let lines = sequence.keys - (first + left) * KEYS as u32;
        if FORMS && lines < KEYS as u32 {
            self.full(Ring::Values, of_v.stage).wait(of_v.round);
            self.clear_values(of_v.stage, lines);
        }
        let mut values = Accumulator::<R>::zero();
        if Self::ASKS_EARLY && left > 0 {
            self.full(Ring::Keys, of_k.stage).wait(of_k.round);
        }
        while left > 0 {
            left -= 1;
            if !Self::ASKS_EARLY {
                self.full(Ring::Keys, of_k.stage).wait(of_k.round);
            }
            let next = self.scores(queries, of_k.stage);
            self.full(Ring::Values, of_v.stage).wait(of_v.round);
            let sum = self.add_values(values, &weights, of_v.stage);
            // SAFETY: the newest batch is that of the values.
            let mut scores = unsafe { next.wait_beside_newer() };
            queries.keep();
            // As above; the batch that is under way reads no keys.
            self.free(Ring::Keys, of_k.stage).arrive_if(leads);
            self.add_bias(&mut scores, *of_k);
            *of_k = of_k.next();
            self.hide(&mut scores, sequence, row, first + left);
            let factors = Self::weigh(sums, &mut scores, factor);
            if Self::ASKS_EARLY && left > 0 {
                // No sum of weights is negative, which ptxas does not know: so they are computed ahead of this wait.
                let is_negative = sums.sum[0] < 0.0 || sums.sum[1] < 0.0;
                let round = of_k.round ^ u32::from(is_negative);
                self.full(Ring::Keys, of_k.stage).wait(round);
            }
            values = sum.wait();
            weights.keep();
            self.free(Ring::Values, of_v.stage).arrive_if(leads);
            *of_v = of_v.next();
            weights = Weights::new(&scores);
            if let Some(factors) = factors {
                values.update(|i, sum| sum * factors[i / 2 % 2]);
            }
        }
        self.full(Ring::Values, of_v.stage).wait(of_v.round);
        let values = self.add_values(values, &weights, of_v.stage).wait();
        weights.keep();
        self.free(Ring::Values, of_v.stage).arrive_if(leads);
        *of_v = of_v.next();
        values
    }

    /// The queries of this consumer, which lie there. For all of its threads.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn queries_by_turns(&self, lies: Shared<T>) -> Queries<T> {
        let thread = thread::thread_idx_x() % 128;
        // A lane says where a line of a matrix of 8 × 8 begins: of the warp's 16, then of the next 8 elements of them.
        let (row, right) = (thread / 32 * 16 + thread % 16, thread % 32 / 16);
        let fragment = |step: u32| {
            if !Self::FROM_REGISTERS {
                return Fragment::of_pairs([0; 4]);
            }
            let piece = (2 * (step % 4) + right) ^ (row % 8);
            let at = step / 4 * (CONSUMER_ROWS * LINE) as u32 + row * LINE as u32 + piece * 16;
            // SAFETY: 16 bytes of a line of the boxes, with their swizzle; all lanes are here.
            Fragment::of_pairs(unsafe { matrix::ldmatrix_x4(lies, at) })
        };
        let queries = Queries {
            lies: MatrixDescriptor::new(lies, 16, 1024),
            fragments: [
                fragment(0),
                fragment(1),
                fragment(2),
                fragment(3),
                fragment(4),
                fragment(5),
                fragment(6),
                fragment(7),
            ],
        };
        // Loaded here, and neither behind the arrival at the barrier nor behind the opening of a batch.
        queries.keep();
        queries
    }

    /// Divides the sums, and stores them: 16 queries of the warp, from that of the tile on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_by_turns(
        &self,
        values: &Accumulator<R>,
        sums: &Sums,
        sequence: &Sequence,
        tile: Tile,
        (out, log_sums): (SliceMut<'_, T>, SliceMut<'_, f32>),
    ) {
        let lane = thread::thread_idx_x() % 32;
        let head = (tile.batch * self.shape.heads + tile.head) as usize;
        unroll!(2, half => {
            let sum = sums.sum[half];
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 1);
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 2);
            let row = tile.row + lane / 4 + 8 * half as u32;
            let line = head * self.shape.queries as usize + (sequence.first_query + row) as usize;
            if row < sequence.queries && lane.is_multiple_of(4) && line < log_sums.len() {
                let log_sum = (Float::log2(sum) - sums.base[half]) * core::f32::consts::LN_2;
                log_sums.set(line, log_sum);
            }
            // Without a key: what was multiplied by 0 may have been infinite.
            let (is_empty, factor) = (sum == 0.0, approximate::recip(sum));
            let line = (row < sequence.queries).then_some(line);
            // SAFETY: the line is in `out`, by the kernel's contract.
            unsafe { store_line(values, half, &out, line, |value| if is_empty { 0.0 } else { value * factor }) };
        });
    }
}
