// SPDX-License-Identifier: MIT OR Apache-2.0
//! A word of memory: who touched it last.
//!
//! It keeps the accesses that a later one could still race with: of those that an access knows to be over, only the ones
//! that it does not stand for (C. Flanagan and S. Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", 2009).
//! Lanes of a warp that do the same at the same time are one entry.

use std::panic::Location;

use super::block::Who;
use super::clock::{Knowledge, Moment};
use super::copies::{Copies, Copy};
use super::{Checks, Kind, Scope, Space};

/// Entries of a word. More would have to be accesses of as many warps, none of them ordered; the oldest is then forgotten,
/// and a race with that one is not found.
const MOST: usize = 64;

/// All bytes of a word, a bit each; or all words of a piece.
pub(super) const ALL: u8 = 0xf;

/// An access as a word keeps it.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) moment: Moment,
    /// The lanes of the warp that did it.
    pub(super) lanes: u32,
    pub(super) kind: Kind,
    /// The bytes of the word, a bit each; of a piece that is one word its words.
    pub(super) bytes: u8,
    pub(super) at: &'static Location<'static>,
}

impl Entry {
    /// The thread of that lane.
    pub(super) fn who(&self, lane: u32) -> Who {
        let Moment { block, warp, .. } = self.moment;
        let thread = warp * 32 + lane;
        Who { block, thread }
    }

    /// Whether a lane of the same warp did the same at the same time.
    fn is_joined_by(&self, bytes: u8, kind: Kind, actor: &Actor<'_>) -> bool {
        self.moment == actor.moment && self.kind == kind && self.bytes == bytes && std::ptr::eq(self.at, actor.at)
    }
}

/// The thread that accesses memory now.
pub(super) struct Actor<'a> {
    /// The memory.
    pub(super) space: Space,
    pub(super) moment: Moment,
    pub(super) lane: u32,
    pub(super) knowledge: &'a Knowledge,
    pub(super) at: &'static Location<'static>,
    /// What is waited for at that memory.
    pub(super) copies: &'a Copies,
    /// The copy, or product, by which it does.
    pub(super) copy: Option<Copy>,
}

impl Actor<'_> {
    /// The first lane of which this thread does not know that it has done what `entry` says.
    fn lacks(&self, entry: &Entry) -> Option<u32> {
        let (other, own) = (&entry.moment, &self.moment);
        if other.round < own.round {
            return None;
        }
        let own_warp = other.block == own.block && other.warp == own.warp;
        let lanes = entry.lanes & !(u32::from(own_warp) << self.lane);
        if lanes == 0 {
            return None;
        }
        self.knowledge.lacks(other, lanes)
    }

    /// The first lane of which this thread does not know that the async proxy, by which it accesses memory now, has been shown
    /// what `entry` says: its own lane is none the better for being its own. Of what was in that proxy itself only the
    /// accesses of another block have to be shown, in global memory.
    fn hides(&self, kind: Kind, entry: &Entry) -> Option<u32> {
        let is_foreign = self.space == Space::Global && entry.moment.block != self.moment.block;
        if !kind.is_async() || entry.kind.is_async() && !is_foreign {
            return None;
        }
        self.knowledge.hides(self.space, &entry.moment, entry.lanes)
    }

    /// Whether the access would be a race with `entry`, of the same word, if nothing ordered the two.
    fn may_race(&self, bytes: u8, kind: Kind, entry: &Entry) -> bool {
        entry.bytes & bytes != 0 && kind.races_with(entry.kind, entry.moment.block == self.moment.block)
    }

    /// It is a problem if `entry`, with which the access may race, is not known to be over, or was not shown to the async proxy.
    fn is_behind(&self, kind: Kind, entry: &Entry) -> Result<(), Problem> {
        if let Some(lane) = self.lacks(entry) {
            return Err(Problem::Race(Box::new(entry.clone()), lane));
        }
        match self.hides(kind, entry) {
            Some(lane) => Err(Problem::NotFenced(Box::new(entry.clone()), lane)),
            None => Ok(()),
        }
    }

    /// Whether it does not matter that such an access was there, where no other has been: nothing but copies is known to
    /// write what copies load from global memory, and most of that nothing writes.
    pub(super) fn leaves_no_trace(&self, kind: Kind) -> bool {
        self.space == Space::Global && kind == Kind::AsyncRead
    }
}

/// What is wrong with an access.
pub(super) enum Problem {
    /// With this access, of that lane, it races.
    Race(Box<Entry>, u32),
    /// This access, of that lane, is over, but not for the async proxy.
    NotFenced(Box<Entry>, u32),
    /// Nobody has written the byte at this address before.
    Uninitialised(usize),
    /// This copy may still be under way.
    NotWaitedFor(Copy),
    /// The block whose shared memory it is has ended.
    BlockEnded,
}

