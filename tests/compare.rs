// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons, exactly.

use crate::common::*;
use ndarray::{Array, Array2, ArrayD, IxDyn};
use proptest::prelude::*;
use warpsmith::ops;
use warpsmith::{DeviceArray, Result, bf16, f16};

type ArrayForm<T> = fn(&DynRef<T>, &DynRef<T>) -> Result<Dyn<u8>>;
type ArrayInto<T> = fn(&DynRef<T>, &DynRef<T>, &mut DynRef<u8>) -> Result<()>;
type ScalarForm<T> = fn(&DynRef<T>, T) -> Result<Dyn<u8>>;
type ScalarInto<T> = fn(&DynRef<T>, T, &mut DynRef<u8>) -> Result<()>;

/// A comparison in all its forms.
struct Comparison<T: Number + ops::Number + PartialOrd> {
    name: &'static str,
    oracle: fn(&T, &T) -> bool,
    array: (ArrayForm<T>, ArrayInto<T>),
    scalar: (ScalarForm<T>, ScalarInto<T>),
}

fn comparisons<T: Number + ops::Number + PartialOrd>() -> Vec<Comparison<T>> {
    macro_rules! comparisons {
        ($($name:ident $into:ident $scalar:ident $scalar_into:ident: $oracle:ident;)*) => {
            vec![$(Comparison {
                name: stringify!($name),
                oracle: T::$oracle,
                array: (DynRef::$name, DynRef::$into),
                scalar: (DynRef::$scalar, DynRef::$scalar_into),
            }),*]
        };
    }
    comparisons! {
        equal equal_into equal_scalar equal_scalar_into: eq;
        not_equal not_equal_into not_equal_scalar not_equal_scalar_into: ne;
        less less_into less_scalar less_scalar_into: lt;
        less_equal less_equal_into less_equal_scalar less_equal_scalar_into: le;
        greater greater_into greater_scalar greater_scalar_into: gt;
        greater_equal greater_equal_into greater_equal_scalar greater_equal_scalar_into: ge;
    }
}

fn check<T: Number + ops::Number + PartialOrd>(a: &[T], b: &[T], scalar: T) {
    let (on_device, other) = (upload_vec(a), upload_vec(b));
    let mut out = DeviceArray::zeros(device().default_stream(), IxDyn(&[a.len()])).unwrap();
    for comparison in comparisons::<T>() {
        let Comparison { name, oracle, .. } = comparison;
        let what = format!("{name} of {}", T::NAME);
        let wanted: Vec<u8> = a.iter().zip(b).map(|(a, b)| oracle(a, b).into()).collect();
        assert_same(
            &elements(&comparison.array.0(&on_device, &other).unwrap()),
            &wanted,
            &what,
        );
        comparison.array.1(&on_device, &other, &mut out).unwrap();
        assert_same(&elements(&out), &wanted, &what);
        let what = format!("{what} with {scalar:?}");
        let wanted: Vec<u8> = a.iter().map(|a| oracle(a, &scalar).into()).collect();
        assert_same(
            &elements(&comparison.scalar.0(&on_device, scalar).unwrap()),
            &wanted,
            &what,
        );
        comparison.scalar.1(&on_device, scalar, &mut out).unwrap();
        assert_same(&elements(&out), &wanted, &what);
    }
}

/// Some lengths, every special value with every other, equal values, and broadcast operands.
fn every_comparison<T: Number + ops::Number + PartialOrd>() {
    for (seed, len) in (1..).zip([0, 1, 33, 1025]) {
        let (a, mut b) = (random::<T>(len, seed), random::<T>(len, seed + 100));
        for (b, &a) in b.iter_mut().zip(&a).step_by(3) {
            *b = a;
        }
        check(&a, &b, T::SPECIAL[seed as usize % T::SPECIAL.len()]);
    }
    for &scalar in T::SPECIAL {
        check(T::SPECIAL, &vec![scalar; T::SPECIAL.len()], scalar);
    }
    let a = Array2::from_shape_vec((37, 41), random::<T>(37 * 41, 1)).unwrap();
    let b = a.row(3).to_owned();
    let (on_device, row) = (upload(&a.clone().into_dyn()), upload(&b.clone().into_dyn()));
    let scalar = a[(5, 5)];
    for comparison in comparisons::<T>() {
        let wanted = Array2::from_shape_fn((37, 41), |(i, j)| u8::from((comparison.oracle)(&a[(i, j)], &b[j])));
        let got = comparison.array.0(&on_device, &row).unwrap().to_ndarray().unwrap();
        assert_eq!(got, wanted.into_dyn(), "{} of {}", comparison.name, T::NAME);
        let wanted = Array2::from_shape_fn((37, 41), |(i, j)| u8::from((comparison.oracle)(&b[j], &a[(i, j)])));
        let got = comparison.array.0(&row, &on_device).unwrap().to_ndarray().unwrap();
        assert_eq!(got, wanted.into_dyn(), "{} of {}", comparison.name, T::NAME);
    }
    let wanted = Array2::from_shape_fn((41, 37), |(i, j)| u8::from(a[(j, i)] > scalar));
    assert_eq!(
        on_device.t().greater_scalar(scalar).unwrap().to_ndarray().unwrap(),
        wanted.into_dyn()
    );
    let wanted = Array2::from_shape_fn((41, 37), |(i, j)| u8::from(a[(j, i)] <= scalar));
    assert_eq!(
        on_device.t().less_equal_scalar(scalar).unwrap().to_ndarray().unwrap(),
        wanted.into_dyn()
    );
}

macro_rules! for_all_types {
    ($($type:ident)*) => {
        mod every_type {
            use super::{bf16, f16};
            $(
                #[test]
                fn $type() {
                    super::every_comparison::<$type>();
                }
            )*
        }
    };
}

for_all_types!(f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn any_values() {
    proptest!(cases(20), |(values in proptest::collection::vec(any::<(i32, i32)>(), 0..3000), scalar in any::<i32>())| {
        let (a, b): (Vec<i32>, Vec<i32>) = values.into_iter().map(|(a, b)| (a % 50, b % 50)).unzip();
        check(&a, &b, scalar % 50);
    });
}

#[test]
fn shapes_that_do_not_fit_leave_the_output_alone() {
    let (a, b) = (
        upload(&ArrayD::<f32>::ones(IxDyn(&[2, 3]))),
        upload(&ArrayD::<f32>::ones(IxDyn(&[2]))),
    );
    let mut out = upload(&Array::from_elem(IxDyn(&[3, 2]), 7u8));
    for comparison in comparisons::<f32>() {
        let name = comparison.name;
        let together = "wanted shapes that broadcast together: along each axis, from the last, equal lengths or a 1";
        let error = comparison.array.0(&a, &b).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: given shapes [2, 3] and [2], {together}"));
        let output = "given an output of shape [3, 2], wanted one of the result's shape, [2, 3]";
        let error = comparison.array.1(&a, &a, &mut out).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: {output}"));
        let error = comparison.scalar.1(&a, 1.0, &mut out).unwrap_err().to_string();
        assert_eq!(error, format!("{name}_scalar: {output}"));
    }
    assert_eq!(elements(&out), [7; 6]);
}
