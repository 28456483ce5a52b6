// SPDX-License-Identifier: MIT OR Apache-2.0
//! One array as the input and the output, of a launch and of an operation.

use cuda_std::prelude::*;
use warpsmith::{DeviceArray, LaunchConfig, Result, Stream};

#[kernel]
pub fn copy(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, x[i]);
}

fn launch(stream: &Stream, mut x: DeviceArray<f32, ndarray::Ix1>) -> Result<()> {
    stream.launch::<copy>(&LaunchConfig::new(1, 32), (&x, &mut x))?;
    x.exp_into(&mut x)
}

fn main() {}
