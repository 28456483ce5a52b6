// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies between page-locked memory and the device, which the host does not wait for.
//!
//! A copy owns the host's memory, so nobody reads or writes it meanwhile. Who drops the copy before it is done leaves
//! the memory to the device's cache with the event that tells when it is; who forgets it leaves the memory locked for
//! good. Neither way is it given to anyone while the device uses it.

use std::fmt;
use std::sync::Arc;

use ndarray::Dimension;

use super::PinnedArray;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::backend::{Backend, RawEvent};
use crate::error::{Error, Result};
use crate::graph::{NO_RESULT, READ_ONCE};
use crate::stream::Stream;

/// A copy between a [`PinnedArray`] and a device, under way. It owns the array until it is done.
///
/// Dropped, it goes on, and its array's memory goes to others behind it. The device's array is ordered by its stream as
/// with every operation, and needs no wait.
#[must_use = "the pinned array comes back by `wait`"]
pub struct PendingCopy<T: Element, D: Dimension> {
    /// None when it was given back.
    array: Option<PinnedArray<T, D>>,
    backend: Arc<dyn Backend>,
    /// Of this backend, recorded behind the copy.
    event: RawEvent,
}

impl<T: Element, D: Dimension> PendingCopy<T, D> {
    /// Waits for the copy and gives the array back: for a download, with the elements.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`] if a kernel of the device failed, [`Error::Cuda`] if the driver fails. The array is
    /// lost then.
    pub fn wait(mut self) -> Result<PinnedArray<T, D>> {
        // SAFETY: the backend's own event.
        unsafe { self.backend.synchronize_event(self.event)? };
        Ok(self.array.take().expect("it is taken here and by the drop alone"))
    }

    /// Whether the copy is done, so that [`wait`](Self::wait) returns at once.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait).
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: as above.
        unsafe { self.backend.is_reached(self.event) }
    }

    /// Queues `copy`, which has the address of the array's elements, on the stream.
    ///
    /// # Safety
    ///
    /// `copy` queues work on that stream, if any, which uses no more of the host's memory than the array.
    unsafe fn start(stream: &Stream, array: PinnedArray<T, D>, copy: impl FnOnce(u64) -> Result<()>) -> Result<Self> {
        let backend = Arc::clone(stream.backend());
        let event = backend.create_event(false)?;
        let address = array.memory.address();
        let mut pending = Self {
            array: Some(array),
            backend,
            event,
        };
        let copied = match address {
            0 => Ok(()),
            address => copy(address),
        };
        // Also after an error, which may be one of earlier work: then the copy may be queued.
        // SAFETY: the backend's own event and stream.
        let recorded = unsafe { pending.backend.record(event, stream.raw()) };
        if recorded.is_err()
            && stream.synchronize().is_err()
            && let Some(array) = pending.array.take()
        {
            array.memory.abandon();
        }
        copied.and(recorded).map(|()| pending)
    }
}

impl<T: Element, D: Dimension> Drop for PendingCopy<T, D> {
    fn drop(&mut self) {
        // SAFETY: the backend's own event.
        let done = self.array.is_none() || unsafe { self.backend.is_reached(self.event) }.unwrap_or(false);
        match self.array.take() {
            // SAFETY: the event is this copy's, and recorded behind it; or it was not, and nothing uses the memory.
            Some(array) if !done => unsafe { array.memory.retire(self.event) },
            // SAFETY: as above; nobody waits for it any more.
            _ => unsafe { self.backend.destroy_event(self.event) },
        }
    }
}

impl<T: Element, D: Dimension> fmt::Debug for PendingCopy<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingCopy").field(&self.array).finish()
    }
}

/// Copies by way of page-locked memory, which the host does not wait for.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// Copies `array` to the device of `stream`, for which its memory was made. The copy is queued; what uses the result
    /// comes behind it.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the memory is another device's, [`Error::OutOfMemory`] if the device has not
    /// enough, [`Error::Cuda`] if the driver fails. `array` is lost then.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray, PinnedArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let host = PinnedArray::from_ndarray(&device, &array![1.0f32, 2.0, 3.0])?;
    /// let (x, upload) = DeviceArray::upload_async(device.default_stream(), host)?;
    /// assert_eq!(x.sum()?, 6.0);
    /// let mut host = upload.wait()?;
    /// host.view_mut().fill(4.0);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "memcpy_htod_async")]
    pub fn upload_async(stream: &Stream, array: PinnedArray<T, D>) -> Result<(Self, PendingCopy<T, D>)> {
        let mut result = Self::uninit(stream, array.raw_dim())?;
        let pending = result.assign_async(array)?;
        Ok((result, pending))
    }
}

