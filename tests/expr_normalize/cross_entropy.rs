// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cross-entropy and its gradient.

use super::*;

/// The loss in `f64`, and its gradient.
fn reference(x: &Array2<f64>, labels: &[i64]) -> (f64, Array2<f64>) {
    let (lse, _) = log_sum_exp(&x.clone().into_dyn(), 1);
    let logarithms = x - &lse.into_dimensionality::<Ix2>().unwrap();
    let is_class = |label: i64| (0..x.ncols() as i64).contains(&label);
    let count = labels.iter().filter(|&&label| is_class(label)).count() as f64;
    let (mut loss, mut gradient) = (0.0, Array2::zeros(x.raw_dim()));
    for (row, &label) in labels.iter().enumerate().filter(|(_, label)| is_class(**label)) {
        loss -= logarithms[[row, label as usize]];
        let mut to = gradient.row_mut(row);
        to.assign(&logarithms.row(row).mapv(f64::exp));
        to[label as usize] -= 1.0;
    }
    (loss / count, gradient / count)
}

/// As log-softmax, and the sum of rows by `d u`, where each is at most the logarithm of the number of classes and the range;
/// gradients as softmax, with three roundings more.
fn cross_entropy<T: Float>() {
    for (rows, classes) in [(1, 1), (3, 2), (64, 10), (7, 1000), (3, 20_000)] {
        let a = numbers::<T>(&[rows, classes], 17).into_dimensionality::<Ix2>().unwrap();
        let mut labels: Vec<i64> = (0..rows).map(|row| (row * 7919 % classes) as i64).collect();
        // Some that are no class.
        for (row, label) in labels.iter_mut().enumerate().skip(1) {
            match row % 5 {
                2 => *label = -100,
                3 => *label = classes as i64,
                _ => {}
            }
        }
        let what = format!("{rows} rows of {classes}");
        let (loss, gradient) = reference(&a.mapv(T::wide), &labels);
        let labels = Array1::from(labels);
        let compute = |stream: &Stream| {
            let (x, labels) = (on(stream, &a), DeviceArray::from_ndarray(stream, &labels)?);
            x.expr().cross_entropy(Axis(1), &labels).eval()
        };
        let (range, d) = (8.0, depth::<T>(classes, true) + depth::<T>(rows, true));
        let most = range + (classes as f64).ln();
        let absolute = (range + 2.0 + (d + 5.0) * most) * T::U * 1.01;
        assert_near(
            &both(compute, &what),
            &ArrayD::from_elem(IxDyn(&[]), loss),
            |_, _| absolute,
            &what,
        );
        let compute = |stream: &Stream| {
            let (x, labels) = (on(stream, &a), DeviceArray::from_ndarray(stream, &labels)?);
            x.expr().cross_entropy_backward(Axis(1), &labels, T::of(4.0)).eval()
        };
        // Where softmax is near 1, what is left of it is off by as much as softmax.
        let relative = (2.0 * range + 9.0 + d) * T::U * 1.01;
        let counted = labels
            .iter()
            .filter(|label| (0..classes as i64).contains(label))
            .count() as f64;
        let bound = |_, y: f64| relative * (y.abs() + 4.0 / counted);
        let gradient = (gradient * 4.0).into_dyn();
        assert_near(&both(compute, &what), &gradient, bound, &format!("gradient of {what}"));
        let together = |stream: &Stream| {
            let (x, labels) = (on(stream, &a), DeviceArray::from_ndarray(stream, &labels)?);
            x.expr().cross_entropy_with_gradient(Axis(1), &labels, T::of(4.0))
        };
        let compute = |stream: &Stream| together(stream).map(|(loss, _)| loss);
        let of_loss = ArrayD::from_elem(IxDyn(&[]), loss);
        assert_near(
            &both(compute, &what),
            &of_loss,
            |_, _| absolute,
            &format!("{what}, together"),
        );
        let compute = |stream: &Stream| together(stream).map(|(_, gradient)| gradient);
        assert_near(
            &both(compute, &what),
            &gradient,
            bound,
            &format!("gradient of {what}, together"),
        );
    }
}
for_types!(cross_entropy: f32 f64 f16 bf16);

#[test]
fn the_gradient_of_cross_entropy_along_any_axis() {
    let (x, axis) = (numbers::<f64>(&[3, 4, 2], 18), Axis(1));
    let labels = array![[0, 3], [-1, 2], [4, 1]];
    let labels = upload(&labels);
    let loss = |x: &ArrayD<f64>| {
        let x = upload(&x.clone().into_dimensionality::<ndarray::Ix3>().unwrap());
        elements(&x.expr().cross_entropy(axis, &labels).eval().unwrap())[0]
    };
    let on_device = upload(&x.clone().into_dimensionality::<ndarray::Ix3>().unwrap());
    assert_gradient(
        on_device.expr().cross_entropy_backward(axis, &labels, 1.0),
        &x,
        loss,
        "cross-entropy",
    );
}

