// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f64`: on tensor cores, if they are large enough, Hopper's or, by the instructions of a warp, those of the other
//! chips of data centres from Ampere on; and elsewhere on the ordinary cores.

use cuda_std::launch::Kernel;
use cuda_std::wgmma::{KMajor, MnMajor};
use kernels_gpu::compiled::DmmaParams;
use kernels_gpu::matmul::dmma::{DmmaShape, Side, THREADS, TILE_K, TILE_N, WARPS, gemm_dmma, shared_bytes};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::mma::double::{SIDE, gemm_f64_mma};
use kernels_gpu::matmul::mma::{MmaShape, Narrow};
use ndarray::{Dimension, Ix1};

use super::AMPERE;
use super::ampere::{self, Operands};
use super::choices::{self, Factors, Kernel as Chosen};
use super::finish::Finish;
use super::gemm::{self, Multiplication};
use super::hopper::is_hopper;
use super::operand::coordinates;
use super::tensor::Operand;
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::tensor_map::TensorType;

/// Multiplies on that stream.
pub(super) fn multiply<D: Dimension>(
    product: Multiplication<'_, f64, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<f64, D>,
    finish: &Finish<'_, f64, D>,
) -> Result<()> {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let choice = choices::choice(Factors::F64, &product.shape, stream)?;
    let rows_of = |kernel| choice.and_then(|choice| choice.tile_of(kernel));
    let elsewhere = rows_of(Chosen::Gemm);
    let rows = (finish.alpha != 0.0 && is_hopper(stream) && elsewhere.is_none())
        .then(|| {
            let best = || best_rows(&product.shape, multiprocessors);
            let few = || (has_few_tiles(&product.shape, multiprocessors) && lies(&product)).then_some(32);
            rows_of(Chosen::Dmma).or_else(best).or_else(few)
        })
        .flatten();
    let launch = rows.and_then(|rows| Some((rows, dmma_shape(&product.shape, rows, multiprocessors)?)));
    let Some((rows, shape)) = launch else {
        let chosen = rows_of(Chosen::Dmma).is_some();
        let able = finish.alpha != 0.0 && elsewhere.is_none() && is_of_data_centres(stream);
        let shape = (able && (chosen || pays_by_warps(&product.shape, multiprocessors)))
            .then(|| ampere::mma_shape(&product.shape, AMPERE, stream))
            .flatten();
        return match shape {
            Some(shape) => by_warps(&product, shape, stream, out, finish),
            None => product.run_by(elsewhere, stream, out, finish),
        };
    };
    let of = &product.shape;
    let (a, b) = (
        Operand::new(&product.a, [of.batch, of.m, of.k], of.a, true)?,
        Operand::new(&product.b, [of.batch, of.n, of.k], of.b, true)?,
    );
    let launch = Launch {
        a: &a,
        b: &b,
        shape,
        blocks: blocks(of, rows).min(multiprocessors) as u32,
        stream,
    };
    match (a.along_lines, b.along_lines) {
        (false, false) => launch.run_by::<KMajor, KMajor, D>(rows, out, finish),
        (false, true) => launch.run_by::<KMajor, MnMajor, D>(rows, out, finish),
        (true, false) => launch.run_by::<MnMajor, KMajor, D>(rows, out, finish),
        (true, true) => launch.run_by::<MnMajor, MnMajor, D>(rows, out, finish),
    }
}

/// Whether each of the smallest tiles has a multiprocessor of its own. Tensor cores then take half the time of the ordinary
/// ones, whatever the k.
fn has_few_tiles(shape: &GemmShape, multiprocessors: usize) -> bool {
    (1..=multiprocessors).contains(&blocks(shape, 32))
}

/// Whether no operand has to be copied for the tensor memory accelerator, which takes as long as a small product.
fn lies<D: Dimension>(product: &Multiplication<'_, f64, D>) -> bool {
    let of = &product.shape;
    Operand::lies(&product.a, [of.batch, of.m, of.k], of.a) && Operand::lies(&product.b, [of.batch, of.n, of.k], of.b)
}

/// Whether the tensor cores of the stream's device multiply `f64`, if it has Ampere's: those of chips of data centres. The
/// simulated GPU is what it is said to be.
fn is_of_data_centres(stream: &Stream) -> bool {
    let properties = stream.backend().properties();
    let chip = properties.compute_capability.or(properties.tensor_cores);
    matches!(chip, Some((8..=10, 0)))
}

/// Whether the products are done first by the instructions of a warp, and not on the ordinary cores.
fn pays_by_warps(shape: &GemmShape, multiprocessors: usize) -> bool {
    let (_, elsewhere) = gemm::best_size(shape, gemm::tiles::<f64>(), multiprocessors);
    gemm::cost(shape, [SIDE; 2], multiprocessors, 20) < elsewhere
}

