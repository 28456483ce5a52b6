// SPDX-License-Identifier: MIT OR Apache-2.0

//! The blocks of code in the book's Markdown: what is Rust is a part of a file that is compiled and run elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::files;
use crate::workspace::Workspace;

/// Where listings come from: folders whose files tests compile.
const SOURCES: [&str; 5] = [
    "docs/guide",
    "examples",
    "lab",
    "cli/templates",
    "tests/compile_fail/cases",
];
/// What is typed and what is printed, which stands in the book as it is.
const PLAIN: [&str; 2] = ["sh", "text"];

/// What is wrong with the blocks of code below `folder`.
pub fn problems(workspace: &Workspace, folder: &Path) -> Result<Vec<String>> {
    let sources = SOURCES.map(|source| workspace.root.join(source));
    let mut problems = Vec::new();
    for path in files(folder, "md")? {
        let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let shown = path.strip_prefix(&workspace.root).unwrap_or(&path).display();
        let place = |line: usize, problem: String| format!("{shown}:{line}: {problem}");
        for block in blocks(&text) {
            problems.extend(block.problem().map(|problem| place(block.line, problem)));
        }
        for (line, include) in includes(&text) {
            let base = path.parent().unwrap_or(folder);
            problems.extend(include_problem(base, include, &sources).map(|problem| place(line, problem)));
        }
    }
    Ok(problems)
}

/// A block of code between fences.
struct Block<'a> {
    /// The line of its first fence, from 1.
    line: usize,
    language: &'a str,
    lines: Vec<&'a str>,
}

impl Block<'_> {
    fn problem(&self) -> Option<String> {
        if PLAIN.contains(&self.language) {
            return None;
        }
        if self.language.is_empty() {
            return Some("a block of code says no language".into());
        }
        let is_included = |line: &&str| line.starts_with("{{#include ") && line.ends_with("}}") || line.is_empty();
        let written = self.lines.iter().find(|line| !is_included(line))?;
        Some(format!(
            "a block of {} is to be included, not written: {written}",
            self.language
        ))
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        open = match (open, fence) {
            (None, Some(language)) => Some(Block {
                line: number + 1,
                language: language.split(',').next().unwrap_or_default().trim(),
                lines: Vec::new(),
            }),
            (Some(block), Some(_)) => {
                blocks.push(block);
                None
            }
            (Some(mut block), None) => {
                block.lines.push(line);
                Some(block)
            }
            (None, None) => None,
        };
    }
    // One that nobody closed is a block to the end.
    blocks.extend(open);
    blocks
}

/// What `{{#include …}}` names, with its line from 1.
fn includes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(number, line)| {
        let rest = line.split_once("{{#include ")?.1;
        Some((number + 1, rest.split_once("}}")?.0.trim()))
    })
}

/// What is wrong with an include such as `../code/src/hello.rs:first`, of a file in `base`.
fn include_problem(base: &Path, include: &str, sources: &[PathBuf]) -> Option<String> {
    let (file, part) = include.split_once(':').unwrap_or((include, ""));
    // Symbolic links and `..` are resolved, so that the folder is the one that the file is in.
    let Ok(path) = base.join(file).canonicalize() else {
        return Some(format!("{file} is not there"));
    };
    if !sources.iter().any(|source| path.starts_with(source)) {
        return Some(format!("{file} is in none of the folders whose files are tested"));
    }
    let Ok(text) = fs::read_to_string(&path) else {
        return Some(format!("{file} cannot be read"));
    };
    let has_part = match part.split(':').collect::<Vec<_>>()[..] {
        [""] => true,
        [name] if name.parse::<usize>().is_err() => is_part(&text, name),
        [first, last] => lines_are_there(&text, first, last),
        _ => false,
    };
    (!has_part).then(|| format!("{file} has no part {part}"))
}

/// Whether `text` has an anchor of that name that is closed, and something in it.
fn is_part(text: &str, name: &str) -> bool {
    let marks = |line: &str, mark: &str| {
        let rest = line.split_once(mark).map(|(_, rest)| rest.trim());
        rest == Some(name)
    };
    let mut lines = text.lines().skip_while(|line| !marks(line, "ANCHOR:")).skip(1);
    let mut is_filled = false;
    lines.any(|line| {
        let is_end = marks(line, "ANCHOR_END:");
        is_filled |= !is_end && !line.trim().is_empty();
        is_end
    }) && is_filled
}

/// Whether `text` has the lines from `first` to `last`, from 1.
fn lines_are_there(text: &str, first: &str, last: &str) -> bool {
    let count = text.lines().count();
    match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) => (1..=last).contains(&first) && last <= count,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_is_included_and_not_written() {
        let text = "```rust\n{{#include a.rs:x}}\n\n{{#include a.rs:y}}\n```\n\n```rust,ignore\nfn main() {}\n```\n\
            ```sh\ncargo run\n```\n```\nnothing\n";
        let found: Vec<_> = blocks(text).iter().map(|block| (block.line, block.problem())).collect();
        assert_eq!(found[0], (1, None));
        assert_eq!(
            found[1],
            (
                7,
                Some("a block of rust is to be included, not written: fn main() {}".into())
            )
        );
        assert_eq!(found[2], (10, None));
        assert_eq!(found[3], (13, Some("a block of code says no language".into())));
        assert_eq!(includes(text).collect::<Vec<_>>(), [(2, "a.rs:x"), (4, "a.rs:y")]);
    }

    #[test]
    fn parts_are_anchors_or_lines_that_are_there() {
        let text =
            "// ANCHOR: x\nlet a = 1;\n// ANCHOR_END: x\n// ANCHOR: empty\n// ANCHOR_END: empty\n// ANCHOR: open\na\n";
        assert!(is_part(text, "x"));
        for name in ["empty", "open", "none", "a"] {
            assert!(!is_part(text, name), "{name}");
        }
        assert!(
            lines_are_there(text, "1", "7") && !lines_are_there(text, "1", "8") && !lines_are_there(text, "0", "2")
        );
    }

    #[test]
    fn files_are_there_and_tested() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let base = folder.path().canonicalize()?;
        fs::create_dir(base.join("tested"))?;
        fs::write(base.join("tested/a.rs"), "// ANCHOR: x\nx\n// ANCHOR_END: x\n")?;
        fs::write(base.join("b.rs"), "x\n")?;
        let problem = |include| include_problem(&base, include, &[base.join("tested")]);
        assert_eq!(problem("tested/a.rs:x"), None);
        assert_eq!(problem("tested/a.rs"), None);
        assert_eq!(problem("tested/a.rs:1:3"), None);
        assert_eq!(problem("tested/a.rs:y"), Some("tested/a.rs has no part y".into()));
        assert_eq!(problem("c.rs"), Some("c.rs is not there".into()));
        assert_eq!(
            problem("b.rs"),
            Some("b.rs is in none of the folders whose files are tested".into())
        );
        Ok(())
    }
}
