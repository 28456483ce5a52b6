// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along an axis that is not the last, or whose lines are short, in one pass: every element is read once and
//! written once.
//!
//! A tile is a strip of columns by as many rows as the block has in registers: a thread has up to 32 rows of one
//! column, a *segment*, all of whose elements are on their way at once, and neighbouring threads have neighbouring
//! columns, so that accesses are contiguous. What stands before a segment in its tile is found by shuffles and through
//! shared memory (`segments`), and what stands before the tile by looking back, column by column, at the states of the
//! tiles above it ([`cuda_block::lookback`]).
//!
//! Tiles are taken by tickets, the topmost ones of all strips first. Where strips are many, what stands before a tile
//! is known when a block takes it, as a rule: one glance, which is on its way along with the elements, is all. Where
//! they are few, the block looks at several tiles at once.
//!
//! Where columns are so many that a thread for each fills the device, each thread goes down its own, and nobody waits.

use bytemuck::Pod;
use cuda_block::lookback::{INVALID, PAUSE, PREFIX, States};
use cuda_block::storage;
use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;

mod segment;
mod segments;

use super::{Lines, THREADS, get_unchecked, set_within};
use crate::op::{Max, Min, Product, ReduceOp, Sum, finish};
use segment::{Kept, Segment, opaque};
use segments::{Segments, Total};

/// Blocks that ptxas makes room for on a multiprocessor: where elements and results are small more, since fewer bytes
/// are on their way.
pub const fn blocks<T, Op: ReduceOp<T>>() -> usize {
    if size_of::<T>() < 4 && size_of::<Op::Output>() < 4 {
        4
    } else {
        3
    }
}

/// Bytes of a segment, at most, of elements and of results: what a thread has in flight.
const SEGMENT_BYTES: usize = 128;

/// Rows that a thread which has a column for itself has on their way, while there are as many.
const MANY_ROWS: usize = 16;

/// Those that it has of what is left.
const FEW_ROWS: usize = 8;

/// Columns of at most so many rows are scanned several by a thread.
const SHORT: usize = 5;

/// About as many tiles as are on their way at a time: where there are fewer strips, several tiles of a strip are, and
/// that many are looked at at once.
const ON_THEIR_WAY: u32 = 512;

/// Rows of a segment when elements of type `T` are scanned by `Op`: a power of two.
pub const fn segment_len<T, Op: ReduceOp<T>>() -> usize {
    let (input, output) = (size_of::<T>(), size_of::<Op::Output>());
    let largest = if input > output { input } else { output };
    let mut len = 32;
    while len > 1 && len * largest > SEGMENT_BYTES {
        len /= 2;
    }
    len
}

/// Whether the places of a segment's results are found when they are written, and not ahead of the elements, where these or
/// the values need the registers. Elsewhere ptxas would spill for it.
const fn places_are_late<T, R>() -> bool {
    size_of::<R>() > size_of::<T>() || size_of::<T>() == 1
}

/// Columns that a thread has for itself, where tiles have [`THREADS`] times as many: several short ones, all of whose
/// elements are on their way at once, where all columns lie side by side.
pub const fn columns_of_thread(lines: Lines) -> usize {
    if lines.inner == lines.count && lines.n > 0 && lines.n <= SHORT {
        MANY_ROWS / lines.n
    } else {
        1
    }
}

/// Rows of a tile of `width` columns, fewer than [`THREADS`].
pub const fn tile_rows<T, Op: ReduceOp<T>>(width: usize) -> usize {
    THREADS / width * segment_len::<T, Op>()
}

/// Scans lines of `x`, columns, into `out`, exclusively unless `exclusive` is 0.
///
/// Tiles have `width` columns, a power of two of at most [`THREADS`], and [`tile_rows`] rows, or all rows if they have
/// that many columns; the launch has a block of [`THREADS`] threads for each. Tiles of [`THREADS`] columns have all rows, and
/// are that many times [`columns_of_thread`] wide. If there are several tiles one above the
/// other, `state` has [`state_len`](super::lookback::state_len) words for a value of each column of each of them, which
/// are as [`scan`](super::lookback::scan()) wants them, or as this kernel has left them; with other contents, or fewer
/// words, the results are unspecified, or the kernel waits for ever. Where the columns are not within `out`, or
/// blocks have another number of threads, nothing is done; of columns that are not within `x` the results are unspecified.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Min, Max];
    T = [f32, f64, f16, bf16, i32, u8, u16, u32, u64],
    Op = [Sum, Product],
    max_threads = THREADS,
    min_blocks = blocks::<T, Op>(),
)]
pub fn scan_columns<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    lines: Lines,
    width: u32,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    let columns = Columns {
        x,
        out,
        lines,
        exclusive: exclusive != 0,
    };
    if !columns.fit() || hint::opaque(thread::block_dim_x()) as usize != THREADS {
        return;
    }
    if width as usize == THREADS {
        return columns.scan_whole::<Op>();
    }
    match const { segment_len::<T, Op>() } {
        32 => columns.scan::<Op, 32>(width, state),
        16 => columns.scan::<Op, 16>(width, state),
        8 => columns.scan::<Op, 8>(width, state),
        4 => columns.scan::<Op, 4>(width, state),
        2 => columns.scan::<Op, 2>(width, state),
        _ => columns.scan::<Op, 1>(width, state),
    }
}

