// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along an axis of an array in C order, seen as `(outer, n, inner)`: `n` elements are combined, `inner` apart.
//!
//! * `inner = 1`: rows. [`scan_rows`](fn@scan_rows) gives each a warp, which goes along it tile by tile and carries the
//!   total. A row longer than a block's tile is scanned by [`lookback::scan`](fn@super::lookback::scan), many blocks a
//!   row.
//! * `inner > 1`: columns. [`scan_columns`](fn@scan_columns) gives each a thread; neighbouring threads have
//!   neighbouring columns, so that the warp's accesses are contiguous. Where the columns are too few to fill the
//!   device, they are cut into parts, a thread for each, which find what stands before them by looking back, as the
//!   tiles of [`lookback`](super::lookback) do: then every element is read twice.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::lookback::states::States;
use super::{Row, THREADS, get_unchecked, load, set_within, store, total, vec_len, warp_tile_len};
use crate::op::{Max, Min, Product, ReduceOp, Sum};

/// Blocks that ptxas makes room for on a multiprocessor.
pub const BLOCKS: usize = 3;

/// Elements of a column that a thread has in flight.
const BATCH: usize = 4;

/// The fewest elements of a part of a column: with fewer, the parts' states would weigh against the elements.
pub const MIN_PART: usize = 64;

/// Scans each of the `rows` rows of `n` elements of `x` into `out`, exclusively unless `exclusive` is 0.
///
/// The launch has a warp for each row.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Sum, Product, Min, Max],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn scan_rows<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    rows: usize,
    n: usize,
    exclusive: u32,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    match const { vec_len::<T, Op>() } {
        1 => warp_rows::<T, Op, 1, 4>(x, rows, n, exclusive, out),
        2 => warp_rows::<T, Op, 2, 4>(x, rows, n, exclusive, out),
        4 => warp_rows::<T, Op, 4, 4>(x, rows, n, exclusive, out),
        _ => warp_rows::<T, Op, 8, 2>(x, rows, n, exclusive, out),
    }
}

#[inline(always)]
fn warp_rows<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    rows: usize,
    n: usize,
    exclusive: u32,
    out: SliceMut<'_, Op::Output>,
) {
    let number = thread::index_1d() / 32;
    if number >= rows {
        return;
    }
    let row = Row::new::<T, Op::Output, V>(number, n, x, out);
    let mut carry = Op::identity();
    let mut start = row.first::<V>();
    while start < row.hi {
        let values = load::<T, Op, V, U>(x, row, start);
        let totals = values.map(|values| total(values, Op::combine));
        let (before, all) = Op::scan_warp(totals);
        let before = core::array::from_fn(|u| Op::combine(carry, before[u]));
        store::<T, Op, V, U>(out, row, start, before, &values, exclusive != 0);
        carry = Op::combine(carry, all);
        start += warp_tile_len::<T, Op>();
    }
}

/// Scans the `columns` columns of `x`, seen as `(outer, n, inner)` with `columns = outer · inner`, into `out`,
/// exclusively unless `exclusive` is 0.
///
/// The columns are cut into `parts` parts of `part` elements, the last perhaps of fewer, and the launch has a thread
/// for each part of each column. With more than one part, `state` has [`state_len`](super::lookback::state_len) words
/// for `columns · parts` tiles, which are as [`scan`](super::lookback::scan()) wants them, or as this kernel has left
/// them; with other contents, or fewer words, the results are unspecified, or the kernel waits for ever.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Sum, Product, Min, Max],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn scan_columns<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    columns: usize,
    n: usize,
    inner: usize,
    part: usize,
    parts: usize,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    let mut states = States::<Op::Acc>::new(state);
    let block = if parts > 1 {
        states.ticket(thread::grid_dim_x() - 1)
    } else {
        thread::block_idx_x()
    };
    let i = block as usize * thread::block_dim_x() as usize + thread::thread_idx_x() as usize;
    if i >= columns * parts {
        return;
    }
    // The parts of a column are `columns` threads apart, later ones behind earlier ones, for which they wait.
    let (number, column) = if parts > 1 {
        (i / Ord::max(columns, 1), i % Ord::max(columns, 1))
    } else {
        (0, i)
    };
    let (outer, place) = if inner == 1 {
        (column, 0)
    } else {
        (column / Ord::max(inner, 1), column % Ord::max(inner, 1))
    };
    let start = number * part;
    let part = Part {
        base: (outer * n + start) * inner + place,
        stride: inner,
        start: start as u64,
        len: if start < n { Ord::min(part, n - start) } else { 0 },
    };
    let last = if part.len == 0 {
        0
    } else {
        part.base + (part.len - 1) * inner
    };
    if last >= x.len() {
        return;
    }
    let before = if parts > 1 {
        let total = part.scan::<T, Op, false>(x, Op::identity(), false, out);
        states.prefix_of_part::<T, Op>(i, columns, total)
    } else {
        Op::identity()
    };
    part.scan::<T, Op, true>(x, before, exclusive != 0, out);
}

/// `len` elements, `stride` apart, the first of them at `base`, and number `start` of its column.
///
/// Whoever makes one has made sure that the last of them is within the input.
#[derive(Clone, Copy)]
struct Part {
    base: usize,
    stride: usize,
    start: u64,
    len: usize,
}

impl Part {
    /// Combines the elements to `acc`, and writes the scan if `WRITE`.
    #[inline(always)]
    fn scan<T: Pod, Op: ReduceOp<T>, const WRITE: bool>(
        self,
        x: &[T],
        mut acc: Op::Acc,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) -> Op::Acc {
        let (mut at, mut i) = (self.base, 0);
        while i + BATCH <= self.len {
            acc = self.batch::<T, Op, WRITE, BATCH>(x, (at, i), acc, exclusive, out);
            at += BATCH * self.stride;
            i += BATCH;
        }
        while i < self.len {
            acc = self.batch::<T, Op, WRITE, 1>(x, (at, i), acc, exclusive, out);
            at += self.stride;
            i += 1;
        }
        acc
    }

    /// The same for elements `i .. i + N` of the part, which it has, the first of them at `at`: loads them all, then
    /// combines and writes.
    #[inline(always)]
    fn batch<T: Pod, Op: ReduceOp<T>, const WRITE: bool, const N: usize>(
        self,
        x: &[T],
        (at, i): (usize, usize),
        mut acc: Op::Acc,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) -> Op::Acc {
        // SAFETY: within the part, whose last element is within the input.
        let loaded: [T; N] = core::array::from_fn(|k| unsafe { get_unchecked(x, at + k * self.stride) });
        for k in 0..N {
            let (index, before) = (self.start + (i + k) as u64, acc);
            acc = Op::combine(acc, Op::lift(loaded[k], index));
            if WRITE {
                let result = if exclusive {
                    Op::finish(before, index)
                } else {
                    Op::finish(acc, index + 1)
                };
                set_within(out, at + k * self.stride, result);
            }
        }
        acc
    }
}
