// SPDX-License-Identifier: MIT OR Apache-2.0
//! For each [`word`](super::word) of memory that a launch touches, who touched it last, and what copies are there.
//!
//! A piece of 16 bytes, the most that an instruction of a thread accesses, is one word as long as all of it is accessed at
//! once: operands of matrix products, which take the most time, are read so. The memory's own words it has from the first
//! access to a part of it on, until all of it is written at once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

use super::clock::Knowledge;
use super::copies::{Copies, Copy, Stamp};
use super::word::{ALL, Actor, Entry, Problem, Word};
use super::{Bytes, Checks, Kind};

/// Pieces of a page.
const PIECES: usize = 16;
const PIECE: usize = 16;
const WORD: usize = 4;
const PAGE: usize = PIECES * PIECE;

/// An access by a block to another one's shared memory.
pub(crate) struct Foreign {
    /// The word, or the part of it, that is accessed.
    pub(super) address: usize,
    pub(super) len: usize,
    pub(super) entry: Entry,
    /// The lane that did it.
    pub(super) lane: u32,
}

/// See the module. What an access to all of it needs is within one line of the cache, but for the entries.
#[derive(Default)]
#[repr(C, align(64))]
struct Piece {
    /// What copies and products may still be under way here.
    copies: Vec<Copy>,
    /// The stamp of that which came last, and bytes that it is at: those of its kind are mostly many, of other threads.
    latest: (Stamp, u16),
    /// Whether one of them writes, for which readers have to look.
    is_copied_to: bool,
    is_divided: bool,
    /// All four of them if it is divided, else the first, which stands for all.
    words: [Word; PIECE / WORD],
}

struct Page {
    /// The address of its first piece, by the size of a page.
    number: usize,
    /// The [`Shadow::generation`] that the pieces are of.
    generation: u64,
    pieces: [Piece; PIECES],
}

/// How many pages are found without a look-up.
const RECENT: usize = 64;

/// The pieces of a memory, by address.
pub(super) struct Shadow {
    /// In boxes, for a list that grows moves what it has, and a page is long.
    #[expect(clippy::vec_box)]
    pages: Vec<Box<Page>>,
    /// Where in [`pages`](Self::pages) is what, by their numbers.
    places: HashMap<usize, usize, ByAddress>,
    /// Of the last pages that were looked up their numbers and places, each where its number modulo their count says.
    recent: [(usize, usize); RECENT],
    generation: u64,
}

impl Default for Shadow {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            places: HashMap::default(),
            // A page of no address.
            recent: [(usize::MAX, 0); RECENT],
            generation: 0,
        }
    }
}

/// What addresses, numbers of blocks, places to meet and places in the source are looked up by.
pub(crate) type ByAddress = BuildHasherDefault<Multiply>;

/// They are spread well enough by a multiplication.
#[derive(Default)]
pub(crate) struct Multiply(u64);

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

impl Shadow {
    /// Forgets all accesses.
    pub(super) fn clear(&mut self) {
        self.generation += 1;
    }

    /// Where the page of that number is, if it has been accessed.
    fn find(&mut self, number: usize) -> Option<usize> {
        let recent = &mut self.recent[number % RECENT];
        if recent.0 != number {
            *recent = (number, *self.places.get(&number)?);
        }
        Some(recent.1)
    }

    fn add_page(&mut self, number: usize) -> usize {
        let place = self.pages.len();
        self.pages.push(Box::new(Page {
            number,
            generation: self.generation,
            pieces: std::array::from_fn(|_| Piece::default()),
        }));
        self.places.insert(number, place);
        place
    }

    /// The pieces of the page that has the address.
    fn pieces(&mut self, address: usize) -> &mut [Piece; PIECES] {
        let number = address / PAGE;
        let place = match self.find(number) {
            Some(place) => place,
            None => self.add_page(number),
        };
        let generation = self.generation;
        let page = &mut self.pages[place];
        if page.generation != generation {
            page.generation = generation;
            page.pieces.iter_mut().for_each(Piece::clear);
        }
        &mut page.pieces
    }

