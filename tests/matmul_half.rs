// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f16` and `bf16`, on the tests' device, on the simulated one with Hopper's instructions, and by Ampere's,
//! within the bound of sums in f32 that are rounded once.

use crate::common::*;
use half::{bf16, f16};
use ndarray::{Array2, Array3, ArrayView3, Axis, Ix3, s};
use proptest::prelude::*;
use std::any::TypeId;
use warpsmith::ops::{MatMul, MatVec};
use warpsmith::{Checks, Device, DeviceArray, DeviceView, Element, Stream};

/// What the tests want of an element type.
trait Half: Element + MatMul<Scalar = f32> {
    /// The unit roundoff.
    const ROUNDOFF: f64;
    fn of(x: f32) -> Self;
    fn to(self) -> f64;
}

impl Half for f16 {
    const ROUNDOFF: f64 = 1.0 / 2048.0;

    fn of(x: f32) -> Self {
        f16::from_f32(x)
    }

    fn to(self) -> f64 {
        self.to_f64()
    }
}

impl Half for bf16 {
    const ROUNDOFF: f64 = 1.0 / 256.0;

    fn of(x: f32) -> Self {
        bf16::from_f32(x)
    }

    fn to(self) -> f64 {
        self.to_f64()
    }
}

fn stack<T: Half>(shape: (usize, usize, usize), seed: u64) -> Array3<T> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn(shape, || T::of(rng.random::<f32>() - 0.5))
}

/// Checks `alpha · a b + beta · old`: a tensor core adds the products with at least 23 bits, and truncates, so that a sum
/// of k of them is off by at most `k 2⁻²³ Σ|a||b|` to first order (M. Fasi et al., "Numerical behavior of NVIDIA tensor
/// cores", 2021), and twice that with what the second order and the scaling by α and β add. The result is rounded once.
#[track_caller]
fn check<T: Half>(
    got: ArrayView3<'_, T>,
    a: ArrayView3<'_, T>,
    b: ArrayView3<'_, T>,
    (alpha, beta, old): (f64, f64, f64),
    what: &str,
) {
    let k = a.len_of(Axis(2));
    let [sums, magnitudes] = sums_of_products(got.len_of(Axis(0)), [a, b], T::to);
    for ((at, got), (sum, magnitude)) in got.indexed_iter().zip(sums.iter().zip(&magnitudes)) {
        let wanted = alpha * sum + beta * old;
        let magnitude = alpha.abs() * magnitude + (beta * old).abs();
        let bound = 2.0 * (k as f64 + 2.0) * 2f64.powi(-23) * magnitude;
        let bound = bound + T::ROUNDOFF * (wanted.abs() + bound) + 2f64.powi(-24);
        let error = (got.to() - wanted).abs();
        assert!(
            error <= bound,
            "{what}: {at:?}: {}, wanted {wanted}, bound {bound:e}",
            got.to()
        );
    }
}

/// A stack on the device, each matrix in C order or in Fortran order.
struct Operand<T> {
    array: DeviceArray<T, Ix3>,
    transposed: bool,
}

impl<T: Half> Operand<T> {
    fn new(stream: &Stream, of: &Array3<T>, transposed: bool) -> Self {
        let axes = if transposed { [0, 2, 1] } else { [0, 1, 2] };
        let array = DeviceArray::from_ndarray(stream, &of.view().permuted_axes(axes)).unwrap();
        Self { array, transposed }
    }

    fn view(&self) -> DeviceView<'_, T, Ix3> {
        let axes = if self.transposed { [0, 2, 1] } else { [0, 1, 2] };
        self.array.view().permuted_axes(axes).unwrap()
    }
}

/// Whether each operand is in Fortran order: all there is, and where tiles and blocks are what is looked at.
const ORDERS: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];
const IN_C_ORDER: [bool; 2] = [false, false];
const IN_FORTRAN_ORDER: [bool; 2] = [true, true];
const EACH_ORDER: [[bool; 2]; 2] = [IN_C_ORDER, IN_FORTRAN_ORDER];

/// `a b` with each operand in C and in Fortran order.
fn check_orders<T: Half>(a_batch: usize, b_batch: usize, shape: [usize; 3]) {
    let is_f16 = TypeId::of::<T>() == TypeId::of::<f16>();
    let devices = if is_f16 {
        with_turing()
    } else {
        with_tensor_cores().into()
    };
    check_in::<T>(&ORDERS, devices, [a_batch, b_batch], shape);
}

