// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk copies of boxes of a tensor between global and shared memory, by the Tensor Memory Accelerator (TMA).
//!
//! One thread asks for a whole box, of one to five dimensions; the hardware computes the addresses, swizzles, and leaves out
//! what is beyond the tensor. What the tensor is, and how large the box, a *tensor map* says, which the host makes with the
//! driver (`cuTensorMapEncodeTiled`), and which a kernel takes as a parameter: [`TensorMap`] to read, [`TensorMapMut`] to
//! write. Coordinates count elements, the innermost dimension first; a box may begin before the tensor's first
//! element and end beyond its last one. In the innermost dimension it begins at a multiple of 16 bytes: elsewhere a GPU
//! ends in an illegal instruction.
//!
//! * [`TensorMap::load`] brings a box to shared memory; its bytes arrive at an [`Mbarrier`].
//!   [`TensorMap::load_multicast`] brings it to that of several blocks of a [cluster](crate::cluster) at once.
//! * [`TensorMapMut::store`] takes a box from shared memory, and [`TensorMapMut::add`] adds one. Those that a thread has asked for since
//!   the last [`commit`] are a group; the thread waits for groups by [`wait_read`] and [`wait`].
//!
//! The copies access memory by a way of their own, the *async proxy*: they come behind what threads wrote or read
//! there only after a fence, by each of these threads, ahead of the barrier that lets the copying thread go on:
//! [`fence_async`] in shared memory, [`fence_async_global`] in global memory. The other way round, waiting is enough.
//!
//! GPU: compute 9.0 or later. Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor" and
//! "Tensors"; CUDA driver API, "Tensor Map Object Management".
//!
//! # On the simulated GPU
//!
//! A copy is done when it is asked for, so that a [`fence_async`] or a wait that is forgotten shows only in a launch that is
//! checked for races. A map that is none,
//! a box that does not fit into its shared memory, or is not aligned, here or in the tensor, or has another rank or element
//! size than the map: each is an error.
//!
//! # Examples
//!
//! A box of 4 rows of 8 numbers, loaded from one tensor and stored to another:
//!
//! ```
//! use cuda_std::mbarrier::{self, Mbarrier};
//! use cuda_std::prelude::*;
//! use cuda_std::tma::{self, TensorMap, TensorMapMut};
//!
//! /// Copies the box that begins in row `y` and column `x` to the beginning of `to`. For blocks of one thread.
//! fn copy_box(from: TensorMap<'_, f32>, x: i32, y: i32, to: TensorMapMut<'_, f32>) {
//!     let tile = cuda_std::shared::dynamic::<f32>().aligned::<128>();
//!     let words = shared_array![u64; 1];
//!     // SAFETY: the word is a barrier only, with one arrival for its one phase. The boxes of both maps have 4 × 8
//!     // numbers, for which there is room, and nobody touches them before the copies are done.
//!     unsafe {
//!         let loaded = Mbarrier::at(words, 0);
//!         loaded.init(1);
//!         mbarrier::fence_init();
//!         loaded.arrive_expect_tx(4 * 8 * 4);
//!         from.load(tile, [x, y], loaded);
//!         loaded.wait(0);
//!         to.store([0, 0], tile);
//!     }
//!     tma::commit();
//!     tma::wait::<0>();
//! }
//! # use cuda_std::tma::{RawTensorMap, Swizzle, TensorMapLayout};
//! # #[repr(align(16))] struct Aligned([f32; 60]);
//! # let from = Aligned(std::array::from_fn(|i| i as f32));
//! # let layout = |columns: u64, rows: u64| TensorMapLayout {
//! #     element_bytes: 4, rank: 2, dims: [columns, rows, 1, 1, 1], strides: [columns * 4, 0, 0, 0],
//! #     box_dims: [8, 4, 1, 1, 1], steps: [1; 5], swizzle: Swizzle::None,
//! # };
//! # let from = RawTensorMap::simulated(from.0.as_ptr().expose_provenance(), &layout(12, 5));
//! # let mut out = Box::new(Aligned([0.0; 60]));
//! # cuda_std::launch::on_simulator(1, 1, &mut out.0[..32], |out| {
//! #     let to = RawTensorMap::simulated(out.as_ptr().expose_provenance(), &layout(8, 4));
//! #     // SAFETY: the tensors are the arrays above, which live until the launch is over.
//! #     let (from, to) = unsafe { (TensorMap::from_address(&from), TensorMapMut::from_address(&to)) };
//! #     copy_box(from, 8, 2, to);
//! # });
//! # let out = &out.0[..32];
//! // Rows 2, 3, 4 of a tensor of 12 columns and 5 rows, from column 8 on; the rest of the box is beyond it.
//! assert_eq!(out[..8], [32.0, 33.0, 34.0, 35.0, 0.0, 0.0, 0.0, 0.0]);
//! assert_eq!(out[24..], [0.0; 8]);
//! ```

