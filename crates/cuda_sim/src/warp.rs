// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of one warp, a bit a lane, and the values that lanes exchange.
//!
//! A warp knows what each of its lanes is doing: ready to run, waiting in an
//! exchange, at the block's barrier, or spinning. Several exchanges can be under
//! way at once, and their masks may overlap: some lanes may already wait for the
//! whole warp while the others still exchange among themselves. What may not be
//! is a circle, in which lanes wait for each other in different exchanges; the
//! lane that would close one is refused.

use std::any::TypeId;
use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;

use crate::error::Call;

/// What the lanes of a warp gave to one exchange.
pub struct Lanes<T = u64> {
    mask: u32,
    /// Written for the lanes in `mask`.
    values: [MaybeUninit<T>; 32],
}

impl<T: Copy> Clone for Lanes<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for Lanes<T> {}

impl<T: Copy> Lanes<T> {
    /// The value that `lane` gave; `None` if it took no part.
    #[inline(always)]
    pub fn get(&self, lane: u32) -> Option<T> {
        if lane < 32 && self.mask >> lane & 1 != 0 {
            // SAFETY: the lane is in the mask.
            Some(unsafe { self.values[lane as usize].assume_init() })
        } else {
            None
        }
    }

    /// The lanes that took part, a bit each.
    #[inline(always)]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Room for what the lanes in `mask` give.
    #[inline(always)]
    pub(crate) fn room(mask: u32) -> Lanes<T> {
        Lanes {
            mask,
            values: [MaybeUninit::uninit(); 32],
        }
    }

    /// Where the values go.
    #[inline(always)]
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.values.as_mut_ptr().cast()
    }

    /// The exchange as it looks without the other lanes: each seems to have given
    /// `value`.
    pub(crate) fn alone(mask: u32, value: T) -> Lanes<T> {
        Lanes {
            mask,
            values: [MaybeUninit::new(value); 32],
        }
    }
}

impl<T: Copy + fmt::Debug> fmt::Debug for Lanes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = (0..32).filter_map(|lane| Some((lane, self.get(lane)?)));
        f.debug_map().entries(given).finish()
    }
}

/// One exchange: lanes meet only in the same one.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) call: Call,
    pub(crate) mask: u32,
    /// The size of a lane's value.
    pub(crate) bytes: usize,
    pub(crate) gets: Gets,
}

/// What a lane gets of an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gets {
    /// The value of one lane.
    One,
    /// Those of all.
    All,
    /// Something that the last lane makes of those of all, by the types of a value and of that.
    Made(TypeId),
}

impl Exchange {
    #[inline(always)]
    fn same(self, other: Exchange) -> bool {
        self.mask == other.mask && self.bytes == other.bytes && self.gets == other.gets && self.call.same(other.call)
    }
}

/// Who has come to an exchange.
#[derive(Clone, Copy)]
pub(crate) struct Met {
    /// The first of them.
    leader: Option<u32>,
    lanes: u32,
}

/// What a lane brings to an exchange, and where it wants what it gets.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) value: *const u8,
    /// The lane whose value it wants, if not those of all.
    pub(crate) from: u32,
    /// Room for a value, for 32 of them, or for what is made of them.
    pub(crate) out: *mut u8,
}

impl Part {
    const NONE: Part = Part {
        value: ptr::null(),
        from: 0,
        out: ptr::null_mut(),
    };
}

