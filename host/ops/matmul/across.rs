// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of numbers of 16 bits on Hopper's tensor cores as `Cᵀ = Bᵀ Aᵀ`, by tiles of 96 and of 48 rows of `C`: where these fill the
//! multiprocessors better than those of 64 and 128.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::{AcrossGemm, AcrossParams};
use kernels_gpu::matmul::epilogue::EpiloguePlan;
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::across::in_boxes;
use kernels_gpu::matmul::wgmma::{HALF_TILE_M, WgmmaShape, b_box, may_have_clusters, tile_k, tile_n};
use ndarray::{Dimension, Ix3};

use super::choices::{self, Factors, Kernel as Chosen};
use super::finish::{Finish, Passed};
use super::gemm::Multiplication;
use super::hopper::{self, is_hopper, takes_clusters, wgmma_shape};
use super::operand::can_be_mapped;
use super::split;
use super::tensor::{self, Factor, Half, Operand};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;
use crate::view::{DeviceView, DeviceViewMut};

/// The tiles: rows and columns of the product, with the cycles for 128 bytes along k as [`split`] reckons them.
const TILES: [(Tile, usize); 3] = [([96, 192], 820), ([96, 128], 600), ([48, 64], 380)];

/// Rows and columns.
type Tile = [usize; 2];

/// The registers of a thread that the sums of a tile take.
fn registers([rows, _]: Tile) -> usize {
    rows / tile_n(1)
}

/// Whether there is a step along k for each consumer that has its own.
fn has_steps(of: &GemmShape, [_, columns]: Tile) -> bool {
    columns > HALF_TILE_M || of.k > tile_k(2)
}

/// The tiles with which a product of elements of 16 bits is done first, and the cycles.
///
/// The narrow ones are five for six multiprocessors at most: more of them at a time ask the cache for more than it gives, as measured
/// on an H100.
fn best(of: &GemmShape, multiprocessors: usize) -> Option<(Tile, usize)> {
    let steps = of.k.div_ceil(tile_k(2));
    let cycles = |(tile, step): (Tile, usize)| {
        let [rows, columns] = tile;
        let across = of.batch.saturating_mul(of.n.div_ceil(columns));
        let tiles = across.saturating_mul(of.m.div_ceil(rows));
        let fits = columns > HALF_TILE_M || tiles <= multiprocessors * 5 / 6;
        let turns = tiles.div_ceil(multiprocessors);
        (fits && has_steps(of, tile)).then_some((tile, turns.saturating_mul(steps).saturating_mul(step)))
    };
    TILES.into_iter().filter_map(cycles).min_by_key(|&(_, cycles)| cycles)
}

/// The binary logarithm of the blocks of a cluster.
const CLUSTER: u32 = 2;

/// The tiles with which a product is done first by clusters, whose blocks read a tile of the left operand once, and the cycles: tiles
/// for one round of as many clusters as there is room for at a time, since those of four blocks do not fill all parts of a GPU. On an
/// H100 there were 30.
fn best_in_clusters(of: &GemmShape, multiprocessors: usize) -> Option<(Tile, usize)> {
    let steps = of.k.div_ceil(tile_k(2));
    let cycles = |(tile, step): (Tile, usize)| {
        let [rows, columns] = tile;
        let across = of.n.div_ceil(columns).next_multiple_of(1 << CLUSTER);
        let tiles = of.batch.checked_mul(across)?.checked_mul(of.m.div_ceil(rows))?;
        let fits = may_have_clusters(registers(tile)) && tiles <= multiprocessors * 10 / 11;
        fits.then_some((tile, steps.saturating_mul(step)))
    };
    TILES.into_iter().filter_map(cycles).min_by_key(|&(_, cycles)| cycles)
}

/// Whether lines of the operands, of 16-bit elements, begin within sectors of the cache, of 32 bytes: a copy takes about twice as long
/// then, where as many blocks read them as there are.
fn splits_sectors(of: &GemmShape) -> bool {
    let mut strides = [of.a, of.b].into_iter().flat_map(|[_, line, k]| [line, k]);
    strides.any(|stride| stride > 1 && !stride.is_multiple_of(16))
}

