// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters of pictures against the same sums on the host, to the last bit.

use crate::common::*;
use ndarray::{Array2, Array3, Ix3, array, s};
use proptest::prelude::RngExt;
use warpsmith::ops::{Border, Pixel};
use warpsmith::{DeviceArray, Error};

/// A channel, as the host rounds it.
trait Channel: Pixel + Number {
    fn of(sum: f32) -> Self;
    fn wide(self) -> f32;
    fn scaled(number: f32) -> Self;
}

macro_rules! integers {
    ($($type:ident),*) => {$(
        impl Channel for $type {
            fn of(sum: f32) -> Self {
                // Halves up.
                (f64::from(sum) + 0.5).floor() as $type
            }

            fn wide(self) -> f32 {
                self.into()
            }

            fn scaled(number: f32) -> Self {
                (number * $type::MAX as f32) as $type
            }
        }
    )*};
}

integers!(u8, u16);

impl Channel for f32 {
    fn of(sum: f32) -> Self {
        sum
    }

    fn wide(self) -> f32 {
        self
    }

    fn scaled(number: f32) -> Self {
        number * 200.0 - 100.0
    }
}

/// The place of an axis of `n` that stands for place `i`; none of a constant.
fn source<T>(border: Border<T>, i: isize, n: usize) -> Option<usize> {
    let n = n as isize;
    let at = match border {
        _ if (0..n).contains(&i) => i,
        Border::Clamp => i.clamp(0, n - 1),
        Border::Reflect if i < 0 => -1 - i,
        Border::Reflect => 2 * n - 1 - i,
        Border::Wrap => i.rem_euclid(n),
        Border::Mean | Border::Constant(_) => return None,
    };
    Some(at as usize)
}

fn wanted<T: Channel>(picture: &Array3<T>, weights: &Array2<f32>, border: Border<T>) -> Array3<T> {
    let (rows, columns, channels) = picture.dim();
    let (above, before) = (weights.nrows() / 2, weights.ncols() / 2);
    let constant = if let Border::Constant(constant) = border {
        constant
    } else {
        T::ZERO
    };
    Array3::from_shape_fn(picture.dim(), |(y, x, channel)| {
        if channels == 4 && channel == 3 {
            return picture[[y, x, channel]];
        }
        let sum = weights.indexed_iter().fold(0.0f32, |sum, ((i, j), &weight)| {
            let row = source(border, (y + i) as isize - above as isize, rows);
            let column = source(border, (x + j) as isize - before as isize, columns);
            let pixel = match (row, column) {
                (Some(row), Some(column)) => picture[[row, column, channel]],
                _ => constant,
            };
            weight.mul_add(pixel.wide(), sum)
        });
        T::of(sum)
    })
}

fn picture<T: Channel>(shape: [usize; 3]) -> Array3<T> {
    let mut rng = rng(shape[1] as u64);
    Array3::from_shape_simple_fn(shape, || T::scaled(rng.random()))
}

fn weights(rows: usize, columns: usize) -> Array2<f32> {
    let mut rng = rng((rows * 10 + columns) as u64);
    Array2::from_shape_simple_fn((rows, columns), || rng.random::<f32>() - 0.3)
}

fn check<T: Channel>(shape: [usize; 3], weights: &Array2<f32>) {
    let picture = picture::<T>(shape);
    let x = upload(&picture);
    for border in [
        Border::Clamp,
        Border::Reflect,
        Border::Wrap,
        Border::Constant(T::scaled(0.7)),
    ] {
        let got = elements(&x.filter(weights, border).unwrap());
        let wanted = wanted(&picture, weights, border).into_raw_vec_and_offset().0;
        assert_same(
            &got,
            &wanted,
            &format!("{shape:?} by {:?}, {border:?}", weights.shape()),
        );
    }
}

