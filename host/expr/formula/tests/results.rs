// SPDX-License-Identifier: MIT OR Apache-2.0
//! What formulas give, and which types.

use half::{bf16, f16};
use ndarray::{Axis, array};

use super::super::functions::{FUNCTIONS, INFIXES, Operation, POWER, PREFIXES};
use super::parse;
use crate::expr::AnyExpr;
use crate::expr::value::{Promote, promoted};
use crate::{Device, DeviceArray};
use cuda_std::scalar::{Scalar, ScalarType};

/// Three numbers of each type, named by it, a matrix `m` of two rows, and `c`, conditions.
pub(super) fn inputs() -> Vec<(&'static str, AnyExpr<'static>)> {
    let device = Device::simulator();
    let stream = device.default_stream();
    macro_rules! upload {
        ($($name:literal: $array:expr;)*) => {
            vec![$(($name, DeviceArray::from_ndarray(stream, &$array).unwrap().into_expr().into())),*]
        };
    }
    let mut inputs: Vec<(&str, AnyExpr<'static>)> = upload! {
        "f32": array![1.5f32, -2.0, 0.0];
        "f64": array![0.25f64, f64::NAN, -7.5];
        "f16": array![1.5f32, -2.0, 100.0].mapv(f16::from_f32);
        "bf16": array![1.5f32, -2.0, 100.0].mapv(bf16::from_f32);
        "i32": array![7i32, -7, i32::MIN];
        "i64": array![3i64, -3, 0];
        "u8": array![0u8, 1, 255];
        "u16": array![0u16, 1, 65535];
        "u32": array![0u32, 1, u32::MAX];
        "u64": array![0u64, 1, u64::MAX];
        "m": array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    };
    let c = DeviceArray::from_ndarray(stream, &array![0u8, 1, 1]).unwrap();
    inputs.push(("c", c.into_expr().not_equal(0).into()));
    inputs.push(("bool", inputs[inputs.len() - 1].1.clone()));
    inputs
}

/// The elements as text, behind the type.
pub(super) fn evaluated(expr: &AnyExpr<'_>) -> crate::Result<String> {
    let device = match expr.part() {
        Ok(node) => node.home.as_ref().map(|array| array.stream().clone()),
        Err(_) => None,
    };
    let stream = device.unwrap_or_else(|| Device::simulator().default_stream().clone());
    macro_rules! texts {
        ($($variant:ident)*) => {
            match expr {
                AnyExpr::Bool(expr) => format!("{}", expr.eval_on(&stream)?.to_ndarray()?.mapv(|x| x != 0)),
                $(AnyExpr::$variant(expr) => format!("{}", expr.eval_on(&stream)?.to_ndarray()?),)*
            }
        };
    }
    let text = texts!(F32 F64 F16 Bf16 I32 I64 U8 U16 U32 U64);
    Ok(format!("{} {text}", expr.type_name()))
}

#[track_caller]
fn check(text: &str, wanted: &str) {
    let result = parse(text).apply(&inputs()).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(evaluated(&result).unwrap(), wanted, "{text}");
}

#[track_caller]
fn refused(text: &str, wanted: &str) {
    let error = parse(text).apply(&inputs()).map(|_| ()).expect_err(text);
    assert!(error.to_string().contains(wanted), "{text}: {error}");
}

