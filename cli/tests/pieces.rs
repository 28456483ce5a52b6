// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long files, which go through the device in pieces: the results are those of the same file as a whole.

use std::io::{Cursor, Write};

use ndarray::{Array, Array1, Array3, ArrayD, ShapeBuilder};
use ndarray_npy::{ReadNpyExt, ReadableElement, WritableElement};
use serde_json::Value;

use crate::common::{Workplace, npy_bytes, npy_header};

/// Numbers that differ, some of them negative where there are such.
fn numbers<T>(len: usize, of: impl Fn(i64) -> T) -> Vec<T> {
    let mut state = 12345u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as i64 % 201 - 100
    };
    (0..len).map(|_| of(next())).collect()
}

/// What the program prints as JSON, with pieces of so many bytes.
#[track_caller]
fn in_pieces(place: &Workplace, args: &[&str], bytes: usize) -> Value {
    let args = [args, &["--json"]].concat();
    let output = place
        .command(&args)
        .env("WARPSMITH_PIECE_BYTES", bytes.to_string())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        object["timings_ms"]["all"].is_f64(),
        "{args:?}: not in pieces: {object}"
    );
    object
}

/// What the program prints as JSON of the file as a whole: by the simulated GPU, whose results are those of any, and which starts
/// in a hundredth of the time that a GPU's driver takes for each process.
#[track_caller]
fn as_a_whole(place: &Workplace, args: &[&str]) -> Value {
    place.json(&[args, &["--device", "sim", "--json"]].concat())
}

/// Reductions of x.npy as a whole and in pieces are the same; those of floats but for rounding of `epsilon`.
#[track_caller]
fn reductions_agree(place: &Workplace, of: &str, operations: &[&str], epsilon: f64) {
    for operation in operations {
        let args = ["reduce", operation, "x.npy"];
        let want = as_a_whole(place, &args);
        let bytes = 300;
        let mut result = in_pieces(place, &args, bytes);
        let (given, wanted) = (result["value"].take(), want["value"].clone());
        match (given.as_f64(), wanted.as_f64()) {
            (Some(given), Some(wanted)) => assert!(
                (given - wanted).abs() <= epsilon * wanted.abs().max(1.0),
                "{operation} of {of} in pieces of {bytes}: {given}, wanted {wanted}"
            ),
            _ => assert_eq!(given, wanted, "{operation} of {of} in pieces of {bytes}"),
        }
        for key in ["dtype", "shape", "operation"] {
            assert_eq!(result[key].take(), want[key].clone(), "{operation} of {of}");
        }
    }
}

const ALL: [&str; 10] = [
    "sum", "min", "max", "mean", "var", "std", "argmin", "argmax", "any", "all",
];

#[test]
fn reductions_are_those_of_the_whole() {
    fn of<T: WritableElement>(name: &str, elements: Vec<T>, epsilon: f64) {
        let place = Workplace::new();
        place.save("x.npy", &Array1::from_vec(elements));
        reductions_agree(&place, name, &ALL, epsilon);
    }
    // Five pieces or more. Sums of floats here are of numbers that f32 adds exactly; means and variances are rounded once.
    of("f32", numbers(601, |x| x as f32 / 4.0), 1e-6);
    of("f64", numbers(601, |x| x as f64 / 4.0), 1e-13);
    of("i32", numbers(601, |x| x as i32), 1e-13);
    of("i8", numbers(1501, |x| x as i8), 1e-13);
    of("i16", numbers(601, |x| 300 * x as i16), 1e-13);
    of("u8", numbers(1501, |x| (x + 100) as u8), 1e-13);
    of("u64", numbers(601, |x| x as u64), 1e-13);
    of("bool", numbers(1501, |x| x > 0), 1e-13);
}

#[test]
fn products_and_half_precision() {
    let place = Workplace::new();
    // 200 and −200, of which the sums of the first pieces may be beyond f16.
    let bytes: Vec<u8> = numbers(3001, |x| if x > 0 { 0x5a40u16 } else { 0xda40 })
        .into_iter()
        .flat_map(u16::to_le_bytes)
        .collect();
    place.write("x.npy", &npy_bytes(&npy_header("<f2", false, "(3001,)"), &bytes));
    reductions_agree(&place, "f16", &ALL, 1e-9);
    place.save("x.npy", &Array1::from_vec(numbers(2000, |x| x | 1)));
    reductions_agree(&place, "i64", &["prod"], 0.0);
    place.save("x.npy", &Array1::from_vec(numbers(2000, |x| 1.0 + x as f64 / 1e4)));
    reductions_agree(&place, "f64", &["prod"], 1e-12);
}

