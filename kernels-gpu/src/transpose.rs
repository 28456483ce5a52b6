// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements in another order: transposition, and any other permutation of the axes of an array.
//!
//! Each element is read once and written once: `2 n` elements moved, whatever they are; the kernels know only their
//! size, 1, 2, 4, 8 or 16 bytes.
//!
//! [`transpose_tiles`](fn@transpose_tiles) is for axes of which one is contiguous in the input and another in the
//! output. A block brings a tile to shared memory in rows of the input and takes it from there in rows of the output,
//! so that both sides are accessed in whole lines: G. Ruetsch and P. Micikevicius, "Optimizing Matrix Transpose in
//! CUDA" (2009). The unit in shared memory is a *word* of at least 4 bytes, the width of a bank. A tile has 32 words
//! either way, and a row of it 33 in memory, so that neither a row nor a column meets a bank twice. Words of 8 (16)
//! bytes are accessed by half (quarter) warps; a step of 33 words is one of 2 (4) banks, which are those that the
//! neighbour leaves free.
//!
//! * 8 and 16 bytes: an element is a word, a tile is 32 × 32 elements.
//! * 1, 2 and 4 bytes: `V` elements (4, 2, 2) are a word of 4, 4 or 8 bytes, a tile is 128 × 128 (64 × 64) elements:
//!   what a warp accesses is 128 contiguous bytes at least, and 256 where there is room for it. A thread reads a word
//!   from each of `V` rows and transposes these `V × V` elements in registers; the resulting words lie along the
//!   output's row. Word `j` of lane `l`, which belongs to output row `l V + j`, goes to row `32 j + l` of the tile: so
//!   lanes write to neighbouring rows, whatever `V` is.
//!
//! Tiles whose rows begin between words go the same way, by words that are moved into place. Of matrices with a short side
//! a tile has that side whole, so that on the other side it is one stretch of memory, which lies in shared memory as it is
//! (stretch.rs).
//!
//! [`copy_lines`](fn@copy_lines) copies lines that lie together on both sides, 16 bytes at a time, wherever they begin.
//!
//! [`join_lines`](fn@join_lines) puts short lines of two arrays side by side, so that the output is written in whole words.
//!
//! [`copy_strided`](fn@copy_strided) copies element by element in any order of the axes: for short rows that have a
//! contiguous axis in common (with elements as wide as that allows), for what repeats elements, or is too thin for tiles.

mod join;
mod lines;
mod plan;
mod stretch;
mod tile;

use cuda_std::prelude::*;

use self::plan::Place;
pub use self::plan::{Axis, BATCH_AXES, Extent, Joined, LINE_AXES, Lines, STRIDED_AXES, Side, Strided, Tiles, Way};
use self::stretch::Stretch;
use self::tile::Tile;

/// Threads of a block of [`transpose_tiles`](fn@transpose_tiles).
pub const TILE_THREADS: usize = WARPS * LANES;

/// Threads of a block of [`copy_strided`](fn@copy_strided).
pub const STRIDED_THREADS: usize = 256;

/// Elements that a block of [`copy_strided`](fn@copy_strided) copies.
pub const STRIDED_TILE: usize = STRIDED_THREADS * ITEMS;

/// Bytes of the output that a thread of [`copy_lines`](fn@copy_lines) and of [`join_lines`](fn@join_lines) writes: a vector,
/// aligned as one.
pub const CHUNK: usize = 16;

/// Elements that a thread of [`copy_strided`](fn@copy_strided) copies.
const ITEMS: usize = 4;

const LANES: usize = 32;
const WARPS: usize = 4;

/// Words from one row of a tile to the next.
const PITCH: usize = LANES + 1;

/// Words that a thread has in flight.
const UNROLL: usize = LANES / WARPS;

/// The elements of a word of shared memory, for those of `bytes` bytes.
const fn elements_of_word(bytes: usize) -> usize {
    match bytes {
        1 => 4,
        2 | 4 => 2,
        _ => 1,
    }
}

/// The side of a square tile in elements of `bytes` bytes.
pub const fn tile_side(bytes: usize) -> usize {
    elements_of_word(bytes) * LANES
}

/// The most elements of `bytes` bytes of a tile that is one stretch of memory on one side.
pub const fn stretch_len(bytes: usize) -> usize {
    tile_side(bytes) * tile_side(bytes)
}

