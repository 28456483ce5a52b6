// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices and vectors.

mod across;
mod addend;
mod ampere;
mod bytes;
mod choices;
mod costs;
mod dmma;
mod finish;
mod finish_plan;
mod fused;
mod gemm;
mod gemv;
mod grouped;
mod hopper;
mod hopper_costs;
mod int8;
mod operand;
mod own;
mod precision;
mod rows;
mod scaled;
mod scales;
mod sides;
mod simt;
mod split;
mod tensor;
mod turing;
mod ways;

use half::{bf16, f16};
use kernels_gpu::compiled::RowNumber;
use kernels_gpu::num::Num;
use ndarray::{Dimension, Ix2, Ix3};

pub use self::choices::{CHOICES_VARIABLE, set_matmul_choices};
use self::finish::Finish;
pub use self::fused::FusedMatMul;
use self::gemm::Multiplication;
pub(crate) use self::gemm::matmul_shape;
pub(crate) use self::gemv::check_matvec;
use self::grouped::{Each, Groups};
pub use self::grouped::{Pair, grouped_matmul};
pub(super) use self::hopper::{best_registers, config as hopper_config, is_hopper, least_cycles};
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
/// Those of 32 and 64 bits are multiplied and added in their own type, floats by fused multiply-add, integers modulo 2^32;
/// large products of `f64` by the tensor cores of A100, H100 and later chips of data centres, with the same bits but for those
/// with few rows and columns on Hopper ([`matmul`](DeviceArrayRef::matmul)). Products of `f16` and `bf16` are summed
/// in `f32` and rounded once at the end: by the tensor cores of a GPU from Ampere on, those of `f16` from Turing on, elsewhere as
/// `f32`.
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

    #[doc(hidden)]
    fn multiply_each(products: Vec<Each<'_, Self>>, stream: &Stream) -> Result<()>;

    #[doc(hidden)]
    fn multiply_groups<O: RowNumber>(
        groups: &Groups<'_, Self, O>,
        stream: &Stream,
        out: &mut DeviceArrayRef<Self, Ix2>,
    ) -> Result<()>;

    /// Adds the products of a batch to sums of the type that they are summed in.
    #[doc(hidden)]
    fn add_products(
        a: &DeviceArrayRef<Self, Ix3>,
        b: &DeviceArrayRef<Self, Ix3>,
        sums: &mut DeviceArrayRef<Self::Scalar, Ix3>,
    ) -> Result<()>;
}

/// The compute capabilities that tensor cores have new instructions since.
const TURING: (u32, u32) = (7, 5);
pub(super) const AMPERE: (u32, u32) = (8, 0);
const ADA: (u32, u32) = (8, 9);
const HOPPER: (u32, u32) = (9, 0);

/// Whether the stream's device has the instructions of a warp that tensor cores have since then.
pub(super) fn has_tensor_cores(stream: &Stream, since: (u32, u32)) -> bool {
    stream.backend().properties().tensor_cores >= Some(since)
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! matmul {
    ($($type:ty as $scalar:ty: $multiply:expr, $each:path, $groups:path, $add:path;)*) => {$(
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

            fn multiply_each(products: Vec<Each<'_, Self>>, stream: &Stream) -> Result<()> {
                $each(products, stream)
            }

            fn multiply_groups<O: RowNumber>(
                groups: &Groups<'_, Self, O>,
                stream: &Stream,
                out: &mut DeviceArrayRef<Self, Ix2>,
            ) -> Result<()> {
                $groups(groups, stream, out)
            }

            fn add_products(
                a: &DeviceArrayRef<Self, Ix3>,
                b: &DeviceArrayRef<Self, Ix3>,
                sums: &mut DeviceArrayRef<$scalar, Ix3>,
            ) -> Result<()> {
                $add(a, b, sums)
            }
        }
    )*};
}

matmul! {
    f32 as f32: simt::multiply, grouped::each_alone, grouped::groups_alone, gemm::add_products;
    f64 as f64: dmma::multiply, grouped::each_alone, grouped::groups_alone, gemm::add_products;
    i32 as i32: gemm::multiply_integers, grouped::each_alone, grouped::groups_alone, gemm::add_products;
    f16 as f32: tensor::multiply, grouped::each_at_once, grouped::groups_at_once, tensor::add_products;
    bf16 as f32: tensor::multiply, grouped::each_at_once, grouped::groups_at_once, tensor::add_products;
}
