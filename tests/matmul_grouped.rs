// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of many shapes in one launch, on the tests' device, on the simulated one with Hopper's instructions, and by
//! Ampere's: within the bound of sums in f32, and the same bits whatever they are grouped with.

use crate::common::*;
use half::{bf16, f16};
use ndarray::{Array1, Array2, Array3, ArrayView2, Axis, Ix2, array, s};
use proptest::prelude::*;
use warpsmith::ops::{self, MatMul, RowNumber, Sum};
use warpsmith::{Device, DeviceArray, DeviceView, Element, Stream};

/// What the tests want of an element type.
trait Value: Element + MatMul + PartialEq + std::fmt::Debug {
    /// The unit roundoff of a result.
    const ROUNDOFF: f64;
    fn of(x: f32) -> Self;
    fn to(self) -> f64;
}

macro_rules! values {
    ($($type:ty, $roundoff:expr, $of:expr, $to:expr;)*) => {$(
        impl Value for $type {
            const ROUNDOFF: f64 = $roundoff;

            fn of(x: f32) -> Self {
                $of(x)
            }

            fn to(self) -> f64 {
                $to(self)
            }
        }
    )*};
}

values! {
    f32, 0.0, |x| x, f64::from;
    f16, 1.0 / 2048.0, f16::from_f32, f16::to_f64;
    bf16, 1.0 / 256.0, bf16::from_f32, bf16::to_f64;
}

fn matrices<T: Value>(shape: (usize, usize, usize), seed: u64) -> Array3<T> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn(shape, || T::of(rng.random::<f32>() - 0.5))
}

fn matrix<T: Value>(rows: usize, columns: usize, seed: u64) -> Array2<T> {
    matrices((1, rows, columns), seed).index_axis_move(Axis(0), 0)
}

/// Checks `a b`: of k products, the sum is off by at most `k 2⁻²³ Σ|a||b|` to first order, and is then rounded once.
#[track_caller]
fn check<T: Value>(got: ArrayView2<'_, T>, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, what: &str) {
    let k = a.len_of(Axis(1));
    let stack = |x| ArrayView2::insert_axis(x, Axis(0));
    let [sums, magnitudes] = sums_of_products(1, [stack(a), stack(b)], T::to);
    assert_eq!(got.dim(), (a.dim().0, b.dim().1), "{what}");
    for ((at, got), (sum, magnitude)) in got.indexed_iter().zip(sums.iter().zip(&magnitudes)) {
        let bound = 2.0 * (k as f64 + 2.0) * 2f64.powi(-23) * magnitude;
        let bound = bound + T::ROUNDOFF * (sum.abs() + bound) + 2f64.powi(-24);
        let error = (got.to() - sum).abs();
        assert!(error <= bound, "{what}: {at:?}: {got:?}, wanted {sum}, bound {bound:e}");
    }
}

/// Where groups of these lengths end.
fn ends(lengths: &[usize]) -> Vec<usize> {
    let running = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    running.collect()
}

/// Groups of rows of these lengths, and so many rows behind them, by each layout of the matrices.
fn check_groups<T: Value>(device: &Device, lengths: &[usize], rest: usize, [k, n]: [usize; 2]) {
    let stream = device.default_stream();
    let ends = ends(lengths);
    let rows = ends.last().unwrap() + rest;
    let mut a = matrix::<T>(rows, k, 1);
    // What no group has is not looked at.
    a.slice_mut(s![rows - rest.., ..]).fill(T::of(f32::NAN));
    let b = matrices::<T>((lengths.len(), k, n), 2);
    let x = DeviceArray::from_ndarray(stream, &a).unwrap();
    let on_device =
        DeviceArray::from_ndarray(stream, &ends.iter().map(|&end| end as i32).collect::<Array1<_>>()).unwrap();
    for transposed in [false, true] {
        let what = format!("{lengths:?} + {rest}, k {k}, n {n}, transposed {transposed}");
        let product = if transposed {
            let y = DeviceArray::from_ndarray(stream, &b.view().permuted_axes([0, 2, 1])).unwrap();
            let y = y.view().permuted_axes([0, 2, 1]).unwrap();
            x.grouped_matmul(&y, &on_device)
        } else {
            let y = DeviceArray::from_ndarray(stream, &b).unwrap();
            x.grouped_matmul(&y, &on_device)
        };
        let product = product.unwrap().to_ndarray().unwrap();
        let mut start = 0;
        for (number, &end) in ends.iter().enumerate() {
            let rows = s![start..end, ..];
            let matrix = b.index_axis(Axis(0), number);
            check(product.slice(rows), a.slice(rows), matrix, &what);
            start = end;
        }
        assert!(product.slice(s![start.., ..]).iter().all(|x| x.to() == 0.0), "{what}");
    }
}