#[test]
fn arithmetic_is_pythons() {
    check("f32 * 2 + 1", "f32 [4, -3, 1]");
    check("-f32**2", "f32 [-2.25, -4, -0]");
    check("i32 / 2", "f64 [3.5, -3.5, -1073741824]");
    check("i32 // 2", "i32 [3, -4, -1073741824]");
    check("i32 // -2", "i32 [-4, 3, 1073741824]");
    check("i32 % 4", "i32 [3, 1, 0]");
    check("i32 % -4", "i32 [-1, -3, 0]");
    check("fmod(i32, 4)", "i32 [3, -3, 0]");
    check("u8 // 2 + u8 % 2", "u8 [0, 1, 128]");
    check("f32 // 0.4", "f32 [3, -5, 0]");
    check("f32 % 0.5 == 0", "bool [true, true, true]");
    check("f64 % 2", "f64 [0.25, NaN, 0.5]");
    check("f64 // 0", "f64 [inf, NaN, -inf]");
    check("f16 // 1", "f16 [1, -2, 100]");
    check("sign(f32) + sign(i32)", "f32 [2, -2, -1]");
    check("sign(u8)", "u8 [0, 1, 1]");
    check("i64**2 + i64**3 + i64**0", "i64 [37, -17, 1]");
    check("f32**3", "f32 [3.375, -8, 0]");
    check("4.0**-0.5 * f32**-1.0", "f32 [0.33333334, -0.25, inf]");
    check("(f32 > 0) | (i64 < 0) & ~c", "bool [true, false, false]");
    check("u8 ^ 3 | 8", "u8 [11, 10, 252]");
    check("u8 << 7 >> 3", "u8 [0, 16, 16]");
    check("i32 >= -7", "bool [true, true, false]");
    check("+i64", "i64 [3, -3, 0]");
}

#[test]
fn functions_are_the_librarys() {
    check("where(c, f32, -1)", "f32 [-1, -2, 0]");
    check("clip(i64, lo=-1, hi=1)", "i64 [1, -1, 0]");
    check("minimum(f32, 0) + maximum(0, f32)", "f32 [1.5, -2, 0]");
    check("fma(f32, 2, 1)", "f32 [4, -3, 1]");
    check("hypot(3, 4) + arctan2(0.0, f32)*0", "f32 [5, 5, 5]");
    check("isnan(f64) == c", "bool [true, true, false]");
    check("round(2.5) + rint(2.5) + 0*f32", "f32 [5, 5, 5]");
    check("f16(f32) + bf16(f32)", "f32 [3, -4, 0]");
    check("uint8(i32)", "u8 [7, 249, 0]");
    check("bool(f64)", "bool [true, true, true]");
    check("bool(i64) & bool(1)", "bool [true, true, false]");
    check("u8(c) + u8(true)", "u8 [1, 2, 2]");
    check("abs(i64) + square(i64)", "i64 [12, 12, 0]");
}

#[test]
fn shapes_are_broadcast_and_places_are_the_results() {
    check("m + f32", "f32 [[2.5, 0, 3],\n [5.5, 3, 6]]");
    check("index(0)*10 + index(-1) + m*0", "f32 [[0, 1, 2],\n [10, 11, 12]]");
    check("i = index(0) - 1; i + i64", "i64 [2, -3, 1]");
    check("k = f32 * 2; k = k + 1; k * k", "f32 [16, 9, 1]");
    refused(
        "index(1) + f32",
        "column 1: `index` of axis 1, wanted one of the 1 of shape [3], from -1 to 0",
    );
    refused("index(0)", "wanted one of the 0 of shape []");
    refused("index(f32)", "`index` of an axis that is no integer");
    let device = Device::simulator();
    let four = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let three = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 2.0, 3.0]).unwrap();
    let inputs = [("a", four.expr().into()), ("b", three.expr().into())];
    let error = parse("2*(a + b)").apply(&inputs).map(|_| ()).unwrap_err();
    assert_eq!(error.span(), 5..6);
    assert!(
        error
            .message()
            .starts_with("add: given shapes [4] and [3], wanted shapes that broadcast"),
        "{error}"
    );
    // An input that is none itself.
    let inputs = [("a", (&four + &three).into())];
    let error = parse("2*a").apply(&inputs).map(|_| ()).unwrap_err();
    assert_eq!(error.span(), 2..3);
}

