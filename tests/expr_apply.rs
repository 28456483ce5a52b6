// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans, histograms and products of matrices as parts of expressions: the bits of the operations one by one, and how many
//! kernels there are.

use ndarray::{Array1, Array2, Array3, ArrayD, Axis, Dimension, Ix0, Ix1, Ix2, IxDyn, array, s};
use warpsmith::expr::{self, Expr, Value};
use warpsmith::ops::{FusedMatMul, MatMul, Max, Min, Precision, Product, ReduceOp, Scan, ScanAlgorithm, ScanTree, Sum};
use warpsmith::{Device, DeviceArray, DeviceArrayRef, Element, Error, Result, bf16, f16};

use crate::common::*;

/// That the expression gives what the operations give.
#[track_caller]
fn check<T: Number + Value<Element = T>, D: Dimension>(
    expr: &Expr<'_, T, D>,
    eager: Result<DeviceArray<T, D>>,
    what: &str,
) {
    let (got, eager) = (
        expr.eval().unwrap_or_else(|error| panic!("{what}: {error}")),
        eager.unwrap(),
    );
    assert_eq!(got.shape(), eager.shape(), "{what}");
    assert_same(&elements(&got), &elements(&eager), what);
}

/// The kernels that `explain` names, each without its number.
#[track_caller]
fn kernels<T: Value, D: Dimension>(expr: &Expr<'_, T, D>) -> Vec<String> {
    let text = expr.explain().unwrap();
    let lines = text.lines().filter(|line| line.starts_with("kernel "));
    lines.map(|line| line.split_once(": ").unwrap().1.to_string()).collect()
}

/// Numbers of that shape, of which sums of several are exact.
fn small<D: Dimension>(dim: D, seed: u64) -> DeviceArray<f32, D> {
    let mut values = random::<i32>(dim.size(), seed)
        .into_iter()
        .map(|x| (x >> 24) as f32 / 16.0);
    upload(&ndarray::Array::from_shape_simple_fn(dim, || values.next().unwrap()))
}

type Scanned<T, Op> = <Op as ReduceOp<T>>::Output;

/// By an operator, of an array and of the same as an expression, which is computed first.
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
                let same = x.expr().greater(x).select(x.expr(), x);
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

