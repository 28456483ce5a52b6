// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row, and how its vectors are loaded, wherever it begins.

use bytemuck::Pod;
use cuda_std::bits::byte_perm;
use cuda_std::prelude::*;

/// A row of an array.
#[derive(Clone, Copy)]
pub(super) struct Row<'a, T> {
    x: &'a [T],
    start: usize,
    length: usize,
}

/// Whether elements lie at multiples of their size, a power of two, so that each has a place in an aligned vector. Those of three
/// bytes have none, nor have four bytes, which lie anywhere.
pub(super) const fn have_places<T>() -> bool {
    size_of::<T>() == align_of::<T>()
}

/// How vectors lie that begin at multiples of their length in a row.
#[derive(Clone, Copy)]
pub(super) enum Lies {
    /// At addresses that are aligned to vectors.
    Aligned,
    /// Each across two that are aligned, both in the array.
    Across,
    /// Otherwise.
    Anyhow,
}

impl Lies {
    /// How vectors of `N` elements lie in all of some rows, each of which is read by a warp and combined in values of type `A`.
    /// Large elements are not many loads less across two, and want twice the registers, as do large values: it reads them one
    /// by one.
    #[inline(always)]
    pub(super) fn of_all<T: Pod, A, const N: usize, const K: usize>(rows: &[Row<'_, T>; K]) -> Self {
        let (mut are_aligned, mut are_across) = (true, N > 1 && size_of::<T>() < 4 && size_of::<A>() <= 16);
        for k in 0..K {
            are_aligned &= rows[k].is_aligned::<N>();
            are_across &= rows[k].is_across::<N>(0, rows[k].length);
        }
        match (are_aligned, are_across) {
            (true, _) => Lies::Aligned,
            (false, true) => Lies::Across,
            (false, false) => Lies::Anyhow,
        }
    }
}

impl<'a, T: Pod> Row<'a, T> {
    /// Elements `start .. start + length` of `x`.
    ///
    /// # Safety
    ///
    /// `x` has them.
    #[inline(always)]
    pub(super) unsafe fn of(x: &'a [T], start: usize, length: usize) -> Self {
        Self { x, start, length }
    }

    /// Element `i`.
    ///
    /// # Safety
    ///
    /// There is one.
    #[inline(always)]
    pub(super) unsafe fn get(&self, i: usize) -> T {
        // SAFETY: the caller's promise, and that of `of`.
        unsafe { *self.x.get_unchecked(self.start + i) }
    }

    /// Whether vectors of `N` elements lie aligned.
    #[inline(always)]
    pub(super) fn is_aligned<const N: usize>(&self) -> bool {
        if const { have_places::<T>() } {
            return self.skipped::<N>() == 0;
        }
        // SAFETY: the row begins in the array, by the promise of `of`.
        unsafe { self.x.get_unchecked(self.start..) }.is_vec_aligned::<N>()
    }

    /// Whether the array has all of the aligned vectors across which those of `N` elements from `begin` on lie, of which the
    /// last ends at `end`.
    #[inline(always)]
    pub(super) fn is_across<const N: usize>(&self, begin: usize, end: usize) -> bool {
        let have_places = const { have_places::<T>() };
        have_places && self.start + begin >= self.skipped::<N>() as usize && self.start + end + N <= self.x.len()
    }

    /// Elements `i .. i + N`.
    ///
    /// # Safety
    ///
    /// There are such, `i` is a multiple of `N`, and vectors of `N` lie aligned.
    #[inline(always)]
    pub(super) unsafe fn load_aligned<const N: usize>(&self, i: usize) -> [T; N] {
        // SAFETY: the caller's promise.
        unsafe { self.x.load_vec_unchecked(self.start + i) }
    }

    /// Elements `i .. i + N`, one by one.
    ///
    /// # Safety
    ///
    /// There are such.
    #[inline(always)]
    pub(super) unsafe fn load_one_by_one<const N: usize>(&self, i: usize) -> [T; N] {
        // SAFETY: the caller's promise.
        cuda_std::array::from_fn(|k| unsafe { self.get(i + k) })
    }

    /// The elements by which the row begins behind an aligned vector, where they [have places](have_places).
    #[inline(always)]
    pub(super) fn skipped<const N: usize>(&self) -> u32 {
        (self.x.as_ptr().addr() / size_of::<T>() + self.start) as u32 % N as u32
    }

    /// Elements `i .. i + N`, of two vectors of 16 bytes: words, and then bytes, that are moved into place.
    ///
    /// # Safety
    ///
    /// There are such, `i` is a multiple of `N`, and vectors of `N` lie across two.
    #[inline(always)]
    pub(super) unsafe fn load_across<const N: usize>(&self, i: usize) -> [T; N] {
        let skipped = self.skipped::<N>();
        let place = self.start + i - skipped as usize;
        // SAFETY: both vectors are in the array, by the contract, and aligned.
        let both: [[T; N]; 2] = unsafe { [self.x.load_vec_unchecked(place), self.x.load_vec_unchecked(place + N)] };
        let bytes = skipped * size_of::<T>() as u32;
        let (by_two, by_one) = (bytes & 8 != 0, bytes & 4 != 0);
        // Each by its name: what is looked up in arrays here would be put into local memory.
        let ([a, b, c, d], [e, f, g, h]): ([u32; 4], [u32; 4]) = (bytemuck::cast(both[0]), bytemuck::cast(both[1]));
        let [a, b, c, d, e, f] = if by_two { [c, d, e, f, g, h] } else { [a, b, c, d, e, f] };
        let words = if by_one { [b, c, d, e, f] } else { [a, b, c, d, e] };
        if size_of::<T>() >= 4 {
            return bytemuck::cast([words[0], words[1], words[2], words[3]]);
        }
        let selector = 0x3210 + (bytes & 3) * 0x1111;
        let [a, b, c, d, e] = words;
        let moved = [(a, b), (b, c), (c, d), (d, e)];
        bytemuck::cast(cuda_std::array::map(moved, |(low, high)| {
            byte_perm(low, high, selector)
        }))
    }
}
