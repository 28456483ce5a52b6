// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention on the tensor cores of Ampere and later, for numbers of 16 bits with head dimensions of 64 and 128: the structure of FlashAttention-2
//! (T. Dao, 2023).
//!
//! A block has [`ROWS`] queries of a head, 32 for each of its four warps, and takes 64 keys at a time. A warp has all scores of its queries,
//! so that the softmax takes no shared memory, and what is read of a key or a value is multiplied with two matrices of 16 queries: with one,
//! shared memory would be read for as long as tensor cores multiply.
//!
//! Queries, keys and values are copied to shared memory as they lie (`cp.async`), in lines of 16-byte pieces that are swapped by an exclusive or
//! with the line's number, so that neither copies nor reads (`ldmatrix`) meet in a bank. There is one place for keys and one for values: while
//! scores are computed (`mma.sync.m16n8k16`) the values are on their way, and while these are multiplied the next keys. Weights are packed in the
//! registers that the scores were in, as the instruction's left operand.
//!
//! The greatest score is taken over only when it is more than 8 powers of 2 too small, which a warp asks by one vote; so sums are seldom
//! multiplied, and lanes seldom tell one another their greatest. Weights are 2⁸ at most then, and the quotient is the same.
//!
//! Work `4 d` operations for each pair of a query and a key that it sees, with tiles on the diagonal whole but for those that no query of a warp
//! sees. Elements moved from the cache `2 d / 128` for each pair. Sums are in a fixed order.

use cuda_std::half::{bf16, f16, pack};
use cuda_std::mma::mma;
use cuda_std::prelude::*;
use cuda_std::{async_copy, matrix};

use self::rows::{Rows, Scores};
use super::decode::tensor::Half;
use super::tiled::AttentionStrides;
use super::{AttentionShape, Sequence, Tile};
use crate::matmul::unroll;

mod rows;

/// Threads of a block.
pub const THREADS: usize = 128;

/// Queries of a block.
pub const ROWS: usize = 128;

/// Queries of a warp.
const WARP_ROWS: u32 = 32;

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

/// What a thread copies of an operand's tiles: some pieces of 16 bytes, all in the same column of pieces.
struct Copies<T, const D: usize> {
    /// The piece of the sequence's line of the thread's number.
    from: *const T,
    /// Elements from line to line.
    stride: usize,
    /// Lines of the sequence that are behind that one, and it.
    lines: u32,
    /// Where the first piece of a tile goes, in bytes.
    to: u32,
}

impl<T: Half, const D: usize> Copies<T, D> {
    /// Pieces of a line.
    const ACROSS: u32 = D as u32 / ELEMENTS;

    /// Lines from one piece of the thread's to the next: a multiple of 8, so that all go to the same place in their lines.
    const APART: u32 = THREADS as u32 / Self::ACROSS;

