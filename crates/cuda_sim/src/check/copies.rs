// SPDX-License-Identifier: MIT OR Apache-2.0
//! What engines beside the threads do, copies and matrix products, that a thread has asked for and nobody has waited for. Here it
//! is done at once; on a GPU the memory that is filled or read is theirs until then.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::panic::Location;

use super::block::Who;
use super::shadow::ByAddress;
use super::{Bytes, Kind, Space};

/// Who works for a thread, group by group, and at what end of its work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Engine {
    /// Copies of 16 bytes to shared memory (`cp.async`).
    Async,
    /// Copies of boxes from shared memory (`cp.async.bulk`), as they read it.
    BulkRead,
    /// The same, as they write global memory.
    BulkWrite,
    /// Matrix products of a warpgroup, which read shared memory (`wgmma`). All of its threads ask for them and wait for them.
    Matrix,
}

impl Engine {
    /// The memory in which others have to keep away.
    pub(super) fn space(self) -> Space {
        match self {
            Engine::Async | Engine::BulkRead | Engine::Matrix => Space::Shared,
            Engine::BulkWrite => Space::Global,
        }
    }

    /// How it accesses shared memory.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Engine::Async => Kind::Write,
            Engine::BulkWrite => Kind::AsyncWrite,
            Engine::BulkRead | Engine::Matrix => Kind::AsyncRead,
        }
    }
}

/// Threads in a warpgroup.
const WARPGROUP: u32 = 128;

/// The unit in which copies are remembered.
const PIECE: usize = 16;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The groups of a thread.
    Groups(Engine, Who),
    /// The phases of that parity of the barrier at that address, in which copies arrive.
    Phases(usize, u32),
}

/// By one number: there are as many look-ups as reads of operands.
impl Hash for Awaited {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(match *self {
            Awaited::Groups(engine, who) => who.block << 16 ^ u64::from(who.thread) << 3 ^ engine as u64,
            Awaited::Phases(barrier, parity) => (barrier as u64) << 1 ^ u64::from(parity),
        });
    }
}

impl Awaited {
    /// The groups of `who`: as one waits for the products of a warpgroup, all do.
    pub(crate) fn groups(engine: Engine, who: Who) -> Awaited {
        let thread = match engine {
            Engine::Matrix => who.thread / WARPGROUP * WARPGROUP,
            Engine::Async | Engine::BulkRead | Engine::BulkWrite => who.thread,
        };
        Awaited::Groups(engine, Who { thread, ..who })
    }

    /// Whether the block is not to end before.
    fn keeps_the_block(self) -> bool {
        matches!(self, Awaited::Groups(Engine::BulkRead, _) | Awaited::Phases(..))
    }

    /// What it is that was asked for, and what is to be called.
    fn name_and_remedy(self) -> (&'static str, &'static str) {
        match self {
            Awaited::Groups(Engine::Async, _) => ("a copy", "the thread waits by `async_copy::wait`, behind `commit`"),
            Awaited::Groups(Engine::BulkRead, _) => ("a copy", "the thread waits by `tma::wait_read`, behind `commit`"),
            Awaited::Groups(Engine::BulkWrite, _) => ("a copy", "the thread waits by `tma::wait`, behind `commit`"),
            Awaited::Groups(Engine::Matrix, _) => (
                "a matrix product",
                "the thread waits by `InFlight::wait`, behind `commit`",
            ),
            Awaited::Phases(..) => (
                "a copy",
                "`Mbarrier::wait` waits for the phase in which its bytes arrive",
            ),
        }
    }
}

/// How many groups there are, or phases.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Groups that were committed. Phases are numbered by the waits for them.
    committed: u64,
    /// How many have been waited for.
    done: u64,
    /// The copy that was asked for last, and what it accesses.
    last: Option<(Bytes, Copy)>,
}

/// A copy, or a product, as a piece of the memory that it is at keeps it.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub(super) who: Who,
    pub(super) kind: Kind,
    pub(super) at: &'static Location<'static>,
    awaited: Awaited,
    /// Which of the groups or phases.
    number: u64,
    /// The bytes of the piece, a bit each.
    bytes: u16,
}

impl Copy {
    /// What it is, and what should have been called.
    pub(super) fn name_and_remedy(&self) -> (&'static str, &'static str) {
        self.awaited.name_and_remedy()
    }
}

/// Slots of [`Pieces::filter`]: as many as there are pieces in the shared memory of a block.
const SLOTS: usize = 1 << 14;

/// Pieces of memory that copies are at, by their addresses.
struct Pieces {
    copies: HashMap<usize, Vec<Copy>, ByAddress>,
    /// How many there are of the pieces of each slot. Most accesses find none, and look no further.
    filter: Box<[u32]>,
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces {
            copies: HashMap::default(),
            filter: vec![0; SLOTS].into(),
        }
    }
}

impl Pieces {
    fn clear(&mut self) {
        if !self.copies.is_empty() {
            self.copies.clear();
            self.filter.fill(0);
        }
    }

    fn slot(piece: usize) -> usize {
        piece / PIECE % SLOTS
    }

