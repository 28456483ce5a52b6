// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated GPU with checks, as users have it; these kernels are not compiled to PTX. What the checks find, and what
//! not, is in tests/simulator/cuda_std/checks.

use cuda_std::prelude::*;
use kernels_gpu::op::Sum;
use ndarray::{Array1, Array2};
use warpsmith::sim::{Array, FindingKind, Operation, Space};
use warpsmith::{Checks, Device, DeviceArray, Error, LaunchConfig, Schedule};

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
    let wanted = "data race on element 5 (of 4 bytes) of an array of 32 bytes in global memory: this ";
    assert!(fault.message.starts_with(wanted), "{error}");
    assert_eq!(fault.message.matches("tests/checks.rs:").count(), 1, "{error}");
    assert!(
        fault.location.as_ref().unwrap().file.ends_with("tests/checks.rs"),
        "{error}"
    );
    let finding = fault.finding.as_ref().unwrap();
    assert_eq!((finding.kind, finding.element()), (FindingKind::Race, Some(5)));
    assert!(matches!(finding.array, Array::Global { .. }), "{finding:?}");
    assert_eq!((finding.offset, finding.bytes), (20, 4));
    assert_eq!(numbers.sum().unwrap(), 320);
}

#[test]
fn a_result_that_depends_on_the_order_of_threads() {
    let numbers = Array1::from_elem(64, 5_u32);
    let launch = |device: &Device| {
        let stream = device.default_stream();
        let numbers = DeviceArray::from_ndarray(stream, &numbers)?;
        let mut counts = DeviceArray::<u32, _>::zeros(stream, 8)?;
        stream.launch::<count>(&LaunchConfig::new(2, 32), (&numbers, &mut counts))?;
        counts.to_ndarray()
    };
    let error = Device::compare_schedules(Schedule::several(2, 5), launch).unwrap_err();
    let Error::ScheduleDependent { first, schedule } = error else {
        panic!("{error}");
    };
    assert_eq!((first, schedule), (Schedule::InOrder, Schedule::Random(0)));
    let again = || launch(&Device::scheduled_simulator(schedule)).unwrap();
    assert_ne!(again()[5], 64);
    assert_eq!(again(), again());
}

/// One of each family that has threads work together: integers, which are added exactly in any order.
#[test]
fn the_librarys_kernels_do_not_depend_on_the_order_of_threads() {
    let x = Array1::from_shape_fn(3_000, |i| (i * 37 % 101) as u32);
    let a = Array2::from_shape_fn((30, 40), |(i, j)| ((i * 7 + j) % 5) as f32);
    let results = Device::compare_schedules(Schedule::several(2, 3), |device| {
        let stream = device.default_stream();
        let x = DeviceArray::from_ndarray(stream, &x)?;
        let a = DeviceArray::from_ndarray(stream, &a)?;
        Ok((
            x.sum()?,
            x.inclusive_scan::<Sum>()?.to_ndarray()?,
            x.histogram(16, 0.0..=101.0)?.to_ndarray()?,
            a.transpose()?.to_ndarray()?,
            a.matmul(&a.t())?.to_ndarray()?,
        ))
    });
    let (sum, _, _, _, product) = results.unwrap();
    assert_eq!(sum, x.iter().map(|&x| u64::from(x)).sum::<u64>());
    assert_eq!(product, a.dot(&a.t()));
}

/// Each element becomes that 64 places on, which another thread overwrites, if there are so many.
#[kernel]
pub fn shift(x: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    x.set(i, x.get((i + 64) % x.len()));
}

#[test]
fn the_smallest_size_at_which_a_kernel_is_wrong() {
    let launch = |len: usize| {
        let device = Device::checked_simulator(Checks::ALL);
        let stream = device.default_stream();
        let mut x = DeviceArray::<u32, _>::zeros(stream, len)?;
        // No block for fewer than 64, which is an error, and not the kernel's.
        stream.launch::<shift>(&LaunchConfig::new(len as u32 / 64, 64), (&mut x,))?;
        x.to_ndarray()
    };
    assert_eq!(Device::smallest_failure(64, launch).unwrap(), Array1::zeros(64));
    let error = Device::smallest_failure(63, launch).unwrap_err();
    assert!(matches!(error, Error::LaunchConfig { .. }), "{error}");

    let error = Device::smallest_failure(1000, launch).unwrap_err();
    let text = error.to_string();
    let wanted =
        "at size 65, the smallest that was found to fail of those up to 1000: kernel `shift`: block (0, 0, 0), ";
    assert!(text.starts_with(wanted), "{text}");
    let Error::SmallestFailure { size, given, failure } = error else {
        panic!("{text}");
    };
    assert_eq!((size, given), (65, 1000));
    let Error::Fault(fault) = *failure else {
        panic!("{text}");
    };
    assert_eq!(fault.finding.unwrap().kind, FindingKind::Race);
}

