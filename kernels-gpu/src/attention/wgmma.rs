// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention on Hopper's tensor cores, of numbers of 16 bits, with head dimensions of 64 and 128.
//!
//! The roles are those of FlashAttention-3 (J. Shah, G. Bikshandi, Y. Zhang, V. Thakkar, P. Ramani, T. Dao, "FlashAttention-3: Fast
//! and Accurate Attention with Asynchrony and Low-precision", 2024). One thread, the producer, has the tensor memory accelerator
//! copy tiles of queries, keys and values to rings of two stages in shared memory, or three. Two consumers, or three where the head dimension is
//! 64, are warpgroups with 64 queries each. They take tiles of [`KEYS`] keys from the last to the first: `S = Q Kᵀ` and `O += P V` by
//! `wgmma`, where the weights `P` are in registers from where `S` was, packed to 16 bits.
//!
//! A consumer asks for the scores of the next tile of keys, then for the product of the present weights and values, and makes weights of
//! those scores while the latter is under way. The consumers fall out of step by themselves, so that one makes weights while the
//! other's products are computed; those of short lines and few keys take turns.
//!
//! The greatest score `m` of a query is taken over only when it is more than 2⁸ too small, as a power of 2; so the sums are seldom
//! multiplied by `2^(m − m')`. A weight is at most 2⁸ then, the sum of weights at least 1, and the quotient the same. Whether a score is greater is
//! asked of its bits; which one is the greatest, only then. Of short lines, whose products take as long as the exponentials, it is asked of the sums
//! of weights, which cost nothing: too great ones are divided, and of infinite ones the warp computes the scores once more.
//!
//! Behind the last weighted values of a tile of queries the first scores of the next one are asked for, and the results are stored beside them.
//!
//! Blocks may have fewer consumers, so that tiles fill more multiprocessors, or fill them better. Of those with one, and short lines, a multiprocessor holds two.
//!
//! A block takes one tile of queries after another, by a counter in global memory. The producer does, one tile ahead, and hands head and first
//! query to the consumers with the queries. The last block sets the counter back to 0.
//!
//! Results go from registers to memory, where four lanes have exchanged what they have of a row to 16 bytes each.
//!
//! Lengths of keys, packed sequences and a bias have kernels of their own, so that those without any of these keep their registers. There
//! the producer finds the sequence of a tile, and hands it over with the queries; tiles begin with the sequence's first line, wherever
//! that is, and what they have of the next sequence is hidden, or not stored. Its values may be no numbers, of which 0 times is none: the
//! consumers set them to 0 first. A [bias] has a ring of its own for each consumer.

use cuda_std::half::{Packed, bf16, f16};
use cuda_std::hint;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::mma::Mma;
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::warpgroup;
use cuda_std::wgmma::{FromRegisters, Operand, Registers};

use self::bias::{BOX_BYTES, Bias, BiasAxes, SIDE};
use super::{AttentionShape, Sequence, Tile};
use crate::matmul::wgmma::Input;
use crate::num::Num;

pub mod bias;
mod consume;
pub mod gradients;
mod produce;

/// Keys at a time.
pub const KEYS: usize = 128;

/// Queries of a consumer.
pub const CONSUMER_ROWS: usize = 64;

/// Bytes of a line of a box: tiles are as many boxes side by side as it takes for the head dimension.
const LINE: usize = 128;

/// Stages of the rings of queries and biases.
const STAGES: usize = 2;

/// Stages of the rings of keys and of values that there is room for, for so many consumers: of short lines three, but for a bias, as a stage is free when the
/// last of the consumers is done with it. A single one's block has no more than leave room for another block on its multiprocessor.
const fn key_stages(registers: usize, consumers: usize, forms: bool) -> usize {
    if registers == 32 && consumers > 1 && !forms {
        MOST_KEY_STAGES
    } else {
        STAGES
    }
}

/// The most of them.
const MOST_KEY_STAGES: usize = 3;

