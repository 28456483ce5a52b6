// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launch with an argument too few.

use cuda_std::prelude::*;
use warpsmith::{DeviceArray, LaunchConfig, Stream};

#[kernel]
pub fn scale(factor: f32, x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, factor * x[i]);
}

fn launch(stream: &Stream, out: &mut DeviceArray<f32, ndarray::Ix1>) -> warpsmith::Result<()> {
    stream.launch::<scale>(&LaunchConfig::new(1, 32), (2.0f32, out))
}

fn main() {}
