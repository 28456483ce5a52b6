// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions to and from the types of the crate `cust` (feature `cust`): contexts, streams, events, memory.
//!
//! Both crates use a GPU's primary context, so what one makes the other can use. `cust` calls the driver by the
//! functions that crates/cuda_driver defines; docs/architecture.md says what its declarations leave open.

use std::ptr;
use std::sync::Arc;

use ::cust::context::Context;
use ::cust::memory::{DeviceBuffer, DeviceCopy, DevicePointer};
use ::cust::sys::{CUevent, CUstream};
use ndarray::{Dimension, Ix1};

use crate::array::{DeviceArray, Element};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::owner::Owner;
use crate::stream::Stream;

impl Device {
    /// `cust`'s handle of the context that this device works in, its GPU's primary context, for `cust`'s calls on this
    /// thread: it is made current here.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] for the simulated GPU, which has no context, [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use cust::memory::DeviceBuffer;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto()?;
    /// if device.is_simulator() {
    ///     return Ok(());
    /// }
    /// let _context = device.cust_context()?;
    /// let buffer = DeviceBuffer::from_slice(&[1.0f32, 2.0, 3.0])?;
    /// let x = DeviceArray::from_cust(device.default_stream(), buffer)?;
    /// assert_eq!(x.sum()?, 6.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cust_context(&self) -> Result<Context> {
        let id = &self.properties().id;
        let Some(ordinal) = id.strip_prefix("cuda:").and_then(|number| number.parse().ok()) else {
            return Err(Error::different_devices("cust_context", id, "cuda:N"));
        };
        let context = ::cust::device::Device::get_device(ordinal).and_then(Context::new);
        context.map_err(|error| Error::Cuda {
            device: id.clone(),
            call: "cuDevicePrimaryCtxRetain",
            message: error.to_string(),
        })
    }
}

impl Stream {
    /// A stream of `cust`'s as a stream of `device`: arrays can be at home on it, and `cust` can launch its kernels on
    /// it between their operations. It is destroyed when both are done with it.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the stream was made in another context than the device's, [`Error::Cuda`] if the
    /// driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray, Stream};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto()?;
    /// if device.is_simulator() {
    ///     return Ok(());
    /// }
    /// let _context = device.cust_context()?;
    /// let queue = Arc::new(cust::stream::Stream::new(cust::stream::StreamFlags::DEFAULT, None)?);
    /// let stream = Stream::from_cust(&device, Arc::clone(&queue))?;
    /// let x = DeviceArray::from_ndarray(&stream, &array![1, 2, 3])?;
    /// // … kernels that `cust` launches on `queue`, with `x.as_cust()` …
    /// assert_eq!(x.square()?.to_ndarray()?, array![1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_cust(device: &Device, stream: Arc<::cust::stream::Stream>) -> Result<Self> {
        let handle = stream.as_inner().expose_provenance() as u64;
        // SAFETY: `cust`'s stream lives as long as its owner, which is kept.
        unsafe { Self::adopt("from_cust", device.default_stream(), handle, Owner::new(stream)) }
    }

    /// The driver's handle of the stream; `None` on the simulated GPU. For calls of `cust::sys`; it is that of
    /// [`as_raw`](Self::as_raw).
    pub fn as_cust(&self) -> Option<CUstream> {
        let raw = self.as_raw();
        (!raw.is_null()).then(|| raw.cast())
    }
}

impl Event {
    /// The driver's handle of the event; `None` on the simulated GPU. It is valid as long as the event, and nobody else
    /// destroys it.
    pub fn as_cust(&self) -> Option<CUevent> {
        let handle = self.recorded().driver_handle()?;
        Some(ptr::with_exposed_provenance_mut(handle as usize))
    }
}

impl<T: Element + DeviceCopy, D: Dimension> DeviceArray<T, D> {
    /// Where the elements lie, in C order, for `cust`'s kernels; `None` on the simulated GPU, and null for an array
    /// without elements.
    ///
    /// The memory is the array's, and what is done with the pointer is not seen by it: use it on the array's
    /// [stream](crate::DeviceArrayRef::stream) (see [`Stream::from_cust`]), or after work there was waited for, and while the array lives.
    pub fn as_cust(&self) -> Option<DevicePointer<T>> {
        let is_simulated = self.stream().backend().properties().is_simulated();
        (!is_simulated).then(|| DevicePointer::from_raw(self.buffer().address()))
    }
}

impl<T: Element + DeviceCopy> DeviceArray<T, Ix1> {
    /// The elements of `buffer` as an array that is at home on `stream`, without a copy. `cust` frees the memory when
    /// the array is dropped, which waits for the stream then.
    ///
    /// What `cust` still does with the buffer on other streams must be waited for by the caller, as its unsafe functions
    /// want it too.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the memory is not that of the stream's device, [`Error::Cuda`] if the driver fails;
    /// the buffer is dropped then.
    pub fn from_cust(stream: &Stream, buffer: DeviceBuffer<T>) -> Result<Self> {
        if stream.backend().properties().is_simulated() {
            return Err(Error::different_devices("from_cust", "a GPU", stream.device_id()));
        }
        let (address, len) = (buffer.as_device_ptr().as_raw() as usize, buffer.len());
        let memory = ptr::with_exposed_provenance_mut(address);
        // SAFETY: the elements of the buffer, which is their owner, and which the caller has given away.
        unsafe { Self::adopt("from_cust", stream, memory, Ix1(len), Owner::new(buffer)) }
    }
}
