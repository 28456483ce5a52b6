// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that writes by an index, and one that reads shared memory by it.

use cuda_std::prelude::*;

#[kernel]
pub fn write(out: SliceMut<'_, f32>) {
    out[thread::index_1d()] = 1.0;
}

#[kernel]
pub fn read(out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; 32];
    out.set(0, tile[1]);
}

fn main() {}
