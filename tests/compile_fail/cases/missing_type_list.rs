// SPDX-License-Identifier: MIT OR Apache-2.0
//! A generic kernel that does not say for which types it is compiled.

use cuda_std::prelude::*;

#[kernel]
pub fn halve<T: Float>(x: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    out.set(i, x[i] * T::from_f64(0.5));
}

fn main() {}
