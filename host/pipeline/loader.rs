// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chunks on the device, copied there ahead of their use.

use std::collections::VecDeque;
use std::fmt;

use super::Chunk;
use super::source::Source;
use crate::array::DeviceArray;
use crate::device::Device;
use crate::error::Error;
use crate::pinned::{PendingCopy, PinnedArray};
use crate::stream::Stream;

/// A chunk as an array of the device, or what went wrong.
type OnDevice<C> = Result<DeviceArray<<C as Chunk>::Elem, <C as Chunk>::Dim>, <C as Chunk>::Error>;

/// Chunks as arrays of the device, in order; made by [`Pipeline::load`](super::Pipeline::load).
///
/// The first error is the last item. Dropped, it waits for its threads, which end behind the chunk that each is loading;
/// copies that are under way own their memory.
///
/// # Panics
///
/// `next`, with the panic of the user's iterator or chunk.
pub struct Loader<C: Chunk> {
    device: Device,
    source: Source<C>,
    /// Made when the first chunk is wanted.
    lanes: Vec<Lane<C>>,
    count: usize,
    /// The number of chunks that were copied.
    copied: usize,
    ready: VecDeque<DeviceArray<C::Elem, C::Dim>>,
    failed: Option<C::Error>,
}

/// A stream, and the last copy to the device on it.
struct Lane<C: Chunk> {
    stream: Stream,
    copy: Option<PendingCopy<C::Elem, C::Dim>>,
}

impl<C: Chunk> Loader<C> {
    pub(super) fn new(device: &Device, source: Source<C>, count: usize) -> Self {
        Self {
            device: device.clone(),
            source,
            lanes: Vec::new(),
            count,
            copied: 0,
            ready: VecDeque::new(),
            failed: None,
        }
    }

    /// The next chunk; none if there is none, or if it is not loaded yet and `wait` is false.
    pub(super) fn pull(&mut self, wait: bool) -> Option<OnDevice<C>> {
        while self.ready.len() < self.count && self.failed.is_none() {
            let wait = wait && self.ready.is_empty();
            let Some(loaded) = self.source.take(wait) else { break };
            match loaded.and_then(|array| self.copy(array).map_err(C::Error::from)) {
                Ok(x) => self.ready.push_back(x),
                Err(error) => {
                    self.failed = Some(error);
                    self.source.stop();
                }
            }
        }
        let ready = self.ready.pop_front().map(Ok);
        ready.or_else(|| self.failed.take().map(Err))
    }

    /// Queues the copy to the device, on the streams in turn.
    fn copy(&mut self, array: PinnedArray<C::Elem, C::Dim>) -> Result<DeviceArray<C::Elem, C::Dim>, Error> {
        while self.lanes.len() < self.count {
            let stream = self.device.create_stream()?;
            self.lanes.push(Lane { stream, copy: None });
        }
        let lane = &mut self.lanes[self.copied % self.count];
        // So that no more than one array for each stream is locked for copies, however far the host is ahead.
        if let Some(copy) = lane.copy.take() {
            copy.wait()?;
        }
        let (x, copy) = DeviceArray::upload_async(&lane.stream, array)?;
        lane.copy = Some(copy);
        self.copied += 1;
        Ok(x)
    }
}

impl<C: Chunk> Iterator for Loader<C> {
    type Item = Result<DeviceArray<C::Elem, C::Dim>, C::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pull(true)
    }
}

impl<C: Chunk> fmt::Debug for Loader<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("device", &self.device.properties().id)
            .field("streams", &self.count)
            .field("copied", &self.copied)
            .finish_non_exhaustive()
    }
}
