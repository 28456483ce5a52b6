// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays made of others: joined, rolled, padded, repeated; against ndarray.

use std::fmt::Debug;

use crate::common::*;
use ndarray::{Array, Array2, Array3, Axis, IxDyn, s};
use warpsmith::ops::{Border, concatenate, stack};
use warpsmith::{Element, Error};

/// Long lines of any length, side by side: two by two, the last one alone, and with short, empty and repeated ones between
/// them.
#[test]
fn lines_are_joined() {
    fn check<T: Element + Debug + PartialEq>(of: impl Fn(usize) -> T + Copy) {
        for widths in [
            &[65, 70][..],
            &[64, 127, 99],
            &[71, 3, 80, 81],
            &[300, 0, 67],
            &[128, 64],
        ] {
            let arrays: Vec<_> = widths
                .iter()
                .enumerate()
                .map(|(i, &width)| numbered(&[5, width], |index| of(index + 1000 * i)))
                .collect();
            let on_device: Vec<_> = arrays.iter().map(upload).collect();
            let views: Vec<_> = on_device.iter().map(|array| array.view()).collect();
            let wanted: Vec<_> = arrays.iter().map(|array| array.view()).collect();
            let joined = concatenate(Axis(1), &views).unwrap();
            let wanted = ndarray::concatenate(Axis(1), &wanted).unwrap();
            assert_eq!(joined.to_ndarray().unwrap(), wanted, "{widths:?}");
        }
    }
    check(|index| index as u8);
    check(|index| index as u16);
    check(|index| index as f32);
    check(|index| [index as u8; 3]);
    // Parts with gaps behind their lines, and one line over and over.
    let x = Array2::from_shape_fn((6, 200), |(i, j)| (200 * i + j) as f32);
    let on_x = upload(&x);
    let row = on_x.slice(s![2, 3..90]).unwrap();
    let parts = [
        on_x.slice(s![.., 1..100]).unwrap(),
        row.broadcast((6, 87)).unwrap(),
        on_x.slice(s![..;-1, 5..]).unwrap(),
        on_x.slice(s![.., ..70]).unwrap(),
    ];
    let wanted = [
        x.slice(s![.., 1..100]),
        x.slice(s![2, 3..90]).insert_axis(Axis(0)),
        x.slice(s![..;-1, 5..]),
        x.slice(s![.., ..70]),
    ];
    let wanted = wanted
        .each_ref()
        .map(|part| part.broadcast((6, part.ncols())).expect("rows"));
    assert_eq!(
        concatenate(Axis(1), &parts).unwrap().to_ndarray().unwrap(),
        ndarray::concatenate(Axis(1), &wanted).unwrap()
    );
}

/// Short lines of any length, of elements of any size: of two arrays, of more, and with empty ones between them.
#[test]
fn short_lines_are_joined() {
    fn check<T: Element + Debug + PartialEq>(of: impl Fn(usize) -> T + Copy) {
        for widths in [
            &[1, 1][..],
            &[1, 2],
            &[5, 3],
            &[8, 8],
            &[4, 12],
            &[33, 33],
            &[1, 0],
            &[0, 2, 0],
            &[1, 1, 1],
            &[2, 0, 3, 1],
            &[1, 2, 1, 1, 3, 1, 2, 0, 1],
        ] {
            for rows in [0, 1, 2, 67, 300] {
                let arrays: Vec<_> = widths
                    .iter()
                    .enumerate()
                    .map(|(i, &width)| numbered(&[rows, width], |index| of(index + 1000 * i + 1)))
                    .collect();
                let on_device: Vec<_> = arrays.iter().map(upload).collect();
                let views: Vec<_> = on_device.iter().map(|array| array.view()).collect();
                let wanted: Vec<_> = arrays.iter().map(|array| array.view()).collect();
                let joined = concatenate(Axis(1), &views).unwrap();
                let wanted = ndarray::concatenate(Axis(1), &wanted).unwrap();
                assert_eq!(joined.to_ndarray().unwrap(), wanted, "{rows} rows of {widths:?}");
            }
        }
    }
    check(|index| index as u8);
    check(|index| index as u16);
    check(|index| index as f32);
    check(|index| index as f64);
    check(|index| [index as f64; 2]);
    check(|index| [index as u8; 3]);
    check(|index| [index as u32; 3]);
}

