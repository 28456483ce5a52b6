// SPDX-License-Identifier: MIT OR Apache-2.0
//! Euclidean norms against sums in `f64`.

use crate::common::*;
use ndarray::{Array2, Array3, Axis, array};
use warpsmith::optim::Parameter;
use warpsmith::{Error, bf16, f16};

/// Norms of numbers that are exact in every type, of which so are the squares and their sums: what is rounded is the root alone.
fn exact<T: FloatNumber + Parameter>() {
    let x = Array3::from_shape_fn((3, 4, 5), |(i, j, k)| ((i + 2 * j + 3 * k) % 7) as f64 - 3.0);
    let on_device = upload(&x.mapv(T::of));
    let norm = |squares: f64| T::of(squares.sqrt());
    let is_near = |got: T, wanted: T| got.ulps(wanted.wide()) <= 1.0;
    assert!(is_near(on_device.norm().unwrap(), norm(x.mapv(|x| x * x).sum())));
    for axis in [Axis(0), Axis(1), Axis(2)] {
        let wanted = x.mapv(|x| x * x).sum_axis(axis).mapv(norm);
        let got = on_device.norm_axis(axis).unwrap().to_ndarray().unwrap();
        assert_eq!(got.shape(), wanted.shape());
        assert!(
            got.iter().zip(&wanted).all(|(&got, &wanted)| is_near(got, wanted)),
            "{axis:?}"
        );
    }
    let rows = on_device.slice(ndarray::s![0, .., ..;2]).unwrap();
    let wanted = x.slice(ndarray::s![0, .., ..;2]).mapv(|x| x * x).sum();
    assert!(is_near(rows.norm().unwrap(), norm(wanted)));
    let none = upload(&Array2::from_elem((0, 3), T::of(1.0)));
    assert_eq!(
        (none.norm().unwrap().wide(), none.norm_axis(Axis(1)).unwrap().len()),
        (0.0, 0)
    );
    assert_eq!(elements(&none.norm_axis(Axis(0)).unwrap()), [T::of(0.0); 3]);
    assert!(
        upload(&array![T::of(1.0), T::of(f64::NAN)])
            .norm()
            .unwrap()
            .wide()
            .is_nan()
    );
    assert!(matches!(none.norm_axis(Axis(2)), Err(Error::Axes { .. })));
}

#[test]
fn of_each_type() {
    exact::<f32>();
    exact::<f64>();
    exact::<f16>();
    exact::<bf16>();
}

#[test]
fn of_16_bits_in_32() {
    // The square of 300 is above all that f16 has.
    let x = upload(&array![300.0, 400.0].mapv(f16::from_f64));
    assert_eq!(x.norm().unwrap(), f16::from_f32(500.0));
}
