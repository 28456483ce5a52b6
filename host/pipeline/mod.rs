// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pipelines: an iterator of the host's chunks goes through the device, and what the threads load, the copies in, the
//! kernels and the copies out of different chunks run side by side.
//!
//! Chunk after chunk goes to the next of a few streams, which keeps its copy in, its kernels and its copy out in order;
//! those of the other streams run meanwhile. Nothing waits but who takes a result.

mod chunk;
mod loader;
mod source;

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZero;
use std::thread::{self, Scope};

use ndarray::Dimension;

pub use chunk::Chunk;
pub use loader::Loader;

use crate::array::{DeviceArray, Element};
use crate::device::Device;
use crate::error::Error;
use crate::pinned::{PendingCopy, PinnedArray};
use source::Source;

/// Streams, without another number: one copies in, one computes, one copies out.
const STREAMS: usize = 3;

/// Threads at most, without another number: about as many fill page-locked memory as fast as it is copied from.
const THREADS: usize = 4;

/// The most that is good for a chunk, in bytes: a copy takes long beside what it takes to begin one, and the device
/// keeps the page-locked memory of all chunks under way for the next ones.
const CHUNK: u64 = 32 << 20;

/// What a stream needs memory for at a time, in chunks: what goes in, what comes out, and as much between.
const ARRAYS: u64 = 4;

/// What one of the threads does.
type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// How data that is larger than the device's memory, or that comes in batches, goes through a device: threads load
/// chunks ahead, and copies and kernels of different chunks run side by side on several streams. Results come in the
/// order of the chunks.
///
/// [`load`](Self::load) gives the chunks on the device, [`run`](Self::run) what a function makes of them, back on the
/// host. Both take an iterator of anything that is a [`Chunk`]. Reductions are folds over `load`, of which nothing but
/// the result is waited for.
///
/// # Examples
///
/// Shuffled batches, as a training loop takes them:
///
/// ```
/// use ndarray::{Array2, Axis};
/// use warpsmith::{Device, Pipeline};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let samples = Array2::from_shape_fn((1000, 8), |(i, j)| (8 * i + j) as f32);
/// let order: Vec<usize> = (0..1000).map(|i| i * 331 % 1000).collect();
/// let batches = (0..10).map(move |i| samples.select(Axis(0), &order[100 * i..100 * (i + 1)]));
/// let mut count = 0;
/// for batch in Pipeline::new(&device).load(batches) {
///     count += batch?.mul_scalar(1.0 / 8000.0)?.shape()[0];
/// }
/// assert_eq!(count, 1000);
/// # Ok(())
/// # }
/// ```
///
/// A sum of an array of the host, of which a few chunks at a time are on the device:
///
/// ```
/// use ndarray::{Array1, Axis};
/// use warpsmith::{Device, DeviceArray, Pipeline};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = Array1::from_iter(0..100_000u32);
/// let sum = std::thread::scope(|scope| {
///     let zero = DeviceArray::<u64, _>::zeros(device.default_stream(), ())?;
///     let chunks = x.axis_chunks_iter(Axis(0), 1 << 14);
///     Pipeline::scoped(&device, scope).load(chunks).try_fold(zero, |sum, x| sum.add(&x?.sum_axis(Axis(0))?))
/// })?;
/// assert_eq!(sum.to_ndarray()?.into_scalar(), 4_999_950_000);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is done before `run`"]
pub struct Pipeline<'a> {
    device: Device,
    streams: usize,
    threads: usize,
    spawn: Box<dyn Fn(Job<'a>) + 'a>,
}

impl Pipeline<'static> {
    /// A pipeline through that device, for chunks that borrow nothing.
    pub fn new(device: &Device) -> Self {
        Self::with_threads(device, |job| {
            let started = thread::Builder::new().name("warpsmith-load".into()).spawn(job);
            started.expect("the system starts a thread");
        })
    }
}

impl<'a> Pipeline<'a> {
    /// A pipeline through that device whose threads belong to a scope, so that chunks may borrow what outlives it.
    pub fn scoped(device: &Device, scope: &'a Scope<'a, '_>) -> Self {
        Self::with_threads(device, move |job| {
            let thread = thread::Builder::new().name("warpsmith-load".into());
            thread.spawn_scoped(scope, job).expect("the system starts a thread");
        })
    }

