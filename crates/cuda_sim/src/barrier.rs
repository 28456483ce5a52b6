// SPDX-License-Identifier: MIT OR Apache-2.0
//! The block's barrier: counts arrivals, and the values that came with them.

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
