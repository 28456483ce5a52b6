// SPDX-License-Identifier: MIT OR Apache-2.0
//! One pass of a radix sort, from the lowest digit to the highest (D. Knuth, "The Art of Computer Programming" 3, section 5.2.5): a
//! digit is 8 bits, and a pass moves elements so that those with a lower digit come first, and those with the same one keep their
//! order. What the passes before have put in order stays so among equal digits, and after the last pass all is in order.
//!
//! A pass is three launches. [`count_digits()`] counts, in each tile, how often each digit occurs; a scan of the counts, those of
//! one digit in all tiles one after another, says where the first element with that digit of that tile goes; and [`move_by_digit()`]
//! takes the elements there (the three steps of M. Zagha, G. Blelloch, "Radix sort for vector multiprocessors", 1991; N. Satish,
//! M. Harris, M. Garland, "Designing efficient sorting algorithms for manycore GPUs", 2009). Elements of a tile are put in order in
//! shared memory first, so that those with one digit are written side by side.
//!
//! How often a digit has occurred before an element of the same tile, each warp counts for itself. It goes over its elements in
//! their order, 32 at a time; the lanes that have the same digit are found by a ballot for each of its bits (A. Adinets, D. Merrill,
//! "Onesweep: a faster least significant digit radix sort for GPUs", 2022), and the first of them adds all to the warp's counter. So
//! no two lanes write the same counter, and equal digits take no longer than others.
//!
//! Elements stay as they are: what orders them is made of their bits when they are loaded ([`Pass`]). They may have places with
//! them, which go where they go. And a digit may be one of the row that a place is in: with passes for these behind the others,
//! rows are sorted each by itself. Rows that a block has room for want no passes: [`rows`] sorts them in one launch.

use bytemuck::Pod;
use cuda_block::storage;
use cuda_std::hint;
use cuda_std::prelude::*;
use cuda_std::warp::{FULL_MASK, WARP_SIZE};

use crate::matmul::unroll;

pub mod rows;
pub mod search;

/// Threads of a block: one for each digit.
pub const THREADS: usize = DIGITS;

/// Blocks that ptxas makes room for on a multiprocessor.
const BLOCKS: usize = 4;

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 8;

/// Digits that there are.
pub const DIGITS: usize = 1 << DIGIT_BITS;

/// Warps of a block.
const WARPS: usize = THREADS / WARP_SIZE as usize;

/// Elements of a thread, at most.
const MOST_ITEMS: usize = 16;

/// The bits of an element.
pub trait Word: Pod + Ord + Send + Sync {
    /// Elements that a thread treats.
    const ITEMS: usize;

    /// Its key, in a pass that is of the elements.
    fn key(self, pass: Pass) -> Self;

    /// The element that has this key.
    fn of_key(key: Self, pass: Pass) -> Self;

    /// The least and the greatest key of those that equal it, as −0 is +0, and all NaN are one.
    fn equal_keys(self, pass: Pass) -> [Self; 2];

    /// The greatest key of what comes before it: of what is less or, if that `is_behind`, equal, too.
    fn last_before(self, pass: Pass, is_behind: bool) -> Option<Self>;

    /// Its key counted from the greatest on, one for all that are equal.
    fn key_from_greatest(self, pass: Pass) -> Self;

    /// Its key from the lowest bit of the digit on.
    fn digit(self, pass: Pass) -> u32;
}