    fn with_threads(device: &Device, spawn: impl Fn(Job<'a>) + 'a) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            device: device.clone(),
            streams: STREAMS,
            threads: cores.min(THREADS),
            spawn: Box::new(spawn),
        }
    }

    /// The number of streams, at least one, and three without this: as many chunks are on the device at a time.
    pub fn streams(self, streams: usize) -> Self {
        let streams = streams.max(1);
        Self { streams, ..self }
    }

    /// The number of chunks that are loaded ahead, at least one, each by a thread of its own. Without this it is the
    /// number of cores, and at most four.
    pub fn prefetch(self, chunks: usize) -> Self {
        let threads = chunks.max(1);
        Self { threads, ..self }
    }

    /// How many rows of so many bytes each make a good chunk, at least one: 32 MiB, or less where the device has not
    /// the memory for four of them for each stream.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`] if the driver fails.
    pub fn chunk_len(&self, row_bytes: usize) -> Result<usize, Error> {
        let memory = self.device.memory()?;
        let free = memory.free + memory.reserved.saturating_sub(memory.allocated);
        let left = memory
            .limit
            .map_or(u64::MAX, |limit| limit.saturating_sub(memory.allocated));
        let bytes = CHUNK.min(free.min(left) / (ARRAYS * self.streams as u64));
        Ok(usize::try_from(bytes / row_bytes.max(1) as u64)
            .unwrap_or(usize::MAX)
            .max(1))
    }

    /// The chunks on the device, in their order, each on the next of the pipeline's streams. The next ones are loaded and
    /// copied while the caller works on one.
    ///
    /// What is queued on a chunk's stream, as its operations are, runs beside the copies of the next ones. Do not keep
    /// many of the arrays: the device has memory for all of them then.
    ///
    /// # Errors
    ///
    /// The items', of which the first is the last item: the chunks' own, [`Error::HostMemory`], [`Error::OutOfMemory`],
    /// [`Error::Cuda`].
    ///
    /// # Panics
    ///
    /// If the system starts no thread. A panic of the iterator or a chunk is that of the [`Loader`]'s `next`.
    pub fn load<I>(&self, chunks: I) -> Loader<I::Item>
    where
        I: IntoIterator<Item: Chunk + 'a, IntoIter: Send + 'a>,
    {
        let source = Source::start(chunks.into_iter(), &self.device, self.threads, &*self.spawn);
        Loader::new(&self.device, source, self.streams)
    }

    /// What `function` makes of the chunks, back in page-locked memory of the host, in the chunks' order.
    ///
    /// `function` is called by the iterator's `next` and queues work on the chunk's stream, as its operations do; what
    /// waits in it (a sum that is a number, say) holds up the other chunks. While a result is waited for, those of the
    /// next chunks are under way, one for each stream.
    ///
    /// Dropped early, the iterator waits for its threads, which end behind the chunk that each is loading. Copies that
    /// are under way own their memory.
    ///
    /// # Errors
    ///
    /// The items': those of [`load`](Self::load) and of `function`. The first one comes behind the results of the chunks
    /// before, and is the last item.
    ///
    /// # Panics
    ///
    /// As [`load`](Self::load). After a panic of `function`, there are no more items but those of the chunks before.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::Array1;
    /// use warpsmith::{Device, Pipeline};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let chunks = (0..20).map(|i| Array1::from_elem(1000, i as f32));
    /// let results = Pipeline::new(&device).streams(4).run(chunks, |x| x.square()?.add_scalar(1.0));
    /// for (i, y) in results.enumerate() {
    ///     assert_eq!(y?.view()[999], (i * i) as f32 + 1.0);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<I, U, D, E, F>(
        &self,
        chunks: I,
        function: F,
    ) -> impl Iterator<Item = Result<PinnedArray<U, D>, E>> + use<'a, I, U, D, E, F>
    where
        I: IntoIterator<Item: Chunk + 'a, IntoIter: Send + 'a>,
        U: Element,
        D: Dimension,
        E: From<Error> + From<<I::Item as Chunk>::Error>,
        F: FnMut(DeviceArray<<I::Item as Chunk>::Elem, <I::Item as Chunk>::Dim>) -> Result<DeviceArray<U, D>, E>,
    {
        Run {
            loader: Some(self.load(chunks)),
            function,
            streams: self.streams,
            under_way: VecDeque::new(),
            failed: None,
        }
    }
}

impl fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("device", &self.device.properties().id)
            .field("streams", &self.streams)
            .field("prefetch", &self.threads)
            .finish()
    }
}

/// Results of a function, in order.
struct Run<C: Chunk, F, U: Element, D: Dimension, E> {
    /// None behind the last chunk, an error or a panic.
    loader: Option<Loader<C>>,
    function: F,
    streams: usize,
    under_way: VecDeque<PendingCopy<U, D>>,
    failed: Option<E>,
}

impl<C, F, U, D, E> Run<C, F, U, D, E>
where
    C: Chunk,
    U: Element,
    D: Dimension,
    E: From<Error> + From<C::Error>,
    F: FnMut(DeviceArray<C::Elem, C::Dim>) -> Result<DeviceArray<U, D>, E>,
{
    /// Queues the work of the chunks that are loaded, one for each stream; waits for a chunk if nothing is under way.
    fn fill(&mut self) {
        while self.under_way.len() < self.streams
            // Not in its place while the user's code runs: a panic drops it.
            && let Some(mut loader) = self.loader.take()
        {
            let wait = self.under_way.is_empty();
            let Some(chunk) = loader.pull(wait) else {
                self.loader = (!wait).then_some(loader);
                return;
            };
            let queued = chunk.map_err(E::from).and_then(|x| (self.function)(x));
            match queued.and_then(|y| Ok(y.download_async()?)) {
                Ok(copy) => self.under_way.push_back(copy),
                Err(error) => return self.failed = Some(error),
            }
            self.loader = Some(loader);
        }
    }
}

impl<C, F, U, D, E> Iterator for Run<C, F, U, D, E>
where
    C: Chunk,
    U: Element,
    D: Dimension,
    E: From<Error> + From<C::Error>,
    F: FnMut(DeviceArray<C::Elem, C::Dim>) -> Result<DeviceArray<U, D>, E>,
{
    type Item = Result<PinnedArray<U, D>, E>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        let Some(copy) = self.under_way.pop_front() else {
            return self.failed.take().map(Err);
        };
        let result = copy.wait().map_err(E::from);
        if result.is_err() {
            (self.loader, self.failed) = (None, None);
            self.under_way.clear();
        }
        Some(result)
    }
}
