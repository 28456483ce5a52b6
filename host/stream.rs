// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams: queues of work that a device does in order.

use std::sync::{Arc, Mutex, PoisonError};

use ndarray::Ix1;

use crate::array::DeviceArray;
use crate::backend::{Backend, RawStream};
use crate::error::Result;
use crate::event::{Event, RecordedEvent};
use crate::launch::Counters;

/// The counters that a stream keeps: more are allocated for their launch.
const KEPT_COUNTERS: usize = 1024;

/// A queue of work. Copies and kernels on one stream run in order, those on different streams side by side; the host
/// goes on meanwhile, and waits where it reads a result.
///
/// An array that is used on another stream than the one that wrote it is ordered behind that write by itself.
///
/// Clones are the same stream. A stream that is dropped finishes its work.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    backend: Arc<dyn Backend>,
    raw: RawStream,
    /// The address of [`KEPT_COUNTERS`] counters, which are 0 whenever no kernel is running that was given them.
    counters: Mutex<Option<u64>>,
}

impl Inner {
    /// Counters that are 0.
    fn allocate_counters(&self) -> Result<u64> {
        let bytes = KEPT_COUNTERS * size_of::<u32>();
        // SAFETY: the backend's own stream, on which the memory is first allocated and then filled.
        unsafe {
            let address = self.backend.allocate(self.raw, bytes)?;
            self.backend.fill_zero(self.raw, address, bytes)?;
            Ok(address)
        }
    }

    /// Frees counters; an error is one of earlier work, which every later call reports as well.
    fn free_counters(&self, address: u64) {
        // SAFETY: allocated by this backend, and used on this stream alone.
        let _ = unsafe { self.backend.free(self.raw, address) };
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let counters = self.counters.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(address) = counters {
            self.free_counters(address);
        }
        // SAFETY: this was the stream's last owner, and the backend made it.
        unsafe { self.backend.destroy_stream(self.raw) };
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Stream {}

impl Stream {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Result<Self> {
        let raw = backend.create_stream()?;
        Ok(Self {
            inner: Arc::new(Inner {
                backend,
                raw,
                counters: Mutex::new(None),
            }),
        })
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.backend
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.inner.raw
    }

    /// The name of the stream's device: `cuda:0`, `sim`.
    pub fn device_id(&self) -> &str {
        &self.backend().properties().id
    }

    /// Whether both streams are of one device.
    pub(crate) fn same_device(&self, other: &Stream) -> bool {
        Arc::ptr_eq(self.backend(), other.backend())
    }

    /// Waits until all work of the stream is done.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`](crate::Error::KernelFailed) if a kernel of the device failed, on this stream or another.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the backend's stream.
        unsafe { self.backend().synchronize(self.raw()) }
    }

    /// Marks this point of the stream, for timing and for waiting.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`](crate::Error::Cuda) if the driver fails.
    pub fn record(&self) -> Result<Event> {
        Ok(Event::new(RecordedEvent::record(self, true)?))
    }

    /// Lets the work that is queued on this stream from here on wait for `event`.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`](crate::Error::Cuda) if the driver fails.
    pub fn wait(&self, event: &Event) -> Result<()> {
        event.recorded().let_wait(self)
    }

    /// Calls `launch` with `len` counters that are 0, for one launch on this stream, whose kernel leaves them at 0.
    ///
    /// The stream keeps them from launch to launch: to set them to 0 anew takes about a microsecond, a fifth of a small
    /// reduction.
    pub(crate) fn with_counters(&self, len: usize, launch: impl FnOnce(Counters) -> Result<()>) -> Result<()> {
        if len == 0 || len > KEPT_COUNTERS {
            return self.with_new_counters(len, launch);
        }
        // Locked until the launch is queued, and taken out: a launch that fails may leave other values than 0.
        let mut kept = self.inner.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let address = match kept.take() {
            Some(address) => address,
            None => self.inner.allocate_counters()?,
        };
        // SAFETY: allocated on this stream, with at least `len` counters, and taken out.
        let result = launch(unsafe { Counters::at(address, len) });
        match result {
            Ok(()) => *kept = Some(address),
            Err(_) => self.inner.free_counters(address),
        }
        result
    }

    /// [`with_counters`](Self::with_counters) with new ones, which the kernel may leave at any value.
    pub(crate) fn with_new_counters(&self, len: usize, launch: impl FnOnce(Counters) -> Result<()>) -> Result<()> {
        let counters = DeviceArray::<u32, Ix1>::zeros(self, len)?;
        // SAFETY: an array of this stream, which nobody else knows; it is freed behind the launch.
        launch(unsafe { Counters::of(&counters) })
    }

    /// Lets later work of this stream wait for all that `other` has queued.
    pub(crate) fn wait_for(&self, other: &Stream) -> Result<()> {
        RecordedEvent::record(other, false)?.let_wait(self)
    }
}
