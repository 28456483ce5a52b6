// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are larger than memory, in parts along the first axis, each read straight into page-locked memory.
//!
//! Nothing is mapped: a file that becomes shorter while it is mapped ends the process, and one that is read is an error.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ndarray::{Array, RemoveAxis, ShapeBuilder};

use super::{Contents, Header, NpyElement, put_right};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::pinned::PinnedArray;
use crate::pipeline::Chunk;

/// A `.npy` file of which parts are read, for a [`Pipeline`](crate::Pipeline). Clones are the same file.
///
/// # Examples
///
/// ```
/// use ndarray::{Array2, Axis, Ix2};
/// use warpsmith::npy::NpyFile;
/// use warpsmith::{Device, DeviceArray, Pipeline};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::auto()?;
/// # let path = std::env::temp_dir().join(format!("warpsmith-part-{}.npy", std::process::id()));
/// # let x = Array2::<f32>::ones((1000, 30));
/// # DeviceArray::from_ndarray(device.default_stream(), &x)?.save_npy(&path)?;
/// let file = NpyFile::<f32, Ix2>::open(&path)?;
/// let pipeline = Pipeline::new(&device);
/// let chunks = file.chunks(pipeline.chunk_len(file.row_bytes())?);
/// let zero = DeviceArray::<f32, _>::zeros(device.default_stream(), 30)?;
/// let columns = pipeline.load(chunks).try_fold(zero, |sum, x| sum.add(&x?.sum_axis(Axis(0))?))?;
/// assert_eq!(columns.to_ndarray()?[29], 1000.0);
/// # std::fs::remove_file(path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NpyFile<T, D> {
    file: Arc<File>,
    contents: Arc<Contents<D>>,
    _element: std::marker::PhantomData<T>,
}

/// Rows of a file, to be read by a pipeline; made by [`NpyFile::part`].
#[derive(Clone, Debug)]
pub struct NpyPart<T, D> {
    file: NpyFile<T, D>,
    rows: Range<usize>,
}

impl<T: NpyElement, D: RemoveAxis> NpyFile<T, D> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read, [`Error::File`] if it is damaged, holds elements of another type, or an
    /// array with another number of axes or none; [`Error::Io`] as well for what is no file, such as a pipe.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let name = path.as_ref().display().to_string();
        let io = |source| Error::Io {
            file: name.clone(),
            source,
        };
        let file = File::open(&path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(io(io::Error::new(
                ErrorKind::InvalidInput,
                "is no regular file, wanted one",
            )));
        }
        let contents = Contents::<D>::read::<T>(&mut &file, &name)?;
        contents.check_len::<T>(metadata.len())?;
        if contents.dim.ndim() == 0 {
            return Err(contents.bad("holds a single number, wanted an array with an axis".into()));
        }
        Ok(Self {
            file: Arc::new(file),
            contents: Arc::new(contents),
            _element: std::marker::PhantomData,
        })
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.contents.dim.slice()
    }

    /// The length of the first axis.
    pub fn rows(&self) -> usize {
        self.contents.dim[0]
    }

    /// The bytes of an element of the first axis.
    pub fn row_bytes(&self) -> usize {
        self.shape()[1..].iter().product::<usize>() * size_of::<T>()
    }

    /// Those elements of the first axis.
    ///
    /// # Panics
    ///
    /// If the file has fewer.
    pub fn part(&self, rows: Range<usize>) -> NpyPart<T, D> {
        let file = self.clone();
        assert!(
            rows.start <= rows.end && rows.end <= self.rows(),
            "{}: rows {rows:?} of shape {:?}",
            self.contents.file,
            self.shape()
        );
        NpyPart { file, rows }
    }

    /// The whole array in parts of `rows` elements of the first axis each, in order; the last one may have fewer.
    ///
    /// # Panics
    ///
    /// If `rows` is 0.
    pub fn chunks(&self, rows: usize) -> impl Iterator<Item = NpyPart<T, D>> + Send + use<T, D> {
        let file = self.clone();
        let starts = (0..self.rows()).step_by(rows);
        starts.map(move |start| file.part(start..start.saturating_add(rows).min(file.rows())))
    }

    /// Reads the bytes of elements, from one of them on.
    fn read_at(&self, elements: &mut [T], first: usize) -> Result<()> {
        let at = self.contents.start + (first * size_of::<T>()) as u64;
        let read = self.file.read_exact_at(bytemuck::cast_slice_mut(elements), at);
        read.map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => {
                let claim = self.contents.claim::<T>();
                self.contents.bad(format!(
                    "truncated since it was opened: {claim}, fewer follow the header"
                ))
            }
            _ => Error::Io {
                file: self.contents.file.clone(),
                source,
            },
        })
    }
}

/// Of a file in Fortran order, a part is read in as many pieces as a row has elements, and put in order.
impl<T: NpyElement, D: RemoveAxis> Chunk for NpyPart<T, D> {
    type Elem = T;
    type Dim = D;
    type Error = Error;

    fn load(self, device: &Device) -> Result<PinnedArray<T, D>> {
        let (file, rows) = (&self.file, self.rows);
        let header: &Header = &file.contents.header;
        let mut dim = file.contents.dim.clone();
        dim[0] = rows.len();
        if !header.fortran_order || dim.ndim() == 1 {
            let mut array = PinnedArray::uninit(device.backend(), dim)?;
            let elements = array.elements_mut();
            file.read_at(elements, rows.start * (file.row_bytes() / size_of::<T>()))?;
            put_right(header, elements, &file.contents.file)?;
            return Ok(array);
        }
        let mut elements = vec![T::zeroed(); dim.size()];
        if !rows.is_empty() {
            for (i, run) in elements.chunks_exact_mut(rows.len()).enumerate() {
                file.read_at(run, i * file.rows() + rows.start)?;
            }
        }
        put_right(header, &mut elements, &file.contents.file)?;
        let array = Array::from_shape_vec(dim.f(), elements).expect("as many elements as the shape has");
        PinnedArray::from_ndarray(device, &array)
    }
}
