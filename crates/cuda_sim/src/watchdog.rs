// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends launches that would never end.
//!
//! A launch is given up when none of its blocks has ended, or come through the grid barrier, for as long as the
//! variable `WARPSMITH_SIM_TIMEOUT` says. A thread cannot be ended from outside, for its frames may hold borrows and
//! locks. So the watchdog, a thread of its own, rings a bell. Threads listen wherever they wait, and wherever they touch
//! memory that others write, as a loop that waits for something must: one load of a value that hardly ever changes. Who
//! hears it becomes the fault, and unwinds. A thread that never listens cannot be ended; then that is said on standard
//! error.
//!
//! The watchdog counts its own turns and reads no clock, so that a process which was stopped in between, or whose
//! machine slept, has lost no time.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::config::LaunchConfig;
use crate::context::Context;
use crate::error::Call;
use crate::overflow;

/// What sets the limit, in seconds; 0 is none.
const VARIABLE: &str = "WARPSMITH_SIM_TIMEOUT";

/// The limit that holds without the variable.
const DEFAULT: Duration = Duration::from_secs(60);

/// The limit, in turns of the watchdog.
const TURNS: u32 = 8;

/// How long after that a thread that has not listened is reported, where two turns are less. A busy machine may not run
/// it for a while, and a debug build, or one with a sanitizer, takes a while to unwind a block.
const PATIENCE: Duration = Duration::from_secs(2);

/// The bell: how many launches there are that have been given up and have not ended, or that are checked.
static BELL: AtomicU32 = AtomicU32::new(0);

/// No block.
const NONE: u64 = u64::MAX;

/// What a worker runs. It has cache lines of its own, since it is written for each thread that runs.
#[repr(align(128))]
pub(crate) struct Place {
    block: AtomicU64,
    thread: AtomicU32,
}

impl Place {
    #[inline(always)]
    pub(crate) fn set_thread(&self, linear: u32) {
        self.thread.store(linear, Relaxed);
    }

    /// The block that runs now, or none.
    pub(crate) fn set_block(&self, block: Option<u64>) {
        self.block.store(block.unwrap_or(NONE), Relaxed);
    }
}

/// A launch, as the watchdog sees it.
struct Launch {
    kernel: String,
    config: LaunchConfig,
    /// One for each worker; of a cooperative launch for each block.
    places: Mutex<Vec<Arc<Place>>>,
    /// The round of the grid barrier.
    round: AtomicU64,
    given_up: AtomicBool,
}

impl Launch {
    /// The blocks that run, and the round of the grid barrier. While no block ends and none comes through the barrier,
    /// they stay the same.
    fn blocks(&self) -> Vec<u64> {
        let places = lock(&self.places);
        let blocks = places.iter().map(|place| place.block.load(Relaxed));
        blocks.chain([self.round.load(Relaxed)]).collect()
    }

    fn give_up(&self) {
        if !self.given_up.swap(true, Relaxed) {
            BELL.fetch_add(1, Relaxed);
        }
    }

    /// A line for each thread that still runs.
    fn report(&self, limit: Duration) -> String {
        let line = |place: &Arc<Place>| {
            let (block, thread) = (place.block.load(Relaxed), place.thread.load(Relaxed));
            (block != NONE).then(|| {
                format!(
                    "kernel `{}`: block {}, thread {}: {}, and it cannot be stopped: it comes to no barrier, no \
                     atomic and no memory that is written. End the process.\n",
                    self.kernel,
                    self.config.grid.position(block),
                    self.config.block.position(thread.into()),
                    overdue(limit),
                )
            })
        };
        lock(&self.places).iter().filter_map(line).collect()
    }
}

fn overdue(limit: Duration) -> String {
    format!(
        "no block has ended for {} s, the limit that {VARIABLE} sets",
        limit.as_secs_f64()
    )
}

/// What is locked here is changed by single steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A launch that is watched until this is dropped.
pub(crate) struct Watch(Arc<Launch>);

impl Watch {
    pub(crate) fn new(kernel: &str, config: &LaunchConfig) -> Self {
        let launch = Arc::new(Launch {
            kernel: kernel.to_owned(),
            config: *config,
            places: Mutex::default(),
            round: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
        });
        if let Some(watchdog) = watchdog() {
            watchdog.watch(&launch);
        }
        Watch(launch)
    }

    /// A place for one more worker.
    pub(crate) fn add_worker(&self) -> Arc<Place> {
        let place = Arc::new(Place {
            block: AtomicU64::new(NONE),
            thread: AtomicU32::new(0),
        });
        lock(&self.0.places).push(Arc::clone(&place));
        place
    }

    /// A block waits in that round of the grid barrier.
    pub(crate) fn set_round(&self, round: u64) {
        self.0.round.store(round, Relaxed);
    }

    fn given_up(&self) -> bool {
        self.0.given_up.load(Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watchdog) = watchdog() {
            watchdog.forget(&self.0);
        }
        // The watchdog does not know the launch any more.
        if self.given_up() {
            BELL.fetch_sub(1, Relaxed);
        }
    }
}

/// The thread that watches, as others see it.
struct Watchdog {
    limit: Duration,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    watched: Vec<Watched>,
    /// The watchdog sleeps until there is a launch.
    asleep: bool,
}

