// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short rows, each sorted by itself, in one launch: elements are read once, and written once.
//!
//! A row has as many threads as it has units of [`Key::ITEMS`] elements, a power of two; what it lacks to that many elements is
//! filled with keys that come last. Threads sort their units in registers, by a bitonic network (K. Batcher, "Sorting networks and
//! their applications", 1968), then merge two of them, two of these, and so on. Of a merge, comparisons of keys that are less than a
//! unit apart are a thread's own, those of lanes shuffles, and those of warps, in rows of more than [32](WARP_SIZE) units, go through
//! shared memory. The first step of a merge compares the one half with the other backwards, so that every comparison leaves the lesser
//! key where the number is lower, and a thread's own are between registers that are known when it is compiled.
//!
//! What is sorted are keys, not elements: equal keys are of equal bits, and so the elements are made of their keys again, and a network,
//! which is not stable, gives what a stable sort does. Where places are wanted they are the lower bits of the key: then no two are equal,
//! and the order is that of a stable sort. As it depends on nothing else, keys begin in any order: they are loaded as it is quickest.

use bytemuck::Pod;
use cuda_std::hint;
use cuda_std::prelude::*;
use cuda_std::warp::{FULL_MASK, WARP_SIZE};

use super::{Pass, Word};
use crate::matmul::unroll;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Keys of a thread, at most.
const MOST_ITEMS: usize = 16;

/// Bits of a place below a key.
const PLACE_BITS: u32 = 16;

/// What is sorted: a number.
pub trait Key: Pod {
    /// How many a thread has: a power of two.
    const ITEMS: usize;

    /// The greatest.
    const LAST: Self;

    /// Whether it is less.
    fn precedes(self, other: Self) -> bool;

    /// The lesser one, then the greater.
    fn in_order(self, other: Self) -> [Self; 2];

    /// Room for those of a block, and one more for each thread.
    fn room() -> Shared<Self>;
}

macro_rules! keys {
    ($($type:ident: $items:literal, |$a:ident, $b:ident| $in_order:expr;)*) => {$(
        impl Key for $type {
            const ITEMS: usize = $items;

            const LAST: Self = $type::MAX;

            #[inline(always)]
            fn precedes(self, other: Self) -> bool {
                self < other
            }

            #[inline(always)]
            fn in_order(self, other: Self) -> [Self; 2] {
                let [$a, $b] = [self, other];
                $in_order
            }

            #[inline(always)]
            fn room() -> Shared<Self> {
                const { assert!($items <= MOST_ITEMS && usize::is_power_of_two($items)) };
                shared_array![$type; THREADS * ($items + 1)]
            }
        }
    )*};
}

keys! {
    // There are instructions for these, but for wider ones a comparison is several.
    u32: 16, |a, b| [Ord::min(a, b), Ord::max(a, b)];
    u64: 16, |a, b| if b < a { [b, a] } else { [a, b] };
    u128: 8, |a, b| if b < a { [b, a] } else { [a, b] };
}

/// Bits of an element whose rows are sorted.
pub trait RowWord: Word {
    /// A number that has its key.
    type Key: Key;
    /// A number that has its key, and below that its place.
    type Placed: Key;

    /// Its key.
    fn to_key(self, pass: Pass) -> Self::Key;

    /// The element that has this key.
    fn from_key(key: Self::Key, pass: Pass) -> Self;

    /// A key and a place.
    fn placed(key: Self, place: u32) -> Self::Placed;

    /// The place.
    fn place(placed: Self::Placed) -> u32;
}

macro_rules! words {
    ($($type:ident: $key:ident, $placed:ident;)*) => {$(
        impl RowWord for $type {
            type Key = $key;
            type Placed = $placed;

            #[inline(always)]
            fn to_key(self, pass: Pass) -> $key {
                self.key(pass) as $key
            }

            #[inline(always)]
            fn from_key(key: $key, pass: Pass) -> Self {
                Self::of_key(key as $type, pass)
            }

            #[inline(always)]
            fn placed(key: Self, place: u32) -> $placed {
                (key as $placed) << PLACE_BITS | place as $placed
            }

            #[inline(always)]
            fn place(placed: $placed) -> u32 {
                placed as u32 & ((1 << PLACE_BITS) - 1)
            }
        }
    )*};
}

words! {
    u8: u32, u32;
    u16: u32, u32;
    u32: u32, u64;
    u64: u64, u128;
}

/// The most elements of a row that is sorted by keys of that type: all that a block has.
pub const fn most<K: Key>() -> usize {
    THREADS * K::ITEMS
}

/// How many keys a row of `len` elements has, with those that fill it.
const fn filled<K: Key>(len: usize) -> usize {
    let least = if len < K::ITEMS { K::ITEMS } else { len };
    least.next_power_of_two()
}

