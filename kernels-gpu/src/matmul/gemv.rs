// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times vector: `y ← α A x + β y`, where `A` is m × k. Numbers of 16 bits are summed in f32, and the result is
//! rounded once.
//!
//! Every element of `A` is read once, which is all that the time depends on. Where the rows are contiguous, a warp sums
//! a row, 16 bytes a lane and access, and folds its lanes by shuffles ([`gemv_rows()`]). Where the columns are, a lane
//! has 8 bytes of rows, which it reads at once, or one row where they do not lie so, neighbouring lanes neighbouring
//! rows, and the eight warps of a block share the columns between them ([`gemv_columns()`]). A matrix of few rows has
//! too few of these: its rows are cut into chunks, whose sums [`gemv_combine()`] adds up.
//!
//! Work `2 m k`, span `k / (32 c)` and the folds, where a lane has `c` chains; bytes: `A` once. The order of summation
//! depends only on the shape that a kernel is told ([`GemvShape`]) and, along rows, on alignment, so floats give the
//! same bits on every run and every device. Error of an element of `A x`: at most `k u Σ|a||x|` to first order, as for any
//! order of summation (N. Higham, "Accuracy and Stability of Numerical Algorithms", 3.1).

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::{MulAdd, scaled, span};
use crate::num::Num;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Sums of rows, or of chunks of them, that a block of [`gemv_rows()`] computes: one a warp.
pub const ROWS: usize = THREADS / 32;

/// Rows that a lane of [`gemv_columns()`] reads at once, of elements of so many bytes, where they lie side by side: 8
/// bytes.
pub const fn vector_of(bytes: usize) -> usize {
    8 / bytes
}

/// Blocks of [`gemv_rows()`] and [`gemv_combine()`] that a multiprocessor holds at a time, so that ptxas need not spill
/// registers to make room for more.
pub const BLOCKS: usize = 3;

/// The same of [`gemv_columns()`]: numbers of 16 bits, of which a lane has four sums in each chain, want the registers.
pub const fn column_blocks_of_multiprocessor<T>() -> usize {
    if size_of::<T>() == 2 { 3 } else { 4 }
}

/// The most chunks that a thread of [`gemv_combine()`] adds up; more are added up by a warp.
const CHUNKS_OF_THREAD: usize = 16;

/// Whether a thread of [`gemv_combine()`] adds up a row's sums of so many chunks, with these strides of rows and of chunks,
/// and not a warp: few of them, unless they lie side by side, so that a warp loads them at once.
const fn is_of_thread(chunks: usize, strides: [usize; 2]) -> bool {
    chunks <= CHUNKS_OF_THREAD && strides[1] != 1
}

/// Rows of a block of [`gemv_combine()`], of so many chunks, whose sums have these strides of rows and of chunks.
pub const fn rows_combined(chunks: usize, strides: [usize; 2]) -> usize {
    if is_of_thread(chunks, strides) { THREADS } else { ROWS }
}

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
    /// Rows of a lane of [`gemv_columns()`], neighbours that it reads at once: one, or [`vector_of`].
    pub vector: usize,
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

/// The sums of [`gemv_rows()`], for columns that are contiguous, or nearly so; any strides are right. That of chunk `c` of
/// row `r` is number `c · m + r`.
///
/// A block has [`THREADS`] threads and one chunk of `32 · shape.vector` rows: block `b` has chunk `b % chunks` of the rows
/// of number `b / chunks`. Where the operands do not lie within their arrays, or rows not as `shape.vector` says, nothing
/// is written.
#[kernel(
    T = [f32], Y = [f32];
    T = [f64], Y = [f64];
    T = [i32], Y = [i32];
    T = [f16], Y = [f16, f32];
    T = [bf16], Y = [bf16, f32],
    max_threads = THREADS,
    min_blocks = column_blocks_of_multiprocessor::<T>(),
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
    let scales = (alpha, beta);
    // SAFETY (of all): `fits` found the operands to lie within their arrays; there is room for the sums of all threads;
    // where a lane has several rows, `has_vectors` found them to lie side by side.
    match (const { vector_of(size_of::<T>()) }, shape.vector) {
        (_, 1) => unsafe { columns::<T, Y, 1>(shared_array![u64; THREADS].cast(), a, x, y, &shape, scales) },
        (2, 2) if shape.has_vectors::<T, 2>(a) => unsafe {
            columns::<T, Y, 2>(shared_array![u64; THREADS].cast(), a, x, y, &shape, scales)
        },
        (4, 4) if shape.has_vectors::<T, 4>(a) => unsafe {
            columns::<T, Y, 4>(shared_array![u64; 2 * THREADS].cast(), a, x, y, &shape, scales)
        },
        _ => {}
    }
}

