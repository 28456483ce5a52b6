// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread knows to have happened, and what of it the async proxy has been shown: vector clocks (F. Mattern, "Virtual time and global states of distributed
//! systems", 1989), in which the barriers of a block are steps that all of its threads take at once.
//!
//! A block's epochs are what lies between its barriers, a thread's ticks what lies between the moments at which it hands
//! on what it knows. So a thread that knows an epoch of a block to be over knows all that happened in it, and needs to
//! know single threads' ticks only of the epoch that is not over; as a rule those of its own warp.

use std::sync::Arc;

use super::Space;

/// Who did something, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// How often all blocks had met at the grid barrier.
    pub(super) round: u64,
    pub(super) block: u64,
    pub(super) epoch: u64,
    pub(super) warp: u32,
    pub(super) tick: u32,
}

/// Of a warp's lanes, the first tick that is not known.
#[derive(Clone)]
#[repr(C)]
struct WarpTicks {
    warp: u32,
    ticks: [u32; 32],
}

impl WarpTicks {
    /// The first of `lanes` of which that tick is not known.
    fn lacks(&self, tick: u32, lanes: u32) -> Option<u32> {
        let first = lanes.trailing_zeros();
        if lanes.is_power_of_two() {
            return (self.ticks[first as usize] <= tick).then_some(first);
        }
        // All of them at once, which is what a processor has instructions for.
        let lacking = (self.ticks.iter().zip(&BITS)).fold(0, |lacking, (own, bit)| match *own <= tick {
            true => lacking | bit,
            false => lacking,
        });
        let first = (lacking & lanes).trailing_zeros();
        (first < 32).then_some(first)
    }
}

/// The bit of each lane.
const BITS: [u32; 32] = {
    let mut bits = [1; 32];
    let mut lane = 1;
    while lane < 32 {
        bits[lane] = bits[lane - 1] << 1;
        lane += 1;
    }
    bits
};

/// Of an epoch that is not over, how far the threads are known; by warp, in order.
#[derive(Clone, Default)]
struct Ticks(Vec<WarpTicks>);

impl Ticks {
    /// Where the warp is, or would be. As a rule those before it are there, too.
    #[inline]
    fn find(&self, warp: u32) -> Result<usize, usize> {
        match self.0.get(warp as usize) {
            Some(ticks) if ticks.warp == warp => Ok(warp as usize),
            _ => self.0.binary_search_by_key(&warp, |ticks| ticks.warp),
        }
    }

    fn of(&self, warp: u32) -> Option<&WarpTicks> {
        Some(&self.0[self.find(warp).ok()?])
    }

    fn of_mut(&mut self, warp: u32) -> &mut [u32; 32] {
        let at = match self.find(warp) {
            Ok(at) => at,
            Err(at) => {
                let ticks = [0; 32];
                self.0.insert(at, WarpTicks { warp, ticks });
                at
            }
        };
        &mut self.0[at].ticks
    }

    fn learn(&mut self, other: &Ticks) {
        for WarpTicks { warp, ticks } in &other.0 {
            let own = self.of_mut(*warp);
            for (own, tick) in own.iter_mut().zip(ticks) {
                *own = (*own).max(*tick);
            }
        }
    }
}

/// What is known of a block: all epochs before this one, and of this one those ticks.
#[derive(Clone)]
struct Seen {
    block: u64,
    epoch: u64,
    ticks: Arc<Ticks>,
}

impl Seen {
    fn learn(&mut self, other: &Seen) {
        if other.epoch > self.epoch {
            *self = other.clone();
        } else if other.epoch == self.epoch && !Arc::ptr_eq(&self.ticks, &other.ticks) && !other.ticks.0.is_empty() {
            Arc::make_mut(&mut self.ticks).learn(&other.ticks);
        }
    }
}

/// What is known of all blocks, by block, in order. Copies share their memory until one learns something.
#[derive(Clone, Default)]
struct Clock(Arc<Vec<Seen>>);

impl Clock {
    /// That `block` is in this epoch, and nothing else.
    fn of_epoch(block: u64, epoch: u64) -> Clock {
        Clock(Arc::new(vec![Seen {
            block,
            epoch,
            ticks: Arc::default(),
        }]))
    }

    fn of(&self, block: u64) -> Option<&Seen> {
        let at = self.0.binary_search_by_key(&block, |seen| seen.block).ok()?;
        Some(&self.0[at])
    }

