// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adders: threads that have what the block has of a tile's queries added to the sums of all blocks, in f32, by the tensor memory accelerator.
//!
//! They do so when it is the block's turn: the blocks of a sequence's keys add to a tile one after another, the first keys first. The first one
//! stores. A word for each tile says whose turn it is: the number of the block that comes behind the last one that added. Where blocks are few, every
//! other one adds to sums of its own, of a second chain, as all begin together, and each would wait for all ahead of it.
//!
//! Waiting for a turn, adding, and saying that it is done take about as long as the consumers take for a tile, and longer where other blocks are busy with
//! memory. So there are two adders, which have every other tile.

use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMapMut};

use super::{ADDED, Block, COUNTERS, Half, Place, SUMMED, queries};

impl<T: Half, const R: usize, const FORMS: bool> Block<'_, T, R, FORMS> {
    /// Adds what the block has of queries, in turn: of each tile that is in the adder's place. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn add(&self, adder: u32, chains: u32, sums: TensorMapMut<'_, f32>, turns: SliceMut<'_, u32>) {
        let (walk, lines) = (&self.walk, queries(R) as u32);
        let tiles = self.shape.blocks(self.shape.queries, lines);
        let turn = walk.turn();
        let number = turn - turn.checked_div(chains).unwrap_or(0) * chains;
        let first = (number * self.shape.batch + walk.batch) * self.shape.heads;
        let first_to_add = walk.first_to_add(chains);
        let mut place = Place::FIRST;
        let [mut head, mut line] = walk.begin(lines);
        for _ in 0..walk.tiles() {
            if place.stage == adder {
                let tile = (first + head) * tiles + walk.number + line / lines;
                self.add_tile((place, line >= first_to_add), (tile, chains), sums, &turns);
            }
            place = place.next();
            [head, line] = walk.next([head, line], lines);
        }
    }

    /// Adds what the block has of the tile at a place of those it walks over, in turn, or stores it. It is one of all tiles of sums.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_tile(
        &self,
        (place, is_first): (Place, bool),
        (tile, chains): (u32, u32),
        sums: TensorMapMut<'_, f32>,
        turns: &SliceMut<'_, u32>,
    ) {
        let (number, own) = (self.walk.turn(), self.sums());
        // SAFETY: there is a word for each tile.
        let turn = unsafe { turns.atomic_unchecked(COUNTERS + tile as usize) };
        if !is_first {
            while turn.load_acquire() != number {
                thread::nanosleep(20);
            }
            tma::fence_async_global();
        }
        self.barrier(SUMMED + place.stage as usize).wait(place.round);
        let at = [0, 0, tile as i32];
        // SAFETY (of both): the box is the memory, at a multiple of 1024 bytes, which the consumers have written and write again when it
        // has been read.
        if is_first {
            unsafe { sums.store(at, own) };
        } else {
            unsafe { sums.add(at, own) };
        }
        tma::commit();
        tma::wait_read::<0>();
        self.barrier(ADDED).arrive();
        tma::wait::<0>();
        turn.store_release(number + chains);
    }
}
