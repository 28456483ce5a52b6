// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows: elements that are combined lie side by side.

use bytemuck::Pod;
use cuda_block::{MAX_VALUE, storage};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::plan::{CHAINS, GROUP, ITEMS, RowPlan, STEPS, THREADS, UNROLL, has_one_chain, rows_in_flight};
use super::row::{Lies, Row, have_places};
use crate::op::{ReduceOp, combine_vectors};
use crate::tile;

/// The arrays of a launch.
pub(super) struct Rows<'a, T, A, R> {
    pub(super) x: &'a [T],
    pub(super) plan: RowPlan,
    pub(super) partials: SliceMut<'a, A>,
    pub(super) counters: SliceMut<'a, u32>,
    pub(super) out: SliceMut<'a, R>,
}

impl<T: Pod, A: Pod, R: Pod> Rows<'_, T, A, R> {
    /// Combines all rows, or of long ones a part; they are read by vectors of `N` elements where they can.
    ///
    /// # Safety
    ///
    /// `x` has `plan.length` elements for each element of `out`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn combine<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize>(self) {
        // SAFETY: the caller's promise; the length is a multiple of the plan's vector.
        unsafe {
            if N > 1 && const { have_places::<T>() } && self.plan.together > 0 {
                // Of small elements a word at a time, where a row has only whole ones.
                return match const { size_of::<T>() } {
                    1 if self.plan.length.is_multiple_of(4) => self.by_stages::<Op, N, 4>(),
                    2 if self.plan.length.is_multiple_of(2) => self.by_stages::<Op, N, 2>(),
                    _ => self.by_stages::<Op, N, 1>(),
                };
            }
            if !self.plan.is_by_warps {
                return self.by_blocks::<Op, N>();
            }
            self.by_warps::<Op, N>()
        }
    }

    /// Combines rows by warps or parts of warps, by vectors of `N` elements.
    ///
    /// # Safety
    ///
    /// As [`combine`](Self::combine), and `N` is that of the plan.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn by_warps<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize>(self) {
        let (lanes, rows) = (self.plan.lanes(N), const { rows_in_flight::<T>() });
        let (t, log_lanes) = (thread::thread_idx_x(), lanes.trailing_zeros());
        let step = THREADS >> log_lanes;
        let first = thread::block_idx_x() as usize * (step * rows);
        if first >= self.out.len() {
            return;
        }
        let (mut row, lane) = (first + (t >> log_lanes) as usize, t & (lanes - 1));
        if const { has_one_chain::<A>() } {
            // One row after the other, in a loop: written out for all, they would be a quarter of the kernel.
            let mut left = if rows > 1 { hint::opaque(rows as u32) } else { 1 };
            while left > 0 {
                // SAFETY: there is a row, as just asked; the rest is the caller's promise.
                unsafe { self.rows_by_warps::<Op, N, 1>(row, step, lane, lanes) };
                row += step;
                left -= 1;
            }
            return;
        }
        // SAFETY: there is a row, as just asked; the rest is the caller's promise.
        unsafe {
            // A constant, so that the other number is not even compiled.
            match const { rows_in_flight::<T>() } {
                1 => self.rows_by_warps::<Op, N, 1>(row, step, lane, lanes),
                _ => self.rows_by_warps::<Op, N, 2>(row, step, lane, lanes),
            }
        }
    }

    /// Combines `K` rows, `first` and those that follow it at the distance `step`, of which a lane has [`ITEMS`]
    /// vectors in flight each. Rows behind the last one are read as that one, and left out.
    ///
    /// # Safety
    ///
    /// As [`by_warps`](Self::by_warps), and there is a row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn rows_by_warps<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize, const K: usize>(
        &self,
        first: usize,
        step: usize,
        lane: u32,
        lanes: u32,
    ) {
        let (length, vectors) = (self.plan.length, self.plan.length as u32 / N as u32);
        // SAFETY: the row is one of `x`, by the contract.
        let rows: [Row<'_, T>; K] = cuda_std::array::from_fn(|k| unsafe {
            Row::of(self.x, Ord::min(first + k * step, self.out.len() - 1) * length, length)
        });
        let lies = Lies::of_all::<T, A, N, K>(&rows);
        let mut accs = [Op::identity(); K];
        let mut i = lane;
        while i < vectors {
            // Of a lane that has fewer, the last one again.
            let at = |item: usize| Ord::min(i + item as u32 * lanes, vectors - 1) as usize * N;
            // Each way has loads of its own, so that none is a call.
            // SAFETY: within the row, which lies so.
            let loaded: [[[T; N]; ITEMS]; K] = unsafe {
                use cuda_std::array::from_fn;
                match lies {
                    Lies::Aligned => from_fn(|k| from_fn(|item| rows[k].load_aligned(at(item)))),
                    Lies::Across => from_fn(|k| from_fn(|item| rows[k].load_across(at(item)))),
                    Lies::Anyhow => from_fn(|k| from_fn(|item| rows[k].load_one_by_one(at(item)))),
                }
            };
            accs = cuda_std::array::from_fn(|k| {
                combine_vectors::<T, Op, N, ITEMS>(accs[k], loaded[k], (i, lanes, vectors))
            });
            i += ITEMS as u32 * lanes;
        }
        // What is less than a vector.
        let mut rest = vectors * N as u32 + lane;
        while N > 1 && rest < length as u32 {
            // SAFETY: within the row.
            let lift = |k: usize| unsafe { Op::lift(rows[k].get(rest as usize), rest.into()) };
            accs = cuda_std::array::from_fn(|k| Op::combine(accs[k], lift(k)));
            rest += lanes;
        }
        let accs = Op::combine_lanes(accs, lanes);
        // Computed anew: the numbers of all rows, of 64 bits each, would wait in registers that the vectors want. Not for
        // values of a byte, of which four share a register.
        let step = if K == 1 || size_of::<A>() == 1 {
            step
        } else {
            THREADS >> hint::opaque(lanes).trailing_zeros()
        };
        for k in 0..K {
            if lane == 0 && first + k * step < self.out.len() {
                self.out.set(first + k * step, Op::finish(accs[k], self.plan.count));
            }
        }
    }

    /// Combines a chunk of a row, and all chunks of the row if this block is the last of it.
    ///
    /// # Safety
    ///
    /// As [`combine`](Self::combine).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn by_blocks<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize>(self) {
        // No array has 2^32 chunks, of all its rows: what is counted of them takes one register.
        let (block, chunks) = (thread::block_idx_x(), self.plan.chunks as u32);
        let blocks = self.blocks_of_row();
        let (row, part) = if blocks <= 1 {
            (block as usize, 0)
        } else {
            ((block / blocks) as usize, block % blocks)
        };
        if row >= self.out.len() {
            return;
        }
        let n = self.plan.length;
        // Of bytes, of which a vector has the most, what follows from the row is computed where it is used: it would wait
        // in registers that they want. Others have those.
        let row = || {
            if N == 16 {
                hint::opaque(row as u32) as usize
            } else {
                row
            }
        };
        let chunk = |part: u32| {
            // SAFETY: the row is one of `x`, by the contract.
            let row = unsafe { Row::of(self.x, row() * n, n) };
            let begin = part as usize * self.plan.chunk;
            let end = Ord::min(begin.saturating_add(self.plan.chunk), n);
            // SAFETY: `end` is at most the row's length.
            unsafe { share::<T, Op, N>(row, begin, end) }
        };
        // Nobody reads a total before all are there: what the others do with it needs no barrier but that of the tree.
        let first = || row() * chunks as usize;
        let mut group = part;
        // For as many warps as a block can have: then no warp needs to be asked whether it has a place.
        let mut storage = storage![A as [u64; MAX_VALUE / 8]; 32];
        let (total, used) = loop {
            let (total, used) = storage.reduce::<THREADS>(chunk(group), Op::identity(), Op::combine);
            if let Some(total) = total {
                if chunks <= 1 {
                    self.finish::<Op>(row(), total);
                } else if first() + (group as usize) < self.partials.len() {
                    self.partials.set(first() + group as usize, total);
                }
            }
            group += blocks;
            if group >= chunks {
                break (total, used);
            }
            storage = used.sync();
        };
        if chunks <= 1 {
            return;
        }
        let (is_last, mut storage) = used.sync_or(total.is_some() && self.is_last(row()));
        if !is_last {
            return;
        }
        // The tree above the blocks, by the last block of the row, in levels: each turns the values that are `left`
        // into as many as there are groups, in place.
        let first = first();
        let mut left = chunks as usize;
        loop {
            let groups = left.div_ceil(GROUP * THREADS);
            for group in 0..groups {
                let value = self.group::<Op>(first, group, left);
                let (total, used) = storage.reduce::<THREADS>(value, Op::identity(), Op::combine);
                if let Some(total) = total {
                    if groups <= 1 {
                        self.finish::<Op>(row(), total);
                    } else if first + group < self.partials.len() {
                        self.partials.set(first + group, total);
                    }
                }
                storage = used.sync();
            }
            if groups <= 1 {
                return;
            }
            left = groups;
        }
    }

    /// Sets the result of a row, if there is such a row.
    #[inline(always)]
    fn finish<Op: ReduceOp<T, Acc = A, Output = R>>(&self, row: usize, total: A) {
        if row < self.out.len() {
            self.out.set(row, Op::finish(total, self.plan.count));
        }
    }

    /// The blocks of each row: what the launch has for all, but not more than chunks.
    #[inline(always)]
    fn blocks_of_row(&self) -> u32 {
        let blocks = thread::grid_dim_x() / Ord::max(self.out.len() as u32, 1);
        Ord::min(Ord::max(blocks, 1), self.plan.chunks as u32)
    }

    /// Whether all blocks of the row have left their values, now that this one has; asked once, by the thread that did.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is_last(&self, row: usize) -> bool {
        if row >= self.counters.len() {
            return false;
        }
        // The value is seen by whoever sees the counter after this; and whoever sees the last count sees all values.
        let counter = self.counters.atomic(row);
        let is_last = counter.fetch_add_ordered(1) == self.blocks_of_row() - 1;
        if is_last {
            // For the next launch.
            counter.store(0);
        }
        is_last
    }

    /// This thread's share of a group of the values that are left, which start at `first`: at most [`GROUP`].
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn group<Op: ReduceOp<T, Acc = A, Output = R>>(&self, first: usize, group: usize, left: usize) -> A {
        let mut i = group * GROUP * THREADS + thread::thread_idx_x() as usize;
        let end = Ord::min((group + 1) * GROUP * THREADS, left);
        let mut acc = Op::identity();
        while i + 3 * THREADS < end && first + i + 3 * THREADS < self.partials.len() {
            // In flight together: one after another, they would be a good part of the time of a reduction.
            // SAFETY: in bounds, as just asked.
            let values: [A; 4] =
                cuda_std::array::from_fn(|k| unsafe { self.partials.get_unchecked(first + i + k * THREADS) });
            for k in 0..4 {
                acc = Op::combine(acc, values[k]);
            }
            i += 4 * THREADS;
        }
        while i < end {
            if first + i < self.partials.len() {
                acc = Op::combine(acc, self.partials.get(first + i));
            }
            i += THREADS;
        }
        acc
    }
}

