// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documented error bounds and special values of [`Float`].
//!
//! f32 is held against the f64 functions of the host on about 2^18 arguments a function, from every
//! binade; f64 against a table of correctly rounded values. `Float::sin(x)` is always ours: on the
//! host `x.sin()` would be `std`'s.

// They take long under ThreadSanitizer, and have no threads.
#![cfg(not(thread_sanitizer))]

use cuda_std::float::{Float, rare};

#[path = "float/f64_hosts.rs"]
mod f64_hosts;
#[path = "float/f64_reference.rs"]
mod f64_reference;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;
/// The smallest positive subnormal.
const TINY: f32 = f32::from_bits(1);

/// A random sequence that is the same in every run.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        f64::from(self.next()) / 2f64.powi(32)
    }
}

/// Both signs of every binade, subnormals, infinities and NaN included: its two ends and 510 random mantissas.
fn samples() -> impl Iterator<Item = f32> {
    let mut random = Lcg(1);
    (0u32..512).flat_map(move |field| {
        let mut mantissas = vec![0, 0x007f_ffff];
        mantissas.extend((0..510).map(|_| random.next() >> 9));
        mantissas.into_iter().map(move |m| f32::from_bits(field << 23 | m))
    })
}

/// The error of `got` in units in the last place of `want`; infinite where one is NaN and the other not, where zeros
/// differ in sign, and where a zero was expected and not found.
fn error(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if want == 0.0 || got == 0.0 && want.abs() < 2f64.powi(-1000) {
        let same = got == 0.0 && got.is_sign_negative() == want.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    // The float that follows the largest one would be 2^128: so overflow is measured as any rounding.
    let limit = 2f64.powi(128);
    let (got, want) = (f64::from(got).clamp(-limit, limit), want.clamp(-limit, limit));
    let exponent = want.abs().log2().floor().clamp(-126.0, 127.0);
    (got - want).abs() / (exponent - 23.0).exp2()
}

type Function = fn(f32) -> f32;
/// A function with its name.
type Named = (&'static str, Function);
type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f64);

/// One line a function: ours, the reference, and the bound that the documentation states.
#[rustfmt::skip]
const UNARY: &[Case] = &[
    ("sqrt", Float::sqrt, f64::sqrt, 0.5),
    ("rsqrt", Float::rsqrt, |x| 1.0 / x.sqrt(), 0.5),
    ("cbrt", Float::cbrt, f64::cbrt, 1.0),
    ("exp", Float::exp, f64::exp, 1.0),
    ("exp2", Float::exp2, f64::exp2, 1.0),
    ("expm1", Float::expm1, f64::exp_m1, 1.5),
    ("ln", Float::ln, f64::ln, 1.0),
    ("log2", Float::log2, f64::log2, 1.5),
    ("log10", Float::log10, f64::log10, 1.5),
    ("ln_1p", Float::ln_1p, f64::ln_1p, 2.0),
    ("sin", Float::sin, f64::sin, 2.0),
    ("cos", Float::cos, f64::cos, 2.0),
    ("sin_cos.0", |x| Float::sin_cos(x).0, f64::sin, 2.0),
    ("sin_cos.1", |x| Float::sin_cos(x).1, f64::cos, 2.0),
    ("tan", Float::tan, f64::tan, 2.0),
    ("asin", Float::asin, f64::asin, 2.0),
    ("acos", Float::acos, f64::acos, 1.5),
    ("atan", Float::atan, f64::atan, 1.5),
    ("sinh", Float::sinh, f64::sinh, 2.0),
    ("cosh", Float::cosh, f64::cosh, 1.5),
    ("tanh", Float::tanh, f64::tanh, 2.0),
    ("sigmoid", Float::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 3.0),
    ("erf", Float::erf, libm::erf, 1.5),
    ("erfc", Float::erfc, libm::erfc, 3.0),
    ("floor", Float::floor, f64::floor, 0.0),
    ("ceil", Float::ceil, f64::ceil, 0.0),
    ("round", Float::round, f64::round, 0.0),
    ("round_ties_even", Float::round_ties_even, f64::round_ties_even, 0.0),
    ("trunc", Float::trunc, f64::trunc, 0.0),
    ("abs", Float::abs, f64::abs, 0.0),
    ("recip", Float::recip, f64::recip, 0.5),
];

/// The worst of `arguments` under `error_of`, with its error.
fn worst<A: Copy>(arguments: impl Iterator<Item = A>, error_of: impl Fn(A) -> f64) -> (f64, Option<A>) {
    arguments.fold((0.0, None), |worst, a| {
        let e = error_of(a);
        if e > worst.0 { (e, Some(a)) } else { worst }
    })
}

/// Functions that go another way for rare arguments, and those without.
const RARE: [(&str, Function, Function); 7] = [
    ("sqrt", rare::sqrt, Float::sqrt),
    ("rsqrt", rare::rsqrt, Float::rsqrt),
    ("cbrt", rare::cbrt, Float::cbrt),
    ("exp2", rare::exp2, Float::exp2),
    ("ln", rare::ln, Float::ln),
    ("log2", rare::log2, Float::log2),
    ("log10", rare::log10, Float::log10),
];

#[test]
fn functions_with_a_rare_way_have_the_same_bits() {
    // Next to where the ways part.
    let ends = [2f32.powi(-101), f32::MIN_POSITIVE, 3.552_713_7e-15, 126.0];
    let ends = ends.into_iter().flat_map(|x| [x.next_down(), x, x.next_up()]);
    let ends = ends.flat_map(|x| [x, -x]);
    for x in samples().chain(ends) {
        for (name, rare, function) in RARE {
            let (got, want) = (rare(x), function(x));
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{name}({x:e}) is {got:e}, not {want:e}"
            );
        }
    }
}

