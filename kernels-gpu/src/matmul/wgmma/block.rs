// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all roles of a block ask it: its tiles, alone or with its cluster's others, and the barriers and memory of its ring of stages.

use bytemuck::Pod;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{TensorMap, TensorMapMut};
use cuda_std::{cluster, hint};

use super::{
    Block, GROUP, HALF_TILE_M, LINE, TILE_M, WgmmaShape, a_bytes, across, added, b_bytes, barriers_bytes, consumers,
    group, may_be_in_fours, may_be_in_pairs, may_have_clusters, parts, produce, stages, store, tile_k, tile_m, tile_n,
    tiles_bytes,
};
use crate::matmul::tiles::{Tile, Tiles};

impl<'a, E: Pod, C: Pod, const R: usize> Block<'a, E, C, R> {
    /// Elements along k of a stage.
    pub(super) const TILE_K: u32 = tile_k(size_of::<E>()) as u32;

    /// Whether operands may lie along their lines: those of 16 bits.
    pub(super) const ANY_LAYOUT: bool = size_of::<E>() == 2;

    /// Whether an `A` that lies along m comes from registers: of TF32.
    pub(super) const FROM_REGISTERS: bool = size_of::<E>() == 4;

    /// Whether a launch may be in clusters of two.
    pub(super) const MAY_BE_IN_PAIRS: bool = Self::ANY_LAYOUT && may_be_in_pairs(R);

    /// Sums of a thread in a box.
    pub(super) const OF_BOX: usize = LINE / size_of::<C>() / 2;

    /// The first byte of the stages of `B`.
    pub(super) const B: usize = stages(R) * a_bytes(R);

    /// The first byte of the boxes.
    pub(super) const BOXES: usize = Self::B + stages(R) * b_bytes(R);

    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn new(
        a: TensorMap<'a, E>,
        b: TensorMap<'a, E>,
        c: TensorMapMut<'a, C>,
        shape: WgmmaShape,
    ) -> Self {
        let memory = cuda_std::shared::dynamic::<u8>().aligned::<1024>();
        // SAFETY: the block has as much memory behind that address.
        let barriers = unsafe { memory.subarray_unchecked(tiles_bytes(R), barriers_bytes(R)) }.cast::<u64>();
        let thread = thread::thread_idx_x();
        if thread == 0 {
            a.prefetch();
            b.prefetch();
        }
        let in_pairs = Self::is_in_pairs(shape);
        // Constants, so that the divisions are shifts.
        let of = |rows: usize, group| Self::tiles_of(in_pairs, [shape.batch, shape.m, shape.n], rows, group);
        let group = const { group(R, size_of::<E>()) };
        let tiles = match shape.shares_k(R) {
            true => of(HALF_TILE_M, GROUP),
            false if shape.leaves_one_out(R) => of(TILE_M, group),
            false => of(tile_m(R), group),
        };
        let (mut tiles, mut rank) = (tiles, 0);
        if may_have_clusters(R) && shape.cluster != 0 {
            // Those of a cluster, as one.
            let of = |rows: usize| {
                let tile = [rows as u32, 2 * tile_n(R) as u32];
                let group = if shape.shares_k(R) { GROUP } else { group };
                Tiles::new(shape.batch, [shape.m, shape.n], tile, group)
            };
            tiles = match (shape.leaves_one_out(R), shape.cluster == 2) {
                (true, true) => of(2 * TILE_M),
                (true, false) => of(TILE_M),
                (false, true) if shape.shares_k(R) => of(2 * HALF_TILE_M),
                (false, true) if may_be_in_fours(R) => of(2 * tile_m(R)),
                (false, _) => of(tile_m(R)),
            };
            rank = thread::block_idx_x() & ((1 << shape.cluster) - 1);
        }
        if in_pairs {
            rank = thread::block_idx_x() & 1;
        }
        let mut block = Self {
            a,
            b,
            c,
            shape,
            tiles,
            first: Tile::default(),
            rank,
            memory,
            barriers,
        };
        block.first = block.of_rank(tiles.tile(thread::block_idx_x() >> block.of_cluster()));
        // Not the producer's thread, which has the first tile to find.
        if thread == 128 {
            for stage in 0..stages(R) as u32 {
                block.full(stage).init(produce::producers(R));
                block.free(stage).init(block.readers() << block.cluster());
            }
            for group in 0..added(R) {
                // SAFETY: there is one for each consumer behind those of the stages.
                unsafe { Mbarrier::at_unchecked(barriers, 2 * stages(R) + group) }.init(4);
            }
            mbarrier::fence_init();
            c.prefetch();
        }
        thread::sync_threads();
        if block.cluster() != 0 {
            // The blocks' copies go to each other's memory, and arrive at each other's barriers.
            cluster::sync_started();
        }
        block
    }

    /// The same, of which nothing is computed ahead of the roles' ways apart: the assembler would keep it for both, in uniform
    /// registers, of which the widest tiles' loops leave none.
    #[inline(always)]
    pub(super) fn apart(&self) -> Self {
        if !store::may_wait(R, size_of::<C>()) {
            return *self;
        }
        let [rows, batch, n] = [self.tiles.extents[0] * TILE_M as u32, self.shape.batch, self.shape.n];
        let [rows, batch, n] = cuda_std::array::map([rows, batch, n], hint::opaque);
        let tile = [TILE_M as u32, tile_n(R) as u32];
        Self {
            tiles: Tiles::new(batch, [rows, n], tile, const { group(R, size_of::<E>()) }),
            ..*self
        }
    }

    /// Whether blocks are in pairs, which have neighbouring tiles.
    #[inline(always)]
    pub(super) fn is_in_pairs(shape: WgmmaShape) -> bool {
        Self::MAY_BE_IN_PAIRS && shape.cluster != 0
    }

