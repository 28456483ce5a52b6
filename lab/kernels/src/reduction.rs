// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sum of many numbers in seven steps (after M. Harris, "Optimizing parallel reduction in CUDA", 2007). Each block of
//! [`THREADS`] threads adds up its share of `x` and sets one element of `out`; then the same kernel adds up those.

use cuda_std::prelude::*;

/// Threads of a block.
pub const THREADS: usize = 256;

// ANCHOR: interleaved
/// 1. Every second thread adds its neighbour's number, then every fourth, and so on: in each warp some lanes work.
#[kernel(max_threads = THREADS)]
pub fn reduce_interleaved(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let partial = shared_array![f32; THREADS];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    partial.set(t, if i < x.len() { x.get(i) } else { 0.0 });
    thread::sync_threads();
    let mut distance = 1;
    while distance < THREADS {
        if t % (2 * distance) == 0 {
            partial.set(t, partial.get(t) + partial.get(t + distance));
        }
        thread::sync_threads();
        distance *= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, partial.get(0));
    }
}
// ANCHOR_END: interleaved

// ANCHOR: bank_conflicts
/// 2. The same additions by the first threads, so that whole warps work and others rest; but now the lanes of a warp
///    access words that are 2, 4, 8 … apart, and share banks.
#[kernel(max_threads = THREADS)]
pub fn reduce_bank_conflicts(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let partial = shared_array![f32; THREADS];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    partial.set(t, if i < x.len() { x.get(i) } else { 0.0 });
    thread::sync_threads();
    let mut distance = 1;
    while distance < THREADS {
        let place = 2 * distance * t;
        if place < THREADS {
            partial.set(place, partial.get(place) + partial.get(place + distance));
        }
        thread::sync_threads();
        distance *= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, partial.get(0));
    }
}
// ANCHOR_END: bank_conflicts

// ANCHOR: sequential
/// 3. The upper half is added to the lower one: neighbouring threads, neighbouring words.
#[kernel(max_threads = THREADS)]
pub fn reduce_sequential(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let partial = shared_array![f32; THREADS];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    partial.set(t, if i < x.len() { x.get(i) } else { 0.0 });
    thread::sync_threads();
    let mut distance = THREADS / 2;
    while distance > 0 {
        if t < distance {
            partial.set(t, partial.get(t) + partial.get(t + distance));
        }
        thread::sync_threads();
        distance /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, partial.get(0));
    }
}
// ANCHOR_END: sequential

/// The sum of the thread's two elements, where a block has twice as many elements as threads.
fn first_two(x: Slice<'_, f32>) -> f32 {
    let first = 2 * THREADS * thread::block_idx_x() as usize + thread::thread_idx_x() as usize;
    let or_zero = |i| if i < x.len() { x.get(i) } else { 0.0 };
    or_zero(first) + or_zero(first + THREADS)
}

// ANCHOR: first_add
/// 4. Half of the threads rested from the start. Now each adds two elements as it loads them: half as many blocks.
#[kernel(max_threads = THREADS)]
pub fn reduce_first_add(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let partial = shared_array![f32; THREADS];
    let t = thread::thread_idx_x() as usize;
    partial.set(t, first_two(x));
    thread::sync_threads();
    let mut distance = THREADS / 2;
    while distance > 0 {
        if t < distance {
            partial.set(t, partial.get(t) + partial.get(t + distance));
        }
        thread::sync_threads();
        distance /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, partial.get(0));
    }
}
// ANCHOR_END: first_add

// ANCHOR: last_warp
/// 5. The last six steps are of one warp, which needs no barrier of the block, but `sync_warp`: since Volta the lanes of a
///    warp do not run in step by themselves.
#[kernel(max_threads = THREADS)]
pub fn reduce_last_warp(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let partial = shared_array![f32; THREADS];
    let t = thread::thread_idx_x() as usize;
    partial.set(t, first_two(x));
    thread::sync_threads();
    for distance in [128, 64] {
        if t < distance {
            partial.set(t, partial.get(t) + partial.get(t + distance));
        }
        thread::sync_threads();
    }
    if t < 32 {
        for distance in [32, 16, 8, 4, 2, 1] {
            if t < distance {
                partial.set(t, partial.get(t) + partial.get(t + distance));
            }
            warp::sync_warp(warp::FULL_MASK);
        }
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, partial.get(0));
    }
}
// ANCHOR_END: last_warp

// ANCHOR: shuffles
/// Warps of a block.
const WARPS: usize = THREADS / 32;

/// The sum of all threads' numbers, in the first thread. The lanes of a warp exchange registers, without memory; one
/// number of each warp goes through shared memory.
fn block_sum(value: f32) -> f32 {
    let of_warps = shared_array![f32; WARPS];
    let t = thread::thread_idx_x() as usize;
    let sum = warp::all_reduce(value, |a, b| a + b);
    if t.is_multiple_of(32) {
        of_warps.set(t / 32, sum);
    }
    thread::sync_threads();
    if t >= 32 {
        return 0.0;
    }
    warp::all_reduce(if t < WARPS { of_warps.get(t) } else { 0.0 }, |a, b| a + b)
}

/// 6. Shuffles in place of all but one step through shared memory, and one barrier in place of eight.
#[kernel(max_threads = THREADS)]
pub fn reduce_shuffles(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let sum = block_sum(first_two(x));
    if thread::thread_idx_x() == 0 {
        out.set(thread::block_idx_x() as usize, sum);
    }
}
// ANCHOR_END: shuffles

// ANCHOR: several
/// 7. A grid that fills the GPU once, whose threads add up many elements each before they meet. Four sums at a time, so
///    that four loads are under way.
#[kernel(max_threads = THREADS)]
pub fn reduce_several(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let step = thread::stride_1d();
    let (mut i, mut sums) = (thread::index_1d(), [0.0; 4]);
    while i + 3 * step < x.len() {
        for (k, sum) in sums.iter_mut().enumerate() {
            *sum += x.get(i + k * step);
        }
        i += 4 * step;
    }
    while i < x.len() {
        sums[0] += x.get(i);
        i += step;
    }
    let sum = block_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    if thread::thread_idx_x() == 0 {
        out.set(thread::block_idx_x() as usize, sum);
    }
}
// ANCHOR_END: several
