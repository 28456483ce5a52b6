// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that indices or masks name, replaced by others, against loops over ndarray's; and indices on the host.

use std::fmt::Debug;

use ndarray::{Array, Array1, Array2, Axis, Dimension, IxDyn, arr0, array, s};
use proptest::prelude::*;
use warpsmith::{Checks, Device, DeviceArray, Element, Error, bf16};

use crate::common::*;

fn assign<T: Clone, D: Dimension + ndarray::RemoveAxis>(
    x: &mut Array<T, D>,
    axis: Axis,
    indices: &[usize],
    values: &Array<T, D>,
) {
    for (j, &index) in indices.iter().enumerate() {
        x.index_axis_mut(axis, index).assign(&values.index_axis(axis, j));
    }
}

/// Elements of one type, of arrays and of views, by indices of all types.
fn assigned<T: Element + Debug + PartialEq>(shape: &[usize], axis: Axis, indices: &[usize], of: impl Fn(usize) -> T) {
    let x = numbered(shape, &of);
    let mut of_values = shape.to_vec();
    of_values[axis.index()] = indices.len();
    let values = numbered(&of_values, |i| of(i + 1000));
    let mut wanted = x.clone();
    assign(&mut wanted, axis, indices, &values);
    let on_device = upload(&values);
    let long = upload(&Array1::from_iter(indices.iter().map(|&i| i as u64)));
    let short = upload(&Array1::from_iter(indices.iter().map(|&i| i as u32)));
    let got = |assign: &dyn Fn(&mut DeviceArray<T, IxDyn>) -> warpsmith::Result<()>| {
        let mut x = upload(&x);
        assign(&mut x).unwrap();
        x.to_ndarray().unwrap()
    };
    assert_eq!(got(&|x| x.assign_at(axis, &long, &on_device)), wanted, "{shape:?}");
    assert_eq!(got(&|x| x.assign_at(axis, &short.view(), &on_device)), wanted);
    assert_eq!(got(&|x| x.assign_at(axis, indices, &on_device.view())), wanted);
    // Turned, both, where they are copied.
    let turned = Axis(shape.len() - 1 - axis.index());
    let mut there = upload(&x.t());
    let from = upload(&values.t());
    let mut view = there.view_mut().reversed_axes();
    view.assign_at(axis, indices, &from.t()).unwrap();
    assert_eq!(there.to_ndarray().unwrap(), wanted.t(), "{turned:?}");
    // A part of an array, which begins where it does; what is beside it stays.
    let mut larger = upload(&numbered(&[&[3], shape].concat(), |i| of(i * 7)));
    let beside = larger.to_ndarray().unwrap();
    larger.index_axis_mut(Axis(0), 1).unwrap().assign(&upload(&x)).unwrap();
    larger
        .index_axis_mut(Axis(0), 1)
        .unwrap()
        .assign_at(axis, indices, &on_device)
        .unwrap();
    let larger = larger.to_ndarray().unwrap();
    assert_eq!(larger.index_axis(Axis(0), 1), wanted);
    for i in [0, 2] {
        assert_eq!(larger.index_axis(Axis(0), i), beside.index_axis(Axis(0), i));
    }
}

#[test]
fn parts_are_replaced() {
    let axes = (
        prop::collection::vec(1..9usize, 1..4),
        any::<u32>(),
        prop::collection::vec(any::<u32>(), 0..20),
    );
    proptest!(cases(12), |((shape, axis, indices) in axes)| {
        let axis = Axis(axis as usize % shape.len());
        let indices: Vec<usize> = indices.iter().map(|&i| i as usize % shape[axis.index()]).collect();
        assigned(&shape, axis, &indices, |i| i as u8);
        assigned(&shape, axis, &indices, |i| i as u16);
        assigned(&shape, axis, &indices, |i| [i as u8, 255, 7]);
        assigned(&shape, axis, &indices, |i| -(i as f32));
        assigned(&shape, axis, &indices, |i| 1.0 / i as f64);
        assigned(&shape, axis, &indices, |i| (i as u128) << 64 | 3);
    });
    let many: Vec<usize> = (0..3000).map(|i| i * i % 1700).collect();
    assigned(&[1700, 2], Axis(0), &many, |i| bf16::from_bits(i as u16 & 0x7eff));
    assigned(&[2, 1700], Axis(1), &many, |i| i as i32);
    // Few of many parts, and so many indices on the host, distinct ones, that nobody looks whether they are.
    assigned(&[2, 900, 3], Axis(1), &[899, 5, 899, 0, 5], |i| i as u16);
    assigned(&[300, 5], Axis(0), &Vec::from_iter((0..300).rev()), |i| i as f64);
    assigned(&[0, 4], Axis(1), &[3, 3], |i| i as u16);
    assigned(&[4, 0], Axis(0), &[3, 3], |i| i as f32);
    assigned(&[0, 4], Axis(0), &[], |i| i as f32);
}

