// SPDX-License-Identifier: MIT OR Apache-2.0
//! Epilogues of one's own.

use cuda_std::prelude::*;
use kernels_gpu::matmul::epilogue::EpilogueOp;

/// `min(sum + 2 bias, limit) − residual²`: of small integers exact in each type, and other for each of the three.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Hinge {
    /// The most that the first part is.
    pub limit: i32,
}

macro_rules! hinge {
    ($($type:ident)*) => {$(
        impl EpilogueOp<$type> for Hinge {
            fn apply(self, sum: $type, bias: $type, residual: $type) -> $type {
                let (sum, limit) = (sum + bias + bias, self.limit as $type);
                (if sum < limit { sum } else { limit }) - residual * residual
            }
        }
    )*};
}

hinge! { f32 f64 i32 }

kernels_gpu::epilogue_kernels!(Hinge: bf16, f32, f64, i32);

/// `x / (1 + e^−x)` of the sum, without parameters.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Swish;

impl EpilogueOp<f32> for Swish {
    fn apply(self, sum: f32, _: f32, _: f32) -> f32 {
        sum / (1.0 + Float::exp(-sum))
    }
}

kernels_gpu::epilogue_kernels!(Swish: f16);