/// Of so many keys, and more than [`FEWEST_KEYS`], consumers of short lines take turns with their products: of more, they are faster by themselves. Up to as
/// many they have the third stage.
const FEW_KEYS: u32 = 2048;

/// Of so many, memory is the limit, and who waits for a turn asks for the next tile later.
const FEWEST_KEYS: u32 = 256;

/// The number of a head where there is no tile.
const NONE: u32 = u32::MAX;

/// Words of what is said of a tile: the number of its head among those of all problems, its first query in its sequence, and the sequence.
const WORDS: usize = 8;

/// The head dimension, for which a thread's part of the result takes `registers`.
pub const fn dim(registers: usize) -> usize {
    2 * registers
}

/// The most consumers: of short lines more, which take fewer registers.
pub const fn consumers(registers: usize) -> usize {
    if registers == 32 { 3 } else { 2 }
}

/// Threads of a block with so many consumers.
pub const fn threads(consumers: usize) -> usize {
    128 * (1 + consumers)
}

/// Queries of the tile of such a block.
pub const fn rows(consumers: usize) -> usize {
    CONSUMER_ROWS * consumers
}

/// Bytes of the queries of a consumer.
const fn q_bytes(registers: usize) -> usize {
    CONSUMER_ROWS * dim(registers) * 2
}

/// Bytes of a tile of keys, or of values.
const fn k_bytes(registers: usize) -> usize {
    KEYS * dim(registers) * 2
}

/// Barriers: whether they are full, and whether they are free, of the queries and the bias of each consumer, the keys, and the values in a
/// stage; and whose turn it is.
const fn barriers(registers: usize) -> usize {
    2 * (STAGES * 2 * consumers(registers) + 2 * barriers_of_keys(registers)) + turns(registers)
}

/// Stages of keys, or values, that there are barriers for.
const fn barriers_of_keys(registers: usize) -> usize {
    if registers == 32 { MOST_KEY_STAGES } else { STAGES }
}

/// Barriers by which consumers take turns: of long lines none.
const fn turns(registers: usize) -> usize {
    if registers == 32 { consumers(registers) } else { 0 }
}

/// Bytes of the barriers, and of what is said of the tile for each consumer in each stage, which is behind them.
const fn barriers_bytes(registers: usize) -> usize {
    (8 * barriers(registers)).next_multiple_of(16)
}
const fn said_bytes(registers: usize) -> usize {
    4 * WORDS * STAGES * consumers(registers)
}

/// Where the stages of keys and values begin: of long lines behind the queries of all consumers. Of short ones the queries are behind them, as there are
/// as many as the block has consumers.
const fn at_keys(registers: usize) -> usize {
    match registers {
        32 => (barriers_bytes(registers) + said_bytes(registers)).next_multiple_of(1024),
        _ => STAGES * consumers(registers) * q_bytes(registers),
    }
}

/// Where the queries begin.
const fn at_queries(registers: usize, consumers: usize, forms: bool) -> usize {
    match registers {
        32 => at_keys(registers) + 2 * key_stages(registers, consumers, forms) * k_bytes(registers),
        _ => 0,
    }
}

/// Where the barriers begin.
const fn at_barriers(registers: usize) -> usize {
    match registers {
        32 => 0,
        _ => at_keys(registers) + 2 * STAGES * k_bytes(registers),
    }
}

/// Where all ends but the bias.
const fn end(registers: usize, consumers: usize, forms: bool) -> usize {
    match registers {
        32 => at_queries(registers, consumers, forms) + STAGES * consumers * q_bytes(registers),
        _ => (at_barriers(registers) + barriers_bytes(registers) + said_bytes(registers)).next_multiple_of(1024),
    }
}

/// Where the bias begins, behind the queries of as many consumers as there may be: it is no number for which there was no register.
const fn at_bias(registers: usize) -> usize {
    end(registers, consumers(registers), true)
}

/// Stages of the bias: of long lines there is room for one.
const fn bias_stages(registers: usize) -> usize {
    if registers == 32 { STAGES } else { 1 }
}

