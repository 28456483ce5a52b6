// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers that kernels compute with.

use cuda_std::Float;

/// A number of an array: `f32`, `f64`, `i32`, `i64`, `u32` or `u64`.
///
/// Integers wrap around on overflow. No operation panics: a division by zero gives zero for integers, as in NumPy, and
/// what IEEE 754 says for floats.
pub trait Num: bytemuck::Pod + PartialOrd + Send + Sync {
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// The value that every other is at least: −∞ for floats.
    const LEAST: Self;
    /// The value that every other is at most: +∞ for floats.
    const GREATEST: Self;

    /// The sum.
    fn add(self, other: Self) -> Self;
    /// The difference.
    fn sub(self, other: Self) -> Self;
    /// The product.
    fn mul(self, other: Self) -> Self;
    /// The quotient, rounded towards zero for integers.
    fn div(self, other: Self) -> Self;
    /// The smaller; NaN if either is NaN, as NumPy's `minimum`.
    fn min(self, other: Self) -> Self;
    /// The larger; NaN if either is NaN, as NumPy's `maximum`.
    fn max(self, other: Self) -> Self;
    /// The negative; for unsigned integers 2^bits − self.
    fn neg(self) -> Self;
    /// The absolute value; the least signed integer, which has none, stays what it is.
    fn abs(self) -> Self;
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
}

/// A conversion between numbers, as Rust's `as`: integers wrap, floats round to nearest, a float becomes the nearest
/// integer towards zero that the type has, and NaN becomes 0.
pub trait CastTo<To> {
    /// The number as a `To`.
    fn cast(self) -> To;
}

macro_rules! integers {
    ($($type:ident: abs $abs:ident;)*) => {$(
        impl Num for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }

            #[inline(always)]
            fn abs(self) -> Self {
                integers!(@abs $abs, self)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
    (@abs unsigned, $value:expr) => { $value };
    (@abs signed, $value:expr) => { $value.wrapping_abs() };
}

macro_rules! floats {
    ($($type:ident),*) => {$(
        impl Num for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Float::minimum(self, other)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Float::maximum(self, other)
            }

            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }

            #[inline(always)]
            fn abs(self) -> Self {
                Float::abs(self)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

macro_rules! casts {
    ($($from:ident),* => $to:tt) => { $(casts!(@from $from $to);)* };
    (@from $from:ident [$($to:ident),*]) => {$(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )*};
}

integers! {
    i32: abs signed;
    i64: abs signed;
    u32: abs unsigned;
    u64: abs unsigned;
}
floats!(f32, f64);
casts!(f32, f64, i32, i64, u32, u64 => [f32, f64, i32, i64, u32, u64]);
