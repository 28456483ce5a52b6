// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exponentials of f32.
//!
//! e^x = 2^n · e^r with n the integer nearest to x / ln 2, so that |r| ≤ ln(2) / 2, where a
//! polynomial of degree 6 is enough. n comes from adding 1.5 · 2^23, which leaves it in the low
//! bits of the sum; r keeps its relative accuracy because ln 2 is subtracted in two parts, each by
//! a fused multiply-add. 2^n is multiplied in as two factors, so that the result overflows, or is
//! rounded to a subnormal, exactly once. There are no branches; saturation is by clamping x.

use super::super::machine::single::fma;

/// Adding this to |x| < 2^22 rounds x to an integer and leaves it in the low mantissa bits.
pub const ROUNDER: f32 = 12_582_912.0;

const LOG2_E: f32 = core::f32::consts::LOG2_E;
const LN_2_HI: f32 = core::f32::consts::LN_2;
const LN_2_LO: f32 = -1.904_654_2e-9;

/// e^x underflows to zero below this, and 2^(-1) e^x overflows above `CEILING`.
const FLOOR: f32 = -104.0;
const CEILING: f32 = 90.0;

/// x · `scale` to the nearest integer, and the bits of its sum with `rounder`, which is [`ROUNDER`] or a small integer more.
#[inline(always)]
pub fn round_by(rounder: f32, x: f32, scale: f32) -> (f32, u32) {
    let shifted = fma(x, scale, rounder);
    (shifted - rounder, shifted.to_bits())
}

/// x · `scale` to the nearest integer, as a float and as an integer. Less than 2^22 in size.
#[inline(always)]
pub fn nearest(x: f32, scale: f32) -> (f32, i32) {
    let (n, bits) = round_by(ROUNDER, x, scale);
    (n, bits.wrapping_sub(ROUNDER.to_bits()) as i32)
}

/// An integer n in −250..=254, as [`scale`] wants it: n + 254 in the low nine bits of a word, whatever is above them.
#[derive(Clone, Copy)]
pub struct Exponent(u32);

impl Exponent {
    /// Of a sum that has n, and this constant in the place of [`ROUNDER`].
    const ROUNDER: f32 = ROUNDER + 254.0;

    /// x · `scale` to the nearest integer.
    #[inline(always)]
    pub fn nearest(x: f32, scale: f32) -> (f32, Self) {
        let (n, bits) = round_by(Self::ROUNDER, x, scale);
        (n, Self(bits))
    }
}

/// `p` · 2^n, rounded once.
#[inline(always)]
pub fn scale(p: f32, n: Exponent) -> f32 {
    const FIELD: u32 = 0x7f80_0000;
    // The exponents of the two factors are (n + 254) / 2, rounded down, and what that leaves.
    let first = (n.0 << 22) & FIELD;
    let second = (n.0 << 23).wrapping_sub(first);
    p * f32::from_bits(first) * f32::from_bits(second)
}

/// Splits x = n ln 2 + r, with x clamped to where the result is neither 0 nor infinite.
///
/// NaN and +∞ survive in r, whatever n then is.
#[inline(always)]
fn split(x: f32) -> (f32, Exponent) {
    let x = if x < FLOOR { FLOOR } else { x };
    let (n, exponent) = Exponent::nearest(x.min(CEILING), LOG2_E);
    (fma(n, -LN_2_LO, fma(n, -LN_2_HI, x)), exponent)
}

/// x = n ln 2 + r for −120 ≤ x ≤ 0 and NaN, with n as [`scale_down`] wants it.
#[inline(always)]
pub fn split_negative(x: f32) -> (f32, u32) {
    let (n, bits) = round_by(ROUNDER + (127 + RAISED) as f32, x, LOG2_E);
    (fma(n, -LN_2_LO, fma(n, -LN_2_HI, x)), bits)
}

/// What the exponent of a power that is not above 1 is larger by until the last multiplication, so that it is one of a normal
/// number.
const RAISED: u32 = 64;

/// `p` · 2^n, rounded once, for −180 ≤ n ≤ 0 and p next to 1, of a word that has n + 127 + 64 in its low eight bits: the first
/// product is exact.
#[inline(always)]
pub fn scale_down(p: f32, n: u32) -> f32 {
    p * f32::from_bits(n << 23) * f32::from_bits((127 - RAISED) << 23)
}

