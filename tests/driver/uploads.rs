// SPDX-License-Identifier: MIT OR Apache-2.0
//! Uploads: what has been read when they return, what they wait for, and what becomes of page-locked memory.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::{Array1, Ix1, array};
use warpsmith::{Device, DeviceArray, Error, Stream};

use super::{has_code, run, stub};

/// What the stub says of page-locked memory that is given back while nothing is to be read from it.
const FREED: &str = "host memory freed, copies pending: 0";

/// The stub copies as late as it may: what the caller does to its memory after the call must not matter.
pub(crate) fn uploads(device: Device) -> String {
    let arrays = [1000, 16 << 10, (16 << 10) + 1].map(|len| {
        let mut x = Array1::from_elem(len, 1.0f32);
        let on_device = DeviceArray::from_ndarray(device.default_stream(), &x).unwrap();
        x.fill(2.0);
        on_device
    });
    let kept = arrays.iter().all(|x| x.to_ndarray().unwrap().iter().all(|&x| x == 1.0));
    format!("{kept}")
}

/// The lines of a log that are about copies and the memory of uploads.
fn about_uploads(log: &[String]) -> Vec<&str> {
    let parts = ["upload", "stream waited", "event", "host memory"];
    let about = |line: &&str| parts.iter().any(|part| line.starts_with(part));
    log.iter().map(String::as_str).filter(about).collect()
}

/// How many lines of a log are this one.
fn count(log: &[String], wanted: &str) -> usize {
    log.iter().filter(|line| *line == wanted).count()
}

#[test]
fn an_upload_has_read_its_source_when_it_returns_and_a_small_one_does_not_wait() {
    let (said, log) = run(stub(), "uploads", &[]);
    if !has_code(&said) {
        return;
    }
    assert_eq!(said, "true");
    let made = ["host memory allocated", "event created"];
    let freed = ["event waited for, copies pending: 0", FREED, "event destroyed"];
    let waited = ["stream waited for, copies pending: 0"];
    let expected = [
        &made[..],
        &["upload of 4000 bytes"],
        &made,
        &["upload of 65536 bytes", "upload of 65540 bytes"],
        &waited,
        &waited.repeat(3), // the downloads
        &freed,
        &freed,
    ];
    assert_eq!(about_uploads(&log), expected.concat());
}

/// Uploads 100 small arrays, tells by `kept` that they arrive, and returns them.
fn upload_100(stream: &Stream, kept: &mut bool) -> Vec<DeviceArray<u32, Ix1>> {
    let values = |i: u32| Array1::from_shape_fn(5 + i as usize, |j| 1000 * i + j as u32);
    let upload = |i| DeviceArray::from_ndarray(stream, &values(i)).unwrap();
    let arrays: Vec<_> = (0..100).map(upload).collect();
    for (i, array) in (0..).zip(&arrays) {
        *kept &= array.to_ndarray().unwrap() == values(i);
    }
    arrays
}

pub(crate) fn many_uploads(device: Device) -> String {
    let mut kept = true;
    upload_100(device.default_stream(), &mut kept);
    format!("{kept}")
}

#[test]
fn with_all_pieces_under_way_an_upload_waits_for_the_oldest() {
    let (said, log) = run(stub(), "many_uploads", &[]);
    if !has_code(&said) {
        return;
    }
    assert_eq!(said, "true");
    assert_eq!(count(&log, "host memory allocated"), 16);
    assert_eq!(count(&log, FREED), 16);
    assert_eq!(count(&log, "event destroyed"), 16);
    assert_eq!(count(&log, "event waited for, copies pending: 15"), 100 - 16);
    assert_eq!(
        count(&log, "stream waited for, copies pending: 0"),
        100,
        "the downloads"
    );
}

/// Uploads on one stream while another one has all pieces and does nothing.
pub(crate) fn slow_stream(device: Device) -> String {
    let [slow, other] = [(); 2].map(|()| device.create_stream().unwrap());
    let upload = |stream, i: u32| DeviceArray::from_ndarray(stream, &array![i]).unwrap();
    let slow_ones: Vec<_> = (0..16).map(|i| upload(&slow, i)).collect();
    let mut kept = upload(&other, 100).to_ndarray().unwrap() == array![100];
    slow.synchronize().unwrap();
    let last = upload(&other, 101);
    kept &= (0..).zip(&slow_ones).all(|(i, x)| x.to_ndarray().unwrap() == array![i]);
    kept &= last.to_ndarray().unwrap() == array![101];
    format!("{kept}")
}

