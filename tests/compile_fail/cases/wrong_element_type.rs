// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launch with an array of `f64` where the kernel takes `f32`.

use cuda_std::prelude::*;
use warpsmith::{DeviceArray, LaunchConfig, Stream};

#[kernel]
pub fn count_zeros(x: &[f32], count: SliceMut<'_, u32>) {
    if x[thread::index_1d()] == 0.0 {
        count.atomic(0).fetch_add(1);
    }
}

fn launch(
    stream: &Stream,
    x: &DeviceArray<f64, ndarray::Ix1>,
    count: &mut DeviceArray<u32, ndarray::Ix1>,
) -> warpsmith::Result<()> {
    stream.launch::<count_zeros>(&LaunchConfig::new(1, 32), (x, count))
}

fn main() {}