/// Copies by way of page-locked memory, between arrays or views and the host. Elements that are not in C order without a gap
/// are put in order on the device, in memory of their own, by work that is queued as the copy is.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// Copies `array` to these elements, as [`upload_async`](DeviceArray::upload_async).
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, and those of [`upload_async`](DeviceArray::upload_async); of a view that does
    /// not lie in C order also those of a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{array, s};
    /// use warpsmith::{Device, DeviceArray, PinnedArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut batch = DeviceArray::zeros(device.default_stream(), (2, 2))?;
    /// let row = PinnedArray::from_ndarray(&device, &array![3, 4])?;
    /// let upload = batch.slice_mut(s![1, ..])?.assign_async(row)?;
    /// assert_eq!(batch.to_ndarray()?, array![[0, 0], [3, 4]]);
    /// # drop(upload);
    /// # Ok(())
    /// # }
    /// ```
    pub fn assign_async(&mut self, array: PinnedArray<T, D>) -> Result<PendingCopy<T, D>> {
        self.check_pinned("assign_async", &array)?;
        let stream = self.stream().clone();
        stream.check_not_captured("assign_async", READ_ONCE)?;
        if !self.is_standard_layout() {
            let mut ordered = DeviceArray::uninit(&stream, self.raw_dim())?;
            let pending = ordered.assign_async(array)?;
            return self.assign(&ordered).map(|()| pending);
        }
        self.writes_on(&stream)?;
        let (to, bytes) = (self.address(), self.bytes().len());
        // SAFETY: as many bytes on both sides, ordered on this stream, the host's of this backend.
        let pending = unsafe {
            PendingCopy::start(&stream, array, |from| {
                stream.backend().upload_pinned(stream.raw(), to, from, bytes)
            })?
        };
        if self.is_part() {
            // Once more: other threads may have prepared other parts of the array since.
            self.writes_on(&stream)?;
        }
        Ok(pending)
    }

    /// Copies the elements to page-locked memory. The copy is queued behind the work that it depends on;
    /// [`wait`](PendingCopy::wait) gives the elements. They may be changed or dropped meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::HostMemory`] if the system locks no more memory, [`Error::Cuda`] if the driver fails; of a view that does
    /// not lie in C order also those of [`to_array`](Self::to_array).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{array, s};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?;
    /// let (download, column) = (x.download_async()?, x.slice(s![.., 1])?.download_async()?);
    /// drop(x);
    /// assert_eq!(download.wait()?.view(), array![[1, 2], [3, 4]]);
    /// assert_eq!(column.wait()?.view(), array![2, 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "memcpy_dtoh_async")]
    pub fn download_async(&self) -> Result<PendingCopy<T, D>> {
        self.download_async_into(PinnedArray::uninit(self.stream().backend(), self.raw_dim())?)
    }

    /// Copies the elements into `array`, as [`download_async`](Self::download_async).
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`] if the memory is another device's, and those of
    /// [`download_async`](Self::download_async). `array` is lost then.
    pub fn download_async_into(&self, array: PinnedArray<T, D>) -> Result<PendingCopy<T, D>> {
        self.check_pinned("download_async_into", &array)?;
        let stream = self.stream();
        stream.check_not_captured("download_async_into", NO_RESULT)?;
        if !self.is_standard_layout() {
            return self.to_array()?.download_async_into(array);
        }
        self.reads_on(stream)?;
        let (from, bytes) = (self.address(), self.bytes().len());
        // SAFETY: as many bytes on both sides, ordered on this stream, the host's of this backend.
        let pending = unsafe {
            PendingCopy::start(stream, array, |to| {
                stream.backend().download_pinned(stream.raw(), to, from, bytes)
            })?
        };
        if self.is_part() {
            // As in `assign_async`.
            self.reads_on(stream)?;
        }
        Ok(pending)
    }

    /// An error if `array` has another shape than these elements, or its memory is not of this device.
    fn check_pinned(&self, operation: &'static str, array: &PinnedArray<T, D>) -> Result<()> {
        if self.shape() != array.shape() {
            return Err(Error::Shape {
                operation,
                given: format!("shape {:?}", array.shape()),
                wanted: format!("shape {:?}", self.shape()),
            });
        }
        let (given, wanted) = (array.memory.backend(), self.stream().backend());
        if !Arc::ptr_eq(given, wanted) {
            let (given, wanted) = (&given.properties().id, &wanted.properties().id);
            return Err(Error::different_devices(operation, given, wanted));
        }
        Ok(())
    }
}
