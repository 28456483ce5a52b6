// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sine, cosine and tangent of f32, for arguments of any size.
//!
//! x = q π/2 + r with |r| ≤ π/4: up to 10^5 by subtracting π/2 in three parts with fused
//! multiply-adds (Cody and Waite), beyond by multiplying the bits of x with a window of the bits
//! of 2/π in integer arithmetic (Payne and Hanek). Only the second is a branch, and warps whose
//! angles are moderate never take it. The polynomials of both sine and cosine are evaluated and q
//! selects one. The sine alone is reduced by half turns, x = q π + r with |r| ≤ π/2, where one
//! polynomial is enough: six instructions less.

use super::super::machine::recip_of_normal;
use super::super::machine::single::fma;
use super::super::normal::select;
use super::exp::{ROUNDER, round_by};

const FRAC_2_PI: f32 = core::f32::consts::FRAC_2_PI;
/// π/2 in three parts, all positive: so subtracting 0 of them leaves −0 as it is.
pub const FRAC_PI_2_1: f32 = f32::from_bits(0x3fc9_0fda);
pub const FRAC_PI_2_2: f32 = 7.549_789_4e-8;
const FRAC_PI_2_3: f32 = 5.390_303e-15;

/// Above this |x| the three parts of π/2 are too few.
const CODY_WAITE_LIMIT: f32 = 1e5;

/// The bits of 2/π after the point, in words from the most significant, after one word of zeros.
static TWO_OVER_PI: [u32; 8] = [
    0,
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
];

/// π/2 · 2^-62.
const QUARTER_TURN: f64 = 3.406_121_580_086_554_5e-19;

/// The logarithms of quarter and half turns in units of 2^-62 quarter turns.
const QUARTER: u32 = 62;
const HALF: u32 = 63;

/// x less the multiple of π/2 nearest to it: r + `low`, and q modulo 4 of x = q π/2 + r (the upper
/// bits of q mean nothing).
struct Reduced {
    r: f32,
    low: f32,
    q: u32,
}

/// The reduction of |x| ≥ 1 by turns of that size, which is NaN for infinite x: r and `low` in the halves of one word, and q
/// modulo a whole turn, so that they are returned in registers.
///
/// With x = m 2^k, m of 24 bits, only the bits of 2/π from 2^(1−k) on matter modulo 4, and 96 of them give x · 2/π
/// modulo 4 with an error below 2^-61: no f32 comes nearer than 2^-31 to a multiple of π/2. The one multiplication in
/// f64 is affordable here, off the fast path. Never inlined, because a kernel that treats many elements would otherwise
/// carry it once for each.
#[cold]
#[inline(never)]
fn payne_hanek(x: f32, turn: u32) -> (u64, u32) {
    let bits = x.to_bits();
    let mantissa = u64::from((bits & 0x007f_ffff) | 0x0080_0000);
    // x = mantissa · 2^(exponent − 150), so the window starts at the bit of 2/π of weight 2^(151 − exponent), which the
    // table, with its 32 zeros in front, has at this offset.
    let offset = ((bits >> 23) & 0xff) - 120;
    let (word, shift) = ((offset >> 5) as usize, offset & 31);
    let pair = |i: usize| {
        // The masks keep the indices in range without a panic; they change no value.
        let high = u64::from(TWO_OVER_PI[(word + i) & 7]) << 32;
        let both = high | u64::from(TWO_OVER_PI[(word + i + 1) & 7]);
        (both << shift) >> 32
    };
    let product = (mantissa * pair(0))
        .wrapping_shl(32)
        .wrapping_add(mantissa * pair(1))
        .wrapping_add((mantissa * pair(2)) >> 32);
    // `product` is x · 2/π modulo 4, times 2^62: round to the nearest turn, keep the rest.
    let q = product.wrapping_add(1 << (turn - 1)) >> turn;
    let rest = product.wrapping_sub(q << turn) as i64;
    let exact = rest as f64 * QUARTER_TURN;
    let r = if x.abs() == f32::INFINITY {
        f32::NAN
    } else {
        exact as f32
    };
    let low = (exact - f64::from(r)) as f32;
    let (r, low, q) = if x < 0.0 {
        (-r, -low, (q as u32).wrapping_neg())
    } else {
        (r, low, q as u32)
    };
    (u64::from(r.to_bits()) << 32 | u64::from(low.to_bits()), q)
}

