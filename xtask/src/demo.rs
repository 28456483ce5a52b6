// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo`: what a newcomer types first.

use anyhow::Result;

use crate::workspace::{Workspace, run, tell_of_device_code};

/// Builds the program and runs its `demo` with `args`. Not in release, which takes three times as long to build, and whose
/// kernels are the same on a GPU.
pub fn demo(workspace: &Workspace, args: &[String]) -> Result<()> {
    tell_of_device_code();
    let mut cargo = workspace.cargo_for_here();
    cargo.args(["run", "--package", "warpsmith-cli"]);
    cargo.args(["--bin", "warpsmith", "--", "demo"]).args(args);
    run(&mut cargo)
}
