// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products with epilogues of one's own, on the tests' device, by Turing's, Ampere's and Hopper's instructions.

use device_test_kernels::epilogues::{Hinge, Profile, Swish};
use device_tests::{PTX, device};
use ndarray::{Array1, Array2, Array3, Axis};
use warpsmith::ops::{MatMul, OwnEpilogue, Precision};
use warpsmith::{Device, DeviceArray, Element, bf16, f16};

/// Those that differ in how they multiply.
fn devices() -> [Device; 4] {
    let of_tests = device();
    let [turing, ampere] = [(7, 5), (8, 0)].map(|generation| {
        let device = of_tests.as_generation(generation).unwrap();
        device.register_kernels(PTX).unwrap();
        device
    });
    [of_tests, turing, ampere, Device::simulated_hopper()]
}

/// Small integers, of both signs.
fn numbers<T>(shape: (usize, usize, usize), seed: usize, of: impl Fn(i32) -> T) -> Array3<T> {
    Array3::from_shape_fn(shape, |(p, i, j)| {
        let at = (p * shape.1 + i) * shape.2 + j;
        of(((at + seed) * 7919 % 1009 % 5) as i32 - 2)
    })
}

/// Products of integers, to the last bit: `alpha · A B + beta · C` is exact, as is what the epilogue makes of it, but for
/// the rounding to the type.
fn check<T: Element + MatMul + OwnEpilogue<Hinge> + PartialEq + std::fmt::Debug>(
    [batch, m, n, k]: [usize; 4],
    devices: &[Device],
    of: impl Fn(i32) -> T,
    scalar: impl Fn(i32) -> T::Scalar,
) {
    let function = Hinge { limit: 5 };
    let number = |shape, seed| numbers(shape, seed, |x| x);
    let (a, b, old) = (number((batch, m, k), 1), number((1, k, n), 2), number((batch, m, n), 3));
    let (bias, residual) = (number((1, 1, n), 4), number((batch, m, n), 5));
    let sums = Array3::from_shape_fn((batch, m, n), |(p, i, j)| {
        (0..k).map(|k| a[[p, i, k]] * b[[0, k, j]]).sum::<i32>()
    });
    let wanted = |alpha: i32, beta: i32, with_addends: bool| {
        Array3::from_shape_fn((batch, m, n), |(p, i, j)| {
            let (bias, residual) = if with_addends {
                (bias[[0, 0, j]], residual[[p, i, j]])
            } else {
                (0, 0)
            };
            let sum = alpha * sums[[p, i, j]] + beta * old[[p, i, j]];
            of((sum + 2 * bias).min(function.limit) - residual * residual)
        })
    };
    for device in devices {
        let upload = |x: &Array3<i32>| DeviceArray::from_ndarray(device.default_stream(), &x.mapv(&of)).unwrap();
        let (x, y, bias, residual) = (upload(&a), upload(&b), upload(&bias), upload(&residual));
        let what = format!("{batch} × {m} × {n} × {k} on {}", device.properties().name);
        let plain = x.fused_batched_matmul(&y).epilogue(function).compute().unwrap();
        assert_eq!(plain.to_ndarray().unwrap(), wanted(1, 0, false), "{what}");
        for (alpha, beta) in [(2, 0), (1, 3), (0, 1)] {
            let mut out = upload(&old);
            // The order does not matter, and the last function is what counts.
            let product = x.fused_batched_matmul(&y).bias(&bias).relu().epilogue(function);
            let product = product.residual(&residual).alpha(scalar(alpha));
            product.accumulate_into(&mut out, scalar(beta)).unwrap();
            assert_eq!(
                out.to_ndarray().unwrap(),
                wanted(alpha, beta, true),
                "{alpha} {beta}, {what}"
            );
        }
    }
}

