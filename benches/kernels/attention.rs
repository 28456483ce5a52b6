// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention, in which throughput is counted in operations, reported as elements: `4 d` for each pair of a query and a key that it sees,
//! `10 d` with gradients. That of one query for each of many sequences is counted in the bytes of keys and values.

use crate::common;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use ndarray::{Array4, Ix4, arr1, s};
use std::ops::Range;
use warpsmith::ops::{Attend, Attention, CastTo, Sequences};
use warpsmith::{Device, DeviceArray, Generator, bf16, f16};

/// Positions before its own that a query sees through a window.
const WINDOW: usize = 128;

/// Batch, heads, positions, head dimension.
type Shape = [usize; 4];

/// A shape that is all about operations, and one of few long heads. The simulated GPU gets a small one.
fn shapes(device: &Device, dim: usize, is_wide: bool) -> Vec<Shape> {
    match device.is_simulator() {
        true => vec![[1, 1, 64, dim]],
        // Of f32, which ordinary cores do.
        false if is_wide => vec![[2, 8, 2048, dim]],
        false => vec![[4, 16, 4096, dim], [1, 16, 16384, dim]],
    }
}

/// The query that is checked, of so many.
fn checked_row(positions: usize) -> usize {
    positions / 2 + 1
}

/// Checks one query of the last head.
fn check<T: Attend + Into<f64>>([q, k, v, out]: [&DeviceArray<T, Ix4>; 4], causal: bool) {
    let [batch, heads, positions, dim] = *q.shape() else {
        unreachable!("four axes")
    };
    let row = checked_row(positions);
    let lines = |x: &DeviceArray<T, Ix4>| {
        let head = x.slice(s![batch - 1, heads - 1, .., ..]).expect("there is one");
        head.to_ndarray().expect("the head can be read").mapv(Into::<f64>::into)
    };
    let [q, k, v, out] = [q, k, v, out].map(lines);
    let seen = if causal { row + 1 } else { k.nrows() };
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
    for shape in shapes(device, dim, size_of::<T>() == 4) {
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

/// What an attention has besides its operands: a bias that is a mask, of which the second half of the keys is hidden, and for gradients a
/// random one, lengths of keys, a window, and 16 packed sequences.
fn forms<T: Attend + Into<f64>>(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device, name: &str, dim: usize)
where
    f32: CastTo<T>,
{
    let stream = device.default_stream();
    let [batch, heads, positions] = if device.is_simulator() {
        [4, 1, 64]
    } else {
        [4, 16, 4096]
    };
    let mut generator = Generator::new(1);
    let mut random = |shape: [usize; 4]| {
        let numbers = generator.uniform(stream, shape, -1.0f32..1.0).expect("the inputs fit");
        numbers.cast::<T>().expect("the inputs fit")
    };
    let shape = [batch, heads, positions, dim];
    let [q, k, v] = [random(shape), random(shape), random(shape)];
    let mask = Array4::from_shape_fn([1, 1, positions, positions], |(.., key)| {
        T::narrow(if key < positions / 2 { 0.0 } else { f32::NEG_INFINITY })
    });
    let mask = DeviceArray::from_ndarray(stream, &mask).expect("the mask fits");
    let bias = random([1, 1, positions, positions]);
    let lengths = [positions, positions * 3 / 4, positions / 2, positions / 4];
    let of_keys = DeviceArray::from_ndarray(stream, &arr1(&lengths.map(|n| n as u32))).expect("the lengths fit");
    let in_one = [1, heads, batch * positions, dim];
    let [x, y, z] = [random(in_one), random(in_one), random(in_one)];
    let each = positions / 4;
    let sequences = Sequences::new(stream, &[each; 16]).expect("they are in order");

    let with_bias = || q.attention(&k, &v).bias(&mask);
    let with_lengths = || q.attention(&k, &v).key_lengths(&of_keys);
    let with_window = || q.attention(&k, &v).causal().window(Some(WINDOW), None);
    let packed = || x.attention(&y, &z).packed(&sequences);
    let all = 0..positions;
    check_part([&q, &k, &v], with_bias(), 0, [all.clone(), 0..positions / 2]);
    check_part([&q, &k, &v], with_lengths(), 3, [all.clone(), 0..lengths[3]]);
    let row = checked_row(positions);
    check_part(
        [&q, &k, &v],
        with_window(),
        0,
        [all, row.saturating_sub(WINDOW)..row + 1],
    );
    check_part([&x, &y, &z], packed(), 0, [each..2 * each, each..2 * each]);

    let of_head = 4 * (heads * dim) as u64;
    let pairs = |keys: usize| (positions * keys) as u64;
    let size = format!("{batch}x{heads}x{positions}");
    let name = |form: &str| format!("{name}_d{dim}_{form}");
    group.throughput(Throughput::Elements(of_head * batch as u64 * pairs(positions)));
    time(group, device, &name("bias"), &size, || with_bias().compute().map(drop));
    let added = || q.attention(&k, &v).bias(&bias);
    let (out, log_sums) = added().compute_with_log_sum_exp().expect("the operation succeeds");
    group.throughput(Throughput::Elements(of_head * batch as u64 * pairs(positions) * 10 / 4));
    time(group, device, &format!("gradients_{}", name("bias")), &size, || {
        added().gradients(&out, &log_sums, &q).map(drop)
    });
    group.throughput(Throughput::Elements(of_head * batch as u64 * pairs(positions)));
    time(group, device, &format!("bias_gradient_{}", name("bias")), &size, || {
        added().bias_gradient(&out, &log_sums, &q).map(drop)
    });
    group.throughput(Throughput::Elements(of_head * pairs(lengths.iter().sum())));
    time(group, device, &name("lengths"), &size, || {
        with_lengths().compute().map(drop)
    });
    let (out, log_sums) = with_lengths()
        .compute_with_log_sum_exp()
        .expect("the operation succeeds");
    group.throughput(Throughput::Elements(of_head * pairs(lengths.iter().sum()) * 10 / 4));
    time(group, device, &format!("gradients_{}", name("lengths")), &size, || {
        with_lengths().gradients(&out, &log_sums, &q).map(drop)
    });
    let in_windows: usize = (0..positions).map(|row| row.min(WINDOW) + 1).sum();
    group.throughput(Throughput::Elements(of_head * (batch * in_windows) as u64));
    time(group, device, &name("window"), &size, || {
        with_window().compute().map(drop)
    });
    group.throughput(Throughput::Elements(of_head * pairs(positions)));
    let size = format!("1x{heads}x16x{each}");
    time(group, device, &name("packed"), &size, || packed().compute().map(drop));
    let (out, log_sums) = packed().compute_with_log_sum_exp().expect("the operation succeeds");
    group.throughput(Throughput::Elements(of_head * pairs(positions) * 10 / 4));
    time(group, device, &format!("gradients_{}", name("packed")), &size, || {
        packed().gradients(&out, &log_sums, &x).map(drop)
    });
}

/// Checks a query of the last head of a problem, where those of some lines see all keys of others.
fn check_part<T: Attend + Into<f64>>(
    [q, k, v]: [&DeviceArray<T, Ix4>; 3],
    attention: Attention<'_, T>,
    problem: usize,
    [queries, keys]: [Range<usize>; 2],
) {
    let out = attention.compute().expect("the operation succeeds");
    let part = |x: &DeviceArray<T, Ix4>, lines: &Range<usize>| {
        let part = x.slice(s![problem..problem + 1, .., lines.clone(), ..]);
        part.and_then(|part| part.to_array()).expect("a part fits")
    };
    let operands = [part(q, &queries), part(k, &keys), part(v, &keys), part(&out, &queries)];
    check(operands.each_ref(), false);
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

/// One query of each of so many sequences, whose heads of keys are shared by so many.
fn decode<T: Attend + Into<f64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    device: &Device,
    name: &str,
    batch: usize,
    sharing: usize,
) where
    f32: CastTo<T>,
{
    let stream = device.default_stream();
    let (batch, heads, keys, dim) = if device.is_simulator() {
        (1, 1, 512, 128)
    } else {
        (batch, 8, 8192, 128)
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
    for dim in [64, 128, 256] {
        run::<f32>(&mut group, &device, "f32", dim);
    }
    for dim in [64, 128] {
        forms::<bf16>(&mut group, &device, "bf16", dim);
    }
    for (batch, sharing) in [(64, 1), (64, 4), (64, 8), (2, 1), (2, 4)] {
        decode::<bf16>(&mut group, &device, "bf16", batch, sharing);
    }
    group.finish();
}
