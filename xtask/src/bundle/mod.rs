// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bundle`: the program and all tests that run on a GPU, stripped, in one folder for a GPU machine with no Rust
//! on it.
//!
//! ```text
//! bundle/run-tests.sh          unpacks the archive, and runs all of tests/
//! bundle/executables.tar.xz
//!     warpsmith                the program
//!     tests/                   PACKAGE-TEST
//!     benches/                 with `--all`: criterion benchmarks, each of which measures when called with --bench
//!     examples/                with `--all`
//! ```
//!
//! The executables have most of their code in common, so that the archive is a small part of their size. `--only` names
//! some of them, as they are called in the archive, which are then built and packed alone.

mod target;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use serde_json::Value;

use crate::workspace::{SIM_ONLY, Workspace, output, stdout};
pub use target::Choice;
use target::Target;

/// More than this does not travel to another machine in one go.
const MAX_BYTES: u64 = 63 << 20;

/// The archive's name, which run-tests.sh knows.
const ARCHIVE: &str = "executables.tar.xz";

/// What xz is told for `bytes`: to take the first match that will do, which costs a quarter of the time for a few bytes more,
/// with a window that all of it fits in, for what the executables have in common (PTX, the library) lies anywhere. Two
/// threads would take half the time and have windows of their own, with 5.5 MiB of PTX in either.
fn xz_options(bytes: u64) -> String {
    const MOST_MIB: u64 = 1536;
    let window = (bytes >> 20).clamp(1, MOST_MIB - 1) + 1;
    format!("--threads=1 --lzma2=preset=1,mode=fast,dict={window}MiB")
}

const RUN_TESTS: &str = include_str!("run-tests.sh");

/// Builds and packs the executables that are chosen into `out` (relative to the workspace), in place of an earlier bundle
/// there.
pub fn run(workspace: &Workspace, out: &Path, profile: &str, choice: &Choice) -> Result<()> {
    let out = workspace.root.join(out);
    let old = out.exists();
    ensure!(
        !old || out.join("run-tests.sh").is_file(),
        "{} exists and is not a bundle: name another folder by --out",
        out.display()
    );
    let targets = target::wanted(&workspace.packages()?, choice)?;
    let executables = build(workspace, &targets, profile)?;

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
struct Executable {
    built: PathBuf,
    place: PathBuf,
}

/// Builds `targets` by the profile.
fn build(workspace: &Workspace, targets: &[Target], profile: &str) -> Result<Vec<Executable>> {
    let mut built = BTreeMap::new();
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--workspace", "--exclude", "xtask", "--profile", profile]);
    cargo.arg("--message-format=json-render-diagnostics");
    cargo.env_remove(SIM_ONLY);
    cargo.args(target::cargo_options(targets).into_iter().flatten());
    for line in stdout(cargo.stderr(Stdio::inherit()))?.lines() {
        let message = serde_json::from_str(line).context("a message of cargo's")?;
        built.extend(executable(&message));
    }
    let places = targets.iter().filter_map(Target::place);
    let executables = places.map(|place| {
        let built = built
            .remove(&place)
            .with_context(|| format!("cargo built no {place}"))?;
        Ok(Executable {
            built,
            place: place.into(),
        })
    });
    executables.collect()
}

/// The executable that a message of cargo's tells of, by its place, if it belongs in the bundle.
fn executable(message: &Value) -> Option<(String, PathBuf)> {
    let built = message["executable"].as_str()?;
    Some((Target::of_message(message)?.place()?, built.into()))
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
