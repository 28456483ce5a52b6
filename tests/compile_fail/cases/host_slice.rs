// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launch with memory of the host.

use cuda_std::prelude::*;
use warpsmith::{LaunchConfig, Stream};

#[kernel]
pub fn set_ones(out: SliceMut<'_, f32>) {
    out.set(thread::index_1d(), 1.0);
}

#[kernel]
pub fn check_ones(x: &[f32]) {
    assert!(x[thread::index_1d()] == 1.0);
}

fn launch(stream: &Stream, x: &mut [f32]) -> warpsmith::Result<()> {
    stream.launch::<check_ones>(&LaunchConfig::new(1, 32), (&*x,))?;
    stream.launch::<set_ones>(&LaunchConfig::new(1, 32), (x,))
}

fn main() {}
