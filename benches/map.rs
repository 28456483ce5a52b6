// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on one array: `2 n` elements moved.

mod common;

use common::{measure, random_f32, random_f64};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main, measurement::WallTime};
use ndarray::{Array1, Ix1, Zip};
use warpsmith::{DeviceArray, Element, Result, Stream};

type Vector<T> = DeviceArray<T, Ix1>;

/// A function that is measured, and the same on the host in `f64`.
struct Case<T, U = T> {
    name: &'static str,
    into: fn(&Vector<T>, &mut Vector<U>) -> Result<()>,
    oracle: fn(f64) -> f64,
}

fn run<T: Element + Into<f64>, U: Element + Into<f64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stream: &Stream,
    x: &Array1<T>,
    case: &Case<T, U>,
) {
    let on_device = DeviceArray::from_ndarray(stream, x).expect("the input fits");
    let mut out = DeviceArray::zeros(stream, x.len()).expect("the output fits");
    (case.into)(&on_device, &mut out).expect("the operation succeeds");
    let result = out.to_ndarray().expect("the result can be read");
    // Of either type, to a few units in the last place: this finds a wrong function, the tests find a wrong digit.
    let tolerance = 8.0 * f64::from(if size_of::<T>() == 4 { f32::EPSILON } else { 1e-15 });
    let right = Zip::from(x).and(&result).all(|&x, &result| {
        let wanted = (case.oracle)(x.into());
        (result.into() - wanted).abs() <= tolerance * wanted.abs().max(0.5)
    });
    assert!(right, "{} computes something else", case.name);
    let bytes = (size_of::<T>() + size_of::<U>()) * x.len();
    measure(group, BenchmarkId::new(case.name, x.len()), stream, bytes, || {
        (case.into)(&on_device, &mut out)
    });
}

fn map(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("map");
    let mut rng = common::rng();
    for len in common::sizes(&device, 2 * 4) {
        let x = random_f32(len, &mut rng);
        for case in [
            Case {
                name: "neg_f32",
                into: Vector::neg_into,
                oracle: |x| -x,
            },
            Case {
                name: "sqrt_f32",
                into: Vector::sqrt_into,
                oracle: f64::sqrt,
            },
            Case {
                name: "exp_f32",
                into: Vector::exp_into,
                oracle: f64::exp,
            },
            Case {
                name: "ln_f32",
                into: Vector::ln_into,
                oracle: f64::ln,
            },
            Case {
                name: "sin_f32",
                into: Vector::sin_into,
                oracle: f64::sin,
            },
            Case {
                name: "tanh_f32",
                into: Vector::tanh_into,
                oracle: f64::tanh,
            },
            Case {
                name: "sigmoid_f32",
                into: Vector::sigmoid_into,
                oracle: |x| 1.0 / (1.0 + (-x).exp()),
            },
        ] {
            run(&mut group, stream, &x, &case);
        }
    }
    for len in common::sizes(&device, 2 * 8) {
        let x = random_f64(len, &mut rng);
        for case in [
            Case {
                name: "exp_f64",
                into: Vector::exp_into,
                oracle: f64::exp,
            },
            Case {
                name: "sin_f64",
                into: Vector::sin_into,
                oracle: f64::sin,
            },
        ] {
            run(&mut group, stream, &x, &case);
        }
    }
    for len in common::sizes(&device, 4 + 8) {
        let x = random_f32(len, &mut rng);
        let cast = Case {
            name: "cast_f32_f64",
            into: Vector::<f32>::cast_into::<f64>,
            oracle: |x| x,
        };
        run(&mut group, stream, &x, &cast);
    }
    group.finish();
}

criterion_group!(name = benches; config = common::criterion(); targets = map);
criterion_main!(benches);
