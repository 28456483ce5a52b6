// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters that no launch can have.

use cuda_std::prelude::*;

#[kernel(cluster = 16)]
pub fn of_too_many_blocks(out: SliceMut<'_, f32>) {
    out.set(0, 0.0);
}

#[kernel(cluster = (2, 0))]
pub fn of_no_blocks(out: SliceMut<'_, f32>) {
    out.set(0, 0.0);
}

#[kernel(cluster = 2)]
pub fn beside_a_grid_barrier(grid: GridBarrier<'_>) {
    grid.sync();
}

fn main() {}
