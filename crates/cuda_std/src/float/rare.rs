// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of `f32` that have a branch for the few arguments which take more: the results of [`Float`](super::Float)'s
//! functions of the same names, bit by bit.
//!
//! A branch keeps the elements of a thread apart, so `Float`'s functions have instructions for such arguments among the others
//! where they can. An expression's kernel asks once for all elements of a thread, and then these are shorter: 7 instructions
//! in place of 10 for a root, 18 in place of 22 for a logarithm.

use super::f32::log;
use super::machine::{single, sqrt_of_normal};

/// √x, correctly rounded. −0 for −0, NaN for x < 0.
///
/// ```
/// use cuda_std::float::rare;
///
/// assert_eq!([rare::sqrt(2.25), rare::sqrt(f32::INFINITY)], [1.5, f32::INFINITY]);
/// ```
#[inline]
pub fn sqrt(x: f32) -> f32 {
    // The bits of 2^-101, and how many floats there are from it to the largest one.
    const LEAST: u32 = 0x0d00_0000;
    const COUNT: u32 = 0x7f80_0000 - LEAST;
    if x.to_bits().wrapping_sub(LEAST) >= COUNT {
        return any_sqrt(x);
    }
    sqrt_of_normal(x)
}

/// The natural logarithm, within 1 ulp. −∞ for ±0, NaN for x < 0.
///
/// ```
/// use cuda_std::float::rare;
///
/// assert_eq!([rare::ln(1.0), rare::ln(0.0)], [0.0, f32::NEG_INFINITY]);
/// ```
#[inline]
pub fn ln(x: f32) -> f32 {
    const LEAST: u32 = f32::MIN_POSITIVE.to_bits();
    const COUNT: u32 = 0x7f80_0000 - LEAST;
    if x.to_bits().wrapping_sub(LEAST) >= COUNT {
        return any_ln(x);
    }
    log::ln_of_normal(x)
}

#[cold]
#[inline(never)]
fn any_sqrt(x: f32) -> f32 {
    single::sqrt(x)
}

#[cold]
#[inline(never)]
fn any_ln(x: f32) -> f32 {
    log::ln(x)
}
