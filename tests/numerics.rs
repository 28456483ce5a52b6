// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is made of several operations: triangles, differences, covariance, interpolation, and whether arrays are nearly equal.

use ndarray::{Array1, Array2, Array3, Axis, array, s};
use warpsmith::{DeviceArray, Error, bf16, f16};

use crate::common::*;

#[test]
fn triangles_of_every_diagonal() {
    let x = Array3::from_shape_fn((2, 3, 5), |(i, j, k)| (i * 15 + j * 5 + k + 1) as i32);
    let on_device = upload(&x);
    for k in [
        i64::MIN,
        i64::MIN + 1,
        -4,
        -3,
        -2,
        -1,
        0,
        1,
        3,
        4,
        5,
        6,
        i64::MAX - 1,
        i64::MAX,
    ] {
        let lower = |(_, i, j): (usize, usize, usize)| j as i64 - i as i64 <= k;
        let kept = |keep: &dyn Fn((usize, usize, usize)) -> bool| {
            Array3::from_shape_fn(x.raw_dim(), |at| if keep(at) { x[at] } else { 0 })
        };
        let below = on_device.expr().tril(k).eval().unwrap();
        assert_eq!(below.to_ndarray().unwrap(), kept(&lower), "tril {k}");
        let above = on_device.expr().triu(k).eval().unwrap();
        assert_eq!(
            above.to_ndarray().unwrap(),
            kept(&|at| at.2 as i64 - at.1 as i64 >= k),
            "triu {k}"
        );
    }
    // A mask, floats that are no numbers, one row, none.
    let nan = upload(&array![[f16::NAN, f16::NAN], [f16::NAN, f16::ONE]]);
    let kept = nan.expr().tril(-1).is_nan().eval().unwrap();
    assert_eq!(kept.to_ndarray().unwrap(), array![[0, 0], [1, 0]]);
    let mask = nan.expr().is_nan().triu(1).eval().unwrap();
    assert_eq!(mask.to_ndarray().unwrap(), array![[0, 1], [0, 0]]);
    let row = upload(&array![[1.0f64, 2.0, 3.0]]);
    assert_eq!(
        row.expr().tril(1).eval().unwrap().to_ndarray().unwrap(),
        array![[1.0, 2.0, 0.0]]
    );
    let none = upload(&Array2::<f32>::zeros((0, 3)));
    assert_eq!(none.expr().triu(0).eval().unwrap().shape(), [0, 3]);
    let error = upload(&array![1u8, 2]).expr().tril(0).eval().unwrap_err().to_string();
    assert_eq!(error, "tril: given axes [0], wanted two axes at least");
}

#[test]
fn differences_along_each_axis() {
    let x = Array3::from_shape_fn((3, 4, 5), |(i, j, k)| ((i * 7 + j * 5 + k * 3) % 11) as i32);
    let on_device = upload(&x);
    for axis in 0..3 {
        let axis = Axis(axis);
        let wanted = &x.slice_axis(axis, (1..).into()) - &x.slice_axis(axis, (..-1).into());
        assert_eq!(on_device.diff(axis).unwrap().to_ndarray().unwrap(), wanted);
        let backwards = on_device.flip(axis).unwrap().diff(axis).unwrap();
        let wanted = wanted.mapv(|x| -x);
        assert_eq!(backwards.flip(axis).unwrap().to_ndarray().unwrap(), wanted);
    }
    assert_eq!(
        upload(&array![3u8, 1]).diff(Axis(0)).unwrap().to_ndarray().unwrap(),
        array![254]
    );
    for len in [0, 1] {
        let short = upload(&Array2::<f32>::zeros((2, len)));
        assert_eq!(short.diff(Axis(1)).unwrap().shape(), [2, 0]);
    }
    assert!(matches!(
        on_device.diff(Axis(3)),
        Err(Error::Axes { operation: "diff", .. })
    ));
}

/// Rows of integers whose means are integers, far from 0, and a count that is a power of two: every step is exact.
fn covariance_of<T: FloatNumber>(covariance: impl Fn(&Array2<T>) -> [Array2<T>; 2]) {
    let steps = array![
        [-3, 1, 2, 5, -5, 0, 4, -4],
        [1, 1, -1, -1, 2, -2, 3, -3],
        [7, -7, 1, 1, -1, -1, 0, 0],
        [0; 8]
    ];
    let x = steps.map(|&step| T::of(f64::from(step + 1000)));
    let [covariances, correlations] = covariance(&x);
    let of =
        |i: usize, j: usize| -> f64 { (0..8).map(|k| f64::from(steps[[i, k]] * steps[[j, k]])).sum::<f64>() / 8.0 };
    for ((i, j), got) in covariances.indexed_iter() {
        assert_eq!(got.wide(), of(i, j), "covariance of {i} and {j}");
    }
    // Of two roots and two quotients, and the numbers that these are of.
    for ((i, j), got) in correlations.indexed_iter() {
        let wanted = of(i, j) / (of(i, i) * of(j, j)).sqrt();
        if i == 3 || j == 3 {
            assert!(got.wide().is_nan(), "a row that does not vary");
            continue;
        }
        let off = (got.wide() - wanted).abs();
        assert!(
            off <= 5.0 * T::UNIT_ROUNDOFF * wanted.abs() + 1e-15,
            "{i}, {j}: {off:e}"
        );
        assert!(got.wide().abs() <= 1.0);
    }
}

