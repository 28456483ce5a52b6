// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a block's tile that one thread accumulates in registers.
//!
//! A thread's lines are not neighbours: they are taken in chunks of `F`, one access of shared memory each, and the
//! chunks of the threads of a side lie side by side. A warp has 4 × 8 of the threads, so an access of it reads 4 or
//! 8 chunks in a row, without bank conflicts. An access of 16 bytes takes shared memory four cycles for a warp, one for each quarter of
//! its lanes, but two where each lane reads what the one beside it reads, or each what the one two further reads: of a lane's number
//! the last bit is not its row's, and the one ahead of it not its column's.

use cuda_std::prelude::*;

use super::super::{MulAdd, unroll};

/// Where a thread stands among those of its block.
#[derive(Clone, Copy)]
pub struct Position {
    /// Along the rows of the tile.
    pub y: usize,
    /// Along its columns.
    pub x: usize,
}

impl Position {
    /// That of this thread, of a block that has `X` along the tile's columns, a multiple of 8: a warp is 4 × 8.
    #[inline(always)]
    pub fn of_thread<const X: usize>() -> Self {
        let t = thread::thread_idx_x() as usize;
        let (warp, lane) = (t / 32, t % 32);
        Self {
            y: warp / (X / 8) * 4 + lane / 2 % 2 + lane / 16 * 2,
            x: warp % (X / 8) * 8 + lane % 2 + lane / 4 % 4 * 2,
        }
    }

    /// The same with lanes one after another along the columns, for kernels whose code for [`of_thread`](Self::of_thread) spills.
    #[inline(always)]
    pub fn of_thread_in_order<const X: usize>() -> Self {
        let t = thread::thread_idx_x() as usize;
        let (warp, lane) = (t / 32, t % 32);
        Self {
            y: warp / (X / 8) * 4 + lane / 8,
            x: warp % (X / 8) * 8 + lane % 8,
        }
    }

    /// The line of the block's tile that is line `i` of the tile of the thread which is at `at` of `SIDE`
    /// along that side.
    #[inline(always)]
    pub fn line<const F: usize, const SIDE: usize>(self, at: usize, i: usize) -> usize {
        (i / F * SIDE + at) * F + i % F
    }
}

/// One position along k: adds the products of `TM` elements of `A`'s tile, the first of which is element `at_a` of
/// shared memory, and `TN` of `B`'s; the block's threads are `Y` × `X`.
///
/// `BACK`: rows go there and back, so that of two instructions one after another the second has one operand beside the sum that the
/// first had not: a multiply-add reads three registers of two banks, which give one each a cycle, and can take again what the
/// one before has read.
#[inline(always)]
pub fn step<
    T: MulAdd,
    const TM: usize,
    const TN: usize,
    const F: usize,
    const Y: usize,
    const X: usize,
    const BACK: bool,
>(
    tiles: Shared<T>,
    at_a: usize,
    at_b: usize,
    sums: &mut [[T; TN]; TM],
) {
    let a: [T; TM] = fragment::<T, TM, F, Y>(tiles, at_a);
    let b: [T; TN] = fragment::<T, TN, F, X>(tiles, at_b);
    unroll!(TM, i => {
        unroll!(TN, j => {
            let j = if BACK && i % 2 == 1 { TN - 1 - j } else { j };
            sums[i][j] = a[i].mul_add(b[j], sums[i][j]);
        });
    });
}

/// This thread's `N` elements of a line of a tile, the first of which is element `at`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn fragment<T: MulAdd, const N: usize, const F: usize, const SIDE: usize>(tiles: Shared<T>, at: usize) -> [T; N] {
    let mut values = [T::ZERO; N];
    unroll!(N / F; 4, chunk => {
        // SAFETY: within the line of a tile, whose width is a multiple of `SIDE * F`; `at` is a multiple of `F`, as all
        // lines and threads' places are, and vectors of `F` are at most 16 bytes, to which the storage is aligned.
        let vector: [T; F] = unsafe { tiles.get_vec_unchecked(at + chunk * SIDE * F) };
        unroll!(F; 4, i => {
            values[chunk * F + i] = vector[i];
        });
    });
    values
}
