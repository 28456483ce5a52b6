// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tile of a pass: its elements in registers, in the order of memory, and in shared memory, in that of their digits.
//!
//! Each warp has a part of the tile, of which it takes 32 elements at a time, one a lane. How often each digit occurs is counted first,
//! in any order, by atomics of shared memory, so that other tiles hear of it as soon as may be. Then the warps' counters become the
//! numbers that their first elements with a digit have in the tile, and each warp goes over its elements in their order: the lanes that
//! have the same digit are found by a ballot for each of its bits, and the last of them moves the counter on. So no two lanes write the
//! same counter, and equal digits take no longer than others.

use cuda_std::bits::byte_perm;
use cuda_std::hint;
use cuda_std::prelude::*;
use cuda_std::warp::{FULL_MASK, WARP_SIZE};

use super::{DIGIT_BITS, DIGITS, Ends, MOST_ITEMS, Pass, THREADS, Word, tile_len};
use crate::matmul::unroll;

/// Warps of a block.
const WARPS: usize = THREADS / WARP_SIZE as usize;

/// Bytes of a tile, at most.
const TILE_BYTES: usize = 4 * MOST_ITEMS * THREADS;

/// The elements of a thread, some of them behind the end.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a, T> {
    words: &'a [T],
    places: &'a [u32],
    /// The number of the tile's first element.
    start: usize,
    /// How many elements the tile has.
    len: u32,
    /// The number in the tile of the thread's first element; the others are 32 apart each.
    first: u32,
}

impl<'a, T: Word> Elements<'a, T> {
    /// Those of this thread in a tile, of which there is one element at least.
    #[inline(always)]
    pub(super) fn of_thread(words: &'a [T], places: &'a [u32], tile: usize) -> Self {
        let start = tile * tile_len::<T>();
        Self {
            words,
            places,
            start,
            len: Ord::min(words.len().wrapping_sub(start), tile_len::<T>()) as u32,
            first: warp::uniform(warp::warp_id()) * T::ITEMS as u32 * WARP_SIZE + warp::lane_id(),
        }
    }

    /// Whether all elements are there.
    #[inline(always)]
    fn is_whole(self) -> bool {
        self.len as usize == tile_len::<T>()
    }

    /// How many are behind the end.
    #[inline(always)]
    pub(super) fn behind(self) -> u32 {
        tile_len::<T>() as u32 - self.len
    }

    /// The number of an element in the tile.
    #[inline(always)]
    fn in_tile(self, item: usize) -> u32 {
        self.first + item as u32 * WARP_SIZE
    }

    /// Its place: its number, where there are no places.
    #[inline(always)]
    fn place(self, item: usize) -> u32 {
        let number = self.start + self.in_tile(item) as usize;
        match number < self.places.len() {
            // SAFETY: in bounds, as just asked; a single element is always aligned.
            true => unsafe { self.places.load_vec_unchecked::<1>(number)[0] },
            false => number as u32,
        }
    }

    /// All places.
    #[inline(always)]
    fn all_places(mut self) -> [u32; MOST_ITEMS] {
        // The compiler would keep what the elements were loaded by.
        self.first = hint::opaque(self.first);
        let mut places = [0; MOST_ITEMS];
        if self.places.len() >= self.start + tile_len::<T>() {
            // Without a branch between them.
            unroll!(22, item => {
                if item < T::ITEMS {
                    let number = self.start + self.in_tile(item) as usize;
                    // SAFETY: all of the tile, as just asked; a single element is always aligned.
                    places[item] = unsafe { self.places.load_vec_unchecked::<1>(number)[0] };
                }
            });
        } else {
            unroll!(22, item => {
                if item < T::ITEMS {
                    places[item] = self.place(item);
                }
            });
        }
        places
    }

