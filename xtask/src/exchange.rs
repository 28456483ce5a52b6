// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask exchange`: builds and runs examples/exchange, a workspace of its own.
//!
//! It is no part of `.ci/run`: candle, burn and what they depend on take longer to build than all that the library needs.

use anyhow::Result;

use crate::workspace::{Workspace, run, tell_of_device_code};

/// The project's programs, which check what they compute.
const PROGRAMS: [&str; 2] = ["candle", "burn"];

/// Runs both programs with the versions in the project's lock file, in a target folder of their own.
pub fn exchange(workspace: &Workspace) -> Result<()> {
    tell_of_device_code();
    for program in PROGRAMS {
        let mut cargo = workspace.cargo_for_here();
        cargo
            .args(["run", "--locked", "--manifest-path", "examples/exchange/Cargo.toml"])
            .args(["--bin", program])
            .arg("--target-dir")
            .arg(workspace.target.join("exchange"));
        run(&mut cargo)?;
    }
    Ok(())
}
