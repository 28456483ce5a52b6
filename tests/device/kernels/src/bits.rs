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

/// The sums of the bytes and of the halves of `x[i]`, each times `i`, `i + 1` … modulo 256, on top of `x[i]`.
#[kernel]
pub fn dot_products(x: &[u32], of_bytes: SliceMut<'_, u32>, of_halves: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < x.len() {
        let factors = u32::from_le_bytes([0, 1, 2, 3].map(|k| (i as u8).wrapping_add(k)));
        of_bytes.set(i, bits::dp4a(x[i], factors, x[i]));
        of_halves.set(i, bits::dp2a_lo(x[i], factors, x[i]));
    }
}
