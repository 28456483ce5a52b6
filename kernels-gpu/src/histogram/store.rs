// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a block counts.

use cuda_std::bits::dp4a;
use cuda_std::prelude::*;

use super::Plan;

/// A way to count: 32 copies of each counter.
pub const COLUMNS: usize = 0;

/// A way to count: some copies of each counter.
pub const COPIES: usize = 1;

/// A way to count: a hash table in shared memory before global counters.
pub const CACHE: usize = 2;

/// The most counters for [`COLUMNS`]: with the spare one, they take 33 KiB.
pub const COLUMN_COUNTERS: usize = 256;

/// The words of shared memory that all copies together may take in [`COPIES`], unless one copy alone takes more.
pub const COPIES_LEN: usize = 8192;

/// The entries of the hash table, as a power of two.
const CACHE_BITS: u32 = 11;

/// The entries of the hash table: 16 KiB.
const CACHE_LEN: usize = 1 << CACHE_BITS;

/// What an entry of the hash table says that is for no counter. Counter number 2^32 − 1, which might exist, is not
/// cached.
const FREE: u32 = u32::MAX;

/// The counters of a block, and behind them the global ones.
pub(super) struct Counters<'a, const MODE: usize> {
    /// The copies of one counter side by side; for [`CACHE`], nothing.
    private: Shared<u32>,
    /// For [`CACHE`]: the counter that an entry is for, …
    tags: Shared<u32>,
    /// … and its count.
    counts: Shared<u32>,
    counters: u32,
    /// The copies, less one.
    copies: u32,
    lane: u32,
    pub(super) out: SliceMut<'a, u64>,
}

