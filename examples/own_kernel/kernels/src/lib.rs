// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels of one's own: plain Rust without the standard library.
#![no_std]

use cuda_std::prelude::*;

/// The points of a picture that is `width` pixels wide and shows the complex plane around (−0.75, 0), and how many
/// steps each takes to leave the circle of radius 2 under `z ↦ z² + c`: the Mandelbrot set.
#[kernel(T = [f32, f64])]
pub fn mandelbrot<T: Float>(width: u32, most: u32, steps: SliceMut<'_, u32>) {
    let (row, column) = thread::index_2d();
    let (width, height) = (width as usize, steps.len() / width as usize);
    if row >= height || column >= width {
        return;
    }
    let scale = 2.5 / height as f64;
    let (x, y) = (column as f64 - width as f64 / 2.0, row as f64 - height as f64 / 2.0);
    let (cx, cy) = (T::from_f64(x * scale - 0.75), T::from_f64(y * scale));

    let (mut zx, mut zy, mut count) = (cx, cy, 0);
    while count < most && zx * zx + zy * zy <= T::from_f64(4.0) {
        let next = zx.mul_add(zx, cx - zy * zy);
        zy = (zx + zx).mul_add(zy, cy);
        zx = next;
        count += 1;
    }
    steps.set(row * width + column, count);
}