/// NaN, infinities and zeros with a sign, whose differences as numbers would be others.
#[test]
fn bits_are_replaced() {
    let odd = [
        f32::NAN,
        f32::INFINITY,
        -0.0,
        f32::MAX,
        1e-45,
        f32::NEG_INFINITY,
        0.0,
        f32::from_bits(0xffc0_1234),
    ];
    let x = Array1::from_iter((0..64).map(|i| odd[i % 8]));
    let values = Array1::from_iter((0..64).map(|i| odd[(i / 8 + i) % 8]));
    let indices: Vec<usize> = (0..64).map(|i| i * 37 % 64).collect();
    let mut wanted = x.clone();
    assign(&mut wanted, Axis(0), &indices, &values);
    let mut on_device = upload(&x);
    on_device.assign_at(Axis(0), &indices, &upload(&values)).unwrap();
    assert_eq!(
        on_device.to_ndarray().unwrap().mapv(f32::to_bits),
        wanted.mapv(f32::to_bits)
    );
}

#[test]
fn values_are_repeated() -> warpsmith::Result<()> {
    let mut x = upload(&Array2::<i32>::zeros((4, 3)));
    x.assign_at(Axis(0), &[1, 3], &upload(&array![1, 2, 3]))?;
    x.assign_at(Axis(1), &Array1::from(vec![0i64]), &upload(&arr0(7)))?;
    x.slice_mut(s![..;2, ..])?.fill_at(Axis(1), &vec![2u32, 2], -1)?;
    assert_eq!(x.to_ndarray()?, array![[7, 0, -1], [7, 2, 3], [7, 0, -1], [7, 2, 3]]);
    // Parts that lie otherwise, and one for all.
    let mut turned = upload(&Array2::<u8>::zeros((3, 40)));
    turned.assign_at(Axis(1), &[39, 1, 39], &upload(&array![[1u8, 2, 3]]).t())?;
    turned.assign_at(Axis(0), &[1], &upload(&arr0(9u8)))?;
    let wanted = Array2::from_shape_fn((3, 40), |(i, j)| match (i, j) {
        (1, _) => 9,
        (_, 1 | 39) => i as u8 + 1,
        _ => 0,
    });
    assert_eq!(turned.to_ndarray()?, wanted);
    x.fill_at(Axis(0), &[0usize; 0], 5)?;
    x.fill_at(Axis(0), &[2usize], 5)?;
    assert_eq!(x.to_ndarray()?, array![[7, 0, -1], [7, 2, 3], [5, 5, 5], [7, 2, 3]]);
    Ok(())
}

#[test]
fn indices_on_the_host() -> warpsmith::Result<()> {
    let x = upload(&array![[1, 2, 3], [4, 5, 6]]);
    let wanted = array![[3, 1, 3], [6, 4, 6]];
    assert_eq!(x.take(Axis(1), &[2, 0, 2])?.to_ndarray()?, wanted);
    assert_eq!(x.take(Axis(1), &[2u64, 0, 2][..])?.to_ndarray()?, wanted);
    assert_eq!(x.take(Axis(1), &[2i16, 0, 2])?.to_ndarray()?, wanted);
    assert_eq!(x.take(Axis(1), &[2i8, 0, 2])?.to_ndarray()?, wanted);
    assert_eq!(x.take(Axis(1), &vec![2usize, 0, 2])?.to_ndarray()?, wanted);
    assert_eq!(x.take(Axis(1), &array![2i64, 0, 2])?.to_ndarray()?, wanted);
    assert_eq!(
        x.take(Axis(1), &array![2u32, 9, 0, 9, 2].slice(s![..;2]))?
            .to_ndarray()?,
        wanted
    );
    assert_eq!(x.take(Axis(1), &[0usize; 0])?.shape(), [2, 0]);
    let mut sums = upload(&array![0.0f32, 0.0]);
    sums.scatter_add(Axis(0), &[1, 1], &upload(&array![1.0, 2.0]))?;
    sums.scatter_add_in_order(Axis(0), &[0], &upload(&array![5.0]))?;
    assert_eq!(sums.to_ndarray()?, array![5.0, 3.0]);
    Ok(())
}

#[test]
fn what_does_not_fit_is_an_error() {
    let mut x = upload(&Array2::<f32>::zeros((3, 4)));
    let values = upload(&Array2::<f32>::zeros((3, 3)));
    let message = |result: warpsmith::Result<()>| result.unwrap_err().to_string();
    assert_eq!(
        message(x.take(Axis(1), &[0, -1]).map(drop)),
        "take: indices: given -1, as number 1, wanted indices below 4, the length of the axis"
    );
    assert_eq!(
        message(x.assign_at(Axis(0), &[0u64, 1, 3], &values)),
        "assign_at: given values of shape [3, 3] for shape [3, 4], wanted a shape that broadcasts to [3, 4], for 3 indices"
    );
    assert_eq!(
        message(x.fill_at(Axis(0), &[3], 0.0)),
        "fill_at: indices: given 3, as number 0, wanted indices below 3, the length of the axis"
    );
    assert_eq!(
        message(x.scatter_add(
            Axis(0),
            &[u64::MAX],
            &values.slice(s![..1, ..]).unwrap().broadcast((1, 3)).unwrap()
        )),
        "scatter_add: given values of shape [1, 3] for shape [3, 4], wanted values of shape [1, 4], for 1 indices"
    );
    assert!(matches!(x.fill_at(Axis(2), &[0], 0.0), Err(Error::Axes { .. })));
    let mut none = upload(&Array2::<f32>::zeros((0, 4)));
    assert_eq!(
        message(none.fill_at(Axis(0), &[0], 0.0)),
        "fill_at: given 1 indices along axis 0 of shape [0, 4], wanted none, for an axis of length 0"
    );
    let mask = upload(&array![[1u8, 0, 1]]);
    assert_eq!(
        message(x.fill_where(&mask, 0.0)),
        "fill_where: given a mask of shape [1, 3] for shape [3, 4], wanted a shape that broadcasts to that of the array"
    );
    assert_eq!(
        message(x.assign_where(&upload(&array![1u8, 0, 1, 1]), &values)),
        "assign_where: given values of shape [3, 3] for shape [3, 4], wanted a shape that broadcasts to that of the array"
    );
}

