// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along an axis of an array in C order, seen as `(outer, n, inner)`: `n` elements are combined, `inner` apart.
//!
//! * `inner = 1`: rows. [`scan_rows`](fn@scan_rows) gives each a warp, which goes along it tile by tile and carries the
//!   total. A row longer than a block's tile is scanned by [`lookback::scan`](fn@super::lookback::scan), many blocks a
//!   row.
//! * `inner > 1`: columns, by [`scan_columns`](fn@super::scan_columns).

use bytemuck::Pod;
use cuda_block::thread::fold;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::{Row, THREADS, load, store, vec_len, vectors, warp_tile_len};
use crate::op::{Max, Min, Product, ReduceOp, Sum};

/// Blocks that ptxas makes room for on a multiprocessor.
pub const BLOCKS: usize = 3;

/// Scans each of the `rows` rows of `n` elements of `x` into `out`, exclusively unless `exclusive` is 0.
///
/// The launch has a warp for each row, in blocks of [`THREADS`] threads. With others, or if the rows together have more
/// elements than can be counted, nothing is done.
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
    rows: usize,
    n: usize,
    exclusive: u32,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    match const { (vec_len::<T, Op>(), vectors::<T, Op>()) } {
        (1, 6) => warp_rows::<T, Op, 1, 6>(x, rows, n, exclusive, out),
        (1, _) => warp_rows::<T, Op, 1, 4>(x, rows, n, exclusive, out),
        (2, 6) => warp_rows::<T, Op, 2, 6>(x, rows, n, exclusive, out),
        (2, _) => warp_rows::<T, Op, 2, 4>(x, rows, n, exclusive, out),
        (4, 6) => warp_rows::<T, Op, 4, 6>(x, rows, n, exclusive, out),
        (4, _) => warp_rows::<T, Op, 4, 4>(x, rows, n, exclusive, out),
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
    let is_countable = rows.checked_mul(n).is_some();
    if number >= rows || !is_countable || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let row = Row::new::<T, Op::Output, V>(number, n, x, out);
    let mut carry = Op::identity();
    let mut start = row.first::<V>();
    while start < row.hi {
        let values = load::<T, Op, V, U>(x, row, start);
        let totals = values.map(|values| fold(values, Op::combine));
        let (before, all) = Op::scan_warp(totals);
        let before = cuda_std::array::from_fn(|u| Op::combine(carry, before[u]));
        store::<T, Op, V, U>(out, row, start, before, &values, exclusive != 0);
        carry = Op::combine(carry, all);
        start += warp_tile_len::<T, Op>();
    }
}
