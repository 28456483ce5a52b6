// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logarithms of f32.
//!
//! x = 2^e (1 + f) with 1 + f in [2/3, 4/3), by integer arithmetic on the bits of x, and
//! ln(1 + f) = f + f² P(f). Near 1 the exponent e is 0 and f is exact, so the relative accuracy
//! holds right up to the zero of the logarithm.

use super::super::machine::limit_of_log;
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

/// A number in parts, which mean something where it is finite and above 0.
pub struct Split {
    /// The number, subnormal ones raised by 2^23.
    raised: f32,
    /// 1 + f for the number 2^e (1 + f).
    pub mantissa: f32,
    /// 2^23 e, as it comes out of the number's bits.
    field: f32,
}

impl Split {
    #[inline(always)]
    pub fn new(x: f32) -> Self {
        let scale: f32 = if x < f32::MIN_POSITIVE { 8_388_608.0 } else { 1.0 };
        let raised = x * scale;
        // The exponent is less by that of the scale.
        let bits = raised
            .to_bits()
            .wrapping_sub(scale.to_bits())
            .wrapping_add(1.0f32.to_bits());
        let field = bits.wrapping_sub(TWO_THIRDS) & EXPONENT;
        Self {
            raised,
            mantissa: f32::from_bits(bits.wrapping_sub(field)),
            field: field as i32 as f32,
        }
    }

    #[inline(always)]
    pub fn exponent(&self) -> f32 {
        self.field * FIELD
    }
}

/// (ln(1 + f) − f) / f² for f in [−1/3, 1/3], with an error of 2^-27.6 relative to ln(1 + f).
#[inline(always)]
fn tail_ratio(f: f32) -> f32 {
    let mut p = -1.288_005_4e-1;
    p = fma(p, f, 1.398_459_4e-1);
    p = fma(p, f, -1.218_747_8e-1);
    p = fma(p, f, 1.400_573_4e-1);
    p = fma(p, f, -1.668_019_6e-1);
    p = fma(p, f, 2.001_042_7e-1);
    p = fma(p, f, -2.499_980_6e-1);
    p = fma(p, f, 3.333_321_5e-1);
    fma(p, f, -0.5)
}

/// ln(1 + f).
#[inline(always)]
fn of_mantissa(f: f32) -> f32 {
    fma(tail_ratio(f), f * f, f)
}

/// `finite` for finite x > 0, else the logarithm's limit there, by which a sum becomes that limit too. Not for subnormal x.
///
/// Of what takes long, LLVM would make a branch.
#[inline(always)]
pub fn select(x: f32, finite: f32) -> f32 {
    // Numbers are logarithms to base 2.
    let limit = limit_of_log(x);
    if limit.abs() < 200.0 { finite } else { limit }
}

#[inline]
pub fn ln(x: f32) -> f32 {
    let split = Split::new(x);
    let field = select(split.raised, split.field);
    fma(field, LN_2 * FIELD, of_mantissa(split.mantissa - 1.0))
}

/// f and 2^23 e of positive normal x = 2^e (1 + f).
#[inline(always)]
fn split_normal(x: f32) -> (f32, f32) {
    let field = exponent_field(x);
    let mantissa = f32::from_bits(x.to_bits().wrapping_sub(field));
    (mantissa - 1.0, field as i32 as f32)
}

/// ln x for positive normal x.
#[inline(always)]
pub fn ln_of_normal(x: f32) -> f32 {
    let (f, field) = split_normal(x);
    fma(field, LN_2 * FIELD, of_mantissa(f))
}

/// whole + f c + small, where the rounding error of the first sum joins the small term: for x just above 4/3 `whole`
/// and f c cancel in part.
#[inline(always)]
fn sum(whole: f32, f: f32, c: f32, small: f32) -> f32 {
    let large = fma(f, c, whole);
    large + (fma(f, c, whole - large) + small)
}

/// The logarithm to base 2 of 2^e (1 + f).
#[inline(always)]
fn log2_of(f: f32, e: f32) -> f32 {
    let small = fma(tail_ratio(f) * (f * f), LOG2_E_HI, f * LOG2_E_LO);
    sum(e, f, LOG2_E_HI, small)
}

/// That to base 10.
#[inline(always)]
fn log10_of(f: f32, e: f32) -> f32 {
    let small = fma(tail_ratio(f) * (f * f), LOG10_E_HI, fma(f, LOG10_E_LO, e * LOG10_2_LO));
    sum(e * LOG10_2_HI, f, LOG10_E_HI, small)
}

#[inline]
pub fn log2(x: f32) -> f32 {
    let split = Split::new(x);
    log2_of(split.mantissa - 1.0, split.exponent()) + select(split.raised, -0.0)
}

#[inline]
pub fn log10(x: f32) -> f32 {
    let split = Split::new(x);
    log10_of(split.mantissa - 1.0, split.exponent()) + select(split.raised, -0.0)
}

/// log2 x for positive normal x.
#[inline(always)]
pub fn log2_of_normal(x: f32) -> f32 {
    let (f, field) = split_normal(x);
    log2_of(f, field * FIELD)
}

/// log10 x for positive normal x.
#[inline(always)]
pub fn log10_of_normal(x: f32) -> f32 {
    let (f, field) = split_normal(x);
    log10_of(f, field * FIELD)
}

/// The exponent is that of 1 + x; f = 2^-e x + (2^-e − 1) then has at most one rounding error.
#[inline]
pub fn ln_1p(x: f32) -> f32 {
    let u = 1.0 + x;
    let field = exponent_field(u);
    // 4 · 2^-e, because 2^-128 is not a normal float.
    let scale = f32::from_bits(0x4080_0000u32.wrapping_sub(field));
    let f = f32::from_bits(x.to_bits().wrapping_sub(field)) + fma(0.25, scale, -1.0);
    let field = select(u, field as i32 as f32);
    // ln(1 + x) has the sign of x, which the sum loses for −0.
    fma(field, LN_2 * FIELD, of_mantissa(f)).copysign(x)
}
