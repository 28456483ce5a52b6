// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that indices or masks name, and arrays made of others, against ndarray.

use std::fmt::Debug;

use crate::common::*;
use ndarray::{Array, Array1, Array2, Array3, ArrayD, Axis, IxDyn, array, s};
use proptest::prelude::*;
use warpsmith::ops::{Border, concatenate, stack};
use warpsmith::{Device, DeviceArray, Element, Error};

fn numbered<T>(shape: &[usize], of: impl Fn(usize) -> T) -> ArrayD<T> {
    let len = shape.iter().product::<usize>();
    ArrayD::from_shape_vec(IxDyn(shape), (0..len).map(of).collect()).expect("as many elements")
}

fn taken<T: Element + Debug + PartialEq>(shape: &[usize], axis: Axis, indices: &[usize], of: impl Fn(usize) -> T) {
    let x = numbered(shape, of);
    let wanted = x.select(axis, indices);
    let on_device = upload(&x);
    let long = upload(&Array1::from_iter(indices.iter().map(|&i| i as u64)));
    assert_eq!(on_device.take(axis, &long).unwrap().to_ndarray().unwrap(), wanted);
    let signed = upload(&Array1::from_iter(indices.iter().map(|&i| i as i64)));
    assert_eq!(on_device.take(axis, &signed).unwrap().to_ndarray().unwrap(), wanted);
    if shape[axis.index()] <= 256 {
        let narrow = Array1::from_iter(indices.iter().map(|&i| i as u8));
        let same =
            |got: warpsmith::Result<DeviceArray<T, IxDyn>>| assert_eq!(got.unwrap().to_ndarray().unwrap(), wanted);
        same(on_device.take(axis, &narrow));
        same(on_device.take(axis, &upload(&narrow)));
        same(on_device.take(axis, &upload(&narrow.mapv(u16::from))));
        same(on_device.take(axis, &upload(&narrow.mapv(i32::from))));
    }
    let short = upload(&Array1::from_iter(indices.iter().rev().map(|&i| i as u32)));
    let short = short.flip(Axis(0)).unwrap();
    assert_eq!(on_device.take(axis, &short).unwrap().to_ndarray().unwrap(), wanted);
    // A part that begins between words, and one that is turned.
    let fits = axis.index() > 0 || indices.iter().all(|&i| i + 1 < shape[0]);
    if shape[0] > 0 && fits {
        let part = on_device.slice_axis(Axis(0), (1..).into()).unwrap();
        let wanted = x.slice_axis(Axis(0), (1..).into()).select(axis, indices);
        assert_eq!(part.take(axis, &long).unwrap().to_ndarray().unwrap(), wanted);
    }
    let turned = Axis(shape.len() - 1 - axis.index());
    let wanted = x.t().select(turned, indices);
    assert_eq!(on_device.t().take(turned, &long).unwrap().to_ndarray().unwrap(), wanted);
}

#[test]
fn parts_are_taken() {
    let axes = (
        prop::collection::vec(1..12usize, 1..4),
        any::<u32>(),
        prop::collection::vec(any::<u32>(), 0..20),
    );
    proptest!(cases(32), |((shape, axis, indices) in axes)| {
        let axis = Axis(axis as usize % shape.len());
        let indices: Vec<usize> = indices.iter().map(|&i| i as usize % shape[axis.index()]).collect();
        taken(&shape, axis, &indices, |i| i as u8);
        taken(&shape, axis, &indices, |i| i as u16);
        taken(&shape, axis, &indices, |i| [i as u8; 3]);
        taken(&shape, axis, &indices, |i| i as f32);
        taken(&shape, axis, &indices, |i| i as f64);
        taken(&shape, axis, &indices, |i| i as u128);
    });
    taken(
        &[3000, 2],
        Axis(0),
        &(0..3000).map(|i| i * 7 % 3000).collect::<Vec<_>>(),
        |i| i as u16,
    );
    taken(&[0, 4], Axis(1), &[3, 3], |i| i as u16);
    taken(&[4, 0], Axis(0), &[3, 3], |i| i as u16);
}

