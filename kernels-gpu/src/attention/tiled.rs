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
use cuda_std::prelude::*;

use self::products::{KeptOperand, Operand, Products, Scores};
use super::{AttentionShape, Sequence, Tile, base};
use crate::matmul::{span, unroll};
use crate::num::Num;

pub mod gradients;
mod products;

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

/// Elements of the weights of a warp.
const WEIGHTS: usize = KEYS * (WARP_ROWS + 4);

/// Elements of a block's shared memory: two stages, and the weights of the warps.
const SHARED: usize = STAGES + THREADS / 32 * WEIGHTS;

/// Elements of the two stages.
const STAGES: usize = 2 * STAGE;

/// The greatest head dimension for which a lane has `columns` of a result.
pub const fn max_dim(columns: usize) -> usize {
    8 * columns
}

/// Blocks that a multiprocessor holds at a time: 255 registers a thread.
const BLOCKS: usize = 2;

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
    /// Of what is added to scores: between problems, heads, queries, keys.
    pub bias: [usize; 4],
}

/// `out ← softmax(Q Kᵀ · factor / log₂ e) V` for each head, and `log_sums` the natural logarithms of the sums of
/// exponentials, if there is room for them. To scores, times the factor, `bias / log₂ e` is added, unless it is empty. `sequences` are as
/// [`AttentionShape::sequence`] has them, none or some; of packed ones there is no bias.
///
/// `out` has the heads one after another, each in C order, and so has `log_sums`, or it is empty. A query that sees no key has the
/// result 0 and the logarithm −∞. The grid has one axis, with a block for each tile of [`ROWS`] queries. Where the operands do not
/// lie within their arrays, or the shape has more than [`max_dim`] elements a line, nothing is written.
#[kernel(T = [f32, bf16, f16], C = [8, 16, 32], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn attention<T: Num<Wide = f32>, const C: usize>(
    q: &[T],
    k: &[T],
    v: &[T],
    bias: &[T],
    sequences: &[u32],
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
        || !fits_bias(&shape, &strides, bias.len())
        || !shape.fits_sequences(sequences)
    {
        return;
    }
    let Some(tile) = shape.tile(thread::block_idx_x(), ROWS as u32) else {
        return;
    };
    // SAFETY: as just asked.
    let Some((sequence, tile)) = (unsafe { shape.sequence_of_tile(sequences, tile, ROWS as u32) }) else {
        return;
    };
    let shared = shared_array![f32; SHARED];
    let kept = KeptSequence::new(shared_array![u32; KeptSequence::WORDS], sequence);
    let key_head = shape.key_head(tile.head);
    let operands = [
        Operand::new(q, strides.q, [tile.batch, tile.head], shape.dim).of_queries(&sequence),
        Operand::new(k, strides.k, [tile.batch, key_head], shape.dim).of_keys(&sequence),
        Operand::new(v, strides.v, [tile.batch, key_head], shape.dim).of_keys(&sequence),
        Operand::new(bias, strides.bias, [tile.batch, tile.head], shape.keys).of_queries(&sequence),
    ];
    let [q, k, v, bias_of_head] = KeptOperand::keep(shared_array![u32; 4 * KeptOperand::<f32>::WORDS], operands);
    let mut block = Block {
        q,
        k,
        v,
        bias: bias_of_head,
        has_bias: !bias.is_empty(),
        shape,
        sequence: kept,
        tile,
        factor,
        products: Products::new(shared),
    };
    let rows = block.rows::<C>();
    block.store(&rows, out, log_sums);
}

/// Whether the operands lie within arrays of these lengths.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) fn fits(shape: &AttentionShape, strides: &AttentionStrides, [q, k, v, out]: [usize; 4]) -> bool {
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

/// Whether what is added to scores lies within so many elements, or there is none.
#[inline(always)]
pub(super) fn fits_bias(shape: &AttentionShape, strides: &AttentionStrides, len: usize) -> bool {
    let scores = cuda_std::array::map([shape.batch, shape.heads, shape.queries, shape.keys], |n| n as usize);
    len == 0 || (shape.packed == 0 && span(scores, strides.bias).is_some_and(|span| span <= len))
}

/// A block's sequence in shared memory, for there are no registers for it beside the products.
#[derive(Clone, Copy)]
pub(super) struct KeptSequence(Shared<u32>);

impl KeptSequence {
    const WORDS: usize = 6;

    /// Keeps it in so many words, which nobody reads any more. For all threads of the block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new(kept: Shared<u32>, sequence: Sequence) -> Self {
        let words = [
            sequence.first_query,
            sequence.queries,
            sequence.first_key,
            sequence.keys,
            sequence.from as u32,
            sequence.reach as u32,
        ];
        if thread::thread_idx_x() == 0 {
            for i in 0..Self::WORDS {
                // SAFETY: there are as many.
                unsafe { kept.set_unchecked(i, words[i]) };
            }
        }
        thread::sync_threads();
        Self(kept)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn get(&self) -> Sequence {
        // SAFETY: there are as many.
        let word = |i: usize| unsafe { self.0.get_unchecked(i) };
        Sequence {
            first_query: word(0),
            queries: word(1),
            first_key: word(2),
            keys: word(3),
            from: word(4) as i32,
            reach: word(5) as i32,
        }
    }
}

