// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes that do not compile, each with what the compiler says: one file of `cases/` and its `.stderr`.
//!
//! The cases are compiled with the libraries that this test is linked with, so that nothing is built for them: crates for
//! such tests have cargo check the whole library once more, which was a fifth of the processor time of all tests. Needs rustc
//! and the sources. To write the messages anew after a change: `OVERWRITE=1 cargo test -p compile-fail-tests`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// `--extern` and `-L`, with what follows each.
const LIBRARIES: &[&str] = compile_fail_libraries::library_arguments!();

#[test]
fn mistakes_do_not_compile() {
    let cases = cases();
    assert!(!cases.is_empty(), "no cases");
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(message) = check(case) {
                wrong.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The folder of the cases, from the workspace's.
const CASES: &str = "tests/compile_fail/cases/";

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The cases' files, from the workspace's folder.
fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join(CASES)).unwrap();
    let files = entries.map(|entry| Path::new(CASES).join(entry.unwrap().file_name()));
    files
        .filter(|file| file.extension().is_some_and(|end| end == "rs"))
        .collect()
}

/// An error says how `case` compiles, and how it was to.
fn check(case: &Path) -> Result<(), String> {
    let out = tempfile::tempdir().unwrap();
    let mut rustc = Command::new("rustc");
    // Where the libraries were compiled, so that rustc shows lines of theirs.
    rustc.current_dir(workspace()).arg(case).args(LIBRARIES);
    rustc.args([
        "--crate-name=case",
        "--edition=2024",
        "--emit=metadata",
        "--cap-lints=allow",
        "--color=never",
    ]);
    // As cargo says for the kernels of a package.
    rustc.env("CARGO_PKG_NAME", "case").env("CARGO_PKG_VERSION", "0.0.0");
    let output = rustc
        .arg("--out-dir")
        .arg(out.path())
        .output()
        .expect("rustc can be started");
    let file = workspace().join(case).with_extension("stderr");
    let case = case.display();
    if output.status.success() {
        return Err(format!("{case} compiles"));
    }
    let said = normalize(&String::from_utf8_lossy(&output.stderr));
    if std::env::var_os("OVERWRITE").is_some() {
        fs::write(file, said).unwrap();
        return Ok(());
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    match said == expected {
        true => Ok(()),
        false => Err(format!("{case}: rustc says\n{said}\nand was to say\n{expected}")),
    }
}

/// What rustc said, without what depends on the machine and on unrelated edits: folders, lines of other files than the
/// case, how many more implementations there are, and the summary at the end.
fn normalize(said: &str) -> String {
    const SUMMARY: [&str; 3] = [
        "error: aborting due to",
        "For more information about",
        "Some errors have detailed",
    ];
    let mut reports: Vec<Vec<&str>> = Vec::new();
    for line in said
        .lines()
        .filter(|line| !SUMMARY.iter().any(|start| line.starts_with(start)))
    {
        match reports.last_mut() {
            Some(report) if !line.starts_with("error") => report.push(line),
            _ => reports.push(vec![line]),
        }
    }
    let text: String = reports.iter().flat_map(|report| normalize_report(report)).collect();
    format!("{}\n", text.trim_end())
}

/// One error. Its lines have numbers in a column that is as wide as the greatest takes; here as the greatest of the case's.
fn normalize_report(report: &[&str]) -> Vec<String> {
    // Of a file with a long type's name.
    const FILES: [&str; 2] = [
        "= note: the full name for the type",
        "= note: consider using `--verbose`",
    ];
    let (mut width, mut least) = (0, 0);
    let mut of_case = true;
    let mut lines = Vec::new();
    for line in report {
        let rest = line.trim_start();
        let blanks = &line[..line.len() - rest.len()];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        // Where a note or a suggestion names no place, its lines are the case's.
        of_case |= blanks.is_empty() && ["help:", "note:"].iter().any(|start| rest.starts_with(start));
        if let Some(place) = rest.strip_prefix("--> ").or_else(|| rest.strip_prefix("::: ")) {
            let case = place.strip_prefix(CASES);
            of_case = case.is_some();
            width = blanks.len();
            let place = case.map_or_else(|| known_place(place), |case| format!("cases/{case}"));
            lines.push(format!("{blanks}{}{place}", &rest[..4]));
        } else if digits > 0 && rest[digits..].starts_with([' ', '\t']) {
            let number = if of_case { &rest[..digits] } else { "" };
            least = least.max(number.len());
            lines.push(format!(
                "{number:>width$}{}",
                &rest[digits..],
                width = blanks.len() + digits
            ));
        } else if rest.starts_with("and ") && rest.ends_with(" others") {
            lines.push(format!("{blanks}and $N others"));
        } else if FILES.iter().any(|start| rest.starts_with(start)) {
            continue;
        } else {
            lines.push(line.to_string());
        }
    }
    let spare = " ".repeat(width.saturating_sub(least));
    let narrow = |line: String| match line.strip_prefix("...") {
        Some(rest) => format!("...{}\n", rest.strip_prefix(&spare).unwrap_or(rest)),
        None => format!("{}\n", line.strip_prefix(&spare).unwrap_or(&line)),
    };
    lines.into_iter().map(narrow).collect()
}

/// The file of `place`, by where it is on every machine.
fn known_place(place: &str) -> String {
    let file = place.split(':').next().unwrap_or(place);
    if let Some((_, of_rust)) = file.split_once("/rust/library/") {
        return format!("$RUST/{of_rust}");
    }
    match (Path::new(file).strip_prefix(workspace()), Path::new(file).is_absolute()) {
        (Ok(file), _) => format!("$WORKSPACE/{}", file.display()),
        (Err(_), false) => format!("$WORKSPACE/{file}"),
        (Err(_), true) => file.to_string(),
    }
}
