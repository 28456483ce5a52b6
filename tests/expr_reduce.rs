// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of expressions, against ndarray; on a GPU also against the simulated one, to the last bit.

use ndarray::{Array1, ArrayD, Axis, Dimension, Ix2, IxDyn, array, s};
use proptest::prelude::*;
use warpsmith::expr::{self, Expr};
use warpsmith::{DeviceArray, Error, Stream, f16};

use crate::common::expr::{both, kernels, on, small as exact};
use crate::common::*;

/// Numbers of that shape that follow from a seed, small enough for sums.
fn small(shape: &[usize], seed: u64) -> ArrayD<i32> {
    let values = random::<i32>(shape.iter().product(), seed).into_iter().map(|x| x >> 12);
    ArrayD::from_shape_vec(IxDyn(shape), values.collect()).unwrap()
}

fn floats(shape: &[usize], seed: u64) -> ArrayD<f32> {
    small(shape, seed).mapv(|x| x as f32 / (1 << 18) as f32)
}

/// Along every set of axes, where what is combined lies side by side, apart, across, and in both orders.
#[test]
fn sums_along_all_axes_of_all_layouts() {
    let base = small(&[6, 5, 8, 9], 1);
    for set in 1usize..16 {
        let axes: Vec<usize> = (0..4).filter(|axis| set >> axis & 1 == 1).collect();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [2, 0, 3, 1]] {
            for step in [1isize, -2] {
                let what = format!("axes {axes:?}, order {order:?}, step {step}");
                let view = base.view().permuted_axes(IxDyn(&order));
                let slice = view.slice_axis(Axis(3), ndarray::Slice::new(0, None, step)).to_owned();
                // Repeated along the first two axes.
                let row = small(&[slice.shape()[3]], 3);
                let mut wanted = (&slice * 3 + &row).mapv(i64::from);
                for &axis in axes.iter().rev() {
                    wanted = wanted.sum_axis(Axis(axis));
                }
                let got = both(
                    |stream| {
                        let base = on(stream, &base);
                        let turned = base.view().permuted_axes(IxDyn(&order))?;
                        let part = turned.slice_axis(Axis(3), ndarray::Slice::new(0, None, step))?;
                        let row = on(stream, &row);
                        (part.expr() * 3 + &row).sum_axes(&axes).eval()
                    },
                    &what,
                );
                assert_eq!(got, wanted.iter().copied().collect::<Vec<_>>(), "{what}");
            }
        }
    }
}

/// The lengths of rows at which something else is done: by parts of warps, by blocks, in loops, in parts.
const LENGTHS: [usize; 24] = [
    1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 500, 512, 513, 1023, 1024, 4095, 4096, 4100, 16_384, 16_385, 40_000, 65_536,
    65_541, 200_004,
];

#[test]
fn rows_of_every_length() {
    for len in LENGTHS {
        for rows in [1, 3, 37] {
            if rows * len > 300_000 {
                continue;
            }
            let what = format!("{rows} rows of {len}");
            let a = small(&[rows, len + 1], len as u64);
            // Aligned, and not.
            for part in [s![.., ..-1], s![.., 1..]] {
                let rows = a.slice(part).mapv(|x| i64::from(x) * 2);
                let sums = both(
                    |stream| (on(stream, &a).slice(part)?.expr() * 2).sum_axis(Axis(1)).eval(),
                    &what,
                );
                assert_eq!(sums, rows.sum_axis(Axis(1)).into_raw_vec_and_offset().0, "{what}");
                let extremes = both(
                    |stream| {
                        let a = on(stream, &a);
                        let part = a.slice(part)?;
                        let x = part.expr() * 2;
                        (x.max_axis(Axis(1)) - x.min_axis(Axis(1))).eval()
                    },
                    &what,
                );
                let wanted = rows.map_axis(Axis(1), |row| row.iter().max().unwrap() - row.iter().min().unwrap());
                assert!(extremes.iter().map(|&x| i64::from(x)).eq(wanted), "{what}");
            }
        }
    }
}

