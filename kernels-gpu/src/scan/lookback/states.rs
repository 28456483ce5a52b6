// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states of tiles, and the look back at them.
//!
//! An array of `u64`: the ticket counter, then the states of the tiles. A value is stored in pieces of 4 bytes, each a
//! word together with the flag, which is read and written at once: a value whose pieces have the same flag is whole,
//! since each flag is stored once. So there is nothing to order, and one access for each piece.
//!
//! The array is all zero at first, and need not be cleared between launches: the upper half of the counter is the
//! number of the launch, its *epoch*, which every flag is counted from. The lower half is set back by who gets the last
//! ticket.

use bytemuck::Pod;
use cuda_std::prelude::*;

use super::MAX_VALUE;
use crate::op::ReduceOp;

/// How many times 32 tiles a warp looks at, at first: as many as were scanned since the last prefix, as a rule.
const LOOKS: usize = 4;

/// Every so many tiles, the last of them publishes its prefix. A state that was read and is written is dear: where
/// every tile publishes its prefix, the scan takes a tenth longer, though nobody waits for it.
const PREFIX_EVERY: usize = 32;

/// The most pieces of a value.
const MAX_PIECES: usize = MAX_VALUE / PIECE;

/// Bytes of a value that a word has room for.
const PIECE: usize = 4;

/// A tile whose total is not known yet; what zeros say in the first launch.
pub(in crate::scan) const INVALID: u32 = 0;

/// A tile whose total is known.
pub(in crate::scan) const AGGREGATE: u32 = 1;

/// A tile of which all up to and with it is known.
pub(in crate::scan) const PREFIX: u32 = 2;

/// How long a warp waits before it looks at a state again, in nanoseconds: less than such a look takes.
pub(in crate::scan) const PAUSE: u32 = 64;

/// Words of the state for `tiles` tiles and values of type `A`: one for the ticket, and for each tile one for each 4
/// bytes of a value.
pub const fn state_len<A>(tiles: usize) -> usize {
    1 + tiles * size_of::<A>().div_ceil(PIECE)
}

/// The state of a launch: a ticket counter, and for each tile a value of type `A` with its flag.
pub(in crate::scan) struct States<'a, A> {
    words: SliceMut<'a, u64>,
    /// The number of the launch, times 4: what the flags are counted from.
    epoch: u32,
    _value: core::marker::PhantomData<A>,
}

impl<A> Clone for States<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for States<'_, A> {}

impl<'a, A: Pod> States<'a, A> {
    /// The words of a value.
    const PIECES: usize = size_of::<A>().div_ceil(PIECE);

    #[inline(always)]
    pub(in crate::scan) fn new(words: SliceMut<'a, u64>) -> Self {
        const { assert!(size_of::<A>() <= MAX_VALUE && align_of::<A>() <= 16) };
        Self {
            words,
            epoch: 0,
            _value: core::marker::PhantomData,
        }
    }

    /// The epoch, in the upper half, and the next number in the order in which it is asked for. Number `last` is the
    /// last that is asked for: the counter is made ready for the next launch.
    #[inline(always)]
    fn draw(self, last: u32) -> u64 {
        let counter = self.words.atomic(0);
        let drawn = counter.fetch_add(1);
        if drawn as u32 == last {
            counter.store(((drawn >> 32) + 1) << 32);
        }
        drawn
    }

    /// The next number in the order in which it is asked for; without a state, a number beyond all tiles.
    #[inline(always)]
    pub(super) fn take_ticket(self, last: u32) -> u32 {
        if self.words.is_empty() {
            u32::MAX
        } else {
            self.draw(last) as u32
        }
    }

    /// A ticket for the block, the same for all of its threads, which all call it, once, before anything else. Without
    /// a state, 0.
    #[inline(always)]
    pub(in crate::scan) fn ticket(&mut self, last: u32) -> u32 {
        if self.words.is_empty() {
            return 0;
        }
        let shared = shared_array![u64; 1];
        if thread::thread_idx_x() == 0 {
            shared.set(0, self.draw(last));
        }
        thread::sync_threads();
        let drawn = shared.get(0);
        self.epoch = (drawn >> 32) as u32 * 4;
        drawn as u32
    }