/// A lane's part in an exchange under way.
#[derive(Clone, Copy)]
pub(crate) struct Waiter {
    pub(crate) exchange: Exchange,
    /// The first lane that came.
    leader: u32,
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
    /// Those of them that had their turn for nothing: what they wait for was not there.
    pub(crate) in_vain: Cell<u32>,
    /// Lanes at the block's barrier.
    pub(crate) at_barrier: Cell<u32>,
    /// Lanes waiting in an exchange.
    pub(crate) exchanging: Cell<u32>,
    /// The union of the masks of the exchanges under way.
    pub(crate) wanted: Cell<u32>,
    waiters: [Cell<Option<Waiter>>; 32],
    /// What each lane brought to the exchange that it came to last.
    parts: [Cell<Part>; 32],
    /// By leader, the lanes that have come to its exchange.
    met: [Cell<u32>; 32],
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
            in_vain: Cell::new(0),
            at_barrier: Cell::new(0),
            exchanging: Cell::new(0),
            wanted: Cell::new(0),
            waiters: [const { Cell::new(None) }; 32],
            parts: [const { Cell::new(Part::NONE) }; 32],
            met: [const { Cell::new(0) }; 32],
        }
    }

    /// All lanes are about to start.
    #[inline(always)]
    pub(crate) fn reset(&self) {
        self.live.set(self.exists);
        self.ready.set(self.exists);
        self.yielded.set(0);
        self.in_vain.set(0);
        self.at_barrier.set(0);
        self.exchanging.set(0);
        self.wanted.set(0);
    }

    /// The lanes that spun may run again.
    #[inline(always)]
    pub(crate) fn wake_yielded(&self) {
        self.ready.set(self.ready.get() | self.yielded.replace(0));
        self.in_vain.set(0);
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
            .find(|(_, waiter)| waiter.exchange.mask >> lane & 1 != 0)
    }

    /// Whom `lane` meets in `exchange`, if it may take part in it now.
    #[inline(always)]
    pub(crate) fn admit(&self, lane: u32, exchange: Exchange) -> Option<Met> {
        let (mask, met) = (exchange.mask, self.met(exchange));
        let absent = mask & (!self.live.get() | self.at_barrier.get());
        let elsewhere = mask & self.exchanging.get() & !met.lanes;
        let admitted =
            mask >> lane & 1 != 0 && absent == 0 && (elsewhere == 0 || self.circle(lane, elsewhere).is_none());
        admitted.then_some(met)
    }

    /// The lanes that have come to this exchange. Nearly always the first one that waits has, or nobody waits: a loop that is
    /// inlined finds that by a comparison.
    #[inline(always)]
    fn met(&self, exchange: Exchange) -> Met {
        for lane in lanes(exchange.mask & self.exchanging.get()) {
            if let Some(Waiter {
                exchange: other,
                leader,
            }) = self.waiters[lane as usize].get()
                && other.same(exchange)
            {
                return Met {
                    leader: Some(leader),
                    lanes: self.met[leader as usize].get(),
                };
            }
        }
        Met { leader: None, lanes: 0 }
    }

    /// Whoever of `elsewhere` waits, be it by way of others, for `lane`.
    #[cold]
    fn circle(&self, lane: u32, elsewhere: u32) -> Option<(u32, Waiter)> {
        let waits_for_lane = |start: u32| {
            let (mut seen, mut next) = (0, 1 << start);
            while let Some(at) = lanes(next & !seen).next() {
                seen |= 1 << at;
                next |= self.waiter(at).map_or(0, |waiter| waiter.exchange.mask);
            }
            next >> lane & 1 != 0
        };
        lanes(elsewhere)
            .filter(|&start| waits_for_lane(start))
            .find_map(|start| Some((start, self.waiter(start)?)))
    }

    /// Why `lane` was not admitted.
    #[cold]
    pub(crate) fn refusal(&self, lane: u32, exchange: Exchange) -> Refusal {
        let mask = exchange.mask;
        let first = |mask| lanes(mask).next();
        let elsewhere = mask & self.exchanging.get() & !self.met(exchange).lanes;
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

    /// Lane `lane`, [admitted](Self::admit) to those that it meets, gives its value;
    /// whether it was the last one of the exchange. Then `deliver` has written what all
    /// lanes want, and the others are ready; if not, the lane is entered as waiting.
    ///
    /// # Safety
    ///
    /// Until the lane is ready again or the warp is reset, `part` points to so many
    /// bytes as the exchange has and to room, which is nobody else's, for what the
    /// lane [gets](Gets): as many, 32 times as many, or those of the second type;
    /// `from` is in the mask. No thread of the warp has run since the lane was
    /// admitted to this exchange. A value whose type the exchange names is of that
    /// type. What `deliver` does is right where all parts are so, and lets no
    /// thread run.
    #[inline(always)]
    pub(crate) unsafe fn give(
        &self,
        lane: u32,
        exchange: Exchange,
        met: Met,
        part: Part,
        deliver: impl FnOnce(&Warp, u32, Exchange),
    ) -> bool {
        let mask = exchange.mask;
        self.parts[lane as usize].set(part);
        let (leader, met) = (met.leader.unwrap_or(lane), met.lanes | 1 << lane);
        if met != mask {
            self.waiters[lane as usize].set(Some(Waiter { exchange, leader }));
            self.met[leader as usize].set(met);
            self.exchanging.set(self.exchanging.get() | 1 << lane);
            self.wanted.set(self.wanted.get() | mask);
            return false;
        }

        // Every lane of the mask came to this exchange by `give` and has not been
        // ready since: what its part points to is valid.
        deliver(self, lane, exchange);
        let others = mask & !(1 << lane);
        let waiting = self.exchanging.get() & !others;
        let masks = lanes(waiting).filter_map(|lane| self.waiter(lane));
        self.wanted.set(masks.fold(0, |all, waiter| all | waiter.exchange.mask));
        self.exchanging.set(waiting);
        self.ready.set(self.ready.get() | others);
        true
    }

    /// Writes what the lanes of an exchange want, of which `last` is one: values that were given.
    ///
    /// # Safety
    ///
    /// The parts of all of them are valid, as for [`give`](Self::give).
    #[inline(always)]
    pub(crate) unsafe fn deliver(&self, last: u32, Exchange { mask, bytes, gets, .. }: Exchange) {
        let part = |lane: u32| self.parts[lane as usize].get();
        // SAFETY: by the caller's promise each value has `bytes` bytes, and the
        // room of a lane so many for each value that it gets.
        unsafe {
            if gets == Gets::One {
                for lane in lanes(mask) {
                    let Part { from, out, .. } = part(lane);
                    copy(part(from).value, out, bytes);
                }
                return;
            }
            let first = part(last).out;
            for lane in lanes(mask) {
                copy(part(lane).value, first.add(lane as usize * bytes), bytes);
            }
            for lane in lanes(mask & !(1 << last)) {
                ptr::copy_nonoverlapping(first, part(lane).out, 32 * bytes);
            }
        }
    }
}

