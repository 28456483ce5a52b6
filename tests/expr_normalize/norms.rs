// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layer, RMS and batch norm, and their gradients.

use super::*;

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
