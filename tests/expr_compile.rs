// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiled functions: the bits of `eval`, one trace for each class of arguments, and what they refuse.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{Array1, Array2, Array3, Axis, Ix0, Ix1, Ix2, Ix3, IxDyn, array, s};
use proptest::prelude::*;
use warpsmith::expr::{self, Expr};
use warpsmith::{Device, DeviceArray, Error, Generator, f16};

use crate::common::*;

type Dynamic<'a> = Expr<'a, f32, IxDyn>;

fn matrix(rows: usize, columns: usize, seed: u64) -> DeviceArray<f32, Ix2> {
    upload(&Array2::from_shape_vec((rows, columns), random::<f32>(rows * columns, seed)).unwrap())
}

fn vector(len: usize, seed: u64) -> DeviceArray<f32, Ix1> {
    upload(&Array1::from(random::<f32>(len, seed)))
}

fn softmax<'a>(x: &Expr<'a, f32, Ix2>, axis: usize) -> Expr<'a, f32, Ix2> {
    let axis = Axis(axis);
    let e = (x - x.max_axis(axis).insert_axis(axis)).exp();
    &e / e.sum_axis(axis).insert_axis(axis)
}

#[test]
fn every_layout_gives_the_bits_of_eval_and_is_traced_once() {
    let traces = AtomicUsize::new(0);
    let f = expr::compile(|(x, y): (Dynamic<'_>, Dynamic<'_>)| {
        traces.fetch_add(1, Ordering::Relaxed);
        (&x - &y).tanh() * x + y
    });
    let arrays = [1, 2].map(|seed| matrix(24, 40, seed));
    let rows = [3, 4].map(|seed| vector(41, seed));
    let mut classes = 0;
    for (rows_step, columns_step, turned) in [
        (1, 1, false),
        (2, 3, false),
        (-1, 1, false),
        (1, -2, true),
        (1, 1, true),
    ] {
        for (first, row_first) in [(0, 0), (4, 1), (2, 0)] {
            classes += 2;
            for (array, row) in arrays.iter().zip(&rows) {
                let view = array.slice(s![.., first..;columns_step]).unwrap();
                let view = view.slice(s![..;rows_step, ..]).unwrap();
                let view = if turned { view.reversed_axes() } else { view };
                let columns = view.shape()[1];
                let row = row.slice(s![row_first..row_first + columns]).unwrap();
                let (view, row) = (view.into_dyn(), row.into_dyn());
                for (x, y) in [(&view, &row), (&view, &view)] {
                    let wanted = ((x.expr() - y).tanh() * x + y).eval().unwrap();
                    let got = f.call((x, y)).unwrap();
                    let what = format!("{:?} {:?} and {:?}", x.shape(), x.strides(), y.shape());
                    assert_eq!(got.shape(), wanted.shape(), "{what}");
                    assert_same(&elements(&got), &elements(&wanted), &what);
                }
            }
        }
    }
    assert_eq!(traces.load(Ordering::Relaxed), classes);
}

#[test]
fn arrays_without_elements_have_results_without() {
    let f = expr::compile(|x: Expr<f32, Ix2>| x.square() + 1.0);
    let sums = expr::compile(|x: Expr<f32, Ix2>| x.sum_axis(Axis(0)) + 1.0);
    let x = DeviceArray::zeros(device().default_stream(), (0, 3)).unwrap();
    for _ in 0..2 {
        assert_eq!(f.call(&x).unwrap().shape(), [0, 3]);
        assert_eq!(elements(&sums.call(&x).unwrap()), [1.0; 3]);
    }
    let greatest = expr::compile(|x: Expr<f32, Ix2>| x.max_axis(Axis(0)));
    let error = greatest.call(&x).unwrap_err();
    assert!(matches!(error, Error::Empty { .. }), "{error}");
}

