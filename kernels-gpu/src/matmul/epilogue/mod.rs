// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of the sums of a product before they are stored: `C ← f(α A B + β C + bias) + residual`.
//!
//! It is computed in the type that is summed in, and rounded to that of the result once. A matrix or vector that is not
//! there costs a branch that all threads take alike, and so does the choice of `f`, which the launch names: there is no
//! kernel for each. Bias and residual are read where they lie, by the threads that have the sums they are added to.
//!
//! [`Epilogue`] is a function from numbers and their places to results, for the kernels that end with it: of neighbours of
//! a row ([`finish_row`](Epilogue::finish_row)), or as the tensor cores' accumulators lie
//! ([`finish_fragment`](Epilogue::finish_fragment)). Kernels whose results have the type of their sums store them first, as
//! they do without an epilogue, and each thread finishes what it stored ([`finish_stored`](Epilogue::finish_stored)): its
//! sums take no registers any more, and what it reads again lies in the cache. [`finish_sums`](fn@finish_sums) does the same
//! to sums in memory: for kernels that have no epilogue, and sums in parts; few parts that have nothing else done to them have a
//! [kernel of their own](parts).
//!
//! The function is a type, [`EpilogueOp`]: in the library's kernels [`Activation`], whose value says which of its functions
//! it is. One of one's own, of which [`epilogue_kernels!`](crate::epilogue_kernels) makes kernels, is compiled into them.

mod activation;
mod fragment;
mod op;
pub mod parts;
pub mod rows;
mod sums;

use cuda_std::machine::Place;
use cuda_std::param::{ByValue, NoTail, Param};
use cuda_std::prelude::*;

pub use self::activation::{Activate, Activation};
pub(super) use self::fragment::numbers;
pub use self::op::EpilogueOp;
pub use self::sums::{Lines, SumsShape, finish_sums, finish_sums_with};
use super::{MulAdd, span};
use crate::num::Num;

/// The function of an epilogue, and where the elements of its addends lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpiloguePlan<F = Activation> {
    /// The function.
    pub function: F,
    /// The bias' strides in elements: from product to product, along rows' numbers, along columns' numbers.
    pub bias: [usize; 3],
    /// The same of the residual.
    pub residual: [usize; 3],
}

// SAFETY: `repr(C)`, and each field is a parameter by value, which crosses the launch as itself.
unsafe impl<F: ByValue<Head = F>> Param for EpiloguePlan<F> {
    type Head = Self;
    type Tail = NoTail;
    type At<'launch> = Self;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self, _: NoTail, _: Place) -> Self::At<'launch> {
        *head
    }
}

impl<F: ByValue<Head = F>> ByValue for EpiloguePlan<F> {
    #[inline(always)]
    fn into_head(self) -> Self {
        self
    }
}

impl<F> EpiloguePlan<F> {
    /// Whether bias and residual, of so many elements, have one for each of products of these extents; an empty one is
    /// none.
    #[inline(always)]
    pub fn fits(&self, extents: [usize; 3], bias: usize, residual: usize) -> bool {
        let within = |strides, len| len == 0 || span(extents, strides).is_some_and(|span| span <= len);
        within(self.bias, bias) && within(self.residual, residual)
    }
}

/// An epilogue of results of type `T`.
#[derive(Clone, Copy)]
pub struct Epilogue<'a, T, F = Activation> {
    plan: EpiloguePlan<F>,
    bias: Slice<'a, T>,
    residual: Slice<'a, T>,
}

impl<'a, T: Num, F: EpilogueOp<T::Wide>> Epilogue<'a, T, F> {
    /// The epilogue with these addends; an empty one is none.
    ///
    /// # Safety
    ///
    /// [`EpiloguePlan::fits`], with the extents of the products that are finished.
    #[inline(always)]
    pub unsafe fn new(plan: EpiloguePlan<F>, bias: &'a [T], residual: &'a [T]) -> Self {
        // SAFETY: a reference is to as many elements, which nobody writes.
        let slice = |of: &'a [T]| unsafe { Slice::from_raw_parts(of.as_ptr(), of.len()) };
        Self {
            plan,
            bias: slice(bias),
            residual: slice(residual),
        }
    }

    /// Whether it changes nothing.
    #[inline(always)]
    pub fn is_identity(&self) -> bool {
        self.plan.function.is_identity() && self.bias.is_empty() && self.residual.is_empty()
    }

