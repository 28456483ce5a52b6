// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the listings share, and what is held against the book's text.

use std::fs;
use std::path::{Path, PathBuf};

use warpsmith::{Checks, Device};

/// The columns of an output that the book shows.
const COLUMNS: usize = 100;

/// The device that the book's kernels run on. It has what they are on GPUs, too, and compares each that is launched with it.
pub fn simulator() -> Device {
    let device = Device::checked_simulator(Checks::ALL);
    let kernels = warpsmith::kernels!(warpsmith_guide_kernels);
    device.register_kernels(kernels).expect("they are registered once");
    device
}

/// The folder of the book, `docs/guide`: where this was built, or in the tree in whose top the test was started.
fn guide() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if built.is_dir() { built } else { "docs/guide".into() }
}

/// Holds what was printed against `src/output/NAME.txt`, which the book includes. With `GUIDE_OUTPUT=write` it writes the
/// file instead. By another order of threads, which the variable WARPSMITH_SIM_SEED asks for, the first mistake that is
/// found may be another one: nothing is held against the book then.
#[track_caller]
pub fn assert_shown(name: &str, printed: &str) {
    let path = guide().join("src/output").join(name).with_extension("txt");
    if std::env::var_os("WARPSMITH_SIM_SEED").is_some() {
        return;
    }
    let printed = wrapped(printed);
    if std::env::var_os("GUIDE_OUTPUT").is_some_and(|value| value == "write") {
        fs::write(&path, printed).expect("the book's folder can be written");
        return;
    }
    let shown = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        shown,
        printed,
        "{} shows something else: run this test with GUIDE_OUTPUT=write",
        path.display()
    );
}

/// `text` in lines of [`COLUMNS`] at most, where words end.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let mut column = 0;
        for (number, word) in line.split(' ').enumerate() {
            let width = word.chars().count();
            if number > 0 && column + 1 + width > COLUMNS {
                lines.push('\n');
                column = 0;
            } else if number > 0 {
                lines.push(' ');
                column += 1;
            }
            lines += word;
            column += width;
        }
        lines.push('\n');
    }
    lines
}

/// `examples/README.md` lists every example once, those of the laboratory too, and nothing that is not there.
#[test]
fn the_list_of_examples_names_each_of_them_once() {
    let root = guide().join("../..");
    let list = fs::read_to_string(root.join("examples/README.md")).expect("there is a list");
    let mut listed: Vec<_> = list
        .lines()
        .filter_map(|line| line.strip_prefix("| [")?.split_once("](")?.1.split_once(')'))
        .map(|(link, _)| link.to_string())
        .collect();
    listed.sort();

    let mut there = Vec::new();
    for (folder, link) in [("examples", ""), ("lab/examples", "../lab/examples/")] {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
        there.extend(
            entries
                .map(|entry| entry.expect("an entry").path())
                // A folder is a program if it is a package; others are parts of programs.
                .filter(|path| path.extension().is_some_and(|end| end == "rs") || path.join("Cargo.toml").is_file())
                .filter_map(|path| Some(format!("{link}{}", path.file_name()?.to_str()?))),
        );
    }
    there.sort();
    assert_eq!(listed, there);
}

/// Every call that the tables of `coming-from.md` name is made in `calls.rs`, or in `own.rs`, or by their kernels. `…` stands for anything.
#[test]
fn calls_in_the_tables_are_made() {
    let chapter = fs::read_to_string(guide().join("src/coming-from.md")).expect("there is the chapter");
    let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
    let made = without_spaces(concat!(
        include_str!("calls.rs"),
        include_str!("own.rs"),
        include_str!("../kernels/src/calls.rs"),
        include_str!("../kernels/src/own.rs"),
    ));
    let mut count = 0;
    for row in chapter.lines().filter(|line| line.starts_with("| ")) {
        let last = row
            .trim_end_matches(" |")
            .rsplit(" | ")
            .next()
            .expect("a row has cells");
        for call in last.replace("\\|", "|").split('`').skip(1).step_by(2) {
            let is_made = call.split('…').all(|part| made.contains(&without_spaces(part)));
            assert!(is_made, "nothing calls `{call}` of the row {row}");
            count += 1;
        }
    }
    assert!(count > 150, "{count} calls");
}

#[test]
fn long_lines_are_wrapped_between_words() {
    let word = "x".repeat(60);
    assert_eq!(
        wrapped(&format!("a {word} {word}\nb")),
        format!("a {word}\n{word}\nb\n")
    );
    assert_eq!(wrapped("  in\n"), "  in\n");
}
