// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of attention on Hopper's tensor cores, of numbers of 16 bits, with head dimensions of 64 and 128.
//!
//! What is computed is what [`tiled::gradients`](crate::attention::tiled::gradients) says. The kernel for operands alone, with a mask or without, is
//! [`ordered`]. Those of this module have a bias, lengths of keys and packed sequences, too, and compute by blocks of the same kind as the tiled one: one has
//! lines of keys and values, or of queries, and walks over all that their gradients are summed over. Two operands belong to a line: a
//! query and its incoming gradient, or a key and its value. The first ones are multiplied for the scores, the second ones for the gradients of the
//! weights, whoever is the block's.
//!
//! One thread, the producer, has tiles of [`LINES`] lines of both operands copied to a ring. Two warpgroups, the consumers, have as many lines
//! each of the block's own. `S = A Cᵀ` and `X = B Dᵀ` by `wgmma`; the weights `P` and the gradients of the scores
//! `P ∘ (X − δ)` are made in the registers that those were in, and are the left operands of the next products, with `C` and `D` as they
//! lie. So nothing that is computed goes through shared memory, and consumers do not wait for one another.
//!
//! Lines of a tile that are of the next sequence are set to 0 by the consumers, as those behind the last one are by the copies. A
//! [bias](super::bias) comes to the ring with the tile whose scores it is added to: a box for each consumer.
//!
//! Nobody adds to what another adds to: the bits are the same each time. For that, the first two products are computed twice, by the blocks of
//! keys and by those of queries: `14 d` operations for each pair, where `10 d` is the least.

use cuda_std::float::approximate;
use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap};
use cuda_std::warpgroup;
use cuda_std::wgmma::{Accumulator, KMajor, MatrixDescriptor, Registers};

use self::scores::{Known, PRODUCTS, Packed, hide, products};
use super::bias::{BOX_BYTES, Bias, BiasAxes};
use super::consume::store_line;
use super::{Half, LINE, Place, dim};
use crate::attention::{AttentionShape, Lines, Sequence};
use crate::matmul::unroll;

pub mod bias;
pub mod ordered;
mod scores;

pub use scores::LINES;

const CONSUMERS: usize = 2;

/// Lines of a block.
pub const ROWS: usize = LINES * CONSUMERS;

/// Threads of a block.
pub const THREADS: usize = 128 * (1 + CONSUMERS);

/// Stages of the ring.
const STAGES: usize = 2;

/// Bytes of a tile of an operand.
const fn tile_bytes(registers: usize) -> usize {
    LINES * dim(registers) * 2
}

/// What is known of each query of a tile: the logarithm of its sum of exponentials, and the product of its result and gradient.
const QUERIES_BYTES: usize = 2 * LINES * 4;

/// Bytes of the tiles: of both operands, of the consumers, then of the stages.
const fn tiles_bytes(registers: usize) -> usize {
    2 * (CONSUMERS + STAGES) * tile_bytes(registers)
}

/// Barriers: whether each consumer's own lines are there, and whether a stage is full, and free.
const BARRIERS: usize = CONSUMERS + 2 * STAGES;

/// Bytes in front of the bias.
const fn plain_bytes(registers: usize) -> usize {
    (tiles_bytes(registers) + STAGES * QUERIES_BYTES + 8 * BARRIERS).next_multiple_of(1024)
}

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 1024.
pub const fn shared_bytes(registers: usize, has_bias: bool) -> usize {
    let of_bias = STAGES * CONSUMERS * BOX_BYTES;
    1024 + plain_bytes(registers) + if has_bias { of_bias } else { 0 }
}

/// The shape in which keys take the place of queries: for the order of their tiles.
#[inline(always)]
pub fn of_keys(shape: &AttentionShape) -> AttentionShape {
    let group = shape.group.checked_div(shape.sharing).unwrap_or(1);
    AttentionShape {
        heads: shape.key_head(shape.heads),
        sharing: 1,
        queries: shape.keys,
        group: if group == 0 { 1 } else { group },
        ..*shape
    }
}

