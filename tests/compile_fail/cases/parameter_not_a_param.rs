// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that takes what no launch can pass.

use cuda_std::prelude::*;

#[kernel]
pub fn write(text: &str, out: SliceMut<'_, u8>) {
    out.set(0, text.as_bytes()[0]);
}

fn main() {}
