// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scan in one pass: D. Merrill, M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
//!
//! A block takes a tile by a ticket, scans it, and publishes its *aggregate* (the tile's total). Then its first warp looks
//! back at the states of the 32 tiles before, which are *invalid*, an aggregate, or a *prefix* (all up to and with that
//! tile): from the nearest prefix on, it combines what it finds; where there is none among the 32, it takes those
//! aggregates and looks at the 32 before them. What it has found is the tile's own prefix, which it publishes too, so that
//! others need not look further, and from which the block writes its results.
//!
//! The launch has as many blocks as the device runs at a time, and each goes on to another tile when it is done with one.
//! A tile that is scanned waits in shared memory until the next one is scanned and published as well; only then does the
//! block look back for it, and by then the tiles before it are published too, as a rule. Meanwhile the elements of the tile
//! after that are on their way to registers. So memory has work while blocks wait for one another.
//!
//! Every element is read once and written once. The tickets make it progress in whatever order the blocks start: the first
//! tile that is not published is held by a block that waits, if at all, for tiles before it, which are. How far a block
//! looks back depends on timing, and with it the grouping of the combinations, though never their order: results that are
//! rounded may differ in the last bits from run to run.
//!
//! # The state
//!
//! An array of `u64`, all zero at the start: the ticket counter, then the states of the tiles. A value is stored in pieces
//! of 4 bytes, each a word together with the flag, which is read and written at once: a value whose pieces have the same
//! flag is whole, since each flag is stored once. So there is nothing to order, and one access for each piece.
//!
//! # Rows
//!
//! The array may be several rows of `n` elements, each of which is scanned by itself: a look-back ends at the first tile
//! of its row.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::{Row, Window, at, fold, scan_warp};
use crate::block::{self, Scanned};
use crate::op::{Max, Min, Product, ReduceOp, Sum};

/// Threads of a block.
pub const THREADS: usize = 256;

/// Blocks that ptxas makes room for on a multiprocessor, and that the launch has for each: the fewer there are, and the
/// larger their tiles, the fewer tiles wait for one another.
pub const BLOCKS: usize = 2;

/// Bytes of values that a thread has of a tile, at most.
const THREAD_BYTES: usize = 128;

/// Elements that a thread has of a tile, at most, each in a register of its own.
const THREAD_ELEMENTS: usize = 32;

/// Bytes of the largest value.
const MAX_VALUE: usize = 32;

/// The most pieces of a value.
const MAX_PIECES: usize = MAX_VALUE / PIECE;

/// Bytes of a value that a word has room for.
const PIECE: usize = 4;

/// A tile whose total is not known yet; what the zeroed state says.
const INVALID: u32 = 0;

/// A tile whose total is known.
const AGGREGATE: u32 = 1;

/// A tile of which all up to and with it is known.
const PREFIX: u32 = 2;

/// How long a warp waits before it looks at a state again, in nanoseconds: less than such a look takes.
const PAUSE: u32 = 64;

/// Elements of a vector: those of the other scans, or fewer where the values are large.
pub const fn vec_len<T, Op: ReduceOp<T>>() -> usize {
    let mut len = super::vec_len::<T, Op>();
    while len > 1 && len * size_of::<Op::Acc>() > THREAD_BYTES {
        len /= 2;
    }
    len
}

/// Vectors that a thread has of a tile: a power of two.
pub const fn vectors<T, Op: ReduceOp<T>>() -> usize {
    let vector = vec_len::<T, Op>();
    let mut vectors = 8;
    while vectors > 1 && (vectors * vector > THREAD_ELEMENTS || vectors * vector * size_of::<Op::Acc>() > THREAD_BYTES)
    {
        vectors /= 2;
    }
    vectors
}

/// Elements of a tile.
pub const fn tile_len<T, Op: ReduceOp<T>>() -> usize {
    THREADS * vec_len::<T, Op>() * vectors::<T, Op>()
}

/// Bytes of dynamic shared memory for one tile's values; the launch has that of two, or of one where the device has less.
pub const fn shared_bytes<T, Op: ReduceOp<T>>() -> usize {
    tile_len::<T, Op>() * size_of::<Op::Acc>()
}