    /// The copies at a piece, of which there will be one.
    fn at(&mut self, piece: usize) -> &mut Vec<Copy> {
        match self.copies.entry(piece) {
            Entry::Occupied(copies) => copies.into_mut(),
            Entry::Vacant(place) => {
                self.filter[Self::slot(piece)] += 1;
                place.insert(Vec::new())
            }
        }
    }

    /// The first copy at a place that such an access comes too early for; those that somebody has waited for are forgotten.
    fn first_under_way(&mut self, counts: &AllCounts, place: Bytes, kind: Kind) -> Option<Copy> {
        if self.copies.is_empty() {
            return None;
        }
        pieces(place).find_map(|(piece, bytes)| {
            if self.filter[Self::slot(piece)] == 0 {
                return None;
            }
            let copies = self.copies.get_mut(&piece)?;
            copies.retain(|copy| {
                counts
                    .get(&copy.awaited)
                    .is_none_or(|counts| counts.done <= copy.number)
            });
            if copies.is_empty() {
                self.copies.remove(&piece);
                self.filter[Self::slot(piece)] -= 1;
                return None;
            }
            let is_too_early = |copy: &&Copy| copy.bytes & bytes != 0 && kind.races_with(copy.kind, true);
            copies.iter().find(is_too_early).copied()
        })
    }
}

/// Those of all that is waited for.
type AllCounts = HashMap<Awaited, Counts, ByAddress>;

/// The copies at a memory: at the shared one of a block, or at that of all.
#[derive(Default)]
pub(super) struct Copies {
    counts: AllCounts,
    /// What copies write: all other accesses are too early.
    filled: Pieces,
    /// What copies and products read: writes are too early.
    read: Pieces,
}

impl Copies {
    pub(super) fn clear(&mut self) {
        self.counts.clear();
        self.filled.clear();
        self.read.clear();
    }

    /// A copy that `who` asks for begins to access those bytes, and is `awaited`.
    pub(super) fn begin(
        &mut self,
        awaited: Awaited,
        who: Who,
        place: Bytes,
        kind: Kind,
        at: &'static Location<'static>,
    ) {
        let number = match awaited {
            Awaited::Groups(engine, _) => self.counts.entry(Awaited::Groups(engine, who)).or_default().committed,
            Awaited::Phases(..) => self.counts.entry(awaited).or_default().done,
        };
        let all = if kind.writes() {
            &mut self.filled
        } else {
            &mut self.read
        };
        let copy = Copy {
            who,
            kind,
            at,
            awaited,
            number,
            bytes: 0,
        };
        if awaited.keeps_the_block() {
            self.counts.entry(awaited).or_default().last = Some((place, copy));
        }
        for (piece, bytes) in pieces(place) {
            let copy = Copy { bytes, ..copy };
            let copies = all.at(piece);
            match copies.iter_mut().find(|other| other.awaited == awaited) {
                Some(other) if other.number == number && other.kind == kind => other.bytes |= bytes,
                // A wait for this one is one for that, too.
                Some(other) => *other = copy,
                None => copies.push(copy),
            }
        }
    }

    pub(super) fn commit(&mut self, engine: Engine, who: Who) {
        let groups = self.counts.entry(Awaited::Groups(engine, who)).or_default();
        groups.committed += 1;
    }

    /// The thread has waited for all its groups but the newest ones.
    pub(super) fn wait(&mut self, engine: Engine, who: Who, newest: u32) {
        let own = self.counts.entry(Awaited::Groups(engine, who)).or_default();
        let done = own.committed.saturating_sub(newest.into());
        let groups = self.counts.entry(Awaited::groups(engine, who)).or_default();
        groups.done = groups.done.max(done);
    }

    /// Somebody has waited for such a phase.
    pub(super) fn wait_for_phase(&mut self, barrier: usize, parity: u32) {
        if let Some(phases) = self.counts.get_mut(&Awaited::Phases(barrier, parity)) {
            phases.done += 1;
        }
    }

    /// A copy that the end of the block comes too early for, and what it accesses.
    pub(super) fn end(&self) -> Option<(Bytes, Copy)> {
        let last = self.counts.values().filter_map(|counts| {
            let (_, copy) = counts.last.as_ref()?;
            counts.last.filter(|_| counts.done <= copy.number)
        });
        last.min_by_key(|(place, _)| place.address)
    }

    /// The copy that such an access comes too early for.
    pub(super) fn access(&mut self, place: Bytes, kind: Kind) -> Option<Copy> {
        let Copies { counts, filled, read } = self;
        let of_reads = kind.writes().then_some(read);
        [filled]
            .into_iter()
            .chain(of_reads)
            .find_map(|all| all.first_under_way(counts, place, kind))
    }
}

/// The pieces of a place, and which of their bytes are in it, a bit each.
fn pieces(place: Bytes) -> impl Iterator<Item = (usize, u16)> {
    let (start, end) = (place.address, place.address + place.len);
    (start / PIECE * PIECE..end).step_by(PIECE).map(move |piece| {
        let from = start.saturating_sub(piece);
        let to = (end - piece).min(PIECE);
        (piece, (u16::MAX >> (PIECE - (to - from))) << from)
    })
}
