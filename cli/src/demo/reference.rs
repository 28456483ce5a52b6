// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each operation gives, as the CPU computes it, and the data that it is tried on.

use rand::{Rng, RngExt};

use crate::ops::{BinaryOp, UnaryOp};
use crate::scalar::Scalar;

/// An element type with the CPU's results.
pub trait Reference: Scalar + PartialEq {
    /// A random element: of all integers, of the floats from −8 to 8.
    fn random(rng: &mut impl Rng) -> Self;

    /// Element `i` of a long product that has one right result.
    ///
    /// Odd integers, whose product is never 0. Of floats ±1, and at few places ±2 or ±1/2, so that no
    /// product rounds or overflows in whatever order it is computed.
    fn factor(rng: &mut impl Rng, i: usize, len: usize) -> Self;

    /// `a op b`
    fn binary(op: BinaryOp, a: Self, b: Self) -> Self;

    /// `op(x)`, for the functions that have one right result.
    fn exact_unary(op: UnaryOp, x: Self) -> Self;

    /// The sum without error, but for the last bit of the `f64`.
    fn exact_sum(x: &[Self]) -> f64;

    /// As Rust's `as`.
    fn cast_to<U: CastFrom>(self) -> U;

    /// The unit roundoff; 0 for integers.
    const UNIT_ROUNDOFF: f64;
}

/// A float type.
pub trait Float: Reference {
    /// The distance of neighbouring numbers at `x`.
    fn ulp(x: f64) -> f64;

    /// How many ulp a function may be off: the contract of `cuda_std::Float`, and for sigmoid what
    /// follows from it.
    fn ulps(op: UnaryOp) -> f64;

    /// How many ulp of this type the reference, computed in `f64`, may itself be off.
    fn reference_ulps(op: UnaryOp) -> f64;
}

/// What a function of floats gives in `f64`.
pub fn float_function(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Exp => x.exp(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sigmoid => {
            let e = (-x.abs()).exp();
            (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
        }
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Square => x * x,
        UnaryOp::Relu => x.max(0.0),
    }
}

/// Factors of a float product that are not ±1, on average: the exponent of any partial product is then
/// a random walk of that many steps, about 20 from 0, where f32 has 126.
const EXPONENT_STEPS: usize = 400;

macro_rules! floats {
    ($($type:ident: reference $share:literal, sin and cos $sin:literal, tanh $tanh:literal;)*) => {$(
        impl Reference for $type {
            const UNIT_ROUNDOFF: f64 = $type::EPSILON as f64 / 2.0;

            fn random(rng: &mut impl Rng) -> Self {
                rng.random_range(-8.0..8.0)
            }

            fn factor(rng: &mut impl Rng, i: usize, len: usize) -> Self {
                let sign = if rng.random() { 1.0 } else { -1.0 };
                match i.is_multiple_of(len.div_ceil(EXPONENT_STEPS)) {
                    true if rng.random() => sign * 2.0,
                    true => sign * 0.5,
                    false => sign,
                }
            }

            fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a / b,
                    BinaryOp::Min if a.is_nan() || b.is_nan() => Self::NAN,
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max if a.is_nan() || b.is_nan() => Self::NAN,
                    BinaryOp::Max => a.max(b),
                }
            }

            // f64 has more than twice the digits of f32, so rounding a correctly rounded f64 result of
            // these functions once more gives the correctly rounded f32 one.
            fn exact_unary(op: UnaryOp, x: Self) -> Self {
                float_function(op, x as f64) as $type
            }

            // Neumaier's compensated summation.
            fn exact_sum(x: &[Self]) -> f64 {
                let (sum, compensation) = x.iter().fold((0.0f64, 0.0f64), |(sum, compensation), &x| {
                    let (x, next) = (x as f64, sum + x as f64);
                    let lost = if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
                    (next, compensation + lost)
                });
                sum + compensation
            }

            fn cast_to<U: CastFrom>(self) -> U {
                U::from_float(self as f64)
            }
        }

        impl Float for $type {
            fn reference_ulps(op: UnaryOp) -> f64 {
                $share * match op {
                    UnaryOp::Tanh => 2.0,
                    UnaryOp::Sigmoid => 5.0,
                    _ => 1.0,
                }
            }

            fn ulps(op: UnaryOp) -> f64 {
                match op {
                    UnaryOp::Sin | UnaryOp::Cos => $sin,
                    UnaryOp::Tanh => $tanh,
                    UnaryOp::Sigmoid => 5.0,
                    _ => 1.0,
                }
            }

            fn ulp(x: f64) -> f64 {
                let x = (x as $type).abs().min($type::MAX.next_down());
                (x.next_up() - x) as f64
            }
        }
    )*};
}

macro_rules! integers {
    ($($type:ident: abs $abs:ident;)*) => {$(
        impl Reference for $type {
            const UNIT_ROUNDOFF: f64 = 0.0;

            fn random(rng: &mut impl Rng) -> Self {
                rng.random()
            }

            fn factor(rng: &mut impl Rng, _: usize, _: usize) -> Self {
                rng.random::<Self>() | 1
            }

            fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
                match op {
                    BinaryOp::Add => a.wrapping_add(b),
                    BinaryOp::Sub => a.wrapping_sub(b),
                    BinaryOp::Mul => a.wrapping_mul(b),
                    BinaryOp::Div if b == 0 => 0,
                    BinaryOp::Div => a.wrapping_div(b),
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max => a.max(b),
                }
            }

            fn exact_unary(op: UnaryOp, x: Self) -> Self {
                match op {
                    UnaryOp::Neg => x.wrapping_neg(),
                    UnaryOp::Abs => integers!(@abs $abs, x),
                    UnaryOp::Square => x.wrapping_mul(x),
                    _ => x.max(0),
                }
            }

            fn exact_sum(x: &[Self]) -> f64 {
                x.iter().map(|&x| x as i128).sum::<i128>() as f64
            }

            fn cast_to<U: CastFrom>(self) -> U {
                U::from_integer(self as i128)
            }
        }
    )*};
    (@abs signed, $x:ident) => { $x.wrapping_abs() };
    (@abs unsigned, $x:ident) => { $x };
}

/// A type that every number is cast to: from `f64`, which holds every float, and from `i128`, which
/// holds every integer.
pub trait CastFrom: Copy {
    fn from_float(x: f64) -> Self;
    fn from_integer(x: i128) -> Self;
}

macro_rules! casts {
    ($($type:ident),*) => {$(
        impl CastFrom for $type {
            fn from_float(x: f64) -> Self {
                x as $type
            }

            fn from_integer(x: i128) -> Self {
                x as $type
            }
        }
    )*};
}

floats! {
    f32: reference 0.0, sin and cos 2.0, tanh 2.0;
    f64: reference 1.0, sin and cos 1.0, tanh 3.0;
}
integers! {
    i32: abs signed;
    i64: abs signed;
    u8: abs unsigned;
    u16: abs unsigned;
    u32: abs unsigned;
    u64: abs unsigned;
}
casts!(f32, f64, i32, i64, u8, u16, u32, u64);