/// Beside its elements, along inserted axes, and where the first ones are looked at.
#[test]
fn results_have_axes_inserted() {
    let x = small(Ix2(5, 6), 4);
    let total = x.expr().sum_axis(Axis(1)).inclusive_scan::<Sum>();
    let got = (&x + total.insert_axis(Axis(1))).eval().unwrap();
    let totals = x.sum_axis(Axis(1)).unwrap().inclusive_scan::<Sum>().unwrap();
    let wanted = x.to_ndarray().unwrap() + totals.to_ndarray().unwrap().insert_axis(Axis(1));
    assert_eq!(got.to_ndarray().unwrap(), wanted);
    // All that is inserted into is one application.
    let both = total.insert_axis(Axis(1)) * total.insert_axis(Axis(0));
    let scans = kernels(&both)
        .iter()
        .filter(|kernel| kernel.starts_with("inclusive_scan"))
        .count();
    assert_eq!((both.eval().unwrap().shape(), scans), (&[5, 5][..], 1));
    let totals = totals.to_ndarray().unwrap();
    let wanted = totals.clone().insert_axis(Axis(1)) * &totals;
    assert_eq!(both.eval().unwrap().to_ndarray().unwrap(), wanted);
    // The variance is by the distances from the first element: exact here, which the squares' sums would not be.
    let far = upload(&array![1e9f64, 1.0, 1.0, 1.0]);
    let variance = far.expr().inclusive_scan::<Sum>().variance(0).eval().unwrap();
    assert_eq!(variance.to_ndarray().unwrap().into_scalar(), 1.25);
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

/// Numbers that products of matrices are exact of, and such that are not.
fn matrix<T: Number>(shape: [usize; 2], seed: u64, of: impl Fn(f64) -> T) -> DeviceArray<T, Ix2> {
    let mut values = random::<i32>(shape[0] * shape[1], seed)
        .into_iter()
        .map(|x| of(f64::from(x) / 2e9));
    upload(&Array2::from_shape_simple_fn(shape, || values.next().unwrap()))
}

fn products<T>(of: impl Fn(f64) -> T)
where
    T: Number + Value<Element = T> + MatMul + warpsmith::ops::Number + expr::Promote<T, Output = T>,
    T: warpsmith::ops::MatVec<Wide: Element>,
{
    let (a, b) = (matrix([9, 20], 1, &of), matrix([20, 13], 2, &of));
    check(&a.expr().matmul(&b), a.matmul(&b), "matmul");
    check(&a.expr().matmul(b.expr()), a.matmul(&b), "matmul of two expressions");
    check(&a.expr().matmul(a.t().expr()), a.matmul(&a.t()), "matmul with itself");
    check(&b.t().expr().matmul(&*a.t()), b.t().matmul(&a.t()), "turned");
    let doubled = a.add(&a).unwrap();
    let backwards = a.slice(s![..;-1, ..;-2]).unwrap();
    let part = b.slice(s![..10, 1..]).unwrap();
    check(&backwards.expr().matmul(&*part), backwards.matmul(&part), "parts");
    let negative = b.neg().unwrap();
    check(
        &(&a + &a).matmul(-b.expr()),
        doubled.matmul(&negative),
        "what is computed first",
    );
    let column = b.slice(s![.., 0..1]).unwrap();
    check(&a.expr().matmul(&*column), a.matmul(&column), "a column");
    let vector = b.index_axis(Axis(1), 2).unwrap();
    check(&a.expr().matvec(&*vector), a.matvec(&vector), "a vector");
    let sum = vector.add(&vector).unwrap();
    let both = (&a + &a).matvec(vector.expr() + &*vector);
    check(&both, doubled.matvec(&sum), "a vector that is computed first");
    let nothing = a.slice(s![.., 3..3]).unwrap();
    check(
        &nothing.expr().matmul(&*nothing.t()),
        nothing.matmul(&nothing.t()),
        "no terms",
    );
    let no_rows = a.slice(s![3..3, ..]).unwrap();
    check(&no_rows.expr().matmul(&b), no_rows.matmul(&b), "no rows");
    let stack = a.view().insert_axis(Axis(0)).unwrap();
    let two = matrix([40, 13], 3, &of).into_shape((2, 20, 13)).unwrap();
    check(
        &stack.expr().batched_matmul(&two),
        stack.batched_matmul(&two),
        "a batch",
    );
    // What follows is computed with the type's own arithmetic.
    let product = a.matmul(&b).unwrap();
    check(
        &(a.expr().matmul(&b).square() - a.expr().matmul(&b)),
        product.square().unwrap().sub(&product),
        "around products",
    );
}

#[test]
fn products_are_those_of_arrays() {
    products(|x| x as f32);
    products(|x| x);
    products(|x| (x * 1000.0) as i32);
    products(f16::from_f64);
    products(bf16::from_f64);
}

#[test]
fn products_with_a_precision() {
    let (a, b) = (matrix([9, 20], 1, |x| x as f32), matrix([20, 13], 2, |x| x as f32));
    for precision in [Precision::Full, Precision::Tf32] {
        check(
            &a.expr().matmul_with(&b, precision),
            a.matmul_with(&b, precision),
            "matmul_with",
        );
        let (x, y) = (
            a.view().insert_axis(Axis(0)).unwrap(),
            b.view().insert_axis(Axis(0)).unwrap(),
        );
        check(
            &x.expr().batched_matmul_with(&*y, precision),
            x.batched_matmul_with(&y, precision),
            "batched_matmul_with",
        );
    }
    // Integers beside floats become these.
    let whole = upload(&array![[1u8, 2], [3, 4]]);
    let x = upload(&array![[0.5f32, 1.0]]);
    let product = x.expr().matmul(&whole).eval().unwrap();
    assert_eq!(product.to_ndarray().unwrap(), array![[3.5, 5.0]]);
}

/// What follows a product in its kernel, against the operations one by one.
struct Layer<'x, T: Element> {
    a: &'x DeviceArrayRef<T, Ix2>,
    b: &'x DeviceArrayRef<T, Ix2>,
    row: &'x DeviceArrayRef<T, Ix1>,
    column: &'x DeviceArrayRef<T, Ix2>,
    all: &'x DeviceArrayRef<T, Ix2>,
}

