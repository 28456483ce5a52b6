// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the blocks of a grid over the cores.
//!
//! Each worker draws a ticket, runs that block to its end, and draws again. The
//! caller is a worker as well; a grid of one block never leaves it.

use std::thread;

use crate::block::Runners;
use crate::config::LaunchConfig;
use crate::context::{self, Context};
use crate::error::Error;
use crate::grid::Grid;
use crate::{crew, hook, overflow, stack};

/// See [`crate::launch`].
#[track_caller]
pub(crate) fn launch(kernel: &str, config: &LaunchConfig, body: &(dyn Fn() + Sync)) -> Result<(), Error> {
    assert!(
        !context::is_set(),
        "kernel `{kernel}` launched from inside a kernel: the simulated GPU has no dynamic \
         parallelism"
    );
    config.check(kernel)?;
    let grid = Grid::new(kernel, config, body);
    if thread::panicking() {
        // A launch in a destructor: the engine tells unwinding threads by
        // `panicking`, which would hold for every one of them here.
        thread::scope(|scope| {
            scope.spawn(|| run(&grid));
        });
    } else {
        run(&grid);
    }
    match grid.into_fault() {
        Some(fault) => Err(fault.into()),
        None => Ok(()),
    }
}

fn run(grid: &Grid<'_>) {
    hook::install();
    overflow::install();
    if grid.blocks == 1 {
        return work(grid);
    }
    // At most 1024 threads a block: the configuration was checked.
    let at_once = stack::MAX_STACKS / grid.config.block.count() as usize;
    let blocks = usize::try_from(grid.blocks).unwrap_or(usize::MAX);
    let workers = crew::size().min(at_once).min(blocks);
    crew::run(workers - 1, &|| work(grid));
}

/// Runs blocks until none is left or one has faulted.
fn work(grid: &Grid<'_>) {
    let Some(mut block) = grid.draw() else {
        return;
    };
    let context = Context::new(grid);
    let mut runners = Runners::new(&context);
    loop {
        let index = grid.config.grid.position(block);
        context.place.set_block(Some(block));
        let failure = runners.run_block(index, || grid.has_fault_below(block));
        context.place.set_block(None);
        if let Some(failure) = failure {
            grid.report(block, index, failure);
        }
        match grid.draw() {
            Some(next) => block = next,
            None => return,
        }
    }
}
