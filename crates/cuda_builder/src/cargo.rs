// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inner cargo: one kernels crate, one architecture, one PTX text.
//!
//! rustc's own NVPTX backend does the work, on a stable toolchain with `RUSTC_BOOTSTRAP=1`. `core`
//! is compiled from source (`-Zbuild-std`), because the flags that keep collectives convergent must
//! reach it too; that takes some 15 seconds once for a target folder. What depends on the
//! architecture goes to the kernels crate alone, so every architecture shares that build.
//!
//! A GPU has no use for calls, so each codegen unit of the kernels crate is to have its own copy of all that its
//! entries use, which rustc makes of functions that it may inline across crates: it is told that these are all. Then
//! units need nothing of each other, and are compiled side by side and incrementally: rustc knows for which of them
//! something changed. `#[kernel]` says what a unit is. What there can be one of only (statics, the panic handler) is
//! taken from the assembly of its own crate or unit when the text is split.

use crate::lock::lock;
use crate::manifest::{configurations, workspace_of};
use crate::message::{Artifact, Diagnostic, Message};
use crate::script::{Script, printed_at};
use crate::toolchain::{Kernels, Toolchain, same_file, stderr_of};
use crate::{CudaBuilderError, DebugInfo, NvvmArch, cache, cache::Request, deps::Dependencies, ptx};
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The only target there is.
const TARGET: &str = "nvptx64-nvidia-cuda";

/// Flags for every crate of the device build, `core` included.
///
/// The first keeps rustc's lint for unknown cfgs quiet about the one that marks entry points. The
/// next two keep the optimiser from duplicating barriers and shuffles or moving them across
/// control flow, as rustc does by itself only from 1.97 on (rust-lang issue 137086).
///
/// The fourth lets loops with large bodies be unrolled: a thread's array is in registers only where every index is a
/// constant, and LLVM's own limit, meant for CPUs, leaves such an array in local memory, which is far slower.
///
/// The last two have every crate leave the code of its functions to the units that use them, and its own assembly,
/// with what is left (statics, for instance), beside the library.
const RUSTFLAGS: [&str; 6] = [
    "--check-cfg=cfg(cuda_entries)",
    "-Zmir-enable-passes=-JumpThreading",
    "-Cllvm-args=-force-attribute=convergent",
    "-Cllvm-args=-unroll-threshold=1500",
    "-Zcross-crate-inline-threshold=always",
    "--emit=asm",
];

/// A flag for every crate where `{:?}` is to write nothing. What would write it is in every unit that has a panic with
/// numbers, such as that of an index: rustc and LLVM are done with all of it before it turns out that no kernel gets there.
const NO_FMT_DEBUG: &str = "-Zfmt-debug=none";

/// More codegen units than there are modules in a crate: a smaller number would have rustc put modules together, and
/// others when one has changed.
const UNITS: &str = "-Ccodegen-units=1000000";

/// What is said where a crate wants `std`.
const NO_STD: &str = "A GPU has no `std`. A kernels crate begins with `#![no_std]`, and what it depends on has to do \
    without as well, which many crates do by `default-features = false` in [dependencies].";

/// The `CARGO_…` variables that say where crates come from and how many jobs may run; all others
/// are the outer build's own settings. A final `_` stands for all that begin so.
const INHERITED: [&str; 9] = [
    "CARGO_HOME",
    "CARGO_MAKEFLAGS",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_RESOLVER_",
    "CARGO_SOURCE_",
    "CARGO_CACHE_",
];

/// Variables under other names by which an outer build would reach into the inner one.
const FOREIGN: [&str; 13] = [
    "CLIPPY_ARGS",
    "DEBUG",
    "HOST",
    "NUM_JOBS",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "RUSTC_LINKER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "TARGET",
];

/// The settings of one build.
pub(crate) struct Settings {
    pub(crate) release: bool,
    pub(crate) debug: DebugInfo,
    pub(crate) fmt_debug: bool,
    pub(crate) offline: bool,
    pub(crate) locked: bool,
    pub(crate) features: Vec<String>,
    pub(crate) default_features: bool,
}