impl<T> Layer<'_, T>
where
    T: Number + Value<Element = T> + MatMul + warpsmith::ops::Number + expr::Promote<T, Output = T>,
{
    /// That each has the bits, and one kernel if `is_fused` says so.
    fn check(&self, is_fused: bool) {
        let Self { a, b, row, column, all } = *self;
        let p = || a.expr().matmul(b);
        let product = a.matmul(b).unwrap();
        let add = |x: &DeviceArrayRef<T, Ix2>, y: &DeviceArrayRef<T, Ix2>| x.add(y).unwrap();
        let row_of_all = row.broadcast(product.raw_dim()).unwrap();
        let biased = product.add(&row_of_all).unwrap();
        let relu = |x: &DeviceArrayRef<T, Ix2>| x.relu().unwrap();
        let column_of_all = column.broadcast(product.raw_dim()).unwrap();
        for (expr, wanted, description) in [
            (p() + row, biased.try_clone().unwrap(), "bias"),
            (row + p(), biased.try_clone().unwrap(), "bias"),
            (p() + column, add(&product, &column_of_all), "bias"),
            (p() + all, add(&product, all), "bias"),
            ((p() + row).relu(), relu(&biased), "bias and relu"),
            (p().relu() + all, add(&relu(&product), all), "relu and residual"),
            (p() + row + all, add(&biased, all), "bias and residual"),
            (
                all + (p() + row).relu(),
                add(&relu(&biased), all),
                "bias, relu and residual",
            ),
            // What its kernel has no place for is behind it.
            ((p() + row + all).relu(), relu(&add(&biased, all)), "bias and residual"),
        ] {
            check(&expr, Ok(wanted), description);
            let kernels = kernels(&expr);
            let is_one = kernels[0].starts_with(&format!("matmul with {description}: "));
            assert_eq!(is_one, is_fused, "{kernels:?} of {}", T::NAME);
        }
        // `relu` has the bits of any type, once.
        check(&p().relu(), product.relu(), "relu");
        let twice = p().relu().relu() + row;
        check(&twice, relu(&product).add(&row_of_all), "relu twice");
        for expr in [p().relu(), twice] {
            assert!(kernels(&expr)[0].starts_with("matmul with relu: "));
        }
    }
}

/// On every device whose kernels sum otherwise.
fn layers<T>(of: impl Fn(f64) -> T, is_fused: bool)
where
    T: Number + Value<Element = T> + MatMul + warpsmith::ops::Number + expr::Promote<T, Output = T>,
{
    // Of these lengths the kernels of Hopper load the addends by pairs, and of those not.
    for n in [24, 13] {
        let host = |array: DeviceArray<T, Ix2>| array.to_ndarray().unwrap();
        let (a, b) = (host(matrix([20, 40], 1, &of)), host(matrix([40, n], 2, &of)));
        let (row, all) = (host(matrix([1, n], 3, &of)), host(matrix([20, n], 4, &of)));
        for device in with_turing() {
            let on = |array: &Array2<T>| DeviceArray::from_ndarray(device.default_stream(), array).unwrap();
            let column = DeviceArray::from_ndarray(device.default_stream(), &all.slice(s![.., 0..1]).to_owned());
            let row = on(&row).into_shape(n).unwrap();
            Layer {
                a: &on(&a),
                b: &on(&b),
                row: &row,
                column: &column.unwrap(),
                all: &on(&all),
            }
            .check(is_fused);
        }
    }
}

#[test]
fn products_are_followed_by_sums_and_functions_in_their_kernel() {
    layers(|x| x as f32, true);
    layers(|x| x, true);
    layers(|x| (x * 1000.0) as i32, true);
}

#[test]
fn sums_of_16_bit_products_are_rounded_one_by_one() {
    layers(f16::from_f64, false);
    layers(bf16::from_f64, false);
}

