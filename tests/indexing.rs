// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that indices or masks name, against ndarray.

use std::fmt::Debug;

use crate::common::*;
use ndarray::{Array1, Array2, Axis, IxDyn, array, s};
use proptest::prelude::*;
use warpsmith::{Device, DeviceArray, Element, Error};

fn taken<T: Element + Debug + PartialEq>(shape: &[usize], axis: Axis, indices: &[usize], of: impl Fn(usize) -> T) {
    let x = numbered(shape, &of);
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
        let mut turned = upload(&numbered(wanted.t().shape(), &of));
        on_device
            .take_into(axis, &narrow, &mut turned.view_mut().reversed_axes())
            .unwrap();
        assert_eq!(turned.t().to_ndarray().unwrap(), wanted);
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
fn parts_are_taken_into_arrays_and_views() {
    let x = upload(&Array2::from_shape_fn((4, 3), |(i, j)| (3 * i + j) as i32));
    let mut out = upload(&Array2::<i32>::from_elem((3, 6), -1));
    x.take_into(Axis(0), &[3, 0, 3], &mut out.slice_mut(s![.., ..;2]).unwrap())
        .unwrap();
    x.take_into(
        Axis(1),
        &upload(&array![2u32]),
        &mut out.slice_mut(s![.., 5..]).unwrap(),
    )
    .unwrap_err();
    x.slice(s![1.., ..])
        .unwrap()
        .take_into(
            Axis(1),
            &upload(&array![2u32]),
            &mut out.slice_mut(s![.., 5..]).unwrap(),
        )
        .unwrap();
    assert_eq!(
        out.to_ndarray().unwrap(),
        array![[9, -1, 10, -1, 11, 5], [0, -1, 1, -1, 2, 8], [9, -1, 10, -1, 11, 11]]
    );
    let message = |result: warpsmith::Result<()>| result.unwrap_err().to_string();
    assert_eq!(
        message(x.take_into(Axis(0), &[0, 1], &mut out)),
        "take: given a result of shape [3, 6], wanted shape [2, 3], of 2 indices along axis 0 of shape [4, 3]"
    );
    assert!(matches!(
        x.take_into(Axis(2), &[0, 1], &mut out),
        Err(Error::Axes { .. })
    ));
    let elsewhere = Device::simulator();
    let mut other = DeviceArray::zeros(elsewhere.default_stream(), (2, 3)).unwrap();
    assert!(matches!(
        x.take_into(Axis(0), &[0, 1], &mut other),
        Err(Error::DifferentDevices { .. })
    ));
    // Nothing, of which there may be no part at all.
    let none = upload(&Array2::<i32>::zeros((0, 3)));
    none.take_into(
        Axis(0),
        &Array1::<u32>::zeros(0),
        &mut out.slice_mut(s![..0, ..3]).unwrap(),
    )
    .unwrap();
    let mut rows = upload(&Array2::<i32>::zeros((3, 3)));
    assert!(message(none.take_into(Axis(0), &[0, 0, 0], &mut rows)).starts_with("take: given 3 indices"));
}

#[test]
fn indices_out_of_bounds_fail() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![1, 2, 3]).unwrap();
    let negative = DeviceArray::from_ndarray(stream, &array![0i32, -1]).unwrap();
    let error = x.take(Axis(0), &negative).unwrap_err().to_string();
    let given = "given -1 (or 18446744073709551615 of u64), as number 1";
    assert!(error.contains(given), "{error}");
    let beyond = DeviceArray::from_ndarray(stream, &array![0u8, 255]).unwrap();
    let error = x.take(Axis(0), &beyond).unwrap_err().to_string();
    assert!(error.contains("given 255, as number 1"), "{error}");
    // Of u64, which has larger ones than i64.
    let beyond = DeviceArray::from_ndarray(stream, &array![u64::MAX - 1, 0]).unwrap();
    let error = x.take(Axis(0), &beyond).unwrap_err().to_string();
    assert!(
        error.contains("given -2 (or 18446744073709551614 of u64), as number 0"),
        "{error}"
    );
    for (index, given) in [
        (3i64, "3"),
        (-1, "-1 (or 18446744073709551615 of u64)"),
        (i64::MIN, "-9223372036854775808 (or 9223372036854775808 of u64)"),
    ] {
        let indices = DeviceArray::from_ndarray(stream, &array![0, index]).unwrap();
        let error = x.take(Axis(0), &indices).unwrap_err();
        assert!(matches!(error, Error::Fault(_)), "{error}");
        assert!(
            error.to_string().contains(&format!(
                "an index is out of bounds of its axis: given {given}, as number 1, wanted indices below 3"
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
                let mut x = numbered(&shape, |i| i as $type);
                let indices: Vec<u32> = (0..count).map(|i| (i * i % shape[axis]) as u32).collect();
                let mut of_values = shape.clone();
                of_values[axis] = count;
                let values = numbered(&of_values, |i| (i % 10) as $type);
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
            let mut sums = upload(&numbered(&[3, 3], |i| T::of(if i == 4 { large } else { i as f64 })));
            let indices = upload(&Array1::from(vec![1i64; 65]));
            let of_values = if axis == 0 { [65, 3] } else { [3, 65] };
            let values = upload(&numbered(&of_values, |_| T::of(1.0)));
            sums.scatter_add(Axis(axis), &indices, &values).unwrap();
            let is_added = |i: usize| if axis == 0 { i / 3 == 1 } else { i % 3 == 1 };
            let wanted = numbered(&[3, 3], |i| {
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