impl GemvShape {
    /// Whether all rows lie side by side by `V`, aligned as vectors of so many.
    #[inline(always)]
    fn has_vectors<T: Num, const V: usize>(&self, a: &[T]) -> bool {
        self.a[0] == 1 && (self.a[1] | self.m).is_multiple_of(V) && a.is_vec_aligned::<V>()
    }
}

/// [`gemv_columns()`] with `V` rows for each lane.
///
/// # Safety
///
/// The operands lie within their arrays, as [`GemvShape::fits`] says; `sums` has room for `V` sums of each thread; if `V`
/// is not 1, the rows lie as [`GemvShape::has_vectors`] says.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn columns<T: Num<Wide: MulAdd>, Y: Num<Wide = T::Wide>, const V: usize>(
    sums: Shared<T::Wide>,
    a: &[T],
    x: &[T],
    y: SliceMut<'_, Y>,
    shape: &GemvShape,
    (alpha, beta): (T::Wide, T::Wide),
) {
    let (warp, lane) = (thread::thread_idx_x() as usize / 32, warp::lane_id() as usize);
    let block = thread::block_idx_x() as usize;
    let (group, chunk) = (block / shape.chunks, block % shape.chunks);
    let row = (group * 32 + lane) * V;
    // Rows of a vector lie side by side, and their number divides m, so that all are less than it.
    let is_there = row < shape.m;
    if is_there {
        // SAFETY: the rows are less than m; the caller's promise.
        let of_lane: [T::Wide; V] = unsafe { share_of_rows(a, x, row, shape, shape.chunk(chunk)) };
        for v in 0..V {
            // SAFETY: there is room for `V` of each thread.
            unsafe { sums.set_unchecked((v * ROWS + warp) * 32 + lane, of_lane[v]) };
        }
    }
    thread::sync_threads();
    if warp == 0 && is_there {
        for v in 0..V {
            // SAFETY: as what was kept.
            let of = |warp: usize| unsafe { sums.get_unchecked((v * ROWS + warp) * 32 + lane) };
            let mut sum = of(0);
            for other in 1..ROWS {
                sum = sum.add(of(other));
            }
            // SAFETY: `fits` found `y` to have all sums.
            unsafe { set(y, chunk * shape.m + row + v, sum, alpha, beta) };
        }
    }
}

/// This warp's share of the products of `V` rows from `row` on and `x`, from `start` to `end`: every eighth.
///
/// # Safety
///
/// The operands lie within their arrays, as [`GemvShape::fits`] says; the rows are less than m; if `V` is not 1, they lie
/// as [`GemvShape::has_vectors`] says, and `V` divides `row`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn share_of_rows<T: Num<Wide: MulAdd>, const V: usize>(
    a: &[T],
    x: &[T],
    row: usize,
    shape: &GemvShape,
    (start, end): (usize, usize),
) -> [T::Wide; V] {
    let mut chains = [[T::Wide::ZERO; V]; UNROLL];
    let mut i = start + thread::thread_idx_x() as usize / 32;
    // Places follow one from the other: products of strides would take registers. Those behind the end can be any.
    let mut at = [
        row.wrapping_mul(shape.a[0]).wrapping_add(i.wrapping_mul(shape.a[1])),
        i.wrapping_mul(shape.x),
    ];
    let step = [ROWS.wrapping_mul(shape.a[1]), ROWS.wrapping_mul(shape.x)];
    // All are on their way at once, of each chain two.
    while i + (2 * UNROLL - 1) * ROWS < end {
        let elements: [[T; V]; 2 * UNROLL] = cuda_std::array::from_fn(|_| {
            // SAFETY: the element of a column less than k and of rows less than m, by the caller's promise.
            let elements = unsafe { a.load_vec_unchecked(at[0]) };
            at[0] = at[0].wrapping_add(step[0]);
            elements
        });
        for u in 0..2 * UNROLL {
            // SAFETY: as above.
            let [factor] = unsafe { x.load_vec_unchecked::<1>(at[1]) };
            at[1] = at[1].wrapping_add(step[1]);
            let (factor, sums) = (factor.widen(), chains[u % UNROLL]);
            chains[u % UNROLL] = cuda_std::array::from_fn(|v| elements[u][v].widen().mul_add(factor, sums[v]));
        }
        i += 2 * UNROLL * ROWS;
    }
    // What is left, with zeros behind the end: their products change no sum but one that is -0, which becomes 0.
    let left: [([T; V], T); 2 * UNROLL] = cuda_std::array::from_fn(|u| {
        let mut loaded = ([T::ZERO; V], T::ZERO);
        if i + u * ROWS < end {
            // SAFETY (of both): as above.
            loaded.0 = unsafe { a.load_vec_unchecked(at[0]) };
            loaded.1 = unsafe { x.load_vec_unchecked::<1>(at[1])[0] };
        }
        at = [at[0].wrapping_add(step[0]), at[1].wrapping_add(step[1])];
        loaded
    });
    for u in 0..2 * UNROLL {
        let ((elements, factor), sums) = (left[u], chains[u % UNROLL]);
        chains[u % UNROLL] = cuda_std::array::from_fn(|v| elements[v].widen().mul_add(factor.widen(), sums[v]));
    }
    cuda_std::array::from_fn(|v| pairwise::<_, UNROLL>(cuda_std::array::from_fn(|u| chains[u][v])))
}

