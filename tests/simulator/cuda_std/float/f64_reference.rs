// SPDX-License-Identifier: MIT OR Apache-2.0
//! f64 reference values: arguments and correctly rounded results, from an evaluation with 1300 bits.

use super::Float;

pub type Unary = (&'static str, fn(f64) -> f64, u64, &'static [(f64, u64)]);

/// Each function with its bound in ulp and pairs of an argument and the bits of the result. No f64 is nearer to a multiple of π/2 than
/// 5.3e255.
#[rustfmt::skip]
pub const UNARY: &[Unary] = &[
    ("cbrt", Float::cbrt, 1, &[(2.0, 0x3ff428a2f98d728b), (1e-310, 0x2a7a9d1b0b5d7427), (1e+300, 0x54b249ad2594c37d), (0.1, 0x3fddb4c7760bcff3), (27.5, 0x400825b1b6bac03b)]),
    ("rsqrt", Float::rsqrt, 2, &[(2.0, 0x3fe6a09e667f3bcd), (1e-310, 0x601dd55745cbb7fa), (1e+300, 0x20ca2fe76a3f9475), (0.1, 0x40094c583ada5b52), (3.75, 0x3fe08654a2d4f6db)]),
    ("exp", Float::exp, 1, &[(1.0, 0x4005bf0a8b145769), (-0.3, 0x3fe7b4c869c37c05), (1e-09, 0x3ff000000044b830), (700.5, 0x7f18625c7d4f56c2), (-740.25, 0x0000000000000042)]),
    ("exp2", Float::exp2, 1, &[(0.5, 0x3ff6a09e667f3bcd), (-0.3, 0x3fe9fdf8bcce533e), (1e-09, 0x3ff00000002fa1f9), (1000.7, 0x7e79fdf8bcce5424), (-1060.4, 0x0000000000003081)]),
    ("expm1", Float::expm1, 2, &[(1.0, 0x3ffb7e151628aed3), (-0.3, 0xbfd0966f2c7907f6), (1e-09, 0x3e112e0be84bbb51), (700.5, 0x7f18625c7d4f56c2), (-30.0, 0xbfeffffffffffcb5)]),
    ("ln", Float::ln, 1, &[(2.0, 0x3fe62e42fefa39ef), (0.999, 0xbf5064670d979b73), (1.001, 0x3f5060354f8c3cc4), (1e+300, 0x4085963447f87fb5), (1e-310, 0xc0864e69394d9508)]),
    ("log2", Float::log2, 1, &[(3.0, 0x3ff95c01a39fbd68), (0.999, 0xbf57a6210ffb7151), (1.001, 0x3f57a013faca698f), (1e+300, 0x408f24a09f1a8b89), (1e-310, 0xc0901730dabca5f6)]),
    ("log10", Float::log10, 1, &[(3.0, 0x3fde8927964fd5fd), (0.999, 0xbf3c79e5dbf022b6), (1.001, 0x3f3c729c93ddd23a), (1e+300, 0x4072c00000000000), (1e-310, 0xc073600000000000)]),
    ("ln_1p", Float::ln_1p, 1, &[(1.0, 0x3fe62e42fefa39ef), (-0.3, 0xbfd6d3c324e13f4e), (1e-09, 0x3e112e0be801f1d9), (1e+300, 0x4085963447f87fb5), (-0.999, 0xc01ba18a998fff9f)]),
    ("sin", Float::sin, 1, &[(1.0, 0x3feaed548f090cee), (22.0, 0xbf8220a29f6eb9f4), (-0.7, 0xbfe49d6e694619b8), (1e+22, 0xbfeb453ab76bf397), (1e+300, 0xbfea2c16b010e385), (5.319372648326541e255, 0x3ff0000000000000)]),
    ("cos", Float::cos, 1, &[(1.0, 0x3fe14a280fb5068c), (11.0, 0x3f7220ae41ee2fdf), (-0.7, 0x3fe87996529f9d93), (1e+22, 0x3fe0be2cef01c8f4), (1e+300, 0xbfe2699022adc4c1), (5.319372648326541e255, 0xbc214ae72e6ba22f)]),
    ("tan", Float::tan, 1, &[(1.0, 0x3ff8eb245cbee3a6), (11.0, 0xc06c3e6d558b0924), (-0.7, 0xbfeaf406c2fc78ae), (1e+22, 0xbffa0f79c1b6b257), (1e+300, 0x3ff6be411f37ac77), (5.319372648326541e255, 0xc3bd9ba9a7975636)]),
    ("asin", Float::asin, 1, &[(0.5, 0x3fe0c152382d7366), (-0.9999, 0xbff8e80e1a01556a), (1e-09, 0x3e112e0be826d695), (0.3, 0x3fd380159e14f6ff), (-0.75, 0xbfeb235315c680dc)]),
    ("acos", Float::acos, 1, &[(0.5, 0x3ff0c152382d7366), (-0.9999, 0x40090504b722c141), (1e-09, 0x3ff921fb53ff74e9), (0.9999999, 0x3f3d4effc851e7f2), (-0.75, 0x400359d26f93b6c3)]),
    ("atan", Float::atan, 1, &[(0.5, 0x3fddac670561bb4f), (-1.1, 0xbfeaa7c8545183cd), (1e-09, 0x3e112e0be826d695), (1e+300, 0x3ff921fb54442d18), (3.3, 0x3ff46ccc069c173f)]),
    ("sinh", Float::sinh, 2, &[(0.5, 0x3fe0acd00fe63b97), (-1.1, 0xbff55ecfe1b2b215), (1e-09, 0x3e112e0be826d695), (710.2, 0x7fe84910bde1ee21), (22.5, 0x41e604b68cf05f66)]),
    ("cosh", Float::cosh, 2, &[(0.5, 0x3ff20ac1862ae8d0), (-1.1, 0x3ffab24082d6f911), (1e-09, 0x3ff0000000000000), (710.2, 0x7fe84910bde1ee21), (22.5, 0x41e604b68cf05f66)]),
    ("tanh", Float::tanh, 2, &[(0.5, 0x3fdd9353d7568af3), (-1.1, 0xbfe99db01fde2405), (1e-09, 0x3e112e0be826d695), (18.5, 0x3feffffffffffffe), (3.3, 0x3fefe9bdf44f7c03)]),
    ("sigmoid", Float::sigmoid, 5, &[(0.5, 0x3fe3eb2fd4d34391), (-1.1, 0x3fcff77a137cdbfa), (1e-09, 0x3fe0000000225c18), (18.5, 0x3feffffffb0a6a23), (-3.3, 0x3fa236630d362b36), (-40.25, 0x3c4e84430d66e9fb), (-710.5, 0x0001f3c9d0fbe022)]),
    ("erf", Float::erf, 1, &[(0.5, 0x3fe0a7ef5c18edd2), (-1.1, 0xbfec2aa3d27302c0), (1e-09, 0x3e1362a9ffc610dd), (3.3, 0x3feffff9966790c8), (5.5, 0x3fefffffffffffbe)]),
    ("erfc", Float::erfc, 4, &[(0.5, 0x3fdeb02147ce245c), (-1.1, 0x3ffe1551e9398160), (1e-09, 0x3fefffffff64eab0), (3.3, 0x3ec9a661bcdec4af), (26.9, 0x000000000163dc09)]),
];

/// As `UNARY`, for functions of two arguments.
pub type Binary = (&'static str, fn(f64, f64) -> f64, u64, &'static [(f64, f64, u64)]);

/// Each with its bound, and triples of arguments and result.
#[rustfmt::skip]
pub const BINARY: &[Binary] = &[
    ("powf", Float::powf, 1, &[(2.0, 0.5, 0x3ff6a09e667f3bcd), (1.0000001, 1000000000.0, 0x48f349445c228792), (1e-10, -30.7, 0x7fac7b1f3cac73a7), (3.3, -600.1, 0x00000145dde8d4ba), (-1.5, 7.0, 0xc031160000000000)]),
    ("atan2", Float::atan2, 2, &[(1.0, 2.0, 0x3fddac670561bb4f), (-0.001, -5.0, 0xc009219278b8981c), (4.0, -1e-08, 0x3ff921fb54eff98f), (1e+300, 1e-300, 0x3ff921fb54442d18)]),
    ("hypot", Float::hypot, 1, &[(3.0, 4.0, 0x4014000000000000), (1e+300, -1e+300, 0x7e40e4d50f99b211), (1e-310, 2e-310, 0x0000292991fdae04), (1.0, 1e-09, 0x3ff0000000000000)]),
];
