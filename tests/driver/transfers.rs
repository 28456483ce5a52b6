// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies that nobody waits for, large copies, and memory, with a driver that copies as late as it
//! may, has no more memory, or fails.

use std::sync::mpsc::channel;

use ndarray::{Array1, Array2, Ix1};
use warpsmith::ops::Sum;
use warpsmith::{Checks, Device, DeviceArray, Error, Graph, PinnedArray, Result, Stream};

use super::{run, stub, stub_fail};

/// The words of a chunk of a large copy.
const CHUNK: usize = 512 << 10;

pub(super) fn numbers(len: usize, i: usize) -> Array1<u32> {
    Array1::from_shape_fn(len, |j| (1_000_000 * i + j) as u32)
}

fn pinned(device: &Device, len: usize, i: usize) -> PinnedArray<u32, Ix1> {
    PinnedArray::from_ndarray(device, &numbers(len, i)).unwrap()
}

/// Checks that page-locked memory was made and given back as often as that, never while a copy used it.
#[track_caller]
fn assert_host_memory(log: &[String], made: usize, freed: usize) {
    let count = |line: &str| log.iter().filter(|said| said.starts_with(line)).count();
    assert_eq!(count("host memory allocated"), made, "{log:?}");
    assert_eq!(count("host memory freed"), freed, "{log:?}");
    assert_eq!(count("host memory freed, copies pending: 0"), freed, "{log:?}");
}

/// Maxima, one after another, and then whether the device still copies.
pub(crate) fn landed(device: Device) -> String {
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &numbers(100, 1)).unwrap();
    let most = || match x.max() {
        Ok(most) => format!("{most:#x}"),
        Err(Error::KernelFailed { .. }) => "failed".into(),
        Err(error) => error.to_string(),
    };
    [most(), most()].join(", ")
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_result_is_read_as_soon_as_the_kernel_has_written_it() {
    let (said, log) = run(stub(), "landed", &[("STUB_KERNEL_WRITES", "77")]);
    assert_eq!(said, "0x4d, 0x4d");
    let is_wait = |line: &&String| line.contains("stream waited for") || line.contains("download");
    assert_eq!(log.iter().filter(is_wait).count(), 0, "{log:?}");
    let queries = log.iter().filter(|line| *line == "stream queried").count();
    assert_eq!(
        queries, 2,
        "the memory looks unwritten again for the next result: {log:?}"
    );
}

/// The stub's kernels do nothing, and so what they should have written looks as before.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_result_that_nothing_tells_from_none_is_read_when_the_stream_is_done() {
    let (said, log) = run(stub(), "landed", &[]);
    assert_eq!(said, "0xa5a5a5a5, 0xa5a5a5a5");
    // The upload ahead of the first is pending as long as nobody waits; the second finds the stream done.
    let waits = log.iter().filter(|line| line.starts_with("stream waited for"));
    assert_eq!(waits.count(), 1, "{log:?}");
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_result_of_a_kernel_that_failed_is_an_error() {
    let (said, log) = run(stub(), "landed", &[("STUB_cuStreamQuery", "700")]);
    assert_eq!(said, "failed, failed");
    let freed = log.iter().filter(|line| line.starts_with("host memory freed"));
    assert_eq!(freed.count(), 0, "a kernel may still write it: {log:?}");
}

