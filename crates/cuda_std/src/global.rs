// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global memory: what a kernel reads (`&[T]`) and writes ([`SliceMut`]).
//!
//! A kernel's input is a plain slice. Its output is a [`SliceMut`], which all threads hold at once, so it hands out no
//! references, only elements: [`get`](SliceMut::get), [`set`](SliceMut::set) and [`atomic`](SliceMut::atomic). Two
//! threads that set one element without an atomic race; one of the values is kept, which one is not said, and nothing
//! else is harmed, because every bit pattern of a [`Pod`] type is a value of it.

use core::marker::PhantomData;

use bytemuck::Pod;

use crate::atomic::{Atomic, Device, Global};
use crate::machine::{self, check_bounds, vec_align};

/// Global memory that a kernel may write: an array of `T` which every thread of the grid shares.
///
/// On the host, the argument for a `SliceMut<'_, T>` is a mutable borrow of device memory, so no other argument of the
/// launch can be the same memory.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Adds `x` to `y`.
/// #[kernel]
/// pub fn add_to(x: &[f32], y: SliceMut<'_, f32>) {
///     let i = thread::index_1d();
///     if i < y.len() {
///         y.set(i, y.get(i) + x[i]);
///     }
/// }
/// # let mut y = [10.0, 20.0, 30.0];
/// # cuda_std::launch::on_simulator(1, 32, &mut y, |y| add_to(&[1.0, 2.0, 3.0], y));
/// assert_eq!(y, [11.0, 22.0, 33.0]);
/// ```
pub struct SliceMut<'a, T> {
    ptr: *mut T,
    len: usize,
    _memory: PhantomData<&'a mut [T]>,
}

impl<T> Clone for SliceMut<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SliceMut<'_, T> {}

impl<'a, T: Pod> SliceMut<'a, T> {
    /// The slice of `len` elements at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` points to `len` elements of global memory, aligned for `T`, which for `'a` are accessed only through
    /// copies of this slice.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, len: usize) -> Self {
        Self {
            ptr,
            len,
            _memory: PhantomData,
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

    /// The address of the first element.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut T {
        self.ptr
    }

    /// Element `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, index: usize) -> T {
        check_bounds!("a SliceMut", index, self.len);
        // SAFETY: in bounds of the memory that `from_raw_parts` was promised.
        unsafe { machine::load_global(self.ptr.add(index), align_of::<T>()) }
    }

    /// [`get`](Self::get) without the check, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index` is less than the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get_unchecked(self, index: usize) -> T {
        if machine::CHECKED {
            return self.get(index);
        }
        // SAFETY: the caller's promise.
        unsafe { machine::load_global(self.ptr.add(index), align_of::<T>()) }
    }

    /// Sets element `index` to `value`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn set(self, index: usize, value: T) {
        check_bounds!("a SliceMut", index, self.len);
        // SAFETY: in bounds of the memory that `from_raw_parts` was promised.
        unsafe { machine::store_global(self.ptr.add(index), value, align_of::<T>()) }
    }

    /// Elements `index .. index + N`, in as few accesses as the hardware has (16 bytes each).
    ///
    /// # Panics
    ///
    /// If they are not in bounds, or the first is not aligned to the largest power of two that divides the size of
    /// `[T; N]`, 16 bytes at most.
    #[inline(always)]
    #[track_caller]
    pub fn get_vec<const N: usize>(self, index: usize) -> [T; N] {
        check_vec::<T, N>(self.ptr, self.len, index);
        // SAFETY: in bounds and aligned, as just checked.
        unsafe { machine::load_global(self.ptr.add(index).cast::<[T; N]>(), vec_align::<T, N>()) }
    }

    /// [`get_vec`](Self::get_vec) without the checks, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index + N` is at most the length, and element `index` is aligned as `get_vec` wants it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get_vec_unchecked<const N: usize>(self, index: usize) -> [T; N] {
        if machine::CHECKED {
            check_vec::<T, N>(self.ptr, self.len, index);
        }
        // SAFETY: the caller's promise.
        unsafe { machine::load_global(self.ptr.add(index).cast::<[T; N]>(), vec_align::<T, N>()) }
    }

    /// Sets elements `index .. index + N`, in as few accesses as the hardware has (16 bytes each).
    ///
    /// # Panics
    ///
    /// As [`get_vec`](Self::get_vec).
    #[inline(always)]
    #[track_caller]
    pub fn set_vec<const N: usize>(self, index: usize, values: [T; N]) {
        check_vec::<T, N>(self.ptr, self.len, index);
        // SAFETY: in bounds and aligned, as just checked.
        unsafe { machine::store_global(self.ptr.add(index).cast::<[T; N]>(), values, vec_align::<T, N>()) }
    }

    /// [`set_vec`](Self::set_vec) without the checks, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index + N` is at most the length, and element `index` is aligned as `set_vec` wants it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn set_vec_unchecked<const N: usize>(self, index: usize, values: [T; N]) {
        if machine::CHECKED {
            check_vec::<T, N>(self.ptr, self.len, index);
        }
        // SAFETY: the caller's promise.
        unsafe { machine::store_global(self.ptr.add(index).cast::<[T; N]>(), values, vec_align::<T, N>()) }
    }

    /// Element `index` for atomic access, among all threads of the device.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn atomic(self, index: usize) -> Atomic<'a, T, Global, Device> {
        check_bounds!("a SliceMut", index, self.len);
        // SAFETY: in bounds of the memory that `from_raw_parts` was promised, for 'a.
        unsafe { Atomic::from_ptr(self.ptr.add(index)) }
    }

    /// [`atomic`](Self::atomic) without the check, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index` is less than the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn atomic_unchecked(self, index: usize) -> Atomic<'a, T, Global, Device> {
        if machine::CHECKED {
            return self.atomic(index);
        }
        // SAFETY: the caller's promise.
        unsafe { Atomic::from_ptr(self.ptr.add(index)) }
    }
}

