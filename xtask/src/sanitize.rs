// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask sanitize`: the tests of the simulated GPU, and of the device library on it, under ThreadSanitizer.
//!
//! Those are the tests that launch kernels. What these crates test within themselves runs on one thread, but for the threads
//! that help a launch, whose tests are among the simulated GPU's here.
//!
//! The standard library is built with it too, from the source that the set-up brings: without
//! that its locks and channels are not seen. What switches stacks is no trouble to it: a
//! coroutine stays on its OS thread. AddressSanitizer is not run: it takes a panic that unwinds
//! on a coroutine's stack for an error.
//!
//! Some 95 seconds of processor time the first time, of which building takes 76.

use anyhow::{Context, Result};

use crate::workspace::{Workspace, run, stdout};

/// Builds and runs the tests in a target folder of their own; `args` go to `cargo test`.
pub fn run_tests(workspace: &Workspace, args: &[String]) -> Result<()> {
    let version = stdout(workspace.command("rustc").arg("-vV"))?;
    let host = (version.lines().find_map(|line| line.strip_prefix("host: "))).context("`rustc -vV` names no host")?;
    let mut tests = workspace.cargo();
    // Without what makes names of addresses, which nobody asks for: ThreadSanitizer has its own.
    tests.args(["test", "-Zbuild-std=std,test", "-Zbuild-std-features=panic-unwind"]);
    tests
        .args(["--target", host, "--package", "simulator-tests", "--tests"])
        .args(args);
    tests.env("CARGO_TARGET_DIR", workspace.target.join("sanitize"));
    tests
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=thread --cfg=thread_sanitizer");
    run(&mut tests)
}
