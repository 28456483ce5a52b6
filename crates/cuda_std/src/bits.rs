// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bits of integers, rearranged as the hardware does in one instruction.

use crate::machine;

/// Four of the eight bytes of `low` and `high`, each chosen by a hexadecimal digit of `selector`, the lowest digit for
/// the lowest byte: digits 0 to 3 stand for the bytes of `low`, lowest first, and 4 to 7 for those of `high`
/// (`__byte_perm`). Of each digit only the lower three bits count, and only four digits do.
///
/// ```
/// use cuda_std::bits::byte_perm;
///
/// assert_eq!(byte_perm(0x3322_1100, 0x7766_5544, 0x7250), 0x7722_5500);
/// ```
#[inline(always)]
pub fn byte_perm(low: u32, high: u32, selector: u32) -> u32 {
    machine::byte_perm(low, high, selector & 0x7777)
}

/// `c` and the four products of the bytes of `a` with those of `b`, added up modulo 2^32 (`__dp4a` of unsigned bytes).
///
/// ```
/// use cuda_std::bits::dp4a;
///
/// assert_eq!(dp4a(0x0403_0201, 0x0101_0101, 100), 110);
/// ```
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32) -> u32 {
    machine::dp4a(a, b, c)
}

/// `c` and the products of the 16-bit halves of `a` with the two lower bytes of `b`, each with the one at its own place,
/// added up modulo 2^32 (`__dp2a_lo` of unsigned numbers).
///
/// ```
/// use cuda_std::bits::dp2a_lo;
///
/// assert_eq!(dp2a_lo(0x0003_0002, 0x0101, 100), 105);
/// ```
#[inline(always)]
pub fn dp2a_lo(a: u32, b: u32, c: u32) -> u32 {
    machine::dp2a_lo(a, b, c)
}

/// The bytes nearest to `values` times `scale`, a power of two, halves up, the first in the lowest byte; what lies beyond the
/// least or the greatest becomes that, and NaN becomes 0. No conversion is among the instructions, of which the hardware has
/// few a cycle.
///
/// ```
/// use cuda_std::bits::round_to_bytes;
///
/// assert_eq!(round_to_bytes([0.499_999_97, 0.5, -0.6, 254.5], 1.0), 0xff_00_01_00);
/// assert_eq!(round_to_bytes([f32::NAN, f32::INFINITY, 510.8, 600.0], 0.5), 0xff_ff_ff_00);
/// ```
#[inline(always)]
pub fn round_to_bytes(values: [f32; 4], scale: f32) -> u32 {
    machine::round_to_bytes(values, scale)
}

/// [`round_to_bytes`] of `values` of which none is NaN, by a `scale` of at least 2⁻⁸: half the instructions. The kernel says that it is for
/// compute capability 7.5 (`arch = "sm_75"`), whose instruction this is.
///
/// ```
/// use cuda_std::bits::round_sums_to_bytes;
///
/// assert_eq!(round_sums_to_bytes([0.499_999_97, 0.5, -0.6, 254.5], 1.0), 0xff_00_01_00);
/// assert_eq!(round_sums_to_bytes([f32::NEG_INFINITY, f32::INFINITY, 510.8, 600.0], 0.5), 0xff_ff_ff_00);
/// ```
#[inline(always)]
pub fn round_sums_to_bytes(values: [f32; 4], scale: f32) -> u32 {
    machine::round_sums_to_bytes(values, scale)
}

/// [`round_to_bytes`] for two numbers of 16 bits, the first in the lower half, and a scale of 1.
///
/// ```
/// use cuda_std::bits::round_to_halves;
///
/// assert_eq!(round_to_halves([2.5, 65534.5]), 0xffff_0003);
/// assert_eq!(round_to_halves([f32::NAN, 1e9]), 0xffff_0000);
/// ```
#[inline(always)]
pub fn round_to_halves(values: [f32; 2]) -> u32 {
    machine::round_to_halves(values)
}

/// [`round_sums_to_bytes`] for two numbers of 16 bits, the first in the lower half, by a `scale` of at least ½.
///
/// ```
/// use cuda_std::bits::round_sums_to_halves;
///
/// assert_eq!(round_sums_to_halves([2.5, 65534.5], 1.0), 0xffff_0003);
/// assert_eq!(round_sums_to_halves([-0.6, 131_070.0], 0.5), 0xffff_0000);
/// ```
#[inline(always)]
pub fn round_sums_to_halves(values: [f32; 2], scale: f32) -> u32 {
    machine::round_sums_to_halves(values, scale)
}

/// The lower and the upper word of `a * b`, by one multiplication (`__umulhi` and the product).
///
/// ```
/// use cuda_std::bits::mul_wide;
///
/// assert_eq!(mul_wide(0xffff_ffff, 0xffff_fffe), [2, 0xffff_fffd]);
/// ```
#[inline(always)]
pub fn mul_wide(a: u32, b: u32) -> [u32; 2] {
    machine::mul_wide(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_goes_to_every_place() {
        let bytes = [0x00, 0x8f, 0x7e, 0xff, 0x11, 0xa5, 0x01, 0xc3];
        let [low, high] = [0, 4].map(|k| u32::from_le_bytes([bytes[k], bytes[k + 1], bytes[k + 2], bytes[k + 3]]));
        for selector in 0..0x1_0000u32 {
            let digit = |k: u32| selector as usize >> (4 * k) & 7;
            let wanted = [0, 1, 2, 3].map(|k| bytes[digit(k)]);
            assert_eq!(byte_perm(low, high, selector).to_le_bytes(), wanted, "{selector:x}");
        }
        assert_eq!(byte_perm(low, high, 0xffff_3210), low);
    }

    #[test]
    fn products_of_bytes_are_unsigned_and_their_sum_wraps_around() {
        assert_eq!(dp4a(u32::MAX, u32::MAX, 0), 4 * 255 * 255);
        assert_eq!(dp4a(0x8000_0001, 0x0200_0003, u32::MAX), 0x100 + 3 - 1);
        for k in 0..4 {
            assert_eq!(dp4a(0xd4c3_b2a1, 1 << (8 * k), 7), (0xd4c3_b2a1 >> (8 * k) & 0xff) + 7);
        }
    }

    #[test]
    fn products_of_halves_are_unsigned_and_their_sum_wraps_around() {
        assert_eq!(dp2a_lo(u32::MAX, u32::MAX, 0), 2 * 0xffff * 255);
        assert_eq!(dp2a_lo(0x8000_0001, 0xffff_0203, u32::MAX), 0x1_0000 + 3 - 1);
        for k in 0..2 {
            assert_eq!(
                dp2a_lo(0xd4c3_b2a1, 1 << (8 * k), 7),
                (0xd4c3_b2a1 >> (16 * k) & 0xffff) + 7
            );
        }
    }
}
