// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit integers, on the tests' device and on the simulated one with Hopper's instructions: exact.

use crate::common::*;
use ndarray::{Array2, Array3, Axis, s};
use proptest::prelude::RngExt;
use warpsmith::{Device, DeviceArray, Error};

fn stack(shape: (usize, usize, usize), seed: u64) -> Array3<i8> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn(shape, || rng.random::<u32>() as i8)
}

/// By sums in f64, which are exact far beyond these, and which ndarray has a fast product of.
fn wanted(a: &Array3<i8>, b: &Array3<i8>) -> Array3<i32> {
    let batch = a.len_of(Axis(0)).max(b.len_of(Axis(0)));
    let of = |x: &Array3<i8>, p| {
        x.index_axis(Axis(0), if x.len_of(Axis(0)) == 1 { 0 } else { p })
            .mapv(f64::from)
    };
    let mut c = Array3::zeros((batch, a.len_of(Axis(1)), b.len_of(Axis(2))));
    for p in 0..batch {
        let product = of(a, p).dot(&of(b, p));
        c.index_axis_mut(Axis(0), p).assign(&product.mapv(|x| x as i32));
    }
    c
}

/// `a b` with each operand in C and in Fortran order.
fn check(a_batch: usize, b_batch: usize, [m, n, k]: [usize; 3]) {
    let (a, b) = (stack((a_batch, m, k), 1), stack((b_batch, k, n), 2));
    let wanted = wanted(&a, &b);
    for device in with_turing() {
        let stream = device.default_stream();
        for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
            let axes = |transposed| if transposed { [0, 2, 1] } else { [0, 1, 2] };
            let upload = |x: &Array3<i8>, transposed| {
                DeviceArray::from_ndarray(stream, &x.view().permuted_axes(axes(transposed))).unwrap()
            };
            let (x, y) = (upload(&a, a_transposed), upload(&b, b_transposed));
            let (x, y) = (
                x.view().permuted_axes(axes(a_transposed)),
                y.view().permuted_axes(axes(b_transposed)),
            );
            let product = x.unwrap().batched_matmul_i32(&y.unwrap()).unwrap();
            assert_eq!(
                product.to_ndarray().unwrap(),
                wanted,
                "{m} × {n} × {k}, transposed {a_transposed} {b_transposed}"
            );
        }
    }
}

#[test]
fn products_in_all_layouts() {
    check(1, 1, [72, 136, 80]);
    check(1, 1, [150, 20, 300]);
}

#[test]
fn lines_of_any_length() {
    for shape in [[1, 1, 1], [3, 5, 7], [33, 8, 9], [1, 8, 129]] {
        check(1, 1, shape);
    }
}

/// A long k, which is cut, and few rows, which are columns of the transpose.
#[test]
fn a_long_k_in_parts_and_few_rows() {
    let (a, b) = (stack((1, 3, 8192), 1), stack((1, 16, 8192), 2));
    for device in with_turing() {
        let stream = device.default_stream();
        let x = DeviceArray::from_ndarray(stream, &a).unwrap();
        let y = DeviceArray::from_ndarray(stream, &b).unwrap();
        let product = x
            .batched_matmul_i32(&y.view().permuted_axes([0, 2, 1]).unwrap())
            .unwrap();
        let b = b.view().permuted_axes([0, 2, 1]).to_owned();
        assert_eq!(product.to_ndarray().unwrap(), wanted(&a, &b));
    }
}

#[test]
fn batches_and_one_matrix_for_all() {
    check(3, 3, [20, 24, 40]);
    check(1, 2, [16, 8, 24]);
    check(2, 1, [9, 16, 8]);
}

/// As many columns as the multiprocessors take at once in tiles of each width: it is the best one then.
#[test]
fn tiles_of_all_widths() {
    let device = Device::simulated_hopper();
    let stream = device.default_stream();
    for width in [64, 128, 256] {
        let columns = width * device.properties().multiprocessors as usize - 8;
        let (a, b) = (stack((1, 72, 144), 7), stack((1, 144, columns), 8));
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let product = x.batched_matmul_i32(&y).unwrap().to_ndarray().unwrap();
        assert_eq!(product, wanted(&a, &b), "width {width}");
    }
}

