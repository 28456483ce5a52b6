// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches that never end. The limit is read once a process, so each case is a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{dim, fault};
use cuda_sim::{
    Error, Fault, LaunchConfig, Options, SharedSite, barrier, block_idx, cluster_barrier, exchange, grid_barrier,
    launch, launch_cooperative, launch_with, poll, shared_memory, static_shared, thread_idx, yield_now,
};

/// Starts the ignored test `case` of this file in a process of its own.
fn start(case: &str, limit: &str) -> Child {
    let mut this = Command::new(std::env::current_exe().unwrap());
    let case = format!("watchdog::{case}");
    this.args(["--exact", &case, "--ignored", "--nocapture", "--test-threads=1"]);
    this.env("WARPSMITH_SIM_TIMEOUT", limit);
    this.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[track_caller]
fn passes(case: &str, limit: &str) -> String {
    let mut child = start(case, limit);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text
}

/// The first thread of each block sleeps for a moment: these kernels wait, and are not to keep a core busy.
fn pause() {
    if thread_idx() == dim(0, 0, 0) {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn loops_that_come_to_the_engine_become_faults() {
    let text = passes("endless_loops", "0.2");
    assert!(!text.contains("cannot be stopped"), "{text}");
}

/// What the fault says of a loop around `name`.
fn message(name: &str) -> String {
    format!(
        "no block has ended for 0.2 s, the limit that WARPSMITH_SIM_TIMEOUT sets: this thread waits in `{name}` for what \
         does not come, or loops over it"
    )
}

#[test]
#[ignore = "run by the test above"]
fn endless_loops() {
    static SITE: SharedSite = SharedSite::new(4, 4);
    let cases: [(&str, &(dyn Fn() + Sync)); 5] = [
        ("load", &|| poll("load")),
        ("nanosleep", &|| yield_now("nanosleep")),
        ("sync_threads", &|| _ = barrier("sync_threads", 0)),
        ("shuffle", &|| _ = exchange("shuffle", u32::MAX, 0)),
        ("shared_memory", &|| _ = shared_memory(static_shared(&SITE), 4)),
    ];
    for (name, step) in cases {
        let started = Instant::now();
        let fault: Fault = fault(LaunchConfig::new(2, 64), &|| {
            while block_idx().x == 1 {
                pause();
                step();
            }
        });
        assert!(fault.message.starts_with(&message(name)), "{fault}");
        assert_eq!((&*fault.kernel, fault.block), ("kernel", dim(1, 0, 0)));
        assert_eq!(fault.location.unwrap().file, file!());
        let time = started.elapsed();
        assert!(time >= Duration::from_millis(200), "{name}: {time:?}");
        // And the engine works as before.
        launch("after", &LaunchConfig::new(4, 32), &|| _ = barrier("sync_threads", 0)).unwrap();
    }
}

#[test]
fn the_fault_names_who_waits() {
    passes("one_spins_and_one_waits", "0.2");
}

#[test]
#[ignore = "run by the test above"]
fn one_spins_and_one_waits() {
    let line = line!() + 5;
    let fault = fault(LaunchConfig::new(1, 2), &|| {
        while thread_idx().x == 1 {
            yield_now("nanosleep");
        }
        barrier("sync_threads", 0);
    });
    assert_eq!(fault.thread, dim(1, 0, 0));
    let waits = format!("; thread (0, 0, 0) waits at `sync_threads` at {}:{line}:9", file!());
    assert_eq!(fault.message, message("nanosleep") + &waits);
}

#[test]
fn a_loop_that_cannot_be_stopped_is_reported() {
    let mut child = start("endless_and_deaf", "0.2");
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let wanted = "kernel `deaf`: block (1, 0, 0), thread (3, 1, 0): no block has ended for 0.2 s, the limit that \
                  WARPSMITH_SIM_TIMEOUT sets, and it cannot be stopped: ";
    let found = lines.map_while(Result::ok).any(|line| line.starts_with(wanted));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found);
}

#[test]
#[ignore = "does not end"]
fn endless_and_deaf() {
    let _ = launch("deaf", &LaunchConfig::new(2, (4, 2)), &|| {
        while block_idx().x == 1 && thread_idx() == dim(3, 1, 0) {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// The grid takes twice the limit; its blocks end one after another, however many run at once.
#[test]
fn a_long_launch_is_not_given_up_while_blocks_end() {
    passes("long", "1");
}

#[test]
#[ignore = "run by the test above"]
fn long() {
    let (blocks, started) = (AtomicU32::new(0), Instant::now());
    launch("long", &LaunchConfig::new(40, 1), &|| {
        while started.elapsed() < Duration::from_millis(50) * (block_idx().x + 1) {
            pause();
            yield_now("nanosleep");
        }
        blocks.fetch_add(1, Relaxed);
    })
    .unwrap();
    assert_eq!(blocks.into_inner(), 40);
    assert!(started.elapsed() >= Duration::from_secs(2));
}

/// The blocks of the grid end together, after twice the limit.
#[test]
fn a_long_launch_is_not_given_up_while_blocks_meet() {
    passes("long_cooperative", "1");
}

#[test]
#[ignore = "run by the test above"]
fn long_cooperative() {
    let started = Instant::now();
    launch_cooperative("long", &LaunchConfig::new(3, 2), &|| {
        for round in 1..=40 {
            while started.elapsed() < Duration::from_millis(50) * round {
                pause();
                yield_now("nanosleep");
            }
            grid_barrier("sync");
        }
    })
    .unwrap();
    assert!(started.elapsed() >= Duration::from_secs(2));
}

fn in_clusters(body: &(dyn Fn() + Sync)) -> Result<(), Error> {
    let options = Options {
        cluster: Some(2.into()),
        ..Options::default()
    };
    launch_with("kernel", &LaunchConfig::new(4, 64), options, body)
}

/// As before, where the blocks of a cluster meet.
#[test]
fn clusters_are_watched() {
    passes("long_clusters", "1");
    let text = passes("endless_cluster", "0.2");
    assert!(!text.contains("cannot be stopped"), "{text}");
}

#[test]
#[ignore = "run by the test above"]
fn long_clusters() {
    let started = Instant::now();
    in_clusters(&|| {
        for round in 1..=40 {
            while started.elapsed() < Duration::from_millis(50) * round {
                pause();
                yield_now("nanosleep");
            }
            cluster_barrier("sync");
        }
    })
    .unwrap();
    assert!(started.elapsed() >= Duration::from_secs(2));
}

#[test]
#[ignore = "run by the test above"]
fn endless_cluster() {
    let error = in_clusters(&|| {
        while block_idx().x == 2 {
            pause();
            yield_now("nanosleep");
        }
        cluster_barrier("sync");
    });
    let Err(Error::Fault(fault)) = error else {
        panic!("{error:?}")
    };
    assert_eq!((&*fault.message, fault.block), (&*message("nanosleep"), dim(2, 0, 0)));
}

#[test]
fn a_block_that_never_comes_to_the_grid_barrier_is_ended() {
    let text = passes("endless_cooperative", "0.2");
    assert!(!text.contains("cannot be stopped"), "{text}");
}

#[test]
#[ignore = "run by the test above"]
fn endless_cooperative() {
    let error = launch_cooperative("kernel", &LaunchConfig::new(4, 64), &|| {
        while block_idx().x == 2 {
            pause();
            yield_now("nanosleep");
        }
        grid_barrier("sync");
    });
    let Err(Error::Fault(fault)) = error else {
        panic!("{error:?}")
    };
    assert_eq!((&*fault.message, fault.block), (&*message("nanosleep"), dim(2, 0, 0)));
}

#[test]
fn no_limit() {
    let mut child = start("endless_loops", "0");
    thread::sleep(Duration::from_millis(1000));
    assert!(child.try_wait().unwrap().is_none(), "it was given up");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_limit_that_is_no_number_is_said() {
    let text = passes("short", "1 min");
    let wanted = "WARPSMITH_SIM_TIMEOUT is \"1 min\": wanted a number of seconds, 0 for no limit; the limit is 60 s\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
#[ignore = "run by the test above"]
fn short() {
    launch("short", &LaunchConfig::new(1, 1), &|| ()).unwrap();
}
