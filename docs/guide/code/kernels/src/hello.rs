// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": kernels behind the first ones.

use cuda_std::prelude::*;

// ANCHOR: add_strided
/// As `add`, for any number of threads.
#[kernel]
pub fn add_strided(x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    for i in (thread::index_1d()..out.len()).step_by(thread::stride_1d()) {
        out.set(i, x[i] + y[i]);
    }
}
// ANCHOR_END: add_strided

// ANCHOR: brighten
/// Makes a picture that is `width` pixels wide brighter.
#[kernel]
pub fn brighten(picture: &[u8], width: usize, by: u8, out: SliceMut<'_, u8>) {
    let (row, column) = thread::index_2d();
    let i = row * width + column;
    if column < width && i < out.len() {
        out.set(i, picture[i].saturating_add(by));
    }
}
// ANCHOR_END: brighten

// ANCHOR: add_beyond
/// As `add`, but for the question whether there is an element.
#[kernel]
pub fn add_beyond(x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, x[i] + y[i]);
}
// ANCHOR_END: add_beyond