#[test]
fn groups_of_rows_of_any_lengths() {
    for device in with_tensor_cores() {
        check_groups::<bf16>(&device, &[5, 0, 130, 1, 0, 17], 9, [72, 264]);
        check_groups::<f16>(&device, &[0, 0, 16], 0, [8, 8]);
        check_groups::<f16>(&device, &[128, 16], 130, [64, 16]);
        check_groups::<f32>(&device, &[3, 0, 40, 1], 2, [33, 20]);
    }
}

/// Rows that no copy of the tensor memory accelerator can have: they are no multiple of 16 bytes.
#[test]
fn groups_of_rows_with_lines_of_any_length() {
    for device in with_tensor_cores() {
        check_groups::<bf16>(&device, &[3, 20], 1, [13, 35]);
        check_groups::<f16>(&device, &[1, 0, 1], 0, [1, 1]);
    }
}

/// More groups than a warp asks for at a time.
#[test]
fn many_groups() {
    let lengths: Vec<usize> = (0..70).map(|i| i % 3).collect();
    for device in with_tensor_cores() {
        check_groups::<bf16>(&device, &lengths, 3, [8, 8]);
    }
}

/// Rows that are views, transposed or every other one; a result in a part of an array; ends of u64.
#[test]
fn views_and_ends_by_counting() {
    let (a, b) = (matrix::<bf16>(40, 24, 3), matrices::<bf16>((3, 24, 16), 4));
    let experts = array![0u8, 2, 0, 2, 2, 0, 0];
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let mut counts = DeviceArray::zeros(stream, 3).unwrap();
        let experts = DeviceArray::from_ndarray(stream, &experts).unwrap();
        experts.bincount_into(&mut counts).unwrap();
        let ends = counts.inclusive_scan::<Sum>().unwrap();
        assert_eq!(ends.to_ndarray().unwrap(), array![4u64, 4, 7]);
        let x = DeviceArray::from_ndarray(stream, &a).unwrap();
        let t = DeviceArray::from_ndarray(stream, &a.t()).unwrap();
        let y = DeviceArray::from_ndarray(stream, &b).unwrap();
        let whole = x.slice(s![..7, ..]).unwrap().to_array().unwrap();
        let wanted = whole.grouped_matmul(&y, &ends).unwrap().to_ndarray().unwrap();
        check(
            wanted.slice(s![..4, ..]),
            a.slice(s![..4, ..]),
            b.index_axis(Axis(0), 0),
            "views",
        );
        let transposed = t.t();
        let transposed = transposed.slice(s![..7, ..]).unwrap();
        assert_eq!(
            transposed.grouped_matmul(&y, &ends).unwrap().to_ndarray().unwrap(),
            wanted
        );
        let mut out = DeviceArray::zeros(stream, (7, 40)).unwrap();
        let mut part = out.slice_mut(s![.., 3..19]).unwrap();
        whole.grouped_matmul_into(&y, &ends, &mut part).unwrap();
        let out = out.to_ndarray().unwrap();
        assert_eq!(out.slice(s![.., 3..19]), wanted);
        assert!(
            out.slice(s![.., ..3])
                .iter()
                .chain(out.slice(s![.., 19..]))
                .all(|x| x.to_f64() == 0.0)
        );
        // One matrix for all groups.
        let same = y.slice(s![..1, .., ..]).unwrap();
        let same = same.broadcast((3, 24, 16)).unwrap();
        let all = whole.grouped_matmul(&same, &ends).unwrap().to_ndarray().unwrap();
        check(
            all.view(),
            a.slice(s![..7, ..]),
            b.index_axis(Axis(0), 0),
            "one for all",
        );
    }
}

