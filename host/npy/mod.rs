// SPDX-License-Identifier: MIT OR Apache-2.0
//! NumPy's files: `.npy`, of one array, and with the feature `npz` the archives `.npz`, of several.
//!
//! A file is not trusted: its header is checked against the file's length and the device's memory before anything is
//! allocated for the elements, and what has no length, such as a pipe, is read in pieces, so that nobody is made to take
//! more memory than there are bytes.
//!
//! An [`NpyFile`] is read in parts, by a [`Pipeline`](crate::Pipeline): of a file that is larger than memory.
//!
//! # Examples
//!
//! ```
//! use ndarray::Ix2;
//! use warpsmith::{Device, DeviceArray};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::auto()?;
//! let stream = device.default_stream();
//! let folder = std::env::temp_dir().join(format!("warpsmith-npy-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! let path = folder.join("x.npy");
//!
//! let x = DeviceArray::<f32, Ix2>::ones(stream, (3, 4))?;
//! x.save_npy(&path)?;
//! let y = DeviceArray::<f32, Ix2>::load_npy(stream, &path)?;
//! assert_eq!(y.to_ndarray()?, x.to_ndarray()?);
//!
//! let error = DeviceArray::<f64, Ix2>::load_npy(stream, &path).unwrap_err().to_string();
//! assert!(error.ends_with("x.npy: holds <f4 of shape [3, 4], wanted f8 (f64) with 2 axes"));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use half::f16;
use ndarray::{Array, ArrayBase, Data, Dimension, ShapeBuilder};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::new_file::NewFile;
use crate::stream::Stream;

#[cfg(feature = "npz")]
mod archive;
mod header;
mod part;

#[cfg(feature = "npz")]
pub use archive::{NpzReader, NpzWriter};
pub use header::Header;
pub use part::{NpyFile, NpyPart};

/// Bytes that are asked for at a time where it is not known how many there are.
const PIECE: usize = 1 << 20;

mod sealed {
    pub trait Sealed {}
}

/// The element types of NumPy's files: `f16`, `f32`, `f64`, and integers of 8 to 64 bits with and without sign. The bytes
/// of bool, each 0 or 1, are loaded as `u8`, which is what masks are here.
pub trait NpyElement: Element + sealed::Sealed {
    /// The type's name.
    #[doc(hidden)]
    const NAME: &'static str;
    /// NumPy's name, without the order of the bytes.
    #[doc(hidden)]
    const NUMPY: &'static str;
}

macro_rules! npy_elements {
    ($($type:ident = $numpy:literal),*) => {$(
        impl sealed::Sealed for $type {}

        impl NpyElement for $type {
            const NAME: &'static str = stringify!($type);
            const NUMPY: &'static str = $numpy;
        }
    )*};
}

npy_elements! {
    f16 = "f2", f32 = "f4", f64 = "f8",
    i8 = "i1", i16 = "i2", i32 = "i4", i64 = "i8",
    u8 = "u1", u16 = "u2", u32 = "u4", u64 = "u8"
}

/// NumPy's files.
impl<T: NpyElement, D: Dimension> DeviceArray<T, D> {
    /// Loads a `.npy` file, in either order of the axes and of the bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read, [`Error::File`] if it is damaged, or holds elements of another type or
    /// an array with another number of axes; [`Error::HostMemory`]; those of [`from_ndarray`](Self::from_ndarray).
    #[doc(alias = "load")]
    pub fn load_npy(stream: &Stream, path: impl AsRef<Path>) -> Result<Self> {
        let name = path.as_ref().display().to_string();
        let io = |source| Error::Io {
            file: name.clone(),
            source,
        };
        let mut file = File::open(&path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        // The length of a pipe means nothing.
        let len = metadata.is_file().then_some(metadata.len());
        load(stream, &mut file, len, &name)
    }

    /// Reads an array in the format of a `.npy` file from where the reader is, and no more.
    ///
    /// # Errors
    ///
    /// As [`load_npy`](Self::load_npy).
    pub fn read_npy(stream: &Stream, mut reader: impl Read) -> Result<Self> {
        let (header, dim) = wanted_header::<T, D>(&mut reader, STREAM)?;
        load_elements(stream, &mut reader, &header, dim, STREAM)
    }
}

/// NumPy's files of arrays and views.
impl<T: NpyElement, D: Dimension> DeviceArrayRef<T, D> {
    /// Saves the elements as a `.npy` file, in C order. Waits for the work that they depend on.
    ///
    /// The file is written beside its place, under another name, and then renamed: whatever goes wrong, an existing file
    /// stays as it is, and none is there in part.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be written, [`Error::File`] for what is no file, such as a pipe
    /// ([`write_npy`](Self::write_npy) is for those), or read-only; those of [`to_ndarray`](Self::to_ndarray).
    #[doc(alias = "save")]
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let (place, file) = NewFile::create(path.as_ref())?;
        let array = self.to_ndarray()?;
        let write = || {
            let mut writer = BufWriter::with_capacity(PIECE, file);
            write_array(&mut writer, &array)?;
            writer.flush()?;
            place.commit()
        };
        write().map_err(|source| Error::Io {
            file: path.as_ref().display().to_string(),
            source,
        })
    }

