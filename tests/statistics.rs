// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions that leave NaN out, counts, spans and weighted means, against sums in `f64`.

use std::fmt::Debug;

use crate::common::*;
use ndarray::{Array1, Array2, Array3, ArrayView1, Axis, array, s};
use warpsmith::expr::Value;
use warpsmith::ops::Number as AnyNumber;
use warpsmith::optim::Parameter;
use warpsmith::{DeviceArrayRef, Element, Error, bf16, f16};

/// Small whole numbers, about a third of which are NaN; the first line along the last axis has no other.
fn with_gaps() -> Array3<f64> {
    Array3::from_shape_fn((3, 4, 50), |(i, j, k)| match (i * 7 + j * 5 + k * 11) % 3 {
        _ if (i, j) == (0, 0) => f64::NAN,
        0 => f64::NAN,
        _ => ((i + 2 * j + 3 * k) % 9) as f64 - 4.0,
    })
}

/// The statistics of the numbers of a line: sum, mean, least, greatest, variance.
fn statistics(line: ArrayView1<'_, f64>, ddof: f64) -> [f64; 5] {
    let numbers: Vec<f64> = line.iter().copied().filter(|x| !x.is_nan()).collect();
    let (sum, n) = (numbers.iter().sum::<f64>(), numbers.len() as f64);
    let squares: f64 = numbers.iter().map(|x| (x - sum / n).powi(2)).sum();
    let variance = if n > ddof { squares / (n - ddof) } else { f64::NAN };
    let (min, max) = (
        numbers.iter().copied().reduce(f64::min),
        numbers.iter().copied().reduce(f64::max),
    );
    [sum, sum / n, min.unwrap_or(f64::NAN), max.unwrap_or(f64::NAN), variance]
}

fn near<T: FloatNumber + Debug>(got: impl IntoIterator<Item = T>, wanted: impl IntoIterator<Item = f64>, what: &str) {
    let (got, wanted): (Vec<T>, Vec<f64>) = (got.into_iter().collect(), wanted.into_iter().collect());
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (got, wanted) in got.iter().zip(wanted) {
        // What is wanted is rounded, too, in `f64`.
        let is_near = got.ulps(wanted) <= 2.0 || (got.wide() - wanted).abs() <= 1e-13 * wanted.abs();
        assert!(is_near, "{what}: {got:?}, wanted {wanted}");
    }
}

/// Whole arrays, each axis, several axes, and a view whose strides are odd.
fn without_nan<T: FloatNumber + Parameter>() {
    let x = with_gaps();
    let on_device = upload(&x.mapv(T::of));
    let all = statistics(x.flatten().view(), 1.0);
    let whole = |x: &DeviceArrayRef<T, _>| {
        [x.nan_sum(), x.nan_mean(), x.nan_min(), x.nan_max(), x.nan_variance(1)].map(Result::unwrap)
    };
    near(whole(&on_device), all, "all");
    near([on_device.nan_std(1).unwrap()], [all[4].sqrt()], "all");
    for axis in [Axis(0), Axis(1), Axis(2)] {
        let lines: Vec<[f64; 5]> = (x.lanes(axis).into_iter()).map(|line| statistics(line, 2.0)).collect();
        let got = [
            on_device.nan_sum_axis(axis),
            on_device.nan_mean_axis(axis),
            on_device.nan_min_axis(axis),
            on_device.nan_max_axis(axis),
            on_device.nan_variance_axis(axis, 2),
        ];
        for (which, got) in got.into_iter().enumerate() {
            let wanted = lines.iter().map(|line| line[which]);
            near(elements(&got.unwrap()), wanted, &format!("{which} along {axis:?}"));
        }
        let deviations = elements(&on_device.nan_std_axis(axis, 2).unwrap());
        near(deviations, lines.iter().map(|line| line[4].sqrt()), "deviations");
    }
    let of_planes = elements(&on_device.nan_mean_axes(&[2, 0]).unwrap());
    let planes = (x.axis_iter(Axis(1))).map(|plane| statistics(plane.flatten().view(), 0.0)[1]);
    near(of_planes, planes, "means of planes");
    let part = on_device.slice(s![.., 1, ..;-3]).unwrap();
    let wanted = statistics(x.slice(s![.., 1, ..;-3]).flatten().view(), 0.0);
    near(
        [part.nan_mean().unwrap(), part.nan_variance(0).unwrap()],
        [wanted[1], wanted[4]],
        "a view",
    );
}

