// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of lines, which are one stretch of memory on both sides but begin anywhere: 16 aligned bytes of the output at a
//! time, of the aligned words of the input that have them, moved into place.

use cuda_std::prelude::*;

use super::plan::{Lines, Place};
use super::{CHUNK, STRIDED_THREADS};

/// The bytes of a word of the input.
const WORD: usize = 4;

/// The words that have a chunk's bytes, which may begin between two.
const WORDS: usize = CHUNK / WORD + 1;

/// A chunk: 16 aligned bytes of the output, of which those from `begin` to `end` are a line's. Places are counted in bytes
/// from the chunk's first.
struct Chunk<'a> {
    x: &'a [u8],
    out: SliceMut<'a, u8>,
    /// The chunk's first byte on either side; where the line begins behind it, numbers that wrap around.
    first: Place,
    /// Where the line begins and ends, as far as it is near.
    begin: i32,
    end: i32,
    /// How far the chunk is behind a word of the input.
    shift: i32,
    /// Whether some word has bytes of the line and others.
    has_bytes: bool,
}

impl<'a> Chunk<'a> {
    /// The chunk of this thread of such a block, if there is one and its line is in bounds.
    #[inline(always)]
    fn new(x: &'a [u8], plan: &Lines, out: SliceMut<'a, u8>, block: u32) -> Option<Self> {
        let index = block
            .wrapping_mul(STRIDED_THREADS as u32)
            .wrapping_add(thread::thread_idx_x());
        if index >= plan.count {
            return None;
        }
        let (rest, chunk) = plan.chunks.div_rem(index);
        let first = Place {
            x: plan.x_first,
            out: plan.out_first,
        };
        let line = first.along(&plan.axes, plan.rank, rest);
        let within = |first: u64, len: usize| first <= len as u64 && plan.len <= len as u64 - first;
        if !within(line.x, x.len()) || !within(line.out, out.len()) {
            return None;
        }
        let phase = (out.as_ptr().addr() as u64).wrapping_add(line.out) % CHUNK as u64;
        // The chunk's place in the line.
        let place = (chunk as u64 * CHUNK as u64) as i64 - phase as i64;
        let near = |distance: i64| Ord::clamp(distance, -64, 64) as i32;
        let first = Place {
            x: line.x.wrapping_add(place as u64),
            out: line.out.wrapping_add(place as u64),
        };
        let (begin, end) = (near(-place), near((plan.len as i64).wrapping_sub(place)));
        let shift = (x.as_ptr().addr() as u64).wrapping_add(first.x) % WORD as u64;
        Some(Self {
            x,
            out,
            first,
            begin,
            end,
            shift: shift as i32,
            has_bytes: (shift as i32 | begin | end) % WORD as i32 != 0,
        })
    }

    /// Whether so many bytes from `at` on are the line's.
    #[inline(always)]
    fn has(&self, at: i32, bytes: usize) -> bool {
        at >= self.begin && at + bytes as i32 <= self.end
    }

    /// Byte `at`, if it is the line's, else zero.
    #[inline(always)]
    fn byte(&self, at: i32) -> u32 {
        if !self.has(at, 1) {
            return 0;
        }
        // SAFETY: a byte of the line, which is in bounds.
        let [byte] = unsafe {
            self.x
                .load_vec_unchecked::<1>(self.first.x.wrapping_add(at as u64) as usize)
        };
        byte.into()
    }

    /// The word of the input that begins with byte `at`.
    ///
    /// # Safety
    ///
    /// It is aligned, and all of it is the line's.
    #[inline(always)]
    unsafe fn word(&self, at: i32) -> u32 {
        let at = self.first.x.wrapping_add(at as u64) as usize;
        // SAFETY: the line is in bounds, and the caller's promise.
        u32::from_le_bytes(unsafe { self.x.load_vec_unchecked::<WORD>(at) })
    }

