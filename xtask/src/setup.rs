// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask setup`: the source of `core`, which the device build compiles, in the sysroot.
//!
//! Nothing to do where it is already there. Else the ways are tried in turn: rustup's component,
//! Debian's package of exactly the compiler's version (by apt with state of its own, so that
//! nothing on the machine changes and root is not needed), an archive given by hand. The last
//! two unpack beside the place where the source belongs and rename the finished folder into it:
//! two set-ups at once, or one that is interrupted, leave nothing half-done.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{Workspace, output, stdout};

/// Where Debian has compilers newer than its stable release's own.
const DEBIAN_SUITE: &str = "trixie-backports";
/// What the suite is signed with; Debian's package `debian-archive-keyring` holds it.
const DEBIAN_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Makes sure that the pinned toolchain has the source of `core`; `archive` is the last resort.
pub fn ensure_core(workspace: &Workspace, archive: Option<&Path>) -> Result<()> {
    let sysroot = Sysroot::of(workspace)?;
    if sysroot.has_core() {
        return Ok(());
    }
    let mut failures = String::new();
    for way in [Way::Rustup, Way::Debian, Way::Archive] {
        let tried = match (way, archive) {
            (Way::Rustup, _) => rustup(workspace),
            (Way::Debian, _) => sysroot.install(|staging| {
                let scratch = workspace.target.join("tools");
                debian(&scratch, &sysroot.version, staging)
            }),
            (Way::Archive, Some(archive)) => sysroot.install(|staging| unpack_archive(archive, staging)),
            (Way::Archive, None) => continue,
        };
        match tried {
            Ok(()) if sysroot.has_core() => {
                println!("setup: the source of core came by {}", way.name());
                return Ok(());
            }
            Ok(()) => failures += &format!("\n- {}: it went to another toolchain", way.name()),
            Err(error) => failures += &format!("\n- {}: {error:#}", way.name()),
        }
    }
    bail!(
        "the source of core of Rust {} is wanted at {} and no way brought it there:{failures}",
        sysroot.version,
        sysroot.library().display()
    )
}

#[derive(Clone, Copy)]
enum Way {
    Rustup,
    Debian,
    Archive,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Rustup => "rustup component add rust-src",
            Way::Debian => "Debian's package rust-src",
            Way::Archive => "the archive of --core-source",
        }
    }
}

/// The toolchain's own folder, where its crates and their sources lie.
struct Sysroot {
    path: PathBuf,
    version: String,
}

impl Sysroot {
    /// The sysroot of the compiler that rust-toolchain.toml pins.
    fn of(workspace: &Workspace) -> Result<Self> {
        let path = stdout(workspace.command("rustc").args(["--print", "sysroot"]))?;
        let about = stdout(workspace.command("rustc").arg("--version"))?;
        let version = about
            .split_whitespace()
            .nth(1)
            .with_context(|| format!("`rustc --version` printed `{}`", about.trim()))?;
        Ok(Self {
            path: path.trim().into(),
            version: version.to_string(),
        })
    }

    /// The folder that holds the sources.
    fn source(&self) -> PathBuf {
        self.path.join("lib/rustlib/src/rust")
    }

    /// The folder with the standard library's crates, where cargo looks for them.
    fn library(&self) -> PathBuf {
        self.source().join("library")
    }

    fn has_core(&self) -> bool {
        self.library().join("core/src/lib.rs").is_file()
    }

    /// Has `fill` unpack a folder `library` beside its place, and moves it there.
    fn install(&self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let source = self.source();
        let unwritable = || {
            let source = source.display();
            format!("{source} cannot be written: run this command as the toolchain's owner")
        };
        fs::create_dir_all(&source).with_context(unwritable)?;
        let staging = tempfile::Builder::new()
            .prefix(".setup-")
            .tempdir_in(&source)
            .with_context(unwritable)?;
        fill(staging.path())?;
        let library = staging.path().join("library");
        ensure!(
            library.join("core/src/lib.rs").is_file(),
            "it has no library/core/src/lib.rs"
        );
        match fs::rename(&library, self.library()) {
            // Another set-up was quicker.
            Err(_) if self.has_core() => Ok(()),
            renamed => renamed.with_context(|| {
                let library = self.library();
                format!("{} is in the way and lacks core", library.display())
            }),
        }
    }
}

fn rustup(workspace: &Workspace) -> Result<()> {
    let mut rustup = workspace.command("rustup");
    output(rustup.args(["component", "add", "rust-src"])).map(drop)
}

fn unpack_archive(archive: &Path, staging: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("--no-same-owner").arg("-C").arg(staging);
    output(tar.arg("-xf").arg(archive)).map(drop)
}

/// The mirror of Debian's archive that the machine itself uses: the first source whose folder is named `debian`, as the
/// archive's is everywhere.
fn debian_mirror() -> Result<String> {
    let mut apt = Command::new("apt-get");
    let sources = stdout(apt.args(["--no-release-info", "indextargets", "--format", "$(REPO_URI)"]))?;
    let mirror = sources
        .lines()
        .find(|source| source.trim_end_matches('/').ends_with("/debian"));
    Ok(mirror.context("none of apt's sources is Debian's archive")?.to_string())
}

