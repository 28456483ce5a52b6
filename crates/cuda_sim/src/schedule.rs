// SPDX-License-Identifier: MIT OR Apache-2.0
//! In which order threads and blocks run, which a GPU does not say either: a kernel whose result depends on it is wrong.
//!
//! Blocks begin in linear order whatever the schedule, some at a time, as on a GPU, so that one may wait for those before
//! it; how far each comes ahead of the others is the schedule's.

use std::cell::Cell;

use crate::warp::{self, Warp};

/// In which order threads and blocks run. The same one gives the same course of a launch each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Schedule {
    /// The first block, warp and lane that can go on does, until it waits.
    #[default]
    InOrder,
    /// The last one does.
    Reversed,
    /// In order, but that block goes on only when no other can.
    DelayedBlock(u64),
    /// A random one does, by the generator of that seed, and threads let others run at random accesses to memory.
    Random(u64),
}

/// How many blocks have begun at a time, where the schedule has several.
pub(crate) const AT_ONCE: usize = 8;

/// One in so many accesses lets other threads run.
const PREEMPTION: u64 = 4;

/// What is random of a schedule: SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number
/// generators", 2014).
#[derive(Default)]
pub(crate) struct Random(Cell<u64>);

impl Random {
    /// Begins the sequence of a seed and a number, such as a block's.
    pub(crate) fn begin(&self, seed: u64, number: u64) {
        self.0.set(seed);
        self.0.set(self.next() ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
    }

    fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.next() % end
    }
}

/// What sets the schedule of devices that do not say theirs.
const VARIABLE: &str = "WARPSMITH_SIM_SEED";

impl Schedule {
    /// That of the environment variable `WARPSMITH_SIM_SEED`: a number is the seed of a random one, `reversed` is that.
    /// Without it none. What else it says is an error on the standard error, and then none as well.
    pub fn from_env() -> Option<Schedule> {
        let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty())?;
        let schedule = value.to_str().and_then(Schedule::parse);
        if schedule.is_none() {
            eprintln!("{VARIABLE} is {value:?}: wanted a number, or `reversed`; threads run in order");
        }
        schedule
    }

    fn parse(text: &str) -> Option<Schedule> {
        match text.trim() {
            "reversed" => Some(Schedule::Reversed),
            seed => Some(Schedule::Random(seed.parse().ok()?)),
        }
    }

    /// In order, reversed, each of the first and of the last of `blocks` delayed, and `seeds` random ones: what to try a
    /// kernel by.
    pub fn several(blocks: u64, seeds: u64) -> impl Iterator<Item = Schedule> {
        let delayed = [0, blocks.saturating_sub(1)].map(Schedule::DelayedBlock);
        [Schedule::InOrder, Schedule::Reversed]
            .into_iter()
            .chain(delayed)
            .chain((0..seeds).map(Schedule::Random))
    }

    /// Whether threads let others run where they access memory.
    pub(crate) fn preempts(self) -> bool {
        matches!(self, Schedule::Random(_))
    }

    /// The order in which `blocks`, which have begun, go on for once.
    pub(crate) fn order(self, blocks: &mut [u64], random: &Random) {
        match self {
            Schedule::InOrder => {}
            Schedule::Reversed => blocks.reverse(),
            Schedule::DelayedBlock(delayed) => blocks.sort_by_key(|&block| block == delayed),
            Schedule::Random(_) => {
                for end in (1..blocks.len()).rev() {
                    blocks.swap(end, random.below(end as u64 + 1) as usize);
                }
            }
        }
    }
}

/// The order of a block's threads, where it is not the linear one.
pub(crate) struct Order {
    schedule: Schedule,
    random: Random,
    started: Box<[Cell<bool>]>,
    /// The thread that goes on.
    chosen: Cell<u32>,
}

impl Order {
    /// `None` if threads run in linear order.
    pub(crate) fn new(schedule: Schedule, threads: u32) -> Option<Order> {
        let in_order = matches!(schedule, Schedule::InOrder | Schedule::DelayedBlock(_));
        (!in_order).then(|| Order {
            schedule,
            random: Random::default(),
            started: (0..threads).map(|_| Cell::new(false)).collect(),
            chosen: Cell::new(0),
        })
    }

    pub(crate) fn begin_block(&self, number: u64) {
        if let Schedule::Random(seed) = self.schedule {
            self.random.begin(seed, number);
        }
        self.started.iter().for_each(|started| started.set(false));
    }

    /// Chooses one of the threads that are ready.
    pub(crate) fn choose(&self, warps: &[Warp]) -> Option<u32> {
        let ready = |warp: &Warp| warp.ready.get().count_ones();
        let count: u32 = warps.iter().map(ready).sum();
        let mut number = match self.schedule {
            Schedule::Reversed => count.checked_sub(1)?,
            _ => self.random.below(u64::from(count.max(1))) as u32,
        };
        for (first, warp) in (0..).step_by(32).zip(warps) {
            if number < ready(warp) {
                let lane = warp::lanes(warp.ready.get()).nth(number as usize)?;
                self.chosen.set(first + lane);
                return Some(first + lane);
            }
            number -= ready(warp);
        }
        None
    }

    pub(crate) fn is_fresh(&self, thread: u32) -> bool {
        !self.started[thread as usize].get()
    }

    /// The thread that was chosen starts.
    pub(crate) fn start(&self) -> u32 {
        let thread = self.chosen.get();
        self.started[thread as usize].set(true);
        thread
    }

    /// Whether the running thread lets others run at an access.
    pub(crate) fn preempts(&self) -> bool {
        self.schedule.preempts() && self.random.below(PREEMPTION) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_named() {
        assert_eq!(Schedule::parse(" 17 "), Some(Schedule::Random(17)));
        assert_eq!(Schedule::parse("reversed"), Some(Schedule::Reversed));
        assert_eq!(Schedule::parse(""), None);
        assert_eq!(Schedule::parse("-1"), None);
    }
}
