// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scan in one pass: D. Merrill, M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
//!
//! A block takes a tile by a ticket, scans it, and publishes its *aggregate* (the tile's total). Then one of its warps, which
//! does nothing else, looks back at the states of the tiles before, which are *invalid*, an aggregate, or a *prefix* (all up
//! to and with that tile): it combines the aggregates from the nearest prefix on. What it has found is the tile's own
//! prefix, from which the block writes its results. Every 32nd tile publishes its prefix too, so that others need not look
//! further.
//!
//! The launch has as many blocks as the device runs at a time, and each goes on to another tile when it is done with one.
//! Three tiles of a block are on their way at a time: one comes from memory to registers; one is scanned and published, and
//! waits in shared memory while the warp looks back; of one the prefix is known, and its results are written. When a tile
//! takes the next step, all others do, at one barrier. So memory has work while warps wait for one another, and a look-back
//! begins when the tiles before it have been published long since, as a rule.
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
use cuda_std::hint;
use cuda_std::prelude::*;

use super::{Row, Window, at, has_vectors, results, scan_warp, total};
use crate::block::Scanned;
use crate::op::{Max, Min, Product, ReduceOp, Sum};
use crate::tile;

/// Threads of a block that have elements.
const WORKERS: usize = 256;

/// Threads of a block: those, and the warp that looks back.
pub const THREADS: usize = WORKERS + 32;

/// Blocks that ptxas makes room for on a multiprocessor, and that the launch has for each: the fewer there are, and the
/// larger their tiles, the fewer tiles wait for one another.
pub const BLOCKS: usize = 2;

/// Bytes of elements that a thread has of a tile, at most: what it has in flight.
const THREAD_BYTES: usize = 128;

/// Bytes of values that a thread has of a tile, one for each vector, at most.
const THREAD_VALUES: usize = 64;

/// Bytes of a vector's values, at most, which a thread has in registers at a time.
const VECTOR_VALUES: usize = 128;

/// The number of no tile.
const NONE: u32 = u32::MAX;

/// How many times 32 tiles a warp looks at, at first: as many as were scanned since the last prefix, as a rule.
const LOOKS: usize = 4;

/// Every so many tiles, the last of them publishes its prefix. A state that was read and is written is dear: where every
/// tile publishes its prefix, the scan takes a tenth longer, though nobody waits for it.
const PREFIX_EVERY: usize = 32;

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

/// Elements of a vector: 16 bytes of the larger of element and result, or fewer where the values are large; 1 if either has
/// a size that is not a power of two.
pub const fn vec_len<T, Op: ReduceOp<T>>() -> usize {
    if !has_vectors::<T, Op::Output>() {
        return 1;
    }
    let (input, output) = (size_of::<T>(), size_of::<Op::Output>());
    let mut len = tile::vec_len(if input > output { input } else { output });
    while len > 1 && len * size_of::<Op::Acc>() > VECTOR_VALUES {
        len /= 2;
    }
    len
}

/// Vectors that a thread has of a tile: a power of two.
pub const fn vectors<T, Op: ReduceOp<T>>() -> usize {
    let vector = vec_len::<T, Op>() * size_of::<T>();
    let mut vectors = 8;
    while vectors > 1 && (vectors * vector > THREAD_BYTES || vectors * size_of::<Op::Acc>() > THREAD_VALUES) {
        vectors /= 2;
    }
    vectors
}

/// Elements of a tile.
pub const fn tile_len<T, Op: ReduceOp<T>>() -> usize {
    WORKERS * vec_len::<T, Op>() * vectors::<T, Op>()
}

