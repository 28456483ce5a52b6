// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weighted sums of the 3 × 3 pixels around each, for pictures of integers of one channel, rows of any width.
//!
//! A thread has several neighbours in a row, 16 bytes or 8 of them, and goes down a strip of the picture. Each row that it reads counts
//! for three rows of results, of which it keeps the sums in registers; so each pixel is loaded once, but for those at a thread's and a
//! strip's edges. Sums are as in [`super::filter`].

use cuda_std::prelude::*;

use super::border::source;
use super::filter::THREADS;
use super::sample::Sample;

/// The blocks that a multiprocessor is to have room for: as many as leave registers enough.
const BLOCKS: usize = 5;

/// 3 × 3 weights, row by row.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, KernelParam)]
pub struct Weights3x3 {
    /// The weights.
    pub weights: [f32; 9],
}

/// Neighbours in a row, and those beside them.
#[derive(Clone, Copy)]
struct Pixels<T, M> {
    left: T,
    middle: M,
    right: T,
}

/// The rows of a strip, by where they begin; above and below it, where those begin that the border has there, if it has any.
struct Rows {
    first: usize,
    count: i32,
    width: usize,
    above: Option<usize>,
    below: Option<usize>,
}

/// The columns of a thread.
struct Columns<'a, T> {
    pixels: &'a [T],
    first: usize,
    count: usize,
    /// Those beside them, or what the border has there, if it has any.
    left: Option<usize>,
    right: Option<usize>,
    constant: T,
}

impl<T: Copy + bytemuck::Pod> Columns<'_, T> {
    /// A pixel of the row that begins at `start`; the constant without a column.
    ///
    /// # Safety
    ///
    /// A row of the picture begins there, which has the column.
    #[inline(always)]
    unsafe fn get(&self, start: usize, column: Option<usize>) -> T {
        column.map_or(self.constant, |column| {
            // SAFETY: a pixel of the picture.
            let [pixel] = unsafe { self.pixels.load_vec_unchecked::<1>(start + column) };
            pixel
        })
    }

    /// The pixels of the row that begins at `start`, or constants without a row. Behind the last column is the one to its right.
    ///
    /// # Safety
    ///
    /// A row of the picture begins there. If `ACCESS` is not 1, there are `V` columns, a multiple of it, and so many pixels are aligned in
    /// each row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load<const V: usize, const ACCESS: usize>(&self, start: Option<usize>) -> Pixels<T, T::Words>
    where
        T: Sample<V>,
    {
        let Some(start) = start else {
            return Pixels {
                left: self.constant,
                middle: bytemuck::cast([self.constant; V]),
                right: self.constant,
            };
        };
        // SAFETY: the row's, as promised.
        let [left, right] = [self.left, self.right].map(|column| unsafe { self.get(start, column) });
        let at = start + self.first;
        let middle: [T; V] = if ACCESS == V {
            // SAFETY: pixels of that row, aligned as promised.
            unsafe { self.pixels.load_vec_unchecked(at) }
        } else if ACCESS == 4 {
            let mut middle = [self.constant; V];
            for i in 0..V / 4 {
                // SAFETY: as above.
                let four: [T; 4] = unsafe { self.pixels.load_vec_unchecked(at + 4 * i) };
                middle[4 * i..][..4].copy_from_slice(&four);
            }
            middle
        } else {
            cuda_std::array::from_fn(|i| {
                if i < self.count {
                    // SAFETY: one of the row's columns.
                    unsafe { self.get(start, Some(self.first + i)) }
                } else {
                    right
                }
            })
        };
        Pixels {
            left,
            middle: bytemuck::cast(middle),
            right,
        }
    }

    /// Stores results to the row of `out` that begins at `start`.
    ///
    /// # Safety
    ///
    /// As of [`load`](Self::load), of `out`, whose pixels of these columns no other thread accesses.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store<const V: usize, const ACCESS: usize>(&self, out: &SliceMut<'_, T>, start: usize, words: T::Words)
    where
        T: Sample<V>,
    {
        let values: [T; V] = bytemuck::cast(words);
        let at = start + self.first;
        if ACCESS == V {
            // SAFETY: pixels of that row, aligned as promised.
            unsafe { out.set_vec_unchecked(at, values) };
        } else if ACCESS == 4 {
            for i in 0..V / 4 {
                let four: [T; 4] = cuda_std::array::from_fn(|j| values[4 * i + j]);
                // SAFETY: as above.
                unsafe { out.set_vec_unchecked(at + 4 * i, four) };
            }
        } else {
            for i in 0..V {
                if i < self.count {
                    // SAFETY: one of the row's columns.
                    unsafe { out.set_vec_unchecked(at + i, [values[i]]) };
                }
            }
        }
    }

    /// The results of all rows.
    ///
    /// One row is added while the next two are on their way. The sums of the row above it are complete then, those of its own get their
    /// second part, and those of the row below it their first. Three rows in turn, so that the sums' names have come round at the end of
    /// the loop: in a loop of one row, ptxas moves them from register to register.
    ///
    /// # Safety
    ///
    /// As of [`load`](Self::load) and [`store`](Self::store), for these rows, which both `pixels` and `out` have.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn run<const V: usize, const ACCESS: usize>(&self, weights: &Weights3x3, rows: &Rows, out: &SliceMut<'_, T>)
    where
        T: Sample<V>,
    {
        let [w0, w1, w2, w3, w4, w5, w6, w7, w8] = weights.weights;
        // Where the row begins that is loaded next, and that whose sums are complete next.
        let (mut read, mut write) = (rows.first + rows.width, rows.first);
        // SAFETY (of all): the rows are there, or the border's, as promised.
        let mut one = unsafe { self.load::<V, ACCESS>(rows.above) };
        let mut two = unsafe { self.load::<V, ACCESS>(Some(rows.first)) };
        // Rows that are to be loaded yet.
        let mut left = rows.count;
        let mut step =
            |above: [f32; V], here: [f32; V], current: Pixels<T, T::Words>, ahead: &mut Pixels<T, T::Words>| {
                if left > 0 {
                    let start = if left > 1 { Some(read) } else { rows.below };
                    *ahead = unsafe { self.load::<V, ACCESS>(start) };
                }
                let row = Pixels {
                    left: current.left.widen_one(),
                    middle: T::widen(current.middle),
                    right: current.right.widen_one(),
                };
                if left < rows.count - 1 {
                    let done = add(&row, above, [w6, w7, w8]);
                    unsafe { self.store::<V, ACCESS>(out, write, T::round(done)) };
                    write += rows.width;
                }
                read += rows.width;
                left -= 1;
                let here = add(&row, here, [w3, w4, w5]);
                let below = add(&row, [0.0; V], [w0, w1, w2]);
                (here, below, left >= -1)
            };
        let (mut above, mut here, mut three) = ([0.0; V], [0.0; V], two);
        loop {
            let (a, b, more) = step(above, here, one, &mut three);
            if !more {
                break;
            }
            let (b, c, more) = step(a, b, two, &mut one);
            if !more {
                break;
            }
            let more;
            (above, here, more) = step(b, c, three, &mut two);
            if !more {
                break;
            }
        }
    }
}

