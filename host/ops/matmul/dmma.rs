// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f64`: on tensor cores, if they are large enough, Hopper's or, by the instructions of a warp, those of the other
//! chips of data centres from Ampere on; and elsewhere on the ordinary cores.

use cuda_std::SliceMut;
use cuda_std::launch::Kernel;
use cuda_std::wgmma::{KMajor, MnMajor};
use kernels_gpu::compiled::DmmaParams;
use kernels_gpu::matmul::dmma::{
    DmmaShape, NARROW_TILE_N, PARTED_ROWS, Side, THREADS, TILE_K, TILE_N, WARPS, gemm_dmma, shared_bytes,
};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::mma::double::{SIDE, gemm_f64_mma};
use kernels_gpu::matmul::mma::{MmaShape, Narrow};
use ndarray::{Dimension, Ix1, Ix4};

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
use crate::launch::{Arg, LaunchConfig};
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorMapArg, TensorType};
use crate::workspace::Lease;

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
    let launch = rows.and_then(|rows| {
        let tile = tile(&product.shape, rows, multiprocessors);
        let shares = Shares::new(&product.shape, tile, multiprocessors);
        Some((tile, shares.parts, dmma_shape(&product.shape, tile, shares)?))
    });
    let Some((tile, parts, shape)) = launch else {
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
        tile,
        blocks: blocks(of, tile).min(multiprocessors) as u32,
        parts,
        stream,
    };
    match (a.along_lines, b.along_lines) {
        (false, false) => launch.run_by::<KMajor, KMajor, D>(out, finish),
        (false, true) => launch.run_by::<KMajor, MnMajor, D>(out, finish),
        (true, false) => launch.run_by::<MnMajor, KMajor, D>(out, finish),
        (true, true) => launch.run_by::<MnMajor, MnMajor, D>(out, finish),
    }
}

/// Whether each of the smallest tiles has a multiprocessor of its own. Tensor cores then take half the time of the ordinary
/// ones, whatever the k.
fn has_few_tiles(shape: &GemmShape, multiprocessors: usize) -> bool {
    (1..=multiprocessors).contains(&blocks(shape, [PARTED_ROWS, TILE_N]))
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

/// The tile of so many rows: narrow, if each of these has a multiprocessor of its own. Two narrow ones take longer than one of all
/// columns.
fn tile(shape: &GemmShape, rows: usize, multiprocessors: usize) -> [usize; 2] {
    let narrow = [PARTED_ROWS, NARROW_TILE_N];
    match rows == PARTED_ROWS && blocks(shape, narrow) <= multiprocessors {
        true => narrow,
        false => [rows, TILE_N],
    }
}

/// The shape of the kernel's launch with such tiles that are shared out so, if its numbers fit.
fn dmma_shape(shape: &GemmShape, tile: [usize; 2], shares: Shares) -> Option<DmmaShape> {
    Some(DmmaShape {
        is_narrow: (tile[1] == NARROW_TILE_N).into(),
        whole: u32::try_from(shares.whole).ok()?,
        share: shares.share,
        batch: coordinates(shape.batch)?,
        m: coordinates(shape.m)?,
        n: coordinates(shape.n)?,
        k: coordinates(shape.k).filter(|&k| k > 0)?,
        a_step: (shape.a[0] != 0).into(),
        b_step: (shape.b[0] != 0).into(),
        // Their maps say so.
        a_in_one: 0,
        b_in_one: 0,
    })
}

/// Lines of an operand that lies along them which a line of a box has.
const OF_BOX: usize = 16;

/// The kernel's map of an operand, for tiles of so many lines, and whether a tile of what lies along them is one copy: where
/// their number is a multiple of [`OF_BOX`], so that a further axis has as many of them each.
fn map<'a>(operand: &'a Operand<'_, f64>, lines: usize) -> Result<(TensorMapArg<'a, f64>, bool)> {
    if !operand.along_lines {
        return Ok((operand.map(TensorType::F64, lines)?, false));
    }
    let elements = operand.elements();
    let (batch, k, length) = elements.raw_dim().into_pattern();
    let in_one = length.is_multiple_of(OF_BOX);
    let (boxes, width, of_tile) = match in_one {
        true => (length / OF_BOX, OF_BOX, lines / OF_BOX),
        false => (1, length, 1),
    };
    let strides = elements.steps();
    let by_boxes = elements.laid_out(Ix4(batch, boxes, k, width), vec![strides[0], OF_BOX, strides[1], 1]);
    let map = by_boxes.into_tensor_map(TensorType::F64, &[1, of_tile, TILE_K, OF_BOX], Swizzle::B128)?;
    Ok((map, in_one))
}

