// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accounts of a device's memory: what they say, the limit, and that nothing is lost.

use ndarray::{Array1, Axis, Ix1};
use proptest::prelude::RngExt;
use warpsmith::ops::{Border, Sum};
use warpsmith::{Device, DeviceArray, Error, PinnedArray, Result, Stream};

use crate::common::{device, rng};

/// The shared device opened once more: with accounts of its own.
fn own_device() -> Device {
    Device::named(&device().properties().id).unwrap()
}

fn bytes(stream: &Stream, len: usize) -> DeviceArray<u8, Ix1> {
    DeviceArray::zeros(stream, len).unwrap()
}

#[test]
fn arrays_are_counted_while_they_live() {
    let device = own_device();
    let stream = device.default_stream();
    let start = device.memory().unwrap();
    assert_eq!((start.allocated, start.peak, start.limit), (0, 0, None));
    assert_eq!(start.total, device.properties().total_memory);
    let x = bytes(stream, 1000);
    let large = bytes(stream, 3 << 20);
    let both = device.memory().unwrap();
    assert_eq!(both.allocated, 1000 + (3 << 20));
    assert!(both.reserved >= both.allocated, "{both:?}");
    assert!(both.free <= both.total);
    drop(large);
    let one = device.memory().unwrap();
    assert_eq!((one.allocated, one.peak), (1000, both.allocated));
    device.reset_peak();
    assert_eq!(device.memory().unwrap().peak, 1000);
    // What a sum borrows of its stream is counted too, and stays.
    bytes(stream, 1 << 19).sum().unwrap();
    assert!(device.memory().unwrap().allocated > 1000);
    assert_eq!(x.to_ndarray().unwrap(), Array1::zeros(1000));
}

#[test]
fn a_trim_gives_back_what_nobody_uses() {
    let device = own_device();
    let stream = device.create_stream().unwrap();
    device.trim().unwrap();
    let before = device.memory().unwrap().reserved;
    let arrays: Vec<_> = (0..64).map(|i| bytes(&stream, 100_000 + i)).collect();
    let x = bytes(&stream, 100);
    drop(arrays);
    assert!(device.memory().unwrap().reserved >= before + 6_400_000);
    device.trim().unwrap();
    let after = device.memory().unwrap();
    assert_eq!(after.allocated, 100);
    // A pool gives back whole pages of the system.
    assert!(after.reserved < before + (33 << 20), "{after:?}");
    assert_eq!(x.to_ndarray().unwrap(), Array1::zeros(100));
}

#[test]
fn a_limit_refuses_what_would_be_more() {
    let device = own_device();
    let stream = device.default_stream();
    device.set_memory_limit(Some(1 << 20));
    let x = bytes(stream, 1 << 19);
    let error = DeviceArray::<u8, Ix1>::zeros(stream, (1 << 19) + 1).unwrap_err();
    let said = error.to_string();
    let Error::OutOfMemory {
        wanted,
        allocated,
        limit,
        ..
    } = error
    else {
        panic!("{said}")
    };
    assert_eq!((wanted, allocated, limit), ((1 << 19) + 1, 1 << 19, Some(1 << 20)));
    assert!(
        said.contains("wanted 524289 bytes; 524288 are allocated of a limit of 1048576, "),
        "{said}"
    );
    assert_eq!(device.memory().unwrap().limit, limit);
    // Just what fits, and again when the first is gone.
    let y = bytes(stream, 1 << 19);
    assert!(x.try_clone().is_err());
    drop(x);
    let z = bytes(stream, 1 << 19);
    assert_eq!(device.memory().unwrap().allocated, 1 << 20);
    drop((y, z));
    device.set_memory_limit(None);
    drop(bytes(stream, 2 << 20));
    // What does not fit by far is no reason to count wrongly.
    device.set_memory_limit(Some(u64::MAX - 1));
    assert!(DeviceArray::<u8, Ix1>::zeros(stream, isize::MAX as usize).is_err());
    assert_eq!(device.memory().unwrap().allocated, 0);
}

