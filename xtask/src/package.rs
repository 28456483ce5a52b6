// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask package`: the `.crate` files of all that is published, with the PTX packed inside.
//!
//! ```text
//! target/package/
//!     NAME-VERSION.crate       what is uploaded
//!     source/                  the tracked files, with the licences in each package and `ptx/` beside its Cargo.toml
//!     unpacked/NAME-VERSION/   the .crate files' contents
//! ```
//!
//! The PTX is packed as cuda_builder gives it here, and must then be, byte for byte, what the build scripts of the
//! workspace make of the sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use cuda_builder::CudaBuilder;
use serde_json::Value;

use crate::workspace::{Workspace, output, package_name, run, stdout};

/// What a package may have; the registry takes 10 MB.
const MAX_BYTES: u64 = 8_000_000;

/// A package that has the PTX of a kernels crate packed in, in a folder `ptx` that its build script looks for.
struct WithPtx {
    package: &'static str,
    folder: &'static str,
    kernels: &'static str,
}

const WITH_PTX: [WithPtx; 3] = [
    WithPtx {
        package: "warpsmith",
        folder: "",
        kernels: "kernels-gpu",
    },
    WithPtx {
        package: "warpsmith-cli",
        folder: "cli",
        kernels: "cli/kernels",
    },
    WithPtx {
        package: "warpsmith-lab",
        folder: "lab",
        kernels: "lab/kernels",
    },
];

/// A package that is published.
pub struct Package {
    name: String,
    version: String,
    /// From the workspace's root.
    folder: PathBuf,
}

impl Package {
    /// The name that the package has everywhere.
    pub fn full_name(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// Where the packages are.
pub struct Packages {
    pub folder: PathBuf,
    pub packages: Vec<Package>,
    /// The PTX in them, in the order of [`WITH_PTX`].
    ptx: Vec<BTreeMap<PathBuf, Vec<u8>>>,
}

impl Packages {
    /// The file that is uploaded.
    pub fn archive(&self, package: &Package) -> PathBuf {
        self.folder.join(format!("{}.crate", package.full_name()))
    }

    /// The packages' contents.
    pub fn unpacked(&self) -> PathBuf {
        self.folder.join("unpacked")
    }
}

/// Makes the packages and checks them, but for [`check_ptx`].
pub fn package(workspace: &Workspace) -> Result<Packages> {
    let mut made = Packages {
        folder: workspace.target.join("package"),
        packages: published(workspace)?,
        ptx: Vec::new(),
    };
    let source = made.folder.join("source");
    remove(&made.folder)?;
    stage(workspace, &made.packages, &source)?;
    pack(workspace, &made.packages, &source)?;
    unpack(&made)?;
    check_sizes(&made)?;
    for WithPtx { package, .. } in WITH_PTX {
        let packed = made.packages.iter().find(|packed| packed.name == package);
        let packed = packed.with_context(|| format!("{package} is not published"))?;
        made.ptx
            .push(embedded(&made.unpacked().join(packed.full_name()).join("ptx"))?);
    }
    Ok(made)
}

/// The workspace's packages but for those that say `publish = false`.
fn published(workspace: &Workspace) -> Result<Vec<Package>> {
    let is_published = |package: &Value| package["publish"].is_null();
    let packages = workspace.packages()?.into_iter();
    packages
        .filter(is_published)
        .map(|package| {
            let text = |key: &str| package[key].as_str().with_context(|| format!("a package has no {key}"));
            let manifest = Path::new(text("manifest_path")?);
            let folder = manifest.parent().context("a manifest has no folder")?;
            Ok(Package {
                name: text("name")?.to_string(),
                version: text("version")?.to_string(),
                folder: folder.strip_prefix(&workspace.root)?.to_path_buf(),
            })
        })
        .collect()
}

/// Copies the tracked files to `source`, and adds what only packages have.
fn stage(workspace: &Workspace, packages: &[Package], source: &Path) -> Result<()> {
    let files = stdout(workspace.command("git").args(["ls-files", "-z"]))?;
    for file in files.split_terminator('\0') {
        copy(&workspace.root.join(file), &source.join(file))?;
    }
    for package in packages.iter().filter(|package| package.folder != Path::new("")) {
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            copy(
                &workspace.root.join(licence),
                &source.join(&package.folder).join(licence),
            )?;
        }
    }
    for with_ptx in WITH_PTX {
        let built = workspace.target.join("ptx").join(with_ptx.package);
        CudaBuilder::new(workspace.root.join(with_ptx.kernels))
            .fmt_debug(false)
            .copy_to(&built)
            .build()?;
        let folder = source.join(with_ptx.folder).join("ptx");
        for (name, contents) in embedded(&built)? {
            write(&folder.join(name), &contents)?;
        }
    }
    Ok(())
}

/// What a program embeds of what cuda_builder has written to `folder`: the expression and the packed modules.
fn embedded(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.to_string_lossy();
            if name.ends_with(".ptx.rs") || name.ends_with(".ptx.packed") {
                files.insert(path.strip_prefix(folder)?.to_path_buf(), fs::read(&path)?);
            }
        }
    }
    ensure!(files.len() > 1, "{} has no PTX", folder.display());
    Ok(files)
}

