// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reduction of a value of every thread of a block.
//!
//! Two levels of shuffles, five steps each, and one value of each warp in shared memory between them.

use bytemuck::Pod;
use cuda_std::prelude::*;

use crate::storage::{Storage, Used};

impl<T: Pod, const LEN: usize> Storage<T, LEN> {
    /// Combines the `value` of all `THREADS` threads of the block; thread 0 receives the result, the others `None`.
    ///
    /// `combine` must be associative and commutative, up to rounding, and leave a value as it is when the other is
    /// `identity`. The order of combination is the same on every run. `LEN` is at least `THREADS / 32`.
    ///
    /// Cost: ten shuffles of the value, one barrier.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it, and `THREADS`, a multiple of 32, is how many they are, in one dimension.
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_block::storage;
    /// use cuda_std::prelude::*;
    ///
    /// /// The sum of the squares of each 128 elements.
    /// #[kernel(max_threads = 128)]
    /// pub fn sums_of_squares(x: &[f32], out: SliceMut<'_, f32>) {
    ///     let x = x[thread::index_1d()];
    ///     let (sum, _) = storage![f32; 4].reduce::<128>(x * x, 0.0, |a, b| a + b);
    ///     // Thread 0 has it, and no other.
    ///     if let Some(sum) = sum {
    ///         out.set(thread::block_idx_x() as usize, sum);
    ///     }
    /// }
    /// # let (x, mut out) = (vec![3.0; 256], [0.0; 2]);
    /// # cuda_std::launch::on_simulator(2, 128, &mut out, |out| sums_of_squares(&x, out));
    /// assert_eq!(out, [9.0 * 128.0; 2]);
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn reduce<const THREADS: usize>(
        self,
        value: T,
        identity: T,
        combine: impl Fn(T, T) -> T,
    ) -> (Option<T>, Used<T, LEN>) {
        // The result by a function of its own: with what is given back beside it, it would take registers of more kinds.
        (self.reduced::<THREADS>(value, identity, combine), self.used())
    }

    #[inline(always)]
    #[track_caller]
    fn reduced<const THREADS: usize>(&self, value: T, identity: T, combine: impl Fn(T, T) -> T) -> Option<T> {
        let (warp, lane) = (thread::thread_idx_x() / warp::WARP_SIZE, warp::lane_id());
        let value = warp::all_reduce(value, &combine);
        if THREADS == 32 {
            return (lane == 0).then_some(value);
        }
        self.set_warp::<THREADS>(warp, lane, value);
        thread::sync_threads();
        if warp != 0 {
            return None;
        }
        let partial = self.warp_or::<THREADS>(lane, identity);
        let total = warp::all_reduce(partial, &combine);
        (lane == 0).then_some(total)
    }

    /// [`reduce`](Self::reduce), of which every thread receives the result.
    ///
    /// Cost: ten shuffles of the value, in every warp, and one barrier.
    ///
    /// ```
    /// use cuda_block::storage;
    /// use cuda_std::prelude::*;
    ///
    /// /// Takes the mean of each 64 elements off them.
    /// #[kernel(max_threads = 64)]
    /// pub fn centre(x: &[f32], out: SliceMut<'_, f32>) {
    ///     let i = thread::index_1d();
    ///     let (sum, _) = storage![f32; 2].all_reduce::<64>(x[i], 0.0, |a, b| a + b);
    ///     out.set(i, x[i] - sum / 64.0);
    /// }
    /// # let (x, mut out) = (Vec::from_iter((0..128u8).map(f32::from)), vec![0f32; 128]);
    /// # cuda_std::launch::on_simulator(2, 64, &mut out, |out| centre(&x, out));
    /// assert!((0..128).all(|i| out[i] == (i % 64) as f32 - 31.5));
    /// ```
    ///
    /// # Convergence
    ///
    /// As [`reduce`](Self::reduce).
    #[inline(always)]
    #[track_caller]
    pub fn all_reduce<const THREADS: usize>(
        self,
        value: T,
        identity: T,
        combine: impl Fn(T, T) -> T,
    ) -> (T, Used<T, LEN>) {
        let (warp, lane) = (thread::thread_idx_x() / warp::WARP_SIZE, warp::lane_id());
        let value = warp::all_reduce(value, &combine);
        if THREADS == 32 {
            return (value, self.used());
        }
        self.set_warp::<THREADS>(warp, lane, value);
        thread::sync_threads();
        let partial = self.warp_or::<THREADS>(lane, identity);
        (warp::all_reduce(partial, &combine), self.used())
    }

    /// Puts the value of a warp, that of its lane 0, where the others find it.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn set_warp<const THREADS: usize>(&self, warp: u32, lane: u32, value: T) {
        const { assert!(THREADS.is_multiple_of(32) && 32 <= THREADS && THREADS <= 1024 && THREADS / 32 <= LEN) };
        // A block with more threads than it says must not write beyond the storage.
        if lane == 0 && (LEN >= 32 || (warp as usize) < LEN) {
            // SAFETY: less than the storage's length, which is 32, the most warps that a block has, or was asked for.
            unsafe { self.memory.set_unchecked(warp as usize, value) };
        }
    }

    /// The value of warp number `lane`; the identity where there is none.
    #[inline(always)]
    #[track_caller]
    fn warp_or<const THREADS: usize>(&self, lane: u32, identity: T) -> T {
        if (lane as usize) < THREADS / 32 {
            // SAFETY: less than THREADS / 32, and the storage has as many.
            unsafe { self.memory.get_unchecked(lane as usize) }
        } else {
            identity
        }
    }
}
