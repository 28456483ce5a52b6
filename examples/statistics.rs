// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mean and standard deviation without leaving the device: `cargo run --release --example statistics`.

use ndarray::Array2;
use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let samples = Array2::from_shape_fn((1000, 500), |(i, j)| ((i * 31 + j * 17) % 101) as f64);
    let x = DeviceArray::from_ndarray(device.default_stream(), &samples)?;

    let mean = x.mean()?;
    let deviation = x.sub_scalar(mean)?.square()?.mean()?.sqrt();
    println!(
        "{} to {}, mean {mean:.4}, standard deviation {deviation:.4}",
        x.min()?,
        x.max()?
    );
    assert!((deviation - samples.std(0.0)).abs() < 1e-9);
    Ok(())
}
