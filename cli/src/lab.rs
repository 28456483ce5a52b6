// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith lab`: experiments that show why kernels are slow and fast.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use ndarray::Array3;
use serde_json::{Value, json};
use warpsmith::Device;
use warpsmith_lab::report::{Cell, Report};
use warpsmith_lab::{EXPERIMENTS, Experiment, Lab, find, report};

use crate::session::{Session, print};

#[derive(Args)]
pub struct LabArgs {
    /// The experiment, or all; without one, the experiments are listed.
    #[arg(value_name = "EXPERIMENT")]
    name: Option<String>,
    /// Elements of the experiment's arrays, or as many as make its matrices; each has sizes of its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    size: Option<u64>,
    /// Draws the numbers: to look at, or for a page.
    #[arg(long, value_name = "FILE.svg|png")]
    plot: Option<PathBuf>,
}

/// `warpsmith lab`
pub fn run(session: &Session, args: &LabArgs) -> Result<()> {
    let Some(name) = &args.name else {
        return print(&listing());
    };
    let experiments: Vec<&Experiment> = match name.as_str() {
        "all" => EXPERIMENTS.iter().collect(),
        name => vec![find(name).ok_or_else(|| unknown(name))?],
    };
    if let Some(plot) = &args.plot {
        ensure!(
            experiments.len() == 1,
            "--plot: given all experiments, wanted one of them"
        );
        wanted_format(plot)?;
    }
    let plot = args
        .plot
        .as_deref()
        .map(|path| session.create_output(path))
        .transpose()?;
    let device = match session.open_device()? {
        device if device.is_simulator() => Device::counting_simulator(),
        device => device,
    };
    let lab = Lab::new(&device, args.size.map(|size| size as usize))?;
    let progress = session.progress("lab");
    let mut found = Vec::new();
    for experiment in experiments {
        progress.set_message(experiment.name);
        let report = experiment.run(&lab)?;
        ensure!(
            plot.is_none() || !experiment.plot(&report.tables).is_empty(),
            "--plot: {} has no numbers to draw on {}",
            experiment.name,
            device.properties().name
        );
        if !session.json() {
            progress.suspend(|| print(&text(experiment, &device, &report)))?;
        }
        found.push((experiment, report));
    }
    if session.json() {
        let objects: Vec<Value> = found.iter().map(|(it, report)| object(it, &device, report)).collect();
        match &objects[..] {
            [one] => print(&format!("{one}\n"))?,
            all => print(&format!("{}\n", json!({ "experiments": all })))?,
        }
    }
    if let (Some(plot), [(experiment, report)]) = (plot, &found[..]) {
        let title = format!("{} on {}", experiment.name, device.properties().name);
        let drawn = experiment.plot(&report.tables);
        let bytes = match wanted_format(plot.path())? {
            Format::Svg => drawn.svg(&title)?.into_bytes(),
            Format::Png => png(&drawn.pixels(&title)?)?,
        };
        plot.commit(|file| Ok(file.write_all(&bytes)?))?;
    }
    Ok(())
}

/// What plots are written as.
enum Format {
    Svg,
    Png,
}

/// By the file's name.
fn wanted_format(path: &Path) -> Result<Format> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(Format::Svg),
        Some("png") => Ok(Format::Png),
        _ => bail!("{}: wanted a name that ends in .svg or .png", path.display()),
    }
}

fn png(pixels: &Array3<u8>) -> Result<Vec<u8>> {
    let (height, width, _) = pixels.dim();
    let bytes = pixels.as_slice().context("the picture is not in standard layout")?;
    let mut png = Vec::new();
    let encoder = PngEncoder::new(&mut png);
    encoder.write_image(bytes, width as u32, height as u32, ExtendedColorType::Rgb8)?;
    Ok(png)
}

/// A line for each experiment.
fn listing() -> String {
    let line = |it: &Experiment| format!("{:<18}{}\n", it.name, it.sentence);
    EXPERIMENTS.iter().map(line).collect()
}

fn unknown(name: &str) -> anyhow::Error {
    let names: Vec<&str> = EXPERIMENTS.iter().map(|it| it.name).collect();
    anyhow!(
        "lab: there is no experiment '{name}': wanted all, or one of {}",
        names.join(", ")
    )
}

/// The tables, what is seen in them, and where to read on.
fn text(experiment: &Experiment, device: &Device, report: &Report) -> String {
    let properties = device.properties();
    let mut text = format!(
        "{}: {}\n{} ({})\n",
        experiment.name, experiment.sentence, properties.name, properties.id
    );
    for table in &report.tables {
        text += &format!("\n{}\n\n{}\n", table.title, shown(table));
    }
    text += "\n";
    for line in &report.lines {
        text += &format!("{line}\n");
    }
    text += &match experiment.sources {
        [] => "The kernels are the library's, in kernels-gpu.\n\n".into(),
        sources => format!("Kernels: {}\n\n", sources.join(", ")),
    };
    text
}

fn shown(table: &report::Table) -> Table {
    let mut shown = Table::new();
    shown.load_style(presets::ASCII_MARKDOWN);
    shown.set_header(&table.columns);
    for row in &table.rows {
        shown.add_row(row.iter().map(Cell::text));
    }
    for i in 0..table.columns.len() {
        let is_number = |row: &Vec<Cell>| matches!(row[i], Cell::Number(_));
        if let (true, Some(column)) = (table.rows.iter().any(is_number), shown.column_mut(i)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    shown
}

fn object(experiment: &Experiment, device: &Device, report: &Report) -> Value {
    let mut object = report.to_json();
    object["experiment"] = json!(experiment.name);
    object["device"] = json!(device.properties().id);
    object["name"] = json!(device.properties().name);
    object["sources"] = json!(experiment.sources);
    object
}
