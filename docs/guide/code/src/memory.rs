// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Memory".

use warpsmith::ndarray::{Array1, Array2, array, s};
use warpsmith::sim::{Operation, Space};
use warpsmith::{Device, DeviceArray, LaunchConfig, PinnedArray, Stream};
use warpsmith_guide_kernels::memory::{Shift, THREADS, copy_every, move_points, reverse_blocks};

use crate::book::{assert_shown, simulator};

#[test]
// ANCHOR: stays
fn stays_on_the_device() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let mut x = DeviceArray::from_ndarray(stream, &Array1::linspace(0.0f32, 1.0, 1000))?;
    for _ in 0..10 {
        x = x.sqrt()?.mul_scalar(0.5)?; // no element comes to the host
    }
    assert!(x.max()? <= 0.5); // one number does
    Ok(())
}
// ANCHOR_END: stays

#[test]
// ANCHOR: again
fn uses_memory_again() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let mut x = DeviceArray::<f32, _>::zeros(stream, 1000)?;
    let mut out = DeviceArray::zeros(stream, 1000)?;
    for step in 0..3 {
        x.assign_ndarray(&Array1::from_elem(1000, step as f32))?; // into x's memory
        x.exp_into(&mut out)?; // into out's
    }
    assert_eq!(out.get([999])?, 2.0f32.exp()); // reads one element
    Ok(())
}
// ANCHOR_END: again

#[test]
// ANCHOR: views
fn views_copy_nothing() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    assert_eq!(x.t().shape(), [3, 2]);
    assert_eq!(x.slice(s![.., 1..])?.to_ndarray()?, array![[2.0, 3.0], [5.0, 6.0]]);
    assert_eq!(x.slice(s![1, ..])?.sum()?, 15.0);
    Ok(())
}
// ANCHOR_END: views

#[test]
// ANCHOR: pinned
fn copies_that_nobody_waits_for() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let batch = PinnedArray::from_ndarray(&device, &Array1::linspace(0.0f32, 1.0, 1000))?;
    let (x, upload) = DeviceArray::upload_async(stream, batch)?; // comes back at once
    let download = x.square()?.download_async()?; // so does this
    // The host has its hands free until here.
    let result = download.wait()?;
    let batch = upload.wait()?; // the memory, for the next batch
    assert_eq!(result.view()[999], batch.view()[999].powi(2));
    Ok(())
}
// ANCHOR_END: pinned

#[test]
fn copies_every_third() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_shape_fn(300, |i| i as f32))?;
    let mut out = DeviceArray::zeros(stream, 100)?;
    stream.launch::<copy_every>(&LaunchConfig::for_len(100, 64), (3usize, &x, &mut out))?;
    assert_eq!(out.to_ndarray()?, Array1::from_shape_fn(100, |i| 3.0 * i as f32));
    Ok(())
}

// ANCHOR: counted
fn what_strides_cost() -> warpsmith::Result<String> {
    let device = Device::counting_simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::zeros(stream, 32 * 1024)?;
    let mut out = DeviceArray::zeros(stream, 1024)?;
    let mut shown = String::new();
    for stride in [1, 2, 4, 8, 32] {
        stream.launch::<copy_every>(&LaunchConfig::for_len(1024, 256), (stride, &x, &mut out))?;
        let counters = &device.take_counters()[0];
        let loads = counters.total(Space::Global, Operation::Load);
        let (sectors, used) = (loads.sectors_per_request(), 100.0 * loads.efficiency());
        shown += &format!("stride {stride:>2}: {sectors:>2} sectors a request, {used:>5} % of their bytes used\n");
    }
    Ok(shown)
}
// ANCHOR_END: counted

#[test]
fn strides_cost_sectors() -> warpsmith::Result<()> {
    assert_shown("strides", &what_strides_cost()?);
    Ok(())
}

// ANCHOR: launch_structures
fn moved(stream: &Stream, points: &Array2<f32>) -> warpsmith::Result<Array2<f32>> {
    let count = points.ncols();
    let mut on_device = DeviceArray::from_ndarray(stream, points)?;
    let shift = Shift {
        x: 1.0,
        y: 0.0,
        z: -1.0,
    };
    stream.launch::<move_points>(&LaunchConfig::for_len(count, 256), (shift, count, &mut on_device))?;
    on_device.to_ndarray()
}
// ANCHOR_END: launch_structures

#[test]
fn moves_points() -> warpsmith::Result<()> {
    let device = simulator();
    let points = Array2::from_shape_fn((3, 300), |(axis, i)| (axis * 1000 + i) as f32);
    let by = array![[1.0f32], [0.0], [-1.0]];
    assert_eq!(moved(device.default_stream(), &points)?, &points + &by);
    Ok(())
}

#[test]
fn reverses_blocks() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_shape_fn(128, |i| i as f32))?;
    let mut out = DeviceArray::zeros(stream, 128)?;
    stream.launch::<reverse_blocks>(&LaunchConfig::new(2, THREADS as u32), (&x, &mut out))?;
    assert_eq!(
        out.to_ndarray()?,
        Array1::from_shape_fn(128, |i| (i / 64 * 64 + 63 - i % 64) as f32)
    );
    Ok(())
}

#[test]
// ANCHOR: limit
fn memory_is_counted_and_can_be_limited() -> warpsmith::Result<()> {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::zeros(stream, 1_000_000)?;
    assert_eq!(device.memory()?.allocated, 4_000_000);

    device.set_memory_limit(Some(6_000_000));
    let error = x.exp().map(drop).unwrap_err();
    assert!(matches!(error, warpsmith::Error::OutOfMemory { wanted: 4_000_000, .. }));
    Ok(())
}
// ANCHOR_END: limit
