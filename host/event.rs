// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: points of a stream.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, RawEvent, RawStream};
use crate::error::{Error, Result};

/// A point of a stream, made by [`Stream::record`](crate::Stream::record). It is reached when the stream's work up to there is done.
///
/// ```
/// use ndarray::Array1;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::simulator();
/// let stream = device.default_stream();
/// let x = DeviceArray::from_ndarray(stream, &Array1::<f32>::ones(1000))?;
/// let start = stream.record()?;
/// let y = x.exp()?;
/// let end = stream.record()?;
/// let time = end.elapsed_since(&start)?;
/// assert!(time.as_secs() < 60 && y.len() == 1000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Event {
    recorded: RecordedEvent,
}

impl Event {
    pub(crate) fn new(recorded: RecordedEvent) -> Self {
        Self { recorded }
    }

    pub(crate) fn recorded(&self) -> &RecordedEvent {
        &self.recorded
    }

    /// Waits until the event is reached.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`] if a kernel of the device failed.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the backend's event.
        unsafe { self.recorded.backend.synchronize_event(self.recorded.raw) }
    }

    /// Whether the event is reached.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`] if a kernel of the device failed.
    pub fn is_reached(&self) -> Result<bool> {
        // SAFETY: the backend's event.
        unsafe { self.recorded.backend.is_reached(self.recorded.raw) }
    }

    /// The device's time between two events; waits for both. To about half a microsecond on a GPU.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] for events of two devices, [`Error::KernelFailed`] if a kernel of the device failed.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration> {
        let (backend, other) = (&self.recorded.backend, &start.recorded.backend);
        if !Arc::ptr_eq(backend, other) {
            let (given, wanted) = (&other.properties().id, &backend.properties().id);
            return Err(Error::different_devices("elapsed_since", given, wanted));
        }
        start.synchronize()?;
        self.synchronize()?;
        // SAFETY: both are this backend's, recorded, and timed.
        let ms = unsafe { backend.elapsed_ms(start.recorded.raw, self.recorded.raw)? };
        Ok(Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3))
    }
}

/// An event of the backend, recorded on a stream.
#[derive(Debug)]
pub(crate) struct RecordedEvent {
    backend: Arc<dyn Backend>,
    raw: RawEvent,
}

impl RecordedEvent {
    /// # Safety
    ///
    /// The stream is the backend's, and lives.
    pub(crate) unsafe fn record(backend: &Arc<dyn Backend>, stream: RawStream, timed: bool) -> Result<Self> {
        let backend = Arc::clone(backend);
        let raw = backend.create_event(timed)?;
        let event = Self { backend, raw };
        // SAFETY: the backend's own event, and by the caller's promise its stream.
        unsafe { event.backend.record(event.raw, stream)? };
        Ok(event)
    }

    /// The driver's handle; none on the simulated GPU.
    #[cfg(feature = "cust")]
    pub(crate) fn driver_handle(&self) -> Option<u64> {
        let is_simulated = self.backend.properties().is_simulated();
        (!is_simulated).then_some(self.raw.0)
    }

    /// Lets later work of a stream of `backend` wait for the event. Of a GPU and the simulated one, the host waits.
    ///
    /// # Safety
    ///
    /// The stream is the backend's, and lives.
    pub(crate) unsafe fn let_wait(&self, backend: &Arc<dyn Backend>, stream: RawStream) -> Result<()> {
        let one_driver =
            Arc::ptr_eq(&self.backend, backend) || self.backend.peer().is_some() && backend.peer().is_some();
        // SAFETY: an event of this backend or one that its streams can wait for, which no reset destroys meanwhile, and by
        // the caller's promise a stream of it; or the event alone.
        unsafe {
            if one_driver {
                let _stay = self.backend.stay()?;
                backend.wait(stream, self.raw)
            } else {
                self.backend.synchronize_event(self.raw)
            }
        }
    }
}

impl Drop for RecordedEvent {
    fn drop(&mut self) {
        // SAFETY: this was the event's owner; work that waits for it still does.
        unsafe { self.backend.destroy_event(self.raw) };
    }
}
