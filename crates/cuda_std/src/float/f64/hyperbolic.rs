// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hyperbolic and logistic functions of f64, from exponentials, as those of f32.

use super::super::machine::double::fma;
use super::super::normal::{magnitude, quotient_of_normal, recip_of_normal, upper, with_upper};
use super::exp::{Expm1, exp, half_exp};

/// With t = e^a − 1, which does not cancel, half of t + t / (t + 1).
#[inline]
pub fn sinh(x: f64) -> f64 {
    // The upper word of 700, up to which t + 1 is of moderate size.
    const FAR: u32 = 0x4085_e000;
    let Expm1 { value: t, rest, .. } = Expm1::new(x.abs());
    // Where t is out of the range of a quotient it is nothing beside 1, and all steps are exact.
    let sinh = 0.5 * (t + (quotient_of_normal(t, t + 1.0) + 2.0 * rest));
    let sinh = if magnitude(x) >= FAR { half_exp(x.abs()) } else { sinh };
    sinh.copysign(x)
}

#[inline]
pub fn cosh(x: f64) -> f64 {
    // The upper word of 2^500, whose inverse is nothing against it.
    const MOST: u32 = 0x5f30_0000;
    let half = half_exp(x.abs());
    half + 0.25 * recip_of_normal(with_upper(half, upper(half).min(MOST)))
}

/// tanh a = 1 − y with y = 1 / (t + 1) and t = (e^2a − 1) / 2; the rounding of t + 1 and of y leaves `error` = 1 − y (t + 1), and y
/// lacks y · `error`: if a is small, that is all there is of tanh.
#[inline]
pub fn tanh(x: f64) -> f64 {
    let a = x.abs();
    // Above 20 it is 1.
    let t = 0.5 * Expm1::new(2.0 * if a > 20.0 { 20.0 } else { a }).value;
    let y = recip_of_normal(t + 1.0);
    let rough = 1.0 - y;
    let error = fma(-y, t, rough);
    fma(-y, error, rough).copysign(x)
}

/// With e = e^−|x|, which does not overflow, 1 / (1 + e), and e times that for x < 0.
#[inline]
pub fn sigmoid(x: f64) -> f64 {
    let e = exp(-x.abs());
    let y = recip_of_normal(1.0 + e);
    if x < 0.0 { e * y } else { y }
}
