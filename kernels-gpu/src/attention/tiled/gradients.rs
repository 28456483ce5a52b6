// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of attention on ordinary cores, in f32. Those of elements of 16 bits go by way of arrays of f32, which has the bits that
//! kernels of their own would have: all is computed in f32, and rounded once.
//!
//! As in FlashAttention-2 (T. Dao, 2023), the weights `P` are computed anew from the scores and the logarithms of the sums of
//! exponentials, and no matrix of them is in memory. With the incoming gradient `G`, and for each query the product `δ` of its line of `G`
//! and its result, the gradient of the scores is `S' = P ∘ (G Vᵀ − δ)`, and
//!
//! * `dV = Pᵀ G`,
//! * `dK = scale · S'ᵀ Q`,
//! * `dQ = scale · S' K`.
//!
//! Each is a sum over lines of scores, so that a block has [`ROWS`] lines of one of the three, and walks over all that they are
//! summed over: for `dQ` over the keys, for the others over the queries of all heads that share the keys. Nobody adds to what another
//! adds to, and the bits are the same each time. The price is that scores are computed three times, and `G Vᵀ` twice: `16 d` operations
//! for each pair of a query and a key, where `10 d` is the least.

use cuda_std::prelude::*;

use super::products::{self, KeptOperand, Operand, Products, Scores};
use super::{
    AttentionStrides, BLOCKS, KEYS, KeptSequence, LANE_KEYS, LANE_ROWS, ROWS, SHARED, THREADS, fits, fits_bias, max_dim,
};
use crate::attention::{AttentionShape, Lines, MAX_TILES, Sequence};
use crate::matmul::{span, unroll};

pub mod bias;

/// Blocks of the kernel: one for each tile of [`ROWS`] lines of the three gradients, if a grid has as many.
#[inline(always)]
pub fn blocks(shape: &AttentionShape) -> Option<u32> {
    let heads = shape.batch.checked_mul(shape.heads.checked_div(shape.sharing)?)?;
    let of_keys = heads
        .checked_mul(shape.blocks(shape.keys, ROWS as u32))?
        .checked_mul(2)?;
    let blocks = shape.tiles(ROWS as u32).checked_add(of_keys)?;
    (blocks <= MAX_TILES).then_some(blocks)
}

/// The strides of the operands of gradients.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct GradientStrides {
    /// Of those of attention.
    pub attention: AttentionStrides,
    /// Of the gradient with respect to the result.
    pub grad: [usize; 4],
}

