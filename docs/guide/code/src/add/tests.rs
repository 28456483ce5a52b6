// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": an element for each thread, the test.

use super::hello_kernels;

// ANCHOR: test
use hello_kernels::add;
use warpsmith::ndarray::Array1;
use warpsmith::{Checks, Device, DeviceArray, LaunchConfig};

#[test]
fn adds_arrays_of_any_length() -> warpsmith::Result<()> {
    let device = Device::checked_simulator(Checks::ALL);
    let stream = device.default_stream();
    for len in [1, 255, 256, 257, 1000] {
        let host = Array1::from_shape_fn(len, |i| i as f32);
        let x = DeviceArray::from_ndarray(stream, &host)?;
        let mut out = DeviceArray::zeros(stream, len)?;
        let config = LaunchConfig::for_len(len, 256);
        stream.launch::<add>(&config, (&x, &x, &mut out))?;
        assert_eq!(out.to_ndarray()?, 2.0 * host);
    }
    Ok(())
}
// ANCHOR_END: test
