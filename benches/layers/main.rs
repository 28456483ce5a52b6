// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the convolutions of layers.txt and their gradients take on the device, in bf16, with channels last:
//! `cargo bench --bench layers [-- PART...]`, of those whose names have one of these parts.
//!
//! `--unchecked` leaves out the checks, and `--small` has a few places of one image of each, as the simulated GPU has, for
//! compute-sanitizer. Prints a line for each layer and direction: the median of 30 calls in microseconds. Some elements of each result
//! are checked against sums in f64. benches/peers/layers.py prints the same of PyTorch.

use ndarray::IxDyn;
use warpsmith::{DeviceArray, Generator, bf16};
use warpsmith_lab::bench::{Bench, device_with_tensor_cores, is_wanted, parts_of_names};

type Array = DeviceArray<bf16, IxDyn>;

/// Elements of each result that are checked.
const CHECKED: usize = 24;

struct Layer {
    name: String,
    images: usize,
    channels: usize,
    outputs: usize,
    groups: usize,
    places: Vec<usize>,
    taps: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
}

/// The numbers of an array's shape, and of an element in C order.
fn digits(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (at, &length) in at.iter_mut().zip(shape).rev() {
        *at = number % length;
        number /= length;
    }
    at
}

fn number(at: &[usize], shape: &[usize]) -> usize {
    at.iter()
        .zip(shape)
        .fold(0, |number, (&at, &length)| number * length + at)
}

