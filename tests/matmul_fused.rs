// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products with what follows them, on the tests' device, on the simulated one with Hopper's instructions, and with Ampere's
//! on the former, within the bound of the sums, of the function and of the roundings.

use crate::common::*;
use cuda_std::Float;
use half::{bf16, f16};
use ndarray::{Array1, Array2, Array3, ArrayView3, Axis, Ix3, array, s};
use proptest::prelude::*;
use warpsmith::ops::{FusedMatMul, MatMul, Precision, Real};
use warpsmith::{Device, DeviceArray, DeviceView, Element, Error};

/// What the tests want of an element type.
trait Number: Element + MatMul + Real {
    /// The unit roundoff.
    const ROUNDOFF: f64;
    /// The most that a sum of `k` products is off, by `k Σ|a||b|` of it: that of a tensor core, which truncates.
    const SUM: f64 = 1.0 / (1 << 23) as f64;
    /// The most that a function is off: absolutely, and relatively.
    const FUNCTION: (f64, f64) = (5e-8, 3e-5);
    fn of(x: f64) -> Self;
    fn to(self) -> f64;
    fn scalar(x: f64) -> Self::Scalar;
}

macro_rules! numbers {
    ($($type:ident: $of:expr, $scalar:expr, $roundoff:expr $(, $name:ident: $constant:ty = $value:expr)*;)*) => {$(
        impl Number for $type {
            const ROUNDOFF: f64 = $roundoff;
            $(const $name: $constant = $value;)*

            fn of(x: f64) -> Self {
                $of(x)
            }

            fn to(self) -> f64 {
                self.into()
            }

            fn scalar(x: f64) -> Self::Scalar {
                $scalar(x)
            }
        }
    )*};
}

numbers! {
    f16: f16::from_f64, |x| x as f32, 1.0 / 2048.0;
    bf16: bf16::from_f64, |x| x as f32, 1.0 / 256.0;
    f32: |x| x as f32, |x| x as f32, 1.0 / (1 << 24) as f64;
    f64: |x| x, |x| x, f64::EPSILON / 2.0, SUM: f64 = f64::EPSILON, FUNCTION: (f64, f64) = (f64::EPSILON, 8.0 * f64::EPSILON);
}

fn devices() -> [Device; 2] {
    [device().clone(), Device::simulated_hopper()]
}

fn simulated_ampere() -> Device {
    Device::simulator().as_ampere().unwrap()
}

fn stack<T: Number>(shape: (usize, usize, usize), seed: u64) -> Array3<T> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn(shape, || T::of(4.0 * rng.random::<f64>() - 2.0))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Identity,
    Relu,
    Gelu,
    GeluTanh,
    Silu,
}

use Function::{Gelu, GeluTanh, Identity, Relu, Silu};

impl Function {
    /// Each has a slope of at most 1.2.
    fn of(self, x: f64) -> f64 {
        let cubic = x + 0.044715 * x * x * x;
        match self {
            Identity => x,
            Relu => x.max(0.0),
            Gelu => 0.5 * x * Float::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
            GeluTanh => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * cubic).tanh()),
            Silu => x / (1.0 + (-x).exp()),
        }
    }

    fn name<'a, T: Number>(self, product: FusedMatMul<'a, T, Ix3>) -> FusedMatMul<'a, T, Ix3> {
        match self {
            Identity => product,
            Relu => product.relu(),
            Gelu => product.gelu(),
            GeluTanh => product.gelu_tanh(),
            Silu => product.silu(),
        }
    }
}

/// What becomes of a product; the addends are views of the product's shape.
struct Case<'a, T> {
    alpha: f64,
    beta: f64,
    function: Function,
    bias: Option<ArrayView3<'a, T>>,
    residual: Option<ArrayView3<'a, T>>,
    /// What the operands are off by, relatively, before they are multiplied.
    operands: f64,
}

