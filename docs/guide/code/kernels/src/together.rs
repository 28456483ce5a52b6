// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Threads that work together".

use cuda_block::storage;
use cuda_std::prelude::*;

// ANCHOR: block_sum
pub const THREADS: usize = 256;

/// The sum of each 256 elements: halves are added to halves.
#[kernel(max_threads = THREADS)]
pub fn block_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; THREADS];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    tile.set(t, if i < x.len() { x[i] } else { 0.0 });
    thread::sync_threads();
    let mut half = THREADS / 2;
    while half > 0 {
        if t < half {
            tile.set(t, tile.get(t) + tile.get(t + half));
        }
        thread::sync_threads(); // outside of the `if`: all threads come here
        half /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, tile.get(0));
    }
}
// ANCHOR_END: block_sum

// ANCHOR: racing
/// As `block_sums`, without the barrier between two steps.
#[kernel(max_threads = THREADS)]
pub fn racing_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; THREADS];
    let t = thread::thread_idx_x() as usize;
    tile.set(t, x[thread::index_1d()]);
    thread::sync_threads();
    let mut half = THREADS / 2;
    while half > 0 {
        if t < half {
            tile.set(t, tile.get(t) + tile.get(t + half));
        }
        half /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, tile.get(0));
    }
}
// ANCHOR_END: racing

// ANCHOR: warp_sum
/// The sum of each 32 elements: a warp needs no memory for it.
#[kernel]
pub fn warp_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let mut sum = if i < x.len() { x[i] } else { 0.0 };
    for distance in [16, 8, 4, 2, 1] {
        sum += warp::shuffle_down(warp::FULL_MASK, sum, distance);
    }
    if warp::lane_id() == 0 && i < x.len() {
        out.set(i / 32, sum);
    }
}
// ANCHOR_END: warp_sum

// ANCHOR: collective
/// As `block_sums`, by a collective: warps by shuffles, then the eight sums of warps.
#[kernel(max_threads = THREADS)]
pub fn collective_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let value = if i < x.len() { x[i] } else { 0.0 };
    let storage = storage![f32; THREADS / 32]; // a place for each warp
    let (sum, _used) = storage.all_reduce::<THREADS>(value, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        out.set(thread::block_idx_x() as usize, sum);
    }
}
// ANCHOR_END: collective

// ANCHOR: lost
/// Counts the even numbers, and loses some of them.
#[kernel]
pub fn count_even_wrong(x: &[u32], count: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < x.len() && x[i].is_multiple_of(2) {
        count.set(0, count.get(0) + 1);
    }
}
// ANCHOR_END: lost

// ANCHOR: atomic
/// Counts the even numbers.
#[kernel]
pub fn count_even(x: &[u32], count: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < x.len() && x[i].is_multiple_of(2) {
        count.atomic(0).fetch_add(1);
    }
}
// ANCHOR_END: atomic

// ANCHOR: aggregated
/// Counts the even numbers, with one atomic for each block.
#[kernel]
pub fn count_even_by_block(x: &[u32], count: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    let is_even = i < x.len() && x[i].is_multiple_of(2);
    let of_block = thread::sync_threads_count(is_even); // a barrier that counts
    if thread::thread_idx_x() == 0 {
        count.atomic(0).fetch_add(of_block);
    }
}
// ANCHOR_END: aggregated

// ANCHOR: diverging
/// A barrier that half of the block does not come to.
#[kernel]
pub fn half_a_barrier(out: SliceMut<'_, f32>) {
    if thread::thread_idx_x() < thread::block_dim_x() / 2 {
        thread::sync_threads();
    }
    out.set(thread::index_1d(), 1.0);
}
// ANCHOR_END: diverging
