// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between any two element types: as Rust's `as`, saturating, or modulo 2^bits.
//!
//! Work `n`, span 1; each element is read once and written once. The launch is that of the other elementwise
//! operations, with the tile that the larger of the two types asks for. A conversion rounds once; see [`CastTo`] and
//! its kin.
//!
//! Of 8-bit floats and `i8`, which are there for products of matrices, there are the conversions from and to what they are
//! made of and become: `f32`, the 16-bit floats, and `i32`.
//!
//! The saturating and the wrapping form have kernels only where they differ from `as`: between integers and from floats
//! to integers.

use bytemuck::Pod;
use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::half::{bf16, bf16_from_f32, bf16_to_f32, f16, f16_from_f32, f16_to_f32};
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
    U = [u8, u16, u32, u64];
    T = [f32, f16, bf16],
    U = [F8E4M3, F8E5M2];
    T = [F8E4M3, F8E5M2],
    U = [f32, f16, bf16];
    T = [i8],
    U = [i32, f32];
    T = [f32],
    U = [i8],
    max_threads = THREADS,
)]
pub fn cast<T: Pod + CastTo<U>, U: Pod>(x: Slice<'_, T>, out: SliceMut<'_, U>) {
    map::run(x, out, <Cast as UnaryOp<T, U>>::apply);
}

/// `out[i]` is the `U` nearest to `x[i]`; `x` is as long as `out`. Every other integer type has all values of u8, so
/// that its casts are the same as those of [`cast`](fn@cast).
#[kernel(
    T = [i32, i64, u16, u32, u64],
    U = [i32, i64, u8, u16, u32, u64];
    T = [i32],
    U = [i8],
    max_threads = THREADS,
)]
pub fn cast_saturating<T: Pod + SaturatingCastTo<U>, U: Pod>(x: Slice<'_, T>, out: SliceMut<'_, U>) {
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

macro_rules! casts_of_float8 {
    ($($type:ident: $to_f32:ident, $from_f32:ident;)*) => {$(
        casts_of_float8!(F8E4M3 $type $to_f32 $from_f32);
        casts_of_float8!(F8E5M2 $type $to_f32 $from_f32);
    )*};
    ($float8:ident $type:ident $to_f32:ident $from_f32:ident) => {
        impl CastTo<$float8> for $type {
            #[inline(always)]
            fn cast(self) -> $float8 {
                $float8::from_f32($to_f32(self))
            }
        }

        impl CastTo<$type> for $float8 {
            #[inline(always)]
            fn cast(self) -> $type {
                $from_f32(self.to_f32())
            }
        }
    };
}

/// `f32` as the others.
#[inline(always)]
fn same(x: f32) -> f32 {
    x
}

casts_of_float8! {
    f32: same, same;
    f16: f16_to_f32, f16_from_f32;
    bf16: bf16_to_f32, bf16_from_f32;
}
