// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that networks put between products.
//!
//! Of `f32`, by the special function units: an element takes some ten to twenty instructions, where [`Float`]'s functions
//! take several times as many. Of `f64`, by polynomials without a table or a branch. Integers have `max(x, 0)` alone.

use cuda_std::float::approximate;
use cuda_std::{Float, KernelParam};

use crate::num::Num;

/// A function that the library's kernels have, by its number; any other number is [`IDENTITY`](Self::IDENTITY).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam)]
pub struct Activation(u32);

impl Activation {
    /// `x`
    pub const IDENTITY: Self = Self(0);
    /// `max(x, 0)`
    pub const RELU: Self = Self(1);
    /// `x Φ(x)`, with the distribution function of the normal distribution.
    pub const GELU: Self = Self(2);
    /// `x / 2 (1 + tanh(√(2/π) (x + 0.044715 x³)))`
    pub const GELU_TANH: Self = Self(3);
    /// `x / (1 + e^−x)`
    pub const SILU: Self = Self(4);
}

/// A number that epilogues are computed in: `f32`, `f64` or `i32`.
pub trait Activate: Num<Wide = Self> {
    /// The function of each value. All threads of a launch take the same branch.
    fn activate<const N: usize>(activation: Activation, values: [Self; N]) -> [Self; N];
}

impl Activate for f32 {
    #[inline(always)]
    fn activate<const N: usize>(activation: Activation, values: [f32; N]) -> [f32; N] {
        match activation {
            Activation::RELU => cuda_std::array::map(values, relu),
            Activation::GELU => cuda_std::array::map(values, |x| gated(x, 96.0, normal_tail)),
            Activation::GELU_TANH => cuda_std::array::map(values, |x| logistic_gated(x, tanh_exponent(x))),
            Activation::SILU => cuda_std::array::map(values, |x| logistic_gated(x, -core::f32::consts::LOG2_E * x)),
            _ => values,
        }
    }
}

impl Activate for f64 {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn activate<const N: usize>(activation: Activation, values: [f64; N]) -> [f64; N] {
        match activation {
            Activation::RELU => cuda_std::array::map(values, relu),
            Activation::GELU => cuda_std::array::map(values, |x| gated(x, 800.0, double_normal_tail)),
            Activation::GELU_TANH => cuda_std::array::map(values, |x| {
                gated(x, 800.0, |a| {
                    double_logistic(a * Float::mul_add(0.044715, a * a, 1.0) * -TWICE_ROOT)
                })
            }),
            Activation::SILU => cuda_std::array::map(values, |x| gated(x, 800.0, |a| double_logistic(-a))),
            _ => values,
        }
    }
}

impl Activate for i32 {
    #[inline(always)]
    fn activate<const N: usize>(activation: Activation, values: [i32; N]) -> [i32; N] {
        match activation {
            Activation::RELU => cuda_std::array::map(values, relu),
            _ => values,
        }
    }
}

/// `max(x, 0)`; NaN stays NaN, and of −0 and 0, 0 is the larger one, as everywhere.
#[inline(always)]
fn relu<T: Num>(x: T) -> T {
    if x <= T::ZERO { T::ZERO } else { x }
}

/// `x g(x)` for a `g` with `g(x) + g(−x) = 1`, by `tail(a) = g(−a)` for `a ≥ 0`: `max(x, 0) − |x| tail(|x|)`.
///
/// So what is left of a negative number keeps its relative precision, which `1 − …` would cost it. From `end` on, where each
/// of the tails is 0, `a` is `end`: the limits at the infinities are those of the function.
#[inline(always)]
fn gated<T: Float + Num>(x: T, end: T, tail: impl Fn(T) -> T) -> T {
    let a = Float::minimum_number(Float::abs(x), end);
    // Of −0 it is −0, and so is the result.
    let positive = if x < T::ZERO { T::ZERO } else { x };
    Float::mul_add(Num::neg(a), tail(a), positive)
}

/// `x / (1 + 2^y)` for a `y` that falls as `x` grows, from ∞ to −∞: off by at most `3 · 2⁻²³` of it, and `|y| 2⁻²²` more where it is
/// negative.
#[inline(always)]
fn logistic_gated(x: f32, y: f32) -> f32 {
    let gate = approximate::recip(1.0 + approximate::exp2(y));
    // The gate of −∞ is 0, and their product is to be. NaN is one in the gate.
    Float::maximum_number(x, -96.0) * gate
}

