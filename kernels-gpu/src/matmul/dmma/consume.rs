// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumers: eight warps, which multiply the stages, and store the tiles.

use cuda_std::hint;
use cuda_std::mma::{F64M16N8K8, mma};
use cuda_std::prelude::*;
use cuda_std::tma;

use super::handed::Handed;
use super::{
    B_LEN, Block, DmmaShape, LINES, PARTED_ROWS, Side, Sums, TILE_K, WARP_ROWS, a_len, groups, stages, warps_n,
};
use crate::matmul::stored::Stored;
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

/// What a lane reads of the first stage, from its first rows and columns on: other rows and columns, and other stages, are
/// constants further. See [`Block::rows`] and [`Block::columns`].
pub(super) struct Lane {
    a: [Shared<f64>; 4],
    b: [Shared<f64>; 8],
}

/// What a lane has of the operands for eight elements of k: of each group of 8 rows and each of 16 columns.
struct Fragments {
    a: [[f64; 2]; 4],
    b: [[f64; 4]; 4],
}

/// Where four of a lane's sums are in `C`: of two rows, each in that column and the one behind it.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    product: u32,
    rows: [u32; 2],
    column: u32,
}

/// How far a stage's elements are from those of the first.
#[derive(Clone, Copy)]
pub(super) struct Stage {
    pub(super) a: usize,
    pub(super) b: usize,
}

