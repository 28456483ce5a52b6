// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit integers on Hopper's tensor cores, summed in i32.
//!
//! The block is that of [`gemm_wgmma`](super::gemm_wgmma()), with 128 of k in a stage; both operands lie along k, since `wgmma`
//! takes bytes in no other way. Sums are exact modulo 2^32.

use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};
use cuda_std::warpgroup;
use cuda_std::wgmma::{Accumulator, Batch, IntegerRegisters, KMajor};

use super::{BOX_M, Block, Place, THREADS, WgmmaShape};
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

/// `C ← A B` for each product of the batch.
///
/// # Safety
///
/// As [`gemm_wgmma`](super::gemm_wgmma()), where both operands lie along k: tiles are 128 × 128 bytes of `a`, and
/// [`tile_n`](super::tile_n) × 128 of `b`.
#[kernel(R = [32, 64, 128], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn gemm_int8<const R: usize>(
    a: TensorMap<'_, u8>,
    b: TensorMap<'_, u8>,
    c: TensorMapMut<'_, i32>,
    shape: WgmmaShape,
) where
    [i32; R]: IntegerRegisters,
{
    // SAFETY: the kernel's contract.
    let block = unsafe { Block::<u8, i32, R>::new(a, b, c, shape.without_parts()) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        block.produce(warp, None);
    } else {
        warpgroup::increase_registers::<232>();
        block.consume_int8(warp - 4);
    }
}

impl<const R: usize> Block<'_, u8, i32, R>
where
    [i32; R]: IntegerRegisters,
{
    /// Multiplies the stages, and stores the tiles. For the eight warps of two warpgroups.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume_int8(&self, warp: u32) {
        self.clear_lines();
        let mut place = Place::<R>::FIRST;
        for tile in self.tiles.of_block() {
            let mut sums = self.sums_of_integers(warp / 4, &mut place);
            if self.shares_k() {
                self.add_parts(&mut sums, warp / 4, i32::wrapping_add);
                if warp >= 4 {
                    continue;
                }
            }
            let row = tile.row + warp * BOX_M as u32;
            unroll!(8, number => {
                if number * Self::OF_BOX < R {
                    let to = self.take_box(number as u32, warp);
                    Self::put(to.cast(), |i| sums.element(number * Self::OF_BOX + i));
                    self.store_box(to, number as u32, Tile { row, ..tile });
                }
            });
        }
        if warp::elect() {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }

    /// This thread's part of the product of 64 rows of the tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sums_of_integers(&self, group: u32, place: &mut Place<R>) -> Accumulator<R, i32> {
        let (a, b) = (self.a_of::<i8, KMajor>(group), self.b_of::<i8, KMajor>());
        let multiply = |sums: Batch<R, i32>, stage, step, is_first| {
            // SAFETY (of both): as `sums_by` says.
            match is_first {
                true => unsafe { sums.mma_i8_from_zero(a(stage, step), b(stage, step)) },
                false => unsafe { sums.mma_i8(a(stage, step), b(stage, step)) },
            }
        };
        self.sums_by(group, place, multiply, |_| ())
    }
}
