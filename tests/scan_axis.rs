// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along axes: every line is what the sequential scan of it gives, to the last bit, or within the bounds of tests/scan.rs.

use crate::common::*;
use crate::scan::{KINDS, ScanKind, Scanned, ScannedFloat, assert_sums, check_exact, for_floats, moderate, sequential};
use kernels_gpu::op::ReduceOp;
use kernels_gpu::scan::Lines;
use kernels_gpu::scan::columns::{segment_len, tile_rows};
use kernels_gpu::scan::lookback::{narrow, tile_len};
use ndarray::{ArrayD, Axis, Dimension, IxDyn};
use proptest::prelude::*;
use warpsmith::ops::{Max, Min, Product, Scan, Sum};
use warpsmith::{DeviceArray, DeviceArrayRef, LaunchConfig};

/// The scan along an axis on the device.
pub fn scanned_axis<Op: ReduceOp<T>, T: Scan<Op>, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    axis: usize,
    kind: ScanKind,
) -> DeviceArray<Op::Output, D> {
    match kind {
        ScanKind::Inclusive => x.inclusive_scan_axis::<Op>(Axis(axis)),
        ScanKind::Exclusive => x.exclusive_scan_axis::<Op>(Axis(axis)),
    }
    .expect("the scan succeeds")
}

/// The sequential scan of every line along the axis.
pub fn sequential_axis<Op: ReduceOp<T, Output: Number>, T: Number>(
    x: &ArrayD<T>,
    axis: usize,
    kind: ScanKind,
) -> ArrayD<Op::Output> {
    let elements = x.as_standard_layout();
    let elements = elements.as_slice().expect("C order");
    let mut wanted = vec![Op::finish(Op::identity(), 0); elements.len()];
    // By places in memory: lanes of as many axes as are found at run time cost a microsecond each.
    let after: usize = x.shape()[axis + 1..].iter().product();
    let part = x.len_of(Axis(axis)) * after;
    for first in (0..elements.len()).step_by(part.max(1)) {
        for column in first..first + after {
            let line: Vec<T> = elements[column..first + part].iter().copied().step_by(after).collect();
            let results = wanted[column..first + part].iter_mut().step_by(after);
            for (to, result) in results.zip(sequential::<Op, T>(&line, kind)) {
                *to = result;
            }
        }
    }
    ArrayD::from_shape_vec(x.raw_dim(), wanted).expect("as many values")
}

/// Every line along the axis is what the sequential scan gives.
#[track_caller]
fn check_axis<Op: ReduceOp<T, Output: Number>, T: Number + Scan<Op>>(x: &ArrayD<T>, axis: usize) {
    let on_device = upload(x);
    for kind in KINDS {
        let wanted = sequential_axis::<Op, T>(x, axis, kind);
        let got = scanned_axis::<Op, T, _>(&on_device, axis, kind);
        let what = format!("{kind:?} scan of {:?} along axis {axis}", x.shape());
        assert_same(&elements(&got), wanted.as_slice().expect("C order"), &what);
    }
}

/// Random values in that shape.
pub fn shaped<T: Number>(shape: &[usize], seed: u64) -> ArrayD<T> {
    ArrayD::from_shape_vec(IxDyn(shape), random(shape.iter().product(), seed)).expect("as many values")
}

