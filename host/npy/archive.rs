// SPDX-License-Identifier: MIT OR Apache-2.0
//! NumPy's `.npz` archives: ZIP files of `.npy` files.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use ndarray::{Array, ArrayBase, Data, Dimension};
use zip::write::{SimpleFileOptions, ZipWriter};
use zip::{CompressionMethod, ZipArchive};

use super::{NpyElement, load, read_array, whole, write_array};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::new_file::NewFile;
use crate::stream::Stream;

/// An archive of named arrays: what `numpy.savez` and `numpy.savez_compressed` write.
///
/// # Examples
///
/// ```
/// use ndarray::{Ix1, Ix2};
/// use std::io::Cursor;
/// use warpsmith::npy::{NpzReader, NpzWriter};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let mut archive = NpzWriter::new(Cursor::new(Vec::new()));
/// archive.add("weights", &DeviceArray::<f32, Ix2>::eye(stream, 3)?)?;
/// archive.add("bias", &DeviceArray::<f32, Ix1>::ones(stream, 3)?)?;
///
/// let mut archive = NpzReader::new(archive.finish()?)?;
/// assert_eq!(archive.names(), ["weights", "bias"]);
/// let weights: DeviceArray<f32, Ix2> = archive.load(stream, "weights")?;
/// assert_eq!(weights.sum()?, 3.0);
/// # Ok(())
/// # }
/// ```
pub struct NpzReader<R> {
    archive: ZipArchive<R>,
    file: String,
}

impl<R> fmt::Debug for NpzReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NpzReader")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl NpzReader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read, [`Error::File`] if it is no archive.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => Self::of(BufReader::new(file), name),
            Err(source) => Err(Error::Io { file: name, source }),
        }
    }
}

impl<R: Read + Seek> NpzReader<R> {
    /// Opens an archive in a reader.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the reader fails, [`Error::File`] if there is no archive.
    pub fn new(reader: R) -> Result<Self> {
        Self::of(reader, STREAM.into())
    }

    fn of(reader: R, file: String) -> Result<Self> {
        match ZipArchive::new(reader) {
            Ok(archive) => Ok(Self { archive, file }),
            Err(error) => Err(archive_error(&file, "no valid .npz archive", error.into())),
        }
    }

    /// The names of the arrays, in the archive's order.
    pub fn names(&self) -> Vec<&str> {
        let names = self.archive.file_names();
        names.filter_map(|name| name.strip_suffix(".npy")).collect()
    }

    /// Loads the array of that name.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if there is none; those of [`DeviceArray::load_npy`].
    pub fn load<T: NpyElement, D: Dimension>(&mut self, stream: &Stream, name: &str) -> Result<DeviceArray<T, D>> {
        self.member(name, |member, len, called| load(stream, member, len, called))
    }

    /// Loads the array of that name to the host, in the archive's order of the axes.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), but for those of a device.
    pub fn load_ndarray<T: NpyElement, D: Dimension>(&mut self, name: &str) -> Result<Array<T, D>> {
        self.member(name, |member, len, called| {
            whole::<T, D, _>(member, len, called, |member, header, dim| {
                read_array(member, header, dim, called)
            })
        })
    }

    /// What `load` makes of the file of that name in the archive, its length and what errors call it.
    fn member<A>(&mut self, name: &str, load: impl FnOnce(&mut dyn Read, Option<u64>, &str) -> Result<A>) -> Result<A> {
        if !self.names().contains(&name) {
            let names = self.names().join(", ");
            return Err(Error::File {
                file: self.file.clone(),
                problem: format!("no array {name:?} in the archive, wanted one of {names}"),
            });
        }
        let called = format!("{}:{name}", self.file);
        match self.archive.by_name(&format!("{name}.npy")) {
            Ok(mut member) => {
                let len = member.size();
                load(&mut member, Some(len), &called)
            }
            Err(error) => Err(archive_error(&called, "cannot be read", error.into())),
        }
    }
}

/// Writes an archive of named arrays, uncompressed, as `numpy.savez` does.
pub struct NpzWriter<W: Write + Seek> {
    archive: ZipWriter<W>,
    file: String,
    /// Where it is to be, if it is a file.
    place: Option<NewFile>,
}

impl<W: Write + Seek> fmt::Debug for NpzWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NpzWriter")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl NpzWriter<BufWriter<File>> {
    /// Creates a file. It is there, in the place of one of that name, when [`finish`](Self::finish) has returned; without
    /// that nothing has changed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be written, [`Error::File`] for what is no file or read-only.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (place, file) = NewFile::create(path)?;
        let writer = Self::of(BufWriter::new(file), path.display().to_string());
        Ok(Self {
            place: Some(place),
            ..writer
        })
    }
}

impl<W: Write + Seek> NpzWriter<W> {
    /// An archive that is written to a writer.
    pub fn new(writer: W) -> Self {
        Self::of(writer, STREAM.into())
    }

    fn of(writer: W, file: String) -> Self {
        Self {
            archive: ZipWriter::new(writer),
            file,
            place: None,
        }
    }

    /// Adds an array or a view under a name that no other has. Waits for the work that it depends on.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the archive has an array of that name, [`Error::Io`] if the writer fails; those of
    /// [`to_ndarray`](crate::DeviceArrayRef::to_ndarray).
    pub fn add<T: NpyElement, D: Dimension>(&mut self, name: &str, array: &DeviceArrayRef<T, D>) -> Result<()> {
        self.add_ndarray(name, &array.to_ndarray()?)
    }

    /// Adds an array of the host's under a name that no other has.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the archive has an array of that name, [`Error::Io`] if the writer fails.
    pub fn add_ndarray<T: NpyElement, S: Data<Elem = T>, D: Dimension>(
        &mut self,
        name: &str,
        array: &ArrayBase<S, D>,
    ) -> Result<()> {
        // With room for the header; such files have wider fields for their lengths.
        let large = array.len() * size_of::<T>() >= u32::MAX as usize / 2;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(large);
        let added = self.archive.start_file(format!("{name}.npy"), options);
        let added = added
            .map_err(Into::into)
            .and_then(|()| write_array(&mut self.archive, array));
        added.map_err(|error| archive_error(&self.file, &format!("array {name:?} cannot be added"), error))
    }

    /// Writes the archive's directory, and gives back the writer.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the writer fails.
    pub fn finish(self) -> Result<W> {
        let Self { archive, file, place } = self;
        let finish = || {
            let mut writer = archive.finish()?;
            writer.flush()?;
            place.map_or(Ok(()), NewFile::commit)?;
            Ok(writer)
        };
        finish().map_err(|source| Error::Io { file, source })
    }
}

/// What errors call a reader or a writer.
const STREAM: &str = "npz stream";

/// What the archive is, where the operating system has nothing to say.
fn archive_error(file: &str, problem: &str, error: io::Error) -> Error {
    let file = file.to_string();
    match error.raw_os_error() {
        Some(_) => Error::Io { file, source: error },
        None => Error::File {
            file,
            problem: format!("{problem}: {error}"),
        },
    }
}