/// What the threads of a block have in common.
struct Block<'a, T> {
    q: KeptOperand<'a, T>,
    k: KeptOperand<'a, T>,
    v: KeptOperand<'a, T>,
    /// A line for each query, with an element for each key.
    bias: KeptOperand<'a, T>,
    has_bias: bool,
    shape: AttentionShape,
    sequence: KeptSequence,
    tile: Tile,
    factor: f32,
    products: Products,
}

/// What a lane has of its four queries: the greatest score, and its part of the sum of weights and of weighted values.
struct Rows<const C: usize> {
    max: [f32; LANE_ROWS],
    sum: [f32; LANE_ROWS],
    values: [[f32; C]; LANE_ROWS],
}

impl<T: Num<Wide = f32>> Block<'_, T> {
    /// Goes over the keys that the block's queries see.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn rows<const C: usize>(&mut self) -> Rows<C> {
        let mut rows = Rows {
            max: [f32::NEG_INFINITY; LANE_ROWS],
            sum: [0.0; LANE_ROWS],
            values: [[0.0; C]; LANE_ROWS],
        };
        let [begin, end] = self.sequence.get().keys_of_tile(self.tile.row, ROWS as u32);
        // Four neighbours of a line are one access.
        let mut key = begin / 4 * 4;
        while key < end {
            let mut scores = self
                .products
                .scores::<T, C>(self.shape.dim, [(&self.q, self.tile.row), (&self.k, key)]);
            if self.has_bias {
                products::add_bias(&mut scores, self.factor, &self.bias, (self.tile.row, key));
            } else {
                unroll!(4, i => {
                    unroll!(8, j => {
                        scores[i][j] *= self.factor;
                    });
                });
            }
            self.hide(&mut scores, key);
            weigh(&mut scores, &mut rows);
            self.products.put_weights(&scores);
            self.products.add(&mut rows.values, &self.v, key, end);
            key += KEYS as u32;
        }
        rows
    }

    /// Takes the scores of keys that a query does not see for −∞.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn hide(&self, scores: &mut Scores, key: u32) {
        let sequence = self.sequence.get();
        let sees_all =
            key + KEYS as u32 <= sequence.end(self.tile.row) && key >= sequence.begin(self.tile.row + ROWS as u32 - 1);
        if sees_all {
            return;
        }
        unroll!(4, i => {
            let row = self.tile.row + Products::lane_row() + i as u32;
            let (begin, end) = (sequence.begin(row), sequence.end(row));
            unroll!(8, j => {
                let key = key + Products::lane_key(j);
                if key < begin || key >= end {
                    scores[i][j] = f32::NEG_INFINITY;
                }
            });
        });
    }

    /// Divides the sums, and stores them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store<const C: usize>(&self, rows: &Rows<C>, out: SliceMut<'_, T>, log_sums: SliceMut<'_, f32>) {
        let dim = self.shape.dim as usize;
        let head = (self.tile.batch * self.shape.heads + self.tile.head) as usize;
        let sequence = self.sequence.get();
        unroll!(4, i => {
            let sum = rows.sum[i];
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 1);
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 2);
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 4);
            let row = self.tile.row + Products::lane_row() + i as u32;
            if row < sequence.queries {
                let line = head * self.shape.queries as usize + (sequence.first_query + row) as usize;
                if thread::thread_idx_x().is_multiple_of(8) && line < log_sums.len() {
                    log_sums.set(line, (rows.max[i] + Float::log2(sum)) * core::f32::consts::LN_2);
                }
                let factor = if sum == 0.0 { None } else { Some(1.0 / sum) };
                // SAFETY: `fits` found all lines in `out`.
                unsafe { products::store(&out, (line * dim, dim), &rows.values[i], factor) };
            }
        });
    }
}

/// Makes weights of the scores, and brings the sums to the new greatest scores.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn weigh<const C: usize>(scores: &mut Scores, rows: &mut Rows<C>) {
    unroll!(4, i => {
        let mut max = rows.max[i];
        unroll!(8, j => {
            max = Float::maximum_number(max, scores[i][j]);
        });
        max = Float::maximum_number(max, warp::shuffle_xor(warp::FULL_MASK, max, 1));
        max = Float::maximum_number(max, warp::shuffle_xor(warp::FULL_MASK, max, 2));
        max = Float::maximum_number(max, warp::shuffle_xor(warp::FULL_MASK, max, 4));
        let base = base(max);
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
