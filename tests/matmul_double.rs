// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f64` on tensor cores, simulated and real, Hopper's and by the instructions of a warp, to the last bit: each sum is
//! a chain in the order of k.

use crate::common::device;
use crate::matmul_chain::devices;
use crate::matmul_chain::double::*;
use cuda_std::launch::Kernel;
use cuda_std::tma::Swizzle;
use cuda_std::wgmma::{KMajor, MnMajor};
use kernels_gpu::compiled::DmmaParams;
use kernels_gpu::matmul::dmma::{DmmaShape, Side, THREADS, TILE_K, TILE_N, WARPS, gemm_dmma, shared_bytes};
use kernels_gpu::matmul::epilogue::EpiloguePlan;
use kernels_gpu::matmul::mma::double::{SIDE, gemm_f64_mma};
use kernels_gpu::matmul::mma::{MmaShape, Narrow, shared_bytes_of, threads_of};
use ndarray::{Array1, Array3, ArrayView3, Ix3, s};
use warpsmith::{Device, DeviceArray, DeviceView, LaunchConfig, Stream};

/// A stack on the device as the kernel takes it: along its lines or along k, which are last then, with lines that are longer
/// than the matrices' and of an even length.
struct Operand {
    array: DeviceArray<f64, Ix3>,
    along_lines: bool,
    last: usize,
}

impl Operand {
    /// Of products, lines and k.
    fn new(stream: &Stream, of: ArrayView3<'_, f64>, along_lines: bool) -> Self {
        let of = if along_lines { of.permuted_axes([0, 2, 1]) } else { of };
        let (batch, rows, last) = of.dim();
        let mut longer = Array3::from_elem((batch, rows, last.next_multiple_of(2) + 2), f64::NAN);
        longer.slice_mut(s![.., .., ..last]).assign(&of);
        Self {
            array: DeviceArray::from_ndarray(stream, &longer).unwrap(),
            along_lines,
            last,
        }
    }

    fn view(&self) -> DeviceView<'_, f64, Ix3> {
        self.array.slice(s![.., .., ..self.last]).unwrap()
    }

    /// The tile of the kernel's map, of so many lines.
    fn tile(&self, lines: usize) -> [usize; 3] {
        [1, if self.along_lines { 16 } else { lines }, TILE_K]
    }
}

/// The grid's blocks, and the number of tiles that are cut into a share for each.
#[derive(Clone, Copy)]
struct Blocks {
    count: u32,
    cut: u32,
}

const ONE_BLOCK: Blocks = Blocks { count: 1, cut: 0 };

/// Launches `K`, whose tiles have so many rows.
fn launch<K: Kernel<Params = DmmaParams>>(
    rows: usize,
    blocks: Blocks,
    [a, b]: [&Operand; 2],
    c: &mut DeviceArray<f64, Ix3>,
    scaling: Scaling,
) {
    let stream = c.stream().clone();
    let [batch, m, n] = *c.shape() else { unreachable!() };
    let k = if a.along_lines { a.array.shape()[1] } else { a.last };
    let (a_view, b_view) = (a.view(), b.view());
    let (x, y) = (
        a_view.tensor_map(&a.tile(rows), Swizzle::B128).unwrap(),
        b_view.tensor_map(&b.tile(TILE_N), Swizzle::B128).unwrap(),
    );
    let tiles = (batch * m.div_ceil(rows) * n.div_ceil(TILE_N)) as u32;
    let shape = DmmaShape {
        whole: tiles - blocks.cut,
        share: (blocks.cut * k.div_ceil(TILE_K) as u32).div_ceil(blocks.count),
        batch: batch as u32,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        a_step: (a.array.shape()[0] > 1).into(),
        b_step: (b.array.shape()[0] > 1).into(),
    };
    let config = LaunchConfig {
        dynamic_shared: shared_bytes(rows),
        ..LaunchConfig::new(blocks.count, THREADS as u32)
    };
    let added: Vec<f64> = scaling.added.into_iter().collect();
    let (none, added) = (
        DeviceArray::zeros(&stream, 0).unwrap(),
        DeviceArray::from_ndarray(&stream, &Array1::from(added)).unwrap(),
    );
    let count = blocks.count as usize;
    let mut partials = DeviceArray::from_elem(&stream, count * rows * TILE_N, f64::NAN).unwrap();
    let mut flags = DeviceArray::zeros(&stream, count * WARPS).unwrap();
    let Scaling { alpha, beta, .. } = scaling;
    let args = (
        &x,
        &y,
        c,
        shape,
        alpha,
        beta,
        EpiloguePlan::default(),
        &none,
        &added,
        &mut partials,
        &mut flags,
    );
    // SAFETY: threads, shared memory and the maps' tiles are what the kernel is written for, the one element that is
    // added is that of all places, and there is room for all sums and flags.
    unsafe { stream.launch_unchecked::<K>(&config, args) }.unwrap();
    assert_eq!(flags.to_ndarray().unwrap(), Array1::<u32>::zeros(count * WARPS));
}

