// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements with an index of their own along an axis, and the places of what a mask has, against loops.

use std::fmt::Debug;

use crate::common::*;
use ndarray::{Array, Array2, ArrayD, Axis, Dimension, Ix0, IxDyn, array};
use warpsmith::ops::Index;
use warpsmith::{Device, DeviceArray, Element, Error};

/// Takes `count` elements of each line along an axis, by indices of type `I`.
fn taken<T: Element + Debug + PartialEq, I: Index + Element + TryFrom<usize, Error: Debug>>(
    shape: &[usize],
    axis: usize,
    count: usize,
    of: impl Fn(usize) -> T,
) {
    let x = numbered(shape, &of);
    let mut of_indices = shape.to_vec();
    of_indices[axis] = count;
    let mut next = 1;
    let indices = ArrayD::from_shape_simple_fn(IxDyn(&of_indices), || {
        next = next * 31 % 1009;
        next % shape[axis].max(1)
    });
    let wanted = ArrayD::from_shape_fn(IxDyn(&of_indices), |at| {
        let mut from = at.clone();
        from[axis] = indices[at];
        x[from]
    });
    let (on_device, on_indices) = (upload(&x), upload(&indices.mapv(|i| I::try_from(i).unwrap())));
    let result = on_device.take_along_axis(Axis(axis), &on_indices).unwrap();
    assert_eq!(result.to_ndarray().unwrap(), wanted, "{shape:?} along {axis}");
    let turned = Axis(shape.len() - 1 - axis);
    let result = on_device.t().take_along_axis(turned, &on_indices.t()).unwrap();
    assert_eq!(
        result.to_ndarray().unwrap(),
        wanted.t(),
        "{shape:?} along {axis}, turned"
    );
    let mut out = upload(&numbered(wanted.t().shape(), &of));
    on_device
        .take_along_axis_into(Axis(axis), &on_indices, &mut out.view_mut().reversed_axes())
        .unwrap();
    assert_eq!(out.t().to_ndarray().unwrap(), wanted, "{shape:?} along {axis}, into");
}

#[test]
fn elements_are_taken_along_an_axis() {
    for (shape, axis, count) in [
        (vec![7], 0, 20),
        (vec![4, 6], 0, 3),
        (vec![4, 6], 1, 6),
        (vec![3, 5, 4], 1, 2),
        (vec![3, 5, 4], 2, 9),
        (vec![3, 0, 4], 2, 2),
        (vec![3, 5], 1, 0),
        (vec![3, 0], 1, 0),
    ] {
        taken::<_, u64>(&shape, axis, count, |i| i as f32);
        taken::<_, i64>(&shape, axis, count, |i| [i as u8; 3]);
        taken::<_, u32>(&shape, axis, count, |i| i as u128);
    }
}

#[test]
fn argsort_sorts_along_each_axis() {
    let x = upload(&Array::from_shape_fn((5, 7, 3), |(i, j, k)| {
        ((i * 37 + j * 11 + k * 53) % 29) as i32
    }));
    for axis in [Axis(0), Axis(1), Axis(2)] {
        let sorted = x.take_along_axis(axis, &x.argsort(axis).unwrap()).unwrap();
        assert_eq!(
            sorted.to_ndarray().unwrap(),
            x.sort(axis).unwrap().to_ndarray().unwrap()
        );
    }
}

#[test]
fn indices_along_an_axis_that_do_not_fit() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![[1, 2, 3], [4, 5, 6]]).unwrap();
    // Each would be an element of the other row.
    for index in [3i64, -1, i64::MIN, i64::MAX] {
        let indices = DeviceArray::from_ndarray(stream, &array![[index], [0]]).unwrap();
        let error = x.take_along_axis(Axis(1), &indices).unwrap_err();
        assert!(matches!(error, Error::Fault(_)), "{error}");
        let error = error.to_string();
        assert!(error.contains(&format!("given {index}")), "{error}");
        assert!(error.contains(", as number 0, wanted indices below 3"), "{error}");
    }
    let indices = DeviceArray::from_ndarray(stream, &array![[0u32, 2], [1, 7]]).unwrap();
    let error = x.take_along_axis(Axis(1), &indices).unwrap_err().to_string();
    assert!(
        error.contains("given 7, as number 3, wanted indices below 3"),
        "{error}"
    );
    let indices = DeviceArray::from_ndarray(stream, &array![[0u32, 1]]).unwrap();
    assert_eq!(
        x.take_along_axis(Axis(1), &indices).unwrap_err().to_string(),
        "take_along_axis: given indices of shape [1, 2] along axis 1 of shape [2, 3], wanted equal shapes but for that \
         axis, and indices only where it has elements"
    );
    assert!(matches!(x.take_along_axis(Axis(2), &indices), Err(Error::Axes { .. })));
    let none = DeviceArray::<i32, _>::zeros(stream, (1, 0)).unwrap();
    assert!(matches!(
        none.take_along_axis(Axis(1), &indices),
        Err(Error::Shape { .. })
    ));
}

#[test]
fn places_of_a_mask() {
    for shape in [vec![], vec![0], vec![2000], vec![3, 0], vec![40, 50], vec![5, 1, 7, 4]] {
        let len = shape.iter().product::<usize>();
        let mask = (0..len).map(|i| (i * 7 % 5 < 2) as u8 * 3).collect();
        let mask = ArrayD::from_shape_vec(IxDyn(&shape), mask).unwrap();
        let places: Vec<u64> = (mask.indexed_iter().filter(|(_, is)| **is != 0))
            .flat_map(|(at, _)| at.slice().iter().map(|&i| i as u64).collect::<Vec<_>>())
            .collect();
        let count = mask.iter().filter(|is| **is != 0).count();
        let wanted = Array2::from_shape_vec((count, shape.len()), places).unwrap();
        assert_eq!(
            upload(&mask).argwhere().unwrap().to_ndarray().unwrap(),
            wanted,
            "{shape:?}"
        );
    }
    let one = upload(&Array::<u8, Ix0>::ones(()));
    assert_eq!(one.argwhere().unwrap().shape(), [1, 0]);
    let turned = upload(&array![[1u8, 0, 1], [0, 0, 1]]);
    let places = turned.t().argwhere().unwrap().to_ndarray().unwrap();
    assert_eq!(places, array![[0, 0], [2, 0], [2, 1]]);
}