/// Ends that are none: each is one all the same, and a row of one of the groups or of none.
#[test]
fn ends_that_are_out_of_order() {
    fn of<T: Value, O: RowNumber>(device: &Device, ends: Array1<O>) -> Array2<T> {
        let stream = device.default_stream();
        let a = DeviceArray::from_ndarray(stream, &Array2::from_elem((6, 8), T::of(1.0))).unwrap();
        let b = Array3::from_shape_fn((4, 8, 8), |(i, k, _)| T::of(if k == 0 { i as f32 + 1.0 } else { 0.0 }));
        let b = DeviceArray::from_ndarray(stream, &b).unwrap();
        let ends = DeviceArray::from_ndarray(stream, &ends).unwrap();
        a.grouped_matmul(&b, &ends).unwrap().to_ndarray().unwrap()
    }
    for device in with_tensor_cores() {
        let first = |product: Array2<bf16>| product.column(0).mapv(f32::from).to_vec();
        assert_eq!(first(of(&device, array![-3, 4, 2, 5])), [2.0, 2.0, 2.0, 2.0, 4.0, 0.0]);
        assert_eq!(
            first(of(&device, array![2u64, u64::MAX, 0, 1])),
            [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
        );
        let singles: Array2<f32> = of(&device, array![-3, 4, 2, 5]);
        assert_eq!(singles.column(0).to_vec(), [2.0, 2.0, 2.0, 2.0, 4.0, 0.0]);
    }
}

#[test]
fn groups_of_nothing() {
    for device in with_tensor_cores() {
        let stream = device.default_stream();
        let zeros = |rows, k, groups, n| {
            let a = DeviceArray::<bf16, _>::zeros(stream, (rows, k)).unwrap();
            let b = DeviceArray::zeros(stream, (groups, k, n)).unwrap();
            let ends = DeviceArray::<i32, _>::zeros(stream, groups).unwrap();
            a.grouped_matmul(&b, &ends).unwrap().to_ndarray().unwrap()
        };
        assert_eq!(zeros(0, 8, 2, 8), Array2::from_elem((0, 8), bf16::ZERO));
        assert_eq!(zeros(3, 0, 2, 8), Array2::from_elem((3, 8), bf16::ZERO));
        assert_eq!(zeros(3, 8, 0, 8), Array2::from_elem((3, 8), bf16::ZERO));
        assert_eq!(zeros(3, 8, 2, 0), Array2::from_elem((3, 0), bf16::ZERO));
        assert_eq!(zeros(3, 8, 2, 8), Array2::from_elem((3, 8), bf16::ZERO));
    }
}

/// A matrix on the device, as it lies and seen as its transpose.
fn operand<T: Value>(stream: &Stream, of: &Array2<T>, transposed: bool) -> DeviceArray<T, Ix2> {
    match transposed {
        true => DeviceArray::from_ndarray(stream, &of.t()).unwrap(),
        false => DeviceArray::from_ndarray(stream, of).unwrap(),
    }
}

fn seen<T: Value>(of: &DeviceArray<T, Ix2>, transposed: bool) -> DeviceView<'_, T, Ix2> {
    if transposed { of.t() } else { of.view() }
}

/// Pairs of these shapes, in all layouts, against the bound; and, of a few, each against itself in another order.
fn check_pairs<T: Value>(device: &Device, shapes: &[[usize; 3]]) {
    let stream = device.default_stream();
    let layouts = |i: usize| [i.is_multiple_of(2), (i / 2).is_multiple_of(2)];
    let hosts: Vec<_> = (0..)
        .zip(shapes)
        .map(|(i, &[m, n, k])| (matrix::<T>(m, k, i), matrix::<T>(k, n, i + 1000)))
        .collect();
    let operands: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(i, (a, b))| (operand(stream, a, layouts(i)[0]), operand(stream, b, layouts(i)[1])))
        .collect();
    let pairs = operands.iter().enumerate();
    let pairs: Vec<_> = pairs
        .map(|(i, (a, b))| (seen(a, layouts(i)[0]), seen(b, layouts(i)[1])))
        .collect();
    let products = ops::grouped_matmul(&pairs).unwrap();
    assert_eq!(products.len(), shapes.len());
    let gots: Vec<_> = products.iter().map(|product| product.to_ndarray().unwrap()).collect();
    for (i, (got, (a, b))) in gots.iter().zip(&hosts).enumerate() {
        check(got.view(), a.view(), b.view(), &format!("pair {i} of {:?}", shapes[i]));
    }
    if shapes.len() < 10 {
        let reversed: Vec<_> = pairs.iter().rev().cloned().collect();
        let again = ops::grouped_matmul(&reversed).unwrap();
        for (again, got) in again.iter().rev().zip(&gots) {
            assert_eq!(again.to_ndarray().unwrap(), got, "among {shapes:?}");
        }
    }
}

#[test]
fn pairs_of_any_shapes() {
    let shapes = [
        [130, 136, 72],
        [8, 16, 32],
        [0, 5, 7],
        [5, 0, 7],
        [5, 7, 0],
        [1, 9, 13],
        [35, 1, 40],
        [33, 257, 8],
    ];
    for device in with_tensor_cores() {
        check_pairs::<bf16>(&device, &shapes);
        check_pairs::<f16>(&device, &shapes[1..]);
        check_pairs::<f32>(&device, &shapes[1..6]);
        check_pairs::<f16>(&device, &shapes[..1]);
    }
}

/// More than a warp finds in two steps.
#[test]
fn a_thousand_small_pairs() {
    let shapes: Vec<_> = (0..1030).map(|i| [1 + i % 3, 1 + i % 5, i % 4]).collect();
    check_pairs::<bf16>(&device().as_ampere().unwrap(), &shapes);
}

/// One that fills Hopper, and others.
#[test]
fn large_pairs_among_small_ones() {
    let device = Device::simulated_hopper();
    let n = 128 * device.properties().multiprocessors as usize;
    check_pairs::<bf16>(&device, &[[8, n, 8], [8, 8, 8], [9, 8, 16]]);
}