/// The same on some devices, with each operand in each order.
fn check_orders_on<T: Half>(devices: Vec<Device>, batches: [usize; 2], shape: [usize; 3]) {
    check_in::<T>(&EACH_ORDER, devices, batches, shape);
}

/// The same with both operands in one order.
fn check_order<T: Half>(order: [bool; 2], device: Device, shape: [usize; 3]) {
    check_in::<T>(&[order], vec![device], [1, 1], shape);
}

fn check_in<T: Half>(
    orders: &[[bool; 2]],
    devices: Vec<Device>,
    [a_batch, b_batch]: [usize; 2],
    [m, n, k]: [usize; 3],
) {
    let (a, b) = (stack::<T>((a_batch, m, k), 1), stack::<T>((b_batch, k, n), 2));
    for device in devices {
        let stream = device.default_stream();
        for &[a_transposed, b_transposed] in orders {
            let (x, y) = (
                Operand::new(stream, &a, a_transposed),
                Operand::new(stream, &b, b_transposed),
            );
            let product = x.view().batched_matmul(&y.view()).unwrap();
            let what = format!("{m} × {n} × {k}, transposed {a_transposed} {b_transposed}");
            let none = (1.0, 0.0, 0.0);
            check(product.to_ndarray().unwrap().view(), a.view(), b.view(), none, &what);
        }
    }
}

#[test]
fn products_of_f16_are_within_their_bound() {
    check_orders::<f16>(1, 1, [72, 136, 80]);
}

#[test]
fn products_of_bf16_are_within_their_bound() {
    check_orders::<bf16>(1, 1, [129, 72, 64]);
}

#[test]
fn tiles_that_are_not_full_and_several_of_a_block() {
    check_orders::<bf16>(1, 1, [1, 8, 8]);
    check_orders::<bf16>(1, 1, [300, 16, 200]);
}

/// Shapes that tiles of 192 × 96, of 128 × 112 and of 64 × 48 fill best, which are computed as transposes.
#[test]
fn tiles_across() {
    let six = hopper_of(6, Checks::ALL);
    check_orders_on::<bf16>(vec![six], [1, 1], [216, 384, 136]);
    // With more steps along k than stages, and with three tiles for each multiprocessor.
    check_across(&Device::simulated_hopper(), &[(96, 192), (45, 64)], 520);
    check_across(&Device::simulated_hopper(), &[(280, 192)], 136);
    if device().properties().tensor_cores == Some((9, 0)) {
        check_across(device(), &[(96, 192), (45, 64)], 136);
    }
}

/// Of so many rows, and of columns for tiles of that width.
fn check_across(device: &Device, shapes: &[(usize, usize)], k: usize) {
    let stream = device.default_stream();
    for &(m, width) in shapes {
        let n = columns_across(device, width);
        let (a, b) = (stack::<bf16>((1, m, k), 9), stack::<bf16>((1, k, n), 10));
        for transposed in EACH_ORDER {
            let x = Operand::new(stream, &a, transposed[0]);
            let y = Operand::new(stream, &b, transposed[1]);
            let product = x.view().batched_matmul(&y.view()).unwrap().to_ndarray().unwrap();
            let what = format!("{m} rows, tiles {width} wide, transposed {transposed:?}");
            check(product.view(), a.view(), b.view(), (1.0, 0.0, 0.0), &what);
        }
    }
}

/// As many columns as the multiprocessors take at once in tiles of each width: it is the best one then.
#[test]
fn tiles_of_all_widths() {
    let device = Device::simulated_hopper();
    let stream = device.default_stream();
    for width in [64, 128, 192, 256] {
        let columns = width * device.properties().multiprocessors as usize - 8;
        let (a, b) = (stack::<bf16>((1, 72, 72), 7), stack::<bf16>((1, 72, columns), 8));
        let (x, y) = (Operand::new(stream, &a, true), Operand::new(stream, &b, false));
        let product = x.view().batched_matmul(&y.view()).unwrap().to_ndarray().unwrap();
        let none = (1.0, 0.0, 0.0);
        check(product.view(), a.view(), b.view(), none, &format!("width {width}"));
    }
}

