// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses whose requests, sectors and bank conflicts the simulated GPU counts, and a GPU's profiler.

use cuda_std::prelude::*;

/// Threads of a block in these kernels.
pub const BLOCK: usize = 64;

/// Elements of the shared arrays, of 4, 8 and 16 bytes.
const TILE: usize = 1024;

/// Thread `t`'s element: neighbours `group` by `group` have the same, and the next ones that `stride` further on.
#[kernel]
pub fn read_global(stride: u32, group: u32, offset: u32, x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, x[i / group as usize * stride as usize + offset as usize]);
}

/// The same of four neighbours.
#[kernel]
pub fn read_global_quads(stride: u32, group: u32, x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let [a, b, c, d] = x.load_vec::<4>(4 * (i / group as usize * stride as usize));
    out.set(i, (a + b) + (c + d));
}

/// The same of pairs, written.
#[kernel]
pub fn write_global_pairs(stride: u32, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set_vec::<2>(2 * i * stride as usize, [i as f32, 1.0]);
}

/// Of bytes.
#[kernel]
pub fn read_global_bytes(stride: u32, x: &[u8], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, f32::from(x[i * stride as usize]));
}

/// Lanes below `lanes` alone.
#[kernel]
pub fn read_by_some(lanes: u32, x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if warp::lane_id() < lanes {
        out.set(i, x[i]);
    }
}

/// Shared memory, 4 bytes a thread.
#[kernel(max_threads = BLOCK)]
pub fn read_shared(stride: u32, group: u32, out: SliceMut<'_, f32>) {
    let tile = shared_array![u32; TILE];
    let t = thread::thread_idx_x() as usize;
    for k in 0..TILE / BLOCK {
        tile.set(BLOCK * k + t, (k + t) as u32);
    }
    thread::sync_threads();
    let value = tile.get(t / group as usize * stride as usize % TILE);
    out.set(thread::index_1d(), value as f32);
}

/// 8 bytes a thread.
#[kernel(max_threads = BLOCK)]
pub fn read_shared_pairs(stride: u32, group: u32, out: SliceMut<'_, f32>) {
    let tile = shared_array![u64; TILE];
    let t = thread::thread_idx_x() as usize;
    for k in 0..TILE / BLOCK {
        tile.set(BLOCK * k + t, (k + t) as u64);
    }
    thread::sync_threads();
    let value = tile.get(t / group as usize * stride as usize % TILE);
    out.set(thread::index_1d(), value as f32);
}

/// 16 bytes a thread.
#[kernel(max_threads = BLOCK)]
pub fn read_shared_quads(stride: u32, group: u32, out: SliceMut<'_, f32>) {
    let tile = shared_array![u32; 4 * TILE / 2].aligned::<16>();
    let t = thread::thread_idx_x() as usize;
    for k in 0..TILE / 2 / BLOCK {
        tile.set_vec::<4>(4 * (BLOCK * k + t), [k as u32, t as u32, 1, 2]);
    }
    thread::sync_threads();
    let [a, b, c, d] = tile.get_vec::<4>(t / group as usize * stride as usize * 4 % (2 * TILE));
    out.set(thread::index_1d(), ((a + b) + (c + d)) as f32);
}

/// Written with a stride.
#[kernel(max_threads = BLOCK)]
pub fn write_shared(stride: u32, out: SliceMut<'_, f32>) {
    let tile = shared_array![u32; 2 * TILE + 64];
    let t = thread::thread_idx_x() as usize;
    tile.set(t * stride as usize, t as u32);
    thread::sync_threads();
    out.set(thread::index_1d(), tile.get(t * stride as usize) as f32);
}

/// Threads count in `places` places.
#[kernel]
pub fn count_global(places: u32, counts: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    counts.atomic(i % places as usize).fetch_add(i as u32);
}

/// Transposes a square of 64 by 64, a column of it for each block.
#[kernel]
pub fn transpose(x: &[f32], out: SliceMut<'_, f32>) {
    let (row, column) = (thread::thread_idx_x() as usize, thread::block_idx_x() as usize);
    for k in 0..BLOCK / 2 {
        let column = column * BLOCK / 2 + k;
        out.set(column * BLOCK + row, x[row * BLOCK + column]);
    }
}

