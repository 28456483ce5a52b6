// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomic operations on the simulated GPU: the host's own, on the same addresses.

use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::{
    AtomicInteger, AtomicValue, ClusterPtr, DistributedShared, Global, Level, Memory, Operation, Scope, Shared,
    SharedPtr, Space, replace_if,
};

impl Space for Global {
    const MEMORY: Memory = Memory::Global;
    type Ptr<T> = *mut T;

    #[inline(always)]
    #[track_caller]
    fn address<T>(ptr: *mut T, operation: Operation, scope: Level) -> *mut T {
        let (operation, scope) = noted(operation, scope);
        cuda_sim::atomic(cuda_sim::Space::Global, ptr.addr(), size_of::<T>(), operation, scope);
        ptr
    }
}

impl Space for Shared {
    const MEMORY: Memory = Memory::Shared;
    type Ptr<T> = SharedPtr;

    #[inline(always)]
    #[track_caller]
    fn address<T>(ptr: SharedPtr, operation: Operation, scope: Level) -> *mut T {
        let (operation, scope) = noted(operation, scope);
        cuda_sim::atomic_shared(ptr, size_of::<T>(), operation, scope).cast()
    }
}

impl Space for DistributedShared {
    const MEMORY: Memory = Memory::Distributed;
    type Ptr<T> = ClusterPtr;

    #[inline(always)]
    #[track_caller]
    fn address<T>(ptr: ClusterPtr, operation: Operation, scope: Level) -> *mut T {
        Shared::address(ptr, operation, scope)
    }
}

/// The same as the simulator has them.
#[inline(always)]
fn noted(operation: Operation, scope: Level) -> (cuda_sim::Atomic, cuda_sim::Scope) {
    let operation = match operation {
        Operation::Load => cuda_sim::Atomic::Load,
        Operation::LoadAcquire => cuda_sim::Atomic::LoadAcquire,
        Operation::Store => cuda_sim::Atomic::Store,
        Operation::StoreRelease => cuda_sim::Atomic::StoreRelease,
        Operation::Update => cuda_sim::Atomic::Update,
        Operation::UpdateOrdered => cuda_sim::Atomic::UpdateOrdered,
    };
    let scope = match scope {
        Level::Block => cuda_sim::Scope::Block,
        // Shared memory has no threads beyond the cluster, and there are no such atomics of global memory.
        Level::Cluster | Level::Device | Level::System => cuda_sim::Scope::Device,
    };
    (operation, scope)
}

#[inline]
pub fn cluster_element<T>(ptr: ClusterPtr) -> <DistributedShared as Space>::Ptr<T> {
    ptr
}

#[inline]
pub fn shared_element<T>(ptr: SharedPtr) -> <Shared as Space>::Ptr<T> {
    ptr
}

/// The operations that integers and floats have in common; a float goes through the integer `$atomic` of its bits.
macro_rules! common {
    ($atomic:ty, $to_bits:expr, $from_bits:expr) => {
        unsafe fn exchange<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
            // SAFETY: the caller's promise: an aligned, live element accessed atomically.
            let cell = unsafe { <$atomic>::from_ptr(ptr.cast()) };
            $from_bits(cell.swap($to_bits(value), Ordering::Relaxed))
        }

        unsafe fn compare_exchange<M: Space, S: Scope>(ptr: *mut Self, current: Self, new: Self) -> Self {
            // SAFETY: the caller's promise: an aligned, live element accessed atomically.
            let cell = unsafe { <$atomic>::from_ptr(ptr.cast()) };
            let (current, new) = ($to_bits(current), $to_bits(new));
            $from_bits(
                cell.compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed)
                    .unwrap_or_else(|seen| seen),
            )
        }

        unsafe fn load<M: Space, S: Scope>(ptr: *mut Self) -> Self {
            // SAFETY: the caller's promise: an aligned, live element accessed atomically.
            $from_bits(unsafe { <$atomic>::from_ptr(ptr.cast()) }.load(Ordering::Relaxed))
        }

        unsafe fn store<M: Space, S: Scope>(ptr: *mut Self, value: Self) {
            // SAFETY: the caller's promise: an aligned, live element accessed atomically.
            unsafe { <$atomic>::from_ptr(ptr.cast()) }.store($to_bits(value), Ordering::Relaxed);
        }

        unsafe fn load_acquire<M: Space, S: Scope>(ptr: *mut Self) -> Self {
            // SAFETY: the caller's promise: an aligned, live element accessed atomically.
            $from_bits(unsafe { <$atomic>::from_ptr(ptr.cast()) }.load(Ordering::Acquire))
        }

        unsafe fn store_release<M: Space, S: Scope>(ptr: *mut Self, value: Self) {
            // SAFETY: the caller's promise: an aligned, live element accessed atomically.
            unsafe { <$atomic>::from_ptr(ptr.cast()) }.store($to_bits(value), Ordering::Release);
        }
    };
}

/// `name: method` pairs that an integer's atomic has under another name.
macro_rules! integer_operations {
    ($atomic:ty: $($name:ident = $method:ident),*) => {$(
        unsafe fn $name<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
            // SAFETY: the caller's promise: an aligned, live element accessed atomically.
            unsafe { <$atomic>::from_ptr(ptr) }.$method(value, Ordering::Relaxed)
        }
    )*};
}

macro_rules! integer {
    ($($type:ty: $atomic:ty),*) => {$(
        impl AtomicValue for $type {
            integer_operations!($atomic: add = fetch_add, min = fetch_min, max = fetch_max);
            common!($atomic, core::convert::identity, core::convert::identity);
        }

        impl AtomicInteger for $type {
            unsafe fn add_ordered<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
                // SAFETY: the caller's promise: an aligned, live element accessed atomically.
                unsafe { <$atomic>::from_ptr(ptr) }.fetch_add(value, Ordering::AcqRel)
            }

            integer_operations!($atomic: and = fetch_and, or = fetch_or, xor = fetch_xor);
        }
    )*};
}

macro_rules! float {
    ($($type:ty: $atomic:ty),*) => {$(
        impl AtomicValue for $type {
            unsafe fn add<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
                // SAFETY: the caller's promise: an aligned, live element accessed atomically.
                let cell = unsafe { <$atomic>::from_ptr(ptr.cast()) };
                let sum = |bits| Some((<$type>::from_bits(bits) + value).to_bits());
                let old = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
                <$type>::from_bits(old.unwrap_or_else(|bits| bits))
            }

            unsafe fn min<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { replace_if::<Self, M, S>(ptr, value, |new, old| new < old, |a, b| a.to_bits() == b.to_bits()) }
            }

            unsafe fn max<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { replace_if::<Self, M, S>(ptr, value, |new, old| new > old, |a, b| a.to_bits() == b.to_bits()) }
            }

            common!($atomic, <$type>::to_bits, <$type>::from_bits);
        }
    )*};
}

integer!(i32: AtomicI32, u32: AtomicU32, i64: AtomicI64, u64: AtomicU64);
float!(f32: AtomicU32, f64: AtomicU64);
