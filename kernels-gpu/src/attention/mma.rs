// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention on the tensor cores of Ampere and later, for numbers of 16 bits with head dimensions of 64 and 128: the structure of FlashAttention-2
//! (T. Dao, 2023).
//!
//! A block has [`ROWS`] queries of a head, 32 for each of its four warps, and takes 64 keys at a time. A warp has all scores of its queries,
//! so that the softmax takes no shared memory, and what is read of a key or a value is multiplied with two matrices of 16 queries: with one,
//! shared memory would be read for as long as tensor cores multiply.
//!
//! Queries, keys and values are copied to shared memory as they lie (`cp.async`). There is one place for keys and one for values: while
//! scores are computed (`mma.sync.m16n8k16`) the values are on their way, and while these are multiplied the next keys. Weights are packed in the
//! registers that the scores were in, as the instruction's left operand.
//!
//! The greatest score is taken over only when it is more than 8 powers of 2 too small, which a warp asks by one vote; so sums are seldom
//! multiplied, and lanes seldom tell one another their greatest. Weights are 2⁸ at most then, and the quotient is the same.
//!
//! Work `4 d` operations for each pair of a query and a key that it sees, with tiles on the diagonal whole but for those that no query of a warp
//! sees. Elements moved from the cache `2 d / 128` for each pair. Sums are in a fixed order.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use self::copies::{Copies, meet};
use self::rows::{Rows, Scores};
use super::decode::tensor::Half;
use super::tiled::AttentionStrides;
use super::{AttentionShape, Sequence, Tile};
use crate::matmul::unroll;

mod copies;
pub mod gradients;
mod products;
mod rows;

/// Threads of a block.
pub const THREADS: usize = 128;

/// Queries of a block.
pub const ROWS: usize = 128;

/// Queries of a warp, and matrices of 16 of them.
const WARP_ROWS: u32 = 32;
const MATRICES: usize = 2;

/// Keys at a time.
const KEYS: u32 = 64;

/// Blocks that a multiprocessor holds at a time: 255 registers a thread.
const BLOCKS: usize = 2;

/// Bytes of a piece, which a thread copies at a time, and elements.
const PIECE: u32 = 16;
const ELEMENTS: u32 = 8;

/// Bytes of a line of so many elements.
const fn line_bytes(dim: usize) -> u32 {
    2 * dim as u32
}

/// Bytes of a block's dynamic shared memory, by the elements of a line: queries, keys, values.
pub const fn shared_bytes(dim: usize) -> usize {
    (ROWS + 2 * KEYS as usize) * line_bytes(dim) as usize
}

/// `out ← softmax(Q Kᵀ · factor / log₂ e) V` for each head, and `log_sums` the natural logarithms of the sums of exponentials, if there is room
/// for them. `sequences` are as [`AttentionShape::sequence`] has them, none or some.
///
/// `out` has the heads one after another, each in C order, and so has `log_sums`, or it is empty. A query that sees no key has the result 0 and
/// the logarithm −∞.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis, with a block for each tile of
/// [`ROWS`] queries. The shape is valid for tiles of so many, and has lines of `D` elements; `sequences` fit it. The lines of operands lie within
/// them, without gaps, and begin at multiples of 16 bytes; `out` begins at such a one, and has room for as many lines as there are queries. The
/// factor is positive.
#[kernel(T = [bf16, f16], D = [64, 128], arch = "sm_80", max_threads = THREADS, min_blocks = BLOCKS)]
pub unsafe fn attention_mma<T: Half, const D: usize>(
    q: &[T],
    k: &[T],
    v: &[T],
    sequences: &[u32],
    out: SliceMut<'_, T>,
    log_sums: SliceMut<'_, f32>,
    shape: AttentionShape,
    strides: AttentionStrides,
    factor: f32,
) {
    let Some(tile) = shape.tile(thread::block_idx_x(), ROWS as u32) else {
        return;
    };
    // SAFETY: the kernel's contract.
    let Some((sequence, tile)) = (unsafe { shape.sequence_of_tile(sequences, tile, ROWS as u32) }) else {
        return;
    };
    let key_head = shape.key_head(tile.head);
    let keys = (sequence.first_key, sequence.keys);
    let block = Block::<T, D> {
        q: Copies::new(
            q,
            strides.q,
            [tile.batch, tile.head],
            (sequence.first_query, sequence.queries),
        ),
        k: Copies::new(k, strides.k, [tile.batch, key_head], keys),
        v: Copies::new(v, strides.v, [tile.batch, key_head], keys),
        memory: cuda_std::shared::dynamic(),
        sequence,
        tile,
        factor,
    };
    // SAFETY (of both): the kernel's contract.
    unsafe {
        let rows = block.rows();
        block.store(&rows, &shape, &out, log_sums);
    }
}

