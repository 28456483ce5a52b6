// SPDX-License-Identifier: MIT OR Apache-2.0
//! Epilogues of sums as the accumulators of Hopper's tensor cores have them: of each eight columns a thread has two neighbours
//! of a row, and two of the row eight further down.
//!
//! What is added to them comes from memory, and a warp has little else to do until it is there. So it is loaded all at once:
//! no load depends on a condition, and nobody looks at what is loaded before it is needed. A bias that all rows have in common,
//! the usual one, is loaded while the sums are made, a word by each lane, and the lanes get what they want from one another.

use cuda_std::hint;
use cuda_std::prelude::*;

use super::{Epilogue, EpilogueOp, element};
use crate::num::Num;

impl<'a, T: Num<Wide = f32>, F: EpilogueOp<f32>> Epilogue<'a, T, F> {
    /// Whether there is a bias that all rows have in common.
    #[inline(always)]
    fn has_bias_row(&self) -> bool {
        !self.bias.is_empty() && self.plan.bias[1] == 0 && self.plan.bias[2] != 0
    }

    /// Loads this lane's word of such a bias, if there is one: of 32 words of neighbouring columns, of which there are `n` in
    /// all, from a product's even column on.
    ///
    /// # Safety
    ///
    /// As of [`finish_fragment`](Self::finish_fragment), of the product.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn load_of_row(&self, product: u32, column: u32, n: u32) -> u32 {
        if !self.has_bias_row() {
            return 0;
        }
        let in_word = 4 / size_of::<T>() as u32;
        let column = column + thread::thread_idx_x() % 32 * in_word;
        // Of the last ones for those beyond the matrix.
        let column = Ord::min(column, (n - 1) & !(in_word - 1));
        // SAFETY: the caller's promise, for columns that there are.
        unsafe { word(self.bias, product as usize * self.plan.bias[0] + column as usize) }
    }

    /// What becomes of `N` sums, of which the first is at this product, row and column, an even one. Those beyond the matrix, of
    /// so many rows and columns, get addends of some that are in it. Those of a bias that all rows have in common come from
    /// the lanes' words `of_row`, of [`load_of_row`](Self::load_of_row) for the columns from the warp's first on, and those of a
    /// residual from memory unless `words_of_residual` gives them: two neighbours of 16 bits, or one number. Called by all lanes of
    /// a warp.
    ///
    /// # Safety
    ///
    /// The row and the column of the first are in the matrix, or the thread's other ones are not used. An addend is the same
    /// for all columns (its last stride is 0), or has an even number of columns side by side (1), and each pair of them is
    /// aligned as such.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn finish_fragment<const N: usize>(
        &self,
        mut sums: [f32; N],
        at: [u32; 3],
        extents: [u32; 2],
        of_row: u32,
        words_of_residual: impl FnOnce() -> Option<[u32; N]>,
    ) -> [f32; N] {
        let of_row = || numbers::<T, N>(spread::<T, N>(of_row));
        let load = |elements: Slice<'a, T>, strides: [usize; 3]| {
            numbers::<T, N>(match strides[2] {
                _ if elements.is_empty() => [0; N],
                // SAFETY (of both): the promise of `new`, and the caller's.
                0 => unsafe { of_lines(elements, strides, at, extents) },
                _ => unsafe { fragment(elements, strides, at, extents) },
            })
        };
        let mut there = [true; 2];
        if F::ADDS {
            there = self.there();
            // Ahead, by itself: neighbours in a column have the same, which is converted once.
            if self.has_bias_row() {
                let bias = of_row();
                sums = cuda_std::array::from_fn(|i| sums[i] + bias[i]);
                there[0] = false;
            }
        }
        let bias = || match !F::ADDS && self.has_bias_row() {
            true => of_row(),
            false => load(self.bias, self.plan.bias),
        };
        let residual = || match words_of_residual() {
            Some(words) => numbers::<T, N>(words),
            None => load(self.residual, self.plan.residual),
        };
        self.plan.function.apply_to(sums, there, bias, residual)
    }

    /// The bias of this thread's two lines of a product, where it is the same for all columns: zeros where there is none.
    ///
    /// # Safety
    ///
    /// The product has lines, and the last stride of the bias is 0.
    #[inline(always)]
    pub unsafe fn load_of_lines(&self, at: [u32; 3], m: u32) -> [f32; 2] {
        match self.bias.is_empty() {
            true => [0.0; 2],
            // SAFETY: the promise of `new`, and the caller's.
            false => lines(self.plan.bias, at, m).map(|line| unsafe { element(self.bias, line) }.widen()),
        }
    }

    /// What becomes of `N` sums as [`finish_fragment`](Self::finish_fragment) takes them, with the bias that
    /// [`load_of_lines`](Self::load_of_lines) gave, and their residuals, if they have some.
    #[inline(always)]
    pub fn finish_lines<const N: usize>(&self, sums: [f32; N], bias: [f32; 2], residual: Option<[f32; N]>) -> [f32; N] {
        let there = [!self.bias.is_empty(), residual.is_some()];
        let of_lines = || cuda_std::array::from_fn(|i| bias[i / 2 % 2]);
        let residual = || residual.unwrap_or([0.0; N]);
        self.plan.function.apply_to(sums, there, of_lines, residual)
    }

    /// Has the function see results, of which the first is at this product, row and column. Called by all lanes of a warp.
    #[inline(always)]
    pub fn see_fragment<const N: usize>(&self, results: [f32; N], at: [u32; 3], extents: [u32; 2]) {
        self.plan.function.see_fragment(results, at, extents);
    }
}

