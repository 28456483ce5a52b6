// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where elements would go among sorted ones, and whether they are there.

use kernels_gpu::compiled::{Number, Sort};
use kernels_gpu::sort::search::THREADS;
use ndarray::{Axis, Dimension, Ix1};

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::Words;

/// On which side of equal elements a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In front of them: NumPy's `left`.
    Left,
    /// Behind them: NumPy's `right`.
    Right,
}

/// Searching sorted elements.
impl<T: Element + Sort> DeviceArrayRef<T, Ix1> {
    /// The places in this array, which is in ascending order, where `values` would go so that it stays so: NumPy's `searchsorted`. A
    /// place is how many elements are less than the value, and with [`Side::Right`] how many are less or equal; so a value that is above
    /// all has the array's length. The result has the shape of `values`.
    ///
    /// −0 equals +0, and NaN, which [`sort`](Self::sort) puts last, is above every number and equal to itself. If the array is not in
    /// order, the places are any from 0 to its length.
    ///
    /// Which of the bins with given edges a value is in is its place among them: NumPy's `digitize(x, edges)` is
    /// `edges.searchsorted(&x, Side::Right)`.
    ///
    /// # Cost
    ///
    /// `⌈log2(n + 1)⌉` elements of the array are read for each value, the first of them the same for all values, so from a cache; values
    /// in order take less than others, which read the last ones from all over a large array. Values that do not lie in order are copied.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices); those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::ops::Side;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let edges = DeviceArray::from_ndarray(device.default_stream(), &array![0.0f32, 1.0, 2.5, 4.0])?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[0.2f32, 6.4], [3.0, 1.0]])?;
    /// assert_eq!(edges.searchsorted(&x, Side::Left)?.to_ndarray()?, array![[1, 4], [3, 1]]);
    /// assert_eq!(edges.searchsorted(&x, Side::Right)?.to_ndarray()?, array![[1, 4], [3, 2]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "digitize")]
    pub fn searchsorted<D: Dimension>(&self, values: &DeviceArrayRef<T, D>, side: Side) -> Result<DeviceArray<u64, D>> {
        self.stream().check_device("searchsorted", values.stream())?;
        let stream = self.stream();
        if values.is_empty() {
            return DeviceArray::zeros(stream, values.raw_dim());
        }
        let (sorted, values) = (self.in_order()?, values.in_order()?);
        let mut out = DeviceArray::uninit(stream, values.raw_dim())?;
        let config = tiles(out.len(), THREADS, THREADS);
        let is_behind = u32::from(side == Side::Right);
        let args = (
            Words::<T::Word>::of::<T, _>(&sorted),
            Words::<T::Word>::of::<T, _>(&values),
            T::PASS,
            is_behind,
            &mut out,
        );
        stream.launch::<T::Search>(&config, args)?;
        Ok(out)
    }
}

/// Elements among others.
impl<T: Element + Sort + Number, D: Dimension> DeviceArrayRef<T, D> {
    /// 1 for each element that is one of `others`, and 0 for each that is none: NumPy's `isin`. −0 is +0, and NaN is in no array.
    ///
    /// # Cost
    ///
    /// That of a [`sort`](Self::sort) of `others`, and of a [search](DeviceArrayRef::searchsorted) for each element; then what is found is
    /// compared with it, 34 bytes and two elements read or written.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), [`Error::Shape`](crate::Error::Shape) if `others` are 2³² or more;
    /// those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 5], [7, 2, 3]])?;
    /// let primes = DeviceArray::from_ndarray(device.default_stream(), &array![7, 2, 3])?;
    /// assert_eq!(x.isin(&primes)?.to_ndarray()?, array![[0, 1, 0], [1, 1, 1]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn isin<E: Dimension>(&self, others: &DeviceArrayRef<T, E>) -> Result<DeviceArray<u8, D>> {
        self.stream().check_device("isin", others.stream())?;
        if self.is_empty() || others.is_empty() {
            return DeviceArray::zeros(self.stream(), self.raw_dim());
        }
        let sorted = others.all_sorted("isin")?;
        let mut places = sorted.searchsorted(self, Side::Left)?;
        // What is above all is compared with the last.
        places.minimum_assign_scalar(sorted.len() as u64 - 1)?;
        let found = sorted.take(Axis(0), &places.into_shape(self.len())?)?;
        self.equal(&found.into_shape(self.raw_dim())?)
    }
}
