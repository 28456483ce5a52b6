// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sine, cosine and tangent of f64, for arguments of any size.
//!
//! As those of f32: x = q π/2 + r with |r| ≤ π/4, up to 10^9 by subtracting π/2 in two parts with fused multiply-adds
//! (Cody and Waite), beyond by multiplying the bits of x with a window of the bits of 2/π in integer arithmetic (Payne and
//! Hanek), and so where x is next to a multiple of π/2. Only the second is a branch, and a call. What rounding takes of r is
//! kept beside it, for sines and tangents. The polynomials of sine and cosine have the coefficients of FreeBSD's `k_sin.c` and
//! `k_cos.c`; the tangent has one of its own.
//!
//! Against 113 bits, of some 10^6 arguments each, those next to multiples of π/2 among them, sine and cosine are off by 1.15 ulp
//! at most, tangents by 1.17.

use super::super::machine::double::fma;
use super::super::machine::recip_of_normal as single_recip;
use super::super::normal::{magnitude, select};

/// π/2 in two parts, both positive: so subtracting 0 of them leaves −0 as it is. Together they lack less than 2^-106.
const FRAC_PI_2_1: f64 = core::f64::consts::FRAC_PI_2;
const FRAC_PI_2_2: f64 = 6.123_233_995_736_765e-17;

/// Adding this to |x| < 2^51 rounds x to an integer, which is then in the low bits of the mantissa.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The upper word of 10^9, up to which the multiple of π/2 is below 2^30, and what the two parts lack of it below 2^-76.
const CODY_WAITE_LIMIT: u32 = 0x41cd_cd65;

/// The upper word of 2^-18, which is more than twice the second part of any such multiple, and 2^58 times what both lack.
const LITTLE: u32 = 0x3ed0_0000;

/// x less the multiple of π/2 nearest to it: r + `low`, and q modulo 4 of x = q π/2 + r (the upper bits of q mean nothing).
struct Reduced {
    r: f64,
    low: f64,
    q: u32,
}

/// The reduction of any x; r is NaN for NaN and ±∞.
#[inline(always)]
fn reduce(x: f64) -> Reduced {
    let shifted = fma(x, core::f64::consts::FRAC_2_PI, ROUNDER);
    let n = shifted - ROUNDER;
    // This difference is exact: both are multiples of 2^-53, and it is below 1.
    let first = fma(n, -FRAC_PI_2_1, x);
    let r = fma(n, -FRAC_PI_2_2, first);
    // Where n is 0, r is x.
    let little = magnitude(r) < magnitude(x).min(LITTLE);
    if (magnitude(x) >= CODY_WAITE_LIMIT) | little {
        let (r, low) = payne_hanek(x);
        return Reduced {
            r: f64::from_bits(r),
            low: f64::from_bits(low),
            q: low as u32,
        };
    }
    // And so is that of `first` and r, which is less than half of them.
    let low = fma(n, -FRAC_PI_2_2, first - r);
    let q = shifted.to_bits() as u32;
    Reduced { r, low, q }
}

/// The bits of 2/π after the point, in words from the most significant, after one word of zeros.
static TWO_OVER_PI: [u64; 20] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// The reduction of |x| ≥ 1/2, which is NaN for infinite x and NaN: the bits of r, and those of `low`, the last two of which, which
/// are of no account, are q.
///
/// As that of f32: with x = m 2^k, m of 53 bits, only the bits of 2/π from 2^(1−k) on matter modulo 4, and 192 of them give x · 2/π
/// modulo 4 with an error below 2^-137: no f64 comes nearer than 2^-62 to a multiple of π/2. Never inlined, because a kernel that
/// treats many elements would otherwise carry it once for each.
#[cold]
#[inline(never)]
fn payne_hanek(x: f64) -> (u64, u64) {
    let bits = x.abs().to_bits();
    let mantissa = (bits & ((1 << 52) - 1)) | 1 << 52;
    // x = mantissa · 2^(exponent − 1075), so the window starts at the bit of 2/π of weight 2^(1076 − exponent), which the table,
    // with its 64 zeros in front, has at this offset.
    let offset = (bits >> 52) as u32 - 1013;
    let (word, shift) = ((offset >> 6) as usize, offset & 63);
    let shifted = |high: u64, low: u64, by: u32| (high << by) | (low >> 1 >> (63 - by));
    // The product with a word of the window. The remainders keep the indices in range without a panic; they change no value.
    let product = |i: usize| {
        let [high, low] = [word + i, word + i + 1].map(|at| TWO_OVER_PI[at % 20]);
        u128::from(mantissa) * u128::from(shifted(high, low, shift))
    };
    let low = product(2);
    let middle = product(1) + (low >> 64);
    let high = (product(0) as u64).wrapping_add((middle >> 64) as u64);
    // They are x · 2/π modulo 4, times 2^190: round to the nearest quarter turn, keep the rest, which has its first bit in `high`.
    let q = (high.wrapping_add(1 << 61) >> 62) as u32;
    let rest = high.wrapping_sub(u64::from(q) << 62);
    let sign = ((rest as i64) >> 63) as u64;
    let [high, middle, low] = [rest, middle as u64, low as u64].map(|word| word ^ sign);
    let zeros = high.leading_zeros() & 63;
    let (first, second) = (shifted(high, middle, zeros), shifted(middle, low, zeros));
    // In units of the last of 53 bits: those, and what is behind them.
    let (a, b) = (
        (first >> 11) as f64,
        shifted(first, second, 53) as f64 * (1.0 / 18_446_744_073_709_551_616.0),
    );
    let unit = f64::from_bits(u64::from(1023 - 51 - zeros) << 52);
    let rough = a * FRAC_PI_2_1;
    let rest = fma(a, FRAC_PI_2_1, -rough) + fma(a, FRAC_PI_2_2, b * FRAC_PI_2_1);
    let r = rough + rest;
    let low = rest - (r - rough);
    let unit = if x.abs() < f64::INFINITY { unit } else { f64::NAN };
    let turned = (x.to_bits() ^ sign) & 1 << 63;
    let q = if x < 0.0 { q.wrapping_neg() } else { q };
    (
        (r * unit).to_bits() ^ turned,
        ((low * unit).to_bits() ^ turned) & !3 | u64::from(q & 3),
    )
}

