// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Memory".

use cuda_std::prelude::*;

// ANCHOR: every
/// Copies every `stride`-th element.
#[kernel]
pub fn copy_every(stride: usize, x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x[i * stride]);
    }
}
// ANCHOR_END: every

// ANCHOR: structures
/// How far points move.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Shift {
    pub x: f32,
    pub y: f32,
    pub z: f32,
}

/// Moves points by `shift`. Their x, y and z are three rows of one array: those of neighbouring points are neighbours.
#[kernel]
pub fn move_points(shift: Shift, points: usize, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < points {
        out.set(i, out.get(i) + shift.x);
        out.set(points + i, out.get(points + i) + shift.y);
        out.set(2 * points + i, out.get(2 * points + i) + shift.z);
    }
}
// ANCHOR_END: structures

// ANCHOR: reverse
pub const THREADS: usize = 64;

/// Reverses each 64 elements, by way of shared memory.
#[kernel(max_threads = THREADS)]
pub fn reverse_blocks(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; THREADS]; // of the block, not of the thread
    let t = thread::thread_idx_x() as usize;
    let i = thread::index_1d();
    tile.set(t, x[i]);
    thread::sync_threads(); // until all 64 have written
    out.set(i, tile.get(THREADS - 1 - t));
}
// ANCHOR_END: reverse
