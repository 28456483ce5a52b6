// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays and views as text.

use std::fmt;

use ndarray::{ArrayD, ArrayViewD, Axis, Dimension, IxDyn, Slice};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::view::{DeviceView, DeviceViewMut};

/// With more elements than this, only those at the ends of the axes are shown, as NumPy does it.
const ALL: usize = 1000;

/// Elements at either end of an axis that is shown in part.
const EDGE: usize = 3;

/// The elements that are shown, and of which axes the middle is not.
fn shown<T: Element, D: Dimension>(elements: &DeviceArrayRef<T, D>) -> Result<(ArrayD<T>, Vec<bool>)> {
    let view = elements.view().into_dyn();
    let is_cut = |length: &usize| elements.len() > ALL && *length > 2 * EDGE;
    let cut: Vec<bool> = elements.shape().iter().map(is_cut).collect();
    let axes: Vec<usize> = (0..cut.len()).filter(|&axis| cut[axis]).collect();
    if axes.is_empty() {
        return Ok((view.to_ndarray()?, cut));
    }
    let length = |axis: usize| if cut[axis] { 2 * EDGE } else { elements.shape()[axis] };
    let lengths: Vec<usize> = (0..cut.len()).map(length).collect();
    let mut corners = DeviceArray::<T, IxDyn>::zeros(elements.stream(), IxDyn(&lengths))?;
    // A bit for each axis that is cut: whether the corner is at its end.
    for ends in 0..1usize << axes.len() {
        let (mut from, mut to) = (view.clone(), corners.view_mut());
        for (bit, &axis) in axes.iter().enumerate() {
            let edge = match ends >> bit & 1 {
                0 => Slice::new(0, Some(EDGE as isize), 1),
                _ => Slice::new(-(EDGE as isize), None, 1),
            };
            from = from.slice_axis(Axis(axis), edge)?;
            to = to.into_slice_axis(Axis(axis), edge)?;
        }
        to.assign(&from)?;
    }
    Ok((corners.to_ndarray()?, cut))
}

/// Writes the elements in brackets, one pair for each axis, with `element`.
fn write<T>(
    f: &mut fmt::Formatter<'_>,
    elements: &ArrayViewD<'_, T>,
    cut: &[bool],
    depth: usize,
    element: &impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    let Some((is_cut, inner)) = cut.split_first() else {
        return elements.first().map_or(Ok(()), |value| element(value, f));
    };
    // Rows stand below one another, and matrices have an empty line between them.
    let between = match inner.len() {
        0 => ", ".to_string(),
        axes => format!(",{}{}", "\n".repeat(axes), " ".repeat(depth + 1)),
    };
    f.write_str("[")?;
    for (i, part) in elements.outer_iter().enumerate() {
        if i > 0 {
            f.write_str(&between)?;
        }
        if *is_cut && i == EDGE {
            f.write_str("...")?;
            f.write_str(&between)?;
        }
        write(f, &part, inner, depth + 1, element)?;
    }
    f.write_str("]")
}

/// The elements, or in their place the error that reading them gives.
fn format<T: Element, D: Dimension>(
    f: &mut fmt::Formatter<'_>,
    elements: &DeviceArrayRef<T, D>,
    element: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    match shown(elements) {
        Ok((elements, cut)) => write(f, &elements.view(), &cut, 0, &element),
        Err(error) => write!(f, "<{error}>"),
    }
}

/// The elements, as ndarray writes them, with the formatter's options for each: of more than 1000 those at the ends of
/// the axes, three from either end, and only those are read from the device. Waits for them; where reading fails, the
/// error is what is written.
///
/// ```
/// use ndarray::{Array1, array};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 2.5], [3.0, 4.0]])?;
/// assert_eq!(format!("{x:.1}"), "[[1.0, 2.5],\n [3.0, 4.0]]");
/// let y = DeviceArray::from_ndarray(device.default_stream(), &Array1::from_iter(0..5000))?;
/// assert_eq!(y.to_string(), "[0, 1, 2, ..., 4997, 4998, 4999]");
/// # Ok(())
/// # }
/// ```
impl<T: Element + fmt::Display, D: Dimension> fmt::Display for DeviceArrayRef<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format(f, self, fmt::Display::fmt)
    }
}

/// The elements as [`Display`](fmt::Display) writes them, with their type, the shape, the strides and the device.
impl<T: Element + fmt::Debug, D: Dimension> fmt::Debug for DeviceArrayRef<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format(f, self, fmt::Debug::fmt)?;
        write!(
            f,
            ", type={}, shape={:?}, strides={:?}, device={}",
            std::any::type_name::<T>(),
            self.shape(),
            self.strides(),
            self.stream().device_id()
        )
    }
}

/// Types that are written as the elements that they dereference to.
macro_rules! formats {
    ($($type:ty),*) => {$(
        /// As that of [`DeviceArrayRef`].
        impl<T: Element + fmt::Display, D: Dimension> fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&**self, f)
            }
        }

        /// As that of [`DeviceArrayRef`].
        impl<T: Element + fmt::Debug, D: Dimension> fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }
    )*};
}

formats!(DeviceArray<T, D>, DeviceView<'_, T, D>, DeviceViewMut<'_, T, D>);
