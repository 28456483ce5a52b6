// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention on ordinary cores, in f32: for any GPU, any lengths and strides, and elements of 16 bits too.
//!
//! A block has [`ROWS`] queries of a head, 16 for each warp, and takes `KEYS` keys at a time. Its scores are a product of
//! matrices, `Q Kᵀ`, and its results another, `P V`: operands go through shared memory, `CHUNK` of the head dimension at a time
//! for the first, and as many keys as have the same room for the second. As in [`gemm`](crate::matmul::gemm), there are two such
//! stages, the loads of the next are in flight while the present one is multiplied (but for the longest lines), and one barrier a stage
//! suffices.
//!
//! A lane has 4 queries and every eighth group of four keys, or of columns of the result: so a warp has all scores of its queries,
//! four lanes those of the same keys, and the softmax takes shuffles among eight lanes and no barrier. The weights, in f32, go
//! through shared memory to the lanes of the same warp. `Q` is loaded anew for each tile of keys: then a block's shared memory does
//! not depend on the head dimension, of which up to 256 are in registers.
//!
//! Work `4 d` operations for each pair of a query and a key that it sees, up to the tile's edge, with `d` rounded up to 16 in the
//! first product and to 64, 128 or 256 in the second. Elements moved from the cache: `3 d / 64` for each pair.
//!
//! Sums are in a fixed order, by fused multiply-add, and the exponential is [`Float::exp2`]: the same bits on every device.

use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::{AttentionShape, Tile};
use crate::matmul::{span, unroll};
use crate::num::Num;

/// Threads of a block.
pub const THREADS: usize = 128;

/// Queries of a block.
pub const ROWS: usize = 64;

/// Keys at a time.
const KEYS: usize = 64;

/// Elements of the head dimension at a time.
const CHUNK: usize = 16;

/// Elements from a line of a chunk, which has those of 64 queries or keys, to the next: those of lanes that store a column are
/// in few banks otherwise.
const PITCH: usize = 64 + 4;

/// Elements of a stage: a chunk of `Q` and one of `K`. As much is room for [`VALUES`] elements of `V`.
const STAGE: usize = 2 * CHUNK * PITCH;

/// Elements of a chunk of `V`.
const VALUES: usize = 2048;

/// Queries of a warp, and of a lane.
const WARP_ROWS: usize = 16;
const LANE_ROWS: usize = 4;

/// Keys of a lane.
const LANE_KEYS: usize = 8;

/// Elements from a key's weights, for the queries of a warp, to the next one's.
const WEIGHTS_PITCH: usize = WARP_ROWS + 4;

/// Elements of the weights of a warp.
const WEIGHTS: usize = KEYS * WEIGHTS_PITCH;

const _: () = assert!(VALUES <= STAGE && ROWS == KEYS && ROWS == THREADS / 32 * WARP_ROWS);

/// The greatest head dimension for which a lane has `columns` of a result.
pub const fn max_dim(columns: usize) -> usize {
    8 * columns
}

/// Blocks that a multiprocessor holds at a time: 255 registers a thread.
const BLOCKS: usize = 2;

/// Whether a stage's loads are under way while the one before is multiplied. Beside the longest results there are no registers for them.
const fn loads_ahead(columns: usize) -> bool {
    columns < 32
}

/// Steps of the innermost loops that are written out. All of them would be loaded for ahead, and registers run out.
const UNROLLED: usize = 4;

/// Distances in elements: between problems, heads, lines (queries, keys), and along a line.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct AttentionStrides {
    /// Of the queries.
    pub q: [usize; 4],
    /// Of the keys.
    pub k: [usize; 4],
    /// Of the values.
    pub v: [usize; 4],
}

