// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barriers in shared memory, bulk copies of tensors, and copies of single threads to shared memory on an NVIDIA GPU.
//!
//! None of these is `nomem`: the compiler must move no access to memory across them.

use core::arch::asm;

use super::{Place, SharedPtr};
use crate::tma::RawTensorMap;

/// The generic address of a tensor map.
pub type TensorMapAddress = u64;

/// The address of the tensor map that is a parameter.
#[inline(always)]
pub fn tensor_map_at(_: &RawTensorMap, place: Place) -> TensorMapAddress {
    let address: u64;
    // SAFETY: computes with an address.
    unsafe {
        asm!("cvta.param.u64 {0}, {1};", out(reg64) address, in(reg64) place.0, options(pure, nomem, nostack, preserves_flags))
    };
    address
}

#[inline(always)]
pub fn mbarrier_init(ptr: SharedPtr, arrivals: u32) {
    // SAFETY: the word is a barrier's, as whoever made the `Mbarrier` promised.
    unsafe {
        asm!("mbarrier.init.shared::cta.b64 [{0}], {1};", in(reg32) ptr.0, in(reg32) arrivals, options(nostack, preserves_flags));
    }
}

/// The form without a scope: `.release.cluster` would wait for all memory of the GPU.
#[inline(always)]
pub fn mbarrier_arrive_if(ptr: SharedPtr, predicate: bool) {
    // SAFETY: as in `mbarrier_init`.
    unsafe {
        asm!(
            "{{",
            ".reg .pred p;",
            "setp.ne.u32 p, {1}, 0;",
            "@p mbarrier.arrive.shared::cta.b64 _, [{0}];",
            "}}",
            in(reg32) ptr.0, in(reg32) u32::from(predicate), options(nostack, preserves_flags)
        );
    }
}

#[inline(always)]
pub fn mbarrier_arrive_expect_tx(ptr: SharedPtr, bytes: u32) {
    // SAFETY: as in `mbarrier_init`.
    unsafe {
        asm!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};",
            in(reg32) ptr.0, in(reg32) bytes, options(nostack, preserves_flags)
        );
    }
}

/// Defines `$name`, which waits for a phase, in the scope that the instruction names.
macro_rules! wait {
    ($name:ident, $instruction:literal) => {
        #[inline(always)]
        #[allow(
            named_asm_labels,
            reason = "PTX has no local ones; these are in a scope of their own"
        )]
        pub fn $name(ptr: SharedPtr, parity: u32) {
            // SAFETY: as in `mbarrier_init`.
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred p;",
                    "WAIT:",
                    concat!($instruction, " p, [{0}], {1};"),
                    "@p bra DONE;",
                    "bra WAIT;",
                    "DONE:",
                    "}}",
                    in(reg32) ptr.0, in(reg32) parity, options(nostack, preserves_flags)
                );
            }
        }
    };
}

wait!(mbarrier_wait, "mbarrier.try_wait.parity.shared::cta.b64");
wait!(
    mbarrier_wait_cluster,
    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64"
);

#[inline(always)]
pub fn fence_mbarrier_init() {
    // SAFETY: a fence.
    unsafe {
        asm!(
            "fence.mbarrier_init.release.cluster;",
            options(nostack, preserves_flags)
        )
    };
}

/// One of the instructions of ranks 1 to 5: `$head RANK $between COORDINATES $tail`, where operand 1 is the map and operand
/// 3 the first coordinate; operands with names come behind those. The branches are on a constant, so that one of them remains.
macro_rules! by_rank {
    ($rank:ident, $at:ident, [$($head:literal),*], [$($tail:literal),*], [$($operand:tt)*] $($named:tt)?) => {
        match $rank {
            1 => by_rank!(1, "{3}", [$at 0], [$($head),*], [$($tail),*], [$($operand)*] $($named)?),
            2 => by_rank!(2, "{3}, {4}", [$at 0 1], [$($head),*], [$($tail),*], [$($operand)*] $($named)?),
            3 => by_rank!(3, "{3}, {4}, {5}", [$at 0 1 2], [$($head),*], [$($tail),*], [$($operand)*] $($named)?),
            4 => by_rank!(4, "{3}, {4}, {5}, {6}", [$at 0 1 2 3], [$($head),*], [$($tail),*], [$($operand)*] $($named)?),
            5 => by_rank!(5, "{3}, {4}, {5}, {6}, {7}", [$at 0 1 2 3 4], [$($head),*], [$($tail),*], [$($operand)*] $($named)?),
            _ => {}
        }
    };
    (
        $rank:literal, $list:literal, [$at:ident $($i:literal)*],
        [$head:literal, $between:literal], [$middle:literal, $tail:literal], [$($operand:tt)*] $([$($named:tt)*])?
    ) => {
        asm!(
            concat!($head, $rank, $between, "{{", $list, "}}", $middle, $tail),
            $($operand)* $(in(reg32) $at[$i],)* $($($named)*)? options(nostack, preserves_flags)
        )
    };
}

