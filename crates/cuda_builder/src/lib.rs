// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a crate of GPU kernels to PTX modules, in the build script of the crate that launches them.
//!
//! The names are Rust-CUDA's; the compiler is the ordinary pinned rustc with its own NVPTX backend.
//! No CUDA toolkit, no LLVM and no nightly toolchain is needed, only the source of `core`, which
//! `rustup component add rust-src` brings (or a `rust-toolchain.toml` with `rust-src` among its
//! components).
//!
//! # A build script
//!
//! ```no_run
//! // build.rs, beside a kernels crate in the folder `kernels`
//! use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};
//!
//! fn main() -> Result<(), CudaBuilderError> {
//!     CudaBuilder::new("kernels")
//!         .archs(&[NvvmArch::Compute75, NvvmArch::Compute80, NvvmArch::Compute90a])
//!         .build()?;
//!     Ok(())
//! }
//! ```
//!
//! The crate then embeds every module, and gives them to a device:
//!
//! ```ignore
//! device.register_kernels(warpsmith::kernels!(kernels))?;
//! ```
//!
//! # Without device code
//!
//! In a build script [`build`](CudaBuilder::build) compiles nothing, and writes that there is no module, in two cases:
//! where the environment variable `WARPSMITH_SIM_ONLY` is set, and where the source of `core` is missing, of which a
//! warning tells. Only the simulated GPU then works; a launch on another is an error. Where the variable `CI` is set,
//! missing source fails the build: what is made there is to have its kernels. [`is_sim_only`] says which values of the
//! first count.
//!
//! # What comes out
//!
//! A kernel says which module it belongs to (`#[kernel]` of `cuda_std`). For each module and each architecture there is
//! one file, `<module>.<arch>.ptx`, in the folder `<package>.ptx.d`, and for all of them a Rust expression in
//! `<package_with_underscores>.ptx.rs`; both lie in `OUT_DIR` or where [`CudaBuilder::copy_to`] says. The expression
//! names the package, its version and each module's kernels with their signatures, and embeds the PTX, packed by the
//! crate ptx_pack; it is for `warpsmith::kernels!`, and what is written there by hand can break the safety of launches. A
//! build script tells the macro where it is by the variable `CUDA_BUILDER_PTX_<package_with_underscores>`. A module has its kernels,
//! with their launch bounds, and what they use. The instances of a device function (`#[device_fn]`) are a module too, whose
//! file is a list: below a line `//cuda_builder function=NAME` the PTX of each, with what it uses. Files are replaced as a whole and only when they change, and files of
//! modules that are no more go away. No path of the machine that built them is in them: the expression and the folder
//! can be packed into a package together, whose build script then prints that variable and builds nothing.
//!
//! # How it builds
//!
//! An inner cargo compiles `core`, the kernels crate and what that depends on for the GPU, in a
//! target folder of its own, `cuda_builder` inside the outer one, which debug, release and clippy
//! builds share. `core` takes some 15 seconds the first time; after that only the kernels crate is
//! compiled, once for each architecture, and of one architecture only when something in it changed:
//! a second profile's build script finds the PTX of the first. rustc's errors are in [`CudaBuilderError::RustcFailed`]; its
//! warnings become warnings of the build script, but for those that cargo shows anyway, since the package depends on the
//! kernels crate by its path, and the host compiles all that a GPU does: none of the crate's files names `nvptx64` or
//! `cuda_entries`.
//! Builds at the same time wait for each other, leave their processors to the one they wait for, and take what it made.
//!
//! The build script runs when any of these changes: a source file, a file that one includes, or the manifest, of the
//! kernels crate or of a path dependency of its (macros and build scripts too); the Cargo.toml of the workspace that one is
//! a member of; the workspace's Cargo.lock; what a dependency's build script says that it reads, or, if it says nothing, any
//! file of its package; an environment variable that one of them is compiled with; a configuration file of cargo's. That a
//! file has changed cargo tells by its time. What is then compiled again the files' contents decide, so that a file
//! which is older than the build (unpacked, copied with its time, in a folder that was moved) is no less a change, and one
//! that was only touched is none.
//!
//! rustc compiles the kernels crate in units, on all cores and incrementally: after an edit only the units whose code
//! it changed are compiled again. `#[kernel]` puts sixteen entries of a kernel into a unit; what the entries call is
//! compiled into each unit that uses it, so that nothing is left to call. What a unit does not have itself (a `static`,
//! the panic handler) is linked in when the PTX is split into modules. The modules are the same, byte for byte, however
//! the build came by them.
//!
//! # Features
//!
//! The kernels crate is compiled with its default features and those that [`CudaBuilder::features`] names, not with those
//! that the crate around it asks for in its `[dependencies]`, of which cargo tells no build script.
//!
//! # The cache
//!
//! What was built is also kept in the user's cache folder (`$XDG_CACHE_HOME/cuda_builder`, else
//! `~/.cache/cuda_builder`; on Windows `%LOCALAPPDATA%\cuda_builder`), so that a second target folder, a second clone,
//! `cargo doc` and clippy compile nothing. It is found by the content of all that goes in: the files named above,
//! wherever the clone lies, the values of the variables, cargo's configuration files, the settings, the compiler's
//! version and commit, and this crate's own source. Of the workspace's Cargo.lock the packages count that the kernels
//! crate is made from; of its Cargo.toml all but tables of a package that is there too, and of the profiles dev, test and
//! bench. A build during which one of its files was written is not kept. The
//! cache has 256 MB at most, of which the least recently used goes first; it can be deleted at any time. Where it cannot
//! be written, each target folder is built by itself.
//!
//! The kernels crate is an ordinary library: the host compiles it too, and needs no
//! `crate-type = ["cdylib"]`. Only in the device build, and only for the crate that is built, is the
//! cfg `cuda_entries` set, so that the kernels of its dependencies do not come out a second time.
//!
//! # Network
//!
//! The first build downloads, besides the crate's own dependencies, the few crates that the
//! standard library's lock file names; after that none is needed. Cargo does not tell build scripts
//! of its flags `--offline`, `--locked`, `--frozen` and `--config`; the variable `CARGO_NET_OFFLINE` and the
//! configuration files reach the inner cargo, and [`CudaBuilder::offline`] and
//! [`CudaBuilder::locked`] set the same here.