/// The words of shared memory of a block: those of a square tile, or of a stretch of as many elements that begins between
/// words and has one left free behind each 32.
const fn shared_words(v: usize) -> usize {
    v * LANES * PITCH + 2
}

/// An element that the kernels move: an unsigned integer of its size.
pub trait Cell: bytemuck::Pod + Send + Sync {
    /// Does what [`transpose_tiles`](fn@transpose_tiles) does.
    #[doc(hidden)]
    fn tiles(x: &[Self], plan: &Tiles, out: SliceMut<'_, Self>);
}

/// A cell of which `V` are a word.
trait Packed<const V: usize>: Cell {
    type Word: bytemuck::Pod;

    /// The tile: `32 V` rows of [`PITCH`] words, and what a stretch takes beside them.
    fn tile() -> Shared<Self::Word>;

    /// Cell `i` of result `j` is cell `j` of word `i`.
    fn transpose(words: [Self::Word; V]) -> [Self::Word; V];

    /// The word that begins with cell `by`, at most `V`, of two words.
    fn shift(words: [Self::Word; 2], by: usize) -> Self::Word;
}

macro_rules! cells {
    ($($type:ident: $v:literal of $word:ident, $transpose:expr, $shift:expr;)*) => {$(
        impl Cell for $type {
            #[inline(always)]
            fn tiles(x: &[Self], plan: &Tiles, out: SliceMut<'_, Self>) {
                block::<Self, $v>(x, plan, out);
            }
        }

        impl Packed<$v> for $type {
            type Word = $word;

            #[inline(always)]
            fn tile() -> Shared<$word> {
                shared_array![$word; shared_words($v)]
            }

            #[inline(always)]
            fn transpose(words: [$word; $v]) -> [$word; $v] {
                $transpose(words)
            }

            #[inline(always)]
            fn shift(words: [$word; 2], by: usize) -> $word {
                $shift(words, by)
            }
        }
    )*};
}

cells! {
    u8: 4 of u32, transpose_bytes, |words, by| shift_bits(words, 8 * by);
    u16: 2 of u32, transpose_halves, |words, by| shift_bits(words, 16 * by);
    u32: 2 of u64, transpose_words, shift_words;
    u64: 1 of u64, core::convert::identity, |words: [u64; 2], by: usize| words[by & 1];
    u128: 1 of u128, core::convert::identity, |words: [u128; 2], by: usize| words[by & 1];
}

/// The word that begins so many bits, at most 32, behind the first.
#[inline(always)]
fn shift_bits([low, high]: [u32; 2], bits: usize) -> u32 {
    let both = u64::from(u32::from_le(low)) | u64::from(u32::from_le(high)) << 32;
    ((both >> bits) as u32).to_le()
}

/// The pair that begins with word `by` of two pairs.
#[inline(always)]
fn shift_words([low, high]: [u64; 2], by: usize) -> u64 {
    let (first, second) = (u64::from_le(low), u64::from_le(high));
    match by {
        0 => low,
        1 => ((first >> 32) | (second << 32)).to_le(),
        _ => high,
    }
}

/// 4 × 4 bytes: those of odd words change places with those beside them, then pairs of them.
#[inline(always)]
fn transpose_bytes(words: [u32; 4]) -> [u32; 4] {
    const EVEN: u32 = 0x00ff_00ff;
    let [a, b, c, d] = cuda_std::array::map(words, u32::from_le);
    let even = |a: u32, b: u32| (a & EVEN) | ((b & EVEN) << 8);
    let odd = |a: u32, b: u32| ((a >> 8) & EVEN) | (b & !EVEN);
    let [r0, r2] = halves(even(a, b), even(c, d));
    let [r1, r3] = halves(odd(a, b), odd(c, d));
    cuda_std::array::map([r0, r1, r2, r3], u32::to_le)
}

/// 2 × 2 halves of words.
#[inline(always)]
fn transpose_halves([a, b]: [u32; 2]) -> [u32; 2] {
    cuda_std::array::map(halves(u32::from_le(a), u32::from_le(b)), u32::to_le)
}

/// 2 × 2 words of pairs.
#[inline(always)]
fn transpose_words([a, b]: [u64; 2]) -> [u64; 2] {
    let (a, b) = (u64::from_le(a), u64::from_le(b));
    cuda_std::array::map(
        [(a & 0xffff_ffff) | (b << 32), (a >> 32) | (b & !0xffff_ffff)],
        u64::to_le,
    )
}

/// The low halves, and the high halves.
#[inline(always)]
fn halves(a: u32, b: u32) -> [u32; 2] {
    [(a & 0xffff) | (b << 16), (a >> 16) | (b & 0xffff_0000)]
}

/// Whether `rows` rows of `columns` elements (at most 2^15 of each), from element `first`, with `stride` from one row to
/// the next, are within `len` elements.
#[inline(always)]
fn in_bounds(first: u64, rows: usize, stride: usize, columns: usize, len: usize) -> bool {
    // No slice is that long, and below it the sum does not overflow.
    const LONGEST: u64 = 1 << 47;
    let (rows, stride, columns, len) = (rows as u64, stride as u64, columns as u64, len as u64);
    len <= LONGEST
        && first < len
        && (rows <= 1 || stride < len)
        && first + rows.saturating_sub(1) * stride + columns <= len
}

/// Transposes this block's tile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn block<T: Packed<V>, const V: usize>(x: &[T], plan: &Tiles, out: SliceMut<'_, T>) {
    match plan.way {
        Way::STRETCHES_OF_INPUT => stretch::<T, V, true>(x, plan, out),
        Way::STRETCHES_OF_OUTPUT => stretch::<T, V, false>(x, plan, out),
        _ => square::<T, V>(x, plan, out),
    }
}

