// SPDX-License-Identifier: MIT OR Apache-2.0
//! Epilogues of one's own.

use cuda_std::half::bf16;
use cuda_std::prelude::*;
use kernels_gpu::matmul::epilogue::EpilogueOp;
use kernels_gpu::op::ReduceOp;

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
            #[inline(always)]
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
    #[inline(always)]
    fn apply(self, sum: f32, _: f32, _: f32) -> f32 {
        sum / (1.0 + Float::exp(-sum))
    }
}

kernels_gpu::epilogue_kernels!(Swish: f16);

/// The largest element, the column of the first such, and the sum: of small integers exact, in whatever order.
pub struct Profile;

impl ReduceOp<bf16> for Profile {
    type Acc = [f32; 3];
    type Output = [f32; 3];

    #[inline(always)]
    fn identity() -> [f32; 3] {
        [f32::NEG_INFINITY, f32::INFINITY, 0.0]
    }

    #[inline(always)]
    fn lift(x: bf16, column: u64) -> [f32; 3] {
        [x.to_f32(), column as f32, x.to_f32()]
    }

    #[inline(always)]
    fn combine(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
        let b_wins = b[0] > a[0] || (b[0] == a[0] && b[1] < a[1]);
        let (most, column) = if b_wins { (b[0], b[1]) } else { (a[0], a[1]) };
        [most, column, a[2] + b[2]]
    }

    /// With the number of the columns added to the sum.
    fn finish(acc: [f32; 3], count: u64) -> [f32; 3] {
        [acc[0], acc[1], acc[2] + count as f32]
    }
}

kernels_gpu::operator_kernels!(Profile: bf16 => reduce);
kernels_gpu::row_kernels!(Profile: bf16);
