// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transpose of a matrix: one of its two sides is accessed along columns, unless a tile in shared memory turns it.
//! Grids are of two dimensions over the input, in blocks of [`EDGE`] × [`ROWS`] threads.

use cuda_std::prelude::*;

/// Rows and columns of a tile.
pub const EDGE: usize = 32;

/// Rows of threads in a block: each thread has `EDGE / ROWS` elements of a tile.
pub const ROWS: usize = 8;

/// Where the thread's first element is in the tile, and where the tile is in the matrix: rows, columns.
fn place() -> ([usize; 2], [usize; 2]) {
    let (thread, block) = (thread::thread_idx(), thread::block_idx());
    let tile = [block.y as usize * EDGE, block.x as usize * EDGE];
    ([thread.y as usize, thread.x as usize], tile)
}

// ANCHOR: naive
/// Each element is read from its row and written to its column: neighbouring threads write `rows` elements apart.
#[kernel(max_threads = EDGE * ROWS)]
pub fn transpose_naive(rows: usize, columns: usize, x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let ([y, column_in_tile], tile) = place();
    let column = tile[1] + column_in_tile;
    for row in (tile[0] + y..tile[0] + EDGE).step_by(ROWS) {
        if row < rows && column < columns {
            out.set(column * rows + row, x.get(row * columns + column));
        }
    }
}
// ANCHOR_END: naive

// ANCHOR: tiled
/// The block reads a tile by rows and writes the turned tile by rows; between the two it lies in shared memory. There
/// the lanes of a warp read along a column, whose words are all in one bank.
#[kernel(max_threads = EDGE * ROWS)]
pub fn transpose_tiled(rows: usize, columns: usize, x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let memory = shared_array![f32; EDGE * EDGE];
    let ([y, x_in_tile], tile) = place();
    for row in (y..EDGE).step_by(ROWS) {
        if tile[0] + row < rows && tile[1] + x_in_tile < columns {
            let element = x.get((tile[0] + row) * columns + tile[1] + x_in_tile);
            memory.set(row * EDGE + x_in_tile, element);
        }
    }
    thread::sync_threads();
    for row in (y..EDGE).step_by(ROWS) {
        if tile[1] + row < columns && tile[0] + x_in_tile < rows {
            let element = memory.get(x_in_tile * EDGE + row);
            out.set((tile[1] + row) * rows + tile[0] + x_in_tile, element);
        }
    }
}
// ANCHOR_END: tiled

// ANCHOR: padded
/// Words from a row of the padded tile to the next.
const PITCH: usize = EDGE + 1;

/// The same with one word more in each row of the tile: the words of a column then lie in 32 different banks.
#[kernel(max_threads = EDGE * ROWS)]
pub fn transpose_padded(rows: usize, columns: usize, x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    let memory = shared_array![f32; EDGE * PITCH];
    let ([y, x_in_tile], tile) = place();
    for row in (y..EDGE).step_by(ROWS) {
        if tile[0] + row < rows && tile[1] + x_in_tile < columns {
            let element = x.get((tile[0] + row) * columns + tile[1] + x_in_tile);
            memory.set(row * PITCH + x_in_tile, element);
        }
    }
    thread::sync_threads();
    for row in (y..EDGE).step_by(ROWS) {
        if tile[1] + row < columns && tile[0] + x_in_tile < rows {
            let element = memory.get(x_in_tile * PITCH + row);
            out.set((tile[1] + row) * rows + tile[0] + x_in_tile, element);
        }
    }
}
// ANCHOR_END: padded
