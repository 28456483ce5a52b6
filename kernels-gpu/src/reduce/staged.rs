// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short rows that have not only whole vectors: by way of shared memory.
//!
//! Such rows begin anywhere, and are read element by element if each is read by itself: four times as many loads, or 16
//! times, of which a lane has few in flight, and half of them in vain where a row has few more elements than its lanes.
//! Together, rows that follow one another are one stretch of memory. A block reads it by vectors, whatever the length of a
//! row, and its threads take the elements of their rows from shared memory.

use bytemuck::Pod;
use cuda_std::array::from_fn;
use cuda_std::bits::byte_perm;
use cuda_std::hint;
use cuda_std::prelude::*;

use super::plan::THREADS;
use super::row::Row;
use super::rows::Rows;
use crate::op::{ReduceOp, Vectors};

/// Vectors that a thread has in flight.
const IN_FLIGHT: usize = 8;

impl<T: Pod, A: Pod, R: Pod> Rows<'_, T, A, R> {
    /// Combines the rows of this block, which it reads by vectors of `N` elements, and from shared memory by words of `V`.
    ///
    /// # Safety
    ///
    /// `x` has `plan.length` elements for each element of `out`, which [have places](super::row::have_places).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn by_stages<Op: ReduceOp<T, Acc = A, Output = R>, const N: usize, const V: usize>(self) {
        let (length, together) = (self.plan.length as u32, self.plan.together);
        let first = thread::block_idx_x() as usize * together as usize;
        if first >= self.out.len() {
            return;
        }
        let rows = Ord::min(together as usize, self.out.len() - first) as u32;
        let staged = cuda_std::shared::dynamic::<T>();
        if staged.len() < ((rows * length) as usize).next_multiple_of(N) + N {
            return;
        }
        // SAFETY: the rows are of `x`, by the contract, and there is room for them, as just asked.
        let skipped = unsafe { stage::<T, N>(self.x, first * length as usize, rows * length, staged) };
        thread::sync_threads();
        let lanes = self.plan.staged_lanes::<T>();
        let (t, log_lanes) = (thread::thread_idx_x(), lanes.trailing_zeros());
        let lane = t & (lanes - 1);
        let finish = Op::finisher(self.plan.count);
        // The rows of a warp are combined together, so all of its lanes go on while there is one.
        let (mut row, mut of_warp) = (t >> log_lanes, (t & !31) >> log_lanes);
        while of_warp < rows {
            let start = skipped + Ord::min(row, rows - 1) * length;
            let whole = length / V as u32;
            // SAFETY: all bytes of the words in which the row lies have been written.
            let words = unsafe { Words::of(staged, start) };
            let mut acc = Op::lift_lane::<V>(&words, (lane, lanes, whole));
            let mut rest = whole * V as u32 + lane;
            while V > 1 && rest < length {
                // SAFETY: an element of the row.
                acc = Op::combine(
                    acc,
                    Op::lift(unsafe { staged.get_unchecked((start + rest) as usize) }, rest.into()),
                );
                // Opaque, so that it is not written out.
                rest += hint::opaque(lanes);
            }
            let [acc] = Op::combine_lanes([acc], lanes);
            if lane == 0 && row < rows {
                self.out.set(first + row as usize, finish(acc));
            }
            row += THREADS as u32 >> log_lanes;
            of_warp += THREADS as u32 >> log_lanes;
        }
    }
}

/// A row in shared memory, as elements, or as words of them, wherever it begins.
struct Words<T> {
    staged: Shared<T>,
    start: u32,
}

impl<T: Pod> Words<T> {
    /// The row from element `start` on.
    ///
    /// # Safety
    ///
    /// No more elements, or words, are asked for than the row has, and all bytes of the words in which they lie have been
    /// written.
    #[inline(always)]
    unsafe fn of(staged: Shared<T>, start: u32) -> Self {
        Self { staged, start }
    }
}

impl<T: Pod, const V: usize> Vectors<T, V> for Words<T> {
    #[inline(always)]
    fn at<const U: usize>(&self, numbers: [u32; U]) -> [[T; V]; U] {
        if V == 1 {
            // SAFETY: an element of the row, by the promise of `of`.
            return from_fn(|u| [unsafe { self.staged.get_unchecked((self.start + numbers[u]) as usize) }; V]);
        }
        let (place, words) = (self.start * size_of::<T>() as u32, self.staged.cast::<u32>());
        let shift = place % 4;
        // SAFETY: of the words in which the row lies, by the promise of `of`.
        let word = |u: usize, next: usize| unsafe { words.get_unchecked((place / 4 + numbers[u]) as usize + next) };
        let moved: [u32; U] = if shift == 0 {
            from_fn(|u| word(u, 0))
        } else {
            // Of the two across which it lies.
            from_fn(|u| byte_perm(word(u, 0), word(u, 1), 0x3210 + shift * 0x1111))
        };
        from_fn(|u| {
            let bytes = bytemuck::bytes_of(&moved[u]);
            from_fn(|k| bytemuck::pod_read_unaligned(&bytes[k * size_of::<T>()..(k + 1) * size_of::<T>()]))
        })
    }
}

/// Brings `count` elements of `x` from `start` on into shared memory, by vectors of `N` that are aligned: what lies ahead
/// of them in the first one is brought along. Says how many elements that are.
///
/// # Safety
///
/// The elements are in `x`, and [have places](super::row::have_places), and `staged` has room for them, rounded up
/// to whole vectors, and `N` more.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn stage<T: Pod, const N: usize>(x: &[T], start: usize, count: u32, staged: Shared<T>) -> u32 {
    let t = thread::thread_idx_x();
    // SAFETY: the elements are in `x`, by the contract.
    let skipped = unsafe { Row::of(x, start, count as usize) }.skipped::<N>();
    // Vectors that are not all in `x` are the first and the last of it.
    let begin = u32::from(start < skipped as usize);
    let behind = skipped as usize + x.len() - start;
    let needed = (skipped + count).div_ceil(N as u32);
    let end = if behind < needed as usize * N {
        (behind / N) as u32
    } else {
        needed
    };
    let mut vector = begin + t;
    while vector < end {
        let place = |u: usize| Ord::min(vector + (u * THREADS) as u32, end - 1) as usize * N;
        let loaded: [[T; N]; IN_FLIGHT] =
            // SAFETY: the vector is in `x`, and aligned.
            cuda_std::array::from_fn(|u| unsafe { x.load_vec_unchecked(start + place(u) - skipped as usize) });
        for u in 0..IN_FLIGHT {
            if vector + ((u * THREADS) as u32) < end {
                // SAFETY: there is room, and vectors of shared memory are aligned.
                unsafe { staged.set_vec_unchecked(place(u), loaded[u]) };
            }
        }
        vector += (IN_FLIGHT * THREADS) as u32;
    }
    // Less than a vector on either side.
    let one = |i: u32| {
        let is_there = i >= skipped && i < skipped + count;
        // Zeros beside them, for words are read as a whole.
        let value = if is_there {
            // SAFETY: one of the elements.
            unsafe { *x.get_unchecked(start + i as usize - skipped as usize) }
        } else {
            T::zeroed()
        };
        // SAFETY: within the first vector or the last one, for which there is room.
        unsafe { staged.set_unchecked(i as usize, value) };
    };
    if begin > 0 && t < N as u32 {
        one(t);
    }
    if end < needed && t < N as u32 {
        one(Ord::max(end, begin) * N as u32 + t);
    }
    skipped
}
