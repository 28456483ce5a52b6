// SPDX-License-Identifier: MIT OR Apache-2.0
//! Element by element: the sum of two vectors, with more and more of it for each thread.

use cuda_std::array::from_fn;
use cuda_std::prelude::*;

/// Threads of a block of [`vector_add_held`](vector_add_held()) at most.
pub const HELD_THREADS: usize = 256;

// ANCHOR: vector_add
/// `out[i] = a[i] + b[i]`, a thread for each element.
#[kernel]
pub fn vector_add(a: Slice<'_, f32>, b: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    // The last block has threads too many.
    if i < out.len() {
        out.set(i, a.get(i) + b.get(i));
    }
}
// ANCHOR_END: vector_add

// ANCHOR: vector_add_grid_stride
/// The same with a grid of any size: each thread goes on by as many elements as the grid has threads.
#[kernel]
pub fn vector_add_grid_stride(a: Slice<'_, f32>, b: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let mut i = thread::index_1d();
    while i < out.len() {
        out.set(i, a.get(i) + b.get(i));
        i += thread::stride_1d();
    }
}
// ANCHOR_END: vector_add_grid_stride

// ANCHOR: vector_add_several
/// The same with `each` elements for each thread: a block has `each` times as many neighbouring elements as threads, and
/// goes through them side by side, so that the accesses of a warp are of neighbours.
#[kernel]
pub fn vector_add_several(each: u32, a: Slice<'_, f32>, b: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let threads = thread::block_dim_x() as usize;
    let first = thread::block_idx_x() as usize * threads * each as usize + thread::thread_idx_x() as usize;
    for k in 0..each as usize {
        let i = first + k * threads;
        if i < out.len() {
            out.set(i, a.get(i) + b.get(i));
        }
    }
}
// ANCHOR_END: vector_add_several

// ANCHOR: vector_add_held
/// The same where a thread loads all of its `EACH` elements before it adds any: so many loads are under way at once, and so
/// many registers it takes that fewer threads have room.
#[kernel(EACH = [1, 4, 16, 32], max_threads = HELD_THREADS)]
pub fn vector_add_held<const EACH: usize>(a: Slice<'_, f32>, b: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let threads = thread::block_dim_x() as usize;
    let first = thread::block_idx_x() as usize * threads * EACH + thread::thread_idx_x() as usize;
    let load = |x: Slice<'_, f32>| {
        from_fn::<f32, EACH, _>(|k| match first + k * threads {
            i if i < x.len() => x.get(i),
            _ => 0.0,
        })
    };
    let (a, b) = (load(a), load(b));
    for k in 0..EACH {
        let i = first + k * threads;
        if i < out.len() {
            out.set(i, a[k] + b[k]);
        }
    }
}
// ANCHOR_END: vector_add_held
