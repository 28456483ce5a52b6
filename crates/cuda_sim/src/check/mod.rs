// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that a launch is made with on request: data races, and reads of memory that nobody has written.
//!
//! A race is two accesses to a byte, at least one of them a write, of two threads, that nothing orders, unless both are
//! atomic in a scope which has both threads (PTX ISA, "Memory Consistency Model"). What orders is what does so on a GPU,
//! and not the order in which this machine happens to run the threads: barriers, `sync_warp`, and whoever acquires what
//! another has released, each in its scope. Shuffles and votes order nothing.
//!
//! Each access is entered in a [`shadow`] of the memory by a [`clock`] of the thread's. A launch that is checked runs on the
//! thread of its caller alone, block after block, so that it finds the same each time.

mod clock;
mod copies;
mod finding;
mod shadow;

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context::Context;
use crate::count::{self, Operation};
use crate::error::Call;
use clock::{Knowledge, Moment};
pub use copies::Engine;
use copies::{Copies, Copy};
pub use finding::{Access, Array, Finding, FindingKind};
use shadow::{Actor, Entry, Problem, Shadow};

/// What sets the checks of launches that do not say theirs.
const VARIABLE: &str = "WARPSMITH_SIM_CHECKS";

/// What a launch is checked for beside what always is: the rules of barriers and warps, and bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Checks {
    /// Data races, in shared and in global memory.
    pub races: bool,
    /// Reads of shared memory that the block has not written.
    pub uninitialised: bool,
}

impl Checks {
    /// None of them.
    pub const NONE: Checks = Checks {
        races: false,
        uninitialised: false,
    };

    /// All of them.
    pub const ALL: Checks = Checks {
        races: true,
        uninitialised: true,
    };

    /// Those that the environment variable `WARPSMITH_SIM_CHECKS` names: `all`, `none`, or a list of `races` and
    /// `uninitialised` with commas between them. Without it none. What else it says is an error on the standard error,
    /// and then all.
    pub fn from_env() -> Checks {
        let Some(value) = std::env::var_os(VARIABLE) else {
            return Checks::NONE;
        };
        value.to_str().and_then(Checks::parse).unwrap_or_else(|| {
            eprintln!(
                "{VARIABLE} is {value:?}: wanted `all`, `none`, or a list of `races` and `uninitialised`; it is taken for `all`"
            );
            Checks::ALL
        })
    }

    fn parse(text: &str) -> Option<Checks> {
        match text.trim() {
            "" | "none" => return Some(Checks::NONE),
            "all" => return Some(Checks::ALL),
            _ => {}
        }
        let mut checks = Checks::NONE;
        for name in text.split(',') {
            match name.trim() {
                "races" => checks.races = true,
                "uninitialised" => checks.uninitialised = true,
                _ => return None,
            }
        }
        Some(checks)
    }
}

/// A memory of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Space {
    /// That of all blocks.
    Global,
    /// That of the block.
    Shared,
}

impl Space {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Shared => "shared",
        }
    }
}

/// The threads among which an operation is atomic, or orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those of the block.
    Block,
    /// All.
    Device,
}

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// By a load.
    Read,
    /// By a store.
    Write,
    /// By an atomic load.
    AtomicRead(Scope),
    /// By an atomic store, or by one that changes what is there.
    AtomicWrite(Scope),
}

impl Kind {
    fn reads(self) -> bool {
        matches!(self, Kind::Read | Kind::AtomicRead(_))
    }

    fn writes(self) -> bool {
        matches!(self, Kind::Write | Kind::AtomicWrite(_))
    }

    /// The instruction that does it.
    fn operation(self) -> Operation {
        match self {
            Kind::Read => Operation::Load,
            Kind::Write => Operation::Store,
            // Of a barrier in shared memory.
            Kind::AtomicRead(_) | Kind::AtomicWrite(_) => Operation::Atomic,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::AtomicRead(_) => "atomic read",
            Kind::AtomicWrite(_) => "atomic access",
        }
    }
}

/// An atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomic {
    /// A load.
    Load,
    /// A load that acquires.
    LoadAcquire,
    /// A store.
    Store,
    /// A store that releases.
    StoreRelease,
    /// One that reads and writes.
    Update,
    /// One that reads and writes, acquires and releases.
    UpdateOrdered,
}

