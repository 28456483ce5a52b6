// SPDX-License-Identifier: MIT OR Apache-2.0
//! What products of numbers of 8 bits on Hopper's tensor cores have in common: operands that lie along k, and results as tensor
//! maps can have them.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{LINE, WgmmaShape, tile_n};
use ndarray::Dimension;

use super::gemm::Multiplication;
use super::hopper::{is_hopper, set_rows, wgmma_shape};
use super::hopper_costs::{Adding, cycles};
use super::split::{Cut, Lengths, best_cut};
use super::tensor::Operand;
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::tensor_map::{TensorMapArg, TensorType};

/// The shape of a product of operands that fit.
pub(super) fn product_dim<A: Element, B: Element, D: Dimension>(
    a: &DeviceArrayRef<A, D>,
    b: &DeviceArrayRef<B, D>,
) -> D {
    let mut dim = a.raw_dim();
    let last = dim.ndim() - 1;
    dim[last] = b.shape()[last];
    if last == 2 && dim[0] == 1 {
        dim[0] = b.shape()[0];
    }
    dim
}

/// An error unless an output has a product's shape, and is on its stream's device.
pub(super) fn check_output<C: Element, D: Dimension>(
    operation: &'static str,
    product: &D,
    stream: &Stream,
    out: &DeviceArrayRef<C, D>,
) -> Result<()> {
    if out.raw_dim() == *product {
        return stream.check_device(operation, out.stream());
    }
    Err(Error::Shape {
        operation,
        given: format!("a product of shape {:?} into {:?}", product.slice(), out.shape()),
        wanted: "an output of the product's shape".into(),
    })
}

/// A batch of products of bytes on Hopper's tensor cores.
pub(super) struct ByteProduct<'a> {
    a: Operand<'a, u8>,
    b: Operand<'a, u8>,
    pub(super) shape: WgmmaShape,
}

impl<'a> ByteProduct<'a> {
    /// The product, where the stream's device has such tensor cores and they can count it: its operands, or copies of them
    /// along k.
    pub(super) fn new<D: Dimension>(product: &'a Multiplication<'_, u8, D>, stream: &Stream) -> Result<Option<Self>> {
        let Some(shape) = is_hopper(stream).then(|| wgmma_shape(product)).flatten() else {
            return Ok(None);
        };
        let of = &product.shape;
        Ok(Some(Self {
            a: Operand::new(&product.a, [of.batch, of.m, of.k], of.a, false)?,
            b: Operand::new(&product.b, [of.batch, of.n, of.k], of.b, false)?,
            shape,
        }))
    }

    /// The same, by tiles of as many rows as are done first, whose sums take so many registers.
    pub(super) fn with_best_rows(mut self, of: &GemmShape, registers: usize, stream: &Stream) -> Self {
        set_rows(&mut self.shape, of, 1, registers, false, stream);
        self
    }

    /// The maps of the operands, for tiles whose sums take so many registers.
    pub(super) fn maps(&self, registers: usize) -> Result<[TensorMapArg<'_, u8>; 2]> {
        Ok([
            self.a.map(TensorType::U8, self.shape.a_lines as usize)?,
            self.b.map(TensorType::U8, tile_n(registers))?,
        ])
    }
}

/// How the product is cut along k by tiles of these widths, if that pays on the stream's device: into parts of whole stages.
pub(super) fn best_parts<D: Dimension>(
    product: &Multiplication<'_, u8, D>,
    widths: &[usize],
    stream: &Stream,
) -> Option<Cut> {
    if !is_hopper(stream) {
        return None;
    }
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let cost = |shape: &GemmShape| {
        let of_width = |&registers: &usize| cycles(shape, 1, registers, multiprocessors);
        widths.iter().map(of_width).min().unwrap_or(0)
    };
    let of = &product.shape;
    best_cut(of, (Adding::OF_BYTES, Lengths::Equal), cost)
        .filter(|how| how.parts == 1 || of.k.is_multiple_of(how.parts * LINE))
}
