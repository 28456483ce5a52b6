// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logarithms of f32.
//!
//! x = 2^e (1 + f) with 1 + f in [2/3, 4/3), by integer arithmetic on the bits of x, and
//! ln(1 + f) = f + f² P(f). Near 1 the exponent e is 0 and f is exact, so the relative accuracy
//! holds right up to the zero of the logarithm.

use super::super::machine::single::fma;

const LN_2: f32 = core::f32::consts::LN_2;
const LOG2_E_HI: f32 = core::f32::consts::LOG2_E;
const LOG2_E_LO: f32 = 1.925_963e-8;
const LOG10_E_HI: f32 = core::f32::consts::LOG10_E;
const LOG10_E_LO: f32 = -1.010_305e-8;
/// The leading 15 bits of log10 2, so that its products with exponents are exact, and the rest.
const LOG10_2_HI: f32 = f32::from_bits(0x3e9a_2000);
const LOG10_2_LO: f32 = 4.605_039e-6;

/// The bits of 2/3: the exponent field of (bits − these) counts powers of two from [2/3, 4/3).
const TWO_THIRDS: u32 = 0x3f2a_aaab;
const EXPONENT: u32 = 0xff80_0000;
/// 2^-23, which turns an exponent field into a number.
const FIELD: f32 = 1.192_092_9e-7;

/// The bits of 2^e · 1.0 less those of 1.0, for the e that brings x into [2/3, 4/3).
#[inline(always)]
pub fn exponent_field(x: f32) -> u32 {
    x.to_bits().wrapping_sub(TWO_THIRDS) & EXPONENT
}

/// (1 + f, e) with x = 2^e (1 + f), for finite x > 0.
#[inline(always)]
pub fn split(x: f32) -> (f32, f32) {
    let subnormal = x < f32::MIN_POSITIVE;
    let (x, bias) = if subnormal { (x * 8_388_608.0, -23.0) } else { (x, 0.0) };
    let field = exponent_field(x);
    (
        f32::from_bits(x.to_bits().wrapping_sub(field)),
        fma(field as i32 as f32, FIELD, bias),
    )
}

/// ln(1 + f) − f for f in [−1/3, 1/3], with an error of 2^-27.6 relative to ln(1 + f).
#[inline(always)]
fn tail(f: f32) -> f32 {
    let mut p = -1.288_005_4e-1;
    p = fma(p, f, 1.398_459_4e-1);
    p = fma(p, f, -1.218_747_8e-1);
    p = fma(p, f, 1.400_573_4e-1);
    p = fma(p, f, -1.668_019_6e-1);
    p = fma(p, f, 2.001_042_7e-1);
    p = fma(p, f, -2.499_980_6e-1);
    p = fma(p, f, 3.333_321_5e-1);
    p = fma(p, f, -0.5);
    p * (f * f)
}

/// `finite` for finite x > 0, else the logarithm's limit there. Without a branch.
#[inline(always)]
pub fn select(x: f32, finite: f32) -> f32 {
    // ∞ for ∞, NaN for NaN and for x < 0.
    let limit = fma(x, f32::INFINITY, f32::INFINITY);
    let limit = if x == 0.0 { f32::NEG_INFINITY } else { limit };
    // By their bits finite x > 0 are the numbers from 1 on.
    let is_finite = x.to_bits().wrapping_sub(1) < f32::INFINITY.to_bits() - 1;
    if is_finite { finite } else { limit }
}

#[inline]
pub fn ln(x: f32) -> f32 {
    let (m, e) = split(x);
    let f = m - 1.0;
    select(x, fma(e, LN_2, f + tail(f)))
}

/// whole + f c + small, where the rounding error of the first sum joins the small term: for x just above 4/3 `whole`
/// and f c cancel in part.
#[inline(always)]
fn sum(whole: f32, f: f32, c: f32, small: f32) -> f32 {
    let large = fma(f, c, whole);
    large + (fma(f, c, whole - large) + small)
}

#[inline]
pub fn log2(x: f32) -> f32 {
    let (m, e) = split(x);
    let f = m - 1.0;
    let small = fma(tail(f), LOG2_E_HI, f * LOG2_E_LO);
    select(x, sum(e, f, LOG2_E_HI, small))
}

#[inline]
pub fn log10(x: f32) -> f32 {
    let (m, e) = split(x);
    let f = m - 1.0;
    let small = fma(tail(f), LOG10_E_HI, fma(f, LOG10_E_LO, e * LOG10_2_LO));
    select(x, sum(e * LOG10_2_HI, f, LOG10_E_HI, small))
}

/// The exponent is that of 1 + x; f = 2^-e x + (2^-e − 1) then has at most one rounding error.
#[inline]
pub fn ln_1p(x: f32) -> f32 {
    let u = 1.0 + x;
    let field = exponent_field(u);
    // 4 · 2^-e, because 2^-128 is not a normal float.
    let scale = f32::from_bits(0x4080_0000u32.wrapping_sub(field));
    let f = f32::from_bits(x.to_bits().wrapping_sub(field)) + fma(0.25, scale, -1.0);
    let e = field as i32 as f32 * FIELD;
    let finite = fma(e, LN_2, f + tail(f));
    // ln(1 + x) has the sign of x, which the sum loses for −0.
    select(u, finite.copysign(x))
}
