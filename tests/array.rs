// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays up to the device and down again.

use crate::common::*;
use ndarray::{Array, Array1, Array2, IxDyn, arr0, array};
use proptest::prelude::*;
use warpsmith::{Device, DeviceArray, Element, Error};

/// Every layout comes back with its shape and its elements, in C order.
fn every_layout_there_and_back<T: Number>() {
    let base = layout_base::<T>(1);
    for (layout, view) in layouts(&base) {
        let back = upload(&view).to_ndarray().unwrap();
        assert_eq!(back.shape(), view.shape(), "{layout}");
        assert!(back.is_standard_layout(), "{layout}");
        let wanted: Vec<T> = view.iter().copied().collect();
        assert_same(back.as_slice().unwrap(), &wanted, layout);
    }
}

for_types!(every_layout_there_and_back);

#[test]
fn any_plain_type_there_and_back() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(values: Vec<T>) {
        let array = Array1::from(values);
        assert_eq!(upload(&array).to_ndarray().unwrap(), array);
    }
    proptest!(cases(16), |(bytes: Vec<u8>, shorts: Vec<i16>, triples: Vec<[u8; 3]>, pairs: Vec<[f32; 2]>)| {
        check(bytes);
        check(shorts);
        check(triples);
        check(pairs);
    });
}

#[test]
fn shape_and_length() {
    let x = upload(&Array::from_elem((2, 3, 4), 1u8));
    assert_eq!((x.shape(), x.len(), x.is_empty()), (&[2, 3, 4][..], 24, false));
    assert_eq!(x.raw_dim(), ndarray::Dim([2, 3, 4]));
    let none = upload(&Array2::<f64>::zeros((0, 4)));
    assert_eq!((none.len(), none.is_empty()), (0, true));
    assert_eq!(upload(&arr0(7i32)).len(), 1);
}

#[test]
fn zeros_are_zero() {
    for shape in [vec![], vec![0, 3], vec![1], vec![3, 1001]] {
        let x = DeviceArray::<f64, IxDyn>::zeros(device().default_stream(), shape.as_slice()).unwrap();
        assert_eq!(x.shape(), shape);
        assert!(elements(&x).iter().all(|x| x.to_bits() == 0));
    }
}

#[test]
fn shapes_with_too_many_elements_are_an_error() {
    let zeros = |shape: [usize; 3]| DeviceArray::<u16, _>::zeros(device().default_stream(), shape);
    for shape in [
        [1 << 62, 1, 1],
        [usize::MAX, 2, 3],
        [1 << 40, 0, 1 << 40],
        [0, usize::MAX, 1],
    ] {
        let wanted = format!("allocation: given shape {shape:?} of 2-byte elements, wanted less than 2^63 bytes");
        assert_eq!(zeros(shape).unwrap_err().to_string(), wanted);
    }
    assert!(zeros([0, 1 << 30, 1 << 30]).unwrap().is_empty());
}

/// Memory that is given back with other contents is zero again.
#[test]
fn zeros_are_zero_in_used_memory() {
    for _ in 0..10 {
        drop(upload(&Array1::from_elem(5000, 0xdead_beefu32)));
        let zeros = DeviceArray::<u32, _>::zeros(device().default_stream(), 5000).unwrap();
        assert_eq!(zeros.max().unwrap(), 0);
    }
}

#[test]
fn a_clone_has_memory_of_its_own() {
    let x = upload(&array![[1, 2], [3, 4]]);
    let mut clone = x.try_clone().unwrap();
    assert_eq!(clone.to_ndarray().unwrap(), array![[1, 2], [3, 4]]);
    x.neg_into(&mut clone).unwrap();
    assert_eq!(clone.to_ndarray().unwrap(), array![[-1, -2], [-3, -4]]);
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 2], [3, 4]]);
    assert!(upload(&Array2::<i32>::zeros((3, 0))).try_clone().unwrap().is_empty());
}