#[test]
fn indices_on_the_device_out_of_bounds_fail() {
    let device = Device::simulator();
    let stream = device.default_stream();
    for (index, given) in [(3i64, "3"), (-1, "-1 (or 18446744073709551615 of u64)")] {
        let mut x = DeviceArray::from_ndarray(stream, &array![1, 2, 3]).unwrap();
        let indices = DeviceArray::from_ndarray(stream, &array![0, index]).unwrap();
        let error = x.fill_at(Axis(0), &indices, 5).unwrap_err();
        assert!(
            error.to_string().contains(&format!(
                "an index is out of bounds of its axis: given {given}, as number 1, wanted indices below 3"
            )),
            "{error}"
        );
    }
}

#[test]
fn masks_replace() -> warpsmith::Result<()> {
    for shape in [(1, 1), (40, 33), (3, 700), (0, 3)] {
        let x = Array2::from_shape_fn(shape, |(i, j)| (i * 37 + j * 101) as i32 % 1000);
        let is_large = x.mapv(|x| u8::from(x > 500) * 9);
        let values = x.mapv(|x| -x);
        let row = Array2::from_shape_fn((1, shape.1), |(_, j)| -(j as i32));
        let where_large = |y: &Array2<i32>| {
            let y = y.broadcast(shape).unwrap();
            Array2::from_shape_fn(shape, |at| if is_large[at] != 0 { y[at] } else { x[at] })
        };
        let mask = upload(&is_large);
        let mut got = upload(&x);
        got.assign_where(&mask, &upload(&values))?;
        assert_eq!(got.to_ndarray()?, where_large(&values));
        let mut got = upload(&x);
        got.assign_where(&mask, &upload(&row))?;
        assert_eq!(got.to_ndarray()?, where_large(&row));
        let mut got = upload(&x.t());
        got.view_mut().reversed_axes().fill_where(&mask, 3)?;
        assert_eq!(got.t().to_ndarray()?, where_large(&Array2::from_elem((1, 1), 3)));
    }
    // Values that are as many as there are elements to replace.
    let mut x = upload(&array![5, -1, 6, -2]);
    let places = x.less_scalar(0)?.flatnonzero()?;
    x.assign_at(Axis(0), &places, &upload(&array![10, 20]))?;
    assert_eq!(x.to_ndarray()?, array![5, 10, 6, 20]);
    Ok(())
}

/// A graph's launches replace what they are given then, by the values that there are then.
#[test]
fn graphs_replace() -> warpsmith::Result<()> {
    let stream = device().create_stream()?;
    let x = DeviceArray::<f64, _>::zeros(&stream, 5)?;
    let values = DeviceArray::from_ndarray(&stream, &array![1.0, 2.0, 3.0])?;
    let mut graph = stream.capture((x, values), |_, (x, values)| {
        x.assign_at(Axis(0), &[4, 0, 4], values)?;
        values.fill_at(Axis(0), &[1], 7.0)
    })?;
    graph.launch()?;
    assert_eq!(graph.args().0.to_ndarray()?, array![2.0, 0.0, 0.0, 0.0, 3.0]);
    graph.launch()?;
    assert_eq!(graph.args().0.to_ndarray()?, array![7.0, 0.0, 0.0, 0.0, 3.0]);
    Ok(())
}

#[test]
fn no_race_and_nothing_uninitialised() -> warpsmith::Result<()> {
    let device = Device::checked_simulator(Checks::ALL);
    let stream = device.default_stream();
    let mut x = DeviceArray::<u8, _>::zeros(stream, (40, 3))?;
    let indices: Vec<usize> = (0..90).map(|i| i * i % 40).collect();
    let values = Array2::from_shape_fn((90, 3), |(i, j)| (i * 3 + j) as u8);
    x.assign_at(Axis(0), &indices, &DeviceArray::from_ndarray(stream, &values)?)?;
    let mut wanted = Array2::zeros((40, 3));
    assign(&mut wanted, Axis(0), &indices, &values);
    assert_eq!(x.to_ndarray()?, wanted);
    Ok(())
}