/// Bytes of the bias for a consumer's queries and a tile of keys: boxes side by side.
const BIAS_BYTES: usize = KEYS / SIDE * BOX_BYTES;

/// The dynamic shared memory in bytes of a launch with so many consumers: the tiles are aligned to 1024. `forms` are the kernel's, which a bias is one of.
pub const fn shared_bytes(registers: usize, consumers: usize, forms: bool, has_bias: bool) -> usize {
    1024 + match has_bias {
        true => at_bias(registers) + bias_stages(registers) * consumers * BIAS_BYTES,
        false => end(registers, consumers, forms),
    }
}

/// The blocks with so many consumers and so much shared memory that a multiprocessor holds: of one consumer of short lines registers leave room for two.
pub const fn blocks(registers: usize, consumers: usize, shared_bytes: usize) -> usize {
    // Of Hopper's 228 KiB a block takes one for itself.
    let fit = 2 * (shared_bytes + 1024) <= 228 * 1024;
    if registers == 32 && consumers == 1 && fit { 2 } else { 1 }
}

/// Words of the counter.
pub const COUNTERS: usize = 2;

/// Numbers of 16 bits.
pub trait Half: Input + Operand<Element = Self> + FromRegisters + Packed + Num<Wide = f32> + OfWarp {}

impl<T: Input + Operand<Element = T> + FromRegisters + Packed + Num<Wide = f32> + OfWarp> Half for T {}

/// Numbers that a warp multiplies by itself.
pub trait OfWarp: Mma<A = [u32; 4], B = [u32; 2], C = [f32; 4]> {}

impl<T: Mma<A = [u32; 4], B = [u32; 2], C = [f32; 4]>> OfWarp for T {}

/// `out ← softmax(Q Kᵀ · factor / log₂ e) V` for each head, and `log_sums` the natural logarithms of the sums of
/// exponentials, if there is room for them, as [`attention`](super::tiled::attention()), which says what `sequences` are. To scores `bias` is
/// added, times `of_bias`. Without `FORMS` neither is looked at.
///
/// # Safety
///
/// A block has [`threads`] threads for one consumer or more, up to [`consumers`], and for packed sequences for all of these, and [`shared_bytes`]
/// bytes of dynamic shared memory; the grid has one axis. The shape is valid for tiles of their [`rows`] queries, has keys, and [`dim`] elements a
/// line; `factor` is a positive number. The maps have five axes: problems, heads, pieces of 64 elements of a line, lines, and elements of a piece;
/// and the swizzle of 128 bytes. A tile of theirs is one problem and one
/// head, with all pieces, of [`CONSUMER_ROWS`] queries, or [`KEYS`] keys and values. `out` begins at a multiple of 16 bytes and has the
/// heads one after another, each in C order, and so has `log_sums`, or it is empty. `counters` are [`COUNTERS`] words, 0, which
/// nobody else uses until the launch has ended; they are left so. With `FORMS`, `sequences` fit the shape
/// ([`AttentionShape::fits_sequences`]), and if `bias_axes` say that there is one, `bias` is a map of the four axes of the scores, of length 1
/// where they say that it is the same for all, with that swizzle, and a tile of one problem, one head, [`SIDE`] queries, or the only one, and as
/// many keys; there is no sequence then that begins behind another one.
#[kernel(T = [bf16, f16], R = [32, 64], FORMS = [false, true], arch = "sm_90a", max_threads = threads(consumers(R)), min_blocks = 1)]
pub unsafe fn attention_wgmma<T: Half, const R: usize, const FORMS: bool>(
    q: TensorMap<'_, T>,
    k: TensorMap<'_, T>,
    v: TensorMap<'_, T>,
    bias: TensorMap<'_, T>,
    sequences: &[u32],
    out: SliceMut<'_, T>,
    log_sums: SliceMut<'_, f32>,
    counters: SliceMut<'_, u32>,
    shape: AttentionShape,
    bias_axes: BiasAxes,
    [factor, of_bias]: [f32; 2],
) where
    [f32; R]: Registers,
{
    let bias = Bias {
        map: bias,
        axes: bias_axes,
        factor: of_bias,
    };
    // SAFETY: the kernel's contract.
    let block = unsafe { Block::<T, R, FORMS>::new([q, k, v], bias, sequences, shape) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        // With the consumers', all of a multiprocessor's.
        match R {
            32 => warpgroup::decrease_registers::<32>(),
            _ => warpgroup::decrease_registers::<24>(),
        }
        if warp == 0 && warp::elect() {
            block.produce(counters);
        }
    } else {
        match R {
            32 => warpgroup::increase_registers::<160>(),
            _ => warpgroup::increase_registers::<240>(),
        }
        match Block::<T, R, FORMS>::OVERLAPS {
            true => block.consume(warp - 4, factor, out, log_sums),
            false => block.consume_by_turns(warp - 4, factor, out, log_sums),
        }
    }
}

