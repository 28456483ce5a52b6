// SPDX-License-Identifier: MIT OR Apache-2.0

//! mdBook itself: one that is there, or else one that cargo builds, once for all checkouts of a user.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::{Workspace, output, stdout};

/// The mdBook that the book is written for.
const VERSION: &str = "0.5.4";

/// The program that the variable MDBOOK names; else one of the version on the PATH; else cargo builds it, and it is kept in
/// the user's cache folder.
pub fn program(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(path) = env::var_os("MDBOOK") {
        check_version(&path).context("MDBOOK names no working mdbook")?;
        return Ok(path.into());
    }
    if check_version(&OsString::from("mdbook")).is_ok() {
        return Ok("mdbook".into());
    }
    let rustc = stdout(workspace.command("rustc").arg("--version"))?;
    let folder = folder(&rustc, |name| env::var_os(name))
        .unwrap_or_else(|| workspace.target.join("tools").join(format!("mdbook-{VERSION}")));
    let program = folder.join("bin/mdbook");
    if !program.is_file() {
        println!("guide: building mdbook {VERSION} (crates.io), once");
        install(workspace, &folder)?;
    }
    Ok(program)
}

/// Where in the user's cache folder the program is, if there is such a folder: that of XDG's base directories. One that was
/// built by another rustc may want libraries that have gone with it.
fn folder(rustc: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    let rustc = rustc.split_whitespace().nth(1).unwrap_or("unknown");
    Some(caches.join("warpsmith").join(format!("mdbook-{VERSION}-rustc-{rustc}")))
}

/// Builds the program without what only servers of books need, and unoptimised, since it reads a book of some pages; then puts it
/// there whole, so that who looks meanwhile finds it or does not.
fn install(workspace: &Workspace, folder: &Path) -> Result<()> {
    let parent = folder.parent().context("a folder for mdbook has no parent")?;
    fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    let build = tempfile::tempdir_in(parent)?;
    let root = build.path().join("root");
    let mut install = workspace.cargo();
    install.args([
        "install",
        "mdbook",
        "--quiet",
        "--locked",
        "--no-default-features",
        "--debug",
    ]);
    install.args(["--config", "profile.dev.debug=false"]);
    install.args(["--version", VERSION, "--root"]).arg(&root);
    output(install.arg("--target-dir").arg(build.path().join("target")))
        .context("mdbook is wanted: set the variable MDBOOK to one, or let cargo reach crates.io")?;
    match fs::rename(&root, folder) {
        // Another build was first.
        Err(_) if folder.join("bin/mdbook").is_file() => Ok(()),
        moved => moved.with_context(|| folder.display().to_string()),
    }
}

fn check_version(mdbook: &OsString) -> Result<()> {
    let about = stdout(Command::new(mdbook).arg("--version"))?;
    ensure!(about.contains(VERSION), "{} is not {VERSION}", about.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_folder_for_each_version_and_compiler() {
        let rustc = "rustc 1.95.0 (59807616e 2026-04-14)\n";
        let of = |variables: &'static [(&str, &str)]| {
            let value = move |name: &str| {
                let mut found = variables.iter().filter(|(known, _)| *known == name);
                found.next().map(|(_, value)| OsString::from(value))
            };
            folder(rustc, value).map(|folder| folder.display().to_string())
        };
        let wanted = format!("/home/a/.cache/warpsmith/mdbook-{VERSION}-rustc-1.95.0");
        assert_eq!(of(&[("HOME", "/home/a")]), Some(wanted));
        let wanted = format!("/caches/warpsmith/mdbook-{VERSION}-rustc-1.95.0");
        assert_eq!(of(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/caches")]), Some(wanted));
        let wanted = format!("/home/a/.cache/warpsmith/mdbook-{VERSION}-rustc-1.95.0");
        assert_eq!(of(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "caches")]), Some(wanted));
        assert_eq!(of(&[]), None);
    }
}
