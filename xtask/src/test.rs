// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask test`: every test of the workspace, each program of tests run as soon as it is built.
//!
//! Compilation alone leaves cores idle, as one crate waits for another and the largest takes long with nothing beside it. So
//! programs of tests run meanwhile, at a low priority, one after another: each keeps all cores busy but for its last test.
//! What is left then runs beside the doc tests, which want cargo's lock, and the examples.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Error, Result, anyhow, ensure};
use rayon::prelude::*;
use serde_json::Value;

use crate::workspace::{Workspace, output, run, tell_of_device_code, wants_device_code};

/// Builds and runs all tests, doc tests and examples, and says how long it took, and what was left out.
/// `args` go to `cargo test`; with any, it is that alone.
pub fn test(workspace: &Workspace, args: &[String]) -> Result<()> {
    tell_of_device_code();
    let result = match args {
        [] => test_all(workspace),
        _ => run(cargo_test(workspace).arg("--no-fail-fast").args(args)),
    };
    if !wants_device_code() {
        println!(
            "tests: those that want device code were left out; `cargo xtask ptx` compiles and checks it, and with CI=1 they \
             are run, too"
        );
    }
    result
}

fn cargo_test(workspace: &Workspace) -> Command {
    let mut cargo = workspace.cargo_for_here();
    cargo.args(["test", "--workspace"]);
    cargo
}

fn test_all(workspace: &Workspace) -> Result<()> {
    let start = Instant::now();
    let is_built = OnceLock::new();
    let (built, programs) = mpsc::channel();
    let failures = thread::scope(|scope| {
        let tests = scope.spawn(|| run_programs(programs, &is_built));
        let result = build(workspace, built);
        // Nobody asks twice.
        let _ = is_built.set(result.is_ok());
        let beside = result.and_then(|()| {
            println!("tests: built in {:.1} s", start.elapsed().as_secs_f64());
            run_doc_tests(workspace)?;
            run_examples(workspace)
        });
        let mut failures = tests.join().expect("what runs tests does not panic");
        failures.extend(beside.err());
        failures
    });
    println!("tests: built and run in {:.1} s", start.elapsed().as_secs_f64());
    if failures.is_empty() {
        return Ok(());
    }
    let failures: Vec<_> = failures.iter().map(|failure| format!("{failure:#}")).collect();
    Err(anyhow!(failures.join("\n")))
}

/// Builds all tests, and sends each program of tests when it is there, and all that it may start.
fn build(workspace: &Workspace, built: Sender<TestProgram>) -> Result<()> {
    let start_programs = folders_with_programs(&workspace.packages()?);
    let mut waiting = Vec::new();
    let mut cargo = cargo_test(workspace);
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = cargo
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo cannot be started")?;
    let messages = child.stdout.take().context("cargo's output is piped")?;
    for message in BufReader::new(messages).lines() {
        let message = serde_json::from_str(&message?).context("a message of cargo's")?;
        match TestProgram::of_message(&message, &workspace.root) {
            Some(program) if start_programs.contains(&program.folder) => waiting.push(program),
            Some(program) => built.send(program).context(NOBODY)?,
            None => {}
        }
    }
    let status = child.wait()?;
    ensure!(
        status.success(),
        "the tests were not built: `cargo test --no-run`: {status}"
    );
    waiting
        .into_iter()
        .try_for_each(|program| built.send(program).context(NOBODY))
}

/// Why a program of tests could not be sent.
const NOBODY: &str = "nobody runs the tests";

/// The folders of packages that have programs. Their tests start these, and cargo may build them after the tests.
fn folders_with_programs(packages: &[Value]) -> BTreeSet<PathBuf> {
    let has_program = |package: &&Value| {
        let targets = package["targets"].as_array().into_iter().flatten();
        targets.into_iter().any(|target| target["kind"][0] == "bin")
    };
    let manifests = packages
        .iter()
        .filter(has_program)
        .filter_map(|package| package["manifest_path"].as_str());
    manifests
        .filter_map(|manifest| Path::new(manifest).parent())
        .map(PathBuf::from)
        .collect()
}

/// Runs those that come, as long as the build has not failed, and says which tests fail. Until all is built (`is_built`), they
/// have a low priority.
fn run_programs(programs: Receiver<TestProgram>, is_built: &OnceLock<bool>) -> Vec<Error> {
    let mut failures = Vec::new();
    for program in programs {
        let command = match is_built.get() {
            None => {
                let mut nice = Command::new("nice");
                nice.args(["-n", "5"]).arg(&program.path);
                nice
            }
            Some(true) => Command::new(&program.path),
            Some(false) => break,
        };
        failures.extend(program.run(command).err());
    }
    failures
}

