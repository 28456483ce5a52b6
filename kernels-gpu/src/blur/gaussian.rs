// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Gaussian blur: a weighted mean, first along the rows (`gaussian_rows`), then along the columns
//! (`gaussian_columns`), with the numbers between the passes in `f32`.
//!
//! Both passes compute `fma(w[t−1], x[i+r], … fma(w[1], x[i−r+1], fma(w[0], x[i−r], +0)) …)` for `t = 2 r + 1` weights,
//! in this order, so every device gives the same bits. Each thread computes several neighbours, of which each number
//! that is read serves all: the numbers slide through its registers. Along a row the block brings the numbers to shared
//! memory, already widened and with those beyond the row's ends, as many weights at a time as there is room for, and
//! the sums go back through it, so that neighbouring threads store neighbours; along a column a block goes down a strip
//! of the picture, so that the numbers above come from the cache.
//!
//! Work `t n` fused multiply-adds for each pass; for `n` pixels of `C` channels of `p` bytes, at least `C n (2 p + 8)`
//! bytes are moved.

use cuda_std::hint;
use cuda_std::prelude::*;

use super::border::{Column, MISSING, Row, existing};
use crate::pixel::Pixel;

/// Threads of a block along the rows: a multiple of every number of channels, so that a thread has one.
pub const ROW_THREADS: usize = 96;

/// Blocks along the rows that keep a multiprocessor busy: four times as many as it holds, since they are short.
pub const ROW_BLOCKS: usize = 64;

/// Pixels of a thread along the rows. Odd, so that the threads of a warp read from different banks of shared memory.
const ROW_OUTPUTS: usize = 7;

/// The weights that are applied between two barriers.
const CHUNK: usize = 64;

/// Numbers in shared memory: those of a tile, and those beside it that the weights take, of four channels.
const TILE: usize = ROW_THREADS * ROW_OUTPUTS + (CHUNK - 1) * 4;

const _: () = assert!(ROW_THREADS.is_multiple_of(12));

/// Pixels of `channels` channels that a block treats at once along a row.
pub const fn row_tile(channels: usize) -> usize {
    ROW_THREADS / channels * ROW_OUTPUTS
}

/// Threads of a block along the columns.
pub const COLUMN_THREADS: usize = 256;

/// Blocks along the columns that keep a multiprocessor busy, and that it has room for: few enough that no kernel spills
/// registers.
pub const COLUMN_BLOCKS: usize = 4;

/// Rows that a thread treats at once along a column.
pub const COLUMN_OUTPUTS: usize = 8;

/// As many where the window crosses an edge.
const EDGE_OUTPUTS: usize = 2;

/// Adds the products of the weights, in their order, to `sums`: to number `m` that of weight `k` and value `m + k`.
/// `next` gives the values one after another; it is called `weights.len() + M − 1` times.
// By constant indices once unrolled: an iterator over the arrays would keep them in local memory.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn convolve<const M: usize>(mut sums: [f32; M], weights: &[f32], mut next: impl FnMut() -> f32) -> [f32; M] {
    // SAFETY (of the calls): both loops stay below the number of weights.
    let weight = |k: usize| unsafe { *weights.get_unchecked(k) };
    // Value `k + m` is at `(k + m) % M`: the registers turn, and nothing is moved, where M weights are applied in a
    // row.
    let mut values: [f32; M] = cuda_std::array::from_fn(|m| if m + 1 < M { next() } else { 0.0 });
    let mut k = 0;
    while k + M <= weights.len() {
        // All on their way before the first is used.
        let (w, new): ([f32; M], [f32; M]) = (
            cuda_std::array::from_fn(|s| weight(k + s)),
            cuda_std::array::from_fn(|_| next()),
        );
        for s in 0..M {
            values[(s + M - 1) % M] = new[s];
            for m in 0..M {
                sums[m] = Float::mul_add(w[s], values[(s + m) % M], sums[m]);
            }
        }
        k += M;
    }
    while k < weights.len() {
        values[M - 1] = next();
        let w = weight(k);
        for m in 0..M {
            sums[m] = Float::mul_add(w, values[m], sums[m]);
        }
        values = cuda_std::array::from_fn(|m| if m + 1 < M { values[m + 1] } else { 0.0 });
        k += 1;
    }
    sums
}

/// `sum`, of position `i` of `n`, divided by the sum of the weights that were for existing positions, in their order.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn renormalized(sum: f32, weights: &[f32], i: usize, n: usize) -> f32 {
    let radius = weights.len() / 2;
    let count = existing(i, radius, n);
    if count == weights.len() {
        return sum;
    }
    let first = radius.saturating_sub(i);
    let mut total = 0.0;
    for weight in weights.iter().skip(first).take(count) {
        total += weight;
    }
    sum / total
}

