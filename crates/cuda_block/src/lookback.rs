// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoupled look-back: what the blocks of a grid tell one another about the tiles of a scan.
//!
//! D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016): a block publishes the
//! total of its tile as an [`AGGREGATE`], and finds what stands before the tile by looking back at the states of the
//! tiles before it, from the nearest [`PREFIX`] on, one that says all up to and with its tile.
//!
//! The states are an array of `u64`: the ticket counter, then the tiles'. A value is stored in pieces of 4 bytes, each a
//! word together with the flag, which is read and written at once: a value whose pieces have the same flag is whole,
//! since each flag is stored once. So there is nothing to order, and one access for each piece.
//!
//! The array is all zero at first, and need not be cleared between launches: the upper half of the counter is the
//! number of the launch, its *epoch*, which every flag is counted from. The lower half is set back by who gets the last
//! ticket.
//!
//! # What an array of other contents does
//!
//! Values are then unspecified, and a block that waits for a tile which no block has may wait for ever. That is as safe
//! as a loop without an end: no access leaves the array, whatever it holds and however short it is.
//!
//! # Determinism
//!
//! Values are combined in the order of the tiles, but how they are grouped depends on how far a block looks back, and so
//! on timing: rounded results may differ in the last bits from run to run.
//!
//! # Examples
//!
//! The sums of a whole array in one pass, a tile of 256 elements for each block:
//!
//! ```
//! use cuda_block::lookback::{AGGREGATE, PREFIX, States, state_len};
//! use cuda_block::storage;
//! use cuda_std::prelude::*;
//!
//! #[kernel(max_threads = 256)]
//! pub fn prefix_sums(x: &[u32], state: SliceMut<'_, u64>, out: SliceMut<'_, u32>) {
//!     let mut states = States::<u32>::new(state);
//!     // By the order in which blocks start, so that whoever waits, waits for blocks that run.
//!     let tile = states.ticket(storage![u64; 1], |ticket| ticket == thread::grid_dim_x() - 1) as usize;
//!     let i = tile * 256 + thread::thread_idx_x() as usize;
//!     let value = if i < x.len() { x[i] } else { 0 };
//!     let (scanned, _) = storage![u32; 8].exclusive_scan::<256>(value, 0, |a, b| a + b);
//!     let prefix = shared_array![u32; 1];
//!     if thread::thread_idx_x() < 32 {
//!         if thread::thread_idx_x() == 0 {
//!             states.publish(tile, if tile == 0 { PREFIX } else { AGGREGATE }, scanned.total);
//!         }
//!         let before = states.prefix(tile, tile, scanned.total, 0, |a, b| a + b);
//!         prefix.set(0, before);
//!     }
//!     thread::sync_threads();
//!     if i < out.len() {
//!         out.set(i, prefix.get(0) + scanned.before + value);
//!     }
//! }
//! # let (x, mut state, mut out) = (vec![1u32; 5000], vec![0u64; state_len::<u32>(20)], vec![0u32; 5000]);
//! # let (states, address) = (state.as_mut_ptr() as usize, out.as_mut_ptr() as usize);
//! # cuda_sim::launch("prefix_sums", &cuda_sim::LaunchConfig::new(20, 256), &|| {
//! #     // SAFETY (of both): as many elements, which only the launch accesses.
//! #     let state = unsafe { SliceMut::from_raw_parts(states as *mut u64, state_len::<u32>(20)) };
//! #     prefix_sums(&x, state, unsafe { SliceMut::from_raw_parts(address as *mut u32, 5000) });
//! # })?;
//! # assert!((0..5000).all(|i| out[i] as usize == i + 1));
//! # Ok::<(), cuda_sim::Error>(())
//! ```

use bytemuck::Pod;
use cuda_std::hint;
use cuda_std::prelude::*;

mod columns;

pub use columns::Columns;

use crate::MAX_VALUE;
use crate::storage::Storage;

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
pub const INVALID: u32 = 0;

/// A tile whose total is known.
pub const AGGREGATE: u32 = 1;

/// A tile of which all up to and with it is known.
pub const PREFIX: u32 = 2;

/// How long a warp waits before it looks at a state again, in nanoseconds: less than such a look takes.
pub const PAUSE: u32 = 64;

/// Words of the state for `tiles` tiles and values of type `A`: one for the ticket, and for each tile one for each 4
/// bytes of a value.
pub const fn state_len<A>(tiles: usize) -> usize {
    1 + tiles * size_of::<A>().div_ceil(PIECE)
}

