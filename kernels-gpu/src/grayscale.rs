// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colour pictures to gray: a weighted sum of red, green and blue.
//!
//! `grayscale` has weights in ten-thousandths and computes in exact integers, so it gives the real value rounded to
//! nearest, halves up. `grayscale_fused` has weights in `f32` and computes with fused multiply-adds in a fixed order.
//! Each pixel is read once and each gray written once: `C + 1` numbers moved for a pixel of `C` channels. A thread
//! treats as many neighbouring pixels as have 16 bytes of gray, in `C` loads of 16 bytes and one store: a warp's loads
//! leave gaps, but those are the next load's, and the cache has them.

use cuda_std::prelude::*;

use crate::pixel::Pixel;
use crate::tile::{self, Body};

pub use crate::tile::THREADS;

/// Pixels that a block treats: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T>() -> usize {
    tile::tile_len(size_of::<T>())
}

/// What the weights of `grayscale` add up to.
pub const WHOLE: u32 = 10_000;

/// `gray[i] = luma(red, green, blue)` of pixel `i`.
struct Gray<'a, T, F, const C: usize> {
    pixels: &'a [T],
    gray: SliceMut<'a, T>,
    luma: F,
}

impl<T: Pixel, F: Fn([T; 3]) -> T, const C: usize> Body for Gray<'_, T, F, C> {
    const LARGEST: usize = size_of::<T>();

    #[inline(always)]
    fn len(&self) -> usize {
        Ord::min(self.gray.len(), self.pixels.len() / C)
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(&self) -> bool {
        self.pixels.is_vec_aligned::<N>() && self.gray.is_vec_aligned::<N>()
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn vector<const N: usize>(&self, i: usize) {
        // SAFETY: pixels `i .. i + N` exist, by the caller's promise, and `i C` is a multiple of `N`.
        let loaded: [[T; N]; C] =
            cuda_std::array::from_fn(|v| unsafe { self.pixels.load_vec_unchecked(i * C + v * N) });
        // Numbers `C k` and after of the vectors, one after another.
        let results = cuda_std::array::from_fn(|k| {
            (self.luma)(cuda_std::array::from_fn(|c| loaded[(C * k + c) / N][(C * k + c) % N]))
        });
        // SAFETY: as above.
        unsafe { self.gray.set_vec_unchecked::<N>(i, results) };
    }

    #[inline(always)]
    fn element(&self, i: usize) {
        if i < self.len() {
            // SAFETY (of both): the pixel exists in both arrays, as just asked; single numbers are always aligned.
            let colours = cuda_std::array::from_fn(|c| unsafe { self.pixels.load_vec_unchecked::<1>(i * C + c)[0] });
            unsafe { self.gray.set_vec_unchecked(i, [(self.luma)(colours)]) };
        }
    }
}

/// `gray[i]` is `(red R + green G + blue B) / 10 000`, rounded to nearest, halves up, of pixel `i` of `pixels`, which
/// has `C` channels (RGB or RGBA; alpha is not looked at) and `C` times the length of `gray`. The weights add up to
/// [`WHOLE`].
#[kernel(T = [u8, u16], C = [3, 4], max_threads = THREADS)]
pub fn grayscale<T: Pixel + Into<u32> + TryFrom<u32>, const C: usize>(
    pixels: &[T],
    red: u32,
    green: u32,
    blue: u32,
    gray: SliceMut<'_, T>,
) {
    let luma = |colours: [T; 3]| {
        let [r, g, b] = cuda_std::array::map(colours, Into::into);
        // Below 2^16 · WHOLE + WHOLE / 2, which is below 2^32.
        let weighted = |weight: u32, colour: u32| weight.wrapping_mul(colour);
        let sum = weighted(red, r)
            .wrapping_add(weighted(green, g))
            .wrapping_add(weighted(blue, b));
        let luma = sum.wrapping_add(WHOLE / 2) / WHOLE;
        // A mean of numbers of the type, which always is one; weights that add up to more are the caller's mistake.
        T::try_from(luma).unwrap_or(T::zeroed())
    };
    tile::for_tile(&Gray::<T, _, C> { pixels, gray, luma });
}

/// `gray[i]` is `fma(blue, B, fma(green, G, red · R))` in `f32`, rounded as [`Pixel::from_f32`], of pixel `i` of
/// `pixels`, which has `C` channels (RGB or RGBA; alpha is not looked at) and `C` times the length of `gray`.
#[kernel(T = [u8, u16, f32], C = [3, 4], max_threads = THREADS)]
pub fn grayscale_fused<T: Pixel, const C: usize>(pixels: &[T], red: f32, green: f32, blue: f32, gray: SliceMut<'_, T>) {
    let luma = |colours: [T; 3]| {
        let [r, g, b] = cuda_std::array::map(colours, Pixel::to_f32);
        T::from_f32(Float::mul_add(blue, b, Float::mul_add(green, g, red * r)))
    };
    tile::for_tile(&Gray::<T, _, C> { pixels, gray, luma });
}
