// SPDX-License-Identifier: MIT OR Apache-2.0
//! NumPy's files: what is saved is loaded again, what NumPy writes otherwise is understood, and a file that lies is an
//! error.

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::*;
use ndarray::{ArrayD, Dimension, Ix0, Ix1, Ix2, IxDyn, array};
use proptest::prelude::RngExt;
use warpsmith::npy::{Header, NpyElement};
use warpsmith::{DeviceArray, Error, Result, Stream, f16};

fn stream() -> &'static Stream {
    device().default_stream()
}

/// A folder for a test's files, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("warpsmith-test-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The bytes of a file: a header of these words, then the elements.
fn file(descr: &str, fortran_order: bool, shape: &[usize], elements: &[u8]) -> Vec<u8> {
    let header = Header {
        fortran_order,
        ..Header::new(descr, shape)
    };
    [&header.to_bytes()[..], elements].concat()
}

fn read<T: NpyElement, D: Dimension>(bytes: &[u8]) -> Result<DeviceArray<T, D>> {
    DeviceArray::read_npy(stream(), bytes)
}

fn message<T: NpyElement + std::fmt::Debug, D: Dimension>(bytes: &[u8]) -> String {
    read::<T, D>(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_saved_is_loaded() {
    fn check<T: NpyElement + PartialEq + std::fmt::Debug>(value: impl Fn(usize) -> T, descr: &str) {
        let folder = Folder::new(&format!("saved-{}", &descr[1..]));
        for shape in [
            vec![],
            vec![0],
            vec![1],
            vec![5],
            vec![3, 4],
            vec![2, 0, 3],
            vec![7, 11, 13],
        ] {
            let len = shape.iter().product();
            let array = ArrayD::from_shape_vec(IxDyn(&shape), (0..len).map(&value).collect()).unwrap();
            let path = folder.0.join("x.npy");
            upload(&array).save_npy(&path).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let header = Header::read(&mut bytes.as_slice(), "").unwrap();
            assert_eq!(header, Header::new(descr, &shape));
            assert_eq!(bytes.len(), header.to_bytes().len() + len * size_of::<T>());
            let loaded: Dyn<T> = DeviceArray::load_npy(stream(), &path).unwrap();
            assert_eq!(loaded.to_ndarray().unwrap(), array);
            let mut written = Vec::new();
            upload(&array).write_npy(&mut written).unwrap();
            assert_eq!(written, bytes);
            assert_eq!(read::<T, IxDyn>(&bytes).unwrap().to_ndarray().unwrap(), array);
        }
    }
    check(|i| i as f32 - 3.5, "<f4");
    check(|i| i as f64 - 3.5, "<f8");
    check(|i| f16::from_f32(i as f32 - 3.5), "<f2");
    check(|i| (i as i8).wrapping_sub(3), "|i1");
    check(|i| i as i16 - 3, "<i2");
    check(|i| i as i32 - 3, "<i4");
    check(|i| i as i64 - 3, "<i8");
    check(|i| i as u8, "|u1");
    check(|i| i as u16, "<u2");
    check(|i| i as u32, "<u4");
    check(|i| i as u64, "<u8");
}

#[test]
fn arrays_of_more_than_a_piece() {
    let x = DeviceArray::range(stream(), 0u32, 1_000_003, 1).unwrap();
    let mut bytes = Vec::new();
    x.write_npy(&mut bytes).unwrap();
    assert_eq!(elements(&read::<u32, Ix1>(&bytes).unwrap()), elements(&x));
}

#[test]
fn either_order_of_axes_and_bytes() {
    let elements: Vec<u8> = [1u16, 2, 3, 4, 5, 6].iter().flat_map(|x| x.to_le_bytes()).collect();
    let x = read::<u16, Ix2>(&file("<u2", true, &[2, 3], &elements)).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 3, 5], [2, 4, 6]]);
    let x = read::<u16, Ix2>(&file(">u2", false, &[3, 2], &elements)).unwrap();
    assert_eq!(
        x.to_ndarray().unwrap(),
        array![[0x100, 0x200], [0x300, 0x400], [0x500, 0x600]]
    );
    let x = read::<u16, Ix2>(&file("=u2", false, &[1, 6], &elements)).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 2, 3, 4, 5, 6]]);
}

