// SPDX-License-Identifier: MIT OR Apache-2.0
//! Uploads: what has been read when they return, what they ask the driver and wait for, and what becomes of page-locked
//! memory.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::{Array1, Ix1};
use warpsmith::{Device, DeviceArray, Error, Stream};

use super::{run, stub};

/// What the stub says of page-locked memory that is given back while nothing is to be read from it.
const FREED: &str = "host memory freed, copies pending: 0";

/// What it says when a piece of page-locked memory is made, and when the last one is freed.
const MADE: [&str; 2] = ["host memory allocated", "event created"];
const END: [&str; 3] = ["event waited for, copies pending: 0", FREED, "event destroyed"];

/// What it says when the first download of up to 64 KiB has memory made for it, which is freed at the end.
const LANDING: [&str; 1] = ["host memory allocated"];

/// The words of 64 KiB, all that a piece has room for.
const PIECE: usize = 16 << 10;

/// An array of `len` numbers that `i` tells from others.
fn numbers(len: usize, i: usize) -> Array1<u32> {
    Array1::from_shape_fn(len, |j| (1_000_000 * i + j) as u32)
}

/// Uploads [`numbers`].
fn upload(stream: &Stream, len: usize, i: usize) -> DeviceArray<u32, Ix1> {
    DeviceArray::from_ndarray(stream, &numbers(len, i)).unwrap()
}

/// Whether they are on the device.
fn kept(array: &DeviceArray<u32, Ix1>, i: usize) -> bool {
    array.to_ndarray().unwrap() == numbers(array.len(), i)
}

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
    let parts = ["upload", "stream", "event", "host memory"];
    let about = |line: &&str| parts.iter().any(|part| line.starts_with(part));
    log.iter().map(String::as_str).filter(about).collect()
}

