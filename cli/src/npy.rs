// SPDX-License-Identifier: MIT OR Apache-2.0
//! NumPy's .npy files. The header is read and checked against the file's length before anything is
//! allocated, so that no file makes the program ask for more memory than the file has bytes.
//! What comes from standard input has no length; its elements are asked for as the header claims them, up to what is
//! free on the device.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ndarray::{Array, ArrayD, Dimension, IxDyn, ShapeBuilder};
use ndarray_npy::npy::header::{Header, ParseHeaderError, ReadHeaderError};
use warpsmith::{Device, DeviceArray, Element};
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::input::Input;
use crate::output::Output;
use crate::scalar::{Number, Scalar};
use crate::stored::Stored;

const MAGIC: &[u8] = b"\x93NUMPY";

/// NumPy refuses longer headers too.
const MAX_HEADER: usize = 10_000;

/// How deep brackets may nest. Two levels are what a header of plain numbers has; the parser's time
/// is exponential in it.
const MAX_NESTING: usize = 4;

/// The elements of a file begin at a multiple of this.
const ALIGNMENT: usize = 64;

/// An array in a file, whose header is known.
#[derive(Debug)]
pub struct NpyFile {
    input: Input,
    pub stored: Stored,
    pub shape: Vec<usize>,
    fortran_order: bool,
    big_endian: bool,
    /// Where the elements begin.
    start: usize,
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
        let bytes = input.read(header_bytes)?;
        let header = Header::from_reader(&mut bytes.as_slice()).map_err(|error| {
            let cause = match &error {
                ReadHeaderError::Parse(ParseHeaderError::DictParse(_)) => "is no Python dictionary".into(),
                ReadHeaderError::Parse(cause) => cause.to_string(),
                other => other.to_string(),
            };
            anyhow!("no valid .npy header: {}", shortened(&cause))
        })?;
        let descr = &header.type_descriptor;
        let name = descr
            .as_string()
            .ok_or_else(|| Stored::refuse(&shortened(&descr.to_string())))?;
        let stored = Stored::from_descr(&shortened(name))?;
        let file = Self {
            stored,
            big_endian: name.starts_with('>'),
            fortran_order: header.layout.is_fortran(),
            shape: header.shape,
            start: bytes.len(),
            input,
        };
        let wanted = file.bytes(stored.size())? as u64;
        if let Some(len) = file.input.len()? {
            let found = len.saturating_sub(file.start as u64);
            let claim = || format!("{}, the file has {found}", file.claim(wanted));
            ensure!(found >= wanted, "truncated: {}", claim());
            ensure!(found <= wanted, "more than one array in the file: {}", claim());
        }
        Ok(file)
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        self.input.name()
    }

    fn claim(&self, bytes: u64) -> String {
        format!("shape {:?} of {} takes {bytes} bytes", self.shape, self.stored)
    }

    /// Bytes of so many elements, of that size each.
    fn bytes(&self, size: usize) -> Result<usize> {
        byte_len(&self.shape, size).ok_or_else(|| {
            anyhow!(
                "the header claims more elements than memory can hold, shape {:?} of {}",
                self.shape,
                self.stored
            )
        })
    }

    /// The axis, which counts from the end if it is negative.
    pub fn axis(&self, operation: &str, axis: isize) -> Result<usize> {
        let axes = self.shape.len();
        resolve_axis(axis, axes).ok_or_else(|| {
            anyhow!(
                "{}: {operation}: given axis {axis}, wanted one of the {axes} of shape {:?}{}",
                self.name(),
                self.shape,
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
        let free = device.free_memory()?;
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
        let shape = IxDyn(&self.shape).set_f(self.fortran_order);
        Ok(ArrayD::from_shape_vec(shape, elements)?)
    }

    /// Reads the file's elements, in the machine's byte order.
    fn fill(&self, elements: &mut [u8]) -> Result<()> {
        let wanted = elements.len() as u64;
        self.input.read_on(self.start as u64, |reader| {
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
        if self.big_endian {
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
    let archive = output.path().extension().is_some_and(|extension| extension == "npz");
    output.commit(|writer| {
        if !archive {
            return write_npy(writer, array, stored);
        }
        let mut archive = ZipWriter::new_stream(writer);
        let large = array.len().saturating_mul(stored.size()) >= u32::MAX as usize / 2;
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .large_file(large);
        archive.start_file("arr_0.npy", options)?;
        write_npy(&mut archive, array, stored)?;
        archive.finish()?;
        Ok(())
    })
}

fn write_npy<T: Number, D: Dimension>(writer: &mut dyn Write, array: &Array<T, D>, stored: Stored) -> Result<()> {
    writer.write_all(&header(array.shape(), stored))?;
    let elements = array.as_standard_layout();
    let elements: &[u8] = bytemuck::cast_slice(elements.as_slice().context("elements in C order")?);
    match stored == Stored::Of(T::DTYPE) {
        true => writer.write_all(elements)?,
        false => writer.write_all(&stored.narrow(elements, size_of::<T>()))?,
    }
    Ok(())
}

/// The header of an array in C order, as NumPy writes it.
fn header(shape: &[usize], stored: Stored) -> Vec<u8> {
    let order = if stored.size() == 1 { '|' } else { '<' };
    let axes = match shape {
        [len] => format!("{len},"),
        _ => shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut text = format!(
        "{{'descr': '{order}{}', 'fortran_order': False, 'shape': ({axes}), }}",
        stored.numpy_name()
    );
    let prefix = MAGIC.len() + 4;
    let len = (prefix + text.len() + 1).next_multiple_of(ALIGNMENT) - prefix;
    text.extend(std::iter::repeat_n(' ', len - 1 - text.len()));
    text.push('\n');
    // Every shape that was read from a header, which is shorter than MAX_HEADER, fits in one again.
    [MAGIC, &[1, 0], &(len as u16).to_le_bytes(), text.as_bytes()].concat()
}

/// Copies an array to the device's default stream.
pub fn upload<T: Scalar>(device: &Device, array: &ArrayD<T>) -> warpsmith::Result<DeviceArray<T, IxDyn>> {
    DeviceArray::from_ndarray(device.default_stream(), array)
}

/// The header's bytes from the magic string to the last newline, if they can be parsed at little cost.
fn header_bytes(file: &mut dyn Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    (&mut *file).take(10).read_to_end(&mut bytes)?;
    ensure!(!bytes.is_empty(), "is empty");
    ensure!(
        bytes.starts_with(MAGIC),
        "is no .npy file (it does not start with \\x93NUMPY)"
    );
    // The second version has four bytes for the length.
    let wide = bytes.get(6).is_some_and(|&version| version != 1);
    (&mut *file).take(if wide { 2 } else { 0 }).read_to_end(&mut bytes)?;
    let (prefix, len) = match *bytes.as_slice() {
        [_, _, _, _, _, _, 1, _, a, b] => (10, u32::from_le_bytes([a, b, 0, 0])),
        [_, _, _, _, _, _, _, _, a, b, c, d] => (12, u32::from_le_bytes([a, b, c, d])),
        _ => bail!("truncated in the header"),
    };
    let len = len as usize;
    ensure!(
        len <= MAX_HEADER,
        "the header claims {len} bytes, wanted at most {MAX_HEADER}"
    );
    let rest = (prefix + len).saturating_sub(bytes.len());
    file.take(rest as u64).read_to_end(&mut bytes)?;
    ensure!(bytes.len() >= prefix + len, "truncated in the header");
    bytes.truncate(prefix + len);
    ensure!(
        nesting(&bytes[prefix..]) <= MAX_NESTING,
        "no valid .npy header: brackets nest too deep"
    );
    Ok(bytes)
}

/// The greatest depth of brackets.
fn nesting(text: &[u8]) -> usize {
    let depths = text.iter().scan(0usize, |depth, byte| {
        match byte {
            b'(' | b'[' | b'{' => *depth += 1,
            b')' | b']' | b'}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    depths.max().unwrap_or(0)
}

/// Bytes of an array of that shape, unless an address cannot reach them; axes of length 0 do not hide
/// that of the others, which ndarray would refuse.
fn byte_len(shape: &[usize], element: usize) -> Option<usize> {
    let spanned = shape
        .iter()
        .filter(|&&len| len > 0)
        .try_fold(element, |bytes, &len| bytes.checked_mul(len))?;
    isize::try_from(spanned).ok()?;
    Some(if shape.contains(&0) { 0 } else { spanned })
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
            let bytes = [MAGIC, &[version, 0], &len, header.as_bytes(), &data].concat();
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

    #[test]
    fn sizes_that_no_address_reaches_are_refused() {
        assert_eq!(byte_len(&[3, 4], 4), Some(48));
        assert_eq!(byte_len(&[], 8), Some(8));
        assert_eq!(byte_len(&[0, 5], 8), Some(0));
        assert_eq!(byte_len(&[0, 1 << 40, 1 << 40], 4), None);
        assert_eq!(byte_len(&[1 << 62], 2), None);
    }

    #[test]
    fn nesting_is_the_deepest_level() {
        assert_eq!(nesting(b"{'shape': (3,), 'a': []}"), 2);
        assert_eq!(nesting(b"]]]((("), 3);
    }
}
