// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several arrays that are replaced in place, against the same expressions evaluated into arrays of their own, to the last bit.

use ndarray::{Array1, Array2, Axis, Ix2, array, s};
use warpsmith::expr::{self, Expr};
use warpsmith::{Device, DeviceArray, DeviceArrayRef, Error, bf16};

use crate::common::expr::assert_shape_error;
use crate::common::*;

type Pair<'a> = (Expr<'a, f32, Ix2>, Expr<'a, f64, Ix2>);

fn hosts(shape: (usize, usize)) -> (Array2<f32>, Array2<f64>) {
    let len = shape.0 * shape.1;
    (
        Array2::from_shape_vec(shape, random(len, 1)).unwrap(),
        Array2::from_shape_vec(shape, random(len, 2)).unwrap(),
    )
}

/// What `function` makes of two arrays in place, and what it gives of them evaluated.
fn check(shape: (usize, usize), function: impl for<'a> Fn(Pair<'a>) -> Pair<'a>, what: &str) {
    let (a, b) = hosts(shape);
    let (x, y) = (upload(&a), upload(&b));
    let (new_x, new_y) = function((x.expr(), y.expr()));
    let wanted = (elements(&new_x.eval().unwrap()), elements(&new_y.eval().unwrap()));
    let (mut x, mut y) = (upload(&a), upload(&b));
    expr::update((&mut x, &mut y), &function).unwrap();
    assert_same(&elements(&x), &wanted.0, what);
    assert_same(&elements(&y), &wanted.1, what);
}