fn every_axis<T: Scanned>() {
    let tile = tile_len::<T, Sum>();
    let shapes = [
        vec![5],
        vec![3, 4, 5, 6],
        vec![1, 100, 1],
        vec![40, 1, 70],
        vec![9, 32],
        vec![9, 33],
        vec![13, 257],
        // Several rows of a warp, that begin at any place of a vector; the last warp has fewer.
        vec![1030, 1],
        vec![700, 2],
        vec![401, 3],
        vec![200, 7],
        vec![77, 31],
        vec![10, 129],
        // Rows that begin at any place of a vector, just longer than a tile: several tiles each.
        vec![3, tile],
        vec![3, tile + 1],
        vec![2, 2 * tile + 3],
        // Rows of whole vectors, of whose last tile some warps have nothing.
        vec![2, tile + tile / 4 + 16],
        // A few rows of so many columns that a thread has several, and of fewer; the last threads have none.
        vec![1, 4200],
        vec![2, 2300],
        vec![3, 1300],
        vec![4, 20],
        vec![5, 800],
        vec![6, 300],
        // Columns of the length of a segment, around it, and of a few.
        vec![segment_len::<T, Sum>(), 5],
        vec![segment_len::<T, Sum>() + 1, 5],
        vec![3, 2 * segment_len::<T, Sum>() - 1, 7],
        // Several tiles one above the other, the last of fewer rows, or of one; strips that are not whole.
        vec![3 * tile_rows::<T, Sum>(4) + 7, 3],
        vec![2, tile_rows::<T, Sum>(4) + 1, 2],
        vec![2 * tile_rows::<T, Sum>(8), 7],
        vec![300, 300],
        vec![2 * tile_rows::<T, Sum>(32) + 40, 33],
    ];
    for (seed, shape) in (1..).zip(shapes) {
        let x = shaped::<T>(&shape, seed);
        for axis in 0..shape.len() {
            check_axis::<Sum, T>(&x, axis);
        }
    }
    let x = shaped::<T>(&[17, 200, 3], 99);
    for axis in 0..3 {
        check_axis::<Product, T>(&x, axis);
        check_axis::<Min, T>(&x, axis);
        check_axis::<Max, T>(&x, axis);
    }
}

for_types!(every_axis: i32 i64 u8 u16);

/// Warps that go through several tiles of several rows, as they do where there are millions of elements.
#[test]
fn rows_of_several_tiles() {
    fn check<T: Number + Scan<Op>, Op: ReduceOp<T, Output: Number>>(n: usize, of_warp: usize) {
        let rows = 9 * of_warp + 1;
        let x = shaped::<T>(&[rows, n], n as u64);
        let on_device = upload(&x.flatten());
        for kind in KINDS {
            let mut out = DeviceArray::zeros(on_device.stream(), rows * n).expect("the array fits");
            let exclusive = u32::from(matches!(kind, ScanKind::Exclusive));
            let config = LaunchConfig::new(2, 256);
            let arguments = (
                &on_device,
                Lines::of_array(rows, n, 1),
                of_warp as u32,
                exclusive,
                &mut out,
            );
            on_device
                .stream()
                .launch::<T::Rows>(&config, arguments)
                .expect("the launch succeeds");
            let wanted = sequential_axis::<Op, T>(&x, 1, kind);
            let what = format!("{kind:?} scan of {rows} rows of {n}, {of_warp} for a warp");
            assert_same(&elements(&out), wanted.as_slice().expect("C order"), &what);
        }
    }
    for (n, of_warp) in [(3, 500), (100, 20), (300, 7), (511, 3), (601, 3)] {
        check::<i32, Sum>(n, of_warp);
        check::<u8, Sum>(n, of_warp);
        check::<f32, Min>(n, of_warp);
    }
}

/// So many columns that each has a thread for itself, of lengths around what it loads at a time.
#[test]
fn many_columns() {
    for (seed, n) in (1..).zip([1, 7, 16, 17]) {
        let x = shaped::<u8>(&[2, n, 33_000], seed);
        check_axis::<Sum, u8>(&x, 1);
    }
}

/// Columns of many tiles, more than a block looks at at once in the last two cases.
#[test]
fn long_columns() {
    check_axis::<Sum, i32>(&shaped(&[20 * tile_rows::<i32, Sum>(16) + 5, 13], 1), 0);
    check_axis::<Sum, u8>(&shaped(&[2, 20 * tile_rows::<u8, Sum>(32) + 5, 32], 2), 1);
    let (rows, columns) = (40 * tile_rows::<f32, Max>(8) + 1, 8);
    let values = moderate::<f32>(rows * columns, 3);
    let mut x = ArrayD::from_shape_vec(IxDyn(&[rows, columns]), values).expect("as many values");
    x[[rows / 2, 2]] = f32::NAN;
    check_axis::<Max, f32>(&x, 0);
}