#[test]
fn columns_of_every_length() {
    for len in [1, 2, 7, 8, 9, 31, 32, 33, 64, 100, 1000, 5000] {
        for columns in [1, 15, 16, 33, 128, 129, 260] {
            if len * columns > 200_000 {
                continue;
            }
            let what = format!("{columns} columns of {len}");
            let a = small(&[2, len, columns + 1], len as u64);
            for part in [s![.., .., ..-1], s![.., .., 1..]] {
                let sums = both(
                    |stream| (on(stream, &a).slice(part)?.expr() - 1).sum_axis(Axis(1)).eval(),
                    &what,
                );
                let wanted = a.slice(part).mapv(|x| i64::from(x) - 1).sum_axis(Axis(1));
                assert!(sums.into_iter().eq(wanted), "{what}");
            }
        }
    }
}

/// The largest distance of two arrays' elements, the second one's being exact.
fn distance(got: &[f32], wanted: impl IntoIterator<Item = f64>) -> f64 {
    got.iter().zip(wanted).fold(0.0, |most, (got, wanted)| {
        f64::max(most, (f64::from(*got) - wanted).abs())
    })
}

fn softmax<'a, D>(x: Expr<'a, f32, D>, axis: Axis) -> Expr<'a, f32, D>
where
    D: ndarray::RemoveAxis + ndarray::DimMax<<D::Smaller as Dimension>::Larger, Output = D>,
{
    let largest = x.max_axis(axis).insert_axis(axis);
    let e = (x - largest).exp();
    let sum = e.sum_axis(axis).insert_axis(axis);
    e / sum
}

/// Each element is `e^(x − max)`, off by 2 units in the last place of the difference's rounding, `|x − max| u`, and of `exp`,
/// by a sum of as many additions one after another as it has, over which it is divided.
#[test]
fn softmax_of_rows_and_of_columns() {
    for len in LENGTHS {
        for axis in [1, 0] {
            let shape = if axis == 1 { [3, len] } else { [len, 3] };
            let a = floats(&shape, len as u64);
            let what = format!("softmax along axis {axis} of {shape:?}");
            let got = both(
                |stream| {
                    softmax(
                        on(stream, &a.clone().into_dimensionality::<ndarray::Ix2>().unwrap()).expr(),
                        Axis(axis),
                    )
                    .eval()
                },
                &what,
            );
            let exact = a.mapv(f64::from);
            let e = exact.mapv(f64::exp);
            let sums = e.sum_axis(Axis(axis)).insert_axis(Axis(axis));
            let wanted = &e / &sums;
            // Numbers are between −2 and 2: a difference of at most 4 is off by 4u, and the sum, of at most 1100 in a row, by
            // 1100u.
            let largest = wanted.iter().copied().fold(0.0, f64::max);
            let bound = largest * 1120.0 * f64::from(f32::EPSILON);
            assert!(distance(&got, wanted) <= bound, "{what}");
        }
    }
}

