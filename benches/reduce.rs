// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions: `n` elements moved. The time is that of the whole call, which waits for its result: two launches, the
//! allocation of the partial results, and the copy of one number to the host.

mod common;

use std::cell::Cell;

use common::{measure, random_f32, random_f64};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main, measurement::WallTime};
use ndarray::{Array1, Ix1};
use warpsmith::{DeviceArray, Element, Result, Stream};

type Vector<T> = DeviceArray<T, Ix1>;

/// A reduction that is measured.
struct Case<T> {
    name: &'static str,
    call: fn(&Vector<T>) -> Result<T>,
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

fn reduce(criterion: &mut Criterion) {
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
                call: Vector::sum,
                wanted: sum,
            },
            Case {
                name: "max_f32",
                call: Vector::max,
                wanted: greatest,
            },
            Case {
                name: "mean_f32",
                call: Vector::mean,
                wanted: sum / len as f64,
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
                call: Vector::sum,
                wanted: x.sum(),
            },
        );
    }
    group.finish();
}

criterion_group!(name = benches; config = common::criterion(); targets = reduce);
criterion_main!(benches);
