// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products on tensor cores with few tiles and a long k: cut along k into parts, whose products are a batch, and summed.
//! Those of few rows of TF32 are computed as `Cᵀ = Bᵀ Aᵀ` on Hopper: a step along k of a tile then reads 128 lines of the large
//! matrix, where it would read 64. Also what products cost on Hopper's.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{HALF_TILE_M, TILE_M, tile_k, tile_n};
use ndarray::{Dimension, Ix3};

use super::choices::{Choice, Kernel};
use super::finish::{Finish, Sums};
use super::gemm::Multiplication;
use super::tensor::{Factor, TensorCores};
use super::ways::{self, Lines};
use crate::array::{DeviceArray, Element};
use crate::error::Result;
use crate::ops::transpose::Ordered;
use crate::stream::Stream;

/// The registers of a thread that the sums of a tile take: widths of tiles.
pub(super) const REGISTERS: [usize; 4] = [128, 96, 64, 32];

/// Into how many parts k is cut at most.
const MAX_PARTS: usize = 16;

/// Rows of products that may be computed as their transposes: what adds up the parts reads them across.
const FEW_ROWS: usize = 64;

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
    any_number: bool,
    /// Whether the transpose may be computed.
    may_be_transposed: bool,
}

impl Adding {
    /// For a million sums that are written, and read as columns of a transposed product, each a sector of the cache.
    const ACROSS: usize = 15_800;

    /// Of numbers of 16 bits on Hopper, whose sums are only added up, as [`nanoseconds`].
    const OF_HALVES: Self = Self {
        launch: 1980,
        sums: 1640,
        results: 2450,
        any_number: true,
        may_be_transposed: false,
    };

    /// Of those that are finished, too: with a bias and a function.
    const OF_FINISHED_HALVES: Self = Self {
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

    /// The cost for the parts of that shape.
    fn cost(&self, shape: &GemmShape, how: Cut) -> usize {
        let results = shape.m.saturating_mul(shape.n);
        let a_million = if how.transposed { Self::ACROSS } else { self.sums };
        let of_each = how.parts.saturating_mul(a_million).saturating_add(self.results);
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
fn nanoseconds_whole(shape: &GemmShape, multiprocessors: usize) -> usize {
    let (alone, _) = nanoseconds(shape, multiprocessors);
    match ways::least_cycles(shape, multiprocessors) {
        Some(cycles) => alone.min(ENDS + OF_TURN + cycles / 21 * 10),
        None => alone,
    }
}

/// Nanoseconds for a batch of products of numbers of 16 bits by tiles of the best size, and the columns of these, as measured on an H200:
/// of a long k, of which a step takes less than those of a short one, with what is ahead of the first and behind the last. A step takes
/// as long as its products, or as its lines.
fn nanoseconds(shape: &GemmShape, multiprocessors: usize) -> (usize, usize) {
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

/// How a product of numbers of 16 bits is cut on Hopper, whose sums may be finished behind, if that pays.
pub(super) fn best_cut_of_halves(shape: &GemmShape, finishes: bool, multiprocessors: usize) -> Option<Cut> {
    let adding = match finishes {
        false => Adding::OF_HALVES,
        true => Adding::OF_FINISHED_HALVES,
    };
    best_cut(shape, (adding, Lengths::on_hopper(2)), |shape| match shape.whole {
        0 => nanoseconds_whole(shape, multiprocessors),
        _ => nanoseconds(shape, multiprocessors).0,
    })
}

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

/// How long parts of k are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lengths {
    /// Each has as many elements, from multiples of 16 bytes on: a batch of a power of two.
    Equal,
    /// Each has as many steps of so many elements, but the last, which has what is left: any number of parts, of any k.
    Steps(usize),
}

impl Lengths {
    /// Those of parts on Hopper's tensor cores, of elements of so many bytes.
    pub(super) const fn on_hopper(element: usize) -> Self {
        Self::Steps(tile_k(element))
    }

    /// The product with k cut into so many parts: a batch.
    fn cut(self, shape: &GemmShape, parts: usize) -> GemmShape {
        let (k, whole) = match self {
            Self::Steps(step) if parts > 1 => (shape.k.div_ceil(step).div_ceil(parts) * step, shape.k),
            _ => (shape.k / parts, 0),
        };
        GemmShape {
            batch: parts,
            k,
            a: [k * shape.a[2], shape.a[1], shape.a[2]],
            b: [k * shape.b[2], shape.b[1], shape.b[2]],
            whole,
            ..*shape
        }
    }
}

/// Products in the operands of such a batch, and their k: those of the one product that it is parts of, or of each.
pub(super) fn of_operands(shape: &GemmShape) -> [usize; 2] {
    match shape.whole {
        0 => [shape.batch, shape.k],
        whole => [1, whole],
    }
}

/// The product of the transposes, in the other order.
pub(super) fn transposed(shape: &GemmShape) -> GemmShape {
    GemmShape {
        m: shape.n,
        n: shape.m,
        a: shape.b,
        b: shape.a,
        pitch: shape.m,
        ..*shape
    }
}

/// How a product is done by parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Into how many parts k is cut.
    pub(super) parts: usize,
    /// How long they are.
    pub(super) lengths: Lengths,
    /// Whether the transpose is computed.
    pub(super) transposed: bool,
}

impl Cut {
    /// That into so many parts, if there is one.
    pub(super) fn new(parts: usize, lengths: Lengths, transposed: bool) -> Option<Self> {
        let can_be = parts.is_power_of_two() || (parts > 0 && lengths != Lengths::Equal);
        (can_be && parts <= MAX_PARTS).then_some(Self {
            parts,
            lengths,
            transposed,
        })
    }

    /// Whether nothing is cut or transposed.
    pub(super) fn is_none(self) -> bool {
        self.parts == 1 && !self.transposed
    }

    /// Whether the product can be cut so: a part begins at a multiple of 16 bytes, none is empty, and few rows alone are read across.
    pub(super) fn fits(self, shape: &GemmShape) -> bool {
        let are_there = match self.lengths {
            Lengths::Equal => shape.k.is_multiple_of(8 * self.parts),
            Lengths::Steps(_) => self.parts == 1 || (self.parts - 1) * self.of(shape).k < shape.k,
        };
        shape.batch == 1 && are_there && (!self.transposed || shape.m <= FEW_ROWS)
    }

    /// The product cut so: a batch of parts, of operands that lie where they did.
    pub(super) fn product<'a, T: Element, D: Dimension>(
        self,
        product: &'a Multiplication<'_, T, D>,
    ) -> Multiplication<'a, T, Ix3> {
        let shape = self.of(&product.shape);
        let GemmShape { m, n, a, b, .. } = shape;
        let [batch, k] = of_operands(&shape);
        let (left, right) = match self.transposed {
            true => (&product.b, &product.a),
            false => (&product.a, &product.b),
        };
        Multiplication {
            a: Ordered::AsIs(left.laid_out(Ix3(batch, m, k), a.to_vec())),
            b: Ordered::AsIs(right.laid_out(Ix3(batch, k, n), vec![b[0], b[2], b[1]])),
            shape,
            grid: product.grid,
        }
    }

