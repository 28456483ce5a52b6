// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the special function units of a GPU compute in one instruction, to about the precision of an f32.
//!
//! [`Float`](super::Float)'s functions take a dozen instructions and more, and give the same bits on every device. These are
//! for where instructions are what a kernel is short of, such as the epilogue of a matrix product. On the simulated GPU
//! they are the exact values, rounded once: a result's last bits differ between the two.

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.ex2.approx.ftz.f"]
    safe fn nvvm_exp2(x: f32) -> f32;
    #[link_name = "llvm.nvvm.rcp.approx.ftz.f"]
    safe fn nvvm_recip(x: f32) -> f32;
}

/// 2^x, off by at most 2^-22 of it (`ex2.approx.ftz.f32`); below 2^-126 it is 0.
///
/// ```
/// use cuda_std::float::approximate;
///
/// assert_eq!([approximate::exp2(3.0), approximate::exp2(f32::NEG_INFINITY)], [8.0, 0.0]);
/// ```
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    return nvvm_exp2(x);
    #[cfg(not(target_arch = "nvptx64"))]
    return normal(x.exp2());
}

/// 1 / x, off by at most 2^-23 of it (`rcp.approx.ftz.f32`); subnormal numbers, x too, are taken for 0.
///
/// ```
/// use cuda_std::float::approximate;
///
/// assert_eq!([approximate::recip(4.0), approximate::recip(f32::INFINITY)], [0.25, 0.0]);
/// ```
#[inline(always)]
pub fn recip(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    return nvvm_recip(x);
    #[cfg(not(target_arch = "nvptx64"))]
    return normal(1.0 / normal(x));
}

/// The number, or 0 of its sign if it is subnormal.
#[cfg(not(target_arch = "nvptx64"))]
fn normal(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}
