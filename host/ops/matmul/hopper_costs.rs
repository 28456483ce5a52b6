// SPDX-License-Identifier: MIT OR Apache-2.0
//! What products on Hopper's tensor cores cost: of numbers of 16 bits with their parts in nanoseconds, else in cycles by the width of
//! tiles; and what it costs to add up the parts of products, for all tensor cores.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{HALF_TILE_M, TILE_M, tile_k, tile_n};

use super::ways::{self, Lines};

/// The registers of a thread that the sums of a tile take: widths of tiles.
pub(super) const REGISTERS: [usize; 4] = [128, 96, 64, 32];

/// What there is to be done behind the products of parts, in the measure of what these cost: cycles, but of numbers of 16 bits on Hopper,
/// of which it is nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Adding {
    /// For the launch.
    launch: usize,
    /// For a million sums of parts.
    sums: usize,
    /// For a million results.
    results: usize,
    /// Whether numbers of parts that are no powers of two were measured.
    pub(super) any_number: bool,
    /// Whether the transpose may be computed.
    pub(super) may_be_transposed: bool,
}

impl Adding {
    /// For a million sums that are written, and read as columns of a transposed product, each a sector of the cache.
    const ACROSS: usize = 15_800;

    /// Of numbers of 16 bits on Hopper, whose sums are only added up, as [`nanoseconds`].
    pub(super) const OF_HALVES: Self = Self {
        launch: 1980,
        sums: 1640,
        results: 2450,
        any_number: true,
        may_be_transposed: false,
    };

    /// Of those that are finished, too: with a bias and a function.
    pub(super) const OF_FINISHED_HALVES: Self = Self {
        results: 3600,
        ..Self::OF_HALVES
    };

    /// Of numbers of 8 bits.
    pub(super) const OF_BYTES: Self = Self {
        launch: 13_000,
        sums: 3500,
        results: 0,
        any_number: false,
        may_be_transposed: false,
    };

    /// Of TF32, and on other devices.
    pub(super) const ELSEWHERE: Self = Self {
        launch: 9000,
        may_be_transposed: true,
        ..Self::OF_BYTES
    };

    /// The cost for so many parts of that shape, or of its transpose.
    pub(super) fn cost(&self, shape: &GemmShape, (parts, transposed): (usize, bool)) -> usize {
        let results = shape.m.saturating_mul(shape.n);
        let a_million = if transposed { Self::ACROSS } else { self.sums };
        let of_each = parts.saturating_mul(a_million).saturating_add(self.results);
        self.launch + results.saturating_mul(of_each) / 1_000_000
    }
}

/// Picoseconds in which a multiprocessor is given a line of 128 bytes of an operand with these strides, as measured on an H200, where all
/// have tiles of a long k.
fn line(strides: [usize; 3]) -> usize {
    match Lines::of_operand(strides) {
        Lines::Whole => 970,
        Lines::InTwo => 1500,
        Lines::WithinSectors => 1700,
    }
}

/// Nanoseconds ahead of the first step and behind the last of a product of numbers of 16 bits, as measured on an H200.
const ENDS: usize = 780;

/// The same for each turn.
const OF_TURN: usize = 990;

/// Nanoseconds for a whole product of numbers of 16 bits, which may be done by clusters, too, where lines are not the cache's: of a long k,
/// 2.1 of the cycles of [`ways`] were one on an H200.
pub(super) fn nanoseconds_whole(shape: &GemmShape, multiprocessors: usize) -> usize {
    let (alone, _) = nanoseconds(shape, multiprocessors);
    match ways::least_cycles(shape, multiprocessors) {
        Some(cycles) => alone.min(ENDS + OF_TURN + cycles / 21 * 10),
        None => alone,
    }
}

