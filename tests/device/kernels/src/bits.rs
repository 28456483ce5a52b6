// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bits of integers, and what the compiler is told of registers.

use cuda_std::prelude::*;
use cuda_std::{bits, hint};

/// For each `i`: the bytes of `x[i]` and `x[i + 1]`, the last of which the first follows, that `selectors[i]` chooses.
#[kernel]
pub fn byte_perms(x: &[u32], selectors: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < selectors.len() {
        out.set(
            i,
            bits::byte_perm(x[i], x[(i + 1) % x.len()], hint::opaque(selectors[i])),
        );
    }
}
