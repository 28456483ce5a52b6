// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory: on-chip storage that the threads of one block have in common.
//!
//! [`shared_array!`](crate::shared_array) names a static array, [`dynamic`] the storage whose size the launch gives.
//! Both are a [`Shared`], which hands out elements, not references, since every thread of the block holds it. Its
//! contents are unspecified until a thread sets them; between a thread's [`set`](Shared::set) and another's
//! [`get`](Shared::get) stands a [barrier](crate::thread::sync_threads).

use core::marker::PhantomData;

use bytemuck::Pod;

use crate::atomic::{self, Atomic, Block};
use crate::machine::{self, SharedPtr};

/// An array in the shared memory of a block.
pub struct Shared<T> {
    ptr: SharedPtr,
    len: usize,
    _element: PhantomData<*mut T>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T: Pod> Shared<T> {
    /// The array of `len` elements at `ptr`; what [`shared_array!`](crate::shared_array) expands to.
    ///
    /// # Safety
    ///
    /// `ptr` points to that many elements of this block's shared memory, aligned for `T`.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: SharedPtr, len: usize) -> Self {
        Self {
            ptr,
            len,
            _element: PhantomData,
        }
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Element `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, index: usize) -> T {
        // SAFETY: `at` checks the bounds of the array that `from_raw_parts` was promised.
        unsafe { machine::load_shared(self.at(index), align_of::<T>()) }
    }

    /// Sets element `index` to `value`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn set(self, index: usize, value: T) {
        // SAFETY: `at` checks the bounds of the array that `from_raw_parts` was promised.
        unsafe { machine::store_shared(self.at(index), value, align_of::<T>()) }
    }

    /// [`set`](Self::set) without the check, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index` is less than the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn set_unchecked(self, index: usize, value: T) {
        if machine::CHECKED {
            return self.set(index, value);
        }
        let at = machine::shared_offset(self.ptr, index * size_of::<T>());
        // SAFETY: the caller's promise.
        unsafe { machine::store_shared(at, value, align_of::<T>()) }
    }

    /// Element `index` for atomic access, among the threads of the block.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn atomic(self, index: usize) -> Atomic<'static, T, atomic::Shared, Block> {
        // SAFETY: `at` checks the bounds of the array that `from_raw_parts` was promised; shared memory lives as long
        // as the block, and nothing of the kernel outlives that.
        unsafe { Atomic::from_shared(self.at(index)) }
    }

    /// The same memory as an array of `U`: as many as fit.
    ///
    /// # Panics
    ///
    /// If `U` wants a larger alignment than 16 bytes.
    #[inline(always)]
    pub fn cast<U: Pod>(self) -> Shared<U> {
        const { assert!(align_of::<U>() <= 16 && size_of::<U>() > 0) };
        Shared {
            ptr: self.ptr,
            len: self.len * size_of::<T>() / size_of::<U>(),
            _element: PhantomData,
        }
    }

    #[inline(always)]
    #[track_caller]
    fn at(self, index: usize) -> SharedPtr {
        assert!(index < self.len, "index out of bounds of shared memory");
        machine::shared_offset(self.ptr, index * size_of::<T>())
    }
}

/// The dynamic shared memory of the block (`extern __shared__`): as many `T` as fit into the bytes that the launch
/// asked for.
#[inline(always)]
pub fn dynamic<T: Pod>() -> Shared<T> {
    const { assert!(align_of::<T>() <= 16 && size_of::<T>() > 0) };
    let (ptr, bytes) = machine::dynamic_shared();
    Shared {
        ptr,
        len: bytes / size_of::<T>(),
        _element: PhantomData,
    }
}