macro_rules! words {
    ($($type:ident: $items:literal;)*) => {$(
        impl Word for $type {
            const ITEMS: usize = $items;

            #[inline(always)]
            fn key(self, pass: Pass) -> Self {
                let flipped = match self >> ($type::BITS - 1) {
                    0 => pass.positive,
                    _ => pass.negative,
                };
                (self ^ flipped as $type).wrapping_sub(pass.least as $type)
            }

            #[inline(always)]
            fn of_key(key: Self, pass: Pass) -> Self {
                let changed = key.wrapping_add(pass.least as $type);
                // The highest bit is changed by both, or by neither.
                let flipped = match changed >> ($type::BITS - 1) ^ pass.positive as $type >> ($type::BITS - 1) {
                    0 => pass.positive,
                    _ => pass.negative,
                };
                changed ^ flipped as $type
            }

            #[inline(always)]
            fn equal_keys(self, pass: Pass) -> [Self; 2] {
                // There are as many NaN with a sign as keys are less than the changed bits, and as many without; integers have none.
                let nans = pass.least as $type;
                let last_number = $type::MAX.wrapping_sub(nans.wrapping_mul(2));
                let minus_zero = ($type::MAX >> 1).wrapping_sub(nans);
                let plus_zero = minus_zero.wrapping_add(1);
                let key = self.key(pass);
                if key > last_number {
                    [last_number.wrapping_add(1), $type::MAX]
                } else if nans != 0 && (key == minus_zero || key == plus_zero) {
                    [minus_zero, plus_zero]
                } else {
                    [key; 2]
                }
            }

            #[inline(always)]
            fn last_before(self, pass: Pass, is_behind: bool) -> Option<Self> {
                let [least, greatest] = self.equal_keys(pass);
                if is_behind { Some(greatest) } else { least.checked_sub(1) }
            }

            #[inline(always)]
            fn key_from_greatest(self, pass: Pass) -> Self {
                !self.equal_keys(pass)[1]
            }

            #[inline(always)]
            fn digit(self, pass: Pass) -> u32 {
                self.key(pass).wrapping_shr(pass.shift) as u32
            }
        }
    )*};
}

words! {
    u8: 16;
    u16: 16;
    u32: 16;
    u64: 8;
}

/// Elements of a tile, which is a block's.
pub const fn tile_len<T: Word>() -> usize {
    THREADS * T::ITEMS
}

/// What a pass orders by.
///
/// An element's key is its bits, changed (exclusive or) by `positive` where the highest of them is 0 and by `negative` where it is 1,
/// less `least`; all of that modulo 2 to the number of its bits. Keys are compared as numbers without a sign.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct Pass {
    /// What the bits are changed by if the highest is 0.
    pub positive: u64,
    /// What they are changed by if it is 1.
    pub negative: u64,
    /// The changed bits that come first.
    pub least: u64,
    /// The lowest bit of the digit.
    pub shift: u32,
    /// 0 for a digit of the key, otherwise how many elements a row has: the digit is one of the row's number.
    pub row_len: u32,
}

/// The elements of a thread, some of them behind the end.
#[derive(Clone, Copy)]
struct Elements<'a, T> {
    /// Those of the tile, and what is behind it.
    words: &'a [T],
    /// Their places, as far as there are any.
    places: &'a [u32],
    /// How many elements the tile has.
    len: u32,
    /// The number of the tile's first element.
    start: usize,
    /// The number in the tile of the thread's first element; the others are 32 apart each.
    first: u32,
}

impl<'a, T: Word> Elements<'a, T> {
    /// Those of this thread: a warp has a part of the block's tile for itself.
    #[inline(always)]
    fn of_thread(words: &'a [T], places: &'a [u32]) -> Self {
        let start = (thread::block_idx_x() as usize).wrapping_mul(tile_len::<T>());
        // SAFETY (of both): what is cut off is no longer than all.
        let words = unsafe { words.get_unchecked(Ord::min(start, words.len())..) };
        let places = unsafe { places.get_unchecked(Ord::min(start, places.len())..) };
        Self {
            words,
            places,
            len: Ord::min(words.len(), tile_len::<T>()) as u32,
            start,
            first: warp::uniform(warp::warp_id()) * T::ITEMS as u32 * WARP_SIZE + warp::lane_id(),
        }
    }

    /// The number of an element in the tile.
    #[inline(always)]
    fn number(self, item: usize) -> u32 {
        self.first.wrapping_add(item as u32 * WARP_SIZE)
    }

    /// Whether there is such an element.
    #[inline(always)]
    fn has(self, item: usize) -> bool {
        self.number(item) < self.len
    }

