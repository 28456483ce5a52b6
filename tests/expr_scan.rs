// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans and histograms as parts of expressions: the bits of those of arrays.

use ndarray::{Array3, ArrayD, Axis, Ix0, Ix1, Ix2, IxDyn, array, s};
use warpsmith::expr::{self, Expr, Value};
use warpsmith::ops::{Max, Min, Product, ReduceOp, Scan, ScanAlgorithm, ScanTree, Sum};
use warpsmith::{DeviceArrayRef, Error, bf16, f16};

use crate::common::expr::{check, kernels, small};
use crate::common::*;

type Scanned<T, Op> = <Op as ReduceOp<T>>::Output;

/// By an operator, of an array and of the same as an expression, which its kernels compute.
fn scans_by<T, Op>(x: &DeviceArrayRef<T, IxDyn>, computed: &Expr<'_, T, IxDyn>, what: &str)
where
    T: Number + Value<Element = T> + Scan<Op> + ScanTree<Op, Output = Scanned<T, Op>>,
    Op: ReduceOp<T, Output: Number + Value<Element = Scanned<T, Op>>>,
{
    let expr = x.expr();
    check(&expr.inclusive_scan::<Op>(), x.inclusive_scan::<Op>(), what);
    check(&computed.exclusive_scan::<Op>(), x.exclusive_scan::<Op>(), what);
    let by = ScanAlgorithm::Blelloch;
    check(
        &computed.inclusive_scan_by::<Op>(by),
        x.inclusive_scan_by::<Op>(by),
        what,
    );
    check(&expr.exclusive_scan_by::<Op>(by), x.exclusive_scan_by::<Op>(by), what);
    for axis in (0..x.ndim()).map(Axis) {
        let [inclusive, exclusive] = match axis.0 {
            1 => [computed, &expr],
            _ => [&expr, computed],
        };
        let eager = x.inclusive_scan_axis::<Op>(axis);
        check(&inclusive.inclusive_scan_axis::<Op>(axis), eager, what);
        let eager = x.exclusive_scan_axis::<Op>(axis);
        check(&exclusive.exclusive_scan_axis::<Op>(axis), eager, what);
    }
}

/// Does that with arrays and views, which have less than a tile, so that floats are added in one order.
fn with_views<T: Number>(each: impl Fn(&DeviceArrayRef<T, IxDyn>, &str)) {
    let base = ArrayD::from_shape_vec(IxDyn(&[4, 3, 5]), random::<T>(60, 1)).unwrap();
    let x = upload(&base);
    let turned = x.view().permuted_axes(IxDyn(&[2, 0, 1])).unwrap();
    let part = turned.slice_axis(Axis(0), ndarray::Slice::new(1, None, 2)).unwrap();
    let flipped = x.flip(Axis(2)).unwrap();
    let plane = x.index_axis(Axis(0), 3).unwrap();
    let row = plane.index_axis(Axis(0), 2).unwrap();
    each(&x, "an array");
    each(&turned, "a turned view");
    each(&part, "a part");
    each(&flipped, "a flipped view");
    each(&row.broadcast(IxDyn(&[4, 5])).unwrap(), "repeated rows");
    each(
        &x.slice_axis(Axis(1), ndarray::Slice::new(1, Some(1), 1)).unwrap(),
        "no elements",
    );
    each(&row.index_axis(Axis(0), 4).unwrap(), "one element");
}

macro_rules! scans {
    ($($name:ident: $type:ty;)*) => {$(
        #[test]
        fn $name() {
            with_views::<$type>(|x, what| {
                // On a GPU the driver compiles each kernel that computes it.
                let same = match what {
                    "repeated rows" => x.expr().greater(x).select(x.expr(), x),
                    _ => x.expr(),
                };
                scans_by::<$type, Sum>(x, &same, what);
                if what == "a part" {
                    scans_by::<$type, Product>(x, &same, what);
                    scans_by::<$type, Min>(x, &same, what);
                    scans_by::<$type, Max>(x, &same, what);
                }
            });
        }
    )*};
}

scans! {
    scans_of_f32: f32;
    scans_of_f64: f64;
    scans_of_f16: f16;
    scans_of_bf16: bf16;
    scans_of_i32: i32;
    scans_of_i64: i64;
    scans_of_u8: u8;
    scans_of_u16: u16;
    scans_of_u32: u32;
    scans_of_u64: u64;
}

/// Long ones, in parts of many elements, whose sums are exact.
#[test]
fn running_sums_and_products() {
    let bytes = upload(&Array3::from_shape_fn((2, 3, 40), |(i, j, k)| {
        (i + 2 * j + k % 3) as u8
    }));
    let (x, what) = (bytes.expr(), "running sums and products");
    check(&x.cumsum(), bytes.cumsum(), what);
    check(&x.cumprod(), bytes.cumprod(), what);
    check(&x.cumsum_axis(Axis(1)), bytes.cumsum_axis(Axis(1)), what);
    check(&x.cumprod_axis(Axis(2)), bytes.cumprod_axis(Axis(2)), what);
    let error = x.cumsum_axis(Axis(3)).eval().unwrap_err();
    assert!(matches!(error, Error::Axes { .. }), "{error}");
}

#[test]
fn scans_are_parts_of_expressions() {
    let x = small(Ix1(40_000), 2);
    let sums = x.inclusive_scan::<Sum>().unwrap();
    let wanted = sums.mul_scalar(2.0).unwrap().sub(&x).unwrap();
    check(
        &(x.expr().inclusive_scan::<Sum>() * 2.0 - &x),
        Ok(wanted),
        "around a scan",
    );
    let squares = (&x * &x).eval().unwrap().inclusive_scan::<Sum>();
    check(&x.expr().square().inclusive_scan::<Sum>(), squares, "of an expression");
    let twice = sums.inclusive_scan::<Max>();
    check(
        &x.expr().inclusive_scan::<Sum>().inclusive_scan::<Max>(),
        twice,
        "of a scan",
    );
    // Reductions of a scan, and a scan of what a reduction gives.
    let rows = small(Ix2(300, 41), 3);
    let host = rows.to_ndarray().unwrap();
    let mut wanted = host.clone();
    wanted.accumulate_axis_inplace(Axis(1), |before, x| *x += before);
    let peaks = rows.expr().inclusive_scan_axis::<Sum>(Axis(1)).max_axis(Axis(1));
    let highest = wanted.map_axis(Axis(1), |row| row.iter().copied().fold(f32::MIN, f32::max));
    assert_eq!(peaks.eval().unwrap().to_ndarray().unwrap(), highest);
    let mut of_sums = host.sum_axis(Axis(1));
    of_sums.accumulate_axis_inplace(Axis(0), |before, x| *x += before);
    let scan_of_sums = rows.expr().sum_axis(Axis(1)).inclusive_scan::<Sum>();
    assert_eq!(scan_of_sums.eval().unwrap().to_ndarray().unwrap(), of_sums);
    let places = expr::index(5, 0).inclusive_scan::<Sum>();
    let stream = device().default_stream();
    assert_eq!(
        places.eval_on(stream).unwrap().to_ndarray().unwrap(),
        array![0, 1, 3, 6, 10]
    );
    assert!(matches!(places.eval(), Err(Error::Parameter { .. })), "it has no home");
}

/// Rows that vectors go over the ends of, repeated rows and columns, places, and lengths beside multiples of a vector. On a GPU the
/// driver compiles each kernel for each way in which operands lie, so there are few of both.
#[test]
fn elements_that_kernels_compute_are_those_of_arrays() {
    for shape in [[1, 1], [7, 1], [3, 4096], [5, 1003], [300, 64], [1, 40_001]] {
        let x = small(Ix2(shape[0], shape[1]), 2);
        let row = small(Ix2(1, shape[1]), 3);
        let column = small(Ix2(shape[0], 1), 4);
        let flipped = x.flip(Axis(1)).unwrap();
        let places = expr::index(shape, 0) * 2 + expr::index(shape, 1);
        let sums = |expr: &Expr<'_, f32, Ix2>, what: &str| {
            let what = &format!("{what} {shape:?}");
            assert_eq!(kernels(&expr.inclusive_scan::<Sum>()).len(), 1, "{what}");
            check(
                &expr.inclusive_scan::<Sum>(),
                expr.eval().unwrap().inclusive_scan::<Sum>(),
                what,
            );
        };
        sums(&(&x * &column), "a column for all");
        sums(&(&flipped + places.cast::<f32>() % 64.0), "a flipped view and places");
        let rows = &x + &row;
        sums(&rows, "a row for all");
        let eager = rows.eval().unwrap();
        for axis in [Axis(0), Axis(1)] {
            let scanned = eager.exclusive_scan_axis::<Max>(axis);
            check(&rows.exclusive_scan_axis::<Max>(axis), scanned, "along an axis");
        }
        check(&rows.histogram(9, -4.0..=4.0), eager.histogram(9, -4.0..=4.0), "counts");
    }
    // Elements of other sizes than what they are made of.
    let x = small(Ix1(5000), 7);
    let narrow = (&x + 3.0).cast::<u8>();
    let eager = narrow.eval().unwrap();
    check(&narrow.inclusive_scan::<Sum>(), eager.inclusive_scan::<Sum>(), "bytes");
    check(
        &narrow.histogram(256, 0.0..=256.0),
        eager.histogram(256, 0.0..=256.0),
        "bytes",
    );
    let wide = (&x + 3.0).cast::<f64>();
    check(
        &wide.inclusive_scan::<Sum>(),
        wide.eval().unwrap().inclusive_scan::<Sum>(),
        "wide",
    );
    // Parts that begin beside a multiple of a vector.
    let (back, front) = (x.slice(s![3..]).unwrap(), x.slice(s![..-3]).unwrap());
    let sums = &back + &front;
    let eager = sums.eval().unwrap();
    check(&sums.inclusive_scan::<Sum>(), eager.inclusive_scan::<Sum>(), "parts");
}

