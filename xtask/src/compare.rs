// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask compare`: the program's results held against those of NumPy, SciPy and scikit-image.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, run};

const FOLDER: &str = "tests/compare";

/// Builds the program, installs the libraries, and runs the comparison.
pub fn compare(workspace: &Workspace) -> Result<()> {
    let mut build = workspace.cargo_for_here();
    // As `cargo xtask test` builds it, so that its program serves: alone it would have other features, and all of its
    // crates be compiled again.
    build.args(["test", "--workspace", "--no-run"]);
    run(&mut build)?;
    let python = environment(workspace)?;
    let mut comparison = workspace.command(&python.to_string_lossy());
    comparison.arg(Path::new(FOLDER).join("compare.py"));
    comparison.arg(workspace.target.join("debug/warpsmith"));
    run(&mut comparison)
}

/// The interpreter of a virtual environment that has the libraries, made on first use.
fn environment(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("tools/python");
    let python = folder.join("bin/python");
    if !python.exists() {
        let mut make = workspace.command("python3");
        make.args(["-m", "venv"]).arg(&folder);
        run(&mut make).context("the comparison needs Python 3 with the module venv (Debian: python3-venv)")?;
    }
    let mut install = workspace.command(&python.to_string_lossy());
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install
        .arg("--requirement")
        .arg(Path::new(FOLDER).join("requirements.txt"));
    run(&mut install)?;
    Ok(python)
}