struct Watched {
    launch: Arc<Launch>,
    /// The blocks that ran at the last turn.
    blocks: Vec<u64>,
    /// For how many turns they have been the same.
    turns: u32,
}

/// The watchdog; `None` if there is to be none, or the system grants no thread for it.
fn watchdog() -> Option<&'static Watchdog> {
    static WATCHDOG: OnceLock<Option<Watchdog>> = OnceLock::new();
    static STARTED: OnceLock<bool> = OnceLock::new();
    let watchdog = WATCHDOG.get_or_init(|| {
        let limit = limit()?;
        Some(Watchdog {
            limit,
            state: Mutex::default(),
            wake: Condvar::new(),
        })
    });
    let watchdog = watchdog.as_ref()?;
    let start = || {
        let thread = thread::Builder::new().name("cuda_sim watchdog".to_owned());
        thread.spawn(move || watchdog.run()).is_ok()
    };
    STARTED.get_or_init(start).then_some(watchdog)
}

/// The limit that the environment sets; `None` is none.
fn limit() -> Option<Duration> {
    let Some(value) = std::env::var_os(VARIABLE) else {
        return Some(DEFAULT);
    };
    match value.to_str().and_then(seconds) {
        Some(limit) => (!limit.is_zero()).then_some(limit),
        None => {
            eprintln!("{VARIABLE} is {value:?}: wanted a number of seconds, 0 for no limit; the limit is 60 s");
            Some(DEFAULT)
        }
    }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

impl Watchdog {
    fn watch(&self, launch: &Arc<Launch>) {
        let mut state = lock(&self.state);
        state.watched.push(Watched {
            launch: Arc::clone(launch),
            blocks: Vec::new(),
            turns: 0,
        });
        // Seldom: it falls asleep once a turn at most.
        if mem::take(&mut state.asleep) {
            self.wake.notify_one();
        }
    }

    fn forget(&self, launch: &Arc<Launch>) {
        let mut state = lock(&self.state);
        state.watched.retain(|watched| !Arc::ptr_eq(&watched.launch, launch));
    }

    fn run(&self) {
        loop {
            let mut state = lock(&self.state);
            state.asleep = state.watched.is_empty();
            let asleep = |state: &mut State| state.asleep;
            drop(self.wake.wait_while(state, asleep));
            thread::sleep(self.limit / TURNS);
            let report = self.turn();
            if !report.is_empty() {
                eprint!("{report}");
            }
        }
    }

    /// How many turns after it has given a launch up it reports those who have not listened.
    fn patience(&self) -> u32 {
        let turns = PATIENCE.div_duration_f64(self.limit / TURNS).ceil();
        (turns as u32).max(2)
    }

    /// Looks at all launches; what there is to say of them.
    fn turn(&self) -> String {
        let mut report = String::new();
        for watched in &mut lock(&self.state).watched {
            let blocks = watched.launch.blocks();
            if blocks != watched.blocks {
                (watched.blocks, watched.turns) = (blocks, 0);
                continue;
            }
            watched.turns += 1;
            if watched.turns == TURNS {
                watched.launch.give_up();
            } else if watched.turns == TURNS + self.patience() {
                report += &watched.launch.report(self.limit);
            }
        }
        report
    }
}

/// Has all threads look, wherever they listen, while it lives.
pub(crate) struct Attention;

impl Attention {
    pub(crate) fn new() -> Self {
        BELL.fetch_add(1, Relaxed);
        Attention
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        BELL.fetch_sub(1, Relaxed);
    }
}

/// Ends the thread that calls, if its launch has been given up, or its stack has overflowed.
#[inline(always)]
pub(crate) fn listen(call: Call) {
    listen_and(call, |_| {});
}

/// As [`listen`]; else, if some launch is checked, calls `look`.
#[inline(always)]
pub(crate) fn listen_and(call: Call, look: impl FnOnce(&Context<'_>)) {
    if BELL.load(Relaxed) != 0 || overflow::is_over() {
        stop_and_look(call, look);
    }
}

#[cold]
fn stop_and_look(call: Call, look: impl FnOnce(&Context<'_>)) {
    if crate::in_kernel() {
        crate::context::with("poll", |context| {
            end_in(context, call);
            overflow::end_in(context, call);
            look(context);
        });
    }
}

fn end_in(context: &Context<'_>, call: Call) {
    if !context.grid.watch.given_up() || context.unwinds() {
        return;
    }
    let overdue = watchdog().map_or_else(String::new, |watchdog| overdue(watchdog.limit));
    let name = call.name;
    let waits = context.barrier.first().map_or_else(String::new, |(other, first)| {
        format!("; thread {} waits at {other}", context.index_of(first))
    });
    let message = format!("{overdue}: this thread waits in `{name}` for what does not come, or loops over it{waits}");
    context.raise(call, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_of_seconds() {
        assert_eq!(seconds("90"), Some(Duration::from_secs(90)));
        assert_eq!(seconds(" 0.5 "), Some(Duration::from_millis(500)));
        assert_eq!(seconds("0"), Some(Duration::ZERO));
        for wrong in ["", "-1", "1 min", "nan", "inf"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