/// How many lines of a log are this one.
fn count(log: &[String], wanted: &str) -> usize {
    log.iter().filter(|line| *line == wanted).count()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn an_upload_has_read_its_source_when_it_returns_and_a_small_one_does_not_wait() {
    let (said, log) = run(stub(), "uploads", &[]);
    assert_eq!(said, "true");
    let waited = ["stream waited for, copies pending: 0"];
    // The last one is a large copy: it returns when it has been read, and no sooner.
    let expected = [
        &MADE[..],
        &["upload of 4000 bytes", "event recorded", "event queried"],
        &MADE,
        &["upload of 65536 bytes"],
        &MADE,
        &["upload of 65540 bytes", "event recorded"],
        &LANDING,
        &waited.repeat(2), // the small downloads
        &["event queried", "event recorded"],
        &END[..1], // the large one
        &["event recorded"],
        &END,
        &END,
        &[FREED],
        &END,
    ];
    assert_eq!(about_uploads(&log), expected.concat());
}

/// Uploads of one number each, as many as a piece takes with 16 bytes for each, the last one of four; and one more.
pub(crate) fn small_uploads(device: Device) -> String {
    let upload = |i| upload(device.default_stream(), if i == 4095 { 4 } else { 1 }, i);
    let arrays: Vec<_> = (0..=4096).map(upload).collect();
    format!("{}", (0..).zip(&arrays).all(|(i, x)| kept(x, i)))
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn small_uploads_record_and_query_no_event_until_a_piece_is_full() {
    let (said, log) = run(stub(), "small_uploads", &[]);
    assert_eq!(said, "true");
    let expected = [
        &MADE[..],
        &["upload of 4 bytes"; 4095],
        &["upload of 16 bytes", "event recorded", "event queried"],
        &MADE,
        &["upload of 4 bytes"],
        &LANDING,
        &["stream waited for, copies pending: 0"; 4097], // the downloads
        &["event recorded"],
        &END,
        &END,
        &[FREED],
    ];
    assert!(about_uploads(&log) == expected.concat(), "not as expected");
}

/// Uploads that fill a piece each, twice: the copies of the first ones are done before the others are made.
pub(crate) fn full_pieces(device: Device) -> String {
    let stream = device.default_stream();
    let upload_100 = || {
        let arrays: Vec<_> = (0..100).map(|i| upload(stream, PIECE, i)).collect();
        (0..).zip(&arrays).all(|(i, x)| kept(x, i))
    };
    let first = upload_100();
    format!("{}", first && upload_100())
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn with_all_pieces_under_way_an_upload_waits_for_the_oldest() {
    let (said, log) = run(stub(), "full_pieces", &[]);
    assert_eq!(said, "true");
    assert_eq!(count(&log, "event destroyed"), 16);
    for line in [MADE[0], FREED] {
        assert_eq!(count(&log, line), 16 + LANDING.len(), "{line}");
    }
    // Of the second hundred, 16 find a piece whose copies are done.
    assert_eq!(count(&log, "event waited for, copies pending: 15"), 2 * (100 - 16));
    assert_eq!(count(&log, "event recorded"), 200);
    assert_eq!(
        count(&log, "stream waited for, copies pending: 0"),
        200,
        "the downloads"
    );
}

/// Uploads on one stream while another one has all pieces and does nothing.
pub(crate) fn slow_stream(device: Device) -> String {
    let [slow, other] = [(); 2].map(|()| device.create_stream().unwrap());
    let slow_ones: Vec<_> = (0..16).map(|i| upload(&slow, PIECE, i)).collect();
    let mut arrived = kept(&upload(&other, 1, 100), 100);
    slow.synchronize().unwrap();
    let last = upload(&other, 1, 101);
    arrived &= (0..).zip(&slow_ones).all(|(i, x)| kept(x, i)) && kept(&last, 101);
    format!("{arrived}")
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn an_upload_waits_for_no_other_stream() {
    let (said, log) = run(stub(), "slow_stream", &[]);
    assert_eq!(said, "true");
    let log = about_uploads(&log);
    let sixteenth = log.iter().rposition(|line| *line == "upload of 65536 bytes").unwrap() + 1;
    let expected = [
        "event queried",
        "stream queried",
        "upload of 4 bytes",
        "stream waited for, copies pending: 16", // the upload's
        LANDING[0],
        "stream waited for, copies pending: 16", // the download's
        "stream waited for, copies pending: 0",  // the slow stream's
        "event queried",
        "upload of 4 bytes",
    ];
    assert_eq!(log[sixteenth..][..expected.len()], expected);
    assert!(!log[..sixteenth].iter().any(|line| line.contains("waited")), "{log:?}");
}

/// Seventeen streams with an upload each, of which the last comes again when all others are idle, and then the second,
/// whose piece it has got.
pub(crate) fn many_streams(device: Device) -> String {
    let streams: Vec<_> = (0..17).map(|_| device.create_stream().unwrap()).collect();
    let mut arrays: Vec<_> = (0..).zip(&streams).map(|(i, stream)| upload(stream, 1, i)).collect();
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    for (i, stream) in [(17, &streams[16]), (18, &streams[16]), (19, &streams[1])] {
        arrays.push(upload(stream, 1, i));
    }
    format!("{}", (0..).zip(&arrays).all(|(i, x)| kept(x, i)))
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_piece_that_is_open_for_an_idle_stream_is_taken_where_all_are_open() {
    let uploaded = ["upload of 4 bytes"];
    let taken = ["stream queried", "upload of 4 bytes"];
    let copied = ["upload of 4 bytes", "stream waited for, copies pending: 0"];
    let cases: [(&[(&str, &str)], _, _); 2] = [
        (&[], "stream queried", [&taken[..], &uploaded, &taken]),
        // Without an answer the stream is taken to be busy, and the second one still has its piece.
        (
            &[("STUB_cuStreamQuery", "999")],
            "upload of 4 bytes",
            [&copied[..], &copied, &uploaded],
        ),
    ];
    for (variables, asked, expected) in cases {
        let (said, log) = run(stub(), "many_streams", variables);
        assert_eq!(said, "true", "{variables:?}");
        assert_eq!(count(&log, FREED), 16 + LANDING.len());
        assert_eq!(count(&log, "event recorded"), 16, "when the streams are dropped");
        let log = about_uploads(&log);
        // The seventeenth waits for its copy alone. Behind that are the waits for the seventeen streams.
        let waits = log
            .iter()
            .position(|line| line.starts_with("stream waited for"))
            .unwrap();
        let first = [asked, "upload of 4 bytes", "stream waited for, copies pending: 16"];
        assert_eq!(log[waits - 2..=waits], first);
        let expected = expected.concat();
        assert_eq!(log[waits + 18..][..expected.len()], expected, "{variables:?}: {log:?}");
    }
}

/// A stream is dropped with all pieces under way; the next one has its handle.
pub(crate) fn stream_drop(device: Device) -> String {
    let first = device.create_stream().unwrap();
    let arrays: Vec<_> = (0..16).map(|i| upload(&first, PIECE, i)).collect();
    drop((arrays, first));
    let second = device.create_stream().unwrap();
    format!("{}", kept(&upload(&second, 1, 16), 16))
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_piece_is_closed_before_its_stream_is_gone() {
    let (said, log) = run(stub(), "stream_drop", &[]);
    assert_eq!(said, "true");
    let log = about_uploads(&log);
    let sixteenth = log.iter().rposition(|line| *line == "upload of 65536 bytes").unwrap();
    let expected = [
        &["event recorded", "event queried", "upload of 4 bytes"][..],
        &["stream waited for, copies pending: 16"], // the upload's
        &LANDING,
        &["stream waited for, copies pending: 16"], // the download's
    ];
    let expected = expected.concat();
    let (found, end) = log[sixteenth + 1..].split_at(expected.len());
    assert_eq!(found, expected);
    assert_eq!(end.len(), 16 * END.len() + LANDING.len());
    assert_eq!(
        end.iter().filter(|line| **line == FREED).count(),
        16 + LANDING.len(),
        "{log:?}"
    );
}

/// Four threads on streams of their own, four on one.
pub(crate) fn upload_threads(device: Device) -> String {
    let (start, arrived) = (Barrier::new(8), AtomicBool::new(true));
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (device, start, arrived) = (&device, &start, &arrived);
            scope.spawn(move || {
                let stream = match i % 2 {
                    0 => device.create_stream().unwrap(),
                    _ => device.default_stream().clone(),
                };
                start.wait();
                let arrays: Vec<_> = (0..100).map(|j| upload(&stream, 500 * (j % 5), 100 * i + j)).collect();
                let ok = (0..).zip(&arrays).all(|(j, x)| kept(x, 100 * i + j));
                arrived.fetch_and(ok, Ordering::Relaxed);
            });
        }
    });
    format!("{}", arrived.into_inner())
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn threads_upload_at_once() {
    let (said, log) = run(stub(), "upload_threads", &[]);
    assert_eq!(said, "true");
    let pieces = count(&log, "host memory allocated");
    assert!((2..16 + 8 + 8).contains(&pieces), "{pieces}");
    assert_eq!(count(&log, FREED), pieces);
}

/// What the last two of some uploads say, whose arrays and stream go before their copies are done.
pub(crate) fn upload_errors(device: Device) -> String {
    let [uploads, words] = ["UPLOADS", "WORDS"].map(|name| std::env::var(name).unwrap().parse().unwrap());
    let stream = device.create_stream().unwrap();
    let upload = |i| match DeviceArray::from_ndarray(&stream, &numbers(words, i)) {
        Ok(_) => "ok",
        Err(Error::Cuda { call, .. }) => call,
        Err(error) => panic!("{error}"),
    };
    let said: Vec<_> = (0..uploads).map(upload).collect();
    said[uploads - 2..].join(", ")
}

/// Calls that fail, what the last two uploads say then, and how much page-locked memory is made and given back.
type Failure = (&'static [&'static str], &'static str, usize, usize);

/// Of two uploads that have room in one piece, which is closed when the stream is dropped.
const SMALL: [Failure; 7] = [
    (&[], "ok, ok", 1, 1),
    (&["cuMemHostAlloc"], "cuMemHostAlloc, cuMemHostAlloc", 0, 0),
    (&["cuEventCreate"], "cuEventCreate, cuEventCreate", 2, 2),
    (&["cuMemcpyHtoDAsync_v2"], "cuMemcpyHtoDAsync, cuMemcpyHtoDAsync", 1, 1),
    (&["cuEventRecord"], "ok, ok", 1, 1),
    (&["cuEventRecord", "cuStreamSynchronize"], "ok, ok", 1, 0),
    (&["cuEventSynchronize"], "ok, ok", 1, 0),
];

/// Of two that have not: the second one closes the first one's piece.
const LARGE: [Failure; 5] = [
    (&[], "ok, ok", 2, 2),
    (&["cuEventRecord"], "ok, cuEventRecord", 1, 1),
    (&["cuEventRecord", "cuStreamSynchronize"], "ok, cuEventRecord", 1, 0),
    (&["cuEventQuery"], "ok, cuEventQuery", 1, 1),
    (&["cuEventSynchronize"], "ok, ok", 2, 0),
];

/// Of eighteen that fill a piece each: the last two wait for the oldest.
const FULL: [Failure; 2] = [
    (&[], "ok, ok", 16, 16),
    (&["cuEventSynchronize"], "cuEventSynchronize, cuEventSynchronize", 16, 0),
];

/// Given back is all that the driver no longer reads, and never what it may still read.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn an_upload_that_fails_frees_nothing_in_use() {
    let small = SMALL.map(|failure| ("2", "10", failure));
    let large = LARGE.map(|failure| ("2", "10000", failure));
    let full = FULL.map(|failure| ("18", "16384", failure));
    let all = small.into_iter().chain(large).chain(full);
    for (uploads, words, (failing, wanted, made, freed)) in all {
        let names: Vec<_> = failing.iter().map(|call| format!("STUB_{call}")).collect();
        let mut variables: Vec<_> = names.iter().map(|name| (name.as_str(), "999")).collect();
        variables.extend([("UPLOADS", uploads), ("WORDS", words)]);
        let (said, log) = run(stub(), "upload_errors", &variables);
        assert_eq!(said, wanted, "{variables:?}");
        assert_eq!(count(&log, MADE[0]), made, "{variables:?}: {log:?}");
        let given_back = log.iter().filter(|line| line.starts_with("host memory freed"));
        assert_eq!(given_back.count(), freed, "{variables:?}: {log:?}");
        assert_eq!(count(&log, FREED), freed, "{variables:?}: {log:?}");
    }
}
