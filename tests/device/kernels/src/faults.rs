// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that fail.

use cuda_std::prelude::*;

/// Thread 37 of the grid panics.
#[kernel]
pub fn panics(out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    assert!(i != 37, "thread 37 gives up");
    out.set(i, 1);
}

/// Reads one past the end.
#[kernel]
pub fn out_of_bounds(x: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    out.set(i, x[i + 1]);
}
