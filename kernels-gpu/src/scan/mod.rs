// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans (prefix sums): each element replaced by the combination of all up to it.
//!
//! An *inclusive* scan of `x` has `x[0] ⊕ … ⊕ x[i]` at place `i`, an *exclusive* one `x[0] ⊕ … ⊕ x[i − 1]`, and the
//! identity at place 0. The operator ⊕ is any [`ReduceOp`]: associative, up to rounding, and not necessarily
//! commutative, since the order of the elements is kept everywhere.
//!
//! | kernel | what it scans | elements moved |
//! |---|---|---|
//! | [`scan`](fn@scan) ([`lookback`]) | a whole array, or long rows, in one pass | `2 n` |
//! | [`scan_few`](fn@scan_few) ([`lookback::narrow`]) | a few long columns that lie side by side, in one pass | `2 n` |
//! | [`scan_tree`](fn@scan_tree) ([`blelloch`]) | a whole array, with the same bits on every run | `3 n` |
//! | [`scan_rows`](fn@scan_rows) ([`axis`]) | rows, a warp for each or for several | `2 n` |
//! | [`scan_columns`](fn@scan_columns) ([`columns`]) | columns, a strip of them for each block, in one pass | `2 n` |
//!
//! What the first and `scan_rows` have in common is here: the tile of a warp. Lane `l` holds `U` vectors of `V` elements,
//! vector `u` at place `(32 u + l) V` of the tile, so that every access of the warp is 512 contiguous bytes. The lanes
//! fold their vectors, each of the `U` rows is scanned by shuffles, independently of the others, and the rows' totals
//! are carried from one to the next. Against a blocked arrangement, with one scan by shuffles for all of a lane's
//! elements, this saves the two transpositions through shared memory, which move more bytes than the shuffles do.

use bytemuck::Pod;
use cuda_std::hint;
use cuda_std::prelude::*;

use crate::op::{ReduceOp, results};
use crate::tile;

pub mod axis;
pub mod blelloch;
pub mod columns;
pub mod lookback;
mod segmented;

pub use axis::scan_rows;
pub use blelloch::scan_tree;
pub use columns::scan_columns;
pub use lookback::narrow::scan_few;
pub use lookback::scan;
pub(crate) use segmented::scan_segments;

/// Threads of a block, but for [`lookback`].
pub const THREADS: usize = 256;

/// Elements of a vector when elements of type `T` are scanned by `Op`: 16 bytes of the larger of element and result,
/// but at most 8 elements, whose values a thread must hold; 1 if either has a size that is not a power of two.
pub const fn vec_len<T, Op: ReduceOp<T>>() -> usize {
    if !has_vectors::<T, Op::Output>() {
        return 1;
    }
    let (input, output) = (size_of::<T>(), size_of::<Op::Output>());
    let len = tile::vec_len(if input > output { input } else { output });
    if len > 8 { 8 } else { len }
}

/// The lines of a scan along an axis, and where they lie in the input. The results are in C order, seen as
/// `(outer, n, inner)`; so are the elements of an array, and those of a view may lie otherwise along the first two axes.
/// Distances are in elements, and wrap around, so that they can be negative.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct Lines {
    /// How many there are: `outer · inner`.
    pub count: usize,
    /// The elements of a line.
    pub n: usize,
    /// The lines whose elements lie side by side.
    pub inner: usize,
    /// The place of the first element.
    pub first: usize,
    /// From one outer line to the next.
    pub outer: usize,
    /// From an element to the next one of its line.
    pub along: usize,
}

impl Lines {
    /// Those of an array in C order.
    pub const fn of_array(count: usize, n: usize, inner: usize) -> Self {
        Self {
            count,
            n,
            inner,
            first: 0,
            outer: n.wrapping_mul(inner),
            along: inner,
        }
    }

    /// Whether `len` elements of a line, from place `first` on, are among `room`.
    #[inline(always)]
    fn fit(self, first: usize, len: usize, room: usize) -> bool {
        let last = first.wrapping_add(len.saturating_sub(1).wrapping_mul(self.along));
        // No memory is so large that steps over all of it wrap around for the few elements that are asked for.
        first < room && last < room && (self.along as isize).unsigned_abs() <= room
    }
}

