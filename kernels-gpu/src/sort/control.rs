// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the launches of one sort tell one another: an array of words, all 0 at first.
//!
//! It has the tickets of the passes, whether all elements have the same digit in one, and, for each pass and each part of the tiles,
//! where the elements with a digit begin that the part has: of the first part from the launch that counts on, of the others as soon
//! as the part before them is known.
//!
//! Parts there are because the states of tiles (`look_back`) have room for numbers of 30 bits.

use cuda_std::atomic::{Atomic, Device, Global};
use cuda_std::prelude::*;

use super::{DIGIT_BITS, DIGITS, Word, tile_len};

/// The most passes: for each byte of an element, and of a row's number.
const MOST_PASSES: usize = 12;

/// Where it stands how many blocks have counted.
const COUNTED: usize = 0;

/// Where the tickets of the passes begin.
const TICKETS: usize = 1;

/// Where it begins which passes have one digit alone.
const ALIKE: usize = TICKETS + MOST_PASSES;

/// Where the numbers of the passes' first elements begin.
const BEGINS: usize = ALIKE + MOST_PASSES;

/// What the first element's number goes with when it is known.
const IS_KNOWN: u64 = 1 << 63;

/// The words for so many passes, and parts of the tiles.
pub const fn len(passes: usize, parts: usize) -> usize {
    BEGINS + passes * parts * DIGITS
}

/// The tiles of a part, in which what is counted has 30 bits.
pub const fn tiles_of_part<T: Word>() -> u32 {
    ((1 << 30) - 1) / tile_len::<T>() as u32
}

/// The passes by the numbers of so many rows.
pub const fn row_passes(rows: u32) -> usize {
    let bits = u32::BITS - rows.saturating_sub(1).leading_zeros();
    bits.div_ceil(DIGIT_BITS) as usize
}

/// How many elements of `rows` rows of `row_len` are in a row whose number has that digit, with `number` lower ones; of all rows fewer
/// than 2^32.
pub fn elements_of_rows(number: usize, digit: u32, rows: u32, row_len: u32) -> u32 {
    let shift = number as u32 * DIGIT_BITS;
    // Rows with the digit follow one another, as many as there are lower numbers, and then others come.
    let (rows, cycle_bits) = (u64::from(rows), shift + DIGIT_BITS);
    let (whole, rest) = ((rows >> cycle_bits) << shift, rows & ((1 << cycle_bits) - 1));
    let in_rest = rest.saturating_sub(u64::from(digit) << shift);
    let more = Ord::min(in_rest, 1 << shift);
    ((whole + more) as u32).wrapping_mul(row_len)
}

/// The words.
#[derive(Clone, Copy)]
pub(super) struct Control<'a> {
    words: SliceMut<'a, u64>,
    parts: usize,
}

impl<'a> Control<'a> {
    /// These words, if there are enough.
    #[inline(always)]
    pub(super) fn new(words: SliceMut<'a, u64>, passes: usize, parts: u32) -> Option<Self> {
        let parts = parts as usize;
        (passes <= MOST_PASSES && words.len() >= len(passes, parts)).then_some(Self { words, parts })
    }

    /// A word. Beyond all of them the last one: so none is left, and nothing to report.
    #[inline(always)]
    fn word(self, at: usize) -> Atomic<'a, u64, Global, Device> {
        // SAFETY: there are the words for the tickets at least.
        unsafe { self.words.atomic_unchecked(Ord::min(at, self.words.len() - 1)) }
    }

    /// That of a digit.
    #[inline(always)]
    fn of_digit(self, number: usize, part: usize, digit: usize) -> Atomic<'a, u64, Global, Device> {
        self.word(BEGINS + (number * self.parts + part) * DIGITS + digit)
    }

    /// Adds to how often a digit occurs in a pass.
    #[inline(always)]
    pub(super) fn add_count(self, number: usize, digit: usize, count: u32) {
        if count != 0 {
            self.of_digit(number, 0, digit).fetch_add(count.into());
        }
    }

    /// Whether all other blocks have been asked this before; by one thread, behind a barrier.
    #[inline(always)]
    pub(super) fn is_last_to_count(self) -> bool {
        let before = self.word(COUNTED).fetch_add_ordered(1);
        before as u32 == thread::grid_dim_x() - 1
    }

    /// How often a digit occurs in a pass.
    #[inline(always)]
    pub(super) fn count(self, number: usize, digit: usize) -> u32 {
        self.of_digit(number, 0, digit).load() as u32
    }

    /// Says where the elements of a part with that digit begin. Of a part that there is not, nothing.
    #[inline(always)]
    pub(super) fn set_begin(self, number: usize, part: usize, digit: usize, begin: u32) {
        if part < self.parts {
            self.of_digit(number, part, digit).store(IS_KNOWN | u64::from(begin));
        }
    }

    /// Where they begin; waits until it is known.
    #[inline(always)]
    pub(super) fn begin(self, number: usize, part: usize, digit: usize) -> u32 {
        let word = self.of_digit(number, part, digit);
        loop {
            let begin = word.load();
            if begin & IS_KNOWN != 0 {
                return begin as u32;
            }
            thread::nanosleep(cuda_block::lookback::PAUSE);
        }
    }

    /// Says that all elements have one digit in a pass.
    #[inline(always)]
    pub(super) fn set_alike(self, number: usize) {
        self.word(ALIKE + number).store(1);
    }

    /// Whether they have.
    #[inline(always)]
    pub(super) fn is_alike(self, number: usize) -> bool {
        self.word(ALIKE + number).load() != 0
    }

    /// The number of a tile, in the order in which blocks ask: so each waits for blocks that have begun.
    #[inline(always)]
    pub(super) fn ticket(self, number: usize) -> u32 {
        let ticket = self.word(TICKETS + number).fetch_add(1);
        Ord::min(ticket, u32::MAX.into()) as u32
    }
}