/// The gradients of attention with respect to `k` and `v`, where the gradient with respect to its result is `grad`.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis, with a block for each tile of
/// [`ROWS`] keys. The shape, and [`of_keys`] of it, are valid for tiles of 64 lines; there are keys, and [`dim`] elements a line. Scores are
/// multiplied by `factor`, a positive number, to be exponents of 2, and by `scale` to be those of e. The maps of operands have five axes, as
/// those of [`attention_wgmma`](super::attention_wgmma()), and tiles of [`LINES`] lines. `of_queries` has for each query the logarithm to base 2
/// of its sum of exponentials, or ∞ if it sees no key, and the product of its result and its gradient: the axes are these two, problems, heads and
/// queries. The results begin at multiples of 16 bytes and have the heads one after
/// another, each in C order. `sequences` and the bias are as there, and so is `of_bias`.
#[kernel(T = [bf16, f16], R = [32, 64], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn attention_gradients_of_keys<T: Half, const R: usize>(
    q: TensorMap<'_, T>,
    k: TensorMap<'_, T>,
    v: TensorMap<'_, T>,
    grad: TensorMap<'_, T>,
    of_queries: &[f32],
    bias: TensorMap<'_, T>,
    sequences: &[u32],
    dk: SliceMut<'_, T>,
    dv: SliceMut<'_, T>,
    shape: AttentionShape,
    bias_axes: BiasAxes,
    [factor, scale, of_bias]: [f32; 3],
) where
    [f32; R]: Registers,
{
    let tiles = of_keys(&shape);
    let Some(tile) = tiles.tile(thread::block_idx_x(), ROWS as u32) else {
        return;
    };
    // The first keys are seen by most: theirs are to be the first tiles.
    let row = (tiles.blocks(shape.keys, ROWS as u32) - 1) * ROWS as u32 - tile.row;
    // SAFETY: the kernel's contract.
    let found = unsafe { sequence(&shape, sequences, Lines::Keys, tile.batch, row) };
    let Some((sequence, row)) = found else {
        return;
    };
    let block = Block::<T, R, false> {
        own: [k, v],
        others: [q, grad],
        shape,
        sequence,
        batch: tile.batch,
        head: tile.head,
        row,
        heads: [tile.head * shape.sharing, (tile.head + 1) * shape.sharing],
        lines: sequence.queries_of_tile(row, ROWS as u32),
        memory: cuda_std::shared::dynamic::<u8>().aligned::<1024>(),
        factor,
        known: Known::new(of_queries, &shape),
        bias: Bias {
            map: bias,
            axes: bias_axes,
            factor: of_bias,
        },
    };
    // SAFETY: the kernel's contract.
    unsafe { block.make_barriers() };
    if thread::thread_idx_x() < 128 {
        warpgroup::decrease_registers::<24>();
        if thread::thread_idx_x() < 32 {
            block.produce();
        }
    } else {
        warpgroup::increase_registers::<240>();
        let [keys, values] = block.consume();
        block.store(&keys, dk, (tiles.heads, shape.keys), scale);
        block.store(&values, dv, (tiles.heads, shape.keys), 1.0);
    }
}

/// The sequence of a block's lines, and the first of them in it, where `row` is the first one of the block among those of its head.
///
/// # Safety
///
/// [`fits_sequences`](AttentionShape::fits_sequences).
#[inline(always)]
unsafe fn sequence(
    shape: &AttentionShape,
    sequences: &[u32],
    of: Lines,
    batch: u32,
    row: u32,
) -> Option<(Sequence, u32)> {
    // SAFETY: the caller's promise.
    unsafe { shape.sequence(sequences, of, batch, (row, ROWS as u32)) }
}

