// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what the memory of a GPU would have to do for a launch: requests, sectors, bank conflicts, collisions.
//!
//! A request is what the lanes of a warp do together. Here they run one after another, as coroutines; so the lanes that come
//! to an access for the k-th time are its k-th request. That is what a GPU does where lanes part and meet again at the
//! same places, and loop as often; where they do not, it may put other executions together.
//!
//! A request is counted when all lanes of the warp have come, and else when the block meets at its barrier or has ended. A lane that is far ahead
//! of the others lets them run, and if they do not come, the requests that are oldest are counted without them.

mod counters;
mod model;
mod steps;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use counters::{Counts, LaunchCounters, LineCounters, Operands, Operation};
pub use steps::Step;

use crate::check::{ByAddress, Bytes, Space, Who};
use crate::config::LaunchConfig;
use crate::context::Context;
use crate::error::Call;
use model::Touched;

/// How far a lane is ahead of the slowest at most, in executions of one access.
const WINDOW: u64 = 64;

/// The widest instruction, in bytes.
const WIDEST: usize = 16;

/// An instruction that accesses memory, in the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Site {
    /// The address of the location: there are several of some places, which are put together in the end.
    at: usize,
    space: Space,
    operation: Operation,
    /// The bytes of each lane.
    width: usize,
    /// Of an access that takes several instructions, which one.
    piece: usize,
}

/// What lanes have asked for together so far.
pub(crate) struct Request {
    /// Which lanes.
    lanes: u32,
    addresses: [usize; 32],
}

impl Request {
    const EMPTY: Request = Request {
        lanes: 0,
        addresses: [0; 32],
    };

    /// The addresses of those lanes of `part` that take part.
    fn addresses(&self, part: std::ops::Range<u32>) -> impl Iterator<Item = usize> {
        part.filter(|lane| self.lanes >> lane & 1 != 0)
            .map(|lane| self.addresses[lane as usize])
    }
}

/// The requests of a warp at one site that are not complete.
#[derive(Default)]
struct Open {
    /// How often each lane has come.
    executions: [u64; 32],
    /// The number of the first of the requests; `None` is one that was counted.
    first: u64,
    requests: VecDeque<Option<Request>>,
}

#[derive(Default)]
struct State {
    sites: HashMap<Site, usize, ByAddress>,
    totals: Vec<(&'static Location<'static>, Site, Counts)>,
    /// By block, warp and site.
    open: HashMap<u64, HashMap<(u32, usize), Open, ByAddress>, ByAddress>,
    touched: Touched,
    products: BTreeMap<Operands, u64>,
    steps: Vec<Step>,
}

/// The counters of a launch.
#[derive(Default)]
pub(crate) struct Counter {
    state: Mutex<State>,
    /// The block whose steps are kept.
    traced: Option<u64>,
}

impl Counter {
    /// One that keeps the steps of that block, if any.
    pub(crate) fn new(traced: Option<u64>) -> Counter {
        Counter {
            traced,
            ..Counter::default()
        }
    }

    /// One thread runs at a time: nobody waits.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All threads of the block have met.
    pub(crate) fn meet(&self, context: &Context<'_>) {
        self.end_block(context);
        if self.traced == Some(context.who().block) {
            self.state().keep(Step::Barrier);
        }
    }

    /// Counts what the block has left.
    pub(crate) fn end_block(&self, context: &Context<'_>) {
        let number = context.who().block;
        let mut state = self.state();
        let open = state.open.remove(&number).unwrap_or_default();
        let mut left: Vec<_> = open.into_iter().collect();
        // By warp, and then in the order in which the sites were come to.
        left.sort_unstable_by_key(|&(key, _)| key);
        for ((warp, site), mut open) in left {
            for request in open.requests.drain(..).flatten() {
                self.count(&mut state, context, warp, site, &request);
            }
        }
    }

    fn count(&self, state: &mut State, context: &Context<'_>, warp: u32, site: usize, request: &Request) {
        let (at, of, counts) = &mut state.totals[site];
        *counts += model::counts(request, of.space, of.operation, of.width);
        if of.space == Space::Global {
            state.touched.enter(request, of.operation);
        }
        if self.traced == Some(context.who().block) {
            let place = |address| Bytes::new(of.space, address, of.width, 0);
            let lanes = crate::warp::lanes(request.lanes).map(|lane| {
                let (array, offset) = context.array_of(place(request.addresses[lane as usize]));
                (lane, array, offset)
            });
            let step = Step::Access {
                warp,
                space: of.space,
                operation: of.operation,
                width: of.width,
                location: (*at).into(),
                lanes: lanes.collect(),
            };
            state.keep(step);
        }
    }

