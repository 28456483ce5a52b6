// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and shapes at the edge of what operations are defined for, against Rust's operations on each number, and ndarray's shapes.

use ndarray::{Array0, Array1, Array2, Axis, Ix1, Ix2, arr0, array, s};
use warpsmith::expr::{self, Expr, Value};
use warpsmith::{DeviceArray, bf16, f16};

use crate::common::*;

const FLOATS: [f32; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.0,
    3.0,
    -3.0,
    1e-45,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    16_777_217.0,
];

type Row = DeviceArray<f32, Ix1>;

/// A row of numbers.
fn row_of<T: Number>(numbers: &[T]) -> DeviceArray<T, Ix1> {
    upload(&Array1::from(numbers.to_vec()))
}

fn values<T: Number + Value<Element = T>>(expression: Expr<'_, T, Ix1>) -> Vec<T> {
    elements(&expression.eval().unwrap())
}

fn conditions(expression: Expr<'_, bool, Ix1>) -> Vec<bool> {
    elements(&expression.eval().unwrap())
        .iter()
        .map(|&is| is != 0)
        .collect()
}

/// Each with each.
fn pairs() -> (Row, Row, Vec<(f32, f32)>) {
    let all: Vec<_> = FLOATS.iter().flat_map(|&a| FLOATS.map(|b| (a, b))).collect();
    let (a, b): (Vec<_>, Vec<_>) = all.iter().copied().unzip();
    (row_of(&a), row_of(&b), all)
}

#[test]
fn comparisons_and_extremes_of_odd_floats() {
    let (x, y, all) = pairs();
    let of = |function: fn(f32, f32) -> bool| all.iter().map(|&(a, b)| function(a, b)).collect::<Vec<_>>();
    assert_eq!(conditions(x.expr().less(&y)), of(|a, b| a < b));
    assert_eq!(conditions(x.expr().less_equal(&y)), of(|a, b| a <= b));
    assert_eq!(conditions(x.expr().greater(&y)), of(|a, b| a > b));
    assert_eq!(conditions(x.expr().greater_equal(&y)), of(|a, b| a >= b));
    assert_eq!(conditions(x.expr().equal(&y)), of(|a, b| a == b));
    assert_eq!(conditions(x.expr().not_equal(&y)), of(|a, b| a != b));
    // Not the opposite of greater, where there is a NaN.
    assert_ne!(conditions(!x.expr().greater(&y)), conditions(x.expr().less_equal(&y)));
    for (got, is_less) in [(x.expr().minimum(&y), true), (x.expr().maximum(&y), false)] {
        for (got, &(a, b)) in values(got).into_iter().zip(&all) {
            if a.is_nan() || b.is_nan() {
                assert!(got.is_nan(), "of {a} and {b}");
            } else {
                let wanted = if (a < b) == is_less { a } else { b };
                assert_eq!(got, wanted, "of {a} and {b}");
            }
        }
    }
}

/// What is known when an expression is written may be computed then: with the bits of arrays.
#[test]
fn odd_numbers_have_the_bits_of_odd_arrays() {
    let (x, y, all) = pairs();
    type Operation = (
        &'static str,
        for<'a> fn(Expr<'a, f32, Ix1>, Expr<'a, f32, Ix1>) -> Expr<'a, f32, Ix1>,
    );
    let operations: [Operation; 9] = [
        ("+", |a, b| a + b),
        ("-", |a, b| a - b),
        ("*", |a, b| a * b),
        ("/", |a, b| a / b),
        ("%", |a, b| a % b),
        ("pow", |a, b| a.pow(b)),
        ("minimum", |a, b| a.minimum(b)),
        ("maximum", |a, b| a.maximum(b)),
        ("atan2", |a, b| a.atan2(b)),
    ];
    let stream = device().default_stream();
    for (what, operation) in operations {
        let wanted = values(operation(x.expr(), y.expr()));
        for (k, &(a, b)) in all.iter().enumerate().step_by(7) {
            let one = |number: f32| expr::scalar(number).insert_axis(Axis(0));
            let got = elements(&operation(one(a), one(b)).eval_on(stream).unwrap())[0];
            assert!(
                got.to_bits() == wanted[k].to_bits() || got.is_nan() && wanted[k].is_nan(),
                "{a} {what} {b}: {got}, of arrays {}",
                wanted[k]
            );
        }
    }
    let remainders = values(x.expr() % &y);
    for (got, (a, b)) in remainders.into_iter().zip(all) {
        let wanted = a % b;
        assert!(
            got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
            "{a} % {b}: {got}"
        );
    }
}

