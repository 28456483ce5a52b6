// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every fault: its message, its thread and its source line, and that the engine
//! is sound afterwards.

use std::panic::{AssertUnwindSafe, Location, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::common::{dim, expect_fault, fault};
use cuda_sim::{
    Lanes, LaunchConfig, barrier, block_idx, exchange, exchange_bytes, exchange_with, lane, launch, static_shared,
    thread_idx, yield_now,
};

/// This line.
#[track_caller]
fn here() -> u32 {
    Location::caller().line()
}

/// Expects a fault on `line` of this file.
#[track_caller]
fn expect(threads: u32, body: &(dyn Fn() + Sync), thread: u32, line: u32, message: &str) {
    expect_fault(threads, body, thread, file!(), line, message);
}

/// `file:line:column` in this file.
fn at(line: u32, column: u32) -> String {
    format!("{}:{line}:{column}", file!())
}

#[test]
fn panics() {
    let line = here() + 3;
    let body = || {
        if thread_idx() == dim(17, 0, 0) {
            panic!("lane {} is unhappy", lane());
        }
    };
    expect(40, &body, 17, line, "lane 17 is unhappy");

    let config = LaunchConfig::new((2, 2), (4, 4));
    let wrong = fault(config, &|| {
        let values = [0_u32; 4];
        let index = (block_idx().y + thread_idx().y + thread_idx().x) as usize;
        assert!(std::hint::black_box(&values)[index] == 0);
    });
    assert_eq!(wrong.message, "index out of bounds: the len is 4 but the index is 4");
    assert_eq!((wrong.block, wrong.thread), (dim(0, 0, 0), dim(3, 1, 0)));
    let text = wrong.to_string();
    let start = "kernel `kernel`: block (0, 0, 0), thread (3, 1, 0): index out of bounds: the len \
                 is 4 but the index is 4, at ";
    assert_eq!(text.strip_prefix(start).unwrap(), wrong.location.unwrap().to_string());
}

#[test]
fn panics_without_text() {
    let odd = fault(LaunchConfig::new(1, 1), &|| panic_any(5_u8));
    assert_eq!(odd.message, "panicked with a value that is no text");
    assert!(odd.location.is_some());
    let odd = fault(LaunchConfig::new(1, 1), &|| {
        resume_unwind(Box::new("no hook saw this"));
    });
    assert_eq!(odd.message, "no hook saw this");
    assert_eq!(odd.location, None);
}

#[test]
fn barrier_after_an_exit() {
    let line = here() + 3;
    let body = || {
        if thread_idx().x != 5 {
            barrier("sync_threads", 0);
        }
    };
    // Thread 5 exits while the first five wait.
    expect(
        8,
        &body,
        0,
        line,
        "barrier `sync_threads` not reached by all threads of the block: thread (5, 0, 0) has \
         exited",
    );

    let line = here() + 3;
    let body = || {
        if thread_idx().x >= 2 {
            barrier("sync_threads", 0);
        }
    };
    expect(
        8,
        &body,
        2,
        line,
        "barrier `sync_threads` not reached by all threads of the block: thread (0, 0, 0) has \
         exited",
    );
}

#[test]
fn two_barriers() {
    let line = here() + 3;
    let body = || {
        if thread_idx().x < 3 {
            barrier("sync_threads", 0);
        } else {
            barrier("sync_threads", 1);
        }
    };
    let message = format!(
        "barrier `sync_threads` not reached by all threads of the block: thread (0, 0, 0) waits at \
         `sync_threads` at {}",
        at(line, 13)
    );
    expect(64, &body, 3, line + 2, &message);
}

#[test]
fn barrier_against_exchange() {
    let line = here() + 3;
    let body = || {
        if lane() < 4 {
            exchange("shfl_sync", u32::MAX, 0);
        } else {
            barrier("sync_threads", 0);
        }
    };
    let message = format!(
        "barrier `sync_threads` not reached by all threads of the block: thread (0, 0, 0) waits for \
         this one at `shfl_sync` at {}",
        at(line, 13)
    );
    expect(64, &body, 4, line + 2, &message);

    let line = here() + 3;
    let body = || {
        if lane() < 4 {
            barrier("sync_threads", 0);
        } else {
            exchange("shfl_sync", u32::MAX, 0);
        }
    };
    let message = format!(
        "`shfl_sync` with mask 0xffffffff not reached by all its lanes: lane 0, thread (0, 0, 0), \
         waits at `sync_threads` at {}",
        at(line, 13)
    );
    expect(64, &body, 4, line + 2, &message);
}

#[test]
fn exchange_without_the_caller() {
    let line = here() + 2;
    let body = || {
        exchange("ballot_sync", 0xfffe, 0);
    };
    expect(
        32,
        &body,
        0,
        line,
        "`ballot_sync` called by lane 0, which its mask 0x0000fffe lacks",
    );
}

#[test]
fn exchange_from_a_lane_without_a_value() {
    let line = here() + 3;
    let body = || {
        if lane() < 16 {
            exchange_bytes("shuffle", 0xffff, &[1], lane() + 3, &mut [0]);
        }
    };
    let message = "`shuffle` of lane 13 reads lane 16, which is not in its mask 0x0000ffff";
    expect(32, &body, 13, line, message);
}

/// Lanes of a generic function, in one place of the source, whose values or results are of other types.
#[test]
fn exchange_of_other_types_in_one_place() {
    fn made<T: Copy + 'static, R: Copy + Default + 'static>(value: T) {
        // SAFETY: it makes what is known.
        unsafe { exchange_with("made", u32::MAX, value, |_: &Lanes<T>| [R::default(); 32]) };
    }
    for body in [
        &(|| {
            if lane() < 7 {
                made::<_, u32>(1_u32)
            } else {
                made::<_, u32>(1_f32)
            }
        }) as &(dyn Fn() + Sync),
        &(|| {
            if lane() < 7 {
                made::<_, u32>(1_u32)
            } else {
                made::<_, f32>(1_u32)
            }
        }),
        &(|| {
            if lane() < 7 {
                made::<_, u8>(1_u32)
            } else {
                made::<_, u32>(1_u32)
            }
        }),
    ] {
        let fault = fault(LaunchConfig::new(1, 32), body);
        assert!(
            fault
                .message
                .starts_with("`made` with mask 0xffffffff not reached by all its lanes"),
            "{fault}"
        );
    }
}

/// What is made of the values may panic, in whichever lane comes last.
#[test]
fn a_panic_where_lanes_meet() {
    let body = || {
        let make = |_: &Lanes<u32>| -> [u32; 32] { panic!("no sums today") };
        // SAFETY: it only panics.
        unsafe { exchange_with("sums", u32::MAX, 0_u32, make) };
    };
    assert!(fault(LaunchConfig::new(1, 32), &body).message.contains("no sums today"));
}

#[test]
fn exchange_with_a_lane_that_does_not_exist() {
    let line = here() + 3;
    let body = || {
        if thread_idx().x >= 32 {
            exchange("shfl_sync", u32::MAX, 0);
        }
    };
    expect(
        40,
        &body,
        32,
        line,
        "`shfl_sync` with mask 0xffffffff not reached by all its lanes: lane 8, which warp 1 of a \
         block of 40 threads does not have",
    );
}

#[test]
fn exchange_with_a_lane_that_has_exited() {
    let line = here() + 3;
    let body = || {
        if thread_idx().x != 33 {
            exchange("shfl_sync", u32::MAX, 0);
        }
    };
    // Lane 1 of warp 1 exits while lane 0 waits for it.
    let message = "`shfl_sync` with mask 0xffffffff not reached by all its lanes: lane 1, thread \
                   (33, 0, 0), has exited";
    expect(64, &body, 32, line, message);

    let line = here() + 3;
    let body = || {
        if thread_idx().x > 33 || thread_idx().x < 32 {
            exchange("shfl_sync", u32::MAX, 0);
        }
    };
    let message = "`shfl_sync` with mask 0xffffffff not reached by all its lanes: lane 0, thread \
                   (32, 0, 0), has exited";
    expect(64, &body, 34, line, message);
}

#[test]
fn exchanges_that_do_not_fit() {
    // The same call with two masks, each of which names the other lane.
    let line = here() + 3;
    let body = || {
        let mask = if lane() == 0 { 0b11 } else { 0b111 };
        exchange("shfl_sync", mask, 0);
    };
    let message = format!(
        "`shfl_sync` with mask 0x00000007 not reached by all its lanes: lane 0, thread (0, 0, 0), \
         waits at `shfl_sync` at {} with mask 0x00000003",
        at(line, 9)
    );
    expect(3, &body, 1, line, &message);

    // Masks that overlap are no fault in themselves, but here lane 1 does not
    // come back to lane 0.
    let line = here() + 3;
    let body = || {
        let mask = if lane() == 0 { 0b11 } else { 0b110 };
        exchange("shfl_sync", mask, 0);
    };
    let message = "`shfl_sync` with mask 0x00000003 not reached by all its lanes: lane 1, thread \
                   (1, 0, 0), has exited";
    expect(3, &body, 0, line, message);

    // Two calls with the same mask.
    let line = here() + 3;
    let body = || {
        if lane().is_multiple_of(2) {
            exchange("shfl_sync", 0xffff, 0);
        } else {
            exchange("ballot_sync", 0xffff, 0);
        }
    };
    let message = format!(
        "`ballot_sync` with mask 0x0000ffff not reached by all its lanes: lane 0, thread (0, 0, \
         0), waits at `shfl_sync` at {} with mask 0x0000ffff",
        at(line, 13)
    );
    expect(16, &body, 1, line + 2, &message);

    // Three lanes in a circle.
    let line = here() + 3;
    let body = || {
        let mask = [0b011, 0b110, 0b101][lane() as usize];
        exchange("match_sync", mask, 0);
    };
    let message = format!(
        "`match_sync` with mask 0x00000005 not reached by all its lanes: lane 0, thread (0, 0, 0), \
         waits at `match_sync` at {} with mask 0x00000003",
        at(line, 9)
    );
    expect(3, &body, 2, line, &message);
}

#[test]
fn launch_inside_a_kernel() {
    let nested = fault(LaunchConfig::new(1, 1), &|| {
        let _ = launch("inner", &LaunchConfig::new(1, 1), &|| ());
    });
    assert_eq!(
        nested.message,
        "kernel `inner` launched from inside a kernel: the simulated GPU has no dynamic \
         parallelism"
    );
    assert_eq!(nested.location.unwrap().file, file!());
}

/// The lowest block's fault is told, and the grid ends there.
#[test]
fn the_first_fault_ends_the_grid() {
    for _ in 0..50 {
        let started = AtomicU32::new(0);
        let first = fault(LaunchConfig::new(1_000_000, 1), &|| {
            started.fetch_add(1, Ordering::Relaxed);
            assert!(block_idx().x < 100, "block {}", block_idx().x);
        });
        assert_eq!(first.block, dim(100, 0, 0));
        assert_eq!(first.message, "block 100");
        assert!(started.into_inner() < 900_000);
    }
}

/// Blocks that wait for one that has failed are stopped.
#[test]
fn spinning_blocks_are_stopped() {
    for _ in 0..20 {
        let flag = AtomicU32::new(0);
        let first = fault(LaunchConfig::new(64, 64), &|| {
            if block_idx().x == 0 && thread_idx().x == 40 {
                panic!("no flag for you");
            }
            if thread_idx().x.is_multiple_of(2) {
                while flag.load(Ordering::Relaxed) == 0 {
                    yield_now("nanosleep");
                }
            }
            barrier("sync_threads", 0);
        });
        assert_eq!(first.message, "no flag for you");
    }
}

/// A value that counts how many of its kind live, and waits for others when it
/// is dropped.
struct Guard<'a>(&'a AtomicU64);

