// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times vector: `y ← α A x + β y`, where `A` is m × k. Numbers of 16 bits are summed in f32, and the result is
//! rounded once.
//!
//! Every element of `A` is read once, which is all that the time depends on. Where the rows are contiguous, a warp sums
//! a row, 16 bytes a lane and access, and folds its lanes by shuffles ([`gemv_rows()`]). Where the columns are, a lane
//! has a row (of 16 bits four, which it reads at once), neighbouring lanes neighbouring rows, and the eight warps of a
//! block share the columns between them ([`gemv_columns()`]). A matrix of few rows has too few of these: its rows are cut into chunks, whose sums
//! [`gemv_combine()`] adds up.
//!
//! Work `2 m k`, span `k / (32 c)` and the folds, where a lane has `c` chains; bytes: `A` once. The order of summation
//! depends only on shape and strides, so floats give the same bits on every run and every device. Error of an element
//! of `A x`: at most `k u Σ|a||x|` to first order, as for any order of summation (N. Higham, "Accuracy and Stability of
//! Numerical Algorithms", 3.1).

use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::{MulAdd, scaled, span};
use crate::num::Num;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Sums of rows, or of chunks of them, that a block of [`gemv_rows()`] and [`gemv_combine()`] computes: one a warp.
pub const ROWS: usize = THREADS / 32;

/// Rows of a block of [`gemv_columns()`], of elements of so many bytes.
pub const fn rows_of_block(bytes: usize) -> usize {
    32 * rows_of_lane(bytes)
}

/// Rows of a lane of it: with one of 16 bits, too few bytes were on their way.
const fn rows_of_lane(bytes: usize) -> usize {
    if bytes == 2 { 4 } else { 1 }
}

/// Blocks that a multiprocessor holds at a time, so that ptxas need not spill registers to make room for more.
pub const BLOCKS: usize = 3;

/// Accesses that a thread has in flight, each summed in a chain of its own.
const UNROLL: usize = 4;

/// The longest row, of operands that are repeated too: so a sum of places in a row does not overflow.
const LONGEST: usize = 1 << 48;

/// The shape of a product, where the elements of its operands lie, and how the rows are cut.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct GemvShape {
    /// Rows of `A`.
    pub m: usize,
    /// Columns of `A`.
    pub k: usize,
    /// `A`'s strides in elements: along m, along k.
    pub a: [usize; 2],
    /// The stride of `x` in elements.
    pub x: usize,
    /// Chunks that a row is cut into, at least one.
    pub chunks: usize,
    /// Elements of a chunk; the last one may have fewer, and there may be some without any.
    pub chunk: usize,
}

impl GemvShape {
    /// Whether the operands lie within arrays of these lengths, and the sums of all chunks are no more than `y`.
    #[inline(always)]
    fn fits(&self, a: usize, x: usize, y: usize) -> bool {
        let within = |span: Option<usize>, len| span.is_some_and(|span| span <= len);
        self.k <= LONGEST
            && within(span([self.m, self.k], self.a), a)
            && within(span([self.k], [self.x]), x)
            && within(self.m.checked_mul(self.chunks), y)
    }

    /// The elements of chunk `chunk`, from the first to behind the last.
    #[inline(always)]
    fn chunk(&self, chunk: usize) -> (usize, usize) {
        let start = Ord::min(chunk.saturating_mul(self.chunk), self.k);
        (start, Ord::min(start.saturating_add(self.chunk), self.k))
    }
}

/// `y[i] ← alpha · sum + beta · y[i]`; where `beta` is 0, `y` is not read.
///
/// # Safety
///
/// `i` is less than the length.
#[inline(always)]
unsafe fn set<Y: Num<Wide: MulAdd>>(y: SliceMut<'_, Y>, i: usize, sum: Y::Wide, alpha: Y::Wide, beta: Y::Wide) {
    let old = (beta != Y::Wide::ZERO).then(|| {
        // SAFETY: the same memory, which is written only through `y`; in bounds by the caller's promise.
        let [old] = unsafe { Slice::from_raw_parts(y.as_ptr(), y.len()).get_vec_unchecked::<1>(i) };
        (beta, old.widen())
    });
    // SAFETY: the caller's promise; a vector of one is aligned like its element.
    unsafe { y.set_vec_unchecked(i, [Y::narrow(scaled(alpha, sum, old))]) };
}

