// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hyperbolic and logistic functions of f64, from exponentials, as those of f32.

use super::super::machine::double::fma;
use super::exp::{exp, expm1, expm1_with_rest, half_exp};

/// With t = e^a − 1, which does not cancel, half of t + t / (t + 1); where t is so large that the quotient is 1 or less than an
/// ulp, e^a / 2, which does not overflow before sinh does.
#[inline]
pub fn sinh(x: f64) -> f64 {
    let a = x.abs();
    let (t, rest) = expm1_with_rest(a);
    let near = 0.5 * (t + (t / (t + 1.0) + 2.0 * rest));
    (if a < 40.0 { near } else { half_exp(a) }).copysign(x)
}

#[inline]
pub fn cosh(x: f64) -> f64 {
    let half = half_exp(x.abs());
    half + 0.25 / half
}

/// tanh a = 1 − y with y = 1 / (t + 1) and t = (e^2a − 1) / 2; the rounding of t + 1 and of y leaves `error` = 1 − y (t + 1), and y
/// lacks y · `error`: if a is small, that is all there is of tanh.
#[inline]
pub fn tanh(x: f64) -> f64 {
    let a = x.abs();
    // Above 20 it is 1.
    let t = 0.5 * expm1(2.0 * if a > 20.0 { 20.0 } else { a });
    let y = 1.0 / (t + 1.0);
    let rough = 1.0 - y;
    let error = fma(-y, t, rough);
    fma(-y, error, rough).copysign(x)
}

/// With e = e^−|x|, which does not overflow, 1 / (1 + e), and e times that for x < 0.
#[inline]
pub fn sigmoid(x: f64) -> f64 {
    let e = exp(-x.abs());
    let y = 1.0 / (1.0 + e);
    if x < 0.0 { e * y } else { y }
}
