// SPDX-License-Identifier: MIT OR Apache-2.0
//! With which tiles products of numbers of 16 bits are done first on Hopper's tensor cores, where lines of the operands do not all begin
//! at lines of the cache: then a step along k of a tile takes as long as its instructions, or as the cache takes to give all blocks what
//! they ask for, whichever is more. Blocks of a cluster ask for less.
//!
//! What the cache gives was measured on an H100 and an H200, docs/kernels/matmul.md has the account.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{
    HALF_TILE_M, TILE_M, may_be_in_fours, may_be_in_pairs, may_have_clusters, tile_k, tile_n,
};

use super::across;
use super::hopper_costs;

/// Rows and columns.
pub(super) type Tile = [usize; 2];

/// The multiprocessors of the GPU on which it was measured what the cache gives: of more or fewer, it is taken to give as much more or
/// less.
const MEASURED: usize = 132;

/// How lines of 128 bytes of the operands lie in the cache, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lines {
    /// Each is one of the cache's.
    Whole,
    /// Some are parts of two of them, by whole sectors of 32 bytes.
    InTwo,
    /// Some begin within sectors.
    WithinSectors,
}

impl Lines {
    /// Those of the operands of a product of 16-bit elements.
    fn of(product: &GemmShape) -> Self {
        Self::of_operand(product.a).max(Self::of_operand(product.b))
    }

    /// Those of an operand with these strides: products, lines, k.
    pub(super) fn of_operand([_, line, k]: [usize; 3]) -> Self {
        let all_begin_at = |multiple: usize| {
            [line, k]
                .iter()
                .all(|&stride| stride <= 1 || stride.is_multiple_of(multiple))
        };
        match (all_begin_at(64), all_begin_at(16)) {
            (true, _) => Self::Whole,
            (false, true) => Self::InTwo,
            (false, false) => Self::WithinSectors,
        }
    }
}

/// A way to multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) tile: Tile,
    /// Whether the transpose is computed, by the kernel for that.
    pub(super) is_across: bool,
    /// The binary logarithm of a cluster's blocks. Two have tiles one above the other, four two by two: they ask for a tile of the right
    /// operand together, and four for one of the left.
    pub(super) cluster: u32,
}

impl Way {
    /// The registers of a thread that the sums take.
    pub(super) fn registers(&self) -> usize {
        self.tile[usize::from(!self.is_across)] / tile_n(1)
    }

    /// Whether there is such a way for the product.
    fn can_be(&self, of: &GemmShape, lines: Lines, multiprocessors: usize) -> bool {
        let there_is = match self.is_across {
            true => across::can_have(of, self.tile),
            false => self.tile[0] > HALF_TILE_M || of.k > tile_k(2),
        };
        let within_sectors = lines == Lines::WithinSectors;
        there_is
            && match (self.cluster, self.is_across) {
                (0, true) => across::has_room(of, self.tile, multiprocessors),
                (0, false) => true,
                (1, false) => may_be_in_pairs(self.registers()),
                (_, false) => false,
                // Of whole sectors the narrow ones take longer so.
                (1, true) => {
                    let there_are = may_have_clusters(self.registers()) && self.tile != across::IN_FOURS;
                    there_are && (within_sectors || !self.is_narrow())
                }
                // They leave multiprocessors idle.
                (_, true) => {
                    let fits = self.tiles(of) <= self.room(multiprocessors);
                    may_be_in_fours(self.registers()) && within_sectors && fits
                }
            }
    }

    /// The tiles, with those beyond the product that whole clusters have.
    fn tiles(&self, of: &GemmShape) -> usize {
        let [rows, columns] = self.tile;
        let [down, right] = [self.cluster > 0, self.cluster > 1].map(|is| 1 << u32::from(is));
        let rows = of.m.div_ceil(rows).next_multiple_of(down);
        let columns = of.n.div_ceil(columns).next_multiple_of(right);
        of.batch.saturating_mul(rows).saturating_mul(columns)
    }

    /// The blocks that there is room for at a time: clusters of four do not fill all parts of a GPU. On an H100 there were 30, and 66 of
    /// two.
    fn room(&self, multiprocessors: usize) -> usize {
        match self.cluster {
            0 => multiprocessors,
            1 => (multiprocessors / 2 * 2).max(2),
            _ => multiprocessors * 10 / 11,
        }
    }

