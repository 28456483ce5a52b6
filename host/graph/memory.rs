// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that a graph's own arrays lie in.
//!
//! It is taken while the work is recorded, on the stream that the graph is launched on, and given back when nobody has
//! the graph or one of its arrays any more. What the work drops on its way is used again by later parts of it: they come
//! one behind the other in every launch. When the recording has ended, nothing is given out any more.
//!
//! Words that kernels leave ready for the next of their kind lie by themselves: each launch of the graph finds what the one
//! before has left.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::stream::Stream;
use crate::workspace::LAUNCHES;

/// What is in a piece ahead of the work that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Anything.
    Unspecified,
    /// Counters that are 0.
    Counters,
    /// All 0, or what another scan has left.
    ScanStates,
}

/// A piece of device memory.
#[derive(Clone, Copy, Debug)]
struct Piece {
    address: u64,
    bytes: usize,
    contents: Contents,
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
    /// How many of the recorded launches have words that others leave them.
    word_launches: u32,
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
                word_launches: 0,
                stranded: false,
            }),
        })
    }

    /// The device is not asked for anything while the guard lives.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of at least one byte for the work that is recorded from here on until the block is dropped, which leaves words
    /// as it has found them.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize, contents: Contents) -> Result<Block> {
        let piece = match self.take_free(bytes, contents) {
            Some(piece) => piece,
            None => self.acquire(bytes, contents)?,
        };
        self.state().word_launches += u32::from(contents != Contents::Unspecified);
        Ok(Block {
            memory: Arc::clone(self),
            piece,
            is_retired: false,
        })
    }

    /// The smallest piece that fits, if not half of it would be lost.
    fn take_free(&self, bytes: usize, contents: Contents) -> Option<Piece> {
        let free = &mut self.state().free;
        let fits = |of: &Piece| of.contents == contents && of.bytes >= bytes && of.bytes / 2 <= bytes;
        let fitting = free.iter().enumerate().filter(|(_, piece)| fits(piece));
        let (index, _) = fitting.min_by_key(|(_, piece)| piece.bytes)?;
        Some(free.swap_remove(index))
    }

    fn acquire(&self, bytes: usize, contents: Contents) -> Result<Piece> {
        // SAFETY: the stream lives, and the memory has at least one byte.
        let address = unsafe { self.stream.backend().acquire(self.stream.raw(), bytes)? };
        let piece = Piece {
            address,
            bytes,
            contents,
        };
        self.state().all.push(piece);
        Ok(piece)
    }

    /// Sets the words to 0, on the stream, and says for how many launches of the graph that is enough.
    pub(crate) fn reset_words(&self) -> Result<u32> {
        let (all, word_launches) = {
            let state = self.state();
            (state.all.clone(), state.word_launches)
        };
        let words = all.iter().filter(|piece| piece.contents != Contents::Unspecified);
        for &Piece { address, bytes, .. } in words {
            // SAFETY: acquired on this stream for as many bytes; nobody uses them but the graph's launches, which are queued on
            // it.
            unsafe { self.stream.backend().fill_zero(self.stream.raw(), address, bytes)? };
        }
        Ok(LAUNCHES
            .checked_div(word_launches)
            .map_or(u32::MAX, |launches| launches.max(1)))
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
        for Piece { address, bytes, .. } in pieces {
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
    is_retired: bool,
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

    /// Gives it to nobody else: what it was used for has failed.
    pub(crate) fn retire(mut self) {
        self.is_retired = true;
    }

    /// To be called if there are uses on a stream that this one's cannot wait for.
    pub(crate) fn strand(&self) {
        self.memory.state().stranded = true;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        if state.recording && !self.is_retired {
            state.free.push(self.piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    fn memory() -> Arc<GraphMemory> {
        GraphMemory::new(Device::simulator().default_stream())
    }

    #[test]
    fn words_are_for_their_kind_alone_and_again_when_they_were_left_ready() {
        let memory = memory();
        let address = |contents| memory.allocate(1000, contents).unwrap().address();
        let kinds = [Contents::Unspecified, Contents::Counters, Contents::ScanStates];
        let first = kinds.map(address);
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
        assert_eq!(kinds.map(address), first);
        memory.allocate(1000, Contents::Counters).unwrap().retire();
        assert_ne!(
            address(Contents::Counters),
            first[1],
            "of a launch that was not recorded"
        );
    }

    #[test]
    fn words_are_set_to_0_again_before_launches_are_counted_to_the_end() {
        let memory = memory();
        drop(memory.allocate(1000, Contents::Unspecified).unwrap());
        assert_eq!(memory.reset_words().unwrap(), u32::MAX);
        for _ in 0..3 {
            drop(memory.allocate(1000, Contents::ScanStates).unwrap());
        }
        assert_eq!(memory.reset_words().unwrap(), LAUNCHES / 3);
    }
}