#[test]
fn fast_math_does_in_the_products_kernel_what_has_other_bits() {
    fn of<T>(of: impl Fn(f64) -> T)
    where
        T: Number + Value<Element = T> + MatMul + warpsmith::ops::Real + expr::Promote<T, Output = T>,
    {
        let (a, b, all) = (
            matrix([9, 20], 1, &of),
            matrix([20, 14], 2, &of),
            matrix([9, 14], 3, &of),
        );
        let row = matrix([1, 14], 4, &of).into_shape(14).unwrap();
        let p = || a.expr().matmul(&b);
        let fused = || a.fused_matmul(&b);
        type Case<'x, T> = (Expr<'x, T, Ix2>, FusedMatMul<'x, T, Ix2>, &'static str);
        let cases: Vec<Case<'_, T>> = vec![
            (p() + &row, fused().bias(&row), "bias"),
            (p().relu() + &all, fused().relu().residual(&all), "relu and residual"),
            ((p() + &row).gelu(), fused().bias(&row).gelu(), "bias and gelu"),
            (
                (p() + &row).silu() + &all,
                fused().bias(&row).silu().residual(&all),
                "bias, silu and residual",
            ),
            (
                (p() + &row).gelu_tanh(),
                fused().bias(&row).gelu_tanh(),
                "bias and gelu_tanh",
            ),
            (
                &all + (&row + p()),
                fused().bias(&row).residual(&all),
                "bias and residual",
            ),
        ];
        for (expr, fused, what) in cases {
            let fast = expr.fast_math();
            check(&fast, fused.compute(), what);
            let kernels = kernels(&fast);
            assert_eq!(kernels.len(), 1, "{what} of {}: {kernels:?}", T::NAME);
            assert!(kernels[0].starts_with(&format!("matmul with {what}: ")), "{kernels:?}");
        }
        // What is behind is none of it.
        let behind = p().fast_math().gelu();
        check(&behind, (a.matmul(&b).unwrap().expr().gelu()).eval(), "behind");
        assert_eq!(kernels(&behind).len(), 2);
    }
    of(|x| x as f32);
    of(|x| x);
    of(f16::from_f64);
    of(bf16::from_f64);
    let (a, b) = (matrix([9, 20], 1, |x| x as f32), matrix([20, 14], 2, |x| x as f32));
    let relu = a.expr().matmul_with(&b, Precision::Tf32).relu();
    assert_eq!((kernels(&relu).len(), kernels(&relu.fast_math()).len()), (2, 1));
    let n = upload(&array![[1, -2], [3, -4]]);
    let relu = (n.expr().matmul(&n) + &n).relu().fast_math();
    assert_eq!(kernels(&relu).len(), 1);
    let wanted = n.matmul(&n).unwrap().add(&n).unwrap().relu();
    check(&relu, wanted, "integers");
}

/// Nothing is fused that something else needs, or that is no array of the product's shape.
#[test]
fn products_that_others_need_are_left_alone() {
    let (a, b, all) = (small(Ix2(9, 20), 1), small(Ix2(20, 14), 2), small(Ix2(9, 14), 3));
    let p = a.expr().matmul(&b);
    let product = a.matmul(&b).unwrap();
    let twice = (&p + &all).relu() * &p;
    check(
        &twice,
        product.add(&all).unwrap().relu().unwrap().mul(&product),
        "twice",
    );
    assert_eq!(kernels(&twice).len(), 2);
    assert!(kernels(&twice)[0].starts_with("matmul: "));
    let with_itself = &p + &p;
    check(&with_itself, product.add(&product), "itself");
    for (expr, count) in [
        (&p + 1.0, 2),
        (&p + all.expr().square(), 2),
        (&all - p.clone(), 2),
        (p.clone(), 1),
    ] {
        assert_eq!(kernels(&expr).len(), count);
        assert!(kernels(&expr)[0].starts_with("matmul: "));
    }
    // A row that is repeated to more rows, and one of several batches.
    let first = a.slice(s![..1, ..]).unwrap();
    let row = first.expr().matmul(&b);
    assert_eq!(kernels(&(&row + &all)).len(), 2);
    // Of two products the first has the other one's result added to it.
    let sum = a.expr().matmul(&b) + a.expr().matmul(&b).relu();
    check(&sum, product.add(&product.relu().unwrap()), "two products");
    let names: Vec<String> = kernels(&sum)
        .iter()
        .map(|kernel| kernel.split(':').next().unwrap().into())
        .collect();
    assert_eq!(names, ["matmul with relu", "matmul with bias"]);
    // Between products, whose operands they are.
    let turned = b.t();
    let layers = (a.expr().matmul(&b) + &all).relu().matmul(&*turned);
    let hidden = product.add(&all).unwrap().relu().unwrap();
    check(&layers, hidden.matmul(&b.t()), "two layers");
    assert_eq!(kernels(&layers).len(), 2);
}

