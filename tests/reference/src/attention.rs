// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention of one query, and what the query adds to gradients, with bounds of what a device's results may be off by.

/// A query with what it sees.
pub struct Query<'a> {
    pub q: &'a [f64],
    /// The head's keys and values, one behind the other, each as long as `q`.
    pub keys: &'a [f64],
    pub values: &'a [f64],
    /// The numbers of those that the query sees, and what is added to their scores.
    pub seen: Vec<usize>,
    pub bias: Vec<f64>,
    /// What scores are multiplied with.
    pub scale: f64,
    /// Half the distance from 1 to the next number of the elements' type.
    pub unit_roundoff: f64,
    /// Whether elements have 16 bits, to which tensor cores round the weights.
    pub narrow: bool,
}

/// A query's results, and how far they may be off.
pub struct Row {
    /// The softmax.
    pub weights: Vec<f64>,
    /// By how much of itself a weight may be off, before it is rounded to 16 bits.
    pub of_weight: f64,
    pub log_sum: (f64, f64),
    pub out: Vec<(f64, f64)>,
}

/// Gradients as sums of what queries add: the sums, what their terms may be off by, and the terms' magnitudes.
pub struct Sums<'a> {
    pub of: &'a mut [f64],
    pub bounds: &'a mut [f64],
    pub magnitudes: &'a mut [f64],
}

impl Sums<'_> {
    fn add(&mut self, at: usize, x: f64, off: f64, by: f64) {
        self.of[at] += x * by;
        self.bounds[at] += off * by.abs();
        self.magnitudes[at] += (x * by).abs();
    }
}

/// The sum of products, and of their magnitudes.
fn dot(a: &[f64], b: &[f64]) -> (f64, f64) {
    let products = a.iter().zip(b).map(|(a, b)| a * b);
    products.fold((0.0, 0.0), |(sum, magnitude), x| (sum + x, magnitude + x.abs()))
}

