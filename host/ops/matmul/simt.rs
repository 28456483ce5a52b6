// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f32` on Hopper's ordinary cores, all but small ones by a kernel of their own.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::SimtParams;
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::simt::{SimtShape, blocks, gemm_simt, shared_bytes, threads, tile_k, tile_m, tile_n};
use ndarray::{Dimension, Ix3};

use super::gemm::{self, Multiplication, best_size};
use super::operand::Mapped;
use super::tensor::is_hopper;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorType};

/// The columns of a thread's tile, and what an element of a block's tile costs, where one of the largest tiles of the other
/// kernel costs 40: as measured on an H200.
const SIZES: [(usize, usize); 2] = [(16, 29), (8, 33)];

/// `out ← alpha · A B + beta · out`, on that stream. The bits are the same by either kernel.
pub(super) fn multiply<D: Dimension>(
    product: Multiplication<'_, f32, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<f32, D>,
    alpha: f32,
    beta: f32,
) -> Result<()> {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let columns = (is_hopper(stream) && alpha != 0.0)
        .then(|| best_columns(&product.shape, multiprocessors))
        .flatten();
    let Some((columns, shape)) = columns.zip(simt_shape(&product.shape)) else {
        return product.run(stream, out, alpha, beta);
    };
    let of = &product.shape;
    // Both with k in the middle and their lines last.
    let batch = |strides: [usize; 3]| if strides[0] == 0 { 1 } else { of.batch };
    let a = product
        .a
        .laid_out(Ix3(batch(of.a), of.k, of.m), vec![of.a[0], of.a[2], of.a[1]]);
    let b = product
        .b
        .laid_out(Ix3(batch(of.b), of.k, of.n), vec![of.b[0], of.b[2], of.b[1]]);
    let launch = Launch {
        a: &Mapped::new(a)?,
        b: &Mapped::new(b)?,
        shape,
        blocks: tiles(of, columns).min(blocks(columns) * multiprocessors) as u32,
        stream,
    };
    match columns {
        8 => launch.run::<gemm_simt<8>, D>(columns, out, alpha, beta),
        _ => launch.run::<gemm_simt<16>, D>(columns, out, alpha, beta),
    }
}

/// Tiles of all products, of which a thread has so many columns.
fn tiles(of: &GemmShape, columns: usize) -> usize {
    let of_product =
        of.m.div_ceil(tile_m(columns))
            .saturating_mul(of.n.div_ceil(tile_n(columns)));
    of_product.saturating_mul(of.batch)
}

/// The columns of a thread with which the product is done first, unless the other kernel is done earlier still: its tiles
/// are smaller, so that more multiprocessors have one.
fn best_columns(shape: &GemmShape, multiprocessors: usize) -> Option<usize> {
    let cost = |(columns, weight)| gemm::cost(shape, [tile_m(columns), tile_n(columns)], multiprocessors, weight);
    let (_, elsewhere) = best_size(shape, gemm::tiles::<f32>(), multiprocessors);
    let best = SIZES.into_iter().min_by_key(|&size| cost(size))?;
    (cost(best) < elsewhere).then_some(best.0)
}

/// The shape as the kernel takes it, if its numbers fit.
fn simt_shape(of: &GemmShape) -> Option<SimtShape> {
    // Coordinates are signed, and those of the last tile reach beyond the end.
    let fits = |length: usize| {
        u32::try_from(length)
            .ok()
            .filter(|&length| length <= i32::MAX as u32 - 256)
    };
    u32::try_from(tiles(of, 8)).ok()?;
    Some(SimtShape {
        batch: fits(of.batch)?,
        m: fits(of.m)?,
        n: fits(of.n)?,
        k: fits(of.k).filter(|&k| k > 0)?,
        a_step: (of.a[0] != 0).into(),
        b_step: (of.b[0] != 0).into(),
    })
}

struct Launch<'a> {
    a: &'a Mapped<'a, f32>,
    b: &'a Mapped<'a, f32>,
    shape: SimtShape,
    blocks: u32,
    stream: &'a Stream,
}

impl Launch<'_> {
    /// One launch for all products, by tiles of which a thread has so many columns, as `K`'s have.
    fn run<K: Kernel<Params = SimtParams>, D: Dimension>(
        &self,
        columns: usize,
        out: &mut DeviceArrayRef<f32, D>,
        alpha: f32,
        beta: f32,
    ) -> Result<()> {
        let tile = |lines| [1, tile_k(columns), lines];
        let (a, b) = (
            self.a
                .tensor_map(TensorType::F32, &tile(tile_m(columns)), Swizzle::None)?,
            self.b
                .tensor_map(TensorType::F32, &tile(tile_n(columns)), Swizzle::None)?,
        );
        let config = LaunchConfig {
            dynamic_shared: shared_bytes(columns),
            ..LaunchConfig::new(self.blocks, threads(columns) as u32)
        };
        // SAFETY: the kernel's contract: threads, shared memory and the maps' tiles are those that it is written for, and
        // the output has the shape of the products.
        unsafe {
            self.stream
                .launch_unchecked::<K>(&config, (&a, &b, out, self.shape, alpha, beta))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fill_the_device() {
        let best = |side| {
            let shape = GemmShape {
                batch: 1,
                first: 0,
                m: side,
                n: side,
                k: 100,
                a: [0; 3],
                b: [0; 3],
            };
            best_columns(&shape, 132)
        };
        assert_eq!([best(1), best(200)], [None; 2]);
        assert_eq!([best(1024), best(4096)], [Some(8), Some(16)]);
    }
}
