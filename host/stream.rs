// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams: queues of work that a device does in order.

use std::sync::Arc;

use crate::array::Element;
use crate::backend::{Backend, RawStream};
use crate::error::Result;
use crate::event::{Event, RecordedEvent};
use crate::zeroed::{Kept, KernelOf, Zeroed};

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
    counters: Kept,
    scan_states: Kept,
    partials: Kept,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for kept in [&self.counters, &self.scan_states, &self.partials] {
            if let Some(address) = kept.take() {
                // SAFETY: allocated on this stream, and used on it alone. An error is one of earlier work.
                let _ = unsafe { self.backend.free(self.raw, address) };
            }
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
                counters: Kept::default(),
                scan_states: Kept::default(),
                partials: Kept::default(),
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
    pub(crate) fn with_counters(
        &self,
        kernel_of: KernelOf,
        len: usize,
        launch: impl FnOnce(Zeroed<u32>) -> Result<()>,
    ) -> Result<()> {
        self.inner.counters.with(self, kernel_of, len, launch)
    }

    /// Calls `launch` with `len` words of state for one scan with look-back on this stream: all 0, or left by another
    /// one.
    pub(crate) fn with_scan_state(
        &self,
        kernel_of: KernelOf,
        len: usize,
        launch: impl FnOnce(Zeroed<u64>) -> Result<()>,
    ) -> Result<()> {
        self.inner.scan_states.with(self, kernel_of, len, launch)
    }

    /// Calls `launch` with room for `len` values of blocks, for one launch on this stream, whatever is in it.
    pub(crate) fn with_partials<A: Element>(
        &self,
        len: usize,
        launch: impl FnOnce(Zeroed<A>) -> Result<()>,
    ) -> Result<()> {
        self.inner.partials.with(self, KernelOf::Library, len, launch)
    }

    /// Lets later work of this stream wait for all that `other` has queued.
    pub(crate) fn wait_for(&self, other: &Stream) -> Result<()> {
        RecordedEvent::record(other, false)?.let_wait(self)
    }
}
