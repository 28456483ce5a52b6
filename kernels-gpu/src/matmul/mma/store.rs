// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums into `C`, by way of shared memory, out of which a lane takes neighbours: four sums, or eight numbers of 16 bits that were
//! rounded on their way there.

use cuda_std::half::{bf16, f16, pack};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::{Block, Generation, MmaShape, Multiply, Sums, pitch, sums_bytes};
use crate::matmul::epilogue::{self, Activate, Activation, Epilogue, EpilogueOp, EpiloguePlan};
use crate::matmul::{MulAdd, scaled, unroll};
use crate::num::Num;

/// Numbers that results are stored as.
pub trait Rounded: Num<Wide: MulAdd + Activate> {
    /// The nearest one: [`narrow`](Num::narrow), in an instruction that GPUs have from Ampere on.
    fn nearest(value: Self::Wide) -> Self;
}

/// Those of sums in f32.
pub trait Output: Rounded + Num<Wide = f32> {}

impl<C: Rounded + Num<Wide = f32>> Output for C {}

/// The nearest number, by what GPUs from that generation on have.
#[inline(always)]
fn nearest<C: Rounded, G: Generation>(value: C::Wide) -> C {
    if G::ASYNC { C::nearest(value) } else { C::narrow(value) }
}

macro_rules! themselves {
    ($($type:ident)*) => {$(
        impl Rounded for $type {
            #[inline(always)]
            fn nearest(value: $type) -> $type {
                value
            }
        }
    )*};
}

themselves! { f32 f64 i32 }

macro_rules! sixteen_bits {
    ($($type:ident)*) => {$(
        impl Rounded for $type {
            #[inline(always)]
            fn nearest(value: f32) -> Self {
                Self::from_bits(pack::<Self>(value, 0.0) as u16)
            }
        }
    )*};
}

sixteen_bits! { f16 bf16 }

impl<T: Multiply<G>, const COLUMNS: usize, G: Generation> Block<T, COLUMNS, G> {
    const PITCH: u32 = pitch::<G>(COLUMNS);