    /// The shape of that batch.
    pub(super) fn of(self, shape: &GemmShape) -> GemmShape {
        match self.transposed {
            true => self.lengths.cut(&transposed(shape), self.parts),
            false => self.lengths.cut(shape, self.parts),
        }
    }
}

/// How the product is cut, if that pays by the cycles that products take, and maybe computed as its transpose. Of numbers of 16 and 8
/// bits on Hopper it is not: tiles of 64 rows read the lines that there are.
pub(super) fn best_cut(
    shape: &GemmShape,
    (adding, lengths): (Adding, Lengths),
    cycles: impl Fn(&GemmShape) -> usize,
) -> Option<Cut> {
    let whole = cycles(shape);
    let cost = |how: Cut| cycles(&how.of(shape)) + adding.cost(shape, how);
    let parts = (1..=MAX_PARTS).filter(|parts| adding.any_number || parts.is_power_of_two());
    let ways = parts.flat_map(|parts| [false, true].map(|transposed| Cut::new(parts, lengths, transposed)));
    ways.flatten()
        .filter(|how| !how.is_none() && how.fits(shape) && (adding.may_be_transposed || !how.transposed))
        .min_by_key(|&how| cost(how))
        .filter(|&how| cost(how) < whole)
}

/// The parts of a product's sums.
pub(super) struct Parts<S = f32> {
    /// Parts, rows, columns.
    pub(super) sums: DeviceArray<S, Ix3>,
    /// Whether the rows are the product's columns.
    pub(super) transposed: bool,
}

impl<S: Element> Parts<S> {
    /// Them, for what adds them up.
    pub(super) fn sums(&self) -> Sums<&DeviceArray<S, Ix3>> {
        let [parts, rows, columns] = *self.sums.shape() else {
            unreachable!("an array of three axes");
        };
        let strides = match self.transposed {
            true => [rows * columns, 1, columns],
            false => [rows * columns, columns, 1],
        };
        Sums::in_parts(&self.sums, parts, strides)
    }
}

/// How the product is cut on these cores, whose sums may be finished behind: as was chosen, or, if nothing was, if that pays.
pub(super) fn how<T: Factor>(
    shape: &GemmShape,
    cores: &TensorCores,
    finishes: bool,
    stream: &Stream,
    choice: Option<Choice>,
) -> Option<Cut> {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    match choice {
        Some(choice) => Some(choice.cut).filter(|cut| !cut.is_none()),
        None => {
            let element = size_of::<T::Element>();
            let lengths = match cores {
                TensorCores::Hopper(_) if element == 2 => {
                    return best_cut_of_halves(shape, finishes, multiprocessors);
                }
                TensorCores::Hopper(_) => Lengths::on_hopper(element),
                TensorCores::Ampere(_) => Lengths::Equal,
            };
            best_cut(shape, (Adding::ELSEWHERE, lengths), |shape| {
                cores.least_cycles(shape, element, multiprocessors)
            })
        }
    }
}

