// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the threads of a block, each on a coroutine, on one OS thread.
//!
//! A coroutine runs threads one after another: when its thread returns without
//! ever having waited, it takes the next one that has not started, with no
//! switch at all. Only a thread that waits makes the scheduler take another
//! coroutine, so a kernel without barriers runs a whole grid on a single one at
//! little more than a call a thread, and a kernel with them pays one switch (to
//! the coroutine and back) a thread and barrier.
//!
//! The scheduler passes over the block warp by warp and resumes whoever is
//! ready. Coroutines are kept for the blocks of one launch; none outlives it or
//! leaves its OS thread, only the bare stacks do.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::context::{Context, Pause, Running};
use crate::dim3::Dim3;
use crate::error::Failure;
use crate::overflow;
use crate::stack::{self, Stack};

/// A coroutine that runs threads.
struct Runner {
    coroutine: Coroutine<(), Pause, (), Stack>,
    /// Where its stack overflows.
    limit: usize,
}

/// How many stacks are taken from the pool at a time, at most.
const STACKS_AT_ONCE: usize = 32;

/// A thread that waits, and the coroutine it is on.
#[derive(Clone, Copy, Default)]
struct Waiting {
    running: Running,
    runner: u32,
}

/// How far a block has come.
pub(crate) enum Progress {
    /// It waits for another block.
    Waits,
    /// It has ended, by this fault if any.
    Ended(Option<Failure>),
}

/// The coroutines of a worker.
pub(crate) struct Runners<'a> {
    context: &'a Context<'a>,
    runners: Vec<Runner>,
    /// The runners that have no thread.
    idle: Vec<u32>,
    /// Where each thread of the block that waits is to be found.
    waiting: Box<[Waiting]>,
    spare: Vec<Stack>,
}

impl<'a> Runners<'a> {
    pub(crate) fn new(context: &'a Context<'a>) -> Self {
        Runners {
            context,
            runners: Vec::new(),
            idle: Vec::new(),
            waiting: vec![Waiting::default(); context.threads as usize].into(),
            spare: Vec::new(),
        }
    }

    /// Runs one block to its end. `stop` is asked between passes whether another
    /// block's fault makes this one needless.
    pub(crate) fn run_block(&mut self, block: Dim3, stop: impl Fn() -> bool) -> Option<Failure> {
        self.context.begin_block(block);
        loop {
            match self.advance(&stop) {
                Progress::Ended(failure) => return failure,
                // The OS thread of the other block may need this core.
                Progress::Waits => thread::yield_now(),
            }
        }
    }

    /// Runs the block that was begun until it ends or all its threads wait for
    /// another one. `stop` is as for [`run_block`](Self::run_block).
    pub(crate) fn advance(&mut self, stop: impl Fn() -> bool) -> Progress {
        let context = self.context;
        loop {
            while let Some(thread) = context.next_ready() {
                self.step(thread);
            }
            if context.done() {
                break;
            }
            if stop() {
                context.stop();
                break;
            }
            if context.next_pass() {
                return Progress::Waits;
            }
        }
        self.unwind_suspended();
        Progress::Ended(context.end_block())
    }

    /// Runs `thread`, and the fresh ones after it while nothing waits.
    #[inline(always)]
    fn step(&mut self, thread: u32) {
        if !self.context.is_fresh(thread) {
            self.context.claim(thread);
            self.resume_thread(thread);
            return;
        }
        let idle = match self.idle.pop() {
            Some(runner) => Ok(runner),
            None => self.add_runner(),
        };
        match idle {
            Ok(runner) => self.resume(runner),
            Err(error) => self.context.fail(Failure {
                thread: self.context.index_of(thread),
                location: None,
                message: format!("no memory for the stack of a simulated thread: {error}"),
                finding: None,
            }),
        }
    }

    #[inline(always)]
    fn resume_thread(&mut self, thread: u32) {
        let waiting = self.waiting[thread as usize];
        self.context.run(waiting.running);
        self.resume(waiting.runner);
    }

    #[inline(always)]
    fn resume(&mut self, runner: u32) {
        let Runner { coroutine, limit } = &mut self.runners[runner as usize];
        overflow::set_limit(*limit);
        match self.context.enter(|| coroutine.resume(())) {
            CoroutineResult::Yield(Pause::Waiting) => {
                let running = self.context.running.get();
                let thread = running.thread.linear as usize;
                self.waiting[thread] = Waiting { running, runner };
            }
            CoroutineResult::Yield(Pause::Idle) => self.idle.push(runner),
            CoroutineResult::Return(()) => {}
        }
    }

    #[cold]
    fn add_runner(&mut self) -> io::Result<u32> {
        if self.spare.is_empty() {
            // No more than the block has threads: so many are reserved for it.
            let left = self.waiting.len() - self.runners.len();
            self.spare = stack::take(left.min(STACKS_AT_ONCE))?;
        }
        let context = self.context;
        let runner = self.runners.len() as u32;
        if let Some(stack) = self.spare.pop() {
            let limit = stack.limit_of_kernels();
            // SAFETY: the closure borrows only the context, which outlives the
            // `Runners` by its lifetime and so every coroutine in it; none of
            // them is forgotten.
            let coroutine = unsafe {
                Coroutine::with_stack_unchecked(stack, move |yielder: &Yielder<(), Pause>, ()| {
                    run_threads(context, yielder);
                })
            };
            self.runners.push(Runner { coroutine, limit });
        }
        Ok(runner)
    }

    /// Unwinds the threads that a fault left waiting: the block is stopped, so
    /// each leaves its wait by a panic, and its runner is idle again.
    fn unwind_suspended(&mut self) {
        let suspended: Vec<u32> = self.context.suspended().collect();
        for thread in suspended {
            self.resume_thread(thread);
        }
    }
}

impl Drop for Runners<'_> {
    fn drop(&mut self) {
        self.context.close();
        for runner in std::mem::take(&mut self.idle) {
            self.resume(runner);
        }
        // A runner that is not done was left by a panic of the scheduler itself;
        // its own destructor unwinds it.
        let coroutines = self.runners.drain(..).map(|runner| runner.coroutine);
        let done = coroutines.filter(Coroutine::done);
        stack::give(done.map(Coroutine::into_stack).chain(self.spare.drain(..)));
    }
}

/// The main loop of a coroutine.
fn run_threads(context: &Context<'_>, yielder: &Yielder<(), Pause>) {
    while !context.closed() {
        context.start_thread(yielder);
        let outcome = catch_unwind(AssertUnwindSafe(context.grid.body));
        context.end_thread(outcome);
        let goes_on = (context.next_ready()).is_some_and(|next| context.is_fresh(next));
        if !goes_on {
            yielder.suspend(Pause::Idle);
        }
    }
}
