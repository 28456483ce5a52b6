// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two operands, to the last bit.

use crate::common::*;
use cuda_std::Float;
use kernels_gpu::binary::{binary, tile_len};
use kernels_gpu::op::Add;
use ndarray::{Array, Array1, Array2, Array3, Array4, ArrayD, Dimension, IxDyn, Zip, arr0};
use proptest::prelude::*;
use warpsmith::ops;
use warpsmith::{Device, DeviceArray, LaunchConfig, Result, bf16, f16};

/// The operations as Rust computes them.
trait Oracle: Number + ops::Number {
    fn add(a: Self, b: Self) -> Self;
    fn sub(a: Self, b: Self) -> Self;
    fn mul(a: Self, b: Self) -> Self;
    fn div(a: Self, b: Self) -> Self;
    fn minimum(a: Self, b: Self) -> Self;
    fn maximum(a: Self, b: Self) -> Self;
    fn pow(a: Self, b: Self) -> Self;
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
            /// In the integers modulo 2^64, of which those modulo a smaller power of two are a part; where the exponent
            /// is negative, the cases one by one.
            #[allow(unused_comparisons, clippy::absurd_extreme_comparisons)]
            fn pow(a: Self, b: Self) -> Self {
                if b < 0 {
                    let minus_one = (0 as $type).wrapping_sub(1);
                    return if a == 1 || (a == minus_one && b % 2 == 0) {
                        1
                    } else if a == minus_one {
                        minus_one
                    } else {
                        0
                    };
                }
                let (exponent, mut power) = (b as u64, 1u64);
                for bit in (0..64).rev() {
                    power = power.wrapping_mul(power);
                    if exponent >> bit & 1 == 1 {
                        power = power.wrapping_mul(a as u64);
                    }
                }
                power as $type
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
            /// The function that the kernel calls, which gives the same bits on every device.
            fn pow(a: Self, b: Self) -> Self {
                Float::powf(a, b)
            }
        }
    )*};
}

/// In `f32`, rounded once.
macro_rules! narrow_float_oracle {
    ($($type:ident)*) => { $(narrow_float_oracle!(@ $type: add sub mul div minimum maximum pow);)* };
    (@ $type:ident: $($method:ident)*) => {
        impl Oracle for $type {
            $(fn $method(a: Self, b: Self) -> Self {
                Self::from_f32(<f32 as Oracle>::$method(a.to_f32(), b.to_f32()))
            })*
        }
    };
}

integer_oracle!(i32 i64 u8 u16 u32 u64);
float_oracle!(f32 f64);
narrow_float_oracle!(f16 bf16);

