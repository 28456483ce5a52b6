// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f32` on Hopper's ordinary cores, all but small ones by a kernel of their own.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::SimtParams;
use kernels_gpu::matmul::gemm::{GemmShape, KMajor, MnMajor};
use kernels_gpu::matmul::simt::{
    SimtShape, blocks, gemm_simt, handed_len, shared_bytes, swizzle, threads, tile_k, tile_m, tile_n, warps,
};
use ndarray::{Dimension, Ix1, Ix3};

use super::choices::{self, Factors, Kernel as Chosen};
use super::costs::{self, Behind, Parts, worth_a_cut};
use super::finish::{self, Finish, Sums};
use super::gemm::Multiplication;
use super::gemv::by_vector;
use super::hopper::is_hopper;
use super::operand::{Mapped, Mapping, coordinates};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorType};
use crate::view::DeviceView;

/// A size of tiles, and what it costs, where an element of one of the largest tiles of the other kernel costs 40: as measured on an
/// H100, where that times k, 6 000 000, is a microsecond.
#[derive(Clone, Copy)]
struct Size {
    /// Of a thread's tile.
    columns: usize,
    /// An element of a block's tile, where multiprocessors have one block at a time, two, and so on, as many as they hold.
    element: &'static [usize],
    /// To begin and to end tiles, beyond what the smallest take, in the same unit times k.
    ends: usize,
    /// To finish a result where it was stored, beyond what it takes in the smallest tiles, of which a multiprocessor has others that
    /// multiply meanwhile; in the same unit times k.
    finishing: usize,
    /// To hand over the sums of a tile for each block, and to end one more, in the same unit times k.
    handing_over: usize,
}

const SIZES: [Size; 3] = [
    Size {
        columns: 16,
        element: &[29],
        ends: 22_000_000,
        finishing: 20,
        handing_over: 60_000_000,
    },
    Size {
        columns: 8,
        element: &[35, 31],
        ends: 10_000_000,
        finishing: 20,
        handing_over: 20_000_000,
    },
    Size {
        columns: 4,
        element: &[43, 39, 38, 37],
        ends: 0,
        finishing: 0,
        handing_over: 14_000_000,
    },
];

/// What it costs to copy an operand, small as it may be, in the same unit times k: some 4 µs.
const COPY: usize = 25_000_000;

/// The same for each of its elements, which are read and written.
const COPY_ELEMENT: usize = 12;

/// The same of lines that are copied to longer ones, those of both operands by one launch.
const ALIGN: usize = 13_000_000;

/// The same for each of their elements.
const ALIGN_ELEMENT: usize = 7;

/// The same where neighbouring lines have neighbouring elements.
const TURN_ELEMENT: usize = 9;

/// Of how many parts of their time tiles of 64 × 128 take one more where the left operand lies along k.
const ALONG_K: usize = 14;

/// Into how many parts k is cut at most.
const MOST_PARTS: usize = 64;

/// Multiplies on that stream: a matrix by a vector as `matvec`, and else by either kernel, with the same bits but where k is cut.
pub(super) fn multiply<D: Dimension>(
    product: Multiplication<'_, f32, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<f32, D>,
    finish: &Finish<'_, f32, D>,
) -> Result<()> {
    if by_vector(&product, stream, out, finish)? {
        return Ok(());
    }
    let choice = choices::choice(Factors::F32, &product.shape, stream)?;
    let tile_of = |kernel| choice.and_then(|choice| choice.tile_of(kernel));
    let elsewhere = tile_of(Chosen::Gemm);
    let able = is_hopper(stream) && finish.alpha != 0.0 && elsewhere.is_none() && can_be_counted(&product.shape);
    let behind = finish.behind_parts(stream);
    let plan = able
        .then(|| Plan::of(&product, behind, stream, tile_of(Chosen::Simt)))
        .flatten();
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let there = (finish.alpha != 0.0 && choice.is_none())
        .then(|| Parts::best::<f32>(&product.shape, behind, multiprocessors))
        .flatten()
        .filter(|there| plan.is_none_or(|plan| there.cost < plan.worth_a_cut()));
    match (there, plan) {
        (Some(there), _) => product.run_parts(there, stream, out, finish),
        (None, Some(plan)) if plan.parts > 1 => in_parts(&product, plan, stream, out, finish),
        (None, Some(plan)) => by_tiles(&product, plan, stream, out, finish),
        (None, None) => product.run_by(elsewhere, stream, out, finish),
    }
}

