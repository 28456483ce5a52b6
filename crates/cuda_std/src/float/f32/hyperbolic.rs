// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hyperbolic and logistic functions of f32, from exponentials. Near zero, where those would cancel, sinh is an odd
//! polynomial, and tanh takes e^x − 1.

use super::super::machine::recip_of_normal;
use super::super::machine::single::fma;
use super::super::normal::select;
use super::exp::{exp_of_negative, nearest, quarter_exp};

/// 0.125 / q, that is e^−a / 2 for q = e^a / 4 and a ≥ 0; 2^-66 where it is less, and nothing against q.
#[inline(always)]
fn eighth_over(q: f32) -> f32 {
    const TWO_63: f32 = 9_223_372_036_854_775_808.0;
    0.125 * recip_of_normal(q.min(TWO_63))
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
    let quarter = quarter_exp(a);
    let far = fma(quarter, 2.0, -eighth_over(quarter));
    select(a < 1.0, near, far).copysign(x)
}

#[inline]
pub fn cosh(x: f32) -> f32 {
    let quarter = quarter_exp(x.abs());
    fma(quarter, 2.0, eighth_over(quarter))
}

/// (e^2a − 1) / 2 for a ≥ 0: above 10, where tanh is 1, as for 10; NaN for NaN.
///
/// With a = n ln(2) / 2 + r, it is 2^n q + (2^n − 1) / 2 where q = (e^2r − 1) / 2; for small a, n is 0, r is a, and
/// nothing cancels. (q − r) / r² is a polynomial, fitted to an error of 0.15 ulp of tanh; its constant is exactly 1,
/// since with any more the results of small powers of two would be rounded up.
#[inline(always)]
fn half_expm1_of_twice(a: f32) -> f32 {
    const SCALE: f32 = 2.0 * core::f32::consts::LOG2_E;
    const STEP: f32 = 0.5 * core::f32::consts::LN_2;
    let a = if a > 10.0 { 10.0 } else { a };
    let (n, i) = nearest(a, SCALE);
    let r = fma(n, -STEP, a);
    let mut p = 4.435_532e-2;
    p = fma(p, r, 1.338_542_5e-1);
    p = fma(p, r, 3.333_38e-1);
    p = fma(p, r, 6.666_620_4e-1);
    p = fma(p, r, 1.0);
    let q = fma(p, r * r, r);
    let power = f32::from_bits((i.wrapping_add(127) as u32) << 23);
    fma(q, power, fma(power, 0.5, -0.5))
}

/// tanh a = 1 − y with y = 1 / (t + 1) and t = (e^2a − 1) / 2.
///
/// One formula for all x, without a branch. The rounding of t + 1 and of y leaves `error` = 1 − y (t + 1), and y lacks
/// y · `error`: if a is small, that is all there is of tanh.
#[inline]
pub fn tanh(x: f32) -> f32 {
    let t = half_expm1_of_twice(x.abs());
    let y = recip_of_normal(t + 1.0);
    let rough = 1.0 - y;
    let error = fma(-y, t, rough);
    fma(-y, error, rough).copysign(x)
}

/// With e = e^−|x|, which does not overflow, 1 / (1 + e), and e times that for x < 0.
#[inline]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp_of_negative(-x.abs());
    let y = recip_of_normal(1.0 + e);
    if x < 0.0 { e * y } else { y }
}