/// Bytes of dynamic shared memory for one tile: a value for each vector, and the elements. The launch has that of two
/// tiles, or of one where the device has less.
pub const fn shared_bytes<T, Op: ReduceOp<T>>() -> usize {
    let values = WORKERS * vectors::<T, Op>() * size_of::<Op::Acc>();
    values.next_multiple_of(size_of::<T>()) + tile_len::<T, Op>() * size_of::<T>()
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
        (2, 1) => scan_tiles::<T, Op, 2, 1>(x, n, exclusive, state, out),
        (4, 8) => scan_tiles::<T, Op, 4, 8>(x, n, exclusive, state, out),
        (4, 4) => scan_tiles::<T, Op, 4, 4>(x, n, exclusive, state, out),
        (4, 2) => scan_tiles::<T, Op, 4, 2>(x, n, exclusive, state, out),
        (4, 1) => scan_tiles::<T, Op, 4, 1>(x, n, exclusive, state, out),
        (8, 8) => scan_tiles::<T, Op, 8, 8>(x, n, exclusive, state, out),
        (8, 4) => scan_tiles::<T, Op, 8, 4>(x, n, exclusive, state, out),
        (8, 2) => scan_tiles::<T, Op, 8, 2>(x, n, exclusive, state, out),
        (8, 1) => scan_tiles::<T, Op, 8, 1>(x, n, exclusive, state, out),
        (16, 8) => scan_tiles::<T, Op, 16, 8>(x, n, exclusive, state, out),
        (16, 4) => scan_tiles::<T, Op, 16, 4>(x, n, exclusive, state, out),
        (16, 2) => scan_tiles::<T, Op, 16, 2>(x, n, exclusive, state, out),
        (16, 1) => scan_tiles::<T, Op, 16, 1>(x, n, exclusive, state, out),
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
    /// Where the warp's part begins.
    start: usize,
    /// The number in its row of the element at `start`; before the row, it wraps around.
    index: u64,
    window: Window,
}

impl<'a, T: Pod, R: Pod> Tiles<'a, T, R> {
    /// The row of a tile, and its number there.
    #[inline(always)]
    fn place(&self, number: u32) -> (u32, u32) {
        if self.n == self.x.len() {
            (0, number)
        } else {
            (number / self.of_row, number % self.of_row)
        }
    }

    #[inline(always)]
    fn tile<const V: usize, const U: usize>(&self, number: u32) -> Tile {
        let (row, in_row) = self.place(number);
        let mut row = Row::new::<T, R, V>(row as usize, self.n, self.x, self.out);
        row.vectors &= size_of::<[T; V]>() <= size_of::<Words>();
        let warp = thread::thread_idx_x() as usize / 32;
        let warps = in_row as usize * (WORKERS / 32) + warp;
        let start = row.first::<V>() + warps * (32 * V * U);
        Tile {
            start,
            index: start.wrapping_sub(row.lo) as u64,
            window: row.window(start, 32 * V * U),
        }
    }

    /// This lane's vectors of a whole tile, without a branch between the loads, so that all are in flight at once; zeros for
    /// another tile.
    #[inline(always)]
    fn load<const V: usize, const U: usize>(&self, number: u32) -> [Words; U] {
        let tile = self.tile::<V, U>(number);
        if !tile.window.whole {
            return [Words::default(); U];
        }
        core::array::from_fn(|u| {
            // SAFETY: the whole tile is the row's, and aligned.
            words(unsafe { self.x.load_vec_unchecked::<V>(tile.start + at::<V>(u) as usize) })
        })
    }
}

/// A vector of at most 16 bytes, in the registers that it is loaded to: as an array, each element would have one of its own.
type Words = [u32; 4];

#[inline(always)]
fn words<T: Pod, const V: usize>(vector: [T; V]) -> Words {
    let mut words = Words::default();
    bytemuck::bytes_of_mut(&mut words)[..size_of::<[T; V]>()].copy_from_slice(bytemuck::cast_slice(&vector));
    words
}

#[inline(always)]
fn vector<T: Pod, const V: usize>(words: Words) -> [T; V] {
    let mut vector = [T::zeroed(); V];
    bytemuck::cast_slice_mut(&mut vector).copy_from_slice(&bytemuck::bytes_of(&words)[..size_of::<[T; V]>()]);
    vector
}