/// The gradients of [`attention`](super::attention()) with respect to `q`, `k` and `v`, where the gradient with respect to its result is
/// `grad`. `log_sums` are the logarithms that it gave, and `deltas` the products of `grad` and its result, for each query.
///
/// All results have the heads one after another, each in C order, and so have `log_sums` and `deltas`. Scores are multiplied by `factor` to be exponents of 2, and by `scale` to be those of e;
/// `bias` and `sequences` are as there. A query whose logarithm is −∞ sees no key. The grid has one axis, with as many blocks as [`blocks`] says. Where the operands do not lie within their arrays, or the
/// shape has more than [`max_dim`] elements a line, nothing is written.
#[kernel(C = [8, 16, 32], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn attention_gradients<const C: usize>(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    grad: &[f32],
    log_sums: &[f32],
    deltas: &[f32],
    bias: &[f32],
    sequences: &[u32],
    dq: SliceMut<'_, f32>,
    dk: SliceMut<'_, f32>,
    dv: SliceMut<'_, f32>,
    shape: AttentionShape,
    strides: GradientStrides,
    [factor, scale]: [f32; 2],
) {
    if thread::block_dim_x() as usize != THREADS
        || !shape.is_valid(ROWS as u32)
        || blocks(&shape).is_none()
        || shape.dim as usize > max_dim(C)
        || !fits(&shape, &strides.attention, [q.len(), k.len(), v.len(), dq.len()])
        || !fit(
            &shape,
            strides.grad,
            [grad.len(), log_sums.len(), deltas.len(), dk.len(), dv.len()],
        )
        || !fits_bias(&shape, &strides.attention, bias.len())
        || !shape.fits_sequences(sequences)
    {
        return;
    }
    // SAFETY: as just asked.
    let Some((part, sequence)) = (unsafe { Part::of_block(&shape, sequences) }) else {
        return;
    };
    let shared = shared_array![f32; SHARED];
    let kept = KeptSequence::new(shared_array![u32; KeptSequence::WORDS], sequence);
    let mut block = Block {
        log_sums,
        deltas,
        shape,
        part,
        sequence: kept,
        factor,
        products: Products::new(shared),
    };
    let operands = |head: u32| {
        let sequence = kept.get();
        let of = |elements, strides, head| Operand::<f32>::new(elements, strides, [part.batch, head], shape.dim);
        let [batch, of_head, query, key] = strides.attention.bias;
        let key_head = shape.key_head(head);
        let queries = [
            of(q, strides.attention.q, head).of_queries(&sequence),
            of(grad, strides.grad, head).of_queries(&sequence),
        ];
        let keys = [
            of(k, strides.attention.k, key_head).of_keys(&sequence),
            of(v, strides.attention.v, key_head).of_keys(&sequence),
        ];
        let biases = |strides, along| Operand::new(bias, strides, [part.batch, head], along);
        if part.of == Of::Queries {
            let bias = biases(strides.attention.bias, shape.keys).of_queries(&sequence);
            return [queries[0], queries[1], keys[0], keys[1], bias];
        }
        let bias = biases([batch, of_head, key, query], shape.queries).of_keys(&sequence);
        [keys[0], keys[1], queries[0], queries[1], bias]
    };
    let words = shared_array![u32; 5 * KeptOperand::<f32>::WORDS];
    // All heads of queries that have to do with the lines, and which lines of them.
    let (mut head, heads, [first, end]) = match part.of {
        Of::Queries => (part.head, 1, sequence.keys_of_tile(part.row, ROWS as u32)),
        _ => (
            part.head * shape.sharing,
            shape.sharing,
            sequence.queries_of_tile(part.row, ROWS as u32),
        ),
    };
    // Four neighbours of a line are one access.
    let first = first / 4 * 4;
    let last = head + heads;
    let mut sums = [[0.0; C]; LANE_ROWS];
    while head < last {
        let [a, b, c, d, added] = KeptOperand::keep(words, operands(head));
        let added = if bias.is_empty() { None } else { Some(added) };
        block.walk(&mut sums, head, ([a, b], [c, d]), added, (first, end));
        head += 1;
    }
    match part.of {
        Of::Queries => block.store(&sums, dq, (shape.heads, shape.queries), scale),
        Of::Keys => block.store(&sums, dk, (shape.key_head(shape.heads), shape.keys), scale),
        Of::Values => block.store(&sums, dv, (shape.key_head(shape.heads), shape.keys), 1.0),
    }
}

/// Whether what [`fits`] was not asked for has these lengths, or more.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn fit(shape: &AttentionShape, strides_of_grad: [usize; 4], [grad, log_sums, deltas, dk, dv]: [usize; 5]) -> bool {
    let of = |x: u32| x as usize;
    let queries = [of(shape.batch), of(shape.heads), of(shape.queries), of(shape.dim)];
    let product = |lengths: [u32; 4]| {
        lengths
            .iter()
            .try_fold(1, |product: usize, &n| product.checked_mul(of(n)))
    };
    let lines = product([shape.batch, shape.heads, shape.queries, 1]);
    let keys = product([shape.batch, shape.key_head(shape.heads), shape.keys, shape.dim]);
    span(queries, strides_of_grad).is_some_and(|span| span <= grad)
        && lines.is_some_and(|lines| lines <= log_sums && lines <= deltas)
        && keys.is_some_and(|keys| keys <= dk && keys <= dv)
}

/// Of what a gradient is.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Queries,
    Keys,
    Values,
}

/// What a block computes.
#[derive(Clone, Copy)]
struct Part {
    of: Of,
    batch: u32,
    /// Of queries, or of keys and values.
    head: u32,
    /// The first line, of its sequence.
    row: u32,
}

