// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who am I? The first thing that a kernel asks.

use cuda_std::prelude::*;
use cuda_std::println;

// ANCHOR: hello
/// Each thread says which one it is.
#[kernel]
pub fn hello() {
    println!(
        "thread {} of block {}: number {} of the grid",
        thread::thread_idx_x(),
        thread::block_idx_x(),
        thread::index_1d()
    );
}
// ANCHOR_END: hello

// ANCHOR: coordinates
/// A grid of two dimensions: `out`, which has rows of `columns` elements, gets 100 times the row plus the column.
#[kernel]
pub fn coordinates(columns: usize, out: SliceMut<'_, u32>) {
    let (row, column) = thread::index_2d();
    let i = row * columns + column;
    // Blocks at the right and the lower edge have threads outside of the array.
    if column < columns && i < out.len() {
        out.set(i, (100 * row + column) as u32);
    }
}
// ANCHOR_END: coordinates

// ANCHOR: nothing
/// Nothing at all: what is left is what a launch costs.
#[kernel]
pub fn nothing() {}
// ANCHOR_END: nothing
