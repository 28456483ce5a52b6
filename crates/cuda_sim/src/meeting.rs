// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where blocks meet: those of a cooperative launch at the grid barrier, those of a cluster at its own.
//!
//! The last thread of a block to come brings the block. The last block opens the
//! barrier by beginning another round, which the schedulers of the other blocks
//! look for. A block that ends while others wait, or comes when another has
//! ended, is a fault: nobody would ever open that round.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::dim3::Dim3;
use crate::error::Call;

/// A block at the barrier: the call that it came by, and the thread that brought
/// it.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) call: Call,
    pub(crate) block: u64,
    pub(crate) thread: Dim3,
}

/// See the module.
pub(crate) struct Meeting {
    /// What the blocks are all of: `grid` or `cluster`.
    of: &'static str,
    blocks: u64,
    state: Mutex<State>,
    /// How many times all blocks have met.
    round: AtomicU64,
}

#[derive(Default)]
struct State {
    arrived: u64,
    /// Who came first, while some wait.
    first: Option<Arrival>,
    /// A block that has ended.
    ended: Option<u64>,
}

/// Why a block cannot wait.
pub(crate) enum Absence {
    /// This block has ended.
    Ended(u64),
    /// This one waits in another call.
    Elsewhere(Arrival),
}

impl Meeting {
    /// A meeting of so many blocks, all of the `grid` or the `cluster`.
    pub(crate) fn new(of: &'static str, blocks: u64) -> Meeting {
        Meeting {
            of,
            blocks,
            state: Mutex::default(),
            round: AtomicU64::new(0),
        }
    }

    /// Gets ready for other blocks.
    pub(crate) fn reset(&self) {
        *self.state() = State::default();
    }

    /// Why the barrier would never open.
    #[cold]
    pub(crate) fn unreached(&self, call: Call, reason: &str) -> String {
        let (of, name) = (self.of, call.name);
        format!("{of} barrier `{name}` not reached by all blocks of the {of}: {reason}")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block arrives: the round that it waits for the end of.
    pub(crate) fn arrive(&self, arrival: Arrival) -> Result<u64, Absence> {
        let mut state = self.state();
        if let Some(block) = state.ended {
            return Err(Absence::Ended(block));
        }
        let first = *state.first.get_or_insert(arrival);
        if !first.call.same(arrival.call) {
            return Err(Absence::Elsewhere(first));
        }
        let round = self.round();
        state.arrived += 1;
        if state.arrived == self.blocks {
            *state = State::default();
            // What the blocks wrote is visible to who sees the new round: all of
            // them have held the lock.
            self.round.store(round + 1, Ordering::Release);
        }
        Ok(round)
    }

    /// A block has ended. If others wait, who came first: it waits for ever.
    pub(crate) fn leave(&self, block: u64) -> Option<Arrival> {
        let mut state = self.state();
        state.ended = Some(block);
        state.first
    }

    /// How many times all blocks have met.
    pub(crate) fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }
}