use core::marker::PhantomData;

use bytemuck::Pod;

use crate::machine::{self, Place, TensorMapAddress};
use crate::mbarrier::Mbarrier;
use crate::param::{NoTail, Param};
use crate::shared::Shared;

/// How the 16-byte pieces of a box are permuted in shared memory, so that neither its rows nor its columns fall on the same
/// banks.
///
/// The address of a byte has some of its bits from 4 on exclusive-ored with as many from 7 on: the bits of the address, not
/// those of the offset in the box. So a box lies as if it began at a multiple of what [`align`](Self::align) says, and
/// must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// As the coordinates say: row behind row.
    None,
    /// Rows of 32 bytes: bit 4 with bit 7.
    B32,
    /// Rows of 64 bytes: bits 4 and 5 with bits 7 and 8.
    B64,
    /// Rows of 128 bytes: bits 4 to 6 with bits 7 to 9.
    B128,
}

impl Swizzle {
    /// How many bytes the innermost dimension of a box has: all that this number allows where nothing is permuted.
    #[inline(always)]
    pub const fn span(self) -> u32 {
        match self {
            Swizzle::None => u32::MAX,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    /// What the address of a box in shared memory is a multiple of: the pattern's length, and 128 at least.
    #[inline(always)]
    pub const fn align(self) -> usize {
        match self {
            Swizzle::None => 128,
            Swizzle::B32 => 256,
            Swizzle::B64 => 512,
            Swizzle::B128 => 1024,
        }
    }

    /// Where in an aligned box the byte lies that would be at `offset` without swizzle. It is its own inverse.
    ///
    /// ```
    /// use cuda_std::tma::Swizzle;
    ///
    /// // Row 3 of 128 bytes: its first piece of 16 bytes is the fourth.
    /// assert_eq!(Swizzle::B128.place(3 * 128), 3 * 128 + 3 * 16);
    /// assert_eq!(Swizzle::B128.place(3 * 128 + 3 * 16 + 5), 3 * 128 + 5);
    /// assert_eq!(Swizzle::B32.place(3 * 128), 3 * 128 + 16);
    /// assert_eq!(Swizzle::None.place(3 * 128), 3 * 128);
    /// ```
    #[inline(always)]
    pub const fn place(self, offset: u32) -> u32 {
        let mask = match self {
            Swizzle::None => 0,
            Swizzle::B32 => 0x10,
            Swizzle::B64 => 0x30,
            Swizzle::B128 => 0x70,
        };
        offset ^ (offset >> 3 & mask)
    }
}

/// A tensor map as it crosses the launch: what `cuTensorMapEncodeTiled` writes, or, for the simulated GPU,
/// [`simulated`](Self::simulated).
///
/// The driver wants it at a multiple of 64 bytes, and so do the instructions. rustc fails on a parameter of a PTX entry
/// that wants more than 16: on the GPU the type does not say so, and who writes the PTX does.
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
#[cfg_attr(target_arch = "nvptx64", repr(C))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawTensorMap(pub(crate) [u64; 16]);

impl RawTensorMap {
    /// The map that these words are.
    pub const fn from_words(words: [u64; 16]) -> Self {
        Self(words)
    }

    /// The words.
    pub const fn words(&self) -> &[u64; 16] {
        &self.0
    }
}

/// What a tensor map says, for the simulated GPU.
///
/// The fields are `cuTensorMapEncodeTiled`'s, and what they may be is what it takes; but with a swizzle it takes shorter boxes
/// as well, whose place in shared memory no document tells. Of dimensions beyond the rank nothing counts.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMapLayout {
    /// The size of an element: 1, 2, 4 or 8 bytes.
    pub element_bytes: u32,
    /// The number of dimensions, 1 to 5.
    pub rank: u32,
    /// The tensor's extent in each, in elements, the innermost first: 1 to 2^32.
    pub dims: [u64; 5],
    /// How far the elements of dimensions 1, 2, … are from one another, in bytes: a multiple of 16 below 2^40. Those of
    /// dimension 0 are neighbours.
    pub strides: [u64; 4],
    /// The box's extent in each dimension: 1 to 256. The innermost has a multiple of 16 bytes, and exactly as many as
    /// [`Swizzle::span`] says, if there is a swizzle.
    pub box_dims: [u32; 5],
    /// From one element of a box to the next in each dimension of the tensor: 1 to 8, and 1 in the innermost. A box then has as many
    /// elements as there are such within its extent.
    pub steps: [u32; 5],
    /// How a box lies in shared memory.
    pub swizzle: Swizzle,
}

/// A tensor that a kernel reads by bulk copies; see the [module](self).
///
/// It is the address of the map, which is the kernel's parameter; so there is one register for it and not sixteen.
pub struct TensorMap<'a, T> {
    address: TensorMapAddress,
    _memory: PhantomData<&'a [T]>,
}

