// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the blocks of a grid over the cores.
//!
//! Each worker draws a ticket, runs that block to its end, and draws again. The
//! caller is a worker as well; a grid of one block never leaves it.
//!
//! In a cooperative launch blocks wait for each other, and none may wait for a
//! worker. So a worker that has begun a block and cannot go on with it draws
//! another, and when none is left turns to those it has begun, one after another.
//! Were the caller the only worker, it would run them all.
//!
//! Where there are clusters, a worker draws one of them, begins all its blocks, and
//! turns from one to the other until all have ended.

use std::cell::OnceCell;
use std::thread;

use crate::block::{Progress, Runners};
use crate::cluster::{self, Cluster, Tiling};
use crate::config::{LaunchConfig, Options};
use crate::context::{self, Context};
use crate::count::Counter;
use crate::error::{Error, Failure};
use crate::grid::Grid;
use crate::schedule::{AT_ONCE, Random, Schedule};
use crate::{crew, hook, overflow, stack};

/// See [`crate::launch_with`].
#[track_caller]
pub(crate) fn launch(
    kernel: &str,
    config: &LaunchConfig,
    options: Options<'_>,
    counter: Option<&Counter>,
    body: &(dyn Fn() + Sync),
) -> Result<(), Error> {
    check(kernel, config)?;
    if let Some(cluster) = options.cluster {
        assert!(
            !options.cooperative,
            "kernel `{kernel}`: a cooperative launch with clusters"
        );
        cluster::check(kernel, config, cluster)?;
    }
    // At most 1024 threads a block, as just checked.
    let most = cooperative_blocks(config.block.count() as u32);
    if options.cooperative && config.grid.count() > most.into() {
        return Err(Error::Config {
            kernel: kernel.to_owned(),
            limit: "blocks of a cooperative launch",
            given: config.grid.count(),
            min: 1,
            max: most.into(),
        });
    }
    finish(Grid::new(kernel, config, options, counter, body))
}

/// See [`crate::cooperative_blocks`].
pub(crate) fn cooperative_blocks(threads: u32) -> u32 {
    stack::MAX_STACKS as u32 / threads.max(1)
}

#[track_caller]
fn check(kernel: &str, config: &LaunchConfig) -> Result<(), Error> {
    assert!(
        !context::is_set(),
        "kernel `{kernel}` launched from inside a kernel: the simulated GPU has no dynamic \
         parallelism"
    );
    config.check(kernel)
}

