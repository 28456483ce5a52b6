// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays that are made on the device, against ndarray's and Rust's own arithmetic.

use crate::common::*;
use kernels_gpu::create::tile_len;
use ndarray::{Array, Array1, Array2, Ix1, IxDyn, array};
use warpsmith::{DeviceArray, Element, Error, Stream, f16, ops};

fn stream() -> &'static Stream {
    device().default_stream()
}

/// Arrays of one value that overwrite others, of lengths around every boundary.
fn filled<T: Element + PartialEq + std::fmt::Debug>(values: &[T]) {
    for len in lengths(tile_len::<u8>() / size_of::<T>() + 1) {
        for &value in values {
            let x = DeviceArray::from_elem(stream(), len, value).unwrap();
            assert_eq!(elements(&x), vec![value; len], "{len}");
        }
        let mut x = upload(&Array1::from_elem(len, values[0]));
        x.fill(values[1]).unwrap();
        assert_eq!(elements(&x), vec![values[1]; len], "{len}, over others");
    }
}

#[test]
fn one_value_of_elements_of_every_size() {
    filled(&[0x12u8, 0xfe]);
    filled(&[0x1234u16, 0xfedc]);
    filled(&[-1.5f32, 0.1]);
    filled(&[f16::from_f32(0.1), f16::NEG_INFINITY]);
    filled(&[u64::MAX - 5, 77]);
    filled(&[[1u64, 2], [u64::MAX, 3]]);
    filled(&[1u128 << 100 | 7, 9]);
    // Sizes that do not divide 16.
    filled(&[[1u8, 2, 3], [4, 5, 6]]);
    filled(&[[0.5f32, 1.5, -2.5], [1.0, 2.0, 3.0]]);
    filled(&[[1u64, 2, 3, 4], [5, 6, 7, 8]]);
}

#[test]
fn elements_without_size() {
    let x = DeviceArray::from_elem(stream(), 5, [0u32; 0]).unwrap();
    assert_eq!((x.len(), elements(&x)), (5, vec![[]; 5]));
}

fn shapes_and_forms_like_another<T: Number + ops::Number>() {
    let x: Dyn<T> = DeviceArray::from_elem(stream(), IxDyn(&[2, 0, 3]), T::ONE).unwrap();
    assert_eq!(x.shape(), [2, 0, 3]);
    let x = DeviceArray::from_elem(stream(), (3, 5), T::SPECIAL[3]).unwrap();
    for (like, value) in [
        (x.zeros_like(), T::ZERO),
        (x.ones_like(), T::ONE),
        (x.full_like(T::SPECIAL[2]), T::SPECIAL[2]),
        (DeviceArray::ones(stream(), (3, 5)), T::ONE),
    ] {
        let like = like.unwrap();
        assert_eq!(like.shape(), [3, 5]);
        assert_same(&elements(&like), &[value; 15], "like");
    }
}

for_types!(shapes_and_forms_like_another: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn forms_like_another_go_with_it_on_a_stream_of_its_own() {
    let other = device().create_stream().unwrap();
    let x = DeviceArray::from_elem(&other, 10, 3u32).unwrap();
    assert_eq!(x.zeros_like().unwrap().add(&x).unwrap().sum().unwrap(), 30);
}

#[test]
fn functions_of_the_index() {
    let x = DeviceArray::from_shape_fn(stream(), (), |()| 7u8).unwrap();
    assert_eq!(elements(&x), [7]);
    let function = |(i, j, k): (usize, usize, usize)| (100 * i + 10 * j + k) as i64;
    let x = DeviceArray::from_shape_fn(stream(), (3, 4, 5), function).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), Array::from_shape_fn((3, 4, 5), function));
    let x = DeviceArray::from_shape_fn(stream(), IxDyn(&[2, 3]), |index| (index[0] + index[1]) as f32).unwrap();
    assert_eq!(
        x.to_ndarray().unwrap(),
        array![[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]].into_dyn()
    );
    let none = DeviceArray::from_shape_fn(stream(), (0, 3), |_| -> u8 { unreachable!("there is no element") });
    assert!(none.unwrap().is_empty());
}

/// A shape that no array has is an error before the function is called.
#[test]
fn shapes_with_too_many_elements() {
    let shape = (1 << 40, 1 << 40);
    let error = DeviceArray::from_shape_fn(stream(), shape, |_| -> u8 { unreachable!("there is no array") });
    assert!(matches!(error, Err(Error::Shape { .. })));
    assert!(matches!(
        DeviceArray::ones(stream(), shape),
        Err::<DeviceArray<u8, _>, _>(Error::Shape { .. })
    ));
    assert!(matches!(
        DeviceArray::<f64, _>::eye(stream(), 1 << 32),
        Err(Error::Shape { .. })
    ));
}