impl<T> Clone for TensorMap<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TensorMap<'_, T> {}

impl<T: Pod> TensorMap<'_, T> {
    /// The tensor whose map is at `address`: in the parameters of the kernel, or in constant memory.
    ///
    /// # Safety
    ///
    /// There is a map of elements of the size of `T` for as long as this is used, as is the tensor's memory, which is aligned
    /// for `T`, and which nothing writes meanwhile.
    #[inline(always)]
    pub unsafe fn from_address(address: TensorMapAddress) -> Self {
        Self {
            address,
            _memory: PhantomData,
        }
    }

    /// Brings the map to where copies read it from, so that the first copy does not wait for it.
    #[inline(always)]
    #[track_caller]
    pub fn prefetch(self) {
        machine::tma_prefetch(self.address);
    }

    /// Copies the box at `coordinates` to the beginning of `to`, and has its bytes arrive at `barrier`. Elements beyond the
    /// tensor are zeros, and count among the bytes.
    ///
    /// It returns at once. One thread calls it, for the whole box.
    ///
    /// # Safety
    ///
    /// * The map's rank is `D`. `to` begins at a multiple of [`Swizzle::align`], and has at least the elements of the box.
    /// * The barrier is initialised, and told ([`Mbarrier::arrive_expect_tx`]) of the box's bytes in its current phase.
    /// * Nobody accesses `to` from when this is called until that phase is complete, and the block does not end before.
    /// * Ordinary accesses to `to` from before are ordered ahead of this: by [`fence_async`] of each thread, and a barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load<const D: usize>(self, to: Shared<T>, coordinates: [i32; D], barrier: Mbarrier) {
        const { assert!(D >= 1 && D <= 5, "a tensor has one to five dimensions") };
        let room = to.len() * size_of::<T>();
        // SAFETY: the caller's promise.
        unsafe { machine::tma_load::<T, D>(self.address, to.ptr(), room, coordinates, barrier.ptr()) }
    }

    /// [`load`](Self::load) to several blocks of the [cluster](crate::cluster) at once (`.multicast::cluster`): those whose
    /// bits are set in `blocks`, bit 0 for rank 0. In each of them the box comes to the place of `to` in its shared memory, and
    /// its bytes arrive at the barrier that is at the place of `barrier`. Global memory is read once.
    ///
    /// ```
    /// use cuda_std::cluster;
    /// use cuda_std::mbarrier::{self, Mbarrier};
    /// use cuda_std::prelude::*;
    /// use cuda_std::tma::TensorMap;
    ///
    /// /// One block of a cluster of two loads 32 numbers for both, from the tensor's first on. For blocks of 32 threads.
    /// fn both_have_them(from: TensorMap<'_, u32>, out: SliceMut<'_, u32>) {
    ///     let tile = cuda_std::shared::dynamic::<u32>().aligned::<128>();
    ///     let words = shared_array![u64; 1];
    ///     let t = thread::thread_idx_x() as usize;
    ///     // SAFETY: the word is a barrier only, with one arrival for its one phase.
    ///     let loaded = unsafe { Mbarrier::at(words, 0) };
    ///     if t == 0 {
    ///         loaded.init(1);
    ///         mbarrier::fence_init();
    ///         loaded.arrive_expect_tx(32 * 4);
    ///     }
    ///     // Both barriers know of the bytes.
    ///     cluster::sync();
    ///     if t == 0 && cluster::block_rank() == 0 {
    ///         // SAFETY: the map's boxes have 32 numbers, for which there is room in both blocks, and nobody touches them
    ///         // before they are there.
    ///         unsafe { from.load_multicast(tile, [0], loaded, 0b11) };
    ///     }
    ///     loaded.wait(0);
    ///     out.set(thread::index_1d(), tile.get(t));
    ///     cluster::sync();
    /// }
    /// # use cuda_std::tma::{RawTensorMap, Swizzle, TensorMapLayout};
    /// # #[repr(align(16))] struct Aligned([u32; 32]);
    /// # let numbers = Aligned(std::array::from_fn(|i| i as u32));
    /// # let layout = TensorMapLayout {
    /// #     element_bytes: 4, rank: 1, dims: [32, 1, 1, 1, 1], strides: [0; 4], box_dims: [32, 1, 1, 1, 1],
    /// #     steps: [1; 5], swizzle: Swizzle::None,
    /// # };
    /// # let map = RawTensorMap::simulated(numbers.0.as_ptr().expose_provenance(), &layout);
    /// # let mut out = [0; 64];
    /// # cuda_std::launch::on_simulator_in_clusters(2, 2, 32, &mut out, |out| {
    /// #     // SAFETY: the tensor is the array above, which lives until the launch is over.
    /// #     both_have_them(unsafe { TensorMap::from_address(&map) }, out);
    /// # });
    /// assert_eq!((out[1], out[33]), (1, 1));
    /// ```
    ///
    /// # Safety
    ///
    /// What [`load`](Self::load) asks of the block's memory and barrier holds of those of all these blocks, which the cluster
    /// has: the barriers are initialised and told of the bytes, and a [`cluster::sync`](crate::cluster::sync), or what orders
    /// the cluster's threads otherwise, stands between that and this. None of them ends before its phase is complete.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load_multicast<const D: usize>(
        self,
        to: Shared<T>,
        coordinates: [i32; D],
        barrier: Mbarrier,
        blocks: u16,
    ) {
        const { assert!(D >= 1 && D <= 5, "a tensor has one to five dimensions") };
        let room = to.len() * size_of::<T>();
        // SAFETY: the caller's promise.
        unsafe {
            machine::tma_load_multicast::<T, D>(self.address, to.ptr(), room, coordinates, barrier.ptr(), blocks);
        }
    }
}

