// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of square matrices, in which throughput is counted in operations (`2 n³`, reported as elements), and of a
//! matrix and a vector, in which it is the bytes of the matrix.

use crate::common::{self, measure, random_f32, random_f64};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use ndarray::{Array1, Array2, Ix2};
use warpsmith::ops::{MatMul, MatVec};
use warpsmith::{Device, DeviceArray, DeviceView, Stream, bf16, f16};

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// The lengths of the sides: a product that cannot fill a device, some that can, and one beyond the L2 cache.
fn sides(device: &Device) -> Vec<usize> {
    if device.is_simulator() {
        vec![64]
    } else {
        vec![256, 1024, 4096, 8192]
    }
}

fn matrix<T: Clone>(elements: Array1<T>, side: usize) -> Array2<T> {
    elements.into_shape_with_order((side, side)).expect("a square")
}

/// Whether some elements of `a b` are right, up to rounding, which takes as much as `tolerance` of each.
fn check<T: MatMul + Into<f64>>(a: &Array2<T>, b: &Array2<T>, result: &Array2<T>, tolerance: f64) {
    let side = a.nrows();
    for i in (0..side).step_by(side / 8) {
        let j = (i * 5 + 3) % side;
        let terms = a.row(i).into_iter().zip(b.column(j));
        let wanted: f64 = terms.map(|(&a, &b)| Into::<f64>::into(a) * Into::<f64>::into(b)).sum();
        let error = (Into::<f64>::into(result[[i, j]]) - wanted).abs();
        assert!(error <= tolerance * wanted.abs(), "element {i}, {j} is off by {error}");
    }
}

/// A product of two matrices or their transposes.
fn product<T: MatMul + Into<f64>>(
    group: &mut Group<'_>,
    name: &str,
    (a, b): (&DeviceView<'_, T, Ix2>, &DeviceView<'_, T, Ix2>),
    (on_host, other): (&Array2<T>, &Array2<T>),
    tolerance: f64,
) {
    let (stream, side) = (a.stream(), on_host.nrows());
    let mut out = DeviceArray::zeros(stream, [side, side]).expect("the output fits");
    a.matmul_into(b, &mut out).expect("the operation succeeds");
    let result = out.to_ndarray().expect("the result can be read");
    check(on_host, other, &result, tolerance);
    group.throughput(Throughput::Elements(2 * (side as u64).pow(3)));
    group.bench_function(BenchmarkId::new(name, side), |bencher| {
        bencher.iter_custom(|iterations| {
            let start = stream.record().expect("an event can be recorded");
            (0..iterations)
                .try_for_each(|_| a.matmul_into(b, &mut out))
                .expect("the launch that was checked succeeds again");
            let end = stream.record().expect("an event can be recorded");
            end.elapsed_since(&start).expect("the kernels succeed")
        });
    });
}

/// A matrix times a vector, along its rows and along its columns.
fn vector<T: MatMul + MatVec + Into<f64>>(
    group: &mut Group<'_>,
    stream: &Stream,
    name: &str,
    a: &DeviceArray<T, Ix2>,
    x: &Array1<T>,
) {
    let x = DeviceArray::from_ndarray(stream, x).expect("the vector fits");
    let mut y = DeviceArray::zeros(stream, x.len()).expect("the output fits");
    let bytes = size_of::<T>() * a.len();
    measure(
        group,
        BenchmarkId::new(format!("{name}_rows"), x.len()),
        stream,
        bytes,
        || a.matvec_into(&x, &mut y),
    );
    let transposed = a.t();
    measure(
        group,
        BenchmarkId::new(format!("{name}_columns"), x.len()),
        stream,
        bytes,
        || transposed.matvec_into(&x, &mut y),
    );
}

/// A product of two matrices of 16-bit floats, which are rounded to 11 or 8 bits at the end.
fn halves<T: MatMul + Into<f64>>(
    group: &mut Group<'_>,
    stream: &Stream,
    name: &str,
    [a, b]: [&Array2<f32>; 2],
    round: fn(f32) -> T,
) {
    let (a, b) = (a.mapv(round), b.mapv(round));
    let upload = |array| DeviceArray::from_ndarray(stream, array).expect("the inputs fit");
    let (x, y) = (upload(&a), upload(&b));
    product(group, name, (&x.view(), &y.view()), (&a, &b), 1e-2);
}

pub fn matmul(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("matmul");
    let mut rng = common::rng();
    for side in sides(&device) {
        let len = side * side;
        let (a, b) = (
            matrix(random_f32(len, &mut rng), side),
            matrix(random_f32(len, &mut rng), side),
        );
        let upload = |array| DeviceArray::from_ndarray(stream, array).expect("the inputs fit");
        let (x, y) = (upload(&a), upload(&b));
        product(&mut group, "f32", (&x.view(), &y.view()), (&a, &b), 1e-3);
        let (a_t, b_t) = (a.t().to_owned(), b.t().to_owned());
        product(&mut group, "f32_transposed_a", (&x.t(), &y.view()), (&a_t, &b), 1e-3);
        product(&mut group, "f32_transposed_b", (&x.view(), &y.t()), (&a, &b_t), 1e-3);
        vector(&mut group, stream, "vector_f32", &x, &a.row(0).to_owned());
        halves(&mut group, stream, "f16", [&a, &b], f16::from_f32);
        halves(&mut group, stream, "bf16", [&a, &b], bf16::from_f32);

        let (a, b) = (
            matrix(random_f64(len, &mut rng), side),
            matrix(random_f64(len, &mut rng), side),
        );
        let upload = |array| DeviceArray::from_ndarray(stream, array).expect("the inputs fit");
        let (x, y) = (upload(&a), upload(&b));
        product(&mut group, "f64", (&x.view(), &y.view()), (&a, &b), 1e-3);
        vector(&mut group, stream, "vector_f64", &x, &a.row(0).to_owned());
    }
    group.finish();
}