    /// The keys of all elements; behind the end the greatest, which in order stay behind all others.
    #[inline(always)]
    pub(super) fn keys(self, pass: Pass, ends: Ends) -> [T; MOST_ITEMS] {
        let mut own = [T::zeroed(); MOST_ITEMS];
        // SAFETY (of both): an element of the tile; a single one is always aligned.
        let load = |item| unsafe {
            self.words
                .load_vec_unchecked::<1>(self.start + self.in_tile(item) as usize)[0]
        };
        if self.is_whole() {
            // Without a branch between them.
            unroll!(22, item => {
                if item < T::ITEMS {
                    own[item] = load(item);
                }
            });
        } else {
            unroll!(22, item => {
                if item < T::ITEMS && self.in_tile(item) < self.len {
                    own[item] = load(item);
                }
            });
        }
        if ends.is_first {
            unroll!(22, item => {
                if item < T::ITEMS {
                    own[item] = own[item].key(pass);
                }
            });
        }
        if !self.is_whole() {
            unroll!(22, item => {
                if item < T::ITEMS && self.in_tile(item) >= self.len {
                    own[item] = T::LAST_KEY;
                }
            });
        }
        own
    }

    /// Their digits in a pass, each less than [`DIGITS`].
    #[inline(always)]
    pub(super) fn digits(self, own: &[T; MOST_ITEMS], pass: Pass) -> Digits {
        let mut digits = [0; MOST_ITEMS];
        match pass.row_len {
            0 => {
                let selector = T::selector(pass.shift);
                unroll!(22, item => {
                    digits[item] = own[item].byte(selector);
                });
            }
            row_len => {
                let places = self.all_places();
                unroll!(22, item => {
                    if item < T::ITEMS {
                        let row = places[item] / row_len;
                        digits[item] = match self.in_tile(item) < self.len {
                            true => row.wrapping_shr(pass.shift) % DIGITS as u32,
                            false => DIGITS as u32 - 1,
                        };
                    }
                });
            }
        }
        Digits::new(digits)
    }

    /// Writes all where they are.
    #[inline(always)]
    pub(super) fn copy(
        self,
        own: &[T; MOST_ITEMS],
        pass: Pass,
        ends: Ends,
        words_out: SliceMut<'_, T>,
        places_out: SliceMut<'_, u32>,
    ) {
        unroll!(22, item => {
            if item < T::ITEMS && self.in_tile(item) < self.len {
                let to = self.start + self.in_tile(item) as usize;
                if to < words_out.len() {
                    let word = if ends.is_last { T::of_key(own[item], pass) } else { own[item] };
                    // SAFETY: in bounds, as just asked; a single element is always aligned.
                    unsafe { words_out.set_vec_unchecked(to, [word]) };
                }
                if to < places_out.len() {
                    // SAFETY: as above.
                    unsafe { places_out.set_vec_unchecked(to, [self.place(item)]) };
                }
            }
        });
    }
}

/// The digits of a thread's elements, four in a word: one in each would be as many registers as the elements have.
#[derive(Clone, Copy)]
pub(super) struct Digits([u32; MOST_ITEMS.div_ceil(4)]);

impl Digits {
    #[inline(always)]
    fn new(digits: [u32; MOST_ITEMS]) -> Self {
        Self(cuda_std::array::from_fn(|i| {
            let digit = |item: usize| if item < MOST_ITEMS { digits[item] } else { 0 };
            let pair = |first: usize| digit(first) | digit(first + 1) << DIGIT_BITS;
            // The compiler would take them apart again here, and keep all.
            hint::opaque(byte_perm(pair(4 * i), pair(4 * i + 2), 0x5410))
        }))
    }

    /// One of them, less than [`DIGITS`].
    #[inline(always)]
    fn get(&self, item: usize) -> usize {
        byte_perm(self.0[item / 4], 0, 0x4440 | (item % 4) as u32) as usize
    }
}

/// The ranks of a thread's elements, which are less than a tile's length, two in a word.
#[derive(Clone, Copy)]
pub(super) struct Ranks([u32; MOST_ITEMS.div_ceil(2)]);

impl Ranks {
    #[inline(always)]
    fn set(&mut self, item: usize, rank: u32) {
        self.0[item / 2] = match item % 2 {
            0 => rank,
            _ => hint::opaque(self.0[item / 2] | rank << 16),
        };
    }

    #[inline(always)]
    fn get(&self, item: usize) -> usize {
        (self.0[item / 2] >> (16 * (item % 2)) & 0xffff) as usize
    }
}

/// The counters of the block's warps, [`DIGITS`] for each of them.
#[derive(Clone, Copy)]
pub(super) struct Counters {
    all: Shared<u32>,
    /// Where those of this warp begin.
    first: usize,
}