    /// Writes the elements in the format of a `.npy` file.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the writer fails; those of [`to_ndarray`](Self::to_ndarray).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Ix1, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1u16, 2, 3])?;
    /// let mut bytes = Vec::new();
    /// x.write_npy(&mut bytes)?;
    /// assert!(bytes.starts_with(b"\x93NUMPY"));
    /// let y = DeviceArray::<u16, Ix1>::read_npy(device.default_stream(), bytes.as_slice())?;
    /// assert_eq!(y.to_ndarray()?, array![1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_npy(&self, mut writer: impl Write) -> Result<()> {
        let array = self.to_ndarray()?;
        write_array(&mut writer, &array).map_err(|source| Error::Io {
            file: STREAM.into(),
            source,
        })
    }
}

/// What errors call a reader or a writer.
const STREAM: &str = "npy stream";

/// Loads a whole file, of which the length may be known.
fn load<T: NpyElement, D: Dimension>(
    stream: &Stream,
    reader: &mut dyn Read,
    len: Option<u64>,
    file: &str,
) -> Result<DeviceArray<T, D>> {
    whole::<T, D, _>(reader, len, file, |reader, header, dim| {
        load_elements(stream, reader, header, dim, file)
    })
}

/// What `read` makes of the header and the elements of a file in which there is nothing else.
fn whole<T: NpyElement, D: Dimension, A>(
    reader: &mut dyn Read,
    len: Option<u64>,
    file: &str,
    read: impl FnOnce(&mut dyn Read, &Header, D) -> Result<A>,
) -> Result<A> {
    let contents = Contents::<D>::read::<T>(reader, file)?;
    if let Some(len) = len {
        contents.check_len::<T>(len)?;
    }
    let array = read(reader, &contents.header, contents.dim.clone())?;
    match reader.read(&mut [0]) {
        Ok(0) => Ok(array),
        Ok(_) => {
            let claim = contents.claim::<T>();
            let problem = format!("more than one array in the file: {claim}, more follow the header");
            Err(contents.bad(problem))
        }
        Err(source) => Err(Error::Io {
            file: file.into(),
            source,
        }),
    }
}

/// What a file says of its array.
#[derive(Debug)]
struct Contents<D> {
    /// What errors call the file.
    file: String,
    header: Header,
    dim: D,
    /// Where the elements begin.
    start: u64,
}

impl<D: Dimension> Contents<D> {
    /// Reads the header, which must be one of elements `T` and as many axes as `D` has.
    fn read<T: NpyElement>(reader: &mut dyn Read, file: &str) -> Result<Self> {
        let mut counted = reader.take(u64::MAX);
        let (header, dim) = wanted_header::<T, D>(&mut counted, file)?;
        Ok(Self {
            file: file.into(),
            header,
            dim,
            start: u64::MAX - counted.limit(),
        })
    }

    fn bad(&self, problem: String) -> Error {
        Error::File {
            file: self.file.clone(),
            problem,
        }
    }

    /// Bytes of the elements.
    fn bytes<T: NpyElement>(&self) -> u64 {
        (self.dim.size() * size_of::<T>()) as u64
    }

    fn claim<T: NpyElement>(&self) -> String {
        let bytes = self.bytes::<T>();
        format!("shape {:?} of {} takes {bytes} bytes", self.header.shape, T::NAME)
    }

    /// An error unless the elements are what follows the header in a file of `len` bytes.
    fn check_len<T: NpyElement>(&self, len: u64) -> Result<()> {
        let (found, wanted) = (len.saturating_sub(self.start), self.bytes::<T>());
        let claim = || format!("{}, the file has {found}", self.claim::<T>());
        match found.cmp(&wanted) {
            Ordering::Less => Err(self.bad(format!("truncated: {}", claim()))),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(self.bad(format!("more than one array in the file: {}", claim()))),
        }
    }
}

