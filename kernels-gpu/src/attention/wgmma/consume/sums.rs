// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread of a consumer knows of its two queries: the base of their exponents, and the sum of their weights.

use cuda_std::float::approximate;
use cuda_std::prelude::*;
use cuda_std::wgmma::Accumulator;

use super::SCORES;
use crate::matmul::unroll;

/// The power of 2 that no weight is greater than.
const LAZY: f32 = 8.0;

/// 2 to the power of it.
const MOST_WEIGHT: f32 = 256.0;

/// The greatest sum of weights that are divided: the inverse of its power of 2 is a normal number.
const MOST_DIVIDED: f32 = f32::from_bits((127 + 126) << 23);

/// What a thread knows of its two queries.
pub(super) struct Sums {
    /// What is added to exponents of 2: about the greatest one so far, negated; 0 while there is none.
    pub(super) base: [f32; 2],
    /// The bits that exponents have to be less than, as integers: those of [`LAZY`], or [`i32::MIN`] while there is no exponent.
    limit: [i32; 2],
    /// The thread's part of the sum of weights.
    pub(super) sum: [f32; 2],
    /// Whether all queries of the warp had some exponent as that was last looked for.
    pub(super) have_base: bool,
}

impl Sums {
    pub(super) const NONE: Self = Self {
        base: [0.0; 2],
        limit: [i32::MIN; 2],
        sum: [0.0; 2],
        have_base: false,
    };

