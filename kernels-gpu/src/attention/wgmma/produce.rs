// SPDX-License-Identifier: MIT OR Apache-2.0
//! The producer: who takes tiles, and has the stages filled.

use cuda_std::prelude::*;

use super::bias::{BOX_BYTES, SIDE};
use super::{Block, CONSUMER_ROWS, Half, KEYS, NONE, Place, Ring, k_bytes, q_bytes};
use crate::attention::{Sequence, Tile};

impl<T: Half, const R: usize, const FORMS: bool> Block<'_, T, R, FORMS> {
    /// Has the stages filled, tile by tile. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn produce(&self, counters: SliceMut<'_, u32>) {
        let (mut of_q, mut of_k, mut of_v) = (Place::FIRST, Place::FIRST, Place::FIRST);
        let mut number = thread::block_idx_x();
        while let Some(tile) = self.tile(number) {
            // The next one: the counter's answer takes longer than to ask for a tile's copies.
            // SAFETY: the kernel's contract: there are two words.
            let next = unsafe { counters.atomic_unchecked(0) }.fetch_add(1) + thread::grid_dim_x();
            if let Some((sequence, tile)) = self.sequence(tile) {
                let of_keys = (&sequence, tile);
                let [first, tiles] = Self::key_tiles(&sequence, tile.row);
                self.fill_queries(0, of_q, of_keys);
                let place = of_k;
                if tiles > 0 {
                    self.fill(Ring::Keys, &mut of_k, of_keys, first + tiles - 1);
                }
                for consumer in 1..Self::CONSUMERS {
                    if consumer < Self::consumers() {
                        self.fill_queries(consumer, of_q, of_keys);
                    }
                }
                if tiles > 0 {
                    self.fill_bias(place, tile, first + tiles - 1);
                }
                of_q = of_q.next();
                for of_values in (first..first + tiles).rev() {
                    // Values are wanted when the next keys are, and what is added to scores when these are there.
                    let place = of_k;
                    if of_values > first {
                        self.fill(Ring::Keys, &mut of_k, of_keys, of_values - 1);
                    }
                    self.fill(Ring::Values, &mut of_v, of_keys, of_values);
                    if of_values > first {
                        self.fill_bias(place, tile, of_values - 1);
                    }
                }
            }
            number = next;
        }
        for consumer in 0..Self::consumers() {
            self.announce(consumer, of_q, None);
            self.full(Ring::Queries(consumer), of_q.stage).arrive();
        }
        // SAFETY (of all): the kernel's contract. Who comes last knows that all others have had their last tile's number.
        unsafe {
            if counters.atomic_unchecked(1).fetch_add_ordered(1) == thread::grid_dim_x() - 1 {
                counters.set_vec_unchecked(0, [0]);
                counters.set_vec_unchecked(1, [0]);
            }
        }
    }

    /// Waits until a consumer is done with a stage of its queries, and says what is to be there: the number of the head among those of all
    /// problems, the first query, and the sequence; or that there is no tile. The arrival at the barrier, which is still to come, hands it over.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn announce(&self, consumer: u32, place: Place, of: Option<(&Sequence, Tile)>) {
        self.free(Ring::Queries(consumer), place.stage).wait(place.round ^ 1);
        let at = Self::place_of_said(place.stage, consumer);
        let Some((sequence, tile)) = of else {
            // SAFETY (of all): there are as many for each consumer in each stage.
            return unsafe { self.said.set_unchecked(at, NONE) };
        };
        let head = tile.batch * self.shape.heads + tile.head;
        if !FORMS {
            return unsafe { self.said.set_vec_unchecked(at, [head, tile.row]) };
        }
        let (from, reach) = (sequence.from as u32, sequence.reach as u32);
        unsafe {
            let ahead = [head, tile.row, sequence.first_query, sequence.queries];
            self.said.set_vec_unchecked(at, ahead);
            self.said
                .set_vec_unchecked(at + 4, [sequence.first_key, sequence.keys, from, reach]);
        }
    }

    /// Has the queries of a consumer copied.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill_queries(&self, consumer: u32, place: Place, (sequence, tile): (&Sequence, Tile)) {
        self.announce(consumer, place, Some((sequence, tile)));
        let row = sequence.first_query + tile.row + consumer * CONSUMER_ROWS as u32;
        let (ring, stage) = (Ring::Queries(consumer), place.stage);
        let full = self.full(ring, stage);
        full.arrive_expect_tx(q_bytes(R) as u32);
        let at = [0, row as i32, 0, tile.head as i32, tile.batch as i32];
        // SAFETY: a box of the map is, by the kernel's contract, as large as the stage, which is at a multiple of 1024 bytes. The
        // consumer is done with it, and reads it when the barrier says that it is full. The block ends when consumers have.
        unsafe { self.q.load(self.stage(ring, stage), at, full) };
    }

    /// Has tile `number` of keys or values copied to the next stage of their ring, when the consumers are done with that.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill(&self, ring: Ring, place: &mut Place, (sequence, tile): (&Sequence, Tile), number: u32) {
        self.free(ring, place.stage).wait(place.round ^ 1);
        let full = self.full(ring, place.stage);
        full.arrive_expect_tx(k_bytes(R) as u32);
        let (map, head) = (
            if let Ring::Keys = ring { self.k } else { self.v },
            self.shape.key_head(tile.head),
        );
        let line = sequence.first_key + number * KEYS as u32;
        let at = [0, line as i32, 0, head as i32, tile.batch as i32];
        // SAFETY: as in `fill_queries`.
        unsafe { map.load(self.stage(ring, place.stage), at, full) };
        *place = place.next_of(self.key_stages());
    }
    /// Has what is added to the scores of tile `number` of keys copied for each consumer, when it is done with what was there. `of_keys` is
    /// where these keys are in their ring.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill_bias(&self, of_keys: Place, tile: Tile, number: u32) {
        if !self.has_bias() {
            return;
        }
        let place = Self::place_of_bias(of_keys);
        for consumer in 0..Self::consumers() {
            let ring = Ring::Bias(consumer);
            self.free(ring, place.stage).wait(place.round ^ 1);
            let (full, to) = (self.full(ring, place.stage), self.stage(ring, place.stage));
            full.arrive_expect_tx((KEYS / SIDE) as u32 * self.bias.bytes());
            let row = tile.row + consumer * CONSUMER_ROWS as u32;
            for of_box in 0..(KEYS / SIDE) as u32 {
                let at = [tile.batch, tile.head, row, number * KEYS as u32 + of_box * SIDE as u32];
                // SAFETY: there is a bias, the box is in the stage, and the rest is as in `fill_queries`.
                unsafe {
                    let to = to.subarray_unchecked(of_box as usize * BOX_BYTES / 2, BOX_BYTES / 2);
                    self.bias.load(to, at, full);
                }
            }
        }
    }
}
