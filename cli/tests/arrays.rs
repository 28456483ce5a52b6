// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands on .npy files give what ndarray and NumPy give.

use crate::common::{Workplace, npy_bytes, npy_header};
use ndarray::{Array, Array1, Array2, ArrayD, IxDyn, ShapeBuilder, Zip, arr0, array};

fn floats() -> (Array2<f32>, Array2<f32>) {
    let a = Array2::from_shape_fn((37, 41), |(i, j)| (i as f32 - 17.5) * 0.37 + j as f32 * 0.11);
    let b = Array2::from_shape_fn((37, 41), |(i, j)| (j as f32 - 20.5) * 0.29 - i as f32 * 0.07);
    (a, b)
}

#[test]
fn binary_operations_on_floats() {
    let place = Workplace::new();
    let (a, b) = floats();
    place.save("a.npy", &a);
    place.save("b.npy", &b);
    let min = Zip::from(&a).and(&b).map_collect(|&a, &b| a.min(b));
    let max = Zip::from(&a).and(&b).map_collect(|&a, &b| a.max(b));
    let cases = [
        ("add", &a + &b),
        ("sub", &a - &b),
        ("mul", &a * &b),
        ("div", &a / &b),
        ("min", min),
        ("max", max),
    ];
    for (op, want) in cases {
        assert_eq!(place.succeed(&[op, "a.npy", "b.npy", "-o", "c.npy"]), "");
        assert_eq!(place.load::<f32>("c.npy"), want.into_dyn(), "{op}");
    }
}

#[test]
fn integers_wrap_and_divide_by_zero_to_zero() {
    let place = Workplace::new();
    place.save("a.npy", &array![i64::MAX, i64::MIN, -7, 7, 0]);
    place.save("b.npy", &array![1i64, -1, 2, 0, 5]);
    let cases = [
        ("add", [i64::MIN, i64::MAX, -5, 7, 5]),
        ("mul", [i64::MAX, i64::MIN, -14, 0, 0]),
        ("div", [i64::MAX, i64::MIN, -3, 0, 0]),
        ("min", [1, i64::MIN, -7, 0, 0]),
    ];
    for (op, want) in cases {
        place.succeed(&[op, "a.npy", "b.npy", "-o", "c.npy"]);
        assert_eq!(
            place.load::<i64>("c.npy"),
            Array::from_vec(want.to_vec()).into_dyn(),
            "{op}"
        );
    }
}

/// One element type after the other: read, computed with, and written.
#[test]
fn every_element_type() {
    macro_rules! round {
        ($place:ident: $($type:ty)*) => {$(
            $place.save("x.npy", &array![1 as $type, 2 as $type, 100 as $type]);
            $place.succeed(&["sub", "x.npy", "1", "-o", "y.npy"]);
            assert_eq!($place.load::<$type>("y.npy"), array![0 as $type, 1 as $type, 99 as $type].into_dyn());
        )*};
    }
    let place = Workplace::new();
    round!(place: f32 f64 i32 i64 u32 u64);
}

#[test]
fn either_operand_may_be_a_number() {
    let place = Workplace::new();
    place.save("x.npy", &array![1.0f64, -2.0, 4.0]);
    let cases = [
        (["add", "x.npy", "2.5"], [3.5, 0.5, 6.5]),
        (["add", "2.5", "x.npy"], [3.5, 0.5, 6.5]),
        (["sub", "x.npy", "-1e1"], [11.0, 8.0, 14.0]),
        (["sub", "-1", "x.npy"], [-2.0, 1.0, -5.0]),
        (["div", "x.npy", "4"], [0.25, -0.5, 1.0]),
        (["div", "4", "x.npy"], [4.0, -2.0, 1.0]),
        (["max", "0", "x.npy"], [1.0, 0.0, 4.0]),
        (["min", "x.npy", "inf"], [1.0, -2.0, 4.0]),
    ];
    for ([op, a, b], want) in cases {
        place.succeed(&[op, a, b, "-o", "y.npy"]);
        assert_eq!(
            place.load::<f64>("y.npy"),
            Array1::from_vec(want.to_vec()).into_dyn(),
            "{op} {a} {b}"
        );
    }
}

