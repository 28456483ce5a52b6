// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of one warp, a bit a lane, and the values that lanes exchange.
//!
//! A warp knows what each of its lanes is doing: ready to run, waiting in an
//! exchange, at the block's barrier, or spinning. Several exchanges can be under
//! way at once, and their masks may overlap: some lanes may already wait for the
//! whole warp while the others still exchange among themselves. What may not be
//! is a circle, in which lanes wait for each other in different exchanges; the
//! lane that would close one is refused.

use std::cell::Cell;
use std::fmt;
use std::ptr;

use crate::error::Call;

/// What the lanes of a warp gave to one exchange.
#[derive(Clone, Copy)]
pub struct Lanes {
    mask: u32,
    /// Meaningful for the lanes in `mask`.
    values: [u64; 32],
}

impl Lanes {
    /// The value that `lane` gave; `None` if it took no part.
    #[inline(always)]
    pub fn get(&self, lane: u32) -> Option<u64> {
        if lane < 32 && self.mask >> lane & 1 != 0 {
            Some(self.values[lane as usize])
        } else {
            None
        }
    }

    /// The lanes that took part, a bit each.
    #[inline(always)]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// The exchange as it looks without the other lanes: each seems to have given
    /// `value`.
    pub(crate) fn alone(mask: u32, value: u64) -> Lanes {
        Lanes {
            mask,
            values: [value; 32],
        }
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = (0..32).filter_map(|lane| Some((lane, self.get(lane)?)));
        f.debug_map().entries(given).finish()
    }
}

/// A lane's part in an exchange under way.
#[derive(Clone, Copy)]
pub(crate) struct Waiter {
    pub(crate) call: Call,
    pub(crate) mask: u32,
    /// The first lane that came.
    leader: u32,
    /// Where the waiting lane wants the result; on its own stack.
    out: *mut Lanes,
}

/// The lanes of one warp.
pub(crate) struct Warp {
    /// Lanes that the block has in this warp.
    pub(crate) exists: u32,
    /// Lanes that have not exited, those that have not started among them.
    pub(crate) live: Cell<u32>,
    /// Lanes that can run.
    pub(crate) ready: Cell<u32>,
    /// Lanes that want to run again when all others had their turn.
    pub(crate) yielded: Cell<u32>,
    /// Lanes at the block's barrier.
    pub(crate) at_barrier: Cell<u32>,
    /// Lanes waiting in an exchange.
    pub(crate) exchanging: Cell<u32>,
    /// The union of the masks of the exchanges under way.
    pub(crate) wanted: Cell<u32>,
    waiters: [Cell<Option<Waiter>>; 32],
    /// By leader, the lanes that have come to its exchange.
    met: [Cell<u32>; 32],
    values: [Cell<u64>; 32],
}

/// Why a lane cannot join an exchange.
pub(crate) enum Refusal {
    /// The caller is not in its own mask.
    NotInMask,
    /// This lane is beyond the end of the block.
    Missing(u32),
    /// This lane has exited.
    Exited(u32),
    /// This lane is at the block's barrier.
    AtBarrier(u32),
    /// This lane waits in another exchange, which in the end waits for the
    /// caller.
    Elsewhere(u32, Waiter),
}

impl Warp {
    pub(crate) fn new(lanes: u32) -> Warp {
        Warp {
            exists: u32::MAX >> (32 - lanes),
            live: Cell::new(0),
            ready: Cell::new(0),
            yielded: Cell::new(0),
            at_barrier: Cell::new(0),
            exchanging: Cell::new(0),
            wanted: Cell::new(0),
            waiters: [const { Cell::new(None) }; 32],
            met: [const { Cell::new(0) }; 32],
            values: [const { Cell::new(0) }; 32],
        }
    }

    /// All lanes are about to start.
    #[inline(always)]
    pub(crate) fn reset(&self) {
        self.live.set(self.exists);
        self.ready.set(self.exists);
        self.yielded.set(0);
        self.at_barrier.set(0);
        self.exchanging.set(0);
        self.wanted.set(0);
    }

    /// The lanes that spun may run again.
    #[inline(always)]
    pub(crate) fn wake_yielded(&self) {
        self.ready.set(self.ready.get() | self.yielded.replace(0));
    }

    /// The lanes at the barrier may go on.
    #[inline(always)]
    pub(crate) fn open_barrier(&self) {
        self.ready.set(self.ready.get() | self.at_barrier.replace(0));
    }

    fn waiter(&self, lane: u32) -> Option<Waiter> {
        (self.exchanging.get() >> lane & 1 != 0).then(|| self.waiters[lane as usize].get())?
    }