/// What one run of the inner cargo gave.
pub(crate) struct Compiled {
    /// Where the PTX text lies.
    pub(crate) path: PathBuf,
    /// The PTX text: every entry of the crate.
    pub(crate) text: String,
    /// rustc's warnings, rendered.
    pub(crate) warnings: Vec<String>,
    /// What went in.
    pub(crate) dependencies: Dependencies,
}

/// Runs the inner cargo for one kernels crate.
pub(crate) struct Compiler<'a> {
    pub(crate) toolchain: &'a Toolchain,
    pub(crate) kernels: &'a Kernels,
    pub(crate) settings: &'a Settings,
    /// The inner target folder, never the outer one: the outer cargo holds that one's lock.
    pub(crate) target_dir: &'a Path,
}

impl Settings {
    /// The flags of rustc that every crate gets, as cargo wants them.
    fn rustflags(&self) -> String {
        let more = (!self.fmt_debug).then_some(NO_FMT_DEBUG);
        RUSTFLAGS.into_iter().chain(more).collect::<Vec<_>>().join("\u{1f}")
    }
}

impl Compiler<'_> {
    /// Waits until no other build writes to the folder, and keeps it so until the file is dropped. Cargo guards the folder
    /// only while it runs; this is to hold until the outputs are read and found sound.
    pub(crate) fn lock(&self) -> Result<File, CudaBuilderError> {
        lock(self.target_dir)
    }

    /// Compiles the crate for `arch`, with the folder [locked](Self::lock).
    pub(crate) fn compile(&self, arch: NvvmArch) -> Result<Compiled, CudaBuilderError> {
        let arguments = self.arguments();
        let path = self.ptx_path(arch, &arguments);
        self.begin(&path)?;
        let mut messages = self.run(arch, &arguments, &path)?;
        if self.outdate_scripts(&messages)? {
            messages = self.run(arch, &arguments, &path)?;
            self.outdate_scripts(&messages)?;
        }
        let text = self.finish(&path, &messages)?.ok_or_else(|| CudaBuilderError::NoPtx {
            package: self.kernels.package.clone(),
            arch: arch.target_cpu(),
            path: path.clone(),
            target_dir: self.target_dir.to_owned(),
        })?;
        Ok(Compiled {
            text,
            path,
            warnings: rendered(&messages, "warning"),
            dependencies: self.dependencies(&messages)?,
        })
    }

    /// What decides of the outcome besides the files and variables that it is made from.
    pub(crate) fn request(&self, arch: NvvmArch) -> Request<'_> {
        let Settings {
            release,
            debug,
            fmt_debug,
            ref features,
            default_features,
            ..
        } = *self.settings;
        let folder = self.kernels.manifest.parent().unwrap_or(Path::new("."));
        // Paths in the PTX are as seen from the workspace.
        let depth = folder.strip_prefix(&self.kernels.workspace).unwrap_or(folder);
        let mut settings = vec![
            self.kernels.package.clone(),
            self.toolchain.version.clone(),
            format!(
                "{release} {debug:?} {fmt_debug} {features:?} {default_features} {}",
                depth.display()
            ),
        ];
        settings.extend(
            self.configurations()
                .iter()
                .filter_map(|file| fs::read_to_string(file).ok()),
        );
        Request { folder, settings, arch }
    }

    /// Cargo's configuration files that apply to the build.
    pub(crate) fn configurations(&self) -> Vec<PathBuf> {
        configurations(self.kernels.manifest.parent().unwrap_or(Path::new(".")))
    }

    /// cargo's arguments, which no architecture changes: they decide what is built again.
    fn arguments(&self) -> Vec<OsString> {
        let Settings {
            release,
            debug,
            offline,
            locked,
            default_features,
            ..
        } = *self.settings;
        let mut arguments: Vec<OsString> = [
            "rustc",
            "--quiet",
            "--lib",
            "--crate-type=cdylib",
            "--release",
            "--message-format=json",
            "-Zbuild-std=core",
            // What would write a panic's numbers is in every unit that has such a panic, see `NO_FMT_DEBUG`: of that the least.
            "-Zbuild-std-features=optimize_for_size",
            // By what sources contain and not by their times: what is unpacked, moved or copied with its times changes and
            // looks older than the build.
            "-Zchecksum-freshness",
            // Paths in panics and line tables become relative to the workspace, to the package or
            // to /rustc/HASH. Messages keep the real ones.
            "-Ztrim-paths",
            "--config=profile.release.trim-paths='object'",
            // Within the crate: LLVM's passes before and after linking are what makes good code, though nothing is
            // linked, since every unit has all that it needs.
            "--config=profile.release.lto=false",
            "--config=profile.release.codegen-units=1",
            "--config=profile.release.panic='abort'",
        ]
        .map(OsString::from)
        .into();
        let opt_level = if release { 3 } else { 1 };
        for setting in [
            format!("opt-level={opt_level}"),
            format!("debug-assertions={}", !release),
            format!("overflow-checks={}", !release),
            format!("debug='{}'", debug.profile_value()),
        ] {
            arguments.push(format!("--config=profile.release.{setting}").into());
        }
        for (flag, value) in [
            ("--target", OsString::from(TARGET)),
            ("--target-dir", self.target_dir.into()),
            ("--manifest-path", self.kernels.manifest.clone().into()),
        ] {
            arguments.extend([OsString::from(flag), value]);
        }
        let features = self
            .settings
            .features
            .iter()
            .map(|feature| format!("--features={feature}").into());
        arguments.extend(features);
        let options = [
            ("--offline", offline),
            ("--locked", locked),
            ("--no-default-features", !default_features),
        ];
        let wanted = options.into_iter().filter(|(_, wanted)| *wanted);
        arguments.extend(wanted.map(|(flag, _)| OsString::from(flag)));
        arguments
    }

    /// A file of its own for every compiler and every combination of settings: cargo does not know of this output, and
    /// would call it fresh after others had replaced it.
    fn ptx_path(&self, arch: NvvmArch, arguments: &[OsString]) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (&self.toolchain.version, self.settings.rustflags(), arguments).hash(&mut hasher);
        self.profile_dir()
            .join("deps")
            .join(format!("{}-{:016x}.{arch}.s", self.kernels.library, hasher.finish()))
    }

    /// Where cargo looks for the linked library, which there is none of: if the file is missing, it builds again. So a
    /// file is left there, which is written where rustc has run and then alone: by its age cargo tells whether a
    /// dependency was compiled later, as it is by the build of another crate that has the same.
    fn library_path(&self) -> PathBuf {
        self.profile_dir()
            .join("deps")
            .join(&self.kernels.library)
            .with_extension("ptx")
    }

    /// A file that says which PTX was written last, by name, and by which version of this crate.
    fn marker_path(&self) -> PathBuf {
        self.library_path().with_extension("written")
    }

    /// Makes cargo build again unless the PTX at `ptx` is what was written last: then cargo knows whether it is fresh.
    /// Until [`keep`](Self::keep) no PTX counts as written, so that of a run that is cut off nothing is taken.
    fn begin(&self, ptx: &Path) -> Result<(), CudaBuilderError> {
        remove_files(&self.units()?)?;
        let marker_path = self.marker_path();
        let is_last = ptx.is_file() && fs::read(&marker_path).is_ok_and(|written| written == marker(ptx));
        remove_files(&[marker_path])?;
        match is_last {
            true => Ok(()),
            false => remove_files(&[self.library_path()]),
        }
    }

    /// Puts what rustc wrote into the file at `ptx`: the assembly of the crate's units and of the other crates. Where
    /// the crate was fresh the file stays. Gives the text, or `None` if there is none.
    ///
    /// A build that was killed may have left a cargo or a rustc that goes on, and so units of its own. Each run of rustc
    /// gives its units names of their own, and lists them for a linker, which is what `-Zno-link` stands for.
    fn finish(&self, ptx: &Path, messages: &[Message]) -> Result<Option<String>, CudaBuilderError> {
        let read = |path: &Path| fs::read_to_string(path).map_err(CudaBuilderError::io("read", path));
        let text = if messages.iter().any(|message| self.is_fresh(message)) {
            if !ptx.is_file() {
                return Ok(None);
            }
            read(ptx)?
        } else {
            let units = self.units()?;
            let list = self
                .profile_dir()
                .join("deps")
                .join(&self.kernels.library)
                .with_extension("rlink");
            let list = fs::read(&list).map_err(CudaBuilderError::io("read", &list))?;
            let names: Vec<_> = list.split(|&byte| byte == b'/').collect();
            let of_this_run = units.iter().filter(|unit| is_named(unit, &names)).cloned();
            let others = messages.iter().filter_map(assembly_of).filter(|path| path.is_file());
            let texts = of_this_run.chain(others).map(|path| read(&path));
            let text = ptx::join(texts.collect::<Result<Vec<_>, _>>()?);
            for (file, text) in [(ptx, text.as_str()), (&self.library_path(), "")] {
                fs::write(file, text).map_err(CudaBuilderError::io("write", file))?;
            }
            remove_files(&units)?;
            text
        };
        Ok(Some(text))
    }

    /// Has the next build take `compiled` where cargo finds nothing changed: to be called once the text has proved sound.
    pub(crate) fn keep(&self, compiled: &Compiled) -> Result<(), CudaBuilderError> {
        let path = self.marker_path();
        fs::write(&path, marker(&compiled.path)).map_err(CudaBuilderError::io("write", &path))
    }

    /// Whether cargo says that the kernels crate itself was not compiled.
    fn is_fresh(&self, message: &Message) -> bool {
        match message {
            Message::Artifact(artifact) => {
                artifact.fresh
                    && same_file(&artifact.manifest, &self.kernels.manifest)
                    && artifact.target.replace('-', "_") == self.kernels.library
            }
            _ => false,
        }
    }

    /// The assembly of codegen units of the crate that runs of rustc have left.
    fn units(&self) -> Result<Vec<PathBuf>, CudaBuilderError> {
        let folder = self.profile_dir().join("deps");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(CudaBuilderError::io("read", &folder))?,
        };
        let start = format!("{}.", self.kernels.library);
        let mut units = Vec::new();
        for entry in entries {
            let entry = entry.map_err(CudaBuilderError::io("read", &folder))?;
            let name = entry.file_name();
            if name
                .to_str()
                .is_some_and(|name| name.starts_with(&start) && name.ends_with(".rcgu.s"))
            {
                units.push(entry.path());
            }
        }
        units.sort();
        Ok(units)
    }

    /// Where the inner cargo leaves what it builds for the target.
    fn profile_dir(&self) -> PathBuf {
        self.target_dir.join(TARGET).join("release")
    }

    /// Runs cargo to its end.
    fn run(&self, arch: NvvmArch, arguments: &[OsString], ptx: &Path) -> Result<Vec<Message>, CudaBuilderError> {
        let output = self.command(arch, arguments, ptx).output();
        let output = output.map_err(|error| self.unusable(error.to_string()))?;
        let messages = Message::parse_all(&output.stdout);
        match output.status.success() {
            true => Ok(messages),
            false => Err(CudaBuilderError::RustcFailed {
                package: self.kernels.package.clone(),
                arch: arch.target_cpu(),
                diagnostics: failure(&messages, &output),
            }),
        }
    }

    /// The inner cargo.
    fn command(&self, arch: NvvmArch, arguments: &[OsString], ptx: &Path) -> Command {
        // One for every file of PTX: rustc starts afresh where an option is another one.
        let mut incremental = OsString::from("-Cincremental=");
        incremental.push(ptx.with_extension("incremental"));
        let mut command = Command::new(&self.toolchain.cargo);
        let foreign = std::env::vars_os().map(|(name, _)| name);
        for name in foreign.filter(|name| name.to_str().is_some_and(is_foreign)) {
            command.env_remove(name);
        }
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC", &self.toolchain.rustc)
            // This one goes before every other source of flags.
            .env("CARGO_ENCODED_RUSTFLAGS", self.settings.rustflags())
            // For the other crates: what they have is compiled with the kernels.
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TERM_COLOR", "never")
            // A configured build folder would be the one that the outer cargo has locked.
            .env("CARGO_BUILD_BUILD_DIR", self.target_dir)
            .current_dir(self.kernels.manifest.parent().unwrap_or(Path::new(".")))
            .args(arguments)
            .args(["--", "--cfg=cuda_entries"])
            .arg(format!("-Ctarget-cpu={arch}"))
            .args([UNITS, "-Zno-link"])
            .arg(incremental)
            // By itself rustc inlines before LLVM does only where it does not compile incrementally.
            .args(self.settings.release.then_some("-Zinline-mir=yes"));
        if names_wrapper(&self.configurations()) {
            command.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
        }
        command
    }

    fn unusable(&self, reason: String) -> CudaBuilderError {
        CudaBuilderError::Tool {
            command: format!("{} rustc", self.toolchain.cargo.display()),
            reason,
        }
    }

    /// What went into the build that `messages` report.
    fn dependencies(&self, messages: &[Message]) -> Result<Dependencies, CudaBuilderError> {
        let read = |path: &Path| fs::read_to_string(path).map_err(CudaBuilderError::io("read", path));
        let profile = self.profile_dir();
        let library = &self.kernels.library;
        let mut dependencies = Dependencies::default();
        dependencies.add_sources(&read(&profile.join(library).with_extension("d"))?, self.target_dir);
        dependencies.add_variables(&read(&profile.join("deps").join(library).with_extension("d"))?);

        for artifact in messages.iter().filter_map(Message::artifact) {
            dependencies.packages.insert(artifact.package_name().to_owned());
            if self.is_local(artifact) {
                dependencies.files.insert(artifact.manifest.clone());
                dependencies.workspace.extend(workspace_of(&artifact.manifest));
            }
            if !artifact.manifest.starts_with(self.toolchain.sysroot()) {
                for dep_info in artifact.dep_info() {
                    dependencies.add_variables(&read(&dep_info)?);
                }
            }
        }
        for message in messages {
            if let Message::Script { out_dir, .. } = message {
                dependencies.add_script(&read(&printed_at(out_dir))?);
            }
        }
        for script in self.local_scripts(messages) {
            dependencies.files.extend(script.reads()?);
        }
        let workspace = ["Cargo.toml", "Cargo.lock"].map(|name| self.kernels.workspace.join(name));
        dependencies
            .workspace
            .extend(workspace.into_iter().filter(|path| path.is_file()));
        Ok(dependencies)
    }

    /// The build scripts of packages in the user's folders.
    fn local_scripts(&self, messages: &[Message]) -> impl Iterator<Item = Script> {
        messages.iter().filter_map(|message| {
            let Message::Script { package: of, out_dir } = message else {
                return None;
            };
            let is_its = |artifact: &&Artifact| artifact.package == *of && self.is_local(artifact);
            let mut artifacts = messages.iter().filter_map(Message::artifact);
            Some(Script::new(&artifacts.find(is_its)?.manifest, out_dir))
        })
    }

    /// Has cargo run those scripts again that it should have run. Whether there are any.
    fn outdate_scripts(&self, messages: &[Message]) -> Result<bool, CudaBuilderError> {
        let mut is_any = false;
        for script in self.local_scripts(messages) {
            is_any |= script.outdate()?;
        }
        Ok(is_any)
    }

    /// Whether a crate is in a folder of the user's, rather than from a registry or the toolchain.
    fn is_local(&self, artifact: &Artifact) -> bool {
        artifact.package.starts_with("path+file:") && !artifact.manifest.starts_with(self.toolchain.sysroot())
    }
}

