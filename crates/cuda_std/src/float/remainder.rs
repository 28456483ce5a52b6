// SPDX-License-Identifier: MIT OR Apache-2.0
//! The remainder of a division, exact: LLVM's own `frem` on a GPU subtracts a rounded product.
//!
//! If the quotient has no more bits than a significand, its integer part is that of the rounded one, or less by 1; then what is left is
//! a float, since it is a multiple of what the divisor is one of, and less than it. Else, by integers.

use super::machine::{double, single};

macro_rules! remainder {
    ($name:ident, $by_integers:ident: $float:ident of $bits:ident, $mantissa:literal bits of mantissa) => {
        /// `x − y · trunc(x / y)`, exact.
        #[inline]
        pub(super) fn $name(x: $float, y: $float) -> $float {
            let (a, b) = ($float::abs(x), $float::abs(y));
            let quotient = a / b;
            // Neither of NaN nor of an infinite quotient.
            if quotient < (1_u64 << $mantissa) as $float {
                let rest = $name::fma(-$name::trunc(quotient), b, a);
                let rest = if rest < 0.0 { rest + b } else { rest };
                // Also of infinite b, where it is no number.
                $float::copysign(if a < b { a } else { rest }, x)
            } else {
                $by_integers(x, y)
            }
        }

        /// The same of any numbers. Never inlined, because a kernel that treats many elements would otherwise carry it once for each.
        #[cold]
        #[inline(never)]
        fn $by_integers(x: $float, y: $float) -> $float {
            // As many places as a significand can be shifted in 64 bits.
            const ROOM: u32 = 63 - $mantissa;
            const LEADING: u64 = 1 << $mantissa;
            let (a, b) = ($float::abs(x), $float::abs(y));
            // Neither holds of NaN.
            if !(a < $float::INFINITY && b > 0.0) {
                return $float::NAN;
            }
            // A number is significand · 2^exponent, but for a factor that both have.
            let parts = |x: $float| {
                let bits = u64::from(x.to_bits());
                let (field, fraction) = ((bits >> $mantissa) as u32, bits & (LEADING - 1));
                if field == 0 {
                    (fraction, 1)
                } else {
                    (fraction | LEADING, field)
                }
            };
            let ((significand, exponent), (divisor, least)) = (parts(a), parts(b));
            // The divisor is not 0, which the compiler does not see: it would have the check panic.
            let remainder = |x: u64| x.checked_rem(divisor).unwrap_or(0);
            let mut rest = remainder(significand);
            let mut places = exponent - least;
            while places > 0 && rest > 0 {
                let step = Ord::min(places, ROOM);
                rest = remainder(rest << step);
                places -= step;
            }
            // rest · 2^least, normalised as far as the exponent goes. The leading bit adds one to the exponent below.
            let shift = Ord::min(least - 1, rest.leading_zeros().saturating_sub(ROOM));
            let exponent = u64::from(least - 1 - shift) << $mantissa;
            let bits = if rest == 0 { 0 } else { (rest << shift) + exponent };
            $float::copysign($float::from_bits(bits as $bits), x)
        }
    };
}

remainder!(single, single_by_integers: f32 of u32, 23 bits of mantissa);
remainder!(double, double_by_integers: f64 of u64, 52 bits of mantissa);

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all exponents, a few of each, and what is special.
    fn numbers(exponents: u64, mantissa: u32) -> Vec<u64> {
        let mut state = 7_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> (64 - mantissa)
        };
        let mut numbers = vec![0, 1, 2, (1 << mantissa) - 1];
        for exponent in 0..exponents {
            numbers.extend([exponent << mantissa, exponent << mantissa | random()]);
        }
        numbers
    }

    /// A quotient that is rounded up to an integer, the last and the first beyond the short way, and dividends of any size.
    #[test]
    fn remainders_next_to_multiples_are_those_of_rust() {
        let mut state = 9_u64;
        for k in 1..200_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let y = f32::from_bits((state >> 40) as u32 | 0x3f80_0000);
            let factor = (state >> 20) as u32 % (1 << (1 + k % 25));
            let multiple = factor as f32 * y;
            for x in [multiple.next_down(), multiple, multiple.next_up()] {
                assert_eq!(single(x, y).to_bits(), (x % y).to_bits(), "{x:e} % {y:e}");
                let (x, y) = (f64::from(x) * 2f64.powi((k % 31) as i32), f64::from(y) * 1.1);
                assert_eq!(double(x, y).to_bits(), (x % y).to_bits(), "{x:e} % {y:e}");
            }
        }
    }

    #[test]
    fn every_remainder_is_that_of_rust() {
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let all = numbers(256, 23);
        for &x in &all {
            for &y in &all {
                let (x, y) = (f32::from_bits(x as u32), f32::from_bits(y as u32));
                for (x, y) in [(x, y), (-x, y), (x, -y)] {
                    assert!(same(single(x, y), x % y), "{x:e} % {y:e}: {:e}", single(x, y));
                }
            }
        }
    }

    #[test]
    fn every_remainder_of_doubles_is_that_of_rust() {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let all = numbers(2048, 52);
        for &x in all.iter().step_by(7) {
            for &y in all.iter().step_by(11) {
                let (x, y) = (f64::from_bits(x), f64::from_bits(y));
                for (x, y) in [(x, y), (-x, y), (x, -y)] {
                    assert!(same(double(x, y), x % y), "{x:e} % {y:e}: {:e}", double(x, y));
                }
            }
        }
    }
}
