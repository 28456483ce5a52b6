// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along an axis of an array in C order, seen as `(outer, n, inner)`: `n` elements are combined, `inner` apart. Of a
//! view that is read where it lies, the distances of the elements are others ([`Lines`]).
//!
//! * `inner = 1`: rows. [`scan_rows`](fn@scan_rows) gives a warp one, or a stretch of several short ones, along which it goes
//!   tile by tile and carries the total up to where a row begins (`segmented`): whatever the length of rows, all lanes have
//!   elements, which are loaded and stored by vectors. A row longer than a block's tile is scanned by
//!   [`lookback::scan`](fn@super::lookback::scan), many blocks a row.
//! * `inner > 1`: columns, by [`scan_columns`](fn@super::scan_columns).

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::segmented::{self, Heads, Vector};
use super::{Lines, Row, THREADS, at, has_vectors, index_in_row, vec_len, vectors, warp_tile_len};
use crate::op::{Max, Min, Product, ReduceOp, Sum};

/// Blocks that ptxas makes room for on a multiprocessor.
pub const BLOCKS: usize = 3;

/// Scans lines of `x` whose elements lie side by side, rows, into `out`, exclusively unless `exclusive` is 0. Of the lines
/// neither `inner` nor `along` is asked.
///
/// The launch has a warp for each `rows` rows, in blocks of [`THREADS`] threads. A warp that has several, of at most 2^28
/// elements each, goes along them as one stretch, so they lie one behind the other, whatever `outer` says. With other
/// blocks, or if the rows together have more elements than can be counted, nothing is done; nor with rows that are not
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

#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn warp_rows<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    lines: Lines,
    rows: u32,
    exclusive: u32,
    out: SliceMut<'_, Op::Output>,
) {
    let Lines { count, n, .. } = lines;
    let first_row = (thread::index_1d() / 32).saturating_mul(rows as usize);
    let is_countable = count.checked_mul(n).is_some();
    if first_row >= count || !is_countable || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let rows = Ord::min(rows as usize, count - first_row);
    let lo = first_row * n;
    let stretch = Row {
        lo,
        hi: Ord::min(lo + rows * n, out.len()),
        vectors: has_vectors::<T, Op::Output>() && out.is_vec_aligned::<V>(),
    };
    let first = lo.wrapping_add(shift(lines, rows));
    if first > x.len() || rows * n > x.len() - first {
        return;
    }
    let is_dense = rows > 1 || lines.outer == n;
    let mut carry = Op::identity();
    let mut start = stretch.first::<V>();
    let mut heads = Heads::new::<V>(n, lo - start);
    while start < stretch.hi {
        // Computed anew for each tile: the registers are for its elements.
        let shift = shift(lines, rows);
        let input = Row {
            vectors: stretch.vectors && x.is_vec_aligned::<V>() && shift.is_multiple_of(V),
            ..stretch
        };
        let loaded = load::<T, V, U>(x, input, is_dense, start, start.wrapping_add(shift));
        let vectors: [Vector<Op::Acc, V>; U] = cuda_std::array::from_fn(|u| {
            let (heads, column) = heads.next::<V>();
            let index = if rows == 1 {
                index_in_row(stretch, start, at::<V>(u))
            } else {
                column
            };
            Vector::lift::<T, Op>(loaded[u], heads, index)
        });
        let begins: [u32; U] = cuda_std::array::from_fn(|u| warp::ballot(warp::FULL_MASK, vectors[u].has_head()));
        let totals: [Op::Acc; U] = cuda_std::array::from_fn(|u| vectors[u].total::<T, Op>());
        let (before, all) = Op::scan_segments(totals, begins);
        let window = stretch.window(start, 32 * V * U);
        let mut has_begun = false;
        for u in 0..U {
            let is_behind = has_begun || segmented::has_begun(begins[u]);
            let before = if is_behind {
                before[u]
            } else {
                Op::combine(carry, before[u])
            };
            has_begun |= begins[u] != 0;
            let results = vectors[u].results::<T, Op>(before, exclusive != 0);
            window.store(out, start, at::<V>(u), results);
        }
        carry = if has_begun { all } else { Op::combine(carry, all) };
        start += warp_tile_len::<T, Op>();
        if rows == 1 {
            heads.has_no_more();
        }
    }
}

/// This lane's vectors of the tile at `start`, which is at `from` of the input. Of those that lie side by side with others
/// of their array, as in a dense one, all vectors are loaded that have an element of the stretch; what else is in them is
/// not asked for.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn load<T: Pod, const V: usize, const U: usize>(
    x: &[T],
    stretch: Row,
    is_dense: bool,
    start: usize,
    from: usize,
) -> [[T; V]; U] {
    let window = stretch.window(start, 32 * V * U);
    let last = window.hi.wrapping_sub(1) as usize & !(V - 1);
    let has_room = is_dense && window.vectors && last + V <= x.len() - from;
    if window.whole || has_room {
        // All loads without a branch between them, so that all are in flight at once: for what is behind the last vector,
        // that one.
        // SAFETY: the last vector is within the input, and aligned, as those before are, of which the first begins there.
        return cuda_std::array::from_fn(|u| unsafe {
            x.load_vec_unchecked::<V>(from + Ord::min(at::<V>(u) as usize, last))
        });
    }
    cuda_std::array::from_fn(|u| window.load(x, from, at::<V>(u)))
}

/// From the places of the results of this warp's rows to those of their elements.
#[inline(always)]
fn shift(lines: Lines, rows: usize) -> usize {
    if rows > 1 {
        return lines.first;
    }
    let warps = THREADS / 32;
    let block = hint::pinned(thread::block_idx_x()) as usize;
    let row = block * warps + thread::thread_idx_x() as usize / 32;
    lines
        .first
        .wrapping_add(row.wrapping_mul(lines.outer.wrapping_sub(lines.n)))
}
