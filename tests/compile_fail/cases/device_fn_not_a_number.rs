// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device functions that take and give what is no number.

use cuda_std::prelude::*;

#[device_fn]
pub fn length(v: [f32; 2]) -> f32 {
    v[0] + v[1]
}

#[device_fn]
pub fn pair(x: f32) -> (f32, f32) {
    (x, x)
}

fn main() {}
