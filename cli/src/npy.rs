// SPDX-License-Identifier: MIT OR Apache-2.0
//! NumPy's .npy files. The header is read and checked against the file's length before anything is
//! allocated, so that no file makes the program ask for more memory than the file has bytes.
//! What comes from standard input has no length; its elements are asked for as the header claims them, up to what is
//! free on the device.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ndarray::{Array, ArrayD, Dimension, IxDyn, ShapeBuilder};
use warpsmith::npy::Header;
use warpsmith::{Device, DeviceArray, Element, Error};
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::input::Input;
use crate::output::Output;
use crate::pieces::Elements;
use crate::scalar::{Number, Scalar};
use crate::stored::Stored;

/// An array in a file, whose header is known.
#[derive(Debug)]
pub struct NpyFile {
    input: Input,
    pub stored: Stored,
    header: Header,
    /// Where the elements begin.
    start: u64,
}

impl NpyFile {
    pub fn open(path: &Path) -> Result<Self> {
        Self::of(Input::open(path)?)
    }

    pub fn of(input: Input) -> Result<Self> {
        let name = input.name().to_string();
        Self::parse(input).context(name)
    }

    fn parse(input: Input) -> Result<Self> {
        let (header, start) = input.read(|reader| {
            let mut counted = reader.take(u64::MAX);
            let header = Header::read(&mut counted, input.name()).map_err(|error| match error {
                Error::File { problem, .. } => anyhow!(problem),
                Error::Io { source, .. } => source.into(),
                other => other.into(),
            })?;
            Ok((header, u64::MAX - counted.limit()))
        })?;
        let descr = shortened(&header.descr);
        if header.is_structure() {
            return Err(Stored::refuse(&descr));
        }
        let stored = Stored::from_descr(&descr)?;
        let file = Self {
            input,
            stored,
            header,
            start,
        };
        let wanted = file.bytes(stored.size())? as u64;
        if let Some(len) = file.input.len()? {
            let found = len.saturating_sub(file.start);
            let claim = || format!("{}, the file has {found}", file.claim(wanted));
            ensure!(found >= wanted, "truncated: {}", claim());
            ensure!(found <= wanted, "more than one array in the file: {}", claim());
        }
        Ok(file)
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.header.shape
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        self.input.name()
    }

    /// Whether the first axis is contiguous, and there are others.
    pub fn is_fortran_order(&self) -> bool {
        self.header.fortran_order && self.shape().len() > 1
    }

    /// The elements, of which any can be read; none for what is no file by itself.
    pub fn open_elements(&self) -> Result<Option<Elements>> {
        let (Some(file), size) = (self.input.file()?, self.stored.size()) else {
            return Ok(None);
        };
        Ok(Some(Elements {
            file,
            stored: self.stored,
            is_big_endian: self.header.descr.starts_with('>'),
            start: self.start,
            len: self.bytes(size)? / size,
        }))
    }

    fn claim(&self, bytes: u64) -> String {
        format!("shape {:?} of {} takes {bytes} bytes", self.shape(), self.stored)
    }

    /// Bytes of so many elements, of that size each.
    fn bytes(&self, size: usize) -> Result<usize> {
        self.header.byte_len(size).ok_or_else(|| {
            anyhow!(
                "the header claims more elements than memory can hold, shape {:?} of {}",
                self.shape(),
                self.stored
            )
        })
    }

    /// The axis, which counts from the end if it is negative.
    pub fn axis(&self, operation: &str, axis: isize) -> Result<usize> {
        let axes = self.shape().len();
        resolve_axis(axis, axes).ok_or_else(|| {
            anyhow!(
                "{}: {operation}: given axis {axis}, wanted one of the {axes} of shape {:?}{}",
                self.name(),
                self.shape(),
                match axes {
                    0 => String::new(),
                    _ => format!(", from -{axes} to {}", axes - 1),
                }
            )
        })
    }

