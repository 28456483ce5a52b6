// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can keep a kernels crate from becoming PTX.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why [`CudaBuilder::build`](crate::CudaBuilder::build) made no PTX.
///
/// Its `Debug` form is the message with its causes, so that `unwrap()` in a build script, or a
/// `main` that returns it, shows rustc's diagnostics as rustc wrote them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CudaBuilderError {
    /// The folder given to [`CudaBuilder::new`](crate::CudaBuilder::new) is not there.
    #[error("no folder at `{}`, where the kernels crate was to be found", path.display())]
    CrateNotFound {
        /// The folder, as an absolute path.
        path: PathBuf,
    },

    /// The folder is there, but no package is.
    #[error("no package in `{}`: its Cargo.toml is missing or declares none", path.display())]
    NoSuchPackage {
        /// The folder, as an absolute path.
        path: PathBuf,
    },

    /// The package has only binaries.
    #[error("package `{package}` has no library target, and kernels live in one (src/lib.rs)")]
    NoLibrary {
        /// The package's name.
        package: String,
    },

    /// `build` ran outside a build script and was not told where to write.
    #[error(
        "nowhere to write the PTX: OUT_DIR is not set, as it is in a build script, \
         and no folder was given to `CudaBuilder::copy_to`"
    )]
    NoOutputDir,

    /// The toolchain has no source of `core`, which kernels are compiled together with.
    #[error(
        "the source of Rust's `core` library, which kernels are compiled with, is missing: \
         looked for `{}`. The command that brings it: `rustup component add rust-src`, or \
         `cargo xtask setup` in a checkout of Warpsmith",
        path.display()
    )]
    MissingCoreSource {
        /// The toolchain's folder, as `rustc --print sysroot` names it.
        sysroot: PathBuf,
        /// The file that was looked for.
        path: PathBuf,
    },

    /// `cargo metadata` could not read the package.
    #[error("cannot read the manifest of the kernels crate in `{}`: {reason}", path.display())]
    Metadata {
        /// The kernels crate's folder.
        path: PathBuf,
        /// What cargo said.
        reason: String,
    },

    /// cargo or rustc could not be started, or gave no usable answer.
    #[error("cannot run `{command}`: {reason}")]
    Tool {
        /// The command.
        command: String,
        /// What went wrong.
        reason: String,
    },

    /// The kernels do not compile.
    #[error("cannot compile `{package}` for {arch}:\n{diagnostics}")]
    RustcFailed {
        /// The kernels crate.
        package: String,
        /// The architecture's name, such as `sm_75`.
        arch: &'static str,
        /// rustc's errors as it renders them, or cargo's where rustc was not reached.
        diagnostics: String,
    },

    /// The compilation succeeded and left no PTX.
    #[error(
        "`{package}` compiled for {arch}, but no PTX came out at `{}`; \
         delete the folder `{}` to compile afresh",
        path.display(), target_dir.display()
    )]
    NoPtx {
        /// The kernels crate.
        package: String,
        /// The architecture's name.
        arch: &'static str,
        /// Where the PTX was expected.
        path: PathBuf,
        /// The inner target folder.
        target_dir: PathBuf,
    },

    /// The kernels crate has no entry point.
    #[error("`{package}` has no kernel: mark at least one of its functions with `#[kernel]` or `#[device_fn]`")]
    NoKernels {
        /// The kernels crate.
        package: String,
    },

    /// The PTX text could not be taken apart.
    #[error("malformed PTX: {}:{line}: {reason}", path.display())]
    MalformedPtx {
        /// The PTX text, kept for inspection.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },

    /// The notes that `#[kernel]` leaves in the PTX and its entry points disagree.
    #[error("wrong kernel note: {}:{line}: {reason}", path.display())]
    EntryNote {
        /// The PTX text, kept for inspection.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },

    /// A file or folder could not be read or written.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried: "read", "write", …
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl CudaBuilderError {
    /// For `map_err` on a file operation.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

impl fmt::Debug for CudaBuilderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
