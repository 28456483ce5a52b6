// SPDX-License-Identifier: MIT OR Apache-2.0

//! The links of the repository's Markdown pages outside the book, as they stand in their text.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

use super::links::{REPOSITORY, in_repository, joined, missing};
use crate::workspace::{Workspace, stdout};

/// The links that lead nowhere, of all pages that git tracks but those in `book`, whose links are looked at as mdBook
/// made them. A page that was removed, and not yet from what git tracks, has none.
pub fn problems(workspace: &Workspace, book: &str) -> Result<Vec<String>> {
    let tracked = stdout(workspace.command("git").args(["ls-files", "-z", "*.md"]))?;
    let pages = tracked.split_terminator('\0');
    let mut problems = Vec::new();
    for page in pages.filter(|page| !Path::new(page).starts_with(book)) {
        problems.extend(of_page(&workspace.root, page)?);
    }
    Ok(problems)
}

/// The links of `page`, a path in the repository, that lead nowhere.
fn of_page(repository: &Path, page: &str) -> Result<Vec<String>> {
    let text = match fs::read_to_string(repository.join(page)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| format!("{page} cannot be read"))?,
    };
    let problem = |link: &str| {
        let problem = match link.strip_prefix(REPOSITORY) {
            Some(place) => in_repository(repository, place),
            None if link.contains("://") || link.starts_with("mailto:") => None,
            None => {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let file = if file.is_empty() {
                    page.to_string()
                } else {
                    joined(page, file)
                };
                missing(&repository.join(file), anchor)
            }
        };
        problem.map(|problem| format!("{page}: {link}: {problem}"))
    };
    Ok(prose(&text).flat_map(links).filter_map(problem).collect())
}

/// The lines of Markdown that are in no fenced block of code.
pub fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Where the links and pictures `[text](link)` of a line lead. What is between backticks has none.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, begin)| {
        let is_code = line[..at].matches('`').count() % 2 == 1;
        let (link, _) = line[at + begin.len()..].split_once(')')?;
        // A title may stand behind it.
        link.split_whitespace().next().filter(|_| !is_code)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_lines() {
        let found = |line| links(line).collect::<Vec<_>>();
        assert_eq!(
            found("[a](b.md), ![`c`](d.svg \"e\") and [f](#g)."),
            ["b.md", "d.svg", "#g"]
        );
        assert_eq!(found("`x[i](y)`, [h](i.md)"), ["i.md"]);
        assert_eq!(found("[](), [j](k"), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere() -> Result<()> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("docs"))?;
        fs::write(
            folder.path().join("README.md"),
            "# It\n## Limits\n## Limits\n```\n# code\n[a](b)\n```\n",
        )?;
        let text = "# Page\n[a](#page) [b](../README.md#limits) [c](../README.md#limits-1) [d](https://rust-lang.org/x)\n\
            [e](..) [f](e.md) [g](../README.md#code) [h](#top)\n\
            [i](https://github.com/warpsmith/warpsmith/blob/main/docs/other.md)";
        fs::write(folder.path().join("docs/page.md"), text)?;
        assert_eq!(of_page(folder.path(), "README.md")?, [""; 0]);
        assert_eq!(of_page(folder.path(), "docs/removed.md")?, [""; 0]);
        assert_eq!(
            of_page(folder.path(), "docs/page.md")?,
            [
                "docs/page.md: e.md: there is no such file",
                "docs/page.md: ../README.md#code: the file has no such heading",
                "docs/page.md: #top: the file has no such heading",
                "docs/page.md: https://github.com/warpsmith/warpsmith/blob/main/docs/other.md: there is no such file",
            ]
        );
        Ok(())
    }
}
