// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit integers on the tensor cores of Ampere and later, and of Turing, summed in i32.
//!
//! The block is that of [`gemm_mma`](super::gemm_mma()), with a tile of 128 × 128, on Ampere and later also of 64 × 64, and 64 of k
//! in a stage; an instruction takes 32 of k. Both operands lie along k: `ldmatrix` transposes no bytes. Sums are exact modulo 2^32.

use cuda_std::prelude::*;

use super::{Ampere, MmaShape, Turing, blocks, gemm_mma_with, threads, threads_of};
use crate::matmul::epilogue::{Activation, EpiloguePlan};

/// Columns of a block's tile on Turing.
pub const COLUMNS: usize = 128;

/// `C ← A B` for each product of the batch.
///
/// # Safety
///
/// As [`gemm_mma`](super::gemm_mma()); both operands lie along k.
#[kernel(COLUMNS = [64, 128], arch = "sm_80", max_threads = threads(COLUMNS), min_blocks = blocks(COLUMNS))]
pub unsafe fn gemm_int8_mma<const COLUMNS: usize>(a: &[u8], b: &[u8], c: SliceMut<'_, i32>, shape: MmaShape) {
    let plain = EpiloguePlan::<Activation>::default();
    // SAFETY: the kernel's contract; there are no addends.
    unsafe { gemm_mma_with::<i8, i32, _, COLUMNS, Ampere>(a, b, c, shape, 1, 0, plain, &[], &[]) };
}

/// [`gemm_int8_mma()`], by Turing's instructions.
///
/// # Safety
///
/// The same, with tiles of [`COLUMNS`].
#[kernel(arch = "sm_75", max_threads = threads_of::<Turing>(COLUMNS), min_blocks = 1)]
pub unsafe fn gemm_int8_turing(a: &[u8], b: &[u8], c: SliceMut<'_, i32>, shape: MmaShape) {
    let plain = EpiloguePlan::<Activation>::default();
    // SAFETY: the kernel's contract; there are no addends.
    unsafe { gemm_mma_with::<i8, i32, _, COLUMNS, Turing>(a, b, c, shape, 1, 0, plain, &[], &[]) };
}
