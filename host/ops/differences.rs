// SPDX-License-Identifier: MIT OR Apache-2.0
//! Differences of neighbours, and what is made of them: derivatives and integrals of sampled functions.

use cuda_std::scalar::ScalarType;
use kernels_gpu::compiled::Number;
use ndarray::{Axis, Dimension, Ix0, Ix1, RemoveAxis, Slice};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::{self, Expr, Promote, Value};
use crate::ops::Real;
use crate::view::DeviceView;

impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements from `start` along an axis, without the last `rest`.
    fn between(&self, axis: Axis, start: usize, rest: usize) -> Result<DeviceView<'_, T, D>> {
        let len = self.shape()[axis.index()];
        let end = len.saturating_sub(rest);
        self.slice_axis(axis, Slice::from(start.min(end)..end))
    }
}

impl<T: Element> DeviceArrayRef<T, Ix1> {
    /// These, of which `operation` has one for each index along an axis of `x`, in as many axes as that has, and length 1 along others.
    pub(crate) fn laid_along<U: Element, D: Dimension>(
        &self,
        operation: &'static str,
        x: &DeviceArrayRef<U, D>,
        axis: Axis,
    ) -> Result<DeviceView<'_, T, D>> {
        x.layout.check_axis(operation, axis.index())?;
        let mut dim = D::zeros(x.ndim());
        dim.slice_mut().fill(1);
        dim[axis.index()] = x.shape()[axis.index()];
        if self.len() != dim.size() {
            return Err(Error::Shape {
                operation,
                given: format!(
                    "{} numbers along axis {} of shape {:?}",
                    self.len(),
                    axis.index(),
                    x.shape()
                ),
                wanted: "as many as that axis is long".into(),
            });
        }
        self.reshape(dim)
    }
}

/// Differences of neighbours.
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    /// The difference of each element to the one before it along an axis, which is one shorter: NumPy's `diff`. Those of integers
    /// without a sign wrap around where elements descend. One kernel. Differences of differences, NumPy's `n=2`:
    /// `x.diff(axis)?.diff(axis)?`.
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
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 4], [8, 6, 7]])?;
    /// assert_eq!(x.diff(Axis(1))?.to_ndarray()?, array![[1, 2], [-2, 1]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn diff(&self, axis: Axis) -> Result<DeviceArray<T, D>> {
        self.layout.check_axis("diff", axis.index())?;
        self.between(axis, 1, 0)?.sub(&self.between(axis, 0, 1)?)
    }
}

/// The types that derivatives and integrals are computed in: `f64` of `f64`, and `f32` of all others.
trait Wide: Value<Element = Self> + Element + Real<Total = Self> + Promote<Self, Output = Self> {}

impl Wide for f32 {}
impl Wide for f64 {}

