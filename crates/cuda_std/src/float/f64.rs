// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Float`] for f64: the functions of the crate `libm`, on both machines, and the hardware's
//! own operations.

use super::machine::double as machine;
use super::{Float, Sealed};
use libm::{atan2, hypot, pow as powf, sincos as sin_cos};

/// Every i32 is an f64, so that this is one correctly handled power.
#[inline]
fn powi(x: f64, n: i32) -> f64 {
    libm::pow(x, f64::from(n))
}

impl_float! { f64, machine machine,
    cbrt => libm::cbrt,
    exp => libm::exp,
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
    erf => libm::erf,
    erfc => libm::erfc,
}
