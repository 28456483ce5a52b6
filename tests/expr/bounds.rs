// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random graphs against ndarray in `f64`, within bounds that are carried along with each value; on a GPU with the simulated one's bits.
//! `WARPSMITH_TEST_CASES_TIMES=100` makes 10,000 of them.

use ndarray::{Array2, Axis, Ix2, Zip};
use proptest::prelude::*;
use warpsmith::DeviceArray;
use warpsmith::expr::Expr;

use crate::common::expr::{both, on};
use crate::common::*;

/// The unit roundoff of `f32`.
const U: f64 = 1.0 / (1 << 24) as f64;

/// Half of the least `f32`: what a result that is subnormal is off by, beside its relative error.
const TINY: f64 = 1e-45;

/// An operation on the parts of these numbers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(usize, usize),
    Sub(usize, usize),
    Mul(usize, usize),
    Quotient(usize, usize),
    Larger(usize, usize),
    Tanh(usize),
    Sin(usize),
    Root(usize),
    Decay(usize),
    Part(usize),
    RowSums(usize),
    ColumnSums(usize),
}

/// What a part is, and how far from that an `f32` of it may be.
#[derive(Clone)]
struct Known {
    value: Array2<f64>,
    error: Array2<f64>,
}

impl Known {
    /// Of two parts: the value, and the error that theirs make of it, of a result that is rounded with so many `u`.
    fn of_two(a: &Self, b: &Self, roundings: f64, of: impl Fn([f64; 2], [f64; 2]) -> (f64, f64)) -> Self {
        let both = Zip::from(&a.value).and(&b.value).and(&a.error).and(&b.error);
        let pairs = both.map_collect(|&x, &y, &dx, &dy| {
            let (value, error) = of([x, y], [dx, dy]);
            (value, error + roundings * U * (value.abs() + error) + TINY)
        });
        Self {
            value: pairs.mapv(|pair| pair.0),
            error: pairs.mapv(|pair| pair.1),
        }
    }

    fn of_one(a: &Self, roundings: f64, of: impl Fn(f64, f64) -> (f64, f64)) -> Self {
        Self::of_two(a, a, roundings, |[x, _], [dx, _]| of(x, dx))
    }

    /// Sums along an axis, repeated along it. Of `n` numbers no more than `n` are added one after another.
    fn sums(&self, axis: Axis) -> Self {
        let n = self.value.len_of(axis) as f64;
        let largest = (&self.error + &self.value.mapv(f64::abs))
            .sum_axis(axis)
            .insert_axis(axis);
        let error = self.error.sum_axis(axis).insert_axis(axis) + largest * (n * U) + TINY;
        let value = self.value.sum_axis(axis).insert_axis(axis);
        let shape = self.value.raw_dim();
        Self {
            value: value.broadcast(shape).unwrap().to_owned(),
            error: error.broadcast(shape).unwrap().to_owned(),
        }
    }

    /// What a step makes of the parts before it. Functions are within 2 ulp, which are `4u`.
    fn after(step: Step, parts: &[Self]) -> Self {
        match step {
            Step::Add(a, b) => Self::of_two(&parts[a], &parts[b], 1.0, |[x, y], [dx, dy]| (x + y, dx + dy)),
            Step::Sub(a, b) => Self::of_two(&parts[a], &parts[b], 1.0, |[x, y], [dx, dy]| (x - y, dx + dy)),
            Step::Mul(a, b) => Self::of_two(&parts[a], &parts[b], 1.0, |[x, y], [dx, dy]| {
                (x * y, x.abs() * dy + y.abs() * dx + dx * dy)
            }),
            // By |y| + 1, which is rounded first.
            Step::Quotient(a, b) => Self::of_two(&parts[a], &parts[b], 1.0, |[x, y], [dx, dy]| {
                let divisor = y.abs() + 1.0;
                let off = dy + U * (divisor + dy);
                let quotient = x / divisor;
                (quotient, (dx + quotient.abs() * off) / (divisor - off).max(1e-3))
            }),
            Step::Larger(a, b) => Self::of_two(&parts[a], &parts[b], 0.0, |[x, y], [dx, dy]| (x.max(y), dx.max(dy))),
            Step::Tanh(a) => Self::of_one(&parts[a], 4.0, |x, dx| (x.tanh(), dx)),
            Step::Sin(a) => Self::of_one(&parts[a], 4.0, |x, dx| (x.sin(), dx)),
            // Of |x| + 1, where no derivative is larger than one half.
            Step::Root(a) => Self::of_one(&parts[a], 1.0, |x, dx| {
                let of = x.abs() + 1.0;
                (of.sqrt(), 0.5 * (dx + U * (of + dx)) / (1.0 - dx).max(0.25).sqrt())
            }),
            // Of −|x|, where no derivative is larger than 1.
            Step::Decay(a) => Self::of_one(&parts[a], 4.0, |x, dx| ((-x.abs()).exp(), dx)),
            Step::Part(a) => Self::of_one(&parts[a], 1.0, |x, dx| (x * 0.75, dx * 0.75)),
            Step::RowSums(a) => parts[a].sums(Axis(1)),
            Step::ColumnSums(a) => parts[a].sums(Axis(0)),
        }
    }

