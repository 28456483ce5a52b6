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
//! [`copy_strided`](fn@copy_strided) copies element by element in any order of the axes: for what has a contiguous axis
//! in common (with elements as wide as that allows), repeats elements, or is too thin for tiles.

mod plan;

use cuda_std::hint;
use cuda_std::prelude::*;

use self::plan::Place;
pub use self::plan::{Axis, BATCH_AXES, Extent, STRIDED_AXES, Strided, Tiles};

/// Threads of a block of [`transpose_tiles`](fn@transpose_tiles).
pub const TILE_THREADS: usize = WARPS * LANES;

/// Threads of a block of [`copy_strided`](fn@copy_strided).
pub const STRIDED_THREADS: usize = 256;

/// Elements that a block of [`copy_strided`](fn@copy_strided) copies.
pub const STRIDED_TILE: usize = STRIDED_THREADS * ITEMS;

/// Elements that a thread of [`copy_strided`](fn@copy_strided) copies.
const ITEMS: usize = 4;

const LANES: usize = 32;
const WARPS: usize = 4;

/// Words from one row of a tile to the next.
const PITCH: usize = LANES + 1;

/// Words that a thread has in flight.
const UNROLL: usize = LANES / WARPS;

/// The side of a tile in elements of `bytes` bytes.
pub const fn tile_side(bytes: usize) -> usize {
    match bytes {
        1 => 4 * LANES,
        2 | 4 => 2 * LANES,
        _ => LANES,
    }
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

    /// The tile: `32 V` rows of [`PITCH`] words.
    fn tile() -> Shared<Self::Word>;

    /// Cell `i` of result `j` is cell `j` of word `i`.
    fn transpose(words: [Self::Word; V]) -> [Self::Word; V];
}

macro_rules! cells {
    ($($type:ident: $v:literal of $word:ident, $transpose:expr;)*) => {$(
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
                shared_array![$word; $v * LANES * PITCH]
            }

            #[inline(always)]
            fn transpose(words: [$word; $v]) -> [$word; $v] {
                $transpose(words)
            }
        }
    )*};
}

cells! {
    u8: 4 of u32, transpose_bytes;
    u16: 2 of u32, transpose_halves;
    u32: 2 of u64, transpose_words;
    u64: 1 of u64, core::convert::identity;
    u128: 1 of u128, core::convert::identity;
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

/// One block's tile. Positions in the tile: `a` counts rows of the input, `b` rows of the output.
struct Tile<'a, T, W> {
    x: &'a [T],
    out: SliceMut<'a, T>,
    /// The tile's first element, on either side.
    first: Place,
    a_stride: usize,
    b_stride: usize,
    /// The elements of the tile that exist.
    a_len: usize,
    b_len: usize,
    shared: Shared<W>,
}

impl<'a, T, W: bytemuck::Pod> Tile<'a, T, W> {
    /// The tile of this block; `None` for a block too many.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new<const V: usize>(x: &'a [T], plan: &Tiles, out: SliceMut<'a, T>) -> Option<Self>
    where
        T: Packed<V, Word = W>,
    {
        let index = thread::block_idx_x();
        if index >= plan.count {
            return None;
        }
        let (rest, b) = plan.b_tiles.div_rem(index);
        let (mut rest, a) = plan.a_tiles.div_rem(rest);
        let mut first = Place {
            x: plan.x_first,
            out: plan.out_first,
        };
        for i in 0..BATCH_AXES {
            if i < plan.rank as usize {
                let axis = &plan.axes[i];
                let (quotient, step) = axis.extent.div_rem(rest);
                first = first.step(axis, step);
                rest = quotient;
            }
        }
        let side = (V * LANES) as u64;
        let (a, b) = (a as u64 * side, b as u64 * side);
        first.x = first.x.wrapping_add(a.wrapping_mul(plan.a_stride)).wrapping_add(b);
        first.out = first.out.wrapping_add(b.wrapping_mul(plan.b_stride)).wrapping_add(a);
        Some(Self {
            x,
            out,
            first,
            a_stride: plan.a_stride as usize,
            b_stride: plan.b_stride as usize,
            a_len: Ord::min(plan.a_len.saturating_sub(a), side) as usize,
            b_len: Ord::min(plan.b_len.saturating_sub(b), side) as usize,
            shared: T::tile(),
        })
    }

