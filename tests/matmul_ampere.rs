// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for the tensor cores of Ampere and later, with tiles of each width, on the simulated GPU and on the tests'
//! device if it has them, within the bound of sums in f32 that are rounded once. matmul_fused.rs has its epilogue.

use crate::common::*;
use cuda_std::launch::Kernel;
use cuda_std::wgmma::Tf32;
use half::{bf16, f16};
use kernels_gpu::compiled::{AmpereGemm, MmaParams};
use kernels_gpu::matmul::epilogue::EpiloguePlan;
use kernels_gpu::matmul::mma::{MmaShape, rows, shared_bytes, threads};
use ndarray::{Array3, ArrayView3, Axis, Dimension, Ix3, s};
use proptest::prelude::*;
use warpsmith::{Device, DeviceArray, Element, LaunchConfig, Stream};

fn devices() -> Vec<Device> {
    let mut devices = vec![Device::simulator().as_ampere().unwrap()];
    if device().properties().tensor_cores.is_some() {
        devices.push(device().as_ampere().unwrap());
    }
    devices
}

/// A number of a product or a result.
trait Value: Element {
    /// By how much an element is off of what is multiplied: the unit roundoff of the type that it is rounded to.
    const READ: f64;
    /// By how much a result is off of the sum that it is rounded from, and at least.
    const WRITTEN: [f64; 2];
    fn of(x: f32) -> Self;
    fn to(self) -> f64;
}

impl Value for f32 {
    // What is multiplied is TF32.
    const READ: f64 = 1.0 / 2048.0;
    const WRITTEN: [f64; 2] = [0.0, 0.0];

    fn of(x: f32) -> Self {
        x
    }

    fn to(self) -> f64 {
        self.into()
    }
}

impl Value for f16 {
    const READ: f64 = 0.0;
    const WRITTEN: [f64; 2] = [1.0 / 2048.0, 1.0 / 33_554_432.0];

    fn of(x: f32) -> Self {
        f16::from_f32(x)
    }

    fn to(self) -> f64 {
        self.to_f64()
    }
}

impl Value for bf16 {
    const READ: f64 = 0.0;
    const WRITTEN: [f64; 2] = [1.0 / 256.0, 0.0];

    fn of(x: f32) -> Self {
        bf16::from_f32(x)
    }

    fn to(self) -> f64 {
        self.to_f64()
    }
}

fn stack<T: Value>(shape: (usize, usize, usize), seed: u64) -> Array3<T> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn(shape, || T::of(rng.random::<f32>() - 0.5))
}

/// What a product is scaled by, and its old elements.
#[derive(Clone, Copy, Debug)]
struct Scaling {
    alpha: f32,
    beta: f32,
    old: f32,
}

const PLAIN: Scaling = Scaling {
    alpha: 1.0,
    beta: 0.0,
    old: f32::NAN,
};

/// Checks `alpha · a b + beta · old`: a tensor core adds the products with at least 23 bits, and truncates, so that a sum
/// of k of them is off by at most `k 2⁻²³ Σ|a||b|` to first order (M. Fasi et al., "Numerical behavior of NVIDIA tensor
/// cores", 2021), and twice that with what the second order and the scaling add. Operands that are rounded are off before.
#[track_caller]
fn check<T: Value, C: Value>(
    got: ArrayView3<'_, C>,
    a: ArrayView3<'_, T>,
    b: ArrayView3<'_, T>,
    scaling: Scaling,
    what: &str,
) {
    let k = a.len_of(Axis(2));
    let (alpha, scaled) = (
        f64::from(scaling.alpha),
        match scaling.beta {
            0.0 => 0.0,
            beta => f64::from(beta) * f64::from(scaling.old),
        },
    );
    let read = 2.0 * T::READ + T::READ * T::READ;
    let [of_result, least] = C::WRITTEN;
    let [sums, magnitudes] = sums_of_products(got.len_of(Axis(0)), [a, b], T::to);
    for ((at, got), (sum, magnitude)) in got.indexed_iter().zip(sums.iter().zip(&magnitudes)) {
        let wanted = alpha * sum + scaled;
        let magnitude = alpha.abs() * magnitude;
        let bound = read * magnitude + 2.0 * (k as f64 + 2.0) * 2f64.powi(-23) * (magnitude + scaled.abs());
        let bound = bound + of_result * (wanted.abs() + bound) + least;
        let error = (got.to() - wanted).abs();
        assert!(
            error <= bound,
            "{what}: {at:?}: {}, wanted {wanted}, bound {bound:e}",
            got.to()
        );
    }
}

