// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that are added where indices say, one after another in the order of the indices: the same bits each time, and those of a loop
//! on the host.
//!
//! What an index names, over all outer and inner axes, is a *line*, and its elements *columns*. A line belongs to one team of warps, a
//! column of it to one lane, and nobody else adds to it. A block reads all indices, `CHUNK` at a time, and lists those of its lines in
//! shared memory, in their order, by ballots. Then each team goes over the list and adds the values of its own lines, `BATCH` of them
//! in flight; where one line occurs in a batch again, its sum is handed on in registers.
//!
//! No memory, no sort, one launch. The price is that indices are read by each block, of which there are about two for each
//! multiprocessor: from the cache, 8 bytes where a line is moved three times. Where few indices occur over and over, few warps have all of
//! the work.

use bytemuck::Pod;
use core::ops::Add;
use cuda_std::prelude::*;

use super::{THREADS, div_rem};
use crate::matmul::unroll;

/// Warps of a block.
const WARPS: usize = THREADS / 32;

/// Indices of a lane, of a warp, and of a block at a time.
const ITEMS: usize = 8;
const OF_WARP: usize = ITEMS * 32;
const CHUNK: usize = ITEMS * THREADS;

/// Columns of a lane, 32 apart, and of a warp.
const COLUMNS: usize = 4;
const SPAN: usize = COLUMNS * 32;

/// Lines that are added to at a time.
const BATCH: usize = 4;

/// Blocks that ptxas makes room for on a multiprocessor, by the bytes of an element: with two of f64 it keeps registers in memory.
const fn blocks(bytes: usize) -> usize {
    if bytes == 4 { 2 } else { 1 }
}

/// Who adds to which lines and columns.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct InOrderPlan {
    /// Shares of lines, a power of two: line `i` is of share `i` modulo their number.
    pub shares: u32,
    /// Warps of a team, a power of two up to those of a block.
    pub team: u32,
    /// Blocks that have the teams of a share, each with columns of its own.
    pub across: u32,
}

impl InOrderPlan {
    /// For so many lines and columns, of which there are some, on a device of so many multiprocessors.
    pub fn new(lines: usize, columns: usize, multiprocessors: u32) -> Self {
        let spans = columns.div_ceil(SPAN);
        let team = spans.next_power_of_two().min(WARPS);
        let blocks = 2 * multiprocessors.max(1) as usize;
        let across = spans.div_ceil(team).min(blocks);
        let shares = lines.div_ceil(WARPS / team).min(blocks / across);
        Self {
            shares: 1 << shares.ilog2(),
            team: team as u32,
            across: across as u32,
        }
    }

    /// Blocks of the kernel.
    pub fn blocks(&self) -> u32 {
        self.shares * self.across
    }

    fn is_valid(&self) -> bool {
        self.shares.is_power_of_two() && self.team.is_power_of_two() && self.team as usize <= WARPS && self.across > 0
    }
}

/// What a block has listed of a chunk.
#[derive(Clone, Copy)]
struct List {
    /// Lines.
    lines: Shared<u64>,
    /// Which of the chunk's indices names each.
    numbers: Shared<u32>,
    /// How many each warp has found.
    found: Shared<u32>,
}

impl List {
    /// Lists those of the indices from `first` on whose line is of the share, and counts them. For all threads of the block.
    ///
    /// # Panics
    ///
    /// If an index is not less than `n`.
    #[inline(always)]
    fn fill(&self, indices: &[u64], n: usize, first: usize, is_own: impl Fn(u64) -> bool) -> u32 {
        let (lane, warp) = (
            thread::thread_idx_x() as usize % 32,
            thread::thread_idx_x() as usize / 32,
        );
        let number = |k: usize| warp * OF_WARP + k * 32 + lane;
        let mut lines = [0; ITEMS];
        unroll!(8, k => {
            if number(k) < indices.len() - first {
                // SAFETY: in bounds, as just asked; a single element is always aligned.
                [lines[k]] = unsafe { indices.load_vec_unchecked(first + number(k)) };
                assert!(lines[k] < n as u64, "an index is out of bounds of its axis");
            }
        });
        let (mut ballots, mut count) = ([0u32; ITEMS], 0);
        unroll!(8, k => {
            let is_own = number(k) < indices.len() - first && is_own(lines[k]);
            ballots[k] = warp::ballot(warp::FULL_MASK, is_own);
            count += ballots[k].count_ones();
        });
        // The list before has been read.
        thread::sync_threads();
        if lane == 0 {
            // SAFETY: there is one for each warp.
            unsafe { self.found.set_unchecked(warp, count) };
        }
        thread::sync_threads();
        let (mut at, mut total) = (0, 0);
        unroll!(8, other => {
            // SAFETY: as above.
            let found = unsafe { self.found.get_unchecked(other) };
            at += if other < warp { found } else { 0 };
            total += found;
        });
        let places: [u32; ITEMS] = cuda_std::array::from_fn(|k| {
            let place = at + (ballots[k] & ((1 << lane) - 1)).count_ones();
            at += ballots[k].count_ones();
            place
        });
        unroll!(8, k => {
            if ballots[k] >> lane & 1 == 1 {
                // SAFETY (of both): there is room for all of the chunk's.
                unsafe {
                    self.lines.set_unchecked(places[k] as usize, lines[k]);
                    self.numbers.set_unchecked(places[k] as usize, number(k) as u32);
                }
            }
        });
        thread::sync_threads();
        total
    }
}

