// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons, element by element: array with array and array with scalar, to 1 where they hold and 0 where not.
//!
//! Each element is read once and each result, a byte, written once. [`compare()`] and [`compare_scalar()`] walk over
//! tiles as [`binary`] does, [`compare_broadcast()`] as [`crate::broadcast`].

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::binary::{self, Array, Scalar};
use crate::broadcast::{self, Binary, OutputAxes, Strides};
use crate::num::Num;
use crate::op::{CompareOp, Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
use crate::tile;

pub use crate::tile::THREADS;

/// Elements that a block treats: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T>() -> usize {
    tile::tile_len(size_of::<T>())
}

/// The result of a comparison.
#[inline(always)]
fn holds<T, Op: CompareOp<T>>(a: T, b: T) -> u8 {
    Op::holds(a, b) as u8
}

/// `out[i] = a[i] op b[i]`; `a` and `b` are as long as `out`. For `>` and `≥` the operands change places.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Less, LessEqual];
    T = [f32, f64, f16, bf16, u8, u16, u32, u64],
    Op = [Equal, NotEqual],
    max_threads = THREADS,
)]
pub fn compare<T: Num, Op: CompareOp<T>>(a: Slice<'_, T>, b: Slice<'_, T>, out: SliceMut<'_, u8>) {
    binary::run(Array(a), Array(b), out, holds::<T, Op>);
}

/// `out[i] = a[i] op b`; `a` is as long as `out`.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Less, LessEqual, Greater, GreaterEqual];
    T = [f32, f64, f16, bf16, u8, u16, u32, u64],
    Op = [Equal, NotEqual],
    max_threads = THREADS,
)]
pub fn compare_scalar<T: Num + cuda_std::param::Param, Op: CompareOp<T>>(a: Slice<'_, T>, b: T, out: SliceMut<'_, u8>) {
    binary::run(Array(a), Scalar(b), out, holds::<T, Op>);
}

/// `out = a op b`, with the operands along the axes of `shape` as their strides say, as in
/// [`broadcast`](fn@broadcast::broadcast).
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Less, LessEqual];
    T = [f32, f64, f16, bf16, u8, u16, u32, u64],
    Op = [Equal, NotEqual],
    max_threads = THREADS,
    min_blocks = broadcast::BLOCKS,
)]
pub fn compare_broadcast<T: Num, Op: CompareOp<T>>(
    shape: OutputAxes,
    a: Slice<'_, T>,
    a_strides: Strides,
    b: Slice<'_, T>,
    b_strides: Strides,
    out: SliceMut<'_, u8>,
) {
    let op = holds::<T, Op>;
    broadcast::run(&shape, [&a_strides, &b_strides], &Binary { a, b, out, op });
}