/// What the threads of a block have in common.
struct Block<'a, T, const R: usize, const FORMS: bool> {
    q: TensorMap<'a, T>,
    k: TensorMap<'a, T>,
    v: TensorMap<'a, T>,
    bias: Bias<'a, T>,
    sequences: &'a [u32],
    shape: AttentionShape,
    /// Stages of the consumers' queries, of keys, of values; and of the bias.
    memory: Shared<u8>,
    barriers: Shared<u64>,
    /// What is said of the tile whose queries a consumer has in a stage.
    said: Shared<u32>,
}

/// A place in a ring.
#[derive(Clone, Copy)]
struct Place {
    stage: u32,
    /// The parity of the rounds so far.
    round: u32,
}

impl Place {
    const FIRST: Self = Self { stage: 0, round: 0 };

    #[inline(always)]
    fn next(self) -> Self {
        Self {
            stage: self.stage ^ 1,
            round: self.round ^ self.stage,
        }
    }

    /// As [`next`](Self::next), in a ring of so many stages.
    #[inline(always)]
    fn next_of(self, stages: usize) -> Self {
        if stages == STAGES {
            return self.next();
        }
        match self.stage + 1 == stages as u32 {
            false => Self {
                stage: self.stage + 1,
                ..self
            },
            true => Self {
                stage: 0,
                round: self.round ^ 1,
            },
        }
    }
}

/// What a ring is of.
#[derive(Clone, Copy)]
enum Ring {
    /// The queries of a consumer.
    Queries(u32),
    Keys,
    Values,
    /// What is added to the scores of a consumer.
    Bias(u32),
}

impl<'a, T: Half, const R: usize, const FORMS: bool> Block<'a, T, R, FORMS> {
    /// The consumers that there is room for.
    const CONSUMERS: u32 = consumers(R) as u32;

    /// Whether the first scores of a tile are asked for behind the last weighted values of the tile before, whose results are stored beside
    /// them.
    const OVERLAPS: bool = R == 32 || FORMS;

    /// Whether scores may be taken for not too great, and their weights' sums be asked then. The few that are infinite are made of scores once more, for
    /// which the keys are kept for as long. With forms what is added to scores has gone by then, and of long lines the next keys come too late.
    const LOOKS_BEHIND: bool = R == 32 && !FORMS;

    /// Those of the block.
    #[inline(always)]
    fn consumers() -> u32 {
        match thread::block_dim_x() {
            ..=256 => 1,
            257..=384 => 2,
            _ => Self::CONSUMERS,
        }
    }

    /// Queries of the block's tile.
    #[inline(always)]
    fn rows() -> u32 {
        Self::consumers() * CONSUMER_ROWS as u32
    }