impl<'a> Guard<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Guard(count)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        barrier("drop", 1);
        exchange("drop", 1 << lane(), 0);
        exchange("not even in the mask", 0, 0).get(0);
        yield_now("nanosleep");
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waiting threads are unwound: their destructors run, and may call device
/// functions.
#[test]
fn waiting_threads_are_unwound() {
    let alive = AtomicU64::new(0);
    for _ in 0..10 {
        let failed = fault(LaunchConfig::new(8, 256), &|| {
            let _guard = Guard::new(&alive);
            let boxed = Box::new(thread_idx().x);
            barrier("sync_threads", 0);
            if thread_idx().x == 200 {
                panic!("thread {boxed}");
            }
            exchange("sync_warp", u32::MAX, 0);
            barrier("sync_threads", 0);
        });
        assert_eq!(failed.message, "thread 200");
        assert_eq!(alive.load(Ordering::Relaxed), 0);

        // And the engine works as before.
        let count = AtomicU32::new(0);
        launch("after", &LaunchConfig::new(8, 256), &|| {
            count.fetch_add(barrier("sync_threads", 1).nonzero, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!(count.into_inner(), 8 * 256 * 256);
    }
}

/// A kernel that catches the unwinding does not get away.
#[test]
fn unwinding_caught_by_the_kernel() {
    let failed = fault(LaunchConfig::new(4, 64), &|| {
        if thread_idx().x == 63 {
            panic!("the last one");
        }
        for _ in 0..3 {
            let _ = catch_unwind(|| barrier("caught", 0));
            let _ = catch_unwind(|| exchange("caught", u32::MAX, 0));
            let _ = catch_unwind(|| yield_now("nanosleep"));
        }
    });
    assert_eq!(failed.message, "the last one");

    // Nor does it turn the end of a block that another one's fault has stopped
    // into a fault of its own.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let failed = pool.unwrap().install(|| {
        fault(LaunchConfig::new(2, 64), &|| {
            if block_idx().x == 1 {
                panic!("block 1");
            }
            while catch_unwind(|| yield_now("nanosleep")).is_ok() {}
            panic!("block 0 was stopped");
        })
    });
    assert_eq!(failed.message, "block 1");
}

/// What a thread panicked with may be of a type whose destructor waits: too late.
#[test]
fn a_payload_that_waits_when_it_is_dropped() {
    struct Waits(fn());
    impl Drop for Waits {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let waits: [fn(); 3] = [
        || yield_now("nanosleep"),
        || _ = barrier("drop", 0),
        || _ = exchange("drop", u32::MAX, 0),
    ];
    for wait in waits {
        for threads in [1, 64] {
            let failed = fault(LaunchConfig::new(3, threads), &|| {
                if thread_idx().x == threads - 1 {
                    panic_any(Waits(wait));
                }
                barrier("sync_threads", 0);
            });
            assert_eq!(failed.thread, dim(threads - 1, 0, 0));
            assert_eq!(failed.message, "panicked with a value that is no text");
        }
    }
}

/// A destructor of an unwinding host thread may launch.
#[test]
fn launch_while_the_host_unwinds() {
    struct Launch<'a>(&'a AtomicU32);
    impl Drop for Launch<'_> {
        fn drop(&mut self) {
            let config = LaunchConfig::new(4, 64);
            let done = launch("drop", &config, &|| {
                (self.0).fetch_add(barrier("sync_threads", 1).nonzero, Ordering::Relaxed);
            });
            assert_eq!(done, Ok(()));
            assert_eq!(fault(config, &|| panic!("inside")).message, "inside");
        }
    }
    let sum = AtomicU32::new(0);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _launch = Launch(&sum);
        resume_unwind(Box::new("the host's own"));
    }));
    assert!(unwound.is_err());
    assert_eq!(sum.into_inner(), 4 * 64 * 64);
}

/// A fault in one launch leaves others that run at the same time alone.
#[test]
fn faults_beside_good_launches() {
    std::thread::scope(|scope| {
        for host in 0..4 {
            scope.spawn(move || {
                for _ in 0..30 {
                    let config = LaunchConfig::new(16, 64);
                    let outcome = launch("mixed", &config, &|| {
                        barrier("sync_threads", 0);
                        assert!(host % 2 == 0 || block_idx().x < 7, "odd");
                        barrier("sync_threads", 0);
                    });
                    assert_eq!(outcome.is_ok(), host % 2 == 0);
                }
            });
        }
    });
}

#[test]
fn shared_memory_fault_unwinds_waiting_threads() {
    static BIG: cuda_sim::SharedSite = cuda_sim::SharedSite::new(49153, 4);
    let failed = fault(LaunchConfig::new(3, 64), &|| {
        if thread_idx().x == 9 {
            static_shared(&BIG);
        }
        barrier("sync_threads", 0);
    });
    assert_eq!(failed.thread, dim(9, 0, 0));
    assert!(failed.message.starts_with("static shared memory exhausted"));
}
