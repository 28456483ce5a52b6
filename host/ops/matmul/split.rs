// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products on tensor cores with few tiles and a long k: cut along k into parts, whose products are a batch, and summed.

use kernels_gpu::matmul::gemm::GemmShape;
use ndarray::{Dimension, Ix3};

use super::gemm::Multiplication;
use crate::array::Element;
use crate::ops::transpose::Ordered;

/// Into how many parts k is cut at most.
const MAX_PARTS: usize = 16;

/// Cycles for the two launches behind the parts'.
const LAUNCHES_CYCLES: usize = 9000;

/// Bytes that the device's memory moves in a cycle.
const BYTES_A_CYCLE: usize = 2280;

/// The product with k cut into so many parts: a batch.
fn cut_shape(shape: &GemmShape, parts: usize) -> GemmShape {
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
        cycles(&cut_shape(shape, parts)) + sums + LAUNCHES_CYCLES
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

/// The batch of the products of the parts, if it pays to cut k, by the cycles that products take.
pub(super) fn cut<'a, T: Element, D: Dimension>(
    product: &'a Multiplication<'_, T, D>,
    cycles: impl Fn(&GemmShape) -> usize,
) -> Option<Multiplication<'a, T, Ix3>> {
    let parts = best_parts(&product.shape, cycles)?;
    let shape = cut_shape(&product.shape, parts);
    let GemmShape { m, n, k, a, b, .. } = shape;
    Some(Multiplication {
        a: Ordered::AsIs(product.a.laid_out(Ix3(parts, m, k), a.to_vec())),
        b: Ordered::AsIs(product.b.laid_out(Ix3(parts, k, n), vec![b[0], b[2], b[1]])),
        shape,
    })
}
