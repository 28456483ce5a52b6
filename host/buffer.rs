// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device memory with the streams that use it.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use crate::error::Result;
use crate::owner::Owner;
use crate::stream::Stream;
use crate::usage::Usage;

/// An allocation. Knows which stream wrote which bytes last and which have read them since, so that a use on another
/// stream is ordered behind them; while only one stream is in use, that costs no event.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// 0 where `bytes` is 0.
    address: u64,
    bytes: usize,
    usage: Mutex<Usage>,
    /// Who frees the memory, if that is not the backend.
    owner: Option<Owner>,
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
            owner: None,
        })
    }

    /// Memory that somebody else owns.
    ///
    /// # Safety
    ///
    /// `bytes` bytes at `address`, in the memory of the stream's device and aligned as an allocation is, belong to
    /// `owner`, and nobody else uses them but in the stream's order.
    pub(crate) unsafe fn adopt(stream: &Stream, address: u64, bytes: usize, owner: Owner) -> Self {
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

    /// To be called before `stream` reads: orders it behind the last writes, and remembers the read.
    pub(crate) fn reads_on(&self, stream: &Stream) -> Result<()> {
        self.reads_part_on(stream, 0..self.bytes)
    }

    /// [`reads_on`](Self::reads_on), of those bytes alone. To be called again when the read is queued, if other threads may
    /// write other parts meanwhile: what they wait for is what this stream has queued by then.
    pub(crate) fn reads_part_on(&self, stream: &Stream, bytes: Range<usize>) -> Result<()> {
        let released = self.usage().read(stream, self.whole_or(bytes))?;
        drop(released);
        Ok(())
    }

    /// To be called before `stream` writes: orders it behind the last writes and all reads since.
    pub(crate) fn writes_on(&self, stream: &Stream) -> Result<()> {
        self.writes_part_on(stream, 0..self.bytes)
    }

    /// [`writes_on`](Self::writes_on), of those bytes alone. As for [`reads_part_on`](Self::reads_part_on), also when the
    /// write is queued.
    pub(crate) fn writes_part_on(&self, stream: &Stream, bytes: Range<usize>) -> Result<()> {
        // Dropped when the guard is gone: the last owner of a stream ends it.
        let released = self.usage().write(stream, self.whole_or(bytes))?;
        drop(released);
        Ok(())
    }

    /// The bytes, as the parts of a [`Usage`] want them: the last part has no end.
    fn whole_or(&self, bytes: Range<usize>) -> Range<usize> {
        if bytes.end == self.bytes && !bytes.is_empty() {
            bytes.start..usize::MAX
        } else {
            bytes
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let usage = self.usage.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // An error here is one of earlier work (a kernel that failed), which every later call reports as well; the
        // memory is then lost with the context.
        let (stream, others) = usage.end();
        let waited = others.iter().try_for_each(|other| stream.wait_for(other));
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