/// Tiles of a row of `n` elements in an array of `len`, when elements of type `T` are scanned by `Op`. Rows that do not
/// begin at a multiple of a vector have their first tile begin before them.
pub const fn tiles_of_row<T, Op: ReduceOp<T>>(len: usize, n: usize) -> usize {
    tiles(len, n, vec_len::<T, Op>(), tile_len::<T, Op>())
}

const fn tiles(len: usize, n: usize, vector: usize, tile: usize) -> usize {
    let shifted = if len == n || n.is_multiple_of(vector) {
        0
    } else {
        vector - 1
    };
    (n + shifted).div_ceil(tile)
}

/// Words of the state for `tiles` tiles and values of type `A`: one for the ticket, and for each tile one for each 4 bytes
/// of a value.
pub const fn state_len<A>(tiles: usize) -> usize {
    1 + tiles * size_of::<A>().div_ceil(PIECE)
}

/// Scans each row of `n` elements of `x` into `out`, exclusively unless `exclusive` is 0.
///
/// The launch has at most [`tiles_of_row`] blocks for each row, of [`THREADS`] threads, with [`shared_bytes`] of dynamic
/// shared memory or twice that; with less, nothing is done. `state` is all zero, and has [`state_len`] words for as many
/// tiles, or none if there is one tile; with other contents, or fewer words, the results are unspecified, or the kernel
/// waits for ever.
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
    match const { (vec_len::<T, Op>(), vectors::<T, Op>()) } {
        (1, 8) => scan_tiles::<T, Op, 1, 8>(x, n, exclusive, state, out),
        (1, 4) => scan_tiles::<T, Op, 1, 4>(x, n, exclusive, state, out),
        (1, 2) => scan_tiles::<T, Op, 1, 2>(x, n, exclusive, state, out),
        (2, 8) => scan_tiles::<T, Op, 2, 8>(x, n, exclusive, state, out),
        (2, 4) => scan_tiles::<T, Op, 2, 4>(x, n, exclusive, state, out),
        (2, 2) => scan_tiles::<T, Op, 2, 2>(x, n, exclusive, state, out),
        (4, 8) => scan_tiles::<T, Op, 4, 8>(x, n, exclusive, state, out),
        (4, 4) => scan_tiles::<T, Op, 4, 4>(x, n, exclusive, state, out),
        (4, 2) => scan_tiles::<T, Op, 4, 2>(x, n, exclusive, state, out),
        (4, 1) => scan_tiles::<T, Op, 4, 1>(x, n, exclusive, state, out),
        (8, 4) => scan_tiles::<T, Op, 8, 4>(x, n, exclusive, state, out),
        (8, 2) => scan_tiles::<T, Op, 8, 2>(x, n, exclusive, state, out),
        (8, 1) => scan_tiles::<T, Op, 8, 1>(x, n, exclusive, state, out),
        _ => scan_tiles::<T, Op, 1, 1>(x, n, exclusive, state, out),
    }
}

/// The arrays of a launch, and how they are cut into tiles.
struct Tiles<'a, T, R> {
    x: &'a [T],
    out: SliceMut<'a, R>,
    n: usize,
    of_row: u32,
    count: u32,
}

/// A tile, for one warp: what of its row the warp has.
#[derive(Clone, Copy)]
struct Tile {
    /// The tile's number in its row.
    in_row: u32,
    /// Where the warp's part begins.
    start: usize,
    /// The number in its row of the element at `start`; before the row, it wraps around.
    index: u64,
    window: Window,
}

impl<'a, T: Pod, R: Pod> Tiles<'a, T, R> {
    #[inline(always)]
    fn tile<const V: usize, const U: usize>(&self, number: u32) -> Tile {
        let (row, in_row) = if self.n == self.x.len() {
            (0, number)
        } else {
            (number / self.of_row, number % self.of_row)
        };
        let row = Row::new::<T, R, V>(row as usize, self.n, self.x, self.out);
        let warp = thread::thread_idx_x() as usize / 32;
        let warps = in_row as usize * (THREADS / 32) + warp;
        let start = row.first::<V>() + warps * (32 * V * U);
        Tile {
            in_row,
            start,
            index: start.wrapping_sub(row.lo) as u64,
            window: row.window(start, 32 * V * U),
        }
    }

