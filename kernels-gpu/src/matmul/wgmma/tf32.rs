// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is different where numbers are [`Tf32`]: `A` comes from registers where it lies along m, and `C` can be stored
//! transposed.
//!
//! A lane has neighbouring rows of such an `A`, `2 r` and `2 r + 1`, as the instruction's rows `r` and `r + 8`: so it reads
//! two numbers at a time, and writes two at a time where `C` is stored transposed. Which of its numbers a lane reads, or
//! writes, first depends on the lane, so that those of half a warp are in all banks.

use cuda_std::prelude::*;
use cuda_std::wgmma::{Accumulator, Fragment, KMajor, MatrixDescriptor, Registers, Tf32};

use super::{A_BYTES, Block, Input, LINE, Output, Place, Side, TRANSPOSED_BOX_ROWS, b_bytes, tile_k};
use crate::matmul::unroll;

/// Elements along k of a stage, and lines of a box.
const TILE_K: usize = tile_k(size_of::<f32>());

impl Input for Tf32 {
    const THROUGH_REGISTERS: bool = true;

    #[inline(always)]
    fn sums<C: Output, const R: usize>(
        block: &Block<'_, Self, C, R>,
        group: u32,
        place: &mut Place<R>,
    ) -> Accumulator<R>
    where
        [f32; R]: Registers,
    {
        match block.shape.a_along_m {
            0 => block.sums::<KMajor, KMajor>(group, place),
            _ => block.sums_through_registers(place),
        }
    }
}

impl<C: Output, const R: usize> Block<'_, Tf32, C, R>
where
    [f32; R]: Registers,
{
    /// As [`sums`](Block::sums), of an `A` along m.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sums_through_registers(&self, place: &mut Place<R>) -> Accumulator<R> {
        let b = MatrixDescriptor::<Tf32, KMajor>::new(self.operands(Self::B), <KMajor as Side<Tf32>>::LEADING, 1024);
        let b = |stage: u32, step: u32| b.advance(stage * b_bytes(R) as u32 + step * <KMajor as Side<Tf32>>::STEP);
        let leads = thread::thread_idx_x().is_multiple_of(32);

        let mut stage = place.stage;
        self.full(stage).wait(place.round);
        let mut a = self.fragments(stage);
        let mut sums = Accumulator::zero();
        let mut k = TILE_K as u32;
        loop {
            // SAFETY: the stage is full, and is not filled again before all warps have arrived at its barrier, which they
            // do when they have waited for what reads it. The fragments are older than the batch, and waited for.
            let running = unsafe {
                let sums = sums.start();
                let sums = sums.mma_fragment(&a[0], b(stage, 0));
                let sums = sums.mma_fragment(&a[1], b(stage, 1));
                let sums = sums.mma_fragment(&a[2], b(stage, 2));
                sums.mma_fragment(&a[3], b(stage, 3)).commit()
            };
            *place = place.next();
            if k >= self.shape.k {
                sums = running.wait_for(&a);
                self.free(stage).arrive_if(leads);
                return sums;
            }
            self.full(place.stage).wait(place.round);
            let next = self.fragments(place.stage);
            sums = running.wait_for(&a);
            self.free(stage).arrive_if(leads);
            (a, stage) = (next, place.stage);
            k += TILE_K as u32;
        }
    }

    /// This lane's part of 16 rows of `A`, those of its warp, in a stage that is full.
    #[inline(always)]
    fn fragments(&self, stage: u32) -> [Fragment; 4] {
        let thread = thread::thread_idx_x();
        let (warp, lane) = (thread / 32 - 4, thread % 32);
        let swapped = lane / 8 % 2;
        // In bytes, as the swizzle has it. The second number is four of k from the first one.
        let line = warp % 2 * 64 + lane / 4 * 8;
        let at = |k: u32| ((k * LINE as u32 + (line ^ (k * 16))) / 4) as usize;
        let k = lane % 4 + 4 * swapped;
        let (first, second) = (at(k), at(k ^ 4));
        let from = self.operands(stage as usize * A_BYTES + warp as usize / 2 * TILE_K * LINE);
        let fragment = |step: usize| {
            let offset = step * 8 * LINE / 4;
            // SAFETY: two numbers of the box of 32 × 32, the first of them even.
            let (x, y): ([f32; 2], [f32; 2]) = unsafe {
                (
                    from.get_vec_unchecked(offset + first),
                    from.get_vec_unchecked(offset + second),
                )
            };
            let (low, high) = if swapped == 0 { (x, y) } else { (y, x) };
            Fragment::new([low[0], low[1], high[0], high[1]])
        };
        [fragment(0), fragment(1), fragment(2), fragment(3)]
    }
}

/// The two rows of the warp's 16 of which a lane has sums.
#[inline(always)]
pub fn rows(lane: u32) -> [u32; 2] {
    [lane / 4 * 2, lane / 4 * 2 + 1]
}

/// Puts 32 columns × 16 rows, from sum `first` on, into a box that has the columns as its rows.
#[inline(always)]
pub fn put_transposed<const R: usize>(to: Shared<f32>, sums: &Accumulator<R>, first: usize, lane: u32, alpha: f32) {
    const { assert!(TRANSPOSED_BOX_ROWS == 32) };
    let swapped = lane % 2;
    // In bytes, with the swizzle of 64: a row has so many, and four neighbouring pairs of rows have the four orders.
    let column = (lane / 4 * 8) ^ (lane % 4 * 16);
    let row = lane % 4 * 2 + swapped;
    let at = |row: u32| ((row * 64 + column) / 4) as usize;
    unroll!(4, part => {
        let i = first + 4 * part;
        let (x, y) = (
            [alpha * sums.element(i), alpha * sums.element(i + 2)],
            [alpha * sums.element(i + 1), alpha * sums.element(i + 3)],
        );
        let (x, y) = if swapped == 0 { (x, y) } else { (y, x) };
        // SAFETY: two of the 32 × 16 numbers, the first of them even.
        unsafe {
            to.set_vec_unchecked(8 * 16 * part + at(row), x);
            to.set_vec_unchecked(8 * 16 * part + at(row ^ 1), y);
        }
    });
}
