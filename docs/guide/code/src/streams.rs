// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Streams, overlap and graphs".

use std::collections::VecDeque;

use warpsmith::ndarray::{Array1, Ix1};
use warpsmith::{Device, DeviceArray, PinnedArray};

#[test]
// ANCHOR: two
fn two_streams() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let (one, other) = (device.create_stream()?, device.create_stream()?);
    let host = Array1::from_elem(1000, 2.0f32);
    let x = DeviceArray::from_ndarray(&one, &host)?.square()?; // on one stream
    let y = DeviceArray::from_ndarray(&other, &host)?.exp()?; // beside it, on the other
    let z = x.add(&y)?; // behind both, without a wait of the host
    assert_eq!(z.get([0])?, 4.0 + 2.0f32.exp());
    Ok(())
}
// ANCHOR_END: two

#[test]
// ANCHOR: events
fn time_by_events() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::ones(stream, 100_000)?;
    let mut out = x.zeros_like()?;
    x.exp_into(&mut out)?; // the first launch also loads the kernel
    let start = stream.record()?;
    x.exp_into(&mut out)?;
    let end = stream.record()?;
    let elapsed = end.elapsed_since(&start)?; // waits for `end`
    println!("{:.1} GB/s", 8.0 * 100_000.0 / elapsed.as_secs_f64() / 1e9);
    Ok(())
}
// ANCHOR_END: events

#[test]
// ANCHOR: overlap
fn batches_overlap() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    let streams = [
        device.create_stream()?,
        device.create_stream()?,
        device.create_stream()?,
    ];
    let (mut under_way, mut sum) = (VecDeque::new(), 0.0);
    for batch in 0..10 {
        let stream = &streams[batch % streams.len()];
        let input = PinnedArray::from_ndarray(&device, &Array1::from_elem(1000, batch as f32))?;
        let (x, _upload) = DeviceArray::upload_async(stream, input)?;
        under_way.push_back(x.square()?.download_async()?);
        if under_way.len() == streams.len() {
            sum += under_way.pop_front().ok_or("a batch is under way")?.wait()?.view()[0];
        }
    }
    for download in under_way {
        sum += download.wait()?.view()[0];
    }
    assert_eq!(sum, (0..10).map(|i| (i * i) as f32).sum());
    Ok(())
}
// ANCHOR_END: overlap

#[test]
// ANCHOR: graph
fn many_operations_as_one_launch() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let a = DeviceArray::<f32, Ix1>::from_elem(stream, 100, 2.0)?;
    // 20 steps of Newton's method for the square root, recorded: nothing is computed yet.
    let mut graph = stream.capture(a, |_, a| {
        let mut x = a.try_clone()?;
        for _ in 0..20 {
            x = x.add(&a.div(&x)?)?.mul_scalar(0.5)?;
        }
        Ok(x)
    })?;
    for value in [2.0f32, 9.0] {
        graph.args_mut().fill(value)?;
        graph.launch()?; // all of it, by one call
        assert!((graph.output().get([99])? - value.sqrt()).abs() < 1e-6);
    }
    Ok(())
}
// ANCHOR_END: graph