    /// The first access by another block than `own` that `knowledge` lacks.
    pub(super) fn first_foreign(&self, own: u64, knowledge: &Knowledge) -> Option<Foreign> {
        let pages = (self.pages.iter()).filter(|page| page.generation == self.generation);
        let pieces = pages.flat_map(|page| {
            let first = page.number * PAGE;
            (first..).step_by(PIECE).zip(&page.pieces)
        });
        let words = pieces.flat_map(|(address, piece)| {
            let (words, unit) = piece.words();
            let addresses = (address..).step_by(WORD);
            addresses.zip(words).map(move |(address, word)| (address, word, unit))
        });
        let foreign = words.flat_map(|(address, word, unit)| {
            let late =
                |entry: &&Entry| entry.moment.block != own && knowledge.lacks(&entry.moment, entry.lanes).is_some();
            let entries = word.entries.iter().filter(late);
            entries.map(move |entry| (address, entry, unit))
        });
        let (address, entry, unit) = foreign.min_by_key(|(address, ..)| *address)?;
        Some(Foreign {
            address: address + entry.bytes.trailing_zeros() as usize * unit,
            len: entry.bytes.count_ones() as usize * unit,
            lane: knowledge.lacks(&entry.moment, entry.lanes)?,
            entry: entry.clone(),
        })
    }

    /// The bytes, whole words, count as written.
    pub(super) fn assume_written(&mut self, address: usize, len: usize) {
        for (at, len) in parts(address, len, PIECE) {
            self.pieces(at)[at % PAGE / PIECE].assume_written(at, len);
        }
    }

    /// Reads what accesses to these places are about to compare with. Of an access in its turn the processor waits for memory, as
    /// what a block's shadow takes is more than its caches hold; here it asks for all of them at once.
    pub(super) fn touch(&self, places: &[Bytes]) {
        let pieces = places.iter().filter_map(|place| {
            let number = place.address / PAGE;
            let at = match self.recent[number % RECENT] {
                (found, at) if found == number => at,
                _ => *self.places.get(&number)?,
            };
            Some(&self.pages[at].pieces[place.address % PAGE / PIECE])
        });
        touch(pieces);
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
        for (at, len) in parts(place.address, place.len, PAGE) {
            if actor.leaves_no_trace(kind) && self.find(at / PAGE).is_none() {
                continue;
            }
            let pieces = self.pieces(at);
            if len > PIECE {
                touch(&pieces[at % PAGE / PIECE..(at + len - 1) % PAGE / PIECE + 1]);
            }
            for (at, len) in parts(at, len, PIECE) {
                pieces[at % PAGE / PIECE].access(at, len, kind, actor, checks)?;
            }
        }
        Ok(())
    }
}

/// As [`Shadow::touch`].
fn touch<'a>(pieces: impl IntoIterator<Item = &'a Piece>) {
    let newest = pieces.into_iter().map(Piece::newest);
    black_box(newest.fold(0, |all, newest| all ^ newest));
}

/// The parts of `len` bytes from `address` on, each within one unit of memory: the addresses and their lengths.
fn parts(address: usize, len: usize, unit: usize) -> impl Iterator<Item = (usize, usize)> {
    let (mut at, end) = (address, address + len);
    std::iter::from_fn(move || {
        let next = end.min((at / unit + 1) * unit);
        let part = (at, next - at);
        (std::mem::replace(&mut at, next) < end).then_some(part)
    })
}

/// The bits of a word or a piece that `len` bytes from `address` on have, at most all from there on.
fn bits(address: usize, len: usize, unit: usize) -> u16 {
    (((1_u32 << len) - 1) << (address % unit)) as u16
}

impl Piece {
    /// Something of the newest access and the newest copy that it keeps.
    fn newest(&self) -> u32 {
        let access = self.words[0].entries.last().map_or(0, |entry| entry.moment.tick);
        let copy = self.copies.last().map_or(0, |copy| copy.bytes);
        access ^ u32::from(copy)
    }

    fn clear(&mut self) {
        self.copies.clear();
        self.latest = Default::default();
        self.is_copied_to = false;
        self.is_divided = false;
        self.words[0].clear();
    }

