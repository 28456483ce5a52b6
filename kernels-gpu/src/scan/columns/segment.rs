// SPDX-License-Identifier: MIT OR Apache-2.0
//! A segment: what a thread has of a column.

use bytemuck::Pod;
use cuda_std::hint;
use cuda_std::prelude::*;

use crate::op::{ReduceOp, finish};
use crate::scan::{get_unchecked, set_unchecked};

/// `len` elements, at most `N`, `stride` apart, the first of them at `first`, in row `row`: of the input, or results.
///
/// Whoever makes one has made sure that the first and the last of them are within the array, and the others between.
#[derive(Clone, Copy)]
pub(super) struct Segment<const N: usize> {
    pub(super) first: usize,
    pub(super) stride: usize,
    pub(super) row: u64,
    pub(super) len: u32,
}

impl<const N: usize> Segment<N> {
    /// Whether there are `N` elements.
    #[inline(always)]
    pub(super) fn is_whole(self) -> bool {
        self.len as usize == N
    }

    /// All elements.
    ///
    /// # Safety
    ///
    /// The segment is of `x`, and [whole](Self::is_whole).
    #[inline(always)]
    pub(super) unsafe fn load_whole<T: Pod>(self, x: &[T]) -> [T; N] {
        let mut loaded = [T::zeroed(); N];
        self.for_each_of_whole(self.stride, |k, at| {
            // SAFETY: one of the segment's `N` elements, which are within the array, by the contract.
            loaded[k] = unsafe { get_unchecked(x, at) };
        });
        loaded
    }

    /// All elements, of a segment of `x`, and zeros after them.
    #[inline(always)]
    pub(super) fn load<T: Pod>(self, x: &[T]) -> [T; N] {
        let mut loaded = [T::zeroed(); N];
        self.for_each(self.stride, |k, at| {
            // SAFETY: of the segment, which is within the array.
            loaded[k] = unsafe { get_unchecked(x, at) };
        });
        loaded
    }

    /// The elements, combined.
    #[inline(always)]
    pub(super) fn total<T: Pod, Op: ReduceOp<T>>(self, kept: &Kept<T, N>) -> Op::Acc {
        let mut acc = Op::identity();
        self.for_each(self.stride, |k, _| {
            acc = Op::combine(acc, Op::lift(kept.get(k), self.row + k as u64))
        });
        acc
    }

    /// Writes the scan of that many elements to this segment of `out`, before which `before` stands; they and it combined.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn write<T: Pod, Op: ReduceOp<T>>(
        self,
        element: impl Fn(usize) -> T,
        before: Op::Acc,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) -> Op::Acc {
        let mut acc = before;
        self.for_each(opaque(self.stride), |k, at| {
            acc = self.write_one::<T, Op>(k, at, element(k), acc, exclusive, out);
        });
        acc
    }

    /// [`write`](Self::write) without a condition.
    ///
    /// # Safety
    ///
    /// The segment is of `out`, and [whole](Self::is_whole).
    #[inline(always)]
    pub(super) unsafe fn write_whole<T: Pod, Op: ReduceOp<T>>(
        self,
        element: impl Fn(usize) -> T,
        before: Op::Acc,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) -> Op::Acc {
        let mut acc = before;
        self.for_each_of_whole(opaque(self.stride), |k, at| {
            acc = self.write_one::<T, Op>(k, at, element(k), acc, exclusive, out);
        });
        acc
    }

    /// Writes result `k` to place `at`, of an element and what stands before it; these combined.
    #[inline(always)]
    fn write_one<T: Pod, Op: ReduceOp<T>>(
        self,
        k: usize,
        at: usize,
        element: T,
        before: Op::Acc,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) -> Op::Acc {
        let index = self.row + k as u64;
        let acc = Op::combine(before, Op::lift(element, index));
        let result = finish::<T, Op>(before, acc, index, exclusive);
        // SAFETY: of the segment, which is within the array.
        unsafe { set_unchecked(out, at, result) };
        acc
    }

    /// Calls `f` with the number and the place of each element, in their order; `stride` is the segment's own.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn for_each(self, stride: usize, mut f: impl FnMut(usize, usize)) {
        if self.is_whole() {
            self.for_each_of_whole(stride, f);
        } else {
            let mut at = self.first;
            for k in 0..N {
                if k < self.len as usize {
                    f(k, at);
                }
                at = at.wrapping_add(stride);
            }
        }
    }

    /// [`for_each`](Self::for_each) of `N` elements: no branch stands between them, so that what is loaded is in flight at
    /// once.
    #[inline(always)]
    fn for_each_of_whole(self, stride: usize, mut f: impl FnMut(usize, usize)) {
        let mut at = self.first;
        for k in 0..N {
            f(k, at);
            at = at.wrapping_add(stride);
        }
    }
}

/// The elements of a segment while its threads wait for one another: several small ones share a register, of which a
/// load takes one for each.
#[derive(Clone, Copy)]
pub(super) struct Kept<T, const N: usize> {
    elements: [T; N],
    /// In their place, where several have room in a word; the first of them are used.
    words: [u32; N],
}

impl<T: Pod, const N: usize> Kept<T, N> {
    const IN_A_WORD: usize = match size_of::<T>() {
        1 if N.is_multiple_of(4) => 4,
        2 if N.is_multiple_of(2) => 2,
        _ => 1,
    };

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(elements: [T; N]) -> Self {
        let mut words = [0; N];
        if Self::IN_A_WORD > 1 {
            for i in 0..N / Self::IN_A_WORD {
                let mut bytes = [0; 4];
                for k in 0..Self::IN_A_WORD {
                    let element = elements[i * Self::IN_A_WORD + k];
                    bytes[k * size_of::<T>()..][..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&element));
                }
                // Or the compiler would keep the elements as they were.
                words[i] = hint::opaque(u32::from_ne_bytes(bytes));
            }
        }
        Self { elements, words }
    }

    /// Element `k`.
    #[inline(always)]
    pub(super) fn get(&self, k: usize) -> T {
        if Self::IN_A_WORD == 1 {
            return self.elements[k];
        }
        let bytes = self.words[k / Self::IN_A_WORD].to_ne_bytes();
        bytemuck::pod_read_unaligned(&bytes[k % Self::IN_A_WORD * size_of::<T>()..][..size_of::<T>()])
    }
}

/// `value`, of which the compiler can not tell that places were computed from it before: it would keep all of those, in
/// the registers that the elements need.
#[inline(always)]
pub(super) fn opaque(value: usize) -> usize {
    let (low, high) = (hint::opaque(value as u32), hint::opaque((value as u64 >> 32) as u32));
    (u64::from(high) << 32 | u64::from(low)) as usize
}
