// SPDX-License-Identifier: MIT OR Apache-2.0
//! A few columns that lie side by side, by look-back: the stages of the scan of rows, with tiles of whole rows.
//!
//! A row of lanes has as many whole rows of the matrix as fit into a warp, side by side as they are in memory: every
//! access is contiguous, and a lane has the same column each time. Columns are scanned by shuffles as far apart as a row is
//! long, and each value is carried to the next row of lanes. What waits in shared memory are the values, each of which
//! has all of its tile before it, so that results are one combination with what stands before the tile.
//!
//! A tile has a state for each column, which the warp that looks back reads side by side ([`Columns`]).

use bytemuck::Pod;
use cuda_block::lookback::{AGGREGATE, Columns, PREFIX, States};
use cuda_block::storage;
use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::{BLOCKS, NONE, THREADS, WORKERS};
use crate::op::{ReduceOp, Sum};
use crate::scan::{Lines, get_unchecked, looped, set_unchecked};

/// The most columns: of more, few tiles' states are read at once.
pub const MOST_COLUMNS: usize = 12;

/// Warps that have elements.
const WARPS: usize = WORKERS / 32;

/// Results that a lane writes at a time.
const TOGETHER: usize = 8;

/// Tiles that a group of the lanes which look back sees at once, of values of at most 4 bytes; of larger ones half as many,
/// which take as many registers.
const LOOKS: usize = 16;

/// Values of a lane in a tile, of 128 bytes at most; none where a value has more than 8 bytes: such columns are for
/// [`scan_columns`](crate::scan::scan_columns()).
pub const fn values_of_lane<T, Op: ReduceOp<T>>() -> usize {
    match size_of::<Op::Acc>() {
        ..=4 => 32,
        5..=8 => 16,
        _ => 0,
    }
}

/// Rows of a tile of so many columns; 0 where there are no such tiles, of fewer than 2 and of more than [`MOST_COLUMNS`].
pub const fn tile_rows<T, Op: ReduceOp<T>>(columns: usize) -> usize {
    match columns {
        2..=MOST_COLUMNS => WARPS * (32 / columns) * values_of_lane::<T, Op>(),
        _ => 0,
    }
}

/// Bytes of dynamic shared memory of a launch that keeps `tiles` tiles, one or two.
pub const fn shared_bytes<T, Op: ReduceOp<T>>(tiles: usize) -> usize {
    (FIRST_VALUE + tiles * WORKERS * values_of_lane::<T, Op>()) * size_of::<Op::Acc>()
}

/// Ahead of the values that wait: for each of two sides, a row of lanes for each warp, and one for what stands before the
/// tile.
const FIRST_VALUE: usize = 2 * (WARPS + 1) * 32;

/// Scans each of `columns` columns that lie side by side, of matrices of as many that lie one behind the other: `lines` are
/// [those of such an array](Lines::of_array), `columns` to a row; of others nothing is done. Exclusively unless `exclusive`
/// is 0.
///
/// The launch has at most a block for each tile, of [`tile_rows`] rows or what is left of a matrix, of [`THREADS`] threads,
/// with [`shared_bytes`] of dynamic shared memory; with less, nothing is done. `state` has
/// [`state_len`](super::state_len) words for as many tiles as there are, times the columns; the rest is as for
/// [`scan`](fn@super::scan).
#[kernel(
    T = [f32, f64, f16, bf16, i32, u8, u16, u32, u64],
    Op = [Sum],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn scan_few<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    lines: Lines,
    columns: u32,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    let is_array = lines == Lines::of_array(lines.count, lines.n, columns as usize);
    if !is_array || columns > warp::WARP_SIZE {
        return;
    }
    match const { values_of_lane::<T, Op>() } {
        32 => scan_tiles::<T, Op, 32>(x, lines, exclusive != 0, state, out),
        16 => scan_tiles::<T, Op, 16>(x, lines, exclusive != 0, state, out),
        _ => {}
    }
}

#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn scan_tiles<T: Pod, Op: ReduceOp<T>, const U: usize>(
    x: &[T],
    lines: Lines,
    exclusive: bool,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, Op::Output>,
) {
    let (columns, n) = (Columns::new(lines.inner as u32), lines.n);
    let matrix = n.saturating_mul(columns.count() as usize);
    if matrix == 0 || matrix > x.len() || thread::block_idx_y() | thread::block_idx_z() != 0 {
        return;
    }
    let rows = Ord::max(WARPS * columns.groups() as usize * U, 1);
    let of_matrix = Ord::max(n.div_ceil(rows), 1);
    let matrices = Ord::min(lines.count / columns.count() as usize, x.len() / matrix);
    let count = matrices.saturating_mul(of_matrix);
    let shared = cuda_std::shared::dynamic::<Op::Acc>();
    let has_room = |tiles: usize| shared.len() >= FIRST_VALUE + tiles * WORKERS * U;
    if count >= NONE as usize || !has_room(1) || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let block = Block::<T, Op, U> {
        x,
        out,
        n,
        columns,
        of_matrix: Ord::max(of_matrix as u32, 1),
        count: count as u32,
        states: States::new(state),
        shared,
        has_two: has_room(2),
        exclusive,
    };
    block.run();
}

