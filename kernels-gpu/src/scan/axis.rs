// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along an axis of an array in C order, seen as `(outer, n, inner)`: `n` elements are combined, `inner` apart. Of a
//! view that is read where it lies, the distances of the elements are others ([`Lines`]).
//!
//! * `inner = 1`: rows. [`scan_rows`](fn@scan_rows) gives each a warp, which goes along it tile by tile and carries the
//!   total; or a stretch of several short ones, along which it goes in the same way, the total carried up to where a row
//!   begins (`segmented`), so that all lanes have elements, which are loaded and stored by vectors. A row longer than a block's tile is scanned by
//!   [`lookback::scan`](fn@super::lookback::scan), many blocks a row.
//! * `inner > 1`: columns, by [`scan_columns`](fn@super::scan_columns).

use bytemuck::Pod;
use cuda_block::thread::fold;
use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::segmented::{self, Heads, Vector};
use super::{Lines, Row, THREADS, at, has_vectors, load, store, vec_len, vectors, warp_tile_len};
use crate::op::{Max, Min, Product, ReduceOp, Sum};

/// Blocks that ptxas makes room for on a multiprocessor.
pub const BLOCKS: usize = 3;

/// Scans lines of `x` whose elements lie side by side, rows, into `out`, exclusively unless `exclusive` is 0. Of the lines
/// neither `inner` nor `along` is asked.
///
/// The launch has a warp for each `rows` rows, of which there is one at least, in blocks of [`THREADS`] threads. A warp that
/// has several, of at most 2^28 elements each, goes along them as one stretch, so they lie one behind the other, whatever
/// `outer` says. With other blocks, or if the rows together have more elements than can be counted, nothing is done; nor with rows that are not
/// within `x`.
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
    rows: u32,
    exclusive: u32,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    // One number after the other, as `scan` does, so that only what is for both is compiled.
    match const { vec_len::<T, Op>() } {
        1 => by_vectors::<T, Op, 1>(x, lines, rows, exclusive, out),
        2 => by_vectors::<T, Op, 2>(x, lines, rows, exclusive, out),
        4 => by_vectors::<T, Op, 4>(x, lines, rows, exclusive, out),
        _ => warp_rows::<T, Op, 8, 2>(x, lines, rows, exclusive, out),
    }
}

/// [`scan_rows()`] by vectors of `V` elements.
#[inline(always)]
fn by_vectors<T: Pod, Op: ReduceOp<T>, const V: usize>(
    x: &[T],
    lines: Lines,
    rows: u32,
    exclusive: u32,
    out: SliceMut<'_, Op::Output>,
) {
    match const { vectors::<T, Op>() } {
        6 => warp_rows::<T, Op, V, 6>(x, lines, rows, exclusive, out),
        _ => warp_rows::<T, Op, V, 4>(x, lines, rows, exclusive, out),
    }
}

#[inline(always)]
fn warp_rows<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    lines: Lines,
    rows: u32,
    exclusive: u32,
    out: SliceMut<'_, Op::Output>,
) {
    if rows > 1 {
        stretch::<T, Op, V, U>(x, lines, rows as usize, exclusive, out);
    } else {
        one_row::<T, Op, V, U>(x, lines, exclusive, out);
    }
}

/// Scans a row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn one_row<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
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

/// Scans `rows` rows, or what is left of them, that lie one behind the other, with more instructions for each element.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn stretch<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    lines: Lines,
    rows: usize,
    exclusive: u32,
    out: SliceMut<'_, Op::Output>,
) {
    let Lines { count, n, first, .. } = lines;
    let first_row = (thread::index_1d() / 32).saturating_mul(rows);
    let is_countable = count.checked_mul(n).is_some();
    if first_row >= count || !is_countable || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let (lo, len) = (first_row * n, Ord::min(rows, count - first_row) * n);
    let row = Row {
        lo,
        hi: Ord::min(lo + len, out.len()),
        vectors: has_vectors::<T, Op::Output>()
            && out.is_vec_aligned::<V>()
            && x.is_vec_aligned::<V>()
            && first.is_multiple_of(V),
    };
    let from = lo.wrapping_add(first);
    if from > x.len() || len > x.len() - from {
        return;
    }
    let mut carry = Op::identity();
    let mut start = row.first::<V>();
    let mut heads = Heads::new::<V>(n, lo - start);
    while start < row.hi {
        let loaded = load_stretch::<T, V, U>(x, row, start, start.wrapping_add(first));
        let tile = heads;
        let vectors: [Vector<Op::Acc, V>; U] = cuda_std::array::from_fn(|u| {
            let (heads, column) = heads.next::<V>();
            Vector::lift::<T, Op>(loaded[u], heads, column)
        });
        let before;
        (before, carry) = segmented::scan::<T, Op, V, U>(&vectors, carry);
        let window = row.window(start, 32 * V * U);
        let mut again = tile.again();
        for u in 0..U {
            let results = vectors[u]
                .with_heads(again.next::<V>())
                .results::<T, Op>(before[u], exclusive != 0);
            window.store(out, start, at::<V>(u), results);
        }
        start += warp_tile_len::<T, Op>();
    }
}

/// This lane's vectors of the tile at `start`, which is at `from` of the input. All those are loaded that have an element of
/// the rows; of what else is in them, nothing is made.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn load_stretch<T: Pod, const V: usize, const U: usize>(x: &[T], row: Row, start: usize, from: usize) -> [[T; V]; U] {
    let window = row.window(start, 32 * V * U);
    let last = window.hi.wrapping_sub(1) as usize & !(V - 1);
    if window.vectors && last + V <= x.len() - from {
        // All loads without a branch between them, so that all are in flight at once: for what is behind the last vector,
        // that one.
        // SAFETY: the last vector is within the input, and aligned, as those before are, of which the first begins there.
        return cuda_std::array::from_fn(|u| unsafe {
            x.load_vec_unchecked::<V>(from + Ord::min(at::<V>(u) as usize, last))
        });
    }
    cuda_std::array::from_fn(|u| window.load(x, from, at::<V>(u)))
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