/// Widths around a thread's pixels, a warp's and a block's, heights around a strip's.
fn three_by_three<T: Channel>() {
    let weights = weights(3, 3);
    for width in [1, 2, 3, 7, 8, 9, 12, 16, 20, 33, 129, 257] {
        check::<T>([3, width, 1], &weights);
    }
    for (height, width) in [(1, 8), (2, 8), (5, 8), (67, 8), (35, 9), (70, 16), (1, 32)] {
        check::<T>([height, width, 1], &weights);
    }
    for width in [1031, 1032, 2064] {
        check::<T>([2, width, 1], &weights);
    }
    check::<T>([4, 5, 3], &weights);
    check::<T>([4, 5, 4], &weights);
}

for_types!(three_by_three: u8 u16 f32);

/// Widths around a thread's pixels, with which rows begin at vectors or not, heights around a strip's; more channels; fewer weights.
fn five_by_five<T: Channel>() {
    let weights = weights(5, 5);
    for width in [3, 4, 7, 8, 9, 12, 15, 16, 24, 33, 257] {
        check::<T>([5, width, 1], &weights);
    }
    for (height, width) in [(2, 8), (3, 16), (9, 24), (70, 8), (1300, 16), (140, 9)] {
        check::<T>([height, width, 1], &weights);
    }
    for (width, channels) in [(8, 3), (19, 3), (8, 4), (11, 4)] {
        check::<T>([6, width, channels], &weights);
    }
    for (rows, columns) in [(4, 4), (2, 3), (5, 1), (3, 5), (7, 7), (6, 2)] {
        check::<T>([6, 17, 1], &self::weights(rows, columns));
        check::<T>([5, 24, 1], &self::weights(rows, columns));
        check::<T>([9, 12, 3], &self::weights(rows, columns));
    }
}

for_types!(five_by_five: u8 u16 f32);

fn any_weights<T: Channel>() {
    for (rows, columns) in [(1, 1), (1, 5), (4, 1), (2, 2), (5, 7), (9, 3)] {
        for channels in [1, 3, 4] {
            check::<T>([6, 5, channels], &weights(rows, columns));
            // A window that crosses no edge, one that crosses each, and rows whose numbers are stored together.
            check::<T>([9, 32, channels], &weights(rows, columns));
        }
    }
    check::<T>([6, 1100, 1], &weights(3, 12));
    check::<T>([530, 9, 3], &weights(5, 5));
}

for_types!(any_weights: u8 u16 f32);

/// Weights that are large or small, or differ much, by which integers are scaled.
fn scaled_weights<T: Channel>() {
    for factors in [
        [1e6; 3],
        [1e-6; 3],
        [2e30, 1.0, 2e30],
        [1e-38, 1e-40, 1e-45],
        [1.0, 1e-25, 1e-30],
    ] {
        let factor = |i: usize| {
            if i.is_multiple_of(2) {
                factors[i % 3]
            } else {
                -factors[i % 3]
            }
        };
        for (rows, columns) in [(3, 3), (2, 5), (5, 5)] {
            let mut weights = weights(rows, columns).abs();
            for (i, weight) in weights.iter_mut().enumerate() {
                *weight *= factor(i);
            }
            check::<T>([4, 33, 1], &weights);
            check::<T>([4, 16, 1], &weights);
        }
    }
}

for_types!(scaled_weights: u8 u16 f32);

/// A column times a row, rounded once.
fn products(rows: usize, columns: usize) -> Array2<f32> {
    let (column, row) = (weights(rows, 1), weights(1, columns));
    &column * &row
}

