// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Gaussian blur: a weighted mean, first along the rows (`gaussian_rows`), then along the columns
//! (`gaussian_columns`), with the numbers between the passes in `f32`.
//!
//! Both passes compute `fma(w[t−1], x[i+r], … fma(w[1], x[i−r+1], fma(w[0], x[i−r], +0)) …)` for `t = 2 r + 1` weights,
//! in this order, so every device gives the same bits. Each thread computes several neighbours, of which each number
//! that is read serves all: the numbers slide through its registers. Along a row the block brings the numbers to shared
//! memory, already widened and with those beyond the row's ends, as many weights at a time as there is room for; along
//! a column they come from the cache.
//!
//! Work `t n` fused multiply-adds for each pass; for `n` pixels of `C` channels of `p` bytes, at least `C n (2 p + 8)`
//! bytes are moved.

use cuda_std::prelude::*;

use super::border::{Column, MISSING, Row, existing, split};
use crate::pixel::Pixel;

/// Threads of a block along the rows: a multiple of every number of channels, so that a thread has one.
pub const ROW_THREADS: usize = 192;

/// Pixels of a thread along the rows. Odd, so that the threads of a warp read from different banks of shared memory.
const ROW_OUTPUTS: usize = 5;

/// The weights that are applied between two barriers.
const CHUNK: usize = 64;

/// Numbers in shared memory: a power of two above those that are used.
const TILE: usize = 2048;

const _: () = assert!(ROW_THREADS * ROW_OUTPUTS + (CHUNK - 1) * 4 <= TILE && ROW_THREADS.is_multiple_of(12));

/// Pixels of `channels` channels that a block treats at once along a row.
pub const fn row_tile(channels: usize) -> usize {
    ROW_THREADS / channels * ROW_OUTPUTS
}

/// Threads of a block along the columns.
pub const COLUMN_THREADS: usize = 256;

/// Blocks along the columns on a multiprocessor, at the least: few enough that no kernel spills registers.
const MIN_COLUMN_BLOCKS: usize = 2;

/// Rows that a thread treats at once along a column.
pub const COLUMN_OUTPUTS: usize = 8;

/// Adds the products of `taps` weights, in their order, to `sums`: to number `m` that of weight `k` and value `m + k`.
// By constant indices once unrolled: an iterator over the arrays would keep them in local memory.
#[inline(always)]
fn convolve<const M: usize>(
    mut sums: [f32; M],
    taps: usize,
    weight: impl Fn(usize) -> f32,
    value: impl Fn(usize) -> f32,
) -> [f32; M] {
    // Value `k + m` is at `(k + m) % M`: the registers turn, and nothing is moved, where M weights are applied in a
    // row.
    let mut values: [f32; M] = core::array::from_fn(|m| if m + 1 < M { value(m) } else { 0.0 });
    let mut k = 0;
    while k + M <= taps {
        for s in 0..M {
            values[(s + M - 1) % M] = value(k + s + M - 1);
            let w = weight(k + s);
            for m in 0..M {
                sums[m] = Float::mul_add(w, values[(s + m) % M], sums[m]);
            }
        }
        k += M;
    }
    while k < taps {
        values[M - 1] = value(k + M - 1);
        let w = weight(k);
        for m in 0..M {
            sums[m] = Float::mul_add(w, values[m], sums[m]);
        }
        values = core::array::from_fn(|m| if m + 1 < M { values[m + 1] } else { 0.0 });
        k += 1;
    }
    sums
}

/// `sum`, of position `i` of `n`, divided by the sum of the weights that were for existing positions, in their order.
#[inline(always)]
fn renormalized(sum: f32, weights: &[f32], i: usize, n: usize) -> f32 {
    let radius = weights.len() / 2;
    let count = existing(i, radius, n);
    if count == weights.len() {
        return sum;
    }
    let first = radius.saturating_sub(i);
    let mut total = 0.0;
    for k in first..first + count {
        total += load(weights, k);
    }
    sum / total
}

/// Weight `k`.
#[inline(always)]
fn load(weights: &[f32], k: usize) -> f32 {
    if k < weights.len() {
        // SAFETY: in bounds, as just asked.
        let [weight] = unsafe { weights.load_vec_unchecked(k) };
        weight
    } else {
        0.0
    }
}

