// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers that kernels compute with.

use cuda_block::thread::{fold, fold_pairwise};
use cuda_block::warp::scan_rows;
use cuda_std::Float;
use cuda_std::float;
use cuda_std::half::{bf16, bf16_from_f32, bf16_to_f32, f16, f16_from_f32, f16_to_f32};
use cuda_std::scalar::Scalar;

use crate::narrow;
use crate::scan::scan_segments;

/// A number of an array: `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32` or `u64`.
///
/// Integers wrap around on overflow, sums and products of many in 64 bits. No operation panics: a division by zero gives zero for integers, as in NumPy, and
/// what IEEE 754 says for floats. An operation on 16-bit floats is computed in `f32` and rounded once.
pub trait Num: Scalar + bytemuck::Pod + PartialOrd {
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// The value that every other is at least: −∞ for floats.
    const LEAST: Self;
    /// The value that every other is at most: +∞ for floats.
    const GREATEST: Self;

    /// What several of these numbers are combined in, before the result is rounded once: `f32` for the 16-bit floats,
    /// the type itself for all others.
    type Wide: Num;

    /// What sums and products are given in, as by NumPy: `i64` for signed integers, `u64` for unsigned ones, the type
    /// itself for floats. They are made in an [`Accumulator`].
    type Total: Num;

    /// The same number.
    fn widen(self) -> Self::Wide;
    /// The nearest number of this type.
    fn narrow(wide: Self::Wide) -> Self;

    /// The sum.
    fn add(self, other: Self) -> Self;
    /// The difference.
    fn sub(self, other: Self) -> Self;
    /// The product.
    fn mul(self, other: Self) -> Self;
    /// The quotient, rounded towards zero for integers.
    fn div(self, other: Self) -> Self;
    /// What is left of this number when it is divided by the other, with this one's sign, as Rust's `%`: exact.
    fn rem(self, other: Self) -> Self;
    /// The smaller; NaN if either is NaN, as NumPy's `minimum`.
    fn min(self, other: Self) -> Self;
    /// The larger; NaN if either is NaN, as NumPy's `maximum`.
    fn max(self, other: Self) -> Self;
    /// What [`min`](Self::min) gives for all of them; for floats in fewer instructions.
    #[inline(always)]
    fn min_of<const N: usize>(values: [Self; N]) -> Self {
        fold_pairwise(values, Self::min)
    }
    /// What [`max`](Self::max) gives for all of them; for floats in fewer instructions.
    #[inline(always)]
    fn max_of<const N: usize>(values: [Self; N]) -> Self {
        fold_pairwise(values, Self::max)
    }
    /// The number as sums and products take it.
    fn accumulate(self) -> Accumulator<Self>;
    /// The sum of all of them; of integers of 8 and 16 bits in 32 bits.
    #[inline(always)]
    fn sum_of<const N: usize>(values: [Self; N]) -> Accumulator<Self> {
        let values: [_; N] = cuda_std::array::from_fn(|k| values[k].accumulate());
        fold_pairwise(values, Num::add)
    }
    /// The sum of all of them; of integers of 8 and 16 bits without unpacking the words that they are loaded in.
    #[inline(always)]
    fn sum_of_vectors<const N: usize, const U: usize>(vectors: [[Self; N]; U]) -> Accumulator<Self> {
        let mut sum = Self::sum_of(vectors[0]);
        for u in 1..U {
            sum = sum.add(Self::sum_of(vectors[u]));
        }
        sum
    }
    /// Of bytes, the sum `sum` of several; `None` for other types.
    #[inline(always)]
    fn sum_of_bytes(_sum: u32) -> Option<Accumulator<Self>> {
        None
    }
    /// The sum of a vector, added one after another; of integers as [`sum_of_vectors`](Self::sum_of_vectors).
    #[inline(always)]
    fn sum_in_order<const N: usize>(values: [Self; N]) -> Accumulator<Self> {
        fold(cuda_std::array::map(values, Self::accumulate), Num::add)
    }
    /// [`ReduceOp::scan_warp`](crate::op::ReduceOp::scan_warp) for sums; of integers of 8 and 16 bits in 32 bits.
    #[inline(always)]
    fn sums_of_warp<const U: usize>(values: [Accumulator<Self>; U]) -> ([Accumulator<Self>; U], Accumulator<Self>) {
        scan_rows(values, Num::ZERO, Num::add)
    }
    /// [`ReduceOp::scan_segments`](crate::op::ReduceOp::scan_segments) for sums, in as many bits.
    #[inline(always)]
    fn sums_of_segments<const U: usize>(
        values: [Accumulator<Self>; U],
        heads: [u32; U],
    ) -> ([Accumulator<Self>; U], Accumulator<Self>) {
        scan_segments(values, heads, Num::ZERO, Num::add)
    }
    /// The product of all of them; of integers of 8 and 16 bits as far as it goes in 32 bits.
    #[inline(always)]
    fn product_of<const N: usize>(values: [Self; N]) -> Accumulator<Self> {
        let values: [_; N] = cuda_std::array::from_fn(|k| values[k].accumulate());
        fold_pairwise(values, Num::mul)
    }
    /// The power `self^exponent`. Floats: that of [`Float::powf`]. Integers: by squaring, wrapping; a negative exponent
    /// gives `1 / self^|exponent|` rounded towards zero, so 0 unless the base is 1 or −1 (also for the base 0, which
    /// has no reciprocal). `0^0` is 1.
    fn pow(self, exponent: Self) -> Self;
    /// The negative; for unsigned integers 2^bits − self.
    fn neg(self) -> Self;
    /// The absolute value; the least signed integer, which has none, stays what it is.
    fn abs(self) -> Self;
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
}