/// NumPy's minimum and maximum hand NaN on.
#[test]
fn nan_is_as_in_numpy() {
    let place = Workplace::new();
    place.save("a.npy", &array![f32::NAN, 1.0, 2.0]);
    place.save("b.npy", &array![1.0, f32::NAN, -1.0f32]);
    for (op, third) in [("min", -1.0), ("max", 2.0)] {
        place.succeed(&[op, "a.npy", "b.npy", "-o", "c.npy"]);
        let c = place.load::<f32>("c.npy");
        assert!(c[0].is_nan() && c[1].is_nan() && c[2] == third, "{op}: {c}");
        assert_eq!(place.succeed(&["reduce", op, "a.npy"]), "NaN\n");
    }
    assert_eq!(place.json(&["reduce", "max", "a.npy", "--json"])["value"], "NaN");
    place.save("inf.npy", &array![f64::INFINITY, 1.0]);
    assert_eq!(place.json(&["reduce", "sum", "inf.npy", "--json"])["value"], "inf");
    place.succeed(&["map", "relu", "a.npy", "-o", "c.npy"]);
    assert!(place.load::<f32>("c.npy")[0].is_nan());
}

type Function = fn(f64) -> f64;

#[test]
fn functions_of_floats() {
    let place = Workplace::new();
    let x = floats().0.mapv(f64::from);
    place.save("x.npy", &x);
    let cases: [(&str, Function); 11] = [
        ("neg", |x| -x),
        ("abs", f64::abs),
        ("square", |x| x * x),
        ("relu", |x| x.max(0.0)),
        ("sqrt", f64::sqrt),
        ("exp", f64::exp),
        ("log", f64::ln),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tanh", f64::tanh),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
    ];
    for (op, want) in cases {
        place.succeed(&["map", op, "x.npy", "-o", "y.npy"]);
        let y = place.load::<f64>("y.npy");
        for (&x, &y) in x.iter().zip(&y) {
            let want = want(x);
            // Of the kernel and of this reference 4 ulp each at most (sigmoid); an ulp is at most EPSILON · |want|.
            let near = (y - want).abs() <= 8.0 * f64::EPSILON * want.abs();
            assert!(near || (y.is_nan() && want.is_nan()), "{op}({x}) = {y}, wanted {want}");
        }
    }
}

#[test]
fn functions_of_integers() {
    let place = Workplace::new();
    place.save("x.npy", &array![[-3i32, 0], [5, i32::MIN]]);
    let cases = [
        ("neg", array![[3, 0], [-5, i32::MIN]]),
        ("abs", array![[3, 0], [5, i32::MIN]]),
        ("square", array![[9, 0], [25, 0]]),
        ("relu", array![[0, 0], [5, 0]]),
    ];
    for (op, want) in cases {
        place.succeed(&["map", op, "x.npy", "-o", "y.npy"]);
        assert_eq!(place.load::<i32>("y.npy"), want.into_dyn(), "{op}");
    }
}

#[test]
fn casts_are_rusts_as() {
    let place = Workplace::new();
    let x = [1.9f32, -1.9, 3e9, f32::NAN, f32::NEG_INFINITY];
    place.save("x.npy", &Array1::from_vec(x.to_vec()));
    place.succeed(&["map", "cast:i32", "x.npy", "-o", "y.npy"]);
    assert_eq!(
        place.load::<i32>("y.npy"),
        Array1::from_vec(x.map(|x| x as i32).to_vec()).into_dyn()
    );
    place.succeed(&["map", "cast:u64", "x.npy", "-o", "y.npy"]);
    assert_eq!(
        place.load::<u64>("y.npy"),
        Array1::from_vec(x.map(|x| x as u64).to_vec()).into_dyn()
    );
    place.save("n.npy", &array![u64::MAX, 1 << 33]);
    let object = place.json(&["map", "cast:f32", "n.npy", "-o", "y.npy", "--json"]);
    assert_eq!(
        place.load::<f32>("y.npy"),
        array![u64::MAX as f32, 8589934592.0].into_dyn()
    );
    assert_eq!(
        (&object["dtype"], &object["operation"]),
        (&"f32".into(), &"cast:f32".into())
    );
}

