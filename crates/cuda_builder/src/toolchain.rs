// SPDX-License-Identifier: MIT OR Apache-2.0
//! The toolchain that the outer build runs on, and what it says of a kernels crate's manifest.

use crate::CudaBuilderError;
use crate::json::{self, Value, elements};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The programs of the toolchain that the outer build runs on.
pub(crate) struct Toolchain {
    pub(crate) cargo: OsString,
    pub(crate) rustc: OsString,
    pub(crate) sysroot: PathBuf,
    /// What `rustc -vV` says: release, commit, LLVM.
    pub(crate) version: String,
}

impl Toolchain {
    /// The toolchain named by the environment, as cargo sets it for build scripts, else the one
    /// that applies in `folder`.
    pub(crate) fn find(folder: &Path) -> Result<Self, CudaBuilderError> {
        let program = |variable, default: &str| std::env::var_os(variable).unwrap_or_else(|| OsString::from(default));
        let rustc = program("RUSTC", "rustc");
        let ask = |arguments: &[&str]| {
            let failed = |reason: String| CudaBuilderError::Tool {
                command: format!("{} {}", rustc.display(), arguments.join(" ")),
                reason,
            };
            let output = Command::new(&rustc)
                .args(arguments)
                .current_dir(folder)
                .output()
                .map_err(|error| failed(error.to_string()))?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
                false => Err(failed(stderr_of(&output))),
            }
        };
        Ok(Self {
            cargo: program("CARGO", "cargo"),
            sysroot: PathBuf::from(ask(&["--print", "sysroot"])?),
            version: ask(&["-vV"])?,
            rustc,
        })
    }

    /// The toolchain's folder.
    pub(crate) fn sysroot(&self) -> &Path {
        &self.sysroot
    }

    /// Reads the manifest of the package in `folder`, without resolving its dependencies.
    pub(crate) fn describe(&self, folder: &Path) -> Result<Kernels, CudaBuilderError> {
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(CudaBuilderError::NoSuchPackage {
                path: folder.to_owned(),
            });
        }
        let metadata = self.metadata(folder, &manifest)?;
        let package = package_at(&metadata, &manifest).ok_or_else(|| CudaBuilderError::NoSuchPackage {
            path: folder.to_owned(),
        })?;
        Ok(Kernels {
            package: text(package, "name").to_owned(),
            version: text(package, "version").to_owned(),
            library: library_of(package)?,
            workspace: text(&metadata, "workspace_root").into(),
            target_dir: text(&metadata, "target_directory").into(),
            manifest,
        })
    }

    /// Whether the package in `folder` has the kernels crate among its dependencies, by its path.
    pub(crate) fn depends_on(&self, folder: &Path, kernels: &Kernels) -> bool {
        let manifest = folder.join("Cargo.toml");
        let Ok(metadata) = self.metadata(folder, &manifest) else {
            return false;
        };
        let dependencies = package_at(&metadata, &manifest).map(|package| elements(package, "dependencies"));
        let is_kernels = |dependency: &Value| {
            let path = json::text(dependency, "path").map(|path| Path::new(path).join("Cargo.toml"));
            // Those of tests and build scripts have a kind.
            json::text(dependency, "kind").is_none() && path.is_some_and(|path| same_file(&path, &kernels.manifest))
        };
        dependencies.is_some_and(|dependencies| dependencies.iter().any(is_kernels))
    }

    /// What cargo says of the workspace of a manifest in `folder`.
    fn metadata(&self, folder: &Path, manifest: &Path) -> Result<Value, CudaBuilderError> {
        let unreadable = |reason: String| CudaBuilderError::Metadata {
            path: folder.to_owned(),
            reason,
        };
        let output = Command::new(&self.cargo)
            .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"])
            .arg(manifest)
            .current_dir(folder)
            .env("CARGO_TERM_COLOR", "never")
            .output()
            .map_err(|error| unreadable(error.to_string()))?;
        if !output.status.success() {
            return Err(unreadable(stderr_of(&output)));
        }
        json::parse(&output.stdout).map_err(unreadable)
    }
}

/// The package with this manifest.
fn package_at<'a>(metadata: &'a Value, manifest: &Path) -> Option<&'a Value> {
    let mut packages = elements(metadata, "packages").iter();
    packages.find(|package| same_file(Path::new(text(package, "manifest_path")), manifest))
}

/// A member that `cargo metadata` always has, as text.
fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    json::text(object, name).unwrap_or_default()
}

/// Fails unless the source of `core` is below `sysroot`.
pub(crate) fn require_core_source(sysroot: &Path) -> Result<(), CudaBuilderError> {
    let path = sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    if path.is_file() {
        return Ok(());
    }
    Err(CudaBuilderError::MissingCoreSource {
        sysroot: sysroot.to_owned(),
        path,
    })
}

/// A kernels crate, as its manifest describes it.
pub(crate) struct Kernels {
    /// The package's name, such as `kernels-gpu`.
    pub(crate) package: String,
    /// The package's version.
    pub(crate) version: String,
    /// The library's name, such as `kernels_gpu`.
    pub(crate) library: String,
    /// The package's Cargo.toml.
    pub(crate) manifest: PathBuf,
    /// The root of the workspace that it is in.
    pub(crate) workspace: PathBuf,
    /// The target folder of that workspace.
    pub(crate) target_dir: PathBuf,
}

/// The name of the package's library, whatever kind it is.
fn library_of(package: &Value) -> Result<String, CudaBuilderError> {
    let is_library = |target: &&Value| {
        let mut kinds = elements(target, "kind").iter().filter_map(json::as_text);
        kinds.any(|kind| matches!(kind, "lib" | "rlib" | "cdylib" | "dylib"))
    };
    let mut targets = elements(package, "targets").iter();
    targets
        .find(is_library)
        .map(|target| text(target, "name").replace('-', "_"))
        .ok_or_else(|| CudaBuilderError::NoLibrary {
            package: text(package, "name").to_owned(),
        })
}

/// What a program wrote to its standard error, without blanks around it.
pub(crate) fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// Whether both are one file, as far as that can be told.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_core_source_names_the_file_and_the_commands() {
        let error = require_core_source(Path::new("/no/such/toolchain")).unwrap_err();
        let message = error.to_string();
        for part in [
            "/no/such/toolchain/lib/rustlib/src/rust/library/core/src/lib.rs",
            "`cargo xtask setup`",
            "`rustup component add rust-src`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
