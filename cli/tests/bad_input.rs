// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad input is one clear line, a status that is not 0, and no file made or changed.

use crate::common::{Workplace, npy_bytes, npy_header};
use ndarray::{Array, array};

#[test]
fn npy_files_that_are_none() {
    let place = Workplace::new();
    let fail = |name: &str, parts: &[&str]| {
        place.fail(&["map", "neg", name, "-o", "out.npy"], parts);
        place.fail(&["add", name, "1", "-o", "out.npy"], parts);
        place.fail(&["reduce", "sum", name], parts);
    };
    place.save("good.npy", &array![1.0f32, 2.0, 3.0]);
    let good = std::fs::read(place.path("good.npy")).unwrap();
    fail("missing.npy", &["missing.npy: cannot be read", "No such file"]);
    fail(".", &[".: is a folder, wanted a file"]);
    fail("/dev/null", &["/dev/null: is no regular file"]);
    place.write("empty.npy", b"");
    fail("empty.npy", &["empty.npy: is empty"]);
    place.write("text.npy", b"a,b,c\n1,2,3\n");
    fail("text.npy", &["text.npy: is no .npy file"]);
    place.write("magic.npy", &good[..8]);
    fail("magic.npy", &["magic.npy: truncated in the header"]);
    place.write("header.npy", &good[..40]);
    fail("header.npy", &["header.npy: truncated in the header"]);
    place.write("data.npy", &good[..good.len() - 1]);
    fail(
        "data.npy",
        &["data.npy: truncated: shape [3] of f32 takes 12 bytes, the file has 11"],
    );
    place.write("long.npy", &[&good[..], b"garbage"].concat());
    fail(
        "long.npy",
        &["long.npy: more than one array", "takes 12 bytes, the file has 19"],
    );
    let mut version = good.clone();
    version[6] = 9;
    place.write("version.npy", &version);
    fail("version.npy", &["version.npy"]);
}

#[test]
fn headers_that_lie() {
    let place = Workplace::new();
    let fail = |header: &str, parts: &[&str]| {
        place.write("bad.npy", &npy_bytes(header, &[0; 64]));
        place.fail(&["map", "neg", "bad.npy", "-o", "out.npy"], parts);
    };
    let shape = |shape: &str| npy_header("<f4", false, shape);
    fail(
        &shape("(1152921504606846976,)"),
        &["bad.npy: truncated", "takes 4611686018427387904 bytes, the file has 64"],
    );
    fail(
        &shape("(4611686018427387904,)"),
        &["bad.npy: the header claims more elements than memory can hold"],
    );
    fail(
        &shape("(4294967296, 4294967296)"),
        &["more elements than memory can hold, shape [4294967296, 4294967296]"],
    );
    fail(
        &shape("(0, 4611686018427387904)"),
        &["more elements than memory can hold"],
    );
    fail(
        &shape("(99999999999999999999999999,)"),
        &["no valid .npy header", "shape"],
    );
    fail(&shape("(-1,)"), &["no valid .npy header", "shape"]);
    fail(
        "{'descr': '<f4', 'shape': (16,)}",
        &["no valid .npy header: missing key: fortran_order"],
    );
    fail("[1, 2]", &["no valid .npy header: metadata is not a dict"]);
    fail("{'descr': ", &["no valid .npy header: is no Python dictionary"]);
    fail(&"{".repeat(5000), &["no valid .npy header: brackets nest too deep"]);
    fail(
        &" ".repeat(30_000),
        &["the header claims 30001 bytes, wanted at most 10000"],
    );
}

#[test]
fn element_types_that_are_not_supported() {
    let place = Workplace::new();
    let wanted = "wanted f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64 or bool \
        (for NumPy f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8, b1)";
    for descr in ["<c8", "<f16", "<U3", "|O", "<M8[ns]"] {
        place.write("other.npy", &npy_bytes(&npy_header(descr, false, "(1,)"), &[0; 8]));
        place.fail(
            &["reduce", "sum", "other.npy"],
            &["other.npy: element type", descr, wanted],
        );
    }
    let structured = "{'descr': [('a', '<f4'), ('b', '<i8')], 'fortran_order': False, 'shape': (1,), }";
    place.write("rows.npy", &npy_bytes(structured, &[0; 12]));
    place.fail(
        &["reduce", "sum", "rows.npy"],
        &["rows.npy: element type [('a', '<f4')", wanted],
    );
    place.save("n.npy", &array![1u32]);
    place.fail(
        &["map", "exp", "n.npy", "-o", "out.npy"],
        &["n.npy: exp of u32: wanted f16, f32 or f64"],
    );
}

#[test]
fn operands_that_do_not_fit_together() {
    let place = Workplace::new();
    place.save("a.npy", &array![1.0f32, 2.0, 3.0]);
    place.save("b.npy", &array![[1.0f32, 2.0]]);
    place.save("c.npy", &array![1.0f64, 2.0, 3.0]);
    place.save("n.npy", &array![1u32, 2]);
    let fail = |a: &str, b: &str, parts: &[&str]| place.fail(&["add", a, b, "-o", "out.npy"], parts);
    fail(
        "a.npy",
        "b.npy",
        &["add: a.npy has shape [3] and b.npy has shape [1, 2], wanted shapes that broadcast to one"],
    );
    fail(
        "a.npy",
        "c.npy",
        &["add: a.npy is f32 and c.npy is f64, wanted the same element type"],
    );
    fail("1", "2", &["add: 1 and 2 are numbers, wanted at least one .npy file"]);
    fail("n.npy", "2.5", &["add: 2.5 is no u32, wanted one"]);
    fail("-1", "n.npy", &["add: -1 is no u32, wanted one"]);
    fail("n.npy", "4294967296", &["add: 4294967296 is no u32, wanted one"]);
    fail("n.npy", "two", &["two: cannot be read"]);
}

