// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that appear whole or not at all: written beside their place under another name, then renamed.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// The place of a file that is being written. Dropped without [`commit`](Self::commit), what was written is removed, and
/// the place is as it was.
#[derive(Debug)]
pub struct NewFile {
    /// Where the name leads, if it is a link: the link is kept.
    target: PathBuf,
    /// What is written until then.
    temporary: PathBuf,
}

impl NewFile {
    /// The place, and the file to write to. A file that is there already keeps its permissions.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for a folder, a device or a pipe, and what is read-only; [`Error::Io`] where no file can be made.
    pub fn create(path: &Path) -> Result<(Self, File)> {
        let name = || path.display().to_string();
        let io = |source| Error::Io { file: name(), source };
        let existing = existing(path, name())?;
        let target = match existing {
            Some(_) => fs::canonicalize(path).map_err(io)?,
            None => path.to_path_buf(),
        };
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            let problem = format!("cannot be written, {} is no folder", folder.display());
            return Err(io(io::Error::new(ErrorKind::NotFound, problem)));
        }
        let (temporary, file) = create_beside(folder).map_err(io)?;
        let place = Self { target, temporary };
        if let Some(permissions) = existing {
            file.set_permissions(permissions).map_err(io)?;
        }
        Ok((place, file))
    }

    /// Gives the file its name, in the place of one that is there, once all is written.
    ///
    /// # Errors
    ///
    /// Those of the rename; what was written is then removed.
    pub fn commit(mut self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.target)?;
        self.temporary.clear();
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.temporary.as_os_str().is_empty() {
            // Nothing is left to be done where it cannot be removed.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// The permissions of what is there; an error if that is no file that may be written.
fn existing(path: &Path, name: String) -> Result<Option<Permissions>> {
    let refuse = |problem: &str| {
        Err(Error::File {
            file: name.clone(),
            problem: problem.into(),
        })
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => refuse("is a folder, wanted a file to write"),
        // A device must not be renamed away.
        Ok(metadata) if !metadata.is_file() => refuse("is no regular file, wanted one to write"),
        Ok(metadata) if metadata.permissions().readonly() => refuse("is read-only, wanted a file to write"),
        Ok(metadata) => Ok(Some(metadata.permissions())),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.file_name() {
            Some(_) => Ok(None),
            None => refuse("is no name of a file, wanted one to write"),
        },
        Err(source) => Err(Error::Io { file: name, source }),
    }
}

/// A new file of a name that no other has.
fn create_beside(folder: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".warpsmith-{}-{count}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            // Left by a process of the same number, which was killed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (path, file)),
        }
    }
}
