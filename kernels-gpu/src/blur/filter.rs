// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weighted sums of the pixels around each, with any weights.
//!
//! `filter_3x3` takes 3 × 3 weights of pictures of one channel: a thread has several neighbours in a row, 16 bytes or 8 of them, and
//! goes down a strip of the picture. Each row that it reads counts for three rows of results, of which it keeps the sums in
//! registers; so each pixel is loaded once, but for those at a thread's and a strip's edges. `filter` takes any weights and channels, a
//! thread for each result.
//!
//! Both compute `fma(w[n−1], x[n−1], … fma(w[1], x[1], fma(w[0], x[0], +0)) …)` in `f32`, with the weights row by row: the same
//! bits on every device.

use cuda_std::bits::byte_perm;
use cuda_std::prelude::*;

use super::border::{Row, source, split};
use crate::pixel::Pixel;

/// Threads of a block.
pub const THREADS: usize = 128;

/// Pixels of a picture that a thread of `filter_3x3` has side by side.
pub trait Sample: Pixel {
    /// As `f32`.
    fn widen<const V: usize>(pixels: [Self; V]) -> [f32; V] {
        cuda_std::array::map(pixels, Self::to_f32)
    }
}

impl Sample for f32 {}

impl Sample for u16 {}

impl Sample for u8 {
    /// By the bits of 2²³ + x, which take no conversion: there are few units for that.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn widen<const V: usize>(pixels: [u8; V]) -> [f32; V] {
        const MAGIC: f32 = 8_388_608.0;
        cuda_std::array::from_fn(|i| {
            let first = i / 4 * 4;
            let byte = |at: usize| {
                if first + at < V {
                    u32::from(pixels[first + at])
                } else {
                    0
                }
            };
            let word = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
            f32::from_bits(byte_perm(word, MAGIC.to_bits(), 0x7440 | (i % 4) as u32)) - MAGIC
        })
    }
}

/// 3 × 3 weights, row by row.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, KernelParam)]
pub struct Weights3x3 {
    /// The weights.
    pub weights: [f32; 9],
}

/// Neighbours in a row, and those beside them.
#[derive(Clone, Copy)]
struct Pixels<T, const V: usize> {
    left: T,
    middle: [T; V],
    right: T,
}

/// Where a thread's pixels are.
struct Strip<'a, T> {
    pixels: &'a [T],
    /// Rows and columns.
    shape: [usize; 2],
    column: usize,
    border: u32,
    constant: T,
    /// Whether the pixels are loaded together: then their row has all of them.
    wide: bool,
}

impl<T: Sample> Strip<'_, T> {
    /// The pixels of row `y`; a row above the first has wrapped around.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn load<const V: usize>(&self, y: usize) -> Pixels<T, V> {
        let [height, width] = self.shape;
        let existing = if y < height {
            Some(y)
        } else {
            source(self.border, y, height)
        };
        let Some(y) = existing else {
            return Pixels {
                left: self.constant,
                middle: [self.constant; V],
                right: self.constant,
            };
        };
        // SAFETY: a row of the picture.
        let row = unsafe { Row::<T, 1>::new(self.pixels, y, width, self.border, self.constant) };
        let middle = if self.wide {
            // SAFETY: the row has all of them, and a whole number of vectors, as the picture's start is aligned.
            unsafe { self.pixels.load_vec_unchecked::<V>(y * width + self.column) }
        } else {
            cuda_std::array::from_fn(|i| row.get(self.column + i))
        };
        Pixels {
            left: row.get(self.column.wrapping_sub(1)),
            middle,
            right: row.get(self.column + V),
        }
    }
}

