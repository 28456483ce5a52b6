// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans into an existing array: `n` elements read and `n` written at least. The look-back's time includes the
//! allocation and the clearing of its state, Blelloch's the allocation of the tiles' totals.

use crate::common::{self, measure, random_f32};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use ndarray::{Array1, Array2, Axis, Ix1, Ix2, s};
use warpsmith::ops::{Max, ReduceOp, Scan, ScanAlgorithm, ScanTree, Sum};
use warpsmith::{DeviceArray, Element, Result, Stream};

type Vector<T> = DeviceArray<T, Ix1>;

/// A scan of a whole array.
struct Case<T, R> {
    name: &'static str,
    call: fn(&Vector<T>, &mut Vector<R>) -> Result<()>,
    /// The last element of its result.
    wanted: f64,
}

fn look_back<Op: ReduceOp<T>, T: Scan<Op>>(x: &Vector<T>, out: &mut Vector<Op::Output>) -> Result<()> {
    x.inclusive_scan_into::<Op>(out)
}

fn blelloch<Op: ReduceOp<T>, T: Scan<Op> + ScanTree<Op, Output = Op::Output>>(
    x: &Vector<T>,
    out: &mut Vector<Op::Output>,
) -> Result<()> {
    x.inclusive_scan_by_into::<Op>(ScanAlgorithm::Blelloch, out)
}

fn run<T: Element, R: Element>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stream: &Stream,
    x: &Array1<T>,
    to_f64: fn(R) -> f64,
    cases: &[Case<T, R>],
) {
    let on_device = DeviceArray::from_ndarray(stream, x).expect("the input fits");
    let mut out = DeviceArray::zeros(stream, x.len()).expect("the output fits");
    for case in cases {
        (case.call)(&on_device, &mut out).expect("the scan succeeds");
        let last = to_f64(out.to_ndarray().expect("the result can be read")[x.len() - 1]);
        let error = (last - case.wanted).abs();
        assert!(
            error <= 1e-4 * case.wanted.abs(),
            "{}: {last}, wanted {}",
            case.name,
            case.wanted
        );
        let id = BenchmarkId::new(case.name, x.len());
        measure(group, id, stream, (size_of::<T>() + size_of::<R>()) * x.len(), || {
            (case.call)(&on_device, &mut out)
        });
    }
}

/// Scans of a matrix along both axes.
fn run_axes(group: &mut BenchmarkGroup<'_, WallTime>, stream: &Stream, x: &Array2<f32>) {
    let on_device = DeviceArray::from_ndarray(stream, x).expect("the input fits");
    let mut out = DeviceArray::zeros(stream, x.raw_dim()).expect("the output fits");
    for axis in [0, 1] {
        on_device
            .inclusive_scan_axis_into::<Sum>(Axis(axis), &mut out)
            .expect("the scan succeeds");
        let result = out.to_ndarray().expect("the result can be read");
        let last = result.index_axis(Axis(axis), x.shape()[axis] - 1).mapv(f64::from).sum();
        let wanted: f64 = x.iter().map(|&x| f64::from(x)).sum();
        assert!(
            (last - wanted).abs() <= 1e-4 * wanted,
            "axis {axis}: {last}, wanted {wanted}"
        );
        let id = BenchmarkId::new(format!("sum_f32_axis_{axis}"), x.len());
        measure(group, id, stream, 8 * x.len(), || {
            on_device.inclusive_scan_axis_into::<Sum>(Axis(axis), &mut out)
        });
    }
}

/// Scans of a part of a matrix's columns along both axes, and what they take with a copy of the part.
fn run_parts(group: &mut BenchmarkGroup<'_, WallTime>, stream: &Stream, x: &Array2<f32>) {
    let on_device = DeviceArray::from_ndarray(stream, x).expect("the input fits");
    // From a place where vectors begin, and from another.
    for first in [8, 3] {
        let part = on_device.slice(s![.., first..]).expect("there are as many columns");
        let mut out = DeviceArray::zeros(stream, part.raw_dim()).expect("the output fits");
        for axis in [0, 1].map(Axis) {
            let copied = |out: &mut DeviceArray<f32, Ix2>| part.to_array()?.inclusive_scan_axis_into::<Sum>(axis, out);
            copied(&mut out).expect("the scan succeeds");
            let wanted = out.to_ndarray().expect("the result can be read");
            part.inclusive_scan_axis_into::<Sum>(axis, &mut out)
                .expect("the scan succeeds");
            let result = out.to_ndarray().expect("the result can be read");
            let is_near = |(&got, &wanted): (&f32, &f32)| (got - wanted).abs() <= 1e-4 * wanted;
            assert!(result.iter().zip(&wanted).all(is_near), "columns from {first}");
            let id = |name| BenchmarkId::new(format!("sum_f32_axis_{}_{name}_{first}", axis.index()), part.len());
            measure(group, id("part"), stream, 8 * part.len(), || {
                part.inclusive_scan_axis_into::<Sum>(axis, &mut out)
            });
            measure(group, id("part_copied"), stream, 8 * part.len(), || copied(&mut out));
        }
    }
}

pub fn scan(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("scan");
    let mut rng = common::rng();
    for len in common::sizes(&device, 8) {
        let x = random_f32(len, &mut rng);
        let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
        let greatest = f64::from(x.iter().copied().fold(f32::MIN, f32::max));
        let case = |name, call, wanted| Case { name, call, wanted };
        let cases = [
            case(
                "sum_f32",
                look_back::<Sum, f32> as fn(&Vector<f32>, &mut Vector<f32>) -> _,
                sum,
            ),
            case("sum_f32_blelloch", blelloch::<Sum, f32>, sum),
            case("max_f32", look_back::<Max, f32>, greatest),
        ];
        run(&mut group, stream, &x, f64::from, &cases);
        let rows = 1 << (len.ilog2() / 2);
        let matrix = x.into_shape_with_order((rows, len / rows)).expect("a power of two");
        run_axes(&mut group, stream, &matrix);
        run_parts(&mut group, stream, &matrix);
    }
    for len in common::sizes(&device, 16) {
        let x = common::random_f64(len, &mut rng);
        let wanted = x.sum();
        let call = look_back::<Sum, f64>;
        let cases = [Case {
            name: "sum_f64",
            call,
            wanted,
        }];
        run(&mut group, stream, &x, f64::from, &cases);
    }
    for len in common::sizes(&device, 12) {
        let x = Array1::from_shape_fn(len, |i| (i % 3) as u32);
        let wanted = x.iter().map(|&x| f64::from(x)).sum();
        let call = look_back::<Sum, u32>;
        let cases = [Case {
            name: "sum_u32",
            call,
            wanted,
        }];
        run(&mut group, stream, &x, |sum| sum as f64, &cases);
    }
    group.finish();
}
