// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that would write through a mutable reference, as a function for one thread does.

use cuda_std::prelude::*;

#[kernel]
pub fn write(out: &mut [f32]) {
    out[thread::index_1d()] = 1.0;
}

fn main() {}