    /// The thread's lane and warp, of which the compiler can not tell that they were computed before: it would keep
    /// them, and all that follows from them, across the barrier, in the registers that the words need.
    #[inline(always)]
    fn lane_and_warp() -> (usize, usize) {
        let t = hint::opaque(thread::thread_idx_x()) as usize;
        (t % LANES, t / LANES % WARPS)
    }

    /// Where in shared memory the word lies that has the `index`-th `V` elements of row `b` of the output.
    #[inline(always)]
    fn word<const V: usize>(b: usize, index: usize) -> usize {
        (b % V * LANES + b / V) * PITCH + index
    }

    /// Brings a tile without a gap, whose rows are aligned, to shared memory.
    ///
    /// # Safety
    ///
    /// Every element of the tile is in bounds, and its rows start at multiples of `V` of an aligned input.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load_words<const V: usize>(&self)
    where
        T: Packed<V, Word = W>,
    {
        let (lane, warp) = Self::lane_and_warp();
        let first = self.first.x as usize + lane * V;
        for g in 0..V {
            let words: [W; UNROLL] = cuda_std::array::from_fn(|k| {
                let a = (warp + WARPS * (g * (UNROLL / V) + k / V)) * V + k % V;
                // SAFETY: the caller's promise; `a` and the word's elements are less than the tile's side.
                bytemuck::cast(unsafe { self.x.load_vec_unchecked::<V>(first + a * self.a_stride) })
            });
            for q in 0..UNROLL / V {
                let words = T::transpose(cuda_std::array::from_fn(|i| words[q * V + i]));
                for j in 0..V {
                    let at = (j * LANES + lane) * PITCH + warp + WARPS * (g * (UNROLL / V) + q);
                    // SAFETY: a row less than `32 V` and a column less than 32.
                    unsafe { self.shared.set_unchecked(at, words[j]) };
                }
            }
        }
    }

    /// Brings any tile to shared memory, element by element.
    ///
    /// # Safety
    ///
    /// The elements of the tile that exist are in bounds.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load_elements<const V: usize>(&self)
    where
        T: Packed<V, Word = W>,
    {
        let (lane, warp) = Self::lane_and_warp();
        let shared = self.shared.cast::<T>();
        let mut b = lane;
        while b < self.b_len {
            let mut a = warp;
            while a < self.a_len {
                let elements: [T; UNROLL] = cuda_std::array::from_fn(|k| {
                    let a = a + WARPS * k;
                    if a >= self.a_len {
                        return T::zeroed();
                    }
                    // SAFETY: the caller's promise; a single element is always aligned.
                    let [element] = unsafe { self.x.load_vec_unchecked(self.first.x as usize + a * self.a_stride + b) };
                    element
                });
                for k in 0..UNROLL {
                    let a = a + WARPS * k;
                    if a < self.a_len {
                        // SAFETY: `a` and `b` are less than the tile's side.
                        unsafe { shared.set_unchecked(Self::word::<V>(b, a / V) * V + a % V, elements[k]) };
                    }
                }
                a += WARPS * UNROLL;
            }
            b += LANES;
        }
    }