/// Chunk `c` of row `r` of `A`, times `x`, is sum number `r · chunks + c`, by a warp: `y ← alpha · sums + beta · y`.
///
/// For rows that are contiguous, or nearly so; any strides are right. Blocks have [`THREADS`] threads and [`ROWS`] sums
/// each. Where the operands do not lie within their arrays, nothing is written.
#[kernel(
    T = [f32], Y = [f32];
    T = [f64], Y = [f64];
    T = [i32], Y = [i32];
    T = [f16], Y = [f16, f32];
    T = [bf16], Y = [bf16, f32],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn gemv_rows<T: Num<Wide: MulAdd>, Y: Num<Wide = T::Wide>>(
    a: &[T],
    x: &[T],
    y: SliceMut<'_, Y>,
    shape: GemvShape,
    alpha: <T as Num>::Wide,
    beta: <T as Num>::Wide,
) {
    let item = warp_number();
    if thread::block_dim_x() as usize != THREADS
        || shape.chunks == 0
        || item >= shape.m.saturating_mul(shape.chunks)
        || !shape.fits(a.len(), x.len(), y.len())
    {
        return;
    }
    let (row, chunk) = (item / shape.chunks, item % shape.chunks);
    let range = shape.chunk(chunk);
    // Of rows without elements, strides can be any.
    let (first, strides) = (row.wrapping_mul(shape.a[0]), [shape.a[1], shape.x]);
    // SAFETY (of all): the row's elements up to `shape.k` lie in `a` and those of `x` in `x`, as `fits` found. For
    // vectors, elements lie side by side, and their places are multiples of the vector's length.
    let sum = match const { size_of::<T>() } {
        8 if shape.is_wide::<T, 2>(a, x) => unsafe { share::<T, 2, UNROLL>(a, x, first, [1, 1], range) },
        4 if shape.is_wide::<T, 4>(a, x) => unsafe { share::<T, 4, UNROLL>(a, x, first, [1, 1], range) },
        2 if shape.is_wide::<T, 8>(a, x) => unsafe { share::<T, 8, 2>(a, x, first, [1, 1], range) },
        _ => unsafe { share::<T, 1, UNROLL>(a, x, first, strides, range) },
    };
    let sum = warp::all_reduce(sum, Num::add);
    if warp::lane_id() == 0 {
        // SAFETY: `fits` found `y` to have all sums.
        unsafe { set(y, item, sum, alpha, beta) };
    }
}

impl GemvShape {
    /// Whether all rows, and `x`, can be read in vectors of `V` from the start of a chunk on.
    #[inline(always)]
    fn is_wide<T: Num, const V: usize>(&self, a: &[T], x: &[T]) -> bool {
        self.a[1] == 1
            && self.x == 1
            && (self.a[0].is_multiple_of(V) || self.m == 1)
            && self.chunk.is_multiple_of(V)
            && a.is_vec_aligned::<V>()
            && x.is_vec_aligned::<V>()
    }
}

/// The number of this thread's warp in the grid.
#[inline(always)]
fn warp_number() -> usize {
    thread::block_idx_x() as usize * (thread::block_dim_x() as usize / 32) + thread::thread_idx_x() as usize / 32
}

/// This lane's share of the products of `a` from element `first` on and `x`, from `start` to `end`: vectors of `V`, in
/// `U` chains for each of its elements, and what remains one by one.
///
/// # Safety
///
/// Element `first + i · strides[0]` is in `a` and `i · strides[1]` in `x` for each `i` of the range; if `V` is not 1,
/// both strides are 1, both arrays are aligned to vectors of `V`, and `first` and `start` are multiples of it.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn share<T: Num<Wide: MulAdd>, const V: usize, const U: usize>(
    a: &[T],
    x: &[T],
    first: usize,
    strides: [usize; 2],
    (start, end): (usize, usize),
) -> T::Wide {
    let lane = warp::lane_id() as usize;
    let tile = 32 * V * U;
    let mut chains = [[T::Wide::ZERO; V]; U];
    let mut tile_start = start;
    while end - tile_start >= tile {
        let at = |u: usize| tile_start + (u * 32 + lane) * V;
        // SAFETY (of both): the tile is within the range.
        let row: [[T; V]; U] =
            cuda_std::array::from_fn(|u| unsafe { a.load_vec_unchecked(first + at(u) * strides[0]) });
        let vector: [[T; V]; U] = cuda_std::array::from_fn(|u| unsafe { x.load_vec_unchecked(at(u) * strides[1]) });
        chains = cuda_std::array::from_fn(|u| {
            cuda_std::array::from_fn(|v| row[u][v].widen().mul_add(vector[u][v].widen(), chains[u][v]))
        });
        tile_start += tile;
    }
    let sums: [T::Wide; V] = cuda_std::array::from_fn(|v| pairwise::<_, U>(cuda_std::array::from_fn(|u| chains[u][v])));
    let mut sum = sums[0];
    for v in 1..V {
        sum = sum.add(sums[v]);
    }
    let mut i = tile_start + lane;
    while i < end {
        // SAFETY (of both): `i` is in the range.
        let [element] = unsafe { a.load_vec_unchecked::<1>(first + i * strides[0]) };
        let [factor] = unsafe { x.load_vec_unchecked::<1>(i * strides[1]) };
        sum = element.widen().mul_add(factor.widen(), sum);
        i += 32;
    }
    sum
}