    /// Reads the elements, which must fit in the device's memory as numbers of type `T`: the file's own type, or a wider
    /// integer if that is bool, i8 or i16.
    pub fn read<T: Scalar>(&self, device: &Device) -> Result<ArrayD<T>> {
        self.elements(device).with_context(|| self.name().to_string())
    }

    fn elements<T: Scalar>(&self, device: &Device) -> Result<ArrayD<T>> {
        let free = device.memory()?.free;
        let bytes = self.bytes(size_of::<T>())?;
        if bytes as u64 > free {
            let id = &device.properties().id;
            bail!("{bytes} bytes of elements, wanted at most the {free} that are free on {id}");
        }
        let mut elements = zeros::<T>(bytes / size_of::<T>())?;
        if self.stored == Stored::Of(T::DTYPE) {
            self.fill(bytemuck::cast_slice_mut(&mut elements))?;
        } else {
            let mut narrow = zeros::<u8>(self.bytes(self.stored.size())?)?;
            self.fill(&mut narrow)?;
            let wide = bytemuck::cast_slice_mut(&mut elements);
            self.stored.widen(&narrow, size_of::<T>(), wide);
        }
        let shape = IxDyn(self.shape()).set_f(self.header.fortran_order);
        Ok(ArrayD::from_shape_vec(shape, elements)?)
    }

    /// Reads the file's elements, in the machine's byte order.
    fn fill(&self, elements: &mut [u8]) -> Result<()> {
        let wanted = elements.len() as u64;
        self.input.read_on(self.start, |reader| {
            match reader.read_exact(elements) {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    bail!("truncated: {}, fewer follow the header", self.claim(wanted))
                }
                other => other?,
            }
            ensure!(
                reader.read(&mut [0])? == 0,
                "more than one array in the file: {}, more follow the header",
                self.claim(wanted)
            );
            Ok(())
        })?;
        if self.header.descr.starts_with('>') {
            elements.chunks_exact_mut(self.stored.size()).for_each(<[u8]>::reverse);
        }
        self.stored.check(elements)
    }
}

/// So many zeros, unless the host lacks the memory: an allocation that fails would end the process.
fn zeros<T: Element>(len: usize) -> Result<Vec<T>> {
    let bytes = len * size_of::<T>();
    Vec::<T>::new()
        .try_reserve_exact(len)
        .map_err(|_| anyhow!("{bytes} bytes of elements, more than the host's memory"))?;
    // From the system's pages of zeros, which a vector that grows is not.
    Ok(vec![T::zeroed(); len])
}

/// The axis of so many, which counts from the end if it is negative.
fn resolve_axis(axis: isize, axes: usize) -> Option<usize> {
    let axis = match usize::try_from(axis) {
        Ok(axis) => axis,
        Err(_) => axes.checked_sub(axis.unsigned_abs())?,
    };
    (axis < axes).then_some(axis)
}

/// Writes an array as a .npy file of these elements: its own, or narrower ones that its integers are of. A name that ends
/// in .npz makes it the array `arr_0` of an archive, as `numpy.savez` calls it.
pub fn write<T: Number, D: Dimension>(output: Output, array: &Array<T, D>, stored: Stored) -> Result<()> {
    let header = header(array.shape(), stored);
    write_by(output, &header, stored, |writer| write_elements(writer, array, stored))
}

/// Writes an array of that header, whose elements `elements` writes.
pub fn write_by(
    output: Output,
    header: &Header,
    stored: Stored,
    elements: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let archive = output.path().extension().is_some_and(|extension| extension == "npz");
    output.commit(|writer| {
        if !archive {
            writer.write_all(&header.to_bytes())?;
            return elements(writer);
        }
        let mut archive = ZipWriter::new_stream(writer);
        let len: usize = header.shape.iter().product();
        let large = len.saturating_mul(stored.size()) >= u32::MAX as usize / 2;
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .large_file(large);
        archive.start_file("arr_0.npy", options)?;
        archive.write_all(&header.to_bytes())?;
        elements(&mut archive)?;
        archive.finish()?;
        Ok(())
    })
}

