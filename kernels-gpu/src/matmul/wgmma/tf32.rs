// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is different where numbers are [`Tf32`] and `A` lies along m: it comes from registers, and `C` can be stored transposed.
//!
//! `wgmma` takes TF32 from shared memory along k alone. So the consumers read such an `A` themselves, those of the next stage
//! while this one is multiplied. A `B` along n is the `A` of `Cᵀ = Bᵀ Aᵀ`, whose tiles are stored transposed.
//!
//! Two warps have 32 lines of `A`, a box. A lane has two neighbours of them as the instruction's rows `r` and `r + 8`: so it reads
//! two numbers at a time, and writes two at a time. Which lines those are depends on the lane, so that half a warp's numbers, of
//! four k, are in all banks.

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::wgmma::{Accumulator, Fragment, KMajor, MatrixDescriptor, Registers, Tf32};
use cuda_std::{hint, tma};

use super::{A_BYTES, BOX_BYTES, BOX_M, Block, LINE, Output, Place, Side, b_bytes, boxes};
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

/// Lines of a box of `A`, and columns of a piece of the result.
const WIDE: u32 = 32;

/// Sums of a thread in a piece of the result, of 32 × 32.
const OF_PIECE: usize = 16;

/// The first of the two lines of a box of which this lane has elements.
#[inline(always)]
fn first_line(thread: u32) -> u32 {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = lane / 4;
    row / 4 * 4 + row / 2 % 2 * 16 + row % 2 * 2 + warp % 2 * 8
}

/// Where a number is in lines of 128 bytes with their swizzle, in numbers of 32 bits.
#[inline(always)]
fn place_of(line: u32, column: u32) -> usize {
    (line * WIDE + (column ^ (line % 8 * 4))) as usize
}