/// The reduction of any x; r is NaN for infinite x.
#[inline(always)]
fn reduce(x: f32) -> Reduced {
    if x.abs() > CODY_WAITE_LIMIT {
        let (words, q) = payne_hanek(x, QUARTER);
        return Reduced {
            r: f32::from_bits((words >> 32) as u32),
            low: f32::from_bits(words as u32),
            q,
        };
    }
    // Of the bits that have the integer all but two are of no account.
    let (n, q) = round_by(ROUNDER, x, FRAC_2_PI);
    // The first difference is exact; the others leave their rounding errors in `low`.
    let first = fma(n, -FRAC_PI_2_1, x);
    let second = fma(n, -FRAC_PI_2_2, first);
    let r = fma(n, -FRAC_PI_2_3, second);
    let step = first - second;
    let step_low = (first - step) - second;
    let low = fma(n, -FRAC_PI_2_2, step) + step_low + fma(n, -FRAC_PI_2_3, second - r);
    Reduced { r, low, q }
}

/// sin r for |r| ≤ π/4.
#[inline(always)]
fn sin_polynomial(r: f32, s: f32) -> f32 {
    let mut p = 2.832_51e-6;
    p = fma(p, s, -1.985_306_4e-4);
    p = fma(p, s, 8.333_379e-3);
    p = fma(p, s, -1.666_666_7e-1);
    // Adding +0 makes the product with p negative zero for r = −0, and the sum −0.
    fma(fma(s, r, 0.0), p, r)
}

/// cos r for |r| ≤ π/4, where s = r².
#[inline(always)]
fn cos_polynomial(s: f32) -> f32 {
    let mut p = 2.443_232_7e-5;
    p = fma(p, s, -1.388_731e-3);
    p = fma(p, s, 4.166_664_6e-2);
    p = fma(p, s, -0.5);
    fma(p, s, 1.0)
}

/// The sine of `q` quarter turns more than an angle with these sine and cosine.
#[inline(always)]
fn turned(sin: f32, cos: f32, q: u32) -> f32 {
    let value = if q & 1 == 0 { sin } else { cos };
    f32::from_bits(value.to_bits() ^ ((q & 2) << 30))
}

#[inline]
pub fn sin_cos(x: f32) -> (f32, f32) {
    let Reduced { r, q, .. } = reduce(x);
    let s = r * r;
    let (sin, cos) = (sin_polynomial(r, s), cos_polynomial(s));
    (turned(sin, cos, q), turned(sin, cos, q.wrapping_add(1)))
}

/// The reduction of any x by half turns: r of x = q π + r, NaN for infinite x, and q, of which the last bit means something.
#[inline(always)]
fn reduce_by_half_turns(x: f32) -> (f32, u32) {
    if x.abs() > CODY_WAITE_LIMIT {
        let (words, q) = payne_hanek(x, HALF);
        return (f32::from_bits((words >> 32) as u32), q);
    }
    let (n, q) = round_by(ROUNDER, x, core::f32::consts::FRAC_1_PI);
    let r = fma(n, -2.0 * FRAC_PI_2_1, x);
    let r = fma(n, -2.0 * FRAC_PI_2_2, r);
    (fma(n, -2.0 * FRAC_PI_2_3, r), q)
}

/// sin r for |r| ≤ 1.5745, to which half turns leave angles below 10^5, with an error of 2^-26.4 relative to it before
/// rounding.
///
/// The coefficients were chosen among those near the best fit by what all r above 0.53 give: at most 1.74 ulp, and no sine
/// above 1.
#[inline(always)]
fn sin_of_half_turn(r: f32) -> f32 {
    let s = r * r;
    let mut p = 2.588_341_2e-6;
    p = fma(p, s, -1.980_158_8e-4);
    p = fma(p, s, 8.332_956e-3);
    p = fma(p, s, -1.666_665_5e-1);
    // As in `sin_polynomial`.
    fma(fma(s, r, 0.0), p, r)
}

#[inline]
pub fn sin(x: f32) -> f32 {
    let (r, q) = reduce_by_half_turns(x);
    f32::from_bits(sin_of_half_turn(r).to_bits() ^ (q << 31))
}

#[inline]
pub fn cos(x: f32) -> f32 {
    sin_cos(x).1
}

#[inline]
pub fn tan(x: f32) -> f32 {
    let Reduced { r, low, q } = reduce(x);
    let s = r * r;
    let mut p = 4.384_118e-3;
    p = fma(p, s, 7.680_501_6e-5);
    p = fma(p, s, 1.084_275_3e-2);
    p = fma(p, s, 2.128_107_1e-2);
    p = fma(p, s, 5.405_971e-2);
    p = fma(p, s, 1.333_267_1e-1);
    p = fma(p, s, 3.333_335e-1);
    let cube = s * r;
    let t = fma(p, cube, r);
    // −1 / t, corrected for the rounding errors of r, t and the quotient. Where it is not asked for, t may be 0.
    let t_low = fma(p, cube, r - t) + low;
    let turned = q & 1 != 0;
    let inverse = -recip_of_normal(select(turned, t, 1.0));
    let error = fma(inverse, t_low, fma(inverse, t, 1.0));
    let corrected = fma(inverse, error, inverse);
    select(turned, corrected, t)
}