/// Global memory that a kernel reads, and that may be the very array that it writes: the input of an operation that can
/// work in place.
///
/// Unlike `&[T]` it makes no promise that nothing writes the elements meanwhile. A kernel that takes one reads element
/// `i` before it sets element `i` of its output, in the same thread, and reads no element that another thread sets.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// `out` may be `x`.
/// #[kernel]
/// pub fn square(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
///     let i = thread::index_1d();
///     if i < out.len() {
///         out.set(i, x.get(i) * x.get(i));
///     }
/// }
/// # let mut x = [1.0, 2.0, 3.0];
/// # cuda_std::launch::on_simulator(1, 32, &mut x, |x| {
/// #     // SAFETY: the same elements, for the kernel's time.
/// #     square(unsafe { Slice::from_raw_parts(x.as_ptr(), x.len()) }, x);
/// # });
/// assert_eq!(x, [1.0, 4.0, 9.0]);
/// ```
pub struct Slice<'a, T> {
    ptr: *const T,
    len: usize,
    _memory: PhantomData<&'a [T]>,
}

impl<T> Clone for Slice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slice<'_, T> {}

impl<'a, T: Pod> Slice<'a, T> {
    /// The slice of `len` elements at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` points to `len` elements of global memory, aligned for `T`, which for `'a` are written only through a
    /// [`SliceMut`].
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *const T, len: usize) -> Self {
        Self {
            ptr,
            len,
            _memory: PhantomData,
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
        check_bounds!("a Slice", index, self.len);
        // SAFETY: in bounds of the memory that `from_raw_parts` was promised.
        unsafe { machine::load_global(self.ptr.add(index), align_of::<T>()) }
    }

    /// Elements `index .. index + N`, in as few accesses as the hardware has (16 bytes each), without a check. The
    /// simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index + N` is at most the length, and element `index` is aligned to the largest power of two that divides the
    /// size of `[T; N]`, 16 bytes at most.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get_vec_unchecked<const N: usize>(self, index: usize) -> [T; N] {
        if machine::CHECKED {
            check_vec::<T, N>(self.ptr, self.len, index);
        }
        // SAFETY: the caller's promise.
        unsafe { machine::load_global(self.ptr.add(index).cast::<[T; N]>(), vec_align::<T, N>()) }
    }

    /// Whether `get_vec_unchecked::<N>` may be called at every multiple of `N`.
    #[inline(always)]
    pub fn is_vec_aligned<const N: usize>(self) -> bool {
        is_vec_aligned::<T, N>(self.ptr)
    }
}

