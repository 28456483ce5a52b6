// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a block has in shared memory: the tiles that wait, and what its warps tell one another.

use bytemuck::Pod;
use cuda_block::{MAX_VALUE, Scanned, scan_of_warps};
use cuda_std::prelude::*;

use super::tile::{Tile, Words, is_vector, vector};
use super::{THREADS, WORKERS};
use crate::op::{ReduceOp, lift, results};
use crate::scan::{at, looped};

/// One or two tiles, `U` vectors of `V` elements for each thread and what stands before each in the tile, which wait in
/// shared memory for what stands before the tile. Each thread has its own.
#[derive(Clone, Copy)]
pub(super) struct Parked<T, A, const V: usize, const U: usize> {
    before: Shared<A>,
    elements: Shared<T>,
    /// Whether there is room for two tiles, in slots 0 and 1.
    pub(super) has_two: bool,
}

impl<T: Pod, A: Pod, const V: usize, const U: usize> Parked<T, A, V, U> {
    /// `None` if the launch has not given the shared memory for one tile.
    #[inline(always)]
    pub(super) fn new() -> Option<Self> {
        let bytes = cuda_std::shared::dynamic::<u8>().len();
        let tile = Self::first_element(1) * size_of::<T>() + WORKERS * U * V * size_of::<T>();
        (bytes >= tile && thread::block_dim_x() as usize == THREADS).then_some(Self {
            before: cuda_std::shared::dynamic(),
            elements: cuda_std::shared::dynamic(),
            has_two: bytes >= 2 * tile,
        })
    }

    /// The slot of the tiles on `side` 0 or 1.
    #[inline(always)]
    pub(super) fn slot(self, side: usize) -> usize {
        if self.has_two { side } else { 0 }
    }

    /// The number of the first element, when `slots` tiles' values stand before it.
    #[inline(always)]
    fn first_element(slots: usize) -> usize {
        (slots * WORKERS * U * size_of::<A>()).div_ceil(size_of::<T>())
    }

    /// The number of this thread's vector `u`.
    #[inline(always)]
    fn at(slot: usize, u: usize) -> usize {
        (slot * U + u) * WORKERS + thread::thread_idx_x() as usize
    }

    #[inline(always)]
    fn element(self, slot: usize, u: usize) -> usize {
        Self::first_element(if self.has_two { 2 } else { 1 }) + Self::at(slot, u) * V
    }

