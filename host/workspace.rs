// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device memory that launches on one stream borrow and give back: counters, scan states, the blocks' values.
//!
//! To allocate it and set it to 0 for each launch takes about two microseconds, more than a third of a small reduction.
//! So a stream keeps what it has, and the library's kernels leave it ready for the next launch.
//!
//! A launch takes a piece, which is then its own, and gives it back when it is queued. No lock is held in between: a
//! launch on the simulator runs in threads that take up other work of the program while they wait, that on a GPU may
//! compile a module. Two threads that launch at the same time have two pieces. A piece that was given back is used
//! again by work that is queued later on the same stream, so that it finds what the launch before has left. One that
//! is not given back, since its launch failed and may have left anything, is freed.
//!
//! A launch that is recorded for a graph takes its words from the graph's memory instead, where it finds what the one
//! before it in the graph has left, or the graph's launch before.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Backend, RawStream};
use crate::error::Result;
use crate::graph::Block;

/// The least that is allocated, in bytes.
const LEAST: usize = 4096;

/// The most that is kept, in bytes. More is allocated for its launch.
const MOST: usize = 4 << 20;

/// Launches after which a piece is allocated anew, since kernels may tell what earlier launches have left by a number of
/// 30 bits.
pub(crate) const LAUNCHES: u32 = 1 << 29;

/// What a stream keeps for one purpose: all 0 at first, then as the launch before has left it.
#[derive(Debug)]
pub(crate) struct Workspace {
    backend: Arc<dyn Backend>,
    stream: RawStream,
    pieces: Mutex<Vec<Piece>>,
}

/// An allocation that nobody uses who does not own this.
#[derive(Debug)]
struct Piece {
    address: u64,
    bytes: usize,
    launches: u32,
}

impl Workspace {
    /// One for launches on that stream of the backend, which outlives it.
    pub(crate) fn new(backend: &Arc<dyn Backend>, stream: RawStream) -> Self {
        Self {
            backend: Arc::clone(backend),
            stream,
            pieces: Mutex::default(),
        }
    }

    /// `len` words for one launch on the stream.
    pub(crate) fn take<W>(&self, len: usize) -> Result<Lease<'_, W>> {
        let bytes = len.saturating_mul(size_of::<W>());
        let source = match bytes {
            0 => Source::None,
            _ => Source::Workspace(self, self.piece(bytes)?),
        };
        Ok(Lease {
            stream: self.stream,
            source,
            len,
            _word: PhantomData,
        })
    }

    /// A piece of at least that many bytes, which are not 0.
    fn piece(&self, bytes: usize) -> Result<Piece> {
        if bytes > MOST {
            return self.allocate(bytes);
        }
        // One that is too small makes room for a larger one, so that a program with one thread keeps one piece.
        let kept = {
            let mut pieces = self.pieces();
            match pieces.iter().rposition(|piece| piece.bytes >= bytes) {
                Some(fitting) => Some(pieces.swap_remove(fitting)),
                None => pieces.pop(),
            }
        };
        match kept {
            Some(piece) if piece.bytes >= bytes && piece.launches < LAUNCHES => return Ok(piece),
            Some(piece) => self.free(piece),
            None => {}
        }
        self.allocate(bytes.next_power_of_two().max(LEAST))
    }

    fn allocate(&self, bytes: usize) -> Result<Piece> {
        // SAFETY: the backend's own stream.
        let address = unsafe { self.backend.acquire(self.stream, bytes)? };
        let piece = Piece {
            address,
            bytes,
            launches: 0,
        };
        // SAFETY: just allocated on this stream, with that many bytes.
        match unsafe { self.backend.fill_zero(self.stream, address, bytes) } {
            Ok(()) => Ok(piece),
            Err(error) => {
                self.free(piece);
                Err(error)
            }
        }
    }

    /// Frees a piece behind what uses it.
    fn free(&self, piece: Piece) {
        // SAFETY: allocated by this backend on this stream, used on it alone, and owned by nobody else.
        unsafe { self.backend.release(self.stream, piece.address, piece.bytes) };
    }

    /// Nobody else's code runs while the guard lives: it is held only to search the list.
    fn pieces(&self) -> MutexGuard<'_, Vec<Piece>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let pieces = std::mem::take(&mut *self.pieces());
        pieces.into_iter().for_each(|piece| self.free(piece));
    }
}