/// What the threads of a block have in common.
struct Block<T, const D: usize> {
    q: Copies<T, D>,
    k: Copies<T, D>,
    v: Copies<T, D>,
    /// Queries, keys, values.
    memory: Shared<u8>,
    sequence: Sequence,
    tile: Tile,
    factor: f32,
}

impl<T: Half, const D: usize> Block<T, D> {
    const LINE: u32 = line_bytes(D);

    /// Where keys and values begin in the memory.
    const K: u32 = ROWS as u32 * Self::LINE;
    const V: u32 = Self::K + KEYS * Self::LINE;

    /// Goes over the keys that the block's queries see.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn rows(&self) -> Rows {
        let mut rows = Rows::NONE;
        let [mut key, end] = self.sequence.keys_of_tile(self.tile.row, ROWS as u32);
        if key >= end {
            return rows;
        }
        let memory = self.memory;
        // SAFETY (of all): the kernel's contract. Whoever read what was there has come to the barrier ahead of the copies.
        unsafe {
            self.q.copy::<KEYS>(memory, 0, self.tile.row);
            self.q.copy::<KEYS>(memory, KEYS * Self::LINE, self.tile.row + KEYS);
            self.k.copy::<KEYS>(memory, Self::K, key);
        }
        meet();
        loop {
            unsafe { self.v.copy::<KEYS>(memory, Self::V, key) };
            let is_seen = self.is_seen(key);
            let mut scores = [[[0.0; 4]; 8]; 2];
            if is_seen {
                scores = self.scores();
            }
            meet();
            let next = key + KEYS;
            if next < end {
                unsafe { self.k.copy::<KEYS>(memory, Self::K, next) };
            }
            if is_seen {
                self.hide(&mut scores, key);
                rows.weigh::<D>(&mut scores, self.factor);
                self.add_values(&mut rows, &scores);
            }
            if next >= end {
                return rows;
            }
            meet();
            key = next;
        }
    }

    /// The warp's first query in the block's tile.
    #[inline(always)]
    fn warp_row() -> u32 {
        warp::uniform(thread::thread_idx_x() / 32) * WARP_ROWS
    }

    /// Whether a query of the warp sees one of the keys of the tile that begins with this one.
    #[inline(always)]
    fn is_seen(&self, key: u32) -> bool {
        let first = self.tile.row + Self::warp_row();
        key < self.sequence.end(first + WARP_ROWS - 1) && key + KEYS > self.sequence.begin(first)
    }

    /// The scores of the keys that are there. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scores(&self) -> Scores {
        // SAFETY (of both): the block's queries and keys are there, and are written behind a barrier.
        let own = |step: usize, half: usize| {
            let at = (Self::warp_row() + 16 * half as u32) * Self::LINE;
            unsafe { products::left::<D>(self.memory, at, step) }
        };
        unsafe { products::products::<T, D, 8>(self.memory, MATRICES, own, Self::K) }
    }

    /// Takes the scores of keys that a query does not see for −∞, of the tile that begins with this key.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn hide(&self, scores: &mut Scores, key: u32) {
        let first = self.tile.row + Self::warp_row();
        let sees_all = key + KEYS <= self.sequence.end(first) && key >= self.sequence.begin(first + WARP_ROWS - 1);
        if sees_all {
            return;
        }
        let lane = thread::thread_idx_x() % 32;
        unroll!(4, line => {
            let row = first + lane / 4 + 8 * line as u32;
            let (begin, end) = (self.sequence.begin(row), self.sequence.end(row));
            unroll!(8, group => {
                unroll!(2, i => {
                    let key = key + 8 * group as u32 + lane % 4 * 2 + i as u32;
                    if key < begin || key >= end {
                        scores[line / 2][group][line % 2 * 2 + i] = f32::NEG_INFINITY;
                    }
                });
            });
        });
    }

    /// Adds the values that are there by the weights that scores have become. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_values(&self, rows: &mut Rows, weights: &Scores) {
        // SAFETY: the values are there, and are written behind a barrier.
        unsafe { products::add::<T, D, 8>(self.memory, MATRICES, &mut rows.values, weights, Self::V) };
    }
}