/// Sums of `k` products, and of their magnitudes.
struct Sums {
    k: usize,
    of: Array3<f64>,
    magnitudes: Array3<f64>,
}

impl Sums {
    /// Of as many matrices as there are, or of one with each of the other.
    fn new<T: Number>(a: &Array3<T>, b: &Array3<T>) -> Self {
        let batch = a.len_of(Axis(0)).max(b.len_of(Axis(0)));
        let [of, magnitudes] = sums_of_products(batch, [a.view(), b.view()], T::to);
        let k = a.len_of(Axis(2));
        Self { k, of, magnitudes }
    }
}

impl<T: Number> Case<'_, T> {
    /// Checks `f(alpha · a b + beta · old + bias) + residual`. To first order a sum of k products is off by `k u Σ|a||b|`;
    /// scaling and adding round the sum of their magnitudes thrice more; the function takes at most 1.2 of that, and is
    /// off itself; then the residual, and the rounding to the type. The second order is less than as much again.
    #[track_caller]
    fn check(&self, got: ArrayView3<'_, T>, sums: &Sums, old: &Array3<T>, what: &str) {
        assert_eq!(got.shape(), sums.of.shape(), "{what}");
        for (((p, i, j), got), (sum, magnitude)) in got.indexed_iter().zip(sums.of.iter().zip(&sums.magnitudes)) {
            let bias = self.bias.map_or(0.0, |bias| bias[[p, i, j]].to());
            let residual = self.residual.map_or(0.0, |residual| residual[[p, i, j]].to());
            let old = if self.beta == 0.0 {
                0.0
            } else {
                self.beta * old[[p, i, j]].to()
            };
            let magnitude = self.alpha.abs() * magnitude;
            let error = (self.operands + sums.k as f64 * T::SUM) * magnitude
                + 4.0 * T::SUM * (magnitude + old.abs() + bias.abs());
            let value = self.function.of(self.alpha * sum + old + bias);
            let of_function = match self.function {
                Identity | Relu => 0.0,
                _ => T::FUNCTION.0.min(T::FUNCTION.1 * value.abs()),
            };
            let wanted = value + residual;
            let error = 1.2 * error + of_function + 2.0 * T::SUM * (value.abs() + residual.abs());
            let bound = 2.0 * error + T::ROUNDOFF * (wanted.abs() + 2.0 * error) + 2f64.powi(-24) * T::ROUNDOFF;
            let error = (got.to() - wanted).abs();
            assert!(
                error <= bound,
                "{what}: ({p}, {i}, {j}): {}, wanted {wanted}, bound {bound:e}",
                got.to()
            );
        }
    }
}

