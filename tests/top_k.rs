// SPDX-License-Identifier: MIT OR Apache-2.0
//! The largest elements of rows against a sort.

use std::cmp::Ordering;

use ndarray::{Array2, ArrayD, Axis, IxDyn, array, s};
use warpsmith::ops::TopK;
use warpsmith::{DeviceArray, Error, bf16, f16};

use crate::common::*;

/// Elements whose order is known.
trait Ordered: Number + TopK {
    fn order(self, other: Self) -> Ordering;
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Ordered for $type {
            /// NaN is above all, −0 equal to +0.
            fn order(self, other: Self) -> Ordering {
                let is_nan = (self.is_nan(), other.is_nan());
                self.partial_cmp(&other).unwrap_or_else(|| is_nan.0.cmp(&is_nan.1))
            }
        }
    )*};
}

floats!(f32 f64 f16 bf16);

impl Ordered for i32 {
    fn order(self, other: Self) -> Ordering {
        self.cmp(&other)
    }
}

#[track_caller]
fn assert_found<T: Ordered>(x: &Array2<T>, k: usize, what: &str) {
    let (values, places) = upload(x).top_k(Axis(1), k).unwrap();
    assert_eq!(
        (values.shape(), places.shape()),
        (&[x.nrows(), k][..], &[x.nrows(), k][..])
    );
    let (values, places) = (values.to_ndarray().unwrap(), places.to_ndarray().unwrap());
    for (row, x) in x.rows().into_iter().enumerate() {
        let mut wanted: Vec<usize> = (0..x.len()).collect();
        // Stable: of equal ones the first comes first.
        wanted.sort_by(|&a, &b| x[b].order(x[a]));
        wanted.truncate(k);
        let found: Vec<usize> = places.row(row).iter().map(|&place| place as usize).collect();
        assert_eq!(found, wanted, "{what}, {k} of row {row} of {:?}", x.len());
        let wanted: Vec<T> = wanted.into_iter().map(|place| x[place]).collect();
        assert_same(&values.row(row).to_vec(), &wanted, what);
    }
}

/// Lengths around warps, batches, blocks and parts.
const LENGTHS: [(usize, usize); 8] = [
    (9, 1),
    (3, 31),
    (17, 64),
    (2, 65),
    (3, 256),
    (5, 257),
    (2, 4095),
    (1, 4097),
];

fn top_k<T: Ordered>() {
    for (rows, len) in LENGTHS {
        let x = Array2::from_shape_vec((rows, len), random::<T>(rows * len, len as u64)).unwrap();
        for k in [1, 5, 32, 33, 64] {
            if k <= len && (len < 1000 || [5, 64].contains(&k)) {
                assert_found(&x, k, "any numbers");
            }
        }
    }
}
for_types!(top_k: f32 f64 f16 bf16 i32);

/// More than a warp keeps.
fn many<T: Ordered>() {
    for (rows, len) in [(5, 65), (2, 1000), (1, 2048)] {
        let x = Array2::from_shape_vec((rows, len), random::<T>(rows * len, len as u64)).unwrap();
        for k in [65, len] {
            assert_found(&x, k, "any numbers");
        }
    }
}
for_types!(many: f32 f64 f16 bf16 i32);

#[test]
fn rows_in_any_order_have_the_same() {
    for (len, ks) in [(200, &[3, 200][..]), (600, &[3, 40]), (5000, &[40]), (33_001, &[3])] {
        for &k in ks {
            let of = |f: fn(usize) -> i32| Array2::from_shape_fn((1, len), |(_, i)| f(i));
            assert_found(&of(|i| i as i32), k, "ascending");
            assert_found(&of(|i| -(i as i32)), k, "descending");
            assert_found(&of(|_| i32::MIN), k, "equal");
            assert_found(&of(|i| (i / 100) as i32), k, "equal ones that ascend");
            assert_found(&of(|i| if i % 32 == 7 { i as i32 } else { -1 }), k, "all in one lane");
        }
    }
    let nan = Array2::from_elem((2, 100), f64::NAN);
    assert_found(&nan, 64, "NaN alone");
    let x = array![[
        -0.0f32,
        0.0,
        f32::NEG_INFINITY,
        -f32::NAN,
        f32::INFINITY,
        f32::NAN,
        -1.0
    ]];
    assert_found(&x, 7, "what is not usual");
}

#[test]
fn any_axis_and_any_strides() {
    let x: ArrayD<f32> = layout_base(3);
    for (what, view) in layouts(&x) {
        for axis in 0..view.ndim() {
            let len = view.len_of(Axis(axis));
            let k = len.min(2);
            let device = upload(&view);
            let (values, places) = device.top_k(Axis(axis), k).unwrap();
            let (values, places) = (values.to_ndarray().unwrap(), places.to_ndarray().unwrap());
            let mut shape = view.shape().to_vec();
            shape[axis] = k;
            assert_eq!((values.shape(), places.shape()), (&shape[..], &shape[..]), "{what}");
            for (number, lane) in view.lanes(Axis(axis)).into_iter().enumerate() {
                let mut wanted: Vec<usize> = (0..len).collect();
                wanted.sort_by(|&a, &b| lane[b].order(lane[a]));
                let found = places.lanes(Axis(axis)).into_iter().nth(number).unwrap();
                let found: Vec<usize> = found.iter().map(|&place| place as usize).collect();
                assert_eq!(found, wanted[..k], "{what}, axis {axis}, lane {number}");
                let of = values.lanes(Axis(axis)).into_iter().nth(number).unwrap();
                assert!(found.iter().zip(of).all(|(&place, value)| value.same(lane[place])));
            }
        }
    }
    let device = upload(&x);
    let part = device.slice(s![.., 1..;2, ..;-1, 1..]).unwrap();
    let of_part = part.top_k(Axis(2), 3).unwrap();
    let of_copy = upload(&x.slice(s![.., 1..;2, ..;-1, 1..])).top_k(Axis(2), 3).unwrap();
    assert_eq!(elements(&of_part.1), elements(&of_copy.1));
    assert_same(&elements(&of_part.0), &elements(&of_copy.0), "a part");
}

#[test]
fn none_and_too_many() {
    let stream = device().default_stream();
    let x = DeviceArray::<f32, _>::zeros(stream, (3, 4097)).unwrap();
    assert_eq!(x.top_k(Axis(1), 0).unwrap().0.shape(), [3, 0]);
    assert_eq!(
        x.top_k(Axis(1), 65).unwrap_err().to_string(),
        "top_k: k: given 65, wanted at most 64, where axis 1 has length 4097"
    );
    let x = DeviceArray::<f64, _>::zeros(stream, (3, 70)).unwrap();
    assert_eq!(
        x.top_k(Axis(1), 71).unwrap_err().to_string(),
        "top_k: k: given 71, wanted at most 70, where axis 1 has length 70"
    );
    assert!(matches!(x.top_k(Axis(0), 4), Err(Error::Parameter { .. })));
    assert!(matches!(x.top_k(Axis(2), 1), Err(Error::Axes { .. })));
    let none = DeviceArray::<i32, _>::zeros(stream, IxDyn(&[0, 5])).unwrap();
    assert_eq!(none.top_k(Axis(1), 2).unwrap().1.shape(), [0, 2]);
    assert!(matches!(none.top_k(Axis(0), 1), Err(Error::Parameter { .. })));
}