/// The arrays of a launch, and the columns that they have.
#[derive(Clone, Copy)]
struct Columns<'a, T, R> {
    x: &'a [T],
    out: SliceMut<'a, R>,
    lines: Lines,
    exclusive: bool,
}

impl<T: Pod, R: Pod> Columns<'_, T, R> {
    /// Whether the columns are within the output, so that the place of no result wraps around. Where they are, and
    /// `inner` does not divide their number, what the last of them lack is left out.
    #[inline(always)]
    fn fit(&self) -> bool {
        let room = self.out.len();
        let is_within = |len: usize| len.checked_mul(self.lines.n).is_some_and(|elements| elements <= room);
        self.lines.count > 0 && is_within(self.lines.count) && is_within(self.lines.inner)
    }

    /// Scans the thread's columns, from their first rows to their last.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scan_whole<Op: ReduceOp<T, Output = R>>(self) {
        if columns_of_thread(self.lines) > 1 {
            return self.scan_short::<Op>();
        }
        let (column, mut row, mut acc) = (thread::index_1d(), 0, Op::identity());
        while row + MANY_ROWS <= self.lines.n {
            let Some(all) = self.scan_many_rows::<Op>(column, row, acc) else {
                break;
            };
            acc = all;
            row += MANY_ROWS;
        }
        while row < self.lines.n {
            acc = self.scan_few_rows::<Op>(column, row, acc);
            row += FEW_ROWS;
        }
    }

    /// Scans the segment of a column that begins in row `row`, and before which `before` stands; all of that combined.
    /// `None`, and nothing is done, if the column has fewer rows.
    #[inline(always)]
    fn scan_many_rows<Op: ReduceOp<T, Output = R>>(
        self,
        column: usize,
        row: usize,
        before: Op::Acc,
    ) -> Option<Op::Acc> {
        let at = self.split(column);
        let mut results = self.results::<MANY_ROWS>(column, at, row);
        let elements = self.elements::<MANY_ROWS>(column, at, row);
        if !results.is_whole() || !elements.is_whole() {
            return None;
        }
        // SAFETY: of the input, and whole, as just asked.
        let loaded = unsafe { elements.load_whole(self.x) };
        if const { places_are_late::<T, R>() } {
            let (column, row) = (opaque(column), opaque(row));
            results = self.results::<MANY_ROWS>(column, self.split(column), row);
        }
        // SAFETY: of the output, and whole, as just asked; computed once more it is the same.
        Some(unsafe { results.write_whole::<T, Op>(|k| loaded[k], before, self.exclusive, self.out) })
    }

    /// [`scan_many_rows`](Self::scan_many_rows) of fewer, or of as many as are left.
    #[inline(always)]
    fn scan_few_rows<Op: ReduceOp<T, Output = R>>(self, column: usize, row: usize, before: Op::Acc) -> Op::Acc {
        let at = self.split(column);
        let results = self.results::<FEW_ROWS>(column, at, row);
        let loaded = self.elements::<FEW_ROWS>(column, at, row).load(self.x);
        results.write::<T, Op>(|k| loaded[k], before, self.exclusive, self.out)
    }

    /// Scans the thread's columns, which have a few rows together, all of whose elements are on their way at once.
    #[inline(always)]
    fn scan_short<Op: ReduceOp<T, Output = R>>(self) {
        const { assert!(SHORT <= FEW_ROWS, "a short column is one segment") };
        let Lines { n, inner, along, .. } = self.lines;
        let wanted = columns_of_thread(self.lines);
        let first = thread::block_idx_x() as usize * THREADS * wanted + thread::thread_idx_x() as usize;
        let count = Ord::min(self.lines.count.saturating_sub(first).div_ceil(THREADS), wanted);
        // Of a column that there is not there are no elements.
        let last = first + count.saturating_sub(1) * THREADS;
        let are_within = self.elements::<FEW_ROWS>(first, (0, first), 0).len as usize == n
            && self.elements::<FEW_ROWS>(last, (0, last), 0).len as usize == n;
        if !are_within {
            return;
        }
        let mut loaded = [T::zeroed(); MANY_ROWS];
        for_each_of_short(n, n * count, self.lines.first.wrapping_add(first), along, |k, _, at| {
            // SAFETY: of a column that is within the input, as the first and the last one are.
            loaded[k] = unsafe { get_unchecked(self.x, at) };
        });
        // Opaque, so that where columns end is found once more: it would be kept in registers.
        let (mut acc, n) = (Op::identity(), opaque(n));
        for_each_of_short(n, n * count, first, inner, |k, row, at| {
            let before = if row == 0 { Op::identity() } else { acc };
            acc = Op::combine(before, Op::lift(loaded[k], row as u64));
            // With a condition, which takes less time than to ask ahead whether all are within the output.
            set_within(self.out, at, finish::<T, Op>(before, acc, row as u64, self.exclusive));
        });
    }

    /// Scans the next tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scan<Op: ReduceOp<T, Output = R>, const N: usize>(self, width: u32, state: SliceMut<'_, u64>) {
        let segments = Segments::<Op::Acc>::new(width);
        let rows = segments.count as usize * N;
        let mut states = States::<Op::Acc>::new(state);
        let block = if self.lines.n > rows {
            states.ticket(storage![u64; 1], |ticket| ticket == thread::grid_dim_x() - 1)
        } else {
            thread::block_idx_x()
        };
        let strips = Ord::max(self.lines.count.div_ceil(1 << segments.log2_width) as u32, 1);
        let (tile, strip) = (block / strips, block % strips);
        if rows == 0 || tile as usize * rows >= self.lines.n {
            return;
        }
        let column = ((strip as usize) << segments.log2_width) + segments.column as usize;
        let above = Above {
            states,
            stride: self.lines.count,
            column,
            reach: Ord::min(segments.count, Ord::max(ON_THEIR_WAY / strips, 1)),
        };
        let start = if segments.number == 0 {
            above.glance::<T, Op>(tile)
        } else {
            Total::nothing(Op::identity())
        };
        let row = |tile: u32| tile as usize * rows + segments.number as usize * N;
        let mut elements = self.elements::<N>(column, self.split(column), row(tile));
        let mut results = self.results::<N>(column, self.split(column), row(tile));
        if const { !places_are_late::<T, R>() } {
            // One number of both.
            elements.len = Ord::min(elements.len, results.len);
            results.len = elements.len;
        }
        let kept = Kept::new(elements.load(self.x));
        let total = elements.total::<T, Op>(&kept);
        let scanned = segments.scan::<T, Op>(Total {
            flag: start.flag,
            value: Op::combine(start.value, total),
        });
        let mut before = if segments.number == 0 {
            start.value
        } else {
            scanned.before.value
        };
        if self.lines.n > rows {
            let prefix = above.look_back::<T, Op>(segments, tile, scanned.total);
            before = Op::combine(prefix, before);
        }
        if const { places_are_late::<T, R>() } {
            // Opaque, so that they are found only now.
            let (column, tile) = (opaque(column), hint::opaque(tile));
            results = self.results::<N>(column, self.split(column), row(tile));
        }
        results.write::<T, Op>(|k| kept.get(k), before, self.exclusive, self.out);
    }

    /// The place of a column in front of the others that lie side by side with it, and its number among them.
    #[inline(always)]
    fn split(self, column: usize) -> (usize, usize) {
        let Lines { count, inner, .. } = self.lines;
        if inner == count {
            (0, column)
        } else {
            let inner = Ord::max(inner, 1);
            (column / inner, column % inner)
        }
    }

    /// The rows of the segment of a column that begins in row `row`: none if there is no such column or row.
    #[inline(always)]
    fn rows<const N: usize>(self, column: usize, row: usize) -> usize {
        if column < self.lines.count {
            Ord::min(self.lines.n.saturating_sub(row), N)
        } else {
            0
        }
    }

    /// The elements of the segment of a column, split, that begins in row `row`; none if they are not in the input.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn elements<const N: usize>(self, column: usize, (outer, place): (usize, usize), row: usize) -> Segment<N> {
        // Of a column or row that there is not, any number.
        let Lines { first, along, .. } = self.lines;
        let first = first
            .wrapping_add(outer.wrapping_mul(self.lines.outer))
            .wrapping_add(row.wrapping_mul(along))
            .wrapping_add(place);
        let len = self.rows::<N>(column, row);
        let is_within = self.lines.fit(first, len, self.x.len());
        Segment {
            first,
            stride: along,
            row: row as u64,
            len: if is_within { len as u32 } else { 0 },
        }
    }

    /// The results of that segment; none if they are not in the output.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn results<const N: usize>(self, column: usize, (outer, place): (usize, usize), row: usize) -> Segment<N> {
        let Lines { n, inner, .. } = self.lines;
        let first = outer.wrapping_mul(n).wrapping_add(row);
        let first = first.wrapping_mul(inner).wrapping_add(place);
        let len = self.rows::<N>(column, row);
        // With strides as long as the output at most, the last place cannot wrap around.
        let room = self.out.len();
        let last = first.saturating_add(len.saturating_sub(1) * Ord::min(inner, room));
        let is_within = inner <= room && last < room;
        Segment {
            first,
            stride: inner,
            row: row as u64,
            len: if is_within { len as u32 } else { 0 },
        }
    }
}

