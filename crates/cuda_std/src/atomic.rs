// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomic operations on global and shared memory.
//!
//! [`SliceMut::atomic`](crate::SliceMut::atomic) and [`Shared::atomic`](crate::shared::Shared::atomic) give an
//! [`Atomic`]. Read-modify-write operations are relaxed: they order nothing but the element itself. Order between
//! elements comes from [`fence`](crate::fence), [`load_acquire`](Atomic::load_acquire) and
//! [`store_release`](Atomic::store_release).

use core::marker::PhantomData;

use crate::machine::{self, AtomicInteger, AtomicValue, SharedPtr};

pub use crate::machine::{Block, Device, Global, Scope, Shared, Space, System};

/// One element of global or shared memory, for atomic access.
///
/// `T` is `i32`, `u32`, `i64`, `u64`, `f32` or `f64`; the bitwise operations are for integers.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Counts the elements that are negative.
/// #[kernel]
/// pub fn count_negative(x: &[f32], count: SliceMut<'_, u32>) {
///     let i = thread::index_1d();
///     if i < x.len() && x[i] < 0.0 {
///         count.atomic(0).fetch_add(1);
///     }
/// }
/// ```
pub struct Atomic<'a, T, M: Space, S: Scope> {
    ptr: M::Ptr<T>,
    _memory: PhantomData<(&'a mut T, M, S)>,
}

impl<T, M: Space, S: Scope> Clone for Atomic<'_, T, M, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, M: Space, S: Scope> Copy for Atomic<'_, T, M, S> {}

impl<T> Atomic<'_, T, Global, Device> {
    /// # Safety
    ///
    /// `ptr` is an aligned element of global memory that lives as long as the result.
    #[inline(always)]
    pub(crate) unsafe fn from_ptr(ptr: *mut T) -> Self {
        Self {
            ptr,
            _memory: PhantomData,
        }
    }
}

impl<T> Atomic<'_, T, Shared, Block> {
    /// # Safety
    ///
    /// `ptr` is an aligned element of the block's shared memory.
    #[inline(always)]
    pub(crate) unsafe fn from_shared(ptr: SharedPtr) -> Self {
        Self {
            ptr: machine::shared_element::<T>(ptr),
            _memory: PhantomData,
        }
    }
}

impl<'a, T, S: Scope> Atomic<'a, T, Global, S> {
    /// The same element, atomic among the threads of the block only: cheaper, where no other block touches it.
    #[inline(always)]
    pub fn block_scope(self) -> Atomic<'a, T, Global, Block> {
        Atomic {
            ptr: self.ptr,
            _memory: PhantomData,
        }
    }

    /// The same element, atomic also for the host and other devices.
    #[inline(always)]
    pub fn system_scope(self) -> Atomic<'a, T, Global, System> {
        Atomic {
            ptr: self.ptr,
            _memory: PhantomData,
        }
    }
}

// In what follows each call hands on the promise of `from_ptr` and `from_shared`: an aligned element of `M`, which lives:
// global memory for the lifetime, shared memory as long as the block, and `M::address` refuses another block's.
impl<T: AtomicValue, M: Space, S: Scope> Atomic<'_, T, M, S> {
    /// Adds `value`, wrapping around for integers, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_add(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::add::<M, S>(M::address(self.ptr), value) }
    }

    /// Replaces the element by the smaller of it and `value`, and gives back the element as it was. A NaN never
    /// replaces a number.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_min(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::min::<M, S>(M::address(self.ptr), value) }
    }

    /// Replaces the element by the larger of it and `value`, and gives back the element as it was. A NaN never
    /// replaces a number.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_max(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::max::<M, S>(M::address(self.ptr), value) }
    }

    /// Sets the element, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn exchange(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::exchange::<M, S>(M::address(self.ptr), value) }
    }

    /// Sets the element to `new` if its bits are those of `current`, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(self, current: T, new: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::compare_exchange::<M, S>(M::address(self.ptr), current, new) }
    }

    /// The element.
    #[inline(always)]
    #[track_caller]
    pub fn load(self) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::load::<M, S>(M::address(self.ptr)) }
    }

    /// Sets the element.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, value: T) {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::store::<M, S>(M::address(self.ptr), value) }
    }

    /// The element; what the thread that [stored](Self::store_release) it wrote before is visible from here on.
    #[inline(always)]
    #[track_caller]
    pub fn load_acquire(self) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::load_acquire::<M, S>(M::address(self.ptr)) }
    }

    /// Sets the element, after all that this thread wrote before.
    #[inline(always)]
    #[track_caller]
    pub fn store_release(self, value: T) {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::store_release::<M, S>(M::address(self.ptr), value) }
    }
}

impl<T: AtomicInteger, M: Space, S: Scope> Atomic<'_, T, M, S> {
    /// [`fetch_add`](Self::fetch_add) after all that this thread wrote before; and what those that have added to the
    /// element in the same way wrote before is visible from here on. One instruction, and cheaper than two
    /// [fences](crate::fence).
    #[inline(always)]
    #[track_caller]
    pub fn fetch_add_ordered(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::add_ordered::<M, S>(M::address(self.ptr), value) }
    }

    /// Replaces the element by its bitwise and with `value`, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_and(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::and::<M, S>(M::address(self.ptr), value) }
    }

    /// Replaces the element by its bitwise or with `value`, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_or(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::or::<M, S>(M::address(self.ptr), value) }
    }

    /// Replaces the element by its bitwise exclusive or with `value`, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_xor(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::xor::<M, S>(M::address(self.ptr), value) }
    }
}