/// Copies of several chunks, whose source changes as soon as the call is over.
pub(crate) fn bulk(device: Device) -> String {
    let stream = device.default_stream();
    let upload = |i: usize| {
        let mut host = numbers(9 * CHUNK + i, i);
        let x = DeviceArray::from_ndarray(stream, &host.view()).unwrap();
        host.fill(0);
        x
    };
    let arrays: Vec<_> = (0..4).map(upload).collect();
    let whole = (0..)
        .zip(&arrays)
        .all(|(i, x)| x.to_ndarray().unwrap() == numbers(9 * CHUNK + i, i));
    let mut part = Array2::<u32>::zeros((2, CHUNK + 100));
    let x = DeviceArray::from_ndarray(stream, &numbers(CHUNK + 99, 5)).unwrap();
    x.copy_to_ndarray(&mut part.row_mut(1).slice_mut(ndarray::s![1..]))
        .unwrap();
    let last = part.row(1).to_vec()[1..] == numbers(CHUNK + 99, 5).to_vec() && part[[1, 0]] == 0;
    format!("{}", whole && last && part.row(0).sum() == 0)
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_large_copy_has_read_or_written_the_hosts_memory_when_it_returns() {
    let (said, log) = run(stub(), "bulk", &[]);
    assert_eq!(said, "true");
    let made = log.iter().filter(|line| *line == "host memory allocated").count();
    assert!((2..=16).contains(&made), "{made}");
    assert_host_memory(&log, made, made);
    let largest = log
        .iter()
        .filter_map(|line| line.strip_prefix("upload of ")?.strip_suffix(" bytes"));
    assert!(
        largest
            .map(|bytes| bytes.parse::<usize>().unwrap())
            .all(|bytes| bytes <= 4 * CHUNK)
    );
}

/// All pieces are under way for a slow stream, and another one copies as well.
pub(crate) fn bulk_beside_slow(device: Device) -> String {
    let (slow, other) = (device.create_stream().unwrap(), device.create_stream().unwrap());
    // Each of two chunks, wherever it lies: sixteen in all.
    let upload = |i| DeviceArray::from_ndarray(&slow, &numbers(CHUNK + 1, i)).unwrap();
    let slow_ones: Vec<_> = (0..8).map(upload).collect();
    let y = DeviceArray::from_ndarray(&other, &numbers(CHUNK + 5, 2)).unwrap();
    let arrived = y.to_ndarray().unwrap() == numbers(CHUNK + 5, 2);
    let kept = (0..)
        .zip(&slow_ones)
        .all(|(i, x)| x.to_ndarray().unwrap() == numbers(CHUNK + 1, i));
    format!("{arrived}, {kept}")
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_large_copy_waits_for_no_other_stream() {
    let (said, log) = run(stub(), "bulk_beside_slow", &[]);
    assert_eq!(said, "true, true");
    // The first waits are the other stream's, with all chunks of the slow one still to be copied.
    let first = log.iter().find(|line| line.contains("waited for")).unwrap();
    let pending: usize = first.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(pending >= 16, "{log:?}");
}

/// What one large copy and one of a few bytes say, up and down.
pub(crate) fn bulk_errors(device: Device) -> String {
    let stream = device.default_stream();
    let name = |result: Result<()>| match result {
        Ok(()) => "ok",
        Err(Error::Cuda { call, .. }) => call,
        Err(error) => panic!("{error}"),
    };
    let x = DeviceArray::from_ndarray(stream, &numbers(3 * CHUNK, 1));
    let up = name(x.map(drop));
    // SAFETY: the stub sets it for this process.
    let y = unsafe { without_failures(|| DeviceArray::<u8, _>::zeros(stream, 12 * CHUNK).unwrap()) };
    let down = name(y.to_ndarray().map(drop));
    let small = unsafe { without_failures(|| DeviceArray::<u8, _>::zeros(stream, 4).unwrap()) };
    format!("{up}, {down}, {}", name(small.to_ndarray().map(drop)))
}

/// Does `work` with a driver that does what it should.
///
/// # Safety
///
/// No other thread reads the environment.
unsafe fn without_failures<R>(work: impl FnOnce() -> R) -> R {
    let failing: Vec<_> = std::env::vars()
        .filter(|(name, _)| name.starts_with("STUB_cu"))
        .collect();
    // SAFETY: this function's contract.
    failing
        .iter()
        .for_each(|(name, _)| unsafe { std::env::remove_var(name) });
    let result = work();
    // SAFETY: as above.
    failing
        .iter()
        .for_each(|(name, value)| unsafe { std::env::set_var(name, value) });
    result
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_large_copy_that_fails_is_an_error() {
    let cases: [(&[&str], &str); 6] = [
        (&[], "ok, ok, ok"),
        (&["cuMemHostAlloc"], "cuMemHostAlloc, cuMemHostAlloc, cuMemHostAlloc"),
        (&["cuMemcpyHtoDAsync_v2"], "cuMemcpyHtoDAsync, ok, ok"),
        (&["cuMemcpyDtoHAsync_v2"], "ok, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync"),
        (&["cuEventRecord"], "cuEventRecord, cuEventRecord, ok"),
        (&["cuEventSynchronize"], "ok, cuEventSynchronize, ok"),
    ];
    for (failing, wanted) in cases {
        let names: Vec<_> = failing.iter().map(|call| format!("STUB_{call}")).collect();
        let variables: Vec<_> = names.iter().map(|name| (name.as_str(), "999")).collect();
        let (said, log) = run(stub(), "bulk_errors", &variables);
        assert_eq!(said, wanted, "{failing:?}");
        let made = log.iter().filter(|line| *line == "host memory allocated").count();
        // What cannot be waited for is not given back.
        let freed = match failing {
            ["cuEventSynchronize"] => log.iter().filter(|line| line.starts_with("host memory freed")).count(),
            _ => made,
        };
        assert_host_memory(&log, made, freed);
    }
}

/// Uploads and downloads whose memory is waited for, dropped and forgotten.
pub(crate) fn pinned_copies(device: Device) -> String {
    let stream = device.create_stream().unwrap();
    let mut said = Vec::new();
    let (x, upload) = DeviceArray::upload_async(&stream, pinned(&device, 5000, 1)).unwrap();
    said.push(!upload.is_done().unwrap());
    // Memory that is made now is no part of that copy, whether the copy is dropped or forgotten.
    drop(upload);
    let second = pinned(&device, 5000, 2);
    let (y, upload) = DeviceArray::upload_async(&stream, second).unwrap();
    std::mem::forget(upload);
    let (z, upload) = DeviceArray::upload_async(&stream, pinned(&device, 5000, 3)).unwrap();
    let (first, third) = (x.download_async().unwrap(), z.download_async().unwrap());
    drop(x);
    said.push(!first.is_done().unwrap());
    said.push(upload.wait().unwrap().view() == numbers(5000, 3));
    said.push(third.wait().unwrap().view() == numbers(5000, 3));
    said.push(first.is_done().unwrap() && first.wait().unwrap().view() == numbers(5000, 1));
    said.push(y.to_ndarray().unwrap() == numbers(5000, 2));
    // The copies are done: the memory of the first is used again.
    drop(pinned(&device, 5000, 4));
    format!("{said:?}")
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_copy_owns_its_memory_until_it_is_done() {
    let (said, log) = run(stub(), "pinned_copies", &[]);
    assert_eq!(said, format!("{:?}", [true; 6]));
    // Three uploads, two downloads, and one for the download that is waited for. The forgotten one is never freed, and
    // its stream's device is kept with it.
    let made = log.iter().filter(|line| *line == "host memory allocated").count();
    assert_eq!(made, 6, "{log:?}");
    assert!(!log.iter().any(|line| line == "context released"), "{log:?}");
}

/// Copies that fail, or cannot be waited for.
pub(crate) fn pinned_errors(device: Device) -> String {
    let stream = device.create_stream().unwrap();
    let call = |error| match error {
        Error::Cuda { call, .. } => call,
        error => panic!("{error}"),
    };
    let up = DeviceArray::upload_async(&stream, pinned(&device, 5000, 1));
    let up = up
        .and_then(|(_, upload)| upload.wait().map(drop))
        .map_or_else(call, |()| "ok");
    // SAFETY: no other thread reads the environment.
    let x = unsafe { without_failures(|| DeviceArray::from_ndarray(&stream, &numbers(5000, 2)).unwrap()) };
    let down = x
        .download_async()
        .and_then(|copy| copy.wait().map(drop))
        .map_or_else(call, |()| "ok");
    format!("{up}, {down}")
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_copy_that_fails_gives_no_memory_back_that_is_in_use() {
    let cases: [(&[&str], &str, usize); 6] = [
        (&[], "ok, ok", 2),
        (&["cuEventCreate"], "cuEventCreate, cuEventCreate", 2),
        (&["cuMemcpyHtoDAsync_v2"], "cuMemcpyHtoDAsync, ok", 2),
        (&["cuEventRecord"], "cuEventRecord, cuEventRecord", 2),
        (
            &["cuEventRecord", "cuStreamSynchronize"],
            "cuEventRecord, cuEventRecord",
            0,
        ),
        (
            &["cuEventSynchronize", "cuEventQuery"],
            "cuEventSynchronize, cuEventSynchronize",
            0,
        ),
    ];
    for (failing, wanted, freed) in cases {
        let names: Vec<_> = failing.iter().map(|call| format!("STUB_{call}")).collect();
        let variables: Vec<_> = names.iter().map(|name| (name.as_str(), "999")).collect();
        let (said, log) = run(stub(), "pinned_errors", &variables);
        assert_eq!(said, wanted, "{failing:?}");
        let given_back = log.iter().filter(|line| line.starts_with("host memory freed"));
        let safely = given_back
            .clone()
            .filter(|line| *line == "host memory freed, copies pending: 0");
        assert_eq!(safely.count(), given_back.clone().count(), "{failing:?}: {log:?}");
        assert!(given_back.count() >= freed, "{failing:?}: {log:?}");
    }
}

/// Callbacks behind copies that are done when the stream is waited for.
pub(crate) fn callbacks(device: Device) -> String {
    let stream = device.create_stream_with_priority(-5).unwrap();
    let x = DeviceArray::from_ndarray(&stream, &numbers(10, 1)).unwrap();
    let (sender, receiver) = channel();
    let also = sender.clone();
    stream
        .on_reached(move || sender.send(x.to_ndarray().unwrap() == numbers(10, 1)).unwrap())
        .unwrap();
    let early = receiver.try_recv().is_ok() || stream.is_idle().unwrap();
    stream.synchronize().unwrap();
    let arrived = receiver.recv().unwrap();
    stream.on_reached(move || also.send(false).unwrap()).unwrap();
    device.synchronize().unwrap();
    let idle = stream.is_idle().unwrap() && stream.record().unwrap().is_reached().unwrap();
    format!(
        "{early}, {arrived}, {:?}, {idle}, {:?}",
        receiver.recv(),
        device.stream_priorities().unwrap()
    )
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_callback_is_called_when_the_stream_gets_there() {
    let (said, log) = run(stub(), "callbacks", &[]);
    assert_eq!(said, "false, true, Ok(false), true, -5..=0");
    assert!(log.iter().any(|line| line == "stream of priority -5"), "{log:?}");
    let (said, _) = run(stub(), "callback_errors", &[("STUB_cuLaunchHostFunc", "999")]);
    assert_eq!(
        said,
        "cuLaunchHostFunc failed on cuda:0: error 999, which the driver has no name for; dropped"
    );
}

pub(crate) fn callback_errors(device: Device) -> String {
    let (sender, receiver) = channel::<()>();
    let error = device.default_stream().on_reached(move || drop(sender)).unwrap_err();
    assert!(receiver.recv().is_err());
    format!("{error}; dropped")
}

/// A pool of 1 MiB.
pub(crate) fn full_pool(device: Device) -> String {
    let stream = device.default_stream();
    let kept: Vec<_> = (0..4)
        .map(|i| DeviceArray::from_ndarray(stream, &numbers(50_000, i)).unwrap())
        .collect();
    drop(kept);
    // 800,000 bytes are kept for the stream; there is room for this one without them.
    let x = DeviceArray::from_ndarray(stream, &numbers(200_000, 5)).unwrap();
    let error = DeviceArray::from_ndarray(stream, &numbers(100_000, 6)).unwrap_err();
    let whole = x.to_ndarray().unwrap() == numbers(200_000, 5);
    let before = device.memory().unwrap();
    drop(x);
    device.trim().unwrap();
    let after = device.memory().unwrap();
    format!(
        "{whole}, {error}, {} {}, {} {}",
        before.allocated, before.reserved, after.allocated, after.reserved
    )
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_is_kept_is_given_back_before_there_is_not_enough() {
    let (said, log) = run(stub(), "full_pool", &[("STUB_POOL_BYTES", "1048576")]);
    let error = "out of memory on cuda:0: wanted 400000 bytes; 800000 are allocated, 536870912 of 1073741824 are free";
    assert_eq!(said, format!("true, {error}, 800000 800256, 0 0"));
    assert_eq!(log.iter().filter(|line| *line == "pool trimmed").count(), 3, "{log:?}");
}

/// Made by a function that the ledger names.
#[inline(never)]
fn made_here(stream: &Stream) -> DeviceArray<u32, Ix1> {
    DeviceArray::from_ndarray(stream, &numbers(2500, 1)).unwrap()
}

pub(crate) fn ledger(device: Device) -> String {
    let (x, y) = (made_here(device.default_stream()), made_here(device.default_stream()));
    drop(x.try_clone().unwrap());
    drop(x);
    let live = device.live_allocations().unwrap();
    let first = live[0].backtrace.lines().next().unwrap().to_owned();
    drop(y);
    let named = live[0].backtrace.contains("made_here") && first.contains("made_here");
    assert!(named, "{}", live[0]);
    format!(
        "{}, {}, {}",
        live.len(),
        live[0].bytes,
        device.live_allocations().unwrap().len()
    )
}

/// A graph, whose output nobody has written.
#[inline(never)]
fn captured_here(stream: &Stream) -> Graph<DeviceArray<u32, Ix1>, DeviceArray<u64, Ix1>> {
    let x = DeviceArray::from_ndarray(stream, &numbers(2500, 1)).unwrap();
    stream.capture(x, |_, x| x.inclusive_scan::<Sum>()).unwrap()
}

pub(crate) fn unwritten() -> String {
    let device = Device::checked_simulator(Checks::ALL);
    let graph = captured_here(device.default_stream());
    let copied = graph.output().to_ndarray().unwrap_err();
    let read = graph.output().add(graph.output()).unwrap_err();
    format!("{copied}\nsaid: {read}")
}

#[test]
fn what_checks_find_in_an_array_has_the_call_that_allocated_it() {
    let (said, _) = run(stub(), "unwritten", &[("WARPSMITH_TRACE_ALLOC", "1")]);
    let [copied, read] = said.lines().collect::<Vec<_>>().try_into().unwrap();
    let (_, call) = copied.split_once("since it was allocated by `").unwrap();
    assert!(call.contains("captured_here"), "{copied}");
    let (finding, call) = read.split_once(" (the array was allocated by `").unwrap();
    assert!(finding.contains("uninitialised: this read of element"), "{read}");
    assert!(call.contains("captured_here"), "{read}");

    let (said, _) = run(stub(), "unwritten", &[]);
    assert!(!said.contains("allocated by"), "{said}");
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn the_ledger_names_what_is_alive_and_where_it_was_made() {
    let (said, _) = run(stub(), "ledger", &[("WARPSMITH_TRACE_ALLOC", "1")]);
    assert_eq!(said, "1, 10000, 0");
}

type Work = fn(&Device, &Stream) -> Result<()>;

/// What needs no kernel, as the stub runs none.
const WORK: &[(&str, Work)] = &[
    ("copies", |_, stream| {
        let mut x = DeviceArray::from_ndarray(stream, &numbers(1000, 1))?;
        let y = DeviceArray::from_ndarray(stream, &numbers(1000, 2))?;
        x.assign(&y)?;
        assert!(x.try_clone()?.to_ndarray()? == numbers(1000, 2));
        Ok(())
    }),
    ("a result of a kernel", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &numbers(1000, 1))?;
        assert_eq!(x.max()?, 0xa5a5_a5a5, "the stub's kernels do nothing");
        Ok(())
    }),
    ("large copies", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &numbers(CHUNK + 1, 1))?;
        assert!(x.to_ndarray()? == numbers(CHUNK + 1, 1));
        Ok(())
    }),
    ("pinned arrays", |device, stream| {
        let (mut x, upload) = DeviceArray::upload_async(stream, PinnedArray::from_ndarray(device, &numbers(5000, 3))?)?;
        drop(upload);
        let (y, upload) = DeviceArray::upload_async(stream, PinnedArray::from_ndarray(device, &numbers(5000, 4))?)?;
        let (first, second) = (x.download_async()?, y.download_async()?);
        drop(x.assign_async(upload.wait()?)?);
        assert!(first.wait()?.view() == numbers(5000, 3));
        assert!(second.wait()?.view() == numbers(5000, 4));
        Ok(())
    }),
    ("streams and events", |device, stream| {
        let other = device.create_stream()?;
        let x = DeviceArray::from_ndarray(stream, &numbers(100, 1))?;
        let y = x.to_device(&other)?;
        drop(x);
        other.record()?.synchronize()?;
        stream.wait(&other.record()?)?;
        assert!(y.into_stream(stream)?.to_ndarray()? == numbers(100, 1));
        let (sender, receiver) = channel();
        stream.on_reached(move || sender.send(()).unwrap())?;
        stream.synchronize()?;
        assert!(receiver.recv().is_ok() && stream.is_idle()?);
        device.synchronize()
    }),
    ("graphs", |device, stream| {
        let x = DeviceArray::from_ndarray(stream, &numbers(1000, 1))?;
        let mut graph = stream.capture(x, |stream, x| {
            let mut zeros = DeviceArray::<u32, _>::zeros(stream, 1000)?;
            let y = x.try_clone()?;
            x.assign(&zeros)?;
            zeros.assign(&y)?;
            Ok((y, x.square()?))
        })?;
        graph.launch()?;
        assert!(graph.output().0.to_ndarray()? == numbers(1000, 1));
        assert!(graph.args().to_ndarray()?.iter().all(|&x| x == 0));
        let there = DeviceArray::from_ndarray(&device.create_stream()?, &numbers(1000, 2))?;
        graph.args_mut().assign(&there)?;
        graph.launch()?;
        assert!(graph.output().0.to_ndarray()? == numbers(1000, 2));
        *graph.args_mut() = DeviceArray::from_ndarray(stream, &numbers(1000, 3))?;
        // The same kinds of nodes, then others.
        graph.update(|stream, x| {
            let mut zeros = DeviceArray::<u32, _>::zeros(stream, 1000)?;
            let y = x.try_clone()?;
            zeros.assign(&y)?;
            x.assign(&zeros)?;
            Ok((y, x.square()?))
        })?;
        graph.launch()?;
        assert!(graph.args().to_ndarray()? == numbers(1000, 3));
        graph.update(|_, x| Ok((x.try_clone()?, x.abs()?)))?;
        graph.launch()?;
        assert!(graph.output().0.to_ndarray()? == numbers(1000, 3));
        Ok(())
    }),
    ("memory", |device, stream| {
        let x = DeviceArray::from_ndarray(stream, &numbers(1000, 1))?;
        drop(DeviceArray::from_ndarray(stream, &numbers(1 << 20, 1))?);
        assert!(device.memory()?.allocated >= 4000);
        device.trim()?;
        assert!(x.to_ndarray()? == numbers(1000, 1));
        Ok(())
    }),
];

/// Every call of the driver fails once, and with all that come behind it.
pub(crate) fn call_failures(device: Device) -> String {
    let fail = stub_fail();
    let attempt = |work: Work, first, end| {
        fail(first, end);
        let done = device.create_stream().and_then(|stream| work(&device, &stream));
        (fail(u64::MAX, u64::MAX), done)
    };
    let mut calls_of_all = 0;
    for (name, work) in WORK {
        attempt(*work, u64::MAX, u64::MAX).1.unwrap();
        let (calls, done) = attempt(*work, u64::MAX, u64::MAX);
        done.unwrap();
        for n in 0..calls {
            for end in [n + 1, u64::MAX] {
                let (_, done) = attempt(*work, n, end);
                assert!(
                    matches!(
                        done,
                        Ok(()) | Err(Error::Cuda { .. } | Error::OutOfMemory { .. } | Error::HostMemory { .. })
                    ),
                    "{name}, {n}: {done:?}"
                );
                device.trim().unwrap_or_else(|error| panic!("{name}, {n}: {error}"));
                assert_eq!(device.memory().unwrap().allocated, 0, "{name}, {n} to {end}");
            }
        }
        attempt(*work, u64::MAX, u64::MAX)
            .1
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        calls_of_all += calls;
    }
    format!("{}", calls_of_all > 100)
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn whatever_call_of_the_driver_fails_nothing_is_lost() {
    let (said, log) = run(stub(), "call_failures", &[]);
    assert_eq!(said, "true");
    let freed = log.iter().filter(|line| line.starts_with("host memory freed"));
    let wrongly: Vec<_> = freed
        .filter(|line| *line != "host memory freed, copies pending: 0")
        .collect();
    assert!(wrongly.is_empty(), "{wrongly:?}");
}

/// A device is opened, a kernel compiled and launched, and all of it dropped, with each call failing in turn.
pub(crate) fn open_failures(device: Device) -> String {
    drop(device);
    let fail = stub_fail();
    let attempt = |first, end| {
        fail(first, end);
        let done = Device::cuda(0).and_then(|device| {
            let x = DeviceArray::from_ndarray(device.default_stream(), &Array1::<f32>::ones(100_000))?;
            x.sum()?; // the stub computes nothing
            x.square()?.to_ndarray().map(drop)
        });
        (fail(u64::MAX, u64::MAX), done)
    };
    let (calls, done) = attempt(u64::MAX, u64::MAX);
    done.unwrap();
    let mut errors = 0;
    for n in 0..calls {
        for end in [n + 1, u64::MAX] {
            errors += u64::from(attempt(n, end).1.is_err());
        }
        attempt(u64::MAX, u64::MAX).1.unwrap();
    }
    format!("{}", errors > calls)
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn whatever_call_fails_while_a_device_is_opened_and_used_the_next_one_works() {
    let (said, _) = run(stub(), "open_failures", &[]);
    assert_eq!(said, "true");
}
