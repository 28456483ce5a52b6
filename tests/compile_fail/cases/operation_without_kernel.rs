// SPDX-License-Identifier: MIT OR Apache-2.0
//! An operation on an element type that it is not made for.

use warpsmith::{DeviceArray, Result};

fn mean(x: &DeviceArray<i8, ndarray::Ix1>) -> Result<f64> {
    x.mean()
}

fn main() {}
