// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of kernels that sum in the type of the result: stored first, and finished where they lie.

use cuda_std::prelude::*;

use super::epilogue::{Activate, Epilogue};
use super::{MulAdd, scaled};

/// What becomes of the sums.
pub struct Stored<'a, T> {
    pub c: SliceMut<'a, T>,
    pub alpha: T,
    pub beta: T,
    pub epilogue: Epilogue<'a, T>,
}

impl<T: MulAdd + Activate> Stored<'_, T> {
    /// `c ← alpha · sums + beta · c`
    ///
    /// # Safety
    ///
    /// There are `N` elements at `at`, aligned as vectors of `N` are.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn put<const N: usize>(&self, at: usize, sums: [T; N]) {
        let &Self { c, alpha, beta, .. } = self;
        let values: [T; N] = if beta == T::ZERO {
            cuda_std::array::from_fn(|i| scaled(alpha, sums[i], None))
        } else {
            // SAFETY: the same memory, which is written only through `c`; index and alignment are the caller's promise.
            let old: [T; N] = unsafe { Slice::from_raw_parts(c.as_ptr(), c.len()).get_vec_unchecked::<N>(at) };
            cuda_std::array::from_fn(|i| scaled(alpha, sums[i], Some((beta, old[i]))))
        };
        // SAFETY: the caller's promise.
        unsafe { c.set_vec_unchecked(at, values) };
    }

    /// [`put`](Self::put) of sums that have been multiplied by alpha.
    ///
    /// # Safety
    ///
    /// As for `put`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn put_scaled<const N: usize>(&self, at: usize, scaled: [T; N]) {
        let &Self { c, beta, .. } = self;
        let values: [T; N] = if beta == T::ZERO {
            scaled
        } else {
            // SAFETY: the same memory, which is written only through `c`; index and alignment are the caller's promise.
            let old: [T; N] = unsafe { Slice::from_raw_parts(c.as_ptr(), c.len()).get_vec_unchecked::<N>(at) };
            cuda_std::array::from_fn(|i| beta.mul_add(old[i], scaled[i]))
        };
        // SAFETY: the caller's promise.
        unsafe { c.set_vec_unchecked(at, values) };
    }
}