impl<E: Pod, C: Output, const R: usize> Block<'_, E, C, R>
where
    [f32; R]: Registers,
{
    /// As `sums`, of an `A` along m.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn sums_from_registers(&self, warp: u32, place: &mut Place<R>) -> Accumulator<R> {
        let b = MatrixDescriptor::<Tf32, KMajor>::new(self.operands(Self::B), <KMajor as Side<Tf32>>::LEADING, 1024);
        let b = |stage: u32, step: u32| b.advance(stage * b_bytes(R) as u32 + step * <KMajor as Side<Tf32>>::STEP);
        let thread = thread::thread_idx_x();
        let leads = thread.is_multiple_of(32);
        let (line, k) = (first_line(thread), thread % 4);
        let (first, second) = (place_of(k, line), place_of(k + 4, line));
        let fragments = |stage: u32, step: usize| {
            let at = stage as usize * A_BYTES + warp as usize / 2 * (WIDE as usize * LINE);
            let from = self.operands(at).cast::<f32>();
            let of_step = |step: usize| {
                let at = step * 8 * LINE / 4;
                // SAFETY: two numbers of a box of 32 × 32, the first of them even.
                let [low, high] = unsafe {
                    [
                        from.get_vec_unchecked::<2>(at + first),
                        from.get_vec_unchecked::<2>(at + second),
                    ]
                };
                Fragment::new([low[0], low[1], high[0], high[1]])
            };
            [of_step(step), of_step(step + 1)]
        };

        let mut stage = place.stage;
        self.full(stage).wait(place.round);
        let mut x = fragments(stage, 0);
        // SAFETY (of these): the stage is full, and is not filled again before all warps have arrived at its barrier, which
        // they do when they have waited for what reads it. The fragments are older than their batch, and kept behind the wait for it.
        let mut sums = unsafe {
            let sums = Accumulator::<R>::zero().start();
            let sums = sums.mma_fragment(&x[0], b(stage, 0));
            sums.mma_fragment(&x[1], b(stage, 1)).commit()
        };
        let mut k = Self::TILE_K;
        loop {
            let y = fragments(stage, 2);
            sums = unsafe {
                let sums = sums.restart();
                let sums = sums.mma_fragment(&y[0], b(stage, 2));
                sums.mma_fragment(&y[1], b(stage, 3)).commit()
            };
            *place = place.next();
            if k >= self.shape.k {
                let sums = sums.wait();
                keep(&x);
                keep(&y);
                self.give_back(stage, leads);
                return sums;
            }
            sums = sums.wait_but_newest();
            keep(&x);
            let previous = stage;
            stage = place.stage;
            self.full(stage).wait(place.round);
            x = fragments(stage, 0);
            sums = unsafe {
                let sums = sums.restart();
                let sums = sums.mma_fragment(&x[0], b(stage, 0));
                sums.mma_fragment(&x[1], b(stage, 1)).commit().wait_but_newest()
            };
            keep(&y);
            self.give_back(previous, leads);
            k += Self::TILE_K;
        }
    }

    /// Says that the warp is done with a stage: then a copy may write what the lanes have read.
    #[inline(always)]
    fn give_back(&self, stage: u32, leads: bool) {
        tma::fence_async();
        warp::sync_warp(warp::FULL_MASK);
        self.free(stage).arrive_if(leads);
    }

    /// Stores the rows of the tile that are this warp's and its neighbour's, times `alpha`, in pieces of 32 × 32: as they are,
    /// or as columns.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store_crosswise(&self, sums: &Accumulator<R>, alpha: f32, warp: u32, tile: Tile) {
        // Opaque, so that no place of a number stays in a register while others are multiplied.
        let thread = hint::opaque(thread::thread_idx_x());
        let pair = warp / 2;
        unroll!(8, number => {
            if number * OF_PIECE < R {
                let tile = Tile { row: tile.row + pair * WIDE, column: tile.column + number as u32 * WIDE, ..tile };
                self.store_piece(|i| alpha * sums.element(number * OF_PIECE + i), thread, pair, number, tile);
            }
        });
    }

    /// Stores piece `number` of these numbers, which begins where `tile` does.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_piece(&self, value: impl Fn(usize) -> f32, thread: u32, pair: u32, number: usize, tile: Tile) {
        let transposed = self.shape.c_transposed != 0;
        // The thread that waits for copies in the end.
        let leads = warp::elect() && (thread / 32).is_multiple_of(2);
        // While one of the pair's two pieces of memory is read, the other is written.
        if leads {
            tma::wait_read::<1>();
        }
        meet(pair);
        let at = Self::BOXES + (pair as usize * boxes(R) + number % 2) * 2 * BOX_BYTES;
        // SAFETY (of both): two boxes, one after the other.
        let to = unsafe { self.memory.subarray_unchecked(at, 2 * BOX_BYTES) }.cast::<f32>();
        let second = unsafe { self.memory.subarray_unchecked(at + BOX_BYTES, BOX_BYTES) }.cast::<C>();
        let (line, column) = (first_line(thread), thread % 4 * 2);
        unroll!(4, part => {
            let value = |i: usize| value(4 * part + i);
            let column = column + 8 * part as u32;
            // SAFETY: two of the 32 × 32 numbers, the first of them even.
            unsafe {
                if transposed {
                    to.set_vec_unchecked(place_of(column, line), [value(0), value(2)]);
                    to.set_vec_unchecked(place_of(column + 1, line), [value(1), value(3)]);
                } else {
                    to.set_vec_unchecked(place_of(line, column), [value(0), value(1)]);
                    to.set_vec_unchecked(place_of(line + 1, column), [value(2), value(3)]);
                }
            }
        });
        tma::fence_async();
        meet(pair);
        if leads {
            let (row, column) = if transposed {
                (tile.column, tile.row)
            } else {
                (tile.row, tile.column)
            };
            let [row, column, product] = [row as i32, column as i32, tile.product as i32];
            // SAFETY: boxes of the map, by the kernel's contract, whose memory is not written before it has been read.
            unsafe {
                self.c.store([column, row, product], to.cast());
                self.c.store([column, row + BOX_M as i32, product], second);
            }
            tma::commit();
        }
    }
}

/// Keeps the registers of fragments from others until here.
#[inline(always)]
fn keep(fragments: &[Fragment; 2]) {
    fragments[0].keep();
    fragments[1].keep();
}

/// Has the two warps of a pair wait for each other.
#[inline(always)]
fn meet(pair: u32) {
    match pair {
        0 => thread::sync_threads_named::<1, 64>(),
        1 => thread::sync_threads_named::<2, 64>(),
        2 => thread::sync_threads_named::<3, 64>(),
        _ => thread::sync_threads_named::<4, 64>(),
    }
}
