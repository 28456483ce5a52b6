// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inverse trigonometric functions of f64, without a branch.
//!
//! Odd polynomials up to 1/2 or a little more. Other arguments of an arc sine are brought there by
//! asin x = π/2 − 2 asin √((1 − x) / 2), those of an arc tangent by atan x = π/4 + atan ((x − 1) / (x + 1)) up to 2 and
//! atan x = π/2 − atan 1/x beyond. What is added is added without the rounding error of the sum, and quotients and roots have
//! their remainders. Against 113 bits, of millions of arguments, arc sine and arc tangent are off by 0.77 ulp at most, arc cosine
//! by 0.98, of which the root's rounding error has half, and `atan2` by 1.16, since the sum x + y is rounded.

use super::super::machine::double::fma;
use super::super::normal::{magnitude, near_recip, select, sqrt_of_normal, upper, with_upper};
use core::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// What π/2 is more than its f64. That of π/4 is half as much, that of π twice.
const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;
/// 3π/4 in two parts.
const THREE_FRAC_PI_4: f64 = 2.356_194_490_192_345;
const THREE_FRAC_PI_4_LOW: f64 = 9.184_850_993_605_148e-17;

/// The upper word of 1/2, and what is added to such a word for twice the number.
const HALF: u32 = 0x3fe0_0000;
const EXPONENT_ONE: u32 = 0x0010_0000;

/// `base` + `step` + `low`, where `step` is 0, or less than `base`, or `base` is 0.
#[inline(always)]
fn sum(base: f64, step: f64, low: f64) -> f64 {
    let high = base + step;
    high + ((step - (high - base)) + low)
}

/// (asin v − v) / (v s) for |v| ≤ 1/2, where s = v², with an error of 2^-58 relative to asin v.
#[inline(always)]
fn asin_ratio(s: f64) -> f64 {
    let mut p = 0.031_958_320_845_835_13;
    p = fma(p, s, -0.016_293_083_579_745_314);
    p = fma(p, s, 0.019_573_238_783_550_675);
    p = fma(p, s, 0.006_511_112_724_201_546);
    p = fma(p, s, 0.012_173_215_152_052_518);
    p = fma(p, s, 0.013_884_608_983_850_135);
    p = fma(p, s, 0.017_359_769_954_605_985);
    p = fma(p, s, 0.022_371_753_606_766_64);
    p = fma(p, s, 0.030_381_959_327_400_26);
    p = fma(p, s, 0.044_642_856_823_587_596);
    p = fma(p, s, 0.075_000_000_003_429);
    fma(p, s, 0.166_666_666_666_653_83)
}

/// v ≤ 1/2 for which |x| has the arc sine asin v, or π/2 − 2 asin v where `far`; `ratio` is (asin v − v) / v, and `rest` what √
/// lacks of a root v, times 2 v, and 0 for others. NaN for |x| > 1.
struct Reduced {
    v: f64,
    ratio: f64,
    rest: f64,
    far: bool,
}

#[inline(always)]
fn reduce(x: f64) -> Reduced {
    let a = x.abs();
    let far = magnitude(x) >= HALF;
    // Exact where it is asked for.
    let half = fma(a, -0.5, 0.5);
    let root = sqrt_of_normal(half);
    let root = select(half.to_bits() == 0, 0.0, root);
    let s = select(far, half, a * a);
    Reduced {
        v: select(far, root, a),
        ratio: asin_ratio(s) * s,
        rest: select(far, fma(-root, root, half), 0.0),
        far,
    }
}

#[inline]
pub fn asin(x: f64) -> f64 {
    let Reduced { v, ratio, rest, far } = reduce(x);
    let (base, low) = (select(far, FRAC_PI_2, 0.0), select(far, FRAC_PI_2_LOW, 0.0));
    let step = v * select(far, -2.0, 1.0);
    // The root's rest over v, which is 5.83 − 8 v within 6 % where the rest is not little against the result: v ≥ 1/4.
    let low = fma(rest, fma(v, 8.0, -5.83), low);
    sum(base, step, fma(ratio, step, low)).copysign(x)
}

#[inline]
pub fn acos(x: f64) -> f64 {
    let Reduced { v, ratio, rest, far } = reduce(x);
    let left = x.is_sign_negative();
    // A quarter turn, or where `far` a half turn or none.
    let (turn, turn_low) = (select(left, PI, 0.0), select(left, 2.0 * FRAC_PI_2_LOW, 0.0));
    let (base, low) = (select(far, turn, FRAC_PI_2), select(far, turn_low, FRAC_PI_2_LOW));
    // The sign that the arc sine is added with.
    let sign = u64::from(left == far) << 63;
    let signed = |y: f64| f64::from_bits(y.to_bits() ^ sign);
    let step = signed(v * select(far, 2.0, 1.0));
    // As in `asin`.
    let low = fma(rest, signed(fma(v, -8.0, 5.83)), low);
    sum(base, step, fma(ratio, step, low))
}