#![deny(missing_docs)]

mod arch;
mod cache;
mod cargo;
mod deps;
mod error;
mod json;
mod lock;
mod manifest;
mod message;
mod output;
mod parallel;
mod ptx;
mod script;
mod toolchain;
mod workspace;

pub use arch::NvvmArch;
pub use error::CudaBuilderError;

use cache::{Build, Cache, Request};
use cargo::{Compiler, Settings};
use deps::Dependencies;
use output::{Output, Packed};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use toolchain::{Kernels, Toolchain};

/// With this variable set, build scripts compile no device code: [`is_sim_only`].
const SIM_ONLY: &str = "WARPSMITH_SIM_ONLY";

/// With this variable set, as services for continuous integration do, a build without device code has to be asked for.
const CI: &str = "CI";

/// How much debug information the PTX carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DebugInfo {
    /// None.
    #[default]
    None,
    /// Source files and lines (`.file`, `.loc`), for profilers; the code is the same as without.
    LineTables,
}

impl DebugInfo {
    /// The value of `debug` in a cargo profile. Line tables in full would also write debug
    /// sections, which refer to all kernels of the crate and cannot be split into modules.
    fn profile_value(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LineTables => "line-directives-only",
        }
    }
}

/// One PTX module for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxFile {
    /// The module's name, as the kernels in it give it.
    pub module: String,
    /// The architecture that it was compiled for.
    pub arch: NvvmArch,
    /// The file, as an absolute path.
    pub path: PathBuf,
}

