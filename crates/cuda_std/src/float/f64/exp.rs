// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exponentials of f64: e^x = 2^n · e^r without a division.
//!
//! ln 2 is subtracted in two parts, of which the first has 42 bits, so that n times it and what that leaves of x are exact,
//! and r is rounded once. e^r = 1 + r (1 + r q(r)), where q has degree 9: the polynomial is off by 2^-57.9 of e^r, r by
//! 2^-55, and the sum in brackets by 2^-55.5; the last sum rounds once more. 2^n is added to the exponent. Where that would leave the
//! normal numbers it is multiplied in by a branch, which stands behind all that takes long, so that it keeps nothing apart.

use super::super::machine::double::fma;
use super::super::normal::{magnitude, of_upper, select, upper, with_upper};

/// Adding this to |x| < 2^51 rounds x to an integer, which is then in the low bits of the mantissa.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

const LOG2_E: f64 = core::f64::consts::LOG2_E;
const LN_2_HI: f64 = 0.693_147_180_559_890_3;
const LN_2_LO: f64 = 5.497_923_018_708_371e-14;

/// The upper word of 708: for less, e^x is a normal number, and e^-x.
const NORMAL: u32 = 0x4086_2000;

/// That of 746: from there on e^x is infinite, and e^-x less than half of the smallest number.
const MOST: u32 = 0x4087_5000;

/// The upper word of 1, without its sign that of an exponent of 0.
const ONE: u32 = 1023 << 20;

/// x · `scale` to the nearest integer, as an f64 and as an integer; anything where the product is 2^31 or more in size.
#[inline(always)]
fn nearest(x: f64, scale: f64) -> (f64, u32) {
    let shifted = fma(x, scale, ROUNDER);
    (shifted - ROUNDER, shifted.to_bits() as u32)
}

/// x = n ln 2 + r, and n as of [`nearest`], for |x| ≤ 1000.
#[inline(always)]
pub fn split(x: f64) -> (f64, u32) {
    let (n, bits) = nearest(x, LOG2_E);
    (fma(n, -LN_2_LO, fma(n, -LN_2_HI, x)), bits)
}

/// x = n + f for |x| ≤ 2000, and n as of [`nearest`].
#[inline(always)]
pub fn split_base_2(x: f64) -> (f64, u32) {
    let (n, bits) = nearest(x, 1.0);
    (x - n, bits)
}

/// p 2^n, of which both are normal.
#[inline(always)]
fn raised(p: f64, n: u32) -> f64 {
    with_upper(p, upper(p).wrapping_add(n << 20))
}

/// p 2^n for −1100 ≤ n ≤ 1100 and normal p of moderate size, with 2^n as two factors, so that the product is rounded once.
#[inline(always)]
pub fn scale(p: f64, n: u32) -> f64 {
    let half = n >> 1;
    raised(p, half) * of_upper((n.wrapping_sub(half) << 20).wrapping_add(ONE))
}

/// p 2^n as the power x of what is above 1, where |x| is so large that this may be subnormal; from `most` on, which is an upper word,
/// it is 0 or infinite, and p and n may be anything. NaN for NaN.
#[inline(always)]
fn far_exp(x: f64, p: f64, n: u32, most: u32) -> f64 {
    // Without branches of its own.
    let limit = select(x < 0.0, 0.0, x + f64::INFINITY);
    select(magnitude(x) < most, scale(p, n), limit)
}

/// e^x 2^k for small k, which for x < 0 is 0 or more.
#[inline(always)]
fn exp_scaled(x: f64, k: u32) -> f64 {
    let (r, n) = split(x);
    let p = fma(fma(quotient(r), r, 1.0), r, 1.0);
    let n = n.wrapping_add(k);
    if magnitude(x) >= NORMAL {
        return far_exp(x, p, n, MOST);
    }
    raised(p, n)
}

/// e^x.
#[inline]
pub fn exp(x: f64) -> f64 {
    exp_scaled(x, 0)
}

/// e^x / 2 for x ≥ 0 and NaN, which is not infinite before a hyperbolic sine of x is.
#[inline]
pub fn half_exp(x: f64) -> f64 {
    exp_scaled(x, 0u32.wrapping_sub(1))
}

/// 2^x.
#[inline]
pub fn exp2(x: f64) -> f64 {
    // Of 1022 and 1076.
    const NORMAL: u32 = 0x408f_f000;
    const MOST: u32 = 0x4090_d000;
    let (f, n) = split_base_2(x);
    let p = exp2_polynomial(f);
    if magnitude(x) >= NORMAL {
        return far_exp(x, p, n, MOST);
    }
    raised(p, n)
}

/// 2^f for |f| ≤ 0.5001, with an error of 2^-57.1 relative to it before rounding.
#[inline(always)]
pub fn exp2_polynomial(f: f64) -> f64 {
    let mut p = 4.519_403_038_085_257e-10;
    p = fma(p, f, 7.075_619_612_474_001e-9);
    p = fma(p, f, 1.017_765_568_582_983_2e-7);
    p = fma(p, f, 1.321_542_447_222_083_7e-6);
    p = fma(p, f, 1.525_273_473_853_555_9e-5);
    p = fma(p, f, 0.000_154_035_304_788_646_26);
    p = fma(p, f, 0.001_333_355_814_556_726_8);
    p = fma(p, f, 0.009_618_129_107_577_07);
    p = fma(p, f, 0.055_504_108_664_824_574);
    p = fma(p, f, 0.240_226_506_959_101_72);
    p = fma(p, f, core::f64::consts::LN_2);
    fma(p, f, 1.0)
}

/// e^x − 1 for |x| below that of [`NORMAL`] and NaN.
pub struct Expm1 {
    pub value: f64,
    /// What rounding has taken of it.
    pub rest: f64,
    /// e^x is 2^n (1 + `growth`).
    growth: f64,
    n: u32,
}

impl Expm1 {
    /// 2^n (e^r − 1) + (2^n − 1), of which nothing cancels where n is 0, and little otherwise. What rounding takes of r, of e^r − 1
    /// and of the sum is added last.
    #[inline(always)]
    pub fn new(x: f64) -> Self {
        let (n, bits) = nearest(x, LOG2_E);
        let first = fma(n, -LN_2_HI, x);
        let r = fma(n, -LN_2_LO, first);
        let low = fma(n, -LN_2_LO, first - r);
        let rest = fma(r * r, quotient(r), low);
        let growth = r + rest;
        let low = rest - (growth - r);
        let power = of_upper((bits << 20).wrapping_add(ONE));
        // The product is exact, and less than what it is added to, unless that is 0.
        let (base, product) = (power - 1.0, power * growth);
        let sum = base + product;
        let rest = fma(power, low, product - (sum - base));
        let value = sum + rest;
        Self {
            // The sum of −0 and 0 has lost the sign.
            value: value.copysign(x),
            rest: rest - (value - sum),
            growth,
            n: bits,
        }
    }
}

/// e^x − 1.
#[inline]
pub fn expm1(x: f64) -> f64 {
    let Expm1 { value, growth, n, .. } = Expm1::new(x);
    if magnitude(x) >= NORMAL {
        // e^x is nothing beside 1, or 1 beside e^x.
        let power = far_exp(x, 1.0 + growth, n, MOST);
        return select(x < 0.0, -1.0, power);
    }
    value
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
