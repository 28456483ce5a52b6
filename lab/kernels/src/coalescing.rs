// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which addresses the lanes of a warp access together. Memory is fetched in sectors of 32 bytes: a warp that reads 32
//! neighbouring `f32` needs 4 of them, one whose lanes are far apart needs 32 and throws most of each away.

use cuda_std::prelude::*;

// ANCHOR: strided_read
/// `out[i] = x[stride * i]`: neighbouring threads read `stride` elements apart.
#[kernel]
pub fn strided_read(stride: u32, x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x.get(i * stride as usize));
    }
}
// ANCHOR_END: strided_read

// ANCHOR: strided_write
/// `out[stride * i] = x[i]`: they write `stride` elements apart.
#[kernel]
pub fn strided_write(stride: u32, x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < x.len() {
        out.set(i * stride as usize, x.get(i));
    }
}
// ANCHOR_END: strided_write

// ANCHOR: offset_read
/// `out[i] = x[i + offset]`: neighbours, but those of a warp do not begin where a sector begins.
#[kernel]
pub fn offset_read(offset: u32, x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x.get(i + offset as usize));
    }
}
// ANCHOR_END: offset_read

/// The numbers of a particle: its place, its speed, its mass and its charge.
pub const FIELDS: usize = 8;

// ANCHOR: array_of_structures
/// Moves particles along the first axis by `time` times their speed. A particle is [`FIELDS`] numbers in a row, of which
/// number 0 is the place and number 3 the speed.
#[kernel]
pub fn array_of_structures(time: f32, particles: SliceMut<'_, f32>) {
    let i = thread::index_1d() * FIELDS;
    if i < particles.len() {
        let speed = particles.get(i + 3);
        particles.set(i, speed.mul_add(time, particles.get(i)));
    }
}
// ANCHOR_END: array_of_structures

// ANCHOR: structure_of_arrays
/// The same where the places are one array, and the speeds another.
#[kernel]
pub fn structure_of_arrays(time: f32, speeds: Slice<'_, f32>, places: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < places.len() {
        places.set(i, speeds.get(i).mul_add(time, places.get(i)));
    }
}
// ANCHOR_END: structure_of_arrays
