// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f32` as TF32, on the tests' device, on the simulated one with Hopper's instructions, and by Ampere's.

use crate::common::*;
use ndarray::{Array2, Array3, ArrayView3, Axis, array, s};
use proptest::prelude::*;
use warpsmith::ops::Precision::{self, Full, Tf32};
use warpsmith::{Device, DeviceArray};

fn stack(shape: (usize, usize, usize), seed: u64) -> Array3<f32> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn(shape, || rng.random::<f32>() - 0.5)
}

/// Checks `alpha · a b + beta · old`. Operands rounded to 11 bits are off by 2⁻¹¹ of their magnitude, and so their products
/// by 2⁻¹⁰ + 2⁻²²; a tensor core adds with at least 23 bits, and truncates, so that a sum of k is off by k 2⁻²³ Σ|a||b|.
/// Scaling, and what the second order adds, is less than half as much again.
#[track_caller]
fn check(
    got: ArrayView3<'_, f32>,
    a: ArrayView3<'_, f32>,
    b: ArrayView3<'_, f32>,
    (alpha, beta, old): (f64, f64, f64),
    what: &str,
) {
    let k = a.len_of(Axis(2));
    let [sums, magnitudes] = sums_of_products(got.len_of(Axis(0)), [a, b], f64::from);
    for ((at, &got), (sum, magnitude)) in got.indexed_iter().zip(sums.iter().zip(&magnitudes)) {
        let wanted = alpha * sum + beta * old;
        let magnitude = alpha.abs() * magnitude;
        let bound = 1.5 * (2f64.powi(-10) + k as f64 * 2f64.powi(-23)) * magnitude + 2f64.powi(-23) * wanted.abs();
        let error = (f64::from(got) - wanted).abs();
        assert!(
            error <= bound,
            "{what}: {at:?}: {got}, wanted {wanted}, bound {bound:e}"
        );
    }
}

/// `a b` with each operand in C and in Fortran order.
fn check_orders(a_batch: usize, b_batch: usize, [m, n, k]: [usize; 3]) {
    let (a, b) = (stack((a_batch, m, k), 1), stack((b_batch, k, n), 2));
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let operand = |of: &Array3<f32>, transposed: bool| {
            let axes = if transposed { [0, 2, 1] } else { [0, 1, 2] };
            (
                DeviceArray::from_ndarray(stream, &of.view().permuted_axes(axes)).unwrap(),
                axes,
            )
        };
        for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
            let ((x, x_axes), (y, y_axes)) = (operand(&a, a_transposed), operand(&b, b_transposed));
            let (x, y) = (
                x.view().permuted_axes(x_axes).unwrap(),
                y.view().permuted_axes(y_axes).unwrap(),
            );
            let product = x.batched_matmul_with(&y, Tf32).unwrap();
            let what = format!("{m} × {n} × {k}, transposed {a_transposed} {b_transposed}");
            check(
                product.to_ndarray().unwrap().view(),
                a.view(),
                b.view(),
                (1.0, 0.0, 0.0),
                &what,
            );
        }
    }
}

#[test]
fn products_are_within_their_bound() {
    check_orders(1, 1, [40, 72, 36]);
    check_orders(1, 1, [132, 20, 40]);
}

#[test]
fn several_tiles_of_a_block() {
    check_orders(3, 1, [130, 8, 12]);
}

/// Lines that no copy of the tensor memory accelerator can have: they are no multiple of 16 bytes.
#[test]
fn lines_of_any_length() {
    for [m, n, k] in [[3, 5, 7], [33, 8, 9], [8, 35, 16], [1, 1, 1], [5, 33, 8]] {
        check_orders(1, 1, [m, n, k]);
    }
}

#[test]
fn batches_and_one_matrix_for_all() {
    check_orders(3, 3, [20, 24, 40]);
    check_orders(1, 2, [16, 8, 24]);
    check_orders(2, 1, [12, 16, 8]);
}

