// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f32` on Hopper's ordinary cores, large ones by a kernel of their own.

use kernels_gpu::matmul::simt::{SHARED_BYTES, SimtShape, THREADS, TILE_K, TILE_M, TILE_N, gemm_simt};
use ndarray::{Dimension, Ix3};

use super::finish::Finish;
use super::gemm::{self, Multiplication, best_size};
use super::operand::Mapped;
use super::tensor::is_hopper;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorType};

/// What an element of a tile costs, where one of the largest tiles of the other kernel costs 40: on an H200 it takes 1.4
/// times as long.
const WEIGHT: usize = 29;

/// Multiplies on that stream. The bits are the same by either kernel.
pub(super) fn multiply<D: Dimension>(
    product: Multiplication<'_, f32, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<f32, D>,
    finish: &Finish<'_, f32, D>,
) -> Result<()> {
    let properties = stream.backend().properties();
    let (of, multiprocessors) = (&product.shape, properties.multiprocessors as usize);
    let shape = (is_hopper(stream) && finish.alpha != 0.0)
        .then(|| simt_shape(&product))
        .flatten();
    let cost = gemm::cost(of, [TILE_M, TILE_N], multiprocessors, WEIGHT);
    let (_, elsewhere) = best_size(of, gemm::tiles::<f32>(), multiprocessors);
    let Some(shape) = shape.filter(|_| cost < elsewhere) else {
        return product.run(stream, out, finish);
    };
    // Both with k in the middle and their lines last.
    let batch = |strides: [usize; 3]| if strides[0] == 0 { 1 } else { of.batch };
    let a = product
        .a
        .laid_out(Ix3(batch(of.a), of.k, of.m), vec![of.a[0], of.a[2], of.a[1]]);
    let b = product
        .b
        .laid_out(Ix3(batch(of.b), of.k, of.n), vec![of.b[0], of.b[2], of.b[1]]);
    let (a, b) = (Mapped::new(a)?, Mapped::new(b)?);
    let a = a.tensor_map(TensorType::F32, &[1, TILE_K, TILE_M], Swizzle::None)?;
    let b = b.tensor_map(TensorType::F32, &[1, TILE_K, TILE_N], Swizzle::None)?;
    let config = LaunchConfig {
        dynamic_shared: SHARED_BYTES,
        ..LaunchConfig::new(tiles(&product).min(multiprocessors) as u32, THREADS as u32)
    };
    let (alpha, beta, plan) = (finish.alpha, finish.beta, finish.plan());
    let args = (&a, &b, out, shape, alpha, beta, plan, finish.bias(), finish.residual());
    // SAFETY: the kernel's contract: threads, shared memory and the maps' tiles are those that it is written for, and the
    // output and the addends have the shape of the products.
    unsafe { stream.launch_unchecked::<gemm_simt>(&config, args) }
}

/// Tiles of all products.
fn tiles<D: Dimension>(product: &Multiplication<'_, f32, D>) -> usize {
    let of = &product.shape;
    let columns = of.n.div_ceil(TILE_N);
    of.batch.saturating_mul(of.m.div_ceil(TILE_M)).saturating_mul(columns)
}

/// The shape as the kernel takes it, if its numbers fit.
fn simt_shape<D: Dimension>(product: &Multiplication<'_, f32, D>) -> Option<SimtShape> {
    let of = &product.shape;
    // Coordinates are signed, and those of the last tile reach beyond the end.
    let fits = |length: usize| {
        u32::try_from(length)
            .ok()
            .filter(|&length| length <= i32::MAX as u32 - 256)
    };
    u32::try_from(tiles(product)).ok()?;
    Some(SimtShape {
        batch: fits(of.batch)?,
        m: fits(of.m)?,
        n: fits(of.n)?,
        k: fits(of.k).filter(|&k| k > 0)?,
        a_step: (of.a[0] != 0).into(),
        b_step: (of.b[0] != 0).into(),
    })
}
