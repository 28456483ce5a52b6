// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far results may be from the CPU's, and how far they are.
//!
//! - Integers, comparisons, casts, and what IEEE 754 rounds correctly (+ − × ÷ √, negation, absolute
//!   value) have one right result: nothing may differ.
//! - exp, log, sin, cos and tanh are as near as the contract of `cuda_std::Float` says. The reference is
//!   computed in f64, whose own error is nothing for f32 results; for f64 ones that of the host's library
//!   comes on top, 1 ulp (tanh 2, as glibc documents).
//! - sigmoid is `1 / (1 + e)` with `e = e^−|x|`, times `e` for x < 0. `e` is off by at most 1 ulp, that is
//!   2u relative (u the unit roundoff), of which the quotient takes back a part: 2u / (1 + e) < 2u. Sum,
//!   quotient and product round, u each. A relative error of 5u is at most 5 ulp. The reference is
//!   computed the same way.
//! - A float sum combines each element in at most `depth` additions, each off by a factor 1 ± u: to
//!   first order the error is at most `depth · u · Σ|x|`, however the tree is shaped.
//! - A mean is such a sum in f64 (integers of 64 bits round once more on their way in), and a quotient.

use std::ops::Range;

use ndarray::{Array, CowArray, Dimension};
use rayon::prelude::*;

use super::reference::{Float, Reference};

/// The unit of an error that is held against the sum of the absolute values of the terms, times the unit roundoff.
const ROUNDOFFS: &str = "u Σ|x|";

/// The largest error of a result, and what it may be.
#[derive(Clone, Copy, Debug)]
pub struct Deviation {
    pub largest: f64,
    pub bound: f64,
    pub unit: &'static str,
}

impl Deviation {
    pub fn is_ok(self) -> bool {
        self.largest <= self.bound
    }

    pub fn show_largest(self) -> String {
        self.show(self.largest)
    }

    pub fn show_bound(self) -> String {
        self.show(self.bound)
    }

    fn show(self, value: f64) -> String {
        match self.unit {
            _ if value == 0.0 => "0".into(),
            "ulp" => format!("{value:.2} ulp"),
            "absolute" => format!("{value:.1e}"),
            ROUNDOFFS => format!("{value:.2} {ROUNDOFFS}"),
            unit => format!("{value} {unit}"),
        }
    }

    /// Of a single number.
    pub fn absolute(got: f64, want: f64, bound: f64) -> Self {
        let largest = if got == want { 0.0 } else { (got - want).abs() };
        Self {
            largest,
            bound,
            unit: "absolute",
        }
    }
}

/// How many elements differ; none may. NaN is equal to NaN.
pub fn exact<T: Copy + PartialEq + Sync + Send, D: Dimension>(got: &Array<T, D>, want: &Array<T, D>) -> Deviation {
    assert_eq!(got.shape(), want.shape(), "an element for each");
    let (got, want) = (got.as_standard_layout(), want.as_standard_layout());
    Deviation {
        largest: differing(in_order(&got), in_order(&want)),
        bound: 0.0,
        unit: "differ",
    }
}

/// How many elements differ.
fn differing<T: PartialEq + Sync>(got: &[T], want: &[T]) -> f64 {
    #[allow(clippy::eq_op)] // Only NaN differs from itself.
    let differ = |got: &T, want: &T| got != want && (got == got || want == want);
    let differing = |part: Range<usize>| {
        got[part.clone()]
            .iter()
            .zip(&want[part])
            .filter(|(got, want)| differ(got, want))
    };
    of_parts(got.len(), &|part| differing(part).count() as f64, |a, b| a + b)
}

/// The elements of an array in C order.
fn in_order<'a, T, D: Dimension>(array: &'a CowArray<'_, T, D>) -> &'a [T] {
    array.as_slice().expect("an array in C order")
}

/// What is found of each part of so many elements, combined; 0 of none. Compiled once for all types of elements.
fn of_parts(len: usize, part: &(dyn Fn(Range<usize>) -> f64 + Sync), combine: fn(f64, f64) -> f64) -> f64 {
    const PART: usize = 1 << 16;
    let parts = (0..len.div_ceil(PART)).into_par_iter();
    parts
        .map(|i| part(i * PART..len.min((i + 1) * PART)))
        .reduce(|| 0.0, combine)
}

/// The largest error of sums, each given with the sum of the absolute values of its terms, in unit roundoffs of that.
pub fn sums<T: Reference>(sums: impl Iterator<Item = (T, f64, f64)>, bound: f64) -> Deviation {
    let errors = sums.map(|(got, want, magnitude)| {
        let error = (got.nearest_f64() - want).abs();
        // Where all terms are 0 the sum is.
        if error == 0.0 {
            0.0
        } else {
            error / (T::UNIT_ROUNDOFF * magnitude)
        }
    });
    Deviation {
        largest: errors.fold(0.0, |largest, error| {
            if error.is_nan() || error > largest {
                error
            } else {
                largest
            }
        }),
        bound,
        unit: ROUNDOFFS,
    }
}

/// The largest distance from `want(x)` in units of the last place.
pub fn ulps<T: Float, D: Dimension>(
    got: &Array<T, D>,
    x: &Array<T, D>,
    want: impl Fn(f64) -> f64 + Sync + Send,
    bound: f64,
) -> Deviation {
    let error = |got: T, x: T| {
        let (got, want) = (got.nearest_f64(), want(x.nearest_f64()));
        match got == want || (got.is_nan() && want.is_nan()) {
            true => 0.0,
            false => (got - want).abs() / T::ulp(want),
        }
    };
    // NaN, where only one of both is NaN, must not be lost in a maximum.
    let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    assert_eq!(got.shape(), x.shape(), "an element for each");
    let (got, x) = (got.as_standard_layout(), x.as_standard_layout());
    let (got, x) = (in_order(&got), in_order(&x));
    let largest = |part: Range<usize>| {
        let errors = got[part.clone()].iter().zip(&x[part]).map(|(&got, &x)| error(got, x));
        errors.fold(0.0, |largest, error| larger(error, largest))
    };
    Deviation {
        largest: of_parts(got.len(), &largest, larger),
        bound,
        unit: "ulp",
    }
}

/// How far a sum of `x` (a float one) may be off, for sums in a format of that unit roundoff.
pub fn sum_bound<T: Reference>(x: &[T], depth: f64, unit_roundoff: f64) -> f64 {
    let magnitude: f64 = x.iter().map(|x| x.nearest_f64().abs()).sum();
    depth * unit_roundoff * magnitude
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, array};

    use super::*;

    #[test]
    fn elements_that_differ_are_counted() {
        let got = Array1::from_shape_fn(200_000, |i| i as f64);
        let mut want = got.clone();
        assert_eq!(exact(&got, &want).largest, 0.0);
        for i in [0, 65_535, 65_536, 199_999] {
            want[i] = f64::NAN;
        }
        assert_eq!(exact(&got, &want).largest, 4.0);
        assert_eq!(exact(&want, &want).largest, 0.0);
        let by_columns = array![[1, 3], [2, 4]].reversed_axes();
        assert_eq!(exact(&by_columns, &array![[1, 2], [3, 4]]).largest, 0.0);
    }

    #[test]
    fn the_largest_error_may_be_nan() {
        let x = Array1::from_elem(200_000, 1f32);
        let mut got = x.clone();
        got[70_000] += 3.0 * f32::EPSILON;
        assert_eq!(ulps(&got, &x, |x| x, 1.0).largest, 3.0);
        got[70_001] = f32::NAN;
        assert!(ulps(&got, &x, |x| x, 1.0).largest.is_nan());
    }
}