/// Multiplies parts of k, as a batch, and adds them up, with rows of sums that begin at multiples of 16 bytes.
fn in_parts<D: Dimension>(
    product: &Multiplication<'_, f32, D>,
    plan: Plan,
    stream: &Stream,
    out: &mut DeviceArrayRef<f32, D>,
    finish: &Finish<'_, f32, D>,
) -> Result<()> {
    let GemmShape { m, n, .. } = product.shape;
    let pitch = n.next_multiple_of(finish::width_of::<f32>());
    let mut sums = DeviceArray::<f32, _>::uninit(stream, Ix3(plan.parts, m, pitch))?;
    by_tiles(product, plan, stream, &mut sums, &Finish::scale(finish.alpha, 0.0))?;
    let sums = Sums::in_parts(&sums, plan.parts, [m * pitch, pitch, 1]);
    finish::finish_parts_into(sums, &product.shape, stream, out, finish)
}

/// Operands with k in the middle and their lines last; of the left one also with k last, as the kernel takes it in smaller tiles. And
/// how tensor maps have them.
struct Operands<'a> {
    a: (DeviceView<'a, f32, Ix3>, Mapping),
    a_along_k: (DeviceView<'a, f32, Ix3>, Mapping),
    b: (DeviceView<'a, f32, Ix3>, Mapping),
    /// Whether the left one is rather transposed than aligned, for tiles of 64 × 128: where the product is long enough to be worth it.
    is_turned: bool,
}

impl<'a> Operands<'a> {
    fn of<D: Dimension>(product: &'a Multiplication<'_, f32, D>, stream: &Stream) -> Self {
        let of = &product.shape;
        let multiprocessors = stream.backend().properties().multiprocessors as usize;
        let batch = |strides: [usize; 3]| if strides[0] == 0 { 1 } else { of.batch };
        let with_mapping = |elements: DeviceView<'a, f32, Ix3>| {
            let mapping = Mapping::of(&elements);
            (elements, mapping)
        };
        let a = |lines, strides: [usize; 3]| with_mapping(product.a.laid_out(lines, strides.to_vec()));
        let a_along_k = a(Ix3(batch(of.a), of.m, of.k), of.a);
        let lines_of_b = Ix3(batch(of.b), of.k, of.n);
        let b = with_mapping(product.b.laid_out(lines_of_b, vec![of.b[0], of.b[2], of.b[1]]));
        let turning = (TURN_ELEMENT - ALIGN_ELEMENT).saturating_mul(a_along_k.0.len());
        let sums = of.batch.saturating_mul(of.m).saturating_mul(of.n);
        let all = sums.saturating_mul(of.k) / multiprocessors;
        Self {
            a: a(Ix3(batch(of.a), of.k, of.m), [of.a[0], of.a[2], of.a[1]]),
            a_along_k,
            b,
            is_turned: all.saturating_mul(SIZES[1].element[0]) / ALONG_K > turning,
        }
    }

    /// Whether tiles of so many columns of a thread take the left one along k: the smaller ones, where it lies so.
    fn lie_along_k(&self, columns: usize) -> bool {
        columns < 16
            && match self.a_along_k.1 {
                Mapping::Lying => self.a.1 != Mapping::Lying,
                Mapping::Aligned(_) => self.a.1 != Mapping::Lying && (columns == 4 || !self.is_turned),
                Mapping::Turned(_) | Mapping::Copied => false,
            }
    }

    /// What it costs to copy what tiles of so many columns of a thread cannot have as it lies.
    fn copying(&self, columns: usize) -> usize {
        let a = if self.lie_along_k(columns) {
            &self.a_along_k
        } else {
            &self.a
        };
        let operands = [a, &self.b];
        let cost = |(elements, mapping): &(DeviceView<'_, f32, Ix3>, Mapping)| match mapping {
            Mapping::Lying => 0,
            Mapping::Aligned(_) => elements.len().saturating_mul(ALIGN_ELEMENT),
            Mapping::Turned(_) => elements.len().saturating_mul(TURN_ELEMENT),
            Mapping::Copied => elements.len().saturating_mul(COPY_ELEMENT).saturating_add(COPY),
        };
        let aligns = operands.iter().any(|(_, mapping)| mapping.is_aligned());
        let launch = if aligns { ALIGN } else { 0 };
        operands.into_iter().map(cost).fold(launch, usize::saturating_add)
    }
}

/// By the tiles of a plan, one launch for all products.
fn by_tiles<D: Dimension, E: Dimension>(
    product: &Multiplication<'_, f32, D>,
    plan: Plan,
    stream: &Stream,
    out: &mut DeviceArrayRef<f32, E>,
    finish: &Finish<'_, f32, E>,
) -> Result<()> {
    let columns = plan.columns;
    let operands = Operands::of(product, stream);
    let along_k = operands.lie_along_k(columns);
    let Operands { a, a_along_k, b, .. } = operands;
    let ((a, mapping), (b, mapping_of_b)) = (if along_k { a_along_k } else { a }, b);
    let [a, b] = &Mapped::both([a, b], [mapping, mapping_of_b])?;
    let launch = Launch {
        a,
        b,
        along_k,
        shape: simt_shape(&product.shape, &plan),
        plan,
        stream,
    };
    match (columns, along_k) {
        (4, true) => launch.run::<gemm_simt<KMajor, 4>, E>(out, finish),
        (4, false) => launch.run::<gemm_simt<MnMajor, 4>, E>(out, finish),
        (8, true) => launch.run::<gemm_simt<KMajor, 8>, E>(out, finish),
        (8, false) => launch.run::<gemm_simt<MnMajor, 8>, E>(out, finish),
        _ => launch.run::<gemm_simt<MnMajor, 16>, E>(out, finish),
    }
}

/// Tiles of all products, of which a thread has so many columns.
fn tiles(of: &GemmShape, columns: usize) -> usize {
    let of_product =
        of.m.div_ceil(tile_m(columns))
            .saturating_mul(of.n.div_ceil(tile_n(columns)));
    of_product.saturating_mul(of.batch)
}

/// By which tiles products are computed, and how these are shared out among the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// Of a thread's tile.
    columns: usize,
    /// Of the grid.
    blocks: usize,
    /// Tiles that are not shared by blocks that hand over to each other.
    whole: usize,
    /// Steps along k that a block has of the others.
    share: u32,
    /// Into how many parts k is cut, whose products are a batch.
    parts: usize,
    /// Elements of k of each, but the last: all, or a multiple of [`tile_k`].
    part: usize,
    /// In the unit of [`Size`], times k.
    cost: usize,
}