    /// An element; 0 behind the end.
    #[inline(always)]
    fn word(self, item: usize) -> T {
        match self.has(item) {
            // SAFETY: in bounds, as just asked; a single element is always aligned.
            true => unsafe { self.words.load_vec_unchecked::<1>(self.number(item) as usize)[0] },
            false => T::zeroed(),
        }
    }

    /// Its place: its number, where there are no places.
    #[inline(always)]
    fn place(self, item: usize) -> u32 {
        let number = self.number(item) as usize;
        match number < self.places.len() {
            // SAFETY: in bounds, as just asked; a single element is always aligned.
            true => unsafe { self.places.load_vec_unchecked::<1>(number)[0] },
            false => self.start.wrapping_add(number) as u32,
        }
    }

    /// All elements.
    #[inline(always)]
    fn all(self) -> [T; MOST_ITEMS] {
        cuda_std::array::from_fn(|item| match item < T::ITEMS {
            true => self.word(item),
            false => T::zeroed(),
        })
    }

    /// Their digits in a pass. What is behind the end has the highest: in order it stays behind all others.
    #[inline(always)]
    fn digits(self, words: &[T; MOST_ITEMS], pass: Pass) -> [u32; MOST_ITEMS] {
        let digit_of = |item: usize, digit: u32| match self.has(item) {
            true => digit % DIGITS as u32,
            false => DIGITS as u32 - 1,
        };
        match pass.row_len {
            0 => cuda_std::array::from_fn(|item| digit_of(item, words[item].digit(pass))),
            len => cuda_std::array::from_fn(|item| {
                let row = self.place(item) / len;
                digit_of(item, row.wrapping_shr(pass.shift))
            }),
        }
    }
}

/// The counters of a warp: how often each digit has occurred.
#[derive(Clone, Copy)]
struct Counters {
    /// [`DIGITS`] for each warp of the block.
    all: Shared<u32>,
    /// Where those of this warp begin.
    first: usize,
}

impl Counters {
    /// All 0.
    ///
    /// # Safety
    ///
    /// The block has [`THREADS`] threads, and `all` is as long as the field says.
    ///
    /// # Convergence
    ///
    /// All lanes of a warp call it.
    #[inline(always)]
    unsafe fn new(all: Shared<u32>) -> Self {
        let first = warp::uniform(warp::warp_id()) as usize * DIGITS;
        for step in 0..DIGITS / WARP_SIZE as usize {
            let at = first + step * WARP_SIZE as usize + warp::lane_id() as usize;
            // SAFETY: each warp of such a block has `DIGITS`.
            unsafe { all.set_unchecked(at, 0) };
        }
        warp::sync_warp(FULL_MASK);
        Self { all, first }
    }

    /// Counts a digit in each lane, and says how often it has occurred before, in lanes below this one too.
    ///
    /// # Convergence
    ///
    /// All lanes of the warp call it.
    #[inline(always)]
    fn count(self, digit: u32) -> u32 {
        let same = warp::match_any_bits::<DIGIT_BITS>(FULL_MASK, digit);
        let at = self.first + digit as usize % DIGITS;
        // SAFETY: a warp has a counter for each digit.
        let before = unsafe { self.all.get_unchecked(at) };
        let below = (same & ((1 << warp::lane_id()) - 1)).count_ones();
        // Lanes read what was before, the first of them writes.
        warp::sync_warp(FULL_MASK);
        if below == 0 {
            // SAFETY: as above.
            unsafe { self.all.set_unchecked(at, before.wrapping_add(same.count_ones())) };
        }
        warp::sync_warp(FULL_MASK);
        before.wrapping_add(below)
    }

    /// Counts a digit in each lane, in any order: atomically, but once for all where they have the same, as those of small integers do.
    ///
    /// # Convergence
    ///
    /// All lanes of the warp call it.
    #[inline(always)]
    fn add(self, digit: u32) {
        let of_first = warp::shuffle(FULL_MASK, digit, 0);
        // SAFETY: a warp has a counter for each digit.
        let counter = unsafe { self.all.atomic_unchecked(self.first + digit as usize % DIGITS) };
        if !warp::all(FULL_MASK, digit == of_first) {
            counter.fetch_add(1);
        } else if warp::lane_id() == 0 {
            counter.fetch_add(WARP_SIZE);
        }
    }

