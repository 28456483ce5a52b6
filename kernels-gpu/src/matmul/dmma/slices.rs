// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tiles of few rows, whose warps have all rows, 32 columns, or 16 of 32, and a slice of k each: eight elements of one stage in so
//! many.
//!
//! So what a warp reads from shared memory is for 32 lines of the other operand. By warps of 16 × 16, with all of k, a tile of
//! 32 × 64 was as long in being read as in being multiplied, and the copies that write it came on top. But what the slices
//! exchange in the end is as much more as there are more of them: so tiles of 32 × 32, of short products, have four, not eight.

use cuda_std::mma::{F64M16N8K8, mma};
use cuda_std::prelude::*;

use super::consume::{Lane, Stage};
use super::handed::Handed;
use super::{B_LEN, Block, LINES, PARTED_ROWS, Side, Stored, Sums, TILE_K, WARPS};
use crate::matmul::parts::Part;
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

/// Sums of a lane that it gives to another warp's in the first exchange: half of all.
const GIVEN: usize = 16;

/// Memory for the exchanges of a block, of which the second gives half as much as the first.
pub(super) const EXCHANGED_LEN: usize = 32 * WARPS * (GIVEN + GIVEN / 2);

/// A lane's sums of pieces: of two groups of 16 columns and two of 8 rows, one of rows, or one of each.
pub(super) type Pieces = [[f64; 4]; 4];

/// What a lane has of the operands for a slice: of each group of 8 rows and each of 16 columns.
#[derive(Default)]
struct Slice {
    a: [[f64; 2]; 4],
    b: [[f64; 4]; 2],
}

/// What a warp is among those that have the same columns.
#[derive(Clone, Copy)]
struct Slices {
    /// How many have the same columns, and a slice each: 2 or 4.
    count: u32,
    /// The warp's slice.
    slice: u32,
    /// The warp's number among those that have the same slice.
    side: u32,
    /// The warp's first column.
    column: u32,
    /// Whether the warp has 16 columns, and not 32.
    is_narrow: bool,
}

impl Slices {
    #[inline(always)]
    fn new(warp: u32, columns: u32) -> Self {
        // Divisions by what is not a constant would leave a panic.
        let bits = if columns > 64 { 2 } else { 1 };
        let is_narrow = columns == 32;
        let slice = warp >> bits;
        let side = warp - (slice << bits);
        Self {
            count: WARPS as u32 >> bits,
            slice,
            side,
            column: side * if is_narrow { 16 } else { 32 },
            is_narrow,
        }
    }

    /// Stages from one of a warp's to the next: each has two slices.
    #[inline(always)]
    fn stride(self) -> u32 {
        self.count / 2
    }

    /// Warps that have the same slice.
    #[inline(always)]
    fn sides(self) -> u32 {
        if self.count == 2 { 4 } else { 2 }
    }

    /// Pieces of which the warp has the sum in the end.
    #[inline(always)]
    fn kept(self) -> u32 {
        match (self.count, self.is_narrow) {
            (2, _) => 4,
            (_, false) => 2,
            (_, true) => 1,
        }
    }

    /// Waits for the warp whose slice has another number by one bit, the last one (0) or the one before it (1). Others may be at
    /// their products still.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sync<const BIT: usize>(self) {
        let others = if BIT == 0 { self.slice / 2 } else { self.slice % 2 };
        match (BIT, others * 2 + self.side) {
            (0, 0) => thread::sync_threads_named::<1, 64>(),
            (0, 1) => thread::sync_threads_named::<2, 64>(),
            (0, 2) => thread::sync_threads_named::<3, 64>(),
            (0, _) => thread::sync_threads_named::<4, 64>(),
            (_, 0) => thread::sync_threads_named::<5, 64>(),
            (_, 1) => thread::sync_threads_named::<6, 64>(),
            (_, 2) => thread::sync_threads_named::<7, 64>(),
            _ => thread::sync_threads_named::<8, 64>(),
        }
    }

    /// The groups of 16 columns and of 8 rows of a piece of which the warp has the sum.
    #[inline(always)]
    fn groups(self, piece: u32) -> [u32; 2] {
        let j = if self.count == 2 { piece / 2 } else { self.slice / 2 };
        [piece % 2, self.slice % 2 * 2 + j]
    }
}

