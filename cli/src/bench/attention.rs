// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of attention: of `bf16`, 16 heads of up to 4096 positions, as many problems as there are elements for.

use anyhow::Result;
use ndarray::{Array4, Ix4};
use rayon::prelude::*;
use std::ops::Range;
use warpsmith::ops::{Attention, Sequences};
use warpsmith::{DeviceArray, bf16};

use super::check;
use super::data::{array, bits};
use super::measure::{Bench, Limit, Measurement};

/// The most elements of a query, heads, and positions of a problem.
const DIM: usize = 128;
const HEADS: usize = 16;
const POSITIONS: usize = 4096;

/// Of decoding: positions, heads of keys, and heads of queries that share one.
const CACHED: usize = 8192;
const KEY_HEADS: usize = 8;
const SHARING: usize = 4;

/// Positions before its own that a query sees through a window, and those of a sequence that is packed with others.
const WINDOW: usize = 128;
const PACKED: usize = 1024;

/// Results that are checked: rows of them, and elements of a bias's gradient.
const ROWS: usize = 64;
const SCORES: usize = 4;

/// The unit roundoff of `bf16`.
const RHO: f64 = 1.0 / 256.0;

/// As tensor cores add.
const U: f64 = 1.0 / (1 << 23) as f64;

/// What an attention has besides its operands.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    Plain,
    Causal,
    /// Causal, and no further back than [`WINDOW`].
    Window,
    /// One for all problems and heads, with an element for each query and key.
    Bias,
    /// Sequences of [`PACKED`] positions, one after another.
    Packed,
    /// One query of each problem.
    Decode,
}

/// A number from −1 to 1.
fn number(i: usize) -> bf16 {
    bf16::from_f32((bits(i) >> 8) as f32 / (1 << 23) as f32 - 1.0)
}

/// The operands of an attention, and what its results are.
struct Problem {
    form: Form,
    /// Batch, heads, queries, and elements of a query.
    queries: [usize; 4],
    /// Of keys and values.
    keys: [usize; 4],
    q: DeviceArray<bf16, Ix4>,
    k: DeviceArray<bf16, Ix4>,
    v: DeviceArray<bf16, Ix4>,
    bias: Option<DeviceArray<bf16, Ix4>>,
    sequences: Option<Sequences>,
}

/// What numbers are of: where those of each begin.
#[derive(Clone, Copy)]
enum Of {
    Queries,
    Keys,
    Values,
    Gradient,
    Bias,
}

fn of(of: Of, i: usize) -> f64 {
    number((of as usize) << 40 | i).to_f64()
}

fn upload(bench: &Bench, shape: [usize; 4], of: Of) -> Result<DeviceArray<bf16, Ix4>> {
    let elements = array(shape.iter().product(), |i| number((of as usize) << 40 | i))?;
    bench.upload::<bf16, Ix4>(&Array4::from_shape_vec(shape, elements.to_vec())?)
}

impl Problem {
    /// With about `n` elements of queries, or of keys where there is one query of each problem.
    fn new(bench: &Bench, n: usize, form: Form) -> Result<Self> {
        let dim = DIM.min(n);
        let (most_heads, most) = match form {
            Form::Decode => (KEY_HEADS, CACHED),
            Form::Packed => (HEADS, usize::MAX),
            _ => (HEADS, POSITIONS),
        };
        // Of few elements each head has as many positions as there are heads, rather than one.
        let heads = most_heads.min((n / dim).isqrt());
        let all = n / dim / heads;
        let positions = all.min(most);
        let keys = [all / positions, heads, positions, dim];
        let queries = match form {
            Form::Decode => [keys[0], SHARING * heads, 1, dim],
            _ => keys,
        };
        let bias = (form == Form::Bias).then(|| upload(bench, [1, 1, positions, positions], Of::Bias));
        let lengths: Vec<usize> = (0..positions)
            .step_by(PACKED)
            .map(|at| PACKED.min(positions - at))
            .collect();
        let sequences = (form == Form::Packed).then(|| Sequences::new(&bench.stream, &lengths));
        Ok(Self {
            form,
            queries,
            keys,
            q: upload(bench, queries, Of::Queries)?,
            k: upload(bench, keys, Of::Keys)?,
            v: upload(bench, keys, Of::Values)?,
            bias: bias.transpose()?,
            sequences: sequences.transpose()?,
        })
    }

