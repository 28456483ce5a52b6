// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated GPU with checks, as users have it; these kernels are not compiled to PTX. What the checks find, and what
//! not, is in crates/cuda_std/tests/checks.

use cuda_std::prelude::*;
use kernels_gpu::op::Sum;
use ndarray::{Array1, Array2};
use warpsmith::{Checks, Device, DeviceArray, Error, LaunchConfig};

/// Counts without atomics.
#[kernel]
pub fn count(numbers: &[u32], counts: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < numbers.len() {
        let at = numbers[i] as usize;
        let count = counts.get(at);
        counts.set(at, count + 1);
    }
}

/// Sums of neighbours, of which the last is of what nobody has brought.
#[kernel(max_threads = 64)]
pub fn neighbours(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; 65];
    let i = thread::thread_idx_x() as usize;
    tile.set(i, x[i]);
    thread::sync_threads();
    out.set(i, tile.get(i) + tile.get(i + 1));
}

#[test]
fn a_fault_names_the_array_and_both_lines_and_leaves_a_device_that_works() {
    let device = Device::checked_simulator(Checks::ALL);
    let stream = device.default_stream();
    let numbers = DeviceArray::from_ndarray(stream, &Array1::from_elem(64, 5_u32)).unwrap();
    let mut counts = DeviceArray::<u32, _>::zeros(stream, 8).unwrap();
    let config = LaunchConfig::new(2, 32);
    let error = stream.launch::<count>(&config, (&numbers, &mut counts)).unwrap_err();
    let Error::Fault(fault) = &error else {
        panic!("{error}");
    };
    let wanted = "data race on element 5 (of 4 bytes) of an array in global memory: this ";
    assert!(fault.message.starts_with(wanted), "{error}");
    assert_eq!(fault.message.matches("tests/checks.rs:").count(), 1, "{error}");
    assert!(
        fault.location.as_ref().unwrap().file.ends_with("tests/checks.rs"),
        "{error}"
    );
    assert_eq!(numbers.sum().unwrap(), 320);
}

#[test]
fn uninitialised_memory() {
    let x = Array1::from_elem(64, 1.0_f32);
    let launch = |checks| {
        let device = Device::checked_simulator(checks);
        let stream = device.default_stream();
        let mut out = DeviceArray::<f32, _>::zeros(stream, 64).unwrap();
        let x = DeviceArray::from_ndarray(stream, &x).unwrap();
        stream.launch::<neighbours>(&LaunchConfig::new(1, 64), (&x, &mut out))
    };
    launch(Checks::NONE).unwrap();
    let error = launch(Checks::ALL).unwrap_err().to_string();
    assert!(
        error.contains("uninitialised: byte 256 of the shared array at"),
        "{error}"
    );
}

/// One of each family that has threads work together; all of the suite runs with checks where WARPSMITH_SIM_CHECKS says so.
#[test]
fn the_librarys_kernels_have_no_race() {
    let device = Device::checked_simulator(Checks::ALL);
    let stream = device.default_stream();
    let x = Array1::from_shape_fn(9_000, |i| (i * 37 % 101) as f32);
    let on_device = DeviceArray::from_ndarray(stream, &x).unwrap();
    assert_eq!(on_device.sum().unwrap(), x.sum());
    let scanned = on_device.inclusive_scan::<Sum>().unwrap().to_ndarray().unwrap();
    assert_eq!(scanned[8_999], x.sum());
    let histogram = on_device.histogram(16, 0.0..=101.0).unwrap();
    assert_eq!(histogram.sum().unwrap(), 9_000);
    let a = Array2::from_shape_fn((70, 90), |(i, j)| ((i * 7 + j) % 5) as f32);
    let on_device = DeviceArray::from_ndarray(stream, &a).unwrap();
    assert_eq!(on_device.transpose().unwrap().to_ndarray().unwrap(), a.t());
    let product = on_device.matmul(&on_device.t()).unwrap().to_ndarray().unwrap();
    assert_eq!(product, a.dot(&a.t()));
}
