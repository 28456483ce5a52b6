// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that never end, one for each thing that they may wait for. The limit is read once a process, so they run in
//! one of their own.

use std::process::Command;

use cuda_sim::{Error, LaunchConfig, launch};
use cuda_std::Slice;
use cuda_std::prelude::*;

#[test]
fn waiting_kernels_are_given_up() {
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args([
        "--exact",
        "watchdog::waiting_kernels",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let output = this.env("WARPSMITH_SIM_TIMEOUT", "0.05").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains("cannot be stopped"), "{text}");
}

#[test]
#[ignore = "run by the test above"]
fn waiting_kernels() {
    /// Aligned for the vector of four that a loop below reads.
    #[repr(align(16))]
    struct Flags([u32; 4]);

    let mut flag = Flags([0; 4]);
    let (at, len) = (flag.0.as_mut_ptr().expose_provenance(), flag.0.len());
    // SAFETY: the kernels below run one after another, and access the array through these alone.
    let flags = || unsafe { SliceMut::from_raw_parts(std::ptr::with_exposed_provenance_mut::<u32>(at), len) };
    // SAFETY: as above.
    let inputs = || unsafe { Slice::from_raw_parts(std::ptr::with_exposed_provenance::<u32>(at), len) };
    let shared = || shared_array![u32; 4];

    let loops: [(&str, &(dyn Fn() + Sync)); 13] = [
        ("get", &|| while flags().get(0) == 0 {}),
        ("get", &|| while flags().get_vec::<4>(0)[0] == 0 {}),
        ("get", &|| while inputs().get(0) == 0 {}),
        ("set", &|| loop {
            flags().set(1, 1);
        }),
        ("atomic", &|| while flags().atomic(0).load() == 0 {}),
        ("atomic", &|| while flags().atomic(0).load_acquire() == 0 {}),
        ("atomic", &|| while flags().atomic(0).compare_exchange(1, 2) != 1 {}),
        ("shared_memory", &|| while shared().get(0) != 1 {}),
        ("shared_memory", &|| while shared().atomic(0).load() != 1 {}),
        ("nanosleep", &|| loop {
            thread::nanosleep(100);
        }),
        ("sync_threads", &|| while thread::sync_threads_count(true) == 32 {}),
        ("shuffle_xor", &|| while warp::all_reduce(1u32, |a, b| a + b) == 32 {}),
        ("sync_warp", &|| loop {
            warp::sync_warp(warp::FULL_MASK);
        }),
    ];
    for (number, (name, body)) in loops.into_iter().enumerate() {
        let fault = match launch("waits", &LaunchConfig::new(1, 32), body) {
            Err(Error::Fault(fault)) => fault,
            other => panic!("loop {number}: a fault was expected, not {other:?}"),
        };
        let wanted = "no block has ended for 0.05 s, the limit that WARPSMITH_SIM_TIMEOUT sets: this thread waits in `";
        let rest = fault
            .message
            .strip_prefix(wanted)
            .unwrap_or_else(|| panic!("loop {number}: {fault}"));
        assert!(rest.starts_with(name), "loop {number}: {fault}");
        let location = fault.location.unwrap();
        assert!(
            location.file.ends_with("cuda_std/watchdog.rs"),
            "loop {number}: {location}"
        );
    }
}
