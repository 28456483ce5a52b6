//! The kernels: plain Rust without the standard library.
#![no_std]

use cuda_std::prelude::*;

/// out\[i\] = a · x\[i\] + y\[i\]
#[kernel(T = [f32, f64])]
pub fn saxpy<T: Float>(a: T, x: &[T], y: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, a.mul_add(x[i], y[i]));
    }
}
