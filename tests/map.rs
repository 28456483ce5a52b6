// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on one array: integers and exact float operations to the last bit, functions of floats to the
//! error bounds that `cuda_std::Float` states, casts as Rust's `as`.

#[macro_use]
mod common;

use common::*;
use kernels_gpu::map::tile_len;
use ndarray::{ArrayD, IxDyn, array};
use proptest::prelude::*;
use warpsmith::ops::CastTo;
use warpsmith::{DeviceArray, Result};

type Form<T> = fn(&Dyn<T>) -> Result<Dyn<T>>;
type Into<T> = fn(&Dyn<T>, &mut Dyn<T>) -> Result<()>;

/// A function in both its forms.
struct Function<T: Number> {
    name: &'static str,
    form: Form<T>,
    into: Into<T>,
}

/// The functions that every number has, as Rust computes them.
trait Oracle: Number {
    fn neg(x: Self) -> Self;
    fn abs(x: Self) -> Self;
    fn square(x: Self) -> Self;
    fn relu(x: Self) -> Self;
}

macro_rules! integer_oracle {
    ($($type:ident: |$x:ident| $abs:expr;)*) => {$(
        impl Oracle for $type {
            fn neg(x: Self) -> Self {
                x.wrapping_neg()
            }
            fn abs($x: Self) -> Self {
                $abs
            }
            fn square(x: Self) -> Self {
                x.wrapping_mul(x)
            }
            fn relu(x: Self) -> Self {
                x.max(0)
            }
        }
    )*};
}

macro_rules! float_oracle {
    ($($type:ident)*) => {$(
        impl Oracle for $type {
            fn neg(x: Self) -> Self {
                -x
            }
            fn abs(x: Self) -> Self {
                x.abs()
            }
            fn square(x: Self) -> Self {
                x * x
            }
            /// The maximum of x and +0: +0 for −0, NaN for NaN.
            fn relu(x: Self) -> Self {
                if x.is_nan() || x > 0.0 { x } else { 0.0 }
            }
        }
    )*};
}

integer_oracle! {
    i32: |x| x.wrapping_abs();
    i64: |x| x.wrapping_abs();
    u32: |x| x;
    u64: |x| x;
}
float_oracle!(f32 f64);

/// The exact functions and their oracles.
type Exact<T> = Vec<(Function<T>, fn(T) -> T)>;

fn exact_functions<T: Oracle>() -> Exact<T> {
    vec![
        (
            Function {
                name: "neg",
                form: Dyn::neg,
                into: Dyn::neg_into,
            },
            T::neg,
        ),
        (
            Function {
                name: "abs",
                form: Dyn::abs,
                into: Dyn::abs_into,
            },
            T::abs,
        ),
        (
            Function {
                name: "square",
                form: Dyn::square,
                into: Dyn::square_into,
            },
            T::square,
        ),
        (
            Function {
                name: "relu",
                form: Dyn::relu,
                into: Dyn::relu_into,
            },
            T::relu,
        ),
    ]
}

/// The results of both forms of a function, which are the same.
fn apply<T: Number>(function: &Function<T>, x: &Dyn<T>) -> Vec<T> {
    let results = elements(&(function.form)(x).unwrap());
    let mut out = DeviceArray::zeros(device().default_stream(), IxDyn(x.shape())).unwrap();
    (function.into)(x, &mut out).unwrap();
    assert_same(&elements(&out), &results, &format!("{}_into", function.name));
    results
}

fn check_exact<T: Oracle>(values: &[T]) {
    let x = upload_vec(values);
    for (function, oracle) in exact_functions::<T>() {
        let wanted: Vec<T> = values.iter().copied().map(oracle).collect();
        assert_same(&apply(&function, &x), &wanted, function.name);
    }
}

fn exact_at_special_values<T: Oracle>() {
    check_exact::<T>(T::SPECIAL);
}

fn exact_at_every_length<T: Oracle>() {
    for (seed, len) in (1..).zip(lengths(tile_len::<T, T>())) {
        check_exact::<T>(&random(len, seed));
    }
}

fn exact_at_random_values<T: Oracle>() {
    proptest!(cases(12), |(len in 0..3 * tile_len::<T, T>(), seed in any::<u64>())| {
        check_exact::<T>(&random(len, seed));
    });
}

