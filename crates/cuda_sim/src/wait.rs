// SPDX-License-Identifier: MIT OR Apache-2.0
//! How threads wait for each other, what ends a wait, and the rules of both.

use std::any::{Any, TypeId};
use std::mem::MaybeUninit;
use std::panic::{self, Location};
use std::thread;

use crate::barrier::{BarrierResult, GroupBarrier};
use crate::check::{self, Finding, Meeting as Meets};
use crate::context::{Context, Pause, Stop};
use crate::error::{Call, Failure};
use crate::meeting::{Absence, Arrival, Meeting};
use crate::warp::{Exchange, Gets, Lanes, Part, Refusal, Waiter, Warp};
use crate::watchdog;

impl Context<'_> {
    /// Waits until all threads of the block have come to the same barrier.
    #[inline(always)]
    pub(crate) fn wait_at_barrier(&self, call: Call, value: u64) -> BarrierResult {
        if self.unwinds() {
            return BarrierResult::alone(value);
        }
        let thread = self.linear();
        self.check_barrier(call, thread);
        match self.barrier.arrive(call, thread, value, self.threads) {
            Some(result) => {
                if let Some(checker) = &self.grid.checker {
                    checker.barrier(self.who().block);
                }
                if let Some(counter) = self.grid.counter {
                    counter.meet(self);
                }
                self.warps().iter().for_each(|warp| warp.open_barrier());
                result
            }
            None => {
                let at_barrier = &self.warp(thread).at_barrier;
                at_barrier.set(at_barrier.get() | bit(thread));
                self.suspend();
                self.barrier.result()
            }
        }
    }

    /// Waits until all threads of all blocks have come to the same grid barrier.
    pub(crate) fn wait_for_grid(&self, call: Call) {
        if self.unwinds() {
            return;
        }
        let name = call.name;
        match &self.grid.meeting {
            Some(meeting) => self.wait_for_blocks(call, meeting),
            None => self.raise(
                call,
                format!("grid barrier `{name}` in a launch that is not cooperative"),
            ),
        }
    }

    /// Waits until all threads of all blocks of the cluster have come to the same cluster barrier.
    pub(crate) fn wait_for_cluster(&self, call: Call) {
        match self.cluster() {
            None => _ = self.wait_at_barrier(call, 0),
            Some(_) if self.unwinds() => {}
            Some(cluster) => self.wait_for_blocks(call, &cluster.meeting),
        }
    }

    /// Waits until all blocks have come to where they meet.
    fn wait_for_blocks(&self, call: Call, meeting: &Meeting) {
        let thread = self.linear();
        self.check_barrier(call, thread);
        if self.barrier.arrive(call, thread, 0, self.threads).is_some() {
            if let Some(counter) = self.grid.counter {
                counter.meet(self);
            }
            let arrival = Arrival {
                call,
                block: self.grid.config.grid.linear(self.block.get()),
                thread: self.index(),
            };
            match meeting.arrive(arrival) {
                Ok(round) => {
                    if let Some(checker) = &self.grid.checker
                        && meeting.round() != round
                    {
                        match self.cluster() {
                            Some(cluster) => checker.cluster_barrier(cluster.blocks()),
                            None => checker.grid_barrier(),
                        }
                    }
                    self.grid.watch.set_round(round);
                    self.round.set(Some(round));
                }
                Err(absence) => {
                    let reason = match absence {
                        Absence::Ended(block) => self.grid.has_ended(block),
                        Absence::Elsewhere(other) => {
                            let block = self.grid.config.grid.position(other.block);
                            format!("block {block} waits at {}", other.call)
                        }
                    };
                    self.raise(call, meeting.unreached(call, &reason))
                }
            }
        }
        // The scheduler makes all threads ready when the blocks have met.
        let at_barrier = &self.warp(thread).at_barrier;
        at_barrier.set(at_barrier.get() | bit(thread));
        self.suspend();
    }

    /// Finds the fault in `thread`'s arrival at a barrier of the whole block.
    #[inline(always)]
    fn check_barrier(&self, call: Call, thread: u32) {
        let meets = (self.barrier.first()).is_none_or(|(other, _)| other.same(call));
        let wanted = self.warp(thread).wanted.get() & bit(thread) != 0;
        if !meets || wanted || self.any_exited() {
            self.refuse_barrier(call.name, call.at, thread);
        }
    }

    /// The parts of the call come one by one because they then stay in registers
    /// where it is made.
    #[cold]
    fn refuse_barrier(&self, name: &'static str, at: &'static Location<'static>, thread: u32) -> ! {
        let call = Call { name, at };
        let elsewhere = self.barrier.first().filter(|(other, _)| !other.same(call));
        let reason = if let Some((other, first)) = elsewhere {
            format!("thread {} waits at {other}", self.index_of(first))
        } else if let Some((lane, waiter)) = self.warp(thread).waiting_for(thread % 32) {
            let waiting = self.index_of(neighbour(thread, lane));
            format!("thread {waiting} waits for this one at {}", waiter.exchange.call)
        } else {
            let exited = (0..self.threads).find(|&other| !self.is_live(other));
            let index = self.index_of(exited.unwrap_or_default());
            format!("thread {index} has exited")
        };
        self.raise(call, unreached_barrier(call, &reason))
    }

    /// Waits until `threads` threads have come to the barrier of that number.
    pub(crate) fn wait_in_group(&self, call: Call, number: u32, threads: u32) {
        if self.unwinds() {
            return;
        }
        let name = call.name;
        let Some(group) = self.groups.get(number as usize).filter(|_| threads > 0) else {
            self.raise(
                call,
                format!("barrier `{name}` of {threads} threads, with the number {number}"),
            )
        };
        if threads > self.threads {
            let all = self.threads;
            self.raise(
                call,
                format!("barrier `{name}` of {threads} threads in a block of {all}"),
            );
        }
        let meets = Meets::Group(number);
        check::arrive(self, meets);
        let round = match GroupBarrier::arrive(group, threads) {
            Ok((_, true)) => return check::leave(self, meets),
            Ok((round, false)) => round,
            Err(others) => self.raise(
                call,
                format!("barrier `{name}` of {threads} threads, where others wait to be {others}"),
            ),
        };
        while GroupBarrier::round(group) == round {
            watchdog::listen(call);
            self.yield_now();
        }
        check::leave(self, meets);
    }

    /// Waits for the lanes in `mask` as [`exchange`](Self::exchange) does; what they did before it is over for all of them
    /// behind it.
    pub(crate) fn sync_warp(&self, call: Call, mask: u32) {
        let meets = Meets::Warp(self.linear() / 32, mask);
        check::arrive(self, meets);
        self.exchange(call, mask, ());
        check::leave(self, meets);
    }

    /// Waits until all lanes in `mask` have come to the same exchange.
    #[inline(always)]
    pub(crate) fn exchange<T: Copy>(&self, call: Call, mask: u32, value: T) -> Lanes<T> {
        if self.unwinds() {
            return Lanes::alone(mask, value);
        }
        let mut lanes = Lanes::room(mask);
        let part = Part {
            value: (&raw const value).cast(),
            from: self.linear() % 32,
            out: lanes.start(),
        };
        let exchange = Exchange {
            call,
            mask,
            bytes: size_of::<T>(),
            gets: Gets::All,
        };
        // SAFETY: the value and the room for those of all lanes are in this frame.
        unsafe { self.meet(exchange, part, |warp, last, exchange| warp.deliver(last, exchange)) };
        lanes
    }

    /// As [`exchange`](Self::exchange), where the last lane that comes makes of the values what each lane gets.
    ///
    /// # Safety
    ///
    /// `make` lets no thread run and comes to no exchange.
    #[inline(always)]
    pub(crate) unsafe fn exchange_with<T: Copy + 'static, R: Copy + 'static>(
        &self,
        call: Call,
        mask: u32,
        value: T,
        make: impl FnOnce(&Lanes<T>) -> [R; 32],
    ) -> R {
        let lane = self.linear() % 32;
        if self.unwinds() {
            return make(&Lanes::alone(mask, value))[lane as usize];
        }
        let mut made = MaybeUninit::<R>::uninit();
        let part = Part {
            value: (&raw const value).cast(),
            from: lane,
            out: made.as_mut_ptr().cast(),
        };
        let exchange = Exchange {
            call,
            mask,
            bytes: size_of::<T>(),
            gets: Gets::Made(TypeId::of::<(T, R)>()),
        };
        // SAFETY: the value and the room are in this frame, and of the types that the exchange names: so are those of all
        // that come to it. The caller promises what `make` does.
        unsafe {
            self.meet(exchange, part, |warp, _, _| warp.deliver_made(mask, make));
            made.assume_init()
        }
    }

    /// As [`exchange`](Self::exchange), where the lane takes the bytes that lane
    /// `from` of the mask gave. Both slices are of one length.
    #[inline(always)]
    pub(crate) fn exchange_bytes(&self, call: Call, mask: u32, value: &[u8], from: u32, out: &mut [u8]) {
        out.copy_from_slice(value);
        if self.unwinds() {
            return;
        }
        let part = Part {
            value: value.as_ptr(),
            from,
            out: out.as_mut_ptr(),
        };
        let exchange = Exchange {
            call,
            mask,
            bytes: value.len(),
            gets: Gets::One,
        };
        // SAFETY: both slices are borrowed for this call and, as was checked, of one
        // length.
        unsafe { self.meet(exchange, part, |warp, last, exchange| warp.deliver(last, exchange)) };
    }

    /// Comes to an exchange, and has what it gives when it returns.
    ///
    /// # Safety
    ///
    /// What `part` points to is as for [`Warp::give`], until this returns or unwinds;
    /// so is `deliver`.
    #[inline(always)]
    unsafe fn meet(&self, exchange: Exchange, part: Part, deliver: impl FnOnce(&Warp, u32, Exchange)) {
        let thread = self.linear();
        let (warp, lane) = (self.warp(thread), thread % 32);
        let Some(met) = warp.admit(lane, exchange) else {
            self.refuse_exchange(exchange)
        };
        if part.from >= 32 || exchange.mask >> part.from & 1 == 0 {
            self.refuse_source(exchange, part.from);
        }
        // SAFETY: the lane was just admitted, and what `part` points to is there until
        // `suspend` returns, when the lane is ready again. If `suspend` unwinds instead, the block is stopped;
        // `unwinds` then keeps all its threads from coming here, and the next
        // block resets the warp.
        if !unsafe { warp.give(lane, exchange, met, part, deliver) } {
            self.suspend();
        }
    }

    #[cold]
    fn refuse_source(&self, Exchange { call, mask, .. }: Exchange, from: u32) -> ! {
        let (name, lane) = (call.name, self.linear() % 32);
        let message = format!("`{name}` of lane {lane} reads lane {from}, which is not in its mask {mask:#010x}");
        self.raise(call, message)
    }

    #[cold]
    fn refuse_exchange(&self, exchange: Exchange) -> ! {
        let Exchange { call, mask, .. } = exchange;
        let thread = self.linear();
        let index = |lane| self.index_of(neighbour(thread, lane));
        let (lane, reason) = match self.warp(thread).refusal(thread % 32, exchange) {
            Refusal::NotInMask => {
                let (name, lane) = (call.name, thread % 32);
                let message = format!("`{name}` called by lane {lane}, which its mask {mask:#010x} lacks");
                self.raise(call, message)
            }
            Refusal::Missing(lane) => {
                let (warp, threads) = (thread / 32, self.threads);
                let reason = format!("which warp {warp} of a block of {threads} threads does not have");
                (lane, reason)
            }
            Refusal::Exited(lane) => (lane, format!("thread {}, has exited", index(lane))),
            Refusal::AtBarrier(lane) => {
                let at = self.barrier.first().map(|(other, _)| other.to_string());
                let at = at.unwrap_or_default();
                (lane, format!("thread {}, waits at {at}", index(lane)))
            }
            Refusal::Elsewhere(lane, waiter) => {
                let (other, mask) = (waiter.exchange.call, waiter.exchange.mask);
                let reason = format!("thread {}, waits at {other} with mask {mask:#010x}", index(lane));
                (lane, reason)
            }
        };
        self.raise(call, unreached_exchange(call, mask, lane, &reason))
    }

    /// Lets the other threads of the block, and other blocks, run.
    pub(crate) fn yield_now(&self) {
        if self.unwinds() {
            return;
        }
        // What this thread waits for may be the work of a block that was stopped.
        self.end_with_others();
        let thread = self.linear();
        let yielded = &self.warp(thread).yielded;
        yielded.set(yielded.get() | bit(thread));
        self.suspend();
    }

    /// Ends the block if another one's fault has: what this one would miss is that one's doing.
    pub(crate) fn end_with_others(&self) {
        if self.grid.has_fault() {
            self.stop();
            unwind();
        }
    }

    /// Waits until `is_over`, which other threads of the block, or of its cluster, alone can bring about; `reason` says what does not come, if
    /// all of them wait as well.
    pub(crate) fn wait_until(&self, call: Call, is_over: impl Fn() -> bool, reason: impl FnOnce() -> String) {
        let in_vain = &self.warp(self.linear()).in_vain;
        let mut has_waited = false;
        while !self.unwinds() && !is_over() {
            watchdog::listen(call);
            if self.is_stuck() {
                self.raise(call, reason());
            }
            if has_waited {
                in_vain.set(in_vain.get() | bit(self.linear()));
            }
            self.yield_now();
            has_waited = true;
        }
    }

    /// The lanes of this warp that have not exited.
    #[inline(always)]
    pub(crate) fn active_mask(&self) -> u32 {
        self.warp(self.linear()).live.get()
    }

    /// The running thread has returned, or was unwound with `outcome`.
    #[inline(always)]
    pub(crate) fn end_thread(&self, outcome: Result<(), Box<dyn Any + Send>>) {
        self.exit();
        match outcome {
            Err(payload) => self.fail_by_panic(payload),
            Ok(()) => self.check_exit(self.linear()),
        }
    }

    /// Finds the fault in `thread`'s exit: that others wait for it.
    #[inline(always)]
    fn check_exit(&self, thread: u32) {
        let barrier = self.barrier.first();
        let exchange = self.warp(thread).waiting_for(thread % 32);
        if barrier.is_some() || exchange.is_some() {
            self.refuse_exit(thread, barrier, exchange);
        }
    }

    #[cold]
    fn refuse_exit(&self, thread: u32, barrier: Option<(Call, u32)>, exchange: Option<(u32, Waiter)>) {
        let index = self.index_of(thread);
        if let Some((call, first)) = barrier {
            let reason = format!("thread {index} has exited");
            self.fail_at(call, first, unreached_barrier(call, &reason));
        } else if let Some((lane, waiter)) = exchange {
            let reason = format!("thread {index}, has exited");
            let Exchange { call, mask, .. } = waiter.exchange;
            let message = unreached_exchange(call, mask, thread % 32, &reason);
            self.fail_at(call, neighbour(thread, lane), message);
        }
    }

    /// Ends the running thread, and its block with it, by a fault.
    #[cold]
    pub(crate) fn raise(&self, call: Call, message: String) -> ! {
        self.fail_at(call, self.linear(), message);
        unwind()
    }

    /// As [`raise`](Self::raise), of what a check has found.
    #[cold]
    pub(crate) fn raise_finding(&self, call: Call, message: String, finding: Finding) -> ! {
        self.fail(Failure {
            thread: self.index(),
            location: Some(call.at.into()),
            message,
            finding: Some(Box::new(finding)),
        });
        unwind()
    }

    #[cold]
    fn fail_at(&self, call: Call, thread: u32, message: String) {
        self.fail(Failure {
            thread: self.index_of(thread),
            location: Some(call.at.into()),
            message,
            finding: None,
        });
    }

    /// Whether the thread unwinds, so that the caller is a destructor: then it
    /// must neither wait, for nobody will come, nor panic. A thread that has
    /// caught the unwinding of a stopped block is unwound again.
    #[inline(always)]
    pub(crate) fn unwinds(&self) -> bool {
        if thread::panicking() {
            return true;
        }
        if self.stopped() {
            unwind();
        }
        false
    }

    /// Switches to the scheduler until this thread is ready again.
    #[inline(always)]
    fn suspend(&self) {
        let yielder = self.running.get().yielder;
        // SAFETY: the running coroutine's own: `start_thread` entered it, and
        // the scheduler enters it again before it resumes the coroutine.
        unsafe { (*yielder).suspend(Pause::Waiting) };
        if self.stopped() {
            unwind();
        }
    }
}

/// The lane of `thread`, as a bit.
#[inline(always)]
fn bit(thread: u32) -> u32 {
    1 << (thread % 32)
}

/// The thread that is lane `lane` of `thread`'s warp.
fn neighbour(thread: u32, lane: u32) -> u32 {
    thread - thread % 32 + lane
}

/// Unwinds the running thread without a word.
#[cold]
fn unwind() -> ! {
    panic::resume_unwind(Box::new(Stop))
}

#[cold]
fn unreached_barrier(call: Call, reason: &str) -> String {
    let name = call.name;
    format!("barrier `{name}` not reached by all threads of the block: {reason}")
}

#[cold]
fn unreached_exchange(call: Call, mask: u32, lane: u32, reason: &str) -> String {
    let name = call.name;
    format!("`{name}` with mask {mask:#010x} not reached by all its lanes: lane {lane}, {reason}")
}
