// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block that runs, as checks know it: its threads and their clocks, its shared memory, where its threads meet.

use std::collections::HashMap;

use super::Scope;
use super::clock::{Knowledge, Moment};
use super::copies::Copies;
use super::published::{Published, Words};
use super::shadow::{ByAddress, Shadow};

/// A thread of the block that runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    pub(crate) block: u64,
    pub(crate) thread: u32,
}

impl Who {
    pub(super) fn lane(self) -> u32 {
        self.thread % 32
    }
}

#[derive(Clone, Default)]
pub(super) struct Thread {
    tick: u32,
    pub(super) knowledge: Knowledge,
    /// What it knew at its last fence, which its next atomic stores hand on.
    pub(super) fenced: Option<(Scope, Knowledge)>,
    /// What it has read by atomic loads, and knows from its next fence on.
    pub(super) pending: Published,
}

/// Where threads of a block meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Meeting {
    /// A warp's lanes of a mask.
    Warp(u32, u32),
    /// A barrier of some threads.
    Group(u32),
    /// The phases of that parity of a barrier in shared memory, at that address: what threads of its block have arrived
    /// with, or, in the scope of the device, those of its cluster.
    Phase(usize, u32, Scope),
}

/// A block that runs.
#[derive(Default)]
pub(super) struct Block {
    epoch: u64,
    pub(super) threads: Vec<Thread>,
    pub(super) shared: Shadow,
    pub(super) copies: Copies,
    pub(super) published: Words,
    pub(super) meetings: HashMap<Meeting, Knowledge, ByAddress>,
}

impl Block {
    /// Gets ready for a block of so many threads; what memory there is serves again.
    pub(super) fn begin(&mut self, number: u64, threads: u32) {
        let thread = Thread {
            knowledge: Knowledge::of_epoch(number, 0),
            ..Thread::default()
        };
        self.epoch = 0;
        self.threads.clear();
        self.threads.resize(threads as usize, thread);
        self.shared.clear();
        self.copies.clear();
        self.published.clear();
        self.meetings.clear();
    }

    pub(super) fn moment(&self, who: Who, round: u64) -> Moment {
        Moment {
            round,
            block: who.block,
            epoch: self.epoch,
            warp: who.thread / 32,
            tick: self.threads[who.thread as usize].tick,
        }
    }

    /// What `who` knows now, itself included; what it does from here on is later.
    pub(super) fn release(&mut self, who: Who, round: u64) -> Knowledge {
        let moment = self.moment(who, round);
        let thread = &mut self.threads[who.thread as usize];
        thread.tick += 1;
        let mut knowledge = thread.knowledge.clone();
        knowledge.see(&moment, who.lane());
        knowledge
    }

    /// All threads have met: what any of them knows, all know, and what they did is over.
    pub(super) fn meet(&mut self, number: u64) {
        self.epoch += 1;
        let mut all = self.knowledge();
        all.enter(number, self.epoch);
        self.know(&all);
        // Of what other blocks have arrived with the threads know nothing yet.
        let of_cluster = |meeting: &Meeting| matches!(meeting, Meeting::Phase(_, _, Scope::Device));
        self.meetings.retain(|meeting, _| of_cluster(meeting));
    }

    /// All threads know that, and nothing else.
    pub(super) fn know(&mut self, all: &Knowledge) {
        for thread in &mut self.threads {
            thread.knowledge = all.clone();
        }
    }

    /// What any of the threads knows.
    pub(super) fn knowledge(&self) -> Knowledge {
        let mut all = Knowledge::default();
        for thread in &self.threads {
            all.learn(&thread.knowledge);
        }
        all
    }
}
