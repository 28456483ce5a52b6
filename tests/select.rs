// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection by a mask, to the last bit.

use crate::common::*;
use kernels_gpu::select::tile_len;
use ndarray::{Array1, Array2, Array3, ArrayD, IxDyn, arr0, array};
use proptest::prelude::*;
use warpsmith::ops;
use warpsmith::{DeviceArray, bf16, f16};

/// Masks with more values than 0 and 1.
fn mask(len: usize, seed: u64) -> Vec<u8> {
    random::<u8>(len, seed)
        .into_iter()
        .map(|x| if x % 3 == 0 { 0 } else { x })
        .collect()
}

fn every_length<T: Number + ops::Number>() {
    for (seed, len) in (1..).zip(lengths(tile_len::<T>())) {
        let (m, a, b) = (mask(len, seed), random::<T>(len, seed + 1), random::<T>(len, seed + 2));
        let wanted: Vec<T> = (0..len).map(|i| if m[i] != 0 { a[i] } else { b[i] }).collect();
        let (m, a, b) = (upload_vec(&m), upload_vec(&a), upload_vec(&b));
        assert_same(&elements(&m.select(&a, &b).unwrap()), &wanted, "select");
        let mut out = DeviceArray::zeros(device().default_stream(), IxDyn(&[len])).unwrap();
        m.select_into(&a, &b, &mut out).unwrap();
        assert_same(&elements(&out), &wanted, "select_into");
    }
    let m = Array2::from_shape_vec((37, 1), mask(37, 4)).unwrap();
    let a = Array1::from(random::<T>(41, 5));
    let b = Array3::from_shape_vec((2, 41, 37), random::<T>(2 * 41 * 37, 6)).unwrap();
    let wanted = Array3::from_shape_fn(
        (2, 37, 41),
        |(i, j, k)| if m[(j, 0)] != 0 { a[k] } else { b[(i, k, j)] },
    );
    let b_on_device = upload(&b);
    let b_view = b_on_device.view().permuted_axes([0, 2, 1]).unwrap();
    let got = upload(&m).select(&upload(&a), &b_view).unwrap();
    assert_eq!(got.shape(), [2, 37, 41]);
    assert_same(&elements(&got), wanted.as_slice().unwrap(), "select with strides");
    let got = upload(&m).view().select(&upload(&arr0(a[0])), &upload(&a)).unwrap();
    let wanted = Array2::from_shape_fn((37, 41), |(i, j)| if m[(i, 0)] != 0 { a[0] } else { a[j] });
    assert_same(&elements(&got), wanted.as_slice().unwrap(), "select of a number");
}

macro_rules! for_all_types {
    ($($type:ident)*) => {
        mod every_type {
            use super::{bf16, f16};
            $(
                #[test]
                fn $type() {
                    super::every_length::<$type>();
                }
            )*
        }
    };
}

for_all_types!(f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn any_shapes() {
    let axes = proptest::collection::vec((1..=6usize, 0..4u8), 0..=5);
    proptest!(cases(40), |(axes in axes, drop in any::<[u8; 3]>(), seed in any::<u64>())| {
        let shape = |operand: u8| -> Vec<usize> {
            let lengths = axes.iter().map(|&(length, one)| if one == operand { 1 } else { length });
            lengths.skip(usize::from(drop[operand as usize]) % (axes.len() + 1)).collect()
        };
        let (m, a, b) = (shape(0), shape(1), shape(2));
        let len = |shape: &[usize]| shape.iter().product::<usize>();
        let m = ArrayD::from_shape_vec(m.clone(), mask(len(&m), seed)).unwrap();
        let a = ArrayD::from_shape_vec(a.clone(), random::<i32>(len(&a), seed ^ 1)).unwrap();
        let b = ArrayD::from_shape_vec(b.clone(), random::<i32>(len(&b), seed ^ 2)).unwrap();
        let got = upload(&m).select(&upload(&a), &upload(&b)).unwrap().to_ndarray().unwrap();
        // ndarray's own rule for the shape, which lacks the axes that all three lack.
        let shape = (m.mapv(|_| 0) + a.mapv(|_| 0) + b.mapv(|_| 0)).raw_dim();
        let (m, a, b) = (m.broadcast(shape.clone()).unwrap(), a.broadcast(shape.clone()).unwrap(), b.broadcast(shape.clone()).unwrap());
        let wanted = ArrayD::from_shape_fn(shape, |i| if m[&i] != 0 { a[&i] } else { b[&i] });
        prop_assert_eq!(got, wanted);
    });
}

#[test]
fn shapes_that_do_not_fit_leave_the_output_alone() {
    let (m, a, b) = (
        upload(&array![[1u8, 0]]),
        upload(&array![1, 2]),
        upload(&array![1, 2, 3]),
    );
    let error = m.select(&a, &b).unwrap_err().to_string();
    assert_eq!(
        error,
        "select: given a mask of shape [1, 2], shapes [2] and [3], wanted shapes that broadcast together: along each axis, \
         from the last, equal lengths or a 1"
    );
    let mut out = upload(&array![[7, 7, 7]]);
    let error = m.select_into(&a, &a, &mut out).unwrap_err().to_string();
    assert_eq!(
        error,
        "select: given an output of shape [1, 3], wanted one of the result's shape, [1, 2]"
    );
    assert_eq!(out.to_ndarray().unwrap(), array![[7, 7, 7]]);
    let empty = DeviceArray::<u8, _>::zeros(device().default_stream(), (0, 1)).unwrap();
    assert_eq!(empty.select(&a, &a).unwrap().shape(), [0, 2]);
}