/// Nanoseconds for a batch of products of numbers of 16 bits by tiles of the best size, and the columns of these, as measured on an H200:
/// of a long k, of which a step takes less than those of a short one, with what is ahead of the first and behind the last. A step takes
/// as long as its products, or as its lines.
pub(super) fn nanoseconds(shape: &GemmShape, multiprocessors: usize) -> (usize, usize) {
    const SIZES: [([usize; 2], usize); 5] = [
        ([HALF_TILE_M, 64], 139),
        ([TILE_M, 64], 168),
        ([TILE_M, 128], 284),
        ([TILE_M, 192], 421),
        ([TILE_M, 256], 555),
    ];
    let steps = shape.k.div_ceil(tile_k(2));
    let of = |([rows, columns], step): ([usize; 2], usize)| {
        let turns = turns(shape, [rows, columns], multiprocessors);
        let is_short = rows == TILE_M && shape.m <= HALF_TILE_M;
        let products = if is_short { step * 3 / 2 } else { step };
        let lines = (rows * line(shape.a) + columns * line(shape.b)) / 1000;
        let of_turn = OF_TURN + steps.saturating_mul(products.max(lines));
        (ENDS + turns.saturating_mul(of_turn), columns)
    };
    SIZES.into_iter().map(of).min().unwrap_or_default()
}

/// How many tiles of so many rows and columns a multiprocessor takes, one after another.
fn turns(shape: &GemmShape, [rows, columns]: [usize; 2], multiprocessors: usize) -> usize {
    let tiles = shape.batch.saturating_mul(shape.m.div_ceil(rows));
    tiles
        .saturating_mul(shape.n.div_ceil(columns))
        .div_ceil(multiprocessors)
}

/// Cycles for 128 bytes along k of a tile of that many columns, of elements of so many bytes, as measured on an H200: those of the
/// tensor cores, but for narrow tiles, for which the copies take longer. Of bytes in tiles of 192 columns, as measured on an H100, 1.6
/// times those of 128.
pub(super) fn step_cycles(columns: usize, element: usize) -> usize {
    match (columns, element) {
        (192, 1) => 1155,
        _ => (114 + 19 * columns / 4).max(560),
    }
}

/// The same for tiles of [`HALF_TILE_M`] rows and 64 columns.
pub(super) const HALF_STEP_CYCLES: usize = 400;

/// Cycles for a batch of products of elements of so many bytes, with sums of so many registers. A multiprocessor takes
/// tiles in turn.
pub(super) fn cycles(shape: &GemmShape, element: usize, registers: usize, multiprocessors: usize) -> usize {
    best_rows(shape, element, registers, multiprocessors).1
}

/// The rows of tiles with sums of so many registers, and the cycles with them. Consumers of half as many rows
/// take stages in turn, so that there are two at least.
pub(super) fn best_rows(shape: &GemmShape, element: usize, registers: usize, multiprocessors: usize) -> (usize, usize) {
    let columns = tile_n(registers);
    let steps = shape.k.div_ceil(tile_k(element));
    let cycles = |rows: usize, step: usize| {
        let turns = turns(shape, [rows, columns], multiprocessors);
        (rows, turns.saturating_mul(steps).saturating_mul(step))
    };
    let step = step_cycles(columns, element);
    // Copies of lines that are not there take longer than those of others, and these tiles have all of theirs copied.
    let is_short = element <= 2 && shape.m <= HALF_TILE_M;
    let whole = cycles(TILE_M, if is_short { step * 3 / 2 } else { step });
    let half = cycles(HALF_TILE_M, HALF_STEP_CYCLES);
    let has_half = registers == 32 && steps > 1;
    if has_half && half.1 < whole.1 { half } else { whole }
}

/// Cycles with the best width of tiles.
pub(super) fn least_cycles(shape: &GemmShape, element: usize, multiprocessors: usize) -> usize {
    let of = REGISTERS.map(|registers| cycles(shape, element, registers, multiprocessors));
    of.into_iter().min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::split::tests::shape;
    use super::*;

    #[test]
    fn widths_of_tiles_fill_the_device() {
        let best = |m, n, k| {
            let cost = |&registers: &usize| cycles(&shape(m, n, k), 2, registers, 132);
            REGISTERS.into_iter().min_by_key(cost)
        };
        let found = [1024, 1536, 3072, 4096].map(|side| best(side, side, side));
        assert_eq!(
            found,
            [Some(32), Some(96), Some(96), Some(128)],
            "as measured on an H200"
        );
        let rows = [256, 512, 640, 768, 1024].map(|side| best_rows(&shape(side, side, side), 2, 32, 132).0);
        assert_eq!(rows, [64, 64, 64, 128, 128], "as measured on an H200");
        assert_eq!(best_rows(&shape(512, 512, 64), 2, 32, 132).0, 128, "one step");
    }
}
