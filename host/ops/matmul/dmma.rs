// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f64`: on tensor cores, if they are large enough, Hopper's or, by the instructions of a warp, those of the other
//! chips of data centres from Ampere on; and elsewhere on the ordinary cores.

use cuda_std::SliceMut;
use cuda_std::launch::Kernel;
use cuda_std::wgmma::{KMajor, MnMajor};
use kernels_gpu::compiled::DmmaParams;
use kernels_gpu::matmul::dmma::{
    DmmaShape, PARTED_ROWS, PARTED_TILE_N, Side, THREADS, TILE_K, TILE_N, WARPS, gemm_dmma, handed_len, shared_bytes,
};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::mma::double::{SIDE, gemm_f64_mma};
use kernels_gpu::matmul::mma::{MmaShape, Narrow};
use ndarray::{Dimension, Ix1, Ix4};

use super::AMPERE;
use super::ampere::{self, Operands};
use super::choices::{self, Factors, Kernel as Chosen};
use super::costs;
use super::finish::Finish;
use super::gemm::Multiplication;
use super::gemv::by_vector;
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

/// Multiplies on that stream: a matrix by a vector as `matvec`, and else by tiles.
pub(super) fn multiply<D: Dimension>(
    product: Multiplication<'_, f64, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<f64, D>,
    finish: &Finish<'_, f64, D>,
) -> Result<()> {
    if by_vector(&product, stream, out, finish)? {
        return Ok(());
    }
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let choice = choices::choice(Factors::F64, &product.shape, stream)?;
    let rows_of = |kernel| choice.and_then(|choice| choice.tile_of(kernel));
    let elsewhere = rows_of(Chosen::Gemm);
    let plan = (finish.alpha != 0.0 && is_hopper(stream) && elsewhere.is_none())
        .then(|| match rows_of(Chosen::Dmma) {
            Some(rows) => Plan::best(&product.shape, multiprocessors, Some(rows)),
            None => Plan::best(&product.shape, multiprocessors, None).filter(|plan| {
                plan.pays(&product.shape, multiprocessors)
                    || has_few_tiles(&product.shape, multiprocessors) && lies(&product)
            }),
        })
        .flatten();
    let launch = plan.and_then(|plan| Some((plan, dmma_shape(&product.shape, plan)?)));
    let Some((Plan { tile, parts, .. }, shape)) = launch else {
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
    let (_, elsewhere) = costs::best_size::<f64>(shape, multiprocessors);
    costs::cost(shape, [SIDE; 2], multiprocessors, 20) < elsewhere
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
    let config = ampere::config::<f64, f64, Narrow>(&product.shape, SIDE);
    launch.run::<gemm_f64_mma, _, _>(config, out, finish)
}

/// The shape of the kernel's launch by a plan, if its numbers fit.
fn dmma_shape(shape: &GemmShape, plan: Plan) -> Option<DmmaShape> {
    Some(DmmaShape {
        columns: plan.tile[1] as u32,
        whole: u32::try_from(plan.whole).ok()?,
        share: plan.share,
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

/// A size of tiles, and what it takes on an H100, in nanoseconds.
#[derive(Clone, Copy)]
struct Size {
    tile: [usize; 2],
    /// A step of [`TILE_K`] along k, where most multiprocessors have a tile.
    step: usize,
    /// To have the sums of parts of k that are side by side in one place: of two, and what each further one takes.
    adding: [usize; 2],
}

const fn size(tile: [usize; 2], step: usize, adding: [usize; 2]) -> Size {
    Size { tile, step, adding }
}

const SIZES: [Size; 5] = [
    size([128, TILE_N], 1270, [0; 2]),
    size([64, TILE_N], 668, [0; 2]),
    size([PARTED_ROWS, PARTED_TILE_N[2]], 345, [1200, 750]),
    size([PARTED_ROWS, PARTED_TILE_N[1]], 156, [950, 500]),
    size([PARTED_ROWS, PARTED_TILE_N[0]], 95, [850, 250]),
];

/// Bytes of the operands that all multiprocessors read in a nanosecond, if none reads what another one does: of few rows and many
/// columns, more blocks are then no faster.
const BYTES_A_NANOSECOND: usize = 3200;

/// What one block takes to hand a tile's sums over to another, in steps along k of such tiles.
const HANDING_OVER: usize = 4;

/// The most parts of k of a tile that blocks compute side by side.
const MAX_PARTS: usize = 16;

/// The least steps of such a part.
const LEAST_STEPS: usize = 8;

/// By which tiles products are computed, and how these are shared out among the multiprocessors, a block each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    tile: [usize; 2],
    /// Tiles that are not shared by blocks that hand over to each other.
    whole: usize,
    /// Parts of k of each tile that blocks compute side by side.
    parts: u32,
    /// Steps along k that a block has of such a part, or of the tiles that are cut.
    share: u32,
    /// What the block with the most to do takes for its steps, and for what it has from others, in nanoseconds.
    time: usize,
}

impl Plan {
    /// The one that takes the least time, by tiles of so many rows, if that is said.
    fn best(shape: &GemmShape, multiprocessors: usize, rows: Option<usize>) -> Option<Self> {
        let sizes = SIZES
            .into_iter()
            .filter(|size| rows.is_none_or(|rows| rows == size.tile[0]));
        let plans = sizes.filter_map(|size| Self::new(shape, size, multiprocessors));
        plans.min_by_key(|plan| plan.time)
    }

    /// By tiles of that size. If the last round would leave multiprocessors idle, its tiles and those of the
    /// round before are cut along k, so that all have the same, unless handing over takes longer than that saves. A tile has one cut
    /// at most then, and its beginning is there long before its end is wanted. Of tiles of fewer columns than others each
    /// has a multiprocessor: two of them take longer than one of all columns.
    fn new(shape: &GemmShape, Size { tile, step, adding }: Size, multiprocessors: usize) -> Option<Self> {
        let (tiles, of_tile) = (blocks(shape, tile), shape.k.div_ceil(TILE_K));
        let after = |steps: usize| steps.saturating_mul(step);
        let whole = Self {
            tile,
            whole: tiles,
            parts: 1,
            share: 0,
            time: after(tiles.div_ceil(multiprocessors).saturating_mul(of_tile)),
        };
        let last = tiles % multiprocessors;
        if tile[1] < TILE_N && tiles > multiprocessors {
            return None;
        }
        if tile[0] == PARTED_ROWS && (1..multiprocessors).contains(&tiles) {
            let lines = shape.m.saturating_add(shape.n).saturating_mul(shape.batch);
            let reading = lines.saturating_mul(shape.k).saturating_mul(8) / BYTES_A_NANOSECOND;
            let parted = (2..=MAX_PARTS.min(multiprocessors / tiles)).filter_map(|parts| {
                let (parts, share) = Self::in_parts(tiles, of_tile, parts)?;
                Some(Self {
                    parts,
                    share,
                    time: (after(share as usize).max(reading))
                        .saturating_add(adding[0] + adding[1] * (parts as usize - 2)),
                    ..whole
                })
            });
            return parted.chain([whole]).min_by_key(|plan| plan.time);
        }
        if tiles < multiprocessors || last == 0 {
            return Some(whole);
        }
        let cut = multiprocessors + last;
        let share = cut.saturating_mul(of_tile).div_ceil(multiprocessors);
        // All shares one after another are counted in 32 bits.
        let counted = u32::try_from(share)
            .ok()
            .filter(|_| u32::try_from(share.saturating_mul(multiprocessors)).is_ok());
        let in_shares = counted.map(|counted| Self {
            whole: tiles - cut,
            share: counted,
            time: after((tiles - cut) / multiprocessors * of_tile + share + HANDING_OVER),
            ..whole
        });
        in_shares.filter(|plan| plan.time < whole.time).or(Some(whole))
    }

    /// How many parts tiles of so many steps are in, which are to be so many, and the steps of each but the last.
    fn in_parts(tiles: usize, of_tile: usize, parts: usize) -> Option<(u32, u32)> {
        let share = of_tile.div_ceil(parts);
        // The last part has what the others leave.
        let parts = of_tile.div_ceil(share.max(1));
        // The kernel counts a part's steps times a block's number in 32 bits.
        let is_counted = u32::try_from(share.saturating_mul(tiles)).is_ok();
        let is_one = share >= LEAST_STEPS && parts > 1 && is_counted;
        Some((parts as u32, u32::try_from(share).ok()?)).filter(|_| is_one)
    }

    /// Whether the tensor cores are done ahead of the ordinary ones, whose tiles are smaller, so that more multiprocessors have one.
    fn pays(&self, shape: &GemmShape, multiprocessors: usize) -> bool {
        let (_, elsewhere) = costs::best_size::<f64>(shape, multiprocessors);
        // By measured products: 19 for each element of a tile of 128 × 128, where the largest tile elsewhere has 40.
        let Size {
            tile: [rows, columns],
            step,
            ..
        } = SIZES[0];
        let steps = shape.k.div_ceil(TILE_K);
        let elsewhere = elsewhere as u128 * step as u128 * steps as u128 / (rows * columns * 19) as u128;
        (self.time as u128) < elsewhere
    }
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
            let mut partials = self.stream.take_zeros::<f64>(handing * handed_len(rows))?;
            let mut flags = self.stream.take_counters(0)?;
            self.launch::<K, D>([&a, &b], out, shape, finish, &mut partials, &mut flags)?;
            partials.give_back();
            return Ok(());
        }
        let handing = if self.shape.share > 0 { self.blocks as usize } else { 0 };
        let mut partials = DeviceArray::uninit(self.stream, Ix1(handing * handed_len(rows)))?;
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
            ..super::super::split::tests::shape(m, n, k)
        }
    }

    /// The tile by which products are computed, if tensor cores are done first.
    fn tile([batch, m, n, k]: [usize; 4]) -> Option<[usize; 2]> {
        let shape = shape([batch, m, n, k]);
        let plan = Plan::best(&shape, 132, None)?;
        plan.pays(&shape, 132).then_some(plan.tile)
    }

    #[test]
    fn tiles_are_cut_where_the_last_round_is_not_full() {
        let of = |batch, side, k| {
            let plan = Plan::new(&shape([batch, side, side, k]), size([128, TILE_N], 1, [0; 2]), 132).unwrap();
            (plan.whole, plan.share, plan.time)
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
                let plan = Plan::new(&shape([tiles, 128, 128, k]), size([128, TILE_N], 1, [0; 2]), 132).unwrap();
                let Plan { whole, share, time, .. } = plan;
                let of_tile = k.div_ceil(TILE_K);
                assert!(time <= tiles.div_ceil(132) * of_tile);
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
        assert_eq!(tile([1, 0, 5, 100]), None);
        let of = |side| tile([1, side, side, side]);
        assert_eq!([128, 256, 320].map(of), [Some([32, 32]); 3]);
        assert_eq!([384, 448, 512].map(of), [Some([32, 64]); 3]);
        assert_eq!([576, 640, 768, 896].map(of), [Some([32, 128]); 4]);
        assert_eq!([1024, 1152].map(of), [Some([64, 128]); 2]);
        assert_eq!([2048, 4096, 8192].map(of), [Some([128, 128]); 3]);
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
            let Plan { tile, parts, .. } = Plan::best(&shape([1, m, n, k]), 132, None).unwrap();
            (tile, parts)
        };
        assert_eq!(of(512, 512, 512), ([32, 64], 1));
        assert_eq!(of(256, 256, 256), ([32, 32], 1));
        assert_eq!(of(640, 640, 640), ([32, 128], 1));
        assert_eq!(of(256, 256, 512), ([32, 32], 2));
        assert_eq!(of(256, 256, 4096), ([32, 64], 4));
        assert_eq!(of(128, 128, 8192), ([32, 32], 8));
        assert_eq!(of(512, 512, 4096), ([32, 64], 1));
        assert_eq!(of(16, 1024, 1024), ([32, 32], 3));
        assert_eq!(of(64, 64, 4096), ([32, 32], 10));
        assert_eq!(of(1, 1, 100), ([32, 32], 1));
        // No part is empty, nor is the last one longer than the others, and each block has a multiprocessor.
        for tiles in 1..=132 {
            for k in [1, 16, 100, 500, 1000, 5000, 100_000] {
                for columns in PARTED_TILE_N {
                    let shape = shape([tiles, 32, columns, k]);
                    let plan = Plan::new(&shape, size([PARTED_ROWS, columns], 200, [950, 500]), 132).unwrap();
                    let steps = k.div_ceil(TILE_K);
                    assert!(tiles * plan.parts as usize <= 132);
                    if plan.parts > 1 {
                        let ahead = (plan.parts as usize - 1) * plan.share as usize;
                        assert!(ahead < steps && steps - ahead <= plan.share as usize, "{tiles}, {k}");
                    } else {
                        assert_eq!(plan.share, 0);
                    }
                }
            }
        }
        // Steps of all parts are counted in 32 bits.
        assert!(
            Plan::new(&shape([1, 32, 64, 1 << 31]), size([32, 64], 200, [950, 500]), 132)
                .unwrap()
                .parts
                > 1
        );
    }

    #[test]
    fn few_tiles_stay_on_the_ordinary_cores() {
        let pays = |side| pays_by_warps(&shape([1, side, side, 100]), 108);
        assert_eq!([100, 512, 1024, 2048, 8192].map(pays), [false, false, true, true, true]);
    }
}
