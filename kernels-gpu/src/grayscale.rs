// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colour pictures to gray: a weighted sum of red, green and blue.
//!
//! `grayscale` has weights in ten-thousandths and computes in exact integers, so it gives the real value rounded to
//! nearest, halves up. `grayscale_fused` has weights in `f32` and computes with fused multiply-adds in a fixed order.
//! Each pixel is read once and each gray written once: `C + 1` numbers moved for a pixel of `C` channels. One thread for
//! each pixel.

use cuda_std::prelude::*;

use crate::pixel::Pixel;

/// Threads of a block; each treats one pixel.
pub const THREADS: usize = 256;

/// What the weights of `grayscale` add up to.
pub const WHOLE: u32 = 10_000;

/// `gray[i]` is `(red R + green G + blue B) / 10 000`, rounded to nearest, halves up, of pixel `i` of `pixels`, which has
/// `C` channels (RGB or RGBA; alpha is not looked at) and `C` times the length of `gray`. The weights add up to [`WHOLE`].
#[kernel(T = [u8, u16], C = [3, 4], max_threads = THREADS)]
pub fn grayscale<T: Pixel + Into<u32> + TryFrom<u32>, const C: usize>(
    pixels: &[T],
    red: u32,
    green: u32,
    blue: u32,
    gray: SliceMut<'_, T>,
) {
    let i = thread::index_1d();
    if i >= Ord::min(gray.len(), pixels.len() / C) {
        return;
    }
    // SAFETY: pixel `i` ends within `pixels`, as just asked.
    let [r, g, b] = unsafe { colours::<T, C>(pixels, i) }.map(Into::into);
    // Below 2^16 · WHOLE + WHOLE / 2, which is below 2^32.
    let luma = (red * r + green * g + blue * b + WHOLE / 2) / WHOLE;
    // A mean of numbers of the type, which always is one; weights that add up to more are the caller's mistake.
    if let Ok(luma) = T::try_from(luma) {
        gray.set(i, luma);
    }
}

/// `gray[i]` is `fma(blue, B, fma(green, G, red · R))` in `f32`, rounded as [`Pixel::from_f32`], of pixel `i` of
/// `pixels`, which has `C` channels (RGB or RGBA; alpha is not looked at) and `C` times the length of `gray`.
#[kernel(T = [u8, u16, f32], C = [3, 4], max_threads = THREADS)]
pub fn grayscale_fused<T: Pixel, const C: usize>(pixels: &[T], red: f32, green: f32, blue: f32, gray: SliceMut<'_, T>) {
    let i = thread::index_1d();
    if i >= Ord::min(gray.len(), pixels.len() / C) {
        return;
    }
    // SAFETY: pixel `i` ends within `pixels`, as just asked.
    let [r, g, b] = unsafe { colours::<T, C>(pixels, i) }.map(Pixel::to_f32);
    let luma = Float::mul_add(blue, b, Float::mul_add(green, g, red * r));
    gray.set(i, T::from_f32(luma));
}

/// Red, green and blue of pixel `i`.
///
/// # Safety
///
/// `(i + 1) C` is at most the length.
#[inline(always)]
unsafe fn colours<T: Pixel, const C: usize>(pixels: &[T], i: usize) -> [T; 3] {
    // SAFETY (of both): by the caller's promise; a vector of 4 is only loaded where the first is aligned, so every pixel
    // is.
    if C == 4 && pixels.is_vec_aligned::<4>() {
        let [r, g, b, _] = unsafe { pixels.load_vec_unchecked::<4>(i * 4) };
        return [r, g, b];
    }
    core::array::from_fn(|c| unsafe { pixels.load_vec_unchecked::<1>(i * C + c) }[0])
}