/// Compiles a kernels crate to PTX; see the [crate's page](crate) for a build script with it.
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `build`"]
pub struct CudaBuilder {
    path_to_crate: PathBuf,
    archs: Vec<NvvmArch>,
    release: bool,
    debug: DebugInfo,
    fmt_debug: bool,
    copy_to: Option<PathBuf>,
    target_dir: Option<PathBuf>,
    offline: bool,
    locked: bool,
    features: Vec<String>,
    default_features: bool,
}

impl CudaBuilder {
    /// A builder for the package in the folder `path_to_crate`, which may be relative to the
    /// current folder (in a build script that is the package's own). Unless told otherwise it
    /// builds for [`NvvmArch::Compute75`], optimised and without debug information.
    pub fn new(path_to_crate: impl AsRef<Path>) -> Self {
        Self {
            path_to_crate: path_to_crate.as_ref().to_owned(),
            archs: vec![NvvmArch::Compute75],
            release: true,
            debug: DebugInfo::None,
            fmt_debug: true,
            copy_to: None,
            target_dir: None,
            offline: false,
            locked: false,
            features: Vec::new(),
            default_features: true,
        }
    }

    /// Builds for this architecture alone.
    pub fn arch(self, arch: NvvmArch) -> Self {
        self.archs(&[arch])
    }

    /// Builds for each of these architectures, with one build of `core`. One that is named twice
    /// counts once; an empty list stands for [`NvvmArch::Compute75`].
    pub fn archs(mut self, archs: &[NvvmArch]) -> Self {
        self.archs = match archs {
            [] => vec![NvvmArch::Compute75],
            _ => archs.to_vec(),
        };
        self.archs.sort_unstable();
        self.archs.dedup();
        self
    }

    /// Whether to optimise in full, which is the default. Otherwise overflow checks and debug
    /// assertions are compiled in, in `core` too, and the optimiser does less.
    pub fn release(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// How much debug information to write; none is the default.
    pub fn debug(mut self, debug: DebugInfo) -> Self {
        self.debug = debug;
        self
    }

    /// Whether `{:?}` writes anything in kernels, which it does by default: rustc's `-Zfmt-debug`. A crate whose kernels
    /// print nothing by it (`cuda_std::println!`) compiles in less time without: the library's kernels in some 6 % less, to
    /// the same PTX. `{}` and panics are as ever: what a panic on a GPU says are its place and a message without numbers.
    ///
    /// The two have a `core` each in the target folder.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    /// use cuda_builder::CudaBuilder;
    ///
    /// CudaBuilder::new("kernels").fmt_debug(false).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fmt_debug(mut self, writes: bool) -> Self {
        self.fmt_debug = writes;
        self
    }

    /// The folder to write to instead of `OUT_DIR`. It is made if it does not exist. Outside a
    /// build script it has to be given.
    pub fn copy_to(mut self, folder: impl AsRef<Path>) -> Self {
        self.copy_to = Some(folder.as_ref().to_owned());
        self
    }

