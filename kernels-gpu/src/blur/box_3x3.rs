// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 3 × 3 box blur of pictures of bytes, in one pass.
//!
//! Each output is the mean of the pixel and those of its eight neighbours that exist, rounded to nearest, halves up.
//! `2 C n` bytes moved for `n` pixels of `C` channels; the neighbours come from the cache.

use cuda_std::prelude::*;

/// Width of a block in threads; each thread treats one pixel.
pub const THREADS_X: usize = 32;

/// Height of a block in threads.
pub const THREADS_Y: usize = 8;

/// Blurs a picture of `width` columns and `C` channels: gray, RGB or RGBA, whose alpha is kept as it is. `pixels` and
/// `out` hold its rows one after another. A two-dimensional launch as wide as the picture; threads step down its rows by
/// the height of the grid.
#[kernel(C = [1, 3, 4], max_threads = THREADS_X * THREADS_Y)]
pub fn box_blur_3x3<const C: usize>(pixels: &[u8], width: usize, out: SliceMut<'_, u8>) {
    let x = thread::block_idx_x() as usize * thread::block_dim_x() as usize + thread::thread_idx_x() as usize;
    let mut y = thread::block_idx_y() as usize * thread::block_dim_y() as usize + thread::thread_idx_y() as usize;
    if x >= width {
        return;
    }
    let height = Ord::min(pixels.len(), out.len()) / (width * C);
    while y < height {
        for c in 0..C {
            let i = (y * width + x) * C + c;
            // SAFETY: `x < width` and `y < height`, so all pixels around are in both arrays.
            unsafe {
                let blurred = if c == 3 {
                    load(pixels, i)
                } else {
                    mean_3x3::<C>(pixels, width, height, x, y, c)
                };
                out.set_vec_unchecked(i, [blurred]);
            }
        }
        y += thread::grid_dim_y() as usize * thread::block_dim_y() as usize;
    }
}

/// # Safety
///
/// `i` is in bounds.
#[inline(always)]
unsafe fn load(pixels: &[u8], i: usize) -> u8 {
    // SAFETY: the caller's promise; every address is aligned for one byte.
    let [pixel] = unsafe { pixels.load_vec_unchecked(i) };
    pixel
}

/// The mean of channel `c` over the pixels around (x, y) that exist.
///
/// # Safety
///
/// `pixels` has `height` rows of `width` pixels; `x < width` and `y < height`.
#[inline(always)]
unsafe fn mean_3x3<const C: usize>(pixels: &[u8], width: usize, height: usize, x: usize, y: usize, c: usize) -> u8 {
    // SAFETY (of all loads): pixels of the picture, by the caller's promise.
    let at = |column: usize, row: usize| unsafe { u32::from(load(pixels, (row * width + column) * C + c)) };
    let mut sum = 0;
    if x > 0 && x + 1 < width && y > 0 && y + 1 < height {
        // Nearly every pixel: loops that unroll, and a division by a constant.
        for row in 0..3 {
            for column in 0..3 {
                sum += at(x - 1 + column, y - 1 + row);
            }
        }
        return ((sum + 4) / 9) as u8;
    }
    let (left, right) = (x.saturating_sub(1), if x + 1 < width { x + 1 } else { x });
    let (top, bottom) = (y.saturating_sub(1), if y + 1 < height { y + 1 } else { y });
    for row in top..=bottom {
        for column in left..=right {
            sum += at(column, row);
        }
    }
    let count = ((right - left + 1) * (bottom - top + 1)) as u32;
    ((sum + count / 2) / count) as u8
}