/// `out` is, for each channel of each pixel, the weighted sum of those around it in its row, of which the middle one
/// has the middle one of the `weights`, of which there is an odd number. Beyond the row's ends lies `border` (a number
/// of [`super::border`]), or `constant` if that has no pixel; for [`MISSING`] that is 0, and the sum is divided by that
/// of the weights of existing pixels. A fourth channel is kept. `pixels` and `out` hold rows of `width` pixels one
/// after another; the row is at least as long as half of the weights, or the border's pixels are not those that it
/// names. Each block, of [`ROW_THREADS`] threads, treats [`row_tile`] pixels of a row, and then those as many on as
/// there are blocks.
#[kernel(T = [u8, u16, f32], C = [1, 3, 4], max_threads = ROW_THREADS)]
pub fn gaussian_rows<T: Pixel, const C: usize>(
    pixels: &[T],
    width: usize,
    weights: &[f32],
    border: u32,
    constant: T,
    out: SliceMut<'_, f32>,
) {
    let tile = shared_array![f32; TILE];
    let (height, _) = split(Ord::min(pixels.len(), out.len()), width * C);
    let blocks = width.div_ceil(row_tile(C));
    let t = thread::thread_idx_x() as usize;
    let (pixel, channel) = (t / C * ROW_OUTPUTS, t % C);
    let mut task = thread::block_idx_x() as usize;
    while task < height * blocks {
        let (y, block) = split(task, blocks);
        let first = block * row_tile(C);
        // SAFETY: `y < height`, so there is that row.
        let row = unsafe { Row::<T, C>::new(pixels, y, width, border, constant) };
        let sums = row_sums(&row, first, width, weights, tile, pixel * C + channel);
        // By constant indices once unrolled: an iterator over the array would keep it in local memory.
        for m in 0..ROW_OUTPUTS {
            let (x, sum) = (first + pixel + m, sums[m]);
            if x < width {
                let value = if C == 4 && channel == 3 {
                    row.get(x * C + channel).to_f32()
                } else if border == MISSING {
                    renormalized(sum, weights, x, width)
                } else {
                    sum
                };
                // SAFETY: `y < height` and `x < width`: a channel of a pixel of the picture.
                unsafe { out.set_vec_unchecked((y * width + x) * C + channel, [value]) };
            }
        }
        task += thread::grid_dim_x() as usize;
    }
}

/// The weighted sums of a thread's pixels, the first of which is element `at` of the tile that begins at pixel `first`.
///
/// # Convergence
///
/// All threads of the block call it.
#[inline(always)]
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
        // Pixels that the picture and its border have, and no more.
        let used = Ord::min(row_tile(C) + taps - 1, width - first + 2 * radius - k);
        let start = ((first + k) * C).wrapping_sub(radius * C);
        let mut i = thread::thread_idx_x() as usize;
        while i < (row_tile(C) + taps - 1) * C {
            let value = if i < used * C {
                row.get(start.wrapping_add(i)).to_f32()
            } else {
                0.0
            };
            // SAFETY: at most row_tile + CHUNK − 1 pixels, which TILE has room for.
            unsafe { tile.set_unchecked(i, value) };
            i += thread::block_dim_x() as usize;
        }
        thread::sync_threads();
        // The mask changes no index; it spares the check.
        let value = |i: usize| tile.get((at + i * C) & (TILE - 1));
        sums = convolve(sums, taps, |i| load(weights, k + i), value);
        thread::sync_threads();
        k += taps;
    }
    sums
}

/// `out` is, for each channel of each pixel, the weighted sum, rounded as [`Pixel::from_f32`], of those of `rows` in
/// its column, where above and below the picture lies `border`, or `constant` if that has no row; weights and border as
/// for `gaussian_rows`. A fourth channel is kept. `rows` and `out` hold rows of `width` pixels of `channels` channels
/// one after another. Each block treats [`COLUMN_THREADS`] columns of [`COLUMN_OUTPUTS`] rows, and then those as many
/// on as there are blocks.
#[kernel(T = [u8, u16, f32], max_threads = COLUMN_THREADS, min_blocks = MIN_COLUMN_BLOCKS)]
pub fn gaussian_columns<T: Pixel>(
    rows: &[f32],
    width: usize,
    channels: usize,
    weights: &[f32],
    border: u32,
    constant: T,
    out: SliceMut<'_, T>,
) {
    let row_len = width * channels;
    let (height, _) = split(Ord::min(rows.len(), out.len()), row_len);
    let radius = weights.len() / 2;
    let threads = thread::block_dim_x() as usize;
    let (blocks, _) = split(row_len + threads - 1, threads);
    let mut task = thread::block_idx_x() as usize;
    while task < blocks * height.div_ceil(COLUMN_OUTPUTS) {
        let (number, block) = split(task, blocks);
        let (first, j) = (
            number * COLUMN_OUTPUTS,
            block * threads + thread::thread_idx_x() as usize,
        );
        task += thread::grid_dim_x() as usize;
        if j >= row_len {
            continue;
        }
        let is_alpha = channels == 4 && j % 4 == 3;
        // SAFETY: `j < row_len`, and `rows` has `height` rows of that length.
        let column = unsafe { Column::new(rows, row_len, height, j, border, constant.to_f32()) };
        // SAFETY: only rows of the array are set, and `j < row_len`.
        let set = |y: usize, value| unsafe { out.set_vec_unchecked(y * row_len + j, [T::from_f32(value)]) };
        let end = Ord::min(first + COLUMN_OUTPUTS, height);
        if is_alpha {
            for y in first..end {
                set(y, column.get(y));
            }
        } else if column.has_around(first, radius, COLUMN_OUTPUTS - 1 + radius) {
            // SAFETY: from `first − radius` to `first + COLUMN_OUTPUTS − 1 + radius`, which are there, as just asked.
            let value = |i: usize| unsafe { column.inside(first + i - radius) };
            let sums = convolve([0.0; COLUMN_OUTPUTS], weights.len(), |k| load(weights, k), value);
            for m in 0..COLUMN_OUTPUTS {
                set(first + m, sums[m]);
            }
        } else {
            for y in first..end {
                let value = |i: usize| column.get((y + i).wrapping_sub(radius));
                let [sum] = convolve([0.0], weights.len(), |k| load(weights, k), value);
                set(
                    y,
                    if border == MISSING {
                        renormalized(sum, weights, y, height)
                    } else {
                        sum
                    },
                );
            }
        }
    }
}