#[test]
fn assignment_copies_and_keeps_the_memory() {
    let x = upload(&array![[1, 2], [3, 4]]);
    let mut y = upload(&array![[9, 9], [9, 9]]);
    y.assign(&x).unwrap();
    assert_eq!(y.to_ndarray().unwrap(), array![[1, 2], [3, 4]]);
    x.neg_into(&mut y).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 2], [3, 4]]);
    let error = y.assign(&upload(&array![[7, 7, 7]])).unwrap_err().to_string();
    assert_eq!(
        error,
        "assign: given shapes [2, 2] and [1, 3], wanted a second shape that broadcasts to the first"
    );
    let elsewhere = Device::simulator();
    let other = DeviceArray::zeros(elsewhere.default_stream(), (2, 2)).unwrap();
    assert!(matches!(y.assign(&other), Err(Error::DifferentDevices { .. })));
    assert_eq!(y.to_ndarray().unwrap(), array![[-1, -2], [-3, -4]]);
    let none = upload(&Array2::<u8>::zeros((3, 0)));
    none.try_clone().unwrap().assign(&none).unwrap();
}

#[test]
fn assignment_is_ordered_behind_other_streams() {
    let other = device().create_stream().unwrap();
    let x = upload(&Array1::from_elem(100_000, 3)).into_stream(&other).unwrap();
    let mut y = upload(&Array1::zeros(100_000));
    y.assign(&x.square().unwrap()).unwrap();
    assert_eq!(y.to_ndarray().unwrap(), Array1::from_elem(100_000, 9));
}

#[test]
fn the_dimension_can_be_forgotten() {
    let x = upload(&array![[1, 2, 3], [4, 5, 6]]).into_dyn();
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 2, 3], [4, 5, 6]].into_dyn());
}

#[test]
fn debug_shows_type_shape_and_device() {
    let x = upload(&array![[1.0f32, 2.0]]);
    let wanted = format!(
        "[[1.0, 2.0]], type=f32, shape=[1, 2], strides=[2, 1], device={}",
        device().properties().id
    );
    assert_eq!(format!("{x:?}"), wanted);
}

#[test]
fn arrays_into_an_existing_one() {
    let mut x = upload(&Array2::from_elem((2, 3), 9u16));
    x.assign_ndarray(&array![[1, 2, 3], [4, 5, 6]]).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 2, 3], [4, 5, 6]]);
    x.assign_ndarray(&array![[1, 2], [3, 4], [5, 6]].t()).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 3, 5], [2, 4, 6]]);
    let error = x.assign_ndarray(&array![[7, 7, 7]]).unwrap_err().to_string();
    assert_eq!(error, "assign_ndarray: given shape [1, 3], wanted shape [2, 3]");
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 3, 5], [2, 4, 6]]);
    upload(&Array2::<u8>::zeros((0, 3)))
        .assign_ndarray(&Array2::zeros((0, 3)))
        .unwrap();
}

#[test]
fn the_shape_can_be_changed() {
    let x = upload(&array![[1, 2, 3], [4, 5, 6]]);
    let x = x.into_shape((3, 1, 2)).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![[[1, 2]], [[3, 4]], [[5, 6]]]);
    let x = x.into_shape(6).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![1, 2, 3, 4, 5, 6]);
    let error = x.into_shape((2, 4)).unwrap_err().to_string();
    assert_eq!(
        error,
        "into_shape: given shape [2, 4] for 6 elements of shape [6], wanted a shape of 6 elements"
    );
    let none = upload(&Array2::<u8>::zeros((0, 3)));
    assert!(none.into_shape((0, usize::MAX, 2)).is_err());
    assert_eq!(upload(&arr0(1)).into_shape((1, 1)).unwrap().shape(), [1, 1]);
    assert_eq!(upload(&array![[1]]).into_shape(()).unwrap().shape(), [0usize; 0]);
}
