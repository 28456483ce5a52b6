// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products on tensor cores with few tiles and a long k: cut along k into parts, whose products are a batch, and summed.
//! Those of few rows of TF32 are computed as `Cᵀ = Bᵀ Aᵀ` on Hopper: a step along k of a tile then reads 128 lines of the large
//! matrix, where it would read 64.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::tile_k;
use ndarray::{Dimension, Ix3};

use super::choices::{Choice, Kernel};
use super::finish::{Finish, Sums};
use super::gemm::Multiplication;
use super::hopper_costs::{Adding, nanoseconds, nanoseconds_whole};
use super::tensor::{Factor, TensorCores};
use crate::array::{DeviceArray, Element};
use crate::error::Result;
use crate::ops::transpose::Ordered;
use crate::stream::Stream;

/// Into how many parts k is cut at most.
const MAX_PARTS: usize = 16;

/// Rows of products that may be computed as their transposes: what adds up the parts reads them across.
const FEW_ROWS: usize = 64;

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
    let cost = |how: Cut| cycles(&how.of(shape)) + adding.cost(shape, (how.parts, how.transposed));
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
    use super::super::hopper_costs::least_cycles;
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
}