    /// The first of `lanes` whose act at that moment is not known.
    fn lacks(&self, moment: &Moment, lanes: u32) -> Option<u32> {
        let first = lanes.trailing_zeros();
        let Some(seen) = self.of(moment.block) else {
            return Some(first);
        };
        if moment.epoch != seen.epoch {
            return (moment.epoch > seen.epoch).then_some(first);
        }
        match seen.ticks.of(moment.warp) {
            Some(ticks) => ticks.lacks(moment.tick, lanes),
            None => Some(first),
        }
    }

    /// Learns what `lane` did up to that moment, of the block's epoch that is not over.
    fn see(&mut self, moment: &Moment, lane: u32) {
        let seen = Arc::make_mut(&mut self.0);
        if let Ok(at) = seen.binary_search_by_key(&moment.block, |seen| seen.block) {
            Arc::make_mut(&mut seen[at].ticks).of_mut(moment.warp)[lane as usize] = moment.tick + 1;
        }
    }

    fn learn(&mut self, other: &Clock) {
        if Arc::ptr_eq(&self.0, &other.0) || other.0.is_empty() {
            return;
        }
        if self.0.is_empty() {
            *self = other.clone();
            return;
        }
        let own = Arc::make_mut(&mut self.0);
        for seen in other.0.iter() {
            match own.binary_search_by_key(&seen.block, |seen| seen.block) {
                Ok(at) => own[at].learn(seen),
                Err(at) => own.insert(at, seen.clone()),
            }
        }
    }
}

/// What of the past somebody has shown to the async proxy, of one memory.
#[derive(Clone, Default)]
struct Shown {
    past: Clock,
    /// And all that was before so many meetings at the grid barrier.
    rounds: u64,
}

/// What a thread knows.
#[derive(Clone, Default)]
pub(super) struct Knowledge {
    /// What has happened.
    past: Clock,
    /// What of that was shown to the async proxy, by [`Space`].
    shown: [Shown; 2],
}

impl Knowledge {
    /// That `block` is in this epoch, and nothing else.
    pub(super) fn of_epoch(block: u64, epoch: u64) -> Knowledge {
        Knowledge {
            past: Clock::of_epoch(block, epoch),
            ..Knowledge::default()
        }
    }

    /// The first of `lanes` whose act at that moment is not known.
    pub(super) fn lacks(&self, moment: &Moment, lanes: u32) -> Option<u32> {
        self.past.lacks(moment, lanes)
    }

    /// The first of `lanes` whose act at that moment, in that memory, is not known to have been shown to the async proxy.
    pub(super) fn hides(&self, space: Space, moment: &Moment, lanes: u32) -> Option<u32> {
        let shown = &self.shown[space as usize];
        if moment.round < shown.rounds {
            return None;
        }
        shown.past.lacks(moment, lanes)
    }

    /// Learns what `lane` did up to that moment, of the block's epoch that is not over.
    pub(super) fn see(&mut self, moment: &Moment, lane: u32) {
        self.past.see(moment, lane);
    }

    pub(super) fn learn(&mut self, other: &Knowledge) {
        self.past.learn(&other.past);
        for (own, other) in self.shown.iter_mut().zip(&other.shown) {
            own.past.learn(&other.past);
            own.rounds = own.rounds.max(other.rounds);
        }
    }

    /// The same, with `block` in another epoch, of which nothing has happened yet.
    pub(super) fn enter(&mut self, block: u64, epoch: u64) {
        self.past.learn(&Clock::of_epoch(block, epoch));
    }

    /// The async proxy is shown all that has happened in that memory, and before `round`.
    pub(super) fn show(&mut self, space: Space, round: u64) {
        let shown = &mut self.shown[space as usize];
        shown.past.learn(&self.past);
        shown.rounds = round;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Of several lanes at once the same is said as of each, and warps are found whether those before them are there or not.
        #[test]
        fn lanes_lack_what_each_of_them_does(seen: [(u32, u32, u32); 6], lanes: u32, warp in 0..5_u32, tick in 0..3_u32) {
            let lanes = lanes | 1 << (lanes % 32);
            let moment = |warp, tick| Moment { round: 0, block: 7, epoch: 0, warp, tick };
            let mut clock = Clock::of_epoch(7, 0);
            let mut known = [[0; 32]; 5];
            for (warp, lane, tick) in seen.map(|(warp, lane, tick)| (warp % 5, lane % 32, tick % 3)) {
                clock.see(&moment(warp, tick), lane);
                known[warp as usize][lane as usize] = tick + 1;
            }
            let wanted = crate::warp::lanes(lanes).find(|&lane| known[warp as usize][lane as usize] <= tick);
            prop_assert_eq!(clock.lacks(&moment(warp, tick), lanes), wanted);
        }
    }
}
