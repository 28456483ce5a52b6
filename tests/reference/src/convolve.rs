// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of a convolution's products, and of its gradients', with what bounds their errors.

/// A sum of products, the sum of their magnitudes, and how many they are.
pub type Sum = [f64; 3];

fn add(to: &mut Sum, product: f64) {
    to[0] += product;
    to[1] += product.abs();
    to[2] += 1.0;
}

/// Adds what an output, of gradient `g`, makes of the channels `x` of a place of the input, which have the weights `w`: to the
/// output itself, to the gradients of those channels and to those of the weights.
pub fn add_channels(x: &[f64], w: &[f64], g: f64, out: &mut Sum, dx: &mut [Sum], dw: &mut [Sum]) {
    for ((x, w), (dx, dw)) in x.iter().zip(w).zip(dx.iter_mut().zip(dw)) {
        add(out, x * w);
        add(dx, g * w);
        add(dw, g * x);
    }
}