/// A stack on the device as the kernel takes it: along its lines or along k, which are last then, with lines that are longer
/// than the matrices' by what aligns them and 16 bytes.
struct Operand<T> {
    array: DeviceArray<T, Ix3>,
    along_lines: bool,
}

impl<T: Value> Operand<T> {
    /// Of products, lines and k. What is behind the lines is not to be multiplied.
    fn new(stream: &Stream, of: ArrayView3<'_, T>, along_lines: bool) -> Self {
        let of = if along_lines { of.permuted_axes([0, 2, 1]) } else { of };
        let (batch, rows, last) = of.dim();
        let unit = 16 / size_of::<T>();
        let mut longer = Array3::from_elem((batch, rows, last.next_multiple_of(unit) + unit), T::of(f32::NAN));
        longer.slice_mut(s![.., .., ..last]).assign(&of);
        Self {
            array: DeviceArray::from_ndarray(stream, &longer).unwrap(),
            along_lines,
        }
    }

    /// From product to product and from row to row.
    fn strides(&self) -> [usize; 2] {
        let (batch, rows, last) = self.array.raw_dim().into_pattern();
        [if batch == 1 { 0 } else { rows * last }, last]
    }
}

/// Launches `K`, whose tiles have so many columns.
fn launch<K: Kernel<Params = MmaParams<T, C>>, T: Value, C: Value>(
    columns: usize,
    [a, b]: [&Operand<T>; 2],
    k: usize,
    c: &mut DeviceArray<C, Ix3>,
    scaling: Scaling,
) {
    let stream = c.stream().clone();
    let (batch, m, n) = c.raw_dim().into_pattern();
    let shape = MmaShape {
        batch: batch as u32,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        a: a.strides(),
        b: b.strides(),
        a_along_m: a.along_lines.into(),
        b_along_n: b.along_lines.into(),
    };
    let blocks = batch * m.div_ceil(rows(columns)) * n.div_ceil(columns);
    let config = LaunchConfig {
        dynamic_shared: shared_bytes(columns, size_of::<T>()),
        ..LaunchConfig::new(blocks as u32, threads(columns) as u32)
    };
    let (plan, none) = (EpiloguePlan::default(), DeviceArray::<C, _>::zeros(&stream, 0).unwrap());
    let args = (
        &a.array,
        &b.array,
        c,
        shape,
        scaling.alpha,
        scaling.beta,
        plan,
        &none,
        &none,
    );
    // SAFETY: threads, blocks and shared memory are what the kernel is written for, and the operands lie as the shape says.
    unsafe { stream.launch_unchecked::<K>(&config, args) }.unwrap();
}

