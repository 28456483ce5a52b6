// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permutations as functions of the index: a block cipher for numbers below `n`, and no sort.
//!
//! The method of R. Mitchell, D. Stokes, E. Frank and G. Holmes, "Bandwidth-optimal random shuffling for GPUs" (ACM
//! Transactions on Parallel Computing 9, 2022): a Feistel network permutes the numbers of as many bits as `n − 1` has,
//! and who leaves the range is sent on until it is back (cycle walking, fewer than two rounds of it on average). The
//! round function here is the finaliser of A. Appleby's MurmurHash3 with a random key.

use bytemuck::{Pod, Zeroable};
use cuda_std::prelude::*;

use super::{AT_ONCE, THREADS, VECTORS};
use crate::generate;

/// Rounds of the network: so many that of four elements each of the 24 orders is as likely as the
/// others, to one part in 10^4.
const ROUNDS: usize = 16;

/// A permutation of the numbers below `len`.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Bijection {
    len: u64,
    bits: [u32; 2],
    keys: [u32; ROUNDS],
}

impl Bijection {
    /// Blocks of random words that a permutation takes.
    pub const BLOCKS: u64 = ROUNDS as u64 / 4;

    /// The permutation with these keys.
    pub fn new(len: u64, block: impl Fn(u64) -> [u32; 4]) -> Self {
        // Either half has a bit at least.
        let bits = Ord::max(64 - len.saturating_sub(1).leading_zeros(), 2);
        let mut keys = [0; ROUNDS];
        for (k, key) in keys.iter_mut().enumerate() {
            *key = block(k as u64 / 4)[k % 4];
        }
        Self {
            len,
            bits: [bits - bits / 2, bits / 2],
            keys,
        }
    }

    /// Where the permutation sends `i`, which is below `len`.
    #[inline(always)]
    pub fn apply(&self, mut i: u64) -> u64 {
        loop {
            i = self.network(i);
            // Whoever is not yet back comes back: the network permutes, so that its powers lead from `i` to `i`.
            if i < self.len {
                return i;
            }
        }
    }

    /// The permutation of all numbers with the sum of the halves' bits.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn network(&self, i: u64) -> u64 {
        let [left_bits, right_bits] = self.bits;
        let (mut left, mut right) = ((i >> right_bits) as u32, i as u32 & (u32::MAX >> (32 - right_bits)));
        let mut round = 0;
        while round < ROUNDS {
            left ^= mix(right ^ self.keys[round]) >> (32 - left_bits);
            right ^= mix(left ^ self.keys[round + 1]) >> (32 - right_bits);
            round += 2;
        }
        u64::from(left) << right_bits | u64::from(right)
    }
}

/// A number of which each bit depends on all of `x`.
#[inline(always)]
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

/// `out[i]` is where the permutation sends `i`; `out` has as many elements as it permutes.
#[kernel(max_threads = THREADS)]
pub fn permutation(bijection: Bijection, out: SliceMut<'_, u64>) {
    generate::write::<u64, 2, VECTORS, AT_ONCE>(out, |v| {
        cuda_std::array::from_fn(|k| {
            let i = (2 * v + k) as u64;
            // What lies beyond the end is not written, and would never come back to the range.
            if i < bijection.len { bijection.apply(i) } else { i }
        })
    });
}
