// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f16` on the tensor cores of Turing, which later ones have too.
//!
//! The block is that of [`gemm_mma`](super::gemm_mma()), with a tile of 128 × 128 shared out among eight warps of 64 × 32.
//! Turing copies by way of registers: a thread loads its pieces of the stage after the next while it multiplies, and puts
//! them into shared memory a stage later, so that two stages are enough. Its instruction takes 8 of k (`mma.sync.m16n8k8`).

use cuda_std::half::f16;
use cuda_std::prelude::*;

use super::{MmaShape, Output, Turing, gemm_mma_with, threads_of};
use crate::matmul::epilogue::EpiloguePlan;

/// Columns of a block's tile.
pub const COLUMNS: usize = 128;

/// [`gemm_mma`](super::gemm_mma()), by Turing's instructions.
///
/// # Safety
///
/// As [`gemm_mma`](super::gemm_mma()) with tiles of [`COLUMNS`], where a block has [`threads_of`] Turing's threads and
/// [`shared_bytes_of`](super::shared_bytes_of) Turing's bytes.
#[kernel(C = [f16, f32], arch = "sm_75", max_threads = threads_of::<Turing>(COLUMNS), min_blocks = 1)]
pub unsafe fn gemm_turing<C: Output>(
    a: &[f16],
    b: &[f16],
    c: SliceMut<'_, C>,
    shape: MmaShape,
    alpha: f32,
    beta: f32,
    plan: EpiloguePlan,
    bias: &[C],
    residual: &[C],
) {
    // SAFETY: the kernel's contract.
    unsafe { gemm_mma_with::<f16, C, _, COLUMNS, Turing>(a, b, c, shape, alpha, beta, plan, bias, residual) };
}
