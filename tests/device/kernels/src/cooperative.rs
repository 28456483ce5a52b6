// SPDX-License-Identifier: MIT OR Apache-2.0
//! The barrier of a grid.

use cuda_std::prelude::*;

/// The number of the block in its grid, and of the grid's blocks.
fn block_of_grid() -> (usize, usize) {
    let (block, grid) = (thread::block_idx(), thread::grid_dim());
    let number = block.x + grid.x * (block.y + grid.y * block.z);
    (number as usize, (grid.x * grid.y * grid.z) as usize)
}

/// `out[0]` becomes the sum of `x`: first each block adds up its share into its element of `sums`, then the last block the
/// blocks' sums.
#[kernel]
pub fn sum_in_two_phases(grid: GridBarrier<'_>, x: &[u32], sums: SliceMut<'_, u32>, out: SliceMut<'_, u32>) {
    let (block, blocks) = block_of_grid();
    let (t, threads) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
    if t == 0 {
        sums.set(block, 0);
    }
    thread::sync_threads();
    let mut i = block * threads + t;
    while i < x.len() {
        sums.atomic(block).fetch_add(x[i]);
        i += blocks * threads;
    }
    grid.sync();
    if block == blocks - 1 && t == threads - 1 {
        out.set(0, (0..blocks).map(|block| sums.get(block)).sum());
    }
}

/// So many times, each block adds its neighbour's value of the round before to its own. The values are in the first half
/// of `values` and in the second by turns.
#[kernel]
pub fn add_neighbours(rounds: u32, grid: GridBarrier<'_>, values: SliceMut<'_, u32>) {
    let (block, blocks) = block_of_grid();
    for round in 0..rounds as usize {
        let (from, to) = (round % 2 * blocks, (round + 1) % 2 * blocks);
        if thread::linear_thread_idx() == round as u32 % 32 {
            let neighbour = values.get(from + (block + 1) % blocks);
            values.set(to + block, values.get(from + block).wrapping_add(neighbour));
        }
        grid.sync();
    }
}
