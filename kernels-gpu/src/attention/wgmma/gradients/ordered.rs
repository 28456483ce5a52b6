// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradients of attention with respect to queries, keys and values in one kernel, which computes each product once: `10 d` operations
//! for each pair of a query and a key.
//!
//! A block has [`ROWS`] keys and values, in two consumers with [`LINES`] each, and walks over the queries that see them, tile by tile, from
//! the last to the first. As where [keys](super::attention_gradients_of_keys()) have a kernel of their own, `S = K Qᵀ` and `X = V Gᵀ`, and what is
//! made of them in registers is the left operand of `Pᵀ G` and `Dᵀ Q`, where `D = P ∘ (X − δ)`. Short keys and values wait in registers, too, as
//! otherwise shared memory would be what takes the time. `D` goes to shared memory too, for both consumers: the
//! gradient of the tile's queries is `D K`, of which each has a half. That product is made one tile later, so that consumers need not be in step.
//!
//! # The sums of queries
//!
//! What blocks have of a query is added in memory, in f32, by the tensor memory accelerator, which one thread, the adder, asks to. It does so when
//! it is the block's turn: the blocks of a head's keys add to a tile of queries one after another, the first keys first. So the bits are the same each
//! time. The first one stores. A word for each tile says whose turn it is: the number of the block that comes behind the last one that added.
//!
//! Blocks take their keys by a counter, the first keys of a head first. So a block waits only for blocks that took keys before it did, which are
//! there, whatever the order in which blocks begin. For the same reason a block takes keys only when it can work on them at once. Blocks of a head that run
//! side by side have about the same tile at a time, each a little behind the one in front of it: as a mask hides the first queries from the last
//! keys, all of them can begin with the last query.

use cuda_std::float::approximate;
use cuda_std::half::{bf16, f16};
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};
use cuda_std::warpgroup;
use cuda_std::wgmma::{Accumulator, InFlight, KMajor, MatrixDescriptor, Registers};

use super::super::consume::store_line;
use super::super::{Half, LINE, Place, dim};
use super::scores::{Known, LINES, PRODUCTS, Packed, hide, products};
use super::{CONSUMERS, ROWS, STAGES, THREADS, of_keys};
use crate::attention::{AttentionShape, Sequence};
use crate::matmul::unroll;

/// Queries of a tile: of short lines more, so that tiles are of one size.
pub const fn queries(registers: usize) -> usize {
    LINES * parts(registers)
}

/// Parts of [`LINES`] queries that a tile has.
const fn parts(registers: usize) -> usize {
    64 / registers
}

/// Whether a consumer's keys and values wait in registers: short ones.
const fn in_registers(registers: usize) -> bool {
    registers == 32
}

/// Bytes of a tile of queries, or of their gradients.
const TILE_BYTES: usize = 64 * 128 * 2;

/// Bytes of a box of 64 elements of as many lines.
const BOX_BYTES: usize = LINES * LINE;

/// Bytes of a consumer's keys, or values.
const fn own_bytes(registers: usize) -> usize {
    LINES * dim(registers) * 2
}

/// Bytes of the gradients of a tile's scores: a line for each key of the block.
const fn scores_bytes(registers: usize) -> usize {
    ROWS * queries(registers) * 2
}

/// Bytes of the gradients of a tile's queries.
const SUMS_BYTES: usize = 2 * TILE_BYTES;

/// Elements of a piece of a line of sums.
pub const PIECE: usize = LINE / 4;

/// Bytes of what is known of the queries of a tile.
const fn known_bytes(registers: usize) -> usize {
    2 * queries(registers) * 4
}

/// Where in shared memory the stages of queries begin, behind keys and values; then the gradients of scores, and what comes behind them.
const fn at_stages(registers: usize) -> usize {
    2 * CONSUMERS * own_bytes(registers)
}

const fn at_scores(registers: usize) -> usize {
    at_stages(registers) + 2 * STAGES * TILE_BYTES
}

const fn at_sums(registers: usize) -> usize {
    at_scores(registers) + STAGES * scores_bytes(registers)
}

const fn at_known(registers: usize) -> usize {
    at_sums(registers) + SUMS_BYTES
}

const fn at_barriers(registers: usize) -> usize {
    at_known(registers) + STAGES * known_bytes(registers)
}

