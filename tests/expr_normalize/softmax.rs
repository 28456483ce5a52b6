// SPDX-License-Identifier: MIT OR Apache-2.0
//! Softmax, its logarithm and the logarithm of sums of exponentials, and their gradients.

use super::*;

/// To first order: differences of at most `range` are off by `range u`, exponentials by `2u` beside, and so is their sum, but for
/// `d u` of its additions, of which those of sums whose largest number is not known yet have an exponential, too: three roundings;
/// the quotient by one more. The logarithm of the sum is off by as much as the sum is relatively, and
/// by `2u` of itself.
fn softmax_and_logarithms<T: Float>() {
    for (shape, axis) in shapes::<T>() {
        let a = numbers::<T>(shape, 1);
        let x = a.mapv(T::wide);
        let (lse, range) = log_sum_exp(&x, axis);
        let what = format!("along axis {axis} of {shape:?}");
        let is_last = axis + 1 == shape.len();
        let is_known = T::NAME == "f64" || is_last && shape[axis] <= 32_768;
        let roundings = if is_known { 1.0 } else { 3.0 };
        let of_sum = (range + 2.0 + roundings * depth::<T>(shape[axis], is_last)) * T::U * 1.01;
        let got = both(|stream| on(stream, &a).expr().softmax(Axis(axis)).eval(), &what);
        let relative = of_sum + (range + 3.0) * T::U * 1.01;
        assert_near(
            &got,
            &(&x - &lse).mapv(f64::exp),
            |_, y| y * relative,
            &format!("softmax {what}"),
        );
        let got = both(|stream| on(stream, &a).expr().log_softmax(Axis(axis)).eval(), &what);
        let ln_len = (shape[axis] as f64).ln() + range;
        let absolute = of_sum + (range + 3.0 * ln_len) * T::U * 1.01;
        assert_near(
            &got,
            &(&x - &lse),
            |_, y| absolute + y.abs() * T::U,
            &format!("log-softmax {what}"),
        );
        let got = both(
            |stream| on(stream, &a).expr().log_sum_exp_axis(Axis(axis)).eval(),
            &what,
        );
        assert_near(
            &got,
            &lse,
            |_, y| absolute + y.abs() * T::U,
            &format!("log-sum-exp {what}"),
        );
    }
}
for_types!(softmax_and_logarithms: f32 f64 f16 bf16);

#[test]
fn several_axes_and_all() {
    let a = numbers::<f64>(&[4, 5, 6], 2);
    let x = upload(&a);
    let total = a.mapv(f64::exp).sum().ln();
    let got = x
        .expr()
        .log_sum_exp()
        .eval()
        .unwrap()
        .to_ndarray()
        .unwrap()
        .into_scalar();
    assert!((got - total).abs() < 1e-13);
    let got = elements(&x.expr().log_sum_exp_axes(&[2, 0]).eval().unwrap());
    let sums = a.mapv(f64::exp).sum_axis(Axis(2)).sum_axis(Axis(0)).mapv(f64::ln);
    assert!(got.iter().zip(&sums).all(|(got, wanted)| (got - wanted).abs() < 1e-13));
}

/// The first lane's, another one's, and the last element.
fn places_among(len: usize) -> [usize; 3] {
    [1, 9999, len - 1]
}

