// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of layers of networks and their gradients, in which throughput is counted in operations: two for each output, tap and
//! channel, reported as elements.

use crate::common;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use ndarray::Ix4;
use warpsmith::ops::{CastTo, Convolve};
use warpsmith::{Device, DeviceArray, Generator, Result, Stream, bf16};

/// A layer: images, rows and columns, channels, outputs, taps along each axis, stride, groups.
type Layer = [usize; 7];

/// Layers of ResNet-50, and a depthwise one. The simulated GPU gets a small one.
fn layers(device: &Device) -> Vec<Layer> {
    match device.is_simulator() {
        true => vec![[1, 4, 32, 32, 3, 1, 1]],
        false => vec![
            [64, 56, 128, 128, 3, 1, 1],
            [64, 56, 64, 64, 3, 1, 1],
            [64, 14, 512, 512, 3, 1, 1],
            [64, 56, 128, 128, 3, 2, 1],
            [64, 56, 128, 128, 3, 1, 128],
        ],
    }
}

fn measure<T: Convolve>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    stream: &Stream,
    compute: impl Fn() -> Result<DeviceArray<T, Ix4>>,
) {
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|iterations| {
            let start = stream.record().expect("an event can be recorded");
            (0..iterations)
                .try_for_each(|_| compute().map(drop))
                .expect("the launch that was checked succeeds again");
            let end = stream.record().expect("an event can be recorded");
            end.elapsed_since(&start).expect("the kernels succeed")
        });
    });
}

fn run<T: Convolve + Into<f64>>(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device, name: &str)
where
    f32: CastTo<T>,
{
    let stream = device.default_stream();
    let mut generator = Generator::new(1);
    for layer @ [images, edge, channels, outputs, taps, stride, groups] in layers(device) {
        let mut random = |shape: [usize; 4]| -> DeviceArray<T, Ix4> {
            let numbers = generator
                .uniform(stream, shape, -1.0f32..1.0)
                .expect("the operands fit");
            numbers.cast().expect("the operands fit")
        };
        let x = random([images, edge, edge, channels]);
        let weights = random([outputs, taps, taps, channels / groups]);
        let of = x.convolve(&weights).stride(stride).padding(taps / 2).groups(groups);
        let out = of.compute().expect("the operation succeeds");
        check(layer, [&x, &weights, &out]);
        let [a, b, c, d] = [0, 1, 2, 3].map(|axis| out.shape()[axis]);
        let gradient = random([a, b, c, d]);
        let products = out.len() * weights.len() / outputs;
        group.throughput(Throughput::Elements(2 * products as u64));
        let shape = format!("{images}x{edge}x{edge}x{channels}-{outputs}_{taps}x{taps}_s{stride}_g{groups}");
        let id = |what: &str| BenchmarkId::new(format!("{name}_{what}"), &shape);
        measure(group, id("forward"), stream, || of.compute());
        measure(group, id("input_gradient"), stream, || of.input_gradient(&gradient));
        measure(group, id("weight_gradient"), stream, || of.weight_gradient(&gradient));
    }
}

/// Checks the second place of the second image, or the only one, in all outputs.
fn check<T: Convolve + Into<f64>>(
    [images, _, channels, outputs, taps, stride, groups]: Layer,
    operands: [&DeviceArray<T, Ix4>; 3],
) {
    let [x, weights, out] = operands.map(|x| x.to_ndarray().expect("it can be read").mapv(Into::<f64>::into));
    let (image, inner, outer) = (images - 1, channels / groups, outputs / groups);
    for output in 0..outputs {
        let mut sum = 0.0;
        for (row, column) in (0..taps).flat_map(|row| (0..taps).map(move |column| (row, column))) {
            let at = |tap: usize| (stride + tap).checked_sub(taps / 2);
            let (Some(y), Some(x_at)) = (at(row), at(column)) else {
                continue;
            };
            for channel in 0..inner {
                sum += x[[image, y, x_at, output / outer * inner + channel]] * weights[[output, row, column, channel]];
            }
        }
        // Rounded to 8 bits at least, of sums that are seldom beyond 200.
        let got = out[[image, 1, 1, output]];
        assert!((got - sum).abs() < 0.01 * sum.abs() + 0.01, "{got}, wanted {sum}");
    }
}

pub fn convolve(criterion: &mut Criterion) {
    let device = common::device();
    let mut group = criterion.benchmark_group("convolve");
    run::<bf16>(&mut group, &device, "bf16");
    run::<f32>(&mut group, &device, "f32");
    group.finish();
}
