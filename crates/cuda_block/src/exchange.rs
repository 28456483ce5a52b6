// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of a tile from one arrangement among the threads to another.
//!
//! *Blocked*: thread `t` has elements `t · ITEMS ..`, neighbours, as scans want them. *Striped*: thread `t` has elements
//! `t`, `t + THREADS`, …, so that an access of a warp is contiguous, as memory wants it. The elements go through shared
//! memory, in which one place is left out after each 32, so that a warp's threads, `ITEMS` apart, meet different banks.

use bytemuck::Pod;
use cuda_std::prelude::*;

use crate::storage::{Storage, Used};

/// The length of a [`Storage`] in which `threads` threads exchange `items` elements each.
pub const fn exchange_len(threads: usize, items: usize) -> usize {
    padded(threads * items)
}

/// Where element `i` of a tile lies.
const fn padded(i: usize) -> usize {
    i + i / 32
}

impl<T: Pod, const LEN: usize> Storage<T, LEN> {
    /// The thread's elements in striped order, of a tile of which it has these in blocked order. `LEN` is at least
    /// [`exchange_len`]`(THREADS, ITEMS)`.
    ///
    /// Cost: `2 ITEMS` accesses to shared memory, one barrier.
    ///
    /// ```
    /// use cuda_block::{exchange_len, storage};
    /// use cuda_std::prelude::*;
    ///
    /// const THREADS: usize = 64;
    /// const ITEMS: usize = 4;
    ///
    /// /// Each thread computes four neighbours, and each store of a warp is contiguous all the same.
    /// #[kernel(max_threads = THREADS)]
    /// pub fn triangular_numbers(out: SliceMut<'_, u32>) {
    ///     let t = thread::thread_idx_x();
    ///     let blocked: [u32; ITEMS] = core::array::from_fn(|i| (4 * t + i as u32) * (4 * t + i as u32 + 1) / 2);
    ///     let storage = storage![u32; exchange_len(THREADS, ITEMS)];
    ///     let (striped, _) = storage.blocked_to_striped::<THREADS, ITEMS>(blocked);
    ///     for i in 0..ITEMS {
    ///         out.set(i * THREADS + t as usize, striped[i]);
    ///     }
    /// }
    /// # let mut out = [0; 256];
    /// # cuda_std::launch::on_simulator(1, 64, &mut out, triangular_numbers);
    /// assert_eq!((out[1], out[2], out[3], out[255]), (1, 3, 6, 32640));
    /// ```
    ///
    /// # Panics
    ///
    /// If the block has more threads than `THREADS`.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it, and `THREADS` is how many they are, in one dimension.
    #[inline(always)]
    #[track_caller]
    pub fn blocked_to_striped<const THREADS: usize, const ITEMS: usize>(
        self,
        items: [T; ITEMS],
    ) -> ([T; ITEMS], Used<T, LEN>) {
        let (blocked, striped) = places::<THREADS, ITEMS>();
        self.exchange::<THREADS, ITEMS>(items, blocked, striped)
    }

    /// The thread's elements in blocked order, of a tile of which it has these in striped order: the inverse of
    /// [`blocked_to_striped`](Self::blocked_to_striped).
    ///
    /// ```
    /// use cuda_block::{exchange_len, storage, thread::fold};
    /// use cuda_std::prelude::*;
    ///
    /// const THREADS: usize = 64;
    /// const ITEMS: usize = 4;
    ///
    /// /// The sums of neighbours, four each, from accesses that are contiguous for a warp.
    /// #[kernel(max_threads = THREADS)]
    /// pub fn sums_of_four(x: &[u32], out: SliceMut<'_, u32>) {
    ///     let t = thread::thread_idx_x() as usize;
    ///     let striped: [u32; ITEMS] = core::array::from_fn(|i| x[i * THREADS + t]);
    ///     let storage = storage![u32; exchange_len(THREADS, ITEMS)];
    ///     let (blocked, _) = storage.striped_to_blocked::<THREADS, ITEMS>(striped);
    ///     out.set(t, fold(blocked, |a, b| a + b));
    /// }
    /// # let (x, mut out) = (Vec::from_iter(0..256u32), vec![0u32; 64]);
    /// # cuda_std::launch::on_simulator(1, 64, &mut out, |out| sums_of_four(&x, out));
    /// assert!((0..64).all(|i| out[i] as usize == 16 * i + 6));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`blocked_to_striped`](Self::blocked_to_striped).
    ///
    /// # Convergence
    ///
    /// As [`blocked_to_striped`](Self::blocked_to_striped).
    #[inline(always)]
    #[track_caller]
    pub fn striped_to_blocked<const THREADS: usize, const ITEMS: usize>(
        self,
        items: [T; ITEMS],
    ) -> ([T; ITEMS], Used<T, LEN>) {
        let (blocked, striped) = places::<THREADS, ITEMS>();
        self.exchange::<THREADS, ITEMS>(items, striped, blocked)
    }

    /// Puts the items at the places `from`, and takes those at the places `to`.
    #[inline(always)]
    #[track_caller]
    fn exchange<const THREADS: usize, const ITEMS: usize>(
        self,
        items: [T; ITEMS],
        from: [usize; ITEMS],
        to: [usize; ITEMS],
    ) -> ([T; ITEMS], Used<T, LEN>) {
        const { assert!(exchange_len(THREADS, ITEMS) <= LEN) };
        for i in 0..ITEMS {
            // SAFETY: less than `exchange_len`, and so than the storage's length.
            unsafe { self.memory.set_unchecked(from[i], items[i]) };
        }
        thread::sync_threads();
        // SAFETY: as above.
        let items = cuda_std::array::from_fn(|i| unsafe { self.memory.get_unchecked(to[i]) });
        (items, self.used())
    }
}

/// Where this thread's elements lie when they are blocked, and when they are striped: each less than [`exchange_len`].
#[inline(always)]
#[track_caller]
fn places<const THREADS: usize, const ITEMS: usize>() -> ([usize; ITEMS], [usize; ITEMS]) {
    let t = thread::thread_idx_x() as usize;
    assert!(t < THREADS, "the block has more threads than it says");
    (
        cuda_std::array::from_fn(|i| padded(t * ITEMS + i)),
        cuda_std::array::from_fn(|i| padded(i * THREADS + t)),
    )
}