/// (sin r − r) / (r s) for |r| ≤ π/4, where s = r².
#[inline(always)]
fn sin_ratio(s: f64) -> f64 {
    let mut p = 1.589_690_995_211_55e-10;
    p = fma(p, s, -2.505_076_025_340_686_3e-8);
    p = fma(p, s, 2.755_731_370_707_006_8e-6);
    p = fma(p, s, -1.984_126_982_985_795e-4);
    p = fma(p, s, 8.333_333_333_322_49e-3);
    fma(p, s, -1.666_666_666_666_663_2e-1)
}

/// (cos r − 1 + s / 2) / s² for |r| ≤ π/4, where s = r².
#[inline(always)]
fn cos_ratio(s: f64) -> f64 {
    let mut p = -1.135_964_755_778_819_5e-11;
    p = fma(p, s, 2.087_572_321_298_175e-9);
    p = fma(p, s, -2.755_731_435_139_066_3e-7);
    p = fma(p, s, 2.480_158_728_947_673e-5);
    p = fma(p, s, -1.388_888_888_887_411e-3);
    fma(p, s, 4.166_666_666_666_66e-2)
}

/// (tan r − r) / (r s) for |r| ≤ π/4, where s = r², with an error of 2^-56 relative to tan r.
#[inline(always)]
fn tan_ratio(s: f64) -> f64 {
    let mut p = 2.086_786_670_587_091_6e-5;
    p = fma(p, s, -4.489_558_978_392_352_5e-5);
    p = fma(p, s, 8.948_730_804_487_865e-5);
    p = fma(p, s, -2.642_383_741_866_53e-5);
    p = fma(p, s, 0.000_136_551_910_381_998_5);
    p = fma(p, s, 0.000_222_367_251_255_205_24);
    p = fma(p, s, 0.000_595_068_889_864_618_9);
    p = fma(p, s, 0.001_454_757_013_558_951);
    p = fma(p, s, 0.003_592_289_230_473_853_4);
    p = fma(p, s, 0.008_863_219_147_983_915);
    p = fma(p, s, 0.021_869_489_610_120_314);
    p = fma(p, s, 0.053_968_253_926_622_69);
    p = fma(p, s, 0.133_333_333_334_147_15);
    fma(p, s, 0.333_333_333_333_327_76)
}

/// The sine of r + `low` for |r| ≤ π/4, where s = r². What is added of `low` should be that times the cosine: 0.15 ulp.
#[inline(always)]
fn sin_of(r: f64, s: f64, low: f64) -> f64 {
    // The sum of −0 and what is 0 is +0.
    (r + fma(sin_ratio(s), s * r, low)).copysign(r)
}

/// The cosine of an angle of that square, up to π/4. What rounding has taken of the angle is 0.36 ulp at most.
#[inline(always)]
fn cos_of(s: f64) -> f64 {
    fma(fma(cos_ratio(s), s, -0.5), s, 1.0)
}

/// `value` with the sign that it has in quarter `q`, of which the last bit but one says whether it is the other one.
#[inline(always)]
fn turned(value: f64, q: u32) -> f64 {
    f64::from_bits(value.to_bits() ^ (u64::from(q & 2) << 62))
}

/// The sine of `more` quarter turns more than x.
#[inline(always)]
fn sin_of_sum(x: f64, more: u32) -> f64 {
    let Reduced { r, low, q } = reduce(x);
    let q = q.wrapping_add(more);
    let s = r * r;
    turned(select(q & 1 != 0, cos_of(s), sin_of(r, s, low)), q)
}

#[inline]
pub fn sin(x: f64) -> f64 {
    sin_of_sum(x, 0)
}

#[inline]
pub fn cos(x: f64) -> f64 {
    sin_of_sum(x, 1)
}

#[inline]
pub fn sin_cos(x: f64) -> (f64, f64) {
    let Reduced { r, low, q } = reduce(x);
    let s = r * r;
    let (sin, cos) = (sin_of(r, s, low), cos_of(s));
    let odd = q & 1 != 0;
    let (one, other) = (select(odd, cos, sin), select(odd, sin, cos));
    (turned(one, q), turned(other, q.wrapping_add(1)))
}

/// A quarter turn more is −1 / tan.
#[inline]
pub fn tan(x: f64) -> f64 {
    let Reduced { r, low, q } = reduce(x);
    let s = r * r;
    // With `low` the tangent grows by 1 + tan² of it.
    let rest = fma(tan_ratio(s), s * r, fma(low, s, low));
    let tan = r + rest;
    let tan_low = rest - (tan - r);
    let odd = q & 1 != 0;
    let t = select(odd, tan, 1.0);
    // −1 / (t + tan_low) by a step of the third order from that of the f32 next to t.
    let y = f64::from(single_recip(-t as f32));
    let error = fma(tan_low, y, fma(t, y, 1.0));
    let inverse = fma(y, fma(error, error, error), y);
    // As in `sin_of`.
    select(odd, inverse, tan.copysign(r))
}