/// `out` is, for each channel of each pixel, the weighted sum of those around it in its row, of which the middle one
/// has the middle one of the `weights`, of which there is an odd number. Beyond the row's ends lies `border` (a number
/// of [`super::border`]), or `constant` if that has no pixel; for [`MISSING`] that is 0, and the sum is divided by that
/// of the weights of existing pixels. A fourth channel is kept. `pixels` and `out` hold `height` rows of `width` pixels
/// one after another; the row is at least as long as half of the weights, or the border's pixels are not those that it
/// names. Block `(i, j)`, of [`ROW_THREADS`] threads, treats [`row_tile`] pixels of row `j`, and then of those as many
/// on as the grid is high.
#[kernel(T = [u8, u16, f32], C = [1, 3, 4], max_threads = ROW_THREADS)]
pub fn gaussian_rows<T: Pixel, const C: usize>(
    pixels: &[T],
    width: usize,
    height: usize,
    weights: &[f32],
    border: u32,
    constant: T,
    out: SliceMut<'_, f32>,
) {
    // Beyond a row's end there is what the block before has left.
    let tile = shared_array![f32; TILE].may_be_uninitialised();
    let elements = width.checked_mul(C).and_then(|row_len| row_len.checked_mul(height));
    let is_there = elements.is_some_and(|elements| elements <= Ord::min(pixels.len(), out.len()));
    let first = thread::block_idx_x() as usize * row_tile(C);
    if thread::block_dim_x() as usize != ROW_THREADS || first >= width || !is_there {
        return;
    }
    let (t, channels) = (thread::thread_idx_x(), C as u32);
    let at = t / channels * ROW_OUTPUTS as u32 * channels + t % channels;
    let mut y = thread::block_idx_y() as usize;
    while y < height {
        // SAFETY: `y < height`, so there is that row.
        let row = unsafe { Row::<T, C>::new(pixels, y, width, border, constant) };
        // Where a thread's numbers are not neighbours, registers are few, and the compiler would keep several that
        // follow from this one.
        let at = if C == 1 { at } else { hint::opaque(at) } as usize;
        let sums = row_sums(&row, first, width, weights, tile, at);
        for m in 0..ROW_OUTPUTS {
            // SAFETY: the last is the last channel of pixel `row_tile(C) − 1`, which TILE has room for.
            unsafe { tile.set_unchecked(at + m * C, sums[m]) };
        }
        thread::sync_threads();
        store_row(&row, first, tile, weights, border, |i, value| {
            // SAFETY: an element of row `y < height`.
            unsafe { out.set_vec_unchecked(y * width * C + i, [value]) };
        });
        thread::sync_threads();
        y += thread::grid_dim_y() as usize;
    }
}

/// Stores the tile's sums, of pixels from `first` on, as elements of the row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn store_row<T: Pixel, const C: usize>(
    row: &Row<'_, T, C>,
    first: usize,
    tile: Shared<f32>,
    weights: &[f32],
    border: u32,
    set: impl Fn(usize, f32),
) {
    let (start, t) = (first * C, thread::thread_idx_x() as usize);
    let count = Ord::min(row_tile(C) * C, row.len() - start);
    // What is asked of the border and of the channel would wait in registers while rows go by, and where these are too
    // few, it is asked anew.
    let border = if C == 3 && size_of::<T>() < 4 {
        hint::pinned(border)
    } else {
        border
    };
    if border == MISSING {
        // A loop of its own, which is not unrolled.
        let mut i = t;
        while i < count {
            // SAFETY (of both): less than `row_tile(C)` pixels.
            let sum = renormalized(
                unsafe { tile.get_unchecked(i) },
                weights,
                (start + i) / C,
                row.len() / C,
            );
            unsafe { tile.set_unchecked(i, sum) };
            i += ROW_THREADS;
        }
    }
    for m in 0..ROW_OUTPUTS {
        let i = t + m * ROW_THREADS;
        if i < count {
            let value = if C == 4 && hint::opaque(t as u32) % 4 == 3 {
                // SAFETY: in the row, since it is less than `count` from the start.
                unsafe { row.inside(start + i) }.to_f32()
            } else {
                // SAFETY: as above.
                unsafe { tile.get_unchecked(i) }
            };
            set(start + i, value);
        }
    }
}

/// The weighted sums of a thread's pixels, the first of which is element `at` of the tile that begins at pixel `first`.
///
/// # Convergence
///
/// All threads of the block call it. Afterwards none reads the tile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn row_sums<T: Pixel, const C: usize>(
    row: &Row<'_, T, C>,
    first: usize,
    width: usize,
    weights: &[f32],
    tile: Shared<f32>,
    at: usize,
) -> [f32; ROW_OUTPUTS] {
    let radius = weights.len() / 2;
    let mut sums = [0.0; ROW_OUTPUTS];
    let mut k = 0;
    while k < weights.len() {
        let taps = Ord::min(CHUNK, weights.len() - k);
        // Pixels that the picture and its border have, and no more: sums with what is left in the tile are not stored.
        let used = Ord::min(row_tile(C) + taps - 1, width - first + 2 * radius - k);
        bring(row, ((first + k) * C).wrapping_sub(radius * C), used * C, tile);
        thread::sync_threads();
        let mut i = at;
        let next = || {
            // SAFETY: at most `row_tile(C) − 1 + taps − 1` pixels after the tile's first, which TILE has room for.
            let value = unsafe { tile.get_unchecked(i) };
            i += C;
            value
        };
        // SAFETY: `taps` of them are left from weight `k` on.
        sums = convolve(sums, unsafe { weights.get_unchecked(k..k + taps) }, next);
        thread::sync_threads();
        k += taps;
    }
    sums
}