#[test]
fn infinities_nan_and_what_would_overflow() {
    type Matrix = DeviceArray<f32, Ix2>;
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    let a = array![
        [-INF, -INF, -INF],
        [INF, 0.0, 1.0],
        [0.0, NAN, 1.0],
        [-INF, 3.0, -INF],
        [f32::MAX, f32::MAX, -f32::MAX],
        [-0.0, 0.0, -200.0],
    ];
    // Among as many −∞ as a block has in its registers, and as have more threads than a block, or are read in a loop, in several lanes.
    let among = |len: usize| {
        let mut long = Array2::from_elem((6, len), -INF);
        for (place, column) in places_among(len).into_iter().zip(a.columns()) {
            long.column_mut(place).assign(&column);
        }
        upload(&long)
    };
    let across = |result: &Matrix| result.to_ndarray().unwrap().reversed_axes();
    let (row, of_block, shared, rows) = (upload(&a), among(20_001), among(40_004), among(40_001));
    let columns = upload(&a.t().as_standard_layout());
    let at_places = |result: &Matrix| {
        let result = result.to_ndarray().unwrap();
        let columns = places_among(result.ncols()).map(|place| result.column(place).insert_axis(Axis(1)));
        ndarray::concatenate(Axis(1), &columns).unwrap()
    };
    type Case<'c> = (&'c str, &'c Matrix, usize, &'c dyn Fn(&Matrix) -> Array2<f32>);
    let ways: [Case<'_>; 5] = [
        ("rows", &row, 1, &|result| result.to_ndarray().unwrap()),
        ("rows of a block", &of_block, 1, &at_places),
        ("rows that several blocks share", &shared, 1, &at_places),
        ("long rows", &rows, 1, &at_places),
        ("columns", &columns, 0, &across),
    ];
    for (what, x, axis, seen) in ways {
        let (x, axis) = (x.expr(), Axis(axis));
        let softmax = x.softmax(axis).eval().unwrap();
        let wanted = array![
            [NAN; 3],
            // e^(∞ − ∞) makes the sum of its row NaN.
            [NAN; 3],
            [NAN; 3],
            [0.0, 1.0, 0.0],
            [0.5, 0.5, 0.0],
            [0.5, 0.5, 0.0],
        ];
        let all = |array: &Array2<f32>| array.iter().copied().collect::<Vec<_>>();
        assert_same(&all(&seen(&softmax)), &all(&wanted), &format!("softmax of {what}"));
        let lse = elements(&x.log_sum_exp_axis(axis).eval().unwrap());
        let wanted = [-INF, INF, NAN, 3.0, f32::MAX, 2f32.ln()];
        assert_same(&lse, &wanted, &format!("log-sum-exp of {what}"));
        let logarithms = all(&seen(&x.log_softmax(axis).eval().unwrap()));
        assert!(logarithms[..9].iter().all(|y| y.is_nan()), "{what}");
        assert_eq!(logarithms[9..12], [-INF, 0.0, -INF], "{what}");
        assert_eq!(logarithms[17], -200.0 - 2f32.ln(), "{what}");
    }
    for x in [of_block, shared, rows] {
        let softmax = x.softmax(Axis(1)).unwrap().to_ndarray().unwrap();
        for (number, row) in softmax.rows().into_iter().enumerate() {
            assert!(row.iter().all(|y| y.is_nan()) == (number < 3), "row {number}");
            assert!(number < 3 || row.sum() == 1.0, "row {number}");
        }
    }
}

#[test]
fn nothing_to_compute() {
    let stream = device().default_stream();
    let none = DeviceArray::<f32, _>::zeros(stream, (3, 0)).unwrap();
    for result in [
        none.softmax(Axis(1)).unwrap(),
        none.softmax(Axis(0)).unwrap(),
        none.log_softmax(Axis(1)).unwrap(),
        none.expr().layer_norm(&[1], 1.0, 0.0, 1e-5).eval().unwrap(),
        none.expr().rms_norm(&[0], 1.0, 1e-5).eval().unwrap(),
        none.expr().softmax_backward(Axis(1), &none).eval().unwrap(),
        none.expr().dropout(0.5, &mut Generator::new(1)).eval().unwrap(),
    ] {
        assert_eq!(result.shape(), [3, 0]);
    }
    let lse = none.expr().log_sum_exp_axis(Axis(1)).eval().unwrap();
    assert_eq!(elements(&lse), [f32::NEG_INFINITY; 3]);
    assert_eq!(none.expr().log_sum_exp_axis(Axis(0)).eval().unwrap().len(), 0);
    let (dx, dweight, _) = none.expr().layer_norm_backward(&[1], 1.0, 1e-5, &none);
    assert_eq!(dx.eval().unwrap().len(), 0);
    assert_eq!(elements(&dweight.eval().unwrap()), [0.0]);
    let labels = DeviceArray::<i32, _>::zeros(stream, 0).unwrap();
    let rows = DeviceArray::<f32, _>::zeros(stream, (0, 4)).unwrap();
    let loss = rows.expr().cross_entropy(Axis(1), &labels).eval().unwrap();
    assert!(elements(&loss)[0].is_nan());
}