#[test]
fn outputs_that_cannot_be_written() {
    let place = Workplace::new();
    place.save("x.npy", &array![1.0f32]);
    std::fs::create_dir(place.path("folder")).unwrap();
    place.save("locked.npy", &array![1.0f32]);
    let mut permissions = std::fs::metadata(place.path("locked.npy")).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(place.path("locked.npy"), permissions).unwrap();
    let fail = |output: &str, parts: &[&str]| place.fail(&["map", "neg", "x.npy", "-o", output], parts);
    fail("none/out.npy", &["none/out.npy: cannot be written, none is no folder"]);
    fail("folder", &["folder: is a folder, wanted a file to write"]);
    fail("x.npy/out.npy", &["x.npy/out.npy: cannot be written"]);
    fail("/dev/null", &["/dev/null: is no regular file"]);
    fail("locked.npy", &["locked.npy: is read-only"]);
    fail("..", &["..: is a folder"]);
    place.fail(&["demo", "--out", "x.npy"], &["x.npy: cannot be made"]);
}

/// An existing file stays as it is when anything goes wrong, and keeps its permissions when not.
#[cfg(unix)]
#[test]
fn existing_outputs() {
    use std::os::unix::fs::PermissionsExt;
    let place = Workplace::new();
    let mode = |name: &str| std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    place.save("x.npy", &array![1.0f32]);
    place.write("out.npy", b"precious");
    place.write("bad.npy", b"bad");
    place.fail(&["map", "neg", "bad.npy", "-o", "out.npy"], &["bad.npy"]);
    std::fs::set_permissions(place.path("out.npy"), std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("out.npy", place.path("link.npy")).unwrap();
    place.succeed(&["map", "neg", "x.npy", "-o", "link.npy"]);
    assert_eq!(mode("out.npy"), 0o640);
    assert!(place.path("link.npy").is_symlink());
    assert_eq!(place.load::<f32>("out.npy"), array![-1.0].into_dyn());
    place.succeed(&["map", "neg", "x.npy", "-o", "new.npy"]);
    assert_eq!(mode("new.npy"), mode("x.npy"), "as any new file");
}

#[test]
fn devices_that_do_not_exist() {
    let place = Workplace::new();
    place.save("x.npy", &array![1.0f32]);
    for name in ["cuda", "cuda:", "cuda:-1", "gpu", "cuda:x", "cuda:99999999999", ""] {
        let wanted = "wanted auto, cuda:N or sim";
        place.fail(
            &["reduce", "sum", "x.npy", "--device", name],
            &[&format!("unknown device {name:?}"), wanted],
        );
    }
    for command in [&["devices"][..], &["demo"], &["map", "neg", "x.npy", "-o", "out.npy"]] {
        let args = [command, &["--device", "cuda:77"]].concat();
        let output = place.run(&args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with("warpsmith: error: no device cuda:77"), "{message}");
        assert!(!place.path("out.npy").exists());
    }
    let mut command = place.command(&["reduce", "sum", "x.npy"]);
    let output = command.env("WARPSMITH_DEVICE", "nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("unknown device \"nonsense\"")
    );
}

/// A file of 1 TiB that takes no space, with a header that is right, for operations that want all of it at once.
#[test]
fn arrays_larger_than_memory() {
    let place = Workplace::new();
    let header = npy_bytes(&npy_header("<f4", false, "(274877906944,)"), &[]);
    place.write("huge.npy", &header);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(place.path("huge.npy"))
        .unwrap();
    file.set_len(header.len() as u64 + (1 << 40)).unwrap();
    let parts = ["huge.npy: 1099511627776 bytes of elements, wanted at most", "free"];
    place.fail(&["scan", "sum", "huge.npy", "-o", "out.npy"], &parts);
    place.fail(&["sub", "huge.npy", "1", "-o", "out.npy"], &parts);
}

#[test]
fn usage_errors_have_status_2() {
    let place = Workplace::new();
    place.save("x.npy", &Array::<f32, _>::zeros(3));
    let cases: [(&[&str], &str); 7] = [
        (&[], "Usage"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&["map", "cosh", "x.npy", "-o", "y.npy"], "wanted one of neg, abs"),
        (
            &["map", "cast:f8", "x.npy", "-o", "y.npy"],
            "unknown element type 'f8': wanted f16, f32",
        ),
        (
            &["reduce", "median", "x.npy"],
            "possible values: sum, prod, min, max, mean",
        ),
        (&["add", "x.npy", "1"], "--output"),
        (&["demo", "--len", "0"], "not in 1.."),
    ];
    for (args, part) in cases {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(part), "{args:?}: {message}");
    }
    assert!(!place.path("y.npy").exists());
}