#[test]
fn nan_is_left_out() {
    without_nan::<f32>();
    without_nan::<f64>();
    without_nan::<f16>();
    without_nan::<bf16>();
}

#[test]
fn of_nothing_but_nan_and_of_infinities() {
    let nan = upload(&array![[f32::NAN, f32::NAN]]);
    assert_eq!(nan.nan_sum().unwrap(), 0.0);
    let others = [
        nan.nan_mean(),
        nan.nan_min(),
        nan.nan_max(),
        nan.nan_variance(0),
        nan.nan_std(0),
    ];
    assert!(others.into_iter().all(|got| got.unwrap().is_nan()));
    let infinite = upload(&array![f32::INFINITY, f32::NAN]);
    assert_eq!(
        (infinite.nan_min().unwrap(), infinite.nan_max().unwrap()),
        (f32::INFINITY, f32::INFINITY)
    );
    let both = upload(&array![f32::INFINITY, f32::NEG_INFINITY]);
    assert!(both.nan_sum().unwrap().is_nan() && both.nan_variance(0).unwrap().is_nan());
    // One number alone has no variance, but for that of a population.
    let one = upload(&array![f64::NAN, 3.0]);
    assert!(one.nan_variance(1).unwrap().is_nan());
    assert_eq!((one.nan_variance(0).unwrap(), one.nan_mean().unwrap()), (0.0, 3.0));
    // A sum of f16 that has no room in 16 bits, and a mean that has.
    let large = upload(&Array1::from_elem(100, f16::from_f32(60_000.0)));
    assert_eq!(large.nan_mean().unwrap(), f16::from_f32(60_000.0));
    // A large mean takes nothing of the variance.
    let far = upload(&array![1e8f64, 1e8 + 1.0, 1e8 + 2.0, f64::NAN]);
    assert_eq!(far.nan_variance(1).unwrap(), 1.0);
}

/// Where no element is NaN: sums of these are exact in `f64`, so that means have the same bits.
fn as_those_with_nan<T: FloatNumber + Parameter + Value<Element = T> + AnyNumber<Mean = T>>() {
    let x = Array2::from_shape_fn((7, 300), |(i, j)| ((i * 37 + j * 11) % 101) as f64 * 0.375 - 17.0);
    let x = upload(&x.mapv(T::of));
    let same = |got: Vec<T>, wanted: Vec<T>| assert_eq!(bits(&got), bits(&wanted), "{}", T::NAME);
    same(vec![x.nan_mean().unwrap()], vec![x.mean().unwrap()]);
    let deviations = |got: Vec<T>, wanted: Vec<T>| near(got, wanted.into_iter().map(T::wide), T::NAME);
    deviations(vec![x.nan_std(1).unwrap()], vec![x.std(1).unwrap()]);
    for axis in [Axis(0), Axis(1)] {
        same(
            elements(&x.nan_mean_axis(axis).unwrap()),
            elements(&x.mean_axis(axis).unwrap()),
        );
        let wanted = elements(&x.std_axis(axis, 1).unwrap());
        deviations(elements(&x.nan_std_axis(axis, 1).unwrap()), wanted);
    }
}

fn bits<T: FloatNumber>(numbers: &[T]) -> Vec<u64> {
    numbers.iter().map(|x| x.wide().to_bits()).collect()
}