#[test]
fn powers_of_negative_numbers_and_of_nothing() {
    let cases = [
        (-8.0f32, 1.0 / 3.0),
        (-2.0, 3.0),
        (-2.0, 2.0),
        (-2.0, -3.0),
        (0.0, 0.0),
        (-0.0, -1.0),
        (-0.0, -2.0),
        (0.0, -1.0),
        (f32::NAN, 0.0),
        (1.0, f32::NAN),
        (-1.0, f32::INFINITY),
        (f32::NEG_INFINITY, 3.0),
        (f32::NEG_INFINITY, -3.0),
        (0.5, f32::NEG_INFINITY),
    ];
    let (a, b): (Vec<_>, Vec<_>) = cases.iter().copied().unzip();
    let (x, y) = (row_of(&a), row_of(&b));
    for (got, (a, b)) in values(x.expr().pow(&y)).into_iter().zip(cases) {
        let wanted = a.powf(b);
        assert!(
            got == wanted && got.is_sign_positive() == wanted.is_sign_positive() || got.is_nan() && wanted.is_nan(),
            "{a}^{b}: {got}, wanted {wanted}"
        );
    }
    let (x, y) = (
        row_of(&[2i32, -1, 1, 0, 0, 3, -2]),
        row_of(&[-1i32, -3, -9, -1, 0, 40, 3]),
    );
    assert_eq!(values(x.expr().pow(&y)), [0, -1, 1, 0, 1, 3i32.wrapping_pow(40), -8]);
}

#[test]
fn integers_wrap_and_divide_by_zero() {
    let (a, b) = (row_of(&[250u8, 3, 255, 7, 0]), row_of(&[10u8, 5, 255, 0, 0]));
    assert_eq!(values(a.expr() + &b), [4, 8, 254, 7, 0]);
    assert_eq!(values(a.expr() - &b), [240, 254, 0, 7, 0]);
    assert_eq!(values(a.expr() * &b), [196, 15, 1, 0, 0]);
    assert_eq!(values(a.expr() / &b), [25, 0, 1, 0, 0]);
    assert_eq!(values(a.expr() % &b), [0, 3, 0, 0, 0]);
    assert_eq!(values(-a.expr()), [6, 253, 1, 249, 0]);
    let (a, b) = (row_of(&[i32::MIN, i32::MIN, 7, -7, 7]), row_of(&[-1, 0, -2, 2, 0]));
    assert_eq!(values(a.expr() / &b), [i32::MIN, 0, -3, -3, 0]);
    // Rust's sign, that of what is divided.
    assert_eq!(values(a.expr() % &b), [0, 0, 1, -1, 0]);
    assert_eq!(values(a.expr().abs()), [i32::MIN, i32::MIN, 7, 7, 7]);
    assert_eq!(values(-a.expr()), [i32::MIN, i32::MIN, -7, 7, -7]);
    // The same where the divisor is a number of the expression's own.
    assert_eq!(values(a.expr() / 0), [0; 5]);
    assert_eq!(values(a.expr() % 0), [0; 5]);
    assert_eq!(values(a.expr() / -1), [i32::MIN, i32::MIN, -7, 7, -7]);
}

/// As NumPy's, and not modulo the width as a processor's.
#[test]
fn shifts_by_the_width_and_more() {
    let (a, by) = (row_of(&[1u8, 255, 129, 1]), row_of(&[8u8, 9, 7, 255]));
    assert_eq!(values(a.expr().shl(&by)), [0, 0, 128, 0]);
    assert_eq!(values(a.expr().shr(&by)), [0, 0, 1, 0]);
    let (a, by) = (row_of(&[-8i32, -8, 1, i32::MIN]), row_of(&[1, 33, 32, -1]));
    assert_eq!(values(a.expr().shr(&by)), [-4, -1, 0, -1]);
    assert_eq!(values(a.expr().shl(&by)), [-16, 0, 0, 0]);
    let (a, by) = (row_of(&[1u64, u64::MAX]), row_of(&[64u64, 63]));
    assert_eq!(values(a.expr().shl(&by)), [0, 1 << 63]);
}

