// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums and products of integers of 8 and 16 bits, given in 64 bits: made in 32 bits as far as those have room.
//!
//! Memory gives an H200 4 · 10¹² bytes a second, and an addition of 64 bits is two instructions: added one by one, bytes
//! would take longer than they take to come. `dp4a` and `dp2a` add the four bytes or two halves of a word, as it is
//! loaded, to a sum of 32 bits in one instruction.
//!
//! `n` integers of `b` bits are less than `n · 2^b`. The numbers that are summed in 32 bits are constants, for which the
//! compiler checks that this is at most 2^32 (`has_room`): a thread's vectors of 16 bytes, at most four of them, and what
//! a warp scans at a time.

use bytemuck::Pod;
use cuda_block::warp::scan_rows;
use cuda_std::bits::{dp2a_lo, dp4a};

use crate::scan::scan_segments;

/// An unsigned integer of 8 or 16 bits.
pub(crate) trait Narrow: Pod + Into<u32> {
    /// Its bits.
    const BITS: u32 = 8 * size_of::<Self>() as u32;

    /// `sum` and the numbers that lie in a word.
    fn add_word(word: u32, sum: u32) -> u32;
}

impl Narrow for u8 {
    #[inline(always)]
    fn add_word(word: u32, sum: u32) -> u32 {
        dp4a(word, 0x0101_0101, sum)
    }
}

impl Narrow for u16 {
    #[inline(always)]
    fn add_word(word: u32, sum: u32) -> u32 {
        dp2a_lo(word, 0x0101, sum)
    }
}

/// Whether 32 bits have room for the sum of `count` numbers.
const fn has_room<T: Narrow>(count: usize) -> bool {
    (count as u64) << T::BITS <= 1 << 32
}

/// Word `w` of a vector, with zeros beyond its end.
#[inline(always)]
fn word<T: Narrow, const N: usize>(vector: &[T; N], w: usize) -> u32 {
    let (mut word, bytes) = ([0; 4], bytemuck::cast_slice::<T, u8>(vector));
    let place = 4 * w..Ord::min(4 * w + 4, N * size_of::<T>());
    word[..place.len()].copy_from_slice(&bytes[place]);
    u32::from_le_bytes(word)
}

/// The sum of numbers, each in a register of its own.
#[inline(always)]
pub(crate) fn sum<T: Narrow, const N: usize>(values: [T; N]) -> u64 {
    const { assert!(has_room::<T>(N)) };
    let mut sum = 0;
    for k in 0..N {
        sum += values[k].into();
    }
    sum.into()
}

/// The sum of all numbers of vectors, each in the words that it is loaded in.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(crate) fn sum_of_vectors<T: Narrow, const N: usize, const U: usize>(vectors: [[T; N]; U]) -> u64 {
    const { assert!(has_room::<T>(N * U)) };
    let mut sum = 0;
    for u in 0..U {
        for w in 0..size_of::<[T; N]>().div_ceil(4) {
            sum = T::add_word(word(&vectors[u], w), sum);
        }
    }
    sum.into()
}

/// [`ReduceOp::scan_warp`](crate::op::ReduceOp::scan_warp) for sums of vectors of at most [`VECTOR`] numbers.
#[inline(always)]
pub(crate) fn sums_of_warp<T: Narrow, const U: usize>(values: [u64; U]) -> ([u64; U], u64) {
    const { assert!(has_room::<T>(VECTOR * 32 * U)) };
    let (before, total) = scan_rows(cuda_std::array::map(values, |value| value as u32), 0, u32::wrapping_add);
    (cuda_std::array::map(before, u64::from), total.into())
}

/// [`ReduceOp::scan_segments`](crate::op::ReduceOp::scan_segments) for sums of such vectors.
#[inline(always)]
pub(crate) fn sums_of_segments<T: Narrow, const U: usize>(values: [u64; U], heads: [u32; U]) -> ([u64; U], u64) {
    const { assert!(has_room::<T>(VECTOR * 32 * U)) };
    let values = cuda_std::array::map(values, |value| value as u32);
    let (before, total) = scan_segments(values, heads, 0, u32::wrapping_add);
    (cuda_std::array::map(before, u64::from), total.into())
}

/// The most numbers of a vector: those of 16 bytes.
const VECTOR: usize = 16;

/// The product of all numbers: as many at a time as 32 bits have room for, and those in 64 bits.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(crate) fn product<T: Narrow, const N: usize>(values: [T; N]) -> u64 {
    let at_once = (32 / T::BITS) as usize;
    let mut product = 1u64;
    for i in 0..N.div_ceil(at_once) {
        let mut some = 1u32;
        for k in i * at_once..Ord::min((i + 1) * at_once, N) {
            some *= values[k].into();
        }
        product = product.wrapping_mul(some.into());
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums and products of numbers of type `T` are those of 64 bits, whatever lies in a word.
    #[track_caller]
    fn check<T: Narrow + core::fmt::Debug, const N: usize>(values: [T; N]) {
        let wide = values.map(|value| u64::from(value.into()));
        let wanted = wide.iter().sum::<u64>();
        assert_eq!(sum(values), wanted, "{values:?}");
        assert_eq!(sum_of_vectors([values]), wanted, "{values:?}");
        assert_eq!(sum_of_vectors([values; 3]), 3 * wanted, "three times {values:?}");
        let wanted = wide.iter().fold(1, |product: u64, value| product.wrapping_mul(*value));
        assert_eq!(product(values), wanted, "{values:?}");
    }

    fn any_number<T: Narrow + core::fmt::Debug, const N: usize>(greatest: T, random: fn(usize) -> T) {
        check([greatest; N]);
        check::<T, N>(cuda_std::array::from_fn(random));
        for k in 0..N {
            let one = |i| if i == k { greatest } else { T::zeroed() };
            check::<T, N>(cuda_std::array::from_fn(one));
        }
    }

    #[test]
    fn bytes() {
        let random = |k: usize| (k * k * 31 + 17 * k + 201) as u8;
        any_number::<u8, 0>(u8::MAX, random);
        any_number::<u8, 1>(u8::MAX, random);
        any_number::<u8, 2>(u8::MAX, random);
        any_number::<u8, 3>(u8::MAX, random);
        any_number::<u8, 5>(u8::MAX, random);
        any_number::<u8, 8>(u8::MAX, random);
        any_number::<u8, 16>(u8::MAX, random);
        any_number::<u8, 255>(u8::MAX, random);
    }

    #[test]
    fn halves() {
        let random = |k: usize| (k * k * 3001 + 1717 * k + 20_101) as u16;
        any_number::<u16, 0>(u16::MAX, random);
        any_number::<u16, 1>(u16::MAX, random);
        any_number::<u16, 2>(u16::MAX, random);
        any_number::<u16, 3>(u16::MAX, random);
        any_number::<u16, 4>(u16::MAX, random);
        any_number::<u16, 8>(u16::MAX, random);
        any_number::<u16, 99>(u16::MAX, random);
    }

    /// The greatest sums that 32 bits have room for, and one number more.
    #[test]
    fn room() {
        assert_eq!(sum([u16::MAX; 1 << 16]), 65_535 << 16);
        assert!(has_room::<u8>(1 << 24) && !has_room::<u8>((1 << 24) + 1));
        assert!(has_room::<u16>(1 << 16) && !has_room::<u16>((1 << 16) + 1));
    }
}
