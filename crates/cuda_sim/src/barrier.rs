// SPDX-License-Identifier: MIT OR Apache-2.0
//! The block's barriers: count arrivals, that of all threads also the values that came with them.

use std::cell::Cell;

use crate::error::Call;

/// What all threads of a block learn at a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierResult {
    /// How many threads gave a value other than zero.
    pub nonzero: u32,
    /// How many threads met.
    pub threads: u32,
}

impl BarrierResult {
    /// The barrier as it looks to a thread without company.
    pub(crate) fn alone(value: u64) -> BarrierResult {
        BarrierResult {
            nonzero: u32::from(value != 0),
            threads: 1,
        }
    }
}

/// How many [`group_barrier`](crate::group_barrier)s a block has.
pub const GROUP_BARRIERS: u32 = 24;

/// A barrier of some of the block's threads: whoever waits looks at the round
/// whenever it is its turn.
#[derive(Clone, Copy)]
pub(crate) struct GroupBarrier {
    arrived: u32,
    /// How many are to meet, where somebody has arrived.
    threads: u32,
    round: u32,
}

impl GroupBarrier {
    pub(crate) const NEW: GroupBarrier = GroupBarrier {
        arrived: 0,
        threads: 0,
        round: 0,
    };

    /// One of `threads` threads arrives: the number of the round that the last
    /// one ends, and whether the caller is that one. `Err` has how many threads
    /// those who wait want to meet, if that is another number.
    pub(crate) fn arrive(cell: &Cell<GroupBarrier>, threads: u32) -> Result<(u32, bool), u32> {
        let mut barrier = cell.get();
        if barrier.arrived > 0 && barrier.threads != threads {
            return Err(barrier.threads);
        }
        let round = barrier.round;
        let last = barrier.arrived + 1 == threads;
        barrier.threads = threads;
        barrier.arrived = if last { 0 } else { barrier.arrived + 1 };
        barrier.round = round.wrapping_add(last.into());
        cell.set(barrier);
        Ok((round, last))
    }

    pub(crate) fn round(cell: &Cell<GroupBarrier>) -> u32 {
        cell.get().round
    }
}

/// See the module. A result stays valid until every thread has read it, because
/// no thread can complete the next barrier before.
pub(crate) struct Barrier {
    /// Where the block waits, and who came first; `None` when nobody waits.
    first: Cell<Option<(Call, u32)>>,
    arrived: Cell<u32>,
    nonzero: Cell<u32>,
    result: Cell<BarrierResult>,
}

impl Barrier {
    pub(crate) fn new() -> Barrier {
        Barrier {
            first: Cell::new(None),
            arrived: Cell::new(0),
            nonzero: Cell::new(0),
            result: Cell::new(BarrierResult::alone(0)),
        }
    }

    #[inline(always)]
    pub(crate) fn reset(&self) {
        self.first.set(None);
        self.arrived.set(0);
        self.nonzero.set(0);
    }

    #[inline(always)]
    pub(crate) fn first(&self) -> Option<(Call, u32)> {
        self.first.get()
    }

    /// One thread arrives; the last of `threads` gets the result.
    #[inline(always)]
    pub(crate) fn arrive(&self, call: Call, thread: u32, value: u64, threads: u32) -> Option<BarrierResult> {
        let nonzero = self.nonzero.get() + u32::from(value != 0);
        let arrived = self.arrived.get() + 1;
        if arrived < threads {
            if arrived == 1 {
                self.first.set(Some((call, thread)));
            }
            self.nonzero.set(nonzero);
            self.arrived.set(arrived);
            return None;
        }
        self.reset();
        self.result.set(BarrierResult { nonzero, threads });
        Some(self.result.get())
    }

    /// The result of the barrier that was completed last.
    #[inline(always)]
    pub(crate) fn result(&self) -> BarrierResult {
        self.result.get()
    }
}
