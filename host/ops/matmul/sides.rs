// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operands of a launch on Hopper's tensor cores: which of them the kernel takes as its left one.
//!
//! Those of 16 bits may lie as they like. Of TF32 the tensor cores take from shared memory only what lies along k, but the
//! kernel's left operand can come from registers: then it lies along its lines. So an operand that does not lie along k is the
//! left one, and where that is `b`, it is `Cᵀ = Bᵀ Aᵀ` that is computed, and stored transposed. Of two such operands one is
//! copied along k.

use std::mem;

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::WgmmaShape;
use ndarray::Dimension;

use super::gemm::Multiplication;
use super::split::{of_operands, transposed};
use super::tensor::{Factor, Operand};
use crate::error::Result;
use crate::tensor_map::TensorElement;

/// The operands as the kernel takes them.
pub(super) struct Sides<'a, T> {
    pub(super) a: Operand<'a, T>,
    pub(super) b: Operand<'a, T>,
    /// Whether `a` is the product's right one, and the result is stored transposed.
    transposed: bool,
}

impl<'a, T: TensorElement> Sides<'a, T> {
    /// Those of a product, whose sums are only scaled, or not: of TF32 there is nothing else for what comes from registers.
    pub(super) fn new<F: Factor<Element = T>, D: Dimension>(
        product: &'a Multiplication<'_, T, D>,
        only_scaled: bool,
    ) -> Result<Self> {
        let of = &product.shape;
        let [batch, k] = of_operands(of);
        let a = |any| Operand::new(&product.a, [batch, of.m, k], of.a, any);
        let b = |any| Operand::new(&product.b, [batch, of.n, k], of.b, any);
        let as_they_are = |a, b| Self {
            a,
            b,
            transposed: false,
        };
        if F::ANY_LAYOUT || !only_scaled {
            return Ok(as_they_are(a(F::ANY_LAYOUT)?, b(F::ANY_LAYOUT)?));
        }
        let (left, right) = (a(true)?, b(true)?);
        let across = |left, right| Self {
            a: right,
            b: left,
            transposed: true,
        };
        Ok(match (left.along_lines, right.along_lines) {
            (_, false) => as_they_are(left, right),
            (false, true) => across(left, right),
            // The smaller one is copied.
            (true, true) if of.m <= of.n => across(a(false)?, right),
            (true, true) => as_they_are(left, b(false)?),
        })
    }

    /// Whether the kernel reads its left operand into registers, by tiles of all rows.
    pub(super) fn a_comes_from_registers<F: Factor<Element = T>>(&self) -> bool {
        !F::ANY_LAYOUT && self.a.along_lines
    }

    /// The shape of the product that is computed.
    pub(super) fn of(&self, product: &GemmShape) -> GemmShape {
        match self.transposed {
            true => transposed(product),
            false => *product,
        }
    }

    /// Says in the shape of a launch, which was the product's, how the operands lie, and which is which.
    pub(super) fn describe(&self, shape: &mut WgmmaShape) {
        if self.transposed {
            mem::swap(&mut shape.m, &mut shape.n);
            mem::swap(&mut shape.a_step, &mut shape.b_step);
        }
        shape.a_along_m = self.a.along_lines.into();
        shape.b_along_n = self.b.along_lines.into();
        shape.c_transposed = self.transposed.into();
    }
}
