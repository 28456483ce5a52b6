// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on one array: integers and exact float operations to the last bit, functions of floats to the
//! error bounds that `cuda_std::Float` states, those of 16-bit floats at every value.

use crate::common::*;
use kernels_gpu::map::{float_tile_len, tile_len};
use ndarray::{Array1, ArrayD, IxDyn};
use proptest::prelude::*;
use warpsmith::ops;
use warpsmith::{Device, DeviceArray, Result, bf16, f16};

type Form<T> = fn(&DynRef<T>) -> Result<Dyn<T>>;
type Into<T> = fn(&DynRef<T>, &mut DynRef<T>) -> Result<()>;
type Inplace<T> = fn(&mut DynRef<T>) -> Result<()>;

/// A function in its three forms.
struct Function<T: Number + ops::Number> {
    name: &'static str,
    form: Form<T>,
    into: Into<T>,
    inplace: Inplace<T>,
}

/// The functions that every number has, as Rust computes them.
trait Oracle: Number + ops::Number {
    fn neg(x: Self) -> Self;
    fn abs(x: Self) -> Self;
    fn square(x: Self) -> Self;
    fn relu(x: Self) -> Self;

    /// Neither limit is NaN, and `low <= high`.
    fn clamp(x: Self, low: Self, high: Self) -> Self;
    fn axpy(alpha: Self, x: Self, y: Self) -> Self;
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
            fn clamp(x: Self, low: Self, high: Self) -> Self {
                x.clamp(low, high)
            }
            fn axpy(alpha: Self, x: Self, y: Self) -> Self {
                alpha.wrapping_mul(x).wrapping_add(y)
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
            fn clamp(x: Self, low: Self, high: Self) -> Self {
                x.clamp(low, high)
            }
            fn axpy(alpha: Self, x: Self, y: Self) -> Self {
                alpha.mul_add(x, y)
            }
        }
    )*};
}

/// In `f32`, rounded once by the crate `half`.
macro_rules! narrow_float_oracle {
    ($($type:ident)*) => {$(
        impl Oracle for $type {
            fn neg(x: Self) -> Self {
                -x
            }
            fn abs(x: Self) -> Self {
                Self::from_f32(x.to_f32().abs())
            }
            fn square(x: Self) -> Self {
                Self::from_f32(x.to_f32() * x.to_f32())
            }
            fn relu(x: Self) -> Self {
                if x.is_nan() || x > Self::ZERO { x } else { Self::ZERO }
            }
            fn clamp(x: Self, low: Self, high: Self) -> Self {
                Self::from_f32(x.to_f32().clamp(low.to_f32(), high.to_f32()))
            }
            fn axpy(alpha: Self, x: Self, y: Self) -> Self {
                Self::from_f32(alpha.to_f32().mul_add(x.to_f32(), y.to_f32()))
            }
        }
    )*};
}

integer_oracle! {
    i32: |x| x.wrapping_abs();
    i64: |x| x.wrapping_abs();
    u8: |x| x;
    u16: |x| x;
    u32: |x| x;
    u64: |x| x;
}
float_oracle!(f32 f64);
narrow_float_oracle!(f16 bf16);

/// The exact functions and their oracles.
type Exact<T> = Vec<(Function<T>, fn(T) -> T)>;

fn exact_functions<T: Oracle>() -> Exact<T> {
    vec![
        (
            Function {
                name: "neg",
                form: DynRef::neg,
                into: DynRef::neg_into,
                inplace: DynRef::neg_inplace,
            },
            Oracle::neg,
        ),
        (
            Function {
                name: "abs",
                form: DynRef::abs,
                into: DynRef::abs_into,
                inplace: DynRef::abs_inplace,
            },
            Oracle::abs,
        ),
        (
            Function {
                name: "square",
                form: DynRef::square,
                into: DynRef::square_into,
                inplace: DynRef::square_inplace,
            },
            T::square,
        ),
        (
            Function {
                name: "relu",
                form: DynRef::relu,
                into: DynRef::relu_into,
                inplace: DynRef::relu_inplace,
            },
            T::relu,
        ),
    ]
}

