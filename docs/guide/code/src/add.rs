// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": an element for each thread, the program.

// The crate of the reader's kernels.
use warpsmith_guide_kernels::add as hello_kernels;
/// Stands for the reader's `tests/kernels.rs`.
mod tests;

// ANCHOR: uses
use hello_kernels::add;
use warpsmith::ndarray::Array1;
use warpsmith::{Device, DeviceArray, LaunchConfig, Stream};
// ANCHOR_END: uses

// ANCHOR: launch
fn add_arrays(stream: &Stream, x: &Array1<f32>, y: &Array1<f32>) -> warpsmith::Result<Array1<f32>> {
    let on_x = DeviceArray::from_ndarray(stream, x)?;
    let on_y = DeviceArray::from_ndarray(stream, y)?;
    let mut out = DeviceArray::zeros(stream, x.len())?;
    let config = LaunchConfig::for_len(x.len(), 256); // as many blocks of 256 as it takes
    stream.launch::<add>(&config, (&on_x, &on_y, &mut out))?;
    out.to_ndarray()
}
// ANCHOR_END: launch

#[test]
fn prints_a_sum() -> warpsmith::Result<()> {
    let device: Device = crate::book::simulator();
    let stream = device.default_stream();
    // ANCHOR: end
    let x = Array1::linspace(0.0, 1.0, 1000);
    let sum = add_arrays(stream, &x, &x)?;
    println!("{sum}");
    assert_eq!(sum, 2.0 * x);
    Ok(())
}
// ANCHOR_END: end