impl<'a, const MODE: usize> Counters<'a, MODE> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(plan: &Plan, out: SliceMut<'a, u64>) -> Self {
        let (private, tags, counts) = if MODE == CACHE {
            let tags = shared_array![u32; CACHE_LEN];
            (tags, tags, shared_array![u32; CACHE_LEN])
        } else {
            let private = cuda_std::shared::dynamic();
            (private, private, private)
        };
        Self {
            private,
            tags,
            counts,
            counters: plan.counters,
            copies: if MODE == COLUMNS {
                31
            } else {
                plan.copies.wrapping_sub(1) & 31
            },
            lane: thread::thread_idx_x() % 32,
            out,
        }
    }

    /// Makes all private counts 0. The block's threads wait for one another before the next use.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn clear(&self) {
        let mut i = thread::thread_idx_x() as usize;
        if MODE == COLUMNS {
            while 4 * i < self.private_len() {
                // SAFETY: within the private counters, whose rows have 32 words, and for which there is room, as `fit`
                // has said; a multiple of 4.
                unsafe { self.private.set_vec_unchecked::<4>(4 * i, [0; 4]) };
                i += thread::block_dim_x() as usize;
            }
            return;
        }
        let (end, value) = if MODE == CACHE {
            (CACHE_LEN, FREE)
        } else {
            (self.private_len(), 0)
        };
        while i < end {
            // SAFETY (of both): less than `end`, which is at most the length.
            unsafe { self.private.set_unchecked(i, value) };
            if MODE == CACHE {
                unsafe { self.counts.set_unchecked(i, 0) };
            }
            i += thread::block_dim_x() as usize;
        }
    }

    /// The words of the private counters.
    #[inline(always)]
    fn private_len(&self) -> usize {
        let spare = usize::from(MODE == COLUMNS);
        (self.counters as usize + spare) * (self.copies as usize + 1)
    }

    /// Whether there are `least` private counters, and the block has shared memory for all.
    #[inline(always)]
    pub(super) fn fit(&self, least: u32) -> bool {
        MODE == CACHE || (self.counters >= least && self.private_len() <= self.private.len())
    }

    /// The counter of elements that are not counted.
    #[inline(always)]
    pub(super) fn spare(&self) -> u32 {
        self.counters
    }

    /// Adds 1 to counter `slot`, the spare one at most, in [`COLUMNS`].
    #[inline(always)]
    pub(super) fn add_column(&self, slot: u32) {
        // SAFETY: one of the private counters, for which there is room, as `fit` has said.
        unsafe { self.private.atomic_unchecked((slot * 32 + self.lane) as usize) }.fetch_add(1);
    }

    /// Adds 1 to the counter of byte `k` of a word, in [`COLUMNS`] with a counter for each of 256 values. `dp4a` takes
    /// the byte out of the word, multiplies it by the 128 bytes of 32 columns, and adds the address, all in one
    /// instruction.
    #[inline(always)]
    pub(super) fn add_byte(&self, word: u32, k: u32) {
        let column = self.private.address() + self.lane * 4;
        // SAFETY: one of the private counters, for which there is room, as `fit` has said.
        unsafe { self.private.atomic_at_unchecked(dp4a(word, 128 << (8 * k), column)) }.fetch_add(1);
    }

    /// Adds `count` to counter `slot`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn add(&self, slot: u32, count: u32) {
        if MODE == CACHE {
            // Fibonacci hashing: bins at any regular distance spread over the table.
            let entry = (slot.wrapping_mul(0x9e37_79b9) >> (32 - CACHE_BITS)) as usize;
            if slot != FREE && self.claim(entry, slot) {
                self.counts.atomic(entry).fetch_add(count);
            } else {
                self.add_global(slot, u64::from(count));
            }
        } else {
            // A slot that there is not wraps around, or is beyond all.
            let copy = self.lane & self.copies;
            let i = slot.wrapping_mul(self.copies + 1).wrapping_add(copy) as usize;
            if i < self.private.len() {
                self.private.atomic(i).fetch_add(count);
            }
        }
    }

    /// Whether the entry is for counter `slot`, or was free and is now.
    #[inline(always)]
    fn claim(&self, entry: usize, slot: u32) -> bool {
        let tag = self.tags.atomic(entry);
        let seen = tag.load();
        if seen != FREE {
            return seen == slot;
        }
        let before = tag.compare_exchange(FREE, slot);
        before == FREE || before == slot
    }

    #[inline(always)]
    fn add_global(&self, slot: u32, count: u64) {
        if (slot as usize) < self.out.len() {
            self.out.atomic(slot as usize).fetch_add(count);
        }
    }

    /// Adds the private counts to the global ones; counter `slot` is for the global counter `target(slot)`. The block's
    /// threads wait for one another before and after.
    #[inline(always)]
    pub(super) fn merge(&self, target: impl Fn(u32) -> Option<u32>) {
        match MODE {
            COLUMNS => self.merge_columns(target),
            COPIES => self.merge_copies(target),
            _ => self.merge_cache(),
        }
    }

    /// A pair of lanes adds up the columns of a counter.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn merge_columns(&self, target: impl Fn(u32) -> Option<u32>) {
        let (t, pairs) = (thread::thread_idx_x(), thread::block_dim_x() / 2);
        let mut first = 0;
        while first < self.counters {
            let slot = first + t / 2;
            let half = if slot < self.counters {
                self.half_row(slot, t % 2)
            } else {
                0
            };
            let count = half + warp::shuffle_xor(warp::FULL_MASK, half, 1);
            if t % 2 == 0
                && slot < self.counters
                && count != 0
                && let Some(target) = target(slot)
            {
                self.add_global(target, u64::from(count));
            }
            first += pairs;
        }
    }

    /// The sum of the first or second 16 columns of a counter. Neighbours start at different columns, so that they are
    /// in different banks.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn half_row(&self, slot: u32, half: u32) -> u32 {
        let mut sum = 0;
        for k in 0..4 {
            let column = 16 * half + 4 * ((k + slot) % 4);
            // SAFETY: columns of one of the private counters, for which there is room, as `fit` has said; a multiple of
            // 4.
            let four = unsafe { self.private.get_vec_unchecked::<4>((slot * 32 + column) as usize) };
            sum += four[0] + four[1] + four[2] + four[3];
        }
        sum
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn merge_copies(&self, target: impl Fn(u32) -> Option<u32>) {
        let mut slot = thread::thread_idx_x();
        while slot < self.counters {
            let count = self.count(slot);
            if count != 0
                && let Some(target) = target(slot)
            {
                self.add_global(target, u64::from(count));
            }
            slot += thread::block_dim_x();
        }
    }

    /// The sum of the copies of a counter. Neighbouring threads start at different copies, so that they are in
    /// different banks.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn count(&self, slot: u32) -> u32 {
        let mut sum = 0;
        let mut copy = 0;
        while copy <= self.copies {
            let i = (slot * (self.copies + 1) + ((copy + self.lane) & self.copies)) as usize;
            if i < self.private.len() {
                sum += self.private.get(i);
            }
            copy += 1;
        }
        sum
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn merge_cache(&self) {
        let mut entry = thread::thread_idx_x() as usize;
        while entry < CACHE_LEN {
            let tag = self.tags.get(entry);
            if tag != FREE {
                self.add_global(tag, u64::from(self.counts.get(entry)));
            }
            entry += thread::block_dim_x() as usize;
        }
    }
}

/// A run of elements of one bin that a thread has seen and not yet counted. In [`COLUMNS`], where nothing is gained by
/// waiting, each element is counted at once.
pub(super) struct Run<const MODE: usize> {
    slot: u32,
    len: u32,
}

impl<const MODE: usize> Run<MODE> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { slot: 0, len: 0 }
    }

    /// The next element is of this counter.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn push(&mut self, counters: &Counters<'_, MODE>, slot: u32) {
        if MODE == COLUMNS {
            counters.add(slot, 1);
        } else if self.len != 0 && self.slot == slot {
            self.len += 1;
        } else {
            self.finish(counters);
            self.slot = slot;
            self.len = 1;
        }
    }

    /// Counts the run.
    #[inline(always)]
    pub(super) fn finish(&mut self, counters: &Counters<'_, MODE>) {
        if self.len != 0 {
            counters.add(self.slot, self.len);
            self.len = 0;
        }
    }
}
