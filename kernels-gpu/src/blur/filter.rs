// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weighted sums of the pixels around each, with any weights, of any number of channels.
//!
//! A thread has several neighbours of a channel in a few rows. It goes through the rows of the picture that these need, and in each
//! through the weights of a row: a pixel that it loads counts for all its results whose window it is in, of which it keeps the sums in
//! registers. The pixels of a weight are those of the weight before it and one more, which takes the place of the first.
//!
//! `fma(w[n−1], x[n−1], … fma(w[1], x[1], fma(w[0], x[0], +0)) …)` in `f32`, with the weights row by row: the same bits on every device.

use cuda_std::prelude::*;

use super::border::{source, split};
use super::sample::Sample;
use crate::matmul::unroll;

/// Threads of a block.
pub const THREADS: usize = 128;

/// The most rows of results that a thread has.
pub const ROWS: usize = 4;

/// One channel of a picture, and what lies beyond its edges.
struct Channel<'a, T> {
    pixels: &'a [T],
    shape: [usize; 2],
    /// How many there are, and which this is.
    channels: usize,
    channel: usize,
    border: u32,
    constant: T,
}

impl<T: bytemuck::Pod> Channel<'_, T> {
    /// Where row `y` begins, or that of the border, if it has any; a row above the first has wrapped around.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn row(&self, y: usize) -> Option<usize> {
        let [height, width] = self.shape;
        let row = if y < height {
            Some(y)
        } else {
            source(self.border, y, height)
        };
        row.map(|y| y * width * self.channels + self.channel)
    }

    /// The number in column `x` of the row that begins at `start`; one before the first has wrapped around.
    ///
    /// # Safety
    ///
    /// The picture has that row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn get(&self, start: Option<usize>, x: usize) -> T {
        let [_, width] = self.shape;
        let column = if x < width {
            Some(x)
        } else {
            source(self.border, x, width)
        };
        match (start, column) {
            // SAFETY: a column of that row.
            (Some(start), Some(column)) => unsafe { self.at(start + column * self.channels) },
            _ => self.constant,
        }
    }

    /// Number `at` of the picture.
    ///
    /// # Safety
    ///
    /// There is one.
    #[inline(always)]
    unsafe fn at(&self, at: usize) -> T {
        // SAFETY: as promised.
        let [value] = unsafe { self.pixels.load_vec_unchecked(at) };
        value
    }
}

/// The weights of a row of the picture, for each row of a thread's results.
struct Taps<'a> {
    weights: &'a [f32],
    /// How many a row has.
    len: usize,
    /// Where they begin for the first row of results; for each further one, a row before.
    start: usize,
    /// The rows of results that have such.
    counts: [bool; ROWS],
}

impl Taps<'_> {
    /// Adds the products with weight `j` to the sums; pixel `v` is number `(first + v) % V` of the window.
    ///
    /// # Safety
    ///
    /// The rows that count have weights, more than `j`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn add<const V: usize>(&self, j: usize, window: &[f32; V], first: usize, sums: &mut [[f32; V]; ROWS]) {
        unroll!(4, r => {
            if self.counts[r] {
                // SAFETY: as promised.
                let [weight] = unsafe { self.weights.load_vec_unchecked(self.start + j - r * self.len) };
                for v in 0..V {
                    sums[r][v] = Float::mul_add(weight, window[(first + v) % V], sums[r][v]);
                }
            }
        });
    }

    /// Adds the products with `V` numbers of a channel and those behind them, the first of which is number `at` of the picture.
    ///
    /// # Safety
    ///
    /// As of [`add`](Self::add) for all weights, of which there is one; and the picture has the numbers, all in one row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn inside<T: Sample<V>, const V: usize>(
        &self,
        picture: &Channel<'_, T>,
        mut at: usize,
        sums: &mut [[f32; V]; ROWS],
    ) {
        let mut next = || {
            // SAFETY: one of those.
            let value = unsafe { picture.at(at) };
            at += picture.channels;
            value.widen_one()
        };
        // Number `k` is in place `k % V`.
        let mut window: [f32; V] = cuda_std::array::from_fn(|_| next());
        let mut j = 0;
        loop {
            unroll!(8, t => {
                if t < V {
                    // SAFETY: as promised.
                    unsafe { self.add(j, &window, t, sums) };
                    j += 1;
                    if j == self.len {
                        return;
                    }
                    window[t] = next();
                }
            });
        }
    }

    /// The same where numbers may lie beyond the picture's edges: from column `x` on of the row that begins at `start`.
    ///
    /// # Safety
    ///
    /// As of [`add`](Self::add) for all weights, and of [`Channel::get`].
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn crossing<T: Sample<V>, const V: usize>(
        &self,
        picture: &Channel<'_, T>,
        start: Option<usize>,
        x: usize,
        sums: &mut [[f32; V]; ROWS],
    ) {
        let mut window = [0.0; V];
        let mut k = 0;
        while k < self.len + V - 1 {
            // SAFETY: as promised.
            let next = unsafe { picture.get(start, x.wrapping_add(k)) }.widen_one();
            window = cuda_std::array::from_fn(|v| if v + 1 < V { window[v + 1] } else { next });
            k += 1;
            if k >= V {
                // SAFETY: as promised.
                unsafe { self.add(k - V, &window, 0, sums) };
            }
        }
    }
}

