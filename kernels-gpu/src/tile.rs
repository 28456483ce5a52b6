// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a block walks over the elements of its tile: wide accesses where it can, single ones of what is less than a vector.
//!
//! Each thread makes one access to each array, 16 bytes of the widest type, and is done. More of them in flight in each
//! of fewer threads are slower: with 2048 threads on a multiprocessor, one each is enough to keep memory busy, and
//! blocks that follow one another in the order of their addresses suit it better than threads that reach far ahead.

use cuda_std::prelude::*;

/// Threads of a block, in the kernels that treat elements one by one.
pub const THREADS: usize = 256;

/// Bytes that a thread moves in each of its accesses.
const ACCESS: usize = 16;

/// Elements that a block treats when the largest of the element types that it moves has `bytes` bytes.
pub const fn tile_len(bytes: usize) -> usize {
    THREADS * vec_len(bytes)
}

/// Elements of an access when the largest of the element types has `bytes` bytes: one access of it is [`ACCESS`] wide.
pub const fn vec_len(bytes: usize) -> usize {
    if bytes >= ACCESS {
        1
    } else {
        ACCESS / bytes.next_power_of_two()
    }
}

/// What a kernel does to the elements of its tile.
pub trait Body {
    /// Bytes of the largest of the element types, from which the length of vectors follows.
    const LARGEST: usize;

    /// The number of elements: every array that the body accesses has at least so many.
    fn len(&self) -> usize;

    /// Whether vectors of `N` may be accessed at multiples of `N`.
    fn is_aligned<const N: usize>(&self) -> bool;

    /// Treats elements `i .. i + N`.
    ///
    /// # Safety
    ///
    /// `is_aligned::<N>()` holds, `i` is a multiple of `N`, and `i + N` is at most `len()`.
    unsafe fn vector<const N: usize>(&self, i: usize);

    /// Treats element `i`.
    fn element(&self, i: usize);
}

/// Lets this block treat its tile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub fn for_tile<B: Body>(body: &B) {
    // A constant, so that the other lengths are not even compiled.
    match const { vec_len(B::LARGEST) } {
        1 => for_tile_by::<1>(body),
        2 => for_tile_by::<2>(body),
        4 => for_tile_by::<4>(body),
        8 => for_tile_by::<8>(body),
        _ => for_tile_by::<16>(body),
    }
}

#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn for_tile_by<const N: usize>(body: &impl Body) {
    let tile = THREADS * N;
    let start = thread::block_idx_x() as usize * tile;
    let t = thread::thread_idx_x() as usize;
    let threads = thread::block_dim_x() as usize;
    let cut = const { is_cut(N) };
    let end = if cut { start + t * N + N } else { start + tile };
    if threads == THREADS && end <= body.len() && body.is_aligned::<N>() {
        // SAFETY: aligned, as just asked; the first is a multiple of `N`, and the vector ends within the length.
        unsafe { body.vector::<N>(start + t * N) };
    } else {
        let end = if start + tile < body.len() {
            start + tile
        } else {
            body.len()
        };
        // Of a tile that is cut, what is less than a vector, by the threads that have none; else all.
        let vectors = match cut && threads == THREADS && body.is_aligned::<N>() {
            true => end.saturating_sub(start) / N,
            false => 0,
        };
        let mut i = start + vectors * N + (t - vectors);
        while i < end {
            body.element(i);
            i += threads - vectors;
        }
    }
}

/// Whether the last tile is treated by vectors of that length as far as it goes. One element after another, a thread waits
/// for memory as often as it has elements: a short array of f32 by vectors takes half the time. The functions of f64, of
/// which a vector has two, would take more registers for it, and fewer blocks at a time; so would those of bytes.
const fn is_cut(vector: usize) -> bool {
    matches!(vector, 4 | 8)
}
