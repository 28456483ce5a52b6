// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions: `n` elements moved. For whole arrays the time is that of the call, which waits for its result: the
//! allocations, one launch, and the copy of one number to the host; along axes that of the kernel.

use std::cell::Cell;

use crate::common::{self, measure, random_f32, random_f64};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use ndarray::{Array1, Axis, Ix1, Ix3};
use warpsmith::{DeviceArray, DeviceArrayRef, Element, Result, Stream};

type Elements<T> = DeviceArrayRef<T, Ix1>;

/// A reduction that is measured.
struct Case<T> {
    name: &'static str,
    call: fn(&Elements<T>) -> Result<T>,
    /// Its result.
    wanted: f64,
}

fn run<T: Element + Into<f64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stream: &Stream,
    x: &Array1<T>,
    case: &Case<T>,
) {
    let on_device = DeviceArray::from_ndarray(stream, x).expect("the input fits");
    let result: f64 = (case.call)(&on_device).expect("the operation succeeds").into();
    let error = (result - case.wanted).abs();
    assert!(
        error <= 1e-5 * case.wanted.abs(),
        "{} is {result}, wanted {}",
        case.name,
        case.wanted
    );
    let last = Cell::new(None);
    measure(
        group,
        BenchmarkId::new(case.name, x.len()),
        stream,
        size_of::<T>() * x.len(),
        || {
            last.set(Some((case.call)(&on_device)?));
            Ok(())
        },
    );
    let repeated = last.take().is_none_or(|last| last.into() == result);
    assert!(repeated, "{} gives another result when repeated", case.name);
}

pub fn reduce(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("reduce");
    let mut rng = common::rng();
    for len in common::sizes(&device, 4) {
        let x = random_f32(len, &mut rng);
        let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
        let greatest = f64::from(x.iter().copied().fold(f32::MIN, f32::max));
        for case in [
            Case {
                name: "sum_f32",
                call: Elements::sum,
                wanted: sum,
            },
            Case {
                name: "max_f32",
                call: Elements::max,
                wanted: greatest,
            },
            Case {
                name: "mean_f32",
                call: Elements::mean,
                wanted: sum / len as f64,
            },
            Case {
                name: "variance_f32",
                call: |x| x.variance(0),
                wanted: x.mapv(f64::from).var(0.0),
            },
            Case {
                name: "argmax_f32",
                call: |x| Ok(x.argmax()? as f32),
                wanted: f64::from(x.iter().position(|&x| f64::from(x) == greatest).unwrap_or(0) as f32),
            },
        ] {
            run(&mut group, stream, &x, &case);
        }
    }
    for len in common::sizes(&device, 8) {
        let x = random_f64(len, &mut rng);
        run(
            &mut group,
            stream,
            &x,
            &Case {
                name: "sum_f64",
                call: Elements::sum,
                wanted: x.sum(),
            },
        );
    }
    for len in common::sizes(&device, 4) {
        let x = random_f32(len, &mut rng);
        for (name, outer, inner) in [
            ("short_rows", len / 64, 1),
            ("rows", len / 8192, 1),
            ("few_rows", 3, 1),
            ("rgb", 1, 3),
            ("columns", 1, 1000),
            ("middle_axis", len / 65_536, 64),
        ] {
            along_axis(&mut group, stream, name, &x, [outer.max(1), inner]);
        }
    }
    group.finish();
}

/// The sums of an array of shape (outer, length, inner) along its middle axis, with as many elements as there are.
fn along_axis(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stream: &Stream,
    name: &str,
    x: &Array1<f32>,
    [outer, inner]: [usize; 2],
) {
    let shape = (outer, x.len() / (outer * inner), inner);
    let elements = shape.0 * shape.1 * shape.2;
    let x = x
        .slice(ndarray::s![..elements])
        .into_shape_with_order(shape)
        .expect("as many elements");
    let on_device = DeviceArray::<f32, Ix3>::from_ndarray(stream, &x).expect("the input fits");
    let mut out = on_device.sum_axis(Axis(1)).expect("the operation succeeds");
    // In f64: a sum of 2^26 numbers, one after another in f32, comes to a halt at 2^24.
    let wanted = x.fold_axis(Axis(1), 0.0, |sum, &x| sum + f64::from(x));
    let close = |(&got, &wanted): (&f32, &f64)| (f64::from(got) - wanted).abs() <= 1e-3 * wanted.abs();
    let result = out.to_ndarray().expect("the kernel succeeds");
    assert!(result.iter().zip(&wanted).all(close), "{name} is wrong");
    measure(
        group,
        BenchmarkId::new(format!("sum_axis_{name}_f32"), elements),
        stream,
        size_of::<f32>() * elements,
        || on_device.sum_axis_into(Axis(1), &mut out),
    );
}
