// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of the rows of a product, made of the results as they are stored.
//!
//! A warp of `gemm_wgmma` finishes 16 rows × 64 columns at a time, of which a row is in four lanes. These combine what they
//! have of it, each in the order of its columns, and then with one another, in the order of the lanes, and one of them puts
//! the partial value into memory; [`combine_rows`] combines a row's in the order of the columns. So nothing depends on who is
//! first, and the same product has the same bits every time.

use cuda_std::prelude::*;

use super::op::EpilogueOp;
use super::{Activation, EpiloguePlan};
use crate::matmul::mma::Output;
use crate::matmul::unroll;
use crate::op::ReduceOp;

/// Columns of a partial value.
pub const PARTIAL: usize = 64;

/// Threads of a block of [`combine_rows`].
pub const COMBINE_THREADS: usize = 128;

/// A function of the library's, whose results are reduced by rows.
pub struct WithRows<'a, T, Op: ReduceOp<T>> {
    function: Activation,
    /// Of all rows' first columns, then of all rows' next.
    partials: SliceMut<'a, Op::Acc>,
    /// Of all products.
    rows: usize,
}

impl<T, Op: ReduceOp<T>> Clone for WithRows<'_, T, Op> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, Op: ReduceOp<T>> Copy for WithRows<'_, T, Op> {}

impl EpiloguePlan {
    /// The same, with reductions of so many rows of all products.
    ///
    /// # Safety
    ///
    /// `partials` has a value of each of the rows for each [`PARTIAL`] columns, or part of as many.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn with_rows<T, Op: ReduceOp<T>>(
        self,
        rows: usize,
        partials: SliceMut<'_, Op::Acc>,
    ) -> EpiloguePlan<WithRows<'_, T, Op>> {
        EpiloguePlan {
            function: WithRows {
                function: self.function,
                partials,
                rows,
            },
            bias: self.bias,
            residual: self.residual,
        }
    }
}

impl<T: Output, Op: ReduceOp<T>> EpilogueOp<f32> for WithRows<'_, T, Op> {
    const ADDS: bool = <Activation as EpilogueOp<f32>>::ADDS;

    #[inline(always)]
    fn apply(self, sum: f32, bias: f32, residual: f32) -> f32 {
        self.function.apply(sum, bias, residual)
    }

    #[inline(always)]
    fn apply_to<const N: usize>(
        self,
        sums: [f32; N],
        there: [bool; 2],
        bias: impl FnOnce() -> [f32; N],
        residual: impl FnOnce() -> [f32; N],
    ) -> [f32; N] {
        self.function.apply_to(sums, there, bias, residual)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn see_fragment<const N: usize>(self, results: [f32; N], [product, row, column]: [u32; 3], [m, n]: [u32; 2]) {
        // Boxes of half as many are of results of 32 bits, of which there are no such kernels: the code for them is never run.
        if 2 * N != PARTIAL {
            return;
        }
        let lane = thread::thread_idx_x() % 32;
        unroll!(2, half => {
            let row = row + 8 * half as u32;
            let mut acc = Op::identity();
            unroll!(16, i => {
                let (at, column) = (4 * (i / 2) + 2 * half + i % 2, column + (8 * (i / 2) + i % 2) as u32);
                if column < n {
                    acc = Op::combine(acc, Op::lift(T::nearest(results[at]), column.into()));
                }
            });
            unroll!(2, step => {
                let distance = 1 << step;
                let other = warp::shuffle_xor(warp::FULL_MASK, acc, distance);
                acc = if lane & distance == 0 {
                    Op::combine(acc, other)
                } else {
                    Op::combine(other, acc)
                };
            });
            if lane.is_multiple_of(4) && row < m && column < n {
                let row = product as usize * m as usize + row as usize;
                let at = column as usize / PARTIAL * self.rows + row;
                // SAFETY: the promise of `with_rows`; a vector of one is aligned like its element. With a check there would be
                // a call in the kernel, for which the assembler would have its products wait for one another.
                unsafe { self.partials.set_vec_unchecked(at, [acc]) };
            }
        });
    }
}

/// The reduction of each row of `columns` elements, of the values that there are of its parts: `out` has one for each row, and
/// `partials` those of all rows for the first [`PARTIAL`] columns, then for the next. A thread for each row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub fn combine_rows<T, Op: ReduceOp<T>>(partials: &[Op::Acc], columns: u64, out: SliceMut<'_, Op::Output>) {
    let (row, rows) = (thread::index_1d(), out.len());
    if row >= rows {
        return;
    }
    let mut acc = Op::identity();
    let mut at = row;
    while at < partials.len() {
        acc = Op::combine(acc, partials[at]);
        at += rows;
    }
    out.set(row, Op::finish(acc, columns));
}
