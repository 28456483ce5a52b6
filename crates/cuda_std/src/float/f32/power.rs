// SPDX-License-Identifier: MIT OR Apache-2.0
//! Powers and roots of f32.
//!
//! x^y = 2^(y log2 x). An error in the logarithm is multiplied by up to 128 before it reaches the
//! result, so log2 x and its product with y are carried as unevaluated sums of two floats, about
//! 40 bits: log2 m = u (c1 + c3 v + v² P(v)) with u = (m − 1) / (m + 1) and v = u², the first two
//! terms in two floats each.

use super::super::machine::single::{self, fma};
use super::super::machine::{self, recip_of_normal, sqrt_of_normal};
use super::super::normal::select;
use super::super::pair::{Pair, fast_two_sum, pair_product};
use super::exp::{Exponent, exp2_polynomial, scale};
use super::log::Split;

const TWO_M100: f32 = 7.888_609e-31;
const TWO_32: f32 = 4_294_967_296.0;
const TWO_64: f32 = TWO_32 * TWO_32;

/// log2 x for finite x > 0, with a relative error below 2^-34.
#[inline(always)]
fn log2_pair(x: f32) -> Pair<f32> {
    // 2/ln 2 and a third of it.
    const C1: Pair<f32> = (2.885_39, 3.851_926e-8);
    const C3: Pair<f32> = (0.961_796_7, -7.028_462e-9);
    let split = Split::new(x);
    let f = split.mantissa - 1.0;
    // u = f / (2 + f) as a pair.
    let (denominator, rest) = fast_two_sum(2.0, f);
    let reciprocal = recip_of_normal(denominator);
    let quotient = f * reciprocal;
    let residue = fma(-quotient, rest, fma(-quotient, denominator, f));
    let u = (quotient, residue * reciprocal);
    let v = pair_product(u, u);
    let mut p = 2.880_67e-1;
    p = fma(p, v.0, 3.195_792_7e-1);
    p = fma(p, v.0, 4.122_151_4e-1);
    p = fma(p, v.0, 5.770_779e-1);
    // c3 + v P(v), then c1 + v (…), then u (…).
    let high = fma(v.0, p, C3.0);
    let low = fma(v.0, p, C3.0 - high) + C3.1;
    let (high, low) = pair_product(v, (high, low));
    let (sum, rest) = fast_two_sum(C1.0, high);
    let (high, low) = pair_product(u, (sum, rest + (low + C1.1)));
    let (sum, rest) = fast_two_sum(split.exponent(), high);
    (sum, rest + low)
}

/// x in [−`most`, `most`], in two instructions; a number for NaN.
#[inline(always)]
fn limited(x: f32, most: f32) -> f32 {
    single::minimum_number(single::maximum_number(x, -most), most)
}

/// 2^(high + low); a number for NaN.
#[inline(always)]
fn exp2_of_pair((high, low): Pair<f32>) -> f32 {
    let clamped = limited(high, 160.0);
    // Where it saturates the low part is noise.
    let low = select(clamped == high, low, 0.0);
    let (n, exponent) = Exponent::nearest(clamped, 1.0);
    scale(exp2_polynomial((clamped - n) + low), exponent)
}

/// `power` of finite x ≠ 0, else what C's pow has for x = ±0 and ±∞, but for the sign; and whether x is one of these, or NaN.
#[inline(always)]
fn or_limit(x: f32, power: f32, y_negative: bool) -> (f32, bool) {
    const INFINITY: u32 = f32::INFINITY.to_bits();
    let limit = select((x == 0.0) == y_negative, f32::INFINITY, 0.0);
    let special = x.abs().to_bits().wrapping_sub(1) >= INFINITY - 1;
    (select(special, limit, power), special)
}

/// `power`, negative where x is and y is odd.
#[inline(always)]
fn with_sign(x: f32, power: f32, odd: bool) -> f32 {
    f32::from_bits(power.to_bits() ^ (x.to_bits() & select(odd, 1 << 31, 0)))
}

