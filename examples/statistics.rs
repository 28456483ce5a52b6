// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of a table, without leaving the device: `cargo run --release --example statistics`.

use ndarray::{Array2, Axis};
use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let samples = Array2::from_shape_fn((1000, 5), |(i, j)| ((i * 31 + j * 17) % (101 + j)) as f64);
    let x = DeviceArray::from_ndarray(device.default_stream(), &samples)?;

    println!("all: {} to {}, mean {:.4}", x.min()?, x.max()?, x.mean()?);
    // One result for each column; nothing is waited for until it is read back.
    let (mean, deviation) = (x.mean_axis(Axis(0))?, x.std_axis(Axis(0), 1)?);
    let highest = x.argmax_axis(Axis(0))?;
    println!("means      {:.3}", mean.to_ndarray()?);
    println!("deviations {:.3}", deviation.to_ndarray()?);
    println!("highest in {}", highest.to_ndarray()?);

    let error = &deviation.to_ndarray()? - &samples.std_axis(Axis(0), 1.0);
    assert!(error.iter().all(|error| error.abs() < 1e-9));
    Ok(())
}
