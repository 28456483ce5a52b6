// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread of a consumer knows of its two queries: the base of their exponents, and the sum of their weights.

use cuda_std::float::approximate;
use cuda_std::prelude::*;
use cuda_std::wgmma::Accumulator;

use super::SCORES;
use crate::matmul::unroll;

/// The power of 2 that no weight is greater than.
const LAZY: f32 = 8.0;

/// Elements of the first group of a tile's exponents. As soon as none of these is found to be too great their powers are on their way, beside which the
/// exponents of the others are computed and looked at: the unit for powers would have nothing to do until then.
const FIRST: usize = SCORES / 4;

/// What has come of a tile's scores so far.
struct Progress {
    /// By what is to be multiplied what came before the tile, and whether it is.
    factors: [f32; 2],
    has_moved: bool,
    /// Sums of weights, two for each query.
    sums: [f32; 4],
}

/// What a thread knows of its two queries.
pub(super) struct Sums {
    /// What is added to exponents of 2: about the greatest one so far, negated; 0 while there is none.
    pub(super) base: [f32; 2],
    /// The bits that exponents have to be less than, as integers: those of [`LAZY`], or [`i32::MIN`] while there is no exponent.
    limit: [i32; 2],
    /// The thread's part of the sum of weights.
    pub(super) sum: [f32; 2],
}

impl Sums {
    pub(super) const NONE: Self = Self {
        base: [0.0; 2],
        limit: [i32::MIN; 2],
        sum: [0.0; 2],
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
            false => Some(self.are_within(greatest::<0, SCORES>(scores), factor)),
        };
        scores.update(|i, score| Float::mul_add(score, factor, self.base[i / 2 % 2]));
        let is_within = is_within.unwrap_or_else(|| self.is_within::<0, SCORES>(scores));
        // Seldom, and for the whole warp.
        let factors = match warp::any(warp::FULL_MASK, !is_within) {
            true => Some(self.move_base::<0, SCORES>(scores)),
            false => None,
        };
        self.add::<BY_BOTH>(scores, factors.unwrap_or([1.0; 2]));
        factors
    }

    /// [`weigh`](Self::weigh) by both and by bits, of two groups of exponents.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn weigh_in_groups(&mut self, scores: &mut Accumulator<SCORES>, factor: f32) -> Option<[f32; 2]> {
        let mut tile = Progress {
            factors: [1.0; 2],
            has_moved: false,
            sums: [0.0; 4],
        };
        self.weigh_group::<0, FIRST>(scores, factor, &mut tile);
        self.weigh_group::<FIRST, SCORES>(scores, factor, &mut tile);
        let Progress { factors, sums, .. } = tile;
        self.sum[0] = Float::mul_add(self.sum[0], factors[0], sums[0] + sums[1]);
        self.sum[1] = Float::mul_add(self.sum[1], factors[1], sums[2] + sums[3]);
        tile.has_moved.then_some(factors)
    }

    /// Makes weights of the scores from number `FROM` to before `TO`, where those before are weights already: they are multiplied too, if one of these
    /// scores is too great.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn weigh_group<const FROM: usize, const TO: usize>(
        &mut self,
        scores: &mut Accumulator<SCORES>,
        factor: f32,
        tile: &mut Progress,
    ) {
        let is_of_group = |i: usize| FROM <= i && i < TO;
        scores.update(|i, score| match is_of_group(i) {
            true => Float::mul_add(score, factor, self.base[i / 2 % 2]),
            false => score,
        });
        let is_within = self.is_within::<FROM, TO>(scores);
        // Seldom, and for the whole warp.
        if warp::any(warp::FULL_MASK, !is_within) {
            let factors = self.move_base::<FROM, TO>(scores);
            scores.update(|i, weight| if i < FROM { weight * factors[i / 2 % 2] } else { weight });
            unroll!(4, i => {
                tile.sums[i] *= factors[i / 2];
            });
            tile.factors = [tile.factors[0] * factors[0], tile.factors[1] * factors[1]];
            tile.has_moved = true;
        }
        scores.update(|i, exponent| match is_of_group(i) {
            true => power::<true>(i, exponent),
            false => exponent,
        });
        unroll!(16, j => {
            if is_of_group(4 * j) {
                unroll!(4, i => {
                    tile.sums[i] += scores.element(4 * j + i);
                });
            }
        });
    }

    /// Makes weights of the first scores: the greatest of them is looked for at once, ahead of any exponent.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn weigh_first<const BY_BOTH: bool>(&mut self, scores: &mut Accumulator<SCORES>, factor: f32) {
        let most = greatest::<0, SCORES>(scores);
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
        // Four chains: two for each query.
        let weight = |i: usize| exponents.element(i);
        let mut sums = [weight(0), weight(1), weight(2), weight(3)];
        unroll!(16, j => {
            if j > 0 {
                unroll!(4, i => {
                    sums[i] += weight(4 * j + i);
                });
            }
        });
        self.sum[0] = Float::mul_add(self.sum[0], of_first, sums[0] + sums[1]);
        self.sum[1] = Float::mul_add(self.sum[1], of_second, sums[2] + sums[3]);
    }

    /// Whether all exponents of both queries from number `FROM` to before `TO` are less than [`LAZY`]. Of integers there is an instruction for the greatest of three, no lanes have to
    /// exchange it, and numbers that are not negative have the order of their bits: any of them is greater than all that are.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is_within<const FROM: usize, const TO: usize>(&self, exponents: &Accumulator<SCORES>) -> bool {
        let mut most = [i32::MIN; 2];
        unroll!(16, j => {
            if FROM <= 4 * j && 4 * j < TO {
                unroll!(4, i => {
                    let bits = exponents.element(4 * j + i).to_bits() as i32;
                    most[i / 2] = if bits > most[i / 2] { bits } else { most[i / 2] };
                });
            }
        });
        most[0] < self.limit[0] && most[1] < self.limit[1]
    }

    /// As [`is_within`](Self::is_within), by the greatest score of each.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn are_within(&self, most: [f32; 2], factor: f32) -> bool {
        let of = |i: usize| (Float::mul_add(most[i], factor, self.base[i]).to_bits() as i32) < self.limit[i];
        of(0) && of(1)
    }

    /// Of the exponents from number `FROM` to before `TO`, takes the greatest for 0 of a query that had none, or of which one is greater than [`LAZY`], and says by what its sums are to be
    /// multiplied. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn move_base<const FROM: usize, const TO: usize>(&mut self, exponents: &mut Accumulator<SCORES>) -> [f32; 2] {
        let most = greatest::<FROM, TO>(exponents);
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
        exponents.update(|i, exponent| match FROM <= i && i < TO {
            true => exponent - by[i / 2 % 2],
            false => exponent,
        });
        factors
    }
}