/// Takes the package of the compiler's version from Debian's archive, checked against Debian's
/// keys. `scratch` holds apt's lists and the package until it is unpacked.
fn debian(scratch: &Path, compiler: &str, staging: &Path) -> Result<()> {
    ensure!(
        Path::new(DEBIAN_KEYRING).is_file(),
        "{DEBIAN_KEYRING} is not there (package debian-archive-keyring)"
    );
    fs::create_dir_all(scratch)?;
    // Of its own for each run, so that two at once do not share apt's state.
    let scratch = tempfile::tempdir_in(scratch)?;
    let apt = Apt::new(scratch.path())?;
    apt.run("apt-get", &["update"])?;
    let listed = apt.run("apt-cache", &["madison", "rust-src"])?;
    let version = matching_version(&listed, compiler).with_context(|| {
        let found: Vec<_> = versions(&listed).collect();
        format!("{DEBIAN_SUITE} has {}, none of them of {compiler}", found.join(", "))
    })?;
    apt.run("apt-get", &["download", &format!("rust-src={version}")])?;
    let package = fs::read_dir(scratch.path())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no .deb file")?;
    unpack_debian(&package, compiler, staging)
}

/// Unpacks only the folder `library` out of `package`: all of it would be six times the bytes.
fn unpack_debian(package: &Path, version: &str, staging: &Path) -> Result<()> {
    let mut reader = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .context("`dpkg-deb` cannot be started")?;
    let packed = reader.stdout.take().context("dpkg-deb has no output")?;
    let mut tar = Command::new("tar");
    tar.arg("--no-same-owner").arg("-C").arg(staging);
    tar.args(["-x", "--strip-components=4"]).stdin(packed);
    tar.arg(format!("./usr/src/rustc-{version}/library"));
    let unpacked = output(&mut tar);
    let read = reader.wait()?;
    unpacked?;
    ensure!(read.success(), "dpkg-deb cannot read it: {read}");
    Ok(())
}

/// apt over one suite, with lists and cache in a folder of its own.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: &Path) -> Result<Self> {
        fs::write(
            folder.join("sources.list"),
            format!(
                "deb [signed-by={DEBIAN_KEYRING}] {} {DEBIAN_SUITE} main\n",
                debian_mirror()?
            ),
        )?;
        fs::create_dir_all(folder.join("lists/partial"))?;
        fs::create_dir_all(folder.join("cache/archives/partial"))?;
        let path = folder.display();
        // Given by -c, this is read after the machine's own settings, whose hooks after an
        // update would act on the machine's lists and caches.
        fs::write(
            folder.join("apt.conf"),
            format!(
                "#clear APT::Update::Post-Invoke;\n\
                 #clear APT::Update::Post-Invoke-Success;\n\
                 APT::Sandbox::User \"root\";\n\
                 Dir::Etc::SourceList \"{path}/sources.list\";\n\
                 Dir::Etc::SourceParts \"/dev/null\";\n\
                 Dir::State::Lists \"{path}/lists\";\n\
                 Dir::Cache \"{path}/cache\";\n"
            ),
        )?;
        Ok(Self {
            folder: folder.to_path_buf(),
        })
    }

    /// What `program` prints.
    fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).args(["-c", "apt.conf"]);
        stdout(command.args(args))
    }
}

/// The versions in what `apt-cache madison` lists, newest first.
fn versions(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| line.split('|').nth(1).map(str::trim))
}

/// The newest package of exactly the compiler's version: Debian adds `+dfsg…` or `-…` to it.
fn matching_version<'a>(listed: &'a str, compiler: &str) -> Option<&'a str> {
    versions(listed).find(|version| {
        version
            .strip_prefix(compiler)
            .is_some_and(|rest| rest.starts_with(['+', '-']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
  rust-src | 1.96.1+dfsg1-2~bpo13+1 | http://mirror trixie-backports/main amd64 Packages
  rust-src | 1.95.0+dfsg1-2~bpo13+1 | http://mirror trixie-backports/main amd64 Packages
  rust-src | 1.9.0-1 | http://mirror trixie-backports/main amd64 Packages
";

    fn sysroot(path: &Path) -> Sysroot {
        Sysroot {
            path: path.to_path_buf(),
            version: "1.95.0".into(),
        }
    }

    /// Unpacks nothing but the file that [`Sysroot::has_core`] looks for.
    fn fill(staging: &Path) -> Result<()> {
        fs::create_dir_all(staging.join("library/core/src"))?;
        Ok(fs::write(staging.join("library/core/src/lib.rs"), "")?)
    }

    #[test]
    fn picks_exactly_the_compilers_version() {
        assert_eq!(matching_version(LISTED, "1.95.0"), Some("1.95.0+dfsg1-2~bpo13+1"));
        assert_eq!(matching_version(LISTED, "1.9.0"), Some("1.9.0-1"));
        assert_eq!(matching_version(LISTED, "1.9"), None);
        assert_eq!(matching_version(LISTED, "1.97.0"), None);
    }

    #[test]
    fn installs_once_and_leaves_nothing_beside() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let sysroot = sysroot(folder.path());
        assert!(!sysroot.has_core());
        // The second finds the first one's work in the way, as two at once would.
        for _ in 0..2 {
            sysroot.install(fill)?;
            assert!(sysroot.has_core());
        }
        assert_eq!(fs::read_dir(sysroot.source())?.count(), 1);
        Ok(())
    }

    #[test]
    fn an_archive_without_core_installs_nothing() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let sysroot = sysroot(folder.path());
        let error = sysroot.install(|_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "it has no library/core/src/lib.rs");
        assert_eq!(fs::read_dir(sysroot.source())?.count(), 0);
        Ok(())
    }

    #[test]
    fn a_folder_in_the_way_is_named() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let sysroot = sysroot(folder.path());
        fs::create_dir_all(sysroot.library().join("std"))?;
        let error = sysroot.install(fill).unwrap_err();
        assert!(error.to_string().ends_with("is in the way and lacks core"));
        Ok(())
    }
}
