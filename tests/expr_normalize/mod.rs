// SPDX-License-Identifier: MIT OR Apache-2.0
//! Softmax, norms, cross-entropy and dropout against the same in `f64`, with bounds that follow from their roundings; gradients
//! against central differences.

mod cross_entropy;
mod norms;
mod softmax;

use ndarray::{Array1, Array2, ArrayD, ArrayViewD, Axis, Dimension, Ix0, Ix1, Ix2, IxDyn, Slice, array};
use warpsmith::expr::{self, Expr, Promote, Value};
use warpsmith::ops::Real;
use warpsmith::{Device, DeviceArray, Error, Generator, Stream, bf16, f16};

use crate::common::expr::{both, on};
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

/// Shapes, the axis, and whether its elements lie side by side.
const SHAPES: [(&[usize], usize); 22] = [
    (&[3, 1], 1),
    (&[3, 2], 1),
    (&[2, 7], 1),
    (&[5, 64], 1),
    (&[2, 3, 257], 2),
    (&[3, 1000], 1),
    (&[2, 4096], 1),
    (&[1, 16_384], 1),
    (&[1, 16_388], 1),
    (&[1, 32_768], 1),
    (&[1, 32_769], 1),
    (&[1, 32_772], 1),
    (&[131_071], 0),
    (&[1, 3], 0),
    (&[7, 3], 0),
    (&[300, 40], 0),
    (&[4100, 16], 0),
    (&[2, 1000, 32], 1),
    (&[2, 33, 5], 1),
    (&[2, 100, 17], 1),
    (&[2, 3, 4, 5], 1),
    (&[9, 2, 3], 0),
];

/// Those that a type is tried with: of `f16`, which differs from `bf16` by how numbers are converted alone, every fourth.
fn shapes<T: Float>() -> impl Iterator<Item = (&'static [usize], usize)> {
    SHAPES.into_iter().step_by(if T::NAME == "f16" { 4 } else { 1 })
}

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

/// Where a row fits into no cluster, or only its sum is wanted, and across, the largest number and the sum are one reduction, in a
/// kernel's first pass.
#[test]
fn rows_that_fit_into_no_block_are_read_once_for_their_sum() {
    // A GPU with clusters or with room for it has more of long rows at hand.
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::zeros(stream, (4096, 128)).unwrap();
    let long = DeviceArray::<f32, _>::zeros(stream, (200, 40_000)).unwrap();
    let longer = DeviceArray::<f32, _>::zeros(stream, (130, 70_000)).unwrap();
    let longest = DeviceArray::<f32, _>::zeros(stream, (130, 262_148)).unwrap();
    let labels = DeviceArray::<i32, _>::zeros(stream, 200).unwrap();
    let in_parts = "200 rows of 40000, by 256 threads each, in a loop, in 10 parts";
    for (text, first, kernels) in [
        (
            long.expr().softmax(Axis(1)).explain(),
            "200 rows of 40000, by 2048 threads each, partly at once, 2 reductions: reads 32000000 B, writes 32000000 B"
                .into(),
            1,
        ),
        (
            longer.expr().softmax(Axis(1)).explain(),
            "130 rows of 70000, by 4096 threads each, partly at once, 2 reductions: reads 36400000 B, writes 36400000 B"
                .into(),
            1,
        ),
        (
            longest.expr().softmax(Axis(1)).explain(),
            "130 rows of 262148, by 1024 threads each, in a loop, 1 reduction: reads 136316960 B, writes 136316960 B"
                .into(),
            1,
        ),
        (
            long.expr().log_sum_exp_axis(Axis(1)).explain(),
            format!("{in_parts}, 1 reduction: reads 32000000 B, writes 16000 B"),
            2,
        ),
        (
            long.expr().cross_entropy(Axis(1), &labels).explain(),
            format!("{in_parts}, 2 reductions: reads 32000800 B, writes 24000 B"),
            3,
        ),
        (
            x.expr().softmax(Axis(0)).explain(),
            "128 rows of 4096, side by side, in 64 parts, 1 reduction: reads 2097152 B".into(),
            3,
        ),
    ] {
        let text = text.unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("kernel")).collect();
        assert_eq!(lines.len(), kernels, "{text}");
        assert!(lines[0].contains(&first), "{first}, not\n{text}");
    }
}