    /// Makes weights of scores, and says by what what came before is to be multiplied, if it is, which is the same for the whole warp. `BY_BOTH`
    /// has a sixteenth of them computed by ordinary cores; `BY_BITS` has the bits of all exponents asked whether one is too great, and not the greatest
    /// score.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn weigh<const BY_BOTH: bool, const BY_BITS: bool>(
        &mut self,
        scores: &mut Accumulator<SCORES>,
        factor: f32,
    ) -> Option<[f32; 2]> {
        let is_within = match BY_BITS {
            true => None,
            false => Some(self.are_within(greatest(scores), factor)),
        };
        scores.update(|i, score| Float::mul_add(score, factor, self.base[i / 2 % 2]));
        let is_within = is_within.unwrap_or_else(|| self.is_within(scores));
        // Seldom, and for the whole warp.
        let factors = match warp::any(warp::FULL_MASK, !is_within) {
            true => Some(self.move_base(scores)),
            false => None,
        };
        self.add::<BY_BOTH>(scores, factors.unwrap_or([1.0; 2]));
        factors
    }

    /// Finds whether all queries of the warp [have a base](Self::have_base). For whole warps.
    #[inline(always)]
    pub(super) fn look_for_base(&mut self) {
        self.have_base = !warp::any(warp::FULL_MASK, self.limit[0] == i32::MIN || self.limit[1] == i32::MIN);
    }

    /// Makes weights of scores as if none were too great, and gives the thread's sums of them. `BY_BOTH` as of [`weigh`](Self::weigh).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn powers<const BY_BOTH: bool>(&self, scores: &mut Accumulator<SCORES>, factor: f32) -> [f32; 2] {
        scores.update(|i, score| power::<BY_BOTH>(i, Float::mul_add(score, factor, self.base[i / 2 % 2])));
        sums_of(scores)
    }

    /// Adds these sums of weights, if no weight of the warp can be greater than 2 to the power of [`LAZY`]. For whole warps.
    #[inline(always)]
    pub(super) fn take(&mut self, of_tile: [f32; 2]) -> bool {
        if warp::any(warp::FULL_MASK, of_tile[0] > MOST_WEIGHT || of_tile[1] > MOST_WEIGHT) {
            return false;
        }
        self.sum[0] += of_tile[0];
        self.sum[1] += of_tile[1];
        true
    }

    /// Whether weights with these sums can be [divided](Self::divide). For whole warps.
    #[inline(always)]
    pub(super) fn can_divide(of_tile: [f32; 2]) -> bool {
        !warp::any(warp::FULL_MASK, of_tile[0] > MOST_DIVIDED || of_tile[1] > MOST_DIVIDED)
    }

    /// Divides weights, whose sums these are, by a power of 2, so that the greatest of a query is 1 to 2, if it is greater; and says by what what came
    /// before is to be multiplied. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn divide(&mut self, weights: &mut Accumulator<SCORES>, of_tile: [f32; 2]) -> [f32; 2] {
        let most = greatest(weights);
        let mut factors = [1.0; 2];
        unroll!(2, i => {
            if most[i] > 1.0 {
                // Of a number of the format, whose quotients are exact but for those that are next to nothing.
                let exponent = most[i].to_bits() >> 23;
                factors[i] = f32::from_bits((254 - exponent) << 23);
                self.base[i] -= (exponent as i32 - 127) as f32;
            }
            self.sum[i] = (self.sum[i] + of_tile[i]) * factors[i];
        });
        weights.update(|i, weight| weight * factors[i / 2 % 2]);
        factors
    }

    /// Makes weights of the first scores: the greatest of them is looked for at once, ahead of any exponent.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn weigh_first<const BY_BOTH: bool>(&mut self, scores: &mut Accumulator<SCORES>, factor: f32) {
        let most = greatest(scores);
        unroll!(2, i => {
            // Of scores of −∞ alone nothing is subtracted: ∞ − ∞ is no number.
            if most[i] > f32::NEG_INFINITY {
                let exponent = most[i] * factor;
                // Without a greatest exponent that is a number there are no weights that are.
                self.base[i] = if exponent < f32::INFINITY { -exponent } else { f32::NAN };
                self.limit[i] = LAZY.to_bits() as i32;
            }
        });
        scores.update(|i, score| Float::mul_add(score, factor, self.base[i / 2 % 2]));
        self.add::<BY_BOTH>(scores, [1.0; 2]);
    }

    /// Makes weights of exponents, and adds them to sums, which are multiplied first.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add<const BY_BOTH: bool>(&mut self, exponents: &mut Accumulator<SCORES>, [of_first, of_second]: [f32; 2]) {
        exponents.update(power::<BY_BOTH>);
        let of_tile = sums_of(exponents);
        self.sum[0] = Float::mul_add(self.sum[0], of_first, of_tile[0]);
        self.sum[1] = Float::mul_add(self.sum[1], of_second, of_tile[1]);
    }

    /// Whether all exponents of both queries are less than [`LAZY`]. Of integers there is an instruction for the greatest of three, no lanes have to
    /// exchange it, and numbers that are not negative have the order of their bits: any of them is greater than all that are.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is_within(&self, exponents: &Accumulator<SCORES>) -> bool {
        let mut most = [i32::MIN; 2];
        unroll!(16, j => {
            unroll!(4, i => {
                let bits = exponents.element(4 * j + i).to_bits() as i32;
                most[i / 2] = if bits > most[i / 2] { bits } else { most[i / 2] };
            });
        });
        most[0] < self.limit[0] && most[1] < self.limit[1]
    }

    /// As [`is_within`](Self::is_within), by the greatest score of each.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn are_within(&self, most: [f32; 2], factor: f32) -> bool {
        let of = |i: usize| (Float::mul_add(most[i], factor, self.base[i]).to_bits() as i32) < self.limit[i];
        of(0) && of(1)
    }

    /// Takes the greatest exponent for 0 of a query that had none, or of which one is greater than [`LAZY`], and says by what its sums are to be
    /// multiplied. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn move_base(&mut self, exponents: &mut Accumulator<SCORES>) -> [f32; 2] {
        let most = greatest(exponents);
        let (mut by, mut factors) = ([0.0; 2], [1.0; 2]);
        unroll!(2, i => {
            let most = most[i];
            let is_first = self.limit[i] == i32::MIN;
            // Of exponents of −∞ alone nothing is subtracted: ∞ − ∞ is no number.
            if if is_first { most > f32::NEG_INFINITY } else { most > LAZY } {
                by[i] = most;
                self.base[i] -= most;
                self.limit[i] = LAZY.to_bits() as i32;
            }
            // The sums are 0 at first, which ∞ times is no number.
            factors[i] = if is_first { 1.0 } else { approximate::exp2(-by[i]) };
        });
        exponents.update(|i, exponent| exponent - by[i / 2 % 2]);
        factors
    }
}