    /// The lines that a block asks for in a step.
    fn lines(&self) -> usize {
        let [rows, columns] = self.tile;
        (rows >> u32::from(self.cluster > 1)) + (columns >> u32::from(self.cluster > 0))
    }

    /// The lines that the cache gives all blocks in a cycle, of a GPU of [`MEASURED`] multiprocessors. Neighbours ask for the same ones at the
    /// same time, as long as all have their first tiles.
    fn lines_a_cycle(&self, lines: Lines, all_at_once: bool) -> usize {
        match (lines, self.cluster) {
            (Lines::WithinSectors, 0) if self.tile[0] == HALF_TILE_M => 34,
            (Lines::WithinSectors, 1) if self.is_narrow() => 20,
            (Lines::WithinSectors, 2) if self.tile == across::IN_FOURS => 26,
            (Lines::WithinSectors, 2) => 19,
            (Lines::WithinSectors, _) => 26,
            // By an H200, of squares from 900 to 1520.
            (_, 0) if all_at_once && self.lines() <= 288 && !self.is_narrow() => 46,
            _ => 37,
        }
    }

    /// Whether it is one of the transpose's of 128 columns.
    fn is_narrow(&self) -> bool {
        self.is_across && self.tile[1] == 128
    }

    /// Whether it is one of the transpose's of 160 and 176 rows.
    fn is_large(&self) -> bool {
        self.is_across && self.tile[0] >= 160
    }

    /// Cycles for a step along k whose lines the cache gives at once, where without clusters they are so many: in clusters the narrow tiles
    /// wait less for their copies, if lines begin within sectors, and so do those of 256 columns. By an H200, but for the narrow ones.
    fn step(&self, alone: usize, lines: Lines) -> usize {
        match (lines, self.cluster) {
            (_, 0) => alone,
            (Lines::WithinSectors, _) if self.is_narrow() => alone * 4 / 5,
            (_, 1) if self.is_across && self.tile[1] == 256 => alone * 14 / 15,
            (_, 1) if self.is_large() => alone,
            (Lines::InTwo, 1) if self.is_across => alone * 17 / 16,
            (_, 1) if self.is_across => alone * 8 / 7,
            _ => alone,
        }
    }

    /// Cycles of the product, of so many for a step along k without clusters.
    fn cycles(&self, alone: usize, of: &GemmShape, lines: Lines, multiprocessors: usize) -> usize {
        let (tiles, room) = (self.tiles(of), self.room(multiprocessors));
        let a_cycle = self.lines_a_cycle(lines, tiles <= room) * multiprocessors;
        let step = |blocks: usize| {
            let copies = blocks.saturating_mul(self.lines() * MEASURED) / a_cycle;
            copies.max(self.step(alone, lines))
        };
        let (turns, rest) = (tiles / room, tiles % room);
        let last = if rest > 0 { step(rest) } else { 0 };
        let steps = of.k.div_ceil(tile_k(2));
        turns
            .saturating_mul(step(room))
            .saturating_add(last)
            .saturating_mul(steps)
    }
}

/// All ways, those without clusters first, each with the cycles of a step along k without any.
fn all() -> impl Iterator<Item = (Way, usize)> {
    let half = ([HALF_TILE_M, tile_n(32)], hopper_costs::HALF_STEP_CYCLES);
    let whole = hopper_costs::REGISTERS.map(tile_n);
    let whole = whole.map(|columns| ([TILE_M, columns], hopper_costs::step_cycles(columns, 2)));
    [0, 2, 1].into_iter().flat_map(move |cluster| {
        let along = whole.into_iter().chain([half]).map(|tile| (tile, false));
        let across = across::TILES.into_iter().map(|tile| (tile, true));
        along.chain(across).map(move |((tile, step), is_across)| {
            let way = Way {
                tile,
                is_across,
                cluster,
            };
            (way, step)
        })
    })
}

/// The way by which a product of 16-bit elements is done first, where lines of the operands are not those of the cache, and there are
/// more rows than the smallest tile has.
pub(super) fn best(of: &GemmShape, multiprocessors: usize, may_be: impl Fn(&Way) -> bool) -> Option<Way> {
    best_and_cycles(of, multiprocessors, may_be).map(|(way, _)| way)
}

/// The cycles of the way by which such a product is done first.
pub(super) fn least_cycles(of: &GemmShape, multiprocessors: usize) -> Option<usize> {
    best_and_cycles(of, multiprocessors, |_| true).map(|(_, cycles)| cycles)
}