/// What the marker says where the PTX at `ptx` was written last.
fn marker(ptx: &Path) -> Vec<u8> {
    let version = cache::own_source().to_le_bytes();
    [ptx.file_name().unwrap_or_default().as_encoded_bytes(), &version].concat()
}

/// Whether one of cargo's configuration files may name a wrapper of the compiler, which an empty variable switches off. With
/// such a variable cargo keeps nothing of what rustc has told it, and asks several times for each build.
fn names_wrapper(configurations: &[PathBuf]) -> bool {
    let names_one = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains("wrapper"));
    configurations.iter().any(names_one)
}

/// Whether a variable of the environment belongs to the outer build.
fn is_foreign(name: &str) -> bool {
    if name.starts_with("CARGO_") {
        return !INHERITED.iter().any(|kept| match kept.ends_with('_') {
            true => name.starts_with(kept),
            false => name == *kept,
        });
    }
    name.starts_with("DEP_") || name.starts_with("__CARGO_") || FOREIGN.contains(&name)
}

/// The assembly that rustc wrote for a crate, by cargo's message.
fn assembly_of(message: &Message) -> Option<PathBuf> {
    message.artifact()?.beside("s")
}

/// The rendered diagnostics of one level, without the lines that only count them.
fn rendered(messages: &[Message], level: &str) -> Vec<String> {
    let counts = |diagnostic: &Diagnostic| {
        let text = &diagnostic.message;
        diagnostic.is_placeless && (text.ends_with(" emitted") || text.starts_with("aborting due to "))
    };
    messages
        .iter()
        .filter_map(|message| match message {
            Message::Diagnostic(diagnostic) => Some(diagnostic),
            _ => None,
        })
        .filter(|diagnostic| diagnostic.level == level && !counts(diagnostic))
        .map(|diagnostic| diagnostic.rendered.trim_end().to_owned())
        .collect()
}