#[test]
fn indices_out_of_bounds_fail() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![1, 2, 3]).unwrap();
    let negative = DeviceArray::from_ndarray(stream, &array![0i32, -1]).unwrap();
    let error = x.take(Axis(0), &negative).unwrap_err().to_string();
    assert!(error.contains("given -1, as number 1"), "{error}");
    let beyond = DeviceArray::from_ndarray(stream, &array![0u8, 255]).unwrap();
    let error = x.take(Axis(0), &beyond).unwrap_err().to_string();
    assert!(error.contains("given 255, as number 1"), "{error}");
    for index in [3i64, -1, i64::MIN] {
        let indices = DeviceArray::from_ndarray(stream, &array![0, index]).unwrap();
        let error = x.take(Axis(0), &indices).unwrap_err();
        assert!(matches!(error, Error::Fault(_)), "{error}");
        assert!(
            error.to_string().contains(&format!(
                "an index is out of bounds of its axis: given {index}, as number 1, wanted indices below 3"
            )),
            "{error}"
        );
        let mut sums = DeviceArray::from_ndarray(stream, &array![1.0f32, 2.0, 3.0]).unwrap();
        let values = DeviceArray::from_ndarray(stream, &array![1.0f32, 2.0]).unwrap();
        for result in [
            sums.scatter_add(Axis(0), &indices, &values),
            sums.scatter_add_in_order(Axis(0), &indices, &values),
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Fault(_)), "{error}");
        }
    }
    let none = DeviceArray::<i32, _>::zeros(stream, (0, 3)).unwrap();
    let indices = DeviceArray::from_ndarray(stream, &array![0u32]).unwrap();
    assert_eq!(
        none.take(Axis(0), &indices).unwrap_err().to_string(),
        "take: given 1 indices along axis 0 of shape [0, 3], wanted none, for an axis of length 0"
    );
    assert_eq!(none.take(Axis(1), &indices).unwrap().shape(), [0, 1]);
    assert!(matches!(none.take(Axis(2), &indices), Err(Error::Axes { .. })));
}

macro_rules! scatters {
    ($($type:ident)*) => {$(
        #[test]
        fn $type() {
            for (shape, axis, count) in [(vec![5], 0, 1000), (vec![3, 7, 2], 1, 40), (vec![4, 3], 0, 9), (vec![2, 0], 0, 3)] {
                let mut x = super::numbered(&shape, |i| i as $type);
                let indices: Vec<u32> = (0..count).map(|i| (i * i % shape[axis]) as u32).collect();
                let mut of_values = shape.clone();
                of_values[axis] = count;
                let values = super::numbered(&of_values, |i| (i % 10) as $type);
                let mut on_device = upload(&x);
                let (on_indices, on_values) = (upload(&Array1::from(indices.clone())), upload(&values));
                on_device.scatter_add(Axis(axis), &on_indices, &on_values).unwrap();
                for (j, &index) in indices.iter().enumerate() {
                    let mut part = x.index_axis_mut(Axis(axis), index as usize);
                    part += &values.index_axis(Axis(axis), j);
                }
                assert_eq!(on_device.to_ndarray().unwrap(), x, "{shape:?}");
            }
        }
    )*};
}

mod scatter_add {
    use crate::common::*;
    use ndarray::{Array1, Axis};

    scatters!(f32 f64 i32 i64 u32 u64);

    /// Values that are lost one by one beside the sum of 16 bits, but not all together.
    fn of_16_bits<T: FloatNumber + warpsmith::ops::ScatterAdd>() {
        for axis in [0, 1] {
            let large = T::UNIT_ROUNDOFF.recip() * 2.0;
            let mut sums = upload(&super::numbered(&[3, 3], |i| {
                T::of(if i == 4 { large } else { i as f64 })
            }));
            let indices = upload(&Array1::from(vec![1i64; 65]));
            let of_values = if axis == 0 { [65, 3] } else { [3, 65] };
            let values = upload(&super::numbered(&of_values, |_| T::of(1.0)));
            sums.scatter_add(Axis(axis), &indices, &values).unwrap();
            let is_added = |i: usize| if axis == 0 { i / 3 == 1 } else { i % 3 == 1 };
            let wanted = super::numbered(&[3, 3], |i| {
                let was = if i == 4 { large } else { i as f64 };
                T::of(if is_added(i) { was + 65.0 } else { was })
            });
            assert_eq!(sums.to_ndarray().unwrap(), wanted, "{axis}");
        }
    }

    #[test]
    fn f16() {
        of_16_bits::<warpsmith::f16>();
    }

    #[test]
    fn bf16() {
        of_16_bits::<warpsmith::bf16>();
    }
}

