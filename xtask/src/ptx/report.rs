// SPDX-License-Identifier: MIT OR Apache-2.0

//! The checked-in report: one line per kernel and architecture, which may only get better.
//!
//! What the source says and the optimiser must leave alone (the threads of the largest block,
//! barriers, shuffles, votes) may not change at all. What
//! costs speed (registers, memory, spills, generic accesses) may not grow. Both can be accepted
//! with `cargo xtask ptx --bless`, in a change that a reviewer sees line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};

use anyhow::{Context, Result, ensure};

use super::listing::Kernel;
use super::occupancy::Block;
use super::ptxas::Usage;
use super::sm::Sm;

/// The lines before the table.
const HEAD: &str = "\
# What ptxas makes of every kernel. Written by `cargo xtask ptx --bless`; `cargo xtask ptx`
# fails where a kernel got worse. `ptx` is what the module was compiled for, `sm` what it was
# assembled for. `digest` is that of the module's text: a module of the same text is not
# assembled again.
";

/// A kernel of a module, on one architecture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The PTX module's name.
    pub module: String,
    /// The kernel's name.
    pub kernel: String,
    /// What the PTX was compiled for.
    pub ptx: Sm,
    /// What it was assembled for.
    pub sm: Sm,
}

/// How a number may change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Not at all: a property of the PTX, the same on every architecture.
    Fixed,
    /// It may shrink: a property of the PTX, the same on every architecture.
    PtxMayShrink,
    /// It may shrink: a property of the machine code.
    MayShrink,
    /// It may shrink, and says nothing when another ptxas made the numbers.
    MayShrinkSamePtxas,
}

/// The numbers of a line, in the order of the file.
const COLUMNS: [(&str, Rule); 10] = [
    ("registers", Rule::MayShrinkSamePtxas),
    ("shared", Rule::MayShrink),
    ("stack", Rule::MayShrink),
    ("spill_stores", Rule::MayShrink),
    ("spill_loads", Rule::MayShrink),
    ("threads", Rule::Fixed),
    ("barriers", Rule::Fixed),
    ("shuffles", Rule::Fixed),
    ("votes", Rule::Fixed),
    ("generic", Rule::PtxMayShrink),
];

/// The numbers of one kernel on one architecture, as [`COLUMNS`] names them.
pub type Numbers = [u32; COLUMNS.len()];

/// A line: the numbers, and of which text they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The [`digest`] of the module.
    pub digest: u64,
    /// What was counted in it, and what ptxas said.
    pub numbers: Numbers,
}

/// Tells a module's text from any other. Rust promises this hash for one compiler version only, and with another one the
/// text differs as well.
pub fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// The names of a row's numbers.
pub fn column_names() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}

/// Puts the numbers of a kernel in the order of [`column_names`].
pub fn numbers(usage: Usage, kernel: Kernel) -> Numbers {
    let Kernel { threads, counts } = kernel;
    [
        usage.registers,
        usage.shared,
        usage.stack,
        usage.spill_stores,
        usage.spill_loads,
        threads,
        counts.barriers,
        counts.shuffles,
        counts.votes,
        counts.generic,
    ]
}

/// The numbers that decide how many blocks a multiprocessor holds.
pub fn block(numbers: &Numbers) -> Block {
    let [registers, shared, _, _, _, threads, ..] = *numbers;
    Block {
        threads,
        registers,
        shared,
    }
}

/// All kernels on all architectures.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report(pub BTreeMap<Key, Row>);

/// What changed from one report to the next, one line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What must be mended or blessed.
    pub worse: BTreeSet<String>,
    /// What can be blessed, so that it stays.
    pub better: BTreeSet<String>,
}

