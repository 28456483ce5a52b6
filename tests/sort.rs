// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sorting against Rust's own stable sort, and what follows from it.

use std::cmp::Ordering;
use std::fmt::Display;

use ndarray::{Array1, Array2, ArrayD, Axis, array, s};
use warpsmith::ops::{self, Sort};
use warpsmith::{DeviceArray, Error, bf16, f16};

use crate::common::*;

/// Elements whose order is known.
trait Ordered: Number + ops::Number<Mean: Display> + Sort {
    fn order(self, other: Self) -> Ordering;
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Ordered for $type {
            /// That of `total_cmp`, and NaN last, that without a sign first.
            fn order(self, other: Self) -> Ordering {
                let rank = |x: Self| if x.is_nan() { 1 + u8::from(x.is_sign_negative()) } else { 0 };
                rank(self).cmp(&rank(other)).then(self.total_cmp(&other))
            }
        }
    )*};
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Ordered for $type {
            fn order(self, other: Self) -> Ordering {
                self.cmp(&other)
            }
        }
    )*};
}

floats!(f32 f64 f16 bf16);
integers!(i32 i64 u8 u16 u32 u64);

/// Sorts the rows, and finds their places.
#[track_caller]
fn assert_sorted<T: Ordered>(x: &Array2<T>, what: &str) {
    let device = upload(x);
    let sorted = device.sort(Axis(1)).unwrap().to_ndarray().unwrap();
    let places = device.argsort(Axis(1)).unwrap().to_ndarray().unwrap();
    assert_eq!((sorted.shape(), places.shape()), (x.shape(), x.shape()), "{what}");
    for (row, x) in x.rows().into_iter().enumerate() {
        let mut wanted: Vec<usize> = (0..x.len()).collect();
        wanted.sort_by(|&a, &b| x[a].order(x[b]));
        let found: Vec<usize> = places.row(row).iter().map(|&place| place as usize).collect();
        assert!(found == wanted, "{what}, places of row {row} of {:?}", x.len());
        let wanted: Vec<T> = wanted.into_iter().map(|place| x[place]).collect();
        assert_same(&sorted.row(row).to_vec(), &wanted, what);
    }
}

/// Lengths around warps, tiles and what a digit of a row's number counts.
const SHAPES: [(usize, usize); 10] = [
    (1, 2),
    (1, 33),
    (1, 2047),
    (1, 2049),
    (1, 4096),
    (1, 4099),
    (2, 2500),
    (5, 257),
    (256, 3),
    (260, 9),
];

