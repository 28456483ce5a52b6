// SPDX-License-Identifier: MIT OR Apache-2.0

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;

use super::{fault, run};

/// Two producer warps and two consumer warps go through a ring of three buffers for eleven rounds.
#[test]
fn a_ring_goes_through_its_phases() {
    const STAGES: u32 = 3;
    const ROUNDS: u32 = 11;
    let seen: Vec<AtomicU32> = (0..ROUNDS * 64).map(|_| AtomicU32::new(0)).collect();
    run(128, 0, &|| {
        let (ring, words) = (shared_array![u32; 64 * 3], shared_array![u64; 6]);
        // SAFETY: the words are barriers only, initialised below; a phase of `full` gets the arrivals of 64 threads, one of
        // `empty` those of two.
        let barrier = |i: u32| unsafe { Mbarrier::at(words, i as usize) };
        let t = thread::thread_idx_x();
        if t == 0 {
            for stage in 0..STAGES {
                barrier(stage).init(64);
                barrier(STAGES + stage).init(2);
            }
            mbarrier::fence_init();
        }
        thread::sync_threads();
        let lane = t % 64;
        for round in 0..ROUNDS {
            let (stage, parity) = (round % STAGES, round / STAGES % 2);
            let at = (stage * 64) as usize;
            if t < 64 {
                barrier(STAGES + stage).wait(parity ^ 1);
                ring.set(at + lane as usize, 1000 * round + lane);
                barrier(stage).arrive();
            } else {
                barrier(stage).wait(parity);
                seen[(round * 64 + lane) as usize].store(ring.get(at + 63 - lane as usize), Relaxed);
                warp::sync_warp(warp::FULL_MASK);
                barrier(STAGES + stage).arrive_if(t.is_multiple_of(32));
            }
        }
    });
    for (i, seen) in (0..).zip(&seen) {
        assert_eq!(seen.load(Relaxed), 1000 * (i / 64) + 63 - i % 64, "{i}");
    }
}

/// A barrier in the last of four words.
fn barrier() -> Mbarrier {
    // SAFETY: the tests below are about what becomes of it when the contract is broken.
    unsafe { Mbarrier::at(shared_array![u64; 4], 3) }
}

#[test]
fn misuse_is_a_fault() {
    const UNINITIALISED: &str = "an mbarrier is used that was not initialised, or that something else has written to";
    let message = |body: &(dyn Fn() + Sync)| fault(1, body);
    assert_eq!(message(&|| barrier().wait(0)), UNINITIALISED);
    assert_eq!(message(&|| barrier().arrive()), UNINITIALISED);
    let zeros = || {
        shared_array![u64; 1].set(0, 0);
        // SAFETY: as for `barrier`.
        unsafe { Mbarrier::at(shared_array![u64; 1], 0) }.arrive();
    };
    assert_eq!(message(&zeros), UNINITIALISED);
    assert_eq!(
        message(&|| barrier().init(0)),
        "an mbarrier is initialised for 0 arrivals: 1 to 1048575 are possible"
    );
    assert_eq!(
        message(&|| barrier().init(1 << 20)),
        "an mbarrier is initialised for 1048576 arrivals: 1 to 1048575 are possible"
    );
    // The phase is not complete, since bytes are to come.
    let too_many = || {
        barrier().init(1);
        barrier().arrive_expect_tx(16);
        barrier().arrive();
    };
    assert_eq!(
        message(&too_many),
        "a phase of an mbarrier gets more arrivals than the 1 that it was initialised for"
    );
    let too_large = || {
        barrier().init(2);
        barrier().arrive_expect_tx(Mbarrier::MAX);
        barrier().arrive_expect_tx(1);
    };
    assert_eq!(
        message(&too_large),
        "1048576 bytes are under way to an mbarrier, which counts 1048575 at most"
    );
    let parity = || {
        barrier().init(1);
        barrier().wait(2);
    };
    assert_eq!(message(&parity), "an mbarrier is waited for by a parity of 2");
    // SAFETY: as for `barrier`.
    let outside = || _ = unsafe { Mbarrier::at_unchecked(shared_array![u64; 4], 4) };
    assert_eq!(
        message(&outside),
        "index out of bounds of shared memory: the len is 4 but the index is 4"
    );
}

/// What a fresh barrier's phase of parity 1 is taken for.
#[test]
fn the_phase_before_the_first_is_complete() {
    run(1, 0, &|| {
        barrier().init(1);
        barrier().wait(1);
        barrier().arrive();
        barrier().wait(0);
        barrier().arrive();
        barrier().wait(1);
    });
}
