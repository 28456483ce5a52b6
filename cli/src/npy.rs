// SPDX-License-Identifier: MIT OR Apache-2.0
//! NumPy's .npy files. The header is read and checked against the file's length before anything is
//! allocated, so that no file makes the program ask for more memory than the file has bytes.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use ndarray::{Array, ArrayD, Dimension};
use ndarray_npy::npy::header::{Header, ParseHeaderError, ReadHeaderError};
use ndarray_npy::{ReadNpyExt, WritableElement, WriteNpyExt};
use warpsmith::{Device, DeviceArray};

use crate::output::Output;
use crate::scalar::{Dtype, Scalar};

const MAGIC: &[u8] = b"\x93NUMPY";

/// NumPy refuses longer headers too.
const MAX_HEADER: usize = 10_000;

/// How deep brackets may nest. Two levels are what a header of plain numbers has; the parser's time
/// is exponential in it.
const MAX_NESTING: usize = 4;

/// A .npy file whose header is known.
#[derive(Debug)]
pub struct NpyFile {
    path: PathBuf,
    file: File,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// Bytes of the elements.
    bytes: usize,
}

impl NpyFile {
    pub fn open(path: &Path) -> Result<Self> {
        Self::parse(path).with_context(|| path.display().to_string())
    }

    fn parse(path: &Path) -> Result<Self> {
        let mut file = open_regular(path)?;
        let file_len = file.metadata()?.len();
        let bytes = header_bytes(&mut file)?;
        let header = Header::from_reader(&mut bytes.as_slice()).map_err(|error| {
            let cause = match &error {
                ReadHeaderError::Parse(ParseHeaderError::DictParse(_)) => "is no Python dictionary".into(),
                ReadHeaderError::Parse(cause) => cause.to_string(),
                other => other.to_string(),
            };
            anyhow!("no valid .npy header: {}", shortened(&cause))
        })?;
        let dtype = dtype(&header)?;
        let elements = byte_len(&header.shape, dtype.size()).ok_or_else(|| {
            anyhow!(
                "the header claims more elements than memory can hold, shape {:?} of {dtype}",
                header.shape
            )
        })?;
        let (wanted, found) = (elements as u64, file_len - bytes.len() as u64);
        let claim = || {
            format!(
                "shape {:?} of {dtype} takes {wanted} bytes, the file has {found}",
                header.shape
            )
        };
        ensure!(found >= wanted, "truncated: {}", claim());
        ensure!(found <= wanted, "more than one array in the file: {}", claim());
        file.rewind()?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            dtype,
            shape: header.shape,
            bytes: elements,
        })
    }

    /// An error unless the array has that axis.
    pub fn ensure_axis(&self, operation: &str, axis: usize) -> Result<()> {
        let axes = self.shape.len();
        ensure!(
            axis < axes,
            "{}: {operation}: given axis {axis}, wanted one of the {axes} of shape {:?}, counted from 0",
            self.path.display(),
            self.shape
        );
        Ok(())
    }

    /// Reads the elements, which must fit in the device's memory.
    pub fn read<T: Scalar>(&self, device: &Device) -> Result<ArrayD<T>> {
        let context = || self.path.display().to_string();
        let free = device.free_memory()?;
        if self.bytes as u64 > free {
            let id = &device.properties().id;
            bail!(
                "{}: {} bytes of elements, wanted at most the {free} that are free on {id}",
                context(),
                self.bytes
            );
        }
        // The reader's own allocation would end the process where the host has less memory than the device.
        Vec::<u8>::new().try_reserve_exact(self.bytes).map_err(|_| {
            anyhow!(
                "{}: {} bytes of elements, more than the host's memory",
                context(),
                self.bytes
            )
        })?;
        ArrayD::read_npy(&self.file).with_context(context)
    }
}

/// Writes an array as a .npy file.
pub fn write<T: WritableElement, D: Dimension>(output: Output, array: &Array<T, D>) -> Result<()> {
    output.commit(|writer| Ok(array.write_npy(writer)?))
}

/// Copies an array to the device's default stream.
pub fn upload<T: Scalar>(device: &Device, array: &ArrayD<T>) -> warpsmith::Result<DeviceArray<T, ndarray::IxDyn>> {
    DeviceArray::from_ndarray(device.default_stream(), array)
}

/// Opens a file that is neither a folder nor a pipe, whose length means nothing.
pub fn open_regular(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(|error| anyhow!("cannot be read: {error}"))?;
    ensure!(!metadata.is_dir(), "is a folder, wanted a file");
    ensure!(metadata.is_file(), "is no regular file, wanted one");
    ensure!(metadata.len() > 0, "is empty");
    File::open(path).map_err(|error| anyhow!("cannot be read: {error}"))
}

/// The header's bytes from the magic string to the last newline, if they can be parsed at little cost.
fn header_bytes(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(12).read_to_end(&mut bytes)?;
    ensure!(
        bytes.starts_with(MAGIC),
        "is no .npy file (it does not start with \\x93NUMPY)"
    );
    let (prefix, len) = match *bytes.as_slice() {
        [_, _, _, _, _, _, 1, _, a, b, ..] => (10, u32::from_le_bytes([a, b, 0, 0])),
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

/// The element type that the header names, in either byte order.
fn dtype(header: &Header) -> Result<Dtype> {
    let descriptor = header.type_descriptor.to_string();
    let name = header
        .type_descriptor
        .as_string()
        .and_then(|name| name.strip_prefix(['<', '>', '|']));
    let found = Dtype::ALL.into_iter().find(|dtype| Some(dtype.numpy_name()) == name);
    found.ok_or_else(|| {
        anyhow!(
            "element type {}, wanted f32, f64, i32, i64, u8, u16, u32 or u64 (for NumPy f4, f8, i4, i8, u1, u2, u4, u8)",
            shortened(&descriptor)
        )
    })
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
    use proptest::prelude::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::scalar::dispatch;

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
                let _ = dispatch!(file.dtype, T => file.read::<T>(&device).map(|array| array.len()));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// A header of any type and shape, over any number of bytes, is an array of exactly these bytes, or an error.
        #[test]
        fn any_header_is_read_or_refused(
            descr in prop::sample::select(vec!["<f4", ">f8", "|u1", "<i8", "=u2", "f4", "<c8", "|O", "", "<f4'"]),
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
                prop_assert_eq!(shape.iter().product::<u64>() * file.dtype.size() as u64, data.len() as u64);
                let read = dispatch!(file.dtype, T => file.read::<T>(&Device::simulator()).map(|array| array.len()));
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