fn numbers<T: Number + warpsmith::ops::Number + expr::Value<Element = T> + expr::Promote<T, Output = T>>() {
    let traces = AtomicUsize::new(0);
    // A number of the function's own that is given as well, one that is given twice, and arithmetic of numbers alone.
    let f = expr::compile(|(a, x, b): (Expr<T, Ix0>, Expr<T, Ix1>, Expr<T, Ix0>)| {
        traces.fetch_add(1, Ordering::Relaxed);
        x * &a + (&a * &b) - (b + T::ONE) * T::ZERO
    });
    let x = upload(&Array1::from(random::<T>(300, 1)));
    let scalars = [&[T::ZERO, T::ONE], &random::<T>(8, 2)[..]].concat();
    for (a, b) in scalars.iter().zip(scalars.iter().rev()).map(|(a, b)| (*a, *b)) {
        let own = expr::scalar(a) * expr::scalar(b);
        let wanted = x.expr() * a + own - (expr::scalar(b) + T::ONE) * T::ZERO;
        let got = f.call((a, &x, b)).unwrap();
        assert_same(
            &elements(&got),
            &elements(&wanted.eval().unwrap()),
            &format!("{a:?} {b:?}"),
        );
    }
    assert_eq!(traces.load(Ordering::Relaxed), 1);
    // An array of one number stands where a number can.
    let a = upload(&ndarray::arr0(scalars[3]));
    let got = f.call((&a, &x, scalars[4])).unwrap();
    let wanted = f.call((scalars[3], &x, scalars[4])).unwrap();
    assert_same(&elements(&got), &elements(&wanted), "an array of one number");
    assert_eq!(traces.load(Ordering::Relaxed), 2);
}

for_types!(numbers: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn numbers_alone_want_a_stream() {
    let f = expr::compile(|(flag, a): (Expr<bool, Ix0>, Expr<i32, Ix0>)| flag.select(a.square(), expr::scalar(-1)));
    let stream = device().default_stream();
    for (flag, wanted) in [(true, 49), (false, -1)] {
        assert_eq!(
            f.call_on(stream, (flag, 7))
                .unwrap()
                .to_ndarray()
                .unwrap()
                .into_scalar(),
            wanted
        );
    }
    let message = f.call((true, 1)).unwrap_err().to_string();
    assert!(message.contains("no array") && message.contains("call_on"), "{message}");
    let identity = expr::compile(|a: Expr<f64, Ix0>| a);
    assert_eq!(elements(&identity.call_on(stream, 0.1).unwrap()), [0.1]);
}

/// Rows in one kernel, columns in several, and all that comes of it at once.
#[test]
fn reductions_and_several_kernels_give_the_bits_of_eval() {
    fn of<'a>(x: &Expr<'a, f32, Ix2>) -> Expr<'a, f32, Ix1> {
        softmax(x, 1).sum_axis(Axis(0)).square()
    }
    let f = expr::compile(|x: Expr<f32, Ix2>| of(&x));
    let rows = expr::compile(|x: Expr<f32, Ix2>| softmax(&x, 1));
    let columns = expr::compile(|x: Expr<f32, Ix2>| softmax(&x, 0));
    let both = expr::compile(|x: Expr<f32, Ix2>| (x.mean_axis(Axis(1)), x.argmax_axis(Axis(1)).cast::<f32>()));
    let whole = expr::compile(|x: Expr<f32, Ix3>| x.sum());
    for seed in [1, 2] {
        let x = upload(&Array2::from_shape_fn((37, 300), |(i, j)| {
            ((i * 31 + j * 7 + seed) % 101) as f32 / 17.0
        }));
        let same = |got: &DeviceArray<f32, Ix2>, wanted: Expr<'_, f32, Ix2>, what| {
            assert_same(&elements(got), &elements(&wanted.eval().unwrap()), what);
        };
        same(&rows.call(&x).unwrap(), softmax(&x.expr(), 1), "rows");
        same(&columns.call(&x).unwrap(), softmax(&x.expr(), 0), "columns");
        assert!(of(&x.expr()).explain().unwrap().contains("kernel 2"));
        assert_same(
            &elements(&f.call(&x).unwrap()),
            &elements(&of(&x.expr()).eval().unwrap()),
            "several kernels",
        );
        let (means, places) = both.call(&x).unwrap();
        let x = x.expr();
        let wanted = expr::eval((&x.mean_axis(Axis(1)), &x.argmax_axis(Axis(1)).cast::<f32>())).unwrap();
        assert_same(&elements(&means), &elements(&wanted.0), "means");
        assert_same(&elements(&places), &elements(&wanted.1), "places");
        // In parts, and along axes that are no one axis.
        let y = upload(&Array3::from_shape_fn((5, 400, 300), |(i, j, k)| {
            ((i + j * 3 + k + seed) % 11) as f32
        }));
        let y = y.slice(s![.., ..;-2, 1..]).unwrap();
        assert_same(
            &elements(&whole.call(&y).unwrap()),
            &elements(&y.expr().sum().eval().unwrap()),
            "parts",
        );
    }
}

