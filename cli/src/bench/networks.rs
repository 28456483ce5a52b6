// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of what else networks are made of: pooling, the largest elements of rows, and the gradient of an embedding.

use anyhow::Result;
use ndarray::{Array1, Array4, Axis, Ix2, Ix4};
use rayon::prelude::*;
use warpsmith::{DeviceArray, Result as OnDevice};

use super::check;
use super::data::{self, Value, bits};
use super::expressions::UNIT;
use super::measure::{Bench, Measurement};
use super::squares::host;

/// Channels of the pictures that are pooled.
const CHANNELS: usize = 64;

/// Elements of a row, and how many of the largest are found.
const COLUMNS: usize = 4096;
const LARGEST: usize = 32;

/// The most words of an embedding, and elements of each.
const WORDS: usize = 50_000;
const FEATURES: usize = 1024;

type Pictures = DeviceArray<f32, Ix4>;

fn element(i: usize) -> f32 {
    f32::random(bits(i))
}

/// Pictures in squares of about `n` elements in all, which are pooled in windows of 2 × 2.
struct Windows {
    side: usize,
    channels: usize,
}

impl Windows {
    fn new(n: usize) -> Self {
        let channels = CHANNELS.min(n);
        let side = (n / channels).isqrt();
        Self { side, channels }
    }

    fn len(&self) -> usize {
        self.side * self.side * self.channels
    }

    /// The side of what is pooled.
    fn half(&self) -> usize {
        self.side / 2
    }

    /// The places of the window of a result.
    fn places(&self, i: usize) -> [usize; 4] {
        let (place, channel) = (i / self.channels, i % self.channels);
        let (row, column) = (2 * (place / self.half()), 2 * (place % self.half()));
        [(0, 0), (0, 1), (1, 0), (1, 1)]
            .map(|(down, right)| ((row + down) * self.side + column + right) * self.channels + channel)
    }

    /// The place of the largest element of a window, of equal ones the first.
    fn largest(&self, i: usize) -> usize {
        let places = self.places(i);
        places[1..]
            .iter()
            .fold(places[0], |a, &b| if element(b) > element(a) { b } else { a })
    }

    fn pictures(&self, bench: &Bench, side: usize, element: impl Fn(usize) -> f32 + Sync + Send) -> Result<Pictures> {
        let elements = data::array(side * side * self.channels, element)?;
        let shape = (1, side, side, self.channels);
        bench.upload(&Array4::from_shape_vec(shape, elements.to_vec())?)
    }

    /// Measures what makes pictures of pictures, which are read and written once, and checks the elements.
    fn measure(
        &self,
        bench: &Bench,
        numbers: usize,
        launch: impl Fn() -> OnDevice<Pictures>,
        check: impl FnOnce(&[f32]) -> Result<()>,
    ) -> Result<Measurement> {
        let mut out = bench.zeros([0; 4])?;
        let times = bench.times(
            &mut out,
            |out| launch().map(|result| *out = result),
            |out| check(&host(out)?),
        )?;
        let measured =
            Measurement::new("f32", self.len(), 0, times).of_shape(&[1, self.side, self.side, self.channels]);
        Ok(measured.moving(numbers))
    }
}

pub fn max_pool(bench: &Bench, n: usize) -> Result<Measurement> {
    let windows = Windows::new(n);
    let x = windows.pictures(bench, windows.side, element)?;
    let launch = || x.max_pool(2).compute();
    let wanted = |i| element(windows.largest(i));
    windows.measure(bench, windows.len() / 4 * 5, launch, |got| check::every(got, &wanted))
}

/// Four elements from 0 to 1 are added, and their sum divided exactly.
pub fn average_pool(bench: &Bench, n: usize) -> Result<Measurement> {
    let windows = Windows::new(n);
    let x = windows.pictures(bench, windows.side, element)?;
    let launch = || x.average_pool(2).compute();
    let wanted = |i| {
        let mean = windows
            .places(i)
            .map(|place| f64::from(element(place)))
            .iter()
            .sum::<f64>()
            / 4.0;
        (mean, 4.0 * UNIT * mean)
    };
    windows.measure(bench, windows.len() / 4 * 5, launch, |got| {
        check::every_near(got, &wanted)
    })
}

