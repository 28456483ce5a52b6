// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operands as tensor maps can have them.

use kernels_gpu::matmul::align::{LinesShape, PIECE, THREADS, align_lines};
use ndarray::{Dim, Dimension, Ix3, s};

use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, Words};
use crate::ops::transpose::Ordered;
use crate::tensor_map::{self, Swizzle, TensorElement, TensorMapArg, TensorType};
use crate::view::DeviceView;

/// The elements of 16 bytes: at multiples of them the lines of a tensor map begin.
const fn unit<T>() -> usize {
    16 / size_of::<T>()
}

/// A length along an axis of a tensor map, if it can be counted: coordinates are signed, and those of the last tile reach
/// beyond the end.
pub(super) fn coordinates(length: usize) -> Option<u32> {
    u32::try_from(length)
        .ok()
        .filter(|&length| length <= i32::MAX as u32 - 256)
}

/// Whether the elements lie so that a tensor map can have them.
pub(super) fn can_be_mapped<T: TensorElement>(elements: &DeviceView<'_, T, Ix3>) -> bool {
    tensor_map::layout(elements, &[1, 1, unit::<T>()], Swizzle::None).is_ok()
}

/// Elements that a tensor map can have.
pub(super) struct Mapped<'a, T> {
    lies: Ordered<'a, T, Ix3>,
    /// Elements of a line. In a copy there may be others behind them, which nobody has written.
    length: usize,
}

impl<'a, T: TensorElement> Mapped<'a, T> {
    /// The elements themselves, or a copy in C order, whose lines are longer where that aligns them.
    pub(super) fn new(elements: DeviceView<'a, T, Ix3>) -> Result<Self> {
        let (products, lines, length) = elements.raw_dim().into_pattern();
        let padded = length.next_multiple_of(unit::<T>());
        let lies = if can_be_mapped(&elements) {
            Ordered::AsIs(elements)
        } else if length == padded {
            Ordered::Copied(elements.to_array()?)
        } else {
            let mut copy = DeviceArray::uninit(elements.stream(), Ix3(products, lines, padded))?;
            copy.slice_mut(s![.., .., ..length])?.assign(&elements)?;
            Ordered::Copied(copy)
        };
        Ok(Self { lies, length })
    }

    /// The elements: of a line's length or, in a copy, more.
    pub(super) fn elements(&self) -> &DeviceArrayRef<T, Ix3> {
        &self.lies
    }

    /// The map, for tiles of that shape, of elements that the copy takes as `of`: beyond a line's end it reads zeros.
    pub(super) fn tensor_map(
        &self,
        of: TensorType,
        tile: &[usize; 3],
        swizzle: Swizzle,
    ) -> Result<TensorMapArg<'_, T>> {
        match self.lies.shape()[2] == self.length {
            true => self.lies.tensor_map_as(of, tile, swizzle),
            false => self
                .lies
                .slice(s![.., .., ..self.length])?
                .into_tensor_map(of, tile, swizzle),
        }
    }
}

/// How a tensor map has elements of a product of `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// As they lie.
    Lying,
    /// In a copy of their lines, made by [`align_lines`].
    Aligned(LinesShape),
    /// In such a copy of lines of which neighbours have neighbouring elements.
    Turned(LinesShape),
    /// In another copy: there are gaps between the elements, whichever way.
    Copied,
}

impl Mapping {
    pub(super) fn of(elements: &DeviceView<'_, f32, Ix3>) -> Self {
        if can_be_mapped(elements) {
            return Self::Lying;
        }
        match elements.steps()[..] {
            [.., 1] => lines(elements).map_or(Self::Copied, Self::Aligned),
            [.., 1, _] => lines(elements).map_or(Self::Copied, Self::Turned),
            _ => Self::Copied,
        }
    }

    /// Whether [`align_lines`] copies them.
    pub(super) fn is_aligned(self) -> bool {
        matches!(self, Self::Aligned(_) | Self::Turned(_))
    }

    /// The lines that are aligned, if there are such.
    fn lines(self) -> LinesShape {
        match self {
            Self::Aligned(lines) | Self::Turned(lines) => lines,
            Self::Lying | Self::Copied => LinesShape::default(),
        }
    }
}

/// The lines of elements, if their pieces can be counted in 32 bits, with those of the last blocks' threads.
fn lines(elements: &DeviceView<'_, f32, Ix3>) -> Option<LinesShape> {
    let (products, of_product, length) = elements.raw_dim().into_pattern();
    let lines = products.checked_mul(of_product)?;
    let threads = lines.checked_mul(length.div_ceil(PIECE))?.checked_add(2 * THREADS)?;
    let steps = elements.steps();
    u32::try_from(threads.checked_mul(PIECE)?).ok()?;
    (!elements.is_empty()).then_some(LinesShape {
        lines: lines as u32,
        of_product: of_product as u32,
        length: length as u32,
        strides: [steps[0], steps[1], steps[2]],
    })
}

impl<'a> Mapped<'a, f32> {
    /// Both operands of a product, so mapped. What [`align_lines`] copies is copied together, by one launch.
    pub(super) fn both([a, b]: [DeviceView<'a, f32, Ix3>; 2], mappings: [Mapping; 2]) -> Result<[Self; 2]> {
        let [of_a, of_b] = mappings.map(Mapping::lines);
        if of_a.lines == 0 && of_b.lines == 0 {
            return Ok([Self::new(a)?, Self::new(b)?]);
        }
        let stream = a.stream().clone();
        let copy = |of: LinesShape| {
            let products = of.lines.checked_div(of.of_product).unwrap_or(0);
            let shape = [products, of.of_product, PIECE as u32 * of.pieces()].map(|length| length as usize);
            DeviceArray::<f32, _>::uninit(&stream, Dim(shape))
        };
        let (mut to_a, mut to_b) = (copy(of_a)?, copy(of_b)?);
        let config = LaunchConfig::new(of_a.blocks() + of_b.blocks(), THREADS as u32);
        let args = (
            Words::of(&a),
            Words::of(&b),
            &mut to_a,
            &mut to_b,
            of_a,
            of_b,
            of_a.blocks(),
        );
        // SAFETY: the kernel's contract: the shapes are those of the operands, and of the copies.
        unsafe { stream.launch_unchecked::<align_lines>(&config, args)? };
        let mapped = |operand, of: LinesShape, copy| match of.lines {
            0 => Self::new(operand),
            _ => Ok(Self {
                lies: Ordered::Copied(copy),
                length: of.length as usize,
            }),
        };
        Ok([mapped(a, of_a, to_a)?, mapped(b, of_b, to_b)?])
    }
}