/// An operand is in memory only where something else needs it, or where reading through it would not do.
#[test]
fn what_is_scanned_is_in_memory_only_where_it_must_be() {
    let x = small(Ix2(40, 50), 2);
    let square = x.expr().square() + 1.0;
    let alone = kernels(&square.inclusive_scan::<Sum>());
    assert_eq!(alone.len(), 1, "{alone:?}");
    let wanted = "inclusive_scan by Sum of elements that it computes: reads 8000 B, writes 8000 B";
    assert!(alone[0].starts_with(wanted), "{alone:?}");
    let counted = kernels(&square.histogram(4, 0.0..=1.0));
    assert!(
        counted.len() == 1 && counted[0].contains("that it computes: reads 8000 B, writes 32 B"),
        "{counted:?}"
    );
    let in_memory = |expr: &Expr<'_, f32, Ix2>, what: &str| {
        let kernels = kernels(expr);
        assert!(
            kernels[0].ends_with("for an operand of inclusive_scan by Sum"),
            "{what}: {kernels:?}"
        );
    };
    in_memory(&(square.inclusive_scan::<Sum>() + &square), "it is needed again");
    in_memory(&(&x - x.expr().sum()).inclusive_scan::<Sum>(), "it is of a sum");
    let y = small(Ix2(50, 40), 3);
    in_memory(&(&x + &y.t()).inclusive_scan::<Sum>(), "an operand is transposed");
    let long = (0..20).fold(x.expr(), |sum, k| (sum + k as f32).sqrt());
    in_memory(&long.inclusive_scan::<Sum>(), "it takes many operations");
    // Two operations on the same need it twice.
    let twice = square.inclusive_scan::<Sum>() + square.inclusive_scan::<Max>();
    assert_eq!(kernels(&twice).len(), 4, "{twice}", twice = twice.explain().unwrap());
    // With the results of either.
    let squares = square.eval().unwrap();
    let scans = (
        squares.inclusive_scan::<Sum>().unwrap(),
        squares.inclusive_scan::<Max>().unwrap(),
    );
    check(&twice, scans.0.add(&scans.1), "twice");
    check(
        &(square.inclusive_scan::<Sum>() + &square),
        scans.0.add(&squares),
        "again",
    );
}