/// `−2u log₂ e` with `u = √(2/π) (x + 0.044715 x³)`: `(1 + tanh u) / 2 = 1 / (1 + e^−2u)`.
#[inline(always)]
fn tanh_exponent(x: f32) -> f32 {
    // −2 √(2/π) log₂ e, and 0.044715 of it.
    const FIRST: f32 = -2.302_208_2;
    const THIRD: f32 = -0.102_943_24;
    x * Float::mul_add(THIRD, x * x, FIRST)
}

/// `Φ(−a) = erfc(a / √2) / 2`, as `e^(−a²/2) t P(t)` with `t = 1 / (a + 3)`: the polynomial is fitted so that `a Φ(−a)` is off
/// by 3 · 10⁻⁸ at most, and by 10⁻⁵ of it where that is less.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn normal_tail(a: f32) -> f32 {
    const HALF_LOG2_E: f32 = 0.5 * core::f32::consts::LOG2_E;
    let t = approximate::recip(a + 3.0);
    let mut p = 85.198_87;
    p = Float::mul_add(p, t, -137.167_85);
    p = Float::mul_add(p, t, 64.592_22);
    p = Float::mul_add(p, t, -2.621_828);
    p = Float::mul_add(p, t, 4.192_698);
    p = Float::mul_add(p, t, 1.144_104_6);
    p = Float::mul_add(p, t, 0.400_048_67);
    p * t * approximate::exp2(-HALF_LOG2_E * (a * a))
}

/// 2 √(2/π)
const TWICE_ROOT: f64 = 1.595_769_121_605_731;

/// `e^y / (1 + e^y)` for `y ≤ 0`.
#[inline(always)]
fn double_logistic(y: f64) -> f64 {
    let power = exp(y);
    power / (1.0 + power)
}

/// `e^y` for `y ≤ 0`, off by 2 · 2⁻⁵³ of it at most; 0 where it would be subnormal.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn exp(y: f64) -> f64 {
    // The reciprocals of the factorials, from 13 down: what is left out is 4 · 10⁻¹⁸ at most.
    const COEFFICIENTS: [f64; 14] = [
        1.605_904_383_682_161_3e-10,
        2.087_675_698_786_81e-9,
        2.505_210_838_544_172e-8,
        2.755_731_922_398_589e-7,
        2.755_731_922_398_589_4e-6,
        2.480_158_730_158_73e-5,
        1.984_126_984_126_984e-4,
        1.388_888_888_888_889e-3,
        8.333_333_333_333_333e-3,
        4.166_666_666_666_666_4e-2,
        1.666_666_666_666_666_6e-1,
        0.5,
        1.0,
        1.0,
    ];
    // ln 2 in two parts, of which the first has zeros at its end.
    const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    let y = Float::maximum_number(y, -1000.0);
    // The nearest integer, in the last bits of a sum with 3 · 2⁵¹.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let sum = Float::mul_add(y, core::f64::consts::LOG2_E, MAGIC);
    let whole = sum - MAGIC;
    let rest = Float::mul_add(-whole, LN_2[1], Float::mul_add(-whole, LN_2[0], y));
    let exponent = sum.to_bits() as i32 + 1023;
    let power = f64::from_bits((Ord::max(exponent, 0) as u64) << 52);
    power * polynomial(COEFFICIENTS, rest)
}

/// The polynomial with these coefficients, of which the last is the constant.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: [f64; N], x: f64) -> f64 {
    let mut value = coefficients[0];
    for i in 1..N {
        value = Float::mul_add(value, x, coefficients[i]);
    }
    value
}

