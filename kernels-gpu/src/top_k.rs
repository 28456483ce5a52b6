// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `k` largest elements of each row, and where they are.
//!
//! An element and its place are one number, its *rank*: first what orders elements, with NaN above all and −0 equal to +0, then the
//! place, the lower the better. So no two ranks are equal, and which elements are the `k` largest, in which order, does not depend on
//! how they are found.
//!
//! A warp keeps the 64 best ranks so far, in order, two in each lane, and goes over its elements, 32 at a time. One whose rank is below
//! that of the `k`-th is out; any other waits in its lane, and where a lane has a second one, all that wait are sorted and merged with
//! those that are kept, by bitonic networks (K. Batcher, "Sorting networks and their applications", 1968) of shuffles. In a row of `n`
//! elements in any order some `k ln(n / k)` are not out at once, so that nearly all cost a comparison; in a row that ascends, all of
//! them wait. (J. Johnson, M. Douze, H. Jégou, "Billion-scale similarity search with GPUs", 2017, has lists of several elements for
//! each lane instead.)
//!
//! A row is a warp's or a block's, whose warps' ranks one warp merges in the end. Of few long rows each is several blocks', and a second
//! launch finds the `k` largest of theirs.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;
use cuda_std::warp::{FULL_MASK, WARP_SIZE};

/// Threads of a block.
pub const THREADS: usize = 256;

/// Blocks that ptxas makes room for on a multiprocessor: so few that it keeps no registers in memory.
const BLOCKS: usize = 3;

/// Warps of a block.
pub const WARPS: usize = THREADS / WARP_SIZE as usize;

/// The most elements that are found: two for each lane.
pub const MOST: usize = 2 * WARP_SIZE as usize;

/// The most elements of a part, so that places in it have 32 bits.
pub const MAX_PART: usize = 1 << 31;

/// Loads that a lane has in flight.
const ITEMS: usize = 8;

/// Elements that a warp treats at a time.
const BATCH: usize = ITEMS * WARP_SIZE as usize;

/// A rank: the greater, the better.
pub trait Rank: Pod {
    /// That of no element, below all others.
    const NONE: Self;

    /// Whether it is greater.
    fn exceeds(self, other: Self) -> bool;

    /// The place of its element.
    fn place(self) -> u32;
}

/// The order of an element above, the complement of its place below.
impl Rank for u64 {
    const NONE: Self = 0;

    #[inline(always)]
    fn exceeds(self, other: Self) -> bool {
        self > other
    }

    #[inline(always)]
    fn place(self) -> u32 {
        !(self as u32)
    }
}

/// The order of an element, and the complement of its place.
impl Rank for [u64; 2] {
    const NONE: Self = [0; 2];

    #[inline(always)]
    fn exceeds(self, other: Self) -> bool {
        self[0] > other[0] || (self[0] == other[0] && self[1] > other[1])
    }

    #[inline(always)]
    fn place(self) -> u32 {
        !(self[1] as u32)
    }
}

/// An element that has a rank among others.
pub trait Ranked: Pod + Send + Sync {
    /// Its type.
    type Rank: Rank;

    /// The rank of the element at a place below [`u32::MAX`].
    fn rank(self, place: u32) -> Self::Rank;
}

macro_rules! ranked {
    ($($type:ident: |$x:ident| $order:expr;)*) => {$(
        impl Ranked for $type {
            type Rank = u64;

            #[inline(always)]
            fn rank(self, place: u32) -> u64 {
                let $x = self;
                let order: u32 = $order;
                (order as u64) << 32 | !place as u64
            }
        }
    )*};
}

/// The bits of a float as a number that orders as it does; of NaN the greatest. −0 is +0.
macro_rules! order {
    ($x:expr, $bits:ident, $infinity:expr) => {{
        const SIGN: $bits = 1 << ($bits::BITS - 1);
        let bits = $x.to_bits();
        let magnitude = bits & !SIGN;
        if magnitude > $infinity {
            $bits::MAX
        } else if bits == magnitude || magnitude == 0 {
            magnitude | SIGN
        } else {
            !bits
        }
    }};
}

ranked! {
    f32: |x| order!(x, u32, 0x7f80_0000);
    f16: |x| order!(x, u16, 0x7c00) as u32;
    bf16: |x| order!(x, u16, 0x7f80) as u32;
    i32: |x| x as u32 ^ 1 << 31;
}

impl Ranked for f64 {
    type Rank = [u64; 2];

    #[inline(always)]
    fn rank(self, place: u32) -> [u64; 2] {
        [order!(self, u64, 0x7ff0_0000_0000_0000), !place as u64]
    }
}

