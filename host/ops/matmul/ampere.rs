// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products by the instructions of a warp that tensor cores have since Turing and since Ampere. All later GPUs have them too.

use cuda_std::launch::Kernel;
use cuda_std::param::ByValue;
use kernels_gpu::compiled::{AmpereGemm, MmaParams};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::mma::{Ampere, Generation, MmaShape, rows, shared_bytes_of, threads_of, tile_k};
use ndarray::Dimension;

use super::finish::{Finish, Passed};
use super::gemm::Multiplication;
use super::hopper_costs::Adding;
use super::split::{Cut, Lengths, best_cut};
use super::tensor::{Factor, Operand, Summed};
use super::{MatMul, has_tensor_cores};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, Words};
use crate::stream::Stream;
use crate::tensor_map::TensorElement;

/// The columns of tiles.
const COLUMNS: [usize; 3] = [256, 128, 64];

/// The shape of a launch, if the stream's device has tensor cores since that generation, and the product fits; how the operands
/// lie is not in it yet.
pub(super) fn mma_shape(of: &GemmShape, since: (u32, u32), stream: &Stream) -> Option<MmaShape> {
    has_tensor_cores(stream, since).then(|| fitting_shape(of)).flatten()
}

/// The shape, if it has something to sum, and its numbers fit. Parts of k of any length are Hopper's.
fn fitting_shape(of: &GemmShape) -> Option<MmaShape> {
    if of.k == 0 || of.whole > 0 {
        return None;
    }
    // The last tile reaches beyond the end, as do the last elements of k that are copied ahead.
    let fits = |length: usize| u32::try_from(length).ok().filter(|&length| length <= u32::MAX - 256);
    // A grid has fewer blocks than 2^31.
    i32::try_from(tiles(of, 64)).ok()?;
    Some(MmaShape {
        batch: fits(of.batch)?,
        m: fits(of.m)?,
        n: fits(of.n)?,
        k: fits(of.k)?,
        a: [0; 2],
        b: [0; 2],
        a_along_m: 0,
        b_along_n: 0,
    })
}

/// One launch for all products, of a block for each tile, of so many columns, if that is said.
pub(super) fn multiply<T: Factor + AmpereGemm<C, F>, C: Summed, F: Passed<f32>>(
    product: &Multiplication<'_, T::Element, impl Dimension>,
    (mut shape, columns): (MmaShape, Option<usize>),
    stream: &Stream,
    out: &mut DeviceArrayRef<C, impl Dimension>,
    finish: &Finish<'_, C, impl Dimension, F>,
) -> Result<()> {
    let of = &product.shape;
    let operands = Operands::new(product, true, &mut shape)?;
    let launch = Launch {
        operands: &operands,
        shape,
        stream,
    };
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let columns = columns.unwrap_or_else(|| best_columns(of, size_of::<T::Element>(), &COLUMNS, multiprocessors));
    let config = config::<T::Element, f32, Ampere>(of, columns);
    match columns {
        64 => launch.run::<<T as AmpereGemm<C, F>>::N64, C, F>(config, out, finish),
        128 => launch.run::<<T as AmpereGemm<C, F>>::N128, C, F>(config, out, finish),
        _ => launch.run::<<T as AmpereGemm<C, F>>::N256, C, F>(config, out, finish),
    }
}

/// A launch of a block for each tile of so many columns, by a kernel for that generation, which sums elements of type `T` in `S`.
pub(super) fn config<T, S, G: Generation>(of: &GemmShape, columns: usize) -> LaunchConfig {
    LaunchConfig {
        dynamic_shared: shared_bytes_of::<S, G>(columns, size_of::<T>()),
        ..LaunchConfig::new(tiles(of, columns) as u32, threads_of::<G>(columns) as u32)
    }
}

/// Both operands, or copies of them, with lines that begin at multiples of 16 bytes.
pub(super) struct Operands<'a, T> {
    a: Operand<'a, T>,
    b: Operand<'a, T>,
}

impl<'a, T: TensorElement> Operands<'a, T> {
    /// Those of a product, which lie along k unless they may lie along their lines. Says in the shape of the launch how they lie.
    pub(super) fn new(
        product: &'a Multiplication<'_, T, impl Dimension>,
        may_lie_along_lines: bool,
        shape: &mut MmaShape,
    ) -> Result<Self> {
        let of = &product.shape;
        let a = Operand::new(&product.a, [of.batch, of.m, of.k], of.a, may_lie_along_lines)?;
        let b = Operand::new(&product.b, [of.batch, of.n, of.k], of.b, may_lie_along_lines)?;
        (shape.a, shape.b) = (strides(&a), strides(&b));
        (shape.a_along_m, shape.b_along_n) = (a.along_lines.into(), b.along_lines.into());
        Ok(Self { a, b })
    }

    /// Their elements, as the kernels take them.
    pub(super) fn words(&self) -> (Words<'_, T>, Words<'_, T>) {
        (Words::of(self.a.elements()), Words::of(self.b.elements()))
    }
}