/// What sums and products of numbers of type `T` are made in, before the result is rounded once: 64 bits for integers,
/// which wrap around, `f32` for the 16-bit floats.
pub type Accumulator<T> = <<T as Num>::Total as Num>::Wide;

/// A conversion between numbers, as Rust's `as`: integers wrap, floats round to nearest, a float becomes the nearest
/// integer towards zero that the type has, and NaN becomes 0.
///
/// A number is rounded once, also to the 16-bit floats.
pub trait CastTo<To> {
    /// The number as a `To`.
    fn cast(self) -> To;
}

/// A conversion of floats to integers that keeps the low bits.
pub trait WrappingCastTo<To> {
    /// The number rounded towards zero, modulo 2^bits; 0 for NaN and ±∞.
    fn cast_wrapping(self) -> To;
}

/// `a · b + c`: of floats with one fused multiply-add (of the 16-bit ones in `f32`, then rounded to 16 bits), of
/// integers wrapping.
pub trait MulAdd: Num {
    /// `self · factor + summand`
    fn mul_add(self, factor: Self, summand: Self) -> Self;
}

/// Whether `holds` of any of the numbers; all are asked.
#[inline(always)]
pub(crate) fn any_of<T: Copy, const N: usize>(values: [T; N], holds: impl Fn(T) -> bool) -> bool {
    let mut any = false;
    // Of two floats at a time, whether either is NaN is one comparison.
    for k in 0..N / 2 {
        any |= holds(values[k]) | holds(values[k + N / 2]);
    }
    any | (N % 2 == 1 && holds(values[N - 1]))
}

