// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files above a package that cargo builds it by: its configuration, and the manifest of the workspace.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cache;

/// Cargo's configuration files that apply in `folder`, with those that they include. The order is the same in every clone.
pub(crate) fn configurations(folder: &Path) -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let folders = folder.ancestors().map(|folder| folder.join(".cargo")).chain(home);
    let mut rest: VecDeque<_> = folders
        .flat_map(|folder| ["config.toml", "config"].map(|name| folder.join(name)))
        .collect();
    let mut files = Vec::new();
    while let Some(file) = rest.pop_front() {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if !files.contains(&file) {
            // What is included has to be named so. A string that only looks like it does no harm.
            let names = text.split(['"', '\'']).filter(|string| string.ends_with(".toml"));
            rest.extend(names.map(|name| file.with_file_name(name)));
            files.push(file);
        }
    }
    files
}

/// The Cargo.toml of the workspace that a package with this manifest takes something from: that which it names, else the nearest
/// in a folder above.
pub(crate) fn workspace_of(manifest: &Path) -> Option<PathBuf> {
    let mentions = |file: &Path, what: &str| fs::read_to_string(file).is_ok_and(|text| text.contains(what));
    let text = fs::read_to_string(manifest).unwrap_or_default();
    if text.contains("[workspace") || !text.contains("workspace") {
        return None;
    }
    if let Some(folder) = named_workspace(&text) {
        let file = cache::joined(manifest.parent()?, Path::new(folder)).join("Cargo.toml");
        return file.is_file().then_some(file);
    }
    let mut above = manifest.ancestors().skip(2).map(|folder| folder.join("Cargo.toml"));
    above.find(|file| mentions(file, "[workspace"))
}

/// The folder that a manifest names by `package.workspace`: `workspace = true` is a dependency's.
fn named_workspace(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        let (quote, value) = value.trim_start().split_at_checked(1)?;
        let is_named = matches!(name.trim(), "workspace" | "package.workspace") && matches!(quote, "\"" | "'");
        is_named.then(|| value.split(quote).next())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_may_name_its_workspace() {
        for (manifest, named) in [
            (
                "[package]\nname = \"k\"\nworkspace = \"../root\" # there\n",
                Some("../root"),
            ),
            ("package.workspace='../a b'\n", Some("../a b")),
            ("[package]\nedition.workspace = true\n", None),
            (
                "[dependencies.half]\nworkspace = true\n\n[lints]\nworkspace=true\n",
                None,
            ),
            (
                "[dependencies.half]\nworkspace = true\n\n[package]\nworkspace = \"/root\"\n",
                Some("/root"),
            ),
        ] {
            assert_eq!(named_workspace(manifest), named, "{manifest}");
        }
    }
}