impl Part {
    /// The block's, if there is one, and its sequence: keys and values first, on which blocks are at work for longer, the first ones of all heads ahead,
    /// which most queries see.
    ///
    /// # Safety
    ///
    /// [`fits_sequences`](AttentionShape::fits_sequences).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn of_block(shape: &AttentionShape, sequences: &[u32]) -> Option<(Self, Sequence)> {
        let key_heads = shape.key_head(shape.heads);
        let heads = shape.batch * key_heads;
        let of_keys = heads * shape.blocks(shape.keys, ROWS as u32);
        let number = thread::block_idx_x();
        if number >= 2 * of_keys {
            let tile = shape.tile(number - 2 * of_keys, ROWS as u32)?;
            // SAFETY: the caller's promise.
            let (sequence, tile) = unsafe { shape.sequence_of_tile(sequences, tile, ROWS as u32)? };
            let part = Self {
                of: Of::Queries,
                batch: tile.batch,
                head: tile.head,
                row: tile.row,
            };
            return Some((part, sequence));
        }
        let (of, number) = match number.checked_sub(of_keys) {
            Some(number) => (Of::Values, number),
            None => (Of::Keys, number),
        };
        // There are heads, since there is a tile.
        let (block, head) = (number.checked_div(heads)?, number.checked_rem(heads)?);
        let batch = head.checked_div(key_heads)?;
        let lines = (block * ROWS as u32, ROWS as u32);
        // SAFETY: the caller's promise.
        let (sequence, row) = unsafe { shape.sequence(sequences, Lines::Keys, batch, lines)? };
        let part = Self {
            of,
            batch,
            head: head.checked_rem(key_heads)?,
            row,
        };
        Some((part, sequence))
    }
}

/// What the weights of a query's keys are computed with.
#[derive(Clone, Copy)]
struct Query {
    /// The logarithm to base 2 of its sum of exponentials, or ∞ if it sees no key.
    log_sum: f32,
    /// The product of its result and gradient.
    delta: f32,
}

impl Query {
    /// None, which sees no key.
    const NONE: Self = Self {
        log_sum: f32::INFINITY,
        delta: 0.0,
    };
}

/// What the threads of a block have in common.
struct Block<'a> {
    log_sums: &'a [f32],
    deltas: &'a [f32],
    shape: AttentionShape,
    part: Part,
    sequence: KeptSequence,
    factor: f32,
    products: Products,
}