    /// How often the digit has occurred in each warp, by the thread of that number.
    ///
    /// # Convergence
    ///
    /// All threads of the block have counted before, and come to a barrier.
    #[inline(always)]
    fn of_warps(self, digit: usize) -> [u32; WARPS] {
        // SAFETY: each warp has a counter for each digit.
        cuda_std::array::from_fn(|warp| unsafe { self.all.get_unchecked(warp * DIGITS + digit % DIGITS) })
    }

    /// Counts the digits of all elements of the lane's: how often each has occurred before in the warp's part of the tile, and above
    /// 16 bits the digit.
    ///
    /// # Convergence
    ///
    /// All lanes of the warp call it.
    #[inline(always)]
    fn ranks<T: Word>(self, digits: &[u32; MOST_ITEMS]) -> [u32; MOST_ITEMS] {
        // A tile has fewer elements than 16 bits have numbers.
        const { assert!(tile_len::<T>() < 1 << 16 && T::ITEMS <= MOST_ITEMS) };
        let mut ranks = [0u32; MOST_ITEMS];
        unroll!(16, item => {
            if item < T::ITEMS {
                // In one register: the compiler would keep the digit, and its counter's place, too.
                ranks[item] = hint::pinned(self.count(digits[item]) | digits[item] << 16);
            }
        });
        ranks
    }

    /// Makes each counter of a digit the number of the tile's elements that come before the warp's first one that has it, and gives
    /// how many have a lower digit. By the thread of the digit's number.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it, have counted before, and come to a barrier.
    #[inline(always)]
    fn begin(self, digit: usize) -> u32 {
        let counts = self.of_warps(digit);
        let count = counts.iter().fold(0, |sum, &count| u32::wrapping_add(sum, count));
        let (scanned, _) = storage![u32; WARPS].exclusive_scan::<THREADS>(count, 0, u32::wrapping_add);
        let mut before = scanned.before;
        for warp in 0..WARPS {
            // SAFETY: each warp has a counter for each digit.
            unsafe { self.all.set_unchecked(warp * DIGITS + digit % DIGITS, before) };
            before = before.wrapping_add(counts[warp]);
        }
        scanned.before
    }
}

/// A tile in shared memory, in the order of a pass.
#[derive(Clone, Copy)]
struct Tile<T> {
    words: Shared<T>,
    places: Shared<u32>,
    digits: Shared<u8>,
}

impl<T: Word> Tile<T> {
    /// Room for one.
    #[inline(always)]
    fn new() -> Self {
        const { assert!(tile_len::<T>() * size_of::<T>() <= 8 * 8 * THREADS && T::ITEMS <= MOST_ITEMS) };
        Self {
            words: shared_array![u64; THREADS * 8].cast(),
            places: shared_array![u32; THREADS * MOST_ITEMS],
            digits: shared_array![u8; THREADS * MOST_ITEMS],
        }
    }

    /// Puts all elements of this thread's where their [ranks](Counters::ranks) and the counters, which have [begun](Counters::begin),
    /// say.
    #[inline(always)]
    fn fill(
        self,
        elements: Elements<'_, T>,
        own: &[T; MOST_ITEMS],
        ranks: &[u32; MOST_ITEMS],
        counters: Counters,
        has_places: bool,
    ) {
        for item in 0..T::ITEMS {
            let digit = ranks[item] >> 16;
            // SAFETY: the warp has a counter for each digit, which has 8 bits.
            let before = unsafe { counters.all.get_unchecked(counters.first + digit as usize) };
            // Ranks are the numbers of the tile's elements in order.
            let rank = before.wrapping_add(ranks[item] & 0xffff) as usize % tile_len::<T>();
            // SAFETY (of all): there is room for a tile.
            unsafe {
                self.words.set_unchecked(rank, own[item]);
                self.digits.set_unchecked(rank, digit as u8);
                if has_places {
                    self.places.set_unchecked(rank, elements.place(item));
                }
            }
        }
    }
}

