// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches with clusters: blocks that meet and have each other's shared memory, and what goes wrong with it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::common::dim;
use cuda_sim::{
    Checks, Dim3, Error, Fault, FindingKind, Kind, LaunchConfig, Options, Schedule, SharedSite, access_shared, barrier,
    block_dim, block_idx, block_in_cluster, cluster_barrier, cluster_dim, exchange, grid_barrier, launch, launch_with,
    map_shared, shared_memory, static_shared, thread_idx, wait_until,
};

fn options(cluster: impl Into<Dim3>) -> Options<'static> {
    Options {
        cluster: Some(cluster.into()),
        ..Options::default()
    }
}

fn cluster_fault(config: LaunchConfig, options: Options<'_>, body: &(dyn Fn() + Sync)) -> Fault {
    match launch_with("kernel", &config, options, body) {
        Err(Error::Fault(fault)) => fault,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

fn rank() -> u32 {
    let (at, extent) = (block_in_cluster(), cluster_dim());
    (at.z * extent.y + at.y) * extent.x + at.x
}

/// A word of the block's shared memory, by its rank.
fn word(rank: u32) -> *mut u32 {
    static WORD: SharedSite = SharedSite::new(4, 4);
    shared_memory(map_shared(static_shared(&WORD), rank), 4).cast()
}

#[test]
fn clusters_tile_the_grid() {
    for (grid, cluster) in [
        (dim(4, 1, 1), dim(2, 1, 1)),
        (dim(6, 4, 2), dim(3, 2, 1)),
        (dim(4, 4, 4), dim(2, 2, 2)),
        (dim(5, 1, 1), dim(1, 1, 1)),
    ] {
        let blocks: Vec<AtomicU32> = (0..grid.count()).map(|_| AtomicU32::new(0)).collect();
        launch_with("tiles", &LaunchConfig::new(grid, 3), options(cluster), &|| {
            let (at, within) = (block_idx(), block_in_cluster());
            assert_eq!(cluster_dim(), cluster);
            assert_eq!(
                (at.x % cluster.x, at.y % cluster.y, at.z % cluster.z),
                (within.x, within.y, within.z)
            );
            blocks[((at.z * grid.y + at.y) * grid.x + at.x) as usize].fetch_add(1, Relaxed);
        })
        .unwrap();
        assert!(blocks.iter().all(|block| block.load(Relaxed) == 3), "{grid} {cluster}");
    }
}

#[test]
fn a_launch_without_clusters_has_blocks_for_themselves() {
    launch("alone", &LaunchConfig::new(4, 64), &|| {
        assert_eq!((cluster_dim(), block_in_cluster()), (dim(1, 1, 1), dim(0, 0, 0)));
        cluster_barrier("sync");
        assert_eq!(word(0), word(rank()));
    })
    .unwrap();
}

/// Each block sends its number round the cluster.
fn rotate() {
    let (blocks, me) = (cluster_dim().count() as u32, rank());
    let block = block_idx().x;
    for round in 0..10 {
        if thread_idx().x == 0 {
            // SAFETY: one thread of the cluster writes each word, and the barriers order it before the read.
            unsafe { word((me + 1) % blocks).write(block + round) };
        }
        cluster_barrier("sync");
        let last = block - me + (me + blocks - 1) % blocks;
        // SAFETY: as above.
        assert_eq!(unsafe { word(me).read() }, last + round);
        cluster_barrier("sync");
    }
}

#[test]
fn blocks_have_each_others_shared_memory() {
    for (blocks, threads, cluster) in [(8, 64, 8), (64, 33, 4), (12, 1, 2), (8, 256, 8), (3, 7, 1)] {
        let config = LaunchConfig::new(blocks, threads);
        launch_with("rotate", &config, options(cluster), &rotate).unwrap();
        for schedule in Schedule::several(blocks.into(), 5) {
            let options = Options {
                schedule: Some(schedule),
                ..options(cluster)
            };
            launch_with("rotate", &config, options, &rotate).unwrap_or_else(|error| panic!("{schedule:?}: {error}"));
        }
    }
}

/// Arrays lie at the same place in all blocks of a cluster, whatever the order in which each comes to them.
#[test]
fn arrays_lie_at_the_same_place() {
    static ONE: SharedSite = SharedSite::new(40, 8);
    static TWO: SharedSite = SharedSite::new(24, 8);
    launch_with("places", &LaunchConfig::new(4, 1), options(2), &|| {
        let (one, two) = match rank() {
            0 => (static_shared(&ONE), static_shared(&TWO)),
            _ => {
                let two = static_shared(&TWO);
                (static_shared(&ONE), two)
            }
        };
        let address = |at| shared_memory(at, 8).cast::<u32>();
        // SAFETY: words of arrays that hold them.
        unsafe { address(one).write(10 + rank()) };
        unsafe { address(two).write(20 + rank()) };
        cluster_barrier("sync");
        let other = 1 - rank();
        // SAFETY: as above.
        unsafe {
            assert_eq!(address(map_shared(one, other)).read(), 10 + other);
            assert_eq!(address(map_shared(two, other)).read(), 20 + other);
        }
        cluster_barrier("end");
    })
    .unwrap();
}

#[test]
fn configurations_are_checked() {
    let message = |grid: Dim3, cluster: Dim3| {
        let launched = launch_with("k", &LaunchConfig::new(grid, 32), options(cluster), &|| ());
        launched.unwrap_err().to_string()
    };
    assert_eq!(
        message(dim(6, 3, 1), dim(2, 2, 1)),
        "kernel `k`: a grid of (6, 3, 1) blocks is no multiple of its clusters of (2, 2, 1) blocks"
    );
    assert_eq!(
        message(dim(9, 1, 1), dim(9, 1, 1)),
        "kernel `k`: blocks of a cluster is 9, but must be from 1 to 8"
    );
    assert_eq!(
        message(dim(9, 1, 1), dim(0, 1, 1)),
        "kernel `k`: blocks of a cluster is 0, but must be from 1 to 8"
    );
}

#[test]
fn a_block_that_ends_early_is_a_fault() {
    let fault = cluster_fault(LaunchConfig::new(8, 32), options(4), &|| {
        if block_idx().x != 6 {
            cluster_barrier("sync");
        }
    });
    assert_eq!(
        fault.message,
        "cluster barrier `sync` not reached by all blocks of the cluster: block (6, 0, 0) has ended"
    );
    assert_eq!((fault.block, fault.location.is_some()), (dim(4, 0, 0), true));
    let fault = cluster_fault(LaunchConfig::new(2, 64), options(2), &|| {
        if block_idx().x == 1 && thread_idx().x == 40 {
            return;
        }
        cluster_barrier("sync");
    });
    assert_eq!(
        fault.message,
        "barrier `sync` not reached by all threads of the block: thread (40, 0, 0) has exited"
    );
}

#[test]
fn blocks_that_come_to_different_calls_are_a_fault() {
    let fault = cluster_fault(LaunchConfig::new(2, 32), options(2), &|| {
        if block_idx().x == 0 {
            cluster_barrier("one");
        } else {
            cluster_barrier("two");
        }
    });
    assert!(
        fault.message.starts_with(
            "cluster barrier `two` not reached by all blocks of the cluster: block (0, 0, 0) waits at `one`"
        ),
        "{fault}"
    );
    let fault = cluster_fault(LaunchConfig::new(2, 64), options(2), &|| {
        if thread_idx().x < 32 {
            cluster_barrier("of the cluster");
        } else {
            barrier("of the block", 0);
        }
    });
    assert!(
        fault
            .message
            .starts_with("barrier `of the block` not reached by all threads of the block"),
        "{fault}"
    );
    let fault = cluster_fault(LaunchConfig::new(2, 32), options(2), &|| {
        if thread_idx().x < 16 {
            cluster_barrier("of the cluster");
        } else {
            exchange("shfl", u32::MAX, 0_u32);
        }
    });
    assert!(fault.message.contains("waits at"), "{fault}");
}

#[test]
fn the_grid_barrier_is_for_cooperative_launches() {
    let fault = cluster_fault(LaunchConfig::new(2, 32), options(2), &|| grid_barrier("sync"));
    assert_eq!(fault.message, "grid barrier `sync` in a launch that is not cooperative");
}

#[test]
fn ranks_are_checked() {
    let fault = cluster_fault(LaunchConfig::new(4, 32), options(2), &|| {
        word(block_idx().x + 1);
    });
    assert_eq!(fault.message, "shared memory of block 2 of a cluster of 2 blocks");
    assert_eq!(fault.block, dim(1, 0, 0));
}

#[test]
fn memory_of_a_block_that_has_ended_is_not_accessed() {
    let early = || {
        let (me, blocks) = (rank(), cluster_dim().count() as u32);
        cluster_barrier("begin");
        // The last to come goes on first.
        if me == 0 {
            word(blocks - 1);
        }
    };
    let fault = cluster_fault(LaunchConfig::new(4, 32), options(4), &early);
    assert_eq!(
        fault.message,
        "access to shared memory of block (3, 0, 0) of the cluster, which has ended: a `cluster::sync` behind the last such \
         access keeps the block"
    );
    assert_eq!(fault.block, dim(0, 0, 0));
}

/// What was another block's of a cluster before is nobody's now.
#[test]
fn memory_of_another_cluster_is_refused() {
    use std::cell::Cell;
    thread_local! {
        static KEPT: Cell<Option<cuda_sim::SharedPtr>> = const { Cell::new(None) };
    }
    let options = Options {
        schedule: Some(Schedule::InOrder),
        ..options(2)
    };
    let fault = cluster_fault(LaunchConfig::new(4, 1), options, &|| {
        static WORD: SharedSite = SharedSite::new(4, 4);
        let other = map_shared(static_shared(&WORD), 1 - rank());
        if block_idx().x < 2 {
            KEPT.set(Some(other));
        } else {
            shared_memory(KEPT.get().unwrap(), 4);
        }
        cluster_barrier("sync");
    });
    assert!(fault.message.starts_with("shared memory of another block"), "{fault}");
}

/// A read of the next block's word, of which nothing is known to come behind it.
fn read_next(ordered: bool) {
    static WORD: SharedSite = SharedSite::new(4, 4);
    let own = static_shared(&WORD);
    access_shared(own, 4, 4, Kind::Write);
    cluster_barrier("begin");
    if rank() == 0 {
        access_shared(map_shared(own, 1), 4, 4, Kind::Read);
    }
    if ordered {
        cluster_barrier("end");
    }
}

#[test]
fn an_end_that_nothing_orders_is_found_whoever_comes_first() {
    for schedule in Schedule::several(2, 3) {
        let options = Options {
            checks: Checks::ALL,
            schedule: Some(schedule),
            ..options(2)
        };
        launch_with("kernel", &LaunchConfig::new(4, 1), options, &|| read_next(true)).unwrap();
        let fault = cluster_fault(LaunchConfig::new(4, 1), options, &|| read_next(false));
        assert!(
            fault
                .message
                .starts_with("access to shared memory of block (1, 0, 0) of the cluster, which "),
            "{schedule:?}: {fault}"
        );
        assert_eq!(fault.block, dim(0, 0, 0), "{schedule:?}: {fault}");
        assert!(fault.location.is_some());
        if let Some(finding) = fault.finding {
            assert_eq!(finding.kind, FindingKind::BlockEnded);
        }
    }
}

/// Blocks that were last seen where they meet have things to do when they have met.
#[test]
fn who_meets_is_not_stuck() {
    let made = AtomicU32::new(0);
    launch_with("gather", &LaunchConfig::new(4, 32), options(4), &|| {
        cluster_barrier("begin");
        made.fetch_add(1, Relaxed);
        if rank() == 0 {
            wait_until("all", || made.load(Relaxed) == 128, || "nobody comes".into());
        }
        cluster_barrier("end");
    })
    .unwrap();
}

/// Who waits for another block of the cluster is not stuck before all of them are.
#[test]
fn blocks_wait_for_one_another() {
    let turns = AtomicU32::new(0);
    let body = || {
        let (me, blocks) = (rank(), cluster_dim().count() as u32);
        for round in 0..5 {
            let turn = round * blocks + me;
            wait_until(
                "turn",
                || turns.load(Relaxed) >= turn * block_dim().x,
                || "nobody comes".into(),
            );
            barrier("all see it", 0);
            turns.fetch_add(1, Relaxed);
        }
    };
    launch_with("turns", &LaunchConfig::new(4, 32), options(4), &body).unwrap();
    let fault = cluster_fault(LaunchConfig::new(4, 32), options(4), &|| {
        if rank() < 2 {
            wait_until("never", || false, || format!("{} waits for ever", rank()));
        }
        cluster_barrier("end");
    });
    assert!(fault.message.ends_with("waits for ever"), "{fault}");
}
