// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several test files use.

use cuda_sim::{Dim3, Error, Fault, LaunchConfig, launch};

pub fn dim(x: u32, y: u32, z: u32) -> Dim3 {
    Dim3 { x, y, z }
}

/// Launches and expects a fault.
pub fn fault(config: LaunchConfig, body: &(dyn Fn() + Sync)) -> Fault {
    match launch("kernel", &config, body) {
        Err(Error::Fault(fault)) => fault,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

/// Launches and expects this fault: in `thread` of block 0, on `line` of `file`.
#[track_caller]
pub fn expect_fault(threads: u32, body: &(dyn Fn() + Sync), thread: u32, file: &str, line: u32, message: &str) {
    let fault = fault(LaunchConfig::new(1, threads), body);
    assert_eq!(fault.message, message);
    assert_eq!(fault.kernel, "kernel");
    assert_eq!(fault.block, dim(0, 0, 0));
    assert_eq!(fault.thread, dim(thread, 0, 0));
    let location = fault.location.expect("the fault has a location");
    assert_eq!((&*location.file, location.line), (file, line));
}