    /// Writes a tile without a gap, whose rows in the output are aligned.
    ///
    /// # Safety
    ///
    /// As [`load_words`](Self::load_words), of the output.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store_words<const V: usize>(&self)
    where
        T: Packed<V, Word = W>,
    {
        let (lane, warp) = Self::lane_and_warp();
        let first = self.first.out as usize + lane * V;
        for g in 0..V {
            let row = |k: usize| warp + WARPS * (g * UNROLL + k);
            let words: [W; UNROLL] = cuda_std::array::from_fn(|k| {
                // SAFETY: the row is less than the tile's side, and the lane less than 32.
                unsafe { get(self.shared, Self::word::<V>(row(k), lane)) }
            });
            for k in 0..UNROLL {
                let at = first + row(k) * self.b_stride;
                // SAFETY: the caller's promise; the row and the word's elements are less than the tile's side.
                unsafe { self.out.set_vec_unchecked::<V>(at, bytemuck::cast(words[k])) };
            }
        }
    }

    /// Writes any tile, element by element.
    ///
    /// # Safety
    ///
    /// As [`load_elements`](Self::load_elements), of the output.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store_elements<const V: usize>(&self)
    where
        T: Packed<V, Word = W>,
    {
        let (lane, warp) = Self::lane_and_warp();
        let shared = self.shared.cast::<T>();
        let mut a = lane;
        while a < self.a_len {
            let mut b = warp;
            while b < self.b_len {
                let word = Self::word::<V>(b, a / V) * V + a % V;
                // SAFETY: `a` and `b` are less than the tile's side.
                let element = unsafe { get(shared, word) };
                let at = self.first.out as usize + b * self.b_stride + a;
                // SAFETY: the caller's promise; a single element is always aligned.
                unsafe { self.out.set_vec_unchecked(at, [element]) };
                b += WARPS;
            }
            a += LANES;
        }
    }
}

/// Element `index` of shared memory, without a check.
///
/// # Safety
///
/// `index` is less than the length.
#[inline(always)]
unsafe fn get<T: bytemuck::Pod>(shared: Shared<T>, index: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { core::hint::assert_unchecked(index < shared.len()) };
    shared.get(index)
}

/// Whether `rows` rows of `columns` elements (at most 128 of each), from element `first`, with `stride` from one row to
/// the next, are within `len` elements.
#[inline(always)]
fn in_bounds(first: u64, rows: usize, stride: usize, columns: usize, len: usize) -> bool {
    // No slice is that long, and below it the sum does not overflow.
    const LONGEST: u64 = 1 << 52;
    let (rows, stride, columns, len) = (rows as u64, stride as u64, columns as u64, len as u64);
    len <= LONGEST
        && first < len
        && (rows <= 1 || stride < len)
        && first + rows.saturating_sub(1) * stride + columns <= len
}

/// Transposes this block's tile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn block<T: Packed<V>, const V: usize>(x: &[T], plan: &Tiles, out: SliceMut<'_, T>) {
    let Some(tile) = Tile::new::<V>(x, plan, out) else {
        return;
    };
    if !in_bounds(tile.first.x, tile.a_len, tile.a_stride, tile.b_len, x.len())
        || !in_bounds(tile.first.out, tile.b_len, tile.b_stride, tile.a_len, out.len())
    {
        return;
    }
    let full = tile.a_len == V * LANES && tile.b_len == V * LANES;
    let aligned = |first: u64, stride: usize| (first as usize | stride).is_multiple_of(V);
    // SAFETY (of all four): in bounds, as just asked; of words only where the tile is full and its rows are aligned.
    if full && aligned(tile.first.x, tile.a_stride) && x.is_vec_aligned::<V>() {
        unsafe { tile.load_words::<V>() };
    } else {
        unsafe { tile.load_elements::<V>() };
    }
    thread::sync_threads();
    if full && aligned(tile.first.out, tile.b_stride) && out.is_vec_aligned::<V>() {
        unsafe { tile.store_words::<V>() };
    } else {
        unsafe { tile.store_elements::<V>() };
    }
}

/// Transposes axes `a` and `b` of the plan, for each step along the others; one block of [`TILE_THREADS`] threads for
/// each tile, which has [`tile_side`] elements either way.
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