impl Warp {
    /// Writes what is made of the values that the lanes of an exchange have given, for each lane its own.
    ///
    /// # Safety
    ///
    /// The parts of all of them are valid, as for [`give`](Self::give), with values of type `T` and room for an `R`. `make`
    /// lets no thread run and comes to no exchange.
    #[inline(always)]
    pub(crate) unsafe fn deliver_made<T: Copy, R: Copy>(&self, mask: u32, make: impl FnOnce(&Lanes<T>) -> [R; 32]) {
        let part = |lane: u32| self.parts[lane as usize].get();
        let mut given = Lanes::room(mask);
        for lane in lanes(mask) {
            // SAFETY: by the caller's promise a value of that type, in the frame of a lane that waits or is this one.
            given.values[lane as usize].write(unsafe { part(lane).value.cast::<T>().read() });
        }
        let made = make(&given);
        for lane in lanes(mask) {
            // SAFETY: by the caller's promise room for one, in such a frame: nobody has run since.
            unsafe { part(lane).out.cast::<R>().write(made[lane as usize]) };
        }
    }
}

/// Copies `bytes` bytes; of most values in one move.
///
/// # Safety
///
/// As for [`ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => to.write(from.read()),
            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
            8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
            _ => ptr::copy_nonoverlapping(from, to, bytes),
        }
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