#[test]
fn gradients_of_softmax() {
    for (shape, axis) in [(&[3, 5][..], 1), (&[4, 3], 0), (&[2, 3, 4], 1), (&[1, 1], 0)] {
        let (x, g) = (numbers::<f64>(shape, 7), numbers::<f64>(shape, 8));
        let axis = Axis(axis);
        let (on_device, gradient) = (upload(&x), upload(&g));
        let y = on_device.expr().softmax(axis);
        let loss = |x: &ArrayD<f64>| weighted(x, &g, |x| x.softmax(axis));
        assert_gradient(y.softmax_backward(axis, &gradient), &x, loss, "softmax");
        let y = on_device.expr().log_softmax(axis);
        let loss = |x: &ArrayD<f64>| weighted(x, &g, |x| x.log_softmax(axis));
        assert_gradient(y.log_softmax_backward(axis, &gradient), &x, loss, "log-softmax");
        let loss = |x: &ArrayD<f64>| elements(&upload(x).expr().log_sum_exp().eval().unwrap())[0];
        let all = on_device.expr();
        let all = &all - all.log_sum_exp();
        assert_gradient(all.exp(), &x, loss, "log-sum-exp");
    }
}

/// `y (g − Σ g y)`: products by `u`, their sum by `d u` of what is summed, a difference and a product more.
fn backward_of_softmax<T: Float>() {
    for (shape, axis) in shapes::<T>() {
        let (y, g) = (numbers::<T>(shape, 26), numbers::<T>(shape, 27));
        let (exact_y, exact_g) = (y.mapv(T::wide), g.mapv(T::wide));
        let what = format!("along axis {axis} of {shape:?}");
        let d = depth::<T>(shape[axis], axis + 1 == shape.len());
        let along = |x: &ArrayD<f64>| x.sum_axis(Axis(axis)).insert_axis(Axis(axis));
        let products = &exact_y * &exact_g;
        let wanted = &exact_y * &(&exact_g - &along(&products));
        let sizes = &exact_g.mapv(f64::abs) + &along(&products.mapv(f64::abs));
        let sizes: Vec<f64> = (&exact_y.mapv(f64::abs) * &sizes).into_iter().collect();
        let compute = |stream: &Stream| {
            let (y, g) = (on(stream, &y), on(stream, &g));
            y.expr().softmax_backward(Axis(axis), &g).eval()
        };
        assert_near(
            &both(compute, &what),
            &wanted,
            |i, _| 1.01 * (d + 3.0) * T::U * sizes[i],
            &format!("softmax {what}"),
        );
        // Logarithms are below 0.
        let y = y.mapv(|y| T::of(y.wide() - 5.0));
        let powers = y.mapv(|y| y.wide().exp());
        let wanted = &exact_g - &(&powers * &along(&exact_g));
        let sizes: Vec<f64> = (&exact_g.mapv(f64::abs) + &(&powers * &along(&exact_g.mapv(f64::abs))))
            .into_iter()
            .collect();
        let compute = |stream: &Stream| {
            let (y, g) = (on(stream, &y), on(stream, &g));
            y.expr().log_softmax_backward(Axis(axis), &g).eval()
        };
        assert_near(
            &both(compute, &what),
            &wanted,
            |i, _| 1.01 * (d + 4.0) * T::U * sizes[i],
            &format!("log-softmax {what}"),
        );
    }
}
for_types!(backward_of_softmax: f32 f64 f16 bf16);
