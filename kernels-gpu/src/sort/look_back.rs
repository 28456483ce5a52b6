// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many elements with a digit are in the tiles before, by decoupled look-back (D. Merrill, M. Garland, "Single-pass Parallel Prefix
//! Scan with Decoupled Look-back", 2016): for each digit by itself, by a thread of its own.
//!
//! A tile's state is a word for each digit: a number of 30 bits, how many elements with it the tile has (an *aggregate*), or all
//! tiles of its part up to and with it (a *prefix*), and above it which of them. After a pass all are prefixes; to the next one this
//! says that nothing is known, for flags are changed by the pass's number: so states are cleared but once.
//!
//! The library's scans have a warp look at the states of 32 tiles, and one value. Here a warp looks at 32 digits of one tile, which are
//! side by side, and at some tiles ahead of it at once.

use cuda_block::lookback::{AGGREGATE, INVALID, PAUSE, PREFIX};
use cuda_std::prelude::*;

use super::DIGITS;
use super::control::Control;

/// Tiles that are looked at together.
const LOOKS: usize = 4;

/// Bits of a number.
const BITS: u32 = 30;

/// What a tile's block tells others, and learns of them.
#[derive(Clone, Copy)]
pub(super) struct LookBack<'a> {
    control: Control<'a>,
    states: SliceMut<'a, u32>,
    /// That of the pass.
    number: u32,
    tile: u32,
    tiles_of_part: u32,
    /// The number of the tile in its part.
    in_part: u32,
}

impl<'a> LookBack<'a> {
    /// That of a tile in a pass.
    ///
    /// # Safety
    ///
    /// There are [`DIGITS`] states for each tile up to and with this one. `tiles_of_part` is not 0.
    #[inline(always)]
    pub(super) unsafe fn new(
        control: Control<'a>,
        states: SliceMut<'a, u32>,
        number: u32,
        tile: u32,
        tiles_of_part: u32,
    ) -> Self {
        Self {
            control,
            states,
            number,
            tile,
            tiles_of_part,
            in_part: tile % tiles_of_part,
        }
    }

    /// A state's flag as it is in this pass, or back.
    #[inline(always)]
    fn in_pass(self, state: u32) -> u32 {
        state ^ self.number << 31
    }

    /// Makes the tile's state of a digit.
    ///
    /// # Safety
    ///
    /// The digit is less than [`DIGITS`].
    #[inline(always)]
    unsafe fn tell(self, digit: usize, flag: u32, count: u32) {
        let state = self.in_pass(flag << BITS | count & ((1 << BITS) - 1));
        // SAFETY: the promises of `new` and of the caller.
        unsafe { self.states.atomic_unchecked(self.tile as usize * DIGITS + digit) }.store(state);
    }

    /// The flag and the number of a tile.
    ///
    /// # Safety
    ///
    /// The tile is no later one, and the digit less than [`DIGITS`].
    #[inline(always)]
    unsafe fn state(self, tile: u32, digit: usize) -> (u32, u32) {
        // SAFETY: the promises of `new` and of the caller.
        let state = self.in_pass(unsafe { self.states.atomic_unchecked(tile as usize * DIGITS + digit) }.load());
        (state >> BITS, state & ((1 << BITS) - 1))
    }

    /// Tells others how many elements with a digit the tile has. Of what is no digit, nothing.
    #[inline(always)]
    pub(super) fn publish(self, digit: usize, count: u32) {
        if digit < DIGITS {
            let flag = if self.in_part == 0 { PREFIX } else { AGGREGATE };
            // SAFETY: as just asked.
            unsafe { self.tell(digit, flag, count) };
        }
    }

    /// Where the tile's elements with a digit go, and tells others what is up to and with the tile; none of what is no digit.
    #[inline(always)]
    pub(super) fn find(self, digit: usize, count: u32) -> Option<u32> {
        if digit >= DIGITS {
            return None;
        }
        // SAFETY (of both): as just asked.
        let before = unsafe { self.look_back(digit) };
        let all = before.wrapping_add(count);
        if self.in_part != 0 {
            unsafe { self.tell(digit, PREFIX, all) };
        }
        let (number, part) = (self.number as usize, (self.tile / self.tiles_of_part) as usize);
        let begin = self.control.begin(number, part, digit);
        if self.in_part == self.tiles_of_part - 1 {
            self.control.set_begin(number, part + 1, digit, begin.wrapping_add(all));
        }
        Some(begin.wrapping_add(before))
    }

    /// How many elements with a digit the part's tiles before this one have.
    ///
    /// # Safety
    ///
    /// The digit is less than [`DIGITS`].
    #[inline(always)]
    unsafe fn look_back(self, digit: usize) -> u32 {
        let (mut before, mut left) = (0u32, self.in_part);
        while left > 0 {
            let end = self.tile - self.in_part + left;
            // On their way together; of fewer tiles the part's first one again.
            let looked: [(u32, u32); LOOKS] = cuda_std::array::from_fn(|i| {
                // SAFETY: at most `left` tiles before the end, which is this tile at most; the digit is the caller's promise.
                unsafe { self.state(end - Ord::min(i as u32 + 1, left), digit) }
            });
            let mut waits = false;
            for i in 0..LOOKS {
                let (flag, count) = looked[i];
                waits |= flag == INVALID;
                if !waits && left > 0 {
                    before = before.wrapping_add(count);
                    left = if flag == PREFIX { 0 } else { left - 1 };
                }
            }
            if waits && left > 0 {
                thread::nanosleep(PAUSE);
            }
        }
        before
    }

    /// Leaves the states as other passes do, in one that asks for none.
    #[inline(always)]
    pub(super) fn pass_by(self) {
        let digit = thread::thread_idx_x() as usize;
        if digit < DIGITS {
            // SAFETY: as just asked.
            unsafe { self.tell(digit, PREFIX, 0) };
        }
    }
}
