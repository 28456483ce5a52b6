// SPDX-License-Identifier: MIT OR Apache-2.0
//! What products by the kernel for any GPU cost, in tiles of each size, whole and with k cut into parts; and what it costs to add up
//! parts, for all kernels of `f32`.

use std::array;

use kernels_gpu::compiled::{Gemm, Tiled};
use kernels_gpu::matmul::gemm::{GemmShape, Large, Medium, Small};

/// Tiles of one product of the batch.
pub(super) fn blocks(shape: &GemmShape, [rows, columns]: [usize; 2]) -> usize {
    shape.m.div_ceil(rows).saturating_mul(shape.n.div_ceil(columns))
}

/// What products cost by tiles of that shape: a multiprocessor takes tiles in turn, and one costs as much as it has
/// elements, times a weight.
pub(super) fn cost(shape: &GemmShape, tile: [usize; 2], multiprocessors: usize, weight: usize) -> usize {
    let turns = blocks(shape, tile)
        .saturating_mul(shape.batch)
        .div_ceil(multiprocessors);
    turns.saturating_mul(tile[0] * tile[1] * weight)
}

/// A size of tiles, and what they cost for each element of k, where 6 000 000 is a microsecond of an H100.
#[derive(Clone, Copy)]
pub(super) struct TileCost {
    /// Rows and columns.
    pub(super) tile: [usize; 2],
    /// Tiles that a multiprocessor has at a time.
    at_once: usize,
    /// One by itself.
    first: usize,
    /// Each further one beside it.
    further: usize,
}

impl TileCost {
    /// What the products of a batch cost. The first tiles are spread evenly. Of the last round's, those multiprocessors that are done
    /// first take several: as measured, a quarter of them takes all of large tiles, and half of them of others.
    fn of(&self, shape: &GemmShape, multiprocessors: usize) -> usize {
        let tiles = blocks(shape, self.tile).saturating_mul(shape.batch);
        let several = |tiles: usize| match tiles {
            0 => 0,
            _ => self.first + (tiles - 1) * self.further,
        };
        let room = self.at_once * multiprocessors;
        let (rounds, rest) = (tiles / room, tiles % room);
        let rest = if rounds == 0 { rest } else { 8 / self.at_once * rest };
        let last = rest.div_ceil(multiprocessors).min(self.at_once);
        rounds
            .saturating_mul(several(self.at_once))
            .saturating_add(several(last))
    }
}

/// Those of each size, from large to small. Tiles that are few wait for memory, and small ones read more of shared memory for each
/// product.
pub(super) fn tile_costs<T: Tiled>() -> [TileCost; 3] {
    let tiles = [
        <T as Gemm<Large>>::BLOCK_TILE,
        <T as Gemm<Medium>>::BLOCK_TILE,
        <T as Gemm<Small>>::BLOCK_TILE,
    ];
    array::from_fn(|size| {
        let tile = tiles[size];
        let (at_once, first, further) = match size_of::<T>() {
            8 => (1, tile[0] * tile[1] * [40, 50, 100][size], 0),
            _ => MEASURED[size],
        };
        TileCost {
            tile,
            at_once,
            first,
            further,
        }
    })
}

/// Tiles of numbers of 4 bytes at a time, and what one costs, and a further one, as measured of `f32` on an H100.
const MEASURED: [(usize, usize, usize); 3] = [(2, 660_000, 500_000), (4, 239_000, 142_000), (4, 104_000, 58_000)];

/// The size of tiles with which the products are done first, from large to small, and what they cost then, for each element of k.
pub(super) fn best_size<T: Tiled>(shape: &GemmShape, multiprocessors: usize) -> (usize, usize) {
    let costs = tile_costs::<T>().map(|size| size.of(shape, multiprocessors));
    let costs = costs.into_iter().enumerate();
    costs.min_by_key(|&(_, cost)| cost).unwrap_or_default()
}

/// What products cost with their loads: one by one, where lines of numbers of 4 bytes begin anywhere, which takes an eighth longer.
fn with_loads(shape: &GemmShape, cost: usize) -> usize {
    match (shape.n | shape.k) % 4 {
        0 => cost,
        _ => cost.saturating_add(cost / 8),
    }
}

/// What it costs to begin and to end tiles of each size, from large to small, in the unit of [`best_size`] times k, beyond what it does
/// with the smallest tiles of Hopper's kernel.
const ENDS: [usize; 3] = [31_000_000, 9_000_000, 3_000_000];

/// The same of parts of k.
const ENDS_OF_PARTS: [usize; 3] = [0, 12_000_000, 10_000_000];

/// What it costs more for each element of a result whose lines begin anywhere, in the same unit times k.
const STORING: usize = 10;

/// What the products of a batch cost with k in one part, by the best size of tiles, in the unit of [`best_size`] times k.
pub(super) fn whole<T: Tiled>(shape: &GemmShape, multiprocessors: usize) -> usize {
    let (size, cost) = best_size::<T>(shape, multiprocessors);
    let cost = with_loads(shape, cost.saturating_mul(shape.k));
    let sums = shape.batch.saturating_mul(shape.m).saturating_mul(shape.n);
    let storing = match shape.n % 4 {
        0 => 0,
        _ => sums.saturating_mul(STORING),
    };
    cost.saturating_add(ENDS[size]).saturating_add(storing)
}

/// What becomes of the sums of parts of k, and what that costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    /// Whether they are not only added up.
    pub(super) finishes: bool,
    /// Whether the launch is there before the products are done.
    pub(super) is_ahead: bool,
}