/// # Safety
///
/// As for [`TensorMap::load`](crate::tma::TensorMap::load).
#[inline(always)]
pub unsafe fn tma_load<T, const D: usize>(
    map: TensorMapAddress,
    to: SharedPtr,
    _room: usize,
    at: [i32; D],
    barrier: SharedPtr,
) {
    // SAFETY: the caller's promise.
    unsafe {
        by_rank!(
            D, at,
            ["cp.async.bulk.tensor.", "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [{0}], [{1}, "],
            ["], [{2}]", ";"],
            [in(reg32) to.0, in(reg64) map, in(reg32) barrier.0,]
        );
    }
}

/// # Safety
///
/// As for [`TensorMap::load_multicast`](crate::tma::TensorMap::load_multicast).
#[inline(always)]
pub unsafe fn tma_load_multicast<T, const D: usize>(
    map: TensorMapAddress,
    to: SharedPtr,
    _room: usize,
    at: [i32; D],
    barrier: SharedPtr,
    blocks: u16,
) {
    // SAFETY: the caller's promise. An address of the block's own is one of the cluster's window, too.
    unsafe {
        by_rank!(
            D, at,
            ["cp.async.bulk.tensor.", "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, "],
            ["], [{2}], {blocks}", ";"],
            [in(reg32) to.0, in(reg64) map, in(reg32) barrier.0,] [blocks = in(reg16) blocks,]
        );
    }
}

/// # Safety
///
/// As for [`TensorMapMut::store`](crate::tma::TensorMapMut::store).
#[inline(always)]
pub unsafe fn tma_store<T, const D: usize>(map: TensorMapAddress, from: SharedPtr, _room: usize, at: [i32; D]) {
    // SAFETY: the caller's promise. The third operand is there for the coordinates to begin where a load's do.
    unsafe {
        by_rank!(
            D, at,
            ["cp.async.bulk.tensor.", "d.global.shared::cta.tile.bulk_group [{1}, "],
            ["], [{0}]", "; // {2}"],
            [in(reg32) from.0, in(reg64) map, in(reg32) from.0,]
        );
    }
}

/// # Safety
///
/// As for [`TensorMapMut::add`](crate::tma::TensorMapMut::add).
#[inline(always)]
pub unsafe fn tma_add<const D: usize>(map: TensorMapAddress, from: SharedPtr, _room: usize, at: [i32; D]) {
    // SAFETY: the caller's promise. The third operand is there for the coordinates to begin where a load's do.
    unsafe {
        by_rank!(
            D, at,
            ["cp.reduce.async.bulk.tensor.", "d.global.shared::cta.add.tile.bulk_group [{1}, "],
            ["], [{0}]", "; // {2}"],
            [in(reg32) from.0, in(reg64) map, in(reg32) from.0,]
        );
    }
}

#[inline(always)]
pub fn tma_prefetch(map: TensorMapAddress) {
    // SAFETY: a hint.
    unsafe { asm!("prefetch.tensormap [{0}];", in(reg64) map, options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn tma_commit() {
    // SAFETY: closes a group of copies.
    unsafe { asm!("cp.async.bulk.commit_group;", options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn tma_wait_read<const N: u32>() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.bulk.wait_group.read {n};", n = const N, options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn tma_wait<const N: u32>() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.bulk.wait_group {n};", n = const N, options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn fence_async_global() {
    // SAFETY: a fence.
    unsafe { asm!("fence.proxy.async.global;", options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn fence_async() {
    // SAFETY: a fence.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack, preserves_flags)) };
}

/// # Safety
///
/// As for [`copy_16`](crate::async_copy::copy_16).
#[inline(always)]
pub unsafe fn copy_16(to: SharedPtr, from: *const u8, bytes: u32) {
    // SAFETY: the caller's promise. The generic address of global memory is its global address.
    unsafe {
        asm!(
            "cp.async.cg.shared.global [{0}], [{1}], 16, {2};",
            in(reg32) to.0, in(reg64) from, in(reg32) bytes, options(nostack, preserves_flags)
        );
    }
}

#[inline(always)]
pub fn copy_commit() {
    // SAFETY: closes a group of copies.
    unsafe { asm!("cp.async.commit_group;", options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn copy_wait<const N: u32>() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.wait_group {n};", n = const N, options(nostack, preserves_flags)) };
}
