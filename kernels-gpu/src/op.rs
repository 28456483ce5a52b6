// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators: types without values that name what a kernel computes for each element or pair.
//!
//! A kernel is written once, generic over its operator; other kernel crates implement these traits for operators of
//! their own.

use bytemuck::Pod;
use cuda_std::Float;

use crate::num::{CastTo, Num};

/// Computes one number of two.
pub trait BinaryOp<T>: 'static {
    /// The result for `a` and `b`.
    fn apply(a: T, b: T) -> T;
}

/// Computes one number of one, perhaps of another type.
pub trait UnaryOp<T, U = T>: 'static {
    /// The result for `x`.
    fn apply(x: T) -> U;
}

/// Combines any number of elements into one.
pub trait ReduceOp<T>: 'static {
    /// What the elements are combined in.
    type Acc: Pod + Send + Sync;

    /// The result for no element; combined with any value, it gives that value.
    fn identity() -> Self::Acc;

    /// The result for one element.
    fn lift(x: T) -> Self::Acc;

    /// The result for all elements of `a` and of `b`. Associative and commutative, up to rounding.
    fn combine(a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

macro_rules! binary_ops {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num> BinaryOp<T> for $name {
            #[inline(always)]
            fn apply(a: T, b: T) -> T {
                a.$method(b)
            }
        }
    )*};
}

macro_rules! unary_ops {
    ($($(#[$doc:meta])* $name:ident: $bound:ident = |$x:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: $bound> UnaryOp<T> for $name {
            #[inline(always)]
            fn apply($x: T) -> T {
                $result
            }
        }
    )*};
}

macro_rules! reduce_ops {
    ($($(#[$doc:meta])* $name:ident = $method:ident from $identity:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num> ReduceOp<T> for $name {
            type Acc = T;

            #[inline(always)]
            fn identity() -> T {
                T::$identity
            }

            #[inline(always)]
            fn lift(x: T) -> T {
                x
            }

            #[inline(always)]
            fn combine(a: T, b: T) -> T {
                a.$method(b)
            }
        }
    )*};
}

binary_ops! {
    /// `a + b`
    Add = add;
    /// `a − b`
    Sub = sub;
    /// `a · b`
    Mul = mul;
    /// `a / b`
    Div = div;
    /// The smaller of `a` and `b`.
    Minimum = min;
    /// The larger of `a` and `b`.
    Maximum = max;
}

unary_ops! {
    /// `−x`
    Neg: Num = |x| x.neg();
    /// `|x|`
    Abs: Num = |x| x.abs();
    /// `x²`
    Square: Num = |x| x.mul(x);
    /// `max(x, 0)`; NaN stays NaN.
    Relu: Num = |x| x.max(T::ZERO);
    /// The square root.
    Sqrt: Float = |x| x.sqrt();
    /// `e^x`
    Exp: Float = |x| x.exp();
    /// The natural logarithm.
    Ln: Float = |x| x.ln();
    /// The sine of an angle in radians.
    Sin: Float = |x| x.sin();
    /// The cosine of an angle in radians.
    Cos: Float = |x| x.cos();
    /// The hyperbolic tangent.
    Tanh: Float = |x| x.tanh();
    /// `1 / (1 + e^−x)`
    Sigmoid: Float = |x| sigmoid(x);
}

/// The logistic function. Its denominator overflows for `x` below about −88 (f32), and the quotient is then 0, off by
/// less than the smallest normal number.
#[inline(always)]
fn sigmoid<T: Float>(x: T) -> T {
    let one = T::from_f64(1.0);
    one / (one + (-x).exp())
}

/// The number in another type, as Rust's `as`.
#[derive(Clone, Copy, Debug)]
pub struct Cast;

impl<T: CastTo<U>, U> UnaryOp<T, U> for Cast {
    #[inline(always)]
    fn apply(x: T) -> U {
        x.cast()
    }
}

reduce_ops! {
    /// The sum.
    Sum = add from ZERO;
    /// The product.
    Product = mul from ONE;
    /// The smallest element; NaN if any is NaN.
    Min = min from GREATEST;
    /// The largest element; NaN if any is NaN.
    Max = max from LEAST;
}

/// The sum in `f64`, whatever the elements are; what a mean is made of.
#[derive(Clone, Copy, Debug)]
pub struct WideSum;

impl<T: Num> ReduceOp<T> for WideSum {
    type Acc = f64;

    #[inline(always)]
    fn identity() -> f64 {
        0.0
    }

    #[inline(always)]
    fn lift(x: T) -> f64 {
        x.to_f64()
    }

    #[inline(always)]
    fn combine(a: f64, b: f64) -> f64 {
        a + b
    }
}