/// Barriers: whether keys and values are there, the gradients of scores of both consumers, the gradients of queries, and room for those; whether a
/// stage is full, and free.
const BARRIERS: usize = 4 + 2 * STAGES;

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 1024. A word behind the barriers is the block's number.
pub const fn shared_bytes(registers: usize) -> usize {
    1024 + at_barriers(registers) + 8 * BARRIERS + 8
}

/// The heads of keys whose tiles are taken together, in place of what a [shape](AttentionShape::group) says: a GPU has some eight blocks of each side by
/// side then. With more of them, they would wait for one another as they begin; with fewer, each would have queries come to the cache anew.
pub const GROUP: u32 = 16;

/// Words in front of the turns: the counter.
pub const COUNTERS: usize = 1;

/// The gradients of attention with respect to `k` and `v`, and the sums that are those with respect to `q` once they are multiplied by `scale`, where
/// the gradient with respect to its result is `grad`.
///
/// # Safety
///
/// As for [`attention_gradients_of_keys`](super::attention_gradients_of_keys()), with [`shared_bytes`] of this module; sequences are not
/// packed. `sums` is a map of five axes, problems, heads, pieces of [`PIECE`] elements of a line, queries, and elements of a piece, with tiles of
/// [`queries`] of one head and the swizzle of 128 bytes. `turns` are [`COUNTERS`] words and one for each such tile, all 0. Sums of tiles of which
/// no query sees a key are left as they are.
#[kernel(T = [bf16, f16], R = [32, 64], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn attention_gradients_wgmma<T: Half, const R: usize>(
    q: TensorMap<'_, T>,
    k: TensorMap<'_, T>,
    v: TensorMap<'_, T>,
    grad: TensorMap<'_, T>,
    of_queries: &[f32],
    sums: TensorMapMut<'_, f32>,
    turns: SliceMut<'_, u32>,
    dk: SliceMut<'_, T>,
    dv: SliceMut<'_, T>,
    shape: AttentionShape,
    [factor, scale]: [f32; 2],
) where
    [f32; R]: Registers,
{
    let memory = cuda_std::shared::dynamic::<u8>().aligned::<1024>();
    let tiles = of_keys(&shape);
    // SAFETY: the kernel's contract.
    let number = unsafe { begin(memory, at_barriers(R), &turns) };
    let Some(tile) = tiles.tile(number, ROWS as u32) else {
        return;
    };
    // The first keys come first.
    let row = (tiles.blocks(shape.keys, ROWS as u32) - 1) * ROWS as u32 - tile.row;
    let sequence = shape.whole();
    let [first, end] = sequence.queries_of_tile(row, ROWS as u32);
    let first = first - first % queries(R) as u32;
    let count = if end > first {
        (end - first).div_ceil(queries(R) as u32)
    } else {
        0
    };
    let block = Block::<T, R> {
        own: [k, v],
        others: [q, grad],
        sequence,
        batch: tile.batch,
        head: tile.head,
        row,
        heads: [tile.head * shape.sharing, (tile.head + 1) * shape.sharing],
        first,
        count,
        memory,
        factor,
        known: Known::new(of_queries, &shape),
    };
    let thread = thread::thread_idx_x();
    if thread < 128 {
        warpgroup::decrease_registers::<24>();
        if thread < 32 {
            block.produce();
        } else if thread < 64 && warp::elect() {
            block.add(sums, turns, &shape);
        }
    } else {
        warpgroup::increase_registers::<240>();
        let [keys, values] = block.consume();
        let to = (tile.batch * tiles.heads + tile.head) * shape.keys;
        block.store(&keys, dk, to, scale);
        block.store(&values, dv, to, 1.0);
    }
}

/// Makes the barriers ready, and takes the block's number.
///
/// # Safety
///
/// The kernel's contract.
#[inline(always)]
unsafe fn begin(memory: Shared<u8>, at: usize, turns: &SliceMut<'_, u32>) -> u32 {
    // SAFETY (of all): the memory has room for them, and there is a counter; each phase gets as many arrivals.
    let word = unsafe { memory.subarray_unchecked(at + 8 * BARRIERS, 8) }.cast::<u32>();
    if thread::thread_idx_x() == 0 {
        let barriers = unsafe { memory.subarray_unchecked(at, 8 * BARRIERS) }.cast::<u64>();
        let init = |number: usize, arrivals: u32| unsafe { Mbarrier::at_unchecked(barriers, number) }.init(arrivals);
        let warps = 4 * CONSUMERS as u32;
        init(THERE, 1);
        init(MET, warps);
        init(SUMMED, warps);
        init(ADDED, 1);
        unroll!(2, stage => {
            // Who has tiles copied, and each lane of the warp that stores what is known of queries.
            init(FULL + stage, 1 + 32);
            init(FREE + stage, warps);
        });
        mbarrier::fence_init();
        unsafe { word.set_unchecked(0, turns.atomic_unchecked(0).fetch_add(1)) };
    }
    thread::sync_threads();
    unsafe { word.get_unchecked(0) }
}

