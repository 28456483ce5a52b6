// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices and vectors.

mod gemm;
mod gemv;

use kernels_gpu::matmul::MulAdd;
use kernels_gpu::matmul::gemm::{Large, Medium, Small};

use gemm::HasGemmSize;
use gemv::HasGemv;

/// The element types of products of matrices: `f32`, `f64`, `i32`.
///
/// Floats are multiplied and added by fused multiply-add in their own type; integers wrap around on overflow.
pub trait MatMul: MulAdd + HasGemmSize<Large> + HasGemmSize<Medium> + HasGemmSize<Small> + HasGemv {}

macro_rules! implement {
    ($($type:ty),*) => { $(impl MatMul for $type {})* };
}

implement!(f32, f64, i32);