/// Calls `f` with the number, the row and the place of each of `len` elements, at most [`MANY_ROWS`], of columns of `n`
/// rows that a thread has one after the other, from the first one's place on; rows are `along` apart.
#[inline(always)]
fn for_each_of_short(n: usize, len: usize, first: usize, along: usize, mut f: impl FnMut(usize, usize, usize)) {
    let to_next_column = THREADS.wrapping_sub((n - 1).wrapping_mul(along));
    let (mut at, mut row) = (first, 0);
    for k in 0..MANY_ROWS {
        if k < len {
            f(k, row, at);
        }
        let is_last = row + 1 == n;
        at = at.wrapping_add(if is_last { to_next_column } else { along });
        row = if is_last { 0 } else { row + 1 };
    }
}

/// What is above a tile: the states of the tiles of its strip, of which a thread looks at those of its column.
#[derive(Clone, Copy)]
struct Above<'a, A> {
    states: States<'a, A>,
    /// The number of columns.
    stride: usize,
    column: usize,
    /// How many tiles are looked at at once.
    reach: u32,
}

impl<A: Pod> Above<'_, A> {
    /// What the thread's state of a tile says.
    #[inline(always)]
    fn state(self, tile: u32) -> (u32, A) {
        self.states.value(tile as usize * self.stride + self.column)
    }

    /// What stands before tile `tile`, if that is known already.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn glance<T, Op: ReduceOp<T, Acc = A>>(self, tile: u32) -> Total<A> {
        if tile == 0 || self.column >= self.stride {
            return Total {
                flag: PREFIX,
                value: Op::identity(),
            };
        }
        match self.state(tile - 1) {
            (PREFIX, value) => Total { flag: PREFIX, value },
            _ => Total::nothing(Op::identity()),
        }
    }

    /// Publishes the total of tile `tile`, and finds what stands before it and is not in that total. Called by all
    /// threads of the block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn look_back<T, Op: ReduceOp<T, Acc = A>>(self, segments: Segments<A>, tile: u32, total: Total<A>) -> A {
        let publishes = segments.number == 0 && self.column < self.stride;
        let own = tile as usize * self.stride + self.column;
        if publishes {
            self.states.publish(own, total.flag, total.value);
        }
        let (mut prefix, mut end, mut flag) = (Op::identity(), tile, total.flag);
        while thread::sync_threads_or(flag != PREFIX) {
            // The last segments look at the nearest tiles.
            let back = segments.count - segments.number;
            let seen = if flag == PREFIX || back > self.reach {
                Total::nothing(Op::identity())
            } else {
                self.wait::<T, Op>(end, back)
            };
            let window = segments.scan::<T, Op>(seen).total;
            if flag != PREFIX {
                prefix = Op::combine(window.value, prefix);
                flag = window.flag;
                end = end.saturating_sub(self.reach);
            }
        }
        if publishes && total.flag != PREFIX {
            self.states.publish(own, PREFIX, Op::combine(prefix, total.value));
        }
        prefix
    }

    /// The state of tile `end - back`, once it is valid; above the first tile all is known, and nothing.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn wait<T, Op: ReduceOp<T, Acc = A>>(self, end: u32, back: u32) -> Total<A> {
        if end < back {
            return Total {
                flag: PREFIX,
                value: Op::identity(),
            };
        }
        loop {
            let (flag, value) = self.state(end - back);
            if flag != INVALID {
                return Total { flag, value };
            }
            thread::nanosleep(PAUSE);
        }
    }
}
