// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tile: its vectors in registers, and the values of them.

use bytemuck::Pod;
use cuda_block::thread::fold;
use cuda_std::hint;

use crate::op::ReduceOp;
use crate::scan::{Window, at, looped};

/// A tile, for one warp: what of its row the warp has.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Where the warp's part begins.
    pub(super) start: usize,
    /// The number in its row of the element at `start`; before the row, it wraps around.
    pub(super) index: u64,
    pub(super) window: Window,
}

impl Tile {
    /// The number in its row of the first element of this lane's vector `u`.
    #[inline(always)]
    pub(super) fn index<const V: usize>(self, u: usize) -> u64 {
        self.index.wrapping_add(u64::from(at::<V>(u)))
    }

    /// The total of each of this lane's vectors, of a whole tile that is loaded.
    #[inline(always)]
    pub(super) fn totals_whole<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
        self,
        loaded: [Words; U],
    ) -> [Op::Acc; U] {
        core::array::from_fn(|u| {
            let vector: [T; V] = vector(loaded[u].map(hint::opaque));
            Op::lift_in_order(vector, self.index::<V>(u))
        })
    }

    /// The place of the last vector that has an element of the row, if one has.
    #[inline(always)]
    pub(super) fn last_vector<const V: usize>(self) -> u32 {
        self.window.hi.wrapping_sub(1) & !(V as u32 - 1)
    }

    /// Whether this lane's vectors up to the last one are loaded as such, of an input of `len` elements.
    #[inline(always)]
    pub(super) fn has_vectors<const V: usize>(self, len: usize) -> bool {
        // Of a tile that has nothing of the row, the last vector is none.
        self.window.vectors && !self.is_empty() && self.start + self.last_vector::<V>() as usize + V <= len
    }

    #[inline(always)]
    fn is_empty(self) -> bool {
        self.window.lo >= self.window.hi
    }

    /// [`totals_whole`](Self::totals_whole) of another tile, and the vectors, some of which are not the row's or not
    /// loaded yet. In a loop, since tiles are seldom so, and all vectors at once would be most of the kernel's text.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn totals_part<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
        self,
        x: &[T],
        mut loaded: [Words; U],
    ) -> ([Op::Acc; U], [Words; U]) {
        let mut totals = [Op::identity(); U];
        if self.is_empty() {
            return (totals, loaded);
        }
        let is_loaded = self.has_vectors::<V>(x.len());
        for u in 0..looped(U) {
            let i = at::<V>(u);
            let vector: [T; V] = if is_loaded {
                vector(loaded[0])
            } else {
                self.window.load(x, self.start, i)
            };
            let values = self.window.lift::<T, Op, V>(vector, i, self.index::<V>(u));
            // Registers have no numbers: all values move on by one, so that in the end each is in its place.
            loaded = moved_on(loaded, words(vector));
            totals = moved_on(totals, fold(values, Op::combine));
        }
        (totals, loaded)
    }
}

/// All but the first of these, and `next`.
#[inline(always)]
fn moved_on<A: Copy, const U: usize>(values: [A; U], next: A) -> [A; U] {
    core::array::from_fn(|u| if u + 1 < U { values[u + 1] } else { next })
}

/// Whether `V` elements are one access, and wait in [`Words`].
#[inline(always)]
pub(super) const fn is_vector<T, const V: usize>() -> bool {
    size_of::<[T; V]>().is_power_of_two() && size_of::<[T; V]>() <= size_of::<Words>()
}

/// A vector of at most 16 bytes, in the registers that it is loaded to: as an array, each element would have one of its
/// own.
pub(super) type Words = [u32; 4];

/// The words of a vector; zeros of what is none.
#[inline(always)]
pub(super) fn words<T: Pod, const V: usize>(vector: [T; V]) -> Words {
    let mut words = Words::default();
    if const { is_vector::<T, V>() } {
        bytemuck::bytes_of_mut(&mut words)[..size_of::<[T; V]>()].copy_from_slice(bytemuck::cast_slice(&vector));
    }
    words
}

/// The vector of these words; zeros of what is none.
#[inline(always)]
pub(super) fn vector<T: Pod, const V: usize>(words: Words) -> [T; V] {
    let mut vector = [T::zeroed(); V];
    if const { is_vector::<T, V>() } {
        bytemuck::cast_slice_mut(&mut vector).copy_from_slice(&bytemuck::bytes_of(&words)[..size_of::<[T; V]>()]);
    }
    vector
}
