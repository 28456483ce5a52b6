// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scan in one pass: D. Merrill, M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
//!
//! A block takes a tile by a ticket, scans it, and publishes its *aggregate* (the tile's total). Then one of its warps,
//! which does nothing else, looks back at the states of the tiles before, which are *invalid*, an aggregate, or a
//! *prefix* (all up to and with that tile): it combines the aggregates from the nearest prefix on. What it has found is
//! the tile's own prefix, from which the block writes its results. Every 32nd tile publishes its prefix too, so that
//! others need not look further.
//!
//! The launch has as many blocks as the device runs at a time, and each goes on to another tile when it is done with
//! one. Three tiles of a block are on their way at a time: one comes from memory to registers; one is scanned and
//! published, and waits in shared memory while the warp looks back; of one the prefix is known, and its results are
//! written. When a tile takes the next step, all others do, at one barrier. So memory has work while warps wait for one
//! another, and a look-back begins when the tiles before it have been published long since, as a rule.
//!
//! Every element is read once and written once. The tickets make it progress in whatever order the blocks start: the
//! first tile that is not published is held by a block that waits, if at all, for tiles before it, which are. How far a
//! block looks back depends on timing, and with it the grouping of the combinations, though never their order: results
//! that are rounded may differ in the last bits from run to run.
//!
//! The kernel is here; `tile` is what a warp knows of a tile, and `shared` what waits in shared memory. What blocks tell
//! one another is [`cuda_block::lookback`].
//!
//! # Rows
//!
//! The array may be several rows of `n` elements, each of which is scanned by itself: a look-back ends at the first
//! tile of its row. Rows of a few columns, as those of an array of points, are in [`narrow`], by the same stages.

use bytemuck::Pod;
use cuda_block::lookback::{AGGREGATE, PREFIX, States};
use cuda_block::{Scanned, storage};
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

pub mod narrow;
mod shared;
mod tile;

pub use cuda_block::lookback::state_len;

use super::{Row, at, has_vectors};
use crate::op::{Max, Min, Product, ReduceOp, Sum};
use shared::{Exchange, Parked};
use tile::{Tile, Words, is_vector, words};

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

/// The most vectors of a thread; up to half as many, both of the above hold.
const MOST_VECTORS: usize = 16;

/// Bytes of a vector's values, at most, which a thread has in registers at a time.
const VECTOR_VALUES: usize = 128;

/// The number of no tile.
const NONE: u32 = u32::MAX;

/// Elements of a vector: 16 bytes of the larger of element and result, or fewer where the values are large; 1 if either
/// has a size that is not a power of two.
pub const fn vec_len<T, Op: ReduceOp<T>>() -> usize {
    if !has_vectors::<T, Op::Output>() {
        return 1;
    }
    let (input, output) = (size_of::<T>(), size_of::<Op::Output>());
    let mut len = crate::tile::vec_len(if input > output { input } else { output });
    while len > 1 && len * size_of::<Op::Acc>() > VECTOR_VALUES {
        len /= 2;
    }
    len
}

