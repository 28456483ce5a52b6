// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of a tile's sums.

use cuda_std::hint;
use cuda_std::prelude::*;

use super::{A_LEN, B_LEN, Block, MOST_ROWS, Place, SimtShape, lane_place, rows, stages};
use crate::matmul::gemm::Layout;
use crate::matmul::stored::Stored;
use crate::matmul::tiles::Tile;
use crate::matmul::{scaled, unroll};

/// From row to row of the eight that a warp has in shared memory on their way to `C`: with 16 words between those of 32 and 64, so that
/// the vectors of two rows meet no bank twice.
const fn rows_pitch(columns: usize) -> usize {
    if columns == 4 { 16 } else { 4 * columns + 16 }
}

/// Elements of the eight rows.
pub(super) const fn rows_len(columns: usize) -> usize {
    8 * rows_pitch(columns)
}

impl<A: Layout, const C: usize> Block<'_, A, C> {
    /// Rows from those of four lanes to those of the next four.
    pub(super) const ROWS_APART: u32 = if A::ALONG_K { 1 } else { 4 };

    /// How far the thread's row `i` is from its first.
    #[inline(always)]
    fn row_of(i: u32) -> u32 {
        if A::ALONG_K { 8 * i } else { i / 4 * 32 + i % 4 }
    }

    /// Puts the thread's sums into `C`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store(
        &self,
        sums: &[[f32; C]; MOST_ROWS],
        tile: Tile,
        place: Place,
        warp: u32,
        result: &Stored<'_, f32>,
    ) {
        if self.shape.n.is_multiple_of(4) && result.c.is_vec_aligned::<4>() {
            self.store_vectors(sums, tile, place, result);
        } else {
            self.store_words(sums, tile, place, warp, result);
        }
    }

    /// [`store`](Self::store) where rows begin at multiples of 16 bytes.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_vectors(&self, sums: &[[f32; C]; MOST_ROWS], tile: Tile, place: Place, result: &Stored<'_, f32>) {
        let SimtShape { m, n, .. } = self.shape;
        let (row, column) = (tile.row + place.row as u32, tile.column + place.column as u32);
        unroll!(8, i => {
            let row = row + Self::row_of(i as u32);
            if i < rows(C) && row < m {
                let line = (tile.product as usize * m as usize + row as usize) * n as usize;
                unroll!(C / 4; 4, chunk => {
                    let column = column + 16 * chunk as u32;
                    if column < n {
                        let four = |j: usize| sums[i][4 * chunk + j];
                        let four = [four(0), four(1), four(2), four(3)];
                        // SAFETY: the row and the column are in C, which `c` has all of; with lines of a multiple of four, the whole vector
                        // is, and aligned.
                        unsafe { result.put(line + column as usize, four) };
                    }
                });
            }
        });
    }

    /// [`store`](Self::store) where rows begin anywhere: eight rows of the warp at a time go by way of shared memory, so that its lanes
    /// write neighbours. From registers each instruction would write a quarter of many of the cache's sectors.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_words(&self, sums: &[[f32; C]; MOST_ROWS], tile: Tile, place: Place, warp: u32, result: &Stored<'_, f32>) {
        let [row, column] = lane_place::<C>();
        // Behind the stages and their barriers.
        let memory = stages(C) * (A_LEN + B_LEN) + 4 * stages(C) + warp as usize * rows_len(C);
        // SAFETY: the warp's memory for eight rows.
        let memory = unsafe { self.stages.subarray_unchecked(memory, rows_len(C)) };
        let to = row as usize * rows_pitch(C) + (column * 4) as usize;
        let first = Tile {
            row: tile.row + place.row as u32 - row * Self::ROWS_APART,
            column: tile.column + place.column as u32 - column * 4,
            ..tile
        };
        unroll!(8, i => {
            if i < rows(C) {
                unroll!(C / 4; 4, chunk => {
                    // The assembler keeps what is stored at once in aligned groups of four registers, as what is read at once: there the
                    // sums would be in the same bank as the columns that the loop multiplies. Multiplied by α they are in others.
                    let four = |j: usize| scaled(result.alpha, sums[i][4 * chunk + j], None);
                    // SAFETY: the lane's part of its row.
                    unsafe { memory.set_vec_unchecked(to + 16 * chunk, [four(0), four(1), four(2), four(3)]) };
                });
                warp::sync_warp(warp::FULL_MASK);
                self.store_rows(memory, Tile { row: first.row + Self::row_of(i as u32), ..first }, result);
                warp::sync_warp(warp::FULL_MASK);
            }
        });
    }

    /// Puts eight rows of the warp into `C`, of which `first` has the place of the first element.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_rows(&self, memory: Shared<f32>, first: Tile, result: &Stored<'_, f32>) {
        let SimtShape { m, n, .. } = self.shape;
        let lane = thread::thread_idx_x() % 32;
        // Of a row, what an instruction stores.
        let width = if C < 8 { 16 } else { 32 };
        let (row_of_lane, column_of_lane) = (lane / width, lane % width);
        let mut in_memory = row_of_lane;
        while in_memory < 8 {
            let row = first.row + in_memory * Self::ROWS_APART;
            let line = (first.product as usize * m as usize + row as usize) * n as usize;
            let mut across = column_of_lane;
            while across < 4 * C as u32 {
                let column = first.column + across;
                // SAFETY (of both): an element of the eight rows; the row and the column are in C.
                let of_row: f32 = unsafe { memory.get_unchecked(in_memory as usize * rows_pitch(C) + across as usize) };
                if row < m && column < n {
                    unsafe { result.put_scaled(line + column as usize, [of_row]) };
                }
                across += width;
            }
            in_memory += 32 / width;
        }
    }

    /// Finishes what [`store`](Self::store) stored.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn finish(&self, tile: Tile, place: Place, result: &Stored<'_, f32>) {
        let SimtShape { m, n, .. } = self.shape;
        let chunks = C as u32 / 4;
        // A number that the compiler does not know: it would unroll the loop.
        let pieces = hint::opaque(rows(C) as u32 * chunks);
        let mut piece = 0;
        while piece < pieces {
            let row = tile.row + place.row as u32 + Self::row_of(piece / chunks);
            let column = tile.column + place.column as u32 + piece % chunks * 16;
            if row < m && column < n {
                let at = [tile.product as usize, row as usize, column as usize];
                // SAFETY: the row and the column are in C, and this thread stored the elements, or lanes of its warp did, which has met
                // since; columns are multiples of 4.
                unsafe {
                    result
                        .epilogue
                        .finish_stored::<4>(result.c, at, [m as usize, n as usize])
                };
            }
            piece += 1;
        }
    }
}
