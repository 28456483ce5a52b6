// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reduction of a value of every thread of a block.
//!
//! Two levels of shuffles, five steps and as many as double to the number of warps, and one value of each warp in shared
//! memory between them.

use bytemuck::Pod;
use cuda_std::hint;
use cuda_std::prelude::*;

use crate::storage::{Storage, Used};

impl<T: Pod, const LEN: usize> Storage<T, LEN> {
    /// Combines the `value` of all `THREADS` threads of the block; thread 0 receives the result, the others `None`.
    ///
    /// `combine` must be associative and commutative, up to rounding, and leave a value as it is when the other is
    /// `identity`. The order of combination is the same on every run. `LEN` is at least `THREADS / 32`.
    ///
    /// Cost: five shuffles of the value, and as many more as double to the number of warps; one barrier.
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
        let mut result = None;
        let (_, used) = self.reduce_then::<THREADS>(value, identity, combine, |total| result = Some(total));
        (result, used)
    }

    /// [`reduce`](Self::reduce), whose result thread 0 gives to `then`; says whether the caller is that thread.
    ///
    /// A large result needs no registers behind the call, in a loop not even in the threads that have none.
    ///
    /// Cost: as [`reduce`](Self::reduce).
    ///
    /// ```
    /// use cuda_block::storage;
    /// use cuda_std::prelude::*;
    ///
    /// /// The sum of each 64 elements.
    /// #[kernel(max_threads = 64)]
    /// pub fn sums(x: &[u32], out: SliceMut<'_, u32>) {
    ///     let block = thread::block_idx_x() as usize;
    ///     let leave = |sum| out.set(block, sum);
    ///     storage![u32; 2].reduce_then::<64>(x[thread::index_1d()], 0, |a, b| a + b, leave);
    /// }
    /// # let (x, mut out) = (Vec::from_iter(0..128), vec![0u32; 2]);
    /// # cuda_std::launch::on_simulator(2, 64, &mut out, |out| sums(&x, out));
    /// assert_eq!(out, [2016, 6112]);
    /// ```
    ///
    /// # Convergence
    ///
    /// As [`reduce`](Self::reduce).
    #[inline(always)]
    #[track_caller]
    pub fn reduce_then<const THREADS: usize>(
        self,
        value: T,
        identity: T,
        combine: impl Fn(T, T) -> T,
        then: impl FnOnce(T),
    ) -> (bool, Used<T, LEN>) {
        // By a function of its own: with what is given back beside it, the answer would take registers of more kinds.
        (self.reduced::<THREADS>(value, identity, combine, then), self.used())
    }

    #[inline(always)]
    #[track_caller]
    fn reduced<const THREADS: usize>(
        &self,
        value: T,
        identity: T,
        combine: impl Fn(T, T) -> T,
        then: impl FnOnce(T),
    ) -> bool {
        let (warp, lane) = (thread::thread_idx_x() / warp::WARP_SIZE, warp::lane_id());
        let mut total = reduce_warps::<1024, T>(value, &combine);
        if THREADS > 32 {
            self.set_warp::<THREADS>(warp, lane, total);
            thread::sync_threads();
            if warp != 0 {
                return false;
            }
            let partial = self.warp_or::<THREADS>(lane, identity);
            total = reduce_warps::<THREADS, T>(partial, &combine);
        }
        if lane == 0 {
            then(total);
        }
        lane == 0
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

/// What as many lanes as `THREADS` threads are warps have, combined, in the first lane: as
/// [`all_reduce`](warp::all_reduce) does it, without the steps in which there is nothing but the identity.
#[inline(always)]
#[track_caller]
fn reduce_warps<const THREADS: usize, T: Pod>(mut value: T, combine: impl Fn(T, T) -> T) -> T {
    if const { size_of::<T>() > 16 } {
        // In a loop: to combine two of those is many instructions.
        let mut distance = hint::opaque(const { (THREADS / 32).next_power_of_two() as u32 / 2 });
        while distance > 0 {
            value = combine(value, warp::shuffle_xor(warp::FULL_MASK, value, distance));
            distance /= 2;
        }
        return value;
    }
    if THREADS > 512 {
        value = combine(value, warp::shuffle_xor(warp::FULL_MASK, value, 16));
    }
    if THREADS > 256 {
        value = combine(value, warp::shuffle_xor(warp::FULL_MASK, value, 8));
    }
    if THREADS > 128 {
        value = combine(value, warp::shuffle_xor(warp::FULL_MASK, value, 4));
    }
    if THREADS > 64 {
        value = combine(value, warp::shuffle_xor(warp::FULL_MASK, value, 2));
    }
    combine(value, warp::shuffle_xor(warp::FULL_MASK, value, 1))
}
