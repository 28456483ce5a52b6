// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of products over labelled axes, against the sum that their definition is.

use ndarray::{ArrayD, ArrayViewD, Axis, Dimension, Ix2, IxDyn, Slice, array};
use warpsmith::{DeviceArray, DeviceView, Error, f16, ops};

use crate::common::*;

/// Small integers, so that sums are exact in any order.
fn operand(shape: &[usize], seed: usize) -> ArrayD<f32> {
    let mut number = seed;
    ArrayD::from_shape_simple_fn(shape, || {
        number = (5 * number + 3) % 17;
        number as f32 - 8.0
    })
}

/// By its definition: of every combination of indices, the product of what they name.
fn defined(inputs: &[&str], output: &str, operands: &[ArrayViewD<f32>]) -> ArrayD<f32> {
    let mut lengths: Vec<(char, usize)> = Vec::new();
    for (labels, operand) in inputs.iter().zip(operands) {
        for (label, &length) in labels.chars().zip(operand.shape()) {
            if !lengths.iter().any(|known| known.0 == label) {
                lengths.push((label, length));
            }
        }
    }
    let place = |label| lengths.iter().position(|known| known.0 == label).unwrap();
    let of =
        |labels: &str, index: &[usize]| IxDyn(&labels.chars().map(|label| index[place(label)]).collect::<Vec<_>>());
    let all: Vec<usize> = lengths.iter().map(|known| known.1).collect();
    let shape: Vec<usize> = output.chars().map(|label| all[place(label)]).collect();
    let mut sums = ArrayD::zeros(shape);
    for index in ndarray::indices(all) {
        let factors = inputs
            .iter()
            .zip(operands)
            .map(|(labels, operand)| operand[of(labels, index.slice())]);
        sums[of(output, index.slice())] += factors.product::<f32>();
    }
    sums
}

/// Of C order, with the axes in reverse, and of every other element, backwards.
#[track_caller]
fn check(subscripts: &str, shapes: &[&[usize]]) {
    let (inputs, output) = subscripts.split_once("->").unwrap();
    let inputs: Vec<&str> = inputs.split(',').collect();
    for layout in 0..3 {
        let host: Vec<ArrayD<f32>> = shapes
            .iter()
            .enumerate()
            .map(|(seed, shape)| match layout {
                0 => operand(shape, seed),
                1 => operand(&shape.iter().rev().copied().collect::<Vec<_>>(), seed),
                _ => operand(&shape.iter().map(|length| 2 * length).collect::<Vec<_>>(), seed),
            })
            .collect();
        let device: Vec<DeviceArray<f32, IxDyn>> = host.iter().map(upload).collect();
        let mut views: Vec<DeviceView<f32, IxDyn>> = device.iter().map(|operand| operand.view()).collect();
        let mut wanted: Vec<ArrayViewD<f32>> = host.iter().map(|operand| operand.view()).collect();
        for (view, wanted) in views.iter_mut().zip(&mut wanted) {
            match layout {
                0 => {}
                1 => {
                    *view = view.clone().reversed_axes();
                    *wanted = wanted.clone().reversed_axes();
                }
                _ => {
                    for axis in (0..wanted.ndim()).map(Axis) {
                        *view = view.slice_axis(axis, Slice::new(0, None, -2)).unwrap();
                        wanted.slice_axis_inplace(axis, Slice::new(0, None, -2));
                    }
                }
            }
        }
        let found = ops::einsum(subscripts, &views).unwrap().to_ndarray().unwrap();
        assert_eq!(
            found,
            defined(&inputs, output, &wanted),
            "{subscripts}, layout {layout}"
        );
    }
}

#[test]
fn one_operand() {
    check("ijk->ijk", &[&[2, 3, 4]]);
    check("ijk->kij", &[&[2, 3, 4]]);
    check("ijk->j", &[&[2, 3, 4]]);
    check("ii->i", &[&[5, 5]]);
    check("iji->", &[&[4, 3, 4]]);
    check("iii->i", &[&[3, 3, 3]]);
    check("i->", &[&[0]]);
    check("->", &[&[]]);
}

