// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indices, limits, and the way blocks are spread over OS threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::dim;
use cuda_sim::{
    Dim3, Error, LIMITS, LaunchConfig, block_dim, block_idx, grid_dim, in_kernel, lane, launch, thread_idx, yield_now,
};
use rayon::prelude::*;

/// Every thread of the launch runs once, with the right indices.
fn check_indices(grid: Dim3, block: Dim3) {
    let threads = block.count() as usize;
    let runs: Vec<AtomicU32> = (0..grid.count() as usize * threads)
        .map(|_| AtomicU32::new(0))
        .collect();
    let linear = |at: Dim3, of: Dim3| ((at.z * of.y + at.y) * of.x + at.x) as usize;
    launch("indices", &LaunchConfig::new(grid, block), &|| {
        assert!(in_kernel());
        assert_eq!((grid_dim(), block_dim()), (grid, block));
        let (b, t) = (block_idx(), thread_idx());
        assert!(b.x < grid.x && b.y < grid.y && b.z < grid.z);
        assert!(t.x < block.x && t.y < block.y && t.z < block.z);
        assert_eq!(lane() as usize, linear(t, block) % 32);
        runs[linear(b, grid) * threads + linear(t, block)].fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
    assert!(!in_kernel());
}

#[test]
fn indices() {
    for (grid, block) in [
        (dim(1, 1, 1), dim(1, 1, 1)),
        (dim(7, 1, 1), dim(33, 1, 1)),
        (dim(3, 5, 1), dim(16, 16, 1)),
        (dim(2, 3, 4), dim(5, 3, 2)),
        (dim(1, 1, 9), dim(1, 1, 64)),
        (dim(1, 1, 1), dim(1, 1024, 1)),
        (dim(2, 1, 1), dim(1024, 1, 1)),
    ] {
        check_indices(grid, block);
    }
}

#[test]
fn configuration_outside_the_limits() {
    let dynamic = LaunchConfig {
        dynamic_shared: LIMITS.max_shared + 1,
        ..LaunchConfig::new(1, 1)
    };
    for (config, limit, given, min, max) in [
        (LaunchConfig::new(1, 0), "block.x", 0, 1, 1024),
        (LaunchConfig::new(1, 1025), "block.x", 1025, 1, 1024),
        (LaunchConfig::new(1, (1, 1025)), "block.y", 1025, 1, 1024),
        (LaunchConfig::new(1, (1, 1, 65)), "block.z", 65, 1, 64),
        (LaunchConfig::new(1, (32, 33)), "threads per block", 1056, 1, 1024),
        (LaunchConfig::new(0, 1), "grid.x", 0, 1, 0x7fff_ffff),
        (LaunchConfig::new(1 << 31, 1), "grid.x", 1 << 31, 1, 0x7fff_ffff),
        (LaunchConfig::new((1, 65536), 1), "grid.y", 65536, 1, 65535),
        (LaunchConfig::new((1, 1, 65536), 1), "grid.z", 65536, 1, 65535),
        // The product of these is beyond 64 bits.
        (
            LaunchConfig::new(1, (u32::MAX, u32::MAX, u32::MAX)),
            "block.x",
            0xffff_ffff,
            1,
            1024,
        ),
        (dynamic, "dynamic shared memory in bytes", 232_449, 0, 232_448),
    ] {
        let ran = AtomicBool::new(false);
        let error = launch("big", &config, &|| ran.store(true, Ordering::Relaxed));
        let wanted = Error::Config {
            kernel: "big".to_owned(),
            limit,
            given,
            min,
            max,
        };
        assert_eq!(error, Err(wanted));
        assert!(!ran.load(Ordering::Relaxed));
    }
    let error = launch("big", &LaunchConfig::new(1, 1025), &|| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `big`: block.x is 1025, but must be from 1 to 1024"
    );
}

/// Each block waits for the one before, as a single-pass scan does.
fn chained_sum(blocks: u32) -> u64 {
    let sums: Vec<AtomicU64> = (0..blocks).map(|_| AtomicU64::new(0)).collect();
    launch("chained", &LaunchConfig::new(blocks, 64), &|| {
        if thread_idx().x != 5 {
            return;
        }
        let block = block_idx().x as usize;
        let before = match block {
            0 => 1,
            _ => loop {
                match sums[block - 1].load(Ordering::Acquire) {
                    0 => yield_now("nanosleep"),
                    sum => break sum,
                }
            },
        };
        sums[block].store(before + block as u64, Ordering::Release);
    })
    .unwrap();
    sums[blocks as usize - 1].load(Ordering::Relaxed)
}

#[test]
fn blocks_wait_for_earlier_ones() {
    let wanted = 1 + 1999 * 2000 / 2;
    assert_eq!(chained_sum(2000), wanted);
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        assert_eq!(pool.unwrap().install(|| chained_sum(2000)), wanted);
    }
    // All workers of the pool launch at once.
    let sums = rayon::broadcast(|_| chained_sum(500));
    assert!(sums.iter().all(|&sum| sum == 1 + 499 * 500 / 2));
}

/// A thread of rayon's that waits for its launch takes up no other job, which might want what this one holds.
#[test]
fn a_lock_may_be_held_over_a_launch() {
    let (done, all_done) = std::sync::mpsc::channel();
    // On threads of its own: what fails here hangs.
    std::thread::spawn(move || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        let total = Mutex::new(0);
        pool.install(|| {
            (0..200).into_par_iter().for_each(|_| {
                let mut total = total.lock().unwrap();
                let threads = AtomicU32::new(0);
                launch("count", &LaunchConfig::new(16, 32), &|| {
                    threads.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
                *total += threads.into_inner();
            });
        });
        done.send(total.into_inner().unwrap())
    });
    assert_eq!(all_done.recv_timeout(Duration::from_secs(60)), Ok(200 * 16 * 32));
}

#[test]
fn launches_from_several_host_threads() {
    std::thread::scope(|scope| {
        for host in 0..4_u32 {
            scope.spawn(move || {
                for round in 0..50 {
                    let total = AtomicU32::new(0);
                    launch("add", &LaunchConfig::new(8, 40), &|| {
                        total.fetch_add(host + round, Ordering::Relaxed);
                    })
                    .unwrap();
                    assert_eq!(total.into_inner(), 320 * (host + round));
                }
            });
        }
    });
}

#[test]
fn threads_of_a_block_spin_for_each_other() {
    let turn = AtomicU32::new(0);
    launch("turns", &LaunchConfig::new(1, 100), &|| {
        // The last thread goes first.
        let mine = 99 - thread_idx().x;
        while turn.load(Ordering::Relaxed) != mine {
            yield_now("nanosleep");
        }
        turn.fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!(turn.into_inner(), 100);
}

/// What the calling thread has spent of a processor.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is one that each thread has, and `time` is where its reading may be written.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_million_small_blocks() {
    let start = processor_time();
    let count = AtomicU64::new(0);
    launch("tiny", &LaunchConfig::new((1000, 1000), 2), &|| {
        count.fetch_add(u64::from(thread_idx().x), Ordering::Relaxed);
    })
    .unwrap();
    // The caller's share, as what else runs says nothing about a launch: 0.1 s where it has no help.
    let took = processor_time() - start;
    assert_eq!(count.into_inner(), 1_000_000);
    // ThreadSanitizer makes it 1.5 s. A thread of the system for each block would take some ten without it.
    let most = if cfg!(thread_sanitizer) { 15 } else { 3 };
    assert!(took.as_secs() < most, "{took:?}");
}

#[test]
fn a_grid_of_one_block_stays_on_the_caller() {
    let host = std::thread::current().id();
    launch("here", &LaunchConfig::new(1, 100), &|| {
        assert_eq!(std::thread::current().id(), host);
    })
    .unwrap();
}

#[test]
#[should_panic(expected = "cuda_sim::thread_idx called outside a kernel")]
fn index_outside_a_kernel() {
    thread_idx();
}

#[test]
#[should_panic(expected = "cuda_sim::barrier called outside a kernel")]
fn barrier_outside_a_kernel() {
    cuda_sim::barrier("sync_threads", 0);
}
