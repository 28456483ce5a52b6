// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which accesses become one request: the k-th executions of the lanes of a warp, however far these run ahead.

use cuda_sim::{
    Atomic, Kind, LaunchConfig, LaunchCounters, Operands, Operation, Options, Scope, Space, Step, access, atomic,
    barrier, launch_counted, products, sync_warp, thread_idx,
};

fn count(grid: u32, block: u32, body: &(dyn Fn() + Sync)) -> LaunchCounters {
    launch_counted("kernel", &LaunchConfig::new(grid, block), Options::default(), body).unwrap()
}

/// Address of element `i` of 4 bytes, somewhere.
fn at(i: usize) -> usize {
    (1 << 20) + 4 * i
}

fn me() -> usize {
    thread_idx().x as usize
}

#[track_caller]
fn load(i: usize) {
    access(Space::Global, at(i), 4, 4, Kind::Read);
}

/// Requests, lanes, sectors.
fn loads(counters: &LaunchCounters) -> (u64, u64, u64) {
    let counts = counters.total(Space::Global, Operation::Load);
    (counts.requests, counts.lanes, counts.sectors)
}

#[test]
fn lanes_of_a_long_loop_stay_together() {
    // Nothing waits in it; of 100 threads the last warp has four.
    let counters = count(2, 100, &|| (0..1000).for_each(|k| load(100 * k + me())));
    let (requests, lanes, _) = loads(&counters);
    assert_eq!((requests, lanes), (2 * 4 * 1000, 2 * 100 * 1000));
    assert_eq!(counters.lines.len(), 1);
}

#[test]
fn lanes_that_loop_longer_go_on_alone() {
    // Lane l loops 8 (l + 1) times: the request of turn k has the lanes whose number is at least k / 8.
    let counters = count(1, 32, &|| (0..8 * (me() + 1)).for_each(|_| load(me())));
    assert_eq!(loads(&counters).0, 8 * 32);
    // One lane that loops for long counts all, while the others wait for it.
    let counters = count(1, 64, &|| {
        if me() == 0 {
            for k in 0..1000 {
                load(k);
            }
        }
        barrier("sync_threads", 0);
        load(me());
    });
    let (requests, lanes, sectors) = loads(&counters);
    assert_eq!((requests, lanes, sectors), (1000 + 2, 1000 + 64, 1000 + 8));
}

#[test]
fn what_is_on_two_sides_of_a_barrier_is_not_one_request() {
    // One place in the source, to which half of the lanes come a second time.
    let counters = count(1, 32, &|| {
        for round in 0..2 {
            if round == 0 || me() >= 16 {
                load(16 * round);
            }
            barrier("sync_threads", 0);
        }
        (0..me() % 3).for_each(|_| load(500));
        barrier("sync_threads", 0);
        (0..3 - me() % 3).for_each(|_| load(1000));
    });
    assert_eq!(loads(&counters), (2 + 2 + 3, 32 + 16 + 21 + 10 + 32 + 22 + 11, 7));
    let once = |k: usize| (k + me()).is_multiple_of(2);
    let counters = count(1, 32, &|| {
        for k in 0..4 {
            if once(k) {
                load(32 * k + me());
            }
            barrier("sync_threads", 0);
        }
    });
    assert_eq!(loads(&counters), (4, 4 * 16, 4 * 4));
}

#[test]
#[allow(clippy::if_same_then_else)] // at two places in the source
fn branches_divide_requests() {
    let counters = count(1, 32, &|| {
        if me().is_multiple_of(2) {
            load(me());
        } else {
            load(me());
        }
        sync_warp("sync_warp", u32::MAX);
        load(me());
    });
    assert_eq!(loads(&counters), (3, 64, 12));
    let [even, odd, all] = &counters.lines[..] else {
        panic!("{counters}")
    };
    for line in [even, odd] {
        assert_eq!((line.counts.lanes_per_request(), line.counts.efficiency()), (16.0, 0.5));
    }
    assert_eq!(all.counts.efficiency(), 1.0);
    assert!(even.file.ends_with("counters.rs") && even.line < odd.line && odd.line < all.line);
}

