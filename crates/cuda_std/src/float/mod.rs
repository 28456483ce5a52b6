// SPDX-License-Identifier: MIT OR Apache-2.0
//! The float functions of a kernel: [`Float`], for f32 and f64.
//!
//! Device code has no `std`, hence no `x.exp()`; a kernel writes `Float::exp(x)`, or takes a
//! `T: Float` and writes `x.exp()`. The same arithmetic, operation by operation, runs on the GPU
//! and on the simulated one, so that what a test saw on a CPU is what the GPU computes. On the host
//! `x.exp()` of a concrete `f32` may be `std`'s own method instead, whose last bit can differ.
//!
//! All are our own, by fused multiply-adds of the type itself, and nearly without branches. What the hardware has (`sqrt`,
//! `mul_add` and the roundings) is one instruction, `round` three.
//!
//! An error bound is given in ulp, units in the last place of the exact result; 0.5 is correct
//! rounding. Every bound holds for subnormal arguments and results as well: nothing is flushed to
//! zero. Those of f32 were measured, with all arguments, and 2 · 10^8 pairs where a function takes two, those of f64 with
//! millions of arguments against 113 bits. NaN comes out wherever
//! NaN goes in, except where a method says otherwise; infinities and signed zeros are treated as
//! C's Annex F has it.

use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::param::Param;

/// Implements the methods that do not differ between f32 and f64 but for their `machine`, and the
/// one-argument ones by naming their functions. On the host a build with debug assertions compiles its kernels without optimisation
/// as a rule, and this crate, in this workspace, with it: there each is a function of this crate, and none that the kernel's crate
/// compiles once more because it is short.
macro_rules! impl_float {
    ($float:ty, machine $machine:ident, $($method:ident => $function:path),+ $(,)?) => {
        impl Sealed for $float {}

        impl Float for $float {
            impl_float!(@unary
                sqrt => $machine::sqrt,
                floor => $machine::floor,
                ceil => $machine::ceil,
                trunc => $machine::trunc,
                round => $machine::round,
                round_ties_even => $machine::round_ties_even,
                $($method => $function),+
            );
            impl_float!(@binary
                powf => powf,
                atan2 => atan2,
                hypot => hypot,
                fmod => fmod,
                minimum => $machine::minimum,
                maximum => $machine::maximum,
                minimum_number => $machine::minimum_number,
                maximum_number => $machine::maximum_number,
            );

            #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
            #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
            fn from_f64(x: f64) -> Self {
                x as $float
            }
            #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
            #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
            fn sin_cos(self) -> (Self, Self) {
                sin_cos(self)
            }
            #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
            #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
            fn powi(self, n: i32) -> Self {
                powi(self, n)
            }
            #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
            #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
            fn mul_add(self, a: Self, b: Self) -> Self {
                $machine::fma(self, a, b)
            }
            #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
            #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
            fn recip(self) -> Self {
                1.0 / self
            }
            #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
            #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
            fn abs(self) -> Self {
                <$float>::abs(self)
            }
            #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
            #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
            fn copysign(self, sign: Self) -> Self {
                <$float>::copysign(self, sign)
            }
            #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
            #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
            fn is_nan(self) -> bool {
                <$float>::is_nan(self)
            }
        }
    };
    (@unary $($method:ident => $function:path),+ $(,)?) => {$(
        #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
        #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
        fn $method(self) -> Self {
            $function(self)
        }
    )+};
    (@binary $($method:ident => $function:path),+ $(,)?) => {$(
        #[cfg_attr(any(not(debug_assertions), target_arch = "nvptx64"), inline)]
        #[cfg_attr(all(debug_assertions, not(target_arch = "nvptx64")), inline(never))]
        fn $method(self, other: Self) -> Self {
            $function(self, other)
        }
    )+};
}

