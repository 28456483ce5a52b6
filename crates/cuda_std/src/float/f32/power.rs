// SPDX-License-Identifier: MIT OR Apache-2.0
//! Powers and roots of f32.
//!
//! x^y = 2^(y log2 x). An error in the logarithm is multiplied by up to 128 before it reaches the
//! result, so log2 x and its product with y are carried as unevaluated sums of two floats, about
//! 40 bits: log2 m = u (c1 + c3 v + v² P(v)) with u = (m − 1) / (m + 1) and v = u², the first two
//! terms in two floats each.

use super::super::machine::single::fma;
use super::super::machine::{recip_of_normal, sqrt_of_normal};
use super::exp::{Exponent, exp2_polynomial, scale};
use super::log::Split;

const TWO_M100: f32 = 7.888_609e-31;
const TWO_32: f32 = 4_294_967_296.0;
const TWO_64: f32 = TWO_32 * TWO_32;

/// The sum of two floats, the second no larger than the first one's rounding error.
type Pair = (f32, f32);

/// a + b, where |a| ≥ |b| or a = 0.
#[inline(always)]
fn fast_two_sum(a: f32, b: f32) -> Pair {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// a · b with its rounding error.
#[inline(always)]
fn two_product(a: f32, b: f32) -> Pair {
    let product = a * b;
    (product, fma(a, b, -product))
}

/// (a + a') (b + b') but for a' b'.
#[inline(always)]
fn pair_product(a: Pair, b: Pair) -> Pair {
    let (high, low) = two_product(a.0, b.0);
    fast_two_sum(high, fma(a.0, b.1, fma(a.1, b.0, low)))
}

/// log2 x for finite x > 0, with a relative error below 2^-34.
#[inline(always)]
fn log2_pair(x: f32) -> Pair {
    // 2/ln 2 and a third of it.
    const C1: Pair = (2.885_39, 3.851_926e-8);
    const C3: Pair = (0.961_796_7, -7.028_462e-9);
    let split = Split::new(x);
    let f = split.mantissa - 1.0;
    // u = f / (2 + f) as a pair.
    let (denominator, rest) = fast_two_sum(2.0, f);
    let reciprocal = recip_of_normal(denominator);
    let quotient = f * reciprocal;
    let residue = fma(-quotient, rest, fma(-quotient, denominator, f));
    let u = fast_two_sum(quotient, residue * reciprocal);
    let v = pair_product(u, u);
    let mut p = 2.880_67e-1;
    p = fma(p, v.0, 3.195_792_7e-1);
    p = fma(p, v.0, 4.122_151_4e-1);
    p = fma(p, v.0, 5.770_779e-1);
    // c3 + v P(v), then c1 + v (…), then u (…).
    let (high, low) = fast_two_sum(C3.0, v.0 * p);
    let (high, low) = pair_product(v, (high, low + C3.1));
    let (sum, rest) = fast_two_sum(C1.0, high);
    let (high, low) = pair_product(u, (sum, rest + (low + C1.1)));
    let (sum, rest) = fast_two_sum(split.exponent(), high);
    fast_two_sum(sum, rest + low)
}

/// |x|^(y + y') for finite x ≠ 0 and |y| ≤ 2^40.
#[inline(always)]
fn magnitude(x: f32, y: Pair) -> f32 {
    let (high, low) = pair_product(log2_pair(x.abs()), y);
    let clamped = high.clamp(-160.0, 160.0);
    // Where it saturates the low part is noise.
    let low = if clamped == high { low } else { 0.0 };
    let (n, exponent) = Exponent::nearest(clamped, 1.0, 0.0);
    scale(exp2_polynomial((clamped - n) + low), exponent)
}

/// x^y for what `magnitude` leaves out, as C's pow has it: x is ±0 or ±∞ or NaN, y is not 0.
#[inline(always)]
fn power_of_limit(x: f32, y_negative: bool, y_odd: bool) -> f32 {
    if x.is_nan() {
        return x;
    }
    let grows = (x == 0.0) == y_negative;
    let limit = if grows { f32::INFINITY } else { 0.0 };
    if y_odd { limit.copysign(x) } else { limit }
}

#[inline]
pub fn powf(x: f32, y: f32) -> f32 {
    // Beyond 2^40 every x ≠ 1 has saturated.
    const LIMIT: f32 = 1_099_511_627_776.0;
    if x == 1.0 || y == 0.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return f32::NAN;
    }
    // Floats of 2^24 and more are even integers.
    let whole = y.abs() >= 16_777_216.0 || y == (y as i32) as f32;
    let odd = whole && y.abs() < 16_777_216.0 && (y as i32) & 1 == 1;
    let a = x.abs();
    if a == 0.0 || a == f32::INFINITY {
        return power_of_limit(x, y < 0.0, odd);
    }
    if a == 1.0 && y.abs() == f32::INFINITY {
        return 1.0;
    }
    let power = magnitude(x, (y.clamp(-LIMIT, LIMIT), 0.0));
    if x > 0.0 {
        power
    } else if !whole {
        f32::NAN
    } else if odd {
        -power
    } else {
        power
    }
}

