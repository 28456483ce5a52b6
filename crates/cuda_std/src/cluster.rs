// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thread block clusters: blocks that run at the same time, meet at a barrier of their own, and have each other's shared
//! memory (`cooperative_groups::cluster_group`).
//!
//! A kernel says how many blocks its clusters have: [`#[kernel(cluster = 8)]`](macro@crate::kernel). A launch of it has a
//! whole number of clusters along each dimension of its grid. In a kernel without, each block is a cluster of its own.
//!
//! The blocks of a cluster have *ranks*, from 0 on. What lies in the shared memory of one of them, the others reach by
//! [`Shared::map_shared_rank`], which gives a [`DistributedShared`], and [`Mbarrier::map_shared_rank`]. Together these
//! memories are the *distributed shared memory* of the cluster. Copies bring boxes of a tensor to several blocks at once:
//! [`TensorMap::load_multicast`](crate::tma::TensorMap::load_multicast).
//!
//! GPU: compute 9.0 or later. Source: PTX ISA, "Parallel Synchronization and Communication Instructions: barrier.cluster",
//! "Data Movement and Conversion Instructions: mapa", "Special Registers: %cluster_ctarank"; CUDA C++ programming guide,
//! "Distributed Shared Memory".
//!
//! # A block's memory is there while the block runs
//!
//! * Ahead of the first access to another block's memory stands a [`sync`]: that block may not have begun, and nobody has
//!   written there.
//! * Behind the last one stands another: a block that has nothing more to do must not end before the others are done with its
//!   memory. On a GPU an access to the memory of a block that has ended fails the launch.
//!
//! The simulated GPU checks both: the second at each access, and where it looks for races whatever the order in which the
//! blocks happen to run.
//!
//! # Examples
//!
//! A histogram with more bins than one block has room for: each block of a cluster has some of them, and all blocks count in
//! all of them.
//!
//! ```
//! use cuda_std::cluster;
//! use cuda_std::prelude::*;
//!
//! /// The blocks of a cluster, the bins that each of them has, and its threads.
//! const BLOCKS: u32 = 4;
//! const BINS: usize = 256;
//! const THREADS: u32 = 256;
//!
//! /// How often each number below 1024 occurs.
//! #[kernel(cluster = BLOCKS, max_threads = THREADS)]
//! pub fn histogram(x: &[u32], counts: SliceMut<'_, u32>) {
//!     let bins = shared_array![u32; BINS];
//!     let t = thread::thread_idx_x() as usize;
//!     bins.set(t, 0);
//!     // All bins are there, and 0.
//!     cluster::sync();
//!     let mut i = thread::index_1d();
//!     while i < x.len() {
//!         let bin = x[i] as usize;
//!         bins.map_shared_rank((bin / BINS) as u32).atomic(bin % BINS).fetch_add(1);
//!         i += (thread::grid_dim_x() * THREADS) as usize;
//!     }
//!     // All have counted: each block reads its own bins, and nobody comes to them any more.
//!     cluster::sync();
//!     counts.atomic(BINS * cluster::block_rank() as usize + t).fetch_add(bins.get(t));
//! }
//! # let x: Vec<u32> = (0..5000).map(|i| i * i % 1000).collect();
//! # let mut counts = vec![0; 1024];
//! # cuda_std::launch::on_simulator_in_clusters(8, BLOCKS, THREADS, &mut counts, |counts| histogram(&x, counts));
//! for (number, &count) in (0..).zip(&counts) {
//!     assert_eq!(count as usize, x.iter().filter(|&&x| x == number).count());
//! }
//! ```

use core::marker::PhantomData;

use bytemuck::Pod;

use crate::atomic::{self, Atomic};
use crate::machine::{self, ClusterPtr, Dim3, check_bounds, vec_align};
use crate::mbarrier::Mbarrier;
use crate::shared::Shared;

/// The extents of the cluster, in blocks.
#[inline(always)]
pub fn dim() -> Dim3 {
    machine::cluster_dim()
}

/// The index of this block in its cluster.
#[inline(always)]
pub fn block_idx() -> Dim3 {
    machine::cluster_block_idx()
}

/// The number of blocks in the cluster.
#[inline(always)]
pub fn num_blocks() -> u32 {
    machine::cluster_blocks()
}

/// The rank of this block in its cluster: its linear index there, x fastest.
#[inline(always)]
pub fn block_rank() -> u32 {
    machine::cluster_rank()
}

