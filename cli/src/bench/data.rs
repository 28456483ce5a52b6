// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inputs of the benchmarks: random numbers, each of which its index alone gives.
//!
//! So inputs are made by all cores at once, and a check computes the element that it wants instead of keeping the
//! array.

use std::convert::identity;
use std::fmt::Debug;

use warpsmith::{Element, f16};
pub use warpsmith_lab::data::{array, bits};

/// The random byte of index `i`.
pub fn byte(i: usize) -> u8 {
    bits(i) as u8
}

/// The random number of index `i` from the standard normal distribution (G. Box, M. Muller, 1958).
pub fn normal(i: usize) -> f64 {
    const SCALE: f64 = 1.0 / (1u64 << 32) as f64;
    // Not 0, whose logarithm is infinite.
    let (radius, angle) = (f64::from(bits(2 * i)) + 1.0, f64::from(bits(2 * i + 1)));
    (-2.0 * (radius * SCALE).ln()).sqrt() * (std::f64::consts::TAU * angle * SCALE).cos()
}

/// An element type that is measured.
pub trait Value: Element + PartialEq + Debug {
    const DTYPE: &'static str;

    /// A random element: of floats from 0 to 1 in steps of 2^−24, of integers from 0 to 255.
    fn random(bits: u32) -> Self;

    /// A random integer, whose [`of_sum`](Self::of_sum) is an element.
    fn term(bits: u32) -> i64;

    /// The sum of elements, given that of their integers.
    ///
    /// Floats are sixteenths from −1 to 1: their partial sums stay so small that no order of addition rounds one, so
    /// that a sum has one right result, of which the check knows every bit. Integers have room for it, or it wraps around.
    fn of_sum(sum: i64) -> Self;

    /// `a + b`
    fn plus(self, other: Self) -> Self;

    /// `x²`
    fn squared(self) -> Self;
}

/// Each with the type that it is computed in, and how that is rounded.
macro_rules! floats {
    ($($type:ident in $wide:ident, rounded by $round:expr;)*) => {$(
        impl Value for $type {
            const DTYPE: &'static str = stringify!($type);

            fn random(bits: u32) -> Self {
                $round((bits >> 8) as $wide / (1 << 24) as $wide)
            }

            fn term(bits: u32) -> i64 {
                i64::from(bits % 33) - 16
            }

            fn of_sum(sum: i64) -> Self {
                $round(sum as $wide / 16.0)
            }

            fn plus(self, other: Self) -> Self {
                $round($wide::from(self) + $wide::from(other))
            }

            fn squared(self) -> Self {
                $round($wide::from(self) * $wide::from(self))
            }
        }
    )*};
}

macro_rules! integers {
    ($($type:ident),*) => {$(
        impl Value for $type {
            const DTYPE: &'static str = stringify!($type);

            fn random(bits: u32) -> Self {
                Self::of_sum(Self::term(bits))
            }

            fn term(bits: u32) -> i64 {
                i64::from(bits % 256)
            }

            fn of_sum(sum: i64) -> Self {
                sum as $type
            }

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn squared(self) -> Self {
                self.wrapping_mul(self)
            }
        }
    )*};
}

floats! {
    f32 in f32, rounded by identity;
    f64 in f64, rounded by identity;
    f16 in f32, rounded by f16::from_f32;
}
integers!(i32, i64, u8, u16, u64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Within five standard deviations of what is expected.
    #[test]
    fn normal_numbers_have_the_moments_of_the_distribution() {
        let n = 100_000;
        let moment = |power| (0..n).map(|i| normal(i).powi(power)).sum::<f64>() / n as f64;
        for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let error: f64 = moment(power) - expected;
            assert!(error.abs() < 5.0 * f64::sqrt(variance / n as f64), "{power}: {error}");
        }
    }

    #[test]
    fn sums_are_those_of_the_elements() {
        let (sum, exact) = (0..10_000).fold((0.0f32, 0), |(sum, exact), i| {
            let term = f32::term(bits(i));
            (sum + f32::of_sum(term), exact + term)
        });
        assert_eq!(sum, f32::of_sum(exact));
        assert_eq!(u8::of_sum(300), 44);
    }
}