fn exact_in_every_layout<T: Oracle>() {
    let base = layout_base::<T>(1);
    for (layout, x) in layouts(&base) {
        for (function, oracle) in exact_functions::<T>() {
            let result = (function.form)(&upload(&x)).unwrap().to_ndarray().unwrap();
            assert_eq!(result.shape(), x.shape(), "{layout}");
            let wanted: Vec<T> = x.iter().copied().map(oracle).collect();
            assert_same(
                result.as_slice().unwrap(),
                &wanted,
                &format!("{}, {layout}", function.name),
            );
        }
    }
}

for_types!(exact_at_special_values);
for_types!(exact_at_every_length);
for_types!(exact_at_random_values);
for_types!(exact_in_every_layout);

/// A function of floats, computed by std in `f64`.
struct FloatFunction<T: Number> {
    function: Function<T>,
    reference: fn(f64) -> f64,
    /// The error bound for `f32` in ulp of the true value, which the reference is as good as.
    f32_ulps: f64,
    /// The bound for `f64`: the function's and the reference's together.
    f64_ulps: f64,
    /// An error that is allowed beside that, in units of the least normal number.
    least_normals: f64,
}

fn float_functions<T: FloatNumber>() -> Vec<FloatFunction<T>> {
    macro_rules! functions {
        ($($name:ident $into:ident: |$x:ident| $reference:expr, $f32:literal $f64:literal $least:literal;)*) => {
            vec![$(FloatFunction {
                function: Function { name: stringify!($name), form: Dyn::$name, into: Dyn::$into },
                reference: |$x: f64| $reference,
                f32_ulps: $f32,
                f64_ulps: $f64,
                least_normals: $least,
            }),*]
        };
    }
    functions! {
        sqrt sqrt_into: |x| x.sqrt(), 0.5 0.0 0.0;
        exp exp_into: |x| x.exp(), 1.0 2.0 0.0;
        ln ln_into: |x| x.ln(), 1.0 2.0 0.0;
        sin sin_into: |x| x.sin(), 2.0 2.0 0.0;
        cos cos_into: |x| x.cos(), 2.0 2.0 0.0;
        tanh tanh_into: |x| x.tanh(), 2.0 4.0 0.0;
        // 1 ulp of the exponential, which is 2 unit roundoffs at most, and one each of the addition and the division.
        sigmoid sigmoid_into: |x| 1.0 / (1.0 + (-x).exp()), 4.0 8.0 1.0;
    }
}

fn check_floats<T: FloatNumber>(values: &[T]) {
    let x = upload_vec(values);
    for case in float_functions::<T>() {
        let bound = if T::NAME == "f32" { case.f32_ulps } else { case.f64_ulps };
        let results = apply(&case.function, &x);
        assert_eq!(results.len(), values.len());
        for (&x, &got) in values.iter().zip(&results) {
            let wanted = (case.reference)(x.wide());
            let within =
                got.ulps(wanted) <= bound || (got.wide() - wanted).abs() < case.least_normals * T::LEAST_NORMAL;
            let (name, ulps) = (case.function.name, got.ulps(wanted));
            assert!(
                within,
                "{name}({x:?}) of {} is {got:?}, wanted {wanted:?}: {ulps} ulp, more than {bound}",
                T::NAME
            );
        }
    }
}

fn floats_at_special_values<T: FloatNumber>() {
    check_floats::<T>(T::SPECIAL);
}

fn floats_at_every_length<T: FloatNumber>() {
    for (seed, len) in (1..).zip(lengths(tile_len::<T, T>())) {
        check_floats::<T>(&random(len, seed));
    }
}

/// Evenly through the ranges in which the functions change, and through the arguments where they overflow.
fn floats_in_their_ranges<T: FloatNumber>() {
    for (low, high) in [(-1.0, 1.0), (-20.0, 20.0), (-110.0, 95.0), (-750.0, 715.0), (0.0, 1e5)] {
        let step = (high - low) / 4000.0;
        check_floats::<T>(&(0..4000).map(|i| T::of(low + step * f64::from(i))).collect::<Vec<_>>());
    }
}

fn floats_at_random_values<T: FloatNumber>() {
    proptest!(cases(12), |(len in 0..3 * tile_len::<T, T>(), seed in any::<u64>())| {
        check_floats::<T>(&random(len, seed));
    });
}

for_types!(floats_at_special_values: f32 f64);
for_types!(floats_at_every_length: f32 f64);
for_types!(floats_in_their_ranges: f32 f64);
for_types!(floats_at_random_values: f32 f64);

