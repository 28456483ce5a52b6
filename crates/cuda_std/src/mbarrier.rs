// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barriers in shared memory that threads and asynchronous copies arrive at (`cuda::barrier`, PTX `mbarrier`).
//!
//! Unlike [`sync_threads`](crate::thread::sync_threads), such a barrier separates who arrives from who waits: a thread that
//! has produced something arrives and goes on; one that wants it waits. A barrier goes through *phases*, from 0 on. It
//! is [initialised](Mbarrier::init) with the number of arrivals that a phase takes. When these have come, and the bytes
//! that [copies](crate::tma) were announced to bring have come as well, the phase is complete and the next one begins.
//! Threads wait for a phase by its *parity*: that of the first phase is 0, that of the next is 1, then 0 again.
//!
//! A ring of buffers has two barriers for each: one that the producer's copies complete, *full*, and one at which
//! consumers arrive when they have done with it, *empty*. Round `i` of a buffer waits for parity `i % 2` of *full*, and
//! for the other parity of *empty*, where the first wait is over at once: a fresh barrier counts as one whose phase of
//! parity 1 is complete.
//!
//! GPU: compute 9.0 or later. Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
//!
//! # Memory order
//!
//! An arrival releases, a wait acquires: what a thread wrote before it arrived is visible to who has waited for the
//! phase. What an announced copy wrote is, too. Both hold among the threads of the block; where threads of other blocks of
//! the [cluster](crate::cluster) [arrive](Mbarrier::map_shared_rank), who waits does so by
//! [`wait_cluster`](Mbarrier::wait_cluster).

use crate::machine::{self, SharedPtr};
use crate::shared::Shared;

/// A barrier in a word of shared memory. See the [module](self).
///
/// ```
/// use cuda_std::mbarrier::{self, Mbarrier};
/// use cuda_std::prelude::*;
///
/// /// Warp 0 makes numbers, warp 1 adds them up: three rounds through one buffer.
/// #[kernel(max_threads = 64)]
/// pub fn pipeline(out: SliceMut<'_, u32>) {
///     let (buffer, words) = (shared_array![u32; 32], shared_array![u64; 2]);
///     // SAFETY: the words are barriers only, initialised ahead of the block's barrier, and each phase gets the arrivals
///     // of one warp.
///     let (full, empty) = unsafe { (Mbarrier::at(words, 0), Mbarrier::at(words, 1)) };
///     if thread::thread_idx_x() == 0 {
///         full.init(32);
///         empty.init(32);
///         mbarrier::fence_init();
///     }
///     thread::sync_threads();
///     let lane = warp::lane_id();
///     let mut sum = 0;
///     for round in 0..3 {
///         if thread::thread_idx_x() < 32 {
///             empty.wait(round % 2 ^ 1);
///             buffer.set(lane as usize, 100 * round + lane);
///             full.arrive();
///         } else {
///             full.wait(round % 2);
///             sum += buffer.get(31 - lane as usize);
///             empty.arrive();
///         }
///     }
///     if thread::thread_idx_x() >= 32 {
///         out.set(lane as usize, sum);
///     }
/// }
/// # let mut out = [0; 32];
/// # cuda_std::launch::on_simulator(1, 64, &mut out, pipeline);
/// assert_eq!((out[0], out[31]), (300 + 3 * 31, 300));
/// ```
#[derive(Clone, Copy)]
pub struct Mbarrier(SharedPtr);

impl Mbarrier {
    /// The greatest number of arrivals of a phase, and of bytes that are under way at a time.
    pub const MAX: u32 = (1 << 20) - 1;

    /// The barrier in word `index` of `words`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    ///
    /// # Safety
    ///
    /// For as long as the barrier is used:
    ///
    /// * nothing else accesses the word;
    /// * it is [initialised](Self::init) once, before all else: [`fence_init`] and a barrier of the block stand between that
    ///   and the other operations;
    /// * no phase gets more arrivals than `init` was told, and no more than [`MAX`](Self::MAX) bytes are under way.
    ///
    /// On the simulated GPU, what breaks the last two is an error.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn at(words: Shared<u64>, index: usize) -> Self {
        Self(words.subarray(index, 1).ptr())
    }

    /// [`at`](Self::at) without the check, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// As for `at`, and `index` is less than the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn at_unchecked(words: Shared<u64>, index: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { words.subarray_unchecked(index, 1) }.ptr())
    }

    /// Makes the word a barrier in its first phase, each of which takes `arrivals` arrivals: 1 to [`MAX`](Self::MAX).
    /// One thread calls it.
    #[inline(always)]
    #[track_caller]
    pub fn init(self, arrivals: u32) {
        machine::mbarrier_init(self.0, arrivals);
    }

    /// Arrives: one of the phase's arrivals.
    #[inline(always)]
    #[track_caller]
    pub fn arrive(self) {
        machine::mbarrier_arrive_if(self.0, true);
    }

    /// Arrives where `predicate` holds, without a branch: for one thread of several that run together.
    #[inline(always)]
    #[track_caller]
    pub fn arrive_if(self, predicate: bool) {
        machine::mbarrier_arrive_if(self.0, predicate);
    }

    /// Announces `bytes` that asynchronous copies are to bring in this phase, then arrives. The phase is complete only
    /// when they have come.
    #[inline(always)]
    #[track_caller]
    pub fn arrive_expect_tx(self, bytes: u32) {
        machine::mbarrier_arrive_expect_tx(self.0, bytes);
    }

    /// Waits until the phase of this parity, 0 or 1, is complete: the current phase, or the one before, for which the
    /// wait is over at once. A thread that waits must not fall behind by two phases, which have the same parity.
    ///
    /// The thread spins, asleep for a while at a time (`mbarrier.try_wait`).
    #[inline(always)]
    #[track_caller]
    pub fn wait(self, parity: u32) {
        machine::mbarrier_wait(self.0, parity);
    }

    /// [`wait`](Self::wait) for a phase at which threads of other blocks of the cluster [arrive](crate::cluster): what they
    /// wrote before they did is visible from here on, which it is not behind a `wait`.
    #[inline(always)]
    #[track_caller]
    pub fn wait_cluster(self, parity: u32) {
        machine::mbarrier_wait_cluster(self.0, parity);
    }

    pub(crate) fn ptr(self) -> SharedPtr {
        self.0
    }
}

/// Makes the initialisation of barriers visible to asynchronous copies and to the other blocks of the cluster
/// (`fence.mbarrier_init`). Whoever has initialised them calls it, ahead of a barrier of the block.
#[inline(always)]
pub fn fence_init() {
    machine::fence_mbarrier_init();
}
