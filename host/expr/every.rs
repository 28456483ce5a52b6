// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every operation of one number and of two is there three times: as a method or an operator of expressions, as a method of arrays, and
//! in formulas; of three numbers, of expressions and in formulas. All give the same bits. An operation that is added does not compile
//! before it is listed here.

use std::ops;

use ndarray::{Ix1, array};

use super::graph::function::{Binary, Ternary, Unary};
use super::{AnyExpr, Expr, Formula, Value};
use crate::array::DeviceArray;
use crate::{Device, Result};

type Row<T> = DeviceArray<T, Ix1>;

/// What an expression gives, and what the method of an array does.
type Both<'a> = (AnyExpr<'a>, AnyExpr<'a>);

/// The type, and the elements' bytes.
fn computed(any: &AnyExpr<'_>) -> Result<(&'static str, Vec<u8>)> {
    macro_rules! bytes {
        ($($variant:ident)*) => {
            match any {
                $(AnyExpr::$variant(expr) => bytemuck::cast_slice(&expr.eval()?.to_vec()?).to_vec(),)*
            }
        };
    }
    let bytes = bytes!(Bool F32 F64 F16 Bf16 I32 I64 U8 U16 U32 U64);
    Ok((any.type_name(), bytes))
}

fn numbers<'a, T>(expr: Expr<'a, T, Ix1>, array: Result<Row<T>>) -> Result<Both<'a>>
where
    T: crate::Element + Value<Element = T>,
    AnyExpr<'a>: From<Expr<'a, T, Ix1>>,
{
    Ok((expr.into(), array?.into_expr().into()))
}

/// Arrays have masks of `u8`.
fn conditions<'a>(expr: Expr<'a, bool, Ix1>, mask: Result<Row<u8>>) -> Result<Both<'a>> {
    Ok((expr.into(), mask?.into_expr().not_equal(0).into()))
}

/// Of `x`, which has floats; an operation on bits is of `n`.
fn unary<'a>(operator: Unary, x: &'a Row<f32>, n: &'a Row<i32>) -> Result<Both<'a>> {
    macro_rules! methods {
        ($($variant:ident: $method:ident $both:ident),* $(,)?) => {
            match operator {
                Unary::Neg => numbers(-x.expr(), x.neg()),
                Unary::Not => numbers(!n.expr(), n.not()),
                $(Unary::$variant => $both(x.expr().$method(), x.$method()),)*
            }
        };
    }
    methods!(
        Abs: abs numbers, Square: square numbers, Relu: relu numbers,
        Sqrt: sqrt numbers, Rsqrt: rsqrt numbers, Cbrt: cbrt numbers, Recip: recip numbers,
        Exp: exp numbers, Exp2: exp2 numbers, ExpM1: exp_m1 numbers,
        Ln: ln numbers, Log2: log2 numbers, Log10: log10 numbers, Ln1p: ln_1p numbers,
        Sin: sin numbers, Cos: cos numbers, Tan: tan numbers,
        Asin: asin numbers, Acos: acos numbers, Atan: atan numbers,
        Sinh: sinh numbers, Cosh: cosh numbers, Tanh: tanh numbers,
        Sigmoid: sigmoid numbers, Erf: erf numbers, Erfc: erfc numbers,
        Floor: floor numbers, Ceil: ceil numbers, Round: round numbers, RoundTiesEven: round_ties_even numbers,
        Trunc: trunc numbers, Signum: signum numbers,
        Gelu: gelu numbers, GeluTanh: gelu_tanh numbers, Silu: silu numbers,
        IsNan: is_nan conditions, IsFinite: is_finite conditions, IsInfinite: is_infinite conditions,
    )
}