/// A block at work.
struct Block<'a, T, Op: ReduceOp<T>, const U: usize> {
    x: &'a [T],
    out: SliceMut<'a, Op::Output>,
    /// Rows of a matrix.
    n: usize,
    columns: Columns,
    /// Tiles of a matrix.
    of_matrix: u32,
    /// All tiles.
    count: u32,
    states: States<'a, Op::Acc>,
    shared: Shared<Op::Acc>,
    /// Whether there is room for two tiles that wait.
    has_two: bool,
    exclusive: bool,
}

/// What a warp has of a tile: rows of lanes one behind the other.
#[derive(Clone, Copy)]
struct Part {
    /// The place of its first element.
    first: usize,
    /// Its elements.
    len: u32,
    /// The row of this lane's first element.
    row: u64,
}

impl<T: Pod, Op: ReduceOp<T>, const U: usize> Block<'_, T, Op, U> {
    /// Takes tiles until there are no more: the stages of [`super::Block::run`].
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn run(mut self) {
        let tickets = super::Exchange::<Op::Acc>::new().tickets;
        let is_last = |ticket: u32| ticket.wrapping_sub(thread::grid_dim_x()).wrapping_add(1) == self.count;
        let mut next = self.states.ticket(storage![u64; 1], is_last);
        let (mut current, mut published) = (NONE, NONE);
        let mut published_total = Op::identity();
        let looks_back = thread::thread_idx_x() as usize >= WORKERS;
        let is_tile = |number: u32| number < self.count;
        let mut side = 0;
        loop {
            let known = published;
            (published, current) = (current, next);
            if !(is_tile(current) || is_tile(published) || is_tile(known)) {
                return;
            }
            let mut values = [Op::identity(); U];
            if looks_back {
                if is_tile(current) && warp::lane_id() == 0 {
                    tickets.set(side, self.states.take_ticket(is_last));
                }
            } else if is_tile(current) {
                values = self.scan_warp(side, current);
            }
            thread::sync_threads();
            let followed = if self.has_two { current } else { known };
            next = if is_tile(followed) { tickets.get(side) } else { NONE };
            if looks_back {
                let mut total = Op::identity();
                if is_tile(current) {
                    total = self.before_warp(side, WARPS);
                    self.publish(current, total);
                }
                if is_tile(published) {
                    self.look_back(1 - side, published, published_total);
                }
                published_total = total;
            } else {
                if is_tile(known) {
                    self.write(side, known);
                }
                if is_tile(current) {
                    self.park(side, values);
                }
            }
            side = 1 - side;
        }
    }

    /// The matrix of a tile, and its number there.
    #[inline(always)]
    fn place(&self, number: u32) -> (u32, u32) {
        (number / self.of_matrix, number % self.of_matrix)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn part(&self, number: u32) -> Part {
        let (matrix, in_matrix) = self.place(number);
        let warp = in_matrix as usize * WARPS + thread::thread_idx_x() as usize / 32;
        let row = warp * (self.columns.groups() as usize * U);
        let columns = self.columns.count() as usize;
        let first = (matrix as usize * self.n + row) * columns;
        let left = self.n.saturating_sub(row) * columns;
        let room = Ord::min(self.x.len(), self.out.len()).saturating_sub(first);
        let len = Ord::min(Ord::min(left, room), self.columns.lanes() as usize * U);
        Part {
            first,
            len: len as u32,
            row: row as u64 + u64::from(self.columns.group()),
        }
    }

    /// The elements of a row of lanes. Opaque, so that no places are computed ahead of the tiles, and kept in registers.
    #[inline(always)]
    fn step(&self) -> u32 {
        hint::opaque(self.columns.lanes())
    }

    /// This lane's elements of a tile, scanned with all others of its warp's part; tells the others the part's totals.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scan_warp(&self, side: usize, number: u32) -> [Op::Acc; U] {
        let (part, step) = (self.part(number), self.step());
        let at = |u: usize| u as u32 * step + warp::lane_id();
        let mut values = [Op::identity(); U];
        if part.len > 0 {
            let mut loaded = [T::zeroed(); U];
            // Without a branch between the loads, so that all are in flight at once: of what is not the part's, its last.
            for u in 0..U {
                let at = Ord::min(at(u), part.len - 1) as usize;
                // SAFETY: of the part, which is within the input.
                loaded[u] = unsafe { get_unchecked(self.x, part.first + at) };
            }
            // Lanes that have no column have no elements.
            let len = if warp::lane_id() < step { part.len } else { 0 };
            for u in 0..U {
                if at(u) < len {
                    values[u] = Op::lift(loaded[u], part.row + u as u64 * u64::from(self.columns.groups()));
                }
            }
        }
        let (scanned, total) = self.columns.scan(values, Op::identity(), Op::combine);
        let warp = thread::thread_idx_x() as usize / 32;
        // SAFETY: of a row of lanes that there is.
        unsafe { self.shared.set_unchecked(Self::of_warp(side, warp), total) };
        scanned
    }

    /// The place of what a warp tells on a side; of warp [`WARPS`], of what stands before the tile.
    #[inline(always)]
    fn of_warp(side: usize, warp: usize) -> usize {
        (side * (WARPS + 1) + warp) * 32 + warp::lane_id() as usize
    }

    /// What stands before the part of a warp in its tile, in this lane's column.
    #[inline(always)]
    fn before_warp(&self, side: usize, warp: usize) -> Op::Acc {
        let mut before = Op::identity();
        for w in 0..warp {
            // SAFETY: of a row of lanes that there is.
            before = Op::combine(before, unsafe { self.shared.get_unchecked(Self::of_warp(side, w)) });
        }
        before
    }

    /// Publishes the totals of a tile: its prefixes, if it is the first of its matrix.
    #[inline(always)]
    fn publish(&self, number: u32, total: Op::Acc) {
        if warp::lane_id() < self.columns.count() {
            let is_first = self.place(number).1 == 0;
            let flag = if is_first { PREFIX } else { AGGREGATE };
            let state = number as usize * self.columns.count() as usize + self.columns.column() as usize;
            self.states.publish(state, flag, total);
        }
    }

    /// Finds what stands before a tile, and tells the others.
    #[inline(always)]
    fn look_back(&self, side: usize, number: u32, total: Op::Acc) {
        let tile = (number as usize, self.place(number).1 as usize);
        let (columns, identity) = (self.columns, Op::identity());
        let prefix = if const { size_of::<Op::Acc>() <= 4 } {
            self.states
                .prefix_of_columns::<LOOKS>(tile, columns, total, identity, Op::combine)
        } else {
            self.states
                .prefix_of_columns::<{ LOOKS / 2 }>(tile, columns, total, identity, Op::combine)
        };
        // SAFETY: of a row of lanes that there is.
        unsafe { self.shared.set_unchecked(Self::of_warp(side, WARPS), prefix) };
    }

    /// The place of this lane's first value among those that wait.
    #[inline(always)]
    fn parked(&self, side: usize) -> usize {
        let slot = if self.has_two { side } else { 0 };
        FIRST_VALUE + slot * (U * WORKERS) + thread::thread_idx_x() as usize
    }

    /// Parks a tile until what stands before it is known: each value, with what stands before the warp's part, where its
    /// result is written. Of an exclusive scan that is the next row; what stands before the part is that of the first.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn park(&self, side: usize, values: [Op::Acc; U]) {
        let (groups, group) = (self.columns.groups(), self.columns.group());
        let before = self.before_warp(side, thread::thread_idx_x() as usize / 32);
        let (first, is_last) = (self.parked(side), group + 1 == groups);
        let further = match () {
            // Nor has a lane without a column a next row.
            _ if !self.exclusive || group >= groups => 0,
            _ if is_last => WORKERS + self.columns.count() as usize - self.columns.lanes() as usize,
            _ => self.columns.count() as usize,
        };
        // Other lanes have written what waited here.
        warp::sync_warp(warp::FULL_MASK);
        for u in 0..U {
            if u + 1 < U || !(self.exclusive && is_last) {
                let at = first + u * WORKERS + further;
                // SAFETY: of a slot that there is: of the last row of lanes, at most the last group's.
                unsafe { self.shared.set_unchecked(at, Op::combine(before, values[u])) };
            }
        }
        if self.exclusive && group == 0 {
            // SAFETY: as above.
            unsafe { self.shared.set_unchecked(first, before) };
        }
    }

    /// Writes the results of a tile of which what stands before it is known, a few at a time.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn write(&self, side: usize, number: u32) {
        let (part, step) = (self.part(number), self.step());
        // SAFETY: of a row of lanes that there is.
        let prefix = unsafe { self.shared.get_unchecked(Self::of_warp(side, WARPS)) };
        let len = if warp::lane_id() < step { part.len } else { 0 };
        let (mut place, mut row, mut u) = (warp::lane_id(), part.row + u64::from(!self.exclusive), 0);
        let mut parked = self.parked(side);
        while u < looped(U) {
            // SAFETY: of a slot that there is.
            let values: [Op::Acc; TOGETHER] =
                cuda_std::array::from_fn(|k| unsafe { self.shared.get_unchecked(parked + k * WORKERS) });
            for k in 0..TOGETHER {
                if place < len {
                    let result = Op::finish(Op::combine(prefix, values[k]), row);
                    // SAFETY: of the part, which is within the output.
                    unsafe { set_unchecked(self.out, part.first + place as usize, result) };
                }
                place += step;
                row += u64::from(self.columns.groups());
            }
            u += TOGETHER;
            parked += TOGETHER * WORKERS;
        }
    }
}
