// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that indices or a mask name: gathered (take.rs), added to, replaced (assign.rs), selected.

mod assign;
mod indices;
mod take;

use half::{bf16, f16};
use kernels_gpu::compiled::{ScatterAdd as Atomically, ScatterAddInOrder as AddInOrder};
use kernels_gpu::index::in_order::InOrderPlan;
use kernels_gpu::index::{THREADS, TILE, indices_of};
use kernels_gpu::op::Sum;
use ndarray::{Axis, Dimension, Ix1};

use super::{CastTo, tiles};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;

pub use indices::{HostIndex, Index, Indices};
pub(super) use take::take;

/// The element types of [`scatter_add`](DeviceArrayRef::scatter_add): `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u32` and `u64`.
pub trait ScatterAdd: Element {
    /// Adds the values. All fits, and there is one at least.
    #[doc(hidden)]
    fn add_at<D: Dimension>(addition: Addition<'_, Self, D>) -> Result<()>;
}

/// What is added to what.
#[doc(hidden)]
pub struct Addition<'a, T, D> {
    sums: &'a mut DeviceArrayRef<T, D>,
    axis: usize,
    indices: &'a DeviceArrayRef<u64, Ix1>,
    values: &'a DeviceArrayRef<T, D>,
    /// Whether values are added in the order of the indices.
    in_order: bool,
}

impl<T: Element, D: Dimension> Addition<'_, T, D> {
    /// Parts along the axis, and the elements behind it.
    fn parts(&self) -> (usize, usize) {
        (self.sums.shape()[self.axis], inner(self.sums.shape(), self.axis))
    }

    /// In any order, in which integers give the same.
    fn in_any_order(self) -> Result<()>
    where
        T: Atomically,
    {
        let ((n, inner), stream) = (self.parts(), self.sums.stream().clone());
        let values = self.values.in_order()?;
        let config = tiles(values.len(), TILE, THREADS);
        self.sums
            .change_in_order(&mut |sums| stream.launch::<T::Kernel>(&config, (&*values, self.indices, n, inner, sums)))
    }

    /// In the order that is wanted.
    fn of_floats(self) -> Result<()>
    where
        T: AddInOrder,
    {
        if !self.in_order {
            return self.in_any_order();
        }
        let ((n, inner), stream) = (self.parts(), self.sums.stream().clone());
        let values = self.values.in_order()?;
        let multiprocessors = stream.backend().properties().multiprocessors;
        let plan = InOrderPlan::new(n, values.len() / self.indices.len(), multiprocessors);
        let config = LaunchConfig::new(plan.blocks(), THREADS as u32);
        self.sums.change_in_order(&mut |sums| {
            stream.launch::<T::InOrder>(&config, (&*values, self.indices, n, inner, plan, sums))
        })
    }

    /// In `f32`: added one by one in 16 bits, small values would be lost beside a large sum.
    fn in_f32(self) -> Result<()>
    where
        T: CastTo<f32>,
        f32: CastTo<T>,
    {
        let mut sums = self.sums.cast::<f32>()?;
        f32::add_at(Addition {
            sums: &mut sums,
            values: &*self.values.cast::<f32>()?,
            axis: self.axis,
            indices: self.indices,
            in_order: self.in_order,
        })?;
        sums.cast_into::<T>(self.sums)
    }
}

macro_rules! scatter_add {
    ($($type:ty: $way:ident;)*) => {$(
        impl ScatterAdd for $type {
            fn add_at<D: Dimension>(addition: Addition<'_, Self, D>) -> Result<()> {
                addition.$way()
            }
        }
    )*};
}

scatter_add! {
    f32: of_floats;
    f64: of_floats;
    f16: in_f32;
    bf16: in_f32;
    i32: in_any_order;
    i64: in_any_order;
    u32: in_any_order;
    u64: in_any_order;
}

/// The product of the lengths behind an axis.
fn inner(shape: &[usize], axis: usize) -> usize {
    shape[axis + 1..].iter().product()
}

/// The widest word, in bytes, in which a kernel can move parts of so many bytes between these addresses.
fn widest_word(bytes: usize, addresses: [u64; 2]) -> usize {
    1 << (16 | bytes | addresses[0] as usize | addresses[1] as usize).trailing_zeros()
}

/// What a macro of launches has for the unsigned integer of such a [word](widest_word).
macro_rules! by_word {
    ($word:expr, $launch:ident) => {
        match $word {
            1 => $launch!(u8),
            2 => $launch!(u16),
            4 => $launch!(u32),
            8 => $launch!(u64),
            _ => $launch!(u128),
        }
    };
}
use by_word;