/// The header and the shape, if they are of elements `T` and as many axes as `D` has.
fn wanted_header<T: NpyElement, D: Dimension>(reader: &mut dyn Read, file: &str) -> Result<(Header, D)> {
    let header = Header::read(reader, file)?;
    let bad = |problem| Error::File {
        file: file.into(),
        problem,
    };
    let name = header.descr.strip_prefix(['<', '>', '|', '=']).unwrap_or_default();
    let is_type = name == T::NUMPY || (name == "b1" && T::NUMPY == "u1");
    let is_dim = D::NDIM.is_none_or(|axes| axes == header.shape.len());
    if !is_type || !is_dim {
        let axes = match D::NDIM {
            None => String::new(),
            Some(1) => " with 1 axis".into(),
            Some(axes) => format!(" with {axes} axes"),
        };
        let descr: String = header.descr.chars().take(200).collect();
        let problem = format!(
            "holds {descr} of shape {:?}, wanted {} ({}){axes}",
            header.shape,
            T::NUMPY,
            T::NAME
        );
        return Err(bad(problem));
    }
    if header.byte_len(size_of::<T>()).is_none() {
        return Err(bad(format!(
            "the header claims more elements than memory can hold, shape {:?} of {}",
            header.shape,
            T::NAME
        )));
    }
    let mut dim = D::zeros(header.shape.len());
    dim.slice_mut().copy_from_slice(&header.shape);
    Ok((header, dim))
}

/// Reads the elements and copies them to the device, which has memory for them before they are read.
fn load_elements<T: NpyElement, D: Dimension>(
    stream: &Stream,
    reader: &mut dyn Read,
    header: &Header,
    dim: D,
    file: &str,
) -> Result<DeviceArray<T, D>> {
    let mut result = DeviceArray::uninit(stream, dim.clone())?;
    result.assign_ndarray(&read_array(reader, header, dim, file)?)?;
    Ok(result)
}

/// Reads the elements, in the file's order of the axes.
fn read_array<T: NpyElement, D: Dimension>(
    reader: &mut dyn Read,
    header: &Header,
    dim: D,
    file: &str,
) -> Result<Array<T, D>> {
    let mut elements = read_elements::<T>(reader, dim.size(), file)?;
    put_right(header, &mut elements, file)?;
    let shape = dim.set_f(header.fortran_order);
    Array::from_shape_vec(shape, elements).map_err(|error| Error::File {
        file: file.into(),
        problem: format!("shape {:?}: {error}", header.shape),
    })
}

/// Elements of a file in the machine's order of bytes; an error if there are other values of bool than two.
fn put_right<T: NpyElement>(header: &Header, elements: &mut [T], file: &str) -> Result<()> {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(elements);
    if header.descr.starts_with('>') {
        bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
    }
    if header.descr.ends_with("b1")
        && let Some(byte) = bytes.iter().find(|&&byte| byte > 1)
    {
        return Err(Error::File {
            file: file.into(),
            problem: format!("an element of bool is {byte}, wanted 0 or 1"),
        });
    }
    Ok(())
}

/// Reads so many elements, in pieces: memory is taken for what is there.
fn read_elements<T: NpyElement>(reader: &mut dyn Read, len: usize, file: &str) -> Result<Vec<T>> {
    let mut elements: Vec<T> = Vec::new();
    while elements.len() < len {
        let (done, piece) = (elements.len(), Ord::max(PIECE / size_of::<T>(), elements.len()));
        let piece = piece.min(len - done);
        elements.try_reserve_exact(piece).map_err(|_| Error::HostMemory {
            wanted: len * size_of::<T>(),
        })?;
        elements.resize(done + piece, T::zeroed());
        let into = bytemuck::cast_slice_mut(&mut elements[done..]);
        reader.read_exact(into).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => Error::File {
                file: file.into(),
                problem: format!(
                    "truncated: {len} elements of {} take {} bytes, fewer follow the header",
                    T::NAME,
                    len * size_of::<T>()
                ),
            },
            _ => Error::Io {
                file: file.into(),
                source,
            },
        })?;
    }
    Ok(elements)
}

/// Writes header and elements of an array in C order.
fn write_array<T: NpyElement, S: Data<Elem = T>, D: Dimension>(
    writer: &mut dyn Write,
    array: &ArrayBase<S, D>,
) -> io::Result<()> {
    let order = if size_of::<T>() == 1 { '|' } else { '<' };
    let header = Header::new(&format!("{order}{}", T::NUMPY), array.shape());
    writer.write_all(&header.to_bytes())?;
    let elements = array.as_standard_layout();
    match elements.as_slice() {
        Some(elements) => writer.write_all(bytemuck::cast_slice(elements)),
        None => unreachable!("an array in standard layout is a slice"),
    }
}