#[test]
fn bool_is_bytes() {
    let x = read::<u8, Ix1>(&file("|b1", false, &[3], &[1, 0, 1])).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![1, 0, 1]);
    let error = message::<u8, Ix1>(&file("|b1", false, &[3], &[1, 0, 2]));
    assert_eq!(error, "npy stream: an element of bool is 2, wanted 0 or 1");
    assert!(message::<i8, Ix1>(&file("|b1", false, &[1], &[1])).contains("holds |b1 of shape [1], wanted i1 (i8)"));
}

#[test]
fn other_arrays_than_wanted() {
    let bytes = file("<f4", false, &[2], &[0; 8]);
    assert_eq!(
        message::<f64, Ix1>(&bytes),
        "npy stream: holds <f4 of shape [2], wanted f8 (f64) with 1 axis"
    );
    assert_eq!(
        message::<f32, Ix2>(&bytes),
        "npy stream: holds <f4 of shape [2], wanted f4 (f32) with 2 axes"
    );
    assert!(message::<f32, Ix0>(&bytes).ends_with("with 0 axes"));
    for descr in ["<c8", "|O", "<U3", "", "f4", "[('a', '<f4')]"] {
        let error = message::<f32, IxDyn>(&file(descr, false, &[2], &[0; 8]));
        assert_eq!(
            error,
            format!("npy stream: holds {descr} of shape [2], wanted f4 (f32)")
        );
    }
}

#[test]
fn a_reader_goes_on_behind_the_array() {
    let bytes = [
        file("|u1", false, &[3], &[1, 2, 3]),
        file("|u1", false, &[2], &[4, 5]),
        vec![9],
    ]
    .concat();
    let mut reader = bytes.as_slice();
    let first: DeviceArray<u8, Ix1> = DeviceArray::read_npy(stream(), &mut reader).unwrap();
    let second: DeviceArray<u8, Ix1> = DeviceArray::read_npy(stream(), &mut reader).unwrap();
    assert_eq!(
        (elements(&first), elements(&second), reader),
        (vec![1, 2, 3], vec![4, 5], &[9][..])
    );
}

#[test]
fn files_that_lie() {
    let folder = Folder::new("lie");
    let path = folder.0.join("x.npy");
    let fail = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = DeviceArray::<f32, IxDyn>::load_npy(stream(), &path)
            .unwrap_err()
            .to_string();
        let problem = error.strip_prefix(&format!("{}: ", path.display()));
        problem.expect("the error names the file").to_string()
    };
    let good = file("<f4", false, &[3], &[0; 12]);
    assert_eq!(
        fail(&good[..good.len() - 1]),
        "truncated: shape [3] of f32 takes 12 bytes, the file has 11"
    );
    assert_eq!(
        fail(&[&good[..], b"garbage"].concat()),
        "more than one array in the file: shape [3] of f32 takes 12 bytes, the file has 19"
    );
    assert_eq!(fail(&good[..50]), "truncated in the header");
    assert_eq!(fail(b""), "is empty");
    assert_eq!(
        fail(&file("<f4", false, &[1 << 60], &[0; 64])),
        "truncated: shape [1152921504606846976] of f32 takes 4611686018427387904 bytes, the file has 64"
    );
    for shape in [&[1 << 62][..], &[1 << 32, 1 << 32], &[0, 1 << 62]] {
        let wanted = format!("the header claims more elements than memory can hold, shape {shape:?} of f32");
        assert_eq!(fail(&file("<f4", false, shape, &[])), wanted);
    }
    let missing = DeviceArray::<f32, IxDyn>::load_npy(stream(), folder.0.join("none.npy"));
    assert!(matches!(&missing, Err(Error::Io { file, .. }) if file.ends_with("none.npy")));
    assert!(matches!(
        DeviceArray::<f32, Ix1>::load_npy(stream(), &folder.0),
        Err(Error::Io { .. })
    ));
    let unwritable = upload(&array![1.0f32]).save_npy(folder.0.join("none").join("x.npy"));
    assert!(matches!(unwritable, Err(Error::Io { .. })));
    for (path, problem) in [
        (&*folder.0, "is a folder"),
        (Path::new("/dev/null"), "is no regular file"),
    ] {
        let error = upload(&array![1.0f32]).save_npy(path).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

/// Nobody sees a file in part: who has the old one open goes on reading it, and it is in its place until the new one is.
#[test]
fn a_file_is_there_whole() {
    let folder = Folder::new("whole");
    let (path, link) = (folder.0.join("x.npy"), folder.0.join("link.npy"));
    upload(&array![1u8, 2, 3]).save_npy(&path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("x.npy", &link).unwrap();
    let old = std::fs::File::open(&path).unwrap();
    upload(&array![4u8, 5]).save_npy(&link).unwrap();
    let old: DeviceArray<u8, Ix1> = DeviceArray::read_npy(stream(), old).unwrap();
    assert_eq!(old.to_ndarray().unwrap(), array![1, 2, 3]);
    let new: DeviceArray<u8, Ix1> = DeviceArray::load_npy(stream(), &path).unwrap();
    assert_eq!(new.to_ndarray().unwrap(), array![4, 5]);
    assert!(link.is_symlink());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2, "nothing else is left");
    std::fs::set_permissions(&path, Permissions::from_mode(0o440)).unwrap();
    let error = upload(&array![6u8]).save_npy(&path).unwrap_err();
    assert!(error.to_string().contains("is read-only"), "{error}");
}

/// A reader has no length: what a header claims is asked of the device, and read in pieces.
#[test]
fn readers_that_end_early() {
    let error = message::<f32, IxDyn>(&file("<f4", false, &[3], &[0; 11]));
    assert_eq!(
        error,
        "npy stream: truncated: 3 elements of f32 take 12 bytes, fewer follow the header"
    );
    let error = read::<f32, IxDyn>(&file("<f4", false, &[1 << 50], &[0; 64]));
    assert!(matches!(
        error,
        Err(Error::OutOfMemory { .. } | Error::HostMemory { .. } | Error::File { .. })
    ));

    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the line is cut"))
        }
    }
    let error = DeviceArray::<f32, Ix1>::read_npy(stream(), Broken).unwrap_err();
    assert_eq!(error.to_string(), "npy stream: the line is cut");
    let start = file("<f4", false, &[3], &[]);
    let error = DeviceArray::<f32, Ix1>::read_npy(stream(), start.chain(Broken)).unwrap_err();
    assert_eq!(error.to_string(), "npy stream: the line is cut");
}

