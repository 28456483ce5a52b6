// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums into `C`, by way of shared memory, out of which a lane takes neighbours.

use cuda_std::half::{bf16, f16, pack};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::{Block, Input, MmaShape, Sums, warp_tile};
use crate::matmul::epilogue::{self, Epilogue, EpilogueOp};
use crate::matmul::{scaled, unroll};
use crate::num::Num;

/// Numbers that the result is stored as.
pub trait Output: Num<Wide = f32> {
    /// The nearest one: [`narrow`](Num::narrow), in an instruction that GPUs have from Ampere on.
    fn nearest(value: f32) -> Self;
}

impl Output for f32 {
    #[inline(always)]
    fn nearest(value: f32) -> f32 {
        value
    }
}

macro_rules! outputs {
    ($($type:ident)*) => {$(
        impl Output for $type {
            #[inline(always)]
            fn nearest(value: f32) -> Self {
                Self::from_bits(pack::<Self>(value, 0.0) as u16)
            }
        }
    )*};
}

outputs! { f16 bf16 }

impl<T: Input, const COLUMNS: usize> Block<T, COLUMNS> {
    /// Elements from row to row of a warp's sums in shared memory: two rows are not in the same banks.
    const PITCH: u32 = warp_tile(COLUMNS) as u32 + 8;

    /// Puts the warp's sums into `C`, by way of shared memory, out of which a lane takes four neighbours: two groups of rows
    /// at a time.
    ///
    /// # Safety
    ///
    /// The kernel's contract. All copies to the stages are done, and nobody reads them.
    #[inline(always)]
    pub(super) unsafe fn store<C: Output, F: EpilogueOp<f32>>(&self, sums: &Sums, result: Result<'_, C, F>) {
        let MmaShape { m, n, .. } = self.shape;
        let warp = thread::thread_idx_x() / 32;
        let at = (warp * 32 * Self::PITCH * 4) as usize;
        // SAFETY: the rows of all warps take less than the stages.
        let memory = unsafe { self.memory.subarray_unchecked(at, (32 * Self::PITCH * 4) as usize) }.cast::<f32>();
        let [row, column] = Self::warp_place();
        let (row, column) = (self.tile.row + row, self.tile.column + column);
        let wide = n.is_multiple_of(4) && result.c.is_vec_aligned::<4>();
        unroll!(2, round => {
            if 2 * round < Self::GROUPS {
                warp::sync_warp(warp::FULL_MASK);
                self.put(memory, sums, 2 * round);
                warp::sync_warp(warp::FULL_MASK);
                let part = Part {
                    memory,
                    row: row + 32 * round as u32,
                    column,
                    product: self.tile.product,
                    m,
                    n,
                };
                // SAFETY: the kernel's contract.
                unsafe {
                    match (result.epilogue.is_identity(), wide) {
                        (true, true) => self.store_wide(part, result),
                        (true, false) => self.store_any(part, result),
                        (false, _) => self.store_finished(part, result),
                    }
                }
            }
        });
    }

    /// Puts the sums of groups `first` and `first + 1` of rows into the warp's memory, by rows.
    #[inline(always)]
    fn put(&self, memory: Shared<f32>, sums: &Sums, first: usize) {
        let lane = thread::thread_idx_x() % 32;
        let at = lane / 4 * Self::PITCH + lane % 4 * 2;
        unroll!(4, number => {
            let (i, h) = (number / 2, number % 2);
            let at = at + (16 * i as u32 + 8 * h as u32) * Self::PITCH;
            unroll!(8, j => {
                if j < 2 * Self::GROUPS {
                    let of = sums[first + i][j];
                    let two = [of[2 * h], of[2 * h + 1]];
                    // SAFETY: of 32 rows, at an even place.
                    unsafe { memory.set_vec_unchecked(at as usize + 8 * j, two) };
                }
            });
        });
    }

    /// Stores 32 rows of a warp's part of `C`, four elements at a time.
    ///
    /// # Safety
    ///
    /// `c` has the lines, which are a multiple of four elements long, and is aligned as vectors of four are.
    #[inline(always)]
    unsafe fn store_wide<C: Output, F: EpilogueOp<f32>>(&self, part: Part, result: Result<'_, C, F>) {
        let lane = thread::thread_idx_x() % 32;
        // Lanes of a row, rows of the warp.
        let lanes = warp_tile(COLUMNS) as u32 / 4;
        let rows = 32 / lanes;
        let column = lane % lanes * 4;
        // The old elements of eight vectors are read ahead of all stores, which they wait for.
        let mut row = lane / lanes;
        while row < 32 && part.column + column < part.n {
            let mut old = [[0.0; 4]; 8];
            let at = |i: usize| {
                let row = row + i as u32 * rows;
                (part.row + row < part.m).then(|| {
                    let from = (row * Self::PITCH + column) as usize;
                    (from, part.line(row) + (part.column + column) as usize)
                })
            };
            unroll!(8, i => {
                if result.beta != 0.0 && let Some((_, at)) = at(i) {
                    // SAFETY: the row and the column are in C.
                    old[i] = unsafe { result.old(at) };
                }
            });
            unroll!(8, i => {
                if let Some((from, at)) = at(i) {
                    // SAFETY: as above, and of the 32 rows in memory.
                    unsafe { result.set(at, part.memory.get_vec_unchecked::<4>(from), old[i]) };
                }
            });
            row += 8 * rows;
        }
    }

