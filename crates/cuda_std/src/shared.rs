// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory: on-chip storage that the threads of one block have in common.
//!
//! [`shared_array!`](crate::shared_array) names a static array, [`dynamic`] the storage whose size the launch gives.
//! Both are a [`Shared`], which hands out elements, not references, since every thread of the block holds it. Its
//! contents are unspecified until a thread sets them; between a thread's [`set`](Shared::set) and another's
//! [`get`](Shared::get) stands a [barrier](crate::thread::sync_threads).
//!
//! Shared memory belongs to one block, and ends with it. A kernel cannot keep a [`Shared`], or an atomic of one, for
//! another: it is neither `Send` nor `Sync`, so that no static takes it, and a GPU has no thread-local storage. On the
//! host there is such storage; the simulated GPU checks at each access that the memory is that of the block which runs.

use core::marker::PhantomData;

use bytemuck::Pod;

use crate::atomic::{self, Atomic, Block};
use crate::machine::{self, SharedPtr, check_bounds, vec_align};

/// An array in the shared memory of a block.
///
/// On the simulated GPU an access to another block's array is a fault, and one outside a kernel panics.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// How often each byte occurs: counted in shared memory, whose atomics are fast, then added up.
/// #[kernel(max_threads = 256)]
/// pub fn count_bytes(x: &[u8], counts: SliceMut<'_, u32>) {
///     let bins = shared_array![u32; 256];
///     let t = thread::thread_idx_x() as usize;
///     bins.set(t, 0);
///     thread::sync_threads();
///     let i = thread::index_1d();
///     if i < x.len() {
///         bins.atomic(x[i].into()).fetch_add(1);
///     }
///     thread::sync_threads();
///     counts.atomic(t).fetch_add(bins.get(t));
/// }
/// # let x: Vec<u8> = (0..1000).map(|i| (i % 100) as u8).collect();
/// # let mut counts = [0; 256];
/// # cuda_std::launch::on_simulator(4, 256, &mut counts, |counts| count_bytes(&x, counts));
/// assert_eq!((counts[0], counts[99], counts[100]), (10, 10, 0));
/// ```
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

    /// The same array, whose elements may be read though no thread has written them: what they are does not matter, since
    /// what is computed of them is thrown away. Without it the simulated GPU, where it checks for
    /// [uninitialised reads](https://docs.rs/warpsmith/latest/warpsmith/struct.Device.html#method.checked_simulator),
    /// makes such a read a fault. Costs nothing.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// Sums of neighbours within a block. The last thread's is of an element that nobody has set, and is not stored.
    /// #[kernel(max_threads = 64)]
    /// pub fn neighbours(x: &[u32], out: SliceMut<'_, u32>) {
    ///     let tile = shared_array![u32; 65].may_be_uninitialised();
    ///     let i = thread::thread_idx_x() as usize;
    ///     tile.set(i, x[i]);
    ///     thread::sync_threads();
    ///     let sum = tile.get(i).wrapping_add(tile.get(i + 1));
    ///     if i < 63 {
    ///         out.set(i, sum);
    ///     }
    /// }
    /// # let x: Vec<u32> = (0..64).collect();
    /// # let mut out = [0; 64];
    /// # cuda_std::launch::on_simulator(1, 64, &mut out, |out| neighbours(&x, out));
    /// assert_eq!((out[0], out[62], out[63]), (1, 125, 0));
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn may_be_uninitialised(self) -> Self {
        machine::shared_may_be_uninitialised(self.ptr, self.len * size_of::<T>());
        self
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
        let at = machine::shared_offset(self.ptr, index * size_of::<T>());
        // SAFETY: the caller's promise.
        unsafe { machine::load_shared(at, align_of::<T>()) }
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

    /// [`atomic`](Self::atomic) without the check, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index` is less than the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn atomic_unchecked(self, index: usize) -> Atomic<'static, T, atomic::Shared, Block> {
        if machine::CHECKED {
            return self.atomic(index);
        }
        // SAFETY: the caller's promise; for how long, see `atomic`.
        unsafe { Atomic::from_shared(machine::shared_offset(self.ptr, index * size_of::<T>())) }
    }

    /// The address of element 0 in the shared memory of the block, in bytes; zero for every array on the simulated GPU.
    /// For [`atomic_at_unchecked`](Self::atomic_at_unchecked), where an instruction that computes an offset can add it.
    #[inline(always)]
    pub fn address(self) -> u32 {
        machine::shared_address(self.ptr)
    }

    /// The element at an address, for atomic access among the threads of the block. The simulated GPU checks it.
    ///
    /// # Safety
    ///
    /// `address` is [`address`](Self::address)` + index * size_of::<T>()`, where `index` is less than the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn atomic_at_unchecked(self, address: u32) -> Atomic<'static, T, atomic::Shared, Block> {
        if machine::CHECKED {
            let address = address as usize;
            assert!(
                address.is_multiple_of(size_of::<T>()),
                "address between two elements of shared memory"
            );
            return self.atomic(address / size_of::<T>());
        }
        // SAFETY: the caller's promise; for how long, see `atomic`.
        unsafe { Atomic::from_shared(machine::shared_at(self.ptr, address)) }
    }

    /// The same memory as an array of `U`: as many as fit.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// The bytes of each number, the lowest first.
    /// #[kernel(max_threads = 32)]
    /// pub fn bytes_of(x: &[u32], out: SliceMut<'_, u8>) {
    ///     let words = shared_array![u32; 32];
    ///     let t = thread::thread_idx_x() as usize;
    ///     words.set(t, x[t]);
    ///     thread::sync_threads();
    ///     for k in 0..4 {
    ///         out.set(32 * k + t, words.cast::<u8>().get(32 * k + t));
    ///     }
    /// }
    /// # let mut out = [0; 128];
    /// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| bytes_of(&[0x04030201; 32], out));
    /// assert_eq!(out[124..], [1, 2, 3, 4]);
    /// ```
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

    /// As many elements of another type, each of which fits into one of this: what `shared_array![U as T; N]` expands to.
    #[doc(hidden)]
    #[inline(always)]
    pub fn of_rooms<U: Pod>(self) -> Shared<U> {
        const {
            assert!(
                size_of::<U>() <= size_of::<T>(),
                "the type behind `as` has no room for the element"
            )
        };
        Shared {
            len: self.len,
            ..self.cast()
        }
    }

    /// The array from its first address that is a multiple of `ALIGN` bytes on, which may be as many as 1024: what bulk
    /// copies and matrix instructions with a swizzle want. It is empty where there is no such address.
    ///
    /// A static array begins at a multiple of 16 bytes, the [`dynamic`] one at a multiple of 128; so a block asks for
    /// `ALIGN` bytes more than it wants to use.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// #[kernel(max_threads = 32)]
    /// pub fn room(out: SliceMut<'_, u32>) {
    ///     let tile = shared_array![u32; 64 + 32].aligned::<128>();
    ///     out.set(0, (tile.len() >= 64).into());
    /// }
    /// # let mut out = [0];
    /// # cuda_std::launch::on_simulator(1, 1, &mut out, room);
    /// assert_eq!(out, [1]);
    /// ```
    #[inline(always)]
    pub fn aligned<const ALIGN: usize>(self) -> Self {
        const { assert!(ALIGN.is_power_of_two() && ALIGN <= 1024 && ALIGN >= align_of::<T>()) };
        let skip = machine::shared_padding(self.ptr, ALIGN);
        Self {
            ptr: machine::shared_offset(self.ptr, skip),
            len: (self.len * size_of::<T>()).saturating_sub(skip) / size_of::<T>(),
            _element: PhantomData,
        }
    }

    /// The array of elements `start .. start + len` of this one.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// Two arrays in one: the second half backwards.
    /// #[kernel(max_threads = 32)]
    /// pub fn halves(x: &[u32], out: SliceMut<'_, u32>) {
    ///     let both = shared_array![u32; 64];
    ///     let (a, b) = (both.subarray(0, 32), both.subarray(32, 32));
    ///     let t = thread::thread_idx_x() as usize;
    ///     a.set(t, x[t]);
    ///     b.set(31 - t, x[32 + t]);
    ///     thread::sync_threads();
    ///     out.set(t, a.get(t));
    ///     out.set(32 + t, b.get(t));
    /// }
    /// # let x: Vec<u32> = (0..64).collect();
    /// # let mut out = [0; 64];
    /// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| halves(&x, out));
    /// assert_eq!((out[31], out[32], out[63]), (31, 63, 32));
    /// ```
    ///
    /// # Panics
    ///
    /// If they are not in bounds.
    #[inline(always)]
    #[track_caller]
    pub fn subarray(self, start: usize, len: usize) -> Self {
        check_bounds!("shared memory", start, len, self.len);
        Self {
            ptr: machine::shared_offset(self.ptr, start * size_of::<T>()),
            len,
            _element: PhantomData,
        }
    }

    /// [`subarray`](Self::subarray) without the check, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `start + len` is at most the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn subarray_unchecked(self, start: usize, len: usize) -> Self {
        if machine::CHECKED {
            return self.subarray(start, len);
        }
        Self {
            ptr: machine::shared_offset(self.ptr, start * size_of::<T>()),
            len,
            _element: PhantomData,
        }
    }

    /// Where `bytes` bytes from byte `offset` on lie. The simulated GPU checks that they are in the array.
    ///
    /// # Safety
    ///
    /// They are.
    #[inline(always)]
    #[track_caller]
    pub(crate) unsafe fn bytes_at(self, offset: usize, bytes: usize) -> SharedPtr {
        if machine::CHECKED {
            check_bounds!("the bytes of shared memory", offset, bytes, self.len * size_of::<T>());
        }
        machine::shared_offset(self.ptr, offset)
    }

    /// Where element 0 lies.
    #[inline(always)]
    pub(crate) fn ptr(self) -> SharedPtr {
        self.ptr
    }

    #[inline(always)]
    #[track_caller]
    fn at(self, index: usize) -> SharedPtr {
        check_bounds!("shared memory", index, self.len);
        machine::shared_offset(self.ptr, index * size_of::<T>())
    }

    /// Elements `index .. index + N`, in as few accesses as the hardware has (16 bytes each).
    ///
    /// # Panics
    ///
    /// If they are not in bounds, or the first is not aligned to the largest power of two that divides the size of
    /// `[T; N]`, 16 bytes at most.
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// Each block turns its groups of four around, and leaves their order within.
    /// #[kernel(max_threads = 32)]
    /// pub fn reverse_groups(x: &[f32], out: SliceMut<'_, f32>) {
    ///     let tile = shared_array![f32; 128];
    ///     let (t, i) = (thread::thread_idx_x() as usize, 4 * thread::index_1d());
    ///     tile.set_vec(4 * t, x.load_vec::<4>(i));
    ///     thread::sync_threads();
    ///     out.set_vec(i, tile.get_vec::<4>(4 * (31 - t)));
    /// }
    /// # #[repr(align(16))] struct Aligned([f32; 128]);
    /// # let (x, mut out) = (Aligned(std::array::from_fn(|i| i as f32)), Aligned([0.0; 128]));
    /// # cuda_std::launch::on_simulator(1, 32, &mut out.0, |out| reverse_groups(&x.0, out));
    /// # let out = out.0;
    /// assert_eq!(out[..4], [124.0, 125.0, 126.0, 127.0]);
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn get_vec<const N: usize>(self, index: usize) -> [T; N] {
        let (at, align) = self.vec_at::<N>(index);
        // SAFETY: `vec_at` checks bounds and alignment in the array that `from_raw_parts` was promised.
        unsafe { machine::load_shared(at, align) }
    }

    /// Sets elements `index .. index + N`, in as few accesses as the hardware has (16 bytes each).
    ///
    /// # Panics
    ///
    /// As [`get_vec`](Self::get_vec).
    #[inline(always)]
    #[track_caller]
    pub fn set_vec<const N: usize>(self, index: usize, values: [T; N]) {
        let (at, align) = self.vec_at::<N>(index);
        // SAFETY: `vec_at` checks bounds and alignment in the array that `from_raw_parts` was promised.
        unsafe { machine::store_shared(at, values, align) }
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
            return self.get_vec(index);
        }
        let at = machine::shared_offset(self.ptr, index * size_of::<T>());
        // SAFETY: the caller's promise.
        unsafe { machine::load_shared(at, vec_align::<T, N>()) }
    }

    /// [`set_vec`](Self::set_vec) without the checks, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// As [`get_vec_unchecked`](Self::get_vec_unchecked).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn set_vec_unchecked<const N: usize>(self, index: usize, values: [T; N]) {
        if machine::CHECKED {
            return self.set_vec(index, values);
        }
        let at = machine::shared_offset(self.ptr, index * size_of::<T>());
        // SAFETY: the caller's promise.
        unsafe { machine::store_shared(at, values, vec_align::<T, N>()) }
    }

    /// Where elements `index .. index + N` lie, checked, and their alignment.
    #[inline(always)]
    #[track_caller]
    fn vec_at<const N: usize>(self, index: usize) -> (SharedPtr, usize) {
        check_bounds!("shared memory", index, N, self.len);
        let (at, align) = (
            machine::shared_offset(self.ptr, index * size_of::<T>()),
            vec_align::<T, N>(),
        );
        assert!(
            machine::shared_is_aligned(at, align),
            "vector access to shared memory is not aligned"
        );
        (at, align)
    }
}

/// The dynamic shared memory of the block (`extern __shared__`): as many `T` as fit into the bytes that the launch
/// asked for.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Turns each block's elements around, for blocks of any size; a launch asks for 4 bytes a thread.
/// #[kernel]
/// pub fn reverse_in_blocks(x: &[u32], out: SliceMut<'_, u32>) {
///     let tile = cuda_std::shared::dynamic::<u32>();
///     let (t, threads) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
///     let i = thread::index_1d();
///     tile.set(t, x[i]);
///     thread::sync_threads();
///     out.set(i, tile.get(threads - 1 - t));
/// }
/// # let x: Vec<u32> = (0..48).collect();
/// # let mut out = [0; 48];
/// # cuda_std::launch::on_simulator(2, 24, &mut out, |out| reverse_in_blocks(&x, out));
/// assert_eq!((out[0], out[23], out[24]), (23, 0, 47));
/// ```
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
