// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two operands, to the last bit.

#[macro_use]
mod common;

use common::*;
use kernels_gpu::binary::{binary, tile_len};
use kernels_gpu::op::Add;
use ndarray::{Array, Array1, Array2, Array3, Array4, ArrayD, Dimension, IxDyn, Zip, arr0};
use proptest::prelude::*;
use warpsmith::{Device, DeviceArray, LaunchConfig, Result};

/// The operations as Rust computes them.
trait Oracle: Number {
    fn add(a: Self, b: Self) -> Self;
    fn sub(a: Self, b: Self) -> Self;
    fn mul(a: Self, b: Self) -> Self;
    fn div(a: Self, b: Self) -> Self;
    fn minimum(a: Self, b: Self) -> Self;
    fn maximum(a: Self, b: Self) -> Self;
}

macro_rules! integer_oracle {
    ($($type:ident)*) => {$(
        impl Oracle for $type {
            fn add(a: Self, b: Self) -> Self {
                a.wrapping_add(b)
            }
            fn sub(a: Self, b: Self) -> Self {
                a.wrapping_sub(b)
            }
            fn mul(a: Self, b: Self) -> Self {
                a.wrapping_mul(b)
            }
            fn div(a: Self, b: Self) -> Self {
                if b == 0 { 0 } else { a.wrapping_div(b) }
            }
            fn minimum(a: Self, b: Self) -> Self {
                a.min(b)
            }
            fn maximum(a: Self, b: Self) -> Self {
                a.max(b)
            }
        }
    )*};
}

macro_rules! float_oracle {
    ($($type:ident)*) => {$(
        impl Oracle for $type {
            fn add(a: Self, b: Self) -> Self {
                a + b
            }
            fn sub(a: Self, b: Self) -> Self {
                a - b
            }
            fn mul(a: Self, b: Self) -> Self {
                a * b
            }
            fn div(a: Self, b: Self) -> Self {
                a / b
            }
            /// IEEE 754-2019 `minimum`: NaN if either is, −0 below +0.
            fn minimum(a: Self, b: Self) -> Self {
                if a.is_nan() || b.is_nan() {
                    Self::NAN
                } else if a < b || (a == b && a.is_sign_negative()) {
                    a
                } else {
                    b
                }
            }
            fn maximum(a: Self, b: Self) -> Self {
                -Oracle::minimum(-a, -b)
            }
        }
    )*};
}

integer_oracle!(i32 i64 u32 u64);
float_oracle!(f32 f64);

type ArrayForm<T> = fn(&Dyn<T>, &Dyn<T>) -> Result<Dyn<T>>;
type ArrayInto<T> = fn(&Dyn<T>, &Dyn<T>, &mut Dyn<T>) -> Result<()>;
type ScalarForm<T> = fn(&Dyn<T>, T) -> Result<Dyn<T>>;
type ScalarInto<T> = fn(&Dyn<T>, T, &mut Dyn<T>) -> Result<()>;

/// An operation in all its forms.
struct Operation<T: Number> {
    name: &'static str,
    oracle: fn(T, T) -> T,
    array: (ArrayForm<T>, ArrayInto<T>),
    scalar: (ScalarForm<T>, ScalarInto<T>),
    /// With the scalar as the first operand, where that is another operation.
    scalar_first: Option<(ScalarForm<T>, ScalarInto<T>)>,
}

fn operations<T: Oracle>() -> Vec<Operation<T>> {
    macro_rules! operations {
        ($($name:ident $into:ident $scalar:ident $scalar_into:ident [$($first:ident $first_into:ident)?];)*) => {
            vec![$(Operation {
                name: stringify!($name),
                oracle: T::$name,
                array: (Dyn::$name, Dyn::$into),
                scalar: (Dyn::$scalar, Dyn::$scalar_into),
                scalar_first: operations!(@ $($first $first_into)?),
            }),*]
        };
        (@) => { None };
        (@ $first:ident $first_into:ident) => { Some((Dyn::$first, Dyn::$first_into)) };
    }
    operations! {
        add add_into add_scalar add_scalar_into [];
        sub sub_into sub_scalar sub_scalar_into [scalar_sub scalar_sub_into];
        mul mul_into mul_scalar mul_scalar_into [];
        div div_into div_scalar div_scalar_into [scalar_div scalar_div_into];
        minimum minimum_into minimum_scalar minimum_scalar_into [];
        maximum maximum_into maximum_scalar maximum_scalar_into [];
    }
}

