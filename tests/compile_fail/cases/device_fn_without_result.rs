// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device function that gives nothing.

use cuda_std::prelude::*;

#[device_fn]
pub fn nothing(x: f32) {
    let _ = x;
}

fn main() {}