/// Whether elements and results have sizes that are powers of two, so that vectors of them begin at multiples of their
/// own size, in shared memory too.
const fn has_vectors<T, R>() -> bool {
    size_of::<T>().is_power_of_two() && size_of::<R>().is_power_of_two()
}

/// `times`, less than 2^32, of which the compiler does not know what it is, so that a loop stays one.
#[inline(always)]
fn looped(times: usize) -> usize {
    hint::opaque(times as u32) as usize
}

/// Element `i`, by an access that wants no more than the element's own alignment.
///
/// # Safety
///
/// `i` is less than the length.
#[inline(always)]
unsafe fn get_unchecked<T: Pod>(x: &[T], i: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { *x.get_unchecked(i) }
}

/// Sets element `i`, if there is one: the condition costs less than the panic of `set`.
#[inline(always)]
fn set_within<R: Pod>(out: SliceMut<'_, R>, i: usize, value: R) {
    if i < out.len() {
        out.set(i, value);
    }
}

/// Sets element `i`, which there is.
///
/// # Safety
///
/// `i` is less than the length.
#[inline(always)]
unsafe fn set_unchecked<R: Pod>(out: SliceMut<'_, R>, i: usize, result: R) {
    if const { size_of::<R>() == align_of::<R>() && size_of::<R>() <= 16 } {
        // SAFETY: the caller's promise; every element is aligned to its size.
        unsafe { out.set_vec_unchecked::<1>(i, [result]) };
    } else {
        set_within(out, i, result);
    }
}

/// Vectors that a thread holds: of elements much smaller than their results, more.
pub const fn vectors<T, Op: ReduceOp<T>>() -> usize {
    if vec_len::<T, Op>() >= 8 {
        2
    } else if 4 * size_of::<T>() <= size_of::<Op::Output>() {
        6
    } else {
        4
    }
}

/// Elements that a warp scans at a time.
pub const fn warp_tile_len<T, Op: ReduceOp<T>>() -> usize {
    32 * vec_len::<T, Op>() * vectors::<T, Op>()
}

/// The elements `lo .. hi` of the input, a row that is scanned, and whether vectors may be accessed.
#[derive(Clone, Copy)]
struct Row {
    lo: usize,
    hi: usize,
    vectors: bool,
}

impl Row {
    /// Row number `row` of those of `n` elements that both arrays have.
    #[inline(always)]
    fn new<T: Pod, R: Pod, const V: usize>(row: usize, n: usize, x: &[T], out: SliceMut<'_, R>) -> Self {
        let lo = row * n;
        let hi = Ord::min(Ord::min(lo + n, x.len()), out.len());
        let vectors = has_vectors::<T, R>() && x.is_vec_aligned::<V>() && out.is_vec_aligned::<V>();
        Self { lo, hi, vectors }
    }

    /// Where the first tile begins: at the last multiple of `V` before the row, so that its vectors are aligned.
    #[inline(always)]
    fn first<const V: usize>(self) -> usize {
        self.lo & !(V - 1)
    }

    /// What of the row lies among the `len` elements from `start`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn window(self, start: usize, len: usize) -> Window {
        let within = |i: usize| Ord::min(i.saturating_sub(start), len) as u32;
        let (lo, hi) = (within(self.lo), within(self.hi));
        Window {
            lo,
            hi,
            vectors: self.vectors,
            whole: self.vectors && lo == 0 && hi as usize == len,
        }
    }
}

/// The part of a tile that is the row's, in numbers from the tile's start: 32 bits, half the registers of an index.
#[derive(Clone, Copy)]
struct Window {
    lo: u32,
    hi: u32,
    vectors: bool,
    /// Whether all is the row's, and may be accessed in vectors.
    whole: bool,
}

impl Window {
    #[inline(always)]
    fn has(self, i: u32) -> bool {
        self.lo <= i && i < self.hi
    }