/// Compiled functions and graphs have new arrays and numbers each time.
#[test]
fn elements_that_kernels_compute_are_those_of_each_call() {
    let f = expr::compile(|(x, a): (Expr<f32, Ix1>, Expr<f32, Ix0>)| (x.square() * a).inclusive_scan::<Sum>());
    let bins = expr::compile(|x: Expr<f32, Ix1>| (x * 2.0).histogram(8, -8.0..=8.0));
    for (seed, a) in [(1, 2.0), (2, 0.5)] {
        let x = small(Ix1(9000), seed);
        let eager = x
            .square()
            .unwrap()
            .mul_scalar(a)
            .unwrap()
            .inclusive_scan::<Sum>()
            .unwrap();
        assert_same(&elements(&f.call((&x, a)).unwrap()), &elements(&eager), "a scan");
        let eager = x.mul_scalar(2.0).unwrap().histogram(8, -8.0..=8.0).unwrap();
        assert_eq!(elements(&bins.call(&x).unwrap()), elements(&eager));
    }
    let stream = device().default_stream();
    let x = small(Ix1(9000), 3);
    let mut graph = stream
        .capture(x.try_clone().unwrap(), |_, x| {
            (x.expr() + 1.0).inclusive_scan::<Sum>().eval()
        })
        .unwrap();
    for _ in 0..2 {
        let wanted = x.add_scalar(1.0).unwrap().inclusive_scan::<Sum>().unwrap();
        graph.launch().unwrap();
        let got = elements(graph.output());
        assert_same(&got, &elements(&wanted), "a graph");
    }
}