impl<A: Side, B: Side, const ROWS: usize> Block<'_, A, B, ROWS> {
    /// The stage of a step. What the compiler does not know of these numbers it cannot mix with the constants that come on
    /// top, of which a load's instruction takes one for nothing.
    #[inline(always)]
    pub(super) fn stage(step: u32) -> Stage {
        let stage = step % Self::STAGES;
        Stage {
            a: hint::opaque(stage * a_len(ROWS) as u32) as usize,
            b: hint::opaque(stage * B_LEN as u32) as usize,
        }
    }

    /// Waits until the stage of a step is full.
    #[inline(always)]
    pub(super) fn wait(&self, step: u32) {
        self.full(step).wait(step / Self::STAGES % 2);
    }

    /// Multiplies the stages, and stores the tiles, or hands them over.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn consume(&self, warp: u32, result: &Stored<'_, f64>, handed: &Handed<'_>) {
        if ROWS == PARTED_ROWS {
            return self.consume_slices(warp, result, handed);
        }
        let row = warp / warps_n(ROWS) * WARP_ROWS;
        let column = warp % warps_n(ROWS) * 16 * groups(ROWS) as u32;
        let lane = self.lane([row, column], 0);
        let mut step = 0;
        let of_warp = |tile: Tile| Tile {
            row: tile.row + row,
            column: tile.column + column,
            ..tile
        };
        for part in self.parts() {
            let mut sums = [[[0.0; 4]; 4]; 4];
            if part.from > 0 {
                handed.take::<ROWS>(warp, &mut sums);
            }
            self.add(&lane, &mut step, part.to - part.from, &mut sums);
            match part.is_last {
                true => self.store(&sums, of_warp(part.tile), result),
                false => handed.leave::<ROWS>(warp, &sums),
            }
        }
        // In a loop of its own: in the one above, it would take registers from the fragments.
        if !result.epilogue.is_identity() {
            for part in self.parts() {
                if part.is_last {
                    self.finish(of_warp(part.tile), result);
                }
            }
        }
    }

    /// What the lane reads of the rows and columns of its warp, which are from these on, and of k from that element of a stage on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn lane(&self, [row, column]: [u32; 2], k: u32) -> Lane {
        let lane = thread::thread_idx_x() % 32;
        let (i, k) = (lane / 4, k + lane % 4);
        let (row, column) = (row + A::row(i, 0), column + B::column(i));
        let from = |at: u32| self.operand(at as usize, Self::B_START + stages(ROWS) * B_LEN - at as usize);
        Lane {
            a: cuda_std::array::map([0, 1, 2, 3], |at| match A::ALONG_K {
                true => from(A::place(row, (k + 4 * at) % TILE_K as u32)),
                false => from(A::place(row + at / 2 * 4, k + at % 2 * 4)),
            }),
            b: cuda_std::array::map([0, 1, 2, 3, 4, 5, 6, 7], |at| match B::ALONG_K {
                true => from(Self::B_START as u32 + B::place(column + at / 4, (k + at % 4 * 4) % TILE_K as u32)),
                false => from(Self::B_START as u32 + B::place(column, k + at % 2 * 4)),
            }),
        }
    }

    /// Adds the products of that many steps, one at least, to this lane's sums of a tile. They are from `step` on, which is then
    /// that of the next.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add(&self, lane: &Lane, step: &mut u32, steps: u32, sums: &mut Sums) {
        let leads = thread::thread_idx_x().is_multiple_of(32);
        self.wait(*step);
        let mut stage = Self::stage(*step);
        let mut fragments = Fragments {
            a: cuda_std::array::map([0, 1, 2, 3], |j| Self::rows(lane, stage, 0, j)),
            b: [[0.0; 4]; 4],
        };
        unroll!(3, i => {
            if i + 1 < groups(ROWS) {
                fragments.b[i] = Self::columns(lane, stage, 0, i);
            }
        });
        let mut done = 1;
        while done < steps {
            Self::half::<0>(lane, stage, Some(stage), &mut fragments, sums);
            self.wait(*step + 1);
            let next = Self::stage(*step + 1);
            Self::half::<1>(lane, stage, Some(next), &mut fragments, sums);
            self.done(*step, leads);
            stage = next;
            *step += 1;
            done += 1;
        }
        Self::half::<0>(lane, stage, Some(stage), &mut fragments, sums);
        Self::half::<1>(lane, stage, None, &mut fragments, sums);
        self.done(*step, leads);
        *step += 1;
    }

    /// Says that the warp is done with a stage: when all its lanes are, which may run ahead of each other, and of which one
    /// that read a barrier's parity two rounds late would wait for ever. Then a copy may write what the lanes have read.
    #[inline(always)]
    pub(super) fn done(&self, step: u32, leads: bool) {
        tma::fence_async();
        warp::sync_warp(warp::FULL_MASK);
        self.free(step).arrive_if(leads);
    }

    /// Adds the products of eight elements of k, those of half `HALF` of a stage, and reads the fragments of the other
    /// half, which is of stage `next`, if there is one. The columns of a group are read when those of the group before have been
    /// multiplied, into their registers: of the last group those of this half, as they were not read before.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn half<const HALF: usize>(
        lane: &Lane,
        stage: Stage,
        next: Option<Stage>,
        fragments: &mut Fragments,
        sums: &mut Sums,
    ) {
        let last = groups(ROWS) - 1;
        let mut rows = fragments.a;
        unroll!(4, i => {
            if i <= last {
                if i == 0 {
                    fragments.b[last] = Self::columns(lane, stage, HALF, last);
                } else if let Some(next) = next {
                    fragments.b[i - 1] = Self::columns(lane, next, 1 - HALF, i - 1);
                }
                unroll!(4, j => {
                    if let Some(next) = next && j * groups(ROWS) / 4 == i {
                        rows[j] = Self::rows(lane, next, 1 - HALF, j);
                    }
                });
                unroll!(4, j => {
                    sums[i][j] = mma::<F64M16N8K8>(fragments.b[i], fragments.a[j], sums[i][j]);
                });
            }
        });
        fragments.a = rows;
    }

    /// Elements `k` and `k + 4` of a row of group `j`, of a half of a stage.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn rows(lane: &Lane, stage: Stage, half: usize, j: usize) -> [f64; 2] {
        cuda_std::array::map([0, 1], |of| {
            let (from, further) = match A::ALONG_K {
                true => (lane.a[2 * half + of], j * LINES / 2),
                false => (lane.a[j % 2 * 2 + of], j / 2 * LINES + half * LINES / 2),
            };
            // SAFETY: an element of the stage, which is full.
            unsafe { from.subarray_unchecked(stage.a, further + 1).get_unchecked(further) }
        })
    }

    /// Elements `k`, then `k + 4`, of two columns of group `i`, of a half of a stage.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn columns(lane: &Lane, stage: Stage, half: usize, i: usize) -> [f64; 4] {
        // SAFETY (of both): elements of the stage, which is full; the first of two is even.
        if B::ALONG_K {
            let further = i * LINES;
            let element = |of: usize| {
                let from = lane.b[of + 2 * half];
                unsafe { from.subarray_unchecked(stage.b, further + 1).get_unchecked(further) }
            };
            [element(0), element(4), element(1), element(5)]
        } else {
            let further = i * LINES + half * LINES / 2;
            let both = |of: usize| {
                let from = lane.b[of];
                unsafe {
                    from.subarray_unchecked(stage.b, further + 2)
                        .get_vec_unchecked::<2>(further)
                }
            };
            let (k, k4) = (both(0), both(1));
            [k[0], k[1], k4[0], k4[1]]
        }
    }

    /// Puts the lane's sums into `C`, of a warp's tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store(&self, sums: &Sums, tile: Tile, result: &Stored<'_, f64>) {
        unroll!(4, j => {
            unroll!(4, i => {
                if i < groups(ROWS) {
                    self.store_piece(&sums[i][j], self.piece(tile, [i as u32, j as u32]), result);
                }
            });
        });
    }

    /// Finishes what [`store`](Self::store) stored.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn finish(&self, tile: Tile, result: &Stored<'_, f64>) {
        // A number that the compiler does not know: it would unroll the loop.
        let pieces = hint::opaque((4 * groups(ROWS)) as u32);
        let mut piece = 0;
        while piece < pieces {
            self.finish_piece(self.piece(tile, [piece / 4, piece % 4]), result);
            piece += 1;
        }
    }

    /// Where the lane's sums of a piece of a warp's tile are, of group `i` of 16 columns and group `j` of 8 rows.
    #[inline(always)]
    pub(super) fn piece(&self, tile: Tile, [i, j]: [u32; 2]) -> Piece {
        let lane = thread::thread_idx_x() % 32;
        Piece {
            product: tile.product,
            rows: [
                tile.row + A::row(lane % 4 * 2, j),
                tile.row + A::row(lane % 4 * 2 + 1, j),
            ],
            column: tile.column + 16 * i + B::column(lane / 4),
        }
    }

    /// Puts the lane's sums of a piece into `C`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store_piece(&self, sums: &[f64; 4], piece: Piece, result: &Stored<'_, f64>) {
        let DmmaShape { m, n, .. } = self.shape;
        let wide = n % 2 == 0 && result.c.is_vec_aligned::<2>();
        let column = piece.column;
        unroll!(2, of => {
            let row = piece.rows[of];
            if row < m && column < n {
                let line = (piece.product as usize * m as usize + row as usize) * n as usize;
                let at = line + column as usize;
                let two = [sums[of], sums[2 + of]];
                // SAFETY (of the three): the row and the column are in C, which `c` has all of; with lines of an even
                // length the whole pair is, and aligned.
                if wide {
                    unsafe { result.put(at, two) };
                } else {
                    unsafe { result.put(at, [two[0]]) };
                    if column + 1 < n {
                        unsafe { result.put(at + 1, [two[1]]) };
                    }
                }
            }
        });
    }

    /// Finishes what [`store_piece`](Self::store_piece) stored.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn finish_piece(&self, piece: Piece, result: &Stored<'_, f64>) {
        let DmmaShape { m, n, .. } = self.shape;
        unroll!(2, of => {
            let (row, column) = (piece.rows[of], piece.column);
            if row < m && column < n {
                let at = [piece.product as usize, row as usize, column as usize];
                // SAFETY: the row and the column are in C, and this lane stored the elements; columns are even.
                unsafe {
                    result
                        .epilogue
                        .finish_stored::<2>(result.c, at, [m as usize, n as usize])
                };
            }
        });
    }
}
