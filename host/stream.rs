// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams: queues of work that a device does in order.

use std::fmt;
use std::sync::Arc;

use crate::backend::{Backend, RawStream};
use crate::callback::on_thread;
use crate::constants::{Constant, Constants};
use crate::error::{Error, Result};
use crate::event::{Event, RecordedEvent};
use crate::graph::{Capture, Contents, NOT_DONE};
use crate::owner::Owner;
use crate::turns::Turns;
use crate::workspace::{Lease, Workspace};

/// A queue of work. Copies and kernels on one stream run in order, those on different streams side by side; the host
/// goes on meanwhile, and waits where it reads a result.
///
/// An array that is used on another stream than the one that wrote it is ordered behind that write by itself.
///
/// Clones are the same stream. A stream that is dropped finishes its work.
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::simulator();
/// let (one, other) = (device.create_stream()?, device.create_stream()?);
/// let x = DeviceArray::from_ndarray(&one, &array![1.0, 2.0, 3.0])?;
/// let y = DeviceArray::from_ndarray(&other, &array![10.0, 20.0, 30.0])?;
/// // On the stream of `x`, behind what makes `y` on the other.
/// let sum = x.add(&y)?;
/// assert_eq!(sum.stream(), &one);
/// assert_eq!(sum.to_ndarray()?, array![11.0, 22.0, 33.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    // Dropped in this order: the memory of the workspaces is freed on the stream.
    counters: Workspace,
    scan_states: Workspace,
    partials: Workspace,
    constants: Constants,
    owned: OwnedStream,
    turns: Turns,
    /// The default stream of the device, unless this is it.
    default: Option<Stream>,
}

/// The driver's handles (`CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`) of what is a stream by another name: the default
/// stream of the context, and that of the calling thread.
const LEGACY_STREAM: u64 = 1;
const PER_THREAD_STREAM: u64 = 2;

/// A stream of the backend.
struct OwnedStream {
    backend: Arc<dyn Backend>,
    raw: RawStream,
    /// Who destroys it, if that is not the backend.
    owner: Option<Owner>,
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        // SAFETY: this was the stream's owner, and it lives still.
        unsafe { self.backend.leave(self.raw) };
        let Some(owner) = self.owner.take() else {
            // SAFETY: this was the stream's owner, and the backend made it.
            return unsafe { self.backend.destroy_stream(self.raw) };
        };
        // SAFETY: the owner is dropped after this.
        unsafe { self.backend.release_stream(self.raw) };
        match self.backend.stay().is_ok() {
            true => drop(owner),
            // The stream has gone with its context, and its owner would destroy it once more.
            false => std::mem::forget(owner),
        }
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Stream {}

/// The device and which of its streams it is, as the work and the memory of the device are not its own.
impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stream = f.debug_struct("Stream");
        stream.field("device", &self.device_id());
        match self.inner.default {
            Some(_) => stream.field("handle", &format_args!("{:#x}", self.raw().0)),
            None => stream.field("handle", &format_args!("default")),
        };
        stream.finish()
    }
}

impl Stream {
    /// The default stream of the device that is `backend`.
    pub(crate) fn default_of(backend: Arc<dyn Backend>) -> Result<Self> {
        let raw = backend.create_stream(0)?;
        let owned = OwnedStream {
            backend,
            raw,
            owner: None,
        };
        Ok(Self::of(owned, None))
    }

    /// A new stream of the device with that default stream; [`Backend::create_stream`] says what its priority means.
    pub(crate) fn new(default: &Stream, priority: i32) -> Result<Self> {
        let backend = Arc::clone(default.backend());
        let raw = backend.create_stream(priority)?;
        let owned = OwnedStream {
            backend,
            raw,
            owner: None,
        };
        Ok(Self::of(owned, Some(default)))
    }

