// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sorting against Rust's own stable sort, and what follows from it.

use std::cmp::Ordering;
use std::fmt::Display;

use kernels_gpu::num::Num;
use kernels_gpu::sort::{COUNTING_THREADS, DIGITS, Pass, THREADS, control, count_digits, move_by_digit, tile_len};
use ndarray::{Array1, Array2, ArrayD, Axis, array, s};
use warpsmith::ops::{self, CastTo, Side, Sort};
use warpsmith::{DeviceArray, Element, Error, LaunchConfig, bf16, f16};

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

/// Lengths around the units of a thread, of a warp and of a block, and what a digit of a row's number counts. Kernels know of a type
/// how many bits it has and, by numbers that the launch gives, their order.
const SHAPES: [(usize, usize); 14] = [
    (1, 2),
    (70, 3),
    (300, 8),
    (260, 9),
    (17, 16),
    (33, 17),
    (20, 64),
    (5, 257),
    (3, 513),
    (2, 1024),
    (1, 2049),
    (1, 4096),
    (2, 4097),
    (1, 4099),
];

fn sort<T: Ordered>() {
    sort_shapes::<T>(&SHAPES);
}
for_types!(sort: u8 u16 u32 u64);

/// The order of other types than their words: by a warp, by a block and in passes.
fn sort_in_order<T: Ordered>() {
    sort_shapes::<T>(&[(33, 17), (5, 257), (2, 4097)]);
}
for_types!(sort_in_order: f32 f64 f16 bf16 i32 i64);

fn sort_shapes<T: Ordered>(shapes: &[(usize, usize)]) {
    for &(rows, len) in shapes {
        let x = Array2::from_shape_vec((rows, len), random::<T>(rows * len, len as u64)).unwrap();
        assert_sorted(&x, "any numbers");
    }
}

/// Lengths around a tile.
fn sort_by_tiles<T: Ordered>() {
    let tile = tile_len::<T::Word>();
    for (rows, len) in [(1, tile), (1, tile + 1), (2, tile + 2)] {
        let x = Array2::from_shape_vec((rows, len), random::<T>(rows * len, len as u64)).unwrap();
        assert_sorted(&x, "any numbers, of several tiles");
    }
}
for_types!(sort_by_tiles: u8 u16 u32 u64);