/// Rows of `len` elements, at least one and [`most`] at most, that a block sorts.
pub const fn rows_of_block<K: Key>(len: usize) -> usize {
    most::<K>() / filled::<K>(len)
}

/// A block's rows.
#[derive(Clone, Copy)]
struct Rows {
    /// The number of the first one.
    first: usize,
    /// The number of its first element.
    start: usize,
    /// How many they are.
    count: u32,
    /// The elements of each.
    len: u32,
    /// The logarithm of how many keys each has.
    log: u32,
}

impl Rows {
    /// Of so many rows of `len` elements, one at least.
    #[inline(always)]
    fn of_block<K: Key>(len: u32, all: usize) -> Self {
        let log = filled::<K>(len as usize).trailing_zeros();
        let most = most::<K>() >> log;
        let first = Ord::min((thread::block_idx_x() as usize).wrapping_mul(most), all);
        Self {
            first,
            start: first.wrapping_mul(len as usize),
            count: Ord::min(all.wrapping_sub(first), most) as u32,
            len,
            log,
        }
    }

    /// Which of the block's elements a key of it is of, and the place in its row, if it is of any.
    #[inline(always)]
    fn element(self, number: u32) -> Option<(u32, u32)> {
        let (row, place) = (number >> self.log, number & ((1 << self.log) - 1));
        (row < self.count && place < self.len).then(|| (row.wrapping_mul(self.len).wrapping_add(place), place))
    }
}

/// The keys of a thread.
#[derive(Clone, Copy)]
struct Keys<K> {
    own: [K; MOST_ITEMS],
    room: Shared<K>,
    /// The number of the block's first key that this lane loads and stores.
    first: u32,
}

impl<K: Key> Keys<K> {
    /// The number of a key that a lane loads and stores: those of neighbours are side by side.
    #[inline(always)]
    fn striped(self, item: usize) -> u32 {
        self.first + item as u32 * WARP_SIZE
    }

    /// Where a thread's key is in shared memory. One is left out behind those of each thread, so that lanes that access the same one of
    /// theirs have different banks.
    #[inline(always)]
    fn room_of(thread: u32, item: usize) -> usize {
        thread as usize % THREADS * (K::ITEMS + 1) + item
    }

    /// Where the [striped](Self::striped) one is, which is of another thread.
    #[inline(always)]
    fn striped_room(self, item: usize) -> usize {
        const { assert!((WARP_SIZE as usize).is_multiple_of(K::ITEMS)) };
        let of_lanes = WARP_SIZE as usize / K::ITEMS * (K::ITEMS + 1);
        Self::room_of(self.first / K::ITEMS as u32, self.first as usize % K::ITEMS) + item * of_lanes
    }

    /// Those of the block that `load` gives.
    ///
    /// # Safety
    ///
    /// The block has [`THREADS`] threads.
    ///
    /// # Convergence
    ///
    /// All lanes of a warp call it.
    #[inline(always)]
    unsafe fn load(load: impl Fn(u32) -> K) -> Self {
        let mut keys = Self {
            own: [K::zeroed(); MOST_ITEMS],
            room: K::room(),
            first: warp::uniform(warp::warp_id()) * WARP_SIZE * K::ITEMS as u32 + warp::lane_id(),
        };
        unroll!(16, item => {
            if item < K::ITEMS {
                keys.own[item] = load(keys.striped(item));
            }
        });
        unroll!(16, item => {
            if item < K::ITEMS {
                // SAFETY: a number of the block's, as the warp is one of so many threads.
                unsafe { keys.room.set_unchecked(keys.striped_room(item), keys.own[item]) };
            }
        });
        warp::sync_warp(FULL_MASK);
        unroll!(16, item => {
            if item < K::ITEMS {
                keys.own[item] = keys.of(thread::thread_idx_x(), item);
            }
        });
        keys
    }

    /// Gives all of them to `store`, with their number.
    ///
    /// # Safety
    ///
    /// The block has [`THREADS`] threads.
    ///
    /// # Convergence
    ///
    /// All lanes of a warp call it, and other warps read none of this warp's.
    #[inline(always)]
    unsafe fn store(mut self, store: impl Fn(u32, K)) {
        // What is made of it is made anew: the compiler would keep all of it since the keys were loaded.
        self.first = hint::opaque(self.first);
        warp::sync_warp(FULL_MASK);
        self.share();
        warp::sync_warp(FULL_MASK);
        unroll!(16, item => {
            if item < K::ITEMS {
                // SAFETY: a number of the block's, as the warp is one of so many threads.
                store(self.striped(item), unsafe { self.room.get_unchecked(self.striped_room(item)) });
            }
        });
    }

    /// Puts this thread's keys into shared memory.
    #[inline(always)]
    fn share(self) {
        unroll!(16, item => {
            if item < K::ITEMS {
                // SAFETY: there is room for the keys of each thread.
                unsafe { self.room.set_unchecked(Self::room_of(thread::thread_idx_x(), item), self.own[item]) };
            }
        });
    }