impl Query<'_> {
    fn key(&self, number: usize) -> &[f64] {
        &self.keys[number * self.q.len()..][..self.q.len()]
    }

    fn value(&self, number: usize) -> &[f64] {
        &self.values[number * self.q.len()..][..self.q.len()]
    }

    /// The query's results.
    ///
    /// With `u = 2⁻²³`, for tensor cores truncate. A score is a sum of `d` products, off by at most `d u Σ|q||k|`, and is multiplied with
    /// a rounded factor, and what is added to it, too: as an exponent of 2 it is off by `(d + 4) u` of the greatest such magnitude `A`, and by as much as `4 u A` more
    /// for each tile of 64 keys, at which sums may be brought to another greatest score. (That score is subtracted from all, and falls
    /// out.) A weight has then the relative error of its exponent, times ln 2, and `2⁻²²` of the exponential: `e`, doubled for the second
    /// order. Rounded to 16 bits, it is off by `ρ` more, or, for f16, by `2⁻²⁵` where it is small; the sum of weights is at least 1.
    /// Both sums have as many terms as there are keys. So the quotient is off by `(2 e + ρ + 2 n u) Σ p|v|`, and rounded once.
    pub fn row(&self) -> Row {
        let (mut scores, mut largest) = (Vec::new(), 0.0f64);
        for (&key, bias) in self.seen.iter().zip(&self.bias) {
            let (sum, magnitude) = dot(self.q, self.key(key));
            scores.push(self.scale * sum + bias);
            largest = largest.max(self.scale.abs() * magnitude + bias.abs());
        }
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let (n, d, u) = (scores.len() as f64, self.q.len() as f64, 2f64.powi(-23));
        let largest = largest * std::f64::consts::LOG2_E;
        let tiles = (n / 64.0).ceil();
        let of_weight = 2.0 * ((d + 4.0 + 4.0 * tiles) * u * largest + 2f64.powi(-22));
        let of_rounding = if self.narrow { self.unit_roundoff } else { 0.0 };
        let weights: Vec<f64> = weights.iter().map(|weight| weight / sum.max(1.0)).collect();
        let log_sum = max + sum.ln();

        let mut terms = vec![[0.0; 3]; self.q.len()];
        for (&key, weight) in self.seen.iter().zip(&weights) {
            for ([wanted, magnitude, values], v) in terms.iter_mut().zip(self.value(key)) {
                *wanted += weight * v;
                *magnitude += weight * v.abs();
                *values += v.abs();
            }
        }
        let bounded = |[wanted, magnitude, values]: [f64; 3]| {
            let bound = (2.0 * of_weight + of_rounding + 2.0 * n * u) * magnitude
                + if self.narrow { values * 2f64.powi(-25) } else { 0.0 };
            let rounded = bound + self.unit_roundoff * (wanted.abs() + bound) + 2f64.powi(-24);
            (wanted, rounded)
        };
        Row {
            out: terms.into_iter().map(bounded).collect(),
            log_sum: (
                log_sum,
                2.0 * of_weight + 2.0 * n * u + 2f64.powi(-20) + 4.0 * u * log_sum.abs(),
            ),
            weights,
            of_weight,
        }
    }

    /// What the query's keys are weighted with, and the gradients of their scores, for `grad`, that of the result.
    ///
    /// A weight `P` is computed anew, from a score and a logarithm: it is off by what both are, `e`. Of the gradient `S = P (x − δ)` of a
    /// score, `x` is a sum of `d` products, off by `(d + 2) u Σ|g||v|`, and `δ` one of as many, `(d + 2) u Σ|g||o|`, of results that are off
    /// themselves.
    fn keys(&self, grad: &[f64]) -> Vec<Key> {
        let u = 2f64.powi(-23);
        let d = self.q.len() as f64;
        let row = self.row();
        let (log_sum, off) = row.log_sum;
        let e = 2.0 * (row.of_weight + off + 4.0 * u * log_sum.abs());
        let (mut delta, mut of_delta) = (0.0, 0.0);
        for (g, (out, off)) in grad.iter().zip(&row.out) {
            delta += g * out;
            of_delta += g.abs() * (off + (d + 2.0) * u * (out.abs() + off));
        }
        let key = |(&number, &weight): (&usize, &f64)| {
            let (product, magnitude) = dot(grad, self.value(number));
            let of_product = (d + 2.0) * u * magnitude;
            let score = weight * (product - delta);
            let of_score = e * score.abs()
                + weight * (1.0 + e) * (of_product + of_delta + 2.0 * u * (product.abs() + delta.abs()));
            Key {
                number,
                weight,
                of_weight: weight * e,
                score,
                of_score,
            }
        };
        self.seen.iter().zip(&row.weights).map(key).collect()
    }

    /// Adds to the gradients of the query, of the head's keys and of its values, for `grad`, that of the result.
    ///
    /// On tensor cores, weights and gradients of scores are rounded to 16 bits: by `ρ` of themselves, or `2⁻²⁵`.
    pub fn add_gradients(&self, grad: &[f64], [of_q, of_keys, of_values]: &mut [Sums<'_>; 3]) {
        let (rho, tiny) = match self.narrow {
            true => (self.unit_roundoff, 2f64.powi(-25)),
            false => (0.0, 0.0),
        };
        let d = self.q.len();
        for key in self.keys(grad) {
            let of_score = key.of_score + rho * (key.score.abs() + key.of_score) + tiny;
            let of_weight = key.of_weight + rho * key.weight + tiny;
            for (c, &g) in grad.iter().enumerate() {
                of_q.add(c, key.score, of_score, self.scale * self.key(key.number)[c]);
                of_keys.add(key.number * d + c, key.score, of_score, self.scale * self.q[c]);
                of_values.add(key.number * d + c, key.weight, of_weight, g);
            }
        }
    }

    /// Adds to the gradient of a bias, which has that of a key's score at a place.
    pub fn add_bias_gradient(&self, grad: &[f64], place: impl Fn(usize) -> usize, of_bias: &mut Sums<'_>) {
        for key in self.keys(grad) {
            of_bias.add(place(key.number), key.score, key.of_score, 1.0);
        }
    }
}

/// A key that a query sees: its weight, and the gradient of its score, with what they may be off by.
struct Key {
    number: usize,
    weight: f64,
    of_weight: f64,
    score: f64,
    of_score: f64,
}

/// Of gradients that were summed up from as many terms: bounds of the sums, to which the rounding of each result is added.
///
/// Each term adds an error of `u` of all magnitudes, twice for tensor cores; the gradient is rounded once.
pub fn bound_sums(sums: &mut Sums<'_>, terms: usize, unit_roundoff: f64) {
    let by_terms = 2.0 * (terms as f64 + 2.0) * 2f64.powi(-23);
    for ((bound, magnitude), x) in sums.bounds.iter_mut().zip(&*sums.magnitudes).zip(&*sums.of) {
        *bound += by_terms * (magnitude + *bound);
        *bound += unit_roundoff * (x.abs() + *bound) + 2f64.powi(-25);
    }
}
