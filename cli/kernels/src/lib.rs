// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels that the program `warpsmith` has beside those of the library: a function of one's own, as
//! `DeviceArray::map_with` takes it, for `warpsmith bench` to measure.
#![no_std]

use cuda_std::Float;

kernels_gpu::elementwise! {
    /// `2 tanh(x) + 1`, in one pass.
    pub fn tanh_affine(x: f32) -> f32 {
        Float::mul_add(Float::tanh(x), 2.0, 1.0)
    }
}
