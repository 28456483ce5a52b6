// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumers of long lines without forms, which finish a tile before they begin the next: what is compiled of this is faster there
//! by a tenth, though the loop over keys has the same instructions; why is not known.

use cuda_std::float::approximate;
use cuda_std::prelude::*;
use cuda_std::wgmma::{Accumulator, Registers};

use super::{Queries, Sums, Turn, have_read, store_line};
use crate::attention::Sequence;
use crate::attention::wgmma::{Block, CONSUMER_ROWS, Half, NONE, Place, Ring};
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
            let Some([head, of_block]) = self.said_by_turns(of_q.stage, consumer) else {
                return;
            };
            let sequence = self.shape.whole();
            let row = of_block + consumer * CONSUMER_ROWS as u32;
            let [first, tiles] = Self::key_tiles(&sequence, of_block);
            let mut sums = Sums::NONE;
            let queries = self.queries_in_stage(consumer, of_q.stage);
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
            self.store_by_turns(&values, &sums, &sequence, [head, row + warp % 4 * 16], (out, log_sums));
        }
    }

    /// The number of the head of the queries in a stage among those of all problems, and the block's first query; `None` behind the last tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn said_by_turns(&self, stage: u32, consumer: u32) -> Option<[u32; 2]> {
        let at = Self::place_of_said(stage, consumer);
        // SAFETY (of both): there are as many words for each consumer in each stage.
        let word = |i: usize| warp::uniform(unsafe { self.said.get_unchecked(at + i) });
        let head = word(0);
        if head == NONE {
            return None;
        }
        Some([head, word(1)])
    }

    /// The sums of weighted values of this consumer's queries over so many tiles of keys, at least one, from the first one on.
    ///
    /// When it comes back, nothing is under way that reads the queries.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn values_by_turns(
        &self,
        queries: &Queries<T>,
        of_queries: (&Sequence, u32),
        of_tiles: (u32, u32),
        factor: f32,
        (of_k, of_v): (&mut Place, &mut Place),
        sums: &mut Sums,
    ) -> Accumulator<R> {
        self.full(Ring::Keys, of_k.stage).wait(of_k.round);
        let scores = self.scores(queries, of_k.stage).wait();
        queries.keep();
        let of_thread = (sums, &mut Turn::of(0, 1));
        let (values, weights) = self.values((queries, scores), of_queries, of_tiles, factor, (of_k, of_v), of_thread);
        self.full(Ring::Values, of_v.stage).wait(of_v.round);
        let values = self.add_values(values, &weights, of_v.stage).wait();
        weights.keep();
        self.free(Ring::Values, of_v.stage)
            .arrive_if(thread::thread_idx_x().is_multiple_of(128));
        *of_v = of_v.next_of(self.key_stages());
        values
    }

    /// Divides the sums, and stores them: 16 queries of the warp, of this head, from this one on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_by_turns(
        &self,
        values: &Accumulator<R>,
        sums: &Sums,
        sequence: &Sequence,
        [head, first]: [u32; 2],
        (out, log_sums): (SliceMut<'_, T>, SliceMut<'_, f32>),
    ) {
        let lane = thread::thread_idx_x() % 32;
        unroll!(2, half => {
            let sum = sums.sum[half];
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 1);
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 2);
            let row = first + lane / 4 + 8 * half as u32;
            let line = head as usize * self.shape.queries as usize + (sequence.first_query + row) as usize;
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