/// All functions, with addends that lie in many ways, with and without the old elements.
fn check_all<T: Number>([a_batch, b_batch]: [usize; 2], [m, n, k]: [usize; 3], devices: &[Device]) {
    let batch = a_batch.max(b_batch);
    let (a, b) = (stack::<T>((a_batch, m, k), 1), stack::<T>((b_batch, k, n), 2));
    let (whole, old) = (stack::<T>((batch, m, n), 3), stack::<T>((batch, m, n), 4));
    let (of_columns, of_rows) = (stack::<T>((1, 1, n), 5), stack::<T>((batch, m, 1), 6));
    let (of_each, of_all) = (stack::<T>((batch, 1, n), 8), stack::<T>((1, m, n), 9));
    // Behind each other, with others between them, or backwards.
    let apart = stack::<T>((batch, 2 * n, m), 7);
    let sums = Sums::new(&a, &b);
    let view = s![.., ..;2, ..;-1];
    for device in devices {
        let stream = device.default_stream();
        let upload = |array: &Array3<T>| DeviceArray::from_ndarray(stream, array).unwrap();
        let (x, y, whole_there, columns_there, rows_there, each_there, all_there, apart_there) = (
            upload(&a),
            upload(&b),
            upload(&whole),
            upload(&of_columns),
            upload(&of_rows),
            upload(&of_each),
            upload(&of_all),
            upload(&apart),
        );
        let apart_there = apart_there.slice(view).unwrap().permuted_axes([0, 2, 1]).unwrap();
        let apart = apart.slice(view).permuted_axes([0, 2, 1]);
        let shape = (batch, m, n);
        type Addend<'a, T> = Option<(&'a warpsmith::DeviceArrayRef<T, Ix3>, ArrayView3<'a, T>)>;
        let columns: Addend<T> = Some((&columns_there, of_columns.broadcast(shape).unwrap()));
        let each: Addend<T> = Some((&each_there, of_each.broadcast(shape).unwrap()));
        let all: Addend<T> = Some((&all_there, of_all.broadcast(shape).unwrap()));
        let rows: Addend<T> = Some((&rows_there, of_rows.broadcast(shape).unwrap()));
        let whole: Addend<T> = Some((&whole_there, whole.view()));
        let apart: Addend<T> = Some((&apart_there, apart));
        for (function, alpha, beta, bias, residual) in [
            (Relu, 1.0, 0.0, columns, None),
            (Gelu, -0.5, 0.0, rows, whole),
            (GeluTanh, 1.5, 0.75, None, apart),
            (Silu, 1.0, -0.5, apart, columns),
            (Identity, 2.0, 0.0, whole, rows),
            (Silu, 0.5, 0.0, each, None),
            (Relu, 1.0, 0.0, columns, all),
            (Identity, 1.0, 0.5, None, whole),
            (Gelu, 0.5, 0.75, each, None),
            (Relu, -1.0, 0.0, columns, whole),
            (Relu, 0.0, 1.5, columns, None),
        ] {
            let mut product = function.name(x.fused_batched_matmul(&y)).alpha(T::scalar(alpha));
            if let Some((bias, _)) = bias {
                product = product.bias(bias);
            }
            if let Some((residual, _)) = residual {
                product = product.residual(residual);
            }
            let mut out = upload(&old);
            if beta == 0.0 {
                out.fill(T::of(f64::NAN)).unwrap();
            }
            product.accumulate_into(&mut out, T::scalar(beta)).unwrap();
            let case = Case {
                alpha,
                beta,
                function,
                bias: bias.map(|(_, bias)| bias),
                residual: residual.map(|(_, residual)| residual),
                operands: 0.0,
            };
            let what = format!("{function:?} {alpha} {beta} of {m} × {n} × {k}");
            case.check(out.to_ndarray().unwrap().view(), &sums, &old, &what);
        }
    }
}

#[test]
fn products_of_f32() {
    check_all::<f32>([1, 1], [40, 36, 20], &devices());
    check_all::<f32>([2, 1], [33, 35, 7], &devices());
    check_all::<f32>([1, 1], [130, 260, 9], &[Device::simulated_hopper()]);
    check_all::<f32>([1, 1], [129, 301, 3], &[Device::simulated_hopper()]);
}

#[test]
fn products_of_f64() {
    check_all::<f64>([1, 1], [40, 36, 20], &devices());
    check_all::<f64>([1, 2], [33, 35, 7], &devices());
    check_all::<f64>([1, 1], [200, 260, 3], &[Device::simulated_hopper()]);
}

#[test]
fn products_of_16_bits() {
    check_all::<bf16>([1, 1], [72, 136, 40], &with_tensor_cores());
    check_all::<f16>([1, 2], [33, 35, 7], &with_turing());
    check_all::<bf16>(
        [3, 1],
        [130, 200, 24],
        &[Device::simulated_hopper(), simulated_ampere()],
    );
}

/// More of k than the ring has stages, in tiles of 64 rows and of 128, several for each multiprocessor: what is added comes behind
/// all of that. Without tensor cores there is no ring.
#[test]
fn addends_behind_a_long_k() {
    let mut devices = devices().to_vec();
    devices.retain(|device| device.properties().tensor_cores.is_some());
    check_all::<bf16>([2, 1], [70, 72, 200], &devices);
    check_all::<f16>([1, 1], [136, 200, 584], &devices);
}

