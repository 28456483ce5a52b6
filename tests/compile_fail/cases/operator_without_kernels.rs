// SPDX-License-Identifier: MIT OR Apache-2.0
//! An operator of the user's for which no kernels were made.

use warpsmith::DeviceArray;
use warpsmith::ops::ReduceOp;

struct Count;

impl ReduceOp<f32> for Count {
    type Acc = u32;
    type Output = u32;

    fn identity() -> u32 {
        0
    }

    fn lift(_: f32, _: u64) -> u32 {
        1
    }

    fn combine(a: u32, b: u32) -> u32 {
        a + b
    }

    fn finish(acc: u32, _: u64) -> u32 {
        acc
    }
}

fn count(x: &DeviceArray<f32, ndarray::Ix1>) -> warpsmith::Result<u32> {
    x.reduce::<Count>()
}

fn main() {}
