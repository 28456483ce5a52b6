// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Float`] for f64: the functions of the crate `libm`, on both machines, but for `exp`, which is
//! our own, and the hardware's own operations.

use super::machine::double as machine;
use super::remainder::double as fmod;
use super::{Float, Sealed};

mod exp;

use libm::{atan2, hypot, pow as powf, sincos as sin_cos};

/// Every i32 is an f64, so that this is one correctly handled power.
#[inline]
fn powi(x: f64, n: i32) -> f64 {
    libm::pow(x, f64::from(n))
}

#[inline]
fn rsqrt(x: f64) -> f64 {
    1.0 / machine::sqrt(x)
}

/// As that of f32.
#[inline]
fn sigmoid(x: f64) -> f64 {
    let e = exp::exp(-x.abs());
    let y = 1.0 / (1.0 + e);
    if x < 0.0 { e * y } else { y }
}

impl_float! { f64, machine machine,
    rsqrt => rsqrt,
    cbrt => libm::cbrt,
    exp => exp::exp,
    exp2 => libm::exp2,
    expm1 => libm::expm1,
    ln => libm::log,
    log2 => libm::log2,
    log10 => libm::log10,
    ln_1p => libm::log1p,
    sin => libm::sin,
    cos => libm::cos,
    tan => libm::tan,
    asin => libm::asin,
    acos => libm::acos,
    atan => libm::atan,
    sinh => libm::sinh,
    cosh => libm::cosh,
    tanh => libm::tanh,
    sigmoid => sigmoid,
    erf => libm::erf,
    erfc => libm::erfc,
}
