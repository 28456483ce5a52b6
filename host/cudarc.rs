// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions to and from the types of the crate `cudarc` (feature `cudarc`): contexts, streams, memory.
//!
//! Both crates use a GPU's primary context, so what one makes the other can use. `cudarc` loads the driver's library by
//! itself, and gets the one that is loaded already.
//!
//! What `cudarc` made comes in with its owner, which is kept until this library is done with it. Memory of this library's
//! goes out for the time of a closure: `cudarc`'s types for it free what they have when they are dropped, and what was
//! done with them on other streams is known when the closure has returned, and only then.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use ::cudarc::driver::{CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut};
use ::cudarc::driver::{DevicePtr, DevicePtrMut, DriverError};
use ndarray::{Dimension, Ix1};

use crate::array::{DeviceArray, Element};
use crate::backend::Backend;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::owner::Owner;
use crate::raw::FOREIGN;
use crate::stream::Stream;

/// What `cudarc` says when a call of the driver fails.
fn failed(backend: &Arc<dyn Backend>, call: &'static str) -> impl FnOnce(DriverError) -> Error {
    let device = backend.properties().id.clone();
    move |error| Error::Cuda {
        device,
        call,
        message: error.to_string(),
    }
}

/// An error unless this is the context that the device works in.
fn check_context(operation: &'static str, backend: &Arc<dyn Backend>, context: &CudaContext) -> Result<()> {
    let handle = context.cu_ctx().expose_provenance() as u64;
    if backend.peer().is_some_and(|ours| ours.context.0 == handle) {
        return Ok(());
    }
    let given = match context.is_primary() {
        true => format!("cuda:{}", context.ordinal()),
        false => format!("another context of cuda:{}", context.ordinal()),
    };
    Err(Error::different_devices(operation, &given, &backend.properties().id))
}

impl Device {
    /// `cudarc`'s handle of the context that this device works in, its GPU's primary context. Each call makes one, which
    /// keeps the context; a program needs one for each device. It is made current on this thread.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] for the simulated GPU, which has no context, [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, DeviceArray, Stream};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto()?;
    /// if device.is_simulator() {
    ///     return Ok(());
    /// }
    /// let context = device.cudarc_context()?;
    /// let queue = context.new_stream()?;
    /// let numbers = queue.clone_htod(&[1.0f32, 2.0, 3.0])?;
    /// let x = DeviceArray::from_cudarc(&Stream::from_cudarc(&device, queue)?, numbers)?;
    /// assert_eq!(x.sum()?, 6.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cudarc_context(&self) -> Result<Arc<CudaContext>> {
        const OPERATION: &str = "cudarc_context";
        let id = &self.properties().id;
        let Some(ordinal) = id.strip_prefix("cuda:").and_then(|number| number.parse().ok()) else {
            return Err(Error::different_devices(OPERATION, id, "cuda:N"));
        };
        let context = CudaContext::new(ordinal).map_err(failed(self.backend(), "cuDevicePrimaryCtxRetain"))?;
        // Another one since the device was reset.
        check_context(OPERATION, self.backend(), &context)?;
        Ok(context)
    }
}

impl Stream {
    /// A stream of `cudarc`'s as a stream of `device`: arrays can be at home on it, and `cudarc` can queue its work
    /// between their operations. It is destroyed when both are done with it.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the stream was made in another context than the device's, [`Error::Parameter`] for
    /// `per_thread_stream`, which is another one on each thread, [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray, Stream};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto()?;
    /// if device.is_simulator() {
    ///     return Ok(());
    /// }
    /// let queue = device.cudarc_context()?.new_stream()?;
    /// let stream = Stream::from_cudarc(&device, queue.clone())?;
    /// let x = DeviceArray::from_ndarray(&stream, &array![1, 2, 3])?.square()?;
    /// // … kernels that `cudarc` launches on `queue`, with `x.with_cudarc(&queue, …)` …
    /// assert_eq!(x.to_ndarray()?, array![1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_cudarc(device: &Device, stream: Arc<CudaStream>) -> Result<Self> {
        Self::of_cudarc("Stream::from_cudarc", device.default_stream(), stream)
    }

    /// As a stream of the device with that default stream.
    fn of_cudarc(operation: &'static str, default: &Stream, stream: Arc<CudaStream>) -> Result<Self> {
        check_context(operation, default.backend(), stream.context())?;
        let handle = stream.cu_stream().expose_provenance() as u64;
        // SAFETY: `cudarc`'s stream lives as long as its owner, which is kept.
        unsafe { Self::adopt(operation, default, handle, Owner::new(stream)) }
    }

    /// This stream as one of `cudarc`'s, in that context. [`from_cudarc`](Self::from_cudarc) is the way without a promise,
    /// as what `cudarc` makes has an owner.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the context is not the one that the stream's device works in.
    ///
    /// # Safety
    ///
    /// The stream lives as long as the result, and as all that keeps it, such as a `CudaSlice` that was allocated on it.
    /// `cudarc` does not count it as a stream of its own: unless the context has one as well, `cudarc` orders nothing
    /// between this stream and its default one, and the caller does.
    pub unsafe fn as_cudarc(&self, context: &Arc<CudaContext>) -> Result<Arc<CudaStream>> {
        check_context("as_cudarc", self.backend(), context)?;
        // SAFETY: a stream of this context; the rest is this function's contract.
        Ok(unsafe { context.wrap_borrowed_stream(self.as_raw().cast()) })
    }
}

