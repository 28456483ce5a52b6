// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel with a result.

use cuda_std::prelude::*;

#[kernel]
pub fn first(x: &[f32]) -> f32 {
    x[0]
}

fn main() {}