#[test]
fn numbers_that_are_none_are_found_in_any_piece() {
    let place = Workplace::new();
    let mut x = numbers(1501, |x| x as f32);
    (x[700], x[1450]) = (f32::NAN, f32::NAN);
    place.save("x.npy", &Array1::from_vec(x));
    reductions_agree(&place, "NaN", &ALL, 0.0);
    let mut x = numbers(1501, |_| 0.0f64);
    (x[700], x[1450]) = (-0.0, f64::INFINITY);
    place.save("x.npy", &Array1::from_vec(x));
    reductions_agree(&place, "zeros and infinity", &ALL, 0.0);
}

#[test]
fn either_order_of_axes_and_bytes() {
    let x = Array3::from_shape_vec((10, 20, 30), numbers(6000, |x| x as i32)).unwrap();
    let place = Workplace::new();
    let elements: Vec<u8> = x.t().iter().flat_map(|x| x.to_be_bytes()).collect();
    place.write("x.npy", &npy_bytes(&npy_header(">i4", true, "(10, 20, 30)"), &elements));
    let any_order: Vec<_> = ALL
        .into_iter()
        .filter(|operation| !operation.starts_with("arg"))
        .collect();
    reductions_agree(&place, "big-endian i32 in Fortran order", &any_order, 1e-13);
    // The first of equal elements is the first in C order.
    let least = *x.iter().min().unwrap();
    let first = x.iter().position(|&x| x == least).unwrap();
    let mut command = place.command(&["reduce", "argmin", "x.npy"]);
    let output = command.env("WARPSMITH_PIECE_BYTES", "500").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{first}\n"));
    in_pieces(&place, &["map", "neg", "x.npy", "-o", "y.npy"], 500);
    assert_eq!(place.load::<i32>("y.npy"), x.mapv(|x| -x).into_dyn());

    place.save(
        "x.npy",
        &Array::from_shape_vec((20, 300).f(), numbers(6000, |x| x as f32)).unwrap(),
    );
    in_pieces(&place, &["map", "cast:f64", "x.npy", "-o", "y.npz"], 512);
    let want = place.load::<f32>("x.npy").mapv(f64::from);
    in_pieces(&place, &["map", "cast:f64", "x.npy", "-o", "y.npy"], 512);
    assert_eq!(place.load::<f64>("y.npy"), want);
    // The archive has the same array.
    let sum = |name| place.json(&["reduce", "sum", name, "--json"])["value"].clone();
    assert_eq!(sum("y.npz"), sum("y.npy"));
}

/// The numbers of nested lists, those that JSON has no name for too.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(parts) => parts.iter().flat_map(flat).collect(),
        Value::Bool(truth) => vec![f64::from(u8::from(*truth))],
        Value::String(name) => vec![name.parse().unwrap()],
        number => vec![number.as_f64().unwrap()],
    }
}

/// Reductions of x.npy along an axis as a whole and in pieces of so many bytes are the same, but for rounding.
#[track_caller]
fn lanes_agree(place: &Workplace, operations: &[&str], axis: &str, sizes: &[usize], epsilon: f64) {
    for operation in operations {
        let args = ["reduce", operation, "x.npy", "--axis", axis];
        let want = as_a_whole(place, &args);
        for &bytes in sizes {
            let what = format!("{operation} along axis {axis} in pieces of {bytes}");
            let result = in_pieces(place, &args, bytes);
            for key in ["dtype", "shape", "operation"] {
                assert_eq!(result[key], want[key], "{what}");
            }
            let (given, wanted) = (flat(&result["value"]), flat(&want["value"]));
            assert_eq!(given.len(), wanted.len(), "{what}");
            for (i, (given, wanted)) in given.into_iter().zip(wanted).enumerate() {
                let is_near = (given - wanted).abs() <= epsilon * wanted.abs().max(1.0);
                let is_same = given == wanted || given.is_nan() && wanted.is_nan();
                assert!(is_near || is_same, "{what}, element {i}: {given}, wanted {wanted}");
            }
        }
    }
}

const LANES: [&str; 11] = [
    "sum", "prod", "min", "max", "mean", "var", "std", "argmin", "argmax", "any", "all",
];