    /// The lowest lane whose exchange wants `lane` to come.
    #[inline(always)]
    pub(crate) fn waiting_for(&self, lane: u32) -> Option<(u32, Waiter)> {
        if self.wanted.get() >> lane & 1 == 0 {
            return None;
        }
        lanes(self.exchanging.get())
            .filter_map(|other| Some((other, self.waiter(other)?)))
            .find(|(_, waiter)| waiter.mask >> lane & 1 != 0)
    }

    /// Whether `lane` may take part in an exchange with `mask` now.
    #[inline(always)]
    pub(crate) fn admits(&self, lane: u32, call: Call, mask: u32) -> bool {
        let absent = mask & (!self.live.get() | self.at_barrier.get());
        let elsewhere = mask & self.exchanging.get() & !self.met(call, mask).1;
        mask >> lane & 1 != 0 && absent == 0 && (elsewhere == 0 || self.circle(lane, elsewhere).is_none())
    }

    /// The leader of this exchange and the lanes that have come to it.
    #[inline(always)]
    fn met(&self, call: Call, mask: u32) -> (Option<u32>, u32) {
        lanes(mask & self.exchanging.get())
            .filter_map(|lane| self.waiters[lane as usize].get())
            .find(|waiter| waiter.mask == mask && waiter.call.same(call))
            .map_or((None, 0), |waiter| {
                let leader = waiter.leader;
                (Some(leader), self.met[leader as usize].get())
            })
    }

    /// Whoever of `elsewhere` waits, be it by way of others, for `lane`.
    #[cold]
    fn circle(&self, lane: u32, elsewhere: u32) -> Option<(u32, Waiter)> {
        let waits_for_lane = |start: u32| {
            let (mut seen, mut next) = (0, 1 << start);
            while let Some(at) = lanes(next & !seen).next() {
                seen |= 1 << at;
                next |= self.waiter(at).map_or(0, |waiter| waiter.mask);
            }
            next >> lane & 1 != 0
        };
        lanes(elsewhere)
            .filter(|&start| waits_for_lane(start))
            .find_map(|start| Some((start, self.waiter(start)?)))
    }

    /// Why `lane` was not admitted.
    #[cold]
    pub(crate) fn refusal(&self, lane: u32, call: Call, mask: u32) -> Refusal {
        let first = |mask| lanes(mask).next();
        let elsewhere = mask & self.exchanging.get() & !self.met(call, mask).1;
        if mask >> lane & 1 == 0 {
            Refusal::NotInMask
        } else if let Some(other) = first(mask & !self.exists) {
            Refusal::Missing(other)
        } else if let Some(other) = first(mask & !self.live.get()) {
            Refusal::Exited(other)
        } else if let Some((other, waiter)) = self.circle(lane, elsewhere) {
            Refusal::Elsewhere(other, waiter)
        } else {
            Refusal::AtBarrier((mask & self.at_barrier.get()).trailing_zeros())
        }
    }

    /// Lane `lane`, admitted before, gives its value. The last one of `mask` gets
    /// the result back, and the others are ready with theirs; any other is
    /// entered as waiting for it.
    ///
    /// # Safety
    ///
    /// Unless the result is returned, `out` must stay writable until the lane is
    /// ready again or the warp is reset.
    #[inline(always)]
    pub(crate) unsafe fn give(&self, lane: u32, call: Call, mask: u32, value: u64, out: *mut Lanes) -> Option<Lanes> {
        self.values[lane as usize].set(value);
        let (leader, met) = self.met(call, mask);
        let (leader, met) = (leader.unwrap_or(lane), met | 1 << lane);
        if met != mask {
            let waiter = Waiter {
                call,
                mask,
                leader,
                out,
            };
            self.waiters[lane as usize].set(Some(waiter));
            self.met[leader as usize].set(met);
            self.exchanging.set(self.exchanging.get() | 1 << lane);
            self.wanted.set(self.wanted.get() | mask);
            return None;
        }

        let result = Lanes {
            mask,
            values: std::array::from_fn(|i| self.values[i].get()),
        };
        let others = mask & !(1 << lane);
        for other in lanes(others) {
            if let Some(waiter) = self.waiters[other as usize].get() {
                // SAFETY: `other` came to this exchange, so its `give` returned
                // `None` and it has not been ready since: the pointer is valid.
                unsafe { ptr::write(waiter.out, result) };
            }
        }
        let waiting = self.exchanging.get() & !others;
        let masks = lanes(waiting).filter_map(|lane| self.waiter(lane));
        self.wanted.set(masks.fold(0, |all, waiter| all | waiter.mask));
        self.exchanging.set(waiting);
        self.ready.set(self.ready.get() | others);
        Some(result)
    }
}

/// The lanes in a mask, in increasing order.
#[inline(always)]
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}