/// What threads have handed on through a word of memory, for those who read it.
#[derive(Clone, Default)]
struct Published {
    /// For all.
    device: Knowledge,
    /// For the threads of this block.
    block: Option<(u64, Knowledge)>,
}

impl Published {
    fn add(&mut self, scope: Scope, block: u64, knowledge: &Knowledge) {
        match (scope, &mut self.block) {
            (Scope::Device, _) => self.device.learn(knowledge),
            (Scope::Block, Some((of, own))) if *of == block => own.learn(knowledge),
            (Scope::Block, own) => *own = Some((block, knowledge.clone())),
        }
    }

    /// What is published there, as seen by a load in `scope`, is added to this.
    fn take_in(&mut self, other: &Published, scope: Scope) {
        if scope == Scope::Device {
            self.device.learn(&other.device);
        }
        if let Some((block, knowledge)) = &other.block {
            self.add(Scope::Block, *block, knowledge);
        }
    }

    /// What a thread of `block` learns that acquires it in `scope`.
    fn teach(&self, scope: Scope, block: u64, knowledge: &mut Knowledge) {
        if scope == Scope::Device {
            knowledge.learn(&self.device);
        }
        if let Some((of, own)) = &self.block
            && *of == block
        {
            knowledge.learn(own);
        }
    }
}

#[derive(Clone, Default)]
struct Thread {
    tick: u32,
    knowledge: Knowledge,
    /// What it knew at its last fence, which its next atomic stores hand on.
    fenced: Option<(Scope, Knowledge)>,
    /// What it has read by atomic loads, and knows from its next fence on.
    pending: Published,
}

/// Where threads of a block meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Meeting {
    /// A warp's lanes of a mask.
    Warp(u32, u32),
    /// A barrier of some threads.
    Group(u32),
    /// The phases of that parity of a barrier in shared memory, at that address.
    Phase(usize, u32),
}

/// A block that runs.
struct Block {
    epoch: u64,
    threads: Vec<Thread>,
    shared: Shadow,
    copies: Copies,
    published: HashMap<usize, Published>,
    meetings: HashMap<Meeting, Knowledge>,
}

#[derive(Default)]
struct State {
    round: u64,
    blocks: HashMap<u64, Block>,
    /// Those that have ended, whose memory serves others.
    spare: Vec<Block>,
    global: Shadow,
    published: HashMap<usize, Published>,
}

/// The checks of a launch.
pub(crate) struct Checker {
    checks: Checks,
    state: Mutex<State>,
}

/// Bytes of memory.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) space: Space,
    pub(crate) address: usize,
    pub(crate) len: usize,
    /// The most that one instruction accesses; 0 where no thread's instruction does.
    pub(crate) align: usize,
}

impl Bytes {
    #[inline(always)]
    pub(crate) fn new(space: Space, address: usize, len: usize, align: usize) -> Bytes {
        Bytes {
            space,
            address,
            len,
            align,
        }
    }
}

/// A thread of the block that runs.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub(crate) block: u64,
    pub(crate) thread: u32,
}

impl Who {
    fn lane(self) -> u32 {
        self.thread % 32
    }
}

impl Block {
    fn moment(&self, who: Who, round: u64) -> Moment {
        Moment {
            round,
            block: who.block,
            epoch: self.epoch,
            warp: who.thread / 32,
            tick: self.threads[who.thread as usize].tick,
        }
    }

    /// What `who` knows now, itself included; what it does from here on is later.
    fn release(&mut self, who: Who, round: u64) -> Knowledge {
        let moment = self.moment(who, round);
        let thread = &mut self.threads[who.thread as usize];
        thread.tick += 1;
        let mut knowledge = thread.knowledge.clone();
        knowledge.see(&moment, who.lane());
        knowledge
    }

    /// All threads have met: what any of them knows, all know, and what they did is over.
    fn meet(&mut self, number: u64) {
        self.epoch += 1;
        let mut all = Knowledge::default();
        for thread in &self.threads {
            all.learn(&thread.knowledge);
        }
        all.enter(number, self.epoch);
        for thread in &mut self.threads {
            thread.knowledge = all.clone();
        }
        self.meetings.clear();
    }
}

impl State {
    /// The block that runs, and what all have.
    fn parts(&mut self, who: Who) -> (&mut Block, &mut Shadow, &mut HashMap<usize, Published>, u64) {
        let block = self.blocks.get_mut(&who.block).expect("a block that runs has begun");
        (block, &mut self.global, &mut self.published, self.round)
    }
}

