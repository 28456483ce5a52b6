// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f64` on tensor cores, simulated and real, Hopper's and by the instructions of a warp, to the last bit: each sum is
//! a chain in the order of k, or, of tiles of few rows, several that take eight elements of k in turn.

use crate::common::device;
use crate::matmul_chain::devices;
use crate::matmul_chain::double::*;
use cuda_std::launch::Kernel;
use cuda_std::tma::Swizzle;
use cuda_std::wgmma::{KMajor, MnMajor};
use kernels_gpu::compiled::DmmaParams;
use kernels_gpu::matmul::dmma::{
    DmmaShape, PARTED_ROWS, PARTED_TILE_N, Side, THREADS, TILE_K, TILE_N, WARPS, gemm_dmma, handed_len, shared_bytes,
    slices,
};
use kernels_gpu::matmul::epilogue::EpiloguePlan;
use kernels_gpu::matmul::mma::double::{SIDE, gemm_f64_mma};
use kernels_gpu::matmul::mma::{MmaShape, Narrow, shared_bytes_of, threads_of};
use ndarray::{Array1, Array3, ArrayView3, Ix3, Ix4, IxDyn, s};
use warpsmith::{Device, DeviceArray, DeviceView, LaunchConfig, Stream};

/// A stack on the device as the kernel takes it: along its lines or along k, which are last then, with lines that are longer
/// than the matrices' and of an even length. Where they are multiples of 16 and lie last, they are in pieces of as many.
struct Operand {
    array: DeviceArray<f64, Ix4>,
    along_lines: bool,
    in_one: bool,
    last: usize,
}

impl Operand {
    /// Of products, lines and k.
    fn new(stream: &Stream, of: ArrayView3<'_, f64>, along_lines: bool) -> Self {
        let of = if along_lines { of.permuted_axes([0, 2, 1]) } else { of };
        let (batch, rows, last) = of.dim();
        let in_one = along_lines && last.is_multiple_of(16);
        let length = if in_one {
            last + 16
        } else {
            last.next_multiple_of(2) + 2
        };
        let width = if in_one { 16 } else { length };
        let mut longer = Array3::from_elem((batch, rows, length), f64::NAN);
        longer.slice_mut(s![.., .., ..last]).assign(&of);
        let pieces = longer
            .into_shape_with_order((batch, rows, length / width, width))
            .unwrap();
        Self {
            array: DeviceArray::from_ndarray(stream, &pieces).unwrap(),
            along_lines,
            in_one,
            last,
        }
    }

    /// The matrices, as the kernel's map has them.
    fn view(&self) -> DeviceView<'_, f64, IxDyn> {
        if self.in_one {
            let pieces = self.array.slice(s![.., .., ..self.last / 16, ..]).unwrap();
            return pieces.permuted_axes([0, 2, 1, 3]).unwrap().into_dyn();
        }
        match self.along_lines {
            true => {
                let lines = self.array.slice(s![.., .., .., ..self.last]).unwrap();
                lines.permuted_axes([0, 2, 1, 3]).unwrap().into_dyn()
            }
            false => self.array.slice(s![.., .., 0, ..self.last]).unwrap().into_dyn(),
        }
    }

    /// The tile of the kernel's map, of so many lines.
    fn tile(&self, lines: usize) -> Vec<usize> {
        match (self.along_lines, self.in_one) {
            (false, _) => vec![1, lines, TILE_K],
            (true, false) => vec![1, 1, TILE_K, 16],
            (true, true) => vec![1, lines / 16, TILE_K, 16],
        }
    }
}

/// The grid's blocks, the number of tiles that are cut into a share for each, and the parts of k that blocks have side by side,
/// with the steps of all but the last.
#[derive(Clone, Copy)]
struct Blocks {
    count: u32,
    cut: u32,
    parts: u32,
    share: u32,
    /// Columns of a tile.
    columns: usize,
}

