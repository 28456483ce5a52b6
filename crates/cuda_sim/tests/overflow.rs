// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that runs over its stack ends the process, so each case is a process of its own. The sanitizer's runtime has
//! a handler that it puts before every other.
#![cfg(not(thread_sanitizer))]

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use cuda_sim::{LaunchConfig, launch, thread_idx};

/// Runs the ignored test `case` of this file in a process of its own.
fn run(case: &str) -> Output {
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args(["--exact", case, "--ignored", "--nocapture", "--test-threads=1"]);
    this.output().unwrap()
}

#[track_caller]
fn expect(case: &str, thread: &str) {
    let output = run(case);
    let text = String::from_utf8_lossy(&output.stderr);
    let wanted = format!("kernel `{case}`: block (0, 0, 0), thread {thread}: its stack of 64 KiB overflowed.");
    assert!(text.contains(&wanted), "{text}");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
}

#[test]
fn a_large_local_array_is_named() {
    expect("large_array", "(3, 0, 0)");
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

/// Has a frame of its own, which only who calls it needs.
#[inline(never)]
fn fill() {
    black_box([1u8; 256 << 10]);
}

#[test]
#[ignore = "ends the process"]
fn large_array() {
    let _ = launch("large_array", &LaunchConfig::new(1, 8), &|| {
        if thread_idx().x == 3 {
            fill();
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