/// Vectors that a thread lifts together where they [are grouped](is_grouped).
const GROUPED: usize = 4;

/// Whether there are no registers for a thread's vectors and such a value.
const fn is_large<A>() -> bool {
    size_of::<A>() > 16
}

/// Whether a thread lifts [`GROUPED`] vectors together, each of few elements, for to combine such values is costly.
const fn is_grouped<T, A>() -> bool {
    is_large::<A>() && size_of::<T>() >= 4
}

/// This thread's share of elements `begin .. end` of a row, combined. Of each tile a thread has [`UNROLL`] vectors of
/// `N` elements, the same ones whether they can be read by vectors or not, so that alignment does not change the
/// result.
///
/// # Safety
///
/// `end` is at most the row's length.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn share<T: Pod, Op: ReduceOp<T>, const N: usize>(row: Row<'_, T>, begin: usize, end: usize) -> Op::Acc {
    let (tile, step) = (THREADS * UNROLL * N, THREADS * UNROLL / STEPS * N);
    let mut chains = [Op::identity(); CHAINS];
    let (mut start, mut i) = (begin, begin + thread::thread_idx_x() as usize * N);
    // SAFETY: all vectors are within the tile or the steps, which are within the row, and lie so.
    unsafe {
        if N > 1 && row.is_aligned::<N>() {
            while start + tile <= end {
                chains = vectors::<T, Op, N, UNROLL>(chains, i, |i| row.load_aligned(i));
                (start, i) = (start + tile, i + tile);
            }
            if start >= end {
                return join::<T, Op>(chains);
            }
            if const { is_grouped::<T, Op::Acc>() } && start + 2 * step <= end {
                chains = vectors::<T, Op, N, GROUPED>(chains, i, |i| row.load_aligned(i));
                (start, i) = (start + 2 * step, i + 2 * step);
            }
            while start + step <= end {
                chains = vectors::<T, Op, N, { UNROLL / STEPS }>(chains, i, |i| row.load_aligned(i));
                (start, i) = (start + step, i + step);
            }
        }
        while N > 1 && const { is_grouped::<T, Op::Acc>() } && start + 2 * step <= end {
            chains = vectors::<T, Op, N, GROUPED>(chains, i, |i| row.load_one_by_one(i));
            (start, i) = (start + 2 * step, i + 2 * step);
        }
        while N > 1 && const { !is_large::<Op::Acc>() } && start + step <= end {
            chains = if row.is_across::<N>(start, start + step) {
                vectors::<T, Op, N, { UNROLL / STEPS }>(chains, i, |i| row.load_across(i))
            } else {
                singly::<T, Op, N>(chains, row, (i, end), UNROLL / STEPS)
            };
            (start, i) = (start + step, i + step);
        }
    }
    // The ragged end.
    let left = end.saturating_sub(start).div_ceil(THREADS * N);
    // SAFETY: `end` is at most the row's length.
    join::<T, Op>(unsafe { singly::<T, Op, N>(chains, row, (i, end), left) })
}

