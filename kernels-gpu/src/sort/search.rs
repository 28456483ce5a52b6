// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where numbers would go among sorted ones: a binary search for each, by a thread of its own. All take as many steps, for the part that
//! is left is as long in each, and none of them branches. What is searched for is a key, the last that comes before; where zeros and NaN
//! are several keys, it is that of all of them, so that a step compares one key with it and no more.
//!
//! A thread searches for one number, not for several side by side: what a search reads last lies beside what it has read before, and is
//! in a cache only where few searches are on their way.

use cuda_std::prelude::*;

use super::{Pass, Word};

/// Threads of a block, each of which searches for a number.
pub const THREADS: usize = 256;

/// How many of the sorted elements have a key up to that one. If they are not sorted, some number up to how many they are.
#[inline(always)]
fn count_up_to<T: Word>(sorted: &[T], pass: Pass, last: T) -> u64 {
    // SAFETY (of all calls): an element of those that are left, see below; a single one is always aligned.
    let comes_before = |of: &[T], at: usize| unsafe { of.load_vec_unchecked::<1>(at)[0] }.key(pass) <= last;
    // All in front of `begin` come before, and what is not known yet are as many as are left.
    let (mut begin, mut left) = (0usize, sorted.len());
    // By 32 bits as soon as these do.
    while left > u32::MAX as usize {
        let middle = begin.wrapping_add(left / 2);
        if comes_before(sorted, middle.wrapping_sub(1)) {
            begin = middle;
        }
        left = left.wrapping_sub(left / 2);
    }
    // SAFETY: `begin` and what is left are all at most.
    let (rest, mut place, mut left) = (unsafe { sorted.get_unchecked(begin..) }, 0u32, left as u32);
    while left > 1 {
        let middle = place.wrapping_add(left / 2);
        if comes_before(rest, (middle as usize).wrapping_sub(1)) {
            place = middle;
        }
        left = left.wrapping_sub(left / 2);
    }
    if left == 1 && comes_before(rest, place as usize) {
        place = place.wrapping_add(1);
    }
    (begin as u64).wrapping_add(place as u64)
}

/// How many of the sorted numbers are less than each value or, where `is_behind` is not 0, less or equal. −0 equals +0, and NaN is
/// greater than every number and equal to itself. `sorted` is in the order of `pass`, which is of the elements, but that −0 may be
/// anywhere among +0, and NaN in any order; otherwise results are any numbers up to its length. A block of [`THREADS`] threads for as many
/// values.
#[kernel(T = [u8, u16, u32, u64], max_threads = THREADS)]
pub fn search_sorted<T: Word>(sorted: &[T], values: &[T], pass: Pass, is_behind: u32, out: SliceMut<'_, u64>) {
    let number = thread::index_1d();
    if number >= Ord::min(values.len(), out.len()) {
        return;
    }
    // SAFETY: in bounds, as just asked; a single element is always aligned.
    let [value] = unsafe { values.load_vec_unchecked::<1>(number) };
    let place = match value.last_before(pass, is_behind != 0) {
        Some(last) => count_up_to(sorted, pass, last),
        None => 0,
    };
    // SAFETY: in bounds, as asked above.
    unsafe { out.set_vec_unchecked(number, [place]) };
}