#[inline(always)]
fn scan_tiles<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    n: usize,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, Op::Output>,
) {
    let of_row = Ord::max(tiles(x.len(), n, V, WORKERS * V * U) as u32, 1);
    let rows = if n == x.len() { 1 } else { x.len() / Ord::max(n, 1) };
    let tiles = Tiles {
        x,
        out,
        n,
        of_row,
        count: rows as u32 * of_row,
    };
    let states = States::<Op::Acc>::new(state);
    let Some(parked) = Parked::<T, Op::Acc, V, U>::new() else {
        return;
    };
    let shared = Exchange::<Op::Acc>::new();
    let is_tile = |number: u32| number < tiles.count;
    // The tiles that the block has on their way: loaded, published, and with a known prefix.
    let (mut current, mut published, mut known) = (states.ticket(), NONE, NONE);
    let (mut upcoming, mut published_total) = (NONE, Op::identity());
    let looks_back = thread::thread_idx_x() as usize >= WORKERS;
    let mut loaded = [Words::default(); U];
    if !looks_back && is_tile(current) {
        loaded = tiles.load::<V, U>(current);
    }
    let mut side = 0;
    while is_tile(current) || is_tile(published) || is_tile(known) {
        let slot = parked.slot(side);
        let mut before = [Op::identity(); U];
        if looks_back {
            if is_tile(current) && warp::lane_id() == 0 {
                shared.tickets.set(side, states.take_ticket());
            }
        } else if is_tile(current) {
            let tile = tiles.tile::<V, U>(current);
            let totals = if tile.window.whole {
                tile.totals_whole::<T, Op, V, U>(loaded)
            } else {
                tile.totals_part::<T, Op, V, U>(x)
            };
            let (in_warp, warp_total) = scan_warp(totals, Op::identity(), Op::combine);
            before = in_warp;
            shared.set_warp(side, warp_total);
        }
        thread::sync_threads();
        let mut scanned = Scanned {
            before: Op::identity(),
            total: Op::identity(),
        };
        if is_tile(current) {
            scanned = shared.scan_warps(side, Op::identity(), Op::combine);
            upcoming = shared.tickets.get(side);
        }
        // With room for one tile only, the next one waits until the last one is written.
        let has_room = parked.has_two || !(is_tile(current) || is_tile(published));
        let next = if has_room {
            core::mem::replace(&mut upcoming, NONE)
        } else {
            NONE
        };
        if looks_back {
            if is_tile(current) && warp::lane_id() == 0 {
                let is_first = tiles.place(current).1 == 0;
                let flag = if is_first { PREFIX } else { AGGREGATE };
                states.publish(current as usize, flag, scanned.total);
            }
            if is_tile(published) {
                let in_row = tiles.place(published).1;
                let prefix = states.prefix::<T, Op>(published as usize, in_row as usize, published_total);
                shared.set_prefix(1 - side, prefix);
            }
            published_total = scanned.total;
        } else {
            if is_tile(known) {
                let (tile, prefix) = (tiles.tile::<V, U>(known), shared.prefix(side));
                parked.store::<Op>(slot, tile, prefix, exclusive != 0, out);
            }
            if is_tile(current) {
                let before = before.map(|before| Op::combine(scanned.before, before));
                parked.set(slot, tiles.tile::<V, U>(current), before, loaded, x);
            }
            if is_tile(next) {
                loaded = tiles.load::<V, U>(next);
            }
        }
        (known, published, current) = (published, current, next);
        side = 1 - side;
    }
}

impl Tile {
    /// The number in its row of the first element of this lane's vector `u`.
    #[inline(always)]
    fn index<const V: usize>(self, u: usize) -> u64 {
        self.index.wrapping_add(u64::from(at::<V>(u)))
    }

    /// The total of each of this lane's vectors, of a whole tile that is loaded.
    #[inline(always)]
    fn totals_whole<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(self, loaded: [Words; U]) -> [Op::Acc; U] {
        core::array::from_fn(|u| {
            let vector = vector(loaded[u].map(hint::opaque));
            total(lift::<T, Op, V>(vector, self.index::<V>(u)), Op::combine)
        })
    }

    /// [`totals_whole`](Self::totals_whole) of another tile, whose elements are looked at one by one.
    #[inline(always)]
    fn totals_part<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(self, x: &[T]) -> [Op::Acc; U] {
        let mut totals = [Op::identity(); U];
        for u in 0..U {
            let vector: [T; V] = self.window.load(x, self.start, at::<V>(u));
            let values = self.window.lift::<T, Op, V>(vector, at::<V>(u), self.index::<V>(u));
            let of_u = total(values, Op::combine);
            // Registers have no numbers: each is asked whether it is meant.
            totals = core::array::from_fn(|v| if v == u { of_u } else { totals[v] });
        }
        totals
    }
}

