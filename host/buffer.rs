// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device memory with the streams that use it.

use std::sync::{Mutex, MutexGuard};

use crate::error::Result;
use crate::stream::Stream;

/// An allocation. Knows which stream wrote it last and which have read it since, so that a use on another stream is
/// ordered behind them; while only one stream is in use, that costs no event.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// 0 where `bytes` is 0.
    address: u64,
    bytes: usize,
    usage: Mutex<Usage>,
    /// Who frees the memory, if that is not the backend.
    #[cfg(feature = "cust")]
    owner: Option<Box<dyn Owner>>,
}

/// Somebody else's memory, freed when this is dropped.
#[cfg(feature = "cust")]
pub(crate) trait Owner: Send + Sync {}

#[cfg(feature = "cust")]
impl<T: ::cust::memory::DeviceCopy + Send + Sync> Owner for ::cust::memory::DeviceBuffer<T> {}

#[cfg(feature = "cust")]
impl std::fmt::Debug for dyn Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceBuffer")
    }
}

#[derive(Debug)]
struct Usage {
    /// The stream of the last write; at first, that of the allocation.
    writer: Stream,
    /// Other streams that have read since.
    readers: Vec<Stream>,
}

impl Usage {
    fn of(stream: &Stream) -> Self {
        Self {
            writer: stream.clone(),
            readers: Vec::new(),
        }
    }
}

impl Buffer {
    /// Memory with unspecified contents.
    pub(crate) fn allocate(stream: &Stream, bytes: usize) -> Result<Self> {
        let address = match bytes {
            0 => 0,
            // SAFETY: the backend's own stream, and at least one byte.
            _ => unsafe { stream.backend().acquire(stream.raw(), bytes)? },
        };
        Ok(Self {
            address,
            bytes,
            usage: Mutex::new(Usage::of(stream)),
            #[cfg(feature = "cust")]
            owner: None,
        })
    }

    /// Memory that somebody else owns.
    ///
    /// # Safety
    ///
    /// `bytes` bytes at `address`, in the memory of the stream's device and aligned as an allocation is, belong to
    /// `owner`, and nobody else uses them but in the stream's order.
    #[cfg(feature = "cust")]
    pub(crate) unsafe fn adopt(stream: &Stream, address: u64, bytes: usize, owner: Box<dyn Owner>) -> Self {
        Self {
            address,
            bytes,
            usage: Mutex::new(Usage::of(stream)),
            owner: Some(owner),
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// While the guard lives, streams record events and wait for them: cheap calls of the backend, in which no kernel is
    /// launched or compiled and nobody's code runs. Two buffers are never locked at a time.
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// To be called before `stream` reads: orders it behind the last write, and remembers the read.
    pub(crate) fn reads_on(&self, stream: &Stream) -> Result<()> {
        let mut usage = self.usage();
        if usage.writer != *stream && !usage.readers.contains(stream) {
            stream.wait_for(&usage.writer)?;
            usage.readers.push(stream.clone());
        }
        Ok(())
    }

    /// To be called before `stream` writes: orders it behind the last write and all reads since.
    pub(crate) fn writes_on(&self, stream: &Stream) -> Result<()> {
        let mut usage = self.usage();
        if usage.writer != *stream {
            stream.wait_for(&usage.writer)?;
        }
        for reader in usage.readers.iter().filter(|reader| *reader != stream) {
            stream.wait_for(reader)?;
        }
        let writer = std::mem::replace(&mut usage.writer, stream.clone());
        let readers = std::mem::take(&mut usage.readers);
        // Unlocked before the last owner of a stream may end it.
        drop(usage);
        drop((writer, readers));
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let usage = self.usage.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let stream = &usage.writer;
        let waited = usage.readers.iter().try_for_each(|reader| stream.wait_for(reader));
        #[cfg(feature = "cust")]
        if let Some(owner) = self.owner.take() {
            // Freed by a call that knows no stream.
            match waited.and_then(|()| stream.synchronize()) {
                Ok(()) => drop(owner),
                Err(_) => std::mem::forget(owner),
            }
            return;
        }
        // SAFETY: allocated by this backend for as many bytes; if the wait was queued, the stream is behind all uses.
        unsafe {
            match waited {
                Ok(()) => stream.backend().release(stream.raw(), self.address, self.bytes),
                Err(_) => stream.backend().strand(self.address, self.bytes),
            }
        }
    }
}
