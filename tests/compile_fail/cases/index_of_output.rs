// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that write by an index, and read shared memory and a view by it.

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

#[kernel]
pub fn copy(x: ArrayView<'_, f32, 2>, out: ArrayViewMut<'_, f32, 2>) {
    let (i, j) = thread::index_2d();
    out.set([i, j], x[[i, j]]);
}

fn main() {}
