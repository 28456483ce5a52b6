// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launch that would write through a shared borrow.

use cuda_std::prelude::*;
use warpsmith::{DeviceArray, LaunchConfig, Stream};

#[kernel]
pub fn set_ones(out: SliceMut<'_, f32>) {
    out.set(thread::index_1d(), 1.0);
}

fn launch(stream: &Stream, out: &DeviceArray<f32, ndarray::Ix1>) -> warpsmith::Result<()> {
    stream.launch::<set_ones>(&LaunchConfig::new(1, 32), (out,))
}

fn main() {}
