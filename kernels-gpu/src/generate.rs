// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a block writes what it computes from indices alone: vectors of 16 bytes, several of them a thread.
//!
//! With nothing to load, a thread has nothing to wait for: it makes several vectors, so that there are fewer blocks to
//! start and the vectors' arithmetic is interleaved. The vectors that a warp writes at a time are neighbours.

use bytemuck::Pod;
use cuda_std::hint;
use cuda_std::prelude::*;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Bytes of a vector.
const VECTOR: usize = 16;

/// Elements of type `T` that a block writes whose threads write so many vectors.
pub(crate) const fn tile_len<T>(vectors: usize) -> usize {
    THREADS * vectors * vec_len::<T>()
}

/// Elements of a vector.
const fn vec_len<T>() -> usize {
    VECTOR / size_of::<T>()
}

/// Lets this block write its tile, of `V` vectors for each thread: elements `N v .. N v + N` are `vector(v)`, where `N` is
/// what makes 16 bytes. The code is that of `U` vectors, which divides `V`: what takes a hundred instructions for each is
/// done in turns, so that they stay in the instruction cache next to the scheduler.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(crate) fn write<T: Pod, const N: usize, const V: usize, const U: usize>(
    out: SliceMut<'_, T>,
    vector: impl Fn(usize) -> [T; N],
) {
    const { assert!(V.is_multiple_of(U)) };
    let start = thread::block_idx_x() as usize * (THREADS * V);
    let (t, threads) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
    if threads == THREADS && (start + THREADS * V) * N <= out.len() && out.is_vec_aligned::<N>() {
        let mut first = start + t;
        // Opaque, so that turns are not unrolled.
        let mut turns = if U < V { hint::opaque((V / U) as u32) } else { 1 };
        while turns > 0 {
            for k in 0..U {
                let v = first + k * THREADS;
                // SAFETY: aligned, as just asked; with THREADS threads, the last vector ends at the tile's end, which is
                // within the length.
                unsafe { out.set_vec_unchecked::<N>(v * N, vector(v)) };
            }
            first += U * THREADS;
            turns -= 1;
        }
        return;
    }
    let mut v = start + t;
    while v < start + THREADS * V && v * N < out.len() {
        let values = vector(v);
        for k in 0..N {
            if v * N + k < out.len() {
                out.set(v * N + k, values[k]);
            }
        }
        v += threads;
    }
}

/// Lets this block write its tile, of `V` vectors for each thread: element `i` is `element(i)`.
#[inline(always)]
pub(crate) fn write_each<T: Pod, const V: usize>(out: SliceMut<'_, T>, element: impl Fn(usize) -> T) {
    // A constant, so that the other lengths are not even compiled.
    match const { vec_len::<T>() } {
        2 => write_by::<T, 2, V>(out, element),
        4 => write_by::<T, 4, V>(out, element),
        8 => write_by::<T, 8, V>(out, element),
        _ => write_by::<T, 16, V>(out, element),
    }
}

#[inline(always)]
fn write_by<T: Pod, const N: usize, const V: usize>(out: SliceMut<'_, T>, element: impl Fn(usize) -> T) {
    write::<T, N, V, V>(out, |v| cuda_std::array::from_fn(|k| element(v * N + k)));
}