/// `out` is, for each channel of each pixel, the sum of those around it times the `weights`, of which there are rows of `taps`, rounded
/// as [`Pixel::from_f32`](crate::pixel::Pixel::from_f32); the weight of the pixel itself is in the middle, of an even number behind it. A
/// fourth channel is kept. Beyond the edges lies `border` (a number of [`super::border`]), or `constant` if that has no pixel. `pixels` and
/// `out` hold `height` rows of `width` pixels of `channels` channels, and there is a row of weights, or nothing is done. Each thread has `V` pixels of a channel in
/// `rows` rows, at most [`ROWS`]; blocks are numbered along the rows.
#[kernel(T = [u8, u16], V = [8]; T = [f32], V = [4], max_threads = THREADS)]
pub fn filter<T: Sample<V>, const V: usize>(
    pixels: &[T],
    width: usize,
    height: usize,
    channels: usize,
    weights: &[f32],
    taps: usize,
    rows: u32,
    border: u32,
    constant: T,
    out: SliceMut<'_, T>,
) {
    let elements = width.checked_mul(channels).and_then(|row| row.checked_mul(height));
    let (weight_rows, _) = split(weights.len(), taps);
    if elements.is_none_or(|elements| elements > Ord::min(pixels.len(), out.len())) || channels == 0 || weight_rows == 0
    {
        return;
    }
    let threads_across = width.div_ceil(V) * channels;
    let (strip, block) = split(thread::block_idx_x() as usize, threads_across.div_ceil(THREADS));
    let (group, channel) = split(block * THREADS + thread::thread_idx_x() as usize, channels);
    let (x, y) = (group * V, strip.saturating_mul(rows as usize));
    if x >= width || y >= height || rows == 0 {
        return;
    }
    let picture = Channel {
        pixels,
        shape: [height, width],
        channels,
        channel,
        border,
        constant,
    };
    let kept = channels == 4 && channel == 3;
    let together = channels == 1 && width.is_multiple_of(V) && out.is_vec_aligned::<V>();
    let rows = Ord::min(rows as usize, ROWS);
    let mut sums = [[0.0; V]; ROWS];
    if !kept {
        let first = x.wrapping_sub(taps / 2);
        let is_inside = first < width && width - first >= V + taps - 1;
        let mut i = 0;
        while i < weight_rows + rows - 1 {
            let taps = Taps {
                weights,
                len: taps,
                start: i * taps,
                counts: cuda_std::array::from_fn(|r| r < rows && i.wrapping_sub(r) < weight_rows),
            };
            // SAFETY (of both): result `r` has row `i − r` of the weights, if there is one; rows of the picture, and columns of it.
            match picture.row(y.wrapping_add(i).wrapping_sub(weight_rows / 2)) {
                Some(start) if is_inside => unsafe {
                    taps.inside(&picture, start + first * channels, &mut sums);
                },
                start => unsafe { taps.crossing(&picture, start, first, &mut sums) },
            }
            i += 1;
        }
    }
    unroll!(4, r => {
        if r < rows && y + r < height {
            let start = (y + r) * width * channels + channel;
            let values: [T; V] = bytemuck::cast(T::round(sums[r]));
            if together {
                // SAFETY: the thread's own pixels of a row of `out`, whose rows begin at vectors, as the pixels do.
                unsafe { out.set_vec_unchecked(start + x, values) };
            } else {
                let mut at = start + x * channels;
                for v in 0..V {
                    if x + v < width {
                        // SAFETY (of both): the thread's own channel of a pixel of the picture.
                        let value = if kept { unsafe { picture.at(at) } } else { values[v] };
                        unsafe { out.set_vec_unchecked(at, [value]) };
                    }
                    at += channels;
                }
            }
        }
    });
}