/// Tiles of all products.
fn blocks(shape: &GemmShape, tile: [usize; 2]) -> usize {
    let of_product = shape.m.div_ceil(tile[0]).saturating_mul(shape.n.div_ceil(tile[1]));
    of_product.saturating_mul(shape.batch)
}

/// What one block takes to hand a tile's sums over to another, in steps along k of such tiles.
const HANDING_OVER: usize = 4;

/// The most parts of k of a tile that blocks compute side by side.
const MAX_PARTS: usize = 16;

/// The least steps of such a part.
const LEAST_STEPS: usize = 8;

/// What it takes to have the sums of parts that are side by side in one place, in steps, and what each part takes beyond that.
const GATHERING: [usize; 2] = [2, 2];

/// How the tiles are shared out among the multiprocessors, a block each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    /// Tiles that are not shared by blocks that hand over to each other.
    whole: usize,
    /// Parts of k of each tile that blocks compute side by side.
    parts: u32,
    /// Steps along k that a block has of such a part, or of the tiles that are cut.
    share: u32,
    /// What the block with the most to do takes, in steps.
    steps: usize,
}

impl Shares {
    /// Those with such tiles. If the last round would leave multiprocessors idle, its tiles and those of the round
    /// before are cut along k, so that all have the same, unless handing over takes longer than that saves. A tile has one cut at
    /// most then, and its beginning is there long before its end is wanted.
    fn new(shape: &GemmShape, tile: [usize; 2], multiprocessors: usize) -> Self {
        let (tiles, of_tile) = (blocks(shape, tile), shape.k.div_ceil(TILE_K));
        let whole = Self {
            whole: tiles,
            parts: 1,
            share: 0,
            steps: tiles.div_ceil(multiprocessors).saturating_mul(of_tile),
        };
        let last = tiles % multiprocessors;
        if tile[0] == PARTED_ROWS && tiles > 0 && tiles < multiprocessors {
            let parted =
                (2..=MAX_PARTS.min(multiprocessors / tiles)).filter_map(|parts| Self::in_parts(tiles, of_tile, parts));
            return parted.chain([whole]).min_by_key(|shares| shares.steps).unwrap_or(whole);
        }
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
            parts: 1,
            share: counted,
            steps: (tiles - cut) / multiprocessors * of_tile + share + HANDING_OVER,
        });
        shares.filter(|shares| shares.steps < whole.steps).unwrap_or(whole)
    }

    /// Those of tiles of so many steps in that many parts, side by side.
    fn in_parts(tiles: usize, of_tile: usize, parts: usize) -> Option<Self> {
        let share = of_tile.div_ceil(parts);
        // The last part has what the others leave.
        let parts = of_tile.div_ceil(share.max(1));
        // The kernel counts a part's steps times a block's number in 32 bits.
        let is_counted = u32::try_from(share.saturating_mul(tiles)).is_ok();
        (share >= LEAST_STEPS && parts > 1 && is_counted).then_some(Self {
            whole: tiles,
            parts: parts as u32,
            share: u32::try_from(share).ok()?,
            steps: share + GATHERING[0] + GATHERING[1] * parts,
        })
    }
}

