// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of bytes modulo 256, four in a word at once.
//!
//! The bytes of a word at even and at odd places are two words of two 16-bit halves each. A half has room for the sum
//! of 256 bytes, so no carry reaches the other one; its lower byte is the result.

use core::ops::Range;

use cuda_block::warp::scan_rows;
use cuda_std::bits::{byte_perm, dp4a};

/// Bytes 0 and 2 of a word.
const EVEN: u32 = 0x00ff_00ff;

/// Times a number, that number in both halves; times two halves, the lower one and the sum of both.
const BOTH: u32 = 0x0001_0001;

/// Where the bytes of word `w` are among `N`: four, or what the last word has.
#[inline(always)]
fn place<const N: usize>(w: usize) -> Range<usize> {
    4 * w..Ord::min(4 * w + 4, N)
}

/// Word `w` of the bytes, with zeros beyond the last.
#[inline(always)]
fn word<const N: usize>(bytes: [u8; N], w: usize) -> u32 {
    let (mut word, place) = ([0; 4], place::<N>(w));
    word[..place.len()].copy_from_slice(&bytes[place]);
    u32::from_le_bytes(word)
}

/// The sum of the bytes.
#[inline(always)]
pub(crate) fn sum<const N: usize>(bytes: [u8; N]) -> u8 {
    let mut sum = 0;
    for w in 0..N.div_ceil(4) {
        sum = dp4a(word(bytes, w), 0x0101_0101, sum);
    }
    sum as u8
}

/// The sums of `before` and the bytes up to each, with that one itself, or without it if `exclusive`.
#[inline(always)]
pub(crate) fn prefix_sums<const N: usize>(before: u8, bytes: [u8; N], exclusive: bool) -> [u8; N] {
    const { assert!(N < 256) };
    // Of what stands before a word, and of its inclusive sums: the first byte and three of the latter, or the latter.
    let selector = if exclusive { 0x6540 } else { 0x7654 };
    let mut carry = u32::from(before) * BOTH;
    let mut results = [0; N];
    for w in 0..N.div_ceil(4) {
        let word = word(bytes, w);
        let odd = byte_perm(word, 0, 0x4341);
        // The sums up to the bytes at odd places; without these, those up to the bytes at even places.
        let to_odd = ((word & EVEN) + odd).wrapping_mul(BOTH) + carry;
        let inclusive = byte_perm(to_odd - odd, to_odd, 0x6240);
        let (place, sums) = (place::<N>(w), byte_perm(carry, inclusive, selector).to_le_bytes());
        results[place.clone()].copy_from_slice(&sums[..place.len()]);
        carry = byte_perm(to_odd, 0, 0x3232);
    }
    results
}

/// [`ReduceOp::scan_warp`](crate::op::ReduceOp::scan_warp) for sums of bytes.
#[inline(always)]
pub(crate) fn sums_of_warp<const U: usize>(values: [u8; U]) -> ([u8; U], u8) {
    match U {
        2 => sums_of_halves::<U, 1>(values),
        4 => sums_of_halves::<U, 2>(values),
        8 => sums_of_halves::<U, 4>(values),
        _ => scan_rows(values, 0, u8::wrapping_add),
    }
}

/// [`sums_of_warp`] of `U = 2 H` rows, at most 8: `H` words have the first rows in their lower halves, and those that
/// stand behind them in the upper ones.
#[inline(always)]
fn sums_of_halves<const U: usize, const H: usize>(values: [u8; U]) -> ([u8; U], u8) {
    let words: [u32; H] = cuda_std::array::from_fn(|u| u32::from(values[u]) | u32::from(values[u + H]) << 16);
    let (before, total) = scan_rows(words, 0, u32::wrapping_add);
    let before = before.map(|before| before + (total << 16));
    let of_row = |u: usize| if u < H { before[u] } else { before[u - H] >> 16 };
    (
        cuda_std::array::from_fn(|u| of_row(u) as u8),
        (total + (total >> 16)) as u8,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes around which a half's lower byte overflows, or a byte's sign would change.
    const SPECIAL: [u8; 6] = [0, 1, 127, 128, 254, 255];

    #[track_caller]
    fn check<const N: usize>(before: u8, bytes: [u8; N]) {
        let mut acc = before;
        let exclusive = bytes.map(|byte| {
            let sum = acc;
            acc = acc.wrapping_add(byte);
            sum
        });
        let inclusive: [u8; N] = cuda_std::array::from_fn(|k| exclusive[k].wrapping_add(bytes[k]));
        assert_eq!(
            prefix_sums(before, bytes, false),
            inclusive,
            "inclusive, {before} and {bytes:?}"
        );
        assert_eq!(
            prefix_sums(before, bytes, true),
            exclusive,
            "exclusive, {before} and {bytes:?}"
        );
        assert_eq!(sum(bytes), acc.wrapping_sub(before), "{bytes:?}");
    }

    #[test]
    fn special_bytes_at_every_place_of_a_word() {
        let digits = |n: usize| cuda_std::array::from_fn::<_, 4, _>(|k| SPECIAL[n / 6_usize.pow(k as u32) % 6]);
        for n in 0..6_usize.pow(4) {
            for before in SPECIAL {
                check(before, digits(n));
                // The same word behind another, and before another.
                let [a, b, c, d] = digits(n);
                check(before, [255, 255, 255, 255, a, b, c, d]);
                check(before, [a, b, c, d, 255, 1, 128, 255]);
            }
        }
    }

    #[test]
    fn every_byte_before_and_at_every_place_of_a_vector() {
        for byte in 0..=255 {
            for k in 0..16 {
                check(
                    byte,
                    cuda_std::array::from_fn::<_, 16, _>(|j| if j == k { byte } else { 255 - byte }),
                );
            }
        }
    }

    #[test]
    fn any_number_of_bytes() {
        fn both<const N: usize>() {
            check(255, [255; N]);
            check(
                7,
                cuda_std::array::from_fn::<_, N, _>(|k| (k * k * 31 + 17 * k + 200) as u8),
            );
        }
        both::<0>();
        both::<1>();
        both::<2>();
        both::<3>();
        both::<5>();
        both::<8>();
        both::<15>();
        both::<17>();
        both::<255>();
    }
}