/// How rows are divided.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct Parts {
    /// The number of rows.
    pub rows: usize,
    /// The elements of a row, `k` at least.
    pub len: usize,
    /// The parts of a row. All have `len / parts` elements, `k` at least, but the last, which has the rest, too: at most [`MAX_PART`].
    pub parts: u32,
    /// How many elements are found in each part, at most [`MOST`].
    pub k: u32,
    /// Whether a part is a block's, and not a warp's.
    pub is_blocks: u32,
    /// Any number: it makes the size a multiple of 8 bytes.
    pub zero: u32,
}

impl Parts {
    /// The blocks of a launch.
    pub fn blocks(&self) -> usize {
        let parts = self.rows * self.parts as usize;
        if self.is_blocks != 0 {
            parts
        } else {
            parts.div_ceil(WARPS)
        }
    }
}

/// The ranks that a warp keeps, from the best: the lane's own of the first 32, and of the next.
#[derive(Clone, Copy)]
struct Kept<R>([R; 2]);

impl<R: Rank> Kept<R> {
    /// Number `k`, in all lanes.
    #[inline(always)]
    fn get(&self, k: u32) -> R {
        let own = if k < WARP_SIZE { self.0[0] } else { self.0[1] };
        warp::shuffle(FULL_MASK, own, k % WARP_SIZE)
    }

    /// Merges 32 ranks, in order. Those beyond the first 32 are kept with `both` only.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn merge(&mut self, mut others: R, both: bool) {
        let reversed = |ranks: R| warp::shuffle_xor(FULL_MASK, ranks, WARP_SIZE - 1);
        let greater = |a: R, b: R| if a.exceeds(b) { a } else { b };
        let [first, second] = self.0;
        if both {
            others = in_order(greater(second, reversed(others)));
        }
        let others = reversed(others);
        self.0[0] = in_order(greater(first, others));
        if both {
            self.0[1] = in_order(if first.exceeds(others) { others } else { first });
        }
    }
}

/// This lane's and another's: the greater in the lane that is to have it.
#[inline(always)]
fn exchange<R: Rank>(rank: R, distance: u32, keeps_greater: bool) -> R {
    let other = warp::shuffle_xor(FULL_MASK, rank, distance);
    if other.exceeds(rank) == keeps_greater {
        other
    } else {
        rank
    }
}

/// The ranks of a warp that ascend and then descend, or the other way, from the greatest. The loop stays one, here and in
/// [`sorted`]: written out, in all places where ranks are merged, it is nine tenths of the kernel.
#[inline(always)]
fn in_order<R: Rank>(mut rank: R) -> R {
    let lane = warp::lane_id();
    let mut distance = hint::opaque(WARP_SIZE / 2);
    while distance > 0 {
        rank = exchange(rank, distance, lane & distance == 0);
        distance /= 2;
    }
    rank
}

/// The ranks of a warp from the greatest.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn sorted<R: Rank>(mut rank: R) -> R {
    let lane = warp::lane_id();
    let mut size = hint::opaque(2);
    while size < WARP_SIZE {
        let mut distance = size / 2;
        while distance > 0 {
            rank = exchange(rank, distance, (lane & distance == 0) == (lane & size == 0));
            distance /= 2;
        }
        size *= 2;
    }
    in_order(rank)
}

/// The best ranks of the elements of `x` that are a warp's: batches from number `first` on, one in `step`. Places are counted from the
/// first element.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn best<T: Ranked>(x: &[T], first: usize, step: usize, k: u32) -> Kept<T::Rank> {
    let none = T::Rank::NONE;
    let mut kept = Kept([none; 2]);
    let (mut waiting, mut least) = (none, none);
    let both = k > WARP_SIZE;
    // The rank of an element, that of none behind the last.
    let rank = |place: usize| match place < x.len() {
        // SAFETY: in bounds, as just asked; a single element is always aligned.
        true => unsafe { x.load_vec_unchecked::<1>(place)[0] }.rank(place as u32),
        false => none,
    };
    let mut start = first.wrapping_mul(BATCH);
    while start < x.len() {
        let own = start.wrapping_add(warp::lane_id() as usize);
        let batch: [T::Rank; ITEMS] = cuda_std::array::from_fn(|j| rank(own.wrapping_add(j * WARP_SIZE as usize)));
        // Which of them count, a bit each.
        let mut counting = 0u32;
        for j in 0..ITEMS {
            counting |= (batch[j].exceeds(least) as u32) << j;
        }
        let mut place = own;
        // All lanes take as many turns.
        while warp::any(FULL_MASK, counting != 0) {
            if warp::any(FULL_MASK, counting & 1 != 0) {
                // Loaded anew, from the cache: this is there once, and not for each of the registers.
                let rank = rank(place);
                let counts = rank.exceeds(least);
                if warp::any(FULL_MASK, counts && waiting.exceeds(none)) {
                    kept.merge(sorted(waiting), both);
                    (waiting, least) = (none, kept.get(k.wrapping_sub(1)));
                }
                waiting = if counts { rank } else { waiting };
            }
            counting >>= 1;
            place = place.wrapping_add(WARP_SIZE as usize);
        }
        start = start.wrapping_add(step.wrapping_mul(BATCH));
    }
    kept.merge(sorted(waiting), both);
    kept
}

