// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices and vectors.

mod ampere;
mod bytes;
mod choices;
mod dmma;
mod finish;
mod fused;
mod gemm;
mod gemv;
mod hopper;
mod int8;
mod operand;
mod own;
mod precision;
mod rows;
mod scaled;
mod scales;
mod simt;
mod split;
mod tensor;

use half::{bf16, f16};
use kernels_gpu::num::Num;
use ndarray::Dimension;

pub use self::choices::{CHOICES_VARIABLE, set_matmul_choices};
use self::finish::Finish;
pub use self::fused::FusedMatMul;
use self::gemm::Multiplication;
pub use self::own::OwnEpilogue;
pub use self::precision::Precision;
pub use self::rows::{RowMatMul, WithRows};
pub use self::scaled::{ScaledMatMul, ScaledMul};
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;

/// The element types of products of matrices: `f32`, `f64`, `i32`, `f16` and `bf16`.
///
/// Those of 32 and 64 bits are multiplied and added in their own type, floats by fused multiply-add, integers modulo
/// 2^32; large products of `f64` by the tensor cores of a Hopper GPU, with the same bits. Products of `f16` and `bf16` are
/// summed in `f32` and rounded once at the end: by the tensor cores of a GPU from Ampere on, elsewhere as `f32`.
pub trait MatMul: Element + sealed::Sealed {
    /// What [`gemm`](DeviceArrayRef::gemm) scales by: the type itself, or `f32` for those of 16 bits.
    type Scalar: Num;

    #[doc(hidden)]
    fn multiply<D: Dimension>(
        product: Multiplication<'_, Self, D>,
        stream: &Stream,
        out: &mut DeviceArrayRef<Self, D>,
        finish: &Finish<'_, Self, D>,
    ) -> Result<()>;
}

/// The compute capability of Hopper.
const HOPPER: (u32, u32) = (9, 0);

mod sealed {
    pub trait Sealed {}
}

macro_rules! matmul {
    ($($type:ty as $scalar:ty: $multiply:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl MatMul for $type {
            type Scalar = $scalar;

            fn multiply<D: Dimension>(
                product: Multiplication<'_, Self, D>,
                stream: &Stream,
                out: &mut DeviceArrayRef<Self, D>,
                finish: &Finish<'_, Self, D>,
            ) -> Result<()> {
                $multiply(product, stream, out, finish)
            }
        }
    )*};
}

matmul! {
    f32 as f32: simt::multiply;
    f64 as f64: dmma::multiply;
    i32 as i32: Multiplication::run;
    f16 as f32: tensor::multiply;
    bf16 as f32: tensor::multiply;
}
