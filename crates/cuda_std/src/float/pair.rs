// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of two numbers that are not added up, for what one number cannot hold.

use super::Float;

/// The sum of two numbers, the second little larger than the first one's rounding error.
pub type Pair<T> = (T, T);

/// a + b, where |a| ≥ |b| or a = 0 (T. J. Dekker, "A floating-point technique for extending the available precision", 1971).
#[inline(always)]
pub fn fast_two_sum<T: Float>(a: T, b: T) -> Pair<T> {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// (a + a') (b + b') but for a' b', as a product and what is to be added to it.
#[inline(always)]
pub fn pair_product<T: Float>(a: Pair<T>, b: Pair<T>) -> Pair<T> {
    let high = a.0 * b.0;
    let rest = a.0.mul_add(b.0, -high);
    (high, a.0.mul_add(b.1, a.1.mul_add(b.0, rest)))
}