#[test]
fn elements_in_any_order() {
    let of = |f: fn(usize) -> i32| Array2::from_shape_fn((1, 20_000), |(_, i)| f(i));
    assert_sorted(&of(|i| i as i32), "ascending");
    assert_sorted(&of(|i| -(i as i32)), "descending");
    assert_sorted(&of(|_| -7), "equal");
    assert_sorted(&of(|i| (i % 2) as i32), "two");
    assert_sorted(&of(|i| (i as i32) << 24), "highest digits alone");
    assert_sorted(&of(|i| (i as i32 % 256) << 8 | 5), "one digit in the middle");
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

/// The passes of a sort, of tiles in shorter parts than a sort makes, which are for more than 2^30 elements, and of rows that are
/// shorter than those a sort has passes for.
#[test]
fn tiles_in_parts_and_rows() {
    for (rows, len, tiles_of_part) in [(1, 40_000, 1), (1, 40_000, 2), (300, 97, 1), (300, 97, 1000)] {
        let what = format!("{rows} rows of {len}, parts of {tiles_of_part}");
        let x = random::<u32>(rows * len, 3);
        let tiles = x.len().div_ceil(tile_len::<u32>()) as u32;
        let passes = 4 + control::row_passes(rows as u32);
        let parts = tiles.div_ceil(tiles_of_part);
        let stream = device().default_stream();
        let mut control = DeviceArray::<u64, _>::zeros(stream, control::len(passes, parts as usize)).unwrap();
        let mut states = DeviceArray::<u32, _>::zeros(stream, tiles as usize * DIGITS).unwrap();
        let by = |shift, row_len| Pass {
            positive: 0,
            negative: 0,
            least: 0,
            shift,
            row_len,
        };
        let mut words = upload(&Array1::from(x.clone()));
        let mut places = DeviceArray::<u32, _>::zeros(stream, 0).unwrap();
        let config = LaunchConfig::new(3, COUNTING_THREADS as u32);
        let args = (&words, by(0, len as u32), rows as u32, parts, &mut control, &mut states);
        stream.launch::<count_digits<u32>>(&config, args).unwrap();
        for number in 0..passes as u32 {
            let mut words_out = DeviceArray::<u32, _>::zeros(stream, x.len()).unwrap();
            let mut places_out = DeviceArray::<u32, _>::zeros(stream, x.len()).unwrap();
            let pass = match number.checked_sub(4) {
                None => by(8 * number, 0),
                Some(of_row) => by(8 * of_row, len as u32),
            };
            let args = (
                &words,
                &places,
                pass,
                number,
                passes as u32,
                tiles_of_part,
                &mut control,
                &mut states,
                &mut words_out,
                &mut places_out,
            );
            let config = LaunchConfig::new(tiles, THREADS as u32);
            stream.launch::<move_by_digit<u32>>(&config, args).unwrap();
            (words, places) = (words_out, places_out);
        }
        let mut wanted: Vec<u32> = (0..x.len() as u32).collect();
        wanted.sort_by_key(|&place| (place as usize / len, x[place as usize], place));
        assert!(places.to_ndarray().unwrap().to_vec() == wanted, "{what}");
        let wanted: Vec<u32> = wanted.into_iter().map(|place| x[place as usize]).collect();
        assert!(words.to_ndarray().unwrap().to_vec() == wanted, "{what}");
    }
}

/// How many elements have a digit of their row's number, against a count.
#[test]
fn elements_of_rows_are_counted() {
    for rows in [1, 2, 255, 256, 257, 300, 511, 513, 65_536, 65_537, 70_000, 131_333] {
        for number in 0..control::row_passes(rows) {
            let mut wanted = [0u32; DIGITS];
            (0..rows).for_each(|row| wanted[(row >> (8 * number)) as usize % DIGITS] += 3);
            let found: Vec<u32> = (0..DIGITS as u32)
                .map(|digit| control::elements_of_rows(number, digit, rows, 3))
                .collect();
            assert_eq!(found, wanted, "{rows} rows, digit {number}");
        }
    }
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

/// Of each lane, by itself.
fn quantiles_along_an_axis<T>()
where
    T: Ordered + ops::Number<Mean: Element + ops::Number> + CastTo<f64>,
    f64: CastTo<T::Mean>,
{
    let few = [(1, 1), (7, 2), (3, 9)].map(|shape| (shape, &[0.0, 0.3, 0.5, 1.0][..]));
    for (shape, quantiles) in few.into_iter().chain([((2, 600), &[0.3][..])]) {
        let x = Array2::from_shape_vec(shape, random::<T>(shape.0 * shape.1, shape.1 as u64)).unwrap();
        let device = upload(&x);
        for axis in [Axis(0), Axis(1)] {
            for &q in quantiles {
                let found = device.quantile_axis(axis, q).unwrap().to_ndarray().unwrap();
                let lanes = x.lanes(axis).into_iter();
                assert_eq!(found.len(), lanes.len());
                // Of many lanes some, each sorted by itself.
                let step = found.len().div_ceil(16);
                for (&found, lane) in found.iter().zip(lanes).step_by(step) {
                    let wanted = upload(&lane).quantile(q).unwrap();
                    let (found, wanted) = (Num::to_f64(found), Num::to_f64(wanted));
                    assert!(
                        found == wanted || found.is_nan() && wanted.is_nan(),
                        "{found}, {wanted}"
                    );
                }
            }
        }
    }
}
for_types!(quantiles_along_an_axis: f32 f64 f16 bf16 i32 u8 u64);

#[test]
fn medians_along_an_axis_of_what_is_not_usual() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = array![
        [inf, inf, 1.0, -inf],
        [nan, 0.0, 1.0, 2.0],
        [-nan, nan, 1.0, 2.0],
        [-0.0, -0.0, 3.0, 3.0],
        [inf, 1.0, inf, inf]
    ];
    let found = upload(&x).median_axis(Axis(1)).unwrap().to_ndarray().unwrap();
    assert_eq!(found.to_vec()[3..], [1.5, inf]);
    assert_eq!(found[0], inf);
    assert!(found[1].is_nan() && found[2].is_nan());
    let x = upload(&Array2::<f64>::zeros((0, 3)));
    assert_eq!(x.median_axis(Axis(1)).unwrap().shape(), [0]);
    let error = x.median_axis(Axis(0)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Empty {
                operation: "median_axis",
                ..
            }
        ),
        "{error}"
    );
    assert!(matches!(
        x.quantile_axis(Axis(1), 2.0),
        Err(Error::Parameter {
            operation: "quantile_axis",
            ..
        })
    ));
    assert!(matches!(
        x.quantile_axis(Axis(2), 0.5),
        Err(Error::Axes {
            operation: "quantile_axis",
            ..
        })
    ));
}