#[test]
fn covariance_and_correlation() {
    covariance_of::<f32>(|x| {
        let x = upload(&x.t()); // of a view
        [x.t().covariance(0), x.t().correlation()].map(|result| result.unwrap().to_ndarray().unwrap())
    });
    covariance_of::<f64>(|x| {
        let x = upload(x);
        [x.covariance(0), x.correlation()].map(|result| result.unwrap().to_ndarray().unwrap())
    });
    let x = upload(&array![[1.0f32, 3.0], [2.0, -2.0]]);
    let wanted = array![[2.0, -4.0], [-4.0, 8.0]];
    assert_eq!(x.covariance(1).unwrap().to_ndarray().unwrap(), wanted);
    let error = x.covariance(2).unwrap_err().to_string();
    assert!(
        error.contains("ddof") && error.contains("less than the 2 columns"),
        "{error}"
    );
    let none = upload(&Array2::<f32>::zeros((2, 0)));
    let error = none.correlation().unwrap_err().to_string();
    assert_eq!(error, "correlation: columns: given 0, wanted one at least");
    let no_rows = upload(&Array2::<f64>::zeros((0, 3)));
    assert_eq!(no_rows.correlation().unwrap().shape(), [0, 0]);
}

/// The formula, step by step in the element's type.
macro_rules! interpolation {
    ($name:ident: $type:ty) => {
        #[test]
        fn $name() {
            let points: [$type; 7] = [-2.5, -1.0, -1.0, 0.3, 0.7, 4.0, 9.1];
            let values: [$type; 7] = [3.0, 0.1, 5.0, -7.0, 2.2, 2.2, 1e3];
            let at = |x: $type| {
                if x.is_nan() || x <= points[0] {
                    return if x.is_nan() { x } else { values[0] };
                }
                let Some(after) = points.iter().position(|&point| point > x) else {
                    return values[6];
                };
                let (x0, x1, y0, y1) = (points[after - 1], points[after], values[after - 1], values[after]);
                if x == x0 { y0 } else { y0 + (x - x0) / (x1 - x0) * (y1 - y0) }
            };
            let mut x = Array2::from_shape_fn((30, 17), |(i, j)| ((i * 17 + j) as $type).sin() * 12.0);
            x.slice_mut(s![0, ..7]).assign(&Array1::from(points.to_vec()));
            x.slice_mut(s![1, ..3]).assign(&array![<$type>::INFINITY, <$type>::NEG_INFINITY, <$type>::NAN]);
            let (on_device, p, v) = (upload(&x), upload(&Array1::from(points.to_vec())), upload(&Array1::from(values.to_vec())));
            let got = on_device.interp(&p, &v).unwrap();
            assert_same(&elements(&got), &x.map(|&x| at(x)).into_raw_vec_and_offset().0, "interp");
            let part = on_device.slice(s![..;2, ..;-3]).unwrap().interp(&p, &v).unwrap();
            let wanted: Vec<$type> = x.slice(s![..;2, ..;-3]).iter().map(|&x| at(x)).collect();
            assert_same(&elements(&part), &wanted, "of a view");

            let (one, its) = (upload(&array![1.0 as $type]), upload(&array![5.0 as $type]));
            let few = upload(&array![0.0 as $type, 1.0, 2.0]);
            assert_eq!(few.interp(&one, &its).unwrap().to_ndarray().unwrap(), array![5.0, 5.0, 5.0]);
            let none = few.slice(s![..0]).unwrap();
            assert_eq!(none.interp(&p, &v).unwrap().len(), 0);
            assert!(matches!(few.interp(&none, &none), Err(Error::Empty { operation: "interp", .. })));
            assert!(matches!(few.interp(&p, &one), Err(Error::Shape { operation: "interp", .. })));
        }
    };
}
interpolation!(interpolation_of_f32: f32);
interpolation!(interpolation_of_f64: f64);