/// Transposes this block's tile, which has as many elements along both axes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn square<T: Packed<V>, const V: usize>(x: &[T], plan: &Tiles, out: SliceMut<'_, T>) {
    let Some(tile) = Tile::new(x, plan, out, [(V * LANES) as u32; 2]) else {
        return;
    };
    if !in_bounds(tile.first.x, tile.a_len, tile.a_stride, tile.b_len, x.len())
        || !in_bounds(tile.first.out, tile.b_len, tile.b_stride, tile.a_len, out.len())
    {
        return;
    }
    let shared = T::tile();
    let full = tile.a_len == V * LANES && tile.b_len == V * LANES;
    // SAFETY (of all five): in bounds, as just asked; of whole words only where the tile is full and its rows are aligned.
    if full && tile.x_phase::<V>(tile.first.x as usize) == 0 && tile.a_stride.is_multiple_of(V) {
        unsafe { tile.load_aligned::<V>(shared) };
    } else if tile.words_are_inside::<V>(plan) {
        unsafe { tile.load_shifted::<V>(shared) };
    } else {
        unsafe { tile.load_elements::<V>(shared) };
    }
    thread::sync_threads();
    if full && tile.out_phase::<V>(tile.first.out as usize) == 0 && tile.b_stride.is_multiple_of(V) {
        unsafe { tile.store_aligned::<V>(shared) };
    } else {
        unsafe { tile.store_shifted::<V>(shared) };
    }
}

/// Transposes this block's tile, which is one stretch of the input, or of the output.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn stretch<T: Packed<V>, const V: usize, const OF_INPUT: bool>(x: &[T], plan: &Tiles, out: SliceMut<'_, T>) {
    let Some(tile) = Tile::new(x, plan, out, plan.sides) else {
        return;
    };
    let padded = plan.padded != 0;
    let (shared, stretch) = (T::tile(), Stretch { padded });
    let len = tile.a_len * tile.b_len;
    if !stretch.has_room::<V>(len, shared.len()) {
        return;
    }
    let Place { x: from, out: to } = tile.first;
    let is_inside = if OF_INPUT {
        in_bounds(from, 1, 0, len, x.len()) && in_bounds(to, tile.b_len, tile.b_stride, tile.a_len, out.len())
    } else {
        in_bounds(from, tile.a_len, tile.a_stride, tile.b_len, x.len()) && in_bounds(to, 1, 0, len, out.len())
    };
    if !is_inside {
        return;
    }
    // SAFETY (of all four): in bounds, and there is room, as just asked.
    if OF_INPUT {
        unsafe { tile.load_stretch::<V>(shared, stretch) };
        thread::sync_threads();
        unsafe { tile.store_rows::<V>(shared.cast::<T>(), stretch) };
    } else {
        unsafe { tile.load_rows::<V>(shared.cast::<T>(), stretch) };
        thread::sync_threads();
        unsafe { tile.store_stretch::<V>(shared, stretch) };
    }
}

