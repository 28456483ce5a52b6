// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that a graph's own arrays lie in.
//!
//! It is taken while the work is recorded, on the stream that the graph is launched on, and given back when nobody has
//! the graph or one of its arrays any more. What the work drops on its way is used again by later parts of it: they come
//! one behind the other in every launch. When the recording has ended, nothing is given out any more.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::stream::Stream;

/// A piece of device memory.
#[derive(Clone, Copy, Debug)]
struct Piece {
    address: u64,
    bytes: usize,
}

pub(crate) struct GraphMemory {
    stream: Stream,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    all: Vec<Piece>,
    /// Those that nothing recorded uses any more; nobody asks for them when the recording has ended.
    free: Vec<Piece>,
    recording: bool,
    /// Whether some use of it is on a stream that this one could not wait for.
    stranded: bool,
}

impl GraphMemory {
    pub(crate) fn new(stream: &Stream) -> Arc<Self> {
        Arc::new(Self {
            stream: stream.clone(),
            state: Mutex::new(State {
                all: Vec::new(),
                free: Vec::new(),
                recording: true,
                stranded: false,
            }),
        })
    }

    /// The device is not asked for anything while the guard lives.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of at least one byte, whose contents are unspecified, for the work that is recorded from here on until the
    /// block is dropped.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Block> {
        let piece = match self.take_free(bytes) {
            Some(piece) => piece,
            None => self.acquire(bytes)?,
        };
        Ok(Block {
            memory: Arc::clone(self),
            piece,
        })
    }

    /// The smallest piece that fits, if not half of it would be lost.
    fn take_free(&self, bytes: usize) -> Option<Piece> {
        let free = &mut self.state().free;
        let fits = |piece: &Piece| piece.bytes >= bytes && piece.bytes / 2 <= bytes;
        let fitting = free.iter().enumerate().filter(|(_, piece)| fits(piece));
        let (index, _) = fitting.min_by_key(|(_, piece)| piece.bytes)?;
        Some(free.swap_remove(index))
    }

    fn acquire(&self, bytes: usize) -> Result<Piece> {
        // SAFETY: the stream lives, and the memory has at least one byte.
        let address = unsafe { self.stream.backend().acquire(self.stream.raw(), bytes)? };
        let piece = Piece { address, bytes };
        self.state().all.push(piece);
        Ok(piece)
    }

    /// To be called when the recording has ended.
    pub(crate) fn close(&self) {
        self.state().recording = false;
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        let stranded = self.state().stranded;
        let pieces = std::mem::take(&mut self.state().all);
        let backend = self.stream.backend();
        for Piece { address, bytes } in pieces {
            // SAFETY: acquired on this stream for as many bytes. What was launched is queued on it, and it waits for the
            // uses of arrays on others, but where that could not be queued.
            unsafe {
                match stranded {
                    false => backend.release(self.stream.raw(), address, bytes),
                    true => backend.strand(address, bytes),
                }
            }
        }
    }
}

impl fmt::Debug for GraphMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

/// A piece of a graph's memory that one array or one launch has for itself.
#[derive(Debug)]
pub(crate) struct Block {
    memory: Arc<GraphMemory>,
    piece: Piece,
}

impl Block {
    pub(crate) fn address(&self) -> u64 {
        self.piece.address
    }

    /// The stream that the graph is launched on.
    pub(crate) fn stream(&self) -> &Stream {
        &self.memory.stream
    }

    pub(crate) fn is_of(&self, memory: &Arc<GraphMemory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }

    /// Whether the work that uses it is still being recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.memory.state().recording
    }

    /// To be called if there are uses on a stream that this one's cannot wait for.
    pub(crate) fn strand(&self) {
        self.memory.state().stranded = true;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        if state.recording {
            state.free.push(self.piece);
        }
    }
}
