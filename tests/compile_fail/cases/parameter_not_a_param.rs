// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that takes what no launch can pass.

use cuda_std::prelude::*;

#[kernel]
pub fn write(out: &mut [f32]) {
    out[thread::index_1d()] = 1.0;
}

fn main() {}