/// `Φ(−a) = erfc(a / √2) / 2`, as `e^(−a²/2) P(t) / (a + 2)` with `t = (a − 5) / (a + 5)`, off by 8 · 2⁻⁵³ of it at most. The
/// polynomial is the Chebyshev series of `Φ(−a) e^(a²/2) (a + 2)` in `t`, up to `t²³`: what is left out is 6 · 10⁻¹⁸ (M.
/// Shepherd, J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞", 1981).
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn double_normal_tail(a: f64) -> f64 {
    const COEFFICIENTS: [f64; 24] = [
        -3.194_664_882_727_39e-10,
        -4.080_172_567_609_154_5e-10,
        3.618_713_698_576_899_6e-9,
        5.039_300_432_935_236e-9,
        -2.494_922_501_204_277e-8,
        -3.656_887_644_698_307e-8,
        1.568_514_365_424_983e-7,
        2.042_778_270_785_466_7e-7,
        -1.063_972_129_973_595_5e-6,
        -7.449_795_310_445_511e-7,
        7.789_708_889_399_783e-6,
        -3.251_860_139_478_487_6e-6,
        -5.264_626_781_729_903e-5,
        1.219_067_117_538_844_1e-4,
        1.420_684_401_503_949_7e-4,
        -1.456_521_615_352_734_8e-3,
        4.143_156_311_093_302e-3,
        -6.179_044_851_077_638e-3,
        1.123_062_755_991_084_8e-3,
        2.145_430_931_781_756_5e-2,
        -7.088_152_487_889_832e-2,
        1.470_991_803_119_679_2e-1,
        -2.350_098_370_980_21e-1,
        5.384_351_348_250_44e-1,
    ];
    // One division for both.
    let r = 1.0 / ((a + 5.0) * (a + 2.0));
    let p = polynomial(COEFFICIENTS, (a - 5.0) * (a + 2.0) * r);
    // What the square is rounded by is some of it where it is large.
    let square = a * a;
    let rounded = Float::mul_add(a, a, -square);
    let power = exp(-0.5 * square);
    p * (a + 5.0) * r * Float::mul_add(-0.5 * rounded, power, power)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The function of one value.
    fn of<T: Activate>(activation: Activation, x: T) -> T {
        let [value] = T::activate(activation, [x]);
        value
    }

    /// Each function in f64, with the relative precision of `erfc`, `exp` and `tanh`.
    fn exact(activation: Activation, x: f64) -> f64 {
        let cubic = x + 0.044715 * x * x * x;
        let gate = match activation {
            Activation::RELU => f64::from(x > 0.0),
            Activation::GELU => 0.5 * Float::erfc(-x * core::f64::consts::FRAC_1_SQRT_2),
            Activation::GELU_TANH => 1.0 / (1.0 + (-TWICE_ROOT * cubic).exp()),
            Activation::SILU => 1.0 / (1.0 + (-x).exp()),
            _ => 1.0,
        };
        x * gate
    }

    const ALL: [Activation; 5] = [
        Activation::IDENTITY,
        Activation::RELU,
        Activation::GELU,
        Activation::GELU_TANH,
        Activation::SILU,
    ];

    #[test]
    fn functions_are_within_their_bounds() {
        for activation in ALL {
            for i in -40_000..40_000 {
                let x = f64::from(i) * 1e-3 + 1e-5;
                let wanted = exact(activation, x);
                // The power's exponent is rounded up to four times, in `exact` as well: each is an error of 2⁻⁵³ of it.
                let exponent = match activation {
                    Activation::GELU => x * x / 2.0,
                    Activation::GELU_TANH => TWICE_ROOT * (x + 0.044715 * x * x * x).abs(),
                    _ => x.abs(),
                };
                let bound = (16.0 + 8.0 * exponent) * 2f64.powi(-53) * wanted.abs() + 1e-300;
                let error = (of(activation, x) - wanted).abs();
                assert!(error <= bound, "{activation:?}({x}) in f64: {error:e}, bound {bound:e}");
                let x = x as f32;
                let wanted = exact(activation, x.into());
                let bound = (1e-7f64).min(3e-5 * wanted.abs()) + 3.0 * 2f64.powi(-23) * wanted.abs() + 1e-36;
                let error = (f64::from(of(activation, x)) - wanted).abs();
                assert!(error <= bound, "{activation:?}({x}) in f32: {error:e}, bound {bound:e}");
            }
        }
    }

    #[test]
    fn limits_and_nan() {
        for activation in ALL {
            let at_minus_infinity = if activation == Activation::IDENTITY {
                f64::NEG_INFINITY
            } else {
                0.0
            };
            for (x, wanted) in [
                (f64::INFINITY, f64::INFINITY),
                (f64::NEG_INFINITY, at_minus_infinity),
                (0.0, 0.0),
                (1e30, 1e30),
            ] {
                assert_eq!(of(activation, x), wanted, "{activation:?}({x})");
                assert_eq!(of(activation, x as f32), wanted as f32, "{activation:?}({x})");
            }
            assert!(of(activation, f64::NAN).is_nan() && of(activation, f32::NAN).is_nan());
        }
        assert_eq!(
            [
                of(Activation::RELU, -3),
                of(Activation::RELU, 3),
                of(Activation::SILU, -3)
            ],
            [0, 3, -3]
        );
    }
}