impl Plan {
    /// That of a product on the stream's device, by tiles of so many columns, if that is said; `None` if the other kernel is done
    /// earlier.
    fn of<D: Dimension>(
        product: &Multiplication<'_, f32, D>,
        behind: Behind,
        stream: &Stream,
        chosen: Option<usize>,
    ) -> Option<Self> {
        let multiprocessors = stream.backend().properties().multiprocessors as usize;
        let operands = Operands::of(product, stream);
        let copying = |columns| operands.copying(columns);
        match chosen {
            Some(chosen) => Self::whole(
                &product.shape,
                multiprocessors,
                |size| copying(size.columns),
                |columns| tile_n(columns) == chosen,
            ),
            None => Self::best(&product.shape, behind, multiprocessors, copying),
        }
    }

    /// The one with which the product is done first, where `copying` says what it costs to copy operands for tiles of so many columns
    /// of a thread; `None` if the other kernel, which copies none, is done earlier still. k is cut where that is [worth it](worth_a_cut).
    fn best(
        shape: &GemmShape,
        behind: Behind,
        multiprocessors: usize,
        copying: impl Fn(usize) -> usize,
    ) -> Option<Self> {
        let elsewhere = costs::whole::<f32>(shape, multiprocessors);
        let results = shape.batch.saturating_mul(shape.m).saturating_mul(shape.n);
        let beside = |size: Size| match behind.finishes {
            false => copying(size.columns),
            true => copying(size.columns).saturating_add(results.saturating_mul(size.finishing)),
        };
        let whole = Self::whole(shape, multiprocessors, beside, |_| true)
            .filter(|plan| plan.blocks > 0 && plan.cost < elsewhere);
        let sizes = SIZES.into_iter().filter(|_| shape.batch == 1);
        let cut = sizes.flat_map(|size| {
            let copying = copying(size.columns);
            Self::cut(shape, size, behind, multiprocessors).map(move |plan| Self {
                cost: plan.cost.saturating_add(copying),
                ..plan
            })
        });
        let least = whole.map_or(elsewhere, |plan| plan.cost);
        cut.min_by_key(|plan| plan.cost)
            .filter(|plan| plan.cost < worth_a_cut(least))
            .or(whole)
    }

