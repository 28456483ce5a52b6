// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that load a pipeline's chunks ahead of their use, and the order of what they load.
//!
//! Who pulls a chunk from the user's iterator sends a channel for it to the pipeline while it holds the iterator, and
//! the loaded chunk by that channel afterwards. So the channels come in the chunks' order, whoever is faster; and as no
//! more of them are sent than are taken, but for a fixed number, no more is loaded ahead.

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Chunk, Job};
use crate::device::Device;
use crate::pinned::PinnedArray;

/// A chunk in page-locked memory, or what went wrong.
type Loaded<C> = Result<PinnedArray<<C as Chunk>::Elem, <C as Chunk>::Dim>, <C as Chunk>::Error>;

/// A panic of the user's, which goes on where the chunk is taken.
type Panic = Box<dyn Any + Send>;

/// Where a chunk arrives that some thread loads.
type Slot<C> = Receiver<Result<Loaded<C>, Panic>>;

/// Chunks that threads load. When it is dropped, they are told to end, and have ended.
pub(super) struct Source<C: Chunk> {
    /// None when nothing more is wanted.
    slots: Option<Receiver<Slot<C>>>,
    /// One that was taken before its chunk was there.
    first: Option<Slot<C>>,
    /// Nothing is sent: it is closed when the threads have ended.
    ended: Receiver<Infallible>,
}

impl<C: Chunk> Source<C> {
    /// Has so many threads started, which load as many chunks ahead.
    pub(super) fn start<'a, I>(chunks: I, device: &Device, threads: usize, spawn: &dyn Fn(Job<'a>)) -> Self
    where
        I: Iterator<Item = C> + Send + 'a,
        C: 'a,
    {
        let (send, slots) = sync_channel(threads);
        let (running, ended) = channel();
        let chunks = Arc::new(Mutex::new(Some(chunks)));
        for _ in 0..threads {
            let (chunks, send, device) = (Arc::clone(&chunks), send.clone(), device.clone());
            let running = running.clone();
            spawn(Box::new(move || {
                load_all(chunks, send, device);
                drop(running);
            }));
        }
        Self {
            slots: Some(slots),
            first: None,
            ended,
        }
    }

    /// The next chunk; none if there is none, or if it is not loaded yet and `wait` is false. A panic of the user's
    /// iterator or chunk is the caller's.
    pub(super) fn take(&mut self, wait: bool) -> Option<Loaded<C>> {
        let slot = match self.first.take() {
            Some(slot) => slot,
            None if wait => self.slots.as_ref()?.recv().ok()?,
            None => self.slots.as_ref()?.try_recv().ok()?,
        };
        let loaded = match wait {
            true => slot.recv().map_err(|_| TryRecvError::Disconnected),
            false => slot.try_recv(),
        };
        match loaded {
            Ok(Ok(loaded)) => Some(loaded),
            Ok(Err(panic)) => {
                self.stop();
                resume_unwind(panic)
            }
            Err(TryRecvError::Empty) => {
                self.first = Some(slot);
                None
            }
            Err(TryRecvError::Disconnected) => unreachable!("a thread sends what it loads, or its panic"),
        }
    }

    /// Ends the threads, and waits until they have.
    pub(super) fn stop(&mut self) {
        self.first = None;
        if self.slots.take().is_some() {
            let Err(_) = self.ended.recv();
        }
    }
}

impl<C: Chunk> Drop for Source<C> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Loads chunks until there are no more, or nobody wants them: what each of the threads does. The iterator is dropped by
/// the first that finds out.
fn load_all<C: Chunk, I: Iterator<Item = C>>(
    chunks: Arc<Mutex<Option<I>>>,
    slots: SyncSender<Slot<C>>,
    device: Device,
) {
    loop {
        let mut source = chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(iterator) = source.as_mut() else { return };
        let pulled = catch_unwind(AssertUnwindSafe(|| iterator.next()));
        let (send, slot) = sync_channel(1);
        let is_wanted = !matches!(pulled, Ok(None)) && slots.send(slot).is_ok();
        if !is_wanted || pulled.is_err() {
            let iterator = source.take();
            // Its drop is the user's code as well; the panic is printed, and there is nobody to have it.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(iterator)));
        }
        drop(source);
        if !is_wanted {
            return;
        }
        let loaded = match pulled {
            Ok(Some(chunk)) => catch_unwind(AssertUnwindSafe(|| chunk.load(&device))),
            Ok(None) => return,
            Err(panic) => Err(panic),
        };
        // Nobody has it if the pipeline was dropped meanwhile.
        let _ = send.send(loaded);
    }
}