impl Counters {
    /// All 0 for this warp, which others see behind a barrier. The block has [`THREADS`] threads.
    #[inline(always)]
    pub(super) fn new() -> Self {
        let all = shared_array![u32; WARPS * DIGITS];
        let first = warp::uniform(warp::warp_id()) as usize % WARPS * DIGITS;
        for step in 0..DIGITS / WARP_SIZE as usize {
            let at = first + step * WARP_SIZE as usize + warp::lane_id() as usize;
            // SAFETY: each warp has `DIGITS`.
            unsafe { all.set_unchecked(at, 0) };
        }
        Self { all, first }
    }

    /// Counts the digits of all elements, in any order. Behind a barrier.
    #[inline(always)]
    pub(super) fn count<T: Word>(self, digits: &Digits) {
        unroll!(22, item => {
            if item < T::ITEMS {
                // SAFETY: a warp has a counter for each digit.
                unsafe { self.all.atomic_unchecked(self.first + digits.get(item)) }.fetch_add(1);
            }
        });
    }

    /// How often a digit has occurred in each warp.
    #[inline(always)]
    fn of_warp(self, warp: usize, digit: usize) -> u32 {
        // SAFETY: each warp has a counter for each digit.
        unsafe { self.all.get_unchecked(warp * DIGITS + digit % DIGITS) }
    }

    /// How often a digit has occurred; of what is no digit 0. Behind a barrier.
    #[inline(always)]
    pub(super) fn of_block(self, digit: usize) -> u32 {
        match digit < DIGITS {
            true => (0..WARPS).fold(0, |sum, warp| sum.wrapping_add(self.of_warp(warp, digit))),
            false => 0,
        }
    }

    /// Makes the counters of a digit the numbers in the tile that the warps' first elements with it have, by the thread that has asked
    /// how often it has occurred. What is no digit has none.
    #[inline(always)]
    pub(super) fn begin(self, digit: usize, mut before: u32) {
        if digit >= DIGITS {
            return;
        }
        for warp in 0..WARPS {
            // Read again: a register for each warp would be too many.
            let count = self.of_warp(warp, digit);
            // SAFETY: each warp has a counter for each digit.
            unsafe { self.all.set_unchecked(warp * DIGITS + digit, before) };
            before = before.wrapping_add(count);
        }
    }

    /// The numbers of all elements in the tile in order, less than its length, each of which is handed on. Behind a barrier.
    ///
    /// # Convergence
    ///
    /// All lanes of the warp call it.
    #[inline(always)]
    pub(super) fn ranks<T: Word>(self, digits: &Digits, mut place: impl FnMut(usize, u32)) -> Ranks {
        const { assert!(tile_len::<T>() <= 1 << 16) };
        let lower = (1u32 << warp::lane_id()) - 1;
        let higher = hint::opaque(!lower << 1);
        let mut ranks = Ranks([0; MOST_ITEMS.div_ceil(2)]);
        unroll!(22, item => {
            if item < T::ITEMS {
                let digit = digits.get(item);
                let same = warp::match_any_bits::<DIGIT_BITS>(FULL_MASK, digit as u32);
                // SAFETY: a warp has a counter for each digit.
                let before = unsafe { self.all.get_unchecked(self.first + digit) };
                let rank = before.wrapping_add((same & lower).count_ones());
                // Lanes read what was before, the last of them writes.
                warp::sync_warp(FULL_MASK);
                if same & higher == 0 {
                    // SAFETY: as above.
                    unsafe { self.all.set_unchecked(self.first + digit, rank.wrapping_add(1)) };
                }
                warp::sync_warp(FULL_MASK);
                place(item, rank);
                ranks.set(item, rank);
            }
        });
        ranks
    }

    /// Keeps the digits of the tile in order, in place of the counters. Between barriers.
    #[inline(always)]
    pub(super) fn keep_digits<T: Word>(self, digits: &Digits, ranks: &Ranks) {
        const { assert!(tile_len::<T>() <= 4 * WARPS * DIGITS) };
        unroll!(22, item => {
            if item < T::ITEMS {
                // SAFETY: a rank is less than the tile's length, for which there is room.
                unsafe { self.all.cast::<u8>().set_unchecked(ranks.get(item), digits.get(item) as u8) };
            }
        });
    }

    /// A digit that was kept.
    ///
    /// # Safety
    ///
    /// `rank` is less than the tile's length.
    #[inline(always)]
    unsafe fn kept_digit(self, rank: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.all.cast::<u8>().get_unchecked(rank) }.into()
    }
}