/// The `k` largest elements of each part of each row, from the largest, and their places in the row, or what `places` has at these.
/// Of equal elements the first comes first; NaN is above every number, and −0 equal to +0.
///
/// `x` has the rows one after another, and so has `places`, or it is empty; `values` and `indices` have `k` elements for each part.
/// Where sizes are otherwise, or not as [`Parts`] says, nothing is written. The grid has as many [blocks](Parts::blocks) as that says, of
/// [`THREADS`] threads.
#[kernel(T = [f32, f64, f16, bf16, i32], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn top_k<T: Ranked>(x: &[T], places: &[u64], parts: Parts, values: SliceMut<'_, T>, indices: SliceMut<'_, u64>) {
    let (is_blocks, count, k) = (parts.is_blocks != 0, parts.parts as usize, parts.k as usize);
    if count == 0 || k == 0 || k > MOST || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let of_part = parts.len / count;
    let is_whole = parts
        .rows
        .checked_mul(parts.len)
        .is_some_and(|len| len <= x.len() && (places.is_empty() || len <= places.len()));
    // As `k ≤ len / count`, results are no more than elements, whose number did not wrap around.
    let results = parts.rows.wrapping_mul(count).wrapping_mul(k);
    if !is_whole || of_part < k || results > values.len() || results > indices.len() {
        return;
    }
    let warp = warp::uniform(warp::warp_id()) as usize;
    let block = thread::block_idx_x() as usize;
    let (task, first, step) = match is_blocks {
        true => (block, warp, WARPS),
        false => (block.wrapping_mul(WARPS).wrapping_add(warp), 0, 1),
    };
    let (row, part) = (task / count, task % count);
    let start = row.wrapping_mul(parts.len).wrapping_add(part.wrapping_mul(of_part));
    let end = match part + 1 == count {
        true => row.wrapping_add(1).wrapping_mul(parts.len),
        false => start.wrapping_add(of_part),
    };
    // Of a block all warps have one row, or each has its own, and waits for no other.
    if row >= parts.rows || end.wrapping_sub(start) > MAX_PART {
        return;
    }
    // SAFETY: a part of a row, of which there are as many as was asked.
    let elements = unsafe { x.get_unchecked(start..end) };
    let mut kept = best(elements, first, step, parts.k);
    if is_blocks {
        // SAFETY: as asked above.
        kept = unsafe { best_of_block(kept, parts.k > WARP_SIZE) };
        if warp != 0 {
            return;
        }
    }
    for half in 0..2 {
        let number = half * WARP_SIZE as usize + warp::lane_id() as usize;
        let place = start.wrapping_add(kept.0[half].place() as usize);
        if number < k {
            let at = task.wrapping_mul(k).wrapping_add(number);
            // SAFETY (of all): an element of the part, which has `k` at least; results are as many as was asked; single elements are
            // always aligned.
            unsafe {
                let index = match places.is_empty() {
                    true => place.wrapping_sub(row.wrapping_mul(parts.len)) as u64,
                    false => places.load_vec_unchecked::<1>(place)[0],
                };
                values.set_vec_unchecked(at, x.load_vec_unchecked::<1>(place));
                indices.set_vec_unchecked(at, [index]);
            }
        }
    }
}

/// The best of what all warps of the block have kept, in the first warp.
///
/// # Safety
///
/// The block has [`THREADS`] threads.
///
/// # Convergence
///
/// All threads of the block call it.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn best_of_block<R: Rank>(mut kept: Kept<R>, both: bool) -> Kept<R> {
    const { assert!(size_of::<R>() <= size_of::<[u64; 2]>()) };
    let shared = shared_array![[u64; 2]; WARPS * MOST].cast::<R>();
    let warp = warp::uniform(warp::warp_id()) as usize;
    let at = |half: usize| half * WARP_SIZE as usize + warp::lane_id() as usize;
    for half in 0..2 {
        // SAFETY: the warp is one of `WARPS`, each of which has room for `MOST` ranks, which are no larger than the room's units.
        unsafe { shared.set_unchecked(warp * MOST + at(half), kept.0[half]) };
    }
    thread::sync_threads();
    if warp == 0 {
        // Of each other warp the first half, and the second.
        let (mut half, step) = (2, if both { 1 } else { 2 });
        while half < 2 * WARPS {
            // SAFETY: half a warp's room.
            kept.merge(unsafe { shared.get_unchecked(at(half)) }, both);
            half += step;
        }
    }
    kept
}
