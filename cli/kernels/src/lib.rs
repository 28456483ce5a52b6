// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels that the program `warpsmith` has beside those of the library: an operator of one's own, as
//! `DeviceArray::map_with` takes it, for `warpsmith bench` to measure.
#![no_std]

use cuda_std::prelude::*;
use kernels_gpu::map::{self, THREADS};
use kernels_gpu::op::UnaryOp;

/// `2 tanh(x) + 1`
pub struct TanhAffine;

impl UnaryOp<f32> for TanhAffine {
    #[inline(always)]
    fn apply(x: f32) -> f32 {
        Float::mul_add(Float::tanh(x), 2.0, 1.0)
    }
}

/// `out[i] = 2 tanh(x[i]) + 1`, in one pass; `x` is as long as `out`.
#[kernel(max_threads = THREADS)]
pub fn tanh_affine(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    map::map::<f32, TanhAffine>(x, out);
}
