// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of a launch: what its threads do is entered here.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::block::{Block, Meeting, Who};
use super::clock::Knowledge;
use super::copies::{Awaited, Copies, Copy};
use super::published::Words;
use super::shadow::{ByAddress, Foreign, Shadow};
use super::word::{Actor, Problem};
use super::{Atomic, Bytes, Checks, Engine, Kind, Scope, Space};
use crate::written::Written;

/// What may come after the end of the block whose shared memory it accesses.
pub(crate) enum Late {
    /// An access by another block of the cluster.
    Foreign(Foreign),
    /// A copy that nobody has waited for.
    Copy(Bytes, Copy),
}

/// What is wrong, and with the access of which place.
pub(super) type Found = (Bytes, Problem);

/// How memory is accessed.
struct How {
    kind: Kind,
    /// What is waited for, if it is under way from here on.
    awaited: Option<Awaited>,
    checks: Checks,
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
    /// The block that runs, and how often all have met.
    fn parts(&mut self, who: Who) -> (&mut Block, u64) {
        let block = self.blocks.get_mut(&who.block).expect("a block that runs has begun");
        (block, self.round)
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
        let (block, round) = state.parts(who);
        let knowledge = block.release(who, round);
        if let Some(holder) = state.blocks.get_mut(&holder) {
            holder.meetings.entry(meeting).or_default().learn(&knowledge);
        }
    }

    /// All that were to come there have.
    pub(crate) fn leave(&self, who: Who, meeting: Meeting) {
        let mut state = self.state();
        let (block, _) = state.parts(who);
        if let Some(knowledge) = block.meetings.get(&meeting) {
            block.threads[who.thread as usize].knowledge.learn(knowledge);
        }
    }

    pub(crate) fn fence(&self, who: Who, scope: Scope) {
        let mut state = self.state();
        let (block, round) = state.parts(who);
        let thread = &mut block.threads[who.thread as usize];
        let pending = std::mem::take(&mut thread.pending);
        pending.teach(scope, who.block, &mut thread.knowledge);
        let knowledge = block.release(who, round);
        block.threads[who.thread as usize].fenced = Some((scope, knowledge));
    }

    /// What the thread knows, and has done, in that memory is shown to the async proxy.
    pub(crate) fn fence_async(&self, who: Who, space: Space) {
        let mut state = self.state();
        let (block, round) = state.parts(who);
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
    ) -> Result<(), Found> {
        self.enter(&mut self.state(), who, &[place], self.how(kind, None), at)
    }

    /// As [`access`](Self::access), whoever has written there.
    pub(super) fn access_unwritten(
        &self,
        who: Who,
        place: Bytes,
        kind: Kind,
        at: &'static Location<'static>,
    ) -> Result<(), Found> {
        let mut how = self.how(kind, None);
        how.checks.uninitialised = false;
        self.enter(&mut self.state(), who, &[place], how, at)
    }

    /// With all checks that there are.
    fn how(&self, kind: Kind, awaited: Option<Awaited>) -> How {
        let checks = self.checks;
        How { kind, awaited, checks }
    }

    /// The access of a copy or a product, which is under way from here on, until it has been waited for.
    pub(super) fn copy_begins(
        &self,
        who: Who,
        places: &[Bytes],
        kind: Kind,
        awaited: Awaited,
        at: &'static Location<'static>,
    ) -> Result<(), Found> {
        let awaited = self.checks.races.then_some(awaited);
        self.enter(&mut self.state(), who, places, self.how(kind, awaited), at)
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

    /// An access of some places, all in the memory of one block or in that of all.
    fn enter(
        &self,
        state: &mut State,
        who: Who,
        places: &[Bytes],
        How { kind, awaited, checks }: How,
        at: &'static Location<'static>,
    ) -> Result<(), Found> {
        let Some(&Bytes { space, holder, .. }) = places.first() else {
            return Ok(());
        };
        let (block, holder) = match holder {
            None => (state.blocks.get_mut(&who.block), None),
            Some(holder) => {
                let [block, holder] = state.blocks.get_disjoint_mut([&who.block, &holder]);
                (block, Some(holder.ok_or((places[0], Problem::BlockEnded))?))
            }
        };
        let block = block.expect("a block that runs has begun");
        let moment = block.moment(who, state.round);
        let knowledge = &block.threads[who.thread as usize].knowledge;
        let (shadow, copies) = match (space, holder) {
            (Space::Global, _) => (&mut state.global, &mut state.copies),
            (Space::Shared, None) => (&mut block.shared, &mut block.copies),
            (Space::Shared, Some(holder)) => (&mut holder.shared, &mut holder.copies),
        };
        let copy = awaited.map(|awaited| copies.begin(awaited, who, kind, at));
        let actor = Actor {
            space,
            moment,
            lane: who.lane(),
            knowledge,
            at,
            copies,
            copy,
        };
        if places.len() > 1 {
            shadow.touch(places);
        }
        let mut access = |place: Bytes| match place.space {
            Space::Global => {
                if checks.uninitialised {
                    self.enter_written(place, kind)?;
                }
                let checks = Checks {
                    uninitialised: false,
                    ..checks
                };
                shadow.access(place, kind, &actor, checks)
            }
            Space::Shared => shadow.access(place, kind, &actor, checks),
        };
        for &place in places {
            if let Err(problem) = access(place) {
                // Of which of its elements that is true.
                let element = place
                    .elements()
                    .find_map(|element| Some((element, access(element).err()?)));
                return Err(element.unwrap_or((place, problem)));
            }
        }
        if let Some(copy) = copy {
            let last = places.iter().flat_map(|place| place.elements().next_back());
            last.for_each(|last| copies.note(copy, last));
        }
        Ok(())
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
    ) -> Result<(), Found> {
        let mut state = self.state();
        for kind in operation.kinds(scope) {
            self.enter(&mut state, who, &[place], self.how(kind, None), at)?;
        }
        // What is handed on through another block's memory is that block's: it is lent to this function.
        let mut published = std::mem::take(state.published(who, place));
        let (block, round) = state.parts(who);
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