/// Three arrays and more whose rows do not lie equally far apart, or run backwards, with others and empty ones among them.
#[test]
fn short_rows_of_many_crops_are_joined() {
    fn check<T: Element + Debug + PartialEq>(of: impl Fn(usize) -> T + Copy) {
        let x = Array3::from_shape_fn((6, 9, 4), |(i, j, k)| of(36 * i + 4 * j + k));
        let on_x = upload(&x);
        let crops = [
            s![.., 1..6, 1..3],
            s![.., 3..8, ..1],
            s![..;-1, 4.., 2..],
            s![.., ..5, 1..1],
        ];
        for crops in [&crops[..3], &crops[..2], &crops[..4], &[crops[0]; 9]] {
            let parts: Vec<_> = crops.iter().map(|&crop| on_x.slice(crop).unwrap()).collect();
            let wanted: Vec<_> = crops.iter().map(|&crop| x.slice(crop)).collect();
            assert_eq!(
                concatenate(Axis(2), &parts).unwrap().to_ndarray().unwrap(),
                ndarray::concatenate(Axis(2), &wanted).unwrap()
            );
        }
        // All of them empty.
        let empty = [s![.., ..5, 1..1]; 3];
        let parts = empty.map(|crop| on_x.slice(crop).unwrap());
        assert_eq!(concatenate(Axis(2), &parts).unwrap().shape(), [6, 5, 0]);
    }
    check(|index| index as u8);
    check(|index| index as f32);
    check(|index| [index as u8; 3]);
}

/// Parts that begin anywhere and have gaps behind their lines, one line over and over, columns, and lines backwards.
#[test]
fn short_lines_of_views_are_joined() {
    fn check<T: Element + Debug + PartialEq>(of: impl Fn(usize) -> T + Copy) {
        let x: Array2<T> = Array2::from_shape_fn((70, 9), |(i, j)| of(9 * i + j));
        let on_x = upload(&x);
        let all = [
            s![.., 1..4],
            s![.., 3..4],
            s![..;-1, 2..5],
            s![.., 2..6;2],
            s![.., ..8],
            s![.., 5..],
        ];
        for (i, &one) in all.iter().enumerate() {
            for (j, &other) in all.iter().enumerate().skip(i) {
                let parts = [one, other].map(|part| on_x.slice(part).unwrap());
                let wanted = [x.slice(one), x.slice(other)];
                assert_eq!(
                    concatenate(Axis(1), &parts).unwrap().to_ndarray().unwrap(),
                    ndarray::concatenate(Axis(1), &wanted).unwrap(),
                    "{one:?} and {other:?}"
                );
                if i == j {
                    assert_eq!(
                        concatenate(Axis(0), &parts).unwrap().to_ndarray().unwrap(),
                        ndarray::concatenate(Axis(0), &wanted).unwrap()
                    );
                }
            }
            let row = on_x.slice(s![5..6, 2..4]).unwrap();
            let parts = [row.broadcast((70, 2)).unwrap(), on_x.slice(one).unwrap()];
            let row = x.slice(s![5..6, 2..4]);
            let wanted = [row.broadcast((70, 2)).unwrap(), x.slice(one)];
            assert_eq!(
                concatenate(Axis(1), &parts).unwrap().to_ndarray().unwrap(),
                ndarray::concatenate(Axis(1), &wanted).unwrap()
            );
        }
        // In the other order of memory.
        let columns = upload(&x.t().to_owned());
        assert_eq!(
            concatenate(Axis(1), &[columns.t(), on_x.view()])
                .unwrap()
                .to_ndarray()
                .unwrap(),
            ndarray::concatenate(Axis(1), &[x.view(), x.view()]).unwrap()
        );
        // Along the middle of three axes, so that a line has all of what is behind it.
        let (y, on_y) = (
            x.view().into_shape_with_order((7, 10, 9)).unwrap(),
            on_x.reshape((7, 10, 9)).unwrap(),
        );
        for axis in [0, 1, 2].map(Axis) {
            let (part, on_part) = (
                y.slice_axis(axis, (1..3).into()),
                on_y.slice_axis(axis, (1..3).into()).unwrap(),
            );
            assert_eq!(
                concatenate(axis, &[on_part, on_y.view()])
                    .unwrap()
                    .to_ndarray()
                    .unwrap(),
                ndarray::concatenate(axis, &[part, y.view()]).unwrap()
            );
        }
        // Side by side as new columns.
        for count in [1, 2, 3, 5, 9] {
            let parts: Vec<_> = (0..count).map(|j| on_x.slice(s![.., j]).unwrap()).collect();
            let wanted: Vec<_> = (0..count).map(|j| x.slice(s![.., j])).collect();
            assert_eq!(
                stack(Axis(1), &parts).unwrap().to_ndarray().unwrap(),
                ndarray::stack(Axis(1), &wanted).unwrap()
            );
        }
    }
    check(|index| index as u8);
    check(|index| index as u16);
    check(|index| index as f32);
    check(|index| index as f64);
}