/// One launch for all products, by the instructions of a warp.
fn by_warps<D: Dimension>(
    product: &Multiplication<'_, f64, D>,
    mut shape: MmaShape,
    stream: &Stream,
    out: &mut DeviceArrayRef<f64, D>,
    finish: &Finish<'_, f64, D>,
) -> Result<()> {
    let operands = Operands::new(product, true, &mut shape)?;
    let launch = ampere::Launch {
        operands: &operands,
        shape,
        stream,
    };
    let config = ampere::config::<f64, Narrow>(&product.shape, SIDE);
    launch.run::<gemm_f64_mma, _, _>(config, out, finish)
}

/// The shape of the kernel's launch with tiles of so many rows, if its numbers fit.
fn dmma_shape(shape: &GemmShape, rows: usize, multiprocessors: usize) -> Option<DmmaShape> {
    let shares = Shares::new(shape, rows, multiprocessors);
    Some(DmmaShape {
        whole: u32::try_from(shares.whole).ok()?,
        share: shares.share,
        batch: coordinates(shape.batch)?,
        m: coordinates(shape.m)?,
        n: coordinates(shape.n)?,
        k: coordinates(shape.k).filter(|&k| k > 0)?,
        a_step: (shape.a[0] != 0).into(),
        b_step: (shape.b[0] != 0).into(),
    })
}

/// Tiles of all products, of so many rows.
fn blocks(shape: &GemmShape, rows: usize) -> usize {
    let of_product = shape.m.div_ceil(rows).saturating_mul(shape.n.div_ceil(TILE_N));
    of_product.saturating_mul(shape.batch)
}

/// What one block takes to hand a tile's sums over to another, in steps along k of such tiles.
const HANDING_OVER: usize = 4;

/// How the tiles are shared out among the multiprocessors, a block each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    /// Tiles that are not cut.
    whole: usize,
    /// Steps along k that a block has of the others.
    share: u32,
    /// What the block with the most to do takes, in steps.
    steps: usize,
}

impl Shares {
    /// Those with tiles of so many rows. If the last round would leave multiprocessors idle, its tiles and those of the round
    /// before are cut along k, so that all have the same, unless handing over takes longer than that saves. A tile has one cut at
    /// most then, and its beginning is there long before its end is wanted.
    fn new(shape: &GemmShape, rows: usize, multiprocessors: usize) -> Self {
        let (tiles, of_tile) = (blocks(shape, rows), shape.k.div_ceil(TILE_K));
        let whole = Self {
            whole: tiles,
            share: 0,
            steps: tiles.div_ceil(multiprocessors).saturating_mul(of_tile),
        };
        let last = tiles % multiprocessors;
        if tiles < multiprocessors || last == 0 {
            return whole;
        }
        let cut = multiprocessors + last;
        let share = cut.saturating_mul(of_tile).div_ceil(multiprocessors);
        // All shares one after another are counted in 32 bits.
        let counted = u32::try_from(share)
            .ok()
            .filter(|_| u32::try_from(share.saturating_mul(multiprocessors)).is_ok());
        let shares = counted.map(|counted| Self {
            whole: tiles - cut,
            share: counted,
            steps: (tiles - cut) / multiprocessors * of_tile + share + HANDING_OVER,
        });
        shares.filter(|shares| shares.steps < whole.steps).unwrap_or(whole)
    }
}

/// The rows of tiles with which tensor cores are done first, unless the ordinary cores are done earlier still: theirs are
/// smaller, so that more multiprocessors have one.
fn best_rows(shape: &GemmShape, multiprocessors: usize) -> Option<usize> {
    let cost = |rows: usize, weight| {
        let steps = Shares::new(shape, rows, multiprocessors).steps;
        steps.saturating_mul(rows * TILE_N * weight)
    };
    let (_, elsewhere) = gemm::best_size(shape, gemm::tiles::<f64>(), multiprocessors);
    let (cost, rows) = (cost(128, 19), 128).min((cost(64, 20), 64)).min((cost(32, 25), 32));
    (cost < elsewhere.saturating_mul(shape.k.div_ceil(TILE_K))).then_some(rows)
}

struct Launch<'a> {
    a: &'a Operand<'a, f64>,
    b: &'a Operand<'a, f64>,
    shape: DmmaShape,
    blocks: u32,
    stream: &'a Stream,
}

