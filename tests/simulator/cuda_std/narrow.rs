// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of 16-bit floats: all arguments, against the f64 functions of the host.

// They take long under ThreadSanitizer, and have no threads.
#![cfg(not(thread_sanitizer))]

use cuda_std::float::narrow;
use cuda_std::half::{bf16, bf16_from_f32, bf16_to_f32, f16, f16_from_f32, f16_to_f32};

/// A 16-bit type: the numbers of these bits, rounding to it, the least exponent of a normal number, and the bits behind the
/// point.
struct Type {
    of_bits: fn(u16) -> f32,
    round: fn(f32) -> f32,
    least_exponent: f64,
    digits: f64,
    largest_exponent: i32,
}

const F16: Type = Type {
    of_bits: |bits| f16_to_f32(f16::from_bits(bits)),
    round: |x| f16_to_f32(f16_from_f32(x)),
    least_exponent: -14.0,
    digits: 10.0,
    largest_exponent: 16,
};

const BF16: Type = Type {
    of_bits: |bits| bf16_to_f32(bf16::from_bits(bits)),
    round: |x| bf16_to_f32(bf16_from_f32(x)),
    least_exponent: -126.0,
    digits: 7.0,
    largest_exponent: 128,
};

impl Type {
    /// The error of `got` in units in the last place of `want`; infinite where one is NaN and the other not, and where zeros
    /// differ in sign.
    fn error(&self, got: f32, want: f64) -> f64 {
        if want.is_nan() || got.is_nan() {
            return if want.is_nan() && got.is_nan() {
                0.0
            } else {
                f64::INFINITY
            };
        }
        if want == 0.0 || got == 0.0 && got.is_sign_negative() != want.is_sign_negative() {
            let same = got == 0.0 && got.is_sign_negative() == want.is_sign_negative();
            return if same { 0.0 } else { f64::INFINITY };
        }
        // The number that follows the largest one: so overflow is measured as any rounding.
        let limit = 2f64.powi(self.largest_exponent);
        let (got, want) = (f64::from(got).clamp(-limit, limit), want.clamp(-limit, limit));
        let exponent = want
            .abs()
            .log2()
            .floor()
            .clamp(self.least_exponent, f64::from(self.largest_exponent - 1));
        (got - want).abs() / (exponent - self.digits).exp2()
    }
}

type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64, usize);

/// One line a function: ours, the reference, and how many of the results are not the nearest `f16`.
#[rustfmt::skip]
const F16_FUNCTIONS: &[Case] = &[
    ("sqrt", narrow::sqrt, f64::sqrt, 0),
    ("rsqrt", narrow::rsqrt, |x| 1.0 / x.sqrt(), 0),
    ("recip", narrow::recip, f64::recip, 0),
    ("cbrt", narrow::cbrt, f64::cbrt, 40),
    ("exp", narrow::exp, f64::exp, 3),
    ("exp2", narrow::exp2, f64::exp2, 1),
    ("expm1", narrow::expm1, f64::exp_m1, 0),
    ("ln", narrow::ln, f64::ln, 4),
    ("log2", narrow::log2, f64::log2, 3),
    ("log10", narrow::log10, f64::log10, 5),
    ("sin", narrow::sin, f64::sin, 4),
    ("cos", narrow::cos, f64::cos, 2),
    ("tan", narrow::tan, f64::tan, 2),
    ("acos", narrow::acos, f64::acos, 8),
    ("sinh", narrow::sinh, f64::sinh, 2),
    ("cosh", narrow::cosh, f64::cosh, 2),
    ("tanh", narrow::tanh, f64::tanh, 0),
    ("sigmoid", narrow::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 6),
    ("erf", narrow::erf, libm::erf, 6),
    ("erfc", narrow::erfc, libm::erfc, 4),
];

const BF16_FUNCTIONS: &[Case] = &[
    ("acos", narrow::acos, f64::acos, 0),
    ("tanh", narrow::tanh, f64::tanh, 0),
    ("erf", narrow::erf, libm::erf, 0),
];

fn check(ty: &Type, functions: &[Case]) {
    for &(name, ours, reference, not_nearest) in functions {
        let (mut worst, mut at, mut count) = (0.0, 0.0, 0);
        for x in (0..=u16::MAX).map(ty.of_bits) {
            let error = ty.error((ty.round)(ours(x)), reference(f64::from(x)));
            count += usize::from(error > 0.5);
            if error > worst {
                (worst, at) = (error, x);
            }
        }
        assert!(worst <= 0.501, "{name}({at:e}): {worst} ulp");
        assert_eq!(count, not_nearest, "{name}: so many results are not the nearest float");
    }
}

#[test]
fn all_results_are_within_their_bound() {
    check(&F16, F16_FUNCTIONS);
    check(&BF16, BF16_FUNCTIONS);
}
