// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quotients of many numbers by one count.

use cuda_std::{Float, hint};

/// A count that several numbers are divided by, to the last bit: its reciprocal is computed once, and each quotient takes
/// three instructions in place of a division of some fifteen, and a few to see that its size is usual.
///
/// The product with the reciprocal is off by two units in its last place at most, and what it leaves of the number is
/// exact: a multiple of such a unit, less than 2^53 of them, since the count is an integer. With a part of that, the
/// quotient is off by a factor of 1 ± 2^-105 before it is rounded. No quotient by an integer of less than 2^50 is that near
/// to the middle of two neighbours, nor exactly there (P. Markstein, "Computation of elementary functions on the IBM RISC
/// System/6000 processor", 1990, has the like for any divisor).
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    value: f64,
    /// Of a count that is not so, NaN, which makes every quotient an unusual one.
    reciprocal: f64,
}

impl Divisor {
    /// A count, or 0.
    #[inline(always)]
    pub(super) fn new(value: f64) -> Self {
        let is_usual = value >= 1.0 && value < (1u64 << 50) as f64;
        Self {
            value,
            reciprocal: if is_usual { 1.0 / value } else { f64::NAN },
        }
    }

    /// `number` divided by it.
    #[inline(always)]
    pub(super) fn divide(self, number: f64) -> f64 {
        let near = number * self.reciprocal;
        let left = Float::mul_add(-near, self.value, number);
        let quotient = Float::mul_add(left, self.reciprocal, near);
        // Nothing is lost below normal numbers, nor is there anything that is infinite or NaN; or all is +0.
        if Float::abs(quotient) >= SMALL || number.to_bits() | quotient.to_bits() == 0 {
            return quotient;
        }
        // Opaque, or the compiler might divide each.
        opaque(number) / self.value
    }
}

/// Quotients of at least so much are of numbers whose remainders are normal, or 0.
const SMALL: f64 = 1e-280;

/// `value`, of which nothing is computed ahead of where this stands.
#[inline(always)]
pub(super) fn opaque(value: f64) -> f64 {
    let bits = value.to_bits();
    let (low, high) = (hint::opaque(bits as u32), hint::opaque((bits >> 32) as u32));
    f64::from_bits(u64::from(high) << 32 | u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_those_of_divisions() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::MIN_POSITIVE,
            5e-324,
            1e-300,
            -1e-280,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let counts = (0..2000).map(f64::from);
        let large = [1e9, 1e15, (1u64 << 50) as f64 - 1.0, 2e15, 1e18];
        let mut bits = 1u64;
        for count in counts.chain(large) {
            let divisor = Divisor::new(count);
            // Near to the middle of two quotients, as near as there are any: half a unit more than one, and neighbours.
            let near = (0..20).flat_map(|k| {
                bits = bits
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407 + k);
                let quotient = f64::from_bits(bits >> 12 | 0x3ff0_0000_0000_0000);
                let product = (quotient * count).to_bits() as i64;
                [-2, -1, 0, 1, 2].map(|step| f64::from_bits((product + step) as u64))
            });
            for number in special.into_iter().chain(near) {
                let (got, wanted) = (divisor.divide(number), number / count);
                let both_nan = got.is_nan() && wanted.is_nan();
                assert!(
                    both_nan || got.to_bits() == wanted.to_bits(),
                    "{number:e} / {count} is {got:e}, wanted {wanted:e}"
                );
            }
        }
    }
}
