// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefix sums: each block scans its tile, and gives the tile's sum to `sums`; those are scanned in the same way, and
//! [`add_offsets`](fn@add_offsets) adds to each tile what lies before it. So the data are read and written twice, where the library's scan
//! (D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016) does it once.

use cuda_std::prelude::*;

/// Threads of a block, and elements of a tile of [`scan_hillis_steele`](fn@scan_hillis_steele).
pub const THREADS: usize = 256;

/// Elements of a tile of Blelloch's scan.
pub const TILE: usize = 2 * THREADS;

// ANCHOR: hillis_steele
/// In each step every element adds the one `distance` before it (W. Hillis, G. Steele, 1986): n·log n additions. What one
/// step reads another array has than it writes, so that no thread overwrites what its neighbour has yet to read.
#[kernel(max_threads = THREADS)]
pub fn scan_hillis_steele(x: Slice<'_, f32>, out: SliceMut<'_, f32>, sums: SliceMut<'_, f32>) {
    let memory = shared_array![f32; 2 * THREADS];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    let (mut from, mut to) = (0, THREADS);
    memory.set(from + t, if i < x.len() { x.get(i) } else { 0.0 });
    thread::sync_threads();
    let mut distance = 1;
    while distance < THREADS {
        let own = memory.get(from + t);
        let before = if t >= distance {
            memory.get(from + t - distance)
        } else {
            0.0
        };
        memory.set(to + t, before + own);
        thread::sync_threads();
        (from, to) = (to, from);
        distance *= 2;
    }
    let sum = memory.get(from + t);
    if i < out.len() {
        out.set(i, sum);
    }
    if t == THREADS - 1 {
        sums.set(thread::block_idx_x() as usize, sum);
    }
}
// ANCHOR_END: hillis_steele

// ANCHOR: blelloch
/// A tree of sums upwards, and what lies before each of its nodes downwards (G. Blelloch, 1990): 2·n additions, in steps
/// whose words are 2, 4, 8 … apart. `place` says in which word element `i` of the tile lies.
#[inline(always)]
fn blelloch(
    memory: Shared<f32>,
    place: impl Fn(usize) -> usize,
    x: Slice<'_, f32>,
    out: SliceMut<'_, f32>,
    sums: SliceMut<'_, f32>,
) {
    let t = thread::thread_idx_x() as usize;
    let block = thread::block_idx_x() as usize;
    let own = [t, t + THREADS].map(|j| {
        let i = block * TILE + j;
        let element = if i < x.len() { x.get(i) } else { 0.0 };
        memory.set(place(j), element);
        element
    });
    let mut distance = 1;
    while distance < TILE {
        thread::sync_threads();
        let (left, right) = (distance * (2 * t + 1) - 1, distance * (2 * t + 2) - 1);
        if right < TILE {
            memory.set(place(right), memory.get(place(left)) + memory.get(place(right)));
        }
        distance *= 2;
    }
    thread::sync_threads();
    if t == 0 {
        sums.set(block, memory.get(place(TILE - 1)));
        memory.set(place(TILE - 1), 0.0);
    }
    while distance > 1 {
        distance /= 2;
        thread::sync_threads();
        let (left, right) = (distance * (2 * t + 1) - 1, distance * (2 * t + 2) - 1);
        if right < TILE {
            let before = memory.get(place(right));
            memory.set(place(right), before + memory.get(place(left)));
            memory.set(place(left), before);
        }
    }
    thread::sync_threads();
    for (j, own) in [t, t + THREADS].into_iter().zip(own) {
        let i = block * TILE + j;
        if i < out.len() {
            out.set(i, memory.get(place(j)) + own);
        }
    }
}

/// Element `i` in word `i`: in the middle of the tree all lanes of a warp access the same bank.
#[kernel(max_threads = THREADS)]
pub fn scan_blelloch(x: Slice<'_, f32>, out: SliceMut<'_, f32>, sums: SliceMut<'_, f32>) {
    blelloch(shared_array![f32; TILE], |i| i, x, out, sums);
}

/// A word more after every 32.
#[kernel(max_threads = THREADS)]
pub fn scan_blelloch_padded(x: Slice<'_, f32>, out: SliceMut<'_, f32>, sums: SliceMut<'_, f32>) {
    blelloch(shared_array![f32; TILE + TILE / 32], |i| i + i / 32, x, out, sums);
}
// ANCHOR_END: blelloch

// ANCHOR: add_offsets
/// Adds to the elements of each tile but the first what all tiles before it sum up to. `sums` has been scanned.
#[kernel(max_threads = THREADS)]
pub fn add_offsets(tile: usize, sums: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() && i >= tile {
        out.set(i, out.get(i) + sums.get(i / tile - 1));
    }
}
// ANCHOR_END: add_offsets