/// `out` is, for each pixel, the sum of the 3 × 3 around it times the weights, rounded as [`Pixel::from_f32`]. Beyond the edges lies
/// `border` (a number of [`super::border`]), or `constant` if that has no pixel. `pixels` and `out` hold `height` rows of `width` pixels,
/// or nothing is done. Block `(i, j)`, of [`THREADS`] threads, treats `V` columns for each thread of the `rows` rows from row `rows j` on.
#[kernel(T = [u8, u16], V = [8]; T = [f32], V = [4], max_threads = THREADS)]
pub fn filter_3x3<T: Sample, const V: usize>(
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
    let column = thread::index_1d().saturating_mul(V);
    if column >= width || elements.is_none_or(|elements| elements > Ord::min(pixels.len(), out.len())) {
        return;
    }
    let first = (thread::block_idx_y() as usize).saturating_mul(rows as usize);
    let end = Ord::min(first.saturating_add(rows as usize), height);
    if first >= end {
        return;
    }
    let strip = Strip {
        pixels,
        shape: [height, width],
        column,
        border,
        constant,
        wide: width.is_multiple_of(V) && pixels.is_vec_aligned::<V>() && out.is_vec_aligned::<V>(),
    };
    let [w0, w1, w2, w3, w4, w5, w6, w7, w8] = weights.weights;
    // The sums of the row before the one that is read, and of that one.
    let (mut above, mut here) = ([0.0; V], [0.0; V]);
    let mut next = strip.load::<V>(first.wrapping_sub(1));
    let mut i = 0;
    while i < end - first + 2 {
        let current = next;
        if i < end - first + 1 {
            // On its way while this one is added.
            next = strip.load::<V>(first + i);
        }
        let middle = T::widen(current.middle);
        let [left, right] = T::widen([current.left, current.right]);
        let add = |sums: [f32; V], [a, b, c]: [f32; 3]| -> [f32; V] {
            cuda_std::array::from_fn(|j| {
                let before = if j == 0 { left } else { middle[j - 1] };
                let behind = if j + 1 == V { right } else { middle[j + 1] };
                Float::mul_add(
                    c,
                    behind,
                    Float::mul_add(b, middle[j], Float::mul_add(a, before, sums[j])),
                )
            })
        };
        let done = add(above, [w6, w7, w8]);
        above = add(here, [w3, w4, w5]);
        here = add([0.0; V], [w0, w1, w2]);
        if i >= 2 {
            let at = (first + i - 2) * width + column;
            let values = cuda_std::array::map(done, T::from_f32);
            if strip.wide {
                // SAFETY: a row of the picture, which has all of them, aligned as where they are loaded from.
                unsafe { out.set_vec_unchecked(at, values) };
            } else {
                for j in 0..V {
                    if column + j < width {
                        // SAFETY: a pixel of that row.
                        unsafe { out.set_vec_unchecked(at + j, [values[j]]) };
                    }
                }
            }
        }
        i += 1;
    }
}

/// `out` is, for each channel of each pixel, the sum of those around it times the `weights`, of which there are rows of `taps`, rounded
/// as [`Pixel::from_f32`]; the weight of the pixel itself is in the middle, of an even number behind it. A fourth channel is kept. Border
/// and constant are as for `filter_3x3`. `pixels` and `out` hold `height` rows of `width` pixels of `channels` channels, or nothing is
/// done.
#[kernel(T = [u8, u16, f32], max_threads = THREADS)]
pub fn filter<T: Pixel>(
    pixels: &[T],
    width: usize,
    height: usize,
    channels: usize,
    weights: &[f32],
    taps: usize,
    border: u32,
    constant: T,
    out: SliceMut<'_, T>,
) {
    let Some(row_len) = width.checked_mul(channels) else {
        return;
    };
    let elements = row_len.checked_mul(height);
    if elements.is_none_or(|elements| elements > Ord::min(pixels.len(), out.len())) {
        return;
    }
    let (rows, _) = split(weights.len(), taps);
    let (above, before) = (rows / 2, taps / 2);
    let mut number = thread::index_1d();
    while number < row_len * height {
        let (y, element) = split(number, row_len);
        let (x, channel) = split(element, channels);
        // SAFETY (of all): pixels and channels of the picture, and weights, as counted.
        let at = |y: usize, x: usize| unsafe {
            let [value] = pixels.load_vec_unchecked::<1>(y * row_len + x * channels + channel);
            value
        };
        let value = if channels == 4 && channel == 3 {
            at(y, x)
        } else {
            let mut sum = 0.0;
            for i in 0..rows {
                let row = y.wrapping_add(i).wrapping_sub(above);
                let row = if row < height {
                    Some(row)
                } else {
                    source(border, row, height)
                };
                for j in 0..taps {
                    let column = x.wrapping_add(j).wrapping_sub(before);
                    let column = if column < width {
                        Some(column)
                    } else {
                        source(border, column, width)
                    };
                    let pixel = match (row, column) {
                        (Some(row), Some(column)) => at(row, column),
                        _ => constant,
                    };
                    let [weight] = unsafe { weights.load_vec_unchecked::<1>(i * taps + j) };
                    sum = Float::mul_add(weight, pixel.to_f32(), sum);
                }
            }
            T::from_f32(sum)
        };
        unsafe { out.set_vec_unchecked(number, [value]) };
        number += thread::stride_1d();
    }
}
