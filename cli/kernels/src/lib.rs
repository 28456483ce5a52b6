// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels that the program `warpsmith` has beside those of the library, for `warpsmith bench` to measure: a function
//! of one's own, as `DeviceArray::map_with` takes it, and a kernel whose blocks meet.
#![no_std]

use cuda_block::storage;
use cuda_std::Float;
use cuda_std::prelude::*;

kernels_gpu::elementwise! {
    /// `2 tanh(x) + 1`, in one pass.
    pub fn tanh_affine(x: f32) -> f32 {
        Float::mul_add(Float::tanh(x), 2.0, 1.0)
    }
}

/// Threads of a block of [`add_sum`](fn@add_sum).
pub const THREADS: usize = 256;

/// Adds the sum of all elements to each, wrapping: a sum and a map in one launch, whose blocks meet between the two. `sums`
/// has an element for each block, `out` as many as `x`.
#[kernel(max_threads = THREADS)]
pub fn add_sum(grid: GridBarrier<'_>, x: &[u32], sums: SliceMut<'_, u32>, out: SliceMut<'_, u32>) {
    let (block, t) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let (first, threads) = (block * THREADS + t, thread::grid_dim_x() as usize * THREADS);
    let share = (first..x.len())
        .step_by(threads)
        .fold(0, |sum: u32, i| sum.wrapping_add(x[i]));
    let (sum, _) = storage![u32; 8].reduce::<THREADS>(share, 0, u32::wrapping_add);
    if let Some(sum) = sum {
        sums.set(block, sum);
    }
    grid.sync();
    let share = (t..sums.len())
        .step_by(THREADS)
        .fold(0, |sum: u32, i| sum.wrapping_add(sums.get(i)));
    let (total, _) = storage![u32; 8].all_reduce::<THREADS>(share, 0, u32::wrapping_add);
    (first..x.len())
        .step_by(threads)
        .for_each(|i| out.set(i, x[i].wrapping_add(total)));
}
