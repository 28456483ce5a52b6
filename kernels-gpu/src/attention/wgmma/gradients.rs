// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of attention on Hopper's tensor cores, of numbers of 16 bits, with head dimensions of 64 and 128: those with respect to queries, keys
//! and values in one kernel, which computes each product once: `10 d` operations for each pair of a query and a key. What is computed is what
//! [`tiled::gradients`](crate::attention::tiled::gradients) says.
//!
//! A block has [`ROWS`] keys and values, in two consumers with [`LINES`] each, and walks over the queries that see them, tile by tile, from
//! the last to the first. One warp, the producer, has tiles copied to a ring. The consumers compute
//! `S = K Qᵀ` and `X = V Gᵀ`; what is made of them in registers is the left operand of `Pᵀ G` and `Dᵀ Q`, where `D = P ∘ (X − δ)`. Short
//! keys and values wait in registers, too, as otherwise shared memory would be what takes the time. `D` goes to shared memory too, for both
//! consumers: the gradient of the tile's queries is `D K`, of which each has a half. That product is made one tile later, so that consumers need
//! not be in step.
//!
//! What blocks have of a query is added in memory, one block after another, by two more threads, the adders. So the bits are the same each time. A
//! second kernel makes gradients of the [sums](mod@of_sums).
//!
//! Blocks take their keys by a counter, the first keys of a head first. So a block waits only for blocks that took keys before it did, which are
//! there, whatever the order in which blocks begin. For the same reason a block takes keys only when it can work on them at once. Blocks of a head that run
//! side by side have about the same tile at a time, each a little behind the one in front of it: as a mask hides the first queries from the last
//! keys, all of them can begin with the last query.
//!
//! Lengths of keys, packed sequences and a [bias](super::bias) have entries of their own. Tiles begin with a sequence's first line; the lines of one that
//! are of the next sequence are set to 0 by the consumers, as those behind the last one are by the copies. A bias comes to a ring of its own, a
//! box for each consumer and part of a tile.

use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{TensorMap, TensorMapMut};
use cuda_std::warpgroup;
use cuda_std::wgmma::Registers;

use self::scores::Known;
use super::bias::{BOX_BYTES, Bias, BiasAxes};
use super::{Half, LINE, Place, dim};
use crate::attention::{AttentionShape, Lines, Sequence, Tile};
use crate::matmul::unroll;

mod add;
pub mod bias;
mod consume;
pub mod of_queries;
pub mod of_sums;
mod produce;
mod scores;

pub use scores::LINES;

const CONSUMERS: usize = 2;

/// Lines of a block.
pub const ROWS: usize = LINES * CONSUMERS;

/// Threads of a block.
pub const THREADS: usize = 128 * (1 + CONSUMERS);

/// Stages of the rings.
const STAGES: usize = 2;

/// Threads that have sums added, of a warp each.
const ADDERS: u32 = STAGES as u32;

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

/// Bytes of a consumer's keys, or values.
const fn own_bytes(registers: usize) -> usize {
    LINES * dim(registers) * 2
}

/// Bytes of the gradients of a tile's scores: a line for each key of the block.
const fn scores_bytes(registers: usize) -> usize {
    ROWS * queries(registers) * 2
}

/// Bytes of the sums of a tile's queries.
const SUMS_BYTES: usize = 2 * TILE_BYTES;

/// The sums of a tile's queries as lines and elements, which have no meaning: as they are in shared memory, they are in memory. Of the elements that a
/// consumer's thread has in registers there are the first four of each thread, the next four, and so on.
pub const SUMS: [usize; 2] = [SUMS_BYTES / 1024, 1024 / 4];

/// The distance of four elements of a thread and the next four.
const FOURS: usize = 4 * 128 * CONSUMERS;

/// Bytes of what is known of the queries of a tile: the logarithms of their sums of exponentials, and the products of their results and gradients.
const fn known_bytes(registers: usize) -> usize {
    2 * queries(registers) * 4
}

/// Bytes of a stage of the bias: a box for each consumer.
const BIAS_BYTES: usize = CONSUMERS * BOX_BYTES;

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

/// A word behind the barriers is the block's number.
const fn at_bias(registers: usize) -> usize {
    (at_barriers(registers) + 8 * BARRIERS + 8).next_multiple_of(1024)
}

