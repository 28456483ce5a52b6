// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inverse trigonometric functions of f32.
//!
//! Odd polynomials on [0, 1/2] (arc sine) and [0, 1] (arc tangent); other arguments are brought
//! there by asin x = π/2 − 2 asin √((1 − x) / 2) and atan x = π/2 − atan 1/x. Multiples of π/2 are
//! added as the product of two floats, which a fused multiply-add sees to 44 bits.

use super::super::machine::single::{self, fma};
use super::super::machine::{recip_of_normal, sqrt_of_normal};
use super::super::normal::select;

/// Two floats whose product is π/2 with an error of 6 · 10^-14.
const FRAC_PI_2_A: f32 = 1.110_095;
const FRAC_PI_2_B: f32 = 1.415_010_7;

/// k π/2 + x, rounded once, for k = 0, 1 or 2.
#[inline(always)]
fn add_quarter_turns(k: f32, x: f32) -> f32 {
    fma(k * FRAC_PI_2_A, FRAC_PI_2_B, x)
}

/// asin x for 0 ≤ x ≤ 1/2, where s = x².
#[inline(always)]
fn asin_polynomial(x: f32, s: f32) -> f32 {
    let mut p = 3.768_912e-2;
    p = fma(p, s, 1.431_823_7e-2);
    p = fma(p, s, 3.183_865_5e-2);
    p = fma(p, s, 4.451_339e-2);
    p = fma(p, s, 7.500_522e-2);
    p = fma(p, s, 1.666_666e-1);
    fma(p, s * x, x)
}

/// asin |x| for |x| ≤ 1/2, else asin √((1 − |x|) / 2), which is NaN for |x| > 1.
#[inline(always)]
fn half_range(x: f32) -> (f32, bool) {
    let a = x.abs();
    let far = a > 0.5;
    let half = fma(a, -0.5, 0.5);
    let root = sqrt_of_normal(half);
    let root = if half == 0.0 { 0.0 } else { root };
    let (v, s) = if far { (root, half) } else { (a, a * a) };
    (asin_polynomial(v, s), far)
}

#[inline]
pub fn asin(x: f32) -> f32 {
    let (p, far) = half_range(x);
    let folded = if far { add_quarter_turns(1.0, -2.0 * p) } else { p };
    folded.copysign(x)
}

#[inline]
pub fn acos(x: f32) -> f32 {
    let (p, far) = half_range(x);
    let (k, p) = if far {
        (if x < 0.0 { 2.0 } else { 0.0 }, 2.0 * p)
    } else {
        (1.0, -p)
    };
    // For x < 0 it is π less that of −x.
    let sign = x.to_bits() & f32::to_bits(-0.0);
    add_quarter_turns(k, f32::from_bits(p.to_bits() ^ sign))
}

/// atan v for 0 ≤ v ≤ 1.
#[inline(always)]
fn atan_polynomial(v: f32) -> f32 {
    let s = v * v;
    let mut p = -1.797_663_7e-3;
    p = fma(p, s, 1.092_499_4e-2);
    p = fma(p, s, -3.118_153_5e-2);
    p = fma(p, s, 5.794_47e-2);
    p = fma(p, s, -8.401_739e-2);
    p = fma(p, s, 1.095_131_7e-1);
    p = fma(p, s, -1.426_404_3e-1);
    p = fma(p, s, 1.999_853e-1);
    p = fma(p, s, -3.333_33e-1);
    fma(p, s * v, v)
}

#[inline]
pub fn atan(x: f32) -> f32 {
    // Its inverse is nothing against π/2.
    const LARGE: f32 = 18_446_744_073_709_551_616.0;
    let a = x.abs();
    let far = a > 1.0;
    let p = atan_polynomial(if far { recip_of_normal(a.min(LARGE)) } else { a });
    let folded = if far { add_quarter_turns(1.0, -p) } else { p };
    folded.copysign(x)
}

/// The angle of the point (x, y): the octant's arc tangent of a ratio ≤ 1, unfolded.
#[inline]
pub fn atan2(y: f32, x: f32) -> f32 {
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ay > ax;
    let (near, far) = if steep { (ax, ay) } else { (ay, ax) };
    // By a power of two, that of `far` is next to 1.
    let field = (far.to_bits() >> 23).clamp(1, 253);
    let scale = f32::from_bits((254 - field) << 23);
    // The ratio of the origin is 0: no other `far` is below 2^-23 then.
    let (n, d) = (near * scale, single::maximum_number(far * scale, f32::EPSILON));
    let inverse = recip_of_normal(d);
    let quotient = n * inverse;
    let ratio = fma(fma(-d, quotient, n), inverse, quotient);
    // Of points at infinity.
    let limit = select(near == far, 1.0, 0.0);
    let ratio = select(far == f32::INFINITY, limit, ratio);
    let left = x.is_sign_negative();
    let p = atan_polynomial(ratio);
    let k = match (steep, left) {
        (true, _) => 1.0,
        (false, true) => 2.0,
        (false, false) => 0.0,
    };
    let angle = add_quarter_turns(k, if steep != left { -p } else { p });
    select(x.is_nan() | y.is_nan(), f32::NAN, angle.copysign(y))
}