/// An error of `operation` if there are indices and nothing that they could name.
fn check_indices(operation: &'static str, shape: &[usize], axis: usize, indices: usize) -> Result<()> {
    if shape[axis] > 0 || indices == 0 {
        return Ok(());
    }
    Err(Error::Shape {
        operation,
        given: format!("{indices} indices along axis {axis} of shape {shape:?}"),
        wanted: "none, for an axis of length 0".into(),
    })
}

/// Selecting.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements where `mask`, which has the same shape, is not 0, in C order: NumPy's `x[mask]`. Waits for their
    /// number.
    ///
    /// The mask's elements are counted by an exclusive scan, which says where each index goes; then the elements are
    /// [taken](Self::take). For `n` elements of which `m` are selected, at most `20 n + 16 m` bytes are moved beside the
    /// elements, and `9 n + 8 m` allocated for a while.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of an allocation and a launch; waits
    /// for a result, so also those of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, -2], [-3, 4]])?;
    /// assert_eq!(x.compress(&x.greater_scalar(0)?)?.to_ndarray()?, array![1, 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("extract", "masked_select"))]
    pub fn compress(&self, mask: &DeviceArrayRef<u8, D>) -> Result<DeviceArray<T, Ix1>> {
        self.stream().check_device("compress", mask.stream())?;
        if self.shape() != mask.shape() {
            return Err(Error::Shape {
                operation: "compress",
                given: format!("shape {:?} and a mask of shape {:?}", self.shape(), mask.shape()),
                wanted: "equal shapes".into(),
            });
        }
        let indices = mask.flatnonzero()?;
        let elements = self.in_order()?;
        elements.in_shape(Ix1(elements.len())).take(Axis(0), &indices)
    }

    /// The parts along an axis where `mask`, which is as long as the axis, is not 0: NumPy's `compress`. Waits for their
    /// number. As [`compress`](Self::compress), of whole parts.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] if the mask has another length,
    /// [`Error::DifferentDevices`], and those of an allocation and a launch; waits for a result, so also those of
    /// earlier kernels.
    pub fn compress_axis(&self, axis: Axis, mask: &DeviceArrayRef<u8, Ix1>) -> Result<DeviceArray<T, D>> {
        self.stream().check_device("compress_axis", mask.stream())?;
        self.layout.check_axis("compress_axis", axis.index())?;
        if self.shape()[axis.index()] != mask.len() {
            return Err(Error::Shape {
                operation: "compress_axis",
                given: format!(
                    "shape {:?}, axis {} and a mask of shape {:?}",
                    self.shape(),
                    axis.index(),
                    mask.shape()
                ),
                wanted: "a mask as long as the axis".into(),
            });
        }
        self.take(axis, &mask.flatnonzero()?)
    }
}

/// Masks.
impl<D: Dimension> DeviceArrayRef<u8, D> {
    /// The indices, in C order, of the elements that are not 0: NumPy's `flatnonzero`. Waits for their number.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch; waits for a result, so also those of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.5, -1.0, 3.0])?;
    /// assert_eq!(x.greater_scalar(0.0)?.flatnonzero()?.to_ndarray()?, array![0, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn flatnonzero(&self) -> Result<DeviceArray<u64, Ix1>> {
        let (stream, len) = (self.stream(), self.len());
        if len == 0 {
            return DeviceArray::uninit(stream, Ix1(0));
        }
        // Each 0 or 1, in C order.
        let mask = self.not_equal_scalar(0)?.into_shape(len)?;
        let before = mask.exclusive_scan::<Sum>()?;
        let count = before.get(len - 1)? + u64::from(mask.get(len - 1)?);
        let mut out = DeviceArray::uninit(stream, Ix1(count as usize))?;
        if count > 0 {
            stream.launch::<indices_of>(&tiles(len, TILE, THREADS), (&mask, &before, &mut out))?;
        }
        Ok(out)
    }
}

