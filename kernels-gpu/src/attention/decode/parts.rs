// SPDX-License-Identifier: MIT OR Apache-2.0
//! How what a block's warps have becomes results: of several parts of the keys, the last block to come brings all together.

use cuda_std::prelude::*;

use super::{Block, DecodePlan, ELEMENTS, MOST_ROWS, MOST_WARPS, Results, Sums, WARPS, lines};
use crate::matmul::unroll;
use crate::num::Num;

/// Some lanes of a warp, which have the elements of a row, 8 each: of short lines a warp has several such teams, and of more rows than there are warps
/// each team has another row, so that no row waits for one before.
struct Team {
    /// The number of the lane in its team.
    lane: usize,
    /// Lanes of a team.
    lanes: usize,
    /// The number of the team.
    number: usize,
    /// The logarithm to base 2 of how many rows the warp's teams have at a time. Teams whose numbers are that far apart have the same row.
    log_rows: u32,
}

impl Team {
    /// The number of its row among those.
    #[inline(always)]
    fn number_of_row(&self) -> usize {
        self.number & ((1 << self.log_rows) - 1)
    }

    /// Whether it is the first of those that have the row.
    #[inline(always)]
    fn is_first(&self) -> bool {
        self.number >> self.log_rows == 0
    }
}

impl<T: Num<Wide = f32>, const G: usize> Block<'_, T, G> {
    /// Brings the warps' rows together that are in shared memory, and stores them. Of several parts of the keys, the last block to come
    /// brings all together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn finish(&self, plan: &DecodePlan, results: Results<'_, T>) {
        let warps = self.warps();
        let mut among = warps;
        if plan.parts > 1 {
            self.store_rows::<true>(warps, &results);
            if !self.is_last(plan, results.counters) {
                return;
            }
            // All warps have parts of one row, or half of them of two. Of more each has its own, which need not go through shared memory.
            among = match self.height() {
                1 => warps,
                2 => warps / 2,
                _ => return self.bring_together(plan, &results),
            };
            self.share_parts(among, plan, &results);
            thread::sync_threads();
        }
        self.store_rows::<false>(among, &results);
    }

    /// Stores each row of the warp, of which so many warps have left something in shared memory: as a part, or as the result.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_rows<const AS_PART: bool>(&self, among: usize, results: &Results<'_, T>) {
        let team = self.team();
        let mut first = thread::thread_idx_x() / 32;
        while first < self.height() {
            let row = self.row_of(&team, first);
            // Behind the last row the last one is loaded again.
            let there = if row < self.height() { row } else { self.height() - 1 };
            let (line, sums) = (self.line(there), self.of_warps(there, &team, among));
            if row == there && team.is_first() {
                match AS_PART {
                    true => self.store_part(line, &team, sums, results),
                    false => self.store(line, &team, sums, results),
                }
            }
            first += (self.warps() << team.log_rows) as u32;
        }
    }

    /// Among whom the lanes of a warp are divided that store rows.
    #[inline(always)]
    fn team(&self) -> Team {
        let (lane, lanes) = (thread::thread_idx_x() as usize % 32, self.lanes_of_part());
        let (height, warps) = (self.height() as usize, self.warps());
        let log_rows = match lanes {
            8 if height > 2 * warps => 2,
            8 | 16 if height > warps => 1,
            _ => 0,
        };
        Team {
            lane: lane % lanes,
            lanes,
            number: lane / lanes,
            // Of few rows a block on ordinary cores has a warp for each.
            log_rows: if G > MOST_ROWS { log_rows } else { 0 },
        }
    }

    /// The row of this lane, where the warp's first is the `first`: those of a warp are as many apart as there are warps.
    #[inline(always)]
    fn row_of(&self, team: &Team, first: u32) -> u32 {
        first + (team.number_of_row() * self.warps()) as u32
    }

    /// Stores a row of this part.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_part(&self, line: usize, team: &Team, sums: Sums, to: &Results<'_, T>) {
        let (dim, column) = (self.shape.dim as usize, team.lane * ELEMENTS);
        let line = self.place.part as usize * lines(&self.shape) + line;
        // SAFETY (of both): there is room for as many lines, which have a multiple of 8 elements.
        if team.lane == 0 {
            unsafe { to.sums.set_vec_unchecked(2 * line, [sums.max, sums.sum]) };
        }
        if column < dim {
            unsafe { to.parts.set_vec_unchecked::<ELEMENTS>(line * dim + column, sums.values) };
        }
    }

    /// Stores a row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store(&self, line: usize, team: &Team, sums: Sums, to: &Results<'_, T>) {
        let (dim, column) = (self.shape.dim as usize, team.lane * ELEMENTS);
        if team.lane == 0 && line < to.log_sums.len() {
            let log_sum = sums.max + Float::log2(sums.sum);
            to.log_sums.set(line, log_sum * core::f32::consts::LN_2);
        }
        if column < dim {
            let (is_empty, factor) = (sums.sum == 0.0, 1.0 / sums.sum);
            let [a, b, c, d, e, f, g, h] = sums.values;
            let of = |value: f32| T::narrow(if is_empty { 0.0 } else { value * factor });
            let values = [of(a), of(b), of(c), of(d), of(e), of(f), of(g), of(h)];
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

    /// How many lanes have a part of a row: as many as it takes for its elements.
    #[inline(always)]
    fn lanes_of_part(&self) -> usize {
        match self.shape.dim {
            ..=64 => 8,
            65..=128 => 16,
            _ => 32,
        }
    }

    /// Stores each row of the warp, of all parts.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn bring_together(&self, plan: &DecodePlan, results: &Results<'_, T>) {
        let team = self.team();
        let mut first = thread::thread_idx_x() / 32;
        while first < self.height() {
            let row = self.row_of(&team, first);
            let there = if row < self.height() { row } else { self.height() - 1 };
            let line = self.line(there);
            let sums = self.some_parts((0, 1), &team, line, plan, results);
            if row == there && team.is_first() {
                self.store(line, &team, sums, results);
            }
            first += (self.warps() << team.log_rows) as u32;
        }
    }

    /// Puts what warps have of the parts of a row, of which so many have some, into shared memory, as they had it of keys.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn share_parts(&self, among: usize, plan: &DecodePlan, from: &Results<'_, T>) {
        let warp = thread::thread_idx_x() as usize / 32;
        // Of so few rows each warp has parts of one.
        let team = Team {
            log_rows: 0,
            ..self.team()
        };
        let mut row = warp / among;
        while row < self.height() as usize {
            let total = self.some_parts((warp % among, among), &team, self.line(row as u32), plan, from);
            let (of_values, at) = self.places(warp % among, row);
            let lane = thread::thread_idx_x() as usize % 32;
            // SAFETY (of all): there is room for each row of each warp.
            unsafe {
                if lane < team.lanes && lane * ELEMENTS < self.shape.dim as usize {
                    self.shared.set_vec_unchecked(of_values + lane * ELEMENTS, total.values);
                }
                if lane == 0 {
                    self.shared.set_unchecked(at, total.max);
                    self.shared.set_unchecked(at + 1, total.sum);
                }
            }
            row += self.warps() / among;
        }
    }

    /// [`parts_of_warp`](Self::parts_of_warp), with as many in flight as there are registers for: of more rows there are more.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn some_parts(
        &self,
        of_warp: (usize, usize),
        team: &Team,
        line: usize,
        plan: &DecodePlan,
        from: &Results<'_, T>,
    ) -> Sums {
        match G > MOST_ROWS {
            true => self.parts_of_warp::<8>(of_warp, team, line, plan, from),
            false => self.parts_of_warp::<4>(of_warp, team, line, plan, from),
        }
    }

    /// Of a line each part from `first` on that is a multiple of `step` behind it, brought together: each team that has the line has others, with the results of
    /// so many parts in flight. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn parts_of_warp<const TOGETHER: usize>(
        &self,
        (first, step): (usize, usize),
        team: &Team,
        line: usize,
        plan: &DecodePlan,
        from: &Results<'_, T>,
    ) -> Sums {
        let (dim, column) = (self.shape.dim as usize, team.lane * ELEMENTS);
        let mut total = Sums::NONE;
        let mut part = first + (team.number >> team.log_rows) * step;
        let step = ((32 / team.lanes) >> team.log_rows) * step;
        // A product for each part would take longer than its results do to come.
        let lines_of_part = lines(&self.shape);
        let mut line = part * lines_of_part + line;
        let lines_of_step = step * lines_of_part;
        while part < plan.parts as usize {
            // Those of several parts are loaded together.
            let (mut max, mut sums) = ([f32::NEG_INFINITY; TOGETHER], [0.0; TOGETHER]);
            let mut values = [[0.0; ELEMENTS]; TOGETHER];
            unroll!(TOGETHER, n => {
                let part = part + n * step;
                if part < plan.parts as usize {
                    let line = line + n * lines_of_step;
                    // SAFETY (of both): `fit` found room for each part of each line, which has a multiple of 8 elements.
                    [max[n], sums[n]] = unsafe { from.sums.get_vec_unchecked(2 * line) };
                    if column < dim {
                        values[n] = unsafe { from.parts.get_vec_unchecked(line * dim + column) };
                    }
                }
            });
            total.add_all(max, sums, values);
            part += TOGETHER * step;
            line += TOGETHER * lines_of_step;
        }
        let mut distance = (team.lanes << team.log_rows) as u32;
        while distance < 32 {
            total.add(total.of_lane(distance));
            distance *= 2;
        }
        total
    }

    /// What this lane has of a row of the block, of which so many warps have left something in shared memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_warps(&self, row: u32, team: &Team, among: usize) -> Sums {
        if G > MOST_ROWS && among > WARPS {
            return self.of_some_warps::<MOST_WARPS>(row, team, among);
        }
        self.of_some_warps::<WARPS>(row, team, among)
    }

    /// [`of_warps`](Self::of_warps), of no more than `MOST`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_some_warps<const MOST: usize>(&self, row: u32, team: &Team, among: usize) -> Sums {
        let column = team.lane * ELEMENTS;
        let (mut max, mut sum) = ([f32::NEG_INFINITY; MOST], [0.0; MOST]);
        let mut values = [[0.0; ELEMENTS]; MOST];
        unroll!(MOST, w => {
            if w < among {
                let (of_values, at) = self.places(w, row as usize);
                // SAFETY (of all): as in `share`.
                [max[w], sum[w]] = unsafe { [self.shared.get_unchecked(at), self.shared.get_unchecked(at + 1)] };
                if column < self.shape.dim as usize {
                    values[w] = unsafe { self.shared.get_vec_unchecked(of_values + column) };
                }
            }
        });
        let mut total = Sums::NONE;
        total.add_all(max, sum, values);
        total
    }
}
