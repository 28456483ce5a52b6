// SPDX-License-Identifier: MIT OR Apache-2.0
//! Softmax, norms, cross-entropy and dropout against the same in `f64`, with bounds that follow from their roundings; gradients
//! against central differences.

use ndarray::{Array1, Array2, ArrayD, ArrayViewD, Axis, Dimension, Ix0, Ix1, Ix2, IxDyn, Slice, array};
use warpsmith::expr::{Expr, Promote, Value};
use warpsmith::ops::Real;
use warpsmith::{Device, DeviceArray, Error, Generator, Result, Stream, bf16, f16};

use crate::common::*;

/// Floats that expressions are of.
trait Float: FloatNumber + Real + Value<Element = Self> + Promote<Self, Output = Self> {
    /// The unit roundoff of what is computed with; of `f64` twice that, since what it is compared with is off as much.
    const U: f64;
}

macro_rules! float {
    ($($type:ident: $unit:expr;)*) => {
        $(impl Float for $type {
            const U: f64 = $unit;
        })*
    };
}

float! {
    f32: f32::UNIT_ROUNDOFF;
    f64: 2.0 * f64::UNIT_ROUNDOFF;
    f16: f32::UNIT_ROUNDOFF;
    bf16: f32::UNIT_ROUNDOFF;
}

/// A result's own rounding: half a unit in the last place, also of the numbers below the normal ones.
fn rounding<T: Float>(value: f64) -> f64 {
    T::UNIT_ROUNDOFF * value.abs().max(T::LEAST_NORMAL)
}

/// The additions one after another in a sum of so many elements, at most, as [`Expr::sum`] says; ndarray has up to an eighth of
/// them one after another, whose sums in `f64` count only beside others.
fn depth<T: Float>(len: usize, is_last: bool) -> f64 {
    let len = len as f64;
    let is_beside_its_like = T::U < f64::EPSILON * 2.0;
    if is_last && !is_beside_its_like {
        len / 1024.0 + 40.0
    } else {
        len / 8.0 + 40.0
    }
}

/// Numbers from −4 to 4.
fn numbers<T: Float>(shape: &[usize], seed: u64) -> ArrayD<T> {
    let values = random::<i32>(shape.iter().product(), seed).into_iter();
    let values = values.map(|x| T::of(f64::from(x >> 12) / f64::from(1 << 17)));
    ArrayD::from_shape_vec(IxDyn(shape), values.collect()).unwrap()
}

/// What `compute` gives on the device; on a GPU it is what the simulated one gives.
fn both<T: Number, D: Dimension>(compute: impl Fn(&Stream) -> Result<DeviceArray<T, D>>, what: &str) -> Vec<T> {
    let run =
        |device: &Device| elements(&compute(device.default_stream()).unwrap_or_else(|error| panic!("{what}: {error}")));
    let got = run(device());
    if !device().is_simulator() {
        assert_same(&got, &run(&Device::simulator()), what);
    }
    got
}

fn on<T: Float, D: Dimension>(stream: &Stream, array: &ndarray::Array<T, D>) -> DeviceArray<T, D> {
    DeviceArray::from_ndarray(stream, array).unwrap()
}

#[track_caller]
fn assert_near<T: Float>(got: &[T], wanted: &ArrayD<f64>, bound: impl Fn(usize, f64) -> f64, what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what} of {}", T::NAME);
    for (i, (got, &wanted)) in got.iter().zip(wanted).enumerate() {
        let (off, bound) = ((got.wide() - wanted).abs(), bound(i, wanted) + rounding::<T>(wanted));
        assert!(
            off <= bound,
            "{what} of {}: element {i} is {got:?}, wanted {wanted:e}; {off:e} > {bound:e}",
            T::NAME
        );
    }
}

/// Shapes, the axis, and whether its elements lie side by side.
const SHAPES: [(&[usize], usize); 17] = [
    (&[3, 1], 1),
    (&[3, 2], 1),
    (&[2, 7], 1),
    (&[5, 64], 1),
    (&[2, 3, 257], 2),
    (&[3, 1000], 1),
    (&[2, 4096], 1),
    (&[1, 16_384], 1),
    (&[1, 16_388], 1),
    (&[131_071], 0),
    (&[1, 3], 0),
    (&[7, 3], 0),
    (&[300, 40], 0),
    (&[2, 33, 5], 1),
    (&[2, 100, 17], 1),
    (&[2, 3, 4, 5], 1),
    (&[9, 2, 3], 0),
];