/// (e^r − 1) / r for |r| ≤ 0.35, with an error of 2^-28 relative to e^r / r before rounding.
///
/// The coefficients are positive, so that r = +∞ gives +∞.
#[inline(always)]
pub fn expm1_ratio(r: f32) -> f32 {
    let mut p = 1.383_828_2e-3;
    p = fma(p, r, 8.369_298e-3);
    p = fma(p, r, 4.166_808_7e-2);
    p = fma(p, r, 1.666_651_5e-1);
    p = fma(p, r, 4.999_999_4e-1);
    fma(p, r, 1.0)
}

/// e^r for the r of [`expm1_ratio`].
#[inline(always)]
fn exp_polynomial(r: f32) -> f32 {
    fma(expm1_ratio(r), r, 1.0)
}

#[inline]
pub fn exp(x: f32) -> f32 {
    let (r, n) = split(x);
    scale(exp_polynomial(r), n)
}

/// e^x for x ≤ 0 and NaN, as [`exp`].
#[inline(always)]
pub fn exp_of_negative(x: f32) -> f32 {
    let (r, n) = split_negative(if x < FLOOR { FLOOR } else { x });
    scale_down(exp_polynomial(r), n)
}

/// e^x / 4 for x ≥ 0 and NaN, which does not overflow before 4 e^89 does.
#[inline(always)]
pub fn quarter_exp(x: f32) -> f32 {
    // Of the exponent of 2^(n − 2); that of infinity is left to n = 130.
    let (n, bits) = round_by(ROUNDER + 125.0, x.min(CEILING), LOG2_E);
    let r = fma(n, -LN_2_LO, fma(n, -LN_2_HI, x));
    exp_polynomial(r) * f32::from_bits(bits << 23)
}

/// 2^f for |f| ≤ 0.5, with a relative error of 2^-28 before rounding.
#[inline(always)]
pub fn exp2_polynomial(f: f32) -> f32 {
    let mut p = 1.532_646_3e-4;
    p = fma(p, f, 1.339_080_6e-3);
    p = fma(p, f, 9.618_506e-3);
    p = fma(p, f, 5.550_36e-2);
    p = fma(p, f, 2.402_264_8e-1);
    p = fma(p, f, core::f32::consts::LN_2);
    fma(p, f, 1.0)
}

#[inline]
pub fn exp2(x: f32) -> f32 {
    let x = if x < -151.0 { -151.0 } else { x };
    let (n, exponent) = Exponent::nearest(x.min(129.0), 1.0);
    scale(exp2_polynomial(x - n), exponent)
}

/// 2^x for |x| < 126, as [`exp2`].
#[inline(always)]
pub fn exp2_of_usual(x: f32) -> f32 {
    let (n, bits) = round_by(ROUNDER, x, 1.0);
    f32::from_bits(exp2_polynomial(x - n).to_bits().wrapping_add(bits << 23))
}

/// e^x − 1 = 2^n (e^r − 1) + (2^n − 1), with n = 0 for all small x so that nothing cancels.
#[inline]
pub fn expm1(x: f32) -> f32 {
    // Below −18 the result is −1 to the last bit.
    let clamped = if x < -18.0 { -18.0 } else { x };
    let (n, i) = nearest(clamped.min(CEILING - 1.0), LOG2_E);
    let (n, i) = if x.abs() < 0.41 { (0.0, 0) } else { (n, i) };
    let r = fma(n, -LN_2_LO, fma(n, -LN_2_HI, clamped));
    let mut p = 1.982_235_1e-4;
    p = fma(p, r, 1.395_385_7e-3);
    p = fma(p, r, 8.333_499e-3);
    p = fma(p, r, 4.166_627_3e-2);
    p = fma(p, r, 1.666_666_6e-1);
    p = fma(p, r, 5e-1);
    p = fma(p * r, r, r);
    // Half of 2^n, because 2^128 is not a float.
    let half = f32::from_bits(((i + 126) as u32) << 23);
    let wide = 2.0 * fma(p, half, half - 0.5);
    // Halving would cost a subnormal its last bit, and −0 its sign.
    if i == 0 { p.copysign(x) } else { wide }
}
