// SPDX-License-Identifier: MIT OR Apache-2.0
//! As `static_slice`, where other names stand for the lifetime.

use cuda_std::prelude::*;

type Forever = &'static [f32];
type ForeverMut = SliceMut<'static, f32>;

trait Named {
    type Slice;
}

struct Mine;

impl Named for Mine {
    type Slice = cuda_std::Slice<'static, f32>;
}

#[kernel]
pub fn alias(x: Forever) {
    let _ = x;
}

#[kernel]
pub fn alias_mut(x: ForeverMut) {
    let _ = x;
}

#[kernel]
pub fn associated(x: <Mine as Named>::Slice) {
    let _ = x;
}

#[kernel(T = [Forever])]
pub fn generic<T: cuda_std::param::Param>(x: T) {
    let _ = x;
}

fn main() {}