/// The parts of `alpha · A B` on these cores, cut along k, if they are; whether their sums are then finished.
pub(super) fn multiply<T: Factor, D: Dimension>(
    product: &Multiplication<'_, T::Element, D>,
    cores: &TensorCores,
    stream: &Stream,
    (alpha, finishes): (f32, bool),
    choice: Option<Choice>,
) -> Result<Option<Parts>> {
    let Some(how) = how::<T>(&product.shape, cores, finishes, stream, choice) else {
        return Ok(None);
    };
    let cut = how.product(product);
    let GemmShape { batch, m, n, .. } = cut.shape;
    // By the tiles that the parts were reckoned with.
    let reckoned = || match cores {
        TensorCores::Hopper(_) if size_of::<T::Element>() == 2 => {
            let multiprocessors = stream.backend().properties().multiprocessors as usize;
            Some(Choice {
                kernel: Kernel::Wgmma,
                tile: nanoseconds(&cut.shape, multiprocessors).1,
                cut: how,
            })
        }
        _ => None,
    };
    let choice = choice.or_else(reckoned);
    let Some(cores) = TensorCores::of(&cut, stream, choice) else {
        return Ok(None);
    };
    let mut sums = DeviceArray::<f32, _>::uninit(stream, Ix3(batch, m, n))?;
    let scale = Finish::<_, Ix3>::scale(alpha, 0.0);
    cores.multiply::<T, f32, _>(&cut, stream, &mut sums, &scale, choice)?;
    Ok(Some(Parts {
        sums,
        transposed: how.transposed,
    }))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A product of matrices, the left one in C order and the right one along k.
    pub(in super::super) fn shape(m: usize, n: usize, k: usize) -> GemmShape {
        GemmShape {
            batch: 1,
            first: 0,
            m,
            n,
            k,
            a: [0, k, 1],
            b: [0, 1, n],
            whole: 0,
            pitch: n,
        }
    }

    #[test]
    fn few_tiles_with_a_long_k_are_cut() {
        let parts = |m, n, k| best_cut_of_halves(&shape(m, n, k), false, 132).map(|how| how.parts);
        assert_eq!(
            [parts(4096, 4096, 4096), parts(512, 512, 512), parts(1024, 1024, 1024)],
            [None; 3]
        );
        assert_eq!(
            [parts(128, 4096, 4096), parts(64, 8192, 8192), parts(128, 2048, 2048)],
            [None; 3],
            "as measured on an H200"
        );
        assert_eq!(
            [
                parts(8, 4096, 4096),
                parts(64, 1024, 4096),
                parts(64, 2048, 8192),
                parts(256, 1024, 4096)
            ],
            [Some(2), Some(8), Some(4), Some(4)],
            "as measured on an H200"
        );
        assert!(parts(256, 256, 65536).is_some_and(|parts| parts >= 8));
        assert_eq!(parts(64, 8192, 8193), None, "as of 8192");
        assert_eq!(
            [
                parts(304, 1608, 8320),
                parts(696, 600, 2024),
                parts(1008, 392, 4136),
                parts(776, 552, 9696),
                parts(96, 1536, 8960),
                parts(1000, 1000, 1000),
                parts(1304, 1304, 8200),
                parts(1032, 1176, 6000)
            ],
            [Some(6), None, Some(4), Some(6), Some(11), None, None, None],
            "as measured on an H200, of lines that are not the cache's"
        );
        let finished = |m, n, k| best_cut_of_halves(&shape(m, n, k), true, 132).map(|how| how.parts);
        assert_eq!(
            [finished(768, 768, 8192), finished(1024, 1024, 1024)],
            [Some(3), None],
            "with a bias and a function"
        );
    }

    #[test]
    fn few_rows_are_columns_of_the_transpose() {
        let is_transposed = |m, n, k| {
            let adding = (Adding::ELSEWHERE, Lengths::on_hopper(4));
            best_cut(&shape(m, n, k), adding, |shape| least_cycles(shape, 4, 132)).is_some_and(|how| how.transposed)
        };
        assert!(
            [2, 16, 64]
                .map(|rows| is_transposed(rows, 8192, 8192))
                .into_iter()
                .all(|is| is)
        );
        assert!(!is_transposed(8192, 16, 8192) && !is_transposed(128, 8192, 8192) && !is_transposed(16, 64, 64));
        assert!(!is_transposed(64, 1024, 4096), "as measured on an H200");
    }

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
