// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo` and `cargo xtask test`: what a newcomer types first.

use std::time::Instant;

use anyhow::Result;

use crate::workspace::{Workspace, run};

/// Builds the program and runs its `demo` with `args`. Not in release, which takes three times as long to build, and whose
/// kernels are the same on a GPU.
pub fn demo(workspace: &Workspace, args: &[String]) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["run", "--package", "warpsmith-cli"]);
    cargo.args(["--bin", "warpsmith", "--", "demo"]).args(args);
    run(&mut cargo)
}

/// Builds all tests, then runs them and the doc tests, and says how long each part took.
/// `args` go to `cargo test`.
pub fn test(workspace: &Workspace, args: &[String]) -> Result<()> {
    let start = Instant::now();
    let mut build = workspace.cargo();
    build.args(["test", "--workspace", "--no-run"]).args(args);
    run(&mut build)?;
    let built = start.elapsed();

    let start = Instant::now();
    let mut tests = workspace.cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]).args(args);
    let result = run(&mut tests);
    println!(
        "tests: built in {:.1} s, run in {:.1} s",
        built.as_secs_f64(),
        start.elapsed().as_secs_f64()
    );
    result
}