    /// This lane's elements of the tile; those that are not the row's are zeros.
    #[inline(always)]
    fn load<const V: usize, const U: usize>(&self, tile: Tile) -> [[T; V]; U] {
        if tile.window.whole {
            // All loads without a branch between them, so that all are in flight at once.
            // SAFETY: the whole tile is the row's, and aligned.
            core::array::from_fn(|u| unsafe { self.x.load_vec_unchecked::<V>(tile.start + at::<V>(u) as usize) })
        } else {
            core::array::from_fn(|u| tile.window.load(self.x, tile.start, at::<V>(u)))
        }
    }
}

/// A tile whose total is published, but whose results are not written yet.
#[derive(Clone, Copy)]
struct Pending<A> {
    number: u32,
    tile: Tile,
    scanned: Scanned<A>,
}

#[inline(always)]
fn scan_tiles<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    n: usize,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, Op::Output>,
) {
    let of_row = Ord::max(tiles(x.len(), n, V, THREADS * V * U) as u32, 1);
    let rows = if n == x.len() { 1 } else { x.len() / Ord::max(n, 1) };
    let tiles = Tiles {
        x,
        out,
        n,
        of_row,
        count: rows as u32 * of_row,
    };
    let states = States::<Op::Acc>::new(state);
    let Some(parked) = Parked::<Op::Acc, V, U>::new() else {
        return;
    };
    let tickets = shared_array![u32; 1];
    let t = thread::thread_idx_x();
    let mut number = states.ticket();
    let mut has_tile = number < tiles.count;
    if !has_tile {
        return;
    }
    let mut tile = tiles.tile::<V, U>(number);
    let mut loaded = tiles.load::<V, U>(tile);
    let mut pending = Pending {
        number,
        tile,
        scanned: Scanned {
            before: Op::identity(),
            total: Op::identity(),
        },
    };
    let (mut is_pending, mut slot) = (false, 0);
    loop {
        let (before, was_pending) = (pending, is_pending);
        is_pending = has_tile;
        if has_tile {
            // Arrives while the warps scan.
            let next = if t == 0 { states.take_ticket() } else { 0 };
            let values: [[Op::Acc; V]; U] = core::array::from_fn(|u| {
                let i = at::<V>(u);
                tile.window
                    .lift::<T, Op, V>(loaded[u], i, tile.index.wrapping_add(i as u64))
            });
            let (before, warp_total) = scan_warp(&values, Op::identity(), Op::combine);
            if t == 0 {
                tickets.set(0, next);
            }
            let scanned = block::exclusive_scan_warps::<_, THREADS>(warp_total, Op::identity(), Op::combine);
            if t == 0 {
                let flag = if tile.in_row == 0 { PREFIX } else { AGGREGATE };
                states.publish(number as usize, flag, scanned.total);
            }
            pending = Pending { number, tile, scanned };
            for u in 0..U {
                parked.set(slot, u, fold(before[u], values[u], Op::combine, exclusive != 0));
            }
            number = tickets.get(0);
            has_tile = number < tiles.count;
            if has_tile {
                tile = tiles.tile::<V, U>(number);
                loaded = tiles.load::<V, U>(tile);
            }
        }
        // The tile before, if there is room for two: by now, the tiles before it are published too, as a rule.
        let (finish, this) = if parked.has_two() {
            slot = 1 - slot;
            (was_pending, before)
        } else {
            (is_pending, pending)
        };
        let prefix = if finish && t < 32 {
            states.prefix::<T, Op>(this.number as usize, this.tile.in_row as usize, this.scanned.total)
        } else {
            Op::identity()
        };
        let prefix = parked.broadcast(slot, prefix);
        if finish {
            let before = Op::combine(prefix, this.scanned.before);
            for u in 0..U {
                let i = at::<V>(u);
                let index = this.tile.index.wrapping_add(i as u64);
                let values = parked.get(slot, u);
                let results: [Op::Output; V] = core::array::from_fn(|k| {
                    let count = index.wrapping_add(k as u64 + u64::from(exclusive == 0));
                    Op::finish(Op::combine(before, values[k]), count)
                });
                this.tile.window.store(out, this.tile.start, i, results);
            }
        }
        let is_left = has_tile || (is_pending && parked.has_two());
        if !is_left {
            return;
        }
    }
}

