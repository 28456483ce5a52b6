// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a running GPU thread can see and do: its indices, its warp, its block.
//!
//! A worker (an OS thread at work on a grid) has one [`Context`] and uses it for
//! block after block. Its scheduler and the coroutines of its GPU threads all
//! run on that one OS thread, so the context is shared by reference and made of
//! cells. A thread-local pointer leads from a device function to the context; it
//! is set while, and only while, a coroutine runs.
//!
//! A thread that waits writes down what it waits for and switches to the
//! scheduler; the last one to arrive goes on at once, having made the others
//! ready. Whatever would make a thread wait for ever is found on arrival: two
//! threads at two barriers, a lane wanted by an exchange that is elsewhere or
//! gone. So a block whose threads can all not run does not exist.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic;
use std::ptr;
use std::sync::Arc;

use corosensei::Yielder;

use crate::barrier::{Barrier, GROUP_BARRIERS, GroupBarrier};
use crate::check::{self, Array, Bytes, Space, Who};
use crate::cluster::Cluster;
use crate::dim3::Dim3;
use crate::error::{Failure, Panic};
use crate::grid::Grid;
use crate::meeting::Meeting;
use crate::schedule::Order;
use crate::shared::{self, Shared};
use crate::warp::Warp;
use crate::watchdog::Place;

thread_local! {
    static CURRENT: Cell<*const Context<'static>> = const { Cell::new(ptr::null()) };
}

/// What unwinds a thread that is to end without a fault of its own.
pub(crate) struct Stop;

/// Why a coroutine switches to the scheduler.
pub(crate) enum Pause {
    /// Its thread waits for others.
    Waiting,
    /// It has no thread.
    Idle,
}

/// A GPU thread: its place in the block, in linear order and as an index.
#[derive(Clone, Copy, Default)]
pub(crate) struct Thread {
    pub(crate) linear: u32,
    pub(crate) index: Dim3,
}

/// The thread that runs, and how its coroutine switches to the scheduler. It is
/// the scheduler who puts it in place: a coroutine that restored its own after
/// each switch would do so only once its stack has come into the cache.
#[derive(Clone, Copy)]
pub(crate) struct Running {
    pub(crate) thread: Thread,
    pub(crate) yielder: *const Yielder<(), Pause>,
}

impl Default for Running {
    fn default() -> Self {
        Running {
            thread: Thread::default(),
            yielder: ptr::null(),
        }
    }
}

/// See the module.
pub(crate) struct Context<'a> {
    pub(crate) grid: &'a Grid<'a>,
    /// Threads in a block.
    pub(crate) threads: u32,
    pub(crate) block: Cell<Dim3>,
    /// What runs, or ran last.
    pub(crate) running: Cell<Running>,
    /// The same, for the watchdog to see.
    pub(crate) place: Arc<Place>,
    warps: Box<[Warp]>,
    /// The warp whose threads run now.
    cursor: Cell<usize>,
    /// How many threads have started: threads start in linear order, unless there is another.
    started: Cell<u32>,
    order: Option<Order>,
    exited: Cell<u32>,
    pub(crate) barrier: Barrier,
    pub(crate) groups: [Cell<GroupBarrier>; GROUP_BARRIERS as usize],
    /// The round of the meeting of blocks that all threads of the block wait for
    /// the end of.
    pub(crate) round: Cell<Option<u64>>,
    pub(crate) shared: Shared,
    /// The cluster that the block is one of, while it runs; see [`Context::cluster`].
    pub(crate) cluster: Cell<*const Cluster<'static>>,
    /// How many threads were ready as this pass over the block began, if all of them had yielded.
    woken: Cell<u32>,
    /// All threads wait for one another.
    stuck: Cell<bool>,
    /// The block is to end: threads unwind at the next switch.
    stopped: Cell<bool>,
    /// The worker is to end: coroutines return.
    closed: Cell<bool>,
    failure: RefCell<Option<Failure>>,
    panic: RefCell<Option<Panic>>,
}

/// The context of the running thread.
///
/// # Safety
///
/// The reference must not outlive the device function that asks for it.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn current<'c>(function: &'static str) -> &'c Context<'c> {
    let context = CURRENT.get();
    if context.is_null() {
        outside(function);
    }
    // SAFETY: not null, so a coroutine runs on this OS thread, and the `resume`
    // that runs it holds the context by reference until it has switched back.
    unsafe { &*context.cast() }
}

