// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times vector: `y ← α A x + β y`, where `A` is m × k.
//!
//! Every element of `A` is read once, which is all that the time depends on. Where the rows are contiguous, a warp sums
//! a row, 16 bytes a lane and access, and folds its lanes by shuffles ([`gemv_rows()`]). Where the columns are, a lane
//! has a row, neighbouring lanes neighbouring rows, and the eight warps of a block share the columns between them
//! ([`gemv_columns()`]). A matrix of few rows has too few of these: its rows are cut into chunks, whose sums
//! [`gemv_combine()`] adds up.
//!
//! Work `2 m k`, span `k / (32 c)` and the folds, where a lane has `c` chains; bytes: `A` once. The order of summation
//! depends only on shape and strides, so floats give the same bits on every run and every device. Error of an element
//! of `A x`: at most `k u Σ|a||x|` to first order, as for any order of summation (N. Higham, "Accuracy and Stability of
//! Numerical Algorithms", 3.1).

use cuda_std::prelude::*;

use super::{MulAdd, scaled, span};

/// Threads of a block.
pub const THREADS: usize = 256;

/// Sums of rows, or of chunks of them, that a block of [`gemv_rows()`] and [`gemv_combine()`] computes: one a warp.
pub const ROWS: usize = THREADS / 32;

/// Rows of a block of [`gemv_columns()`]: one a lane.
pub const LANES: usize = 32;

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
unsafe fn set<T: MulAdd>(y: SliceMut<'_, T>, i: usize, sum: T, alpha: T, beta: T) {
    let old = (beta != T::ZERO).then(|| {
        // SAFETY: the same memory, which is written only through `y`; in bounds by the caller's promise.
        let [old] = unsafe { Slice::from_raw_parts(y.as_ptr(), y.len()).get_vec_unchecked::<1>(i) };
        (beta, old)
    });
    // SAFETY: the caller's promise; a vector of one is aligned like its element.
    unsafe { y.set_vec_unchecked(i, [scaled(alpha, sum, old)]) };
}

/// Chunk `c` of row `r` of `A`, times `x`, is sum number `r · chunks + c`, by a warp: `y ← alpha · sums + beta · y`.
///
/// For rows that are contiguous, or nearly so; any strides are right. Blocks have [`THREADS`] threads and [`ROWS`] sums
/// each. Where the operands do not lie within their arrays, nothing is written.
#[kernel(T = [f32, f64, i32], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn gemv_rows<T: MulAdd>(a: &[T], x: &[T], y: SliceMut<'_, T>, shape: GemvShape, alpha: T, beta: T) {
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
        8 if shape.is_wide::<T, 2>(a, x) => unsafe { share::<T, 2>(a, x, first, [1, 1], range) },
        4 if shape.is_wide::<T, 4>(a, x) => unsafe { share::<T, 4>(a, x, first, [1, 1], range) },
        _ => unsafe { share::<T, 1>(a, x, first, strides, range) },
    };
    let sum = warp::all_reduce(sum, T::add);
    if warp::lane_id() == 0 {
        // SAFETY: `fits` found `y` to have all sums.
        unsafe { set(y, item, sum, alpha, beta) };
    }
}