    /// The best without a cut, by tiles of those columns of a thread, where `beside` says what each size costs beside the product.
    fn whole(
        shape: &GemmShape,
        multiprocessors: usize,
        beside: impl Fn(Size) -> usize,
        of: impl Fn(usize) -> bool,
    ) -> Option<Self> {
        let sizes = SIZES.into_iter().filter(|size| of(size.columns));
        let plans = sizes.flat_map(|size| {
            let beside = beside(size);
            Self::of_size(shape, size, multiprocessors).map(move |plan| Self {
                cost: plan.cost.saturating_add(beside).saturating_add(size.ends),
                ..plan
            })
        });
        plans.min_by_key(|plan| plan.cost)
    }

    /// Those by tiles of a size: whole ones, by as many blocks as the multiprocessors hold; and, for each number of blocks that they
    /// may have at a time, if the last round would leave some idle, with its tiles and those of the round before cut along k, so that
    /// all have the same. A tile has one cut at most then, and its beginning is there long before its end is wanted.
    fn of_size(shape: &GemmShape, size: Size, multiprocessors: usize) -> impl Iterator<Item = Self> {
        let Size {
            columns,
            element,
            handing_over,
            ..
        } = size;
        let (tiles, tile) = (tiles(shape, columns), [tile_m(columns), tile_n(columns)]);
        let steps = shape.k.div_ceil(tile_k(columns));
        let at_a_time = move |blocks: usize| blocks * element[blocks.max(1) - 1] * tile[0] * tile[1];
        // Blocks are spread evenly. Which of them have a tile more than others, if they take several in turn, is another matter.
        let most = blocks(columns) * multiprocessors;
        let turns = match tiles.div_ceil(most) {
            0 | 1 => at_a_time(tiles.div_ceil(multiprocessors)),
            rounds => rounds.saturating_mul(at_a_time(blocks(columns))),
        };
        let whole = Self {
            columns,
            blocks: tiles.min(most),
            whole: tiles,
            share: 0,
            parts: 1,
            part: shape.k,
            cost: turns.saturating_mul(shape.k),
        };
        let shares = (1..=blocks(columns)).filter_map(move |of_multiprocessor| {
            let blocks = of_multiprocessor * multiprocessors;
            let last = tiles % blocks;
            if tiles < blocks || last == 0 {
                return None;
            }
            let cut = blocks + last;
            let share = cut.checked_mul(steps)?.div_ceil(blocks);
            // All shares one after another are counted in 32 bits.
            u32::try_from(share.checked_mul(blocks)?).ok()?;
            let of_block = ((tiles - cut) / blocks).saturating_mul(steps).saturating_add(share);
            let step = tile_k(columns) * at_a_time(of_multiprocessor);
            Some(Self {
                blocks,
                whole: tiles - cut,
                share: share as u32,
                cost: of_block.saturating_mul(step).saturating_add(handing_over),
                ..whole
            })
        });
        shares.chain([whole])
    }

