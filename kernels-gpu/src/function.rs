// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's device functions: what expressions are made of. Of numbers, where the kernels of the same name without
//! `number_` are of arrays.
//!
//! Each is an operator that kernels apply too, so that an expression gives the bits of the operations one by one. There is no
//! function for what another does, since a number is passed by its bits, of which those above it do not count:
//!
//! * 16-bit floats are cast to `f32`, and the result is cast back; of `f16` there are functions that are as precise as it is
//!   ([`number_narrow()`]), and [`number_unary()`] has the signs;
//! * where sign or type make no difference, signed integers are passed as unsigned ones, `bool` as `u8` and floats as integers
//!   ([`number_select()`], [`number_bits()`], sums, products, [`Equal`] of integers);
//! * for `>` and `≥` the operands change places;
//! * casts are made of one or two of [`number_cast()`]'s, without a second rounding: see there;
//! * uniform random numbers and those that are 1 with a probability are made of [`number_random()`]'s bits by the others.

use cuda_std::device_fn;
use cuda_std::float::narrow;
use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::half::{bf16, f16};
use cuda_std::random::Philox4x32;
use cuda_std::scalar::Scalar;

use crate::num::{CastTo, MulAdd, WrappingCastTo};
use crate::op::*;
use crate::random::{NormalNumber, RandomBits};

/// `op(x)`. [`Neg`] and [`Abs`] of `f16` are those of `bf16` too, [`Neg`], [`Square`] and [`Not`] of unsigned integers those of
/// signed ones.
#[device_fn(
    T = [f32, f64, f16, u8, u16, u32, u64],
    Op = [Neg];
    T = [f32, f64, f16, i32, i64],
    Op = [Abs];
    T = [f32, f64, u8, u16, u32, u64],
    Op = [Square];
    T = [f32, f64, i32, i64],
    Op = [Relu];
    T = [bool, u8, u16, u32, u64],
    Op = [Not];
    T = [f64],
    Op = [Sqrt, Rsqrt, Cbrt, Exp2, Ln, Log2, Log10];
    T = [f32, f64],
    Op = [
        Recip, Exp, ExpM1, Ln1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Sigmoid, Erf, Erfc, Floor, Ceil, Round, RoundTiesEven, Trunc, Signum, Gelu, GeluTanh, Silu,
    ],
)]
pub fn number_unary<T: Scalar, Op: UnaryOp<T>>(x: T) -> T {
    Op::apply(x)
}

/// `op(x)` of an `f32`, by a branch for rare arguments: the host's generator asks for it once for several numbers.
#[device_fn(Op = [Sqrt, Rsqrt, Cbrt, Exp2, Ln, Log2, Log10])]
pub fn number_rare<Op: RareOp>(x: f32) -> f32 {
    Op::apply_rare(x)
}

/// `op(x)` of an `f16` as an `f32`, which is to be rounded to `f16`. [`Acos`], [`Tanh`] and [`Erf`] are those of `bf16` too.
#[device_fn(
    T = [f16],
    Op = [
        Sqrt, Rsqrt, Cbrt, Recip, Exp, Exp2, ExpM1, Ln, Log2, Log10, Sin, Cos, Tan, Acos, Sinh, Cosh, Tanh, Sigmoid, Erf, Erfc,
    ],
)]
pub fn number_narrow<T: Elementary<Wide = f32>, Op: WideOp<T>>(x: f32) -> f32 {
    Op::apply_wide(x)
}

/// `a / b` of two `f16`, as [`number_narrow()`].
#[device_fn]
pub fn number_narrow_div(a: f32, b: f32) -> f32 {
    narrow::div(a, b)
}

/// Whether `op(x)` holds.
#[device_fn(T = [f32, f64], Op = [IsNan, IsFinite, IsInfinite])]
pub fn number_predicate<T: Scalar, Op: UnaryOp<T, bool>>(x: T) -> bool {
    Op::apply(x)
}

/// `op(a, b)`. Of unsigned integers [`Add`], [`Sub`] and [`Mul`] are those of signed ones too.
#[device_fn(
    T = [f32, f64, u8, u16, u32, u64],
    Op = [Add, Sub, Mul];
    T = [f32, f64, i32, i64, u8, u16, u32, u64],
    Op = [Div, Rem, Minimum, Maximum, Pow];
    T = [f32, f64],
    Op = [Atan2, Hypot, Copysign],
)]
pub fn number_binary<T: Scalar, Op: BinaryOp<T>>(a: T, b: T) -> T {
    Op::apply(a, b)
}

/// `op(a, b)` of bits: of all integers of that size, but for [`Shr`] of signed ones, and of `bool` as `u8`.
#[device_fn(
    T = [u8, u16, u32, u64],
    Op = [BitAnd, BitOr, BitXor, Shl, Shr];
    T = [i32, i64],
    Op = [Shr],
)]
pub fn number_bits<T: Scalar, Op: BinaryOp<T>>(a: T, b: T) -> T {
    Op::apply(a, b)
}