/// The gradient of attention with respect to `q`, where the gradient with respect to its result is `grad`.
///
/// # Safety
///
/// As for `attention_gradients_of_keys`, with a block for each tile of [`ROWS`] queries.
#[kernel(T = [bf16, f16], R = [32, 64], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn attention_gradients_of_queries<T: Half, const R: usize>(
    q: TensorMap<'_, T>,
    k: TensorMap<'_, T>,
    v: TensorMap<'_, T>,
    grad: TensorMap<'_, T>,
    of_queries: &[f32],
    bias: TensorMap<'_, T>,
    sequences: &[u32],
    dq: SliceMut<'_, T>,
    shape: AttentionShape,
    bias_axes: BiasAxes,
    [factor, scale, of_bias]: [f32; 3],
) where
    [f32; R]: Registers,
{
    let Some(tile) = shape.tile(thread::block_idx_x(), ROWS as u32) else {
        return;
    };
    // SAFETY: the kernel's contract.
    let found = unsafe { sequence(&shape, sequences, Lines::Queries, tile.batch, tile.row) };
    let Some((sequence, row)) = found else {
        return;
    };
    let key_head = shape.key_head(tile.head);
    let block = Block::<T, R, true> {
        own: [q, grad],
        others: [k, v],
        shape,
        sequence,
        batch: tile.batch,
        head: tile.head,
        row,
        heads: [key_head, key_head + 1],
        lines: sequence.keys_of_tile(row, ROWS as u32),
        memory: cuda_std::shared::dynamic::<u8>().aligned::<1024>(),
        factor,
        known: Known::new(of_queries, &shape),
        bias: Bias {
            map: bias,
            axes: bias_axes,
            factor: of_bias,
        },
    };
    // SAFETY: the kernel's contract.
    unsafe { block.make_barriers() };
    if thread::thread_idx_x() < 128 {
        warpgroup::decrease_registers::<24>();
        if thread::thread_idx_x() < 32 && warp::elect() {
            block.produce();
        }
    } else {
        warpgroup::increase_registers::<240>();
        let [sums, _] = block.consume();
        block.store(&sums, dq, (shape.heads, shape.queries), scale);
    }
}

