// SPDX-License-Identifier: MIT OR Apache-2.0
//! The global counts, which become 0 in the launch that counts: a launch before it, for so few numbers, takes as long
//! as a block takes to start.

use cuda_std::prelude::*;

use super::CACHE;

/// The counters of a launch that zeroes the counts.
pub const COUNTERS: usize = 2;

/// How long a block waits before it asks again, in nanoseconds: less than the answer takes.
const PAUSE: u32 = 64;

/// What the blocks of a launch tell one another about the global counts, in two counters that are 0 at its start and at
/// its end. Nothing for [`CACHE`], which has too many counts for one block.
///
/// The first is the number of blocks that have started: the block that started first makes the counts 0. The second
/// becomes 1 when that is done, and grows by 1 for each block that has seen it; the last of these makes both 0.
#[derive(Clone, Copy)]
pub(super) struct Zeroing<'a, const MODE: usize> {
    counters: SliceMut<'a, u32>,
    /// In thread 0: how many blocks had started before.
    before: Shared<u32>,
    /// In thread 0: whether the counts are known to be 0.
    is_done: bool,
}

impl<'a, const MODE: usize> Zeroing<'a, MODE> {
    #[inline(always)]
    pub(super) fn new(counters: SliceMut<'a, u32>) -> Self {
        Self {
            counters,
            before: shared_array![u32; 1],
            is_done: MODE == CACHE,
        }
    }

    /// Whether the launch has given the counters.
    #[inline(always)]
    pub(super) fn fit(&self) -> bool {
        MODE == CACHE || self.counters.len() >= COUNTERS
    }

    /// The block starts. Its threads wait for one another before [`zero`](Self::zero).
    #[inline(always)]
    pub(super) fn start(&self) {
        if MODE != CACHE && thread::thread_idx_x() == 0 {
            self.before.set(0, self.counters.atomic(0).fetch_add(1));
        }
    }

    /// Makes the counts 0 if the block started first.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn zero(&self, out: SliceMut<'_, u64>) {
        if MODE == CACHE || self.before.get(0) != 0 {
            return;
        }
        let mut i = thread::thread_idx_x() as usize;
        while i < out.len() {
            out.set(i, 0);
            i += thread::block_dim_x() as usize;
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            self.counters.atomic(1).store_release(1);
        }
    }

    /// Asks whether the counts are 0, which is good to know long before [`wait`](Self::wait). A block that knows it has
    /// no more use for the counters, and says so at once: at its end, it would have to wait for the answer.
    #[inline(always)]
    pub(super) fn look(&mut self) {
        if thread::thread_idx_x() == 0 && !self.is_done && self.counters.atomic(1).load_acquire() != 0 {
            self.is_done = true;
            if self.counters.atomic(1).fetch_add(1) == thread::grid_dim_x() {
                self.counters.atomic(0).store(0);
                self.counters.atomic(1).store(0);
            }
        }
    }

    /// Waits until the counts are 0, in thread 0. The others wait for that thread before they add to the counts.
    #[inline(always)]
    pub(super) fn wait(&mut self) {
        while thread::thread_idx_x() == 0 && !self.is_done {
            thread::nanosleep(PAUSE);
            self.look();
        }
    }
}
