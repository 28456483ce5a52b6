// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the workspace lies, and commands started in it whose failures name the command.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The variable with which no kernels crate is compiled for GPUs.
pub const SIM_ONLY: &str = "WARPSMITH_SIM_ONLY";

/// The variable that services for continuous integration set, which look at all that there is.
pub const CI: &str = "CI";

/// Whether what is built for this machine has device code. Compiling it takes the most time of all, and where there is no
/// driver nobody can run it.
pub fn wants_device_code() -> bool {
    !cuda_builder::is_sim_only() && (env::var_os(CI).is_some() || !cuda_driver::is_missing())
}

/// Says so where what is built has no device code.
pub fn tell_of_device_code() {
    if cuda_builder::is_sim_only() {
        println!("Built for the simulated GPU alone, as {SIM_ONLY} is set.");
    } else if !wants_device_code() {
        println!(
            "No NVIDIA driver here: built for the simulated GPU alone, as by {SIM_ONLY}=1; {CI}=1 has device code built."
        );
    }
}

/// The checkout that cargo was called in.
pub struct Workspace {
    /// The folder of the workspace's Cargo.toml.
    pub root: PathBuf,
    /// cargo's target folder.
    pub target: PathBuf,
}

impl Workspace {
    /// Finds the workspace by what `cargo run` says of this package.
    pub fn find() -> Result<Self> {
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map(PathBuf::from)
            .context("CARGO_MANIFEST_DIR is not set: start this program as `cargo xtask`")?;
        let root = package
            .parent()
            .with_context(|| format!("{} has no parent folder", package.display()))?
            .to_path_buf();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => env::current_dir()?.join(folder),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// `program`, started in the workspace's root, so that rust-toolchain.toml holds.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The cargo that runs this program, started in the workspace's root.
    pub fn cargo(&self) -> Command {
        let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        self.command(&cargo)
    }

    /// [`cargo`](Self::cargo) for what runs on this machine: it compiles device code where that [is
    /// wanted](wants_device_code).
    pub fn cargo_for_here(&self) -> Command {
        let mut cargo = self.cargo();
        if !wants_device_code() {
            cargo.env(SIM_ONLY, "1");
        }
        cargo
    }

    /// The packages of the workspace, as cargo describes them.
    pub fn packages(&self) -> Result<Vec<Value>> {
        let mut cargo = self.cargo();
        let metadata = stdout(cargo.args(["metadata", "--no-deps", "--format-version", "1"]))?;
        let mut metadata: Value = serde_json::from_str(&metadata)?;
        match metadata["packages"].take() {
            Value::Array(packages) => Ok(packages),
            _ => bail!("cargo metadata has no packages"),
        }
    }
}

/// Runs `command` with this program's own input and output; an exit status other than 0 is an
/// error that shows the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| start_failed(command))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs `command` and collects its output; an exit status other than 0 is an error that shows
/// the command and what it said.
pub fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| start_failed(command))?;
    if !output.status.success() {
        bail!(
            "`{}` failed: {}\n{}{}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr).trim_end(),
        );
    }
    Ok(output)
}

/// [`output`]'s standard output as text.
pub fn stdout(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no UTF-8", shown(command)))
}

/// The name in a package's id: `…/folder#name@1.0.0`, or `…/name#1.0.0` where they are equal.
pub fn package_name(id: &str) -> &str {
    let (address, fragment) = id.rsplit_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => address.rsplit('/').next().unwrap_or(address),
    }
}

fn start_failed(command: &Command) -> String {
    format!("`{}` cannot be started", shown(command))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