    /// Those of one product by tiles of a size with k cut, so that each multiprocessor has as many tiles of parts as others: as many as it
    /// holds, or fewer; or, if it holds several, so that one ends while another multiplies, twice as many.
    fn cut(shape: &GemmShape, size: Size, behind: Behind, multiprocessors: usize) -> impl Iterator<Item = Self> {
        let (shape, k) = (*shape, shape.k);
        let (tiles, step) = (tiles(&shape, size.columns).max(1), tile_k(size.columns));
        let most = blocks(size.columns);
        (1..=most)
            .chain((most > 1).then_some(2 * most))
            .filter_map(move |of_multiprocessor| {
                let parts = (of_multiprocessor * multiprocessors / tiles).clamp(1, MOST_PARTS);
                let part = k.div_ceil(parts).next_multiple_of(step);
                let parts = k.div_ceil(part.max(1));
                let batch = GemmShape {
                    batch: parts,
                    k: part,
                    ..shape
                };
                let plan = Self::of_size(&batch, size, multiprocessors).last()?;
                (parts > 1).then(|| Self {
                    parts,
                    cost: plan
                        .cost
                        .saturating_add(behind.cost(&shape, parts))
                        .saturating_add(size.ends),
                    ..plan
                })
            })
    }

    /// What another way, with k cut, may cost to be worth it: with k cut here, too, as much.
    fn worth_a_cut(&self) -> usize {
        match self.parts {
            1 => worth_a_cut(self.cost),
            _ => self.cost,
        }
    }
}

/// Whether the kernel can count a product's tiles, and its lengths.
fn can_be_counted(of: &GemmShape) -> bool {
    let lengths = [of.batch, of.m, of.n, of.k].map(coordinates);
    lengths.iter().all(Option::is_some) && of.k > 0 && u32::try_from(tiles(of, 4).saturating_mul(MOST_PARTS)).is_ok()
}

/// The shape of the kernel's launch by a plan, of a product that [can be counted](can_be_counted). Parts have rows that begin at
/// multiples of 16 bytes: beyond the end of a line the tensor maps have zeros.
fn simt_shape(of: &GemmShape, plan: &Plan) -> SimtShape {
    let (batch, n) = match plan.parts {
        1 => (of.batch, of.n),
        parts => (parts, of.n.next_multiple_of(finish::width_of::<f32>())),
    };
    SimtShape {
        batch: batch as u32,
        m: of.m as u32,
        n: n as u32,
        k: of.k as u32,
        part: plan.part as u32,
        a_step: (of.a[0] != 0 && plan.parts == 1).into(),
        b_step: (of.b[0] != 0 && plan.parts == 1).into(),
        whole: plan.whole as u32,
        share: plan.share,
    }
}

struct Launch<'a> {
    a: &'a Mapped<'a, f32>,
    b: &'a Mapped<'a, f32>,
    /// Whether `a` lies along k.
    along_k: bool,
    shape: SimtShape,
    plan: Plan,
    stream: &'a Stream,
}

