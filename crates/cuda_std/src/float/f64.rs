// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Float`] for f64: the hardware's own operations, and functions of our own, which have no branch where arguments are usual.

use super::machine::double as machine;
use super::remainder::double as fmod;
use super::{Float, Sealed};

mod error_function;
mod exp;
mod hyperbolic;
mod inverse_trig;
mod log;
mod power;
mod roots;
mod trig;

use inverse_trig::atan2;
use power::powf;
use roots::hypot;
use trig::sin_cos;

/// Every i32 is an f64, so that this is one correctly handled power.
#[inline]
fn powi(x: f64, n: i32) -> f64 {
    powf(x, f64::from(n))
}

impl_float! { f64, machine machine,
    rsqrt => roots::rsqrt,
    cbrt => roots::cbrt,
    exp => exp::exp,
    exp2 => exp::exp2,
    expm1 => exp::expm1,
    ln => log::ln,
    log2 => log::log2,
    log10 => log::log10,
    ln_1p => log::ln_1p,
    sin => trig::sin,
    cos => trig::cos,
    tan => trig::tan,
    asin => inverse_trig::asin,
    acos => inverse_trig::acos,
    atan => inverse_trig::atan,
    sinh => hyperbolic::sinh,
    cosh => hyperbolic::cosh,
    tanh => hyperbolic::tanh,
    sigmoid => hyperbolic::sigmoid,
    erf => error_function::erf,
    erfc => error_function::erfc,
}
