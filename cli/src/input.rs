// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs: a file, an array in a .npz archive (`FILE.npz:NAME`, or `FILE.npz` where there is only one), or standard
//! input (`-`; a file of that name is `./-`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail, ensure};
use zip::ZipArchive;

/// Where an input's bytes come from.
#[derive(Debug)]
pub struct Input {
    name: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    File(PathBuf),
    /// The array of that name in an archive.
    Member(PathBuf, String),
    Stdin,
}

/// What an input holds, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Array,
    Picture,
    Other,
}

/// How the archives begin that .npz files are.
const ZIP: &[u8] = b"PK";

impl Input {
    /// Finds the input; nothing is read of standard input yet.
    pub fn open(path: &Path) -> Result<Self> {
        let name = match is_stream(path) {
            true => "standard input".into(),
            false => path.display().to_string(),
        };
        let source = Self::find(path).with_context(|| name.clone())?;
        Ok(Self { name, source })
    }

    fn find(path: &Path) -> Result<Source> {
        /// Whether standard input is an operand already.
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if is_stream(path) {
            ensure!(!TAKEN.swap(true, Ordering::Relaxed), "is given twice, wanted once");
            return Ok(Source::Stdin);
        }
        if !path.exists()
            && let Some((archive, member)) = split_member(path)
        {
            return member_of(archive, Some(member));
        }
        let mut first = Vec::new();
        open_regular(path)?.take(ZIP.len() as u64).read_to_end(&mut first)?;
        match first == ZIP {
            true => member_of(path, None),
            false => Ok(Source::File(path.to_path_buf())),
        }
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds; nothing of standard input is consumed.
    pub fn kind(&self) -> Result<Kind> {
        let first = match &self.source {
            Source::Member(..) => return Ok(Kind::Array),
            Source::File(path) => BufReader::new(open_regular(path)?).fill_buf()?.first().copied(),
            Source::Stdin => io::stdin().lock().fill_buf()?.first().copied(),
        };
        Ok(match first {
            Some(0x93) => Kind::Array,
            Some(0x89 | 0xff) => Kind::Picture,
            _ => Kind::Other,
        })
    }

    /// How many bytes there are, where that is known.
    pub fn len(&self) -> Result<Option<u64>> {
        Ok(match &self.source {
            Source::File(path) => Some(open_regular(path)?.metadata()?.len()),
            Source::Member(path, name) => Some(archive(path)?.by_name(name)?.size()),
            Source::Stdin => None,
        })
    }

    /// The file, of which any part can be read; none for what is no file by itself.
    pub fn file(&self) -> Result<Option<File>> {
        match &self.source {
            Source::File(path) => open_regular(path).map(Some),
            Source::Member(..) | Source::Stdin => Ok(None),
        }
    }

    /// Reads the bytes from the beginning; of standard input, those that nobody has read.
    pub fn read<R>(&self, read: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        match &self.source {
            Source::File(path) => read(&mut open_regular(path)?),
            Source::Member(path, name) => read(&mut archive(path)?.by_name(name)?),
            Source::Stdin => read(&mut io::stdin().lock()),
        }
    }

    /// Reads the bytes from the `position` that an earlier read has left off at.
    pub fn read_on<R>(&self, position: u64, read: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        self.read(|reader| {
            if !matches!(self.source, Source::Stdin) {
                io::copy(&mut (&mut *reader).take(position), &mut io::sink())?;
            }
            read(reader)
        })
    }
}

/// Whether the name stands for standard input or output.
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The two parts of `FILE.npz:NAME`.
fn split_member(path: &Path) -> Option<(&Path, &str)> {
    let text = path.to_str()?;
    let end = text.find(".npz:")? + ".npz".len();
    Some((Path::new(&text[..end]), &text[end + 1..]))
}

fn archive(path: &Path) -> Result<ZipArchive<BufReader<File>>> {
    let file = BufReader::new(open_regular(path)?);
    ZipArchive::new(file).map_err(|error| anyhow!("no valid .npz archive: {error}"))
}

/// The array of that name in an archive, or the only one.
fn member_of(path: &Path, name: Option<&str>) -> Result<Source> {
    let archive = archive(path)?;
    let arrays: Vec<&str> = archive
        .file_names()
        .filter_map(|name| name.strip_suffix(".npy"))
        .collect();
    let found = match (name, arrays.as_slice()) {
        (None, &[only]) => only,
        (Some(name), _) if arrays.contains(&name) => name,
        (_, []) => bail!("no array in the archive, wanted one"),
        _ => bail!(
            "wanted {}:NAME with the name of an array in it, one of {}",
            path.display(),
            arrays.join(", ")
        ),
    };
    Ok(Source::Member(path.to_path_buf(), format!("{found}.npy")))
}

/// Opens a file that is neither a folder nor a pipe, whose length means nothing.
fn open_regular(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(|error| anyhow!("cannot be read: {error}"))?;
    ensure!(!metadata.is_dir(), "is a folder, wanted a file");
    ensure!(metadata.is_file(), "is no regular file, wanted one");
    ensure!(metadata.len() > 0, "is empty");
    File::open(path).map_err(|error| anyhow!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_split_from_the_names_of_arrays() {
        let split = |text| split_member(Path::new(text)).map(|(path, name)| (path.to_str().unwrap(), name));
        assert_eq!(split("a.npz:x"), Some(("a.npz", "x")));
        assert_eq!(split("b:c/a.npz:x:y"), Some(("b:c/a.npz", "x:y")));
        assert_eq!(split("a.npz"), None);
        assert_eq!(split("a.npy:x"), None);
    }
}
