// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between any two element types: as Rust's `as`, saturating, or modulo 2^bits.
//!
//! Work `n`, span 1; each element is read once and written once. The launch is that of the other elementwise
//! operations, with the tile that the larger of the two types asks for. A conversion rounds once; see [`CastTo`] and
//! its kin.
//!
//! The saturating and the wrapping form have kernels only where they differ from `as`: between integers and from floats
//! to integers.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::map;
use crate::num::{CastTo, Num, SaturatingCastTo, WrappingCastTo};
use crate::op::{Cast, CastSaturating, CastWrapping, UnaryOp};

pub use crate::map::{THREADS, tile_len};

/// `out[i] = x[i] as U`; `x` is as long as `out`. Between integers, the sign of the result makes no difference, and that
/// of the element only where the result is longer.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    U = [f32, f64, f16, bf16];
    T = [f32, f64, f16, bf16],
    U = [i32, i64, u8, u16, u32, u64];
    T = [i32],
    U = [u64];
    T = [u8, u16, u32, u64],
    U = [u8, u16, u32, u64],
    max_threads = THREADS,
)]
pub fn cast<T: Num + CastTo<U>, U: Num>(x: Slice<'_, T>, out: SliceMut<'_, U>) {
    map::run(x, out, <Cast as UnaryOp<T, U>>::apply);
}

/// `out[i]` is the `U` nearest to `x[i]`; `x` is as long as `out`. Every other integer type has all values of u8, so
/// that its casts are the same as those of [`cast`](fn@cast).
#[kernel(
    T = [i32, i64, u16, u32, u64],
    U = [i32, i64, u8, u16, u32, u64],
    max_threads = THREADS,
)]
pub fn cast_saturating<T: Num + SaturatingCastTo<U>, U: Num>(x: Slice<'_, T>, out: SliceMut<'_, U>) {
    map::run(x, out, <CastSaturating as UnaryOp<T, U>>::apply);
}

/// `out[i]` is `x[i]` rounded towards zero, modulo 2^bits, 0 for NaN and ±∞; `x` is as long as `out`.
#[kernel(
    T = [f32, f64, f16, bf16],
    U = [u8, u16, u32, u64],
    max_threads = THREADS,
)]
pub fn cast_wrapping<T: Num + WrappingCastTo<U>, U: Num>(x: Slice<'_, T>, out: SliceMut<'_, U>) {
    map::run(x, out, <CastWrapping as UnaryOp<T, U>>::apply);
}