/// Compares every form of every operation with the oracle, on `a` and `b`, and on `a` and the number `scalar`.
fn check<T: Oracle>(a: &[T], b: &[T], scalar: T) {
    let (on_device, other) = (upload_vec(a), upload_vec(b));
    let mut out = DeviceArray::zeros(device().default_stream(), IxDyn(&[a.len()])).unwrap();
    for operation in operations::<T>() {
        let Operation { name, oracle, .. } = operation;
        let wanted: Vec<T> = a.iter().zip(b).map(|(&a, &b)| oracle(a, b)).collect();
        assert_same(
            &elements(&operation.array.0(&on_device, &other).unwrap()),
            &wanted,
            name,
        );
        operation.array.1(&on_device, &other, &mut out).unwrap();
        assert_same(&elements(&out), &wanted, &format!("{name}_into"));

        let wanted: Vec<T> = a.iter().map(|&a| oracle(a, scalar)).collect();
        let what = format!("{name} with the scalar {scalar:?}");
        assert_same(
            &elements(&operation.scalar.0(&on_device, scalar).unwrap()),
            &wanted,
            &what,
        );
        operation.scalar.1(&on_device, scalar, &mut out).unwrap();
        assert_same(&elements(&out), &wanted, &format!("{what}, into"));

        if let Some((form, into)) = operation.scalar_first {
            let wanted: Vec<T> = a.iter().map(|&a| oracle(scalar, a)).collect();
            let what = format!("{name} of the scalar {scalar:?}");
            assert_same(&elements(&form(&on_device, scalar).unwrap()), &wanted, &what);
            into(&on_device, scalar, &mut out).unwrap();
            assert_same(&elements(&out), &wanted, &format!("{what}, into"));
        }
    }
}

fn every_length<T: Oracle>() {
    for (seed, len) in (1..).zip(lengths(tile_len::<T>())) {
        let (a, b) = (random(len, seed), random(len, seed + 100));
        check::<T>(&a, &b, T::SPECIAL[seed as usize % T::SPECIAL.len()]);
    }
}

/// Every special value with every other: overflow, division by zero, `MIN / -1`, NaN, infinities, −0, subnormals.
fn special_values<T: Oracle>() {
    for &scalar in T::SPECIAL {
        check::<T>(T::SPECIAL, &vec![scalar; T::SPECIAL.len()], scalar);
    }
}

fn random_values<T: Oracle>() {
    proptest!(cases(12), |(len in 0..3 * tile_len::<T>(), seed in any::<u64>())| {
        let (a, b) = (random(len, seed), random(len, seed.wrapping_add(1)));
        check::<T>(&a, &b, T::random(&mut rng(seed)));
    });
}

fn every_layout<T: Oracle>() {
    let (a, b) = (layout_base::<T>(1), layout_base::<T>(2));
    for ((layout, a), (_, b)) in layouts(&a).into_iter().zip(layouts(&b)) {
        let (a_on_device, b_on_device) = (upload(&a), upload(&b.to_owned()));
        for operation in operations::<T>() {
            let result = operation.array.0(&a_on_device, &b_on_device)
                .unwrap()
                .to_ndarray()
                .unwrap();
            let wanted = Zip::from(&a).and(&b).map_collect(|&a, &b| (operation.oracle)(a, b));
            assert_eq!(result.shape(), wanted.shape(), "{layout}");
            let wanted: Vec<T> = wanted.iter().copied().collect();
            assert_same(
                result.as_slice().unwrap(),
                &wanted,
                &format!("{}, {layout}", operation.name),
            );
        }
    }
}

/// Both operands may be one array.
fn an_array_with_itself<T: Oracle>() {
    let values = random::<T>(1000, 3);
    let x = upload_vec(&values);
    for operation in operations::<T>() {
        let wanted: Vec<T> = values.iter().map(|&x| (operation.oracle)(x, x)).collect();
        assert_same(&elements(&operation.array.0(&x, &x).unwrap()), &wanted, operation.name);
    }
}

