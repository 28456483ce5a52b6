// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays that are made on the device: `n` elements written. What random numbers fall short of `fill` is arithmetic.

use crate::common::{self, measure};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use ndarray::Ix1;
use warpsmith::{Device, DeviceArray, Element, Generator, Result};

type Vector<T> = DeviceArray<T, Ix1>;

/// Measures what writes an array of `len` elements, whose mean it has to be near.
fn run<T: Element + Into<f64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    device: &Device,
    name: &str,
    mean: f64,
    mut make: impl FnMut(&mut Vector<T>) -> Result<()>,
) {
    for len in common::sizes(device, size_of::<T>()) {
        let mut out = DeviceArray::zeros(device.default_stream(), len).expect("the output fits");
        make(&mut out).expect("the operation succeeds");
        let result = out.to_ndarray().expect("the result can be read");
        let found = result.iter().map(|&x| x.into()).sum::<f64>() / len as f64;
        assert!((found - mean).abs() < 0.05, "{name} has a mean of {found}");
        let id = BenchmarkId::new(name, len);
        let bytes = size_of::<T>() * len;
        measure(group, id, device.default_stream(), bytes, || make(&mut out));
    }
}

pub fn random(criterion: &mut Criterion) {
    let device = common::device();
    let mut group = criterion.benchmark_group("random");
    let group = &mut group;
    let mut generator = Generator::new(1);
    run(group, &device, "fill_f32", 1.5, |out: &mut Vector<f32>| out.fill(1.5));
    run(group, &device, "uniform_f32", 0.5, |out| {
        generator.uniform_into(0.0f32..1.0, out)
    });
    run(group, &device, "uniform_f64", 0.5, |out| {
        generator.uniform_into(0.0f64..1.0, out)
    });
    run(group, &device, "normal_f32", 1.0, |out| {
        generator.normal_into(1.0f32, 2.0, out)
    });
    run(group, &device, "normal_f64", 1.0, |out| {
        generator.normal_into(1.0f64, 2.0, out)
    });
    run(group, &device, "integers_i32", 4.5, |out| {
        generator.integers_into(0..10i32, out)
    });
    run(group, &device, "bernoulli", 0.25, |out| {
        generator.bernoulli_into(0.25, out)
    });
}
