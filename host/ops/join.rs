// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays made of others: joined, padded, repeated, turned. Every element is read as often as it is written, and written
//! once, but for many arrays whose rows are short.

use ndarray::{ArrayView1, Axis, Dimension, IntoDimension, IxDyn, RemoveAxis, Slice};

use super::Border;
use super::transpose::{Ordered, copy_two, is_lined, join_two, rows_along};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::layout::checked_len;
use crate::stream::Stream;
use crate::view::DeviceView;

/// The arrays one behind the other along an axis, as ndarray's `concatenate`, on the stream of the first.
///
/// Where more than two arrays that are not empty (of elements of one byte more than seven) make rows of less than 64 bytes, from the
/// axis on, and the lines of each of them, from the axis on, are dense and equally far apart, they are joined by halves, which are
/// arrays of their own meanwhile: together up to as large as the result.
///
/// # Errors
///
/// [`Error::Parameter`] if there is no array, [`Error::Axes`] if there is no such axis, [`Error::Shape`] if the other lengths
/// differ, [`Error::DifferentDevices`], and those of an allocation and a launch.
///
/// # Examples
///
/// ```
/// use ndarray::{Axis, array, s};
/// use warpsmith::{Device, DeviceArray, ops};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?;
/// let joined = ops::concatenate(Axis(1), &[x.view(), x.slice(s![.., ..1])?])?;
/// assert_eq!(joined.to_ndarray()?, array![[1, 2, 1], [3, 4, 3]]);
/// # Ok(())
/// # }
/// ```
#[doc(alias("cat", "vstack", "hstack", "append"))]
pub fn concatenate<T: Element, D: Dimension>(axis: Axis, arrays: &[DeviceView<'_, T, D>]) -> Result<DeviceArray<T, D>> {
    let first = first("concatenate", arrays)?;
    first.layout.check_axis("concatenate", axis.index())?;
    let mut dim = first.raw_dim();
    let mut total: usize = 0;
    for array in arrays {
        let mut wanted = first.raw_dim();
        let given = array.shape();
        if given.len() == wanted.ndim() {
            wanted[axis.index()] = given[axis.index()];
        }
        let sum = total.checked_add(wanted[axis.index()]);
        match sum.filter(|_| given == wanted.slice()) {
            Some(sum) => total = sum,
            None => return Err(differ("concatenate", arrays, "shapes that differ along the axis alone")),
        }
    }
    dim[axis.index()] = total;
    side_by_side(first.stream(), axis, arrays, dim)
}

/// The arrays, all of one shape, along a new axis, as ndarray's `stack`, on the stream of the first, as [`concatenate`] joins
/// them.
///
/// # Errors
///
/// [`Error::Parameter`] if there is no array, [`Error::Axes`] if the result would not have that axis, [`Error::Shape`] if the
/// shapes differ, [`Error::DifferentDevices`], and those of an allocation and a launch.
///
/// # Examples
///
/// ```
/// use ndarray::{Axis, array};
/// use warpsmith::{Device, DeviceArray, ops};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3])?;
/// let stacked = ops::stack(Axis(1), &[x.view(), x.flip(Axis(0))?])?;
/// assert_eq!(stacked.to_ndarray()?, array![[1, 3], [2, 2], [3, 1]]);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "column_stack")]
pub fn stack<T: Element, D: Dimension>(axis: Axis, arrays: &[DeviceView<'_, T, D>]) -> Result<DeviceArray<T, D::Larger>>
where
    D::Larger: RemoveAxis,
{
    let first = first("stack", arrays)?;
    if arrays.iter().any(|array| array.shape() != first.shape()) {
        return Err(differ("stack", arrays, "equal shapes"));
    }
    let mut dim = first.layout.insert_axis("stack", axis.index())?.dim().clone();
    dim[axis.index()] = arrays.len();
    let arrays: Vec<_> = arrays
        .iter()
        .map(|array| array.insert_axis(axis))
        .collect::<Result<_>>()?;
    side_by_side(first.stream(), axis, &arrays, dim)
}

/// Rows of the result of more than two arrays with fewer bytes than this are made by halves, which are put side by side:
/// each array alone would write a part of every sector of the memory.
const SHORT_ROW_OF_MANY: usize = 64;

/// The most arrays of such rows that are not halved. Of bytes, halves take longer for few arrays than each array by itself: those of
/// five columns 432 for 383 µs of an H200, of eight 381 for 544.
const fn most_in_turn<T>() -> usize {
    if size_of::<T>() == 1 { 7 } else { 2 }
}

/// The arrays, at least one, which differ along the axis alone, one behind the other along it: an array of that shape, made
/// on that stream.
fn side_by_side<T: Element, D: Dimension>(
    stream: &Stream,
    axis: Axis,
    arrays: &[DeviceView<'_, T, D>],
    dim: D,
) -> Result<DeviceArray<T, D>> {
    let arrays: Vec<_> = arrays
        .iter()
        .filter(|array| !array.is_empty())
        .map(|array| array.view())
        .collect();
    let (rows, row) = rows_along::<T>(dim.slice(), axis.index());
    // Halves of others would be put side by side by a launch for each all the same, after a copy of all.
    let is_lined = |array: &DeviceView<'_, T, D>| is_lined(array, axis.index(), dim.slice());
    let is_halved = arrays.len() > most_in_turn::<T>()
        && rows > 1
        && (1..SHORT_ROW_OF_MANY).contains(&row)
        && arrays.iter().all(is_lined);
    if is_halved {
        by_halves(stream, axis, &arrays, dim)
    } else {
        in_turn(stream, axis, &arrays, dim)
    }
}

/// The arrays, of which each [is lined](is_lined), the two halves of them first.
fn by_halves<T: Element, D: Dimension>(
    stream: &Stream,
    axis: Axis,
    arrays: &[DeviceView<'_, T, D>],
    dim: D,
) -> Result<DeviceArray<T, D>> {
    if arrays.len() <= most_in_turn::<T>() {
        return in_turn(stream, axis, arrays, dim);
    }
    let (front, back) = arrays.split_at(arrays.len() / 2);
    let (front, back) = (half(stream, axis, front, &dim)?, half(stream, axis, back, &dim)?);
    in_turn(stream, axis, &[front.view(), back.view()], dim)
}

/// The arrays, none of which is empty, by a launch for each, or for two.
fn in_turn<T: Element, D: Dimension>(
    stream: &Stream,
    axis: Axis,
    arrays: &[DeviceView<'_, T, D>],
    dim: D,
) -> Result<DeviceArray<T, D>> {
    let mut out = DeviceArray::uninit(stream, dim)?;
    if let [x, y] = arrays
        && join_two([x, y], axis.index(), &mut out)?
    {
        return Ok(out);
    }
    let (mut start, mut rest) = (0, arrays);
    while let [array, others @ ..] = rest {
        let mut end = start + array.shape()[axis.index()];
        rest = others;
        match others {
            [next, others @ ..] if copy_two([array, next], axis.index(), start, &mut out)? => {
                end += next.shape()[axis.index()];
                rest = others;
            }
            _ => out.slice_axis_mut(axis, Slice::from(start..end))?.assign(array)?,
        }
        start = end;
    }
    Ok(out)
}

/// Half of the arrays of a result of that shape, one behind the other: itself where it is a single one.
fn half<'a, T: Element, D: Dimension>(
    stream: &Stream,
    axis: Axis,
    arrays: &'a [DeviceView<'_, T, D>],
    whole: &D,
) -> Result<Ordered<'a, T, D>> {
    if let [array] = arrays {
        return Ok(Ordered::AsIs(array.view()));
    }
    let mut dim = whole.clone();
    dim[axis.index()] = arrays.iter().map(|array| array.shape()[axis.index()]).sum();
    Ok(Ordered::Copied(by_halves(stream, axis, arrays, dim)?))
}

/// The first of the arrays, which are on one device.
fn first<'a, 'b, T: Element, D: Dimension>(
    operation: &'static str,
    arrays: &'a [DeviceView<'b, T, D>],
) -> Result<&'a DeviceView<'b, T, D>> {
    let first = arrays.first().ok_or(Error::Parameter {
        operation,
        parameter: "arrays",
        given: "none".into(),
        wanted: "at least one".into(),
    })?;
    let mut others = arrays.iter();
    others.try_for_each(|other| first.stream().check_device(operation, other.stream()))?;
    Ok(first)
}

/// The error of shapes that do not fit together.
fn differ<T: Element, D: Dimension>(
    operation: &'static str,
    arrays: &[DeviceView<'_, T, D>],
    wanted: &'static str,
) -> Error {
    let shapes: Vec<&[usize]> = arrays.iter().map(|array| array.shape()).collect();
    Error::Shape {
        operation,
        given: format!("shapes {shapes:?}"),
        wanted: wanted.into(),
    }
}

/// Turned, padded and repeated.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements moved by `shift` places along an axis; what goes beyond the end comes in at the beginning: NumPy's
    /// `roll`. A negative shift moves them towards the beginning.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3, 4, 5])?;
    /// assert_eq!(x.roll(Axis(0), 2)?.to_ndarray()?, array![4, 5, 1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn roll(&self, axis: Axis, shift: isize) -> Result<DeviceArray<T, D>> {
        self.layout.check_axis("roll", axis.index())?;
        let length = self.shape()[axis.index()];
        if length == 0 {
            return self.to_array();
        }
        let (front, back) = self.split_at(axis, length - shift.rem_euclid(length as isize) as usize)?;
        concatenate(axis, &[back, front])
    }

    /// The elements with more around them: along axis `i`, `widths[i][0]` in front and `widths[i][1]` behind, which
    /// `border` says, as for blurs ([`Border`]): NumPy's `pad` with `constant`, `edge` ([`Border::Clamp`]), `symmetric`
    /// ([`Border::Reflect`]) and `wrap`.
    ///
    /// With a constant every element of the result is written once. With another border, each axis that is padded costs
    /// one copy of what there is by then.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] unless there are widths for each axis, [`Error::Parameter`] for [`Border::Mean`],
    /// [`Error::Shape`] if an axis without elements is to be continued by its own, or the result has too many elements,
    /// and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::ops::Border;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?;
    /// let padded = x.pad(&[[1, 0], [0, 2]], Border::Constant(0))?;
    /// assert_eq!(padded.to_ndarray()?, array![[0, 0, 0, 0], [1, 2, 0, 0], [3, 4, 0, 0]]);
    /// let padded = x.pad(&[[0, 0], [1, 1]], Border::Clamp)?;
    /// assert_eq!(padded.to_ndarray()?, array![[1, 1, 2, 2], [3, 3, 4, 4]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pad(&self, widths: &[[usize; 2]], border: Border<T>) -> Result<DeviceArray<T, D>> {
        if widths.len() != self.ndim() {
            return Err(Error::Axes {
                operation: "pad",
                given: (0..widths.len()).collect(),
                wanted: format!("widths for {} axes", self.ndim()),
            });
        }
        let mut dim = self.raw_dim();
        for (length, &[front, back]) in dim.slice_mut().iter_mut().zip(widths) {
            // Too long for a shape, where the sum is too large.
            *length = length.saturating_add(front).saturating_add(back);
        }
        if checked_len(dim.slice()).is_none() {
            return Err(Error::Shape {
                operation: "pad",
                given: format!("shape {:?} and widths {widths:?}", self.shape()),
                wanted: "fewer than 2^63 elements together".into(),
            });
        }
        let source: fn(isize, isize) -> isize = match border {
            Border::Constant(constant) => return self.padded_by(constant, dim, widths),
            Border::Clamp => |place, length| place.clamp(0, length - 1),
            Border::Wrap => |place, length| place.rem_euclid(length),
            Border::Reflect => |place, length| {
                let place = place.rem_euclid(2 * length);
                place.min(2 * length - 1 - place)
            },
            Border::Mean => {
                return Err(Error::Parameter {
                    operation: "pad",
                    parameter: "border",
                    given: "Mean".into(),
                    wanted: "Constant, Clamp, Reflect or Wrap".into(),
                });
            }
        };
        let mut result: Option<DeviceArray<T, D>> = None;
        for (axis, &[front, back]) in widths.iter().enumerate().filter(|(_, widths)| **widths != [0, 0]) {
            let length = self.shape()[axis] as isize;
            if length == 0 {
                return Err(Error::Shape {
                    operation: "pad",
                    given: format!("shape {:?} and widths {widths:?}", self.shape()),
                    wanted: format!("an element along axis {axis}, to continue it"),
                });
            }
            let places = -(front as isize)..length + back as isize;
            let wanted = dim[axis];
            let mut indices = Vec::new();
            indices.try_reserve_exact(wanted).map_err(|_| Error::HostMemory {
                wanted: wanted.saturating_mul(size_of::<u64>()),
            })?;
            indices.extend(places.map(|place| source(place, length) as u64));
            let indices = DeviceArray::literal(self.stream(), &ArrayView1::from(&indices))?;
            let padded = match &result {
                Some(result) => result.take(Axis(axis), &indices)?,
                None => self.take(Axis(axis), &indices)?,
            };
            result = Some(padded);
        }
        result.map_or_else(|| self.to_array(), Ok)
    }

    /// In the middle of an array of shape `dim`, with the constant around.
    fn padded_by(&self, constant: T, dim: D, widths: &[[usize; 2]]) -> Result<DeviceArray<T, D>> {
        let mut out = DeviceArray::uninit(self.stream(), dim)?;
        // What is left to be written: less along each axis, whose edges are filled.
        let mut middle = out.view_mut();
        for (axis, &[front, back]) in widths.iter().enumerate() {
            let length = middle.shape()[axis];
            let (mut before, rest) = middle.into_split_axis(Axis(axis), front)?;
            before.fill(constant)?;
            let (inside, mut behind) = rest.into_split_axis(Axis(axis), length - front - back)?;
            behind.fill(constant)?;
            middle = inside;
        }
        middle.assign(&self.view())?;
        Ok(out)
    }

    /// The array repeated `times[i]` times along axis `i`, as a whole: NumPy's `tile`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the result has too many elements, and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2]])?;
    /// assert_eq!(x.tile((2, 2))?.to_ndarray()?, array![[1, 2, 1, 2], [1, 2, 1, 2]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tile(&self, times: impl IntoDimension<Dim = D>) -> Result<DeviceArray<T, D>> {
        let times = times.into_dimension();
        if times.ndim() != self.ndim() {
            return Err(Error::Axes {
                operation: "tile",
                given: (0..times.ndim()).collect(),
                wanted: format!("numbers for {} axes", self.ndim()),
            });
        }
        // Every axis with one in front of it, along which it is repeated.
        let mut view = self.view().into_dyn();
        let mut shape = Vec::with_capacity(2 * self.ndim());
        for axis in 0..self.ndim() {
            view = view.insert_axis(Axis(2 * axis))?;
            shape.extend([times[axis], self.shape()[axis]]);
        }
        self.repeated("tile", &view, &shape, times.slice())
    }

    /// Every part along an axis `times` times: NumPy's `repeat`.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] if the result has too many elements, and those of an
    /// allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?;
    /// assert_eq!(x.repeat(Axis(1), 2)?.to_ndarray()?, array![[1, 1, 2, 2], [3, 3, 4, 4]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn repeat(&self, axis: Axis, times: usize) -> Result<DeviceArray<T, D>> {
        self.layout.check_axis("repeat", axis.index())?;
        let view = self.view().into_dyn().insert_axis(Axis(axis.index() + 1))?;
        let mut shape = self.shape().to_vec();
        shape.insert(axis.index() + 1, times);
        let mut all = vec![1; self.ndim()];
        all[axis.index()] = times;
        self.repeated("repeat", &view, &shape, &all)
    }

    /// The view repeated to `shape`, as an array that has `times[i]` times as many elements along axis `i`.
    fn repeated(
        &self,
        operation: &'static str,
        view: &DeviceView<'_, T, IxDyn>,
        shape: &[usize],
        times: &[usize],
    ) -> Result<DeviceArray<T, D>> {
        let mut dim = self.raw_dim();
        for (length, &times) in dim.slice_mut().iter_mut().zip(times) {
            *length = length.saturating_mul(times);
        }
        if checked_len(shape).is_none() || checked_len(dim.slice()).is_none() {
            return Err(Error::Shape {
                operation,
                given: format!("shape {:?}, {times:?} times", self.shape()),
                wanted: "fewer than 2^63 elements together".into(),
            });
        }
        view.broadcast(IxDyn(shape))?.to_array()?.into_shape(dim)
    }
}
