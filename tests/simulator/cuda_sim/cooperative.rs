// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cooperative launches: blocks that wait for each other, and what goes wrong when one does not come.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::common::{dim, fault};
use cuda_sim::{
    Error, Fault, LaunchConfig, barrier, block_idx, cooperative_blocks, grid_barrier, grid_dim, launch,
    launch_cooperative, thread_idx, yield_now,
};

fn cooperative_fault(config: LaunchConfig, body: &(dyn Fn() + Sync)) -> Fault {
    match launch_cooperative("kernel", &config, body) {
        Err(Error::Fault(fault)) => fault,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

/// Each block adds its neighbour's value of the last round to its own, `rounds` times.
fn neighbours(blocks: u32, threads: u32, rounds: usize) {
    let values: [Vec<AtomicU32>; 2] = [0, 1].map(|_| (0..blocks).map(AtomicU32::new).collect());
    launch_cooperative("neighbours", &LaunchConfig::new(blocks, threads), &|| {
        let block = block_idx().x as usize;
        for round in 0..rounds {
            let (from, to) = (&values[round % 2], &values[(round + 1) % 2]);
            if thread_idx().x == threads - 1 {
                let neighbour = (block + 1) % grid_dim().x as usize;
                to[block].store(
                    from[block].load(Relaxed).wrapping_add(from[neighbour].load(Relaxed)),
                    Relaxed,
                );
            }
            grid_barrier("sync");
        }
    })
    .unwrap();
    let mut wanted: Vec<u32> = (0..blocks).collect();
    for _ in 0..rounds {
        let last = wanted.clone();
        for (i, value) in wanted.iter_mut().enumerate() {
            *value = value.wrapping_add(last[(i + 1) % last.len()]);
        }
    }
    let got: Vec<u32> = values[rounds % 2].iter().map(|value| value.load(Relaxed)).collect();
    assert_eq!(got, wanted, "{blocks} blocks of {threads} threads");
}

#[test]
fn all_blocks_meet_in_every_round() {
    // ThreadSanitizer keeps the calls of all coroutines of an OS thread in one list of fixed length.
    let most = if cfg!(thread_sanitizer) { 2048 } else { 28 * 1024 };
    for (blocks, threads) in [(1, 1), (1, 64), (2, 33), (7, 256), (28, 1024), (500, 3)] {
        if blocks * threads <= most {
            neighbours(blocks, threads, 100);
        }
    }
}

#[test]
fn one_os_thread_runs_all_blocks() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| neighbours(40, 32, 100));
}

#[test]
fn several_launches_at_a_time() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| neighbours(30, 40, 50));
        }
    });
}

/// All stacks there are, and then blocks so small that they must not take more of them than they have threads.
#[test]
fn launches_that_want_all_stacks_wait_for_each_other() {
    if cfg!(thread_sanitizer) {
        return; // It has no room for so many coroutines.
    }
    std::thread::scope(|scope| {
        for (blocks, threads) in [(28, 1024), (cooperative_blocks(3), 3), (28, 1024), (40, 64)] {
            scope.spawn(move || neighbours(blocks, threads, 3));
        }
    });
}

#[test]
fn barriers_of_the_block_and_spinning_in_between() {
    let flag = AtomicU32::new(0);
    launch_cooperative("spin", &LaunchConfig::new((3, 2), 64), &|| {
        for round in 1..10 {
            barrier("sync_threads", 0);
            // Block 0 waits for the last one, which an ordinary launch may not have begun.
            match (block_idx(), thread_idx().x) {
                (block, 0) if block == dim(2, 1, 0) => flag.store(round, Relaxed),
                (block, _) if block == dim(0, 0, 0) => {
                    while flag.load(Relaxed) != round {
                        yield_now("nanosleep");
                    }
                }
                _ => {}
            }
            grid_barrier("sync");
            assert_eq!(flag.load(Relaxed), round);
            grid_barrier("sync again");
        }
    })
    .unwrap();
}

#[test]
fn more_blocks_than_fit_are_refused() {
    assert_eq!(cooperative_blocks(1024), 28);
    let error = launch_cooperative("wide", &LaunchConfig::new((29, 1), 1024), &|| unreachable!()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `wide`: blocks of a cooperative launch is 29, but must be from 1 to 28"
    );
}

#[test]
fn a_panic_ends_the_blocks_that_wait() {
    for blocks in [1, 2, 9] {
        let unlucky = blocks - 1;
        let fault = cooperative_fault(LaunchConfig::new(blocks, 48), &|| {
            grid_barrier("sync");
            assert!(block_idx().x != unlucky || thread_idx().x != 40, "unlucky");
            grid_barrier("sync");
        });
        assert_eq!(
            (&*fault.message, fault.block, fault.thread),
            ("unlucky", dim(unlucky, 0, 0), dim(40, 0, 0))
        );
        neighbours(9, 48, 3);
    }
}

#[test]
fn a_block_that_ends_is_missed() {
    let line = line!() + 3;
    let fault = cooperative_fault(LaunchConfig::new(5, 32), &|| {
        if block_idx().x != 3 {
            grid_barrier("sync");
        }
    });
    assert_eq!(
        fault.message,
        "grid barrier `sync` not reached by all blocks of the grid: block (3, 0, 0) has ended"
    );
    assert_ne!(fault.block, dim(3, 0, 0));
    assert_eq!(fault.location.unwrap().line, line);
}

#[test]
fn a_thread_that_ends_is_missed() {
    let fault = cooperative_fault(LaunchConfig::new(2, 32), &|| {
        if block_idx().x == 0 || thread_idx().x != 7 {
            grid_barrier("sync");
        }
    });
    assert_eq!(
        fault.message,
        "barrier `sync` not reached by all threads of the block: thread (7, 0, 0) has exited"
    );
    assert_eq!(fault.block, dim(1, 0, 0));
}

#[test]
fn blocks_at_two_barriers_never_meet() {
    let fault = cooperative_fault(LaunchConfig::new(2, 32), &|| match block_idx().x {
        0 => grid_barrier("one"),
        _ => grid_barrier("other"),
    });
    assert!(
        fault.message.contains("not reached by all blocks of the grid: block ("),
        "{fault}"
    );
    assert!(fault.message.contains("waits at `o"), "{fault}");
}

#[test]
fn an_ordinary_launch_has_no_grid_barrier() {
    let fault = fault(LaunchConfig::new(1, 1), &|| grid_barrier("sync"));
    assert_eq!(fault.message, "grid barrier `sync` in a launch that is not cooperative");
    launch("after", &LaunchConfig::new(2, 2), &|| {}).unwrap();
}
