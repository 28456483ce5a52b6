// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scan in one pass: D. Merrill, M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
//!
//! Each block takes a tile by a ticket, scans it, and publishes its *aggregate* (the tile's total). Then its first warp
//! looks back at the states of the 32 tiles before, which are *invalid*, an aggregate, or a *prefix* (all up to and with
//! that tile): from the nearest prefix on, it combines what it finds; where there is none among the 32, it takes those
//! aggregates and looks at the 32 before them. What it has found is the tile's own prefix, which it publishes too, so that
//! others need not look further, and from which the block writes its results.
//!
//! Every element is read once and written once. The tickets make it progress in whatever order the blocks start: a
//! block waits only for tiles that other blocks have already begun. How far a block looks back depends on timing, and
//! with it the grouping of the combinations, though never their order: results that are rounded may differ in the last
//! bits from run to run.
//!
//! # The state
//!
//! An array of `u64`, all zero at the start: the ticket counter, then the states of the tiles. A value of at most 4 bytes
//! is packed with its flag into one word, read and written at once. Larger values have places of their own, one for
//! aggregates and one for prefixes, so that none is ever overwritten, and the flag is stored after them (release) and
//! loaded before them (acquire).
//!
//! # Rows
//!
//! The array may be several rows of `n` elements, each of which is scanned by itself: a look-back ends at the first tile
//! of its row.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::{Row, THREADS, load, scan_warp, store, vec_len, warp_tile_len};
use crate::block;
use crate::op::{Max, Min, Product, ReduceOp, Sum};

/// Blocks that ptxas makes room for on a multiprocessor.
pub const BLOCKS: usize = 4;

/// The largest value that is packed with its flag, in bytes.
const PACKED: usize = 4;

/// Bytes of the largest value.
const MAX_VALUE: usize = 32;

/// A tile whose total is not known yet; what the zeroed state says.
const INVALID: u64 = 0;

/// A tile whose total is known.
const AGGREGATE: u64 = 1;

/// A tile of which all up to and with it is known.
const PREFIX: u64 = 2;

/// How long a warp waits before it looks at a state again, in nanoseconds: less than such a look takes.
const PAUSE: u32 = 64;

/// Tiles of a row of `n` elements in an array of `len`, when elements of type `T` are scanned by `Op`. Rows that do not
/// begin at a multiple of a vector have their first tile begin before them.
pub const fn tiles_of_row<T, Op: ReduceOp<T>>(len: usize, n: usize) -> usize {
    let vector = vec_len::<T, Op>();
    let shifted = if len == n || n.is_multiple_of(vector) {
        0
    } else {
        vector - 1
    };
    (n + shifted).div_ceil(super::tile_len::<T, Op>())
}

/// Words of the state for `tiles` tiles and values of type `A`: one for each tile and the ticket, and two values for each
/// tile if they have more than 4 bytes.
pub const fn state_len<A>(tiles: usize) -> usize {
    let values = if size_of::<A>() <= PACKED {
        0
    } else {
        2 * size_of::<A>().div_ceil(8)
    };
    1 + tiles * (1 + values)
}

/// Scans each row of `n` elements of `x` into `out`, exclusively unless `exclusive` is 0.
///
/// The launch has [`tiles_of_row`] blocks for each row, of [`THREADS`] threads. `state` is all zero, and has [`state_len`]
/// words for as many tiles; with other contents, or fewer words, the results are unspecified, or the kernel waits for ever.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Sum, Product, Min, Max],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn scan<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    n: usize,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    match const { vec_len::<T, Op>() } {
        1 => scan_tile::<T, Op, 1, 4>(x, n, exclusive, state, out),
        2 => scan_tile::<T, Op, 2, 4>(x, n, exclusive, state, out),
        4 => scan_tile::<T, Op, 4, 4>(x, n, exclusive, state, out),
        _ => scan_tile::<T, Op, 8, 2>(x, n, exclusive, state, out),
    }
}

