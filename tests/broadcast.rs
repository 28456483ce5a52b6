// SPDX-License-Identifier: MIT OR Apache-2.0
//! Broadcasting and operands that lie in other orders, against ndarray's own broadcasting.

use crate::common::*;
use ndarray::{Array, Array2, Array3, ArrayD, IxDyn, Zip, arr0, array, s};
use proptest::prelude::*;
use warpsmith::ops;
use warpsmith::{DeviceArray, bf16, f16};

/// 0, 1, 2, … in that shape, from `first` on.
fn counted(shape: &[usize], first: i32) -> ArrayD<i32> {
    let len: usize = shape.iter().product();
    Array::from_iter((0..len as i32).map(|i| i * 7 + first))
        .into_shape_with_order(IxDyn(shape))
        .unwrap()
}

/// Compares all forms with ndarray for two arrays of these shapes, `permuted` in that order of axes beforehand.
fn check(a: &[usize], b: &[usize], reverse: (bool, bool)) {
    let (a, b) = (counted(a, 1), counted(b, -1000));
    let (mut a_view, mut b_view) = (a.view(), b.view());
    let (a_device, b_device) = (upload(&a), upload(&b));
    let (mut a_device_view, mut b_device_view) = (a_device.view(), b_device.view());
    if reverse.0 {
        (a_view, a_device_view) = (a_view.reversed_axes(), a_device_view.reversed_axes());
    }
    if reverse.1 {
        (b_view, b_device_view) = (b_view.reversed_axes(), b_device_view.reversed_axes());
    }
    let what = format!("{:?} and {:?}", a_device_view, b_device_view);
    let wanted = &a_view - &b_view;
    let got = a_device_view.sub(&b_device_view).unwrap();
    assert_eq!(got.to_ndarray().unwrap(), wanted, "{what}");
    let mut out = DeviceArray::zeros(device().default_stream(), wanted.raw_dim()).unwrap();
    a_device_view.sub_into(&b_device_view, &mut out).unwrap();
    assert_eq!(out.to_ndarray().unwrap(), wanted, "{what}, into");
    if wanted.shape() == a_view.shape() {
        let mut in_place = upload(&a_view);
        in_place.sub_assign(&b_device_view).unwrap();
        assert_eq!(in_place.to_ndarray().unwrap(), wanted, "{what}, in place");
    }
    let wanted = a_view.mapv(|a| 5 - a);
    assert_eq!(
        a_device_view.scalar_sub(5).unwrap().to_ndarray().unwrap(),
        wanted,
        "{what}"
    );
    let wanted = a_view.mapv(|a| a - 5);
    assert_eq!(
        a_device_view.sub_scalar(5).unwrap().to_ndarray().unwrap(),
        wanted,
        "{what}"
    );
}

#[test]
fn shapes_of_every_kind() {
    let pairs: &[(&[usize], &[usize])] = &[
        (&[], &[]),
        (&[], &[5]),
        (&[3, 4], &[]),
        (&[1], &[1, 1, 1]),
        (&[0], &[1]),
        (&[0], &[]),
        (&[3, 0], &[1, 0]),
        (&[2, 1, 0], &[3, 1]),
        (&[7], &[1]),
        (&[5000], &[1]),
        (&[2, 5000], &[5000]),
        (&[33, 257], &[257]),
        (&[33, 257], &[33, 1]),
        (&[1, 257], &[33, 1]),
        (&[1000, 3], &[3]),
        (&[1000, 3], &[1000, 1]),
        (&[300, 1], &[1, 5]),
        (&[65, 127], &[1, 127]),
        (&[4, 1, 6], &[5, 1]),
        (&[4, 5, 6], &[4, 1, 6]),
        (&[4, 5, 6], &[1, 5, 1]),
        (&[2, 3, 4, 5], &[3, 1, 5]),
        (&[2, 1, 4, 1], &[1, 3, 1, 5]),
        (&[2, 3, 1, 5, 6], &[2, 1, 4, 5, 1]),
        (&[2, 1, 3, 1, 2, 7], &[3, 1, 5, 1, 7]),
        (&[1, 2, 1, 3, 1, 2], &[2, 1, 2, 1, 2, 1]),
    ];
    for (a, b) in pairs {
        check(a, b, (false, false));
        check(b, a, (false, false));
    }
}

