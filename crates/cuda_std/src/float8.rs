// SPDX-License-Identifier: MIT OR Apache-2.0
//! 8-bit floats: [`F8E4M3`] and [`F8E5M2`] ("OCP 8-bit Floating Point Specification", Open Compute Project 2023), which the
//! tensor cores of Hopper and later multiply.
//!
//! | | exponent, mantissa | finite range | least positive | infinities |
//! |---|---|---|---|---|
//! | [`F8E4M3`] | 4, 3 bits | ±448 | 2⁻⁹ | none |
//! | [`F8E5M2`] | 5, 2 bits | ±57344 | 2⁻¹⁶ | ±∞ |
//!
//! They are for storage and products: arithmetic is done in `f32`, which has every one of them. A number becomes the nearest
//! of them, ties to even, and beyond the range, as an infinity, the finite number at its end, as the conversions with
//! `satfinite` of PTX and PyTorch's recipes do. NaN stays NaN, without a sign.
//!
//! ```
//! use cuda_std::float8::{F8E4M3, F8E5M2};
//!
//! assert_eq!(F8E4M3::from_f32(0.3).to_f32(), 0.3125);
//! assert_eq!(F8E5M2::from_f32(0.3).to_f32(), 0.3125);
//! assert_eq!([F8E4M3::from_f32(-1e6), -F8E4M3::MAX], [F8E4M3::from_f32(-448.0); 2]);
//! assert!(F8E5M2::from_f32(f32::NAN).is_nan());
//! ```

use core::cmp::Ordering;
use core::fmt::{self, Debug, Display, Formatter};
use core::ops::Neg;

use bytemuck::{Pod, Zeroable};

/// The nearest code without a sign, ties to even, of `magnitude`, which is at most the greatest finite number: with
/// `mantissa` bits of mantissa, and the exponents of the least normal number and of the least number.
#[inline(always)]
fn nearest(magnitude: f32, mantissa: u32, least_normal: u32, least: u32) -> u8 {
    let bits = magnitude.to_bits();
    let dropped = 23 - mantissa;
    // Half of the last place kept, less one where that place is even. A carry goes on to the exponent, as it should.
    let rounded = bits + (1 << (dropped - 1)) - 1 + (bits >> dropped & 1);
    let normal = (rounded >> dropped).wrapping_sub((least_normal - 1) << mantissa);
    // A number whose last place is the least number: the sum is rounded to it.
    let step = (least + 23) << 23;
    let subnormal = (magnitude + f32::from_bits(step)).to_bits().wrapping_sub(step);
    if bits < least_normal << 23 {
        subnormal as u8
    } else {
        normal as u8
    }
}

macro_rules! float8 {
    (
        $(#[$attributes:meta])* $type:ident: $mantissa:literal bits of mantissa, least normal number 2^$least_normal:literal,
        MAX $max:literal = $max_bits:literal, NaN above $largest:literal
    ) => {
        $(#[$attributes])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $type(u8);

        // SAFETY: a byte, of which any is a number or NaN.
        unsafe impl Zeroable for $type {}
        // SAFETY: a byte, of which any is a number or NaN.
        unsafe impl Pod for $type {}

        impl $type {
            /// 0
            pub const ZERO: Self = Self(0);
            /// The greatest finite number.
            pub const MAX: Self = Self($max_bits);
            /// Not a number.
            pub const NAN: Self = Self(0x7f);

            /// The number with these bits: sign, exponent, mantissa.
            #[inline(always)]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// Its bits.
            #[inline(always)]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest number, ties to even; beyond the range the finite one at its end; NaN for NaN.
            #[inline(always)]
            pub fn from_f32(x: f32) -> Self {
                let sign = (x.to_bits() >> 24) as u8 & 0x80;
                let magnitude = f32::from_bits(x.to_bits() & 0x7fff_ffff);
                let magnitude = if magnitude > $max { $max } else { magnitude };
                let code = nearest(
                    magnitude,
                    $mantissa,
                    (127 + $least_normal) as u32,
                    (127 + $least_normal - $mantissa) as u32,
                );
                if x.is_nan() { Self::NAN } else { Self(sign | code) }
            }

            /// The same number: exact.
            #[inline(always)]
            pub fn to_f32(self) -> f32 {
                let (sign, code) = (u32::from(self.0 & 0x80) << 24, u32::from(self.0 & 0x7f));
                // As the bits of an `f32` it is less by a power of two, subnormal or not.
                const SCALE: f32 = f32::from_bits(((127 + 127 + $least_normal - 1) as u32) << 23);
                let magnitude = f32::from_bits(code << (23 - $mantissa)) * SCALE;
                let magnitude = if code > $largest {
                    f32::NAN
                } else if code > $max_bits {
                    f32::INFINITY
                } else {
                    magnitude
                };
                f32::from_bits(magnitude.to_bits() | sign)
            }

            /// Whether it is NaN.
            #[inline(always)]
            pub const fn is_nan(self) -> bool {
                self.0 & 0x7f > $largest
            }

            /// Whether it is neither NaN nor an infinity.
            #[inline(always)]
            pub const fn is_finite(self) -> bool {
                self.0 & 0x7f <= $max_bits
            }
        }

        impl From<$type> for f32 {
            #[inline(always)]
            fn from(x: $type) -> f32 {
                x.to_f32()
            }
        }

        impl Neg for $type {
            type Output = Self;

            #[inline(always)]
            fn neg(self) -> Self {
                Self(self.0 ^ 0x80)
            }
        }

        impl PartialEq for $type {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $type {
            #[inline(always)]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl Display for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                Display::fmt(&self.to_f32(), f)
            }
        }

        impl Debug for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                Debug::fmt(&self.to_f32(), f)
            }
        }
    };
}

