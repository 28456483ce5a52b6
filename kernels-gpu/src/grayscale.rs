// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colour pictures to gray.
//!
//! ITU-R BT.601 luma in exact integers: `(299 R + 587 G + 114 B + 500) / 1000`, so the real value rounded to nearest,
//! halves up. `(C + 1) n` bytes moved for `n` pixels of `C` channels.

use cuda_std::prelude::*;

/// Threads of a block; each treats one pixel.
pub const THREADS: usize = 256;

/// `gray[i]` is the luma of pixel `i` of `pixels`, which has `C` channels (RGB or RGBA; alpha is not looked at) and `C`
/// times the length of `gray`.
#[kernel(C = [3, 4], max_threads = THREADS)]
pub fn grayscale<const C: usize>(pixels: &[u8], gray: SliceMut<'_, u8>) {
    let i = thread::index_1d();
    if i >= Ord::min(gray.len(), pixels.len() / C) {
        return;
    }
    // SAFETY (of all): pixel `i` ends within `pixels`; a vector of 4 is only loaded where the first is aligned, so every
    // pixel is.
    let channel = |c: usize| unsafe { pixels.load_vec_unchecked::<1>(i * C + c) }[0];
    let [r, g, b] = if C == 4 && pixels.is_vec_aligned::<4>() {
        let [r, g, b, _] = unsafe { pixels.load_vec_unchecked::<4>(i * 4) };
        [r, g, b]
    } else {
        [channel(0), channel(1), channel(2)]
    };
    gray.set(i, luma(r, g, b));
}

/// The BT.601 luma of one pixel.
#[inline(always)]
pub fn luma(r: u8, g: u8, b: u8) -> u8 {
    ((299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) + 500) / 1000) as u8
}
