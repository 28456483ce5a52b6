// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": an element for each thread.

// ANCHOR: kernel
use cuda_std::prelude::*;

/// `out[i] = x[i] + y[i]`
#[kernel]
pub fn add(x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x[i] + y[i]);
    }
}
// ANCHOR_END: kernel

// ANCHOR: launch
use warpsmith::ndarray::Array1;
use warpsmith::{Device, DeviceArray, LaunchConfig, Stream};

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
fn adds_arrays_of_any_length() -> warpsmith::Result<()> {
    let device: Device = crate::book::simulator();
    let stream = device.default_stream();
    for len in [1, 255, 256, 257, 1000] {
        let x = Array1::from_shape_fn(len, |i| i as f32);
        assert_eq!(add_arrays(stream, &x, &(2.0 * &x))?, 3.0 * x);
    }
    // ANCHOR: end
    let x = Array1::linspace(0.0, 1.0, 1000);
    println!("{}", add_arrays(stream, &x, &x)?);
    Ok(())
    // ANCHOR_END: end
}
