// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page-locked memory, and what a device keeps of it: to lock pages takes the system about a millisecond for 4 MiB.
//!
//! A block that a copy may still use is kept with an event, and used again when that is reached.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Backend, RawEvent};
use crate::error::{Error, Result};

/// The most that is kept unused, in bytes.
const MOST: usize = 512 << 20;

/// Of a page, the least that is locked.
const PAGE: usize = 4 << 10;

/// The blocks that a device keeps.
#[derive(Debug, Default)]
pub(crate) struct PinnedCache {
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    /// Those that nobody uses; those that have waited longest first.
    unused: VecDeque<Block>,
    /// Those that a copy may use until an event is reached, which is owned as well.
    busy: VecDeque<(RawEvent, Block)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Block {
    address: u64,
    bytes: usize,
}

/// The size of the block for that many bytes: at most an eighth larger, or a page.
fn block_size(bytes: usize) -> Option<usize> {
    let step = (bytes.checked_next_power_of_two()? / 8).max(PAGE);
    bytes.checked_next_multiple_of(step)
}

impl PinnedCache {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, backend: &dyn Backend, bytes: usize) -> Result<Block> {
        let refused = Error::HostMemory { wanted: bytes };
        let Some(size) = block_size(bytes) else {
            return Err(refused);
        };
        let unused = {
            let mut blocks = self.blocks();
            blocks.collect(backend);
            blocks.take(size)
        };
        if let Some(block) = unused {
            return Ok(block);
        }
        let mut address = backend.pin(size)?;
        if address.is_none() {
            self.trim(backend);
            address = backend.pin(size)?;
        }
        let address = address.ok_or(refused)?;
        Ok(Block { address, bytes: size })
    }

    fn put(&self, backend: &dyn Backend, block: Block) {
        let displaced = {
            let mut blocks = self.blocks();
            blocks.unused.push_back(block);
            blocks.displaced()
        };
        for block in displaced {
            // SAFETY: `pin` gave it, and nobody uses it.
            unsafe { backend.unpin(block.address, block.bytes) };
        }
    }

    /// Gives back to the system what nobody uses.
    pub(crate) fn trim(&self, backend: &dyn Backend) {
        let unused = {
            let mut blocks = self.blocks();
            blocks.collect(backend);
            std::mem::take(&mut blocks.unused)
        };
        for block in unused {
            // SAFETY: `pin` gave it, and nobody uses it.
            unsafe { backend.unpin(block.address, block.bytes) };
        }
    }

    /// To be called when the backend is dropped: waits for the copies, and frees all. A block whose event cannot be
    /// waited for is stranded: the driver may still use it.
    pub(crate) fn close(&self, backend: &dyn Backend) {
        let busy: Vec<_> = self.blocks().busy.iter().map(|(event, _)| *event).collect();
        for event in busy {
            // SAFETY: the event lives while its block is in the list. An error shows in what `collect` finds.
            let _ = unsafe { backend.synchronize_event(event) };
        }
        self.trim(backend);
        for (event, block) in self.blocks().busy.drain(..) {
            // SAFETY: the list's own event, and memory that `pin` gave and nobody else uses.
            unsafe {
                backend.destroy_event(event);
                backend.strand_pinned(block.address, block.bytes);
            }
        }
    }
}

impl Blocks {
    /// Finds out which copies are done.
    fn collect(&mut self, backend: &dyn Backend) {
        let unused = &mut self.unused;
        self.busy.retain(|&(event, block)| {
            // SAFETY: the event lives while its block is in the list. After an error the block stays there.
            let reached = unsafe { backend.is_reached(event) }.unwrap_or(false);
            if reached {
                // SAFETY: it was this list's.
                unsafe { backend.destroy_event(event) };
                unused.push_back(block);
            }
            !reached
        });
    }

    /// What is to be unlocked so that no more than [`MOST`] is kept: what nobody has asked for longest, so that the sizes
    /// that are in use stay.
    fn displaced(&mut self) -> Vec<Block> {
        let mut kept: usize = self.unused.iter().map(|block| block.bytes).sum();
        let mut count = 0;
        while kept > MOST {
            kept -= self.unused[count].bytes;
            count += 1;
        }
        self.unused.drain(..count).collect()
    }

    /// The unused block that fits best, of up to twice that size.
    fn take(&mut self, size: usize) -> Option<Block> {
        let fitting = self.unused.iter().enumerate();
        let fitting = fitting.filter(|(_, block)| (size..=size.saturating_mul(2)).contains(&block.bytes));
        let (index, _) = fitting.min_by_key(|(_, block)| block.bytes)?;
        self.unused.remove(index)
    }
}