#[test]
fn layer_norm_variance_and_means() {
    for (rows, len) in [(1, 1000), (5, 64), (3, 4097), (2, 20_001), (1, 70_001), (200, 33)] {
        let (a, scale, shift) = (floats(&[rows, len], 4), floats(&[len], 5), floats(&[len], 6));
        let what = format!("layer norm of {rows} rows of {len}");
        let two = |a: &ArrayD<f32>| a.clone().into_dimensionality::<ndarray::Ix2>().unwrap();
        let got = both(
            |stream| {
                let (a, scale, shift) = (on(stream, &two(&a)), on(stream, &scale), on(stream, &shift));
                let x = a.expr();
                let mean = x.mean_axis(Axis(1)).insert_axis(Axis(1));
                let deviation = (x.variance_axis(Axis(1), 0) + 1e-5).rsqrt().insert_axis(Axis(1));
                ((x - mean) * deviation * &scale + &shift).eval()
            },
            &what,
        );
        let exact = two(&a).mapv(f64::from);
        let mut wanted = exact.clone();
        for mut row in wanted.rows_mut() {
            let mean = row.mean().unwrap();
            let variance = row.mapv(|x| (x - mean).powi(2)).mean().unwrap();
            row.mapv_inplace(|x| (x - mean) / (variance + 1e-5).sqrt());
            row.zip_mut_with(&scale.view().into_dimensionality::<ndarray::Ix1>().unwrap(), |x, s| {
                *x *= f64::from(*s)
            });
            row.zip_mut_with(&shift.view().into_dimensionality::<ndarray::Ix1>().unwrap(), |x, s| {
                *x += f64::from(*s)
            });
        }
        // Numbers of at most 2 in size whose mean is off by 2 · 1100u, and which are then scaled by 2 and about 1.
        assert!(
            distance(&got, wanted) <= 8.0 * 1200.0 * f64::from(f32::EPSILON),
            "{what}"
        );
        for axis in [0, 1] {
            let got = both(
                |stream| on(stream, &two(&a)).expr().variance_axis(Axis(axis), 0).eval(),
                &what,
            );
            let wanted = exact.var_axis(Axis(axis), 0.0);
            assert!(
                distance(&got, wanted) <= 4.0 * 1200.0 * f64::from(f32::EPSILON),
                "variance of {what}"
            );
        }
    }
}

#[test]
fn what_is_made_of_results_and_of_reductions_of_them() {
    let a = small(&[7, 20, 30], 7);
    let three = |stream: &Stream| on(stream, &a.clone().into_dimensionality::<ndarray::Ix3>().unwrap());
    let bias = small(&[7, 20], 8);
    let two = |stream: &Stream| on(stream, &bias.clone().into_dimensionality::<ndarray::Ix2>().unwrap());
    let wide = a.mapv(i64::from);
    let sums = wide.sum_axis(Axis(2)) + bias.mapv(i64::from);
    let got = both(
        |stream| (three(stream).expr().sum_axis(Axis(2)) + &two(stream).cast::<i64>()?).eval(),
        "with a bias",
    );
    assert!(got.iter().eq(sums.iter()));
    let got = both(
        |stream| {
            (three(stream).expr().sum_axis(Axis(2)) + &two(stream).cast::<i64>()?)
                .max()
                .eval()
        },
        "and their greatest",
    );
    assert_eq!(got[0], *sums.iter().max().unwrap());
    // Along an axis of what is left, beside the elements.
    let got = both(
        |stream| {
            let (a, b) = (three(stream), two(stream));
            let sums = (a.expr().sum_axis(Axis(1)) * 2).insert_axis(Axis(1));
            (a.expr().cast::<i64>() * &b.insert_axis(Axis(2))?.cast::<i64>()? - sums).eval()
        },
        "beside the elements",
    );
    let doubled = (wide.sum_axis(Axis(1)) * 2).insert_axis(Axis(1));
    let wanted = &wide * &bias.mapv(i64::from).insert_axis(Axis(2)) - doubled;
    assert!(got.iter().eq(wanted.iter()));
    // Two spaces, and a reduction in both.
    let got = both(
        |stream| {
            let (a, b) = (three(stream), two(stream));
            let total = b.expr().sum();
            ((a.expr().cast::<i64>() - &total).sum_axes(&[0, 2]) + total).eval()
        },
        "of two spaces",
    );
    let total = bias.mapv(i64::from).sum();
    let wanted = (&wide - total).sum_axis(Axis(2)).sum_axis(Axis(0)) + total;
    assert!(got.iter().eq(wanted.iter()));
}