/// Of so few rows the smallest tiles, whose consumers have stages in turn, are the best: an even and an odd number of them, and
/// several tiles a block, in each order of the operands. The bits are the same each time.
#[test]
fn tiles_of_64_rows() {
    let device = Device::simulated_hopper();
    let stream = device.default_stream();
    let columns = 64 * device.properties().multiprocessors as usize - 8;
    for (batch, m, k) in [(1, 64, 128), (3, 40, 136), (1, 8, 72)] {
        let (a, b) = (stack::<f16>((batch, m, k), 9), stack::<f16>((batch, k, columns), 10));
        for (a_transposed, b_transposed) in [(false, false), (true, true)] {
            let (x, y) = (
                Operand::new(stream, &a, a_transposed),
                Operand::new(stream, &b, b_transposed),
            );
            let product = || x.view().batched_matmul(&y.view()).unwrap().to_ndarray().unwrap();
            let (first, none) = (product(), (1.0, 0.0, 0.0));
            check(first.view(), a.view(), b.view(), none, &format!("{batch}: {m}, k {k}"));
            assert_eq!(product(), first);
        }
    }
}

/// Several tiles of 256 columns for a block, whose last boxes wait for the next one's products: with more stages than go by before they
/// are stored, with as many, and with fewer, where they do not wait; and where the last tile reaches back.
#[test]
fn boxes_wait_for_the_next_tile() {
    let device = || vec![hopper_of(1, Checks::ALL)];
    check_orders_on::<f16>(device(), [1, 1], [120, 760, 648]);
    check_orders_on::<bf16>(device(), [1, 1], [128, 768, 512]);
    check_orders_on::<bf16>(device(), [1, 1], [128, 768, 72]);
}

/// Fewer rows than the smallest tiles have, so that copies bring fewer lines, with more steps than stages.
#[test]
fn fewer_rows_than_a_tile_has() {
    check_orders_on::<bf16>(vec![hopper_of(8, Checks::ALL)], [1, 1], [20, 72, 72]);
    check_orders_on::<f16>(vec![hopper_of(8, Checks::default())], [2, 1], [33, 72, 1096]);
}

/// The last tiles have few rows and columns that others have not: they begin among those of their neighbours, and store their own alone.
#[test]
fn last_tiles_reach_back() {
    let mut devices = vec![hopper_of(4, Checks::ALL), hopper_of(60, Checks::default())];
    if crate::common::device().properties().tensor_cores == Some((9, 0)) {
        devices.push(crate::common::device().clone());
    }
    for device in devices {
        check_orders_on::<bf16>(vec![device.clone()], [1, 1], [300, 344, 72]);
        check_orders_on::<f16>(vec![device.clone()], [2, 1], [152, 456, 136]);
        for (m, n) in [(300, 344), (104, 664), (204, 408)] {
            // What a neighbour has stored is no old element.
            check_what_is_added(&device, [m, n, 72], 15);
        }
    }
}

/// A product with a residual, and one that is added to old elements.
fn check_what_is_added(device: &Device, [m, n, k]: [usize; 3], seed: u64) {
    let stream = device.default_stream();
    let (a, b) = (stack::<bf16>((1, m, k), seed), stack::<bf16>((1, k, n), seed + 1));
    let x = DeviceArray::from_ndarray(stream, &a).unwrap();
    let y = DeviceArray::from_ndarray(stream, &b).unwrap();
    let mut two = DeviceArray::from_elem(stream, (1, m, n), bf16::from_f32(2.0)).unwrap();
    let product = x.fused_batched_matmul(&y);
    let with_residual = product.residual(&two).compute().unwrap().to_ndarray().unwrap();
    check(with_residual.view(), a.view(), b.view(), (1.0, 1.0, 2.0), "a residual");
    let product = x.fused_batched_matmul(&y);
    product.accumulate_into(&mut two, 0.5).unwrap();
    let added = two.to_ndarray().unwrap();
    check(added.view(), a.view(), b.view(), (1.0, 0.5, 2.0), "old elements");
}

