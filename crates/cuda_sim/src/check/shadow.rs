// SPDX-License-Identifier: MIT OR Apache-2.0
//! For each word of memory that a launch touches, who touched it last.
//!
//! A word keeps the accesses that a later one could still race with: of those that an access knows to be over, only the ones
//! that it does not stand for (C. Flanagan and S. Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", 2009).
//! Lanes of a warp that do the same at the same time are one entry.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::Location;

use super::block::Who;
use super::clock::{Knowledge, Moment};
use super::copies::Copy;
use super::{Bytes, Checks, Kind, Scope, Space};

/// Entries of a word. More would have to be accesses of as many warps, none of them ordered; the oldest is then forgotten,
/// and a race with that one is not found.
const MOST: usize = 64;

/// Words of a page.
const WORDS: usize = 64;
const WORD: usize = 4;
const PAGE: usize = WORDS * WORD;

/// An access as a word keeps it.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) moment: Moment,
    /// The lanes of the warp that did it.
    pub(super) lanes: u32,
    pub(super) kind: Kind,
    /// The bytes of the word, a bit each.
    bytes: u8,
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

    /// Whether it does not matter that such an access was there, where no other has been: nothing but copies is known to
    /// write what copies load from global memory, and most of that nothing writes.
    fn leaves_no_trace(&self, kind: Kind) -> bool {
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

/// An access by a block to another one's shared memory.
pub(crate) struct Foreign {
    /// The word, or the part of it, that is accessed.
    pub(super) address: usize,
    pub(super) len: usize,
    pub(super) entry: Entry,
    /// The lane that did it.
    pub(super) lane: u32,
}

#[derive(Default)]
struct Word {
    /// The bytes that have been written, a bit each.
    written: u8,
    entries: Vec<Entry>,
}

struct Page {
    /// The [`Shadow::generation`] that the words are of.
    generation: u64,
    words: [Word; WORDS],
}

/// The words of a memory, by address.
#[derive(Default)]
pub(super) struct Shadow {
    pages: HashMap<usize, Box<Page>, ByAddress>,
    generation: u64,
}

/// What addresses, numbers of blocks and places to meet are looked up by.
pub(super) type ByAddress = BuildHasherDefault<Multiply>;

/// They are spread well enough by a multiplication.
#[derive(Default)]
pub(super) struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_usize(number as usize);
    }

    fn write_u64(&mut self, number: u64) {
        self.write_usize(number as usize);
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
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

impl Shadow {
    /// Forgets all accesses.
    pub(super) fn clear(&mut self) {
        self.generation += 1;
    }

    /// The words of the page that has the address.
    fn words(&mut self, address: usize) -> &mut [Word; WORDS] {
        let generation = self.generation;
        let page = self.pages.entry(address / PAGE).or_insert_with(|| {
            Box::new(Page {
                generation,
                words: std::array::from_fn(|_| Word::default()),
            })
        });
        if page.generation != generation {
            page.generation = generation;
            for word in &mut page.words {
                word.written = 0;
                word.entries.clear();
            }
        }
        &mut page.words
    }

    /// The first access by another block than `own` that `knowledge` lacks.
    pub(super) fn first_foreign(&self, own: u64, knowledge: &Knowledge) -> Option<Foreign> {
        let pages = (self.pages.iter()).filter(|(_, page)| page.generation == self.generation);
        let words = pages.flat_map(|(page, contents)| {
            let first = page * PAGE;
            (first..).step_by(WORD).zip(&contents.words)
        });
        let foreign = words.flat_map(|(address, word)| {
            let late =
                |entry: &&Entry| entry.moment.block != own && knowledge.lacks(&entry.moment, entry.lanes).is_some();
            word.entries.iter().filter(late).map(move |entry| (address, entry))
        });
        let (address, entry) = foreign.min_by_key(|(address, _)| *address)?;
        Some(Foreign {
            address: address + entry.bytes.trailing_zeros() as usize,
            len: entry.bytes.count_ones() as usize,
            lane: knowledge.lacks(&entry.moment, entry.lanes)?,
            entry: entry.clone(),
        })
    }

    /// The bytes count as written.
    pub(super) fn assume_written(&mut self, address: usize, len: usize) {
        let end = address + len;
        for at in (address..end).step_by(WORD) {
            self.words(at)[at % PAGE / WORD].written = 0xf;
        }
    }

    /// Enters an access, and checks it.
    pub(super) fn access(
        &mut self,
        place: Bytes,
        kind: Kind,
        actor: &Actor<'_>,
        checks: Checks,
    ) -> Result<(), Problem> {
        if checks == Checks::NONE {
            return Ok(());
        }
        let end = place.address + place.len;
        let mut at = place.address;
        while at < end {
            let end_of_page = end.min((at / PAGE + 1) * PAGE);
            if actor.leaves_no_trace(kind) && !self.pages.contains_key(&(at / PAGE)) {
                at = end_of_page;
                continue;
            }
            let words = self.words(at);
            while at < end_of_page {
                let last = end.min((at / WORD + 1) * WORD);
                // At most four bits from the first byte's on.
                let bytes = ((1_u8 << (last - at)) - 1) << (at % WORD);
                words[at % PAGE / WORD]
                    .access(bytes, kind, actor, checks)
                    .map_err(|problem| match problem {
                        Problem::Uninitialised(byte) => Problem::Uninitialised(at - at % WORD + byte),
                        other => other,
                    })?;
                at = last;
            }
        }
        Ok(())
    }
}

impl Word {
    fn access(&mut self, bytes: u8, kind: Kind, actor: &Actor<'_>, checks: Checks) -> Result<(), Problem> {
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
        // Most accesses are one of a warp's whose other lanes have been here: they only add a lane.
        let joined = match kind.races_with(kind, true) {
            true => None,
            false => (self.entries.iter()).position(|entry| entry.is_joined_by(bytes, kind, actor)),
        };
        let mut number = 0;
        while let Some(entry) = self.entries.get(number) {
            let same_block = entry.moment.block == actor.moment.block;
            let races = entry.bytes & bytes != 0 && kind.races_with(entry.kind, same_block);
            let stands_for = joined.is_none() && entry.bytes & !bytes == 0 && kind.stands_for(entry.kind);
            if races || stands_for {
                let lacks = actor.lacks(entry);
                if races && let Some(lane) = lacks {
                    return Err(Problem::Race(Box::new(entry.clone()), lane));
                }
                if races && let Some(lane) = actor.hides(kind, entry) {
                    return Err(Problem::NotFenced(Box::new(entry.clone()), lane));
                }
                if stands_for && lacks.is_none() {
                    self.entries.swap_remove(number);
                    continue;
                }
            }
            number += 1;
        }
        let lanes = 1 << actor.lane;
        if let Some(joined) = joined {
            self.entries[joined].lanes |= lanes;
            return Ok(());
        }
        if self.entries.len() == MOST {
            self.entries.remove(0);
        }
        self.entries.push(Entry {
            moment: actor.moment,
            lanes,
            kind,
            bytes,
            at: actor.at,
        });
        Ok(())
    }
}
