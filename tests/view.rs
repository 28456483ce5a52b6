// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views: shapes, strides, and their elements as arrays of their own.

use crate::common::*;
use ndarray::{Array, Array1, Array2, Array3, ArrayD, IxDyn, array};
use proptest::prelude::*;
use warpsmith::{AsView, DeviceArray};

fn numbered(shape: &[usize]) -> ArrayD<u32> {
    Array::from_iter(0..shape.iter().product::<usize>() as u32)
        .into_shape_with_order(IxDyn(shape))
        .expect("as many elements")
}

#[test]
fn shapes_and_strides() {
    let x = upload(&Array3::<u8>::zeros((2, 3, 4)));
    let view = x.view();
    assert_eq!(
        (view.shape(), view.strides(), view.len()),
        (&[2, 3, 4][..], &[12, 4, 1][..], 24)
    );
    assert!(view.is_standard_layout() && !view.is_empty());
    assert_eq!((x.t().shape(), x.t().strides()), (&[4, 3, 2][..], &[1, 4, 12][..]));
    assert!(!x.t().is_standard_layout());
    let permuted = x.view().permuted_axes([2, 0, 1]).unwrap();
    assert_eq!(
        (permuted.shape(), permuted.strides()),
        (&[4, 2, 3][..], &[1, 12, 4][..])
    );
    let broadcast = x
        .view()
        .permuted_axes([2, 0, 1])
        .unwrap()
        .broadcast((5, 4, 2, 3))
        .unwrap();
    assert_eq!(broadcast.strides(), [0, 1, 12, 4]);
    assert_eq!(broadcast.raw_dim(), ndarray::Dim([5, 4, 2, 3]));
    assert_eq!(x.as_view().as_view().into_dyn().shape(), [2, 3, 4]);
}

#[test]
fn layouts_are_told() {
    let x = upload(&Array3::<u8>::zeros((2, 1, 4)));
    // An axis of length 1 can be anywhere.
    assert!(x.view().permuted_axes([1, 0, 2]).unwrap().is_standard_layout());
    assert!(!x.view().permuted_axes([2, 1, 0]).unwrap().is_standard_layout());
    assert!(!x.view().broadcast((2, 3, 4)).unwrap().is_standard_layout());
    let none = DeviceArray::<u8, _>::zeros(device().default_stream(), (0, 1 << 31, 1 << 31)).unwrap();
    assert!(none.view().is_standard_layout() && none.t().is_standard_layout() && none.t().is_empty());
}

#[test]
fn debug_shows_shape_and_strides() {
    let x = upload(&Array2::<f32>::zeros((2, 3)));
    let wanted = format!(
        "[[0.0, 0.0],\n [0.0, 0.0],\n [0.0, 0.0]], type=f32, shape=[3, 2], strides=[1, 3], device={}",
        device().properties().id
    );
    assert_eq!(format!("{:?}", x.t()), wanted);
}

#[test]
fn views_as_arrays() {
    let x = array![[1, 2, 3], [4, 5, 6]];
    let on_device = upload(&x);
    assert_eq!(on_device.view().to_ndarray().unwrap(), x);
    assert_eq!(on_device.t().to_ndarray().unwrap(), x.t());
    let mut out = upload(&Array2::zeros((3, 2)));
    on_device.t().to_array_into(&mut out).unwrap();
    assert_eq!(out.to_ndarray().unwrap(), x.t());
    // The copy has memory of its own.
    let copy = on_device.view().to_array().unwrap();
    drop(on_device);
    assert_eq!(copy.to_ndarray().unwrap(), x);
}

#[test]
fn broadcast_views_as_arrays() {
    fn check(x: &ArrayD<u32>, shape: &[usize]) {
        let wanted = x.broadcast(shape).expect("the shape fits");
        let on_device = upload(x);
        let view = on_device.view().broadcast(shape).unwrap();
        assert_eq!(view.to_ndarray().unwrap(), wanted, "{:?} to {shape:?}", x.shape());
        let reversed = view.reversed_axes();
        assert_eq!(
            reversed.to_ndarray().unwrap(),
            wanted.t(),
            "{:?} to {shape:?}, reversed",
            x.shape()
        );
    }
    let cases: [(&[usize], &[usize]); 11] = [
        (&[], &[]),
        (&[], &[3, 700]),
        (&[1], &[0]),
        (&[1], &[1000]),
        (&[50], &[40, 50]),
        (&[40, 1], &[40, 50]),
        (&[40, 1], &[3, 40, 50]),
        (&[40, 50], &[3, 40, 50]),
        (&[3, 1, 50], &[3, 40, 50]),
        (&[1, 40, 1], &[3, 40, 50]),
        (&[2, 1, 5, 1, 3], &[2, 4, 5, 6, 3]),
    ];
    for (from, to) in cases {
        check(&numbered(from), to);
    }
}

#[test]
fn random_views_as_arrays() {
    // For each axis its length, whether it is repeated, and its place in the order.
    let axes = proptest::collection::vec((1..9usize, any::<bool>(), any::<u32>()), 1..6);
    proptest!(cases(48), |(axes in axes)| {
        let shape: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
        let from: Vec<usize> = axes.iter().map(|&(len, repeated, _)| if repeated { 1 } else { len }).collect();
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&axis| axes[axis].2);
        let x = numbered(&from);
        let on_device = upload(&x);
        let view = on_device.view().broadcast(&shape[..]).unwrap().permuted_axes(&order[..]).unwrap();
        let wanted = x.broadcast(&shape[..]).unwrap().permuted_axes(&order[..]);
        prop_assert_eq!(view.shape(), wanted.shape());
        prop_assert_eq!(view.to_ndarray().unwrap(), wanted);
    });
}

#[test]
fn views_of_nothing() {
    let x = upload(&Array2::<f64>::zeros((0, 4)));
    assert_eq!(x.t().to_ndarray().unwrap().shape(), [4, 0]);
    assert_eq!(
        x.view().broadcast((3, 0, 4)).unwrap().to_ndarray().unwrap().shape(),
        [3, 0, 4]
    );
}

#[test]
fn wrong_shapes_and_axes_are_an_error() {
    let x = upload(&Array2::<u8>::zeros((2, 3)));
    let message = |shape: &[usize]| x.view().broadcast(shape).unwrap_err().to_string();
    assert_eq!(
        message(&[2, 4]),
        "broadcast: given shape [2, 3], wanted one that can be repeated to [2, 4]"
    );
    assert_eq!(
        message(&[3]),
        "broadcast: given shape [2, 3], wanted one that can be repeated to [3]"
    );
    assert!(message(&[usize::MAX, 2, 3]).starts_with("broadcast: given shape [2, 3]"));
    assert!(message(&[0, 1 << 62, 2, 3]).starts_with("broadcast: given shape [2, 3]"));
    let error = x.view().permuted_axes([1, 1]).unwrap_err().to_string();
    assert_eq!(
        error,
        "permuted_axes: given axes [1, 1], wanted each of the 2 axes once"
    );
}

/// More than the memory of any device.
#[test]
fn a_view_can_be_too_large_for_an_array() {
    let x = upload(&Array1::<u64>::zeros(1));
    let error = x
        .view()
        .broadcast([1usize << 62])
        .unwrap()
        .to_array()
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        format!(
            "allocation: given shape [{}] of 8-byte elements, wanted less than 2^63 bytes",
            1u64 << 62
        )
    );
}