/// Of rows that a block has in its registers, views and several results of one kernel have the bits that arrays have one by one.
#[test]
fn views_and_several_results_of_rows_of_a_block() {
    for len in [16_385, 20_001, 32_766] {
        let base = numbers::<f16>(&[2, len + 2], 31);
        let inner = Slice::new(1, Some(len as isize + 1), 1);
        let copy = base.slice_axis(Axis(1), inner).to_owned();
        let together = |stream: &Stream, which: usize| {
            let x = on(stream, &base);
            let view = x.view().slice_axis(Axis(1), inner)?;
            let (y, norm) = (
                view.expr().softmax(Axis(1)),
                view.expr().layer_norm(&[1], f16::from_f32(2.0), f16::ONE, 1e-3),
            );
            let logarithms = view.expr().log_softmax(Axis(1));
            let (y, norm, logarithms) = expr::eval((&y, &norm, &logarithms))?;
            Ok([y, norm, logarithms].into_iter().nth(which).unwrap())
        };
        let alone = |stream: &Stream, which: usize| {
            let x = on(stream, &copy);
            match which {
                0 => x.expr().softmax(Axis(1)).eval(),
                1 => x.expr().layer_norm(&[1], f16::from_f32(2.0), f16::ONE, 1e-3).eval(),
                _ => x.expr().log_softmax(Axis(1)).eval(),
            }
        };
        for which in 0..3 {
            let what = format!("result {which} of rows of {len}");
            let got = both(|stream| together(stream, which), &what);
            assert_same(&got, &both(|stream| alone(stream, which), &what), &what);
        }
    }
}

/// The longest rows that are in the registers of a block: as many words as it has room for, of what the first pass reads, and of what
/// one pass keeps for the next; with few functions, whose code is there for each element. Weights, which are read behind the
/// last reduction, take no room. Longer rows have more threads than a block, which without clusters has a part of them in registers;
/// but not those of which a thread has room for few elements because each has many functions.
#[test]
fn rows_that_a_block_has_in_its_registers() {
    let device = Device::simulator();
    let stream = device.default_stream();
    fn max<'a>(x: &Expr<'a, f32, Ix2>) -> Expr<'a, f32, Ix2> {
        x.max_axis(Axis(1)).insert_axis(Axis(1))
    }
    let of = |what: usize, len: usize| {
        let x = DeviceArray::<f32, _>::zeros(stream, (1, len)).unwrap();
        let row = || DeviceArray::<f32, _>::zeros(stream, len).unwrap();
        let (row, other) = (row(), row());
        let (x, axis) = (x.expr(), Axis(1));
        let (sines, powers) = (x.sin(), x.exp());
        match what {
            0 => x.softmax(axis).explain(),
            1 => x.layer_norm(&[1], 1.0, 0.0, 1e-5).explain(),
            2 => x.cast::<f16>().log_softmax(axis).explain(),
            3 => x.cast::<f64>().softmax(axis).explain(),
            4 => x.softmax_backward(axis, &row.expr().insert_axis(Axis(0))).explain(),
            5 => ((&sines - max(&sines)) + (&powers - max(&powers))).explain(),
            6 => x.rms_norm(&[1], &row, 1e-5).explain(),
            7 => x.layer_norm(&[1], &row, &other, 1e-5).explain(),
            _ => {
                let y = sines.cos().exp().tanh().cbrt().sin().cos().exp();
                (&y - max(&y)).explain()
            }
        }
    };
    let most = [32_768, 32_768, 32_768, 16_384, 16_384, 16_384, 32_768, 32_768, 16_384];
    for (what, len) in most.into_iter().enumerate() {
        let longer = match what {
            8 => "by 1024 threads each, in a loop",
            _ => "by 2048 threads each, partly at once",
        };
        for (len, how) in [(len, "by 1024 threads each, at once"), (len + 4, longer)] {
            let text = of(what, len).unwrap();
            let wanted = format!("1 rows of {len}, {how}");
            assert!(text.contains(&wanted), "{wanted}, not\n{text}");
        }
    }
}

/// Rows of lengths at which they get more threads, or are read otherwise: of arrays and of views that begin between vectors.
#[test]
fn long_rows_of_arrays_and_of_views() {
    for (rows, len) in [
        (1, 16_388),
        (1, 20_001),
        (1, 32_769),
        (1, 32_772),
        (1, 65_535),
        (1, 65_536),
        (1, 65_537),
        (1, 65_540),
        (16, 65_540),
        (16, 131_076),
    ] {
        let base = numbers::<f32>(&[rows, len + 2], 37);
        let inner = Slice::new(1, Some(len as isize + 1), 1);
        let copy = base.slice_axis(Axis(1), inner).to_owned();
        let what = format!("softmax of rows of {len}");
        let of_array = |stream: &Stream| on(stream, &copy).expr().softmax(Axis(1)).eval();
        let of_view = |stream: &Stream| {
            let x = on(stream, &base);
            x.view().slice_axis(Axis(1), inner)?.expr().softmax(Axis(1)).eval()
        };
        let got = both(of_array, &what);
        assert_same(&both(of_view, &what), &got, &what);
        let (x, axis) = (copy.mapv(f64::from), 1);
        let (lse, range) = log_sum_exp(&x, axis);
        let relative = (2.0 * range + 5.0 + depth::<f32>(len, true)) * f32::U * 1.01;
        assert_near(&got, &(&x - &lse).mapv(f64::exp), |_, y| y * relative, &what);
    }
}
