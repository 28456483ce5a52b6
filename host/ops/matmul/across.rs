// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of numbers of 16 bits on Hopper's tensor cores as `Cᵀ = Bᵀ Aᵀ`, by tiles of 176, of 168, of 160, of 112, of 96
//! and of 48 rows of `C`: where these fill the multiprocessors better than those of 64 and 128.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::{AcrossGemm, AcrossParams};
use kernels_gpu::matmul::epilogue::EpiloguePlan;
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::across::{copy_m, in_boxes};
use kernels_gpu::matmul::wgmma::{HALF_TILE_M, LINE, WgmmaShape, b_box, tile_k, tile_n};
use ndarray::{Dimension, Ix3};

use super::choices::{self, Factors, Kernel as Chosen};
use super::finish::{Finish, Passed};
use super::gemm::Multiplication;
use super::hopper::{self, is_hopper, takes_clusters, wgmma_shape};
use super::operand::can_be_mapped;
use super::tensor::{self, Factor, Half, Operand};
use super::ways::{self, Tile, Way};
use super::{hopper_costs, split};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;
use crate::tensor_map::Swizzle;
use crate::view::{DeviceView, DeviceViewMut};

/// The tiles: rows and columns of the product, with the cycles for 128 bytes along k as [`hopper_costs`] reckons them, or, of the last
/// one, as [`ways`] does.
pub(super) const TILES: [(Tile, usize); 8] = [
    ([96, 192], 820),
    ([176, 192], 1420),
    ([160, 256], 1810),
    ([168, 256], 1960),
    ([112, 128], 660),
    ([96, 128], 600),
    ([48, 64], 380),
    (IN_FOURS, 465),
];

/// The tile that there is in clusters of four alone.
pub(super) const IN_FOURS: Tile = [112, 64];

/// The registers of a thread that the sums of a tile take.
fn registers([rows, _]: Tile) -> usize {
    rows / tile_n(1)
}

/// By what a table tells the tiles apart: their columns, or, where others have as many, their rows.
fn name([rows, columns]: Tile) -> usize {
    if matches!(rows, 112 | 160 | 168 | 176) {
        rows
    } else {
        columns
    }
}

/// Whether the product can be done by these tiles: there is a step along k for each consumer that has its own, and the left operand lies
/// as they take it.
pub(super) fn can_have(of: &GemmShape, [rows, columns]: Tile) -> bool {
    let has_steps = columns > HALF_TILE_M || of.k > tile_k(2);
    has_steps && (of.a[2] == 1 || in_boxes(registers([rows, columns])))
}

/// Whether there are no more tiles than the cache has room for: the narrow ones are two for three multiprocessors at most, since more of
/// them at a time ask for more than it gives, as measured on an H200.
pub(super) fn has_room(of: &GemmShape, [rows, columns]: Tile, multiprocessors: usize) -> bool {
    let across = of.batch.saturating_mul(of.n.div_ceil(columns));
    let is_few = across.saturating_mul(of.m.div_ceil(rows)) <= multiprocessors * 2 / 3;
    (columns > HALF_TILE_M || is_few) && [rows, columns] != IN_FOURS
}

/// The tiles with which a product of elements of 16 bits is done first, and the cycles.
fn best(of: &GemmShape, multiprocessors: usize) -> Option<(Tile, usize)> {
    let steps = of.k.div_ceil(tile_k(2));
    let cycles = |(tile, step): (Tile, usize)| {
        let [rows, columns] = tile;
        // Copies of lines that are not there take longer than those of others: tiles of 64 rows leave them out.
        let is_short = of.m <= HALF_TILE_M && of.m.next_multiple_of(8) < rows;
        let step = if is_short { step * 3 / 2 } else { step };
        let across = of.batch.saturating_mul(of.n.div_ceil(columns));
        let turns = across.saturating_mul(of.m.div_ceil(rows)).div_ceil(multiprocessors);
        (has_room(of, tile, multiprocessors) && can_have(of, tile))
            .then_some((tile, turns.saturating_mul(steps).saturating_mul(step)))
    };
    TILES.into_iter().filter_map(cycles).min_by_key(|&(_, cycles)| cycles)
}

