// SPDX-License-Identifier: MIT OR Apache-2.0
//! As `static_slice`, where a bound asks for the lifetime, or a structure takes it.

use cuda_std::prelude::*;

#[kernel]
pub fn bound<'a>(x: &'a [f32])
where
    'a: 'static,
{
    let _ = x;
}

#[kernel]
pub fn output(out: SliceMut<'static, f32>) {
    let _ = out;
}

fn main() {}