    /// A stream that somebody else made, by the driver's handle, as one of the device with that default stream.
    ///
    /// # Safety
    ///
    /// The stream lives as long as `owner`.
    pub(crate) unsafe fn adopt(operation: &'static str, default: &Stream, handle: u64, owner: Owner) -> Result<Self> {
        let backend = Arc::clone(default.backend());
        let handle = match handle {
            // The default stream, by the handle that means it also where 0 would mean no stream.
            0 => LEGACY_STREAM,
            PER_THREAD_STREAM => {
                return Err(Error::Parameter {
                    operation,
                    parameter: "the stream",
                    given: "the default stream of each thread, another one on each".into(),
                    wanted: "one stream, whatever thread uses it".into(),
                });
            }
            handle => handle,
        };
        // SAFETY: a stream that lives, as its owner does.
        let Some(raw) = (unsafe { backend.adopt_stream(handle)? }) else {
            let wanted = &backend.properties().id;
            return Err(Error::different_devices(operation, "another context", wanted));
        };
        let owner = Some(owner);
        Ok(Self::of(OwnedStream { backend, raw, owner }, Some(default)))
    }

    fn of(owned: OwnedStream, default: Option<&Stream>) -> Self {
        let workspace = || Workspace::new(&owned.backend, owned.raw);
        let inner = Inner {
            counters: workspace(),
            scan_states: workspace(),
            partials: workspace(),
            constants: Constants::new(&owned.backend, owned.raw),
            owned,
            turns: Turns::default(),
            default: default.map(|default| default.default_stream().clone()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The default stream of the device.
    pub(crate) fn default_stream(&self) -> &Stream {
        self.inner.default.as_ref().unwrap_or(self)
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.owned.backend
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.inner.owned.raw
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.inner.turns
    }

    /// The name of the stream's device: `cuda:0`, `sim`.
    pub fn device_id(&self) -> &str {
        &self.backend().properties().id
    }

    /// Whether both streams are of one device.
    pub(crate) fn same_device(&self, other: &Stream) -> bool {
        Arc::ptr_eq(self.backend(), other.backend())
    }

    /// An error of `operation`, which runs on this stream, if an operand at home on `other` is on another device.
    pub(crate) fn check_device(&self, operation: &'static str, other: &Stream) -> Result<()> {
        if self.same_device(other) {
            return Ok(());
        }
        Err(Error::different_devices(operation, other.device_id(), self.device_id()))
    }

    /// Waits until all work of the stream is done. Reading an array does so by itself.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`](crate::Error::KernelFailed) if a kernel of the device failed, on this stream or another.
    #[doc(alias = "cudaStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.check_not_captured("synchronize", NOT_DONE)?;
        self.finish()
    }

    /// As [`synchronize`](Self::synchronize), of what is queued, also while this thread captures the stream.
    pub(crate) fn finish(&self) -> Result<()> {
        // SAFETY: the backend's stream.
        unsafe { self.backend().synchronize(self.raw()) }
    }

    /// Whether all work of the stream is done.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`](crate::Error::KernelFailed) if a kernel of the device failed, on this stream or another.
    pub fn is_idle(&self) -> Result<bool> {
        self.check_not_captured("is_idle", NOT_DONE)?;
        // SAFETY: the backend's stream.
        unsafe { self.backend().is_idle(self.raw()) }
    }

    /// Has `callback` called when the work is done that the stream has now. The stream does not wait for it.
    ///
    /// It runs on a thread of the library, which runs the callbacks of all streams one after the other: it may use the
    /// library, and one that takes long delays the others. Its panic is printed, and ends nothing else. It is not called
    /// if the work fails, and not if the process ends first.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`](crate::Error::Cuda) if the driver fails; `callback` is dropped then.
    ///
    /// # Panics
    ///
    /// If the system starts no thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    ///
    /// use ndarray::Array1;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let y = DeviceArray::from_ndarray(stream, &Array1::<f32>::ones(1000))?.exp()?;
    /// let (done, wait) = channel();
    /// stream.on_reached(move || done.send(y.sum()).expect("somebody waits"))?;
    /// assert!(wait.recv().expect("it is called")? > 2718.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_reached(&self, callback: impl FnOnce() + Send + 'static) -> Result<()> {
        self.check_not_captured("on_reached", NOT_DONE)?;
        // SAFETY: the backend's stream; what it calls sends the callback to a thread, and no more.
        unsafe { self.backend().call_back(self.raw(), on_thread(callback)) }
    }

    /// Marks this point of the stream, for timing and for waiting.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`](crate::Error::Cuda) if the driver fails.
    #[doc(alias = "cudaEventRecord")]
    pub fn record(&self) -> Result<Event> {
        self.check_not_captured("record", NOT_DONE)?;
        Ok(Event::new(self.record_event(true)?))
    }

    /// Lets the work that is queued on this stream from here on wait for `event`. Uses of one array on two streams are
    /// ordered without.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`](crate::Error::Cuda) if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let (first, second) = (device.create_stream()?, device.create_stream()?);
    /// let x = DeviceArray::from_ndarray(&first, &array![1.0, 2.0])?.exp()?;
    /// // Nothing that is queued on `second` from here on begins before `x` is there.
    /// second.wait(&first.record()?)?;
    /// let start = second.record()?;
    /// let y = DeviceArray::from_ndarray(&second, &array![3.0, 4.0])?.ln()?;
    /// second.record()?.elapsed_since(&start)?;
    /// assert_eq!((x.len(), y.len()), (2, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.check_not_captured("wait", "let the stream wait before the graph is launched")?;
        self.wait_for_event(event.recorded())
    }

