// SPDX-License-Identifier: MIT OR Apache-2.0
//! A radix sort from the lowest digit to the highest (D. Knuth, "The Art of Computer Programming" 3, section 5.2.5): a digit is 8
//! bits, and a pass moves elements so that those with a lower digit come first, and those with the same one keep their order. What
//! the passes before have put in order stays so among equal digits, and after the last pass all is in order.
//!
//! Each pass reads and writes every element once (A. Adinets, D. Merrill, "Onesweep: a faster least significant digit radix sort for
//! GPUs", 2022). How often a digit of theirs occurs does not depend on the order of the elements: [`count_digits()`] counts all digits
//! ahead of all passes, and so says where the elements with a digit begin after each. How many elements with its digits the tiles
//! before have, a tile of [`move_by_digit()`] finds by looking back (`look_back`). Elements of a tile are put in order in shared memory
//! first, so that those with one digit are written side by side (`tile`).
//!
//! What orders elements is made of their bits when the first pass loads them ([`Pass`]), and made their bits again when the last one by
//! elements writes them; in between there are keys in memory. Elements may have places with them, which go where they go. And a digit
//! may be one of the row that a place is in: with passes for these behind the others, rows are sorted each by itself. Rows that a block
//! has room for want no passes: [`rows`] sorts them in one launch.

use bytemuck::Pod;
use cuda_block::storage;
use cuda_std::bits::byte_perm;
use cuda_std::prelude::*;

use crate::matmul::unroll;

pub mod control;
mod look_back;
pub mod rows;
pub mod search;
mod tile;

use control::Control;
use look_back::LookBack;
use tile::{Counters, Elements, Exchange};

/// Threads of a block that moves elements.
pub const THREADS: usize = 384;

/// Blocks of them that ptxas makes room for on a multiprocessor.
const BLOCKS: usize = 2;

/// Threads of a block that counts digits.
pub const COUNTING_THREADS: usize = 512;

/// Blocks of them that ptxas makes room for on a multiprocessor, and that the launch has for each.
pub const COUNTING_BLOCKS: usize = 2;

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 8;

/// Digits that there are.
pub const DIGITS: usize = 1 << DIGIT_BITS;

/// Elements of a thread, at most.
const MOST_ITEMS: usize = 22;

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

    /// The greatest key.
    const LAST_KEY: Self;

    /// A key's byte, as [`selector`](Self::selector) names it.
    fn byte(self, selector: u32) -> u32;

    /// What names the byte whose lowest bit has that number.
    fn selector(bit: u32) -> u32;
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

            const LAST_KEY: Self = $type::MAX;

            #[inline(always)]
            fn byte(self, selector: u32) -> u32 {
                // The upper half of fewer bits is 0, which is where the other bytes are from.
                let byte = byte_perm(self as u32, (self as u64 >> 32) as u32, selector);
                if size_of::<Self>() > 4 { byte & 0xff } else { byte }
            }

            #[inline(always)]
            fn selector(bit: u32) -> u32 {
                let byte = bit / DIGIT_BITS;
                if size_of::<Self>() > 4 { byte } else { 0x4440 | byte }
            }
        }
    )*};
}

words! {
    u8: 22;
    u16: 22;
    u32: 22;
    u64: 11;
}

/// Elements of a tile, which is a block's that moves elements.
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