#[test]
fn reductions_along_axes_are_those_of_the_whole() {
    let place = Workplace::new();
    // Numbers near 1, whose products are neither 0 nor infinite; a few that are none.
    let mut x = Array3::from_shape_vec((5, 150, 8), numbers(6000, |x| 1.0 + x as f32 / 2048.0)).unwrap();
    x[[2, 140, 7]] = f32::NAN;
    x[[3, 1, 3]] = f32::INFINITY;
    place.save("x.npy", &x);
    // Several lanes at a time, or parts of lanes, and parts of the columns too.
    for (axis, sizes) in [("0", &[2400][..]), ("1", &[5000, 1500]), ("-1", &[2400])] {
        lanes_agree(&place, &LANES, axis, sizes, 2e-6);
    }
    // The same in the other order of axes.
    let elements: Vec<u8> = x.t().iter().flat_map(|x| x.to_be_bytes()).collect();
    place.write("x.npy", &npy_bytes(&npy_header(">f4", true, "(5, 150, 8)"), &elements));
    for axis in ["0", "1", "2"] {
        lanes_agree(&place, &["sum", "argmax", "var"], axis, &[2400], 2e-6);
    }
    // Parts of the last axis; and so many parts that their results are combined twice.
    place.save(
        "x.npy",
        &Array::from_shape_vec((4, 500), numbers(2000, |x| x as f32)).unwrap(),
    );
    lanes_agree(&place, &["sum", "argmin", "std"], "1", &[400], 2e-6);
    place.save(
        "x.npy",
        &Array::from_shape_vec((400, 2), numbers(800, |x| x as f32)).unwrap(),
    );
    lanes_agree(&place, &["sum", "min", "argmax"], "0", &[16], 0.0);
}

#[test]
fn lanes_of_other_types() {
    fn of<T: WritableElement>(elements: Vec<T>, operations: &[&str], epsilon: f64) {
        let place = Workplace::new();
        place.save("x.npy", &Array::from_shape_vec((300, 7), elements).unwrap());
        lanes_agree(&place, operations, "0", &[300], epsilon);
    }
    of(numbers(2100, |x| x as i8), &["sum", "min", "mean", "argmin"], 1e-13);
    of(numbers(2100, |x| x > 0), &["sum", "max", "any", "all", "mean"], 1e-13);
    of(numbers(2100, |x| x as u64 >> 8), &["sum", "max", "argmax"], 0.0);
    of(numbers(2100, |x| x | 1), &["prod"], 0.0);
    of(numbers(2100, |x| 1e200 + x as f64 * 1e198), &["mean", "argmax"], 1e-14);
    of(numbers(2100, |x| x as f64), &["var", "std", "sum"], 1e-13);
    let place = Workplace::new();
    // 200 and −200, of which sums of parts may be beyond f16.
    let bytes: Vec<u8> = numbers(6300, |x| if x > 0 { 0x5a40u16 } else { 0xda40 })
        .into_iter()
        .flat_map(u16::to_le_bytes)
        .collect();
    place.write("x.npy", &npy_bytes(&npy_header("<f2", false, "(900, 7)"), &bytes));
    lanes_agree(&place, &["sum", "min", "mean", "argmax", "any"], "0", &[300], 1e-9);
}

#[test]
fn lanes_are_written_as_they_come() {
    let place = Workplace::new();
    let x = Array3::from_shape_vec((30, 20, 10), numbers(6000, |x| x as i32)).unwrap();
    place.save("x.npy", &x);
    for axis in ["0", "1", "2"] {
        let args = ["reduce", "sum", "x.npy", "--axis", axis, "-o", "y.npy"];
        as_a_whole(&place, &args);
        let want = std::fs::read(place.path("y.npy")).unwrap();
        in_pieces(&place, &args, 1000);
        assert!(
            std::fs::read(place.path("y.npy")).unwrap() == want,
            "axis {axis}, to the byte"
        );
    }
    let elements: Vec<u8> = x.t().iter().flat_map(|x| x.to_le_bytes()).collect();
    place.write("x.npy", &npy_bytes(&npy_header("<i4", true, "(30, 20, 10)"), &elements));
    in_pieces(&place, &["reduce", "min", "x.npy", "--axis", "1", "-o", "y.npy"], 1000);
    let want = x.map_axis(ndarray::Axis(1), |lane| *lane.iter().min().unwrap());
    assert_eq!(place.load::<i32>("y.npy"), want.into_dyn());
    // Of whole lanes, and of parts of them.
    for (operation, by, bytes) in [("var", "variance", "256"), ("std", "std", "128")] {
        let mut command = place.command(&["reduce", operation, "x.npy", "--axis", "0", "--ddof", "30"]);
        let output = command.env("WARPSMITH_PIECE_BYTES", bytes).output().unwrap();
        let wanted = "given 30, wanted less than the number of elements that are combined, 30";
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!("warpsmith: error: x.npy: {by}_axis_into: ddof: {wanted}\n")
        );
    }
}

