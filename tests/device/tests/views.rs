// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels over views of any strides.

use device_test_kernels::views::{add_transposed, beyond, count_planes};
use device_tests::device;
use ndarray::{Array2, Array3, Axis, s};
use warpsmith::{Device, DeviceArray, Error, LaunchConfig};

fn numbers(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(i, j)| (100 * i + j) as f32)
}

#[test]
fn kernels_see_views_of_any_strides() {
    let device = device();
    let stream = device.default_stream();
    let (x, y) = (numbers(40, 50), numbers(33, 20));
    let (dx, dy) = (
        DeviceArray::from_ndarray(stream, &x).unwrap(),
        DeviceArray::from_ndarray(stream, &y).unwrap(),
    );
    let config = LaunchConfig::for_shape((20, 33), (8, 8));
    let mut out = numbers(50, 70);
    let mut dout = DeviceArray::from_ndarray(stream, &out).unwrap();
    let (of_x, of_out) = (s![..;-2, 5..38], s![3..43;2, ..;-2]);
    let view = dx.slice(of_x).unwrap();
    let mut part = dout.slice_mut(of_out).unwrap();
    let mut part = part.slice_mut(s![.., ..33]).unwrap();
    stream
        .launch::<add_transposed>(&config, (&view, &dy, &mut part))
        .unwrap();
    let sum = &x.slice(of_x) + &y.t();
    out.slice_mut(of_out).slice_mut(s![.., ..33]).assign(&sum);
    assert_eq!(dout.to_ndarray().unwrap(), out);
}

#[test]
fn two_halves_of_one_array_are_input_and_output() {
    let device = device();
    let stream = device.default_stream();
    let mut x = numbers(30, 60);
    let mut dx = DeviceArray::from_ndarray(stream, &x).unwrap();
    let (left, mut right) = dx.split_at_mut(Axis(1), 30).unwrap();
    let config = LaunchConfig::for_shape((30, 30), (8, 8));
    stream
        .launch::<add_transposed>(&config, (&left, &left, &mut right))
        .unwrap();
    let left = x.slice(s![.., ..30]).to_owned();
    x.slice_mut(s![.., 30..]).assign(&(&left + &left.t()));
    assert_eq!(dx.to_ndarray().unwrap(), x);
}

#[test]
fn elements_of_views_are_atomic() {
    let device = device();
    let stream = device.default_stream();
    let mut x = DeviceArray::<u32, _>::zeros(stream, (7, 9, 5)).unwrap();
    let mut view = x.view_mut().permuted_axes([2, 0, 1]).unwrap();
    let config = LaunchConfig::for_shape((7, 9), (4, 8));
    stream.launch::<count_planes>(&config, (&mut view,)).unwrap();
    let mut expected = Array3::zeros((7, 9, 5));
    expected.slice_mut(s![0, 0, ..]).fill(63);
    assert_eq!(x.to_ndarray().unwrap(), expected);
}

#[test]
fn an_index_out_of_bounds_is_named() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &numbers(4, 6)).unwrap();
    let mut out = DeviceArray::zeros(stream, (1, 1)).unwrap();
    let view = x.slice(s![1.., 2..4]).unwrap();
    let error = stream
        .launch::<beyond>(&LaunchConfig::new(1, 1), (&view, &mut out))
        .unwrap_err();
    let Error::Fault(fault) = error else { panic!("{error}") };
    assert_eq!(fault.message, "index [0, 2] is out of bounds of a view of shape [3, 2]");
    let empty = x.slice(s![4.., ..]).unwrap();
    assert!(
        stream
            .launch::<beyond>(&LaunchConfig::new(1, 1), (&empty, &mut out))
            .is_err()
    );
}
