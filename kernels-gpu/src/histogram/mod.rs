// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms: how many elements lie in each bin.
//!
//! Privatisation, as in V. Podlozhnyuk, "Histogram calculation in CUDA" (2007), and CUB's `DeviceHistogram`: each block
//! counts in its own shared memory, and adds what it has to the global counts at the end. Every element is read once,
//! in 16-byte loads of which a thread has several in flight; work `n`, bytes moved `n` elements and the counts. Three
//! ways to count (`MODE` of [`histogram()`]), by the number of counters:
//!
//! * [`COLUMNS`], up to [`COLUMN_COUNTERS`] counters: 32 copies of them, one for each lane of a warp, in the memory
//!   bank of that lane. No two lanes of a warp ever wait for one another, whatever the data.
//! * [`COPIES`], as long as shared memory has room: as many copies as fit into [`COPIES_LEN`] words, at least one. A
//!   thread adds a run of equal neighbours at once.
//! * [`CACHE`], beyond: counts go to global memory, by way of a small hash table in shared memory that keeps the counts
//!   of the bins it has met first, so that few distinct bins do not queue at one address.
//!
//! An element of 8 bits is counted by its value, and the 256 values are told their bins when the counts are added up: of
//! one channel, always by [`COLUMNS`].
//! Private counts have 32 bits, and are emptied before they can overflow; the global ones have 64.

mod find;
mod sample;
mod store;
mod zero;

use core::marker::PhantomData;

use cuda_std::hint;
use cuda_std::prelude::*;

use crate::tile;

pub use find::{Channels, EqualWidth, Find, OUTSIDE, Plan, Search, UNSURE, Uniform, Values};
pub use sample::{Sample, Value};
pub use store::{CACHE, COLUMN_COUNTERS, COLUMNS, COPIES, COPIES_LEN};
pub use zero::COUNTERS;

use store::{Counters, Run};
use zero::Zeroing;

/// Threads of a block.
pub const THREADS: usize = 512;

/// Blocks that a multiprocessor holds at a time at least, and that the launch has for each.
pub const BLOCKS: usize = 2;

/// Elements that a block treats before it empties its private counts, at most: they have 32 bits.
const PRIVATE_ELEMENTS: usize = 1 << 30;

/// Tiles that a block treats before it empties the hash table, so that it follows the data.
const CACHE_TILES: u32 = 64;

/// Vectors of 16 bytes that a thread has in flight: 4, or 2 where the bins of as many elements, and what it takes to
/// count them, would not stay in registers.
const fn unroll<T: Sample, F: Find<T>, const MODE: usize>() -> usize {
    let is_long = F::CHANNELS || (F::LOOKS_TWICE && MODE != COLUMNS);
    if (size_of::<T>() >= 4 && !is_long) || Share::<T, F, MODE>::BY_BYTE {
        4
    } else {
        2
    }
}

/// Elements that a block treats in one step of its loop.
pub const fn tile_len<T: Sample, F: Find<T>, const MODE: usize>() -> usize {
    THREADS * unroll::<T, F, MODE>() * tile::vec_len(size_of::<T>())
}

/// Elements for which a launch has another block, until it has all that run at a time. More blocks would take longer
/// to add up what they have counted than they save.
pub const fn block_len<T: Sample, F: Find<T>, const MODE: usize>() -> usize {
    if size_of::<T>() >= 4 {
        THREADS * 4 * tile::vec_len(size_of::<T>())
    } else {
        tile_len::<T, F, MODE>()
    }
}

