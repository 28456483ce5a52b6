// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory, streams and events shared with `cust`. On the simulated GPU, that they are refused.

use std::sync::Arc;

use cust::memory::{CopyDestination, DeviceBuffer, DeviceSlice};
use cust::stream::StreamFlags;
use ndarray::{Array1, array};
use warpsmith::{Device, DeviceArray, Error, Stream};

use crate::common::device;

/// The device, with its context current for `cust`; none on the simulated GPU.
fn gpu() -> Option<(&'static Device, cust::context::Context)> {
    let device = device();
    (!device.is_simulator()).then(|| (device, device.cust_context().expect("the context can be retained")))
}

#[test]
fn the_simulator_shares_nothing() {
    let device = Device::simulator();
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32]).unwrap();
    assert!(x.as_cust().is_none());
    assert!(device.default_stream().as_cust().is_none());
    assert!(device.default_stream().record().unwrap().as_cust().is_none());
    let error = device.cust_context().expect_err("there is no context");
    assert_eq!(
        error.to_string(),
        "cust_context: given an operand on sim, wanted one on cuda:N; `to_device` copies arrays"
    );
}

#[test]
fn a_buffer_becomes_an_array() {
    let Some((device, _context)) = gpu() else { return };
    let numbers = Array1::from_iter((0..1000).map(|i| i as f32));
    let buffer = DeviceBuffer::from_slice(numbers.as_slice().unwrap()).unwrap();
    let address = buffer.as_device_ptr();
    let x = DeviceArray::from_cust(device.default_stream(), buffer).unwrap();
    assert_eq!(x.as_cust(), Some(address), "nothing is copied");
    assert_eq!(x.sum().unwrap(), numbers.sum());
    assert_eq!(x.add_scalar(1.0).unwrap().to_ndarray().unwrap(), numbers + 1.0);
    let empty = DeviceArray::from_cust(device.default_stream(), DeviceBuffer::<f32>::from_slice(&[]).unwrap());
    assert!(empty.unwrap().is_empty());
}

#[test]
fn memory_of_the_host_is_refused() {
    let Some((device, _context)) = gpu() else { return };
    let mut host = [0u64; 64];
    let pointer = cust::memory::DevicePointer::from_raw(host.as_mut_ptr().expose_provenance() as u64);
    // SAFETY: never read, and not freed: `from_cust` drops it, and the driver knows of no such memory.
    let buffer = unsafe { DeviceBuffer::<u64>::from_raw_parts(pointer, host.len()) };
    let error = DeviceArray::from_cust(device.default_stream(), buffer).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
}

#[test]
fn an_array_is_read_and_written_by_cust() {
    let Some((device, _context)) = gpu() else { return };
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![1u32, 2, 3, 4]).unwrap();
    device.default_stream().synchronize().unwrap();
    // SAFETY: the array's elements; nothing else uses them until both slices are gone.
    let mut slice = unsafe { DeviceSlice::from_raw_parts_mut(x.as_cust().unwrap(), x.len()) };
    let mut host = [0; 4];
    slice.copy_to(&mut host).unwrap();
    assert_eq!(host, [1, 2, 3, 4]);
    slice.copy_from(&[5, 6, 7, 8]).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![5, 6, 7, 8]);
}

#[test]
fn a_stream_is_used_by_both() {
    let Some((device, _context)) = gpu() else { return };
    let queue = Arc::new(cust::stream::Stream::new(StreamFlags::DEFAULT, None).unwrap());
    let stream = Stream::from_cust(device, Arc::clone(&queue)).unwrap();
    assert_eq!(stream.as_cust(), Some(queue.as_inner()));
    let x = DeviceArray::from_ndarray(&stream, &Array1::<f32>::ones(1 << 20)).unwrap();
    let y = x.add_scalar(1.0).unwrap();
    queue.synchronize().unwrap();
    assert!(stream.record().unwrap().as_cust().is_some_and(|event| !event.is_null()));
    drop((x, stream));
    assert_eq!(y.sum().unwrap(), 2.0 * (1 << 20) as f32, "the array keeps the stream");
    drop(y);
    queue.synchronize().expect("still the queue's own");
}
