// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of queries: of each the logarithm to base 2 of its sum of exponentials, and `δ`, the product of its result and its gradient.

use core::f32::consts::LOG2_E;

use cuda_std::prelude::*;

use super::{OTHERS, matrices};
use crate::attention::{AttentionShape, Sequence};
use crate::matmul::unroll;

/// Bytes of what is known of [`OTHERS`] queries.
pub(super) const BYTES: u32 = 2 * 4 * OTHERS;

/// Where it comes from.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    log_sums: &'a [f32],
    deltas: &'a [f32],
    /// The element of the sequence's first query of the block's first head, and the distance to the next head's.
    first: usize,
    next_head: usize,
    /// Queries of the sequence.
    queries: u32,
}

impl<'a> Known<'a> {
    /// Of the queries of a sequence, from a head among all problems' on.
    #[inline(always)]
    pub(super) fn new(
        log_sums: &'a [f32],
        deltas: &'a [f32],
        head: u32,
        shape: &AttentionShape,
        sequence: &Sequence,
    ) -> Self {
        let next_head = shape.queries as usize;
        Self {
            log_sums,
            deltas,
            first: head as usize * next_head + sequence.first_query as usize,
            next_head,
            queries: sequence.queries,
        }
    }

    /// The logarithm of the sum of exponentials, or ∞ of a query that sees no key or is behind the last: so it has no weights.
    ///
    /// # Safety
    ///
    /// There is a logarithm for each query of the head, so many behind the first one.
    #[inline(always)]
    unsafe fn log_sum(&self, head: u32, query: u32) -> f32 {
        if query >= self.queries {
            return f32::INFINITY;
        }
        // SAFETY: the caller's promise.
        let [log_sum] = unsafe { self.log_sums.load_vec_unchecked::<1>(self.at(head, query)) };
        if log_sum == f32::NEG_INFINITY {
            f32::INFINITY
        } else {
            log_sum * LOG2_E
        }
    }

    /// `δ`, 0 of a query behind the last.
    ///
    /// # Safety
    ///
    /// As [`log_sum`](Self::log_sum).
    #[inline(always)]
    unsafe fn delta(&self, head: u32, query: u32) -> f32 {
        if query >= self.queries {
            return 0.0;
        }
        // SAFETY: the caller's promise.
        let [delta] = unsafe { self.deltas.load_vec_unchecked::<1>(self.at(head, query)) };
        delta
    }

    #[inline(always)]
    fn at(&self, head: u32, query: u32) -> usize {
        self.first + head as usize * self.next_head + query as usize
    }

    /// What a thread loads for its block, of [`OTHERS`] queries from one on.
    ///
    /// # Safety
    ///
    /// As [`log_sum`](Self::log_sum).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn of_thread(&self, head: u32, query: u32) -> f32 {
        let thread = thread::thread_idx_x();
        let query = query + thread % OTHERS;
        // SAFETY (of both): the caller's promise.
        match thread / OTHERS {
            0 => unsafe { self.log_sum(head, query) },
            1 => unsafe { self.delta(head, query) },
            _ => 0.0,
        }
    }

    /// Puts that to byte `at` of the memory: the logarithms, then `δ`.
    ///
    /// # Safety
    ///
    /// The memory has [`BYTES`] there, at a multiple of 8, and nobody else accesses them until a barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn put(&self, memory: Shared<u8>, at: u32, known: f32) {
        let thread = thread::thread_idx_x();
        if thread < 2 * OTHERS {
            // SAFETY: the caller's promise; a word for each such thread.
            unsafe { memory.cast::<f32>().set_unchecked((at / 4 + thread) as usize, known) };
        }
    }

    /// What a lane's lines are known by, which are those of its warp from this query on.
    ///
    /// # Safety
    ///
    /// As [`log_sum`](Self::log_sum).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn of_lane<const D: usize>(&self, row: u32) -> [[f32; 2]; 4] {
        let mut known = [[f32::INFINITY, 0.0]; 4];
        unroll!(4, line => {
            if line < 2 * matrices(D) {
                let query = row + thread::thread_idx_x() % 32 / 4 + 8 * line as u32;
                // SAFETY: the caller's promise.
                known[line] = unsafe { [self.log_sum(0, query), self.delta(0, query)] };
            }
        });
        known
    }
}

/// What a lane's two columns of a group of 8 others are known by, which was [put](Known::put) to byte `at` of the memory.
///
/// # Safety
///
/// It is there.
#[inline(always)]
pub(super) unsafe fn of_columns(memory: Shared<u8>, at: u32, group: usize) -> [[f32; 2]; 2] {
    let words = memory.cast::<f32>();
    let first = at / 4 + 8 * group as u32 + thread::thread_idx_x() % 4 * 2;
    // SAFETY (of both): the caller's promise; at a multiple of two words.
    let log_sums: [f32; 2] = unsafe { words.get_vec_unchecked(first as usize) };
    let deltas: [f32; 2] = unsafe { words.get_vec_unchecked((first + OTHERS) as usize) };
    [[log_sums[0], deltas[0]], [log_sums[1], deltas[1]]]
}