    fn attention(&self) -> Attention<'_, bf16> {
        let mut attention = self.q.attention(&self.k, &self.v);
        if matches!(self.form, Form::Causal | Form::Window) {
            attention = attention.causal();
        }
        if self.form == Form::Window {
            attention = attention.window(Some(WINDOW), None);
        }
        if let Some(bias) = &self.bias {
            attention = attention.bias(bias);
        }
        match &self.sequences {
            Some(sequences) => attention.packed(sequences),
            None => attention,
        }
    }

    /// The keys that a query sees.
    fn seen(&self, row: usize) -> Range<usize> {
        let keys = self.keys[2];
        match self.form {
            Form::Causal => 0..row + 1,
            Form::Window => row.saturating_sub(WINDOW)..row + 1,
            Form::Packed => {
                let first = row / PACKED * PACKED;
                first..keys.min(first + PACKED)
            }
            Form::Plain | Form::Bias | Form::Decode => 0..keys,
        }
    }

    /// Pairs of a query and a key that it sees, in all heads.
    fn pairs(&self) -> usize {
        let [batch, heads, queries, _] = self.queries;
        batch * heads * (0..queries).map(|row| self.seen(row).len()).sum::<usize>()
    }

    /// One of the queries, a number modulo their lengths.
    fn place(&self, number: usize) -> [usize; 3] {
        let at = |axis: usize| bits(3 * number + axis) as usize % self.queries[axis];
        [at(0), at(1), at(2)]
    }

    fn row(&self, [batch, head, row]: [usize; 3]) -> Row<'_> {
        let [_, heads, queries, dim] = self.queries;
        let [_, key_heads, keys, _] = self.keys;
        let query = ((batch * heads + head) * queries + row) * dim;
        let key = (batch * key_heads + head / (heads / key_heads)) * keys * dim;
        let scale = 1.0 / (dim as f64).sqrt();
        let seen = self.seen(row);
        let scores: Vec<f64> = seen
            .clone()
            .map(|j| {
                let product = dot(dim, |c| of(Of::Queries, query + c), |c| of(Of::Keys, key + j * dim + c));
                let bias = self.bias.as_ref().map_or(0.0, |_| of(Of::Bias, row * keys + j));
                scale * product + bias
            })
            .collect();
        let exponentials = scores.iter().map(|score| score.exp());
        let sum: f64 = exponentials.clone().sum();
        let weights: Vec<f64> = exponentials.map(|x| x / sum).collect();
        Row {
            problem: self,
            first: seen.start,
            query,
            key,
            scale,
            weights,
            log_sum: sum.ln(),
        }
    }
}

fn dot(len: usize, a: impl Fn(usize) -> f64, b: impl Fn(usize) -> f64) -> f64 {
    (0..len).map(|c| a(c) * b(c)).sum()
}

/// A query, and the weights of the keys that it sees from the first one on.
struct Row<'a> {
    problem: &'a Problem,
    first: usize,
    /// Where its elements begin, and those of its keys.
    query: usize,
    key: usize,
    scale: f64,
    weights: Vec<f64>,
    log_sum: f64,
}

impl Row<'_> {
    fn dim(&self) -> usize {
        self.problem.queries[3]
    }

    /// The element of a key, or of a value, that the query sees.
    fn element(&self, of_keys: Of, number: usize, column: usize) -> f64 {
        of(of_keys, self.key + (self.first + number) * self.dim() + column)
    }

    /// By how much of itself a weight may be off before it is rounded: numbers are at most 1, and so is a bias. (tests/attention.rs
    /// has the derivation of this and what follows.)
    fn of_weight(&self) -> f64 {
        let (d, n) = (self.dim() as f64, self.weights.len() as f64);
        let largest = (self.scale * d + 1.0) * std::f64::consts::LOG2_E;
        2.0 * ((d + 4.0 + 4.0 * (n / 64.0).ceil()) * U * largest + U)
    }

    /// The result, with what its elements may be off by.
    fn out(&self) -> Vec<(f64, f64)> {
        let of_sums = 2.0 * self.weights.len() as f64 * U;
        let column = |c: usize| {
            let terms = self.weights.iter().enumerate();
            let (sum, magnitude) = terms.fold((0.0, 0.0), |(sum, magnitude), (j, weight)| {
                let term = weight * self.element(Of::Values, j, c);
                (sum + term, magnitude + term.abs())
            });
            let off = (2.0 * self.of_weight() + RHO + of_sums) * magnitude;
            (sum, off + RHO * (sum.abs() + off))
        };
        (0..self.dim()).map(column).collect()
    }

    /// The gradients of the scores of the keys that it sees, with what they may be off by.
    fn scores(&self) -> Vec<(f64, f64)> {
        let (d, n) = (self.dim() as f64, self.weights.len() as f64);
        let grad = |c: usize| of(Of::Gradient, self.query + c);
        let of_log_sum = 2.0 * self.of_weight() + 2.0 * n * U + 4.0 * U * (2.0 + self.log_sum.abs());
        let e = 2.0 * (self.of_weight() + of_log_sum + 4.0 * U * self.log_sum.abs());
        let (delta, of_delta) = self
            .out()
            .iter()
            .enumerate()
            .fold((0.0, 0.0), |(sum, of_sum), (c, (out, off))| {
                (sum + grad(c) * out, of_sum + grad(c).abs() * (off + (d + 2.0) * U))
            });
        let of_product = (d + 2.0) * U * d;
        let score = |(j, weight): (usize, &f64)| {
            let product = dot(self.dim(), grad, |c| self.element(Of::Values, j, c));
            let score = weight * (product - delta);
            let off = (e + RHO) * score.abs() + weight * (1.0 + e) * (1.0 + RHO) * (of_product + of_delta);
            (score, off)
        };
        self.weights.iter().enumerate().map(score).collect()
    }

    /// The query's gradient, with what its elements may be off by.
    fn gradient(&self) -> Vec<(f64, f64)> {
        let scores = self.scores();
        let of_sums = 2.0 * scores.len() as f64 * U;
        let column = |c: usize| {
            let (mut sum, mut off) = (0.0, 0.0);
            for (j, (score, of_score)) in scores.iter().enumerate() {
                let key = self.scale * self.element(Of::Keys, j, c);
                sum += score * key;
                off += (of_score + of_sums * score.abs()) * key.abs();
            }
            (sum, off + RHO * (sum.abs() + off))
        };
        (0..self.dim()).map(column).collect()
    }
}

