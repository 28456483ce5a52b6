// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output files that appear whole or not at all: written beside the target, then renamed. The name `-` stands for
//! standard output.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use warpsmith::{Error, NewFile};

use crate::input::is_stream;
use crate::session::print_by;

/// An output that has not been written yet. Dropped without [`commit`](Self::commit), it leaves nothing.
pub struct Output {
    /// As the user gave it.
    path: PathBuf,
    /// Nothing for standard output.
    file: Option<(NewFile, File)>,
}

impl Output {
    /// Fails, before any work is done, where the output could not be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = if is_stream(path) {
            None
        } else {
            Some(NewFile::create(path).map_err(|error| match error {
                Error::Io { file, source } if source.raw_os_error().is_some() => {
                    anyhow::Error::from(source).context(format!("{file}: cannot be written"))
                }
                other => other.into(),
            })?)
        };
        Ok(Self {
            path: path.to_path_buf(),
            file,
        })
    }

    /// As the user gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the output's contents, and gives a file its name.
    pub fn commit(self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        match self.file {
            None => print_by(write),
            Some((place, file)) => {
                commit(place, file, write).with_context(|| format!("{}: cannot be written", self.path.display()))
            }
        }
    }
}

fn commit(place: NewFile, file: File, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    write(&mut writer)?;
    writer.flush()?;
    Ok(place.commit()?)
}
