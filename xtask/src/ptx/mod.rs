// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask ptx`: what the compiler and ptxas make of every kernel, held against the
//! checked-in report.
//!
//! The kernels are built as the host crate builds them, each module is assembled for every
//! architecture that it runs on, and what comes out is compared with kernels-gpu/ptx-report.tsv:
//! see [`report`] for what may change. A module whose text is that of the report is not assembled
//! again, unless `--all` asks for it. The same numbers make docs/occupancy.md, the table of the
//! hot kernels: see [`occupancy`]. One ptxas process a module and architecture, as many at
//! once as there are cores.

mod listing;
mod occupancy;
mod ptxas;
mod report;
mod sm;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};
use cuda_builder::{CudaBuilder, NvvmArch};
use rayon::prelude::*;

use crate::workspace::Workspace;
use listing::Listing;
use ptxas::Ptxas;
use report::{Changes, Key, Report, Row};
use sm::Sm;

/// The report's place in the workspace.
const REPORT: &str = "kernels-gpu/ptx-report.tsv";

/// The place of the hot kernels' table in the workspace.
const OCCUPANCY: &str = "docs/occupancy.md";

/// Turing, Ampere, Hopper and Blackwell.
const DEVICES: [Sm; 4] = [Sm::new(75), Sm::new(80), Sm::specific(90), Sm::new(100)];

/// A PTX module.
struct Module {
    name: String,
    path: PathBuf,
    bytes: usize,
    digest: u64,
    /// The architecture that it is for.
    target: Sm,
}

/// A module that is assembled for some of the [`DEVICES`], as the report has no numbers of its text.
struct Fresh<'a> {
    module: &'a Module,
    listing: Listing,
    devices: Vec<Sm>,
}

/// What `cargo xtask ptx` is asked to do.
#[derive(clap::Args)]
pub struct Options {
    /// Write the report, and docs/occupancy.md, anew instead of comparing with them.
    #[arg(long)]
    bless: bool,
    /// Assemble every module, also those of the text that the report's numbers are of.
    #[arg(long)]
    all: bool,
}

/// Builds, assembles and compares, or writes the report and the table anew.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let start = Instant::now();
    let modules = build(workspace)?;
    let built = start.elapsed().as_secs_f64();
    let ptxas = Ptxas::find(workspace)?;
    let old = read_text(workspace, REPORT).and_then(|text| Report::parse(&text).context(REPORT));
    let known = match &old {
        Ok(old) if ptxas.is_pinned() && !options.all => Some(old),
        _ => None,
    };
    let start = Instant::now();
    let (new, assembled) = assemble(&ptxas, &modules, known)?;
    println!("{}", table(&new));
    println!(
        "{} modules: built in {built:.1} s; {assembled} of {} assembled in {:.1} s",
        modules.len(),
        modules.len() * DEVICES.len(),
        start.elapsed().as_secs_f64()
    );

    let occupancy = occupancy::markdown(&new)?;
    if options.bless {
        ensure!(
            ptxas.is_pinned(),
            "ptxas {} makes other numbers than the report's own ptxas: unset PTXAS",
            ptxas.version
        );
        write(workspace, REPORT, &new.to_text())?;
        return write(workspace, OCCUPANCY, &occupancy);
    }
    let old = old?;
    if !ptxas.is_pinned() {
        println!("ptxas {}: registers and occupancy are not compared", ptxas.version);
        return judge(&old.changes(&new, false));
    }
    judge(&old.changes(&new, true))?;
    ensure!(
        read_text(workspace, OCCUPANCY)? == occupancy,
        "{OCCUPANCY} is out of date (`cargo xtask ptx --bless` writes it)"
    );
    Ok(())
}

fn write(workspace: &Workspace, place: &str, text: &str) -> Result<()> {
    fs::write(workspace.root.join(place), text).with_context(|| format!("{place} cannot be written"))?;
    println!("{place} is written: {} lines", text.lines().count());
    Ok(())
}

fn read_text(workspace: &Workspace, place: &str) -> Result<String> {
    fs::read_to_string(workspace.root.join(place))
        .with_context(|| format!("{place} cannot be read (`cargo xtask ptx --bless` writes it)"))
}

/// The kernels crate's modules, as the host crate's build script makes them.
fn build(workspace: &Workspace) -> Result<Vec<Module>> {
    let files = CudaBuilder::new(workspace.root.join("kernels-gpu"))
        .archs(&[NvvmArch::Compute75])
        .fmt_debug(false)
        .copy_to(workspace.target.join("ptx"))
        .build()?;
    read_modules(files.into_iter().map(|file| (file.module, file.path)))
}

