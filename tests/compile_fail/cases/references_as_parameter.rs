// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that takes an array of references, which is no parameter, among others that are.

use cuda_std::prelude::*;

#[kernel(T = [f32, f64])]
pub fn weigh<T: Float>(x: &[T], weights: [&f32; 5], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    out.set(i, x[i] * T::from_f64((*weights[i % 5]).into()));
}

fn main() {}