/// Waits until all threads of all blocks of the cluster have come here (`cluster.sync()`). What they wrote before, to global
/// memory and to any block's shared memory, is then visible to all of them.
///
/// # Convergence
///
/// All threads of the cluster; those of a warp may come one by one. The simulated GPU says where one does not come: because
/// it has returned, or has come to another call. A GPU waits for ever, or, for threads that have returned, not at all.
///
/// ```
/// use cuda_std::cluster;
/// use cuda_std::prelude::*;
///
/// /// The sum of the ranks that the threads of a cluster of two blocks read from the other block.
/// #[kernel(cluster = 2, max_threads = 32)]
/// pub fn neighbours(out: SliceMut<'_, u32>) {
///     let word = shared_array![u32; 1];
///     if thread::thread_idx_x() == 0 {
///         word.set(0, 10 + cluster::block_rank());
///     }
///     cluster::sync();
///     let other = word.map_shared_rank(1 - cluster::block_rank()).get(0);
///     out.set(thread::index_1d(), other);
///     // No block ends before the other has read its word.
///     cluster::sync();
/// }
/// # let mut out = [0; 64];
/// # cuda_std::launch::on_simulator_in_clusters(2, 2, 32, &mut out, neighbours);
/// assert_eq!((out[0], out[63]), (11, 10));
/// ```
#[inline(always)]
#[track_caller]
pub fn sync() {
    machine::sync_cluster();
}

/// Waits until all threads of all blocks of the cluster have come here, as [`sync`] does, but orders no memory: that takes a
/// fence of the whole GPU. Barriers that were [initialised](Mbarrier::init) before are there for all of them, where
/// [`fence_init`](crate::mbarrier::fence_init) and, in the block, a [`sync_threads`](crate::thread::sync_threads) came behind that:
/// it is what a kernel begins with whose blocks arrive at each other's barriers, or have copies made to each other's memory.
///
/// # Convergence
///
/// As [`sync`].
///
/// ```
/// use cuda_std::cluster;
/// use cuda_std::mbarrier::{self, Mbarrier};
/// use cuda_std::prelude::*;
///
/// /// Each block of a cluster of two waits for the other one's arrival.
/// #[kernel(cluster = 2, max_threads = 32)]
/// pub fn meet(out: SliceMut<'_, u32>) {
///     let words = shared_array![u64; 1];
///     // SAFETY: the word is a barrier only, with one arrival for its one phase.
///     let arrived = unsafe { Mbarrier::at(words, 0) };
///     if thread::thread_idx_x() == 0 {
///         arrived.init(1);
///         mbarrier::fence_init();
///     }
///     thread::sync_threads();
///     cluster::sync_started();
///     if thread::thread_idx_x() == 0 {
///         arrived.map_shared_rank(1 - cluster::block_rank()).arrive();
///     }
///     arrived.wait_cluster(0);
///     out.set(thread::index_1d(), 1);
/// }
/// # let mut out = [0; 64];
/// # cuda_std::launch::on_simulator_in_clusters(2, 2, 32, &mut out, meet);
/// assert_eq!(out, [1; 64]);
/// ```
#[inline(always)]
#[track_caller]
pub fn sync_started() {
    machine::sync_cluster_started();
}

/// Panics unless the cluster has a block of that rank.
#[inline(always)]
#[track_caller]
fn check_rank(rank: u32) {
    check_bounds!("the blocks of the cluster", rank as usize, num_blocks() as usize);
}

impl<T: Pod> Shared<T> {
    /// The same array in the shared memory of the block of this rank in the cluster (`cluster.map_shared_rank`): all blocks
    /// have their arrays at the same addresses.
    ///
    /// # Panics
    ///
    /// If the cluster has no block of that rank.
    #[inline(always)]
    #[track_caller]
    pub fn map_shared_rank(self, rank: u32) -> DistributedShared<T> {
        check_rank(rank);
        DistributedShared {
            ptr: machine::map_shared(self.ptr(), rank),
            len: self.len(),
            _element: PhantomData,
        }
    }
}

/// An array in the shared memory of a block of the cluster, which the threads of all its blocks have. See the
/// [module](self) for when it is there.
///
/// It is slower than the block's own shared memory, and faster than global memory. Threads that take turns with those of
/// other blocks do so by a [`sync`], by an [`Mbarrier`] or by [atomics](Self::atomic).
///
/// On the simulated GPU an access to the array of a block that has ended is a fault.
pub struct DistributedShared<T> {
    ptr: ClusterPtr,
    len: usize,
    _element: PhantomData<*mut T>,
}

impl<T> Clone for DistributedShared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DistributedShared<T> {}