    /// Of so many lines of a head, from a first one on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new(elements: &[T], strides: [usize; 4], [batch, head]: [u32; 2], (first, lines): (u32, u32)) -> Self {
        let [of_batch, of_head, stride, _] = strides;
        let (row, piece) = (
            thread::thread_idx_x() / Self::ACROSS,
            thread::thread_idx_x() % Self::ACROSS,
        );
        // Where there is no line this may wrap around, and nothing is read.
        let at = [
            (batch, of_batch),
            (head, of_head),
            (first + row, stride),
            (piece, ELEMENTS as usize),
        ];
        let at = at
            .iter()
            .fold(0usize, |at, &(n, of)| at.wrapping_add((n as usize).wrapping_mul(of)));
        Self {
            from: elements.as_ptr().wrapping_add(at),
            stride,
            lines: lines.saturating_sub(row),
            to: row * line_bytes(D) + (piece ^ (row % 8)) * PIECE,
        }
    }

    /// Has [`KEYS`] lines from line `first` of the sequence on copied to byte `at` of the memory: zeros where there are none.
    ///
    /// # Safety
    ///
    /// The sequence's lines can be read; the tile is in the memory, and nobody accesses it until the copies are waited for.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn copy(&self, memory: Shared<u8>, at: u32, first: u32) {
        let from = self.from.wrapping_add((first as usize).wrapping_mul(self.stride));
        unroll!(8, i => {
            let row = i as u32 * Self::APART;
            if row < KEYS {
                let bytes = if first + row < self.lines { PIECE } else { 0 };
                let from = from.wrapping_add(self.stride.wrapping_mul(row as usize));
                let to = at + self.to + row * line_bytes(D);
                // SAFETY: the caller's promise; a line of the sequence, or nothing is read.
                unsafe { async_copy::copy_16(memory, to, from.cast(), bytes) };
            }
        });
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
            self.q.copy(memory, 0, self.tile.row);
            self.q.copy(memory, KEYS * Self::LINE, self.tile.row + KEYS);
            self.k.copy(memory, Self::K, key);
        }
        Self::meet();
        loop {
            unsafe { self.v.copy(memory, Self::V, key) };
            let is_seen = self.is_seen(key);
            let mut scores = [[[0.0; 4]; 8]; 2];
            if is_seen {
                scores = self.scores();
            }
            Self::meet();
            let next = key + KEYS;
            if next < end {
                unsafe { self.k.copy(memory, Self::K, next) };
            }
            if is_seen {
                self.hide(&mut scores, key);
                rows.weigh::<D>(&mut scores, self.factor);
                self.add_values(&mut rows, &scores);
            }
            if next >= end {
                return rows;
            }
            Self::meet();
            key = next;
        }
    }

    /// Waits until what the block's threads have had copied is there, and all have read what they have asked for.
    #[inline(always)]
    fn meet() {
        async_copy::commit();
        async_copy::wait::<0>();
        thread::sync_threads();
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
        let lane = thread::thread_idx_x() % 32;
        // A lane says where a line of a matrix of 8 × 8 begins: of 16 queries, then of the next 8 elements of them; of 8 keys, of the next 8
        // elements of these, and of 8 more keys. Two pieces further on, the exclusive or is with two more.
        let of_queries = (Self::warp_row() + lane % 16) * Self::LINE + ((lane / 16) ^ (lane % 8)) * PIECE;
        let of_keys = Self::K + (lane % 8 + lane / 16 * 8) * Self::LINE + ((lane / 8 % 2) ^ (lane % 8)) * PIECE;
        let mut scores = [[[0.0; 4]; 8]; 2];
        unroll!(8, step => {
            if step < D / 16 {
                let further = 2 * PIECE * step as u32;
                // SAFETY (of all): 16 bytes of a line of the tile; all lanes are here.
                let queries = |half: u32| unsafe {
                    matrix::ldmatrix_x4(self.memory, (of_queries ^ further) + half * 16 * Self::LINE)
                };
                let a = [queries(0), queries(1)];
                unroll!(4, group => {
                    let at = (of_keys ^ further) + group as u32 * 16 * Self::LINE;
                    let b = unsafe { matrix::ldmatrix_x4(self.memory, at) };
                    unroll!(2, half => {
                        unroll!(2, n => {
                            let score = &mut scores[half][2 * group + n];
                            *score = mma::<T>(a[half], [b[2 * n], b[2 * n + 1]], *score);
                        });
                    });
                });
            }
        });
        scores
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
        let lane = thread::thread_idx_x() % 32;
        // Of 16 values, then of the next 8 elements of them.
        let of_values = Self::V + lane % 16 * Self::LINE + ((lane / 16) ^ (lane % 8)) * PIECE;
        unroll!(4, step => {
            let of_rows = |half: usize| {
                let pair = |group: usize, i: usize| {
                    let weights = &weights[half][2 * step + group];
                    pack::<T>(weights[i], weights[i + 1])
                };
                [pair(0, 0), pair(0, 2), pair(1, 0), pair(1, 2)]
            };
            let a = [of_rows(0), of_rows(1)];
            unroll!(8, chunk => {
                if chunk < D / 16 {
                    let at = (of_values ^ (2 * PIECE * chunk as u32)) + step as u32 * 16 * Self::LINE;
                    // SAFETY: 16 bytes of a line of the tile; all lanes are here.
                    let b = unsafe { matrix::ldmatrix_x4_trans(self.memory, at) };
                    unroll!(2, half => {
                        unroll!(2, n => {
                            let sum = &mut rows.values[half][2 * chunk + n];
                            *sum = mma::<T>(a[half], [b[2 * n], b[2 * n + 1]], *sum);
                        });
                    });
                }
            });
        });
    }
}
