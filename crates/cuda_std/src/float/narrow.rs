// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of 16-bit floats, as precise as these are: from the `f32` that a 16-bit float is to the `f32` that is to be
//! rounded to 16 bits.
//!
//! Results of [`Float`](super::Float)'s functions have 13 bits more than an `f16` shows, and their arguments may be what no
//! `f16` is. These take 352 instructions of PTX together in place of 593 when they were written, and all but
//! [`sqrt`] and [`acos`] no branch: shorter polynomials, or quotients of two, and no subnormal numbers. They are arithmetic of
//! f32 like the others, with the same bits on a GPU and on the simulated one.
//!
//! Rounded to `f16`, the results for all 65536 arguments are within 0.501 ulp of the exact ones (0.5 is the nearest float), and
//! so are those of [`acos`], [`tanh`] and [`erf`] rounded to `bf16`. The others are for `f16` alone. Infinities, signed zeros and NaN
//! are treated as by `Float`. What is given for other numbers than these means nothing.
//!
//! The relative error of each fit stands beside it. They were made by Lawson's weighted least squares, quotients with the
//! denominator of the step before as a weight.

use super::f32::exp::{ROUNDER, round_by};
use super::f32::log::{exponent_field, select};
use super::f32::trig::{FRAC_PI_2_1, FRAC_PI_2_2};
use super::machine::single::fma;
use super::machine::{half_quotient, half_recip, half_root, half_rsqrt, recip_of_normal, sqrt_of_normal};

const LN_2: f32 = core::f32::consts::LN_2;

/// The polynomial with these coefficients, of which the first is the constant.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: [f32; N], x: f32) -> f32 {
    let mut value = coefficients[N - 1];
    for k in 2..N + 1 {
        value = fma(value, x, coefficients[N - k]);
    }
    value
}

/// `x`, or `least` where it is less. NaN stays NaN.
#[inline(always)]
fn at_least(x: f32, least: f32) -> f32 {
    if x < least { least } else { x }
}

/// `x`, or `most` where it is greater. NaN stays NaN.
#[inline(always)]
fn at_most(x: f32, most: f32) -> f32 {
    if x > most { most } else { x }
}

/// Below this e^x is less than half of the least `f16`.
const FLOOR: f32 = -18.0;
/// Above this e^x, and half of it, is more than every `f16`.
const CEILING: f32 = 12.0;

/// r and 2^n, where x = n ln 2 + r; n is that of `near`.
#[inline(always)]
fn split(x: f32, near: f32) -> (f32, f32) {
    // With the exponent's bias in it, the sum has 2^n's exponent in its lowest bits.
    let (n, bits) = round_by(ROUNDER + 127.0, near, core::f32::consts::LOG2_E);
    (fma(n, -LN_2, x), f32::from_bits(bits << 23))
}

/// e^r · `power` for |r| ≤ ln(2) / 2; 2^-23.3.
#[inline(always)]
fn exp_of_split((r, power): (f32, f32)) -> f32 {
    const COEFFICIENTS: [f32; 6] = [
        1.0,
        0.999_999_7,
        0.499_991_5,
        0.166_676_36,
        0.041_897_934,
        0.008_290_317,
    ];
    polynomial(COEFFICIENTS, r) * power
}

/// e^x. NaN and +∞ come through r, whatever n then is.
#[inline]
pub fn exp(x: f32) -> f32 {
    let x = at_least(x, FLOOR);
    exp_of_split(split(x, x.min(CEILING)))
}

/// 2^x; 2^-23.3.
#[inline]
pub fn exp2(x: f32) -> f32 {
    #[allow(clippy::approx_constant, reason = "the fit's, which is not ln 2")]
    const COEFFICIENTS: [f32; 6] = [
        1.0,
        0.693_147,
        0.240_222_42,
        0.055_507_336,
        0.009_671_514,
        0.001_326_473_1,
    ];
    let x = at_least(x, -26.0);
    let (n, bits) = round_by(ROUNDER + 127.0, x.min(17.0), 1.0);
    polynomial(COEFFICIENTS, x - n) * f32::from_bits(bits << 23)
}

/// e^x − 1 for x ≥ `FLOOR`, where 2^n is that of `near`; 2^-26.1. Of −0 it is +0.
#[inline(always)]
fn expm1_near(x: f32, near: f32) -> f32 {
    const COEFFICIENTS: [f32; 6] = [
        1.0,
        0.499_999_97,
        0.166_665_43,
        0.041_667_2,
        0.008_366_514,
        0.001_388_246_6,
    ];
    let (r, power) = split(x, near);
    fma(polynomial(COEFFICIENTS, r) * r, power, power - 1.0)
}

