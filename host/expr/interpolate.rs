// SPDX-License-Identifier: MIT OR Apache-2.0
//! Straight lines between points, and between arrays.

use std::sync::Arc;

use cuda_std::scalar::Scalar;
use ndarray::{Axis, DimMax, Dimension, Ix1};

use super::Expr;
use super::graph::function::{Ternary, Unary};
use super::graph::{Part, cast, ternary, unary};
use super::operand::Operand;
use super::operators::{Common, Common3};
use super::value::{Promote, Value};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::ops::{Real, Side, Sort};

impl<T, D: Dimension> DeviceArrayRef<T, D>
where
    T: Value<Element = T> + Element + Real + Sort + Promote<T, Output = T>,
{
    /// The values at these places of the function that is linear between points, whose places are `points`, in ascending order, and
    /// whose values are `values`: NumPy's `interp`. Below the first point it is the first value, and above the last one the last. NaN
    /// for NaN.
    ///
    /// Between two points it is `y₀ + (x − x₀) / (x₁ − x₀) · (y₁ − y₀)`, rounded at each step, and at a point its value. If the
    /// points are not in order, the values are any. A [search](DeviceArrayRef::searchsorted), four arrays of what is found, and a kernel.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if there are not as many values as points, [`Error::Empty`] if there is no point,
    /// [`Error::DifferentDevices`]; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let points = DeviceArray::from_ndarray(stream, &array![0.0f32, 1.0, 3.0])?;
    /// let values = DeviceArray::from_ndarray(stream, &array![0.0f32, 10.0, -10.0])?;
    /// let x = DeviceArray::from_ndarray(stream, &array![[-1.0f32, 0.25], [2.0, 5.0]])?;
    /// assert_eq!(x.interp(&points, &values)?.to_ndarray()?, array![[0.0, 2.5], [0.0, -10.0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn interp(
        &self,
        points: &DeviceArrayRef<T, Ix1>,
        values: &DeviceArrayRef<T, Ix1>,
    ) -> Result<DeviceArray<T, D>> {
        points.fits("interp", values)?;
        self.stream().check_device("interp", points.stream())?;
        let Some(last) = points.len().checked_sub(1) else {
            return Err(Error::Empty {
                operation: "interp",
                shape: vec![0],
            });
        };
        let behind = points.searchsorted(self, Side::Right)?.into_shape(self.len())?;
        let after = behind.minimum_scalar(last as u64)?;
        // One alone is on both sides; else what is below all is beside the first two.
        let after = after.maximum_scalar(last.min(1) as u64)?;
        let before = after.sub_scalar(last.min(1) as u64)?;
        let of = |all: &DeviceArrayRef<T, Ix1>, places: &DeviceArrayRef<u64, Ix1>| {
            all.take(Axis(0), places)?.into_shape(self.raw_dim())
        };
        let (x0, x1) = (of(points, &before)?, of(points, &after)?);
        let (y0, y1) = (of(values, &before)?, of(values, &after)?);
        let (x, y0) = (self.expr(), y0.expr());
        let between = &y0 + (&x - &x0) / (&x1 - x0.expr()) * (&y1 - &y0);
        let up_to_last = x.greater_equal(&x1).select(y1.expr(), between);
        x.less_equal(&x0).select(y0, up_to_last).eval_on(self.stream())
    }
}

impl<'a, T: Value + Real, D: Dimension> Expr<'a, T, D> {
    /// Between this and `end`, as far as `weight` says, `x + weight · (end − x)`: PyTorch's `lerp`. A weight of 0 gives this and
    /// one of 1 `end`, exactly up to the sign of 0, if both are finite; beyond, the line goes on. All three are of one type, and are broadcast.
    ///
    /// Two multiply-adds, `fma(weight, end, fma(−weight, x, x))`.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.0f32, 10.0])?;
    /// let y = DeviceArray::from_ndarray(device.default_stream(), &array![4.0f32, 20.0])?;
    /// assert_eq!(x.lerp(&y, 0.25)?.to_ndarray()?, array![1.0, 12.5]);
    /// let weights = DeviceArray::from_ndarray(device.default_stream(), &array![0.5f32, 1.0])?;
    /// assert_eq!(x.expr().lerp(&y, &weights).eval()?.to_ndarray()?, array![2.0, 20.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lerp<E: Dimension, F: Dimension>(
        &self,
        end: impl Operand<'a, T, Together = T, Dim = E>,
        weight: impl Operand<'a, T, Together = T, Dim = F>,
    ) -> Expr<'a, T, Common3<D, E, F>>
    where
        D: DimMax<E>,
        Common<D, E>: DimMax<F>,
    {
        Expr::of(lerp::<T>(self.part.clone(), end.operand().0, weight.operand().0))
    }
}

/// Of parts that are cast to `T`.
fn lerp<'a, T: Scalar>(start: Part<'a>, end: Part<'a>, weight: Part<'a>) -> Part<'a> {
    let (start, end, weight) = (start?, cast(end?, T::TYPE)?, cast(weight?, T::TYPE)?);
    let away = unary(Unary::Neg, Arc::clone(&weight))?;
    let rest = ternary(Ternary::MulAdd, [away, Arc::clone(&start), start])?;
    ternary(Ternary::MulAdd, [weight, end, rest])
}

impl<T, D: Dimension> DeviceArrayRef<T, D>
where
    T: Value<Element = T> + Element + Real + Promote<T, Output = T>,
{
    /// Between this and `end`, as far as one `weight` says, broadcast as in NumPy: as [`Expr::lerp`], which takes arrays of weights
    /// too.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not broadcast together, [`Error::DifferentDevices`]; those of an allocation and a launch.
    pub fn lerp<E: Dimension>(&self, end: &DeviceArrayRef<T, E>, weight: T) -> Result<DeviceArray<T, Common<D, E>>>
    where
        D: DimMax<E>,
    {
        self.expr().lerp(end, weight).eval()
    }
}
