// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each of 256 values occurs: where threads add to one counter at a time, they wait for each other.
//! `x` has values below [`BINS`], `counts` as many elements, all 0; grids are of any size.

use cuda_std::prelude::*;

/// Values that there are.
pub const BINS: usize = 256;

/// Threads of a block.
pub const THREADS: usize = 256;

// ANCHOR: global
/// Each element adds 1 to its counter in global memory.
#[kernel(max_threads = THREADS)]
pub fn histogram_global(x: Slice<'_, u32>, counts: SliceMut<'_, u32>) {
    let mut i = thread::index_1d();
    while i < x.len() {
        counts.atomic(x.get(i) as usize).fetch_add(1);
        i += thread::stride_1d();
    }
}
// ANCHOR_END: global

// ANCHOR: shared
/// Each block counts in shared memory, and adds its counts to those of all at the end.
#[kernel(max_threads = THREADS)]
pub fn histogram_shared(x: Slice<'_, u32>, counts: SliceMut<'_, u32>) {
    let of_block = shared_array![u32; BINS];
    let t = thread::thread_idx_x() as usize;
    of_block.set(t, 0);
    thread::sync_threads();
    let mut i = thread::index_1d();
    while i < x.len() {
        of_block.atomic(x.get(i) as usize).fetch_add(1);
        i += thread::stride_1d();
    }
    thread::sync_threads();
    counts.atomic(t).fetch_add(of_block.get(t));
}
// ANCHOR_END: shared

// ANCHOR: aggregated
/// The lanes of a warp first find out who has the same value, and one of them adds for all.
#[kernel(max_threads = THREADS)]
pub fn histogram_aggregated(x: Slice<'_, u32>, counts: SliceMut<'_, u32>) {
    let of_block = shared_array![u32; BINS];
    let t = thread::thread_idx_x() as usize;
    of_block.set(t, 0);
    thread::sync_threads();
    let mut i = thread::index_1d();
    // All lanes of a warp take part in `match_any`, so all go on as long as the first one has an element.
    while i - t % 32 < x.len() {
        let value = if i < x.len() { x.get(i) } else { u32::MAX };
        let same = warp::match_any(warp::FULL_MASK, value.into());
        let is_first = warp::lane_id() == same.trailing_zeros();
        if is_first && value != u32::MAX {
            of_block.atomic(value as usize).fetch_add(same.count_ones());
        }
        i += thread::stride_1d();
    }
    thread::sync_threads();
    counts.atomic(t).fetch_add(of_block.get(t));
}
// ANCHOR_END: aggregated
