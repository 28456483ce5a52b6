// SPDX-License-Identifier: MIT OR Apache-2.0
//! Roots and hypotenuses of f64, without a branch but for what is rare for `rsqrt`.

use super::super::f32::power::approximate_rcbrt;
use super::super::machine::double::fma;
use super::super::machine::rsqrt_of_normal;
use super::super::normal::{magnitude, of_upper, select, sqrt_of_normal, upper, with_upper};

/// a^(-1/3) of a mantissa a in [1, 8): in f32 by a step of the fourth order from a guess on the bits, as f32's `cbrt`, then by one
/// that doubles the digits; then y = a (a^(-1/3))² and one correction of y, which doubles them again.
#[inline]
pub fn cbrt(x: f64) -> f64 {
    const INFINITY: u32 = 0x7ff0_0000;
    let subnormal = magnitude(x) < 0x0010_0000;
    let raised = x.abs() * select(subnormal, 18_014_398_509_481_984.0, 1.0);
    // Three times `third` and at most 2 more are the exponent; 1023 and 54 are multiples of three.
    let word = upper(raised);
    // Rounded down.
    let third = ((word >> 20) * 0x5556) >> 16;
    let a = with_upper(raised, word.wrapping_sub((3 * third) << 20).wrapping_add(1023 << 20));
    // The 23 bits behind the exponent of a, as an f32.
    let m = f32::from_bits(((a.to_bits() >> 29) as u32).wrapping_sub((1023 - 127) << 23));
    let r = approximate_rcbrt(m);
    let r = f64::from_bits((u64::from(r.to_bits()) << 29) + ((1023 - 127) << 52));
    let error = fma(-(a * r), r * r, 1.0);
    let r = fma(r * error, 1.0 / 3.0, r);
    let square = r * r;
    let y = a * square;
    let (power, power_low) = (y * y, fma(y, y, -(y * y)));
    let residue = fma(-power_low, y, fma(-power, y, a));
    let y = fma(residue, square * (1.0 / 3.0), y);
    // No result is subnormal.
    let less = select(subnormal, 341 + 18, 341);
    let y = with_upper(y, upper(y).wrapping_add(third.wrapping_sub(less) << 20));
    // Not of 0, of which the upper word is 0 as of nothing else that is raised, ∞ and NaN.
    select(word.wrapping_sub(1) < INFINITY - 1, y.copysign(x), x)
}

/// 1 / √x for x in [1, 4): by a step of the third order from that of the f32 next to it.
#[inline(always)]
fn near_rsqrt(x: f64) -> f64 {
    let y = f64::from(rsqrt_of_normal(x as f32));
    let error = fma(-(x * y), y, 1.0);
    fma(fma(error, 0.375, 0.5), y * error, y)
}

/// 1 / √x for normal x > 0; anything else for other x.
#[inline(always)]
fn rsqrt_of_normal_or_any(x: f64) -> f64 {
    const ONE: u32 = 0x3ff0_0000;
    // Of the exponent what is even.
    let even = upper(x).wrapping_sub(ONE) & 0xffe0_0000;
    let y = near_rsqrt(with_upper(x, upper(x).wrapping_sub(even)));
    with_upper(y, upper(y).wrapping_sub(((even as i32) >> 1) as u32))
}

/// 1 / √x.
#[inline]
pub fn rsqrt(x: f64) -> f64 {
    const LEAST: u32 = 0x0010_0000;
    const COUNT: u32 = 0x7ff0_0000 - LEAST;
    const TWO_54: f64 = 18_014_398_509_481_984.0;
    const TWO_27: f64 = 134_217_728.0;
    let y = rsqrt_of_normal_or_any(x);
    if upper(x).wrapping_sub(LEAST) >= COUNT {
        // Of subnormal numbers, and what is none: 0 and ∞ are each other's, of the same sign.
        let subnormal = TWO_27 * rsqrt_of_normal_or_any(x * TWO_54);
        let other = f64::from_bits(x.to_bits() ^ f64::INFINITY.to_bits());
        let y = select(x > 0.0, subnormal, f64::NAN);
        return select((x == 0.0) | (x == f64::INFINITY), other, y);
    }
    y
}

/// Scaled by a power of two, so that no square overflows or loses bits.
#[inline]
pub fn hypot(x: f64, y: f64) -> f64 {
    // The exponents that the power may have, and what it and its inverse have together.
    const LEAST: u32 = 0x0010_0000;
    const MOST: u32 = 0x7fd0_0000;
    const BOTH: u32 = 0x7fe0_0000;
    // The upper word of 2^-960. What its root is, times 2^-1022, is 0; no other square is less.
    const ZERO: u32 = 0x03f0_0000;
    let (wx, wy) = (magnitude(x), magnitude(y));
    let exponent = (wx.max(wy) & !(LEAST - 1)).clamp(LEAST, MOST);
    let (down, up) = (of_upper(BOTH - exponent), of_upper(exponent));
    let (a, b) = (x * down, y * down);
    // The larger one is multiplied exactly.
    let larger = wx < wy;
    let (large, small) = (select(larger, b, a), select(larger, a, b));
    let square = fma(large, large, small * small);
    let square = with_upper(square, upper(square).max(ZERO));
    let length = up * sqrt_of_normal(square);
    let infinity = f64::INFINITY.to_bits();
    let infinite = (x.abs().to_bits() == infinity) | (y.abs().to_bits() == infinity);
    select(infinite, f64::INFINITY, length)
}
