// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barriers and shared memory.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{dim, fault};
use cuda_sim::{
    BarrierResult, GROUP_BARRIERS, LaunchConfig, SharedSite, barrier, block_dim, block_idx, dynamic_shared,
    group_barrier, launch, shared_memory, static_shared, thread_idx,
};

/// A tree sum in shared memory, with a barrier a level.
fn tree_sum(data: &[u64], threads: u32) -> u64 {
    let blocks = data.len().div_ceil(threads as usize);
    let total = AtomicU64::new(0);
    launch("tree", &LaunchConfig::new(blocks as u32, threads), &|| {
        static TILE: SharedSite = SharedSite::new(1024 * 8, 8);
        let tile = shared_memory(static_shared(&TILE), 1024 * 8).cast::<u64>();
        let (t, n) = (thread_idx().x as usize, block_dim().x as usize);
        let value = data.get(block_idx().x as usize * n + t).copied();
        // SAFETY: the array has 1024 elements, a block at most as many threads,
        // and each writes its own.
        unsafe { tile.add(t).write(value.unwrap_or(0)) };
        barrier("sync_threads", 0);
        let mut width = n.next_power_of_two() / 2;
        while width > 0 {
            if t < width && t + width < n {
                // SAFETY: in bounds as above; the reads are of elements that
                // nobody writes before the next barrier.
                unsafe { *tile.add(t) += *tile.add(t + width) };
            }
            barrier("sync_threads", 0);
            width /= 2;
        }
        if t == 0 {
            // SAFETY: as above.
            total.fetch_add(unsafe { tile.read() }, Ordering::Relaxed);
        }
    })
    .unwrap();
    total.into_inner()
}

#[test]
fn tree_reduction() {
    for threads in [1, 2, 31, 32, 33, 64, 100, 256, 1000, 1024] {
        for length in [1, 31, 1024, 5000] {
            let data: Vec<u64> = (0..length).collect();
            assert_eq!(tree_sum(&data, threads), length * (length - 1) / 2);
        }
    }
}

#[test]
fn barrier_counts() {
    launch("counts", &LaunchConfig::new(20, (10, 10)), &|| {
        let t = u64::from(thread_idx().x + thread_idx().y * 10);
        for round in 0..50 {
            let given = u64::from(t < round);
            let wanted = BarrierResult {
                nonzero: round as u32,
                threads: 100,
            };
            assert_eq!(barrier("count", given), wanted);
            // Also values whose low half is zero count.
            assert_eq!(barrier("high", given << 40), wanted);
        }
    })
    .unwrap();
}

#[test]
fn shared_memory_is_poisoned_and_apart() {
    static A: SharedSite = SharedSite::new(5, 1);
    static B: SharedSite = SharedSite::new(64, 64);
    static EMPTY: SharedSite = SharedSite::new(0, 16);
    let config = LaunchConfig {
        dynamic_shared: 1000,
        ..LaunchConfig::new(30, 64)
    };
    launch("shared", &config, &|| {
        let (a, b) = (static_shared(&A), static_shared(&B));
        let (dynamic, bytes) = dynamic_shared();
        let addr = |ptr, bytes| shared_memory(ptr, bytes).addr();
        assert!(b.is_aligned_to(64) && addr(b, 64).is_multiple_of(64));
        assert!(addr(static_shared(&EMPTY), 0).is_multiple_of(16));
        assert_eq!((addr(dynamic, bytes) % 128, bytes), (0, 1000));
        barrier("asked", 0);
        assert_eq!((a, b), (static_shared(&A), static_shared(&B)));
        let parts = [(a, 5), (b, 64), (dynamic, 1000)].map(|(ptr, bytes)| (shared_memory(ptr, bytes), bytes));
        for (part, (start, bytes)) in parts.into_iter().enumerate() {
            if thread_idx() == dim(part as u32, 0, 0) {
                for i in 0..bytes {
                    // SAFETY: in bounds, and no other thread touches this part.
                    unsafe {
                        assert_eq!(start.add(i).read(), 0xA5);
                        start.add(i).write(part as u8);
                    }
                }
            }
        }
        barrier("written", 0);
        for (part, (start, bytes)) in parts.into_iter().enumerate() {
            // SAFETY: in bounds, and nobody writes after the barrier.
            assert!((0..bytes).all(|i| unsafe { start.add(i).read() } == part as u8));
        }
    })
    .unwrap();
}

