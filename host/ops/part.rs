// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single elements, and what is copied into arrays and parts of them.

use kernels_gpu::create::{self, Pattern};
use ndarray::{Dimension, IntoDimension, arr0};

use super::tiles;
use super::transpose::copy_to;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::graph::{NO_RESULT, READ_ONCE};
use crate::launch::WordsMut;

/// Single elements.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The element with that index, on the host. Waits for the work that it depends on; an element at a time is a slow
    /// way to read many.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if there is no such element, [`Error::KernelFailed`] if a kernel of the device failed,
    /// [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6]])?;
    /// x.set([0, 1], 20)?;
    /// assert_eq!((x.get([1, 2])?, x.t().get([1, 0])?), (6, 20));
    /// let error = x.get([2, 0]).unwrap_err().to_string();
    /// assert_eq!(error, "get: given index [2, 0], wanted an index within shape [2, 3]");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, index: impl IntoDimension<Dim = D>) -> Result<T> {
        let place = self.layout.index("get", &index.into_dimension())? * size_of::<T>();
        let mut element = T::zeroed();
        let bytes = bytemuck::bytes_of_mut(&mut element);
        if bytes.is_empty() {
            return Ok(element);
        }
        self.stream().check_not_captured("get", NO_RESULT)?;
        self.buffer
            .reads_part_on(self.stream(), place..place + size_of::<T>())?;
        let (backend, from) = (self.stream().backend(), self.buffer.address() + place as u64);
        // SAFETY: an element of the buffer, ordered on this stream; `bytes` has room for it.
        unsafe { backend.download(self.stream().raw(), bytes.as_mut_ptr(), from, bytes.len())? };
        Ok(element)
    }

    /// The only element, of an array of one, on the host: what a reduction on the device has left, say. Waits as
    /// [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless there is exactly one element, and those of [`get`](Self::get).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![3.0f32, 4.0])?;
    /// assert_eq!(x.expr().square().sum().eval()?.item()?, 25.0);
    /// let error = x.item().unwrap_err().to_string();
    /// assert_eq!(error, "item: given shape [2], wanted one element");
    /// # Ok(())
    /// # }
    /// ```
    pub fn item(&self) -> Result<T> {
        if self.len() != 1 {
            return Err(Error::Shape {
                operation: "item",
                given: format!("shape {:?}", self.shape()),
                wanted: "one element".into(),
            });
        }
        self.get(D::zeros(self.ndim()))
    }
}

/// Writing elements, of whole arrays and of parts.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// Sets the element with that index.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if there is no such element, [`Error::Cuda`] if the driver fails.
    pub fn set(&mut self, index: impl IntoDimension<Dim = D>, value: T) -> Result<()> {
        let place = self.layout.index("set", &index.into_dimension())? * size_of::<T>();
        let bytes = bytemuck::bytes_of(&value);
        if bytes.is_empty() {
            return Ok(());
        }
        self.stream().check_not_captured("set", READ_ONCE)?;
        self.buffer.writes_part_on(self.stream(), place..place + bytes.len())?;
        let (backend, to) = (self.stream().backend(), self.buffer.address() + place as u64);
        // SAFETY: an element of the buffer, which is borrowed mutably and ordered on this stream.
        unsafe { backend.upload(self.stream().raw(), to, bytes)? };
        // Once more: other threads may have prepared other parts of the array since.
        self.buffer.writes_part_on(self.stream(), place..place + bytes.len())
    }

    /// Copies the elements of `other`, repeated to the shape of `self` by NumPy's rules, to these, asynchronously, on
    /// the stream of `self`. Either may lie in any way; every element is read and written once.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and those
    /// of a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{array, s};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let row = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2])?;
    /// let mut x = DeviceArray::zeros(device.default_stream(), (2, 3))?;
    /// x.slice_mut(s![.., ..;2])?.assign(&row)?;
    /// assert_eq!(x.to_ndarray()?, array![[1, 0, 2], [1, 0, 2]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn assign<E: Dimension>(&mut self, other: &DeviceArrayRef<T, E>) -> Result<()> {
        let stream = self.stream().clone();
        stream.check_device("assign", other.stream())?;
        let from = other.broadcast(self.raw_dim()).map_err(|_| Error::Shape {
            operation: "assign",
            given: format!("shapes {:?} and {:?}", self.shape(), other.shape()),
            wanted: "a second shape that broadcasts to the first".into(),
        })?;
        if from.interlaces(self) {
            return copy_to(&*other.to_array()?.broadcast(self.raw_dim())?, &stream, self);
        }
        copy_to(&from, &stream, self)
    }

    /// Sets every element to `value`, asynchronously.
    ///
    /// Every element is written once. Where the elements have no gap between them, begin at a multiple of 16 bytes, and
    /// have a size that divides 16, that is by a kernel of stores of 16 bytes; else as copies of one element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{array, s};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::zeros(device.default_stream(), (2, 3))?;
    /// x.fill(1.5)?;
    /// x.slice_mut(s![.., 1])?.fill(-1.0)?;
    /// assert_eq!(x.to_ndarray()?, array![[1.5, -1.0, 1.5], [1.5, -1.0, 1.5]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fill(&mut self, value: T) -> Result<()> {
        if self.len() * size_of::<T>() == 0 {
            return Ok(());
        }
        let stream = self.stream().clone();
        if let Some(pattern) = Pattern::of(value)
            && let Some(mut line) = self
                .in_memory_order_mut()
                .filter(|line| line.address().is_multiple_of(WIDEST))
        {
            let bytes = line.len() * size_of::<T>();
            let config = tiles(bytes, create::tile_len::<u8>(), create::THREADS);
            return stream.launch::<create::fill>(&config, (pattern, WordsMut::<u8>::of(&mut line)));
        }
        let one = DeviceArray::literal(&stream, &arr0(value))?;
        copy_to(&*one.broadcast(self.raw_dim())?, &stream, self)
    }
}

/// Bytes of the widest access.
const WIDEST: u64 = 16;
