// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit floats on the tensor cores of Ada and later, scaled: `C ← s_a s_b A B`, in f32.
//!
//! The block is that of [`gemm_mma`](super::gemm_mma()), with a tile of 128 × 128 shared out among eight warps of 64 × 32, and 64
//! of k in a stage; an instruction takes 32 of k (`mma.sync.m16n8k32`). Both operands lie along k: `ldmatrix` transposes no bytes.
//!
//! The sums are on two levels, as those of [`gemm_fp8`](crate::matmul::wgmma::fp8::gemm_fp8()): after each 128 of k they are
//! added to others in f32, times the scales of blocks, and begin from zero. So tiles of warps are narrow.

use bytemuck::Pod;
use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::prelude::*;

use super::store::Result;
use super::{Block, MmaShape, Multiply, Narrow, Sums, threads_of};
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;
use crate::matmul::wgmma::Factors;
use crate::matmul::wgmma::fp8::{SCALE_BLOCK, ScalePlan, Scales};

/// Columns of a block's tile: those of a block of scales of `B`.
pub const COLUMNS: usize = SCALE_BLOCK;

/// `C ← A B` for each product of the batch, of scaled operands.
///
/// # Safety
///
/// As [`gemm_mma`](super::gemm_mma()) with tiles of [`COLUMNS`], where a block has [`threads_of`] narrow warps and
/// [`shared_bytes_of`](super::shared_bytes_of) their bytes; both operands lie along k. The scales are as [`ScalePlan::fits`]
/// says.
#[kernel(
    T = [F8E4M3], U = [F8E4M3, F8E5M2];
    T = [F8E5M2], U = [F8E4M3],
    arch = "sm_89",
    max_threads = threads_of::<Narrow>(COLUMNS),
    min_blocks = 1,
)]
pub unsafe fn gemm_fp8_mma<T: Pod, U: Pod>(
    a: &[u8],
    b: &[u8],
    c: SliceMut<'_, f32>,
    shape: MmaShape,
    scales: ScalePlan,
    a_scales: &[f32],
    b_scales: &[f32],
) where
    (T, U): Multiply<Narrow, Element = u8, Sum = f32>,
{
    let block = Block::<(T, U), COLUMNS, Narrow>::new(a, b, shape);
    // SAFETY: the kernel's contract.
    let sums = unsafe { block.scaled_sums(Scales::new(scales, a_scales, b_scales)) };
    // SAFETY: the kernel's contract; the stages are done with.
    unsafe { block.store(&sums, Result::plain(c)) };
}

impl<T: Multiply<Narrow, Element = u8, Sum = f32>> Block<T, COLUMNS, Narrow> {
    /// This lane's part of the tile, on two levels, and scaled.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn scaled_sums(&self, scales: Scales<'_>) -> Sums<f32> {
        const BLOCK: u32 = SCALE_BLOCK as u32;
        let mut sums = [[[0.0; 4]; 8]; 4];
        // SAFETY: the kernel's contract.
        let part = unsafe {
            self.sums_by::<true, true>(|k, part| {
                if k > 0 && k.is_multiple_of(BLOCK) {
                    self.add(part, k / BLOCK - 1, scales, &mut sums);
                    *part = [[[0.0; 4]; 8]; 4];
                }
            })
        };
        // SAFETY (of both): the kernel's contract.
        unsafe {
            self.add(&part, (self.shape.k - 1) / BLOCK, scales, &mut sums);
            self.scale(&mut sums, scales);
        }
        sums
    }

    /// Where the lane's first element of group `i` of 16 rows is; its columns are from another multiple of 8 on.
    #[inline(always)]
    fn place(&self, i: usize) -> Tile {
        let lane = thread::thread_idx_x() % 32;
        let [row, column] = Self::warp_place();
        Tile {
            row: self.tile.row + row + 16 * i as u32 + lane / 4,
            column: self.tile.column + column + lane % 4 * 2,
            ..self.tile
        }
    }

    /// Adds the sums of a block of k, times its scales, if it has any.
    ///
    /// # Safety
    ///
    /// The kernel's contract, for a block that there is.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn add(&self, part: &Sums<f32>, block: u32, scales: Scales<'_>, sums: &mut Sums<f32>) {
        unroll!(4, i => {
            let mut factors = [1.0; 2];
            if scales.by_blocks() {
                let at = Tile { column: self.tile.column, ..self.place(i) };
                // SAFETY: the caller's promise; the tile has columns.
                factors = unsafe { scales.of_stage(at, self.shape.m, block as usize) }.factors();
            }
            Self::add_rows(&part[i], factors, &mut sums[i]);
        });
    }

    /// Adds the sums of a group of 16 rows, times factors of the lane's two rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_rows(part: &[[f32; 4]; 8], factors: [f32; 2], sums: &mut [[f32; 4]; 8]) {
        unroll!(4, j => {
            unroll!(4, e => {
                sums[j][e] = Float::mul_add(part[j][e], factors[e / 2], sums[j][e]);
            });
        });
    }

    /// Multiplies with the scales that are not of blocks: of rows or all of `A`, then of `B`, one after the other, since the
    /// product of both could be beyond the range of `f32` where the result is not.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[inline(always)]
    unsafe fn scale(&self, sums: &mut Sums<f32>, scales: Scales<'_>) {
        unroll!(4, i => {
            // SAFETY: the kernel's contract.
            unsafe { self.scale_rows(self.place(i), &mut sums[i], scales) };
        });
    }

    /// Multiplies the sums of a group of 16 rows, of which the lane's first is at that place.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn scale_rows(&self, at: Tile, sums: &mut [[f32; 4]; 8], scales: Scales<'_>) {
        let MmaShape { m, n, .. } = self.shape;
        // SAFETY (of both): the kernel's contract.
        let (of_a, of_b) = unsafe { (scales.of_a(at, m), scales.of_b(at.product)) };
        let (of_a, of_b) = (of_a.unwrap_or([1.0; 2]), of_b.unwrap_or(1.0));
        unroll!(4, j => {
            let scaled: [f32; 4] = cuda_std::array::from_fn(|e| sums[j][e] * of_a[e / 2] * of_b);
            let place = [at.product, at.row, at.column + 8 * j as u32];
            sums[j] = scales.multiply(scaled, place, [m, n]);
        });
    }
}