/// Counts all digits of the elements' keys, and makes ready for a sort. `control` has [`control::len`] words, all 0, which say then where
/// the elements with a digit begin after each pass, the digits of the numbers of `rows` rows, of `pass.row_len` elements each, included;
/// and `states`, [`DIGITS`] for each tile of [`tile_len`] elements, are cleared. The launch has any number of blocks of
/// [`COUNTING_THREADS`] threads. With fewer words of `control`, or more than 2^32 - 1 elements, nothing is done.
#[kernel(T = [u8, u16, u32, u64], max_threads = COUNTING_THREADS, min_blocks = COUNTING_BLOCKS)]
pub fn count_digits<T: Word>(
    words: &[T],
    pass: Pass,
    rows: u32,
    parts: u32,
    control: SliceMut<'_, u64>,
    states: SliceMut<'_, u32>,
) {
    let passes = size_of::<T>() + control::row_passes(rows);
    let Some(control) = Control::new(control, passes, parts) else {
        return;
    };
    if thread::block_dim_x() as usize != COUNTING_THREADS || words.len() > u32::MAX as usize {
        return;
    }
    let mut at = thread::index_1d();
    while at < states.len() {
        states.set(at, 0);
        at += thread::stride_1d();
    }

    let counters = shared_array![u32; 8 * DIGITS];
    let counted = size_of::<T>() * DIGITS;
    let mut at = thread::thread_idx_x() as usize;
    while at < counted {
        counters.set(at, 0);
        at += COUNTING_THREADS;
    }
    thread::sync_threads();
    count_keys(words, pass, counters);
    thread::sync_threads();
    let mut at = thread::thread_idx_x() as usize;
    while at < counted {
        control.add_count(at / DIGITS, at % DIGITS, counters.get(at));
        at += COUNTING_THREADS;
    }

    thread::sync_threads();
    let is_last = shared_array![u32; 1];
    if thread::thread_idx_x() == 0 {
        is_last.set(0, u32::from(control.is_last_to_count()));
    }
    thread::sync_threads();
    if is_last.get(0) == 0 {
        return;
    }
    // All blocks have added what they have counted.
    let digit = thread::thread_idx_x() as usize;
    for number in 0..passes {
        let mut count = 0;
        if digit < DIGITS {
            count = match number.checked_sub(size_of::<T>()) {
                None => control.count(number, digit),
                Some(of_row) => control::elements_of_rows(of_row, digit as u32, rows, pass.row_len),
            };
        }
        let (scanned, _) =
            storage![u32; COUNTING_THREADS / 32].exclusive_scan::<COUNTING_THREADS>(count, 0, u32::wrapping_add);
        let are_alike = thread::sync_threads_or(count as usize == words.len());
        if digit < DIGITS {
            control.set_begin(number, 0, digit, scanned.before);
        }
        if digit == 0 && are_alike {
            control.set_alike(number);
        }
    }
}

/// Counts the digits of this block's elements, in any order: those of their lowest bytes first.
#[inline(always)]
fn count_keys<T: Word>(words: &[T], pass: Pass, counters: Shared<u32>) {
    let add = |word: T| {
        let key = word.key(pass);
        for byte in 0..size_of::<T>() {
            let digit = key.byte(T::selector(byte as u32 * DIGIT_BITS)) as usize;
            // SAFETY: there are so many counters for each byte of a word.
            unsafe { counters.atomic_unchecked(byte * DIGITS + digit) }.fetch_add(1);
        }
    };
    let step = COUNTING_THREADS * T::ITEMS;
    let mut start = thread::block_idx_x() as usize * step;
    while start < words.len() {
        let first = start + thread::thread_idx_x() as usize;
        if words.len() - start >= step {
            let mut loaded = [T::zeroed(); MOST_ITEMS];
            unroll!(22, item => {
                if item < T::ITEMS {
                    // SAFETY: a whole step, as just asked; a single element is always aligned.
                    loaded[item] = unsafe { words.load_vec_unchecked::<1>(first + item * COUNTING_THREADS)[0] };
                }
            });
            unroll!(22, item => {
                if item < T::ITEMS {
                    add(loaded[item]);
                }
            });
        } else {
            let mut at = first;
            while at < words.len() {
                // SAFETY: in bounds, as just asked; a single element is always aligned.
                add(unsafe { words.load_vec_unchecked::<1>(at)[0] });
                at += COUNTING_THREADS;
            }
        }
        start += step * thread::grid_dim_x() as usize;
    }
}

