// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products with an epilogue of one's own: those of 16 bits by kernels that have it, of which its kernels crate has as many as
//! the library; the others by the library's kernels, behind which one more finishes what they stored. So there is one
//! kernel for such a type, where fused there would be 17 of `f32`, and it takes little of the time: products of `f32` at 4096
//! take some 2.7 ms on an H200, to read and write their result 30 µs.

use half::{bf16, f16};
use kernels_gpu::compiled::{AcrossGemm, AmpereGemm, FinishSums, HopperGemm};
use kernels_gpu::num::Num;
use ndarray::Dimension;

use super::finish::{self, Finish, Finished, Passed, Sums};
use super::gemm::{Multiplication, Multiply};
use super::{MatMul, tensor};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;

/// What multiplies with the function `F`, and may have another multiply.
pub(super) type MultiplyWith<T, D, F> = fn(
    Multiply<T, D>,
    Multiplication<'_, T, D>,
    &Stream,
    &mut DeviceArrayRef<T, D>,
    &Finish<'_, T, D, F>,
) -> Result<()>;

/// The element types of products with the epilogue `F`: those that
/// [`epilogue_kernels!`](kernels_gpu::epilogue_kernels) was given for it.
pub trait OwnEpilogue<F>: MatMul {
    #[doc(hidden)]
    fn multiply_with<D: Dimension>(
        multiply: Multiply<Self, D>,
        product: Multiplication<'_, Self, D>,
        stream: &Stream,
        out: &mut DeviceArrayRef<Self, D>,
        finish: &Finish<'_, Self, D, F>,
    ) -> Result<()>;
}

macro_rules! in_the_kernel {
    ($($type:ty),*) => {$(
        impl<F: Passed<f32>> OwnEpilogue<F> for $type
        where
            $type: HopperGemm<$type, F> + AcrossGemm<F> + AmpereGemm<$type, F> + FinishSums<F>,
        {
            fn multiply_with<D: Dimension>(
                _: Multiply<Self, D>,
                product: Multiplication<'_, Self, D>,
                stream: &Stream,
                out: &mut DeviceArrayRef<Self, D>,
                finish: &Finish<'_, Self, D, F>,
            ) -> Result<()> {
                tensor::multiply(product, stream, out, finish)
            }
        }
    )*};
}

in_the_kernel!(f16, bf16);

macro_rules! behind_it {
    ($($type:ty),*) => {$(
        impl<F: Passed<$type>> OwnEpilogue<F> for $type
        where
            $type: FinishSums<F>,
        {
            fn multiply_with<D: Dimension>(
                multiply: Multiply<Self, D>,
                product: Multiplication<'_, Self, D>,
                stream: &Stream,
                out: &mut DeviceArrayRef<Self, D>,
                finish: &Finish<'_, Self, D, F>,
            ) -> Result<()> {
                finish_behind(multiply, product, stream, out, finish)
            }
        }
    )*};
}

behind_it!(f32, f64, i32);

/// Multiplies into the output, and finishes what lies there.
fn finish_behind<T, D: Dimension, F: Passed<T>>(
    multiply: Multiply<T, D>,
    product: Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, D>,
    finish: &Finish<'_, T, D, F>,
) -> Result<()>
where
    T: Finished<Scalar = T> + Num<Wide = T> + FinishSums<F>,
{
    let shape = product.shape;
    multiply(product, stream, out, &Finish::scale(finish.alpha, finish.beta))?;
    // SAFETY: the launch takes the output mutably beside it; a thread of its kernel reads what it then sets.
    let sums = unsafe { Sums::in_place(out, &shape) };
    finish::finish_sums_into(sums, &shape, stream, out, &finish.without_scaling())
}
