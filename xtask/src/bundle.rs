// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bundle`: all that runs, stripped, in one folder for a GPU machine with no Rust
//! on it.
//!
//! ```text
//! bundle/run-tests.sh          unpacks the archive, and runs all of tests/
//! bundle/executables.tar.xz
//!     warpsmith                the program
//!     tests/                   PACKAGE-unit, PACKAGE-unit-bin, PACKAGE-TEST: those that run on a GPU
//!     benches/                 criterion benchmarks: each measures when called with --bench
//!     examples/
//! ```
//!
//! The executables have most of their code in common, so that the archive is a small part of their size.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use serde_json::Value;

use crate::workspace::{Workspace, output, package_name, stdout};

/// More than this does not travel to another machine in one go.
const MAX_BYTES: u64 = 60 << 20;

/// Packages whose tests run on the device that WARPSMITH_DEVICE names, or call the driver. Those of all others call cargo, or
/// are of the simulated GPU and what runs on no other, which a GPU machine does not change.
const DEVICE_PACKAGES: [&str; 6] = [
    "cuda_driver",
    "device-tests",
    "own-kernel",
    "warpsmith",
    "warpsmith-cli",
    "warpsmith-lab",
];

/// Tests that call cargo or rustc.
const CARGO_TESTS: [&str; 2] = ["compile_fail", "driver"];

/// The archive's name, which run-tests.sh knows.
const ARCHIVE: &str = "executables.tar.xz";

/// What xz is told for `bytes`: to look for few matches, but to choose among them (`normal`), with a window that all of it fits
/// in, for what the executables have in common (PTX, the library) lies anywhere. Two threads would take half the time and have
/// windows of their own, with 5.5 MiB of PTX in either.
fn xz_options(bytes: u64) -> String {
    const MOST_MIB: u64 = 1536;
    let window = (bytes >> 20).clamp(1, MOST_MIB - 1) + 1;
    format!("--threads=1 --lzma2=preset=1,mode=normal,dict={window}MiB")
}

const RUN_TESTS: &str = include_str!("run-tests.sh");

