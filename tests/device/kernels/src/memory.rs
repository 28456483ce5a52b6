// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory, wide accesses, parameters.

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::shared;

/// Threads of a block in these kernels.
pub const BLOCK: usize = 256;

/// Reverses each block's part through static shared memory.
#[kernel(max_threads = BLOCK)]
pub fn reverse_static(data: SliceMut<'_, u64>) {
    let tile = shared_array![u64; BLOCK];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    tile.set(t, data.get(i));
    thread::sync_threads();
    data.set(i, tile.get(BLOCK - 1 - t));
}

/// Reverses each block's part of `PART` elements through static shared memory with room for any type and length.
#[kernel(T = [u8, f64], PART = [64, 256], max_threads = PART)]
pub fn reverse_generic<T: Pod, const PART: usize>(data: SliceMut<'_, T>, lengths: SliceMut<'_, u32>) {
    let tile = shared_array![T as u64; BLOCK];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    tile.set(t, data.get(i));
    thread::sync_threads();
    data.set(i, tile.get(PART - 1 - t));
    lengths.set(thread::block_idx_x() as usize, tile.len() as u32);
}

/// Reverses each block's part through dynamic shared memory, and writes how many elements that has.
#[kernel(T = [u8, u16, f32, f64])]
pub fn reverse_dynamic<T: Pod>(data: SliceMut<'_, T>, lengths: SliceMut<'_, u32>) {
    let tile = shared::dynamic::<T>();
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    tile.set(t, data.get(i));
    thread::sync_threads();
    data.set(i, tile.get(thread::block_dim_x() as usize - 1 - t));
    lengths.set(thread::block_idx_x() as usize, tile.len() as u32);
}

/// Two arrays of one block do not overlap, and a cast sees the same bytes.
#[kernel(max_threads = BLOCK)]
pub fn two_arrays(out: SliceMut<'_, u32>) {
    let a = shared_array![u32; BLOCK];
    let b = shared_array![u32; BLOCK];
    let t = thread::thread_idx_x() as usize;
    a.set(t, t as u32);
    b.set(t, 1000 + t as u32);
    thread::sync_threads();
    out.set(t, a.get(t));
    out.set(BLOCK + t, b.get(t));
    out.set(2 * BLOCK + t, u32::from(a.cast::<u8>().get(4 * t)));
}

/// Copies in vectors of `N`.
#[kernel(T = [u8, u16, f32, f64], N = [1, 2, 4, 8, 16])]
pub fn copy_vectors<T: Pod, const N: usize>(x: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d() * N;
    if i + N <= out.len() {
        out.set_vec::<N>(i, x.load_vec::<N>(i));
    } else {
        for k in i..out.len() {
            out.set(k, x.load(k));
        }
    }
}

/// Copies points of 12 bytes, each block those of its threads, in vectors of `N` and through shared memory.
#[kernel(N = [1, 2, 4], max_threads = BLOCK)]
pub fn copy_points<const N: usize>(x: &[[f32; 3]], out: SliceMut<'_, [f32; 3]>) {
    let tile = shared_array![[f32; 3]; 4 * BLOCK];
    let (t, i) = (thread::thread_idx_x() as usize * N, thread::index_1d() * N);
    tile.set_vec::<N>(t, x.load_vec::<N>(i));
    thread::sync_threads();
    out.set_vec::<N>(i, tile.get_vec::<N>(t));
}

/// Adds 1 in vectors of 4, in place.
#[kernel]
pub fn increment_vectors(data: SliceMut<'_, u32>) {
    let i = thread::index_1d() * 4;
    if i + 4 <= data.len() {
        data.set_vec(i, data.get_vec::<4>(i).map(|x| x + 1));
    }
}

/// How many of the words of `len` bytes in `x` equal the first one, compared as slices (which calls `memcmp`).
#[kernel]
pub fn equal_words(x: &[u8], len: usize, out: SliceMut<'_, u32>) {
    let i = thread::index_1d() * len;
    if i + len <= x.len() && x[i..i + len] == x[..len] {
        out.atomic(0).fetch_add(1);
    }
}

/// A parameter by value.
#[repr(C)]
#[derive(Clone, Copy, KernelParam)]
pub struct Affine {
    /// The slope.
    pub scale: f64,
    /// The value at 0.
    pub offset: f32,
    /// How often.
    pub times: u32,
}

/// How points are moved; `repr(C)` has padding in it.
#[repr(C)]
#[derive(Clone, Copy, KernelParam)]
pub struct Motion {
    /// Whether the axes change places.
    pub swap: bool,
    /// By how much.
    pub by: [f64; 2],
    /// How far, and how often.
    pub scale: (f32, u8),
}

/// Weighs the elements by turns, of which the first is number `first.0`, if `first.1`, moves pairs of them, and adds the
/// last weight: arrays, tuples and truth values as parameters.
#[kernel]
pub fn compound_parameters(
    x: &[f64],
    weights: [f32; 5],
    first: (u32, bool),
    on: bool,
    motion: Motion,
    none: [u16; 0],
    out: SliceMut<'_, f64>,
) {
    let i = thread::index_1d();
    if i >= out.len() || !on || !none.is_empty() {
        return;
    }
    let from = if motion.swap { i ^ 1 } else { i };
    let start = if first.1 { first.0 as usize } else { 0 };
    let mut value = x[from] * f64::from(weights[(i + start) % weights.len()]);
    for _ in 0..motion.scale.1 {
        value = value * f64::from(motion.scale.0) + motion.by[i % 2];
    }
    out.set(i, value + f64::from(weights[4]));
}

/// Applies `affine` so many times as it says; parameters of many sizes side by side.
#[kernel]
pub fn parameters(a: u8, affine: Affine, x: &[f64], b: i16, c: i64, out: SliceMut<'_, f64>) {
    let i = thread::index_1d();
    if i < out.len() {
        let mut value = x[i];
        for _ in 0..affine.times {
            value = value * affine.scale + f64::from(affine.offset);
        }
        out.set(i, value + f64::from(a) + f64::from(b) + c as f64);
    }
}

/// Looks up tables in constant memory, by places that only the launch knows; `none` is not passed.
#[kernel]
pub fn tables(
    none: Constant<'_, u64, 0>,
    colours: Constant<'_, [u8; 3], 5>,
    start: usize,
    weights: Constant<'_, f64, 300>,
    out: SliceMut<'_, f64>,
) {
    let i = thread::index_1d();
    if i < out.len() && none.is_empty() {
        let [r, g, b] = colours.get((start + i) % colours.len());
        let sum = u32::from(r) + 256 * (u32::from(g) + 256 * u32::from(b));
        // SAFETY: less than 300.
        let last = unsafe { weights.get_unchecked(299 - i % 300) };
        out.set(i, f64::from(sum) * weights.get(start) + last);
    }
}

/// # Safety
///
/// `x` has at least as many elements as the grid has threads.
#[kernel]
pub unsafe fn unchecked_copy(x: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    // SAFETY: the caller's promise.
    out.set(i, unsafe { *x.get_unchecked(i) });
}
