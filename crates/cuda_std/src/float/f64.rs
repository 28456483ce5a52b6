// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Float`] for f64: the hardware's own operations; exponentials but for `exp2`, hyperbolic and trigonometric functions of
//! our own, which have no branch where arguments are usual; of the others those of the crate `libm`, on both machines.

use super::machine::double as machine;
use super::remainder::double as fmod;
use super::{Float, Sealed};

mod exp;
mod hyperbolic;
mod trig;

use libm::{atan2, hypot, pow as powf};
use trig::sin_cos;

/// Every i32 is an f64, so that this is one correctly handled power.
#[inline]
fn powi(x: f64, n: i32) -> f64 {
    libm::pow(x, f64::from(n))
}

#[inline]
fn rsqrt(x: f64) -> f64 {
    1.0 / machine::sqrt(x)
}

impl_float! { f64, machine machine,
    rsqrt => rsqrt,
    cbrt => libm::cbrt,
    exp => exp::exp,
    exp2 => libm::exp2,
    expm1 => exp::expm1,
    ln => libm::log,
    log2 => libm::log2,
    log10 => libm::log10,
    ln_1p => libm::log1p,
    sin => trig::sin,
    cos => trig::cos,
    tan => trig::tan,
    asin => libm::asin,
    acos => libm::acos,
    atan => libm::atan,
    sinh => hyperbolic::sinh,
    cosh => hyperbolic::cosh,
    tanh => hyperbolic::tanh,
    sigmoid => hyperbolic::sigmoid,
    erf => libm::erf,
    erfc => libm::erfc,
}
