// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transposition and other orders of axes: `2 n` elements moved. `copy` is the same without a change of order, what the
//! others can reach at best.

use crate::common::{self, measure};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use ndarray::{Array, Array3, ArrayD, IxDyn};
use warpsmith::{DeviceArray, Element, Result, Stream};

/// Measures the array with its axes in the order given.
fn run<T: Element + PartialEq>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stream: &Stream,
    name: &str,
    x: &ArrayD<T>,
    axes: &[usize],
) {
    let bytes = 2 * size_of::<T>() * x.len();
    let permute = || -> Result<_> {
        let on_device = DeviceArray::from_ndarray(stream, x)?;
        let out = on_device.permute(axes)?;
        Ok((on_device, out))
    };
    let (on_device, mut out) = permute().expect("the arrays fit");
    let right = out.to_ndarray().expect("the array fits") == x.view().permuted_axes(axes);
    assert!(right, "{name} gives the wrong elements");
    measure(group, BenchmarkId::new(name, x.len()), stream, bytes, || {
        on_device.permute_into(axes, &mut out)
    });
}

/// `len` elements in about a square, of one size or another, whose sides are multiples of `multiple` plus `odd`.
fn square<T: Element>(len: usize, multiple: usize, odd: usize, element: fn(usize) -> T) -> ArrayD<T> {
    let side = len.isqrt() / multiple * multiple + odd;
    let elements = (0..side * side).map(element);
    Array::from_iter(elements)
        .into_shape_with_order(IxDyn(&[side, side]))
        .expect("as many elements")
}

pub fn transpose(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("transpose");
    for len in common::sizes(&device, 8) {
        let x = square(len, 128, 0, |i| i as f32);
        run(&mut group, stream, "copy_f32", &x, &[0, 1]);
        run(&mut group, stream, "transpose_f32", &x, &[1, 0]);
        run(
            &mut group,
            stream,
            "transpose_f32_odd",
            &square(len, 128, 1, |i| i as f32),
            &[1, 0],
        );
        let thin = x
            .into_shape_with_order(IxDyn(&[len / 4, 4]))
            .expect("a square of even sides");
        run(&mut group, stream, "transpose_f32_thin", &thin, &[1, 0]);
        let channels =
            Array3::from_shape_fn((len / 3 / 1024, 1024, 3), |(y, x, c)| (y * 7 + x * 3 + c) as u8).into_dyn();
        run(&mut group, stream, "channels_first_u8", &channels, &[2, 0, 1]);
        let stack = Array3::from_shape_fn((len / 4096, 64, 64), |(i, y, x)| (i + 64 * y + x) as f32).into_dyn();
        run(&mut group, stream, "stack_of_64x64_f32", &stack, &[0, 2, 1]);
        run(&mut group, stream, "rows_of_64_f32", &stack, &[1, 0, 2]);
        run(
            &mut group,
            stream,
            "transpose_u8",
            &square(len, 128, 0, |i| i as u8),
            &[1, 0],
        );
        run(
            &mut group,
            stream,
            "transpose_u16",
            &square(len, 128, 0, |i| i as u16),
            &[1, 0],
        );
    }
    for len in common::sizes(&device, 32) {
        run(
            &mut group,
            stream,
            "transpose_f64",
            &square(len, 128, 0, |i| i as f64),
            &[1, 0],
        );
        run(
            &mut group,
            stream,
            "transpose_f32x3",
            &square(len, 128, 0, |i| [i as f32; 3]),
            &[1, 0],
        );
        run(
            &mut group,
            stream,
            "transpose_f32x4",
            &square(len, 128, 0, |i| [i as f32; 4]),
            &[1, 0],
        );
    }
    group.finish();
}