mod scatter_add_in_order {
    use crate::common::*;
    use ndarray::{Array1, ArrayD, Axis, IxDyn};
    use proptest::prelude::RngExt;
    use warpsmith::ops::{CastTo, ScatterAdd};
    use warpsmith::{Device, DeviceArray, Schedule, bf16, f16};

    /// An array, indices along an axis, and values, so that sums hang on the order.
    struct Case<T> {
        sums: ArrayD<T>,
        axis: Axis,
        indices: Array1<u32>,
        values: ArrayD<T>,
    }

    impl<T: FloatNumber + ScatterAdd> Case<T> {
        /// With so many indices, each of which `of` makes of its number and the length of the axis.
        fn new(shape: &[usize], axis: usize, count: usize, of: impl Fn(usize, usize) -> usize) -> Self {
            let mut rng = rng(count as u64);
            let mut random = |shape: &[usize]| {
                ArrayD::from_shape_simple_fn(IxDyn(shape), || {
                    let magnitude = 2f64.powi(rng.random_range(0..12));
                    T::of((rng.random::<f64>() - 0.5) * magnitude)
                })
            };
            let sums = random(shape);
            let mut of_values = shape.to_vec();
            of_values[axis] = count;
            Self {
                values: random(&of_values),
                indices: (0..count).map(|i| of(i, shape[axis]) as u32).collect(),
                axis: Axis(axis),
                sums,
            }
        }

        /// By a loop on the host.
        fn wanted(&self) -> ArrayD<T>
        where
            T: std::ops::Add<Output = T>,
        {
            let mut sums = self.sums.clone();
            for (j, &index) in self.indices.iter().enumerate() {
                let values = self.values.index_axis(self.axis, j);
                let mut part = sums.index_axis_mut(self.axis, index as usize);
                part.zip_mut_with(&values, |sum, &value| *sum = *sum + value);
            }
            sums
        }

        fn on(&self, device: &Device) -> warpsmith::Result<ArrayD<T>> {
            let stream = device.default_stream();
            let mut sums = DeviceArray::from_ndarray(stream, &self.sums)?;
            let indices = DeviceArray::from_ndarray(stream, &self.indices)?;
            let values = DeviceArray::from_ndarray(stream, &self.values)?;
            sums.scatter_add_in_order(self.axis, &indices, &values)?;
            sums.to_ndarray()
        }
    }

    /// To the bit.
    #[track_caller]
    fn is_as_a_loop<T>(shape: &[usize], axis: usize, count: usize, of: impl Fn(usize, usize) -> usize)
    where
        T: FloatNumber + ScatterAdd + std::ops::Add<Output = T>,
    {
        let case = Case::<T>::new(shape, axis, count, of);
        assert_eq!(case.on(device()).unwrap(), case.wanted(), "{shape:?}, {axis}, {count}");
    }

    fn squares(i: usize, n: usize) -> usize {
        i * i % n
    }

    /// Sums and values around a warp's columns and a block's, lines around those of the teams, indices around a chunk and a list.
    #[test]
    fn is_that_of_a_loop() {
        for (shape, axis, count) in [
            (vec![5], 0, 2049),
            (vec![3], 0, 6145),
            (vec![3, 7, 2], 1, 40),
            (vec![4, 3], 0, 2047),
            (vec![100, 129], 0, 300),
            (vec![9, 1025], 0, 33),
            (vec![1025, 9], 1, 33),
            (vec![5000], 0, 6000),
            (vec![2, 0], 0, 3),
            (vec![0, 3], 1, 3),
            (vec![3, 2], 0, 0),
        ] {
            is_as_a_loop::<f32>(&shape, axis, count, squares);
            is_as_a_loop::<f64>(&shape, axis, count, squares);
        }
    }

    /// All indices the same, of one line and of many; the same again and again, and in turn.
    #[test]
    fn of_indices_that_occur_often() {
        for (lines, columns) in [(1, 300), (70, 5)] {
            is_as_a_loop::<f32>(&[lines, columns], 0, 300, |_, n| n - 1);
            is_as_a_loop::<f32>(&[lines, columns], 0, 300, |i, n| i / 7 % n);
            is_as_a_loop::<f32>(&[lines, columns], 0, 300, |i, n| i % 2 % n);
        }
    }