/// Calls `f` with the context of the running thread.
#[inline(always)]
#[track_caller]
pub(crate) fn with<R>(function: &'static str, f: impl FnOnce(&Context<'_>) -> R) -> R {
    // SAFETY: `f` cannot keep the reference.
    f(unsafe { current(function) })
}

#[cold]
#[track_caller]
fn outside(function: &'static str) -> ! {
    panic!("cuda_sim::{function} called outside a kernel: only `launch` makes GPU threads");
}

/// Whether this OS thread runs a GPU thread now.
#[inline]
pub(crate) fn is_set() -> bool {
    !CURRENT.get().is_null()
}

/// Writes which thread of which launch runs on this OS thread. Allocates nothing.
pub(crate) fn describe(out: &mut dyn fmt::Write) -> fmt::Result {
    if !is_set() {
        return out.write_str("a simulated thread");
    }
    with("describe", |context| {
        let (kernel, block) = (context.grid.kernel, context.block.get());
        let thread = context.running.get().thread.index;
        write!(out, "kernel `{kernel}`: block {block}, thread {thread}")
    })
}

/// Keeps a panic for the fault that it becomes; false outside a kernel.
pub(crate) fn record_panic(seen: impl FnOnce() -> Panic) -> bool {
    if !is_set() {
        return false;
    }
    with("record_panic", |context| *context.panic.borrow_mut() = Some(seen()));
    true
}

impl<'a> Context<'a> {
    pub(crate) fn new(grid: &'a Grid<'a>) -> Self {
        // At most 1024: the configuration was checked.
        let threads = grid.config.block.count() as u32;
        Context {
            grid,
            threads,
            block: Cell::default(),
            running: Cell::default(),
            place: grid.watch.add_worker(),
            warps: (0..threads.div_ceil(32))
                .map(|warp| Warp::new((threads - warp * 32).min(32)))
                .collect(),
            cursor: Cell::new(0),
            started: Cell::new(0),
            order: Order::new(grid.options.schedule.unwrap_or_default(), threads),
            exited: Cell::new(0),
            barrier: Barrier::new(),
            groups: [const { Cell::new(GroupBarrier::NEW) }; GROUP_BARRIERS as usize],
            round: Cell::new(None),
            shared: Shared::new(grid.config.dynamic_shared),
            cluster: Cell::new(ptr::null()),
            woken: Cell::new(0),
            stuck: Cell::new(false),
            stopped: Cell::new(false),
            closed: Cell::new(false),
            failure: RefCell::new(None),
            panic: RefCell::new(None),
        }
    }

    /// The linear index of the thread that runs.
    #[inline(always)]
    pub(crate) fn linear(&self) -> u32 {
        self.running.get().thread.linear
    }

    /// The index of the thread that runs.
    #[inline(always)]
    pub(crate) fn index(&self) -> Dim3 {
        self.running.get().thread.index
    }

    /// The thread that runs, as checks know it.
    pub(crate) fn who(&self) -> Who {
        Who {
            block: self.grid.config.grid.linear(self.block.get()),
            thread: self.linear(),
        }
    }

    /// The lanes of a warp that there are, a bit each.
    pub(crate) fn lanes_of_warp(&self, warp: u32) -> u32 {
        u32::MAX >> (32 - (self.threads - warp * 32).min(32))
    }

    /// The running thread accesses memory: where the schedule wants it, others run first.
    pub(crate) fn preempt(&self) {
        if self.order.as_ref().is_some_and(Order::preempts) {
            self.yield_now();
        }
    }

    /// What bytes of memory are, in words.
    #[cold]
    pub(crate) fn name_of(&self, bytes: Bytes) -> String {
        let Bytes {
            space, address, len, ..
        } = bytes;
        match space {
            Space::Shared => {
                let holder = self.holder(space, address);
                let name = holder.shared.name_of(address, len);
                if ptr::eq(holder, self) {
                    return name;
                }
                format!("{name} in block {} of the cluster", holder.block.get())
            }
            Space::Global => match self.grid.options.allocation.and_then(|find| find(address)) {
                Some(allocation) => {
                    let element = shared::element(address - allocation.start, len);
                    format!("{element} of an array of {} bytes in global memory", allocation.len())
                }
                None => format!("{len} bytes of global memory at {address:#x}"),
            },
        }
    }