#[test]
fn products_of_16_bits() {
    let shapes = [
        [1, 72, 136, 40],
        // On Hopper as the transpose, but where there is more to add.
        [1, 48, 56, 72],
        [2, 33, 35, 7],
        [1, 130, 260, 70],
        [1, 1, 50, 64],
        [1, 50, 1, 64],
        [1, 4, 9, 0],
    ];
    for shape in shapes {
        check(shape, &devices(), |x| bf16::from_f32(x as f32), |x| x as f32);
    }
    // In parts of k, whose sums are finished behind them.
    check(
        [1, 8, 16, 8192],
        &devices()[1..],
        |x| bf16::from_f32(x as f32),
        |x| x as f32,
    );
}

#[test]
fn products_of_other_types() {
    for shape in [[1, 72, 136, 40], [2, 33, 35, 7], [1, 4, 9, 0]] {
        check(shape, &devices(), |x| x as f32, |x| x as f32);
        check(shape, &devices(), f64::from, f64::from);
        check(shape, &devices()[..1], |x| x, |x| x);
    }
}

#[test]
fn a_precision_stays() {
    // More bits than TF32 has: 4097 becomes 4096.
    let a = Array2::from_elem((16, 16), 4097.0f32);
    let b = Array2::from_diag(&Array1::from_elem(16, 1.0f32));
    // Turing has no TF32.
    for device in &devices()[2..] {
        let upload = |x| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
        let (x, y) = (upload(&a), upload(&b));
        for (precision, wanted) in [(Precision::Full, 4097.0), (Precision::Tf32, 4096.0)] {
            let function = Hinge { limit: 10_000 };
            for product in [
                x.fused_matmul(&y).precision(precision).epilogue(function),
                x.fused_matmul(&y).epilogue(function).precision(precision),
            ] {
                let got = product.compute().unwrap().to_ndarray().unwrap();
                assert!(got.iter().all(|&got| got == wanted), "{precision:?}");
            }
        }
    }
}

#[test]
fn a_function_without_parameters() {
    let a = Array2::from_shape_fn((40, 24), |(i, j)| f16::from_f32((i + j) as f32 / 16.0 - 2.0));
    let sums = a.mapv(f64::from).dot(&a.t().mapv(f64::from));
    for device in devices() {
        let x = DeviceArray::from_ndarray(device.default_stream(), &a).unwrap();
        let got = x
            .fused_matmul(&x.t())
            .epilogue(Swish)
            .compute()
            .unwrap()
            .to_ndarray()
            .unwrap();
        for (&got, &sum) in got.iter().zip(&sums) {
            // Sums of at most 24 products of at most 4 are off by 24 · 24 · 4 · 2⁻²³, and the function has a slope of at
            // most 1.1; then the rounding to the type, and what f32 rounds in between.
            let wanted = sum / (1.0 + (-sum).exp());
            let bound = 4e-4 + wanted.abs() / 2000.0;
            assert!((f64::from(got) - wanted).abs() <= bound, "{got}, wanted {wanted}");
        }
        assert_eq!(got.len_of(Axis(0)), 40);
    }
}

#[test]
fn shapes_are_checked_as_without_one() {
    let device = device();
    let x = DeviceArray::<f32, _>::zeros(device.default_stream(), (4, 3)).unwrap();
    let product = x.fused_matmul(&x).epilogue(Hinge { limit: 0 });
    assert!(matches!(product.compute(), Err(warpsmith::Error::Shape { .. })));
}

