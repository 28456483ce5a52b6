// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error function of f32 and its complement.
//!
//! erf is an odd polynomial up to 1 and 1 − e^−Q(x) beyond. erfc x is 1 − erf x up to 1/2 and
//! e^(−x²) P(q) / (x + 2) with q = (x − 2) / (x + 2) beyond, where the rounding error of x² is
//! carried into the exponential: the tail keeps its relative accuracy down to the subnormals.

use super::super::machine::recip_of_normal;
use super::super::machine::single::fma;
use super::exp::{exp, expm1_ratio, scale, split};

/// erf x for |x| ≤ 1.
#[inline(always)]
fn near(x: f32) -> f32 {
    let s = x * x;
    let mut p = 7.806_904e-5;
    p = fma(p, s, -7.997_853e-4);
    p = fma(p, s, 5.187_162e-3);
    p = fma(p, s, -2.685_334_7e-2);
    p = fma(p, s, 1.128_357_9e-1);
    p = fma(p, s, -3.761_262_6e-1);
    p = fma(p, s, 1.283_791_7e-1);
    fma(p, x, x)
}

#[inline]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let near = near(a);
    // From 4 on the result is 1 to the last bit.
    let a = if a > 4.0 { 4.0 } else { a };
    let mut q = -1.863_779_6e-4;
    q = fma(q, a, 2.947_641e-3);
    q = fma(q, a, -2.183_798_7e-2);
    q = fma(q, a, 1.031_066e-1);
    q = fma(q, a, 6.381_449_7e-1);
    q = fma(q, a, 1.127_089_1);
    q = fma(q, a, 3.415_239_3e-4);
    let far = 1.0 - exp(-q);
    (if a < 1.0 { near } else { far }).copysign(x)
}

/// erfc x for x ≥ 1/2.
#[inline(always)]
fn tail(x: f32) -> f32 {
    const P_0: f32 = 1.021_582_7;
    // From 10.1 on the result is 0.
    let x = if x > 10.5 { 10.5 } else { x };
    // 1 / (x + 2) as the sum of two floats, and q = 1 − 4 / (x + 2).
    let sum = x + 2.0;
    let rest = if x > 2.0 { 2.0 - (sum - x) } else { x - (sum - 2.0) };
    let t = recip_of_normal(sum);
    let t_low = t * fma(-t, rest, fma(-t, sum, 1.0));
    let q = fma(-4.0, t_low, fma(-4.0, t, 1.0));
    let mut p = -4.603_361_6e-4;
    p = fma(p, q, -8.126_69e-4);
    p = fma(p, q, 2.993_119_2e-3);
    p = fma(p, q, 6.476_155_5e-3);
    p = fma(p, q, -2.149_162e-2);
    p = fma(p, q, -3.644_231_7e-2);
    p = fma(p, q, 2.794_707e-1);
    p = fma(p, q, -6.871_607e-1);
    // The last term, and then the product with 1 / (x + 2), as sums of two floats too.
    let value = fma(p, q, P_0);
    let value_low = fma(p, q, P_0 - value);
    let w = value * t;
    let w_low = fma(value, t_low, fma(value_low, t, fma(value, t, -w)));
    let square = x * x;
    let square_low = fma(x, x, -square);
    let (r, n) = split(-square, 0.0);
    let r = r - square_low;
    scale(w + fma(w, expm1_ratio(r) * r, w_low), n)
}

#[inline]
pub fn erfc(x: f32) -> f32 {
    let far = tail(x.abs());
    if x.abs() < 0.5 || x.is_nan() {
        1.0 - near(x)
    } else if x < 0.0 {
        2.0 - far
    } else {
        far
    }
}
