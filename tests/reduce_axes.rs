// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions along axes, against ndarray's lanes.

use crate::common::*;
use kernels_gpu::num::Num;
use kernels_gpu::op::{Moments, Statistic};
use kernels_gpu::reduce::{ColumnPlan, RowPlan};
use ndarray::{Array1, Array2, Array3, ArrayD, ArrayView1, Axis, Ix1, IxDyn, array};
use proptest::prelude::*;
use warpsmith::ops;
use warpsmith::{DeviceArray, bf16, f16};

/// An array of random numbers.
fn random_array<T: Number>(shape: &[usize], seed: u64) -> ArrayD<T> {
    let values = random(shape.iter().product(), seed);
    ArrayD::from_shape_vec(IxDyn(shape), values).expect("as many values")
}

/// `f` of each lane, in C order.
fn lanes<T: Number, U>(x: &ArrayD<T>, axis: Axis, f: impl Fn(ArrayView1<'_, T>) -> U) -> Vec<U> {
    x.map_axis(axis, f).into_raw_vec_and_offset().0
}

/// What the tests compute themselves.
trait Reference: Number + ops::Number + Num<Total: Number> {
    fn wrapping_sum(values: ArrayView1<'_, Self>) -> Self::Total;
    fn wrapping_product(values: ArrayView1<'_, Self>) -> Self::Total;
    fn least(values: ArrayView1<'_, Self>) -> Self;
    fn greatest(values: ArrayView1<'_, Self>) -> Self;
    /// The first of the least.
    fn position_of_least(values: ArrayView1<'_, Self>) -> u64 {
        let least = Self::least(values);
        values.iter().position(|&x| x == least).expect("an element") as u64
    }
}

macro_rules! integers {
    ($($total:ty: $($type:ty)*;)*) => {$($(
        impl Reference for $type {
            fn wrapping_sum(values: ArrayView1<'_, Self>) -> $total {
                values.iter().map(|&x| x as i128).sum::<i128>() as $total
            }
            fn wrapping_product(values: ArrayView1<'_, Self>) -> $total {
                values.iter().fold(1, |product: $total, &x| product.wrapping_mul(x as $total))
            }
            fn least(values: ArrayView1<'_, Self>) -> Self {
                *values.iter().min().expect("an element")
            }
            fn greatest(values: ArrayView1<'_, Self>) -> Self {
                *values.iter().max().expect("an element")
            }
        }
    )*)*};
}

integers! {
    i64: i32 i64;
    u64: u8 u16 u32 u64;
}

fn check_axis<T: Reference>(x: &ArrayD<T>, axis: usize) {
    let (on_device, axis, zero) = (upload(x), Axis(axis), T::SPECIAL[0]);
    let what = format!("{:?} along {}", x.shape(), axis.index());
    let result = |result: warpsmith::Result<Dyn<T>>| elements(&result.unwrap());
    let total = |result: warpsmith::Result<Dyn<T::Total>>| elements(&result.unwrap());
    let sums = total(on_device.sum_axis(axis));
    assert_same(&sums, &lanes(x, axis, T::wrapping_sum), &what);
    let products = total(on_device.product_axis(axis));
    assert_same(&products, &lanes(x, axis, T::wrapping_product), &what);
    let any = |lane: ArrayView1<'_, T>| u8::from(lane.iter().any(|&x| x != zero));
    assert_eq!(
        elements(&on_device.any_axis(axis).unwrap()),
        lanes(x, axis, any),
        "{what}"
    );
    let all = |lane: ArrayView1<'_, T>| u8::from(lane.iter().all(|&x| x != zero));
    assert_eq!(
        elements(&on_device.all_axis(axis).unwrap()),
        lanes(x, axis, all),
        "{what}"
    );
    if x.len_of(axis) == 0 {
        return;
    }
    assert_same(&result(on_device.min_axis(axis)), &lanes(x, axis, T::least), &what);
    assert_same(&result(on_device.max_axis(axis)), &lanes(x, axis, T::greatest), &what);
    let positions = elements(&on_device.argmin_axis(axis).unwrap());
    assert_eq!(positions, lanes(x, axis, T::position_of_least), "{what}");
}

/// Shapes for every plan: rows of every number of lanes, long rows of one and of several blocks, columns narrow and
/// wide, short and long, in one block and in several; and axes of length 0 and 1.
fn shapes() -> Vec<[usize; 3]> {
    vec![
        [1, 1, 1],
        [2, 3, 4],
        [300, 3, 1],
        [7, 1, 5],
        [40, 17, 2],
        [9, 33, 5],
        [3, 100, 31],
        [2, 65, 33],
        [5, 24, 100],
        [1, 1000, 3],
        [3, 1025, 2],
        [2, 5, 300],
        [1, 40_000, 1],
        [1, 33_000, 2],
        [0, 3, 4],
        [2, 0, 3],
        [2, 3, 0],
    ]
}

/// The axes of one of [`shapes`] that are worth a reduction: of many elements not those of one or two, whose plans fewer rows show.
fn axes_of(shape: &[usize; 3]) -> impl Iterator<Item = usize> {
    let is_long = shape.iter().product::<usize>() > 20_000;
    (0..3).filter(move |&axis| !is_long || shape[axis] > 2)
}

/// The lengths of short rows: of single elements, of words and of vectors; those around what the lanes have in flight
/// together; with rows that are not enough for the block's last threads.
fn lengths_of_short_rows() -> Vec<usize> {
    let mut lengths: Vec<usize> = (1..=36).collect();
    lengths.extend([47, 48, 49, 63, 64, 68, 96, 100, 127, 128, 130, 132, 144]);
    lengths.extend([252, 256, 258, 500, 512, 528, 1000, 1022, 1023, 1024]);
    lengths
}

/// Rows that warps combine because they are many, with and without a rest; those that begin anywhere, across vectors. In as
/// many rows less one, blocks do.
#[test]
fn many_rows_are_combined_by_warps() {
    for (seed, (rows, length)) in (1..).zip([(512, 1040), (1536, 4103), (1024, 2064)]) {
        let blocks = |rows: usize| RowPlan::new::<u8, u64>(rows, length, 0).blocks::<u8>(rows, usize::MAX);
        assert!(blocks(rows) <= rows / 8, "{rows} rows of {length}");
        assert_eq!(blocks(rows - 1), rows - 1, "{} rows of {length}", rows - 1);
        let x = random_array::<u8>(&[rows, length], seed);
        let sums = lanes(&x, Axis(1), u8::wrapping_sum);
        assert_same(&elements(&upload(&x).sum_axis(Axis(1)).unwrap()), &sums, "sums");
        let places = lanes(&x, Axis(1), u8::position_of_least);
        assert_eq!(elements(&upload(&x).argmin_axis(Axis(1)).unwrap()), places, "places");
    }
}

fn short_rows<T: Reference>() {
    for (seed, length) in (1..).zip(lengths_of_short_rows()) {
        let x = random_array::<T>(&[1 + 700 / length, length], seed);
        check_axis(&x, 1);
    }
}

fn every_plan<T: Reference>() {
    for (seed, shape) in (1..).zip(shapes()) {
        let x = random_array::<T>(&shape, seed);
        axes_of(&shape).for_each(|axis| check_axis(&x, axis));
    }
}

fn random_shapes<T: Reference>() {
    let length = || prop_oneof![1..4usize, 0..20usize, 30..70usize];
    proptest!(cases(6), |(shape in prop::collection::vec(length(), 1..4), seed in any::<u64>())| {
        let x = random_array::<T>(&shape, seed);
        (0..shape.len()).for_each(|axis| check_axis(&x, axis));
    });
}

for_types!(every_plan: i32 u8);
for_types!(short_rows: i32 i64 u8 u16);
for_types!(random_shapes: i32 i64 u8 u16 u32 u64);

/// The order along an axis is that of its plan.
fn depth<T, A>(shape: &[usize], axis: usize) -> f64 {
    if shape.contains(&0) {
        return 0.0;
    }
    let (outer, length) = (shape[..axis].iter().product::<usize>(), shape[axis]);
    let inner = shape[axis + 1..].iter().product::<usize>();
    let depth = if inner == 1 || length < 2 {
        RowPlan::new::<T, A>(outer * inner, length, 0).depth::<T, A>()
    } else {
        ColumnPlan::new::<T, A>(outer * inner, length, inner, 0).depth::<T, A>()
    };
    depth as f64
}

/// Sums of floats within the bound that the depth of the tree gives; the variance within that which tests/reduce.rs
/// derives.
fn floats_along_axes<T: FloatNumber + ops::Number + Statistic<Mean = T, Total = T>>() {
    // 16-bit floats are summed in f32.
    let u = T::UNIT_ROUNDOFF.min(f32::EPSILON as f64 / 2.0);
    let rows = lengths_of_short_rows();
    let rows = rows
        .into_iter()
        .filter(|length| length % 3 < 2)
        .map(|length| [2, length, 1]);
    for (seed, shape) in (1..).zip(shapes().into_iter().chain(rows)) {
        let mut rng = rng(seed);
        let x = ArrayD::from_shape_simple_fn(IxDyn(&shape), || T::of(rng.random_range(-100.0..100.0)));
        let on_device = upload(&x);
        for axis in axes_of(&shape) {
            let sums = elements(&on_device.sum_axis(Axis(axis)).unwrap());
            let wanted = lanes(&x, Axis(axis), |lane| {
                let wide = || lane.iter().map(|x| x.wide());
                let (n, sum) = (lane.len() as f64, wide().sum::<f64>());
                let squares = wide().map(|x| (x - sum / n) * (x - sum / n)).sum::<f64>();
                (sum, wide().map(f64::abs).sum::<f64>(), squares, n)
            });
            // The reference has errors of its own, of at most n roundings of f64.
            let d = depth::<T, T>(&shape, axis);
            for (i, (sum, &(wanted, magnitude, _, n))) in sums.iter().zip(&wanted).enumerate() {
                let bound = (d + 1.0) * u * magnitude + T::UNIT_ROUNDOFF * wanted.abs() + n * f64::EPSILON * magnitude;
                let error = (sum.wide() - wanted).abs();
                assert!(
                    error <= bound,
                    "{shape:?} along {axis}, {i}: {sum:?}, wanted {wanted}: {error:e} > {bound:e}"
                );
            }
            if shape[axis] < 2 {
                continue;
            }
            let variances = elements(&on_device.variance_axis(Axis(axis), 1).unwrap());
            for (i, (variance, &(_, _, squares, n))) in variances.iter().zip(&wanted).enumerate() {
                // |x| ≤ 100; twice, for the reference's error, whose depth is n.
                let d = depth::<T, Moments>(&shape, axis) + 2.0 + n;
                let e = (14.0 * d + 4.0) * f64::EPSILON * 100.0;
                let error = 2.0 * e * (squares * n * d).sqrt() + e * e * n * d + (d + 8.0) * f64::EPSILON * squares;
                let wanted = squares / (n - 1.0);
                let bound = error / (n - 1.0) + 1.01 * T::UNIT_ROUNDOFF * wanted;
                let error = (variance.wide() - wanted).abs();
                assert!(error <= bound, "{shape:?} along {axis}, {i}: {error:e} > {bound:e}");
            }
        }
    }
}

for_types!(floats_along_axes: f32 f64 f16 bf16);

#[test]
fn float_sums_along_axes_have_the_same_bits_on_every_run() {
    for shape in [[3, 5000, 1], [2, 700, 37], [1, 9000, 3]] {
        let x = upload(&random_array::<f32>(&shape, 2).mapv(|x| if x.is_finite() { x.clamp(-1e9, 1e9) } else { 0.5 }));
        let sums = || elements(&x.sum_axis(Axis(1)).unwrap());
        let first = sums();
        (0..3).for_each(|_| assert_same(&sums(), &first, "sums"));
    }
}

#[test]
fn nan_and_ties_along_axes() {
    let nan = f32::NAN;
    let x = array![[1.0, nan, 3.0, nan], [0.0, -0.0, 0.0, -1.0], [5.0, 5.0, -5.0, -5.0]];
    let on_device = upload(&x);
    let positions = |result: warpsmith::Result<DeviceArray<u64, Ix1>>| elements(&result.unwrap());
    assert_eq!(positions(on_device.argmin_axis(Axis(1))), [1, 3, 2]);
    assert_eq!(positions(on_device.argmax_axis(Axis(1))), [1, 0, 0]);
    assert_eq!(positions(on_device.argmin_axis(Axis(0))), [1, 0, 2, 0]);
    assert_eq!(positions(on_device.argmax_axis(Axis(0))), [2, 0, 0, 0]);
    assert_same(
        &elements(&on_device.min_axis(Axis(1)).unwrap()),
        &[nan, -1.0, -5.0],
        "min",
    );
    assert_same(
        &elements(&on_device.max_axis(Axis(0)).unwrap()),
        &[5.0, nan, 3.0, nan],
        "max",
    );
    assert_same(
        &elements(&on_device.variance_axis(Axis(1), 0).unwrap()),
        &[nan, 0.1875, 25.0],
        "variance",
    );
    assert_eq!(elements(&on_device.all_axis(Axis(0)).unwrap()), [0, 0, 0, 1]);
}

/// The sum over several axes, one after another from the last.
fn reference_over(x: &ArrayD<i64>, axes: &[usize], f: fn(ArrayView1<'_, i64>) -> i64) -> ArrayD<i64> {
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    axes.iter().rev().fold(x.clone(), |x, &axis| x.map_axis(Axis(axis), f))
}

fn check_axes(x: &ArrayD<i64>, axes: &[usize]) {
    let on_device = upload(x);
    let what = format!("{:?} along {axes:?}", x.shape());
    let check = |got: warpsmith::Result<Dyn<i64>>, wanted: ArrayD<i64>, name: &str| {
        assert_eq!(got.unwrap().to_ndarray().unwrap(), wanted, "{name} of {what}");
    };
    check(
        on_device.sum_axes(axes),
        reference_over(x, axes, i64::wrapping_sum),
        "sum",
    );
    check(
        on_device.product_axes(axes),
        reference_over(x, axes, i64::wrapping_product),
        "product",
    );
    let length: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    if length == 0 {
        return;
    }
    check(on_device.max_axes(axes), reference_over(x, axes, i64::greatest), "max");
    check(on_device.min_axes(axes), reference_over(x, axes, i64::least), "min");
    let sums = x.mapv(|x| x % 1000);
    let (small, wanted) = (upload(&sums), reference_over(&sums, axes, i64::wrapping_sum));
    // The sums are exact in f64, so the mean is off by the division alone.
    let mean = small.mean_axes(axes).unwrap().to_ndarray().unwrap();
    assert_eq!(mean, wanted.mapv(|sum| sum as f64 / length as f64), "mean of {what}");
    // The variance by its definition, whose sums of integers are exact: (n Σx² − (Σx)²) / n².
    let squares = reference_over(&sums.mapv(|x| x * x), axes, i64::wrapping_sum);
    let variance = small.variance_axes(axes, 0).unwrap().to_ndarray().unwrap();
    for ((got, square), sum) in variance.iter().zip(&squares).zip(&wanted) {
        let n = length as f64;
        let wanted = (i128::from(*square) * length as i128 - i128::from(*sum).pow(2)) as f64 / (n * n);
        // As tests/reduce.rs derives, for a depth below 64 and |x| < 1000.
        let bound = 1e-8 * (wanted + wanted.sqrt()) + 1e-18;
        assert!(
            (got - wanted).abs() <= bound,
            "variance of {what}: {got}, wanted {wanted}"
        );
    }
}

#[test]
fn several_axes() {
    let x = random_array::<i64>(&[3, 4, 5, 6], 5);
    for axes in [
        &[][..],
        &[0],
        &[3],
        &[0, 1],
        &[2, 3],
        &[3, 1],
        &[0, 2],
        &[2, 0, 3],
        &[0, 3],
        &[1, 3],
        &[3, 2, 1, 0],
    ] {
        check_axes(&x, axes);
    }
    let x = random_array::<i64>(&[2, 3, 1, 4, 2, 5, 2, 3], 6);
    for axes in [&[0, 3, 5, 7][..], &[1, 4, 6], &[2], &[1, 2, 3], &[0, 2, 4, 6], &[7, 0]] {
        check_axes(&x, axes);
    }
    for shape in [[0, 3, 4], [2, 0, 4], [2, 3, 0]] {
        let x = random_array::<i64>(&shape, 7);
        for axes in [&[0][..], &[0, 2], &[1], &[0, 1, 2]] {
            check_axes(&x, axes);
        }
    }
}

#[test]
fn several_axes_of_random_shapes() {
    let shape = prop::collection::vec(1..9usize, 1..6);
    proptest!(cases(12), |(shape in shape, mask in any::<u8>(), seed in any::<u64>())| {
        let axes: Vec<usize> = (0..shape.len()).filter(|axis| mask >> axis & 1 != 0).collect();
        check_axes(&random_array(&shape, seed), &axes);
    });
}

#[test]
fn every_type_along_axes() {
    fn check<T: Number + ops::Number + Num<Total: Number>>() {
        let x = Array3::from_elem((2, 3, 4), T::SPECIAL[0]);
        let x = upload(&x);
        assert_eq!(elements(&x.sum_axes(&[0, 2]).unwrap()), [T::Total::ZERO; 3]);
        assert_eq!(elements(&x.any_axes(&[0, 2]).unwrap()), [0; 3]);
        assert_eq!(elements(&x.argmax_axis(Axis(1)).unwrap()), [0; 8]);
    }
    check::<f32>();
    check::<f64>();
    check::<f16>();
    check::<bf16>();
    check::<i32>();
    check::<i64>();
    check::<u8>();
    check::<u16>();
    check::<u32>();
    check::<u64>();
}

/// No narrower sum has room for these: along rows, columns, several axes, and axes that a copy brings together.
#[test]
fn integers_are_summed_in_64_bits_along_axes() {
    fn check<T: Reference>() {
        for shape in [[2, 700, 5], [3, 5, 700], [1, 3, 2000], [40, 9, 4]] {
            let x = ArrayD::from_elem(IxDyn(&shape), T::GREATEST);
            (0..3).for_each(|axis| check_axis(&x, axis));
            let on_device = upload(&x);
            for (axes, kept) in [(&[0, 1][..], 2), (&[1, 2], 0), (&[0, 2], 1)] {
                let count = shape.iter().product::<usize>() / shape[kept];
                let sum = T::wrapping_sum(Array1::from_elem(count, T::GREATEST).view());
                let wanted = vec![sum; shape[kept]];
                assert_same(
                    &elements(&on_device.sum_axes(axes).unwrap()),
                    &wanted,
                    "sum over several axes",
                );
                let mut out = DeviceArray::zeros(device().default_stream(), IxDyn(&[shape[kept]])).unwrap();
                on_device.sum_axes_into(axes, &mut out).unwrap();
                assert_same(&elements(&out), &wanted, "sum over several axes, into an array");
            }
        }
    }
    check::<u8>();
    check::<u16>();
    check::<u32>();
    check::<i32>();
}

#[test]
fn results_into_existing_arrays() {
    let stream = device().default_stream();
    let x = upload(&array![[1i32, 2, 3], [4, 5, 6]]);
    let mut out = DeviceArray::zeros(stream, 3).unwrap();
    x.sum_axis_into(Axis(0), &mut out).unwrap();
    assert_eq!(elements(&out), [5, 7, 9]);
    let message = x.sum_axis_into(Axis(1), &mut out).unwrap_err().to_string();
    let wanted = "given an output of shape [3], wanted one of shape [2], for an array of shape [2, 3]";
    assert_eq!(message, format!("sum_axis_into: {wanted}"));
    let mut out = DeviceArray::zeros(stream, 2).unwrap();
    x.variance_axis_into(Axis(1), 1, &mut out).unwrap();
    assert_eq!(elements(&out), [1.0, 1.0]);
    let mut out = out.into_dyn();
    x.mean_axes_into(&[1], &mut out).unwrap();
    assert_eq!(elements(&out), [2.0, 5.0]);
    assert!(
        x.mean_axes_into(&[0], &mut out)
            .unwrap_err()
            .to_string()
            .starts_with("mean_axes_into: given")
    );
}

#[test]
fn wrong_axes_are_refused() {
    let x = upload(&Array2::<f32>::zeros((2, 3)));
    let message = |error: warpsmith::Error| error.to_string();
    assert_eq!(
        message(x.sum_axis(Axis(2)).unwrap_err()),
        "sum_axis: given axes [2], wanted an axis below 2"
    );
    assert_eq!(
        message(x.sum_axes(&[0, 2]).unwrap_err()),
        "sum_axes: given axes [0, 2], wanted axes below 2, each at most once"
    );
    assert_eq!(
        message(x.max_axes(&[1, 1]).unwrap_err()),
        "max_axes: given axes [1, 1], wanted axes below 2, each at most once"
    );
    let scalar = upload(&ArrayD::<f32>::zeros(IxDyn(&[])));
    assert_eq!(
        message(scalar.sum_axis(Axis(0)).unwrap_err()),
        "sum_axis: given axes [0], wanted an array that has an axis"
    );
    assert_eq!(elements(&scalar.sum_axes(&[]).unwrap()), [0.0]);
}

#[test]
fn empty_axes() {
    let x = upload(&Array2::<f32>::zeros((0, 3)));
    assert_eq!(elements(&x.sum_axis(Axis(0)).unwrap()), [0.0; 3]);
    assert_eq!(elements(&x.product_axis(Axis(0)).unwrap()), [1.0; 3]);
    assert_eq!(elements(&x.all_axis(Axis(0)).unwrap()), [1; 3]);
    assert_eq!(elements(&x.max_axis(Axis(1)).unwrap()), [0.0; 0]);
    let wanted = "of an array without elements (shape [0, 3]): wanted at least one element";
    assert_eq!(
        x.max_axis(Axis(0)).unwrap_err().to_string(),
        format!("max_axis {wanted}")
    );
    assert_eq!(
        x.argmin_axis(Axis(0)).unwrap_err().to_string(),
        format!("argmin_axis {wanted}")
    );
    assert_eq!(
        x.mean_axes(&[0, 1]).unwrap_err().to_string(),
        format!("mean_axes {wanted}")
    );
    let x = upload(&Array1::<f32>::zeros(3));
    assert_eq!(
        x.variance_axis(Axis(0), 3).unwrap_err().to_string(),
        "variance_axis: ddof: given 3, wanted less than the number of elements that are combined, 3"
    );
}

/// Statistics along axes that are no neighbours: as of the elements in another order, in which they are, but for the last
/// roundings in f64, and for those that cancel in a variance that is small beside the square of the mean.
fn check_statistics_in_steps<T: FloatNumber + ops::Number<Mean = T>>() {
    for (shape, axes) in [(vec![5, 7, 330], vec![0, 2]), (vec![3, 2, 5, 4, 9], vec![0, 2, 4])] {
        let values: Vec<f64> = random::<i32>(shape.iter().product(), 3)
            .into_iter()
            .map(|i| 60.0 + f64::from(i % 1000) / 500.0)
            .collect();
        let x = ArrayD::from_shape_vec(IxDyn(&shape), values.into_iter().map(T::of).collect()).unwrap();
        let order: Vec<usize> = (0..shape.len())
            .filter(|axis| !axes.contains(axis))
            .chain(axes.clone())
            .collect();
        let together: Vec<usize> = (shape.len() - axes.len()..shape.len()).collect();
        let (apart, rows) = (upload(&x), upload(&x.view().permuted_axes(IxDyn(&order)).to_owned()));
        let check = |got: warpsmith::Result<Dyn<T>>, wanted: warpsmith::Result<Dyn<T>>, what: &str| {
            for (got, wanted) in elements(&got.unwrap()).into_iter().zip(elements(&wanted.unwrap())) {
                let (got, wanted) = (got.wide(), wanted.wide());
                let bound = (2.0 * T::UNIT_ROUNDOFF + 1e-12) * wanted.abs();
                assert!(
                    (got - wanted).abs() <= bound,
                    "{what} of {shape:?} along {axes:?}: {got}, wanted {wanted}"
                );
            }
        };
        check(apart.mean_axes(&axes), rows.mean_axes(&together), "mean");
        check(
            apart.variance_axes(&axes, 1),
            rows.variance_axes(&together, 1),
            "variance",
        );
        check(
            apart.std_axes(&axes, 0),
            rows.std_axes(&together, 0),
            "standard deviation",
        );
    }
}

#[test]
fn statistics_in_steps() {
    check_statistics_in_steps::<f32>();
    check_statistics_in_steps::<f64>();
    check_statistics_in_steps::<f16>();
    check_statistics_in_steps::<bf16>();
}

/// Infinities and NaN, which come through both steps.
#[test]
fn statistics_in_steps_of_what_is_not_finite() {
    let mut x = Array3::<f32>::from_shape_fn((4, 3, 50), |(i, j, k)| (i + j + k) as f32);
    (x[[1, 0, 7]], x[[2, 0, 9]], x[[3, 1, 0]]) = (f32::INFINITY, f32::INFINITY, f32::NAN);
    let on_device = upload(&x.into_dyn());
    let means = elements(&on_device.mean_axes(&[0, 2]).unwrap());
    assert!(
        means[0] == f32::INFINITY && means[1].is_nan() && means[2] == 28.0,
        "{means:?}"
    );
    let variances = elements(&on_device.variance_axes(&[0, 2], 0).unwrap());
    assert!(
        variances[0].is_nan() && variances[1].is_nan() && variances[2] == 209.5,
        "{variances:?}"
    );
}

/// The elements are not copied: on a device of its own, little memory is taken beside theirs.
#[test]
fn statistics_in_steps_take_little_memory() {
    type Reduction = fn(&Dyn<f16>) -> warpsmith::Result<()>;
    let all: [Reduction; 5] = [
        |x| x.mean_axes(&[0, 2]).map(drop),
        |x| x.variance_axes(&[0, 2], 0).map(drop),
        |x| x.std_axes(&[0, 2], 0).map(drop),
        |x| x.sum_axes(&[0, 2]).map(drop),
        |x| {
            x.slice(ndarray::s![.., 1.., ..])
                .and_then(|part| part.variance(0))
                .map(drop)
        },
    ];
    for reduce in all {
        let device = warpsmith::Device::simulator();
        let x = Dyn::<f16>::ones(device.default_stream(), IxDyn(&[20, 9, 2000])).unwrap();
        let before = device.memory().unwrap().allocated;
        reduce(&x).unwrap();
        let taken = device.memory().unwrap().peak - before;
        assert!(taken < before / 4, "{taken} bytes beside {before}");
    }
}

/// The plans of shapes that no test has the memory for.
#[test]
fn plans_of_long_columns_have_a_small_depth() {
    for (columns, inner) in [(1 << 20, 1 << 20), (100, 100), (3, 3), (2, 2)] {
        for log in 4..36 {
            let plan = ColumnPlan::new::<f32, f32>(columns, 1 << log, inner, 0);
            assert!(
                plan.depth::<f32, f32>() <= 128 + 12 + 24 * 4,
                "{plan:?}: {}",
                plan.depth::<f32, f32>()
            );
            assert!(plan.width() * plan.height() <= 256 && plan.chunks() * plan.chunk() >= 1 << log);
        }
    }
}

/// Strips are narrow only where a column would be several chunks else.
#[test]
fn plans_of_short_columns() {
    let of = |columns, length| {
        let plan = ColumnPlan::new::<f32, f32>(columns, length, columns, 0);
        (plan.width(), plan.height(), plan.chunks())
    };
    assert_eq!(of(64, 128), (8, 32, 1));
    assert_eq!(of(1 << 18, 16), (128, 2, 1));
    assert_eq!(of(1 << 18, 8), (128, 2, 1));
}