/// As many columns as the multiprocessors take at once in tiles of each width: it is the best one then. An operand that does
/// not lie along k comes from registers, and makes the other's lines the columns.
#[test]
fn tiles_of_all_widths() {
    let device = Device::simulated_hopper();
    let stream = device.default_stream();
    let array =
        |of: &Array3<f32>, axes: [usize; 3]| DeviceArray::from_ndarray(stream, &of.view().permuted_axes(axes)).unwrap();
    const C_ORDER: [usize; 3] = [0, 1, 2];
    const FORTRAN_ORDER: [usize; 3] = [0, 2, 1];
    for width in [64, 128, 192, 256] {
        let long = width * device.properties().multiprocessors as usize - 4;
        for ([m, n], a_order, b_order) in [
            ([8, long], C_ORDER, FORTRAN_ORDER),
            ([long, 8], C_ORDER, C_ORDER),
            ([8, long], FORTRAN_ORDER, FORTRAN_ORDER),
        ] {
            let (a, b) = (stack((1, m, 36), 3), stack((1, 36, n), 4));
            let (x, y) = (array(&a, a_order), array(&b, b_order));
            let (x, y) = (
                x.view().permuted_axes(a_order).unwrap(),
                y.view().permuted_axes(b_order).unwrap(),
            );
            let product = x.batched_matmul_with(&y, Tf32).unwrap().to_ndarray().unwrap();
            let what = format!("width {width}, {a_order:?} {b_order:?}");
            check(product.view(), a.view(), b.view(), (1.0, 0.0, 0.0), &what);
        }
    }
}

/// What comes from registers is read again while instructions that are under way read what was there before.
#[test]
fn bits_are_the_same_each_time() {
    let (a, b) = (stack((1, 140, 300), 9), stack((1, 300, 100), 10));
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let x = DeviceArray::from_ndarray(stream, &a).unwrap();
        let y = DeviceArray::from_ndarray(stream, &b).unwrap();
        let product = || x.batched_matmul_with(&y, Tf32).unwrap().to_ndarray().unwrap();
        let first = product();
        check(first.view(), a.view(), b.view(), (1.0, 0.0, 0.0), "first");
        assert_eq!((product(), product()), (first.clone(), first));
    }
}

/// More of k than the ring of stages holds.
#[test]
fn stages_are_used_again() {
    check_orders(1, 1, [4, 8, 600]);
}

/// Few tiles and a long k, which is cut.
#[test]
fn a_long_k_in_parts() {
    check_orders(1, 1, [4, 8, 4096]);
}

/// Views that begin anywhere, and go backwards.
#[test]
fn parts_of_matrices() {
    let (a, b) = (stack((1, 40, 50), 3), stack((1, 60, 30), 4));
    let (a, b) = (a.index_axis_move(Axis(0), 0), b.index_axis_move(Axis(0), 0));
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let x = DeviceArray::from_ndarray(stream, &a).unwrap();
        let y = DeviceArray::from_ndarray(stream, &b).unwrap();
        let (left, right) = (s![3..;2, 1..41], s![..40;-1, 2..26]);
        let product = x
            .slice(left)
            .unwrap()
            .matmul_with(&y.slice(right).unwrap(), Tf32)
            .unwrap();
        check(
            product.to_ndarray().unwrap().insert_axis(Axis(0)).view(),
            a.slice(left).insert_axis(Axis(0)),
            b.slice(right).insert_axis(Axis(0)),
            (1.0, 0.0, 0.0),
            "parts",
        );
    }
}

#[test]
fn alpha_and_beta_scale_in_f32() {
    let (a, b) = (stack((1, 24, 32), 5), stack((1, 32, 40), 6));
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        for (alpha, beta) in [(1.5, 0.0), (-2.0, 0.75), (0.0, 0.5)] {
            let start = if beta == 0.0 { f32::NAN } else { 3.0 };
            let mut c = DeviceArray::from_elem(stream, (1, 24, 40), start).unwrap();
            c.batched_gemm_with(alpha, &x, &y, beta, Tf32).unwrap();
            let scales = (alpha.into(), beta.into(), 3.0);
            check(
                c.to_ndarray().unwrap().view(),
                a.view(),
                b.view(),
                scales,
                &format!("{alpha} {beta}"),
            );
        }
        // As in BLAS: with an alpha of 0 the operands are not read.
        let bad = DeviceArray::from_elem(stream, (24, 32), f32::NAN).unwrap();
        let y = DeviceArray::from_elem(stream, (32, 40), 1.0).unwrap();
        let mut c = DeviceArray::from_elem(stream, (24, 40), 2.0).unwrap();
        c.gemm_with(0.0, &bad, &y, 0.5, Tf32).unwrap();
        assert!(c.to_ndarray().unwrap().iter().all(|&c| c == 1.0));
    }
}

