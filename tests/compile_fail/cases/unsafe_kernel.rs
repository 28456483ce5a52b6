// SPDX-License-Identifier: MIT OR Apache-2.0
//! A safe launch of a kernel that is an `unsafe fn`.

use cuda_std::prelude::*;
use warpsmith::{DeviceArray, LaunchConfig, Stream};

/// # Safety
///
/// There are at most as many threads as elements.
#[kernel]
pub unsafe fn read(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    // SAFETY: the kernel's contract.
    out.set(i, unsafe { *x.get_unchecked(i) });
}

fn launch(
    stream: &Stream,
    x: &DeviceArray<f32, ndarray::Ix1>,
    out: &mut DeviceArray<f32, ndarray::Ix1>,
) -> warpsmith::Result<()> {
    stream.launch::<read>(&LaunchConfig::new(1, 32), (x, out))
}

fn main() {}
