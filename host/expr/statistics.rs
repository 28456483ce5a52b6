// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics that are an expression of a reduction or two: counts, spans and weighted means. Each is one kernel.

use std::sync::Arc;

use ndarray::{Axis, Dimension, Ix0, Ix1, IxDyn, RemoveAxis};

use super::Expr;
use super::graph::function::Binary;
use super::graph::{Node, Part, binary, check_axes};
use super::reductions::{Statistic, check_elements, reduce};
use super::value::Value;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::ops::{Number, Real};
use crate::view::DeviceView;

/// Counts and spans. Those of all elements wait for the number.
impl<T: Value<Element = T> + Element + Number, D: Dimension> DeviceArrayRef<T, D> {
    /// How many elements are not 0: NumPy's `count_nonzero`. NaN is not 0, and −0 is. Of a mask, which has 1 where something is true,
    /// how many are true. A condition is counted without a mask: `x.expr().greater(0.5).count()`.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch; waits for the result, so also those of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 0.0, -2.0], [0.0, 0.0, 3.0]])?;
    /// assert_eq!(x.count_nonzero()?, 3);
    /// assert_eq!(x.count_nonzero_axis(Axis(0))?.to_ndarray()?, array![1, 0, 2]);
    /// assert_eq!(x.expr().greater(0.5).count().eval()?.item()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_nonzero(&self) -> Result<u64> {
        self.expr().not_equal(T::ZERO).count().eval()?.item()
    }

    /// [`count_nonzero`](Self::count_nonzero) of each lane along an axis, asynchronously.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis; those of an allocation and a launch.
    pub fn count_nonzero_axis(&self, axis: Axis) -> Result<DeviceArray<u64, D::Smaller>>
    where
        D: RemoveAxis,
    {
        self.layout.check_axis("count_nonzero_axis", axis.index())?;
        self.expr().not_equal(T::ZERO).count_axis(axis).eval()
    }

    /// [`count_nonzero`](Self::count_nonzero) of each part along several axes, asynchronously.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis or one is named twice; those of an allocation and a launch.
    pub fn count_nonzero_axes(&self, axes: &[usize]) -> Result<DeviceArray<u64, IxDyn>> {
        self.layout.check_axes("count_nonzero_axes", axes)?;
        self.expr().not_equal(T::ZERO).count_axes(axes).eval()
    }

    /// The largest element less the smallest: NumPy's `ptp`, peak to peak. NaN if any element is. That of integers wraps around
    /// where their type has no such number, as NumPy's does.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for an empty array; those of an allocation and a launch; waits for the result, so also those of earlier
    /// kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[4, 9, 2], [10, 6, 7]])?;
    /// assert_eq!(x.ptp()?, 8);
    /// assert_eq!(x.ptp_axis(Axis(1))?.to_ndarray()?, array![7, 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "peak_to_peak")]
    pub fn ptp(&self) -> Result<T> {
        let axes: Vec<usize> = (0..self.ndim()).collect();
        self.span::<Ix0>("ptp", &axes).eval()?.item()
    }

    /// [`ptp`](Self::ptp) of each lane along an axis, asynchronously.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Empty`] if it has length 0; those of an allocation and a launch.
    pub fn ptp_axis(&self, axis: Axis) -> Result<DeviceArray<T, D::Smaller>>
    where
        D: RemoveAxis,
    {
        self.span("ptp_axis", &[axis.index()]).eval()
    }

    /// [`ptp`](Self::ptp) of each part along several axes, asynchronously.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis or one is named twice, [`Error::Empty`] if one has length 0; those of an
    /// allocation and a launch.
    pub fn ptp_axes(&self, axes: &[usize]) -> Result<DeviceArray<T, IxDyn>> {
        self.span("ptp_axes", axes).eval()
    }

    fn span<E: Dimension>(&self, operation: &'static str, axes: &[usize]) -> Expr<'_, T, E> {
        Expr::of(self.expr().into_part().and_then(|x| span(operation, x, axes)))
    }
}

/// The largest element less the smallest along axes.
fn span<'a>(operation: &'static str, x: Arc<Node<'a>>, axes: &[usize]) -> Part<'a> {
    check_axes(operation, &x.shape, axes)?;
    check_elements(operation, &x, axes)?;
    let largest = reduce(Statistic::Max, Arc::clone(&x), axes, 0)?;
    binary(Binary::Sub, largest, reduce(Statistic::Min, x, axes, 0)?)
}

