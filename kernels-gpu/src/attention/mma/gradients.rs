// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of attention on the tensor cores of Ampere and later, for numbers of 16 bits with head dimensions of 64 and 128. What is computed is what
//! [`tiled::gradients`](crate::attention::tiled::gradients) says; the structure is FlashAttention-2's (T. Dao, 2023), but that nobody adds to what
//! another adds to, so that the bits are the same each time.
//!
//! A block has [`rows`] lines of its own, 16 or 32 for each of its four warps, and walks over `OTHERS` others at a time that they have to do with. There
//! are blocks of two kinds, which go the same way:
//!
//! * of keys and values, whose others are queries and their incoming gradients, of all heads that share the keys: they have `dK` and `dV`;
//! * of queries and their incoming gradients, whose others are keys and values: they have `dQ`.
//!
//! A warp multiplies its lines with the others, queries with keys and gradients with values. Of these products it makes the weights `P` and the
//! gradients of the scores `S` in the registers that they are in, which are the left operand of what is added to its sums: `P` times the incoming
//! gradients, `S` times the queries or keys. So neither goes through shared memory. Others have two places there, of which one is filled
//! (`cp.async`) while the other is read, so that there is one barrier for each tile.
//!
//! Work `14 d` operations for each pair of a query and a key that it sees, `8 d` by blocks of keys and `6 d` by those of queries, with tiles on the
//! diagonal whole but for those of which no line of a warp is seen. Elements moved from the cache `4 d / `[`rows`] for each pair.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use self::known::Known;
use super::copies::{Copies, meet};
use super::products::{self, Products, Sums};
use super::{BLOCKS, THREADS, line_bytes};
use crate::attention::decode::tensor::Half;
use crate::attention::tiled::gradients::GradientStrides;
use crate::attention::{AttentionShape, Lines, Sequence};
use crate::matmul::unroll;

mod known;
mod weights;

/// Lines that are others, at a time.
const OTHERS: u32 = 32;

/// Groups of 8 of them.
const GROUPS: usize = OTHERS as usize / 8;

/// Warps of a block.
const WARPS: usize = THREADS / 32;

/// Matrices of 16 lines that a warp has: of short lines more, so that the sums take as many registers.
const fn matrices(dim: usize) -> usize {
    128 / dim
}

/// Lines of a block.
pub const fn rows(dim: usize) -> usize {
    16 * matrices(dim) * WARPS
}

/// Where the second operand of a block's lines begins, then the two places for others.
const fn at_second(dim: usize) -> u32 {
    rows(dim) as u32 * line_bytes(dim)
}

const fn at_place(dim: usize, place: u32) -> u32 {
    2 * at_second(dim) + place * 2 * OTHERS * line_bytes(dim)
}

/// Where what is known of queries begins, which has two places, too.
const fn at_known(dim: usize, place: u32) -> u32 {
    at_place(dim, 2) + place * known::BYTES
}

/// Bytes of a block's dynamic shared memory, by the elements of a line.
pub const fn shared_bytes(dim: usize) -> usize {
    at_known(dim, 2) as usize
}

/// Blocks of the kernel: one for each tile of [`rows`] keys, and one for each of as many queries.
pub fn blocks(shape: &AttentionShape, dim: usize) -> u32 {
    of_keys(shape).tiles(rows(dim) as u32) + shape.tiles(rows(dim) as u32)
}

/// The shape in which keys take the place of queries, those of as many heads together.
#[inline(always)]
fn of_keys(shape: &AttentionShape) -> AttentionShape {
    let group = shape.key_head(shape.group);
    AttentionShape {
        group: if group == 0 { 1 } else { group },
        ..shape.of_keys()
    }
}

