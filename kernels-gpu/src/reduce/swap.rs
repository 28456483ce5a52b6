// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two neighbouring axes swapped, which brings axes together that are to be combined and are not neighbours.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::plan::THREADS;

/// Elements that a thread moves.
const UNROLL: usize = 4;

/// Elements that a block moves.
pub const SWAP_TILE: usize = THREADS * UNROLL;

/// Quotient and remainder; a divisor of 0 counts as 1.
macro_rules! divide {
    ($n:expr, $by:expr) => {{
        let (n, by) = ($n, Ord::max($by, 1));
        (n / by, n % by)
    }};
}

/// Copies `x`, of shape (outer, a, b, inner), to `out`, of shape (outer, b, a, inner). Blocks have [`THREADS`] threads,
/// and each moves [`SWAP_TILE`] elements.
///
/// Work `n`; bytes: every element is read and written once. Writes are coalesced, reads in runs of `inner` elements.
#[kernel(T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64], max_threads = THREADS)]
pub fn swap_axes<T: Pod>(x: &[T], a: usize, b: usize, inner: usize, out: SliceMut<'_, T>) {
    let first = thread::block_idx_x() as usize * SWAP_TILE + thread::thread_idx_x() as usize;
    let is_small = out.len() <= u32::MAX as usize;
    let source = |i: usize| {
        if is_small {
            // Lengths of axes that divide the number of elements, so they are as small.
            let (a, b, inner) = (a as u32, b as u32, inner as u32);
            let (rest, z) = divide!(i as u32, inner);
            let (rest, i) = divide!(rest, a);
            let (outer, j) = divide!(rest, b);
            (((outer * a + i) * b + j) * inner + z) as usize
        } else {
            let (rest, z) = divide!(i, inner);
            let (rest, i) = divide!(rest, a);
            let (outer, j) = divide!(rest, b);
            ((outer * a + i) * b + j) * inner + z
        }
    };
    for k in 0..UNROLL {
        let i = first + k * THREADS;
        if i < out.len() {
            let from = source(i);
            if from < x.len() {
                out.set(i, x[from]);
            }
        }
    }
}
