// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and stores of a block's tile, in vectors where the whole tile is there, one by one at the ragged end.
//!
//! A thread has `U` vectors of `V` neighbours: vector `u` of thread `t` begins at place `(u · THREADS + t) · V` of the
//! tile, so that neighbouring threads access neighbouring vectors. All loads of a thread are in flight together. A
//! vector is accessed at once, 16 bytes at a time, where the tile is whole and the array is aligned for it.
//!
//! ```
//! use cuda_block::tile;
//! use cuda_std::prelude::*;
//!
//! const THREADS: usize = 64;
//!
//! /// `out[i] = x[i] + 1`, by blocks of 64 threads that have 8 elements each.
//! #[kernel(max_threads = THREADS)]
//! pub fn increment(x: &[u32], out: SliceMut<'_, u32>) {
//!     let start = thread::block_idx_x() as usize * tile::len(THREADS, 4, 2);
//!     let vectors: [[u32; 4]; 2] = tile::load::<_, THREADS, 4, 2>(x, start, 0);
//!     tile::store::<_, THREADS, 4, 2>(out, start, vectors.map(|vector| vector.map(|x| x + 1)));
//! }
//! # let (x, mut out) = (Vec::from_iter(0..1100u32), vec![0u32; 1100]);
//! # cuda_std::launch::on_simulator(3, 64, &mut out, |out| increment(&x, out));
//! assert!((0..1100).all(|i| out[i] as usize == i + 1));
//! ```

use bytemuck::Pod;
use cuda_std::prelude::*;

/// Elements of the tile of a block of `threads` threads with `u` vectors of `v` elements each.
pub const fn len(threads: usize, v: usize, u: usize) -> usize {
    threads * v * u
}

/// Where vector `u` of this thread begins in the tile; from `len(THREADS, V, U)` on for a thread too many.
#[inline(always)]
fn place<const THREADS: usize, const V: usize>(u: usize) -> usize {
    (u * THREADS + thread::thread_idx_x() as usize) * V
}

/// Whether the whole tile at `start` is within `len` elements, and its vectors are those of an array that is aligned.
#[inline(always)]
fn is_whole<const THREADS: usize, const V: usize, const U: usize>(start: usize, len: usize, is_aligned: bool) -> bool {
    let tile = self::len(THREADS, V, U);
    is_aligned
        && start.is_multiple_of(V)
        && start <= len
        && tile <= len - start
        && (thread::thread_idx_x() as usize) < THREADS
}

/// This thread's vectors of the tile of `x` that begins at `start`; `fill` for what `x` does not have.
///
/// Work and bytes: each element of the tile once. No thread waits for another.
#[inline(always)]
pub fn load<T: Pod, const THREADS: usize, const V: usize, const U: usize>(
    x: &[T],
    start: usize,
    fill: T,
) -> [[T; V]; U] {
    if is_whole::<THREADS, V, U>(start, x.len(), x.is_vec_aligned::<V>()) {
        // Without a branch between the loads, so that all are in flight at once.
        // SAFETY: the vector is in the tile, which is in `x`; its place is a multiple of `V`, for which `x` is aligned.
        return cuda_std::array::from_fn(|u| unsafe { x.load_vec_unchecked::<V>(start + place::<THREADS, V>(u)) });
    }
    cuda_std::array::from_fn(|u| {
        let first = start.saturating_add(place::<THREADS, V>(u));
        cuda_std::array::from_fn(|k| match x.get(first.saturating_add(k)) {
            Some(&element) => element,
            None => fill,
        })
    })
}

/// Sets this thread's vectors of the tile of `out` that begins at `start`; what `out` does not have is left out.
///
/// Work and bytes: each element of the tile once. No thread waits for another.
#[inline(always)]
pub fn store<T: Pod, const THREADS: usize, const V: usize, const U: usize>(
    out: SliceMut<'_, T>,
    start: usize,
    vectors: [[T; V]; U],
) {
    if is_whole::<THREADS, V, U>(start, out.len(), out.is_vec_aligned::<V>()) {
        for u in 0..U {
            // SAFETY: as in `load`, of `out`.
            unsafe { out.set_vec_unchecked::<V>(start + place::<THREADS, V>(u), vectors[u]) };
        }
        return;
    }
    for u in 0..U {
        let first = start.saturating_add(place::<THREADS, V>(u));
        for k in 0..V {
            let i = first.saturating_add(k);
            if i < out.len() {
                out.set(i, vectors[u][k]);
            }
        }
    }
}
