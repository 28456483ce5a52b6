// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of f16, bool, i8 and i16: results have NumPy's types and values.

use crate::common::{Workplace, npy_bytes, npy_header};
use ndarray::{Array1, array};
use warpsmith::f16;

/// A file of 16-bit floats along one axis.
fn save_f16(place: &Workplace, name: &str, values: &[f32], big_endian: bool) {
    save_f16_of(place, name, &format!("({},)", values.len()), values, big_endian);
}

/// A file of 16-bit floats of that shape, in Python's spelling; ndarray-npy writes none.
fn save_f16_of(place: &Workplace, name: &str, shape: &str, values: &[f32], big_endian: bool) {
    let bytes = |&x: &f32| match big_endian {
        true => f16::from_f32(x).to_be_bytes(),
        false => f16::from_f32(x).to_le_bytes(),
    };
    let data: Vec<u8> = values.iter().flat_map(bytes).collect();
    let descr = if big_endian { ">f2" } else { "<f2" };
    place.write(name, &npy_bytes(&npy_header(descr, false, shape), &data));
}

/// The elements of a file of 16-bit floats, whose header is NumPy's.
fn load_f16(place: &Workplace, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(place.path(name)).unwrap();
    let header = String::from_utf8_lossy(&bytes[10..128]).to_string();
    assert!(
        header.starts_with("{'descr': '<f2', 'fortran_order': False, 'shape': ("),
        "{header}"
    );
    assert!(header.ends_with('\n') && (bytes[8], bytes[9]) == (118, 0), "{header}");
    let elements = bytes[128..].chunks_exact(2);
    elements
        .map(|pair| f16::from_le_bytes([pair[0], pair[1]]).to_f32())
        .collect()
}

#[test]
fn f16_is_read_computed_and_written() {
    let place = Workplace::new();
    for big_endian in [false, true] {
        save_f16(&place, "x.npy", &[1.0, -2.5, 0.1, 65504.0], big_endian);
        place.succeed(&["mul", "x.npy", "2", "-o", "y.npy"]);
        assert_eq!(
            load_f16(&place, "y.npy"),
            [2.0, -5.0, f16::from_f32(0.1).to_f32() * 2.0, f32::INFINITY]
        );
    }
    place.succeed(&["map", "abs", "x.npy", "-o", "y.npy"]);
    assert_eq!(load_f16(&place, "y.npy")[1], 2.5);
    place.succeed(&["map", "exp", "x.npy", "-o", "y.npy"]);
    assert_eq!(load_f16(&place, "y.npy")[0], f16::from_f32(1f32.exp()).to_f32());
    assert_eq!(place.succeed(&["reduce", "max", "x.npy"]), "65504.0\n");
    let object = place.json(&["scan", "min", "x.npy", "-o", "y.npy", "--json"]);
    assert_eq!(object["dtype"], "f16");
    assert_eq!(load_f16(&place, "y.npy"), [1.0, -2.5, -2.5, -2.5]);
    place.succeed(&["map", "cast:f32", "x.npy", "-o", "y.npy"]);
    assert_eq!(place.load::<f32>("y.npy")[2], f16::from_f32(0.1).to_f32());
    place.save("wide.npy", &array![0.1f64, 70000.0]);
    place.succeed(&["map", "cast:f16", "wide.npy", "-o", "y.npy"]);
    assert_eq!(load_f16(&place, "y.npy"), [f16::from_f64(0.1).to_f32(), f32::INFINITY]);
}

#[test]
fn what_has_no_f16_says_so() {
    let place = Workplace::new();
    save_f16(&place, "x.npy", &[1.0], false);
    place.fail(
        &["histogram", "x.npy", "--bins", "2"],
        &["x.npy: histogram of f16: wanted f32", "`map cast:f32` makes one"],
    );
}