#[test]
fn the_smallest_size_that_depends_on_the_schedule() {
    let numbers = |len| Array1::from_elem(len, 5_u32);
    let counts = |len: usize| {
        Device::compare_schedules(Schedule::several(1, 20), |device| {
            let stream = device.default_stream();
            let numbers = DeviceArray::from_ndarray(stream, &numbers(len))?;
            let mut counts = DeviceArray::<u32, _>::zeros(stream, 8)?;
            stream.launch::<count>(&LaunchConfig::for_len(len, 64), (&numbers, &mut counts))?;
            counts.to_ndarray()
        })
    };
    let text = Device::smallest_failure(1000, counts).unwrap_err().to_string();
    let wanted = "at size 2, the smallest that was found to fail of those up to 1000: the result depends on the order in \
                  which threads run: by Random(14) it is not that of InOrder";
    assert_eq!(text, wanted);
}

/// Sums of neighbours, the first of which is the last one's.
#[kernel(max_threads = 64)]
pub fn neighbours_around(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; 64];
    let i = thread::thread_idx_x() as usize;
    tile.set(i, x[i]);
    thread::sync_threads();
    out.set(i, tile.get(i) + tile.get((i + 1) % 64));
}

#[test]
fn launches_are_counted_by_line() {
    let device = Device::counting_simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_elem(64, 1.0_f32)).unwrap();
    let mut out = DeviceArray::<f32, _>::zeros(stream, 64).unwrap();
    device.take_counters();
    stream
        .launch::<neighbours_around>(&LaunchConfig::new(1, 64), (&x, &mut out))
        .unwrap();
    let counters = device.take_counters();
    let [counters] = &counters[..] else {
        panic!("{counters:?}")
    };
    assert!(device.take_counters().is_empty());
    assert_eq!(counters.kernel, "neighbours_around");
    // `x[i]`, two reads and a write of shared memory, and `out.set`, by two warps each.
    assert_eq!(counters.lines.len(), 5, "{counters}");
    assert!(
        counters
            .lines
            .iter()
            .all(|line| line.file.ends_with("tests/checks.rs") && line.counts.requests == 2)
    );
    let loads = counters.total(Space::Global, Operation::Load);
    assert_eq!((loads.sectors, loads.bytes), (8, 256));
    assert_eq!((counters.sectors_read, counters.sectors_written), (8, 8));
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

#[test]
fn what_a_graph_has_not_computed_yet_is_uninitialised() {
    let device = Device::checked_simulator(Checks::ALL);
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_elem(64, 1.0_f32)).unwrap();
    let mut graph = stream.capture(x, |_, x| x.inclusive_scan::<Sum>()).unwrap();
    let mut out = DeviceArray::<f32, _>::zeros(stream, 64).unwrap();
    let config = LaunchConfig::new(1, 64);
    let error = stream
        .launch::<neighbours>(&config, (graph.output(), &mut out))
        .unwrap_err();
    let Error::Fault(fault) = &error else {
        panic!("{error}");
    };
    let finding = fault.finding.as_ref().unwrap();
    assert_eq!(finding.kind, FindingKind::Uninitialised);
    // Which thread is first is the schedule's.
    let element = finding.element().unwrap();
    let read = format!(
        "uninitialised: this read of element {element} (of 4 bytes) of an array of 256 bytes in global memory is of what"
    );
    assert!(fault.message.starts_with(&read), "{error}");
    let error = graph.output().to_ndarray().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Uninitialised {
                bytes: 256,
                byte: 0,
                array: 256,
                ..
            }
        ),
        "{error}"
    );
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap()[63], 64.0);
}