#[test]
fn casts_out_of_range() {
    let odd = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -1.5,
        300.7,
        -0.0,
        4_294_967_296.0,
        255.99,
        -128.9,
        1e30,
    ];
    let x = row_of(&odd);
    assert_eq!(values(x.expr().cast::<u8>()), odd.map(|x| x as u8));
    assert_eq!(values(x.expr().cast::<u16>()), odd.map(|x| x as u16));
    assert_eq!(values(x.expr().cast::<i32>()), odd.map(|x| x as i32));
    assert_eq!(values(x.expr().cast::<u32>()), odd.map(|x| x as u32));
    assert_eq!(values(x.expr().cast::<i64>()), odd.map(|x| x as i64));
    assert_eq!(values(x.expr().cast::<u64>()), odd.map(|x| x as u64));
    let bits = |x: Vec<f16>| x.into_iter().map(f16::to_bits).collect::<Vec<_>>();
    let large = row_of(&[65_519.9f32, 65_520.0, -70_000.0, 6e-8, 2e-8]);
    let wanted = [65_504.0, f32::INFINITY, f32::NEG_INFINITY, 6e-8, 0.0].map(f16::from_f32);
    assert_eq!(bits(values(large.expr().cast::<f16>())), wanted.map(f16::to_bits));
    let x = row_of(&[i64::MIN, -1, 1 << 40 | 5, i64::MAX]);
    assert_eq!(values(x.expr().cast::<i32>()), [0, -1, 5, -1]);
    assert_eq!(values(x.expr().cast::<u8>()), [0, 255, 5, 255]);
    assert_eq!(
        values(x.expr().cast::<f32>()),
        [i64::MIN as f32, -1.0, (1i64 << 40 | 5) as f32, i64::MAX as f32]
    );
    // Halfway, to even; and numbers that f32 would round first.
    let x = row_of(&[u64::MAX, (1 << 53) + 1, 2_147_483_648 + 128 + 1]);
    assert_eq!(
        values(x.expr().cast::<f64>()),
        [u64::MAX as f64, 9_007_199_254_740_992.0, 2_147_483_777.0]
    );
    let narrowed: Vec<u16> = values(x.expr().cast::<bf16>()).into_iter().map(bf16::to_bits).collect();
    assert_eq!(narrowed[0], bf16::from_f64(u64::MAX as f64).to_bits());
    assert_eq!(values(x.expr().not_equal(0).cast::<u8>()), [1; 3]);
}

#[test]
fn sixteen_bits_overflow_and_mixtures_do_not() {
    let (x, y) = (
        row_of(&[60_000.0, -60_000.0].map(f16::from_f32)),
        row_of(&[2.0f32, 2.0]),
    );
    assert_eq!(
        values(x.expr() * f16::from_f32(2.0)),
        [f16::INFINITY, f16::NEG_INFINITY]
    );
    assert_eq!(
        values(x.expr() * &y),
        [120_000.0, -120_000.0].map(|x: f32| (x / 120_000.0) * 2.0 * f16::from_f32(60_000.0).to_f32())
    );
    let brain = row_of(&[bf16::ONE, bf16::ONE]);
    assert_eq!(
        values(x.expr() + &brain),
        [60_001.0, -59_999.0].map(|x: f32| if x > 0.0 {
            f16::from_f32(60_000.0).to_f32() + 1.0
        } else {
            -f16::from_f32(60_000.0).to_f32() + 1.0
        })
    );
    let (narrow, wide) = (row_of(&[200u8, 1]), row_of(&[-300i32, 70_000]));
    assert_eq!(values(narrow.expr() + &wide), [-100, 70_001]);
    let unsigned = row_of(&[4_000_000_000u32, 1]);
    assert_eq!(values(unsigned.expr() - &wide), [4_000_000_300i64, -69_999]);
    assert_eq!(
        values(row_of(&[u64::MAX, 3]).expr() + row_of(&[1.0f64, 1.0]).expr()),
        [18_446_744_073_709_551_616.0, 4.0]
    );
}