    fn largest(&self) -> f64 {
        self.value.iter().fold(0.0, |largest, x| x.abs().max(largest))
    }
}

/// The step that a number means; where the parts are large, one that makes them small again.
fn step(number: u8, a: usize, b: usize, parts: &[Known]) -> Step {
    let (a, b) = (a % parts.len(), b % parts.len());
    let is_large = parts[a].largest().max(parts[b].largest()) > 1e3;
    match number % 12 {
        0 => Step::Add(a, b),
        1 => Step::Sub(a, b),
        2 if !is_large => Step::Mul(a, b),
        3 => Step::Quotient(a, b),
        4 => Step::Larger(a, b),
        5 => Step::Sin(a),
        6 => Step::Root(a),
        7 => Step::Decay(a),
        8 => Step::Part(a),
        9 if !is_large => Step::RowSums(a),
        10 if !is_large => Step::ColumnSums(a),
        _ => Step::Tanh(a),
    }
}

fn expression<'a>(step: Step, parts: &[Expr<'a, f32, Ix2>]) -> Expr<'a, f32, Ix2> {
    match step {
        Step::Add(a, b) => &parts[a] + &parts[b],
        Step::Sub(a, b) => &parts[a] - &parts[b],
        Step::Mul(a, b) => &parts[a] * &parts[b],
        Step::Quotient(a, b) => &parts[a] / (parts[b].abs() + 1.0),
        Step::Larger(a, b) => parts[a].maximum(&parts[b]),
        Step::Tanh(a) => parts[a].tanh(),
        Step::Sin(a) => parts[a].sin(),
        Step::Root(a) => (parts[a].abs() + 1.0).sqrt(),
        Step::Decay(a) => (-parts[a].abs()).exp(),
        Step::Part(a) => &parts[a] * 0.75,
        // Sums stand beside the elements, or else their shape would be another one.
        Step::RowSums(a) => parts[a].sum_axis(Axis(1)).insert_axis(Axis(1)) + &parts[a] * 0.0,
        Step::ColumnSums(a) => parts[a].sum_axis(Axis(0)).insert_axis(Axis(0)) + &parts[a] * 0.0,
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn random_graphs_are_near_those_of_f64(
        (rows, columns) in (1usize..12, 1usize..40),
        numbers in prop::collection::vec((any::<u8>(), 0usize..100, 0usize..100), 1..25),
        seed in any::<u64>(),
    ) {
        let inputs = [seed, seed ^ 1].map(|seed| {
            let values = random::<i32>(rows * columns, seed).into_iter().map(|x| x as f32 / 2f32.powi(30));
            Array2::from_shape_vec((rows, columns), values.collect()).unwrap()
        });
        let mut known: Vec<Known> = inputs.iter().map(|x| Known {
            value: x.mapv(f64::from),
            error: Array2::zeros(x.raw_dim()),
        }).collect();
        let mut steps = Vec::new();
        for (number, a, b) in numbers {
            let step = step(number, a, b, &known);
            known.push(Known::after(step, &known));
            steps.push(step);
        }
        let got = both(|stream| {
            let arrays: [DeviceArray<f32, Ix2>; 2] = [on(stream, &inputs[0]), on(stream, &inputs[1])];
            let mut parts = vec![arrays[0].expr(), arrays[1].expr()];
            for &step in &steps {
                parts.push(expression(step, &parts));
            }
            parts.last().unwrap().eval()
        }, "a random graph");
        let wanted = known.last().unwrap();
        for ((got, value), error) in got.iter().zip(&wanted.value).zip(&wanted.error) {
            // What the bounds leave out is of the second order.
            let distance = (f64::from(*got) - value).abs();
            prop_assert!(distance <= 1.01 * error, "{got}, wanted {value} ± {error}: {steps:?}");
        }
    }
}