/// Those that are taken apart are off by no more than what the method promises, and a half where they are rounded: `n 2⁻²⁴ Σ|w||x|` for
/// `n` weights, of which `rows + columns` are products of the two passes and 16 what a weight may be off by.
fn check_products<T: Channel>(shape: [usize; 3], weights: &Array2<f32>, border: Border<T>) {
    let picture = picture::<T>(shape);
    let got = upload(&picture).filter(weights, border).unwrap().to_ndarray().unwrap();
    let sums = |weights: &Array2<f64>, of: fn(f32) -> f32| {
        let (above, before) = (weights.nrows() / 2, weights.ncols() / 2);
        Array3::from_shape_fn(shape, |(y, x, channel)| {
            weights.indexed_iter().fold(0.0, |sum: f64, ((i, j), &weight)| {
                let row = source(border, (y + i) as isize - above as isize, shape[0]);
                let column = source(border, (x + j) as isize - before as isize, shape[1]);
                let at = row
                    .zip(column)
                    .map(|(row, column)| of(picture[[row, column, channel]].wide()));
                sum + weight * f64::from(at.unwrap_or(0.0))
            })
        })
    };
    let exact = weights.mapv(f64::from);
    let (wanted, magnitudes) = (sums(&exact, |x| x), sums(&exact.abs(), f32::abs));
    for ((at, &got), (&wanted, &magnitude)) in got.indexed_iter().zip(wanted.iter().zip(&magnitudes)) {
        let what = format!("{at:?} of {shape:?} by {:?}, {border:?}", weights.shape());
        if shape[2] == 4 && at.2 == 3 {
            assert_eq!(got, picture[[at.0, at.1, at.2]], "{what}");
            continue;
        }
        let bound = weights.len() as f64 / f64::from(1 << 24) * magnitude;
        // What lies beyond a type's numbers is clamped.
        let [low, high] = [wanted - bound, wanted + bound].map(|sum| T::of(sum as f32).wide());
        assert!(
            (low..=high).contains(&got.wide()),
            "{what}: {got:?}, wanted {wanted} to {bound:e}"
        );
    }
}

/// Sizes around the least that are taken apart; pictures around a tile's and a strip's lengths, of each number of channels.
fn a_column_times_a_row<T: Channel>() {
    let zero = Border::Constant(T::ZERO);
    for (rows, columns) in [(7, 7), (7, 9), (9, 7), (15, 7), (11, 13)] {
        let weights = products(rows, columns);
        for border in [Border::Clamp, Border::Reflect, Border::Wrap, zero] {
            check_products::<T>([9, 12, 1], &weights, border);
        }
        check_products::<T>([19, 33, 3], &weights, Border::Reflect);
        check_products::<T>([8, 21, 4], &weights, zero);
    }
    check_products::<T>([7, 700, 1], &products(9, 9), Border::Wrap);
    check_products::<T>([70, 8, 1], &products(9, 9), Border::Clamp);
}

for_types!(a_column_times_a_row: u8 u16 f32);

/// Those that are nearly so, of an even number of rows or columns, or with few of them, are not taken apart, and no weights are where the
/// border is a constant other than 0.
fn what_is_not_taken_apart<T: Channel>() {
    let mut nearly = products(9, 9);
    nearly[[4, 2]] *= 1.001;
    check::<T>([12, 20, 1], &nearly);
    for (rows, columns) in [(8, 9), (9, 8), (5, 11), (11, 5)] {
        check::<T>([12, 20, 1], &products(rows, columns));
    }
    let (picture, weights, border) = (
        picture::<T>([12, 20, 3]),
        products(9, 9),
        Border::Constant(T::scaled(0.7)),
    );
    let got = elements(&upload(&picture).filter(&weights, border).unwrap());
    let wanted = wanted(&picture, &weights, border).into_raw_vec_and_offset().0;
    assert_same(&got, &wanted, "a constant border");
}

for_types!(what_is_not_taken_apart: u8 u16 f32);

/// NaN and infinities come to the windows that hold them, and to no others.
#[test]
fn what_is_no_number_stays_in_its_window_of_a_column_times_a_row() {
    for value in [f32::NAN, f32::INFINITY] {
        let mut picture = Array3::<f32>::ones((30, 31, 1));
        picture[[14, 15, 0]] = value;
        let got = upload(&picture).filter(&Array2::ones((9, 7)), Border::Clamp).unwrap();
        for ((y, x, _), &got) in got.to_ndarray().unwrap().indexed_iter() {
            let is_near = y.abs_diff(14) <= 4 && x.abs_diff(15) <= 3;
            assert_eq!(got.is_finite(), !is_near, "{value} at {y}, {x}");
        }
    }
}