    /// Whether the vector of `len` elements at `i` is the row's, and may be accessed as one.
    #[inline(always)]
    fn has_vector(self, i: u32, len: usize) -> bool {
        self.whole || (self.vectors && self.lo <= i && i + len as u32 <= self.hi)
    }

    /// The vector at `i` of the tile at `start`, of which any part may be outside of the row; so may the tile's start be
    /// before the input.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn load<T: Pod, const V: usize>(self, x: &[T], start: usize, i: u32) -> [T; V] {
        if self.has_vector(i, V) {
            // SAFETY: aligned, and within the row, as just asked.
            return unsafe { x.load_vec_unchecked::<V>(start.wrapping_add(i as usize)) };
        }
        cuda_std::array::from_fn(|k| {
            if self.has(i + k as u32) {
                // SAFETY: within the row, which is within the input.
                unsafe { get_unchecked(x, start.wrapping_add(i as usize + k)) }
            } else {
                T::zeroed()
            }
        })
    }

    /// Sets the vector at `i` of the tile at `start`, or what of it is within the row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store<R: Pod, const V: usize>(self, out: SliceMut<'_, R>, start: usize, i: u32, results: [R; V]) {
        let at = start + i as usize;
        if self.has_vector(i, V) {
            // SAFETY: aligned, and within the row, as just asked.
            unsafe { out.set_vec_unchecked::<V>(at, results) };
            return;
        }
        for k in 0..V {
            if self.has(i + k as u32) {
                set_within(out, at + k, results[k]);
            }
        }
    }

    /// The elements of the vector at `i`, the first of which is number `index` of its row, lifted; the identity for
    /// those that are not the row's.
    #[inline(always)]
    fn lift<T: Pod, Op: ReduceOp<T>, const V: usize>(self, loaded: [T; V], i: u32, index: u64) -> [Op::Acc; V] {
        cuda_std::array::from_fn(|k| {
            if self.whole || self.has(i + k as u32) {
                Op::lift(loaded[k], index.wrapping_add(k as u64))
            } else {
                Op::identity()
            }
        })
    }
}

/// Where vector `u` of this lane begins in the warp's tile.
#[inline(always)]
fn at<const V: usize>(u: usize) -> u32 {
    (warp::lane_id() + 32 * u as u32) * V as u32
}

/// The number in its row of the element at `i` of the tile at `start`; before the row, it wraps around.
#[inline(always)]
fn index_in_row(row: Row, start: usize, i: u32) -> u64 {
    (start.wrapping_sub(row.lo) as u64).wrapping_add(i as u64)
}

/// The elements of this lane in the warp tile at `start`, lifted; the identity for those that are not the row's. The
/// tile's first element, if it is the row's, is at `from` of the input.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn load<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    row: Row,
    start: usize,
    from: usize,
) -> [[Op::Acc; V]; U] {
    let window = row.window(start, 32 * V * U);
    let loaded: [[T; V]; U] = if window.whole {
        // All loads without a branch between them, so that all are in flight at once.
        // SAFETY: the whole tile is the row's, and aligned.
        cuda_std::array::from_fn(|u| unsafe { x.load_vec_unchecked::<V>(from + at::<V>(u) as usize) })
    } else {
        cuda_std::array::from_fn(|u| window.load(x, from, at::<V>(u)))
    };
    cuda_std::array::from_fn(|u| {
        let i = at::<V>(u);
        window.lift::<T, Op, V>(loaded[u], i, index_in_row(row, start, i))
    })
}

/// Writes the results of this lane in the warp tile at `start`: `before` stands before each vector.
#[inline(always)]
fn store<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    out: SliceMut<'_, Op::Output>,
    row: Row,
    start: usize,
    before: [Op::Acc; U],
    values: &[[Op::Acc; V]; U],
    exclusive: bool,
) {
    let window = row.window(start, 32 * V * U);
    for u in 0..U {
        let i = at::<V>(u);
        let results = results::<T, Op, V>(before[u], values[u], index_in_row(row, start, i), exclusive);
        window.store(out, start, i, results);
    }
}