/// A tile in shared memory, in the order of a pass.
#[derive(Clone, Copy)]
pub(super) struct Exchange<T> {
    words: Shared<T>,
    /// Of each digit, how far its elements go from their number in the tile.
    ways: Shared<u32>,
}

impl<T: Word> Exchange<T> {
    /// Room for one.
    #[inline(always)]
    pub(super) fn new() -> Self {
        const { assert!(tile_len::<T>() * size_of::<T>() <= TILE_BYTES && tile_len::<T>() * size_of::<u32>() <= TILE_BYTES) };
        Self {
            words: shared_array![u64; TILE_BYTES / 8].cast(),
            ways: shared_array![u32; DIGITS],
        }
    }

    /// Puts a key where it is in order.
    ///
    /// # Safety
    ///
    /// `rank` is less than the tile's length.
    #[inline(always)]
    pub(super) unsafe fn set_word(self, rank: u32, word: T) {
        // SAFETY: the caller's promise.
        unsafe { self.words.set_unchecked(rank as usize, word) };
    }

    /// Says where the tile's elements with a digit, less than [`DIGITS`], go, whose first one has the number `first` in the tile.
    #[inline(always)]
    pub(super) fn set_way(self, digit: usize, to: u32, first: u32) {
        self.ways.set(digit, to.wrapping_sub(first));
    }

    /// The number in order of an element that this thread writes.
    #[inline(always)]
    fn rank(item: usize) -> usize {
        item * THREADS + thread::thread_idx_x() as usize
    }

    /// Writes all elements that are not behind the end, and gives where to. Behind a barrier. What has no place in the output is left
    /// out.
    #[inline(always)]
    pub(super) fn write_words(
        self,
        elements: &Elements<'_, T>,
        pass: Pass,
        ends: Ends,
        counters: Counters,
        out: SliceMut<'_, T>,
    ) -> [u32; MOST_ITEMS] {
        let mut to = [0; MOST_ITEMS];
        // SAFETY (of all): a rank is less than the tile's length, and a digit less than `DIGITS`.
        let word = |item: usize| unsafe { self.words.get_unchecked(Self::rank(item)) };
        let mut write = |item: usize, digit: usize, word: T| {
            let rank = Self::rank(item) as u32;
            to[item] = unsafe { self.ways.get_unchecked(digit) }.wrapping_add(rank);
            if rank < elements.len && (to[item] as usize) < out.len() {
                // SAFETY: in bounds, as just asked; a single element is always aligned.
                unsafe { out.set_vec_unchecked(to[item] as usize, [word]) };
            }
        };
        // What is asked once does not stand between the elements.
        let selector = T::selector(pass.shift);
        if pass.row_len != 0 {
            unroll!(22, item => {
                if item < T::ITEMS {
                    write(item, unsafe { counters.kept_digit(Self::rank(item)) }, word(item));
                }
            });
        } else if ends.is_last {
            unroll!(22, item => {
                if item < T::ITEMS {
                    let key = word(item);
                    write(item, key.byte(selector) as usize, T::of_key(key, pass));
                }
            });
        } else {
            unroll!(22, item => {
                if item < T::ITEMS {
                    let key = word(item);
                    write(item, key.byte(selector) as usize, key);
                }
            });
        }
        to
    }

    /// Writes the places likewise, by the same memory. Behind a barrier.
    #[inline(always)]
    pub(super) fn write_places(
        self,
        elements: &Elements<'_, T>,
        ranks: &Ranks,
        to: &[u32; MOST_ITEMS],
        out: SliceMut<'_, u32>,
    ) {
        let (places, own) = (self.words.cast::<u32>(), elements.all_places());
        unroll!(22, item => {
            if item < T::ITEMS {
                // SAFETY: a rank is less than the tile's length, and there is room for as many places.
                unsafe { places.set_unchecked(ranks.get(item), own[item]) };
            }
        });
        thread::sync_threads();
        unroll!(22, item => {
            if item < T::ITEMS && (Self::rank(item) as u32) < elements.len && (to[item] as usize) < out.len() {
                // SAFETY: as above; in bounds, as just asked; a single element is always aligned.
                unsafe { out.set_vec_unchecked(to[item] as usize, [places.get_unchecked(Self::rank(item))]) };
            }
        });
    }
}