/// Few columns, whose tiles have whole rows: one tile, several, the last of fewer rows or of one, several matrices.
fn shapes_of_few_columns<T: Scanned>() -> [[usize; 3]; 6] {
    let rows = narrow::tile_rows::<T, Sum>;
    [
        [1, rows(2), 2],
        [2, rows(3) + 1, 3],
        [3, rows(4) + rows(4) / 8, 4],
        [1, 3 * rows(5) - 7, 5],
        [1, 2 * rows(7) + 3, 7],
        [1, 2 * rows(12) + 100, 12],
    ]
}

fn few_columns<T: Scanned>() {
    for (seed, shape) in (1..).zip(shapes_of_few_columns::<T>()) {
        check_axis::<Sum, T>(&shaped(&shape, seed), 1);
    }
}

for_types!(few_columns: i32 i64 u8 u16 u32 u64);

/// Of small integers, whose sums are exact in any grouping: those of 16 bits are summed in `f32`, and rounded once.
fn few_columns_of_floats<T: ScannedFloat>() {
    for (seed, shape) in (1..).zip(shapes_of_few_columns::<T>()) {
        let mut rng = rng(seed);
        let x = ArrayD::from_shape_simple_fn(IxDyn(&shape), || T::of(f64::from(rng.random_range(-8..=8))));
        check_axis::<Sum, T>(&x, 1);
    }
}

for_floats!(few_columns_of_floats: f32 f64 f16 bf16);

/// More tiles than are looked at at once, of few columns.
#[test]
fn few_long_columns() {
    check_axis::<Sum, i32>(&shaped(&[40 * narrow::tile_rows::<i32, Sum>(12) + 5, 12], 1), 0);
    check_axis::<Sum, u8>(&shaped(&[100 * narrow::tile_rows::<u8, Sum>(3) + 1, 3], 2), 0);
}

/// The state is kept from launch to launch, of other types and lengths.
#[test]
fn one_after_another() {
    for rows in [700, 3000, 1025, 5000] {
        check_axis::<Sum, i64>(&shaped(&[rows, 3], 4), 0);
        check_axis::<Sum, u8>(&shaped(&[rows, 70], 5), 0);
        check_exact::<Sum, i32>(&random(20 * rows, 6), "sum");
    }
}

fn every_axis_of_floats<T: ScannedFloat>() {
    let few = [1, narrow::tile_rows::<T, Sum>(3) + 100, 3];
    for (seed, shape) in (1..).zip([[20, 300, 2], [3, 500, 1], [2, 3, 5000], few]) {
        let values = moderate::<T>(shape.iter().product(), seed);
        let x = ArrayD::from_shape_vec(IxDyn(&shape), values).expect("as many values");
        let on_device = upload(&x);
        for axis in 0..3 {
            for kind in KINDS {
                let got = scanned_axis::<Sum, T, _>(&on_device, axis, kind)
                    .to_ndarray()
                    .expect("a result");
                for (got, line) in got.lanes(Axis(axis)).into_iter().zip(x.lanes(Axis(axis))) {
                    // In any grouping a term goes through fewer additions than there are terms.
                    let what = format!("{kind:?} sums along axis {axis} of {shape:?}");
                    assert_sums(&got.to_vec(), &line.to_vec(), kind, line.len() as f64, &what);
                }
            }
        }
        check_axis::<Max, T>(&x, 1);
    }
}

for_floats!(every_axis_of_floats: f32 f64 f16 bf16);

#[test]
fn axes_of_random_shapes() {
    let shapes = prop::collection::vec(0usize..40, 1..4);
    proptest!(cases(40), |(shape in shapes, seed in any::<u64>())| {
        let x = shaped::<i32>(&shape, seed);
        for axis in 0..shape.len() {
            check_axis::<Sum, i32>(&x, axis);
            check_axis::<Max, i32>(&x, axis);
        }
    });
}