/// A row whose sum overflows is of no account where its weights are 0.
#[test]
fn large_numbers_stay_in_their_row_of_a_column_times_a_row() {
    let mut weights = Array2::<f32>::zeros((7, 7));
    weights.row_mut(3).fill(1.0);
    for others in [0.0f32, 1e-3] {
        let mut picture = Array3::from_elem((20, 20, 1), others);
        picture.slice_mut(s![10, .., ..]).fill(1e38);
        let got = upload(&picture).filter(&weights, Border::Clamp).unwrap();
        for ((y, x, _), &got) in got.to_ndarray().unwrap().indexed_iter() {
            let what = format!("{got} at {y}, {x} among {others}");
            if y == 10 {
                assert_eq!(got, f32::INFINITY, "{what}");
            } else {
                assert!((got - 7.0 * others).abs() <= 1e-6 * others, "{what}");
            }
        }
    }
}

/// What lies beyond a type's numbers is clamped, halves go up, and NaN is 0.
#[test]
fn rounding() {
    let x = upload(&array![[[1u8], [2], [255]]]);
    let by = |weight: f32| elements(&x.filter(&array![[weight]], Border::Clamp).unwrap());
    assert_eq!(by(0.5), [1, 1, 128]);
    assert_eq!(by(-1.0), [0, 0, 0]);
    assert_eq!(by(200.0), [200, 255, 255]);
    assert_eq!(by(f32::NAN), [0, 0, 0]);
    let mut weights = Array2::zeros((3, 3));
    weights[[1, 1]] = f32::NAN;
    assert_eq!(elements(&x.filter(&weights, Border::Clamp).unwrap()), [0, 0, 0]);
}

/// A picture and an output that are parts of others, and begin between vectors.
#[test]
fn views() {
    let all = picture::<u8>([9, 25, 1]);
    let (x, weights) = (upload(&all), weights(3, 3));
    for columns in [1..25, 3..19] {
        let part = all.slice(s![2..8, columns.clone(), ..]).to_owned();
        let wanted = wanted(&part, &weights, Border::Reflect);
        let part = x.slice(s![2..8, columns.clone(), ..]).unwrap();
        let mut out = DeviceArray::<u8, Ix3>::zeros(device().default_stream(), (9, 25, 1)).unwrap();
        part.filter_into(
            &weights,
            Border::Reflect,
            &mut out.slice_mut(s![2..8, columns.clone(), ..]).unwrap(),
        )
        .unwrap();
        let out = out.to_ndarray().unwrap();
        assert_eq!(out.slice(s![2..8, columns, ..]), wanted);
        assert!(out.slice(s![..2, .., ..]).iter().all(|&x| x == 0));
    }
    // Lines that are aligned, from an address that is not.
    let line = upload(&picture::<u8>([1, 129, 1]));
    let part = line.slice(s![.., 1.., ..]).unwrap();
    let wanted = wanted(&part.to_ndarray().unwrap(), &weights, Border::Wrap);
    assert_eq!(
        part.filter(&weights, Border::Wrap).unwrap().to_ndarray().unwrap(),
        wanted
    );
}

#[test]
fn what_does_not_fit_is_an_error() {
    let x = upload(&picture::<u8>([4, 5, 1]));
    let refused = |weights: Array2<f32>, border: Border<u8>, wanted: &str| {
        let error = x.filter(&weights, border).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Parameter {
                    operation: "filter",
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains(wanted), "{error}");
    };
    refused(Array2::zeros((0, 3)), Border::Clamp, "at least one");
    refused(weights(3, 3), Border::Mean, "one that has pixels");
    refused(weights(11, 3), Border::Clamp, "given 11 × 3");
    let two = upload(&Array3::<u8>::zeros((4, 5, 2)));
    let error = two.filter(&weights(3, 3), Border::Clamp).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Shape {
                operation: "filter",
                ..
            }
        ),
        "{error}"
    );
    let mut out = DeviceArray::<u8, Ix3>::zeros(device().default_stream(), (4, 4, 1)).unwrap();
    assert!(x.filter_into(&weights(3, 3), Border::Clamp, &mut out).is_err());
    let none = upload(&Array3::<u8>::zeros((0, 5, 1)));
    assert!(none.filter(&weights(3, 3), Border::Clamp).unwrap().is_empty());
}
