// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two arrays go to the device, their sum comes back: `cargo run --release --example vector_add`.

use ndarray::Array1;
use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let a = Array1::linspace(0.0f32, 1.0, 1_000_000);
    let b = Array1::linspace(1.0f32, 0.0, 1_000_000);

    let x = DeviceArray::from_ndarray(stream, &a)?;
    let y = DeviceArray::from_ndarray(stream, &b)?;
    let sum = x.add(&y)?.to_ndarray()?;

    assert_eq!(sum, a + b);
    println!("{} sums on {}, all of them right", sum.len(), device.properties().name);
    Ok(())
}