/// The values of a vector whose first element has the number `index` in its row.
#[inline(always)]
fn lift<T: Pod, Op: ReduceOp<T>, const V: usize>(vector: [T; V], index: u64) -> [Op::Acc; V] {
    core::array::from_fn(|k| Op::lift(vector[k], index.wrapping_add(k as u64)))
}

/// One or two tiles, `U` vectors of `V` elements for each thread and what stands before each in the tile, which wait in
/// shared memory for what stands before the tile. Each thread has its own.
#[derive(Clone, Copy)]
struct Parked<T, A, const V: usize, const U: usize> {
    before: Shared<A>,
    elements: Shared<T>,
    /// Whether there is room for two tiles, in slots 0 and 1.
    has_two: bool,
}

impl<T: Pod, A: Pod, const V: usize, const U: usize> Parked<T, A, V, U> {
    /// `None` if the launch has not given the shared memory for one tile.
    #[inline(always)]
    fn new() -> Option<Self> {
        let bytes = cuda_std::shared::dynamic::<u8>().len();
        let tile = Self::first_element(1) * size_of::<T>() + WORKERS * U * V * size_of::<T>();
        (bytes >= tile && thread::block_dim_x() as usize == THREADS).then_some(Self {
            before: cuda_std::shared::dynamic(),
            elements: cuda_std::shared::dynamic(),
            has_two: bytes >= 2 * tile,
        })
    }

    /// The slot of the tiles on `side` 0 or 1.
    #[inline(always)]
    fn slot(self, side: usize) -> usize {
        if self.has_two { side } else { 0 }
    }

    /// The number of the first element, when `slots` tiles' values stand before it.
    #[inline(always)]
    fn first_element(slots: usize) -> usize {
        (slots * WORKERS * U * size_of::<A>()).div_ceil(size_of::<T>())
    }

    /// The number of this thread's vector `u`.
    #[inline(always)]
    fn at(slot: usize, u: usize) -> usize {
        (slot * U + u) * WORKERS + thread::thread_idx_x() as usize
    }

    #[inline(always)]
    fn element(self, slot: usize, u: usize) -> usize {
        Self::first_element(if self.has_two { 2 } else { 1 }) + Self::at(slot, u) * V
    }

    /// Parks a tile: what stands before each vector, and the vectors, which are loaded if it is whole.
    #[inline(always)]
    fn set(self, slot: usize, tile: Tile, before: [A; U], loaded: [Words; U], x: &[T]) {
        for u in 0..U {
            // SAFETY: of a slot that there is.
            unsafe { self.before.set_unchecked(Self::at(slot, u), before[u]) };
        }
        if tile.window.whole {
            for u in 0..U {
                let first = self.element(slot, u);
                // SAFETY: of a slot that there is, and a multiple of a vector, since these may be accessed.
                unsafe { self.elements.set_vec_unchecked(first, vector::<T, V>(loaded[u])) };
            }
        } else {
            self.set_part(slot, tile, x);
        }
    }

    #[inline(always)]
    fn get_before(self, slot: usize, u: usize) -> A {
        // SAFETY: of a slot that there is.
        unsafe { self.before.get_unchecked(Self::at(slot, u)) }
    }

    /// Parks what there is of a tile that is not whole, element by element.
    #[inline(always)]
    fn set_part(self, slot: usize, tile: Tile, x: &[T]) {
        for u in 0..U {
            let vector: [T; V] = tile.window.load(x, tile.start, at::<V>(u));
            for k in 0..V {
                // SAFETY: of a slot that there is.
                unsafe { self.elements.set_unchecked(self.element(slot, u) + k, vector[k]) };
            }
        }
    }

    /// Writes the results of a tile, before which `prefix` stands.
    #[inline(always)]
    fn store<Op: ReduceOp<T, Acc = A>>(
        self,
        slot: usize,
        tile: Tile,
        prefix: A,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) {
        if tile.window.whole {
            self.store_whole::<Op>(slot, tile, prefix, exclusive, out);
        } else {
            self.store_part::<Op>(slot, tile, prefix, exclusive, out);
        }
    }

