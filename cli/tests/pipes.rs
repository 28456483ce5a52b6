// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard input and output, and .npz archives.

use std::io::{Cursor, Read, Write};
use std::process::{Output, Stdio};

use crate::common::{Workplace, npy_bytes, npy_header};
use ndarray::{Array1, ArrayD, array};
use ndarray_npy::{ReadNpyExt, WriteNpyExt};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// Runs the program with that standard input.
fn run(place: &Workplace, args: &[&str], input: &[u8]) -> Output {
    let mut command = place.command(args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that has found an error does not read on.
        scope.spawn(move || stdin.write_all(input).and_then(|()| stdin.flush()).unwrap_or_default());
        child.wait_with_output().unwrap()
    })
}

#[track_caller]
fn succeed(place: &Workplace, args: &[&str], input: &[u8]) -> Vec<u8> {
    let output = run(place, args, input);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[track_caller]
fn fail(place: &Workplace, args: &[&str], input: &[u8], part: &str) {
    let output = run(place, args, input);
    let message = String::from_utf8_lossy(&output.stderr).to_string();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(1), 0),
        "{args:?}: {message}"
    );
    assert!(
        message.contains(part) && message.matches('\n').count() == 1,
        "{args:?}: no {part:?} in {message:?}"
    );
}

fn npy<T: ndarray_npy::WritableElement>(elements: Vec<T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Array1::from_vec(elements).write_npy(&mut bytes).unwrap();
    bytes
}

fn read<T: ndarray_npy::ReadableElement>(bytes: &[u8]) -> ArrayD<T> {
    ArrayD::read_npy(Cursor::new(bytes)).unwrap()
}

#[test]
fn arrays_go_through_pipes() {
    let place = Workplace::new();
    let x: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
    let squares = succeed(&place, &["map", "square", "-", "-o", "-"], &npy(x.clone()));
    assert_eq!(
        read::<f32>(&squares),
        Array1::from_iter(x.iter().map(|x| x * x)).into_dyn()
    );
    assert_eq!(succeed(&place, &["reduce", "max", "-"], &squares), b"9999800000.0\n");
    place.save("one.npy", &array![1.0f32]);
    let more = succeed(
        &place,
        &["add", "one.npy", "-", "-o", "-", "-v"],
        &npy(vec![2.0f32, 3.0]),
    );
    assert_eq!(read::<f32>(&more), array![3.0f32, 4.0].into_dyn());
    // Nothing but the array: not the number that is printed otherwise.
    let sum = succeed(&place, &["reduce", "sum", "-", "-o", "-"], &npy(vec![1i64, 2]));
    assert_eq!(read::<i64>(&sum), ndarray::arr0(3i64).into_dyn());
    let counts = succeed(
        &place,
        &["histogram", "-", "--bins", "2", "-o", "-"],
        &npy(vec![1u8, 2, 3]),
    );
    assert_eq!(read::<u64>(&counts), array![1u64, 2].into_dyn());
    assert_eq!(
        std::fs::read_dir(place.path(".")).unwrap().count(),
        1,
        "no file of the name -"
    );
}

#[test]
fn pictures_go_through_pipes() {
    let place = Workplace::new();
    let picture = image::RgbImage::from_fn(9, 7, |x, y| image::Rgb([20 * x as u8, 30 * y as u8, 77]));
    for (name, lossless) in [("in.png", true), ("in.jpg", false)] {
        place.save_picture(name, picture.clone());
        let bytes = std::fs::read(place.path(name)).unwrap();
        let same = succeed(&place, &["blur", "-", "-o", "-", "--radius", "0"], &bytes);
        let same = image::load_from_memory_with_format(&same, image::ImageFormat::Png).unwrap();
        assert_eq!(same.width(), 9);
        assert!(!lossless || same.into_rgb8() == picture);
        let text = succeed(&place, &["histogram", "-", "--bins", "2"], &bytes);
        assert!(String::from_utf8(text).unwrap().starts_with("red\n"));
    }
}