    /// What becomes of `N` neighbours of a row, of which the first is at this product, row and column: a multiple of `N`,
    /// which is a power of two. Those from column `n` on are not there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn finish_row<const N: usize>(&self, values: [T::Wide; N], at: [usize; 3], n: usize) -> [T::Wide; N] {
        // SAFETY: the promise of `new`, for the columns that are there.
        let load = |elements, strides| unsafe { row(elements, strides, at, n) };
        let bias = || load(self.bias, self.plan.bias);
        self.finish(values, bias, || load(self.residual, self.plan.residual))
    }

    /// What becomes of the values with these addends, of which those that are not there are not asked for.
    #[inline(always)]
    fn finish<const N: usize>(
        &self,
        values: [T::Wide; N],
        bias: impl FnOnce() -> [T::Wide; N],
        residual: impl FnOnce() -> [T::Wide; N],
    ) -> [T::Wide; N] {
        self.plan.function.apply_to(values, self.there(), bias, residual)
    }

    /// Whether there is a bias, and a residual.
    #[inline(always)]
    fn there(&self) -> [bool; 2] {
        [!self.bias.is_empty(), !self.residual.is_empty()]
    }
}

impl<T: Num<Wide = T>, F: EpilogueOp<T>> Epilogue<'_, T, F> {
    /// Finishes `N` neighbours of a row of `c`, which has the products one after another, in C order, of `m` rows and `n`
    /// columns: those from column `n` on are not there.
    ///
    /// # Safety
    ///
    /// Product, row and column are in `c`, the column is a multiple of `N`, which is a power of two, and this thread wrote
    /// the elements.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn finish_stored<const N: usize>(&self, c: SliceMut<'_, T>, at: [usize; 3], [m, n]: [usize; 2]) {
        let strides = [m * n, n, 1];
        // SAFETY (of both): the same memory, which is written only through `c`; the caller's promise.
        let stored = unsafe { Slice::from_raw_parts(c.as_ptr(), c.len()) };
        let values: [T; N] = unsafe { row(stored, strides, at, n) };
        let values = self.finish_row(values, at, n);
        // SAFETY: as what was read.
        unsafe { set_row(c, strides, at, n, values) };
    }
}

/// Whether vectors of `N` elements with these strides can be loaded at columns that are multiples of `N`, of rows of `n`.
#[inline(always)]
fn is_wide<T: Num, const N: usize>(elements: Slice<'_, T>, [product, row, column]: [usize; 3], n: usize) -> bool {
    column == 1 && (product | row | n).is_multiple_of(N) && elements.is_vec_aligned::<N>()
}

/// An element.
///
/// # Safety
///
/// There is one at `at`.
#[inline(always)]
unsafe fn element<T: Num>(elements: Slice<'_, T>, at: usize) -> T {
    // SAFETY: the caller's promise; a vector of one is aligned like its element.
    let [element] = unsafe { elements.get_vec_unchecked::<1>(at) };
    element
}

/// `N` elements of a row; zeros from column `n` on.
///
/// # Safety
///
/// Those in front of it are in `elements`; the column is a multiple of `N`, which is a power of two.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn row<T: Num, const N: usize>(
    elements: Slice<'_, T>,
    strides: [usize; 3],
    [product, row, column]: [usize; 3],
    n: usize,
) -> [T::Wide; N] {
    let at = product * strides[0] + row * strides[1] + column * strides[2];
    // SAFETY (of both): the caller's promise. With rows of a multiple of `N`, the whole vector is in front of the end.
    if column < n && is_wide::<T, N>(elements, strides, n) {
        return cuda_std::array::map(unsafe { elements.get_vec_unchecked::<N>(at) }, T::widen);
    }
    cuda_std::array::from_fn(|i| match column + i < n {
        true => unsafe { element(elements, at + i * strides[2]) }.widen(),
        false => T::Wide::ZERO,
    })
}

/// Sets `N` elements of a row, but for those from column `n` on.
///
/// # Safety
///
/// As [`row`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn set_row<T: Num, const N: usize>(
    elements: SliceMut<'_, T>,
    strides: [usize; 3],
    [product, row, column]: [usize; 3],
    n: usize,
    values: [T; N],
) {
    let at = product * strides[0] + row * strides[1] + column * strides[2];
    // SAFETY (of both): the caller's promise. With rows of a multiple of `N`, the whole vector is in front of the end.
    if column < n && (strides[0] | strides[1] | n).is_multiple_of(N) && elements.is_vec_aligned::<N>() {
        return unsafe { elements.set_vec_unchecked(at, values) };
    }
    for i in 0..N {
        if column + i < n {
            unsafe { elements.set_vec_unchecked(at + i, [values[i]]) };
        }
    }
}