impl Launch<'_> {
    /// By tiles of so many rows, with operands that lie so.
    fn run_by<A: Side, B: Side, D: Dimension>(
        &self,
        rows: usize,
        out: &mut DeviceArrayRef<f64, D>,
        finish: &Finish<'_, f64, D>,
    ) -> Result<()>
    where
        gemm_dmma<A, B, 32>: Kernel<Params = DmmaParams>,
        gemm_dmma<A, B, 64>: Kernel<Params = DmmaParams>,
        gemm_dmma<A, B, 128>: Kernel<Params = DmmaParams>,
    {
        match rows {
            32 => self.run::<gemm_dmma<A, B, 32>, D>(rows, out, finish),
            64 => self.run::<gemm_dmma<A, B, 64>, D>(rows, out, finish),
            _ => self.run::<gemm_dmma<A, B, 128>, D>(rows, out, finish),
        }
    }

    /// One launch for all products, by tiles of so many rows, as `K`'s have.
    fn run<K: Kernel<Params = DmmaParams>, D: Dimension>(
        &self,
        rows: usize,
        out: &mut DeviceArrayRef<f64, D>,
        finish: &Finish<'_, f64, D>,
    ) -> Result<()> {
        let (a, b) = (self.a.map(TensorType::F64, rows)?, self.b.map(TensorType::F64, TILE_N)?);
        let config = LaunchConfig {
            dynamic_shared: shared_bytes(rows),
            ..LaunchConfig::new(self.blocks, THREADS as u32)
        };
        let (alpha, beta, plan) = (finish.alpha, finish.beta, finish.plan());
        let (bias, residual) = (finish.bias(), finish.residual());
        let handing = if self.shape.share > 0 { self.blocks as usize } else { 0 };
        let mut partials = DeviceArray::uninit(self.stream, Ix1(handing * rows * TILE_N))?;
        let mut flags = self.stream.take_counters(handing * WARPS)?;
        let args = (
            &a,
            &b,
            out,
            self.shape,
            alpha,
            beta,
            plan,
            bias,
            residual,
            &mut partials,
            &mut flags,
        );
        // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps'
        // tiles and their swizzle, by how the operands lie, as `K` has them; `out` and the addends have the products' elements,
        // as their shapes fit; tiles are cut as `Shares` says, and there is room for what the blocks hand over.
        unsafe { self.stream.launch_on_tensor_cores::<K>(&config, args)? };
        flags.give_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape([batch, m, n, k]: [usize; 4]) -> GemmShape {
        GemmShape {
            batch,
            first: 0,
            m,
            n,
            k,
            a: [0; 3],
            b: [0; 3],
        }
    }

    fn rows(batch: usize, m: usize, n: usize) -> Option<usize> {
        best_rows(&shape([batch, m, n, 100]), 132)
    }

    #[test]
    fn tiles_are_cut_where_the_last_round_is_not_full() {
        let of = |batch, side, k| {
            let Shares { whole, share, steps } = Shares::new(&shape([batch, side, side, k]), 128, 132);
            (whole, share, steps)
        };
        // One round at most, and rounds that are full.
        assert_eq!(of(1, 1024, 1024), (64, 0, 64));
        assert_eq!(of(132, 128, 160), (132, 0, 10));
        assert_eq!(of(264, 128, 160), (264, 0, 20));
        assert_eq!(of(1, 1536, 1536), (0, 105, 105 + HANDING_OVER));
        assert_eq!(of(1, 8192, 8192), (4096 - 136, 528, 30 * 512 + 528 + HANDING_OVER));
        // Handing over would take longer than what it saves.
        assert_eq!(of(263, 128, 160), (263, 0, 20));
        assert_eq!(of(1, 1536, 16), (144, 0, 2));
        // Each share has a tile's steps at least, and all tiles are in the shares.
        for tiles in 133..800 {
            for k in [16, 100, 1000, 5000] {
                let Shares { whole, share, steps } = Shares::new(&shape([tiles, 128, 128, k]), 128, 132);
                let of_tile = k.div_ceil(TILE_K);
                assert!(steps <= tiles.div_ceil(132) * of_tile);
                if share > 0 {
                    assert!(whole % 132 == 0 && share as usize >= of_tile, "{tiles} tiles, {k}");
                    assert!(share as usize * 132 >= (tiles - whole) * of_tile, "{tiles} tiles, {k}");
                } else {
                    assert_eq!(whole, tiles);
                }
            }
        }
        // More steps than 32 bits count.
        assert_eq!(of(133, 128, 1 << 30).1, 0);
    }

    #[test]
    fn tiles_fill_the_device() {
        assert_eq!([rows(1, 1, 1), rows(1, 200, 200), rows(1000, 20, 20)], [None; 3]);
        assert_eq!([rows(1, 512, 512), rows(200, 20, 128)], [Some(32); 2]);
        assert_eq!([rows(1, 1024, 1024), rows(100, 64, 128)], [Some(64); 2]);
        assert_eq!([rows(1, 4096, 4096), rows(1, 8192, 8192)], [Some(128); 2]);
        assert_eq!(rows(1, 0, 5), None);
    }

    #[test]
    fn few_tiles_have_a_multiprocessor_each() {
        let few = |batch, m, n| has_few_tiles(&shape([batch, m, n, 100]), 132);
        assert!(few(1, 1, 1) && few(1, 200, 200) && few(1, 640, 640) && few(132, 20, 20) && few(1, 8, 4096));
        assert!(!few(1, 0, 5) && !few(0, 5, 5) && !few(133, 20, 20) && !few(1, 1024, 1024));
    }

    #[test]
    fn few_tiles_stay_on_the_ordinary_cores() {
        let pays = |side| pays_by_warps(&shape([1, side, side, 100]), 108);
        assert_eq!([100, 512, 1024, 2048, 8192].map(pays), [false, false, true, true, true]);
    }
}
