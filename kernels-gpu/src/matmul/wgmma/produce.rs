// SPDX-License-Identifier: MIT OR Apache-2.0
//! The producers: who has the stages filled.

use bytemuck::Pod;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::warpgroup;

use super::addend::Addend;
use super::{
    Block, LINE, Place, TILE_M, a_bytes, b_box, b_bytes, consumers, may_be_in_fours, stages, tile_k, tile_m, tile_n,
};
use crate::matmul::tiles::Tile;

/// Warps that have copies made, one thread each. With small tiles one for each operand: a thread asks for both in more time
/// than the consumers take.
pub(super) const fn producers(registers: usize) -> u32 {
    match registers {
        24 | 32 => 2,
        _ => 1,
    }
}

impl<E: Pod, C: Pod, const R: usize> Block<'_, E, C, R> {
    /// Has the stages filled, one after another, for each tile with its operands, and then with its addend. For the warps of the
    /// producers' warpgroup.
    // As `consume`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn produce(&self, warp: u32, addend: Option<Addend<'_, C>>) {
        warpgroup::decrease_registers::<40>();
        if warp >= producers(R) || !warp::elect() {
            return;
        }
        if Self::MAY_BE_IN_PAIRS && self.shape.cluster == 0 {
            // By instructions of its own: the first copies wait for these.
            let shape = self.shape.without_clusters();
            return Self { shape, ..*self }.produce_operands(warp, addend);
        }
        if consumers(R) == 2 {
            return self.produce_operands(warp, addend);
        }
        // Constants, so that nothing is between a stage's copies but what they take.
        match self.shape.leaves_one_out(R) {
            true => self.of_rows(TILE_M).produce_operands(warp, addend),
            false => self.of_rows(tile_m(R)).produce_operands(warp, addend),
        }
    }

    /// The same, whose tiles have so many rows, which they have.
    #[inline(always)]
    fn of_rows(&self, rows: usize) -> Self {
        Self {
            shape: self.shape.of_rows(rows),
            ..*self
        }
    }

    /// Has the stages filled by one thread of a warp.
    // As `produce`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce_operands(&self, warp: u32, addend: Option<Addend<'_, C>>) {
        match (producers(R), warp) {
            (1, _) => self.produce_tiles::<true, true>(addend),
            (_, 0) => self.produce_tiles::<true, false>(addend),
            _ => self.produce_tiles::<false, true>(addend),
        }
    }

    /// Has the tiles of `A`, of `B` or of both copied. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce_tiles<const OF_A: bool, const OF_B: bool>(&self, addend: Option<Addend<'_, C>>) {
        let mut place = Place::<R>::FIRST;
        if size_of::<E>() == 1 {
            for tile in self.tiles_of_block() {
                self.produce_tile::<OF_A, OF_B>(tile, &mut place, addend);
            }
            return;
        }
        // By itself: the others' places depend on the size of the grid, and where the producer's instructions come first, as
        // those of products of wider numbers do, what reads it waits until it is fetched.
        self.produce_tile::<OF_A, OF_B>(self.first, &mut place, addend);
        for tile in self.other_tiles() {
            self.produce_tile::<OF_A, OF_B>(tile, &mut place, addend);
        }
        if self.cluster() != 0 {
            self.await_all(place);
        }
    }

    /// Waits until all stages have been given back: the consumers of other blocks do so, and this block's barriers must be there as
    /// long.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn await_all(&self, mut place: Place<R>) {
        let mut number = 0;
        while number < stages(R) {
            self.free(place.stage).wait_cluster(place.round ^ 1);
            place = place.next();
            number += 1;
        }
    }

    /// Waits until a stage has been given back, by the consumers of all blocks that read what this one copies.
    #[inline(always)]
    pub(super) fn await_free(&self, place: Place<R>) {
        let free = self.free(place.stage);
        if self.cluster() == 0 {
            free.wait(place.round ^ 1);
        } else {
            free.wait_cluster(place.round ^ 1);
        }
    }

    /// Has all stages of a tile filled.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce_tile<const OF_A: bool, const OF_B: bool>(
        &self,
        tile: Tile,
        place: &mut Place<R>,
        addend: Option<Addend<'_, C>>,
    ) {
        let mut k = tile.product * self.shape.k_step;
        let end = k + self.shape.k;
        while k < end {
            self.await_free(*place);
            self.fill::<OF_A, OF_B>(place.stage, tile, k);
            *place = place.next();
            k += Self::TILE_K;
        }
        if let Some(addend) = addend {
            self.produce_addend::<OF_B>(tile, place, addend);
        }
    }

    /// Has the tiles of `A`, of `B` or of both at `k` copied to a stage, with which the consumers are done.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn fill<const OF_A: bool, const OF_B: bool>(&self, stage: u32, tile: Tile, k: u32) {
        let of_a = match (OF_A, R == 32 && size_of::<E>() <= 2) {
            (false, _) => 0,
            (true, false) => self.rows() * LINE as u32,
            (true, true) => self.shape.a_lines * LINE as u32,
        };
        let of_b = if OF_B { b_bytes(R) as u32 } else { 0 };
        let full = self.full(stage);
        full.arrive_expect_tx(of_a + of_b);
        if OF_A {
            self.fill_a(stage, tile, k, full);
        }
        if OF_B {
            self.fill_b(stage, tile, k, full);
        }
    }

    /// Has the tile of `A` at `k` copied to a stage.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill_a(&self, stage: u32, tile: Tile, k: u32, full: Mbarrier) {
        let to = stage as usize * a_bytes(R);
        if self.of_cluster() != 0 {
            let half = Half {
                map: self.a,
                lines: self.rows(),
                of_box: self.a_lies_along_m().then_some(tile_k(size_of::<E>())),
                number: self.rank & 1,
                // Those side by side.
                blocks: 0b0011 << (self.rank & 0b10),
            };
            return self.fill_half(half, to, [tile.row, k, tile.product * self.shape.a_step], full);
        }
        let (row, k, product) = (tile.row as i32, k as i32, (tile.product * self.shape.a_step) as i32);
        // SAFETY (of both): boxes of the map are, by the kernel's contract, as large as the stage has room for
        // them, at multiples of 1024 bytes. Nobody reads the stage before its barrier says that it is full.
        if !self.a_lies_along_m() {
            unsafe { self.a.load(self.operands(to), [k, row, product], full) };
        } else {
            // Elements in 128 bytes, and boxes of as many lines.
            let wide = tile_k(size_of::<E>());
            for i in 0..self.rows() as usize / wide {
                let at = [row + (wide * i) as i32, k, product];
                unsafe { self.a.load(self.operands(to + i * wide * LINE), at, full) };
            }
        }
    }

    /// The same of `B`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill_b(&self, stage: u32, tile: Tile, k: u32, full: Mbarrier) {
        let to = Self::B + stage as usize * b_bytes(R);
        if may_be_in_fours(R) && self.cluster() == 2 || Self::MAY_BE_IN_PAIRS && self.cluster() != 0 {
            // Those one above the other.
            let (number, blocks) = match Self::MAY_BE_IN_PAIRS {
                true => (self.rank, 0b11),
                false => (self.rank >> 1, 0b0101 << (self.rank & 1)),
            };
            let half = Half {
                map: self.b,
                lines: tile_n(R) as u32,
                of_box: self.b_lies_along_n().then_some(b_box(R)),
                number,
                blocks,
            };
            return self.fill_half(half, to, [tile.column, k, tile.product * self.shape.b_step], full);
        }
        let (column, k, product) = (tile.column as i32, k as i32, (tile.product * self.shape.b_step) as i32);
        // SAFETY (of both): as in `fill_a`.
        if !self.b_lies_along_n() {
            unsafe { self.b.load(self.operands(to), [k, column, product], full) };
        } else {
            let wide = b_box(R);
            for i in 0..tile_n(R) / wide {
                let at = [column + (wide * i) as i32, k, product];
                unsafe { self.b.load(self.operands(to + i * wide * LINE), at, full) };
            }
        }
    }

    /// Has half of an operand's tile copied to two blocks of the cluster: so many of its lines, or, where these lie along themselves in
    /// boxes, all of half the elements along k.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fill_half(&self, tile: Half<'_, E>, to: usize, [line, k, product]: [u32; 3], full: Mbarrier) {
        let Half {
            map,
            lines,
            of_box,
            number,
            blocks,
        } = tile;
        let product = product as i32;
        // SAFETY (of both): as in `fill_a`, of both blocks: they have given the stage back to this one, too. Their barriers are there,
        // and are told of the bytes in the phase that these complete, which a block's own arrival ends.
        match of_box {
            None => {
                let lines = lines / 2;
                let first = number * lines;
                let to = self.operands(to + first as usize * LINE);
                let at = [k as i32, (line + first) as i32, product];
                unsafe { map.load_multicast(to, at, full, blocks) };
            }
            Some(wide) => {
                let first = number * Self::TILE_K / 2;
                let to = to + first as usize * wide * size_of::<E>();
                for i in 0..lines as usize / wide {
                    let at = [(line + (wide * i) as u32) as i32, (k + first) as i32, product];
                    unsafe { map.load_multicast(self.operands(to + i * wide * LINE), at, full, blocks) };
                }
            }
        }
    }
}

/// Half of an operand's tile, for two blocks of a cluster.
struct Half<'a, E> {
    map: TensorMap<'a, E>,
    /// Lines of the tile.
    lines: u32,
    /// Lines of a box, if they lie along themselves.
    of_box: Option<usize>,
    /// 0 or 1.
    number: u32,
    /// A bit for each block of the cluster.
    blocks: u16,
}