/// Counts the elements in each bin: `out` becomes `channels × bins` counts, in C order.
///
/// The kernel of `u32` counts `i32` as well, by their bits: where a bin lies it knows by the distance to `plan.first` alone.
///
/// `F` says which bin an element is in: [`Uniform`], [`Channels`], or [`Search`] in the `edges` (the
/// [`start`](Sample::start)s of all bins but the first; the others do not look at them). `MODE` is [`COLUMNS`], [`COPIES`] (both want
/// [`Plan::private_len`] words of dynamic shared memory; with fewer, nothing is counted) or [`CACHE`], which adds to
/// the counts in `out`. What does not fit into `out` is dropped. The launch has one dimension, with [`THREADS`] threads
/// in a block, and unless the mode is `CACHE`, it has two `counters` that are 0, and are 0 again when it has ended;
/// with other contents, the kernel waits for ever. With another number of threads, nothing is counted, and blocks of other
/// dimensions count nothing.
#[kernel(
    T = [f32, f64, u16, u32],
    F = [Uniform, Channels, Search],
    MODE = [0, 1, 2];
    T = [u8],
    F = [Channels],
    MODE = [0, 1, 2];
    T = [u8],
    F = [Uniform, Search],
    MODE = [0],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn histogram<T: Sample, F: Find<T>, const MODE: usize>(
    x: &[T],
    plan: Plan,
    edges: &[T],
    counters: SliceMut<'_, u32>,
    out: SliceMut<'_, u64>,
) {
    count::<T, F, MODE>(x, &plan, edges, counters, out);
}

/// [`histogram()`] with a bin for each integer from `plan.first` to `plan.last`, neither of them negative: bin `i` is
/// that of value `i`.
#[kernel(
    T = [u16, u32],
    MODE = [0, 1, 2];
    T = [u8],
    MODE = [0],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn bincount<T: Value, const MODE: usize>(x: &[T], plan: Plan, counters: SliceMut<'_, u32>, out: SliceMut<'_, u64>) {
    count::<T, Values, MODE>(x, &plan, &[], counters, out);
}

/// Elements that a block treats in one step of [`extent()`].
pub const fn extent_tile_len<T>() -> usize {
    THREADS * extent_unroll::<T>() * tile::vec_len(size_of::<T>())
}

const fn extent_unroll<T>() -> usize {
    if size_of::<T>() < 4 { 2 } else { 4 }
}

/// The extent of the elements: `out[0]` becomes the largest of its value and of `!x.order()`, `out[1]` the largest of
/// its value and of `x.order()`, for all elements. NaN orders beyond all numbers. Blocks have [`THREADS`] threads,
/// or nothing is done.
#[kernel(T = [f32, f64, i32, u8, u16, u32], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn extent<T: Sample>(x: &[T], out: SliceMut<'_, u64>) {
    if thread::block_dim_x() as usize != THREADS {
        return;
    }
    let (least, greatest) = match const { tile::vec_len(size_of::<T>()) } {
        2 => thread_extent::<T, 2, 4>(x),
        4 => thread_extent::<T, 4, 4>(x),
        8 => thread_extent::<T, 8, 2>(x),
        _ => thread_extent::<T, 16, 2>(x),
    };
    let below = warp::all_reduce(!least.order(), Ord::max);
    let above = warp::all_reduce(greatest.order(), Ord::max);
    if warp::lane_id() == 0 && out.len() >= 2 {
        out.atomic(0).fetch_max(below);
        out.atomic(1).fetch_max(above);
    }
}

/// The smallest and the largest element of this thread's share, which may be empty.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn thread_extent<T: Sample, const N: usize, const U: usize>(x: &[T]) -> (T, T) {
    let tile = THREADS * U * N;
    let t = thread::thread_idx_x() as usize;
    let whole = if x.is_vec_aligned::<N>() {
        x.len() / tile * tile
    } else {
        0
    };
    let (mut least, mut greatest) = (T::GREATEST, T::LEAST);
    let mut start = thread::block_idx_x() as usize * tile;
    while start < whole {
        // SAFETY: aligned, as asked above; with THREADS threads, the tile's last vector ends within `whole`.
        let loaded: [[T; N]; U] =
            cuda_std::array::from_fn(|u| unsafe { x.load_vec_unchecked::<N>(start + (u * THREADS + t) * N) });
        // By indices that are constants once the loop is unrolled, so that the vectors stay in registers.
        for i in 0..U * N {
            let value = loaded[i / N][i % N];
            least = least.min(value);
            greatest = greatest.max(value);
        }
        start += thread::grid_dim_x() as usize * tile;
    }
    let mut i = whole + thread::index_1d();
    while let Some(&value) = x.get(i) {
        least = least.min(value);
        greatest = greatest.max(value);
        i += thread::stride_1d();
    }
    (least, greatest)
}