fn launch_by<A: Side, B: Side>(
    rows: usize,
    blocks: Blocks,
    operands: [&Operand; 2],
    c: &mut DeviceArray<f64, Ix3>,
    scaling: Scaling,
) where
    gemm_dmma<A, B, 32>: Kernel<Params = DmmaParams>,
    gemm_dmma<A, B, 64>: Kernel<Params = DmmaParams>,
    gemm_dmma<A, B, 128>: Kernel<Params = DmmaParams>,
{
    match rows {
        32 => launch::<gemm_dmma<A, B, 32>>(rows, blocks, operands, c, scaling),
        64 => launch::<gemm_dmma<A, B, 64>>(rows, blocks, operands, c, scaling),
        _ => launch::<gemm_dmma<A, B, 128>>(rows, blocks, operands, c, scaling),
    }
}

/// The simulated Ampere, and the tests' device by its instructions, if it has them.
fn devices_with_warps() -> Vec<Device> {
    let mut devices = vec![Device::simulator().as_ampere().unwrap()];
    if device().properties().tensor_cores >= Some((8, 0)) {
        devices.push(device().as_ampere().unwrap());
    }
    devices
}

/// Launches the kernel of instructions of a warp.
fn launch_warps([a, b]: [&Operand; 2], c: &mut DeviceArray<f64, Ix3>, scaling: Scaling) {
    let stream = c.stream().clone();
    let [batch, m, n] = *c.shape() else { unreachable!() };
    let k = if a.along_lines { a.array.shape()[1] } else { a.last };
    let strides = |of: &Operand| {
        let [batch, rows, last] = *of.array.shape() else {
            unreachable!()
        };
        [if batch == 1 { 0 } else { rows * last }, last]
    };
    let shape = MmaShape {
        batch: batch as u32,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        a: strides(a),
        b: strides(b),
        a_along_m: a.along_lines.into(),
        b_along_n: b.along_lines.into(),
    };
    let blocks = batch * m.div_ceil(SIDE) * n.div_ceil(SIDE);
    let config = LaunchConfig {
        dynamic_shared: shared_bytes_of::<f64, Narrow>(SIDE),
        ..LaunchConfig::new(blocks as u32, threads_of::<Narrow>(SIDE) as u32)
    };
    let added: Vec<f64> = scaling.added.into_iter().collect();
    let (none, added) = (
        DeviceArray::zeros(&stream, 0).unwrap(),
        DeviceArray::from_ndarray(&stream, &Array1::from(added)).unwrap(),
    );
    let Scaling { alpha, beta, .. } = scaling;
    let (a, b) = (&a.array, &b.array);
    let args = (a, b, c, shape, alpha, beta, EpiloguePlan::default(), &none, &added);
    // SAFETY: threads, blocks and shared memory are what the kernel is written for, the operands lie as the shape says, and the
    // one element that is added is that of all places.
    unsafe { stream.launch_unchecked::<gemm_f64_mma>(&config, args) }.unwrap();
}

/// With each operand along k and along its lines: what `launch` makes of the operands in the result, `by` what it is called.
fn check_layouts(
    devices: &[Device],
    by: &str,
    [a_batch, b_batch]: [usize; 2],
    [m, n, k]: [usize; 3],
    scaling: Scaling,
    launch: impl Fn([&Operand; 2], &mut DeviceArray<f64, Ix3>),
) {
    let (a, b) = (stack((a_batch, m, k), 1), stack((b_batch, k, n), 2));
    for device in devices {
        let stream = device.default_stream();
        for (a_along_m, b_along_n) in [(false, false), (false, true), (true, false), (true, true)] {
            let x = Operand::new(stream, a.view(), a_along_m);
            let y = Operand::new(stream, b.view().permuted_axes([0, 2, 1]), b_along_n);
            let mut c = DeviceArray::from_elem(stream, (a_batch.max(b_batch), m, n), scaling.old).unwrap();
            launch([&x, &y], &mut c);
            let what = format!("{m} × {n} × {k} by {by}, along m {a_along_m}, along n {b_along_n}");
            check(c.to_ndarray().unwrap().view(), a.view(), b.view(), scaling, &what);
        }
    }
}

/// By the instructions of a warp.
fn check_warps(batches: [usize; 2], shape: [usize; 3], scaling: Scaling) {
    check_layouts(
        &devices_with_warps(),
        "instructions of a warp",
        batches,
        shape,
        scaling,
        |operands, c| launch_warps(operands, c, scaling),
    );
}