#[test]
fn threads_keep_one_account() {
    let device = own_device();
    std::thread::scope(|scope| {
        for i in 0..4 {
            let device = &device;
            scope.spawn(move || {
                let stream = device.thread_stream().unwrap();
                assert_eq!(stream, device.thread_stream().unwrap());
                assert_ne!(stream, *device.default_stream());
                let mut kept = Vec::new();
                for j in 0..500 {
                    kept.push(bytes(&stream, 1 + (i + j) % 7 * 1000));
                    if j % 3 == 0 {
                        kept.clear();
                    }
                }
            });
        }
    });
    assert_eq!(device.memory().unwrap().allocated, 0);
}

/// Only where it was asked for, when the device was opened; tests/driver.rs asks.
#[test]
fn without_the_variable_there_is_no_ledger() {
    if std::env::var_os(warpsmith::TRACE_VARIABLE).is_none() {
        assert!(own_device().live_allocations().is_none());
    }
}

/// One of the library's operations, an error among them.
fn operation(kind: usize, len: usize, device: &Device, stream: &Stream, x: &mut DeviceArray<f32, Ix1>) -> Result<()> {
    match kind {
        0 => *x = DeviceArray::from_ndarray(stream, &Array1::ones(len))?,
        1 => *x = x.exp()?.ln()?,
        2 => drop(x.sum()?),
        3 => drop(x.inclusive_scan::<Sum>()?),
        4 => drop(x.histogram(10, 0.0..=2.0)?),
        5 => *x = x.try_clone()?.into_stream(&device.create_stream()?)?,
        6 => drop(x.add(&DeviceArray::zeros(stream, x.len())?)?),
        7 => drop(x.download_async()?),
        8 => drop(DeviceArray::upload_async(
            stream,
            PinnedArray::<u8, _>::zeros(device, len)?,
        )?),
        9 => drop(x.add(&DeviceArray::zeros(stream, x.len() + 2)?)?), // of another shape
        10 => drop(DeviceArray::<u8, _>::zeros(stream, (1 << 40, 8))?), // more than there is
        11 => drop(x.try_clone()?.into_shape((len, 3))?),
        12 => drop(x.reduce_axis::<Sum>(Axis(0))?),
        13 => drop(DeviceArray::<u8, _>::zeros(stream, (5, 6, 3))?.gaussian_blur(-1.0, Border::Mean)?),
        _ => drop(x.to_device(Device::simulator().default_stream())?),
    }
    Ok(())
}

fn random_operations_leave_nothing(count: usize) {
    let device = own_device();
    device.trim().unwrap();
    let before = device.memory().unwrap();
    let (mut rng, mut errors) = (rng(15), 0);
    for _ in 0..count / 1000 {
        let streams = [device.create_stream().unwrap(), device.create_stream().unwrap()];
        let mut arrays: Vec<_> = (0..4).map(|_| DeviceArray::zeros(&streams[0], 10).unwrap()).collect();
        for _ in 0..1000 {
            let (kind, len) = (rng.random_range(0..15), rng.random_range(1..2000));
            let stream = &streams[rng.random_range(0..2)];
            let array = &mut arrays[rng.random_range(0..4)];
            errors += usize::from(operation(kind, len, &device, stream, array).is_err());
        }
        drop(arrays);
    }
    assert!(errors > count / 10, "{errors} errors");
    assert_eq!(device.memory().unwrap().allocated, before.allocated);
    device.trim().unwrap();
    assert_eq!(device.memory().unwrap().reserved, before.reserved);
}

#[test]
fn thousands_of_random_operations_leave_nothing() {
    random_operations_leave_nothing(4000);
}

#[test]
#[ignore = "takes a minute or more"]
fn a_hundred_thousand_random_operations_leave_nothing() {
    random_operations_leave_nothing(100_000);
}
