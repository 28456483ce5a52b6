// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scans that have a name.

use kernels_gpu::compiled::Number;
use kernels_gpu::op::{Product, Sum};
use ndarray::{Axis, Dimension};

use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;

/// Running sums and products: inclusive scans by [`Sum`] and [`Product`]. Of integers they have 64 bits, as NumPy's, and wrap around
/// where that overflows; of floats they have their type. How the terms of long floats are grouped depends on timing
/// ([`ScanAlgorithm`](super::ScanAlgorithm)).
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    /// The sum of all elements up to each one, in C order: [`inclusive_scan`](Self::inclusive_scan) by [`Sum`]. NumPy's `cumsum`, but in
    /// the shape of the array.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6]])?;
    /// assert_eq!(x.cumsum()?.to_ndarray()?, array![[1i64, 3, 6], [10, 15, 21]]);
    /// assert_eq!(x.cumsum_axis(Axis(1))?.to_ndarray()?, array![[1i64, 3, 6], [4, 9, 15]]);
    /// assert_eq!(x.cumprod()?.to_ndarray()?, array![[1i64, 2, 6], [24, 120, 720]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cumsum(&self) -> Result<DeviceArray<T::Total, D>> {
        self.inclusive_scan::<Sum>()
    }

    /// [`cumsum`](Self::cumsum) into an existing array or view.
    ///
    /// # Errors
    ///
    /// Those of [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn cumsum_into(&self, out: &mut DeviceArrayRef<T::Total, D>) -> Result<()> {
        self.inclusive_scan_into::<Sum>(out)
    }

    /// The sum of the elements of each line along an axis up to each one: [`inclusive_scan_axis`](Self::inclusive_scan_axis) by [`Sum`].
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis; those of an allocation and a launch.
    pub fn cumsum_axis(&self, axis: Axis) -> Result<DeviceArray<T::Total, D>> {
        self.inclusive_scan_axis::<Sum>(axis)
    }

    /// [`cumsum_axis`](Self::cumsum_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// Those of [`inclusive_scan_axis_into`](Self::inclusive_scan_axis_into).
    pub fn cumsum_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<T::Total, D>) -> Result<()> {
        self.inclusive_scan_axis_into::<Sum>(axis, out)
    }

    /// The product of all elements up to each one, in C order: [`inclusive_scan`](Self::inclusive_scan) by [`Product`].
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn cumprod(&self) -> Result<DeviceArray<T::Total, D>> {
        self.inclusive_scan::<Product>()
    }

    /// [`cumprod`](Self::cumprod) into an existing array or view.
    ///
    /// # Errors
    ///
    /// Those of [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn cumprod_into(&self, out: &mut DeviceArrayRef<T::Total, D>) -> Result<()> {
        self.inclusive_scan_into::<Product>(out)
    }

    /// The product of the elements of each line along an axis up to each one: [`inclusive_scan_axis`](Self::inclusive_scan_axis) by
    /// [`Product`].
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis; those of an allocation and a launch.
    pub fn cumprod_axis(&self, axis: Axis) -> Result<DeviceArray<T::Total, D>> {
        self.inclusive_scan_axis::<Product>(axis)
    }

    /// [`cumprod_axis`](Self::cumprod_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// Those of [`inclusive_scan_axis_into`](Self::inclusive_scan_axis_into).
    pub fn cumprod_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<T::Total, D>) -> Result<()> {
        self.inclusive_scan_axis_into::<Product>(axis, out)
    }
}
