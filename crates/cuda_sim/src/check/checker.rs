// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of a launch: what its threads do is entered here.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::block::{Block, Meeting, Who};
use super::clock::Knowledge;
use super::copies::{Awaited, Copies, Copy};
use super::published::Words;
use super::shadow::{Actor, ByAddress, Foreign, Problem, Shadow};
use super::{Atomic, Bytes, Checks, Engine, Kind, Scope, Space};
use crate::written::Written;

/// What may come after the end of the block whose shared memory it accesses.
pub(crate) enum Late {
    /// An access by another block of the cluster.
    Foreign(Foreign),
    /// A copy that nobody has waited for.
    Copy(Bytes, Copy),
}

#[derive(Default)]
pub(super) struct State {
    round: u64,
    blocks: HashMap<u64, Block, ByAddress>,
    /// Those that have ended, whose memory serves others.
    spare: Vec<Block>,
    global: Shadow,
    /// What copies write to global memory.
    copies: Copies,
    published: Words,
}

/// The checks of a launch.
pub(crate) struct Checker<'a> {
    checks: Checks,
    /// What of global memory has been written.
    written: Option<&'a Written>,
    state: Mutex<State>,
}

impl State {
    /// The block that runs, and what all have.
    fn parts(&mut self, who: Who) -> (&mut Block, &mut Shadow, u64) {
        let (block, global, _, round) = self.all_parts(who);
        (block, global, round)
    }

    /// The same, and what copies write to global memory.
    fn all_parts(&mut self, who: Who) -> (&mut Block, &mut Shadow, &mut Copies, u64) {
        let block = self.blocks.get_mut(&who.block).expect("a block that runs has begun");
        (block, &mut self.global, &mut self.copies, self.round)
    }

    /// The copies at that memory, of that block if it is its own.
    fn copies(&mut self, space: Space, block: u64) -> &mut Copies {
        match space {
            Space::Global => &mut self.copies,
            Space::Shared => &mut self.blocks.get_mut(&block).expect("a block that runs has begun").copies,
        }
    }

    /// What is handed on through the memory that a place is in.
    fn published(&mut self, who: Who, place: Bytes) -> &mut Words {
        match place.space {
            Space::Global => &mut self.published,
            Space::Shared => {
                let holder = self.blocks.get_mut(&place.holder.unwrap_or(who.block));
                &mut holder.expect("the access was entered there").published
            }
        }
    }
}

impl<'a> Checker<'a> {
    /// `None` if there is nothing to check.
    pub(crate) fn new(checks: Checks, written: Option<&'a Written>) -> Option<Checker<'a>> {
        (checks != Checks::NONE).then(|| Checker {
            checks,
            written: written.filter(|_| checks.uninitialised),
            state: Mutex::default(),
        })
    }

    /// One thread runs at a time: nobody waits.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin_block(&self, number: u64, threads: u32) {
        let mut state = self.state();
        let mut block = state.spare.pop().unwrap_or_default();
        block.begin(number, threads);
        state.blocks.insert(number, block);
    }

