// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views: shapes, strides, and their elements as arrays of their own.

use crate::common::*;
use ndarray::{Array, Array1, Array2, Array3, ArrayD, Ix1, Ix2, Ix3, IxDyn, array, s};
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

/// Every shape of views of every order of axes, which is a view where NumPy's rule says so, and else an error.
#[test]
fn views_in_other_shapes() {
    let shapes: [&[usize]; 9] = [
        &[24],
        &[2, 12],
        &[12, 2],
        &[2, 3, 4],
        &[4, 3, 2],
        &[6, 1, 4],
        &[1, 3, 8, 1],
        &[2, 2, 2, 3],
        &[24, 1],
    ];
    let all = numbered(&[2, 3, 4]);
    let on_device = upload(&all);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let order = IxDyn(&order);
        let wanted = all.view().permuted_axes(order.clone());
        let view = on_device.view().permuted_axes(order).unwrap();
        for shape in shapes {
            match view.reshape(IxDyn(shape)) {
                Ok(reshaped) => {
                    let wanted = wanted.to_shape(IxDyn(shape)).unwrap();
                    assert_eq!(reshaped.to_ndarray().unwrap(), wanted, "{:?}", view.shape());
                }
                Err(error) => assert!(!view.is_standard_layout(), "{error}"),
            }
        }
    }
}

#[test]
fn axes_of_parts_are_split_and_put_together() {
    let all = numbered(&[4, 12]).into_dimensionality::<Ix2>().unwrap();
    let x = upload(&all);
    // Columns in pairs, of each row.
    let columns = x.slice(s![.., 2..10]).unwrap();
    let pairs = columns.reshape((4, 4, 2)).unwrap();
    assert_eq!(pairs.strides(), [12, 2, 1]);
    let wanted = all.slice(s![.., 2..10]);
    assert_eq!(pairs.to_ndarray().unwrap(), wanted.to_shape((4, 4, 2)).unwrap());
    assert_eq!(pairs.reshape((4, 8)).unwrap().strides(), columns.strides());
    // Backwards, and every second row.
    let backwards = x.slice(s![..;2, ..;-1]).unwrap();
    let wanted = all.slice(s![..;2, ..;-1]);
    let split = backwards.reshape((1, 2, 3, 4)).unwrap();
    assert_eq!(split.to_ndarray().unwrap(), wanted.to_shape((1, 2, 3, 4)).unwrap());
    // Repeated ones stay repeated.
    let repeated = x
        .slice(s![0, ..])
        .unwrap()
        .broadcast((6, 12))
        .unwrap()
        .reshape((2, 3, 12))
        .unwrap();
    assert_eq!(repeated.strides(), [0, 0, 1]);
    // Rows of parts do not follow one another.
    let error = columns.reshape(32).unwrap_err().to_string();
    assert_eq!(
        error,
        "reshape: given shape [32] for elements of shape [4, 8] and strides [12, 1], wanted elements that lie evenly along \
         each axis of it: `to_array` puts them in order"
    );
    assert!(columns.reshape((8, 4)).is_err());
    let error = x.reshape((5, 10)).unwrap_err().to_string();
    assert_eq!(
        error,
        "reshape: given shape [5, 10] for 48 elements of shape [4, 12], wanted a shape of 48 elements"
    );
    assert!(x.reshape((usize::MAX, 2)).is_err());
    let none = DeviceArray::<u8, _>::zeros(device().default_stream(), (0, 3)).unwrap();
    assert_eq!(none.t().reshape((2, 0, 7)).unwrap().shape(), [2, 0, 7]);
    assert_eq!(
        upload(&array![7]).reshape(()).unwrap().to_ndarray().unwrap(),
        ndarray::arr0(7)
    );
}

#[test]
fn views_in_other_shapes_are_written() {
    let mut x = upload(&Array2::<u32>::zeros((3, 8)));
    let mut part = x.slice_mut(s![.., 2..6]).unwrap();
    part.reshape_mut((3, 2, 2))
        .unwrap()
        .slice_mut(s![.., 1, ..])
        .unwrap()
        .fill(5)
        .unwrap();
    let mut wanted = Array2::<u32>::zeros((3, 8));
    wanted.slice_mut(s![.., 4..6]).fill(5);
    assert_eq!(x.to_ndarray().unwrap(), wanted);
    assert!(x.slice_mut(s![.., 2..6]).unwrap().reshape_mut(12).is_err());
}

#[test]
fn dimensions_that_are_known_again() {
    let all = array![[1, 2, 3], [4, 5, 6]];
    let mut x = upload(&all).into_dyn().into_dimensionality::<Ix2>().unwrap();
    assert_eq!(x.to_ndarray().unwrap(), all);
    let columns = x.t().into_dyn().into_dimensionality::<Ix2>().unwrap();
    assert_eq!(
        (columns.strides(), columns.to_ndarray().unwrap()),
        (&[1, 3][..], all.t().to_owned())
    );
    let view = x.view_mut().into_dyn().into_dimensionality::<Ix2>().unwrap();
    assert_eq!(view.strides(), [3, 1]);
    let error = view.into_dimensionality::<Ix3>().err().unwrap().to_string();
    assert_eq!(error, "into_dimensionality: given shape [2, 3], wanted one of 3 axes");
    assert!(x.into_dimensionality::<Ix1>().is_err());
}
