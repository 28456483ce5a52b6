// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions, scans, histograms, and elements that change their places.

use kernels_gpu::scan::lookback::{self, narrow};
use kernels_gpu::sort::tile_len;
use ndarray::{Axis, Ix1, s};
use warpsmith::ops::{
    All, Any, ArgMax, ArgMin, Bincount, Histogram, Max, Mean, Min, Number, Product, Reduce, ReduceOp, Scan,
    ScanAlgorithm, ScanTree, ScatterAdd, Side, Sort, Sum, TopK, Variance, concatenate,
};
use warpsmith::{DeviceArray, Generator, bf16, f16};

use super::{Run, Value, each_type};

pub(super) fn reductions(run: &mut Run) {
    each_type!(run, reduce: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
}

fn reduce<T: Value + Number>(run: &mut Run) {
    combine::<T, Sum>(run);
    combine::<T, Product>(run);
    combine::<T, Min>(run);
    combine::<T, Max>(run);
    combine::<T, Mean>(run);
    combine::<T, Variance>(run);
    combine::<T, ArgMin>(run);
    combine::<T, ArgMax>(run);
    combine::<T, Any>(run);
    combine::<T, All>(run);
    // Axes that do not lie together, in steps, of which the last is along rows or along columns.
    let [a, b, c, d] = [3, 4, 5, 40].map(|most| 1 + run.len(most));
    let x = run.array::<T, _>((a, b, c, 4 + d));
    for axes in [[0, 2], [1, 3]] {
        run.keep(x.sum_axes(&axes));
        run.keep(x.mean_axes(&axes));
        run.keep(x.variance_axes(&axes, 0));
    }
    let backwards = run.ok(x.view().permuted_axes([3, 2, 1, 0]));
    run.keep(backwards.mean_axes(&[0, 3]));
    run.keep(backwards.variance_axes(&[0, 3], 0));
}

fn combine<T: Value + Reduce<Op>, Op: ReduceOp<T>>(run: &mut Run) {
    let x = run.vector::<T>(3000);
    run.keep_value(x.reduce::<Op>());
    let (rows, columns) = (run.len(40), run.len(70));
    let x = run.array::<T, _>((rows, columns));
    run.keep(x.reduce_axis::<Op>(Axis(0)));
    run.keep(x.reduce_axis::<Op>(Axis(1)));
}

pub(super) fn scans(run: &mut Run) {
    // Of each number of bytes an element may have, and of what is summed in.
    each_type!(run, scan_long: f32 f64 f16 u8);
    each_type!(run, scan_short: bf16 i32 i64 u16 u32 u64);
    // Two rows, of which a thread has several columns; rows of which the last tile is a part, loaded by vectors.
    let columns = 2048 + run.len(200);
    let x = run.array::<i32, _>((2, columns));
    run.keep(x.inclusive_scan_axis::<Sum>(Axis(0)));
    let columns = lookback::tile_len::<f32, Max>() + 4 * run.len(100);
    let x = run.array::<f32, _>((2, columns));
    run.keep(x.inclusive_scan_axis::<Max>(Axis(1)));
    each_type!(run, scan_few: f32 f64 f16 bf16 i32 u8 u16 u32 u64);
}

/// Sums of a few columns, of a tile and a part of another; exclusive ones wait in each other's places.
fn scan_few<T: Value + Number>(run: &mut Run) {
    let rows = narrow::tile_rows::<T, Sum>(9) + run.len(100);
    let x = run.array::<T, _>((rows, 9));
    run.keep(x.inclusive_scan_axis::<Sum>(Axis(0)));
    run.keep(x.exclusive_scan_axis::<Sum>(Axis(0)));
}

fn scan_long<T: Value + Number>(run: &mut Run) {
    scan_all::<T>(run, 2 * lookback::tile_len::<T, Sum>());
}

fn scan_short<T: Value + Number>(run: &mut Run) {
    scan_all::<T>(run, 0);
}

/// Sums of `tiles` more elements.
fn scan_all<T: Value + Number>(run: &mut Run, tiles: usize) {
    scan::<T, Sum>(run, tiles);
    scan::<T, Product>(run, 0);
    scan::<T, Min>(run, 0);
    scan::<T, Max>(run, 0);
}

fn scan<T: Value + Scan<Op> + ScanTree<Op, Output = Op::Output>, Op: ReduceOp<T>>(run: &mut Run, tiles: usize) {
    let len = tiles + run.len(700);
    let x = run.array::<T, _>(len);
    run.keep(x.inclusive_scan::<Op>());
    run.keep(x.exclusive_scan_by::<Op>(ScanAlgorithm::Blelloch));
    let (rows, columns) = (run.len(40), 32 + run.len(40));
    let x = run.array::<T, _>((rows, columns));
    run.keep(x.exclusive_scan_axis::<Op>(Axis(0)));
    run.keep(x.inclusive_scan_axis::<Op>(Axis(1)));
}

pub(super) fn moves(run: &mut Run) {
    each_type!(run, transpose: u8 u16 u32 u64);
    transpose_pairs(run);
    copy_lines(run);
    join_lines(run);
    take(run);
    put(run);
    each_type!(run, scatter: f32 f64 u32 u64);
    let mask = run.vector::<u8>(5000);
    run.keep(mask.flatnonzero());
    each_type!(run, top_k: f32 f64 f16 bf16 i32);
    each_type!(run, sort: f32 f64 bf16 u8);
    random(run);
}

fn transpose<T: Value>(run: &mut Run) {
    let tiles = (24 + run.len(50), 24 + run.len(70));
    let x = run.array::<T, _>(tiles);
    run.keep(x.transpose());
    let every_other = run.ok(x.slice(s![.., ..;2]));
    run.keep(every_other.to_array());
    let (few, many) = (run.len(7), run.len(300));
    for shape in [(few, many), (many, few)] {
        let x = run.array::<T, _>(shape);
        run.keep(x.transpose());
    }
}

/// Words of 16 bytes.
fn transpose_pairs(run: &mut Run) {
    let (rows, columns) = (24 + run.len(50), 24 + run.len(70));
    for rows in [rows, 5] {
        let x = run.array::<f64, _>((rows, columns, 2));
        run.keep(x.permute([1, 0, 2]));
    }
}

/// Lines that begin anywhere, on both sides.
fn copy_lines(run: &mut Run) {
    let (rows, columns) = (1 + run.len(9), 64 + run.len(150));
    let [x, y] = [5, 2].map(|more| run.array::<u8, _>((rows, columns + more)));
    run.keep(concatenate(Axis(1), &[x.view(), y.view()]));
    let part = run.ok(x.slice(s![.., 3..]));
    run.keep(part.to_array());
}

/// Short lines of two arrays, in words of each width.
fn join_lines(run: &mut Run) {
    let rows = 2 + run.len(150);
    for widths in [[1, 2], [2, 4], [4, 8], [16, 32]] {
        let [x, y] = widths.map(|width| run.array::<u8, _>((rows, width)));
        run.keep(concatenate(Axis(1), &[x.view(), y.view()]));
    }
}

/// In words of each width.
fn take(run: &mut Run) {
    let count = run.len(600);
    let indices = run.array::<u64, _>(count);
    for bytes in [1, 2, 4, 8, 16] {
        let x = run.array::<u8, _>((5, bytes));
        run.keep(x.take(Axis(0), &indices));
    }
    // An index for each element.
    let x = run.array::<f32, _>((5, 3));
    let indices = run.array::<u64, _>((count, 3));
    run.keep(x.take_along_axis(Axis(0), &indices));
}

/// In words of each width, to few parts of a few, all of which are named, and of many.
fn put(run: &mut Run) {
    let count = run.len(600);
    let indices = run.array::<u64, _>(count);
    for bytes in [1, 2, 4, 8, 16] {
        for parts in [5, 20_000] {
            let values = run.array::<u8, _>((count, bytes));
            let mut x = run.array::<u8, _>((parts, bytes));
            let result = x.assign_at(Axis(0), &indices, &values);
            run.keep_changed(x, result);
        }
    }
}

fn scatter<T: Value + ScatterAdd>(run: &mut Run) {
    let (count, inner) = (run.len(300), run.len(5));
    let indices = run.array::<u64, _>(count);
    let values = run.array::<T, _>((count, inner));
    let mut sums = run.array::<T, _>((5, inner));
    let result = sums.scatter_add(Axis(0), &indices, &values);
    run.keep_changed(sums, result);
    let mut sums = run.array::<T, _>((5, inner));
    let result = sums.scatter_add_in_order(Axis(0), &indices, &values);
    run.keep_changed(sums, result);
}

fn top_k<T: Value + TopK>(run: &mut Run) {
    // Short rows and longer ones.
    for least in [20, 260] {
        let (rows, columns) = (run.len(9), least + run.len(100));
        let k = run.len(20);
        let x = run.array::<T, _>((rows, columns));
        let (values, indices) = run.ok(x.top_k(Axis(1), k));
        run.keep(Ok(values));
        run.keep(Ok(indices));
    }
}

fn sort<T: Value + Sort>(run: &mut Run) {
    // Rows that no block has room for, in passes by tiles, which look back past each other: three tiles, and with places two.
    for (tiles, with_places) in [(2, false), (1, true)] {
        let columns = tiles * tile_len::<T::Word>() / 2 + 1 + run.len(60);
        let x = run.array::<T, _>((2, columns));
        match with_places {
            false => run.keep(x.sort(Axis(1))),
            true => run.keep(x.argsort(Axis(1))),
        }
    }
    // A warp's rows, and those of several.
    for most in [100, 2000] {
        let (rows, columns) = (1 + run.len(5), 1 + run.len(most));
        let x = run.array::<T, _>((rows, columns));
        run.keep(x.sort(Axis(1)));
        run.keep(x.argsort(Axis(1)));
    }
    let (sorted, values) = (run.vector::<T>(300), run.vector::<T>(2000));
    let sorted = run.ok(sorted.sort(Axis(0)));
    run.keep(sorted.searchsorted(&values, Side::Right));
}

fn random(run: &mut Run) {
    let mut generator = Generator::new(7);
    let (stream, len) = (run.stream().clone(), run.len(3000));
    run.keep(generator.uniform::<f32, Ix1>(&stream, len, 0.0..1.0));
    run.keep(generator.uniform::<f64, Ix1>(&stream, len, 0.0..1.0));
    run.keep(generator.standard_normal::<f32, Ix1>(&stream, len));
    run.keep(generator.standard_normal::<f64, Ix1>(&stream, len));
    run.keep(generator.integers::<u32, Ix1>(&stream, len, 3..1000));
    run.keep(generator.integers::<u64, Ix1>(&stream, len, 3..1000));
    run.keep(generator.bernoulli::<Ix1>(&stream, len, 0.3));
    run.keep(generator.permutation(&stream, len));
}

/// Counters for each lane of a warp, for a block in fewer copies, and in memory alone.
const BINS: [usize; 3] = [16, 1000, 20_000];

pub(super) fn histograms(run: &mut Run) {
    each_type!(run, histogram: f32 f64 i32 u8 u16 u32);
    each_type!(run, bincount: i32 u8 u16 u32);
}

fn histogram<T: Value + Histogram>(run: &mut Run) {
    let x = run.vector::<T>(3000);
    run.ok(x.histogram_range());
    for bins in BINS {
        run.keep(x.histogram(bins, 0.0..=3.5));
        let edges = Vec::from_iter((0..=bins).map(|edge| edge as f64 * 3.0 / bins as f64));
        run.keep(x.histogram_edges(&edges));
    }
    for (channels, bins) in [(1, 16), (3, 1000), (3, 20_000), (100, 16)] {
        let pixels = run.len(40);
        let x = run.array::<T, _>((1, pixels, channels));
        run.keep(x.histogram_channels(bins, 0.0..=3.5));
    }
}

fn bincount<T: Value + Bincount>(run: &mut Run) {
    let x = run.vector::<T>(3000);
    for bins in BINS {
        let mut counts = run.ok(DeviceArray::zeros(run.stream(), bins));
        let result = x.bincount_into(&mut counts);
        run.keep_changed(counts, result);
    }
}