    /// [`store_wide`](Self::store_wide) where lines begin anywhere: one element at a time.
    ///
    /// # Safety
    ///
    /// `c` has the lines.
    #[inline(always)]
    unsafe fn store_any<C: Output, F: EpilogueOp<f32>>(&self, part: Part, result: Result<'_, C, F>) {
        let lane = thread::thread_idx_x() % 32;
        let side = warp_tile(COLUMNS) as u32;
        let mut number = lane;
        while number < 32 * side {
            let (row, column) = (number / side, number % side);
            if part.row + row < part.m && part.column + column < part.n {
                let at = part.line(row) + (part.column + column) as usize;
                // SAFETY (of the three): the row and the column are in C, and of the 32 rows in memory.
                unsafe {
                    let sum = part
                        .memory
                        .get_vec_unchecked::<1>((row * Self::PITCH + column) as usize);
                    let old = if result.beta != 0.0 { result.old(at) } else { [0.0] };
                    result.set(at, sum, old);
                }
            }
            number += 32;
        }
    }

    /// Stores 32 rows of a warp's part of `C` with an epilogue, wherever lines begin: four elements at a time.
    ///
    /// # Safety
    ///
    /// `c` has the lines.
    #[inline(always)]
    unsafe fn store_finished<C: Output, F: EpilogueOp<f32>>(&self, part: Part, result: Result<'_, C, F>) {
        let lane = thread::thread_idx_x() % 32;
        let lanes = warp_tile(COLUMNS) as u32 / 4;
        let column = lane % lanes * 4;
        // A number that the compiler does not know: it would unroll the loop.
        let rows = hint::opaque(32);
        let mut row = lane / lanes;
        while row < rows {
            if part.row + row < part.m && part.column + column < part.n {
                // SAFETY: of the 32 rows in memory.
                let sums = unsafe { part.memory.get_vec_unchecked((row * Self::PITCH + column) as usize) };
                let at = [part.product, part.row + row, part.column + column].map(|i| i as usize);
                // SAFETY: the row and the column, a multiple of four, are in C.
                unsafe { result.finish::<4>(at, sums, [part.m, part.n].map(|length| length as usize)) };
            }
            row += 32 / lanes;
        }
    }
}

/// Rows of a warp's sums in shared memory, and where they belong in `C`.
#[derive(Clone, Copy)]
struct Part {
    memory: Shared<f32>,
    row: u32,
    column: u32,
    product: u32,
    m: u32,
    n: u32,
}

impl Part {
    /// Where row `row` of these begins in `C`.
    #[inline(always)]
    fn line(&self, row: u32) -> usize {
        (self.product as usize * self.m as usize + (self.row + row) as usize) * self.n as usize
    }
}

/// What becomes of the sums.
#[derive(Clone, Copy)]
pub(super) struct Result<'a, C, F> {
    pub(super) c: SliceMut<'a, C>,
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) epilogue: Epilogue<'a, C, F>,
}

impl<C: Output, F: EpilogueOp<f32>> Result<'_, C, F> {
    /// `N` elements of `c`.
    ///
    /// # Safety
    ///
    /// There are `N` elements at `at`, aligned as vectors of `N` are.
    #[inline(always)]
    unsafe fn old<const N: usize>(&self, at: usize) -> [f32; N] {
        // SAFETY: the caller's promise.
        let old: [C; N] = unsafe { self.stored().get_vec_unchecked::<N>(at) };
        old.map(C::widen)
    }

    /// The elements of `c`, to be read.
    #[inline(always)]
    fn stored(&self) -> Slice<'_, C> {
        // SAFETY: the same memory, which is written only through `c`.
        unsafe { Slice::from_raw_parts(self.c.as_ptr(), self.c.len()) }
    }

    /// `c ← alpha · sums + beta · old`, rounded to `C` once.
    ///
    /// # Safety
    ///
    /// As for [`old`](Self::old).
    #[inline(always)]
    unsafe fn set<const N: usize>(&self, at: usize, sums: [f32; N], old: [f32; N]) {
        let values = self.scaled(sums, old).map(C::nearest);
        // SAFETY: the caller's promise.
        unsafe { self.c.set_vec_unchecked::<N>(at, values) };
    }

    /// `f(alpha · sums + beta · c + bias) + residual` into `c`, rounded once, for neighbours of a row, from this product, row
    /// and column on: those from column `n` on are not there.
    ///
    /// # Safety
    ///
    /// Product, row and column are in `c`, which has products of `m` rows and `n` columns; the column is a multiple of `N`,
    /// which is a power of two.
    #[inline(always)]
    unsafe fn finish<const N: usize>(&self, at: [usize; 3], sums: [f32; N], [m, n]: [usize; 2]) {
        let strides = [m * n, n, 1];
        let mut old = [0.0; N];
        if self.beta != 0.0 {
            // SAFETY: the caller's promise.
            old = unsafe { epilogue::row(self.stored(), strides, at, n) };
        }
        let values = self.epilogue.finish_row(self.scaled(sums, old), at, n);
        // SAFETY: the caller's promise.
        unsafe { epilogue::set_row(self.c, strides, at, n, values.map(C::nearest)) };
    }

    /// `alpha · sums + beta · old`
    #[inline(always)]
    fn scaled<const N: usize>(&self, sums: [f32; N], old: [f32; N]) -> [f32; N] {
        cuda_std::array::from_fn(|i| {
            let beta_and_old = (self.beta != 0.0).then_some((self.beta, old[i]));
            scaled(self.alpha, sums[i], beta_and_old)
        })
    }
}