for_types!(every_length);
for_types!(special_values);
for_types!(random_values);
for_types!(every_layout);
for_types!(an_array_with_itself);

#[test]
fn dimensions_are_those_of_ndarray() {
    fn check<D: Dimension>(a: &Array<f32, D>) {
        let wanted = a.mapv(|x| (x + x) * 3.0);
        assert_eq!(
            upload(a)
                .add(&upload(a))
                .unwrap()
                .mul_scalar(3.0)
                .unwrap()
                .to_ndarray()
                .unwrap(),
            wanted
        );
    }
    let value = |i: usize| i as f32 / 7.0;
    check(&arr0(2.5));
    check(&Array1::from_shape_fn(17, value));
    check(&Array2::from_shape_fn((3, 17), |(i, j)| value(17 * i + j)));
    check(&Array3::from_shape_fn((2, 3, 17), |(i, j, k)| {
        value(51 * i + 17 * j + k)
    }));
    check(&Array4::from_shape_fn((2, 2, 3, 5), |(i, j, k, l)| {
        value(30 * i + 15 * j + 5 * k + l)
    }));
    check(&Array2::zeros((0, 5)));
}

#[test]
fn shapes_that_differ_are_an_error_and_leave_the_output_alone() {
    let a = upload(&ArrayD::<f32>::ones(IxDyn(&[2, 3])));
    let transposed = upload(&ArrayD::<f32>::ones(IxDyn(&[3, 2])));
    let mut out = upload(&ArrayD::from_elem(IxDyn(&[3, 2]), 7.0f32));
    let given = "given shapes [2, 3] and [3, 2], wanted equal shapes";
    for operation in operations::<f32>() {
        let (name, message) = (operation.name, |error: warpsmith::Error| error.to_string());
        assert_eq!(
            operation.array.0(&a, &transposed).map_err(message).unwrap_err(),
            format!("{name}: {given}")
        );
        assert_eq!(
            operation.array.1(&a, &a, &mut out).map_err(message).unwrap_err(),
            format!("{name}: {given}")
        );
        let error = operation.array.1(&a, &transposed, &mut out)
            .map_err(message)
            .unwrap_err();
        assert_eq!(error, format!("{name}: {given}"));
        let error = operation.scalar.1(&a, 1.0, &mut out).map_err(message).unwrap_err();
        assert_eq!(error, format!("{name}_scalar: {given}"));
        if let Some((_, into)) = operation.scalar_first {
            let error = into(&a, 1.0, &mut out).map_err(message).unwrap_err();
            assert_eq!(error, format!("scalar_{name}: {given}"));
        }
    }
    assert_eq!(elements(&out), [7.0; 6]);
}

#[test]
fn arrays_of_other_ranks_do_not_broadcast() {
    let row = upload(&ArrayD::<i32>::ones(IxDyn(&[3])));
    let matrix = upload(&ArrayD::<i32>::ones(IxDyn(&[2, 3])));
    let error = matrix.add(&row).unwrap_err().to_string();
    assert_eq!(error, "add: given shapes [2, 3] and [3], wanted equal shapes");
}

/// The kernel itself, launched with blocks that are not of the size it is tuned for, as other crates may.
#[test]
fn blocks_of_any_size_treat_their_tile() {
    let device = Device::auto().unwrap();
    let stream = device.default_stream();
    let len = 3 * tile_len::<f32>() + 5;
    let x = Array1::from_shape_fn(len, |i| i as f32);
    let x_device = DeviceArray::from_ndarray(stream, &x).unwrap();
    for threads in [1, 31, 96, 255, 256] {
        let mut out = DeviceArray::zeros(stream, len).unwrap();
        let config = LaunchConfig::new(4, threads);
        stream
            .launch::<binary<f32, Add>>(&config, (&x_device, &x_device, &mut out))
            .unwrap();
        assert_eq!(out.to_ndarray().unwrap(), &x + &x, "{threads} threads");
    }
}