    /// The tiles of blocks that are alone or in pairs, of so many rows.
    #[inline(always)]
    pub(super) fn tiles_of(in_pairs: bool, [batch, m, n]: [u32; 3], rows: usize, group: u32) -> Tiles {
        let tile = [rows as u32, tile_n(R) as u32];
        // Numbers go down first, in groups of an even number of rows: those of a pair are neighbours.
        let m = match in_pairs {
            true => m.next_multiple_of(2 * tile[0]),
            false => m,
        };
        Tiles::new(batch, [m, n], tile, group)
    }

    /// The binary logarithm of the cluster's blocks.
    #[inline(always)]
    pub(super) fn cluster(&self) -> u32 {
        match may_have_clusters(R) || Self::MAY_BE_IN_PAIRS {
            true => self.shape.cluster,
            false => 0,
        }
    }

    /// The binary logarithm of the tiles that are one number: those of a cluster but for pairs, whose numbers are neighbours.
    #[inline(always)]
    pub(super) fn of_cluster(&self) -> u32 {
        if may_have_clusters(R) { self.shape.cluster } else { 0 }
    }

    /// This block's tile of those that its cluster has.
    #[inline(always)]
    pub(super) fn of_rank(&self, mut tile: Tile) -> Tile {
        if self.of_cluster() != 0 {
            tile.row += (self.rank >> 1) * self.rows();
            tile.column += (self.rank & 1) * tile_n(R) as u32;
        }
        match Self::ANY_LAYOUT {
            true => tile.reach_back([self.shape.last_row, self.shape.last_column]),
            false => tile,
        }
    }

    /// Gives a stage back, which this consumer has read: to all blocks that fill it, also where what it read was this block's alone,
    /// for they copy to it next.
    #[inline(always)]
    pub(super) fn release(&self, stage: u32) {
        let thread = thread::thread_idx_x() % 128;
        if self.cluster() == 0 {
            self.free(stage).arrive_if(thread == 0);
        } else {
            let last = (1 << self.cluster()) - 1;
            // SAFETY: the cluster has so many blocks.
            let free = unsafe { self.free(stage).map_shared_rank_unchecked(thread & last) };
            free.arrive_unordered_if(thread <= last);
        }
    }

    /// Whether the consumers have stages in turn, and not rows: of tiles of 64 rows.
    #[inline(always)]
    pub(super) fn shares_k(&self) -> bool {
        self.shape.shares_k(R)
    }

    /// Rows of a tile.
    #[inline(always)]
    pub(super) fn rows(&self) -> u32 {
        match self.shares_k() {
            true => HALF_TILE_M as u32,
            false if self.shape.leaves_one_out(R) => TILE_M as u32,
            false => tile_m(R) as u32,
        }
    }

    /// This block's tiles.
    #[inline(always)]
    pub(super) fn tiles_of_block(&self) -> impl Iterator<Item = Tile> {
        core::iter::once(self.first).chain(self.other_tiles())
    }

    /// Those behind the first.
    #[inline(always)]
    pub(super) fn other_tiles(&self) -> impl Iterator<Item = Tile> {
        let step = thread::grid_dim_x() >> self.of_cluster();
        let first = (thread::block_idx_x() >> self.of_cluster()) + step;
        self.tiles.every(first, step).map(|tile| self.of_rank(tile))
    }

    /// Whether copies bring fewer lines of `A` than a tile has.
    #[inline(always)]
    pub(super) fn leaves_lines_out(&self) -> bool {
        R == 32 && size_of::<E>() <= 2 && self.shape.a_lines < HALF_TILE_M as u32
    }

    /// The barrier that the copies of a stage complete.
    #[inline(always)]
    pub(super) fn full(&self, stage: u32) -> Mbarrier {
        // SAFETY: there are two for each stage.
        unsafe { Mbarrier::at_unchecked(self.barriers, stage as usize) }
    }

    /// The barrier at which the consumers arrive when they are done with a stage.
    #[inline(always)]
    pub(super) fn free(&self, stage: u32) -> Mbarrier {
        // SAFETY: there are two for each stage.
        unsafe { Mbarrier::at_unchecked(self.barriers, stage as usize + stages(R)) }
    }

    /// The tiles from byte `at` on, of elements of the operands.
    #[inline(always)]
    pub(super) fn operands(&self, at: usize) -> Shared<E> {
        // SAFETY: what is asked for is in the tiles, of which there are as many bytes.
        unsafe { self.memory.subarray_unchecked(at, tiles_bytes(R) - at) }.cast()
    }

    #[inline(always)]
    pub(super) fn a_lies_along_m(&self) -> bool {
        (Self::ANY_LAYOUT || Self::FROM_REGISTERS) && self.shape.a_along_m != 0
    }

    /// Whether the consumers read `A` themselves.
    #[inline(always)]
    pub(super) fn a_comes_from_registers(&self) -> bool {
        Self::FROM_REGISTERS && self.a_lies_along_m()
    }

    /// Those who say that they are done with a stage: the consumers that have it, or, where they read of it themselves, their
    /// warps.
    #[inline(always)]
    pub(super) fn readers(&self) -> u32 {
        match (self.a_comes_from_registers(), self.shares_k()) {
            (true, _) => 4 * consumers(R) as u32,
            (false, true) => 1,
            (false, false) => self.rows() / (64 * parts(R) as u32),
        }
    }

    #[inline(always)]
    pub(super) fn b_lies_along_n(&self) -> bool {
        Self::ANY_LAYOUT && across::in_boxes(R) && self.shape.b_along_n != 0
    }
}