/// e^x − 1
#[inline]
pub fn expm1(x: f32) -> f32 {
    let clamped = at_least(x, FLOOR);
    expm1_near(clamped, clamped.min(CEILING)).copysign(x)
}

/// (e^x − e^−x) / 2 = (u + u / (u + 1)) / 2 with u = e^x − 1.
#[inline]
pub fn sinh(x: f32) -> f32 {
    let a = at_most(x.abs(), CEILING);
    let u = expm1_near(a, a);
    (0.5 * fma(u, recip_of_normal(u + 1.0), u)).copysign(x)
}

/// (e^x + e^−x) / 2
#[inline]
pub fn cosh(x: f32) -> f32 {
    let a = at_most(x.abs(), CEILING);
    let power = exp_of_split(split(a, a));
    fma(0.5, power, 0.5 * recip_of_normal(power))
}

/// tanh x = x P(x²) / Q(x²), up to where it is 1 in 16 bits; 2^-25.3.
#[inline]
pub fn tanh(x: f32) -> f32 {
    const P: [f32; 4] = [1.0, 0.125_944_18, 0.002_555_761_7, 5.484_223_5e-6];
    const Q: [f32; 4] = [1.0, 0.459_277_24, 0.022_315_316, 0.000_174_837_67];
    let a = at_most(x.abs(), 4.52);
    let s = a * a;
    (a * polynomial(P, s) * recip_of_normal(polynomial(Q, s))).copysign(x)
}

/// 1 / (1 + e^−x)
#[inline]
pub fn sigmoid(x: f32) -> f32 {
    let t = at_most(at_least(-x, FLOOR), -FLOOR);
    recip_of_normal(1.0 + exp_of_split(split(t, t)))
}

/// erf x = x P(x²) / Q(x²), up to where it is 1 in 16 bits; 2^-21.7.
#[inline]
pub fn erf(x: f32) -> f32 {
    const P: [f32; 5] = [1.128_379_5, 0.133_876, 0.038_739_074, 0.000_303_634_68, 8.685_205e-6];
    const Q: [f32; 4] = [1.0, 0.451_985_96, 0.084_955_59, 0.007_268_228_6];
    let a = at_most(x.abs(), 2.65);
    let s = a * a;
    (a * polynomial(P, s) * recip_of_normal(polynomial(Q, s))).copysign(x)
}

/// erfc x = e^(−x²) P(x) / Q(x) for x ≥ 0, up to where it is 0 in 16 bits, and 2 − erfc −x; 2^-24.2. The square of an `f16` is
/// exact.
#[inline]
pub fn erfc(x: f32) -> f32 {
    const P: [f32; 4] = [1.0, 0.940_125_35, 0.413_294_58, 0.075_703_226];
    const Q: [f32; 5] = [1.0, 2.068_500_3, 1.747_406_6, 0.730_871_14, 0.134_271_07];
    let a = at_most(x.abs(), 4.0);
    let square = -(a * a);
    let quotient = polynomial(P, a) * recip_of_normal(polynomial(Q, a));
    let value = exp_of_split(split(square, square)) * quotient;
    if x < 0.0 { 2.0 - value } else { value }
}

/// A logarithm: of x = 2^e (1 + f) with 1 + f in [2/3, 4/3), f P(f) + e · `of_2`.
#[inline(always)]
fn logarithm(coefficients: [f32; 8], of_2: f32, x: f32) -> f32 {
    /// 2^-23, which turns an exponent field into a number.
    const FIELD: f32 = 1.192_092_9e-7;
    let field = exponent_field(x);
    let f = f32::from_bits(x.to_bits().wrapping_sub(field)) - 1.0;
    let of_f = f * polynomial(coefficients, f);
    fma(select(x, field as i32 as f32), of_2 * FIELD, of_f)
}

/// The natural logarithm; 2^-22.3.
#[inline]
pub fn ln(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 8] = [
        1.0,
        -0.499_999_6,
        0.333_367_35,
        -0.250_063_1,
        0.198_181_73,
        -0.164_410_87,
        0.169_905_22,
        -0.152_653_02,
    ];
    logarithm(COEFFICIENTS, LN_2, x)
}

/// The logarithm to base 2; 2^-22.5.
#[inline]
pub fn log2(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 8] = [
        1.442_694_8,
        -0.721_346_6,
        0.480_965_5,
        -0.360_783_4,
        0.285_582_57,
        -0.236_897_68,
        0.246_858_79,
        -0.221_648_5,
    ];
    logarithm(COEFFICIENTS, 1.0, x)
}

