// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random f32.
//!
//! Normal ones by G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates" (1958), in as few
//! instructions as the accuracy of a random number asks for: 35 for two numbers, beside those of the generator. The
//! words are integers, so the logarithm needs no case but its own, and the angle no reduction.

use crate::float::machine::single::fma;
use crate::float::machine::sqrt_of_normal;

/// A random number of [0, 1): a multiple of 2^-24, each as likely as the others.
///
/// ```
/// use cuda_std::random::uniform_f32;
///
/// assert_eq!(uniform_f32(0), 0.0);
/// assert_eq!(uniform_f32(u32::MAX), 1.0 - f32::EPSILON / 2.0);
/// ```
#[inline(always)]
pub const fn uniform_f32(word: u32) -> f32 {
    (word >> 8) as f32 * 5.960_464_5e-8
}

/// Two independent random numbers of the normal distribution, of two random words.
///
/// The first word gives the radius √(−2 ln u), where u is (word (1 − 2^-24) + ½) 2^-32 rounded to 24 bits, which is
/// neither 0 nor 1, and the second the angle. So no number is further from the mean than 6.77 standard deviations, beyond
/// which the distribution has 1.3 · 10^-11. Each differs from what exact arithmetic makes of u and the angle by less than
/// 2.3 · 10^-6 of the radius, times `standard_deviation`, and by the roundings that this and the mean bring.
///
/// ```
/// use cuda_std::random::{Philox4x32, normal_f32};
///
/// let [a, b, ..] = Philox4x32::new(7).block(0);
/// let [x, y] = normal_f32([a, b], 10.0, 0.5);
/// assert!((5.0..15.0).contains(&x) && (5.0..15.0).contains(&y));
/// ```
#[inline(always)]
pub fn normal_f32(words: [u32; 2], mean: f32, standard_deviation: f32) -> [f32; 2] {
    let radius = sqrt_of_normal(square_of_radius(words[0])) * standard_deviation;
    let [cos, sin] = direction(words[1]);
    [fma(radius, cos, mean), fma(radius, sin, mean)]
}

/// 1 − 2^-24, by which a word is less than 2^32 when it is rounded, too.
const BELOW_ONE: f32 = 1.0 - f32::EPSILON / 2.0;
/// The bits of 2^32.
const ONE: u32 = (127 + 32) << 23;
/// −2 ln 2 · 2^-23
const PER_STEP: f32 = -1.652_592_8e-7;

/// −2 ln u for the u of the word, within 2^-19.7 of it.
///
/// The bits of a float, taken as an integer, are its logarithm to base 2 but for what a straight line from 1 to 2 differs
/// from it: u is 2^e m with m in [1, 2), and the difference is a function of t = 2 − m that is 0 at both ends.
#[inline(always)]
fn square_of_radius(word: u32) -> f32 {
    let bits = fma(word as f32, BELOW_ONE, 0.5).to_bits();
    let steps = bits.wrapping_sub(ONE) as i32 as f32;
    // The mantissa alone is (m − 1) 2^-126, a subnormal number, which costs a GPU no more than another.
    let t = fma(f32::from_bits(bits & 0x007f_ffff), -8.507_059e37, 1.0);
    // −2 ln(1 − t/2) / t − 2 ln 2
    let mut p = 1.512_858e-2;
    p = fma(p, t, -1.890_222_4e-2);
    p = fma(p, t, 3.152_981e-2);
    p = fma(p, t, 2.402_079_3e-2);
    p = fma(p, t, 8.459_577e-2);
    p = fma(p, t, 2.499_192_5e-1);
    p = fma(p, t, -3.862_935_3e-1);
    fma(steps, PER_STEP, p * t)
}

/// Cosine and sine of an angle that is as random as the word.
///
/// As a signed number, the word is an angle from −90° to 90°, and its last bit says whether that is seen in a mirror:
/// so all angles of the circle are as likely, without a choice between the two functions.
#[inline(always)]
fn direction(word: u32) -> [f32; 2] {
    let x = word as i32 as f32 * 4.656_613e-10;
    let s = x * x;
    // cos(π/2 x), within 2^-23.5
    let mut cos = 8.576_824e-4;
    cos = fma(cos, s, -2.080_951_8e-2);
    cos = fma(cos, s, 2.536_499_5e-1);
    cos = fma(cos, s, -1.233_698);
    cos = fma(cos, s, 9.999_999_4e-1);
    // sin(π/2 x) / x, within 2^-19.9 of it.
    let mut sin = -4.362_107_3e-3;
    sin = fma(sin, s, 7.948_705e-2);
    sin = fma(sin, s, -6.459_207e-1);
    sin = fma(sin, s, 1.570_794_8);
    [f32::from_bits(cos.to_bits() ^ word << 31), sin * x]
}