impl Checker {
    /// `None` if there is nothing to check.
    pub(crate) fn new(checks: Checks) -> Option<Checker> {
        (checks != Checks::NONE).then(|| Checker {
            checks,
            state: Mutex::default(),
        })
    }

    /// One thread runs at a time: nobody waits.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin_block(&self, number: u64, threads: u32) {
        let mut state = self.state();
        let mut block = state.spare.pop().unwrap_or_else(|| Block {
            epoch: 0,
            threads: Vec::new(),
            shared: Shadow::default(),
            copies: Copies::default(),
            published: HashMap::new(),
            meetings: HashMap::new(),
        });
        block.epoch = 0;
        block.threads.clear();
        block.threads.resize(
            threads as usize,
            Thread {
                knowledge: Knowledge::of_epoch(number, 0),
                ..Thread::default()
            },
        );
        block.shared.clear();
        block.copies.clear();
        block.published.clear();
        block.meetings.clear();
        state.blocks.insert(number, block);
    }

    pub(crate) fn end_block(&self, number: u64) {
        let mut state = self.state();
        if let Some(block) = state.blocks.remove(&number) {
            state.spare.push(block);
        }
    }

    /// All threads of the block have come to its barrier.
    pub(crate) fn barrier(&self, number: u64) {
        if let Some(block) = self.state().blocks.get_mut(&number) {
            block.meet(number);
        }
    }

    /// All blocks have come to the grid barrier.
    pub(crate) fn grid_barrier(&self) {
        let mut state = self.state();
        state.round += 1;
        for (&number, block) in &mut state.blocks {
            block.meet(number);
        }
    }

    /// A thread comes to where some meet.
    pub(crate) fn arrive(&self, who: Who, meeting: Meeting) {
        let mut state = self.state();
        let (block, _, _, round) = state.parts(who);
        let knowledge = block.release(who, round);
        block.meetings.entry(meeting).or_default().learn(&knowledge);
    }

    /// All that were to come there have.
    pub(crate) fn leave(&self, who: Who, meeting: Meeting) {
        let mut state = self.state();
        let (block, ..) = state.parts(who);
        if let Some(knowledge) = block.meetings.get(&meeting) {
            block.threads[who.thread as usize].knowledge.learn(knowledge);
        }
    }

    pub(crate) fn fence(&self, who: Who, scope: Scope) {
        let mut state = self.state();
        let (block, _, _, round) = state.parts(who);
        let thread = &mut block.threads[who.thread as usize];
        let pending = std::mem::take(&mut thread.pending);
        pending.teach(scope, who.block, &mut thread.knowledge);
        let knowledge = block.release(who, round);
        block.threads[who.thread as usize].fenced = Some((scope, knowledge));
    }

    /// An access that is not atomic.
    fn access(&self, who: Who, place: Bytes, kind: Kind, at: &'static Location<'static>) -> Result<(), Problem> {
        self.enter(&mut self.state(), who, place, kind, at)
    }

    fn enter(
        &self,
        state: &mut State,
        who: Who,
        place: Bytes,
        kind: Kind,
        at: &'static Location<'static>,
    ) -> Result<(), Problem> {
        let (block, global, _, round) = state.parts(who);
        let actor = Actor {
            moment: block.moment(who, round),
            lane: who.lane(),
            knowledge: &block.threads[who.thread as usize].knowledge,
            at,
        };
        // The host may have written global memory.
        let uninitialised = self.checks.uninitialised && place.space == Space::Shared;
        let shadow = match place.space {
            Space::Global => global,
            Space::Shared => {
                let copy = block.copies.access(place, kind).filter(|_| self.checks.races);
                if let Some(copy) = copy {
                    return Err(Problem::NotWaitedFor(copy));
                }
                &mut block.shared
            }
        };
        let checks = Checks {
            uninitialised,
            ..self.checks
        };
        shadow.access(place, kind, &actor, checks)
    }

    /// An atomic operation.
    fn atomic(
        &self,
        who: Who,
        place: Bytes,
        operation: Atomic,
        scope: Scope,
        at: &'static Location<'static>,
    ) -> Result<(), Problem> {
        let mut state = self.state();
        for kind in operation.kinds(scope) {
            self.enter(&mut state, who, place, kind, at)?;
        }
        let (block, _, published, round) = state.parts(who);
        let released = match operation {
            Atomic::StoreRelease | Atomic::UpdateOrdered => Some((scope, block.release(who, round))),
            Atomic::Store | Atomic::Update => block.threads[who.thread as usize].fenced.clone(),
            Atomic::Load | Atomic::LoadAcquire => None,
        };
        let thread = &mut block.threads[who.thread as usize];
        let published = match place.space {
            Space::Global => published,
            Space::Shared => &mut block.published,
        };
        if let Some(there) = published.get(&place.address) {
            match operation {
                Atomic::LoadAcquire | Atomic::UpdateOrdered => there.teach(scope, who.block, &mut thread.knowledge),
                Atomic::Load | Atomic::Update => thread.pending.take_in(there, scope),
                Atomic::Store | Atomic::StoreRelease => {}
            }
        }
        // An operation that changes what is there goes on handing on what was; a store ends that.
        if matches!(operation, Atomic::Store | Atomic::StoreRelease) {
            published.remove(&place.address);
        }
        if let Some((fence, knowledge)) = released {
            let scope = if fence == Scope::Block { fence } else { scope };
            published
                .entry(place.address)
                .or_default()
                .add(scope, who.block, &knowledge);
        }
        Ok(())
    }
}

