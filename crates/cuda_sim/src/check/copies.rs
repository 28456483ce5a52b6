// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies that a thread has asked for and not waited for. Here they are done at once; on a GPU the shared memory that they
//! fill or read is theirs until then.

use std::collections::HashMap;
use std::panic::Location;

use super::{Bytes, Kind};

/// Who does a thread's copies, group by group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Copies of 16 bytes to shared memory (`cp.async`).
    Async,
    /// Copies of boxes from shared memory (`cp.async.bulk`).
    Bulk,
}

/// The unit in which copies are remembered.
const PIECE: usize = 16;

/// The groups of copies of a thread.
#[derive(Clone, Copy, Default)]
struct Groups {
    committed: u64,
    /// How many the thread has waited for.
    done: u64,
}

/// A copy as its piece of memory keeps it.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    engine: Engine,
    pub(super) thread: u32,
    group: u64,
    pub(super) at: &'static Location<'static>,
}

impl Copy {
    pub(super) fn kind(&self) -> Kind {
        match self.engine {
            Engine::Async => Kind::Write,
            Engine::Bulk => Kind::Read,
        }
    }

    /// What the thread should have called.
    pub(super) fn remedy(&self) -> &'static str {
        match self.engine {
            Engine::Async => "`async_copy::wait`, behind `commit`",
            Engine::Bulk => "`tma::wait_read`, behind `commit`",
        }
    }
}

/// The copies of a block.
#[derive(Default)]
pub(crate) struct Copies {
    groups: HashMap<(u32, bool), Groups>,
    pieces: HashMap<usize, Copy>,
}

impl Copies {
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.pieces.clear();
    }

    fn groups(&mut self, engine: Engine, thread: u32) -> &mut Groups {
        self.groups.entry((thread, engine == Engine::Bulk)).or_default()
    }

    /// A copy fills, or reads, those bytes of shared memory.
    pub(crate) fn begin(&mut self, engine: Engine, thread: u32, place: Bytes, at: &'static Location<'static>) {
        let group = self.groups(engine, thread).committed;
        for piece in pieces(place) {
            let copy = Copy {
                engine,
                thread,
                group,
                at,
            };
            self.pieces.insert(piece, copy);
        }
    }

    pub(crate) fn commit(&mut self, engine: Engine, thread: u32) {
        self.groups(engine, thread).committed += 1;
    }

    /// The thread has waited for all its groups but the newest ones.
    pub(crate) fn wait(&mut self, engine: Engine, thread: u32, newest: u32) {
        let groups = self.groups(engine, thread);
        groups.done = groups.done.max(groups.committed.saturating_sub(newest.into()));
    }

    /// The copy that such an access of shared memory comes too early for.
    pub(super) fn access(&mut self, place: Bytes, kind: Kind) -> Option<Copy> {
        if self.pieces.is_empty() {
            return None;
        }
        pieces(place).find_map(|piece| {
            let copy = *self.pieces.get(&piece)?;
            if self.groups(copy.engine, copy.thread).done > copy.group {
                self.pieces.remove(&piece);
                return None;
            }
            (copy.engine == Engine::Async || kind.writes()).then_some(copy)
        })
    }
}

fn pieces(place: Bytes) -> impl Iterator<Item = usize> {
    let end = place.address + place.len;
    (place.address / PIECE * PIECE..end).step_by(PIECE)
}