#[test]
fn maps_are_those_of_the_whole() {
    #[track_caller]
    fn agree<T: WritableElement, U: ReadableElement + PartialEq + std::fmt::Debug>(operation: &str, elements: Vec<T>) {
        let place = Workplace::new();
        place.save("x.npy", &Array1::from_vec(elements));
        as_a_whole(&place, &["map", operation, "x.npy", "-o", "whole.npy"]);
        let want = std::fs::read(place.path("whole.npy")).unwrap();
        let read: ArrayD<U> = ArrayD::read_npy(Cursor::new(&want)).unwrap();
        for bytes in [40, 300, 700] {
            let object = in_pieces(&place, &["map", operation, "x.npy", "-o", "y.npy"], bytes);
            assert_eq!(object["shape"][0], read.len());
            assert!(
                std::fs::read(place.path("y.npy")).unwrap() == want,
                "{operation} in pieces of {bytes}"
            );
        }
    }
    agree::<_, f32>("tanh", numbers(3001, |x| x as f32 / 100.0));
    agree::<_, i8>("square", numbers(12_001, |x| x as i8));
    agree::<_, i16>("abs", numbers(6001, |x| x as i16));
    agree::<_, f64>("cast:f64", numbers(3001, |x| x as i8));
    agree::<_, u8>("cast:u8", numbers(3001, |x| x > 0));
}

#[test]
fn standard_output_takes_pieces() {
    let place = Workplace::new();
    place.save("x.npy", &Array1::from_vec(numbers(3001, |x| x as f32)));
    let mut command = place.command(&["map", "abs", "x.npy", "-o", "-"]);
    let output = command.env("WARPSMITH_PIECE_BYTES", "1000").output().unwrap();
    assert!(output.status.success());
    let y: ArrayD<f32> = ArrayD::read_npy(Cursor::new(output.stdout)).unwrap();
    assert_eq!(y, place.load::<f32>("x.npy").mapv(f32::abs));
}

#[test]
fn histograms_are_those_of_the_whole() {
    let place = Workplace::new();
    place.save("x.npy", &Array1::from_vec(numbers(5000, |x| x as f32)));
    for range in [&[][..], &["--range", "-20,50.5"]] {
        let args = [&["histogram", "x.npy", "--bins", "13", "-o", "counts.npy"], range].concat();
        let want = as_a_whole(&place, &args);
        let counts = place.load::<u64>("counts.npy");
        for bytes in [128, 3000] {
            assert_eq!(in_pieces(&place, &args, bytes)["value"], want["value"], "{args:?}");
            assert_eq!(place.load::<u64>("counts.npy"), counts);
        }
    }
    let mut x = numbers(5000, |x| x as f32);
    x[4000] = f32::NAN;
    place.save("x.npy", &Array1::from_vec(x));
    let args = ["histogram", "x.npy", "--bins", "4"];
    let message = |command: &mut std::process::Command| String::from_utf8(command.output().unwrap().stderr).unwrap();
    let whole = message(&mut place.command(&args));
    assert!(whole.contains("wanted finite elements"), "{whole}");
    assert_eq!(message(place.command(&args).env("WARPSMITH_PIECE_BYTES", "512")), whole);
}

#[test]
fn bad_elements_of_a_late_piece_leave_no_file() {
    let place = Workplace::new();
    let mut data = vec![1; 4000];
    data[3900] = 2;
    place.write("x.npy", &npy_bytes(&npy_header("|b1", false, "(4000,)"), &data));
    for args in [
        &["map", "cast:f32", "x.npy", "-o", "y.npy"][..],
        &["reduce", "sum", "x.npy"],
    ] {
        let output = place
            .command(args)
            .env("WARPSMITH_PIECE_BYTES", "500")
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            message,
            "warpsmith: error: x.npy: an element of bool is 2, wanted 0 or 1\n"
        );
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert!(!place.path("y.npy").exists());
    }
    let mut command = place.command(&["reduce", "sum", "x.npy"]);
    let output = command.env("WARPSMITH_PIECE_BYTES", "much").output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("WARPSMITH_PIECE_BYTES=much"), "{message}");
}

/// Without the variable as well: a file that is longer than four pieces on a device of any size.
#[test]
fn a_file_of_many_pieces() {
    let place = Workplace::new();
    let mut file = std::fs::File::create(place.path("x.npy")).unwrap();
    // Numbers of 8 bytes, of which there are fewest.
    let len = (16 << 20) + 1;
    file.write_all(&npy_bytes(&npy_header("<f8", false, &format!("({len},)")), &[]))
        .unwrap();
    file.set_len(file.metadata().unwrap().len() + 8 * len).unwrap();
    let object = place.json(&["reduce", "all", "x.npy", "--json"]);
    assert!(object["timings_ms"]["all"].is_f64(), "{object}");
    assert_eq!(
        (&object["value"], &object["shape"][0]),
        (&Value::from(false), &Value::from(len))
    );
}