/// Values of one or two tiles, `U` vectors of `V` for each thread, which wait in shared memory for what stands before them.
/// Each thread has its own.
#[derive(Clone, Copy)]
struct Parked<A, const V: usize, const U: usize> {
    values: Shared<A>,
    prefixes: Shared<[u64; MAX_VALUE / 8]>,
}

impl<A: Pod, const V: usize, const U: usize> Parked<A, V, U> {
    /// The values of a tile.
    const TILE: usize = THREADS * V * U;

    /// `None` if the launch has not given the shared memory for one tile.
    #[inline(always)]
    fn new() -> Option<Self> {
        let values = cuda_std::shared::dynamic::<A>();
        (values.len() >= Self::TILE && thread::block_dim_x() as usize == THREADS).then_some(Self {
            values,
            prefixes: shared_array![[u64; MAX_VALUE / 8]; 2],
        })
    }

    /// Whether there is room for two tiles, in slots 0 and 1.
    #[inline(always)]
    fn has_two(self) -> bool {
        self.values.len() >= 2 * Self::TILE
    }

    /// Where vector `u` of this thread lies.
    #[inline(always)]
    fn at(slot: usize, u: usize) -> usize {
        ((slot * U + u) * THREADS + thread::thread_idx_x() as usize) * V
    }

    #[inline(always)]
    fn set(self, slot: usize, u: usize, values: [A; V]) {
        if size_of::<[A; V]>().is_power_of_two() {
            // SAFETY: within the tile of a slot that there is, and a multiple of the vector's size.
            unsafe { self.values.set_vec_unchecked(Self::at(slot, u), values) };
        } else {
            for k in 0..V {
                // SAFETY: as above.
                unsafe { self.values.set_unchecked(Self::at(slot, u) + k, values[k]) };
            }
        }
    }

    #[inline(always)]
    fn get(self, slot: usize, u: usize) -> [A; V] {
        if size_of::<[A; V]>().is_power_of_two() {
            // SAFETY: as in `set`.
            return unsafe { self.values.get_vec_unchecked(Self::at(slot, u)) };
        }
        // SAFETY: as in `set`.
        core::array::from_fn(|k| unsafe { self.values.get_unchecked(Self::at(slot, u) + k) })
    }

    /// The `prefix` of thread 0, for all threads, which wait for one another. Between two calls for one slot, they do so
    /// once more, so that none finds the next prefix.
    #[inline(always)]
    fn broadcast(self, slot: usize, prefix: A) -> A {
        let prefixes = self.prefixes;
        if thread::thread_idx_x() == 0 {
            let mut words = [0; MAX_VALUE / 8];
            bytemuck::bytes_of_mut(&mut words)[..size_of::<A>()].copy_from_slice(bytemuck::bytes_of(&prefix));
            prefixes.set(slot, words);
        }
        thread::sync_threads();
        let words = prefixes.get(slot);
        let mut prefix = A::zeroed();
        bytemuck::bytes_of_mut(&mut prefix).copy_from_slice(&bytemuck::bytes_of(&words)[..size_of::<A>()]);
        prefix
    }
}

