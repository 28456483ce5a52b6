// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters of an NVIDIA GPU.
//!
//! The barrier is the form that is not `.aligned`: inline assembly may be copied by the compiler to branches that lanes of a
//! warp take apart, and LLVM's intrinsics, which are convergent, are for units that are compiled for sm_90.

use core::arch::asm;

use super::{Dim3, SharedPtr};

/// A 32-bit address in the window of the cluster's shared memory (`.shared::cluster`).
#[derive(Clone, Copy)]
pub struct ClusterPtr(pub u32);

/// The value of a special register.
macro_rules! special {
    ($name:literal) => {{
        let value: u32;
        // SAFETY: reads a special register, which is a constant of the block.
        unsafe { asm!(concat!("mov.u32 {0}, ", $name, ";"), out(reg32) value, options(pure, nomem, nostack, preserves_flags)) };
        value
    }};
}

#[inline(always)]
pub fn cluster_dim() -> Dim3 {
    Dim3 {
        x: special!("%cluster_nctaid.x"),
        y: special!("%cluster_nctaid.y"),
        z: special!("%cluster_nctaid.z"),
    }
}

#[inline(always)]
pub fn cluster_block_idx() -> Dim3 {
    Dim3 {
        x: special!("%cluster_ctaid.x"),
        y: special!("%cluster_ctaid.y"),
        z: special!("%cluster_ctaid.z"),
    }
}

#[inline(always)]
pub fn cluster_blocks() -> u32 {
    special!("%cluster_nctarank")
}

#[inline(always)]
pub fn cluster_rank() -> u32 {
    special!("%cluster_ctarank")
}

#[inline(always)]
pub fn sync_cluster() {
    // SAFETY: waits. It is not `nomem`: the compiler moves no access to memory across it.
    unsafe {
        asm!(
            "barrier.cluster.arrive.release;",
            "barrier.cluster.wait.acquire;",
            options(nostack, preserves_flags)
        );
    }
}

/// Without `.release`, which is a fence of the whole GPU.
#[inline(always)]
pub fn sync_cluster_started() {
    // SAFETY: as in `sync_cluster`.
    unsafe {
        asm!(
            "barrier.cluster.arrive.relaxed;",
            "barrier.cluster.wait.acquire;",
            options(nostack, preserves_flags)
        );
    }
}

/// The same address as `ptr`, in the memory of the block of that rank.
#[inline(always)]
pub fn map_shared(ptr: SharedPtr, rank: u32) -> ClusterPtr {
    let mapped: u32;
    // SAFETY: computes an address.
    unsafe {
        asm!(
            "mapa.shared::cluster.u32 {0}, {1}, {2};",
            out(reg32) mapped, in(reg32) ptr.0, in(reg32) rank, options(pure, nomem, nostack, preserves_flags)
        );
    }
    ClusterPtr(mapped)
}

#[inline(always)]
pub fn cluster_offset(ptr: ClusterPtr, bytes: usize) -> ClusterPtr {
    ClusterPtr(ptr.0 + bytes as u32)
}

#[inline(always)]
pub fn cluster_is_aligned(ptr: ClusterPtr, align: usize) -> bool {
    (ptr.0 as usize).is_multiple_of(align)
}

/// Of the cluster's scope: what the thread has written, to any memory, is there for who has waited in the same scope.
#[inline(always)]
pub fn mbarrier_arrive_cluster(ptr: ClusterPtr) {
    // SAFETY: the word is a barrier's, as whoever made the `Mbarrier` promised.
    unsafe {
        asm!(
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{0}];",
            in(reg32) ptr.0, options(nostack, preserves_flags)
        );
    }
}

/// Of the block's scope, which takes no fence.
#[inline(always)]
pub fn mbarrier_arrive_cluster_if(ptr: ClusterPtr, predicate: bool) {
    // SAFETY: as in `mbarrier_arrive_cluster`.
    unsafe {
        asm!(
            "{{",
            ".reg .pred p;",
            "setp.ne.u32 p, {1}, 0;",
            "@p mbarrier.arrive.shared::cluster.b64 _, [{0}];",
            "}}",
            in(reg32) ptr.0, in(reg32) u32::from(predicate), options(nostack, preserves_flags)
        );
    }
}