/// Where a stage of the bias is. There is no room for the second one beside short lines, but where values were.
const fn at_bias_stage(registers: usize, stage: usize) -> usize {
    match in_registers(registers) && stage == 1 {
        true => CONSUMERS * own_bytes(registers),
        false => at_bias(registers) + stage * BIAS_BYTES,
    }
}

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 1024.
pub const fn shared_bytes(registers: usize, has_bias: bool) -> usize {
    let stages = if in_registers(registers) { 1 } else { STAGES };
    1024 + at_bias(registers) + if has_bias { stages * BIAS_BYTES } else { 0 }
}

/// Words in front of the turns: the counter.
pub const COUNTERS: usize = 1;

/// The barriers: keys and values are there; ...
const THERE: usize = 0;
/// ... both consumers have stored the gradients of a tile's scores, and read those of the tile before;
const MET: usize = 1;
/// ... what the block has of a tile's queries is there, for each adder;
const SUMMED: usize = 2;
/// ... it has been read;
const ADDED: usize = SUMMED + STAGES;
/// ... a stage has all;
const FULL: usize = ADDED + 1;
/// ... nobody needs it any more;
const FREE: usize = FULL + STAGES;
/// ... and the same of the bias.
const BIAS_FULL: usize = FREE + STAGES;
const BIAS_FREE: usize = BIAS_FULL + STAGES;
const BARRIERS: usize = BIAS_FREE + STAGES;

/// How scores become exponents.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, KernelParam)]
pub struct Exponents {
    /// What is added to scores.
    pub bias: BiasAxes,
    /// What it is multiplied with to be in units of scores.
    pub of_bias: f32,
    /// What scores are multiplied with to be exponents of 2, a positive number; ...
    pub factor: f32,
    /// ... and to be those of e.
    pub scale: f32,
}

/// Sums of the same tiles of queries that blocks are divided among, as every such block of a sequence's keys adds to the same. Blocks that begin together wait
/// for one another at their first tile, each for all that are ahead of it among those.
pub const MOST_CHAINS: usize = 2;

/// The gradients of attention with respect to `k` and `v`, and the sums that are those with respect to `q` once they are multiplied by the scale,
/// where the gradient with respect to its result is `grad`. Without `FORMS` neither a bias nor `sequences` are looked at.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis, with a block for each tile of
/// [`ROWS`] keys. The shape, and that [of its keys](AttentionShape::of_keys), are valid for tiles of 64 lines; there are keys, and [`dim`] elements a line. The maps of operands have five axes, as
/// those of [`attention_wgmma`](super::attention_wgmma()), and tiles of [`LINES`] lines. `of_queries` is what
/// [`attention_gradients_of_queries`](of_queries::attention_gradients_of_queries()) has of all queries. The results begin at multiples of 16 bytes and have the heads one after another, each in C order. With `FORMS`, `sequences` and the bias
/// are as there; packed ones are in order, as blocks that add to one tile would else wait without end.
///
/// `sums` is a map of three axes, tiles, and the lines and elements that [`SUMS`] says, with boxes of a tile, and no swizzle: as many tiles as the shape has of
/// [`queries`], for each of `chains` one after another, of which there is one at least. Every such block of a sequence's keys adds to the same. `turns` are
/// [`COUNTERS`] words and one for each such tile, all 0. Sums of tiles to which no block adds, as no query of theirs sees its keys, are left as they are.
#[kernel(T = [bf16, f16], R = [32, 64], FORMS = [false, true], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn attention_gradients_wgmma<T: Half, const R: usize, const FORMS: bool>(
    q: TensorMap<'_, T>,
    k: TensorMap<'_, T>,
    v: TensorMap<'_, T>,
    grad: TensorMap<'_, T>,
    of_queries: &[f32],
    bias: TensorMap<'_, T>,
    sequences: &[u32],
    sums: TensorMapMut<'_, f32>,
    turns: SliceMut<'_, u32>,
    dk: SliceMut<'_, T>,
    dv: SliceMut<'_, T>,
    shape: AttentionShape,
    exponents: Exponents,
    chains: u32,
) where
    [f32; R]: Registers,
{
    // Without packed sequences, which the compiler is to know, there are no more tiles than lines fill.
    let shape = AttentionShape {
        packed: if FORMS { shape.packed } else { 0 },
        ..shape
    };
    let memory = cuda_std::shared::dynamic::<u8>().aligned::<1024>();
    let tiles = shape.of_keys();
    // SAFETY: the kernel's contract.
    let number = unsafe { begin(memory, at_barriers(R), &turns) };
    let Some(tile) = tiles.tile(number, ROWS as u32) else {
        return;
    };
    // The first keys come first.
    let place = (tiles.blocks(shape.keys, ROWS as u32) - 1) * ROWS as u32 - tile.row;
    let mut found = (shape.whole(), place);
    if FORMS {
        // SAFETY: the kernel's contract.
        let of_keys = unsafe { shape.sequence(sequences, Lines::Keys, tile.batch, (place, ROWS as u32)) };
        let Some((sequence, row)) = of_keys else {
            return;
        };
        found = (sequence.uniform(), warp::uniform(row));
    }
    let walk = Walk::new::<R>(&shape, Tile { row: place, ..tile }, found);
    let block = Block::<T, R, FORMS> {
        own: [k, v],
        others: [q, grad],
        known: Known::new(of_queries, &shape),
        bias: Bias {
            map: bias,
            axes: exponents.bias,
            factor: exponents.of_bias,
        },
        shape,
        walk,
        memory,
        factor: exponents.factor,
    };
    // As all lanes of a warp have the same, products have their operands' descriptors in registers of the warp: ptxas would not know it otherwise.
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        warpgroup::decrease_registers::<24>();
        if warp == 0 {
            block.produce();
        } else if warp <= ADDERS && warp::elect() {
            block.add(warp - 1, chains, sums, turns);
        }
    } else {
        warpgroup::increase_registers::<240>();
        let [keys, values] = block.consume();
        block.store(&keys, dk, exponents.scale);
        block.store(&values, dv, 1.0);
    }
}