#[test]
fn without_nan_it_is_the_mean_and_the_deviation() {
    as_those_with_nan::<f32>();
    as_those_with_nan::<f64>();
    as_those_with_nan::<f16>();
    as_those_with_nan::<bf16>();
}

/// Two numbers of either sign have themselves as their deviation, whether or not their type has its square.
fn deviation_without_a_variance<T: FloatNumber + Parameter + Value<Element = T> + AnyNumber<Mean = T>>(number: f64) {
    let x = upload(&array![T::of(number), T::of(-number)]);
    let got = [
        x.std(0).unwrap(),
        x.nan_std(0).unwrap(),
        x.expr().std(0).eval().unwrap().item().unwrap(),
        elements(&x.nan_std_axis(Axis(0), 0).unwrap())[0],
    ];
    near(got, [T::of(number).wide(); 4], &format!("{} {number}", T::NAME));
}

#[test]
fn deviations_whose_squares_are_no_numbers_of_the_type() {
    deviation_without_a_variance::<f16>(300.0);
    deviation_without_a_variance::<f16>(1e-4);
    deviation_without_a_variance::<bf16>(1e30);
    deviation_without_a_variance::<bf16>(1e-30);
    deviation_without_a_variance::<f32>(1e20);
    deviation_without_a_variance::<f32>(1e-30);
}

#[test]
fn means_whose_sums_are_no_numbers_of_the_type() {
    let x = upload(&array![3e38f32, 3e38, f32::NAN]);
    assert_eq!(x.nan_mean().unwrap(), 3e38);
    let x = upload(&array![[3e38f32], [3e38]]);
    let weights = upload(&array![1.0f32, 1.0]);
    assert_eq!(elements(&x.nan_mean_axis(Axis(0)).unwrap()), [3e38]);
    assert_eq!(elements(&x.weighted_mean_axis(Axis(0), &weights).unwrap()), [3e38]);
    assert_eq!(x.t().weighted_mean(&weights).unwrap(), 3e38);
    // What `f32` would leave out of a sum.
    let x = upload(&array![33_554_432.0f32, 1.0, -33_554_432.0]);
    let weights = upload(&array![1.0f32, 1.0, 1.0]);
    assert_eq!(x.nan_mean().unwrap(), 1.0 / 3.0);
    assert_eq!(x.weighted_mean(&weights).unwrap(), 1.0 / 3.0);
}

/// The operation that an error of no axis, or of no elements, names.
fn blamed<T>(result: warpsmith::Result<T>) -> &'static str {
    match result.err() {
        Some(Error::Axes { operation, .. } | Error::Empty { operation, .. }) => operation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_name_the_operation_that_was_called() {
    let none = upload(&Array2::<f32>::zeros((0, 3)));
    assert_eq!(blamed(none.ptp()), "ptp");
    assert_eq!(blamed(none.ptp_axis(Axis(0))), "ptp_axis");
    assert_eq!(blamed(none.ptp_axis(Axis(9))), "ptp_axis");
    assert_eq!(blamed(none.ptp_axes(&[1, 1])), "ptp_axes");
    assert_eq!(blamed(none.nan_min()), "nan_min");
    assert_eq!(blamed(none.nan_max_axis(Axis(0))), "nan_max_axis");
    assert_eq!(blamed(none.nan_mean_axes(&[0, 1])), "nan_mean_axes");
    assert_eq!(blamed(none.count_nonzero_axis(Axis(9))), "count_nonzero_axis");
    assert_eq!(blamed(none.count_nonzero_axes(&[0, 2])), "count_nonzero_axes");
    assert_eq!(blamed(none.weighted_mean_axes(&[2], &none)), "weighted_mean_axes");
    let error = none.nan_sum_axes(&[0, 0]).unwrap_err().to_string();
    assert_eq!(
        error,
        "nan_sum_axes: given axes [0, 0], wanted axes below 2, each at most once"
    );
}

#[test]
fn reductions_without_nan_of_no_elements() {
    let none = upload(&Array2::<f32>::zeros((0, 3)));
    assert_eq!(none.nan_sum().unwrap(), 0.0);
    assert_eq!(elements(&none.nan_sum_axis(Axis(0)).unwrap()), [0.0; 3]);
    assert_eq!(none.nan_mean_axis(Axis(1)).unwrap().len(), 0);
    assert!(matches!(none.nan_mean(), Err(Error::Empty { .. })));
    assert!(matches!(none.nan_min(), Err(Error::Empty { .. })));
    let error = none.nan_variance(0).unwrap_err().to_string();
    assert_eq!(
        error,
        "nan_variance: ddof: given 0, wanted less than 0, the number of elements"
    );
    let error = none.nan_sum_axis(Axis(2)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Axes {
                operation: "nan_sum_axis",
                ..
            }
        ),
        "{error}"
    );
    assert!(matches!(none.nan_max_axes(&[1, 1]), Err(Error::Axes { .. })));
}

