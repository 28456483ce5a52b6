// SPDX-License-Identifier: MIT OR Apache-2.0
//! What engines beside the threads do, copies and matrix products, that a thread has asked for and nobody has waited for. Here it
//! is done at once; on a GPU the memory that is filled or read is theirs until then.

use std::collections::HashMap;
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
}

/// Threads in a warpgroup.
const WARPGROUP: u32 = 128;

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
    /// The stamp of copies of this kind of the group, or phase, of this number.
    stamp: Option<(u64, Kind, Stamp)>,
}

/// What copies that are waited for together and do the same have in common, and no others: a number, but 0 where numbers have run
/// out.
#[derive(Clone, Copy, Default)]
pub(super) struct Stamp(u32);

impl Stamp {
    /// Whether it is known that such copies are alike.
    pub(super) fn is(self, other: Stamp) -> bool {
        self.0 != 0 && self.0 == other.0
    }
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
    pub(super) stamp: Stamp,
    /// The bytes of the piece, a bit each.
    pub(super) bytes: u16,
}

impl Copy {
    /// What it is, and what should have been called.
    pub(super) fn name_and_remedy(&self) -> (&'static str, &'static str) {
        self.awaited.name_and_remedy()
    }

    /// The same, at those bytes of a piece.
    pub(super) fn of(self, bytes: u16) -> Copy {
        Copy { bytes, ..self }
    }

    /// Whether such an access to those bytes comes too early, if it is under way.
    pub(super) fn forbids(&self, bytes: u16, kind: Kind) -> bool {
        self.bytes & bytes != 0 && kind.races_with(self.kind, true)
    }

    /// Whether a wait for `later` is one for this, too: then it takes the place of this, or only its bytes, if the two are alike.
    pub(super) fn gives_way_to(&mut self, later: Copy) -> bool {
        if self.awaited != later.awaited {
            return false;
        }
        if self.number == later.number && self.kind == later.kind {
            self.bytes |= later.bytes;
        } else {
            *self = later;
        }
        true
    }
}

/// What is waited for at a memory: at the shared one of a block, or at that of all. Where copies are, the memory's shadow knows.
#[derive(Default)]
pub(super) struct Copies {
    counts: HashMap<Awaited, Counts, ByAddress>,
    /// The last one given.
    stamp: Stamp,
}

impl Copies {
    pub(super) fn clear(&mut self) {
        self.counts.clear();
    }

    /// A copy that `who` asks for, and that is `awaited`, of no bytes yet.
    pub(super) fn begin(&mut self, awaited: Awaited, who: Who, kind: Kind, at: &'static Location<'static>) -> Copy {
        let number = match awaited {
            Awaited::Groups(engine, _) => self.of(Awaited::Groups(engine, who)).committed,
            Awaited::Phases(..) => self.of(awaited).done,
        };
        Copy {
            who,
            kind,
            at,
            awaited,
            number,
            stamp: self.stamp(awaited, number, kind),
            bytes: 0,
        }
    }

    fn of(&mut self, awaited: Awaited) -> &mut Counts {
        self.counts.entry(awaited).or_default()
    }

    fn stamp(&mut self, awaited: Awaited, number: u64, kind: Kind) -> Stamp {
        let next = Stamp(self.stamp.0.checked_add(1).unwrap_or_default());
        let counts = self.of(awaited);
        match counts.stamp {
            Some((of_number, of_kind, stamp)) if (of_number, of_kind) == (number, kind) => stamp,
            _ if next.0 == 0 => next,
            _ => {
                counts.stamp = Some((number, kind, next));
                self.stamp = next;
                next
            }
        }
    }

    /// The copy accesses that place.
    pub(super) fn note(&mut self, copy: Copy, place: Bytes) {
        if copy.awaited.keeps_the_block() {
            self.of(copy.awaited).last = Some((place, copy));
        }
    }

    /// Whether nobody has waited for it.
    pub(super) fn is_under_way(&self, copy: &Copy) -> bool {
        let counts = self.counts.get(&copy.awaited);
        counts.is_none_or(|counts| counts.done <= copy.number)
    }

    pub(super) fn commit(&mut self, engine: Engine, who: Who) {
        self.of(Awaited::Groups(engine, who)).committed += 1;
    }

    /// The thread has waited for all its groups but the newest ones.
    pub(super) fn wait(&mut self, engine: Engine, who: Who, newest: u32) {
        let own = self.of(Awaited::Groups(engine, who));
        let done = own.committed.saturating_sub(newest.into());
        let groups = self.of(Awaited::groups(engine, who));
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
        let last = self.counts.values().filter_map(|counts| counts.last);
        let under_way = last.filter(|(_, copy)| self.is_under_way(copy));
        under_way.min_by_key(|(place, _)| place.address)
    }
}
