// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two GPUs at once. Where there are fewer, the same between two simulated ones, and what wants real ones says that it is
//! left out.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ndarray::{Array1, Array2, Axis, array};
use warpsmith::{Device, DeviceArray, Error, Generator, ops};

use crate::common::device;

/// The first two GPUs, if the tests are run on GPUs and there are two.
fn two_gpus(test: &str) -> Option<[Device; 2]> {
    if device().is_simulator() {
        println!("{test}: left out, as the device is {}", device().properties().id);
        return None;
    }
    let count = Device::list().unwrap().len() - 1;
    if count < 2 {
        println!("{test}: left out, as there is {count} GPU, and it wants two");
        return None;
    }
    Some([0, 1].map(|ordinal| Device::cuda(ordinal).expect("a GPU that is listed can be opened")))
}

/// Two GPUs, or else two simulated ones.
fn two_devices(test: &str) -> [Device; 2] {
    two_gpus(test).unwrap_or_else(|| [Device::simulator(), Device::simulator()])
}

fn numbers(len: usize) -> Array1<u32> {
    Array1::from_shape_fn(len, |i| (i as u32).wrapping_mul(2_654_435_761))
}

#[test]
fn arrays_know_their_device_and_errors_say_how_to_copy() {
    let [one, other] = two_devices("arrays_know_their_device_and_errors_say_how_to_copy");
    let x = DeviceArray::from_ndarray(one.default_stream(), &array![1.0f32, 2.0, 3.0]).unwrap();
    let y = DeviceArray::from_ndarray(other.default_stream(), &array![10.0f32, 20.0, 30.0]).unwrap();
    assert_eq!(x.stream().device_id(), one.properties().id);
    assert_eq!(y.stream().device_id(), other.properties().id);
    assert_eq!(x.exp().unwrap().stream(), one.default_stream());
    let errors = [
        x.add(&y).map(drop),
        ops::concatenate(Axis(0), &[x.view(), y.view()]).map(drop),
        x.dot(&y).map(drop),
    ];
    for error in errors {
        let error = error.unwrap_err();
        assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(y.stream().device_id()), "{message}");
        assert!(message.contains("`to_device` copies arrays"), "{message}");
    }
    let y = y.to_device(x.stream()).unwrap();
    assert_eq!(x.add(&y).unwrap().to_ndarray().unwrap(), array![11.0, 22.0, 33.0]);
}

/// Copies of several sizes there and back, each behind what makes its source and ahead of what uses its result, with
/// nobody waiting in between.
#[test]
fn copies_between_two_devices_are_ordered() {
    let [one, other] = two_devices("copies_between_two_devices_are_ordered");
    for len in [0, 1, 1000, (1 << 20) + 3] {
        let x = DeviceArray::from_ndarray(one.default_stream(), &numbers(len)).unwrap();
        let stream = other.create_stream().unwrap();
        let mut there = x.add_scalar(1).unwrap().to_device(&stream).unwrap();
        drop(x);
        there.add_assign_scalar(1).unwrap();
        let mut back = there.to_device(one.default_stream()).unwrap();
        // The copy has what was there when it was queued.
        there.fill(7).unwrap();
        drop((there, stream));
        back.add_assign_scalar(1).unwrap();
        assert!(back.to_ndarray().unwrap() == numbers(len) + 3, "{len}");
    }
    let matrix = Array2::from_shape_fn((300, 70), |(i, j)| (1000 * i + j) as f64);
    let x = DeviceArray::from_ndarray(one.default_stream(), &matrix).unwrap();
    let there = x.to_device(other.default_stream()).unwrap();
    assert_eq!(there.t().to_array().unwrap().to_ndarray().unwrap(), matrix.t());
}

/// A thread for each device, with work of its own and copies to the other.
#[test]
fn two_devices_work_at_once_from_threads() {
    let devices = two_devices("two_devices_work_at_once_from_threads");
    let start = Barrier::new(devices.len());
    thread::scope(|scope| {
        for (i, here) in devices.iter().enumerate() {
            let (there, start) = (&devices[1 - i], &start);
            scope.spawn(move || {
                let stream = here.thread_stream().unwrap();
                start.wait();
                for round in 0..20 {
                    let host = numbers(10_000 + round) / 4;
                    let x = DeviceArray::from_ndarray(&stream, &host).unwrap();
                    let there = x.to_device(&there.thread_stream().unwrap()).unwrap();
                    let sum = x.sum().unwrap();
                    assert_eq!(sum, host.iter().map(|&x| u64::from(x)).sum());
                    assert_eq!(there.max().unwrap(), host.iter().copied().max().unwrap());
                    let back = there.to_device(&stream).unwrap();
                    assert!(back.to_ndarray().unwrap() == host);
                }
            });
        }
    });
}

/// The same random numbers and results on both, bit for bit.
#[test]
fn two_gpus_compute_the_same() {
    let Some(devices) = two_gpus("two_gpus_compute_the_same") else {
        return;
    };
    let of = |device: &Device| {
        let matrix = Generator::new(5)
            .standard_normal::<f32, _>(device.default_stream(), (1 << 10, 1 << 10))
            .unwrap();
        let product = matrix.matmul(&matrix.t()).unwrap();
        (matrix.sum().unwrap().to_bits(), product.to_ndarray().unwrap())
    };
    assert!(of(&devices[0]) == of(&devices[1]));
}

/// Work that one thread queues on both takes about as long as on one of them, not twice that.
#[test]
fn two_gpus_run_side_by_side() {
    let Some(devices) = two_gpus("two_gpus_run_side_by_side") else {
        return;
    };
    let x = devices
        .each_ref()
        .map(|device| DeviceArray::<f32, _>::ones(device.default_stream(), (4096, 4096)).unwrap());
    let time = |of: &[DeviceArray<f32, _>]| {
        let start = Instant::now();
        for _ in 0..20 {
            for x in of {
                x.matmul(x).unwrap();
            }
        }
        for x in of {
            x.stream().synchronize().unwrap();
        }
        start.elapsed()
    };
    time(&x); // kernels are loaded when they are first used
    let best = |of: &[DeviceArray<f32, _>]| (0..5).map(|_| time(of)).min().unwrap_or(Duration::MAX);
    let (one, both) = (best(&x[..1]), best(&x));
    assert!(both < one.mul_f64(1.5), "{both:?} on both, {one:?} on one");
}