/// The gradients of [`attention`](crate::attention::tiled::attention()) with respect to `q`, `k` and `v`, where the gradient with respect to its result
/// is `grad`. `log_sums` are the logarithms that it gave, and `deltas` the products of `grad` and its result, for each query.
///
/// All results have the heads one after another, each in C order, and so have `log_sums` and `deltas`. Scores are multiplied by `factor` to be
/// exponents of 2, and by `scale` to be those of e. `sequences` are as [`AttentionShape::sequence`] has them, none or some. A query that sees no key,
/// whose logarithm is −∞, has the gradient 0.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis, with as many blocks as [`blocks`] says,
/// which do not wrap around. The shape, and that of its keys, are valid for tiles of [`rows`] lines, and they have `D` elements; there is a query and a
/// key; `sequences` fit it. The lines of operands lie within them, without gaps, and begin at multiples of 16 bytes; results begin at such a one, and
/// have room for as many lines. There is a logarithm and a `δ` for each query.
#[kernel(T = [bf16, f16], D = [64, 128], arch = "sm_80", max_threads = THREADS, min_blocks = BLOCKS)]
pub unsafe fn attention_gradients_mma<T: Half, const D: usize>(
    q: &[T],
    k: &[T],
    v: &[T],
    grad: &[T],
    log_sums: &[f32],
    deltas: &[f32],
    sequences: &[u32],
    dq: SliceMut<'_, T>,
    dk: SliceMut<'_, T>,
    dv: SliceMut<'_, T>,
    shape: AttentionShape,
    strides: GradientStrides,
    [factor, scale]: [f32; 2],
) {
    let (keys, rows) = (of_keys(&shape), rows(D) as u32);
    let (number, blocks_of_keys) = (thread::block_idx_x(), keys.tiles(rows));
    let is_of_keys = number < blocks_of_keys;
    let (of, tile) = match is_of_keys {
        true => (Lines::Keys, keys.tile(number, rows)),
        false => (Lines::Queries, shape.tile(number - blocks_of_keys, rows)),
    };
    let Some(tile) = tile else {
        return;
    };
    // Tiles with most to do come first: those of the last queries, and of the first keys.
    let place = match is_of_keys {
        true => (keys.blocks(keys.queries, rows) - 1) * rows - tile.row,
        false => tile.row,
    };
    // SAFETY: the kernel's contract.
    let Some((sequence, row)) = (unsafe { shape.sequence(sequences, of, tile.batch, (place, rows)) }) else {
        return;
    };
    let (head, key_head) = match is_of_keys {
        true => (tile.head * shape.sharing, tile.head),
        false => (tile.head, shape.key_head(tile.head)),
    };
    let of_queries = |x, strides| {
        let lines = (sequence.first_query, sequence.queries);
        Copies::new(x, strides, [tile.batch, head], lines)
    };
    let of_keys = |x, strides| {
        let lines = (sequence.first_key, sequence.keys);
        Copies::new(x, strides, [tile.batch, key_head], lines)
    };
    let of_head = tile.batch * shape.heads + head;
    let mut block = Block::<T, D> {
        queries: [of_queries(q, strides.attention.q), of_queries(grad, strides.grad)],
        keys: [of_keys(k, strides.attention.k), of_keys(v, strides.attention.v)],
        next_head: [strides.attention.q[1], strides.grad[1]],
        known: Known::new(log_sums, deltas, of_head, &shape, &sequence),
        memory: cuda_std::shared::dynamic(),
        sequence,
        row,
        factor,
    };
    // SAFETY (of all): the kernel's contract. Of the lines of an array's head that begin with the first of the sequence, a block has those up to the
    // sequence's end; without packed ones all, as keys that do not count have gradients, too.
    unsafe {
        if is_of_keys {
            let sums = block.walk::<true>(shape.sharing);
            let lines = if shape.packed == 0 { shape.keys } else { sequence.keys };
            let first = (tile.batch * keys.heads + key_head) as usize * shape.keys as usize;
            let lines = (first + sequence.first_key as usize, lines);
            block.store(&sums, [Some((&dk, scale)), Some((&dv, 1.0))], lines);
        } else {
            let sums = block.walk::<false>(1);
            let first = of_head as usize * shape.queries as usize + sequence.first_query as usize;
            block.store(&sums, [Some((&dq, scale)), None], (first, sequence.queries));
        }
    }
}

/// What a lane keeps of its lines, where they are queries: there are sums of one gradient alone, which leaves registers.
struct Kept {
    /// What is known of them.
    known: [[f32; 2]; 4],
    /// The left operands that they are, by operand, step and matrix.
    left: [[[[u32; 4]; 2]; 8]; 2],
}

