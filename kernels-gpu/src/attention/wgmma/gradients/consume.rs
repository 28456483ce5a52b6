// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumers: two warpgroups that compute.

use cuda_std::float::approximate;
use cuda_std::hint;
use cuda_std::prelude::*;
use cuda_std::tma;
use cuda_std::wgmma::{Accumulator, InFlight, KMajor, MatrixDescriptor, Registers};

use super::super::consume::store_line;
use super::scores::{LINES, PRODUCTS, Packed, hide, products};
use super::{
    ADDED, BIAS_FREE, BIAS_FULL, Block, CONSUMERS, FOURS, FREE, FULL, Half, LINE, MET, Place, ROWS, SUMMED, THERE,
    in_registers, own_bytes, parts, queries,
};
use crate::matmul::unroll;

/// Bytes of a box of 64 elements of as many lines.
const BOX_BYTES: usize = LINES * LINE;

/// A tile of queries, and what a consumer works with in it.
#[derive(Clone, Copy)]
struct Work<T> {
    own: [MatrixDescriptor<T, KMajor>; 2],
    /// Its number, and its first key.
    consumer: u32,
    row: u32,
    /// Where the tile is.
    place: Place,
    /// The first query.
    line: u32,
}

impl<T: Half, const R: usize, const FORMS: bool> Block<'_, T, R, FORMS>
where
    [f32; R]: Registers,
{
    /// The sums of this consumer's keys and values.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn consume(&self) -> [Accumulator<R>; 2] {
        let walk = &self.walk;
        let consumer = warp::uniform(thread::thread_idx_x() / 128) - 1;
        let mut sums = [Accumulator::zero(), Accumulator::zero()];
        // Also where nobody sees them: the block does not end before copies to its memory have.
        self.barrier(THERE).wait(0);
        if walk.tiles() == 0 {
            return sums;
        }
        if FORMS && walk.sequence.keys - walk.row < ROWS as u32 {
            self.clear_own();
        }
        let [mut head, line] = walk.begin(queries(R) as u32);
        let mut work = Work {
            own: cuda_std::array::map([0, 1], |operand| {
                MatrixDescriptor::new(self.own(operand, consumer as usize), 16, 1024)
            }),
            consumer,
            row: walk.row + consumer * LINES as u32,
            place: Place::FIRST,
            line,
        };
        let fragments = [0, 1].map(|operand| match in_registers(R) {
            // SAFETY: keys and values are there, 64 lines of 128 bytes of a consumer's.
            true => unsafe { Packed::load(self.own(operand, consumer as usize)) },
            false => Packed::any(),
        });
        if in_registers(R) && self.has_bias() {
            // Where values were, there is a stage of the bias now.
            self.arrive_behind_reads(BIAS_FREE + 1);
        }
        self.wait_for_tile(&work);
        sums = self.step::<true>(&work, &fragments, sums);
        for _ in 1..walk.tiles() {
            work.place = work.place.next();
            [head, work.line] = walk.next([head, work.line], queries(R) as u32);
            self.wait_for_tile(&work);
            sums = self.step::<false>(&work, &fragments, sums);
        }
        let stage = work.place.stage;
        self.barrier(MET).wait(stage);
        let of_queries = self.of_queries(stage, consumer).wait();
        self.hand_over(&of_queries, stage);
        sums
    }

    /// Waits until a tile is there, and makes its lines behind the sequence zeros.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn wait_for_tile(&self, work: &Work<T>) {
        let stage = work.place.stage;
        self.barrier(FULL + stage as usize).wait(work.place.round);
        let left = self.walk.sequence.queries - work.line;
        if FORMS && left < queries(R) as u32 {
            unroll!(2, operand => {
                unroll!(2, part => {
                    if part < parts(R) {
                        clear::<T, R>(self.tile(operand, stage, part), left.saturating_sub((part * LINES) as u32));
                    }
                });
            });
            have_cleared();
        }
    }

    /// Makes lines of keys and values that are behind the sequence zeros.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn clear_own(&self) {
        let left = self.walk.sequence.keys - self.walk.row;
        unroll!(2, operand => {
            unroll!(2, consumer => {
                clear::<T, R>(self.own(operand, consumer), left.saturating_sub((consumer * LINES) as u32));
            });
        });
        have_cleared();
    }

    /// Arrives at a barrier, as each thread does, and lets copies fill what it has read.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn arrive_behind_reads(&self, barrier: usize) {
        tma::fence_async();
        self.barrier(barrier).arrive();
    }

    /// Adds what a tile, which is there, adds to the sums, and hands over the gradients of the queries of the tile before, if it is not the first.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn step<const IS_FIRST: bool>(
        &self,
        work: &Work<T>,
        fragments: &[Packed<T>; 2],
        mut sums: [Accumulator<R>; 2],
    ) -> [Accumulator<R>; 2] {
        unroll!(2, part => {
            if part < parts(R) {
                sums = self.part_step::<IS_FIRST>(work, fragments, part, sums);
            }
        });
        tma::fence_async();
        warp::sync_warp(warp::FULL_MASK);
        let leads = thread::thread_idx_x().is_multiple_of(32);
        self.barrier(MET).arrive_if(leads);
        if !IS_FIRST {
            self.barrier(SUMMED + (work.place.stage ^ 1) as usize).arrive_if(leads);
        }
        self.barrier(FREE + work.place.stage as usize).arrive();
        sums
    }

    /// As [`step`](Self::step), of a part of a tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn part_step<const IS_FIRST: bool>(
        &self,
        work: &Work<T>,
        fragments: &[Packed<T>; 2],
        part: usize,
        [of_scores, of_weights]: [Accumulator<R>; 2],
    ) -> [Accumulator<R>; 2] {
        let stage = work.place.stage;
        let tile = |operand| self.tile(operand, stage, part);
        let weights = self.products(work, fragments, 0, tile(0));
        let scores = self.products(work, fragments, 1, tile(1));
        // SAFETY: the newest batch is the other one.
        let mut weights = unsafe { weights.wait_beside_newer() };
        if self.has_bias() {
            self.add_bias(&mut weights, work, part);
        }
        let line = work.line + (part * LINES) as u32;
        hide::<false>(&mut weights, &self.walk.sequence, (work.row, line), f32::NEG_INFINITY);
        let known = self.queries(stage);
        let lane = thread::thread_idx_x() as usize % 4 * 2;
        let of_column = |plane: usize, i: usize| {
            // SAFETY: there are as many, at multiples of 8 bytes.
            let pair: [f32; 2] =
                unsafe { known.get_vec_unchecked(plane * queries(R) + part * LINES + lane + i / 4 * 8) };
            pair[i % 2]
        };
        weights.update(|i, score| approximate::exp2(Float::mul_add(score, self.factor, -of_column(0, i))));
        let packed_weights = Packed::new(&weights);
        let mut scores = scores.wait();
        if in_registers(R) {
            fragments[0].keep();
            fragments[1].keep();
        }
        // SAFETY: the tile is there, and stays until it is free, behind the wait.
        let by_weights = unsafe { packed_weights.add_to(of_weights, tile(1)) };
        scores.update(|i, product| weights.element(i) * (product - of_column(1, i)));
        let packed = Packed::new(&scores);
        if !IS_FIRST && part == 0 {
            // The tile before has been read by both.
            self.barrier(MET).wait(stage ^ 1);
        }
        // SAFETY: the box has a line for each key, and nobody reads these before both consumers have met.
        unsafe { packed.store(self.scores(stage, part), work.consumer * LINES as u32) };
        // SAFETY: as above.
        let by_scores = unsafe { packed.add_to(of_scores, tile(0)) };
        if !IS_FIRST && part + 1 == parts(R) {
            let of_queries = self.of_queries(stage ^ 1, work.consumer);
            // SAFETY (of both): the newest batch is another one.
            let of_weights = unsafe { by_weights.wait_beside_newer() };
            packed_weights.keep();
            let of_scores = unsafe { by_scores.wait_beside_newer() };
            packed.keep();
            let of_queries = of_queries.wait();
            self.put_sums(&of_queries, stage);
            return [of_scores, of_weights];
        }
        // SAFETY: the newest batch is the other one.
        let of_weights = unsafe { by_weights.wait_beside_newer() };
        packed_weights.keep();
        let of_scores = by_scores.wait();
        packed.keep();
        [of_scores, of_weights]
    }

    /// Adds the bias to the scores of a part of a tile, when it is there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_bias(&self, scores: &mut Accumulator<PRODUCTS>, work: &Work<T>, part: usize) {
        let Place { stage, round } = Self::place_of_bias(work.place, part);
        self.barrier(BIAS_FULL + stage as usize).wait(round);
        // SAFETY: there is one, and the consumer's box came to the stage.
        unsafe {
            self.bias
                .add::<PRODUCTS, false>(self.of_bias(stage, work.consumer as usize), scores);
        }
        self.arrive_behind_reads(BIAS_FREE + stage as usize);
    }

    /// Has the products of a consumer's keys, or values, and the lines of a part of a tile computed.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn products(
        &self,
        work: &Work<T>,
        fragments: &[Packed<T>; 2],
        operand: usize,
        tile: Shared<T>,
    ) -> InFlight<PRODUCTS> {
        // SAFETY (of both): the tile stays until it is free, and the consumer's own lines to the end. Fragments are kept.
        match in_registers(R) {
            true => unsafe { fragments[operand].products(tile) },
            false => unsafe { products::<T, R>(work.own[operand], tile, LINES) },
        }
    }

    /// Has this consumer's half of the gradients of the queries of a tile computed, whose gradients of scores are in a stage: of half of their
    /// elements, or of half of them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_queries(&self, stage: u32, consumer: u32) -> InFlight<PRODUCTS> {
        // Anew each time, as there are no registers in which descriptors could wait.
        let consumer = hint::pinned(consumer);
        let (of_part, of_box) = match parts(R) {
            1 => (0, consumer),
            _ => (consumer, 0),
        };
        let scores = MatrixDescriptor::<T, T::AlongLines>::new(self.scores(stage, 0), BOX_BYTES as u32, 1024);
        let keys = MatrixDescriptor::<T, T::AlongLines>::new(self.own(0, 0), BOX_BYTES as u32, 1024);
        let scores = scores.advance(of_part * (ROWS * LINE) as u32);
        let keys = keys.advance(of_box * BOX_BYTES as u32);
        let mut batch = Accumulator::<PRODUCTS>::any().start();
        unroll!(8, step => {
            let a = scores.advance((step * 16 * LINE) as u32);
            let b = keys.advance((step / 4 * own_bytes(R) + step % 4 * 16 * LINE) as u32);
            // SAFETY (of both): both consumers have stored the gradients of scores, which stay until both have met again; keys stay to the end.
            batch = match step {
                0 => unsafe { batch.mma_from_zero(a, b) },
                _ => unsafe { batch.mma(a, b) },
            };
        });
        batch.commit()
    }

    /// Stores this consumer's half of the gradients of queries, when there is room.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn put_sums(&self, sums: &Accumulator<PRODUCTS>, stage: u32) {
        self.barrier(ADDED).wait(stage);
        let to = self.sums();
        let first = 4 * (thread::thread_idx_x() as usize - 128);
        unroll!(8, j => {
            let four = cuda_std::array::map([0, 1, 2, 3], |i| sums.element(4 * j + i));
            // SAFETY: within the tile, at a multiple of 16 bytes.
            unsafe { to.set_vec_unchecked(j * FOURS + first, four) };
        });
    }

    /// Stores the last of them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn hand_over(&self, sums: &Accumulator<PRODUCTS>, stage: u32) {
        self.put_sums(sums, stage ^ 1);
        tma::fence_async();
        warp::sync_warp(warp::FULL_MASK);
        self.barrier(SUMMED + stage as usize)
            .arrive_if(thread::thread_idx_x().is_multiple_of(32));
    }

    /// Stores the sums, times `factor`, as those of the block's keys: 0 of keys that are of no sequence.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store(&self, sums: &Accumulator<R>, out: SliceMut<'_, T>, factor: f32) {
        let (walk, shape) = (&self.walk, &self.shape);
        let sequence = &walk.sequence;
        let consumer = thread::thread_idx_x() / 128 - 1;
        let row = walk.row + consumer * LINES as u32 + Accumulator::<R>::place(thread::thread_idx_x(), 0).0;
        let head = walk.batch * shape.key_head(shape.heads) + walk.head;
        let first = head as usize * shape.keys as usize + sequence.first_key as usize;
        // Behind those of a packed one are the next one's.
        let end = if shape.packed > 0 { sequence.keys } else { shape.keys };
        unroll!(2, half => {
            let row = row + 8 * half as u32;
            let line = (row < end).then_some(first + row as usize);
            let is_seen = !FORMS || row < sequence.keys;
            // SAFETY: the line is in `out`, by the kernel's contract.
            unsafe { store_line(sums, half, &out, line, |sum| if is_seen { sum * factor } else { 0.0 }) };
        });
    }
}

/// Makes the lines of a tile of [`LINES`] zeros but for the first ones, so many. For all consumers; nothing of theirs is under way.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn clear<T: Half, const R: usize>(tile: Shared<T>, lines: u32) {
    // Pieces of 16 bytes of a box, of which swizzling leaves those of a line in it.
    let pieces = LINE / 16;
    let tile = tile.cast::<u32>();
    // No loop, after which ptxas would not know that all lanes are together again.
    unroll!(2, i => {
        const { assert!(LINES * LINE / 16 == 2 * CONSUMERS * 128) };
        let piece = thread::thread_idx_x() as usize - 128 + i * CONSUMERS * 128;
        unroll!(2, of_box => {
            if of_box < R / 32 && piece >= lines as usize * pieces {
                // SAFETY: within the tile, at a multiple of 16 bytes.
                unsafe { tile.set_vec_unchecked((of_box * LINES * pieces + piece) * 4, [0u32; 4]) };
            }
        });
    });
}

/// Lets all consumers see what each has made zeros.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn have_cleared() {
    tma::fence_async();
    thread::sync_threads_named::<1, { 128 * CONSUMERS as u32 }>();
}
