// SPDX-License-Identifier: MIT OR Apache-2.0
//! One number of those that the kernels write, for who wants the element at an index alone: to the bit the same.
//!
//! Of a block's words those are taken which the element is made of, by choices that leave them in registers.

use cuda_std::random::{Philox4x32, bounded_u32, bounded_u64, normal_f32, normal_f64};

/// The two words of `number`, of which a block has two: modulo 2.
#[inline(always)]
fn pair([a, b, c, d]: [u32; 4], number: u64) -> [u32; 2] {
    if number & 1 == 0 { [a, b] } else { [c, d] }
}

/// The word of `index`, of which a block has four: modulo 4.
#[inline(always)]
fn word(block: [u32; 4], index: u64) -> u32 {
    either(pair(block, index / 2), index)
}

/// The one of two that is that of `index`: modulo 2.
#[inline(always)]
fn either<T>([even, odd]: [T; 2], index: u64) -> T {
    if index & 1 == 0 { even } else { odd }
}

/// An integer of as many random bits as it has.
pub trait RandomBits: Sized {
    /// The bits of the element at `index`.
    fn bits(random: Philox4x32, index: u64) -> Self;

    /// The integer at `index` of those from `low` to `low + last`, modulo 2^bits: that of [`integers`](super::integers()).
    fn bounded(random: Philox4x32, index: u64, low: Self, last: Self) -> Self;
}

impl RandomBits for u32 {
    #[inline(always)]
    fn bits(random: Philox4x32, index: u64) -> u32 {
        word(random.block(index / 4), index)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn bounded(random: Philox4x32, index: u64, low: u32, last: u32) -> u32 {
        let block = random.block(index / 4);
        let upper = word(block, index);
        let length = last.wrapping_add(1);
        let product = u64::from(upper) * u64::from(length);
        let number = if length == 0 {
            upper
        } else if product as u32 <= !last {
            // Whatever lies below the word, it adds at most `last` to the lower half.
            (product >> 32) as u32
        } else {
            bounded_u32([word(random.more(block), index), upper], last)
        };
        low.wrapping_add(number)
    }
}

impl RandomBits for u64 {
    #[inline(always)]
    fn bits(random: Philox4x32, index: u64) -> u64 {
        let [low, high] = pair(random.block(index / 2), index);
        u64::from(low) | u64::from(high) << 32
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn bounded(random: Philox4x32, index: u64, low: u64, last: u64) -> u64 {
        let block = random.block(index / 2);
        let [c, d] = pair(block, index);
        let upper = u64::from(c) | u64::from(d) << 32;
        let length = last.wrapping_add(1);
        let product = u128::from(upper) * u128::from(length);
        let number = if length == 0 {
            upper
        } else if product as u64 <= !last {
            (product >> 64) as u64
        } else {
            let [a, b] = pair(random.more(block), index);
            bounded_u64([a, b, c, d], last)
        };
        low.wrapping_add(number)
    }
}

/// A float type with random numbers of the normal distribution.
pub trait NormalNumber: Sized {
    /// The number at `index` of those of [`normal`](super::normal()).
    fn normal(random: Philox4x32, index: u64, mean: Self, standard_deviation: Self) -> Self;
}

impl NormalNumber for f32 {
    #[inline(always)]
    fn normal(random: Philox4x32, index: u64, mean: f32, standard_deviation: f32) -> f32 {
        let words = pair(random.block(index / 4), index / 2);
        either(normal_f32(words, mean, standard_deviation), index)
    }
}

impl NormalNumber for f64 {
    #[inline(always)]
    fn normal(random: Philox4x32, index: u64, mean: f64, standard_deviation: f64) -> f64 {
        either(normal_f64(random.block(index / 2), mean, standard_deviation), index)
    }
}