impl<T: Element> DeviceArray<T, Ix1> {
    /// The elements of `slice` as an array that is at home on `stream`, without a copy. `cudarc` frees the memory when the
    /// array is dropped, which waits for the stream then.
    ///
    /// Waits for all work of the device: `cudarc` may still use the slice on any stream.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the slice was made in another context than that of the stream's device,
    /// [`Error::Cuda`] if the driver fails; the slice is dropped then.
    pub fn from_cudarc(stream: &Stream, slice: CudaSlice<T>) -> Result<Self> {
        const OPERATION: &str = "DeviceArray::from_cudarc";
        check_context(OPERATION, stream.backend(), slice.context())?;
        slice
            .context()
            .synchronize()
            .map_err(failed(stream.backend(), "cuCtxSynchronize"))?;
        let (address, _) = slice.device_ptr(slice.stream());
        let (memory, len) = (std::ptr::with_exposed_provenance_mut(address as usize), slice.len());
        // SAFETY: the elements of the slice, which is their owner, and which the caller has given away; what was queued
        // for them is done.
        unsafe { Self::adopt(OPERATION, stream, memory, Ix1(len), Owner::new(slice)) }
    }
}

impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// Lends the elements to `cudarc`, in C order, for what `work` queues on `stream`: it is ordered behind what writes
    /// the array, and later writes behind it. Nothing waits.
    ///
    /// Work on other streams of `cudarc`'s is ordered by its events, as for its own slices.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the stream was made in another context than that of the array's device,
    /// [`Error::Parameter`] for `per_thread_stream`, [`Error::Cuda`] if the driver fails.
    ///
    /// # Panics
    ///
    /// If `cudarc` cannot make an event.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto()?;
    /// if device.is_simulator() {
    ///     return Ok(());
    /// }
    /// let queue = device.cudarc_context()?.new_stream()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?.square()?;
    /// let numbers = x.with_cudarc(&queue, |view| queue.clone_dtoh(&view))??;
    /// assert_eq!(numbers, [1, 4, 9, 16]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_cudarc<R>(&self, stream: &Arc<CudaStream>, work: impl FnOnce(CudaView<'_, T>) -> R) -> Result<R> {
        const OPERATION: &str = "with_cudarc";
        let ours = self.stream_for(OPERATION, stream)?;
        self.buffer().reads_on(&ours)?;
        // SAFETY: the elements, which are borrowed for longer than this; the stream is behind what writes them.
        let lent = unsafe { Lent::new(stream, self.buffer().address(), self.len()) };
        Ok(work(lent.slice.as_view()))
    }

    /// [`with_cudarc`](Self::with_cudarc) for work that writes the array: it is ordered behind all that uses the array,
    /// and later uses behind it.
    ///
    /// # Errors
    ///
    /// As [`with_cudarc`](Self::with_cudarc).
    ///
    /// # Panics
    ///
    /// As [`with_cudarc`](Self::with_cudarc).
    pub fn with_cudarc_mut<R>(
        &mut self,
        stream: &Arc<CudaStream>,
        work: impl FnOnce(CudaViewMut<'_, T>) -> R,
    ) -> Result<R> {
        const OPERATION: &str = "with_cudarc_mut";
        let ours = self.stream_for(OPERATION, stream)?;
        self.buffer().writes_on(&ours)?;
        // SAFETY: the elements, which are borrowed mutably for longer than this; the stream is behind all their uses.
        let mut lent = unsafe { Lent::new(stream, self.buffer().address(), self.len()) };
        Ok(work(lent.slice.as_view_mut()))
    }

    /// The stream as one of this library's, for a use of the array.
    fn stream_for(&self, operation: &'static str, stream: &Arc<CudaStream>) -> Result<Stream> {
        self.stream().check_not_captured(operation, FOREIGN)?;
        Stream::of_cudarc(operation, self.stream().default_stream(), Arc::clone(stream))
    }
}

/// Memory of an array's as `cudarc` has its own, but that nobody frees it. When it is dropped, all that was done with it
/// is ordered ahead of what its stream is given next, and with that ahead of later uses of the array, which are ordered
/// behind the stream.
///
/// Users get views of it alone, in a closure: a `&mut CudaSlice` could be swapped for another and dropped, and a guard
/// of theirs could be forgotten, and the array freed under what other streams do.
struct Lent<T> {
    slice: ManuallyDrop<CudaSlice<T>>,
}

impl<T> Lent<T> {
    /// # Safety
    ///
    /// There are `len` elements at `address` until this is dropped, in the context of the stream, which is behind what
    /// must be done ahead of their use.
    unsafe fn new(stream: &Arc<CudaStream>, address: u64, len: usize) -> Self {
        // SAFETY: elements by the caller's promise; not one allocation's to be freed, as it is never dropped.
        let slice = unsafe { stream.upgrade_device_ptr(address, len) };
        let mut lent = Self {
            slice: ManuallyDrop::new(slice),
        };
        // As if this stream had written it, which is what other streams of `cudarc`'s wait for.
        drop(lent.slice.device_ptr_mut(stream));
        lent
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: not used after this.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // Lets its stream wait for the events of all that used it, and frees nothing.
        slice.leak();
    }
}
