// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders of threads and blocks: what is right is so in each, and each is the same every time.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use cuda_sim::{
    Checks, Error, Kind, LaunchConfig, Options, Schedule, Space, access, barrier, block_idx, exchange, grid_barrier,
    group_barrier, launch_with, thread_idx, yield_now,
};

fn schedules() -> impl Iterator<Item = Schedule> {
    let fixed = [
        Schedule::InOrder,
        Schedule::Reversed,
        Schedule::DelayedBlock(0),
        Schedule::DelayedBlock(3),
    ];
    fixed.into_iter().chain((0..12).map(Schedule::Random))
}

fn run(schedule: Schedule, config: LaunchConfig, body: &(dyn Fn() + Sync)) -> Result<(), Error> {
    let options = Options {
        schedule: Some(schedule),
        ..Options::default()
    };
    launch_with("kernel", &config, options, body)
}

fn me() -> u32 {
    thread_idx().x
}

fn block() -> u32 {
    block_idx().x
}

/// The order in which threads begin, as (block, thread).
fn order(schedule: Schedule, grid: u32, threads: u32) -> Vec<(u32, u32)> {
    let log = Mutex::new(Vec::new());
    run(schedule, LaunchConfig::new(grid, threads), &|| {
        log.lock().unwrap().push((block(), me()));
        barrier("sync_threads", 0);
    })
    .unwrap();
    log.into_inner().unwrap()
}

#[test]
fn threads_begin_in_the_order_of_the_schedule() {
    let all: HashSet<_> = (0..20)
        .flat_map(|block| (0..70).map(move |thread| (block, thread)))
        .collect();
    let mut random = HashSet::new();
    for schedule in schedules() {
        let order = order(schedule, 20, 70);
        assert_eq!(order.len(), all.len(), "{schedule:?}");
        assert!(order.iter().copied().collect::<HashSet<_>>() == all, "{schedule:?}");
        match schedule {
            Schedule::Reversed => assert_eq!(order[0].1, 69),
            Schedule::DelayedBlock(delayed) => {
                let last: Vec<_> = order[19 * 70..].iter().map(|at| u64::from(at.0)).collect();
                assert_eq!(last, [delayed; 70]);
            }
            Schedule::Random(_) => {
                assert!(order == self::order(schedule, 20, 70), "{schedule:?}");
                random.insert(order);
            }
            Schedule::InOrder => assert!(order.is_sorted(), "{order:?}"),
        }
    }
    assert_eq!(random.len(), 12);
    let reversed: Vec<u32> = order(Schedule::Reversed, 1, 70).iter().map(|at| at.1).collect();
    assert!(reversed.is_sorted_by(|a, b| a > b), "{reversed:?}");
}

#[test]
fn what_meets_meets_in_each_order() {
    for schedule in schedules() {
        let sum = AtomicU32::new(0);
        run(schedule, LaunchConfig::new(5, 96), &|| {
            for round in 0..3 {
                let odd = barrier("sync_threads", u64::from(me() % 2));
                assert_eq!((odd.nonzero, odd.threads), (48, 96));
                let lanes = exchange("shuffle", u32::MAX, u64::from(me() + round));
                assert_eq!(lanes.get(7), Some(u64::from(me() / 32 * 32 + 7 + round)));
            }
            if me() < 64 {
                group_barrier("sync_threads_named", 1, 64);
            }
            // A part of the threads has ended.
            sum.fetch_add(1, SeqCst);
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 5 * 96, "{schedule:?}");
    }
}

#[test]
fn blocks_wait_for_those_before_them_and_for_all() {
    for schedule in schedules() {
        let done: Vec<AtomicU32> = (0..40).map(|_| AtomicU32::new(0)).collect();
        run(schedule, LaunchConfig::new(40, 33), &|| {
            let before = if block() > 0 && me() == 0 {
                let before = &done[block() as usize - 1];
                while before.load(SeqCst) == 0 {
                    yield_now("load");
                }
                before.load(SeqCst)
            } else {
                0
            };
            barrier("sync_threads", 0);
            if me() == 0 {
                done[block() as usize].store(before + 1, SeqCst);
            }
        })
        .unwrap();
        assert_eq!(done[39].load(SeqCst), 40, "{schedule:?}");

        let met = AtomicU32::new(0);
        let options = Options {
            schedule: Some(schedule),
            cooperative: true,
            ..Options::default()
        };
        launch_with("kernel", &LaunchConfig::new(12, 32), options, &|| {
            met.fetch_add(1, SeqCst);
            grid_barrier("sync");
            assert_eq!(met.load(SeqCst), 12 * 32);
        })
        .unwrap();
    }
}

#[test]
fn an_update_is_lost_in_some_order() {
    let count = |schedule| {
        let cell = AtomicU32::new(0);
        run(schedule, LaunchConfig::new(4, 8), &|| {
            access(Space::Global, cell.as_ptr().addr(), 4, 4, Kind::Read);
            let count = cell.load(SeqCst);
            access(Space::Global, cell.as_ptr().addr(), 4, 4, Kind::Write);
            cell.store(count + 1, SeqCst);
        })
        .unwrap();
        cell.into_inner()
    };
    assert_eq!(count(Schedule::Reversed), 32);
    let counts: Vec<u32> = (0..12).map(|seed| count(Schedule::Random(seed))).collect();
    assert!(counts.iter().all(|&count| count < 32), "{counts:?}");
    assert_eq!(count(Schedule::Random(5)), counts[5]);
}

#[test]
fn faults_end_a_launch_in_each_order() {
    for schedule in schedules() {
        let error = run(schedule, LaunchConfig::new(30, 64), &|| {
            assert!(block() != 17 || me() != 40, "seventeen");
            barrier("sync_threads", 0);
        });
        let Err(Error::Fault(fault)) = error else {
            panic!("{schedule:?}: {error:?}")
        };
        assert_eq!(
            (fault.block.x, fault.thread.x, &*fault.message),
            (17, 40, "seventeen"),
            "{schedule:?}"
        );
        // A race is one in each order.
        let cell = AtomicU32::new(0);
        let options = Options {
            schedule: Some(schedule),
            checks: Checks::ALL,
            ..Options::default()
        };
        let error = launch_with("kernel", &LaunchConfig::new(3, 64), options, &|| {
            if me() == 5 {
                access(Space::Global, cell.as_ptr().addr(), 4, 4, Kind::Write);
            }
        });
        let Err(Error::Fault(fault)) = error else {
            panic!("{schedule:?}: {error:?}")
        };
        assert!(fault.message.starts_with("data race"), "{schedule:?}: {fault}");
    }
}