    /// `len` counters that are 0, for one launch on this stream; to be given back if its kernel leaves them at 0.
    pub(crate) fn take_counters(&self, len: usize) -> Result<Lease<'_, u32>> {
        self.take_zeros(len)
    }

    /// The same of words that are zeros.
    pub(crate) fn take_zeros<W>(&self, len: usize) -> Result<Lease<'_, W>> {
        match Capture::of(self) {
            Some(capture) => capture.lease(len, Contents::Counters),
            None => self.inner.counters.take(len),
        }
    }

    /// `len` words of state for one scan with look-back on this stream: all 0, or left by another one.
    pub(crate) fn take_scan_states(&self, len: usize) -> Result<Lease<'_, u64>> {
        match Capture::of(self) {
            Some(capture) => capture.lease(len, Contents::ScanStates),
            None => self.inner.scan_states.take(len),
        }
    }

    /// Room for `len` values of blocks, for one launch on this stream, whatever is in it.
    pub(crate) fn take_partials<A>(&self, len: usize) -> Result<Lease<'_, A>> {
        match Capture::of(self) {
            Some(capture) => capture.lease(len, Contents::Unspecified),
            None => self.inner.partials.take(len),
        }
    }

    /// The values on the device, at least one, for launches on this stream that read them.
    pub(crate) fn constant<W: bytemuck::Pod>(&self, values: &[W]) -> Result<Constant<'_, W>> {
        // Queued now, ahead of every launch of a graph that this thread captures, which keeps it.
        let constant = self.inner.constants.get(values)?;
        if let Some(capture) = Capture::of(self) {
            capture.keep(constant.keeper());
        }
        Ok(constant)
    }

    /// Lets later work of this stream wait for all that `other` has queued.
    pub(crate) fn wait_for(&self, other: &Stream) -> Result<()> {
        self.wait_for_event(&other.record_event(false)?)
    }

    fn record_event(&self, timed: bool) -> Result<RecordedEvent> {
        // SAFETY: the backend's own stream, which lives as long as this.
        unsafe { RecordedEvent::record(self.backend(), self.raw(), timed) }
    }

    fn wait_for_event(&self, event: &RecordedEvent) -> Result<()> {
        // SAFETY: as in `record_event`.
        unsafe { event.let_wait(self.backend(), self.raw()) }
    }
}
