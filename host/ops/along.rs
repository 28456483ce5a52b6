// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that have an index of their own along an axis, and the places of elements along every axis.

use ndarray::{Axis, Dimension, Ix1, Ix2};

use super::Index;
use super::index::take;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};

/// Gathering with an index for each element.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements that `indices` name along an axis, one for each index: NumPy's `take_along_axis`, PyTorch's `gather`. Of a
    /// matrix and `Axis(1)` element `[i, j]` of the result is `self[i, indices[i, j]]`. The indices have the shape of this array
    /// but for the axis, along which there may be any number of them, and the result has the shape of the indices.
    ///
    /// It puts the elements in the order that [`argsort`](Self::argsort) gives.
    ///
    /// # Cost
    ///
    /// Each index and each element that it names is read once, and the element written once, by the kernel of [`take`](Self::take);
    /// indices of other types than `u64` are made `u64` first. They are looked at on the device: one that is out of bounds is a panic of
    /// the kernel, which names it and its number in C order.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] if the indices have another shape but for the axis, or there are
    /// indices and the axis has length 0, [`Error::DifferentDevices`], and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[30, 10, 20], [5, 6, 4]])?;
    /// let order = x.argsort(Axis(1))?;
    /// assert_eq!(order.to_ndarray()?, array![[1, 2, 0], [2, 0, 1]]);
    /// assert_eq!(x.take_along_axis(Axis(1), &order)?.to_ndarray()?, array![[10, 20, 30], [4, 5, 6]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "gather")]
    pub fn take_along_axis<I: Index>(&self, axis: Axis, indices: &DeviceArrayRef<I, D>) -> Result<DeviceArray<T, D>> {
        self.stream().check_device("take_along_axis", indices.stream())?;
        self.layout.check_axis("take_along_axis", axis.index())?;
        check_shapes(self.shape(), axis.index(), indices.shape())?;
        DeviceArray::made(self.stream(), indices.raw_dim(), &mut |out| {
            self.take_along_axis_into(axis, indices, out)
        })
    }

    /// [`take_along_axis`](Self::take_along_axis) into an existing array or view, of the shape of the indices.
    ///
    /// # Errors
    ///
    /// Those of [`take_along_axis`](Self::take_along_axis), and [`Error::Shape`] if the result has another shape than the indices.
    pub fn take_along_axis_into<I: Index>(
        &self,
        axis: Axis,
        indices: &DeviceArrayRef<I, D>,
        out: &mut DeviceArrayRef<T, D>,
    ) -> Result<()> {
        self.stream().check_device("take_along_axis", indices.stream())?;
        self.stream().check_device("take_along_axis", out.stream())?;
        self.layout.check_axis("take_along_axis", axis.index())?;
        check_shapes(self.shape(), axis.index(), indices.shape())?;
        if out.shape() != indices.shape() {
            return Err(Error::Shape {
                operation: "take_along_axis",
                given: format!(
                    "indices of shape {:?} and a result of {:?}",
                    indices.shape(),
                    out.shape()
                ),
                wanted: "equal shapes".into(),
            });
        }
        let indices = indices.in_order()?;
        let indices = indices.in_shape(Ix1(indices.len()));
        take(self, axis.index(), &I::to_kernel(&indices)?, out)
    }
}

/// Whether indices along an axis have the shape of the array but for it, and something to name.
fn check_shapes(shape: &[usize], axis: usize, indices: &[usize]) -> Result<()> {
    let is_equal = |i: usize| i == axis || shape[i] == indices[i];
    let fits = shape.len() == indices.len() && (0..shape.len()).all(is_equal);
    if fits && (shape[axis] > 0 || indices.contains(&0)) {
        return Ok(());
    }
    Err(Error::Shape {
        operation: "take_along_axis",
        given: format!("indices of shape {indices:?} along axis {axis} of shape {shape:?}"),
        wanted: "equal shapes but for that axis, and indices only where it has elements".into(),
    })
}

/// Masks.
impl<D: Dimension> DeviceArrayRef<u8, D> {
    /// The index along each axis of every element that is not 0, in C order: a row for each element, a column for each axis.
    /// NumPy's `argwhere`, and its `nonzero` has the columns. Waits for their number.
    ///
    /// # Cost
    ///
    /// That of [`flatnonzero`](Self::flatnonzero), and of one division and one remainder for each number of the result.
    ///
    /// # Errors
    ///
    /// Those of [`flatnonzero`](Self::flatnonzero).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[0.5, -1.0, 3.0], [-2.0, -0.5, 4.0]])?;
    /// let places = x.greater_scalar(1.0)?.argwhere()?;
    /// assert_eq!(places.to_ndarray()?, array![[0, 2], [1, 2]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "nonzero")]
    pub fn argwhere(&self) -> Result<DeviceArray<u64, Ix2>> {
        let places = self.flatnonzero()?;
        let shape = Ix2(places.len(), self.ndim());
        if shape.size() == 0 {
            return DeviceArray::uninit(self.stream(), shape);
        }
        let lengths: Vec<u64> = self.shape().iter().map(|&length| length as u64).collect();
        let behind = |axis: usize| lengths[axis + 1..].iter().product();
        let steps: Vec<u64> = (0..lengths.len()).map(behind).collect();
        let steps = DeviceArray::from_slice(self.stream(), &steps)?;
        let lengths = DeviceArray::from_slice(self.stream(), &lengths)?;
        (places.insert_axis(Axis(1))?.expr() / &steps % &lengths).eval()
    }
}
