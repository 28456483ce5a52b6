// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of one's own as parts of expressions: closures, and device functions. tests/device has those with PTX.

use cuda_std::prelude::*;
use ndarray::{Array1, Array2, Axis, array, s};
use warpsmith::expr::{self, call, map2};
use warpsmith::{Device, DeviceArray, Error};

use crate::common::*;

/// `x / (1 + |x|)`. Nobody compiles this crate for GPUs.
#[device_fn]
pub fn unregistered(x: f32) -> f32 {
    x / (1.0 + x.abs())
}

#[test]
fn a_device_function_without_ptx_is_an_error_on_a_gpu() {
    let x = Array1::from_iter((0..100).map(|i| i as f32 / 8.0 - 6.0));
    let compute = |device: &Device| {
        let x = DeviceArray::from_ndarray(device.default_stream(), &x)?;
        call::<unregistered, _>((&x,)).eval()?.to_ndarray()
    };
    assert_eq!(compute(&Device::simulator()).unwrap(), x.mapv(unregistered));
    let Some(device) = gpu("a_device_function_without_ptx_is_an_error_on_a_gpu") else {
        return;
    };
    let error = compute(device).unwrap_err();
    let Error::NoModule { kernel, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(kernel, "unregistered");
}

#[test]
fn shapes_of_arguments_that_do_not_fit_are_an_error() {
    #[device_fn]
    pub fn larger(x: f32, y: f32) -> f32 {
        if x > y { x } else { y }
    }
    let (x, y) = (upload(&Array1::<f32>::zeros(3)), upload(&Array1::<f32>::zeros(4)));
    let error = call::<larger, _>((&x, &y)).eval().unwrap_err();
    crate::common::expr::assert_shape_error(&error, "larger");
}

#[test]
fn closures_of_two_arrays_are_what_they_compute() {
    let table = Array2::from_shape_fn((23, 17), |(i, j)| (i * 31 % 64) as f32 - j as f32 / 4.0);
    let row = Array1::from_iter((0..17).map(|j| j * 3 - 20));
    let (x, r, weights) = (upload(&table), upload(&row), upload(&table.mapv(|x| x / 2.0)));
    // Of two types, with a row; what else the closure has of arrays and numbers is a part of it.
    let scale = 0.5f32;
    let wanted = (x.expr() * &r + &weights) * scale;
    let got = map2(&x, &r, |x, r| (x * r + &weights) * scale);
    assert_eq!(elements(&got.eval().unwrap()), elements(&wanted.eval().unwrap()));
    assert_eq!(got.explain().unwrap(), wanted.explain().unwrap());
    // Views.
    let back = x.slice(s![..;-1, ..]).unwrap();
    let got = map2(&back, &x, |a, b| (a - b).abs())
        .eval()
        .unwrap()
        .to_ndarray()
        .unwrap();
    let wanted = (&table.slice(s![..;-1, ..]) - &table).mapv(f32::abs);
    assert_eq!(got, wanted);
    // Several results, by one pass.
    let (sums, most) = map2(&x, &r, |x, r| ((&x + r).sum_axis(Axis(1)), x.max_axis(Axis(1))));
    let (sums, most) = expr::eval((&sums, &most)).unwrap();
    let numbers = &table + &row.mapv(|r| r as f32);
    assert_eq!(sums.to_ndarray().unwrap(), numbers.sum_axis(Axis(1)));
    assert_eq!(
        most.to_ndarray().unwrap(),
        table.map_axis(Axis(1), |row| row.fold(f32::MIN, |a, b| a.max(*b)))
    );
    // What does not fit is found as it is evaluated.
    let short = upload(&array![1.0f32, 2.0]);
    let error = map2(&x, &short, |x, y| x * y).eval().unwrap_err();
    crate::common::expr::assert_shape_error(&error, "mul");
}
