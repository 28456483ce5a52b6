// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the benchmarks share: sizes, random inputs, and timing by the device's own events.
//!
//! They run on the device that `WARPSMITH_DEVICE` names, or the one that `Device::auto` finds. Inputs and outputs are
//! allocated once; each result is checked before it is timed.

use std::time::Duration;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use ndarray::Array1;
use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use warpsmith::{Device, Stream};

/// The device that is measured.
pub fn device() -> Device {
    Device::auto().expect("the device can be opened")
}

/// How long and how often a case is timed: 30 times, beyond the 20 that a median wants here.
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

/// The numbers of elements to measure, where each takes `bytes` bytes of device memory in all arrays together: one that
/// fits into the L2 cache, one that does not, and one that is all about bandwidth. The simulated GPU gets a small one.
pub fn sizes(device: &Device, bytes: usize) -> Vec<usize> {
    if device.is_simulator() {
        return vec![1 << 16];
    }
    let free = device.memory().expect("the driver tells the free memory").free as usize;
    [1 << 20, 1 << 24, 1 << 28]
        .into_iter()
        .filter(|size| size * bytes < free / 10 * 9)
        .collect()
}

/// A generator of random numbers, the same on every run.
pub fn rng() -> TestRng {
    TestRng::from_seed(RngAlgorithm::XorShift, &[7; 16])
}

/// Numbers from 0.5 to 1.5.
pub fn random_f32(len: usize, rng: &mut TestRng) -> Array1<f32> {
    Array1::from_shape_simple_fn(len, || rng.random::<f32>() + 0.5)
}

/// Numbers from 0.5 to 1.5.
pub fn random_f64(len: usize, rng: &mut TestRng) -> Array1<f64> {
    Array1::from_shape_simple_fn(len, || rng.random::<f64>() + 0.5)
}

/// Measures `launch`, which moves at least `bytes` bytes, in a row of launches between two events of the stream.
///
/// Where the host takes longer to launch a kernel than the GPU to run it, what is measured is the host: the GPU waits
/// for each launch. `warpsmith bench` gives the GPU a head start, and so measures kernels of a few microseconds.
pub fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    stream: &Stream,
    bytes: usize,
    mut launch: impl FnMut() -> warpsmith::Result<()>,
) {
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|iterations| {
            let start = stream.record().expect("an event can be recorded");
            (0..iterations)
                .try_for_each(|_| launch())
                .expect("the launch that was checked succeeds again");
            let end = stream.record().expect("an event can be recorded");
            end.elapsed_since(&start).expect("the kernels succeed")
        });
    });
}