/// The results of the forms of a function, which are the same.
fn apply<T: Number + ops::Number>(function: &Function<T>, x: &Dyn<T>) -> Vec<T> {
    let results = elements(&(function.form)(x).unwrap());
    let mut out = DeviceArray::zeros(device().default_stream(), IxDyn(x.shape())).unwrap();
    (function.into)(x, &mut out).unwrap();
    assert_same(&elements(&out), &results, &format!("{}_into", function.name));
    let mut itself = x.try_clone().unwrap();
    (function.inplace)(&mut itself).unwrap();
    assert_same(&elements(&itself), &results, &format!("{}_inplace", function.name));
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
    proptest!(cases(6), |(len in 0..3 * tile_len::<T, T>(), seed in any::<u64>())| {
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

for_types!(exact_at_special_values: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
for_types!(exact_at_every_length: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
for_types!(exact_at_random_values: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
for_types!(exact_in_every_layout: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

/// Every value of a 16-bit float.
fn all_of<T: Number>() -> Vec<T> {
    (0..=u16::MAX).map(bytemuck::cast).collect()
}

fn exact_at_every_value<T: Oracle>() {
    check_exact::<T>(&all_of());
}

for_types!(exact_at_every_value: f16 bf16 u16);

/// A function of floats, computed by std in `f64`.
struct FloatFunction<T: Number + ops::Real> {
    function: Function<T>,
    reference: fn(f64) -> f64,
    /// The error bound for `f32` in ulp of the true value, which the reference is as good as.
    f32_ulps: f64,
    /// The bound for `f64`: the function's and the reference's together.
    f64_ulps: f64,
}

/// 1 / (1 + e^−x), also where e^−x overflows.
fn logistic(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

fn float_functions<T: FloatNumber + ops::Real>() -> Vec<FloatFunction<T>> {
    macro_rules! functions {
        ($($name:ident $into:ident $inplace:ident: |$x:ident| $reference:expr, $f32:literal $f64:literal;)*) => {
            vec![$(FloatFunction {
                function: Function { name: stringify!($name), form: DynRef::$name, into: DynRef::$into, inplace: DynRef::$inplace },
                reference: |$x: f64| $reference,
                f32_ulps: $f32,
                f64_ulps: $f64,
            }),*]
        };
    }
    functions! {
        sqrt sqrt_into sqrt_inplace: |x| x.sqrt(), 0.5 0.0;
        exp exp_into exp_inplace: |x| x.exp(), 1.0 2.0;
        ln ln_into ln_inplace: |x| x.ln(), 1.0 2.0;
        sin sin_into sin_inplace: |x| x.sin(), 2.0 2.0;
        cos cos_into cos_inplace: |x| x.cos(), 2.0 2.0;
        tanh tanh_into tanh_inplace: |x| x.tanh(), 2.0 4.0;
        sigmoid sigmoid_into sigmoid_inplace: |x| logistic(x), 3.0 10.0;
    }
}

fn check_floats<T: FloatNumber + ops::Real>(values: &[T]) {
    let x = upload_vec(values);
    for case in float_functions::<T>() {
        let bound = match T::NAME {
            "f64" => case.f64_ulps,
            "f32" => case.f32_ulps,
            // That of `cuda_std::float::narrow`. What is a function of f32, rounded, is off by half a unit and the error in f32,
            // whose unit is 2^-16 of a bf16's, twice that at the edge of a binade: by less.
            _ => 0.501,
        };
        let results = apply(&case.function, &x);
        assert_eq!(results.len(), values.len());
        for (&x, &got) in values.iter().zip(&results) {
            let wanted = (case.reference)(x.wide());
            let (name, ulps) = (case.function.name, got.ulps(wanted));
            assert!(
                ulps <= bound,
                "{name}({x:?}) of {} is {got:?}, wanted {wanted:?}: {ulps} ulp, more than {bound}",
                T::NAME
            );
        }
    }
}

fn floats_at_special_values<T: FloatNumber + ops::Real>() {
    check_floats::<T>(T::SPECIAL);
}

fn floats_at_every_length<T: FloatNumber + ops::Real + kernels_gpu::num::Num>() {
    for (seed, len) in (1..).zip(lengths(float_tile_len::<T>())) {
        check_floats::<T>(&random(len, seed));
    }
}

/// Evenly through the ranges in which the functions change, and through the arguments where they overflow.
fn floats_in_their_ranges<T: FloatNumber + ops::Real>() {
    for (low, high) in [(-1.0, 1.0), (-20.0, 20.0), (-110.0, 95.0), (-750.0, 715.0), (0.0, 1e5)] {
        let step = (high - low) / 4000.0;
        check_floats::<T>(&(0..4000).map(|i| T::of(low + step * f64::from(i))).collect::<Vec<_>>());
    }
}

fn floats_at_random_values<T: FloatNumber + ops::Real + kernels_gpu::num::Num>() {
    proptest!(cases(6), |(len in 0..3 * float_tile_len::<T>(), seed in any::<u64>())| {
        check_floats::<T>(&random(len, seed));
    });
}

fn floats_at_every_value<T: FloatNumber + ops::Real>() {
    check_floats::<T>(&all_of());
}

for_types!(floats_at_special_values: f32 f64 f16 bf16);
for_types!(floats_at_every_length: f32 f64 f16 bf16);
for_types!(floats_in_their_ranges: f32 f64);
for_types!(floats_at_random_values: f32 f64 f16 bf16);
for_types!(floats_at_every_value: f16 bf16);

/// The values that IEEE 754 and C give at the ends, to the sign of zero.
fn floats_at_the_ends<T: FloatNumber + ops::Real>() {
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

for_types!(floats_at_the_ends: f32 f64 f16 bf16);

/// Checks all forms of `clamp`.
fn check_clamp<T: Oracle>(values: &[T], low: T, high: T) {
    let what = format!("clamp to {low}..={high}");
    let wanted: Vec<T> = values.iter().map(|&x| T::clamp(x, low, high)).collect();
    let mut x = upload_vec(values);
    assert_same(&elements(&x.clamp(low, high).unwrap()), &wanted, &what);
    let mut out = DeviceArray::zeros(device().default_stream(), IxDyn(x.shape())).unwrap();
    x.clamp_into(low, high, &mut out).unwrap();
    assert_same(&elements(&out), &wanted, &what);
    x.clamp_inplace(low, high).unwrap();
    assert_same(&elements(&x), &wanted, &what);
}

/// Between all pairs of special values that are limits.
fn clamp_at_special_values<T: Oracle>() {
    for &low in T::SPECIAL {
        for &high in T::SPECIAL.iter().filter(|&&high| low <= high) {
            check_clamp::<T>(T::SPECIAL, low, high);
        }
    }
}

fn clamp_at_every_length<T: Oracle>() {
    let limits = random::<T>(40, 9);
    let limits = limits.chunks_exact(2).filter(|limits| limits[0] <= limits[1]);
    for ((seed, len), limits) in (1..).zip(lengths(tile_len::<T, T>())).zip(limits.cycle()) {
        check_clamp::<T>(&random(len, seed), limits[0], limits[1]);
    }
}

fn check_axpy<T: Oracle>(alpha: T, x: &[T], y: &[T]) {
    let wanted: Vec<T> = x.iter().zip(y).map(|(&x, &y)| T::axpy(alpha, x, y)).collect();
    let (on_device, mut result) = (upload_vec(x), upload_vec(y));
    result.axpy(alpha, &on_device).unwrap();
    assert_same(&elements(&result), &wanted, &format!("axpy with {alpha}"));
    assert_same(&elements(&on_device), x, "x of axpy");
}

/// All triples of special values.
fn axpy_at_special_values<T: Oracle>() {
    let pairs = T::SPECIAL.iter().flat_map(|&x| T::SPECIAL.iter().map(move |&y| (x, y)));
    let (x, y): (Vec<T>, Vec<T>) = pairs.unzip();
    for &alpha in T::SPECIAL {
        check_axpy::<T>(alpha, &x, &y);
    }
}

fn axpy_at_every_length<T: Oracle>() {
    for (seed, len) in (1..).zip(lengths(tile_len::<T, T>())) {
        let alpha = random::<T>(1, seed)[0];
        check_axpy::<T>(alpha, &random(len, seed + 100), &random(len, seed + 200));
    }
}

for_types!(clamp_at_special_values: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
for_types!(clamp_at_every_length: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
for_types!(axpy_at_special_values: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
for_types!(axpy_at_every_length: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

/// `alpha · x` is not rounded before `y` is added: 2^-24 of the square of 1 + 2^-12 is left.
#[test]
fn axpy_is_fused() {
    let third = 1.0 + 2f32.powi(-12);
    let mut y = upload_vec(&[-(1.0 + 2f32.powi(-11))]);
    y.axpy(third, &upload_vec(&[third])).unwrap();
    assert_eq!(elements(&y), [2f32.powi(-24)]);
}

#[test]
fn limits_without_a_number_between_them_are_an_error() {
    let mut x = upload_vec(&[1.0f32, 2.0]);
    let mut out = upload_vec(&[7.0f32, 7.0]);
    let wanted = "wanted a lower limit that is at most the upper one, and no NaN";
    for (low, high, given) in [
        (2.0, 1.5, "2 to 1.5"),
        (f32::NAN, 1.0, "NaN to 1"),
        (0.0, f32::NAN, "0 to NaN"),
        (f32::INFINITY, f32::NEG_INFINITY, "inf to -inf"),
    ] {
        let message = format!("clamp: limits: given {given}, {wanted}");
        assert_eq!(x.clamp(low, high).unwrap_err().to_string(), message);
        assert_eq!(x.clamp_into(low, high, &mut out).unwrap_err().to_string(), message);
        assert_eq!(x.clamp_inplace(low, high).unwrap_err().to_string(), message);
    }
    assert_eq!((elements(&x), elements(&out)), (vec![1.0, 2.0], vec![7.0, 7.0]));
    let message = upload_vec(&[1u8]).clamp(3, 2).unwrap_err().to_string();
    assert_eq!(message, format!("clamp: limits: given 3 to 2, {wanted}"));
    // Also where there is no element.
    assert!(upload_vec::<i32>(&[]).clamp(1, 0).is_err());
}

/// Operations in place are ordered like all others, also after work of another stream.
#[test]
fn operations_in_place_follow_one_another() {
    let values = random::<i32>(5000, 3);
    let other = device().create_stream().unwrap();
    let mut x = upload_vec(&values).neg().unwrap().into_stream(&other).unwrap();
    x.square_inplace().unwrap();
    x.neg_inplace().unwrap();
    let mut x = x.into_stream(device().default_stream()).unwrap();
    x.clamp_inplace(-500, 20).unwrap();
    let wanted: Vec<i32> = values
        .iter()
        .map(|x| x.wrapping_mul(*x).wrapping_neg().clamp(-500, 20))
        .collect();
    assert_same(&elements(&x), &wanted, "a chain in place");
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
    let error = x.clamp_into(0.0, 1.0, &mut out).unwrap_err().to_string();
    assert_eq!(error, format!("clamp: {given}"));
    let error = out.axpy(2.0, &x).unwrap_err().to_string();
    assert_eq!(error, "axpy: given shapes [6] and [2, 3], wanted equal shapes");
    assert_eq!(elements(&out), [7.0; 6]);
}

fn next_of_collatz(x: u64) -> u64 {
    if x.is_multiple_of(2) { x / 2 } else { 3 * x + 1 }
}

kernels_gpu::elementwise! {
    /// A function that the library does not have.
    pub fn collatz(x: u64) -> u64 {
        next_of_collatz(x)
    }

    /// Inputs of several sizes, and a result of another.
    pub fn mixed(a: u8, b: f64, c: u16, d: [u8; 3]) -> f32 {
        (f64::from(a) + b * f64::from(c)) as f32 + f32::from(d[0]) - f32::from(d[2])
    }

    /// Two inputs whose vectors fill whole accesses.
    pub fn above(a: f32, b: f32) -> u8 {
        u8::from(a > b)
    }
}

/// On the simulated GPU, since the kernel is not among the library's PTX.
#[test]
fn operators_of_ones_own_at_every_length() {
    let device = Device::simulator();
    for len in lengths(tile_len::<u64, u64>()) {
        let x = Array1::from_iter(1..=len as u64);
        let on_device = DeviceArray::from_ndarray(device.default_stream(), &x).unwrap();
        let out = on_device.map_with::<collatz>().unwrap();
        assert_eq!(out.to_ndarray().unwrap(), x.mapv(next_of_collatz), "{len} elements");
        let mut longer = DeviceArray::zeros(device.default_stream(), len + 1).unwrap();
        let error = on_device.map_with_into::<collatz>(&mut longer).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("map_with: given shapes [{len}] and [{}], wanted equal shapes", len + 1)
        );
    }
}

#[test]
fn functions_of_several_arrays_of_any_types() {
    let device = Device::simulator();
    let stream = device.default_stream();
    for len in lengths(1024) {
        let a = Array1::from_shape_fn(len, |i| i as u8);
        let b = Array1::from_shape_fn(len, |i| i as f64 / 4.0);
        let c = Array1::from_shape_fn(len, |i| (i * 7 % 1000) as u16);
        let d = Array1::from_shape_fn(len, |i| [(i % 5) as u8, 0, (i % 3) as u8]);
        let wanted = Array1::from_shape_fn(len, |i| {
            (f64::from(a[i]) + b[i] * f64::from(c[i])) as f32 + f32::from(d[i][0]) - f32::from(d[i][2])
        });
        let on_device = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
            DeviceArray::from_ndarray(stream, &c).unwrap(),
            DeviceArray::from_ndarray(stream, &d).unwrap(),
        );
        let operands = (&on_device.0, &on_device.1, &on_device.2, &on_device.3);
        let out = ops::elementwise::<mixed, _>(operands).unwrap();
        assert_eq!(out.to_ndarray().unwrap(), wanted, "{len} elements");

        let (x, y) = (b.mapv(|b| (b * 3.7) as f32 % 11.0), b.mapv(|b| (b * 1.3) as f32 % 7.0));
        let wanted = Array1::from_shape_fn(len, |i| u8::from(x[i] > y[i]));
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &x).unwrap(),
            DeviceArray::from_ndarray(stream, &y).unwrap(),
        );
        let mut out = DeviceArray::zeros(stream, len).unwrap();
        ops::elementwise_into::<above, _>((&x, &y), &mut out).unwrap();
        assert_eq!(out.to_ndarray().unwrap(), wanted, "{len} elements");
    }
}

#[test]
fn functions_of_several_arrays_want_equal_shapes_of_one_device() {
    let (device, other) = (Device::simulator(), Device::simulator());
    let zeros = |device: &Device, len: usize| DeviceArray::<f32, _>::zeros(device.default_stream(), len).unwrap();
    let error = ops::elementwise::<above, _>((&zeros(&device, 3), &zeros(&device, 4))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "elementwise: given shapes [3] and [4] and [3], wanted equal shapes"
    );
    let error = ops::elementwise::<above, _>((&zeros(&device, 3), &zeros(&other, 3))).unwrap_err();
    assert!(matches!(error, warpsmith::Error::DifferentDevices { .. }), "{error}");
    let empty = ops::elementwise::<above, _>((&zeros(&device, 0), &zeros(&device, 0))).unwrap();
    assert!(empty.is_empty());
}