/// The products of `shape` with a bias, a function and a residual, and `Profile` of their rows.
fn check_rows(device: &Device, [batch, m, n, k]: [usize; 4]) {
    let number = |shape, seed| numbers(shape, seed, |x| bf16::from_f32(x as f32));
    let (a, b) = (number((batch, m, k), 1), number((1, k, n), 2));
    let (bias, residual) = (number((1, 1, n), 4), number((batch, m, n), 5));
    let upload = |x: &Array3<bf16>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
    let (x, y, bias, residual) = (upload(&a), upload(&b), upload(&bias), upload(&residual));
    let product = || x.fused_batched_matmul(&y).bias(&bias).relu().residual(&residual);
    let wanted = product().compute().unwrap().to_ndarray().unwrap();
    let (got, rows) = product().compute_with_rows::<Profile>().unwrap();
    let what = format!("{batch} × {m} × {n} × {k} on {}", device.properties().name);
    assert_eq!(got.to_ndarray().unwrap(), wanted, "{what}");
    let rows = rows.to_ndarray().unwrap();
    assert_eq!(rows.shape(), [batch, m], "{what}");
    for ((p, i), &got) in rows.indexed_iter() {
        let row = wanted.slice(ndarray::s![p, i, ..]).mapv(f32::from);
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let column = row
            .iter()
            .position(|&x| x == most)
            .map_or(f32::INFINITY, |column| column as f32);
        assert_eq!(got, [most, column, row.sum() + n as f32], "row {i} of {p}, {what}");
    }
}

#[test]
fn rows_are_reduced() {
    for shape in [[1, 72, 136, 40], [2, 130, 264, 24], [1, 20, 40, 0], [3, 5, 0, 8]] {
        for device in devices() {
            check_rows(&device, shape);
        }
    }
    // Several tiles of a block, a vector, lines that the accelerator cannot write, and a k in parts.
    for shape in [[1, 300, 1160, 8], [1, 1, 64, 16], [1, 40, 35, 8], [1, 8, 16, 8192]] {
        check_rows(&Device::simulated_hopper(), shape);
    }
}

#[test]
fn rows_are_reduced_by_the_product() {
    let device = Device::simulated_hopper();
    let zeros = |shape| DeviceArray::<bf16, _>::zeros(device.default_stream(), shape).unwrap();
    let (a, b) = (zeros((300, 8)), zeros((8, 1160)));
    let allocated = device.memory().unwrap().allocated;
    device.reset_peak();
    let (product, rows) = a.fused_matmul(&b).compute_with_rows::<Profile>().unwrap();
    // The results, and a value for each 64 columns of a row.
    let wanted = (product.len() * size_of::<bf16>() + (rows.len() + 300 * 19) * size_of::<[f32; 3]>()) as u64;
    assert!(device.memory().unwrap().peak - allocated >= wanted);
}

#[test]
fn rows_of_a_matrix() {
    let a = Array2::from_shape_fn((40, 16), |(i, j)| bf16::from_f32((i * j % 5) as f32));
    for device in devices() {
        let x = DeviceArray::from_ndarray(device.default_stream(), &a).unwrap();
        let (product, rows) = x.fused_matmul(&x.t()).compute_with_rows::<Profile>().unwrap();
        let rows = rows.to_ndarray().unwrap();
        let wanted = product.reduce_axis::<Profile>(Axis(1)).unwrap().to_ndarray().unwrap();
        assert_eq!(rows, wanted);
    }
}

/// The rows of the transpose.
#[test]
fn columns_of_a_matrix() {
    let a = Array2::from_shape_fn((40, 16), |(i, j)| bf16::from_f32((i * j % 5) as f32));
    let b = Array2::from_shape_fn((16, 72), |(i, j)| bf16::from_f32((i + 2 * j) as f32 % 3.0));
    for device in devices() {
        let upload = |x: &Array2<bf16>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
        let (x, y) = (upload(&a), upload(&b));
        let (product, columns) = y.t().fused_matmul(&x.t()).compute_with_rows::<Profile>().unwrap();
        let wanted = x.matmul(&y).unwrap();
        assert_eq!(
            product.t().to_array().unwrap().to_ndarray().unwrap(),
            wanted.to_ndarray().unwrap()
        );
        let wanted = wanted.reduce_axis::<Profile>(Axis(0)).unwrap().to_ndarray().unwrap();
        assert_eq!(columns.to_ndarray().unwrap(), wanted);
    }
}