/// Derivatives and integrals of functions that are known at equal distances, and integrals of those that are at given points.
impl<T: Value<Element = T> + Element + Real, D: Dimension> DeviceArrayRef<T, D> {
    /// The derivative along an axis of a function whose values at distances of `spacing` these are: NumPy's `gradient`. Inside it is
    /// the central difference `(x[i + 1] − x[i − 1]) / (2 spacing)`, whose error falls with the square of the spacing, and at both
    /// ends the difference to the only neighbour. Of 16-bit floats it is computed in `f32`, and rounded once; integers are
    /// [cast](Self::cast) first.
    ///
    /// # Cost
    ///
    /// Three kernels, of which two are for the ends. Along another axis than the first, what is inside is written once more, by a copy.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] if it has fewer than two elements; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let squares = DeviceArray::from_ndarray(device.default_stream(), &array![0.0, 1.0, 4.0, 9.0, 16.0])?;
    /// assert_eq!(squares.gradient(Axis(0), 1.0)?.to_ndarray()?, array![1.0, 2.0, 4.0, 6.0, 7.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn gradient(&self, axis: Axis, spacing: T) -> Result<DeviceArray<T, D>> {
        self.layout.check_axis("gradient", axis.index())?;
        if self.shape()[axis.index()] < 2 {
            return Err(Error::Shape {
                operation: "gradient",
                given: format!("axis {} of shape {:?}", axis.index(), self.shape()),
                wanted: "an axis of two elements or more".into(),
            });
        }
        match T::TYPE {
            ScalarType::F64 => self.gradient_in::<f64>(axis, spacing),
            _ => self.gradient_in::<f32>(axis, spacing),
        }
    }

    /// [`gradient`](Self::gradient) along an axis of two elements or more.
    fn gradient_in<W: Wide>(&self, axis: Axis, spacing: T) -> Result<DeviceArray<T, D>> {
        let mut out = DeviceArray::uninit(self.stream(), self.raw_dim())?;
        let mut differ = |from: Slice, to: Slice, at: Slice, part: f64| -> Result<()> {
            let (from, to) = (self.slice_axis(axis, from)?, self.slice_axis(axis, to)?);
            let difference = to.expr().cast::<W>() - from.expr().cast::<W>();
            // A part of the difference, for twice the spacing may be no number of the type.
            let quotient = difference * expr::scalar(part).cast::<W>() / expr::scalar(spacing).cast::<W>();
            quotient.cast::<T>().eval_into(&mut *out.slice_axis_mut(axis, at)?)
        };
        let range = |start: usize, end: usize| Slice::from(start..end);
        let len = self.shape()[axis.index()];
        let last = len - 1;
        differ(range(0, len - 2), range(2, len), range(1, last), 0.5)?;
        differ(range(0, 1), range(1, 2), range(0, 1), 1.0)?;
        differ(range(last - 1, last), range(last, len), range(last, len), 1.0)?;
        Ok(out)
    }

    /// The integral along an axis of a function whose values at distances of `spacing` these are, by the trapezoidal rule,
    /// `spacing · Σ (x[i] + x[i + 1]) / 2`: NumPy's `trapezoid`, once `trapz`. 0 where there are fewer than two. Of 16-bit floats it
    /// is computed in `f32`, and rounded once. One kernel.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let y = DeviceArray::from_ndarray(device.default_stream(), &array![1.0, 2.0, 4.0])?;
    /// assert_eq!(y.trapezoid(Axis(0), 0.5)?.item()?, 2.25);
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.0, 1.0, 3.0])?;
    /// assert_eq!(y.trapezoid_at(Axis(0), &x)?.item()?, 7.5);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "trapz")]
    pub fn trapezoid(&self, axis: Axis, spacing: T) -> Result<DeviceArray<T, D::Smaller>>
    where
        D: RemoveAxis,
    {
        self.layout.check_axis("trapezoid", axis.index())?;
        match T::TYPE {
            ScalarType::F64 => self.trapezoid_in::<f64>(axis, spacing),
            _ => self.trapezoid_in::<f32>(axis, spacing),
        }
    }

    fn trapezoid_in<W: Wide>(&self, axis: Axis, spacing: T) -> Result<DeviceArray<T, D::Smaller>>
    where
        D: RemoveAxis,
    {
        let (later, earlier) = (self.between(axis, 1, 0)?, self.between(axis, 0, 1)?);
        let heights = later.expr().cast::<W>() + earlier.expr().cast::<W>();
        (heights.sum_axis(axis) * half::<T, W>(spacing)).cast::<T>().eval()
    }

    /// [`trapezoid`](Self::trapezoid) of values at the places `points`, one for each index along the axis: NumPy's with `x`. Where points
    /// descend, what is between them counts negative.
    ///
    /// # Errors
    ///
    /// As [`trapezoid`](Self::trapezoid); [`Error::Shape`] if there are not as many points as the axis is long,
    /// [`Error::DifferentDevices`].
    #[doc(alias = "trapz")]
    pub fn trapezoid_at(&self, axis: Axis, points: &DeviceArrayRef<T, Ix1>) -> Result<DeviceArray<T, D::Smaller>>
    where
        D: RemoveAxis,
    {
        let points = points.laid_along("trapezoid_at", self, axis)?;
        match T::TYPE {
            ScalarType::F64 => self.trapezoid_between::<f64>(axis, &points),
            _ => self.trapezoid_between::<f32>(axis, &points),
        }
    }

    /// [`trapezoid_at`](Self::trapezoid_at) of points in as many axes as there are here.
    fn trapezoid_between<W: Wide>(
        &self,
        axis: Axis,
        points: &DeviceArrayRef<T, D>,
    ) -> Result<DeviceArray<T, D::Smaller>>
    where
        D: RemoveAxis,
    {
        let (later, earlier) = (self.between(axis, 1, 0)?, self.between(axis, 0, 1)?);
        let heights = later.expr().cast::<W>() + earlier.expr().cast::<W>();
        let (end, start) = (points.between(axis, 1, 0)?, points.between(axis, 0, 1)?);
        let widths = end.expr().cast::<W>() - start.expr().cast::<W>();
        let sums = (heights * widths).sum_axis(axis);
        (sums * half::<T, W>(T::ONE)).cast::<T>().eval()
    }
}

/// Half of a number, in the type that is computed in.
fn half<T: Value, W: Wide>(number: T) -> Expr<'static, W, Ix0> {
    (expr::scalar(number).cast::<f64>() * 0.5).cast::<W>()
}
