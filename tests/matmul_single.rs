// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f32` by Hopper's own kernel, simulated and real, to the last bit: each sum is a chain in the order of k.

use crate::common::*;
use cuda_std::launch::Kernel;
use cuda_std::tma::Swizzle;
use kernels_gpu::compiled::SimtParams;
use kernels_gpu::matmul::simt::{SimtShape, gemm_simt, shared_bytes, threads, tile_k, tile_m, tile_n};
use ndarray::{Array3, ArrayView3, Axis, Ix3, s};
use proptest::prelude::*;
use warpsmith::{Device, DeviceArray, LaunchConfig, Stream};

/// The simulated Hopper, and the tests' device if it is one.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::simulated_hopper()];
    if device().properties().tensor_cores == Some((9, 0)) {
        devices.push(device().clone());
    }
    devices
}

fn stack(shape: (usize, usize, usize), seed: u64) -> Array3<f32> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn(shape, || rng.random::<f32>() - 0.5)
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

impl Scaling {
    fn of(self, sum: f32) -> f32 {
        match self.beta {
            0.0 => self.alpha * sum,
            beta => beta.mul_add(self.old, self.alpha * sum),
        }
    }
}

/// Checks `alpha · a b + beta · old`.
#[track_caller]
fn check(got: ArrayView3<'_, f32>, a: ArrayView3<'_, f32>, b: ArrayView3<'_, f32>, scaling: Scaling, what: &str) {
    for ((p, i, j), &got) in got.indexed_iter() {
        let row = a.index_axis(Axis(0), p % a.len_of(Axis(0)));
        let column = b.index_axis(Axis(0), p % b.len_of(Axis(0)));
        let (row, column) = (row.row(i), column.column(j));
        let terms = || row.iter().zip(&column);
        let wanted = scaling.of(terms().fold(0.0, |sum, (&a, &b)| a.mul_add(b, sum)));
        assert_eq!(
            got.to_bits(),
            wanted.to_bits(),
            "{what}: ({p}, {i}, {j}): {got}, wanted {wanted}"
        );
    }
}

/// Products, k and lines on the device as the kernel takes them, with lines that are longer than the matrices'.
fn operand(stream: &Stream, of: ArrayView3<'_, f32>) -> DeviceArray<f32, Ix3> {
    let (batch, k, lines) = of.dim();
    let mut longer = Array3::from_elem((batch, k, lines.next_multiple_of(4) + 4), f32::NAN);
    longer.slice_mut(s![.., .., ..lines]).assign(&of);
    DeviceArray::from_ndarray(stream, &longer).unwrap()
}

/// Launches `K`, of which a thread has so many columns, with a grid of `blocks`.
fn launch<K: Kernel<Params = SimtParams>>(
    columns: usize,
    blocks: u32,
    [a, b]: [&DeviceArray<f32, Ix3>; 2],
    c: &mut DeviceArray<f32, Ix3>,
    scaling: Scaling,
) {
    let stream = c.stream().clone();
    let [batch, m, n] = *c.shape() else { unreachable!() };
    let k = a.shape()[1];
    let (a_view, b_view) = (a.slice(s![.., .., ..m]).unwrap(), b.slice(s![.., .., ..n]).unwrap());
    let tile = |lines| [1, tile_k(columns), lines];
    let (x, y) = (
        a_view.tensor_map(&tile(tile_m(columns)), Swizzle::None).unwrap(),
        b_view.tensor_map(&tile(tile_n(columns)), Swizzle::None).unwrap(),
    );
    let shape = SimtShape {
        batch: batch as u32,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        a_step: (a.shape()[0] > 1).into(),
        b_step: (b.shape()[0] > 1).into(),
    };
    let config = LaunchConfig {
        dynamic_shared: shared_bytes(columns),
        ..LaunchConfig::new(blocks, threads(columns) as u32)
    };
    // SAFETY: threads, shared memory and the maps' tiles are what the kernel is written for.
    unsafe { stream.launch_unchecked::<K>(&config, (&x, &y, c, shape, scaling.alpha, scaling.beta)) }.unwrap();
}

/// Tiles of either size.
fn check_kernels([a_batch, b_batch]: [usize; 2], [m, n, k]: [usize; 3], blocks: u32, scaling: Scaling) {
    let (a, b) = (stack((a_batch, m, k), 1), stack((b_batch, k, n), 2));
    for device in devices() {
        let stream = device.default_stream();
        let x = operand(stream, a.view().permuted_axes([0, 2, 1]));
        let y = operand(stream, b.view());
        for columns in [8, 16] {
            let mut c = DeviceArray::from_elem(stream, (a_batch.max(b_batch), m, n), scaling.old).unwrap();
            match columns {
                8 => launch::<gemm_simt<8>>(columns, blocks, [&x, &y], &mut c, scaling),
                _ => launch::<gemm_simt<16>>(columns, blocks, [&x, &y], &mut c, scaling),
            }
            let c = c.to_ndarray().unwrap();
            let what = format!("{m} × {n} × {k} by {columns} columns");
            check(c.view(), a.view(), b.view(), scaling, &what);
        }
    }
}

#[test]
fn full_tiles() {
    check_kernels([1, 1], [128, 256, 16], 1, PLAIN);
}

/// Several tiles of a block, and stages more than once.
#[test]
fn tiles_that_are_not_full() {
    check_kernels([1, 1], [65, 129, 18], 1, PLAIN);
    check_kernels([1, 1], [3, 5, 7], 1, PLAIN);
    check_kernels([1, 1], [33, 16, 150], 1, PLAIN);
}

#[test]
fn batches_and_one_matrix_for_all() {
    check_kernels([3, 3], [20, 24, 5], 2, PLAIN);
    check_kernels([1, 2], [17, 8, 24], 1, PLAIN);
    check_kernels([2, 1], [9, 15, 16], 3, PLAIN);
}

#[test]
fn alpha_and_beta() {
    for (alpha, beta, old) in [(-1.5, 0.0, f32::NAN), (0.1, -0.7, 3.0)] {
        check_kernels([1, 1], [19, 24, 10], 1, Scaling { alpha, beta, old });
        check_kernels([1, 1], [6, 21, 3], 1, Scaling { alpha, beta, old });
    }
}

/// Through the operations: by views of any strides, which the tensor memory accelerator has as they lie, or in a copy.
#[test]
fn views_of_any_strides() {
    let (a, b) = (stack((2, 130, 23), 3), stack((2, 23, 150), 4));
    for device in devices() {
        let stream = device.default_stream();
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let left = [s![.., .., ..], s![.., .., 1..20], s![..1, ..;-1, ..;2]];
        let right = [s![.., .., ..], s![.., 1..20, 1..140], s![.., ..;2, ..]];
        for (i, (left, right)) in left.into_iter().zip(right).enumerate() {
            let product = x.slice(left).unwrap().batched_matmul(&y.slice(right).unwrap()).unwrap();
            let (a, b) = (a.slice(left), b.slice(right));
            check(product.to_ndarray().unwrap().view(), a, b, PLAIN, &format!("views {i}"));
        }
    }
}
