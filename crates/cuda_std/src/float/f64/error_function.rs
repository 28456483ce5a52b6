// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error function of f64 and its complement, by one formula each and without a branch.
//!
//! erf a = 1 − e^−Q with Q = a + a P(a), as expm1 computes it, which cancels nowhere. erfc a is e^(−a²) P(q) / (a + 4) with
//! q = (a − 4) / (a + 4), where the rounding error of a² is carried into the exponential: the tail keeps its relative accuracy
//! down to the subnormals. Against 113 bits, of millions of arguments, they are off by 1.43 and 2.91 ulp at most.

use super::super::machine::double::fma;
use super::super::normal::{is_nan, magnitude, recip_of_normal, select, with_upper};
use super::exp::{power_of_two, quotient, scale, split};

/// −ln (1 − erf a) / a − 1 for 0 ≤ a ≤ 5.93, with an error that is 2^-55 of erf a in the result.
#[inline(always)]
fn exponent_ratio(a: f64) -> f64 {
    let mut p = -3.608_637_970_518_504e-15;
    p = fma(p, a, 1.621_981_536_018_287_8e-13);
    p = fma(p, a, -3.378_615_878_644_090_5e-12);
    p = fma(p, a, 4.319_426_924_523_639e-11);
    p = fma(p, a, -3.775_776_063_141_594e-10);
    p = fma(p, a, 2.369_948_618_751_822_6e-9);
    p = fma(p, a, -1.081_825_503_586_541_6e-8);
    p = fma(p, a, 3.475_103_544_988_78e-8);
    p = fma(p, a, -6.621_865_940_809_263e-8);
    p = fma(p, a, -1.058_147_523_654_630_3e-8);
    p = fma(p, a, 5.685_411_828_366_777e-7);
    p = fma(p, a, -2.034_084_507_531_318e-6);
    p = fma(p, a, 3.129_287_691_089_593e-6);
    p = fma(p, a, 3.173_120_927_695_328e-6);
    p = fma(p, a, -2.957_821_104_555_368e-5);
    p = fma(p, a, 6.442_192_605_331_648e-5);
    p = fma(p, a, 2.590_386_695_069_52e-5);
    p = fma(p, a, -0.000_590_132_225_638_307_6);
    p = fma(p, a, 0.001_696_207_622_438_295_7);
    p = fma(p, a, -0.000_209_194_846_402_693_16);
    p = fma(p, a, -0.019_128_446_993_854_03);
    p = fma(p, a, 0.102_772_603_301_359_07);
    p = fma(p, a, 0.636_619_772_367_589_8);
    fma(p, a, 0.128_379_167_095_512_56)
}

#[inline]
pub fn erf(x: f64) -> f64 {
    // The upper word of 5.921875, from which on the result is 1 to the last bit.
    const MOST: u32 = 0x4017_b000;
    let a = with_upper(x, magnitude(x).min(MOST));
    // −Q = n ln 2 + r, where n is 0 for small a, and then 1 − 2^n e^r.
    let ratio = exponent_ratio(a);
    let exponent = fma(-ratio, a, -a);
    let low = fma(-ratio, a, -a - exponent);
    let (r, n) = split(exponent);
    let growth = r + fma(r * r, quotient(r), low);
    let power = power_of_two(n.wrapping_add(1023));
    let erf = fma(-power, growth, 1.0 - power).copysign(x);
    select(is_nan(x), x, erf)
}

/// erfc a for 0 ≤ a < 28.
#[inline(always)]
fn tail(a: f64) -> f64 {
    const P_0: f64 = 1.095_995_661_000_491;
    const P_0_LOW: f64 = 5.864_811_422_021_19e-17;
    // 1 / (a + 4) as the sum of two f64, and q = 1 − 8 / (a + 4).
    let sum = a + 4.0;
    let t = recip_of_normal(sum);
    let t_low = t * fma(-t, a - (sum - 4.0), fma(-t, sum, 1.0));
    let q = fma(-8.0, t_low, fma(-8.0, t, 1.0));
    let mut p = 1.017_289_411_962_014_5e-9;
    p = fma(p, q, -3.839_230_019_789_004_5e-10);
    p = fma(p, q, -1.539_542_440_899_050_6e-8);
    p = fma(p, q, 2.611_545_328_469_806_3e-9);
    p = fma(p, q, 1.239_483_445_638_312e-7);
    p = fma(p, q, -7.797_873_287_378_133e-8);
    p = fma(p, q, -8.460_179_158_042_637e-7);
    p = fma(p, q, 1.426_092_804_203_808e-6);
    p = fma(p, q, 4.694_337_134_987_266e-6);
    p = fma(p, q, -1.886_178_448_805_877e-5);
    p = fma(p, q, -3.635_151_786_470_637_5e-6);
    p = fma(p, q, 0.000_176_813_086_537_968_99);
    p = fma(p, q, -0.000_455_052_688_348_394_35);
    p = fma(p, q, -0.000_280_958_915_816_304_45);
    p = fma(p, q, 0.006_112_055_656_702_67);
    p = fma(p, q, -0.026_370_053_334_628_91);
    p = fma(p, q, 0.076_381_514_909_154_55);
    p = fma(p, q, -0.174_010_937_240_289_07);
    p = fma(p, q, 0.330_851_587_878_023_16);
    p = fma(p, q, -0.540_853_831_313_225);
    p = fma(p, q, 0.773_208_702_265_236_9);
    p = fma(p, q, -0.976_548_729_080_882_1);
    // The last term, and then the product with 1 / (a + 4), as sums of two f64 too.
    let value = fma(p, q, P_0);
    let value_low = fma(p, q, P_0 - value) + P_0_LOW;
    let w = value * t;
    let w_low = fma(value, t_low, fma(value_low, t, fma(value, t, -w)));
    let square = a * a;
    let (r, n) = split(-square);
    let r = r - fma(a, a, -square);
    let growth = fma(r * r, quotient(r), r);
    scale(w + fma(w, growth, w_low), n)
}

#[inline]
pub fn erfc(x: f64) -> f64 {
    // The upper word of 27.5, from which on, and a little before, the result is 0.
    const MOST: u32 = 0x403b_8000;
    let far = tail(with_upper(x, magnitude(x).min(MOST)));
    let erfc = select(x.is_sign_negative(), 2.0 - far, far);
    select(is_nan(x), x, erfc)
}