/// Builds and packs everything into `out` (relative to the workspace), in place of an earlier
/// bundle there.
pub fn run(workspace: &Workspace, out: &Path, profile: &str) -> Result<()> {
    let out = workspace.root.join(out);
    let old = out.exists();
    ensure!(
        !old || out.join("run-tests.sh").is_file(),
        "{} exists and is not a bundle: name another folder by --out",
        out.display()
    );
    let executables = build(workspace, profile)?;

    let parent = out
        .parent()
        .with_context(|| format!("{} is no folder's name", out.display()))?;
    fs::create_dir_all(parent)?;
    let staging = tempfile::Builder::new()
        .prefix(".bundle-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in(parent)?;
    let bytes = pack(&executables, staging.path())?;
    ensure!(
        bytes <= MAX_BYTES,
        "the bundle would have {:.1} MiB, of at most {} MiB",
        mebibytes(bytes),
        MAX_BYTES >> 20
    );
    if old {
        fs::remove_dir_all(&out)?;
    }
    fs::rename(staging.path(), &out).with_context(|| out.display().to_string())?;
    println!(
        "{}: {} executables, {:.1} MiB",
        out.display(),
        executables.len(),
        mebibytes(bytes)
    );
    Ok(())
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What cargo built, and where in the bundle it goes.
#[derive(Debug, PartialEq, Eq)]
struct Executable {
    built: PathBuf,
    place: PathBuf,
}

fn build(workspace: &Workspace, profile: &str) -> Result<Vec<Executable>> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--tests", "--benches", "--bins", "--examples"]);
    cargo.args(["--workspace", "--exclude", "xtask", "--profile", profile]);
    cargo.arg("--message-format=json-render-diagnostics");

    let mut executables = Vec::new();
    for line in stdout(cargo.stderr(Stdio::inherit()))?.lines() {
        let message = serde_json::from_str(line).context("a message of cargo's")?;
        executables.extend(executable(&message));
    }
    executables.sort_by(|a, b| a.place.cmp(&b.place));
    ensure!(
        executables.iter().any(|e| e.place == Path::new("warpsmith")),
        "cargo built no program `warpsmith`"
    );
    Ok(executables)
}

/// The executable that a message of cargo's tells of, if one that belongs in the bundle.
fn executable(message: &Value) -> Option<Executable> {
    let built = message["executable"].as_str()?;
    let target = message["target"]["name"].as_str()?;
    let package = package_name(message["package_id"].as_str()?);
    let is_test = message["profile"]["test"].as_bool()?;
    let place = match (message["target"]["kind"][0].as_str()?, is_test) {
        ("bin", false) if target == "warpsmith" => target.to_string(),
        // The program's experiments do what the laboratory's do, and more.
        ("example", false) if package == "warpsmith-lab" => return None,
        ("example", false) => format!("examples/{target}"),
        ("bench", _) => format!("benches/{target}"),
        (_, true) if !DEVICE_PACKAGES.contains(&package) => return None,
        ("test", true) if CARGO_TESTS.contains(&target) => return None,
        ("test", true) => format!("tests/{package}-{target}"),
        ("bin", true) => format!("tests/{package}-unit-bin"),
        ("lib" | "rlib", true) => format!("tests/{package}-unit"),
        // Other programs, and procedural macros, whose tests are linked with the compiler.
        _ => return None,
    };
    Some(Executable {
        built: built.into(),
        place: place.into(),
    })
}

/// Packs the stripped executables into `folder`, which then holds as many bytes as this returns.
fn pack(executables: &[Executable], folder: &Path) -> Result<u64> {
    let stripped = tempfile::tempdir_in(folder)?;
    for folder_of in ["tests", "benches", "examples"] {
        fs::create_dir(stripped.path().join(folder_of))?;
    }
    let strip = |executable: &Executable| {
        let place = stripped.path().join(&executable.place);
        let mut strip = Command::new("strip");
        output(strip.arg("-o").arg(&place).arg(&executable.built)).context("binutils' strip is wanted")
    };
    executables
        .par_iter()
        .try_for_each(|executable| strip(executable).map(drop))?;
    let archive = folder.join(ARCHIVE);
    let mut tar = Command::new("tar");
    tar.env("XZ_OPT", xz_options(bytes(executables, stripped.path())?))
        .arg("--create")
        .arg("--xz")
        .arg("--file")
        .arg(&archive);
    output(tar.arg("--directory").arg(stripped.path()).arg(".")).context("tar and xz are wanted")?;
    let script = folder.join("run-tests.sh");
    fs::write(&script, RUN_TESTS)?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    Ok(fs::metadata(&archive)?.len() + fs::metadata(&script)?.len())
}

/// How long the stripped executables in `folder` are together.
fn bytes(executables: &[Executable], folder: &Path) -> Result<u64> {
    let lengths = executables
        .iter()
        .map(|executable| Ok(fs::metadata(folder.join(&executable.place))?.len()));
    lengths.sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(package: &str, kind: &str, target: &str, is_test: bool) -> Option<String> {
        let message = json!({
            "reason": "compiler-artifact",
            "package_id": package,
            "target": {"kind": [kind], "name": target},
            "profile": {"test": is_test},
            "executable": "/target/release/deps/x-0123",
        });
        executable(&message).map(|executable| executable.place.display().to_string())
    }

    #[test]
    fn everything_has_one_place() {
        let root = "path+file:///tree#warpsmith@0.1.0";
        let driver = "path+file:///tree/crates/cuda_driver#0.1.0";
        let lab = "path+file:///tree/lab#warpsmith-lab@0.1.0";
        let cases = [
            (root, "bin", "warpsmith", false, Some("warpsmith")),
            (root, "lib", "warpsmith", true, Some("tests/warpsmith-unit")),
            (root, "test", "reduce", true, Some("tests/warpsmith-reduce")),
            (root, "test", "compile_fail", true, None),
            (root, "bench", "copy", true, Some("benches/copy")),
            (root, "example", "sum", false, Some("examples/sum")),
            (lab, "example", "sum_steps", false, None),
            (driver, "bin", "other", false, None),
            (driver, "lib", "cuda_driver", true, Some("tests/cuda_driver-unit")),
            (driver, "proc-macro", "macros", true, None),
            (driver, "custom-build", "build-script-build", false, None),
        ];
        for (package, kind, target, is_test, wanted) in cases {
            let found = place(package, kind, target, is_test);
            assert_eq!(found.as_deref(), wanted, "{package} {kind} {target}");
        }
    }

    #[test]
    fn what_a_gpu_does_not_change_stays_behind() {
        for package in ["cuda_builder", "cuda_sim", "warpsmith-guide", "xtask"] {
            let id = format!("path+file:///tree/crates/{package}#0.1.0");
            assert_eq!(place(&id, "lib", package, true), None);
            assert_eq!(place(&id, "test", "any", true), None);
        }
    }
}
