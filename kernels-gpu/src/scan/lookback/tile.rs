// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tile: its vectors in registers, and the values of them.

use bytemuck::Pod;
use cuda_block::thread::fold;
use cuda_std::hint;

use crate::op::ReduceOp;
use crate::scan::{Window, at};

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

    /// [`totals_whole`](Self::totals_whole) of another tile, whose elements are looked at one by one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn totals_part<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(self, x: &[T]) -> [Op::Acc; U] {
        let mut totals = [Op::identity(); U];
        for u in 0..U {
            let vector: [T; V] = self.window.load(x, self.start, at::<V>(u));
            let values = self.window.lift::<T, Op, V>(vector, at::<V>(u), self.index::<V>(u));
            let of_u = fold(values, Op::combine);
            // Registers have no numbers: each is asked whether it is meant.
            totals = core::array::from_fn(|v| if v == u { of_u } else { totals[v] });
        }
        totals
    }
}

/// A vector of at most 16 bytes, in the registers that it is loaded to: as an array, each element would have one of its
/// own.
pub(super) type Words = [u32; 4];

#[inline(always)]
pub(super) fn words<T: Pod, const V: usize>(vector: [T; V]) -> Words {
    let mut words = Words::default();
    bytemuck::bytes_of_mut(&mut words)[..size_of::<[T; V]>()].copy_from_slice(bytemuck::cast_slice(&vector));
    words
}

#[inline(always)]
pub(super) fn vector<T: Pod, const V: usize>(words: Words) -> [T; V] {
    let mut vector = [T::zeroed(); V];
    bytemuck::cast_slice_mut(&mut vector).copy_from_slice(&bytemuck::bytes_of(&words)[..size_of::<[T; V]>()]);
    vector
}
