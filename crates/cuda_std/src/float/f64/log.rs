// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logarithms of f64, without a branch.
//!
//! x = 2^e (1 + f) with 1 + f in [11/16, 11/8), by integer arithmetic on the bits of x. With s = f / (2 + f), ln(1 + f) is 2 atanh s,
//! and that f − f²/2 + s (f²/2 + R(s²)), where nothing cancels for small f (FreeBSD's `e_log.c`).
//!
//! Up to 11/8 the rounding error of f²/2 is below 2^-57, and half of that where the result is least beside it; with √2 for the
//! limit `log2` would be off by more than an ulp. Against 113 bits, of millions of arguments, `log2` is off by 0.90 ulp at most,
//! the others by less.

use super::super::machine::double::fma;
use super::super::normal::{magnitude, quotient_of_normal, select, upper, with_upper};
use core::f64::consts::{LOG2_E, LOG10_E};

/// The leading 42 bits of ln 2 and of log10 2, so that their products with exponents are exact, and the rest.
const LN_2_HI: f64 = 0.693_147_180_559_890_3;
const LN_2_LO: f64 = 5.497_923_018_708_371e-14;
const LOG10_2_HI: f64 = 0.301_029_995_663_839_14;
const LOG10_2_LO: f64 = 1.420_502_322_726_61e-13;
/// What these are more than their f64.
const LOG2_E_LO: f64 = 2.035_527_374_093_103_3e-17;
const LOG10_E_LO: f64 = 1.098_319_650_216_765e-17;

/// The upper words of 11/16 and of the least normal number.
const ELEVEN_SIXTEENTHS: u32 = 0x3fe6_0000;
const LEAST_NORMAL: u32 = 0x0010_0000;

/// The upper word of 2^e less that of 1, for the e that brings x into [11/16, 11/8).
#[inline(always)]
fn exponent_field(x: f64) -> u32 {
    upper(x).wrapping_sub(ELEVEN_SIXTEENTHS) & 0xfff0_0000
}

/// e of such a field, without a conversion.
#[inline(always)]
fn exponent(field: u32) -> f64 {
    // 2^52 + 2^31 + e, less what is not e.
    const OFFSET: f64 = 4_503_599_627_370_496.0 + 2_147_483_648.0;
    let e = ((field as i32) >> 20) as u32 ^ 0x8000_0000;
    f64::from_bits(0x4330_0000_0000_0000 | u64::from(e)) - OFFSET
}

/// ln(1 + f) − f for 1 + f in [11/16, 11/8).
#[inline(always)]
fn tail(f: f64) -> f64 {
    let s = quotient_of_normal(f, 2.0 + f);
    let (z, square) = (s * s, f * f);
    let mut p = 0.150_565_475_674_548_6;
    p = fma(p, z, 0.152_873_777_185_394_3);
    p = fma(p, z, 0.181_846_275_910_863_16);
    p = fma(p, z, 0.222_221_778_265_041_33);
    p = fma(p, z, 0.285_714_289_457_656_6);
    p = fma(p, z, 0.399_999_999_985_054_3);
    p = fma(p, z, 0.666_666_666_666_686_8);
    fma(s, fma(p, z, 0.5 * square), -0.5 * square)
}

/// A number in parts, which mean something where it is finite and above 0.
pub struct Split {
    /// The number, subnormal ones raised by 2^54.
    raised: f64,
    /// Of the number 2^e (1 + f).
    pub f: f64,
    pub e: f64,
}

impl Split {
    #[inline(always)]
    pub fn new(x: f64) -> Self {
        let subnormal = magnitude(x) < LEAST_NORMAL;
        let raised = x * select(subnormal, 18_014_398_509_481_984.0, 1.0);
        let field = exponent_field(raised);
        let e = field.wrapping_sub(select(subnormal, 54 << 20, 0));
        Self {
            raised,
            f: with_upper(raised, upper(raised).wrapping_sub(field)) - 1.0,
            e: exponent(e),
        }
    }
}

/// `finite` for finite x > 0, else the logarithm's limit there. Not for subnormal x.
#[inline(always)]
fn or_limit(x: f64, finite: f64) -> f64 {
    const INFINITY: u32 = 0x7ff0_0000;
    let word = upper(x);
    let limit = select(
        word << 1 == 0,
        f64::NEG_INFINITY,
        select(x.is_sign_negative(), f64::NAN, x),
    );
    select(word.wrapping_sub(1) < INFINITY - 1, finite, limit)
}

/// ln (2^e (1 + f)) + `low`.
#[inline(always)]
fn of_parts(f: f64, e: f64, low: f64) -> f64 {
    let high = fma(e, LN_2_HI, f);
    let rest = fma(e, LN_2_HI, -high) + f;
    high + (rest + (fma(e, LN_2_LO, tail(f)) + low))
}

#[inline]
pub fn ln(x: f64) -> f64 {
    let Split { raised, f, e } = Split::new(x);
    or_limit(raised, of_parts(f, e, 0.0))
}

/// The exponent is that of 1 + x; f = 2^-e x + (2^-e − 1), and `low` what rounding takes of it where e is 1. For other e nothing is,
/// unless it is beyond the precision of the result.
#[inline]
pub fn ln_1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let field = exponent_field(u);
    // 4 · 2^-e, because 2^-1024 is not a normal number.
    let scale = f64::from_bits(u64::from(0x4010_0000u32.wrapping_sub(field)) << 32);
    let (scaled, rest) = (with_upper(x, upper(x).wrapping_sub(field)), fma(0.25, scale, -1.0));
    let f = scaled + rest;
    let low = scaled - (f - rest);
    // ln(1 + x) has the sign of x, which the sum loses for −0.
    or_limit(u, of_parts(f, exponent(field), low).copysign(x))
}

/// `whole` + (f + `tail`) (c + c') + `more`, where `tail` is ln(1 + f) − f and `whole` 0, or more than the product: what rounding takes of
/// product and sum is added last.
#[inline(always)]
fn scaled(whole: f64, f: f64, (c, c_low): (f64, f64), more: f64) -> f64 {
    let product = f * c;
    let product_low = fma(f, c, -product);
    let rest = fma(tail(f), c, fma(f, c_low, product_low + more));
    let large = whole + product;
    large + ((product - (large - whole)) + rest)
}

#[inline]
pub fn log2(x: f64) -> f64 {
    let Split { raised, f, e } = Split::new(x);
    or_limit(raised, scaled(e, f, (LOG2_E, LOG2_E_LO), 0.0))
}

#[inline]
pub fn log10(x: f64) -> f64 {
    let Split { raised, f, e } = Split::new(x);
    or_limit(raised, scaled(e * LOG10_2_HI, f, (LOG10_E, LOG10_E_LO), e * LOG10_2_LO))
}
