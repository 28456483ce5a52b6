// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": an element for each thread, the kernel.

// ANCHOR: kernel
use cuda_std::prelude::*;

/// `out[i] = x[i] + y[i]`
#[kernel]
pub fn add(x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x[i] + y[i]);
    }
}
// ANCHOR_END: kernel