/// A lane's columns: where they are in the first line of the sums and of the values, if they are.
#[derive(Clone, Copy)]
struct Columns {
    of_sums: [usize; COLUMNS],
    of_values: [usize; COLUMNS],
    are: [bool; COLUMNS],
}

impl Columns {
    /// Those of a span, of arrays of (outer, `n`, `inner`) and (outer, `values`, `inner`) elements.
    #[inline(always)]
    fn of_span(span: usize, columns: usize, [n, values, inner]: [usize; 3]) -> Self {
        let mut of = Self {
            of_sums: [0; COLUMNS],
            of_values: [0; COLUMNS],
            are: [false; COLUMNS],
        };
        unroll!(4, i => {
            let column = span * SPAN + i * 32 + thread::thread_idx_x() as usize % 32;
            let (outer, within) = div_rem(column as u64, inner as u64);
            of.are[i] = column < columns;
            of.of_sums[i] = outer as usize * n * inner + within as usize;
            of.of_values[i] = outer as usize * values * inner + within as usize;
        });
        of
    }
}

/// Warps that have lines in common.
struct Team {
    number: u32,
    plan: InOrderPlan,
    inner: usize,
    columns: Columns,
}

impl Team {
    /// Whether a line of the block's share is the team's.
    #[inline(always)]
    fn has(&self, line: u64) -> bool {
        let teams = WARPS as u32 >> self.plan.team.trailing_zeros();
        line as u32 >> self.plan.shares.trailing_zeros() & (teams - 1) == self.number
    }

    /// Adds the values of those lines of the list, of so many, that are the team's. The chunk's first index is number `first`.
    #[inline(always)]
    fn add<T: Pod + Add<Output = T>>(
        &self,
        list: &List,
        listed: u32,
        values: &[T],
        first: usize,
        out: SliceMut<'_, T>,
    ) {
        // SAFETY (of both): for places in the list.
        let line = |at: u32| unsafe { list.lines.get_unchecked(at as usize) };
        let number = |at: u32| unsafe { list.numbers.get_unchecked(at as usize) };
        let mut begin = 0;
        while begin < listed {
            let at = begin + thread::thread_idx_x() % 32;
            let mut left = warp::ballot(warp::FULL_MASK, at < listed && self.has(line(at)));
            while left != 0 {
                let mut batch = [None; BATCH];
                unroll!(4, k => {
                    if left != 0 {
                        let at = begin + left.trailing_zeros();
                        batch[k] = Some((line(at) as usize, first + number(at) as usize));
                        left &= left - 1;
                    }
                });
                self.add_batch(&batch, values, out);
            }
            begin += 32;
        }
    }

    /// Adds to some lines the values of those numbers.
    #[inline(always)]
    fn add_batch<T: Pod + Add<Output = T>>(
        &self,
        batch: &[Option<(usize, usize)>; BATCH],
        values: &[T],
        out: SliceMut<'_, T>,
    ) {
        let columns = &self.columns;
        let (mut sums, mut added) = ([[T::zeroed(); COLUMNS]; BATCH], [[T::zeroed(); COLUMNS]; BATCH]);
        unroll!(4, k => {
            unroll!(4, i => {
                if let (Some((line, number)), true) = (batch[k], columns.are[i]) {
                    // SAFETY (of both): lines are less than `n`, numbers less than those of indices, and of arrays of such sizes the
                    // column is one; single elements are always aligned.
                    [added[k][i]] = unsafe { values.load_vec_unchecked(columns.of_values[i] + number * self.inner) };
                    sums[k][i] = unsafe { out.get_unchecked(columns.of_sums[i] + line * self.inner) };
                }
            });
        });
        unroll!(4, k => {
            unroll!(4, i => {
                if let (Some((line, _)), true) = (batch[k], columns.are[i]) {
                    let sum = sums[k][i] + added[k][i];
                    // SAFETY: as above.
                    unsafe { out.set_vec_unchecked(columns.of_sums[i] + line * self.inner, [sum]) };
                    hand_on(&mut sums, batch, (k, line), (i, sum));
                }
            });
        });
    }
}