/// Counts this block's share of the elements.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn count<T: Sample, F: Find<T>, const MODE: usize>(
    x: &[T],
    plan: &Plan,
    edges: &[T],
    counters: SliceMut<'_, u32>,
    out: SliceMut<'_, u64>,
) {
    let share = Share::<T, F, MODE> {
        x,
        plan: *plan,
        edges,
        counters: Counters::new(plan, out),
        _find: PhantomData,
    };
    let zeroing = Zeroing::new(counters);
    // The counters are for the blocks of one dimension: others would wait for ever. The number of threads is opaque, or
    // the compiler would make other loops of it, which take more registers.
    if thread::block_idx_y() | thread::block_idx_z() != 0 {
        return;
    }
    if hint::opaque(thread::block_dim_x()) as usize != THREADS || !share.counters.fit(T::VALUES) || !zeroing.fit() {
        return;
    }
    // One number after the other: of a match on both, rustc would compile all arms.
    match const { tile::vec_len(size_of::<T>()) } {
        2 => share.count_by::<2>(zeroing),
        4 => share.count_by::<4>(zeroing),
        8 => share.count::<8, 2>(zeroing),
        _ => share.count_by::<16>(zeroing),
    }
}

/// What a thread counts, by which rule, and where.
struct Share<'a, T, F, const MODE: usize> {
    x: &'a [T],
    plan: Plan,
    edges: &'a [T],
    counters: Counters<'a, MODE>,
    _find: PhantomData<F>,
}