/// What the threads of a block have in common. Its own lines are queries, or keys.
struct Block<'a, T, const R: usize, const OF_QUERIES: bool> {
    own: [TensorMap<'a, T>; 2],
    others: [TensorMap<'a, T>; 2],
    shape: AttentionShape,
    sequence: Sequence,
    batch: u32,
    /// The head of its own lines, and the first of these in the sequence.
    head: u32,
    row: u32,
    /// The heads of the others, from the first to behind the last, and the lines of each.
    heads: [u32; 2],
    lines: [u32; 2],
    memory: Shared<u8>,
    factor: f32,
    known: Known<'a>,
    bias: Bias<'a, T>,
}

impl<T: Half, const R: usize, const OF_QUERIES: bool> Block<'_, T, R, OF_QUERIES>
where
    [f32; R]: Registers,
{
    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[inline(always)]
    unsafe fn make_barriers(&self) {
        if thread::thread_idx_x() == 0 {
            for consumer in 0..CONSUMERS as u32 {
                self.there(consumer).init(1);
            }
            for stage in 0..STAGES as u32 {
                // Who has tiles copied, and each lane of the warp that stores what is known of queries.
                self.full(stage).init(if OF_QUERIES { 1 } else { 1 + 32 });
                // Each warp for itself: it reads what is known of queries by ordinary loads.
                self.free(stage).init(4 * CONSUMERS as u32);
            }
            mbarrier::fence_init();
        }
        thread::sync_threads();
    }

    #[inline(always)]
    fn barrier(&self, number: u32) -> Mbarrier {
        let at = tiles_bytes(R) + STAGES * QUERIES_BYTES;
        // SAFETY (of both): the memory has as many bytes, behind which there is room for all barriers; each phase gets the arrivals that
        // `make_barriers` says.
        let barriers = unsafe { self.memory.subarray_unchecked(at, 8 * BARRIERS) }.cast::<u64>();
        unsafe { Mbarrier::at_unchecked(barriers, number as usize) }
    }

    /// The barrier that the copies of a consumer's own lines complete.
    #[inline(always)]
    fn there(&self, consumer: u32) -> Mbarrier {
        self.barrier(consumer)
    }

    /// The barrier that is completed when a stage has all.
    #[inline(always)]
    fn full(&self, stage: u32) -> Mbarrier {
        self.barrier(CONSUMERS as u32 + 2 * stage)
    }

    /// The barrier at which those arrive who are done with a stage.
    #[inline(always)]
    fn free(&self, stage: u32) -> Mbarrier {
        self.barrier(CONSUMERS as u32 + 2 * stage + 1)
    }

    /// The memory of a tile of an operand: number 0 and 1 are the consumers' own, then come the stages.
    #[inline(always)]
    fn tile(&self, operand: usize, number: u32) -> Shared<T> {
        let at = (2 * number as usize + operand) * tile_bytes(R);
        // SAFETY: it is among the tiles.
        unsafe { self.memory.subarray_unchecked(at, tile_bytes(R)) }.cast()
    }

    /// The memory of what is known of the queries of a stage.
    #[inline(always)]
    fn queries(&self, stage: u32) -> Shared<f32> {
        let at = tiles_bytes(R) + stage as usize * QUERIES_BYTES;
        // SAFETY: it is behind the tiles.
        unsafe { self.memory.subarray_unchecked(at, QUERIES_BYTES) }.cast()
    }

    /// The memory of what is added to a consumer's scores in a stage.
    #[inline(always)]
    fn of_bias(&self, consumer: u32, stage: u32) -> Shared<T> {
        let number = CONSUMERS * stage as usize + consumer as usize;
        // SAFETY: it is behind all else, where there is a bias.
        unsafe {
            self.memory
                .subarray_unchecked(plain_bytes(R) + number * BOX_BYTES, BOX_BYTES)
        }
        .cast()
    }

    /// Whether something is added to scores. It is asked anew each time, so that there is one loop.
    #[inline(always)]
    fn has_bias(&self) -> bool {
        hint::pinned(self.bias.axes.is_there) != 0
    }

    /// The first line of the block's sequence among its own, and among the others.
    #[inline(always)]
    fn first_lines(&self) -> [u32; 2] {
        let Sequence {
            first_query, first_key, ..
        } = self.sequence;
        if OF_QUERIES {
            [first_query, first_key]
        } else {
            [first_key, first_query]
        }
    }

    /// Has all tiles copied, and what is known of the others, if they are queries. For one thread, or then for a warp.
    #[inline(always)]
    fn produce(&self) {
        let leads = OF_QUERIES || thread::thread_idx_x() == 0;
        let copy = |maps: &[TensorMap<'_, T>; 2], number: u32, head: u32, line: u32, barrier: Mbarrier| {
            let at = [0, line as i32, 0, head as i32, self.batch as i32];
            // SAFETY (of both): a box of the maps is, by the kernel's contract, as large as the tile, which is at a multiple of 1024 bytes.
            // Consumers are done with it, and read it when the barrier says so. The block ends when they have.
            unsafe {
                maps[0].load(self.tile(0, number), at, barrier);
                maps[1].load(self.tile(1, number), at, barrier);
            }
        };
        let [own, others] = self.first_lines();
        for consumer in 0..CONSUMERS as u32 {
            if leads {
                let there = self.there(consumer);
                there.arrive_expect_tx(2 * tile_bytes(R) as u32);
                let line = own + self.row + consumer * LINES as u32;
                copy(&self.own, consumer, self.head, line, there);
            }
        }
        let mut place = Place::FIRST;
        for head in self.heads[0]..self.heads[1] {
            let mut line = self.lines[0];
            while line < self.lines[1] {
                let query = line + thread::thread_idx_x() % 32;
                let known = [0, 32].map(|more| match OF_QUERIES {
                    true => [0.0; 2],
                    false => self.known.of([self.batch, head], &self.sequence, query + more),
                });
                self.free(place.stage).wait(place.round ^ 1);
                if leads {
                    let full = self.full(place.stage);
                    let of_bias = if self.has_bias() {
                        CONSUMERS as u32 * self.bias.bytes()
                    } else {
                        0
                    };
                    full.arrive_expect_tx(2 * tile_bytes(R) as u32 + of_bias);
                    copy(&self.others, CONSUMERS as u32 + place.stage, head, others + line, full);
                    if of_bias > 0 {
                        self.copy_bias(place.stage, head, line, full);
                    }
                }
                if !OF_QUERIES {
                    let (to, lane) = (self.queries(place.stage), thread::thread_idx_x() as usize);
                    unroll!(4, i => {
                        // SAFETY: there are four for each lane: two logarithms, then two products.
                        unsafe { to.set_unchecked(32 * i + lane, known[i % 2][i / 2]) };
                    });
                    self.full(place.stage).arrive();
                }
                place = place.next();
                line += LINES as u32;
            }
        }
    }

    /// Has what is added to the scores of a tile copied, for both consumers: of the others' lines from `line` on. For one thread.
    #[inline(always)]
    fn copy_bias(&self, stage: u32, head: u32, line: u32, full: Mbarrier) {
        for consumer in 0..CONSUMERS as u32 {
            let row = self.row + consumer * LINES as u32;
            let at = match OF_QUERIES {
                true => [self.batch, self.head, row, line],
                false => [self.batch, head, line, row],
            };
            // SAFETY: there is a bias, and its box is a part of the stage, as tiles are.
            unsafe { self.bias.load(self.of_bias(consumer, stage), at, full) };
        }
    }

    /// Makes the lines of a tile that are behind the sequence zeros, in a stage, which is full, but for so many. For all consumers, who are
    /// together then; nothing of theirs is under way.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn clear(&self, stage: u32, lines: u32) {
        // Pieces of 16 bytes of a box, of which swizzling leaves those of a line in it.
        let pieces = LINE / 16;
        unroll!(2, operand => {
            let tile = self.tile(operand, CONSUMERS as u32 + stage).cast::<u32>();
            let mut piece = lines as usize * pieces + thread::thread_idx_x() as usize - 128;
            while piece < LINES * pieces {
                unroll!(2, of_box => {
                    if of_box < R / 32 {
                        // SAFETY: within the tile, at a multiple of 16 bytes.
                        unsafe { tile.set_vec_unchecked((of_box * LINES * pieces + piece) * 4, [0u32; 4]) };
                    }
                });
                piece += CONSUMERS * 128;
            }
        });
        tma::fence_async();
        thread::sync_threads_named::<1, { 128 * CONSUMERS as u32 }>();
    }

    /// The sums of this consumer's lines: of the gradients of scores times the first operand of the others, and of keys also of the weights
    /// times the second.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume(&self) -> [Accumulator<R>; 2] {
        let consumer = warp::uniform(thread::thread_idx_x() / 128) - 1;
        let row = self.row + consumer * LINES as u32;
        let query = row + Accumulator::<PRODUCTS>::place(thread::thread_idx_x(), 0).0;
        let known = [0, 8].map(|more| match OF_QUERIES {
            true => self.known.of([self.batch, self.head], &self.sequence, query + more),
            false => [0.0; 2],
        });
        self.there(consumer).wait(0);
        let own = [0, 1].map(|operand| MatrixDescriptor::<T, KMajor>::new(self.tile(operand, consumer), 16, 1024));
        let mut sums = [Accumulator::zero(), Accumulator::zero()];
        let mut place = Place::FIRST;
        let all = if OF_QUERIES {
            self.sequence.keys
        } else {
            self.sequence.queries
        };
        for _ in self.heads[0]..self.heads[1] {
            let mut line = self.lines[0];
            while line < self.lines[1] {
                self.full(place.stage).wait(place.round);
                if all - line < LINES as u32 {
                    self.clear(place.stage, all - line);
                }
                sums = self.step(own, place.stage, (row, line), known, sums);
                self.free(place.stage)
                    .arrive_if(thread::thread_idx_x().is_multiple_of(32));
                place = place.next();
                line += LINES as u32;
            }
        }
        sums
    }

    /// Adds what the tile in a stage, which is full, adds to the sums. When it comes back, the tile has been read.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn step(
        &self,
        own: [MatrixDescriptor<T, KMajor>; 2],
        stage: u32,
        (row, line): (u32, u32),
        known: [[f32; 2]; 2],
        [of_scores, of_weights]: [Accumulator<R>; 2],
    ) -> [Accumulator<R>; 2] {
        let tile = |operand| self.tile(operand, CONSUMERS as u32 + stage);
        // SAFETY (of both): the tile stays until it is free, and the consumer's own lines to the end.
        let weights = unsafe { products::<T, R>(own[0], tile(0), LINES) };
        let scores = unsafe { products::<T, R>(own[1], tile(1), LINES) };
        // SAFETY: the newest batch is the other one.
        let mut weights = unsafe { weights.wait_beside_newer() };
        if self.has_bias() {
            let consumer = warp::uniform(thread::thread_idx_x() / 128) - 1;
            // SAFETY: there is one, and its box came with the tile.
            unsafe {
                self.bias
                    .add::<PRODUCTS, OF_QUERIES>(self.of_bias(consumer, stage), &mut weights);
            }
            // What the thread has read, copies may fill, once a product has brought the warps together.
            tma::fence_async();
        }
        hide::<OF_QUERIES>(&mut weights, &self.sequence, (row, line), f32::NEG_INFINITY);
        // Element `i` is of query `i / 2 % 2` of the thread's, or of column `8 (i / 4) + i % 2` of its columns.
        let queries = self.queries(stage);
        let lane = thread::thread_idx_x() as usize % 4 * 2;
        let of_column = |plane: usize, i: usize| {
            // SAFETY: there are as many.
            unsafe { queries.get_unchecked(plane * LINES + lane + i / 4 * 8 + i % 2) }
        };
        weights.update(|i, score| {
            let log_sum = if OF_QUERIES {
                known[i / 2 % 2][0]
            } else {
                of_column(0, i)
            };
            approximate::exp2(Float::mul_add(score, self.factor, -log_sum))
        });
        if OF_QUERIES {
            let mut scores = scores.wait();
            scores.update(|i, product| weights.element(i) * (product - known[i / 2 % 2][1]));
            let packed = Packed::new(&scores);
            // SAFETY: the tile stays until it is free, behind the wait.
            let sum = unsafe { packed.add_to(of_scores, tile(0)) }.wait();
            packed.keep();
            return [sum, of_weights];
        }
        let packed_weights = Packed::new(&weights);
        let mut scores = scores.wait();
        // SAFETY (of both): the tile stays until it is free, behind the waits.
        let by_weights = unsafe { packed_weights.add_to(of_weights, tile(1)) };
        scores.update(|i, product| weights.element(i) * (product - of_column(1, i)));
        let packed = Packed::new(&scores);
        let by_scores = unsafe { packed.add_to(of_scores, tile(0)) };
        // SAFETY: the newest batch is the other one.
        let of_weights = unsafe { by_weights.wait_beside_newer() };
        packed_weights.keep();
        let of_scores = by_scores.wait();
        packed.keep();
        [of_scores, of_weights]
    }

    /// Stores the sums, times `factor`, to an array that has so many heads with so many lines: 0 of keys that are of no sequence.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store(&self, sums: &Accumulator<R>, out: SliceMut<'_, T>, (heads, lines): (u32, u32), factor: f32) {
        let consumer = thread::thread_idx_x() / 128 - 1;
        let row = self.row + consumer * LINES as u32 + Accumulator::<R>::place(thread::thread_idx_x(), 0).0;
        let head = (self.batch * heads + self.head) as usize;
        let [first, _] = self.first_lines();
        let of_sequence = if OF_QUERIES {
            self.sequence.queries
        } else {
            self.sequence.keys
        };
        let end = if self.shape.packed > 0 { of_sequence } else { lines };
        unroll!(2, half => {
            let row = row + 8 * half as u32;
            let line = (row < end).then_some(head * lines as usize + (first + row) as usize);
            let is_seen = row < of_sequence;
            // SAFETY: the line is in `out`, by the kernel's contract.
            unsafe { store_line(sums, half, &out, line, |sum| if is_seen { sum * factor } else { 0.0 }) };
        });
    }
}
