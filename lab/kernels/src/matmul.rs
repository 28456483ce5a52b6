// SPDX-License-Identifier: MIT OR Apache-2.0
//! The product of two square matrices of `n` rows, in steps: what each number that is loaded is good for grows from one
//! multiplication to a tile's edge, and then to a register tile's.
//!
//! Each adds up its products in the order of `k`, by fused multiply-adds, so that all have the same bits.

use cuda_std::array::from_fn;
use cuda_std::prelude::*;

// ANCHOR: by_columns
/// A thread for each element, and neighbouring threads below each other: the lanes of a warp read 32 rows of `a`, and
/// write 32 rows of `out`.
#[kernel(max_threads = 256)]
pub fn matmul_by_columns(n: usize, a: Slice<'_, f32>, b: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let (column, row) = thread::index_2d();
    if row < n && column < n {
        let mut sum = 0.0;
        for k in 0..n {
            sum = a.get(row * n + k).mul_add(b.get(k * n + column), sum);
        }
        out.set(row * n + column, sum);
    }
}
// ANCHOR_END: by_columns

// ANCHOR: by_rows
/// A thread for each element, and neighbouring threads beside each other: a warp reads one number of `a` and a piece of a
/// row of `b`.
#[kernel(max_threads = 256)]
pub fn matmul_by_rows(n: usize, a: Slice<'_, f32>, b: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let (row, column) = thread::index_2d();
    if row < n && column < n {
        let mut sum = 0.0;
        for k in 0..n {
            sum = a.get(row * n + k).mul_add(b.get(k * n + column), sum);
        }
        out.set(row * n + column, sum);
    }
}
// ANCHOR_END: by_rows

/// Rows and columns of a block's tile in [`matmul_tiled`](fn@matmul_tiled).
pub const EDGE: usize = 16;

// ANCHOR: tiled
/// A block loads a tile of each matrix into shared memory, where 16 threads use each number: a sixteenth of the loads.
#[kernel(max_threads = EDGE * EDGE)]
pub fn matmul_tiled(n: usize, a: Slice<'_, f32>, b: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let (a_tile, b_tile) = (shared_array![f32; EDGE * EDGE], shared_array![f32; EDGE * EDGE]);
    let (row, column) = thread::index_2d();
    let (y, x) = (thread::thread_idx_y() as usize, thread::thread_idx_x() as usize);
    let mut sum = 0.0;
    for first in (0..n).step_by(EDGE) {
        // Outside of the matrices are zeros, which change no sum.
        let inside = row < n && first + x < n;
        a_tile.set(y * EDGE + x, if inside { a.get(row * n + first + x) } else { 0.0 });
        let inside = first + y < n && column < n;
        b_tile.set(y * EDGE + x, if inside { b.get((first + y) * n + column) } else { 0.0 });
        thread::sync_threads();
        for k in 0..EDGE {
            sum = a_tile.get(y * EDGE + k).mul_add(b_tile.get(k * EDGE + x), sum);
        }
        // Before the next tiles overwrite what others still read.
        thread::sync_threads();
    }
    if row < n && column < n {
        out.set(row * n + column, sum);
    }
}
// ANCHOR_END: tiled

/// Rows and columns of a block's tile in [`matmul_registers`](fn@matmul_registers).
pub const TILE: usize = 64;

/// Threads of its block.
pub const THREADS: usize = 256;

// ANCHOR: registers
/// How many columns of `a`, and rows of `b`, are in shared memory at a time.
const DEPTH: usize = 16;

/// Words from a row of the tile of `a` to the next: four more than it has, against bank conflicts.
const PITCH: usize = TILE + 4;

/// Each thread computes 4 × 4 elements, which stay in its registers: of 8 numbers that it reads from shared memory it makes
/// 16 products, where the kernel before made one of 2.
#[kernel(max_threads = THREADS)]
pub fn matmul_registers(n: usize, a: Slice<'_, f32>, b: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    // The tile of `a` lies turned, so that what a thread wants of it is four words in a row.
    let (a_tile, b_tile) = (shared_array![f32; DEPTH * PITCH], shared_array![f32; DEPTH * TILE]);
    let (t, block) = (thread::thread_idx_x() as usize, thread::block_idx());
    let (top, left) = (block.y as usize * TILE, block.x as usize * TILE);
    let (y, x) = (t / 16 * 4, t % 16 * 4);
    let or_zero = |matrix: Slice<'_, f32>, row: usize, column: usize| match row < n && column < n {
        true => matrix.get(row * n + column),
        false => 0.0,
    };
    let mut sums = [[0.0f32; 4]; 4];
    for first in (0..n).step_by(DEPTH) {
        for i in (t..DEPTH * TILE).step_by(THREADS) {
            b_tile.set(i, or_zero(b, first + i / TILE, left + i % TILE));
            let (row, k) = (i / DEPTH, i % DEPTH);
            a_tile.set(k * PITCH + row, or_zero(a, top + row, first + k));
        }
        thread::sync_threads();
        for k in 0..DEPTH {
            let a: [f32; 4] = a_tile.get_vec(k * PITCH + y);
            let b: [f32; 4] = b_tile.get_vec(k * TILE + x);
            // Arrays are in registers as long as the compiler knows each index: `from_fn` has no loop that it would
            // have to unroll.
            sums = from_fn(|i| from_fn(|j| a[i].mul_add(b[j], sums[i][j])));
        }
        thread::sync_threads();
    }
    let _: [[(); 4]; 4] = from_fn(|i| {
        from_fn(|j| {
            let (row, column) = (top + y + i, left + x + j);
            if row < n && column < n {
                out.set(row * n + column, sums[i][j]);
            }
        })
    });
}
// ANCHOR_END: registers
