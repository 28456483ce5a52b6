// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output files that appear whole or not at all: written beside the target, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tempfile::{Builder, NamedTempFile};

/// An output file that does not exist yet. Dropped without [`commit`](Self::commit), it leaves nothing.
pub struct Output {
    /// As the user gave it.
    path: PathBuf,
    /// Where it leads, if it is a link: the link is kept.
    target: PathBuf,
    temporary: NamedTempFile,
}

impl Output {
    /// Fails, before any work is done, where the file could not be written.
    pub fn create(path: &Path) -> Result<Self> {
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
        Ok(Self {
            path: path.to_path_buf(),
            target,
            temporary,
        })
    }

    /// Writes the file's contents and gives it its name.
    pub fn commit(mut self, write: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>) -> Result<()> {
        let context = || format!("{}: cannot be written", self.path.display());
        let mut writer = BufWriter::with_capacity(1 << 20, self.temporary.as_file_mut());
        write(&mut writer).with_context(context)?;
        writer.flush().with_context(context)?;
        drop(writer);
        self.temporary
            .persist(&self.target)
            .map_err(|error| error.error)
            .with_context(context)?;
        Ok(())
    }
}
