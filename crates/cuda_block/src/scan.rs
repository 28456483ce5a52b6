// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scan (prefix sum) of a value of every thread of a block.
//!
//! Two levels: the warps scan by shuffles, and each thread combines the totals of the warps before its own, one
//! shared-memory slot for each. The order of combination is that of the threads, and the same on every run.

use bytemuck::Pod;
use cuda_std::prelude::*;

use crate::storage::{Storage, Used};

/// What a thread learns from a scan: what stands before it, and all of it.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<T> {
    /// The values before the thread's own, combined; the identity where there is none.
    pub before: T,
    /// All values, combined.
    pub total: T,
}

impl<T: Pod, const LEN: usize> Storage<T, LEN> {
    /// Combines the `value` of the threads of the block in their order: every thread receives the exclusive scan at its
    /// place, and the total.
    ///
    /// `combine` must be associative, up to rounding; it need not be commutative. The order of combination is the same
    /// on every run. `LEN` is at least `THREADS / 32`.
    ///
    /// Cost: seven shuffles of the value, one barrier, and `THREADS / 32` combinations one after another.
    ///
    /// ```
    /// use cuda_block::storage;
    /// use cuda_std::prelude::*;
    ///
    /// /// Where item `i` begins, when one follows the other.
    /// #[kernel(max_threads = 128)]
    /// pub fn offsets(lengths: &[u32], begins: SliceMut<'_, u32>) {
    ///     let i = thread::index_1d();
    ///     let (scanned, _) = storage![u32; 4].exclusive_scan::<128>(lengths[i], 0, |a, b| a + b);
    ///     begins.set(i, scanned.before);
    /// }
    /// # let (lengths, mut begins) = (Vec::from_iter(0..128u32), vec![0u32; 128]);
    /// # cuda_std::launch::on_simulator(1, 128, &mut begins, |begins| offsets(&lengths, begins));
    /// assert!((1..128).all(|i| begins[i] as usize == i * (i - 1) / 2));
    /// ```
    ///
    /// # Convergence
    ///
    /// All threads of the block call it, and `THREADS`, a multiple of 32, is how many they are, in one dimension.
    #[inline(always)]
    #[track_caller]
    pub fn exclusive_scan<const THREADS: usize>(
        self,
        value: T,
        identity: T,
        combine: impl Fn(T, T) -> T,
    ) -> (Scanned<T>, Used<T, LEN>) {
        let inclusive = warp::inclusive_scan(value, &combine);
        let warp_total = warp::shuffle(warp::FULL_MASK, inclusive, 31);
        let below = warp::shuffle_up(warp::FULL_MASK, inclusive, 1);
        self.set_warp::<THREADS>(thread::thread_idx_x() / warp::WARP_SIZE, warp::lane_id(), warp_total);
        thread::sync_threads();
        // SAFETY: the storage has room for the values of THREADS / 32 warps, as `set_warp` asserts.
        let warps = unsafe { scan_of_warps::<T, THREADS>(self.memory, 0, identity, &combine) };
        let before = if warp::lane_id() == 0 {
            warps.before
        } else {
            combine(warps.before, below)
        };
        let total = warps.total;
        (Scanned { before, total }, self.used())
    }

    /// As [`exclusive_scan`](Self::exclusive_scan), with the thread's own value: the first of what it receives is the
    /// inclusive scan at its place, the second the total.
    ///
    /// # Convergence
    ///
    /// As [`exclusive_scan`](Self::exclusive_scan).
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_block::storage;
    /// use cuda_std::prelude::*;
    ///
    /// /// What share of the total is reached with each of 64 elements.
    /// #[kernel(max_threads = 64)]
    /// pub fn cumulative_shares(x: &[f32], out: SliceMut<'_, f32>) {
    ///     let i = thread::index_1d();
    ///     let ((up_to_here, total), _) = storage![f32; 2].inclusive_scan::<64>(x[i], 0.0, |a, b| a + b);
    ///     out.set(i, up_to_here / total);
    /// }
    /// # let mut out = [0.0; 64];
    /// # cuda_std::launch::on_simulator(1, 64, &mut out, |out| cumulative_shares(&[2.0; 64], out));
    /// assert_eq!((out[0], out[31], out[63]), (1.0 / 64.0, 0.5, 1.0));
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn inclusive_scan<const THREADS: usize>(
        self,
        value: T,
        identity: T,
        combine: impl Fn(T, T) -> T,
    ) -> ((T, T), Used<T, LEN>) {
        let (scanned, used) = self.exclusive_scan::<THREADS>(value, identity, &combine);
        ((combine(scanned.before, value), scanned.total), used)
    }
}

/// What a thread of the first `THREADS` of a block learns from the values of their warps, which are in shared memory
/// from `first` on: what stands before its warp, and all of it.
///
/// A part of [`Storage::exclusive_scan`], for kernels that have one barrier for this and for something else.
///
/// # Safety
///
/// `first + THREADS / 32` is at most the length of `values`.
#[inline(always)]
pub unsafe fn scan_of_warps<T: Pod, const THREADS: usize>(
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
