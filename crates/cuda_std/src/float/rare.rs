// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of `f32` that have a branch for the few arguments which take more: the results of [`Float`](super::Float)'s
//! functions of the same names, bit by bit.
//!
//! A branch keeps the elements of a thread apart, so `Float`'s functions have instructions for such arguments among the others
//! where they can. An expression's kernel asks once for all elements of a thread, and then these are shorter: 7 instructions
//! in place of 10 for a root, 18 in place of 22 for a logarithm.

use super::f32::{exp, log, power};
use super::machine::{rsqrt_of_normal, single, sqrt_of_normal};

/// The bits of 2^-101, from which on a root is [`sqrt_of_normal`]'s.
const TWO_M101: u32 = 0x0d00_0000;

/// Those of the least normal number.
const NORMAL: u32 = f32::MIN_POSITIVE.to_bits();

/// Those of a size from which on 2^x may be no normal number.
const LARGE: u32 = 126.0f32.to_bits();

/// Whether these are not the bits of a finite number from that of the bits `least` on.
#[inline(always)]
fn is_rare(bits: u32, least: u32) -> bool {
    bits.wrapping_sub(least) >= f32::INFINITY.to_bits() - least
}

/// Functions with a branch, and a call behind it. The condition holds where numbers are rare, and is one of integers: of its
/// contrary LLVM makes two branches, which an expression's kernel does not take for one.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = |$x:ident| if $rare:expr => $any:ident = $other:path; else $usual:expr;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name($x: f32) -> f32 {
            if $rare {
                return $any($x);
            }
            $usual
        }

        #[cold]
        #[inline(never)]
        fn $any(x: f32) -> f32 {
            $other(x)
        }
    )*};
}

functions! {
    /// √x, correctly rounded. −0 for −0, NaN for x < 0.
    ///
    /// ```
    /// use cuda_std::float::rare;
    ///
    /// assert_eq!([rare::sqrt(2.25), rare::sqrt(f32::INFINITY)], [1.5, f32::INFINITY]);
    /// ```
    sqrt = |x| if is_rare(x.to_bits(), TWO_M101) => any_sqrt = single::sqrt; else sqrt_of_normal(x);

    /// 1 / √x, correctly rounded. ±∞ for ±0, NaN for x < 0.
    ///
    /// ```
    /// use cuda_std::float::rare;
    ///
    /// assert_eq!([rare::rsqrt(0.25), rare::rsqrt(0.0)], [2.0, f32::INFINITY]);
    /// ```
    rsqrt = |x| if is_rare(x.to_bits(), NORMAL) => any_rsqrt = power::rsqrt; else rsqrt_of_normal(x);

    /// ∛x, of x's sign, within 1 ulp.
    ///
    /// ```
    /// use cuda_std::float::rare;
    ///
    /// assert_eq!([rare::cbrt(-27.0), rare::cbrt(0.0)], [-3.0, 0.0]);
    /// ```
    cbrt = |x| if is_rare(x.abs().to_bits(), power::LEAST_CUBE.to_bits()) => any_cbrt = power::cbrt;
        else power::cbrt_of_usual(x.abs()).copysign(x);

    /// 2^x, within 1 ulp.
    ///
    /// ```
    /// use cuda_std::float::rare;
    ///
    /// assert_eq!([rare::exp2(3.0), rare::exp2(f32::NEG_INFINITY)], [8.0, 0.0]);
    /// ```
    exp2 = |x| if x.abs().to_bits() >= LARGE => any_exp2 = exp::exp2; else exp::exp2_of_usual(x);

    /// The natural logarithm, within 1 ulp. −∞ for ±0, NaN for x < 0.
    ///
    /// ```
    /// use cuda_std::float::rare;
    ///
    /// assert_eq!([rare::ln(1.0), rare::ln(0.0)], [0.0, f32::NEG_INFINITY]);
    /// ```
    ln = |x| if is_rare(x.to_bits(), NORMAL) => any_ln = log::ln; else log::ln_of_normal(x);

    /// The logarithm to base 2, within 1.5 ulp. −∞ for ±0, NaN for x < 0.
    ///
    /// ```
    /// use cuda_std::float::rare;
    ///
    /// assert_eq!([rare::log2(8.0), rare::log2(0.0)], [3.0, f32::NEG_INFINITY]);
    /// ```
    log2 = |x| if is_rare(x.to_bits(), NORMAL) => any_log2 = log::log2; else log::log2_of_normal(x);

    /// The logarithm to base 10, within 1.5 ulp. −∞ for ±0, NaN for x < 0.
    ///
    /// ```
    /// use cuda_std::float::rare;
    ///
    /// assert_eq!([rare::log10(1.0), rare::log10(0.0)], [0.0, f32::NEG_INFINITY]);
    /// ```
    log10 = |x| if is_rare(x.to_bits(), NORMAL) => any_log10 = log::log10; else log::log10_of_normal(x);
}
