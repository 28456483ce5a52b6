// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reciprocals, quotients and roots of f64 whose operands are known to be of moderate size, correctly rounded.
//!
//! On a GPU `a / b` and `sqrt` ask first whether the operands are in that range, take the instructions below if so, and call a
//! function else. The question and its branch keep the elements that a thread treats from being interleaved. What ptxas makes
//! of `rcp.rn`, `div.rn` and `sqrt.rn` in that range is the same for every GPU from sm_75 to sm_121, seeds and all; so are the
//! results. For other operands the two machines may differ.

use super::machine::{double::fma, recip_of_normal as single_recip};

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.rcp.approx.ftz.d"]
    safe fn nvvm_approximate_recip(x: f64) -> f64;
    #[link_name = "llvm.nvvm.rsqrt.approx.ftz.d"]
    safe fn nvvm_approximate_rsqrt(x: f64) -> f64;
}

/// The upper 32 bits.
#[inline(always)]
pub fn upper(x: f64) -> u32 {
    (x.to_bits() >> 32) as u32
}

/// The upper 32 bits without the sign, in the order of magnitudes; an integer's comparison takes less than that of two f64.
#[inline(always)]
pub fn magnitude(x: f64) -> u32 {
    upper(x) & 0x7fff_ffff
}

/// The number with these upper 32 bits, and none below.
#[inline(always)]
pub fn of_upper(word: u32) -> f64 {
    f64::from_bits(u64::from(word) << 32)
}

/// Whether x is not a number, by integer arithmetic.
#[inline(always)]
pub fn is_nan(x: f64) -> bool {
    x.to_bits() << 1 > f64::INFINITY.to_bits() << 1
}

/// The number with these upper 32 bits, and the lower ones of `x`.
#[inline(always)]
pub fn with_upper(x: f64, upper: u32) -> f64 {
    f64::from_bits(u64::from(upper) << 32 | u64::from(x.to_bits() as u32))
}

/// `a` if `condition` holds, `b` else, both of which are computed: of several values that hang on one condition LLVM would make
/// a branch.
#[inline(always)]
pub fn select<T>(condition: bool, a: T, b: T) -> T {
    core::hint::select_unpredictable(condition, a, b)
}

/// Two steps of Newton's from an approximation of 1 / x, which the hardware gives without its lower 32 bits.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn refined(x: f64, lower: u32) -> f64 {
    let y = f64::from_bits(nvvm_approximate_recip(x).to_bits() | u64::from(lower));
    let e = fma(-x, y, 1.0);
    let y = fma(y, fma(e, e, e), y);
    fma(y, fma(-x, y, 1.0), y)
}

/// 1 / x for 2^-1022 ≤ |x| < 2^1021.
#[inline(always)]
pub fn recip_of_normal(x: f64) -> f64 {
    #[cfg(target_arch = "nvptx64")]
    return refined(x, upper(x).wrapping_add(0x0030_0402));
    #[cfg(not(target_arch = "nvptx64"))]
    return 1.0 / x;
}

/// 1 / x for 2^-100 ≤ |x| ≤ 2^100, off by 0.501 ulp at most: by a step of the third order from the f32 next to it.
#[inline(always)]
pub fn near_recip(x: f64) -> f64 {
    let y = f64::from(single_recip(x as f32));
    let e = fma(-x, y, 1.0);
    fma(y, fma(e, e, e), y)
}

/// a / b for 2^-969 ≤ |a| and 2^-1000 ≤ |a / b|, where b is as in [`recip_of_normal`].
#[inline(always)]
pub fn quotient_of_normal(a: f64, b: f64) -> f64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y = refined(b, 1);
        let q = a * y;
        fma(y, fma(-b, q, a), q)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    return a / b;
}

/// √x for 2^-970 ≤ x < ∞.
#[inline(always)]
pub fn sqrt_of_normal(x: f64) -> f64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let lower = upper(x).wrapping_sub(0x0350_0000);
        let y = f64::from_bits(nvvm_approximate_rsqrt(x).to_bits() | u64::from(lower));
        let e = fma(x, -(y * y), 1.0);
        let y = fma(fma(e, 0.375, 0.5), y * e, y);
        let root = x * y;
        let half = with_upper(y, upper(y).wrapping_sub(0x0010_0000));
        fma(fma(root, -root, x), half, root)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    return super::machine::double::sqrt(x);
}
