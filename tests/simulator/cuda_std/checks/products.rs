// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warpgroup.

use cuda_std::half::bf16;
use cuda_std::prelude::*;

use crate::checks::corpus::products as kernels;

crate::corpus_products! { crate::checks::cases }

/// Products alone may read the same tile at the same time, those of two warpgroups, too.
#[test]
fn operands_are_read_by_several() {
    use cuda_std::wgmma::{Accumulator, KMajor, MatrixDescriptor};

    let fault = crate::checks::run((1, 256, false), cuda_sim::Checks::ALL, |out| {
        let tile = shared_array![bf16; 64 * 64 + 512].aligned::<1024>();
        let me = thread::thread_idx_x() as usize;
        (0..16).for_each(|i| tile.set(256 * i + me, bf16::ONE));
        cuda_std::tma::fence_async();
        thread::sync_threads();
        let matrix = MatrixDescriptor::<bf16, KMajor>::new(tile, 16, 1024);
        // SAFETY: the tile is written, and stays as it is until the wait.
        let sum = unsafe { Accumulator::<32>::zero().start().mma(matrix, matrix) }.commit();
        let read = tile.get(me).to_f32() as u32;
        let sum = sum.wait();
        out.set(me, read + sum.get::<0>() as u32);
        thread::sync_threads();
        tile.set(me, bf16::ZERO);
    });
    assert_eq!(fault, None);
}