/// The state of a launch: a ticket counter, and for each tile a value of type `A` with its flag.
pub(super) struct States<'a, A> {
    words: SliceMut<'a, u64>,
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
    pub(super) fn new(words: SliceMut<'a, u64>) -> Self {
        const { assert!(size_of::<A>() <= MAX_VALUE && align_of::<A>() <= 16) };
        Self {
            words,
            _value: core::marker::PhantomData,
        }
    }

    /// The next number in the order in which it is asked for; without a state, a number beyond all tiles.
    #[inline(always)]
    fn take_ticket(self) -> u32 {
        if self.words.is_empty() {
            u32::MAX
        } else {
            self.words.atomic(0).fetch_add(1) as u32
        }
    }

    /// A ticket for the block, the same for all of its threads, which all call it, once. Without a state, 0.
    #[inline(always)]
    pub(super) fn ticket(self) -> u32 {
        if self.words.is_empty() {
            return 0;
        }
        let shared = shared_array![u32; 1];
        if thread::thread_idx_x() == 0 {
            shared.set(0, self.take_ticket());
        }
        thread::sync_threads();
        shared.get(0)
    }

    /// What stands before the tile in its row, combined; publishes the tile's prefix then, if there is more in the row
    /// before it than `total`, its aggregate, says. Called by all lanes of one warp.
    #[inline(always)]
    fn prefix<T, Op: ReduceOp<T, Acc = A>>(self, tile: usize, in_row: usize, total: A) -> A {
        if in_row == 0 {
            return Op::identity();
        }
        let prefix = self.look_back::<T, Op>(tile, tile - in_row);
        if warp::lane_id() == 0 {
            self.publish(tile, PREFIX, Op::combine(prefix, total));
        }
        prefix
    }

    /// Combines tiles `first_of_row .. tile`. Called by all lanes of one warp, of which lane 31 looks at the last of 32 tiles.
    #[inline(always)]
    fn look_back<T, Op: ReduceOp<T, Acc = A>>(self, tile: usize, first_of_row: usize) -> A {
        let lane = warp::lane_id();
        let mut prefix = Op::identity();
        let mut end = tile;
        loop {
            // More by 32 than the tile that this lane looks at, which may be one before the row, where all is known.
            let shifted = end + lane as usize;
            let (flag, value) = if shifted >= first_of_row + 32 {
                self.value(shifted - 32)
            } else {
                (PREFIX, Op::identity())
            };
            let invalid = warp::ballot(warp::FULL_MASK, flag == INVALID);
            let prefixes = warp::ballot(warp::FULL_MASK, flag == PREFIX);
            let nearest = if prefixes == 0 { 0 } else { prefixes.ilog2() };
            if invalid >> nearest != 0 {
                thread::nanosleep(PAUSE);
                continue;
            }
            let value = if lane >= nearest { value } else { Op::identity() };
            let window = warp::shuffle(warp::FULL_MASK, warp::inclusive_scan(value, Op::combine), 31);
            prefix = Op::combine(window, prefix);
            if prefixes != 0 {
                return prefix;
            }
            end -= 32;
        }
    }

    /// What one thread does for a part of a column: publishes its total, looks at the states of the parts before it one by
    /// one, `stride` apart, and publishes its prefix.
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
            let (flag, value) = self.value(at - stride);
            if flag == INVALID {
                thread::nanosleep(PAUSE);
                continue;
            }
            at -= stride;
            prefix = Op::combine(value, prefix);
            if flag == PREFIX {
                break;
            }
        }
        self.publish(part, PREFIX, Op::combine(prefix, total));
        prefix
    }

    /// Makes the value of a tile known to the other blocks.
    #[inline(always)]
    fn publish(self, tile: usize, flag: u32, value: A) {
        let mut pieces = [0u32; MAX_PIECES];
        bytemuck::bytes_of_mut(&mut pieces)[..size_of::<A>()].copy_from_slice(bytemuck::bytes_of(&value));
        let first = 1 + tile * Self::PIECES;
        for p in 0..Self::PIECES {
            if first + p < self.words.len() {
                let word = u64::from(flag) << 32 | u64::from(pieces[p]);
                self.words.atomic(first + p).store(word);
            }
        }
    }

    /// The flag of a tile, and its value, if it is valid. Beyond the state all is known, so that nobody waits there.
    #[inline(always)]
    fn value(self, tile: usize) -> (u32, A) {
        let first = 1 + tile * Self::PIECES;
        if first + Self::PIECES > self.words.len() {
            return (PREFIX, A::zeroed());
        }
        // SAFETY: within the words, as just asked.
        let load = |p: usize| unsafe { self.words.atomic_unchecked(first + p) }.load();
        let mut pieces = [0u32; MAX_PIECES];
        let mut flag = INVALID;
        for p in 0..Self::PIECES {
            let word = load(p);
            let other = (word >> 32) as u32;
            flag = if p == 0 || other == flag { other } else { INVALID };
            pieces[p] = word as u32;
        }
        let mut value = A::zeroed();
        bytemuck::bytes_of_mut(&mut value).copy_from_slice(&bytemuck::bytes_of(&pieces)[..size_of::<A>()]);
        (flag, value)
    }
}