#[test]
fn numbers_of_the_text_take_the_type_beside_them() {
    check("u8 + 1", "u8 [1, 2, 0]");
    check("f16 * 0.5", "f16 [0.75, -1, 50]");
    check("u8 * 0.5", "f64 [0, 0.5, 127.5]");
    check("2**10 * u16", "u16 [0, 1024, 64512]");
    check("1/3 * f32(3)", "f32 1");
    check("2*pi - 2*pi + f32", "f32 [1.5, -2, 0]");
    check("sqrt(4) * f32", "f32 [3, -4, 0]");
    check(
        "18446744073709551615 - u64",
        "u64 [18446744073709551615, 18446744073709551614, 0]",
    );
    check("2**64 - 1", "u64 18446744073709551615");
    check("2**63 - 1", "i64 9223372036854775807");
    check("7 // -2 + 7 % -2 + -7 // 2", "i64 -9");
    check("1 / 4", "f64 0.25");
    check("1 < 2", "bool true");
    check("where(c, 1, 0)", "i64 [0, 1, 1]");
    check("where(c, 1.0, 0)", "f64 [0, 1, 1]");
    check("e + pi*0", "f64 2.718281828459045");
    refused("u8 + 256", "column 4: `+`: 256 is no u8, wanted 0 to 255");
    refused("u8 - -1", "-1 is no u8");
    refused("i32(2**31)", "2147483648 is no i32");
    refused("2**200", "the integer is too large");
    check("-2**126*2 % 3", "i64 1");
    refused("-2**126*2 // -1", "the integer is too large");
    refused("abs(-2**126*2)", "the integer is too large");
    refused("2**64", "18446744073709551616 is no u64");
    refused("-2**64", "is no i64");
    refused("1 // 0", "column 3: division of an integer by 0");
    refused("1 % 0", "division of an integer by 0");
    refused("u8 << 8", "u8 is shifted by 8, wanted 0 to 7");
    refused("1 << 64", "a shift by 64, wanted 0 to 63");
    refused("i64**-1", "`**` of i64 by -1, wanted 0 or more, or floats");
}

#[test]
fn products_and_scans_are_numpys() {
    check("m @ f32", "f32 [-2.5, -4]");
    check("matmul(m, f32) * 2", "f32 [-5, -8]");
    check("f32 @ f32", "f32 6.25");
    check("i32 @ (2*u8)", "i32 -14");
    check("k = m*1; f32(index(0) == 0)*0 + k @ f32", "f32 [-2.5, -4]");
    let device = Device::simulator();
    let upload = |array| DeviceArray::from_ndarray(device.default_stream(), &array).unwrap();
    let (a, b) = (
        upload(array![[1i32, 2], [3, 4]]),
        upload(array![[1i32, 0, 2], [0, 1, 3]]),
    );
    let pair = DeviceArray::from_ndarray(device.default_stream(), &array![[[1i32, 2]], [[3, 4]]]).unwrap();
    let inputs = [
        ("a", a.expr().into()),
        ("b", b.expr().into()),
        ("pair", pair.expr().into()),
        ("row", a.expr().sum_axis(Axis(0)).cast::<i32>().into()),
    ];
    let check = |text: &str, wanted: &str| {
        let result = parse(text).apply(&inputs).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(evaluated(&result).unwrap(), wanted, "{text}");
    };
    check("a @ b", "i32 [[1, 2, 8],\n [3, 4, 18]]");
    check("a @ a @ b + 1", "i32 [[8, 11, 45],\n [16, 23, 97]]");
    check("-a @ b", "i32 [[-1, -2, -8],\n [-3, -4, -18]]");
    check("row @ b", "i32 [4, 6, 26]");
    check("a @ row", "i32 [16, 36]");
    check("pair @ b", "i32 [[[1, 2, 8]],\n\n [[3, 4, 18]]]");
    check("pair @ row", "i32 [[16],\n [36]]");
    check("row @ (pair + a)", "i32 [[32, 52],\n [52, 72]]");
    check("cumsum(a)", "i64 [1, 3, 6, 10]");
    check("cumsum(a, axis=0)", "i64 [[1, 2],\n [4, 6]]");
    check("cumprod(f64(a), axis=-1)", "f64 [[1, 2],\n [3, 12]]");
    check("cumsum(a > 1)", "u64 [0, 1, 2, 3]");
    check("max(cumsum(a, 1)) + cumsum(2)", "i64 [9]");
}