/// Means of elements that do not count alike.
impl<T: Value<Element = T> + Element + Real, D: Dimension> DeviceArrayRef<T, D> {
    /// The mean of all elements, each counted as often as its weight says, `Σ w x / Σ w`: NumPy's `average`. The weights, which are
    /// repeated to the shape of this array by NumPy's rules, need not sum up to 1; where they sum up to 0, it is NaN or infinite. It
    /// is computed in `f64`, and rounded once. Waits for the number.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the weights do not broadcast to this array's shape, [`Error::DifferentDevices`]; those of an allocation and
    /// a launch, and of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 2.0], [5.0, 10.0]])?;
    /// let weights = DeviceArray::from_ndarray(device.default_stream(), &array![3.0, 1.0])?;
    /// assert_eq!(x.weighted_mean_axis(Axis(0), &weights)?.to_ndarray()?, array![2.0, 4.0]);
    /// assert_eq!(x.weighted_mean(&weights)?, 3.75);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "average")]
    pub fn weighted_mean<E: Dimension>(&self, weights: &DeviceArrayRef<T, E>) -> Result<T> {
        let repeated = self.repeated_weights("weighted_mean", weights)?;
        let weights = repeated.expr().cast::<f64>();
        let sum = (self.expr().cast::<f64>() * &weights).sum();
        (sum / weights.sum()).cast::<T>().eval()?.item()
    }

    /// The [weighted mean](Self::weighted_mean) of each lane along an axis, asynchronously, with a weight for each index along it.
    /// Other weights: `(&x * &w).sum_axis(axis) / w.expr().sum_axis(axis)`, an expression.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] if there are not as many weights as it is long,
    /// [`Error::DifferentDevices`]; those of an allocation and a launch.
    #[doc(alias = "average")]
    pub fn weighted_mean_axis(&self, axis: Axis, weights: &DeviceArrayRef<T, Ix1>) -> Result<DeviceArray<T, D::Smaller>>
    where
        D: RemoveAxis,
    {
        let weights = weights.laid_along("weighted_mean_axis", self, axis)?;
        let weights = weights.broadcast(self.raw_dim())?.expr().cast::<f64>();
        let sums = (self.expr().cast::<f64>() * &weights).sum_axis(axis);
        (sums / weights.sum_axis(axis)).cast::<T>().eval()
    }

    /// The [weighted mean](Self::weighted_mean) of each part along several axes, asynchronously, by weights that are repeated to the
    /// shape of this array.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis or one is named twice, [`Error::Shape`] if the weights do not broadcast to this
    /// array's shape, [`Error::DifferentDevices`]; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// // Two pictures of 2 × 2, and how much each of a picture's elements counts.
    /// let x = array![[[1.0, 2.0], [3.0, 4.0]], [[0.0, 8.0], [4.0, 4.0]]];
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &x)?;
    /// let weights = DeviceArray::from_ndarray(device.default_stream(), &array![[3.0, 1.0], [0.0, 0.0]])?;
    /// assert_eq!(x.weighted_mean_axes(&[1, 2], &weights)?.to_ndarray()?, array![1.25, 2.0].into_dyn());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "average")]
    pub fn weighted_mean_axes<E: Dimension>(
        &self,
        axes: &[usize],
        weights: &DeviceArrayRef<T, E>,
    ) -> Result<DeviceArray<T, IxDyn>> {
        self.layout.check_axes("weighted_mean_axes", axes)?;
        let repeated = self.repeated_weights("weighted_mean_axes", weights)?;
        let weights = repeated.expr().cast::<f64>();
        let sums = (self.expr().cast::<f64>() * &weights).sum_axes(axes);
        (sums / weights.sum_axes(axes)).cast::<T>().eval()
    }

    /// Weights, repeated to this array's shape.
    fn repeated_weights<'b, E: Dimension>(
        &self,
        operation: &'static str,
        weights: &'b DeviceArrayRef<T, E>,
    ) -> Result<DeviceView<'b, T, D>> {
        weights.broadcast(self.raw_dim()).map_err(|error| match error {
            Error::Shape { .. } => Error::Shape {
                operation,
                given: format!("weights of shape {:?} for shape {:?}", weights.shape(), self.shape()),
                wanted: "weights that broadcast to the array's shape".into(),
            },
            other => other,
        })
    }
}