/// More operations than a kernel has.
#[test]
fn long_functions_are_several_kernels() {
    let f = expr::compile(|(x, a): (Expr<i64, Ix1>, Expr<i64, Ix0>)| (0..2000).fold(x, |x, i| x * &a + (i % 7)));
    for (seed, a) in [(1, 3i64), (2, -5)] {
        let x = upload(&Array1::from(random::<i64>(50, seed)));
        let wanted = |x: i64| (0..2000).fold(x, |x: i64, i| x.wrapping_mul(a).wrapping_add(i % 7));
        let wanted: Vec<i64> = elements(&x).into_iter().map(wanted).collect();
        assert_eq!(elements(&f.call((&x, a)).unwrap()), wanted);
    }
}

#[test]
fn several_results_are_a_tuple() {
    let f = expr::compile(|(x, y): (Expr<f32, Ix1>, Expr<f64, Ix1>)| (x.less(&y), &x + &y, x.cast::<f16>()));
    let (x, y) = (vector(100, 1), upload(&Array1::from(random::<f64>(100, 2))));
    let (less, sum, half) = f.call((&x, &y)).unwrap();
    assert_eq!(elements(&less), elements(&x.expr().less(&y).eval().unwrap()));
    assert_same(&elements(&sum), &elements(&(&x + &y).eval().unwrap()), "sum");
    assert_same(
        &elements(&half),
        &elements(&x.expr().cast::<f16>().eval().unwrap()),
        "half",
    );
    let uneven = expr::compile(|x: Expr<f32, Ix1>| (x.clone(), x.sum_axis(Axis(0)).insert_axis(Axis(0))));
    let message = uneven.call(&x).unwrap_err().to_string();
    assert!(message.contains("[1]") && message.contains("[100]"), "{message}");
}

