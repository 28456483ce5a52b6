// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators that floats have: those of [`Float`], and the functions that networks put between products.

use cuda_std::Float;

use super::{BinaryOp, UnaryOp};
use crate::matmul::epilogue::{Activate, Activation};
use crate::num::Num;

/// Functions of floats, computed in [`Num::Wide`].
macro_rules! float_ops {
    ($($(#[$doc:meta])* $name:ident = |$x:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num<Wide: Float>> UnaryOp<T> for $name {
            #[inline(always)]
            fn apply(x: T) -> T {
                let $x = x.widen();
                T::narrow($result)
            }
        }
    )*};
}

macro_rules! float_binary_ops {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num<Wide: Float>> BinaryOp<T> for $name {
            #[inline(always)]
            fn apply(a: T, b: T) -> T {
                T::narrow(Float::$method(a.widen(), b.widen()))
            }
        }
    )*};
}

macro_rules! predicates {
    ($($(#[$doc:meta])* $name:ident = |$x:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num<Wide: Float>> UnaryOp<T, bool> for $name {
            #[inline(always)]
            fn apply(x: T) -> bool {
                let $x = x.widen();
                $result
            }
        }
    )*};
}

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident = $activation:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Activate> UnaryOp<T> for $name {
            #[inline(always)]
            fn apply(x: T) -> T {
                let [y] = T::activate(Activation::$activation, [x]);
                y
            }
        }
    )*};
}

float_ops! {
    /// The square root.
    Sqrt = |x| x.sqrt();
    /// `1 / √x`
    Rsqrt = |x| x.rsqrt();
    /// The cube root.
    Cbrt = |x| x.cbrt();
    /// `1 / x`
    Recip = |x| x.recip();
    /// `e^x`
    Exp = |x| x.exp();
    /// `2^x`
    Exp2 = |x| x.exp2();
    /// `e^x − 1`
    ExpM1 = |x| x.expm1();
    /// The natural logarithm.
    Ln = |x| x.ln();
    /// The logarithm to base 2.
    Log2 = |x| x.log2();
    /// The logarithm to base 10.
    Log10 = |x| x.log10();
    /// `ln(1 + x)`
    Ln1p = |x| x.ln_1p();
    /// The sine of an angle in radians.
    Sin = |x| x.sin();
    /// The cosine of an angle in radians.
    Cos = |x| x.cos();
    /// The tangent of an angle in radians.
    Tan = |x| x.tan();
    /// The arc sine.
    Asin = |x| x.asin();
    /// The arc cosine.
    Acos = |x| x.acos();
    /// The arc tangent.
    Atan = |x| x.atan();
    /// The hyperbolic sine.
    Sinh = |x| x.sinh();
    /// The hyperbolic cosine.
    Cosh = |x| x.cosh();
    /// The hyperbolic tangent.
    Tanh = |x| x.tanh();
    /// `1 / (1 + e^−x)`
    Sigmoid = |x| x.sigmoid();
    /// The error function.
    Erf = |x| x.erf();
    /// `1 − erf x`
    Erfc = |x| x.erfc();
    /// The largest integer not above `x`.
    Floor = |x| x.floor();
    /// The smallest integer not below `x`.
    Ceil = |x| x.ceil();
    /// The nearest integer, halves away from zero.
    Round = |x| x.round();
    /// The nearest integer, halves to the even one.
    RoundTiesEven = |x| x.round_ties_even();
    /// The integer part.
    Trunc = |x| x.trunc();
    /// 1 with the sign of `x`, of zeros too; NaN stays NaN.
    Signum = |x| if x.is_nan() { x } else { Float::copysign(T::Wide::ONE, x) };
}

float_binary_ops! {
    /// The angle from the x axis to the point (`b`, `a`).
    Atan2 = atan2;
    /// `√(a² + b²)`
    Hypot = hypot;
    /// The magnitude of `a` with the sign of `b`.
    Copysign = copysign;
}

predicates! {
    /// Whether `x` is not a number.
    IsNan = |x| x.is_nan();
    /// Whether `x` is neither an infinity nor NaN.
    IsFinite = |x| Float::abs(x) < T::Wide::GREATEST;
    /// Whether `x` is an infinity.
    IsInfinite = |x| Float::abs(x) == T::Wide::GREATEST;
}

activations! {
    /// `x Φ(x)`, with the distribution function of the normal distribution, as the epilogue of products computes it.
    Gelu = GELU;
    /// `x / 2 (1 + tanh(√(2/π) (x + 0.044715 x³)))`, as the epilogue of products computes it.
    GeluTanh = GELU_TANH;
    /// `x / (1 + e^−x)`, as the epilogue of products computes it.
    Silu = SILU;
}