    /// In `f32`, rounded once.
    #[test]
    fn of_16_bits() {
        fn check<T: FloatNumber + ScatterAdd + CastTo<f32>>() {
            let case = Case::<T>::new(&[5, 3], 0, 70, squares);
            let wide = |x: &ArrayD<T>| x.mapv(|x| x.wide() as f32);
            let in_f32 = Case {
                sums: wide(&case.sums),
                axis: case.axis,
                indices: case.indices.clone(),
                values: wide(&case.values),
            };
            let wanted = in_f32.wanted().mapv(|x| T::of(x.into()));
            assert_eq!(case.on(device()).unwrap(), wanted);
        }
        check::<f16>();
        check::<bf16>();
    }

    /// Integers, which have no order.
    #[test]
    fn of_integers() {
        let mut sums = upload(&ndarray::array![1i32, 2]);
        let (indices, values) = (upload(&ndarray::array![1u64, 1]), upload(&ndarray::array![3i32, 4]));
        sums.scatter_add_in_order(Axis(0), &indices, &values).unwrap();
        assert_eq!(sums.to_ndarray().unwrap(), ndarray::array![1, 9]);
    }

    /// A view that is added to, and values that lie otherwise.
    #[test]
    fn of_views() {
        let case = Case::<f32>::new(&[6, 5], 0, 40, squares);
        let mut turned = upload(&case.sums.t().as_standard_layout());
        let (indices, values) = (upload(&case.indices), upload(&case.values.t().as_standard_layout()));
        let mut view = turned.view_mut().reversed_axes();
        view.scatter_add_in_order(Axis(0), &indices, &values.t()).unwrap();
        assert_eq!(turned.t().to_ndarray().unwrap(), case.wanted());
    }

    #[test]
    fn every_schedule_has_the_same_bits() {
        let case = Case::<f32>::new(&[7, 140], 0, 300, squares);
        let got = Device::compare_schedules(Schedule::several(2, 6), |device| case.on(device)).unwrap();
        assert_eq!(got, case.wanted());
    }
}

#[test]
fn values_that_do_not_fit_are_an_error() {
    let mut x = upload(&Array2::<f32>::zeros((3, 4)));
    let indices = upload(&array![0u32, 1]);
    let values = upload(&Array2::<f32>::zeros((3, 3)));
    assert_eq!(
        x.scatter_add(Axis(1), &indices, &values).unwrap_err().to_string(),
        "scatter_add: given values of shape [3, 3] for shape [3, 4], wanted values of shape [3, 2], for 2 indices"
    );
    let error = x.scatter_add_in_order(Axis(1), &indices, &values).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("scatter_add_in_order: given values of shape [3, 3]"),
        "{error}"
    );
}

#[test]
fn masks_select() {
    for shape in [(1, 1), (40, 33), (3, 2000), (0, 3)] {
        let x = Array2::from_shape_fn(shape, |(i, j)| (i * 37 + j * 101) as u16 % 1000);
        let on_device = upload(&x);
        for limit in [0u16, 1, 500, 1000] {
            let mask = on_device.less_scalar(limit).unwrap();
            let wanted = Array1::from_iter(x.iter().copied().filter(|&x| x < limit));
            assert_eq!(on_device.compress(&mask).unwrap().to_ndarray().unwrap(), wanted);
            // Any number but 0 stands for what is selected, wherever mask and elements lie.
            let mask = mask.mul_scalar(77).unwrap();
            let wanted = Array1::from_iter(x.t().iter().copied().filter(|&x| x < limit));
            assert_eq!(on_device.t().compress(&mask.t()).unwrap().to_ndarray().unwrap(), wanted);
            let indices = (0..x.len() as u64).zip(&x).filter(|(_, x)| **x < limit).map(|(i, _)| i);
            assert_eq!(
                mask.flatnonzero().unwrap().to_ndarray().unwrap(),
                Array1::from_iter(indices)
            );
        }
    }
    let x = upload(&array![[1, 2, 3], [4, 5, 6]]);
    let columns = x.compress_axis(Axis(1), &upload(&array![1u8, 0, 9])).unwrap();
    assert_eq!(columns.to_ndarray().unwrap(), array![[1, 3], [4, 6]]);
    assert_eq!(
        x.compress(&upload(&array![[1u8]])).unwrap_err().to_string(),
        "compress: given shape [2, 3] and a mask of shape [1, 1], wanted equal shapes"
    );
    assert_eq!(
        x.compress_axis(Axis(0), &upload(&array![1u8])).unwrap_err().to_string(),
        "compress_axis: given shape [2, 3], axis 0 and a mask of shape [1], wanted a mask as long as the axis"
    );
}

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