float8! {
    /// A float with 4 bits of exponent and 3 of mantissa: for weights and activations. It has no infinities.
    F8E4M3: 3 bits of mantissa, least normal number 2^-6, MAX 448.0 = 0x7e, NaN above 0x7e
}
float8! {
    /// A float with 5 bits of exponent, as many as `f16` has, and 2 of mantissa: for gradients.
    F8E5M2: 2 bits of mantissa, least normal number 2^-14, MAX 57344.0 = 0x7b, NaN above 0x7c
}

impl F8E4M3 {
    /// 1
    pub const ONE: Self = Self(0x38);
}

impl F8E5M2 {
    /// 1
    pub const ONE: Self = Self(0x3c);
    /// ∞
    pub const INFINITY: Self = Self(0x7c);
    /// −∞
    pub const NEG_INFINITY: Self = Self(0xfc);
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::string::ToString;
    use std::vec::Vec;

    /// A code's value by the specification: exponent bits, mantissa bits and bias, and whether the greatest exponent is for
    /// infinities and NaN, or the greatest code alone for NaN.
    fn value(code: u8, [exponent_bits, mantissa_bits, bias]: [i32; 3], ieee: bool) -> f64 {
        let sign = if code >= 0x80 { -1.0 } else { 1.0 };
        let magnitude = i32::from(code & 0x7f);
        let (exponent, mantissa) = (magnitude >> mantissa_bits, magnitude % (1 << mantissa_bits));
        let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
        if ieee && exponent == (1 << exponent_bits) - 1 {
            return if mantissa == 0 { sign * f64::INFINITY } else { f64::NAN };
        }
        if !ieee && magnitude == 0x7f {
            return f64::NAN;
        }
        match exponent {
            0 => sign * fraction * 2f64.powi(1 - bias),
            _ => sign * (1.0 + fraction) * 2f64.powi(exponent - bias),
        }
    }

    fn e4m3(code: u8) -> f64 {
        value(code, [4, 3, 7], false)
    }

    fn e5m2(code: u8) -> f64 {
        value(code, [5, 2, 15], true)
    }

    /// The nearest of the finite values from 0 up, of even code in a tie.
    fn nearest_by_search(values: &[f64], x: f64) -> u8 {
        // Beyond the greatest one, distances are no longer told apart.
        let x = x.min(values[values.len() - 1]);
        let distance = |code: usize| (values[code] - x).abs();
        let best = (0..values.len()).min_by(|&i, &j| {
            let by_distance = distance(i).total_cmp(&distance(j));
            by_distance.then((i % 2).cmp(&(j % 2)))
        });
        best.unwrap() as u8
    }

    macro_rules! tests {
        ($($name:ident: $type:ident $value:ident;)*) => {$(
            #[test]
            fn $name() {
                let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                for code in 0..=u8::MAX {
                    let (x, wanted) = ($type::from_bits(code), $value(code));
                    assert!(same(x.to_f32().into(), wanted), "{code:#x}: {x}, wanted {wanted}");
                    assert_eq!((x.is_nan(), x.is_finite()), (wanted.is_nan(), wanted.is_finite()), "{code:#x}");
                    assert!(same((-x).to_f32().into(), -wanted), "{code:#x}");
                    if wanted.is_finite() {
                        assert_eq!($type::from_f32(wanted as f32).to_bits(), code, "{x}");
                        assert_eq!(x.to_string(), (wanted as f32).to_string());
                    }
                    for other in 0..=u8::MAX {
                        let y = $type::from_bits(other);
                        let order = (wanted == $value(other), wanted.partial_cmp(&$value(other)));
                        assert_eq!((x == y, x.partial_cmp(&y)), order, "{x} and {y}");
                    }
                }
                assert_eq!(($type::ONE.to_f32(), $type::ZERO.to_f32()), (1.0, 0.0));

                let finite = (0..0x80).map($value).take_while(|x| x.is_finite()).collect::<Vec<_>>();
                assert_eq!(f64::from($type::MAX.to_f32()), finite[finite.len() - 1]);
                let check = |x: f32| {
                    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
                    let wanted = if x.is_nan() { 0x7f } else { sign | nearest_by_search(&finite, f64::from(x.abs())) };
                    assert_eq!($type::from_f32(x).to_bits(), wanted, "{x:e}");
                };
                // The middles between neighbours, which are exact in f32, and what is beside them.
                for pair in finite.windows(2) {
                    let middle = ((pair[0] + pair[1]) / 2.0) as f32;
                    for x in [middle, middle.next_up(), middle.next_down()] {
                        check(x);
                        check(-x);
                    }
                }
                // A stride that visits every exponent, with all kinds of low bits.
                for step in 0..1u32 << 15 {
                    let x = f32::from_bits(step.wrapping_mul(0x2_0005) ^ step << 12);
                    if x.is_infinite() { continue }
                    check(x);
                }
                for x in [f32::MAX, -0.0, f32::MIN_POSITIVE, 1e-45] {
                    check(x);
                }
                assert_eq!($type::from_f32(f32::INFINITY), $type::MAX);
                assert_eq!($type::from_f32(f32::NEG_INFINITY), -$type::MAX);
                assert_eq!($type::from_f32(-f32::NAN).to_bits(), 0x7f);
            }
        )*};
    }

    tests! {
        every_e4m3_and_its_rounding: F8E4M3 e4m3;
        every_e5m2_and_its_rounding: F8E5M2 e5m2;
    }
}