pub mod approximate;
mod f32;
mod f64;
pub(crate) mod machine;
pub mod narrow;
mod normal;
mod pair;
pub mod rare;
mod remainder;

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// The elementary functions of f32 and f64, on the GPU and on the simulated one.
///
/// ```
/// use cuda_std::float::Float;
///
/// fn logistic<T: Float>(x: T) -> T {
///     let one = T::from_f64(1.0);
///     one / (one + (-x).exp())
/// }
/// assert_eq!(logistic(0.0_f32), 0.5);
/// assert_eq!(logistic(800.0_f64), 1.0);
/// ```
pub trait Float:
    Sealed
    + Param
    + bytemuck::Pod
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The number nearest to `x`; for constants of generic code.
    fn from_f64(x: f64) -> Self;

    /// √x, correctly rounded. −0 for −0, NaN for x < 0.
    fn sqrt(self) -> Self;
    /// 1 / √x. f32: correctly rounded; f64: 1 ulp. ±∞ for ±0, NaN for x < 0.
    fn rsqrt(self) -> Self;
    /// ∛x, of x's sign. f32: 1 ulp; f64: 0.501 ulp.
    fn cbrt(self) -> Self;

    /// e^x. f32: 1 ulp; f64: 1 ulp.
    fn exp(self) -> Self;
    /// 2^x. f32: 1 ulp; f64: 1 ulp. Exact for integers.
    fn exp2(self) -> Self;
    /// e^x − 1, accurate for small x too. f32: 1.5 ulp; f64: 1.5 ulp.
    fn expm1(self) -> Self;

    /// The natural logarithm. f32: 1 ulp; f64: 1 ulp. −∞ for ±0, NaN for x < 0.
    fn ln(self) -> Self;
    /// The logarithm to base 2. f32: 1.5 ulp; f64: 1 ulp. Exact for powers of 2; −∞ for ±0, NaN for
    /// x < 0.
    fn log2(self) -> Self;
    /// The logarithm to base 10. f32: 1.5 ulp; f64: 1 ulp. −∞ for ±0, NaN for x < 0.
    fn log10(self) -> Self;
    /// ln(1 + x), accurate for small x too. f32: 2 ulp; f64: 1 ulp. −∞ for −1, NaN for x < −1.
    fn ln_1p(self) -> Self;

    /// The sine of x radians, x of any size. f32: 2 ulp; f64: 1.5 ulp. NaN for ±∞.
    fn sin(self) -> Self;
    /// The cosine of x radians, x of any size. f32: 2 ulp; f64: 1.5 ulp. NaN for ±∞.
    fn cos(self) -> Self;
    /// Sine and cosine, for little more than the price of one; the bounds are theirs.
    fn sin_cos(self) -> (Self, Self);
    /// The tangent of x radians, x of any size. f32: 2 ulp; f64: 1.5 ulp. NaN for ±∞.
    fn tan(self) -> Self;

    /// The arc sine, in [−π/2, π/2]. f32: 2 ulp; f64: 1 ulp. NaN for |x| > 1.
    fn asin(self) -> Self;
    /// The arc cosine, in [0, π]. f32: 1.5 ulp; f64: 1 ulp. NaN for |x| > 1.
    fn acos(self) -> Self;
    /// The arc tangent, in [−π/2, π/2]. f32: 1.5 ulp; f64: 1 ulp.
    fn atan(self) -> Self;
    /// The angle in [−π, π] from the x axis to the point (`x`, `self`). f32: 2 ulp; f64: 1.5 ulp.
    fn atan2(self, x: Self) -> Self;

    /// The hyperbolic sine. f32: 2 ulp; f64: 2 ulp.
    fn sinh(self) -> Self;
    /// The hyperbolic cosine. f32: 1.5 ulp; f64: 2 ulp.
    fn cosh(self) -> Self;
    /// The hyperbolic tangent. f32: 2 ulp; f64: 2 ulp.
    fn tanh(self) -> Self;
    /// 1 / (1 + e^−x), accurate for x far below 0 too. f32: 3 ulp; f64: 5 ulp.
    fn sigmoid(self) -> Self;

    /// x^y. f32: 1 ulp; f64: 1.5 ulp. As C's pow: 1^NaN = NaN^0 = 1, and NaN for x < 0 unless y is
    /// an integer or infinite.
    fn powf(self, y: Self) -> Self;
    /// x^n. f32: 1 ulp; f64: 1.5 ulp, for every n: the error does not grow with the exponent, as
    /// repeated multiplication's does. NaN^0 = 1.
    fn powi(self, n: i32) -> Self;
    /// √(x² + y²) without intermediate overflow. f32: 1.5 ulp; f64: 1 ulp. +∞ if either is infinite,
    /// even where the other is NaN.
    fn hypot(self, other: Self) -> Self;

    /// What is left of x when it is divided by y, with the sign of x, as Rust's `%` and C's fmod: exact. NaN for infinite x and
    /// for y = ±0.
    fn fmod(self, y: Self) -> Self;

    /// The error function. f32: 1.5 ulp; f64: 1.5 ulp.
    fn erf(self) -> Self;
    /// 1 − erf x, accurate in the tail too. f32: 3 ulp; f64: 4 ulp.
    fn erfc(self) -> Self;

    /// The largest integer not above x.
    fn floor(self) -> Self;
    /// The smallest integer not below x.
    fn ceil(self) -> Self;
    /// The nearest integer, halves away from zero.
    fn round(self) -> Self;
    /// The nearest integer, halves to the even one.
    fn round_ties_even(self) -> Self;
    /// The integer part.
    fn trunc(self) -> Self;

    /// |x|, of NaN too.
    fn abs(self) -> Self;
    /// The magnitude of x with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// `self * a + b`, rounded once.
    ///
    /// The compiler never fuses a product and a sum by itself; on a GPU this form does twice the
    /// work in an instruction.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// 1 / x, correctly rounded.
    fn recip(self) -> Self;

    /// Whether x is not a number.
    fn is_nan(self) -> bool;
    /// The smaller of the two; NaN if either is, as NumPy's `minimum`. −0 is below +0.
    fn minimum(self, other: Self) -> Self;
    /// The larger of the two; NaN if either is, as NumPy's `maximum`. +0 is above −0.
    fn maximum(self, other: Self) -> Self;
    /// The smaller of the two; where one is NaN, the other. −0 is below +0.
    ///
    /// One instruction, and less than [`minimum`](Self::minimum) where NaN is asked for another way.
    fn minimum_number(self, other: Self) -> Self;
    /// The larger of the two; where one is NaN, the other. +0 is above −0.
    ///
    /// One instruction, and less than [`maximum`](Self::maximum) where NaN is asked for another way.
    fn maximum_number(self, other: Self) -> Self;
}