/// `out ← softmax(Q Kᵀ · factor / log₂ e) V` for each head, and `log_sums` the natural logarithms of the sums of
/// exponentials, if there is room for them.
///
/// `out` has the heads one after another, each in C order, and so has `log_sums`, or it is empty. A query that sees no key has the
/// result 0 and the logarithm −∞. The grid has one axis, with a block for each tile of [`ROWS`] queries. Where the operands do not
/// lie within their arrays, or the shape has more than [`max_dim`] elements a line, nothing is written.
#[kernel(T = [f32, bf16, f16], C = [8, 16, 32], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn attention<T: Num<Wide = f32>, const C: usize>(
    q: &[T],
    k: &[T],
    v: &[T],
    out: SliceMut<'_, T>,
    log_sums: SliceMut<'_, f32>,
    shape: AttentionShape,
    strides: AttentionStrides,
    factor: f32,
) {
    if thread::block_dim_x() as usize != THREADS
        || !shape.is_valid(ROWS as u32)
        || shape.dim as usize > max_dim(C)
        || !fits(&shape, &strides, [q.len(), k.len(), v.len(), out.len()])
    {
        return;
    }
    let Some(tile) = shape.tile(thread::block_idx_x(), ROWS as u32) else {
        return;
    };
    let shared = shared_array![f32; 2 * STAGE + THREADS / 32 * WEIGHTS];
    let key_head = shape.key_head(tile.head);
    let block = Block {
        q: Operand::new(q, strides.q, [tile.batch, tile.head], shape.queries, shape.dim),
        k: Operand::new(k, strides.k, [tile.batch, key_head], shape.keys, shape.dim),
        v: Operand::new(v, strides.v, [tile.batch, key_head], shape.keys, shape.dim),
        shape,
        tile,
        factor,
        shared,
    };
    let rows = block.rows::<C>();
    block.store(&rows, out, log_sums);
}

/// Whether the operands lie within arrays of these lengths.
#[inline(always)]
fn fits(shape: &AttentionShape, strides: &AttentionStrides, [q, k, v, out]: [usize; 4]) -> bool {
    let of = |x: u32| x as usize;
    let key_heads = of(shape.key_head(shape.heads));
    let queries = [of(shape.batch), of(shape.heads), of(shape.queries), of(shape.dim)];
    let keys = [of(shape.batch), key_heads, of(shape.keys), of(shape.dim)];
    let within = |span: Option<usize>, len| span.is_some_and(|span| span <= len);
    let elements = queries[..3]
        .iter()
        .try_fold(of(shape.dim), |product, &n| product.checked_mul(n));
    within(span(queries, strides.q), q)
        && within(span(keys, strides.k), k)
        && within(span(keys, strides.v), v)
        && within(elements, out)
}

/// The lines of one head of an operand.
struct Operand<'a, T> {
    elements: &'a [T],
    /// The first element.
    first: usize,
    /// Distances between lines, and along them.
    strides: [usize; 2],
    lines: u32,
    dim: u32,
    /// Whether four neighbours of a line are one access.
    wide: bool,
}

impl<'a, T: Num<Wide = f32>> Operand<'a, T> {
    #[inline(always)]
    fn new(elements: &'a [T], strides: [usize; 4], [batch, head]: [u32; 2], lines: u32, dim: u32) -> Self {
        let whole = |x: usize| x.is_multiple_of(4);
        let [of_batch, of_head, line, along] = strides;
        Self {
            elements,
            // In bounds, as `fits` asked; of a head without lines it may wrap around, and is not used.
            first: (batch as usize)
                .wrapping_mul(of_batch)
                .wrapping_add((head as usize).wrapping_mul(of_head)),
            strides: [line, along],
            lines,
            dim,
            wide: along == 1
                && whole(line)
                && whole(of_head)
                && whole(of_batch)
                && dim.is_multiple_of(4)
                && elements.is_vec_aligned::<4>(),
        }
    }

    /// Four neighbours of a line, from `at` on, which is a multiple of 4; zeros where there is none.
    #[inline(always)]
    fn load(&self, line: u32, at: u32) -> [f32; 4] {
        if line >= self.lines || at >= self.dim {
            return [0.0; 4];
        }
        let [of_line, along] = self.strides;
        let index = self.first + line as usize * of_line + at as usize * along;
        // SAFETY (of both): the line and the places in it are the operand's, which `fits` found to lie in `elements`. A wide one has a
        // multiple of four of them side by side, and all offsets are multiples of four, as the array's start is aligned.
        if self.wide {
            let [a, b, c, d] = unsafe { self.elements.load_vec_unchecked::<4>(index) };
            return [a.widen(), b.widen(), c.widen(), d.widen()];
        }
        let element = |i: usize| {
            if at + (i as u32) < self.dim {
                let [element] = unsafe { self.elements.load_vec_unchecked::<1>(index + i * along) };
                element.widen()
            } else {
                0.0
            }
        };
        [element(0), element(1), element(2), element(3)]
    }
}

