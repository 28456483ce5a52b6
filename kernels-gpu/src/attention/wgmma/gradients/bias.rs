// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradient of what is added to scores, on Hopper's tensor cores: the gradients of the scores, summed over the axes along which the
//! bias is repeated, as [`bias_plan`](crate::attention::bias_plan) has it.
//!
//! A block has 128 queries and 128 keys of one of the bias's heads, and walks over the problems and heads that share it. One thread, the
//! producer, has the queries and keys of each, then their gradients and values, copied to a ring of three places; the bias is copied
//! once. Two warpgroups, the consumers, have 64 queries each, and keep the sums in registers, beside the products `Q Kᵀ` and `G Vᵀ` of
//! 64 keys.
//!
//! `4 d` operations for each pair of a query and a key; `d / 32` bytes come from the cache for it, which is what takes the time.

use cuda_std::float::approximate;
use cuda_std::half::{bf16, f16};
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::warpgroup;
use cuda_std::wgmma::{Accumulator, InFlight, KMajor, MatrixDescriptor};

use super::super::bias::{BOX_BYTES, Bias, BiasAxes};
use super::super::{Half, KEYS, LINE, dim};
use super::scores::{Known, LINES, PRODUCTS, hide, products};
use super::{CONSUMERS, ROWS, THREADS};
use crate::attention::bias_plan::{BiasPlan, BiasTile, WARP_QUERIES};
use crate::attention::{AttentionShape, Lines, Sequence};
use crate::matmul::unroll;

/// Queries and keys of a block's tile.
pub const TILE: [u32; 2] = [ROWS as u32, KEYS as u32];

/// Places of the ring.
const PLACES: usize = 3;

/// The keys of a tile that a consumer has products of at a time, and how many times.
const PARTS: usize = KEYS / LINES;

/// The sums of a consumer.
type Sums = [Accumulator<PRODUCTS>; PARTS];

/// Bytes of a place: a line for each query of a tile, and one for each key.
const fn place_bytes(registers: usize) -> usize {
    (ROWS + KEYS) * dim(registers) * 2
}

/// Bytes in front of the barriers: places, and a box of the bias for each part of each consumer.
const fn tiles_bytes(registers: usize) -> usize {
    PLACES * place_bytes(registers) + CONSUMERS * PARTS * BOX_BYTES
}

/// Barriers: whether the bias is there, and whether a place is full, and free.
const BARRIERS: usize = 1 + 2 * PLACES;

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 1024.
pub const fn shared_bytes(registers: usize) -> usize {
    1024 + tiles_bytes(registers) + 8 * BARRIERS
}

/// The sums of the gradients of scores of [attention](super::super::attention_wgmma()) over axes along which `bias` is repeated, of the shape
/// that [`BiasPlan::sums`] says, in C order.
///
/// # Safety
///
/// As for [`attention_gradients_wgmma`](super::attention_gradients_wgmma()) with forms, but for what that has of sums, with [`shared_bytes`] of this
/// module, as many blocks as [`BiasPlan::blocks`] says, tiles of [`KEYS`] keys and values, and a bias, whose keys are not summed; sequences are not
/// packed. The plan is one for the shape, with tiles of [`TILE`], and `out` begins at a multiple of 8 bytes and has as many elements as it says.
#[kernel(T = [bf16, f16], R = [32, 64], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn attention_bias_gradient_wgmma<T: Half, const R: usize>(
    q: TensorMap<'_, T>,
    k: TensorMap<'_, T>,
    v: TensorMap<'_, T>,
    grad: TensorMap<'_, T>,
    of_queries: &[f32],
    bias: TensorMap<'_, T>,
    sequences: &[u32],
    out: SliceMut<'_, f32>,
    shape: AttentionShape,
    bias_axes: BiasAxes,
    plan: BiasPlan,
    [factor, of_bias]: [f32; 2],
) {
    let Some(tile) = BiasTile::of_block(thread::block_idx_x(), &plan, &shape) else {
        return;
    };
    // Which the compiler is to know: nobody looks for a sequence.
    let shape = AttentionShape { packed: 0, ..shape };
    let block = Block::<T, R> {
        maps: [[q, k], [grad, v]],
        known: Known::new(of_queries, &shape),
        bias: Bias {
            map: bias,
            axes: bias_axes,
            factor: of_bias,
        },
        sequences,
        shape,
        tile,
        memory: cuda_std::shared::dynamic::<u8>().aligned::<1024>(),
        factor,
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
        let sums = block.consume();
        block.store(sums, out, &plan);
    }
}

