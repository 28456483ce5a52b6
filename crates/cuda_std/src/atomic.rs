// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomic operations on global and shared memory.
//!
//! [`SliceMut::atomic`](crate::SliceMut::atomic), [`Shared::atomic`](crate::shared::Shared::atomic) and
//! [`DistributedShared::atomic`](crate::cluster::DistributedShared::atomic) give an [`Atomic`]. Read-modify-write operations are relaxed: they order nothing but the element itself. Order between
//! elements comes from [`fence`](crate::fence), [`load_acquire`](Atomic::load_acquire) and
//! [`store_release`](Atomic::store_release).

use core::marker::PhantomData;

use crate::machine::{self, AtomicInteger, AtomicValue, ClusterPtr, Operation, SharedPtr};

pub use crate::machine::{Block, Cluster, Device, DistributedShared, Global, Scope, Shared, Space, System};

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
/// # let x: Vec<f32> = (-10..54).map(|i| i as f32).collect();
/// # let mut count = [0];
/// # cuda_std::launch::on_simulator(2, 32, &mut count, |count| count_negative(&x, count));
/// assert_eq!(count, [10]);
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

impl<T> Atomic<'_, T, DistributedShared, Cluster> {
    /// # Safety
    ///
    /// `ptr` is an aligned element of the shared memory of a block of the cluster.
    #[inline(always)]
    pub(crate) unsafe fn from_cluster(ptr: ClusterPtr) -> Self {
        Self {
            ptr: machine::cluster_element::<T>(ptr),
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

// In what follows each call hands on the promise of `from_ptr`, `from_shared` and `from_cluster`: an aligned element of `M`,
// which lives: global memory for the lifetime, shared memory as long as the block, and `M::address` refuses another block's.
// The block of the cluster that has it may have ended: then the access fails the launch, and does nothing else.
impl<T, M: Space, S: Scope> Atomic<'_, T, M, S> {
    #[inline(always)]
    #[track_caller]
    fn address(self, operation: Operation) -> *mut T {
        M::address(self.ptr, operation, S::LEVEL)
    }
}

impl<T: AtomicValue, M: Space, S: Scope> Atomic<'_, T, M, S> {
    /// Adds `value`, wrapping around for integers, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_add(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::add::<M, S>(self.address(Operation::Update), value) }
    }

    /// Replaces the element by the smaller of it and `value`, and gives back the element as it was. A NaN never
    /// replaces a number.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// The smallest and the greatest element.
    /// #[kernel]
    /// pub fn extent(x: &[f32], out: SliceMut<'_, f32>) {
    ///     let i = thread::index_1d();
    ///     if i < x.len() {
    ///         out.atomic(0).fetch_min(x[i]);
    ///         out.atomic(1).fetch_max(x[i]);
    ///     }
    /// }
    /// # let x: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32 - 20.0).collect();
    /// # let mut out = [f32::INFINITY, f32::NEG_INFINITY];
    /// # cuda_std::launch::on_simulator(2, 32, &mut out, |out| extent(&x, out));
    /// assert_eq!(out, [-20.0, 43.0]);
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn fetch_min(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::min::<M, S>(self.address(Operation::Update), value) }
    }

    /// Replaces the element by the larger of it and `value`, and gives back the element as it was. A NaN never
    /// replaces a number.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_max(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::max::<M, S>(self.address(Operation::Update), value) }
    }

    /// Sets the element, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn exchange(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::exchange::<M, S>(self.address(Operation::Update), value) }
    }

    /// Sets the element to `new` if its bits are those of `current`, and gives back the element as it was.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// Multiplies all elements together, which no single instruction does.
    /// #[kernel]
    /// pub fn product(x: &[f64], out: SliceMut<'_, f64>) {
    ///     let (cell, factor) = (out.atomic(0), x[thread::index_1d()]);
    ///     let mut old = cell.load();
    ///     loop {
    ///         let seen = cell.compare_exchange(old, old * factor);
    ///         if seen.to_bits() == old.to_bits() {
    ///             break;
    ///         }
    ///         old = seen;
    ///     }
    /// }
    /// # let mut out = [1.0];
    /// # cuda_std::launch::on_simulator(2, 5, &mut out, |out| product(&[2.0; 10], out));
    /// assert_eq!(out, [1024.0]);
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(self, current: T, new: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::compare_exchange::<M, S>(self.address(Operation::Update), current, new) }
    }

    /// The element.
    #[inline(always)]
    #[track_caller]
    pub fn load(self) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::load::<M, S>(self.address(Operation::Load)) }
    }

    /// Sets the element.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, value: T) {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::store::<M, S>(self.address(Operation::Store), value) }
    }

    /// The element; what the thread that [stored](Self::store_release) it wrote before is visible from here on.
    #[inline(always)]
    #[track_caller]
    pub fn load_acquire(self) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::load_acquire::<M, S>(self.address(Operation::LoadAcquire)) }
    }

    /// Sets the element, after all that this thread wrote before.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// Block 1 waits for what block 0 has computed. A block may wait for one of lower number: that has started.
    /// #[kernel]
    /// pub fn hand_on(value: u32, memory: SliceMut<'_, u32>) {
    ///     let ready = memory.atomic(0);
    ///     if thread::block_idx_x() == 0 {
    ///         memory.set(1, value);
    ///         ready.store_release(1);
    ///     } else {
    ///         while ready.load_acquire() == 0 {
    ///             thread::nanosleep(100);
    ///         }
    ///         memory.set(2, memory.get(1) + 1);
    ///     }
    /// }
    /// # let mut memory = [0; 3];
    /// # cuda_std::launch::on_simulator(2, 1, &mut memory, |memory| hand_on(41, memory));
    /// assert_eq!(memory, [1, 41, 42]);
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn store_release(self, value: T) {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::store_release::<M, S>(self.address(Operation::StoreRelease), value) }
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
        unsafe { T::add_ordered::<M, S>(self.address(Operation::UpdateOrdered), value) }
    }

    /// Replaces the element by its bitwise and with `value`, and gives back the element as it was.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// Strikes the multiples of each number from 2 on from a set of the numbers below 32; what is left is prime.
    /// #[kernel]
    /// pub fn sieve(set: SliceMut<'_, u32>) {
    ///     let step = thread::thread_idx_x() + 2;
    ///     let mut multiple = 2 * step;
    ///     while multiple < 32 {
    ///         set.atomic(0).fetch_and(!(1 << multiple));
    ///         multiple += step;
    ///     }
    /// }
    /// # let mut set = [!3];
    /// # cuda_std::launch::on_simulator(1, 16, &mut set, sieve);
    /// let primes: Vec<u32> = (0..32).filter(|i| set[0] >> i & 1 == 1).collect();
    /// assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]);
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn fetch_and(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::and::<M, S>(self.address(Operation::Update), value) }
    }

    /// Replaces the element by its bitwise or with `value`, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_or(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::or::<M, S>(self.address(Operation::Update), value) }
    }

    /// Replaces the element by its bitwise exclusive or with `value`, and gives back the element as it was.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_xor(self, value: T) -> T {
        // SAFETY: a live, aligned element of `M`.
        unsafe { T::xor::<M, S>(self.address(Operation::Update), value) }
    }
}