/// The rows of tiles with which tensor cores are done first, unless the ordinary cores are done earlier still: theirs are
/// smaller, so that more multiprocessors have one.
fn best_rows(shape: &GemmShape, multiprocessors: usize) -> Option<usize> {
    let cost = |rows: usize, weight| {
        let steps = Shares::new(shape, [rows, TILE_N], multiprocessors).steps;
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
    tile: [usize; 2],
    blocks: u32,
    /// Of k, of which each has as many blocks.
    parts: u32,
    stream: &'a Stream,
}

impl Launch<'_> {
    /// With operands that lie so.
    fn run_by<A: Side, B: Side, D: Dimension>(
        &self,
        out: &mut DeviceArrayRef<f64, D>,
        finish: &Finish<'_, f64, D>,
    ) -> Result<()>
    where
        gemm_dmma<A, B, 32>: Kernel<Params = DmmaParams>,
        gemm_dmma<A, B, 64>: Kernel<Params = DmmaParams>,
        gemm_dmma<A, B, 128>: Kernel<Params = DmmaParams>,
    {
        match self.tile[0] {
            32 => self.run::<gemm_dmma<A, B, 32>, D>(out, finish),
            64 => self.run::<gemm_dmma<A, B, 64>, D>(out, finish),
            _ => self.run::<gemm_dmma<A, B, 128>, D>(out, finish),
        }
    }

    /// One launch for all products, by tiles of as many rows as `K`'s have.
    fn run<K: Kernel<Params = DmmaParams>, D: Dimension>(
        &self,
        out: &mut DeviceArrayRef<f64, D>,
        finish: &Finish<'_, f64, D>,
    ) -> Result<()> {
        let [rows, columns] = self.tile;
        let ((a, a_in_one), (b, b_in_one)) = (map(self.a, rows)?, map(self.b, columns)?);
        let shape = DmmaShape {
            a_in_one: a_in_one.into(),
            b_in_one: b_in_one.into(),
            ..self.shape
        };
        if self.parts > 1 {
            // Zeros, which are there again behind the launch.
            let handing = self.blocks as usize * (self.parts as usize - 1);
            let mut partials = self.stream.take_zeros::<f64>(handing * rows * TILE_N)?;
            let mut flags = self.stream.take_counters(0)?;
            self.launch::<K, D>([&a, &b], out, shape, finish, &mut partials, &mut flags)?;
            partials.give_back();
            return Ok(());
        }
        let handing = if self.shape.share > 0 { self.blocks as usize } else { 0 };
        let mut partials = DeviceArray::uninit(self.stream, Ix1(handing * rows * TILE_N))?;
        let mut flags = self.stream.take_counters(handing * WARPS)?;
        self.launch::<K, D>([&a, &b], out, shape, finish, &mut partials, &mut flags)?;
        flags.give_back();
        Ok(())
    }

    /// With that memory for what blocks hand over to each other.
    fn launch<K: Kernel<Params = DmmaParams>, D: Dimension>(
        &self,
        [a, b]: [&TensorMapArg<'_, f64>; 2],
        out: &mut DeviceArrayRef<f64, D>,
        shape: DmmaShape,
        finish: &Finish<'_, f64, D>,
        partials: impl Arg<SliceMut<'static, f64>>,
        flags: &mut Lease<'_, u32>,
    ) -> Result<()> {
        let config = LaunchConfig {
            dynamic_shared: shared_bytes(self.tile[0]),
            ..LaunchConfig::new((self.blocks, self.parts), THREADS as u32)
        };
        let (alpha, beta, plan) = (finish.alpha, finish.beta, finish.plan());
        let (bias, residual) = (finish.bias(), finish.residual());
        let args = (a, b, out, shape, alpha, beta, plan, bias, residual, partials, flags);
        // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps'
        // tiles and their swizzle, by how the operands lie, as `K` has them; `out` and the addends have the products' elements,
        // as their shapes fit; tiles are cut, or are in parts, as `Shares` says, and there is room for what the blocks hand over,
        // which is zeros where they are in parts.
        unsafe { self.stream.launch_on_tensor_cores::<K>(&config, args) }
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
            let Shares {
                whole, share, steps, ..
            } = Shares::new(&shape([batch, side, side, k]), [128, TILE_N], 132);
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
                let Shares {
                    whole, share, steps, ..
                } = Shares::new(&shape([tiles, 128, 128, k]), [128, TILE_N], 132);
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
    fn few_tiles_with_a_long_k_are_in_parts() {
        let of = |m, n, k| {
            let shape = shape([1, m, n, k]);
            let tile = tile(&shape, 32, 132);
            let Shares { parts, share, .. } = Shares::new(&shape, tile, 132);
            (tile[1], parts, share)
        };
        assert_eq!([of(512, 512, 512), of(200, 200, 200)], [(64, 1, 0); 2]);
        assert_eq!(of(256, 256, 256), (64, 2, 8));
        assert_eq!(of(640, 640, 640), (128, 1, 0));
        assert_eq!(of(256, 256, 65536), (64, 4, 1024));
        assert_eq!(of(1, 1, 100), (64, 1, 0));
        // No part is empty, nor is the last one longer than the others, and each block has a multiprocessor.
        for tiles in 1..=132 {
            for k in [1, 16, 100, 500, 1000, 5000, 100_000] {
                let shape = shape([tiles, 32, 64, k]);
                let Shares { parts, share, .. } = Shares::new(&shape, [32, 64], 132);
                let steps = k.div_ceil(TILE_K);
                assert!(tiles * parts as usize <= 132);
                if parts > 1 {
                    let ahead = (parts as usize - 1) * share as usize;
                    assert!(ahead < steps && steps - ahead <= share as usize, "{tiles}, {k}");
                } else {
                    assert_eq!(share, 0);
                }
            }
        }
        // Steps of all parts are counted in 32 bits.
        assert!(Shares::new(&shape([1, 32, 64, 1 << 31]), [32, 64], 132).parts > 1);
    }

    #[test]
    fn few_tiles_stay_on_the_ordinary_cores() {
        let pays = |side| pays_by_warps(&shape([1, side, side, 100]), 108);
        assert_eq!([100, 512, 1024, 2048, 8192].map(pays), [false, false, true, true, true]);
    }
}