/// What the threads of a block have in common.
struct Block<'a, T, const R: usize> {
    /// Of queries and keys, and of the gradients and the values.
    maps: [[TensorMap<'a, T>; 2]; 2],
    known: Known<'a>,
    bias: Bias<'a, T>,
    sequences: &'a [u32],
    shape: AttentionShape,
    tile: BiasTile,
    memory: Shared<u8>,
    factor: f32,
}

/// A place in the ring.
#[derive(Clone, Copy)]
struct Place {
    number: u32,
    /// The parity of the rounds so far.
    round: u32,
}

impl Place {
    const FIRST: Self = Self { number: 0, round: 0 };

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn next(self) -> Self {
        if self.number + 1 == PLACES as u32 {
            Self {
                number: 0,
                round: self.round ^ 1,
            }
        } else {
            Self {
                number: self.number + 1,
                ..self
            }
        }
    }
}

/// What a consumer has of a problem and a head.
struct Pair {
    /// Where queries and keys are, and where their gradients and values.
    places: [Place; 2],
    consumer: u32,
    /// Of the thread's two queries.
    known: [[f32; 2]; 2],
    sequence: Sequence,
    /// The first query and the first key.
    row: u32,
    key: u32,
}

impl<T: Half, const R: usize> Block<'_, T, R> {
    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn make_barriers(&self) {
        if thread::thread_idx_x() == 0 {
            self.barrier(0).init(1);
            for place in 0..PLACES as u32 {
                self.full(place).init(1);
                self.free(place).init(CONSUMERS as u32);
            }
            mbarrier::fence_init();
        }
        thread::sync_threads();
    }

    /// Number 0 is completed by the copy of the bias.
    #[inline(always)]
    fn barrier(&self, number: u32) -> Mbarrier {
        // SAFETY (of both): the memory has room for all barriers behind the tiles; each phase gets the arrivals that `make_barriers` says.
        let barriers = unsafe { self.memory.subarray_unchecked(tiles_bytes(R), 8 * BARRIERS) }.cast::<u64>();
        unsafe { Mbarrier::at_unchecked(barriers, number as usize) }
    }

    /// The barrier that the copies to a place complete.
    #[inline(always)]
    fn full(&self, place: u32) -> Mbarrier {
        self.barrier(1 + 2 * place)
    }

    /// The barrier at which those arrive who are done with a place.
    #[inline(always)]
    fn free(&self, place: u32) -> Mbarrier {
        self.barrier(2 + 2 * place)
    }

    #[inline(always)]
    fn part(&self, at: usize, bytes: usize) -> Shared<T> {
        // SAFETY: it is among the tiles.
        unsafe { self.memory.subarray_unchecked(at, bytes) }.cast()
    }

    /// The memory of a consumer's queries, or their gradients, in a place.
    #[inline(always)]
    fn queries(&self, place: u32, consumer: u32) -> Shared<T> {
        let bytes = LINES * dim(R) * 2;
        self.part(place as usize * place_bytes(R) + consumer as usize * bytes, bytes)
    }

    /// The memory of keys, or values, in a place, from a part of them on.
    #[inline(always)]
    fn keys(&self, place: u32, part: usize) -> Shared<T> {
        let ahead = ROWS * dim(R) * 2 + part * LINES * LINE;
        self.part(place as usize * place_bytes(R) + ahead, place_bytes(R) - ahead)
    }

    /// The memory of what is added to a consumer's scores of a part of the keys.
    #[inline(always)]
    fn of_bias(&self, consumer: u32, part: usize) -> Shared<T> {
        let number = consumer as usize * PARTS + part;
        self.part(PLACES * place_bytes(R) + number * BOX_BYTES, BOX_BYTES)
    }

    /// The first query and the first key of the tile.
    #[inline(always)]
    fn first(&self) -> [u32; 2] {
        cuda_std::array::map([0, 1], |axis| self.tile.tile[axis] * TILE[axis])
    }

    /// What pair `number` of a problem and a head has there, if one of its queries sees one of its keys: the two, and the sequence.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn pair(&self, number: u32) -> Option<([u32; 2], Sequence)> {
        let ([batch, head], [row, key]) = (self.tile.pair(number), self.first());
        // SAFETY: the kernel's contract.
        let (sequence, _) = unsafe {
            self.shape
                .sequence(self.sequences, Lines::Queries, batch, (row, ROWS as u32))?
        };
        let [begin, end] = sequence.keys_of_tile(row, ROWS as u32);
        (key < end && key + KEYS as u32 > begin).then_some(([batch, head], sequence))
    }

    /// Has all copied. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce(&self) {
        let ([row, key], [batch, head]) = (self.first(), self.tile.first);
        let there = self.barrier(0);
        there.arrive_expect_tx((CONSUMERS * PARTS) as u32 * self.bias.bytes());
        for consumer in 0..CONSUMERS as u32 {
            unroll!(2, part => {
                let at = [batch, head, row + consumer * LINES as u32, key + (part * LINES) as u32];
                // SAFETY: there is a bias, nobody else writes the box, who reads it waits for the barrier, and the block ends behind that.
                unsafe { self.bias.load(self.of_bias(consumer, part), at, there) };
            });
        }
        let mut place = Place::FIRST;
        for number in self.tile.pairs[0]..self.tile.pairs[1] {
            let Some(([batch, head], _)) = self.pair(number) else {
                continue;
            };
            unroll!(2, of => {
                self.free(place.number).wait(place.round ^ 1);
                let full = self.full(place.number);
                full.arrive_expect_tx(place_bytes(R) as u32);
                let [of_queries, of_keys] = self.maps[of];
                let lines = |line: u32, head: u32| [0, line as i32, 0, head as i32, batch as i32];
                unroll!(2, consumer => {
                    let at = lines(row + (consumer * LINES) as u32, head);
                    // SAFETY (of both): a box of the map is as large as the memory, which is at a multiple of 1024 bytes. The consumers
                    // are done with it, and read it when the barrier says so. The block ends when they have.
                    unsafe { of_queries.load(self.queries(place.number, consumer as u32), at, full) };
                });
                let at = lines(key, self.shape.key_head(head));
                unsafe { of_keys.load(self.keys(place.number, 0), at, full) };
                place = place.next();
            });
        }
    }

    /// The sums of this consumer's queries.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume(&self) -> Sums {
        let consumer = warp::uniform(thread::thread_idx_x() / 128) - 1;
        let [row, key] = self.first();
        let row = row + consumer * LINES as u32;
        let mut sums = [Accumulator::zero(), Accumulator::zero()];
        let mut place = Place::FIRST;
        self.barrier(0).wait(0);
        for number in self.tile.pairs[0]..self.tile.pairs[1] {
            let Some((head, sequence)) = self.pair(number) else {
                continue;
            };
            let query = row + Accumulator::<PRODUCTS>::place(thread::thread_idx_x(), 0).0;
            let known = cuda_std::array::map([0, 8], |more| self.known.of(head, &sequence, query + more));
            let places = [place, place.next()];
            place = places[1].next();
            let pair = Pair {
                places,
                consumer,
                known,
                sequence,
                row,
                key,
            };
            self.add(&pair, &mut sums);
        }
        sums
    }

    /// Adds the gradients of the scores of a consumer's queries and the keys, and frees places as soon as they have been read. Those of a
    /// part are computed while the tensor cores have products of the next.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add(&self, pair: &Pair, sums: &mut Sums) {
        let [of_scores, of_weights] = pair.places;
        // All four warps go through the instructions together: what one has waited for has been read for all.
        let leads = thread::thread_idx_x().is_multiple_of(128);
        self.full(of_scores.number).wait(of_scores.round);
        let (scores, next) = (self.products(pair, 0, 0), self.products(pair, 0, 1));
        self.full(of_weights.number).wait(of_weights.round);
        let products = self.products(pair, 1, 0);
        // SAFETY (of all): the newest batch is another one.
        let (scores, next) = unsafe { (scores.wait_beside_newer(), next.wait_beside_newer()) };
        self.free(of_scores.number).arrive_if(leads);
        let weights = self.weights(scores, pair, 0);
        let next_products = self.products(pair, 1, 1);
        let products = unsafe { products.wait_beside_newer() };
        self.add_part(weights, &products, (pair, 0), &mut sums[0]);
        let weights = self.weights(next, pair, 1);
        let products = next_products.wait();
        self.free(of_weights.number).arrive_if(leads);
        self.add_part(weights, &products, (pair, 1), &mut sums[1]);
    }

    /// Has the products of a consumer's queries and a part of the keys, or of what is in the other place, computed.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn products(&self, pair: &Pair, of: usize, part: usize) -> InFlight<PRODUCTS> {
        let place = pair.places[of].number;
        let own = MatrixDescriptor::<T, KMajor>::new(self.queries(place, pair.consumer), 16, 1024);
        // SAFETY: the place is full, and stays so until it is free.
        unsafe { products::<T, R>(own, self.keys(place, part), KEYS) }
    }

    /// The weights of a part of the keys, of the products of queries and keys.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn weights(&self, mut scores: Accumulator<PRODUCTS>, pair: &Pair, part: usize) -> Accumulator<PRODUCTS> {
        // SAFETY: it is there.
        unsafe {
            self.bias
                .add::<PRODUCTS, true>(self.of_bias(pair.consumer, part), &mut scores)
        };
        scores.update(|i, score| approximate::exp2(Float::mul_add(score, self.factor, -pair.known[i / 2 % 2][0])));
        scores
    }

    /// Adds the gradients of the scores of a part of the keys, of the weights and the products of gradients and values.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_part(
        &self,
        mut weights: Accumulator<PRODUCTS>,
        products: &Accumulator<PRODUCTS>,
        (pair, part): (&Pair, usize),
        sums: &mut Accumulator<PRODUCTS>,
    ) {
        weights.update(|i, weight| weight * (products.element(i) - pair.known[i / 2 % 2][1]));
        // Behind all that may be no number where nothing is seen.
        let at = (pair.row, pair.key + (part * LINES) as u32);
        hide::<true>(&mut weights, &pair.sequence, at, 0.0);
        sums.update(|i, sum| sum + weights.element(i));
    }

    /// Stores the sums, of each query or of a warp's.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store(&self, mut sums: Sums, out: SliceMut<'_, f32>, plan: &BiasPlan) {
        let thread = thread::thread_idx_x();
        let [over_queries, _] = plan.is_over(&self.shape);
        let [.., lines, columns] = cuda_std::array::map(plan.sums(&self.shape), |n| n as usize);
        let [row, key] = self.first();
        let (own_row, column) = Accumulator::<PRODUCTS>::place(thread, 0);
        let row = row + (thread / 128 - 1) * LINES as u32 + own_row;
        if over_queries {
            unroll!(2, part => {
                sum_of_warp(&mut sums[part]);
            });
        }
        let head = self.tile.head as usize * lines;
        unroll!(2, half => {
            let (line, is_own) = match over_queries {
                true => (row / WARP_QUERIES, half == 0 && thread % 32 < 4),
                false => {
                    let row = row + 8 * half as u32;
                    (row, row < self.shape.queries)
                }
            };
            if is_own {
                let line = (head + line as usize) * columns;
                unroll!(2, part => {
                    let first = key + column + (part * LINES) as u32;
                    // SAFETY: the kernel's contract: `out` has all lines.
                    unsafe { store_line(&sums[part], half, &out, (line, columns), first as usize) };
                });
            }
        });
    }
}

