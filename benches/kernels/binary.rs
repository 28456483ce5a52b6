// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two operands: `3 n` elements moved with two arrays, `2 n` with a scalar.

use crate::common::{self, measure, random_f32, random_f64};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use ndarray::{Array1, Ix1, Zip, s};
use warpsmith::ops::Number;
use warpsmith::{DeviceArray, DeviceArrayRef, Result, Stream};

type Elements<T> = DeviceArrayRef<T, Ix1>;
type Into<T> = fn(&Elements<T>, &Elements<T>, &mut Elements<T>) -> Result<()>;

/// An operation that is measured, and the same on the host.
struct Case<T> {
    name: &'static str,
    into: Into<T>,
    oracle: fn(T, T) -> T,
}

fn array_with_array<T: Number + PartialEq>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stream: &Stream,
    (a, b): (&Array1<T>, &Array1<T>),
    case: &Case<T>,
) {
    let upload = |array| DeviceArray::from_ndarray(stream, array).expect("the inputs fit");
    let (on_device, other) = (upload(a), upload(b));
    let mut out = DeviceArray::zeros(stream, a.len()).expect("the output fits");
    (case.into)(&on_device, &other, &mut out).expect("the operation succeeds");
    let result = out.to_ndarray().expect("the result can be read");
    let right = Zip::from(a)
        .and(b)
        .and(&result)
        .all(|&a, &b, &result| (case.oracle)(a, b) == result);
    assert!(right, "{} computes something else", case.name);
    let id = BenchmarkId::new(case.name, a.len());
    measure(
        group,
        id,
        stream,
        3 * size_of_val(a.as_slice().expect("one piece")),
        || (case.into)(&on_device, &other, &mut out),
    );
}

fn array_with_scalar(group: &mut BenchmarkGroup<'_, WallTime>, stream: &Stream, a: &Array1<f32>) {
    let on_device = DeviceArray::from_ndarray(stream, a).expect("the input fits");
    let mut out = DeviceArray::zeros(stream, a.len()).expect("the output fits");
    on_device
        .mul_scalar_into(1.25, &mut out)
        .expect("the operation succeeds");
    let result = out.to_ndarray().expect("the result can be read");
    assert!(
        Zip::from(a).and(&result).all(|&a, &result| a * 1.25 == result),
        "mul_scalar computes something else"
    );
    let id = BenchmarkId::new("mul_scalar_f32", a.len());
    measure(group, id, stream, 2 * 4 * a.len(), || {
        on_device.mul_scalar_into(1.25, &mut out)
    });
}

pub fn binary(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("binary");
    let mut rng = common::rng();
    for len in common::sizes(&device, 3 * 4) {
        let (a, b) = (random_f32(len, &mut rng), random_f32(len, &mut rng));
        for case in [
            Case {
                name: "add_f32",
                into: Elements::add_into,
                oracle: |a: f32, b| a + b,
            },
            Case {
                name: "div_f32",
                into: Elements::div_into,
                oracle: |a, b| a / b,
            },
            Case {
                name: "maximum_f32",
                into: Elements::maximum_into,
                oracle: f32::max,
            },
        ] {
            array_with_array(&mut group, stream, (&a, &b), &case);
        }
        array_with_scalar(&mut group, stream, &a);
    }
    for len in common::sizes(&device, 3 * 8) {
        let (a, b) = (random_f64(len, &mut rng), random_f64(len, &mut rng));
        for case in [
            Case {
                name: "add_f64",
                into: Elements::add_into,
                oracle: |a: f64, b| a + b,
            },
            Case {
                name: "div_f64",
                into: Elements::div_into,
                oracle: |a, b| a / b,
            },
        ] {
            array_with_array(&mut group, stream, (&a, &b), &case);
        }
    }
    group.finish();
}

/// Operands that do not lie as the result does, and what is compared and selected: the bytes are those of each array
/// once.
pub fn broadcast(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("broadcast");
    let mut rng = common::rng();
    for len in common::sizes(&device, 3 * 4) {
        let side = len.isqrt();
        let id = |name| BenchmarkId::new(name, side * side);
        let matrix = random_f32(side * side, &mut rng)
            .into_shape_with_order((side, side))
            .expect("as many");
        let upload = |array| DeviceArray::from_ndarray(stream, array).expect("the inputs fit");
        let (a, row) = (
            upload(&matrix),
            DeviceArray::from_ndarray(stream, &matrix.row(0)).expect("it fits"),
        );
        let column = DeviceArray::from_ndarray(stream, &matrix.slice(s![.., ..1])).expect("it fits");
        let mut out = DeviceArray::zeros(stream, (side, side)).expect("the output fits");
        let bytes = 4 * side * side;

        a.add_into(&a.t(), &mut out).expect("the operation succeeds");
        assert_eq!(out.to_ndarray().expect("it can be read"), &matrix + &matrix.t());
        measure(&mut group, id("add_row_f32"), stream, 2 * bytes, || {
            a.add_into(&row, &mut out)
        });
        measure(&mut group, id("add_column_f32"), stream, 2 * bytes, || {
            a.add_into(&column, &mut out)
        });
        measure(&mut group, id("add_transposed_f32"), stream, 3 * bytes, || {
            a.add_into(&a.t(), &mut out)
        });
        measure(&mut group, id("add_assign_row_f32"), stream, 2 * bytes, || {
            out.add_assign(&row)
        });

        let mut mask = a.less(&row).expect("the operation succeeds");
        measure(&mut group, id("less_f32"), stream, 2 * bytes + side * side, || {
            a.less_into(&out, &mut mask)
        });
        measure(&mut group, id("select_f32"), stream, 3 * bytes + side * side, || {
            mask.select_into(&a, &a, &mut out)
        });
    }
    group.finish();
}
