// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output files that appear whole or not at all: written beside the target, then renamed. The name `-` stands for
//! standard output.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tempfile::{Builder, NamedTempFile};

use crate::input::is_stream;
use crate::session::print_by;

/// An output that has not been written yet. Dropped without [`commit`](Self::commit), it leaves nothing.
pub struct Output {
    /// As the user gave it.
    path: PathBuf,
    /// Nothing for standard output.
    file: Option<NewFile>,
}

/// A file under another name than its own.
struct NewFile {
    /// Where the name leads, if it is a link: the link is kept.
    target: PathBuf,
    temporary: NamedTempFile,
}

impl Output {
    /// Fails, before any work is done, where the output could not be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = if is_stream(path) {
            None
        } else {
            Some(NewFile::create(path)?)
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
            Some(file) => file
                .commit(write)
                .with_context(|| format!("{}: cannot be written", self.path.display())),
        }
    }
}

impl NewFile {
    fn create(path: &Path) -> Result<Self> {
        let name = path.display();
        let existing = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => bail!("{name}: is a folder, wanted a file to write"),
            // A device must not be renamed away.
            Ok(metadata) if !metadata.is_file() => {
                bail!("{name}: is no regular file, wanted one to write")
            }
            Ok(metadata) if metadata.permissions().readonly() => {
                bail!("{name}: is read-only, wanted a file to write")
            }
            Ok(metadata) => Some(metadata.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("{name}: cannot be written")),
        };
        if path.file_name().is_none() {
            bail!("{name}: is no name of a file, wanted one to write");
        }
        let target = match existing {
            Some(_) => fs::canonicalize(path).with_context(|| format!("{name}: cannot be written"))?,
            None => path.to_path_buf(),
        };
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        ensure!(
            folder.is_dir(),
            "{name}: cannot be written, {} is no folder",
            folder.display()
        );
        // The mask of the process applies to 0666, as for any new file.
        let temporary = Builder::new()
            .prefix(".warpsmith-")
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .with_context(|| format!("{name}: cannot be written"))?;
        if let Some(permissions) = existing {
            fs::set_permissions(temporary.path(), permissions).with_context(|| format!("{name}: cannot be written"))?;
        }
        Ok(Self { target, temporary })
    }

    fn commit(mut self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let mut writer = BufWriter::with_capacity(1 << 20, self.temporary.as_file_mut());
        write(&mut writer)?;
        writer.flush()?;
        drop(writer);
        self.temporary.persist(&self.target).map_err(|error| error.error)?;
        Ok(())
    }
}