/// As `powf`, with all 32 bits of the exponent, which are more than an f32 holds.
#[inline]
pub fn powi(x: f32, n: i32) -> f32 {
    if n == 0 {
        return 1.0;
    }
    let odd = n & 1 == 1;
    let a = x.abs();
    if a == 0.0 || a == f32::INFINITY || x.is_nan() {
        return power_of_limit(x, n < 0, odd);
    }
    // The low half, of 16 bits, and the rest are floats.
    let low = n & 0xffff;
    let power = magnitude(x, fast_two_sum((n - low) as f32, low as f32));
    if x < 0.0 && odd { -power } else { power }
}

/// 1 / √x, of which both are rounded once. Small arguments are raised by 2^64, which is undone exactly.
#[inline]
pub fn rsqrt(x: f32) -> f32 {
    let small = x < TWO_M100;
    let root = sqrt_of_normal(if small { x * TWO_64 } else { x });
    let inverse = recip_of_normal(root);
    let inverse = if small { inverse * TWO_32 } else { inverse };
    if x == 0.0 || x == f32::INFINITY {
        // 0 and ∞ are each other's, of the same sign.
        f32::from_bits(x.to_bits() ^ f32::INFINITY.to_bits())
    } else {
        inverse
    }
}

/// a^(-1/3) by two cubic Newton steps from a guess on the bits, without a division; then
/// y = a (a^(-1/3))² and one correction of y.
#[inline]
pub fn cbrt(x: f32) -> f32 {
    let a = x.abs();
    // Small arguments are raised by 2^96, or the correction would be made of subnormals.
    let small = a < 3.552_713_7e-15;
    let a = if small { a * 7.922_816_3e28 } else { a };
    // Minus a third of the exponent; the constant makes the guess good to 4 %.
    let mut r = f32::from_bits(0x54a1_f60e - a.to_bits() / 3);
    for _ in 0..2 {
        let error = fma(-(a * r), r * r, 1.0);
        r = fma(r * error, fma(error, 2.0 / 9.0, 1.0 / 3.0), r);
    }
    let y = a * (r * r);
    let (square, square_low) = two_product(y, y);
    let residue = fma(-square_low, y, fma(-square, y, a));
    let y = fma(residue * (1.0 / 3.0), r * r, y);
    let y = if small { y * 2.328_306_4e-10 } else { y };
    if a == 0.0 || a >= f32::INFINITY || a.is_nan() {
        x
    } else {
        y.copysign(x)
    }
}

/// Scaled by a power of two, so that no square overflows or loses bits.
#[inline]
pub fn hypot(x: f32, y: f32) -> f32 {
    let (ax, ay) = (x.abs(), y.abs());
    let (large, small) = if ax < ay { (ay, ax) } else { (ax, ay) };
    let field = (large.to_bits() >> 23).clamp(1, 253);
    let down = f32::from_bits((254 - field) << 23);
    let up = f32::from_bits(field << 23);
    let (l, s) = (large * down, small * down);
    let square = fma(l, l, s * s);
    // What the root of 0 is taken for vanishes in the product with 2^-126.
    let length = up * sqrt_of_normal(if square < TWO_M100 { TWO_M100 } else { square });
    if ax == f32::INFINITY || ay == f32::INFINITY {
        f32::INFINITY
    } else {
        length
    }
}