/// What the user is told of a failed build: rustc's errors or, where there are none (a dependency
/// that cannot be found, a compiler that died), what cargo wrote.
fn failure(messages: &[Message], output: &Output) -> String {
    let mut errors = rendered(messages, "error: internal compiler error");
    errors.extend(rendered(messages, "error"));
    if errors.is_empty() {
        return stderr_of(output);
    }
    // All other errors follow from this one, whose own advice is for who compiles std.
    if let Some(error) = errors.iter().find(|error| error.contains("can't find crate for `std`")) {
        return format!("{error}\n\n{NO_STD}");
    }
    errors.join("\n\n")
}

/// Whether one of `names` begins with the file's: they are what follows the slashes of a list of paths. Of the whole list, each
/// byte would be asked once for each unit.
fn is_named(file: &Path, names: &[&[u8]]) -> bool {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    names.iter().any(|other| other.starts_with(name))
}

/// Removes files, which another build may have removed.
fn remove_files(paths: &[PathBuf]) -> Result<(), CudaBuilderError> {
    paths.iter().try_for_each(|path| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CudaBuilderError::io("remove", path)(error)),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_and_settings_have_files_of_their_own() {
        let path = |version: &str, argument: &str, fmt_debug: bool| {
            let toolchain = Toolchain {
                cargo: "cargo".into(),
                rustc: "rustc".into(),
                sysroot: "/sysroot".into(),
                version: version.into(),
            };
            let kernels = Kernels {
                package: "k".into(),
                version: "0.1.0".into(),
                library: "k".into(),
                manifest: "/k/Cargo.toml".into(),
                workspace: "/k".into(),
                target_dir: "/k/target".into(),
            };
            let settings = Settings {
                release: true,
                debug: DebugInfo::None,
                fmt_debug,
                offline: false,
                locked: false,
                features: Vec::new(),
                default_features: true,
            };
            let compiler = Compiler {
                toolchain: &toolchain,
                kernels: &kernels,
                settings: &settings,
                target_dir: Path::new("/t"),
            };
            compiler.ptx_path(NvvmArch::Compute75, &[argument.into()])
        };
        let rustc = "rustc 1.95.0\ncommit-hash: 1";
        assert_eq!(path(rustc, "a", true), path(rustc, "a", true));
        assert_ne!(path(rustc, "a", true), path(rustc, "b", true));
        assert_ne!(path(rustc, "a", true), path(rustc, "a", false));
        assert_ne!(path(rustc, "a", true), path("rustc 1.95.0\ncommit-hash: 2", "a", true));
    }

    #[test]
    fn the_outer_build_stays_outside() {
        for name in [
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_HOMELY",
            "RUSTC_WORKSPACE_WRAPPER",
            "DEP_CUDA_ROOT",
        ] {
            assert!(is_foreign(name), "{name}");
        }
        for name in [
            "CARGO",
            "PATH",
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_REGISTRIES_X_INDEX",
            "CARGO_MAKEFLAGS",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(!is_foreign(name), "{name}");
        }
    }
}
