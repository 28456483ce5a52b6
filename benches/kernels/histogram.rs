// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of 256 bins: `n` elements moved. Random elements, and all of them equal, which are to take about as long.

use crate::common::{self, measure, random_f32};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use ndarray::{Array1, Ix1};
use proptest::prelude::RngExt;
use warpsmith::ops::Histogram;
use warpsmith::{DeviceArray, Stream};

const BINS: usize = 256;

fn run<T: Histogram>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stream: &Stream,
    name: &str,
    x: &Array1<T>,
    (lo, hi): (f64, f64),
) {
    let on_device = DeviceArray::from_ndarray(stream, x).expect("the input fits");
    let mut counts = DeviceArray::<u64, Ix1>::zeros(stream, BINS).expect("the output fits");
    on_device
        .histogram_into(lo..=hi, &mut counts)
        .expect("the operation succeeds");
    let mut wanted = vec![0u64; BINS];
    // The limits are such that the bins are 2^-8 or 1 wide, so that this is exact.
    for x in x {
        wanted[(((x.to_f64() - lo) * BINS as f64 / (hi - lo)) as usize).min(BINS - 1)] += 1;
    }
    let counted = counts.to_ndarray().expect("the result can be read");
    assert!(counted.as_slice() == Some(&wanted[..]), "{name} counts something else");
    measure(
        group,
        BenchmarkId::new(name, x.len()),
        stream,
        size_of::<T>() * x.len(),
        || on_device.histogram_into(lo..=hi, &mut counts),
    );
}

pub fn histogram(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("histogram");
    let mut rng = common::rng();
    for len in common::sizes(&device, 1) {
        let random = Array1::from_shape_simple_fn(len, || rng.random::<u8>());
        run(&mut group, stream, "random_u8", &random, (0.0, 256.0));
        run(
            &mut group,
            stream,
            "equal_u8",
            &Array1::from_elem(len, 100u8),
            (0.0, 256.0),
        );
    }
    for len in common::sizes(&device, 4) {
        let random = Array1::from_shape_simple_fn(len, || i32::from(rng.random::<u8>()) - 128);
        run(&mut group, stream, "random_i32", &random, (-128.0, 128.0));
        run(
            &mut group,
            stream,
            "equal_i32",
            &Array1::from_elem(len, 100i32),
            (-128.0, 128.0),
        );
        run(&mut group, stream, "random_f32", &random_f32(len, &mut rng), (0.5, 1.5));
        run(
            &mut group,
            stream,
            "equal_f32",
            &Array1::from_elem(len, 1.1f32),
            (0.5, 1.5),
        );
    }
    group.finish();
}