    /// Tile `number`, if there is one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn tile(&self, number: u32) -> Option<Tile> {
        let of = |consumers: usize| self.shape.blocks(self.shape.queries, rows(consumers) as u32);
        // A division by a number that the compiler does not know takes several times as long.
        let blocks = Self::of_consumers(|consumers| of(consumers) as usize) as u32;
        self.shape.tile_of(number, Self::rows(), blocks)
    }

    /// Whether consumers take turns with their products.
    #[inline(always)]
    fn has_turns(&self) -> bool {
        // Fewer keys wrap around.
        let more = self.shape.keys.wrapping_sub(FEWEST_KEYS + 1);
        R == 32 && !FORMS && Self::consumers() > 1 && more < FEW_KEYS - FEWEST_KEYS
    }

    /// Stages of the rings of keys and of values.
    #[inline(always)]
    fn key_stages(&self) -> usize {
        let has_more = R == 32 && !FORMS && Self::consumers() > 1 && self.shape.keys <= FEW_KEYS;
        if has_more { MOST_KEY_STAGES } else { STAGES }
    }

    /// What is known of so many consumers as the block has, computed for each number ahead.
    #[inline(always)]
    fn of_consumers(of: impl Fn(usize) -> usize) -> usize {
        match Self::consumers() {
            1 => of(1),
            2 => of(2),
            _ => of(3),
        }
    }

    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn new(
        [q, k, v]: [TensorMap<'a, T>; 3],
        bias: Bias<'a, T>,
        sequences: &'a [u32],
        shape: AttentionShape,
    ) -> Self {
        let memory = cuda_std::shared::dynamic::<u8>().aligned::<1024>();
        let (at, of_barriers) = (at_barriers(R), barriers_bytes(R));
        // SAFETY (of both): the block has as much memory behind that address.
        let barriers = unsafe { memory.subarray_unchecked(at, of_barriers) }.cast::<u64>();
        let said = unsafe { memory.subarray_unchecked(at + of_barriers, said_bytes(R)) }.cast::<u32>();
        let block = Self {
            q,
            k,
            v,
            bias,
            sequences,
            shape,
            memory,
            barriers,
            said,
        };
        if thread::thread_idx_x() == 0 {
            for stage in 0..STAGES as u32 {
                for consumer in 0..Self::CONSUMERS {
                    block.full(Ring::Queries(consumer), stage).init(1);
                    // Each thread for itself: it reads the tile's number, and queries, by ordinary loads.
                    block.free(Ring::Queries(consumer), stage).init(128);
                    block.full(Ring::Bias(consumer), stage).init(1);
                    block.free(Ring::Bias(consumer), stage).init(4);
                }
            }
            for stage in 0..barriers_of_keys(R) as u32 {
                block.full(Ring::Keys, stage).init(1);
                let of_consumer = if Self::LOOKS_BEHIND { 4 } else { 1 };
                block.free(Ring::Keys, stage).init(of_consumer * Self::consumers());
                block.full(Ring::Values, stage).init(1);
                block.free(Ring::Values, stage).init(Self::consumers());
            }
            for consumer in 0..turns(R) as u32 {
                // Each warp for itself.
                block.turn(consumer).init(4);
            }
            mbarrier::fence_init();
            q.prefetch();
            k.prefetch();
            v.prefetch();
        }
        thread::sync_threads();
        block
    }

    /// The barrier at which the consumer ahead of this one arrives when it is this one's turn.
    #[inline(always)]
    fn turn(&self, consumer: u32) -> Mbarrier {
        let first = barriers(R) - turns(R);
        // SAFETY: there is one for each consumer where they take turns; each phase gets the arrivals that `new` says.
        unsafe { Mbarrier::at_unchecked(self.barriers, first + consumer as usize) }
    }

    /// The barrier that the copies to a stage complete.
    #[inline(always)]
    fn full(&self, ring: Ring, stage: u32) -> Mbarrier {
        // SAFETY: there are two for each stage; each phase gets the arrivals that `new` says.
        unsafe { Mbarrier::at_unchecked(self.barriers, Self::number(ring, stage)) }
    }

    /// The barrier at which those arrive who are done with a stage.
    #[inline(always)]
    fn free(&self, ring: Ring, stage: u32) -> Mbarrier {
        // SAFETY: as in `full`.
        unsafe { Mbarrier::at_unchecked(self.barriers, Self::number(ring, stage) + 1) }
    }

    /// The number of the first barrier of a stage.
    #[inline(always)]
    fn number(ring: Ring, stage: u32) -> usize {
        let (stages, of_keys) = (STAGES as u32, barriers_of_keys(R) as u32);
        let first = match ring {
            Ring::Queries(consumer) => stages * consumer,
            Ring::Keys => stages * Self::CONSUMERS,
            Ring::Values => stages * Self::CONSUMERS + of_keys,
            Ring::Bias(consumer) => stages * (Self::CONSUMERS + consumer) + 2 * of_keys,
        };
        2 * (first + stage) as usize
    }

    /// The memory of a stage.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn stage(&self, ring: Ring, stage: u32) -> Shared<T> {
        let stage = stage as usize;
        let (at, bytes) = match ring {
            Ring::Queries(consumer) => {
                let first = Self::of_consumers(|consumers| at_queries(R, consumers, FORMS));
                let number = match R {
                    32 => consumer as usize * STAGES + stage,
                    _ => stage * consumers(R) + consumer as usize,
                };
                (first + number * q_bytes(R), q_bytes(R))
            }
            // Of short lines by turns, so that a stage is where it is however many there are.
            Ring::Keys => (
                at_keys(R) + if R == 32 { 2 * stage } else { stage } * k_bytes(R),
                k_bytes(R),
            ),
            Ring::Values => {
                let number = if R == 32 { 2 * stage + 1 } else { STAGES + stage };
                (at_keys(R) + number * k_bytes(R), k_bytes(R))
            }
            Ring::Bias(consumer) => {
                let number = match R {
                    32 => consumer as usize * bias_stages(R) + stage,
                    _ => stage * consumers(R) + consumer as usize,
                };
                (at_bias(R) + number * BIAS_BYTES, BIAS_BYTES)
            }
        };
        // SAFETY: it is among the tiles, or behind all else, where there is a bias.
        unsafe { self.memory.subarray_unchecked(at, bytes) }.cast()
    }

    /// The place in a bias's ring for the scores of the keys that are at this one in theirs: each tile of keys has one of each.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn place_of_bias(of_keys: Place) -> Place {
        match bias_stages(R) {
            STAGES => of_keys,
            // The second of two stages is the second round of one.
            _ => Place {
                stage: 0,
                round: of_keys.stage,
            },
        }
    }

    /// Whether something is added to scores. It is asked anew each time: of a branch that is the same in each turn a compiler makes two
    /// loops, for which there are no registers.
    #[inline(always)]
    fn has_bias(&self) -> bool {
        FORMS && hint::pinned(self.bias.axes.is_there) != 0
    }

    /// Where it is said of which tile the queries are that a consumer has in a stage.
    #[inline(always)]
    fn place_of_said(stage: u32, consumer: u32) -> usize {
        (stage * Self::CONSUMERS + consumer) as usize * WORDS
    }

    /// The sequence of a tile, and the tile with its first query in it, if there is one.
    #[inline(always)]
    fn sequence(&self, tile: Tile) -> Option<(Sequence, Tile)> {
        if !FORMS {
            return Some((self.shape.whole(), tile));
        }
        // With packed ones the block has all consumers.
        let rows = rows(consumers(R)) as u32;
        // SAFETY: the kernel's contract.
        unsafe { self.shape.sequence_of_tile(self.sequences, tile, rows) }
    }

    /// The tiles of keys that a tile of a sequence's queries sees: the first, and how many, one at least: if they see none, all of its keys
    /// are hidden.
    #[inline(always)]
    fn key_tiles(sequence: &Sequence, row: u32) -> [u32; 2] {
        let [begin, end] = sequence.keys_of_tile(row, Self::rows());
        let first = begin / KEYS as u32;
        let tiles = end.div_ceil(KEYS as u32) - first;
        [first, if tiles > 0 || !Self::OVERLAPS { tiles } else { 1 }]
    }
}