/// `counts[d * tiles + t]`: how many elements of tile `t` have digit `d` in this pass. A block of [`THREADS`] threads for each tile of
/// [`tile_len`] elements. Without `places`, or behind their end, an element's place is its number.
#[kernel(T = [u8, u16, u32, u64], max_threads = THREADS)]
pub fn count_digits<T: Word>(words: &[T], places: &[u32], pass: Pass, counts: SliceMut<'_, u32>) {
    if thread::block_dim_x() as usize != THREADS {
        return;
    }
    let elements = Elements::of_thread(words, places);
    let digits = elements.digits(&elements.all(), pass);
    // SAFETY: so many threads, as asked above, and so many counters.
    let counters = unsafe { Counters::new(shared_array![u32; WARPS * DIGITS]) };
    for item in 0..T::ITEMS {
        counters.add(digits[item]);
    }
    thread::sync_threads();
    let digit = thread::thread_idx_x() as usize;
    let counts_of_warps = counters.of_warps(digit);
    let mut count = counts_of_warps
        .iter()
        .fold(0, |sum, &count| u32::wrapping_add(sum, count));
    if digit == DIGITS - 1 {
        // Without what is behind the end.
        count = count.wrapping_sub(tile_len::<T>() as u32 - elements.len);
    }
    let at = place_of(digit);
    if at < counts.len() {
        counts.set(at, count);
    }
}

/// Where the count of a digit in this block's tile is.
#[inline(always)]
fn place_of(digit: usize) -> usize {
    digit
        .wrapping_mul(thread::grid_dim_x() as usize)
        .wrapping_add(thread::block_idx_x() as usize)
}

/// Moves the elements to where those with a lower digit in this pass are before them, and those with the same one that were before
/// them; and their places likewise. `before` is the exclusive scan of what [`count_digits()`] has counted, with a launch like this
/// one. Places are not written without `places_out`. What has no place in the output, or no count, is left out, or goes anywhere.
#[kernel(T = [u8, u16, u32, u64], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn move_by_digit<T: Word>(
    words: &[T],
    places: &[u32],
    pass: Pass,
    before: &[u64],
    words_out: SliceMut<'_, T>,
    places_out: SliceMut<'_, u32>,
) {
    if thread::block_dim_x() as usize != THREADS {
        return;
    }
    let elements = Elements::of_thread(words, places);
    let own = elements.all();
    let digits = elements.digits(&own, pass);
    // SAFETY: so many threads, as asked above, and so many counters.
    let counters = unsafe { Counters::new(shared_array![u32; WARPS * DIGITS]) };
    let ranks = counters.ranks::<T>(&digits);
    thread::sync_threads();

    // A digit for each thread: how far its elements go from their place in the tile.
    let digit = thread::thread_idx_x() as usize;
    let lower = counters.begin(digit);
    let ways = shared_array![u32; DIGITS];
    let at = place_of(digit);
    let way = match at < before.len() {
        // SAFETY: in bounds, as just asked; a single element is always aligned.
        true => (unsafe { before.load_vec_unchecked::<1>(at)[0] } as u32).wrapping_sub(lower),
        false => 0,
    };
    // SAFETY: one for each thread.
    unsafe { ways.set_unchecked(digit, way) };
    thread::sync_threads();

    let tile = Tile::new();
    tile.fill(elements, &own, &ranks, counters, !places_out.is_empty());
    thread::sync_threads();
    for item in 0..T::ITEMS {
        let rank = item * THREADS + digit;
        if (rank as u32) < elements.len {
            // SAFETY (of all): the rank is one of a tile, a digit one of all; single elements are always aligned, and whether they
            // are there is asked.
            unsafe {
                let way = ways.get_unchecked(tile.digits.get_unchecked(rank) as usize);
                let to = way.wrapping_add(rank as u32) as usize;
                if to < words_out.len() {
                    words_out.set_vec_unchecked(to, [tile.words.get_unchecked(rank)]);
                }
                if to < places_out.len() {
                    places_out.set_vec_unchecked(to, [tile.places.get_unchecked(rank)]);
                }
            }
        }
    }
}