/// Of `x` and `y`, which have floats; operations on bits are of `n` and `m`.
fn binary<'a>(operator: Binary, [x, y]: [&'a Row<f32>; 2], [n, m]: [&'a Row<i32>; 2]) -> Result<Both<'a>> {
    match operator {
        Binary::Add => numbers(x + y, x.add(y)),
        Binary::Sub => numbers(x - y, x.sub(y)),
        Binary::Mul => numbers(x * y, x.mul(y)),
        Binary::Div => numbers(x / y, x.div(y)),
        Binary::Rem => numbers(ops::Rem::rem(x, y), x.rem(y)),
        Binary::Minimum => numbers(x.expr().minimum(y), x.minimum(y)),
        Binary::Maximum => numbers(x.expr().maximum(y), x.maximum(y)),
        Binary::Pow => numbers(x.expr().pow(y), x.pow(y)),
        Binary::Atan2 => numbers(x.expr().atan2(y), x.atan2(y)),
        Binary::Hypot => numbers(x.expr().hypot(y), x.hypot(y)),
        Binary::Copysign => numbers(x.expr().copysign(y), x.copysign(y)),
        Binary::BitAnd => numbers(ops::BitAnd::bitand(n, m), n.bitand(m)),
        Binary::BitOr => numbers(ops::BitOr::bitor(n, m), n.bitor(m)),
        Binary::BitXor => numbers(ops::BitXor::bitxor(n, m), n.bitxor(m)),
        Binary::Shl => numbers(n.expr().shl(m), n.shl(m)),
        Binary::Shr => numbers(n.expr().shr(m), n.shr(m)),
        Binary::Equal => conditions(x.expr().equal(y), x.equal(y)),
        Binary::NotEqual => conditions(x.expr().not_equal(y), x.not_equal(y)),
        Binary::Less => conditions(x.expr().less(y), x.less(y)),
        Binary::LessEqual => conditions(x.expr().less_equal(y), x.less_equal(y)),
    }
}

/// How a formula writes it.
fn text_of_unary(operator: Unary) -> String {
    match operator {
        Unary::Not => "~n".into(),
        _ => format!("{}(x)", operator.name()),
    }
}

/// How a formula writes it.
fn text_of_binary(operator: Binary) -> String {
    let symbol = match operator {
        Binary::Add => "x + y",
        Binary::Sub => "x - y",
        Binary::Mul => "x * y",
        Binary::Div => "x / y",
        Binary::BitAnd => "n & m",
        Binary::BitOr => "n | m",
        Binary::BitXor => "n ^ m",
        Binary::Shl => "n << m",
        Binary::Shr => "n >> m",
        Binary::Equal => "x == y",
        Binary::NotEqual => "x != y",
        Binary::Less => "x < y",
        Binary::LessEqual => "x <= y",
        _ => return format!("{}(x, y)", operator.name()),
    };
    symbol.into()
}

#[test]
fn every_operation_is_one_of_expressions_of_arrays_and_of_formulas() -> Result<()> {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = array![0.5f32, -1.5, 0.0, -0.0, 2.5, f32::INFINITY, f32::NAN, 700.0, 1e-40];
    let y = array![0.5f32, 2.0, -0.0, 3.0, 0.0, 1.0, 1.0, -0.25, -3.0];
    let (n, m) = (array![5i32, -5, i32::MIN, 7], array![3i32, 1, 31, 40]);
    let [x, y] = [x, y].map(|array| DeviceArray::from_ndarray(stream, &array));
    let [n, m] = [n, m].map(|array| DeviceArray::from_ndarray(stream, &array));
    let (x, y, n, m) = (x?, y?, n?, m?);
    let names = || {
        let floats = [("x", &x), ("y", &y)].map(|(name, array)| (name, AnyExpr::from(array.expr())));
        let integers = [("n", &n), ("m", &m)].map(|(name, array)| (name, AnyExpr::from(array.expr())));
        floats.into_iter().chain(integers).collect::<Vec<_>>()
    };
    let check_formula = |text: &str, expr: &AnyExpr<'_>| -> Result<()> {
        let formula = Formula::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let formula = formula
            .apply(&names())
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(computed(&formula)?, computed(expr)?, "{text}, as a formula");
        Ok(())
    };
    let check = |text: String, (expr, array): Both<'_>| -> Result<()> {
        assert_eq!(computed(&array)?, computed(&expr)?, "{text}, of arrays");
        check_formula(&text, &expr)
    };
    for &operator in Unary::ALL {
        check(text_of_unary(operator), unary(operator, &x, &n)?)?;
    }
    for &operator in Binary::ALL {
        check(text_of_binary(operator), binary(operator, [&x, &y], [&n, &m])?)?;
    }
    // Those of arrays are not the same: `clamp` is by two numbers, and `select` by a mask of `u8`.
    for &operator in Ternary::ALL {
        let (text, expr) = match operator {
            Ternary::MulAdd => ("mul_add(x, y, x)", x.expr().mul_add(&y, &x)),
            Ternary::Clamp => ("clamp(x, y, x)", x.expr().clamp(&y, &x)),
            Ternary::Select => ("select(x < y, x, y)", x.expr().less(&y).select(&x, &y)),
        };
        check_formula(text, &expr.into())?;
    }
    Ok(())
}