#[test]
fn reductions_print_numbers_that_read_back() {
    let place = Workplace::new();
    let n = Array1::from_iter((1..=100_003i64).map(|i| i * 37_000_000_007 % 1_000_003 - 500_000));
    place.save("n.npy", &n);
    let reduce = |op: &str, file: &str| place.succeed(&["reduce", op, file]).trim_end().to_string();
    assert_eq!(reduce("sum", "n.npy").parse(), Ok(n.sum()));
    assert_eq!(reduce("min", "n.npy").parse(), Ok(*n.iter().min().unwrap()));
    assert_eq!(reduce("max", "n.npy").parse(), Ok(*n.iter().max().unwrap()));
    let mean: f64 = reduce("mean", "n.npy").parse().unwrap();
    // All partial sums are integers below 2^53: exact.
    assert_eq!(mean, n.sum() as f64 / n.len() as f64);
    place.save("p.npy", &array![[3u64, 5, 7], [11, 13, 17]]);
    assert_eq!(reduce("prod", "p.npy"), "255255");
    place.save("big.npy", &array![0.1f32, 1e30]);
    assert_eq!(reduce("max", "big.npy").parse(), Ok(1e30f32));
    assert_eq!(reduce("min", "big.npy"), "0.1");
    let object = place.json(&["reduce", "prod", "p.npy", "--json"]);
    assert_eq!(object["value"], 255_255);
    assert_eq!(object["shape"], serde_json::json!([2, 3]));
    assert_eq!(object["dtype"], "u64");
}

#[test]
fn fortran_order_and_big_endian_files() {
    let place = Workplace::new();
    let c = Array2::from_shape_fn((3, 5), |(i, j)| (10 * i + j) as i32);
    let mut f = Array2::<i32>::zeros((3, 5).f());
    f.assign(&c);
    place.save("c.npy", &c);
    place.save("f.npy", &f);
    assert!(String::from_utf8_lossy(&std::fs::read(place.path("f.npy")).unwrap()).contains("'fortran_order': True"));
    place.succeed(&["add", "c.npy", "f.npy", "-o", "sum.npy"]);
    assert_eq!(place.load::<i32>("sum.npy"), (&c * 2).into_dyn());
    place.succeed(&["map", "neg", "f.npy", "-o", "neg.npy"]);
    assert_eq!(place.load::<i32>("neg.npy"), (-&c).into_dyn());
    let data: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|x| x.to_be_bytes()).collect();
    place.write("big.npy", &npy_bytes(&npy_header(">f8", false, "(2,)"), &data));
    assert_eq!(place.succeed(&["reduce", "sum", "big.npy"]), "-0.5\n");
}

#[test]
fn every_number_of_dimensions_and_no_elements() {
    let place = Workplace::new();
    place.save("scalar.npy", &arr0(2.0f32));
    place.succeed(&["map", "square", "scalar.npy", "-o", "out.npy"]);
    assert_eq!(place.load::<f32>("out.npy"), arr0(4.0f32).into_dyn());
    let deep = ArrayD::from_elem(IxDyn(&[2, 1, 3, 1, 2, 1, 1, 2]), 7u32);
    place.save("deep.npy", &deep);
    place.succeed(&["add", "deep.npy", "deep.npy", "-o", "out.npy"]);
    assert_eq!(place.load::<u32>("out.npy"), deep * 2);
    place.save("none.npy", &Array2::<f64>::zeros((0, 3)));
    place.succeed(&["map", "exp", "none.npy", "-o", "out.npy"]);
    assert_eq!(place.load::<f64>("out.npy").shape(), [0, 3]);
    assert_eq!(place.succeed(&["reduce", "sum", "none.npy"]), "0.0\n");
    assert_eq!(place.succeed(&["reduce", "prod", "none.npy"]), "1.0\n");
    place.fail(
        &["reduce", "max", "none.npy"],
        &["none.npy", "max", "[0, 3]", "wanted at least one element"],
    );
}

#[test]
fn output_may_be_the_input() {
    let place = Workplace::new();
    place.save("x.npy", &array![1u32, 2]);
    place.succeed(&["add", "x.npy", "x.npy", "-o", "x.npy"]);
    assert_eq!(place.load::<u32>("x.npy"), array![2, 4].into_dyn());
}
