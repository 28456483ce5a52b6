// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f32` on Hopper's ordinary cores, all but small ones by a kernel of their own.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::SimtParams;
use kernels_gpu::matmul::gemm::{GemmShape, KMajor, MnMajor};
use kernels_gpu::matmul::simt::{SimtShape, blocks, gemm_simt, shared_bytes, swizzle, threads, tile_k, tile_m, tile_n};
use ndarray::{Dimension, Ix3};

use super::choices::{self, Factors, Kernel as Chosen};
use super::finish::Finish;
use super::gemm::{self, Multiplication, best_size};
use super::gemv::by_vector;
use super::hopper::is_hopper;
use super::operand::{Mapped, can_be_mapped, coordinates};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorType};

/// The columns of a thread's tile, and what an element of a block's tile costs, where one of the largest tiles of the other
/// kernel costs 40: as measured on an H200.
const SIZES: [(usize, usize); 3] = [(16, 29), (8, 32), (4, 42)];

/// What it costs to copy an operand, small as it may be, in the same unit times k: some 4 µs.
const COPY: usize = 25_000_000;

/// Multiplies on that stream: a matrix by a vector as `matvec`, and else by either kernel with the same bits.
pub(super) fn multiply<D: Dimension>(
    product: Multiplication<'_, f32, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<f32, D>,
    finish: &Finish<'_, f32, D>,
) -> Result<()> {
    if by_vector(&product, stream, out, finish)? {
        return Ok(());
    }
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let of = &product.shape;
    let choice = choices::choice(Factors::F32, of, stream)?;
    let elsewhere = choice.and_then(|choice| choice.tile_of(Chosen::Gemm));
    let by_this = is_hopper(stream) && finish.alpha != 0.0 && elsewhere.is_none();
    let Some(shape) = simt_shape(of).filter(|_| by_this) else {
        return product.run_by(elsewhere, stream, out, finish);
    };
    // Both with k in the middle and their lines last, but for `a` where the kernel takes it along k, and it lies so.
    let batch = |strides: [usize; 3]| if strides[0] == 0 { 1 } else { of.batch };
    let (a, a_along_k) = (
        product
            .a
            .laid_out(Ix3(batch(of.a), of.k, of.m), vec![of.a[0], of.a[2], of.a[1]]),
        product.a.laid_out(Ix3(batch(of.a), of.m, of.k), of.a.to_vec()),
    );
    let b = product
        .b
        .laid_out(Ix3(batch(of.b), of.k, of.n), vec![of.b[0], of.b[2], of.b[1]]);
    let (a_lies, b_lies) = (can_be_mapped(&a), can_be_mapped(&b));
    let along_k = !a_lies && can_be_mapped(&a_along_k);
    let copies = |columns| usize::from(!(a_lies || columns < 16 && along_k)) + usize::from(!b_lies);
    let chosen = choice.and_then(|choice| {
        SIZES
            .map(|(columns, _)| columns)
            .into_iter()
            .find(|&columns| choice.tile_of(Chosen::Simt) == Some(tile_n(columns)))
    });
    let Some(columns) = chosen.or_else(|| best_columns(of, multiprocessors, copies)) else {
        return product.run(stream, out, finish);
    };
    let along_k = columns < 16 && along_k;
    let launch = Launch {
        a: &Mapped::new(if along_k { a_along_k } else { a })?,
        b: &Mapped::new(b)?,
        along_k,
        columns,
        shape,
        blocks: tiles(of, columns).min(blocks(columns) * multiprocessors) as u32,
        stream,
    };
    match (columns, along_k) {
        (4, true) => launch.run::<gemm_simt<KMajor, 4>, D>(out, finish),
        (4, false) => launch.run::<gemm_simt<MnMajor, 4>, D>(out, finish),
        (8, true) => launch.run::<gemm_simt<KMajor, 8>, D>(out, finish),
        (8, false) => launch.run::<gemm_simt<MnMajor, 8>, D>(out, finish),
        _ => launch.run::<gemm_simt<MnMajor, 16>, D>(out, finish),
    }
}