/// The copies round to nearest: truncated, the operands would all be 1.
#[test]
fn operands_are_rounded_to_nearest() {
    let step = 2f32.powi(-10);
    for device in [Device::simulated_hopper(), device().as_ampere().unwrap()] {
        let ones = DeviceArray::from_elem(device.default_stream(), (8, 8), 1.0f32).unwrap();
        let above = DeviceArray::from_elem(device.default_stream(), (8, 8), 1.0 + 0.75 * step).unwrap();
        for (a, b) in [(&ones, &above), (&above, &ones)] {
            let sums = a.matmul_with(b, Tf32).unwrap().to_ndarray().unwrap();
            assert!(sums.iter().all(|&sum| sum == 8.0 * (1.0 + step)), "{sums}");
        }
    }
}

/// Full precision is what the ordinary methods have, and what TF32 is where no tensor cores are.
#[test]
fn full_precision_is_that_of_matmul() {
    let (a, b) = (stack((1, 20, 30), 7), stack((1, 30, 12), 8));
    let product = |device: &Device, precision: Precision| {
        let x = DeviceArray::from_ndarray(device.default_stream(), &a).unwrap();
        let y = DeviceArray::from_ndarray(device.default_stream(), &b).unwrap();
        let product = x.batched_matmul_with(&y, precision).unwrap().to_ndarray().unwrap();
        (product, x.batched_matmul(&y).unwrap().to_ndarray().unwrap())
    };
    for device in with_tensor_cores() {
        let (full, plain) = product(&device, Full);
        assert_eq!(full, plain);
    }
    let (tf32, plain) = product(&Device::simulator(), Tf32);
    assert_eq!(tf32, plain);
    assert_eq!(Precision::default(), Full);
}

#[test]
fn nothing_to_sum_and_what_is_not_finite() {
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let a = DeviceArray::<f32, _>::zeros(stream, (5, 0)).unwrap();
        let b = DeviceArray::<f32, _>::zeros(stream, (0, 8)).unwrap();
        let zeros = a.matmul_with(&b, Tf32).unwrap().to_ndarray().unwrap();
        assert_eq!(zeros, Array2::<f32>::zeros((5, 8)));
        assert_eq!(b.matmul_with(&zeros_of(&device, 8, 0), Tf32).unwrap().shape(), [0, 0]);
        // Of NaN those, too, whose bits rounding would carry into the sign.
        let [high, low] = [0x7fff_ffff, 0xffff_ffff].map(f32::from_bits);
        let a = array![
            [f32::NAN, 1.0],
            [high, 1.0],
            [1.0, low],
            [f32::INFINITY, 1.0],
            [2.0, 3.0]
        ];
        let a = DeviceArray::from_ndarray(stream, &a).unwrap();
        let ones = DeviceArray::from_elem(stream, (2, 4), 1.0).unwrap();
        let c = a.matmul_with(&ones, Tf32).unwrap().to_ndarray().unwrap();
        assert!(c.rows().into_iter().take(3).flatten().all(|c| c.is_nan()));
        assert!(c.row(3).iter().all(|&c| c == f32::INFINITY));
        assert!(c.row(4).iter().all(|&c| c == 5.0));
        assert!(a.matmul_with(&a, Tf32).is_err());
    }
}

fn zeros_of(device: &Device, rows: usize, columns: usize) -> DeviceArray<f32, ndarray::Ix2> {
    DeviceArray::zeros(device.default_stream(), (rows, columns)).unwrap()
}