/// The greatest score, or exponent, of each query, of those from number `FROM` to before `TO` of all lanes that have some. For whole warps.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn greatest<const FROM: usize, const TO: usize>(scores: &Accumulator<SCORES>) -> [f32; 2] {
    let mut most = [f32::NEG_INFINITY; 4];
    unroll!(16, j => {
        if FROM <= 4 * j && 4 * j < TO {
            unroll!(4, i => {
                most[i] = Float::maximum_number(most[i], scores.element(4 * j + i));
            });
        }
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

/// 2 to the power of a number that is no greater than [`LAZY`], off by less than 2⁻²² of itself, as [`approximate::exp2`] is: by the fused multiply-adds
/// of ordinary cores, where those have more time than the unit for special functions. Powers of less than 2⁻¹²⁶ may be 0.
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
    let x = if x < -127.0 { -127.0 } else { x };
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
        for i in -126 * 512..=8 * 512 {
            let x = i as f32 / 512.0 + 0.000_37;
            let wanted = f64::from(x).exp2();
            let off = (f64::from(exp2_by_polynomial(x)) / wanted - 1.0).abs();
            assert!(off < 2f64.powi(-22), "{x}: {off:e}");
        }
        assert_eq!([0.0, 8.0, -3.0].map(exp2_by_polynomial), [1.0, 256.0, 0.125]);
        assert_eq!([-127.0, -1e30, f32::NEG_INFINITY].map(exp2_by_polynomial), [0.0; 3]);
        assert!(exp2_by_polynomial(f32::NAN).is_nan());
    }
}
