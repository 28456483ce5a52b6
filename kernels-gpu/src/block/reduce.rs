// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reduction of a value of every thread of a block.

use bytemuck::Pod;
use cuda_std::prelude::*;

/// The most threads that a block can have.
const MAX_WARPS: usize = 32;

/// Bytes of the largest value that a collective exchanges.
pub const MAX_VALUE: usize = 32;

/// Combines the `value`, of at most [`MAX_VALUE`] bytes, of all `THREADS` threads of a one-dimensional block; thread 0
/// receives the result, the others `None`.
///
/// Two levels of shuffles, and one shared-memory slot for each warp between them. The order of combination is the same
/// on every run.
///
/// # Convergence
///
/// All threads of the block call it, and `THREADS`, a multiple of 32, is how many they are. Before its shared memory is
/// used again (by the next call), a barrier must stand: call [`thread::sync_threads`] between two reductions.
#[inline(always)]
#[track_caller]
pub fn reduce<T: Pod, const THREADS: usize>(value: T, identity: T, combine: impl Fn(T, T) -> T) -> Option<T> {
    const {
        assert!(THREADS.is_multiple_of(32) && THREADS <= 1024 && size_of::<T>() <= MAX_VALUE);
    }
    let storage = shared_array![[u64; MAX_VALUE / 8]; MAX_WARPS].cast::<T>();
    let (warp, lane) = (thread::thread_idx_x() / warp::WARP_SIZE, warp::lane_id());
    let value = warp::all_reduce(value, &combine);
    if THREADS == 32 {
        return (lane == 0).then_some(value);
    }
    if lane == 0 {
        // SAFETY: a block has at most MAX_WARPS warps.
        unsafe { storage.set_unchecked(warp as usize, value) };
    }
    thread::sync_threads();
    if warp != 0 {
        return None;
    }
    let partial = if (lane as usize) < THREADS / 32 {
        storage.get(lane as usize)
    } else {
        identity
    };
    let total = warp::all_reduce(partial, &combine);
    (lane == 0).then_some(total)
}