/// Lines that begin within sectors of the cache: tiles of 128 × 96, of 128 × 112, of 192 × 96, of 64 × 112, of 192 × 176, of 256 × 160 and of 256 × 168 by clusters of four and of two blocks, some of
/// which have none, with more steps along k than stages and a tile for each block. How operands lie is one order or the other there: what
/// comes of a stage does not ask, and with few steps each tile has both.
#[test]
fn clusters_of_blocks() {
    for (m, n, multiprocessors) in [
        (192, 312, 9),
        (224, 504, 9),
        (216, 248, 9),
        (200, 312, 7),
        (136, 184, 2),
    ] {
        check_orders_on::<bf16>(vec![hopper_of(multiprocessors, Checks::ALL)], [1, 1], [m, n, 72]);
    }
    check_order::<f16>(IN_C_ORDER, hopper_of(9, Checks::default()), [192, 312, 392]);
    check_order::<f16>(IN_FORTRAN_ORDER, hopper_of(7, Checks::default()), [200, 312, 456]);
    // Of 64 × 112, whose consumers have stages in turn.
    check_order::<f16>(IN_C_ORDER, hopper_of(9, Checks::default()), [216, 248, 456]);
    check_what_is_added(&hopper_of(9, Checks::ALL), [216, 248, 136], 27);
    let device = hopper_of(9, Checks::default());
    let stream = device.default_stream();
    let (a, b) = (stack::<bf16>((1, 192, 392), 13), stack::<bf16>((1, 392, 312), 14));
    let x = DeviceArray::from_ndarray(stream, &a).unwrap();
    let y = DeviceArray::from_ndarray(stream, &b).unwrap();
    let two = DeviceArray::from_elem(stream, (1, 192, 312), bf16::from_f32(2.0)).unwrap();
    let with_residual = x.fused_batched_matmul(&y).residual(&two).compute().unwrap();
    let scales = (1.0, 1.0, 2.0);
    check(
        with_residual.to_ndarray().unwrap().view(),
        a.view(),
        b.view(),
        scales,
        "a residual",
    );
    // Of 192 × 176, which are in pairs.
    let device = hopper_of(2, Checks::ALL);
    check_orders_on::<bf16>(vec![device.clone()], [1, 1], [344, 184, 72]);
    check_what_is_added(&device, [344, 184, 72], 18);
    check_order::<f16>(IN_FORTRAN_ORDER, hopper_of(3, Checks::default()), [344, 376, 392]);
    // Of 256 × 160, whose consumers have two parts each: with tiles that reach back, and more tiles than blocks.
    check_orders_on::<bf16>(vec![device.clone()], [1, 1], [296, 248, 72]);
    check_what_is_added(&device, [296, 248, 72], 22);
    check_order::<f16>(IN_C_ORDER, hopper_of(3, Checks::default()), [312, 504, 264]);
    // Of 256 × 168, whose last box has half the rows: with tiles that reach back by half a box, and more tiles than blocks.
    check_orders_on::<bf16>(vec![device.clone()], [1, 1], [328, 248, 72]);
    check_what_is_added(&device, [336, 248, 72], 24);
    check_what_is_added(&device, [328, 248, 72], 25);
    check_order::<f16>(IN_FORTRAN_ORDER, hopper_of(3, Checks::default()), [328, 504, 264]);
    // As many tiles as an H100 or H200 has room for in clusters.
    if crate::common::device().properties().tensor_cores == Some((9, 0)) {
        let gpu = crate::common::device();
        check_orders_on::<bf16>(vec![gpu.clone()], [1, 1], [904, 1000, 392]);
        check_orders_on::<bf16>(vec![gpu.clone()], [1, 1], [1000, 1000, 456]);
        check_orders_on::<bf16>(vec![gpu.clone()], [1, 1], [1304, 1304, 72]);
        check_orders_on::<f16>(vec![gpu.clone()], [1, 1], [20, 1000, 1096]);
        check_orders_on::<bf16>(vec![gpu.clone()], [1, 1], [2056, 2104, 328]);
        check_what_is_added(gpu, [2056, 2104, 328], 19);
        check_orders_on::<bf16>(vec![gpu.clone()], [1, 1], [2200, 2232, 264]);
        check_what_is_added(gpu, [3088, 3080, 72], 23);
        check_orders_on::<bf16>(vec![gpu.clone()], [1, 1], [2264, 2280, 264]);
        check_what_is_added(gpu, [3304, 3208, 136], 26);
        check_orders_on::<bf16>(vec![gpu.clone()], [1, 1], [760, 776, 392]);
        check_what_is_added(gpu, [888, 872, 776], 28);
    }
}