/// Adding where indices say.
impl<T: ScatterAdd, D: Dimension> DeviceArrayRef<T, D> {
    /// Adds the parts of `values` along an axis to those of this array that the indices name: `self[.., indices[j], ..] +=
    /// values[.., j, ..]`, NumPy's `add.at`. An index that occurs more than once is added to as often, atomically: in
    /// no particular order, so that floats may differ in the last bits from run to run (but by
    /// [`scatter_add_in_order`](Self::scatter_add_in_order)). Integers wrap around. Sums of
    /// 16-bit floats are made in `f32`, and each element is rounded once.
    ///
    /// Each value is read once, and an element is read and written for each value that is added to it. Of 16-bit floats both arrays are
    /// copied to `f32` first, which takes memory for that. Indices are looked at as by [`take`](DeviceArrayRef::take).
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] unless `values` has the shape of this array but for
    /// the axis, along which it is as long as there are indices (none, if the axis has length 0),
    /// [`Error::Parameter`] if an index on the host is out of bounds, [`Error::DifferentDevices`], and those of a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let mut sums = DeviceArray::zeros(stream, 3)?;
    /// let groups = DeviceArray::from_ndarray(stream, &array![0u32, 2, 0, 2])?;
    /// let values = DeviceArray::from_ndarray(stream, &array![1.0f32, 2.0, 4.0, 8.0])?;
    /// sums.scatter_add(Axis(0), &groups, &values)?;
    /// assert_eq!(sums.to_ndarray()?, array![5.0, 0.0, 10.0]);
    ///
    /// // An embedding: a row of the table for each word, and the gradient by the table.
    /// let table = DeviceArray::from_ndarray(stream, &array![[0.1f32, 0.2], [0.3, 0.4], [0.5, 0.6]])?;
    /// let words = DeviceArray::from_ndarray(stream, &array![2i64, 0, 2])?;
    /// let embedded = table.take(Axis(0), &words)?;
    /// assert_eq!(embedded.to_ndarray()?, array![[0.5, 0.6], [0.1, 0.2], [0.5, 0.6]]);
    /// let incoming = DeviceArray::<f32, _>::ones(stream, (3, 2))?;
    /// let mut gradient = table.zeros_like()?;
    /// gradient.scatter_add(Axis(0), &words, &incoming)?;
    /// assert_eq!(gradient.to_ndarray()?, array![[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("add.at", "index_add", "index_put", "scatter_reduce"))]
    pub fn scatter_add<'i>(
        &mut self,
        axis: Axis,
        indices: impl Indices<'i>,
        values: &DeviceArrayRef<T, D>,
    ) -> Result<()> {
        self.add_where("scatter_add", axis, indices, values, false)
    }

    /// [`scatter_add`](Self::scatter_add) in the order of the indices: the sums of floats have the same bits each time, on every device, those of
    /// a loop over the indices. The gradient of an embedding, say, is the same from run to run.
    ///
    /// Each value is read once, and what an index names is read and written once for its values among those of some 2000 indices that a block
    /// has found. An index is read by each block, of which there are about two for each multiprocessor; that is much where it names few
    /// elements, some hundred or less. What one index names is added to by few warps: where a few of many indices are most of them, this
    /// takes longer than in any order. No memory is allocated but for copies: of indices that are not `u64`, and of 16-bit floats to `f32`
    /// and back.
    ///
    /// # Errors
    ///
    /// Those of [`scatter_add`](Self::scatter_add).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let words = DeviceArray::from_ndarray(stream, &array![1u32, 0, 1, 1])?;
    /// let incoming = DeviceArray::from_ndarray(stream, &array![[1e8f32], [2.0], [-1e8], [3.0]])?;
    /// let mut gradient = DeviceArray::<f32, _>::zeros(stream, (2, 1))?;
    /// gradient.scatter_add_in_order(Axis(0), &words, &incoming)?;
    /// // In another order 3 would be lost beside 10⁸.
    /// assert_eq!(gradient.to_ndarray()?, array![[2.0], [3.0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scatter_add_in_order<'i>(
        &mut self,
        axis: Axis,
        indices: impl Indices<'i>,
        values: &DeviceArrayRef<T, D>,
    ) -> Result<()> {
        self.add_where("scatter_add_in_order", axis, indices, values, true)
    }

    /// Adds, if all fits.
    fn add_where<'i>(
        &mut self,
        operation: &'static str,
        axis: Axis,
        indices: impl Indices<'i>,
        values: &DeviceArrayRef<T, D>,
        in_order: bool,
    ) -> Result<()> {
        self.stream().check_device(operation, values.stream())?;
        self.layout.check_axis(operation, axis.index())?;
        let mut wanted = self.raw_dim();
        wanted[axis.index()] = indices.count();
        if values.shape() != wanted.slice() {
            return Err(Error::Shape {
                operation,
                given: format!("values of shape {:?} for shape {:?}", values.shape(), self.shape()),
                wanted: format!("values of shape {:?}, for {} indices", wanted.slice(), indices.count()),
            });
        }
        check_indices(operation, self.shape(), axis.index(), indices.count())?;
        let indices = indices.on_device(operation, self.stream(), self.shape()[axis.index()])?;
        if values.is_empty() {
            return Ok(());
        }
        T::add_at(Addition {
            sums: self,
            axis: axis.index(),
            indices: &indices,
            values,
            in_order,
        })
    }
}