    /// The target folder of the inner cargo instead of `cuda_builder` inside the outer one. It must
    /// not be the outer one itself, whose lock the outer cargo holds.
    pub fn target_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.target_dir = Some(folder.as_ref().to_owned());
        self
    }

    /// Whether the inner cargo gets `--offline`. Not by default.
    pub fn offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }

    /// Whether the inner cargo gets `--locked`, so that it fails rather than change Cargo.lock. Not
    /// by default.
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// Compiles the kernels crate with these of its features, besides its default ones; without any is the default.
    ///
    /// Cargo tells no build script which features of a *dependency* are on. So a feature of the kernels crate that the crate
    /// around it turns on, in its `[dependencies]`, is on in what the host compiles alone, until it is named here as well:
    /// what the simulated GPU runs and what a GPU runs would be two things. Where it depends on a feature of the crate
    /// around it, that one's variable tells.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    /// use cuda_builder::CudaBuilder;
    ///
    /// // The crate around it has `f64 = ["kernels/f64"]` among its features.
    /// let f64 = std::env::var_os("CARGO_FEATURE_F64").map(|_| "f64");
    /// CudaBuilder::new("kernels").features(f64).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn features(mut self, features: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.features = features.into_iter().map(Into::into).collect();
        self.features.sort_unstable();
        self.features.dedup();
        self
    }

    /// Whether the kernels crate is compiled with its default features, as it is unless told otherwise. To be the same as
    /// in the `[dependencies]` of the crate around it: see [`features`](Self::features).
    pub fn default_features(mut self, default_features: bool) -> Self {
        self.default_features = default_features;
        self
    }

    /// Compiles, and returns the modules ordered by name and architecture.
    ///
    /// In a build script (`OUT_DIR` is set) it prints the lines that tell cargo when to rerun it,
    /// and rustc's warnings as warnings of the build script, and there may be [no device
    /// code](crate#without-device-code). Elsewhere it prints no such lines, the warnings go to stderr,
    /// and there is device code or an error.
    ///
    /// # Errors
    ///
    /// [`CudaBuilderError`] lists them.
    pub fn build(self) -> Result<Vec<PtxFile>, CudaBuilderError> {
        let out_dir = env::var_os("OUT_DIR").map(PathBuf::from);
        let folder = absolute(&self.path_to_crate)?;
        if !folder.is_dir() {
            return Err(CudaBuilderError::CrateNotFound { path: folder });
        }
        let toolchain = Toolchain::find(&folder)?;
        let kernels = toolchain.describe(&folder)?;
        let output = self.output(&kernels, out_dir.as_deref())?;
        if out_dir.is_some() {
            println!("{}", cargo_line(&kernels.package, &output.expression()));
            if goes_without_device_code(&toolchain)? {
                return output.write(&[]);
            }
        }
        toolchain::require_core_source(toolchain.sysroot())?;
        let target_dir = match &self.target_dir {
            Some(folder) => absolute(folder)?,
            None => default_target_dir(out_dir.as_deref(), &kernels),
        };
        let settings = Settings {
            release: self.release,
            debug: self.debug,
            fmt_debug: self.fmt_debug,
            offline: self.offline,
            locked: self.locked,
            features: self.features.clone(),
            default_features: self.default_features,
        };
        let compiler = Compiler {
            toolchain: &toolchain,
            kernels: &kernels,
            settings: &settings,
            target_dir: &target_dir,
        };
        let built = build_all(&compiler, &Cache::of_the_user(), &self.archs)?;
        let files = output.write(&built.modules)?;
        match out_dir {
            Some(_) => {
                print_lines(&built.dependencies);
                print_lines(&Dependencies {
                    files: compiler.configurations().into_iter().collect(),
                    ..Dependencies::default()
                });
                let warnings = new_warnings(&toolchain, &kernels, &built);
                for line in warnings.iter().flat_map(|warning| warning.lines()) {
                    println!("cargo::warning={line}");
                }
            }
            None => built.warnings.iter().for_each(|warning| eprintln!("{warning}\n")),
        }
        Ok(files)
    }
}

impl CudaBuilder {
    /// Where the files go.
    fn output<'a>(&self, kernels: &'a Kernels, out_dir: Option<&Path>) -> Result<Output<'a>, CudaBuilderError> {
        let folder = self.copy_to.as_deref().or(out_dir);
        Ok(Output {
            folder: absolute(folder.ok_or(CudaBuilderError::NoOutputDir)?)?,
            package: &kernels.package,
            version: &kernels.version,
        })
    }
}