/// As C's pow, without a branch.
#[inline]
pub fn powf(x: f32, y: f32) -> f32 {
    // Beyond 2^40 every x ≠ 1 has saturated.
    const LIMIT: f32 = 1_099_511_627_776.0;
    let clamped = limited(y, LIMIT);
    let (high, low) = log2_pair(x.abs());
    let product = high * clamped;
    let power = exp2_of_pair((product, fma(low, clamped, fma(high, clamped, -product))));
    let (power, special) = or_limit(x, power, y < 0.0);
    // Of floats of 2^24 and more, and of infinite ones, the half is an integer, too.
    let whole = y == single::trunc(y);
    let odd = whole & (0.5 * y != single::trunc(0.5 * y));
    let power = with_sign(x, power, odd);
    let undefined = (x.is_sign_negative() & !whole & !special) | x.is_nan() | y.is_nan();
    let power = select(undefined, f32::NAN, power);
    select((x == 1.0) | (y == 0.0), 1.0, power)
}

/// As `powf`, with all 32 bits of the exponent, which are more than an f32 holds.
#[inline]
pub fn powi(x: f32, n: i32) -> f32 {
    // The low half, of 16 bits, and the rest are floats.
    let low = n & 0xffff;
    let exponent = fast_two_sum((n - low) as f32, low as f32);
    let power = exp2_of_pair(pair_product(log2_pair(x.abs()), exponent));
    let (power, _) = or_limit(x, power, n < 0);
    let power = select(x.is_nan(), x, with_sign(x, power, n & 1 == 1));
    select(n == 0, 1.0, power)
}

/// 1 / √x. Subnormal arguments are raised by 2^24, which is undone exactly.
#[inline]
pub fn rsqrt(x: f32) -> f32 {
    let small = x < f32::MIN_POSITIVE;
    let root = machine::rsqrt(x * select(small, 16_777_216.0, 1.0));
    root * select(small, 4096.0, 1.0)
}

/// A third of n < 2^31, rounded down, without the shift that the compiler's own takes.
#[inline(always)]
fn third(n: u32) -> u32 {
    ((u64::from(n) * 0x5555_5556) >> 32) as u32
}

/// a^(-1/3) for positive normal a, with a relative error of 2^-18.9: by one step of the fourth order from a guess on the bits.
#[inline(always)]
pub fn approximate_rcbrt(a: f32) -> f32 {
    // Minus a third of the exponent; the constant makes the guess good to 3.5 %.
    let guess = f32::from_bits(0x54a1_f60e_u32.wrapping_sub(third(a.to_bits())));
    let error = fma(-(a * guess), guess * guess, 1.0);
    // (1 − error)^(-1/3).
    let mut p = 0.174_558_4;
    p = fma(p, error, 0.223_736_69);
    p = fma(p, error, 0.333_328_44);
    p = fma(p, error, 0.999_998);
    guess * p
}

/// Below this size a cube root would be corrected by subnormal numbers.
pub const LEAST_CUBE: f32 = 3.552_713_7e-15;

/// ∛a for [`LEAST_CUBE`] ≤ a < ∞, as y = a (a^(-1/3))² and one correction of y, without a
/// division; anything for ∞ and NaN.
#[inline(always)]
pub fn cbrt_of_usual(a: f32) -> f32 {
    let r = approximate_rcbrt(a);
    let square = r * r;
    let y = a * square;
    let residue = fma(-(y * y), y, a);
    fma(residue, square * (1.0 / 3.0), y)
}

/// Small arguments are raised by 2^96.
#[inline]
pub fn cbrt(x: f32) -> f32 {
    const TWO_96: f32 = TWO_32 * TWO_64;
    const INFINITY: u32 = f32::INFINITY.to_bits();
    let small = x.abs() < LEAST_CUBE;
    let a = x.abs() * select(small, TWO_96, 1.0);
    let y = cbrt_of_usual(a) * select(small, 1.0 / TWO_32, 1.0);
    // Not of 0, ∞ and NaN.
    select(a.to_bits().wrapping_sub(1) < INFINITY - 1, y.copysign(x), x)
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