    /// [`store`](Self::store) of a whole tile.
    #[inline(always)]
    fn store_whole<Op: ReduceOp<T, Acc = A>>(
        self,
        slot: usize,
        tile: Tile,
        prefix: A,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) {
        for u in 0..U {
            // SAFETY: as in `set`.
            let vector = unsafe { self.elements.get_vec_unchecked(self.element(slot, u)) };
            let index = tile.index::<V>(u);
            let before = Op::combine(prefix, self.get_before(slot, u));
            let results = results::<T, Op, V>(before, lift::<T, Op, V>(vector, index), index, exclusive);
            // SAFETY: the whole tile is the row's, which is within the output, and aligned.
            unsafe { out.set_vec_unchecked::<V>(tile.start + at::<V>(u) as usize, results) };
        }
    }

    /// [`store`](Self::store) of a tile that is not whole, element by element.
    #[inline(always)]
    fn store_part<Op: ReduceOp<T, Acc = A>>(
        self,
        slot: usize,
        tile: Tile,
        prefix: A,
        exclusive: bool,
        out: SliceMut<'_, Op::Output>,
    ) {
        for u in 0..U {
            let i = at::<V>(u);
            // SAFETY: of a slot that there is.
            let vector = core::array::from_fn(|k| unsafe { self.elements.get_unchecked(self.element(slot, u) + k) });
            let index = tile.index::<V>(u);
            let before = Op::combine(prefix, self.get_before(slot, u));
            let values = tile.window.lift::<T, Op, V>(vector, i, index);
            let results = results::<T, Op, V>(before, values, index, exclusive);
            tile.window.store(out, tile.start, i, results);
        }
    }
}

/// What the warps of a block tell one another, on two sides in turn: between two uses of one side, all threads wait for one
/// another.
#[derive(Clone, Copy)]
struct Exchange<A> {
    warps: Shared<A>,
    prefixes: Shared<A>,
    tickets: Shared<u32>,
}

impl<A: Pod> Exchange<A> {
    const WARPS: usize = WORKERS / 32;

    #[inline(always)]
    fn new() -> Self {
        Self {
            warps: shared_array![[u64; MAX_VALUE / 8]; 2 * (WORKERS / 32)].cast(),
            prefixes: shared_array![[u64; MAX_VALUE / 8]; 2].cast(),
            tickets: shared_array![u32; 2],
        }
    }

    /// Tells the total of this warp's part of a tile.
    #[inline(always)]
    fn set_warp(self, side: usize, total: A) {
        if warp::lane_id() == 0 {
            let warp = thread::thread_idx_x() as usize / 32;
            // SAFETY: there are 2 sides, and WARPS warps.
            unsafe { self.warps.set_unchecked(side * Self::WARPS + warp, total) };
        }
    }

    /// What stands before this warp's part of the tile, and the tile's total.
    #[inline(always)]
    fn scan_warps(self, side: usize, identity: A, combine: impl Fn(A, A) -> A) -> Scanned<A> {
        let (mut before, mut total) = (identity, identity);
        for warp in 0..Self::WARPS {
            if warp == thread::thread_idx_x() as usize / 32 {
                before = total;
            }
            // SAFETY: as in `set_warp`.
            total = combine(total, unsafe { self.warps.get_unchecked(side * Self::WARPS + warp) });
        }
        Scanned { before, total }
    }

    /// Tells what stands before a tile.
    #[inline(always)]
    fn set_prefix(self, side: usize, prefix: A) {
        if warp::lane_id() == 0 {
            // SAFETY: there are 2 sides.
            unsafe { self.prefixes.set_unchecked(side, prefix) };
        }
    }

    #[inline(always)]
    fn prefix(self, side: usize) -> A {
        // SAFETY: there are 2 sides.
        unsafe { self.prefixes.get_unchecked(side) }
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

    /// What stands before `tile` in its row; publishes the tile's prefix then, with the tile's own `total`, if it is one of
    /// those that do. Called by all lanes of one warp.
    #[inline(always)]
    fn prefix<T, Op: ReduceOp<T, Acc = A>>(self, tile: usize, in_row: usize, total: A) -> A {
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

    /// What the states of 32 tiles, one for each lane, say together: from the nearest prefix on, combined, in lane 31; or
    /// all of them, an aggregate, where there is none; or that one of those is still invalid.
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