#[test]
fn transposed_operands() {
    for [rows, columns] in [[1, 1], [1, 40], [31, 33], [32, 32], [65, 100], [3, 700], [700, 3]] {
        check(&[rows, columns], &[columns, rows], (false, true));
        check(&[rows, columns], &[columns, rows], (true, false));
        check(&[rows, columns], &[rows, columns], (true, true));
        check(&[rows, columns], &[1, rows], (false, true));
    }
    check(&[3, 4, 5], &[5, 4, 3], (false, true));
    check(&[2, 3, 4, 5], &[5, 1, 3, 2], (false, true));
    check(&[6, 5, 4, 3, 2], &[2, 3, 1, 5, 6], (true, false));
    check(&[2, 3, 2, 3, 2, 3], &[3, 2, 3, 2, 3, 2], (true, false));
}

/// Axes that can be neither dropped nor merged, more than one launch has: every other one is repeated.
#[test]
fn more_axes_than_a_launch_has() {
    for axes in [8, 9, 11] {
        let a: Vec<usize> = (0..axes).map(|axis| [2, 1][axis % 2]).collect();
        let b: Vec<usize> = (0..axes).map(|axis| [2, 2, 1][axis % 3]).collect();
        let full = vec![2; axes];
        check(&a, &full, (false, false));
        check(&full, &b, (false, false));
        check(&full, &full, (false, true));
    }
}

#[test]
fn permuted_and_repeated_views() {
    let base = counted(&[4, 5, 6], 3).into_dimensionality::<ndarray::Ix3>().unwrap();
    let on_device = upload(&base);
    let permuted = base.view().permuted_axes([2, 0, 1]);
    let row = array![1, 2, 3, 4, 5];
    let row_on_device = upload(&row);
    let view = on_device.view().permuted_axes([2, 0, 1]).unwrap();
    let got = view.mul(&row_on_device).unwrap().to_ndarray().unwrap();
    assert_eq!(got, &permuted * &row);
    let repeated = row_on_device.view().broadcast([6, 4, 5]).unwrap();
    assert_eq!(view.mul(&repeated).unwrap().to_ndarray().unwrap(), got);
    let number = upload(&arr0(3));
    let repeated = number.view().broadcast([2, 3]).unwrap();
    assert_eq!(
        repeated.add(&number).unwrap().to_ndarray().unwrap(),
        Array2::from_elem((2, 3), 6)
    );
}

/// The dimension of the result is the one that ndarray gives: this compiles.
#[test]
fn dimensions_are_those_of_ndarray() {
    let (a, b) = (
        Array3::from_shape_fn((2, 3, 4), |(i, j, k)| i + 2 * j + k).mapv(|x| x as u64),
        array![1u64, 2, 3, 4],
    );
    let wanted: Array3<u64> = &a + &b;
    let got: DeviceArray<u64, ndarray::Ix3> = upload(&b).add(&upload(&a)).unwrap();
    assert_eq!(got.to_ndarray().unwrap(), wanted);
    let got: DeviceArray<u64, IxDyn> = upload(&b).add(&upload(&a).into_dyn()).unwrap();
    assert_eq!(got.to_ndarray().unwrap(), wanted.into_dyn());
}

/// Each type, with values that fit all of them exactly.
#[test]
fn every_type() {
    fn check<T: Number + ops::Number>(of: fn(u8) -> T) {
        let (a, b) = (
            Array2::from_shape_fn((37, 41), |(i, j)| (i + j) as u8),
            Array::from_iter(0..41u8),
        );
        let got = upload(&a.mapv(of)).add(&upload(&b.mapv(of))).unwrap();
        assert_same(&elements(&got), (&a + &b).mapv(of).as_slice().unwrap(), "a row");
        let got = upload(&a.mapv(of))
            .t()
            .maximum(&upload(&b.mapv(of)).view().broadcast([37, 41]).unwrap().reversed_axes())
            .unwrap();
        let wanted = Array2::from_shape_fn((41, 37), |(i, j)| of(a[(j, i)].max(b[i])));
        assert_same(&elements(&got), wanted.as_slice().unwrap(), "transposed");
    }
    check::<f32>(f32::from);
    check::<f64>(f64::from);
    check::<f16>(f16::from);
    check::<bf16>(|x| bf16::from_f32(x.into()));
    check::<i32>(i32::from);
    check::<i64>(i64::from);
    check::<u8>(u8::from);
    check::<u16>(u16::from);
    check::<u32>(u32::from);
    check::<u64>(u64::from);
}

