// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scan (prefix sum) of a value of every thread of a block.
//!
//! Two levels: the warps scan by shuffles, and each thread combines the totals of the warps before its own, one
//! shared-memory slot for each. The order of combination is that of the threads, and the same on every run.

use bytemuck::Pod;
use cuda_std::prelude::*;

/// The most warps that a block can have.
const MAX_WARPS: usize = 32;

/// Bytes of the largest value that a scan exchanges.
const MAX_VALUE: usize = 32;

/// What a thread learns from a scan: what stands before it, and all of it.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<T> {
    /// The values before the thread's own, combined; the identity where there is none.
    pub before: T,
    /// All values, combined.
    pub total: T,
}

/// Combines the `value` of the threads of a one-dimensional block in their order: every thread receives the exclusive
/// scan at its place, and the total. `combine` need not be commutative.
///
/// # Convergence
///
/// All threads of the block call it, and `THREADS`, a multiple of 32, is how many they are. Before its shared memory is
/// used again (by the next call), a barrier must stand: call [`thread::sync_threads`] between two scans.
#[inline(always)]
#[track_caller]
pub fn exclusive_scan<T: Pod, const THREADS: usize>(value: T, identity: T, combine: impl Fn(T, T) -> T) -> Scanned<T> {
    let inclusive = warp::inclusive_scan(value, &combine);
    let warp_total = warp::shuffle(warp::FULL_MASK, inclusive, 31);
    let below = warp::shuffle_up(warp::FULL_MASK, inclusive, 1);
    let warps = exclusive_scan_warps::<T, THREADS>(warp_total, identity, &combine);
    let before = if warp::lane_id() == 0 {
        warps.before
    } else {
        combine(warps.before, below)
    };
    Scanned {
        before,
        total: warps.total,
    }
}

/// [`exclusive_scan`] of one value for each warp: `value`, which is the same in all lanes of a warp, is combined over
/// the warps before the caller's, and over all.
///
/// # Convergence
///
/// As [`exclusive_scan`].
#[inline(always)]
#[track_caller]
fn exclusive_scan_warps<T: Pod, const THREADS: usize>(
    value: T,
    identity: T,
    combine: impl Fn(T, T) -> T,
) -> Scanned<T> {
    const {
        assert!(THREADS.is_multiple_of(32) && THREADS <= 1024 && size_of::<T>() <= MAX_VALUE && align_of::<T>() <= 16);
    }
    let storage = shared_array![[u64; MAX_VALUE / 8]; MAX_WARPS].cast::<T>();
    let warp = thread::thread_idx_x() as usize / warp::WARP_SIZE as usize;
    if warp::lane_id() == 0 {
        // SAFETY: a block has at most MAX_WARPS warps.
        unsafe { storage.set_unchecked(warp, value) };
    }
    thread::sync_threads();
    // SAFETY: all warps have set theirs, and there are as many as the block has.
    unsafe { scan_of_warps::<T, THREADS>(storage, 0, identity, combine) }
}

/// What a thread of the first `THREADS` of a block learns from the values of their warps, which are in shared memory from
/// `first` on: what stands before its warp, and all of it.
///
/// # Safety
///
/// `first + THREADS / 32` is at most the length of `values`.
#[inline(always)]
pub(crate) unsafe fn scan_of_warps<T: Pod, const THREADS: usize>(
    values: Shared<T>,
    first: usize,
    identity: T,
    combine: impl Fn(T, T) -> T,
) -> Scanned<T> {
    let warp = thread::thread_idx_x() as usize / warp::WARP_SIZE as usize;
    let (mut before, mut total) = (identity, identity);
    for i in 0..THREADS / 32 {
        if i == warp {
            before = total;
        }
        // SAFETY: the caller's promise.
        total = combine(total, unsafe { values.get_unchecked(first + i) });
    }
    Scanned { before, total }
}