/// Has cargo make the .crate files.
fn pack(workspace: &Workspace, packages: &[Package], source: &Path) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.current_dir(source);
    // Quiet: it warns of each test that stays outside.
    cargo.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    // Its folder `package` is where they come to lie.
    cargo.arg("--target-dir").arg(&workspace.target);
    for package in packages {
        cargo.args(["--package", &package.name]);
    }
    run(&mut cargo)
}

fn unpack(made: &Packages) -> Result<()> {
    fs::create_dir_all(made.unpacked())?;
    for package in &made.packages {
        let mut tar = Command::new("tar");
        tar.arg("-C")
            .arg(made.unpacked())
            .arg("-xzf")
            .arg(made.archive(package));
        output(&mut tar)?;
    }
    Ok(())
}

fn check_sizes(made: &Packages) -> Result<()> {
    for package in &made.packages {
        let bytes = fs::metadata(made.archive(package))?.len();
        println!("{:>9} bytes  {}.crate", bytes, package.full_name());
        ensure!(
            bytes <= MAX_BYTES,
            "{}.crate has {bytes} bytes, of at most {MAX_BYTES}",
            package.full_name()
        );
    }
    Ok(())
}

/// Compares the packed PTX with what the build scripts of the workspace make of the sources.
///
/// This builds the workspace as `cargo xtask test` does: where that is done, nothing is compiled.
pub fn check_ptx(workspace: &Workspace, made: &Packages) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--workspace", "--no-run"]);
    cargo.arg("--message-format=json-render-diagnostics");
    let messages = stdout(cargo.stderr(Stdio::inherit()))?;
    for (WithPtx { package, .. }, packed) in WITH_PTX.iter().zip(&made.ptx) {
        let of_sources = embedded(&out_dir(&messages, package)?)?;
        let differ = |name: &&PathBuf| of_sources.get(*name) != packed.get(*name);
        if let Some(name) = of_sources.keys().chain(packed.keys()).find(differ) {
            anyhow::bail!("{package}: {} is not what the sources give", name.display());
        }
        println!("{package}: {} files of PTX, as the sources give them", packed.len());
    }
    Ok(())
}

/// Where the build script of `package` wrote, by what cargo says.
fn out_dir(messages: &str, package: &str) -> Result<PathBuf> {
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("a message of cargo's")?;
        let (reason, id) = (message["reason"].as_str(), message["package_id"].as_str());
        if reason != Some("build-script-executed") || id.map(package_name) != Some(package) {
            continue;
        }
        if let Some(folder) = message["out_dir"].as_str() {
            return Ok(folder.into());
        }
    }
    anyhow::bail!("cargo ran no build script of {package}")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let contents = fs::read(from).with_context(|| from.display().to_string())?;
    write(to, &contents)
}

pub fn write(path: &Path, contents: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, contents).with_context(|| path.display().to_string())
}

/// Removes a folder that may not be there.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(folder.display().to_string()),
        _ => Ok(()),
    }
}
