// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds up the sums of parts of a gradient's places, and rounds them once.
//!
//! Work: each sum is read once. Neighbouring threads have neighbouring sums, and some threads of a block share the parts of one, several
//! of which they load at once; with a thread for each sum it waited for one part after another.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::matmul::unroll;
use crate::num::Num;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Threads that share the parts of a sum, at most, as a power of 2.
pub const MOST_LOG_SHARES: u32 = 3;

/// Parts that a thread loads at once.
pub const AT_ONCE: usize = 8;

/// `out[i]` is the sum of `sums[p · n + i]` over all parts `p`, of an `out` of `n` elements, in an order that `log_shares` alone says.
///
/// The grid has one axis, of a block for each `THREADS / 2^log_shares` elements, or fewer, whose threads take several. Where `sums` is
/// shorter, `log_shares` more than [`MOST_LOG_SHARES`], or a block has not [`THREADS`] threads, nothing is written.
#[kernel(T = [bf16, f16], max_threads = THREADS)]
pub fn add_parts<T: Num<Wide = f32>>(sums: &[f32], out: SliceMut<'_, T>, parts: u32, log_shares: u32) {
    let all = out.len();
    let parts = parts as usize;
    let is_possible = all.checked_mul(parts).is_some_and(|needed| needed <= sums.len());
    if !is_possible || log_shares > MOST_LOG_SHARES || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let shared = shared_array![f32; THREADS];
    let thread = thread::thread_idx_x() as usize;
    let (shares, width) = (1 << log_shares, THREADS >> log_shares);
    let (share, column) = (thread >> (THREADS.trailing_zeros() - log_shares), thread & (width - 1));
    let mut first = thread::block_idx_x() as usize * width;
    while first < all {
        let at = first + column;
        let mut sum = 0.0;
        if at < all {
            // SAFETY (of both): an element of a part, as was just asked.
            let load = |part: usize| unsafe { *sums.get_unchecked(part * all + at) };
            let mut part = share;
            while part < parts {
                // Beyond the last part that one, which is not added: all are under way at once.
                let loaded: [f32; AT_ONCE] =
                    cuda_std::array::from_fn(|i: usize| load(Ord::min(part + i * shares, parts - 1)));
                unroll!(8, i => {
                    if i < AT_ONCE && part + i * shares < parts {
                        sum += loaded[i % AT_ONCE];
                    }
                });
                part += AT_ONCE * shares;
            }
        }
        // SAFETY (of both): a thread of the block, of which there are as many.
        unsafe { shared.set_unchecked(thread, sum) };
        thread::sync_threads();
        if share == 0 && at < all {
            for other in 1..shares {
                sum += unsafe { shared.get_unchecked(thread + other * width) };
            }
            out.set(at, T::narrow(sum));
        }
        thread::sync_threads();
        first += thread::grid_dim_x() as usize * width;
    }
}