/// Combines so many vectors that a thread has of neighbouring ones of the block, from its element `i` on, one after another,
/// as far as there are elements before `end`.
///
/// # Safety
///
/// `end` is at most the row's length.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn singly<T: Pod, Op: ReduceOp<T>, const N: usize>(
    mut chains: [Op::Acc; CHAINS],
    row: Row<'_, T>,
    (mut i, end): (usize, usize),
    count: usize,
) -> [Op::Acc; CHAINS] {
    let combined = |mut acc: Op::Acc, i: usize| {
        if i + N <= end {
            // SAFETY: before the row's end.
            let values: [T; N] = unsafe { row.load_one_by_one(i) };
            return Op::combine(acc, Op::lift_all(values, i as u64, 1));
        }
        let mut k = i;
        while k < end {
            // SAFETY: before the row's end.
            acc = Op::combine(acc, Op::lift(unsafe { row.get(k) }, k as u64));
            k += 1;
        }
        acc
    };
    // Opaque, so that they are not written out.
    let mut left = hint::opaque(count as u32);
    if const { has_one_chain::<Op::Acc>() } {
        let mut acc = chains[0];
        while left > 0 {
            acc = combined(acc, i);
            i += THREADS * N;
            left -= 1;
        }
        return [acc, chains[1], chains[2], chains[3]];
    }
    while left > 0 {
        chains = turn(chains, combined(chains[0], i));
        i += THREADS * N;
        left -= 1;
    }
    chains
}