impl Launch<'_> {
    /// One launch for all products, by the kernel `K`, which takes `a` as it lies, and has tiles of so many columns.
    fn run<K: Kernel<Params = SimtParams>, D: Dimension>(
        &self,
        out: &mut DeviceArrayRef<f32, D>,
        finish: &Finish<'_, f32, D>,
    ) -> Result<()> {
        let Plan {
            columns, blocks, share, ..
        } = self.plan;
        let k = tile_k(columns);
        let (tile, swizzle) = match self.along_k {
            true => ([1, tile_m(columns), k], swizzle(columns)),
            false => ([1, k, tile_m(columns)], Swizzle::None),
        };
        let a = self.a.tensor_map(TensorType::F32, &tile, swizzle)?;
        let tile = [1, k, tile_n(columns)];
        let b = self.b.tensor_map(TensorType::F32, &tile, Swizzle::None)?;
        let config = LaunchConfig {
            dynamic_shared: shared_bytes(columns),
            ..LaunchConfig::new(blocks as u32, threads(columns) as u32)
        };
        let handing = if share > 0 { blocks } else { 0 };
        let mut partials = DeviceArray::uninit(self.stream, Ix1(handing * handed_len(columns)))?;
        let mut flags = self.stream.take_counters(handing * warps(columns))?;
        let (alpha, beta, plan) = (finish.alpha, finish.beta, finish.plan());
        let args = (
            &a,
            &b,
            out,
            self.shape,
            alpha,
            beta,
            plan,
            finish.bias(),
            finish.residual(),
            &mut partials,
            &mut flags,
        );
        // SAFETY: the kernel's contract: threads, shared memory and the maps' tiles are those that it is written for, and
        // the output and the addends have the shape of the products; tiles are cut as `Plan` says, and there is room for what the
        // blocks hand over.
        unsafe { self.stream.launch_on_tensor_cores::<K>(&config, args)? };
        flags.give_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape([m, n, k]: [usize; 3]) -> GemmShape {
        super::super::split::tests::shape(m, n, k)
    }

    /// The best plan, with so many operands copied.
    fn best(extents: [usize; 3], copies: usize) -> Option<Plan> {
        let behind = Behind {
            finishes: false,
            is_ahead: true,
        };
        Plan::best(&shape(extents), behind, 132, |_| copies * COPY)
    }

    /// Its columns for square matrices.
    fn columns(side: usize, copies: usize) -> Option<usize> {
        best([side; 3], copies).map(|plan| plan.columns)
    }

    #[test]
    fn tiles_fill_the_device() {
        assert_eq!(
            [256, 512, 768].map(|side| columns(side, 0)),
            [Some(4); 3],
            "as measured"
        );
        assert_eq!([1024, 1280, 1536].map(|side| columns(side, 0)), [Some(8); 3]);
        assert_eq!([2048, 3072, 4096, 8192].map(|side| columns(side, 0)), [Some(16); 4]);
    }

    #[test]
    fn small_operands_are_not_copied() {
        assert_eq!([33, 129].map(|side| columns(side, 2)), [None; 2]);
        assert_eq!([1023, 4095].map(|side| columns(side, 2)), [Some(8), Some(16)]);
        assert_eq!(best([0; 3], 0), None);
    }

    /// A block has one tile's steps at least, and all steps are in a share.
    #[test]
    fn last_rounds_are_cut_where_they_leave_multiprocessors_idle() {
        for side in [768, 1280, 1536, 3072, 8192, 16384] {
            let plan = best([side; 3], 0).unwrap();
            let steps = side.div_ceil(tile_k(plan.columns));
            let cut = tiles(&shape([side; 3]), plan.columns) - plan.whole;
            assert!(plan.share as usize >= steps, "{side}: {plan:?}");
            assert!(
                cut > plan.blocks && plan.whole.is_multiple_of(plan.blocks),
                "{side}: {plan:?}"
            );
            assert!(
                (plan.share as usize * plan.blocks).abs_diff(cut * steps) < plan.blocks,
                "{side}: {plan:?}"
            );
        }
        let plan = Plan::whole(&shape([1024; 3]), 132, |_| 0, |columns| columns == 8).unwrap();
        assert_eq!((plan.share, plan.whole), (0, 128), "a tile for each multiprocessor");
    }

    #[test]
    fn a_long_k_is_cut_where_there_are_few_tiles() {
        let parts = |extents| best(extents, 0).map(|plan| plan.parts);
        for side in [64, 128, 512, 768, 2048, 4096] {
            assert_eq!(parts([side; 3]).unwrap_or(1), 1, "{side}");
        }
        let few = [[256; 3], [384; 3], [640; 3], [1510, 205, 1502]].map(parts);
        assert_eq!(few, [4, 3, 5, 5].map(Some), "as measured on an H200");
        assert!(parts([64, 8192, 8192]) > Some(1));
        for extents in [[256, 256, 65536], [255, 257, 4097], [64, 8192, 8193]] {
            let plan = best(extents, 0).unwrap();
            let all = plan.part * plan.parts;
            assert!(
                plan.parts > 1 && plan.part.is_multiple_of(tile_k(plan.columns)),
                "{plan:?}"
            );
            assert!(all >= extents[2] && all - plan.part < extents[2], "{plan:?}");
            assert!(tiles(&shape(extents), plan.columns) * plan.parts <= 2 * 132 * blocks(plan.columns));
        }
    }
}
