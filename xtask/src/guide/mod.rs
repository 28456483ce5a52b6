// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask guide`: builds the book of docs/guide, and holds it against what it speaks of.
//!
//! mdBook warns of a file that it cannot include, and of nothing else: a part that the file does not have is empty, a link
//! that leads nowhere is a link. So the listings and the links are looked at here, and the links of all other Markdown
//! pages. That the listings compile and do what the book says, the tests of the packages that they are from show.

mod links;
mod listings;
mod mdbook;
mod measured;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::workspace::{Workspace, output};

const FOLDER: &str = "docs/guide";

/// What `cargo xtask guide` takes.
#[derive(Args)]
pub struct Options {
    /// What `warpsmith lab all` printed on a GPU, which the book's pages are to show from now on.
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
}

/// Builds the book in the target folder's `guide`; an error names all that is wrong with it.
pub fn build(workspace: &Workspace, options: &Options) -> Result<()> {
    let mdbook = mdbook::program(workspace)?;
    let folder = workspace.root.join(FOLDER);
    if let Some(printed) = &options.measured {
        measured::take(printed, &folder.join("src/measured"))?;
    }
    let mut problems = listings::problems(workspace, &folder.join("src"))?;

    let book = workspace.target.join("guide");
    let mut build = workspace.command(&mdbook.to_string_lossy());
    let said = output(build.arg("build").arg(&folder).arg("--dest-dir").arg(&book))?;
    let said = [said.stdout, said.stderr].concat();
    problems.extend(warnings(&String::from_utf8_lossy(&said)).map(str::to_string));
    problems.extend(links::problems(&workspace.root, &book)?);
    problems.extend(pages::problems(workspace, FOLDER)?);

    ensure!(problems.is_empty(), "the guide:\n- {}", problems.join("\n- "));
    println!("guide: {}", book.join("index.html").display());
    Ok(())
}

/// The lines of mdBook's log that are no information.
fn warnings(log: &str) -> impl Iterator<Item = &str> {
    let is_fine = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with("INFO ");
    log.lines().filter(move |line| !is_fine(line))
}

/// The files below `folder` whose name ends in `.` and `extension`, in order.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_is_no_warning() {
        let log = " INFO Book building has started\nERROR Error updating\n WARN Caused By: it\n\n INFO written\n";
        assert_eq!(
            warnings(log).collect::<Vec<_>>(),
            ["ERROR Error updating", " WARN Caused By: it"]
        );
    }
}
