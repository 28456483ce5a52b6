// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo` and `cargo xtask test`: what a newcomer types first.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, anyhow};
use rayon::prelude::*;

use crate::workspace::{Workspace, output, run, tell_of_device_code, wants_device_code};

/// Builds the program and runs its `demo` with `args`. Not in release, which takes three times as long to build, and whose
/// kernels are the same on a GPU.
pub fn demo(workspace: &Workspace, args: &[String]) -> Result<()> {
    tell_of_device_code();
    let mut cargo = workspace.cargo_for_here();
    cargo.args(["run", "--package", "warpsmith-cli"]);
    cargo.args(["--bin", "warpsmith", "--", "demo"]).args(args);
    run(&mut cargo)
}

/// Builds all tests, then runs them, the doc tests and the examples, and says how long it took, and what was left out.
/// `args` go to `cargo test`; with any, it is that alone.
pub fn test(workspace: &Workspace, args: &[String]) -> Result<()> {
    tell_of_device_code();
    let result = build_and_run_tests(workspace, args);
    if !wants_device_code() {
        println!(
            "tests: those that want device code were left out; `cargo xtask ptx` compiles and checks it, and with CI=1 they \
             are run, too"
        );
    }
    result
}

fn build_and_run_tests(workspace: &Workspace, args: &[String]) -> Result<()> {
    let cargo_test = |options: &[&str]| {
        let mut cargo = workspace.cargo_for_here();
        cargo.args(["test", "--workspace"]).args(options).args(args);
        cargo
    };
    let start = Instant::now();
    run(&mut cargo_test(&["--no-run"]))?;
    println!("tests: built in {:.1} s", start.elapsed().as_secs_f64());
    if !args.is_empty() {
        return run(&mut cargo_test(&["--no-fail-fast"]));
    }

    // Test programs run one after another, and each ends with a test that runs alone: a core is left for what is beside them.
    let start = Instant::now();
    let (tests, beside) = rayon::join(
        || run(&mut cargo_test(&["--no-fail-fast", "--tests"])),
        || run_doc_tests(&mut cargo_test(&["--no-fail-fast", "--doc"])).and_then(|()| run_examples(workspace)),
    );
    println!("tests: run in {:.1} s", start.elapsed().as_secs_f64());
    match (tests, beside) {
        (Err(tests), Err(beside)) => Err(anyhow!("{tests:#}\n{beside:#}")),
        (tests, beside) => tests.and(beside),
    }
}

/// Runs the doc tests by that call of cargo. What they print is shown if one fails.
fn run_doc_tests(cargo: &mut Command) -> Result<()> {
    let start = Instant::now();
    output(cargo)?;
    println!("doc tests: run in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
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
