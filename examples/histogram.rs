// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram drawn as bars: `cargo run --release --example histogram`.

use ndarray::Array1;
use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    // The mean of three waves that do not fit together: nearly a bell.
    let samples = Array1::from_shape_fn(100_000, |i| {
        let t = i as f32;
        (t.sin() + (t * 1.618).sin() + (t * 2.414).sin()) / 3.0
    });
    let x = DeviceArray::from_ndarray(device.default_stream(), &samples)?;

    let (counts, edges) = x.histogram_auto(16)?;
    let counts = counts.to_ndarray()?;
    let most = counts.iter().copied().max().unwrap_or(1);
    for (count, edges) in counts.iter().zip(edges.windows(2)) {
        let bar = "#".repeat((count * 50 / most) as usize);
        println!("{:6.3} to {:6.3} {count:6} {bar}", edges[0], edges[1]);
    }
    assert_eq!(counts.sum(), samples.len() as u64);
    Ok(())
}