/// As `for_types`, for all ten.
macro_rules! for_all_types {
    ($function:ident: $($type:ident)*) => {
        mod $function {
            #[allow(unused_imports)]
            use super::{bf16, f16};
            $(
                #[test]
                fn $type() {
                    super::$function::<$type>();
                }
            )*
        }
    };
    ($function:ident) => {
        for_all_types!($function: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
    };
}

type ArrayForm<T> = fn(&DynRef<T>, &DynRef<T>) -> Result<Dyn<T>>;
type ArrayInto<T> = fn(&DynRef<T>, &DynRef<T>, &mut DynRef<T>) -> Result<()>;
type ScalarForm<T> = fn(&DynRef<T>, T) -> Result<Dyn<T>>;
type ScalarInto<T> = fn(&DynRef<T>, T, &mut DynRef<T>) -> Result<()>;
type ArrayAssign<T> = fn(&mut DynRef<T>, &DynRef<T>) -> Result<()>;
type ScalarAssign<T> = fn(&mut DynRef<T>, T) -> Result<()>;

/// An operation in all its forms.
struct Operation<T: Number + ops::Number> {
    name: &'static str,
    oracle: fn(T, T) -> T,
    array: (ArrayForm<T>, ArrayInto<T>, ArrayAssign<T>),
    scalar: (ScalarForm<T>, ScalarInto<T>, ScalarAssign<T>),
    /// With the scalar as the first operand, where that is another operation.
    scalar_first: Option<(ScalarForm<T>, ScalarInto<T>, ScalarAssign<T>)>,
}

fn operations<T: Oracle>() -> Vec<Operation<T>> {
    macro_rules! operations {
        ($($name:ident $into:ident $assign:ident $scalar:ident $scalar_into:ident $scalar_assign:ident
           [$($first:ident $first_into:ident $first_assign:ident)?];)*) => {
            vec![$(Operation {
                name: stringify!($name),
                oracle: Oracle::$name,
                array: (DynRef::$name, DynRef::$into, DynRef::$assign),
                scalar: (DynRef::$scalar, DynRef::$scalar_into, DynRef::$scalar_assign),
                scalar_first: operations!(@ $($first $first_into $first_assign)?),
            }),*]
        };
        (@) => { None };
        (@ $first:ident $into:ident $assign:ident) => { Some((DynRef::$first, DynRef::$into, DynRef::$assign)) };
    }
    operations! {
        add add_into add_assign add_scalar add_scalar_into add_assign_scalar [];
        sub sub_into sub_assign sub_scalar sub_scalar_into sub_assign_scalar
            [scalar_sub scalar_sub_into scalar_sub_assign];
        mul mul_into mul_assign mul_scalar mul_scalar_into mul_assign_scalar [];
        div div_into div_assign div_scalar div_scalar_into div_assign_scalar
            [scalar_div scalar_div_into scalar_div_assign];
        minimum minimum_into minimum_assign minimum_scalar minimum_scalar_into minimum_assign_scalar [];
        maximum maximum_into maximum_assign maximum_scalar maximum_scalar_into maximum_assign_scalar [];
        pow pow_into pow_assign pow_scalar pow_scalar_into pow_assign_scalar
            [scalar_pow scalar_pow_into scalar_pow_assign];
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
        let mut in_place = upload_vec(a);
        operation.array.2(&mut in_place, &other).unwrap();
        assert_same(&elements(&in_place), &wanted, &format!("{name}_assign"));

        let wanted: Vec<T> = a.iter().map(|&a| oracle(a, scalar)).collect();
        let what = format!("{name} with the scalar {scalar:?}");
        assert_same(
            &elements(&operation.scalar.0(&on_device, scalar).unwrap()),
            &wanted,
            &what,
        );
        operation.scalar.1(&on_device, scalar, &mut out).unwrap();
        assert_same(&elements(&out), &wanted, &format!("{what}, into"));
        let mut in_place = upload_vec(a);
        operation.scalar.2(&mut in_place, scalar).unwrap();
        assert_same(&elements(&in_place), &wanted, &format!("{what}, in place"));

        if let Some((form, into, assign)) = operation.scalar_first {
            let wanted: Vec<T> = a.iter().map(|&a| oracle(scalar, a)).collect();
            let what = format!("{name} of the scalar {scalar:?}");
            assert_same(&elements(&form(&on_device, scalar).unwrap()), &wanted, &what);
            into(&on_device, scalar, &mut out).unwrap();
            assert_same(&elements(&out), &wanted, &format!("{what}, into"));
            let mut in_place = upload_vec(a);
            assign(&mut in_place, scalar).unwrap();
            assert_same(&elements(&in_place), &wanted, &format!("{what}, in place"));
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

for_all_types!(every_length);
for_all_types!(special_values);
for_all_types!(random_values);
for_all_types!(every_layout);
for_all_types!(an_array_with_itself);

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
fn shapes_that_do_not_fit_are_an_error_and_leave_the_output_alone() {
    let a = upload(&ArrayD::<f32>::ones(IxDyn(&[2, 3])));
    let transposed = upload(&ArrayD::<f32>::ones(IxDyn(&[3, 2])));
    let mut out = upload(&ArrayD::from_elem(IxDyn(&[3, 2]), 7.0f32));
    let together = "given shapes [2, 3] and [3, 2], wanted shapes that broadcast together: along each axis, from the last, \
                    equal lengths or a 1";
    let output = "given an output of shape [3, 2], wanted one of the result's shape, [2, 3]";
    for operation in operations::<f32>() {
        let name = operation.name;
        let message = |result: Result<()>| result.unwrap_err().to_string();
        let error = message(operation.array.0(&a, &transposed).map(drop));
        assert_eq!(error, format!("{name}: {together}"));
        let error = message(operation.array.1(&a, &a, &mut out));
        assert_eq!(error, format!("{name}: {output}"));
        let error = message(operation.array.1(&a, &transposed, &mut out));
        assert_eq!(error, format!("{name}: {together}"));
        let error = message(operation.array.2(&mut out, &a));
        assert_eq!(
            error,
            format!(
                "{name}_assign: given shapes [3, 2] and [2, 3], wanted a second shape that broadcasts to the first"
            )
        );
        let error = message(operation.scalar.1(&a, 1.0, &mut out));
        assert_eq!(error, format!("{name}_scalar: {output}"));
        if let Some((_, into, _)) = operation.scalar_first {
            let error = message(into(&a, 1.0, &mut out));
            assert_eq!(error, format!("scalar_{name}: {output}"));
        }
    }
    assert_eq!(elements(&out), [7.0; 6]);
}

/// f32 to 1 ulp of the power in f64, which is off by less than 2^-20 ulp of f32; 16-bit floats to 0.5 of their ulp and
/// the rounding before it, 2^-8 ulp at most with bf16's 8 digits less than f32 has.
#[test]
fn powers_are_near_the_true_ones() {
    fn check<T: FloatNumber + ops::Number>(bound: f64) {
        let (a, b) = (random::<T>(5000, 5), random::<T>(5000, 6));
        let small: Vec<T> = b.iter().map(|b| T::of(b.wide() % 16.0)).collect();
        for exponents in [&b, &small] {
            let powers = elements(&upload_vec(&a).pow(&upload_vec(exponents)).unwrap());
            for ((a, b), power) in a.iter().zip(exponents).zip(powers) {
                let wanted = a.wide().powf(b.wide());
                assert!(
                    power.ulps(wanted) <= bound,
                    "{a:?}^{b:?} is {power:?}, wanted {wanted:e}"
                );
            }
        }
    }
    check::<f32>(1.01);
    check::<f64>(1.01);
    check::<f16>(0.51);
    check::<bf16>(0.51);
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