/// Elements from product to product of an operand, and from line to line, or, of what lies along its lines, from one element
/// of k to the next: 0 where there is one only, whose stride may be any.
pub(super) fn strides<T: TensorElement>(operand: &Operand<'_, T>) -> [usize; 2] {
    let elements = operand.elements();
    [0, 1].map(|axis| match elements.shape()[axis] {
        1 => 0,
        _ => elements.strides()[axis].unsigned_abs(),
    })
}

pub(super) struct Launch<'a, T> {
    pub(super) operands: &'a Operands<'a, T>,
    pub(super) shape: MmaShape,
    pub(super) stream: &'a Stream,
}

impl<T: TensorElement> Launch<'_, T> {
    /// By the kernel `K`, with a [`config`] for its tiles and its generation.
    pub(super) fn run<K, C: MatMul<Scalar: ByValue>, F: Passed<C::Scalar>>(
        &self,
        config: LaunchConfig,
        out: &mut DeviceArrayRef<C, impl Dimension>,
        finish: &Finish<'_, C, impl Dimension, F>,
    ) -> Result<()>
    where
        K: Kernel<Params = MmaParams<T, C, F, C::Scalar>>,
    {
        let (a, b) = self.operands.words();
        let (alpha, beta, plan) = (finish.alpha, finish.beta, finish.plan());
        let (bias, residual) = (finish.bias(), finish.residual());
        let args = (a, b, out, self.shape, alpha, beta, plan, bias, residual);
        // SAFETY: the kernel's contract: threads and shared memory are those of its tiles, which are as many as the blocks;
        // the operands have the elements of the shape, from multiples of 16 bytes on and with such strides, as a tensor map
        // wants them, and `out` those of the products. The addends have the products' shape.
        unsafe { self.stream.launch_on_tensor_cores::<K>(&config, args) }
    }
}

/// Tiles of so many columns, of all products.
fn tiles(shape: &GemmShape, columns: usize) -> usize {
    let of_product = shape
        .m
        .div_ceil(rows(columns))
        .saturating_mul(shape.n.div_ceil(columns));
    of_product.saturating_mul(shape.batch)
}

/// Cycles for a batch of products of elements of so many bytes, by tiles of so many columns. A multiprocessor takes tiles in
/// turn: a tile takes the instructions of each stage, at an A100's 1024 products of 16 bits a cycle, and what is before and
/// behind them, where no other block works beside it. Smaller tiles take longer, as they read more of shared memory for a
/// product.
fn cycles(shape: &GemmShape, element: usize, columns: usize, multiprocessors: usize) -> usize {
    let (stage, ends) = match columns {
        64 => (205, 800),
        128 => (550, 1500),
        _ => (1024, 3000),
    };
    let turns = tiles(shape, columns).div_ceil(multiprocessors);
    let stages = shape.k.div_ceil(tile_k(element));
    turns.saturating_mul(stages.saturating_mul(stage).saturating_add(ends))
}

/// Of these columns of tiles, those with which the products are done first.
pub(super) fn best_columns(shape: &GemmShape, element: usize, columns: &[usize], multiprocessors: usize) -> usize {
    let cost = |&columns: &usize| cycles(shape, element, columns, multiprocessors);
    columns.iter().copied().min_by_key(cost).unwrap_or(COLUMNS[0])
}

/// Cycles with the columns of tiles with which the products are done first.
pub(super) fn least_cycles(shape: &GemmShape, element: usize, multiprocessors: usize) -> usize {
    let columns = best_columns(shape, element, &COLUMNS, multiprocessors);
    cycles(shape, element, columns, multiprocessors)
}

/// How a product of bytes is cut along k for tiles of the best of these columns, if that pays: into parts of whole stages.
pub(super) fn best_parts(of: &GemmShape, columns: &[usize], stream: &Stream) -> Option<Cut> {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let cost = |shape: &GemmShape| {
        let best = best_columns(shape, 1, columns, multiprocessors);
        cycles(shape, 1, best, multiprocessors)
    };
    best_cut(of, (Adding::ELSEWHERE, Lengths::Equal), cost).filter(|how| of.k.is_multiple_of(how.parts * tile_k(1)))
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;

    fn shape(batch: usize, [m, n, k]: [usize; 3]) -> GemmShape {
        GemmShape {
            batch,
            ..split::tests::shape(m, n, k)
        }
    }

    #[test]
    fn tiles_fill_the_device() {
        let best = |batch, of, multiprocessors| best_columns(&shape(batch, of), 2, &COLUMNS, multiprocessors);
        let squares = [256, 1024, 2048, 4096, 8192].map(|side| best(1, [side; 3], 132));
        assert_eq!(squares, [64, 64, 256, 256, 256]);
        assert_eq!(best(1, [2048; 3], 108), 128);
        assert_eq!([best(64, [512; 3], 108), best(1, [1, 8192, 8192], 108)], [256, 64]);
    }

    #[test]
    fn few_tiles_with_a_long_k_are_cut() {
        let cut = |of| {
            let adding = (Adding::ELSEWHERE, Lengths::Equal);
            split::best_cut(&shape(1, of), adding, |shape| least_cycles(shape, 2, 108)).map(|how| how.parts)
        };
        assert_eq!([cut([4096; 3]), cut([1024; 3])], [None; 2]);
        assert!(cut([256, 256, 65536]).is_some_and(|parts| parts >= 4));
    }
}