/// Vectors that a thread has of a tile: a power of two.
///
/// Of elements much smaller than their results the vectors are short, and the tile would have few bytes: there are more
/// of them where together with their values they take no more room than others do.
pub const fn vectors<T, Op: ReduceOp<T>>() -> usize {
    let (vector, value) = (vec_len::<T, Op>() * size_of::<T>(), size_of::<Op::Acc>());
    if MOST_VECTORS * (vector + value) <= THREAD_BYTES + THREAD_VALUES {
        return MOST_VECTORS;
    }
    let mut vectors = MOST_VECTORS / 2;
    while vectors > 1 && (vectors * vector > THREAD_BYTES || vectors * value > THREAD_VALUES) {
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

/// Scans each row of `n` elements of `x` into `out`, exclusively unless `exclusive` is 0.
///
/// The launch has at most [`tiles_of_row`] blocks for each row, of [`THREADS`] threads, with [`shared_bytes`] of
/// dynamic shared memory or twice that; with less, nothing is done. `state` has [`state_len`] words for as many tiles,
/// or none if there is one tile. It is all zero, or as launches of this kernel and
/// [`scan_columns`](super::scan_columns()) and [`scan_few`](narrow::scan_few()) have left it since it was, less than 2^30
/// of them, of whatever types and lengths. With other contents, or fewer words, the results are unspecified, or the kernel waits for ever.
/// Of 2^32 tiles or more, nothing is done; blocks of a second or third dimension do nothing.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Min, Max];
    T = [f32, f64, f16, bf16, i32, u8, u16, u32, u64],
    Op = [Sum, Product],
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
    // One number after the other: of a match on both, rustc would compile all arms, for LLVM to throw away but one.
    match const { vec_len::<T, Op>() } {
        2 => by_vectors::<T, Op, 2>(x, n, exclusive, state, out),
        4 => by_vectors::<T, Op, 4>(x, n, exclusive, state, out),
        8 => by_vectors::<T, Op, 8>(x, n, exclusive, state, out),
        16 => by_vectors::<T, Op, 16>(x, n, exclusive, state, out),
        _ => by_vectors::<T, Op, 1>(x, n, exclusive, state, out),
    }
}

/// [`scan()`] by vectors of `V` elements.
#[inline(always)]
fn by_vectors<T: Pod, Op: ReduceOp<T>, const V: usize>(
    x: &[T],
    n: usize,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, Op::Output>,
) {
    match const { vectors::<T, Op>() } {
        16 => scan_tiles::<T, Op, V, 16>(x, n, exclusive, state, out),
        8 => scan_tiles::<T, Op, V, 8>(x, n, exclusive, state, out),
        4 => scan_tiles::<T, Op, V, 4>(x, n, exclusive, state, out),
        2 => scan_tiles::<T, Op, V, 2>(x, n, exclusive, state, out),
        _ => scan_tiles::<T, Op, V, 1>(x, n, exclusive, state, out),
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

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn tile<const V: usize, const U: usize>(&self, number: u32) -> Tile {
        let (row, in_row) = self.place(number);
        let mut row = Row::new::<T, R, V>(row as usize, self.n, self.x, self.out);
        row.vectors &= is_vector::<T, V>();
        let warp = thread::thread_idx_x() as usize / 32;
        let warps = in_row as usize * (WORKERS / 32) + warp;
        let start = row.first::<V>() + warps * (32 * V * U);
        Tile {
            start,
            index: start.wrapping_sub(row.lo) as u64,
            window: row.window(start, 32 * V * U),
        }
    }

    /// This lane's vectors of a tile, without a branch between the loads, so that all are in flight at once: all those
    /// that have an element of the row, of whose other elements nothing is made. Anything of a tile that is not loaded by
    /// vectors.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn load<const V: usize, const U: usize>(&self, number: u32) -> [Words; U] {
        let tile = self.tile::<V, U>(number);
        if tile.window.whole {
            return core::array::from_fn(|u| {
                // SAFETY: the whole tile is the row's, and aligned.
                words(unsafe { self.x.load_vec_unchecked::<V>(tile.start + at::<V>(u) as usize) })
            });
        }
        if !tile.has_vectors::<V>(self.x.len()) {
            return [Words::default(); U];
        }
        let last = tile.last_vector::<V>();
        let mut loaded = [Words::default(); U];
        for u in 0..U {
            // For what is behind the last vector, that one.
            let i = Ord::min(at::<V>(u), last) as usize;
            // SAFETY: the last vector is within the input, as just asked, and aligned, as those before are, of which the
            // first begins there.
            loaded[u] = words(unsafe { self.x.load_vec_unchecked::<V>(tile.start + i) });
        }
        loaded
    }
}

/// A block at work.
struct Block<'a, T, Op: ReduceOp<T>, const V: usize, const U: usize> {
    tiles: Tiles<'a, T, Op::Output>,
    states: States<'a, Op::Acc>,
    parked: Parked<T, Op::Acc, V, U>,
    shared: Exchange<Op::Acc>,
    exclusive: bool,
}

#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn scan_tiles<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    x: &[T],
    n: usize,
    exclusive: u32,
    state: SliceMut<'_, u64>,
    out: SliceMut<'_, Op::Output>,
) {
    // Tickets are for the blocks of one dimension: with more, the counter would be set back while some still ask.
    if n > x.len() || thread::block_idx_y() | thread::block_idx_z() != 0 {
        return;
    }
    let of_row = Ord::max(tiles(x.len(), n, V, WORKERS * V * U), 1);
    let rows = if n == x.len() { 1 } else { x.len() / Ord::max(n, 1) };
    // What is counted of tiles has 32 bits, and one number is that of none: of more tiles, none is scanned.
    let count = rows.saturating_mul(of_row);
    if count >= NONE as usize {
        return;
    }
    let tiles = Tiles {
        x,
        out,
        n,
        of_row: Ord::max(of_row as u32, 1),
        count: count as u32,
    };
    if let Some(parked) = Parked::new() {
        let block = Block::<T, Op, V, U> {
            tiles,
            states: States::new(state),
            parked,
            shared: Exchange::new(),
            exclusive: exclusive != 0,
        };
        block.run();
    }
}