pub fn max_pool_gradient(bench: &Bench, n: usize) -> Result<Measurement> {
    let windows = Windows::new(n);
    let of_result = |i: usize| element(windows.len() + i);
    let x = windows.pictures(bench, windows.side, element)?;
    let gradient = windows.pictures(bench, windows.half(), of_result)?;
    let launch = || x.max_pool(2).gradient(&gradient);
    let wanted = |i: usize| {
        let (place, channel) = (i / windows.channels, i % windows.channels);
        let (row, column) = (place / windows.side / 2, place % windows.side / 2);
        // Places at the end are in no window, where the side is odd.
        let is_inside = row.max(column) < windows.half();
        let window = (row * windows.half() + column) * windows.channels + channel;
        if is_inside && windows.largest(window) == i {
            of_result(window)
        } else {
            0.0
        }
    };
    windows.measure(bench, windows.len() / 4 * 9, launch, |got| check::every(got, &wanted))
}

/// The largest of each row; every place is checked, and so every element.
pub fn top_k(bench: &Bench, n: usize) -> Result<Measurement> {
    let columns = COLUMNS.min(n);
    let (rows, k) = (n / columns, LARGEST.min(columns));
    let n = rows * columns;
    let x = bench.upload(&data::array(n, element)?.into_shape_with_order((rows, columns))?)?;
    let mut out = (bench.zeros((0, 0))?, bench.zeros((0, 0))?);
    let times = bench.times(
        &mut out,
        |out| x.top_k(Axis(1), k).map(|result| *out = result),
        |(values, places)| {
            let (values, places) = (host(values)?, host(places)?);
            let wanted: Vec<u64> = (0..rows)
                .into_par_iter()
                .flat_map(|row| largest(row, columns, k))
                .collect();
            check::every(&places, &|i| wanted[i])?;
            check::every(&values, &|i| element(i / k * columns + wanted[i] as usize))
        },
    )?;
    // Of each of the largest, an element and its place.
    let measured = Measurement::new("f32", n, 0, times).of_shape(&[rows, columns]);
    Ok(measured.moving(n + 3 * rows * k))
}

/// The places of the largest elements of a row, of equal ones the first.
fn largest(row: usize, columns: usize, k: usize) -> Vec<u64> {
    let mut ranks: Vec<(f32, usize)> = (0..columns).map(|i| (-element(row * columns + i), i)).collect();
    ranks.sort_unstable_by(|a, b| a.partial_cmp(b).expect("numbers"));
    ranks[..k].iter().map(|&(_, place)| place as u64).collect()
}

/// What is added of `n` elements of words to the gradient of the table, in any order or in that of the words. Sums of sixteenths have
/// one result.
pub fn embedding_gradient(bench: &Bench, n: usize, in_order: bool) -> Result<Measurement> {
    let features = FEATURES.min(n);
    let count = n / features;
    let n = count * features;
    let words = (n / 16).clamp(1, WORDS);
    let term = |i: usize| f32::of_sum(f32::term(bits(i)));
    // Like letters of a text, the lower a word's number the more often it occurs.
    let word = |i: usize| (bits(n + 2 * i) as usize % words).min(bits(n + 2 * i + 1) as usize % words);
    let on_device = bench.upload(&(0..count).map(|i| word(i) as u32).collect::<Array1<_>>())?;
    let incoming = bench.upload(&data::array(n, term)?.into_shape_with_order((count, features))?)?;
    let mut gradient: DeviceArray<f32, Ix2> = bench.zeros((words, features))?;
    let times = bench.times(
        &mut gradient,
        |gradient| match in_order {
            true => gradient.scatter_add_in_order(Axis(0), &on_device, &incoming),
            false => gradient.scatter_add(Axis(0), &on_device, &incoming),
        },
        |gradient| {
            let mut of_word = vec![Vec::new(); words];
            (0..count).for_each(|i| of_word[word(i)].push(i));
            check::every(&host(gradient)?, &|i| {
                let (word, feature) = (i / features, i % features);
                let terms = of_word[word]
                    .iter()
                    .map(|place| f32::term(bits(place * features + feature)));
                f32::of_sum(terms.sum())
            })
        },
    )?;
    let measured = Measurement::new("f32", n, 0, times).of_shape(&[count, features]);
    Ok(measured.moving(3 * n + 2 * count))
}
