// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of numbers, of which expressions are made.

use cuda_std::half::bf16;
use cuda_std::prelude::*;
use kernels_gpu::num::Num;

/// `x / (1 + |x|)`.
#[device_fn(T = [f32, f64])]
pub fn softsign<T: Float>(x: T) -> T {
    x / (T::from_f64(1.0) + x.abs())
}

/// The greatest common divisor: Euclid's algorithm, a loop of as many rounds as the numbers want.
#[device_fn(T = [u32, u64])]
pub fn gcd<T: Num>(mut a: T, mut b: T) -> T {
    while b != T::ZERO {
        (a, b) = (b, a.rem(b));
    }
    a
}

/// Whether `x` is at least `low` and less than `high`.
#[device_fn(T = [i32, f64])]
pub fn between<T: Num>(x: T, low: T, high: T) -> bool {
    low <= x && x < high
}

/// `y` on `x` with that share of 255, where it is seen: numbers of several types.
#[device_fn]
pub fn blend(x: u8, y: u8, share: i32, is_seen: bool) -> f32 {
    let share = if is_seen { share } else { 0 };
    (i32::from(x) * (255 - share) + i32::from(y) * share) as f32 / 255.0
}

/// A damped wave, longer than what is put in place, by functions of the device library.
#[device_fn]
pub fn wave(x: f64, damping: f64) -> f64 {
    // By the trait's name: on the host `x.sin()` of an `f64` is that of `std`, which has other last bits.
    Float::sin(x) * Float::exp(-damping * x.abs()) + Float::tanh(Float::ln(1.0 + x * x))
}

/// Twice a number of 16 bits, whose product is rounded.
#[device_fn]
pub fn twice(x: bf16) -> bf16 {
    bf16::from_f32(2.0 * x.to_f32())
}