/// Where the thread's two rows begin; the last one for those beyond the matrix. Found anew for each box: most products have no
/// use for it, and to keep it costs registers.
#[inline(always)]
fn lines(strides: [usize; 3], [product, row, _]: [u32; 3], m: u32) -> [usize; 2] {
    let row = hint::pinned(row);
    let line = |row: u32| product as usize * strides[0] + Ord::min(row, m - 1) as usize * strides[1];
    cuda_std::array::map([row, row + 8], line)
}

/// Whether a thread must not load what is beyond the matrix: there it loads the last element, which is another thread's and
/// may be written meanwhile, and throws it away. A GPU is faster so; the simulated one would call it a race.
const KEEPS_INSIDE: bool = cfg!(not(target_arch = "nvptx64"));

/// Loads what is to be added to `N` sums. A word has two neighbours of 16 bits, of which there are half as many, or one number.
///
/// # Safety
///
/// The elements of the matrix, which has one, are in `elements`. Columns are side by side, pairs of them aligned as such, and
/// if their number is odd, there is an element behind each row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn fragment<T: Num, const N: usize>(
    elements: Slice<'_, T>,
    strides: [usize; 3],
    at: [u32; 3],
    [m, n]: [u32; 2],
) -> [u32; N] {
    let (lines, last) = (lines(strides, at, m), (n - 1) & !1);
    let mut words = [0; N];
    for i in 0..N / 2 {
        let (row, column) = (at[1] + 8 * (i % 2) as u32, at[2] + 8 * (i / 2) as u32);
        if KEEPS_INSIDE && (row >= m || column > last) {
            continue;
        }
        let column = Ord::min(column, last);
        // SAFETY: in the matrix; the column after an even one is, too, or it is the element behind the row.
        let pair: [T; 2] = unsafe { elements.get_vec_unchecked(lines[i % 2] + column as usize) };
        set_pair(&mut words, i, pair);
    }
    words
}

/// [`fragment`] of an addend that is the same for all columns.
///
/// # Safety
///
/// The elements of the matrix, which has one, are in `elements`.
#[inline(always)]
unsafe fn of_lines<T: Num, const N: usize>(
    elements: Slice<'_, T>,
    strides: [usize; 3],
    at: [u32; 3],
    [m, _]: [u32; 2],
) -> [u32; N] {
    // SAFETY: in the matrix.
    let values = cuda_std::array::map(lines(strides, at, m), |line| unsafe { element(elements, line) });
    let mut words = [0; N];
    for i in 0..N / 2 {
        set_pair(&mut words, i, [values[i % 2]; 2]);
    }
    words
}

/// A word: two neighbours of 16 bits, or one number.
///
/// # Safety
///
/// They are in `elements`, aligned as such.
#[inline(always)]
unsafe fn word<T: Num>(elements: Slice<'_, T>, at: usize) -> u32 {
    // SAFETY (of both): the caller's promise.
    match size_of::<T>() {
        2 => bytemuck::cast(unsafe { elements.get_vec_unchecked::<2>(at) }),
        _ => bytemuck::cast(unsafe { elements.get_vec_unchecked::<1>(at) }),
    }
}

/// The words of what is to be added to `N` sums, of a row's, of which each lane has one.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn spread<T: Num, const N: usize>(of_row: u32) -> [u32; N] {
    // Found anew for each box, as `lines`.
    let pair = hint::pinned(thread::thread_idx_x() % 4);
    let of = |lane: u32| warp::shuffle(warp::FULL_MASK, of_row, lane);
    let mut words = [0; N];
    for i in 0..N / 4 {
        // Both rows have the same.
        if size_of::<T>() == 2 {
            let word = of(4 * i as u32 + pair);
            [words[2 * i], words[2 * i + 1]] = [word; 2];
        } else {
            let of_pair = cuda_std::array::map([0, 1], |element| of(8 * i as u32 + 2 * pair + element));
            [words[4 * i], words[4 * i + 1]] = of_pair;
            [words[4 * i + 2], words[4 * i + 3]] = of_pair;
        }
    }
    words
}

/// Sets pair `i` of the numbers in `words`.
#[inline(always)]
fn set_pair<T: Num, const N: usize>(words: &mut [u32; N], i: usize, pair: [T; 2]) {
    if size_of::<T>() == 2 {
        words[i] = bytemuck::cast(pair);
    } else {
        [words[2 * i], words[2 * i + 1]] = bytemuck::cast(pair);
    }
}

/// The numbers of words.
#[inline(always)]
pub(in crate::matmul) fn numbers<T: Num<Wide = f32>, const N: usize>(words: [u32; N]) -> [f32; N] {
    let number = |i: usize| -> T {
        match size_of::<T>() {
            2 => bytemuck::cast((words[i / 2] >> (16 * (i % 2))) as u16),
            _ => bytemuck::cast(words[i]),
        }
    };
    cuda_std::array::from_fn(|i| number(i).widen())
}