/// The values that IEEE 754 and C give at the ends, to the sign of zero.
fn floats_at_the_ends<T: FloatNumber>() {
    let at = |name: &str, x: f64| {
        let all = float_functions::<T>();
        let case = all.iter().find(|case| case.function.name == name).unwrap();
        apply(&case.function, &upload_vec(&[T::of(x)]))[0]
    };
    let infinity = f64::INFINITY;
    for (name, x, wanted) in [
        ("sqrt", -0.0, -0.0),
        ("sqrt", infinity, infinity),
        ("sqrt", -1.0, f64::NAN),
        ("exp", -infinity, 0.0),
        ("exp", infinity, infinity),
        ("exp", -0.0, 1.0),
        ("ln", -0.0, -infinity),
        ("ln", -1.0, f64::NAN),
        ("ln", 1.0, 0.0),
        ("ln", infinity, infinity),
        ("sin", -0.0, -0.0),
        ("sin", infinity, f64::NAN),
        ("cos", 0.0, 1.0),
        ("cos", -infinity, f64::NAN),
        ("tanh", -0.0, -0.0),
        ("tanh", -infinity, -1.0),
        ("tanh", infinity, 1.0),
        ("sigmoid", 0.0, 0.5),
        ("sigmoid", infinity, 1.0),
        ("sigmoid", -infinity, 0.0),
    ] {
        assert_same(&[at(name, x)], &[T::of(wanted)], &format!("{name}({x})"));
        assert_same(&[at(name, f64::NAN)], &[T::of(f64::NAN)], &format!("{name}(NaN)"));
    }
}

for_types!(floats_at_the_ends: f32 f64);

/// Whole numbers on both sides of every limit of an integer type, and the halves beside them.
fn limits() -> Vec<f64> {
    let powers = [15, 23, 24, 31, 32, 52, 53, 63, 64].map(|bits: i32| 2f64.powi(bits));
    let beside = |x: f64| [x - 1.0, x - 0.5, x, x + 0.5, x + 1.0, x.next_down(), x.next_up()];
    powers
        .into_iter()
        .chain([0.0, 1.0])
        .flat_map(beside)
        .flat_map(|x| [x, -x])
        .collect()
}

fn check_cast<T: CastTo<U> + Number, U: Number>(values: &[T], oracle: fn(T) -> U) {
    let wanted: Vec<U> = values.iter().copied().map(oracle).collect();
    let x = upload_vec(values);
    assert_same(
        &elements(&x.cast::<U>().unwrap()),
        &wanted,
        &format!("cast of {}", T::NAME),
    );
    let mut out: Dyn<U> = DeviceArray::zeros(device().default_stream(), IxDyn(&[values.len()])).unwrap();
    x.cast_into(&mut out).unwrap();
    assert_same(&elements(&out), &wanted, &format!("cast_into of {}", T::NAME));
}

macro_rules! cast_tests {
    ($($from:ident)*) => {
        mod casts {
            use super::*;

            $(
                #[test]
                fn $from() {
                    let edges = limits().into_iter().map(|x| x as $from);
                    let edges: Vec<$from> = edges.chain($from::SPECIAL.iter().copied()).collect();
                    cast_tests!(@to $from, edges, f32 f64 i32 i64 u32 u64);
                }
            )*
        }
    };
    (@to $from:ident, $edges:ident, $($to:ident)*) => {$(
        check_cast::<$from, $to>(&$edges, |x| x as $to);
        for (seed, len) in (1..).zip(lengths(tile_len::<$from, $to>())) {
            check_cast::<$from, $to>(&random(len, seed), |x| x as $to);
        }
    )*};
}

cast_tests!(f32 f64 i32 i64 u32 u64);

#[test]
fn casts_keep_the_shape() {
    let x = upload(&array![[1.5f64, -2.5], [f64::NAN, 1e300]]);
    assert_eq!(
        x.cast::<i32>().unwrap().to_ndarray().unwrap(),
        array![[1, -2], [0, i32::MAX]]
    );
}

#[test]
fn shapes_that_differ_are_an_error_and_leave_the_output_alone() {
    let x = upload(&ArrayD::<f32>::ones(IxDyn(&[2, 3])));
    let mut out = upload(&ArrayD::from_elem(IxDyn(&[6]), 7.0f32));
    let given = "given shapes [2, 3] and [6], wanted equal shapes";
    let exact = exact_functions::<f32>().into_iter().map(|(function, _)| function);
    for function in exact.chain(float_functions().into_iter().map(|case| case.function)) {
        let error = (function.into)(&x, &mut out).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {given}", function.name));
    }
    assert_eq!(x.cast_into(&mut out).unwrap_err().to_string(), format!("cast: {given}"));
    assert_eq!(elements(&out), [7.0; 6]);
}