/// A tensor that a kernel writes by bulk copies; see the [module](self).
pub struct TensorMapMut<'a, T> {
    address: TensorMapAddress,
    _memory: PhantomData<&'a mut [T]>,
}

impl<T> Clone for TensorMapMut<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TensorMapMut<'_, T> {}

impl<'a, T: Pod> TensorMapMut<'a, T> {
    /// The tensor whose map is at `address`: in the parameters of the kernel, or in constant memory.
    ///
    /// # Safety
    ///
    /// There is a map of elements of the size of `T` for as long as this is used, as is the tensor's memory, which is aligned
    /// for `T`, and which is accessed meanwhile by the copies of this only.
    #[inline(always)]
    pub unsafe fn from_address(address: TensorMapAddress) -> Self {
        Self {
            address,
            _memory: PhantomData,
        }
    }

    /// As [`TensorMap::prefetch`].
    #[inline(always)]
    #[track_caller]
    pub fn prefetch(self) {
        machine::tma_prefetch(self.address);
    }

    /// The same tensor, to be read: what a kernel adds to before it writes it.
    ///
    /// # Safety
    ///
    /// No element is written by a copy before each that reads it has been waited for, nor read after.
    #[inline(always)]
    pub unsafe fn reading(self) -> TensorMap<'a, T> {
        TensorMap {
            address: self.address,
            _memory: PhantomData,
        }
    }

    /// Copies the box that is at the beginning of `from` to `coordinates`. Elements beyond the tensor are left out.
    ///
    /// It returns at once; the copy belongs to the group that [`commit`] ends. One thread calls it, for the whole box.
    /// Where boxes of several stores overlap, each element is that of one of them.
    ///
    /// # Safety
    ///
    /// * The map's rank is `D`. `from` begins at a multiple of [`Swizzle::align`], and has at least the elements of the box.
    /// * What threads wrote to `from` is ordered ahead of this: by [`fence_async`] of each that wrote, and a barrier.
    /// * Nobody writes to `from` before the copy has been waited for by [`wait_read`] or [`wait`], and the block does not
    ///   end before that either.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store<const D: usize>(self, coordinates: [i32; D], from: Shared<T>) {
        const { assert!(D >= 1 && D <= 5, "a tensor has one to five dimensions") };
        let room = from.len() * size_of::<T>();
        // SAFETY: the caller's promise.
        unsafe { machine::tma_store::<T, D>(self.address, from.ptr(), room, coordinates) }
    }
}

