// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradient of what is added to scores: the gradients of the scores, `S' = P ∘ (G Vᵀ − δ)` ([`gradients`](super)), summed over the
//! axes along which the bias is repeated, as [`bias_plan`](crate::attention::bias_plan) has it.
//!
//! `4 d` operations for each pair of a query and a key in a tile in which a query sees a key. There are no sums of lines here, so that one
//! kernel does for all head dimensions.

use cuda_std::prelude::*;

use super::super::STAGES;
use super::*;
use crate::attention::bias_plan::{BiasPlan, BiasTile, WARP_QUERIES};

/// Queries and keys of a block's tile.
pub const TILE: [u32; 2] = [ROWS as u32, KEYS as u32];

/// The sums of the gradients of scores of [`attention`](super::super::attention()) over axes along which `bias` is repeated, of the shape
/// that [`BiasPlan::sums`] says, in C order. What it is given besides is as for [`attention_gradients`](attention_gradients()), and sequences are not packed.
///
/// The grid has one axis, with as many blocks as [`BiasPlan::blocks`] says. Where the operands do not lie within their arrays, there is no
/// bias, or the plan is none for the shape, nothing is written.
#[kernel(max_threads = THREADS, min_blocks = BLOCKS)]
pub fn attention_bias_gradient(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    grad: &[f32],
    log_sums: &[f32],
    deltas: &[f32],
    bias: &[f32],
    sequences: &[u32],
    out: SliceMut<'_, f32>,
    shape: AttentionShape,
    strides: GradientStrides,
    plan: BiasPlan,
    factor: f32,
) {
    // There are no other results, whose lengths would be asked.
    const NONE: usize = usize::MAX;
    if thread::block_dim_x() as usize != THREADS
        || !shape.is_valid(ROWS as u32)
        || !fits(&shape, &strides.attention, [q.len(), k.len(), v.len(), NONE])
        || !fit(
            &shape,
            strides.grad,
            [grad.len(), log_sums.len(), deltas.len(), NONE, NONE],
        )
        || bias.is_empty()
        || !fits_bias(&shape, &strides.attention, bias.len())
        || !shape.fits_sequences(sequences)
        || plan.tile != TILE
        || !plan.fits(&shape, out.len())
    {
        return;
    }
    let Some(place) = BiasTile::of_block(thread::block_idx_x(), &plan, &shape) else {
        return;
    };
    let shared = shared_array![f32; STAGES];
    let (words, of_sequence) = (
        shared_array![u32; 5 * KeptOperand::<f32>::WORDS],
        shared_array![u32; KeptSequence::WORDS],
    );
    let (row, at) = (place.tile[0] * ROWS as u32, place.tile[1] * KEYS as u32);
    let mut sums: Scores = [[0.0; LANE_KEYS]; LANE_ROWS];
    let mut products = Products::new(shared);
    let mut pair = place.pairs[0];
    while pair < place.pairs[1] {
        let [batch, head] = place.pair(pair);
        pair += 1;
        // SAFETY: `fits_sequences`, as asked.
        let of_problem = unsafe { shape.sequence(sequences, Lines::Queries, batch, (row, ROWS as u32)) };
        let Some((sequence, _)) = of_problem else { continue };
        let [begin, end] = sequence.keys_of_tile(row, ROWS as u32);
        if at >= end || at + KEYS as u32 <= begin {
            continue;
        }
        // The one before has been read.
        thread::sync_threads();
        let mut block = Block {
            log_sums,
            deltas,
            shape,
            part: Part {
                of: Of::Queries,
                batch,
                head,
                row,
            },
            sequence: KeptSequence::new(of_sequence, sequence),
            factor,
            products,
        };
        let key_head = shape.key_head(head);
        let of = |elements, strides, head| Operand::<f32>::new(elements, strides, [batch, head], shape.dim);
        let operands = [
            of(q, strides.attention.q, head).of_queries(&sequence),
            of(grad, strides.grad, head).of_queries(&sequence),
            of(k, strides.attention.k, key_head).of_keys(&sequence),
            of(v, strides.attention.v, key_head).of_keys(&sequence),
            Operand::new(bias, strides.attention.bias, [batch, head], shape.keys).of_queries(&sequence),
        ];
        let [q, grad, k, v, added] = KeptOperand::keep(words, operands);
        let gradients = block.weights::<8>(([q, grad], [k, v]), Some(added), (head, at), false);
        products = block.products;
        unroll!(4, i => {
            unroll!(8, j => {
                sums[i][j] += gradients[i][j];
            });
        });
    }
    store(sums, out, &shape, &plan, &place);
}

/// Sums what is to be summed of a tile, and stores it.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn store(mut sums: Scores, out: SliceMut<'_, f32>, shape: &AttentionShape, plan: &BiasPlan, place: &BiasTile) {
    let [over_queries, over_keys] = plan.is_over(shape);
    let [.., lines, columns] = cuda_std::array::map(plan.sums(shape), |n| n as usize);
    if over_queries {
        unroll!(8, j => {
            let sum = (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]);
            sums[0][j] = with_lane(with_lane(sum, 8), 16);
        });
    }
    if over_keys {
        unroll!(4, i => {
            let mut sum = 0.0;
            unroll!(8, j => {
                sum += sums[i][j];
            });
            sums[i][0] = with_lane(with_lane(with_lane(sum, 1), 2), 4);
        });
    }
    let thread = thread::thread_idx_x();
    let head = place.head as usize * lines;
    unroll!(4, i => {
        let (line, is_own) = match over_queries {
            true => (place.tile[0] * (ROWS as u32 / WARP_QUERIES) + thread / 32, i == 0 && thread % 32 < 8),
            false => {
                let row = place.tile[0] * ROWS as u32 + Products::lane_row() + i as u32;
                (row, row < shape.queries)
            }
        };
        let at = (head + line as usize) * columns;
        if is_own && over_keys && thread.is_multiple_of(8) {
            // SAFETY: `BiasPlan::fits` found all lines in `out`; a single element is always aligned.
            unsafe { out.set_vec_unchecked(at + place.tile[1] as usize, [sums[i][0]]) };
        } else if is_own && !over_keys {
            let key = place.tile[1] as usize * KEYS;
            // SAFETY: as above: the rest of the line.
            unsafe { products::store(&out, (at + key, columns - key), &sums[i], Some(1.0)) };
        }
    });
}

/// The sum of the lane's number and that of the lane with another bit.
#[inline(always)]
fn with_lane(x: f32, bit: u32) -> f32 {
    x + warp::shuffle_xor(warp::FULL_MASK, x, bit)
}