/// The tiles, and the binary logarithm of the blocks of a cluster, if a table names them, or if they are reckoned to be done before
/// all others, and no table says otherwise.
fn tile<T: Half, D>(
    product: &Multiplication<'_, T, D>,
    finishes: bool,
    stream: &Stream,
) -> Result<Option<(Tile, u32)>> {
    let of = &product.shape;
    let chosen = choices::choice(Factors::Half, of, stream)?.and_then(|choice| choice.tile_of(Chosen::Across));
    if let Some(chosen) = chosen {
        let tiles = TILES.map(|(tile, _)| tile);
        let found = tiles
            .into_iter()
            .find(|tile| name(*tile) == chosen && can_have(of, *tile));
        return Ok(found.map(|tile| (tile, 0)));
    }
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let others = |shape: &GemmShape| hopper_costs::least_cycles(shape, size_of::<T>(), multiprocessors);
    let has_clusters = takes_clusters(stream);
    let may_be = |way: &Way| way.cluster == 0 || has_clusters;
    let found = match ways::best(of, multiprocessors, may_be) {
        Some(way) if way.is_across => (way.tile, way.cluster),
        Some(_) => return Ok(None),
        None => match best(of, multiprocessors) {
            Some((tile, cycles)) if cycles < others(of) => (tile, 0),
            _ => return Ok(None),
        },
    };
    if split::best_cut_of_halves(of, finishes, multiprocessors).is_some() {
        return Ok(None);
    }
    Ok(tensor::choice::<T, D>(product, stream)?.is_none().then_some(found))
}

/// Multiplies by these tiles, if that is best, and they can finish the sums: all rows have a bias in common, and of old elements and a
/// residual, which a tensor map has, there is one at most.
pub(super) fn multiply<T: Half + AcrossGemm<F>, D: Dimension, F: Passed<f32>>(
    product: &Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, D>,
    finish: &Finish<'_, T, D, F>,
) -> Result<bool> {
    let of = &product.shape;
    let residual = finish.residual_of([of.batch, of.m, of.n]);
    let adds_one = finish.beta == 0.0 || residual.is_none();
    let can_finish = finish.alpha != 0.0 && finish.has_bias_of_row() && adds_one;
    let Some(shape) = (is_hopper(stream) && can_finish && residual.as_ref().is_none_or(can_be_mapped))
        .then(|| wgmma_shape(product))
        .flatten()
    else {
        return Ok(false);
    };
    let Some((tile, cluster)) = tile::<T, D>(product, finish.behind_parts(stream).finishes, stream)? else {
        return Ok(false);
    };
    let a = Operand::new(&product.b, [of.batch, of.n, of.k], of.b, true)?;
    let b = Operand::new(&product.a, [of.batch, of.m, of.k], of.a, true)?;
    if b.along_lines && !in_boxes(registers(tile)) {
        return Ok(false);
    }
    let mut shape = WgmmaShape {
        m: shape.n,
        n: shape.m,
        a_step: shape.b_step,
        b_step: shape.a_step,
        a_along_m: a.along_lines.into(),
        b_along_n: b.along_lines.into(),
        c_transposed: 1,
        tile_m: tile[1] as u32,
        cluster,
        ..shape
    };
    if finish.beta == 0.0 {
        hopper::reach_back(&mut shape, tile[0], [LINE / size_of::<T>(), copy_m(registers(tile))]);
    }
    let launch = Launch {
        shape,
        a,
        b,
        residual,
        stream,
    };
    hopper::write_mapped(
        out,
        [of.batch, of.m, of.n],
        finish.beta != 0.0,
        stream,
        |out| match registers(tile) {
            24 => launch.run::<<T as AcrossGemm<F>>::Tiles64By48, D, F>(24, out, finish),
            56 if tile == IN_FOURS => launch.run::<<T as AcrossGemm<F>>::Tiles64By112, D, F>(56, out, finish),
            56 => launch.run::<<T as AcrossGemm<F>>::Tiles128By112, D, F>(56, out, finish),
            80 => launch.run::<<T as AcrossGemm<F>>::Tiles256By160, D, F>(80, out, finish),
            84 => launch.run::<<T as AcrossGemm<F>>::Tiles256By168, D, F>(84, out, finish),
            88 => launch.run::<<T as AcrossGemm<F>>::Tiles192By176, D, F>(88, out, finish),
            _ => launch.run::<<T as AcrossGemm<F>>::Tiles192By96, D, F>(48, out, finish),
        },
    )?;
    Ok(true)
}

