// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indices and barriers.

use cuda_std::prelude::*;

/// Each thread writes its block's and its own position as digits: `bz by bx tz ty tx`, each below 16.
#[kernel]
pub fn positions(out: SliceMut<'_, u32>) {
    let (t, b, n, g) = (
        thread::thread_idx(),
        thread::block_idx(),
        thread::block_dim(),
        thread::grid_dim(),
    );
    let block = b.x + g.x * (b.y + g.y * b.z);
    let i = block * n.x * n.y * n.z + thread::linear_thread_idx();
    let digits = [b.z, b.y, b.x, t.z, t.y, t.x];
    let mut number = 0;
    for digit in digits {
        number = number * 16 + digit;
    }
    out.set(i as usize, number);
}

/// Each element is its row and its column, by a grid that may be smaller than the array.
#[kernel]
pub fn rows_and_columns(columns: usize, out: SliceMut<'_, u64>) {
    let ((first_row, first_column), (rows, columns_at_once)) = (thread::index_2d(), thread::stride_2d());
    let mut row = first_row;
    while row < out.len() / columns {
        let mut column = first_column;
        while column < columns {
            out.set(row * columns + column, (row as u64) << 32 | column as u64);
            column += columns_at_once;
        }
        row += rows;
    }
}

/// For each block: the count, the conjunction and the disjunction of `x[i] > limit` over its threads.
#[kernel]
pub fn votes_of_block(x: &[i32], limit: i32, out: SliceMut<'_, u32>) {
    let above = x[thread::index_1d()] > limit;
    let count = thread::sync_threads_count(above);
    let all = thread::sync_threads_and(above);
    let any = thread::sync_threads_or(above);
    if thread::thread_idx_x() == 0 {
        let block = thread::block_idx_x() as usize;
        out.set(3 * block, count);
        out.set(3 * block + 1, all as u32);
        out.set(3 * block + 2, any as u32);
    }
}

/// The pattern of rust-lang issue 137086: two branches on one condition around a barrier and a shuffle. An optimiser
/// that threads the jump copies both into the branches, where the threads of a warp no longer meet.
#[kernel]
pub fn branches_around_collectives(x: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    let odd = x[i] % 2 == 1;
    let mut value = if odd { x[i] * 3 } else { x[i] + 100 };
    thread::sync_threads();
    let neighbour = warp::shuffle_xor(warp::FULL_MASK, value, 1);
    if odd {
        value += neighbour;
    } else {
        value ^= neighbour;
    }
    out.set(i, value);
}

/// Each block adds its number to the running total that the block before it has published: progress between blocks.
#[kernel]
pub fn chained_blocks(totals: SliceMut<'_, u64>, flags: SliceMut<'_, u32>) {
    let block = thread::block_idx_x() as usize;
    if thread::thread_idx_x() != 0 {
        return;
    }
    let mut total = block as u64;
    if block > 0 {
        while flags.atomic(block - 1).load_acquire() == 0 {
            thread::nanosleep(20);
        }
        total += totals.get(block - 1);
    }
    totals.set(block, total);
    flags.atomic(block).store_release(1);
}

/// A line from each block.
#[kernel]
pub fn hello(x: f32) {
    if thread::thread_idx_x() == 0 {
        cuda_std::println!("hello from block {} with {x:.3}", thread::block_idx_x());
    }
}
