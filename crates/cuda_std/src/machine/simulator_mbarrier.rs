// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barriers in shared memory on the simulated GPU.
//!
//! The word has, from the lowest bit on: the arrivals of a phase (20 bits), those that are to come (20 bits), the bytes that
//! are to come, plus 2^20, because copies may be done before they are announced (21 bits), the parity of the phase, and
//! two bits that tell a barrier from memory that nobody has written. The threads of a cluster are all on one OS thread.

use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::HashMap;

use cuda_sim::{Kind, Scope, SharedPtr};

use super::ClusterPtr;

const COUNT_BITS: u32 = 20;
const MAX: u32 = (1 << COUNT_BITS) - 1;
const TX_BITS: u32 = 21;
const TX_ZERO: i32 = 1 << COUNT_BITS;
/// Neither of memory that is all zeros nor of the poison that shared memory begins with.
const TAG: u64 = 0b01;

std::thread_local! {
    /// The bytes of the phase under way of each barrier, by the barrier's address, for those who are told why it does not end.
    static TALLIES: RefCell<HashMap<usize, Tally>> = RefCell::default();
}

/// The bytes of a phase.
#[derive(Clone, Copy, Default)]
struct Tally {
    expected: u32,
    arrived: u32,
}

/// A barrier's state.
#[derive(Clone, Copy)]
struct State {
    arrivals: u32,
    pending: u32,
    tx: i32,
    parity: u32,
}

impl State {
    fn pack(self) -> u64 {
        let tx = (self.tx + TX_ZERO) as u64;
        u64::from(self.arrivals)
            | u64::from(self.pending) << COUNT_BITS
            | tx << (2 * COUNT_BITS)
            | u64::from(self.parity) << (2 * COUNT_BITS + TX_BITS)
            | TAG << 62
    }

    fn unpack(word: u64) -> Option<State> {
        let count = |shift: u32| (word >> shift) as u32 & MAX;
        let state = State {
            arrivals: count(0),
            pending: count(COUNT_BITS),
            tx: ((word >> (2 * COUNT_BITS)) as i32 & ((1 << TX_BITS) - 1)) - TX_ZERO,
            parity: (word >> (2 * COUNT_BITS + TX_BITS)) as u32 & 1,
        };
        (word >> 62 == TAG && state.arrivals > 0 && state.pending <= state.arrivals).then_some(state)
    }

    /// Has the checks know that the thread accesses a barrier, and whose address that is. Whatever the scope of the order,
    /// these accesses do not race with one another.
    #[track_caller]
    fn note(ptr: SharedPtr, kind: fn(Scope) -> Kind) -> usize {
        cuda_sim::access_shared(ptr, 8, 0, kind(Scope::Device)).addr()
    }

    /// Loads the state for an arrival in the phase under way.
    #[track_caller]
    fn load_to_arrive(ptr: SharedPtr, scope: Scope) -> State {
        let address = State::note(ptr, Kind::AtomicWrite);
        let state = State::load(ptr);
        cuda_sim::phase_arrive(address, state.parity, scope);
        state
    }

    #[track_caller]
    fn load(ptr: SharedPtr) -> State {
        let word = cuda_sim::shared_memory(ptr, 8).cast();
        // SAFETY: a barrier is an element of a `Shared<u64>`, and the threads of the cluster are all on this OS thread.
        match State::unpack(unsafe { AtomicU64::from_ptr(word) }.load(Relaxed)) {
            Some(state) => state,
            None => panic!("an mbarrier is used that was not initialised, or that something else has written to"),
        }
    }

    /// Keeps the state, which begins the next phase if nothing is to come in this one.
    #[track_caller]
    fn store(mut self, ptr: SharedPtr) {
        assert!(
            self.tx.unsigned_abs() <= MAX,
            "{} bytes are under way to an mbarrier, which counts {MAX} at most",
            self.tx
        );
        let word = cuda_sim::shared_memory(ptr, 8);
        if self.pending == 0 && self.tx == 0 {
            self.pending = self.arrivals;
            self.parity ^= 1;
            TALLIES.with_borrow_mut(|tallies| tallies.remove(&word.addr()));
        }
        // SAFETY: as in `load`.
        unsafe { AtomicU64::from_ptr(word.cast()) }.store(self.pack(), Relaxed);
    }

    /// Counts bytes of the phase under way, which the state's own number is the difference of.
    #[track_caller]
    fn tally(ptr: SharedPtr, count: impl FnOnce(&mut Tally)) {
        let address = cuda_sim::shared_memory(ptr, 8).addr();
        TALLIES.with_borrow_mut(|tallies| count(tallies.entry(address).or_default()));
    }