#[test]
fn instructions_of_a_warp() {
    check_warps([1, 1], [128, 128, 8], PLAIN);
    for shape in [[1, 1, 1], [65, 129, 18], [130, 16, 41]] {
        check_warps([1, 1], shape, PLAIN);
    }
    check_warps([3, 3], [20, 24, 5], PLAIN);
    check_warps([1, 2], [17, 8, 24], PLAIN);
    for scaling in SCALINGS {
        check_warps([1, 1], [19, 22, 10], scaling);
        check_warps([1, 1], [6, 21, 3], scaling);
    }
}

/// By tiles of each size.
fn check_kernels(batches: [usize; 2], shape: [usize; 3], blocks: Blocks, scaling: Scaling) {
    for rows in [32, 64, 128] {
        let launch = |operands: [&Operand; 2], c: &mut DeviceArray<f64, Ix3>| match operands.map(|of| of.along_lines) {
            [false, false] => launch_by::<KMajor, KMajor>(rows, blocks, operands, c, scaling),
            [false, true] => launch_by::<KMajor, MnMajor>(rows, blocks, operands, c, scaling),
            [true, false] => launch_by::<MnMajor, KMajor>(rows, blocks, operands, c, scaling),
            [true, true] => launch_by::<MnMajor, MnMajor>(rows, blocks, operands, c, scaling),
        };
        check_layouts(&devices(), &format!("{rows} rows"), batches, shape, scaling, launch);
    }
}

#[test]
fn full_tiles() {
    check_kernels([1, 1], [128, 128, 16], ONE_BLOCK, PLAIN);
}

/// Several tiles of a block, and stages more than once.
#[test]
fn tiles_that_are_not_full() {
    check_kernels([1, 1], [65, 129, 18], ONE_BLOCK, PLAIN);
    check_kernels([1, 1], [3, 5, 7], ONE_BLOCK, PLAIN);
    check_kernels([1, 1], [33, 16, 130], ONE_BLOCK, PLAIN);
}

#[test]
fn batches_and_one_matrix_for_all() {
    check_kernels([3, 3], [20, 24, 5], Blocks { count: 2, cut: 0 }, PLAIN);
    check_kernels([1, 2], [17, 8, 24], ONE_BLOCK, PLAIN);
    check_kernels([2, 1], [9, 15, 16], Blocks { count: 3, cut: 0 }, PLAIN);
}

/// Blocks that begin a tile, end one, and compute others whole, before that and in between; the last share may be shorter.
#[test]
fn tiles_that_are_cut_along_k() {
    let blocks = |count, cut| Blocks { count, cut };
    check_kernels([1, 1], [20, 300, 40], blocks(2, 3), PLAIN);
    check_kernels([5, 1], [9, 15, 36], blocks(2, 3), PLAIN);
    check_kernels([4, 4], [7, 130, 33], blocks(3, 5), PLAIN);
    // No cut is within a tile; and blocks for which nothing is left.
    check_kernels([4, 1], [5, 6, 20], blocks(2, 4), PLAIN);
    check_kernels([5, 1], [5, 6, 16], blocks(4, 5), PLAIN);
    for scaling in SCALINGS {
        check_kernels([3, 1], [6, 21, 40], blocks(2, 3), scaling);
    }
}

#[test]
fn alpha_and_beta_and_an_epilogue() {
    for scaling in SCALINGS {
        check_kernels([1, 1], [19, 22, 10], ONE_BLOCK, scaling);
        check_kernels([1, 1], [6, 21, 3], ONE_BLOCK, scaling);
    }
}

/// Through the operations: by views of any strides, which the tensor memory accelerator has as they lie, or in a copy.
#[test]
fn views_of_any_strides() {
    let (a, b) = (stack((2, 70, 23), 3), stack((2, 23, 150), 4));
    for device in devices().into_iter().chain(devices_with_warps()) {
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
            let what = format!("views {i}");
            check(product.to_ndarray().unwrap().view(), a, b, PLAIN, &what);
        }
    }
}

/// Infinities and NaN stay in their rows and columns, though tiles reach beyond the matrices.
#[test]
fn what_is_not_finite() {
    let (mut a, b) = (stack((1, 130, 5), 5), stack((1, 5, 260), 6));
    a[[0, 1, 2]] = f64::NAN;
    a[[0, 129, 4]] = f64::INFINITY;
    for device in devices().into_iter().chain(devices_with_warps()) {
        let stream = device.default_stream();
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let c = x.batched_matmul(&y).unwrap().to_ndarray().unwrap();
        for ((_, i, _), c) in c.indexed_iter() {
            match i {
                1 => assert!(c.is_nan()),
                129 => assert!(c.is_infinite()),
                _ => assert!(c.is_finite()),
            }
        }
    }
}