impl GemvShape {
    /// Whether all rows, and `x`, can be read in vectors of `V` from the start of a chunk on.
    #[inline(always)]
    fn is_wide<T: MulAdd, const V: usize>(&self, a: &[T], x: &[T]) -> bool {
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
/// `UNROLL` chains for each of its elements, and what remains one by one.
///
/// # Safety
///
/// Element `first + i · strides[0]` is in `a` and `i · strides[1]` in `x` for each `i` of the range; if `V` is not 1,
/// both strides are 1, both arrays are aligned to vectors of `V`, and `first` and `start` are multiples of it.
#[inline(always)]
unsafe fn share<T: MulAdd, const V: usize>(
    a: &[T],
    x: &[T],
    first: usize,
    strides: [usize; 2],
    (start, end): (usize, usize),
) -> T {
    let lane = warp::lane_id() as usize;
    let tile = 32 * V * UNROLL;
    let mut chains = [[T::ZERO; V]; UNROLL];
    let mut tile_start = start;
    while end - tile_start >= tile {
        let at = |u: usize| tile_start + (u * 32 + lane) * V;
        // SAFETY (of both): the tile is within the range.
        let row: [[T; V]; UNROLL] =
            cuda_std::array::from_fn(|u| unsafe { a.load_vec_unchecked(first + at(u) * strides[0]) });
        let vector: [[T; V]; UNROLL] =
            cuda_std::array::from_fn(|u| unsafe { x.load_vec_unchecked(at(u) * strides[1]) });
        chains =
            cuda_std::array::from_fn(|u| cuda_std::array::from_fn(|v| row[u][v].mul_add(vector[u][v], chains[u][v])));
        tile_start += tile;
    }
    let sums: [T; V] = cuda_std::array::from_fn(|v| pairwise(cuda_std::array::from_fn(|u| chains[u][v])));
    let mut sum = sums[0];
    for v in 1..V {
        sum = sum.add(sums[v]);
    }
    let mut i = tile_start + lane;
    while i < end {
        // SAFETY (of both): `i` is in the range.
        let [element] = unsafe { a.load_vec_unchecked::<1>(first + i * strides[0]) };
        let [factor] = unsafe { x.load_vec_unchecked::<1>(i * strides[1]) };
        sum = element.mul_add(factor, sum);
        i += 32;
    }
    sum
}

/// The sum of the chains, as a tree.
#[inline(always)]
fn pairwise<T: MulAdd>(chains: [T; UNROLL]) -> T {
    chains[0].add(chains[1]).add(chains[2].add(chains[3]))
}

/// The same sums as [`gemv_rows()`], for columns that are contiguous, or nearly so; any strides are right.
///
/// A block has [`THREADS`] threads and one chunk of [`LANES`] rows: block `b` has chunk `b % chunks` of rows from
/// `b / chunks · LANES` on. Where the operands do not lie within their arrays, nothing is written.
#[kernel(T = [f32, f64, i32], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn gemv_columns<T: MulAdd>(a: &[T], x: &[T], y: SliceMut<'_, T>, shape: GemvShape, alpha: T, beta: T) {
    if thread::block_dim_x() as usize != THREADS || shape.chunks == 0 || !shape.fits(a.len(), x.len(), y.len()) {
        return;
    }
    let sums = shared_array![u64; THREADS].cast::<T>();
    let (warp, lane) = (thread::thread_idx_x() as usize / 32, warp::lane_id() as usize);
    let block = thread::block_idx_x() as usize;
    let (row, chunk) = (block / shape.chunks * LANES + lane, block % shape.chunks);
    let (start, end) = shape.chunk(chunk);
    let mut chains = [T::ZERO; UNROLL];
    if row < shape.m {
        let product = |sum: T, i: usize| {
            // SAFETY (of both): `i` is less than k and the row less than m: within the arrays, as `fits` found.
            let [element] = unsafe { a.load_vec_unchecked::<1>(row * shape.a[0] + i * shape.a[1]) };
            let [factor] = unsafe { x.load_vec_unchecked::<1>(i * shape.x) };
            element.mul_add(factor, sum)
        };
        let mut i = start + warp;
        while i + (UNROLL - 1) * ROWS < end {
            chains = cuda_std::array::from_fn(|u| product(chains[u], i + u * ROWS));
            i += UNROLL * ROWS;
        }
        while i < end {
            chains[0] = product(chains[0], i);
            i += ROWS;
        }
    }
    // SAFETY (of all): less than `THREADS`, as there are so many threads.
    unsafe { sums.set_unchecked(warp * 32 + lane, pairwise(chains)) };
    thread::sync_threads();
    if warp == 0 && row < shape.m {
        let [mut sum] = unsafe { sums.get_vec_unchecked::<1>(lane) };
        for other in 1..ROWS {
            let [next] = unsafe { sums.get_vec_unchecked::<1>(other * 32 + lane) };
            sum = sum.add(next);
        }
        // SAFETY: `fits` found `y` to have all sums.
        unsafe { set(y, row * shape.chunks + chunk, sum, alpha, beta) };
    }
}

/// Adds up the sums of the chunks: `y[r] ← alpha · (partials[r · chunks] + … ) + beta · y[r]`, by a warp.
///
/// Blocks have [`THREADS`] threads and [`ROWS`] rows each. `partials` has `chunks` elements for each of `y`'s; rows
/// that it does not have are not written.
#[kernel(T = [f32, f64, i32], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn gemv_combine<T: MulAdd>(partials: &[T], y: SliceMut<'_, T>, chunks: usize, alpha: T, beta: T) {
    let row = warp_number();
    if thread::block_dim_x() as usize != THREADS || chunks == 0 || row >= Ord::min(y.len(), partials.len() / chunks) {
        return;
    }
    let mut sum = T::ZERO;
    let mut i = warp::lane_id() as usize;
    while i < chunks {
        // SAFETY: the row is one of the `len / chunks` that `partials` has, and `i` is less than `chunks`.
        let [partial] = unsafe { partials.load_vec_unchecked::<1>(row * chunks + i) };
        sum = sum.add(partial);
        i += 32;
    }
    let sum = warp::all_reduce(sum, T::add);
    if warp::lane_id() == 0 {
        // SAFETY: less than the length, as just asked.
        unsafe { set(y, row, sum, alpha, beta) };
    }
}