impl TensorMapMut<'_, f32> {
    /// As [`store`](Self::store), but the elements are added to those of the tensor (`cp.reduce.async.bulk.tensor`): each by one
    /// atomic addition, which is rounded once.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use cuda_std::tma::{self, TensorMapMut};
    ///
    /// /// Adds 1, 2, 3 and 4 to the tensor, from `x` on. For blocks of one thread.
    /// fn add_box(to: TensorMapMut<'_, f32>, x: i32) {
    ///     let tile = cuda_std::shared::dynamic::<f32>().aligned::<128>();
    ///     tile.set_vec(0, [1.0, 2.0, 3.0, 4.0]);
    ///     tma::fence_async();
    ///     // SAFETY: the boxes have as many numbers, and nobody writes to them before they have been read.
    ///     unsafe { to.add([x], tile) };
    ///     tma::commit();
    ///     tma::wait::<0>();
    /// }
    /// # use cuda_std::tma::{RawTensorMap, Swizzle, TensorMapLayout};
    /// # #[repr(align(16))] struct Aligned([f32; 8]);
    /// # let layout = TensorMapLayout {
    /// #     element_bytes: 4, rank: 1, dims: [6, 1, 1, 1, 1], strides: [0; 4], box_dims: [4, 1, 1, 1, 1], steps: [1; 5],
    /// #     swizzle: Swizzle::None,
    /// # };
    /// # let mut out = Box::new(Aligned([0.5; 8]));
    /// # cuda_std::launch::on_simulator(3, 1, &mut out.0[..], |out| {
    /// #     let to = RawTensorMap::simulated(out.as_ptr().expose_provenance(), &layout);
    /// #     // SAFETY: the tensor is the array above, which lives until the launch is over.
    /// #     add_box(unsafe { TensorMapMut::from_address(&to) }, 4);
    /// # });
    /// # let out = &out.0;
    /// // By three blocks, from number 4 of 6 on.
    /// assert_eq!(out[3..], [0.5, 3.5, 6.5, 0.5, 0.5]);
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`store`](Self::store).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn add<const D: usize>(self, coordinates: [i32; D], from: Shared<f32>) {
        const { assert!(D >= 1 && D <= 5, "a tensor has one to five dimensions") };
        let room = from.len() * size_of::<f32>();
        // SAFETY: the caller's promise.
        unsafe { machine::tma_add::<D>(self.address, from.ptr(), room, coordinates) }
    }
}

/// Ends a group: the stores and additions that the thread has asked for since the last call (`cp.async.bulk.commit_group`).
#[inline(always)]
pub fn commit() {
    machine::tma_commit();
}

/// Waits until all groups of the thread's but the newest `N` have read their shared memory, which can be written again.
#[inline(always)]
pub fn wait_read<const N: u32>() {
    machine::tma_wait_read::<N>();
}

/// Waits until all groups of the thread's but the newest `N` are done: their elements are written.
#[inline(always)]
pub fn wait<const N: u32>() {
    machine::tma_wait::<N>();
}

/// Lets copies and matrix instructions that come behind this see what the thread wrote to shared memory, and fill what it has
/// read there (`fence.proxy.async`).
#[inline(always)]
pub fn fence_async() {
    machine::fence_async();
}

/// Lets copies that come behind this find in global memory what the thread wrote there, and what it has seen others to be done
/// with, threads or copies of another block, such as by an [acquiring load](crate::atomic::Atomic::load_acquire)
/// (`fence.proxy.async.global`).
#[inline(always)]
pub fn fence_async_global() {
    machine::fence_async_global();
}

macro_rules! params {
    ($($name:ident)*) => {$(
        // SAFETY: a structure of 128 bytes.
        unsafe impl<T: Pod> Param for $name<'static, T> {
            type Head = RawTensorMap;
            type Tail = NoTail;
            type At<'launch> = $name<'launch, T>;
            const IS_TENSOR_MAP: bool = true;
            const HAS_PLACE: bool = true;

            #[inline(always)]
            unsafe fn from_abi<'launch>(head: &'launch RawTensorMap, _: NoTail, place: Place) -> $name<'launch, T> {
                // SAFETY: the caller's promise: there is the map of a parameter of this type.
                unsafe { $name::from_address(machine::tensor_map_at(head, place)) }
            }
        }
    )*};
}

params! { TensorMap TensorMapMut }