/// Transposes axes `a` and `b` of the plan, for each step along the others; one block of [`TILE_THREADS`] threads for
/// each tile, which has [`tile_side`] elements either way, or, of matrices with a short side, what the plan says.
///
/// A tile that reaches beyond the arrays is left out.
#[kernel(T = [u8, u16, u32, u64, u128], max_threads = TILE_THREADS)]
pub fn transpose_tiles<T: Cell>(x: &[T], plan: Tiles, out: SliceMut<'_, T>) {
    T::tiles(x, &plan, out);
}

/// Where iterations `indices` of the plan read and write.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn places(plan: &Strided, mut indices: [u32; ITEMS]) -> [Place; ITEMS] {
    let mut places = [Place {
        x: plan.x_first,
        out: plan.out_first,
    }; ITEMS];
    for i in 0..STRIDED_AXES {
        if i < plan.rank as usize {
            let axis = &plan.axes[i];
            for k in 0..ITEMS {
                let (quotient, step) = axis.extent.div_rem(indices[k]);
                places[k] = places[k].step(axis, step);
                indices[k] = quotient;
            }
        }
    }
    places
}

/// Copies the plan's elements; a block of [`STRIDED_THREADS`] threads for each [`STRIDED_TILE`] of them.
///
/// What lies beyond the arrays is left out.
#[kernel(T = [u8, u16, u32, u64, u128], max_threads = STRIDED_THREADS)]
pub fn copy_strided<T: Cell>(x: &[T], plan: Strided, out: SliceMut<'_, T>) {
    // Of a grid with more blocks than a plan has elements for, some copy again what others do.
    let first = thread::block_idx_x()
        .wrapping_mul(STRIDED_TILE as u32)
        .wrapping_add(thread::thread_idx_x());
    let indices: [u32; ITEMS] = cuda_std::array::from_fn(|k| first.wrapping_add((k * STRIDED_THREADS) as u32));
    let places = places(&plan, indices);
    let exists: [bool; ITEMS] = cuda_std::array::from_fn(|k| {
        indices[k] < plan.count && places[k].x < x.len() as u64 && places[k].out < out.len() as u64
    });
    let elements: [T; ITEMS] = cuda_std::array::from_fn(|k| {
        if !exists[k] {
            return T::zeroed();
        }
        // SAFETY: in bounds, as just asked; a single element is always aligned.
        let [element] = unsafe { x.load_vec_unchecked(places[k].x as usize) };
        element
    });
    for k in 0..ITEMS {
        if exists[k] {
            // SAFETY: as above.
            unsafe { out.set_vec_unchecked(places[k].out as usize, [elements[k]]) };
        }
    }
}

/// Copies lines of `x`, and those of `y` if it has any, whose blocks take turns: so what the lines of both share of a line
/// of memory in the output is in the cache at one time. Blocks of [`STRIDED_THREADS`] threads, of which each has a chunk.
///
/// Lines that reach beyond the arrays are left out.
#[kernel(max_threads = STRIDED_THREADS)]
pub fn copy_lines(x: &[u8], y: &[u8], of_x: Lines, of_y: Lines, out: SliceMut<'_, u8>) {
    let index = thread::block_idx_x();
    if of_y.count == 0 {
        lines::copy(x, &of_x, out, index);
    } else if index.is_multiple_of(2) {
        lines::copy(x, &of_x, out, index / 2);
    } else {
        lines::copy(y, &of_y, out, index / 2);
    }
}

/// Puts lines of `x` and `y` side by side: a row of the output is one of each. Blocks of [`STRIDED_THREADS`] threads, of which
/// each makes [`CHUNK`] bytes, of whatever lines they are: so of short ones, too, the output is written in whole words, and
/// once.
///
/// Does nothing if some line reaches beyond its array, or is not aligned as the plan says.
#[kernel(max_threads = STRIDED_THREADS)]
pub fn join_lines(x: &[u8], y: &[u8], plan: Joined, out: SliceMut<'_, u8>) {
    join::copy(x, y, &plan, out, thread::block_idx_x());
}