#[test]
fn what_is_used_again_is_in_memory_once() {
    let counters = count(4, 32, &|| {
        load(me());
        access(Space::Global, at(1000 + me()), 4, 4, Kind::Write);
        atomic(Space::Global, at(0), 4, Atomic::Update, Scope::Device);
    });
    assert_eq!((counters.sectors_read, counters.sectors_written), (4, 5));
    assert_eq!((counters.least_bytes(), counters.bytes_moved()), (9 * 32, 4 * 40 * 32));
    assert_eq!(counters.bytes_wanted(), 4 * (128 + 128 + 4));
    assert_eq!(counters.least_seconds(288e9), 1e-9);
    let atomics = counters.total(Space::Global, Operation::Atomic);
    assert_eq!((atomics.requests, atomics.collisions), (4, 4 * 31));
}

#[test]
fn copies_of_no_thread_do_not_count_and_nothing_is_nothing() {
    let counters = count(1, 32, &|| access(Space::Global, at(me()), 4, 0, Kind::Read));
    assert!(counters.lines.is_empty());
    let none = counters.total(Space::Shared, Operation::Load);
    assert_eq!(
        (none.lanes_per_request(), none.sectors_per_request(), none.efficiency()),
        (0.0, 0.0, 0.0)
    );
}

#[test]
fn products_are_counted_by_what_is_multiplied() {
    let counters = count(2, 32, &|| {
        products(Operands::F64, 16);
        (0..3).for_each(|_| products(Operands::Bf16, 128));
    });
    assert_eq!(
        counters.products,
        [(Operands::Bf16, 2 * 32 * 384), (Operands::F64, 2 * 32 * 16)]
    );
    let rate = |operands| if operands == Operands::F64 { 1024e9 } else { 24576e9 };
    assert_eq!(counters.least_seconds_of_products(rate), 2e-9);
    let text = counters.to_string();
    assert!(
        text.contains("; 24576 operations of tensor cores on bf16; 1024 operations of tensor cores on f64\n"),
        "{text}"
    );
    assert_eq!(count(1, 32, &|| load(me())).least_seconds_of_products(rate), 0.0);
}

#[test]
fn displayed_it_is_a_table() {
    let counters = count(1, 32, &|| load(2 * me()));
    let text = counters.to_string();
    let wanted = "kernel `kernel`, grid (1, 1, 1), block (32, 1, 1): 256 bytes of global memory moved, 128 wanted; at least \
                  256 of memory\n";
    assert!(text.starts_with(wanted), "{text}");
    let line = "global load           1 requests of 32.0 lanes,  8.00 sectors each,  50.0 % wanted\n";
    assert!(text.ends_with(line), "{text}");
}

#[test]
fn steps_of_a_block_are_kept_in_order() {
    let options = Options {
        traced: Some(2),
        ..Options::default()
    };
    let counters = launch_counted("kernel", &LaunchConfig::new(3, 40), options, &|| {
        load(2 * me());
        barrier("sync_threads", 0);
        if me() < 3 {
            access(Space::Global, at(7), 4, 4, Kind::Write);
        }
    });
    let counters = counters.unwrap();
    let [first, second, barrier, last] = &counters.steps[..] else {
        panic!("{:?}", counters.steps)
    };
    assert_eq!(*barrier, Step::Barrier);
    let Step::Access { warp, width, lanes, .. } = second else {
        panic!("{second:?}")
    };
    assert_eq!((*warp, *width, lanes.len()), (1, 4, 8));
    let at = |step: &Step| step.to_string().replace(|c: char| c.is_ascii_digit(), "");
    assert!(at(first).starts_with("warp , load of  bytes, global, at "), "{first}");
    assert!(
        first
            .to_string()
            .contains(": lanes 0..=31; elements 262144, 262146, .. 262206"),
        "{first}"
    );
    assert!(
        second
            .to_string()
            .contains(": lanes 0..=7; elements 262208, 262210, .. 262222"),
        "{second}"
    );
    assert!(
        last.to_string()
            .ends_with(": lanes 0..=2; elements 262151, the same for all"),
        "{last}"
    );
    // Nothing of the others, and nothing where it is not asked for.
    assert!(count(3, 40, &|| load(me())).steps.is_empty());
}