impl<T: Sample, F: Find<T>, const MODE: usize> Share<'_, T, F, MODE> {
    /// Whether the private counts are those of values, and not of bins.
    const BY_VALUE: bool = T::VALUES != 0 && MODE != CACHE;

    /// Whether elements are bytes, and each lane has a counter for each value.
    const BY_BYTE: bool = Self::BY_VALUE && size_of::<T>() == 1 && MODE == COLUMNS && !F::CHANNELS;

    /// Whether elements may need a second look.
    const LOOKS_TWICE: bool = F::LOOKS_TWICE && !Self::BY_VALUE;

    /// [`count`](Self::count) by vectors of `N` elements.
    #[inline(always)]
    fn count_by<const N: usize>(&self, zeroing: Zeroing<'_, MODE>) {
        match const { unroll::<T, F, MODE>() } {
            2 => self.count::<N, 2>(zeroing),
            _ => self.count::<N, 4>(zeroing),
        }
    }

    /// Counts the block's tiles, and now and then adds the private counts to the global ones. Which way the loops go is
    /// the same for all threads of the block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn count<const N: usize, const U: usize>(&self, mut zeroing: Zeroing<'_, MODE>) {
        let tile = THREADS * U * N;
        let period = if MODE == CACHE {
            CACHE_TILES
        } else {
            (PRIVATE_ELEMENTS / tile) as u32
        };
        // The bins of the 32 bytes that a thread has in flight would not stay in registers. This leaves bytes in
        // `CACHE`, which are pictures of more than 64 channels, to go one by one.
        let wide = thread::block_dim_x() as usize == THREADS
            && self.x.is_vec_aligned::<N>()
            && (T::VALUES == 0 || Self::BY_VALUE);
        // The elements of whole tiles, if they can be loaded as vectors.
        let whole = if wide { self.x.len() / tile * tile } else { 0 };
        let mut start = thread::block_idx_x() as usize * tile;
        let step = thread::grid_dim_x() as usize * tile;
        let mut channel = self.channel(start);
        let channel_step = self.channel(step);
        // SAFETY: aligned, as asked above, and the whole tile is there.
        let load = |start: usize| unsafe { self.load::<N, U>(start) };
        // On its way while the counters are cleared.
        let mut ahead = if start < whole { load(start) } else { [[0; 4]; U] };
        zeroing.start();
        self.counters.clear();
        thread::sync_threads();
        zeroing.zero(self.counters.out);
        while start < self.x.len() {
            let mut tiles = 0u32;
            while tiles < period && start < self.x.len() {
                if start < whole {
                    // The next tile's elements are on the way while this one's are counted.
                    let loaded = ahead;
                    if start + step < whole {
                        ahead = load(start + step);
                    }
                    if Self::BY_BYTE {
                        self.bytes(loaded);
                    } else {
                        self.vectors::<N, U>(cuda_std::array::map(loaded, T::of_words), start, channel);
                    }
                } else {
                    self.elements(start, Ord::min(tile, self.x.len() - start));
                }
                start += step;
                channel = self.wrapped(channel.wrapping_add(channel_step));
                tiles += 1;
                zeroing.look();
            }
            zeroing.wait();
            thread::sync_threads();
            self.counters.merge(|slot| self.bin_of_slot(slot));
            if start < self.x.len() {
                thread::sync_threads();
                self.counters.clear();
                thread::sync_threads();
            }
        }
        // Of a block without a tile.
        zeroing.wait();
    }

    /// This thread's vectors of the tile at `start`, as words: on their way, small elements would take a register each.
    ///
    /// # Safety
    ///
    /// The elements are aligned for vectors of `N`, and all of the tile's exist.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load<const N: usize, const U: usize>(&self, start: usize) -> [[u32; 4]; U] {
        let t = thread::thread_idx_x() as usize;
        // The same places: the sum in this order takes fewer registers where a lane has counters of its own, and more
        // elsewhere.
        let (start, t) = if MODE == COLUMNS && !F::CHANNELS {
            (start + t * N, 0)
        } else {
            (start, t)
        };
        // SAFETY: the caller's promise.
        cuda_std::array::from_fn(|u| unsafe {
            bytemuck::cast(self.x.load_vec_unchecked::<N>(start + (u * THREADS + t) * N))
        })
    }

    /// Counts the bytes of these words.
    #[inline(always)]
    fn bytes<const U: usize>(&self, loaded: [[u32; 4]; U]) {
        for word in loaded.as_flattened() {
            for k in 0..4 {
                self.counters.add_byte(*word, k);
            }
        }
    }

    /// Counts this thread's vectors of the tile at `start`, whose first element is of channel `channel`.
    ///
    /// The elements go by their place in the vectors first: where the number of channels divides the distance of two
    /// vectors, neighbours are then of one channel, and can be one run.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn vectors<const N: usize, const U: usize>(&self, loaded: [[T; N]; U], start: usize, channel: u32) {
        let t = thread::thread_idx_x() as usize;
        let at = |u: usize| start + (u * THREADS + t) * N;
        let channels: [u32; U] = cuda_std::array::from_fn(|u| {
            self.wrapped(channel.wrapping_add(self.channel_32(((u * THREADS + t) * N) as u32)))
        });
        let found: [[u32; N]; U] = cuda_std::array::from_fn(|u| self.bins(loaded[u]));
        let mut unsure = if Self::LOOKS_TWICE { Self::unsure(&found) } else { 0 };
        let mut run = self.add(found, channels);
        // Few, as a rule: read once more, which the cache answers, so that the long way is compiled once.
        while unsure != 0 {
            let place = unsure.trailing_zeros() as usize;
            unsure &= unsure - 1;
            self.element(&mut run, at(place % U) + place / U);
        }
        run.finish(&self.counters);
    }

    /// A bit for each element that needs a second look: that of `place` for element `place / U` of vector `place % U`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn unsure<const N: usize, const U: usize>(found: &[[u32; N]; U]) -> u32 {
        // As a rule there is none, which is quickly known of all together.
        if found.as_flattened().iter().fold(0, |any, bin| any | bin) < UNSURE {
            return 0;
        }
        let mut unsure = 0;
        for place in 0..N * U {
            unsure |= found[place % U][place / U] >> 31 << place;
        }
        unsure
    }

    /// Counts what was found for vectors whose first elements are of these channels, as far as it says a bin; the last
    /// run is left to the caller.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add<const N: usize, const U: usize>(&self, found: [[u32; N]; U], mut channels: [u32; U]) -> Run<MODE> {
        let mut run = Run::new();
        for j in 0..N {
            for u in 0..U {
                let bin = found[u][j];
                let slot = self.slot(channels[u], bin);
                if MODE == COLUMNS {
                    let spare = self.counters.spare();
                    self.counters.add_column(if F::CHANNELS && bin >= OUTSIDE {
                        spare
                    } else {
                        Ord::min(slot, spare)
                    });
                } else if bin < OUTSIDE {
                    run.push(&self.counters, slot);
                }
            }
            channels = cuda_std::array::from_fn(|u| self.wrapped(channels[u].wrapping_add(1)));
        }
        run
    }

    /// Counts this thread's elements of a tile of `len` elements at `start`, one by one.
    #[inline(always)]
    fn elements(&self, start: usize, len: usize) {
        let mut run = Run::new();
        let mut i = thread::thread_idx_x() as usize;
        while i < len {
            self.element(&mut run, start + i);
            i += thread::block_dim_x() as usize;
        }
        run.finish(&self.counters);
    }

    /// Counts element `i`.
    #[inline(always)]
    fn element(&self, run: &mut Run<MODE>, i: usize) {
        if let Some(&value) = self.x.get(i)
            && let Some(bin) = self.exact(value)
        {
            run.push(&self.counters, self.slot(self.channel(i), bin));
        }
    }

    /// The bins (or values) of a vector.
    #[inline(always)]
    fn bins<const N: usize>(&self, values: [T; N]) -> [u32; N] {
        if Self::BY_VALUE {
            cuda_std::array::map(values, |value| value.value_index())
        } else {
            F::bins(&self.plan, self.edges, values)
        }
    }

    /// The bin (or value) of an element.
    #[inline(always)]
    fn exact(&self, value: T) -> Option<u32> {
        if Self::BY_VALUE {
            Some(value.value_index())
        } else {
            F::exact(&self.plan, self.edges, value)
        }
    }

    /// The counter for a bin (or value) in a channel.
    #[inline(always)]
    fn slot(&self, channel: u32, bin: u32) -> u32 {
        let stride = if Self::BY_VALUE { T::VALUES } else { self.plan.bins };
        if F::CHANNELS {
            channel.wrapping_mul(stride).wrapping_add(bin)
        } else {
            bin
        }
    }

    /// The bin of all channels' bins that a private counter is for.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn bin_of_slot(&self, slot: u32) -> Option<u32> {
        if !Self::BY_VALUE {
            return Some(slot);
        }
        // 256 values: masks and shifts.
        let (channel, value) = (slot / T::VALUES, slot % T::VALUES);
        let bin = F::exact(&self.plan, self.edges, T::of_value_index(value))?;
        Some(if F::CHANNELS {
            channel.wrapping_mul(self.plan.bins).wrapping_add(bin)
        } else {
            bin
        })
    }

    /// The channel of element `i`.
    #[inline(always)]
    fn channel(&self, i: usize) -> u32 {
        if F::CHANNELS && self.plan.channels != 0 {
            (i % self.plan.channels as usize) as u32
        } else {
            0
        }
    }

    /// The channel of an element whose number has 32 bits.
    #[inline(always)]
    fn channel_32(&self, i: u32) -> u32 {
        if F::CHANNELS && self.plan.channels != 0 {
            i % self.plan.channels
        } else {
            0
        }
    }

    /// The channel for a sum of two channels.
    #[inline(always)]
    fn wrapped(&self, channel: u32) -> u32 {
        if F::CHANNELS && channel >= self.plan.channels {
            channel - self.plan.channels
        } else {
            channel
        }
    }
}