#[test]
fn results_go_into_arrays_and_views() {
    let f = expr::compile(|(x, a): (Expr<f32, Ix2>, Expr<f32, Ix0>)| x.exp() * a);
    let x = matrix(8, 12, 1);
    let wanted = (x.expr().exp() * 2.0).eval().unwrap();
    let mut out = DeviceArray::zeros(x.stream(), (8, 12)).unwrap();
    f.call_into((&x, 2.0), &mut out).unwrap();
    assert_same(&elements(&out), &elements(&wanted), "an array");
    // Rows that lie densely behind a first element at any alignment; and every other column, backwards.
    let of_line = expr::compile(|(x, a): (Expr<f32, Ix1>, Expr<f32, Ix0>)| x.exp() * a);
    let (x_line, mut line) = (vector(96, 3), DeviceArray::zeros(x.stream(), 100).unwrap());
    let wanted_line = (x_line.expr().exp() * 2.0).eval().unwrap();
    for first in 0..4 {
        let mut out = line.slice_mut(s![first..first + 96]).unwrap();
        of_line.call_into((&x_line, 2.0), &mut out).unwrap();
        assert_same(&elements(&out.to_array().unwrap()), &elements(&wanted_line), "a view");
    }
    let mut wide = DeviceArray::zeros(x.stream(), (8, 24)).unwrap();
    f.call_into((&x, 2.0), &mut wide.slice_mut(s![.., ..;-2]).unwrap())
        .unwrap();
    let columns = wide.slice(s![.., ..;-2]).unwrap().to_array().unwrap();
    assert_same(&elements(&columns), &elements(&wanted), "columns");
    assert_eq!(
        elements(&wide.slice(s![.., ..;2]).unwrap().to_array().unwrap()),
        [0.0; 96]
    );
    // A part of an array from the other part.
    let mut halves = matrix(16, 12, 2);
    let wanted = (halves.slice(s![..8, ..]).unwrap().expr().exp() * 3.0).eval().unwrap();
    let (from, mut to) = halves.split_at_mut(Axis(0), 8).unwrap();
    f.call_into((&from, 3.0), &mut to).unwrap();
    assert_same(&elements(&to.to_array().unwrap()), &elements(&wanted), "the other half");
    let message = f.call_into((&x, 2.0), &mut wide).unwrap_err().to_string();
    assert!(message.contains("[8, 12]") && message.contains("[8, 24]"), "{message}");
}

#[test]
fn arrays_that_the_function_brings_along_are_read_at_every_call() {
    let (x, w) = (matrix(6, 40, 1), matrix(6, 40, 2));
    let row = w.slice(s![2, ..]).unwrap();
    let made = upload(&array![0.5f32]).into_expr();
    let f = expr::compile(|x: Expr<f32, Ix2>| (x * &w - &row).maximum(&w) + &made);
    for x in [&x, &w] {
        let wanted = ((x * &w - &row).maximum(&w) + 0.5).eval().unwrap();
        assert_same(&elements(&f.call(x).unwrap()), &elements(&wanted), "a call");
    }
    // An array that it computes when it is traced.
    let g = expr::compile(|x: Expr<f32, Ix2>| x + w.exp().unwrap().into_expr());
    for _ in 0..2 {
        assert_same(
            &elements(&g.call(&x).unwrap()),
            &elements(&(&x + w.expr().exp()).eval().unwrap()),
            "computed",
        );
    }
    // Random numbers are those of the trace.
    let random = Mutex::new(Generator::new(7));
    let noise = expr::compile(|x: Expr<f32, Ix1>| x + random.lock().unwrap().uniform_expr(50, 0.0f32..1.0));
    let x = vector(50, 3);
    let wanted = (&x + Generator::new(7).uniform_expr(50, 0.0f32..1.0)).eval().unwrap();
    for _ in 0..2 {
        assert_same(&elements(&noise.call(&x).unwrap()), &elements(&wanted), "noise");
    }
}

#[test]
fn the_plans_that_were_called_last_are_kept() {
    let traces = AtomicUsize::new(0);
    let f = expr::compile(|x: Expr<i32, Ix1>| {
        traces.fetch_add(1, Ordering::Relaxed);
        x + 1
    });
    let call = |len: usize| {
        let x = DeviceArray::zeros(device().default_stream(), len).unwrap();
        assert_eq!(elements(&f.call(&x).unwrap()), vec![1; len]);
        traces.load(Ordering::Relaxed)
    };
    assert_eq!((1..=32).map(call).last(), Some(32));
    assert_eq!(call(1), 32, "kept, and now called last");
    assert_eq!(call(33), 33, "in the place of 2");
    assert_eq!(call(1), 33);
    assert_eq!(call(3), 33);
    assert_eq!(call(2), 34);
}

