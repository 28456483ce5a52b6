// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernels crate for one test, and what builds it.

use cuda_builder::{CudaBuilder, CudaBuilderError, PtxFile};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;
use std::time::{Duration, SystemTime};

/// A copy of the fixture, and a folder for what comes out, for one test alone.
pub(crate) struct Fixture {
    pub(crate) root: PathBuf,
}

impl Fixture {
    pub(crate) fn new(test: &str) -> Self {
        static PREPARE: Once = Once::new();
        PREPARE.call_once(|| {
            // Below a file there are no folders, so there is no cache.
            fs::create_dir_all(scratch()).unwrap();
            fs::write(scratch().join("file"), "").unwrap();
            // SAFETY: nothing in this process reads the environment but by way of `std`, which guards it.
            unsafe {
                std::env::set_var("XDG_CACHE_HOME", scratch().join("file"));
                std::env::remove_var("WARPSMITH_SIM_ONLY");
                // What cargo gives the tests of a package that has a build script.
                std::env::remove_var("OUT_DIR");
            }
            share_core();
        });
        let root = scratch().join(test);
        let _ = fs::remove_dir_all(&root);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixture");
        for file in [
            "kernels/Cargo.toml",
            "kernels/src/lib.rs",
            "kernels/src/reduce.rs",
            "device_lib/Cargo.toml",
            "device_lib/src/lib.rs",
        ] {
            let copy = root.join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(source.join(file), copy).unwrap();
        }
        Self { root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(String) -> String) {
        let path = self.path(name);
        fs::write(&path, edit(fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// Writes a file, with the folders that it is in.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Gives a file the time of an hour ago, as what is copied with its times has, or unpacked, or what was moved.
    pub(crate) fn make_old(&self, name: &str) {
        let file = fs::File::options().append(true).open(self.path(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
    }

    /// A builder whose target folder all tests share.
    pub(crate) fn builder(&self) -> CudaBuilder {
        CudaBuilder::new(self.path("kernels"))
            .copy_to(self.path("out"))
            .target_dir(scratch().join("outer/cuda_builder"))
    }

    pub(crate) fn build(&self) -> Result<Vec<PtxFile>, CudaBuilderError> {
        self.builder().build()
    }

    /// Where a build script of cargo's writes.
    pub(crate) fn out_dir(&self) -> PathBuf {
        scratch().join(format!(
            "outer/debug/build/{}-0123456789abcdef/out",
            self.root.file_name().unwrap().display()
        ))
    }

    /// What the build script wrote for `warpsmith::kernels!`.
    pub(crate) fn expression(&self) -> String {
        fs::read_to_string(self.out_dir().join("fixture_kernels.ptx.rs")).unwrap()
    }

    /// Runs the test `as_a_build_script` as cargo runs a build script.
    pub(crate) fn run_build_script(&self, configure: impl FnOnce(&mut Command)) -> Output {
        let mut command = self.build_script();
        configure(&mut command);
        command.output().unwrap()
    }

    pub(crate) fn build_script(&self) -> Command {
        let out_dir = self.out_dir();
        fs::create_dir_all(&out_dir).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "--nocapture", "as_a_build_script"])
            .env("FIXTURE", self.path("kernels"))
            .env("OUT_DIR", out_dir)
            .env_remove("WARPSMITH_SIM_ONLY")
            .env_remove("CI")
            // What cargo and clippy set must not reach the inner cargo.
            .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}of_the_host")
            .env("RUSTC_WORKSPACE_WRAPPER", "/no/such/clippy-driver")
            .env("CARGO_TARGET_DIR", "/no/such/target")
            .env("CARGO_PROFILE_RELEASE_PANIC", "unwind");
        command
    }
}

/// The expression of a crate without device code.
pub(crate) const NO_MODULE: &str = "(\"fixture-kernels\", \"0.1.0\", &[\n])\n";

pub(crate) fn scratch() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_builder")
}

/// Makes the tests' folder for device code the workspace's, which has `core`, where a file system has links.
pub(crate) fn share_core() {
    #[cfg(unix)]
    {
        let workspace = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda_builder");
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(scratch().join("outer")).unwrap();
        let link = scratch().join("outer/cuda_builder");
        // One that was made before the workspace was moved or copied shows elsewhere. A folder stays.
        if fs::read_link(&link).is_ok_and(|to| to != workspace) {
            fs::remove_file(&link).unwrap();
        }
        let _ = std::os::unix::fs::symlink(workspace, link);
    }
}

/// A build script with a cache, and a cargo that counts how often it compiles.
#[cfg(unix)]
pub(crate) struct Cached {
    pub(crate) fixture: Fixture,
    pub(crate) cargo: PathBuf,
    pub(crate) cache: PathBuf,
    /// Whether it builds for the first of two architectures alone.
    pub(crate) one_arch: bool,
}

#[cfg(unix)]
impl Cached {
    pub(crate) fn new(test: &str, cache: &Path) -> Self {
        use std::os::unix::fs::PermissionsExt;

        let fixture = Fixture::new(test);
        // A lock file that is made during a build keeps it out of the cache.
        let lock = "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\nversion = 4\n\n[[package]]\nname = \"device_lib\"\nversion = \"0.1.0\"\n\n\
                    [[package]]\nname = \"fixture-kernels\"\nversion = \"0.1.0\"\ndependencies = [\n \"device_lib\",\n]\n";
        fs::write(fixture.path("kernels/Cargo.lock"), lock).unwrap();
        let cargo = fixture.path("cargo");
        let real = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let log = fixture.path("log").display().to_string();
        fs::write(&cargo, format!("#!/bin/sh\necho $1 >> '{log}'\nexec '{real}' \"$@\"\n")).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let cache = cache.to_owned();
        let one_arch = false;
        Self {
            fixture,
            cargo,
            cache,
            one_arch,
        }
    }

    /// Builds, and says how often the compiler ran, and what the build script printed.
    pub(crate) fn build(&self, configure: impl FnOnce(&mut Command)) -> (usize, String) {
        let _ = fs::remove_file(self.fixture.path("log"));
        let output = self.run(configure);
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{stdout}");
        (self.runs(), stdout)
    }

    pub(crate) fn run(&self, configure: impl FnOnce(&mut Command)) -> Output {
        self.fixture.run_build_script(|command| {
            command.env("CARGO", &self.cargo).env("XDG_CACHE_HOME", &self.cache);
            if self.one_arch {
                command.env("FIXTURE_ONE_ARCH", "1");
            }
            configure(command);
        })
    }

    /// How often the compiler ran since the log was removed.
    pub(crate) fn runs(&self) -> usize {
        let log = fs::read_to_string(self.fixture.path("log")).unwrap();
        log.lines().filter(|line| *line == "rustc").count()
    }

    pub(crate) fn compiles(&self) -> usize {
        self.build(|_| ()).0
    }

    /// The files that the build script has written, without their paths.
    pub(crate) fn written(&self) -> Vec<(String, Vec<u8>)> {
        let name = self.fixture.root.file_name().unwrap().display();
        let out = scratch().join(format!(
            "outer/debug/build/{name}-0123456789abcdef/out/fixture-kernels.ptx.d"
        ));
        let files = fs::read_dir(out).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = files
            .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
            .collect();
        files.sort();
        files
    }
}