    /// What stands before `tile` in its row; publishes the tile's prefix then, with the tile's own `total`, if it is
    /// one of those that do. Called by all lanes of one warp.
    #[inline(always)]
    pub(super) fn prefix<T, Op: ReduceOp<T, Acc = A>>(self, tile: usize, in_row: usize, total: A) -> A {
        if in_row == 0 {
            return Op::identity();
        }
        let first_of_row = tile - in_row;
        // As many on their way at once as are not prefixes yet, as a rule.
        let looked: [(u32, A); LOOKS] =
            core::array::from_fn(|w| self.before::<T, Op>(tile, first_of_row, 32 * (w + 1)));
        let (mut prefix, mut end, mut flag) = (Op::identity(), tile, AGGREGATE);
        for w in 0..LOOKS {
            if flag == AGGREGATE {
                let value;
                (flag, value) = Self::window::<T, Op>(looked[w]);
                if flag != INVALID {
                    prefix = Op::combine(warp::shuffle(warp::FULL_MASK, value, 31), prefix);
                }
                if flag == AGGREGATE {
                    end -= 32;
                }
            }
        }
        if flag != PREFIX {
            prefix = Op::combine(self.look_back::<T, Op>(end, first_of_row), prefix);
        }
        if in_row % PREFIX_EVERY == PREFIX_EVERY - 1 && warp::lane_id() == 0 {
            self.publish(tile, PREFIX, Op::combine(prefix, total));
        }
        prefix
    }

    /// Combines tiles `first_of_row .. tile`, 32 at a time, until one is a prefix. Called by all lanes of one warp.
    #[inline(always)]
    fn look_back<T, Op: ReduceOp<T, Acc = A>>(self, tile: usize, first_of_row: usize) -> A {
        let mut prefix = Op::identity();
        let mut end = tile;
        loop {
            let (flag, value) = Self::window::<T, Op>(self.before::<T, Op>(end, first_of_row, 32));
            if flag == INVALID {
                thread::nanosleep(PAUSE);
                continue;
            }
            prefix = Op::combine(warp::shuffle(warp::FULL_MASK, value, 31), prefix);
            if flag == PREFIX {
                return prefix;
            }
            end -= 32;
        }
    }

    /// The state of tile `end - back + lane`; before the row, all is known, and nothing.
    #[inline(always)]
    fn before<T, Op: ReduceOp<T, Acc = A>>(self, end: usize, first_of_row: usize, back: usize) -> (u32, A) {
        let shifted = end + warp::lane_id() as usize;
        if shifted >= first_of_row + back {
            self.value(shifted - back)
        } else {
            (PREFIX, Op::identity())
        }
    }

    /// What the states of 32 tiles, one for each lane, say together: from the nearest prefix on, combined, in lane 31;
    /// or all of them, an aggregate, where there is none; or that one of those is still invalid.
    #[inline(always)]
    fn window<T, Op: ReduceOp<T, Acc = A>>((flag, value): (u32, A)) -> (u32, A) {
        let invalid = warp::ballot(warp::FULL_MASK, flag == INVALID);
        let prefixes = warp::ballot(warp::FULL_MASK, flag == PREFIX);
        let nearest = if prefixes == 0 { 0 } else { prefixes.ilog2() };
        if invalid >> nearest != 0 {
            return (INVALID, Op::identity());
        }
        let is_counted = warp::lane_id() >= nearest;
        let value = if is_counted { value } else { Op::identity() };
        let flag = if prefixes == 0 { AGGREGATE } else { PREFIX };
        (flag, warp::inclusive_scan(value, Op::combine))
    }

    /// Makes the value of a tile known to the other blocks.
    #[inline(always)]
    pub(in crate::scan) fn publish(self, tile: usize, flag: u32, value: A) {
        let mut pieces = [0u32; MAX_PIECES];
        bytemuck::bytes_of_mut(&mut pieces)[..size_of::<A>()].copy_from_slice(bytemuck::bytes_of(&value));
        let first = 1 + tile * Self::PIECES;
        for p in 0..Self::PIECES {
            if first + p < self.words.len() {
                let word = u64::from(self.epoch + flag) << 32 | u64::from(pieces[p]);
                self.words.atomic(first + p).store(word);
            }
        }
    }

    /// The flag of a tile, and its value, if it is valid. Beyond the state all is known, so that nobody waits there.
    #[inline(always)]
    pub(in crate::scan) fn value(self, tile: usize) -> (u32, A) {
        let first = 1 + tile * Self::PIECES;
        if first + Self::PIECES > self.words.len() {
            return (PREFIX, A::zeroed());
        }
        // SAFETY: within the words, as just asked.
        let load = |p: usize| unsafe { self.words.atomic_unchecked(first + p) }.load();
        let mut pieces = [0u32; MAX_PIECES];
        let (mut flag, mut is_whole) = (INVALID, true);
        for p in 0..Self::PIECES {
            let word = load(p);
            let other = (word >> 32) as u32;
            is_whole &= p == 0 || other == flag;
            (flag, pieces[p]) = (other, word as u32);
        }
        // What an earlier launch has left is no flag.
        flag = flag.wrapping_sub(self.epoch);
        if !is_whole || flag > PREFIX {
            flag = INVALID;
        }
        let mut value = A::zeroed();
        bytemuck::bytes_of_mut(&mut value).copy_from_slice(&bytemuck::bytes_of(&pieces)[..size_of::<A>()]);
        (flag, value)
    }
}
