// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomic operations of an NVIDIA GPU: PTX `atom`, `ld` and `st` with scope and order.

use core::arch::asm;

use super::{
    AtomicInteger, AtomicValue, ClusterPtr, DistributedShared, Global, Level, Memory, Operation, Scope, Shared,
    SharedPtr, Space, replace_if,
};

impl Space for Global {
    const MEMORY: Memory = Memory::Global;
    type Ptr<T> = *mut T;

    #[inline(always)]
    fn address<T>(ptr: *mut T, _: Operation, _: Level) -> *mut T {
        ptr
    }
}

impl Space for Shared {
    const MEMORY: Memory = Memory::Shared;
    /// An address in the shared window, for instructions that name `.shared`; not a generic pointer.
    type Ptr<T> = *mut T;

    #[inline(always)]
    fn address<T>(ptr: *mut T, _: Operation, _: Level) -> *mut T {
        ptr
    }
}

impl Space for DistributedShared {
    const MEMORY: Memory = Memory::Distributed;
    /// An address in the cluster's window, for instructions that name `.shared::cluster`; not a generic pointer.
    type Ptr<T> = *mut T;

    #[inline(always)]
    fn address<T>(ptr: *mut T, _: Operation, _: Level) -> *mut T {
        ptr
    }
}

#[inline(always)]
pub fn cluster_element<T>(ptr: ClusterPtr) -> <DistributedShared as Space>::Ptr<T> {
    core::ptr::without_provenance_mut(ptr.0 as usize)
}

#[inline(always)]
pub fn shared_element<T>(ptr: SharedPtr) -> <Shared as Space>::Ptr<T> {
    core::ptr::without_provenance_mut(ptr.0 as usize)
}

/// One instruction in the form of the atomic's space and scope: `$head.SCOPE.SPACE$tail operands`. The branches are
/// on constants, so that one of them remains.
macro_rules! by_space_and_scope {
    ($memory:ident, $scope:ident, $head:literal, [$($tail:tt)*], $($operand:tt)*) => {
        match ($memory::MEMORY, $scope::LEVEL) {
            (Memory::Global, Level::Block) => asm!(concat!($head, ".cta.global", $($tail)*), $($operand)*),
            (Memory::Global, Level::Cluster) => asm!(concat!($head, ".cluster.global", $($tail)*), $($operand)*),
            (Memory::Global, Level::Device) => asm!(concat!($head, ".gpu.global", $($tail)*), $($operand)*),
            (Memory::Global, Level::System) => asm!(concat!($head, ".sys.global", $($tail)*), $($operand)*),
            // Shared memory belongs to one block: no larger scope has a meaning.
            (Memory::Shared, _) => asm!(concat!($head, ".cta.shared", $($tail)*), $($operand)*),
            (Memory::Distributed, _) => asm!(concat!($head, ".cluster.shared::cluster", $($tail)*), $($operand)*),
        }
    };
}

/// A read-modify-write operation with one operand.
macro_rules! modify {
    ($register:ident: $($name:ident = $operation:literal $type:literal),*) => {
        modify!("atom.relaxed", $register: $($name = $operation $type),*);
    };
    ($instruction:literal, $register:ident: $($name:ident = $operation:literal $type:literal),*) => {$(
        #[inline(always)]
        unsafe fn $name<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
            let old: Self;
            // SAFETY: the caller's promise: a live, aligned element of M.
            unsafe {
                by_space_and_scope!(
                    M, S, $instruction, [".", $operation, ".", $type, " {0}, [{1}], {2};"],
                    out($register) old, in(reg64) ptr, in($register) value, options(nostack, preserves_flags)
                );
            }
            old
        }
    )*};
}

/// Exchange, compare-and-swap, loads and stores, which look at the bits alone.
macro_rules! by_bits {
    ($register:ident, $type:literal) => {
        modify!($register: exchange = "exch" $type);

        #[inline(always)]
        unsafe fn compare_exchange<M: Space, S: Scope>(ptr: *mut Self, current: Self, new: Self) -> Self {
            let old: Self;
            // SAFETY: the caller's promise: a live, aligned element of M.
            unsafe {
                by_space_and_scope!(
                    M, S, "atom.relaxed", [".cas.", $type, " {0}, [{1}], {2}, {3};"],
                    out($register) old, in(reg64) ptr, in($register) current, in($register) new,
                    options(nostack, preserves_flags)
                );
            }
            old
        }

        by_bits!(load, load_acquire, store, store_release, $register, $type);
    };
    ($load:ident, $load_acquire:ident, $store:ident, $store_release:ident, $register:ident, $type:literal) => {
        by_bits!(@load $load, "ld.relaxed", $register, $type);
        by_bits!(@load $load_acquire, "ld.acquire", $register, $type);
        by_bits!(@store $store, "st.relaxed", $register, $type);
        by_bits!(@store $store_release, "st.release", $register, $type);
    };
    (@load $name:ident, $instruction:literal, $register:ident, $type:literal) => {
        #[inline(always)]
        unsafe fn $name<M: Space, S: Scope>(ptr: *mut Self) -> Self {
            let value: Self;
            // SAFETY: the caller's promise: a live, aligned element of M.
            unsafe {
                by_space_and_scope!(
                    M, S, $instruction, [".", $type, " {0}, [{1}];"],
                    out($register) value, in(reg64) ptr, options(nostack, preserves_flags)
                );
            }
            value
        }
    };
    (@store $name:ident, $instruction:literal, $register:ident, $type:literal) => {
        #[inline(always)]
        unsafe fn $name<M: Space, S: Scope>(ptr: *mut Self, value: Self) {
            // SAFETY: the caller's promise: a live, aligned element of M.
            unsafe {
                by_space_and_scope!(
                    M, S, $instruction, [".", $type, " [{0}], {1};"],
                    in(reg64) ptr, in($register) value, options(nostack, preserves_flags)
                );
            }
        }
    };
}

macro_rules! integer {
    ($($type:ty: $register:ident, $unsigned:literal, $typed:literal, $bits:literal;)*) => {$(
        impl AtomicValue for $type {
            modify!($register: add = "add" $unsigned, min = "min" $typed, max = "max" $typed);
            by_bits!($register, $bits);
        }

        impl AtomicInteger for $type {
            modify!("atom.acq_rel", $register: add_ordered = "add" $unsigned);
            modify!($register: and = "and" $bits, or = "or" $bits, xor = "xor" $bits);
        }
    )*};
}

macro_rules! float {
    ($($type:ty: $register:ident, $typed:literal, $bits:literal;)*) => {$(
        impl AtomicValue for $type {
            modify!($register: add = "add" $typed);
            by_bits!($register, $bits);

            #[inline(always)]
            unsafe fn min<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { replace_if::<Self, M, S>(ptr, value, |new, old| new < old, |a, b| a.to_bits() == b.to_bits()) }
            }

            #[inline(always)]
            unsafe fn max<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { replace_if::<Self, M, S>(ptr, value, |new, old| new > old, |a, b| a.to_bits() == b.to_bits()) }
            }
        }
    )*};
}

integer! {
    u32: reg32, "u32", "u32", "b32";
    i32: reg32, "u32", "s32", "b32";
    u64: reg64, "u64", "u64", "b64";
    i64: reg64, "u64", "s64", "b64";
}

float! {
    f32: reg32, "f32", "b32";
    f64: reg64, "f64", "b64";
}
