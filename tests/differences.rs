// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derivatives and integrals of sampled functions, against loops over ndarray.

use crate::common::*;
use ndarray::{Array1, Array2, Array3, ArrayD, Axis, array, s};
use warpsmith::expr::Value;
use warpsmith::ops::Real;
use warpsmith::{Error, bf16, f16};

/// Values that are exact in every type, as are their differences.
fn samples() -> Array3<f64> {
    Array3::from_shape_fn((2, 5, 3), |(i, j, k)| ((i * 7 + j * j * 3 + k * 5) % 17) as f64)
}

fn derivative(x: &Array3<f64>, axis: Axis, spacing: f64) -> Array3<f64> {
    let mut wanted = x.clone();
    for (mut to, from) in wanted.lanes_mut(axis).into_iter().zip(x.lanes(axis)) {
        let last = from.len() - 1;
        for i in 0..=last {
            let (before, after) = (i.saturating_sub(1), (i + 1).min(last));
            to[i] = (from[after] - from[before]) / (spacing * (after - before) as f64);
        }
    }
    wanted
}

fn integral(y: &Array3<f64>, axis: Axis, points: &[f64]) -> ArrayD<f64> {
    let lines = y.map_axis(axis, |line| {
        let width = |i: usize| points[i + 1] - points[i];
        (1..line.len())
            .map(|i| (line[i - 1] + line[i]) / 2.0 * width(i - 1))
            .sum()
    });
    lines.into_dyn()
}

fn of_each_type<T: FloatNumber + Value<Element = T> + Real>() {
    let x = samples();
    let on_device = upload(&x.mapv(T::of));
    for axis in 0..3 {
        let wanted = derivative(&x, Axis(axis), 0.5);
        let got = on_device.gradient(Axis(axis), T::of(0.5)).unwrap();
        assert_eq!(got.to_ndarray().unwrap().mapv(T::wide), wanted, "along {axis}");
        let turned = on_device.t();
        let got = turned.gradient(Axis(2 - axis), T::of(0.5)).unwrap();
        assert_eq!(
            got.to_ndarray().unwrap().mapv(T::wide),
            wanted.t(),
            "along {axis}, turned"
        );

        let len = x.shape()[axis];
        let points: Vec<f64> = (0..len).map(|i| (i * i) as f64 - 1.0).collect();
        let even: Vec<f64> = (0..len).map(|i| i as f64 * 0.5).collect();
        let got = on_device.trapezoid(Axis(axis), T::of(0.5)).unwrap();
        let wanted = integral(&x, Axis(axis), &even);
        assert_eq!(
            got.to_ndarray().unwrap().mapv(T::wide).into_dyn(),
            wanted,
            "along {axis}"
        );
        let on_points = upload(&Array1::from_vec(points.clone()).mapv(T::of));
        let got = on_device.trapezoid_at(Axis(axis), &on_points).unwrap();
        let wanted = integral(&x, Axis(axis), &points).mapv(|y| T::of(y).wide());
        assert_eq!(
            got.to_ndarray().unwrap().mapv(T::wide).into_dyn(),
            wanted,
            "along {axis}"
        );
    }
}

#[test]
fn derivatives_and_integrals() {
    of_each_type::<f32>();
    of_each_type::<f64>();
    of_each_type::<f16>();
    of_each_type::<bf16>();
}

#[test]
fn of_few_elements_and_of_views() {
    let two = upload(&array![1.0, 5.0]);
    assert_eq!(elements(&two.gradient(Axis(0), 2.0).unwrap()), [2.0, 2.0]);
    let x = upload(&Array2::from_shape_fn((3, 8), |(i, j)| (i * 10 + j * j) as f32));
    let part = x.slice(s![1, ..;-2]).unwrap();
    // 49, 25, 9 and 1, and ten more.
    assert_eq!(
        elements(&part.gradient(Axis(0), 1.0).unwrap()),
        [-24.0, -20.0, -12.0, -8.0]
    );
    assert_eq!(part.trapezoid(Axis(0), 1.0).unwrap().item().unwrap(), 89.0);
    let nan = upload(&array![1.0, f64::NAN, 3.0, 4.0]);
    let got = elements(&nan.gradient(Axis(0), 1.0).unwrap());
    assert!(got[0].is_nan() && got[1] == 1.0 && got[2].is_nan() && got[3] == 1.0);
    for few in [0, 1] {
        let x = upload(&Array2::<f64>::ones((2, few)));
        assert_eq!(elements(&x.trapezoid(Axis(1), 1.0).unwrap()), [0.0, 0.0]);
        let points = upload(&Array1::zeros(few));
        assert_eq!(elements(&x.trapezoid_at(Axis(1), &points).unwrap()), [0.0, 0.0]);
        assert_eq!(x.diff(Axis(1)).unwrap().shape(), [2, 0]);
        let error = x.gradient(Axis(1), 1.0).unwrap_err().to_string();
        let wanted = format!("gradient: given axis 1 of shape [2, {few}], wanted an axis of two elements or more");
        assert_eq!(error, wanted);
    }
    let none = upload(&Array2::<f64>::zeros((0, 3)));
    assert_eq!(none.gradient(Axis(1), 1.0).unwrap().shape(), [0, 3]);
    assert_eq!(none.trapezoid(Axis(1), 1.0).unwrap().len(), 0);
}

#[test]
fn spacings_of_which_twice_is_no_number_of_the_type() {
    let x = upload(&array![0.0, 100.0, 200.0].mapv(f16::of));
    let got = elements(&x.gradient(Axis(0), f16::of(40_000.0)).unwrap());
    assert_eq!(got, [f16::of(0.0025); 3]);
    let x = upload(&array![0.0f32, 1e38, 2e38]);
    assert_eq!(elements(&x.gradient(Axis(0), 2e38).unwrap()), [0.5; 3]);
    // A difference that is no f16, and is not rounded to one: 2049 / 1.5.
    let x = upload(&array![-1.0, 0.0, 2048.0].mapv(f16::of));
    let got = elements(&x.gradient(Axis(0), f16::of(0.75)).unwrap());
    assert_eq!(got, [1.0 / 0.75, 1366.0, 2048.0 / 0.75].map(f16::of));
}

#[test]
fn what_does_not_fit() {
    let x = upload(&array![[1.0f64, 2.0], [3.0, 4.0]]);
    assert!(matches!(x.gradient(Axis(2), 1.0), Err(Error::Axes { .. })));
    assert!(matches!(x.trapezoid(Axis(2), 1.0), Err(Error::Axes { .. })));
    let points = upload(&array![1.0, 2.0, 3.0]);
    assert!(matches!(x.trapezoid_at(Axis(2), &points), Err(Error::Axes { .. })));
    let error = x.trapezoid_at(Axis(0), &points).unwrap_err().to_string();
    assert_eq!(
        error,
        "trapezoid_at: given 3 numbers along axis 0 of shape [2, 2], wanted as many as that axis is long"
    );
}
