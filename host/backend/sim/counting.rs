// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of what launches on the simulated GPU have counted.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cuda_sim::{Error, LaunchConfig, LaunchCounters, Options, launch_counted, launch_with};

use super::lock;

/// Has what launches count written, to the standard error or to a file.
const VARIABLE: &str = "WARPSMITH_SIM_PROFILE";

/// Clones share what is kept.
#[derive(Clone, Debug)]
pub(super) enum Counting {
    /// Nothing is counted.
    Off,
    /// It is kept until it is taken.
    Kept(Arc<Mutex<Vec<LaunchCounters>>>),
    /// It is added to a file, or else written to the standard error.
    Written(Option<PathBuf>),
}

impl Counting {
    /// What the environment wants.
    pub(super) fn from_env() -> Self {
        match std::env::var_os(VARIABLE) {
            None => Counting::Off,
            Some(value) if value.is_empty() || value == "0" => Counting::Off,
            Some(value) if value == "1" => Counting::Written(None),
            Some(value) => Counting::Written(Some(value.into())),
        }
    }

    pub(super) fn kept() -> Self {
        Counting::Kept(Arc::default())
    }

    /// What is kept, which it is no longer.
    pub(super) fn take(&self) -> Vec<LaunchCounters> {
        match self {
            Counting::Kept(kept) => std::mem::take(&mut lock(kept)),
            Counting::Off | Counting::Written(_) => Vec::new(),
        }
    }

    pub(super) fn launch(
        &self,
        kernel: &str,
        config: &LaunchConfig,
        options: Options<'_>,
        body: &(dyn Fn() + Sync),
    ) -> Result<(), Error> {
        let counted = || launch_counted(kernel, config, options, body);
        match self {
            Counting::Off => launch_with(kernel, config, options, body)?,
            Counting::Kept(kept) => {
                let counters = counted()?;
                lock(kept).push(counters);
            }
            Counting::Written(None) => eprint!("{}", counted()?),
            Counting::Written(Some(path)) => {
                let counters = counted()?;
                if let Err(error) = append(path, &counters) {
                    eprintln!("{VARIABLE}: {}: {error}\n{counters}", path.display());
                }
            }
        }
        Ok(())
    }
}

fn append(path: &PathBuf, text: &impl Display) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(text.to_string().as_bytes())
}
