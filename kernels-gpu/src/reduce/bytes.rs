// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of columns of bytes, of which a thread adds four at a time.
//!
//! A thread that loads byte by byte has too few bytes on their way for memory: on an H200, columns were summed at 44% of
//! the speed of a copy. So where the columns lie in whole words, a thread has a word of each row, and adds the first and
//! third byte of it as the halves of one number, the second and fourth as those of another: two masks, a shift and two
//! additions for four bytes. A half has room for 257 bytes, and a chunk of a column, of which a block's threads have a
//! row each, has fewer rows for a thread. Behind it, the halves go through shared memory to the threads that have the
//! columns otherwise, and all else is as for other types: the same plan, the same chunks, the same sums.

use bytemuck::Pod;
use cuda_std::bits::byte_perm;
use cuda_std::prelude::*;

use super::columns::{Columns, Place, divide};
use super::plan::THREADS;

/// Columns of a word.
const WORD: usize = 4;

/// Words that a thread has in flight.
const IN_FLIGHT: usize = 12;

/// Those of them that it has at the end of a chunk.
const LAST_IN_FLIGHT: usize = 4;

/// The first and third byte of a word, as halves.
const HALVES: u32 = 0x00FF_00FF;

/// The bytes that a half has room for.
const ROOM: usize = u16::MAX as usize / u8::MAX as usize;

impl<T: Pod, A: Pod, R: Pod> Columns<'_, T, A, R> {
    /// Whether the columns of all blocks are whole words, and a thread's rows of a chunk have room in halves.
    #[inline(always)]
    pub(super) fn are_words(&self) -> bool {
        let plan = &self.plan;
        let distances = plan.inner | plan.step | plan.outer_step | plan.width as usize | self.out.len();
        let rows = plan.chunk / (WORD * Ord::max(plan.height as usize, 1));
        distances.is_multiple_of(WORD) && rows < ROOM && self.x.is_vec_aligned::<WORD>()
    }

    /// The sum of this thread's share of its column; of a thread that has none, 0.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it, once, where [`are_words`](Self::are_words).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn share_of_words(&self, at: Place) -> u32 {
        let halves = shared_array![u32; 2 * THREADS];
        let (t, width) = (thread::thread_idx_x() as usize, self.plan.width as usize);
        let [even, odd] = self.words();
        if t < THREADS {
            // In the order of the columns.
            halves.set(2 * t, byte_perm(even, odd, 0x5410));
            halves.set(2 * t + 1, byte_perm(even, odd, 0x7632));
        }
        thread::sync_threads();
        let (halves, height) = (halves.cast::<u16>(), self.plan.height as usize);
        let mut sum = 0;
        if at.ty < height {
            for k in 0..WORD {
                let place = (at.ty + k * height) * width + at.tx;
                if place < WORD * THREADS {
                    sum += u32::from(halves.get(place));
                }
            }
        }
        sum
    }

    /// The sums of every fourth row and more, of four columns: of the first and third, and of the second and fourth.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn words(&self) -> [u32; 2] {
        let (mut sums, plan) = ([0; 2], &self.plan);
        let (t, words) = (thread::thread_idx_x(), Ord::max(plan.width / WORD as u32, 1));
        let rows = WORD * plan.height as usize;
        let (tx, ty) = ((t % words) as usize, (t / words) as usize);
        let (strip, part) = self.strip_and_part();
        let column = strip * plan.width as usize + WORD * tx;
        if ty >= rows || column >= self.out.len() {
            return sums;
        }
        let (outer, i) = divide(column, plan.inner);
        let base = outer.saturating_mul(plan.outer_step).saturating_add(i);
        if base.saturating_add(plan.span).saturating_add(WORD - 1) > self.x.len() {
            return sums;
        }
        let begin = part * plan.chunk;
        let end = Ord::min(begin.saturating_add(plan.chunk), plan.length);
        let mut r = begin + ty;
        // Each place follows from the one before: that takes fewer instructions than a multiplication for each.
        let (mut next, stride) = (
            base.wrapping_add(r.wrapping_mul(plan.step)),
            rows.wrapping_mul(plan.step),
        );
        while r + (IN_FLIGHT - 1) * rows < end {
            let words: [u32; IN_FLIGHT] = cuda_std::array::from_fn(|_| {
                let place = next;
                next = next.wrapping_add(stride);
                // SAFETY: of rows before the column's end, of four columns that are within `x`, as just asked, and
                // aligned.
                unsafe { self.word(place) }
            });
            sums = add(sums, words);
            r += IN_FLIGHT * rows;
        }
        while r < end {
            let words: [u32; LAST_IN_FLIGHT] = cuda_std::array::from_fn(|k| {
                let row = r + k * rows;
                // Loaded in any case, so that all are in flight at once.
                // SAFETY: as above.
                let word = unsafe { self.word(base + Ord::min(row, end - 1) * plan.step) };
                if row < end { word } else { 0 }
            });
            sums = add(sums, words);
            r += LAST_IN_FLIGHT * rows;
        }
        sums
    }

    /// The word at `place`.
    ///
    /// # Safety
    ///
    /// The four bytes are within `x`, and aligned.
    #[inline(always)]
    unsafe fn word(&self, place: usize) -> u32 {
        // SAFETY: the caller's promise.
        let bytes: [T; WORD] = unsafe { self.x.load_vec_unchecked::<WORD>(place) };
        let mut word = [0; WORD];
        word.copy_from_slice(&bytemuck::bytes_of(&bytes)[..WORD]);
        u32::from_le_bytes(word)
    }
}

/// The sums, and the bytes of some words.
#[inline(always)]
fn add<const N: usize>([mut even, mut odd]: [u32; 2], words: [u32; N]) -> [u32; 2] {
    for k in 0..N {
        even += words[k] & HALVES;
        odd += byte_perm(words[k], 0, 0x4341);
    }
    [even, odd]
}

#[cfg(test)]
mod tests {
    use super::super::ColumnPlan;
    use super::*;

    #[test]
    fn halves_have_room_for_a_chunk() {
        assert_eq!(ROOM * usize::from(u8::MAX), usize::from(u16::MAX));
        for columns in [4, 32, 100, 4_096, 65_536, 1 << 22] {
            for length in [1, 9, 100, 6_143, 100_000, 1 << 24] {
                let plan = ColumnPlan::new::<u8>(columns, length, columns, 0);
                assert!(plan.chunk < ROOM * WORD * plan.height as usize, "{plan:?}");
            }
        }
    }

    #[test]
    fn bytes_are_added_beside_one_another() {
        // From the least significant byte on: 3, 255, 1 and 255.
        let sums = (0..ROOM).fold([0; 2], |sums, _| add(sums, [0xFF01_FF03]));
        assert_eq!(sums, [(257 << 16) | (3 * 257), 0xFFFF_FFFF]);
    }
}
