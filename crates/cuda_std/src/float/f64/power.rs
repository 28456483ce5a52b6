// SPDX-License-Identifier: MIT OR Apache-2.0
//! Powers of f64, without a branch.
//!
//! x^y = 2^(y log2 x). An error in the logarithm is multiplied by up to 1024 before it reaches the result, so log2 x and its
//! product with y are carried as unevaluated sums of two f64: log2 m = s (c1 + c3 v + v² P(v)) with s = (m − 1) / (m + 1) and
//! v = s², the first two terms in two f64 each, as in f32's. Against 113 bits, of millions of pairs, the result is off by 0.96 ulp at most.

use super::super::machine::double::fma;
use super::super::normal::{is_nan, magnitude, recip_of_normal, select, with_upper};
use super::super::pair::{Pair, fast_two_sum, pair_product};
use super::exp::{exp2_polynomial, scale, split_base_2};
use super::log::Split;

/// log2 x for finite x > 0, with a relative error below 2^-64.
#[inline(always)]
fn log2_pair(x: f64) -> Pair<f64> {
    // 2/ln 2 and a third of it.
    const C1: Pair<f64> = (2.885_390_081_777_926_8, 4.071_054_748_186_206_6e-17);
    const C3: Pair<f64> = (0.961_796_693_925_975_6, 5.057_761_664_812_590_7e-17);
    let Split { f, e, .. } = Split::new(x);
    // s = f / (2 + f) as a pair.
    let (denominator, rest) = fast_two_sum(2.0, f);
    let reciprocal = recip_of_normal(denominator);
    let quotient = f * reciprocal;
    let residue = fma(-quotient, rest, fma(-quotient, denominator, f));
    let s = (quotient, residue * reciprocal);
    let v = pair_product(s, s);
    let mut p = 0.176_776_535_134_388_04;
    p = fma(p, v.0, 0.167_937_243_751_993_8);
    p = fma(p, v.0, 0.192_428_793_031_192_3);
    p = fma(p, v.0, 0.221_951_494_167_706_6);
    p = fma(p, v.0, 0.262_308_211_059_507_63);
    p = fma(p, v.0, 0.320_598_897_802_269_2);
    p = fma(p, v.0, 0.412_198_583_111_844_6);
    p = fma(p, v.0, 0.577_078_016_355_584_2);
    // c3 + v P(v), then c1 + v (…), then s (…), and e.
    let high = fma(v.0, p, C3.0);
    let low = fma(v.0, p, C3.0 - high) + C3.1;
    let (high, low) = pair_product(v, (high, low));
    let (sum, rest) = fast_two_sum(C1.0, high);
    let (high, low) = pair_product(s, (sum, rest + (low + C1.1)));
    let (sum, rest) = fast_two_sum(e, high);
    (sum, rest + low)
}

/// |x|^y for finite x ≠ 0 and |y| ≤ 2^81.
#[inline(always)]
fn of_finite(x: f64, y: f64) -> f64 {
    // The upper word of 1100, beyond which all results are 0 or infinite.
    const MOST: u32 = 0x4091_3000;
    let (high, low) = log2_pair(x.abs());
    let product = high * y;
    let (high, low) = (product, fma(low, y, fma(high, y, -product)));
    let saturated = magnitude(high) >= MOST;
    let high = select(saturated, 1100f64.copysign(high), high);
    let low = select(saturated, 0.0, low);
    let (f, n) = split_base_2(high);
    scale(exp2_polynomial(f + low), n)
}

/// Whether y is an integer, and whether it is an odd one; of infinite y an even one.
#[inline(always)]
fn parity(y: f64) -> (bool, bool) {
    // Of 1, whose exponent has its last bit set, as the mantissa's hidden one is.
    const ONE: u32 = 1023;
    let field = magnitude(y) >> 20;
    let shift = field.wrapping_sub(ONE);
    // The bit of weight 1 comes to be the highest; those behind it are the fraction.
    let bits = y.to_bits() << (shift.wrapping_add(11) & 63);
    let (small, large) = (field < ONE, (shift > 52) & (field >= ONE));
    let whole = large | (!small & (bits << 1 == 0));
    (whole, !large & !small & (bits == 1 << 63))
}

/// As C's.
#[inline]
pub fn powf(x: f64, y: f64) -> f64 {
    // The upper word of 2^80, beyond which every x ≠ 1 has saturated.
    const LIMIT: u32 = 0x44f0_0000;
    let infinity = f64::INFINITY.to_bits();
    let (whole, odd) = parity(y);
    let power = of_finite(x, with_upper(y, magnitude(y).min(LIMIT)).copysign(y));
    let size = x.abs().to_bits();
    // 0 and infinite x are that, or the inverse.
    let limit = select((size == 0) == y.is_sign_negative(), f64::INFINITY, 0.0);
    let special = (size == 0) | (size >= infinity);
    let power = select(special, limit, power);
    let power = f64::from_bits(power.to_bits() ^ (x.to_bits() & select(odd, 1 << 63, 0)));
    let undefined = (x.is_sign_negative() & !whole & !special) | is_nan(x) | is_nan(y);
    let power = select(undefined, f64::NAN, power);
    select((x.to_bits() == 1f64.to_bits()) | (y.to_bits() << 1 == 0), 1.0, power)
}