/// Each value among so many numbers in order, of which some are values too.
fn searches<T: Ordered>() {
    for len in [0, 1, 2, 3, 7, 8, 9, 255, 1000] {
        let mut sorted = random::<T>(len, 1);
        sorted.sort_by(|&a, &b| a.order(b));
        for values in [0, 1, 5, 1025] {
            let mut values = random::<T>(values, 2);
            values
                .iter_mut()
                .zip(&sorted)
                .step_by(3)
                .for_each(|(value, &x)| *value = x);
            for side in [Side::Left, Side::Right] {
                let found = upload(&Array1::from(sorted.clone()))
                    .searchsorted(&upload_vec(&values), side)
                    .unwrap()
                    .to_ndarray()
                    .unwrap();
                assert_eq!(found.len(), values.len());
                for (&value, &found) in values.iter().zip(&found) {
                    // As NumPy compares: zeros are equal, and NaN is behind all.
                    let is_nan = |x: T| x.partial_cmp(&x).is_none();
                    let is_before = |x: T| match (is_nan(x), is_nan(value)) {
                        (true, other) => other && side == Side::Right,
                        (_, true) => true,
                        _ => x < value || side == Side::Right && x == value,
                    };
                    let wanted = sorted.iter().filter(|&&x| is_before(x)).count();
                    assert_eq!(found, wanted as u64, "{value} of {len}, {side:?}");
                }
            }
        }
    }
}
for_types!(searches: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn searches_of_zeros_and_nan() {
    let sorted = upload(&array![
        f64::NEG_INFINITY,
        -1.0,
        -0.0,
        -0.0,
        0.0,
        0.5,
        f64::INFINITY,
        f64::NAN,
        -f64::NAN
    ]);
    let values = array![[0.0, -0.0, f64::NAN], [-f64::NAN, f64::INFINITY, f64::NEG_INFINITY]];
    let of = |side| {
        sorted
            .searchsorted(&upload(&values), side)
            .unwrap()
            .to_ndarray()
            .unwrap()
    };
    assert_eq!(of(Side::Left), array![[2, 2, 7], [7, 6, 0]]);
    assert_eq!(of(Side::Right), array![[5, 5, 9], [9, 7, 1]]);
    // The least integer has a float's bits of −0.
    let sorted = upload(&array![i32::MIN, i32::MIN, -1, 0, i32::MAX]);
    let found = sorted
        .searchsorted(&upload(&array![i32::MIN, 0, i32::MAX]), Side::Right)
        .unwrap();
    assert_eq!(found.to_ndarray().unwrap(), array![2, 4, 5]);
}

#[test]
fn searches_of_any_layout() {
    let x: ArrayD<f32> = layout_base(3);
    let sorted = upload(&array![-3.0f32, -1.5, 0.0, 2.0, 2.5, 100.0]);
    let every_other = sorted.slice(s![..;2]).unwrap();
    for (what, view) in layouts(&x) {
        let found = every_other
            .searchsorted(&upload(&view), Side::Left)
            .unwrap()
            .to_ndarray()
            .unwrap();
        let wanted = view.mapv(|x| [-3.0, 0.0, 2.5].iter().filter(|&&edge| edge < x || x.is_nan()).count() as u64);
        assert_eq!(found, wanted, "{what}");
    }
    assert_eq!(
        sorted
            .flip(Axis(0))
            .unwrap()
            .isin(&every_other)
            .unwrap()
            .to_ndarray()
            .unwrap(),
        array![0, 1, 0, 1, 0, 1]
    );
}

#[test]
fn elements_among_others() {
    let x = array![[1.0f32, f32::NAN, -0.0], [7.0, f32::INFINITY, 2.0]];
    let others = array![[2.0, f32::NAN], [0.0, 8.0]];
    assert_eq!(
        upload(&x).isin(&upload(&others)).unwrap().to_ndarray().unwrap(),
        array![[0, 0, 1], [0, 0, 1]]
    );
    let none = upload(&Array1::<f32>::zeros(0));
    assert_eq!(
        upload(&x).isin(&none).unwrap().to_ndarray().unwrap(),
        Array2::<u8>::zeros((2, 3))
    );
    assert!(none.isin(&upload(&x)).unwrap().is_empty());
    let x = Array1::from(random::<u16>(3000, 1));
    let others = random::<u16>(500, 2);
    let wanted = x.mapv(|x| u8::from(others.contains(&x)));
    assert_eq!(
        upload(&x).isin(&upload_vec(&others)).unwrap().to_ndarray().unwrap(),
        wanted
    );
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
