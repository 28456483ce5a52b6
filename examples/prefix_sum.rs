// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running totals, and where variable-length records begin: `cargo run --release --example prefix_sum`.

use ndarray::{Array1, Axis};
use warpsmith::ops::{Max, ScanAlgorithm, Sum};
use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();

    // Records of 0 to 6 bytes one behind the other: an exclusive scan of the lengths says where each begins.
    let lengths = Array1::from_iter((0..100_000u64).map(|i| i * i % 7));
    let x = DeviceArray::from_ndarray(stream, &lengths)?;
    let starts = x.exclusive_scan::<Sum>()?.to_ndarray()?;
    let last = lengths.len() - 1;
    println!("record {last} begins at byte {}", starts[last]);
    assert_eq!(starts[last] + lengths[last], lengths.sum());

    // The highest value so far in each of 100 series, and a running total whose bits are the same on every run.
    let series = Array1::from_iter((0..100_000).map(|i| ((i * 37 % 1009) as f32).sin()));
    let table = series
        .clone()
        .into_shape_with_order((100, 1000))
        .expect("as many elements");
    let highest = DeviceArray::from_ndarray(stream, &table)?.inclusive_scan_axis::<Max>(Axis(1))?;
    let total = DeviceArray::from_ndarray(stream, &series)?.inclusive_scan_by::<Sum>(ScanAlgorithm::Blelloch)?;
    println!(
        "series 0 ends at its highest value, {:.3}",
        highest.to_ndarray()?[(0, 999)]
    );
    println!(
        "the total of all values is {:.3}",
        total.to_ndarray()?[series.len() - 1]
    );
    Ok(())
}
