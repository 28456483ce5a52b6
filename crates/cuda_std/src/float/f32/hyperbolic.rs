// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hyperbolic functions of f32: odd polynomials near zero, where the exponentials would cancel,
//! and exponentials elsewhere.

use super::super::machine::recip_of_normal;
use super::super::machine::single::fma;
use super::exp::{exp_scaled, exp2_polynomial, nearest};

/// 0.25 / h, that is e^−a / 2 for h = e^a / 2 and a ≥ 0; 2^-66 where it is less, and nothing against h.
#[inline(always)]
fn quarter_over(h: f32) -> f32 {
    const TWO_64: f32 = 18_446_744_073_709_551_616.0;
    0.25 * recip_of_normal(h.min(TWO_64))
}

#[inline]
pub fn sinh(x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    let mut p = 2.782_213_2e-6;
    p = fma(p, s, 1.984_289_6e-4);
    p = fma(p, s, 8.333_310_5e-3);
    p = fma(p, s, 1.666_666_7e-1);
    let near = fma(p, s * a, a);
    // e^a / 2 does not overflow before sinh does.
    let half = exp_scaled(a, -1);
    let far = half - quarter_over(half);
    (if a < 1.0 { near } else { far }).copysign(x)
}

#[inline]
pub fn cosh(x: f32) -> f32 {
    let half = exp_scaled(x.abs(), -1);
    half + quarter_over(half)
}

/// e^2a for a ≥ 0, as exactly as tanh wants it: above 10, where tanh is 1, as for 10; NaN for NaN.
#[inline(always)]
fn exp_of_twice(a: f32) -> f32 {
    const SCALE: f32 = 2.0 * core::f32::consts::LOG2_E;
    let a = if a > 10.0 { 10.0 } else { a };
    let (n, i) = nearest(a, SCALE);
    exp2_polynomial(fma(a, SCALE, -n)) * f32::from_bits((i.wrapping_add(127) as u32) << 23)
}

/// tanh a = 1 − 2 / (e^2a + 1) for large a.
#[inline]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    let mut p = -6.242_849_4e-3;
    p = fma(p, s, 2.105_071_4e-2);
    p = fma(p, s, -5.384_754_8e-2);
    p = fma(p, s, 1.333_254_4e-1);
    p = fma(p, s, -3.333_331_6e-1);
    let near = fma(p, s * a, a);
    let far = fma(-2.0, 1.0 / (exp_of_twice(a) + 1.0), 1.0);
    (if a < 0.55 { near } else { far }).copysign(x)
}