    /// All that was counted.
    pub(crate) fn finish(self, kernel: &str, config: &LaunchConfig) -> LaunchCounters {
        let State {
            totals,
            touched,
            products,
            steps,
            ..
        } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut lines: Vec<LineCounters> = totals
            .into_iter()
            .map(|(at, site, counts)| LineCounters {
                file: at.file().to_owned(),
                line: at.line(),
                column: at.column(),
                space: site.space,
                operation: site.operation,
                counts,
            })
            .collect();
        // The order of the sites, which the sort keeps, is that in which the threads came to them.
        lines.sort_by(|a, b| key(a).cmp(&key(b)));
        lines.dedup_by(|next, line| {
            let same = key(next) == key(line);
            if same {
                line.counts += next.counts;
            }
            same
        });
        let (sectors_read, sectors_written) = touched.sectors();
        LaunchCounters {
            kernel: kernel.to_owned(),
            grid: config.grid,
            block: config.block,
            lines,
            sectors_read,
            sectors_written,
            products: products.into_iter().collect(),
            steps,
        }
    }
}

/// What tells lines of a report apart.
fn key(line: &LineCounters) -> (&str, u32, u32, bool, Operation) {
    let is_shared = line.space == Space::Shared;
    (&line.file, line.line, line.column, is_shared, line.operation)
}

impl State {
    fn site(&mut self, site: Site, at: &'static Location<'static>) -> usize {
        *self.sites.entry(site).or_insert_with(|| {
            self.totals.push((at, site, Counts::default()));
            self.totals.len() - 1
        })
    }

    fn keep(&mut self, step: Step) {
        if self.steps.len() < steps::MOST {
            self.steps.push(step);
        }
    }

    /// A lane comes to a site: the requests that are to be counted; `None` if it is ahead of others, and to wait if it can.
    fn enter(&mut self, who: Who, all: u32, site: usize, address: usize, waits: bool) -> Option<Vec<Request>> {
        let (warp, lane) = (who.thread / 32, who.thread as usize % 32);
        let block = self.open.entry(who.block).or_default();
        let open = block.entry((warp, site)).or_default();
        // What was counted without this lane has gone by.
        let mut number = open.executions[lane].max(open.first);
        let mut overdue = Vec::new();
        if number - open.first >= WINDOW {
            if waits {
                return None;
            }
            overdue.extend(open.requests.drain(..WINDOW as usize / 2).flatten());
            open.first += WINDOW / 2;
            number = number.max(open.first);
        }
        let place = (number - open.first) as usize;
        if place == open.requests.len() {
            open.requests.push_back(Some(Request::EMPTY));
        }
        let request = open.requests[place].get_or_insert(Request::EMPTY);
        request.lanes |= 1 << lane;
        request.addresses[lane] = address;
        open.executions[lane] = number + 1;
        if request.lanes == all {
            overdue.extend(open.requests[place].take());
        }
        while let Some(None) = open.requests.front() {
            open.requests.pop_front();
            open.first += 1;
        }
        Some(overdue)
    }
}

/// Counts an access of the running thread, which takes as many instructions as its alignment makes it.
pub(crate) fn access(context: &Context<'_>, call: Call, place: Bytes, operation: Operation) {
    // What goes to another block's shared memory does so by a network of its own, which is not counted.
    let is_counted = place.align > 0 && place.holder.is_none();
    let Some(counter) = context.grid.counter.filter(|_| is_counted) else {
        return;
    };
    if context.unwinds() {
        return;
    }
    let who = context.who();
    let all = context.lanes_of_warp(who.thread / 32);
    for (piece, (address, width)) in pieces(place).enumerate() {
        let site = Site {
            at: std::ptr::from_ref(call.at).addr(),
            space: place.space,
            operation,
            width,
            piece,
        };
        let enter = |waits| {
            let mut state = counter.state();
            let site = state.site(site, call.at);
            let Some(overdue) = state.enter(who, all, site, address, waits) else {
                return false;
            };
            for request in overdue {
                counter.count(&mut state, context, who.thread / 32, site, &request);
            }
            true
        };
        if !enter(true) {
            context.yield_now();
            enter(false);
        }
    }
}

/// Counts the running thread's part of a product of matrices on tensor cores.
#[cold]
pub(crate) fn products(context: &Context<'_>, operands: Operands, operations: u64) {
    if let Some(counter) = context.grid.counter.filter(|_| !context.unwinds()) {
        *counter.state().products.entry(operands).or_default() += operations;
    }
}

/// The instructions that access `place`: address and bytes of each.
fn pieces(place: Bytes) -> impl Iterator<Item = (usize, usize)> {
    let end = place.address + place.len;
    let mut at = place.address;
    std::iter::from_fn(move || {
        let left = end - at;
        let width = (1 << left.checked_ilog2()?).min(place.align).min(WIDEST);
        at += width;
        Some((at - width, width))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_divided_as_the_hardware_has_instructions() {
        let widths = |len, align| -> Vec<usize> {
            let place = Bytes::new(Space::Global, 64, len, align);
            pieces(place).map(|(_, width)| width).collect()
        };
        assert_eq!(widths(4, 4), [4]);
        assert_eq!(widths(16, 16), [16]);
        assert_eq!(widths(16, 4), [4; 4]);
        assert_eq!(widths(32, 16), [16; 2]);
        assert_eq!(widths(24, 8), [8; 3]);
        assert_eq!(widths(28, 16), [16, 8, 4]);
        assert_eq!(widths(3, 1), [1; 3]);
        assert!(widths(0, 4).is_empty());
    }
}
