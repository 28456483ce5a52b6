// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask package --try-out`: projects elsewhere that depend on the packages, in an empty folder, with ordinary
//! cargo.
//!
//! crates.io is replaced by a folder of vendored crates, in which the packages lie unpacked: nothing comes from the
//! network, and nothing from this checkout. No variable is set that the library or CUDA knows, but for the one that
//! `cust_raw` wants.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::new;
use crate::package::{Packages, write};
use crate::workspace::{CI, Workspace, output, run, stdout};

/// Variables that go to no project, but for those of rustup and the ones that cargo finds its home by.
const FOREIGN: [&str; 5] = ["CARGO", "CUDA", "RUSTC", "RUSTFLAGS", "WARPSMITH"];

/// A folder outside the checkout where cargo knows the packages.
struct Outside<'a> {
    workspace: &'a Workspace,
    folder: &'a Path,
}

/// Builds and runs what a newcomer would.
pub fn try_out(workspace: &Workspace, made: &Packages) -> Result<()> {
    let registry = registry(workspace, made)?;
    let folder = tempfile::tempdir()?;
    let config = format!(
        "[source.crates-io]\nreplace-with = \"made\"\n[source.made]\ndirectory = {registry:?}\n[net]\noffline = true\n"
    );
    write(&folder.path().join(".cargo/config.toml"), config.as_bytes())?;
    let outside = Outside {
        workspace,
        folder: folder.path(),
    };
    outside.first_program()?;
    outside.own_kernels()?;
    outside.default_features()
}

/// A folder with the packages and all that they depend on, the source of `core` included, as cargo takes it for a
/// registry.
fn registry(workspace: &Workspace, made: &Packages) -> Result<PathBuf> {
    let registry = made.folder.join("registry");
    let sysroot = stdout(workspace.command("rustc").args(["--print", "sysroot"]))?;
    let core = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.toml");
    let mut vendor = workspace.cargo();
    vendor.args(["vendor", "--quiet", "--locked", "--versioned-dirs"]);
    // What its lock file names is wanted for kernels of one's own. Its manifest has what only this variable allows.
    vendor.env("RUSTC_BOOTSTRAP", "1");
    output(vendor.arg("--sync").arg(core).arg(&registry))?;
    for package in &made.packages {
        let folder = registry.join(package.full_name());
        fs::rename(made.unpacked().join(package.full_name()), &folder)?;
        let sum = stdout(Command::new("sha256sum").arg(made.archive(package)))?;
        let sum = sum.split_whitespace().next().context("sha256sum printed nothing")?;
        let checksums = json!({"files": {}, "package": sum});
        fs::write(folder.join(".cargo-checksum.json"), checksums.to_string())?;
    }
    Ok(registry)
}