impl Behind {
    /// The costs for so many parts, in the unit of [`best_size`] times k: the launch, and each sum, which is written and read. To finish
    /// takes longer for each result.
    pub(super) fn cost(self, shape: &GemmShape, parts: usize) -> usize {
        let launch = if self.is_ahead { 1_000_000 } else { 12_000_000 };
        let of_result = if self.finishes { 7 } else { 0 };
        let of_result = parts.saturating_mul(5).saturating_add(of_result);
        let results = shape.m.saturating_mul(shape.n);
        results.saturating_mul(of_result).saturating_add(launch)
    }
}

/// What a cut of k saves at least, in the unit of [`best_size`] times k: as much as a second launch takes behind a short product.
const LEAST_SAVED: usize = 7_200_000;

/// What a product may cost with k cut, where it costs so much without: a sum is no longer one chain, for which it saves a twentieth.
pub(super) fn worth_a_cut(cost: usize) -> usize {
    (cost / 20 * 19).min(cost.saturating_sub(LEAST_SAVED))
}

/// Into how many parts k is cut at most.
const MOST_PARTS: usize = 64;

/// What parts of k are whole multiples of, but the last one, so that each begins where accesses of 16 bytes may.
const PART_STEP: usize = 16;

/// A product by the kernel for any GPU with k cut into parts, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The number of the tiles' size.
    pub(super) size: usize,
    /// Of a part.
    k: usize,
    /// In the unit of [`best_size`], times k.
    pub(super) cost: usize,
}

impl Parts {
    /// How k is cut, so that each multiprocessor has as many tiles of parts as others; if that is [worth it](worth_a_cut).
    pub(super) fn best<T: Tiled>(shape: &GemmShape, behind: Behind, multiprocessors: usize) -> Option<Self> {
        let sizes = tile_costs::<T>();
        let tiles = sizes.map(|size| blocks(shape, size.tile));
        if shape.batch != 1 || shape.k < 2 * PART_STEP || tiles.contains(&0) {
            return None;
        }
        let whole = whole::<T>(shape, multiprocessors);
        // The kernel of large tiles takes no parts.
        let ways = (1..sizes.len()).flat_map(|size| (1..=sizes[size].at_once).map(move |turns| (size, turns)));
        let plans = ways.filter_map(|(size, turns)| {
            let parts = (turns * multiprocessors / tiles[size]).min(MOST_PARTS);
            if parts < 2 {
                return None;
            }
            let k = shape.k.div_ceil(parts).next_multiple_of(PART_STEP);
            let mut how = Self { size, k, cost: 0 };
            let batch = how.of(shape);
            let products = sizes[size].of(&batch, multiprocessors).saturating_mul(k);
            let behind = behind.cost(shape, batch.batch).saturating_add(ENDS_OF_PARTS[size]);
            how.cost = with_loads(shape, products).saturating_add(behind);
            Some(how)
        });
        plans
            .min_by_key(|how| how.cost)
            .filter(|how| how.cost < worth_a_cut(whole))
    }

    /// The batch of parts.
    pub(super) fn of(&self, shape: &GemmShape) -> GemmShape {
        let first = |[_, line, along]: [usize; 3]| [self.k * along, line, along];
        GemmShape {
            batch: shape.k.div_ceil(self.k),
            k: self.k,
            a: first(shape.a),
            b: first(shape.b),
            whole: shape.k,
            ..*shape
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::tests::shape;
    use super::*;

    fn size(batch: usize, m: usize, n: usize) -> usize {
        let shape = GemmShape {
            batch,
            ..shape(m, n, 100)
        };
        best_size::<f32>(&shape, 132).0
    }

    #[test]
    fn tiles_fill_the_device() {
        assert_eq!([size(1, 256, 256), size(1, 1, 1), size(1, 0, 5)], [2, 2, 0]);
        assert_eq!(size(1, 700, 700), 1);
        assert_eq!([size(1, 4096, 4096), size(1, 8192, 8192)], [0, 0]);
        assert_eq!([size(132, 128, 128), size(1000, 20, 20)], [0, 2]);
        assert_eq!(size(usize::MAX, usize::MAX, usize::MAX), 0);
    }

    #[test]
    fn a_long_k_is_cut_where_there_are_few_tiles() {
        let parts = |batch: usize, [m, n, k]: [usize; 3]| {
            let shape = GemmShape {
                batch,
                ..shape(m, n, k)
            };
            let behind = Behind {
                finishes: false,
                is_ahead: false,
            };
            let how = Parts::best::<f32>(&shape, behind, 132)?;
            let of = how.of(&shape);
            assert!(how.k.is_multiple_of(PART_STEP) && of.batch <= MOST_PARTS);
            assert!((of.batch - 1) * how.k < k && k <= of.batch * how.k, "{of:?}");
            assert_eq!((of.whole, of.a[0], of.b[0]), (k, how.k, how.k * n));
            Some(of.batch)
        };
        for few in [
            [37, 333, 5000],
            [100, 51, 4096],
            [100, 50, 1000],
            [256, 256, 4096],
            [1, 1, 100_000],
        ] {
            assert!(parts(1, few) > Some(4), "{few:?}");
        }
        for other in [[64; 3], [256; 3], [4096; 3], [0, 5, 5000], [5, 0, 5000], [5, 5, 0]] {
            assert_eq!(parts(1, other), None, "{other:?}");
        }
        assert_eq!(parts(2, [37, 333, 5000]), None, "a batch");
    }
}
