// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along an axis of an array in C order, seen as `(outer, n, inner)`: `n` elements are combined, `inner` apart. Of a
//! view that is read where it lies, the distances of the elements are others ([`Lines`]).
//!
//! * `inner = 1`: rows. [`scan_rows`](fn@scan_rows) gives each a warp, which goes along it tile by tile and carries the
//!   total. A row longer than a block's tile is scanned by [`lookback::scan`](fn@super::lookback::scan), many blocks a
//!   row.
//! * `inner > 1`: columns, by [`scan_columns`](fn@super::scan_columns).

use bytemuck::Pod;
use cuda_block::thread::fold;
use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::{Lines, Row, THREADS, has_vectors, load, store, vec_len, vectors, warp_tile_len};
use crate::op::{Max, Min, Product, ReduceOp, Sum};

/// Blocks that ptxas makes room for on a multiprocessor.
pub const BLOCKS: usize = 3;

/// Scans lines of `x` whose elements lie side by side, rows, into `out`, exclusively unless `exclusive` is 0. Of the lines
/// neither `inner` nor `along` is asked.
///
/// The launch has a warp for each row, in blocks of [`THREADS`] threads. With others, or if the rows together have more
/// elements than can be counted, nothing is done; nor with a row that is not within `x`.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Min, Max];
    T = [f32, f64, f16, bf16, i32, u8, u16, u32, u64],
    Op = [Sum, Product],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn scan_rows<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    lines: Lines,
    exclusive: u32,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    // One number after the other, as `scan` does, so that only what is for both is compiled.
    match const { vec_len::<T, Op>() } {
        1 => by_vectors::<T, Op, 1>(x, lines, exclusive, out),
        2 => by_vectors::<T, Op, 2>(x, lines, exclusive, out),
        4 => by_vectors::<T, Op, 4>(x, lines, exclusive, out),
        _ => warp_rows::<T, Op, 8, 2>(x, lines, exclusive, out),
    }
}

/// [`scan_rows()`] by vectors of `V` elements.
#[inline(always)]
fn by_vectors<T: Pod, Op: ReduceOp<T>, const V: usize>(
    x: &[T],
    lines: Lines,
    exclusive: u32,
    out: SliceMut<'_, Op::Output>,
) {
    match const { vectors::<T, Op>() } {
        6 => warp_rows::<T, Op, V, 6>(x, lines, exclusive, out),
        _ => warp_rows::<T, Op, V, 4>(x, lines, exclusive, out),
    }
}

#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn warp_rows<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    lines: Lines,
    exclusive: u32,
    out: SliceMut<'_, Op::Output>,
) {
    let (number, n) = (thread::index_1d() / 32, lines.n);
    let is_countable = lines.count.checked_mul(n).is_some();
    if number >= lines.count || !is_countable || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let lo = number * n;
    let row = Row {
        lo,
        hi: Ord::min(lo + n, out.len()),
        vectors: has_vectors::<T, Op::Output>() && out.is_vec_aligned::<V>(),
    };
    let first = lo.wrapping_add(shift(lines));
    if first > x.len() || n > x.len() - first {
        return;
    }
    let mut carry = Op::identity();
    let mut start = row.first::<V>();
    while start < row.hi {
        // Computed anew for each tile: the registers are for its elements.
        let shift = shift(lines);
        let input = Row {
            vectors: row.vectors && x.is_vec_aligned::<V>() && shift.is_multiple_of(V),
            ..row
        };
        let values = load::<T, Op, V, U>(x, input, start, start.wrapping_add(shift));
        let totals = cuda_std::array::map(values, |values| fold(values, Op::combine));
        let (before, all) = Op::scan_warp(totals);
        let before = cuda_std::array::from_fn(|u| Op::combine(carry, before[u]));
        store::<T, Op, V, U>(out, row, start, before, &values, exclusive != 0);
        carry = Op::combine(carry, all);
        start += warp_tile_len::<T, Op>();
    }
}

/// From the places of the results of this warp's row to those of its elements.
#[inline(always)]
fn shift(lines: Lines) -> usize {
    let warps = THREADS / 32;
    let block = hint::pinned(thread::block_idx_x()) as usize;
    let row = block * warps + thread::thread_idx_x() as usize / 32;
    lines
        .first
        .wrapping_add(row.wrapping_mul(lines.outer.wrapping_sub(lines.n)))
}
