// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on whole arrays as parts of expressions: what they share, where results are written, and how many kernels there
//! are.

use ndarray::{Array1, Axis, Dimension, Ix0, Ix1, Ix2, array, s};
use warpsmith::expr::{self, Expr, Value};
use warpsmith::ops::{Max, Min, Precision, ScanAlgorithm, Sum};
use warpsmith::{Device, DeviceArray, Error};

use crate::common::expr::{assert_same_error, assert_shape_error, check, kernels, small};
use crate::common::*;

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

/// How many of an expression's kernels are operations on whole arrays.
fn operations<T: Value, D: Dimension>(expr: &Expr<'_, T, D>) -> usize {
    let is_operation = |kernel: &&String| {
        ["matmul", "matvec", "inclusive", "exclusive", "histogram"]
            .iter()
            .any(|name| kernel.starts_with(name))
    };
    kernels(expr).iter().filter(is_operation).count()
}

#[test]
fn what_is_written_twice_is_computed_once() {
    let (a, b) = (small(Ix2(12, 20), 1), small(Ix2(20, 12), 2));
    // Whatever borrows the array.
    let (view, whole) = (a.view(), a.slice(s![.., ..]).unwrap());
    let twice = || view.expr().matmul(&b).tanh() + whole.expr().matmul(&b).relu();
    let product = a.matmul(&b).unwrap();
    let wanted = || product.tanh()?.add(&product.relu()?);
    check(&twice(), wanted(), "a product");
    assert_eq!(kernels(&twice()).len(), 2);
    assert_eq!(kernels(&twice().fast_math()).len(), 2);
    let square = small(Ix2(12, 12), 5);
    let (one, other) = expr::eval((&twice(), &twice().matmul(&square))).unwrap();
    assert_same(&elements(&one), &elements(&wanted().unwrap()), "the first of two");
    assert_same(
        &elements(&other),
        &elements(&one.matmul(&square).unwrap()),
        "the second of two",
    );
    // What operations are of, reductions among it, and operations on what these give.
    let scan = || (b.expr().square() + 1.0).sum_axis(Axis(1)).inclusive_scan::<Sum>();
    let of_scans = scan().exclusive_scan::<Max>() * scan() - scan().exclusive_scan::<Max>();
    assert_eq!(kernels(&of_scans).len(), 4, "{:?}", kernels(&of_scans));
    let sums = (b.expr().square() + 1.0)
        .sum_axis(Axis(1))
        .eval()
        .unwrap()
        .inclusive_scan::<Sum>()
        .unwrap();
    let highest = sums.exclusive_scan::<Max>().unwrap();
    check(&of_scans, highest.mul(&sums).unwrap().sub(&highest), "scans of scans");
    let counts = || b.expr().histogram(5, -1.0..=1.0);
    assert_eq!(operations(&(counts() + counts())), 1);
    let edges = || b.expr().histogram_edges(&[-1.0, 0.0, 1.0]);
    assert_eq!(operations(&(edges() + edges().inclusive_scan::<Max>())), 2);
    // Functions that are planned once.
    let compiled =
        expr::compile(|(x, w): (Expr<'_, f32, Ix2>, Expr<'_, f32, Ix2>)| x.matmul(&w).tanh() + x.matmul(&w).relu());
    assert_same(
        &elements(&compiled.call((&a, &b)).unwrap()),
        &elements(&one),
        "compiled",
    );
}

