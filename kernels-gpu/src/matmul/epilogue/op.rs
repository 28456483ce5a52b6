// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of epilogues as types.

use super::activation::{Activate, Activation};
use crate::num::Num;

/// What becomes of the sums of a product of matrices, each in the type `W` that is summed in, before it is rounded to that of
/// the result and stored.
///
/// A type with `#[derive(KernelParam)]`, whose fields are the function's parameters, which the launch passes. It is `f32`
/// that products of `f32`, `f16` and `bf16` are summed in, `f64` and `i32` that theirs are.
///
/// # Examples
///
/// See [`epilogue_kernels!`](crate::epilogue_kernels), which makes the kernels.
pub trait EpilogueOp<W: Num>: Copy {
    /// Whether it is some `f(sum + bias) + residual`, so that a bias may be added ahead of it, and what is not there is left out.
    #[doc(hidden)]
    const ADDS: bool = false;

    /// The result, of `sum = alpha · A B + beta · C` and of the elements of bias and residual for this place, which are 0
    /// where the product has none.
    fn apply(self, sum: W, bias: W, residual: W) -> W;

    /// Whether it gives sums back as they are where there is neither bias nor residual.
    #[doc(hidden)]
    #[inline(always)]
    fn is_identity(self) -> bool {
        false
    }

    /// [`apply`](Self::apply) to each of the sums, with bias and residual, if they are there, loaded where they are used.
    #[doc(hidden)]
    #[inline(always)]
    fn apply_to<const N: usize>(
        self,
        sums: [W; N],
        there: [bool; 2],
        bias: impl FnOnce() -> [W; N],
        residual: impl FnOnce() -> [W; N],
    ) -> [W; N] {
        let bias = if there[0] { bias() } else { [W::ZERO; N] };
        let residual = if there[1] { residual() } else { [W::ZERO; N] };
        cuda_std::array::from_fn(|i| self.apply(sums[i], bias[i], residual[i]))
    }

    /// Sees results as an accumulator of the tensor cores has them, with the place of the first one and the number of rows
    /// and columns, beyond which there are none. All lanes of a warp do.
    #[doc(hidden)]
    #[inline(always)]
    fn see_fragment<const N: usize>(self, _results: [W; N], _at: [u32; 3], _extents: [u32; 2]) {}
}

/// `f(sum + bias) + residual`
impl<W: Activate> EpilogueOp<W> for Activation {
    const ADDS: bool = true;

    #[inline(always)]
    fn apply(self, sum: W, bias: W, residual: W) -> W {
        let [value] = W::activate(self, [sum.add(bias)]);
        value.add(residual)
    }

    #[inline(always)]
    fn is_identity(self) -> bool {
        self == Self::IDENTITY
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn apply_to<const N: usize>(
        self,
        mut values: [W; N],
        there: [bool; 2],
        bias: impl FnOnce() -> [W; N],
        residual: impl FnOnce() -> [W; N],
    ) -> [W; N] {
        if there[0] {
            let addends = bias();
            values = cuda_std::array::from_fn(|i| values[i].add(addends[i]));
        }
        values = W::activate(self, values);
        if there[1] {
            let addends = residual();
            values = cuda_std::array::from_fn(|i| values[i].add(addends[i]));
        }
        values
    }
}