impl Atomic {
    /// The instruction that does it.
    fn operation(self) -> Operation {
        match self {
            Atomic::Load | Atomic::LoadAcquire => Operation::Load,
            Atomic::Store | Atomic::StoreRelease => Operation::Store,
            Atomic::Update | Atomic::UpdateOrdered => Operation::Atomic,
        }
    }

    /// What it does to memory, one after another.
    fn kinds(self, scope: Scope) -> impl Iterator<Item = Kind> {
        let reads = !matches!(self, Atomic::Store | Atomic::StoreRelease);
        let writes = !matches!(self, Atomic::Load | Atomic::LoadAcquire);
        let read = reads.then_some(Kind::AtomicRead(scope));
        read.into_iter().chain(writes.then_some(Kind::AtomicWrite(scope)))
    }
}

/// Checks an access by the running thread, where a problem is its fault, and counts it.
#[cold]
pub(crate) fn access(context: &Context<'_>, call: Call, place: Bytes, kind: Kind) {
    if place.align > 0 {
        context.preempt();
    }
    check(context, call, place, kind);
    count::access(context, call, place, kind.operation());
}

fn check(context: &Context<'_>, call: Call, place: Bytes, kind: Kind) {
    let Some(checker) = running(context) else {
        return;
    };
    if let Err(problem) = checker.access(context.who(), place, kind, call.at) {
        raise(context, call, place, kind, problem);
    }
}

/// As [`access`], of an atomic operation.
#[cold]
pub(crate) fn atomic(context: &Context<'_>, call: Call, place: Bytes, operation: Atomic, scope: Scope) {
    context.preempt();
    check_atomic(context, call, place, operation, scope);
    count::access(context, call, place, operation.operation());
}

fn check_atomic(context: &Context<'_>, call: Call, place: Bytes, operation: Atomic, scope: Scope) {
    let Some(checker) = running(context) else {
        return;
    };
    if let Err(problem) = checker.atomic(context.who(), place, operation, scope, call.at) {
        let kind = operation.kinds(scope).last().unwrap_or(Kind::AtomicRead(scope));
        raise(context, call, place, kind, problem);
    }
}

#[cold]
pub(crate) fn fence(context: &Context<'_>, scope: Scope) {
    if let Some(checker) = running(context) {
        checker.fence(context.who(), scope);
    }
}

/// Shared memory that may be read though nobody has written it.
#[cold]
pub(crate) fn assume_written(context: &Context<'_>, address: usize, len: usize) {
    if let Some(checker) = running(context) {
        let mut state = checker.state();
        let (block, ..) = state.parts(context.who());
        block.shared.assume_written(address, len);
    }
}

/// Calls `note` with the copies of the block, and the running thread.
#[cold]
pub(crate) fn copies(context: &Context<'_>, note: impl FnOnce(&mut Copies, u32)) {
    if let Some(checker) = running(context) {
        let mut state = checker.state();
        let (block, ..) = state.parts(context.who());
        note(&mut block.copies, context.linear());
    }
}