/// By the instructions of a warp: a tile of 64 × 64 for each multiprocessor, and so many that larger ones are done first.
#[test]
fn tiles_of_both_sizes() {
    let device = device().as_ampere().unwrap();
    let stream = device.default_stream();
    let multiprocessors = device.properties().multiprocessors as usize;
    for columns in [64 * multiprocessors - 8, 128 * multiprocessors - 8] {
        for k in [16, 80, 144] {
            let (a, b) = (stack((1, 120, k), 7), stack((1, columns, k), 8));
            let (x, y) = (
                DeviceArray::from_ndarray(stream, &a).unwrap(),
                DeviceArray::from_ndarray(stream, &b).unwrap(),
            );
            let y = y.view().permuted_axes([0, 2, 1]).unwrap();
            let product = x.batched_matmul_i32(&y).unwrap().to_ndarray().unwrap();
            let b = b.view().permuted_axes([0, 2, 1]).to_owned();
            assert_eq!(product, wanted(&a, &b), "{columns} columns, k {k}");
        }
    }
}

/// Views that begin anywhere and go backwards.
#[test]
fn parts_of_matrices() {
    let (a, b) = (stack((1, 40, 50), 3), stack((1, 60, 30), 4));
    let (a, b) = (a.index_axis_move(Axis(0), 0), b.index_axis_move(Axis(0), 0));
    let (left, right) = (s![3..;2, 1..41], s![..;-1, 2..26]);
    for device in with_turing() {
        let stream = device.default_stream();
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let y = y.slice(right).unwrap();
        let product = x
            .slice(left)
            .unwrap()
            .matmul_i32(&y.slice(s![..40, ..]).unwrap())
            .unwrap();
        let wanted = a
            .slice(left)
            .mapv(i32::from)
            .dot(&b.slice(right).slice(s![..40, ..]).mapv(i32::from));
        assert_eq!(product.to_ndarray().unwrap(), wanted);
    }
}

#[test]
fn into_a_view() {
    let (a, b) = (stack((1, 20, 40), 5), stack((1, 40, 24), 6));
    for device in with_turing() {
        let stream = device.default_stream();
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let mut out = DeviceArray::<i32, _>::zeros(stream, (1, 20, 50)).unwrap();
        let mut view = out.slice_mut(s![.., .., 1..49;2]).unwrap();
        x.batched_matmul_i32_into(&y, &mut view).unwrap();
        let got = out.to_ndarray().unwrap();
        assert_eq!(got.slice(s![.., .., 1..49;2]), wanted(&a, &b));
        assert!(got.slice(s![.., .., ..;2]).iter().all(|&x| x == 0));
        let error = x.batched_matmul_i32_into(&y, &mut out);
        assert!(matches!(
            error,
            Err(Error::Shape {
                operation: "batched_matmul_i32",
                ..
            })
        ));
    }
}

#[test]
fn nothing_to_sum_and_nothing_to_write() {
    for device in with_turing() {
        let stream = device.default_stream();
        let a = DeviceArray::<i8, _>::zeros(stream, (5, 0)).unwrap();
        let b = DeviceArray::<i8, _>::zeros(stream, (0, 8)).unwrap();
        assert_eq!(
            a.matmul_i32(&b).unwrap().to_ndarray().unwrap(),
            Array2::<i32>::zeros((5, 8))
        );
        assert_eq!(
            b.matmul_i32(&DeviceArray::zeros(stream, (8, 3)).unwrap())
                .unwrap()
                .shape(),
            [0, 3]
        );
        assert!(matches!(
            a.matmul_i32(&a),
            Err(Error::Shape {
                operation: "matmul_i32",
                ..
            })
        ));
    }
}
