// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products on tensor cores with few tiles and a long k: cut along k into parts, whose products are a batch, and summed. Also
//! what such products cost on Hopper's.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{TILE_M, tile_k, tile_n};
use ndarray::{Dimension, Ix3};

use super::finish::Finish;
use super::gemm::Multiplication;
use super::tensor::{Factor, TensorCores};
use crate::array::DeviceArray;
use crate::error::Result;
use crate::ops::transpose::Ordered;
use crate::stream::Stream;

/// The registers of a thread that the sums of a tile take: widths of tiles.
pub(super) const REGISTERS: [usize; 4] = [128, 96, 64, 32];

/// Into how many parts k is cut at most.
const MAX_PARTS: usize = 16;

/// Cycles for 128 bytes along k of a tile of that many columns, as measured on an H200: those of the tensor cores, but for
/// narrow tiles, for which the copies take longer.
fn step_cycles(columns: usize) -> usize {
    (114 + 19 * columns / 4).max(560)
}

/// Cycles for the two launches behind the parts'.
const LAUNCHES_CYCLES: usize = 9000;

/// Bytes that the device's memory moves in a cycle.
const BYTES_A_CYCLE: usize = 2280;

/// Cycles for a batch of products of elements of so many bytes, with sums of so many registers. A multiprocessor takes
/// tiles in turn.
pub(super) fn cycles(shape: &GemmShape, element: usize, registers: usize, multiprocessors: usize) -> usize {
    let columns = tile_n(registers);
    let tiles = shape.batch.saturating_mul(shape.m.div_ceil(TILE_M));
    let turns = tiles
        .saturating_mul(shape.n.div_ceil(columns))
        .div_ceil(multiprocessors);
    turns
        .saturating_mul(shape.k.div_ceil(tile_k(element)))
        .saturating_mul(step_cycles(columns))
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

/// Into how many parts k is cut, if that pays by the cycles that products take: a part begins at a multiple of 16 bytes.
pub(super) fn best_parts(shape: &GemmShape, cycles: impl Fn(&GemmShape) -> usize) -> Option<usize> {
    let whole = cycles(shape);
    let cost = |parts: usize| {
        let sums = parts.saturating_mul(8 * shape.m).saturating_mul(shape.n) / BYTES_A_CYCLE;
        cycles(&cut(shape, parts)) + sums + LAUNCHES_CYCLES
    };
    let fits = |parts: &usize| shape.batch == 1 && shape.k.is_multiple_of(8 * parts);
    let parts = (1..)
        .map(|power| 1 << power)
        .take_while(|&parts| parts <= MAX_PARTS)
        .filter(fits);
    parts
        .min_by_key(|&parts| cost(parts))
        .filter(|&parts| cost(parts) < whole)
}

/// The parts of `alpha · A B` on these cores, cut along k, if that pays.
pub(super) fn multiply<T: Factor, D: Dimension>(
    product: &Multiplication<'_, T::Element, D>,
    cores: &TensorCores,
    stream: &Stream,
    alpha: f32,
) -> Result<Option<DeviceArray<f32, Ix3>>> {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let cycles = |shape: &GemmShape| cores.least_cycles(shape, size_of::<T::Element>(), multiprocessors);
    let Some(parts) = best_parts(&product.shape, cycles) else {
        return Ok(None);
    };
    let shape = cut(&product.shape, parts);
    let GemmShape { m, n, k, a, b, .. } = shape;
    let cut = Multiplication {
        a: Ordered::AsIs(product.a.laid_out(Ix3(parts, m, k), a.to_vec())),
        b: Ordered::AsIs(product.b.laid_out(Ix3(parts, k, n), vec![b[0], b[2], b[1]])),
        shape,
    };
    let Some(cores) = TensorCores::of(&cut, stream) else {
        return Ok(None);
    };
    let mut sums = DeviceArray::<f32, _>::uninit(stream, Ix3(parts, m, n))?;
    cores.multiply::<T, f32, Ix3>(&cut, stream, &mut sums, &Finish::scale(alpha, 0.0))?;
    Ok(Some(sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(m: usize, n: usize, k: usize) -> GemmShape {
        GemmShape {
            batch: 1,
            first: 0,
            m,
            n,
            k,
            a: [0, k, 1],
            b: [0, 1, n],
        }
    }

    #[test]
    fn few_tiles_with_a_long_k_are_cut() {
        let parts = |m, n, k| best_parts(&shape(m, n, k), |shape| least_cycles(shape, 2, 132));
        assert_eq!(
            [parts(4096, 4096, 4096), parts(512, 512, 512), parts(1024, 1024, 1024)],
            [None; 3]
        );
        assert!(parts(64, 8192, 8192).is_some_and(|parts| parts >= 2));
        assert!(parts(256, 256, 65536).is_some_and(|parts| parts >= 8));
        assert_eq!(
            parts(64, 8192, 8193),
            None,
            "no part would begin at a multiple of 16 bytes"
        );
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
    }
}
