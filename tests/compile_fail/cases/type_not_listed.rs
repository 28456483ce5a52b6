// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launch of a generic kernel for a type that it is not compiled for.

use cuda_std::prelude::*;
use warpsmith::{DeviceArray, LaunchConfig, Stream};

#[kernel(T = [f32, f64])]
pub fn halve<T: Float>(x: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    out.set(i, x[i] * T::from_f64(0.5));
}

fn launch(
    stream: &Stream,
    x: &DeviceArray<i32, ndarray::Ix1>,
    out: &mut DeviceArray<i32, ndarray::Ix1>,
) -> warpsmith::Result<()> {
    stream.launch::<halve<i32>>(&LaunchConfig::new(1, 32), (x, out))
}

fn main() {}