/// Takes the new sum of a column for what was read of it for those of the batch, behind number `k`, that are of the same line.
#[inline(always)]
fn hand_on<T: Pod>(
    sums: &mut [[T; COLUMNS]; BATCH],
    batch: &[Option<(usize, usize)>; BATCH],
    (k, line): (usize, usize),
    (column, sum): (usize, T),
) {
    unroll!(4, later => {
        if later > k && batch[later].is_some_and(|(other, _)| other == line) {
            sums[later][column] = sum;
        }
    });
}

/// `out[o, indices[j], i] += values[o, j, i]`, for (outer, `n`, `inner`) elements of the output, one `j` after another. Blocks of
/// [`THREADS`] threads, as many as [`InOrderPlan::blocks`] says.
///
/// # Panics
///
/// If an index is not less than `n`, or the sizes are not those of the arrays.
#[kernel(T = [f32, f64], max_threads = THREADS, min_blocks = blocks(size_of::<T>()))]
pub fn scatter_add_in_order<T: Pod + Add<Output = T>>(
    values: &[T],
    indices: &[u64],
    n: usize,
    inner: usize,
    plan: InOrderPlan,
    out: SliceMut<'_, T>,
) {
    if inner == 0 || indices.is_empty() {
        return;
    }
    let (columns, rest) = div_rem(values.len() as u64, indices.len() as u64);
    let (outer, part) = div_rem(columns, inner as u64);
    let wanted = (outer as usize)
        .checked_mul(n)
        .and_then(|lines| lines.checked_mul(inner));
    assert!(
        rest == 0
            && part == 0
            && wanted == Some(out.len())
            && plan.is_valid()
            && thread::block_dim_x() as usize == THREADS,
        "the arrays are not of one shape"
    );
    let list = List {
        lines: shared_array![u64; CHUNK],
        numbers: shared_array![u32; CHUNK],
        found: shared_array![u32; WARPS],
    };
    let (columns, in_team) = (columns as usize, plan.team as usize);
    let share = thread::block_idx_x() & (plan.shares - 1);
    let block = thread::block_idx_x() >> plan.shares.trailing_zeros();
    if block >= plan.across {
        return;
    }
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    // The first of the block's spans.
    let mut span = block as usize * in_team;
    while span * SPAN < columns {
        let own = span + (warp & (plan.team - 1)) as usize;
        let team = Team {
            number: warp >> plan.team.trailing_zeros(),
            plan,
            inner,
            columns: Columns::of_span(own, columns, [n, indices.len(), inner]),
        };
        let mut first = 0;
        while first < indices.len() {
            let listed = list.fill(indices, n, first, |line| line as u32 & (plan.shares - 1) == share);
            team.add(&list, listed, values, first, out);
            first += CHUNK;
        }
        span += plan.across as usize * in_team;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_fill_the_device_and_no_more() {
        let plan = |lines, columns| InOrderPlan::new(lines, columns, 132);
        let of = |shares, team, across| InOrderPlan { shares, team, across };
        assert_eq!(plan(50_000, 1024), of(256, 8, 1));
        assert_eq!(plan(50_000, 1025), of(128, 8, 2));
        assert_eq!(plan(50_000, 128), of(256, 1, 1));
        // Each warp has a line.
        assert_eq!(plan(24, 1), of(2, 1, 1));
        assert_eq!(plan(1, 1 << 30), of(1, 8, 264));
        for (lines, columns) in [(1, 1), (3, 300), (1 << 40, 1 << 20)] {
            for multiprocessors in [0, 1, 2, 132] {
                let plan = InOrderPlan::new(lines, columns, multiprocessors);
                assert!(
                    plan.is_valid() && plan.blocks() <= 2 * multiprocessors.max(1),
                    "{plan:?}"
                );
            }
        }
    }
}