impl Layer {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words[i].parse::<usize>().expect("a number");
        let numbers = |i: usize| words[i].split('x').map(|n| n.parse().expect("a number")).collect();
        Self {
            name: words[0].into(),
            images: number(1),
            places: numbers(2),
            channels: number(3),
            outputs: number(4),
            taps: numbers(5),
            stride: numbers(6),
            padding: numbers(7),
            groups: number(8),
        }
    }

    fn of(first: usize, middle: &[usize], last: usize) -> Vec<usize> {
        [&[first], middle, &[last]].concat()
    }

    /// Input, weights and result.
    fn shapes(&self) -> [Vec<usize>; 3] {
        let out = |axis: usize| (self.places[axis] + 2 * self.padding[axis] - self.taps[axis]) / self.stride[axis] + 1;
        let out: Vec<usize> = (0..self.places.len()).map(out).collect();
        [
            Self::of(self.images, &self.places, self.channels),
            Self::of(self.outputs, &self.taps, self.channels / self.groups),
            Self::of(self.images, &out, self.outputs),
        ]
    }

    /// The sum of the products of which `wanted` is one's element, in operand `of` (input, weights, result), and of their magnitudes.
    fn sum(&self, of: usize, wanted: usize, operands: &[Vec<bf16>; 3]) -> [f64; 2] {
        let shapes = self.shapes();
        let axes = self.places.len();
        let at = digits(wanted, &shapes[of]);
        let (inner, outer) = (self.channels / self.groups, self.outputs / self.groups);
        let mut sums = [0.0; 2];
        let mut add = |image: usize, place: &[usize], tap: &[usize], output: usize, channel: usize| {
            let source = (0..axes).map(|i| (place[i] * self.stride[i] + tap[i]).checked_sub(self.padding[i]));
            let Some(source) = source.collect::<Option<Vec<usize>>>() else {
                return;
            };
            if source.iter().zip(&self.places).any(|(at, length)| at >= length) {
                return;
            }
            let numbers = [
                number(&Self::of(image, &source, output / outer * inner + channel), &shapes[0]),
                number(&Self::of(output, tap, channel), &shapes[1]),
                number(&Self::of(image, place, output), &shapes[2]),
            ];
            let others = [0, 1, 2].map(|i| if i == of { 1.0 } else { operands[i][numbers[i]].to_f64() });
            let product = others[0] * others[1] * others[2];
            sums[0] += product;
            sums[1] += product.abs();
        };
        let (middle, last) = (&at[1..=axes], at[axes + 1]);
        let taps: usize = self.taps.iter().product();
        match of {
            0 => {
                let group = last / inner;
                for tap in (0..taps).map(|i| digits(i, &self.taps)) {
                    let place = (0..axes).map(|i| {
                        let from = (middle[i] + self.padding[i]).checked_sub(tap[i])?;
                        let place = from / self.stride[i];
                        (from % self.stride[i] == 0 && place < shapes[2][i + 1]).then_some(place)
                    });
                    if let Some(place) = place.collect::<Option<Vec<usize>>>() {
                        (0..outer).for_each(|i| add(at[0], &place, &tap, group * outer + i, last % inner));
                    }
                }
            }
            1 => {
                let places: usize = shapes[2][1..=axes].iter().product();
                for place in (0..places).map(|i| digits(i, &shapes[2][1..=axes])) {
                    (0..self.images).for_each(|image| add(image, &place, middle, at[0], last));
                }
            }
            _ => {
                for tap in (0..taps).map(|i| digits(i, &self.taps)) {
                    (0..inner).for_each(|channel| add(at[0], middle, &tap, last, channel));
                }
            }
        }
        sums
    }

    /// Checks some elements of operand `of`, each the sum of `products` products at most, which were summed in f32 and rounded.
    fn check(&self, of: usize, got: &Array, operands: &[Vec<bf16>; 3]) -> anyhow::Result<()> {
        let got = got.to_ndarray()?;
        let got = got.as_slice().expect("it is in C order");
        // Sums over all places take the host long.
        let count = if of == 1 { 1 } else { CHECKED };
        for i in 0..count.min(got.len()) {
            let at = (i * 2_654_435_761 + i) % got.len();
            let [sum, magnitude] = self.sum(of, at, operands);
            let bound = 2f64.powi(-8) * sum.abs() + 1e-4 * magnitude + 1e-30;
            let got = got[at].to_f64();
            anyhow::ensure!(
                (got - sum).abs() <= bound,
                "{} of operand {of} at {at}: {got}, wanted {sum} to {bound:e}",
                self.name
            );
        }
        Ok(())
    }

    fn run(&self, bench: &Bench, is_checked: bool) -> anyhow::Result<()> {
        let mut generator = Generator::new(1);
        let mut random = |shape: &Vec<usize>| -> anyhow::Result<Array> {
            let numbers = generator.uniform(&bench.stream, IxDyn(shape), -1.0f32..1.0)?;
            Ok(numbers.cast()?)
        };
        let shapes = self.shapes();
        let (x, weights, out) = (random(&shapes[0])?, random(&shapes[1])?, random(&shapes[2])?);
        let host = |x: &Array| -> anyhow::Result<Vec<bf16>> { Ok(x.to_ndarray()?.into_raw_vec_and_offset().0) };
        let operands = [host(&x)?, host(&weights)?, host(&out)?];
        let layer = x
            .convolve(&weights)
            .stride(&self.stride[..])
            .padding(&self.padding[..])
            .groups(self.groups);
        for (direction, of) in [("forward", 2), ("input", 0), ("weights", 1)] {
            let mut result = bench.zeros(IxDyn(&[0]))?;
            let launch = |result: &mut Array| {
                *result = match of {
                    2 => layer.compute()?,
                    0 => layer.input_gradient(&out)?,
                    _ => layer.weight_gradient(&out)?,
                };
                Ok(())
            };
            let mut wrong = None;
            let times = bench.times(&mut result, launch, |result| {
                wrong = if is_checked {
                    self.check(of, result, &operands).err()
                } else {
                    None
                };
                Ok(())
            })?;
            let (median, min) = (times.median.as_secs_f64() * 1e6, times.min.as_secs_f64() * 1e6);
            println!("{} {direction} {median:.1} {min:.1}", self.name);
            if let Some(wrong) = wrong {
                println!("WRONG {wrong}");
            }
        }
        Ok(())
    }
}

fn main() -> anyhow::Result<()> {
    let has = |option: &str| std::env::args().any(|arg| arg == option);
    let is_checked = !has("--unchecked");
    let parts = parts_of_names();
    let device = device_with_tensor_cores()?;
    let is_small = device.is_simulator() || has("--small");
    let bench = Bench::new(&device, if is_small { 1 } else { 30 });
    let lines = include_str!("layers.txt").lines().filter(|line| !line.starts_with('#'));
    for mut layer in lines.map(Layer::parse) {
        if !is_wanted(&layer.name, &parts) {
            continue;
        }
        if is_small {
            layer.images = 1;
            for (place, tap) in layer.places.iter_mut().zip(&layer.taps) {
                *place = (*place).min(tap + 5);
            }
        }
        layer.run(&bench, is_checked)?;
    }
    Ok(())
}
