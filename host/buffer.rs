// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device memory with the streams that use it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::expr::Reading;
use crate::graph::{Block, Capture, GraphMemory};
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
    home: Home,
}

/// Whose the memory is.
#[derive(Debug)]
enum Home {
    /// The backend gave it, and takes it back.
    Device,
    /// Somebody else's, who frees it.
    Owner(Owner),
    /// A graph's, in which an array is made again by every launch.
    Graph(Block),
    /// Nobody's: kernels compute what they would read there.
    Expression(Box<Reading>),
}

impl Buffer {
    /// Memory with unspecified contents.
    pub(crate) fn allocate(stream: &Stream, bytes: usize) -> Result<Self> {
        let (address, home) = match (bytes, Capture::of(stream)) {
            (0, _) => (0, Home::Device),
            (_, Some(capture)) => {
                let block = capture.allocate(bytes)?;
                (block.address(), Home::Graph(block))
            }
            // SAFETY: the backend's own stream, and at least one byte.
            (_, None) => unsafe { (stream.backend().acquire(stream.raw(), bytes)?, Home::Device) },
        };
        Ok(Self {
            address,
            bytes,
            usage: Mutex::new(Usage::of(stream)),
            home,
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
            home: Home::Owner(owner),
        }
    }

    /// No memory: kernels that read `bytes` bytes there compute them.
    pub(crate) fn of_expression(stream: &Stream, bytes: usize, reading: Reading) -> Self {
        Self {
            address: Reading::FIRST,
            bytes,
            usage: Mutex::new(Usage::of(stream)),
            home: Home::Expression(Box::new(reading)),
        }
    }

    /// What kernels compute that read it, if it is no memory.
    pub(crate) fn reading(&self) -> Option<&Reading> {
        match &self.home {
            Home::Expression(reading) => Some(reading),
            _ => None,
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it lies in the memory of that graph.
    pub(crate) fn is_of_graph(&self, memory: &Arc<GraphMemory>) -> bool {
        matches!(&self.home, Home::Graph(block) if block.is_of(memory))
    }

    /// While this thread captures the stream, notes the use for the graph, whose launches order it; nothing else is to be
    /// done then.
    fn is_noted(self: &Arc<Self>, stream: &Stream, bytes: &Range<usize>, writes: bool) -> Result<bool> {
        if self.reading().is_some() {
            return Err(Error::Parameter {
                operation: "use of an array",
                parameter: "array",
                given: "an expression that kernels compute where they read it".into(),
                wanted: "an array in memory".into(),
            });
        }
        if let Some(capture) = Capture::of(stream) {
            return capture.note(self, bytes.clone(), writes).map(|()| true);
        }
        match &self.home {
            Home::Graph(block) if block.is_recording() => Err(Error::Capture {
                operation: "use of an array on another stream or thread",
                reason: "it is made by work that is being captured, and has no elements yet",
            }),
            _ => Ok(false),
        }
    }

    /// While the guard lives, streams record events and wait for them: cheap calls of the backend, in which no kernel is
    /// launched or compiled and nobody's code runs. Two buffers are never locked at a time.
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// To be called before `stream` reads: orders it behind the last writes, and remembers the read.
    pub(crate) fn reads_on(self: &Arc<Self>, stream: &Stream) -> Result<()> {
        self.reads_part_on(stream, 0..self.bytes)
    }

    /// [`reads_on`](Self::reads_on), of those bytes alone. To be called again when the read is queued, if other threads may
    /// write other parts meanwhile: what they wait for is what this stream has queued by then.
    pub(crate) fn reads_part_on(self: &Arc<Self>, stream: &Stream, bytes: Range<usize>) -> Result<()> {
        if self.is_noted(stream, &bytes, false)? {
            return Ok(());
        }
        let released = self.usage().read(stream, self.whole_or(bytes))?;
        drop(released);
        Ok(())
    }

    /// To be called before `stream` writes: orders it behind the last writes and all reads since.
    pub(crate) fn writes_on(self: &Arc<Self>, stream: &Stream) -> Result<()> {
        self.writes_part_on(stream, 0..self.bytes)
    }

    /// [`writes_on`](Self::writes_on), of those bytes alone. As for [`reads_part_on`](Self::reads_part_on), also when the
    /// write is queued.
    pub(crate) fn writes_part_on(self: &Arc<Self>, stream: &Stream, bytes: Range<usize>) -> Result<()> {
        if self.is_noted(stream, &bytes, true)? {
            return Ok(());
        }
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
        let home = std::mem::replace(&mut self.home, Home::Device);
        let usage = self.usage.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // An error here is one of earlier work (a kernel that failed), which every later call reports as well, and the
        // memory is lost with the context; or one of that call alone, and the memory is given back behind all work.
        let last = usage.last_writer();
        let wait = |stream: &Stream| {
            let mut others = usage.users_but(stream).into_iter();
            others.try_for_each(|other| stream.wait_for(&other))
        };
        match home {
            Home::Expression(_) => {}
            Home::Device => match wait(last) {
                // SAFETY: allocated by this backend for as many bytes; the stream is behind all uses.
                Ok(()) => unsafe { last.backend().release(last.raw(), self.address, self.bytes) },
                // SAFETY: as above, but for the wait.
                Err(_) => unsafe { last.backend().strand(self.address, self.bytes) },
            },
            // Given back on the stream that the graph is launched on.
            Home::Graph(block) => {
                if wait(block.stream()).is_err() {
                    block.strand();
                }
            }
            // Freed by a call that knows no stream.
            Home::Owner(owner) => match wait(last).and_then(|()| last.finish()) {
                Ok(()) => drop(owner),
                Err(_) => last.backend().strand_owner(owner),
            },
        }
    }
}