fn integers_in_steps<T: Number + ops::Number + TryFrom<i128> + Into<i128>>() {
    let (least, most): (i128, i128) = (T::LEAST.into(), T::GREATEST.into());
    let part = (most - least) / 1000 + 1;
    for (start, end, step) in [
        (0, 10, 3),
        (0, 9, 3),
        (5, 5, 1),
        (5, 0, 1),
        (100, 27, 1),
        (27, 100, 1),
        (least, most, part),
        (least, least + 1, part),
        (0, most, most),
        (most - 10, most, 3),
    ] {
        let range = |start: i128, end: i128, step: i128| {
            let [start, end, step] = [start, end, step].map(|x| T::try_from(x).ok().unwrap());
            elements(&DeviceArray::range(stream(), start, end, step).unwrap())
        };
        let wanted: Vec<T> = (start..end)
            .step_by(step as usize)
            .map(|x| T::try_from(x).ok().unwrap())
            .collect();
        assert_same(&range(start, end, step), &wanted, "range");
        if least < 0 && step < most {
            let wanted: Vec<T> = (start..end)
                .step_by(step as usize)
                .map(|x| T::try_from(start + end - x).ok().unwrap())
                .collect();
            assert_same(&range(end, start, -step), &wanted, "range downwards");
        }
    }
    for len in lengths(tile_len::<T>()) {
        if len as i128 <= most {
            let end = T::try_from(len as i128).ok().unwrap();
            let wanted: Vec<T> = (0..len as i128).map(|x| T::try_from(x).ok().unwrap()).collect();
            assert_same(
                &elements(&DeviceArray::range(stream(), T::ZERO, end, T::ONE).unwrap()),
                &wanted,
                "range",
            );
        }
    }
}

for_types!(integers_in_steps: i32 i64 u8 u16 u32 u64);

/// A float of a range is the exact number, rounded to f64 and then to the type.
fn floats_in_steps<T: FloatNumber + ops::Real>() {
    for (start, end, step) in [
        (0.0, 1.0, 0.25),
        (0.0, 1.0, 0.1),
        (1.0, 1.3, 0.1),
        (1.0, -1.0, -0.125),
        (3.0, 3.0, 1.0),
        (3.0, 2.0, 1.0),
        (-7.5, 2000.0, 0.37),
        (1e4, 1.0, -3.0),
    ] {
        let [start, end, step] = [start, end, step].map(T::of);
        let len = ((end.wide() - start.wide()) / step.wide()).ceil().max(0.0) as usize;
        let wanted: Vec<T> = (0..len)
            .map(|i| T::of((i as f64).mul_add(step.wide(), start.wide())))
            .collect();
        assert_same(
            &elements(&DeviceArray::range(stream(), start, end, step).unwrap()),
            &wanted,
            "range",
        );
    }
}

for_types!(floats_in_steps: f32 f64 f16 bf16);

/// What NumPy gives for `arange(1, 1.3, 0.1)`: four elements, the last beyond the end.
#[test]
fn a_rounded_quotient_counts_as_numpy_does() {
    let x = elements(&DeviceArray::range(stream(), 1.0f64, 1.3, 0.1).unwrap());
    assert_eq!((x.len(), x[0], x[1]), (4, 1.0, 1.1));
    assert!((x[3] - 1.3).abs() < 1e-15);
}

/// Beyond the numbers that f32 counts to.
#[test]
fn long_ranges_are_computed_from_the_index() {
    let len = (1 << 24) + 1003;
    let x = DeviceArray::range(stream(), 0.5f32, len as f32 + 0.5, 1.0).unwrap();
    let x = elements(&x);
    for i in [0, 1, 1 << 23, (1 << 24) - 1, 1 << 24, (1 << 24) + 999] {
        assert_eq!(x[i], (i as f64 + 0.5) as f32);
    }
}

#[test]
fn ranges_that_are_none() {
    let message = |error: warpsmith::Result<DeviceArray<_, Ix1>>| error.unwrap_err().to_string();
    assert_eq!(
        message(DeviceArray::range(stream(), 0.0, 1.0, 0.0)),
        "range: start, end and step: given 0, 1 and 0, wanted finite numbers, a step that is not 0, and fewer than 2^63 \
         elements"
    );
    for (start, end, step) in [
        (f64::NAN, 1.0, 1.0),
        (0.0, f64::INFINITY, 1.0),
        (0.0, 1.0, f64::NAN),
        (0.0, 1.0, f64::INFINITY),
        (0.0, 1e19, 1.0),
        (f64::MIN, f64::MAX, 1e300),
    ] {
        let error = DeviceArray::range(stream(), start, end, step);
        assert!(matches!(error, Err(Error::Parameter { .. })), "{start} {end} {step}");
    }
    assert!(matches!(
        DeviceArray::range(stream(), 0u8, 1, 0),
        Err(Error::Parameter { .. })
    ));
    assert!(matches!(
        DeviceArray::range(stream(), 0, u64::MAX, 1),
        Err(Error::Parameter { .. })
    ));
}

