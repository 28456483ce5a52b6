// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a block writes what it computes from indices alone: vectors of 16 bytes, several of them a thread.
//!
//! With nothing to load, a thread has nothing to wait for: it makes [`VECTORS`] vectors, so that there are fewer blocks to
//! start and the vectors' arithmetic is interleaved. The vectors that a warp writes at a time are neighbours.

use bytemuck::Pod;
use cuda_std::prelude::*;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Vectors that a thread writes.
const VECTORS: usize = 4;

/// Bytes of a vector.
const VECTOR: usize = 16;

/// Elements of type `T` that a block writes: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T>() -> usize {
    THREADS * VECTORS * vec_len::<T>()
}

/// Elements of a vector.
const fn vec_len<T>() -> usize {
    VECTOR / size_of::<T>()
}

/// Lets this block write its tile: elements `N v .. N v + N` are `vector(v)`, where `N` is what makes 16 bytes.
#[inline(always)]
pub(crate) fn write<T: Pod, const N: usize>(out: SliceMut<'_, T>, vector: impl Fn(usize) -> [T; N]) {
    let start = thread::block_idx_x() as usize * (THREADS * VECTORS);
    let (t, threads) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
    if threads == THREADS && (start + THREADS * VECTORS) * N <= out.len() && out.is_vec_aligned::<N>() {
        for k in 0..VECTORS {
            let v = start + k * THREADS + t;
            // SAFETY: aligned, as just asked; with THREADS threads, the last vector ends at the tile's end, which is
            // within the length.
            unsafe { out.set_vec_unchecked::<N>(v * N, vector(v)) };
        }
        return;
    }
    let mut v = start + t;
    while v < start + THREADS * VECTORS && v * N < out.len() {
        let values = vector(v);
        for k in 0..N {
            if v * N + k < out.len() {
                out.set(v * N + k, values[k]);
            }
        }
        v += threads;
    }
}

/// Lets this block write its tile: element `i` is `element(i)`.
#[inline(always)]
pub(crate) fn write_each<T: Pod>(out: SliceMut<'_, T>, element: impl Fn(usize) -> T) {
    // A constant, so that the other lengths are not even compiled.
    match const { vec_len::<T>() } {
        2 => write_by::<T, 2>(out, element),
        4 => write_by::<T, 4>(out, element),
        8 => write_by::<T, 8>(out, element),
        _ => write_by::<T, 16>(out, element),
    }
}

#[inline(always)]
fn write_by<T: Pod, const N: usize>(out: SliceMut<'_, T>, element: impl Fn(usize) -> T) {
    write::<T, N>(out, |v| cuda_std::array::from_fn(|k| element(v * N + k)));
}