impl<T: Pod> DistributedShared<T> {
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
        // SAFETY: `at` checks the bounds of an array that is in the memory of each block of the cluster.
        unsafe { machine::load_cluster(self.at(index), align_of::<T>()) }
    }

    /// Sets element `index` to `value`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn set(self, index: usize, value: T) {
        // SAFETY: as in `get`.
        unsafe { machine::store_cluster(self.at(index), value, align_of::<T>()) }
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
        let (at, align) = self.vec_at::<N>(index);
        // SAFETY: `vec_at` checks bounds and alignment in an array that is in the memory of each block of the cluster.
        unsafe { machine::load_cluster(at, align) }
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
        // SAFETY: as in `get_vec`.
        unsafe { machine::store_cluster(at, values, align) }
    }

    /// Element `index` for atomic access, among the threads of the cluster.
    ///
    /// The block that has the array counts there in the same way, by its own rank: [`Shared::atomic`] is atomic among the
    /// threads of one block alone.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn atomic(self, index: usize) -> Atomic<'static, T, atomic::DistributedShared, atomic::Cluster> {
        // SAFETY: `at` checks the bounds of an array that is in the memory of each block of the cluster. An access to that
        // of a block that has ended fails the launch, and does nothing else.
        unsafe { Atomic::from_cluster(self.at(index)) }
    }

    #[inline(always)]
    #[track_caller]
    fn at(self, index: usize) -> ClusterPtr {
        check_bounds!("distributed shared memory", index, self.len);
        machine::cluster_offset(self.ptr, index * size_of::<T>())
    }

    /// Where elements `index .. index + N` lie, checked, and their alignment.
    #[inline(always)]
    #[track_caller]
    fn vec_at<const N: usize>(self, index: usize) -> (ClusterPtr, usize) {
        check_bounds!("distributed shared memory", index, N, self.len);
        let (at, align) = (
            machine::cluster_offset(self.ptr, index * size_of::<T>()),
            vec_align::<T, N>(),
        );
        assert!(
            machine::cluster_is_aligned(at, align),
            "vector access to distributed shared memory is not aligned"
        );
        (at, align)
    }
}

impl Mbarrier {
    /// The barrier at the same place in the shared memory of the block of this rank in the cluster, for arrivals there.
    ///
    /// ```
    /// use cuda_std::cluster;
    /// use cuda_std::mbarrier::{self, Mbarrier};
    /// use cuda_std::prelude::*;
    ///
    /// /// Each block of a cluster of four makes a number for each thread of the first one, which waits for them.
    /// #[kernel(cluster = 4, max_threads = 32)]
    /// pub fn gather(out: SliceMut<'_, u32>) {
    ///     let (made, words) = (shared_array![u32; 128], shared_array![u64; 1]);
    ///     let t = thread::thread_idx_x() as usize;
    ///     // SAFETY: the word is a barrier only, whose one phase gets the arrivals of 128 threads.
    ///     let ready = unsafe { Mbarrier::at(words, 0) };
    ///     if t == 0 {
    ///         ready.init(128);
    ///         mbarrier::fence_init();
    ///     }
    ///     cluster::sync();
    ///     let rank = cluster::block_rank();
    ///     made.map_shared_rank(0).set(32 * rank as usize + t, 100 * rank + t as u32);
    ///     ready.map_shared_rank(0).arrive();
    ///     if rank == 0 {
    ///         ready.wait_cluster(0);
    ///         for block in 0..4 {
    ///             out.set(32 * block + t, made.get(32 * block + t));
    ///         }
    ///     }
    ///     cluster::sync();
    /// }
    /// # let mut out = [0; 128];
    /// # cuda_std::launch::on_simulator_in_clusters(4, 4, 32, &mut out, gather);
    /// assert_eq!((out[31], out[32], out[127]), (31, 100, 331));
    /// ```
    ///
    /// # Panics
    ///
    /// If the cluster has no block of that rank.
    #[inline(always)]
    #[track_caller]
    pub fn map_shared_rank(self, rank: u32) -> ClusterMbarrier {
        check_rank(rank);
        ClusterMbarrier(machine::map_shared(self.ptr(), rank))
    }

    /// [`map_shared_rank`](Self::map_shared_rank) without the check, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// The cluster has a block of that rank.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn map_shared_rank_unchecked(self, rank: u32) -> ClusterMbarrier {
        if machine::CHECKED {
            return self.map_shared_rank(rank);
        }
        ClusterMbarrier(machine::map_shared(self.ptr(), rank))
    }
}

/// A barrier in the shared memory of a block of the cluster, at which threads of all its blocks arrive. Those of the block
/// that has it wait there, by [`Mbarrier::wait_cluster`].
#[derive(Clone, Copy)]
pub struct ClusterMbarrier(ClusterPtr);

impl ClusterMbarrier {
    /// Arrives: one of the phase's arrivals. What the thread wrote before is visible to who waits for the phase by
    /// [`Mbarrier::wait_cluster`].
    ///
    /// What [`Mbarrier::at`] was promised of the barrier holds for these arrivals, too: between its initialisation and the
    /// first of them stands a [`sync`], and its block does not end before the last.
    #[inline(always)]
    #[track_caller]
    pub fn arrive(self) {
        machine::mbarrier_arrive_cluster(self.0);
    }

    /// Arrives where `predicate` holds, without a branch, and without ordering what the thread wrote before for the threads of other
    /// blocks: that takes a fence of the whole GPU. It is for who says that it has read what another block's copies brought here.
    #[inline(always)]
    #[track_caller]
    pub fn arrive_unordered_if(self, predicate: bool) {
        machine::mbarrier_arrive_cluster_if(self.0, predicate);
    }
}
