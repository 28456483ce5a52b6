// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns: elements that are combined lie `step` apart, and neighbouring threads have neighbouring columns.

use bytemuck::Pod;
use cuda_block::MAX_VALUE;
use cuda_std::array::from_fn;
use cuda_std::fence;
use cuda_std::prelude::*;

use super::plan::{ColumnPlan, THREADS, columns_of_thread, in_flight};
use crate::op::ReduceOp;

/// Long rows that a thread has in flight at the end of a chunk.
const REST: usize = 2;

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
    strip: u32,
    /// The chunk.
    part: u32,
    /// The thread's place among those side by side.
    tx: u32,
    /// The thread's number behind that place; at least the height for threads that have none.
    ty: u32,
}

/// What a thread has of the array: its first column, or the only one.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// Where it begins, in the thread's first long row.
    pub(super) place: usize,
    /// That long row.
    first: usize,
    /// Its row of the array in a long one, and its place in that; of rows that are long by themselves, none.
    within: (usize, u32),
    /// From one long row to the next.
    pub(super) step: usize,
    /// The long rows from the first one on, of which every `height`th is the thread's own.
    pub(super) len: u32,
}

/// A level of the tree above the threads: values of the block's columns, each of a block's chunk at first.
struct Level {
    /// The values of a column.
    left: u32,
    /// The number of this block's.
    number: u32,
    /// The places of a value: it has that of the first one that it was made of.
    apart: u32,
    /// The counter of the level's first group.
    counter: usize,
}