/// The thread's sums of the weights of each query.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn sums_of(weights: &Accumulator<SCORES>) -> [f32; 2] {
    // Four chains: two for each query.
    let weight = |i: usize| weights.element(i);
    let mut sums = [weight(0), weight(1), weight(2), weight(3)];
    unroll!(16, j => {
        if j > 0 {
            unroll!(4, i => {
                sums[i] += weight(4 * j + i);
            });
        }
    });
    [sums[0] + sums[1], sums[2] + sums[3]]
}

/// The greatest score, or exponent, of each query, of all lanes that have some. For whole warps.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn greatest(scores: &Accumulator<SCORES>) -> [f32; 2] {
    let mut most = [f32::NEG_INFINITY; 4];
    unroll!(16, j => {
        unroll!(4, i => {
            most[i] = Float::maximum_number(most[i], scores.element(4 * j + i));
        });
    });
    let mut of_both = [0.0; 2];
    unroll!(2, i => {
        let most = Float::maximum_number(most[2 * i], most[2 * i + 1]);
        let most = Float::maximum_number(most, warp::shuffle_xor(warp::FULL_MASK, most, 1));
        of_both[i] = Float::maximum_number(most, warp::shuffle_xor(warp::FULL_MASK, most, 2));
    });
    of_both
}

/// The weight of exponent number `i`; `BY_BOTH` as of [`Sums::weigh`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn power<const BY_BOTH: bool>(i: usize, exponent: f32) -> f32 {
    match BY_BOTH && i.is_multiple_of(16) {
        true => exp2_by_polynomial(exponent),
        false => approximate::exp2(exponent),
    }
}

/// 2 to the power of a number, off by less than 2⁻²² of itself, as [`approximate::exp2`] is: by the fused multiply-adds
/// of ordinary cores, where those have more time than the unit for special functions. Powers of less than 2⁻¹²⁶ may be 0, greater ones than 2¹²⁷ are that.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn exp2_by_polynomial(x: f32) -> f32 {
    // Behind the decimal point of a sum with 1.5 · 2²³ there is nothing: it is the nearest integer, in its last bits. NaN stays one.
    const ROUND: f32 = 12_582_912.0;
    // 1 and x times what (2ˣ − 1) / x is at the zeros of a Chebyshev polynomial of −0.505 to 0.505.
    const POWERS: [f32; 6] = [
        1.0,
        core::f32::consts::LN_2,
        0.240_223_36,
        0.055_503_797,
        0.009_667_341,
        0.001_338_226_4,
    ];
    // Greater ones would be any number, also such as are not found too great. Comparisons keep NaN.
    let x = if x < -127.0 { -127.0 } else { x };
    let x = if x > 127.0 { 127.0 } else { x };
    let rounded = x + ROUND;
    let part = x - (rounded - ROUND);
    let mut power = POWERS[5];
    unroll!(5, i => {
        power = Float::mul_add(power, part, POWERS[4 - i]);
    });
    power * f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_by_a_polynomial_are_as_precise_as_those_of_the_unit() {
        for i in -126 * 512..127 * 512 {
            let x = i as f32 / 512.0 + 0.000_37;
            let wanted = f64::from(x).exp2();
            let off = (f64::from(exp2_by_polynomial(x)) / wanted - 1.0).abs();
            assert!(off < 2f64.powi(-22), "{x}: {off:e}");
        }
        assert_eq!([0.0, 8.0, -3.0].map(exp2_by_polynomial), [1.0, 256.0, 0.125]);
        assert_eq!([-127.0, -1e30, f32::NEG_INFINITY].map(exp2_by_polynomial), [0.0; 3]);
        assert_eq!(
            [127.0, 128.0, 300.0, 1e30, f32::INFINITY].map(exp2_by_polynomial),
            [2f32.powi(127); 5]
        );
        assert!(2f32.powi(127) > MOST_DIVIDED && exp2_by_polynomial(f32::NAN).is_nan());
    }
}