impl Report {
    /// Reads the file's text.
    ///
    /// # Errors
    /// The first line that is not one of [`Self::to_text`]'s, by its number.
    pub fn parse(text: &str) -> Result<Self> {
        let mut rows = BTreeMap::new();
        let lines = text.lines().enumerate();
        // The first line that is no comment names the columns.
        for (number, line) in lines.filter(|(_, line)| !line.starts_with('#')).skip(1) {
            let (key, row) = parse_line(line).with_context(|| format!("line {}: `{line}`", number + 1))?;
            rows.insert(key, row);
        }
        Ok(Self(rows))
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = String::from(HEAD);
        text += "module\tkernel\tptx\tsm\tdigest";
        for name in column_names() {
            text.push('\t');
            text += name;
        }
        text.push('\n');
        for (key, row) in &self.0 {
            text += &format!("{}\t{}\t{}\t{}", key.module, key.kernel, key.ptx, key.sm);
            text += &format!("\t{:016x}", row.digest);
            for number in row.numbers {
                // Writing to a string cannot fail.
                let _ = write!(text, "\t{number}");
            }
            text.push('\n');
        }
        text
    }

    /// The lines of one module on one architecture, if they are of the text with this digest.
    pub fn of_module(&self, module: &str, sm: Sm, digest: u64) -> Option<Self> {
        // The first key that the module may have.
        let first = Key {
            module: module.to_string(),
            kernel: String::new(),
            ptx: Sm::new(0),
            sm: Sm::new(0),
        };
        let rows: BTreeMap<_, _> = (self.0.range(first..))
            .take_while(|(key, _)| key.module == module)
            .filter(|(key, row)| key.sm == sm && row.digest == digest)
            .map(|(key, row)| (key.clone(), *row))
            .collect();
        (!rows.is_empty()).then_some(Self(rows))
    }

    /// What is worse and what is better in `new`. Registers are left out where the two come
    /// from different versions of ptxas.
    pub fn changes(&self, new: &Self, same_ptxas: bool) -> Changes {
        let mut changes = Changes::default();
        for (key, old_row) in &self.0 {
            match new.0.get(key) {
                Some(new_row) => changes.compare(key, old_row, new_row, same_ptxas),
                None => changes.note(true, format!("{} is gone", key.in_ptx())),
            }
        }
        for key in new.0.keys().filter(|key| !self.0.contains_key(key)) {
            changes.note(true, format!("{} is not in the report", key.in_ptx()));
        }
        changes
    }
}

impl Changes {
    fn note(&mut self, is_worse: bool, line: String) {
        if is_worse {
            self.worse.insert(line);
        } else {
            self.better.insert(line);
        }
    }

    fn compare(&mut self, key: &Key, old: &Row, new: &Row, same_ptxas: bool) {
        for ((name, rule), (old, new)) in COLUMNS.iter().zip(old.numbers.iter().zip(&new.numbers)) {
            if old == new || (*rule == Rule::MayShrinkSamePtxas && !same_ptxas) {
                continue;
            }
            let of = match rule {
                // Once for all architectures: a set holds equal lines once.
                Rule::Fixed | Rule::PtxMayShrink => key.in_ptx(),
                Rule::MayShrink | Rule::MayShrinkSamePtxas => key.on_device(),
            };
            let is_worse = *rule == Rule::Fixed || new > old;
            self.note(is_worse, format!("{of}: {name} {old} -> {new}"));
        }
    }
}

impl Key {
    fn in_ptx(&self) -> String {
        format!("{}/{} ({} PTX)", self.module, self.kernel, self.ptx)
    }

    fn on_device(&self) -> String {
        format!("{} on {}", self.in_ptx(), self.sm)
    }
}