/// All chains, combined.
#[inline(always)]
fn join<T, Op: ReduceOp<T>>(chains: [Op::Acc; CHAINS]) -> Op::Acc {
    if has_one_chain::<Op::Acc>() {
        return chains[0];
    }
    const { assert!(CHAINS == 4) };
    Op::combine(Op::combine(chains[0], chains[2]), Op::combine(chains[1], chains[3]))
}

/// Combines the `U` vectors that a thread has of neighbouring ones of the block, from its element `i` on.
///
/// # Safety
///
/// The row lies so, `i` is a multiple of `N`, and the vectors are within the row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn vectors<T: Pod, Op: ReduceOp<T>, const N: usize, const U: usize>(
    mut chains: [Op::Acc; CHAINS],
    i: usize,
    load: impl Fn(usize) -> [T; N],
) -> [Op::Acc; CHAINS] {
    let load = |u: usize| load(i + u * THREADS * N);
    let lift = |u: usize, values: [T; N]| lift_vector::<T, Op, N>(values, (i + u * THREADS * N) as u64);
    if const { is_large::<Op::Acc>() } {
        // There are no registers for all of the vectors at once.
        let groups = if is_grouped::<T, Op::Acc>() { U / GROUPED } else { 0 };
        for group in 0..groups {
            let some: [[T; N]; GROUPED] = cuda_std::array::from_fn(|u| load(group * GROUPED + u));
            let place = (i + group * GROUPED * THREADS * N) as u64;
            chains[0] = Op::combine(chains[0], Op::lift_vectors(some, place, (THREADS * N) as u64));
        }
        for u in groups * GROUPED..U {
            chains[0] = Op::combine(chains[0], lift(u, load(u)));
        }
        return chains;
    }
    let loaded: [[T; N]; U] = cuda_std::array::from_fn(load);
    if has_one_chain::<Op::Acc>() {
        chains[0] = Op::combine(chains[0], Op::lift_vectors(loaded, i as u64, (THREADS * N) as u64));
        return chains;
    }
    for u in 0..U {
        chains = turn(chains, Op::combine(chains[0], lift(u, loaded[u])));
    }
    chains
}

/// The chains with the first one replaced, and then at the end: the next vector is the next chain's.
#[inline(always)]
fn turn<A: Copy>(chains: [A; CHAINS], first: A) -> [A; CHAINS] {
    // An array made anew with constant indices stays in registers; changed in place by iterators, it would not.
    if has_one_chain::<A>() {
        [first, chains[1], chains[2], chains[3]]
    } else {
        [chains[1], chains[2], chains[3], first]
    }
}

/// A vector as it was loaded, combined; its first element is number `first` of the row.
#[inline(always)]
fn lift_vector<T: Pod, Op: ReduceOp<T>, const N: usize>(vector: [T; N], first: u64) -> Op::Acc {
    Op::lift_vectors([vector], first, 0)
}

/// Elements of a vector of `T`.
pub(super) const fn vec_len<T>() -> usize {
    tile::vec_len(size_of::<T>())
}