/// The same, by tiles of 128 × 192 and of 128 × 256 of pairs of blocks: with a row of tiles that only makes the pairs whole, more tiles than
/// blocks, two products, and what is added.
#[test]
fn pairs_of_blocks() {
    check_orders_on::<bf16>(vec![hopper_of(4, Checks::ALL)], [1, 1], [248, 376, 72]);
    check_orders_on::<f16>(vec![hopper_of(2, Checks::default())], [2, 2], [136, 248, 392]);
    let device = hopper_of(2, Checks::ALL);
    check_orders_on::<bf16>(vec![device.clone()], [1, 1], [360, 248, 72]);
    check_what_is_added(&device, [360, 248, 72], 17);
    // On a GPU, an odd number of rows of tiles: the row that makes the pairs whole is every block's count.
    if crate::common::device().properties().tensor_cores == Some((9, 0)) {
        let gpu = crate::common::device();
        check_orders_on::<bf16>(vec![gpu.clone()], [1, 1], [2600, 2600, 72]);
        check_orders_on::<f16>(vec![gpu.clone()], [1, 1], [2008, 2008, 520]);
        check_what_is_added(gpu, [2008, 2008, 520], 20);
        check_what_is_added(gpu, [2600, 2600, 72], 21);
    }
}

/// Lines that no copy of the tensor memory accelerator can have: they are no multiple of 16 bytes.
#[test]
fn lines_of_any_length() {
    for [m, n, k] in [[3, 5, 7], [33, 8, 9], [8, 35, 16], [1, 1, 1], [5, 33, 8]] {
        check_orders::<f16>(1, 1, [m, n, k]);
    }
}

/// Few tiles and a long k, which is cut.
#[test]
fn a_long_k_in_parts() {
    check_orders::<bf16>(1, 1, [3, 8, 4096]);
    // Sixteen parts of three steps, of which the last has two, and one of those only a few elements; and lines that are copied.
    check_orders_on::<f16>(vec![hopper_of(8, Checks::ALL)], [1, 1], [3, 8, 2952]);
    check_orders::<bf16>(1, 1, [3, 8, 2951]);
}

/// Few rows, which are columns of the transpose on tensor cores.
#[test]
fn few_rows() {
    let mut devices = Vec::from(with_tensor_cores());
    devices.retain(|device| device.properties().tensor_cores.is_some());
    check_orders_on::<bf16>(devices, [1, 1], [5, 520, 1024]);
}

#[test]
fn batches_and_one_matrix_for_all() {
    check_orders::<f16>(3, 3, [20, 24, 40]);
    check_orders::<f16>(1, 2, [16, 8, 24]);
    check_orders::<bf16>(2, 1, [9, 16, 8]);
}

/// Where two dimensions are views that begin anywhere, and go backwards.
#[test]
fn parts_of_matrices() {
    let (a, b) = (stack::<bf16>((1, 40, 50), 3), stack::<bf16>((1, 60, 30), 4));
    let (a, b) = (a.index_axis_move(Axis(0), 0), b.index_axis_move(Axis(0), 0));
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let x = DeviceArray::from_ndarray(stream, &a).unwrap();
        let y = DeviceArray::from_ndarray(stream, &b).unwrap();
        let (left, right) = (s![3..;2, 1..41], s![..;-1, 2..26]);
        let product = x
            .slice(left)
            .unwrap()
            .matmul(&y.slice(right).unwrap().slice(s![..40, ..]).unwrap())
            .unwrap();
        let (a, b) = (a.slice(left), b.slice(right));
        check(
            product.to_ndarray().unwrap().insert_axis(Axis(0)).view(),
            a.insert_axis(Axis(0)),
            b.slice_move(s![..40, ..]).insert_axis(Axis(0)),
            (1.0, 0.0, 0.0),
            "parts",
        );
    }
}