/// The tiles, and the binary logarithm of the blocks of a cluster, if a table names them, or if they are reckoned to be done before
/// all others and no table says otherwise.
fn tile<T: Half, D>(product: &Multiplication<'_, T, D>, stream: &Stream) -> Result<Option<(Tile, u32)>> {
    let of = &product.shape;
    let chosen = choices::choice(Factors::Half, of, stream)?.and_then(|choice| choice.tile_of(Chosen::Across));
    if let Some(chosen) = chosen {
        let tiles = TILES.map(|(tile, _)| tile);
        let found = tiles.into_iter().find(|tile| tile[1] == chosen && has_steps(of, *tile));
        return Ok(found.map(|tile| (tile, 0)));
    }
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let others = |shape: &GemmShape| split::least_cycles(shape, size_of::<T>(), multiprocessors);
    let best = best(of, multiprocessors);
    let least = best.map_or(usize::MAX, |(_, cycles)| cycles).min(others(of));
    let in_clusters = best_in_clusters(of, multiprocessors)
        .filter(|_| splits_sectors(of) && takes_clusters(stream))
        .filter(|&(_, cycles)| 3 * cycles <= 4 * least);
    let found = match (in_clusters, best) {
        (Some((tile, _)), _) => (tile, CLUSTER),
        (None, Some((tile, cycles))) if cycles < others(of) => (tile, 0),
        _ => return Ok(None),
    };
    if split::best_cut(of, false, others).is_some() {
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
    let Some((tile, cluster)) = tile::<T, D>(product, stream)? else {
        return Ok(false);
    };
    let a = Operand::new(&product.b, [of.batch, of.n, of.k], of.b, true)?;
    let b = Operand::new(&product.a, [of.batch, of.m, of.k], of.a, true)?;
    if b.along_lines && !in_boxes(registers(tile)) {
        return Ok(false);
    }
    let launch = Launch {
        shape: WgmmaShape {
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
        },
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
        let a = self.a.map(of, self.shape.tile_m as usize)?;
        let cluster = self.shape.cluster;
        let b = self.b.map_in_boxes(of, tile_n(registers), b_box(registers), cluster)?;
        let residual = self.residual.as_ref().map(hopper::map_of_added).transpose()?;
        let has_residual = u32::from(residual.is_some());
        let mut c = hopper::result_map(out)?;
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
        unsafe { self.stream.launch_in_clusters::<K>(&config, 1 << cluster, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fill_the_device() {
        let found = [256, 384, 512, 640, 768, 1024, 1152, 1280, 1536, 2048, 3072, 4096].map(|side| {
            let of = GemmShape {
                batch: 1,
                first: 0,
                m: side,
                n: side,
                k: side,
                a: [0, side, 1],
                b: [0, 1, side],
            };
            let best = best(&of, 132).filter(|&(_, cycles)| cycles < split::least_cycles(&of, 2, 132));
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
            None,
            Some(192),
            None,
            None,
            None,
        ];
        assert_eq!(found, wanted, "as measured on an H100");
    }

    #[test]
    fn clusters_have_room() {
        let of = |m: usize, n: usize, k: usize| GemmShape {
            batch: 1,
            first: 0,
            m,
            n,
            k,
            a: [0, k, 1],
            b: [0, 1, n],
        };
        let tile = |m, n, k| best_in_clusters(&of(m, n, k), 132).map(|(tile, _)| tile);
        assert_eq!(
            [tile(1304, 1000, 520), tile(1000, 1000, 1000), tile(2048, 2048, 2048)],
            [Some([96, 128]), Some([96, 128]), None]
        );
        assert!(splits_sectors(&of(1304, 1000, 520)) && splits_sectors(&of(600, 600, 600)));
        assert!(!splits_sectors(&of(640, 656, 640)) && !splits_sectors(&of(512, 512, 1)));
    }
}
