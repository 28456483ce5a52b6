// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory that is free to use, or not yet.

use bytemuck::Pod;
use cuda_std::prelude::*;

/// Shared memory for `LEN` values that no thread of the block accesses any more: what a collective takes.
///
/// [`storage!`](crate::storage!) names a static one. Like that memory, a storage is the block's: every thread holds it,
/// and hands it on through the same calls.
#[must_use]
pub struct Storage<T, const LEN: usize> {
    /// At least `LEN` elements.
    pub(crate) memory: Shared<T>,
}

/// Shared memory that other threads may still read: what a collective gives back. A barrier makes it a [`Storage`]
/// again; whoever has no more use for it drops it.
pub struct Used<T, const LEN: usize> {
    memory: Shared<T>,
}

impl<T: Pod, const LEN: usize> Storage<T, LEN> {
    /// Storage in other shared memory, such as [`dynamic`](cuda_std::shared::dynamic). Of one memory there should be
    /// one storage at a time: the barriers between the uses of several are the caller's business, and without them
    /// values are mixed up (no more than that).
    ///
    /// # Panics
    ///
    /// If the memory has fewer than `LEN` elements.
    #[inline(always)]
    pub fn new(memory: Shared<T>) -> Self {
        assert!(memory.len() >= LEN, "shared memory is too short for the storage");
        Self { memory }
    }

    /// Storage in an array of elements that each have room for a `T`; what [`storage!`](crate::storage!) expands to.
    #[doc(hidden)]
    #[inline(always)]
    pub fn of_units<U: Pod>(memory: Shared<U>) -> Self {
        const { assert!(size_of::<T>() <= size_of::<U>(), "the unit has no room for the element") };
        Self::new(memory.cast())
    }

    /// That of which this thread is done.
    #[inline(always)]
    pub(crate) fn used(self) -> Used<T, LEN> {
        Used { memory: self.memory }
    }
}

impl<T: Pod, const LEN: usize> Used<T, LEN> {
    /// Waits for all threads of the block (`__syncthreads`), after which the memory is free.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it.
    #[inline(always)]
    #[track_caller]
    pub fn sync(self) -> Storage<T, LEN> {
        thread::sync_threads();
        Storage { memory: self.memory }
    }

    /// [`sync`](Self::sync), and whether `predicate` holds in any thread, by the same barrier.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it.
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_block::storage;
    /// use cuda_std::prelude::*;
    ///
    /// /// Halves 32 numbers until their sum is below 100, and says in how many steps.
    /// #[kernel(max_threads = 32)]
    /// pub fn halvings(x: &[f32], out: SliceMut<'_, u32>) {
    ///     let (mut value, mut steps) = (x[thread::index_1d()], 0);
    ///     let mut storage = storage![f32; 1];
    ///     loop {
    ///         let (sum, used) = storage.reduce::<32>(value, 0.0, |a, b| a + b);
    ///         // Thread 0 alone knows the sum; the barrier, which has to come anyway, tells the others.
    ///         let (goes_on, usable) = used.sync_or(sum.is_some_and(|sum| sum >= 100.0));
    ///         storage = usable;
    ///         if !goes_on {
    ///             break;
    ///         }
    ///         (value, steps) = (value / 2.0, steps + 1);
    ///     }
    ///     out.set(thread::index_1d(), steps);
    /// }
    /// # let mut out = [0; 32];
    /// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| halvings(&[10.0; 32], out));
    /// assert_eq!(out, [2; 32]);
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn sync_or(self, predicate: bool) -> (bool, Storage<T, LEN>) {
        let any = thread::sync_threads_or(predicate);
        (any, Storage { memory: self.memory })
    }

    /// [`sync`](Self::sync), and whether `predicate` holds in every thread, by the same barrier.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it.
    #[inline(always)]
    #[track_caller]
    pub fn sync_and(self, predicate: bool) -> (bool, Storage<T, LEN>) {
        let all = thread::sync_threads_and(predicate);
        (all, Storage { memory: self.memory })
    }
}

/// A static [`Storage`]: `storage![f32; 8]` has room for 8 values of type `f32`.
///
/// In a generic function the memory cannot be made of a type parameter. `storage![T as [u64; 4]; 8]` has room for 8
/// values of type `T`, each of at most so many bytes as a `[u64; 4]`.
///
/// Each place in the source is one piece of memory, also in a loop, and in a function that a kernel calls several
/// times: take it once, at the beginning, and hand it on.
///
/// ```
/// use cuda_block::{Storage, storage};
/// use cuda_std::prelude::*;
///
/// fn sum_of_block<T: bytemuck::Pod>(storage: Storage<T, 8>, value: T, zero: T, add: fn(T, T) -> T) -> Option<T> {
///     storage.reduce::<256>(value, zero, add).0
/// }
///
/// #[kernel(T = [f32, f64], max_threads = 256)]
/// pub fn block_sums<T: cuda_std::Float>(x: &[T], out: SliceMut<'_, T>) {
///     let storage = storage![T as u64; 8];
///     let zero = T::from_f64(0.0);
///     if let Some(sum) = sum_of_block(storage, x[thread::index_1d()], zero, |a, b| a + b) {
///         out.set(thread::block_idx_x() as usize, sum);
///     }
/// }
/// # let mut out = [0.0; 2];
/// # cuda_std::launch::on_simulator(2, 256, &mut out, |out| block_sums::<f32>(&[0.5; 512], out));
/// assert_eq!(out, [128.0; 2]);
/// ```
#[macro_export]
macro_rules! storage {
    ($type:ty as $unit:ty; $len:expr) => {
        $crate::Storage::<$type, { $len }>::of_units(::cuda_std::shared_array![$unit; $len])
    };
    ($type:ty; $len:expr) => {
        $crate::Storage::<$type, { $len }>::new(::cuda_std::shared_array![$type; $len])
    };
}