/// The logarithm to base 10; 2^-22.5.
#[inline]
pub fn log10(x: f32) -> f32 {
    #[allow(clippy::approx_constant, reason = "the fit's, which is not the logarithm of e")]
    const COEFFICIENTS: [f32; 8] = [
        0.434_294_4,
        -0.217_146_98,
        0.144_785_03,
        -0.108_606_63,
        0.085_968_92,
        -0.071_313_31,
        0.074_311_905,
        -0.066_722_75,
    ];
    logarithm(COEFFICIENTS, core::f32::consts::LOG10_2, x)
}

/// x less n π/2 in two parts, which is precise enough for n up to 2^16.
#[inline(always)]
fn less_quarter_turns(x: f32, n: f32) -> f32 {
    fma(n, -FRAC_PI_2_2, fma(n, -FRAC_PI_2_1, x))
}

/// r P(r²), the sine of r for |r| ≤ π/2, and its sign turned if n is odd; 2^-27.2.
#[inline(always)]
fn sine_of_half_turn(r: f32, n: u32) -> f32 {
    const COEFFICIENTS: [f32; 5] = [1.0, -0.166_666_6, 0.008_333_066, -0.000_198_095_38, 2.605_605_8e-6];
    let value = r * polynomial(COEFFICIENTS, r * r);
    f32::from_bits(value.to_bits() ^ n << 31)
}

/// The sine of x radians, from x less the nearest multiple of π.
#[inline]
pub fn sin(x: f32) -> f32 {
    let (n, bits) = round_by(ROUNDER, x, core::f32::consts::FRAC_1_PI);
    sine_of_half_turn(less_quarter_turns(x, 2.0 * n), bits)
}

/// The cosine of x radians, from x less the nearest odd multiple of π/2.
#[inline]
pub fn cos(x: f32) -> f32 {
    let shifted = fma(x, core::f32::consts::FRAC_1_PI, -0.5) + ROUNDER;
    let n = shifted - ROUNDER;
    sine_of_half_turn(-less_quarter_turns(x, fma(2.0, n, 1.0)), shifted.to_bits())
}

/// The tangent of x radians: r P(r²) / Q(r²) of x less the nearest multiple of π/2, and −1 / tan r for odd ones; 2^-24.7.
#[inline]
pub fn tan(x: f32) -> f32 {
    const P: [f32; 3] = [0.999_999_94, -0.071_636_47, -0.001_669_793_2];
    let (n, bits) = round_by(ROUNDER, x, core::f32::consts::FRAC_2_PI);
    let r = less_quarter_turns(x, n);
    let s = r * r;
    let (sine, cosine) = (r * polynomial(P, s), fma(-0.404_971_5, s, 1.0));
    let (numerator, denominator) = if bits & 1 == 0 { (sine, cosine) } else { (-cosine, sine) };
    numerator * recip_of_normal(denominator)
}

/// acos x = √(1 − x) P(x) for x ≥ 0, and π − acos −x; 2^-23.2. NaN for |x| > 1 is the root's.
#[inline]
pub fn acos(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 7] = [
        1.570_796_1,
        -0.214_584_7,
        0.088_748_86,
        -0.048_773_255,
        0.026_843_073,
        -0.011_095_379,
        0.002_278_943,
    ];
    let a = x.abs();
    let rest = 1.0 - a;
    let root = if rest == 0.0 { 0.0 } else { sqrt_of_normal(rest) };
    let value = root * polynomial(COEFFICIENTS, a);
    if x < 0.0 { core::f32::consts::PI - value } else { value }
}

/// √x, correctly rounded.
#[inline]
pub fn sqrt(x: f32) -> f32 {
    half_root(x)
}

/// 1 / √x, of which both are rounded once.
#[inline]
pub fn rsqrt(x: f32) -> f32 {
    half_rsqrt(x)
}

/// 1 / x, correctly rounded.
#[inline]
pub fn recip(x: f32) -> f32 {
    half_recip(x)
}

/// a / b, correctly rounded.
#[inline]
pub fn div(a: f32, b: f32) -> f32 {
    half_quotient(a, b)
}

/// a^(-1/3) by two cubic Newton steps from a guess on the bits, as for f32, and a times its square.
#[inline]
pub fn cbrt(x: f32) -> f32 {
    let a = x.abs();
    let mut r = f32::from_bits(0x54a1_f60e - a.to_bits() / 3);
    for _ in 0..2 {
        let error = fma(-(a * r), r * r, 1.0);
        r = fma(r * error, fma(error, 2.0 / 9.0, 1.0 / 3.0), r);
    }
    let y = a * (r * r);
    if a < f32::INFINITY { y.copysign(x) } else { x }
}