/// Checks some rows.
fn check_rows(
    problem: &Problem,
    got: &DeviceArray<bf16, Ix4>,
    wanted: impl Fn(&Row<'_>) -> Vec<(f64, f64)> + Sync,
) -> Result<()> {
    let got = got.to_ndarray()?;
    (0..ROWS).into_par_iter().try_for_each(|number| {
        let [batch, head, row] = problem.place(number);
        let wanted = wanted(&problem.row([batch, head, row]));
        wanted.iter().enumerate().try_for_each(|(column, &(wanted, bound))| {
            let place = format_args!("{batch}, {head}, {row}, {column}");
            check::near(place, got[[batch, head, row, column]].to_f64(), wanted, bound)
        })
    })
}

/// The measurement of so many operations for each element of a pair.
fn measured(problem: &Problem, operations: usize, times: super::measure::Times) -> Measurement {
    let n = problem.q.len().max(problem.k.len());
    let shape = if problem.form == Form::Decode {
        problem.keys
    } else {
        problem.queries
    };
    let measured = Measurement::new("bf16", n, 0, times).of_shape(&shape);
    Measurement {
        bytes: (size_of::<bf16>() * (2 * problem.q.len() + 2 * problem.k.len())) as f64,
        operations: (operations * problem.queries[3] * problem.pairs()) as f64,
        limit: if problem.form == Form::Decode {
            Limit::Bandwidth
        } else {
            Limit::Arithmetic
        },
        ..measured
    }
}

/// The result.
pub fn forward(bench: &Bench, n: usize, form: Form) -> Result<Measurement> {
    let problem = Problem::new(bench, n, form)?;
    let mut out = bench.zeros([0; 4])?;
    let times = bench.times(
        &mut out,
        |out| problem.attention().compute().map(|result| *out = result),
        |out| check_rows(&problem, out, |row| row.out()),
    )?;
    Ok(measured(&problem, 4, times))
}

/// The gradients of queries, keys and values; of these the queries' is checked.
pub fn gradients(bench: &Bench, n: usize, form: Form) -> Result<Measurement> {
    let problem = Problem::new(bench, n, form)?;
    let grad = upload(bench, problem.queries, Of::Gradient)?;
    let (out, log_sums) = problem.attention().compute_with_log_sum_exp()?;
    let mut all = [bench.zeros([0; 4])?, bench.zeros([0; 4])?, bench.zeros([0; 4])?];
    let times = bench.times(
        &mut all,
        |all| {
            problem
                .attention()
                .gradients(&out, &log_sums, &grad)
                .map(|result| *all = result)
        },
        |[dq, ..]| check_rows(&problem, dq, |row| row.gradient()),
    )?;
    Ok(measured(&problem, 10, times))
}

/// The gradient of a bias.
pub fn bias_gradient(bench: &Bench, n: usize) -> Result<Measurement> {
    let problem = Problem::new(bench, n, Form::Bias)?;
    let grad = upload(bench, problem.queries, Of::Gradient)?;
    let (out, log_sums) = problem.attention().compute_with_log_sum_exp()?;
    let mut of_bias = bench.zeros([0; 4])?;
    let times = bench.times(
        &mut of_bias,
        |of_bias| {
            let gradient = problem.attention().bias_gradient(&out, &log_sums, &grad);
            gradient.map(|gradient| *of_bias = gradient)
        },
        |of_bias| check_scores(&problem, of_bias),
    )?;
    Ok(measured(&problem, 4, times))
}

/// Checks some elements of a bias's gradient, each of which is a sum over all problems and heads.
fn check_scores(problem: &Problem, got: &DeviceArray<bf16, Ix4>) -> Result<()> {
    let got = got.to_ndarray()?;
    let [batch, heads, ..] = problem.queries;
    (0..SCORES).try_for_each(|number| {
        let [.., row] = problem.place(number);
        let key = bits(number) as usize % problem.keys[2];
        let terms = (0..batch * heads).into_par_iter().map(|i| {
            let (score, off) = problem.row([i / heads, i % heads, row]).scores()[key];
            (score, off + 2.0 * (batch * heads) as f64 * U * score.abs())
        });
        let (wanted, off) = terms.reduce(|| (0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let bound = off + RHO * (wanted.abs() + off);
        check::near(
            format_args!("{row}, {key}"),
            got[[0, 0, row, key]].to_f64(),
            wanted,
            bound,
        )
    })
}