#[inline(always)]
fn scan_tile<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    n: usize,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, Op::Output>,
) {
    let states = States::<Op::Acc>::new(state, thread::grid_dim_x() as usize);
    let tile = states.ticket();
    let tiles = Ord::max(tiles_of_row::<T, Op>(x.len(), n) as u32, 1);
    let (number, tile_in_row) = if n == x.len() {
        (0, tile)
    } else {
        (tile / tiles, tile % tiles)
    };
    let row = Row::new::<T, Op::Output, V>(number as usize, n, x, out);
    let warp = thread::thread_idx_x() as usize / 32;
    let warps = tile_in_row as usize * (THREADS / 32) + warp;
    let start = row.first::<V>() + warps * warp_tile_len::<T, Op>();

    let values = load::<T, Op, V, U>(x, row, start);
    let (before, warp_total) = scan_warp(&values, Op::identity(), Op::combine);
    let scanned = block::exclusive_scan_warps::<_, THREADS>(warp_total, Op::identity(), Op::combine);

    let shared = shared_array![[u64; MAX_VALUE / 8]; 1].cast::<Op::Acc>();
    if warp == 0 {
        let prefix = states.prefix::<T, Op>(tile as usize, tile_in_row as usize, scanned.total);
        if warp::lane_id() == 0 {
            shared.set(0, prefix);
        }
    }
    thread::sync_threads();
    let prefix = Op::combine(shared.get(0), scanned.before);
    let before = core::array::from_fn(|u| Op::combine(prefix, before[u]));
    store::<T, Op, V, U>(out, row, start, before, &values, exclusive != 0);
}

/// The state of a launch: a ticket counter, and for each tile a flag and values of type `A`.
pub(super) struct States<'a, A> {
    words: SliceMut<'a, u64>,
    tiles: usize,
    _value: core::marker::PhantomData<A>,
}

impl<A> Clone for States<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for States<'_, A> {}

impl<'a, A: Pod> States<'a, A> {
    #[inline(always)]
    pub(super) fn new(words: SliceMut<'a, u64>, tiles: usize) -> Self {
        const { assert!(size_of::<A>() <= MAX_VALUE && align_of::<A>() <= 16) };
        Self {
            words,
            tiles,
            _value: core::marker::PhantomData,
        }
    }

    /// The number of this block in the order in which the blocks began; the same for all of its threads, which all call
    /// it, once.
    #[inline(always)]
    pub(super) fn ticket(self) -> u32 {
        let shared = shared_array![u32; 1];
        if thread::thread_idx_x() == 0 {
            let ticket = if self.words.is_empty() {
                0
            } else {
                self.words.atomic(0).fetch_add(1)
            };
            shared.set(0, ticket as u32);
        }
        thread::sync_threads();
        shared.get(0)
    }

    /// What stands before the tile in its row, combined; publishes the tile's `total` and prefix meanwhile. Called by all
    /// lanes of one warp.
    #[inline(always)]
    fn prefix<T, Op: ReduceOp<T, Acc = A>>(self, tile: usize, tile_in_row: usize, total: A) -> A {
        let lane = warp::lane_id();
        if tile_in_row == 0 {
            if lane == 0 {
                self.publish(tile, PREFIX, total);
            }
            return Op::identity();
        }
        if lane == 0 {
            self.publish(tile, AGGREGATE, total);
        }
        let prefix = self.look_back::<T, Op>(tile, tile - tile_in_row);
        if lane == 0 {
            self.publish(tile, PREFIX, Op::combine(prefix, total));
        }
        prefix
    }

    /// Combines tiles `first_of_row .. tile`. Called by all lanes of one warp, of which lane 31 looks at the last tile.
    #[inline(always)]
    fn look_back<T, Op: ReduceOp<T, Acc = A>>(self, tile: usize, first_of_row: usize) -> A {
        let lane = warp::lane_id();
        let mut prefix = Op::identity();
        let mut end = tile;
        loop {
            // 32 more than the tile that this lane looks at, which may be one before the row.
            let shifted = end + lane as usize;
            let (word, nearest, found) = self.wait_for_window(shifted, first_of_row);
            let value = if lane >= nearest && shifted >= first_of_row + 32 {
                self.value(shifted - 32, word)
            } else {
                Op::identity()
            };
            let window = warp::shuffle(warp::FULL_MASK, warp::inclusive_scan(value, Op::combine), 31);
            prefix = Op::combine(window, prefix);
            if found {
                return prefix;
            }
            end -= 32;
        }
    }

    /// Waits until of the tiles that the lanes look at, tile `shifted − 32` each, all are valid from the nearest prefix on.
    /// Gives the lane's word, the lane with that prefix, and whether there is one. Before the row all is known.
    #[inline(always)]
    fn wait_for_window(self, shifted: usize, first_of_row: usize) -> (u64, u32, bool) {
        loop {
            let word = if shifted >= first_of_row + 32 {
                self.word(shifted - 32)
            } else {
                Self::flag_word(PREFIX)
            };
            let invalid = warp::ballot(warp::FULL_MASK, Self::flag(word) == INVALID);
            let prefixes = warp::ballot(warp::FULL_MASK, Self::flag(word) == PREFIX);
            let nearest = if prefixes == 0 { 0 } else { prefixes.ilog2() };
            if invalid >> nearest == 0 {
                return (word, nearest, prefixes != 0);
            }
            thread::nanosleep(PAUSE);
        }
    }