#[test]
fn several_at_once_into_arrays_and_graphs() {
    let stream = device().default_stream();
    let a = floats(&[40, 50], 9).into_dimensionality::<ndarray::Ix2>().unwrap();
    let x = upload(&a);
    let (sum, largest) = (x.expr().square().sum_axis(Axis(0)), x.expr().max_axis(Axis(0)));
    let (both_sum, both_largest) = expr::eval((&sum, &largest)).unwrap();
    assert_eq!(elements(&both_sum), elements(&sum.eval().unwrap()));
    assert_eq!(elements(&both_largest), elements(&largest.eval().unwrap()));
    let mut out = DeviceArray::<f32, _>::zeros(stream, (3, 50)).unwrap();
    sum.eval_into(&mut out.index_axis_mut(Axis(0), 1).unwrap()).unwrap();
    assert_eq!(out.to_ndarray().unwrap().row(1), both_sum.to_ndarray().unwrap());
    drop((sum, largest));
    // In place: every row is read before it is written.
    let mut x = upload(&a);
    let wanted = softmax(upload(&a).expr(), Axis(1)).eval().unwrap();
    x.update(|x| softmax(x, Axis(1))).unwrap();
    assert_eq!(elements(&x), elements(&wanted));
    let long = floats(&[2, 70_000], 10).into_dimensionality::<ndarray::Ix2>().unwrap();
    let mut graph = stream
        .capture(upload(&long), |_, x| (x.expr() - x.expr().mean()).square().sum().eval())
        .unwrap();
    graph.launch().unwrap();
    graph.launch().unwrap();
    let got = elements(graph.output());
    let y = upload(&long);
    assert_eq!(
        got,
        elements(&(y.expr() - y.expr().mean()).square().sum().eval().unwrap())
    );
}

#[test]
fn types_and_places() {
    let halves = Array1::from_iter((0..3000).map(|i| f16::from_f32((i % 7) as f32)));
    let sum = both(|stream| on(stream, &halves).expr().sum().eval(), "f16");
    assert_eq!(sum[0], f16::from_f32((0..3000).map(|i| i % 7).sum::<i32>() as f32));
    let bytes = Array1::from_elem(100_000, 200u8);
    assert_eq!(
        both(|stream| on(stream, &bytes).expr().sum().eval(), "bytes")[0],
        20_000_000u64
    );
    // Of an array a mean of f32 is summed in f64, of an expression in f32.
    let large = upload(&array![3e38f32, 3e38]);
    let means = [large.expr().mean(), large.expr().cast::<f64>().mean().cast()].map(|mean| mean.item().unwrap());
    assert_eq!((means, large.mean().unwrap()), ([f32::INFINITY, 3e38], 3e38));
    let mean = both(|stream| on(stream, &bytes).expr().mean().eval(), "bytes");
    assert_eq!(mean[0], 200.0f64);
    assert_eq!(
        both(|stream| on(stream, &array![3u64, 5, 7]).expr().product().eval(), "u64")[0],
        105
    );
    let x = array![[1.0f32, f32::NAN, 5.0, 5.0], [-0.0, 0.0, -1.0, -1.0]];
    let largest = both(|stream| on(stream, &x).expr().argmax_axis(Axis(1)).eval(), "argmax");
    let smallest = both(|stream| on(stream, &x).expr().argmin_axis(Axis(1)).eval(), "argmin");
    assert_eq!((largest, smallest), (vec![1, 0], vec![1, 2]));
    let places = both(|stream| on(stream, &x).expr().argmax_axis(Axis(0)).eval(), "argmax");
    assert_eq!(places, [0, 0, 0, 0]);
    let max = both(|stream| on(stream, &x).expr().max_axis(Axis(1)).eval(), "max");
    assert!(max[0].is_nan() && max[1] == 0.0 && max[1].is_sign_positive());
    for len in LENGTHS {
        let a = Array1::from(random::<i32>(len, 11)).mapv(|x| x >> 24);
        let place = both(|stream| on(stream, &a).expr().argmin_axis(Axis(0)).eval(), "argmin")[0] as usize;
        let least = a.iter().min().unwrap();
        assert_eq!(place, a.iter().position(|x| x == least).unwrap(), "of {len}");
        let counts = both(|stream| on(stream, &a).expr().greater(3).count().eval(), "count");
        assert_eq!(counts[0], a.iter().filter(|&&x| x > 3).count() as u64);
        let any = both(
            |stream| on(stream, &a).expr().equal(1000).any().cast::<u8>().eval(),
            "any",
        );
        let all = both(
            |stream| on(stream, &a).expr().less(1000).all().cast::<u8>().eval(),
            "all",
        );
        assert_eq!((any[0], all[0]), (0, 1));
    }
}

