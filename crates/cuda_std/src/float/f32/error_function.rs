// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error function of f32 and its complement.
//!
//! erf is an odd polynomial up to 1 and 1 − 2^−Q(x) beyond. erfc x is e^(−x²) P(q) / (x + 3) with
//! q = (x − 3) / (x + 3), where the rounding error of x² is carried into the exponential: the tail
//! keeps its relative accuracy down to the subnormals.

use super::super::machine::recip_of_normal;
use super::super::machine::single::fma;
use super::super::normal::select;
use super::exp::{ROUNDER, exp2_polynomial, expm1_ratio, scale_down, split_negative};

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

/// P(a) of −log2 (1 − erf a) = a P(a) + [`EXPONENT_0`] for 1 ≤ a ≤ 4, with an error that is 2^-29.8 of erf a in the result.
#[inline(always)]
fn far_exponent(a: f32) -> f32 {
    let mut p = -2.688_852_8e-4;
    p = fma(p, a, 4.252_542e-3);
    p = fma(p, a, -3.150_555_5e-2);
    p = fma(p, a, 1.487_514_2e-1);
    p = fma(p, a, 9.206_485e-1);
    fma(p, a, 1.626_046)
}
const EXPONENT_0: f32 = 4.927_114e-4;

#[inline]
pub fn erf(x: f32) -> f32 {
    // With the exponent of the power in its lowest bits.
    const SHIFTER: f32 = ROUNDER + 127.0;
    let a = x.abs();
    // 1 − 2^(f + n), where the rounding error of the sum f + n is none of f's. From 4 on the result is 1 to the last bit.
    let limited = a.min(4.0);
    let p = far_exponent(limited);
    let shifted = SHIFTER - fma(p, limited, EXPONENT_0);
    let n = shifted - SHIFTER;
    let f = -fma(p, limited, EXPONENT_0 + n);
    let power = f32::from_bits(shifted.to_bits() << 23);
    let far = fma(-exp2_polynomial(f), power, 1.0).copysign(x);
    select(a >= 1.0, far, near(x))
}

/// erfc a for a ≥ 0.
#[inline(always)]
fn tail(a: f32) -> f32 {
    const P_0: f32 = 1.074_006_9;
    // From 10.1 on the result is 0.
    let a = if a > 10.5 { 10.5 } else { a };
    // 1 / (a + 3) as the sum of two floats, and q = 1 − 6 / (a + 3).
    let sum = a + 3.0;
    let t = recip_of_normal(sum);
    let t_low = t * fma(-t, a - (sum - 3.0), fma(-t, sum, 1.0));
    let q = fma(-6.0, t_low, fma(-6.0, t, 1.0));
    let mut p = -3.253_344_3e-4;
    p = fma(p, q, -4.831_778_6e-4);
    p = fma(p, q, 3.080_329_2e-3);
    p = fma(p, q, -1.226_429_8e-3);
    p = fma(p, q, -2.683_982_6e-2);
    p = fma(p, q, 1.195_290_7e-1);
    p = fma(p, q, -3.104_660_2e-1);
    p = fma(p, q, 5.902_283e-1);
    p = fma(p, q, -8.833_945e-1);
    // The last term, and then the product with 1 / (a + 3), as sums of two floats too.
    let value = fma(p, q, P_0);
    let value_low = fma(p, q, P_0 - value);
    let w = value * t;
    let w_low = fma(value, t_low, fma(value_low, t, fma(value, t, -w)));
    let square = a * a;
    let (r, n) = split_negative(-square);
    let r = r - fma(a, a, -square);
    scale_down(w + fma(w, expm1_ratio(r) * r, w_low), n)
}

#[inline]
pub fn erfc(x: f32) -> f32 {
    // Next to 0, where the result is 1, the tail is off by an ulp.
    const LEAST: f32 = 2.980_232_2e-8;
    let far = select(x.abs() < LEAST, 1.0, tail(x.abs()));
    select(x < 0.0, 2.0 - far, far)
}