    /// The aligned words of the input with the chunk's bytes; what is not the line's is zero.
    #[inline(always)]
    fn words(&self) -> [u32; WORDS] {
        let at = |k: usize| (k * WORD) as i32 - self.shift;
        if self.has(-self.shift, CHUNK) && (self.shift == 0 || self.has(at(WORDS - 1), WORD)) {
            return cuda_std::array::from_fn(|k| {
                // Where the input's words begin as the output's do, the last one has none of the bytes.
                if k == WORDS - 1 && self.shift == 0 {
                    return 0;
                }
                // SAFETY: an aligned word of the line.
                unsafe { self.word(at(k)) }
            });
        }
        let mut words = cuda_std::array::from_fn(|k| {
            if !self.has(at(k), WORD) {
                return 0;
            }
            // SAFETY: an aligned word of the line.
            unsafe { self.word(at(k)) }
        });
        if self.has_bytes {
            self.load_edge(self.begin, &mut words);
            self.load_edge(self.end, &mut words);
        }
        words
    }

    /// Loads the line's bytes of the word of the input in which the line begins, or ends, if that is one of those.
    #[inline(always)]
    fn load_edge(&self, edge: i32, words: &mut [u32; WORDS]) {
        let index = (edge + self.shift) >> 2;
        let first = index * WORD as i32 - self.shift;
        if index < 0 || index >= WORDS as i32 || self.has(first, WORD) {
            return;
        }
        let mut word = 0;
        for j in 0..WORD as i32 {
            word |= self.byte(first + j) << (8 * j);
        }
        for k in 0..WORDS {
            if k as i32 == index {
                words[k] = word;
            }
        }
    }

    /// Writes the line's bytes of the word of the output in which the line begins, or ends, if that is one of those.
    #[inline(always)]
    fn store_edge(&self, edge: i32, words: &[u32; WORDS - 1]) {
        let index = edge >> 2;
        let first = index * WORD as i32;
        if index < 0 || index >= WORDS as i32 - 1 || self.has(first, WORD) {
            return;
        }
        let mut word = 0;
        for k in 0..WORDS - 1 {
            if k as i32 == index {
                word = words[k];
            }
        }
        for j in 0..WORD as i32 {
            if self.has(first + j, 1) {
                let at = self.first.out.wrapping_add((first + j) as u64) as usize;
                // SAFETY: a byte of the line, which is in bounds.
                unsafe { self.out.set_vec_unchecked(at, [(word >> (8 * j)) as u8]) };
            }
        }
    }

    /// Writes the bytes that are the line's.
    #[inline(always)]
    fn store(&self, words: [u32; WORDS - 1]) {
        let place = |at: i32| self.first.out.wrapping_add(at as u64) as usize;
        if self.has(0, CHUNK) {
            // SAFETY: bytes of the line, which is in bounds; the chunk is aligned.
            unsafe {
                self.out
                    .set_vec_unchecked::<CHUNK>(place(0), bytemuck::cast(words.map(u32::to_le)))
            };
            return;
        }
        for k in 0..WORDS - 1 {
            let at = (k * WORD) as i32;
            if self.has(at, WORD) {
                // SAFETY: as above; a word of the chunk is aligned.
                unsafe { self.out.set_vec_unchecked::<WORD>(place(at), words[k].to_le_bytes()) };
            }
        }
        if self.has_bytes {
            self.store_edge(self.begin, &words);
            self.store_edge(self.end, &words);
        }
    }
}

/// Copies the chunk of this thread of such a block.
#[inline(always)]
pub(super) fn copy(x: &[u8], plan: &Lines, out: SliceMut<'_, u8>, block: u32) {
    if let Some(chunk) = Chunk::new(x, plan, out, block) {
        let words = chunk.words();
        chunk.store(cuda_std::array::from_fn(|k| {
            let both = u64::from(words[k]) | u64::from(words[k + 1]) << 32;
            (both >> (8 * chunk.shift)) as u32
        }));
    }
}