    /// Puts the warp's sums into `C`, by way of shared memory, out of which a lane takes four neighbours: two groups of rows
    /// at a time.
    ///
    /// # Safety
    ///
    /// The kernel's contract. All copies to the stages are done, and nobody reads them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn store<C: Rounded<Wide = T::Sum>, F: EpilogueOp<T::Sum>>(
        &self,
        sums: &Sums<T::Sum>,
        result: Result<'_, C, F>,
    ) {
        let MmaShape { m, n, .. } = self.shape;
        let warp = thread::thread_idx_x() / 32;
        let bytes = sums_bytes::<T::Sum, G>(COLUMNS);
        // SAFETY: the memory has room for the rows of all warps.
        let memory =
            unsafe { self.memory.subarray_unchecked((warp * bytes) as usize, bytes as usize) }.cast::<T::Sum>();
        let [row, column] = Self::warp_place();
        let (row, column) = (self.tile.row + row, self.tile.column + column);
        let wide = n.is_multiple_of(4) && result.c.is_vec_aligned::<4>();
        let plain = result.epilogue.is_identity() && result.beta == T::Sum::ZERO;
        if const { size_of::<C>() == 2 } && plain && n.is_multiple_of(8) && result.c.is_vec_aligned::<8>() {
            let part = Part {
                memory: memory.cast::<C>(),
                row,
                column,
                product: self.tile.product,
                m,
                n,
            };
            // SAFETY: the kernel's contract; of numbers of half the size, twice as many rows have room.
            return unsafe { self.store_packed(sums, part, result) };
        }
        unroll!(2, round => {
            if 2 * round < Self::GROUPS[0] {
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
                        // One question for all. Where numbers are rounded, its answer would be kept over the loop along k,
                        // which wants all predicates.
                        (true, true) if !Self::ROUNDS && result.beta == T::Sum::ZERO => {
                            self.store_wide::<false, _, _>(part, result)
                        }
                        (true, true) => self.store_wide::<true, _, _>(part, result),
                        (true, false) => self.store_any(part, result),
                        (false, _) => self.store_finished(part, result),
                    }
                }
            }
        });
    }

    /// Stores a warp's part of `C`, of numbers of 16 bits, eight elements at a time: they are rounded on their way into shared
    /// memory, which then has room for all of them.
    ///
    /// # Safety
    ///
    /// `c` has the lines, which are a multiple of eight elements long, and is aligned as vectors of eight are. The memory has
    /// room for the warp's rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store_packed<C: Rounded<Wide = T::Sum>, F: EpilogueOp<T::Sum>>(
        &self,
        sums: &Sums<T::Sum>,
        part: Part<C>,
        result: Result<'_, C, F>,
    ) {
        let lane = thread::thread_idx_x() % 32;
        let at = lane / 4 * Self::PITCH + lane % 4 * 2;
        unroll!(4, i => {
            unroll!(8, j => {
                if i < Self::GROUPS[0] && j < 2 * Self::GROUPS[1] {
                    let of = sums[i][j];
                    unroll!(2, h => {
                        let at = at + (16 * i as u32 + 8 * h as u32) * Self::PITCH + 8 * j as u32;
                        // SAFETY: of the warp's rows, at an even place.
                        unsafe { part.memory.set_vec_unchecked(at as usize, result.rounded::<2, G>([of[2 * h], of[2 * h + 1]], None)) };
                    });
                }
            });
        });
        warp::sync_warp(warp::FULL_MASK);
        // Lanes of a row, rows of the warp.
        let lanes = Self::WARP[1] as u32 / 8;
        let rows = 32 / lanes;
        let (first, column) = (lane / lanes, lane % lanes * 8);
        if part.column + column < part.n {
            let to = part.line(first) + (part.column + column) as usize;
            unroll!(16, i => {
                let row = first + i as u32 * rows;
                if (i as u32 * rows) < Self::WARP[0] as u32 && part.row + row < part.m {
                    // SAFETY: the row and the column are in C, and of the warp's rows in memory.
                    unsafe {
                        let values = part.memory.get_vec_unchecked::<8>((row * Self::PITCH + column) as usize);
                        result.c.set_vec_unchecked::<8>(to + (i as u32 * rows) as usize * part.n as usize, values);
                    }
                }
            });
        }
    }

    /// Puts the sums of groups `first` and `first + 1` of rows into the warp's memory, by rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn put(&self, memory: Shared<T::Sum>, sums: &Sums<T::Sum>, first: usize) {
        let lane = thread::thread_idx_x() % 32;
        // From lane to lane, and from the first of a lane's two rows to the second.
        let [next, second] = match size_of::<T::Element>() == 4 && self.shape.a_along_m != 0 {
            true => [2 * Self::PITCH, Self::PITCH],
            false => [Self::PITCH, 8 * Self::PITCH],
        };
        let at = lane / 4 * next + lane % 4 * 2;
        unroll!(4, number => {
            let (i, h) = (number / 2, number % 2);
            let at = at + 16 * i as u32 * Self::PITCH + h as u32 * second;
            unroll!(8, j => {
                if j < 2 * Self::GROUPS[1] {
                    let of = sums[first + i][j];
                    let two = [of[2 * h], of[2 * h + 1]];
                    // SAFETY: of 32 rows, at an even place.
                    unsafe { memory.set_vec_unchecked(at as usize + 8 * j, two) };
                }
            });
        });
    }

    /// Stores 32 rows of a warp's part of `C`, four elements at a time; `OLD`: whether `beta` may be other than 0.
    ///
    /// # Safety
    ///
    /// `c` has the lines, which are a multiple of four elements long, and is aligned as vectors of four are.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store_wide<const OLD: bool, C: Rounded<Wide = T::Sum>, F: EpilogueOp<T::Sum>>(
        &self,
        part: Part<T::Sum>,
        result: Result<'_, C, F>,
    ) {
        let lane = thread::thread_idx_x() % 32;
        // Lanes of a row, rows of the warp.
        let lanes = Self::WARP[1] as u32 / 4;
        let rows = 32 / lanes;
        let column = lane % lanes * 4;
        // The old elements of eight vectors are read ahead of all stores, which they wait for.
        let mut row = lane / lanes;
        while row < 32 && part.column + column < part.n {
            let mut old = [[T::Sum::ZERO; 4]; 8];
            let at = |i: usize| {
                let row = row + i as u32 * rows;
                (part.row + row < part.m).then(|| {
                    let from = (row * Self::PITCH + column) as usize;
                    (from, part.line(row) + (part.column + column) as usize)
                })
            };
            unroll!(8, i => {
                if OLD && result.beta != T::Sum::ZERO && let Some((_, at)) = at(i) {
                    // SAFETY: the row and the column are in C.
                    old[i] = unsafe { result.old(at) };
                }
            });
            unroll!(8, i => {
                if let Some((from, at)) = at(i) {
                    // SAFETY: as above, and of the 32 rows in memory.
                    unsafe { result.set::<_, G>(at, part.memory.get_vec_unchecked::<4>(from), OLD.then_some(old[i])) };
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
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store_any<C: Rounded<Wide = T::Sum>, F: EpilogueOp<T::Sum>>(
        &self,
        part: Part<T::Sum>,
        result: Result<'_, C, F>,
    ) {
        let lane = thread::thread_idx_x() % 32;
        let side = Self::WARP[1] as u32;
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
                    let old = if result.beta != T::Sum::ZERO {
                        result.old(at)
                    } else {
                        [T::Sum::ZERO]
                    };
                    result.set::<_, G>(at, sum, Some(old));
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
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store_finished<C: Rounded<Wide = T::Sum>, F: EpilogueOp<T::Sum>>(
        &self,
        part: Part<T::Sum>,
        result: Result<'_, C, F>,
    ) {
        let lane = thread::thread_idx_x() % 32;
        let lanes = Self::WARP[1] as u32 / 4;
        let column = lane % lanes * 4;
        // A number that the compiler does not know: it would unroll the loop.
        let rows = hint::opaque(32);
        let mut row = lane / lanes;
        while row < rows {
            if part.row + row < part.m && part.column + column < part.n {
                // SAFETY: of the 32 rows in memory.
                let sums = unsafe { part.memory.get_vec_unchecked((row * Self::PITCH + column) as usize) };
                let at = cuda_std::array::map([part.product, part.row + row, part.column + column], |i| i as usize);
                // SAFETY: the row and the column, a multiple of four, are in C.
                unsafe {
                    result.finish::<4, G>(
                        at,
                        sums,
                        cuda_std::array::map([part.m, part.n], |length| length as usize),
                    )
                };
            }
            row += 32 / lanes;
        }
    }
}

/// Rows of a warp's sums in shared memory, and where they belong in `C`.
#[derive(Clone, Copy)]
struct Part<S> {
    memory: Shared<S>,
    row: u32,
    column: u32,
    product: u32,
    m: u32,
    n: u32,
}

impl<S> Part<S> {
    /// Where row `row` of these begins in `C`.
    #[inline(always)]
    fn line(&self, row: u32) -> usize {
        (self.product as usize * self.m as usize + (self.row + row) as usize) * self.n as usize
    }
}

/// What becomes of the sums.
#[derive(Clone, Copy)]
pub(super) struct Result<'a, C: Num, F> {
    pub(super) c: SliceMut<'a, C>,
    pub(super) alpha: C::Wide,
    pub(super) beta: C::Wide,
    pub(super) epilogue: Epilogue<'a, C, F>,
}

impl<'a, C: Rounded> Result<'a, C, Activation> {
    /// The sums, rounded.
    #[inline(always)]
    pub(super) fn plain(c: SliceMut<'a, C>) -> Self {
        Self {
            c,
            alpha: C::Wide::ONE,
            beta: C::Wide::ZERO,
            // SAFETY: there are no addends.
            epilogue: unsafe { Epilogue::new(EpiloguePlan::default(), &[], &[]) },
        }
    }
}

impl<C: Rounded, F: EpilogueOp<C::Wide>> Result<'_, C, F> {
    /// `N` elements of `c`.
    ///
    /// # Safety
    ///
    /// There are `N` elements at `at`, aligned as vectors of `N` are.
    #[inline(always)]
    unsafe fn old<const N: usize>(&self, at: usize) -> [C::Wide; N] {
        // SAFETY: the caller's promise.
        let old: [C; N] = unsafe { self.stored().get_vec_unchecked::<N>(at) };
        cuda_std::array::map(old, C::widen)
    }

    /// The elements of `c`, to be read.
    #[inline(always)]
    fn stored(&self) -> Slice<'_, C> {
        // SAFETY: the same memory, which is written only through `c`.
        unsafe { Slice::from_raw_parts(self.c.as_ptr(), self.c.len()) }
    }

    /// `c ← alpha · sums + beta · old`, rounded to `C` once; without old elements `beta` is 0.
    ///
    /// # Safety
    ///
    /// As for [`old`](Self::old).
    #[inline(always)]
    unsafe fn set<const N: usize, G: Generation>(&self, at: usize, sums: [C::Wide; N], old: Option<[C::Wide; N]>) {
        // SAFETY: the caller's promise.
        unsafe { self.c.set_vec_unchecked::<N>(at, self.rounded::<N, G>(sums, old)) };
    }

    /// `alpha · sums + beta · old`, rounded to `C` once; without old elements `beta` is 0.
    #[inline(always)]
    fn rounded<const N: usize, G: Generation>(&self, sums: [C::Wide; N], old: Option<[C::Wide; N]>) -> [C; N] {
        cuda_std::array::map(self.scaled(sums, old), nearest::<C, G>)
    }

    /// `f(alpha · sums + beta · c + bias) + residual` into `c`, rounded once, for neighbours of a row, from this product, row
    /// and column on: those from column `n` on are not there.
    ///
    /// # Safety
    ///
    /// Product, row and column are in `c`, which has products of `m` rows and `n` columns; the column is a multiple of `N`,
    /// which is a power of two.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn finish<const N: usize, G: Generation>(&self, at: [usize; 3], sums: [C::Wide; N], [m, n]: [usize; 2]) {
        let strides = [m * n, n, 1];
        let mut old = [C::Wide::ZERO; N];
        if self.beta != C::Wide::ZERO {
            // SAFETY: the caller's promise.
            old = unsafe { epilogue::row(self.stored(), strides, at, n) };
        }
        let values = self.epilogue.finish_row(self.scaled(sums, Some(old)), at, n);
        // SAFETY: the caller's promise.
        unsafe { epilogue::set_row(self.c, strides, at, n, cuda_std::array::map(values, nearest::<C, G>)) };
    }

    /// `alpha · sums + beta · old`; where `beta` is 0, the old elements are not asked for.
    #[inline(always)]
    fn scaled<const N: usize>(&self, sums: [C::Wide; N], old: Option<[C::Wide; N]>) -> [C::Wide; N] {
        let old = old.filter(|_| self.beta != C::Wide::ZERO);
        cuda_std::array::from_fn(|i| {
            let beta_and_old = old.map(|old| (self.beta, old[i]));
            scaled(self.alpha, sums[i], beta_and_old)
        })
    }
}