    /// The array that a place is of, and the offset there, in bytes.
    #[cold]
    pub(crate) fn array_of(&self, place: Bytes) -> (Array, usize) {
        match place.space {
            Space::Shared => self.holder(place.space, place.address).shared.array_of(place.address),
            Space::Global => match self.grid.options.allocation.and_then(|find| find(place.address)) {
                Some(allocation) => {
                    let (address, bytes) = (allocation.start, allocation.len());
                    (Array::Global { address, bytes }, place.address - address)
                }
                None => (Array::Unknown, place.address),
            },
        }
    }

    /// Gets ready to run `block`.
    pub(crate) fn begin_block(&self, block: Dim3) {
        self.block.set(block);
        if let Some(checker) = &self.grid.checker {
            checker.begin_block(self.grid.config.grid.linear(block), self.threads);
        }
        if let Some(order) = &self.order {
            order.begin_block(self.grid.config.grid.linear(block));
        }
        self.warps.iter().for_each(Warp::reset);
        self.cursor.set(0);
        self.started.set(0);
        self.exited.set(0);
        self.barrier.reset();
        self.groups.iter().for_each(|group| group.set(GroupBarrier::NEW));
        self.round.set(None);
        self.shared.reset();
        self.woken.set(0);
        self.stuck.set(false);
        self.stopped.set(false);
    }

    /// The fault of the block, if it had one.
    pub(crate) fn end_block(&self) -> Option<Failure> {
        if let Some(checker) = &self.grid.checker {
            let late = checker.end_block(self.who().block, self.cluster().is_some());
            if let Some(late) = late.filter(|_| !self.stopped()) {
                check::report_end(self, late);
            }
        }
        if let Some(counter) = self.grid.counter {
            counter.end_block(self);
        }
        self.failure.borrow_mut().take()
    }

    /// Calls `f`, in which a coroutine of this context runs.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        /// Also a scheduler that panics leaves no pointer to its context behind.
        struct Restore(*const Context<'static>);

        impl Drop for Restore {
            #[inline(always)]
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }

        let _restore = Restore(CURRENT.replace(ptr::from_ref(self).cast()));
        f()
    }

    /// The next thread to run in this pass over the block, warp by warp: lanes
    /// that an exchange has just made ready come before the next warp.
    #[inline(always)]
    pub(crate) fn next_ready(&self) -> Option<u32> {
        if self.stopped.get() {
            return None;
        }
        if let Some(order) = &self.order {
            return order.choose(&self.warps);
        }
        loop {
            let cursor = self.cursor.get();
            let ready = self.warps.get(cursor)?.ready.get();
            if ready != 0 {
                return Some(cursor as u32 * 32 + ready.trailing_zeros());
            }
            self.cursor.set(cursor + 1);
        }
    }

    /// Whether `thread` has yet to start.
    #[inline(always)]
    pub(crate) fn is_fresh(&self, thread: u32) -> bool {
        match &self.order {
            None => thread == self.started.get(),
            Some(order) => order.is_fresh(thread),
        }
    }

    /// Takes `thread` from those that are ready.
    #[inline(always)]
    pub(crate) fn claim(&self, thread: u32) {
        let ready = &self.warp(thread).ready;
        ready.set(ready.get() & !(1 << (thread % 32)));
    }

    /// Starts the next thread, on the coroutine that runs.
    #[inline(always)]
    pub(crate) fn start_thread(&self, yielder: &Yielder<(), Pause>) {
        let started = self.started.get();
        let linear = self.order.as_ref().map_or(started, Order::start);
        let last = self.running.get().thread;
        // Divisions are for when another than the one before has run since.
        let index = if last.linear + 1 == linear && self.order.is_none() {
            self.grid.config.block.successor(last.index)
        } else {
            self.index_of(linear)
        };
        self.claim(linear);
        self.started.set(started + 1);
        let thread = Thread { linear, index };
        self.run(Running { thread, yielder });
    }

    /// This thread runs from here on.
    #[inline(always)]
    pub(crate) fn run(&self, running: Running) {
        self.running.set(running);
        self.place.set_thread(running.thread.linear);
    }

    /// The running thread has ended.
    #[inline(always)]
    pub(crate) fn exit(&self) {
        let thread = self.linear();
        let warp = self.warp(thread);
        warp.live.set(warp.live.get() & !(1 << (thread % 32)));
        self.exited.set(self.exited.get() + 1);
    }