/// Loads from an input slice that a plain index cannot express.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Negates four elements a thread, by one load and one store of 16 bytes.
/// #[kernel]
/// pub fn negate(x: &[f32], out: SliceMut<'_, f32>) {
///     let i = 4 * thread::index_1d();
///     if i + 4 <= out.len() {
///         out.set_vec(i, x.load_vec::<4>(i).map(|x| -x));
///     } else {
///         // The last elements, one by one.
///         for i in i..out.len() {
///             out.set(i, -x.load(i));
///         }
///     }
/// }
/// # #[repr(align(16))] struct Aligned([f32; 131]);
/// # let (x, mut out) = (Aligned(std::array::from_fn(|i| i as f32)), Aligned([0.0; 131]));
/// # cuda_std::launch::on_simulator(1, 64, &mut out.0, |out| negate(&x.0, out));
/// # let (x, out) = (x.0, out.0);
/// assert!((0..131).all(|i| out[i] == -x[i]));
/// ```
pub trait SliceExt<T: Pod> {
    /// Element `index` through the read-only data cache (`__ldg`).
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    fn load(&self, index: usize) -> T;

    /// Elements `index .. index + N` through the read-only data cache, in as few accesses as the hardware has (16
    /// bytes each).
    ///
    /// # Panics
    ///
    /// If they are not in bounds, or the first is not aligned to the largest power of two that divides the size of
    /// `[T; N]`, 16 bytes at most.
    fn load_vec<const N: usize>(&self, index: usize) -> [T; N];

    /// [`load_vec`](Self::load_vec) without the checks, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index + N` is at most the length, and element `index` is aligned as `load_vec` wants it.
    unsafe fn load_vec_unchecked<const N: usize>(&self, index: usize) -> [T; N];

    /// Whether `load_vec::<N>` may be called at every multiple of `N`.
    fn is_vec_aligned<const N: usize>(&self) -> bool;
}

impl<T: Pod> SliceExt<T> for [T] {
    #[inline(always)]
    #[track_caller]
    fn load(&self, index: usize) -> T {
        // SAFETY: a reference is readable, and nothing writes behind a shared one, which is what the cache needs.
        unsafe { machine::load_read_only(&raw const self[index], align_of::<T>()) }
    }

    #[inline(always)]
    #[track_caller]
    fn load_vec<const N: usize>(&self, index: usize) -> [T; N] {
        check_vec::<T, N>(self.as_ptr(), self.len(), index);
        // SAFETY: in bounds and aligned, as just checked; nothing writes behind a shared reference.
        unsafe { machine::load_read_only(self.as_ptr().add(index).cast::<[T; N]>(), vec_align::<T, N>()) }
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn load_vec_unchecked<const N: usize>(&self, index: usize) -> [T; N] {
        if machine::CHECKED {
            check_vec::<T, N>(self.as_ptr(), self.len(), index);
        }
        // SAFETY: the caller's promise; nothing writes behind a shared reference.
        unsafe { machine::load_read_only(self.as_ptr().add(index).cast::<[T; N]>(), vec_align::<T, N>()) }
    }

    #[inline(always)]
    fn is_vec_aligned<const N: usize>(&self) -> bool {
        is_vec_aligned::<T, N>(self.as_ptr())
    }
}

impl<T: Pod> SliceMut<'_, T> {
    /// Whether `get_vec::<N>` and `set_vec::<N>` may be called at every multiple of `N`.
    #[inline(always)]
    pub fn is_vec_aligned<const N: usize>(self) -> bool {
        is_vec_aligned::<T, N>(self.ptr)
    }
}

/// Whether an access to `[T; N]` at `ptr` is aligned as the hardware wants it.
#[inline(always)]
fn is_vec_aligned<T, const N: usize>(ptr: *const T) -> bool {
    let align = const { vec_align::<T, N>() };
    align <= align_of::<T>() || ptr.addr().is_multiple_of(align)
}

#[inline(always)]
#[track_caller]
fn check_vec<T, const N: usize>(ptr: *const T, len: usize, index: usize) {
    check_bounds!("a slice", index, N, len);
    assert!(
        is_vec_aligned::<T, N>(ptr.wrapping_add(index)),
        "vector access is not aligned"
    );
}