fn sort<T: Ordered>() {
    for (rows, len) in SHAPES {
        let x = Array2::from_shape_vec((rows, len), random::<T>(rows * len, len as u64)).unwrap();
        assert_sorted(&x, "any numbers");
    }
}
for_types!(sort: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn elements_in_any_order() {
    let of = |f: fn(usize) -> i32| Array2::from_shape_fn((1, 5000), |(_, i)| f(i));
    assert_sorted(&of(|i| i as i32), "ascending");
    assert_sorted(&of(|i| -(i as i32)), "descending");
    assert_sorted(&of(|_| -7), "equal");
    assert_sorted(&of(|i| (i % 2) as i32), "two");
    assert_sorted(&of(|i| (i as i32) << 24), "highest digits alone");
    let x = array![[
        -0.0f32,
        f32::NAN,
        0.0,
        f32::NEG_INFINITY,
        -f32::NAN,
        f32::INFINITY,
        f32::MIN_POSITIVE / 2.0,
        -f32::MIN_POSITIVE / 2.0,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        -0.0
    ]];
    assert_sorted(&x, "what is not usual");
    let sorted = upload(&x).sort(Axis(1)).unwrap().to_ndarray().unwrap();
    let bits = |x: f32| x.to_bits();
    assert_eq!(
        sorted.slice(s![0, 3..7]).mapv(bits),
        array![-0.0, -0.0, 0.0, f32::MIN_POSITIVE / 2.0].mapv(bits)
    );
    assert!(sorted.slice(s![0, 9..]).iter().all(|x| x.is_nan()));
}

#[test]
fn any_axis_and_any_strides() {
    let x: ArrayD<f32> = layout_base(3);
    for (what, view) in layouts(&x) {
        for axis in 0..view.ndim() {
            let device = upload(&view);
            let sorted = device.sort(Axis(axis)).unwrap().to_ndarray().unwrap();
            let places = device.argsort(Axis(axis)).unwrap().to_ndarray().unwrap();
            assert_eq!((sorted.shape(), places.shape()), (view.shape(), view.shape()), "{what}");
            let lanes = view.lanes(Axis(axis)).into_iter();
            let found = sorted.lanes(Axis(axis)).into_iter().zip(places.lanes(Axis(axis)));
            for (lane, (sorted, places)) in lanes.zip(found) {
                let mut wanted: Vec<usize> = (0..lane.len()).collect();
                wanted.sort_by(|&a, &b| lane[a].order(lane[b]));
                assert!(
                    places.iter().map(|&place| place as usize).eq(wanted),
                    "{what}, axis {axis}"
                );
                assert!(
                    places
                        .iter()
                        .zip(sorted)
                        .all(|(&place, value)| value.same(lane[place as usize]))
                );
            }
        }
    }
    let x = Array2::from_shape_vec((70, 90), random::<i64>(6300, 1)).unwrap();
    let device = upload(&x);
    let part = device.slice(s![5..;3, ..;-2]).unwrap();
    let mut wanted = x.slice(s![5..;3, ..;-2]).to_owned();
    wanted.axis_iter_mut(Axis(1)).for_each(|mut lane| {
        let mut elements = lane.to_vec();
        elements.sort();
        lane.assign(&Array1::from(elements));
    });
    assert_eq!(part.sort(Axis(0)).unwrap().to_ndarray().unwrap(), wanted);
}

#[test]
fn what_is_empty_and_what_has_one_element() {
    for shape in [(0, 0), (0, 3), (3, 0), (3, 1), (1, 1)] {
        let x = Array2::from_elem(shape, 2.5f64);
        let device = upload(&x);
        for axis in [Axis(0), Axis(1)] {
            assert_eq!(device.sort(axis).unwrap().to_ndarray().unwrap(), x);
            let places = device.argsort(axis).unwrap().to_ndarray().unwrap();
            let len = x.len_of(axis).max(1);
            let wanted = Array2::from_shape_fn(shape, |index| [index.0, index.1][axis.index()] as u64 % len as u64);
            assert_eq!(places, wanted, "{shape:?}");
        }
        let unique = device.unique().unwrap().to_ndarray().unwrap();
        assert_eq!(unique.to_vec(), vec![2.5; x.len().min(1)]);
        let (unique, counts) = device.unique_counts().unwrap();
        assert_eq!(unique.len(), x.len().min(1));
        assert_eq!(
            counts.to_ndarray().unwrap().to_vec(),
            vec![x.len() as u64; x.len().min(1)]
        );
        match x.len() {
            0 => assert!(matches!(
                device.median(),
                Err(Error::Empty {
                    operation: "median",
                    ..
                })
            )),
            _ => assert_eq!(device.median().unwrap(), 2.5),
        }
    }
}

fn unique<T: Ordered>() {
    for len in [2, 100, 5000] {
        let x = random::<T>(len, len as u64);
        let mut wanted: Vec<(T, u64)> = Vec::new();
        let mut sorted = x.clone();
        sorted.sort_by(|&a, &b| a.order(b));
        for x in sorted {
            match wanted.last_mut() {
                // One NaN is as another.
                Some((last, count)) if *last == x || last.same(x) => *count += 1,
                _ => wanted.push((x, 1)),
            }
        }
        let (elements, counts): (Vec<T>, Vec<u64>) = wanted.into_iter().unzip();
        let device = upload_vec(&x);
        assert_same(
            &device.unique().unwrap().to_ndarray().unwrap().to_vec(),
            &elements,
            "unique",
        );
        let (unique, found) = device.unique_counts().unwrap();
        assert_same(&unique.to_ndarray().unwrap().to_vec(), &elements, "unique");
        assert_eq!(found.to_ndarray().unwrap().to_vec(), counts);
    }
}
for_types!(unique: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn quantiles() {
    let x = array![[7.0f64, 1.0, 3.0], [5.0, 9.0, 11.0]];
    let device = upload(&x);
    for (q, wanted) in [(0.0, 1.0), (0.1, 2.0), (0.2, 3.0), (0.5, 6.0), (0.9, 10.0), (1.0, 11.0)] {
        let found = device.quantile(q).unwrap();
        assert!((found - wanted).abs() < 1e-12, "{q}: {found}");
    }
    assert_eq!(upload(&array![3u8, 255, 254]).median().unwrap(), 254.0);
    assert_eq!(upload(&array![3u8, 254]).median().unwrap(), 128.5);
    assert_eq!(
        upload(&array![f16::ONE, f16::ZERO]).median().unwrap(),
        f16::from_f32(0.5)
    );
    let inf = f32::INFINITY;
    assert_eq!(upload(&array![inf, inf, inf, 0.0]).median().unwrap(), inf);
    assert_eq!(upload(&array![-inf, 1.0, inf]).quantile(0.75).unwrap(), inf);
    assert_eq!(upload(&array![-inf, 1.0, inf]).quantile(0.5).unwrap(), 1.0);
    assert!(upload(&array![1.0, f32::NAN, 2.0]).quantile(0.0).unwrap().is_nan());
    assert!(upload(&array![1.0, -f32::NAN, 2.0]).median().unwrap().is_nan());
}

#[test]
fn errors_say_what_is_wrong() {
    let x = upload(&array![[1, 2], [3, 4]]);
    for (operation, error) in [("sort", x.sort(Axis(2)).err()), ("argsort", x.argsort(Axis(2)).err())] {
        let error = error.unwrap().to_string();
        assert!(error.contains(operation) && error.contains('2'), "{error}");
    }
    for q in [-0.1, 1.1, f64::NAN] {
        let error = x.quantile(q).unwrap_err();
        assert!(
            matches!(&error, Error::Parameter { operation: "quantile", parameter: "q", given, .. } if *given == q.to_string()),
            "{error}"
        );
    }
}

#[test]
fn graphs_sort() {
    let device = device();
    let stream = device.create_stream().unwrap();
    let of = |seed| Array1::from(random::<f32>(6000, seed));
    let x = DeviceArray::from_ndarray(&stream, &of(1)).unwrap();
    let mut graph = stream
        .capture(x, |_, x| Ok((x.sort(Axis(0))?, x.argsort(Axis(0))?)))
        .unwrap();
    for seed in [1, 2, 3] {
        let x = of(seed);
        graph.args_mut().assign_ndarray(&x).unwrap();
        graph.launch().unwrap();
        let mut wanted: Vec<usize> = (0..x.len()).collect();
        wanted.sort_by(|&a, &b| x[a].order(x[b]));
        let (sorted, places) = graph.output();
        let places = places.to_ndarray().unwrap();
        assert!(places.iter().map(|&place| place as usize).eq(wanted.iter().copied()));
        let sorted = sorted.to_ndarray().unwrap();
        assert!(wanted.iter().zip(&sorted).all(|(&place, value)| value.same(x[place])));
    }
}