impl<T: Pod, A: Pod, R: Pod> Columns<'_, T, A, R> {
    /// As [`combine`](Self::combine), by threads that have `V` columns, if not one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn combine_by<Op: ReduceOp<T, Acc = A, Output = R>, const V: usize>(self) {
        match const { in_flight::<T, A>(1) } {
            16 => self.combine::<Op, V, 8, 16>(),
            8 => match const { in_flight::<T, A>(V) } {
                8 => self.combine::<Op, V, 8, 8>(),
                _ => self.combine::<Op, V, 4, 8>(),
            },
            4 => self.combine::<Op, V, 4, 4>(),
            _ => self.combine::<Op, V, 2, 2>(),
        }
    }

    /// Combines a chunk of the block's columns, by threads that have `V` columns and of each `U` elements in flight, or one and
    /// `W`; and if this block is the last of a group of them, those, and so on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn combine<Op: ReduceOp<T, Acc = A, Output = R>, const V: usize, const U: usize, const W: usize>(self) {
        let chunks = self.plan.chunks as u32;
        let (block, t) = (thread::block_idx_x(), thread::thread_idx_x());
        let (strip, part) = if chunks <= 1 {
            (block, 0)
        } else {
            (block / chunks, block % chunks)
        };
        let width = Ord::max(self.plan.width, 1);
        let at = Place {
            strip,
            part,
            tx: t % width,
            ty: t / width,
        };
        let share = self.share::<V>(at);
        let mut values = match &share {
            Some(share) if V == 1 || self.plan.is_single => {
                let [value] = self.values::<Op, 1, W>(share);
                [value; V]
            }
            Some(share) if Op::of_bytes(0).is_some() => {
                let sums = self.sums_of_words(share);
                from_fn(|j| Op::of_bytes(sums[j % sums.len()]).unwrap_or(Op::identity()))
            }
            Some(share) => self.values::<Op, V, U>(share),
            None => [Op::identity(); V],
        };
        let mut level = Level {
            left: chunks,
            number: part,
            apart: 1,
            counter: if chunks > 1 {
                strip as usize * self.plan.groups()
            } else {
                0
            },
        };
        loop {
            values = self.fold_threads::<Op, V>(at, values);
            if level.left <= 1 {
                return self.finish::<Op, V>(at, values);
            }
            if at.ty == 0 && share.is_some() {
                self.keep(at, level.number * level.apart, values);
                // The values are seen by whoever sees the counter after the barrier.
                fence::device();
            }
            thread::sync_threads();
            let of_group = Ord::max(self.plan.group() as u32, 1);
            let group = level.number / of_group;
            let len = Ord::min(level.left - group * of_group, of_group);
            if !thread::sync_threads_or(t == 0 && self.is_last(level.counter + group as usize, len)) {
                return;
            }
            values = match share.is_some() {
                true => self.group::<Op, V>(at, (group * of_group * level.apart, level.apart), len),
                false => [Op::identity(); V],
            };
            let groups = level.left.div_ceil(of_group);
            level = Level {
                left: groups,
                number: group,
                apart: level.apart * of_group,
                counter: level.counter + groups as usize,
            };
        }
    }

    /// What this thread has, if it has columns.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn share<const V: usize>(&self, at: Place) -> Option<Share> {
        let plan = &self.plan;
        let (fold, each) = (self.fold::<V>(), self.each::<V>());
        let column = (at.strip as usize * plan.width as usize + at.tx as usize) * each;
        if at.ty >= plan.height || column >= self.out.len().saturating_mul(fold) {
            return None;
        }
        let (outer, i) = divide(column, plan.inner);
        let (row, start) = match fold {
            1 => (0, outer.saturating_mul(plan.outer_step).saturating_add(i)),
            _ => (outer, i),
        };
        // From the first column's first element to behind the last one's last.
        let columns = if fold > 1 { plan.inner - i } else { each };
        let span = plan.span.saturating_add(columns - 1);
        let step = plan.step.wrapping_mul(fold);
        let place = start.wrapping_add(row.wrapping_mul(plan.step));
        let are_vectors = self.x.is_vec_aligned::<V>() && (place | step).is_multiple_of(V);
        if start.saturating_add(span) > self.x.len() || each > 1 && !are_vectors {
            return None;
        }
        let first = (at.part as usize).wrapping_mul(plan.chunk) + at.ty as usize;
        let end = Ord::min(first - at.ty as usize + plan.chunk, plan.rows);
        Some(Share {
            place: place.wrapping_add(first.wrapping_mul(step)),
            first,
            within: (row, if fold > 1 { i as u32 } else { 0 }),
            step,
            len: end.saturating_sub(first) as u32,
        })
    }

    /// The columns of a thread.
    #[inline(always)]
    fn each<const V: usize>(&self) -> usize {
        if self.plan.is_single { 1 } else { V }
    }

    /// The rows of a long row.
    #[inline(always)]
    fn fold<const V: usize>(&self) -> usize {
        if V > 1 { self.plan.fold as usize } else { 1 }
    }

    /// Where the values of a chunk or group of the thread's columns lie: of each column, those of neighbouring threads.
    #[inline(always)]
    fn slot<const V: usize>(&self, at: Place, number: u32) -> usize {
        (at.strip as usize * self.plan.chunks + number as usize) * V * self.plan.width as usize + at.tx as usize
    }

    /// Leaves the values of a chunk or group.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn keep<const V: usize>(&self, at: Place, number: u32, values: [A; V]) {
        let (slot, width) = (self.slot::<V>(at, number), self.plan.width as usize);
        for j in 0..V {
            if slot + j * width < self.partials.len() {
                self.partials.set(slot + j * width, values[j]);
            }
        }
    }

    /// Whether all blocks of a group of `len` have left their values, now that this one has; asked once, by one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is_last(&self, counter: usize, len: u32) -> bool {
        if counter >= self.counters.len() {
            return false;
        }
        let counter = self.counters.atomic(counter);
        // Whoever sees the last count sees all values, and so do the threads behind the next barrier.
        let is_last = counter.fetch_add_ordered(1) == len - 1;
        if is_last {
            // For the next launch.
            counter.store(0);
        }
        is_last
    }

    /// This thread's share of `N` columns, combined, of `U` long rows at a time.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn values<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize, const U: usize>(&self, share: &Share) -> [A; N] {
        let mut values = [Op::identity(); N];
        let (mut r, height, step) = (0, self.plan.height, share.step);
        // Each place follows from the one before: a multiplication for each would take longer than memory, of bytes.
        let (mut place, stride) = (share.place, (height as usize).wrapping_mul(step));
        while r + (U as u32 - 1) * height < share.len {
            let loaded: [[T; N]; U] = from_fn(|_| {
                let at = place;
                place = place.wrapping_add(stride);
                // SAFETY: of a long row that there is, as just asked.
                unsafe { self.load(at) }
            });
            values = from_fn(|j| {
                let column: [T; U] = from_fn(|k| loaded[k][j]);
                let rows = u64::from(height) * self.fold::<N>() as u64;
                Op::combine(values[j], Op::lift_all(column, self.index::<N>(share, r, j), rows))
            });
            r += U as u32 * height;
        }
        while r < share.len {
            // Loaded in any case, so that all are in flight at once.
            let loaded: [[T; N]; REST] = from_fn(|k| {
                let row = Ord::min(r + k as u32 * height, share.len - 1);
                // SAFETY: of a long row that there is.
                unsafe { self.load(share.place.wrapping_add((row as usize).wrapping_mul(step))) }
            });
            for k in 0..REST {
                if r < share.len {
                    values = from_fn(|j| Op::combine(values[j], Op::lift(loaded[k][j], self.index::<N>(share, r, j))));
                }
                r += height;
            }
        }
        values
    }

    /// The elements of a thread's `N` columns that lie from `place` on.
    ///
    /// # Safety
    ///
    /// They are those of a long row, for a thread that has a share of as many columns.
    #[inline(always)]
    unsafe fn load<const N: usize>(&self, place: usize) -> [T; N] {
        if N == 1 {
            // SAFETY: the caller's promise: the share is within `x`.
            [unsafe { *self.x.get_unchecked(place) }; N]
        } else {
            // SAFETY: as above; and such a share is aligned.
            unsafe { self.x.load_vec_unchecked::<N>(place) }
        }
    }

    /// The row of the array that a thread's column has in the `r`th long row behind its first.
    #[inline(always)]
    fn index<const N: usize>(&self, share: &Share, r: u32, j: usize) -> u64 {
        let (fold, (row, i)) = (self.fold::<N>(), share.within);
        let further = if fold > 1 {
            (i + j as u32) / Ord::max(self.plan.inner as u32, 1)
        } else {
            0
        };
        ((share.first + r as usize) * fold + row + further as usize) as u64
    }

    /// Combines the values of the threads behind one another, as a tree; the threads with `ty` 0 receive the results.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fold_threads<Op: ReduceOp<T, Acc = A, Output = R>, const V: usize>(
        &self,
        at: Place,
        mut values: [A; V],
    ) -> [A; V] {
        let storage = Self::storage();
        let (t, mut height) = (thread::thread_idx_x() as usize, self.plan.height);
        while height > 1 {
            let half = height.div_ceil(2);
            thread::sync_threads();
            if at.ty >= half && at.ty < height && t < THREADS {
                for j in 0..V {
                    // SAFETY: the storage has `V` elements for each thread.
                    unsafe { storage.set_unchecked(j * THREADS + t, values[j]) };
                }
            }
            thread::sync_threads();
            let other = t + (half * self.plan.width) as usize;
            if at.ty + half < height && other < THREADS {
                values = from_fn(|j| Op::combine(values[j], storage.get(j * THREADS + other)));
            }
            height = half;
        }
        values
    }

    /// Shared memory for the values of each thread's columns, which have [`MAX_VALUE`] bytes at most.
    #[inline(always)]
    fn storage() -> Shared<A> {
        const { assert!(columns_of_thread::<T, A>() * size_of::<A>() <= MAX_VALUE) };
        shared_array![[u64; MAX_VALUE / 8]; THREADS].cast::<A>()
    }

    /// This thread's share of the values of a group, each a combination of neighbours: the first one's number, and from one to
    /// the next; and how many there are.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn group<Op: ReduceOp<T, Acc = A, Output = R>, const V: usize>(
        &self,
        at: Place,
        (first, apart): (u32, u32),
        len: u32,
    ) -> [A; V] {
        let (height, width) = (self.plan.height, self.plan.width as usize);
        let mut values = [Op::identity(); V];
        let mut i = at.ty;
        while i < len {
            let kept: [[A; V]; 2] = from_fn(|k| {
                let number = Ord::min(i + k as u32 * height, len - 1);
                let slot = self.slot::<V>(at, first + number * apart);
                let (len, last) = (self.partials.len(), slot.wrapping_add((V - 1) * width));
                from_fn(|j| match slot <= last && last < len {
                    // SAFETY: the slots up to the last one are within the values, as just asked.
                    true => unsafe { self.partials.get_unchecked(slot + j * width) },
                    false => Op::identity(),
                })
            });
            for k in 0..2 {
                if i < len {
                    values = from_fn(|j| Op::combine(values[j], kept[k][j]));
                }
                i += height;
            }
        }
        values
    }

    /// Stores the results of the block's columns, those of the rows of a long one combined, and with what is left of the array
    /// behind the last long row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn finish<Op: ReduceOp<T, Acc = A, Output = R>, const V: usize>(&self, at: Place, values: [A; V]) {
        let (plan, storage) = (&self.plan, Self::storage());
        let (fold, is_single) = (self.fold::<V>(), V == 1 || plan.is_single);
        let (mut i, columns) = match fold {
            _ if is_single => (at.tx as usize, plan.width as usize),
            1 => (thread::thread_idx_x() as usize, plan.width as usize * V),
            _ => (thread::thread_idx_x() as usize, plan.inner),
        };
        if is_single {
            if at.ty > 0 {
                return;
            }
        } else {
            // In the order of the columns.
            thread::sync_threads();
            for j in 0..V {
                let place = at.tx as usize * V + j;
                if at.ty == 0 && place < V * THREADS {
                    storage.set(place, values[j]);
                }
            }
            thread::sync_threads();
        }
        while i < columns && i < V * THREADS {
            let column = at.strip as usize * columns + i;
            if column >= self.out.len() {
                return;
            }
            let mut value = if is_single { values[0] } else { storage.get(i) };
            for row in 1..fold {
                if i + row * columns < V * THREADS {
                    value = Op::combine(value, storage.get(i + row * columns));
                }
            }
            let whole = if fold > 1 {
                plan.rows.wrapping_mul(fold)
            } else {
                plan.length
            };
            for row in whole..plan.length {
                let place = row.saturating_mul(plan.step).saturating_add(i);
                if place < self.x.len() {
                    value = Op::combine(value, Op::lift(self.x[place], row as u64));
                }
            }
            self.out.set(column, Op::finish(value, plan.count));
            i += THREADS;
        }
    }
}

/// Quotient and remainder, by 32-bit division where that is enough. The divisor is not 0.
#[inline(always)]
pub(super) fn divide(n: usize, by: usize) -> (usize, usize) {
    if n < by {
        (0, n)
    } else if n <= u32::MAX as usize && by <= u32::MAX as usize {
        let (n, by) = (n as u32, Ord::max(by as u32, 1));
        ((n / by) as usize, (n % by) as usize)
    } else {
        let by = Ord::max(by, 1);
        (n / by, n % by)
    }
}
