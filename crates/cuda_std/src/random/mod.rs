// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers by Philox 4×32-10, and what is made of its words: uniform and normal floats, integers of a range.
//!
//! The generator is a function of a counter, with no state from one number to the next (J. K. Salmon, M. A. Moraes,
//! R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a thread computes the numbers that
//! are its own, in any order, and nobody else's. It is no generator for cryptography.
//!
//! All of it is integer arithmetic and floats that are rounded once at each step, so that a seed gives the same bits on
//! the GPU and on the simulated one.
//!
//! # Examples
//!
//! Each thread takes the sequence of its own index, and so as many numbers as it likes:
//!
//! ```
//! use cuda_std::prelude::*;
//! use cuda_std::random::{Philox4x32, normal_f32};
//!
//! /// Where `out.len()` random walks of `steps` steps end.
//! #[kernel]
//! pub fn walk(random: Philox4x32, steps: u32, out: SliceMut<'_, f32>) {
//!     let i = thread::index_1d();
//!     if i < out.len() {
//!         let random = random.with_sequence(i as u64);
//!         let mut place = 0.0;
//!         for step in 0..u64::from(steps.div_ceil(4)) {
//!             let [a, b, c, d] = random.block(step);
//!             let ([p, q], [r, s]) = (normal_f32([a, b], 0.0, 1.0), normal_f32([c, d], 0.0, 1.0));
//!             place += (p + q) + (r + s);
//!         }
//!         out.set(i, place);
//!     }
//! }
//! # let mut out = [0.0f32; 64];
//! # cuda_std::launch::on_simulator(1, 64, &mut out, |out| walk(Philox4x32::new(1), 100, out));
//! # let mean_square = out.map(|x| x * x).iter().sum::<f32>() / 64.0;
//! # assert!((60.0..150.0).contains(&mean_square), "{mean_square}");
//! ```

use bytemuck::{Pod, Zeroable};

use crate::KernelParam;
use crate::bits::mul_wide;

mod double;
mod single;

pub use double::{normal_f64, uniform_f64};
pub use single::{normal_f32, uniform_f32};

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What is added to the key from round to round: the golden ratio and √3 − 1.
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// The generator Philox 4×32-10 with a key: 2^64 sequences of 2^64 blocks, of four random words each.
///
/// A block is computed from its number alone, by 20 wide multiplications and 20 exclusive ors. The keys of the rounds
/// are made by [`new`](Self::new): who passes a generator to a kernel (it is a parameter that goes by value) spares the
/// threads that.
///
/// ```
/// use cuda_std::random::Philox4x32;
///
/// let random = Philox4x32::new(7);
/// assert_eq!(random.skip(5).block(0), random.block(5));
/// assert_ne!(random.with_sequence(1).block(5), random.block(5));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam, Pod, Zeroable)]
pub struct Philox4x32 {
    keys: [[u32; 2]; ROUNDS],
    first: u64,
    sequence: u64,
}

impl Philox4x32 {
    /// Sequence 0 of that seed, which is the key: its lower word first.
    #[inline(always)]
    pub const fn new(seed: u64) -> Self {
        let mut keys = [[0; 2]; ROUNDS];
        let mut key = [seed as u32, (seed >> 32) as u32];
        let mut round = 0;
        while round < ROUNDS {
            keys[round] = key;
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
            round += 1;
        }
        Self {
            keys,
            first: 0,
            sequence: 0,
        }
    }

    /// Another sequence of the same seed: as random as that of another seed, and with no block in common.
    #[inline(always)]
    pub const fn with_sequence(self, sequence: u64) -> Self {
        Self { sequence, ..self }
    }

    /// The generator whose block 0 is block `blocks` of this one.
    #[inline(always)]
    pub const fn skip(self, blocks: u64) -> Self {
        Self {
            first: self.first.wrapping_add(blocks),
            ..self
        }
    }

    /// Block `number` of the sequence: four words, each with all of its 32 bits random. The counter is the block's
    /// number, in the lower two words, and the sequence's.
    #[inline(always)]
    pub fn block(&self, number: u64) -> [u32; 4] {
        let number = self.first.wrapping_add(number);
        self.rounds([
            number as u32,
            (number >> 32) as u32,
            self.sequence as u32,
            (self.sequence >> 32) as u32,
        ])
    }

    /// Four more words for who has that block and now and then wants more than it has: the block through the rounds once
    /// more, as a counter.
    ///
    /// ```
    /// use cuda_std::random::{Philox4x32, bounded_u32};
    ///
    /// let random = Philox4x32::new(7);
    /// let block = random.block(0);
    /// let more = random.more(block);
    /// assert_ne!(more, block);
    /// let digits = [0, 1, 2, 3].map(|k| bounded_u32([more[k], block[k]], 9));
    /// assert!(digits.iter().all(|&digit| digit < 10));
    /// ```
    #[inline(always)]
    pub fn more(&self, block: [u32; 4]) -> [u32; 4] {
        self.rounds(block)
    }

    #[inline(always)]
    fn rounds(&self, mut words: [u32; 4]) -> [u32; 4] {
        let mut round = 0;
        while round < ROUNDS {
            let [key, other_key] = self.keys[round];
            let [low, high] = mul_wide(words[0], MULTIPLIERS[0]);
            let [other_low, other_high] = mul_wide(words[2], MULTIPLIERS[1]);
            words = [other_high ^ words[1] ^ key, other_low, high ^ words[3] ^ other_key, low];
            round += 1;
        }
        words
    }
}

/// A random integer from 0 to `last`, both included, of two random words.
///
/// It is the upper part of their product with `last + 1`, without rejection: each value's probability differs from
/// `1 / (last + 1)` by less than 2^-64, so by less than one part in 2^32.
///
/// ```
/// use cuda_std::random::{Philox4x32, bounded_u32};
///
/// let [a, b, ..] = Philox4x32::new(7).block(0);
/// assert!((1..=6).contains(&(1 + bounded_u32([a, b], 5))));
/// ```
#[inline(always)]
pub const fn bounded_u32(words: [u32; 2], last: u32) -> u32 {
    let (x, last) = (join(words) as u128, last as u128);
    ((x * last + x) >> 64) as u32
}

/// A random integer from 0 to `last`, both included, of four random words: as [`bounded_u32`], but each value's
/// probability differs from `1 / (last + 1)` by less than 2^-128, so by less than one part in 2^64.
///
/// ```
/// use cuda_std::random::{Philox4x32, bounded_u64};
///
/// assert!(bounded_u64(Philox4x32::new(7).block(0), 999) < 1000);
/// ```
#[inline(always)]
pub const fn bounded_u64(words: [u32; 4], last: u64) -> u64 {
    let (low, high) = (join([words[0], words[1]]) as u128, join([words[2], words[3]]) as u128);
    let last = last as u128;
    // The product has 192 bits; neither sum reaches 2^128.
    let carry = (low * last + low) >> 64;
    ((high * last + high + carry) >> 64) as u64
}

/// The lower and the upper half of 64 bits.
#[inline(always)]
const fn join(words: [u32; 2]) -> u64 {
    words[0] as u64 | (words[1] as u64) << 32
}

#[cfg(test)]
mod tests;
