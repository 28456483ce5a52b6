// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of columns of bytes, of which a thread adds four at a time.
//!
//! A thread that loads byte by byte has too few bytes on their way for memory: on an H200, columns were summed at 44% of
//! the speed of a copy. So where a thread's columns are a word of each row, it adds the first and
//! third byte of it as the halves of one number, the second and fourth as those of another: two masks, a shift and two
//! additions for four bytes. A half has room for 257 bytes, more than a thread has in flight; then they are added to numbers of
//! 32 bits, which have room for a chunk.

use bytemuck::Pod;
use cuda_std::array::from_fn;
use cuda_std::bits::byte_perm;
use cuda_std::prelude::*;

use super::columns::{Columns, Share};

/// Columns of a word.
const WORD: usize = 4;

/// Words that a thread has in flight.
const IN_FLIGHT: usize = 8;

/// Those of them that it has at the end of a chunk.
const LAST_IN_FLIGHT: usize = 4;

/// The first and third byte of a word, as halves.
const HALVES: u32 = 0x00FF_00FF;

/// The bytes that a half has room for.
const ROOM: usize = u16::MAX as usize / u8::MAX as usize;

const _: () = assert!(IN_FLIGHT <= ROOM);

impl<T: Pod, A: Pod, R: Pod> Columns<'_, T, A, R> {
    /// The sums of a thread's share of its columns, which are vectors of four bytes; of all its long rows there are all rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn sums_of_words(&self, share: &Share) -> [u32; WORD] {
        let (mut sums, mut r, height) = ([0; WORD], 0, self.plan.height);
        // Each place follows from the one before: that takes fewer instructions than a multiplication for each.
        let (mut place, stride) = (share.place, (height as usize).wrapping_mul(share.step));
        while r + (IN_FLIGHT as u32 - 1) * height < share.len {
            let words: [u32; IN_FLIGHT] = from_fn(|_| {
                let at = place;
                place = place.wrapping_add(stride);
                // SAFETY: of rows before the share's end, of four columns that are within `x`, and aligned.
                unsafe { self.word(at) }
            });
            sums = add(sums, words);
            r += IN_FLIGHT as u32 * height;
        }
        while r < share.len {
            let words: [u32; LAST_IN_FLIGHT] = from_fn(|k| {
                let row = r + k as u32 * height;
                // Loaded in any case, so that all are in flight at once.
                let last = Ord::min(row, share.len - 1) as usize;
                // SAFETY: as above.
                let word = unsafe { self.word(share.place.wrapping_add(last.wrapping_mul(share.step))) };
                if row < share.len { word } else { 0 }
            });
            sums = add(sums, words);
            r += LAST_IN_FLIGHT as u32 * height;
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

/// The sums of columns, and of some words of theirs.
#[inline(always)]
fn add<const N: usize>(sums: [u32; WORD], words: [u32; N]) -> [u32; WORD] {
    let (mut even, mut odd) = (0, 0);
    for k in 0..N {
        even += words[k] & HALVES;
        odd += byte_perm(words[k], 0, 0x4341);
    }
    [
        sums[0] + (even & 0xFFFF),
        sums[1] + (odd & 0xFFFF),
        sums[2] + (even >> 16),
        sums[3] + (odd >> 16),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_added_beside_one_another() {
        // From the least significant byte on: 3, 255, 1 and 255.
        let sums = add([1, 0, 0, 0], [0xFF01_FF03; ROOM]);
        assert_eq!(sums, [1 + 3 * 257, 255 * 257, 257, 255 * 257]);
    }
}