/// A matrix and a vector, on either side, along either axis, and in parts.
#[test]
fn products_of_16_bits_with_a_vector() {
    for [m, n, k] in [[1, 40, 70], [40, 1, 70], [1, 1, 5], [1, 9, 9000], [3, 1, 9000]] {
        check_all::<bf16>([1, 1], [m, n, k], &devices());
    }
}

/// Few tiles and a long k, which is cut: what adds up the parts finishes them.
#[test]
fn a_long_k_in_parts() {
    let devices = [Device::simulated_hopper(), simulated_ampere()];
    check_all::<bf16>([1, 1], [3, 8, 4096], &devices);
    check_all::<f16>([1, 1], [5, 9, 4096], &devices);
}

/// Tiles of every width, whose epilogue goes over several pieces.
#[test]
fn tiles_of_all_widths() {
    let device = Device::simulated_hopper();
    for width in [64, 128, 192, 256] {
        let columns = width * device.properties().multiprocessors as usize - 8;
        check_all::<f16>([1, 1], [9, columns, 8], std::slice::from_ref(&device));
    }
    // So many that each multiprocessor has one of them, or several that are narrower.
    let device = simulated_ampere();
    for width in [64, 128, 256] {
        let columns = width * device.properties().multiprocessors as usize - 8;
        check_all::<bf16>([1, 1], [72, columns, 8], std::slice::from_ref(&device));
    }
}

/// Tiles that are computed as transposes: with a bias that all rows have in common, and old elements or a residual; others with the
/// rest. And with three tiles for each multiprocessor, and two products.
#[test]
fn tiles_across() {
    let hopper = Device::simulated_hopper();
    for (m, width) in [(96, 192), (48, 64), (280, 192)] {
        let columns = columns_across(&hopper, width);
        check_all::<bf16>([1, 1], [m, columns, 72], std::slice::from_ref(&hopper));
    }
    let columns = columns_across(&hopper, 192) / 2;
    check_all::<f16>([2, 1], [96, columns.next_multiple_of(8), 72], &[hopper]);
    if device().properties().tensor_cores == Some((9, 0)) {
        // Of the wider ones there would have to be more than the tests have time for.
        check_all::<bf16>([1, 1], [48, columns_across(device(), 64), 72], &[device().clone()]);
    }
}

/// With a short k and with one that is cut.
#[test]
fn products_as_tf32() {
    check_tf32([24, 36, 32]);
    check_tf32([5, 9, 4096]);
}

fn check_tf32([m, n, k]: [usize; 3]) {
    let (a, b, old) = (stack::<f32>((1, m, k), 1), stack((1, k, n), 2), stack((1, m, n), 3));
    let (bias, whole) = (stack::<f32>((1, 1, n), 4), stack::<f32>((1, m, n), 5));
    let sums = Sums::new(&a, &b);
    for device in with_tensor_cores() {
        let upload = |array: &Array3<f32>| DeviceArray::from_ndarray(device.default_stream(), array).unwrap();
        let (x, y, z, r) = (upload(&a), upload(&b), upload(&bias), upload(&whole));
        for (beta, residual, what) in [
            (0.5, &z, "as TF32, with old ones"),
            (0.0, &r, "as TF32, with a residual"),
        ] {
            let mut out = upload(&old);
            x.fused_batched_matmul(&y)
                .bias(&z)
                .gelu()
                .residual(residual)
                .precision(Precision::Tf32)
                .accumulate_into(&mut out, beta)
                .unwrap();
            let case = Case {
                alpha: 1.0,
                beta: beta.into(),
                function: Gelu,
                bias: bias.broadcast((1, m, n)),
                residual: if beta == 0.0 {
                    Some(whole.view())
                } else {
                    bias.broadcast((1, m, n))
                },
                operands: 2f64.powi(-10),
            };
            case.check(out.to_ndarray().unwrap().view(), &sums, &old, what);
        }
    }
}