/// `sums` and the products of three `weights` with the pixels of a row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn add<const V: usize>(row: &Pixels<f32, [f32; V]>, sums: [f32; V], [a, b, c]: [f32; 3]) -> [f32; V] {
    cuda_std::array::from_fn(|j| {
        let before = if j == 0 { row.left } else { row.middle[j - 1] };
        let behind = if j + 1 == V { row.right } else { row.middle[j + 1] };
        let sum = Float::mul_add(b, row.middle[j], Float::mul_add(a, before, sums[j]));
        Float::mul_add(c, behind, sum)
    })
}

/// `out` is, for each pixel, the sum of the 3 × 3 around it times the weights, rounded as [`Pixel::from_f32`](crate::pixel::Pixel::from_f32).
/// Beyond the edges lies `border` (a number of [`super::border`]), or `constant` if that has no pixel. `pixels` and `out` hold `height`
/// rows of `width` pixels, or nothing is done. Block `(i, j)`, of [`THREADS`] threads, treats `V` columns for each thread of the `rows`
/// rows from row `rows j` on: by one access a row, by fours, or one by one, as the rows' alignment allows.
#[kernel(T = [u8, u16], V = [8], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn filter_3x3<T: Sample<V>, const V: usize>(
    pixels: &[T],
    width: usize,
    height: usize,
    rows: u32,
    border: u32,
    weights: Weights3x3,
    constant: T,
    out: SliceMut<'_, T>,
) {
    let elements = width.checked_mul(height);
    let first = thread::index_1d().saturating_mul(V);
    if first >= width || elements.is_none_or(|elements| elements > Ord::min(pixels.len(), out.len())) {
        return;
    }
    let top = (thread::block_idx_y() as usize).saturating_mul(rows as usize);
    let end = Ord::min(top.saturating_add(rows as usize), height);
    if top >= end {
        return;
    }
    let columns = Columns {
        pixels,
        first,
        count: Ord::min(width - first, V),
        left: if first > 0 {
            Some(first - 1)
        } else {
            source(border, usize::MAX, width)
        },
        right: if width - first > V {
            Some(first + V)
        } else {
            source(border, width, width)
        },
        constant,
    };
    let outside = |y| source(border, y, height).map(|y| y * width);
    let rows = Rows {
        first: top * width,
        count: (end - top) as i32,
        width,
        above: if top > 0 {
            Some((top - 1) * width)
        } else {
            outside(usize::MAX)
        },
        below: if end < height {
            Some(end * width)
        } else {
            outside(height)
        },
    };
    let whole = columns.count == V;
    // SAFETY (of all): rows of the picture, which `out` has too, and columns of theirs, which are this thread's; each row begins at a
    // multiple of the vector that is asked for, and so do the columns, as `V` is one.
    if whole && width.is_multiple_of(V) && pixels.is_vec_aligned::<V>() && out.is_vec_aligned::<V>() {
        unsafe { columns.run::<V, V>(&weights, &rows, &out) };
    } else if V > 4 && whole && width.is_multiple_of(4) && pixels.is_vec_aligned::<4>() && out.is_vec_aligned::<4>() {
        unsafe { columns.run::<V, 4>(&weights, &rows, &out) };
    } else {
        unsafe { columns.run::<V, 1>(&weights, &rows, &out) };
    }
}