#[test]
fn numbers_in_place_of_nan() {
    fn of<T: FloatNumber + Parameter>(most: T) {
        let x = [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
        let got = upload(&Array1::from_vec(x.to_vec()).mapv(T::of)).nan_to_num().unwrap();
        let wanted = [1.5, 0.0, most.wide(), -most.wide(), 0.0];
        near(elements(&got), wanted, T::NAME);
        assert!(elements(&got)[4].wide().is_sign_negative());
    }
    of(f32::MAX);
    of(f64::MAX);
    of(f16::MAX);
    of(bf16::MAX);
}

#[test]
fn elements_that_are_not_0_are_counted() {
    fn of<T: Value<Element = T> + Element + AnyNumber>(of: impl Fn(u8) -> T) {
        let x = Array3::from_shape_fn((3, 5, 7), |(i, j, k)| ((i * 3 + j * 5 + k) % 4) as u8);
        let on_device = upload(&x.mapv(of));
        let count = |x: ndarray::ArrayViewD<'_, u8>| x.iter().filter(|x| **x != 0).count() as u64;
        assert_eq!(on_device.count_nonzero().unwrap(), count(x.view().into_dyn()));
        for axis in [Axis(0), Axis(1), Axis(2)] {
            let wanted = x.map_axis(axis, |line| count(line.into_dyn()));
            assert_eq!(
                on_device.count_nonzero_axis(axis).unwrap().to_ndarray().unwrap(),
                wanted
            );
        }
        let wanted: Vec<u64> = x.axis_iter(Axis(1)).map(|plane| count(plane.into_dyn())).collect();
        assert_eq!(elements(&on_device.count_nonzero_axes(&[0, 2]).unwrap()), wanted);
        let part = on_device.slice(s![..;-2, 1.., ..;3]).unwrap();
        assert_eq!(
            part.count_nonzero().unwrap(),
            count(x.slice(s![..;-2, 1.., ..;3]).into_dyn())
        );
    }
    of(|x| x);
    of(|x| x as u16);
    of(|x| x as u32);
    of(|x| x as u64);
    of(|x| x as i32);
    of(|x| -(x as i64));
    of(|x| x as f32);
    of(|x| x as f64);
    of(f16::from);
    of(bf16::from);
    let special = upload(&array![f32::NAN, 0.0, -0.0, f32::INFINITY, f32::from_bits(1)]);
    assert_eq!(special.count_nonzero().unwrap(), 3);
    let none = upload(&Array2::<i32>::zeros((0, 2)));
    assert_eq!(none.count_nonzero().unwrap(), 0);
    assert_eq!(elements(&none.count_nonzero_axis(Axis(0)).unwrap()), [0, 0]);
    assert!(matches!(none.count_nonzero_axis(Axis(2)), Err(Error::Axes { .. })));
}

#[test]
fn spans() {
    let x = upload(&array![[3, -5, 8], [0, 0, 0]]);
    assert_eq!(x.ptp().unwrap(), 13);
    assert_eq!(elements(&x.t().ptp_axis(Axis(0)).unwrap()), [13, 0]);
    assert_eq!(elements(&x.ptp_axes(&[0]).unwrap()), [3, 5, 8]);
    assert_eq!(upload(&array![i32::MIN, i32::MAX]).ptp().unwrap(), -1);
    assert_eq!(upload(&array![200u8, 1]).ptp().unwrap(), 199);
    assert_eq!(
        upload(&array![f16::from_f32(-1.0), f16::from_f32(2.5)]).ptp().unwrap(),
        f16::from_f32(3.5)
    );
    assert_eq!(upload(&array![7.0]).ptp().unwrap(), 0.0);
    assert!(upload(&array![1.0, f64::NAN]).ptp().unwrap().is_nan());
    assert!(upload(&array![f64::INFINITY]).ptp().unwrap().is_nan());
    let none = upload(&Array2::<f32>::zeros((0, 2)));
    assert!(matches!(none.ptp(), Err(Error::Empty { .. })));
    assert!(matches!(none.ptp_axis(Axis(3)), Err(Error::Axes { .. })));
}

/// Numbers that are exact in every type.
fn weighted<T: FloatNumber + Parameter>() {
    let x = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| ((i + 2 * j + 3 * k) % 7) as f64);
    let (on_device, of_axis) = (upload(&x.mapv(T::of)), [1.0, 0.0, 3.0, 4.0]);
    let mean = |axis: usize, weights: &[f64]| {
        let sum = |line: ArrayView1<'_, f64>| line.iter().zip(weights).map(|(x, w)| x * w).sum::<f64>();
        x.map_axis(Axis(axis), |line| sum(line) / weights.iter().sum::<f64>())
    };
    for axis in 0..3 {
        let weights = &of_axis[..x.shape()[axis]];
        let on_weights = upload(&Array1::from_vec(weights.to_vec()).mapv(T::of));
        let got = on_device.weighted_mean_axis(Axis(axis), &on_weights).unwrap();
        near(elements(&got), mean(axis, weights), "along an axis");
        let turned = on_device.t();
        let got = turned.weighted_mean_axis(Axis(2 - axis), &on_weights).unwrap();
        near(elements(&got), mean(axis, weights).t().iter().copied(), "of a view");
    }
    let weights = upload(&array![[1.0], [2.0], [0.0]].mapv(T::of));
    let wanted = (&x * &array![[1.0], [2.0], [0.0]]).sum() / (2.0 * 4.0 * 3.0);
    near(
        [on_device.weighted_mean(&weights).unwrap()],
        [wanted],
        "broadcast weights",
    );
    let got = on_device.weighted_mean_axes(&[2, 1], &weights).unwrap();
    let wanted = (&x * &array![[1.0], [2.0], [0.0]]).sum_axis(Axis(2)).sum_axis(Axis(1)) / (4.0 * 3.0);
    near(elements(&got), wanted, "along two axes");
}

#[test]
fn weighted_means() {
    weighted::<f32>();
    weighted::<f64>();
    weighted::<f16>();
    weighted::<bf16>();
    let x = upload(&array![[1.0f64, 2.0], [3.0, 4.0]]);
    assert!(x.weighted_mean(&upload(&array![0.0f64, 0.0])).unwrap().is_nan());
    let error = x
        .weighted_mean(&upload(&array![1.0, 2.0, 3.0]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "weighted_mean: given weights of shape [3] for shape [2, 2], wanted weights that broadcast to the array's shape"
    );
    let error = x
        .weighted_mean_axis(Axis(1), &upload(&array![1.0]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "weighted_mean_axis: given 1 numbers along axis 1 of shape [2, 2], wanted as many as that axis is long"
    );
    assert!(matches!(
        x.weighted_mean_axis(Axis(2), &upload(&array![1.0])),
        Err(Error::Axes { .. })
    ));
}