/// What several operations are of is computed once, and read by what else needs it.
#[test]
fn shared_operands_are_computed_once() {
    let x = small(Ix2(30, 30), 7);
    let e = x.expr().sub_mean();
    let both = e.matmul(&e) + e.inclusive_scan_axis::<Sum>(Axis(0)) * &e;
    let kernels = kernels(&both);
    assert_eq!(kernels.len(), 4, "{kernels:?}");
    assert!(kernels[0].ends_with("for an operand of matmul"), "{kernels:?}");
    assert!(kernels[3].contains("reads 10800 B"), "{kernels:?}");
    let centred = x.expr().sub_mean().eval().unwrap();
    let wanted = centred.matmul(&centred).unwrap();
    let scan = centred
        .inclusive_scan_axis::<Sum>(Axis(0))
        .unwrap()
        .mul(&centred)
        .unwrap();
    check(&both, wanted.add(&scan), "shared");
}

trait SubMean {
    /// The distances of the elements from the mean of their row.
    fn sub_mean(&self) -> Self;
}

impl SubMean for Expr<'_, f32, Ix2> {
    fn sub_mean(&self) -> Self {
        self - self.mean_axis(Axis(1)).insert_axis(Axis(1))
    }
}

#[test]
fn several_expressions_share_operations() {
    let (a, b) = (small(Ix2(12, 20), 1), small(Ix2(20, 12), 2));
    let p = a.expr().matmul(&b);
    let product = a.matmul(&b).unwrap();
    let (out, relu, again, turned) = expr::eval((&p, &p.relu(), &p, &p.exclusive_scan::<Max>())).unwrap();
    let same = |got: &DeviceArray<f32, Ix2>, wanted: &DeviceArray<f32, Ix2>| {
        assert_same(&elements(got), &elements(wanted), "together");
    };
    same(&out, &product);
    same(&relu, &product.relu().unwrap());
    same(&again, &product);
    same(&turned, &product.exclusive_scan::<Max>().unwrap());
}

/// Where the result belongs, also in a view; and in place, where what is read is written.
#[test]
fn results_are_written_in_place() {
    let x = small(Ix2(40, 50), 8);
    let host = x.to_ndarray().unwrap();
    let mut out = DeviceArray::zeros(device().default_stream(), (40, 100)).unwrap();
    x.expr()
        .inclusive_scan_axis::<Sum>(Axis(1))
        .eval_into(&mut out.slice_mut(s![.., ..;2]).unwrap())
        .unwrap();
    let mut sums = host.clone();
    sums.accumulate_axis_inplace(Axis(1), |before, x| *x += before);
    let got = out.to_ndarray().unwrap();
    assert_eq!(
        (got.slice(s![.., ..;2]), got.slice(s![.., 1..;2]).sum()),
        (sums.view(), 0.0)
    );
    let mut y = x.try_clone().unwrap();
    y.update(|y| y.inclusive_scan_axis::<Sum>(Axis(1))).unwrap();
    assert_eq!(y.to_ndarray().unwrap(), sums);
    let mut y = x.try_clone().unwrap();
    y.update(|y| y.inclusive_scan_axis::<Sum>(Axis(1)) - y).unwrap();
    assert_eq!(y.to_ndarray().unwrap(), &sums - &host);
    let mut square = small(Ix2(30, 30), 9);
    let wanted = square.matmul(&square).unwrap().add(&square).unwrap();
    square.update(|x| x.matmul(&x) + x).unwrap();
    assert_same(&elements(&square), &elements(&wanted), "a product of itself");
    let mut halves = x.try_clone().unwrap();
    let (left, mut right) = halves.split_at_mut(Axis(1), 25).unwrap();
    (left.expr().inclusive_scan_axis::<Sum>(Axis(1)))
        .eval_into(&mut right)
        .unwrap();
    assert_eq!(
        halves.to_ndarray().unwrap().slice(s![.., 25..]),
        sums.slice(s![.., ..25])
    );
    let mut part = x.try_clone().unwrap();
    part.slice_mut(s![.., 1..;3])
        .unwrap()
        .update(|part| part.inclusive_scan::<Max>())
        .unwrap();
    let scan = x.slice(s![.., 1..;3]).unwrap().inclusive_scan::<Max>().unwrap();
    assert_eq!(
        part.to_ndarray().unwrap().slice(s![.., 1..;3]),
        scan.to_ndarray().unwrap()
    );
}

