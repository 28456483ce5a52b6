// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the blocks of a grid over the cores.
//!
//! Each worker draws a ticket, runs that block to its end, and draws again.
//! Tickets are block numbers in increasing order, so the lowest block that is
//! not done always has an OS thread of its own: a block may wait for an earlier
//! one, however few cores there are. The caller is a worker as well; a grid of
//! one block never leaves it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::block::Runners;
use crate::config::LaunchConfig;
use crate::context::{self, Context};
use crate::error::{Error, Fault};
use crate::{hook, stack};

/// No block has faulted.
const NONE: u64 = u64::MAX;

/// One launch.
pub(crate) struct Grid<'a> {
    kernel: &'a str,
    pub(crate) config: &'a LaunchConfig,
    pub(crate) body: &'a (dyn Fn() + Sync),
    blocks: u64,
    /// The next block to run.
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

/// See [`crate::launch`].
#[track_caller]
pub(crate) fn launch(kernel: &str, config: &LaunchConfig, body: &(dyn Fn() + Sync)) -> Result<(), Error> {
    assert!(
        !context::is_set(),
        "kernel `{kernel}` launched from inside a kernel: the simulated GPU has no dynamic \
         parallelism"
    );
    config.check(kernel)?;
    let grid = Grid {
        kernel,
        config,
        body,
        blocks: config.grid.count(),
        ticket: Alone(AtomicU64::new(0)),
        faulted: AtomicU64::new(NONE),
        fault: Mutex::new(None),
    };
    if thread::panicking() {
        // A launch in a destructor: the engine tells unwinding threads by
        // `panicking`, which would hold for every one of them here.
        thread::scope(|scope| {
            scope.spawn(|| grid.run());
        });
    } else {
        grid.run();
    }
    let fault = grid.fault.into_inner();
    match fault.unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Err(fault.into()),
        None => Ok(()),
    }
}

impl Grid<'_> {
    fn run(&self) {
        hook::install();
        if self.blocks == 1 {
            return self.work();
        }
        // At most 1024 threads a block: the configuration was checked.
        let at_once = stack::MAX_STACKS as u64 / self.config.block.count();
        let workers = (rayon::current_num_threads() as u64).min(at_once);
        rayon::in_place_scope(|scope| {
            for _ in 1..workers.min(self.blocks) {
                scope.spawn(|_| self.work());
            }
            self.work();
        });
    }

    /// Runs blocks until none is left or one has faulted.
    fn work(&self) {
        let mut block = self.draw();
        if block >= self.blocks {
            return;
        }
        let context = Context::new(self);
        let mut runners = Runners::new(&context);
        while block < self.blocks {
            let stop = || self.faulted.load(Ordering::Relaxed) < block;
            let index = self.config.grid.position(block);
            if let Some(failure) = runners.run_block(index, stop) {
                let fault = Fault {
                    kernel: self.kernel.to_owned(),
                    block: index,
                    thread: failure.thread,
                    location: failure.location,
                    message: failure.message,
                };
                self.report(block, fault);
            }
            block = self.draw();
        }
    }

    /// The next block, or one beyond the grid.
    fn draw(&self) -> u64 {
        if self.has_fault() {
            return NONE;
        }
        // The order of the tickets is all that counts; what a block reads of
        // another's memory it orders by atomics of its own.
        self.ticket.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether any block has faulted.
    #[inline]
    pub(crate) fn has_fault(&self) -> bool {
        self.faulted.load(Ordering::Relaxed) != NONE
    }

    /// Keeps the fault of the lowest block. Lower ones that have started still
    /// run to their end, so that it is nearly always the same one.
    fn report(&self, block: u64, fault: Fault) {
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if block < self.faulted.load(Ordering::Relaxed) {
            *first = Some(fault);
            self.faulted.store(block, Ordering::Relaxed);
        }
    }
}
