// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of floats: the bits of the library's own, of all numbers of 16 bits too.

use cuda_std::Float;
use cuda_std::float::narrow;

use super::*;

#[test]
fn functions_of_floats() {
    fn of<T: Number + warpsmith::ops::Real + expr::Value<Element = T>>() {
        let a = upload_vec(&random::<T>(2000, 5));
        let x = a.expr();
        for (what, expr, eager) in [
            ("sqrt", x.sqrt(), a.sqrt()),
            ("exp", x.exp(), a.exp()),
            ("ln", x.ln(), a.ln()),
            ("sin", x.sin(), a.sin()),
            ("cos", x.cos(), a.cos()),
            ("tanh", x.tanh(), a.tanh()),
            ("sigmoid", x.sigmoid(), a.sigmoid()),
        ] {
            check(&(expr, eager.unwrap()), what);
        }
    }
    of::<f32>();
    of::<f64>();
    of::<f16>();
    of::<bf16>();
}

/// All arguments: the results are those of the functions for 16-bit floats, rounded, on a GPU too, and so are the eager ones.
#[test]
fn functions_of_all_16_bit_floats() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let a = upload_vec(&all);
    let x = a.expr();
    let wanted = |function: fn(f32) -> f32| -> Vec<f16> {
        let of = |x: &f16| f16::from_f32(function(x.to_f32()));
        all.iter().map(of).collect()
    };
    type Function = fn(f32) -> f32;
    let functions: [(&str, Expr<'_, f16, IxDyn>, Function); 20] = [
        ("sqrt", x.sqrt(), narrow::sqrt),
        ("rsqrt", x.rsqrt(), narrow::rsqrt),
        ("cbrt", x.cbrt(), narrow::cbrt),
        ("recip", x.recip(), narrow::recip),
        ("exp", x.exp(), narrow::exp),
        ("exp2", x.exp2(), narrow::exp2),
        ("exp_m1", x.exp_m1(), narrow::expm1),
        ("ln", x.ln(), narrow::ln),
        ("log2", x.log2(), narrow::log2),
        ("log10", x.log10(), narrow::log10),
        ("sin", x.sin(), narrow::sin),
        ("cos", x.cos(), narrow::cos),
        ("tan", x.tan(), narrow::tan),
        ("acos", x.acos(), narrow::acos),
        ("sinh", x.sinh(), narrow::sinh),
        ("cosh", x.cosh(), narrow::cosh),
        ("tanh", x.tanh(), narrow::tanh),
        ("sigmoid", x.sigmoid(), narrow::sigmoid),
        ("erf", x.erf(), narrow::erf),
        ("erfc", x.erfc(), narrow::erfc),
    ];
    for (what, expr, function) in functions {
        assert_same(&elements(&expr.eval().unwrap()), &wanted(function), what);
    }
    for (what, eager, function) in [
        ("sqrt", a.sqrt(), narrow::sqrt as Function),
        ("exp", a.exp(), narrow::exp),
        ("ln", a.ln(), narrow::ln),
        ("sin", a.sin(), narrow::sin),
        ("cos", a.cos(), narrow::cos),
        ("tanh", a.tanh(), narrow::tanh),
        ("sigmoid", a.sigmoid(), narrow::sigmoid),
    ] {
        assert_same(&elements(&eager.unwrap()), &wanted(function), what);
    }
    // Quotients by numbers of all kinds.
    let divisors: Vec<f16> = (0..=u16::MAX)
        .map(|bits| f16::from_bits(bits.wrapping_mul(40_503)))
        .collect();
    let b = upload_vec(&divisors);
    let quotients = all
        .iter()
        .zip(&divisors)
        .map(|(a, b)| f16::from_f32(a.to_f32() / b.to_f32()));
    let quotients: Vec<f16> = quotients.collect();
    assert_same(&elements(&(&x / &b).eval().unwrap()), &quotients, "div");
    assert_same(&elements(&a.div(&b).unwrap()), &quotients, "eager div");
}

/// By powers of two, of which not all have a reciprocal that is one of the normal numbers, and by their neighbours.
#[test]
fn quotients_by_powers_of_two() {
    let mut x32: Vec<f32> = (0..4000u32)
        .map(|k| f32::from_bits(k.wrapping_mul(1_073_807)))
        .collect();
    x32.extend([
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        3e-45,
        -1e-45,
    ]);
    let mut x64: Vec<f64> = (0..4000u64)
        .map(|k| f64::from_bits(k.wrapping_mul(4_611_686_018_427_387)))
        .collect();
    x64.extend([
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN_POSITIVE,
        1.5e-323,
        -5e-324,
    ]);
    let (a, b) = (upload_vec(&x32), upload_vec(&x64));
    for power in [
        -1074, -1023, -1022, -149, -127, -126, -1, 0, 1, 10, 126, 127, 1022, 1023,
    ] {
        // One factor after another, since a power of 2 of that many is 0 or infinite.
        let two = (power as f64 / 2.0).floor().exp2() * (power as f64 / 2.0).ceil().exp2();
        for divisor in [two, -two, two * 1.000_001] {
            let what = format!("{divisor:e}");
            assert_same(
                &elements(&(&a / divisor as f32).eval().unwrap()),
                &elements(&a.div_scalar(divisor as f32).unwrap()),
                &what,
            );
            assert_same(
                &elements(&(&b / divisor).eval().unwrap()),
                &elements(&b.div_scalar(divisor).unwrap()),
                &what,
            );
        }
    }
    let half = upload_vec(&[bf16::from_f32(3.0), bf16::NAN, bf16::from_f32(1e-40)]);
    let quarter = bf16::from_f32(0.25);
    assert_same(
        &elements(&(&half / quarter).eval().unwrap()),
        &elements(&half.div_scalar(quarter).unwrap()),
        "bf16",
    );
}

#[test]
fn functions_of_all_numbers_of_bf16() {
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let a = upload_vec(&all);
    for (what, results, function) in [
        ("acos", a.expr().acos().eval(), narrow::acos as fn(f32) -> f32),
        ("erf", a.expr().erf().eval(), narrow::erf),
        ("tanh", a.expr().tanh().eval(), narrow::tanh),
        ("eager tanh", a.tanh(), narrow::tanh),
    ] {
        let wanted = all.iter().map(|x| bf16::from_f32(function(x.to_f32())));
        assert_same(&elements(&results.unwrap()), &wanted.collect::<Vec<_>>(), what);
    }
}

/// What was not rounded to 16 bits is given to the functions of `f32`.
#[test]
fn fast_math_of_functions_of_16_bit_floats() {
    let (a, b) = (upload_vec(&random::<f16>(1000, 1)), upload_vec(&random::<f16>(1000, 2)));
    let product = a.expr() * &b;
    let of = |function: fn(f32) -> f32| -> Vec<f16> {
        let pairs = elements(&a).into_iter().zip(elements(&b));
        pairs
            .map(|(a, b)| f16::from_f32(function(a.to_f32() * b.to_f32())))
            .collect()
    };
    for (what, expr, wanted) in [
        ("tanh", product.tanh(), of(Float::tanh)),
        ("sin", product.sin(), of(Float::sin)),
        ("recip", product.recip(), of(Float::recip)),
        ("div", f16::ONE / &product, of(Float::recip)),
        ("exp", product.exp(), of(Float::exp)),
    ] {
        assert_same(&elements(&expr.fast_math().eval().unwrap()), &wanted, what);
    }
}
