// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Float`] for f32: our own functions, in f32 arithmetic with fused multiply-add.
//!
//! f64 is 32 or 64 times slower than f32 on most GPUs, so nothing here falls back on it but the
//! reduction of angles above 10^5. Each function is short and nearly free of branches, because the
//! threads of a warp execute both sides of a branch on which they disagree. The polynomials are
//! near-minimax fits whose coefficients were rounded to f32 one after another, the rest refitted
//! each time.

use super::machine::single as machine;
use super::remainder::single as fmod;
use super::{Float, Sealed};

mod error_function;
pub(super) mod exp;
mod hyperbolic;
mod inverse_trig;
pub(super) mod log;
pub(super) mod power;
pub(super) mod trig;

use inverse_trig::atan2;
use power::{hypot, powf, powi};
use trig::sin_cos;

impl_float! { f32, machine machine,
    rsqrt => power::rsqrt,
    cbrt => power::cbrt,
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