#[test]
fn labels_of_other_types_and_none_that_count() {
    let x = upload(&array![[0.0f32, 1.0, 2.0], [f32::NAN, 0.0, 0.0]]);
    let wanted = elements(
        &x.expr()
            .cross_entropy(Axis(1), &upload(&array![2i64, -1]))
            .eval()
            .unwrap(),
    );
    assert!((wanted[0] - 0.407_605_96).abs() < 1e-6);
    let of = |loss: Expr<'_, f32, Ix0>| elements(&loss.eval().unwrap());
    assert_eq!(of(x.expr().cross_entropy(Axis(1), &upload(&array![2u8, 3]))), wanted);
    assert_eq!(
        of(x.expr().cross_entropy(Axis(1), &upload(&array![2u32, u32::MAX]))),
        wanted
    );
    assert_eq!(
        of(x.expr().cross_entropy(Axis(1), &upload(&array![2i32, i32::MIN]))),
        wanted
    );
    let large = upload(&array![2u64, u64::MAX]);
    assert_eq!(of(x.expr().cross_entropy(Axis(1), &large)), wanted);
    assert_eq!(
        of(x.expr().cross_entropy(Axis(1), upload(&array![1u16, 9]).expr() + 1u16)),
        wanted
    );
    let none = upload(&array![-1, 3]);
    assert!(of(x.expr().cross_entropy(Axis(1), &none))[0].is_nan());
    let gradient = x.expr().cross_entropy_backward(Axis(1), &none, 1.0).eval().unwrap();
    assert_eq!(elements(&gradient), [0.0; 6]);
    // A loss that is scaled, by a number on the device.
    let scale = upload(&ndarray::arr0(1024.0f32));
    let labels = upload(&array![2, 9]);
    let scaled = x
        .expr()
        .cross_entropy_backward(Axis(1), &labels, &scale)
        .eval()
        .unwrap();
    let plain = x.expr().cross_entropy_backward(Axis(1), &labels, 1.0).eval().unwrap();
    let times: Vec<f32> = elements(&plain).iter().map(|x| x * 1024.0).collect();
    assert_eq!(elements(&scaled), times);
}

/// Along an axis that is not the last, of a row that does not count and has NaN, of none that count, and of none at all.
#[test]
fn loss_and_gradient_together() {
    let x = upload(
        &numbers::<f64>(&[3, 4, 2], 18)
            .into_dimensionality::<ndarray::Ix3>()
            .unwrap(),
    );
    let labels = upload(&array![[0, 3], [-1, 2], [4, 1]]);
    let (loss, gradient) = x.expr().cross_entropy_with_gradient(Axis(1), &labels, 2.0).unwrap();
    let wanted = x.expr().cross_entropy(Axis(1), &labels).eval().unwrap();
    assert!((elements(&loss)[0] - elements(&wanted)[0]).abs() < 1e-14);
    let wanted = x.expr().cross_entropy_backward(Axis(1), &labels, 2.0).eval().unwrap();
    assert_eq!(gradient.shape(), [3, 4, 2]);
    let mut pairs = elements(&gradient).into_iter().zip(elements(&wanted));
    assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-14));

    let x = upload(&array![[0.0f32, 1.0, 2.0], [f32::NAN, 0.0, 0.0]]);
    let of = |labels: [i64; 2]| {
        let labels = upload(&Array1::from(labels.to_vec()));
        let (loss, gradient) = x.expr().cross_entropy_with_gradient(Axis(1), &labels, 1.0).unwrap();
        (elements(&loss)[0], elements(&gradient))
    };
    let (loss, gradient) = of([2, -1]);
    assert!((loss - 0.407_605_96).abs() < 1e-6);
    assert!((gradient[2] + 0.334_759_06).abs() < 1e-6 && gradient[3..] == [0.0; 3]);
    let (loss, gradient) = of([-1, 3]);
    assert!(loss.is_nan() && gradient == [0.0; 6]);

    let nothing = upload(&Array2::<f32>::zeros((0, 3)));
    let labels = upload(&Array1::<i64>::zeros(0));
    let (loss, gradient) = nothing
        .expr()
        .cross_entropy_with_gradient(Axis(1), &labels, 1.0)
        .unwrap();
    assert!(elements(&loss)[0].is_nan() && gradient.is_empty());
    let error = x.expr().cross_entropy_with_gradient(Axis(1), &labels, 1.0).unwrap_err();
    assert!(error.to_string().contains("labels of shape [0]"), "{error}");
}