/// The running thread comes to a place where some meet.
#[cold]
pub(crate) fn arrive(context: &Context<'_>, meeting: Meeting) {
    if let Some(checker) = running(context) {
        checker.arrive(context.who(), meeting);
    }
}

/// It goes on from there.
#[cold]
pub(crate) fn leave(context: &Context<'_>, meeting: Meeting) {
    if let Some(checker) = running(context) {
        checker.leave(context.who(), meeting);
    }
}

/// The checker of a launch; none for destructors of a thread that unwinds.
pub(crate) fn running<'a>(context: &'a Context<'_>) -> Option<&'a Checker> {
    let checker = context.grid.checker.as_ref()?;
    (!context.unwinds()).then_some(checker)
}

#[cold]
fn raise(context: &Context<'_>, call: Call, place: Bytes, kind: Kind, problem: Problem) -> ! {
    let who = context.who();
    let (found, place, other, message) = match problem {
        Problem::Uninitialised(address) => {
            let byte = Bytes {
                address,
                len: 1,
                ..place
            };
            let name = context.name_of(byte);
            let message = format!("uninitialised: {name} is read, which no thread of the block has written");
            (FindingKind::Uninitialised, byte, None, message)
        }
        Problem::Race(other, lane) => {
            let message = race(context, &context.name_of(place), kind, &other, lane);
            let thread = other.moment.warp * 32 + lane;
            let other = access_of(context, other.kind, other.moment.block, thread, other.at);
            (FindingKind::Race, place, Some(other), message)
        }
        Problem::NotWaitedFor(copy) => {
            let message = not_waited_for(context, &context.name_of(place), kind, &copy);
            let other = access_of(context, copy.kind(), who.block, copy.thread, copy.at);
            (FindingKind::NotWaitedFor, place, Some(other), message)
        }
    };
    let (array, offset) = context.array_of(place);
    let finding = Finding {
        kind: found,
        array,
        offset,
        bytes: place.len,
        access: access_of(context, kind, who.block, who.thread, call.at),
        other,
    };
    context.raise_finding(call, message, finding)
}

fn access_of(context: &Context<'_>, kind: Kind, block: u64, thread: u32, at: &'static Location<'static>) -> Access {
    Access {
        kind,
        block: context.grid.config.grid.position(block),
        thread: context.index_of(thread),
        location: at.into(),
    }
}

/// What is wrong with an access to what a copy still uses.
fn not_waited_for(context: &Context<'_>, place: &str, kind: Kind, copy: &Copy) -> String {
    let (own, remedy, at) = (kind.name(), copy.remedy(), copy.at);
    let uses = if copy.kind() == Kind::Write { "fills" } else { "reads" };
    let thread = context.index_of(copy.thread);
    format!(
        "not waited for: this {own} of {place} comes while a copy may still be at it, which thread {thread} has asked for at \
         {at} and which {uses} that memory; the thread waits by {remedy}"
    )
}

/// What a race is, and what would order the two accesses.
fn race(context: &Context<'_>, place: &str, kind: Kind, other: &Entry, lane: u32) -> String {
    let who = context.who();
    let thread = context.index_of(other.moment.warp * 32 + lane);
    let (block, remedy) = if other.moment.block != who.block {
        let remedy =
            "blocks of a launch are ordered by what one releases and another acquires in the scope of the device";
        let block = context.grid.config.grid.position(other.moment.block);
        (format!("block {block}, "), remedy)
    } else if other.moment.warp == who.thread / 32 {
        (
            String::new(),
            "a `sync_warp` or a barrier between them would order them",
        )
    } else {
        (String::new(), "a barrier between them would order them")
    };
    let (own, theirs, at) = (kind.name(), other.kind.name(), other.at);
    format!(
        "data race on {place}: this {own}, and the {theirs} of {block}thread {thread} at {at}, are not ordered; {remedy}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_named() {
        let races = Checks {
            races: true,
            ..Checks::NONE
        };
        assert_eq!(Checks::parse("all"), Some(Checks::ALL));
        assert_eq!(Checks::parse(" none "), Some(Checks::NONE));
        assert_eq!(Checks::parse("races"), Some(races));
        assert_eq!(Checks::parse("uninitialised, races"), Some(Checks::ALL));
        assert_eq!(Checks::parse("race"), None);
    }
}