/// No copy of the tensor memory accelerator begins at any element.
#[test]
fn results_that_begin_anywhere() {
    let (a, b) = (stack::<f16>((1, 1, 24), 7), stack::<f16>((1, 24, 16), 8));
    let (a, b) = (a.index_axis_move(Axis(0), 0), b.index_axis_move(Axis(0), 0));
    for device in with_turing() {
        let stream = device.default_stream();
        let x = DeviceArray::from_ndarray(stream, &a).unwrap();
        let y = DeviceArray::from_ndarray(stream, &b).unwrap();
        let mut out = DeviceArray::zeros(stream, (1, 18)).unwrap();
        x.matmul_into(&y, &mut out.slice_mut(s![.., 1..17]).unwrap()).unwrap();
        let got = out.to_ndarray().unwrap();
        assert_eq!((got[[0, 0]], got[[0, 17]]), (f16::ZERO, f16::ZERO));
        check(
            got.slice(s![.., 1..17]).insert_axis(Axis(0)),
            a.view().insert_axis(Axis(0)),
            b.view().insert_axis(Axis(0)),
            (1.0, 0.0, 0.0),
            "a part of a row",
        );
    }
}

#[test]
fn alpha_and_beta_scale_in_f32() {
    let (a, b) = (stack::<bf16>((1, 24, 32), 5), stack::<bf16>((1, 32, 40), 6));
    let nan = bf16::NAN;
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        for (alpha, beta) in [(1.5, 0.0), (-2.0, 0.75), (0.0, 0.5)] {
            let old = bf16::from_f32(3.0);
            let start = if beta == 0.0 { nan } else { old };
            let mut c = DeviceArray::from_elem(stream, (1, 24, 40), start).unwrap();
            c.batched_gemm(alpha, &x, &y, beta).unwrap();
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
        let bad = DeviceArray::from_elem(stream, (1, 24, 32), nan).unwrap();
        let mut c = DeviceArray::from_elem(stream, (1, 24, 40), bf16::from_f32(2.0)).unwrap();
        c.batched_gemm(0.0, &bad, &y, 0.5).unwrap();
        assert!(c.to_ndarray().unwrap().iter().all(|&c| c == bf16::ONE));
    }
}

/// Along rows and along columns, by vectors and one by one, in one part and in several.
fn check_vectors<T: Half + MatVec<Wide = f32>>() {
    let device = device();
    let stream = device.default_stream();
    for (m, k) in [
        (1, 1),
        (3, 5),
        (33, 70),
        (128, 256),
        (132, 64),
        (130, 257),
        (2, 40_000),
        (700, 300),
    ] {
        let (a, x) = (stack::<T>((1, m, k), 9), stack::<T>((1, k, 1), 10));
        let column = DeviceArray::from_ndarray(stream, &x.slice(s![0, .., 0])).unwrap();
        for transposed in [false, true] {
            let on_device = Operand::new(stream, &a, transposed);
            let matrix = on_device.view().index_axis(Axis(0), 0).unwrap();
            let mut y = DeviceArray::from_elem(stream, m, T::of(3.0)).unwrap();
            let product = matrix.matvec(&column).unwrap();
            y.gemv(-2.0, &matrix, &column, 0.75).unwrap();
            for (got, scales) in [(&product, (1.0, 0.0, 0.0)), (&y, (-2.0, 0.75, 3.0))] {
                let got = got.to_ndarray().unwrap().into_shape_with_order((1, m, 1)).unwrap();
                let what = format!("{m} × {k}, transposed {transposed}");
                check(got.view(), a.view(), x.view(), scales, &what);
            }
        }
        let got = column.dot(&column).unwrap();
        let row = x.view().permuted_axes([0, 2, 1]);
        let got = Array3::from_elem((1, 1, 1), got);
        check(got.view(), row, x.view(), (1.0, 0.0, 0.0), &format!("dot of {k}"));
    }
}

/// Columns of which a lane could read four rows at once, if they began where vectors do, or if there were as many.
fn check_columns_between_vectors<T: Half + MatVec<Wide = f32>>() {
    let device = device();
    let stream = device.default_stream();
    let (wide, x) = (stack::<T>((1, 300, 72), 11), stack::<T>((1, 300, 1), 12));
    let on_device = DeviceArray::from_ndarray(stream, &wide.index_axis(Axis(0), 0)).unwrap();
    let factors = DeviceArray::from_ndarray(stream, &x.slice(s![0, .., 0])).unwrap();
    for (first, rows) in [(0, 68), (1, 68), (2, 68), (4, 68), (0, 66), (0, 67)] {
        let part = on_device.slice(s![.., first..first + rows]).unwrap();
        let got = part.t().matvec(&factors).unwrap().to_ndarray().unwrap();
        let got = got.into_shape_with_order((1, rows, 1)).unwrap();
        let part = wide.slice(s![.., .., first..first + rows]);
        let what = format!("{rows} rows from {first} on");
        check(
            got.view(),
            part.permuted_axes([0, 2, 1]),
            x.view(),
            (1.0, 0.0, 0.0),
            &what,
        );
    }
}