    /// Starts another pass over the block; whether nothing but threads that wait
    /// for another block was left: spinning ones, or those where blocks meet.
    pub(crate) fn next_pass(&self) -> bool {
        if self.waits_for_blocks() {
            return true;
        }
        if self.round.take().is_some() {
            self.warps.iter().for_each(Warp::open_barrier);
        }
        let only_spinning = self.warps.iter().all(|warp| warp.ready.get() == 0);
        let count = |lanes: fn(&Warp) -> &Cell<u32>| -> u32 {
            self.warps.iter().map(|warp| lanes(warp).get().count_ones()).sum()
        };
        // Whoever ran in the last pass found nothing, and so has changed nothing that the others could find.
        let in_vain = count(|warp| &warp.in_vain);
        self.stuck.set(in_vain > 0 && in_vain == self.woken.get());
        self.woken
            .set(if only_spinning { count(|warp| &warp.yielded) } else { 0 });
        self.warps.iter().for_each(Warp::wake_yielded);
        self.cursor.set(0);
        only_spinning
    }

    /// Whether no thread of the block can go on, nor one of its cluster.
    pub(crate) fn is_stuck(&self) -> bool {
        self.cluster().map_or(self.stuck.get(), Cluster::is_stuck)
    }

    /// Whether nobody has run in the last pass over the block but who waited in vain, and will again.
    pub(crate) fn has_run_in_vain(&self) -> bool {
        self.stuck.get() && !self.waits_for_blocks() && !self.done()
    }

    /// Where the block meets others.
    pub(crate) fn meeting(&self) -> Option<&Meeting> {
        let of_cluster = self.cluster().map(|cluster| &cluster.meeting);
        of_cluster.or(self.grid.meeting.as_ref())
    }

    /// Whether the block waits for other blocks where they meet.
    pub(crate) fn waits_for_blocks(&self) -> bool {
        let is_open = |round| self.meeting().is_some_and(|meeting| meeting.round() == round);
        self.round.get().is_some_and(is_open)
    }

    /// Whether all threads of the block have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.exited.get() == self.threads
    }

    /// Whether the block has come to its end.
    pub(crate) fn done(&self) -> bool {
        self.stopped.get() || self.has_ended()
    }

    /// Ends the block for the sake of another block's fault.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Whether the block is to end at once.
    #[inline(always)]
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Makes every idle coroutine return when it is resumed.
    pub(crate) fn close(&self) {
        self.closed.set(true);
    }

    #[inline(always)]
    pub(crate) fn closed(&self) -> bool {
        self.closed.get()
    }

    /// Whether a thread of the block has exited.
    #[inline(always)]
    pub(crate) fn any_exited(&self) -> bool {
        self.exited.get() > 0
    }

    /// The threads that have started and not ended.
    pub(crate) fn suspended(&self) -> impl Iterator<Item = u32> {
        let started = if self.order.is_some() {
            self.threads
        } else {
            self.started.get()
        };
        let is_fresh = |thread| self.order.as_ref().is_some_and(|order| order.is_fresh(thread));
        (0..started).filter(move |&thread| self.is_live(thread) && !is_fresh(thread))
    }

    /// Records the block's fault and stops it. What goes wrong in a block that is
    /// stopped already is no fault.
    pub(crate) fn fail(&self, failure: Failure) {
        if !self.stopped.replace(true) {
            *self.failure.borrow_mut() = Some(failure);
        }
    }

    #[inline(always)]
    pub(crate) fn warp(&self, thread: u32) -> &Warp {
        &self.warps[thread as usize / 32]
    }

    pub(crate) fn warps(&self) -> &[Warp] {
        &self.warps
    }

    pub(crate) fn is_live(&self, thread: u32) -> bool {
        self.warp(thread).live.get() >> (thread % 32) & 1 != 0
    }

    pub(crate) fn index_of(&self, linear: u32) -> Dim3 {
        self.grid.config.block.position(u64::from(linear))
    }

    /// Makes a fault of what unwound the running thread.
    #[cold]
    pub(crate) fn fail_by_panic(&self, payload: Box<dyn Any + Send>) {
        if payload.is::<Stop>() {
            return;
        }
        let seen = self.panic.borrow_mut().take();
        let panic = seen.unwrap_or_else(|| Panic::from_payload(&*payload));
        self.fail(Failure {
            thread: self.index(),
            location: panic.location,
            message: panic.message,
            finding: None,
        });
        // The payload is foreign code's: dropping it must not end the coroutine.
        // The block is stopped now, so that it cannot wait there either, which a
        // thread that has exited must not.
        if let Err(second) = panic::catch_unwind(panic::AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
    }
}