impl Outside<'_> {
    /// README's program, from `cargo init` to its output. Nothing is compiled for GPUs.
    fn first_program(&self) -> Result<()> {
        let (start, busy) = (Instant::now(), processor_seconds()?);
        fs::create_dir(self.folder.join("first"))?;
        run(self.cargo("first").args(["init", "--quiet"]))?;
        run(self
            .cargo("first")
            .args(["add", "--quiet", "warpsmith", "--no-default-features"]))?;
        let readme = fs::read_to_string(self.workspace.root.join("README.md"))?;
        fs::write(self.folder.join("first/src/main.rs"), program_of(&readme)?)?;
        let printed = stdout(self.cargo("first").args(["run", "--quiet"]))?;
        let spent = processor_seconds()? - busy;
        println!(
            "README's program: {} after {:.1} s, {spent:.1} s of processor time",
            printed.trim(),
            start.elapsed().as_secs_f64()
        );

        let numbers: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(
            matches!(numbers[..], [mean, max] if (mean - 1.5).abs() < 1e-3 && max == 4.0),
            "README's program printed {printed}"
        );
        for left in [self.cache(), self.target().join("cuda_builder")] {
            ensure!(!left.exists(), "{} exists: device code was built", left.display());
        }
        Ok(())
    }

    /// What `warpsmith new` writes.
    fn own_kernels(&self) -> Result<()> {
        let (start, busy) = (Instant::now(), processor_seconds()?);
        new::create(&self.folder.join("hello"), |_| {
            format!("version = {:?}", env!("CARGO_PKG_VERSION"))
        })?;
        let printed = stdout(self.cargo("hello").args(["run", "--quiet"]))?;
        ensure!(
            printed.trim_end().ends_with("[1, 1.5, 2, 2.5, 3]"),
            "the new project printed {printed}"
        );
        let first = start.elapsed().as_secs_f64();
        output(self.cargo("hello").args(["test", "--quiet"]))?;
        let spent = processor_seconds()? - busy;
        println!(
            "a new project: {} after {first:.1} s, tested after {:.1} s, {spent:.1} s of processor time",
            printed.trim(),
            start.elapsed().as_secs_f64()
        );
        self.race_in_own_kernels()
    }

    /// The new project's test, as it is, finds a data race in its kernel, whose results are right all the same.
    fn race_in_own_kernels(&self) -> Result<()> {
        let source = self.folder.join("hello/kernels/src/lib.rs");
        let right = fs::read_to_string(&source)?;
        let (set, wrong) = (
            "out.set(i,",
            "let _neighbour = out.get((i + 1) % out.len());\n        out.set(i,",
        );
        ensure!(right.contains(set), "{} has no `{set}`", source.display());
        fs::write(&source, right.replacen(set, wrong, 1))?;
        let test = self.cargo("hello").args(["test", "--quiet"]).output()?;
        let said = String::from_utf8_lossy(&test.stdout);
        ensure!(
            !test.status.success() && said.contains("data race on element"),
            "a kernel that reads what its neighbour writes was tested: {}, {said}",
            test.status
        );
        println!("a new project's test finds a data race in its kernel");
        Ok(())
    }

    /// The library with `cust`, whose build script is shown the empty libcuda that cuda_driver has; then its page, as
    /// docs.rs makes it.
    fn default_features(&self) -> Result<()> {
        let mut cargo = self.cargo("first");
        run(cargo.args(["add", "--quiet", "warpsmith", "--features", "default"]))?;
        let mut cargo = self.cargo("first");
        cargo.env("CUDA_LIBRARY_PATH", self.workspace.root.join("crates/cuda_driver/link"));
        run(cargo.args(["check", "--quiet"]))?;
        println!("with the default features: builds");

        let mut cargo = self.cargo("first");
        cargo.args(["doc", "--quiet", "--no-deps", "--package", "warpsmith"]);
        run(cargo.args(docs_rs_arguments(self.workspace)?))?;
        ensure!(
            self.target().join("doc/warpsmith/struct.DeviceArray.html").is_file(),
            "`cargo doc` has left no page of DeviceArray"
        );
        println!("documentation: builds");
        Ok(())
    }

    /// cargo in the project `name`.
    fn cargo(&self, name: &str) -> Command {
        let mut cargo = self.workspace.cargo();
        let is_foreign =
            |variable: &str| variable != "CARGO_HOME" && FOREIGN.iter().any(|foreign| variable.starts_with(foreign));
        for (variable, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_foreign)) {
            cargo.env_remove(variable);
        }
        // One folder for all of them: what they have in common is built once.
        cargo
            .env("CARGO_TARGET_DIR", self.target())
            .env("XDG_CACHE_HOME", self.cache());
        // CI asks whether it builds and what it prints, not how long a newcomer waits for it.
        if env::var_os(CI).is_some() {
            cargo.env("CARGO_PROFILE_DEV_DEBUG", "false");
        }
        cargo.current_dir(self.folder.join(name));
        cargo
    }

    fn target(&self) -> PathBuf {
        self.folder.join("target")
    }

    /// Where cuda_builder would keep what it builds.
    fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }
}

/// What the library's manifest has docs.rs say to cargo.
fn docs_rs_arguments(workspace: &Workspace) -> Result<Vec<String>> {
    let packages = workspace.packages()?;
    let mut library = packages.iter().filter(|package| package["name"] == "warpsmith");
    let library = library.next().context("cargo metadata has no warpsmith")?;
    let arguments = library["metadata"]["docs"]["rs"]["cargo-args"].clone();
    serde_json::from_value(arguments).context("cargo-args for docs.rs")
}

/// The first program in README.md.
fn program_of(readme: &str) -> Result<&str> {
    let blocks = readme.split("```").skip(1).step_by(2);
    let mut programs =
        blocks.filter_map(|block| block.strip_prefix("rust\n").filter(|code| code.contains("fn main()")));
    programs.next().context("README.md has no program")
}

/// What the processes that this one has waited for took, by proc(5)'s `cutime` and `cstime`.
fn processor_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The program's name, in parentheses, may have blanks.
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_program_is_found() {
        let readme = "a\n```toml\nb\n```\n```rust\nuse c;\n```\n```rust\nfn main() {}\n```\n";
        assert_eq!(program_of(readme).unwrap(), "fn main() {}\n");
        assert!(program_of("```rust\nfn other() {}\n```").is_err());
    }

    #[test]
    fn processes_take_time() -> Result<()> {
        let before = processor_seconds()?;
        output(Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]))?;
        assert!(processor_seconds()? > before);
        Ok(())
    }
}
