// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of values.

use kernels_gpu::compiled::CountValues;
use ndarray::{Dimension, Ix1};

use super::Histogram;
use super::launch::{clear, extent, launch_bincount};
use super::plan::equal_width;
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};

/// The element types whose values can be counted: `u8`, `u16`, `i32`, `u32`. Integers of 64 bits, as
/// [`argmin_axis`](DeviceArrayRef::argmin_axis) gives them, are [cast](DeviceArrayRef::cast_saturating) to `u32` before.
pub trait Bincount: Histogram + CountValues {}

impl Bincount for u8 {}
impl Bincount for u16 {}
impl Bincount for i32 {}
impl Bincount for u32 {}

/// Counts of values.
impl<T: Bincount, D: Dimension> DeviceArrayRef<T, D> {
    /// How often each value from 0 to the largest element occurs: NumPy's `bincount`. No count for an empty array.
    /// Waits for the largest element, not for the counts; so every element is read twice.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if an element is negative, and those of an allocation (of 8 bytes for each value up to the
    /// largest) and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 4, 1, 0])?;
    /// assert_eq!(x.bincount()?.to_ndarray()?, array![1, 2, 0, 0, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bincount(&self) -> Result<DeviceArray<u64, Ix1>> {
        if self.is_empty() {
            return DeviceArray::uninit(self.stream(), Ix1(0));
        }
        let (least, greatest) = extent(self)?;
        if least < T::ZERO {
            return Err(Error::Parameter {
                operation: "bincount",
                parameter: "x",
                given: format!("an element {}", least.to_f64()),
                wanted: "no negative element".into(),
            });
        }
        let mut counts = DeviceArray::uninit(self.stream(), Ix1(greatest.bin() as usize + 1))?;
        self.bincount_into(&mut counts)?;
        Ok(counts)
    }

    /// How often each value from 0 occurs, into an existing array or view of any length: what was in it is overwritten, and
    /// values that have no place in it are not counted. Does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`], and those of a launch.
    pub fn bincount_into(&self, counts: &mut DeviceArrayRef<u64, Ix1>) -> Result<()> {
        if self.is_empty() || counts.is_empty() {
            return clear("bincount", self, counts);
        }
        let bins = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let mut plan = equal_width(bins, 0.0, f64::from(bins));
        let greatest = T::at_most((counts.len() - 1) as f64).unwrap_or(T::ZERO);
        (plan.first, plan.last) = (0.0, greatest.to_f64());
        launch_bincount(self, plan, counts)
    }
}