#[test]
fn errors_are_those_of_the_operation() {
    let (a, b) = (small(Ix2(2, 3), 1), small(Ix2(4, 5), 2));
    let message = |error: Error| error.to_string();
    let error = (a.expr().matmul(&b) + 1.0).relu().eval().map(drop).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Shape {
                operation: "matmul",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(message(error), message(a.matmul(&b).map(drop).unwrap_err()));
    let error = a.expr().matmul_with(&b, Precision::Tf32).explain().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Shape {
                operation: "matmul_with",
                ..
            }
        ),
        "{error}"
    );
    let vector = a.index_axis(Axis(1), 0).unwrap();
    let error = b.expr().matvec(&*vector).eval().map(drop).unwrap_err();
    assert_eq!(message(error), message(b.matvec(&vector).map(drop).unwrap_err()));
    let batch = a.view().insert_axis(Axis(0)).unwrap();
    let error = batch.expr().batched_matmul(&*batch).eval().map(drop).unwrap_err();
    assert_eq!(
        message(error),
        message(batch.batched_matmul(&batch).map(drop).unwrap_err())
    );
    let error = a
        .expr()
        .inclusive_scan_axis::<Sum>(Axis(2))
        .eval()
        .map(drop)
        .unwrap_err();
    let eager = a.inclusive_scan_axis::<Sum>(Axis(2)).map(drop).unwrap_err();
    assert_eq!(message(error), message(eager));
    for (expr, eager) in [
        (a.expr().histogram(0, 0.0..=1.0), a.histogram(0, 0.0..=1.0)),
        (a.expr().histogram(3, 0.0..=f64::NAN), a.histogram(3, 0.0..=f64::NAN)),
        (a.expr().histogram_edges(&[1.0, 0.0]), a.histogram_edges(&[1.0, 0.0])),
    ] {
        assert_eq!(
            message(expr.eval().map(drop).unwrap_err()),
            message(eager.map(drop).unwrap_err())
        );
    }
    let elsewhere = Device::simulated_hopper();
    let other = DeviceArray::<f32, _>::zeros(elsewhere.default_stream(), (3, 2)).unwrap();
    let error = a.expr().matmul(&other).eval().map(drop).unwrap_err();
    assert!(
        matches!(
            error,
            Error::DifferentDevices {
                operation: "matmul",
                ..
            }
        ),
        "{error}"
    );
    let (tall, wide) = (a.slice(s![..1, 0..0]).unwrap(), a.slice(s![0..0, ..1]).unwrap());
    let tall = tall.broadcast((1 << 40, 0)).unwrap();
    let wide = wide.broadcast((0, 1 << 40)).unwrap();
    let error = tall.expr().matmul(&*wide).eval().map(drop).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Shape {
                operation: "matmul",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn graphs_record_operations() {
    let (a, b) = (small(Ix2(12, 20), 1), small(Ix2(20, 20), 2));
    let mut graph = device()
        .default_stream()
        .capture((a.try_clone().unwrap(), b.try_clone().unwrap()), |_, (a, b)| {
            let (a, b) = (&*a, &*b);
            let row = a.slice(s![0, ..])?;
            let hidden = (a.expr().matmul(b) + &row).relu();
            let counts = hidden.histogram(4, 0.0..=8.0);
            Ok((hidden.inclusive_scan_axis::<Sum>(Axis(1)).eval()?, counts.eval()?))
        })
        .unwrap();
    let (product, row) = (a.matmul(&b).unwrap(), a.slice(s![0, ..]).unwrap());
    let hidden = (&product + &row).relu().eval().unwrap();
    for _ in 0..2 {
        graph.launch().unwrap();
        let (sums, counts) = graph.output();
        assert_same(
            &elements(sums),
            &elements(&hidden.inclusive_scan_axis::<Sum>(Axis(1)).unwrap()),
            "a graph",
        );
        assert_eq!(elements(counts), elements(&hidden.histogram(4, 0.0..=8.0).unwrap()));
    }
}

/// Layers of a network whose launches are planned once: operations, kernels between them, and arrays for both.
#[test]
fn compiled_functions_have_operations() {
    let shift = small(Ix1(8), 3);
    type Arguments<'a> = (Expr<'a, f32, Ix2>, Expr<'a, f32, Ix2>, Expr<'a, f32, Ix0>);
    fn layer<'a>((x, w, scale): Arguments<'a>, shift: &'a DeviceArray<f32, Ix1>) -> [Expr<'a, f32, Ix2>; 2] {
        let hidden = ((&x * scale).matmul(&w) + shift).relu();
        let sums = hidden.inclusive_scan_axis::<Sum>(Axis(1));
        [&sums - sums.max_axis(Axis(1)).insert_axis(Axis(1)), hidden]
    }
    let compiled = expr::compile(|arguments: Arguments<'_>| {
        let [sums, hidden] = layer(arguments, &shift);
        (sums, hidden)
    });
    let (x, w) = (small(Ix2(6, 10), 1), small(Ix2(10, 8), 2));
    let turned = small(Ix2(10, 6), 4);
    let part = x.slice(s![..;-2, ..]).unwrap();
    let none = x.slice(s![..0, ..]).unwrap();
    let no_terms = (x.slice(s![.., ..0]).unwrap(), w.slice(s![..0, ..]).unwrap());
    for (x, w) in [
        (&*x, &*w),
        (&*turned.t(), &*w),
        (&*part, &*w),
        (&*none, &*w),
        (&*no_terms.0, &*no_terms.1),
        (&*turned.t(), &*w),
    ] {
        for scale in [1.0, -0.5] {
            let [sums, hidden] = layer((x.expr(), w.expr(), expr::scalar(scale)), &shift);
            let (got_sums, got_hidden) = compiled.call((x, w, scale)).unwrap();
            assert_same(&elements(&got_sums), &elements(&sums.eval().unwrap()), "compiled");
            assert_same(&elements(&got_hidden), &elements(&hidden.eval().unwrap()), "compiled");
        }
    }
    let error = compiled.call((&x, &x, 1.0)).map(drop).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Shape {
                operation: "matmul",
                ..
            }
        ),
        "{error}"
    );
    // What is traced has no elements for operations either.
    let eager = expr::compile(|x: Expr<'_, f32, Ix2>| match x.matmul(&x).eval() {
        Ok(_) => unreachable!("no elements"),
        Err(error) => {
            assert!(matches!(error, Error::Parameter { .. }), "{error}");
            x
        }
    });
    let square = small(Ix2(5, 5), 5);
    assert_same(
        &elements(&eager.call(&square).unwrap()),
        &elements(&square),
        "as it was",
    );
}