    /// A key that a thread has put into shared memory.
    #[inline(always)]
    fn of(self, thread: u32, item: usize) -> K {
        // SAFETY: there is room for the keys of each thread.
        unsafe { self.room.get_unchecked(Self::room_of(thread, item)) }
    }

    /// Compares each key of this thread's with that whose number differs by exclusive or with `MASK`.
    #[inline(always)]
    fn compare<const MASK: usize>(&mut self) {
        unroll!(16, item => {
            let other = item ^ MASK;
            if item < other && other < K::ITEMS {
                [self.own[item], self.own[other]] = self.own[item].in_order(self.own[other]);
            }
        });
    }

    /// Merges, in each thread, two halves of what is to be in order, as [`compare_across`](Self::compare_across) has left them.
    #[inline(always)]
    fn merge_own(&mut self) {
        self.compare::<8>();
        self.compare::<4>();
        self.compare::<2>();
        self.compare::<1>();
    }

    /// Sorts those of each thread.
    #[inline(always)]
    fn sort_own(&mut self) {
        self.compare::<1>();
        self.compare::<3>();
        self.compare::<1>();
        self.compare::<7>();
        self.compare::<2>();
        self.compare::<1>();
        self.compare::<15>();
        if K::ITEMS > 8 {
            self.compare::<4>();
            self.compare::<2>();
            self.compare::<1>();
        }
    }

    /// Compares the keys of this thread with those of the thread whose number differs by exclusive or with `mask`, each with that of the
    /// same number, or from the other end.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it, with the same mask.
    #[inline(always)]
    fn compare_across<const IS_BACKWARDS: bool>(&mut self, mask: u32) {
        let thread = thread::thread_idx_x();
        let other = thread ^ mask;
        let is_lower = thread < other;
        let chosen = |own: K, other: K| if own.precedes(other) == is_lower { own } else { other };
        let across = |item: usize| if IS_BACKWARDS { K::ITEMS - 1 - item } else { item };
        if mask < WARP_SIZE {
            // Two at a time, for either is wanted on the other side.
            unroll!(8, item => {
                if item < K::ITEMS / 2 {
                    let pair = [item, K::ITEMS - 1 - item];
                    let others = [
                        warp::shuffle_xor(FULL_MASK, self.own[across(pair[0])], mask),
                        warp::shuffle_xor(FULL_MASK, self.own[across(pair[1])], mask),
                    ];
                    self.own[pair[0]] = chosen(self.own[pair[0]], others[0]);
                    self.own[pair[1]] = chosen(self.own[pair[1]], others[1]);
                }
            });
        } else {
            thread::sync_threads();
            self.share();
            thread::sync_threads();
            unroll!(16, item => {
                if item < K::ITEMS {
                    self.own[item] = chosen(self.own[item], self.of(other, across(item)));
                }
            });
        }
    }

    /// Sorts those of each row, which has so many, a power of two of [`Key::ITEMS`] at least. Then no warp reads another's any more.
    ///
    /// # Convergence
    ///
    /// All threads of the block call it, with the same number.
    #[inline(always)]
    fn sort(&mut self, of_row: usize) {
        self.sort_own();
        let threads = (of_row / K::ITEMS) as u32;
        let mut merged = 2;
        while merged <= threads {
            self.compare_across::<true>(merged - 1);
            let mut apart = merged / 4;
            while apart > 0 {
                self.compare_across::<false>(apart);
                apart /= 2;
            }
            self.merge_own();
            merged *= 2;
        }
        if threads > WARP_SIZE {
            // Other warps have read this one's.
            thread::sync_threads();
        }
    }
}

/// Whether the launch is one for rows of `len` elements.
#[inline(always)]
fn is_launched<K: Key>(len: usize) -> bool {
    thread::block_dim_x() as usize == THREADS && len > 0 && len <= most::<K>()
}

/// The elements of each row of `len` in the order of `pass`, which is of the elements. `x` has the rows one after another, and so has
/// `out`, of the same length. Blocks of [`THREADS`] threads, one for each [`rows_of_block`] of [`Key`](RowWord::Key).
#[kernel(T = [u8, u16, u32, u64], max_threads = THREADS)]
pub fn sort_rows<T: RowWord>(x: &[T], len: u32, pass: Pass, out: SliceMut<'_, T>) {
    if !is_launched::<T::Key>(len as usize) {
        return;
    }
    let rows = Rows::of_block::<T::Key>(len, Ord::min(x.len(), out.len()) / len as usize);
    // SAFETY: the rows are in bounds.
    let own = unsafe { x.get_unchecked(rows.start..) };
    let load = |number: u32| match rows.element(number) {
        // SAFETY: an element of the rows; a single element is always aligned.
        Some((at, _)) => unsafe { own.load_vec_unchecked::<1>(at as usize)[0] }.to_key(pass),
        None => T::Key::LAST,
    };
    // SAFETY: so many threads, as asked above.
    let mut keys = unsafe { Keys::load(load) };
    keys.sort(1 << rows.log);
    let store = |number: u32, key: T::Key| {
        if let Some((at, _)) = rows.element(number) {
            // SAFETY: as for what was read.
            unsafe { out.set_vec_unchecked(rows.start.wrapping_add(at as usize), [T::from_key(key, pass)]) };
        }
    };
    // SAFETY: so many threads, as asked above; what is sorted, no other warp reads.
    unsafe { keys.store(store) };
}