/// Brings `count` elements of the row, from element `start` on, to the tile; one before the row's first has wrapped
/// around.
#[inline(always)]
fn bring<T: Pixel, const C: usize>(row: &Row<'_, T, C>, start: usize, count: usize, tile: Shared<f32>) {
    if start < row.len() && start + count <= row.len() {
        // SAFETY: in the row, as just asked.
        fill::<T, 8>(count, tile, |i| unsafe { row.inside(start + i) });
    } else {
        fill::<T, 2>(count, tile, |i| row.get(start.wrapping_add(i)));
    }
}

/// Sets the first `count` numbers of the tile, of which there are at most [`TILE`], to what `value` gives; a thread has
/// `N` on their way at once.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn fill<T: Pixel, const N: usize>(count: usize, tile: Shared<f32>, value: impl Fn(usize) -> T) {
    const STEP: u32 = ROW_THREADS as u32;
    let count = count as u32;
    let mut i = thread::thread_idx_x();
    while i < count {
        let values: [T; N] = cuda_std::array::from_fn(|u| {
            if i + u as u32 * STEP < count {
                value(i as usize + u * ROW_THREADS)
            } else {
                T::zeroed()
            }
        });
        for u in 0..N {
            if i + u as u32 * STEP < count {
                // SAFETY: less than `count`.
                unsafe { tile.set_unchecked(i as usize + u * ROW_THREADS, values[u].to_f32()) };
            }
        }
        i += N as u32 * STEP;
    }
}

/// `out` is, for each channel of each pixel, the weighted sum, rounded as [`Pixel::from_f32`], of those of `rows` in
/// its column, where above and below the picture lies `border`, or `constant` if that has no row; weights and border as
/// for `gaussian_rows`. A fourth channel is kept. `rows` and `out` hold `height` rows of `width` pixels of `channels`
/// channels one after another. Block `(i, j)` treats [`COLUMN_THREADS`] columns of the `strip` rows from row `strip j`
/// on; fastest for a multiple of [`COLUMN_OUTPUTS`].
#[kernel(T = [u8, u16, f32], max_threads = COLUMN_THREADS, min_blocks = COLUMN_BLOCKS)]
pub fn gaussian_columns<T: Pixel>(
    rows: &[f32],
    row_len: usize,
    height: usize,
    has_alpha: u32,
    strip: usize,
    weights: &[f32],
    border: u32,
    constant: T,
    out: SliceMut<'_, T>,
) {
    let elements = height.checked_mul(row_len);
    let j = thread::index_1d();
    if j >= row_len || elements.is_none_or(|elements| elements > Ord::min(rows.len(), out.len())) {
        return;
    }
    // SAFETY: `j < row_len`, and `rows` has `height` rows of that length.
    let column = unsafe { Column::new(rows, row_len, height, j, border, constant.to_f32()) };
    // SAFETY: only rows of the array are set, and `j < row_len`.
    let set = |y: usize, value| unsafe { out.set_vec_unchecked(y * row_len + j, [T::from_f32(value)]) };
    let mut first = (thread::block_idx_y() as usize).saturating_mul(strip);
    let end = Ord::min(first.saturating_add(strip), height);
    if has_alpha != 0 && j % 4 == 3 {
        for y in first..end {
            set(y, column.get(y));
        }
        return;
    }
    let radius = weights.len() / 2;
    while first < end {
        if column.has_around(first, radius, COLUMN_OUTPUTS - 1 + radius) && first + COLUMN_OUTPUTS <= end {
            // SAFETY: from `first − radius` to `first + COLUMN_OUTPUTS − 1 + radius`, which are there, as just asked.
            let sums = convolve([0.0; COLUMN_OUTPUTS], weights, unsafe { column.down(first - radius) });
            for m in 0..COLUMN_OUTPUTS {
                set(first + m, sums[m]);
            }
            first += COLUMN_OUTPUTS;
            continue;
        }
        let mut from = first.wrapping_sub(radius);
        let next = || {
            let value = column.get(from);
            from = from.wrapping_add(1);
            value
        };
        let sums = convolve([0.0; EDGE_OUTPUTS], weights, next);
        for m in 0..EDGE_OUTPUTS {
            let y = first + m;
            if y < end {
                let is_whole = border != MISSING;
                let value = if is_whole {
                    sums[m]
                } else {
                    renormalized(sums[m], weights, y, height)
                };
                set(y, value);
            }
        }
        first += EDGE_OUTPUTS;
    }
}