/// Makes the barriers ready, and takes the block's number.
///
/// # Safety
///
/// The kernel's contract.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn begin(memory: Shared<u8>, at: usize, turns: &SliceMut<'_, u32>) -> u32 {
    // SAFETY (of all): the memory has room for them, and there is a counter; each phase gets as many arrivals.
    let word = unsafe { memory.subarray_unchecked(at + 8 * BARRIERS, 8) }.cast::<u32>();
    if thread::thread_idx_x() == 0 {
        let barriers = unsafe { memory.subarray_unchecked(at, 8 * BARRIERS) }.cast::<u64>();
        let init = |number: usize, arrivals: u32| unsafe { Mbarrier::at_unchecked(barriers, number) }.init(arrivals);
        let warps = 4 * CONSUMERS as u32;
        init(THERE, 1);
        init(MET, warps);
        init(ADDED, 1);
        unroll!(2, stage => {
            // Who has tiles copied, and each lane of the warp that stores what is known of queries.
            init(FULL + stage, 1 + 32);
            init(SUMMED + stage, warps);
            init(FREE + stage, 32 * warps);
            init(BIAS_FULL + stage, 1);
            init(BIAS_FREE + stage, 32 * warps);
        });
        mbarrier::fence_init();
        unsafe { word.set_unchecked(0, turns.atomic_unchecked(0).fetch_add(1)) };
    }
    thread::sync_threads();
    warp::uniform(unsafe { word.get_unchecked(0) })
}

/// The keys of a block, and the tiles of queries that it walks over.
#[derive(Clone, Copy)]
struct Walk {
    sequence: Sequence,
    batch: u32,
    /// The head of keys, and the first of them in the sequence.
    head: u32,
    row: u32,
    /// The heads of queries, from the first to behind the last; the first tile's first query, and how many tiles each head has.
    heads: [u32; 2],
    first: u32,
    count: u32,
    /// The number in a head of the tile of the sequence's first query.
    number: u32,
}