/// Makes the elements of a thread's first row sums of those of all queries of a warp.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn sum_of_warp(sums: &mut Accumulator<PRODUCTS>) {
    let mut of_warp = Accumulator::<PRODUCTS>::zero();
    of_warp.update(|i, _| {
        if i / 2 % 2 == 1 {
            // Not looked at any more.
            return 0.0;
        }
        let sum = sums.element(i) + sums.element(i + 2);
        let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 4);
        let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 8);
        sum + warp::shuffle_xor(warp::FULL_MASK, sum, 16)
    });
    *sums = of_warp;
}

/// Stores a thread's elements of its first or second row to a line of so many columns, which begins at element `line`; the first of them is in
/// column `first`, which is even.
///
/// # Safety
///
/// The line is in `out`, which begins at a multiple of 8 bytes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn store_line(
    sums: &Accumulator<PRODUCTS>,
    half: usize,
    out: &SliceMut<'_, f32>,
    (line, columns): (usize, usize),
    first: usize,
) {
    unroll!(8, j => {
        let (at, pair) = (first + 8 * j, [sums.element(4 * j + 2 * half), sums.element(4 * j + 2 * half + 1)]);
        // SAFETY (of all): the columns are in the line, by the caller's promise; lines of an even number begin at even elements.
        if at + 1 < columns && columns.is_multiple_of(2) {
            unsafe { out.set_vec_unchecked(line + at, pair) };
        } else {
            if at < columns {
                unsafe { out.set_vec_unchecked(line + at, [pair[0]]) };
            }
            if at + 1 < columns {
                unsafe { out.set_vec_unchecked(line + at + 1, [pair[1]]) };
            }
        }
    });
}
