// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a build was made from, so that cargo reruns the build script when any of it changes.
//!
//! rustc and cargo both leave dep-info files (Makefile rules) beside what they build. Cargo's, for
//! the kernels crate, names every source of that crate and of the path dependencies below it,
//! build scripts' own inputs included, with absolute paths. rustc's, one for each crate, also tell
//! which environment variables were read (`env!`, `option_env!`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files and variables that the build script is to be rerun for.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Dependencies {
    /// Absolute paths, of files and of folders that count with all that is in them.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Absolute paths of the files that are about all of a workspace, of which what is about `packages` counts.
    pub(crate) workspace: BTreeSet<PathBuf>,
    /// Names of the packages that went in.
    pub(crate) packages: BTreeSet<String>,
    /// Names of environment variables.
    pub(crate) variables: BTreeSet<String>,
}

impl Dependencies {
    /// Adds the sources that cargo's dep-info names, but for those below `generated`: what was
    /// made during the build is no input of it.
    pub(crate) fn add_sources(&mut self, dep_info: &str, generated: &Path) {
        self.files.extend(
            prerequisites(dep_info)
                .map(PathBuf::from)
                .filter(|path| !path.starts_with(generated)),
        );
    }

    /// Adds the environment variables that rustc's dep-info names, but for those that the inner
    /// cargo sets itself.
    pub(crate) fn add_variables(&mut self, dep_info: &str) {
        let names = dep_info
            .lines()
            .filter_map(|line| line.strip_prefix("# env-dep:"))
            .map(|variable| variable.split('=').next().unwrap_or(variable))
            .filter(|name| !name.starts_with("CARGO") && *name != "OUT_DIR");
        self.variables.extend(names.map(String::from));
    }

    /// Adds the environment variables that a build script said it read, but for the one that the inner cargo is given.
    pub(crate) fn add_script(&mut self, printed: &str) {
        let names = instructions(printed).filter_map(|instruction| instruction.strip_prefix("rerun-if-env-changed="));
        let names = names.filter(|name| *name != "RUSTC_BOOTSTRAP");
        self.variables.extend(names.map(String::from));
    }

    /// Adds all that `other` has.
    pub(crate) fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.workspace.extend(other.workspace);
        self.packages.extend(other.packages);
        self.variables.extend(other.variables);
    }

    /// Every file and folder, whether all of it counts or a part.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.union(&self.workspace)
    }

    /// The lines by which a build script tells cargo.
    pub(crate) fn cargo_lines(&self) -> impl Iterator<Item = String> {
        // Of a folder cargo looks at all that is in it.
        let paths = self.all_files().flat_map(|path| match entries(path) {
            Ok((entries, true)) => entries,
            _ => vec![path.clone()],
        });
        let files = paths.map(|path| format!("cargo::rerun-if-changed={}", path.display()));
        let variables = self
            .variables
            .iter()
            .map(|name| format!("cargo::rerun-if-env-changed={name}"));
        files.chain(variables)
    }
}

/// What a build script has told cargo, line by line.
pub(crate) fn instructions(printed: &str) -> impl Iterator<Item = &str> {
    let lines = printed.lines();
    lines.filter_map(|line| line.strip_prefix("cargo::").or_else(|| line.strip_prefix("cargo:")))
}

/// The file at `path`, or all files in the folder there, in order.
pub(crate) fn files_at(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in entries(path)?.0 {
        files.extend(files_at(&entry)?);
    }
    Ok(files)
}

/// What is in a folder, in order, and whether something was left out: cargo's target folders, which say that they are
/// caches, what git keeps, and links to a folder around this one.
fn entries(folder: &Path) -> io::Result<(Vec<PathBuf>, bool)> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    let all = entries.len();
    let folder = folder.canonicalize()?;
    entries.retain(|path| {
        let is_around = path.is_symlink() && path.canonicalize().is_ok_and(|path| folder.starts_with(path));
        !path.ends_with(".git") && !path.join("CACHEDIR.TAG").is_file() && !is_around
    });
    entries.sort();
    let is_part = entries.len() < all;
    Ok((entries, is_part))
}

/// The files on the right-hand side of all rules, where `\ ` stands for a space.
fn prerequisites(dep_info: &str) -> impl Iterator<Item = String> {
    dep_info
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(_target, list)| {
            let mut names: Vec<String> = Vec::new();
            let mut continued = false;
            for word in list.split(' ') {
                let (word, more) = match word.strip_suffix('\\') {
                    Some(start) => (start, true),
                    None => (word, false),
                };
                match names.last_mut() {
                    Some(name) if continued => {
                        name.push(' ');
                        name.push_str(word);
                    }
                    _ => names.push(word.to_owned()),
                }
                continued = more;
            }
            names.retain(|name| !name.is_empty());
            names
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_those_of_every_rule_outside_the_generated_folder() {
        let mut dependencies = Dependencies::default();
        dependencies.add_sources(
            "/t/k.ptx: /w/k/src/lib.rs /w/my\\ std/src/lib.rs /t/build/x/out/gen.rs\n\
             /t/k.d: /w/k/src/add.rs\n\n/w/k/src/lib.rs:\n",
            Path::new("/t"),
        );
        let expected = ["/w/k/src/add.rs", "/w/k/src/lib.rs", "/w/my std/src/lib.rs"];
        assert_eq!(dependencies.files, expected.map(PathBuf::from).into());
    }

    #[test]
    fn build_scripts_name_variables() {
        let mut dependencies = Dependencies::default();
        dependencies
            .add_script("cargo:rerun-if-env-changed=A\ncargo::rerun-if-env-changed=B\ncargo::rerun-if-changed=C\nD\n");
        assert_eq!(dependencies.variables, ["A", "B"].map(String::from).into());
    }

    #[test]
    fn variables_are_those_read_but_not_set_by_cargo() {
        let mut dependencies = Dependencies::default();
        dependencies.add_variables(
            "k.d: src/lib.rs\n# env-dep:TILE=16\n# env-dep:UNSET\n# env-dep:CARGO_PKG_NAME=k\n\
             # env-dep:OUT_DIR=/t\n",
        );
        let lines: Vec<_> = dependencies.cargo_lines().collect();
        assert_eq!(
            lines,
            ["cargo::rerun-if-env-changed=TILE", "cargo::rerun-if-env-changed=UNSET"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn of_a_folder_all_counts_but_what_is_built_and_what_is_around_it() {
        let folder = std::env::temp_dir().join(format!("cuda_builder-deps-{}", std::process::id()));
        for file in [
            "b/target/CACHEDIR.TAG",
            "b/target/x",
            "b/.git/x",
            "b/src/x",
            "a",
            "b/.x",
        ] {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        std::os::unix::fs::symlink(&folder, folder.join("b/around")).unwrap();
        let paths = |names: &[&str]| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        assert_eq!(files_at(&folder).unwrap(), paths(&["a", "b/.x", "b/src/x"]));
        assert_eq!(files_at(&folder.join("a")).unwrap(), paths(&["a"]));
        // Cargo would look at all that is in b.
        let lines = |name: &str| -> Vec<String> {
            let files = [folder.join(name)].into();
            let dependencies = Dependencies {
                files,
                ..Dependencies::default()
            };
            dependencies.cargo_lines().collect()
        };
        let line = |path: PathBuf| format!("cargo::rerun-if-changed={}", path.display());
        assert_eq!(
            lines("b"),
            paths(&["b/.x", "b/src"]).into_iter().map(line).collect::<Vec<_>>()
        );
        assert_eq!(
            lines("b/src"),
            paths(&["b/src"]).into_iter().map(line).collect::<Vec<_>>()
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