#[test]
fn softmax_and_its_kind_are_the_librarys() {
    let inputs = inputs();
    let (_, AnyExpr::F32(m)) = inputs.iter().find(|(name, _)| *name == "m").unwrap() else {
        unreachable!("m is f32")
    };
    let ways: [(&str, AnyExpr<'_>); 5] = [
        ("softmax(m, axis=-1)", m.softmax(Axis(1)).into()),
        ("log_softmax(m, 0)", m.log_softmax(Axis(0)).into()),
        ("logsumexp(m)", m.log_sum_exp().into()),
        ("log_sum_exp(m, axis=1)", m.log_sum_exp_axis(Axis(1)).into()),
        (
            "logsumexp(m, axis=0, keepdims=true)",
            m.log_sum_exp_axis(Axis(0)).insert_axis(Axis(0)).into(),
        ),
    ];
    for (text, wanted) in ways {
        check(text, &evaluated(&wanted).unwrap());
    }
    // Of all elements as one, of integers in f64, and of one number.
    check("softmax(m * 0) * 6", "f32 [[1, 1, 1],\n [1, 1, 1]]");
    check("sum(softmax(u8)) + softmax(f32)*0", "f64 [1, 1, 1]");
    check("softmax(f16 * 0 + 1, axis=0) * 3 == 1", "bool [true, true, true]");
    check("softmax(7) + log_softmax(2.5)", "f64 1");
    refused("softmax(c)", "column 1: `softmax` of bool, wanted numbers; a cast");
    refused(
        "log_softmax(m, axis=2)",
        "column 1: `log_softmax` of axis 2, wanted one of the 2",
    );
    refused(
        "logsumexp(m, keepdims=m > 0)",
        "column 1: `keepdims` of `logsumexp` is an array, wanted true or false",
    );
    refused(
        "softmax(m, axis=f32)",
        "column 1: `axis` of `softmax` is f32, wanted an integer",
    );
}

#[test]
fn operations_on_arrays_say_what_they_want() {
    refused(
        "m @ m",
        "column 3: `@` of shapes [2, 3] and [2, 3], wanted as many columns",
    );
    refused("2 * (f32 @ m)", "column 10: `@` of shapes [3] and [2, 3]");
    refused(
        "m @ 2",
        "column 3: `@` of a number, wanted arrays; `*` multiplies by numbers",
    );
    refused("1 @ 2.5", "column 3: `@` of numbers, wanted arrays");
    refused(
        "u8 @ u8",
        "column 4: `@` of u8, wanted f32, f64, f16, bf16 or i32; a cast",
    );
    refused("c @ f32", "column 3: `@`: bool and f32 have no type together");
    refused("matmul(m, i64 > 0)", "column 1: `matmul`: f32 and bool have no type");
    refused(
        "cumsum(m, axis=2)",
        "column 1: `cumsum` of axis 2, wanted one of the 2 of shape [2, 3]",
    );
    refused(
        "cumprod(m, axis=f32)",
        "column 1: `axis` of `cumprod` is f32, wanted an integer",
    );
}

#[test]
fn types_that_do_not_fit_say_what_does() {
    check("tanh(u8) * 0", "f64 [0, 0, 0]");
    refused(
        "f32 + c",
        "f32 and bool have no type together; a cast makes a number of a condition",
    );
    refused(
        "u64 - i64",
        "u64 and i64 have no type together; a cast makes one of the other, as in `i64(a)`",
    );
    refused("c + 1", "bool and an integer have no type together");
    refused("c + c", "`+` of bool, wanted numbers; conditions have `|`");
    refused("-c", "`-` of bool");
    refused("tanh(c)", "`tanh` of bool, wanted numbers; a cast");
    refused("f32 & 1", "`&` of f32, wanted integers or bool");
    refused("1.5 | 2", "`|` of f64");
    refused("f32 ^ 2", "`^` of f32, wanted integers or bool; the power is `**`");
    refused("c << 1", "`<<`");
    refused(
        "where(f32, 1, 2)",
        "`where`: the condition is f32, wanted bool, as in `where(a != 0, …)`",
    );
    refused("where(1, 2, 3)", "the condition is an integer");
    refused("sum(f32, axis=2)", "column 1: `sum` of axis 2, wanted one of the");
    refused(
        "max(f32 > 0)",
        "column 1: `max` of bool, wanted numbers, as in `max(f32(…))`",
    );
    refused(
        "variance(f32, ddof=-1)",
        "column 1: `ddof` of `variance` is -1, wanted 0 or more",
    );
    refused(
        "sum(f32, keepdims=1)",
        "column 1: `keepdims` of `sum` is an integer, wanted true or false",
    );
    refused(
        "mean(f32, axis=0.5)",
        "column 1: `axis` of `mean` is a float, wanted an integer",
    );
    refused("f33 + 1", "column 1: unknown name `f33`: did you mean `f32`?");
    refused("tanh + 1", "unknown name `tanh`: the function is called as `tanh(x)`");
}

#[test]
fn inputs_go_before_constants() {
    let device = Device::simulator();
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![5i32]).unwrap();
    let result = parse("e + 1").apply(&[("e", x.expr().into())]).unwrap();
    assert_eq!(evaluated(&result).unwrap(), "i32 [6]");
}