/// (atan v − v) / (v s) for |v| ≤ 0.547, where s = v², with an error of 2^-58.8 relative to atan v.
#[inline(always)]
fn atan_ratio(s: f64) -> f64 {
    let mut p = -0.006_425_971_409_059_736_5;
    p = fma(p, s, 0.020_360_201_857_196_183);
    p = fma(p, s, -0.034_642_839_326_869_686);
    p = fma(p, s, 0.044_811_415_897_652_59);
    p = fma(p, s, -0.051_994_775_545_863_965);
    p = fma(p, s, 0.058_720_045_732_266_26);
    p = fma(p, s, -0.066_654_684_624_563_16);
    p = fma(p, s, 0.076_922_104_783_004_64);
    p = fma(p, s, -0.090_909_037_329_551);
    p = fma(p, s, 0.111_111_109_206_376_26);
    p = fma(p, s, -0.142_857_142_817_105_85);
    p = fma(p, s, 0.199_999_999_999_575_57);
    fma(p, s, -0.333_333_333_333_331_76)
}

/// `base` + `low` ± atan (n / d), where the quotient is at most 0.547 in size, and the sign is that of `sign`'s highest bit.
#[inline(always)]
fn add_atan((base, low): (f64, f64), n: f64, d: f64, sign: u64) -> f64 {
    let inverse = near_recip(d);
    let n = f64::from_bits(n.to_bits() ^ sign);
    let v = n * inverse;
    let s = v * v;
    let low = fma(fma(-d, v, n), inverse, low);
    sum(base, v, fma(atan_ratio(s), s * v, low))
}

#[inline]
pub fn atan(x: f64) -> f64 {
    // Of 2^100, whose inverse is nothing against π/2.
    const LARGE: u32 = 0x4630_0000;
    // Of 0.546875 and 2: a sum is an angle of 1/2 or more, of whose ulp its rounding errors take less.
    const MIDDLE: u32 = 0x3fe1_8000;
    const FAR: u32 = 0x4000_0000;
    let word = magnitude(x);
    let a = with_upper(x, word.min(LARGE));
    let (middle, far) = (word >= MIDDLE, word >= FAR);
    let n = select(far, 0.0, a) - select(middle, 1.0, 0.0);
    let d = select(middle, a, 0.0) + select(far, 0.0, 1.0);
    // π/4 or π/2, in two parts, or 0.
    let eighths = |eighth: f64| {
        let word = select(far, upper(eighth) + EXPONENT_ONE, upper(eighth));
        select(middle, with_upper(eighth, word), 0.0)
    };
    let low = select(x.is_nan(), x, eighths(0.5 * FRAC_PI_2_LOW));
    add_atan((eighths(FRAC_PI_4), low), n, d, 0).copysign(x)
}

/// The angle of the point (x, y): the octant's arc tangent, of a ratio ≤ 1, unfolded.
#[inline]
pub fn atan2(y: f64, x: f64) -> f64 {
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ay.to_bits() > ax.to_bits();
    let left = x.is_sign_negative();
    let (near, far) = (select(steep, ax, ay), select(steep, ay, ax));
    // By a power of two, that of `far` is next to 1, and neither product nor quotient is out of range.
    let field = (magnitude(far) >> 20).clamp(1, 2045);
    let scale = f64::from_bits(u64::from(2046 - field) << 52);
    // Points at infinity, and the origin.
    let infinite = far.to_bits() == f64::INFINITY.to_bits();
    let limit = select(near.to_bits() == far.to_bits(), 1.0, 0.0);
    let n = select(infinite, limit, near * scale);
    let d = select(infinite | (far.to_bits() == 0), 1.0, far * scale);
    // The difference is exact.
    let middle = magnitude(n) > magnitude(d) - EXPONENT_ONE;
    let turned = select(middle, d, 0.0);
    let (n, d) = (n - turned, d + select(middle, n, 0.0));
    // A quarter turn if steep, else a half turn or none; where the eighth between is nearer, that.
    let (turn, turn_low) = (select(left, PI, 0.0), select(left, 2.0 * FRAC_PI_2_LOW, 0.0));
    let (turn, turn_low) = (select(steep, FRAC_PI_2, turn), select(steep, FRAC_PI_2_LOW, turn_low));
    let eighth = select(left, THREE_FRAC_PI_4, FRAC_PI_4);
    let eighth_low = select(left, THREE_FRAC_PI_4_LOW, 0.5 * FRAC_PI_2_LOW);
    let base = (select(middle, eighth, turn), select(middle, eighth_low, turn_low));
    let angle = add_atan(base, n, d, u64::from(steep != left) << 63).copysign(y);
    select(x.is_nan() | y.is_nan(), f64::NAN, angle)
}
