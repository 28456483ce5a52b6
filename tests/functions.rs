// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of arrays that are expressions of one operation: against those of `cuda_std::Float`, which they are made of.

use crate::common::*;
use cuda_std::Float;
use ndarray::{Array1, Array2, array};
use warpsmith::Error;

/// Each function of an array, into a new array and into a view, has the bits of the function of a number.
macro_rules! functions {
    ($type:ident: $($name:ident $into:ident $of_number:expr;)*) => {$({
        let x = Array2::from_shape_fn((10, 10), |(i, j)| (10 * i + j) as $type * 0.37 - 15.0);
        let wanted = x.mapv($of_number);
        let x = upload(&x);
        let mut turned = upload(&Array2::<$type>::zeros((10, 10)));
        x.$into(&mut turned.view_mut().reversed_axes()).unwrap();
        for got in [x.$name().unwrap().to_ndarray().unwrap(), turned.t().to_ndarray().unwrap()] {
            let is_same = |(a, b): (&$type, &$type)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(got.iter().zip(&wanted).all(is_same), "{}: {got}, wanted {wanted}", stringify!($name));
        }
    })*};
}

macro_rules! all_functions {
    ($type:ident) => {
        functions! {
            $type:
            rsqrt rsqrt_into Float::rsqrt;
            cbrt cbrt_into Float::cbrt;
            recip recip_into Float::recip;
            exp2 exp2_into Float::exp2;
            exp_m1 exp_m1_into Float::expm1;
            log2 log2_into Float::log2;
            log10 log10_into Float::log10;
            ln_1p ln_1p_into Float::ln_1p;
            tan tan_into Float::tan;
            asin asin_into Float::asin;
            acos acos_into Float::acos;
            atan atan_into Float::atan;
            sinh sinh_into Float::sinh;
            cosh cosh_into Float::cosh;
            erf erf_into Float::erf;
            erfc erfc_into Float::erfc;
            floor floor_into Float::floor;
            ceil ceil_into Float::ceil;
            round round_into Float::round;
            round_ties_even round_ties_even_into Float::round_ties_even;
            trunc trunc_into Float::trunc;
            signum signum_into $type::signum;
        }
    };
}

#[test]
fn of_f32() {
    all_functions!(f32);
}

#[test]
fn of_f64() {
    all_functions!(f64);
}

#[test]
fn questions() {
    let x = upload(&array![1.0f32, f32::NAN, f32::INFINITY, -0.0, f32::NEG_INFINITY]);
    assert_eq!(elements(&x.is_nan().unwrap()), [0, 1, 0, 0, 0]);
    assert_eq!(elements(&x.is_finite().unwrap()), [1, 0, 0, 1, 0]);
    assert_eq!(elements(&x.is_infinite().unwrap()), [0, 0, 1, 0, 1]);
}

#[test]
fn what_does_not_fit() {
    let x = upload(&array![1.0f32, 2.0]);
    let error = x.floor_into(&mut upload(&Array1::zeros(3))).unwrap_err();
    assert!(matches!(error, Error::Shape { operation: "floor", .. }), "{error}");
}

#[test]
fn whole_powers_and_functions_of_two() {
    let x = upload(&array![[2i32, -3], [0, 1]]);
    assert_eq!(elements(&x.t().powi(3).unwrap()), [8, 0, -27, 1]);
    assert_eq!(elements(&x.powi(0).unwrap()), [1; 4]);
    let x = upload(&array![2.0f32, -0.5, 0.0, f32::NAN]);
    let got = elements(&x.powi(-1).unwrap());
    assert!(got[..3] == [0.5, -2.0, f32::INFINITY] && got[3].is_nan());

    let (a, b) = (array![[3.0f64], [-1.0]], array![4.0f64, f64::INFINITY, -0.0]);
    let (x, y) = (upload(&a), upload(&b));
    let got = [x.hypot(&y), x.atan2(&y), x.copysign(&y)].map(|got| got.unwrap().to_ndarray().unwrap());
    for (i, j) in [0, 1].into_iter().flat_map(|i| [0, 1, 2].map(|j| (i, j))) {
        let (a, b) = (a[[i, 0]], b[j]);
        for (got, wanted) in got.iter().zip([a.hypot(b), a.atan2(b), a.copysign(b)]) {
            assert!(
                got[[i, j]].ulps(wanted) <= 2.0,
                "{} of {a} and {b}, wanted {wanted}",
                got[[i, j]]
            );
        }
    }
    assert_eq!(
        elements(&x.view().lerp(&y.slice(ndarray::s![..;-2]).unwrap(), 0.5).unwrap()),
        [1.5, 3.5, -0.5, 1.5]
    );
    for (weight, wanted) in [(0.0, 0.1f32), (1.0, 0.7), (2.0, 1.3)] {
        let between = upload(&array![0.1f32]).lerp(&upload(&array![0.7f32]), weight).unwrap();
        assert!(elements(&between)[0].ulps(wanted.into()) <= 2.0);
        assert!(weight == 2.0 || elements(&between) == [wanted]);
    }
    let three = upload(&array![1.0, 2.0, 3.0, 4.0]);
    assert!(matches!(y.hypot(&three), Err(Error::Shape { .. })));
    assert!(matches!(y.lerp(&three, 0.5), Err(Error::Shape { .. })));
}