#[test]
fn any_shapes() {
    let lengths = proptest::collection::vec((1..=9usize, 0..3u8), 0..=6);
    proptest!(cases(60), |(lengths in lengths, dropped in 0..=6usize, reverse in any::<(bool, bool)>())| {
        let side = |side: u8| -> Vec<usize> {
            lengths.iter().map(|&(length, one)| if one == side { 1 } else { length }).collect()
        };
        let (mut a, mut b) = (side(1), side(2));
        b.drain(..dropped.min(b.len()));
        if reverse.0 {
            a.reverse();
        }
        if reverse.1 {
            b.reverse();
        }
        check(&a, &b, reverse);
    });
}

#[test]
fn shapes_that_do_not_fit() {
    let matrix = upload(&counted(&[2, 3], 0));
    let other = upload(&counted(&[2], 0));
    let error = matrix.add(&other).unwrap_err().to_string();
    let wanted = "wanted shapes that broadcast together: along each axis, from the last, equal lengths or a 1";
    assert_eq!(error, format!("add: given shapes [2, 3] and [2], {wanted}"));
    let error = upload(&counted(&[3, 0], 0))
        .add(&upload(&counted(&[2], 0)))
        .unwrap_err()
        .to_string();
    assert_eq!(error, format!("add: given shapes [3, 0] and [2], {wanted}"));
    let mut row = upload(&counted(&[3], 0));
    let error = row.mul_assign(&matrix).unwrap_err().to_string();
    let wanted = "wanted a second shape that broadcasts to the first";
    assert_eq!(error, format!("mul_assign: given shapes [3] and [2, 3], {wanted}"));
    assert_eq!(row.to_ndarray().unwrap(), counted(&[3], 0));
}

/// Rows of lengths around those of vectors, of each type: operands that have vectors where the output has, or between
/// them, or repeat an element, or lie in other orders.
fn rows_of_any_length<T: Number + ops::Number>(of: fn(u8) -> T) {
    let len = 16 / size_of::<T>();
    for columns in [1, 2, 3, 4, 5, len - 1, len, len + 1, 2 * len + 3, 4 * len, 33 * len + 1] {
        for [batch, rows] in [[1, 5], [3, 2], [2, 33]] {
            let full = Array3::from_shape_fn((batch, rows, columns), |(i, j, k)| (i * 7 + j * 3 + k * 5) as u8 % 50);
            let others = [
                full.slice(s![..1, ..1, ..]).to_owned(),
                full.slice(s![..1, .., ..1]).to_owned(),
                full.slice(s![.., ..1, ..]).to_owned(),
                full.slice(s![.., .., ..1]).to_owned(),
                full.view().permuted_axes([1, 0, 2]).as_standard_layout().to_owned(),
                full.view().permuted_axes([0, 2, 1]).as_standard_layout().to_owned(),
            ];
            let on_device = upload(&full.mapv(of));
            for (i, other) in others.iter().enumerate() {
                let order = [[0, 1, 2], [1, 0, 2], [0, 2, 1]][i.saturating_sub(3)];
                let what = format!("{:?} with number {i}", full.shape());
                let other_on_device = upload(&other.mapv(of));
                let view = other_on_device.view().permuted_axes(order).unwrap();
                let other = other.view().permuted_axes(order);
                let other = other.broadcast(full.dim()).unwrap();
                let wanted = Zip::from(&full).and(&other).map_collect(|&a, &b| of(a + b));
                let wanted = wanted.as_slice().unwrap();
                assert_same(&elements(&on_device.add(&view).unwrap()), wanted, &what);
                assert_same(&elements(&view.add(&on_device).unwrap()), wanted, &what);
                let mut in_place = upload(&full.mapv(of));
                in_place.add_assign(&view).unwrap();
                assert_same(&elements(&in_place), wanted, &what);
                let mask = on_device.less(&view).unwrap();
                let wanted = Zip::from(&full).and(&other).map_collect(|a, b| u8::from(a < b));
                assert_eq!(elements(&mask), wanted.as_slice().unwrap(), "{what}");
                let chosen = mask.select(&view, &on_device).unwrap();
                let wanted = Zip::from(&full).and(&other).map_collect(|&a, &b| of(a.max(b)));
                assert_same(&elements(&chosen), wanted.as_slice().unwrap(), &what);
            }
        }
    }
}

macro_rules! for_all_types {
    ($($type:ident: $of:expr;)*) => {
        mod rows_of_any_length {
            use super::*;
            $(
                #[test]
                fn $type() {
                    super::rows_of_any_length::<$type>($of);
                }
            )*
        }
    };
}

for_all_types! {
    f32: f32::from;
    f64: f64::from;
    f16: f16::from;
    bf16: |x| bf16::from_f32(x.into());
    i32: i32::from;
    i64: i64::from;
    u8: u8::from;
    u16: u16::from;
    u32: u32::from;
    u64: u64::from;
}
