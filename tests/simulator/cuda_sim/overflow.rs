// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that runs over its stack: a fault where it accesses memory or waits, and the end of the process where it does
//! neither.

use std::hint::black_box;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::common::fault;
use cuda_sim::{
    Checks, Error, Fault, Kind, LaunchConfig, Options, Space, access, barrier, exchange, launch, launch_with,
    thread_idx, yield_now,
};

const WANTED: &str = "its stack of 64 KiB overflowed. On a GPU its local memory would be so large; make local arrays \
                      smaller, or the recursion less deep";

/// This line.
#[track_caller]
fn here() -> u32 {
    Location::caller().line()
}

#[track_caller]
fn assert_overflow(fault: &Fault, thread: u32, line: u32) {
    assert_eq!(fault.message, WANTED);
    assert_eq!(fault.thread.x, thread);
    let location = fault.location.as_ref().expect("the fault has a location");
    assert_eq!((&*location.file, location.line), (file!(), line));
}

/// Calls `last` with `kib` KiB of stack in use.
#[inline(never)]
fn with_used(kib: u32, last: &dyn Fn()) {
    let frame = black_box([1_u8; 1024]);
    match kib {
        0 => last(),
        _ => with_used(kib - 1, last),
    }
    black_box(&frame);
}

#[track_caller]
fn read(value: &u32) {
    let address = std::ptr::from_ref(value).addr();
    access(Space::Global, address, 4, 4, Kind::Read);
}

/// Has a frame of its own, which only who calls it needs.
#[inline(never)]
fn read_beside<const BYTES: usize>() {
    let array = black_box([1_u8; BYTES]);
    read(&3);
    black_box(&array);
}

const READS: u32 = line!() - 4;

#[test]
fn a_recursion_that_accesses_memory_is_a_fault() {
    #[expect(unconditional_recursion, reason = "it is to run over the stack")]
    fn recurse(depth: &u32) -> u32 {
        read(depth);
        black_box(recurse(black_box(&(depth + 1)))) + depth
    }
    let line = here() - 3;
    let body = || {
        if thread_idx().x == 40 {
            black_box(recurse(&0));
        }
        barrier("sync_threads", 0);
    };
    assert_overflow(&fault(LaunchConfig::new(4, 64), &body), 40, line);
    // The engine goes on, by the same stacks.
    let sum = AtomicU32::new(0);
    let count = || with_used(20, &|| _ = sum.fetch_add(1, Relaxed));
    launch("count", &LaunchConfig::new(4, 64), &count).unwrap();
    assert_eq!(sum.into_inner(), 256);
}

#[test]
fn a_large_array_is_a_fault_at_the_next_access() {
    let body = || {
        if thread_idx().x == 3 {
            read_beside::<{ 200 << 10 }>();
        }
    };
    assert_overflow(&fault(LaunchConfig::new(1, 8), &body), 3, READS);
    let config = LaunchConfig::new(1, 8);
    let options = Options {
        checks: Checks::ALL,
        ..Options::default()
    };
    let Err(Error::Fault(fault)) = launch_with("kernel", &config, options, &body) else {
        panic!();
    };
    assert_overflow(&fault, 3, READS);
}

#[test]
fn what_fits_is_no_fault() {
    let body = || {
        read_beside::<{ 25 << 10 }>();
        with_used(20, &|| {
            exchange("shfl", u32::MAX, 1_u32);
            barrier("sync_threads", 0);
        });
    };
    launch("kernel", &LaunchConfig::new(2, 64), &body).unwrap();
}

#[test]
fn waits_find_it_too() {
    let waits: [&(dyn Fn() + Sync); 3] = [
        &|| _ = barrier("sync_threads", 0),
        &|| _ = exchange("shfl", u32::MAX, 1_u32),
        &|| yield_now("yield_now"),
    ];
    let first = here() - 4;
    for (line, wait) in (first..).zip(waits) {
        let body = || with_used(if thread_idx().x == 20 { 90 } else { 10 }, wait);
        assert_overflow(&fault(LaunchConfig::new(1, 32), &body), 20, line);
    }
}

/// Frames are unwound, and what they drop may access memory as well.
#[test]
fn destructors_run() {
    struct Count<'a>(&'a AtomicU32);

    impl Drop for Count<'_> {
        fn drop(&mut self) {
            read(&3);
            self.0.fetch_add(1, Relaxed);
        }
    }

    let dropped = AtomicU32::new(0);
    let overflow = fault(LaunchConfig::new(1, 1), &|| {
        let _first = Count(&dropped);
        with_used(100, &|| {
            let _second = Count(&dropped);
            read(&3);
        });
    });
    assert_overflow(&overflow, 0, here() - 3);
    assert_eq!(dropped.into_inner(), 2);
}

/// Each case is a process of its own. The sanitizer's runtime has a handler that it puts before every other.
#[cfg(not(thread_sanitizer))]
mod without_an_access {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};

    use super::*;

    /// Runs the ignored test `case` of this module in a process of its own.
    fn run(case: &str) -> Output {
        let mut this = Command::new(std::env::current_exe().unwrap());
        let case = format!("overflow::without_an_access::{case}");
        this.args(["--exact", &case, "--ignored", "--nocapture", "--test-threads=1"]);
        this.output().unwrap()
    }

    #[track_caller]
    fn expect(case: &str, thread: &str) {
        let output = run(case);
        let text = String::from_utf8_lossy(&output.stderr);
        let wanted = format!("kernel `{case}`: block (0, 0, 0), thread {thread}: {WANTED}");
        assert!(text.contains(&wanted), "{text}");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    }

    #[test]
    fn an_array_beyond_a_gpus_local_memory_is_named() {
        expect("huge_array", "(3, 0, 0)");
    }

    #[test]
    fn a_deep_recursion_is_named() {
        expect("recursion", "(0, 0, 0)");
    }

    /// A fault that is no overflow still ends the process as without the handler.
    #[test]
    fn other_faults_are_handed_on() {
        let output = run("null");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("overflowed"), "{text}");
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{text}");
    }

    #[test]
    #[ignore = "ends the process"]
    fn huge_array() {
        let _ = launch("huge_array", &LaunchConfig::new(1, 8), &|| {
            if thread_idx().x == 3 {
                read_beside::<{ 1 << 20 }>();
            }
        });
    }

    #[expect(unconditional_recursion, reason = "it is to run over the stack")]
    fn recurse(depth: &mut u64) -> u64 {
        *depth += 1;
        let mut below = *depth;
        black_box(recurse(black_box(&mut below))) + *depth
    }

    #[test]
    #[ignore = "ends the process"]
    fn recursion() {
        let _ = launch("recursion", &LaunchConfig::new(1, 1), &|| {
            black_box(recurse(&mut 0));
        });
    }

    #[test]
    #[ignore = "ends the process"]
    fn null() {
        let _ = launch("null", &LaunchConfig::new(1, 1), &|| {
            // SAFETY: none: this is to fault.
            unsafe { black_box(std::ptr::null_mut::<u8>()).write_volatile(1) };
        });
    }
}
