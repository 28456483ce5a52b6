// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Operators, functions and projects of your own".

use cuda_std::prelude::*;
use kernels_gpu::op::ReduceOp;

// ANCHOR: operator
/// The Euclidean norm: squares are added up, and the root is taken of the sum.
pub struct Norm;

impl ReduceOp<f32> for Norm {
    type Acc = f64; // what is combined
    type Output = f32; // what comes out

    fn identity() -> f64 {
        0.0
    }

    fn lift(x: f32, _index: u64) -> f64 {
        f64::from(x) * f64::from(x)
    }

    fn combine(a: f64, b: f64) -> f64 {
        a + b
    }

    fn finish(sum: f64, _count: u64) -> f32 {
        Float::sqrt(sum) as f32
    }
}

kernels_gpu::operator_kernels!(Norm: f32 => reduce);
// ANCHOR_END: operator

// ANCHOR: elementwise
kernels_gpu::elementwise! {
    /// `x` mixed with `y`: `weight` of 255 parts are `y`.
    pub fn mix(x: u8, y: u8, weight: u8) -> u8 {
        let (x, y, weight) = (x as u32, y as u32, weight as u32);
        ((x * (255 - weight) + y * weight + 127) / 255) as u8
    }
}
// ANCHOR_END: elementwise

// ANCHOR: device_fn
/// Huber's loss of a residual `r`, quadratic up to `delta` and linear beyond.
#[device_fn(T = [f32, f64])]
pub fn huber<T: Float>(r: T, delta: T) -> T {
    let (half, a) = (T::from_f64(0.5), r.abs());
    if a <= delta {
        half * a * a
    } else {
        delta * (a - half * delta)
    }
}
// ANCHOR_END: device_fn
