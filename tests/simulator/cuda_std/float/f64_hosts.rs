// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of f64 beside the host's, or the crate libm's, which are off by little more than half an ulp, or one: with the
//! bound of ours it is so many floats. Results that are no number, infinite or a zero are to be the same, signs and all.

use super::{Float, Lcg};

type Unary = (&'static str, fn(f64) -> f64, fn(f64) -> f64, u64);

#[rustfmt::skip]
const UNARY: [Unary; 12] = [
    ("cbrt", Float::cbrt, libm::cbrt, 1),
    ("exp2", Float::exp2, f64::exp2, 1),
    ("ln", Float::ln, f64::ln, 1),
    ("log2", Float::log2, f64::log2, 1),
    ("log10", Float::log10, f64::log10, 2),
    ("ln_1p", Float::ln_1p, f64::ln_1p, 2),
    ("asin", Float::asin, f64::asin, 1),
    ("acos", Float::acos, f64::acos, 1),
    ("atan", Float::atan, f64::atan, 1),
    ("erf", Float::erf, libm::erf, 2),
    ("erfc", Float::erfc, libm::erfc, 4),
    ("powi", |x| Float::powi(x, 3), |x| x.powf(3.0), 1),
];

type Binary = (&'static str, fn(f64, f64) -> f64, fn(f64, f64) -> f64, u64);

#[rustfmt::skip]
const BINARY: [Binary; 3] = [
    ("powf", Float::powf, f64::powf, 1),
    ("atan2", Float::atan2, f64::atan2, 2),
    ("hypot", Float::hypot, f64::hypot, 2),
];

fn assert_near(name: &str, arguments: &[f64], got: f64, want: f64, most: u64) {
    let distance = got.to_bits().abs_diff(want.to_bits());
    assert!(
        distance <= most || got.is_nan() && want.is_nan(),
        "{name}{arguments:?} = {got:?}, {distance} floats from {want:?}"
    );
}

/// Zero, the least and largest numbers of each kind, where functions begin, end, or are computed another way, all with their
/// neighbours and both signs; infinity and NaN.
fn special() -> Vec<f64> {
    let centres = [
        1e-310,
        f64::MIN_POSITIVE,
        1e-20,
        0.5,
        std::f64::consts::FRAC_1_SQRT_2,
        1.0,
        std::f64::consts::SQRT_2,
        1.5,
        2.0,
        3.0,
        6.0,
        27.226,
        27.5,
        1022.0,
        1024.0,
        1074.5,
        1076.0,
        2f64.powi(52),
        2f64.powi(53) + 2.0,
        1e300,
    ];
    let neighbours = centres.into_iter().flat_map(|x| [x.next_down(), x, x.next_up()]);
    let ends = [0.0, 5e-324, f64::MAX, f64::INFINITY, f64::NAN];
    neighbours.chain(ends).flat_map(|x| [x, -x]).collect()
}

#[test]
fn functions_of_one_f64() {
    let mut random = Lcg(7);
    let mut arguments = special();
    for spread in [2.0, 8.0, 60.0, 2200.0] {
        arguments.extend((0..1 << 14).map(|_| (random.unit() - 0.5) * spread));
    }
    // Of every size, and next to −1 and 1.
    arguments.extend((0..1 << 14).map(|_| f64::from_bits(u64::from(random.next()) << 32 | u64::from(random.next()))));
    let small = (0..1 << 14).map(|_| (random.unit() * -60.0).exp2());
    arguments.extend(small.flat_map(|x| [x, -x, 1.0 - x, 1.0 + x, x - 1.0, -1.0 - x]));
    for (name, ours, reference, most) in UNARY {
        for &x in &arguments {
            assert_near(name, &[x], ours(x), reference(x), most);
        }
    }
}

#[test]
fn functions_of_two_f64() {
    let mut random = Lcg(8);
    let special = special();
    let mut arguments: Vec<(f64, f64)> = Vec::new();
    arguments.extend(special.iter().flat_map(|&x| special.iter().map(move |&y| (x, y))));
    for i in 0..1 << 16 {
        // From far above 1 down to its immediate neighbours, with an exponent that keeps the power in range.
        let spread = 2f64.powi(-(i % 52)) * 1000.0;
        let x = ((random.unit() * 2.0 - 1.0) * spread).exp2();
        arguments.push((x, (random.unit() - 0.5) * 2180.0 / x.log2()));
        // Of one size or nearly, so that angles and lengths have to do with both.
        let x = (random.unit() * 2100.0 - 1070.0).exp2();
        let y = x * (random.unit() * 6.0 - 3.0).exp2();
        let turned = [(x, y), (-x, y), (x, -y), (-x, -y)];
        arguments.push(turned[i as usize % 4]);
    }
    for (name, ours, reference, most) in BINARY {
        for &(x, y) in &arguments {
            assert_near(name, &[x, y], ours(x, y), reference(x, y), most);
        }
    }
}
