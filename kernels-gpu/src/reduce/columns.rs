// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns: elements that are combined lie `step` apart, and neighbouring threads have neighbouring columns.

use bytemuck::Pod;
use cuda_block::MAX_VALUE;
use cuda_std::fence;
use cuda_std::prelude::*;

use super::plan::{ColumnPlan, GROUP, LEAST_IN_FLIGHT, THREADS};
use crate::op::ReduceOp;

/// The arrays of a launch.
pub(super) struct Columns<'a, T, A, R> {
    pub(super) x: &'a [T],
    pub(super) plan: ColumnPlan,
    pub(super) partials: SliceMut<'a, A>,
    pub(super) counters: SliceMut<'a, u32>,
    pub(super) out: SliceMut<'a, R>,
}

/// Where a thread stands: the block's columns, its chunk, and the thread's place in it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The number of the block's columns among those of all blocks.
    strip: usize,
    /// The chunk.
    part: usize,
    /// The thread's column in the block.
    pub(super) tx: usize,
    /// The thread's number in the column; at least the height for threads that have none.
    pub(super) ty: usize,
}

impl<T: Pod, A: Pod, R: Pod> Columns<'_, T, A, R> {
    /// Combines a chunk of the block's columns, and all their chunks if this block is the last of them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn combine<Op: ReduceOp<T, Acc = A, Output = R>, const U: usize>(self) {
        let chunks = self.plan.chunks as u32;
        let (strip, part) = self.strip_and_part();
        let (t, width) = (thread::thread_idx_x(), Ord::max(self.plan.width, 1));
        let at = Place {
            strip,
            part,
            tx: (t % width) as usize,
            ty: (t / width) as usize,
        };
        let column = strip * width as usize + at.tx;
        let mut value = match Op::of_bytes(0) {
            Some(_) if self.are_words() => Op::of_bytes(self.share_of_words(at)).unwrap_or(Op::identity()),
            _ => self.share::<Op, U>(at),
        };
        // The tree above the threads, in levels: a level turns the values of a column that are `left` into as many as
        // there are groups, in place. The first has a chunk for each group, and a block for each chunk; the others are
        // all done by the last block of these columns.
        let (mut left, mut groups, mut group, mut is_last) = (0, chunks as usize, part, false);
        loop {
            value = self.fold_threads::<Op>(at, value);
            if at.ty == 0 && column < self.out.len() {
                let slot = self.slot(at, group);
                if groups <= 1 {
                    self.out.set(column, Op::finish(value, self.plan.count));
                } else if slot < self.partials.len() {
                    self.partials.set(slot, value);
                    // The value is seen by whoever sees the counter after the barrier.
                    fence::device();
                }
            }
            if groups <= 1 {
                return;
            }
            thread::sync_threads();
            if is_last {
                group += 1;
            } else {
                is_last = thread::sync_threads_or(t == 0 && self.is_last(strip));
                if !is_last {
                    return;
                }
                group = groups;
            }
            if group >= groups {
                left = groups;
                groups = left.div_ceil(GROUP * Ord::max(self.plan.height as usize, 1));
                group = 0;
            }
            value = self.group::<Op>(at, column, group, left);
        }
    }

    /// The block's columns among those of all blocks, and its chunk of them.
    #[inline(always)]
    pub(super) fn strip_and_part(&self) -> (usize, usize) {
        let (block, chunks) = (thread::block_idx_x(), self.plan.chunks as u32);
        if chunks <= 1 {
            (block as usize, 0)
        } else {
            ((block / chunks) as usize, (block % chunks) as usize)
        }
    }

    /// Where the value of chunk or group `group` of the thread's column lies.
    #[inline(always)]
    fn slot(&self, at: Place, group: usize) -> usize {
        (at.strip * self.plan.chunks + group) * self.plan.width as usize + at.tx
    }

    /// Whether all blocks of these columns have left their values, now that this one has; asked once, by one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is_last(&self, strip: usize) -> bool {
        if strip >= self.counters.len() {
            return false;
        }
        let counter = self.counters.atomic(strip);
        // Whoever sees the last count sees all values, and so do the threads behind the next barrier.
        let is_last = counter.fetch_add_ordered(1) == self.plan.chunks as u32 - 1;
        if is_last {
            // For the next launch.
            counter.store(0);
        }
        is_last
    }

    /// This thread's share of its column, combined.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn share<Op: ReduceOp<T, Acc = A, Output = R>, const U: usize>(&self, at: Place) -> A {
        let mut acc = Op::identity();
        let (height, step) = (self.plan.height as usize, self.plan.step);
        let column = at.strip * self.plan.width as usize + at.tx;
        if at.ty >= height || column >= self.out.len() {
            return acc;
        }
        let (outer, i) = divide(column, self.plan.inner);
        let base = outer.saturating_mul(self.plan.outer_step).saturating_add(i);
        if base.saturating_add(self.plan.span) > self.x.len() {
            return acc;
        }
        let begin = at.part * self.plan.chunk;
        let end = Ord::min(begin.saturating_add(self.plan.chunk), self.plan.length);
        let mut r = begin + at.ty;
        // SAFETY (of both): the column, of which the plan knows the span, is within `x`, as just asked.
        unsafe {
            acc = self.rows::<Op, U>(acc, base, &mut r, end);
            if U > 2 * LEAST_IN_FLIGHT {
                acc = self.rows::<Op, LEAST_IN_FLIGHT>(acc, base, &mut r, end);
            }
        }
        while r < end {
            // SAFETY: as above.
            let value = unsafe { *self.x.get_unchecked(base + r * step) };
            acc = Op::combine(acc, Op::lift(value, r as u64));
            r += height;
        }
        acc
    }

    /// Combines every `height`th row of a column from `r` on, `N` of them at a time, while there are as many; `r` is then
    /// the first of the rest.
    ///
    /// # Safety
    ///
    /// The column that begins at `base` has `end` rows, all within `x`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn rows<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize>(
        &self,
        mut acc: A,
        base: usize,
        r: &mut usize,
        end: usize,
    ) -> A {
        let (height, step) = (self.plan.height as usize, self.plan.step);
        // Of a column without rows, any number.
        let (mut next, stride) = (base.wrapping_add(r.wrapping_mul(step)), height.wrapping_mul(step));
        while *r + (N - 1) * height < end {
            let values: [T; N] = cuda_std::array::from_fn(|k| {
                // A multiplication for each place takes fewer registers; for bytes, it takes longer than memory, and each
                // place follows from the one before.
                let place = if size_of::<T>() > 1 {
                    base + (*r + k * height) * step
                } else {
                    next
                };
                next = next.wrapping_add(stride);
                // SAFETY: of one of these rows, the last of which is before the column's end.
                unsafe { *self.x.get_unchecked(place) }
            });
            acc = Op::combine(acc, Op::lift_all(values, *r as u64, height as u64));
            *r += N * height;
        }
        acc
    }

    /// Combines the values of the threads of each column, as a tree; the threads with `ty` 0 receive the results.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fold_threads<Op: ReduceOp<T, Acc = A, Output = R>>(&self, at: Place, value: A) -> A {
        const { assert!(size_of::<A>() <= MAX_VALUE) };
        let storage = shared_array![[u64; MAX_VALUE / 8]; THREADS].cast::<A>();
        let (t, width) = (thread::thread_idx_x() as usize, self.plan.width as usize);
        let (mut value, mut height) = (value, self.plan.height as usize);
        while height > 1 {
            let half = height.div_ceil(2);
            thread::sync_threads();
            if at.ty >= half && at.ty < height && t < THREADS {
                // SAFETY: the storage has an element for each thread.
                unsafe { storage.set_unchecked(t, value) };
            }
            thread::sync_threads();
            let other = t + half * width;
            if at.ty + half < height && other < THREADS {
                value = Op::combine(value, storage.get(other));
            }
            height = half;
        }
        value
    }

    /// This thread's share of a group of the values of its column that are left: at most [`GROUP`].
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn group<Op: ReduceOp<T, Acc = A, Output = R>>(&self, at: Place, column: usize, group: usize, left: usize) -> A {
        let height = self.plan.height as usize;
        let mut acc = Op::identity();
        if at.ty >= height || column >= self.out.len() {
            return acc;
        }
        let end = Ord::min((group + 1) * GROUP * height, left);
        let mut i = group * GROUP * height + at.ty;
        while i < end {
            let slot = self.slot(at, i);
            if slot < self.partials.len() {
                acc = Op::combine(acc, self.partials.get(slot));
            }
            i += height;
        }
        acc
    }
}

/// Quotient and remainder, by 32-bit division where that is enough. The divisor is not 0.
#[inline(always)]
pub(super) fn divide(n: usize, by: usize) -> (usize, usize) {
    if n <= u32::MAX as usize && by <= u32::MAX as usize {
        let (n, by) = (n as u32, Ord::max(by as u32, 1));
        ((n / by) as usize, (n % by) as usize)
    } else {
        let by = Ord::max(by, 1);
        (n / by, n % by)
    }
}
