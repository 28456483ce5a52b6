// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of groups of rows, each with a matrix of its own, in one launch.
//!
//! Blocks are as many as the GPU holds at a time, and each takes every so many of the tiles of all problems, from its own
//! number on, all roles by the `Table`. A problem is some rows of the maps of `A` and
//! `C`, and a matrix of that of `B`. Its last tile reads rows of the next problem, and must not write them: boxes that have
//! such rows are stored by ordinary stores, of those that are the problem's own.
//!
//! Problems that lie anywhere would want maps of their own, in the device's memory. That the copies see those takes a fence
//! of PTX 8.3, which drivers for CUDA 12.0 to 12.2 do not know.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};
use cuda_std::warpgroup;
use cuda_std::wgmma::{KMajor, Operand};

use super::{BOX_M, Block, GROUP, Input, LINE, Output, Place, THREADS, WgmmaShape, shared_bytes, tile_n};
use crate::matmul::grouped::{Problem, TILE_M, Table};
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

const _: () = assert!(super::TILE_M == TILE_M as usize);

/// Registers of a tile's sums. With half as many, few problems are done sooner: narrow ones, and of some widths.
const REGISTERS: usize = 128;

/// Columns of a block's tile.
pub const COLUMNS: usize = tile_n(REGISTERS);

/// The dynamic shared memory of a launch in bytes.
pub const SHARED_BYTES: usize = shared_bytes(REGISTERS);

/// `C ← A B` for each of the problems, by the tiles of [`gemm_wgmma`](super::gemm_wgmma()).
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`SHARED_BYTES`] of dynamic shared memory; the grid has one
/// axis. `starts` has where the tiles of each problem begin, of [`TILE_M`] × [`COLUMNS`], and then how many there are. The shape is
/// that of all rows times one matrix. The maps are as [`gemm_wgmma`](super::gemm_wgmma()) wants them for that, those of `a` and
/// `c` of one product; the problems are in them by their `row` and `product`, with as many columns as the shape, and its `k` or
/// 0. `A` lies along k: a problem's first row may be any, and copies begin at multiples of 16 bytes. The matrices of `C`
/// are where the problems say as well, at multiples of 16 bytes, with rows of a multiple of 16 bytes, and nothing else
/// accesses them.
#[kernel(T = [bf16, f16], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn gemm_wgmma_grouped<T: Input + Operand<Element = T> + Output>(
    a: TensorMap<'_, T>,
    b: TensorMap<'_, T>,
    c: TensorMapMut<'_, T>,
    shape: WgmmaShape,
    problems: &[Problem],
    starts: &[u32],
) {
    // SAFETY: the kernel's contract.
    let block = unsafe { Block::<T, T, REGISTERS>::new(a, b, c, shape.without_clusters()) };
    let table = Table {
        problems,
        starts,
        tile_n: COLUMNS as u32,
        group: GROUP,
    };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        warpgroup::decrease_registers::<40>();
        if warp == 0 {
            block.produce_groups(table);
        }
    } else {
        warpgroup::increase_registers::<232>();
        block.consume_groups::<T>(warp - 4, table);
    }
}

impl<T: Input + Operand<Element = T> + Output> Block<'_, T, T, REGISTERS> {
    /// Has the stages filled, one after another. For one warp.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce_groups(&self, table: Table<'_>) {
        let mut place = Place::<REGISTERS>::FIRST;
        let mut number = thread::block_idx_x();
        while let Some((problem, tile)) = table.tile(number) {
            if warp::elect() && problem.k > 0 {
                let tile = Tile {
                    product: problem.product,
                    row: problem.row + tile.row,
                    ..tile
                };
                let mut k = 0;
                while k < self.shape.k {
                    self.free(place.stage).wait(place.round ^ 1);
                    self.fill::<true, true>(place.stage, tile, k);
                    place = place.next();
                    k += Self::TILE_K;
                }
            }
            number += thread::grid_dim_x();
        }
    }

    /// Multiplies the stages, and stores the tiles. For the eight warps of two warpgroups.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume_groups<I: Input<Element = T>>(&self, warp: u32, table: Table<'_>) {
        let mut place = Place::<REGISTERS>::FIRST;
        let mut number = thread::block_idx_x();
        while let Some((problem, tile)) = table.tile(number) {
            number += thread::grid_dim_x();
            let row = tile.row + warp * BOX_M as u32;
            // The vote tells the compiler that the warp goes one way.
            if warp::any(warp::FULL_MASK, problem.k == 0) {
                for piece in 0..COLUMNS as u32 * size_of::<T>() as u32 / LINE as u32 {
                    let column = tile.column + piece * (LINE / size_of::<T>()) as u32;
                    // SAFETY: the kernel's contract.
                    unsafe { store_rows::<T>(problem, row, column, |_| [T::ZERO; 8]) };
                }
                continue;
            }
            let sums = match self.b_lies_along_n() {
                false => self.sums::<I, I, KMajor, KMajor>(warp / 4, &mut place),
                true => self.sums::<I, I, KMajor, I::AlongLines>(warp / 4, &mut place),
            };
            let is_whole = warp::all(warp::FULL_MASK, row + BOX_M as u32 <= problem.m);
            unroll!(8, number => {
                if number * Self::OF_BOX < REGISTERS {
                    let first = number * Self::OF_BOX;
                    let memory = self.take_box(number as u32, warp);
                    Self::put_sums(memory, |i| sums.element(first + i));
                    if is_whole {
                        let at = Tile {
                            product: 0,
                            row: problem.row + row,
                            ..tile
                        };
                        self.store_box(memory, number as u32, at);
                    } else {
                        warp::sync_warp(warp::FULL_MASK);
                        let of_box = memory.cast::<T>();
                        // SAFETY (of both): the kernel's contract; a piece of the box, of which all have been put there.
                        unsafe {
                            store_rows::<T>(problem, row, tile.column + 2 * first as u32, |at| {
                                of_box.get_vec_unchecked::<8>(at as usize)
                            });
                        }
                        if warp::elect() {
                            // An empty group, for who takes a box counts one for each.
                            tma::commit();
                        }
                    }
                }
            });
        }
        if warp::elect() {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }
}

/// Stores what of a box is in the problem, from this row and column on: pieces, by the places of their first elements in the
/// box. For a warp.
///
/// # Safety
///
/// `C` is where the problem says, at a multiple of 16 bytes, with rows of a multiple of 16 bytes, and so is the column.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn store_rows<T: Output>(problem: Problem, row: u32, column: u32, piece: impl Fn(u32) -> [T; 8]) {
    const { assert!(size_of::<[T; 8]>() == 16) };
    const PIECES: u32 = LINE as u32 / 16;
    let lane = thread::thread_idx_x() % 32;
    let elements = problem.m as usize * problem.n as usize;
    let c = core::ptr::with_exposed_provenance_mut(problem.c as usize);
    // SAFETY (of both): the caller's promise; a piece begins in a row, which has whole pieces.
    let c = unsafe { SliceMut::<T>::from_raw_parts(c, elements) };
    unroll!(4, i => {
        let (line, number) = (4 * i as u32 + lane / PIECES, lane % PIECES);
        let (row, column) = (row + line, column + 8 * number);
        if row < problem.m && column < problem.n {
            let to = row as usize * problem.n as usize + column as usize;
            let from = 8 * (line * PIECES + (number ^ (line % 8)));
            unsafe { c.set_vec_unchecked(to, piece(from)) };
        }
    });
}
