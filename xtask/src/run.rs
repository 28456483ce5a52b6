// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo` and `cargo xtask test`: what a newcomer types first.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use rayon::prelude::*;

use crate::workspace::{Workspace, output, run};

/// The variable with which no kernels crate is compiled for GPUs.
const SIM_ONLY: &str = "WARPSMITH_SIM_ONLY";

/// Builds the program and runs its `demo` with `args`. Not in release, which takes three times as long to build, and whose
/// kernels are the same on a GPU. Where there is no driver, device code, which takes most of the time, could not be run.
pub fn demo(workspace: &Workspace, args: &[String]) -> Result<()> {
    let mut cargo = workspace.cargo();
    if cuda_driver::is_missing() {
        println!("No NVIDIA driver here: built for the simulated GPU alone, as by {SIM_ONLY}=1.");
        cargo.env(SIM_ONLY, "1");
    }
    cargo.args(["run", "--package", "warpsmith-cli"]);
    cargo.args(["--bin", "warpsmith", "--", "demo"]).args(args);
    run(&mut cargo)
}

/// Builds all tests, then runs them, the doc tests and the examples, and says how long each part took.
/// `args` go to `cargo test`; with any, the examples are left out.
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
    result?;
    match args.is_empty() {
        true => run_examples(workspace),
        false => Ok(()),
    }
}

/// Runs the examples, each of which checks its result, side by side. `cargo test` has built them.
fn run_examples(workspace: &Workspace) -> Result<()> {
    let start = Instant::now();
    let mut names = Vec::new();
    for folder in ["examples", "lab/examples"] {
        for entry in fs::read_dir(workspace.root.join(folder))? {
            let source = entry?.path();
            if let (Some(name), true) = (source.file_stem(), source.extension().is_some_and(|end| end == "rs")) {
                names.push(name.to_owned());
            }
        }
    }
    names.par_iter().try_for_each(|name| {
        let example = workspace.target.join("debug/examples").join(name);
        output(Command::new(example).current_dir(&workspace.root)).map(|_| ())
    })?;
    println!(
        "examples: {} run in {:.1} s",
        names.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