/// A long chain needs no more memory than a short one, and no stack.
#[test]
fn arrays_are_dropped_when_they_were_read() {
    let device = Device::simulator();
    let x = DeviceArray::from_ndarray(device.default_stream(), &Array1::<f32>::ones(300)).unwrap();
    let peak = |length: usize| {
        let chain = (0..length).fold(x.expr(), |x, _| (x * 0.5).inclusive_scan::<Max>());
        device.reset_peak();
        let result = chain.eval().unwrap().max().unwrap();
        assert_eq!(result, 0.5f32.powi(length as i32));
        device.memory().unwrap().peak
    };
    let (short, long) = (peak(4), peak(40));
    assert!(long <= short, "{long} B, of a short chain {short} B");
    let deep = (0..3000).fold(x.expr(), |x, _| (x + 1.0).inclusive_scan::<Min>());
    drop(deep);
}

#[test]
fn steps_and_kernels_are_explained() {
    let device = Device::simulator();
    let on = |array| DeviceArray::from_ndarray(device.default_stream(), &array).unwrap();
    let (a, b) = (
        on(array![[1.0f32, 2.0], [3.0, 4.0]]),
        on(array![[1.0f32, 0.5], [2.0, 1.0]]),
    );
    let row = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, -1.0]).unwrap();
    let sums = ((a.expr() * 2.0).matmul(&b) + &row)
        .relu()
        .inclusive_scan_axis::<Sum>(Axis(1));
    let wanted = "\
%0 = array: f32 [2, 2]
%1 = 2.0: f32 []
%2 = number_binary_f32_Mul(%0, %1): f32 [2, 2]
%3 = array: f32 [2, 2]
%4 = matmul(%2, %3): f32 [2, 2]
%5 = array: f32 [2]
%6 = number_binary_f32_Add(%4, %5): f32 [2, 2]
%7 = number_unary_f32_Relu(%6): f32 [2, 2]
%8 = inclusive_scan_axis by Sum along axis 1(%7): f32 [2, 2]
kernel 1: 4 elements: reads 16 B, writes 16 B, for an operand of matmul with bias and relu
kernel 2: matmul with bias and relu: reads 40 B, writes 16 B
kernel 3: inclusive_scan_axis by Sum along axis 1: reads 16 B, writes 16 B";
    assert_eq!(sums.explain().unwrap(), wanted);
}
