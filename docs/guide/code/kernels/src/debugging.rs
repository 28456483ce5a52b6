// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "When it goes wrong".

use cuda_std::prelude::*;

/// A kernel with nothing wrong.
#[kernel]
pub fn double(data: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < data.len() {
        data.set(i, 2.0 * data.get(i));
    }
}

// ANCHOR: uninitialised
/// The sum of 64 elements of the block, or of what is left of them.
#[kernel]
pub fn sums_of_what_is_left(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; 64];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    if i < x.len() {
        tile.set(t, x[i]);
    }
    thread::sync_threads();
    if t == 0 {
        out.set(thread::block_idx_x() as usize, (0..64).map(|t| tile.get(t)).sum());
    }
}
// ANCHOR_END: uninitialised

// ANCHOR: asserts
/// The logarithms of numbers that are positive.
#[kernel]
pub fn logarithms(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        assert!(x[i] > 0.0, "element {i} is {}", x[i]);
        out.set(i, x[i].ln());
    }
}
// ANCHOR_END: asserts

// ANCHOR: overflow
/// The numbers down from the last: of an empty array, `len() - 1` is no index.
#[kernel]
pub fn reversed(x: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    out.set(i, x[x.len() - 1 - i]);
}
// ANCHOR_END: overflow