/// Lane `l`'s element of its warp's 1024: number `l · step % 256`.
#[kernel]
pub fn gather(step: u32, x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, x[i / 32 * 1024 + (warp::lane_id() * step % 256) as usize]);
}

/// Neighbours in reverse.
#[kernel]
pub fn read_reversed(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, x[i ^ 31]);
}

/// A tile for each warp, `width` elements wide, of rows of `pitch`.
#[kernel]
pub fn read_tile(width: u32, pitch: u32, x: &[f32], out: SliceMut<'_, f32>) {
    let (i, lane) = (thread::index_1d(), warp::lane_id());
    out.set(i, x[i / 32 * 1024 + (lane / width * pitch + lane % width) as usize]);
}

/// Pairs, `stride` pairs apart.
#[kernel]
pub fn read_global_pairs(stride: u32, x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let [a, b] = x.load_vec::<2>(2 * i * stride as usize);
    out.set(i, a + b);
}

/// Numbers of 16 bits.
#[kernel]
pub fn read_global_halves(stride: u32, x: &[u16], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, f32::from(x[i * stride as usize]));
}

/// Bytes, written.
#[kernel]
pub fn write_global_bytes(stride: u32, out: SliceMut<'_, u8>) {
    let i = thread::index_1d();
    out.set(i * stride as usize, i as u8);
}

/// Threads count at places that are `step` apart, each warp in 1024 of its own.
#[kernel]
pub fn count_apart(step: u32, counts: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    let place = i / 32 * 1024 + (warp::lane_id() * step) as usize;
    counts.atomic(place).fetch_max(i as u32);
}

/// Shared memory, a byte a thread.
#[kernel(max_threads = BLOCK)]
pub fn read_shared_bytes(stride: u32, out: SliceMut<'_, f32>) {
    let tile = shared_array![u8; TILE];
    let t = thread::thread_idx_x() as usize;
    for k in 0..TILE / BLOCK {
        tile.set(BLOCK * k + t, (k + t) as u8);
    }
    thread::sync_threads();
    out.set(thread::index_1d(), f32::from(tile.get(t * stride as usize % TILE)));
}

/// A column of a tile of 32 by 32 whose rows are permuted.
#[kernel(max_threads = BLOCK)]
pub fn read_shared_swizzled(column: u32, out: SliceMut<'_, f32>) {
    let tile = shared_array![u32; TILE];
    let t = thread::thread_idx_x() as usize;
    for k in 0..TILE / BLOCK {
        tile.set(BLOCK * k + t, (k + t) as u32);
    }
    thread::sync_threads();
    let lane = warp::lane_id();
    let value = tile.get((lane * 32 + (lane ^ column)) as usize);
    out.set(thread::index_1d(), value as f32);
}

/// Odd lanes alone.
#[kernel(max_threads = BLOCK)]
pub fn read_shared_by_odd_lanes(stride: u32, out: SliceMut<'_, f32>) {
    let tile = shared_array![u32; TILE];
    let t = thread::thread_idx_x() as usize;
    for k in 0..TILE / BLOCK {
        tile.set(BLOCK * k + t, (k + t) as u32);
    }
    thread::sync_threads();
    if t % 2 == 1 {
        out.set(thread::index_1d(), tile.get(t * stride as usize % TILE) as f32);
    }
}

/// Written, 16 bytes a thread.
#[kernel(max_threads = BLOCK)]
pub fn write_shared_quads(stride: u32, out: SliceMut<'_, f32>) {
    let tile = shared_array![u32; 4 * TILE].aligned::<16>();
    let t = thread::thread_idx_x();
    let first = 4 * (t * stride) as usize;
    tile.set_vec::<4>(first, [t, 1, 2, 3]);
    thread::sync_threads();
    out.set(thread::index_1d(), tile.get(first) as f32);
}