/// Tiles of all products, of which a thread has so many columns.
fn tiles(of: &GemmShape, columns: usize) -> usize {
    let of_product =
        of.m.div_ceil(tile_m(columns))
            .saturating_mul(of.n.div_ceil(tile_n(columns)));
    of_product.saturating_mul(of.batch)
}

/// The columns of a thread with which the product is done first, where `copies` says how many operands are copied for
/// them; `None` if the other kernel, which copies none, is done earlier still.
fn best_columns(shape: &GemmShape, multiprocessors: usize, copies: impl Fn(usize) -> usize) -> Option<usize> {
    let cost = |(columns, weight)| {
        let tile = [tile_m(columns), tile_n(columns)];
        let products = gemm::cost(shape, tile, multiprocessors, weight).saturating_mul(shape.k);
        products.saturating_add(COPY * copies(columns))
    };
    let (_, elsewhere) = best_size(shape, gemm::tiles::<f32>(), multiprocessors);
    let best = SIZES.into_iter().min_by_key(|&size| cost(size))?;
    (cost(best) < elsewhere.saturating_mul(shape.k)).then_some(best.0)
}

/// The shape as the kernel takes it, if its numbers fit.
fn simt_shape(of: &GemmShape) -> Option<SimtShape> {
    u32::try_from(tiles(of, 4)).ok()?;
    Some(SimtShape {
        batch: coordinates(of.batch)?,
        m: coordinates(of.m)?,
        n: coordinates(of.n)?,
        k: coordinates(of.k).filter(|&k| k > 0)?,
        a_step: (of.a[0] != 0).into(),
        b_step: (of.b[0] != 0).into(),
    })
}

struct Launch<'a> {
    a: &'a Mapped<'a, f32>,
    b: &'a Mapped<'a, f32>,
    /// Whether `a` lies along k.
    along_k: bool,
    /// Of a thread's tile.
    columns: usize,
    shape: SimtShape,
    blocks: u32,
    stream: &'a Stream,
}

impl Launch<'_> {
    /// One launch for all products, by the kernel `K`, which takes `a` as it lies, and has tiles of so many columns.
    fn run<K: Kernel<Params = SimtParams>, D: Dimension>(
        &self,
        out: &mut DeviceArrayRef<f32, D>,
        finish: &Finish<'_, f32, D>,
    ) -> Result<()> {
        let (columns, k) = (self.columns, tile_k(self.columns));
        let (tile, swizzle) = match self.along_k {
            true => ([1, tile_m(columns), k], swizzle(columns)),
            false => ([1, k, tile_m(columns)], Swizzle::None),
        };
        let a = self.a.tensor_map(TensorType::F32, &tile, swizzle)?;
        let tile = [1, k, tile_n(columns)];
        let b = self.b.tensor_map(TensorType::F32, &tile, Swizzle::None)?;
        let config = LaunchConfig {
            dynamic_shared: shared_bytes(columns),
            ..LaunchConfig::new(self.blocks, threads(columns) as u32)
        };
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
        );
        // SAFETY: the kernel's contract: threads, shared memory and the maps' tiles are those that it is written for, and
        // the output and the addends have the shape of the products.
        unsafe { self.stream.launch_on_tensor_cores::<K>(&config, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best columns for square matrices, of which so many are copied.
    fn best(side: usize, copies: usize) -> Option<usize> {
        let shape = GemmShape {
            batch: 1,
            first: 0,
            m: side,
            n: side,
            k: side,
            a: [0; 3],
            b: [0; 3],
        };
        best_columns(&shape, 132, |_| copies)
    }

    #[test]
    fn tiles_fill_the_device() {
        assert_eq!([256, 512, 768].map(|side| best(side, 0)), [Some(4); 3], "as measured");
        assert_eq!([1024, 1280, 2560, 3072].map(|side| best(side, 0)), [Some(8); 4]);
        assert_eq!([2048, 4096, 8192].map(|side| best(side, 0)), [Some(16); 3]);
    }

    #[test]
    fn small_operands_are_not_copied() {
        assert_eq!([33, 129].map(|side| best(side, 2)), [None; 2]);
        assert_eq!([1023, 4095].map(|side| best(side, 2)), [Some(8), Some(16)]);
        assert_eq!(best(0, 0), None);
    }
}