impl Block<'_> {
    /// Adds to the sums of the block's lines what those of the others add that are in that range, of a head of queries. An operand is
    /// queries and their incoming gradient, or keys and values; what is added to scores, if anything is, has a line for each of the block's.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn walk<const C: usize>(
        &mut self,
        sums: &mut [[f32; C]; LANE_ROWS],
        head: u32,
        (own, others): ([KeptOperand<'_, f32>; 2], [KeptOperand<'_, f32>; 2]),
        bias: Option<KeptOperand<'_, f32>>,
        (mut at, end): (u32, u32),
    ) {
        let is_of_values = self.part.of == Of::Values;
        let added = if is_of_values { others[1] } else { others[0] };
        while at < end {
            let weights = self.weights::<C>((own, others), bias, (head, at), is_of_values);
            self.products.put_weights(&weights);
            self.products.add(sums, &added, at, end);
            at += KEYS as u32;
        }
    }

    /// The weights of the block's lines with the others from `at` on, of a head of queries, where it is values that are summed, or else the
    /// gradients of their scores. Operands and what is added to scores are as for [`walk`](Self::walk).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn weights<const C: usize>(
        &mut self,
        (own, others): ([KeptOperand<'_, f32>; 2], [KeptOperand<'_, f32>; 2]),
        bias: Option<KeptOperand<'_, f32>>,
        (head, at): (u32, u32),
        is_of_values: bool,
    ) -> Scores {
        let (row, dim) = (self.part.row, self.shape.dim);
        let lines = |i: usize| [(&own[i], row), (&others[i], at)];
        let mut weights = self.products.scores::<f32, C>(dim, lines(0));
        let mut gradients = [[0.0; LANE_KEYS]; LANE_ROWS];
        if !is_of_values {
            gradients = self.products.scores::<f32, C>(dim, lines(1));
        }
        let mut factor = self.factor;
        if let Some(bias) = &bias {
            products::add_bias(&mut weights, factor, bias, (row, at));
            factor = 1.0;
        }
        self.weigh(&mut weights, &gradients, factor, (head, at));
        self.hide(&mut weights, at);
        weights
    }

    /// Makes weights of the scores of the block's lines with the others from `at` on, and gradients of the scores of these, where it is
    /// not values that are summed.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn weigh(&self, scores: &mut Scores, gradients: &Scores, factor: f32, (head, at): (u32, u32)) {
        let row = self.part.row + Products::lane_row();
        let (is_of_queries, is_of_values) = (self.part.of == Of::Queries, self.part.of == Of::Values);
        let sequence = self.sequence.get();
        // Columns four at a time: the lane's lines are as many.
        unroll!(2, part => {
            let mut queries = [Query::NONE; 4];
            unroll!(4, i => {
                let query = match is_of_queries {
                    true => row + i as u32,
                    false => at + Products::lane_key(4 * part + i),
                };
                queries[i] = self.query(&sequence, head, query);
            });
            unroll!(4, i => {
                unroll!(4, j => {
                    let query = if is_of_queries { queries[i] } else { queries[j] };
                    let (score, gradient) = (scores[i][4 * part + j], gradients[i][4 * part + j]);
                    let weight = Float::exp2(Float::mul_add(score, factor, -query.log_sum));
                    let of_score = weight * (gradient - query.delta);
                    let weight = if is_of_values { weight } else { of_score };
                    scores[i][4 * part + j] = if query.log_sum == f32::INFINITY { 0.0 } else { weight };
                });
            });
        });
    }

    /// Makes weights 0 of the block's lines with the others from `at` on, where a query does not see the key.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn hide(&self, weights: &mut Scores, at: u32) {
        let (own, is_of_queries) = (self.part.row, self.part.of == Of::Queries);
        let sequence = self.sequence.get();
        let (query, key) = if is_of_queries { (own, at) } else { (at, own) };
        let sees_all = key + (KEYS as u32) <= sequence.end(query) && key >= sequence.begin(query + ROWS as u32 - 1);
        if sees_all {
            return;
        }
        unroll!(4, i => {
            unroll!(8, j => {
                let (own, other) = (own + Products::lane_row() + i as u32, at + Products::lane_key(j));
                let (query, key) = if is_of_queries { (own, other) } else { (other, own) };
                if key < sequence.begin(query) || key >= sequence.end(query) {
                    weights[i][j] = 0.0;
                }
            });
        });
    }

    /// What is known of a query of that head.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn query(&self, sequence: &Sequence, head: u32, query: u32) -> Query {
        if query >= sequence.queries {
            return Query::NONE;
        }
        let head = (self.part.batch * self.shape.heads + head) as usize;
        let line = head * self.shape.queries as usize + (sequence.first_query + query) as usize;
        // SAFETY (of both): `fit` found as many elements as there are queries in all heads.
        let [log_sum] = unsafe { self.log_sums.load_vec_unchecked::<1>(line) };
        let [delta] = unsafe { self.deltas.load_vec_unchecked::<1>(line) };
        Query {
            log_sum: match log_sum == f32::NEG_INFINITY {
                true => f32::INFINITY,
                false => log_sum * core::f32::consts::LOG2_E,
            },
            delta,
        }
    }

    /// Stores the sums, times `factor`, to an array that has so many heads with so many lines: 0 of keys that are of no sequence.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store<const C: usize>(
        &self,
        sums: &[[f32; C]; LANE_ROWS],
        out: SliceMut<'_, f32>,
        (heads, lines): (u32, u32),
        factor: f32,
    ) {
        let dim = self.shape.dim as usize;
        let head = (self.part.batch * heads + self.part.head) as usize;
        let sequence = self.sequence.get();
        let (first, end) = match (self.shape.packed, self.part.of) {
            (0, _) => (0, lines),
            (_, Of::Queries) => (sequence.first_query, sequence.queries),
            _ => (sequence.first_key, sequence.keys),
        };
        unroll!(4, i => {
            let row = self.part.row + Products::lane_row() + i as u32;
            if row < end {
                let line = head * lines as usize + (first + row) as usize;
                // SAFETY: `fits` and `fit` found all lines in the array.
                unsafe { products::store(&out, (line * dim, dim), &sums[i], Some(factor)) };
            }
        });
    }
}