/// Files in which a few bytes are something else are arrays or errors.
#[test]
fn damaged_files() {
    let intact = file("<f4", false, &[2, 3], &[0x3f; 24]);
    let mut rng = rng(1);
    let characters = b"0123456789()[]{},:'\"<>=fiucTFb.ejx_\\N \n\xff";
    let mut read_well = 0;
    for _ in 0..2000 {
        let mut bytes = intact.clone();
        for _ in 0..rng.random_range(1..6) {
            let at = rng.random_range(6..bytes.len());
            bytes[at] = characters[rng.random_range(0..characters.len())];
        }
        bytes.truncate(rng.random_range(bytes.len() / 2..=2 * bytes.len()));
        read_well += usize::from(read::<f32, IxDyn>(&bytes).is_ok());
    }
    assert!(
        read_well > 50,
        "some of the damage is to elements and spaces: {read_well}"
    );
}

#[cfg(feature = "npz")]
mod archives {
    use std::io::{Cursor, Write};

    use warpsmith::npy::{NpzReader, NpzWriter};
    use zip::CompressionMethod;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    /// An archive of two arrays, as bytes.
    fn archive() -> Vec<u8> {
        let mut archive = NpzWriter::new(Cursor::new(Vec::new()));
        archive
            .add("matrix", &upload(&array![[1.0f32, 2.0], [3.0, 4.0]]))
            .unwrap();
        archive.add("counts", &upload(&array![7u64, 8])).unwrap();
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn what_is_added_is_loaded() {
        let folder = Folder::new("archive");
        let path = folder.0.join("x.npz");
        let mut writer = NpzWriter::create(&path).unwrap();
        writer
            .add("matrix", &upload(&array![[1.0f32, 2.0], [3.0, 4.0]]))
            .unwrap();
        writer.add("counts", &upload(&array![7u64, 8])).unwrap();
        writer.finish().unwrap();
        let mut reader = NpzReader::open(&path).unwrap();
        assert_eq!(reader.names(), ["matrix", "counts"]);
        let counts: DeviceArray<u64, Ix1> = reader.load(stream(), "counts").unwrap();
        assert_eq!(counts.to_ndarray().unwrap(), array![7, 8]);
        let matrix: DeviceArray<f32, Ix2> = reader.load(stream(), "matrix").unwrap();
        assert_eq!(matrix.to_ndarray().unwrap(), array![[1.0, 2.0], [3.0, 4.0]]);
    }

    #[test]
    fn views_and_arrays_of_the_host() {
        let matrix = array![[1.0f32, 2.0], [3.0, 4.0]];
        let mut writer = NpzWriter::new(Cursor::new(Vec::new()));
        writer
            .add("column", &upload(&matrix).index_axis(ndarray::Axis(1), 0).unwrap())
            .unwrap();
        writer.add_ndarray("transposed", &matrix.t()).unwrap();
        writer.add_ndarray("number", &ndarray::arr0(7u64)).unwrap();
        let error = writer.add_ndarray("number", &matrix).unwrap_err().to_string();
        assert!(error.contains("\"number\" cannot be added"), "{error}");
        let mut reader = NpzReader::new(writer.finish().unwrap()).unwrap();
        assert_eq!(reader.load_ndarray::<f32, Ix1>("column").unwrap(), array![1.0, 3.0]);
        assert_eq!(reader.load_ndarray::<f32, Ix2>("transposed").unwrap(), matrix.t());
        assert_eq!(reader.load_ndarray::<u64, Ix0>("number").unwrap().into_scalar(), 7);
        for (name, problem) in [
            ("column", "with 2 axes"),
            ("none", "wanted one of column, transposed, number"),
        ] {
            let error = reader.load_ndarray::<f32, Ix2>(name).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        // As NumPy writes it in Fortran order.
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("x.npy", SimpleFileOptions::default()).unwrap();
        zip.write_all(&file("|u1", true, &[2, 3], &[1, 2, 3, 4, 5, 6])).unwrap();
        let mut reader = NpzReader::new(zip.finish().unwrap()).unwrap();
        assert_eq!(
            reader.load_ndarray::<u8, Ix2>("x").unwrap(),
            array![[1, 3, 5], [2, 4, 6]]
        );
    }

    #[test]
    fn an_archive_is_there_when_it_is_finished() {
        let folder = Folder::new("unfinished");
        let path = folder.0.join("x.npz");
        std::fs::write(&path, "as it was").unwrap();
        let mut writer = NpzWriter::create(&path).unwrap();
        writer.add("x", &upload(&array![1u8])).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"as it was");
        drop(writer);
        assert_eq!(std::fs::read(&path).unwrap(), b"as it was");
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn compressed_as_numpy_does() {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file("zeros.npy", options).unwrap();
        zip.write_all(&file("<f8", false, &[1000], &[0; 8000])).unwrap();
        zip.start_file("read me", options).unwrap();
        zip.write_all(b"no array").unwrap();
        let mut reader = NpzReader::new(zip.finish().unwrap()).unwrap();
        assert_eq!(reader.names(), ["zeros"]);
        let zeros: DeviceArray<f64, Ix1> = reader.load(stream(), "zeros").unwrap();
        assert_eq!(elements(&zeros), [0.0; 1000]);
    }

    #[test]
    fn errors_name_the_array() {
        let mut reader = NpzReader::new(Cursor::new(archive())).unwrap();
        let error = reader.load::<f64, Ix1>(stream(), "counts").unwrap_err().to_string();
        assert_eq!(
            error,
            "npz stream:counts: holds <u8 of shape [2], wanted f8 (f64) with 1 axis"
        );
        let error = reader.load::<f64, Ix1>(stream(), "other").unwrap_err().to_string();
        assert_eq!(
            error,
            "npz stream: no array \"other\" in the archive, wanted one of matrix, counts"
        );
        let mut writer = NpzWriter::new(Cursor::new(Vec::new()));
        writer.add("x", &upload(&array![1u8])).unwrap();
        let error = writer.add("x", &upload(&array![1u8])).unwrap_err().to_string();
        assert!(error.starts_with("npz stream: array \"x\" cannot be added"), "{error}");
        let error = NpzReader::new(Cursor::new(b"no archive")).unwrap_err().to_string();
        assert!(error.starts_with("npz stream: no valid .npz archive"), "{error}");
        assert!(matches!(NpzReader::open("/nowhere.npz"), Err(Error::Io { .. })));
    }

    /// A few other bytes make it other arrays or errors.
    #[test]
    fn damaged_archives() {
        let intact = archive();
        let mut rng = rng(2);
        for _ in 0..2000 {
            let mut bytes = intact.clone();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
            }
            if let Ok(mut reader) = NpzReader::new(Cursor::new(bytes)) {
                for name in reader.names().into_iter().map(String::from).collect::<Vec<_>>() {
                    if let Ok(array) = reader.load::<f32, IxDyn>(stream(), &name) {
                        assert!(array.len() <= intact.len());
                    }
                }
            }
        }
    }
}