impl<A: Side, B: Side, const ROWS: usize> Block<'_, A, B, ROWS> {
    /// Multiplies the stages, and stores the tiles, or hands them over, by warps that have slices of k.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn consume_slices(&self, warp: u32, result: &Stored<'_, f64>, handed: &Handed<'_>) {
        let slices = Slices::new(warp, self.tile_n());
        let lane = self.lane([0, slices.column], slices.slice % 2 * (TILE_K as u32 / 2));
        let place = |tile: Tile, piece: u32| {
            let of_warp = Tile {
                column: tile.column + slices.column,
                ..tile
            };
            self.piece(of_warp, slices.groups(piece))
        };
        let are_side_by_side = thread::grid_dim_y() > 1;
        let mut step = 0;
        for Part {
            tile,
            from,
            to,
            is_last,
        } in self.parts()
        {
            let mut sums = [[[0.0; 4]; 4]; 4];
            if from > 0 && !are_side_by_side {
                handed.take::<PARTED_ROWS>(warp, &mut sums);
            }
            match slices.is_narrow {
                true => self.add_slices::<1>(&lane, slices, [step, to - from], &mut sums),
                false => self.add_slices::<2>(&lane, slices, [step, to - from], &mut sums),
            }
            let is_first = step == 0;
            step += to - from;
            if !is_last && !are_side_by_side {
                handed.leave::<PARTED_ROWS>(warp, &sums);
                continue;
            }
            if !is_first {
                // What was exchanged of the tile before has been read.
                slices.sync::<0>();
            }
            let mut pieces = self.gather(warp, slices, &sums);
            if !is_last {
                handed.leave_part(warp, &pieces, slices.kept());
                continue;
            }
            if are_side_by_side {
                handed.add(warp, &mut pieces, slices.kept());
            }
            unroll!(4, piece => {
                if (piece as u32) < slices.kept() {
                    self.store_piece(&pieces[piece], place(tile, piece as u32), result);
                }
            });
        }
        if !result.epilogue.is_identity() {
            for Part { tile, is_last, .. } in self.parts() {
                let mut piece = 0;
                while is_last && piece < slices.kept() {
                    self.finish_piece(place(tile, piece), result);
                    piece += 1;
                }
            }
        }
    }

    /// Adds the products of the warp's slices of so many steps, and of its `GROUPS` groups of 16 columns, to this lane's sums of a
    /// tile. The first step is a multiple of the
    /// stages from one of a warp's to the next. What is read of a slice has registers beside those of the slice before, which is
    /// multiplied meanwhile; so its stage is free as soon as it is read.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_slices<const GROUPS: usize>(&self, lane: &Lane, slices: Slices, [step, steps]: [u32; 2], sums: &mut Sums) {
        let (mut step, end) = (step + slices.slice / 2, step + steps);
        if step >= end {
            return;
        }
        let mut odd = Slice::default();
        let mut even = self.read::<GROUPS>(lane, slices, step);
        self.done(step, thread::thread_idx_x().is_multiple_of(32));
        loop {
            if step + slices.stride() >= end {
                Self::multiply::<GROUPS>(&even, 0, sums);
                Self::multiply::<GROUPS>(&even, 1, sums);
                return;
            }
            step += slices.stride();
            self.multiply_and_read::<GROUPS>(lane, slices, step, [&mut even, &mut odd], sums);
            if step + slices.stride() >= end {
                Self::multiply::<GROUPS>(&odd, 0, sums);
                Self::multiply::<GROUPS>(&odd, 1, sums);
                return;
            }
            step += slices.stride();
            self.multiply_and_read::<GROUPS>(lane, slices, step, [&mut odd, &mut even], sums);
        }
    }

    /// Adds the products of one slice, and reads the next, which is of that step.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply_and_read<const GROUPS: usize>(
        &self,
        lane: &Lane,
        slices: Slices,
        step: u32,
        [of, next]: [&mut Slice; 2],
        sums: &mut Sums,
    ) {
        Self::multiply::<GROUPS>(of, 0, sums);
        *next = self.read::<GROUPS>(lane, slices, step);
        Self::multiply::<GROUPS>(of, 1, sums);
        self.done(step, thread::thread_idx_x().is_multiple_of(32));
    }

    /// Waits for the stage of a step, and reads the warp's slice of it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn read<const GROUPS: usize>(&self, lane: &Lane, slices: Slices, step: u32) -> Slice {
        self.wait(step);
        let stage = Self::stage(step);
        // Of a warp with the second half of a stage, the first two groups of rows are the last ones of the tile: those that
        // it keeps in the first exchange.
        let half_of_rows = |j: usize| Stage {
            a: stage.a + ((slices.slice as usize + j / 2) % 2) * LINES,
            ..stage
        };
        Slice {
            a: cuda_std::array::map([0, 1, 2, 3], |j| Self::rows(lane, half_of_rows(j), 0, j % 2)),
            b: cuda_std::array::map([0, 1], |i| match i < GROUPS {
                true => Self::columns(lane, stage, 0, i),
                false => [0.0; 4],
            }),
        }
    }

    /// Adds half of a slice's products: those of one of two groups of 16 columns, or, of one, those of half of the rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply<const GROUPS: usize>(slice: &Slice, half: usize, sums: &mut Sums) {
        if GROUPS == 2 {
            unroll!(4, j => {
                sums[half][j] = mma::<F64M16N8K8>(slice.b[half], slice.a[j], sums[half][j]);
            });
        } else {
            unroll!(2, j => {
                let j = 2 * half + j;
                sums[0][j] = mma::<F64M16N8K8>(slice.b[0], slice.a[j], sums[0][j]);
            });
        }
    }

    /// Adds up the slices' sums, neighbours first: those of the warp's pieces. In each exchange a warp gives another, whose slice has
    /// another number by one bit, half of what it has, and keeps the other half.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn gather(&self, warp: u32, slices: Slices, sums: &Sums) -> Pieces {
        let behind_barriers = Self::B_START + Self::STAGES as usize * (B_LEN + 2);
        // SAFETY: the block has as much memory there.
        let exchanged = |at: usize, len: usize| unsafe { self.stages.subarray_unchecked(behind_barriers + at, len) };
        let first = exchanged(0, 32 * WARPS * GIVEN);
        let second = exchanged(32 * WARPS * GIVEN, 32 * WARPS * GIVEN / 2);
        let (other, next) = (warp ^ slices.sides(), warp ^ (2 * slices.sides()));
        let is_upper = slices.slice & 2 > 0;
        let mut pieces = [[0.0; 4]; 4];
        let mut given = [[0.0; 4]; 4];
        if slices.is_narrow {
            unroll!(2, piece => {
                (pieces[piece], given[piece]) = (sums[0][piece], sums[0][2 + piece]);
            });
            Self::exchange::<2, 0>(first, slices, [warp, other], &given, &mut pieces);
            let (low, high) = (pieces[0], pieces[1]);
            unroll!(4, of => {
                (pieces[0][of], given[0][of]) = if is_upper { (high[of], low[of]) } else { (low[of], high[of]) };
            });
            Self::exchange::<1, 1>(second, slices, [warp, next], &given, &mut pieces);
            return pieces;
        }
        unroll!(4, piece => {
            (pieces[piece], given[piece]) = (sums[piece % 2][piece / 2], sums[piece % 2][2 + piece / 2]);
        });
        Self::exchange::<4, 0>(first, slices, [warp, other], &given, &mut pieces);
        if slices.count > 2 {
            unroll!(2, piece => {
                let (low, high) = (pieces[piece], pieces[2 + piece]);
                unroll!(4, of => {
                    (pieces[piece][of], given[piece][of]) = if is_upper { (high[of], low[of]) } else { (low[of], high[of]) };
                });
            });
            Self::exchange::<2, 1>(second, slices, [warp, next], &given, &mut pieces);
        }
        pieces
    }

    /// Gives `N` pieces to another warp, whose slice has another number by that bit, and adds those that it gives to `pieces`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn exchange<const N: usize, const BIT: usize>(
        exchanged: Shared<f64>,
        slices: Slices,
        [warp, other]: [u32; 2],
        given: &Pieces,
        pieces: &mut Pieces,
    ) {
        let lane = (thread::thread_idx_x() % 32) as usize;
        let of_warp = |warp: u32| {
            // SAFETY: there are as many for each warp and each lane.
            unsafe { exchanged.subarray_unchecked(warp as usize * 128 * N + lane, 128 * N - lane) }
        };
        let (to, from) = (of_warp(warp), of_warp(other));
        unroll!(4, piece => {
            if piece < N {
                unroll!(4, of => {
                    // SAFETY: there are as many places, of which each is written by one lane.
                    unsafe { to.set_unchecked(32 * (4 * piece + of), given[piece][of]) };
                });
            }
        });
        slices.sync::<BIT>();
        unroll!(4, piece => {
            if piece < N {
                unroll!(4, of => {
                    // SAFETY: the other warp's lane has written it.
                    pieces[piece][of] += unsafe { from.get_unchecked(32 * (4 * piece + of)) };
                });
            }
        });
    }
}
