// SPDX-License-Identifier: MIT OR Apache-2.0
//! One launch, as its workers share it: what to run, which block is next, and the
//! fault that ends it.
//!
//! Tickets are block numbers in increasing order, so the lowest block that is
//! not done always has an OS thread of its own: a block may wait for an earlier
//! one, however few cores there are. Where there are clusters, they are numbers
//! of these.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::check::Checker;
use crate::cluster::Tiling;
use crate::config::{LaunchConfig, Options};
use crate::count::Counter;
use crate::dim3::Dim3;
use crate::error::{Failure, Fault};
use crate::meeting::Meeting;
use crate::watchdog::{Attention, Watch};

/// No block has faulted.
const NONE: u64 = u64::MAX;

/// One launch.
pub(crate) struct Grid<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) config: &'a LaunchConfig,
    pub(crate) body: &'a (dyn Fn() + Sync),
    pub(crate) blocks: u64,
    pub(crate) options: Options<'a>,
    pub(crate) watch: Watch,
    /// What the launch is checked by.
    pub(crate) checker: Option<Checker<'a>>,
    /// What its accesses are counted by.
    pub(crate) counter: Option<&'a Counter>,
    /// So that threads look at it wherever they listen.
    _attention: Option<Attention>,
    /// Where the blocks meet, in a cooperative launch.
    pub(crate) meeting: Option<Meeting>,
    /// The clusters, in a launch that has some.
    pub(crate) tiling: Option<Tiling>,
    /// The next block to run, or cluster.
    ticket: Alone<AtomicU64>,
    /// The lowest block that has faulted.
    faulted: AtomicU64,
    /// Its fault.
    fault: Mutex<Option<Fault>>,
}

/// A value with cache lines of its own: all workers write the ticket, and all
/// threads read its neighbours.
#[repr(align(128))]
struct Alone<T>(T);

impl<'a> Grid<'a> {
    pub(crate) fn new(
        kernel: &'a str,
        config: &'a LaunchConfig,
        options: Options<'a>,
        counter: Option<&'a Counter>,
        body: &'a (dyn Fn() + Sync),
    ) -> Self {
        let checker = Checker::new(options.checks, options.written);
        let looks =
            checker.is_some() || counter.is_some() || options.schedule.is_some_and(|schedule| schedule.preempts());
        let tiling = options.cluster.map(|cluster| Tiling::new(config.grid, cluster));
        Grid {
            kernel,
            config,
            body,
            options,
            blocks: config.grid.count(),
            watch: Watch::new(kernel, config),
            _attention: looks.then(Attention::new),
            checker,
            counter,
            meeting: options.cooperative.then(|| Meeting::new("grid", config.grid.count())),
            tiling,
            ticket: Alone(AtomicU64::new(0)),
            faulted: AtomicU64::new(NONE),
            fault: Mutex::new(None),
        }
    }

    /// The next block to run, or the next cluster, if one is left and no block has faulted.
    pub(crate) fn draw(&self) -> Option<u64> {
        if self.has_fault() {
            return None;
        }
        // The order of the tickets is all that counts; what a block reads of
        // another's memory it orders by atomics of its own.
        let drawn = self.ticket.0.fetch_add(1, Ordering::Relaxed);
        let most = self.tiling.map_or(self.blocks, |tiling| tiling.clusters());
        (drawn < most).then_some(drawn)
    }

    /// Whether any block has faulted.
    #[inline]
    pub(crate) fn has_fault(&self) -> bool {
        self.has_fault_below(NONE)
    }

    /// Whether a block below `block` has faulted.
    #[inline]
    pub(crate) fn has_fault_below(&self, block: u64) -> bool {
        self.faulted.load(Ordering::Relaxed) < block
    }

    /// Keeps the fault of the lowest block. Lower ones that have started still
    /// run to their end, so that it is nearly always the same one.
    pub(crate) fn report(&self, block: u64, index: Dim3, failure: Failure) {
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if block < self.faulted.load(Ordering::Relaxed) {
            *first = Some(Fault {
                kernel: self.kernel.to_owned(),
                block: index,
                thread: failure.thread,
                location: failure.location,
                message: failure.message,
                finding: failure.finding,
            });
            self.faulted.store(block, Ordering::Relaxed);
        }
    }

    /// How a fault says that `block` has ended.
    pub(crate) fn has_ended(&self, block: u64) -> String {
        format!("block {} has ended", self.config.grid.position(block))
    }

    /// The fault that ended the grid.
    pub(crate) fn into_fault(self) -> Option<Fault> {
        self.fault.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
