// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operands as tensor maps can have them.

use ndarray::{Dimension, Ix3, s};

use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
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