    /// Parks a tile: what stands before each vector, and the vectors, which are loaded, or what there is of those that are
    /// no vectors.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn set(self, slot: usize, tile: Tile, before: [A; U], loaded: [Words; U], x: &[T]) {
        for u in 0..U {
            // SAFETY: of a slot that there is.
            unsafe { self.before.set_unchecked(Self::at(slot, u), before[u]) };
        }
        if const { is_vector::<T, V>() } {
            for u in 0..U {
                let first = self.element(slot, u);
                // SAFETY: of a slot that there is, and a multiple of a vector, behind values that are as many bytes.
                unsafe { self.elements.set_vec_unchecked(first, vector::<T, V>(loaded[u])) };
            }
        } else {
            for u in 0..looped(U) {
                self.set_elements(slot, u, tile.window.load(x, tile.start, at::<V>(u)));
            }
        }
    }

    /// Parks what is no vector, element by element.
    #[inline(always)]
    fn set_elements(self, slot: usize, u: usize, elements: [T; V]) {
        for k in 0..V {
            // SAFETY: of a slot that there is.
            unsafe { self.elements.set_unchecked(self.element(slot, u) + k, elements[k]) };
        }
    }

    #[inline(always)]
    fn get_before(self, slot: usize, u: usize) -> A {
        // SAFETY: of a slot that there is.
        unsafe { self.before.get_unchecked(Self::at(slot, u)) }
    }

    #[inline(always)]
    fn get_elements(self, slot: usize, u: usize) -> [T; V] {
        let first = self.element(slot, u);
        if const { is_vector::<T, V>() } {
            // SAFETY: as in `set`.
            unsafe { self.elements.get_vec_unchecked::<V>(first) }
        } else {
            // SAFETY: of a slot that there is.
            core::array::from_fn(|k| unsafe { self.elements.get_unchecked(first + k) })
        }
    }

    /// Writes the results of a tile, before which `prefix` stands.
    #[inline(always)]
    pub(super) fn store<Op: ReduceOp<T, Acc = A>>(
        self,
        slot: usize,
        tile: Tile,
        prefix: A,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) {
        if tile.window.whole {
            self.store_whole::<Op>(slot, tile, prefix, exclusive, out);
        } else {
            self.store_part::<Op>(slot, tile, prefix, exclusive, out);
        }
    }

    /// [`store`](Self::store) of a whole tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_whole<Op: ReduceOp<T, Acc = A>>(
        self,
        slot: usize,
        tile: Tile,
        prefix: A,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) {
        // One address, and distances that are known from it: it takes fewer registers, unless values are wider than
        // elements.
        let first = tile.start + at::<V>(0) as usize;
        for u in 0..U {
            let vector = self.get_elements(slot, u);
            let index = tile.index::<V>(u);
            let before = Op::combine(prefix, self.get_before(slot, u));
            let results = results::<T, Op, V>(before, lift::<T, Op, V>(vector, index), index, exclusive);
            let place = if size_of::<T>() == size_of::<A>() {
                first + 32 * u * V
            } else {
                tile.start + at::<V>(u) as usize
            };
            // SAFETY: the whole tile is the row's, which is within the output, and aligned.
            unsafe { out.set_vec_unchecked::<V>(place, results) };
        }
    }

    /// [`store`](Self::store) of a tile that is not whole, vector by vector in a loop.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_part<Op: ReduceOp<T, Acc = A>>(
        self,
        slot: usize,
        tile: Tile,
        prefix: A,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) {
        for u in 0..looped(U) {
            let i = at::<V>(u);
            let vector = self.get_elements(slot, u);
            let index = tile.index::<V>(u);
            let before = Op::combine(prefix, self.get_before(slot, u));
            let values = tile.window.lift::<T, Op, V>(vector, i, index);
            let results = results::<T, Op, V>(before, values, index, exclusive);
            tile.window.store(out, tile.start, i, results);
        }
    }
}

/// What the warps of a block tell one another, on two sides in turn: between two uses of one side, all threads wait for
/// one another.
#[derive(Clone, Copy)]
pub(super) struct Exchange<A> {
    warps: Shared<A>,
    prefixes: Shared<A>,
    pub(super) tickets: Shared<u32>,
}

impl<A: Pod> Exchange<A> {
    const WARPS: usize = WORKERS / 32;

    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            warps: shared_array![[u64; MAX_VALUE / 8]; 2 * (WORKERS / 32)].cast(),
            prefixes: shared_array![[u64; MAX_VALUE / 8]; 2].cast(),
            tickets: shared_array![u32; 2],
        }
    }

    /// Tells the total of this warp's part of a tile.
    #[inline(always)]
    pub(super) fn set_warp(self, side: usize, total: A) {
        if warp::lane_id() == 0 {
            let warp = thread::thread_idx_x() as usize / 32;
            // SAFETY: there are 2 sides, and WARPS warps.
            unsafe { self.warps.set_unchecked(side * Self::WARPS + warp, total) };
        }
    }

    /// What stands before this warp's part of the tile, and the tile's total.
    #[inline(always)]
    pub(super) fn scan_warps(self, side: usize, identity: A, combine: impl Fn(A, A) -> A) -> Scanned<A> {
        // SAFETY: there are 2 sides, of WARPS warps each.
        unsafe { scan_of_warps::<A, WORKERS>(self.warps, side * Self::WARPS, identity, combine) }
    }

    /// Tells what stands before a tile.
    #[inline(always)]
    pub(super) fn set_prefix(self, side: usize, prefix: A) {
        if warp::lane_id() == 0 {
            // SAFETY: there are 2 sides.
            unsafe { self.prefixes.set_unchecked(side, prefix) };
        }
    }

    #[inline(always)]
    pub(super) fn prefix(self, side: usize) -> A {
        // SAFETY: there are 2 sides.
        unsafe { self.prefixes.get_unchecked(side) }
    }
}