#[test]
fn an_upload_waits_for_no_other_stream() {
    let (said, log) = run(stub(), "slow_stream", &[]);
    if !has_code(&said) {
        return;
    }
    assert_eq!(said, "true");
    let log = about_uploads(&log);
    let sixteenth = 3 * 16;
    let expected = [
        "upload of 4 bytes",
        "stream waited for, copies pending: 16", // the upload's
        "stream waited for, copies pending: 16", // the download's
        "stream waited for, copies pending: 0",  // the slow stream's
        "upload of 4 bytes",
    ];
    assert_eq!(log[sixteenth..][..expected.len()], expected);
    assert!(!log[..sixteenth].iter().any(|line| line.contains("waited")), "{log:?}");
}

/// Four threads on streams of their own, four on one.
pub(crate) fn upload_threads(device: Device) -> String {
    let (start, kept) = (Barrier::new(8), AtomicBool::new(true));
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (device, start, kept) = (&device, &start, &kept);
            scope.spawn(move || {
                let stream = match i % 2 {
                    0 => device.create_stream().unwrap(),
                    _ => device.default_stream().clone(),
                };
                start.wait();
                let mut ok = true;
                upload_100(&stream, &mut ok);
                kept.fetch_and(ok, Ordering::Relaxed);
            });
        }
    });
    format!("{}", kept.into_inner())
}

#[test]
fn threads_upload_at_once() {
    let (said, log) = run(stub(), "upload_threads", &[]);
    if !has_code(&said) {
        return;
    }
    assert_eq!(said, "true");
    let pieces = count(&log, "host memory allocated");
    assert!((1..16 + 8).contains(&pieces), "{pieces}");
    assert_eq!(count(&log, FREED), pieces);
}

/// Two uploads, whose arrays and stream go before their copies are done.
pub(crate) fn upload_errors(device: Device) -> String {
    let stream = device.create_stream().unwrap();
    let said = [1u32, 2].map(|i| match DeviceArray::from_ndarray(&stream, &array![i]) {
        Ok(_) => "ok",
        Err(Error::Cuda { call, .. }) => call,
        Err(error) => panic!("{error}"),
    });
    said.join(", ")
}

/// What both uploads say when some calls fail, and how much page-locked memory is made and given back: all that the
/// driver no longer reads, and never what it may still read.
#[test]
fn an_upload_that_fails_frees_nothing_in_use() {
    let cases: [(&[&str], &str, usize, usize); 8] = [
        (&[], "ok, ok", 2, 2),
        (&["cuMemHostAlloc"], "cuMemHostAlloc, cuMemHostAlloc", 0, 0),
        (&["cuEventCreate"], "cuEventCreate, cuEventCreate", 2, 2),
        (&["cuMemcpyHtoDAsync_v2"], "cuMemcpyHtoDAsync, cuMemcpyHtoDAsync", 1, 1),
        (&["cuEventRecord"], "cuEventRecord, cuEventRecord", 1, 1),
        (
            &["cuEventRecord", "cuStreamSynchronize"],
            "cuEventRecord, cuEventRecord",
            2,
            0,
        ),
        (&["cuEventQuery"], "ok, cuEventQuery", 1, 1),
        (&["cuEventSynchronize"], "ok, ok", 2, 0),
    ];
    for (failing, wanted, made, freed) in cases {
        let names: Vec<_> = failing.iter().map(|call| format!("STUB_{call}")).collect();
        let variables: Vec<_> = names.iter().map(|name| (name.as_str(), "999")).collect();
        let (said, log) = run(stub(), "upload_errors", &variables);
        if !has_code(&said) {
            return;
        }
        assert_eq!(said, wanted, "{failing:?}");
        assert_eq!(count(&log, "host memory allocated"), made, "{failing:?}: {log:?}");
        let given_back = log.iter().filter(|line| line.starts_with("host memory freed"));
        assert_eq!(given_back.count(), freed, "{failing:?}: {log:?}");
        assert_eq!(count(&log, FREED), freed, "{failing:?}: {log:?}");
    }
}
