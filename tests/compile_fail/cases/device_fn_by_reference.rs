// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device function that borrows what it takes.

use cuda_std::prelude::*;

#[device_fn]
pub fn first(x: &[f32]) -> f32 {
    x[0]
}

fn main() {}