/// A program of tests that cargo has built.
#[derive(Debug, PartialEq, Eq)]
struct TestProgram {
    path: PathBuf,
    /// Its source, from the workspace's root.
    source: String,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

impl TestProgram {
    /// That which a message of cargo's tells of.
    fn of_message(message: &Value, root: &Path) -> Option<Self> {
        if message["profile"]["test"] != true {
            return None;
        }
        let source = Path::new(message["target"]["src_path"].as_str()?);
        Some(Self {
            path: message["executable"].as_str()?.into(),
            source: source.strip_prefix(root).unwrap_or(source).display().to_string(),
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.into(),
        })
    }

    /// Runs it by `command`. What it prints is shown if a test fails.
    fn run(&self, mut command: Command) -> Result<()> {
        let start = Instant::now();
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        let said = output(&mut command).with_context(|| self.source.clone())?;
        let said = String::from_utf8_lossy(&said.stdout);
        let counts: Vec<_> = said.lines().filter_map(counts).collect();
        println!(
            "{}: {} in {:.1} s",
            self.source,
            counts.join(", "),
            start.elapsed().as_secs_f64()
        );
        Ok(())
    }
}

/// How many tests have passed, failed and were ignored, if that is what the line says.
fn counts(line: &str) -> Option<&str> {
    let counts = line.strip_prefix("test result: ok. ")?;
    Some(counts.split_once("; 0 measured").map_or(counts, |(counts, _)| counts))
}

/// Runs the doc tests. What they print is shown if one fails.
fn run_doc_tests(workspace: &Workspace) -> Result<()> {
    let start = Instant::now();
    output(cargo_test(workspace).args(["--no-fail-fast", "--doc"]))?;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_of_tests_are_told_from_all_else_that_is_built() {
        let message = |is_test: bool, executable: Option<&str>| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": "/tree/lab/Cargo.toml",
                "target": {"src_path": "/tree/lab/tests/main.rs"},
                "profile": {"test": is_test},
                "executable": executable,
            })
        };
        let program = |message| TestProgram::of_message(&message, Path::new("/tree"));
        let wanted = TestProgram {
            path: "/target/suite".into(),
            source: "lab/tests/main.rs".into(),
            folder: "/tree/lab".into(),
        };
        assert_eq!(program(message(true, Some("/target/suite"))), Some(wanted));
        assert_eq!(program(message(false, Some("/target/program"))), None);
        assert_eq!(program(message(true, None)), None);
        assert_eq!(program(json!({"reason": "build-finished", "success": true})), None);
    }

    #[test]
    fn tests_beside_a_program_wait_for_it() {
        let package = |folder: &str, kinds: [&str; 2]| {
            json!({
                "manifest_path": format!("{folder}/Cargo.toml"),
                "targets": kinds.map(|kind| json!({"kind": [kind]})),
            })
        };
        let packages = [package("/tree/cli", ["bin", "test"]), package("/tree", ["lib", "test"])];
        assert_eq!(folders_with_programs(&packages), BTreeSet::from(["/tree/cli".into()]));
    }

    #[test]
    fn counts_are_those_that_a_program_of_tests_prints() {
        let line = "test result: ok. 58 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s";
        assert_eq!(counts(line), Some("58 passed; 0 failed; 1 ignored"));
        assert_eq!(counts("test a ... ok"), None);
    }

    /// A program of tests by the name of a command, and what became of it.
    fn run_by(programs: &[&str], is_built: Option<bool>) -> Vec<String> {
        let (built, waiting) = mpsc::channel();
        for program in programs {
            let program = TestProgram {
                path: program.into(),
                source: format!("source of {program}"),
                folder: "/".into(),
            };
            built.send(program).unwrap();
        }
        drop(built);
        let outcome = OnceLock::new();
        is_built.map(|is_built| outcome.set(is_built));
        let failures = run_programs(waiting, &outcome);
        failures.iter().map(|failure| failure.to_string()).collect()
    }

    #[test]
    fn all_programs_run_and_those_that_fail_are_named() {
        for is_built in [None, Some(true)] {
            let failures = run_by(&["false", "true", "false"], is_built);
            assert_eq!(failures, ["source of false"; 2]);
        }
    }

    #[test]
    fn no_program_runs_when_the_build_has_failed() {
        assert!(run_by(&["false"], Some(false)).is_empty());
    }
}
