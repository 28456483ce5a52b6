// SPDX-License-Identifier: MIT OR Apache-2.0
//! A warp's matrices between shared memory and registers, registers of a warpgroup, and named barriers on an NVIDIA GPU.

use core::arch::asm;

use super::SharedPtr;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
    fn barrier_count(id: u32, threads: u32);
}

/// # Safety
///
/// At `row` there are 16 bytes of a `Shared`.
#[inline(always)]
pub unsafe fn stmatrix_x4<const TRANSPOSED: bool>(row: SharedPtr, [a, b, c, d]: [u32; 4]) {
    // SAFETY: the caller's promise. The branch is on a constant.
    unsafe {
        if TRANSPOSED {
            asm!(
                "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [{0}], {{{1}, {2}, {3}, {4}}};",
                in(reg32) row.0, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, options(nostack, preserves_flags)
            );
        } else {
            asm!(
                "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{0}], {{{1}, {2}, {3}, {4}}};",
                in(reg32) row.0, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, options(nostack, preserves_flags)
            );
        }
    }
}

/// # Safety
///
/// At `row` there are 16 bytes of a `Shared`.
#[inline(always)]
pub unsafe fn ldmatrix_x4<const TRANSPOSED: bool>(row: SharedPtr) -> [u32; 4] {
    let (a, b, c, d);
    // SAFETY: the caller's promise. The branch is on a constant.
    unsafe {
        if TRANSPOSED {
            asm!(
                "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{0}, {1}, {2}, {3}}}, [{4}];",
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) row.0,
                options(nostack, preserves_flags)
            );
        } else {
            asm!(
                "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{0}, {1}, {2}, {3}}}, [{4}];",
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) row.0,
                options(nostack, preserves_flags)
            );
        }
    }
    [a, b, c, d]
}

/// The bits of the two bf16 nearest to the values, `low` in the lower half.
#[inline(always)]
pub fn pack_bf16(low: f32, high: f32) -> u32 {
    let word;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "cvt.rn.bf16x2.f32 {0}, {1}, {2};",
            out(reg32) word, in(reg32) high, in(reg32) low, options(pure, nomem, nostack, preserves_flags)
        );
    }
    word
}

/// The bits of the two f16 nearest to the values, `low` in the lower half.
#[inline(always)]
pub fn pack_f16(low: f32, high: f32) -> u32 {
    let word;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "cvt.rn.f16x2.f32 {0}, {1}, {2};",
            out(reg32) word, in(reg32) high, in(reg32) low, options(pure, nomem, nostack, preserves_flags)
        );
    }
    word
}

#[inline(always)]
pub fn increase_registers<const N: u32>() {
    // SAFETY: changes which registers the warpgroup has, not what is in those that it uses.
    unsafe { asm!("setmaxnreg.inc.sync.aligned.u32 {n};", n = const N, options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn decrease_registers<const N: u32>() {
    // SAFETY: as in `increase_registers`.
    unsafe { asm!("setmaxnreg.dec.sync.aligned.u32 {n};", n = const N, options(nostack, preserves_flags)) };
}

/// The number is a constant: with one in a register ptxas would book all 16 barriers.
#[inline(always)]
pub fn sync_threads_named<const ID: u32, const COUNT: u32>() {
    // SAFETY: a barrier accesses no memory of its own.
    unsafe { barrier_count(ID, COUNT) };
}