/// The places that the elements of each row have in it, in the order that [`sort_rows()`] puts them; of equal elements the first comes
/// first. Blocks of [`THREADS`] threads, one for each [`rows_of_block`] of [`Placed`](RowWord::Placed).
#[kernel(T = [u8, u16, u32, u64], max_threads = THREADS)]
pub fn argsort_rows<T: RowWord>(x: &[T], len: u32, pass: Pass, out: SliceMut<'_, u64>) {
    const {
        assert!(
            most::<T::Placed>() < 1 << PLACE_BITS,
            "no place is that of what fills a row"
        )
    };
    if !is_launched::<T::Placed>(len as usize) {
        return;
    }
    let rows = Rows::of_block::<T::Placed>(len, Ord::min(x.len(), out.len()) / len as usize);
    // SAFETY: the rows are in bounds.
    let own = unsafe { x.get_unchecked(rows.start..) };
    let load = |number: u32| match rows.element(number) {
        // SAFETY: an element of the rows; a single element is always aligned.
        Some((at, place)) => T::placed(unsafe { own.load_vec_unchecked::<1>(at as usize)[0] }.key(pass), place),
        None => T::Placed::LAST,
    };
    // SAFETY: so many threads, as asked above.
    let mut keys = unsafe { Keys::load(load) };
    keys.sort(1 << rows.log);
    let store = |number: u32, key: T::Placed| {
        if let Some((at, _)) = rows.element(number) {
            // SAFETY: as for what was read.
            unsafe { out.set_vec_unchecked(rows.start.wrapping_add(at as usize), [T::place(key) as u64]) };
        }
    };
    // SAFETY: so many threads, as asked above; what is sorted, no other warp reads.
    unsafe { keys.store(store) };
}

/// The `k` largest elements of each row of `len`, from the largest, and the places that they have in it. Of equal elements the first comes
/// first; NaN is above every number, and −0 equal to +0. `x` has the rows one after another, `values` and `indices` have `k` elements for
/// each, `k` at least one and `len` at most. Blocks of [`THREADS`] threads, one for each [`rows_of_block`] of
/// [`Placed`](RowWord::Placed).
#[kernel(T = [u16, u32, u64], max_threads = THREADS)]
pub fn top_k_rows<T: RowWord>(
    x: &[T],
    len: u32,
    k: u32,
    pass: Pass,
    values: SliceMut<'_, T>,
    indices: SliceMut<'_, u64>,
) {
    if !is_launched::<T::Placed>(len as usize) || k == 0 || k > len {
        return;
    }
    let results = Ord::min(values.len(), indices.len()) / k as usize;
    let rows = Rows::of_block::<T::Placed>(len, Ord::min(x.len() / len as usize, results));
    // SAFETY: the rows are in bounds.
    let own = unsafe { x.get_unchecked(rows.start..) };
    // SAFETY (of all calls): an element of the rows; a single element is always aligned.
    let element = |at: u32| unsafe { own.load_vec_unchecked::<1>(at as usize)[0] };
    let load = |number: u32| match rows.element(number) {
        Some((at, place)) => T::placed(element(at).key_from_greatest(pass), place),
        None => T::Placed::LAST,
    };
    // SAFETY: so many threads, as asked above.
    let mut keys = unsafe { Keys::load(load) };
    keys.sort(1 << rows.log);
    let store = |number: u32, key: T::Placed| match rows.element(number) {
        Some((at, rank)) if rank < k => {
            let (place, row) = (T::place(key), rows.first.wrapping_add((number >> rows.log) as usize));
            let to = row.wrapping_mul(k as usize).wrapping_add(rank as usize);
            // SAFETY (of both): there are `k` results for each of the rows; single elements are always aligned.
            unsafe {
                // Where the row begins, and its place from there on.
                values.set_vec_unchecked(to, [element(at.wrapping_sub(rank).wrapping_add(place))]);
                indices.set_vec_unchecked(to, [place as u64]);
            }
        }
        _ => {}
    };
    // SAFETY: so many threads, as asked above; what is sorted, no other warp reads.
    unsafe { keys.store(store) };
}
