// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of numbers of 16 bits as `Cᵀ = Bᵀ Aᵀ`, by tiles of other sizes.
//!
//! What the tensor cores take for their right matrix has any number of lines that is a multiple of 8, but such as lie along k:
//! those that lie along themselves come in boxes of 64. In C order that is `A` alone. So its lines are the columns of a tile here,
//! and those of `B`, which lie as they like, its rows, 64 for each consumer; and the result is transposed on its way to shared
//! memory (`stmatrix`). There are tiles of 192 × 96, with three consumers, and of 64 × 48, whose two consumers have stages in turn
//! and exchange their sums, so that each adds and stores half of them.

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::tma::{TensorMap, TensorMapMut};
use cuda_std::wgmma::{Accumulator, KMajor, Registers};
use cuda_std::{hint, matrix, tma, warpgroup};
use half::{bf16, f16};

use super::{BOX_BYTES, BOX_M, Block, HALF_TILE_M, Input, LINE, Output, Place, WgmmaShape, consumers, threads, tile_m};
use crate::matmul::epilogue::{Activation, Epilogue, EpiloguePlan};
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

/// Boxes of a consumer's part of the result, of 16 rows of it.
const fn boxes(registers: usize) -> usize {
    registers / 8
}

/// Bytes of a tile's result, and of the sums that consumers of the same rows exchange.
pub(super) const fn result_bytes(registers: usize) -> usize {
    let sums = if tile_m(registers) == HALF_TILE_M {
        128 * registers * size_of::<f32>()
    } else {
        0
    };
    tile_m(registers) / 64 * boxes(registers) * BOX_BYTES + sums
}