#[test]
fn every_device_has_its_plans() {
    let traces = AtomicUsize::new(0);
    let f = expr::compile(|(x, y): (Expr<f32, Ix1>, Expr<f32, Ix1>)| {
        traces.fetch_add(1, Ordering::Relaxed);
        x * 2.0 + y
    });
    let devices = [Device::simulator(), Device::simulator()];
    let arrays = devices
        .each_ref()
        .map(|device| DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, -2.0]).unwrap());
    for _ in 0..2 {
        for x in &arrays {
            let y = f.call((x, x)).unwrap();
            assert!(y.stream() == x.stream());
            assert_eq!(elements(&y), [3.0, -6.0]);
        }
    }
    assert_eq!(traces.load(Ordering::Relaxed), 2);
    for error in [
        f.call((&arrays[0], &arrays[1])).unwrap_err(),
        f.call_on(devices[1].default_stream(), (&arrays[0], &arrays[0]))
            .unwrap_err(),
    ] {
        assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
    }
    let bound = expr::compile(|x: Expr<f32, Ix1>| x + &arrays[0]);
    assert_eq!(elements(&bound.call(&arrays[0]).unwrap()), [2.0, -4.0]);
    let error = bound.call(&arrays[1]).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
    // On a device that was reset it is traced anew.
    let new = devices[0].reset().unwrap();
    let x = DeviceArray::from_ndarray(new.default_stream(), &array![1.0f32, -2.0]).unwrap();
    assert_eq!(elements(&f.call((&x, &x)).unwrap()), [3.0, -6.0]);
    assert_eq!(traces.load(Ordering::Relaxed), 3);
}

#[test]
fn errors_are_those_of_the_expression_at_every_call() {
    let f = expr::compile(|(x, y): (Dynamic<'_>, Dynamic<'_>)| x + y);
    let (x, y) = (upload_vec(&[1.0f32; 3]), upload_vec(&[1.0f32; 4]));
    for _ in 0..2 {
        let got = f.call((&x, &y)).unwrap_err().to_string();
        assert_eq!(got, (&x + &y).eval().unwrap_err().to_string());
    }
    assert_eq!(elements(&f.call((&x, &x)).unwrap()), [2.0; 3]);
}

/// What a function is given has no elements, however it gets out.
#[test]
fn what_a_trace_is_given_is_of_no_use_elsewhere() {
    type Stolen = (Expr<'static, f32, Ix1>, Expr<'static, f32, Ix0>);
    static STOLEN: Mutex<Option<Stolen>> = Mutex::new(None);
    let thief = expr::compile(|(x, a): Stolen| {
        let inside = x.eval().unwrap_err();
        assert!(matches!(inside, Error::Parameter { .. }), "{inside}");
        *STOLEN.lock().unwrap() = Some((x.clone(), a.clone()));
        x * a
    });
    let x = vector(10, 1);
    thief.call((&x, 2.0)).unwrap();
    let (array, number) = STOLEN.lock().unwrap().take().unwrap();
    let stream = device().default_stream();
    let other = expr::compile(|x: Expr<f32, Ix1>| x + &array);
    let with_number = expr::compile(|x: Expr<f32, Ix1>| x + &number);
    for error in [
        array.eval().map(drop).unwrap_err(),
        (&array + &x).eval().map(drop).unwrap_err(),
        array.sum().eval_on(stream).map(drop).unwrap_err(),
        number.eval_on(stream).map(drop).unwrap_err(),
        (x.expr() * &number).eval().map(drop).unwrap_err(),
        other.call(&x).map(drop).unwrap_err(),
        with_number.call(&x).map(drop).unwrap_err(),
        vector(10, 2).update(|_| array.clone()).unwrap_err(),
    ] {
        let message = error.to_string();
        assert!(message.contains("no elements while it is traced"), "{message}");
    }
}

