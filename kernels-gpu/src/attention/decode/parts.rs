// SPDX-License-Identifier: MIT OR Apache-2.0
//! How what a block's warps have becomes results: of several parts of the keys, the last block to come brings all together.

use cuda_std::prelude::*;

use super::{Block, DecodePlan, ELEMENTS, MOST_ROWS, Results, Sums, WARPS, lines};
use crate::matmul::unroll;
use crate::num::Num;

impl<T: Num<Wide = f32>, const G: usize> Block<'_, T, G> {
    /// Brings the warps' rows together that are in shared memory, and stores them. Of several parts of the keys, the last block to come
    /// brings all together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn finish(&self, plan: &DecodePlan, results: Results<'_, T>) {
        let mut among = WARPS;
        if plan.parts > 1 {
            self.each_row(among, |line, values, log_sum| {
                self.store_part(line, values, log_sum, &results)
            });
            if !self.is_last(plan, results.counters) {
                return;
            }
            among = self.share_parts(plan, &results);
            thread::sync_threads();
        }
        self.each_row(among, |line, values, log_sum| {
            self.store(line, values, log_sum, &results)
        });
    }

    /// For each row of the warp, of which so many warps have left something in shared memory: the number of its query, this lane's elements of
    /// its result, and the logarithm to base 2 of its sum of exponentials.
    #[inline(always)]
    fn each_row(&self, among: usize, store: impl Fn(usize, [f32; ELEMENTS], f32)) {
        let mut row = thread::thread_idx_x() / 32;
        while row < self.height() {
            let (values, log_sum) = self.result(row, among);
            store(self.line(row), values, log_sum);
            row += WARPS as u32;
        }
    }

    /// Stores a row of this part.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_part(&self, line: usize, values: [f32; ELEMENTS], log_sum: f32, to: &Results<'_, T>) {
        let lane = thread::thread_idx_x() as usize % 32;
        let (dim, column) = (self.shape.dim as usize, lane * ELEMENTS);
        let line = self.place.part as usize * lines(&self.shape) + line;
        // SAFETY (of both): there is room for as many lines, which have a multiple of 8 elements.
        if lane == 0 {
            unsafe { to.sums.set_vec_unchecked(line, [log_sum]) };
        }
        if column < dim {
            unsafe { to.parts.set_vec_unchecked::<ELEMENTS>(line * dim + column, values) };
        }
    }

    /// Stores a row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store(&self, line: usize, values: [f32; ELEMENTS], log_sum: f32, to: &Results<'_, T>) {
        let lane = thread::thread_idx_x() as usize % 32;
        let (dim, column) = (self.shape.dim as usize, lane * ELEMENTS);
        if lane == 0 && line < to.log_sums.len() {
            to.log_sums.set(line, log_sum * core::f32::consts::LN_2);
        }
        if column < dim {
            let values: [T; ELEMENTS] = cuda_std::array::from_fn(|i| T::narrow(values[i]));
            // SAFETY: there is room for as many lines, which have a multiple of 8 elements.
            unsafe { to.out.set_vec_unchecked::<ELEMENTS>(line * dim + column, values) };
        }
    }

    /// Whether all blocks that have these rows have stored their parts, now that this one has. For all threads of the block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is_last(&self, plan: &DecodePlan, counters: SliceMut<'_, u32>) -> bool {
        // What all threads have stored is seen by whoever sees the counter, since they have met ahead of it.
        thread::sync_threads();
        let count = || {
            let counter = counters.atomic(self.place.group);
            // Whoever sees the last count sees all parts, and so do the threads behind the next barrier.
            let is_last = counter.fetch_add_ordered(1) == plan.parts - 1;
            if is_last {
                // For the next launch.
                counter.store(0);
            }
            is_last
        };
        thread::sync_threads_or(thread::thread_idx_x() == 0 && self.place.group < counters.len() && count())
    }

    /// Puts what warps have of the parts of rows into shared memory, as they had it of keys, and says how many warps share a row: all, where
    /// there is one row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn share_parts(&self, plan: &DecodePlan, from: &Results<'_, T>) -> usize {
        let warp = thread::thread_idx_x() as usize / 32;
        let among = match self.height() {
            1 => WARPS,
            2 => WARPS / 2,
            _ => 1,
        };
        // As many lanes have a part as it takes for its elements.
        let lanes = match self.shape.dim {
            ..=64 => 8,
            65..=128 => 16,
            _ => 32,
        };
        let mut row = warp / among;
        while row < self.height() as usize {
            let (line, of_warp) = (self.line(row as u32), (warp % among, among));
            // Of more rows there are more registers.
            let total = match G > MOST_ROWS {
                true => self.parts_of_warp::<8>(of_warp, lanes, line, plan, from),
                false => self.parts_of_warp::<4>(of_warp, lanes, line, plan, from),
            };
            let (of_values, at) = self.places(warp % among, row);
            let lane = thread::thread_idx_x() as usize % 32;
            // SAFETY (of all): there is room for each row of each warp.
            unsafe {
                if lane < lanes && lane * ELEMENTS < self.shape.dim as usize {
                    self.shared.set_vec_unchecked(of_values + lane * ELEMENTS, total.values);
                }
                if lane == 0 {
                    self.shared.set_unchecked(at, total.max);
                    self.shared.set_unchecked(at + 1, total.sum);
                }
            }
            row += WARPS / among;
        }
        among
    }

    /// Of a line each part from `first` on that is a multiple of `step` behind it, brought together: each `lanes` have others, with the results of
    /// so many parts in flight. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn parts_of_warp<const TOGETHER: usize>(
        &self,
        (first, step): (usize, usize),
        lanes: usize,
        line: usize,
        plan: &DecodePlan,
        from: &Results<'_, T>,
    ) -> Sums {
        let lane = thread::thread_idx_x() as usize % 32;
        let (dim, column) = (self.shape.dim as usize, lane % lanes * ELEMENTS);
        let mut total = Sums::NONE;
        let mut part = first + lane / lanes * step;
        let step = 32 / lanes * step;
        while part < plan.parts as usize {
            // Those of several parts are loaded together.
            let (mut log_sums, mut values) = ([f32::NEG_INFINITY; TOGETHER], [[0.0; ELEMENTS]; TOGETHER]);
            unroll!(TOGETHER, n => {
                let part = part + n * step;
                if part < plan.parts as usize {
                    let line = part * lines(&self.shape) + line;
                    // SAFETY (of both): `fit` found room for each part of each line, which has a multiple of 8 elements.
                    log_sums[n] = unsafe { from.sums.get_unchecked(line) };
                    if column < dim {
                        values[n] = unsafe { from.parts.get_vec_unchecked(line * dim + column) };
                    }
                }
            });
            unroll!(TOGETHER, n => {
                total.add(Sums {
                    max: log_sums[n],
                    sum: 1.0,
                    values: values[n],
                });
            });
            part += TOGETHER * step;
        }
        let mut distance = lanes as u32;
        while distance < 32 {
            total.add(total.of_lane(distance));
            distance *= 2;
        }
        total
    }

    /// This lane's elements of the result of a row of the block, of which so many warps have left something in shared memory, and the
    /// logarithm to base 2 of its sum of exponentials.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn result(&self, row: u32, among: usize) -> ([f32; ELEMENTS], f32) {
        let column = thread::thread_idx_x() as usize % 32 * ELEMENTS;
        let mut total = Sums::NONE;
        unroll!(WARPS, w => {
            if w < among {
                let (of_values, at) = self.places(w, row as usize);
                // SAFETY (of all): as in `share`.
                let [max, sum] = unsafe { [self.shared.get_unchecked(at), self.shared.get_unchecked(at + 1)] };
                let mut values = [0.0; ELEMENTS];
                if column < self.shape.dim as usize {
                    values = unsafe { self.shared.get_vec_unchecked(of_values + column) };
                }
                total.add(Sums { max, sum, values });
            }
        });
        let factor = 1.0 / total.sum;
        let values = cuda_std::array::from_fn(|i| {
            if total.sum == 0.0 {
                0.0
            } else {
                total.values[i] * factor
            }
        });
        (values, total.max + Float::log2(total.sum))
    }
}
