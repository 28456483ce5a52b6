// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reduction: elements combined into one by an associative and commutative operator; of a whole array, or along axes.
//!
//! Every element is read once, and nothing else but one value for each block. For `n` elements the work is `O(n)` and
//! the span `O(log n)`: the tree of M. Harris, "Optimizing parallel reduction in CUDA" (2007), with shuffles below the
//! warp and, above the block, the last block to finish combining the values of all (the CUDA sample
//! "threadFenceReduction"), so that one launch is enough.
//!
//! The array is seen as (outer, length, inner), and is combined along its middle axis. Where `inner` is 1, the elements
//! of a result lie side by side: [`reduce()`] combines such *rows*, a whole array being one. Short ones, and many of less
//! than a tile, take a warp or a part of one each, and a lane has several loads in flight, of several rows; where they have
//! not only whole vectors, a block brings several into shared memory first, as one stretch of vectors. Of others, a block
//! takes chunks of tiles, in each of which a thread has eight vectors of 16 bytes in flight, combined in four independent
//! chains. Vectors of a row that begins between two aligned ones are put together of both. Otherwise [`reduce_columns()`]
//! has neighbouring threads read neighbouring columns, each thread a vector of them, and several threads the same. Long rows
//! and columns are cut into chunks for as many blocks as keep a device busy ([`RowPlan`], [`ColumnPlan`]).
//!
//! What is combined with what depends on the shape and the size of an element alone, and of columns of a view on whether it
//! begins at a multiple of 16 bytes, so floats give the same bits on every run and every device; [`RowPlan::depth`] and
//! [`ColumnPlan::depth`] say how deep the tree is, for error bounds.
//!
//! # An operator of one's own
//!
//! Both kernels are generic functions. [`operator_kernels!`](crate::operator_kernels) makes kernels of them for a
//! [`ReduceOp`] of a kernels crate's own, which `x.reduce::<Operator>()` on the host then takes.

mod bytes;
mod columns;
mod plan;
mod row;
mod rows;
mod staged;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::op::{All, Any, ArgMax, ArgMin, Max, Mean, Min, Moments, Product, ReduceOp, Sum, Variance, WideSum};

pub use plan::{BLOCKS, ColumnPlan, RowPlan, SHORT, THREADS, tile_len};

/// Combines the rows of `x`, row `i` to element `i` of `out`: elements `i · length .. (i + 1) · length`.
///
/// `plan` is [`RowPlan::new`] for as many rows as `out` has elements. Beside the output the kernel wants
/// [`RowPlan::partials`] values to keep, and [`RowPlan::counters`] counters, which are 0, and are 0 again when it has
/// ended. The launch has [`RowPlan::blocks`] blocks of [`THREADS`] threads, and [`RowPlan::shared_bytes`] of dynamic shared
/// memory; with less, rows that go by way of it are not written. Where the arrays do not fit the plan, nothing is promised of the
/// output.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Min, Max, Mean, Variance, Moments, ArgMin, ArgMax];
    T = [f32, f16, bf16],
    Op = [WideSum];
    T = [Moments],
    Op = [Variance];
    T = [f32, f64, f16, bf16, i32, u8, u16, u32, u64],
    Op = [Sum, Product];
    T = [f32, f64, f16, u8, u16, u32, u64],
    Op = [Any, All],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn reduce<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    plan: RowPlan,
    partials: SliceMut<'_, <Op as ReduceOp<T>>::Acc>,
    counters: SliceMut<'_, u32>,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    let needed = out.len().checked_mul(plan.length);
    if thread::block_dim_x() as usize != THREADS || needed.is_none_or(|needed| needed > x.len()) {
        return;
    }
    let rows = rows::Rows {
        x,
        plan,
        partials,
        counters,
        out,
    };
    // SAFETY: `x` has as many elements, as just asked.
    unsafe {
        match const { rows::vec_len::<T>() } {
            1 => rows.combine::<Op, 1>(),
            2 => rows.combine::<Op, 2>(),
            4 => rows.combine::<Op, 4>(),
            8 => rows.combine::<Op, 8>(),
            _ => rows.combine::<Op, 16>(),
        }
    }
}

/// Combines the columns of `x`, an array of shape (outer, length, inner), along its middle axis into `out`, of shape
/// (outer, inner); the plan may say that they [lie](ColumnPlan::lying) otherwise.
///
/// `plan` is [`ColumnPlan::new`] for as many columns as `out` has elements; the rest is as for [`reduce()`].
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Min, Max, Mean, Variance, Moments, ArgMin, ArgMax];
    T = [f32, f16, bf16],
    Op = [WideSum];
    T = [Moments],
    Op = [Variance];
    T = [f32, f64, f16, bf16, i32, u8, u16, u32, u64],
    Op = [Sum, Product];
    T = [f32, f64, f16, u8, u16, u32, u64],
    Op = [Any, All],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn reduce_columns<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    plan: ColumnPlan,
    partials: SliceMut<'_, <Op as ReduceOp<T>>::Acc>,
    counters: SliceMut<'_, u32>,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    if thread::block_dim_x() as usize != THREADS {
        return;
    }
    let columns = columns::Columns {
        x,
        plan,
        partials,
        counters,
        out,
    };
    match const { plan::columns_of_thread::<T, Op::Acc>() } {
        1 => columns.combine_by::<Op, 1>(),
        2 => columns.combine_by::<Op, 2>(),
        _ => columns.combine_by::<Op, 4>(),
    }
}