/// Page-locked memory with an owner; the device keeps it for others when it is dropped.
#[derive(Debug)]
pub(super) struct PinnedMemory {
    backend: Arc<dyn Backend>,
    /// None if there are no bytes.
    block: Option<Block>,
}

impl PinnedMemory {
    /// At least as many bytes, whatever is in them.
    pub(super) fn new(backend: &Arc<dyn Backend>, bytes: usize) -> Result<Self> {
        let block = match bytes {
            0 => None,
            _ => Some(backend.memory().pinned.take(&**backend, bytes)?),
        };
        Ok(Self {
            backend: Arc::clone(backend),
            block,
        })
    }

    pub(super) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// 0 if there are no bytes.
    pub(super) fn address(&self) -> u64 {
        self.block.map_or(0, |block| block.address)
    }

    /// Gives the memory to the device with an event of its backend, for others to use when that is reached.
    ///
    /// # Safety
    ///
    /// The event is nobody else's, and recorded behind all that uses the memory.
    pub(super) unsafe fn retire(mut self, event: RawEvent) {
        match self.block.take() {
            Some(block) => self.backend.memory().pinned.blocks().busy.push_back((event, block)),
            // SAFETY: by this function's contract it is this function's.
            None => unsafe { self.backend.destroy_event(event) },
        }
    }

    /// Gives it back though a copy may use it, and nothing tells until when: nobody gets it again.
    pub(super) fn abandon(mut self) {
        if let Some(block) = self.block.take() {
            // SAFETY: `pin` gave it, and nobody else uses it.
            unsafe { self.backend.strand_pinned(block.address, block.bytes) };
        }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.backend.memory().pinned.put(&*self.backend, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sim::Simulator;

    #[test]
    fn blocks_are_hardly_larger_than_what_is_asked_for() {
        assert_eq!(block_size(1), Some(PAGE));
        assert_eq!(block_size(64 << 10), Some(64 << 10));
        assert_eq!(block_size((1 << 20) + 1), Some((1 << 20) + (256 << 10)));
        assert_eq!(block_size(usize::MAX), None);
        for bytes in (1..1 << 20).step_by(997) {
            let size = block_size(bytes).unwrap();
            assert!(size >= bytes && size < bytes + bytes / 4 + PAGE, "{bytes}: {size}");
        }
    }

    #[test]
    fn a_block_is_used_again() {
        let backend: Arc<dyn Backend> = Arc::new(Simulator::new());
        let first = PinnedMemory::new(&backend, 10_000).unwrap();
        let address = first.address();
        let other = PinnedMemory::new(&backend, 10_000).unwrap();
        assert_ne!(other.address(), address);
        drop(first);
        assert_eq!(PinnedMemory::new(&backend, 9_000).unwrap().address(), address);
        assert_ne!(
            PinnedMemory::new(&backend, 4_000).unwrap().address(),
            address,
            "of more than twice the size"
        );
        other.abandon();
        backend.memory().pinned.trim(&*backend);
        assert!(backend.memory().pinned.blocks().unused.is_empty());
        let stream = backend.create_stream(0).unwrap();
        let retired = PinnedMemory::new(&backend, 10_000).unwrap();
        let address = retired.address();
        let event = backend.create_event(false).unwrap();
        // SAFETY: events and streams of this backend; the event is given away.
        unsafe {
            backend.record(event, stream).unwrap();
            retired.retire(event);
        }
        assert_eq!(PinnedMemory::new(&backend, 10_000).unwrap().address(), address);
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        let backend: Arc<dyn Backend> = Arc::new(Simulator::new());
        let cache = &backend.memory().pinned;
        let kept = || cache.blocks().unused.iter().map(|block| block.bytes).sum::<usize>();
        let all: Vec<_> = (0..3).map(|_| PinnedMemory::new(&backend, MOST / 2).unwrap()).collect();
        drop(all);
        assert_eq!(kept(), MOST);
        // Of another size than all that is kept.
        drop(PinnedMemory::new(&backend, MOST / 8).unwrap());
        let newest = cache.blocks().unused.back().map(|block| block.bytes);
        assert_eq!(
            (newest, kept()),
            (Some(MOST / 8), MOST / 2 + MOST / 8),
            "what waited longest is displaced"
        );
        assert!(matches!(
            PinnedMemory::new(&backend, usize::MAX / 2),
            Err(Error::HostMemory { .. })
        ));
        assert_eq!(kept(), 0, "all was given back for it");
    }
}