/// A launch for `Cᵀ = Bᵀ Aᵀ`, whose left operand is `a`.
struct Launch<'a, T> {
    shape: WgmmaShape,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    residual: Option<DeviceView<'a, T, Ix3>>,
    stream: &'a Stream,
}

impl<T: Half> Launch<'_, T> {
    /// With tiles whose sums take so many registers, as `K`'s do.
    fn run<K: Kernel<Params = AcrossParams<T, F>>, D: Dimension, F: Passed<f32>>(
        &self,
        registers: usize,
        out: &mut DeviceViewMut<'_, T, Ix3>,
        finish: &Finish<'_, T, D, F>,
    ) -> Result<()> {
        let of = <T as Factor>::TYPE;
        // Half of a tile each, where blocks of a cluster have it in common.
        let (halves_a, halves_b) = (self.shape.cluster > 0, self.shape.cluster > 1);
        let a = self
            .a
            .map_in_boxes(of, self.shape.tile_m as usize, tile_k(2), halves_a.into())?;
        let b = self
            .b
            .map_in_boxes(of, tile_n(registers), b_box(registers), halves_b.into())?;
        let result_box = hopper::result_box::<T>(copy_m(registers));
        let added = self.residual.as_ref();
        let residual = added
            .map(|added| added.tensor_map(&result_box, Swizzle::B128))
            .transpose()?;
        let has_residual = u32::from(residual.is_some());
        let mut c = out.tensor_map_mut(&result_box, Swizzle::B128)?;
        let config = hopper::config(&self.shape, registers, self.stream);
        let across = |[product, row, column]: [usize; 3]| [product, column, row];
        let plan = finish.plan();
        let plan = EpiloguePlan {
            bias: across(plan.bias),
            residual: [0; 3],
            ..plan
        };
        // Where there is no residual, nobody reads it.
        let residual = residual.as_ref().unwrap_or(&b);
        let (alpha, beta, bias) = (finish.alpha, finish.beta, finish.bias());
        let args = (
            &a,
            &b,
            &mut c,
            self.shape,
            alpha,
            beta,
            has_residual,
            plan,
            bias,
            residual,
        );
        // SAFETY: the kernel's contract: threads and shared memory are those of these tiles, and so are the maps' tiles, by how the
        // operands lie, and their swizzle. The bias has the product's shape, and is the same for all of its rows; a residual has that
        // shape, too, and then `beta` is 0, which `multiply` has asked. The clusters are the shape's.
        unsafe {
            self.stream
                .launch_in_clusters::<K>(&config, 1 << self.shape.cluster, args)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::tests::shape;
    use super::*;

    #[test]
    fn tiles_fill_the_device() {
        let found = [256, 384, 512, 640, 768, 1024, 1152, 1280, 1536, 2048, 3072, 4096].map(|side| {
            let of = shape(side, side, side);
            let best = best(&of, 132).filter(|&(_, cycles)| cycles < hopper_costs::least_cycles(&of, 2, 132));
            best.map(|([_, columns], _)| columns)
        });
        let wanted = [
            Some(64),
            Some(64),
            Some(64),
            None,
            None,
            None,
            Some(128),
            Some(128),
            Some(192),
            None,
            None,
            None,
        ];
        assert_eq!(found, wanted, "as measured on an H100");
    }
}