/// The kernel for large products of f32 gives the same bits as the other.
#[test]
fn large_products_of_f32_are_the_same_bits() {
    let (a, b) = (stack::<f32>((1, 130, 9), 1), stack::<f32>((1, 9, 260), 2));
    let bias = stack::<f32>((1, 1, 260), 3);
    let results = [Device::simulator(), Device::simulated_hopper()].map(|device| {
        let upload = |array: &Array3<f32>| DeviceArray::from_ndarray(device.default_stream(), array).unwrap();
        let product = upload(&a)
            .fused_batched_matmul(&upload(&b))
            .bias(&upload(&bias))
            .silu()
            .compute();
        product.unwrap().to_ndarray().unwrap()
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn integers_have_bias_residual_and_relu() {
    let stream = device().default_stream();
    let upload = |array: &Array2<i32>| DeviceArray::from_ndarray(stream, array).unwrap();
    let (x, y) = (upload(&array![[1, 2], [3, 4]]), upload(&array![[1, -5], [2, 1]]));
    let bias = DeviceArray::from_ndarray(stream, &array![i32::MAX, 1]).unwrap();
    let got = x
        .fused_matmul(&y)
        .alpha(2)
        .bias(&bias)
        .relu()
        .residual(&x)
        .compute()
        .unwrap();
    // 2 · (5, −3; 11, −11), plus the bias, which wraps around.
    assert_eq!(got.to_ndarray().unwrap(), array![[1, 2], [3, 4]]);
    let mut c = upload(&array![[10, 20], [30, 40]]);
    x.fused_matmul(&y).accumulate_into(&mut c, 3).unwrap();
    assert_eq!(c.to_ndarray().unwrap(), array![[35, 57], [101, 109]]);
}

/// A tile of 128 × 128 for each multiprocessor: the kernel of large tiles, which is finished by a second launch.
#[test]
fn large_tiles_are_finished() {
    let stream = device().default_stream();
    let batch = device().properties().multiprocessors as usize;
    let number = |i: usize| (i * 7919 % 23) as i32 - 11;
    let a = Array3::from_shape_fn((batch, 128, 2), |(p, i, k)| number(5 * p + 3 * i + k));
    let b = Array3::from_shape_fn((1, 2, 128), |(_, k, j)| number(4 * k + j));
    let old = Array3::from_shape_fn((batch, 128, 128), |(p, i, j)| number(p + 2 * i + 3 * j));
    let bias = Array1::from_shape_fn(128, |j| number(j + 1));
    let upload = |array: &Array3<i32>| DeviceArray::from_ndarray(stream, array).unwrap();
    let (x, y, residual, mut out) = (upload(&a), upload(&b), upload(&old), upload(&old));
    let of_columns = DeviceArray::from_ndarray(stream, &bias).unwrap();
    let product = x.fused_batched_matmul(&y).bias(&of_columns).relu().residual(&residual);
    product.alpha(3).accumulate_into(&mut out, -2).unwrap();
    let wanted = Array3::from_shape_fn((batch, 128, 128), |at| {
        let (p, i, j) = at;
        let sum = a[[p, i, 0]] * b[[0, 0, j]] + a[[p, i, 1]] * b[[0, 1, j]];
        (3 * sum - 2 * old[at] + bias[j]).max(0) + old[at]
    });
    assert_eq!(out.to_ndarray().unwrap(), wanted);
}

/// NaN is NaN to every function, of whatever part it comes; functions of infinities are their limits.
#[test]
fn what_is_not_finite() {
    fn check<T: Number>() {
        for device in with_turing() {
            let stream = device.default_stream();
            let upload = |array: Array3<T>| DeviceArray::from_ndarray(stream, &array).unwrap();
            let (zeros, ones) = (
                Array3::from_elem((1, 16, 8), T::of(0.0)),
                Array3::from_elem((1, 8, 16), T::of(1.0)),
            );
            let (x, y) = (upload(zeros), upload(ones));
            let mut bias = Array1::from_elem(16, T::of(1.0));
            bias[3] = T::of(f64::NAN);
            bias[4] = T::of(f64::INFINITY);
            bias[5] = T::of(f64::NEG_INFINITY);
            let bias = DeviceArray::from_ndarray(stream, &bias).unwrap();
            for function in [Relu, Gelu, GeluTanh, Silu] {
                let got = function
                    .name(x.fused_batched_matmul(&y).bias(&bias))
                    .compute()
                    .unwrap()
                    .to_ndarray()
                    .unwrap();
                let column = |j| got.slice(s![0, .., j]).mapv(T::to);
                assert!(column(3).iter().all(|x: &f64| x.is_nan()), "{function:?}");
                assert!(column(4).iter().all(|&x| x == f64::INFINITY), "{function:?}");
                assert!(column(5).iter().all(|&x| x == 0.0), "{function:?}");
            }
            let got = x
                .fused_batched_matmul(&y)
                .relu()
                .residual(&bias)
                .compute()
                .unwrap()
                .to_ndarray()
                .unwrap();
            assert!(got[[0, 7, 3]].to().is_nan() && got[[0, 7, 2]].to() == 1.0);
        }
    }
    check::<f32>();
    check::<f64>();
    check::<f16>();
    check::<bf16>();
}

/// Results in views with gaps, that begin anywhere, and addends that interlace with the result.
#[test]
fn results_and_addends_in_views() {
    let (a, b) = (stack::<bf16>((1, 20, 16), 1), stack::<bf16>((1, 16, 24), 2));
    let both = stack::<bf16>((1, 20, 48), 3);
    for device in with_tensor_cores() {
        let upload = |array: &Array3<bf16>| DeviceArray::from_ndarray(device.default_stream(), array).unwrap();
        let (x, y, z) = (upload(&a), upload(&b), upload(&both));
        let mut out = upload(&both);
        let mut half = out.slice_mut(s![.., .., 1..;2]).unwrap();
        let bias: DeviceView<'_, bf16, Ix3> = z.slice(s![.., .., ..;2]).unwrap();
        x.fused_batched_matmul(&y)
            .bias(&bias)
            .relu()
            .accumulate_into(&mut half, 0.5)
            .unwrap();
        let got = out.to_ndarray().unwrap();
        assert_eq!(got.slice(s![.., .., ..;2]), both.slice(s![.., .., ..;2]));
        let case = Case {
            alpha: 1.0,
            beta: 0.5,
            function: Relu,
            bias: Some(both.slice(s![.., .., ..;2])),
            residual: None,
            operands: 0.0,
        };
        let old = both.slice(s![.., .., 1..;2]).to_owned();
        case.check(got.slice(s![.., .., 1..;2]), &Sums::new(&a, &b), &old, "odd columns");
    }
}

/// An addend whose neighbours are no aligned pairs, which Hopper's kernel does not load.
#[test]
fn addends_at_odd_places() {
    let (a, b) = (stack::<bf16>((1, 20, 16), 1), stack::<bf16>((1, 16, 24), 2));
    let (wide, old) = (stack::<bf16>((1, 20, 26), 3), stack::<bf16>((1, 20, 24), 4));
    let sums = Sums::new(&a, &b);
    for device in with_tensor_cores() {
        let upload = |array: &Array3<bf16>| DeviceArray::from_ndarray(device.default_stream(), array).unwrap();
        let (x, y, z) = (upload(&a), upload(&b), upload(&wide));
        for first in [0, 1, 2] {
            let columns = s![.., .., first..first + 24];
            let mut out = upload(&old);
            x.fused_batched_matmul(&y)
                .alpha(0.5)
                .residual(&z.slice(columns).unwrap())
                .accumulate_into(&mut out, -0.5)
                .unwrap();
            let case = Case {
                alpha: 0.5,
                beta: -0.5,
                function: Identity,
                bias: None,
                residual: Some(wide.slice(columns)),
                operands: 0.0,
            };
            let what = format!("from column {first} on");
            case.check(out.to_ndarray().unwrap().view(), &sums, &old, &what);
        }
    }
}

/// Nothing to sum: what is left is the epilogue of zeros.
#[test]
fn nothing_to_sum_and_nothing_to_write() {
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let (a, b) = (
            DeviceArray::<f16, _>::zeros(stream, (5, 0)).unwrap(),
            DeviceArray::<f16, _>::zeros(stream, (0, 8)).unwrap(),
        );
        let bias = DeviceArray::from_elem(stream, 8, f16::ONE).unwrap();
        let got = a
            .fused_matmul(&b)
            .bias(&bias)
            .relu()
            .compute()
            .unwrap()
            .to_ndarray()
            .unwrap();
        assert!(got.iter().all(|&x| x == f16::ONE));
        let empty = DeviceArray::<f16, _>::zeros(stream, (0, 5)).unwrap();
        let none = DeviceArray::<f16, _>::zeros(stream, 0).unwrap();
        assert_eq!(empty.fused_matmul(&a).bias(&none).compute().unwrap().shape(), [0, 0]);
    }
}

#[test]
fn shapes_that_do_not_fit() {
    let stream = device().default_stream();
    let zeros = |rows, columns| DeviceArray::<f32, _>::zeros(stream, (rows, columns)).unwrap();
    let (a, b, wrong) = (zeros(2, 3), zeros(3, 4), zeros(4, 2));
    let mut out = DeviceArray::from_elem(stream, (2, 4), 7.0).unwrap();
    let error = a.fused_matmul(&b).bias(&wrong).compute_into(&mut out).unwrap_err();
    let Error::Shape {
        operation,
        given,
        wanted,
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (operation, given.as_str(), wanted.as_str()),
        (
            "fused_matmul",
            "a bias of shape [4, 2] for a product of shape [2, 4]",
            "a bias that broadcasts to the product's shape"
        )
    );
    let error = a
        .fused_matmul(&b)
        .residual(&wrong)
        .accumulate_into(&mut out, 1.0)
        .unwrap_err();
    assert!(error.to_string().contains("a residual of shape [4, 2]"), "{error}");
    let error = a.fused_matmul(&wrong).bias(&wrong).compute().err().unwrap();
    assert!(error.to_string().contains("shapes [2, 3] and [4, 2]"), "{error}");
    let error = a.fused_matmul(&b).compute_into(&mut zeros(2, 3)).unwrap_err();
    assert!(error.to_string().contains("into [2, 3]"), "{error}");
    assert!(out.to_ndarray().unwrap().iter().all(|&x| x == 7.0));
}

/// `max(x, 0)` is the same of both signs of 0, in products and of arrays.
#[test]
fn relu_of_minus_zero_is_that_of_arrays() {
    fn check<T: Number>(device: &Device) {
        let zeros = Array2::from_elem((20, 24), T::of(0.0));
        let zeros = DeviceArray::from_ndarray(device.default_stream(), &zeros).unwrap();
        // One row, and several.
        for rows in [1, 20] {
            let a = zeros.slice(s![..rows, ..20]).unwrap();
            let product = || a.fused_matmul(&zeros).alpha(T::scalar(-1.0));
            let (sums, relu) = (product().compute().unwrap(), product().relu().compute().unwrap());
            let of_arrays = sums.relu().unwrap();
            for (got, is_negative) in [(&sums, true), (&relu, false), (&of_arrays, false)] {
                let got = got.to_ndarray().unwrap().mapv(T::to);
                assert!(got.iter().all(|x| *x == 0.0 && x.is_sign_negative() == is_negative));
            }
        }
    }
    for device in with_turing() {
        check::<f16>(&device);
        check::<bf16>(&device);
        check::<f32>(&device);
        check::<f64>(&device);
    }
}
