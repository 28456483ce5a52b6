// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": the first program, as a whole.

// ANCHOR: uses
use warpsmith::ndarray::Array1;
use warpsmith::{Device, DeviceArray};
// ANCHOR_END: uses

#[test]
// ANCHOR: main
fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?; // the first GPU, or the simulated one
    let stream = device.default_stream(); // a queue of work
    let host = Array1::linspace(0.0f32, 1.0, 1000);

    let x = DeviceArray::from_ndarray(stream, &host)?; // copied to the device
    let y = x.square()?.add(&x)?; // two kernels, queued
    let back = y.to_ndarray()?; // waits, and copies to the host

    assert_eq!(back, host.mapv(|x| x * x + x));
    println!("{} numbers by {}", back.len(), device.properties().name);
    Ok(())
}
// ANCHOR_END: main