fn write_elements<T: Number, D: Dimension>(writer: &mut dyn Write, array: &Array<T, D>, stored: Stored) -> Result<()> {
    let elements = array.as_standard_layout();
    Ok(write_slice(
        writer,
        elements.as_slice().context("elements in C order")?,
        stored,
    )?)
}

/// Writes elements as those of that type.
pub fn write_slice<T: Number>(writer: &mut dyn Write, elements: &[T], stored: Stored) -> std::io::Result<()> {
    let elements: &[u8] = bytemuck::cast_slice(elements);
    match stored.narrow_from::<T>(elements) {
        None => writer.write_all(elements),
        Some(narrow) => writer.write_all(&narrow),
    }
}

/// The header of an array in C order.
pub fn header(shape: &[usize], stored: Stored) -> Header {
    let order = if stored.size() == 1 { '|' } else { '<' };
    Header::new(&format!("{order}{}", stored.numpy_name()), shape)
}

/// Copies an array to the device's default stream.
pub fn upload<T: Scalar>(device: &Device, array: &ArrayD<T>) -> warpsmith::Result<DeviceArray<T, IxDyn>> {
    DeviceArray::from_ndarray(device.default_stream(), array)
}

/// A text from a file, short enough for a message.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use ndarray_npy::WriteNpyExt;
    use proptest::prelude::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::scalar::{Dtype, dispatch};

    /// A file in which a few bytes are something else must give an array or an error.
    #[test]
    fn damaged_files_are_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.npy");
        let device = Device::simulator();
        let mut intact = Vec::new();
        ndarray::arr3(&[[[1.0f32, 2.0], [3.0, 4.0]]])
            .write_npy(&mut intact)
            .unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..1000 {
            let mut bytes = intact.clone();
            for _ in 0..rng.random_range(1..6) {
                let at = rng.random_range(6..bytes.len());
                // Characters of the header's grammar get further than random bytes.
                let characters = b"0123456789()[]{},:'\"<>=fiucTFb.ejx_\\N \n";
                bytes[at] = characters[rng.random_range(0..characters.len())];
            }
            bytes.truncate(rng.random_range(bytes.len() / 2..=2 * bytes.len()));
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(file) = NpyFile::open(&path) {
                let _ = dispatch!(file.stored.dtype(), T => file.read::<T>(&device).map(|array| array.len()));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// A header of any type and shape, over any number of bytes, is an array of exactly these bytes, or an error.
        #[test]
        fn any_header_is_read_or_refused(
            descr in prop::sample::select(vec!["<f4", ">f8", "<f2", "|u1", ">i2", "<i8", "=u2", "f4", "<c8", "|O", "", "<f4'"]),
            fortran in prop::sample::select(vec!["True", "False", "1"]),
            shape in prop::collection::vec(prop_oneof![0u64..5, any::<u64>()], 0..5),
            version in 0u8..4,
            claimed in prop::option::of(any::<u16>()),
            data in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let axes: String = shape.iter().map(|len| format!("{len}, ")).collect();
            let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({axes}), }}\n");
            let len = claimed.map_or(header.len() as u32, u32::from);
            let len = if version == 1 { (len as u16).to_le_bytes().to_vec() } else { len.to_le_bytes().to_vec() };
            let bytes = [b"\x93NUMPY", &[version, 0][..], &len, header.as_bytes(), &data].concat();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("any.npy");
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(file) = NpyFile::open(&path) {
                prop_assert_eq!(shape.iter().product::<u64>() * file.stored.size() as u64, data.len() as u64);
                let read = dispatch!(file.stored.dtype(), T => file.read::<T>(&Device::simulator()).map(|array| array.len()));
                prop_assert_eq!(read.unwrap() as u64, shape.iter().product::<u64>());
            }
        }
    }
}