#[test]
fn a_matrix_times_a_vector() {
    check_columns_between_vectors::<f16>();
    check_columns_between_vectors::<bf16>();
    check_vectors::<f16>();
    check_vectors::<bf16>();
}

#[test]
fn nothing_to_sum_and_nothing_to_write() {
    for device in with_turing() {
        let stream = device.default_stream();
        let a = DeviceArray::<f16, _>::zeros(stream, (5, 0)).unwrap();
        let b = DeviceArray::<f16, _>::zeros(stream, (0, 8)).unwrap();
        assert!(
            a.matmul(&b)
                .unwrap()
                .to_ndarray()
                .unwrap()
                .iter()
                .all(|&c| c == f16::ZERO)
        );
        let empty = DeviceArray::<f16, _>::zeros(stream, (0, 5)).unwrap();
        assert_eq!(empty.matmul(&a).unwrap().shape(), [0, 0]);
    }
}

/// Infinities and NaN propagate, and what is too large for the type is an infinity.
#[test]
fn what_is_not_finite() {
    for device in with_turing() {
        let stream = device.default_stream();
        let mut a = Array2::from_elem((16, 16), f16::ONE);
        a[[1, 3]] = f16::NAN;
        a[[2, 3]] = f16::INFINITY;
        a.row_mut(4).fill(f16::MAX);
        let ones = Array2::from_elem((16, 8), f16::ONE);
        let (a, b) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &ones).unwrap(),
        );
        let c = a.matmul(&b).unwrap().to_ndarray().unwrap();
        assert_eq!(c[[0, 0]], f16::from_f32(16.0));
        assert!(c.row(1).iter().all(|c| c.is_nan()));
        assert!(c.row(2).iter().chain(c.row(4)).all(|&c| c == f16::INFINITY));
    }
}

/// Products of f32 by the kernel for large ones, which gives the same bits as the other.
#[test]
fn large_products_of_f32_are_the_same_bits() {
    let device = Device::simulated_hopper();
    let stream = device.default_stream();
    for (batch, m, n, k, alpha, beta) in [
        (1, 130, 260, 9, 1.0, 0.0),
        (2, 128, 512, 16, 0.5, 0.25),
        (1, 257, 300, 3, 1.0, 0.0),
    ] {
        let random = |shape, seed| {
            let mut rng = rng(seed);
            Array3::from_shape_simple_fn(shape, || rng.random::<f32>() - 0.5)
        };
        let (a, b, c) = (random((batch, m, k), 1), random((1, k, n), 2), random((batch, m, n), 3));
        let wanted = Array3::from_shape_fn((batch, m, n), |(p, i, j)| {
            let sum = (0..k).fold(0.0, |sum, k| a[[p, i, k]].mul_add(b[[0, k, j]], sum));
            if beta == 0.0 {
                alpha * sum
            } else {
                f32::mul_add(beta, c[[p, i, j]], alpha * sum)
            }
        });
        for (a_transposed, b_transposed) in [(false, false), (true, true)] {
            let operand = |x: &Array3<f32>, transposed| {
                let axes = if transposed { [0, 2, 1] } else { [0, 1, 2] };
                DeviceArray::from_ndarray(stream, &x.view().permuted_axes(axes)).unwrap()
            };
            let view = |x, transposed| {
                let axes = if transposed { [0, 2, 1] } else { [0, 1, 2] };
                DeviceView::permuted_axes(x, axes).unwrap()
            };
            let (x, y) = (operand(&a, a_transposed), operand(&b, b_transposed));
            let mut out = DeviceArray::from_ndarray(stream, &c).unwrap();
            let (x, y) = (view(x.view(), a_transposed), view(y.view(), b_transposed));
            out.batched_gemm(alpha, &x, &y, beta).unwrap();
            assert_eq!(out.to_ndarray().unwrap(), wanted, "{batch} × {m} × {n} × {k}");
        }
    }
}