/// [`best`], and its cycles.
fn best_and_cycles(of: &GemmShape, multiprocessors: usize, may_be: impl Fn(&Way) -> bool) -> Option<(Way, usize)> {
    let lines = Lines::of(of);
    if lines == Lines::Whole || of.m <= HALF_TILE_M {
        return None;
    }
    let ways = all().filter(|(way, _)| may_be(way) && way.can_be(of, lines, multiprocessors));
    let ways = ways.map(|(way, step)| (way, way.cycles(step, of, lines, multiprocessors)));
    ways.min_by_key(|&(_, cycles)| cycles)
}

#[cfg(test)]
mod tests {
    use super::super::split::tests::shape as of;
    use super::*;

    fn way(shape: [usize; 3], multiprocessors: usize) -> Option<(Tile, bool, u32)> {
        let [m, n, k] = shape;
        best(&of(m, n, k), multiprocessors, |_| true).map(|way| (way.tile, way.is_across, way.cluster))
    }

    #[test]
    fn lines_and_the_cache() {
        let found = [[1304, 1000, 520], [600; 3], [640, 656, 640], [2048; 3], [512, 512, 1]]
            .map(|[m, n, k]| Lines::of(&of(m, n, k)));
        let [whole, in_two, within] = [Lines::Whole, Lines::InTwo, Lines::WithinSectors];
        assert_eq!(found, [within, within, in_two, whole, whole]);
        assert_eq!(way([2048; 3], 132), None, "lines of the cache");
        assert_eq!(way([64, 2008, 2008], 132), None, "few rows");
    }

    #[test]
    fn ways_as_measured() {
        let found = [
            [1304, 1304, 1304],
            [1304, 1304, 520],
            [1176, 1176, 1176],
            [1000, 1000, 1000],
            [776, 776, 776],
            [888, 888, 888],
            [840, 1000, 4104],
            [1560, 1560, 1560],
            [2008, 2008, 2008],
            [2104, 2104, 2104],
            [2200, 2200, 2200],
            [2264, 2264, 2264],
            [3088, 3088, 3088],
            [1608, 2872, 3072],
            [4112, 4112, 4112],
            [992, 992, 992],
            [1488, 1488, 1488],
            [2592, 2592, 2592],
            [1312, 1312, 1312],
            [1200, 1200, 1200],
        ];
        let wanted = [
            Some(([96, 192], true, 2)),
            Some(([96, 192], true, 2)),
            Some(([112, 128], true, 2)),
            Some(([112, 128], true, 2)),
            Some(([112, 64], true, 2)),
            Some(([112, 64], true, 2)),
            Some(([96, 128], true, 2)),
            Some(([128, 192], false, 1)),
            Some(([128, 256], false, 1)),
            Some(([176, 192], true, 1)),
            Some(([160, 256], true, 1)),
            Some(([168, 256], true, 1)),
            Some(([160, 256], true, 1)),
            Some(([168, 256], true, 1)),
            Some(([176, 192], true, 0)),
            Some(([128, 64], false, 0)),
            Some(([96, 192], true, 0)),
            Some(([96, 192], true, 1)),
            Some(([128, 128], false, 0)),
            Some(([112, 128], true, 0)),
        ];
        assert_eq!(found.map(|shape| way(shape, 132)), wanted);
    }

    /// Those of tests/matmul_half.rs.
    #[test]
    fn clusters_have_room() {
        let found = [
            ([192, 312, 72], 9),
            ([224, 504, 72], 9),
            ([216, 248, 72], 9),
            ([200, 312, 72], 7),
            ([136, 184, 72], 2),
            ([248, 376, 72], 4),
            ([136, 248, 72], 2),
            ([360, 248, 72], 2),
            ([328, 248, 72], 2),
            ([296, 248, 72], 2),
        ];
        let wanted = [
            Some(([96, 128], true, 2)),
            Some(([112, 128], true, 2)),
            Some(([112, 64], true, 2)),
            Some(([112, 128], true, 1)),
            Some(([96, 192], true, 1)),
            Some(([128, 192], false, 1)),
            Some(([128, 256], false, 1)),
            Some(([128, 256], false, 1)),
            Some(([168, 256], true, 1)),
            Some(([160, 256], true, 1)),
        ];
        assert_eq!(
            found.map(|(shape, multiprocessors)| way(shape, multiprocessors)),
            wanted
        );
    }
}