#[test]
fn what_standard_input_does_not_hold() {
    let place = Workplace::new();
    let good = npy(vec![1.0f32, 2.0, 3.0]);
    let sum = ["reduce", "sum", "-"];
    fail(&place, &sum, b"", "standard input: is empty");
    fail(&place, &sum, b"1,2,3\n", "standard input: is no .npy file");
    fail(
        &place,
        &sum,
        &good[..good.len() - 1],
        "standard input: truncated: shape [3] of f32 takes 12 bytes",
    );
    fail(
        &place,
        &sum,
        &[&good[..], b"x"].concat(),
        "standard input: more than one array",
    );
    fail(
        &place,
        &["add", "-", "-", "-o", "x.npy"],
        &good,
        "standard input: is given twice",
    );
    fail(&place, &["blur", "-", "-o", "x.png"], b"", "standard input: is empty");
    fail(
        &place,
        &["blur", "-", "-o", "x.png"],
        &good,
        "standard input: is no PNG or JPEG picture",
    );
    fail(
        &place,
        &["histogram", "-", "--bins", "3"],
        b"?",
        "standard input: is no .npy",
    );
    let json = "--json and the output - both write to standard output";
    fail(&place, &["map", "neg", "-", "-o", "-", "--json"], &good, json);
    // More than any memory: refused before it is asked for.
    let header = npy_header("<f4", false, "(274877906944,)");
    fail(
        &place,
        &sum,
        &npy_bytes(&header, &[0; 64]),
        "1099511627776 bytes of elements, wanted at most",
    );
    assert_eq!(std::fs::read_dir(place.path(".")).unwrap().count(), 0);
}

/// An archive of these arrays, as `numpy.savez` or `numpy.savez_compressed` writes it.
fn npz(place: &Workplace, name: &str, method: CompressionMethod, arrays: &[(&str, Vec<u8>)]) {
    let mut archive = ZipWriter::new(std::fs::File::create(place.path(name)).unwrap());
    for (name, bytes) in arrays {
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn arrays_of_archives() {
    let place = Workplace::new();
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let arrays = [("x", npy((0..5000).collect::<Vec<i32>>())), ("y z", npy(vec![0.5f32]))];
        npz(&place, "two.npz", method, &arrays);
        npz(&place, "one.npz", method, &arrays[..1]);
        for input in ["two.npz:x", "one.npz", "one.npz:x"] {
            assert_eq!(place.succeed(&["reduce", "sum", input]), "12497500\n", "{input}");
        }
        assert_eq!(place.succeed(&["reduce", "sum", "two.npz:y z"]), "0.5\n");
        let text = place.succeed(&["histogram", "two.npz:x", "--bins", "2"]);
        assert_eq!(text.matches(" 2500 ").count(), 2, "{text}");
        place.fail(
            &["reduce", "sum", "two.npz"],
            &["two.npz: wanted two.npz:NAME with the name of an array in it, one of x, y z"],
        );
        place.fail(
            &["reduce", "sum", "two.npz:w"],
            &["two.npz:w: wanted two.npz:NAME", "one of x, y z"],
        );
    }
    place.fail(&["reduce", "sum", "none.npz:x"], &["none.npz:x: cannot be read"]);
    let bytes = std::fs::read(place.path("one.npz")).unwrap();
    place.write("broken.npz", &bytes[..bytes.len() - 30]);
    place.fail(&["reduce", "sum", "broken.npz"], &["broken.npz: no valid .npz archive"]);
    npz(&place, "empty.npz", CompressionMethod::Stored, &[]);
    place.fail(&["reduce", "sum", "empty.npz"], &["empty.npz"]);
    npz(
        &place,
        "short.npz",
        CompressionMethod::Deflated,
        &[("x", npy(vec![1i64, 2])[..140].to_vec())],
    );
    place.fail(
        &["reduce", "sum", "short.npz"],
        &["short.npz: truncated: shape [2] of i64 takes 16 bytes"],
    );
    // Damage that the archive's checksum finds.
    let stored = npy(vec![1i64; 100]);
    npz(
        &place,
        "damaged.npz",
        CompressionMethod::Stored,
        &[("x", stored.clone())],
    );
    let mut bytes = std::fs::read(place.path("damaged.npz")).unwrap();
    let start = bytes.windows(6).position(|window| window == b"\x93NUMPY").unwrap();
    bytes[start + stored.len() - 5] ^= 1;
    place.write("damaged.npz", &bytes);
    place.fail(&["reduce", "sum", "damaged.npz"], &["damaged.npz: Invalid checksum"]);
}

#[test]
fn an_archive_is_written() {
    let place = Workplace::new();
    place.save("x.npy", &array![[1i32, 2], [3, 4]]);
    place.succeed(&["add", "x.npy", "1", "-o", "out.npz"]);
    let mut archive = ZipArchive::new(std::fs::File::open(place.path("out.npz")).unwrap()).unwrap();
    assert_eq!(archive.file_names().collect::<Vec<_>>(), ["arr_0.npy"]);
    let mut bytes = Vec::new();
    archive.by_index(0).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(read::<i32>(&bytes), array![[2, 3], [4, 5]].into_dyn());
    assert_eq!(place.succeed(&["reduce", "sum", "out.npz"]), "14\n");
}

/// A reader that goes away early is no error.
#[test]
fn a_closed_pipe_ends_the_output() {
    let place = Workplace::new();
    place.save("x.npy", &Array1::<f32>::ones(1_000_000));
    let mut command = place.command(&["map", "neg", "x.npy", "-o", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