#[test]
fn no_dynamic_shared_memory() {
    launch("none", &LaunchConfig::new(1, 1), &|| {
        let (start, bytes) = dynamic_shared();
        assert_eq!((shared_memory(start, 0).addr() % 128, bytes), (0, 0));
    })
    .unwrap();
}

#[test]
fn full_shared_memory() {
    static ALL: SharedSite = SharedSite::new(48 * 1024, 128);
    static ONE: SharedSite = SharedSite::new(1, 1);
    let mut config = LaunchConfig::new(2, 1);
    config.dynamic_shared = 179 * 1024;
    launch("full", &config, &|| {
        static_shared(&ALL);
    })
    .unwrap();

    let over = fault(LaunchConfig::new(1, 1), &|| {
        static_shared(&ALL);
        static_shared(&ONE);
    });
    assert_eq!(
        over.message,
        "static shared memory exhausted: an array of 1 bytes on top of 49152 is more than the \
         49152 bytes of a block"
    );
    assert_eq!(over.location.unwrap().file, file!());

    config.dynamic_shared += 1;
    let over = fault(config, &|| {
        static_shared(&ALL);
    });
    assert_eq!(
        over.message,
        "shared memory exhausted: 49152 bytes of static arrays and 183297 bytes of dynamic memory \
         are more than the 232448 bytes of a block"
    );
}

/// Groups of different sizes meet round after round, whatever the others do.
#[test]
fn groups_of_threads_meet() {
    let counts: [AtomicU64; 3] = Default::default();
    launch("groups", &LaunchConfig::new(2, 300), &|| {
        let t = thread_idx().x;
        let (group, threads, rounds) = match t {
            0..64 => (0, 64, 7),
            64..96 => (1, 32, 3),
            _ => (GROUP_BARRIERS - 1, 204, 2),
        };
        let count = &counts[group.min(2) as usize];
        for round in 1..=rounds {
            if block_idx().x == 0 {
                count.fetch_add(1, Ordering::Relaxed);
            }
            group_barrier("group", group, threads);
            if block_idx().x == 0 {
                assert_eq!(count.load(Ordering::Relaxed), round * u64::from(threads));
            }
            group_barrier("group", group, threads);
        }
    })
    .unwrap();
}

#[test]
fn groups_that_cannot_meet() {
    let message = |body: &(dyn Fn() + Sync)| fault(LaunchConfig::new(1, 64), body).message;
    assert_eq!(
        message(&|| group_barrier("group", 3, 32 + thread_idx().x)),
        "barrier `group` of 33 threads, where others wait to be 32"
    );
    assert_eq!(
        message(&|| group_barrier("group", 3, 65)),
        "barrier `group` of 65 threads in a block of 64"
    );
    assert_eq!(
        message(&|| group_barrier("group", GROUP_BARRIERS, 64)),
        "barrier `group` of 64 threads, with the number 24"
    );
    assert_eq!(
        message(&|| group_barrier("group", 0, 0)),
        "barrier `group` of 0 threads, with the number 0"
    );
    // What a block that failed has left does not hold up the next.
    launch("groups", &LaunchConfig::new(1, 64), &|| group_barrier("group", 3, 64)).unwrap();
}

/// What waits for a thread that never comes is given up with its block.
#[test]
fn a_group_ends_with_its_block() {
    let failed = fault(LaunchConfig::new(1, 64), &|| {
        assert!(thread_idx().x < 63, "the last thread");
        group_barrier("group", 0, 64);
    });
    assert_eq!((failed.thread, &*failed.message), (dim(63, 0, 0), "the last thread"));
}