/// What the threads of a block have in common.
struct Block<'a, T> {
    q: Operand<'a, T>,
    k: Operand<'a, T>,
    v: Operand<'a, T>,
    shape: AttentionShape,
    tile: Tile,
    factor: f32,
    /// Two stages, and the weights of the warps.
    shared: Shared<f32>,
}

/// What a lane has of its four queries: the greatest score, and its part of the sum of weights and of weighted values.
struct Rows<const C: usize> {
    max: [f32; LANE_ROWS],
    sum: [f32; LANE_ROWS],
    values: [[f32; C]; LANE_ROWS],
}

impl<T: Num<Wide = f32>> Block<'_, T> {
    /// The first of the lane's queries in the tile.
    #[inline(always)]
    fn lane_row() -> u32 {
        let t = thread::thread_idx_x();
        t / 32 * WARP_ROWS as u32 + t % 32 / 8 * LANE_ROWS as u32
    }

    /// Goes over the keys that the block's queries see.
    #[inline(always)]
    fn rows<const C: usize>(&self) -> Rows<C> {
        let mut rows = Rows {
            max: [f32::NEG_INFINITY; LANE_ROWS],
            sum: [0.0; LANE_ROWS],
            values: [[0.0; C]; LANE_ROWS],
        };
        let end = self.shape.visible_to_tile(self.tile.row, ROWS as u32);
        let (mut key, mut stage) = (0, 0);
        while key < end {
            let mut scores = self.scores::<C>(key, &mut stage);
            self.hide(&mut scores, key);
            self.weigh(&mut scores, &mut rows);
            self.put_weights(&scores);
            self.add_values(key, end, &mut stage, &mut rows);
            key += KEYS as u32;
        }
        rows
    }

    /// The lane's scores with the keys from `key` on, times `factor`.
    #[inline(always)]
    fn scores<const C: usize>(&self, key: u32, stage: &mut usize) -> [[f32; LANE_KEYS]; LANE_ROWS] {
        let x = (thread::thread_idx_x() % 8) as usize * 4;
        let row = Self::lane_row() as usize;
        let mut scores = [[0.0f32; LANE_KEYS]; LANE_ROWS];
        let mut next = [[[0.0; 4]; 2]; 2];
        if loads_ahead(C) {
            next = self.load_chunk(key, 0);
        }
        let mut at = 0;
        while at < self.shape.dim {
            if !loads_ahead(C) {
                next = self.load_chunk(key, at);
            }
            self.store_chunk(*stage, next);
            thread::sync_threads();
            if loads_ahead(C) && at + (CHUNK as u32) < self.shape.dim {
                next = self.load_chunk(key, at + CHUNK as u32);
            }
            let mut line = *stage;
            let end = line + hint::opaque((CHUNK * PITCH) as u32) as usize;
            while line < end {
                unroll!(UNROLLED, _step => {
                    // SAFETY (of all): within the chunks of `Q` and `K` of a stage, at multiples of 4.
                    let q: [f32; 4] = unsafe { self.shared.get_vec_unchecked(line + row) };
                    let of_k = line + CHUNK * PITCH + x;
                    let k: [[f32; 4]; 2] = unsafe {
                        [self.shared.get_vec_unchecked(of_k), self.shared.get_vec_unchecked(of_k + 32)]
                    };
                    unroll!(4, i => {
                        unroll!(8, j => {
                            scores[i][j] = Float::mul_add(q[i], k[j / 4][j % 4], scores[i][j]);
                        });
                    });
                    line += PITCH;
                });
            }
            // Two stages and one barrier for each: who writes into a stage has passed the barrier behind its last reads.
            *stage = STAGE - *stage;
            at += CHUNK as u32;
        }
        unroll!(4, i => {
            unroll!(8, j => {
                scores[i][j] *= self.factor;
            });
        });
        scores
    }

    /// This thread's part of a chunk of `Q` and of one of `K`, from element `at` of their lines on.
    #[inline(always)]
    fn load_chunk(&self, key: u32, at: u32) -> [[[f32; 4]; 2]; 2] {
        let of = |operand: &Operand<'_, T>, first: u32, i: u32| {
            let [line, part] = Self::place_in_chunk(i);
            operand.load(first + line, at + part)
        };
        let row = self.tile.row;
        [
            [of(&self.q, row, 0), of(&self.q, row, 1)],
            [of(&self.k, key, 0), of(&self.k, key, 1)],
        ]
    }

    /// The line, and the place in it, of access `i` of the thread to a chunk.
    #[inline(always)]
    fn place_in_chunk(i: u32) -> [u32; 2] {
        let number = thread::thread_idx_x() + i * THREADS as u32;
        [number / (CHUNK as u32 / 4), number % (CHUNK as u32 / 4) * 4]
    }

    /// Puts what [`load_chunk`](Self::load_chunk) gave into a stage, with the lines side by side.
    #[inline(always)]
    fn store_chunk(&self, stage: usize, chunks: [[[f32; 4]; 2]; 2]) {
        unroll!(2, of => {
            unroll!(2, i => {
                let [line, part] = Self::place_in_chunk(i as u32);
                let to = stage + (of * CHUNK + part as usize) * PITCH + line as usize;
                unroll!(4, j => {
                    // SAFETY: within the chunk: 16 lines of 64 and a rest.
                    unsafe { self.shared.set_unchecked(to + j * PITCH, chunks[of][i][j]) };
                });
            });
        });
    }

    /// Takes the scores of keys that a query does not see for −∞.
    #[inline(always)]
    fn hide(&self, scores: &mut [[f32; LANE_KEYS]; LANE_ROWS], key: u32) {
        if key + KEYS as u32 <= self.shape.visible(self.tile.row) {
            return;
        }
        let first = key + thread::thread_idx_x() % 8 * 4;
        unroll!(4, i => {
            let end = self.shape.visible(self.tile.row + Self::lane_row() + i as u32);
            unroll!(8, j => {
                if first + (j / 4 * 32 + j % 4) as u32 >= end {
                    scores[i][j] = f32::NEG_INFINITY;
                }
            });
        });
    }

    /// Makes weights of the scores, and brings the sums to the new greatest scores.
    #[inline(always)]
    fn weigh<const C: usize>(&self, scores: &mut [[f32; LANE_KEYS]; LANE_ROWS], rows: &mut Rows<C>) {
        unroll!(4, i => {
            let mut max = rows.max[i];
            unroll!(8, j => {
                max = Float::maximum_number(max, scores[i][j]);
            });
            max = Float::maximum_number(max, warp::shuffle_xor(warp::FULL_MASK, max, 1));
            max = Float::maximum_number(max, warp::shuffle_xor(warp::FULL_MASK, max, 2));
            max = Float::maximum_number(max, warp::shuffle_xor(warp::FULL_MASK, max, 4));
            // Without a key yet, or with scores of −∞ alone, nothing is to be subtracted: ∞ − ∞ is no number.
            let base = if max == f32::NEG_INFINITY { 0.0 } else { max };
            let factor = Float::exp2(rows.max[i] - base);
            rows.max[i] = max;
            rows.sum[i] *= factor;
            unroll!(8, j => {
                scores[i][j] = Float::exp2(scores[i][j] - base);
                rows.sum[i] += scores[i][j];
            });
            for column in 0..C {
                rows.values[i][column] *= factor;
            }
        });
    }

    /// The weights of this thread's warp.
    #[inline(always)]
    fn weights() -> usize {
        2 * STAGE + (thread::thread_idx_x() / 32) as usize * WEIGHTS
    }

    /// Hands the weights to the other lanes of the warp.
    #[inline(always)]
    fn put_weights(&self, weights: &[[f32; LANE_KEYS]; LANE_ROWS]) {
        let lane = (thread::thread_idx_x() % 32) as usize;
        let to = Self::weights() + lane / 8 * LANE_ROWS;
        unroll!(8, j => {
            let key = j / 4 * 32 + lane % 8 * 4 + j % 4;
            let column = [weights[0][j], weights[1][j], weights[2][j], weights[3][j]];
            // SAFETY: within the warp's weights, at a multiple of 4. What they were before, all lanes have read: barriers of the block
            // stand behind those reads.
            unsafe { self.shared.set_vec_unchecked(to + key * WEIGHTS_PITCH, column) };
        });
        warp::sync_warp(warp::FULL_MASK);
    }

    /// Adds the values of the keys from `key` on, times their weights.
    #[inline(always)]
    fn add_values<const C: usize>(&self, key: u32, end: u32, stage: &mut usize, rows: &mut Rows<C>) {
        let keys = VALUES / max_dim(C);
        let lane = (thread::thread_idx_x() % 32) as usize;
        let (weights, x) = (Self::weights() + lane / 8 * LANE_ROWS, lane % 8 * 4);
        let mut next = [[0.0; 4]; VALUES / 4 / THREADS];
        if loads_ahead(C) {
            next = self.load_values::<C>(key);
        }
        let mut at = 0;
        while at < KEYS && key + (at as u32) < end {
            if !loads_ahead(C) {
                next = self.load_values::<C>(key + at as u32);
            }
            self.store_values::<C>(*stage, next);
            thread::sync_threads();
            if loads_ahead(C) && at + keys < KEYS {
                next = self.load_values::<C>(key + (at + keys) as u32);
            }
            let (mut of_weights, mut line) = (weights + at * WEIGHTS_PITCH, *stage + x);
            let end = line + hint::opaque(VALUES as u32) as usize;
            while line < end {
                unroll!(UNROLLED, _step => {
                    // SAFETY (of both): within the warp's weights, and the values of a stage, at multiples of 4.
                    let weight: [f32; LANE_ROWS] = unsafe { self.shared.get_vec_unchecked(of_weights) };
                    unroll!(C / 4, part => {
                        let value: [f32; 4] = unsafe { self.shared.get_vec_unchecked(line + part * 32) };
                        unroll!(4, i => {
                            unroll!(4, j => {
                                let sum = &mut rows.values[i][part * 4 + j];
                                *sum = Float::mul_add(weight[i], value[j], *sum);
                            });
                        });
                    });
                    of_weights += WEIGHTS_PITCH;
                    line += max_dim(C);
                });
            }
            *stage = STAGE - *stage;
            at += keys;
        }
    }

    /// The line, and the place in it, of access `i` of the thread to a chunk of `V`.
    #[inline(always)]
    fn place_in_values<const C: usize>(i: u32) -> [u32; 2] {
        let number = thread::thread_idx_x() + i * THREADS as u32;
        [number / (2 * C as u32), number % (2 * C as u32) * 4]
    }

    /// This thread's part of the values from `key` on, as many as a stage has room for.
    #[inline(always)]
    fn load_values<const C: usize>(&self, key: u32) -> [[f32; 4]; VALUES / 4 / THREADS] {
        let load = |i: u32| {
            let [line, part] = Self::place_in_values::<C>(i);
            self.v.load(key + line, part)
        };
        [load(0), load(1), load(2), load(3)]
    }

    /// Puts them into a stage.
    #[inline(always)]
    fn store_values<const C: usize>(&self, stage: usize, values: [[f32; 4]; VALUES / 4 / THREADS]) {
        unroll!(4, i => {
            let [line, part] = Self::place_in_values::<C>(i as u32);
            let to = stage + line as usize * max_dim(C) + part as usize;
            // SAFETY: within the stage, at a multiple of 4.
            unsafe { self.shared.set_vec_unchecked(to, values[i]) };
        });
    }

    /// Divides the sums, and stores them.
    #[inline(always)]
    fn store<const C: usize>(&self, rows: &Rows<C>, out: SliceMut<'_, T>, log_sums: SliceMut<'_, f32>) {
        let x = (thread::thread_idx_x() % 8) as usize * 4;
        let dim = self.shape.dim as usize;
        let wide = dim.is_multiple_of(4) && out.is_vec_aligned::<4>();
        let head = (self.tile.batch * self.shape.heads + self.tile.head) as usize;
        unroll!(4, i => {
            let sum = rows.sum[i];
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 1);
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 2);
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 4);
            let row = self.tile.row + Self::lane_row() + i as u32;
            if row < self.shape.queries {
                let line = head * self.shape.queries as usize + row as usize;
                if x == 0 && line < log_sums.len() {
                    log_sums.set(line, (rows.max[i] + Float::log2(sum)) * core::f32::consts::LN_2);
                }
                let factor = 1.0 / sum;
                unroll!(C / 4, part => {
                    let column = part * 32 + x;
                    let value = |j: usize| T::narrow(if sum == 0.0 { 0.0 } else { rows.values[i][part * 4 + j] * factor });
                    let values = [value(0), value(1), value(2), value(3)];
                    if wide && column < dim {
                        // SAFETY: in the line, which is in `out` as `fits` asked, and has a multiple of four elements.
                        unsafe { out.set_vec_unchecked(line * dim + column, values) };
                    } else {
                        unroll!(4, j => {
                            if column + j < dim {
                                // SAFETY: as above; a vector of one is aligned like its element.
                                unsafe { out.set_vec_unchecked(line * dim + column + j, [values[j]]) };
                            }
                        });
                    }
                });
            }
        });
    }
}
