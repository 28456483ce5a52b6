// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection: one of two elements, as a mask says.
//!
//! `3 n` elements and `n` bytes moved: both operands are read, so that the accesses stay wide. [`select()`] walks over
//! tiles as [`binary`](crate::binary) does; where operands lie otherwise than the output, the host computes an expression.

use cuda_std::prelude::*;

use crate::num::Num;
use crate::tile::{self, Body};

pub use crate::tile::THREADS;

/// Elements that a block treats: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T>() -> usize {
    tile::tile_len(size_of::<T>())
}

/// `out = a` where the mask is not 0, else `b`
struct Select<'a, T> {
    mask: Slice<'a, u8>,
    a: Slice<'a, T>,
    b: Slice<'a, T>,
    out: SliceMut<'a, T>,
}

#[inline(always)]
fn chosen<T>(mask: u8, a: T, b: T) -> T {
    if mask != 0 { a } else { b }
}

impl<T: Num> Body for Select<'_, T> {
    const LARGEST: usize = size_of::<T>();

    #[inline(always)]
    fn len(&self) -> usize {
        let operands = Ord::min(self.a.len(), self.b.len());
        Ord::min(Ord::min(self.out.len(), self.mask.len()), operands)
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(&self) -> bool {
        self.mask.is_vec_aligned::<N>()
            && self.a.is_vec_aligned::<N>()
            && self.b.is_vec_aligned::<N>()
            && self.out.is_vec_aligned::<N>()
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn vector<const N: usize>(&self, i: usize) {
        // SAFETY (of all four): the caller's promise for the shortest of the arrays.
        unsafe {
            let mask: [u8; N] = self.mask.get_vec_unchecked(i);
            let a: [T; N] = self.a.get_vec_unchecked(i);
            let b: [T; N] = self.b.get_vec_unchecked(i);
            let results = cuda_std::array::from_fn(|k| chosen(mask[k], a[k], b[k]));
            self.out.set_vec_unchecked::<N>(i, results);
        }
    }

    #[inline(always)]
    fn element(&self, i: usize) {
        self.out.set(i, chosen(self.mask.get(i), self.a.get(i), self.b.get(i)));
    }
}

/// `out[i] = a[i]` where `mask[i]` is not 0, else `b[i]`; all are as long as `out`.
#[kernel(T = [u8, u16, u32, u64], max_threads = THREADS)]
pub fn select<T: Num>(mask: Slice<'_, u8>, a: Slice<'_, T>, b: Slice<'_, T>, out: SliceMut<'_, T>) {
    tile::for_tile(&Select { mask, a, b, out });
}
