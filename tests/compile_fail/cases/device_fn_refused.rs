// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device functions that cannot be called with numbers alone.

use cuda_std::prelude::*;

#[device_fn]
pub unsafe fn with_a_contract(x: f32) -> f32 {
    x
}

#[device_fn]
pub async fn later(x: f32) -> f32 {
    x
}

#[device_fn]
pub fn borrowed<'a>(x: f32) -> f32 {
    x
}

#[device_fn]
pub fn of_any(x: impl Float) -> f32 {
    0.0
}

#[device_fn]
pub fn seven(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) -> u8 {
    a + b + c + d + e + f + g
}

#[device_fn]
pub fn unlisted<T: Float>(x: T) -> T {
    x
}

#[device_fn(max_threads = 256)]
pub fn bounded(x: f32) -> f32 {
    x
}

fn main() {}