#[test]
fn nearly_equal_arrays() {
    let x = upload(&array![[1.0f32, -100.0, 0.0], [f32::INFINITY, f32::NEG_INFINITY, 1e-9]]);
    assert!(x.all_close(&x, 0.0, 0.0).unwrap());
    let close = |y: &Array2<f32>, relative, absolute| x.all_close(&upload(y), relative, absolute).unwrap();
    let mut y = x.to_ndarray().unwrap();
    // By their own bounds, which are of the other array.
    y[[0, 1]] = -101.0;
    assert!(close(&y, 0.00991, 0.0) && !close(&y, 0.0099, 0.0));
    assert!(close(&y, 0.0, 1.0) && !close(&y, 0.0, 0.99));
    for (place, value) in [
        ([1, 0], f32::MAX),
        ([1, 1], f32::INFINITY),
        ([1, 0], f32::NAN),
        ([0, 0], f32::NAN),
    ] {
        let mut y = x.to_ndarray().unwrap();
        y[place] = value;
        assert!(!close(&y, 1.0, f64::MAX), "{value}");
    }
    let nan = upload(&array![bf16::NAN]);
    assert!(!nan.all_close(&nan, 1.0, 1.0).unwrap());
    // What a difference in 16 bits would not show.
    let (a, b) = (
        upload(&array![f16::from_f32(1000.0)]),
        upload(&array![f16::from_f32(1001.0)]),
    );
    assert!(!a.all_close(&b, 0.0009, 0.0).unwrap() && a.all_close(&b, 0.001, 0.0).unwrap());
    // None differs where there is none, and views are compared as they lie.
    let none = x.slice(s![..0, ..]).unwrap();
    assert!(none.all_close(&none, 0.0, 0.0).unwrap());
    assert!(
        x.t()
            .all_close(&upload(&x.to_ndarray().unwrap().t()), 0.0, 0.0)
            .unwrap()
    );
    assert!(matches!(
        x.all_close(&none, 0.0, 0.0),
        Err(Error::Shape {
            operation: "all_close",
            ..
        })
    ));
}

#[test]
fn diagonals_and_swapped_axes() {
    let x = Array3::from_shape_fn((3, 4, 5), |(i, j, k)| (i * 20 + j * 5 + k) as i32);
    let mut on_device = upload(&x);
    assert_eq!(on_device.diag().to_ndarray().unwrap(), x.diag());
    let part = on_device.slice(s![..;-1, 1.., ..;2]).unwrap();
    assert_eq!(part.diag().to_ndarray().unwrap(), x.slice(s![..;-1, 1.., ..;2]).diag());
    for (a, b) in [(0, 1), (2, 0), (1, 1)] {
        let mut wanted = x.view();
        wanted.swap_axes(a, b);
        let swapped = on_device.swap_axes(Axis(a), Axis(b)).unwrap();
        assert_eq!(swapped.to_ndarray().unwrap(), wanted);
        assert_eq!(
            swapped.sum_axis(Axis(0)).unwrap().shape(),
            wanted.sum_axis(Axis(0)).shape()
        );
    }
    assert!(matches!(
        on_device.swap_axes(Axis(0), Axis(3)),
        Err(Error::Axes {
            operation: "swap_axes",
            ..
        })
    ));
    let mut wanted = x.clone();
    wanted.diag_mut().fill(-1);
    on_device.diag_mut().fill(-1).unwrap();
    assert_eq!(on_device.to_ndarray().unwrap(), wanted);
    // One element, none, a row that is repeated, and no axis.
    assert_eq!(upload(&array![[1, 2]]).diag().to_ndarray().unwrap(), array![1]);
    assert_eq!(upload(&Array2::<u8>::zeros((0, 2))).diag().len(), 0);
    let row = upload(&array![1, 2, 3]);
    assert_eq!(
        row.broadcast((2, 3)).unwrap().diag().to_ndarray().unwrap(),
        array![1, 2]
    );
    assert_eq!(upload(&ndarray::arr0(7)).diag().to_ndarray().unwrap(), array![7]);
    let matrix = DeviceArray::from_diag(&row.flip(Axis(0)).unwrap()).unwrap();
    assert_eq!(matrix.to_ndarray().unwrap(), Array2::from_diag(&array![3, 2, 1]));
    assert_eq!(
        DeviceArray::from_diag(&row.slice(s![..0]).unwrap()).unwrap().shape(),
        [0, 0]
    );
}

#[test]
fn slices_there_and_back() {
    let numbers: Vec<u16> = (0..10_000).collect();
    let x = DeviceArray::from_slice(device().default_stream(), &numbers).unwrap();
    assert_eq!(x.to_vec().unwrap(), numbers);
    let x = x.into_shape((100, 100)).unwrap();
    assert_eq!(x.t().to_vec().unwrap()[..3], [0, 100, 200]);
    let none = DeviceArray::<f32, _>::from_slice(device().default_stream(), &[]).unwrap();
    assert_eq!(none.to_vec().unwrap(), []);
}
