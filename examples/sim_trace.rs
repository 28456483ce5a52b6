// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a block does, step by step: each access to memory that a warp makes, with the elements of its lanes, and each
//! barrier. Needs no GPU.
//!
//! ```text
//! cargo run --example sim_trace
//! ```

use cuda_std::prelude::*;
use warpsmith::ndarray::Array1;
use warpsmith::{Device, DeviceArray, LaunchConfig};

/// Reverses each block's part, and adds up neighbours: through shared memory, with a barrier between.
#[kernel(max_threads = 64)]
fn reverse(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; 64];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    tile.set(t, x[i]);
    thread::sync_threads();
    let mut value = tile.get(63 - t);
    // Lanes that are not even have nothing to do here.
    if t.is_multiple_of(2) {
        value += tile.get(t);
    }
    out.set(i, value);
}

fn main() -> warpsmith::Result<()> {
    // The second of the launch's blocks is looked at.
    let device = Device::tracing_simulator(1);
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::linspace(0.0_f32, 127.0, 128))?;
    let mut out = DeviceArray::<f32, _>::zeros(stream, 128)?;
    device.take_counters();
    stream.launch::<reverse>(&LaunchConfig::new(2, 64), (&x, &mut out))?;
    for counters in device.take_counters() {
        for (number, step) in counters.steps.iter().enumerate() {
            println!("{number:>3}  {step}");
        }
        println!("\n{counters}");
        // A load and a store of each warp, a barrier, and again two loads of each and a store.
        assert_eq!(counters.steps.len(), 4 + 1 + 6);
    }
    assert_eq!(out.to_ndarray()?[64], 127.0 + 64.0);
    Ok(())
}