#[test]
fn f32_functions_keep_their_bounds_in_every_binade() {
    // Where the binades are too coarse: the neighbourhoods in which algorithms change over, and the angles beyond
    // 10^5 and near multiples of π/2.
    let mut random = Lcg(2);
    let mut seeds = vec![
        16_367_173.0 * 2f32.powi(72),
        105_414.36,
        1e5,
        88.722_84,
        -103.972,
        -87.336_54,
    ];
    for centre in [
        0.2, 0.3, 0.41, 0.5, 0.55, 0.667, 1.0, 1.333, 2.0, 4.0, 9.0, 10.0, 18.0, 80.0, 100.0, 2e4, 1e5,
    ] {
        seeds.extend((0..2000).map(|_| centre * (0.8 + 0.4 * random.unit()) as f32));
    }
    let arguments: Vec<f32> = samples().chain(seeds.iter().flat_map(|&x| [x, -x])).collect();
    for &(name, ours, reference, bound) in UNARY {
        let (e, x) = worst(arguments.iter().copied(), |x| error(ours(x), reference(f64::from(x))));
        assert!(e <= bound, "{name}({x:?}): {e} ulp, more than {bound}");
    }
}

/// Pairs of which the first half has any bits at all and the second is of moderate size.
fn pairs() -> Vec<(f32, f32)> {
    let mut random = Lcg(3);
    let wild = (0..1 << 17)
        .map(|_| (f32::from_bits(random.next()), f32::from_bits(random.next())))
        .collect::<Vec<_>>();
    let tame = (0..1 << 17).map(|_| {
        let x = (random.unit() * 20.0 - 10.0).exp2() as f32;
        let y = x * (random.unit() * 4.0 - 2.0) as f32;
        (if random.next() & 1 == 0 { x } else { -x }, y)
    });
    wild.iter().copied().chain(tame).collect()
}

#[test]
fn f32_functions_of_two_arguments_keep_their_bounds() {
    let pairs = pairs();
    let check = |name: &str, ours: fn(f32, f32) -> f32, reference: fn(f64, f64) -> f64, bound: f64| {
        let (e, at) = worst(pairs.iter().copied(), |(x, y)| {
            error(ours(x, y), reference(x.into(), y.into()))
        });
        assert!(e <= bound, "{name}{at:?}: {e} ulp, more than {bound}");
    };
    check("atan2", Float::atan2, f64::atan2, 2.0);
    check("hypot", Float::hypot, f64::hypot, 1.5);
    check("powf", Float::powf, f64::powf, 1.0);
    check(
        "minimum",
        Float::minimum,
        |a, b| {
            if a.is_nan() {
                a
            } else if b.is_nan() {
                b
            } else {
                a.min(b)
            }
        },
        0.0,
    );
    check(
        "maximum",
        Float::maximum,
        |a, b| {
            if a.is_nan() {
                a
            } else if b.is_nan() {
                b
            } else {
                a.max(b)
            }
        },
        0.0,
    );
}