#[test]
fn arrays_are_joined() {
    let x = Array3::from_shape_fn((3, 4, 5), |(i, j, k)| (i * 100 + j * 10 + k) as u16);
    let y = x.mapv(|x| x + 1000);
    let (on_x, on_y) = (upload(&x), upload(&y));
    for axis in (0..3).map(Axis) {
        let joined = concatenate(axis, &[on_x.view(), on_y.view(), on_x.flip(axis).unwrap()]).unwrap();
        let mut flipped = x.view();
        flipped.invert_axis(axis);
        let wanted = ndarray::concatenate(axis, &[x.view(), y.view(), flipped]).unwrap();
        assert_eq!(joined.to_ndarray().unwrap(), wanted);
        let part = on_y.slice_axis(axis, (1..2).into()).unwrap();
        let joined = concatenate(axis, &[part, on_x.view()]).unwrap();
        let wanted = ndarray::concatenate(axis, &[y.slice_axis(axis, (1..2).into()), x.view()]).unwrap();
        assert_eq!(joined.to_ndarray().unwrap(), wanted);
    }
    for axis in (0..4).map(Axis) {
        let stacked = stack(axis, &[on_x.view(), on_y.view()]).unwrap();
        assert_eq!(
            stacked.to_ndarray().unwrap(),
            ndarray::stack(axis, &[x.view(), y.view()]).unwrap()
        );
    }
    let (a, b) = (
        upload(&Array2::<u8>::zeros((2, 3))),
        upload(&Array2::<u8>::zeros((2, 4))),
    );
    assert_eq!(
        concatenate(Axis(0), &[a.view(), b.view()]).unwrap_err().to_string(),
        "concatenate: given shapes [[2, 3], [2, 4]], wanted shapes that differ along the axis alone"
    );
    assert_eq!(
        stack(Axis(0), &[a.view(), b.view()]).unwrap_err().to_string(),
        "stack: given shapes [[2, 3], [2, 4]], wanted equal shapes"
    );
    assert_eq!(
        concatenate::<u8, IxDyn>(Axis(0), &[]).unwrap_err().to_string(),
        "concatenate: arrays: given none, wanted at least one"
    );
    assert!(matches!(concatenate(Axis(2), &[a.view()]), Err(Error::Axes { .. })));
    assert!(matches!(stack(Axis(3), &[a.view()]), Err(Error::Axes { .. })));
}

#[test]
fn elements_are_rolled() {
    let x = Array2::from_shape_fn((5, 7), |(i, j)| (i * 10 + j) as f32);
    let on_device = upload(&x);
    for shift in [0, 1, -1, 3, 7, -12, isize::MAX, isize::MIN] {
        for axis in 0..2 {
            let length = x.shape()[axis];
            let wanted = Array::from_shape_fn((5, 7), |place| {
                let mut from = [place.0, place.1];
                from[axis] = (from[axis] as i128 - shift as i128).rem_euclid(length as i128) as usize;
                x[from]
            });
            assert_eq!(on_device.roll(Axis(axis), shift).unwrap().to_ndarray().unwrap(), wanted);
        }
    }
    let none = upload(&Array2::<u8>::zeros((0, 3)));
    assert_eq!(none.roll(Axis(0), 2).unwrap().shape(), [0, 3]);
}

