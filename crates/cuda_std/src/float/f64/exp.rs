// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exponentials of f64, as those of f32: e^x = 2^n · e^r without a branch and without a division.
//!
//! ln 2 is subtracted in two parts, of which the first has 42 bits, so that n times it and what that leaves of x are exact,
//! and r is rounded once. e^r = 1 + (r + r² q(r)), where q has degree 9: the polynomial is off by 2^-57.9 of e^r, r by
//! 2^-55, and so is the sum in brackets. Together that is less than half an ulp, and the last sum rounds once more.

use super::super::machine::double::fma;

/// Adding this to |x| < 2^51 rounds x to an integer, which is then in the low bits of the mantissa; 2046 more, so that the
/// integers that there are become positive.
pub const ROUNDER: f64 = 6_755_399_441_055_744.0 + 2046.0;

const LN_2_HI: f64 = 0.693_147_180_559_890_3;
const LN_2_LO: f64 = 5.497_923_018_708_371e-14;

/// e^x is less than half of the smallest number below this, and infinite above `CEILING`.
const FLOOR: f64 = -746.0;
const CEILING: f64 = 710.0;

/// e^x. NaN stays in r, whatever n then is.
#[inline]
pub fn exp(x: f64) -> f64 {
    let x = if x < FLOOR { FLOOR } else { x };
    let x = if x > CEILING { CEILING } else { x };
    let (r, n) = split(x);
    scale(1.0 + fma(r * r, quotient(r), r), n)
}

/// 2^x.
#[inline]
pub fn exp2(x: f64) -> f64 {
    // As those of `exp`.
    let x = if x < -1076.0 { -1076.0 } else { x };
    let x = if x > 1025.0 { 1025.0 } else { x };
    let shifted = x + ROUNDER;
    scale(exp2_polynomial(x - (shifted - ROUNDER)), shifted.to_bits() as u32)
}

/// 2^f for |f| ≤ 1/2, with an error of 2^-59 relative to it before rounding.
#[inline(always)]
pub fn exp2_polynomial(f: f64) -> f64 {
    let mut p = 2.748_651_595_798_935e-11;
    p = fma(p, f, 4.477_045_391_421_244e-10);
    p = fma(p, f, 7.053_690_992_380_687e-9);
    p = fma(p, f, 1.017_791_059_183_287_4e-7);
    p = fma(p, f, 1.321_548_981_952_316_3e-6);
    p = fma(p, f, 1.525_273_420_953_128_6e-5);
    p = fma(p, f, 0.000_154_035_303_900_838_64);
    p = fma(p, f, 0.001_333_355_814_600_156_7);
    p = fma(p, f, 0.009_618_129_107_629_944);
    p = fma(p, f, 0.055_504_108_664_823_45);
    p = fma(p, f, 0.240_226_506_959_100_7);
    p = fma(p, f, core::f64::consts::LN_2);
    fma(p, f, 1.0)
}

/// x = n ln 2 + r, and n + 2046, for x from `FLOOR` to `CEILING`.
#[inline(always)]
pub fn split(x: f64) -> (f64, u32) {
    let shifted = fma(x, core::f64::consts::LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    let r = fma(n, -LN_2_LO, fma(n, -LN_2_HI, x));
    (r, shifted.to_bits() as u32)
}

/// p 2^(`biased` − 2046), with 2^n as two factors, the exponents of which are positive, so that the result is rounded once, as a
/// subnormal number too.
#[inline(always)]
pub fn scale(p: f64, biased: u32) -> f64 {
    let first = biased >> 1;
    p * power_of_two(first) * power_of_two(biased.wrapping_sub(first))
}

/// e^x / 2, which is not infinite before a hyperbolic sine of x is, for x ≥ 0.
#[inline]
pub fn half_exp(x: f64) -> f64 {
    let x = if x > CEILING + 1.0 { CEILING + 1.0 } else { x };
    let shifted = fma(x, core::f64::consts::LOG2_E, ROUNDER - 1.0);
    let n = shifted - (ROUNDER - 1.0);
    let r = fma(n, -LN_2_LO, fma(n, -LN_2_HI, x));
    let p = 1.0 + fma(r * r, quotient(r), r);
    let biased = shifted.to_bits() as u32;
    let first = biased >> 1;
    p * power_of_two(first) * power_of_two(biased.wrapping_sub(first))
}

/// e^x − 1 = 2^n (e^r − 1) + (2^n − 1), of which nothing cancels where n is 0, and little otherwise. What rounding takes of r, of
/// e^r − 1 and of the sum is added last; and what of that is rounded away, where it is below 2^500.
#[inline(always)]
pub fn expm1_with_rest(x: f64) -> (f64, f64) {
    // Below, the result is −1 to less than an ulp.
    const LEAST: f64 = -40.0;
    // From here on 1 is nothing beside 2^n, and the rest of n a factor of its own.
    const MOST: u32 = 1023 + 512;
    let x = if x < LEAST { LEAST } else { x };
    let clamped = if x > CEILING { CEILING } else { x };
    let shifted = fma(clamped, core::f64::consts::LOG2_E, ROUNDER - 1023.0);
    let n = shifted - (ROUNDER - 1023.0);
    let first = fma(n, -LN_2_HI, clamped);
    let r = fma(n, -LN_2_LO, first);
    let low = fma(n, -LN_2_LO, first - r);
    let rest = fma(r * r, quotient(r), low);
    let p = r + rest;
    let p_low = rest - (p - r);
    let biased = shifted.to_bits() as u32 & 0x7ff;
    let most = if biased > MOST { MOST } else { biased };
    let power = power_of_two(most);
    // The product is exact, and less than what it is added to, unless that is 0.
    let (base, product) = (power - 1.0, power * p);
    let sum = base + product;
    let rest = fma(power, p_low, product - (sum - base));
    let value = sum + rest;
    // The sum of −0 and 0 has lost the sign.
    let signed = (value * power_of_two(biased - most + 1023)).copysign(x);
    (signed, rest - (value - sum))
}

/// e^x − 1.
#[inline]
pub fn expm1(x: f64) -> f64 {
    expm1_with_rest(x).0
}

/// (e^r − 1 − r) / r² for |r| ≤ ln(2) / 2.
#[inline(always)]
pub fn quotient(r: f64) -> f64 {
    let mut q = 2.501_194_208_668_984e-8;
    q = fma(q, r, 2.763_040_893_438_606_6e-7);
    q = fma(q, r, 2.755_754_716_087_652e-6);
    q = fma(q, r, 2.480_149_257_592_266_2e-5);
    q = fma(q, r, 1.984_126_955_293_549_2e-4);
    q = fma(q, r, 1.388_888_894_423_544_1e-3);
    q = fma(q, r, 8.333_333_333_471_492e-3);
    q = fma(q, r, 4.166_666_666_652_725_5e-2);
    q = fma(q, r, 0.166_666_666_666_664_52);
    fma(q, r, 0.500_000_000_000_001_1)
}

/// 2^(`biased` − 1023), of the eleven low bits.
#[inline(always)]
pub fn power_of_two(biased: u32) -> f64 {
    f64::from_bits(u64::from(biased << 20) << 32)
}