#[test]
fn rows_of_nothing_and_nothing_of_rows() {
    let stream = device().default_stream();
    let none = DeviceArray::<f32, _>::zeros(stream, (3, 0)).unwrap();
    assert_eq!(elements(&none.expr().sum_axis(Axis(1)).eval().unwrap()), [0.0; 3]);
    assert_eq!(
        elements(&(none.expr() + 1.0).product_axis(Axis(1)).eval().unwrap()),
        [1.0; 3]
    );
    assert_eq!(none.expr().sum_axis(Axis(0)).eval().unwrap().shape(), [0]);
    assert!(matches!(
        none.expr().max().eval(),
        Err(Error::Empty { operation: "max", .. })
    ));
    assert!(matches!(
        none.expr().mean_axis(Axis(1)).eval(),
        Err(Error::Empty { operation: "mean", .. })
    ));
    let one = DeviceArray::<f32, _>::zeros(stream, 1).unwrap();
    assert!(matches!(
        one.expr().variance(1).eval(),
        Err(Error::Parameter { parameter: "ddof", .. })
    ));
    assert!(matches!(
        one.expr().sum_axis(Axis(1)).eval(),
        Err(Error::Axes { operation: "sum", .. })
    ));
    assert!(matches!(
        one.expr().sum_axes(&[0, 0]).eval(),
        Err(Error::Axes { operation: "sum", .. })
    ));
    assert!(matches!(
        one.expr().insert_axis(Axis(2)).eval(),
        Err(Error::Axes { .. })
    ));
    let scalar = DeviceArray::<f32, _>::from_elem(stream, (), 3.0).unwrap();
    assert_eq!(elements(&scalar.expr().sum().eval().unwrap()), [3.0]);
}

/// Longer than a kernel inside, and as deep as memory.
#[test]
fn long_and_nested_reductions() {
    let a = upload_vec(&small(&[100], 12).into_raw_vec_and_offset().0)
        .cast::<i64>()
        .unwrap();
    let mut chain = a.expr();
    for i in 0..1500 {
        chain = chain * 3 + (i % 7);
    }
    let one = |x: i64| (0..1500).fold(x, |x: i64, i| x.wrapping_mul(3).wrapping_add(i % 7));
    let wanted = elements(&a).into_iter().map(one).fold(0i64, i64::wrapping_add);
    assert_eq!(elements(&chain.sum().eval().unwrap()), [wanted]);
    let mut nested = a.expr();
    for _ in 0..30 {
        nested = &nested - nested.max();
    }
    let wanted: Vec<i64> = elements(&a);
    let most = wanted.iter().max().unwrap();
    assert_eq!(
        elements(&nested.eval().unwrap()),
        wanted.iter().map(|x| x - most).collect::<Vec<_>>()
    );
    let mut deep = a.expr();
    for _ in 0..50_000 {
        deep = &deep - deep.max();
    }
    drop(deep);
}