/// In a build script: whether there is a folder `folder` with modules of a kernels crate, as [`CudaBuilder::copy_to`] has
/// them written, and if so tells `kernels!` of it. A package that has its modules packed in then needs to compile nothing.
///
/// # Errors
///
/// [`CudaBuilderError::Io`] if the folder cannot be read.
pub fn use_packed(folder: impl AsRef<Path>) -> Result<bool, CudaBuilderError> {
    let folder = absolute(folder.as_ref())?;
    if !folder.is_dir() {
        return Ok(false);
    }
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut found = false;
    for entry in fs::read_dir(&folder).map_err(CudaBuilderError::io("read", &folder))? {
        let path = entry.map_err(CudaBuilderError::io("read", &folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(library) = name.and_then(|name| name.strip_suffix(output::EXPRESSION)) {
            println!("{}", cargo_line(library, &path));
            found = true;
        }
    }
    Ok(found)
}

/// Whether the environment variable `WARPSMITH_SIM_ONLY` asks for builds without device code: it is set, and neither empty nor `0`.
///
/// For what is to know it without a build, such as a build script that has tests of device code ignored. It tells cargo by
/// `cargo::rerun-if-env-changed=WARPSMITH_SIM_ONLY` that it reads the variable.
pub fn is_sim_only() -> bool {
    env::var_os(SIM_ONLY).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The line by which a build script tells `warpsmith::kernels!` where the expression of a kernels crate is.
fn cargo_line(package: &str, expression: &Path) -> String {
    let (library, path) = (package.replace('-', "_"), expression.display());
    format!("cargo::rustc-env=CUDA_BUILDER_PTX_{library}={path}")
}

/// Whether this build script compiles nothing: because it is told so, or because it cannot, of which it warns.
fn goes_without_device_code(toolchain: &Toolchain) -> Result<bool, CudaBuilderError> {
    for variable in [SIM_ONLY, CI] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if is_sim_only() {
        return Ok(true);
    }
    let Err(error) = toolchain::require_core_source(toolchain.sysroot()) else {
        return Ok(false);
    };
    if let CudaBuilderError::MissingCoreSource { path, .. } = &error {
        print_lines(&until_it_appears(path));
    }
    if env::var_os(CI).is_some() {
        return Err(error);
    }
    let consequence = "built without device code: only the simulated GPU will work";
    println!("cargo::warning={error}\ncargo::warning={consequence}");
    Ok(true)
}

/// In a build script: the warnings that cargo does not show when it compiles the kernels crate for the host. Those without a
/// place in the source are of the compiler's back end.
fn new_warnings(toolchain: &Toolchain, kernels: &Kernels, built: &Built) -> Vec<String> {
    let mut warnings = built.warnings.clone();
    let outer = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let is_dependency = || outer.is_some_and(|outer| toolchain.depends_on(&outer, kernels));
    if !warnings.is_empty() && !has_device_code_of_its_own(kernels, &built.dependencies) && is_dependency() {
        warnings.retain(|warning| !warning.contains("--> "));
    }
    warnings
}

/// Whether one of the crate's files may have code that the host does not compile.
fn has_device_code_of_its_own(kernels: &Kernels, dependencies: &Dependencies) -> bool {
    let folder = kernels.manifest.parent().unwrap_or(Path::new("."));
    let mut sources = dependencies.files.iter().filter(|file| {
        let is_rust = file.extension().is_some_and(|extension| extension == "rs");
        is_rust && file.starts_with(folder)
    });
    sources.any(|file| {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.contains("nvptx64") || text.contains("cuda_entries")
    })
}

/// What all runs of the inner cargo gave together.
#[derive(Default)]
struct Built {
    /// Name and architecture of each module, and the module.
    modules: Vec<(String, NvvmArch, Packed)>,
    /// rustc's warnings; those that every architecture has, once.
    warnings: Vec<String>,
    dependencies: Dependencies,
}

/// The modules for each architecture: from the cache, or compiled and kept there.
fn build_all(compiler: &Compiler, cache: &Cache, archs: &[NvvmArch]) -> Result<Built, CudaBuilderError> {
    let mut built = Built::default();
    for &arch in archs {
        let request = compiler.request(arch);
        let build = match cache.find(&request) {
            Some(build) => build,
            None => build_alone(compiler, cache, &request)?,
        };
        let modules = build.modules.into_iter();
        // Kernels for one architecture come out of each run, the same but for what the compiler chose.
        let named = modules.map(|(name, module)| (name, module.arch().unwrap_or(arch), module));
        let is_new = |(name, arch, _): &(String, NvvmArch, Packed)| {
            let mut known = built.modules.iter();
            !known.any(|(known, of, _)| known == name && of == arch)
        };
        let new: Vec<_> = named.filter(is_new).collect();
        built.modules.extend(new);
        for warning in build.warnings {
            if !built.warnings.contains(&warning) {
                built.warnings.push(warning);
            }
        }
        built.dependencies.extend(build.dependencies);
    }
    built.modules.sort();
    Ok(built)
}

/// The modules that the cache did not have, when no other build has the folder.
fn build_alone(compiler: &Compiler, cache: &Cache, request: &Request) -> Result<Build, CudaBuilderError> {
    let _lock = compiler.lock()?;
    // Who had the folder may have built the same.
    if let Some(build) = cache.find(request) {
        return Ok(build);
    }
    let started = SystemTime::now();
    let build = build_one(compiler, request.arch)?;
    cache.store(request, started, &build);
    Ok(build)
}

/// Compiles for one architecture and splits what comes out into modules.
fn build_one(compiler: &Compiler, arch: NvvmArch) -> Result<Build, CudaBuilderError> {
    let compiled = compiler.compile(arch)?;
    let modules = ptx::split(&compiled.text).map_err(|error| {
        let (path, line, reason) = (compiled.path.clone(), error.line, error.reason);
        match error.in_note {
            true => CudaBuilderError::EntryNote { path, line, reason },
            false => CudaBuilderError::MalformedPtx { path, line, reason },
        }
    })?;
    if modules.is_empty() {
        return Err(CudaBuilderError::NoKernels {
            package: compiler.kernels.package.clone(),
        });
    }
    compiler.keep(&compiled)?;
    let modules = modules.into_iter().map(|(name, module)| (name.to_owned(), module));
    Ok(Build {
        modules: Packed::all(modules.collect()),
        warnings: compiled.warnings,
        dependencies: compiled.dependencies,
    })
}

/// `cuda_builder` in the outer target folder: the one that `OUT_DIR` is in, else the one that the
/// kernels crate would be built in by itself.
fn default_target_dir(out_dir: Option<&Path>, kernels: &Kernels) -> PathBuf {
    let triple = env::var_os("TARGET");
    let outer = out_dir.and_then(|out_dir| {
        // TARGET_DIR[/TRIPLE]/PROFILE/build/…/out
        let build = out_dir.ancestors().find(|path| path.ends_with("build"))?;
        let above = build.parent()?.parent()?;
        match triple.filter(|triple| above.ends_with(triple)) {
            Some(_) => above.parent(),
            None => Some(above),
        }
    });
    outer.unwrap_or(&kernels.target_dir).join("cuda_builder")
}

/// Reruns the build script when the file at `path` has appeared, by its nearest folder that exists:
/// cargo would call a missing file changed every time.
fn until_it_appears(path: &Path) -> Dependencies {
    let mut dependencies = Dependencies::default();
    let nearest = path.ancestors().find(|path| path.exists());
    dependencies.files.extend(nearest.map(Path::to_owned));
    dependencies
}

fn print_lines(dependencies: &Dependencies) {
    for line in dependencies.cargo_lines() {
        println!("{line}");
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CudaBuilderError> {
    std::path::absolute(path).map_err(CudaBuilderError::io("find", path))
}