    /// Why the phase does not end.
    #[track_caller]
    fn stuck(ptr: SharedPtr) -> String {
        let State { arrivals, pending, .. } = State::load(ptr);
        let mut tally = Tally::default();
        State::tally(ptr, |of_phase| tally = *of_phase);
        let Tally { expected, arrived } = tally;
        format!(
            "a phase of an mbarrier never ends: {} of {arrivals} arrivals have come, and {arrived} bytes of {expected} that \
             were expected; all threads of the block wait",
            arrivals - pending
        )
    }

    /// Whether the phase ends before all of so many bytes have come.
    fn ends_before(self, bytes: u32) -> bool {
        self.pending == 0 && (1..bytes as i32).contains(&self.tx)
    }

    #[track_caller]
    fn arrive(mut self) -> State {
        let arrivals = self.arrivals;
        assert!(
            self.pending > 0,
            "a phase of an mbarrier gets more arrivals than the {arrivals} that it was initialised for"
        );
        self.pending -= 1;
        self
    }
}

#[track_caller]
pub fn mbarrier_init(ptr: SharedPtr, arrivals: u32) {
    assert!(
        (1..=MAX).contains(&arrivals),
        "an mbarrier is initialised for {arrivals} arrivals: 1 to {MAX} are possible"
    );
    let state = State {
        arrivals,
        pending: arrivals,
        tx: 0,
        parity: 0,
    };
    let address = cuda_sim::access_shared(ptr, 8, 0, Kind::Write).addr();
    TALLIES.with_borrow_mut(|tallies| tallies.remove(&address));
    state.store(ptr);
}

#[track_caller]
pub fn mbarrier_arrive_if(ptr: SharedPtr, predicate: bool) {
    if predicate {
        State::load_to_arrive(ptr, Scope::Block).arrive().store(ptr);
    }
}

#[track_caller]
pub fn mbarrier_arrive_cluster(ptr: ClusterPtr) {
    State::load_to_arrive(ptr, Scope::Device).arrive().store(ptr);
}

#[track_caller]
pub fn mbarrier_arrive_cluster_if(ptr: ClusterPtr, predicate: bool) {
    if predicate {
        mbarrier_arrive_cluster(ptr);
    }
}

#[track_caller]
pub fn mbarrier_arrive_expect_tx(ptr: SharedPtr, bytes: u32) {
    let mut state = State::load_to_arrive(ptr, Scope::Block);
    assert!(
        bytes <= MAX,
        "an mbarrier is told of {bytes} bytes: it counts {MAX} at most"
    );
    state.tx += bytes as i32;
    State::tally(ptr, |tally| tally.expected += bytes);
    state.arrive().store(ptr);
}

/// The barrier's address, and the parity of the phase in which the last of so many bytes arrive.
#[track_caller]
pub(super) fn mbarrier_phase_of(ptr: SharedPtr, bytes: u32) -> (usize, u32) {
    let (address, state) = (cuda_sim::shared_memory(ptr, 8).addr(), State::load(ptr));
    (address, state.parity ^ u32::from(state.ends_before(bytes)))
}

/// What a copy does when its bytes have come.
#[track_caller]
pub(super) fn mbarrier_complete_tx(ptr: SharedPtr, bytes: u32) {
    let address = State::note(ptr, Kind::AtomicWrite);
    let mut state = State::load(ptr);
    let mut rest = bytes;
    if state.ends_before(bytes) {
        // The others are bytes of the next phase. Who waits for this one does not know of the copy.
        rest -= state.tx as u32;
        state.tx = 0;
        state.store(ptr);
        state = State::load(ptr);
    }
    cuda_sim::phase_arrive(address, state.parity, Scope::Block);
    State::tally(ptr, |tally| tally.arrived += rest);
    state.tx -= rest as i32;
    state.store(ptr);
}

#[track_caller]
pub fn mbarrier_wait(ptr: SharedPtr, parity: u32) {
    wait("Mbarrier::wait", ptr, parity, Scope::Block);
}

#[track_caller]
pub fn mbarrier_wait_cluster(ptr: SharedPtr, parity: u32) {
    wait("Mbarrier::wait_cluster", ptr, parity, Scope::Device);
}

#[track_caller]
fn wait(name: &'static str, ptr: SharedPtr, parity: u32, scope: Scope) {
    assert!(parity <= 1, "an mbarrier is waited for by a parity of {parity}");
    // A closure would be the caller of whom a fault speaks; only here there may be no barrier.
    if State::load(ptr).parity == parity {
        let is_over = || State::load(ptr).parity != parity;
        cuda_sim::wait_until(name, is_over, || State::stuck(ptr));
    }
    cuda_sim::phase_wait(State::note(ptr, Kind::AtomicRead), parity, scope);
}

pub fn fence_mbarrier_init() {}
