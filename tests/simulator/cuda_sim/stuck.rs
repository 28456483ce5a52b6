// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for other threads of the block: a fault when no thread goes on, and never before.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use cuda_sim::{
    Error, Fault, LaunchConfig, Options, Schedule, barrier, block_idx, launch, launch_with, thread_idx, wait_until,
    yield_now,
};

fn wait_for(is_over: impl Fn() -> bool) {
    wait_until("wait", is_over, || "nobody comes".into());
}

/// Waits for what does not come.
fn wait_in_vain() {
    wait_for(|| false);
}

fn fault(threads: u32, body: &(dyn Fn() + Sync)) -> Fault {
    match launch("stuck", &LaunchConfig::new(1, threads), body) {
        Err(Error::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_in_turns_are_not_stuck() {
    for schedule in [Schedule::InOrder, Schedule::Reversed, Schedule::Random(3)] {
        let turn = AtomicU32::new(0);
        let options = Options {
            schedule: Some(schedule),
            ..Options::default()
        };
        // The last thread's turn is the first, so that in linear order one thread goes on in each pass.
        let body = || {
            let own = 99 - thread_idx().x;
            wait_for(|| turn.load(Relaxed) == own);
            turn.store(own + 1, Relaxed);
        };
        launch_with("turns", &LaunchConfig::new(1, 100), options, &body).unwrap();
        assert_eq!(turn.load(Relaxed), 100, "{schedule:?}");
    }
}

#[test]
fn a_thread_that_spins_may_go_on() {
    let ready = AtomicBool::new(false);
    launch("spin", &LaunchConfig::new(1, 64), &|| {
        if thread_idx().x == 40 {
            (0..10).for_each(|_| yield_now("nanosleep"));
            ready.store(true, Relaxed);
        }
        wait_for(|| ready.load(Relaxed));
    })
    .unwrap();
}

#[test]
fn another_block_may_go_on() {
    let ready = [AtomicBool::new(false), AtomicBool::new(false)];
    launch("blocks", &LaunchConfig::new(2, 2), &|| {
        let own = block_idx().x as usize;
        if thread_idx().x == 0 {
            // The second block waits for the first one by itself.
            while own == 1 && !ready[0].load(Relaxed) {
                yield_now("load");
            }
            ready[own].store(true, Relaxed);
        }
        wait_for(|| ready[own].load(Relaxed));
    })
    .unwrap();
}

#[test]
fn all_wait() {
    let fault = fault(64, &wait_in_vain);
    assert_eq!((fault.thread.x, &*fault.message), (0, "nobody comes"));
    assert!(fault.location.unwrap().file.ends_with("stuck.rs"));
}

#[test]
fn others_have_exited_or_are_at_the_barrier() {
    let exited = fault(64, &|| {
        if thread_idx().x == 50 {
            wait_in_vain();
        }
    });
    assert_eq!((exited.thread.x, &*exited.message), (50, "nobody comes"));
    let at_the_barrier = fault(64, &|| {
        if thread_idx().x == 50 {
            wait_in_vain();
        }
        barrier("sync_threads", 0);
    });
    assert_eq!(
        (at_the_barrier.thread.x, &*at_the_barrier.message),
        (50, "nobody comes")
    );
}

#[test]
fn a_destructor_does_not_wait() {
    struct Waits;

    impl Drop for Waits {
        fn drop(&mut self) {
            wait_in_vain();
        }
    }

    let fault = fault(1, &|| {
        let _waits = Waits;
        panic!("first");
    });
    assert_eq!(fault.message, "first");
}