/// The states of a launch: a ticket counter, and for each tile a value of type `A`, at most [`MAX_VALUE`] bytes, with its
/// flag.
pub struct States<'a, A> {
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

    /// The states in these words, which should be [`state_len`] many.
    #[inline(always)]
    pub fn new(words: SliceMut<'a, u64>) -> Self {
        const { assert!(size_of::<A>() <= MAX_VALUE && align_of::<A>() <= 16) };
        Self {
            words,
            epoch: 0,
            _value: core::marker::PhantomData,
        }
    }

    /// Whether the words have room for the first `tiles` tiles.
    ///
    /// Asked of the length each time, which is a parameter of the launch and so takes no register; of a number that
    /// comes from 32 bits the first condition is known.
    #[inline(always)]
    fn have(self, tiles: usize) -> bool {
        tiles <= usize::MAX >> 8 && tiles * Self::PIECES < self.words.len()
    }

    /// The epoch, in the upper half, and the next number in the order in which it is asked for. Behind the last that is
    /// asked for, the counter is made ready for the next launch.
    #[inline(always)]
    fn draw(self, is_last: impl Fn(u32) -> bool) -> u64 {
        let counter = self.words.atomic(0);
        let drawn = counter.fetch_add(1);
        if is_last(drawn as u32) {
            counter.store(((drawn >> 32) + 1) << 32);
        }
        drawn
    }

    /// The next number in the order in which it is asked for, for the thread that asks; without a state, a number beyond
    /// all tiles. `is_last` as [`ticket`](Self::ticket) has it.
    #[inline(always)]
    pub fn take_ticket(self, is_last: impl Fn(u32) -> bool) -> u32 {
        if self.words.is_empty() {
            u32::MAX
        } else {
            self.draw(is_last) as u32
        }
    }

    /// A ticket for the block, the same for all of its threads: the number of its tile, in the order in which blocks
    /// ask. `is_last` says of a number whether it is the last of the launch. Without a state, 0.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it, once, before anything else.
    #[inline(always)]
    #[track_caller]
    pub fn ticket(&mut self, storage: Storage<u64, 1>, is_last: impl Fn(u32) -> bool) -> u32 {
        if self.words.is_empty() {
            return 0;
        }
        let shared = storage.memory;
        if thread::thread_idx_x() == 0 {
            shared.set(0, self.draw(is_last));
        }
        thread::sync_threads();
        let drawn = shared.get(0);
        self.epoch = ((drawn >> 32) as u32).wrapping_mul(4);
        drawn as u32
    }

    /// What stands before `tile`, which is number `in_row` of its row, in that row; publishes the tile's prefix then,
    /// with the tile's own `total`, if it is one of those that do. Every lane receives it.
    ///
    /// `combine` must be associative, up to rounding; it need not be commutative. Of a tile that the states have no room
    /// for, and of one that comes before its own row, it is the identity.
    ///
    /// # Convergence
    ///
    /// All lanes of one warp call it.
    #[inline(always)]
    #[track_caller]
    pub fn prefix(self, tile: usize, in_row: usize, total: A, identity: A, combine: impl Fn(A, A) -> A + Copy) -> A {
        if in_row == 0 || in_row > tile || !self.have(tile) {
            return identity;
        }
        let first_of_row = tile - in_row;
        // As many on their way at once as are not prefixes yet, as a rule.
        let looked: [(u32, A); LOOKS] = cuda_std::array::from_fn(|w| {
            // SAFETY: the row has a tile before this one, which the words have room for, as just asked.
            unsafe { self.before(tile, first_of_row, 32 * (w + 1), identity) }
        });
        let (mut prefix, mut end, mut flag) = (identity, tile, AGGREGATE);
        for w in 0..LOOKS {
            if flag == AGGREGATE {
                let value;
                (flag, value) = Self::window(looked[w], identity, combine);
                if flag != INVALID {
                    prefix = combine(warp::shuffle(warp::FULL_MASK, value, 31), prefix);
                }
                if flag == AGGREGATE {
                    end -= 32;
                }
            }
        }
        if flag != PREFIX {
            // SAFETY: as above; `end` is less than `tile` by what is within the row.
            prefix = combine(unsafe { self.look_back(end, first_of_row, identity, combine) }, prefix);
        }
        if in_row % PREFIX_EVERY == PREFIX_EVERY - 1 && warp::lane_id() == 0 {
            self.publish(tile, PREFIX, combine(prefix, total));
        }
        prefix
    }

    /// Combines tiles `first_of_row .. tile`, 32 at a time, until one is a prefix. Called by all lanes of one warp.
    ///
    /// # Safety
    ///
    /// As [`before`](Self::before).
    #[inline(always)]
    unsafe fn look_back(self, tile: usize, first_of_row: usize, identity: A, combine: impl Fn(A, A) -> A + Copy) -> A {
        let mut prefix = identity;
        let mut end = tile;
        loop {
            // SAFETY: the caller's promise; `end` only falls.
            let state = unsafe { self.before(end, first_of_row, 32, identity) };
            let (flag, value) = Self::window(state, identity, combine);
            if flag == INVALID {
                thread::nanosleep(PAUSE);
                continue;
            }
            prefix = combine(warp::shuffle(warp::FULL_MASK, value, 31), prefix);
            if flag == PREFIX {
                return prefix;
            }
            end -= 32;
        }
    }

    /// The state of tile `end - back + lane`; before the row, all is known, and nothing.
    ///
    /// Every lane loads, those before the row the row's first state: a branch around a load would keep several from
    /// being in flight together.
    ///
    /// # Safety
    ///
    /// The words have room for the tiles up to `end` and for number `first_of_row`; `back` is at least 32.
    #[inline(always)]
    unsafe fn before(self, end: usize, first_of_row: usize, back: usize, identity: A) -> (u32, A) {
        let (shifted, first) = (end + warp::lane_id() as usize, first_of_row + back);
        // SAFETY: the row's first tile, or one before `end`, since a lane's number is less than `back`.
        let known = unsafe { self.value_unchecked(Ord::max(shifted, first) - back) };
        if shifted >= first { known } else { (PREFIX, identity) }
    }

    /// What the states of 32 tiles, one for each lane, say together: from the nearest prefix on, combined, in lane 31;
    /// or all of them, an aggregate, where there is none; or that one of those is still invalid.
    #[inline(always)]
    fn window((flag, value): (u32, A), identity: A, combine: impl Fn(A, A) -> A) -> (u32, A) {
        let invalid = warp::ballot(warp::FULL_MASK, flag == INVALID);
        let prefixes = warp::ballot(warp::FULL_MASK, flag == PREFIX);
        let nearest = if prefixes == 0 { 0 } else { prefixes.ilog2() };
        if invalid >> nearest != 0 {
            return (INVALID, identity);
        }
        let is_counted = warp::lane_id() >= nearest;
        let value = if is_counted { value } else { identity };
        let flag = if prefixes == 0 { AGGREGATE } else { PREFIX };
        (flag, warp::inclusive_scan(value, combine))
    }

    /// Makes the value of a tile known to the other blocks, with its flag: [`AGGREGATE`] or [`PREFIX`]. Called by one
    /// thread. Beyond the states, nothing is done.
    #[inline(always)]
    pub fn publish(self, tile: usize, flag: u32, value: A) {
        let mut pieces = [0u32; MAX_PIECES];
        bytemuck::bytes_of_mut(&mut pieces)[..size_of::<A>()].copy_from_slice(bytemuck::bytes_of(&value));
        if !self.have(tile.saturating_add(1)) {
            return;
        }
        // Computed here: a flag that is known takes a register wherever it may be wanted. Of more words than one it is
        // the other way round.
        let epoch = if Self::PIECES == 1 {
            hint::pinned(self.epoch)
        } else {
            self.epoch
        };
        let flag = epoch.wrapping_add(flag);
        for p in 0..Self::PIECES {
            let word = u64::from(flag) << 32 | u64::from(pieces[p]);
            // SAFETY: all words of the tile are there, as just asked.
            unsafe { self.words.atomic_unchecked(1 + tile * Self::PIECES + p) }.store(word);
        }
    }

    /// The flag of a tile, and its value, if it is valid. Beyond the state all is known, so that nobody waits there.
    #[inline(always)]
    pub fn value(self, tile: usize) -> (u32, A) {
        if !self.have(tile.saturating_add(1)) {
            return (PREFIX, A::zeroed());
        }
        // SAFETY: as just asked.
        unsafe { self.value_unchecked(tile) }
    }

    /// [`value`](Self::value) of a tile that the words have room for.
    ///
    /// # Safety
    ///
    /// The words have room for it.
    #[inline(always)]
    unsafe fn value_unchecked(self, tile: usize) -> (u32, A) {
        // SAFETY: all words of the tile are there: the caller's promise.
        let load = |p: usize| unsafe { self.words.atomic_unchecked(1 + tile * Self::PIECES + p) }.load();
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
