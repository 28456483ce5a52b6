// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a kernel takes on the device, by events: `cargo run --release --example timing [LENGTH]`.

use std::time::Duration;

use ndarray::Array1;
use warpsmith::{Device, DeviceArray};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    // Shorter where each of the GPU's threads is simulated.
    let default_len = if device.is_simulator() { 1 << 17 } else { 1 << 20 };
    let len: usize = std::env::args().nth(1).map_or(Ok(default_len), |len| len.parse())?;
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_shape_fn(len, |i| (i % 1000) as f32))?;
    let y = x.try_clone()?;
    let mut out = DeviceArray::zeros(stream, len)?;

    let mut times = Vec::new();
    for _ in 0..25 {
        let start = stream.record()?;
        x.add_into(&y, &mut out)?;
        let end = stream.record()?;
        times.push(end.elapsed_since(&start)?);
    }
    times.sort_unstable();
    let median: Duration = times[times.len() / 2];
    let gigabytes = 3.0 * (len * size_of::<f32>()) as f64 / 1e9;
    println!(
        "{len} additions on {}: median {median:?}, {:.0} GB/s",
        device.properties().name,
        gigabytes / median.as_secs_f64()
    );
    Ok(())
}
