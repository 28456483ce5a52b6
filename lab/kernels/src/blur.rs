// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mean of the 5 × 5 pixels around each one, of a picture in shades of gray. At the edge, the picture goes on as its
//! nearest pixel. Grids are of two dimensions, in blocks of [`COLUMNS`] × [`ROWS`] threads.

use cuda_std::prelude::*;

/// Threads of a block in a row.
pub const COLUMNS: usize = 32;

/// Rows of threads of a block.
pub const ROWS: usize = 8;

/// Pixels on each side.
pub const RADIUS: usize = 2;

/// Pixels in a mean.
const PIXELS: f32 = ((2 * RADIUS + 1) * (2 * RADIUS + 1)) as f32;

// ANCHOR: naive
/// Each thread reads its 25 pixels from global memory.
#[kernel(max_threads = COLUMNS * ROWS)]
pub fn blur_naive(rows: usize, columns: usize, x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let (row, column) = thread::index_2d();
    if row >= rows || column >= columns {
        return;
    }
    let mut sum = 0.0;
    for dy in 0..=2 * RADIUS {
        for dx in 0..=2 * RADIUS {
            let y = (row + dy).saturating_sub(RADIUS).min(rows - 1);
            let x_of = (column + dx).saturating_sub(RADIUS).min(columns - 1);
            sum += x.get(y * columns + x_of);
        }
    }
    out.set(row * columns + column, sum / PIXELS);
}
// ANCHOR_END: naive

// ANCHOR: tiled
/// Columns and rows of a block's tile: its own pixels, and those around them.
const WIDTH: usize = COLUMNS + 2 * RADIUS;
const HEIGHT: usize = ROWS + 2 * RADIUS;

/// A block loads what its threads need between them, once, into shared memory.
#[kernel(max_threads = COLUMNS * ROWS)]
pub fn blur_tiled(rows: usize, columns: usize, x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; WIDTH * HEIGHT];
    let (row, column) = thread::index_2d();
    let (y, x_in_block) = (thread::thread_idx_y() as usize, thread::thread_idx_x() as usize);
    let (top, left) = (row - y, column - x_in_block);
    for i in (y * COLUMNS + x_in_block..WIDTH * HEIGHT).step_by(COLUMNS * ROWS) {
        let from_row = (top + i / WIDTH).saturating_sub(RADIUS).min(rows - 1);
        let from_column = (left + i % WIDTH).saturating_sub(RADIUS).min(columns - 1);
        tile.set(i, x.get(from_row * columns + from_column));
    }
    thread::sync_threads();
    if row >= rows || column >= columns {
        return;
    }
    let mut sum = 0.0;
    for dy in 0..=2 * RADIUS {
        for dx in 0..=2 * RADIUS {
            sum += tile.get((y + dy) * WIDTH + x_in_block + dx);
        }
    }
    out.set(row * columns + column, sum / PIXELS);
}
// ANCHOR_END: tiled