    /// Its words, and the bytes that a bit of theirs stands for.
    fn words(&self) -> (&[Word], usize) {
        if self.is_divided {
            (&self.words, 1)
        } else {
            (&self.words[..1], WORD)
        }
    }

    fn divide(&mut self) {
        if !std::mem::replace(&mut self.is_divided, true) {
            let [first, others @ ..] = &mut self.words;
            others.iter_mut().for_each(|word| word.copy(first));
        }
    }

    fn assume_written(&mut self, address: usize, len: usize) {
        if len < PIECE {
            self.divide();
        }
        if !self.is_divided {
            self.words[0].written = ALL;
        }
        for (at, _) in parts(address, len, WORD) {
            self.words[at % PIECE / WORD].written = ALL;
        }
    }

    /// An access to that part of it.
    fn access(
        &mut self,
        address: usize,
        len: usize,
        kind: Kind,
        actor: &Actor<'_>,
        checks: Checks,
    ) -> Result<(), Problem> {
        let bytes = bits(address, len, PIECE);
        self.find_copy(bytes, kind, actor.copies)?;
        if len < PIECE {
            self.divide();
        }
        if self.is_divided {
            for (at, len) in parts(address, len, WORD) {
                let word = &mut self.words[at % PIECE / WORD];
                word.access(bits(at, len, WORD) as u8, kind, actor, checks)
                    .map_err(|problem| problem.within(at - at % WORD, 1))?;
            }
            // Such an access is an entry of its own: they are alike again if it is the only one of each.
            let is_own = kind.races_with(kind, true);
            self.is_divided = len < PIECE || !is_own || self.words.iter().any(|word| word.entries.len() > 1);
        } else {
            let access = self.words[0].access(ALL, kind, actor, checks);
            access.map_err(|problem| problem.within(address, WORD))?;
        }
        if let Some(copy) = actor.copy {
            self.begin(copy.of(bytes), actor.copies);
        }
        Ok(())
    }

    /// It is a problem if the access comes too early for a copy. Those that somebody has waited for are forgotten.
    fn find_copy(&mut self, bytes: u16, kind: Kind, all: &Copies) -> Result<(), Problem> {
        if self.copies.is_empty() || !kind.writes() && !self.is_copied_to {
            return Ok(());
        }
        let forbids = |copy: &Copy| copy.forbids(bytes, kind);
        self.forget(|copy| forbids(copy) && !all.is_under_way(copy));
        let first = self.copies.iter().copied().find(forbids);
        first.map_or(Ok(()), |copy| Err(Problem::NotWaitedFor(copy)))
    }

    fn begin(&mut self, copy: Copy, all: &Copies) {
        let (latest, bytes) = self.latest;
        let known = if copy.stamp.is(latest) { bytes } else { 0 };
        if copy.bytes & !known == 0 {
            return;
        }
        if !self.copies.iter_mut().any(|other| other.gives_way_to(copy)) {
            self.forget(|copy| !all.is_under_way(copy));
            self.copies.push(copy);
        }
        self.latest = (copy.stamp, known | copy.bytes);
        self.is_copied_to |= copy.kind.writes();
    }

