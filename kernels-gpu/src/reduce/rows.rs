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
        // SAFETY: the caller's promise; elements that go by way of shared memory have places, as just asked.
        unsafe {
            if N > 1 && const { have_places::<T>() } && self.plan.together > 0 {
                // Of small elements a word at a time; of large values, which it is costly to combine with what is less than a
                // word, only where a row has whole ones.
                let whole = |word: usize| const { !is_large::<A>() } || self.plan.length.is_multiple_of(word);
                return match const { size_of::<T>() } {
                    1 if whole(4) => self.by_stages::<Op, N, 4>(),
                    2 if whole(2) => self.by_stages::<Op, N, 2>(),
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

    /// Combines chunks of a row, and all chunks of the row if this block is the last of it.
    ///
    /// # Safety
    ///
    /// As [`combine`](Self::combine).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn by_blocks<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize>(self) {
        // No array has 2^32 chunks, of all its rows: what is counted of them takes one register.
        let chunks = self.plan.chunks as u32;
        let (row, mut part, blocks) = self.place();
        if row as usize >= self.out.len() {
            return;
        }
        let n = self.plan.length;
        // Of bytes, of which a vector has the most, and of large values, what follows from the row is computed where it is
        // used: it would wait in registers that they want. Others have those.
        let row = || {
            (if N == 16 || is_large::<A>() {
                hint::opaque(row)
            } else {
                row
            }) as usize
        };
        let chunk = |part: u32| {
            // SAFETY: the row is one of `x`, by the contract.
            let row = unsafe { Row::of(self.x, row() * n, n) };
            let begin = part as usize * self.plan.chunk;
            let end = Ord::min(begin.saturating_add(self.plan.chunk), n);
            // SAFETY: `end` is at most the row's length, and `begin` the start of a chunk.
            unsafe { share::<T, Op, N>(row, begin, end) }
        };
        // Nobody reads a total before all are there: what the others do with it needs no barrier but that of the tree.
        let first = || row() * chunks as usize;
        // For as many warps as a block can have: then no warp needs to be asked whether it has a place.
        let mut storage = storage![A as [u64; MAX_VALUE / 8]; 32];
        // First the block's chunks. Then, by the last block of the row, the tree above the blocks, in levels: each turns the
        // values that are `left` into as many as there are groups, in place. Chunks and groups are the parts of a level.
        let mut left = 0;
        loop {
            let value = if left == 0 {
                chunk(part)
            } else {
                self.group::<Op>(first(), part, left)
            };
            let (parts, step) = if left == 0 {
                (chunks, blocks)
            } else {
                (left.div_ceil((GROUP * THREADS) as u32), 1)
            };
            let leave = |total: A| {
                if parts <= 1 {
                    self.finish::<Op>(row(), total);
                } else if first() + (part as usize) < self.partials.len() {
                    self.partials.set(first() + part as usize, total);
                }
            };
            let (has_left, used) = storage.reduce_then::<THREADS>(value, Op::identity(), Op::combine, leave);
            part += step;
            if part < parts {
                storage = used.sync();
                continue;
            }
            if parts <= 1 {
                return;
            }
            let goes_on;
            (goes_on, storage) = used.sync_or(left > 0 || has_left && self.is_last(row(), blocks));
            if !goes_on {
                return;
            }
            (left, part) = (parts, 0);
        }
    }

    /// The row of this block, the number of its first chunk, and the blocks of each row: what the launch has for all, but not
    /// more than chunks.
    #[inline(always)]
    fn place(&self) -> (u32, u32, u32) {
        let (block, all, chunks) = (thread::block_idx_x(), thread::grid_dim_x(), self.plan.chunks as u32);
        if self.out.len() <= 1 {
            // Without a division, for which all of the block would wait.
            let blocks = Ord::min(all, chunks);
            return (u32::from(block >= blocks), block, blocks);
        }
        let rows = Ord::max(self.out.len() as u32, 1);
        let blocks = Ord::min(Ord::max(all / rows, 1), chunks);
        if blocks <= 1 {
            return (block, 0, 1);
        }
        (block / blocks, block % blocks, blocks)
    }

    /// Sets the result of a row, if there is such a row.
    #[inline(always)]
    fn finish<Op: ReduceOp<T, Acc = A, Output = R>>(&self, row: usize, total: A) {
        if row < self.out.len() {
            self.out.set(row, Op::finish(total, self.plan.count));
        }
    }

    /// Whether all of the `blocks` of the row have left their values, now that this one has; asked once, by the thread that did.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is_last(&self, row: usize, blocks: u32) -> bool {
        if row >= self.counters.len() {
            return false;
        }
        // The value is seen by whoever sees the counter after this; and whoever sees the last count sees all values.
        let counter = self.counters.atomic(row);
        let is_last = counter.fetch_add_ordered(1) == blocks - 1;
        if is_last {
            // For the next launch.
            counter.store(0);
        }
        is_last
    }

    /// This thread's share of a group of the values that are left, which start at `first`: at most [`GROUP`].
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn group<Op: ReduceOp<T, Acc = A, Output = R>>(&self, first: usize, group: u32, left: u32) -> A {
        let (all, each) = ((GROUP * THREADS) as u32, THREADS as u32);
        let end = group * all + Ord::min(left - group * all, all);
        let (mut i, mut acc) = (group * all + thread::thread_idx_x(), Op::identity());
        if first + end as usize > self.partials.len() {
            return acc;
        }
        while i < end {
            // In flight together: one after another, they would be a good part of the time of a reduction. In place of those
            // that are not there the last one comes again, and is left out.
            let values: [A; 4] = cuda_std::array::from_fn(|k| {
                let at = first + Ord::min(i + k as u32 * each, end - 1) as usize;
                // SAFETY: in bounds, as just asked.
                unsafe { self.partials.get_unchecked(at) }
            });
            acc = Op::combine(acc, values[0]);
            for k in 1..4 {
                let combined = Op::combine(acc, values[k]);
                acc = if i + k as u32 * each < end { combined } else { acc };
            }
            // Opaque, so that it is not written out.
            i += 4 * hint::opaque(each);
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
/// `end` is at most the row's length, and `begin`, a multiple of `N`, not behind it.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn share<T: Pod, Op: ReduceOp<T>, const N: usize>(row: Row<'_, T>, begin: usize, end: usize) -> Op::Acc {
    let (tile, step) = (THREADS * UNROLL * N, THREADS * UNROLL / STEPS * N);
    let mut chains = [Op::identity(); CHAINS];
    let (mut start, mut i) = (begin, begin + thread::thread_idx_x() as usize * N);
    let is_aligned = N > 1 && row.is_aligned::<N>();
    let place = |i: usize, u: usize| i + u * THREADS * N;
    // SAFETY: all vectors are within the tile or the steps, which are within the row, and lie so.
    unsafe {
        use cuda_std::array::from_fn;
        if const { !is_large::<Op::Acc>() } && is_aligned {
            while start + tile <= end {
                let loaded: [_; UNROLL] = from_fn(|u| row.load_aligned(place(i, u)));
                chains = vectors::<T, Op, N, UNROLL>(chains, i, loaded);
                (start, i) = (start + tile, i + tile);
            }
            if start >= end {
                return join::<T, Op>(chains);
            }
        }
        while N > 1 && const { is_grouped::<T, Op::Acc>() } && start + 2 * step <= end {
            let loaded: [_; GROUPED] = if is_aligned {
                from_fn(|u| row.load_aligned(place(i, u)))
            } else {
                from_fn(|u| row.load_one_by_one(place(i, u)))
            };
            chains = vectors::<T, Op, N, GROUPED>(chains, i, loaded);
            (start, i) = (start + 2 * step, i + 2 * step);
        }
        while start < end {
            let is_whole = N > 1 && const { !is_grouped::<T, Op::Acc>() } && start + step <= end;
            let may_be_across = const { !is_large::<Op::Acc>() };
            if is_whole && (is_aligned || may_be_across && row.is_across::<N>(start, start + step)) {
                let loaded: [_; UNROLL / STEPS] = if may_be_across && !is_aligned {
                    from_fn(|u| row.load_across(place(i, u)))
                } else {
                    from_fn(|u| row.load_aligned(place(i, u)))
                };
                chains = vectors::<T, Op, N, { UNROLL / STEPS }>(chains, i, loaded);
                (start, i) = (start + step, i + step);
                continue;
            }
            // One after another.
            let mut chain = chains[0];
            if i + N <= end {
                chain = Op::combine(chain, Op::lift_all(row.load_one_by_one::<N>(i), i as u64, 1));
            }
            chains = turn(chains, chain);
            // Opaque, so that they are not written out.
            let next = hint::opaque((THREADS * N) as u32) as usize;
            (start, i) = (start + next, i + next);
        }
        // Less than a vector: an element each.
        let rest = end - end % N + thread::thread_idx_x() as usize;
        if N > 1 && rest < end {
            chains[0] = Op::combine(chains[0], Op::lift(row.get(rest), rest as u64));
        }
    }
    join::<T, Op>(chains)
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
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn vectors<T: Pod, Op: ReduceOp<T>, const N: usize, const U: usize>(
    mut chains: [Op::Acc; CHAINS],
    i: usize,
    loaded: [[T; N]; U],
) -> [Op::Acc; CHAINS] {
    // Large values each by itself, but where all of several vectors can be lifted together.
    let is_together = has_one_chain::<Op::Acc>() && (!is_large::<Op::Acc>() || is_grouped::<T, Op::Acc>());
    if is_together {
        chains[0] = Op::combine(chains[0], Op::lift_vectors(loaded, i as u64, (THREADS * N) as u64));
        return chains;
    }
    for u in 0..U {
        let lifted = lift_vector::<T, Op, N>(loaded[u], (i + u * THREADS * N) as u64);
        chains = turn(chains, Op::combine(chains[0], lifted));
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