/// The modules of these files. Those of device functions are lists of texts, which become parts of kernels only when a program
/// runs: `tests/function.rs` has a GPU's driver compile each.
fn read_modules(files: impl Iterator<Item = (String, PathBuf)>) -> Result<Vec<Module>> {
    let mut modules = Vec::new();
    for (name, path) in files {
        let shown = || path.display().to_string();
        let text = fs::read_to_string(&path).with_context(shown)?;
        if text.starts_with("//cuda_builder function=") {
            continue;
        }
        modules.push(Module {
            name,
            bytes: text.len(),
            digest: report::digest(&text),
            target: listing::target(&text).with_context(shown)?,
            path,
        });
    }
    ensure!(!modules.is_empty(), "the kernels crate has no kernels");
    Ok(modules)
}

/// Every kernel on every architecture that it runs on, and how many times a module was assembled for that: what `known`
/// has of the same text is taken from there, and the text is not looked into.
fn assemble(ptxas: &Ptxas, modules: &[Module], known: Option<&Report>) -> Result<(Report, usize)> {
    let mut report = Report::default();
    let mut fresh = Vec::new();
    for module in modules {
        let mut devices = Vec::new();
        for device in DEVICES.into_iter().filter(|device| module.target.runs_on(*device)) {
            match known.and_then(|known| known.of_module(&module.name, device, module.digest)) {
                Some(rows) => report.0.extend(rows.0),
                None => devices.push(device),
            }
        }
        if !devices.is_empty() {
            fresh.push(Fresh {
                listing: module.read()?,
                module,
                devices,
            });
        }
    }
    // The largest first, so that no core ends up alone with one of them.
    fresh.sort_by_key(|fresh| Reverse(fresh.module.bytes));
    let jobs: Vec<_> = (fresh.iter())
        .flat_map(|fresh| fresh.devices.iter().map(move |device| (fresh, *device)))
        .collect();
    let assembled = jobs.len();
    let results: Vec<_> = jobs
        .into_iter()
        .par_bridge()
        .map(|(fresh, device)| fresh.assemble(ptxas, device))
        .collect();
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok(rows) => report.0.extend(rows.0),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    failures.sort();
    ensure!(failures.is_empty(), "ptxas refuses modules:\n{}", failures.join("\n"));
    Ok((report, assembled))
}

impl Module {
    /// What its text says; it is an error if it wants a symbol that nothing has, or has no kernel.
    fn read(&self) -> Result<Listing> {
        let shown = || self.path.display().to_string();
        let listing = Listing::parse(&fs::read_to_string(&self.path).with_context(shown)?);
        let undefined: Vec<_> = listing.undefined.iter().map(String::as_str).collect();
        ensure!(
            undefined.is_empty(),
            "{} wants what no driver has: {}",
            shown(),
            undefined.join(", ")
        );
        ensure!(!listing.kernels.is_empty(), "{} has no kernels", shown());
        Ok(listing)
    }
}

impl Fresh<'_> {
    fn assemble(&self, ptxas: &Ptxas, sm: Sm) -> Result<Report> {
        let module = self.module;
        let usages = ptxas.assemble(&module.path, sm)?;
        let mut report = Report::default();
        for (kernel, said) in &self.listing.kernels {
            let usage = usages
                .get(kernel)
                .with_context(|| format!("ptxas says nothing of {}/{kernel}", module.name))?;
            let key = Key {
                module: module.name.clone(),
                kernel: kernel.clone(),
                ptx: module.target,
                sm,
            };
            let row = Row {
                digest: module.digest,
                numbers: report::numbers(*usage, *said),
            };
            report.0.insert(key, row);
        }
        Ok(report)
    }
}

/// The report for a reader: a line per kernel, with its registers on each architecture and the
/// largest of its other numbers.
fn table(report: &Report) -> Table {
    let mut kernels: BTreeMap<_, BTreeMap<Sm, &Row>> = BTreeMap::new();
    for (key, row) in &report.0 {
        let kernel = (&key.module, &key.kernel, key.ptx);
        kernels.entry(kernel).or_default().insert(key.sm, row);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = ["module", "kernel", "ptx"].map(String::from).to_vec();
    header.extend(DEVICES.map(|sm| format!("registers\n{sm}")));
    header.extend(report::column_names().skip(1).map(String::from));
    table.set_header(header);
    for ((module, kernel, ptx), rows) in kernels {
        let mut cells = vec![module.clone(), kernel.clone(), ptx.to_string()];
        cells.extend(DEVICES.map(|sm| match rows.get(&sm) {
            Some(row) => row.numbers[0].to_string(),
            None => String::new(),
        }));
        for column in 1..Row::default().numbers.len() {
            let largest = rows.values().map(|row| row.numbers[column]).max();
            cells.push(largest.unwrap_or_default().to_string());
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn judge(changes: &Changes) -> Result<()> {
    for line in &changes.better {
        println!("better: {line}");
    }
    if !changes.better.is_empty() {
        println!("`cargo xtask ptx --bless` keeps what got better");
    }
    if changes.worse.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = changes.worse.iter().map(String::as_str).collect();
    bail!(
        "the kernels differ from {REPORT} (`cargo xtask ptx --bless` accepts it):\n{}",
        lines.join("\n")
    )
}