const ONE_BLOCK: Blocks = Blocks {
    count: 1,
    cut: 0,
    parts: 1,
    share: 0,
    columns: TILE_N,
};

impl Blocks {
    const fn new(count: u32, cut: u32) -> Self {
        Self {
            count,
            cut,
            ..ONE_BLOCK
        }
    }
}

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
    let columns = blocks.columns;
    let (a_view, b_view) = (a.view(), b.view());
    let (x, y) = (
        a_view.tensor_map(&a.tile(rows), Swizzle::B128).unwrap(),
        b_view.tensor_map(&b.tile(columns), Swizzle::B128).unwrap(),
    );
    let tiles = (batch * m.div_ceil(rows) * n.div_ceil(columns)) as u32;
    let shape = DmmaShape {
        whole: tiles - blocks.cut,
        share: match blocks.parts {
            1 => (blocks.cut * k.div_ceil(TILE_K) as u32).div_ceil(blocks.count),
            _ => blocks.share,
        },
        batch: batch as u32,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        columns: columns as u32,
        a_step: (a.array.shape()[0] > 1).into(),
        b_step: (b.array.shape()[0] > 1).into(),
        a_in_one: a.in_one.into(),
        b_in_one: b.in_one.into(),
    };
    let config = LaunchConfig {
        dynamic_shared: shared_bytes(rows),
        ..LaunchConfig::new((blocks.count, blocks.parts), THREADS as u32)
    };
    let added: Vec<f64> = scaling.added.into_iter().collect();
    let (none, added) = (
        DeviceArray::zeros(&stream, 0).unwrap(),
        DeviceArray::from_ndarray(&stream, &Array1::from(added)).unwrap(),
    );
    let count = (blocks.count * blocks.parts) as usize;
    let unwritten = if blocks.parts > 1 { 0.0 } else { f64::NAN };
    let mut partials = DeviceArray::from_elem(&stream, count * handed_len(rows), unwritten).unwrap();
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
    if blocks.parts > 1 {
        let zeros = partials.to_ndarray().unwrap();
        assert!(zeros.iter().all(|zero| zero.to_bits() == 0));
    }
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
        let [batch, rows, pieces, width] = *of.array.shape() else {
            unreachable!()
        };
        let last = pieces * width;
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
        dynamic_shared: shared_bytes_of::<f64, Narrow>(SIDE, size_of::<f64>()),
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
    slices: usize,
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
            check_sums(
                c.to_ndarray().unwrap().view(),
                [a.view(), b.view()],
                scaling,
                &what,
                |terms| sum_of_slices(terms, slices),
            );
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
        1,
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

/// The chains of a sum by tiles of that many columns: in tiles of few rows as many as there are slices of k.
fn slices_of(rows: usize, columns: usize) -> usize {
    if rows == PARTED_ROWS { slices(columns) } else { 1 }
}

/// The sum of products by so many chains, of which each takes eight elements of k in turn; neighbours are added first.
fn sum_of_slices(terms: &[(f64, f64)], slices: usize) -> f64 {
    let mut sums = vec![0.0; slices];
    for (number, eight) in terms.chunks(8).enumerate() {
        let sum: &mut f64 = &mut sums[number % slices];
        *sum = eight.iter().fold(*sum, |sum, (a, b)| a.mul_add(*b, sum));
    }
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|two| two[0] + two[1]).collect();
    }
    sums[0]
}