    /// What one thread does for a part of a column: as [`prefix`](Self::prefix), but the thread looks at the states of the
    /// parts before it one by one, `stride` apart.
    #[inline(always)]
    pub(super) fn prefix_of_part<T, Op: ReduceOp<T, Acc = A>>(self, part: usize, stride: usize, total: A) -> A {
        if part < stride {
            self.publish(part, PREFIX, total);
            return Op::identity();
        }
        self.publish(part, AGGREGATE, total);
        let mut prefix = Op::identity();
        let mut at = part;
        while at >= stride {
            let word = self.word(at - stride);
            if Self::flag(word) == INVALID {
                thread::nanosleep(PAUSE);
                continue;
            }
            at -= stride;
            prefix = Op::combine(self.value(at, word), prefix);
            if Self::flag(word) == PREFIX {
                break;
            }
        }
        self.publish(part, PREFIX, Op::combine(prefix, total));
        prefix
    }

    #[inline(always)]
    fn is_packed() -> bool {
        size_of::<A>() <= PACKED
    }

    /// The flag in the word of a tile.
    #[inline(always)]
    fn flag(word: u64) -> u64 {
        if Self::is_packed() { word >> 32 } else { word }
    }

    /// A word with that flag, and no value.
    #[inline(always)]
    fn flag_word(flag: u64) -> u64 {
        if Self::is_packed() { flag << 32 } else { flag }
    }

    /// Makes the value of a tile known to the other blocks.
    #[inline(always)]
    fn publish(self, tile: usize, flag: u64, value: A) {
        let words = to_words(value);
        let at = 1 + tile;
        if at >= self.words.len() {
            return;
        }
        if Self::is_packed() {
            self.words.atomic(at).store(Self::flag_word(flag) | words[0]);
            return;
        }
        let slot = self.slot(tile, flag);
        for w in 0..Self::words_of_value() {
            if slot + w < self.words.len() {
                self.words.atomic(slot + w).store(words[w]);
            }
        }
        self.words.atomic(at).store_release(flag);
    }

    /// The word of a tile, which has its flag. Beyond the state all is known, so that nobody waits there.
    #[inline(always)]
    fn word(self, tile: usize) -> u64 {
        let at = 1 + tile;
        if at >= self.words.len() {
            Self::flag_word(PREFIX)
        } else if Self::is_packed() {
            self.words.atomic(at).load()
        } else {
            self.words.atomic(at).load_acquire()
        }
    }

    /// The value of a tile whose `word` was loaded and is valid.
    #[inline(always)]
    fn value(self, tile: usize, word: u64) -> A {
        let mut words = [0; MAX_VALUE / 8];
        if Self::is_packed() {
            words[0] = word & 0xffff_ffff;
            return from_words(words);
        }
        let slot = self.slot(tile, word);
        for w in 0..Self::words_of_value() {
            if slot + w < self.words.len() {
                words[w] = self.words.atomic(slot + w).load();
            }
        }
        from_words(words)
    }

    #[inline(always)]
    fn words_of_value() -> usize {
        size_of::<A>().div_ceil(8)
    }

    /// Where the value of a tile is that is not packed: behind all flags first the aggregates, then the prefixes.
    #[inline(always)]
    fn slot(self, tile: usize, flag: u64) -> usize {
        let place = if flag == PREFIX { self.tiles + tile } else { tile };
        1 + self.tiles + place * Self::words_of_value()
    }
}

/// The bytes of a value, and zeros behind them.
#[inline(always)]
fn to_words<A: Pod>(value: A) -> [u64; MAX_VALUE / 8] {
    let mut words = [0; MAX_VALUE / 8];
    bytemuck::bytes_of_mut(&mut words)[..size_of::<A>()].copy_from_slice(bytemuck::bytes_of(&value));
    words
}

/// The value whose bytes the words begin with.
#[inline(always)]
fn from_words<A: Pod>(words: [u64; MAX_VALUE / 8]) -> A {
    let mut value = A::zeroed();
    bytemuck::bytes_of_mut(&mut value).copy_from_slice(&bytemuck::bytes_of(&words)[..size_of::<A>()]);
    value
}