fn parse_line(line: &str) -> Result<(Key, Row)> {
    let fields: Vec<_> = line.split('\t').collect();
    let wanted = 5 + COLUMNS.len();
    ensure!(
        fields.len() == wanted,
        "{} fields where {wanted} are wanted",
        fields.len()
    );
    let key = Key {
        module: fields[0].to_string(),
        kernel: fields[1].to_string(),
        ptx: fields[2].parse()?,
        sm: fields[3].parse()?,
    };
    let digest = u64::from_str_radix(fields[4], 16).with_context(|| format!("`{}` is no digest", fields[4]))?;
    let mut numbers = Numbers::default();
    for (number, field) in numbers.iter_mut().zip(&fields[5..]) {
        *number = field.parse().with_context(|| format!("`{field}` is not a number"))?;
    }
    Ok((key, Row { digest, numbers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sm: u32) -> Key {
        Key {
            module: "reduce".into(),
            kernel: "sum_f32".into(),
            ptx: Sm::new(75),
            sm: Sm::new(sm),
        }
    }

    /// A report of one kernel on two architectures, where `column` has `number`.
    fn report(column: &str, number: u32) -> Report {
        let row = Row {
            digest: 0xABC,
            numbers: COLUMNS.map(|(name, _)| if name == column { number } else { 8 }),
        };
        Report(BTreeMap::from([(key(75), row), (key(80), row)]))
    }

    fn lines(of: &BTreeSet<String>) -> Vec<&str> {
        of.iter().map(String::as_str).collect()
    }

    #[test]
    fn reads_what_it_writes() -> Result<()> {
        let report = report("registers", 32);
        assert_eq!(Report::parse(&report.to_text())?, report);
        Ok(())
    }

    #[test]
    fn lines_serve_for_the_same_text_only() {
        let report = report("registers", 32);
        let on_75 = report.of_module("reduce", Sm::new(75), 0xABC).unwrap();
        assert!(on_75.0.keys().eq([&key(75)]));
        assert_eq!(report.of_module("reduce", Sm::new(75), 0xABD), None);
        assert_eq!(report.of_module("reduce", Sm::new(90), 0xABC), None);
        assert_eq!(report.of_module("scan", Sm::new(75), 0xABC), None);
    }

    #[test]
    fn takes_a_block_out_of_a_row() {
        let usage = Usage {
            registers: 40,
            shared: 1024,
            ..Usage::default()
        };
        let kernel = Kernel {
            threads: 256,
            ..Kernel::default()
        };
        let wanted = Block {
            threads: 256,
            registers: 40,
            shared: 1024,
        };
        assert_eq!(block(&numbers(usage, kernel)), wanted);
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = Report::parse("# head\nmodule\nreduce\tsum\n").unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "line 3: `reduce\tsum`: 2 fields where 15 are wanted"
        );
    }

    #[test]
    fn what_the_source_says_may_not_change_either_way() {
        for column in ["threads", "barriers", "shuffles", "votes"] {
            for number in [7, 9] {
                let changes = report("", 0).changes(&report(column, number), true);
                let line = format!("reduce/sum_f32 (sm_75 PTX): {column} 8 -> {number}");
                assert_eq!(lines(&changes.worse), [line]);
                assert!(changes.better.is_empty());
            }
        }
    }

    #[test]
    fn what_costs_may_shrink_only() {
        for column in ["registers", "shared", "stack", "spill_stores", "spill_loads"] {
            let more = report("", 0).changes(&report(column, 9), true);
            let wanted = ["75", "80"].map(|sm| format!("reduce/sum_f32 (sm_75 PTX) on sm_{sm}: {column} 8 -> 9"));
            assert_eq!(lines(&more.worse), wanted);
            let fewer = report("", 0).changes(&report(column, 7), true);
            assert!(fewer.worse.is_empty());
            assert_eq!(fewer.better.len(), 2);
        }
        let generic = report("", 0).changes(&report("generic", 9), true);
        assert_eq!(lines(&generic.worse), ["reduce/sum_f32 (sm_75 PTX): generic 8 -> 9"]);
    }

    #[test]
    fn another_ptxas_is_not_held_to_the_registers() {
        let changes = report("", 0).changes(&report("registers", 9), false);
        assert_eq!(changes, Changes::default());
        let changes = report("", 0).changes(&report("stack", 9), false);
        assert_eq!(changes.worse.len(), 2);
    }

    #[test]
    fn kernels_that_come_and_go_are_named() {
        let (one, none) = (report("", 0), Report::default());
        let come = none.changes(&one, true);
        assert_eq!(lines(&come.worse), ["reduce/sum_f32 (sm_75 PTX) is not in the report"]);
        let gone = one.changes(&none, true);
        assert_eq!(lines(&gone.worse), ["reduce/sum_f32 (sm_75 PTX) is gone"]);
    }
}