impl Problem {
    /// The same, where a bit of the word's is so many bytes from `address` on.
    pub(super) fn within(self, address: usize, unit: usize) -> Problem {
        match self {
            Problem::Uninitialised(bit) => Problem::Uninitialised(address + bit * unit),
            other => other,
        }
    }
}

#[derive(Default)]
pub(super) struct Word {
    /// The bytes that have been written, a bit each.
    pub(super) written: u8,
    /// How many of the entries write.
    writes: u8,
    pub(super) entries: Vec<Entry>,
}

impl Kind {
    /// Whether two accesses to a word, not ordered, of one block or of two, are a race.
    pub(super) fn races_with(self, other: Kind, same_block: bool) -> bool {
        let atomic = |kind| match kind {
            Kind::AtomicRead(scope) | Kind::AtomicWrite(scope) => same_block || scope == Scope::Device,
            Kind::Read | Kind::Write | Kind::AsyncRead | Kind::AsyncWrite | Kind::AsyncUpdate => false,
        };
        let both_add = self == Kind::AsyncUpdate && other == Kind::AsyncUpdate;
        (self.writes() || other.writes()) && !(atomic(self) && atomic(other) || both_add)
    }

    /// Whether all that races with `other` races with this. What the async proxy reads has not been shown what threads have
    /// read before.
    fn stands_for(self, other: Kind) -> bool {
        match (self, other) {
            (Kind::Write | Kind::AsyncWrite, _)
            | (Kind::Read, Kind::Read | Kind::AsyncRead | Kind::AtomicRead(_))
            | (Kind::AsyncRead, Kind::AsyncRead)
            | (Kind::AsyncUpdate, Kind::AsyncUpdate) => true,
            (Kind::AtomicWrite(own), Kind::AtomicWrite(other) | Kind::AtomicRead(other))
            | (Kind::AtomicRead(own), Kind::AtomicRead(other)) => own == Scope::Block || other == Scope::Device,
            _ => false,
        }
    }
}

impl Word {
    pub(super) fn clear(&mut self) {
        self.written = 0;
        self.writes = 0;
        self.entries.clear();
    }

    fn remove(&mut self, number: usize) {
        let entry = self.entries.swap_remove(number);
        self.writes -= u8::from(entry.kind.writes());
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() == MOST {
            let oldest = self.entries.remove(0);
            self.writes -= u8::from(oldest.kind.writes());
        }
        self.writes += u8::from(entry.kind.writes());
        self.entries.push(entry);
    }

    /// Becomes what `other` is.
    pub(super) fn copy(&mut self, other: &Word) {
        self.written = other.written;
        self.writes = other.writes;
        self.entries.clone_from(&other.entries);
    }

    pub(super) fn access(&mut self, bytes: u8, kind: Kind, actor: &Actor<'_>, checks: Checks) -> Result<(), Problem> {
        let unwritten = bytes & !self.written;
        if checks.uninitialised && unwritten != 0 && kind.reads() {
            return Err(Problem::Uninitialised(unwritten.trailing_zeros() as usize));
        }
        if kind.writes() {
            self.written |= bytes;
        }
        if !checks.races {
            return Ok(());
        }
        // Most accesses are one of a warp's whose other lanes have just been here: they only add a lane.
        let joined = match kind.races_with(kind, true) {
            true => None,
            false => (self.entries.iter()).rposition(|entry| entry.is_joined_by(bytes, kind, actor)),
        };
        match joined {
            Some(number) => self.join(number, kind, actor),
            None => self.enter(bytes, kind, actor),
        }
    }

    /// The access is one more lane's of that entry.
    fn join(&mut self, number: usize, kind: Kind, actor: &Actor<'_>) -> Result<(), Problem> {
        let bytes = self.entries[number].bytes;
        let mut writes = self.writes;
        for entry in &self.entries {
            // Reads race with writes alone, which tend to come first.
            if writes == 0 && !kind.writes() {
                break;
            }
            writes -= u8::from(entry.kind.writes());
            if actor.may_race(bytes, kind, entry) {
                actor.is_behind(kind, entry)?;
            }
        }
        self.entries[number].lanes |= 1 << actor.lane;
        Ok(())
    }

    /// The access is an entry of its own; those that it stands for go.
    fn enter(&mut self, bytes: u8, kind: Kind, actor: &Actor<'_>) -> Result<(), Problem> {
        let mut number = 0;
        while let Some(entry) = self.entries.get(number) {
            let may_race = actor.may_race(bytes, kind, entry);
            if may_race {
                actor.is_behind(kind, entry)?;
            }
            let stands_for = entry.bytes & !bytes == 0 && kind.stands_for(entry.kind);
            if stands_for && (may_race || actor.lacks(entry).is_none()) {
                self.remove(number);
            } else {
                number += 1;
            }
        }
        self.push(Entry {
            moment: actor.moment,
            lanes: 1 << actor.lane,
            kind,
            bytes,
            at: actor.at,
        });
        Ok(())
    }
}