fn sums((x, y): Pair<'_>, axis: usize) -> Pair<'_> {
    let sum = y.sum_axis(Axis(axis)).insert_axis(Axis(axis));
    (x - &sum.cast::<f32>(), y * sum)
}

#[test]
fn elements_rows_and_columns() {
    for shape in [
        (1, 1),
        (3, 7),
        (64, 64),
        (5, 1000),
        (2, 40_000),
        (3000, 3),
        (0, 4),
        (4, 0),
    ] {
        let what = |name: &str| format!("{name} of {shape:?}");
        check(
            shape,
            |(x, y)| (&x * 0.5 + y.cast::<f32>(), y + x.exp()),
            &what("elements"),
        );
        // What the other one was, not what it has become.
        check(shape, |(x, y)| (y.cast::<f32>(), x.cast::<f64>()), &what("a swap"));
        check(shape, |pair| sums(pair, 1), &what("rows"));
        check(shape, |pair| sums(pair, 0), &what("columns"));
        check(shape, |(x, y)| (&x + x.sum(), y.sqrt()), &what("all"));
    }
}

#[test]
fn views_that_interlace_and_arrays_that_are_borrowed() {
    let (a, b) = hosts((6, 10));
    let (mut x, mut y) = (upload(&a), upload(&b));
    // Two halves of one array, in columns, and a part in C order of another.
    {
        let (mut left, mut right) = x.split_at_mut(Axis(1), 5).unwrap();
        let mut part = y.slice_mut(s![3.., ..]).unwrap();
        let third: &mut DeviceArrayRef<f64, Ix2> = &mut part;
        expr::update((&mut left, &mut right), |(l, r)| (&l - &r, l + r)).unwrap();
        third.update(|y| -y).unwrap();
    }
    let (left, right) = a.view().split_at(Axis(1), 5);
    let wanted = ndarray::concatenate![Axis(1), &left - &right, &left + &right];
    assert_same(&elements(&x), &wanted.iter().copied().collect::<Vec<_>>(), "halves");
    let mut wanted = b.clone();
    wanted.slice_mut(s![3.., ..]).mapv_inplace(|y| -y);
    assert_same(&elements(&y), &wanted.into_raw_vec_and_offset().0, "a part");
    // One in place, and one by way of an array of its own.
    let mut z = upload(&Array2::<f64>::zeros((10, 6)));
    let mut turned = z.view_mut().permuted_axes([1, 0]).unwrap();
    expr::update((&mut y, &mut turned), |(y, z)| (z + 1.0, y)).unwrap();
    assert_eq!(elements(&y), vec![1.0; 60]);
    let mut wanted = b;
    wanted.slice_mut(s![3.., ..]).mapv_inplace(|y| -y);
    let transposed = wanted.t().as_standard_layout().into_owned();
    assert_same(&elements(&z), &transposed.into_raw_vec_and_offset().0, "turned");
}

#[test]
fn six_of_several_types() {
    let stream = device().default_stream();
    let ones = |len: usize| DeviceArray::<f32, _>::ones(stream, len).unwrap();
    let (mut a, mut b, mut c) = (ones(1001), ones(1001), ones(1001));
    let mut d = DeviceArray::<u8, _>::ones(stream, 1001).unwrap();
    let mut e = DeviceArray::<i64, _>::ones(stream, 1001).unwrap();
    let mut f = DeviceArray::from_elem(stream, 1001, bf16::from_f32(1.0)).unwrap();
    expr::update(
        (&mut a, &mut b, &mut c, &mut d, &mut e, &mut f),
        |(a, b, c, d, e, f)| {
            let sum = &a + &b + &c + &d;
            (sum.clone(), sum + a, &b - &c, d + 250, e - 3, f * bf16::from_f32(0.5))
        },
    )
    .unwrap();
    assert_eq!(elements(&a), [4.0; 1001]);
    assert_eq!(elements(&b), [5.0; 1001]);
    assert_eq!(elements(&c), [0.0; 1001]);
    assert_eq!(elements(&d), [251; 1001]);
    assert_eq!(elements(&e), [-2; 1001]);
    assert_eq!(elements(&f), [bf16::from_f32(0.5); 1001]);
}

#[test]
fn errors_leave_the_arrays_as_they_are() {
    let mut x = upload(&array![1.0f32, 2.0]);
    let mut y = upload(&array![1.0f32, 2.0, 3.0]);
    let error = expr::update((&mut x, &mut y), |(x, y)| (x + 1.0, y)).unwrap_err();
    assert_shape_error(&error, "update");
    assert!(
        error.to_string().contains("[3]") && error.to_string().contains("[2]"),
        "{error}"
    );
    // Expressions that have grown.
    let table = upload(&array![[1.0f32, 2.0], [3.0, 4.0]]);
    let (mut v, mut w) = (upload(&array![[1.0f32, 2.0]]), upload(&array![[5.0f32, 6.0]]));
    let error = expr::update((&mut v, &mut w), |(v, w)| (v + &table, w + &table)).unwrap_err();
    assert_shape_error(&error, "update");
    let other = Device::simulated_hopper();
    let mut far = DeviceArray::<f32, _>::ones(other.default_stream(), 2).unwrap();
    let error = expr::update((&mut x, &mut far), |(x, far)| (x + 1.0, far + 1.0)).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
    assert_eq!((elements(&x), elements(&y)), (vec![1.0, 2.0], vec![1.0, 2.0, 3.0]));
    assert_eq!(
        (elements(&v), elements(&w), elements(&far)),
        (vec![1.0, 2.0], vec![5.0, 6.0], vec![1.0; 2])
    );
}

#[test]
fn a_graph_replaces_them_anew() {
    let stream = device().default_stream();
    let mut x = upload(&Array1::<f32>::zeros(1000));
    let mut v = upload(&Array1::<f32>::ones(1000));
    let mut graph = stream
        .capture((&mut x, &mut v), |_, (x, v)| {
            expr::update((&mut **x, &mut **v), |(x, v)| (x + &v, v * 0.5))
        })
        .unwrap();
    for _ in 0..3 {
        graph.launch().unwrap();
    }
    drop(graph);
    assert_eq!((elements(&x), elements(&v)), (vec![1.75; 1000], vec![0.125; 1000]));
}

/// What [`expr::run_all`] computes, or each alone: of one form and of others, with elements of other places, with reductions, with
/// products, with more operations than a kernel has, of nothing, of views, on another stream.
fn deferred(is_together: bool) -> Vec<Vec<u32>> {
    let device = device();
    let stream = device.create_stream().unwrap();
    let host = |k: usize| Array2::from_shape_vec((8, 8), random::<f32>(64, k as u64)).unwrap();
    let x: Vec<_> = (0..8).map(|k| upload(&host(k))).collect();
    let mut out: Vec<_> = (10..20).map(|k| upload(&host(k))).collect();
    let mut far = DeviceArray::from_ndarray(&stream, &host(20)).unwrap();
    let mut row = upload(&Array1::<f32>::ones(9));
    let mut none = upload(&Array2::<f32>::zeros((0, 8)));
    {
        let [a, b, c, d, e, f, g, h, i, j] = &mut out[..] else {
            unreachable!("ten")
        };
        let (mut part, mut turned) = (g.slice_mut(s![..;-1, ..;2]).unwrap(), h.view_mut().reversed_axes());
        let mut all: Vec<expr::Deferred> = Vec::new();
        let mut add = |deferred: warpsmith::Result<_>| match is_together {
            true => all.push(deferred.unwrap()),
            false => deferred.unwrap().run().unwrap(),
        };
        add(expr::defer_update(a, |a| a * 2.0 + &x[0]));
        add(expr::defer_update(b, |b| b * 3.0 + &x[1]));
        add(expr::defer_update(&mut far, |far| far * 4.0 + &x[2]));
        add(expr::defer_update(c, |c| &c.sum_axis(Axis(0)) + c));
        add(expr::defer_update(d, |d| x[3].expr().matmul(&x[4]) + d));
        add(expr::defer_update(e, |e| {
            (0..1000).fold(e, |e, k| (e + 0.25) * (k as f32 * 0.001))
        }));
        add(expr::defer_update((f, i), |(f, i)| (&f * 0.5, f + i)));
        add(expr::defer_update(&mut row, |row| row * 2.0));
        add(expr::defer_update(&mut part, |part| part * 2.0));
        add((x[6].expr() * 3.0 + &x[7]).defer_into(&mut turned));
        add(expr::defer_update(j, |j| j * 5.0 + &x[7]));
        add(expr::defer_update(&mut none, |none| none * 4.0));
        expr::run_all(all).unwrap();
    }
    out.push(far);
    let all = out.iter().map(elements).chain([elements(&row)]);
    all.map(|x| x.into_iter().map(f32::to_bits).collect()).collect()
}

#[test]
fn many_together_have_the_bits_of_each_alone() {
    assert_eq!(deferred(true), deferred(false));
}

#[test]
fn what_cannot_be_deferred_says_so_at_once() {
    let (mut x, mut y) = (upload(&array![1.0f32, 2.0]), upload(&array![1.0f32, 2.0, 3.0]));
    assert_shape_error(
        &expr::defer_update((&mut x, &mut y), |(x, y)| (x, y)).unwrap_err(),
        "update",
    );
    let table = upload(&array![[1.0f32, 2.0], [3.0, 4.0]]);
    assert_shape_error(
        &table.expr().sum_axis(Axis(0)).defer_into(&mut y).unwrap_err(),
        "update",
    );
    let other = Device::simulated_hopper();
    let mut far = DeviceArray::<f32, _>::ones(other.default_stream(), 2).unwrap();
    let error = table.expr().sum_axis(Axis(0)).defer_into(&mut far).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
    let text = format!("{:?}", expr::defer_update(&mut x, |x| x + 1.0).unwrap());
    assert!(text.contains("not computed"), "{text}");
    assert_eq!(elements(&x), [1.0, 2.0]);
}
