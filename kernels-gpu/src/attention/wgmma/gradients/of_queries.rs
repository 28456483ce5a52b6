// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernels of gradients know of each query, ahead of them.

use core::f32::consts::LOG2_E;

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::Half;
use crate::attention::{AttentionShape, divide};
use crate::matmul::unroll;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Elements of a lane.
const ELEMENTS: usize = 8;

/// Queries of a block, all of one head: a thread for each `ELEMENTS` of them.
pub const fn queries(dim: u32) -> u32 {
    THREADS as u32 / lanes(dim)
}

const fn lanes(dim: u32) -> u32 {
    if dim > 64 { 16 } else { 8 }
}

/// For each query the logarithm to base 2 of its sum of exponentials, of the natural one, or ∞ if it sees no key, and behind these for each query the
/// product of its result and the gradient with respect to that.
///
/// # Safety
///
/// A block has [`THREADS`] threads; the grid has one axis, with a block for each [`queries`] of a head, or fewer. The head dimension is 64 or 128. `out` and
/// `grad` have a line for each query at the distances that are said of problems, heads and queries, which begins at a multiple of 16 bytes. `log_sums` has
/// the heads one after another, and `known` room for two of each.
#[kernel(T = [bf16, f16], arch = "sm_90a", max_threads = THREADS)]
pub unsafe fn attention_gradients_of_queries<T: Half>(
    out: &[T],
    grad: &[T],
    log_sums: &[f32],
    known: SliceMut<'_, f32>,
    shape: AttentionShape,
    of_out: [usize; 3],
    of_grad: [usize; 3],
) {
    let (lanes, queries) = (lanes(shape.dim), queries(shape.dim));
    let blocks = shape.queries.div_ceil(queries);
    let head = divide(thread::block_idx_x(), blocks);
    let (batch, thread) = (divide(head, shape.heads), thread::thread_idx_x());
    let query = (thread::block_idx_x() - head * blocks) * queries + thread / lanes;
    let is_there = batch < shape.batch && query < shape.queries;
    let column = (thread % lanes) as usize * ELEMENTS;
    let load = |elements: &[T], strides: [usize; 3]| -> [T; ELEMENTS] {
        let at = [batch, head - batch * shape.heads, query];
        let line = at[0] as usize * strides[0] + at[1] as usize * strides[1] + at[2] as usize * strides[2];
        // SAFETY: in the query's line, by the kernel's contract, at a multiple of 16 bytes.
        unsafe { elements.load_vec_unchecked(line + column) }
    };
    let mut delta = 0.0;
    if is_there {
        let (out, grad) = (load(out, of_out), load(grad, of_grad));
        unroll!(8, i => {
            delta = Float::mul_add(out[i].widen(), grad[i].widen(), delta);
        });
    }
    // All lanes are here, those of queries that are not there too.
    let mut distance = 1;
    while distance < lanes {
        delta += warp::shuffle_xor(warp::FULL_MASK, delta, distance);
        distance *= 2;
    }
    if is_there && column == 0 {
        let all = (shape.batch * shape.heads) as usize * shape.queries as usize;
        let at = head as usize * shape.queries as usize + query as usize;
        // SAFETY (of all): there is one for each query, and room for two, by the kernel's contract.
        unsafe {
            let [log_sum] = log_sums.load_vec_unchecked::<1>(at);
            let exponent = if log_sum == f32::NEG_INFINITY {
                f32::INFINITY
            } else {
                log_sum * LOG2_E
            };
            known.set_vec_unchecked(at, [exponent]);
            known.set_vec_unchecked(all + at, [delta]);
        }
    }
}