/// Sums in f32, which are rounded once: added up as f16, 2048 + 1 + 1 is 2048.
#[test]
fn products_of_f16_are_f16() {
    let place = Workplace::new();
    save_f16_of(&place, "a.npy", "(2, 3)", &[2048.0, 1.0, 1.0, 0.5, -3.0, 60000.0], true);
    save_f16_of(&place, "b.npy", "(3, 2)", &[1.0, 2.0, 1.0, 4.0, 1.0, 0.0], false);
    let object = place.json(&["matmul", "a.npy", "b.npy", "-o", "c.npy", "--json"]);
    assert_eq!(
        (&object["dtype"], &object["shape"]),
        (&"f16".into(), &serde_json::json!([2, 2]))
    );
    // 59997.5 is rounded to a multiple of 32.
    assert_eq!(load_f16(&place, "c.npy"), [2050.0, 4100.0, 60000.0, -11.0]);
    save_f16(&place, "v.npy", &[1.0, 2.0, 4.0], false);
    let object = place.json(&["matmul", "a.npy", "v.npy", "-o", "c.npy", "--json"]);
    assert_eq!(object["shape"], serde_json::json!([2]));
    assert_eq!(load_f16(&place, "c.npy"), [2054.0, f32::INFINITY]);
    save_f16_of(&place, "one.npy", "(1, 1, 3)", &[1.0, -1.0, 2.0], false);
    save_f16_of(&place, "stack.npy", "(2, 3, 1)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], false);
    place.succeed(&["matmul", "one.npy", "stack.npy", "-o", "c.npy"]);
    assert_eq!(load_f16(&place, "c.npy"), [5.0, 11.0]);
}

/// NumPy saves the bf16 of ml_dtypes as two bytes without a meaning.
#[test]
fn bf16_is_refused_with_the_reason() {
    let place = Workplace::new();
    place.write("b.npy", &npy_bytes(&npy_header("|V2", false, "(1,)"), &[0x80, 0x3f]));
    place.fail(
        &["reduce", "sum", "b.npy"],
        &[
            "b.npy: element type '|V2'",
            "bf16",
            "NumPy has no type",
            "wanted f16, f32",
        ],
    );
    let output = place.run(&["map", "cast:bf16", "b.npy", "-o", "out.npy"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        message.contains("NumPy has no bf16") && message.contains("wanted f16, f32"),
        "{message}"
    );
}

/// An operation, and what it makes of two elements.
type Case<T> = (&'static str, fn(T, T) -> T);

/// Masks, in which more elements hold than a byte counts to.
fn masks(place: &Workplace) -> (Array1<bool>, Array1<bool>) {
    let (a, b) = (
        Array1::from_shape_fn(700, |i| i % 3 != 0),
        Array1::from_shape_fn(700, |i| i % 2 == 0),
    );
    place.save("a.npy", &a);
    place.save("b.npy", &b);
    (a, b)
}

#[test]
fn bool_is_as_in_numpy() {
    let place = Workplace::new();
    let (a, b) = masks(&place);
    let cases: [Case<bool>; 4] = [
        ("add", |a, b| a | b),
        ("mul", |a, b| a & b),
        ("max", |a, b| a | b),
        ("min", |a, b| a & b),
    ];
    for (op, want) in cases {
        place.succeed(&[op, "a.npy", "b.npy", "-o", "c.npy"]);
        let want = ndarray::Zip::from(&a).and(&b).map_collect(|&a, &b| want(a, b));
        assert_eq!(place.load::<bool>("c.npy"), want.into_dyn(), "{op}");
    }
    let count = a.iter().filter(|&&x| x).count();
    assert_eq!(place.succeed(&["reduce", "sum", "a.npy"]), format!("{count}\n"));
    let mean: f64 = place.succeed(&["reduce", "mean", "a.npy"]).trim().parse().unwrap();
    assert!((mean - count as f64 / 700.0).abs() < 1e-15);
    assert_eq!(place.succeed(&["reduce", "max", "a.npy"]), "true\n");
    assert_eq!(place.succeed(&["reduce", "argmax", "a.npy"]), "1\n");
    place.succeed(&["scan", "sum", "a.npy", "-o", "c.npy"]);
    let mut sum = 0;
    let sums = a.mapv(|x| {
        sum += i64::from(x);
        sum
    });
    assert_eq!(place.load::<i64>("c.npy"), sums.into_dyn());
    place.succeed(&["scan", "max", "a.npy", "-o", "c.npy"]);
    assert!(place.load::<bool>("c.npy").iter().skip(1).all(|&x| x));
    place.succeed(&["transpose", "a.npy", "-o", "c.npy"]);
    assert_eq!(place.load::<bool>("c.npy"), a.clone().into_dyn());
    place.succeed(&["map", "cast:f32", "a.npy", "-o", "c.npy"]);
    assert_eq!(
        place.load::<f32>("c.npy"),
        a.mapv(|x| f32::from(u8::from(x))).into_dyn()
    );
}

#[test]
fn arithmetic_that_bool_does_not_have() {
    let place = Workplace::new();
    masks(&place);
    let numbers = "wanted numbers (`map cast:u8` makes them)";
    place.fail(&["sub", "a.npy", "b.npy", "-o", "c.npy"], &["sub of bool", numbers]);
    place.fail(
        &["add", "a.npy", "1", "-o", "c.npy"],
        &["add of bool and a number", numbers],
    );
    place.fail(
        &["map", "neg", "a.npy", "-o", "c.npy"],
        &["a.npy: neg of bool", numbers],
    );
    place.write("two.npy", &npy_bytes(&npy_header("|b1", false, "(2,)"), &[1, 2]));
    place.fail(
        &["reduce", "sum", "two.npy"],
        &["two.npy: an element of bool is 2, wanted 0 or 1"],
    );
    place.save("u.npy", &array![1u8, 0]);
    place.fail(
        &["add", "two.npy", "u.npy", "-o", "c.npy"],
        &["two.npy is bool and u.npy is u8, wanted the same element type"],
    );
}

#[test]
fn masks_are_written_as_bool() {
    let place = Workplace::new();
    place.save("x.npy", &array![[0.0f32, 1.0], [0.0, 0.0]]);
    place.succeed(&["reduce", "any", "x.npy", "--axis", "1", "-o", "any.npy"]);
    assert_eq!(place.load::<bool>("any.npy"), array![true, false].into_dyn());
    assert_eq!(
        place.succeed(&["reduce", "all", "x.npy", "--axis", "0"]),
        "[false, false]\n"
    );
    place.succeed(&["reduce", "any", "x.npy", "-o", "any.npy"]);
    assert_eq!(place.load::<bool>("any.npy"), ndarray::arr0(true).into_dyn());
}

/// They wrap around in their own type, and are summed in i64.
#[test]
fn i8_and_i16_are_as_in_numpy() {
    let place = Workplace::new();
    let (a, b) = (array![i8::MIN, -1, 7, 127], array![-1i8, 2, 100, 1]);
    place.save("a.npy", &a);
    place.save("b.npy", &b);
    let cases: [Case<i8>; 6] = [
        ("add", i8::wrapping_add),
        ("sub", i8::wrapping_sub),
        ("mul", i8::wrapping_mul),
        ("div", i8::wrapping_div),
        ("min", i8::min),
        ("max", i8::max),
    ];
    for (op, want) in cases {
        place.succeed(&[op, "a.npy", "b.npy", "-o", "c.npy"]);
        let want = ndarray::Zip::from(&a).and(&b).map_collect(|&a, &b| want(a, b));
        assert_eq!(place.load::<i8>("c.npy"), want.into_dyn(), "{op}");
    }
    for (op, want) in [
        ("neg", i8::wrapping_neg as fn(i8) -> i8),
        ("abs", i8::wrapping_abs),
        ("square", |x| x.wrapping_mul(x)),
    ] {
        place.succeed(&["map", op, "a.npy", "-o", "c.npy"]);
        assert_eq!(place.load::<i8>("c.npy"), a.mapv(want).into_dyn(), "{op}");
    }
    place.succeed(&["add", "a.npy", "-100", "-o", "c.npy"]);
    assert_eq!(place.load::<i8>("c.npy"), array![28i8, -101, -93, 27].into_dyn());
    place.fail(
        &["add", "a.npy", "200", "-o", "c2.npy"],
        &["add: 200 is no i8, wanted one"],
    );

    let x = Array1::from_shape_fn(1000, |i| (i as i16).wrapping_mul(7919));
    place.save("x.npy", &x);
    let sum: i64 = x.iter().map(|&x| i64::from(x)).sum();
    assert_eq!(place.succeed(&["reduce", "sum", "x.npy"]), format!("{sum}\n"));
    assert_eq!(
        place.succeed(&["reduce", "min", "x.npy"]),
        format!("{}\n", x.iter().min().unwrap())
    );
    let object = place.json(&["reduce", "max", "x.npy", "--json", "-o", "c.npy"]);
    assert_eq!(
        (&object["dtype"], place.load::<i16>("c.npy").first()),
        (&"i16".into(), x.iter().max())
    );
    place.succeed(&["scan", "sum", "x.npy", "-o", "c.npy"]);
    assert_eq!(place.load::<i64>("c.npy").last(), Some(&sum));
    place.succeed(&["scan", "max", "x.npy", "-o", "c.npy"]);
    assert_eq!(place.load::<i16>("c.npy").last(), x.iter().max());
    place.succeed(&["map", "cast:f64", "x.npy", "-o", "c.npy"]);
    assert_eq!(place.load::<f64>("c.npy"), x.mapv(f64::from).into_dyn());
    place.fail(
        &["map", "exp", "x.npy", "-o", "none.npy"],
        &["x.npy: exp of i16: wanted f16, f32 or f64"],
    );
    place.succeed(&["histogram", "x.npy", "--bins", "4", "-o", "c.npy"]);
    assert_eq!(place.load::<u64>("c.npy").sum(), 1000);
    let m = array![[100i8, 3], [2, 1]];
    place.save("m.npy", &m);
    place.succeed(&["matmul", "m.npy", "m.npy", "-o", "c.npy"]);
    // 100 · 100 + 3 · 2 = 10006, which is 22 modulo 256; 303 is 47.
    assert_eq!(place.load::<i8>("c.npy"), array![[22i8, 47], [-54, 7]].into_dyn());
}

/// Sums and products of integers have 64 bits, signed or not as the elements are.
#[test]
fn sums_and_products_have_64_bits() {
    let place = Workplace::new();
    place.save("b.npy", &Array1::from_elem(1000, 200u8));
    assert_eq!(place.succeed(&["reduce", "sum", "b.npy"]), "200000\n");
    let object = place.json(&["reduce", "sum", "b.npy", "--json", "-o", "c.npy"]);
    assert_eq!(object["value"], 200_000);
    assert_eq!(place.load::<u64>("c.npy"), ndarray::arr0(200_000).into_dyn());
    for algorithm in ["look-back", "blelloch"] {
        place.succeed(&["scan", "sum", "b.npy", "--algorithm", algorithm, "-o", "c.npy"]);
        assert_eq!(place.load::<u64>("c.npy").last(), Some(&200_000), "{algorithm}");
    }
    place.save("m.npy", &array![[i32::MAX, i32::MIN], [i32::MAX, i32::MIN]]);
    place.succeed(&["reduce", "sum", "m.npy", "--axis", "0", "-o", "c.npy"]);
    let sums = array![2 * i64::from(i32::MAX), 2 * i64::from(i32::MIN)];
    assert_eq!(place.load::<i64>("c.npy"), sums.into_dyn());
    place.succeed(&["scan", "prod", "m.npy", "--axis", "0", "--exclusive", "-o", "c.npy"]);
    let products = array![[1, 1], [i64::from(i32::MAX), i64::from(i32::MIN)]];
    assert_eq!(place.load::<i64>("c.npy"), products.into_dyn());
    place.save("h.npy", &array![65_535u16, 65_535, 65_535]);
    assert_eq!(
        place.succeed(&["reduce", "prod", "h.npy"]),
        format!("{}\n", 65_535u64.pow(3))
    );
    assert_eq!(place.succeed(&["reduce", "max", "h.npy"]), "65535\n");
}

/// In both byte orders, and in Fortran order.
#[test]
fn big_endian_i16_in_fortran_order() {
    let place = Workplace::new();
    let data: Vec<u8> = [1i16, -300, 2, 400].iter().flat_map(|x| x.to_be_bytes()).collect();
    place.write("x.npy", &npy_bytes(&npy_header(">i2", true, "(2, 2)"), &data));
    place.succeed(&["transpose", "x.npy", "-o", "y.npy"]);
    assert_eq!(place.load::<i16>("y.npy"), array![[1i16, -300], [2, 400]].into_dyn());
}