/// `C ← f(alpha · A B + bias) + residual` for each product of the batch, with the function of the plan. `a` has the lines of `B`, and
/// `b` those of `A`: what is multiplied is `Cᵀ = Bᵀ Aᵀ`, whose shape is that of the launch.
///
/// # Safety
///
/// As for [`gemm_wgmma`](fn@super::gemm_wgmma), with [`threads`] threads, and tiles of [`tile_m`] rows. `b` lies along k. `c` has the
/// columns of what is multiplied as its rows. The addends are as [`Epilogue::new`] says for the strides of what is multiplied, of
/// which the last ones are 0. With tiles of 64 rows, `k` is more than a stage has.
#[kernel(T = [bf16, f16], R = [24, 48], arch = "sm_90a", max_threads = threads(R), min_blocks = 1)]
pub unsafe fn gemm_wgmma_across<T: Input<Element = T> + Output, const R: usize>(
    a: TensorMap<'_, T>,
    b: TensorMap<'_, T>,
    c: TensorMapMut<'_, T>,
    shape: WgmmaShape,
    alpha: f32,
    plan: EpiloguePlan,
    bias: &[T],
    residual: &[T],
) where
    [f32; R]: Registers,
{
    // SAFETY (of both): the kernel's contract.
    let epilogue = unsafe { Epilogue::new(plan, bias, residual) };
    let block = unsafe { Block::<T, T, R>::new(a, b, c, shape) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    // In this order as in `gemm_wgmma`.
    if warp >= 4 {
        block.consume_across::<T>(warp - 4, alpha, epilogue);
    } else {
        block.produce(warp, None);
    }
}

impl<E: Pod, C: Output, const R: usize> Block<'_, E, C, R>
where
    [f32; R]: Registers,
{
    /// The boxes that a consumer stores: all of its lines' or, where both have the same, half of them.
    #[inline(always)]
    fn boxes_of(&self, group: u32) -> [u32; 2] {
        let (half, all) = (boxes(R).div_ceil(2) as u32, boxes(R) as u32);
        match (self.shares_k(), group) {
            (false, _) => [0, all],
            (true, 0) => [0, half],
            (true, _) => [half, all],
        }
    }

    /// Multiplies the stages, and stores the tiles. For the consumers' warps.
    // As `consume`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume_across<T: Input<Element = E>>(&self, warp: u32, alpha: f32, epilogue: Epilogue<'_, C, Activation>) {
        if consumers(R) == 2 {
            warpgroup::increase_registers::<232>();
        } else {
            warpgroup::increase_registers::<152>();
        }
        let group = warp / 4;
        let lines = if self.shares_k() { 0 } else { 64 * group };
        let mut place = Place::<R>::FIRST;
        for mut tile in self.tiles_of_block() {
            tile.row += lines;
            let row = tile.row + warp % 4 * 16 + thread::thread_idx_x() % 32 / 4;
            // SAFETY: the kernel's contract.
            let addends = unsafe { epilogue.load_of_lines([tile.product, row, 0], self.shape.m) };
            let mut sums = match self.a_lies_along_m() {
                false => self.sums::<T, T, KMajor, KMajor>(group, &mut place),
                true => self.sums::<T, T, T::AlongLines, KMajor>(group, &mut place),
            };
            if self.shares_k() {
                self.exchange_parts(&mut sums, group);
            }
            sums.update(|_, sum| alpha * sum);
            self.take_boxes(group);
            if epilogue.is_identity() {
                self.put_across(&sums, group);
            } else {
                self.put_finished(&sums, group, |sums| epilogue.finish_lines(sums, addends));
            }
            self.store_boxes(group, tile);
        }
        if warp::elect() {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }

    /// Adds the other consumer's sums to those that this one stores.
    #[inline(always)]
    fn exchange_parts(&self, sums: &mut Accumulator<R>, group: u32) {
        // SAFETY: they are behind the boxes.
        let parts = unsafe {
            self.memory
                .subarray_unchecked(Self::BOXES + boxes(R) * BOX_BYTES, 512 * R)
        }
        .cast::<f32>();
        let number = thread::thread_idx_x() as usize % 128;
        // Constants, so that each consumer has a branch of its own.
        let give = |sums: &mut Accumulator<R>, [first, end]: [u32; 2]| {
            sums.update(|i, sum| {
                if (first..end).contains(&(i as u32 / 8)) {
                    // SAFETY: `R` numbers of 128 threads.
                    unsafe { parts.set_unchecked(i * 128 + number, sum) };
                }
                sum
            });
        };
        let take = |sums: &mut Accumulator<R>, [first, end]: [u32; 2]| {
            sums.update(|i, sum| match (first..end).contains(&(i as u32 / 8)) {
                // SAFETY: as above.
                true => sum + unsafe { parts.get_unchecked(i * 128 + number) },
                false => sum,
            });
        };
        if group == 0 {
            give(sums, self.boxes_of(1));
        } else {
            give(sums, self.boxes_of(0));
        }
        thread::sync_threads_named::<1, 256>();
        if group == 0 {
            take(sums, self.boxes_of(0));
        } else {
            take(sums, self.boxes_of(1));
        }
        thread::sync_threads_named::<1, 256>();
    }

    /// The memory of this consumer's boxes, of 16 rows of the result and 64 columns, one after another: of all its lines.
    #[inline(always)]
    fn boxes_across(&self, group: u32) -> Shared<u8> {
        let first = if self.shares_k() { 0 } else { group as usize * boxes(R) };
        // SAFETY: they are among the boxes.
        unsafe {
            self.memory
                .subarray_unchecked(Self::BOXES + first * BOX_BYTES, boxes(R) * BOX_BYTES)
        }
    }

    /// Waits until the copies that read the boxes last have done so.
    #[inline(always)]
    fn take_boxes(&self, group: u32) {
        if warp::elect() {
            tma::wait_read::<0>();
        }
        meet(group);
    }

    /// Puts this thread's sums of a box into it, four matrices of 8 × 8 at a time.
    #[inline(always)]
    fn put_box(&self, group: u32, number: u32, value: impl Fn(usize) -> f32) {
        let (warp, lane) = (thread::thread_idx_x() / 32 % 4, thread::thread_idx_x() % 32);
        let (row, column) = (lane / 16 * 8 + lane % 8, (2 * warp + lane / 8 % 2) ^ (lane % 8));
        let at = number * BOX_BYTES as u32 + row * LINE as u32 + 16 * column;
        let pair = |i: usize| C::pack(value(i), value(i + 1));
        // SAFETY: 16 bytes of the box, of 16 rows of 128 bytes; all lanes are here.
        unsafe { matrix::stmatrix_x4_trans(self.boxes_across(group), at, [pair(0), pair(2), pair(4), pair(6)]) };
    }

    /// Puts the sums into the boxes as they are.
    #[inline(always)]
    fn put_across(&self, sums: &Accumulator<R>, group: u32) {
        let [first, end] = self.boxes_of(group);
        unroll!(6, number => {
            if number < boxes(R) && (first..end).contains(&(number as u32)) {
                self.put_box(group, number as u32, |i| sums.element(8 * number + i));
            }
        });
    }

    /// Puts what becomes of the sums into the boxes, in a loop that is not unrolled, as `store_finished`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn put_finished(&self, sums: &Accumulator<R>, group: u32, finish: impl Fn([f32; 8]) -> [f32; 8]) {
        let [mut number, end] = self.boxes_of(group).map(hint::opaque);
        while number < end {
            let values = finish(Self::sums_of_box::<8>(sums, number));
            self.put_box(group, number, |i| values[i]);
            number += 1;
        }
    }

    /// Has the boxes stored, by the warps in turn.
    #[inline(always)]
    fn store_boxes(&self, group: u32, tile: Tile) {
        tma::fence_async();
        meet(group);
        let [first, end] = self.boxes_of(group);
        let mut number = first + thread::thread_idx_x() / 32 % 4;
        let leads = warp::elect();
        while number < end && leads {
            let row = tile.column + number * BOX_M as u32;
            // SAFETY (of both): one of the boxes, and a box of the map, by the kernel's contract, whose memory is not written before
            // it has been read.
            unsafe {
                let from = self
                    .boxes_across(group)
                    .subarray_unchecked(number as usize * BOX_BYTES, BOX_BYTES);
                self.c
                    .store([tile.row as i32, row as i32, tile.product as i32], from.cast());
            }
            tma::commit();
            number += 4;
        }
    }
}

/// Has the warps of a consumer wait for each other.
#[inline(always)]
pub(super) fn meet(group: u32) {
    match group {
        0 => thread::sync_threads_named::<2, 128>(),
        1 => thread::sync_threads_named::<3, 128>(),
        _ => thread::sync_threads_named::<4, 128>(),
    }
}