/// Checks `alpha · a b + beta · old`, with the sums that `sum` makes of their products' factors.
#[track_caller]
fn check_sums(
    got: ArrayView3<'_, f64>,
    [a, b]: [ArrayView3<'_, f64>; 2],
    scaling: Scaling,
    what: &str,
    sum: impl Fn(&[(f64, f64)]) -> f64,
) {
    for ((p, i, j), &got) in got.indexed_iter() {
        let row = a.slice(s![p % a.dim().0, i, ..]);
        let column = b.slice(s![p % b.dim().0, .., j]);
        let terms: Vec<_> = row.iter().copied().zip(column.iter().copied()).collect();
        let wanted = scaling.of(sum(&terms));
        assert_eq!(
            got.to_bits(),
            wanted.to_bits(),
            "{what}: ({p}, {i}, {j}): {got}, wanted {wanted}"
        );
    }
}

/// By tiles of each size. Of tiles that have fewer columns than others each block has one.
fn check_kernels(batches: [usize; 2], shape: [usize; 3], blocks: Blocks, scaling: Scaling) {
    for (rows, columns) in PARTED_TILE_N.map(|columns| (PARTED_ROWS, columns)) {
        if columns != TILE_N {
            let tiles = shape[0].div_ceil(rows) * shape[1].div_ceil(columns);
            let one_each = Blocks::new((batches[0].max(batches[1]) * tiles) as u32, 0);
            check_tiles((rows, columns), batches, shape, one_each, scaling);
        }
    }
    check_wide_tiles(batches, shape, blocks, scaling);
}

/// By tiles of each size of which a block may have a part, or several.
fn check_wide_tiles(batches: [usize; 2], shape: [usize; 3], blocks: Blocks, scaling: Scaling) {
    for rows in [PARTED_ROWS, 64, 128] {
        check_tiles((rows, TILE_N), batches, shape, blocks, scaling);
    }
}

/// By tiles of so many rows and columns.
fn check_tiles(
    (rows, columns): (usize, usize),
    batches: [usize; 2],
    shape: [usize; 3],
    blocks: Blocks,
    scaling: Scaling,
) {
    let blocks = Blocks { columns, ..blocks };
    let launch = |operands: [&Operand; 2], c: &mut DeviceArray<f64, Ix3>| {
        launch_tiles(rows, blocks, operands, c, scaling);
    };
    check_layouts(
        &devices(),
        &format!("{rows} rows, {columns} columns"),
        batches,
        shape,
        scaling,
        slices_of(rows, columns),
        launch,
    );
}

/// By tiles of so many rows, as the operands lie.
fn launch_tiles(rows: usize, blocks: Blocks, operands: [&Operand; 2], c: &mut DeviceArray<f64, Ix3>, scaling: Scaling) {
    match operands.map(|of| of.along_lines) {
        [false, false] => launch_by::<KMajor, KMajor>(rows, blocks, operands, c, scaling),
        [false, true] => launch_by::<KMajor, MnMajor>(rows, blocks, operands, c, scaling),
        [true, false] => launch_by::<MnMajor, KMajor>(rows, blocks, operands, c, scaling),
        [true, true] => launch_by::<MnMajor, MnMajor>(rows, blocks, operands, c, scaling),
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
    check_kernels([3, 3], [20, 24, 5], Blocks::new(2, 0), PLAIN);
    check_kernels([1, 2], [17, 8, 24], ONE_BLOCK, PLAIN);
    check_kernels([2, 1], [9, 15, 16], Blocks::new(3, 0), PLAIN);
}

/// Blocks that begin a tile, end one, and compute others whole, before that and in between; the last share may be shorter.
#[test]
fn tiles_that_are_cut_along_k() {
    let blocks = Blocks::new;
    check_wide_tiles([1, 1], [20, 300, 40], blocks(2, 3), PLAIN);
    check_wide_tiles([5, 1], [9, 15, 36], blocks(2, 3), PLAIN);
    check_wide_tiles([4, 4], [7, 130, 33], blocks(3, 5), PLAIN);
    // No cut is within a tile; and blocks for which nothing is left.
    check_wide_tiles([4, 1], [5, 6, 20], blocks(2, 4), PLAIN);
    check_wide_tiles([5, 1], [5, 6, 16], blocks(4, 5), PLAIN);
    for scaling in SCALINGS {
        check_wide_tiles([3, 1], [6, 21, 40], blocks(2, 3), scaling);
    }
}

/// Blocks that have parts of k of a tile side by side: the last one adds the others' sums to its own, in their order.
#[test]
fn parts_of_k_side_by_side() {
    for (parts, share, batch, [m, n, k]) in [
        (2, 1, 1, [20, 100, 20]),
        (3, 2, 1, [40, 16, 90]),
        (2, 3, 2, [33, 34, 100]),
        // More parts than lanes, and a last part that is longer.
        (34, 1, 1, [5, 6, 600]),
    ] {
        let [m, n, k]: [usize; 3] = [m, n, k];
        let (a, b) = (stack((batch, m, k), 7), stack((batch, k, n), 8));
        for (number, scaling) in SCALINGS.into_iter().chain([PLAIN]).enumerate() {
            for device in devices() {
                let stream = device.default_stream();
                for (a_along_m, b_along_n) in [(false, false), (false, true), (true, false), (true, true)] {
                    let x = Operand::new(stream, a.view(), a_along_m);
                    let y = Operand::new(stream, b.view().permuted_axes([0, 2, 1]), b_along_n);
                    let mut c = DeviceArray::from_elem(stream, (batch, m, n), scaling.old).unwrap();
                    let columns = PARTED_TILE_N[(number + usize::from(a_along_m)) % 3];
                    let blocks = Blocks {
                        // One for each tile.
                        count: (batch * m.div_ceil(PARTED_ROWS) * n.div_ceil(columns)) as u32,
                        parts,
                        share,
                        columns,
                        ..ONE_BLOCK
                    };
                    launch_tiles(PARTED_ROWS, blocks, [&x, &y], &mut c, scaling);
                    let sum = |terms: &[(f64, f64)]| {
                        let of_part = |part: u32| {
                            let from = (part * share) as usize * TILE_K;
                            let to = if part + 1 == parts {
                                k
                            } else {
                                from + share as usize * TILE_K
                            };
                            sum_of_slices(&terms[from..to], slices_of(PARTED_ROWS, columns))
                        };
                        (0..parts - 1).fold(of_part(parts - 1), |last, part| last + of_part(part))
                    };
                    let what = format!("{m} × {n} × {k} in {parts}, along m {a_along_m}, along n {b_along_n}");
                    check_sums(
                        c.to_ndarray().unwrap().view(),
                        [a.view(), b.view()],
                        scaling,
                        &what,
                        sum,
                    );
                }
            }
        }
    }
}

/// Through the operations: the same bits each time, within the bound.
#[test]
fn few_tiles_with_a_long_k() {
    let (m, n, k) = (33, 100, 1100);
    let (a, b) = (stack((1, m, k), 9), stack((1, k, n), 10));
    for device in devices() {
        let stream = device.default_stream();
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let product = || x.batched_matmul(&y).unwrap().to_ndarray().unwrap();
        let first = product();
        for ((_, i, j), &got) in first.indexed_iter() {
            let terms = || (0..k).map(|l| (a[[0, i, l]], b[[0, l, j]]));
            let wanted = terms().fold(0.0, |sum, (a, b)| a.mul_add(b, sum));
            let magnitude: f64 = terms().map(|(a, b)| (a * b).abs()).sum();
            let bound = 2.0 * k as f64 * (f64::EPSILON / 2.0) * magnitude;
            assert!((got - wanted).abs() <= bound, "({i}, {j}): {got}, wanted {wanted}");
        }
        assert_eq!(product(), first);
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
            let product = product.to_ndarray().unwrap();
            let is_sum_of = |slices: usize| {
                product.indexed_iter().all(|((p, i, j), got)| {
                    let row = a.slice(s![p % a.dim().0, i, ..]);
                    let column = b.slice(s![p % b.dim().0, .., j]);
                    let terms: Vec<_> = row.iter().copied().zip(column.iter().copied()).collect();
                    got.to_bits() == sum_of_slices(&terms, slices).to_bits()
                })
            };
            // By tiles of any size, the same for all elements.
            assert!([1, 2, 4, 8].into_iter().any(is_sum_of), "views {i}");
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