impl<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize> Block<'_, T, Op, V, U> {
    /// Takes tiles until there are no more.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn run(mut self) {
        let is_tile = |number: u32| number < self.tiles.count;
        // Each block asks for its first tile, and for another one with each tile that it has. Told from the ticket, since
        // the last one's number would be in a register all the time.
        let is_last = |ticket: u32| ticket.wrapping_sub(thread::grid_dim_x()).wrapping_add(1) == self.tiles.count;
        let mut next = self.states.ticket(storage![u64; 1], is_last);
        // The tiles that the block has on their way: loaded, published, and with a known prefix.
        let (mut current, mut published) = (NONE, NONE);
        let mut published_total = Op::identity();
        let looks_back = thread::thread_idx_x() as usize >= WORKERS;
        let mut loaded = [Words::default(); U];
        let mut side = 0;
        loop {
            let known = published;
            (published, current) = (current, next);
            if !(is_tile(current) || is_tile(published) || is_tile(known)) {
                return;
            }
            let mut before = [Op::identity(); U];
            if looks_back {
                if is_tile(current) && warp::lane_id() == 0 {
                    self.shared.tickets.set(side, self.states.take_ticket(is_last));
                }
            } else if is_tile(current) {
                (before, loaded) = self.scan_warp(side, current, self.tiles.load::<V, U>(current));
            }
            thread::sync_threads();
            let mut scanned = Scanned {
                before: Op::identity(),
                total: Op::identity(),
            };
            if is_tile(current) {
                scanned = self.shared.scan_warps(side, Op::identity(), Op::combine);
            }
            // The ticket that was asked for with the current tile; with room for one tile only, the next one waits until
            // that one is written, two steps later, when the side is the same again.
            let followed = if self.parked.has_two { current } else { known };
            next = if is_tile(followed) {
                self.shared.tickets.get(side)
            } else {
                NONE
            };
            if looks_back {
                if is_tile(current) {
                    self.publish(current, scanned.total);
                }
                if is_tile(published) {
                    self.look_back(side, published, published_total);
                }
                published_total = scanned.total;
            } else {
                if is_tile(known) {
                    self.write(side, known);
                }
                if is_tile(current) {
                    self.park(
                        side,
                        current,
                        before.map(|before| Op::combine(scanned.before, before)),
                        loaded,
                    );
                }
            }
            side = 1 - side;
        }
    }

    /// What stands before each of this lane's vectors in its warp's part of a tile, and the vectors; tells the others the
    /// part's total.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scan_warp(&self, side: usize, number: u32, loaded: [Words; U]) -> ([Op::Acc; U], [Words; U]) {
        let tile = self.tiles.tile::<V, U>(number);
        let (totals, loaded) = if tile.window.whole {
            (tile.totals_whole::<T, Op, V, U>(loaded), loaded)
        } else {
            tile.totals_part::<T, Op, V, U>(self.tiles.x, loaded)
        };
        let (before, total) = Op::scan_warp(totals);
        self.shared.set_warp(side, total);
        (before, loaded)
    }

    /// Publishes the total of a tile: its prefix, if it is the first of its row.
    #[inline(always)]
    fn publish(&self, number: u32, total: Op::Acc) {
        if warp::lane_id() == 0 {
            let is_first = self.tiles.place(number).1 == 0;
            let flag = if is_first { PREFIX } else { AGGREGATE };
            self.states.publish(number as usize, flag, total);
        }
    }

    /// Finds what stands before the tile of the other side, and tells the others.
    #[inline(always)]
    fn look_back(&self, side: usize, number: u32, total: Op::Acc) {
        let in_row = self.tiles.place(number).1;
        let prefix = {
            let (tile, in_row) = (number as usize, in_row as usize);
            self.states.prefix(tile, in_row, total, Op::identity(), Op::combine)
        };
        self.shared.set_prefix(1 - side, prefix);
    }

    /// Writes the results of a tile whose prefix is known.
    #[inline(always)]
    fn write(&self, side: usize, number: u32) {
        let (tile, prefix) = (self.tiles.tile::<V, U>(number), self.shared.prefix(side));
        let slot = self.parked.slot(side);
        self.parked
            .store::<Op>(slot, tile, prefix, self.exclusive, self.tiles.out);
    }

    /// Parks a tile until its prefix is known.
    #[inline(always)]
    fn park(&self, side: usize, number: u32, before: [Op::Acc; U], loaded: [Words; U]) {
        let tile = self.tiles.tile::<V, U>(number);
        self.parked
            .set(self.parked.slot(side), tile, before, loaded, self.tiles.x);
    }
}