#[test]
fn no_pairs() {
    assert!(ops::grouped_matmul::<bf16>(&[]).unwrap().is_empty());
}

/// Slices of one array, backwards and with gaps, and one operand of several pairs.
#[test]
fn pairs_of_views() {
    let host = matrix::<f16>(24, 32, 5);
    for device in with_tensor_cores() {
        let x = DeviceArray::from_ndarray(device.default_stream(), &host).unwrap();
        let views = [s![..10, ..], s![3..;2, ..], s![..;-1, 5..], s![.., ..;3]];
        let part = |&part| x.slice(part).unwrap();
        let pairs: Vec<_> = views.iter().map(|of| (part(of), part(of).reversed_axes())).collect();
        for (product, &part) in ops::grouped_matmul(&pairs).unwrap().iter().zip(&views) {
            let of = host.slice(part);
            check(product.to_ndarray().unwrap().view(), of, of.t(), &format!("{part:?}"));
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let stream = device().default_stream();
    let a = DeviceArray::<bf16, _>::zeros(stream, (2, 3)).unwrap();
    let error = ops::grouped_matmul(&[(a.view(), a.t()), (a.view(), a.view())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "grouped_matmul: given shapes [2, 3] and [2, 3] as pair 1, wanted m × k and k × n"
    );
    let b = DeviceArray::<bf16, _>::zeros(stream, (4, 3, 5)).unwrap();
    let ends = DeviceArray::<i32, _>::zeros(stream, 3).unwrap();
    assert_eq!(
        a.grouped_matmul(&b, &ends).unwrap_err().to_string(),
        "grouped_matmul: given shapes [2, 3] and [4, 3, 5], and 3 ends, wanted rows × k and groups × k × n, an end for each \
         group, and a result of rows × n"
    );
    let ends = DeviceArray::<i32, _>::zeros(stream, 4).unwrap();
    let mut out = DeviceArray::<bf16, _>::zeros(stream, (2, 4)).unwrap();
    let error = a.grouped_matmul_into(&b, &ends, &mut out).unwrap_err().to_string();
    assert!(error.contains("and 4 ends into [2, 4]"), "{error}");
}

/// Whether groups are one launch: their kernel is Ampere's.
fn is_ampere(device: &Device) -> bool {
    device.properties().tensor_cores >= Some((8, 0))
}

/// A launch for each group waits for the ends, which a graph cannot.
#[test]
fn groups_by_themselves_are_not_recorded() {
    for device in with_turing().iter().filter(|device| !is_ampere(device)) {
        let stream = device.default_stream();
        let a = DeviceArray::<f16, _>::zeros(stream, (3, 8)).unwrap();
        let b = DeviceArray::<f16, _>::zeros(stream, (2, 8, 8)).unwrap();
        let ends = DeviceArray::from_ndarray(stream, &array![1i32, 3]).unwrap();
        let recorded = stream.capture((a, b, ends), |_, (a, b, ends)| a.grouped_matmul(b, ends));
        let error = recorded.unwrap_err().to_string();
        assert!(error.contains("not in a graph"), "{error}");
    }
}

/// Recorded, with no wait, and launched again with other ends.
#[test]
fn groups_in_a_graph() {
    for device in with_tensor_cores().iter().filter(|device| is_ampere(device)) {
        let stream = device.default_stream();
        let a = DeviceArray::from_ndarray(stream, &Array2::from_elem((3, 8), bf16::ONE)).unwrap();
        let b = Array3::from_shape_fn((2, 8, 8), |(i, ..)| bf16::from_f32(i as f32 + 1.0));
        let b = DeviceArray::from_ndarray(stream, &b).unwrap();
        let ends = DeviceArray::from_ndarray(stream, &array![1i32, 3]).unwrap();
        let mut graph = stream
            .capture((a, b, ends), |_, (a, b, ends)| {
                let pairs = ops::grouped_matmul(&[(a.view(), a.t()), (a.t(), a.view())])?;
                Ok((a.grouped_matmul(b, ends)?, pairs))
            })
            .unwrap();
        for (given, wanted) in [([1, 3], [8.0, 16.0, 16.0]), ([2, 3], [8.0, 8.0, 16.0])] {
            graph
                .args_mut()
                .2
                .assign_ndarray(&Array1::from(given.to_vec()))
                .unwrap();
            graph.launch().unwrap();
            let (rows, pairs) = graph.output();
            assert_eq!(rows.to_ndarray().unwrap().column(0).mapv(f32::from).to_vec(), wanted);
            assert_eq!(
                pairs[0].to_ndarray().unwrap(),
                Array2::from_elem((3, 3), bf16::from_f32(8.0))
            );
        }
    }
}