macro_rules! integers {
    ($($type:ident: abs $abs:ident, total $total:ident of $sums:ident;)*) => {$(
        impl Num for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;

            type Wide = Self;
            type Total = $total;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }

            #[inline(always)]
            fn accumulate(self) -> $total {
                self as $total
            }

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
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            integers!(@sums $sums);

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn pow(self, exponent: Self) -> Self {
                integers!(@reciprocal $abs, self, exponent);
                let (mut power, mut square, mut rest) = (1 as Self, self, exponent);
                while rest != 0 {
                    if rest & 1 != 0 {
                        power = power.wrapping_mul(square);
                    }
                    square = square.wrapping_mul(square);
                    rest >>= 1;
                }
                power
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
    (@sums wide) => {};
    (@sums narrow) => {
        #[inline(always)]
        fn sum_of<const N: usize>(values: [Self; N]) -> u64 {
            narrow::sum(values)
        }

        #[inline(always)]
        fn sum_of_vectors<const N: usize, const U: usize>(vectors: [[Self; N]; U]) -> u64 {
            narrow::sum_of_vectors(vectors)
        }

        #[inline(always)]
        fn sum_of_bytes(sum: u32) -> Option<u64> {
            (size_of::<Self>() == 1).then_some(u64::from(sum))
        }

        #[inline(always)]
        fn sum_in_order<const N: usize>(values: [Self; N]) -> u64 {
            narrow::sum_of_vectors([values])
        }

        #[inline(always)]
        fn sums_of_warp<const U: usize>(values: [u64; U]) -> ([u64; U], u64) {
            narrow::sums_of_warp::<Self, U>(values)
        }

        #[inline(always)]
        fn sums_of_segments<const U: usize>(values: [u64; U], heads: [u32; U]) -> ([u64; U], u64) {
            narrow::sums_of_segments::<Self, U>(values, heads)
        }

        #[inline(always)]
        fn product_of<const N: usize>(values: [Self; N]) -> u64 {
            narrow::product(values)
        }
    };
    (@abs unsigned, $value:expr) => { $value };
    (@abs signed, $value:expr) => { $value.wrapping_abs() };
    (@reciprocal unsigned, $base:expr, $exponent:expr) => {};
    (@reciprocal signed, $base:expr, $exponent:expr) => {
        if $exponent < 0 {
            return match ($base, $exponent & 1) {
                (1, _) | (-1, 0) => 1,
                (-1, _) => -1,
                _ => 0,
            };
        }
    };
}

macro_rules! floats {
    ($($type:ident),*) => {$(
        impl Num for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;

            type Wide = Self;
            type Total = Self;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }

            #[inline(always)]
            fn accumulate(self) -> Self {
                self
            }

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
            fn rem(self, other: Self) -> Self {
                Float::fmod(self, other)
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Float::minimum(self, other)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Float::maximum(self, other)
            }

            // NaN is not kept from pair to pair, but asked for of two numbers at once.
            #[inline(always)]
            fn min_of<const N: usize>(values: [Self; N]) -> Self {
                let least = fold_pairwise(values, Float::minimum_number);
                if any_of(values, Float::is_nan) { Self::NAN } else { least }
            }

            #[inline(always)]
            fn max_of<const N: usize>(values: [Self; N]) -> Self {
                let greatest = fold_pairwise(values, Float::maximum_number);
                if any_of(values, Float::is_nan) { Self::NAN } else { greatest }
            }

            #[inline(always)]
            fn pow(self, exponent: Self) -> Self {
                Float::powf(self, exponent)
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

macro_rules! narrow_floats {
    ($($type:ident: $to_f32:ident, $from_f32:ident, $div:path;)*) => {$(
        impl Num for $type {
            const ZERO: Self = Self::ZERO;
            const ONE: Self = Self::ONE;
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;

            type Wide = f32;
            type Total = Self;

            #[inline(always)]
            fn widen(self) -> f32 {
                $to_f32(self)
            }

            #[inline(always)]
            fn accumulate(self) -> f32 {
                self.widen()
            }

            #[inline(always)]
            fn narrow(wide: f32) -> Self {
                $from_f32(wide)
            }

            narrow_floats!(@binary add sub mul rem min max pow);

            #[inline(always)]
            fn div(self, other: Self) -> Self {
                Self::narrow($div(self.widen(), other.widen()))
            }

            // The sign alone: rounding would quieten a NaN, and `half`'s own negation is the same.
            #[inline(always)]
            fn neg(self) -> Self {
                Self::from_bits(self.to_bits() ^ 0x8000)
            }

            #[inline(always)]
            fn abs(self) -> Self {
                Self::from_bits(self.to_bits() & 0x7fff)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.widen() as f64
            }
        }
    )*};
    (@binary $($method:ident)*) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            Self::narrow(Num::$method(self.widen(), other.widen()))
        }
    )*};
}

/// An `f32` that can be rounded on to a 16-bit float as if the number itself had been.
///
/// It is the number rounded to odd: towards zero, and where that is not exact, the last bit is set. So it is on the
/// same side of every number with fewer bits, and of the middle between two of them, as the number itself; two bits
/// more than those of the final result are enough. S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded
/// sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57 (2008).
trait ToOdd: Copy {
    /// The number rounded to odd.
    fn to_odd(self) -> f32;
}

macro_rules! exact_to_f32 {
    ($($type:ident),*) => {$(
        impl ToOdd for $type {
            #[inline(always)]
            fn to_odd(self) -> f32 {
                CastTo::<f32>::cast(self)
            }
        }
    )*};
}

impl ToOdd for f64 {
    #[inline(always)]
    fn to_odd(self) -> f32 {
        let nearest = self as f32;
        let back = nearest as f64;
        // One step towards zero where it was rounded away from it; of an infinity, that is the greatest number.
        let towards_zero = nearest.to_bits() - (f64::abs(back) > f64::abs(self)) as u32;
        // NaN differs from itself, and stays NaN.
        f32::from_bits(towards_zero | (back != self) as u32)
    }
}

macro_rules! integers_to_odd {
    ($($type:ident: $magnitude:ident, |$x:ident| $abs:expr, $negative:expr;)*) => {$(
        impl ToOdd for $type {
            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn to_odd(self) -> f32 {
                let $x = self;
                let magnitude: $magnitude = $abs;
                // The leading 24 bits are an f32 without rounding; the others only count as a whole.
                let shift = ($magnitude::BITS - magnitude.leading_zeros()).saturating_sub(24);
                let kept = magnitude >> shift;
                let odd = kept as u32 | (kept << shift != magnitude) as u32;
                let value = odd as f32 * f32::from_bits((127 + shift) << 23);
                if $negative { -value } else { value }
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

macro_rules! casts_from_narrow_floats {
    ($($from:ident),* => $to:tt) => { $(casts_from_narrow_floats!(@from $from $to);)* };
    (@from $from:ident [$($to:ident),*]) => {$(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self.widen() as $to
            }
        }
    )*};
}

macro_rules! casts_to_narrow_floats {
    ($($from:ident),* => $to:tt) => { $(casts_to_narrow_floats!(@from $from $to);)* };
    (@from $from:ident [$($to:ident),*]) => {$(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                $to::narrow(self.to_odd())
            }
        }
    )*};
}

macro_rules! wrapping_casts {
    ($($from:ident)*) => {$(
        impl WrappingCastTo<u64> for $from {
            #[inline(always)]
            fn cast_wrapping(self) -> u64 {
                self.modulo_2_64()
            }
        }
    )*};
}

/// The integer part modulo 2^64; other powers of two divide this one.
trait Modulo: Copy {
    fn modulo_2_64(self) -> u64;
}

macro_rules! modulo {
    ($($type:ident: $mantissa_bits:literal of $exponent_mask:literal, bias $bias:literal;)*) => {$(
        impl Modulo for $type {
            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn modulo_2_64(self) -> u64 {
                let bits = self.to_bits();
                // The number is ± mantissa · 2^exponent. Subnormal ones are too small to matter, and the exponent that
                // NaN and ±∞ have makes them 0.
                let exponent = (bits >> $mantissa_bits & $exponent_mask) as i32 - $bias - $mantissa_bits;
                let mantissa = (bits & ((1 << $mantissa_bits) - 1) | 1 << $mantissa_bits) as u64;
                let magnitude = match exponent {
                    0..64 => mantissa << exponent,
                    -63..0 => mantissa >> -exponent,
                    _ => 0,
                };
                if self.is_sign_negative() { magnitude.wrapping_neg() } else { magnitude }
            }
        }
    )*};
}

macro_rules! mul_adds {
    ($($type:ident: |$a:ident, $b:ident, $c:ident| $result:expr;)*) => {$(
        impl MulAdd for $type {
            #[inline(always)]
            fn mul_add(self, factor: Self, summand: Self) -> Self {
                let ($a, $b, $c) = (self, factor, summand);
                $result
            }
        }
    )*};
}

integers! {
    i32: abs signed, total i64 of wide;
    i64: abs signed, total i64 of wide;
    u8: abs unsigned, total u64 of narrow;
    u16: abs unsigned, total u64 of narrow;
    u32: abs unsigned, total u64 of wide;
    u64: abs unsigned, total u64 of wide;
}
floats!(f32, f64);
narrow_floats! {
    f16: f16_to_f32, f16_from_f32, float::narrow::div;
    bf16: bf16_to_f32, bf16_from_f32, Num::div;
}
casts!(f32, f64, i32, i64, u8, u16, u32, u64 => [f32, f64, i32, i64, u8, u16, u32, u64]);
casts_from_narrow_floats!(f16, bf16 => [f32, f64, i32, i64, u8, u16, u32, u64]);
casts_to_narrow_floats!(f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64 => [f16, bf16]);
casts!(i8 => [f32, i32]);
casts!(i16 => [i32]);
casts!(bool => [u32]);
casts!(f32, f64, i32 => [i8]);
casts!(f32, f64 => [i16]);
wrapping_casts!(f32 f64);

exact_to_f32!(f32, f16, bf16, u8, u16);
integers_to_odd! {
    i32: u32, |x| x.unsigned_abs(), x < 0;
    i64: u64, |x| x.unsigned_abs(), x < 0;
    u32: u32, |x| x, false;
    u64: u64, |x| x, false;
}
modulo! {
    f32: 23 of 0xff, bias 127;
    f64: 52 of 0x7ff, bias 1023;
}
mul_adds! {
    f32: |a, b, c| Float::mul_add(a, b, c);
    f64: |a, b, c| Float::mul_add(a, b, c);
    f16: |a, b, c| Self::narrow(Float::mul_add(a.widen(), b.widen(), c.widen()));
    bf16: |a, b, c| Self::narrow(Float::mul_add(a.widen(), b.widen(), c.widen()));
    i32: |a, b, c| a.mul(b).add(c);
    i64: |a, b, c| a.mul(b).add(c);
    u8: |a, b, c| a.mul(b).add(c);
    u16: |a, b, c| a.mul(b).add(c);
    u32: |a, b, c| a.mul(b).add(c);
    u64: |a, b, c| a.mul(b).add(c);
}