/// Every function of every type, and every operator of every two, is a result or an error, and so is what it gives.
#[test]
fn every_function_of_every_type_is_a_result_or_an_error() {
    const TYPES: [&str; 11] = [
        "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "u16", "u32", "u64", "bool",
    ];
    let inputs = inputs();
    let mut texts = Vec::new();
    for a in TYPES {
        texts.extend(PREFIXES.iter().map(|prefix| format!("{}{a}", prefix.symbol)));
        texts.extend(TYPES.iter().flat_map(|b| {
            let infixes = INFIXES.iter().chain([&POWER]);
            infixes.map(move |infix| format!("{a} {} {b}", infix.symbol))
        }));
        for function in FUNCTIONS {
            let condition = if function.operation == Operation::Ternary(crate::expr::graph::function::Ternary::Select) {
                "c"
            } else {
                a
            };
            let arguments = [condition, a, a];
            texts.push(format!(
                "{}({})",
                function.name,
                arguments[..function.wanted.len()].join(", ")
            ));
        }
    }
    let applied = texts.iter().filter_map(|text| parse(text).apply(&inputs).ok());
    let results: Vec<_> = applied.map(|expr| evaluated(&expr).unwrap()).collect();
    // The same as the library has methods for, by types.
    assert!(results.len() > 1400, "{} of {}", results.len(), texts.len());
}

/// The types that `Promote` gives, and those that it has none for.
#[test]
fn types_together_are_those_of_expressions() {
    fn check<A: Promote<B>, B: Scalar>() {
        assert_eq!(promoted(A::TYPE, B::TYPE), Some(<A::Output as Scalar>::TYPE));
    }
    check::<f16, bf16>();
    check::<bf16, f16>();
    check::<u32, i32>();
    check::<u64, f16>();
    check::<bool, bool>();
    for (a, b) in [
        (ScalarType::Bool, ScalarType::F32),
        (ScalarType::U64, ScalarType::I32),
        (ScalarType::I64, ScalarType::U64),
    ] {
        assert_eq!((promoted(a, b), promoted(b, a)), (None, None));
    }
}

#[test]
fn a_long_formula_is_several_kernels() {
    let text = format!("f64{}", " + i32*2".repeat(4000));
    let result = parse(&text).apply(&inputs()).unwrap();
    assert_eq!(evaluated(&result).unwrap(), "f64 [56000.25, NaN, -7.5]");
}