fn numbers_of_an_interval<T: FloatNumber + ops::Real>() {
    for (start, end) in [
        (0.0, 1.0),
        (-1.0, 1.0),
        (5.0, -3.0),
        (2.0, 2.0),
        (0.1, 0.7),
        (-1e4, 3e4),
    ] {
        let (start, end) = (T::of(start), T::of(end));
        for len in [0, 1, 2, 3, 5, 100, 1000, tile_len::<T>() + 1] {
            let x = elements(&DeviceArray::linspace(stream(), start, end, len).unwrap());
            assert_eq!(x.len(), len);
            let step = (end.wide() - start.wide()) / len.saturating_sub(1).max(1) as f64;
            for (i, &x) in x.iter().enumerate() {
                let exact =
                    start.wide() + (end.wide() - start.wide()) * (i as f64 / len.saturating_sub(1).max(1) as f64);
                // The step's own error, too, where the numbers cancel.
                let error = (x.wide() - exact).abs();
                let bound =
                    x.wide().abs().max(T::LEAST_NORMAL) * T::UNIT_ROUNDOFF * 2.0 + i as f64 * step.abs() * 1e-15;
                assert!(error <= bound, "{i} of {len}: {x:?} for {exact}");
            }
            if len > 1 {
                assert_same(&[x[0], x[len - 1]], &[start, end], "the ends");
            } else if len == 1 {
                assert_same(&x, &[start], "one number");
            }
        }
    }
}

for_types!(numbers_of_an_interval: f32 f64 f16 bf16);

fn unit_matrices<T: Number + ops::Number>() {
    for n in [0, 1, 2, 3, 17, 64, 255, 300] {
        let x = DeviceArray::<T, _>::eye(stream(), n).unwrap().to_ndarray().unwrap();
        let wanted = Array2::from_shape_fn((n, n), |(i, j)| if i == j { T::ONE } else { T::ZERO });
        assert_eq!(x, wanted);
    }
}

for_types!(unit_matrices: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

/// Powers and equal quotients, against those of `f64`: off by the roundings of a power, and by one to the type.
fn equal_quotients<T: FloatNumber + ops::Real + warpsmith::expr::Value<Element = T>>() {
    for len in [0, 1, 2, 3, 17, 1000] {
        let t = |i: usize| if len < 2 { 0.0 } else { i as f64 / (len - 1) as f64 };
        let x = elements(&DeviceArray::logspace(stream(), T::of(2.0), T::of(-3.0), T::of(8.0), len).unwrap());
        assert_eq!(x.len(), len);
        for (i, x) in x.iter().enumerate() {
            let (wanted, exponent) = ((-3.0 + 11.0 * t(i)).exp2(), 11.0);
            assert!(x.ulps(wanted) <= 2.0 + exponent, "{x:?}, wanted {wanted}");
        }
        for (start, end) in [(2.0, 512.0), (-1.0, -0.125), (5.0, 5.0), (64.0, 0.5)] {
            let x = elements(&DeviceArray::geomspace(stream(), T::of(start), T::of(end), len).unwrap());
            assert_eq!(x.len(), len);
            for (i, x) in x.iter().enumerate() {
                let wanted = start * (end / start).powf(t(i));
                assert!(x.ulps(wanted) <= 8.0, "{x:?}, wanted {wanted}");
            }
            assert!(x.first().is_none_or(|x| x.wide() == start));
            assert!(len < 2 || x[len - 1].wide() == end);
        }
    }
    // Of a negative base all are negative, as ndarray's.
    let got = elements(&DeviceArray::logspace(stream(), T::of(-2.0), T::of(-1.0), T::of(3.0), 9).unwrap());
    let wanted = Array1::logspace(-2.0f64, -1.0, 3.0, 9);
    for (got, wanted) in got.iter().zip(&wanted) {
        assert!(got.ulps(*wanted) <= 5.0, "{got:?}, wanted {wanted}");
    }
    for (start, end) in [(0.0, 1.0), (1.0, -1.0), (1.0, f64::INFINITY), (f64::NAN, 1.0)] {
        let error = DeviceArray::geomspace(stream(), T::of(start), T::of(end), 3).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Parameter {
                    operation: "geomspace",
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn numbers_with_equal_quotients() {
    equal_quotients::<f32>();
    equal_quotients::<f64>();
    equal_quotients::<f16>();
    equal_quotients::<warpsmith::bf16>();
    // Neither the quotient nor its reciprocal is a number.
    let x = DeviceArray::geomspace(stream(), 1e-300f64, 1e300, 3).unwrap();
    assert!((elements(&x)[1] - 1.0).abs() < 1e-14);
}
