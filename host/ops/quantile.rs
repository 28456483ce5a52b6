// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantiles of all elements, and of each lane along an axis: two neighbours of the elements in order, and a number between them.

use kernels_gpu::compiled::{CastTo, Number, Sort};
use ndarray::{Axis, Dimension, RemoveAxis};

use super::sort::is_nan;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};

/// Which two elements in order a quantile is between.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Between {
    below: usize,
    above: usize,
    /// How far it is from the one below towards the one above, below 1; 0 where they are one.
    part: f64,
}

impl Between {
    /// The quantile of `q`, from 0 to 1, of so many elements, at least one.
    fn new(q: f64, len: usize) -> Self {
        let place = q * (len - 1) as f64;
        let below = (place.floor() as usize).min(len - 1);
        Self {
            below,
            above: (below + 1).min(len - 1),
            part: place - below as f64,
        }
    }
}

/// An error of `operation` unless `q` is from 0 to 1.
fn check_part(operation: &'static str, q: f64) -> Result<()> {
    if (0.0..=1.0).contains(&q) {
        return Ok(());
    }
    Err(Error::Parameter {
        operation,
        parameter: "q",
        given: q.to_string(),
        wanted: "a number from 0 to 1".into(),
    })
}

/// Quantiles of all elements.
impl<T: Element + Sort + Number, D: Dimension> DeviceArrayRef<T, D> {
    /// The number below which the part `q` of all elements is, from 0, the least, to 1, the largest: NumPy's `quantile`. Between
    /// two elements, it is as far between them as `q` is (`method="linear"`). NaN if any element is. Its type is that of a
    /// [`mean`](Self::mean): the float itself, and `f64` for integers; it is computed in `f64`.
    ///
    /// # Cost
    ///
    /// That of a [`sort`](Self::sort) of all elements. For several quantiles sort once, and [`get`](Self::get) the elements.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for an empty array, [`Error::Parameter`] unless `q` is from 0 to 1, [`Error::Shape`] for 2³² elements or
    /// more; those of an allocation and a launch; waits for the result, so also those of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[4.0f32, 1.0], [3.0, 2.0]])?;
    /// assert_eq!((x.quantile(0.25)?, x.median()?, x.quantile(1.0)?), (1.75, 2.5, 4.0));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "percentile")]
    pub fn quantile(&self, q: f64) -> Result<T::Mean> {
        self.quantile_of("quantile", q)
    }

    /// The [`quantile`](Self::quantile) of ½: the middle one of the elements, or the mean of both.
    ///
    /// # Errors
    ///
    /// Those of [`quantile`](Self::quantile).
    pub fn median(&self) -> Result<T::Mean> {
        self.quantile_of("median", 0.5)
    }

    fn quantile_of(&self, operation: &'static str, q: f64) -> Result<T::Mean> {
        check_part(operation, q)?;
        if self.is_empty() {
            return Err(Error::Empty {
                operation,
                shape: self.shape().to_vec(),
            });
        }
        let elements = self.all_sorted(operation)?;
        let Between { below, above, part } = Between::new(q, elements.len());
        if is_nan(elements.get(elements.len() - 1)?) {
            return Ok(T::mean_from(f64::NAN));
        }
        let [low, high] = [below, above].map(|place| elements.get(place).map(T::to_f64));
        let (low, high) = (low?, high?);
        // Either may be infinite.
        let between = if low == high || part == 0.0 {
            low
        } else {
            low * (1.0 - part) + high * part
        };
        Ok(T::mean_from(between))
    }
}

/// Quantiles along an axis.
impl<T, D> DeviceArrayRef<T, D>
where
    T: Element + Sort + Number<Mean: Element + Number> + CastTo<f64>,
    f64: CastTo<T::Mean>,
    D: Dimension + RemoveAxis,
{
    /// The [`quantile`](Self::quantile)s of `q` along an axis, each with the bits of the one of its lane: NumPy's `quantile` with an
    /// axis. A lane with NaN has NaN. The result has one axis less.
    ///
    /// # Cost
    ///
    /// That of a [`sort`](Self::sort) along the axis, and for each lane some 100 bytes. For several quantiles sort once, and
    /// [`index_axis`](Self::index_axis) the elements in order.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Empty`] if it has length 0, [`Error::Parameter`] unless `q` is from 0 to 1,
    /// [`Error::Shape`] for 2³² elements or more in lanes of more than 4096; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[4.0f32, 1.0, 2.0], [3.0, 2.0, 7.0]])?;
    /// assert_eq!(x.quantile_axis(Axis(1), 0.75)?.to_ndarray()?, array![3.0, 5.0]);
    /// assert_eq!(x.median_axis(Axis(0))?.to_ndarray()?, array![3.5, 1.5, 4.5]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "percentile")]
    pub fn quantile_axis(&self, axis: Axis, q: f64) -> Result<DeviceArray<T::Mean, D::Smaller>> {
        self.quantile_along("quantile_axis", axis, q)
    }

    /// The [`median`](Self::median)s along an axis: the [`quantile_axis`](Self::quantile_axis) of ½.
    ///
    /// # Errors
    ///
    /// Those of [`quantile_axis`](Self::quantile_axis).
    pub fn median_axis(&self, axis: Axis) -> Result<DeviceArray<T::Mean, D::Smaller>> {
        self.quantile_along("median_axis", axis, 0.5)
    }

    fn quantile_along(&self, operation: &'static str, axis: Axis, q: f64) -> Result<DeviceArray<T::Mean, D::Smaller>> {
        check_part(operation, q)?;
        self.layout.check_axis(operation, axis.index())?;
        let len = self.shape()[axis.index()];
        if len == 0 {
            return Err(Error::Empty {
                operation,
                shape: self.shape().to_vec(),
            });
        }
        let elements = self.sort(axis)?;
        let Between { below, above, part } = Between::new(q, len);
        let low = elements.index_axis(axis, below)?.cast::<f64>()?;
        let mut between = low.mul_scalar(1.0 - part)?;
        if part > 0.0 {
            let high = elements.index_axis(axis, above)?.cast::<f64>()?;
            between.add_assign(&high.mul_scalar(part)?)?;
            // Without rounding; and either may be infinite.
            between = low.equal(&high)?.select(&low, &between)?;
        }
        // NaN comes last.
        let last = elements.index_axis(axis, len - 1)?;
        let between = between.cast::<T::Mean>()?;
        let nan = DeviceArray::from_elem(self.stream(), between.raw_dim(), T::mean_from(f64::NAN))?;
        last.equal(&last)?.select(&between, &nan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_between_neighbours() {
        let of = |below, above, part| Between { below, above, part };
        assert_eq!(Between::new(0.0, 1), of(0, 0, 0.0));
        assert_eq!(Between::new(1.0, 1), of(0, 0, 0.0));
        assert_eq!(Between::new(0.5, 2), of(0, 1, 0.5));
        assert_eq!(Between::new(0.5, 3), of(1, 2, 0.0));
        assert_eq!(Between::new(1.0, 1 << 40), of((1 << 40) - 1, (1 << 40) - 1, 0.0));
    }
}
