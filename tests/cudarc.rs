// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory and streams shared with `cudarc`. On the simulated GPU, that there is nothing to share. Who waits for whom is in
//! driver/cudarc.rs, with a driver that copies as late as it may.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaView};
use ndarray::{Array1, Array2, Ix1, array};
use warpsmith::{Device, DeviceArray, Error, Stream};

use crate::common::gpu;

/// The GPU, and its context as `cudarc` has it.
fn shared(test: &str) -> Option<(&'static Device, Arc<CudaContext>)> {
    let device = gpu(test)?;
    Some((device, device.cudarc_context().expect("the context can be retained")))
}

#[test]
fn the_simulator_has_no_context() {
    let error = Device::simulator().cudarc_context().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cudarc_context: given an operand on sim, wanted one on cuda:N; `to_device` copies arrays"
    );
}

#[test]
fn a_slice_becomes_an_array() {
    let Some((device, context)) = shared("a_slice_becomes_an_array") else {
        return;
    };
    let numbers: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
    // The default stream, with which this library's do not wait for one another by themselves.
    for queue in [context.default_stream(), context.new_stream().unwrap()] {
        let slice = queue.clone_htod(&numbers).unwrap();
        let x = DeviceArray::from_cudarc(device.default_stream(), slice).unwrap();
        assert_eq!(
            x.add_scalar(1.0).unwrap().to_ndarray().unwrap(),
            Array1::from_vec(numbers.clone()) + 1.0
        );
        drop(x);
        let empty: CudaSlice<f32> = queue.null().unwrap();
        let empty = DeviceArray::from_cudarc(device.default_stream(), empty).unwrap();
        assert!(empty.is_empty());
    }
    context.synchronize().expect("what was freed is freed once");
}

#[test]
fn an_array_is_lent() {
    let Some((device, context)) = shared("an_array_is_lent") else {
        return;
    };
    let (queue, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let numbers = Array2::from_shape_fn((100, 1000), |(i, j)| (1000 * i + j) as u64);
    let mut x = DeviceArray::from_ndarray(device.default_stream(), &numbers).unwrap();
    for round in 0..20 {
        // Written by this library, read and written by the other one, on two streams, and read by this one.
        x.add_assign_scalar(1).unwrap();
        let read = x.with_cudarc(&queue, |view| other.clone_dtoh(&view)).unwrap().unwrap();
        let want = numbers.mapv(|x| x + 2 * round + 1);
        assert_eq!(read, want.as_slice().unwrap());
        let plus_one: Vec<u64> = read.iter().map(|x| x + 1).collect();
        x.with_cudarc_mut(&queue, |mut view| other.memcpy_htod(&plus_one, &mut view))
            .unwrap()
            .unwrap();
        assert_eq!(x.to_ndarray().unwrap(), want + 1);
    }
    drop(x);
    let none = DeviceArray::<u64, _>::zeros(device.default_stream(), 0).unwrap();
    assert_eq!(none.with_cudarc(&queue, |view| view.len()).unwrap(), 0);
    queue.synchronize().unwrap();
}

#[test]
fn a_panic_takes_nothing_along() {
    let Some((device, context)) = shared("a_panic_takes_nothing_along") else {
        return;
    };
    let queue = context.new_stream().unwrap();
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![1u32, 2, 3]).unwrap();
    let panic = |_: CudaView<'_, u32>| panic!("as a user's closure may");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| x.with_cudarc(&queue, panic)));
    assert!(caught.is_err());
    assert_eq!(x.to_ndarray().unwrap(), array![1, 2, 3]);
}

#[test]
fn a_stream_is_used_by_both() {
    let Some((device, context)) = shared("a_stream_is_used_by_both") else {
        return;
    };
    for queue in [context.default_stream(), context.new_stream().unwrap()] {
        let stream = Stream::from_cudarc(device, Arc::clone(&queue)).unwrap();
        let x = DeviceArray::from_ndarray(&stream, &Array1::<f32>::ones(1 << 20)).unwrap();
        let y = x.add_scalar(1.0).unwrap();
        queue.synchronize().unwrap();
        drop((x, stream));
        assert_eq!(y.sum().unwrap(), 2.0 * (1 << 20) as f32, "the array keeps the stream");
        drop(y);
        queue.synchronize().expect("still the queue's own");
    }
    let stream = device.create_stream().unwrap();
    // SAFETY: the stream outlives all that is made with it.
    let queue = unsafe { stream.as_cudarc(&context) }.unwrap();
    assert_eq!(queue.cu_stream().cast(), stream.as_raw());
    let x = DeviceArray::from_cudarc(&stream, queue.clone_htod(&[1.0f64, 2.0]).unwrap()).unwrap();
    assert_eq!(x.exp().unwrap().ln().unwrap().sum().unwrap(), 3.0);
    drop((x, queue));
}

#[test]
fn what_is_no_stream_of_the_device_is_refused() {
    let Some((device, context)) = shared("what_is_no_stream_of_the_device_is_refused") else {
        return;
    };
    let error = Stream::from_cudarc(device, context.per_thread_stream()).unwrap_err();
    assert!(
        error.to_string().contains("wanted one stream, whatever thread uses it"),
        "{error}"
    );
    let queue = context.new_stream().unwrap();
    let error = Stream::from_cudarc(&Device::simulator(), queue.clone()).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
    let simulated = DeviceArray::<f32, Ix1>::zeros(Device::simulator().default_stream(), 3).unwrap();
    let error = simulated.with_cudarc(&queue, |view| view.len()).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
    let slice = queue.clone_htod(&[1u8]).unwrap();
    let error = DeviceArray::from_cudarc(simulated.stream(), slice).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
}