/// Pass `number` of `passes`: moves the elements to where those with a lower digit are before them, and those with the same one that
/// were before them; and their places likewise. The first pass makes keys of the elements, and the last one by elements makes elements
/// of the keys. Without `places`, or behind their end, an element's place is its number. Elements are not written without `words_out`,
/// nor places without `places_out`.
///
/// The launch has a block of [`THREADS`] threads for each tile of [`tile_len`] elements. `tiles_of_part` is at most
/// [`control::tiles_of_part`], and as many times as it goes into the tiles there are parts. `control` and `states` are as
/// [`count_digits()`] with as many parts and the passes before this one have left them. With other contents elements go anywhere, or are
/// left out, or the kernel waits for ever; with fewer words, or more than 2^32 - 1 elements, nothing is done.
#[kernel(T = [u8, u16, u32, u64], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn move_by_digit<T: Word>(
    words: &[T],
    places: &[u32],
    pass: Pass,
    number: u32,
    passes: u32,
    tiles_of_part: u32,
    control: SliceMut<'_, u64>,
    states: SliceMut<'_, u32>,
    words_out: SliceMut<'_, T>,
    places_out: SliceMut<'_, u32>,
) {
    if thread::block_dim_x() as usize != THREADS || number >= passes || words.len() > u32::MAX as usize {
        return;
    }
    let tiles = words.len().div_ceil(tile_len::<T>()) as u32;
    let tiles_of_part = Ord::max(tiles_of_part, 1);
    let Some(control) = Control::new(control, passes as usize, tiles.div_ceil(tiles_of_part)) else {
        return;
    };
    if states.len() / DIGITS < tiles as usize {
        return;
    }
    let counters = Counters::new();
    let ticket = shared_array![u32; 2];
    if thread::thread_idx_x() == 0 {
        ticket.set(0, control.ticket(number as usize));
        ticket.set(1, u32::from(control.is_alike(number as usize)));
    }
    thread::sync_threads();
    let tile = ticket.get(0);
    if tile >= tiles {
        return;
    }
    let ends = Ends {
        is_first: number == 0,
        is_last: number as usize + 1 == size_of::<T>(),
    };
    let elements = Elements::of_thread(words, places, tile as usize);
    let own = elements.keys(pass, ends);
    // SAFETY: as many states, as asked above; and not 0.
    let look_back = unsafe { LookBack::new(control, states, number, tile, tiles_of_part) };
    if ticket.get(1) != 0 {
        elements.copy(&own, pass, ends, words_out, places_out);
        look_back.pass_by();
        return;
    }
    let digits = elements.digits(&own, pass);

    // A digit for each of the first threads.
    counters.count::<T>(&digits);
    thread::sync_threads();
    let digit = thread::thread_idx_x() as usize;
    let count = counters.of_block(digit);
    // Without what is behind the end.
    let behind = if digit == DIGITS - 1 { elements.behind() } else { 0 };
    look_back.publish(digit, count.wrapping_sub(behind));
    let (scanned, _) = storage![u32; THREADS / 32].exclusive_scan::<THREADS>(count, 0, u32::wrapping_add);
    counters.begin(digit, scanned.before);
    thread::sync_threads();

    let exchange = Exchange::<T>::new();
    // SAFETY: a rank is less than the tile's length.
    let ranks = counters.ranks::<T>(&digits, |item, rank| unsafe { exchange.set_word(rank, own[item]) });
    if let Some(before) = look_back.find(digit, count.wrapping_sub(behind)) {
        exchange.set_way(digit, before, scanned.before);
    }
    thread::sync_threads();
    if pass.row_len != 0 {
        // Elements don't say in which row they are.
        counters.keep_digits::<T>(&digits, &ranks);
        thread::sync_threads();
    }
    let to = exchange.write_words(&elements, pass, ends, counters, words_out);
    if !places_out.is_empty() {
        thread::sync_threads();
        exchange.write_places(&elements, &ranks, &to, places_out);
    }
}

/// Whether a pass is the first of those by elements, or the last.
#[derive(Clone, Copy)]
struct Ends {
    is_first: bool,
    is_last: bool,
}
