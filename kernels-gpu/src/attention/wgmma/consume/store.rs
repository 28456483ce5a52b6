// SPDX-License-Identifier: MIT OR Apache-2.0
//! How results are stored: what a thread has of a line goes to `out` by 16 bytes, and log-sums beside it.

use cuda_std::float::approximate;
use cuda_std::half::pack;
use cuda_std::prelude::*;
use cuda_std::wgmma::{Accumulator, Registers};

use super::{Sums, Told};
use crate::attention::wgmma::{Block, Half, dim};
use crate::matmul::unroll;

impl<T: Half, const R: usize, const FORMS: bool> Block<'_, T, R, FORMS>
where
    [f32; R]: Registers,
{
    /// Divides the sums, and stores them: 16 queries of the warp, whose first one in the tile is said, where there are so many lines from the
    /// first one of the tile on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store(
        &self,
        values: &Accumulator<R>,
        sums: &Sums,
        (first, rows): (usize, u32),
        (of_warp, out, log_sums): (u32, SliceMut<'_, T>, SliceMut<'_, f32>),
    ) {
        let lane = thread::thread_idx_x() % 32;
        unroll!(2, half => {
            let sum = sums.sum[half];
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 1);
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 2);
            let row = of_warp + lane / 4 + 8 * half as u32;
            let line = (row < rows).then_some(first + row as usize);
            if let Some(line) = line && lane.is_multiple_of(4) && line < log_sums.len() {
                let log_sum = (Float::log2(sum) - sums.base[half]) * core::f32::consts::LN_2;
                log_sums.set(line, log_sum);
            }
            // Without a key: what was multiplied by 0 may have been infinite.
            let (is_empty, factor) = (sum == 0.0, approximate::recip(sum));
            // SAFETY: the line is in `out`, by the kernel's contract.
            unsafe { store_line(values, half, &out, line, |value| if is_empty { 0.0 } else { value * factor }) };
        });
    }

    /// The line of a tile's first query among all results, and how many lines there are from it on of its sequence.
    #[inline(always)]
    pub(super) fn lines(&self, told: &Told) -> (usize, u32) {
        let sequence = &told.sequence;
        let first = told.head as usize * self.shape.queries as usize + (sequence.first_query + told.row) as usize;
        (first, sequence.queries - told.row)
    }
}

/// Stores what `f` makes of the thread's elements of its first or second row to a line of `out`, if there is that line. For whole warps.
///
/// # Safety
///
/// The line is in `out`, and lines begin at multiples of 16 bytes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(in crate::attention::wgmma) unsafe fn store_line<T: Half, const R: usize>(
    values: &Accumulator<R>,
    half: usize,
    out: &SliceMut<'_, T>,
    line: Option<usize>,
    f: impl Fn(f32) -> f32,
) where
    [f32; R]: Registers,
{
    let lane = thread::thread_idx_x() % 32;
    let value = |i: usize| f(values.element(i));
    unroll!(R / 16, part => {
        let pair = |i: usize| pack::<T>(value(16 * part + 4 * i + 2 * half), value(16 * part + 4 * i + 2 * half + 1));
        let words = exchange([pair(0), pair(1), pair(2), pair(3)], lane);
        if let Some(line) = line {
            let at = line * dim(R) + part * 32 + lane as usize % 4 * 8;
            // SAFETY: in the line, by the caller's promise; at a multiple of 16 bytes.
            unsafe { out.set_vec_unchecked::<8>(at, bytemuck::cast(words)) };
        }
    });
}

/// Has four lanes exchange words: lane `i` of them gets word `i` of each, in their order.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn exchange(words: [u32; 4], lane: u32) -> [u32; 4] {
    // A matrix of 4 × 4 is transposed by 2 × 2 blocks of single words, then of pairs. What goes is chosen ahead of the shuffle: in two
    // branches there would be two of them.
    let swap = |number: u32, [a, b]: [u32; 2]| {
        let is_low = lane & number == 0;
        let (keeps, goes) = if is_low { (a, b) } else { (b, a) };
        let other = warp::shuffle_xor(warp::FULL_MASK, goes, number);
        if is_low { [keeps, other] } else { [other, keeps] }
    };
    let ([a, b], [c, d]) = (swap(1, [words[0], words[1]]), swap(1, [words[2], words[3]]));
    let ([a, c], [b, d]) = (swap(2, [a, c]), swap(2, [b, d]));
    [a, b, c, d]
}