proptest! {
    #![proptest_config(cases(100))]

    /// Random graphs with reductions along random axes, of integers, which have one sum.
    #[test]
    fn random_graphs_with_reductions(
        shape in prop::collection::vec(1usize..12, 1..4),
        steps in prop::collection::vec((0u8..6, 0usize..100, 0usize..100, 0usize..8), 1..14),
        seed in any::<u64>(),
    ) {
        // Every part has all axes; what was combined has length 1.
        let arrays: Vec<ArrayD<i64>> = (0..3)
            .map(|k| {
                let shape: Vec<usize> = shape.iter().enumerate().map(|(axis, &len)| if k == axis + 1 { 1 } else { len }).collect();
                small(&shape, seed ^ k as u64).mapv(|x| i64::from(x >> 10))
            })
            .collect();
        let devices: Vec<DeviceArray<i64, IxDyn>> = arrays.iter().map(upload).collect();
        let mut parts: Vec<(Expr<'_, i64, IxDyn>, ArrayD<i64>)> =
            devices.iter().map(|array| array.expr()).zip(arrays.iter().cloned()).collect();
        for (operation, a, b, axis) in steps {
            let ((x, dx), (y, dy)) = (&parts[a % parts.len()], &parts[b % parts.len()]);
            let axis = Axis(axis % shape.len());
            parts.push(match operation {
                0 => (x + y, dx + dy),
                1 => (x - y, dx - dy),
                2 => (x.minimum(y) & 0xff, ndarray::Zip::from(dx.broadcast(common(dx, dy)).unwrap()).and(dy.broadcast(common(dx, dy)).unwrap()).map_collect(|a, b| a.min(b) & 0xff)),
                3 => (x.sum_axis(axis).insert_axis(axis), dx.sum_axis(axis).insert_axis(axis)),
                4 => (x.max_axis(axis).insert_axis(axis), dx.map_axis(axis, |row| *row.iter().max().unwrap()).insert_axis(axis)),
                _ => (x * 2 - 1, dx * 2 - 1),
            });
        }
        let (got, wanted) = parts.last().unwrap();
        let got = got.eval().unwrap();
        prop_assert_eq!(got.shape(), wanted.shape());
        prop_assert!(elements(&got).iter().eq(wanted.iter()));
    }
}

/// One more part of a random graph of floats, in which what is combined keeps its axis.
fn grow<'a>(parts: &mut Vec<Expr<'a, f32, IxDyn>>, axes: usize, (operation, a, b, axis): (u8, usize, usize, usize)) {
    let (x, y) = (parts[a % parts.len()].clone(), parts[b % parts.len()].clone());
    let axis = Axis(axis % axes);
    parts.push(match operation {
        0 => x + y,
        1 => x * y,
        2 => x.tanh() - y,
        3 => x.sum_axis(axis).insert_axis(axis) * 0.125,
        4 => x.max_axis(axis).insert_axis(axis),
        5 => x.mean_axis(axis).insert_axis(axis),
        6 => (x.variance_axis(axis, 0) + 0.5).rsqrt().insert_axis(axis),
        7 => x.less(&y).select(x.clone(), y),
        8 => x.cast::<f16>().cast::<f32>(),
        _ => x.argmin_axis(axis).insert_axis(axis).cast::<f32>() * 0.25,
    });
}

proptest! {
    #![proptest_config(cases(60))]

    /// Random graphs of floats have the same bits on a GPU and on the simulated one, which has every kernel's order.
    #[test]
    fn random_graphs_of_floats_are_the_same_on_both(
        shape in prop::collection::vec(1usize..40, 1..4),
        steps in prop::collection::vec((0u8..10, 0usize..100, 0usize..100, 0usize..8), 1..14),
        seed in any::<u64>(),
    ) {
        let got = both(
            |stream| {
                let whole = on(stream, &floats(&shape, seed));
                let turned = on(stream, &floats(&shape.iter().rev().copied().collect::<Vec<_>>(), seed ^ 1));
                let turned = turned.view().reversed_axes();
                let mut parts = vec![whole.expr(), turned.expr()];
                for step in &steps {
                    grow(&mut parts, shape.len(), *step);
                }
                parts[parts.len() - 1].eval()
            },
            "a random graph",
        );
        prop_assert!(!got.is_empty());
    }
}

fn common(a: &ArrayD<i64>, b: &ArrayD<i64>) -> Vec<usize> {
    a.shape().iter().zip(b.shape()).map(|(a, b)| *a.max(b)).collect()
}