#[test]
fn nothing_and_numbers_alone() {
    let stream = device().default_stream();
    let none = DeviceArray::<f32, Ix2>::zeros(stream, (0, 3)).unwrap();
    let row = row_of(&[1.0f32, 2.0, 3.0]);
    let sum = (none.expr() + &row).eval().unwrap();
    assert_eq!((sum.shape(), elements(&sum)), (&[0, 3][..], vec![]));
    assert_eq!(elements(&none.expr().sum_axis(Axis(0)).eval().unwrap()), [0.0; 3]);
    assert_eq!(elements(&none.expr().sum_axis(Axis(1)).eval().unwrap()), []);
    assert_eq!(
        none.expr().square().sum().eval().unwrap().to_ndarray().unwrap(),
        arr0(0.0)
    );
    assert!(
        none.expr()
            .is_finite()
            .all()
            .eval()
            .unwrap()
            .to_ndarray()
            .unwrap()
            .into_scalar()
            != 0
    );
    assert_eq!(elements(&expr::index((0, 3), 1).eval_on(stream).unwrap()), []);
    assert_eq!(elements(&expr::index(0, 0).eval_on(stream).unwrap()), []);
    assert_eq!(elements(&DeviceArray::<i32, _>::range(stream, 0, 0, 1).unwrap()), []);
    let (a, b) = (upload(&arr0(2.0f32)), upload(&arr0(3.0f32)));
    let mut both: DeviceArray<f32, _> = (&a + &b).eval().unwrap();
    both.update(|x| x * 2.0).unwrap();
    assert_eq!(both.to_ndarray().unwrap(), Array0::from_elem((), 10.0));
    // A number of no axes beside an array of nothing is nothing, and beside one element is it.
    assert_eq!((none.expr() * &a).eval().unwrap().shape(), [0, 3]);
    assert_eq!(
        elements(&(row.slice(s![..1]).unwrap().expr() * &a).eval().unwrap()),
        [2.0]
    );
}

#[test]
fn views_that_go_backwards_and_repeat() {
    let table = Array2::from_shape_fn((5, 7), |(i, j)| (i * 7 + j) as f32);
    let row: Array1<f32> = array![1.0, 10.0, 100.0, 1000.0];
    let (x, r) = (upload(&table), upload(&row));
    let (backwards, every) = (x.slice(s![..;-1, ..;-2]).unwrap(), x.slice(s![.., ..;2]).unwrap());
    let reversed = r.slice(s![..;-1]).unwrap();
    let wide = reversed.broadcast((5, 4)).unwrap();
    let got = (backwards.expr() * &reversed + every.expr() - &wide).eval().unwrap();
    let wanted = &table.slice(s![..;-1, ..;-2]) * &row.slice(s![..;-1]) + table.slice(s![.., ..;2])
        - row.slice(s![..;-1]).broadcast((5, 4)).unwrap();
    assert_same(&elements(&got), wanted.as_slice().unwrap(), "views");
    let sums = (backwards.expr() * &wide).sum_axis(Axis(0)).eval().unwrap();
    let wanted = (&table.slice(s![..;-1, ..;-2]) * &row.slice(s![..;-1])).sum_axis(Axis(0));
    assert_same(&elements(&sums), wanted.as_slice().unwrap(), "sums");
    // What is written is a part that goes backwards, of the array's other half.
    let mut all = upload(&table);
    let (upper, mut lower) = {
        let copy = all.slice(s![..2, ..]).unwrap().to_array().unwrap();
        (copy, all.slice_mut(s![3..;-1, ..;-1]).unwrap())
    };
    lower.update(|lower| lower * 2.0 + upper.expr()).unwrap();
    let mut wanted = table.clone();
    let above = table.slice(s![..2, ..]);
    let mut part = wanted.slice_mut(s![3..;-1, ..;-1]);
    part.zip_mut_with(&above, |x, above| *x = *x * 2.0 + above);
    assert_same(&elements(&all), wanted.as_slice().unwrap(), "in place");
}
