// SPDX-License-Identifier: MIT OR Apache-2.0

//! NVIDIA's assembler: where it comes from, and what it says of each kernel.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::sm::Sm;
use crate::workspace::{Workspace, output, stdout};

/// The assembler that the report's numbers come from: another one allocates registers otherwise.
const VERSION: &str = "13.5.37";

/// What a kernel takes on one architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// 32-bit registers a thread.
    pub registers: u32,
    /// Bytes of static shared memory a block.
    pub shared: u32,
    /// Bytes of local memory a thread, those of called functions included.
    pub stack: u32,
    /// Bytes stored for want of registers.
    pub spill_stores: u32,
    /// Bytes loaded back.
    pub spill_loads: u32,
}

/// A `ptxas` that works.
pub struct Ptxas {
    path: PathBuf,
    /// As in `13.5.37`.
    pub version: String,
}

impl Ptxas {
    /// The one that the variable PTXAS names; else one of the pinned version on the PATH; else
    /// the pinned version from the Python package index, kept below the target folder.
    pub fn find(workspace: &Workspace) -> Result<Self> {
        if let Some(path) = env::var_os("PTXAS") {
            return Self::at(path.into()).context("PTXAS names no working ptxas");
        }
        if let Ok(ptxas) = Self::at("ptxas".into())
            && ptxas.version == VERSION
        {
            return Ok(ptxas);
        }
        let package = workspace.target.join(format!("tools/nvcc-{VERSION}"));
        let path = package.join("nvidia/cu13/bin/ptxas");
        if !path.is_file() {
            download(workspace, &package)?;
        }
        Self::at(path)
    }

    fn at(path: PathBuf) -> Result<Self> {
        let about = stdout(Command::new(&path).arg("--version"))?;
        let version = about
            .split_whitespace()
            .find_map(|word| word.strip_prefix('V')?.split_once('.').map(|_| &word[1..]))
            .with_context(|| format!("{} --version names no version:\n{about}", path.display()))?
            .to_string();
        Ok(Self { path, version })
    }

    /// Assembles a module for one architecture; the result is each kernel's usage by name.
    pub fn assemble(&self, module: &Path, sm: Sm) -> Result<BTreeMap<String, Usage>> {
        let mut ptxas = Command::new(&self.path);
        ptxas.arg("-v").arg(format!("-arch={sm}"));
        let said = output(ptxas.arg(module).args(["-o", "/dev/null"]))?;
        let text = [said.stdout, said.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        if let Some(loss) = loss(&text) {
            bail!("{} for {sm}: {loss}", module.display());
        }
        Ok(parse(&text))
    }

    /// Whether its numbers can be held against those in the report.
    pub fn is_pinned(&self) -> bool {
        self.version == VERSION
    }
}

/// pip checks the package's hash, unpacks it and keeps the executable bits. It works beside the
/// place and the finished folder is renamed, so that a broken download leaves nothing.
fn download(workspace: &Workspace, package: &Path) -> Result<()> {
    let tools = workspace.target.join("tools");
    fs::create_dir_all(&tools)?;
    let staging = tempfile::tempdir_in(&tools)?;
    let mut pip = workspace.command("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    pip.args(["--no-compile", "--only-binary=:all:", "--target"]);
    pip.arg(staging.path().join("package"));
    println!("ptx: getting ptxas {VERSION} (PyPI, nvidia-cuda-nvcc)");
    output(pip.arg(format!("nvidia-cuda-nvcc=={VERSION}")))
        .context("ptxas is wanted: set the variable PTXAS to one, or let python3 with pip reach PyPI")?;
    let renamed = fs::rename(staging.path().join("package"), package);
    ensure!(
        renamed.is_ok() || package.is_dir(),
        "{} cannot be written",
        package.display()
    );
    Ok(())
}

/// Where ptxas says that instructions have not the effect that they are there for: that products of the tensor cores wait for
/// one another, or that registers are not moved between warpgroups.
fn loss(text: &str) -> Option<&str> {
    text.lines().find(|line| line.contains("Potential Performance Loss"))
}

/// Reads what `ptxas -v` prints. Functions that are no kernels have lines of their own, after
/// the kernels' lines; their stack is part of their caller's `cumulative stack size`.
fn parse(text: &str) -> BTreeMap<String, Usage> {
    let mut kernels = BTreeMap::new();
    let mut current: Option<(String, Usage)> = None;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default();
            current = Some((name.to_string(), Usage::default()));
        } else if let Some((_, usage)) = &mut current {
            usage.read(line);
            if line.contains(": Used ") {
                kernels.extend(current.take());
            }
        }
    }
    kernels
}

impl Usage {
    /// Takes the numbers out of a line such as `… Used 12 registers, 1024 bytes smem`.
    fn read(&mut self, line: &str) {
        let line = line.rsplit(": ").next().unwrap_or(line);
        for item in line.split(", ") {
            let item = item.trim().trim_start_matches("Used ");
            let Some((number, what)) = item.split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            match what {
                "registers" => self.registers = number,
                "bytes smem" => self.shared = number,
                "bytes stack frame" | "bytes cumulative stack size" => {
                    self.stack = self.stack.max(number);
                }
                "bytes spill stores" => self.spill_stores = number,
                "bytes spill loads" => self.spill_loads = number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_lost() {
        let lost = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...";
        assert_eq!(loss(&format!("ptxas info    : 0 bytes gmem\n{lost}\n")), Some(lost));
        assert_eq!(loss("ptxas info    : 0 bytes gmem\n"), None);
    }

    #[test]
    fn reads_what_ptxas_prints() {
        let text = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add_f32' for 'sm_80'
ptxas info    : Function properties for add_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 8.134 ms
ptxas info    : Compiling entry function 'big' for 'sm_80'
ptxas info    : Function properties for big
    64 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 552 bytes cumulative stack size
ptxas info    : Function properties for panic
    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
";
        let add = Usage {
            registers: 12,
            shared: 1024,
            ..Usage::default()
        };
        let big = Usage {
            registers: 32,
            shared: 0,
            stack: 552,
            spill_stores: 8,
            spill_loads: 12,
        };
        let wanted = [("add_f32".to_string(), add), ("big".to_string(), big)];
        assert_eq!(parse(text), BTreeMap::from(wanted));
    }
}
