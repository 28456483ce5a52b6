// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random f64: as those of f32, to the accuracy of f64.

use super::join;
use crate::float::machine::double::{fma, sqrt};

/// A random number of [0, 1), of two random words: a multiple of 2^-53, each as likely as the others.
///
/// ```
/// use cuda_std::random::uniform_f64;
///
/// assert_eq!(uniform_f64([0, 0]), 0.0);
/// assert_eq!(uniform_f64([u32::MAX; 2]), 1.0 - f64::EPSILON / 2.0);
/// ```
#[inline(always)]
pub const fn uniform_f64(words: [u32; 2]) -> f64 {
    (join(words) >> 11) as f64 * (f64::EPSILON / 2.0)
}

/// Two independent random numbers of the normal distribution, of four random words.
///
/// As [`normal_f32`](super::normal_f32), with 64 bits each for the radius and the angle, where u has 53: no number is
/// further from the mean than 9.5 standard deviations, and each differs from what exact arithmetic makes of u and the
/// angle by less than 2^-50 of the radius, times `standard_deviation`, and by the roundings that this and the mean bring.
///
/// ```
/// use cuda_std::random::{Philox4x32, normal_f64};
///
/// let [x, y] = normal_f64(Philox4x32::new(7).block(0), 10.0, 0.5);
/// assert!((5.0..15.0).contains(&x) && (5.0..15.0).contains(&y));
/// ```
#[inline(always)]
pub fn normal_f64(words: [u32; 4], mean: f64, standard_deviation: f64) -> [f64; 2] {
    let radius = sqrt(square_of_radius(join([words[0], words[1]]))) * standard_deviation;
    let [cos, sin] = direction(join([words[2], words[3]]));
    [fma(radius, cos, mean), fma(radius, sin, mean)]
}

/// The bits of 2/3 · 2^64: the exponent field of (bits − these) counts powers of two from [2/3, 4/3) · 2^64.
const TWO_THIRDS: u64 = 0x3fe5_5555_5555_5555 + (64 << 52);
const EXPONENT: u64 = 0xfff0_0000_0000_0000;
/// −2 ln 2 · 2^-20, which turns the upper word of an exponent field into its part of −2 ln.
const PER_FIELD: f64 = -2.0 * core::f64::consts::LN_2 / 1_048_576.0;

/// The coefficients of −2 ln(1 + f) / f for f in [−1/3, 1/3], within 2^-55.6: the highest first.
const LOG: [f64; 21] = [
    -0.17015308255145345,
    0.17392456769228207,
    -0.08341703100367207,
    0.09068260787592494,
    -0.1210576839252133,
    0.12800248535701908,
    -0.13301005545359565,
    0.14259199373239118,
    -0.1538655833949619,
    0.166681299171575,
    -0.1818174394379469,
    0.1999994970813067,
    -0.22222223971452873,
    0.25000001034189306,
    -0.2857142854777162,
    0.3333333332169517,
    -0.4000000000015859,
    0.5000000000005969,
    -0.666666666666663,
    0.9999999999999991,
    -2.0,
];

/// Those of cos(π/2 √s) for s in [0, 1], within 2^-57.3.
const COS: [f64; 9] = [
    6.332013622928058e-11,
    -6.382248916379215e-9,
    4.7108309942977655e-7,
    -2.5202039808424532e-5,
    0.0009192602739594559,
    -0.02086348076318458,
    0.2536695079010322,
    -1.2337005501361693,
    1.0,
];

/// Those of sin(π/2 √s) / √s for s in [0, 1], within 2^-53.8.
const SIN: [f64; 9] = [
    5.639248081362347e-12,
    -6.674482616784252e-10,
    5.6919625615200214e-8,
    -3.5988414057706474e-6,
    0.0001604411838590013,
    -0.004681754135047954,
    0.07969262624612485,
    -0.6459640975062433,
    core::f64::consts::FRAC_PI_2,
];

#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut value = coefficients[0];
    let mut k = 1;
    while k < N {
        value = fma(value, x, coefficients[k]);
        k += 1;
    }
    value
}

/// −2 ln((word + ½) 2^-64)
#[inline(always)]
fn square_of_radius(word: u64) -> f64 {
    let bits = (word as f64 + 0.5).to_bits();
    let field = bits.wrapping_sub(TWO_THIRDS) & EXPONENT;
    // u = 2^e (1 + f), with e 2^52 as the field and f in [−1/3, 1/3).
    let f = fma(f64::from_bits(bits.wrapping_sub(field)), 5.421010862427522e-20, -1.0);
    let exponent = (field >> 32) as i32 as f64;
    fma(exponent, PER_FIELD, polynomial(&LOG, f) * f)
}

/// Cosine and sine of an angle that is as random as the word.
#[inline(always)]
fn direction(word: u64) -> [f64; 2] {
    let x = word as i64 as f64 * 1.0842021724855044e-19;
    let s = x * x;
    let (cos, sin) = (polynomial(&COS, s), polynomial(&SIN, s));
    [f64::from_bits(cos.to_bits() ^ word << 63), sin * x]
}