/// What differs in anything: operands, operators, parameters.
#[test]
fn what_is_not_the_same_is_computed_for_itself() {
    let x = small(Ix2(12, 12), 3);
    let (e, axis) = (x.expr(), Axis(0));
    let (turned, backwards) = (x.t(), x.slice(s![..;-1, ..]).unwrap());
    let sums = e.inclusive_scan_axis::<Sum>(axis);
    for (one, other) in [
        (sums.clone(), e.inclusive_scan_axis::<Sum>(Axis(1))),
        (sums.clone(), e.exclusive_scan_axis::<Sum>(axis)),
        (sums.clone(), e.inclusive_scan_axis::<Max>(axis)),
        (sums.clone(), e.inclusive_scan::<Sum>()),
        (sums.clone(), turned.expr().inclusive_scan_axis::<Sum>(axis)),
        (sums.clone(), backwards.expr().inclusive_scan_axis::<Sum>(axis)),
        (sums, (&e + 1.0).inclusive_scan_axis::<Sum>(axis)),
        (
            e.inclusive_scan_by::<Sum>(ScanAlgorithm::LookBack),
            e.inclusive_scan_by::<Sum>(ScanAlgorithm::Blelloch),
        ),
        (e.matmul(&x), e.matmul_with(&x, Precision::Tf32)),
        (e.matmul(&x), e.matmul(&*turned)),
        (e.matmul(&x).relu(), e.matmul(&*backwards)),
    ] {
        let (one_alone, other_alone) = (one.eval().unwrap(), other.eval().unwrap());
        check(&(&one - &other), one_alone.sub(&other_alone), "a difference");
        assert_eq!(operations(&(one - other)), 2);
    }
    for (one, other) in [
        (e.histogram(4, -1.0..=1.0), e.histogram(4, -1.0..=2.0)),
        (e.histogram(4, -1.0..=1.0), turned.expr().histogram(4, -1.0..=1.0)),
        (e.histogram_edges(&[0.0, 1.0]), e.histogram_edges(&[0.0, 2.0])),
        (e.histogram_edges(&[0.0, 1.0]), e.histogram(1, 0.0..=1.0)),
    ] {
        let (one_alone, other_alone) = (one.eval().unwrap(), other.eval().unwrap());
        check(&(&one + &other), one_alone.add(&other_alone), "histograms");
        assert_eq!(operations(&(one + other)), 2);
    }
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
    let wrong = (a.expr().matmul(&b) + 1.0).relu();
    assert_shape_error(&wrong.eval().map(drop).unwrap_err(), "matmul");
    assert_same_error(&wrong, a.matmul(&b));
    let error = a.expr().matmul_with(&b, Precision::Tf32).explain().unwrap_err();
    assert_shape_error(&error, "matmul_with");
    let vector = a.index_axis(Axis(1), 0).unwrap();
    assert_same_error(&b.expr().matvec(&*vector), b.matvec(&vector));
    let batch = a.view().insert_axis(Axis(0)).unwrap();
    assert_same_error(&batch.expr().batched_matmul(&*batch), batch.batched_matmul(&batch));
    let axis = Axis(2);
    assert_same_error(
        &a.expr().inclusive_scan_axis::<Sum>(axis),
        a.inclusive_scan_axis::<Sum>(axis),
    );
    for (expr, eager) in [
        (a.expr().histogram(0, 0.0..=1.0), a.histogram(0, 0.0..=1.0)),
        (a.expr().histogram(3, 0.0..=f64::NAN), a.histogram(3, 0.0..=f64::NAN)),
        (a.expr().histogram_edges(&[1.0, 0.0]), a.histogram_edges(&[1.0, 0.0])),
    ] {
        assert_same_error(&expr, eager);
    }
    let elsewhere = Device::simulated_hopper();
    let other = DeviceArray::<f32, _>::zeros(elsewhere.default_stream(), (3, 2)).unwrap();
    let error = a.expr().matmul(&other).eval().map(drop).unwrap_err();
    let is_of_product = matches!(&error, Error::DifferentDevices { operation, .. } if *operation == "matmul");
    assert!(is_of_product, "{error}");
    let (tall, wide) = (a.slice(s![..1, 0..0]).unwrap(), a.slice(s![0..0, ..1]).unwrap());
    let tall = tall.broadcast((1 << 40, 0)).unwrap();
    let wide = wide.broadcast((0, 1 << 40)).unwrap();
    let error = tall.expr().matmul(&*wide).eval().map(drop).unwrap_err();
    assert_shape_error(&error, "matmul");
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
    assert_shape_error(&error, "matmul");
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