#[test]
fn arrays_are_padded() {
    let x = Array2::from_shape_fn((3, 4), |(i, j)| (i * 10 + j + 1) as i32);
    let on_device = upload(&x);
    let widths = [[2, 5], [7, 0]];
    let padded = |source: &dyn Fn(isize, isize) -> isize| {
        Array2::from_shape_fn((10, 11), |(i, j)| {
            let (i, j) = (source(i as isize - 2, 3), source(j as isize - 7, 4));
            if i < 0 || j < 0 {
                -1
            } else {
                x[[i as usize, j as usize]]
            }
        })
    };
    let constant = padded(&|place, length| if (0..length).contains(&place) { place } else { -1 });
    assert_eq!(
        on_device
            .pad(&widths, Border::Constant(-1))
            .unwrap()
            .to_ndarray()
            .unwrap(),
        constant
    );
    let clamped = padded(&|place, length| place.clamp(0, length - 1));
    assert_eq!(
        on_device.pad(&widths, Border::Clamp).unwrap().to_ndarray().unwrap(),
        clamped
    );
    let wrapped = padded(&|place, length| place.rem_euclid(length));
    assert_eq!(
        on_device.pad(&widths, Border::Wrap).unwrap().to_ndarray().unwrap(),
        wrapped
    );
    let reflected = padded(&|mut place, length| {
        while !(0..length).contains(&place) {
            place = if place < 0 { -1 - place } else { 2 * length - 1 - place };
        }
        place
    });
    assert_eq!(
        on_device.pad(&widths, Border::Reflect).unwrap().to_ndarray().unwrap(),
        reflected
    );
    assert_eq!(
        on_device
            .t()
            .pad(&[[0, 0]; 2], Border::Wrap)
            .unwrap()
            .to_ndarray()
            .unwrap(),
        x.t()
    );
    let none = upload(&Array2::<u8>::zeros((0, 2)));
    let padded = none.pad(&[[1, 1], [0, 1]], Border::Constant(3)).unwrap();
    assert_eq!(padded.to_ndarray().unwrap(), Array2::from_elem((2, 3), 3));
    assert!(matches!(
        none.pad(&[[1, 1], [0, 1]], Border::Clamp),
        Err(Error::Shape { .. })
    ));
    assert!(matches!(
        none.pad(&[[1, 1], [0, 1]], Border::Mean),
        Err(Error::Parameter { .. })
    ));
    assert!(matches!(none.pad(&[[1, 1]], Border::Clamp), Err(Error::Axes { .. })));
    assert!(matches!(
        none.pad(&[[usize::MAX, 1], [0, 1]], Border::Clamp),
        Err(Error::Shape { .. })
    ));
    // More places than the host has room for.
    let one = upload(&Array::from_elem(1, 1u8));
    assert!(matches!(
        one.pad(&[[1 << 58, 0]], Border::Clamp),
        Err(Error::HostMemory { wanted }) if wanted == ((1 << 58) + 1) * 8
    ));
}

#[test]
fn arrays_are_repeated() {
    let x = Array2::from_shape_fn((3, 4), |(i, j)| (i * 10 + j) as u8);
    let on_device = upload(&x);
    for times in [(1, 1), (2, 3), (0, 2), (5, 1)] {
        let wanted = Array2::from_shape_fn((3 * times.0, 4 * times.1), |(i, j)| x[[i % 3, j % 4]]);
        assert_eq!(on_device.tile(times).unwrap().to_ndarray().unwrap(), wanted);
        let wanted = Array2::from_shape_fn((3 * times.0, 4), |(i, j)| x[[i / times.0, j]]);
        assert_eq!(
            on_device.repeat(Axis(0), times.0).unwrap().to_ndarray().unwrap(),
            wanted
        );
        let wanted = Array2::from_shape_fn((4, 3 * times.1), |(i, j)| x[[j / times.1, i]]);
        assert_eq!(
            on_device.t().repeat(Axis(1), times.1).unwrap().to_ndarray().unwrap(),
            wanted
        );
    }
    let message = on_device.tile((usize::MAX, 2)).unwrap_err().to_string();
    assert!(message.starts_with("tile: given shape [3, 4]"), "{message}");
    assert!(on_device.repeat(Axis(0), usize::MAX).is_err());
    let dynamic = on_device.view().into_dyn();
    assert!(matches!(dynamic.tile(IxDyn(&[2])), Err(Error::Axes { .. })));
    assert_eq!(
        on_device
            .slice(s![1, 2])
            .unwrap()
            .tile(())
            .unwrap()
            .to_ndarray()
            .unwrap(),
        ndarray::arr0(12)
    );
}