/// Adds up the sums of the chunks: `y[r] ← alpha · (sum 0 + sum 1 + … ) + beta · y[r]`, where sum `c` of row `r` is element
/// `r · strides[0] + c · strides[1]` of `partials`.
///
/// Blocks have [`THREADS`] threads and [`rows_combined`] rows each: a thread has a row, or, of many
/// chunks and of such as lie side by side, a warp.
/// Where `partials` does not have the sums of all of `y`'s, nothing is written.
#[kernel(T = [f32, f64, i32, f16, bf16], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn gemv_combine<T: Num<Wide: MulAdd>>(
    partials: &[<T as Num>::Wide],
    y: SliceMut<'_, T>,
    chunks: usize,
    strides: [usize; 2],
    alpha: <T as Num>::Wide,
    beta: <T as Num>::Wide,
) {
    let is_of_thread = is_of_thread(chunks, strides);
    let row = match is_of_thread {
        true => thread::block_idx_x() as usize * THREADS + thread::thread_idx_x() as usize,
        false => warp_number(),
    };
    let fits = span([y.len(), chunks], strides).is_some_and(|span| span <= partials.len());
    if thread::block_dim_x() as usize != THREADS || chunks == 0 || row >= y.len() || !fits {
        return;
    }
    // SAFETY: the row and the chunk are less than their numbers, whose sums `fits` found to be in `partials`.
    let partial = |c: usize| unsafe { partials.load_vec_unchecked::<1>(row * strides[0] + c * strides[1])[0] };
    let sum = match is_of_thread {
        true => sum_of_thread(chunks, partial),
        false => sum_of_warp(chunks, partial),
    };
    if is_of_thread || warp::lane_id() == 0 {
        // SAFETY: less than the length, as just asked.
        unsafe { set(y, row, sum, alpha, beta) };
    }
}

/// The sum of at least one partial, one after another, of which eight are loaded at once.
#[inline(always)]
fn sum_of_thread<W: Num>(chunks: usize, partial: impl Fn(usize) -> W) -> W {
    let mut sum = partial(0);
    let mut first = 0;
    while first < chunks {
        let loaded: [W; 8] = cuda_std::array::from_fn(|u| {
            if first + u < chunks {
                partial(first + u)
            } else {
                W::ZERO
            }
        });
        for u in 0..8 {
            if first + u > 0 && first + u < chunks {
                sum = sum.add(loaded[u]);
            }
        }
        first += 8;
    }
    sum
}

/// The sum of all partials, by a warp, all of whose lanes get it.
#[inline(always)]
fn sum_of_warp<W: Num>(chunks: usize, partial: impl Fn(usize) -> W) -> W {
    let mut sum = W::ZERO;
    let mut i = warp::lane_id() as usize;
    while i < chunks {
        sum = sum.add(partial(i));
        i += 32;
    }
    warp::all_reduce(sum, Num::add)
}