/// Whether `a op b`. [`Equal`] and [`NotEqual`] of unsigned integers are those of signed ones and of `bool` too.
#[device_fn(
    T = [f32, f64, u8, u16, u32, u64],
    Op = [Equal, NotEqual];
    T = [f32, f64, i32, i64, u8, u16, u32, u64],
    Op = [Less, LessEqual],
)]
pub fn number_compare<T: Scalar, Op: CompareOp<T>>(a: T, b: T) -> bool {
    Op::holds(a, b)
}

/// `a · b + c`: of floats with one rounding. Of unsigned integers it is that of signed ones too.
#[device_fn(T = [f32, f64, u8, u16, u32, u64])]
pub fn number_mul_add<T: Scalar + MulAdd>(a: T, b: T, c: T) -> T {
    a.mul_add(b, c)
}

/// `x`, or `low` where it is less, or `high` where it is greater. NaN is neither, and stays NaN.
#[device_fn(T = [f32, f64, i32, i64, u8, u16, u32, u64])]
pub fn number_clamp<T: Scalar + PartialOrd>(x: T, low: T, high: T) -> T {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// `a` where the condition holds, else `b`: of all types of that size.
#[device_fn(T = [u8, u16, u32, u64])]
pub fn number_select<T: Scalar>(condition: bool, a: T, b: T) -> T {
    if condition { a } else { b }
}

/// `x as U`. Other casts are made of these, without a second rounding:
///
/// * from `i8` and `i16` by way of `i32`, from `bool`, `u8` and `u16` by way of `u32`, all of whose values those have;
/// * from the 16-bit and 8-bit floats by way of `f32`, and to the 8-bit ones too;
/// * to an integer of another sign as to the one of its size that is listed: the bits are the same;
/// * from an integer of 64 bits to one of 16 or 8 by way of `u32`, and to a longer one from 32 bits as that one's sign wants.
#[device_fn(
    T = [i8, i16],
    U = [i32];
    T = [bool, u8, u16],
    U = [u32];
    T = [i32, u32],
    U = [u64, f32, f64, f16, bf16];
    T = [u32],
    U = [u8, u16];
    T = [i64, u64],
    U = [f32, f64, f16, bf16];
    T = [u64],
    U = [u32];
    T = [f32],
    U = [f64, f16, bf16, F8E4M3, F8E5M2];
    T = [f64],
    U = [f32, f16, bf16];
    T = [f16, bf16, F8E4M3, F8E5M2],
    U = [f32];
    T = [f32, f64],
    U = [i8, i16, i32, i64, u8, u16, u32, u64],
)]
pub fn number_cast<T: Scalar + CastTo<U>, U: Scalar>(x: T) -> U {
    <Cast as UnaryOp<T, U>>::apply(x)
}

/// `x` rounded towards zero, modulo 2^64, and 0 for NaN and ±∞. The lowest bits are those of shorter integers; 16-bit floats are
/// cast to `f32` before.
#[device_fn(T = [f32, f64])]
pub fn number_cast_wrapping<T: Scalar + WrappingCastTo<u64>>(x: T) -> u64 {
    <CastWrapping as UnaryOp<T, u64>>::apply(x)
}

/// The random bits that the element at `index` of an array is made of, in a generator's block `position` and those behind it.
#[device_fn(T = [u32, u64])]
pub fn number_random<T: Scalar + RandomBits>(seed: u64, sequence: u64, position: u64, index: u64) -> T {
    T::bits(philox(seed, sequence, position), index)
}

/// The random number of the normal distribution that is the element at `index`; the blocks are as for [`number_random()`].
#[device_fn(T = [f32, f64])]
pub fn number_random_normal<T: Scalar + NormalNumber>(
    seed: u64,
    sequence: u64,
    position: u64,
    index: u64,
    mean: T,
    standard_deviation: T,
) -> T {
    T::normal(philox(seed, sequence, position), index, mean, standard_deviation)
}

/// The random integer from `low` to `low + last` that is the element at `index`; the blocks are as for [`number_random()`]. It
/// is that of signed integers too.
#[device_fn(T = [u32, u64])]
pub fn number_random_integer<T: Scalar + RandomBits>(
    seed: u64,
    sequence: u64,
    position: u64,
    index: u64,
    low: T,
    last: T,
) -> T {
    T::bounded(philox(seed, sequence, position), index, low, last)
}

#[inline(always)]
fn philox(seed: u64, sequence: u64, position: u64) -> Philox4x32 {
    Philox4x32::new(seed).with_sequence(sequence).skip(position)
}
