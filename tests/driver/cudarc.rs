// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shared with `cudarc`, with a driver that copies as late as it may: who waits for whom, and who frees what.

use ndarray::array;
use warpsmith::{Device, DeviceArray, Stream};

use super::{run, stub};

/// A slice whose elements are not yet there becomes an array, and is freed with it.
pub(crate) fn slices(device: Device) -> String {
    let context = device.cudarc_context().unwrap();
    let queue = context.new_stream().unwrap();
    let numbers = [1u32, 2, 3, 4];
    let slice = queue.clone_htod(&numbers).unwrap();
    let x = DeviceArray::from_cudarc(device.default_stream(), slice).unwrap();
    let read = x.to_ndarray().unwrap();
    drop((x, queue, context));
    format!("{read}")
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_slice_is_waited_for_and_freed_once() {
    let (said, log) = run(stub(), "cudarc_slices", &[]);
    assert_eq!(said, "[1, 2, 3, 4]");
    let count = |line: &str| log.iter().filter(|said| *said == line).count();
    // Once by `cudarc`, when it makes its first stream.
    assert_eq!(count("all waited for"), 2, "{log:?}");
    // The library's share of the context, and that of `cudarc`.
    assert_eq!(
        (count("context released"), count("context destroyed")),
        (2, 1),
        "{log:?}"
    );
}

/// Arrays are lent; the other stream's work is ordered by the lent slice's events alone.
pub(crate) fn lent(device: Device) -> String {
    let context = device.cudarc_context().unwrap();
    let (queue, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let mut said = Vec::new();
    for stream in [&queue, &other] {
        let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![1u32, 2, 3]).unwrap();
        let mut read = [0; 3];
        x.with_cudarc(&queue, |view| stream.memcpy_dtoh(&view, &mut read))
            .unwrap()
            .unwrap();
        stream.synchronize().unwrap();
        said.push(format!("{read:?}"));
        x.with_cudarc_mut(&queue, |mut view| stream.memcpy_htod(&[4, 5, 6], &mut view))
            .unwrap()
            .unwrap();
        said.push(x.to_ndarray().unwrap().to_string());
    }
    // Memory that is given back behind the work that reads it.
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![7u32, 8, 9]).unwrap();
    let mut read = [0; 3];
    x.with_cudarc(&queue, |view| other.memcpy_dtoh(&view, &mut read))
        .unwrap()
        .unwrap();
    drop(x);
    let y = DeviceArray::from_ndarray(device.default_stream(), &array![0u32, 0, 0]).unwrap();
    device.default_stream().synchronize().unwrap();
    other.synchronize().unwrap();
    drop(y);
    said.push(format!("{read:?}"));
    said.join(" ")
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_is_lent_is_ordered_ahead_and_behind() {
    let (said, _) = run(stub(), "cudarc_lent", &[]);
    assert_eq!(said, "[1, 2, 3] [4, 5, 6] [1, 2, 3] [4, 5, 6] [7, 8, 9]");
}

/// A stream of the other library's, with an array at home on it.
pub(crate) fn streams(device: Device) -> String {
    let context = device.cudarc_context().unwrap();
    let queue = context.new_stream().unwrap();
    let stream = Stream::from_cudarc(&device, queue.clone()).unwrap();
    let x = DeviceArray::from_ndarray(&stream, &array![1u32, 2]).unwrap();
    drop((stream, queue));
    let read = x.to_ndarray().unwrap();
    // The library's own stream, whose use of the array waits for the other one's.
    let y = DeviceArray::from_ndarray(device.default_stream(), &array![0u32, 0]).unwrap();
    drop((x, y));
    let refused = Stream::from_cudarc(&device, context.per_thread_stream()).unwrap_err();
    let kept = device.reset().unwrap_err();
    drop(context);
    device.reset().unwrap().synchronize().unwrap();
    format!("{read}; {refused}; {kept}")
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_stream_is_kept_and_the_context_with_it() {
    let (said, _) = run(stub(), "cudarc_streams", &[]);
    let parts: Vec<_> = said.split("; ").collect();
    assert_eq!(parts[0], "[1, 2]");
    assert!(
        parts[1].contains("wanted one stream, whatever thread uses it"),
        "{said}"
    );
    assert!(
        parts[2].contains("another library of this process uses its context"),
        "{said}"
    );
}
