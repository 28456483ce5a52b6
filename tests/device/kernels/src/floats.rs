// SPDX-License-Identifier: MIT OR Apache-2.0
//! The float functions.

use cuda_std::prelude::*;

/// Function `function` (see the test) of each element.
#[kernel(T = [f32, f64])]
pub fn function<T: Float>(function: u32, x: &[T], y: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    if i >= out.len() {
        return;
    }
    let (x, y) = (x[i], y[i]);
    out.set(
        i,
        match function {
            0 => x.sqrt(),
            1 => x.exp(),
            2 => x.ln(),
            3 => x.sin(),
            4 => x.cos(),
            5 => x.tanh(),
            6 => x.mul_add(y, x),
            7 => x.minimum(y),
            _ => x.maximum(y),
        },
    );
}