    /// The block has ended: what may come after its end.
    pub(crate) fn end_block(&self, number: u64, in_cluster: bool) -> Option<Late> {
        let mut state = self.state();
        let block = state.blocks.remove(&number)?;
        let copy = block.copies.end().map(|(place, copy)| Late::Copy(place, copy));
        let is_shared = in_cluster && self.checks.races;
        let late = copy.or_else(|| {
            let foreign = is_shared.then(|| block.shared.first_foreign(number, &block.knowledge()));
            foreign.flatten().map(Late::Foreign)
        });
        state.spare.push(block);
        late
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

    /// All blocks of a cluster have come to its barrier.
    pub(crate) fn cluster_barrier(&self, blocks: impl Iterator<Item = u64> + Clone) {
        let mut state = self.state();
        let mut all = Knowledge::default();
        for number in blocks.clone() {
            if let Some(block) = state.blocks.get_mut(&number) {
                block.meet(number);
                all.learn(&block.knowledge());
            }
        }
        for number in blocks {
            if let Some(block) = state.blocks.get_mut(&number) {
                block.know(&all);
            }
        }
    }

    /// What is read there counts as written.
    pub(super) fn assume_written(&self, who: Who, place: Bytes) {
        match place.space {
            Space::Global => _ = self.enter_written(place, Kind::Write),
            Space::Shared => {
                let mut state = self.state();
                let holder = place.holder.unwrap_or(who.block);
                if let Some(holder) = state.blocks.get_mut(&holder) {
                    holder.shared.assume_written(place.address, place.len);
                }
            }
        }
    }

    /// A thread comes to where some of the block `holder` meet, which is its own, or another one of its cluster.
    pub(crate) fn arrive(&self, who: Who, holder: u64, meeting: Meeting) {
        let mut state = self.state();
        let (block, _, round) = state.parts(who);
        let knowledge = block.release(who, round);
        if let Some(holder) = state.blocks.get_mut(&holder) {
            holder.meetings.entry(meeting).or_default().learn(&knowledge);
        }
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
        let (block, _, round) = state.parts(who);
        let thread = &mut block.threads[who.thread as usize];
        let pending = std::mem::take(&mut thread.pending);
        pending.teach(scope, who.block, &mut thread.knowledge);
        let knowledge = block.release(who, round);
        block.threads[who.thread as usize].fenced = Some((scope, knowledge));
    }

    /// What the thread knows, and has done, in that memory is shown to the async proxy.
    pub(crate) fn fence_async(&self, who: Who, space: Space) {
        let mut state = self.state();
        let (block, _, round) = state.parts(who);
        let mut knowledge = block.release(who, round);
        knowledge.show(space, round);
        block.threads[who.thread as usize].knowledge = knowledge;
    }

    /// An access that is not atomic.
    pub(super) fn access(
        &self,
        who: Who,
        place: Bytes,
        kind: Kind,
        at: &'static Location<'static>,
    ) -> Result<(), Problem> {
        self.enter(&mut self.state(), who, place, kind, at)
    }

    /// The access of a copy or a product, which is under way from here on, until it has been waited for.
    pub(super) fn copy_begins(
        &self,
        who: Who,
        (place, kind): (Bytes, Kind),
        awaited: Awaited,
        at: &'static Location<'static>,
    ) -> Result<(), Problem> {
        let mut state = self.state();
        self.enter(&mut state, who, place, kind, at)?;
        if self.checks.races {
            let copies = state.copies(place.space, place.holder.unwrap_or(who.block));
            copies.begin(awaited, who, place, kind, at);
        }
        Ok(())
    }

    pub(super) fn copies_commit(&self, who: Who, engine: Engine) {
        self.state().copies(engine.space(), who.block).commit(engine, who);
    }

    /// The thread has waited for all its groups but the newest ones.
    pub(super) fn copies_wait(&self, who: Who, engine: Engine, newest: u32) {
        self.state().copies(engine.space(), who.block).wait(engine, who, newest);
    }

    /// The thread has waited for such a phase of a barrier of its block.
    pub(super) fn phase_ends(&self, who: Who, barrier: usize, parity: u32) {
        self.state()
            .copies(Space::Shared, who.block)
            .wait_for_phase(barrier, parity);
    }

    fn enter(
        &self,
        state: &mut State,
        who: Who,
        place: Bytes,
        kind: Kind,
        at: &'static Location<'static>,
    ) -> Result<(), Problem> {
        if let Some(holder) = place.holder {
            return self.enter_held(state, who, (holder, place), kind, at);
        }
        let (block, global, stores, round) = state.all_parts(who);
        let copies = match place.space {
            Space::Global => stores,
            Space::Shared => &mut block.copies,
        };
        if let Some(copy) = copies.access(place, kind) {
            return Err(Problem::NotWaitedFor(copy));
        }
        let actor = Actor {
            space: place.space,
            moment: block.moment(who, round),
            lane: who.lane(),
            knowledge: &block.threads[who.thread as usize].knowledge,
            at,
        };
        match place.space {
            Space::Global => {
                self.enter_written(place, kind)?;
                let checks = Checks {
                    uninitialised: false,
                    ..self.checks
                };
                global.access(place, kind, &actor, checks)
            }
            Space::Shared => block.shared.access(place, kind, &actor, self.checks),
        }
    }

    /// An access of shared memory that is another block's.
    fn enter_held(
        &self,
        state: &mut State,
        who: Who,
        (holder, place): (u64, Bytes),
        kind: Kind,
        at: &'static Location<'static>,
    ) -> Result<(), Problem> {
        let (block, _, round) = state.parts(who);
        let moment = block.moment(who, round);
        let knowledge = block.threads[who.thread as usize].knowledge.clone();
        let actor = Actor {
            space: place.space,
            moment,
            lane: who.lane(),
            knowledge: &knowledge,
            at,
        };
        match state.blocks.get_mut(&holder) {
            Some(holder) => holder.shared.access(place, kind, &actor, self.checks),
            None => Err(Problem::BlockEnded),
        }
    }

    /// An access of global memory, as far as it matters who has written it, in whatever launch.
    pub(super) fn enter_written(&self, place: Bytes, kind: Kind) -> Result<(), Problem> {
        let Some(written) = self.written else {
            return Ok(());
        };
        if kind.reads()
            && let Some(byte) = written.first_unwritten(place.address, place.len)
        {
            return Err(Problem::Uninitialised(byte));
        }
        if kind.writes() {
            written.write(place.address, place.len);
        }
        Ok(())
    }

    /// An atomic operation.
    pub(super) fn atomic(
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
        // What is handed on through another block's memory is that block's: it is lent to this function.
        let mut published = std::mem::take(state.published(who, place));
        let (block, _, round) = state.parts(who);
        let released = match operation {
            Atomic::StoreRelease | Atomic::UpdateOrdered => Some((scope, block.release(who, round))),
            Atomic::Store | Atomic::Update => block.threads[who.thread as usize].fenced.clone(),
            Atomic::Load | Atomic::LoadAcquire => None,
        };
        let thread = &mut block.threads[who.thread as usize];
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
        *state.published(who, place) = published;
        Ok(())
    }
}