/// Words that one launch has for itself.
#[derive(Debug)]
pub(crate) struct Lease<'a, W> {
    stream: RawStream,
    source: Source<'a>,
    len: usize,
    _word: PhantomData<W>,
}

/// Where the words are from.
#[derive(Debug)]
enum Source<'a> {
    /// There are none.
    None,
    Workspace(&'a Workspace, Piece),
    /// A graph's memory, for every launch of it.
    Graph(Block),
}

impl<W> Lease<'_, W> {
    /// Words of a graph that is launched on that stream.
    pub(crate) fn of_graph(stream: RawStream, block: Option<Block>, len: usize) -> Self {
        Self {
            stream,
            source: block.map_or(Source::None, Source::Graph),
            len,
            _word: PhantomData,
        }
    }

    /// Where the words lie; 0 where there are none.
    pub(crate) fn address(&self) -> u64 {
        match &self.source {
            Source::None => 0,
            Source::Workspace(_, piece) => piece.address,
            Source::Graph(block) => block.address(),
        }
    }

    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The stream that the words are for.
    pub(crate) fn stream(&self) -> RawStream {
        self.stream
    }

    /// Keeps the words for later launches. To be called when a launch is queued that leaves them ready for the next.
    pub(crate) fn give_back(mut self) {
        match std::mem::replace(&mut self.source, Source::None) {
            Source::Workspace(workspace, mut piece) if piece.bytes <= MOST => {
                piece.launches += 1;
                workspace.pieces().push(piece);
            }
            // For later launches of the graph.
            Source::Graph(block) => drop(block),
            // Dropped with `self`.
            other => self.source = other,
        }
    }
}

impl<W> Drop for Lease<'_, W> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.source, Source::None) {
            Source::None => {}
            Source::Workspace(workspace, piece) => workspace.free(piece),
            Source::Graph(block) => block.retire(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sim::Simulator;

    fn workspace() -> Workspace {
        let backend: Arc<dyn Backend> = Arc::new(Simulator::new());
        let stream = backend.create_stream(0).unwrap();
        Workspace::new(&backend, stream)
    }

    #[test]
    fn pieces_are_used_again_when_they_were_given_back() {
        let workspace = workspace();
        let (a, b) = (workspace.take::<u32>(10).unwrap(), workspace.take::<u32>(10).unwrap());
        let (first, second) = (a.address(), b.address());
        assert_ne!(first, second, "two launches at a time have two pieces");
        a.give_back();
        let again = workspace.take::<u64>(LEAST / 8).unwrap();
        assert_eq!(again.address(), first);
        drop((again, b));
        assert!(workspace.pieces().is_empty(), "what was not given back is not kept");
    }

    #[test]
    fn what_is_too_small_or_too_large_is_not_kept() {
        let workspace = workspace();
        workspace.take::<u8>(1).unwrap().give_back();
        workspace.take::<u8>(LEAST + 1).unwrap().give_back();
        let sizes = |workspace: &Workspace| workspace.pieces().iter().map(|piece| piece.bytes).collect::<Vec<_>>();
        assert_eq!(sizes(&workspace), [2 * LEAST]);
        workspace.take::<u8>(MOST + 1).unwrap().give_back();
        assert_eq!(sizes(&workspace), [2 * LEAST]);
        let none = workspace.take::<u32>(0).unwrap();
        assert_eq!((none.address(), none.len()), (0, 0));
        none.give_back();
        assert_eq!(sizes(&workspace), [2 * LEAST]);
    }

    #[test]
    fn a_piece_of_many_launches_is_allocated_anew() {
        let workspace = workspace();
        workspace.take::<u32>(1).unwrap().give_back();
        workspace.pieces()[0].launches = LAUNCHES;
        workspace.take::<u32>(1).unwrap().give_back();
        assert_eq!(workspace.pieces()[0].launches, 1);
    }

    #[test]
    fn more_than_there_is_memory_is_refused() {
        assert!(workspace().take::<u64>(usize::MAX / 2).is_err());
    }
}
