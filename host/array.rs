// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays in device memory.

use std::fmt;
use std::marker::PhantomData;

use ndarray::{Dimension, IntoDimension, IxDyn};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// A type that can lie in device memory: any that is plain bytes ([`bytemuck::Pod`]).
pub trait Element: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> Element for T {}

/// An array in the memory of a device, with ndarray's dimensions, in C order (the last axis is contiguous).
///
/// It owns its memory, and has a home: the stream that its operations run on. They are asynchronous; reading the result
/// back ([`to_ndarray`](Self::to_ndarray)) is what waits. Dropping an array gives its memory back in the stream's
/// order.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 2.0], [3.0, 4.0]])?;
/// let y = x.square()?.add_scalar(1.0)?;
/// assert_eq!(y.to_ndarray()?, array![[2.0, 5.0], [10.0, 17.0]]);
/// # Ok(())
/// # }
/// ```
pub struct DeviceArray<T, D> {
    buffer: Buffer,
    dim: D,
    stream: Stream,
    _element: PhantomData<T>,
}

impl<T: Element, D: Dimension> fmt::Debug for DeviceArray<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceArray")
            .field("element", &std::any::type_name::<T>())
            .field("shape", &self.shape())
            .field("device", &self.stream.device_id())
            .finish()
    }
}

impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// An array of that shape whose bytes are all zero.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the device has not enough, [`Error::Cuda`] if the driver fails.
    pub fn zeros(stream: &Stream, shape: impl IntoDimension<Dim = D>) -> Result<Self> {
        let result = Self::uninit(stream, shape.into_dimension())?;
        if result.buffer.bytes() > 0 {
            // SAFETY: the buffer was just allocated on this stream, with that many bytes.
            unsafe {
                stream
                    .backend()
                    .fill_zero(stream.raw(), result.buffer.address(), result.buffer.bytes())?
            };
        }
        Ok(result)
    }

    /// An array of that shape with unspecified elements, for an operation to write.
    pub(crate) fn uninit(stream: &Stream, dim: D) -> Result<Self> {
        let bytes = checked_len(dim.slice()).and_then(|len| len.checked_mul(size_of::<T>()));
        let bytes = bytes
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(|| Error::Shape {
                operation: "allocation",
                given: format!("shape {:?} of {}-byte elements", dim.slice(), size_of::<T>()),
                wanted: "less than 2^63 bytes".into(),
            })?;
        Ok(Self::of_buffer(stream, Buffer::allocate(stream, bytes)?, dim))
    }

    /// An array of that shape in a buffer that has just its elements.
    pub(crate) fn of_buffer(stream: &Stream, buffer: Buffer, dim: D) -> Self {
        assert_eq!(dim.size() * size_of::<T>(), buffer.bytes());
        Self {
            buffer,
            dim,
            stream: stream.clone(),
            _element: PhantomData,
        }
    }

    /// A copy of the array, on the same device.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the device has not enough, [`Error::Cuda`] if the driver fails.
    pub fn try_clone(&self) -> Result<Self> {
        let result = Self::uninit(&self.stream, self.dim.clone())?;
        let (to, from, bytes) = (result.buffer.address(), self.buffer.address(), self.buffer.bytes());
        if bytes > 0 {
            self.buffer.reads_on(&self.stream)?;
            // SAFETY: two whole buffers of as many bytes, ordered on this stream.
            unsafe { self.stream.backend().copy(self.stream.raw(), to, from, bytes)? };
        }
        Ok(result)
    }

    /// Copies the elements of an array of the same shape and device into this one, asynchronously.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3])?;
    /// let mut y = DeviceArray::zeros(device.default_stream(), 3)?;
    /// y.assign(&x)?;
    /// assert_eq!(y.to_ndarray()?, array![1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn assign(&mut self, other: &Self) -> Result<()> {
        self.fits("assign", other)?;
        let (to, from, bytes) = (self.buffer.address(), other.buffer.address(), self.buffer.bytes());
        if bytes > 0 {
            other.buffer.reads_on(&self.stream)?;
            self.buffer.writes_on(&self.stream)?;
            // SAFETY: two whole buffers of as many bytes, ordered on this stream.
            unsafe { self.stream.backend().copy(self.stream.raw(), to, from, bytes)? };
        }
        Ok(())
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.dim.slice()
    }

    /// The shape as ndarray's dimension type.
    pub fn raw_dim(&self) -> D {
        self.dim.clone()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.dim.size()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stream that the array's operations run on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The same array at home on another stream of its device.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the stream is another device's.
    pub fn into_stream(mut self, stream: &Stream) -> Result<Self> {
        self.stream.check_device("into_stream", stream)?;
        self.stream = stream.clone();
        Ok(self)
    }

    /// The same array with a dimension that is known at run time only.
    pub fn into_dyn(self) -> DeviceArray<T, IxDyn> {
        DeviceArray {
            dim: self.dim.into_dyn(),
            buffer: self.buffer,
            stream: self.stream,
            _element: PhantomData,
        }
    }

    /// The same elements, in C order, in another shape. Costs nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shape is not one of as many elements; the array is then dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3, 4, 5, 6])?;
    /// assert_eq!(x.into_shape((2, 3))?.to_ndarray()?, array![[1, 2, 3], [4, 5, 6]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_shape<E: Dimension>(self, shape: impl IntoDimension<Dim = E>) -> Result<DeviceArray<T, E>> {
        let dim = shape.into_dimension();
        if checked_len(dim.slice()) != Some(self.len()) {
            return Err(Error::Shape {
                operation: "into_shape",
                given: format!(
                    "shape {:?} for {} elements of shape {:?}",
                    dim.slice(),
                    self.len(),
                    self.shape()
                ),
                wanted: format!("a shape of {} elements", self.len()),
            });
        }
        Ok(DeviceArray {
            dim,
            buffer: self.buffer,
            stream: self.stream,
            _element: PhantomData,
        })
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// An error if `other`, an operand of `operation`, has another shape or is on another device.
    pub(crate) fn fits<U: Element>(&self, operation: &'static str, other: &DeviceArray<U, D>) -> Result<()> {
        if self.dim == other.dim {
            return self.stream.check_device(operation, &other.stream);
        }
        Err(Error::Shape {
            operation,
            given: format!("shapes {:?} and {:?}", self.shape(), other.shape()),
            wanted: "equal shapes".into(),
        })
    }
}

/// The number of elements of that shape, unless it is 2^63 or more, or would be but for axes of length 0: ndarray has
/// no such shapes either, so that no part of one has too many elements to be counted.
pub(crate) fn checked_len(shape: &[usize]) -> Option<usize> {
    let mut filled = shape.iter().filter(|&&len| len > 0);
    let most = filled.try_fold(1usize, |product, &len| product.checked_mul(len))?;
    isize::try_from(most).ok()?;
    Some(shape.iter().product())
}