    /// Removes the copies that are so.
    fn forget(&mut self, is_over: impl Fn(&Copy) -> bool) {
        self.copies.retain(|copy| !is_over(copy));
        self.latest = Default::default();
        self.is_copied_to = self.copies.iter().any(|copy| copy.kind.writes());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use proptest::prelude::*;

    use super::super::block::Who;
    use super::super::clock::Moment;
    use super::super::copies::Awaited;
    use super::super::{Engine, Scope, Space};
    use super::*;

    const BLOCK: u64 = 7;
    /// Two lanes of a warp, and one of another.
    const THREADS: [u32; 3] = [0, 1, 32];

    #[derive(Clone, Debug)]
    enum Step {
        /// By one of the threads, of so many bytes from there on.
        Access(usize, Kind, usize, usize),
        Assume(usize, usize),
        /// One of the threads tells another what it knows.
        Tell(usize, usize),
        Barrier,
        NextBlock,
    }

    fn step() -> impl Strategy<Value = Step> {
        let kind = prop_oneof![
            3 => Just(Kind::Read),
            3 => Just(Kind::Write),
            1 => Just(Kind::AtomicRead(Scope::Block)),
            1 => Just(Kind::AtomicWrite(Scope::Block)),
            1 => Just(Kind::AsyncUpdate),
        ];
        // Aligned ones, and longer ones that are not.
        let place = (0..5_u32, 0..64_usize).prop_map(|(log, at)| (at >> log << log, 1 << log));
        let place = prop_oneof![4 => place, 1 => (0..32_usize, 1..40_usize)];
        prop_oneof![
            12 => (0..THREADS.len(), kind, place).prop_map(|(thread, kind, (at, len))| Step::Access(thread, kind, at, len)),
            1 => (0..16_usize, 1..8_usize).prop_map(|(word, words)| Step::Assume(word * WORD, words * WORD)),
            4 => (0..THREADS.len(), 0..THREADS.len()).prop_map(|(from, to)| Step::Tell(from, to)),
            2 => Just(Step::Barrier),
            1 => Just(Step::NextBlock),
        ]
    }

    /// The threads of a block.
    struct Threads {
        epoch: u64,
        ticks: [u32; THREADS.len()],
        knowledge: [Knowledge; THREADS.len()],
    }

    impl Threads {
        fn in_epoch(epoch: u64) -> Threads {
            Threads {
                epoch,
                ticks: [0; THREADS.len()],
                knowledge: std::array::from_fn(|_| Knowledge::of_epoch(BLOCK, epoch)),
            }
        }

        fn moment(&self, thread: usize) -> Moment {
            Moment {
                round: 0,
                block: BLOCK,
                epoch: self.epoch,
                warp: THREADS[thread] / 32,
                tick: self.ticks[thread],
            }
        }

        fn tell(&mut self, from: usize, to: usize) {
            let moment = self.moment(from);
            self.ticks[from] += 1;
            let mut knowledge = self.knowledge[from].clone();
            knowledge.see(&moment, THREADS[from] % 32);
            self.knowledge[to].learn(&knowledge);
        }

        /// Whether something is wrong with an access.
        fn access(&self, shadow: &mut Shadow, (thread, kind): (usize, Kind), place: Bytes, checks: Checks) -> bool {
            let actor = Actor {
                space: Space::Shared,
                moment: self.moment(thread),
                lane: THREADS[thread] % 32,
                knowledge: &self.knowledge[thread],
                at: Location::caller(),
                copies: &Copies::default(),
                copy: None,
            };
            shadow.access(place, kind, &actor, checks).is_err()
        }
    }

    proptest! {
        /// The same is found as with each byte accessed for itself, by which no piece is ever one word.
        #[test]
        fn pieces_are_as_their_bytes(steps in prop::collection::vec(step(), 0..40), races: bool) {
            let checks = Checks { races, uninitialised: !races };
            let (mut shadow, mut bytes) = (Shadow::default(), Shadow::default());
            let mut threads = Threads::in_epoch(0);
            for step in steps {
                match step {
                    Step::Access(thread, kind, at, len) => {
                        let place = Bytes::new(Space::Shared, at, len, len);
                        let found = threads.access(&mut shadow, (thread, kind), place, checks);
                        let wanted = place.of(1).elements().any(|byte| threads.access(&mut bytes, (thread, kind), byte, checks));
                        prop_assert_eq!(found, wanted, "{:?} of {} bytes at {} by {}", kind, len, at, thread);
                        if found {
                            break;
                        }
                    }
                    Step::Assume(at, len) => {
                        shadow.assume_written(at, len);
                        bytes.assume_written(at, len);
                    }
                    Step::Tell(from, to) => threads.tell(from, to),
                    Step::Barrier => threads = Threads::in_epoch(threads.epoch + 1),
                    Step::NextBlock => {
                        shadow.clear();
                        bytes.clear();
                        threads = Threads::in_epoch(0);
                    }
                }
            }
        }
    }

    #[derive(Clone, Debug)]
    enum CopyStep {
        /// One of the threads asks for copies or products that do that with those bytes of a piece, to be waited for so.
        Begin(usize, Wait, Kind, Vec<u16>),
        Access(Kind, u16),
        Commit(usize, Engine),
        /// For all groups of that engine but the newest ones; or for a phase.
        End(usize, Wait, u32),
    }

    #[derive(Clone, Copy, Debug)]
    enum Wait {
        Groups(Engine),
        Phase(u32),
    }

    impl Wait {
        fn of(self, who: Who) -> Awaited {
            match self {
                Wait::Groups(engine) => Awaited::groups(engine, who),
                Wait::Phase(parity) => Awaited::Phases(64, parity),
            }
        }
    }

    fn copy_step() -> impl Strategy<Value = CopyStep> {
        let thread = || 0..THREADS.len();
        let engine = || prop_oneof![Just(Engine::Async), Just(Engine::BulkRead), Just(Engine::Matrix)];
        let wait = || prop_oneof![3 => engine().prop_map(Wait::Groups), 1 => (0..2_u32).prop_map(Wait::Phase)];
        let copies = prop_oneof![
            3 => Just(Kind::AsyncRead),
            1 => Just(Kind::AsyncWrite),
            1 => Just(Kind::AsyncUpdate),
            1 => Just(Kind::Write),
        ];
        let threads =
            prop_oneof![3 => Just(Kind::Read), 1 => Just(Kind::Write), 1 => Just(Kind::AtomicRead(Scope::Block))];
        let bytes = || prop_oneof![2 => Just(u16::MAX), 1 => Just(0xf), 1 => Just(0xff00)];
        let places = prop::collection::vec(bytes(), 1..4);
        prop_oneof![
            6 => (thread(), wait(), copies, places).prop_map(|(who, wait, kind, bytes)| CopyStep::Begin(who, wait, kind, bytes)),
            3 => (threads, bytes()).prop_map(|(kind, bytes)| CopyStep::Access(kind, bytes)),
            2 => (thread(), engine()).prop_map(|(who, engine)| CopyStep::Commit(who, engine)),
            3 => (thread(), wait(), 0..2_u32).prop_map(|(who, wait, newest)| CopyStep::End(who, wait, newest)),
        ]
    }

    /// Whether such an access comes too early for a copy, by all that are there.
    fn is_forbidden(copies: &[Copy], bytes: u16, kind: Kind, all: &Copies) -> bool {
        let mut under_way = copies.iter().filter(|copy| all.is_under_way(copy));
        under_way.any(|copy| copy.forbids(bytes, kind))
    }

    proptest! {
        /// The same copies are found as where each is entered, and none is forgotten.
        #[test]
        fn copies_that_are_alike_are_one(steps in prop::collection::vec(copy_step(), 0..60)) {
            let (mut piece, mut copies, mut all) = (Piece::default(), Vec::<Copy>::new(), Copies::default());
            let who = |thread: usize| Who { block: BLOCK, thread: THREADS[thread] };
            for step in steps {
                match step {
                    CopyStep::Begin(thread, wait, kind, places) => {
                        let copy = all.begin(wait.of(who(thread)), who(thread), kind, Location::caller());
                        for bytes in places {
                            let found = piece.find_copy(bytes, kind, &all).is_err();
                            prop_assert_eq!(found, is_forbidden(&copies, bytes, kind, &all));
                            if found {
                                return Ok(());
                            }
                            let copy = copy.of(bytes);
                            piece.begin(copy, &all);
                            if !copies.iter_mut().any(|other| other.gives_way_to(copy)) {
                                copies.push(copy);
                            }
                        }
                    }
                    CopyStep::Access(kind, bytes) => {
                        let found = piece.find_copy(bytes, kind, &all).is_err();
                        prop_assert_eq!(found, is_forbidden(&copies, bytes, kind, &all));
                    }
                    CopyStep::Commit(thread, engine) => all.commit(engine, who(thread)),
                    CopyStep::End(thread, Wait::Groups(engine), newest) => all.wait(engine, who(thread), newest),
                    CopyStep::End(_, Wait::Phase(parity), _) => all.wait_for_phase(64, parity),
                }
            }
        }
    }
}