/// The sum of two or four chains, as a tree.
#[inline(always)]
fn pairwise<T: Num, const U: usize>(chains: [T; U]) -> T {
    const { assert!(U == 2 || U == 4) };
    let first = chains[0].add(chains[1]);
    if U == 2 {
        first
    } else {
        first.add(chains[2].add(chains[3]))
    }
}

/// The same sums as [`gemv_rows()`], for columns that are contiguous, or nearly so; any strides are right.
///
/// A block has [`THREADS`] threads and one chunk of [`rows_of_block`] rows: block `b` has chunk `b % chunks` of the rows of
/// number `b / chunks`. Where the operands do not lie within their arrays, nothing is written.
#[kernel(
    T = [f32], Y = [f32];
    T = [f64], Y = [f64];
    T = [i32], Y = [i32];
    T = [f16], Y = [f16, f32];
    T = [bf16], Y = [bf16, f32],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn gemv_columns<T: Num<Wide: MulAdd>, Y: Num<Wide = T::Wide>>(
    a: &[T],
    x: &[T],
    y: SliceMut<'_, Y>,
    shape: GemvShape,
    alpha: <T as Num>::Wide,
    beta: <T as Num>::Wide,
) {
    if thread::block_dim_x() as usize != THREADS || shape.chunks == 0 || !shape.fits(a.len(), x.len(), y.len()) {
        return;
    }
    match const { rows_of_lane(size_of::<T>()) } {
        4 => columns::<T, Y, 4>(shared_array![u64; 2 * THREADS].cast(), a, x, y, &shape, alpha, beta),
        _ => columns::<T, Y, 1>(shared_array![u64; THREADS].cast(), a, x, y, &shape, alpha, beta),
    }
}

/// [`gemv_columns()`] with `V` rows for each lane, of operands that lie within their arrays; `sums` has room for `V` sums of
/// each thread.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn columns<T: Num<Wide: MulAdd>, Y: Num<Wide = T::Wide>, const V: usize>(
    sums: Shared<T::Wide>,
    a: &[T],
    x: &[T],
    y: SliceMut<'_, Y>,
    shape: &GemvShape,
    alpha: T::Wide,
    beta: T::Wide,
) {
    let (warp, lane) = (thread::thread_idx_x() as usize / 32, warp::lane_id() as usize);
    let block = thread::block_idx_x() as usize;
    let (first, chunk) = (block / shape.chunks * 32 * V, block % shape.chunks);
    let range = shape.chunk(chunk);
    let wide = V > 1 && shape.a[0] == 1 && (shape.a[1] | shape.m).is_multiple_of(V) && a.is_vec_aligned::<V>();
    // The rows of a lane lie side by side where it reads them at once.
    let row = |v: usize| first + if wide { lane * V + v } else { v * 32 + lane };
    // SAFETY: there is room for `V` of each thread.
    let keep = |v: usize, sum: T::Wide| unsafe { sums.set_unchecked((v * ROWS + warp) * 32 + lane, sum) };
    if wide {
        if row(0) < shape.m {
            // SAFETY: a vector's rows lie side by side, and their number divides m, so that all are less than it.
            let of_lane: [T::Wide; V] = unsafe { share_of_rows(a, x, row(0), shape, range) };
            for v in 0..V {
                keep(v, of_lane[v]);
            }
        }
    } else {
        // A number that the compiler does not know: it would unroll the loop.
        let rows = if V == 1 { 1 } else { hint::opaque(V as u32) };
        let mut v = 0;
        while v < rows as usize {
            if row(v) < shape.m {
                // SAFETY: the row is less than m.
                let [sum] = unsafe { share_of_rows(a, x, row(v), shape, range) };
                keep(v, sum);
            }
            v += 1;
        }
    }
    thread::sync_threads();
    if warp == 0 {
        for v in 0..V {
            if row(v) < shape.m {
                // SAFETY: as what was kept.
                let of = |warp: usize| unsafe { sums.get_unchecked((v * ROWS + warp) * 32 + lane) };
                let mut sum = of(0);
                for other in 1..ROWS {
                    sum = sum.add(of(other));
                }
                // SAFETY: `fits` found `y` to have all sums.
                unsafe { set(y, row(v) * shape.chunks + chunk, sum, alpha, beta) };
            }
        }
    }
}

