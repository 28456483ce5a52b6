// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operands as tensor maps can have them.

use ndarray::{Dimension, Ix3, s};

use crate::array::DeviceArray;
use crate::error::Result;
use crate::ops::transpose::Ordered;
use crate::tensor_map::{self, Swizzle, TensorElement};
use crate::view::DeviceView;

/// The elements of 16 bytes: at multiples of them the lines of a tensor map begin.
const fn unit<T>() -> usize {
    16 / size_of::<T>()
}

/// Whether the elements lie so that a tensor map can have them.
pub(super) fn can_be_mapped<T: TensorElement>(elements: &DeviceView<'_, T, Ix3>) -> bool {
    tensor_map::layout(elements, &[1, 1, unit::<T>()], Swizzle::None).is_ok()
}

/// The elements themselves if a tensor map can have them, else a copy in C order, whose lines are longer where that
/// aligns them.
pub(super) fn mapped<T: TensorElement>(elements: DeviceView<'_, T, Ix3>) -> Result<Ordered<'_, T, Ix3>> {
    if can_be_mapped(&elements) {
        return Ok(Ordered::AsIs(elements));
    }
    let (products, lines, length) = elements.raw_dim().into_pattern();
    if length.is_multiple_of(unit::<T>()) {
        return Ok(Ordered::Copied(elements.to_array()?));
    }
    let padded = Ix3(products, lines, length.next_multiple_of(unit::<T>()));
    let mut copy = DeviceArray::uninit(elements.stream(), padded)?;
    copy.slice_mut(s![.., .., ..length])?.assign(&elements)?;
    Ok(Ordered::Copied(copy))
}
