// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the threads of a block that have segments of the same column tell one another.

use bytemuck::Pod;
use cuda_block::lookback::{AGGREGATE, PREFIX};
use cuda_block::{MAX_VALUE, Scanned};
use cuda_std::prelude::*;

use crate::op::ReduceOp;
use crate::scan::THREADS;

/// Elements combined: a `PREFIX` of all from the column's first one on, an `AGGREGATE` of others.
#[derive(Clone, Copy)]
pub(super) struct Total<A> {
    pub(super) flag: u32,
    pub(super) value: A,
}

impl<A: Copy> Total<A> {
    #[inline(always)]
    pub(super) fn nothing(identity: A) -> Self {
        Self {
            flag: AGGREGATE,
            value: identity,
        }
    }

    /// This one and what stands before it: nothing does before a prefix.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn after(self, before: Self, combine: impl Fn(A, A) -> A) -> Self {
        if self.flag == PREFIX {
            self
        } else {
            Self {
                flag: before.flag,
                value: combine(before.value, self.value),
            }
        }
    }
}

/// The segments of a tile, one for each thread: those of a row of segments are `width` neighbouring threads.
#[derive(Clone, Copy)]
pub(super) struct Segments<A> {
    flags: Shared<u32>,
    values: Shared<A>,
    pub(super) log2_width: u32,
    /// Segments of a column.
    pub(super) count: u32,
    /// This thread's number among those of its column, from the top.
    pub(super) number: u32,
    /// This thread's column in the tile.
    pub(super) column: u32,
}

impl<A: Pod> Segments<A> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(width: u32) -> Self {
        const { assert!(size_of::<A>() <= MAX_VALUE && align_of::<A>() <= 16) };
        let log2_width = width.trailing_zeros() & 31;
        Self {
            flags: shared_array![u32; THREADS],
            values: shared_array![[u64; MAX_VALUE / 8]; THREADS].cast(),
            log2_width,
            count: THREADS as u32 >> log2_width,
            number: thread::thread_idx_x() >> log2_width,
            column: thread::thread_idx_x() & ((1 << log2_width) - 1),
        }
    }

    /// Scans the totals of the segments of each column: what stands before the thread's own, and all of them. Between
    /// two calls, all threads wait for one another.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn scan<T, Op: ReduceOp<T, Acc = A>>(self, own: Total<A>) -> Scanned<Total<A>> {
        let (width, lane) = (1u32 << self.log2_width, warp::lane_id());
        let up = |total: Total<A>, delta: u32| Total {
            flag: warp::shuffle_up(warp::FULL_MASK, total.flag, delta),
            value: warp::shuffle_up(warp::FULL_MASK, total.value, delta),
        };
        // Of the segments of a column that are in the same warp, if any are.
        let (mut inclusive, mut delta) = (own, width);
        while delta < warp::WARP_SIZE {
            let above = up(inclusive, delta);
            if lane >= delta {
                inclusive = inclusive.after(above, Op::combine);
            }
            delta *= 2;
        }
        // Of those of a group: of a warp, or of the warps that a row of segments takes.
        let group = Ord::max(width, warp::WARP_SIZE);
        if thread::thread_idx_x() % group + width >= group {
            self.set((thread::thread_idx_x() / group) * width + self.column, inclusive);
        }
        thread::sync_threads();
        let (mut before, mut total) = (Total::nothing(Op::identity()), Total::nothing(Op::identity()));
        for g in 0..THREADS as u32 / group {
            if g == thread::thread_idx_x() / group {
                before = total;
            }
            total = self.get(g * width + self.column).after(total, Op::combine);
        }
        if width < warp::WARP_SIZE {
            let above = up(inclusive, width);
            if lane >= width {
                before = above.after(before, Op::combine);
            }
        }
        Scanned { before, total }
    }

    #[inline(always)]
    fn set(self, i: u32, total: Total<A>) {
        // SAFETY: a group has at most as many columns as threads, so that all of them have at most THREADS.
        unsafe {
            self.flags.set_unchecked(i as usize, total.flag);
            self.values.set_unchecked(i as usize, total.value);
        }
    }

    #[inline(always)]
    fn get(self, i: u32) -> Total<A> {
        // SAFETY: as in `set`.
        unsafe {
            Total {
                flag: self.flags.get_unchecked(i as usize),
                value: self.values.get_unchecked(i as usize),
            }
        }
    }
}
