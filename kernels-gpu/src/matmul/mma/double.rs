// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f64` on the tensor cores of Ampere and later: of the chips of data centres, which alone have them for it.
//!
//! The block is that of [`gemm_mma`](super::gemm_mma()), with a tile of 128 × 128 shared out among eight warps of 64 × 32, and 8
//! of k in a stage; an instruction takes 8 × 8 and 4 of k (`mma.sync.m8n8k4`). Each element of `C` is a chain of fused
//! multiply-adds in the order of k.

use cuda_std::prelude::*;

use super::{MmaShape, Narrow, gemm_mma_with, threads_of};
use crate::matmul::epilogue::EpiloguePlan;

/// Rows and columns of a block's tile.
pub const SIDE: usize = 128;

/// `C ← f(alpha · A B + beta · C + bias) + residual` for each product of the batch, as [`gemm_mma`](super::gemm_mma()).
///
/// # Safety
///
/// As [`gemm_mma`](super::gemm_mma()) with tiles of [`SIDE`] columns, where a block has [`threads_of`] narrow warps and
/// [`shared_bytes_of`](super::shared_bytes_of) such sums' bytes.
#[kernel(arch = "sm_80", max_threads = threads_of::<Narrow>(SIDE), min_blocks = 1)]
pub unsafe fn gemm_f64_mma(
    a: &[f64],
    b: &[f64],
    c: SliceMut<'_, f64>,
    shape: MmaShape,
    alpha: f64,
    beta: f64,
    plan: EpiloguePlan,
    bias: &[f64],
    residual: &[f64],
) {
    // SAFETY: the kernel's contract.
    unsafe { gemm_mma_with::<f64, f64, _, SIDE, Narrow>(a, b, c, shape, alpha, beta, plan, bias, residual) };
}
