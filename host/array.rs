// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays in device memory.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ndarray::{Dimension, IntoDimension, IxDyn};

use crate::array_ref::{DeviceArrayRef, Held};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::layout::{Layout, check_reshape, checked_len};
use crate::stream::Stream;

/// A type that can lie in device memory: any that is plain bytes ([`bytemuck::Pod`]). `bool` is none, since not every byte is one:
/// comparisons give masks of `u8`, of 0 and 1, and `bools.mapv(u8::from)` makes one of an array of the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the element of an array in device memory",
    note = "wanted: plain bytes, `bytemuck::Pod`: a number, an array of them, a `#[repr(C)]` structure with `#[derive(Clone, Copy, Pod, Zeroable)]`; \
            for `bool` a mask of `u8`, as comparisons give: `bools.mapv(u8::from)`"
)]
pub trait Element: bytemuck::Pod + Send + Sync {}

#[diagnostic::do_not_recommend]
impl<T: bytemuck::Pod + Send + Sync> Element for T {}

/// An array in the memory of a device, with ndarray's dimensions, in C order (the last axis is contiguous).
///
/// It owns its memory, and has a home: the stream that its operations run on. They are asynchronous; reading the result
/// back ([`to_ndarray`](DeviceArrayRef::to_ndarray)) is what waits. Dropping an array gives its memory back in the stream's
/// order.
///
/// It dereferences to [`DeviceArrayRef`], which has the operations.
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
    /// In C order from the first element of a memory that is this array's alone.
    all: Held<T, D>,
}

impl<T, D> Deref for DeviceArray<T, D> {
    type Target = DeviceArrayRef<T, D>;

    fn deref(&self) -> &DeviceArrayRef<T, D> {
        &self.all
    }
}

impl<T, D> DerefMut for DeviceArray<T, D> {
    fn deref_mut(&mut self) -> &mut DeviceArrayRef<T, D> {
        &mut self.all
    }
}

impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// An array of that shape whose bytes are all zero.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the device has not enough, [`Error::Cuda`] if the driver fails.
    #[doc(alias("empty", "mem_alloc", "device_array"))]
    pub fn zeros(stream: &Stream, shape: impl IntoDimension<Dim = D>) -> Result<Self> {
        let result = Self::uninit(stream, shape.into_dimension())?;
        let (address, bytes) = (result.buffer().address(), result.buffer().bytes());
        if bytes > 0 {
            result.buffer().writes_on(stream)?; // for a graph, which is to know
            // SAFETY: the buffer was just allocated on this stream, with that many bytes.
            unsafe { stream.queue_fill_zero(address, bytes)? };
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

    /// As [`uninit`](Self::uninit), with elements that nobody writes, such as the room behind rows. Kernels may load them
    /// beside others, and throw away what they get.
    pub(crate) fn uninit_with_room(stream: &Stream, dim: D) -> Result<Self> {
        let result = Self::uninit(stream, dim)?;
        let buffer = result.buffer();
        stream.backend().assume_written(buffer.address(), buffer.bytes());
        Ok(result)
    }

    /// An array of that shape in a buffer that has just its elements.
    pub(crate) fn of_buffer(stream: &Stream, buffer: Buffer, dim: D) -> Self {
        assert_eq!(dim.size() * size_of::<T>(), buffer.bytes());
        Self {
            all: Held {
                buffer: Arc::new(buffer),
                stream: stream.clone(),
                layout: Layout::standard(dim),
                _element: PhantomData,
                _size: [],
            },
        }
    }

    /// The same array at home on another stream of its device.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the stream is another device's.
    pub fn into_stream(mut self, stream: &Stream) -> Result<Self> {
        self.stream().check_device("into_stream", stream)?;
        self.all.stream = stream.clone();
        Ok(self)
    }

    /// The same array with a dimension that is known at run time only.
    pub fn into_dyn(self) -> DeviceArray<T, IxDyn> {
        let Held {
            buffer, stream, layout, ..
        } = self.all;
        DeviceArray {
            all: Held {
                buffer,
                stream,
                layout: layout.into_dyn(),
                _element: PhantomData,
                _size: [],
            },
        }
    }

    /// The same array with a dimension that is known when the program is compiled, as of what [`into_dyn`](Self::into_dyn) or
    /// a reduction along several axes has given.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if it has another number of axes; the array is then dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Ix1, Ix2, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?.into_dyn();
    /// let x = x.into_dimensionality::<Ix2>()?;
    /// assert_eq!(x.to_ndarray()?, array![[1, 2], [3, 4]]);
    /// let error = x.into_dimensionality::<Ix1>().unwrap_err().to_string();
    /// assert_eq!(error, "into_dimensionality: given shape [2, 2], wanted one of 1 axis");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_dimensionality<E: Dimension>(self) -> Result<DeviceArray<T, E>> {
        let Held {
            buffer, stream, layout, ..
        } = self.all;
        Ok(DeviceArray {
            all: Held {
                buffer,
                stream,
                layout: layout.into_dimensionality()?,
                _element: PhantomData,
                _size: [],
            },
        })
    }

    /// The same elements, in C order, in another shape. Costs nothing. [`reshape`](DeviceArrayRef::reshape) is a view of
    /// them in another shape, and leaves the array as it is.
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
    #[doc(alias = "reshape")]
    pub fn into_shape<E: Dimension>(self, shape: impl IntoDimension<Dim = E>) -> Result<DeviceArray<T, E>> {
        let dim = shape.into_dimension();
        check_reshape("into_shape", self.shape(), dim.slice())?;
        let Held { buffer, stream, .. } = self.all;
        Ok(DeviceArray {
            all: Held {
                buffer,
                stream,
                layout: Layout::standard(dim),
                _element: PhantomData,
                _size: [],
            },
        })
    }
}
