// SPDX-License-Identifier: MIT OR Apache-2.0
//! What engines beside the threads do, copies and matrix products, that a thread has asked for and not waited for. Here it is
//! done at once; on a GPU the shared memory that is filled or read is theirs until then.

use std::collections::HashMap;
use std::panic::Location;

use super::shadow::ByAddress;
use super::{Bytes, Kind};

/// Who works for a thread, group by group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Engine {
    /// Copies of 16 bytes to shared memory (`cp.async`).
    Async,
    /// Copies of boxes from shared memory (`cp.async.bulk`).
    Bulk,
    /// Matrix products of a warpgroup, which read shared memory (`wgmma`). All of its threads ask for them and wait for them.
    Matrix,
}

impl Engine {
    /// How it accesses shared memory.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Engine::Async => Kind::Write,
            Engine::Bulk | Engine::Matrix => Kind::AsyncRead,
        }
    }

    /// The thread whose wait is that of `thread`, too: as one waits for the products of a warpgroup, all do.
    fn waiter(self, thread: u32) -> u32 {
        match self {
            Engine::Async | Engine::Bulk => thread,
            Engine::Matrix => thread / WARPGROUP * WARPGROUP,
        }
    }
}

/// Threads in a warpgroup.
const WARPGROUP: u32 = 128;

/// The unit in which copies are remembered.
const PIECE: usize = 16;

/// The groups of a thread.
#[derive(Clone, Copy, Default)]
struct Groups {
    committed: u64,
    /// How many have been waited for.
    done: u64,
}

/// A copy, or a product, as a piece of the memory that it is at keeps it.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    engine: Engine,
    pub(super) thread: u32,
    group: u64,
    pub(super) at: &'static Location<'static>,
}

impl Copy {
    fn waiter(&self) -> u32 {
        self.engine.waiter(self.thread)
    }

    /// Whether a later wait for the other is one for this, too.
    fn is_waited_for_with(&self, other: &Copy) -> bool {
        self.engine == other.engine && self.waiter() == other.waiter()
    }

    pub(super) fn kind(&self) -> Kind {
        self.engine.kind()
    }

    /// What it is, and what the thread should have called.
    pub(super) fn name_and_remedy(&self) -> (&'static str, &'static str) {
        match self.engine {
            Engine::Async => ("a copy", "`async_copy::wait`, behind `commit`"),
            Engine::Bulk => ("a copy", "`tma::wait_read`, behind `commit`"),
            Engine::Matrix => ("a matrix product", "`InFlight::wait`, behind `commit`"),
        }
    }
}

/// Pieces of memory that copies are at, by their addresses.
type Pieces = HashMap<usize, Vec<Copy>, ByAddress>;

/// The copies of a block.
#[derive(Default)]
pub(crate) struct Copies {
    groups: AllGroups,
    /// What copies fill: all accesses are too early.
    filled: Pieces,
    /// What copies and products read: writes are too early.
    read: Pieces,
}

/// Those of each engine and thread.
#[derive(Default)]
struct AllGroups([Vec<Groups>; 3]);

impl AllGroups {
    fn of(&mut self, engine: Engine, thread: u32) -> &mut Groups {
        let (groups, thread) = (&mut self.0[engine as usize], thread as usize);
        if groups.len() <= thread {
            groups.resize(thread + 1, Groups::default());
        }
        &mut groups[thread]
    }
}

impl Copies {
    pub(super) fn clear(&mut self) {
        self.groups.0.iter_mut().for_each(Vec::clear);
        self.filled.clear();
        self.read.clear();
    }

    /// A copy fills, or reads, those bytes of shared memory.
    pub(super) fn begin(&mut self, engine: Engine, thread: u32, place: Bytes, at: &'static Location<'static>) {
        let copy = Copy {
            engine,
            thread,
            group: self.groups.of(engine, thread).committed,
            at,
        };
        let all = if copy.kind().writes() {
            &mut self.filled
        } else {
            &mut self.read
        };
        for piece in pieces(place) {
            let copies = all.entry(piece).or_default();
            match copies.iter_mut().find(|other| other.is_waited_for_with(&copy)) {
                Some(other) => *other = copy,
                None => copies.push(copy),
            }
        }
    }

    pub(crate) fn commit(&mut self, engine: Engine, thread: u32) {
        self.groups.of(engine, thread).committed += 1;
    }

    /// The thread has waited for all its groups but the newest ones.
    pub(crate) fn wait(&mut self, engine: Engine, thread: u32, newest: u32) {
        let done = self.groups.of(engine, thread).committed.saturating_sub(newest.into());
        let groups = self.groups.of(engine, engine.waiter(thread));
        groups.done = groups.done.max(done);
    }

    /// The copy that such an access of shared memory comes too early for.
    pub(super) fn access(&mut self, place: Bytes, kind: Kind) -> Option<Copy> {
        let Copies { groups, filled, read } = self;
        let of_reads = kind.writes().then_some(read);
        [filled]
            .into_iter()
            .chain(of_reads)
            .find_map(|all| first_under_way(all, groups, place))
    }
}

/// The first copy at a piece of the place that nobody has waited for; those that somebody has are forgotten.
fn first_under_way(all: &mut Pieces, groups: &mut AllGroups, place: Bytes) -> Option<Copy> {
    if all.is_empty() {
        return None;
    }
    pieces(place).find_map(|piece| {
        let copies = all.get_mut(&piece)?;
        copies.retain(|copy| groups.of(copy.engine, copy.waiter()).done <= copy.group);
        if copies.is_empty() {
            all.remove(&piece);
            return None;
        }
        copies.first().copied()
    })
}

fn pieces(place: Bytes) -> impl Iterator<Item = usize> {
    let end = place.address + place.len;
    (place.address / PIECE * PIECE..end).step_by(PIECE)
}
