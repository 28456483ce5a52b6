// SPDX-License-Identifier: MIT OR Apache-2.0
//! 16-bit floats: [`f16`](struct@f16) (IEEE 754 binary16) and [`bf16`] (bfloat16), those of the crate `half`.
//!
//! Kernels compute in `f32`: every 16-bit float is an `f32`, and `+ − × ÷ √` of two of them, done in `f32` and rounded
//! back, are correctly rounded (f32 has more than twice their digits and two).
//!
//! ```
//! use cuda_std::half::{self, f16};
//!
//! let third = half::f16_from_f32(1.0 / 3.0);
//! assert_eq!(half::f16_to_f32(third), 0.333_251_95);
//! assert_eq!(third, f16::from_f32(1.0 / 3.0));
//! ```

pub use half::{bf16, f16};

use crate::machine;

/// The value as an `f32`: exact.
#[inline(always)]
pub fn f16_to_f32(x: f16) -> f32 {
    machine::f16_to_f32(x.to_bits())
}

/// The nearest `f16`, ties to even; beyond the range an infinity, and NaN for NaN.
#[inline(always)]
pub fn f16_from_f32(x: f32) -> f16 {
    f16::from_bits(machine::f32_to_f16(x))
}

/// The value as an `f32`: exact.
#[inline(always)]
pub fn bf16_to_f32(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

/// The nearest `bf16`, ties to even; beyond the range an infinity, and NaN for NaN.
#[inline(always)]
pub fn bf16_from_f32(x: f32) -> bf16 {
    let bits = x.to_bits();
    // Half of the last place kept, less one where that place is even: so that a tie goes to even.
    let round = 0x7fff + (bits >> 16 & 1);
    let rounded = if x.is_nan() {
        bits | 0x0040_0000
    } else {
        bits.wrapping_add(round)
    };
    bf16::from_bits((rounded >> 16) as u16)
}

/// A 16-bit float that [`pack`] makes two of: [`f16`](struct@f16) or [`bf16`].
pub trait Packed: sealed::Sealed {
    #[doc(hidden)]
    fn pack(low: f32, high: f32) -> u32;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::f16 {}
    impl Sealed for super::bf16 {}
}

impl Packed for f16 {
    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        machine::pack_f16(low, high)
    }
}

impl Packed for bf16 {
    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        machine::pack_bf16(low, high)
    }
}

/// The bits of the two floats nearest to `low` and `high`, ties to even, in the lower and the upper half of a word, by one
/// instruction: how registers hold 16-bit floats (`__floats2bfloat162_rn`, `__floats2half2_rn`).
///
/// GPU: compute 8.0 or later.
///
/// ```
/// use cuda_std::half::{self, bf16, f16};
///
/// assert_eq!(half::pack::<f16>(1.0, -2.0), 0xc000_3c00);
/// assert_eq!(half::pack::<bf16>(1.0, -2.0), 0xc000_3f80);
/// ```
#[inline(always)]
pub fn pack<T: Packed>(low: f32, high: f32) -> u32 {
    T::pack(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_16_bit_float_is_an_f32_and_comes_back() {
        for bits in 0..=u16::MAX {
            let (x, y) = (f16::from_bits(bits), bf16::from_bits(bits));
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(same(f16_to_f32(x), x.to_f32()), "{x:?}");
            assert!(same(bf16_to_f32(y), y.to_f32()), "{y:?}");
            assert!(f16_from_f32(f16_to_f32(x)) == x || x.is_nan());
            assert!(bf16_from_f32(bf16_to_f32(y)) == y || y.is_nan());
        }
    }

    #[test]
    fn f32_is_rounded_to_nearest_even() {
        for step in 0..1u32 << 20 {
            // A stride that visits every exponent, with all kinds of low bits.
            let x = f32::from_bits(step.wrapping_mul(0x1003) ^ step << 12);
            assert!(
                f16_from_f32(x) == f16::from_f32(x) || x.is_nan() && f16_from_f32(x).is_nan(),
                "{x:e}"
            );
            assert!(
                bf16_from_f32(x) == bf16::from_f32(x) || x.is_nan() && bf16_from_f32(x).is_nan(),
                "{x:e}"
            );
        }
    }
}