#[test]
fn f32_powers_keep_their_bound_over_the_whole_range_of_results() {
    let mut random = Lcg(4);
    let arguments: Vec<(f32, f32)> = (0..1 << 18)
        .map(|i| {
            // From far above 1 down to its immediate neighbours, with an exponent that keeps the power in range.
            let spread = 2f64.powi(-(i % 24)) * 127.0;
            let x = ((random.unit() * 2.0 - 1.0) * spread).exp2() as f32;
            let y = (random.unit() - 0.5) * 310.0 / f64::from(x).log2();
            (x, if y.is_finite() { y as f32 } else { 3.0 })
        })
        .collect();
    let (e, at) = worst(arguments.iter().copied(), |(x, y)| {
        error(Float::powf(x, y), f64::from(x).powf(y.into()))
    });
    assert!(e <= 1.0, "powf{at:?}: {e} ulp");
    let whole = arguments
        .iter()
        .map(|&(x, y)| (if y as i32 & 2 == 0 { x } else { -x }, y as i32));
    let (e, at) = worst(whole, |(x, n)| error(Float::powi(x, n), f64::from(x).powf(n.into())));
    assert!(e <= 1.0, "powi{at:?}: {e} ulp");
}

/// Whether two floats are the same, the signs of zeros included, all NaN being one.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[test]
fn f32_special_values() {
    type Special = (&'static str, fn(f32) -> f32, &'static [(f32, f32)]);
    let odd: &[(f32, f32)] = &[(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (-TINY, -TINY), (NAN, NAN)];
    let logarithm: &[(f32, f32)] = &[
        (1.0, 0.0),
        (0.0, -INF),
        (-0.0, -INF),
        (INF, INF),
        (-1.0, NAN),
        (-INF, NAN),
        (-TINY, NAN),
        (NAN, NAN),
    ];
    #[rustfmt::skip]
    let table: &[Special] = &[
        ("sqrt", Float::sqrt, &[(-0.0, -0.0), (4.0, 2.0), (INF, INF), (-1.0, NAN), (NAN, NAN)]),
        ("rsqrt", Float::rsqrt, &[(0.0, INF), (-0.0, -INF), (4.0, 0.5), (INF, 0.0), (-1.0, NAN), (NAN, NAN)]),
        ("cbrt", Float::cbrt, &[(0.0, 0.0), (-0.0, -0.0), (-27.0, -3.0), (-INF, -INF), (INF, INF), (NAN, NAN)]),
        ("exp", Float::exp, &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (89.0, INF), (-1e30, 0.0), (NAN, NAN)]),
        ("exp", Float::exp, &[(-103.5, TINY), (TINY, 1.0), (f32::MAX, INF), (f32::MIN, 0.0)]),
        ("exp2", Float::exp2, &[(-149.0, TINY), (127.0, 1.701_411_8e38), (128.0, INF), (-151.0, 0.0), (10.0, 1024.0)]),
        ("exp2", Float::exp2, &[(INF, INF), (-INF, 0.0), (NAN, NAN), (f32::MAX, INF), (f32::MIN, 0.0)]),
        ("expm1", Float::expm1, &[(INF, INF), (-INF, -1.0), (f32::MAX, INF), (f32::MIN, -1.0)]),
        ("log2", Float::log2, &[(TINY, -149.0), (8.0, 3.0), (0.5, -1.0), (1.701_411_8e38, 127.0)]),
        ("log10", Float::log10, &[(10.0, 1.0), (1000.0, 3.0), (1e10, 10.0)]),
        ("ln_1p", Float::ln_1p, &[(-1.0, -INF), (INF, INF), (-1.5, NAN), (-INF, NAN)]),
        ("sin", Float::sin, &[(INF, NAN), (-INF, NAN)]),
        ("cos", Float::cos, &[(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)]),
        ("tan", Float::tan, &[(INF, NAN), (-INF, NAN)]),
        ("asin", Float::asin, &[(1.000_000_1, NAN), (-INF, NAN)]),
        ("acos", Float::acos, &[(1.0, 0.0), (1.000_000_1, NAN), (INF, NAN), (NAN, NAN)]),
        ("sinh", Float::sinh, &[(INF, INF), (-INF, -INF), (89.5, INF), (f32::MIN, -INF)]),
        ("cosh", Float::cosh, &[(0.0, 1.0), (INF, INF), (-INF, INF), (-89.5, INF), (NAN, NAN)]),
        ("tanh", Float::tanh, &[(INF, 1.0), (-INF, -1.0), (f32::MAX, 1.0)]),
        ("sigmoid", Float::sigmoid, &[(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (-104.5, 0.0), (NAN, NAN)]),
        ("rsqrt", Float::rsqrt, &[(4.0, 0.5), (INF, 0.0), (-TINY, NAN), (-INF, NAN), (NAN, NAN)]),
        ("erf", Float::erf, &[(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (f32::MAX, 1.0), (NAN, NAN)]),
        ("erfc", Float::erfc, &[(0.0, 1.0), (INF, 0.0), (-INF, 2.0), (f32::MAX, 0.0), (NAN, NAN)]),
        ("round", Float::round, &[(0.5, 1.0), (-0.5, -1.0), (2.5, 3.0), (-0.4, -0.0), (0.499_999_97, 0.0)]),
        ("round", Float::round, &[(8_388_607.5, 8_388_608.0), (8_388_609.0, 8_388_609.0), (-INF, -INF)]),
        ("round_ties_even", Float::round_ties_even, &[(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0)]),
        ("recip", Float::recip, &[(0.0, INF), (-0.0, -INF), (4.0, 0.25), (-INF, -0.0)]),
    ];
    let through_zero: &[Named] = &[
        ("expm1", Float::expm1),
        ("ln_1p", Float::ln_1p),
        ("sin", Float::sin),
        ("tan", Float::tan),
        ("asin", Float::asin),
        ("atan", Float::atan),
        ("sinh", Float::sinh),
        ("tanh", Float::tanh),
    ];
    let logarithms: &[Named] = &[("ln", Float::ln), ("log2", Float::log2), ("log10", Float::log10)];
    let cases = (table.iter().copied())
        .chain(through_zero.iter().map(|&(name, f)| (name, f, odd)))
        .chain(logarithms.iter().map(|&(name, f)| (name, f, logarithm)));
    for (name, f, values) in cases {
        for &(x, want) in values {
            assert!(same(f(x), want), "{name}({x:?}) = {:?}, not {want:?}", f(x));
        }
    }
}

#[test]
fn f32_powers_of_special_values_are_those_of_c() {
    // Every pair of these, against the f64 function of the host, which follows C.
    let values = [
        0.0,
        0.5,
        1.0,
        2.0,
        3.0,
        2.5,
        16_777_215.0,
        16_777_216.0,
        1e30,
        INF,
        NAN,
        TINY,
        f32::MAX,
        1.0 + 1.2e-7,
    ];
    for x in values.into_iter().flat_map(|v| [v, -v]) {
        for y in values.into_iter().flat_map(|v| [v, -v]) {
            let (got, want) = (Float::powf(x, y), f64::from(x).powf(f64::from(y)));
            let rounded = want as f32;
            let near = rounded.is_finite() && rounded != 0.0 && error(got, want) <= 1.0;
            assert!(
                near || same(got, rounded),
                "powf({x:?}, {y:?}) = {got:?}, not {rounded:?}"
            );
        }
        for n in [0, 1, 2, -1, -2, 3, i32::MAX, i32::MIN, 16_777_217, -16_777_217] {
            let (got, want) = (Float::powi(x, n), f64::from(x).powf(f64::from(n)));
            let rounded = want as f32;
            let near = rounded.is_finite() && rounded != 0.0 && error(got, want) <= 1.0;
            assert!(
                near || same(got, rounded),
                "powi({x:?}, {n}) = {got:?}, not {rounded:?}"
            );
        }
    }
}

#[test]
fn f32_angles_hypotenuses_and_extrema_of_special_values() {
    let values = [0.0, TINY, 1.0, f32::MAX, INF, NAN];
    for x in values.into_iter().flat_map(|v| [v, -v]) {
        for y in values.into_iter().flat_map(|v| [v, -v]) {
            let angle = f64::from(y).atan2(f64::from(x));
            assert!(
                error(Float::atan2(y, x), angle) <= 2.0,
                "atan2({y:?}, {x:?}) = {:?}",
                Float::atan2(y, x)
            );
            let length = f64::from(x).hypot(f64::from(y));
            assert!(
                error(Float::hypot(x, y), length) <= 1.5,
                "hypot({x:?}, {y:?}) = {:?}",
                Float::hypot(x, y)
            );
            if x.is_nan() || y.is_nan() {
                assert!(Float::is_nan(Float::minimum(x, y)) && Float::is_nan(Float::maximum(x, y)));
            }
        }
    }
    for (a, b) in [(0.0_f32, -0.0), (-0.0, 0.0)] {
        assert!(same(Float::minimum(a, b), -0.0) && same(Float::maximum(a, b), 0.0));
    }
    assert!(Float::abs(-NAN).is_sign_positive());
    assert!(same(Float::copysign(3.0_f32, -0.0), -3.0));
    assert!(!Float::is_nan(INF));
    // A product that only a fused multiply-add keeps: (1 + ε)² − (1 + 2ε) = ε².
    let e = f32::EPSILON;
    assert_eq!(Float::mul_add(1.0 + e, 1.0 + e, -(1.0 + 2.0 * e)), e * e);
}

#[test]
fn f64_functions_agree_with_the_reference_values() {
    let distance = |got: f64, want: u64| (got.to_bits() as i64).abs_diff(want as i64);
    for &(name, f, bound, values) in f64_reference::UNARY {
        for &(x, want) in values {
            let d = distance(f(x), want);
            assert!(
                d <= bound,
                "{name}({x:?}) = {:?}, {d} floats from {:?}",
                f(x),
                f64::from_bits(want)
            );
        }
    }
    for &(name, f, bound, values) in f64_reference::BINARY {
        for &(x, y, want) in values {
            let d = distance(f(x, y), want);
            assert!(
                d <= bound,
                "{name}({x:?}, {y:?}) = {:?}, {d} floats from {:?}",
                f(x, y),
                f64::from_bits(want)
            );
        }
    }
}

/// That function of the host's is off by little more than half an ulp.
#[test]
fn the_exponential_of_f64_is_a_neighbour_of_the_hosts() {
    let mut random = Lcg(5);
    let spread = (0..1 << 18).map(|_| (random.unit() - 0.5) * 1500.0);
    let mut arguments: Vec<f64> = spread.collect();
    // Halfway between multiples of ln 2, where r is largest; and around where results begin and end.
    let halves = (-1076..1025).map(|n| (f64::from(n) + 0.5) * std::f64::consts::LN_2);
    let ends = [
        0.0,
        -708.396_418_532_264_1,
        -744.440_071_921_381_2,
        -745.133_219_101_941_1,
        709.782_712_893_384,
        -746.0,
        710.0,
    ];
    for centre in halves.chain(ends) {
        arguments.extend([centre.next_down(), centre, centre.next_up()]);
    }
    arguments.extend((0..1100).map(|k| 2f64.powi(-k)).flat_map(|x| [x, -x]));
    arguments.extend([f64::MAX, f64::MIN, f64::INFINITY, f64::NEG_INFINITY, -0.0]);
    for x in arguments {
        let (got, want) = (Float::exp(x), x.exp());
        let distance = got.to_bits().abs_diff(want.to_bits());
        assert!(distance <= 1, "exp({x:?}) = {got:?}, {distance} floats from {want:?}");
    }
    assert_eq!(Float::exp(0.0f64), 1.0);
    assert!(Float::exp(f64::NAN).is_nan());
    assert_eq!((Float::exp(1e308f64), Float::exp(-1e308f64)), (f64::INFINITY, 0.0));
}

/// Those functions of the host's have little more than half an ulp, its hyperbolic ones up to two: with ours it is so many floats.
#[test]
fn functions_of_f64_are_near_the_hosts() {
    type Case = (&'static str, fn(f64) -> f64, fn(f64) -> f64, u64);
    const CASES: [Case; 7] = [
        ("sin", Float::sin, f64::sin, 1),
        ("cos", Float::cos, f64::cos, 1),
        ("tan", Float::tan, f64::tan, 1),
        ("expm1", Float::expm1, f64::exp_m1, 2),
        ("sinh", Float::sinh, f64::sinh, 3),
        ("cosh", Float::cosh, f64::cosh, 3),
        ("tanh", Float::tanh, f64::tanh, 3),
    ];
    let mut random = Lcg(6);
    let mut arguments: Vec<f64> = Vec::new();
    for spread in [2.0, 80.0, 1500.0, 1.9e9, 2.1e9, 1e15, 1e300] {
        arguments.extend((0..1 << 14).map(|_| (random.unit() - 0.5) * spread));
    }
    // Next to multiples of π/2; not of the largest, where the host's own are off by more.
    let multiples = (0..1 << 14).map(|k| f64::from(k * 43_211) * std::f64::consts::FRAC_PI_2);
    // Halfway between multiples of ln 2, and where results begin, end, or are made another way.
    let halves = (-120..1025).map(|n| (f64::from(n) + 0.5) * std::f64::consts::LN_2);
    let ends = [
        1e9,
        -40.0,
        20.0,
        40.0,
        709.782_712_893_384,
        710.0,
        710.475_860_073_943_9,
    ];
    for centre in multiples.chain(halves).chain(ends) {
        arguments.extend([centre.next_down(), centre, centre.next_up(), -centre]);
    }
    arguments.extend((0..1075).map(|k| 2f64.powi(-k)).flat_map(|x| [x, -x]));
    arguments.extend((0..1024).map(|k| 2f64.powi(k)).flat_map(|x| [x, -x]));
    arguments.extend([
        f64::MAX,
        f64::MIN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        0.0,
        -0.0,
    ]);
    for (name, ours, hosts, most) in CASES {
        for &x in &arguments {
            let (got, want) = (ours(x), hosts(x));
            let distance = got.to_bits().abs_diff(want.to_bits());
            let same = got.is_nan() && want.is_nan();
            assert!(
                same || distance <= most,
                "{name}({x:?}) = {got:?}, {distance} floats from {want:?}"
            );
        }
    }
}

#[test]
fn f64_operations_that_are_not_in_the_table() {
    let (sin, cos) = Float::sin_cos(0.7_f64);
    assert_eq!((sin, cos), (Float::sin(0.7_f64), Float::cos(0.7_f64)));
    assert_eq!(Float::powi(-2.0_f64, 63), -(2f64.powi(63)));
    assert_eq!(Float::powi(f64::NAN, 0), 1.0);
    assert_eq!(Float::sqrt(2.0_f64), std::f64::consts::SQRT_2);
    assert_eq!(
        [2.5, -2.5, 0.49999999999999994].map(<f64 as Float>::round),
        [3.0, -3.0, 0.0]
    );
    assert_eq!([2.5, -2.5, 3.5].map(<f64 as Float>::round_ties_even), [2.0, -2.0, 4.0]);
    assert_eq!([2.5, -2.5].map(<f64 as Float>::floor), [2.0, -3.0]);
    assert_eq!([2.5, -2.5].map(<f64 as Float>::ceil), [3.0, -2.0]);
    assert_eq!([2.5, -2.5].map(<f64 as Float>::trunc), [2.0, -2.0]);
    assert_eq!(Float::recip(4.0_f64), 0.25);
    assert_eq!(Float::abs(-1.5_f64), 1.5);
    assert_eq!(Float::copysign(1.5_f64, -0.0), -1.5);
    let e = f64::EPSILON;
    assert_eq!(Float::mul_add(1.0 + e, 1.0 + e, -(1.0 + 2.0 * e)), e * e);
    assert!(Float::is_nan(Float::minimum(1.0, f64::NAN)) && Float::is_nan(Float::maximum(f64::NAN, 1.0)));
    assert!(Float::minimum(0.0_f64, -0.0).is_sign_negative() && Float::maximum(-0.0_f64, 0.0).is_sign_positive());
}