/// Tiles of each width, with each operand along k and along its lines.
fn check_kernels<T: AmpereGemm<C, Element: Value>, C: Value>(
    [a_batch, b_batch]: [usize; 2],
    [m, n, k]: [usize; 3],
    scaling: Scaling,
) {
    let (a, b) = (
        stack::<T::Element>((a_batch, m, k), 1),
        stack::<T::Element>((b_batch, k, n), 2),
    );
    for device in devices() {
        let stream = device.default_stream();
        for (a_along_m, b_along_n) in [(false, false), (false, true), (true, false), (true, true)] {
            let x = Operand::new(stream, a.view(), a_along_m);
            let y = Operand::new(stream, b.view().permuted_axes([0, 2, 1]), b_along_n);
            for columns in [64, 128, 256] {
                let mut c = DeviceArray::from_elem(stream, (a_batch.max(b_batch), m, n), C::of(scaling.old)).unwrap();
                match columns {
                    64 => launch::<T::N64, _, _>(columns, [&x, &y], k, &mut c, scaling),
                    128 => launch::<T::N128, _, _>(columns, [&x, &y], k, &mut c, scaling),
                    _ => launch::<T::N256, _, _>(columns, [&x, &y], k, &mut c, scaling),
                }
                let what = format!("{m} × {n} × {k} by {columns} columns, along m {a_along_m}, along n {b_along_n}");
                check(c.to_ndarray().unwrap().view(), a.view(), b.view(), scaling, &what);
            }
        }
    }
}

#[test]
fn full_tiles() {
    check_kernels::<bf16, bf16>([1, 1], [128, 256, 64], PLAIN);
    check_kernels::<Tf32, f32>([1, 1], [128, 256, 32], PLAIN);
}

/// Tiles and stages that are not full, and more of these than the ring has.
#[test]
fn edges() {
    for shape in [[1, 1, 1], [3, 5, 7], [65, 129, 34], [33, 16, 201]] {
        check_kernels::<f16, f16>([1, 1], shape, PLAIN);
        check_kernels::<Tf32, f32>([1, 1], shape, PLAIN);
    }
    check_kernels::<bf16, f32>([1, 1], [130, 260, 40], PLAIN);
}

#[test]
fn batches_and_one_matrix_for_all() {
    check_kernels::<bf16, bf16>([3, 3], [20, 24, 40], PLAIN);
    check_kernels::<f16, f32>([1, 2], [70, 8, 24], PLAIN);
    check_kernels::<Tf32, f32>([2, 1], [9, 66, 16], PLAIN);
}

/// Of results that are stored four at a time, and one by one.
#[test]
fn alpha_and_beta() {
    for (alpha, beta, old) in [(-1.5, 0.0, f32::NAN), (0.25, -0.75, 3.0)] {
        let scaling = Scaling { alpha, beta, old };
        for n in [20, 21] {
            check_kernels::<bf16, bf16>([1, 1], [70, n, 24], scaling);
            check_kernels::<f16, f16>([1, 1], [6, n, 24], scaling);
            check_kernels::<Tf32, f32>([1, 1], [19, n, 10], scaling);
        }
    }
}

/// Rows of a matrix that are far apart, the last of them 2^32 bytes from the first on a GPU that has the memory.
#[test]
fn rows_that_are_far_apart() {
    for device in devices() {
        let stream = device.default_stream();
        let apart = match device.memory().unwrap().free {
            16_000_000_000.. if !device.is_simulator() => 1 << 29,
            _ => 1 << 16,
        };
        let a = stack::<bf16>((1, 5, 16), 3);
        let b = stack::<bf16>((1, 16, 8), 4);
        let mut x = DeviceArray::<bf16, _>::zeros(stream, (5, apart)).unwrap();
        x.slice_mut(s![.., 8..24])
            .unwrap()
            .assign_ndarray(&a.index_axis(Axis(0), 0))
            .unwrap();
        let y = DeviceArray::from_ndarray(stream, &b.index_axis(Axis(0), 0)).unwrap();
        let part = x.slice(s![.., 8..24]).unwrap();
        let product = part.matmul(&y).unwrap().to_ndarray().unwrap();
        check(product.view().insert_axis(Axis(0)), a.view(), b.view(), PLAIN, "rows");
        let product = y.t().matmul(&part.t()).unwrap().to_ndarray().unwrap();
        let (a, b) = (a.view().permuted_axes([0, 2, 1]), b.view().permuted_axes([0, 2, 1]));
        check(product.view().insert_axis(Axis(0)), b, a, PLAIN, "columns");
    }
}