/// The barriers: keys and values are there; ...
const THERE: usize = 0;
/// ... both consumers have stored the gradients of a tile's scores, and read those of the tile before;
const MET: usize = 1;
/// ... the gradients of a tile's queries;
const SUMMED: usize = 2;
/// ... they have been read;
const ADDED: usize = 3;
/// ... a stage has all;
const FULL: usize = 4;
/// ... nobody needs it any more.
const FREE: usize = FULL + STAGES;

/// What the threads of a block have in common.
struct Block<'a, T, const R: usize> {
    /// Of keys and values, and of queries and their gradients.
    own: [TensorMap<'a, T>; 2],
    others: [TensorMap<'a, T>; 2],
    sequence: Sequence,
    batch: u32,
    /// The head of keys, and the first of them.
    head: u32,
    row: u32,
    /// The heads of queries, from the first to behind the last; the first tile's first query, and how many tiles each head has.
    heads: [u32; 2],
    first: u32,
    count: u32,
    memory: Shared<u8>,
    factor: f32,
    known: Known<'a>,
}

/// A tile of queries, and what a consumer works with in it.
#[derive(Clone, Copy)]
struct Work<T> {
    own: [MatrixDescriptor<T, KMajor>; 2],
    /// Its number, and its first key.
    consumer: u32,
    row: u32,
    stage: u32,
    /// The first query.
    line: u32,
}

impl<T: Half, const R: usize> Block<'_, T, R>
where
    [f32; R]: Registers,
{
    #[inline(always)]
    fn barrier(&self, number: usize) -> Mbarrier {
        // SAFETY (of both): the memory has room for all barriers there; each phase gets the arrivals that `begin` says.
        let barriers = unsafe { self.memory.subarray_unchecked(at_barriers(R), 8 * BARRIERS) }.cast::<u64>();
        unsafe { Mbarrier::at_unchecked(barriers, number) }
    }

    #[inline(always)]
    fn part<U: bytemuck::Pod>(&self, at: usize, bytes: usize) -> Shared<U> {
        // SAFETY: it is in front of the barriers.
        unsafe { self.memory.subarray_unchecked(at, bytes) }.cast()
    }

    /// The memory of a consumer's keys, or values.
    #[inline(always)]
    fn own(&self, operand: usize, consumer: usize) -> Shared<T> {
        self.part((operand * CONSUMERS + consumer) * own_bytes(R), own_bytes(R))
    }

    /// The memory of a part of a tile of queries, or of their gradients, in a stage.
    #[inline(always)]
    fn tile(&self, operand: usize, stage: u32, part: usize) -> Shared<T> {
        let number = 2 * stage as usize + operand;
        self.part(at_stages(R) + number * TILE_BYTES + part * own_bytes(R), own_bytes(R))
    }

    /// The memory of the gradients of scores of a part of a tile in a stage: lines of the block's keys.
    #[inline(always)]
    fn scores(&self, stage: u32, part: usize) -> Shared<T> {
        let bytes = ROWS * LINE;
        self.part(at_scores(R) + stage as usize * scores_bytes(R) + part * bytes, bytes)
    }

    /// The memory of what is known of the queries of a stage.
    #[inline(always)]
    fn queries(&self, stage: u32) -> Shared<f32> {
        self.part(at_known(R) + stage as usize * known_bytes(R), known_bytes(R))
    }

    /// Has all tiles copied, and what is known of queries. For a warp.
    #[inline(always)]
    fn produce(&self) {
        let (leads, lane) = (thread::thread_idx_x() == 0, thread::thread_idx_x());
        if leads {
            let there = self.barrier(THERE);
            there.arrive_expect_tx((2 * CONSUMERS * own_bytes(R)) as u32);
            unroll!(2, operand => {
                unroll!(2, consumer => {
                    let line = self.row + (consumer * LINES) as u32;
                    let at = [0, line as i32, 0, self.head as i32, self.batch as i32];
                    // SAFETY: a box of the map is as large as the memory, which is at a multiple of 1024 bytes. Who reads it waits for the barrier, and
                    // nobody else writes there. The block ends when the consumers have read it.
                    unsafe { self.own[operand].load(self.own(operand, consumer), at, there) };
                });
            });
        }
        let mut place = Place::FIRST;
        for head in self.heads[0]..self.heads[1] {
            let mut line = self.first + self.count * queries(R) as u32;
            while line > self.first {
                line -= queries(R) as u32;
                let known = [0, 1, 2, 3].map(|i| match i < queries(R) as u32 / 32 {
                    true => self.known.of([self.batch, head], &self.sequence, line + lane + 32 * i),
                    false => [0.0; 2],
                });
                self.barrier(FREE + place.stage as usize).wait(place.round ^ 1);
                let full = self.barrier(FULL + place.stage as usize);
                if leads {
                    full.arrive_expect_tx(2 * TILE_BYTES as u32);
                    unroll!(2, operand => {
                        unroll!(2, part => {
                            if part < parts(R) {
                                let line = line + (part * LINES) as u32;
                                let at = [0, line as i32, 0, head as i32, self.batch as i32];
                                // SAFETY: as above, and the consumers are done with the stage.
                                unsafe { self.others[operand].load(self.tile(operand, place.stage, part), at, full) };
                            }
                        });
                    });
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
                full.arrive();
                place = place.next();
            }
        }
    }

    /// Adds the gradients of queries, in turn. For one thread.
    #[inline(always)]
    fn add(&self, sums: TensorMapMut<'_, f32>, turns: SliceMut<'_, u32>, shape: &AttentionShape) {
        let number = self.row / ROWS as u32;
        // Queries from this one on are not seen by the keys ahead of the block's.
        let end = match self.row {
            0 => 0,
            row => self.sequence.queries_of_tile(row - ROWS as u32, ROWS as u32)[1],
        };
        let tiles = shape.queries.div_ceil(queries(R) as u32);
        let mut round = 0;
        let from = self.part::<f32>(at_sums(R), SUMS_BYTES);
        for head in self.heads[0]..self.heads[1] {
            let mut line = self.first + self.count * queries(R) as u32;
            while line > self.first {
                line -= queries(R) as u32;
                let is_first = line >= end;
                let turn = (self.batch * shape.heads + head) * tiles + line / queries(R) as u32;
                // SAFETY: there is a word for each tile.
                let turn = unsafe { turns.atomic_unchecked(COUNTERS + turn as usize) };
                if !is_first {
                    while turn.load_acquire() != number {
                        thread::nanosleep(20);
                    }
                    tma::fence_async_global();
                }
                self.barrier(SUMMED).wait(round);
                let at = [0, line as i32, 0, head as i32, self.batch as i32];
                // SAFETY (of both): the box is the memory, at a multiple of 1024 bytes, which the consumers have written and write again when it
                // has been read.
                if is_first {
                    unsafe { sums.store(at, from) };
                } else {
                    unsafe { sums.add(at, from) };
                }
                tma::commit();
                tma::wait_read::<0>();
                self.barrier(ADDED).arrive();
                tma::wait::<0>();
                turn.store_release(number + 1);
                round ^= 1;
            }
        }
    }

    /// The sums of this consumer's keys and values.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume(&self) -> [Accumulator<R>; 2] {
        let consumer = warp::uniform(thread::thread_idx_x() / 128) - 1;
        let mut sums = [Accumulator::zero(), Accumulator::zero()];
        let all = self.count * (self.heads[1] - self.heads[0]);
        // Also where nobody sees them: the block does not end before copies to its memory have.
        self.barrier(THERE).wait(0);
        if all == 0 {
            return sums;
        }
        let last = self.first + (self.count - 1) * queries(R) as u32;
        let mut work = Work {
            own: [0, 1].map(|operand| MatrixDescriptor::new(self.own(operand, consumer as usize), 16, 1024)),
            consumer,
            row: self.row + consumer * LINES as u32,
            stage: 0,
            line: last,
        };
        let mut place = Place::FIRST;
        let fragments = [0, 1].map(|operand| match in_registers(R) {
            // SAFETY: keys and values are there, 64 lines of 128 bytes of a consumer's.
            true => unsafe { Packed::load(self.own(operand, consumer as usize)) },
            false => Packed::any(),
        });
        self.barrier(FULL).wait(0);
        sums = self.step::<true>(&work, &fragments, sums);
        for _ in 1..all {
            place = place.next();
            work.stage = place.stage;
            work.line = if work.line == self.first {
                last
            } else {
                work.line - queries(R) as u32
            };
            self.barrier(FULL + place.stage as usize).wait(place.round);
            sums = self.step::<false>(&work, &fragments, sums);
        }
        self.barrier(MET).wait(place.stage);
        let of_queries = self.of_queries(place.stage, consumer).wait();
        self.hand_over(&of_queries, consumer, place.stage);
        sums
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
            self.barrier(SUMMED).arrive_if(leads);
        }
        self.barrier(FREE + work.stage as usize).arrive_if(leads);
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
        let stage = work.stage;
        let tile = |operand| self.tile(operand, stage, part);
        let weights = self.products(work, fragments, 0, tile(0));
        let scores = self.products(work, fragments, 1, tile(1));
        // SAFETY: the newest batch is the other one.
        let mut weights = unsafe { weights.wait_beside_newer() };
        let line = work.line + (part * LINES) as u32;
        hide::<false>(&mut weights, &self.sequence, (work.row, line), f32::NEG_INFINITY);
        let known = self.queries(stage);
        let lane = thread::thread_idx_x() as usize % 4 * 2;
        let of_column = |plane: usize, i: usize| {
            // SAFETY: there are as many.
            unsafe { known.get_unchecked(plane * queries(R) + part * LINES + lane + i / 4 * 8 + i % 2) }
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
            self.put_sums(&of_queries, work.consumer, stage);
            return [of_scores, of_weights];
        }
        // SAFETY: the newest batch is the other one.
        let of_weights = unsafe { by_weights.wait_beside_newer() };
        packed_weights.keep();
        let of_scores = by_scores.wait();
        packed.keep();
        [of_scores, of_weights]
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
    fn put_sums(&self, sums: &Accumulator<PRODUCTS>, consumer: u32, stage: u32) {
        self.barrier(ADDED).wait(stage);
        let thread = thread::thread_idx_x();
        let (row, eighth) = (thread / 32 % 4 * 16 + thread % 32 / 4, thread % 32 / 4);
        let to = self.part::<f32>(at_sums(R), SUMS_BYTES);
        // Pieces of a line are one behind another, each of all queries.
        let of_piece = queries(R) * PIECE;
        let begin = match parts(R) {
            1 => consumer as usize * 2 * of_piece,
            _ => consumer as usize * LINES * PIECE,
        };
        unroll!(8, j => {
            unroll!(2, half => {
                let at = (row as usize + 8 * half) * PIECE;
                let within = ((2 * (j as u32 % 4) + thread % 4 / 2) ^ eighth) * 4 + thread % 2 * 2;
                let pair = [sums.element(4 * j + 2 * half), sums.element(4 * j + 2 * half + 1)];
                // SAFETY: within the tile, at a multiple of 8 bytes.
                unsafe { to.set_vec_unchecked(begin + j / 4 * of_piece + at + within as usize, pair) };
            });
        });
    }

    /// Stores the last of them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn hand_over(&self, sums: &Accumulator<PRODUCTS>, consumer: u32, stage: u32) {
        self.put_sums(sums, consumer, stage ^ 1);
        tma::fence_async();
        warp::sync_warp(warp::FULL_MASK);
        self.barrier(SUMMED)
            .arrive_if(thread::thread_idx_x().is_multiple_of(32));
    }

    /// Stores the sums, times `factor`, from a line on, which is that of the head's first key.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store(&self, sums: &Accumulator<R>, out: SliceMut<'_, T>, first: u32, factor: f32) {
        let consumer = thread::thread_idx_x() / 128 - 1;
        let row = self.row + consumer * LINES as u32 + Accumulator::<R>::place(thread::thread_idx_x(), 0).0;
        unroll!(2, half => {
            let row = row + 8 * half as u32;
            let line = (row < self.sequence.keys).then_some(first as usize + row as usize);
            // SAFETY: the line is in `out`, by the kernel's contract.
            unsafe { store_line(sums, half, &out, line, |sum| sum * factor) };
        });
    }
}
