// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators that floats have: those of [`Float`], and the functions that networks put between products.

use cuda_std::Float;
use cuda_std::float::{narrow, rare};
use cuda_std::half::{bf16, f16};

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

/// A function of floats as it is computed: in [`Num::Wide`], as precisely as the type is, and before the result is rounded.
pub trait WideOp<T: Num> {
    /// The result for a `T` that was widened.
    fn apply_wide(x: T::Wide) -> T::Wide;
}

/// A function of `f32` that has a branch for its rare arguments: [`rare`]'s, with the results of [`UnaryOp`].
pub trait RareOp {
    /// The result.
    fn apply_rare(x: f32) -> f32;
}

macro_rules! rare_ops {
    ($($name:ident = $function:ident;)*) => {$(
        impl RareOp for $name {
            #[inline(always)]
            fn apply_rare(x: f32) -> f32 {
                rare::$function(x)
            }
        }
    )*};
}

rare_ops! {
    Sqrt = sqrt;
    Rsqrt = rsqrt;
    Cbrt = cbrt;
    Exp2 = exp2;
    Ln = ln;
    Log2 = log2;
    Log10 = log10;
}

/// Functions that 16-bit floats have ways of their own for: those of [`narrow`]. The others are [`Float`]'s.
macro_rules! elementary {
    (narrow f16: $($of_f16:ident)*; narrow bf16: $($of_bf16:ident)*; $($(#[$doc:meta])* $name:ident = $method:ident;)*) => {
        /// A type of floats, with the functions of which not all types have the same.
        pub trait Elementary: Num<Wide: Float> {
            $(
                $(#[$doc])*
                #[inline(always)]
                fn $method(x: Self::Wide) -> Self::Wide {
                    Float::$method(x)
                }
            )*
        }

        impl Elementary for f32 {}
        impl Elementary for f64 {}
        elementary!(@narrow f16: $($of_f16)*);
        elementary!(@narrow bf16: $($of_bf16)*);

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl<T: Elementary> WideOp<T> for $name {
                #[inline(always)]
                fn apply_wide(x: T::Wide) -> T::Wide {
                    T::$method(x)
                }
            }

            impl<T: Elementary> UnaryOp<T> for $name {
                #[inline(always)]
                fn apply(x: T) -> T {
                    T::narrow(T::$method(x.widen()))
                }
            }
        )*
    };
    (@narrow $type:ident: $($method:ident)*) => {
        impl Elementary for $type {
            $(
                #[inline(always)]
                fn $method(x: f32) -> f32 {
                    narrow::$method(x)
                }
            )*
        }
    };
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

elementary! {
    narrow f16: sqrt rsqrt cbrt recip exp exp2 expm1 ln log2 log10 sin cos tan acos sinh cosh tanh sigmoid erf erfc;
    narrow bf16: acos tanh erf;

    /// The square root.
    Sqrt = sqrt;
    /// `1 / √x`
    Rsqrt = rsqrt;
    /// The cube root.
    Cbrt = cbrt;
    /// `1 / x`
    Recip = recip;
    /// `e^x`
    Exp = exp;
    /// `2^x`
    Exp2 = exp2;
    /// `e^x − 1`
    ExpM1 = expm1;
    /// The natural logarithm.
    Ln = ln;
    /// The logarithm to base 2.
    Log2 = log2;
    /// The logarithm to base 10.
    Log10 = log10;
    /// The sine of an angle in radians.
    Sin = sin;
    /// The cosine of an angle in radians.
    Cos = cos;
    /// The tangent of an angle in radians.
    Tan = tan;
    /// The arc cosine.
    Acos = acos;
    /// The hyperbolic sine.
    Sinh = sinh;
    /// The hyperbolic cosine.
    Cosh = cosh;
    /// The hyperbolic tangent.
    Tanh = tanh;
    /// `1 / (1 + e^−x)`
    Sigmoid = sigmoid;
    /// The error function.
    Erf = erf;
    /// `1 − erf x`
    Erfc = erfc;
}

float_ops! {
    /// `ln(1 + x)`
    Ln1p = |x| x.ln_1p();
    /// The arc sine.
    Asin = |x| x.asin();
    /// The arc tangent.
    Atan = |x| x.atan();
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
