// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing the modules: a folder of PTX files and a Rust expression that embeds them, packed by ptx_pack to a tenth.
//!
//! The expression is `(package, version, &[(module, architecture, &[(entry, signature), …], packed PTX), …])`, of type
//! `(&str, &str, &[(&str, &str, &[(&str, u64)], &[u8])])`. It names the packed files as they lie beside it, so that folder
//! and expression can be moved together.
//!
//! Every file is written beside its place and renamed, so that a reader sees the old or the new one
//! and never half of one, and only where it differs, so that nothing downstream is rebuilt for
//! nothing.

use crate::ptx::Module;
use crate::{CudaBuilderError, NvvmArch, PtxFile, parallel};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How the names of files with expressions end, behind the package's as Rust has it.
pub(crate) const EXPRESSION: &str = ".ptx.rs";

/// A module, packed and not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Packed {
    module: Module,
    packed: Vec<u8>,
}

impl Packed {
    /// Packs modules, as many at a time as there are processors.
    pub(crate) fn all(modules: Vec<(String, Module)>) -> Vec<(String, Self)> {
        let mut packed = parallel::map(modules, |(name, module)| (name, Self::new(module)));
        packed.sort();
        packed
    }

    /// Packs a module.
    pub(crate) fn new(module: Module) -> Self {
        let packed = ptx_pack::pack(&module.text);
        Self { module, packed }
    }

    /// A module that was packed before, of its entries and its packed text. `None` where it is no such text.
    pub(crate) fn from_packed(entries: Vec<(String, u64)>, packed: Vec<u8>) -> Option<Self> {
        let text = ptx_pack::unpack(&packed).ok()?;
        Some(Self {
            module: Module { entries, text },
            packed,
        })
    }

    /// The module's entries or functions with their signatures.
    pub(crate) fn entries(&self) -> &[(String, u64)] {
        &self.module.entries
    }

    /// The architecture that its text names.
    pub(crate) fn arch(&self) -> Option<NvvmArch> {
        self.module.arch()
    }

    /// The packed text.
    pub(crate) fn packed(&self) -> &[u8] {
        &self.packed
    }
}

/// Where the modules of one kernels crate go.
pub(crate) struct Output<'a> {
    /// An absolute path.
    pub(crate) folder: PathBuf,
    /// The package's name.
    pub(crate) package: &'a str,
    /// The package's version.
    pub(crate) version: &'a str,
}

impl Output<'_> {
    /// Writes the modules, given with name and architecture, then the expression, and then
    /// removes the files of modules that are no more.
    pub(crate) fn write(&self, modules: &[(String, NvvmArch, Packed)]) -> Result<Vec<PtxFile>, CudaBuilderError> {
        let ptx_folder = self.folder.join(format!("{}.ptx.d", self.package));
        fs::create_dir_all(&ptx_folder).map_err(CudaBuilderError::io("create", &ptx_folder))?;
        let mut files = Vec::new();
        let mut embedded = String::new();
        for (module, arch, contents) in modules {
            let path = ptx_folder.join(format!("{module}.{arch}.ptx"));
            let packed = packed(&path);
            replace(&path, contents.module.text.as_bytes())?;
            replace(&packed, &contents.packed)?;
            let beside = packed.strip_prefix(&self.folder).unwrap_or(&packed);
            embedded += &embedding(module, *arch, contents.entries(), beside);
            files.push(PtxFile {
                module: module.clone(),
                arch: *arch,
                path,
            });
        }
        let (package, version) = (self.package, self.version);
        let embedded = format!("({package:?}, {version:?}, &[\n{embedded}])\n");
        replace(&self.expression(), embedded.as_bytes())?;
        let current: BTreeSet<&Path> = files.iter().map(|file| file.path.as_path()).collect();
        remove_all_but(&current, &ptx_folder)?;
        Ok(files)
    }

    /// The file with the expression.
    pub(crate) fn expression(&self) -> PathBuf {
        let library = self.package.replace('-', "_");
        self.folder.join(library + EXPRESSION)
    }
}

/// The file with the packed text of the module at `path`.
fn packed(path: &Path) -> PathBuf {
    path.with_extension("ptx.packed")
}

/// One module in the expression: a tuple of its name, its architecture, its entries with their signatures, and its
/// packed PTX.
fn embedding(module: &str, arch: NvvmArch, entries: &[(String, u64)], packed: &Path) -> String {
    let arch = arch.target_cpu();
    format!("    ({module:?}, {arch:?}, &{entries:?}, include_bytes!({packed:?})),\n")
}

/// Gives the file at `path` these contents, unless it has them.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> Result<(), CudaBuilderError> {
    if fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    // Unique among the processes and the threads that may write the same file.
    static WRITES: AtomicU32 = AtomicU32::new(0);
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let mut beside = OsString::from(path);
    beside.push(format!(".{}.{number}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = fs::write(&beside, contents).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // The write has failed already; a leftover that cannot be removed changes nothing.
        let _ = fs::remove_file(&beside);
        CudaBuilderError::io("write", path)(error)
    })
}

/// Removes the files in `folder` of modules that are not `current`. Another build may do so at the same time.
fn remove_all_but(current: &BTreeSet<&Path>, folder: &Path) -> Result<(), CudaBuilderError> {
    for entry in fs::read_dir(folder).map_err(CudaBuilderError::io("read", folder))? {
        let path = entry.map_err(CudaBuilderError::io("read", folder))?.path();
        let module = match path.extension().and_then(|extension| extension.to_str()) {
            Some("ptx") => path.clone(),
            Some("packed") => path.with_extension(""),
            _ => continue,
        };
        if !current.contains(module.as_path()) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(CudaBuilderError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
