// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays of random numbers, by [`cuda_std::random`].
//!
//! Work `n`, span 1; each element is written once and nothing is read. Element `i` is made of the words of the generator
//! that its index names, whatever the launch: an f32 of one word (of two, normal ones come in pairs), an f64 of two, an
//! integer of a range of its own bits and now and then as many more, a byte of one word. So a vector of 16 bytes takes one
//! block of the generator, four for bytes.

use bytemuck::Pod;
use cuda_std::param::Param;
use cuda_std::prelude::*;
use cuda_std::random::{Philox4x32, bounded_u32, bounded_u64, normal_f32, normal_f64, uniform_f32, uniform_f64};

use crate::generate;
pub use crate::generate::THREADS;

mod bijection;
mod single;

pub use bijection::{Bijection, permutation};
pub use single::{NormalNumber, RandomBits};

/// Vectors of 16 bytes that a thread writes: arithmetic is what these kernels wait for, and what a thread computes once
/// takes as long as a third of a vector.
const VECTORS: usize = 8;

/// So many of them at once, where one takes a hundred instructions or more: with all eight, their code would be more than
/// the scheduler's instruction cache holds.
const AT_ONCE: usize = 2;

/// Elements of type `T` that a block writes: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T>() -> usize {
    generate::tile_len::<T>(VECTORS)
}

/// A float type of which a block of the generator makes `N`.
pub trait RandomFloat<const N: usize>: Float {
    /// Numbers of [0, 1).
    fn uniform(block: [u32; 4]) -> [Self; N];

    /// Numbers of the normal distribution.
    fn normal(block: [u32; 4], mean: Self, standard_deviation: Self) -> [Self; N];
}

impl RandomFloat<4> for f32 {
    #[inline(always)]
    fn uniform(block: [u32; 4]) -> [f32; 4] {
        cuda_std::array::map(block, uniform_f32)
    }

    #[inline(always)]
    fn normal([a, b, c, d]: [u32; 4], mean: f32, standard_deviation: f32) -> [f32; 4] {
        let [p, q] = normal_f32([a, b], mean, standard_deviation);
        let [r, s] = normal_f32([c, d], mean, standard_deviation);
        [p, q, r, s]
    }
}

impl RandomFloat<2> for f64 {
    #[inline(always)]
    fn uniform([a, b, c, d]: [u32; 4]) -> [f64; 2] {
        [uniform_f64([a, b]), uniform_f64([c, d])]
    }

    #[inline(always)]
    fn normal(block: [u32; 4], mean: f64, standard_deviation: f64) -> [f64; 2] {
        normal_f64(block, mean, standard_deviation)
    }
}

/// `out[i]` is a number of `low .. low + span`, and not above `greatest`, which the rounding of a sum could be.
#[kernel(
    T = [f32],
    N = [4];
    T = [f64],
    N = [2],
    max_threads = THREADS,
)]
pub fn uniform<T: RandomFloat<N> + Param, const N: usize>(
    random: Philox4x32,
    low: T,
    span: T,
    greatest: T,
    out: SliceMut<'_, T>,
) {
    generate::write::<T, N, VECTORS, VECTORS>(out, |v| {
        cuda_std::array::map(T::uniform(random.block(v as u64)), |x| {
            x.mul_add(span, low).minimum_number(greatest)
        })
    });
}

/// `out[i]` is a number of the normal distribution.
#[kernel(
    T = [f32],
    N = [4];
    T = [f64],
    N = [2],
    max_threads = THREADS,
)]
pub fn normal<T: RandomFloat<N> + Param, const N: usize>(
    random: Philox4x32,
    mean: T,
    standard_deviation: T,
    out: SliceMut<'_, T>,
) {
    // Four vectors at once of f32, two of f64, whose numbers take twice the code.
    generate::write::<T, N, VECTORS, N>(out, |v| T::normal(random.block(v as u64), mean, standard_deviation));
}

/// An integer type of which a block of the generator makes `N`.
pub trait RandomInteger<const N: usize>: Pod {
    /// Integers from `low` to `low + last`, modulo 2^bits: the upper parts of products of the range's length with the
    /// block's words above those of `more`. Those are asked for only where the block's alone leave a product's upper
    /// part open.
    fn bounded(block: [u32; 4], more: impl Fn() -> [u32; 4], low: Self, last: Self) -> [Self; N];
}

impl RandomInteger<4> for u32 {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn bounded(block: [u32; 4], more: impl Fn() -> [u32; 4], low: u32, last: u32) -> [u32; 4] {
        // Not by `last`, with the word added: that is as many instructions again.
        let length = last.wrapping_add(1);
        if length == 0 {
            return cuda_std::array::map(block, |word| low.wrapping_add(word));
        }
        let products = cuda_std::array::map(block, |word| u64::from(word) * u64::from(length));
        // Whatever lies below a word, its product with the length adds at most `last` to the lower half.
        if products.iter().all(|&product| product as u32 <= !last) {
            return cuda_std::array::map(products, |product| low.wrapping_add((product >> 32) as u32));
        }
        let more = more();
        cuda_std::array::from_fn(|k| low.wrapping_add(bounded_u32([more[k], block[k]], last)))
    }
}

impl RandomInteger<2> for u64 {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn bounded([a, b, c, d]: [u32; 4], more: impl Fn() -> [u32; 4], low: u64, last: u64) -> [u64; 2] {
        let words = cuda_std::array::map([[a, b], [c, d]], |[low, high]| u64::from(low) | u64::from(high) << 32);
        let length = last.wrapping_add(1);
        if length == 0 {
            return cuda_std::array::map(words, |word| low.wrapping_add(word));
        }
        let products = cuda_std::array::map(words, |word| u128::from(word) * u128::from(length));
        if products.iter().all(|&product| product as u64 <= !last) {
            return cuda_std::array::map(products, |product| low.wrapping_add((product >> 64) as u64));
        }
        let [e, f, g, h] = more();
        cuda_std::array::map([[e, f, a, b], [g, h, c, d]], |words| {
            low.wrapping_add(bounded_u64(words, last))
        })
    }
}

/// `out[i]` is one of the integers from `low` to `low + last`.
#[kernel(
    T = [u32],
    N = [4];
    T = [u64],
    N = [2],
    max_threads = THREADS,
)]
pub fn integers<T: RandomInteger<N> + Param, const N: usize>(
    random: Philox4x32,
    low: T,
    last: T,
    out: SliceMut<'_, T>,
) {
    generate::write::<T, N, VECTORS, AT_ONCE>(out, |v| {
        let block = random.block(v as u64);
        T::bounded(block, || random.more(block), low, last)
    });
}

/// `out[i]` is 1 if a random word is less than `threshold`, else 0.
#[kernel(max_threads = THREADS)]
pub fn bernoulli(random: Philox4x32, threshold: u64, out: SliceMut<'_, u8>) {
    generate::write::<u8, 16, VECTORS, AT_ONCE>(out, |v| {
        let blocks: [[u32; 4]; 4] = cuda_std::array::from_fn(|k| random.block(4 * v as u64 + k as u64));
        cuda_std::array::from_fn(|k| u8::from(u64::from(blocks[k / 4][k % 4]) < threshold))
    });
}
