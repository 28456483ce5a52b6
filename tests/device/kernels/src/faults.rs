// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that fail.

use cuda_std::prelude::*;

/// Thread 37 of the grid panics.
#[kernel]
pub fn panics(out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    assert!(i != 37, "thread 37 gives up");
    out.set(i, 1);
}

/// Reads one past the end.
#[kernel]
pub fn out_of_bounds(x: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    out.set(i, x[i + 1]);
}

/// Block 0 of a cluster reads the shared memory of block 1 when that has long ended.
#[kernel(cluster = 2)]
pub fn reads_of_a_block_that_has_ended(out: SliceMut<'_, u32>) {
    let word = shared_array![u32; 1];
    word.set(0, 7);
    cuda_std::cluster::sync();
    if cuda_std::cluster::block_rank() == 0 {
        for _ in 0..100 {
            thread::nanosleep(1_000_000);
        }
        out.set(0, word.map_shared_rank(1).get(0));
    }
}

/// Gives up at an element that is larger than the number of elements.
#[kernel]
pub fn too_large(x: &[u32]) {
    let i = thread::index_1d();
    if i < x.len() && x[i] as usize > x.len() {
        cuda_std::panic_with("element {} is {}, of {}", [i as i64, -i64::from(x[i]), x.len() as i64]);
    }
}

/// Writes one past the end.
#[kernel]
pub fn set_out_of_bounds(out: SliceMut<'_, u32>) {
    out.set(thread::index_1d() + 1, 1);
}
