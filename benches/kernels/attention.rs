// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention, in which throughput is counted in operations, reported as elements: `4 d` for each pair of a query and a key that it sees,
//! `10 d` with gradients. That of one query for each of many sequences is counted in the bytes of keys and values.

use crate::common;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use ndarray::{Ix4, s};
use warpsmith::ops::{Attend, CastTo};
use warpsmith::{Device, DeviceArray, Generator, bf16, f16};

/// Batch, heads, positions, head dimension.
type Shape = [usize; 4];

/// A shape that is all about operations, and one of few long heads. The simulated GPU gets a small one.
fn shapes(device: &Device, dim: usize) -> Vec<Shape> {
    match device.is_simulator() {
        true => vec![[1, 1, 64, dim]],
        false => vec![[4, 16, 4096, dim], [1, 16, 16384, dim]],
    }
}

/// Checks one query of the last head.
fn check<T: Attend + Into<f64>>([q, k, v, out]: [&DeviceArray<T, Ix4>; 4], causal: bool) {
    let [batch, heads, positions, dim] = *q.shape() else {
        unreachable!("four axes")
    };
    let row = positions / 2 + 1;
    let lines = |x: &DeviceArray<T, Ix4>| {
        let head = x.slice(s![batch - 1, heads - 1, .., ..]).expect("there is one");
        head.to_ndarray().expect("the head can be read").mapv(Into::<f64>::into)
    };
    let [q, k, v, out] = [q, k, v, out].map(lines);
    let seen = if causal { row + 1 } else { positions };
    let (k, v) = (k.slice(s![..seen, ..]), v.slice(s![..seen, ..]));
    let weights = (k.dot(&q.row(row)) / (dim as f64).sqrt()).exp();
    let wanted = weights.dot(&v) / weights.sum();
    for (got, wanted) in out.row(row).iter().zip(&wanted) {
        // Values are at most 1, and so is their mean; of 16 bits it is rounded to 8 of them at least, and so are weights.
        assert!((got - wanted).abs() < 1e-2, "{got}, wanted {wanted}");
    }
}

fn run<T: Attend + Into<f64>>(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device, name: &str, dim: usize)
where
    f32: CastTo<T>,
{
    let stream = device.default_stream();
    let mut generator = Generator::new(1);
    for shape in shapes(device, dim) {
        let mut random = || {
            let numbers = generator.uniform(stream, shape, -1.0f32..1.0).expect("the inputs fit");
            numbers.cast::<T>().expect("the inputs fit")
        };
        let [q, k, v] = [random(), random(), random()];
        for causal in [false, true] {
            let of = || match causal {
                true => q.attention(&k, &v).causal(),
                false => q.attention(&k, &v),
            };
            let attention = || of().compute();
            check([&q, &k, &v, &attention().expect("the operation succeeds")], causal);
            let [batch, heads, positions, dim] = shape.map(|n| n as u64);
            let pairs = if causal {
                positions * (positions + 1) / 2
            } else {
                positions * positions
            };
            group.throughput(Throughput::Elements(4 * batch * heads * dim * pairs));
            let name = format!("{name}_d{dim}{}", if causal { "_causal" } else { "" });
            let size = format!("{batch}x{heads}x{positions}");
            time(group, device, &name, &size, || attention().map(drop));
            let (out, log_sums) = of().compute_with_log_sum_exp().expect("the operation succeeds");
            group.throughput(Throughput::Elements(10 * batch * heads * dim * pairs));
            let gradients = || of().gradients(&out, &log_sums, &q).map(drop);
            time(group, device, &format!("gradients_{name}"), &size, gradients);
        }
    }
}

/// Times a call.
fn time(
    group: &mut BenchmarkGroup<'_, WallTime>,
    device: &Device,
    name: &str,
    size: &str,
    call: impl Fn() -> warpsmith::Result<()>,
) {
    let stream = device.default_stream();
    call().expect("the operation succeeds");
    group.bench_function(BenchmarkId::new(name, size), |bencher| {
        bencher.iter_custom(|iterations| {
            let start = stream.record().expect("an event can be recorded");
            (0..iterations)
                .try_for_each(|_| call())
                .expect("the launch that was checked succeeds again");
            let end = stream.record().expect("an event can be recorded");
            end.elapsed_since(&start).expect("the kernels succeed")
        });
    });
}

/// One query of each of 64 sequences, whose heads of keys are shared by so many.
fn decode<T: Attend + Into<f64>>(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device, name: &str, sharing: usize)
where
    f32: CastTo<T>,
{
    let stream = device.default_stream();
    let (batch, heads, keys, dim) = if device.is_simulator() {
        (1, 1, 512, 128)
    } else {
        (64, 8, 8192, 128)
    };
    let mut generator = Generator::new(1);
    let mut random = |shape: [usize; 4]| {
        let numbers = generator.uniform(stream, shape, -1.0f32..1.0).expect("the inputs fit");
        numbers.cast::<T>().expect("the inputs fit")
    };
    let q = random([batch, heads * sharing, 1, dim]);
    let (k, v) = (random([batch, heads, keys, dim]), random([batch, heads, keys, dim]));
    let bytes = 2 * batch * heads * keys * dim * size_of::<T>();
    group.throughput(Throughput::Bytes(bytes as u64));
    let name = format!("decode_{name}_d{dim}");
    let size = format!("{batch}x{}x{heads}x{keys}", heads * sharing);
    time(group, device, &name, &size, || q.attention(&k, &v).compute().map(drop));
}

pub fn attention(criterion: &mut Criterion) {
    let device = common::device();
    let mut group = criterion.benchmark_group("attention");
    for dim in [64, 128] {
        run::<bf16>(&mut group, &device, "bf16", dim);
    }
    run::<f16>(&mut group, &device, "f16", 128);
    run::<f32>(&mut group, &device, "f32", 64);
    for sharing in [1, 4, 8] {
        decode::<bf16>(&mut group, &device, "bf16", sharing);
    }
    group.finish();
}