#[test]
fn two_operands() {
    check("ij,jk->ik", &[&[5, 7], &[7, 3]]);
    check("ij,jk->ki", &[&[5, 7], &[7, 3]]);
    check("bij,bjk->bik", &[&[2, 5, 7], &[2, 7, 3]]);
    check("ibj,bkj->kbi", &[&[5, 2, 7], &[2, 3, 7]]);
    check("bhqd,bhkd->bhqk", &[&[2, 2, 5, 3], &[2, 2, 4, 3]]);
    check("abcd,cdef->abef", &[&[2, 3, 2, 4], &[2, 4, 3, 2]]);
    check("abcd,ecfd->abef", &[&[2, 3, 2, 4], &[3, 2, 2, 4]]);
    check("i,j->ij", &[&[3], &[4]]);
    check("i,j->ji", &[&[3], &[4]]);
    check("i,i->", &[&[9], &[9]]);
    check("ij,ij->i", &[&[3, 4], &[3, 4]]);
    check("ij,ji->", &[&[3, 4], &[4, 3]]);
    check("ij,j->i", &[&[3, 4], &[4]]);
    check("ijk,j->k", &[&[3, 4, 2], &[4]]);
    check("ii,ij->j", &[&[3, 3], &[3, 2]]);
    check(",ij->ij", &[&[], &[3, 2]]);
    check("ij,jk->ik", &[&[2, 0], &[0, 3]]);
    check("bij,bjk->bik", &[&[0, 2, 3], &[0, 3, 2]]);
    check("bij,bjk->bik", &[&[2, 0, 3], &[2, 3, 1]]);
}

#[test]
fn more_operands() {
    check("ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 2]]);
    check("i,ij,j->", &[&[3], &[3, 4], &[4]]);
    check("bi,bj,ij->b", &[&[2, 3], &[2, 4], &[3, 4]]);
    check("i,i,i,i->i", &[&[3], &[3], &[3], &[3]]);
    check("ij,kl,ab->", &[&[2, 3], &[3, 2], &[2, 2]]);
}

#[test]
fn without_an_arrow() {
    let a = upload(&array![[1.0, 2.0], [3.0, 4.0]]).into_dyn();
    let b = upload(&array![[0.0, 1.0], [1.0, 1.0]]).into_dyn();
    let product = ops::einsum("kj, ji", &[a.view(), b.view()]).unwrap();
    // The result has its letters in alphabetic order.
    assert_eq!(
        product.to_ndarray().unwrap().into_dimensionality::<Ix2>().unwrap(),
        array![[2.0, 4.0], [3.0, 7.0]]
    );
    let halves = upload(&array![[1.5, 2.0]].mapv(f16::from_f32)).into_dyn();
    let sum = ops::einsum("ij,ij->", &[halves.view(), halves.view()]).unwrap();
    assert_eq!(
        sum.to_ndarray().unwrap().into_raw_vec_and_offset().0,
        [f16::from_f32(6.25)]
    );
}

#[test]
fn errors_say_what_is_wrong() {
    let a = upload(&array![[1.0f32, 2.0, 3.0]]).into_dyn();
    for text in ["ij,jk", "i...", "ij->x", "ij->ii", ""] {
        let error = ops::einsum(text, &[a.view()]).unwrap_err();
        let is_refused = matches!(
            &error,
            Error::Parameter {
                operation: "einsum",
                ..
            } | Error::Shape {
                operation: "einsum",
                ..
            }
        );
        assert!(is_refused, "{text}: {error}");
    }
    assert!(matches!(ops::einsum::<f32>("", &[]), Err(Error::Parameter { .. })));
    let error = ops::einsum("ij,ij", &[a.view(), a.t()]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Shape {
                operation: "einsum",
                ..
            }
        ),
        "{error}"
    );
}
