// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of the exercises' solutions.

use cuda_std::prelude::*;

// ANCHOR: reverse
/// The elements from the last to the first.
#[kernel]
pub fn reverse(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x[x.len() - 1 - i]);
    }
}
// ANCHOR_END: reverse

// ANCHOR: checkerboard
/// A board of fields that are `size` pixels wide and high: 0 and 255 in turns.
#[kernel]
pub fn checkerboard(width: usize, size: usize, out: SliceMut<'_, u8>) {
    let (row, column) = thread::index_2d();
    let i = row * width + column;
    if column < width && i < out.len() {
        let is_white = (row / size + column / size).is_multiple_of(2);
        out.set(i, if is_white { 255 } else { 0 });
    }
}
// ANCHOR_END: checkerboard

// ANCHOR: planes
/// Splits points (x, y, z), one behind the other, into a row of all x, one of all y and one of all z: a thread for each
/// number that is written, so that neighbours write neighbours.
#[kernel]
pub fn split_points(points: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let count = out.len() / 3;
    if i < 3 * count {
        let (axis, point) = (i / count, i % count);
        out.set(i, points[3 * point + axis]);
    }
}
// ANCHOR_END: planes

// ANCHOR: neighbours
pub const THREADS: usize = 128;

/// The mean of each element and its two neighbours; the ends are their own neighbours. Each element is read from global
/// memory once, but for those at the edges of blocks.
#[kernel(max_threads = THREADS)]
pub fn smooth(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; THREADS + 2];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    let last = x.len() - 1;
    tile.set(t + 1, x[i.min(last)]);
    if t == 0 {
        tile.set(0, x[i.saturating_sub(1).min(last)]);
    }
    if t == THREADS - 1 {
        tile.set(THREADS + 1, x[(i + 1).min(last)]);
    }
    thread::sync_threads();
    if i < out.len() {
        out.set(i, (tile.get(t) + tile.get(t + 1) + tile.get(t + 2)) / 3.0);
    }
}
// ANCHOR_END: neighbours

// ANCHOR: maximum
/// The maximum of each 32 elements, in all of the warp's lanes.
#[kernel]
pub fn warp_maxima(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let mut most = if i < x.len() { x[i] } else { f32::NEG_INFINITY };
    for distance in [16, 8, 4, 2, 1] {
        most = most.max(warp::shuffle_xor(warp::FULL_MASK, most, distance));
    }
    if i < out.len() {
        out.set(i, most);
    }
}
// ANCHOR_END: maximum

// ANCHOR: letters
/// How often each letter from a to z is there: counted in shared memory, and added to `counts` once for each block.
#[kernel]
pub fn count_letters(text: &[u8], counts: SliceMut<'_, u32>) {
    let block = shared_array![u32; 26];
    let t = thread::thread_idx_x() as usize;
    if t < 26 {
        block.set(t, 0);
    }
    thread::sync_threads();
    let i = thread::index_1d();
    if i < text.len() && text[i].is_ascii_lowercase() {
        block.atomic((text[i] - b'a') as usize).fetch_add(1);
    }
    thread::sync_threads();
    if t < 26 {
        counts.atomic(t).fetch_add(block.get(t));
    }
}
// ANCHOR_END: letters

// ANCHOR: branch
pub const BLOCK: usize = 256;

/// A barrier in the branch.
#[kernel(max_threads = BLOCK)]
pub fn stuck_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; BLOCK];
    let t = thread::thread_idx_x() as usize;
    tile.set(t, x[thread::index_1d()]);
    thread::sync_threads();
    let mut half = BLOCK / 2;
    while half > 0 {
        if t < half {
            tile.set(t, tile.get(t) + tile.get(t + half));
            thread::sync_threads();
        }
        half /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, tile.get(0));
    }
}
// ANCHOR_END: branch

// ANCHOR: blur_rows
/// The mean of the `2 * radius + 1` numbers around each one in its row; beyond the ends are the numbers at the ends.
#[kernel]
pub fn blur_rows(columns: usize, radius: usize, x: &[f32], out: SliceMut<'_, f32>) {
    let (row, column) = thread::index_2d();
    if column >= columns || row * columns >= out.len() {
        return;
    }
    let mut sum = 0.0;
    for d in 0..=2 * radius {
        let near = (column + d).saturating_sub(radius).min(columns - 1);
        sum += x[row * columns + near];
    }
    out.set(row * columns + column, sum / (2 * radius + 1) as f32);
}
// ANCHOR_END: blur_rows

// ANCHOR: compact
/// Writes the elements that are kept to their places, which an exclusive scan of `keep` has found.
#[kernel]
pub fn scatter_kept(x: &[f32], keep: &[u64], place: &[u64], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < x.len() && keep[i] == 1 {
        out.set(place[i] as usize, x[i]);
    }
}
// ANCHOR_END: compact
