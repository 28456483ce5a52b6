// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a workspace's Cargo.toml and Cargo.lock say that a kernels crate is made by.
//!
//! Both are about all members. Of the lock file the packages count that the crate is made from, and of the manifest what
//! is not about the package that it may also be of, or about profiles that no kernels crate is built with: that package's
//! dependencies and tests change often, and no PTX. Of what cannot be told apart all counts.

use std::collections::BTreeSet;
use std::path::Path;

/// The tables of a manifest that no other member is built by.
const OF_ITS_PACKAGE: [&str; 14] = [
    "package",
    "lib",
    "bin",
    "example",
    "test",
    "bench",
    "features",
    "dependencies",
    "dev-dependencies",
    "build-dependencies",
    "target",
    "profile.dev",
    "profile.test",
    "profile.bench",
];

/// The lines of the file at `path` with this text that decide of a crate that is made from `packages`.
pub(crate) fn decisive(path: &Path, text: &str, packages: &BTreeSet<String>) -> String {
    match path.extension().is_some_and(|extension| extension == "lock") {
        true => of_packages(text, packages),
        false => of_members(text),
    }
}

/// A lock file without the packages of other names. A package's dependencies stand beside it by name, and by version
/// where there are several: so what is left says which of each is taken.
fn of_packages(lock: &str, packages: &BTreeSet<String>) -> String {
    let is_other = |table: &&str| {
        let mut lines = table.lines();
        let name = lines.find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        table.starts_with("[[package]]") && name.is_some_and(|name| !packages.contains(name))
    };
    joined(tables(lock).filter(|table| !is_other(table)))
}

/// A manifest without the tables that are about its package alone.
fn of_members(manifest: &str) -> String {
    // A string of several lines may have one that looks like a table's.
    if manifest.contains("\"\"\"") || manifest.contains("'''") {
        return manifest.to_owned();
    }
    let is_of_its_package = |table: &&str| {
        let header = table.lines().next().and_then(header).unwrap_or_default();
        OF_ITS_PACKAGE.iter().any(|name| {
            let rest = header.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    joined(tables(manifest).filter(|table| !is_of_its_package(table)))
}

/// The text, cut before each line that begins with a bracket. A part of an array may be cut off so too, and is then no
/// table of a known name.
fn tables(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (table, tail) = match text.find("\n[") {
            Some(end) => (&text[..end], Some(&text[end + 1..])),
            None => (text, None),
        };
        rest = tail;
        Some(table)
    })
}

/// The tables, without what is empty between them: which of them was the last, as no other stood behind it, says nothing.
fn joined<'a>(tables: impl Iterator<Item = &'a str>) -> String {
    tables.flat_map(|table| [table.trim_end(), "\n"]).collect()
}

/// The name in a line `[name]` or `[[name]]`, behind which there may be a comment.
fn header(line: &str) -> Option<&str> {
    let (name, tail) = line.strip_prefix('[')?.trim_start_matches('[').split_once(']')?;
    let tail = tail.trim_start_matches(']').trim_start();
    (tail.is_empty() || tail.starts_with('#')).then(|| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "# generated\nversion = 4\n\n\
        [[package]]\nname = \"half\"\nversion = \"2.7.1\"\nchecksum = \"1\"\n\n\
        [[package]]\nname = \"image\"\nversion = \"0.25.0\"\ndependencies = [\n \"half\",\n]\n\n\
        [[package]]\nname = \"kernels\"\nversion = \"0.1.0\"\ndependencies = [\n \"half\",\n]\n";

    fn lock(text: &str) -> String {
        let packages = ["half", "kernels", "core"].map(str::to_owned).into();
        decisive(Path::new("/w/Cargo.lock"), text, &packages)
    }

    fn manifest(text: &str) -> String {
        decisive(Path::new("/w/Cargo.toml"), text, &BTreeSet::new())
    }

    #[test]
    fn of_a_lock_file_the_packages_that_went_in_count() {
        let expected = "# generated\nversion = 4\n\
            [[package]]\nname = \"half\"\nversion = \"2.7.1\"\nchecksum = \"1\"\n\
            [[package]]\nname = \"kernels\"\nversion = \"0.1.0\"\ndependencies = [\n \"half\",\n]\n";
        assert_eq!(lock(LOCK), expected);
        assert_eq!(
            lock(&format!("{LOCK}\n[[package]]\nname = \"zip\"\nversion = \"6.0.0\"\n")),
            expected
        );
        assert_eq!(lock(&LOCK.replace("0.25.0", "0.25.1")), expected);
        for (from, to) in [
            ("2.7.1", "2.7.2"),
            ("checksum = \"1\"", "checksum = \"2\""),
            ("version = 4", "version = 5"),
            // A second one: kernels is made from one of them, which it says.
            ("name = \"image\"", "name = \"half\""),
        ] {
            assert_ne!(lock(&LOCK.replace(from, to)), expected, "{to}");
        }
        assert_ne!(lock(&format!("{LOCK}\n[[patch.unused]]\nname = \"image\"\n")), expected);
    }

    #[test]
    fn of_a_manifest_what_is_about_its_package_does_not_count() {
        let root = "[workspace]\nmembers = [\n\"kernels\",\n]\n\n[package] # the root\nname = \"root\"\n\n\
            [package.metadata.docs.rs]\nfeatures = [\"a\"]\n\n[[test]]\nname = \"suite\"\n\n[dependencies]\nimage = \"0.25\"\n\n\
            [ dev-dependencies.criterion ]\nversion = \"1\"\n\n[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n\n\
            [profile.dev.package.image]\nopt-level = 2\n\n[profile.release]\nopt-level = 2\n";
        let expected = "[workspace]\nmembers = [\n\"kernels\",\n]\n[profile.release]\nopt-level = 2\n";
        assert_eq!(manifest(root), expected);
        for kept in [
            "[workspace.dependencies]\nhalf = \"2\"\n",
            "[patch.crates-io]\nhalf = { path = \"half\" }\n",
            "[packages]\n",
            "package.name = \"root\"\n",
            // The second line is no table's: what it is in began before.
            "[workspace]\nabout = \"\"\"\n[package]\nedition\"\"\"\n",
            "[workspace]\nabout = '''\n[package]\nedition'''\n",
        ] {
            assert_eq!(manifest(kept), kept);
        }
    }
}