impl Walk {
    /// Of a tile of keys, whose first one is the one in the sequence that is said.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new<const R: usize>(shape: &AttentionShape, tile: Tile, (sequence, row): (Sequence, u32)) -> Self {
        let (rows, queries) = (ROWS as u32, queries(R) as u32);
        let [first, end] = sequence.queries_of_tile(row, rows);
        let first = first - first % queries;
        Self {
            sequence,
            batch: tile.batch,
            head: tile.head,
            row,
            heads: [tile.head * shape.sharing, (tile.head + 1) * shape.sharing],
            first,
            count: if end > first {
                (end - first).div_ceil(queries)
            } else {
                0
            },
            // As the tiles of keys say which of the packed sequences it is.
            number: sequence.first_query / queries + (tile.row - row) / rows - sequence.first_key / rows,
        }
    }

    /// How many tiles of queries there are, in all heads.
    #[inline(always)]
    fn tiles(&self) -> u32 {
        self.count * (self.heads[1] - self.heads[0])
    }

    /// The first one, if there is one: its head, and the first of so many queries.
    #[inline(always)]
    fn begin(&self, queries: u32) -> [u32; 2] {
        [self.heads[0], (self.first + self.count * queries).wrapping_sub(queries)]
    }

    /// The one behind that, if there is one: queries ahead of it, or the next head's last ones.
    #[inline(always)]
    fn next(&self, [head, line]: [u32; 2], queries: u32) -> [u32; 2] {
        match line > self.first {
            true => [head, line - queries],
            false => [head + 1, self.begin(queries)[1]],
        }
    }

    /// Which of the sequence's tiles of keys the block has.
    #[inline(always)]
    fn turn(&self) -> u32 {
        self.row / ROWS as u32
    }

    /// Queries from this one on are not seen by the keys of the block ahead of this one in its chain, nor by those ahead of these.
    #[inline(always)]
    fn first_to_add(&self, chains: u32) -> u32 {
        let rows = ROWS as u32;
        match self.row.checked_sub(chains * rows) {
            None => 0,
            Some(row) => self.sequence.queries_of_tile(row, rows)[1],
        }
    }
}

/// What the threads of a block have in common.
struct Block<'a, T, const R: usize, const FORMS: bool> {
    /// Of keys and values, and of queries and their gradients.
    own: [TensorMap<'a, T>; 2],
    others: [TensorMap<'a, T>; 2],
    known: Known<'a>,
    bias: Bias<'a, T>,
    shape: AttentionShape,
    walk: Walk,
    memory: Shared<u8>,
    factor: f32,
}

impl<T: Half, const R: usize, const FORMS: bool> Block<'_, T, R, FORMS> {
    #[inline(always)]
    fn barrier(&self, number: usize) -> Mbarrier {
        // SAFETY (of both): the memory has room for all barriers there; each phase gets the arrivals that `begin` says.
        let barriers = unsafe { self.memory.subarray_unchecked(at_barriers(R), 8 * BARRIERS) }.cast::<u64>();
        unsafe { Mbarrier::at_unchecked(barriers, number) }
    }

    #[inline(always)]
    fn part<U: bytemuck::Pod>(&self, at: usize, bytes: usize) -> Shared<U> {
        // SAFETY: it is in front of the barriers, or behind them, where there is a bias.
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

    /// The memory of the sums of a tile's queries.
    #[inline(always)]
    fn sums(&self) -> Shared<f32> {
        self.part(at_sums(R), SUMS_BYTES)
    }

    /// The memory of what is known of the queries of a stage.
    #[inline(always)]
    fn queries(&self, stage: u32) -> Shared<f32> {
        self.part(at_known(R) + stage as usize * known_bytes(R), known_bytes(R))
    }

    /// The memory of what is added to a consumer's scores of a part of a tile, in a stage of the bias.
    #[inline(always)]
    fn of_bias(&self, stage: u32, consumer: usize) -> Shared<T> {
        self.part(at_bias_stage(R, stage as usize) + consumer * BOX_BYTES, BOX_BYTES)
    }

    /// The place in the bias's ring for a part of a tile of queries, which is at this one in theirs: each part has one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn place_of_bias(of_queries: Place, part: usize) -> Place {
        match parts(R) {
            1 => of_queries,
            // Both stages have come around with each tile.
            _ => Place {
                stage: part as u32,
                round: of_queries.stage,
            },
        }
    }

    /// Whether something is added to scores. It is asked anew each time, so that there is one loop.
    #[inline(always)]
    fn has_bias(&self) -> bool {
        FORMS && hint::pinned(self.bias.axes.is_there) != 0
    }
}