#[test]
fn histograms_are_those_of_arrays() {
    let x = small(Ix2(50, 60), 5);
    let squares = x.square().unwrap();
    let square = x.expr().square();
    check(
        &square.histogram(17, 0.0..=30.0),
        squares.histogram(17, 0.0..=30.0),
        "equal bins",
    );
    let edges = [0.0, 1.0, 2.5, 30.0];
    check(
        &square.histogram_edges(&edges),
        squares.histogram_edges(&edges),
        "edges",
    );
    check(
        &x.t().expr().histogram(5, -1.0..=1.0),
        x.histogram(5, -1.0..=1.0),
        "a view",
    );
    let empty = x.slice(s![.., 3..3]).unwrap();
    check(
        &empty.expr().histogram(3, 0.0..=1.0),
        empty.histogram(3, 0.0..=1.0),
        "no elements",
    );
    let picture = upload(&Array3::from_shape_vec((4, 5, 3), random::<u8>(60, 6)).unwrap());
    check(
        &picture.expr().histogram_channels(4, 0.0..=256.0),
        picture.histogram_channels(4, 0.0..=256.0),
        "a picture",
    );
    // The cumulative distribution of a picture's values.
    let counts = picture.expr().histogram(256, 0.0..=256.0);
    let share = counts.inclusive_scan::<Sum>().cast::<f64>() / 60.0;
    let share = share.eval().unwrap().to_ndarray().unwrap();
    assert_eq!(share[255], 1.0);
    let below = elements(&picture).iter().filter(|&&x| x <= 100).count();
    assert_eq!(share[100], below as f64 / 60.0);
}