fn finish(grid: Grid<'_>) -> Result<(), Error> {
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
    let schedule = grid.options.schedule;
    if let Some(schedule) = schedule.filter(|&schedule| schedule != Schedule::InOrder && grid.tiling.is_none()) {
        return work_scheduled(grid, schedule);
    }
    // What is checked or counted is to be found the same each time, and its state is not for several workers; a schedule has
    // the same course each time.
    let most = if grid.checker.is_some() || grid.counter.is_some() || schedule.is_some() {
        1
    } else {
        crew::size()
    };
    let threads = grid.config.block.count() as usize;
    if grid.meeting.is_some() {
        let blocks = grid.blocks as usize;
        let _stacks = stack::reserve(blocks * threads, blocks * threads);
        return crew::run(most.min(blocks) - 1, &|| work_together(grid));
    }
    let (drawn, blocks) = match &grid.tiling {
        Some(tiling) => (tiling.clusters(), tiling.blocks()),
        None => (grid.blocks, 1),
    };
    // At most 1024 threads a block, and 8 blocks: the configuration was checked.
    let each = threads * blocks as usize;
    let most = most.min(usize::try_from(drawn).unwrap_or(usize::MAX));
    let reserved = stack::reserve(each, most * each);
    let workers = reserved.stacks / each;
    crew::run(workers - 1, &|| match &grid.tiling {
        Some(tiling) => work_in_clusters(grid, tiling, schedule.unwrap_or_default()),
        None => work(grid),
    });
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

/// Runs blocks of a cooperative launch, all that this worker begins side by side,
/// until none is left.
fn work_together(grid: &Grid<'_>) {
    // Few enough that all their threads have stacks.
    let contexts: Box<[OnceCell<Box<Context>>]> = (0..grid.blocks).map(|_| OnceCell::new()).collect();
    let mut begun: Vec<Begun> = Vec::new();
    loop {
        let drawn = grid.draw();
        if let Some(block) = drawn {
            let context = contexts[block as usize].get_or_init(|| Box::new(Context::new(grid)));
            context.begin_block(grid.config.grid.position(block));
            let runners = Runners::new(context);
            begun.push(Begun {
                block,
                context,
                runners,
            });
        }
        let mut all_wait = true;
        begun.retain_mut(|block| {
            let waits = block.waits(grid);
            let goes_on = waits || block.advance(grid);
            all_wait &= waits;
            goes_on
        });
        match drawn {
            None if begun.is_empty() => return,
            // The OS threads of the other blocks may need this core.
            None if all_wait => thread::yield_now(),
            _ => {}
        }
    }
}

/// Runs clusters until none is left or a block has faulted: of one all blocks side by side, in the order that the schedule
/// has them in.
fn work_in_clusters(grid: &Grid<'_>, tiling: &Tiling, schedule: Schedule) {
    let random = Random::default();
    if let Schedule::Random(seed) = schedule {
        random.begin(seed, grid.blocks);
    }
    let contexts: Box<[Context<'_>]> = (0..tiling.blocks()).map(|_| Context::new(grid)).collect();
    Cluster::assemble(&contexts, |cluster| {
        let mut members: Vec<Begun<'_>> = (contexts.iter()).map(Begun::new).collect();
        while let Some(number) = grid.draw() {
            cluster.begin();
            for (rank, member) in (0..).zip(&mut members) {
                let block = tiling.block(number, rank);
                member.block = grid.config.grid.linear(block);
                member.context.begin_block(block);
            }
            run_cluster(grid, cluster, &mut members, |order| schedule.order(order, &random));
        }
    });
}

/// Runs the blocks of a cluster, which have begun, to their ends, in the order that `schedule` puts their numbers in.
fn run_cluster(grid: &Grid<'_>, cluster: &Cluster<'_>, members: &mut [Begun<'_>], schedule: impl Fn(&mut [u64])) {
    let mut running: Vec<u64> = members.iter().map(|member| member.block).collect();
    while !running.is_empty() {
        let mut order = running.clone();
        schedule(&mut order);
        let mut all_in_vain = true;
        for number in order {
            let Some(member) = members.iter_mut().find(|member| member.block == number) else {
                continue;
            };
            if member.waits(grid) {
                continue;
            }
            if !member.advance(grid) {
                running.retain(|&other| other != number);
            }
            all_in_vain &= member.context.has_run_in_vain();
        }
        cluster.set_stuck(all_in_vain);
    }
}

/// Runs all blocks here, some of them side by side, as the schedule has it.
fn work_scheduled(grid: &Grid<'_>, schedule: Schedule) {
    let random = Random::default();
    if let Schedule::Random(seed) = schedule {
        random.begin(seed, grid.blocks);
    }
    let blocks = usize::try_from(grid.blocks).unwrap_or(usize::MAX);
    let at_once = match grid.meeting {
        Some(_) => blocks,
        // At most 1024 threads a block: there are stacks for so few.
        None => blocks.min(AT_ONCE),
    };
    let stacks = at_once * grid.config.block.count() as usize;
    let _stacks = stack::reserve(stacks, stacks);
    let contexts: Box<[Context<'_>]> = (0..at_once).map(|_| Context::new(grid)).collect();
    let mut free: Vec<Begun<'_>> = (contexts.iter()).map(Begun::new).collect();
    let mut begun: Vec<Begun<'_>> = Vec::new();
    loop {
        while !free.is_empty()
            && let Some(number) = grid.draw()
            && let Some(mut block) = free.pop()
        {
            block.block = number;
            block.context.begin_block(grid.config.grid.position(number));
            begun.push(block);
        }
        if begun.is_empty() {
            return;
        }
        let mut order: Vec<u64> = begun.iter().map(|block| block.block).collect();
        schedule.order(&mut order, &random);
        let mut any_ended = false;
        for number in order {
            // The one that is delayed waits until no other has ended, which would make room for the next.
            if any_ended && schedule == Schedule::DelayedBlock(number) {
                break;
            }
            let Some(at) = begun.iter().position(|block| block.block == number) else {
                continue;
            };
            if !begun[at].waits(grid) && !begun[at].advance(grid) {
                free.push(begun.swap_remove(at));
                any_ended = true;
            }
        }
    }
}

/// A block that has begun.
struct Begun<'a> {
    block: u64,
    context: &'a Context<'a>,
    runners: Runners<'a>,
}

impl<'a> Begun<'a> {
    /// None yet.
    fn new(context: &'a Context<'a>) -> Self {
        Begun {
            block: 0,
            context,
            runners: Runners::new(context),
        }
    }

    /// Whether there is nothing to do for it before other blocks have come to
    /// where they meet, as they will.
    fn waits(&self, grid: &Grid<'_>) -> bool {
        self.context.waits_for_blocks() && !grid.has_fault()
    }

    /// Runs the block as far as it comes; whether it goes on later.
    fn advance(&mut self, grid: &Grid<'_>) -> bool {
        let (block, context) = (self.block, self.context);
        context.place.set_block(Some(block));
        // One that has faulted never comes to the barrier.
        let stop = || grid.has_fault_below(block) || grid.has_fault() && context.waits_for_blocks();
        let failure = match self.runners.advance(stop) {
            Progress::Waits => {
                if context.waits_for_blocks() {
                    // The watchdog has nothing against it.
                    context.place.set_block(None);
                } else {
                    // Threads of it spin.
                    thread::yield_now();
                }
                return true;
            }
            Progress::Ended(failure) => failure,
        };
        context.place.set_block(None);
        if let Some(failure) = failure {
            grid.report(block, grid.config.grid.position(block), failure);
        } else if !context.stopped()
            && let Some(meeting) = context.meeting()
            && let Some(first) = meeting.leave(block)
        {
            let failure = Failure {
                thread: first.thread,
                location: Some(first.call.at.into()),
                message: meeting.unreached(first.call, &grid.has_ended(block)),
                finding: None,
            };
            grid.report(first.block, grid.config.grid.position(first.block), failure);
        }
        false
    }
}