/// This warp's share of the products of `V` rows from `row` on and `x`, from `start` to `end`: every eighth.
///
/// # Safety
///
/// The operands lie within their arrays, as [`GemvShape::fits`] says; the rows are less than m; if `V` is not 1, they lie
/// side by side, aligned as vectors of `V`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn share_of_rows<T: Num<Wide: MulAdd>, const V: usize>(
    a: &[T],
    x: &[T],
    row: usize,
    shape: &GemvShape,
    (start, end): (usize, usize),
) -> [T::Wide; V] {
    let product = |sums: [T::Wide; V], i: usize| {
        // SAFETY (of both): `i` is less than k and the rows less than m, by the caller's promise.
        let elements: [T; V] = unsafe { a.load_vec_unchecked(row * shape.a[0] + i * shape.a[1]) };
        let [factor] = unsafe { x.load_vec_unchecked::<1>(i * shape.x) };
        let factor = factor.widen();
        cuda_std::array::from_fn(|v| elements[v].widen().mul_add(factor, sums[v]))
    };
    let mut chains = [[T::Wide::ZERO; V]; UNROLL];
    let mut i = start + thread::thread_idx_x() as usize / 32;
    // All are on their way at once, of each chain two.
    while i + (2 * UNROLL - 1) * ROWS < end {
        let elements: [[T; V]; 2 * UNROLL] = cuda_std::array::from_fn(|u| {
            // SAFETY: as above.
            unsafe { a.load_vec_unchecked(row * shape.a[0] + (i + u * ROWS) * shape.a[1]) }
        });
        for u in 0..2 * UNROLL {
            // SAFETY: as above.
            let [factor] = unsafe { x.load_vec_unchecked::<1>((i + u * ROWS) * shape.x) };
            let (factor, sums) = (factor.widen(), chains[u % UNROLL]);
            chains[u % UNROLL] = cuda_std::array::from_fn(|v| elements[u][v].widen().mul_add(factor, sums[v]));
        }
        i += 2 * UNROLL * ROWS;
    }
    while i + (UNROLL - 1) * ROWS < end {
        chains = cuda_std::array::from_fn(|u| product(chains[u], i + u * ROWS));
        i += UNROLL * ROWS;
    }
    while i < end {
        chains[0] = product(chains[0], i);
        i += ROWS;
    }
    cuda_std::array::from_fn(|v| pairwise::<_, UNROLL>(cuda_std::array::from_fn(|u| chains[u][v])))
}

/// Adds up the sums of the chunks: `y[r] ← alpha · (partials[r · chunks] + … ) + beta · y[r]`, by a warp.
///
/// Blocks have [`THREADS`] threads and [`ROWS`] rows each. `partials` has `chunks` elements for each of `y`'s; rows
/// that it does not have are not written.
#[kernel(T = [f32, f64, i32, f16, bf16], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn gemv_combine<T: Num<Wide: MulAdd>>(
    partials: &[<T as Num>::Wide],
    y: SliceMut<'_, T>,
    chunks: usize,
    alpha: <T as Num>::Wide,
    beta: <T as Num>::Wide,
) {
    let row = warp_number();
    if thread::block_dim_x() as usize != THREADS || chunks == 0 || row >= Ord::min(y.len(), partials.len() / chunks) {
        return;
    }
    let mut sum = T::Wide::ZERO;
    let mut i = warp::lane_id() as usize;
    while i < chunks {
        // SAFETY: the row is one of the `len / chunks` that `partials` has, and `i` is less than `chunks`.
        let [partial] = unsafe { partials.load_vec_unchecked::<1>(row * chunks + i) };
        sum = sum.add(partial);
        i += 32;
    }
    let sum = warp::all_reduce(sum, Num::add);
    if warp::lane_id() == 0 {
        // SAFETY: less than the length, as just asked.
        unsafe { set(y, row, sum, alpha, beta) };
    }
}
