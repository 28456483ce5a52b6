// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows: elements that are combined lie side by side.

use bytemuck::Pod;
use cuda_std::prelude::*;

use super::plan::{CHAINS, GROUP, RowPlan, THREADS, UNROLL, has_one_chain};
use crate::block;
use crate::op::ReduceOp;
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
    /// Combines rows by warps or parts of warps.
    ///
    /// # Safety
    ///
    /// `x` has `plan.length` elements for each element of `out`.
    #[inline(always)]
    pub(super) unsafe fn short<Op: ReduceOp<T, Acc = A, Output = R>>(self) {
        let (n, lanes) = (self.plan.length, self.plan.lanes());
        let log_lanes = lanes.trailing_zeros();
        let (t, stride) = (thread::thread_idx_x(), lanes as usize);
        let row = thread::block_idx_x() as usize * (THREADS >> log_lanes) + (t >> log_lanes) as usize;
        let lane = (t & (lanes - 1)) as usize;
        let mut acc = Op::identity();
        if row < self.out.len() {
            let (start, mut i) = (row * n, lane);
            while i + 3 * stride < n {
                // SAFETY: the row is one of `x`, by the contract, and the last of the four is within it.
                let values: [T; 4] = core::array::from_fn(|k| unsafe { *self.x.get_unchecked(start + i + k * stride) });
                acc = Op::combine(acc, Op::lift_all(values, i as u64, stride as u64));
                i += 4 * stride;
            }
            while i < n {
                // SAFETY: as above.
                let value = unsafe { *self.x.get_unchecked(start + i) };
                acc = Op::combine(acc, Op::lift(value, i as u64));
                i += stride;
            }
        }
        let mut distance = lanes / 2;
        while distance > 0 {
            acc = Op::combine(acc, warp::shuffle_xor(warp::FULL_MASK, acc, distance));
            distance /= 2;
        }
        if lane == 0 && row < self.out.len() {
            self.out.set(row, Op::finish(acc, self.plan.count));
        }
    }

    /// Combines a chunk of a row, and all chunks of the row if this block is the last of it.
    ///
    /// # Safety
    ///
    /// As [`short`](Self::short).
    #[inline(always)]
    pub(super) unsafe fn long<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize>(self) {
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
        // SAFETY: the row is one of `x`, by the contract.
        let elements = unsafe { self.x.get_unchecked(row * n..row * n + n) };
        let chunk = |part: u32| {
            let begin = part as usize * self.plan.chunk;
            let end = Ord::min(begin.saturating_add(self.plan.chunk), n);
            // SAFETY: `end` is at most the row's length.
            unsafe { share::<T, Op, N>(elements, begin, end) }
        };
        // The tree above the threads, in levels: a level turns the values that are `left` into as many as there are
        // groups, in place. The first, in which nothing is left yet, has a chunk for each group, of which a block has
        // every `blocks`-th; the others are all done by the last block of the row.
        let first = row as u32 * chunks;
        let (mut left, mut groups, mut group) = (0, chunks, part);
        let mut value = chunk(part);
        loop {
            let total = block::reduce::<_, THREADS>(value, Op::identity(), Op::combine);
            if let Some(total) = total {
                if groups <= 1 {
                    self.out.set(row, Op::finish(total, self.plan.count));
                } else if ((first + group) as usize) < self.partials.len() {
                    self.partials.set((first + group) as usize, total);
                }
            }
            if groups <= 1 {
                return;
            }
            if left > 0 {
                thread::sync_threads();
                group += 1;
            } else if group + blocks < groups {
                thread::sync_threads();
                group += blocks;
                value = chunk(group);
                continue;
            } else {
                if !thread::sync_threads_or(total.is_some() && self.is_last(row)) {
                    return;
                }
                group = groups;
            }
            if group >= groups {
                left = groups;
                groups = left.div_ceil((GROUP * THREADS) as u32);
                group = 0;
            }
            value = self.group::<Op>(first as usize, group as usize, left as usize);
        }
    }

    /// The blocks of each row: what the launch has for all, but not more than chunks.
    #[inline(always)]
    fn blocks_of_row(&self) -> u32 {
        let blocks = thread::grid_dim_x() / Ord::max(self.out.len() as u32, 1);
        Ord::min(Ord::max(blocks, 1), self.plan.chunks as u32)
    }

    /// Whether all blocks of the row have left their values, now that this one has; asked once, by the thread that did.
    #[inline(always)]
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
    #[inline(always)]
    fn group<Op: ReduceOp<T, Acc = A, Output = R>>(&self, first: usize, group: usize, left: usize) -> A {
        let mut i = group * GROUP * THREADS + thread::thread_idx_x() as usize;
        let end = Ord::min((group + 1) * GROUP * THREADS, left);
        let mut acc = Op::identity();
        while i + 3 * THREADS < end && first + i + 3 * THREADS < self.partials.len() {
            // In flight together: one after another, they would be a good part of the time of a reduction.
            // SAFETY: in bounds, as just asked.
            let values: [A; 4] =
                core::array::from_fn(|k| unsafe { self.partials.get_unchecked(first + i + k * THREADS) });
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

/// This thread's share of elements `begin .. end` of a row, combined. Of each tile a thread has [`UNROLL`] vectors of
/// `N` elements, the same ones whether they can be read by vectors or not, so that alignment does not change the
/// result.
///
/// # Safety
///
/// `end` is at most the row's length.
#[inline(always)]
unsafe fn share<T: Pod, Op: ReduceOp<T>, const N: usize>(row: &[T], begin: usize, end: usize) -> Op::Acc {
    let tile = THREADS * UNROLL * N;
    let is_aligned = N > 1 && row.is_vec_aligned::<N>() && begin.is_multiple_of(N);
    let mut chains = [Op::identity(); CHAINS];
    let mut start = begin;
    let mut i = begin + thread::thread_idx_x() as usize * N;
    while is_aligned && start + tile <= end {
        // SAFETY: aligned, as just asked, and all vectors are within the tile, which is within the row.
        let load = |u: usize| unsafe { row.load_vec_unchecked::<N>(i + u * THREADS * N) };
        let lift = |u: usize, values: [T; N]| Op::lift_all(values, (i + u * THREADS * N) as u64, 1);
        if size_of::<Op::Acc>() > 16 {
            // There are no registers for all of the tile's vectors at once.
            for u in 0..UNROLL {
                chains[0] = Op::combine(chains[0], lift(u, load(u)));
            }
        } else if has_one_chain::<Op::Acc>() {
            let loaded: [[T; N]; UNROLL] = core::array::from_fn(load);
            let tile = Op::lift_vectors(loaded, i as u64, (THREADS * N) as u64);
            chains[0] = Op::combine(chains[0], tile);
        } else {
            const { assert!(UNROLL == 2 * CHAINS) };
            let loaded: [[T; N]; UNROLL] = core::array::from_fn(load);
            // An array made anew with constant indices stays in registers; changed in place by iterators, it would not.
            chains = core::array::from_fn(|c| {
                let chain = Op::combine(chains[c], lift(c, loaded[c]));
                Op::combine(chain, lift(c + CHAINS, loaded[c + CHAINS]))
            });
        }
        start += tile;
        i += tile;
    }
    // The ragged end, and rows that are not aligned: the same vectors one after another, the chains taking turns.
    let mut left = end.saturating_sub(start).div_ceil(tile) * UNROLL;
    while left > 0 {
        let mut chain = chains[0];
        if i + N <= end {
            // SAFETY: before the row's end.
            let values: [T; N] = core::array::from_fn(|k| unsafe { *row.get_unchecked(i + k) });
            chain = Op::combine(chain, Op::lift_all(values, i as u64, 1));
        } else {
            let mut k = i;
            while k < end {
                // SAFETY: before the row's end.
                chain = Op::combine(chain, Op::lift(unsafe { *row.get_unchecked(k) }, k as u64));
                k += 1;
            }
        }
        chains = if has_one_chain::<Op::Acc>() {
            [chain, chains[1], chains[2], chains[3]]
        } else {
            [chains[1], chains[2], chains[3], chain]
        };
        i += THREADS * N;
        left -= 1;
    }
    if has_one_chain::<Op::Acc>() {
        return chains[0];
    }
    const { assert!(CHAINS == 4) };
    Op::combine(Op::combine(chains[0], chains[2]), Op::combine(chains[1], chains[3]))
}

/// Elements of a vector of `T`.
pub(super) const fn vec_len<T>() -> usize {
    tile::vec_len(size_of::<T>())
}