#[test]
fn threads_call_one_function() {
    let f = expr::compile(|(x, a): (Expr<f32, Ix2>, Expr<f32, Ix0>)| softmax(&x, 1) * a);
    let stream = device().create_stream().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (f, stream) = (&f, &stream);
            scope.spawn(move || {
                for round in 0..4 {
                    let x = matrix(3 + (thread as usize + round) % 3, 20, thread);
                    let wanted = (softmax(&x.expr(), 1) * thread as f32).eval().unwrap();
                    let got = f.call_on(stream, (&x, thread as f32)).unwrap();
                    assert!(got.stream() == stream);
                    assert_same(&elements(&got), &elements(&wanted), "a thread");
                }
            });
        }
    });
}

#[test]
fn a_graph_records_calls() {
    let stream = device().default_stream();
    let f = expr::compile(|(x, a): (Expr<f32, Ix2>, Expr<f32, Ix0>)| softmax(&x, 0) * a);
    let mut x = matrix(30, 20, 1);
    let known = f.call((&x, 2.0)).unwrap();
    for f in [
        &f,
        &expr::compile(|(x, a): (Expr<f32, Ix2>, Expr<f32, Ix0>)| softmax(&x, 0) * a),
    ] {
        // Of a class that is known, and of one that is traced while work is recorded.
        let mut graph = stream.capture(&mut x, |_, x| f.call((&**x, 2.0))).unwrap();
        graph.launch().unwrap();
        let got = graph.output().to_ndarray().unwrap();
        assert_same(&got.into_raw_vec_and_offset().0, &elements(&known), "a graph");
    }
    // An array of the function's own is no argument of the graph's.
    let own = vector(20, 2);
    let g = expr::compile(|x: Expr<f32, Ix2>| x + own.square().unwrap().into_expr());
    let error = stream.capture(&mut x, |_, x| g.call(&**x)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Capture { .. }), "{error}");
    assert_same(
        &elements(&g.call(&x).unwrap()),
        &elements(&(&x + own.expr().square()).eval().unwrap()),
        "afterwards",
    );
}

/// A function of steps that are found by chance, over parts that are there.
fn grown<'a>(mut parts: Vec<Dynamic<'a>>, number: &Expr<'a, f32, Ix0>, steps: &[(u8, usize, usize)]) -> Dynamic<'a> {
    for &(operation, a, b) in steps {
        let (x, y) = (&parts[a % parts.len()], &parts[b % parts.len()]);
        let last = Axis(1);
        let new = match operation % 9 {
            0 => x + y,
            1 => x * y,
            2 => x.maximum(y),
            3 => x.tanh(),
            4 => x * number,
            5 => x.less(y).select(y.clone(), x),
            6 => x.sum_axis(last).insert_axis(last),
            7 => x - x.max_axis(Axis(0)),
            _ => x.abs().sqrt(),
        };
        parts.push(new);
    }
    parts
        .iter()
        .rev()
        .take(3)
        .fold(parts[0].clone(), |all, part| all + part)
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn random_functions_give_the_bits_of_eval(
        (rows, columns) in (1usize..30, 1usize..60),
        steps in prop::collection::vec((any::<u8>(), 0usize..100, 0usize..100), 1..15),
        seed in any::<u64>(),
    ) {
        let f = expr::compile(|(x, y, row, a): (Dynamic<'_>, Dynamic<'_>, Dynamic<'_>, Expr<f32, Ix0>)| {
            grown(vec![x, y, row], &a, &steps)
        });
        for seed in [seed, seed ^ 1] {
            let (x, y) = (matrix(rows, columns, seed).into_dyn(), matrix(columns, rows, seed ^ 2).into_dyn());
            let (y, row) = (y.view().reversed_axes(), matrix(1, columns, seed ^ 3).into_dyn());
            let a = random::<f32>(1, seed)[0];
            let number = upload(&ndarray::arr0(a));
            let wanted = grown(vec![x.expr(), y.expr(), row.expr()], &number.expr(), &steps).eval().unwrap();
            let got = f.call((&x, &y, &row, a)).unwrap();
            prop_assert_eq!(got.shape(), wanted.shape());
            assert_same(&elements(&got), &elements(&wanted), "random");
        }
    }
}
