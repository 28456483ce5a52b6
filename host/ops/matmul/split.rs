// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products on tensor cores with few tiles and a long k: cut along k into parts, whose products are a batch, and summed.
//! Those of few rows of TF32 are computed as `Cᵀ = Bᵀ Aᵀ` on Hopper: a step along k of a tile then reads 128 lines of the large
//! matrix, where it would read 64. Also what products cost on Hopper's.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{HALF_TILE_M, TILE_M, tile_k, tile_n};
use ndarray::{Dimension, Ix3};

use super::choices::Choice;
use super::finish::{Finish, Sums};
use super::gemm::Multiplication;
use super::tensor::{Factor, TensorCores};
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

/// Bytes that the device's memory moves in a cycle.
const BYTES_A_CYCLE: usize = 2280;

/// Bytes that are moved to write a sum of a part, and to read it as a column of a transposed product: a sector of the cache.
const BYTES_ACROSS: usize = 4 + 32;

/// What there is to be done behind the products of parts, in the measure of the steps along k.
#[derive(Clone, Copy)]
pub(super) struct Adding {
    /// Cycles for the launch.
    launch: usize,
    /// Bytes that are moved for each sum of a part.
    bytes: usize,
    /// Whether the transpose may be computed.
    may_be_transposed: bool,
}

impl Adding {
    /// Of numbers of 16 bits on Hopper, whose sums are only added up: [`HALF_STEP_CYCLES`] are twice what a step takes where k is long, and
    /// so are these.
    pub(super) const OF_HALVES: Self = Self {
        launch: 8000,
        bytes: 16,
        may_be_transposed: false,
    };

    /// Of those that are finished, too, and of numbers of 8 bits.
    pub(super) const AND_FINISHING: Self = Self {
        launch: 13000,
        bytes: 8,
        may_be_transposed: false,
    };

    /// Of TF32, and on other devices.
    pub(super) const ELSEWHERE: Self = Self {
        launch: 9000,
        bytes: 8,
        may_be_transposed: true,
    };

    /// Of numbers of 16 bits on Hopper.
    pub(super) const fn of_halves(finishes: bool) -> Self {
        match finishes {
            false => Self::OF_HALVES,
            true => Self::AND_FINISHING,
        }
    }

    /// Cycles for the parts of that shape.
    fn cycles(&self, shape: &GemmShape, how: Cut) -> usize {
        let bytes = if how.transposed { BYTES_ACROSS } else { self.bytes };
        let sums = how.parts.saturating_mul(shape.m).saturating_mul(shape.n);
        self.launch + sums.saturating_mul(bytes) / BYTES_A_CYCLE
    }
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
        let tiles = shape.batch.saturating_mul(shape.m.div_ceil(rows));
        let turns = tiles
            .saturating_mul(shape.n.div_ceil(columns))
            .div_ceil(multiprocessors);
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

/// The product with k cut into so many parts: a batch.
fn cut(shape: &GemmShape, parts: usize) -> GemmShape {
    let k = shape.k / parts;
    GemmShape {
        batch: parts,
        k,
        a: [k * shape.a[2], shape.a[1], shape.a[2]],
        b: [k * shape.b[2], shape.b[1], shape.b[2]],
        ..*shape
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
    /// Whether the transpose is computed.
    pub(super) transposed: bool,
}

impl Cut {
    /// That into so many parts, if there is one.
    pub(super) fn new(parts: usize, transposed: bool) -> Option<Self> {
        (parts.is_power_of_two() && parts <= MAX_PARTS).then_some(Self { parts, transposed })
    }

    /// Whether nothing is cut or transposed.
    pub(super) fn is_none(self) -> bool {
        self.parts == 1 && !self.transposed
    }

    /// Whether the product can be cut so: a part begins at a multiple of 16 bytes, and few rows alone are read across.
    pub(super) fn fits(self, shape: &GemmShape) -> bool {
        shape.batch == 1 && shape.k.is_multiple_of(8 * self.parts) && (!self.transposed || shape.m <= FEW_ROWS)
    }

    /// The product cut so: a batch of parts, of operands that lie where they did.
    pub(super) fn product<'a, T: Element, D: Dimension>(
        self,
        product: &'a Multiplication<'_, T, D>,
    ) -> Multiplication<'a, T, Ix3> {
        let shape = self.of(&product.shape);
        let GemmShape {
            batch, m, n, k, a, b, ..
        } = shape;
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
            true => cut(&transposed(shape), self.parts),
            false => cut(shape, self.parts),
        }
    }
}

/// How the product is cut, if that pays by the cycles that products take, and maybe computed as its transpose. Of numbers of 16 and 8
/// bits on Hopper it is not: tiles of 64 rows read the lines that there are.
pub(super) fn best_cut(shape: &GemmShape, adding: Adding, cycles: impl Fn(&GemmShape) -> usize) -> Option<Cut> {
    let whole = cycles(shape);
    let cost = |how: Cut| cycles(&how.of(shape)) + adding.cycles(shape, how);
    let parts = (0..).map(|power| 1 << power).take_while(|&parts| parts <= MAX_PARTS);
    let ways = parts.flat_map(|parts| [false, true].map(|transposed| Cut { parts, transposed }));
    ways.filter(|how| !how.is_none() && how.fits(shape) && (adding.may_be_transposed || !how.transposed))
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
            let adding = match cores {
                TensorCores::Hopper(_) if element <= 2 => Adding::of_halves(finishes),
                _ => Adding::ELSEWHERE,
            };
            best_cut(shape, adding, |shape| {
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
        let parts = |m, n, k| {
            best_cut(&shape(m, n, k), Adding::OF_HALVES, |shape| least_cycles(shape, 2, 132)).map(|how| how.parts)
        };
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
        assert_eq!(
            parts(64, 8192, 8193),
            None,
            "no part would begin at a multiple of 16 bytes"
        );
    }

    #[test]
    fn few_rows_are_columns_of_the_transpose() {
        let is_transposed = |m, n, k| {
            best_cut(&shape(m, n, k), Adding::ELSEWHERE, |shape| least_cycles(shape, 4, 132))
                .is_some_and(|how| how.transposed)
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
