// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `eval`: formulas of arrays in files.

use crate::common::{Workplace, npy_bytes, npy_header};
use ndarray::{array, s};

/// Runs the program, which must fail with a message of one line that contains `part`, the formula below it, and `marks`.
#[track_caller]
fn fail_at(place: &Workplace, args: &[&str], part: &str, marks: &str) {
    let output = place.run(args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(1), 0),
        "{args:?}: {text}"
    );
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("warpsmith: error: column ") && lines[0].contains(part),
        "{args:?}: no {part:?} in {text}"
    );
    assert_eq!(lines[1..], [args[1], marks], "{args:?}");
}

#[test]
fn formulas_are_computed() {
    let place = Workplace::new();
    place.save("a.npy", &array![[0.5f32, -1.0], [2.0, 0.0]]);
    place.save("row.npy", &array![1i32, 2]);
    assert_eq!(
        place.succeed(&["eval", "tanh(a)*2 + 1", "a=a.npy", "-o", "out.npy"]),
        ""
    );
    let wanted = array![[0.5f32, -1.0], [2.0, 0.0]].mapv(|x| x.tanh() * 2.0 + 1.0);
    let got = place.load::<f32>("out.npy");
    assert!((got - wanted.into_dyn()).iter().all(|x| x.abs() < 1e-6));
    // Printed, of several inputs, with a sign at the beginning, behind options.
    let text = place.succeed(&["eval", "-a*row", "a=a.npy", "row=row.npy"]);
    assert_eq!(text, "[[-0.5, 2.0],\n [-2.0, -0.0]]\n");
    let text = place.succeed(&["--device", "sim", "eval", "-v", "m = row**2; m - 1", "row=row.npy"]);
    assert_eq!(text, "[0, 3]\n");
    assert_eq!(place.succeed(&["eval", "2**10 - 1"]), "1023\n");
    let object = place.json(&["eval", "a > 0", "a=a.npy", "--json"]);
    assert_eq!(
        (&object["operation"], &object["dtype"]),
        (&"eval".into(), &"bool".into())
    );
    assert_eq!(object["value"], serde_json::json!([[true, false], [true, false]]));
}

#[test]
fn every_type_of_file_is_read_and_written() {
    let place = Workplace::new();
    let header = |descr| npy_header(descr, false, "(3,)");
    place.write("c.npy", &npy_bytes(&header("|b1"), &[1, 0, 1]));
    place.write("i8.npy", &npy_bytes(&header("|i1"), &[100, 255, 128]));
    place.write("f16.npy", &npy_bytes(&header(">f2"), &[0x3c, 0, 0xc0, 0, 0, 0]));
    place.save("u64.npy", &array![0u64, 1, u64::MAX]);
    assert_eq!(
        place.succeed(&["eval", "where(c, i, -i)", "c=c.npy", "i=i8.npy"]),
        "[100, 1, -128]\n"
    );
    assert_eq!(place.succeed(&["eval", "i + i", "i=i8.npy"]), "[200, -2, -256]\n");
    assert_eq!(place.json(&["eval", "h*2", "h=f16.npy", "--json"])["dtype"], "f16");
    assert_eq!(
        place.succeed(&["eval", "u - 1", "u=u64.npy"]),
        "[18446744073709551615, 0, 18446744073709551614]\n"
    );
    place.succeed(&["eval", "~c | (u == 1)", "c=c.npy", "u=u64.npy", "-o", "out.npy"]);
    let bytes = std::fs::read(place.path("out.npy")).unwrap();
    assert_eq!(bytes[bytes.len() - 3..], [0, 1, 0]);
    assert!(String::from_utf8_lossy(&bytes).contains("'|b1'"));
    place.fail(
        &["eval", "bf16(h)", "h=f16.npy"],
        &["eval: the result is bf16, for which NumPy has no type"],
    );
    // In Fortran order.
    let x = array![[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]];
    place.save("x.npy", &x.t().slice(s![.., ..]).to_owned());
    assert_eq!(
        place.succeed(&["eval", "x*index(0)", "x=x.npy"]),
        "[[0.0, 0.0],\n [2.0, 5.0],\n [6.0, 12.0]]\n"
    );
}

#[test]
fn steps_are_explained() {
    let place = Workplace::new();
    place.save("a.npy", &array![1.0f32, 2.0]);
    let text = place.succeed(&["eval", "--explain", "a*a + 2", "a=a.npy"]);
    let wanted = "\
%0 = array: f32 [2]
%1 = number_binary_f32_Mul(%0, %0): f32 [2]
%2 = 2.0: f32 []
%3 = number_binary_f32_Add(%1, %2): f32 [2]
kernel 1: 2 elements: reads 8 B, writes 8 B";
    // On a GPU the time that its memory takes follows.
    assert!(text.starts_with(wanted), "{text}");
    let object = place.json(&["eval", "a*a + 2", "a=a.npy", "--explain", "--json"]);
    assert_eq!(
        (object["value"].as_array().unwrap().len(), &object["dtype"]),
        (5, &"f32".into())
    );
}

#[test]
fn what_is_wrong_is_marked() {
    let place = Workplace::new();
    place.save("a.npy", &array![1.0f32, 2.0]);
    place.save("b.npy", &array![1.0f32, 2.0, 3.0]);
    let (a, b) = ("a=a.npy", "b=b.npy");
    fail_at(
        &place,
        &["eval", "1 + tahn(a)", a],
        "unknown function `tahn`: did you mean `tanh`?",
        "    ^^^^",
    );
    fail_at(&place, &["eval", "a + c", a], "unknown name `c`", "    ^");
    fail_at(&place, &["eval", "a +", a], "given nothing, wanted a number", "   ^");
    fail_at(
        &place,
        &["eval", "2*(a + b)", a, b],
        "add: given shapes [2] and [3], wanted",
        "     ^",
    );
    fail_at(
        &place,
        &["eval", "a & 1", a],
        "`&` of f32, wanted integers or bool",
        "  ^",
    );
    fail_at(&place, &["eval", "", a], "given nothing", "^");
    place.fail(
        &["eval", "a + 1", a, b],
        &["eval: b is given, but is no name of the formula"],
    );
    place.fail(&["eval", "a + 1", a, a], &["eval: a is given twice"]);
    place.fail(&["eval", "a + 1", "a=none.npy"], &["none.npy: cannot be read"]);
    let output = place.run(&["eval", "a + 1", "a.npy"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("wanted a name of the formula and its file, as in a=A.npy"),
        "{message}"
    );
}
