// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warpsmith's laboratory: experiments that show on a GPU why kernels are slow and fast, each thing done in several ways.
//! `warpsmith lab` runs them.
//!
//! The kernels are in the crate [`kernels`], in files that are short enough to read and to change. An experiment checks each
//! result, measures, and says what is seen: on a GPU times, on a simulated one what it counts.
//!
//! ```
//! use warpsmith::Device;
//! use warpsmith_lab::{Lab, find};
//!
//! # fn main() -> anyhow::Result<()> {
//! let lab = Lab::new(&Device::simulator(), Some(1000))?;
//! let report = find("reduction-ladder").unwrap().run(&lab)?;
//! assert_eq!(report.tables[0].rows.len(), 8);
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]

pub mod bench;
pub mod data;
mod experiments;
mod lab;
mod picture;
pub mod plot;
mod raster;
pub mod report;
pub mod timeline;

use anyhow::{Context, Result};
use warpsmith::Device;
pub use warpsmith_lab_kernels as kernels;

pub use experiments::EXPERIMENTS;
pub use lab::{Cost, Lab, check_equal};
use picture::Picture;
use plot::Plot;
use report::{Report, Table};

/// An experiment.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub sentence: &'static str,
    /// The files with its kernels, from the repository's root; none where it runs the library's alone.
    pub sources: &'static [&'static str],
    run: fn(&Lab) -> Result<Report>,
    picture: Picture,
}

impl Experiment {
    /// Runs it.
    ///
    /// # Errors
    ///
    /// A wrong result, and those of the library.
    pub fn run(&self, lab: &Lab) -> Result<Report> {
        (self.run)(lab).with_context(|| self.name)
    }

    /// The numbers of its tables to look at: of those of a report, or of those that [`Table::of_page`] reads.
    ///
    /// # Panics
    ///
    /// If there is no table.
    pub fn plot(&self, tables: &[Table]) -> Plot {
        self.picture.plot(tables)
    }
}

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

/// Gives the device the laboratory's kernels: once, ahead of the first launch of one. The simulated GPU needs no device
/// code. [`Lab::new`] does it.
///
/// # Errors
///
/// [`warpsmith::Error::DuplicateKernels`] if the device has others of these names.
pub fn register(device: &Device) -> warpsmith::Result<()> {
    device.register_kernels(warpsmith::kernels!(warpsmith_lab_kernels))
}