/// Reductions of what others along the same axes have left: one kernel where others go on with them, whoever else wants what is
/// inside. Integers, so that the order in which they are combined does not show.
#[test]
fn chains_that_others_go_on_with() {
    for (rows, len) in [(1, 1), (7, 5), (40, 64), (3, 5000), (2, 40_000), (200, 3)] {
        let a = small(&[rows, len], 77).mapv(|x| i64::from(x) % 100);
        let a = a.into_dimensionality::<ndarray::Ix2>().unwrap();
        let what = format!("{rows} rows of {len}");
        let x = upload(&a);
        let one = Axis(1);
        let largest = x.expr().max_axis(one);
        let below = (x.expr() - largest.insert_axis(one)).square();
        let total = below.sum_axis(one);
        let most = (&below - total.insert_axis(one)).max_axis(one);
        // On the host, step by step.
        let host_largest = a.map_axis(one, |row| *row.iter().max().unwrap());
        let host_below = (&a - &host_largest.clone().insert_axis(one)).mapv(|x| x * x);
        let host_total = host_below.sum_axis(one);
        let host_most =
            (&host_below - &host_total.clone().insert_axis(one)).map_axis(one, |row| *row.iter().max().unwrap());

        // Of all rows, of the outermost and of those inside.
        let whole = (most.sum() + total.max() * largest.min()).eval().unwrap();
        let wanted = host_most.sum() + host_total.iter().max().unwrap() * host_largest.iter().min().unwrap();
        assert_eq!(elements(&whole), [wanted], "{what}");
        // Across, of elements beside both.
        let beside = &below * &most.insert_axis(one) + largest.insert_axis(one);
        let columns = beside.sum_axis(Axis(0)).eval().unwrap();
        let host_beside = &host_below * &host_most.clone().insert_axis(one) + &host_largest.clone().insert_axis(one);
        assert_eq!(elements(&columns), host_beside.sum_axis(Axis(0)).to_vec(), "{what}");
        // Elements that want what is along other axes, too.
        let (of_columns, host_of_columns) = (x.expr().sum_axis(Axis(0)), a.sum_axis(Axis(0)));
        let both = (&below + &of_columns - total.insert_axis(one)).eval().unwrap();
        let wanted = &host_below + &host_of_columns - &host_total.clone().insert_axis(one);
        assert_eq!(elements(&both), wanted.into_raw_vec_and_offset().0, "{what}");
        // Rows that are chosen by what is along all axes.
        let chosen = total
            .less(x.expr().sum())
            .select(most.clone(), &largest)
            .eval()
            .unwrap();
        let sum = a.sum();
        let wanted = (0..rows).map(|row| {
            if host_total[row] < sum {
                host_most[row]
            } else {
                host_largest[row]
            }
        });
        assert!(elements(&chosen).into_iter().eq(wanted), "{what}");
    }
}

/// What several kernels read is one array, also where it was written twice.
#[test]
fn reductions_that_were_written_twice_are_computed_once() {
    let x = exact(Ix2(300, 70), 9);
    let sums = || (x.expr() * 0.5).sum_axis(Axis(0));
    let twice = (sums() * 2.0).sum() + sums().max();
    let shared = sums();
    let once = (&shared * 2.0).sum() + shared.max();
    assert_eq!(kernels(&twice), kernels(&once));
    assert_eq!(kernels(&twice).len(), 3, "{}", twice.explain().unwrap());
    assert_eq!(elements(&twice.eval().unwrap()), elements(&once.eval().unwrap()));
    // Beside others that it is not the same as.
    let other = (sums() * 2.0).sum() + (x.expr() * 0.25).sum_axis(Axis(0)).max();
    let wanted = once.eval().unwrap().to_ndarray().unwrap() - shared.max().eval().unwrap().to_ndarray().unwrap() / 2.0;
    assert_eq!(other.eval().unwrap().to_ndarray().unwrap(), wanted);
}