/// `ln Σ e^x` along the axis, which has length 1 then, and the largest distance of two elements along it.
fn log_sum_exp(x: &ArrayD<f64>, axis: usize) -> (ArrayD<f64>, f64) {
    let axis = Axis(axis);
    let largest = x.fold_axis(axis, f64::NEG_INFINITY, |a, b| a.max(*b));
    let least = x.fold_axis(axis, f64::INFINITY, |a, b| a.min(*b));
    let range = (&largest - &least).fold(0.0, |a: f64, b| a.max(*b));
    let largest = largest.insert_axis(axis);
    let sums = (x - &largest).mapv(f64::exp).sum_axis(axis).insert_axis(axis);
    (sums.mapv(f64::ln) + largest, range)
}

/// To first order: differences of at most `range` are off by `range u`, exponentials by `2u` beside, and so is their sum, but for
/// `d u` of its additions; the quotient by one more. The logarithm of the sum is off by as much as the sum is relatively, and
/// by `2u` of itself.
fn softmax_and_logarithms<T: Float>() {
    for (shape, axis) in SHAPES {
        let a = numbers::<T>(shape, 1);
        let x = a.mapv(T::wide);
        let (lse, range) = log_sum_exp(&x, axis);
        let what = format!("along axis {axis} of {shape:?}");
        let of_sum = (range + 2.0 + depth::<T>(shape[axis], axis + 1 == shape.len())) * T::U * 1.01;
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

#[test]
fn infinities_nan_and_what_would_overflow() {
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
    let x = upload(&a);
    let softmax = elements(&x.expr().softmax(Axis(1)).eval().unwrap());
    let wanted = [
        [NAN; 3],
        [NAN, 0.0, 0.0],
        [NAN; 3],
        [0.0, 1.0, 0.0],
        [0.5, 0.5, 0.0],
        [0.5, 0.5, 0.0],
    ];
    // e^(∞ − ∞) makes the sum of its row NaN.
    let mut wanted: Vec<f32> = wanted.concat();
    wanted[3..6].fill(NAN);
    assert_same(&softmax, &wanted, "softmax");
    let lse = elements(&x.expr().log_sum_exp_axis(Axis(1)).eval().unwrap());
    assert_same(&lse, &[-INF, INF, NAN, 3.0, f32::MAX, 2f32.ln()], "log-sum-exp");
    let logarithms = elements(&x.expr().log_softmax(Axis(1)).eval().unwrap());
    assert!(logarithms[..9].iter().all(|y| y.is_nan()));
    assert_eq!(logarithms[9..12], [-INF, 0.0, -INF]);
    assert_eq!(logarithms[17], -200.0 - 2f32.ln());
}

#[test]
fn nothing_to_compute() {
    let stream = device().default_stream();
    let none = DeviceArray::<f32, _>::zeros(stream, (3, 0)).unwrap();
    for result in [
        none.expr().softmax(Axis(1)).eval().unwrap(),
        none.expr().softmax(Axis(0)).eval().unwrap(),
        none.expr().log_softmax(Axis(1)).eval().unwrap(),
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

/// Mean and `1 / √(variance + ε)` along axes, which have length 1 then; of root mean squares the mean is 0.
fn statistics(x: &ArrayD<f64>, axes: &[usize], epsilon: f64, is_centred: bool) -> (ArrayD<f64>, ArrayD<f64>) {
    let along = |x: &ArrayD<f64>| {
        axes.iter().fold(x.clone(), |x, &axis| {
            x.mean_axis(Axis(axis)).unwrap().insert_axis(Axis(axis))
        })
    };
    let mean = along(x) * f64::from(u8::from(is_centred));
    let variance = along(&(x - &mean).mapv(|x| x * x));
    (mean, variance.mapv(|variance| 1.0 / (variance + epsilon).sqrt()))
}

/// A mean is off by `(d + 1) u mean |x|`, so is each distance from it, and by `u` of itself. The variance then is off by that
/// squared and by `(d + 4) u` of itself, which is halved by the root; `ε`, `1 / √x`, three products and the sum add `6u`.
fn norms<T: Float>() {
    for (shape, axes) in [
        (&[3, 1][..], &[1][..]),
        (&[4, 7], &[1]),
        (&[2, 3, 500], &[2]),
        (&[2, 4096], &[1]),
        (&[1, 16_390], &[1]),
        (&[131_072], &[0]),
        (&[100, 20], &[0]),
        (&[3, 40, 5], &[1]),
        (&[2, 6, 8, 9], &[2, 3]),
        (&[5, 4, 3, 6], &[0, 2, 3]),
    ] {
        let a = numbers::<T>(shape, 3);
        // A number for each place along the axes.
        let of_axes: Vec<usize> = (0..shape.len())
            .map(|axis| if axes.contains(&axis) { shape[axis] } else { 1 })
            .collect();
        let (weight, bias) = (numbers::<T>(&of_axes, 4), numbers::<T>(&of_axes, 5));
        let (x, w, b) = (a.mapv(T::wide), weight.mapv(T::wide), bias.mapv(T::wide));
        let d = axes.iter().map(|&axis| depth::<T>(shape[axis], false)).sum::<f64>() + 44.0;
        for is_layer in [true, false] {
            let what = format!(
                "{} along {axes:?} of {shape:?}",
                if is_layer { "layer norm" } else { "RMS norm" }
            );
            let (mean, scale) = statistics(&x, axes, 1e-5, is_layer);
            let standard = (&x - &mean) * &scale;
            let wanted = if is_layer { &standard * &w + &b } else { &standard * &w };
            let got = both(
                |stream| {
                    let (x, w, b) = (on(stream, &a), on(stream, &weight), on(stream, &bias));
                    match is_layer {
                        true => x.expr().layer_norm(axes, &w, &b, 1e-5).eval(),
                        false => x.expr().rms_norm(axes, &w, 1e-5).eval(),
                    }
                },
                &what,
            );
            let off_mean = if is_layer { (d + 1.0) * 4.0 * T::U } else { 0.0 };
            let bounds: Vec<f64> = (&scale * (off_mean + 8.0 * T::U))
                .broadcast(x.raw_dim())
                .unwrap()
                .iter()
                .zip(&standard)
                .map(|(off, y)| off + y.abs() * (((d + 4.0) / 2.0 + 6.0) * T::U + off * off / 2.0))
                .collect();
            let weights = w.broadcast(x.raw_dim()).unwrap();
            let weights: Vec<f64> = weights.iter().map(|w| w.abs()).collect();
            assert_near(
                &got,
                &wanted,
                |i, y| 1.01 * bounds[i] * weights[i] + y.abs() * T::U,
                &what,
            );
        }
    }
}
for_types!(norms: f32 f64 f16 bf16);

#[test]
fn views_of_any_strides() {
    let base = numbers::<f32>(&[6, 8, 10], 6);
    let turned = |view: ArrayViewD<'_, f32>| {
        let view = view.permuted_axes(IxDyn(&[2, 0, 1]));
        view.slice_axis(Axis(2), Slice::new(1, None, -2)).to_owned()
    };
    let x = upload(&base);
    let view = x.view().permuted_axes(IxDyn(&[2, 0, 1])).unwrap();
    let view = view.slice_axis(Axis(2), Slice::new(1, None, -2)).unwrap();
    let copy = upload(&turned(base.view()));
    for axis in 0..3 {
        let pairs = [
            (view.expr().softmax(Axis(axis)), copy.expr().softmax(Axis(axis))),
            (view.expr().log_softmax(Axis(axis)), copy.expr().log_softmax(Axis(axis))),
            (
                view.expr().layer_norm(&[axis], 2.0, 1.0, 1e-3),
                copy.expr().layer_norm(&[axis], 2.0, 1.0, 1e-3),
            ),
        ];
        for (of_view, of_copy) in pairs {
            let (got, wanted) = (elements(&of_view.eval().unwrap()), elements(&of_copy.eval().unwrap()));
            // What is combined with what follows from the strides.
            let off = got.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-5, "axis {axis}: {off:e}");
        }
    }
    let mut x = upload(&base);
    let wanted = elements(&x.expr().softmax(Axis(2)).eval().unwrap());
    x.update(|x| x.softmax(Axis(2))).unwrap();
    assert_same(&elements(&x), &wanted, "in place");
}

/// The derivative of `loss` by each element of `x`, by central differences. With `h = 2^-17` the error is at most some
/// `h² f‴ / 6` and `2^-53 |loss| / h`, below 1e-8 for what is tested here.
fn differences(x: &ArrayD<f64>, loss: impl Fn(&ArrayD<f64>) -> f64) -> ArrayD<f64> {
    let h = f64::powi(2.0, -17);
    let mut x = x.clone();
    let mut gradient = x.clone();
    for (i, gradient) in gradient.iter_mut().enumerate() {
        let mut at = |step: f64| {
            let element = x.iter_mut().nth(i).unwrap();
            let old = std::mem::replace(element, *element + step);
            let loss = loss(&x);
            *x.iter_mut().nth(i).unwrap() = old;
            loss
        };
        *gradient = (at(h) - at(-h)) / (2.0 * h);
    }
    gradient
}

#[track_caller]
fn assert_gradient<D: Dimension>(
    got: Expr<'_, f64, D>,
    x: &ArrayD<f64>,
    loss: impl Fn(&ArrayD<f64>) -> f64,
    what: &str,
) {
    let got = got.eval().unwrap();
    assert_eq!(got.shape(), x.shape(), "{what}");
    for (i, (got, wanted)) in elements(&got).iter().zip(&differences(x, loss)).enumerate() {
        assert!(
            (got - wanted).abs() < 1e-7 * (1.0 + wanted.abs()),
            "{what}: element {i} is {got}, wanted {wanted}"
        );
    }
}

type Doubles<'a> = Expr<'a, f64, IxDyn>;

/// `Σ g f(x)`
fn weighted(x: &ArrayD<f64>, g: &ArrayD<f64>, f: impl for<'a> Fn(Doubles<'a>) -> Doubles<'a>) -> f64 {
    let y = f(upload(x).expr()).eval().unwrap();
    elements(&y).iter().zip(g).map(|(y, g)| y * g).sum()
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

#[test]
fn gradients_of_layer_norm_and_rms_norm() {
    for (shape, axes, of_weight) in [
        (&[3, 5][..], &[1][..], &[5][..]),
        (&[4, 3], &[0], &[4, 1]),
        (&[2, 3, 4], &[1, 2], &[3, 4]),
        (&[2, 3, 4], &[2], &[3, 1]),
        (&[2, 3, 4], &[0, 2], &[]),
        (&[2, 3], &[1], &[2, 3]),
    ] {
        let (x, g) = (numbers::<f64>(shape, 9), numbers::<f64>(shape, 10));
        let (w, b) = (numbers::<f64>(of_weight, 11), numbers::<f64>(of_weight, 12));
        let (on_device, gradient, weight) = (upload(&x), upload(&g), upload(&w));
        let layer = |x: &ArrayD<f64>, w: &ArrayD<f64>, b: &ArrayD<f64>| {
            let (x, w, b) = (upload(x), upload(w), upload(b));
            let y = x.expr().layer_norm(axes, &w, &b, 1e-2).eval().unwrap();
            elements(&y).iter().zip(&g).map(|(y, g)| y * g).sum::<f64>()
        };
        let what = format!("layer norm along {axes:?} of {shape:?}");
        let (dx, dw, db) = on_device.expr().layer_norm_backward(axes, &weight, 1e-2, &gradient);
        assert_gradient(dx, &x, |x| layer(x, &w, &b), &what);
        assert_gradient(dw, &w, |w| layer(&x, w, &b), &what);
        assert_gradient(db, &b, |b| layer(&x, &w, b), &what);
        let rms = |x: &ArrayD<f64>, w: &ArrayD<f64>| {
            let (x, w) = (upload(x), upload(w));
            let y = x.expr().rms_norm(axes, &w, 1e-2).eval().unwrap();
            elements(&y).iter().zip(&g).map(|(y, g)| y * g).sum::<f64>()
        };
        let (dx, dw) = on_device.expr().rms_norm_backward(axes, &weight, 1e-2, &gradient);
        assert_gradient(dx, &x, |x| rms(x, &w), "RMS norm");
        assert_gradient(dw, &w, |w| rms(&x, w), "RMS norm");
    }
}

#[test]
fn batch_norm_and_its_gradients() {
    for (shape, channels) in [(&[5, 3][..], 1), (&[3, 2, 2, 3], 1), (&[2, 6], 0), (&[2, 3, 4], 2)] {
        let others: Vec<usize> = (0..shape.len()).filter(|&axis| axis != channels).collect();
        let (x, g) = (numbers::<f64>(shape, 13), numbers::<f64>(shape, 14));
        let (w, b) = (
            numbers::<f64>(&[shape[channels]], 15),
            numbers::<f64>(&[shape[channels]], 16),
        );
        let train = |x: &ArrayD<f64>, w: &ArrayD<f64>, b: &ArrayD<f64>| {
            let (x, w, b) = (upload(x), upload(w), upload(b));
            let (mean, variance) = (x.expr().mean_axes(&others), x.expr().variance_axes(&others, 0));
            elements(
                &x.expr()
                    .batch_norm(Axis(channels), mean, variance, &w, &b, 1e-2)
                    .eval()
                    .unwrap(),
            )
        };
        let (mean, scale) = statistics(&x, &others, 1e-2, true);
        let along = |v: &ArrayD<f64>| {
            let mut shape = vec![1; x.ndim()];
            shape[channels] = v.len();
            v.clone().into_shape_with_order(shape).unwrap()
        };
        let wanted = (&x - &mean) * &scale * along(&w) + along(&b);
        let what = format!("batch norm of channels along {channels} of {shape:?}");
        assert!(
            train(&x, &w, &b)
                .iter()
                .zip(&wanted)
                .all(|(got, wanted)| (got - wanted).abs() < 1e-13),
            "{what}"
        );
        let loss = |x: &ArrayD<f64>, w: &ArrayD<f64>, b: &ArrayD<f64>| {
            train(x, w, b).iter().zip(&g).map(|(y, g)| y * g).sum::<f64>()
        };
        let (on_device, gradient, weight) = (upload(&x), upload(&g), upload(&w));
        let x_expr = on_device.expr();
        let (mean, variance) = (x_expr.mean_axes(&others), x_expr.variance_axes(&others, 0));
        let (dx, dw, db) = x_expr.batch_norm_backward(Axis(channels), mean, variance, &weight, 1e-2, &gradient);
        assert_gradient(dx, &x, |x| loss(x, &w, &b), &what);
        assert_gradient(dw, &w, |w| loss(&x, w, &b), &what);
        assert_gradient(db, &b, |b| loss(&x, &w, b), &what);
        // Of statistics that are known, in another type; single numbers are for all channels.
        let of_f16 = upload(&x.mapv(f16::from_f64));
        let mean = DeviceArray::<f32, _>::zeros(device().default_stream(), shape[channels]).unwrap();
        let y = of_f16
            .expr()
            .batch_norm(Axis(channels), &mean, f16::from_f32(3.0), &mean + 2.0, f16::ONE, 1.0);
        let wanted = x.mapv(|x| f16::from_f32(f16::from_f64(x).to_f32().mul_add(1.0, 1.0)));
        assert_same(
            &elements(&y.eval().unwrap()),
            &wanted.into_raw_vec_and_offset().0,
            "known statistics",
        );
    }
}

/// `y (g − Σ g y)`: products by `u`, their sum by `d u` of what is summed, a difference and a product more.
fn backward_of_softmax<T: Float>() {
    for (shape, axis) in SHAPES {
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

/// The elements' own norm `y` is off as in [`norms`], by `e`. Of `h = g · weight`, off by `u`, the means are off by `(d + 1) u` of
/// what is summed, and `mean (h y)` by `e mean |h|` beside; three operations follow.
fn backward_of_norms<T: Float>() {
    for (shape, axis) in [
        (&[3, 1][..], 1),
        (&[4, 7], 1),
        (&[2, 3, 500], 2),
        (&[2, 4096], 1),
        (&[1, 20_000], 1),
        (&[100, 20], 0),
    ] {
        let (x, g) = (numbers::<T>(shape, 28), numbers::<T>(shape, 29));
        let of_axis: Vec<usize> = (0..shape.len())
            .map(|at| if at == axis { shape[at] } else { 1 })
            .collect();
        let weight = numbers::<T>(&of_axis, 30);
        let (exact, exact_g, w) = (x.mapv(T::wide), g.mapv(T::wide), weight.mapv(T::wide));
        let d = depth::<T>(shape[axis], false) + 40.0;
        let mean = |x: &ArrayD<f64>| x.mean_axis(Axis(axis)).unwrap().insert_axis(Axis(axis));
        for is_layer in [true, false] {
            let what = format!(
                "{} along axis {axis} of {shape:?}",
                if is_layer { "layer norm" } else { "RMS norm" }
            );
            let (centre, scale) = statistics(&exact, &[axis], 1e-2, is_layer);
            let y = (&exact - &centre) * &scale;
            let h = &exact_g * &w;
            let centred = if is_layer { &h - &mean(&h) } else { h.clone() };
            let along = mean(&(&h * &y));
            let wanted = (&centred - &(&y * &along)) * &scale;
            let off_mean = if is_layer { (d + 1.0) * 4.0 * T::U } else { 0.0 };
            let off = &scale * (off_mean + 8.0 * T::U);
            let relative = &off.mapv(|off| ((d + 4.0) / 2.0 + 6.0) * T::U + off * off / 2.0);
            let e = &off + &(&y.mapv(f64::abs) * relative);
            let of_h = mean(&h.mapv(f64::abs));
            let of_products = mean(&(&h * &y).mapv(f64::abs));
            let bound = h.mapv(|h| 3.0 * h.abs() * T::U)
                + &of_h * ((d + 4.0) * T::U)
                + &y.mapv(f64::abs) * &(&of_products * ((d + 6.0) * T::U) + &mean(&(&h.mapv(f64::abs) * &e)))
                + &e * &along.mapv(f64::abs);
            let bound = bound * &scale + &wanted.mapv(f64::abs) * relative;
            let bound: Vec<f64> = bound.into_iter().collect();
            let compute = |stream: &Stream| {
                let (x, g, w) = (on(stream, &x), on(stream, &g), on(stream, &weight));
                match is_layer {
                    true => x.expr().layer_norm_backward(&[axis], &w, 1e-2, &g).0.eval(),
                    false => x.expr().rms_norm_backward(&[axis], &w, 1e-2, &g).0.eval(),
                }
            };
            assert_near(
                &both(compute, &what),
                &wanted,
                |i, y| 1.01 * bound[i] + y.abs() * T::U,
                &what,
            );
        }
    }
}
for_types!(backward_of_norms: f32 f64 f16 bf16);

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
        assert_near(
            &both(compute, &what),
            &(gradient * 4.0).into_dyn(),
            bound,
            &format!("gradient of {what}"),
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

#[test]
fn dropout() {
    let a = numbers::<f32>(&[50, 21], 19);
    let x = upload(&a);
    let mut random = Generator::new(3);
    let kept = random.clone().bernoulli_expr(IxDyn(&[50, 21]), 0.75);
    let y = elements(&x.expr().dropout(0.25, &mut random).eval().unwrap());
    assert_eq!(random.position(), 263);
    let wanted = elements(&kept.select(x.expr() * (1.0f32 / 0.75), 0.0f32).eval().unwrap());
    assert_same(&y, &wanted, "dropout");
    assert_same(
        &elements(&x.expr().dropout(0.0, &mut random).eval().unwrap()),
        &elements(&x),
        "of none",
    );
    let infinite = upload(&array![f32::INFINITY, f32::NAN]);
    assert_eq!(
        elements(&infinite.expr().dropout(1.0, &mut random).eval().unwrap()),
        [0.0, 0.0]
    );
    // One rounding of 16-bit floats.
    let narrow = upload(&numbers::<bf16>(&[999], 20));
    let mut same = Generator::new(4);
    let wide = narrow
        .expr()
        .cast::<f32>()
        .dropout(0.1, &mut same.clone())
        .cast::<bf16>();
    assert_same(
        &elements(&narrow.expr().dropout(0.1, &mut same).eval().unwrap()),
        &elements(&wide.eval().unwrap()),
        "of bf16",
    );
    let position = random.position();
    for probability in [-0.1, 1.5, f64::NAN] {
        let error = x.expr().dropout(probability, &mut random).eval().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Parameter {
                    operation: "dropout",
                    ..
                }
            ),
            "{error}"
        );
    }
    assert_eq!(random.position(), position);
}

fn error<T: Value, D: Dimension>(expr: &Expr<'_, T, D>) -> Error
where
    T::Element: Number,
{
    expr.eval().expect_err("an error")
}

#[test]
fn errors_name_the_operation_and_the_shapes() {
    let x = upload(&Array2::<f32>::zeros((2, 3)));
    let row = upload(&Array1::<f32>::zeros(2));
    for operation in [
        "softmax",
        "log_softmax",
        "log_sum_exp",
        "layer_norm",
        "rms_norm",
        "batch_norm",
        "cross_entropy",
    ] {
        let axis = Axis(2);
        let error = match operation {
            "softmax" => error(&x.expr().softmax(axis)),
            "log_softmax" => error(&x.expr().log_softmax(axis)),
            "log_sum_exp" => error(&x.expr().log_sum_exp_axis(axis)),
            "layer_norm" => error(&x.expr().layer_norm(&[1, 1], 1.0, 0.0, 0.0)),
            "rms_norm" => error(&x.expr().rms_norm(&[2], 1.0, 0.0)),
            "batch_norm" => error(&x.expr().batch_norm(axis, 0.0, 1.0, 1.0, 0.0, 0.0)),
            _ => error(&x.expr().cross_entropy(axis, &row.expr().cast::<i32>())),
        };
        assert!(
            matches!(error, Error::Axes { operation: of, .. } if of == operation),
            "{error}"
        );
    }
    let wrong_shape = [
        (
            error(&x.expr().softmax_backward(Axis(1), &row.expr().insert_axis(Axis(0)))),
            "[2, 3]",
        ),
        (
            error(&x.expr().layer_norm(&[1], &row, 0.0, 1e-5)),
            "a weight of shape [2]",
        ),
        (
            error(
                &x.expr()
                    .layer_norm(&[1], 1.0, row.expr().insert_axis(Axis(0)).insert_axis(Axis(0)), 1e-5),
            ),
            "a bias",
        ),
        (
            error(&x.expr().layer_norm_backward(&[1], 1.0, 1e-5, &row).0),
            "a gradient of shape [2]",
        ),
        (
            error(&x.expr().batch_norm(Axis(1), &row, 1.0, 1.0, 0.0, 1e-5)),
            "a mean of shape [2]",
        ),
        (
            error(&x.expr().batch_norm(Axis(0), &row, 1.0, &x, 0.0, 1e-5)),
            "a weight of shape [2, 3]",
        ),
        (
            error(&x.expr().cross_entropy(Axis(0), &row.expr().cast::<i32>())),
            "labels of shape [2]",
        ),
    ];
    for (error, text) in wrong_shape {
        assert!(
            matches!(error, Error::Shape { .. }) && error.to_string().contains(text),
            "{error}"
        );
    }
}

#[test]
fn types_that_are_mixed() {
    let x = upload(&numbers::<bf16>(&[4, 100], 21).into_dimensionality::<Ix2>().unwrap());
    let (weight, bias) = (upload(&numbers::<f32>(&[100], 22)), upload(&numbers::<f32>(&[100], 23)));
    let wide = x.expr().cast::<f32>();
    let y: Expr<'_, bf16, Ix2> = x.expr().layer_norm(&[1], &weight, &bias, 1e-5);
    let wanted = wide.layer_norm(&[1], &weight, &bias, 1e-5).cast::<bf16>();
    assert_same(
        &elements(&y.eval().unwrap()),
        &elements(&wanted.eval().unwrap()),
        "layer norm",
    );
    let (dx, dweight, _) = x.expr().layer_norm_backward(&[1], &weight, 1e-5, &x);
    let (wide_dx, wide_dweight, _) = wide.layer_norm_backward(&[1], &weight, 1e-5, wide.clone());
    let dx: Expr<'_, bf16, Ix2> = dx;
    assert_same(
        &elements(&dx.eval().unwrap()),
        &elements(&wide_dx.cast::<bf16>().eval().unwrap()),
        "by x",
    );
    assert_same(
        &elements(&dweight.eval().unwrap()),
        &elements(&wide_dweight.eval().unwrap()),
        "by the weight",
    );
}

#[test]
fn graphs_compute_them_anew() {
    let stream = device().default_stream();
    let rows = |seed| numbers::<f32>(&[20, 30], seed).into_dimensionality::<Ix2>().unwrap();
    let labels = upload(&Array1::from_shape_fn(20, |row| (row % 30) as i32));
    let step = |x: &DeviceArray<f32, Ix2>, labels: &DeviceArray<i32, Ix1>| {
        let loss = x.expr().cross_entropy(Axis(1), labels).eval()?;
        let gradient = x.expr().cross_entropy_backward(Axis(1), labels, 1.0).eval()?;
        Ok((loss, gradient, x.expr().layer_norm(&[0], 1.0, 0.0, 1e-5).eval()?))
    };
    let mut graph = stream
        .capture((upload(&rows(24)), &labels), |_, (x, labels)| step(x, labels))
        .unwrap();
    for seed in [24, 25] {
        graph.args_mut().0.assign_ndarray(&rows(seed)).unwrap();
        graph.launch().unwrap();
        let (loss, gradient, norm) = graph.output();
        let wanted: (DeviceArray<f32, Ix0>, _, _) = step(&upload(&rows(seed)), &labels).unwrap();
        assert_same(&elements(loss), &elements(&wanted.0), "loss");
        assert_same(&elements(gradient), &elements(&wanted.1), "gradient");
        assert_same(&elements(norm), &elements(&wanted.2), "norm");
    }
}

/// Kernels of rows that fit into a block, as [`Expr::explain`] counts them.
#[test]
fn one_kernel_where_a_row_fits() {
    let stream = device().default_stream();
    let x = DeviceArray::<f32, _>::zeros(stream, (64, 4096)).unwrap();
    let (weight, labels) = (
        x.index_axis(Axis(0), 0).unwrap(),
        DeviceArray::<i32, _>::zeros(stream, 64).unwrap(),
    );
    let kernels = |text: &str| text.lines().filter(|line| line.starts_with("kernel")).count();
    for (name, text) in [
        ("softmax", x.expr().softmax(Axis(1)).explain()),
        ("log_softmax", x.expr().log_softmax(Axis(1)).explain()),
        ("log_sum_exp", x.expr().log_sum_exp_axis(Axis(1)).explain()),
        ("softmax_backward", x.expr().softmax_backward(Axis(1), &x).explain()),
        (
            "layer_norm",
            x.expr().layer_norm(&[1], &weight, &weight, 1e-5).explain(),
        ),
        (
            "layer_norm_backward",
            x.expr().layer_norm_backward(&[1], &weight, 1e-5, &x).0.explain(),
        ),
        ("rms_norm", x.expr().rms_norm(&[1], &weight, 1e-5).explain()),
        (
            "rms_norm_backward",
            x.expr().rms_norm_backward(&[1], &weight, 1e-5, &x).0.explain(),
        ),
        ("cross_entropy", x.expr().cross_entropy(Axis(1), &labels).explain()),
        (
            "layer_norm_backward's weights",
            x.expr().layer_norm_backward(&[1], &weight, 1e-5, &x).1.explain(),
        ),
        (
            "cross_entropy_backward",
            x.expr().cross_entropy_backward(Axis(1), &labels, 1.0).explain(),
        ),
    ] {
        let text = text.unwrap();
        let wanted = if name.starts_with("cross") || name.ends_with("weights") {
            2
        } else {
            1
        };
        assert_eq!(kernels(&text), wanted, "{name}:\n{text}");
    }
}