impl Kept {
    /// Nothing.
    const NONE: Self = Self {
        known: [[f32::INFINITY, 0.0]; 4],
        left: [[[[0; 4]; 2]; 8]; 2],
    };
}

/// What the threads of a block have in common.
struct Block<'a, T, const D: usize> {
    /// Queries and their incoming gradients, keys and values.
    queries: [Copies<T, D>; 2],
    keys: [Copies<T, D>; 2],
    /// Elements from one head of queries to the next, and of their incoming gradients.
    next_head: [usize; 2],
    known: Known<'a>,
    memory: Shared<u8>,
    sequence: Sequence,
    /// The first of the block's lines, of the sequence.
    row: u32,
    factor: f32,
}

impl<T: Half, const D: usize> Block<'_, T, D> {
    const LINE: u32 = line_bytes(D);
    const ROWS: u32 = rows(D) as u32;
    const MATRICES: usize = matrices(D);

    /// The warp's first line among the block's.
    #[inline(always)]
    fn warp_row() -> u32 {
        warp::uniform(thread::thread_idx_x() / 32) * 16 * Self::MATRICES as u32
    }

    /// Goes over the others that the block's lines have to do with, of so many heads of queries, one after another. Of keys there are sums of `S` times
    /// queries, and of `P` times incoming gradients; of queries those of `S` times keys.
    ///
    /// # Safety
    ///
    /// The kernel's contract; `OF_KEYS` is what the block's lines are.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn walk<const OF_KEYS: bool>(&mut self, heads: u32) -> [Sums; 2] {
        let mut sums = [[[[0.0; 4]; 16]; 2]; 2];
        let [first, end] = match OF_KEYS {
            true => self.sequence.queries_of_tile(self.row, Self::ROWS),
            false => self.sequence.keys_of_tile(self.row, Self::ROWS),
        };
        if first >= end {
            return sums;
        }
        let memory = self.memory;
        let (own, mut others) = match OF_KEYS {
            true => (self.keys, self.queries),
            false => (self.queries, self.keys),
        };
        // SAFETY (of all): the kernel's contract. Whoever read a place has come to the barrier ahead of the copies to it.
        let copy = |others: &[Copies<T, D>; 2], place: u32, at: u32| unsafe {
            let to = at_place(D, place);
            others[0].copy::<OTHERS>(memory, to, at);
            others[1].copy::<OTHERS>(memory, to + OTHERS * Self::LINE, at);
        };
        unroll!(2, matrix => {
            if matrix < Self::MATRICES {
                let row = 64 * matrix as u32;
                unsafe {
                    own[0].copy::<64>(memory, row * Self::LINE, self.row + row);
                    own[1].copy::<64>(memory, at_second(D) + row * Self::LINE, self.row + row);
                }
            }
        });
        let (mut at, mut head, mut place) = (first, 0, 0);
        copy(&others, place, at);
        let mut kept = Kept::NONE;
        match OF_KEYS {
            true => unsafe {
                self.known
                    .put(memory, at_known(D, place), self.known.of_thread(head, at))
            },
            false => kept.known = unsafe { self.known.of_lane::<D>(self.row + Self::warp_row()) },
        }
        meet();
        if !OF_KEYS {
            kept.left = unsafe { self.left() };
        }
        loop {
            let (mut next, mut next_head) = (at + OTHERS, head);
            if OF_KEYS && next >= end {
                (next, next_head) = (first, head + 1);
                others[0].advance(self.next_head[0]);
                others[1].advance(self.next_head[1]);
            }
            let is_last = next >= end || next_head >= heads;
            let mut known = f32::INFINITY;
            if !is_last {
                copy(&others, 1 - place, next);
                if OF_KEYS {
                    known = unsafe { self.known.of_thread(next_head, next) };
                }
            }
            if self.is_seen::<OF_KEYS>(at) {
                unsafe { self.add_tile::<OF_KEYS>(&mut sums, at, place, &kept) };
            }
            if is_last {
                return sums;
            }
            place = 1 - place;
            if OF_KEYS {
                unsafe { self.known.put(memory, at_known(D, place), known) };
            }
            meet();
            (at, head) = (next, next_head);
        }
    }

    /// The left operands of the warp's lines. For whole warps.
    ///
    /// # Safety
    ///
    /// They are in the memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn left(&self) -> [[[[u32; 4]; 2]; 8]; 2] {
        let mut left = [[[[0; 4]; 2]; 8]; 2];
        unroll!(2, operand => {
            unroll!(8, step => {
                if step < D / 16 {
                    unroll!(2, matrix => {
                        if matrix < Self::MATRICES {
                            // SAFETY: the caller's promise.
                            left[operand][step][matrix] = unsafe { self.left_of(operand, step, matrix) };
                        }
                    });
                }
            });
        });
        left
    }

    /// One of those.
    ///
    /// # Safety
    ///
    /// As [`left`](Self::left).
    #[inline(always)]
    unsafe fn left_of(&self, operand: usize, step: usize, matrix: usize) -> [u32; 4] {
        let own = operand as u32 * at_second(D) + (Self::warp_row() + 16 * matrix as u32) * Self::LINE;
        // SAFETY: the caller's promise.
        unsafe { products::left::<D>(self.memory, own, step) }
    }

    /// Adds to the warp's sums what the others add that are in a place, the first of which is `at`. For whole warps.
    ///
    /// # Safety
    ///
    /// They are there, and so is what is known of them, or else of the lane's lines; nobody writes the place.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn add_tile<const OF_KEYS: bool>(
        &self,
        [of_scores, of_weights]: &mut [Sums; 2],
        at: u32,
        place: u32,
        kept: &Kept,
    ) {
        let memory = self.memory;
        let others = at_place(D, place);
        let others = [others, others + OTHERS * Self::LINE];
        // SAFETY (of all): the caller's promise.
        let product = |operand: usize| {
            let own = |step: usize, matrix: usize| match OF_KEYS {
                true => unsafe { self.left_of(operand, step, matrix) },
                false => kept.left[operand][step][matrix],
            };
            unsafe { products::products::<T, D, GROUPS>(memory, Self::MATRICES, own, others[operand]) }
        };
        let (mut weights, mut gradients): (Products<GROUPS>, Products<GROUPS>) = (product(0), product(1));
        let of_columns = |group| unsafe { known::of_columns(memory, at_known(D, place), group) };
        self.weigh::<OF_KEYS>([&mut weights, &mut gradients], &kept.known, of_columns);
        self.hide::<OF_KEYS>([&mut weights, &mut gradients], at);
        unsafe {
            if OF_KEYS {
                products::add::<T, D, GROUPS>(memory, Self::MATRICES, of_weights, &weights, others[1]);
            }
            products::add::<T, D, GROUPS>(memory, Self::MATRICES, of_scores, &gradients, others[0]);
        }
    }

    /// Stores sums to arrays, times a factor, by way of the memory that the warp's lines were in: of a sequence that begins at a line, and goes on
    /// for so many. For whole warps.
    ///
    /// # Safety
    ///
    /// The arrays have the lines, and begin at multiples of 16 bytes; nobody reads the warp's lines any more.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store(&self, sums: &[Sums; 2], to: [Option<(&SliceMut<'_, T>, f32)>; 2], (first, lines): (usize, u32)) {
        let row = self.row + Self::warp_row();
        let lines = (first + row as usize, lines.saturating_sub(row));
        let own = |operand: usize| Self::warp_row() * Self::LINE + operand as u32 * at_second(D);
        warp::sync_warp(warp::FULL_MASK);
        // SAFETY (of both): the caller's promise.
        unroll!(2, i => {
            if let Some((_, factor)) = to[i] {
                unsafe { products::put::<T, D>(self.memory, Self::MATRICES, own(i), &sums[i], |_, sum| sum * factor) };
            }
        });
        warp::sync_warp(warp::FULL_MASK);
        unroll!(2, i => {
            if let Some((out, _)) = to[i] {
                unsafe { products::store::<T, D>(self.memory, Self::MATRICES, own(i), out, lines) };
            }
        });
    }
}
